//! Queue pairs: `ibv_create_qp`, `ibv_modify_qp`, `ibv_query_qp`.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use rdma::{QpState, QpType, Qpn};
use transport::QpSpec;

use crate::abi::{
    self, Plain, ibv_context, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_qp_open_attr,
};
use crate::context::Context;
use crate::cq::Cq;
use crate::ece::Ece;
use crate::errno::{Errno, pointer, status};
use crate::event::Acks;
use crate::pd::Pd;
use crate::qp_attr;
use crate::qp_ex::{self, Builder};
use crate::registry::{self, Hot, Live, Mark, Object, Shared, Table};
use crate::srq::Srq;
use crate::xrcd::Xrcd;

/// A queue pair.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) c: Shared<ibv_qp_ex>,
    mark: Mark,
    pub(crate) context: Arc<Context>,
    pub(crate) qpn: Qpn,
    pub(crate) kind: QpType,
    /// How many handles the queue pair has: an XRC target may be opened several times.
    handles: Arc<AtomicU32>,
    /// What was agreed with the peer by Enhanced Connection Establishment.
    pub(crate) ece: Ece,
    pub(crate) acks: Arc<Acks>,
    /// What `ibv_wr_start` began; queue pairs made without `send_ops_flags` have none.
    pub(crate) builder: Option<Builder>,
    /// What the queue pair refers to, and what therefore cannot be destroyed before it.
    _uses: Uses,
}

/// The domain of an XRC target; or protection domain, completion queues and shared receive queue.
#[derive(Debug)]
enum Uses {
    Target { _xrcd: Arc<Xrcd> },
    Other { _pd: Arc<Pd>, _send_cq: Arc<Cq>, _recv_cq: Arc<Cq>, _srq: Option<Arc<Srq>> },
}

impl Object for Qp {
    type C = ibv_qp;

    fn table(live: &mut Live) -> &mut Table<Self> {
        &mut live.qps
    }

    fn c(&self) -> *mut ibv_qp {
        self.c.get().cast()
    }

    fn context(&self) -> Option<&Arc<Context>> {
        Some(&self.context)
    }

    fn end(&self) {
        self.context.nic.detach_all_multicast(self.qpn);
        // It fails for what is gone already.
        let _ = self.destroy();
    }
}

// SAFETY: `repr(C)`, and `ibv_qp_ex` begins with an `ibv_qp`.
unsafe impl Hot for Qp {
    const KIND: u32 = u32::from_be_bytes(*b"fcQP");

    fn mark(&self) -> &Mark {
        &self.mark
    }
}

fn kind(number: u32) -> Result<QpType, Errno> {
    match number {
        abi::IBV_QPT_RC => Ok(QpType::Rc),
        abi::IBV_QPT_UC => Ok(QpType::Uc),
        abi::IBV_QPT_UD => Ok(QpType::Ud),
        abi::IBV_QPT_XRC_SEND => Ok(QpType::XrcInitiator),
        abi::IBV_QPT_XRC_RECV => Ok(QpType::XrcTarget),
        abi::IBV_QPT_RAW_PACKET | abi::IBV_QPT_DRIVER => Err(Errno::UNSUPPORTED),
        _ => Err(Errno::INVALID),
    }
}

/// Makes a queue pair; `send_ops_flags` if it is to be posted to by `ibv_wr_*`.
fn create(
    pd: Arc<Pd>,
    attr: &mut ibv_qp_init_attr,
    send_ops_flags: Option<u64>,
) -> Result<*mut ibv_qp, Errno> {
    let kind = kind(attr.qp_type)?;
    let mut c =
        send_ops_flags.map_or(Ok(ibv_qp_ex::zeroed()), |ops| qp_ex::functions(kind, ops))?;
    let srq = match attr.srq.is_null() {
        true => None,
        false => Some(registry::find::<Srq>(attr.srq)?),
    };
    let send_cq = registry::find::<Cq>(attr.send_cq)?;
    let recv_cq = match kind {
        // It receives nothing.
        QpType::XrcInitiator => Arc::clone(&send_cq),
        _ => registry::find::<Cq>(attr.recv_cq)?,
    };
    let context = Arc::clone(&pd.context);
    let same = |other: &Arc<Context>| Arc::ptr_eq(&context, other);
    let foreign_srq = srq.as_ref().is_some_and(|srq| !same(&srq.context));
    if !same(&send_cq.context) || !same(&recv_cq.context) || foreign_srq {
        return Err(Errno::INVALID);
    }
    let spec = QpSpec {
        kind,
        pd: pd.id,
        send_cq: send_cq.id,
        recv_cq: recv_cq.id,
        srq: srq.as_ref().map(|srq| srq.id),
        capacity: qp_attr::capacity(&attr.cap),
        signal_all: attr.sq_sig_all != 0,
    };
    let (qp, capacity) = context.nic.with(|endpoint, _, _| {
        let qpn = endpoint.create_qp(spec)?;
        let capacity = endpoint.qp_capacity(qpn).unwrap_or(spec.capacity);
        c.qp_base = ibv_qp {
            context: context.c(),
            qp_context: attr.qp_context,
            pd: pd.c(),
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            handle: qpn.value(),
            qp_num: qpn.value(),
            state: qp_attr::state_number(QpState::Reset),
            qp_type: attr.qp_type,
            ..ibv_qp::zeroed()
        };
        let qp = Arc::new(Qp {
            c: Shared::new(c),
            mark: Mark::new(Qp::KIND),
            context: Arc::clone(&context),
            qpn,
            kind,
            handles: Arc::new(AtomicU32::new(1)),
            ece: Ece::default(),
            acks: Arc::default(),
            builder: send_ops_flags.map(|_| Builder::default()),
            _uses: Uses::Other { _pd: pd, _send_cq: send_cq, _recv_cq: recv_cq, _srq: srq },
        });
        qp.listen();
        Ok::<_, Errno>((qp, capacity))
    })?;
    attr.cap = qp_attr::capacity_numbers(capacity);
    Ok(registry::insert(qp))
}

