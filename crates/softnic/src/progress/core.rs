//! What is done under the lock of a NIC, by whichever thread holds it.
//!
//! The engine, what drives it, and the rules that say which thread looks after the NIC next
//! ([`Policy`]). The rules know only what they are told: all deadlines are gathered here for them.
//!
//! **Invariant:** whoever makes a deadline earlier than the one on duty would wake up wakes it
//! ([`Core::wakes`]).

use core::ops::Range;

use rdma::{Completion, Qpn, Time};
use transport::cm::Manager;
use transport::{CqId, Endpoint, Event, Failure};

use crate::attachment::Attachment;
use crate::attachment::site::Site;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::memory::device::DeviceMemory;
use crate::narrow::{NarrowPath, SilentPath};
use crate::progress::policy::turns::Reach;
use crate::progress::policy::{OnDuty, Parking, Pending, Policy, Sleep};
use crate::sys::Sleepless;
use crate::udp::outbox::Outbox;
use crate::{EventSink, ProcessMemory, clock, journal};

/// The engine, and what it is driven by.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) endpoint: Endpoint,
    pub(crate) manager: Manager,
    pub(crate) memory: ProcessMemory,
    pub(crate) device_memory: DeviceMemory,
    pub(crate) counts: Counts,
    pub(crate) attachment: Attachment,
    pub(crate) policy: Policy,
}

impl Core {
    /// Whether at `now` something would be taken for lost.
    pub(crate) fn is_loss_due(&mut self, now: Time) -> bool {
        let earliest = self.endpoint.earliest_timeout();
        earliest.is_some_and(|at| at <= now) && self.endpoint.is_loss_due(now)
    }

    /// Whether [`Core::run_timers`] has anything to do at `now`.
    #[inline]
    pub(crate) fn is_time(&self, now: Time) -> bool {
        let unclaimed = self.attachment.site.management.deadline();
        let deadlines = [self.endpoint.earliest_timeout(), self.manager.poll_timeout(), unclaimed];
        deadlines.into_iter().flatten().any(|deadline| deadline <= now)
    }

    /// Which ports the next look goes to beside the rings ([`Turns::next`](crate::progress::policy::turns::Turns::next)).
    #[inline]
    pub(crate) fn turn(&mut self, reach: Reach) -> Option<Range<usize>> {
        let Self { policy, attachment, .. } = self;
        let Site { membership, paths, .. } = &attachment.site;
        let (all, has_rings) = (membership.ports(), paths.has_rings());
        let (has_packets, awaits_sockets) = (|| paths.has_packets(), || paths.awaits_sockets());
        policy.turns.next(reach, all, has_rings, has_packets, awaits_sockets)
    }

    /// Does what the time has come for.
    pub(crate) fn run_timers(&mut self, now: Time) {
        let (attachment, mut engine) = self.parts(now);
        attachment.run_timers(&mut engine);
    }

    /// Whether there is nothing to send at `now`, to tell, or to write down. A caller that has received
    /// nothing either has nothing more to do.
    pub(crate) fn is_quiet(&mut self, now: Time) -> bool {
        let is_quiet =
            self.endpoint.is_idle() && self.manager.is_idle() && self.attachment.is_quiet(now);
        if is_quiet {
            self.policy.sends(now);
        }
        is_quiet
    }

    /// Builds what is ready to be sent. See [`Sender::load`](crate::attachment::sender::Sender::load).
    pub(crate) fn load(&mut self, now: Time) -> Option<Box<Outbox>> {
        self.policy.sends(now);
        if self.attachment.is_dead() {
            return None;
        }
        let _sleepless = Sleepless::begin();
        let (Attachment { sender, site, .. }, mut engine) = self.parts(now);
        sender.load(site, &mut engine)
    }

    /// Takes the outbox back. Returns whether there was more than it could hold.
    pub(crate) fn unload(&mut self, outbox: Box<Outbox>) -> bool {
        let Self { counts, attachment, .. } = self;
        attachment.sender.unload(outbox, counts)
    }

