//! Data goes out and in: `rsend`, `rrecv` and their kin.

use core::ffi::{c_int, c_void};

use super::names;
use super::pieces::{Pieces, single};
use super::socket::{self, Patience, Socket, Step, failure};
use super::stream::Stream;
use crate::errno::Errno;

/// The longest message.
pub(super) const MOST: usize = 64 << 10;
/// How long the first message of a call is, if it is not the last.
const FIRST: usize = 4 << 10;

/// How long messages are: they grow, so that the peer begins to receive while this end still copies.
#[derive(Debug)]
pub(super) struct Overlap(usize);

impl Default for Overlap {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Overlap {
    /// How long the next message is to be, of `left` bytes.
    pub(super) fn next(&mut self, left: usize) -> usize {
        let length = self.0.min(left);
        self.0 = MOST.min(self.0 * 2);
        length
    }
}

/// For calls that return a count, or -1 and `errno`.
macro_rules! count {
    ($result:expr) => {
        match $result {
            Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
            Err(error) => {
                $crate::errno::refused(error, $crate::errno::here!()());
                -1
            }
        }
    };
}
pub(super) use count;

/// What becomes of a sender that cannot go on: it waits, unless nothing can be sent any more.
pub(super) fn blocked(stream: &Stream, sent: usize) -> Result<Step, Errno> {
    if stream.writable {
        return Ok(Step::Waits(sent));
    }
    match sent {
        0 => Err(failure(stream).unwrap_or(Errno::new(libc::EPIPE))),
        sent => Ok(Step::Done(sent)),
    }
}

/// Sends what C has listed.
///
/// # Safety
/// The bytes are readable.
unsafe fn send(socket: &Socket, mut pieces: Pieces<'_>, flags: c_int) -> Result<usize, Errno> {
    if flags & libc::MSG_OOB != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let (mut overlap, mut sent) = (Overlap::default(), 0);
    socket.until(Patience::of(flags), |inner| {
        let Some(stream) = inner.ready()? else { return Ok(Step::Waits(0)) };
        while stream.writable && stream.tell_of_map() {}
        if stream.maps.has_untold() {
            return blocked(stream, sent);
        }
        while pieces.left() > 0 {
            let most = overlap.next(pieces.left());
            let length = match stream.writable {
                // SAFETY: the caller vouches for it.
                true => unsafe { stream.send(&mut pieces, most) },
                false => 0,
            };
            if length == 0 {
                return blocked(stream, sent);
            }
            sent += length;
        }
        Ok(Step::Done(sent))
    })
}

/// Receives into what C has listed.
///
/// # Safety
/// The memory is writable.
unsafe fn receive(socket: &Socket, mut pieces: Pieces<'_>, flags: c_int) -> Result<usize, Errno> {
    if flags & libc::MSG_OOB != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let (peeks, wants_all) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_WAITALL != 0);
    let mut received = 0;
    socket.until(Patience::of(flags), |inner| {
        let Some(stream) = inner.ready()? else { return Ok(Step::Waits(0)) };
        // SAFETY: the caller vouches for it.
        received += unsafe { stream.receive(&mut pieces, peeks) };
        let is_enough = pieces.left() == 0 || (received > 0 && (peeks || !wants_all));
        if is_enough || (received > 0 && !stream.readable) {
            return Ok(Step::Done(received));
        }
        match failure(stream) {
            _ if stream.readable => Ok(Step::Waits(received)),
            Some(error) => Err(error),
            None => Ok(Step::Done(0)),
        }
    })
}

/// Sends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsend(
    socket: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
) -> isize {
    let buffers = single(buf, len);
    // SAFETY: C passes as many readable bytes as it says.
    count!(socket::find(socket).and_then(|it| unsafe { send(&it, Pieces::new(&buffers)?, flags) }))
}

/// Sends; an address is `EISCONN`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsendto(
    socket: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    dest_addr: *const libc::sockaddr,
    addrlen: libc::socklen_t,
) -> isize {
    let buffers = single(buf, len);
    count!(socket::find(socket).and_then(|it| {
        if !dest_addr.is_null() && addrlen > 0 {
            return Err(Errno::new(libc::EISCONN));
        }
        // SAFETY: C passes as many readable bytes as it says.
        unsafe { send(&it, Pieces::new(&buffers)?, flags) }
    }))
}

