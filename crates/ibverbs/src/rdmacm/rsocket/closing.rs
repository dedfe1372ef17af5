//! The ends of a connection: `rshutdown`, `rclose`.
//!
//! Who sends no more says so, and waits until all that it has sent is acknowledged: what a program has
//! sent before it closes has arrived at the peer's host.

use core::ffi::c_int;

use super::message::Message;
use super::socket::{self, Patience, Phase, Socket, Step};
use crate::errno::{Errno, minus_one};

/// Ends one direction, or both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rshutdown(socket: c_int, how: c_int) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| shut_down(&socket, how)))
}

fn shut_down(socket: &Socket, how: c_int) -> Result<(), Errno> {
    let message = {
        let mut inner = socket.lock();
        let Some(stream) = inner.ready()? else { return Err(Errno::NOT_CONNECTED) };
        match how {
            libc::SHUT_RD => stream.readable = false,
            libc::SHUT_WR => stream.writable = false,
            libc::SHUT_RDWR => (stream.readable, stream.writable) = (false, false),
            _ => return Err(Errno::invalid("how is none of SHUT_RD, SHUT_WR and SHUT_RDWR")),
        }
        match (stream.readable, stream.writable) {
            // The peer may go on sending, and is not told that nobody reads it.
            (_, true) => None,
            (true, false) => Some(Message::Shutdown),
            (false, false) => Some(Message::Disconnect),
        }
    };
    // Threads that wait for data find that there will be none.
    socket.waiters.wake_others();
    let Some(message) = message else { return Ok(()) };
    let mut is_told = false;
    socket.until(Patience::Always, |inner| {
        let Some(stream) = inner.stream.as_mut().filter(|stream| stream.is_open()) else {
            return Ok(Step::Done(0));
        };
        if !is_told && stream.sending.may_control() {
            is_told = true;
            stream.tell(message);
        }
        let is_done = is_told && stream.sending.is_done();
        Ok(if is_done { Step::Done(0) } else { Step::Waits(0) })
    })?;
    Ok(())
}

/// Ends a socket, and its connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rclose(socket: c_int) -> c_int {
    minus_one!(socket::remove(socket).map(|socket| {
        if socket.lock().phase == Phase::Open {
            // A signal, or a peer that has gone, ends it sooner.
            let _ = shut_down(&socket, libc::SHUT_RDWR);
        }
        socket.destroy();
    }))
}
