//! Queue pairs: made, connected, posted to.

use core::ffi::c_int;
use core::ptr::{self, NonNull};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use abi::{
    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM, Plain, ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp,
    ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wr_atomic,
    ibv_wr_rdma, ibv_wr_target, ibv_wr_ud,
};
use rdma::{
    Access, Gid, Key, Mtu, Operation, Psn, QKey, QpType, Qpn, RecvRequest, SendFlags, Sge,
    UdAddress, WorkRequest,
};
use smallvec::SmallVec;

use crate::context::PORT;
use crate::{CompletionQueue, Error, GidEntry, Pd};

/// The bits of `enum ibv_qp_attr_mask` and the states of `enum ibv_qp_state` that bring a queue pair up.
mod bits {
    pub(super) const STATE: u32 = 1;
    pub(super) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const QKEY: u32 = 1 << 6;
    pub(super) const AV: u32 = 1 << 7;
    pub(super) const PATH_MTU: u32 = 1 << 8;
    pub(super) const TIMEOUT: u32 = 1 << 9;
    pub(super) const RETRY_CNT: u32 = 1 << 10;
    pub(super) const RNR_RETRY: u32 = 1 << 11;
    pub(super) const RQ_PSN: u32 = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(super) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(super) const SQ_PSN: u32 = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(super) const DEST_QPN: u32 = 1 << 20;

    pub(super) const INIT: u32 = 1;
    pub(super) const RTR: u32 = 2;
    pub(super) const RTS: u32 = 3;
}

/// Timers that are usual: as [`rdma`]'s other worlds have them.
const TIMEOUT: u8 = 14;
const RETRY_COUNT: u8 = 7;
const RNR_RETRY: u8 = 7;
const MIN_RNR_TIMER: u8 = 12;

/// What a queue pair is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairSpec {
    /// RC, UC or UD.
    pub kind: QpType,
    /// Send requests that it holds.
    pub send_depth: u32,
    /// Receive requests that it holds.
    pub recv_depth: u32,
    /// Pieces of a request.
    pub sges: u32,
    /// Bytes of inline data of a request.
    pub inline_bytes: u32,
}

/// The other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Our address.
    pub source: GidEntry,
    /// The peer's.
    pub gid: Gid,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
    /// At most that of both ports.
    pub path_mtu: Mtu,
    /// The peer's queue pair.
    pub destination: Qpn,
    /// The PSN that the peer sends first.
    pub rq_psn: Psn,
    /// The PSN that we send first.
    pub sq_psn: Psn,
    /// READs and atomics outstanding, each way.
    pub rd_atomics: u8,
    /// Of datagrams.
    pub q_key: QKey,
}

/// A queue pair.
#[derive(Debug)]
pub struct QueuePair {
    pd: Arc<Pd>,
    raw: NonNull<ibv_qp>,
    kind: QpType,
    /// Kept as long as the queue pair.
    _queues: [Arc<CompletionQueue>; 2],
    /// Address handles by destination and path; datagrams that are posted may use them to the end.
    handles: Mutex<BTreeMap<(Gid, u8, u8, u32), Handle>>,
    /// Where datagrams come from.
    source: Mutex<Option<GidEntry>>,
}

