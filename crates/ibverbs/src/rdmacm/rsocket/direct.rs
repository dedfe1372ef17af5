//! Direct writes: `riomap`, `riounmap`, `riowrite`. A program maps memory of its own to an offset, and
//! its peer writes there without anybody at this end taking part.
//!
//! A map is an entry of a table at the other side: offset, address, key, length. It is written there
//! by the next call that sends anything, before its data, and takes a credit as data does.

use core::ffi::{c_int, c_void};

use super::pieces::{Pieces, single};
use super::socket::{self, Inner, Patience, Step};
use super::stream::Stream;
use super::transfer::{Overlap, blocked, count};
use crate::errno::{Errno, minus_one};

fn stream(inner: &mut Inner) -> Result<&mut Stream, Errno> {
    inner.stream.as_mut().ok_or(Errno::NOT_CONNECTED)
}

/// Registers memory of the program: for the peer's writes at an offset, or for nobody's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_riomap(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    prot: c_int,
    _flags: c_int,
    offset: libc::off_t,
) -> libc::off_t {
    let mut chosen = offset;
    let result = socket::find(socket).and_then(|socket| {
        let bound = prot & !(libc::PROT_WRITE | libc::PROT_NONE) == 0;
        let length = u32::try_from(len).ok().filter(|length| bound && *length > 0);
        let length = length.ok_or(Errno::invalid(
            "prot is neither PROT_WRITE nor PROT_NONE, or len is 0 or beyond 4 GiB",
        ))?;
        let address = buf.expose_provenance() as u64;
        if buf.is_null() || address.checked_add(len as u64).is_none() {
            return Err(Errno::FAULT.because("buf is NULL, or wraps around the address space"));
        }
        if offset == -1 {
            chosen = address.cast_signed();
        }
        let mut inner = socket.lock();
        let stream = stream(&mut inner)?;
        let table = match prot & libc::PROT_WRITE {
            0 => None,
            _ => Some(stream.peer().ok_or(Errno::NOT_CONNECTED)?.maps),
        };
        let (device, memory) = ((&*stream.context, stream.pd), (address, length));
        stream.maps.add(device, memory, chosen.cast_unsigned(), table)
    });
    if minus_one!(result) == 0 { chosen } else { -1 }
}

/// Ends what [`ferroce_riomap`] has begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_riounmap(socket: c_int, buf: *mut c_void, len: usize) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        let mut inner = socket.lock();
        let stream = stream(&mut inner)?;
        stream.maps.remove(&stream.context, (buf.addr() as u64, len))
    }))
}

/// Writes to what the peer has mapped at `offset`. The peer is told nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_riowrite(
    socket: c_int,
    buf: *const c_void,
    count: usize,
    offset: libc::off_t,
    flags: c_int,
) -> isize {
    count!(socket::find(socket).and_then(|socket| {
        let buffers = single(buf, count);
        let mut pieces = Pieces::new(&buffers)?;
        let (mut overlap, mut written) = (Overlap::default(), 0);
        socket.until(Patience::of(flags), |inner| {
            let Some(stream) = inner.ready()? else { return Ok(Step::Waits(0)) };
            while stream.writable && stream.tell_of_map() {}
            if stream.maps.has_untold() {
                return blocked(stream, written);
            }
            while pieces.left() > 0 {
                let at = offset.cast_unsigned().wrapping_add(written as u64);
                let Some(place) = stream.maps.at(at) else {
                    return match written {
                        0 => Err(Errno::invalid("the peer has no riomap at this offset")),
                        written => Ok(Step::Done(written)),
                    };
                };
                let most = overlap.next(pieces.left());
                let length = match stream.writable {
                    // SAFETY: C passes as many readable bytes as it says.
                    true => unsafe { stream.send_to(&mut pieces, most, place) },
                    false => 0,
                };
                if length == 0 {
                    return blocked(stream, written);
                }
                written += length;
            }
            Ok(Step::Done(written))
        })
    }))
}
