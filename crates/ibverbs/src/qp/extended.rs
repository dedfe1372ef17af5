//! Posting by `ibv_wr_*`: requests are collected between `ibv_wr_start` and `ibv_wr_complete` and
//! then posted as one batch.

use core::ffi::{c_int, c_void};

use rdma::{Key, Operation, QpType, Qpn, SendFlags, WorkRequest};

use crate::ah::Ah;
use crate::errno::{Errno, status};
use crate::memory::mw;
use crate::qp::Qp;
use crate::qp::batch::{Batch, Builder};
use crate::{registry, request};
use abi::{self, Plain, ibv_ah, ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_qp_ex, ibv_sge};

/// What `send_ops_flags` may ask for, by type of queue pair.
const DATAGRAM_OPS: u64 = abi::IBV_QP_EX_WITH_SEND | abi::IBV_QP_EX_WITH_SEND_WITH_IMM;
const UNRELIABLE_OPS: u64 = DATAGRAM_OPS
    | abi::IBV_QP_EX_WITH_RDMA_WRITE
    | abi::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | abi::IBV_QP_EX_WITH_LOCAL_INV
    | abi::IBV_QP_EX_WITH_BIND_MW;
const EXTENDED_OPS: u64 = UNRELIABLE_OPS
    | abi::IBV_QP_EX_WITH_RDMA_READ
    | abi::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | abi::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | abi::IBV_QP_EX_WITH_SEND_WITH_INV;
const RELIABLE_OPS: u64 = EXTENDED_OPS | abi::IBV_QP_EX_WITH_ATOMIC_WRITE;

/// A C structure with the functions that a queue pair of this type has.
pub(crate) fn functions(kind: QpType, send_ops_flags: u64) -> Result<ibv_qp_ex, Errno> {
    let offered = match kind {
        QpType::Rc => RELIABLE_OPS,
        QpType::Uc => UNRELIABLE_OPS,
        QpType::Ud => DATAGRAM_OPS,
        QpType::XrcInitiator => EXTENDED_OPS,
        QpType::XrcTarget => 0,
    };
    if send_ops_flags & !offered != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    Ok(ibv_qp_ex {
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        wr_send_tso: Some(wr_send_tso),
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: Some(wr_atomic_write),
        ..ibv_qp_ex::zeroed()
    })
}

/// The builder of a queue pair that was made with `send_ops_flags`.
///
/// # Safety
/// `qp` is a live queue pair, or NULL.
unsafe fn builder<'a>(qp: *mut ibv_qp_ex) -> Result<(&'a Qp, &'a Builder), Errno> {
    // SAFETY: the caller vouches for it.
    let qp = unsafe { registry::hot::<Qp>(qp.cast())? };
    Ok((
        qp,
        qp.builder
            .as_ref()
            .ok_or(Errno::invalid("the queue pair was made without send_ops_flags"))?,
    ))
}

/// Runs `f` on the batch.
///
/// # Safety
/// `qp` is a live queue pair, between `ibv_wr_start` and `ibv_wr_complete` of this thread.
unsafe fn with_batch(qp: *mut ibv_qp_ex, f: impl FnOnce(&mut Batch)) {
    // SAFETY: the caller vouches for the queue pair, and has the batch to itself.
    unsafe {
        if let Ok((_, builder)) = builder(qp) {
            f(&mut *builder.batch.get());
        }
    }
}

/// Begins a request with the `wr_id` and `wr_flags` that the program has set.
///
/// # Safety
/// As [`with_batch`].
unsafe fn begin(qp: *mut ibv_qp_ex, operation: Operation) {
    // SAFETY: the caller vouches for the queue pair, whose fields only the program writes.
    unsafe { with_batch(qp, |batch| batch.begin((*qp).wr_id, (*qp).wr_flags, operation)) };
}

/// Notes that something was asked for that is not offered.
///
/// # Safety
/// As [`with_batch`].
unsafe fn unsupported(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller vouches for it.
    unsafe {
        with_batch(qp, |batch| {
            let _noted = batch.check::<()>(Err(Errno::UNSUPPORTED));
        });
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) => $operation:expr;)*) => {
        $(
            $(#[$doc])*
            unsafe extern "C" fn $name(qp: *mut ibv_qp_ex, $($argument: $type),*) {
                // SAFETY: C passes a live queue pair that it posts to.
                unsafe { begin(qp, $operation) };
            }
        )*
    };
}