#[derive(Clone, Copy, Debug)]
struct Handle(NonNull<ibv_ah>);

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for QueuePair {}
// SAFETY: the same.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// Makes one.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(
        pd: &Arc<Pd>,
        spec: &QueuePairSpec,
        send: &Arc<CompletionQueue>,
        recv: &Arc<CompletionQueue>,
    ) -> Result<Self, Error> {
        let mut attr = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: send.raw.as_ptr(),
            recv_cq: recv.raw.as_ptr(),
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: spec.send_depth,
                max_recv_wr: spec.recv_depth,
                max_send_sge: spec.sges,
                max_recv_sge: spec.sges,
                max_inline_data: spec.inline_bytes,
            },
            qp_type: match spec.kind {
                QpType::Rc => IBV_QPT_RC,
                QpType::Uc => IBV_QPT_UC,
                QpType::Ud => IBV_QPT_UD,
                _ => return Err(Error::new("only RC, UC and UD queue pairs can be made")),
            },
            sq_sig_all: 0,
        };
        // SAFETY: a live domain and live queues, and a structure that is as its man page wants it.
        let raw = unsafe { (pd.context.library.calls.ibv_create_qp)(pd.raw.as_ptr(), &mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_qp"))?;
        Ok(Self {
            pd: Arc::clone(pd),
            raw,
            kind: spec.kind,
            _queues: [Arc::clone(send), Arc::clone(recv)],
            handles: Mutex::default(),
            source: Mutex::default(),
        })
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        // SAFETY: a live queue pair, whose number does not change.
        Qpn::new(unsafe { (*self.raw.as_ptr()).qp_num })
    }

    /// Brings it up to RTS, connected to the other end; a UD queue pair to none.
    ///
    /// # Errors
    /// The device refuses one of the three changes.
    pub fn connect(&self, with: &Connection) -> Result<(), Error> {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(with.source);
        let is_ud = self.kind == QpType::Ud;
        let is_rc = self.kind == QpType::Rc;
        let mut attr = ibv_qp_attr::zeroed();
        attr.port_num = PORT;
        attr.qkey = with.q_key.0;
        attr.qp_access_flags =
            (Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC).bits();
        if !is_rc {
            attr.qp_access_flags = Access::REMOTE_WRITE.bits();
        }
        attr.ah_attr = path(with.source, with.gid, with.traffic_class, with.hop_limit, 0);
        attr.path_mtu = with.path_mtu.code().into();
        attr.dest_qp_num = with.destination.value();
        (attr.rq_psn, attr.sq_psn) = (with.rq_psn.value(), with.sq_psn.value());
        (attr.max_dest_rd_atomic, attr.max_rd_atomic) = (with.rd_atomics, with.rd_atomics);
        attr.min_rnr_timer = MIN_RNR_TIMER;
        (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (TIMEOUT, RETRY_COUNT, RNR_RETRY);

        let of_init = if is_ud { bits::QKEY } else { bits::ACCESS_FLAGS };
        let init = bits::PKEY_INDEX | bits::PORT | of_init;
        let mut rtr = 0;
        if !is_ud {
            rtr |= bits::AV | bits::PATH_MTU | bits::DEST_QPN | bits::RQ_PSN;
        }
        let mut rts = bits::SQ_PSN;
        if is_rc {
            rtr |= bits::MAX_DEST_RD_ATOMIC | bits::MIN_RNR_TIMER;
            rts |= bits::TIMEOUT | bits::RETRY_CNT | bits::RNR_RETRY | bits::MAX_QP_RD_ATOMIC;
        }
        for (state, mask, name) in
            [(bits::INIT, init, "INIT"), (bits::RTR, rtr, "RTR"), (bits::RTS, rts, "RTS")]
        {
            attr.qp_state = state;
            let mask = (mask | bits::STATE) as c_int;
            let modify = self.pd.context.library.calls.ibv_modify_qp;
            // SAFETY: a live queue pair, a readable structure.
            let result = unsafe { modify(self.raw.as_ptr(), &mut attr, mask) };
            if result != 0 {
                return Err(Error::number(&format!("ibv_modify_qp to {name}"), result));
            }
        }
        Ok(())
    }

    /// Posts send requests as one list.
    ///
    /// # Errors
    /// The place of the first that was refused, and why.
    pub fn post_send(&self, requests: &[WorkRequest<'_>]) -> Result<(), (usize, Error)> {
        let mut sges: SmallVec<[ibv_sge; 8]> = SmallVec::new();
        for request in requests {
            match request.inline {
                // The device copies inline data from where the pieces say, whatever their key.
                Some(data) => sges.push(ibv_sge {
                    addr: data.as_ptr().expose_provenance() as u64,
                    length: data.len() as u32,
                    lkey: 0,
                }),
                None => sges.extend(request.sges.iter().map(sge)),
            }
        }
        let mut list: SmallVec<[ibv_send_wr; 8]> = SmallVec::new();
        let pieces = sges.as_mut_ptr();
        let mut at = 0;
        for (index, request) in requests.iter().enumerate() {
            let count = if request.inline.is_some() { 1 } else { request.sges.len() };
            let mut wr = self.request(request).map_err(|error| (index, error))?;
            wr.sg_list = pieces.wrapping_add(at);
            wr.num_sge = count as c_int;
            at += count;
            list.push(wr);
        }
        let Some(first) = chain(&mut list, |wr, next| wr.next = next) else { return Ok(()) };
        let mut bad = ptr::null_mut();
        // SAFETY: a live queue pair, whose context has its operations, and a list whose pieces and inline
        // data are readable until the call returns.
        let result = unsafe {
            let post = (*(*self.raw.as_ptr()).context).ops.post_send;
            let post = post.ok_or((0, Error::new("the device posts no requests")))?;
            post(self.raw.as_ptr(), first, &mut bad)
        };
        posted("ibv_post_send", result, &list, bad)
    }

    /// Posts receive requests as one list.
    ///
    /// # Errors
    /// As [`QueuePair::post_send`].
    pub fn post_recv(&self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, Error)> {
        let mut sges: SmallVec<[ibv_sge; 16]> =
            requests.iter().flat_map(|request| request.sges.iter().map(sge)).collect();
        let pieces = sges.as_mut_ptr();
        let mut at = 0;
        let mut list: SmallVec<[ibv_recv_wr; 16]> = SmallVec::new();
        for request in requests {
            list.push(ibv_recv_wr {
                wr_id: request.id,
                next: ptr::null_mut(),
                sg_list: pieces.wrapping_add(at),
                num_sge: request.sges.len() as c_int,
            });
            at += request.sges.len();
        }
        let Some(first) = chain(&mut list, |wr, next| wr.next = next) else { return Ok(()) };
        let mut bad = ptr::null_mut();
        // SAFETY: as above.
        let result = unsafe {
            let post = (*(*self.raw.as_ptr()).context).ops.post_recv;
            let post = post.ok_or((0, Error::new("the device posts no receives")))?;
            post(self.raw.as_ptr(), first, &mut bad)
        };
        posted("ibv_post_recv", result, &list, bad)
    }

    /// A request in C, without its pieces.
    fn request(&self, request: &WorkRequest<'_>) -> Result<ibv_send_wr, Error> {
        // Else the device would copy from wherever the pieces say.
        if request.inline.is_some() != request.flags.contains(SendFlags::INLINE) {
            return Err(Error::number("ibv_post_send", libc::EINVAL));
        }
        let mut wr = ibv_send_wr::zeroed();
        wr.wr_id = request.id;
        wr.send_flags = request.flags.bits();
        let rdma = |remote_addr: u64, key: Key| ibv_wr_target {
            rdma: ibv_wr_rdma { remote_addr, rkey: key.0 },
        };
        let atomic = |remote_addr: u64, key: Key, compare_add: u64, swap: u64| ibv_wr_target {
            atomic: ibv_wr_atomic { remote_addr, compare_add, swap, rkey: key.0 },
        };
        wr.opcode = match request.operation {
            Operation::Send { immediate, address } => {
                if let Some(address) = address {
                    wr.wr.ud = self.datagram(&address)?;
                }
                wr.imm_data = u32::from_ne_bytes(immediate.unwrap_or_default());
                if immediate.is_some() { IBV_WR_SEND_WITH_IMM } else { IBV_WR_SEND }
            }
            Operation::Write { remote_address, r_key, immediate } => {
                wr.wr = rdma(remote_address, r_key);
                wr.imm_data = u32::from_ne_bytes(immediate.unwrap_or_default());
                if immediate.is_some() { IBV_WR_RDMA_WRITE_WITH_IMM } else { IBV_WR_RDMA_WRITE }
            }
            Operation::Read { remote_address, r_key } => {
                wr.wr = rdma(remote_address, r_key);
                IBV_WR_RDMA_READ
            }
            Operation::CompareSwap { remote_address, r_key, compare, swap } => {
                wr.wr = atomic(remote_address, r_key, compare, swap);
                IBV_WR_ATOMIC_CMP_AND_SWP
            }
            Operation::FetchAdd { remote_address, r_key, add } => {
                wr.wr = atomic(remote_address, r_key, add, 0);
                IBV_WR_ATOMIC_FETCH_AND_ADD
            }
            _ => return Err(Error::number("ibv_post_send", libc::EOPNOTSUPP)),
        };
        Ok(wr)
    }

    fn datagram(&self, address: &UdAddress) -> Result<ibv_wr_ud, Error> {
        let source = *self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let source = source.ok_or_else(|| Error::number("ibv_post_send", libc::EINVAL))?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let &UdAddress { gid, traffic_class, hop_limit, flow_label, .. } = address;
        let key = (gid, traffic_class, hop_limit, flow_label);
        let handle = match handles.get(&key) {
            Some(handle) => *handle,
            None => {
                let mut attr = path(source, gid, traffic_class, hop_limit, flow_label);
                let calls = &self.pd.context.library.calls;
                // SAFETY: a live domain, a readable structure.
                let raw = unsafe { (calls.ibv_create_ah)(self.pd.raw.as_ptr(), &mut attr) };
                let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_ah"))?;
                handles.insert(key, Handle(raw));
                Handle(raw)
            }
        };
        Ok(ibv_wr_ud {
            ah: handle.0.as_ptr(),
            remote_qpn: address.qpn.value(),
            remote_qkey: address.q_key.0,
        })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let calls = &self.pd.context.library.calls;
        // SAFETY: a live queue pair; then handles that nothing uses any more.
        unsafe {
            (calls.ibv_destroy_qp)(self.raw.as_ptr());
            for handle in self.handles.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
                (calls.ibv_destroy_ah)(handle.0.as_ptr());
            }
        }
    }
}

fn sge(piece: &Sge) -> ibv_sge {
    ibv_sge { addr: piece.address, length: piece.length, lkey: piece.l_key.0 }
}

/// The path to `gid`. On RoCE every path is global (IBTA annex A17.4.4).
fn path(
    source: GidEntry,
    gid: Gid,
    traffic_class: u8,
    hop_limit: u8,
    flow_label: u32,
) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: gid.0 },
            flow_label,
            sgid_index: source.index,
            hop_limit,
            traffic_class,
        },
        dlid: 0,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 1,
        port_num: PORT,
    }
}

/// Makes a list of requests that lie beside each other; `None` if there is none.
fn chain<W>(list: &mut [W], mut link: impl FnMut(&mut W, *mut W)) -> Option<*mut W> {
    let first = list.as_mut_ptr();
    for index in 1..list.len() {
        // Within the list, and all from the one pointer, so that each stays valid.
        let next = first.wrapping_add(index);
        // SAFETY: the element before is within the list, which nobody else uses now.
        link(unsafe { &mut *first.wrapping_add(index - 1) }, next);
    }
    (!list.is_empty()).then_some(first)
}

/// The outcome of posting a list.
fn posted<W>(call: &str, result: c_int, list: &[W], bad: *mut W) -> Result<(), (usize, Error)> {
    if result == 0 {
        return Ok(());
    }
    let index = bad.addr().saturating_sub(list.as_ptr().addr()) / size_of::<W>();
    let index = if bad.is_null() { 0 } else { index.min(list.len() - 1) };
    Err((index, Error::number(call, result)))
}
