//! What attaches a NIC to its host: sockets, slot, rings, and what goes with them.
//!
//! ```text
//!   sender ──────┐            ┌── membership   slot, sockets, groups
//!                ├─── site ───┼── paths        UDP, shared memory, room at their ends
//!   receiver ────┘            ├── management   messages of QP1
//!                             └── observers    record of packets, file of counters
//! ```
//!
//! It is all that a forked child must not have, and what is left when a NIC is closed. A NIC without it is
//! dead: it has no sockets, no rings and nothing to show, so that its engine can be called and reaches
//! nobody ([`crate::fork`]).

mod identification;
pub(crate) mod membership;
pub(crate) mod observers;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod site;

use std::os::fd::{AsFd, BorrowedFd};

use rdma::{Gid, Qpn, Time};

use self::membership::Membership;
use self::observers::Observers;
use self::receiver::Receiver;
use self::sender::Sender;
use self::site::Site;
use crate::engine::Engine;
use crate::management::Management;
use crate::packet::Missed;
use crate::path::Paths;
use crate::sys::Sleepless;
use crate::{DeviceInfo, OpenError, Options};

/// What attaches a NIC.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) site: Site,
    is_dead: bool,
}

impl Attachment {
    /// Takes a slot, and joins the group of each of the device's addresses.
    pub(crate) fn open(device: &DeviceInfo, options: &Options) -> Result<Self, OpenError> {
        let mut membership = Membership::claim(device.lab.as_ref())?;
        let mut observers = Observers::open(device, options, membership.registry.slot())?;
        if let Err(error) = membership.join_all(device, options) {
            membership.leave();
            observers.leave();
            return Err(error);
        }
        let sender = Sender::new(options, &membership.sockets);
        // A fault may be a wrong bit, and a record shows packets as they would be on the wire.
        let sees_packets = options.faults.is_some() || observers.capture.is_some();
        let paths = Paths::open(&membership, options, sees_packets);
        let management = Management::default();
        let site = Site { membership, paths, management, observers };
        Ok(Self { sender, receiver: Receiver::new(), site, is_dead: false })
    }

    /// Leaves all groups, in order, so that the others' packets find them. The inbox must have let go
    /// of the sockets. A dead one has left, and the files of its slot are the parent's.
    pub(crate) fn leave(&mut self) {
        if self.is_dead {
            return;
        }
        let Site { membership, paths, observers, .. } = &mut self.site;
        paths.leave();
        self.sender.end();
        membership.leave();
        observers.leave();
        self.is_dead = true;
    }

    /// In a forked child: lets go of everything, without a word.
    pub(crate) fn forget(&mut self) {
        let Site { membership, paths, management, observers } = &mut self.site;
        paths.forget();
        self.sender.end();
        membership.forget();
        *management = Management::default();
        *observers = Observers::default();
        self.is_dead = true;
    }

    /// Whether it is that of a forked child, or of a NIC that was closed: nothing is begun any more.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Whether what has been given to it has left, and nothing is to be written down at `now`.
    #[inline]
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        let Site { paths, management, observers, .. } = &self.site;
        self.sender.is_quiet()
            && !paths.is_paused()
            && management.deadline().is_none()
            && observers.is_quiet(now)
    }

    /// All that packets arrive by. The sockets come first, port by port.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let Site { membership, paths, .. } = &self.site;
        let sockets = membership.all_sockets().map(|socket| socket.as_fd());
        let handover = membership.handover.as_ref().map(|handover| handover.as_fd());
        sockets.chain(handover).chain(paths.doorbell())
    }

    /// Does what the time has come for.
    pub(crate) fn run_timers(&mut self, engine: &mut Engine<'_>) {
        let _sleepless = Sleepless::begin();
        let Site { membership, paths, management, .. } = &mut self.site;
        let now = engine.now;
        if engine.endpoint.earliest_timeout().is_some_and(|deadline| deadline <= now) {
            let Engine { endpoint, counts, .. } = engine;
            endpoint.handle_timeout_but(now, |gid: Gid, qpn: Qpn, is_first| {
                let missed = Missed { destination: gid, qpn, is_first };
                let may_lie = paths.may_still_lie(&membership.registry, missed, now);
                counts.ring_timeouts_put_off += u64::from(may_lie);
                may_lie
            });
        }
        management.handle_timeout(membership, engine);
        if engine.manager.poll_timeout().is_some_and(|deadline| deadline <= now) {
            engine.manager.handle_timeout(now);
        }
    }

    /// Looks whether other NICs of this host have died.
    pub(crate) fn bury_the_dead(&mut self, engine: &mut Engine<'_>) {
        let Site { membership, paths, .. } = &mut self.site;
        paths.bury_the_dead(&membership.registry);
        membership.bury_the_dead(engine.counts);
    }
}