operations! {
    /// `ibv_wr_send`.
    wr_send() => Operation::Send { immediate: None, address: None };
    /// `ibv_wr_send_imm`.
    wr_send_imm(imm_data: u32) => Operation::Send {
        immediate: Some(imm_data.to_ne_bytes()),
        address: None,
    };
    /// `ibv_wr_send_inv`.
    wr_send_inv(r_key: u32) => Operation::SendInvalidate { r_key: Key(r_key) };
    /// `ibv_wr_local_inv`.
    wr_local_inv(r_key: u32) => Operation::LocalInvalidate { r_key: Key(r_key) };
    /// `ibv_wr_rdma_read`.
    wr_rdma_read(r_key: u32, remote_address: u64) => Operation::Read {
        remote_address,
        r_key: Key(r_key),
    };
    /// `ibv_wr_rdma_write`.
    wr_rdma_write(r_key: u32, remote_address: u64) => Operation::Write {
        remote_address,
        r_key: Key(r_key),
        immediate: None,
    };
    /// `ibv_wr_rdma_write_imm`.
    wr_rdma_write_imm(r_key: u32, remote_address: u64, imm_data: u32) => Operation::Write {
        remote_address,
        r_key: Key(r_key),
        immediate: Some(imm_data.to_ne_bytes()),
    };
    /// `ibv_wr_atomic_cmp_swp`.
    wr_atomic_cmp_swp(r_key: u32, remote_address: u64, compare: u64, swap: u64) =>
        Operation::CompareSwap { remote_address, r_key: Key(r_key), compare, swap };
    /// `ibv_wr_atomic_fetch_add`.
    wr_atomic_fetch_add(r_key: u32, remote_address: u64, add: u64) =>
        Operation::FetchAdd { remote_address, r_key: Key(r_key), add };
}

/// `ibv_wr_bind_mw`.
unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    r_key: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: C passes a live queue pair that it posts to, a live window, and a readable
    // structure with a live region.
    unsafe {
        let operation = info.as_ref().ok_or(Errno::NULL).and_then(|info| mw::bind(mw, r_key, info));
        match operation {
            Ok(operation) => begin(qp, operation),
            Err(error) => with_batch(qp, |batch| {
                let _noted = batch.check::<()>(Err(error));
            }),
        }
    }
}

/// `ibv_wr_send_tso`: not offered.
unsafe extern "C" fn wr_send_tso(qp: *mut ibv_qp_ex, _: *mut c_void, _: u16, _: u16) {
    // SAFETY: C passes a live queue pair that it posts to.
    unsafe { unsupported(qp) };
}

/// `ibv_wr_atomic_write`: the word is taken at once.
unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    r_key: u32,
    remote_address: u64,
    word: *const c_void,
) {
    // SAFETY: C passes a live queue pair that it posts to, and eight readable bytes.
    unsafe {
        let bytes = word.cast::<[u8; 8]>().read_unaligned();
        begin(qp, Operation::AtomicWrite { remote_address, r_key: Key(r_key), bytes });
    }
}

/// `ibv_wr_set_xrc_srqn`.
unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: C passes a live queue pair that it posts to.
    unsafe {
        with_batch(qp, |batch| match batch.requests.last_mut() {
            Some(request) => request.srq = Some(remote_srqn),
            None => {
                batch.error =
                    Some(Errno::invalid("ibv_wr_set_xrc_srqn before any request was begun"));
            }
        });
    }
}

/// `ibv_wr_set_ud_addr`.
unsafe extern "C" fn wr_set_ud_addr(
    qp: *mut ibv_qp_ex,
    ah: *mut ibv_ah,
    remote_qpn: u32,
    remote_qkey: u32,
) {
    // SAFETY: C passes a live queue pair that it posts to, and a live address handle.
    unsafe {
        with_batch(qp, |batch| {
            let ah = registry::hot::<Ah>(ah);
            let address = batch.check(ah).map(|ah| ah.address(remote_qpn, remote_qkey));
            match batch.requests.last_mut().map(|request| &mut request.operation) {
                Some(Operation::Send { address: target, .. }) => *target = address,
                _ => batch.error = Some(Errno::invalid("ibv_wr_set_ud_addr without a SEND")),
            }
        });
    }
}

