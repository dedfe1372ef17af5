//! Extended completion queues: `ibv_create_cq_ex`, `ibv_start_poll` and the readers.

use core::ffi::{c_int, c_uint};

use rdma::{Completion, Time};

use crate::context::ticks;
use crate::cq::{self, Cq, Spec};
use crate::errno::{Errno, pointer};
use crate::registry::{self, find_unless_null};
use abi::{self, Plain, ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_poll_cq_attr};

/// `ibv_create_cq_ex`.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    init_attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: C passes a readable structure.
    let result = unsafe { init_attr.as_ref() }.ok_or(Errno::NULL).and_then(|attr| {
        let known = abi::IBV_CQ_INIT_ATTR_MASK_FLAGS | abi::IBV_CQ_INIT_ATTR_MASK_PD;
        let given = |mask, flags| if attr.comp_mask & mask != 0 { flags } else { 0 };
        let flags = given(abi::IBV_CQ_INIT_ATTR_MASK_FLAGS, attr.flags);
        let offered = abi::IBV_WC_STANDARD_FLAGS
            | abi::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
            | abi::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
        if attr.wc_flags & !offered != 0
            || attr.comp_mask & !known != 0
            || flags & !abi::IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0
        {
            return Err(Errno::UNSUPPORTED);
        }
        let spec = Spec {
            cqe: attr.cqe,
            cq_context: attr.cq_context,
            channel: find_unless_null(attr.channel)?,
            comp_vector: attr.comp_vector,
            single_threaded: flags & abi::IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0,
        };
        cq::create(&registry::find(context)?, spec, readers())
    });
    pointer!(result.map(|cq| cq.c.get()))
}

/// A C structure with every function that a program may ask for.
fn readers() -> ibv_cq_ex {
    ibv_cq_ex {
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_completion_wallclock_ns: Some(read_completion_wallclock_ns),
        ..ibv_cq_ex::zeroed()
    }
}

/// Moves to the next completion; `ENOENT` if there is none.
///
/// # Safety
/// The caller holds the poll.
unsafe fn advance(cq: &Cq) -> c_int {
    // SAFETY: the holder of the poll alone uses the completion and C's two fields.
    let (current, c) = unsafe { (&mut *cq.poll.current.get(), &mut *cq.c.get()) };
    let Some(found) = cq.context.nic.poll_cq_timed(cq.id) else { return libc::ENOENT };
    *current = found;
    let (completion, _) = found;
    c.wr_id = completion.id;
    c.status = completion.status as u32;
    0
}

/// `ibv_start_poll`: on success the program reads, moves on and must end the poll.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: C passes a live queue, and NULL or a readable structure.
    let (cq, attr) = unsafe { (registry::hot::<Cq>(cq.cast()), attr.as_ref()) };
    let cq = match cq {
        Ok(cq) => cq,
        Err(error) => return error.number,
    };
    if attr.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    cq.poll.acquire();
    // SAFETY: just acquired.
    let result = unsafe { advance(cq) };
    if result != 0 {
        cq.poll.release();
    }
    result
}

/// `ibv_next_poll`.
unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: C passes a live queue that it polls.
    unsafe { registry::hot::<Cq>(cq.cast()).map_or_else(|error| error.number, |cq| advance(cq)) }
}

/// `ibv_end_poll`.
unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: C passes a live queue that it polls.
    if let Ok(cq) = unsafe { registry::hot::<Cq>(cq.cast()) } {
        cq.poll.release();
    }
}

/// The completion that is being read.
///
/// # Safety
/// `cq` is a live queue that its caller polls.
unsafe fn current(cq: *mut ibv_cq_ex) -> (Completion, Time) {
    // SAFETY: the holder of the poll alone uses the completion.
    unsafe {
        let cq = registry::hot::<Cq>(cq.cast());
        cq.map_or((Completion::NOTHING, Time::ZERO), |cq| *cq.poll.current.get())
    }
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident -> $type:ty { |$completion:pat_param| $value:expr })*) => {
        $(
            $(#[$doc])*
            unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
                // SAFETY: C passes a live queue that it polls.
                let ($completion, _) = unsafe { current(cq) };
                $value
            }
        )*
    };
}

readers! {
    /// `ibv_wc_read_opcode`.
    read_opcode -> u32 { |completion| completion.opcode as u32 }
    /// `ibv_wc_read_vendor_err`.
    read_vendor_err -> u32 { |completion| completion.vendor_error }
    /// `ibv_wc_read_byte_len`.
    read_byte_len -> u32 { |completion| completion.byte_len }
    /// `ibv_wc_read_imm_data` and `ibv_wc_read_invalidated_rkey`.
    read_imm_data -> u32 { |completion| cq::flags(&completion).1 }
    /// `ibv_wc_read_qp_num`.
    read_qp_num -> u32 { |completion| completion.qpn.value() }
    /// `ibv_wc_read_src_qp`.
    read_src_qp -> u32 { |completion| completion.source_qpn.value() }
    /// `ibv_wc_read_wc_flags`.
    read_wc_flags -> c_uint { |completion| cq::flags(&completion).0 }
    /// `ibv_wc_read_slid`: RoCE has no LIDs.
    read_slid -> u32 { |_| 0 }
    /// `ibv_wc_read_sl`.
    read_sl -> u8 { |completion| cq::service_level(&completion) }
    /// `ibv_wc_read_dlid_path_bits`: RoCE has no LIDs.
    read_dlid_path_bits -> u8 { |_| 0 }
}

/// `ibv_wc_read_completion_ts`: in ticks of the device's clock.
unsafe extern "C" fn read_completion_ts(cq: *mut ibv_cq_ex) -> u64 {
    // SAFETY: C passes a live queue that it polls.
    ticks(unsafe { current(cq) }.1)
}

/// `ibv_wc_read_completion_wallclock_ns`: since 1970.
unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut ibv_cq_ex) -> u64 {
    // SAFETY: C passes a live queue that it polls.
    let wall = softnic::clock::wall(unsafe { current(cq) }.1);
    u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
}
