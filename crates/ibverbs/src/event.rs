//! Queues of events behind a file descriptor that programs can poll.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rdma::Qpn;
use softnic::EventSink;
use transport::cm::CmEvent;
use transport::{CqId, Event, SrqId};

use crate::abi;
use crate::errno::Errno;
use crate::rdmacm::Connections;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue whose descriptor is readable while an event waits. The program may make the descriptor
/// non-blocking, and then an empty queue is `EAGAIN`.
///
/// **Invariant:** the descriptor is a semaphore that counts the events in the queue.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    semaphore: OwnedFd,
    events: Mutex<VecDeque<T>>,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: a plain system call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let semaphore = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { semaphore, events: Mutex::new(VecDeque::new()) })
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

    /// Takes the oldest event, and waits for one unless the descriptor is non-blocking.
    pub(crate) fn pop(&self) -> Result<T, Errno> {
        self.pop_after(|| self.wait())
    }

    /// As [`EventQueue::pop`], where a thread that is cancelled may be unwound to its end.
    pub(crate) fn pop_or_be_cancelled(&self) -> Result<T, Errno> {
        unsafe extern "C-unwind" {
            fn read(fd: c_int, bytes: *mut c_void, length: usize) -> isize;
        }
        self.pop_after(|| {
            let mut count = [0; 8];
            // SAFETY: eight writable bytes.
            let read = unsafe { read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
            if read < 0 { Err(Errno::last()) } else { Ok(()) }
        })
    }

    fn pop_after(&self, wait: impl Fn() -> Result<(), Errno>) -> Result<T, Errno> {
        loop {
            wait()?;
            // An event may have been withdrawn between the two steps.
            if let Some(event) = lock(&self.events).pop_front() {
                return Ok(event);
            }
        }
    }

    /// Withdraws the events that `unwanted` names.
    pub(crate) fn withdraw(&self, unwanted: impl Fn(&T) -> bool) {
        drop(self.take(unwanted));
    }

    /// Takes the events that `wanted` names, wherever they stand.
    pub(crate) fn take(&self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut events = lock(&self.events);
        let (taken, left): (Vec<T>, Vec<T>) = events.drain(..).partition(wanted);
        *events = left.into();
        for _ in &taken {
            if self.is_readable() {
                // Nothing is lost if another thread was faster: it finds no event and waits on.
                let _taken = self.wait();
            }
        }
        taken
    }

    fn wait(&self) -> Result<(), Errno> {
        let mut count = [0; 8];
        // SAFETY: eight writable bytes.
        let read = unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
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

    /// A program has acknowledged `count` events. `finish` is told how many that makes, and is the last
    /// to see the object: whoever waits to destroy it goes on afterwards, and finds it unused.
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

/// A completion event: which queue, by its handle's address.
#[derive(Debug)]
pub(crate) struct CompletionEvent {
    pub(crate) cq: usize,
    pub(crate) acks: Arc<Acks>,
}

/// An asynchronous event: what happened to which object.
#[derive(Debug)]
pub(crate) struct AsyncEvent {
    pub(crate) kind: u32,
    pub(crate) object: usize,
    pub(crate) acks: Arc<Acks>,
}

/// What the sink must know of an object: no reference to the object itself, so that the last one
/// is never dropped on the NIC's thread.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    handle: usize,
    acks: Arc<Acks>,
    /// That of the object's context.
    queue: Arc<EventQueue<AsyncEvent>>,
}

/// What the sink must know of a completion queue.
#[derive(Debug)]
pub(crate) struct CqTarget {
    pub(crate) target: Target,
    pub(crate) completions: Option<(Arc<EventQueue<CompletionEvent>>, Arc<Acks>)>,
}

/// Who is behind the numbers of a NIC's engine.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    cqs: BTreeMap<CqId, CqTarget>,
    /// An XRC target may have several handles.
    qps: BTreeMap<Qpn, Vec<Target>>,
    srqs: BTreeMap<SrqId, Target>,
}

/// The events of one context: its asynchronous queue, and who is behind the engine's numbers, which
/// all contexts of a NIC share.
///
/// Objects enter and leave inside the call that makes or destroys them in the engine, under the
/// engine's lock, so that a number is never looked up while it means two objects.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) queue: Arc<EventQueue<AsyncEvent>>,
    /// Who is behind the connection manager's numbers.
    pub(crate) connections: Arc<Connections>,
    /// How many completion channels the contexts of the NIC have.
    pub(crate) channels: Arc<AtomicUsize>,
    targets: Arc<Mutex<Targets>>,
}