/// `ibv_wr_set_sge`.
unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: C passes a live queue pair that it posts to.
    unsafe { with_batch(qp, |batch| batch.add_pieces(&[ibv_sge { addr, length, lkey }])) };
}

/// `ibv_wr_set_sge_list`.
unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: C passes a live queue pair that it posts to, and a list of that length.
    unsafe {
        with_batch(qp, |batch| {
            let pieces = request::pieces(list, c_int::try_from(count).unwrap_or(-1));
            if let Some(pieces) = batch.check(pieces) {
                batch.add_pieces(pieces);
            }
        });
    }
}

/// `ibv_wr_set_inline_data`.
unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, address: *mut c_void, length: usize) {
    // SAFETY: C passes a live queue pair that it posts to, and readable bytes.
    unsafe {
        with_batch(qp, |batch| batch.add_inline(address.expose_provenance() as u64, length));
    }
}

/// `ibv_wr_set_inline_data_list`.
unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: C passes a live queue pair that it posts to, and a list of that length.
    unsafe {
        with_batch(qp, |batch| {
            for at in 0..count {
                let piece = &*list.add(at);
                batch.add_inline(piece.addr.expose_provenance() as u64, piece.length);
            }
        });
    }
}

/// `ibv_wr_start`: other threads wait until this one has completed or aborted.
unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: C passes a live queue pair; whoever holds the latch has the batch to itself.
    unsafe {
        if let Ok((_, builder)) = builder(qp) {
            builder.latch.acquire();
            (*builder.batch.get()).clear();
        }
    }
}

/// `ibv_wr_complete`: posts the batch. If a request is wrong in itself nothing is posted; a queue
/// that turns out to be full keeps what fitted.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: C passes a live queue pair that it posts to.
    let (qp, builder) = match unsafe { builder(qp) } {
        Ok(found) => found,
        Err(error) => return status!(Err(error)),
    };
    // SAFETY: the holder of the latch alone uses the batch.
    let result = post(qp, unsafe { &*builder.batch.get() });
    builder.latch.release();
    status!(result)
}

/// `ibv_wr_abort`.
unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: C passes a live queue pair that it posts to.
    if let Ok((_, builder)) = unsafe { builder(qp) } {
        builder.latch.release();
    }
}

fn post(qp: &Qp, batch: &Batch) -> Result<(), Errno> {
    if let Some(error) = batch.error {
        return Err(error);
    }
    qp.context.nic.post(qp.qpn, |endpoint, _, now| {
        for request in &batch.requests {
            let inline = request.inline.clone().map(|range| &batch.bytes[range]);
            let given = SendFlags::from_bits(request.flags)
                .ok_or(Errno::invalid("wr_flags has bits that are not known"))?;
            let implied = if inline.is_some() { SendFlags::INLINE } else { SendFlags::NONE };
            // A request without data may still carry the flag that it is inline.
            let inline = inline.or_else(|| given.contains(SendFlags::INLINE).then_some(&[][..]));
            let srq = request.srq.map(Qpn::new);
            let request = WorkRequest {
                id: request.id,
                operation: request.operation,
                flags: given | implied,
                sges: &batch.sges[request.sges.clone()],
                inline,
            };
            match srq {
                None => endpoint.post_send(now, qp.qpn, &request)?,
                Some(srq) => endpoint.post_send_xrc(now, qp.qpn, srq, &request)?,
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_a_type_does_not_have_are_refused_at_creation() {
        assert!(functions(QpType::Rc, abi::IBV_QP_EX_WITH_RDMA_READ).is_ok());
        let refused = functions(QpType::Ud, abi::IBV_QP_EX_WITH_RDMA_READ);
        assert_eq!(refused.err(), Some(Errno::UNSUPPORTED));
    }
}
