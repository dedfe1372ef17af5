//! The data path: `ibv_post_send`, `ibv_post_recv`.
//!
//! A list of requests is translated one by one and posted under one lock, so that it leaves as one
//! batch. Nothing is allocated unless a request has more pieces or inline data than is usual.

use core::ffi::c_int;

use rdma::{Key, Operation, QpType, Qpn, SendFlags, WorkRequest};
use transport::PostError;

use crate::ah::Ah;
use crate::errno::Errno;
use crate::memory::mw;
use crate::qp::Qp;
use crate::registry;
use crate::request::{Inline, Sges, each_recv, gather, pieces, reject, translate};
use abi::{self, ibv_qp, ibv_recv_wr, ibv_send_wr};

/// What a request does.
///
/// # Safety
/// A request of a queue pair: the member of the union that its opcode (and, for SENDs, the type
/// `datagram`) names is set, and an address handle, window or region in it is alive.
unsafe fn operation(wr: &ibv_send_wr, datagram: bool) -> Result<Operation, Errno> {
    let immediate = || Some(wr.imm_data.to_ne_bytes());
    // SAFETY: every member is plain data; which one has a meaning, the opcode says.
    let (rdma, atomic, ud) = unsafe { (wr.wr.rdma, wr.wr.atomic, wr.wr.ud) };
    let send = |immediate| {
        let address = if datagram {
            // SAFETY: the caller vouches for the handle.
            let ah = unsafe { registry::hot::<Ah>(ud.ah) }?;
            Some(ah.address(ud.remote_qpn, ud.remote_qkey))
        } else {
            None
        };
        Ok(Operation::Send { immediate, address })
    };
    let write = |immediate| Operation::Write {
        remote_address: rdma.remote_addr,
        r_key: Key(rdma.rkey),
        immediate,
    };
    match wr.opcode {
        abi::IBV_WR_SEND => send(None),
        abi::IBV_WR_SEND_WITH_IMM => send(immediate()),
        abi::IBV_WR_RDMA_WRITE => Ok(write(None)),
        abi::IBV_WR_RDMA_WRITE_WITH_IMM => Ok(write(immediate())),
        abi::IBV_WR_RDMA_READ => {
            Ok(Operation::Read { remote_address: rdma.remote_addr, r_key: Key(rdma.rkey) })
        }
        abi::IBV_WR_ATOMIC_CMP_AND_SWP => Ok(Operation::CompareSwap {
            remote_address: atomic.remote_addr,
            r_key: Key(atomic.rkey),
            compare: atomic.compare_add,
            swap: atomic.swap,
        }),
        abi::IBV_WR_ATOMIC_FETCH_AND_ADD => Ok(Operation::FetchAdd {
            remote_address: atomic.remote_addr,
            r_key: Key(atomic.rkey),
            add: atomic.compare_add,
        }),
        abi::IBV_WR_SEND_WITH_INV => Ok(Operation::SendInvalidate { r_key: Key(wr.imm_data) }),
        abi::IBV_WR_LOCAL_INV => Ok(Operation::LocalInvalidate { r_key: Key(wr.imm_data) }),
        // SAFETY: the caller vouches for the handles.
        abi::IBV_WR_BIND_MW => unsafe {
            mw::bind(wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info)
        },
        // The word is in the request's pieces, which there must be.
        abi::IBV_WR_ATOMIC_WRITE if wr.num_sge > 0 => Ok(Operation::AtomicWrite {
            remote_address: rdma.remote_addr,
            r_key: Key(rdma.rkey),
            bytes: [0; 8],
        }),
        abi::IBV_WR_TSO | abi::IBV_WR_DRIVER1 => Err(Errno::UNSUPPORTED),
        _ => Err(Errno::invalid("the opcode is no enum ibv_wr_opcode, or lacks its data")),
    }
}

/// Translates one request and passes it to `post`.
///
/// # Safety
/// As [`post_send`], for this request alone.
unsafe fn send_one(
    wr: &ibv_send_wr,
    datagram: bool,
    post: impl FnOnce(&WorkRequest<'_>) -> Result<(), PostError>,
) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the request.
    let (operation, pieces) =
        unsafe { (operation(wr, datagram)?, pieces(wr.sg_list, wr.num_sge)?) };
    let flags = SendFlags::from_bits(wr.send_flags)
        .ok_or(Errno::invalid("send_flags has bits that are not known"))?;
    let mut inline = Inline::new();
    let mut sges = Sges::new();
    let is_inline = flags.contains(SendFlags::INLINE);
    if is_inline {
        for piece in pieces {
            // SAFETY: inline data is readable when it is posted.
            unsafe { gather(&mut inline, piece.addr, piece.length as usize)? };
        }
    } else {
        sges = translate(pieces);
    }
    let request = WorkRequest {
        id: wr.wr_id,
        operation,
        flags,
        sges: &sges,
        inline: is_inline.then_some(&inline[..]),
    };
    Ok(post(&request)?)
}