impl Events {
    pub(crate) fn new() -> Result<Self, Errno> {
        let queue = Arc::new(EventQueue::new()?);
        let (connections, channels) = (Arc::default(), Arc::default());
        Ok(Self { queue, connections, channels, targets: Arc::default() })
    }

    /// The events of another context of the same NIC.
    pub(crate) fn beside(&self) -> Result<Self, Errno> {
        let (connections, channels) = (Arc::clone(&self.connections), Arc::clone(&self.channels));
        let targets = Arc::clone(&self.targets);
        Ok(Self { queue: Arc::new(EventQueue::new()?), connections, channels, targets })
    }

    /// What the NIC calls.
    pub(crate) fn sink(&self) -> Sink {
        Sink { targets: Arc::clone(&self.targets), connections: Arc::clone(&self.connections) }
    }

    /// An object of this context.
    pub(crate) fn target(&self, handle: usize, acks: &Arc<Acks>) -> Target {
        Target { handle, acks: Arc::clone(acks), queue: Arc::clone(&self.queue) }
    }

    pub(crate) fn add_cq(&self, id: CqId, target: CqTarget) {
        lock(&self.targets).cqs.insert(id, target);
    }

    pub(crate) fn add_qp(&self, qpn: Qpn, target: Target) {
        lock(&self.targets).qps.entry(qpn).or_default().push(target);
    }

    pub(crate) fn add_srq(&self, id: SrqId, target: Target) {
        lock(&self.targets).srqs.insert(id, target);
    }

    pub(crate) fn remove_cq(&self, id: CqId) {
        lock(&self.targets).cqs.remove(&id);
    }

    /// Returns whether the handle was known.
    pub(crate) fn remove_qp(&self, qpn: Qpn, handle: usize) -> bool {
        let mut targets = lock(&self.targets);
        let Some(handles) = targets.qps.get_mut(&qpn) else { return false };
        let before = handles.len();
        handles.retain(|target| target.handle != handle);
        let known = handles.len() < before;
        if handles.is_empty() {
            targets.qps.remove(&qpn);
        }
        known
    }

    pub(crate) fn remove_srq(&self, id: SrqId) {
        lock(&self.targets).srqs.remove(&id);
    }

    /// Withdraws what waits for `handle`.
    pub(crate) fn withdraw(&self, handle: usize) {
        self.queue.withdraw(|event| event.object == handle);
    }
}

fn raise<'a>(kind: u32, targets: impl IntoIterator<Item = &'a Target>) {
    for Target { handle, acks, queue } in targets {
        queue.push(AsyncEvent { kind, object: *handle, acks: Arc::clone(acks) });
    }
}

/// What the NIC calls.
#[derive(Debug)]
pub(crate) struct Sink {
    targets: Arc<Mutex<Targets>>,
    connections: Arc<Connections>,
}

impl EventSink for Sink {
    fn event(&self, event: Event) {
        let targets = lock(&self.targets);
        let (kind, qpn) = match event {
            Event::CompletionNotify(id) => {
                if let Some(CqTarget { target, completions: Some((queue, acks)) }) =
                    targets.cqs.get(&id)
                {
                    queue.push(CompletionEvent { cq: target.handle, acks: Arc::clone(acks) });
                }
                return;
            }
            Event::CqError(id) => {
                let cq = targets.cqs.get(&id).map(|cq| &cq.target);
                return raise(abi::IBV_EVENT_CQ_ERR, cq);
            }
            Event::SrqLimitReached(id) => {
                return raise(abi::IBV_EVENT_SRQ_LIMIT_REACHED, targets.srqs.get(&id));
            }
            Event::QpFatal(qpn) => (abi::IBV_EVENT_QP_FATAL, qpn),
            Event::QpRequestError(qpn) => (abi::IBV_EVENT_QP_REQ_ERR, qpn),
            Event::QpAccessError(qpn) => (abi::IBV_EVENT_QP_ACCESS_ERR, qpn),
            Event::CommunicationEstablished(qpn) => (abi::IBV_EVENT_COMM_EST, qpn),
            Event::SqDrained(qpn) => (abi::IBV_EVENT_SQ_DRAINED, qpn),
            Event::LastWqeReached(qpn) => (abi::IBV_EVENT_QP_LAST_WQE_REACHED, qpn),
        };
        raise(kind, targets.qps.get(&qpn).into_iter().flatten());
    }

    fn connection(&self, event: CmEvent) {
        self.connections.deliver(event);
    }
}

#[cfg(test)]
mod tests {
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
