//! How a NIC ends: because it is closed, or because its process exits ([`crate::fork`]).
//!
//! ```text
//!   thread ends ─► rings: nobody will look ─► debts are settled ─► off the list ─► sockets, rings, slot
//! ```
//!
//! Peers know nothing of processes. What is owed to them is sent first: acknowledgements that waited for
//! something to travel with, and the end of every conversation. What lies in rings has to be taken while
//! its sender can still be asked about, and what is counted to show in the file of counters.
//!
//! **Invariant:** others are waited for no longer than [`PAUSE_MAX`], whatever they do or do not.

use core::sync::atomic::Ordering;
use std::os::fd::AsFd;
use std::sync::{MutexGuard, PoisonError};

use crate::fork::Nics;
use crate::limits::{PAUSE_MAX, PAUSE_RETRY};
use crate::progress::{Core, Publish};
use crate::shared::Shared;
use crate::{Nic, clock, sys};

impl Shared {
    /// Before the end: sends the acknowledgements that would have waited, and takes leave of every
    /// peer. What waits for room at a destination may still get it, and what lies in rings is taken: who
    /// looks there must find a NIC that is there. Who has the file of counters open keeps it, with what
    /// was counted to the end.
    pub(crate) fn settle_debts<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> MutexGuard<'a, Core> {
        let began = clock::now();
        let mut now = began;
        core.owe_nothing(now);
        loop {
            if let Some(outbox) = core.load(now) {
                core = self.send(core, outbox, None);
            }
            let is_waited_for = core.is_paused() || core.is_untaken();
            if !is_waited_for || now.since(began) >= PAUSE_MAX {
                break;
            }
            drop(core);
            clock::pause(PAUSE_RETRY);
            core = self.lock();
            now = clock::now();
        }
        core.publish(now, Publish::Now);
        core
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.shared().is_dead() {
            // The thread is the parent's: here there is nothing to wait for.
            core::mem::forget(thread);
        } else if let Some(thread) = thread {
            self.shared().stop.store(true, Ordering::Release);
            sys::signal(self.shared().wake.as_fd());
            let _ = thread.join();
        }
        // Nobody else is in any call of this NIC, but one that stands in may be sending or receiving.
        let (core, inbox) = self.shared().lock_whole();
        if let Some(links) = &core.links {
            links.leave_rings();
        }
        drop(self.shared().settle_debts(core));
        drop(inbox);
        // Under the list's lock, so that no fork comes between leaving one group and the next.
        let mut nics = Nics::lock();
        nics.remove(self.shared());
        let (mut core, mut inbox) = self.shared().lock_whole();
        inbox.forget();
        if let Some(mut links) = core.links.take() {
            links.leave();
        }
        drop(core);
        drop(inbox);
        // Who stands in finds nothing left to look after.
        self.shared().wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{open, paused_for};
    use core::time::Duration;

    #[test]
    fn who_ends_waits_for_room_but_not_for_ever() {
        let (nic, full) = (open("127.0.135.5"), open("127.0.135.6"));
        let takes = || {
            let core = full.shared().lock();
            let flow = core.links.as_ref().unwrap().flow.as_ref().unwrap();
            flow.settle(flow.sent_to_us());
        };
        let given_up = |core: &Core| {
            assert!(!core.is_paused());
            core.counts.tx_pauses_given_up
        };
        // The machine may have no processor for the other before the wait is over.
        let waited = (0..20).any(|_| {
            paused_for(&nic, &full);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    takes();
                });
                let core = nic.shared().lock();
                let before = core.counts.tx_pauses_given_up;
                given_up(&nic.shared().settle_debts(core)) == before
            })
        });
        assert!(waited);
        paused_for(&nic, &full);
        let core = nic.shared().lock();
        let before = core.counts.tx_pauses_given_up;
        assert_eq!(given_up(&nic.shared().settle_debts(core)), before + 1);
    }
}
