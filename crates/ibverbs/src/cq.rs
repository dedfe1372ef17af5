//! Completion queues: `ibv_create_cq`, `ibv_poll_cq`, `ibv_req_notify_cq`, `ibv_ack_cq_events`.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use std::sync::Arc;

use rdma::completion::{Attached, NetworkHeader};
use rdma::{Completion, Time};
use transport::{CqId, Notify};

use crate::channel::Channel;
use crate::context::{Context, owned};
use crate::errno::{Errno, pointer, status};
use crate::event::Acks;
use crate::registry::{self, Hot, Mark, Object, Shared, find_unless_null};
use crate::sink::CqTarget;
use crate::sync::Latch;
use abi::{self, Plain, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_wc};

/// Completions that are taken from the engine at once.
const BATCH: usize = 32;

/// The fewest entries of a completion queue. The man page lets a device give more than was asked for, and
/// hardware rounds up. Programs rely on it: `ib_send_lat -e` asks for one entry and has two requests
/// outstanding when an acknowledgement is late.
const CQE_MIN: u32 = 255;

/// A completion queue.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) c: Shared<ibv_cq_ex>,
    mark: Mark,
    pub(crate) context: Arc<Context>,
    pub(crate) id: CqId,
    channel: Option<Arc<Channel>>,
    pub(crate) completion_acks: Arc<Acks>,
    pub(crate) async_acks: Arc<Acks>,
    pub(crate) poll: Poll,
}

owned!(context, Cq, ibv_cq, b"fcCQ");

impl Cq {
    /// Ends the engine's object: the device is closed.
    pub(crate) fn end(&self) {
        // It fails if the engine's object is gone already.
        let _ = self.destroy();
    }

    fn destroy(&self) -> Result<(), Errno> {
        self.context.nic.with(|endpoint, _, _| {
            endpoint.destroy_cq(self.id)?;
            self.context.events.remove_cq(self.id);
            Ok(())
        })
    }
}

/// Where a program is between `ibv_start_poll` and `ibv_end_poll`.
///
/// Completions are taken one by one. Those that the program does not read stay in the engine, for
/// `ibv_poll_cq` and notification.
#[derive(Debug)]
pub(crate) struct Poll {
    latch: Latch,
    /// The program promised that one thread polls at a time.
    single_threaded: bool,
    /// What is being read, and when it was written.
    pub(crate) current: Shared<(Completion, Time)>,
}

impl Poll {
    fn new(single_threaded: bool) -> Self {
        Self {
            latch: Latch::default(),
            single_threaded,
            current: Shared::new((Completion::NOTHING, Time::ZERO)),
        }
    }

    pub(crate) fn acquire(&self) {
        if !self.single_threaded {
            self.latch.acquire();
        }
    }

    pub(crate) fn release(&self) {
        if !self.single_threaded {
            self.latch.release();
        }
    }
}

/// What a completion queue is made of.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: Option<Arc<Channel>>,
    pub(crate) comp_vector: u32,
    pub(crate) single_threaded: bool,
}

/// Makes a completion queue whose C structure begins as `c`.
pub(crate) fn create(
    context: &Arc<Context>,
    spec: Spec,
    mut c: ibv_cq_ex,
) -> Result<Arc<Cq>, Errno> {
    context.check_process()?;
    let channel = spec.channel;
    let foreign = channel.as_ref().is_some_and(|it| !Arc::ptr_eq(&it.context, context));
    if spec.cqe == 0 || spec.comp_vector != 0 || foreign {
        return Err(Errno::invalid(
            "cqe is 0, comp_vector is not 0, or the channel is of another context",
        ));
    }
    c.base.context = context.c();
    c.base.channel = channel.as_ref().map_or(ptr::null_mut(), |channel| channel.c());
    c.base.cq_context = spec.cq_context;
    let (completion_acks, async_acks) = (Arc::default(), Arc::default());
    let cq = context.nic.with(|endpoint, _, _| {
        let cqe = spec.cqe.max(CQE_MIN);
        let id = endpoint.create_cq(cqe)?;
        c.base.handle = id.0;
        c.base.cqe = cqe.cast_signed();
        let cq = Arc::new(Cq {
            c: Shared::new(c),
            mark: Mark::new(Cq::KIND),
            context: Arc::clone(context),
            id,
            channel,
            completion_acks,
            async_acks,
            poll: Poll::new(spec.single_threaded),
        });
        let handle = cq.c().expose_provenance();
        let completions = cq
            .channel
            .as_ref()
            .map(|channel| (Arc::clone(&channel.queue), Arc::clone(&cq.completion_acks)));
        let target = context.events.target(handle, &cq.async_acks);
        context.events.add_cq(id, CqTarget { target, completions });
        Ok::<_, Errno>(cq)
    })?;
    registry::insert(Arc::clone(&cq));
    Ok(cq)
}

/// Makes a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    let numbers = u32::try_from(cqe).and_then(|cqe| Ok((cqe, u32::try_from(comp_vector)?)));
    pointer!(numbers.map_err(|_| Errno::invalid("cqe or comp_vector is negative")).and_then(
        |(cqe, comp_vector)| {
            let context = registry::find::<Context>(context)?;
            let channel = find_unless_null(channel)?;
            let spec = Spec { cqe, cq_context, channel, comp_vector, single_threaded: false };
            Ok(create(&context, spec, ibv_cq_ex::zeroed())?.c())
        }
    ))
}

/// Changes how many completions a queue holds; `EINVAL` if more are in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status!(registry::find::<Cq>(cq).and_then(|cq| {
        let capacity = u32::try_from(cqe)
            .ok()
            .filter(|cqe| *cqe > 0)
            .ok_or(Errno::invalid("cqe is not above 0"))?;
        cq.context.nic.with(|endpoint, _, _| endpoint.resize_cq(cq.id, capacity))?;
        // SAFETY: C reads the field only when the call is over.
        unsafe { (*cq.c()).cqe = cqe };
        Ok(())
    }))
}