/// Sends a list of buffers. There is no ancillary data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsendmsg(
    socket: c_int,
    msg: *const libc::msghdr,
    flags: c_int,
) -> isize {
    count!(socket::find(socket).and_then(|it| {
        // SAFETY: C passes a readable structure.
        let msg = unsafe { msg.as_ref() }.ok_or(Errno::FAULT)?;
        if !msg.msg_control.is_null() && msg.msg_controllen > 0 {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: C passes a list of readable buffers.
        unsafe { send(&it, Pieces::listed(msg.msg_iov, entries(msg))?, flags) }
    }))
}

/// Sends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rwrite(socket: c_int, buf: *const c_void, count: usize) -> isize {
    let buffers = single(buf, count);
    // SAFETY: C passes as many readable bytes as it says.
    count!(socket::find(socket).and_then(|it| unsafe { send(&it, Pieces::new(&buffers)?, 0) }))
}

/// Sends a list of buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rwritev(
    socket: c_int,
    iov: *const libc::iovec,
    iovcnt: c_int,
) -> isize {
    count!(socket::find(socket).and_then(|it| {
        // SAFETY: C passes a list of readable buffers.
        unsafe { send(&it, Pieces::listed(iov, iovcnt)?, 0) }
    }))
}

/// Receives; 0 when the peer sends no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rrecv(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
) -> isize {
    let buffers = single(buf, len);
    count!(socket::find(socket).and_then(|it| {
        // SAFETY: C passes as much room as it says.
        unsafe { receive(&it, Pieces::new(&buffers)?, flags) }
    }))
}

/// Receives, and says from whom.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rrecvfrom(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    src_addr: *mut libc::sockaddr,
    addrlen: *mut libc::socklen_t,
) -> isize {
    let buffers = single(buf, len);
    count!(socket::find(socket).and_then(|it| {
        // SAFETY: C passes as much room as it says.
        let received = unsafe { receive(&it, Pieces::new(&buffers)?, flags) }?;
        if !src_addr.is_null() {
            let (domain, remote) = (it.lock().options.domain, it.id.lock().remote);
            // SAFETY: C passes room for an address, and its length.
            unsafe { names::write(remote, domain, src_addr, addrlen) }?;
        }
        Ok(received)
    }))
}

/// Receives into a list of buffers. There is no ancillary data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rrecvmsg(
    socket: c_int,
    msg: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    count!(socket::find(socket).and_then(|it| {
        // SAFETY: C passes a writable structure.
        let msg = unsafe { msg.as_mut() }.ok_or(Errno::FAULT)?;
        // SAFETY: C passes a list of writable buffers.
        let received = unsafe { receive(&it, Pieces::listed(msg.msg_iov, entries(msg))?, flags) }?;
        (msg.msg_namelen, msg.msg_controllen, msg.msg_flags) = (0, 0, 0);
        Ok(received)
    }))
}

/// Receives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rread(socket: c_int, buf: *mut c_void, count: usize) -> isize {
    let buffers = single(buf, count);
    // SAFETY: C passes as much room as it says.
    count!(socket::find(socket).and_then(|it| unsafe { receive(&it, Pieces::new(&buffers)?, 0) }))
}

/// Receives into a list of buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rreadv(
    socket: c_int,
    iov: *const libc::iovec,
    iovcnt: c_int,
) -> isize {
    count!(socket::find(socket).and_then(|it| {
        // SAFETY: C passes a list of writable buffers.
        unsafe { receive(&it, Pieces::listed(iov, iovcnt)?, 0) }
    }))
}

fn entries(msg: &libc::msghdr) -> c_int {
    c_int::try_from(msg.msg_iovlen).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    #[test]
    fn messages_grow_to_their_longest() {
        let mut overlap = Overlap::default();
        let mut left = 1 << 20;
        let lengths: Vec<usize> = core::iter::from_fn(|| {
            let length = overlap.next(left);
            left -= length;
            (length > 0).then_some(length)
        })
        .collect();
        assert_eq!(lengths[..6], [4096, 8192, 16_384, 32_768, 65_536, 65_536]);
        assert_eq!((lengths.iter().sum::<usize>(), lengths.iter().max()), (1 << 20, Some(&MOST)));
        assert_eq!(Overlap::default().next(100), 100);
    }

    #[test]
    fn a_number_that_is_no_socket_is_a_bad_descriptor() {
        // SAFETY: refused before anything is read or written.
        unsafe {
            assert_eq!(ferroce_rsend(-1, ptr::null(), 1, 0), -1);
            assert_eq!(Errno::last().number, libc::EBADF);
            assert_eq!(ferroce_rrecv(0, ptr::null_mut(), 1, 0), -1);
            assert_eq!(Errno::last().number, libc::EBADF);
        }
    }
}
