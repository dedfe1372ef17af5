//! What requests are made of, from C: pieces of memory, inline data, and lists of receives.

use core::ffi::c_int;

use rdma::{Key, RecvRequest, Sge};
use smallvec::SmallVec;
use transport::{PostError, limits};

use crate::errno::{Errno, refused};
use abi::{ibv_recv_wr, ibv_sge};

/// The pieces of a request, as many as usual without an allocation.
pub(crate) type Sges = SmallVec<[Sge; 4]>;
/// The inline data of a request, as much as usual without an allocation.
pub(crate) type Inline = SmallVec<[u8; 512]>;

/// A list of pieces from C.
///
/// # Safety
/// `list` has `count` readable entries.
pub(crate) unsafe fn pieces<'a>(
    list: *const ibv_sge,
    count: c_int,
) -> Result<&'a [ibv_sge], Errno> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        Ok(count) if count <= limits::SGE_MAX as usize && !list.is_null() => {
            // SAFETY: the caller vouches for it.
            Ok(unsafe { core::slice::from_raw_parts(list, count) })
        }
        _ => Err(Errno::invalid(
            "num_sge is negative or beyond max_sge of the device, or sg_list is NULL",
        )),
    }
}

/// Translates pieces.
pub(crate) fn translate(pieces: &[ibv_sge]) -> Sges {
    let sge = |it: &ibv_sge| Sge { address: it.addr, length: it.length, l_key: Key(it.lkey) };
    pieces.iter().map(sge).collect()
}

/// Appends the bytes at `address`, which need no registration.
///
/// # Safety
/// They are readable.
pub(crate) unsafe fn gather(inline: &mut Inline, address: u64, length: usize) -> Result<(), Errno> {
    if inline.len().saturating_add(length) > limits::INLINE_MAX as usize {
        return Err(Errno::invalid("inline data is longer than any device takes"));
    }
    if length > 0 {
        let start = core::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: the caller vouches for it.
        inline.extend_from_slice(unsafe { core::slice::from_raw_parts(start, length) });
    }
    Ok(())
}

/// Translates receive requests one by one and passes them to `post`.
///
/// # Safety
/// `wr` is a list that ends with NULL, and `bad_wr` can be written.
pub(crate) unsafe fn each_recv(
    call: &str,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    mut post: impl FnMut(&RecvRequest<'_>) -> Result<(), PostError>,
) -> c_int {
    let mut next = wr;
    // SAFETY: the caller vouches for the list.
    while let Some(request) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge) };
        let posted = pieces.and_then(|pieces| {
            let sges = translate(pieces);
            Ok(post(&RecvRequest { id: request.wr_id, sges: &sges })?)
        });
        if let Err(error) = posted {
            // SAFETY: the caller vouches for it.
            return unsafe { reject(call, error, next, bad_wr) };
        }
        next = request.next;
    }
    0
}

/// Names the request that could not be posted, and why.
///
/// # Safety
/// `bad_wr` is NULL or can be written.
pub(crate) unsafe fn reject<T>(call: &str, error: Errno, wr: *mut T, bad_wr: *mut *mut T) -> c_int {
    // SAFETY: the caller vouches for it.
    if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
        *bad_wr = wr;
    }
    refused(error, call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::Plain;

    #[test]
    fn inline_data_is_bounded() {
        let mut inline = Inline::new();
        // SAFETY: refused before anything is read.
        let result = unsafe { gather(&mut inline, 0, limits::INLINE_MAX as usize + 1) };
        assert_eq!(result, Err(Errno::INVALID));
    }

    #[test]
    fn the_request_that_failed_is_named() {
        let mut second = ibv_recv_wr::zeroed();
        second.wr_id = 2;
        let mut first = ibv_recv_wr::zeroed();
        (first.wr_id, first.next) = (1, &raw mut second);
        let mut bad = core::ptr::null_mut();
        // SAFETY: a list of two.
        let result = unsafe {
            each_recv("test", &raw mut first, &raw mut bad, |request| {
                if request.id == 2 { Err(PostError::Full) } else { Ok(()) }
            })
        };
        assert_eq!(result, libc::ENOMEM);
        assert_eq!(bad, &raw mut second);
    }

    #[test]
    fn a_list_longer_than_any_queue_takes_is_refused_unread() {
        // SAFETY: refused before anything is read.
        unsafe {
            assert!(pieces(core::ptr::dangling(), limits::SGE_MAX as c_int + 1).is_err());
            assert!(pieces(core::ptr::dangling(), -1).is_err());
            assert!(pieces(core::ptr::null(), 1).is_err());
            assert!(pieces(core::ptr::null(), 0).is_ok());
        }
    }
}