/// Destroys a queue, once its events are acknowledged; `EBUSY` while a queue pair uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status!(registry::find::<Cq>(cq).and_then(|cq| destroy(&cq)))
}

/// Destroys a queue. The caller has the only other reference.
pub(crate) fn destroy(cq: &Arc<Cq>) -> Result<(), Errno> {
    registry::check_unused(cq)?;
    cq.destroy()?;
    let handle = cq.c().addr();
    if let Some(channel) = &cq.channel {
        channel.queue.withdraw(|event| event.cq == handle);
    }
    cq.context.events.withdraw(handle);
    cq.completion_acks.wait();
    cq.async_acks.wait();
    registry::remove(&**cq);
    Ok(())
}

/// Acknowledges events: a completion queue is not destroyed before all are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    if let Ok(cq) = registry::find::<Cq>(cq) {
        Arc::clone(&cq.completion_acks).acknowledge(nevents, |total| {
            // SAFETY: only this function writes the field.
            unsafe { (*cq.c()).comp_events_completed = total };
            drop(cq);
        });
    }
}

/// `ibv_poll_cq`. Returns how many completions it wrote, or a negative number.
pub(crate) unsafe extern "C" fn poll_cq(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: C passes a live queue.
    let cq = match unsafe { registry::hot::<Cq>(cq) } {
        Ok(cq) => cq,
        Err(error) => return -error.number,
    };
    let wanted = usize::try_from(num_entries).unwrap_or(0);
    let mut completions = [Completion::NOTHING; BATCH];
    let mut count = 0;
    while count < wanted {
        let room = BATCH.min(wanted - count);
        let taken = cq.context.nic.poll_cq(cq.id, &mut completions[..room]);
        for completion in &completions[..taken] {
            // SAFETY: C passes `num_entries` writable structures, and `count` is below that.
            unsafe { wc.add(count).write(work_completion(completion)) };
            count += 1;
        }
        if taken < room {
            break;
        }
    }
    count as c_int
}

/// `ibv_req_notify_cq`.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: C passes a live queue.
    status!(unsafe { registry::hot::<Cq>(cq) }.and_then(|cq| {
        let notify = if solicited_only != 0 { Notify::Solicited } else { Notify::Next };
        Ok(cq.context.nic.with(|endpoint, _, _| endpoint.arm_cq(cq.id, notify))?)
    }))
}

/// The flags of a completion, and the immediate data or key that they announce.
pub(crate) fn flags(completion: &Completion) -> (u32, u32) {
    let (flag, data) = match completion.attached {
        Attached::None => (0, 0),
        // C keeps the four bytes in the order in which they were on the wire.
        Attached::Immediate(bytes) => (abi::IBV_WC_WITH_IMM, u32::from_ne_bytes(bytes)),
        Attached::Invalidated(key) => (abi::IBV_WC_WITH_INV, key.0),
    };
    let global = match completion.network_header {
        NetworkHeader::None => 0,
        NetworkHeader::Ipv4 | NetworkHeader::Ipv6 => abi::IBV_WC_GRH,
    };
    (flag | global, data)
}

/// The service level of a completion. RoCE has none, so NICs put the kind of a datagram's header here,
/// and UCX drops datagrams without it: 2 means IPv4, 1 IPv6, 8 UDP behind it.
pub(crate) fn service_level(completion: &Completion) -> u8 {
    match completion.network_header {
        NetworkHeader::None => 0,
        NetworkHeader::Ipv4 => 8 | 2,
        NetworkHeader::Ipv6 => 8 | 1,
    }
}

fn work_completion(completion: &Completion) -> ibv_wc {
    let (wc_flags, imm_data) = flags(completion);
    ibv_wc {
        wr_id: completion.id,
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        vendor_err: completion.vendor_error,
        byte_len: completion.byte_len,
        imm_data,
        qp_num: completion.qpn.value(),
        src_qp: completion.source_qpn.value(),
        wc_flags,
        pkey_index: 0,
        slid: 0,
        sl: service_level(completion),
        dlid_path_bits: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::CompletionOpcode;

    #[test]
    fn immediate_data_keeps_its_byte_order() {
        let completion = Completion {
            opcode: CompletionOpcode::RecvWriteImmediate,
            attached: Attached::Immediate([1, 2, 3, 4]),
            network_header: NetworkHeader::Ipv4,
            ..Completion::NOTHING
        };
        let wc = work_completion(&completion);
        assert_eq!(wc.imm_data.to_ne_bytes(), [1, 2, 3, 4]);
        assert_eq!(wc.wc_flags, abi::IBV_WC_WITH_IMM | abi::IBV_WC_GRH);
        assert_eq!(wc.opcode, 129);
    }

    #[test]
    fn the_service_level_tells_the_header_of_a_datagram() {
        let completion = |network_header| Completion { network_header, ..Completion::NOTHING };
        let told = [NetworkHeader::None, NetworkHeader::Ipv4, NetworkHeader::Ipv6]
            .map(|header| work_completion(&completion(header)))
            .map(|wc| (wc.sl, wc.wc_flags));
        assert_eq!(told, [(0, 0), (0xa, abi::IBV_WC_GRH), (0x9, abi::IBV_WC_GRH)]);
    }

    #[test]
    fn a_queue_that_is_none_is_not_polled() {
        // SAFETY: NULL is checked for.
        assert!(unsafe { poll_cq(ptr::null_mut(), 1, ptr::null_mut()) } < 0);
    }
}
