//! What the threads of a NIC share: the engine behind its lock, and who may send.
//!
//! ```text
//!          ┌──────────────────────── what others have left meanwhile ◄───────────────────────┐
//!          ▼                                                                                 │
//!   lock ─► build, tell ─► give up the lock ─► the kernel sends ─► lock ─► count ─► more? ───┴─► done
//! ```
//!
//! A thread of the application that calls, one that stands in for the progress thread, and that one
//! itself all do the same: they take what has arrived ([`Shared::look`]), and give what is ready
//! ([`Shared::give`]).
//!
//! **Invariants:** the inbox is locked before the engine. Only the thread that has the outbox sends. Events
//! are told before the lock is given up, so nobody hears of what another thread has just destroyed. A
//! thread with a claim ([`Shared::claim`]) gets the lock with the outbox in its place, and no other begins
//! to send before.

mod ending;
mod look;

pub(crate) use self::look::{Busy, Looked};

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use rdma::Time;

use crate::limits::{ROUNDS_FOR_OTHERS, SENDER_WAIT};
use crate::progress::core::Core;
use crate::progress::policy::OnDuty;
use crate::udp::inbox::Inbox;
use crate::udp::outbox::Outbox;
use crate::{EventSink, clock, sys};

/// What the threads of a NIC share.
pub(crate) struct Shared {
    pub(crate) core: Mutex<Core>,
    /// Locked before the core, by whoever looks what has arrived.
    pub(crate) inbox: Mutex<Inbox>,
    /// The outbox is back, and somebody has a claim to it.
    pub(crate) back: Condvar,
    pub(crate) events: Box<dyn EventSink>,
    /// Wakes the thread.
    pub(crate) wake: OwnedFd,
    /// Does so in time.
    pub(crate) timer: OwnedFd,
    /// Wakes who stands in for it.
    pub(crate) wake_stand_in: OwnedFd,
    /// Threads of the application that wait for an event and do not stand in.
    pub(crate) waiting: AtomicUsize,
    pub(crate) stop: AtomicBool,
}

impl Shared {
    /// A panic under the lock leaves an engine that is no worse than any other: it has no
    /// invariant that spans calls of ours.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Core>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sends what is ready and delivers the events.
    ///
    /// The lock is not held while the kernel sends. If another thread is sending already, that one
    /// goes on with what is left to it here; but not for ever: then it is the progress thread's.
    pub(crate) fn give<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        now: Time,
    ) -> MutexGuard<'a, Core> {
        let events = &*self.events;
        let outbox = core.load(now);
        core.tell(now, events);
        match outbox {
            Some(outbox) => self.send(core, outbox, Some(events)),
            None => core,
        }
    }

    /// Sends what is in the outbox, and what comes up meanwhile. There is nothing that is to be told
    /// when the lock is given up.
    #[inline(never)]
    pub(crate) fn send<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        mut outbox: Box<Outbox>,
        events: Option<&dyn EventSink>,
    ) -> MutexGuard<'a, Core> {
        let mut rounds = 0;
        loop {
            drop(core);
            outbox.send();
            core = self.lock();
            let is_full = core.unload(outbox);
            if core.attachment.sender.claims > 0 {
                self.back.notify_all();
            }
            let for_others = core.is_left_behind();
            rounds += u32::from(for_others);
            if rounds > ROUNDS_FOR_OTHERS || !(is_full || for_others) {
                return core;
            }
            let now = clock::now();
            let more = core.load(now);
            if let Some(events) = events {
                core.tell(now, events);
            }
            match more {
                Some(more) => outbox = more,
                None => return core,
            }
        }
    }

    /// Waits until nobody is sending, and keeps others from it meanwhile; for `patience` at most.
    pub(crate) fn claim<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        patience: Duration,
    ) -> MutexGuard<'a, Core> {
        if core.attachment.sender.is_whole() {
            return core;
        }
        core.attachment.sender.claims += 1;
        let is_away = |core: &mut Core| !core.attachment.sender.is_whole();
        let waited = self.back.wait_timeout_while(core, patience, is_away);
        let (mut core, _) = waited.unwrap_or_else(PoisonError::into_inner);
        core.attachment.sender.claims -= 1;
        core
    }

    /// The lock, with nobody sending or receiving, however long that takes.
    pub(crate) fn lock_whole(&self) -> (MutexGuard<'_, Core>, MutexGuard<'_, Inbox>) {
        let inbox = self.lock_inbox();
        let mut core = self.lock();
        while !core.attachment.sender.is_whole() {
            core = self.claim(core, SENDER_WAIT);
        }
        (core, inbox)
    }

    /// Whether it is a forked child's copy, or closed.
    pub(crate) fn is_dead(&self) -> bool {
        self.lock().attachment.is_dead()
    }

    /// Whether threads of the application wait for an event and do not stand in.
    pub(crate) fn do_others_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Wakes one on duty.
    pub(crate) fn wake_up(&self, who: OnDuty) {
        let wake = match who {
            OnDuty::Thread => &self.wake,
            OnDuty::StandIn => &self.wake_stand_in,
        };
        sys::signal(wake.as_fd());
    }

    /// Wakes whoever sleeps, to see what has changed.
    pub(crate) fn wake_all(&self) {
        self.wake_up(OnDuty::Thread);
        self.wake_up(OnDuty::StandIn);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::policy::{Parking, Pending};
    use crate::testing::{ask, open, sent};

    #[test]
    fn what_comes_up_while_somebody_sends_is_left_to_whoever_sends() {
        let nic = open("127.0.135.1");
        let outbox = nic.shared().lock().attachment.sender.outbox.take().unwrap();
        ask(&nic);
        let mut core = nic.shared().lock();
        assert_eq!(core.counts.tx_packets, 0);
        assert!(!core.is_left_behind(), "somebody is about to send it");
        core.unload(outbox);
        assert!(core.is_left_behind());
        // The progress thread, if it sleeps, is woken for what nobody else sends.
        let now = clock::now();
        core.policy.sleeps(OnDuty::Thread, now, &Parking::default(), Pending::default());
        assert_eq!(core.wakes(now), Some(OnDuty::Thread));
        drop(nic.shared().give(core, clock::now()));
        assert_eq!(sent(&nic), 1);
        assert!(!nic.shared().lock().is_left_behind());
    }

    #[test]
    fn who_has_a_claim_is_waited_for_and_has_the_rest_sent() {
        let nic = open("127.0.135.2");
        let outbox = nic.shared().lock().attachment.sender.outbox.take().unwrap();
        std::thread::scope(|scope| {
            let counts = scope.spawn(|| nic.counts());
            let claims = || nic.shared().lock().attachment.sender.claims;
            while claims() == 0 {
                std::thread::yield_now();
            }
            ask(&nic);
            let mut core = nic.shared().lock();
            core.unload(outbox);
            assert!(core.load(clock::now()).is_none(), "nobody else begins");
            nic.shared().back.notify_all();
            drop(core);
            assert_eq!(counts.join().unwrap().tx_packets, 0, "what was sent by then");
        });
        assert_eq!(sent(&nic), 1);
    }
}
