//! A socket: what the program's number stands for, what it waits for, and how it is found.
//!
//! ```text
//!   New ── rlisten ──► Listening ── raccept makes another ──► Accepting ──┐
//!    └── rconnect ──► Connecting ──────────────────────────────────────► Open
//!                          └──► Refused                                        rclose: Gone
//! ```
//!
//! The number is the descriptor of the id's event channel. It becomes readable when the connection
//! manager has something to say, and is free again when the socket is closed.
//!
//! **Invariant:** a socket's lock is never held while its thread sleeps. A forked child has none of its
//! parent's sockets: their devices are the parent's.

use core::cell::RefCell;
use core::ffi::c_int;
use core::mem;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::time::Instant;

use super::super::abi::event;
use super::super::id::CmId;
use super::super::{create, fetch};
use super::greeting::Greeting;
use super::message::Message;
use super::settings::{self, Options};
use super::stream::{End, Stream};
use super::waiting::{Waiters, Waker, readable, sleep};
use crate::connections::Queue;
use crate::errno::Errno;
use crate::sync::lock;

type Table = BTreeMap<c_int, Arc<Socket>>;

static SOCKETS: Mutex<Table> = Mutex::new(Table::new());

thread_local! {
    /// What a thread that forks holds meanwhile, so that the child finds the table free.
    static HELD: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

/// Makes every later fork leave the child without sockets.
fn guard_forks() {
    extern "C" fn before() {
        // A thread whose local storage is destroyed forks without the lock.
        let _held = HELD.try_with(|held| held.replace(Some(lock(&SOCKETS))));
    }
    extern "C" fn of_parent() {
        let _released = HELD.try_with(|held| held.replace(None));
    }
    extern "C" fn of_child() {
        let held = HELD.try_with(|held| held.replace(None)).ok().flatten();
        if let Some(mut sockets) = held {
            // Nothing of them is ended: the connections are the parent's.
            mem::forget(mem::take(&mut *sockets));
        }
        Waker::forget();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers take and release a lock and do not unwind.
        unsafe { libc::pthread_atfork(Some(before), Some(of_parent), Some(of_child)) };
    });
}

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) number: c_int,
    pub(super) id: Arc<CmId>,
    queue: Arc<Queue>,
    inner: Mutex<Inner>,
    pub(super) waiters: Waiters,
}

/// How far a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    New,
    Listening,
    /// We have asked; the peer has not answered.
    Connecting,
    /// We have answered; the peer has not confirmed.
    Accepting,
    Open,
    Refused,
    Gone,
}

/// What a socket knows.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) phase: Phase,
    /// What `SO_ERROR` tells once.
    pub(super) error: c_int,
    pub(super) stream: Option<Stream>,
}

/// What an attempt has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Done(usize),
    /// There is more to do, and nothing to do it with. So much is done.
    Waits(usize),
}

/// Whether a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// Unless the socket is non-blocking.
    AsSet,
    /// In any case.
    Always,
    Never,
}

impl Patience {
    /// As the flags of a call say.
    pub(super) fn of(flags: c_int) -> Self {
        if flags & libc::MSG_DONTWAIT != 0 { Self::Never } else { Self::AsSet }
    }
}

/// The socket behind a number; `EBADF` if there is none.
pub(super) fn find(number: c_int) -> Result<Arc<Socket>, Errno> {
    known(number).ok_or(Errno::new(libc::EBADF).because("no rsocket has this number"))
}

pub(super) fn known(number: c_int) -> Option<Arc<Socket>> {
    lock(&SOCKETS).get(&number).cloned()
}

/// Makes the socket of an id, with a channel of its own, known.
pub(super) fn insert(id: Arc<CmId>, inner: Inner) -> Result<Arc<Socket>, Errno> {
    guard_forks();
    let channel = id.lock().own_channel.clone();
    let queue = channel.map(|channel| Arc::clone(&channel.queue));
    let queue = queue.ok_or(Errno::invalid("the id has no channel of its own"))?;
    let number = queue.fd();
    // SAFETY: a plain system call on our descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(Errno::last());
    }
    let (inner, waiters) = (Mutex::new(inner), Waiters::default());
    let socket = Arc::new(Socket { number, id, queue, inner, waiters });
    lock(&SOCKETS).insert(number, Arc::clone(&socket));
    Ok(socket)
}

/// Takes a socket out of the table: nobody finds it any more.
pub(super) fn remove(number: c_int) -> Result<Arc<Socket>, Errno> {
    let removed = lock(&SOCKETS).remove(&number);
    removed.ok_or(Errno::new(libc::EBADF).because("no rsocket has this number"))
}