/// `ibv_post_send`. The first request that cannot be posted is named, and none after it is.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: C passes a live queue pair.
    let qp = match unsafe { registry::hot::<Qp>(qp) } {
        Ok(qp) => qp,
        // SAFETY: C passes a pointer to write.
        Err(error) => return unsafe { reject("ibv_post_send", error, wr, bad_wr) },
    };
    let datagram = qp.kind == QpType::Ud;
    let of_xrc = qp.kind == QpType::XrcInitiator;
    qp.context.nic.post(qp.qpn, |endpoint, _, now| {
        let mut next = wr;
        // SAFETY: C passes a list that ends with NULL, with all that the requests point to.
        while let Some(request) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            let posted = unsafe {
                send_one(request, datagram, |work| match of_xrc {
                    false => endpoint.post_send(now, qp.qpn, work),
                    true => {
                        let srq = Qpn::new(request.xrc_remote_srqn);
                        endpoint.post_send_xrc(now, qp.qpn, srq, work)
                    }
                })
            };
            if let Err(error) = posted {
                // SAFETY: C passes a pointer to write.
                return unsafe { reject("ibv_post_send", error, next, bad_wr) };
            }
            next = request.next;
        }
        0
    })
}

/// `ibv_post_recv`. The first request that cannot be posted is named, and none after it is.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: C passes a live queue pair, a list of requests, and a pointer to write.
    unsafe {
        let qp = match registry::hot::<Qp>(qp) {
            Ok(qp) => qp,
            Err(error) => return reject("ibv_post_recv", error, wr, bad_wr),
        };
        qp.context.nic.with(|endpoint, _, _| {
            each_recv("ibv_post_recv", wr, bad_wr, |request| endpoint.post_recv(qp.qpn, request))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::{Plain, ibv_sge};

    #[test]
    fn opcodes_become_operations() {
        let mut wr = ibv_send_wr::zeroed();
        wr.wr.rdma = abi::ibv_wr_rdma { remote_addr: 4096, rkey: 7 };
        wr.imm_data = u32::from_ne_bytes([1, 2, 3, 4]);
        wr.opcode = abi::IBV_WR_RDMA_WRITE_WITH_IMM;
        // SAFETY: a connected queue pair's request.
        let translated = |wr: &ibv_send_wr| unsafe { operation(wr, false) };
        let immediate = Some([1, 2, 3, 4]);
        assert_eq!(
            translated(&wr),
            Ok(Operation::Write { remote_address: 4096, r_key: Key(7), immediate })
        );
        wr.opcode = abi::IBV_WR_SEND;
        assert_eq!(translated(&wr), Ok(Operation::Send { immediate: None, address: None }));
        wr.opcode = abi::IBV_WR_TSO;
        assert_eq!(translated(&wr), Err(Errno::UNSUPPORTED));
        wr.opcode = abi::IBV_WR_ATOMIC_WRITE;
        assert_eq!(translated(&wr), Err(Errno::INVALID), "it has no word");
        wr.num_sge = 1;
        assert!(matches!(translated(&wr), Ok(Operation::AtomicWrite { .. })));
        wr.opcode = 77;
        assert_eq!(translated(&wr), Err(Errno::INVALID));
    }

    #[test]
    fn a_datagram_needs_an_address_handle() {
        let mut wr = ibv_send_wr::zeroed();
        wr.opcode = abi::IBV_WR_SEND;
        // SAFETY: NULL is checked for.
        assert_eq!(unsafe { operation(&wr, true) }, Err(Errno::INVALID));
    }

    #[test]
    fn inline_data_is_gathered_in_order() {
        let bytes = *b"abcdef";
        let mut wr = ibv_send_wr::zeroed();
        let piece = |at: usize, length| ibv_sge {
            addr: bytes[at..].as_ptr().expose_provenance() as u64,
            length,
            lkey: 0,
        };
        let mut list = [piece(3, 3), piece(0, 2)];
        (wr.sg_list, wr.num_sge) = (list.as_mut_ptr(), 2);
        (wr.opcode, wr.send_flags) = (abi::IBV_WR_SEND, 1 << 3);
        let mut posted = Vec::new();
        // SAFETY: the request points to live pieces and bytes.
        let result = unsafe {
            send_one(&wr, false, |request| {
                posted.extend_from_slice(request.inline.unwrap());
                assert!(request.sges.is_empty());
                Ok(())
            })
        };
        assert_eq!((result, posted.as_slice()), (Ok(()), &b"defab"[..]));
    }
}