    /// Whether there may be something to send that nobody is about to.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.attachment.sender.is_left_behind()
    }

    /// Whether sending waits for room at a destination.
    pub(crate) fn is_paused(&self) -> bool {
        self.attachment.site.paths.is_paused()
    }

    /// Whether a NIC of this host may still take what was sent to it.
    pub(crate) fn is_untaken(&mut self) -> bool {
        let Site { membership, paths, .. } = &mut self.attachment.site;
        paths.is_untaken(&membership.registry)
    }

    /// Delivers the events, and writes down what is to be written down.
    pub(crate) fn tell(&mut self, now: Time, events: &dyn EventSink) {
        self.attachment.site.observers.flush();
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::CompletionNotify(_) => self.policy.told(now),
                Event::QpFailed(qpn) => self.complain(qpn, now),
                _ => {}
            }
            events.event(event);
        }
        while let Some(event) = self.manager.poll_event() {
            events.connection(event);
        }
        if self.attachment.site.observers.is_publishing_due(now) {
            self.publish(now);
        }
    }

    /// Says why a queue pair failed.
    #[cold]
    fn complain(&mut self, qpn: Qpn, now: Time) {
        let Some(&failure) = self.endpoint.failure(qpn) else { return };
        tracing::warn!("{failure}");
        match self.why_silent(&failure, now) {
            Some(why) => {
                tracing::warn!("{why}");
                journal::note_failure(qpn, failure.to, &format_args!("{failure}; {why}"));
            }
            None => journal::note_failure(qpn, failure.to, &failure),
        }
    }

    /// What the path to another host has to do with its silence: it is too narrow for the queue pair's packets, or has
    /// not been seen to bring any so long.
    fn why_silent(&mut self, failure: &Failure, now: Time) -> Option<String> {
        if !failure.is_of_silence() {
            return None;
        }
        let path_mtu = self.endpoint.path_mtu(failure.qpn)?;
        let bytes = self.attachment.site.membership.path_bytes(failure.peer, now)?;
        let narrow = NarrowPath::of(failure.peer, bytes, path_mtu);
        narrow.map(|it| it.to_string()).or_else(|| {
            let silent = SilentPath::of(failure.peer, failure.unproven()?)?;
            Some(silent.to_string())
        })
    }

    /// Shows the counters to other programs. `cargo xtask speed` leaves this function out: how often it is
    /// called depends on the clock.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish(&mut self, now: Time) {
        let site = &mut self.attachment.site;
        if site.observers.is_publishing_due(now) {
            self.counts.rx_buffer_overflow =
                site.membership.all_sockets().map(|socket| socket.overflows()).sum();
        }
        if let Some(publisher) = &mut site.observers.publisher {
            let Self { endpoint, manager, counts, .. } = self;
            publisher.publish(now, endpoint.stats(), manager.stats(), counts);
            publisher.publish_control(now, || endpoint.control());
        }
    }

    /// Moves completions to `out`.
    pub(crate) fn completions(&mut self, cq: CqId, out: &mut [Completion]) -> usize {
        let mut count = 0;
        while let Some(place) = out.get_mut(count)
            && let Some(completion) = self.endpoint.poll_cq(cq)
        {
            *place = completion;
            count += 1;
        }
        count
    }

    /// The rules, and for them what is to be done even if nothing arrives.
    fn rules(&mut self) -> (&mut Policy, impl FnOnce() -> Pending) {
        let (is_paused, is_left_behind) = (self.is_paused(), self.is_left_behind());
        let Self { policy, endpoint, manager, attachment, .. } = self;
        let pending = move || {
            let held = attachment.sender.deadline();
            let unclaimed = attachment.site.management.deadline();
            Pending {
                engine: endpoint.poll_timeout(),
                others: [manager.poll_timeout(), held, unclaimed].into_iter().flatten().min(),
                is_paused,
                is_left_behind,
                has_arrived: false,
            }
        };
        (policy, pending)
    }

    /// Whom to wake for what has come up.
    #[inline]
    pub(crate) fn wakes(&mut self, now: Time) -> Option<OnDuty> {
        let (policy, pending) = self.rules();
        policy.wakes(now, pending)
    }

    /// One on duty is awake. Says whether it leaves the sockets to the application.
    pub(crate) fn parks(&mut self, who: OnDuty, parking: &mut Parking) -> bool {
        self.set_asleep(false);
        let is_left_behind = self.is_left_behind();
        self.policy.parks(who, clock::now(), parking, is_left_behind)
    }

    /// One on duty goes to sleep, but for a look whether a packet came after the last.
    pub(crate) fn sleeps(&mut self, who: OnDuty, parking: &Parking) -> Sleep {
        let now = clock::now();
        self.publish(now);
        let has_arrived = self.set_asleep(!parking.is_parked());
        let (policy, pending) = self.rules();
        policy.sleeps(who, now, parking, Pending { has_arrived, ..pending() })
    }

    /// The progress thread's sleep while it has nothing to do, if that is so.
    pub(crate) fn relieves(&mut self) -> Option<Sleep> {
        let (policy, pending) = self.rules();
        policy.relieves(clock::now(), pending)
    }

    /// Whether packets in rings are to wake whoever looks after the NIC. Returns whether there are some
    /// already.
    fn set_asleep(&mut self, asleep: bool) -> bool {
        self.attachment.site.paths.set_asleep(asleep)
    }

    /// What the one on duty does besides: looks after members of its groups that have died.
    pub(crate) fn bury_the_dead(&mut self, now: Time) {
        if self.policy.is_upkeep_due(now) {
            let (attachment, mut engine) = self.parts(now);
            attachment.bury_the_dead(&mut engine);
        }
    }

    /// The engine at `now`, and what attaches it.
    #[inline]
    pub(crate) fn parts(&mut self, now: Time) -> (&mut Attachment, Engine<'_>) {
        let Self { endpoint, manager, memory, counts, attachment, .. } = self;
        (attachment, Engine { now, endpoint, manager, memory, counts })
    }
}