impl Inner {
    pub(super) fn new(options: Options, phase: Phase, stream: Option<Stream>) -> Self {
        Self { options, phase, error: 0, stream }
    }

    /// The connection; none yet while it is being made.
    pub(super) fn ready(&mut self) -> Result<Option<&mut Stream>, Errno> {
        match self.phase {
            Phase::New | Phase::Listening => Err(Errno::NOT_CONNECTED),
            Phase::Connecting | Phase::Accepting => Ok(None),
            Phase::Refused => Err(match mem::take(&mut self.error) {
                0 => Errno::NOT_CONNECTED,
                error => Errno::new(error),
            }),
            Phase::Gone => Err(Errno::new(libc::EBADF)),
            Phase::Open => Ok(self.stream.as_mut()),
        }
    }

    /// The connection is made.
    pub(super) fn open(&mut self) {
        self.phase = Phase::Open;
        if let Some(stream) = &mut self.stream {
            stream.establish();
        }
    }

    /// The connection could not be made.
    pub(super) fn refuse(&mut self, error: Errno) {
        (self.phase, self.error) = (Phase::Refused, error.number);
    }
}

impl Socket {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Whether the connection manager has something to say.
    pub(super) fn has_news(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes what has happened, and wakes other threads that wait for it.
    pub(super) fn look(&self, inner: &mut Inner) {
        let has_changed = match inner.phase {
            Phase::Connecting => self.is_answered(inner),
            Phase::Accepting => {
                // What the peer sends confirms as well, and may be faster.
                let has_sent = inner.stream.as_mut().is_some_and(Stream::look);
                if has_sent {
                    inner.open();
                }
                has_sent | self.is_answered(inner)
            }
            Phase::Open => {
                let has_heard = self.has_news() && self.is_taken_down(inner);
                inner.stream.as_mut().is_some_and(Stream::look) | has_heard
            }
            _ => false,
        };
        if has_changed {
            self.waiters.wake_others();
        }
    }

    /// Whether the peer has answered, and what.
    fn is_answered(&self, inner: &mut Inner) -> bool {
        if !matches!(inner.phase, Phase::Connecting | Phase::Accepting) {
            return false;
        }
        let result = match fetch::complete(&self.id) {
            Err(error) if error == Errno::AGAIN => return false,
            result => result.and_then(|()| self.established(inner)),
        };
        match result {
            Ok(()) => inner.open(),
            Err(error) => inner.refuse(error),
        }
        true
    }

    /// The event that the id shows is to say that there is a connection.
    pub(super) fn established(&self, inner: &mut Inner) -> Result<(), Errno> {
        let (kind, greeting) = heard(&self.id).ok_or(Errno::IO)?;
        if kind != event::ESTABLISHED {
            return Err(Errno::new(libc::ECONNREFUSED));
        }
        if inner.phase != Phase::Connecting {
            return Ok(());
        }
        let stream = inner.stream.as_mut().ok_or(Errno::NOT_CONNECTED)?;
        let greeting = greeting.ok_or(Errno::UNSUPPORTED)?;
        stream.greet(greeting);
        Ok(())
    }

    /// Whether the peer's connection manager has ended the connection.
    fn is_taken_down(&self, inner: &mut Inner) -> bool {
        let result = fetch::complete(&self.id);
        let kind = heard(&self.id).map(|(kind, _)| kind);
        if result == Err(Errno::AGAIN) || kind == Some(event::ESTABLISHED) {
            return false;
        }
        let Some(stream) = &mut inner.stream else { return false };
        // What it has sent before comes first.
        stream.look();
        stream.close();
        true
    }

    /// Repeats `attempt` until it is done, or says that it would have to wait.
    pub(super) fn until(
        &self,
        patience: Patience,
        mut attempt: impl FnMut(&mut Inner) -> Result<Step, Errno>,
    ) -> Result<usize, Errno> {
        let mut inner = self.lock();
        if let Step::Done(count) = attempt(&mut inner)? {
            return Ok(count);
        }
        let mut began = None;
        loop {
            self.look(&mut inner);
            let count = match attempt(&mut inner)? {
                Step::Done(count) => return Ok(count),
                Step::Waits(count) => count,
            };
            let gives_up = match patience {
                Patience::AsSet => inner.options.nonblocking,
                Patience::Always => false,
                Patience::Never => true,
            };
            if gives_up {
                return so_far(count, Errno::AGAIN);
            }
            drop(inner);
            let began = *began.get_or_insert_with(Instant::now);
            if began.elapsed() >= settings::polling_time() {
                break;
            }
            inner = self.lock();
        }
        self.wait(attempt)
    }

    /// Sleeps between attempts.
    fn wait(
        &self,
        mut attempt: impl FnMut(&mut Inner) -> Result<Step, Errno>,
    ) -> Result<usize, Errno> {
        let waker = Waker::mine()?;
        let _enlisted = self.waiters.enlist(&waker);
        loop {
            waker.reset();
            let mut inner = self.lock();
            self.arm(&mut inner);
            let count = match attempt(&mut inner)? {
                Step::Done(count) => return Ok(count),
                Step::Waits(count) => count,
            };
            let mut descriptors = self.descriptors(&inner);
            descriptors.push(readable(waker.descriptor()));
            let nic = inner.stream.as_ref().map(|stream| stream.context.nic.stand_in());
            let deadline =
                inner.options.keep_idle().and_then(|idle| Instant::now().checked_add(idle));
            drop(inner);
            let _waiting = nic.as_ref().map(softnic::StandIn::waiting);
            match sleep(&mut descriptors, deadline) {
                Ok(0) => self.keep_alive(),
                Ok(_) => {}
                Err(error) => return so_far(count, error),
            }
        }
    }

    /// Sends something that the peer's NIC has to acknowledge, unless that is waited for already.
    pub(super) fn keep_alive(&self) {
        let mut inner = self.lock();
        if inner.options.keep_idle().is_none() {
            return;
        }
        if let Ok(Some(stream)) = inner.ready()
            && stream.is_open()
            && stream.sending.is_done()
        {
            stream.tell(Message::KeepAlive);
        }
    }

    /// Looks, and has whatever happens afterwards make a descriptor readable.
    pub(super) fn arm(&self, inner: &mut Inner) {
        loop {
            let arms = inner.stream.as_mut().is_none_or(Stream::arm);
            self.look(inner);
            // What it has found may have used the arming up.
            if !arms || inner.stream.as_ref().is_none_or(Stream::is_armed) {
                return;
            }
        }
    }

    /// What is readable when the socket should look.
    pub(super) fn descriptors(&self, inner: &Inner) -> Descriptors {
        let stream = inner.stream.as_ref().map(|stream| readable(stream.descriptor()));
        [Some(readable(self.number)), stream].into_iter().flatten().collect()
    }

    /// Ends the socket, which nobody finds any more.
    pub(super) fn destroy(&self) {
        let mut inner = self.lock();
        inner.phase = Phase::Gone;
        if let Some(stream) = inner.stream.take() {
            stream.destroy(&self.id);
        }
        self.waiters.wake_others();
        drop(inner);
        create::destroy(&self.id);
    }
}

/// Descriptors to sleep on.
pub(super) type Descriptors = smallvec::SmallVec<[libc::pollfd; 4]>;

/// What was done before a call could not go on.
fn so_far(count: usize, error: Errno) -> Result<usize, Errno> {
    if count > 0 { Ok(count) } else { Err(error) }
}

/// The event that an id shows: its kind, and the peer's greeting if it has one.
pub(super) fn heard(id: &CmId) -> Option<(u32, Option<Greeting>)> {
    let told = id.shown().event;
    // SAFETY: an event that the id shows is not acknowledged yet; only this socket does that, under
    // its lock.
    let told = unsafe { told.as_ref() }?;
    let carries = matches!(told.event, event::ESTABLISHED | event::CONNECT_REQUEST);
    // SAFETY: those events are of connections.
    let param = unsafe { told.param.conn };
    if !carries || param.private_data.is_null() {
        return Some((told.event, None));
    }
    let (data, length) = (param.private_data.cast::<u8>(), param.private_data_len.into());
    // SAFETY: private data of the event, as long as it says.
    let data = unsafe { core::slice::from_raw_parts(data, length) };
    Some((told.event, Greeting::parse(data)))
}

/// How a connection has ended, for who wants to read or to send.
pub(super) fn failure(stream: &Stream) -> Option<Errno> {
    match stream.end {
        Some(End::Failed(error)) => Some(Errno::new(error)),
        Some(End::Closed) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wakes_a_forked_child_wakes_none_of_its_parents_threads() {
        guard_forks();
        let own = Waker::mine().unwrap();
        // SAFETY: the child makes a descriptor and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let woken = Waker::mine().map(|waker| waker.wake());
                libc::_exit(c_int::from(woken.is_err()));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        }
        let now = Some(Instant::now());
        assert_eq!(sleep(&mut [readable(own.descriptor())], now), Ok(0));
        own.wake();
        assert_eq!(sleep(&mut [readable(own.descriptor())], now), Ok(1));
    }
}
