//! Queues of events behind a file descriptor that programs can poll.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::errno::Errno;
use crate::sync::lock;

/// A queue whose descriptor is readable while an event waits. The program may make the descriptor
/// non-blocking, and then an empty queue is `EAGAIN`.
///
/// **Invariant:** the descriptor is a semaphore that counts the events in the queue of the process that made it. A forked
/// child shares the semaphore, and has a copy of the queue.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    semaphore: OwnedFd,
    process: u32,
    events: Mutex<VecDeque<T>>,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: a plain system call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor is new, and owned here alone.
        let semaphore = unsafe { OwnedFd::from_raw_fd(fd) };
        let process = std::process::id();
        Ok(Self { semaphore, process, events: Mutex::new(VecDeque::new()) })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.semaphore.as_raw_fd()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.events).is_empty()
    }

    /// Whether the program has made the descriptor so.
    pub(crate) fn is_nonblocking(&self) -> bool {
        // SAFETY: a plain system call on our descriptor.
        let flags = unsafe { libc::fcntl(self.fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK != 0
    }

    pub(crate) fn push(&self, event: T) {
        lock(&self.events).push_back(event);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It can fail only after 2^64 events.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes the oldest event, and waits for one unless the descriptor is non-blocking. A thread that is
    /// cancelled while it waits may be unwound.
    pub(crate) fn pop(&self) -> Result<T, Errno> {
        loop {
            self.wait()?;
            // An event may have been withdrawn between the two steps.
            if let Some(event) = lock(&self.events).pop_front() {
                return Ok(event);
            }
        }
    }

    /// Withdraws the events for which `unwanted` holds.
    pub(crate) fn withdraw(&self, unwanted: impl Fn(&T) -> bool) {
        drop(self.take(unwanted));
    }

    /// Takes the events for which `wanted` holds, at any place of the queue.
    pub(crate) fn take(&self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut events = lock(&self.events);
        let (taken, left): (Vec<T>, Vec<T>) = events.drain(..).partition(wanted);
        *events = left.into();
        // What a forked child lets go of is still counted, for its parent.
        let is_counted = self.process == std::process::id();
        for _ in taken.iter().filter(|_| is_counted) {
            if self.is_readable() {
                // Nothing is lost if another thread was faster: it finds no event and waits on.
                let _taken = self.wait();
            }
        }
        taken
    }

    fn wait(&self) -> Result<(), Errno> {
        // `libc` declares one that does not unwind.
        unsafe extern "C-unwind" {
            fn read(fd: c_int, bytes: *mut c_void, length: usize) -> isize;
        }
        let mut count = [0; 8];
        // SAFETY: eight writable bytes.
        let read = unsafe { read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
        if read < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    fn is_readable(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }
}

impl<T> AsFd for EventQueue<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.semaphore.as_fd()
    }
}

/// How many events of an object a program has fetched and how many it has acknowledged. An object
/// is destroyed when both are equal.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    fetched: AtomicU32,
    acknowledged: Mutex<u32>,
    changed: Condvar,
}

impl Acks {
    /// A program has fetched an event.
    pub(crate) fn fetch(&self) {
        self.fetched.fetch_add(1, Ordering::AcqRel);
    }

    /// A program has acknowledged `count` events. `finish` gets the new total, and is the last to use the
    /// object: then a call that waits to destroy the object goes on, and finds it unused.
    pub(crate) fn acknowledge(&self, count: u32, finish: impl FnOnce(u32)) {
        let mut acknowledged = lock(&self.acknowledged);
        *acknowledged = acknowledged.wrapping_add(count);
        finish(*acknowledged);
        self.changed.notify_all();
    }

    /// Waits until every event that was fetched is acknowledged.
    pub(crate) fn wait(&self) {
        let pending = |acknowledged: &mut u32| {
            // A program that acknowledges too much must not wait for ever.
            self.fetched.load(Ordering::Acquire).wrapping_sub(*acknowledged).cast_signed() > 0
        };
        let guard = lock(&self.acknowledged);
        drop(self.changed.wait_while(guard, pending).unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn set_nonblocking(fd: RawFd) {
        // SAFETY: a plain system call on our descriptor.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    }

    #[test]
    fn the_descriptor_is_readable_while_events_wait() {
        let queue = EventQueue::new().unwrap();
        set_nonblocking(queue.fd());
        assert_eq!(queue.pop(), Err(Errno::AGAIN));
        queue.push(1);
        queue.push(2);
        assert!(queue.is_readable());
        assert_eq!((queue.pop(), queue.pop()), (Ok(1), Ok(2)));
        assert!(!queue.is_readable());
    }

    #[test]
    fn withdrawn_events_are_not_seen() {
        let queue = EventQueue::new().unwrap();
        set_nonblocking(queue.fd());
        for event in [1, 2, 1, 3] {
            queue.push(event);
        }
        queue.withdraw(|event| *event == 1);
        assert_eq!((queue.pop(), queue.pop()), (Ok(2), Ok(3)));
        assert_eq!(queue.pop(), Err(Errno::AGAIN));
    }

    #[test]
    fn an_object_waits_for_the_acknowledgement_of_what_was_fetched() {
        let acks = Arc::new(Acks::default());
        acks.fetch();
        acks.fetch();
        let waiter = {
            let acks = Arc::clone(&acks);
            std::thread::spawn(move || acks.wait())
        };
        acks.acknowledge(1, |total| assert_eq!(total, 1));
        assert!(!waiter.is_finished());
        acks.acknowledge(1, |total| assert_eq!(total, 2));
        waiter.join().unwrap();
    }

    #[test]
    fn who_waits_to_destroy_an_object_is_the_last_that_has_it() {
        let (acks, object) = (Arc::new(Acks::default()), Arc::new(()));
        for _ in 0..1_000 {
            acks.fetch();
            let (theirs, in_use) = (Arc::clone(&acks), Arc::clone(&object));
            let other = std::thread::spawn(move || theirs.acknowledge(1, |_| drop(in_use)));
            acks.wait();
            assert_eq!(Arc::strong_count(&object), 1);
            other.join().unwrap();
        }
    }
}
