//! How a NIC ends: because it is closed, or because its process exits or forks ([`crate::fork`]).
//!
//! ```text
//!   thread ends ─► rings: nobody will look ─► debts are settled ─► off the list ─► sockets, rings, slot
//! ```
//!
//! Peers know nothing of processes. What is owed to them is sent first: acknowledgements that waited for
//! something to travel with, and the end of every conversation. Others have to take what
//! lies in rings before the sender is gone, and the file of counters has to show the last counts.
//!
//! **Invariant:** it waits for others no longer than [`PAUSE_MAX`], whatever they do.

use std::sync::{Arc, MutexGuard};

use super::Shared;
use crate::clock;
use crate::fork::{Forks, Held};
use crate::limits::{EXIT_WAIT, PAUSE_MAX, PAUSE_RETRY, SENDER_WAIT};
use crate::progress::core::Core;
use crate::progress::policy::{OnDuty, Policy};
use crate::udp::inbox::Inbox;

impl Shared {
    /// Before the end: sends the acknowledgements that would have waited, and takes leave of every
    /// peer. Then it waits until destinations have room for what is left, and have taken what lies in
    /// rings, whose packets count only while their sender lives. The file of counters shows the last state
    /// to programs that have it open.
    pub(crate) fn settle_debts<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> MutexGuard<'a, Core> {
        let began = clock::now();
        let mut now = began;
        if !core.attachment.is_dead() {
            core.endpoint.release_acknowledgements();
            core.manager.forget_all(now);
        }
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
        core.publish(now);
        core
    }
}

/// A NIC with its locks. Guards are released before the NIC that they are of may go.
struct Whole {
    core: MutexGuard<'static, Core>,
    inbox: MutexGuard<'static, Inbox>,
    nic: Arc<Shared>,
}

impl Forks for Shared {
    fn hold(self: Arc<Self>) -> Box<dyn Held> {
        // The child has no thread that could bring back what another has taken out.
        let guards = self.lock_whole();
        // SAFETY: the guards refer to the locks inside `self`, which is kept beside them and
        // dropped after them.
        let (core, inbox): (MutexGuard<'static, Core>, MutexGuard<'static, Inbox>) =
            unsafe { core::mem::transmute(guards) };
        Box::new(Whole { core, inbox, nic: self })
    }

    fn exit(&self) {
        if let Some(core) = patiently(self) {
            let core = self.claim(core, SENDER_WAIT);
            let mut core = self.settle_debts(core);
            core.attachment.site.observers.finish();
            core.attachment.site.paths.retire();
        }
    }
}

impl Held for Whole {
    fn in_parent(self: Box<Self>) {
        let Self { mut core, inbox, nic } = *self;
        let is_left_behind = core.is_left_behind();
        if is_left_behind {
            core.policy.woke(OnDuty::Thread);
            core.policy.woke(OnDuty::StandIn);
        }
        drop(core);
        drop(inbox);
        if is_left_behind {
            nic.wake_all();
        }
    }

    fn in_child(mut self: Box<Self>) {
        let Self { core, inbox, .. } = &mut *self;
        inbox.forget();
        core.attachment.forget();
        core.policy = Policy::default();
    }
}

/// The lock of a NIC, which its thread holds for microseconds at a time.
fn patiently(nic: &Shared) -> Option<MutexGuard<'_, Core>> {
    let end = clock::now() + EXIT_WAIT;
    loop {
        let core = nic.try_lock();
        if core.is_some() || clock::now() >= end {
            return core;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathChoice;
    use crate::testing::{open, open_by, paused_for};
    use core::time::Duration;

    #[test]
    fn who_ends_waits_for_room_but_not_for_ever() {
        let (nic, full) = (open("127.0.135.5"), open("127.0.135.6"));
        let takes = || {
            let mut core = full.shared().lock();
            let paths = &mut core.attachment.site.paths;
            paths.credits().begin_look();
            paths.found_empty(0..1, 1);
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

    /// The files of a slot, by which other processes reach it.
    fn files(slot: u16) -> Vec<std::ffi::OsString> {
        let all = std::fs::read_dir(crate::host::runtime::directory().unwrap()).unwrap();
        let names = all.map(|entry| entry.unwrap().file_name());
        let part = format!("-{slot}-");
        let mut files: Vec<_> =
            names.filter(|name| name.to_string_lossy().contains(&part)).collect();
        files.sort();
        files
    }

    #[test]
    fn a_child_that_closes_its_parents_nic_removes_none_of_its_files() {
        let nic = open_by("127.0.49.10", PathChoice::SharedMemory);
        let slot = nic.shared().lock().attachment.site.membership.registry.slot();
        let before = files(slot);
        assert!(!before.is_empty());
        // SAFETY: the child closes its copy, and ends.
        let child = unsafe {
            match libc::fork() {
                0 => {
                    drop(nic);
                    libc::_exit(0)
                }
                child => child,
            }
        };
        // SAFETY: no place for the status is given.
        assert_eq!(unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) }, child);
        assert_eq!(files(slot), before);
        drop(nic);
    }

    #[test]
    fn a_child_does_not_say_that_its_parents_nic_is_gone() {
        let nic = open_by("127.0.49.9", PathChoice::SharedMemory);
        // SAFETY: the child ends at once.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(0),
                child => child,
            }
        };
        // SAFETY: no place for the status is given.
        assert_eq!(unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) }, child);
        let mut core = nic.shared().lock();
        let site = &mut core.attachment.site;
        let (slot, credits) = (site.membership.registry.slot(), site.paths.credits());
        // A NIC that is there has room for something, and not for everything.
        assert!(!credits.is_full(slot) && credits.plan(slot, 1 << 30));
    }
}
