//! Threads that wait: each sleeps on descriptors, and on one of its own by which other threads wake it.
//!
//! Several threads may wait for one socket, some inside `rpoll`. What happens makes a descriptor
//! readable once, and the first that looks takes it. So whoever finds that something has happened
//! wakes all others, and each looks for itself.

use core::ptr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::errno::Errno;
use crate::signals;
use crate::sync::lock;

/// By what a thread is woken.
#[derive(Debug)]
pub(super) struct Waker(OwnedFd);

thread_local! {
    static MINE: Mutex<Option<Arc<Waker>>> = const { Mutex::new(None) };
}

impl Waker {
    fn new() -> Result<Arc<Self>, Errno> {
        // SAFETY: a plain system call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor is new, and owned here alone.
        Ok(Arc::new(Self(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// That of this thread.
    pub(super) fn mine() -> Result<Arc<Self>, Errno> {
        let known = MINE.try_with(|mine| {
            let mut mine = lock(mine);
            if mine.is_none() {
                *mine = Some(Self::new()?);
            }
            Ok::<_, Errno>(mine.clone())
        });
        match known {
            Ok(known) => known?.ok_or(Errno::IO),
            // A destructor of the ending thread waits.
            Err(_) => Self::new(),
        }
    }

    /// Leaves that of this thread to the parent, from which a forked child has it: both would take each other's wake-ups.
    pub(super) fn forget() {
        let _ending = MINE.try_with(|mine| lock(mine).take());
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(super) fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight readable bytes. A counter that is full wakes as well.
        unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), one.len()) };
    }

    /// From now on only what happens now wakes.
    pub(super) fn reset(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: eight writable bytes.
        unsafe { libc::read(self.descriptor(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// The threads that wait for a socket.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Vec<Arc<Waker>>>);

impl Waiters {
    /// Adds a thread for as long as the answer lives.
    pub(super) fn enlist<'a>(&'a self, waker: &'a Arc<Waker>) -> Enlisted<'a> {
        lock(&self.0).push(Arc::clone(waker));
        Enlisted { waiters: self, waker }
    }

    /// Wakes all threads but this one.
    pub(super) fn wake_others(&self) {
        let waiters = lock(&self.0);
        if waiters.is_empty() {
            return;
        }
        let mine = MINE.try_with(|mine| lock(mine).clone()).ok().flatten();
        let is_mine =
            |waker: &Arc<Waker>| mine.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, waker));
        for waker in waiters.iter().filter(|waker| !is_mine(waker)) {
            waker.wake();
        }
    }
}

/// A thread among those that wait for a socket.
#[derive(Debug)]
pub(super) struct Enlisted<'a> {
    waiters: &'a Waiters,
    waker: &'a Arc<Waker>,
}

impl Drop for Enlisted<'_> {
    fn drop(&mut self) {
        let mut waiters = lock(&self.waiters.0);
        if let Some(at) = waiters.iter().position(|waker| Arc::ptr_eq(waker, self.waker)) {
            waiters.swap_remove(at);
        }
    }
}

/// An entry for [`sleep`].
pub(super) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Sleeps until one of `descriptors` is ready, and says how many are; 0 at `deadline`.
///
/// # Errors
/// `EINTR` after a signal whose handler was not installed with `SA_RESTART`.
pub(super) fn sleep(
    descriptors: &mut [libc::pollfd],
    deadline: Option<Instant>,
) -> Result<usize, Errno> {
    loop {
        let left = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            libc::timespec {
                tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let timeout = left.as_ref().map_or(ptr::null(), ptr::from_ref);
        let count = descriptors.len() as libc::nfds_t;
        // SAFETY: a list and its length; a time, or NULL; no change of the signal mask.
        let ready = unsafe { libc::ppoll(descriptors.as_mut_ptr(), count, timeout, ptr::null()) };
        match usize::try_from(ready) {
            Ok(ready) => return Ok(ready),
            Err(_) => {
                let error = Errno::last();
                if error.number != libc::EINTR || !signals::restart() {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn who_finds_something_wakes_all_others() {
        let waiters = Arc::new(Waiters::default());
        let own = Waker::mine().unwrap();
        let _enlisted = waiters.enlist(&own);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let waiters = Arc::clone(&waiters);
                std::thread::spawn(move || {
                    let waker = Waker::mine().unwrap();
                    let _enlisted = waiters.enlist(&waker);
                    sleep(&mut [readable(waker.descriptor())], None)
                })
            })
            .collect();
        while lock(&waiters.0).len() < 3 {
            std::thread::yield_now();
        }
        waiters.wake_others();
        for other in others {
            assert_eq!(other.join().unwrap(), Ok(1));
        }
        let now = Some(Instant::now());
        assert_eq!(sleep(&mut [readable(own.descriptor())], now), Ok(0));
        assert_eq!(lock(&waiters.0).len(), 1, "the others have left");
    }

    #[test]
    fn a_wake_up_is_kept_until_it_is_taken() {
        let waker = Waker::mine().unwrap();
        waker.wake();
        waker.wake();
        let soon = || Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(sleep(&mut [readable(waker.descriptor())], soon()), Ok(1));
        waker.reset();
        waker.reset();
        assert_eq!(sleep(&mut [readable(waker.descriptor())], soon()), Ok(0));
    }
}