/// Makes a queue pair, and says how large it really is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(Errno::INVALID)?;
        create(pd, attr, None)
    }))
}

/// `ibv_create_qp_ex`.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVALID)?;
        let has = |bit: u32| attr.comp_mask & bit != 0;
        let known = abi::IBV_QP_INIT_ATTR_PD
            | abi::IBV_QP_INIT_ATTR_XRCD
            | abi::IBV_QP_INIT_ATTR_CREATE_FLAGS
            | abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        let flagged = has(abi::IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0;
        if attr.comp_mask & !known != 0 || flagged {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.qp_type == abi::IBV_QPT_XRC_RECV {
            if !has(abi::IBV_QP_INIT_ATTR_XRCD) {
                return Err(Errno::INVALID);
            }
            let xrcd = registry::find::<Xrcd>(attr.xrcd)?;
            return create_target(&context, xrcd, attr);
        }
        if !has(abi::IBV_QP_INIT_ATTR_PD) {
            return Err(Errno::INVALID);
        }
        let pd = registry::find::<Pd>(attr.pd)?;
        if !Arc::ptr_eq(&pd.context, &context) {
            return Err(Errno::INVALID);
        }
        let ops = has(abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(attr.send_ops_flags);
        let mut base = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        let qp = create(pd, &mut base, ops)?;
        attr.cap = base.cap;
        Ok(qp)
    }))
}

/// Makes an XRC target. It has no queues of its own.
fn create_target(
    context: &Arc<Context>,
    xrcd: Arc<Xrcd>,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, Errno> {
    if !Arc::ptr_eq(&xrcd.context, context) {
        return Err(Errno::INVALID);
    }
    let (xrcd, qp_context) = (&xrcd, attr.qp_context);
    let qp = context.nic.with(|endpoint, _, _| {
        let qpn = endpoint.create_xrc_target(xrcd.id())?;
        Ok::<_, Errno>(Qp::target(xrcd, qpn, qp_context, Arc::new(AtomicU32::new(1))))
    })?;
    attr.cap = ibv_qp_cap::default();
    Ok(registry::insert(qp))
}

/// `ibv_open_qp`: one more handle of an XRC target.
pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    pointer(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        let needed =
            abi::IBV_QP_OPEN_ATTR_NUM | abi::IBV_QP_OPEN_ATTR_XRCD | abi::IBV_QP_OPEN_ATTR_TYPE;
        if attr.comp_mask & !(needed | abi::IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.comp_mask & needed != needed || attr.qp_type != abi::IBV_QPT_XRC_RECV {
            return Err(Errno::INVALID);
        }
        let xrcd = registry::find::<Xrcd>(attr.xrcd)?;
        if !Arc::ptr_eq(&xrcd.context, &context) {
            return Err(Errno::INVALID);
        }
        let named = attr.comp_mask & abi::IBV_QP_OPEN_ATTR_CONTEXT != 0;
        let qp_context = if named { attr.qp_context } else { ptr::null_mut() };
        let qpn = Qpn::new(attr.qp_num);
        // What may be the last reference is dropped after the NIC's lock is released. Under that
        // lock, so that the queue pair does not go in between.
        let mut open = None;
        let qp = context.nic.with(|endpoint, _, _| {
            if endpoint.target_xrcd(qpn) != Some(xrcd.id()) {
                return Err(Errno::INVALID);
            }
            open = registry::with(|live| {
                let is_it =
                    |qp: &&Arc<Qp>| qp.qpn == qpn && Arc::ptr_eq(&qp.context.nic, &context.nic);
                live.qps.values().find(is_it).cloned()
            });
            let handles = open.as_ref().map(|qp| Arc::clone(&qp.handles)).ok_or(Errno::INVALID)?;
            handles.fetch_add(1, Ordering::Relaxed);
            Ok(Qp::target(&xrcd, qpn, qp_context, handles))
        })?;
        Ok(registry::insert(qp))
    }))
}

