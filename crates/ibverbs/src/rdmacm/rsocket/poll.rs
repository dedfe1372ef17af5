//! Waiting for several: `rpoll`, over rsockets and ordinary descriptors.

use core::ffi::c_int;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::settings;
use super::socket::{self, Descriptors, Inner, Phase, Socket};
use super::stream::End;
use super::waiting::{Waker, readable, sleep};
use crate::errno::{Errno, minus_one};

/// What both directions of a connection are ready for that is there no more.
const BOTH: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLOUT | libc::POLLWRNORM;
const READS: i16 = libc::POLLIN | libc::POLLRDNORM;
const WRITES: i16 = libc::POLLOUT | libc::POLLWRNORM;
/// The most descriptors.
const MOST: usize = 1 << 20;

/// What a socket is ready for, of `wanted`; errors and ends in any case.
fn ready(socket: &Socket, inner: &Inner, wanted: i16) -> i16 {
    let (is_ready, always) = match (inner.phase, &inner.stream) {
        (Phase::Listening, _) if socket.has_news() => (READS, 0),
        (Phase::Listening | Phase::Connecting | Phase::Accepting, _) => (0, 0),
        (Phase::New, _) => (WRITES, libc::POLLHUP),
        (Phase::Gone, _) => (0, libc::POLLNVAL),
        (Phase::Refused, _) | (Phase::Open, None) => (BOTH, libc::POLLERR | libc::POLLHUP),
        (Phase::Open, Some(stream)) => {
            let reads = stream.receiving.has_data() || !stream.readable;
            let writes = stream.sending.room() > 0 || !stream.writable;
            let hung_up = if stream.readable { 0 } else { libc::POLLRDHUP };
            let always = match stream.end {
                // As of TCP, what has arrived comes first: rstream takes POLLHUP for a failure.
                None => 0,
                Some(_) if stream.receiving.has_data() => 0,
                Some(End::Closed) => libc::POLLHUP,
                Some(End::Failed(_)) => libc::POLLERR | libc::POLLHUP,
            };
            let is_ready =
                hung_up | if reads { READS } else { 0 } | if writes { WRITES } else { 0 };
            (is_ready, always)
        }
    };
    is_ready & wanted | always
}

/// A list of descriptors, and which of them are rsockets.
struct List<'a> {
    fds: &'a mut [libc::pollfd],
    sockets: Vec<Option<Arc<Socket>>>,
}

impl List<'_> {
    /// Looks once, and counts those that are ready. `arms` has whatever happens afterwards wake this
    /// thread.
    fn check(&mut self, arms: bool) -> Result<usize, Errno> {
        // All are looked at before any is asked: a socket that is listed twice may have something new when it is looked
        // at again, and no descriptor tells of that afterwards.
        for socket in self.sockets.iter().flatten() {
            let mut inner = socket.lock();
            if arms {
                socket.arm(&mut inner);
            } else {
                socket.look(&mut inner);
            }
        }
        let mut others = Descriptors::new();
        for (fd, socket) in self.fds.iter_mut().zip(&self.sockets) {
            match socket {
                Some(socket) => fd.revents = ready(socket, &socket.lock(), fd.events),
                // Those that are rsockets are not to be asked of the kernel.
                None => others.push(libc::pollfd { revents: 0, ..*fd }),
            }
        }
        if !others.is_empty() {
            sleep(&mut others, Some(Instant::now()))?;
        }
        let mut others = others.iter();
        for (fd, socket) in self.fds.iter_mut().zip(&self.sockets) {
            if socket.is_none()
                && let Some(other) = others.next()
            {
                fd.revents = other.revents;
            }
        }
        Ok(self.fds.iter().filter(|fd| fd.revents != 0).count())
    }

    /// What to sleep on.
    fn descriptors(&self, waker: &Waker) -> Descriptors {
        let mut all = Descriptors::new();
        for (fd, socket) in self.fds.iter().zip(&self.sockets) {
            match socket {
                None => all.push(libc::pollfd { revents: 0, ..*fd }),
                Some(socket) => all.extend(socket.descriptors(&socket.lock())),
            }
        }
        all.push(readable(waker.descriptor()));
        all
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<usize, Errno> {
        let began = Instant::now();
        loop {
            let count = self.check(false)?;
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if count > 0 || is_over {
                return Ok(count);
            }
            if began.elapsed() >= settings::polling_time() {
                break;
            }
        }
        let waker = Waker::mine()?;
        let sockets: Vec<Arc<Socket>> = self.sockets.iter().flatten().cloned().collect();
        let _enlisted: Vec<_> =
            sockets.iter().map(|socket| socket.waiters.enlist(&waker)).collect();
        loop {
            waker.reset();
            let count = self.check(true)?;
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if count > 0 || is_over {
                return Ok(count);
            }
            let idle = sockets.iter().filter_map(|socket| socket.lock().options.keep_idle()).min();
            let asks = idle.and_then(|idle| Instant::now().checked_add(idle));
            let wakes = [asks, deadline].into_iter().flatten().min();
            if sleep(&mut self.descriptors(&waker), wakes)? == 0 {
                sockets.iter().for_each(|socket| socket.keep_alive());
            }
        }
    }
}

/// `rpoll` without C.
pub(super) fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> Result<usize, Errno> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let sockets: Vec<_> = fds.iter().map(|fd| socket::known(fd.fd)).collect();
    if sockets.iter().all(Option::is_none) {
        return sleep(fds, deadline);
    }
    List { fds, sockets }.wait(deadline)
}

/// Waits until one of several descriptors is ready, rsockets among them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rpoll(
    fds: *mut libc::pollfd,
    nfds: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    let mut count = 0;
    let result = (|| {
        let length = usize::try_from(nfds).ok().filter(|length| *length <= MOST);
        let length = length.ok_or(Errno::invalid("nfds is beyond any list of descriptors"))?;
        let mut none = [];
        let fds = match length {
            0 => &mut none[..],
            _ if fds.is_null() => return Err(Errno::FAULT),
            // SAFETY: C passes a list of this length.
            length => unsafe { core::slice::from_raw_parts_mut(fds, length) },
        };
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        count = poll(fds, timeout)?;
        Ok(())
    })();
    if minus_one!(result) == 0 { count as c_int } else { -1 }
}
