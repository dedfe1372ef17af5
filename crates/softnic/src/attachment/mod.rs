//! What attaches a NIC to its host: sockets, slot, rings, and what goes with them.
//!
//! ```text
//!   sender ──────┐            ┌── membership   slot, sockets, groups
//!                ├─ common ───┼── paths        UDP, shared memory, room at their ends
//!   receiver ────┘            ├── management   messages of QP1
//!                             └── observers    record of packets, file of counters
//! ```
//!
//! It is all that a forked child must not have, in one piece, so that it can be let go at once
//! ([`crate::fork`]). The child's NIC is dead: its engine can be called, and reaches nobody. That is a
//! state of the whole: here it is asked for, and nowhere else.

pub(crate) mod common;
pub(crate) mod membership;
pub(crate) mod observers;
pub(crate) mod receiver;
pub(crate) mod sender;

use std::os::fd::{AsFd, BorrowedFd};

use rdma::{Gid, Qpn, Time};

use self::common::Common;
use self::membership::Membership;
use self::observers::Observers;
use self::receiver::{Receiver, Turn};
use self::sender::Sender;
use crate::engine::Engine;
use crate::management::Management;
use crate::path::Paths;
use crate::shm::Shm;
use crate::udp::inbox::Reach;
use crate::{DeviceInfo, OpenError, Options};

/// What attaches a NIC, until it is closed, or in a forked child.
#[derive(Debug)]
pub(crate) struct Attachment(Option<Parts>);

/// The parts of an attachment.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) common: Common,
}

impl Attachment {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Some(parts))
    }

    /// The parts, if the NIC is not dead.
    #[inline]
    pub(crate) fn parts(&mut self) -> Option<&mut Parts> {
        self.0.as_mut()
    }

    /// Whether there is nothing (any more) that attaches the NIC.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.0.is_none()
    }

    /// Nothing attaches the NIC any more. Returns what did.
    pub(crate) fn end(&mut self) -> Option<Parts> {
        self.0.take()
    }

    #[inline]
    fn is(&self, is_so: impl FnOnce(&Parts) -> bool) -> bool {
        self.0.as_ref().is_some_and(is_so)
    }

    /// Whether what has been given to it has left, and nothing is to be written down at `now`.
    #[inline]
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        !self.is(|Parts { sender, common, .. }| {
            !sender.is_quiet()
                || common.paths.is_paused()
                || common.management.deadline().is_some()
                || !common.observers.is_quiet(now)
        })
    }

    /// Whether nobody is sending.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        !self.is(|parts| !parts.sender.is_whole())
    }

    /// Whether somebody waits until nobody is sending.
    pub(crate) fn is_claimed(&self) -> bool {
        self.is(|parts| parts.sender.claims > 0)
    }

    /// Whether there may be something to send that nobody is about to.
    #[inline]
    pub(crate) fn is_left_behind(&self) -> bool {
        self.is(|parts| parts.sender.is_left_behind())
    }

    /// Whether sending waits for room at a destination.
    pub(crate) fn is_paused(&self) -> bool {
        self.is(|parts| parts.common.paths.is_paused())
    }

    /// Whether anything comes by rings.
    #[inline]
    pub(crate) fn has_rings(&self) -> bool {
        self.is(|parts| parts.common.paths.shm.has_sources())
    }

    /// When a request for a service that nobody offers is looked at again.
    #[inline]
    pub(crate) fn claim_deadline(&self) -> Option<Time> {
        self.0.as_ref().and_then(|parts| parts.common.management.deadline())
    }

    /// When a packet leaves that an injected fault holds back.
    pub(crate) fn faults_deadline(&self) -> Option<Time> {
        self.0.as_ref().and_then(|parts| parts.sender.deadline())
    }

    /// Which sockets there are to wait for: another number, other sockets.
    pub(crate) fn layout(&self) -> u32 {
        self.0.as_ref().map_or(0, |parts| parts.common.membership.layout)
    }

    /// All that packets arrive by. The sockets come first, port by port.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().flat_map(|Parts { common: Common { membership, paths, .. }, .. }| {
            let sockets = membership.all_sockets().map(|socket| socket.as_fd());
            sockets.chain([membership.handover.as_fd()]).chain(paths.shm.doorbell())
        })
    }
}

impl Parts {
    /// Takes a slot, and joins the group of each of the device's addresses.
    pub(crate) fn open(device: &DeviceInfo, options: &Options) -> Result<Self, OpenError> {
        let mut membership = Membership::claim()?;
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
        let common = Common { membership, paths, management, observers };
        Ok(Self { sender, receiver: Receiver::new(), common })
    }

    /// Leaves all groups, in order, so that the others' packets find them. The inbox must have let go
    /// of the sockets.
    pub(crate) fn leave(&mut self) {
        let Common { membership, paths, observers, .. } = &mut self.common;
        paths.shm.leave();
        paths.shm = Shm::none();
        // It has the sockets too, and they are to be closed.
        self.sender.outbox = None;
        membership.leave();
        observers.leave();
    }

    /// In a forked child: lets go of everything, without a word.
    pub(crate) fn forget(mut self) {
        self.common.paths.forget();
    }

    /// How far is looked this time.
    #[inline]
    pub(crate) fn turn(&mut self, reach: Reach) -> Turn {
        self.receiver.turn(reach, self.common.paths.shm.has_sources())
    }

    /// Does what the time has come for.
    pub(crate) fn run_timers(&mut self, engine: &mut Engine<'_>) {
        let Common { membership, paths, management, .. } = &mut self.common;
        let now = engine.now;
        if engine.endpoint.earliest_timeout().is_some_and(|deadline| deadline <= now) {
            let Engine { endpoint, counts, .. } = engine;
            endpoint.handle_timeout_but(now, |gid: Gid, qpn: Qpn| {
                let may_lie = paths.may_still_lie(&membership.registry, gid, qpn, now);
                counts.ring_timeouts_put_off += u64::from(may_lie);
                may_lie
            });
        }
        management.claim(membership, engine);
        if engine.manager.poll_timeout().is_some_and(|deadline| deadline <= now) {
            engine.manager.handle_timeout(now);
        }
    }

    /// Looks whether other NICs of this host have died.
    pub(crate) fn look_after(&mut self, engine: &mut Engine<'_>) {
        let Common { membership, paths, .. } = &mut self.common;
        paths.shm.look_after(&membership.registry);
        membership.look_after(engine.counts);
    }
}