/// The extended view of a queue pair that was made with `send_ops_flags`; NULL for any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    pointer(registry::find::<Qp>(qp).and_then(|qp| match qp.builder {
        Some(_) => Ok(qp.c.get()),
        None => Err(Errno::INVALID),
    }))
}

/// Changes attributes and state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    status(registry::find::<Qp>(qp).and_then(|qp| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        let mut change = qp_attr::change(&qp.context, attr, attr_mask.cast_unsigned())?;
        qp.ece.complete(&mut change);
        qp.context.nic.with(|endpoint, _, _| endpoint.modify_qp(qp.qpn, &change))?;
        if let Some(state) = change.state {
            qp.show_state(state);
        }
        if change.state == Some(QpState::Rtr) {
            qp.context.start();
        }
        Ok(())
    }))
}

impl Qp {
    /// A handle of an XRC target.
    fn target(
        xrcd: &Arc<Xrcd>,
        qpn: Qpn,
        qp_context: *mut c_void,
        handles: Arc<AtomicU32>,
    ) -> Arc<Self> {
        let context = &xrcd.context;
        let mut c = ibv_qp_ex::zeroed();
        c.qp_base = ibv_qp {
            context: context.c(),
            qp_context,
            handle: qpn.value(),
            qp_num: qpn.value(),
            state: qp_attr::state_number(QpState::Reset),
            qp_type: abi::IBV_QPT_XRC_RECV,
            ..ibv_qp::zeroed()
        };
        let qp = Arc::new(Self {
            c: Shared::new(c),
            mark: Mark::new(Self::KIND),
            context: Arc::clone(context),
            qpn,
            kind: QpType::XrcTarget,
            handles,
            ece: Ece::default(),
            acks: Arc::default(),
            builder: None,
            _uses: Uses::Target { _xrcd: Arc::clone(xrcd) },
        });
        qp.listen();
        qp
    }

    /// Ends the queue pair, unless there are other handles.
    fn destroy(&self) -> Result<(), Errno> {
        self.context.nic.with(|endpoint, _, _| {
            if endpoint.groups_of(self.qpn).next().is_some() {
                return Err(Errno::BUSY);
            }
            // Another thread may have been faster.
            if !self.context.events.remove_qp(self.qpn, self.c().addr()) {
                return Err(Errno::INVALID);
            }
            match self.handles.fetch_sub(1, Ordering::Relaxed) {
                1 => endpoint.destroy_qp(self.qpn).map_err(Errno::from),
                _ => Ok(()),
            }
        })
    }

    /// From now on the events of the queue pair are for this handle, too.
    fn listen(&self) {
        let handle = self.c().expose_provenance();
        let events = &self.context.events;
        events.add_qp(self.qpn, events.target(handle, &self.acks));
    }

    /// Keeps the copy that C may read as `qp->state`.
    fn show_state(&self, state: QpState) {
        // SAFETY: C reads the field only when the call is over.
        unsafe { (*self.c()).state = qp_attr::state_number(state) };
    }
}

/// Tells all attributes, whatever `attr_mask` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status(registry::find::<Qp>(qp).and_then(|qp| {
        // SAFETY: C passes two writable structures.
        let (attr, init_attr) = unsafe { (attr.as_mut(), init_attr.as_mut()) };
        let (Some(attr), Some(init_attr)) = (attr, init_attr) else { return Err(Errno::INVALID) };
        let query = qp.context.nic.with(|endpoint, _, _| endpoint.query_qp(qp.qpn));
        let query = query.ok_or(Errno::INVALID)?;
        qp.show_state(query.state);
        *attr = qp_attr::attributes(&query);
        // SAFETY: a structure that is alive as long as the queue pair is.
        let c = unsafe { &*qp.c() };
        *init_attr = ibv_qp_init_attr {
            qp_context: c.qp_context,
            send_cq: c.send_cq,
            recv_cq: c.recv_cq,
            srq: c.srq,
            cap: attr.cap,
            qp_type: c.qp_type,
            sq_sig_all: c_int::from(query.signal_all),
        };
        Ok(())
    }))
}

/// Destroys a queue pair, once its events are acknowledged; an XRC target with its last handle.
/// `EBUSY` while it is attached to a multicast group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status(registry::find::<Qp>(qp).and_then(|qp| {
        qp.destroy()?;
        qp.context.events.withdraw(qp.c().addr());
        qp.acks.wait();
        registry::remove(&*qp);
        Ok(())
    }))
}

/// Whether data becomes visible in order: no promise is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(_: *mut ibv_qp, _: u32, _: c_uint) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_is_not_offered_is_told_from_one_that_is_not() {
        assert_eq!(kind(abi::IBV_QPT_UD), Ok(QpType::Ud));
        assert_eq!(kind(abi::IBV_QPT_RAW_PACKET), Err(Errno::UNSUPPORTED));
        assert_eq!(kind(1), Err(Errno::INVALID));
    }
}
