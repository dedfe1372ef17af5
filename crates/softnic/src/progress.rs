//! What is done under the lock of a NIC, by whichever thread holds it.
//!
//! The engine, what it is driven by, and what is remembered of the application: how often it has
//! polled in vain, posted, been told of an event. From that follows who looks after the NIC next, and
//! when ([`Core::deadline`]).
//!
//! **Invariant:** who sleeps has said until when (`sleeps_until`); whoever makes an earlier deadline
//! wakes him, once ([`Core::must_wake_duty`]).

use rdma::{Completion, Time};
use transport::cm::Manager;
use transport::{CqId, Endpoint, Event};

use crate::counts::Counts;
use crate::device_memory::DeviceMemory;
use crate::limits::{BATCH_BEHIND, HELD_MAX, PAUSE_RETRY, POLL_LOOP, SLEEP_MAX, WAKE_SLACK};
use crate::links::Links;
use crate::outbox::Outbox;
use crate::parking::{Parking, expects_events};
use crate::stand_in::Duty;
use crate::{EventSink, ProcessMemory, clock};

/// When counters are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Publish {
    /// If they have not been for a while.
    IfDue,
    /// Before nothing happens for a while.
    Now,
}

/// The engine, and what it is driven by.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) endpoint: Endpoint,
    pub(crate) manager: Manager,
    pub(crate) memory: ProcessMemory,
    pub(crate) device_memory: DeviceMemory,
    pub(crate) counts: Counts,
    /// `None` in a forked child: the engine can then be called, and reaches nobody.
    pub(crate) links: Option<Links>,
    /// Who looks after the NIC when nobody calls it.
    pub(crate) duty: Duty,
    /// When that one wakes up by itself; the beginning if it is awake, or there is none.
    pub(crate) sleeps_until: Time,
    /// Packets that the application's threads have taken.
    pub(crate) inline_packets: u64,
    /// How often in a row the application has polled and found nothing.
    pub(crate) empty_polls: u32,
    /// When it last did.
    pub(crate) polled_in_vain: Time,
    /// How often in a row it has posted, without such a poll between.
    pub(crate) posts: usize,
    /// How often it had when it last came to such a poll.
    pub(crate) burst: usize,
    /// How often it has posted since it was last looked what has arrived.
    pub(crate) posts_unlooked: usize,
    /// When the application was last told of a completion by an event.
    pub(crate) last_event: Option<Time>,
    /// When groups were last looked after.
    looked_after: Time,
    /// When it was last tried to send.
    given_at: Time,
}

impl Core {
    pub(crate) fn new(
        endpoint: Endpoint,
        manager: Manager,
        memory: ProcessMemory,
        links: Links,
    ) -> Self {
        Self {
            endpoint,
            manager,
            memory,
            device_memory: DeviceMemory::default(),
            counts: Counts::default(),
            links: Some(links),
            duty: Duty::default(),
            sleeps_until: Time::ZERO,
            inline_packets: 0,
            empty_polls: 0,
            polled_in_vain: Time::ZERO,
            posts: 0,
            burst: 0,
            posts_unlooked: 0,
            last_event: None,
            looked_after: Time::ZERO,
            given_at: Time::ZERO,
        }
    }

    /// Whether at `now` something would be taken for lost.
    pub(crate) fn is_loss_due(&mut self, now: Time) -> bool {
        let earliest = self.endpoint.earliest_timeout();
        earliest.is_some_and(|at| at <= now) && self.endpoint.is_loss_due(now)
    }

    /// Whether [`Core::run_timers`] has anything to do at `now`.
    #[inline]
    pub(crate) fn is_time(&self, now: Time) -> bool {
        let unclaimed = self.links.as_ref().and_then(Links::claim_deadline);
        let deadlines = [self.endpoint.earliest_timeout(), self.manager.poll_timeout(), unclaimed];
        deadlines.into_iter().flatten().any(|deadline| deadline <= now)
    }

    /// Does what the time has come for.
    pub(crate) fn run_timers(&mut self, now: Time) {
        let Self { endpoint, manager, counts, links, .. } = self;
        let Some(links) = links else { return };
        if endpoint.earliest_timeout().is_some_and(|deadline| deadline <= now) {
            endpoint
                .handle_timeout_but(now, |gid, qpn| links.is_on_its_way(now, (gid, qpn), counts));
        }
        links.claim(manager, counts, now);
        if manager.poll_timeout().is_some_and(|deadline| deadline <= now) {
            manager.handle_timeout(now);
        }
    }

    /// Whether there is nothing to send at `now`, to tell, or to write down: then there is nothing more
    /// to do for who has found nothing either.
    pub(crate) fn is_quiet(&mut self, now: Time) -> bool {
        let links = self.links.as_ref();
        let is_quiet = self.endpoint.is_idle()
            && self.manager.is_idle()
            && links.is_none_or(|links| links.is_quiet(now));
        if is_quiet {
            self.given_at = now;
        }
        is_quiet
    }

    /// Builds what is ready to be sent. See [`Links::load`].
    pub(crate) fn load(&mut self, now: Time) -> Option<Box<Outbox>> {
        self.given_at = now;
        let Self { endpoint, manager, memory, counts, links, .. } = self;
        links.as_mut()?.load(now, (endpoint, manager), memory, counts)
    }

    /// Takes the outbox back. Returns whether there was more than it could hold.
    pub(crate) fn unload(&mut self, outbox: Box<Outbox>) -> bool {
        let Self { counts, links, .. } = self;
        links.as_mut().is_some_and(|links| links.unload(outbox, counts))
    }

    /// Whether nobody is sending.
    pub(crate) fn is_whole(&self) -> bool {
        self.links.as_ref().is_none_or(|links| links.outbox.is_some())
    }

    /// Whether somebody waits until nobody is sending.
    pub(crate) fn is_claimed(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.claims > 0)
    }

    /// Whether there may be something to send that nobody is about to.
    pub(crate) fn is_left_behind(&self) -> bool {
        let links = self.links.as_ref();
        links.is_some_and(|it| it.is_left_behind && it.claims == 0 && it.outbox.is_some())
    }

    /// Whether sending waits for room at a destination.
    pub(crate) fn is_paused(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.paused.is_some())
    }

    /// Whether somebody of this host may still take what was sent to him.
    pub(crate) fn is_untaken(&mut self) -> bool {
        self.links.as_mut().is_some_and(|links| {
            let Links { same_host, registry, .. } = links;
            same_host.as_mut().is_some_and(|link| link.is_untaken(registry))
        })
    }

    /// Delivers the events, and writes down what is to be written down.
    pub(crate) fn tell(&mut self, now: Time, events: &dyn EventSink) {
        if let Some(links) = &mut self.links
            && let Some(capture) = &mut links.capture
            && let Err(error) = capture.flush()
        {
            tracing::warn!(%error, "the record of packets ends here");
            links.capture = None;
        }
        while let Some(event) = self.endpoint.poll_event() {
            if matches!(event, Event::CompletionNotify(_)) {
                self.last_event = Some(now);
            }
            events.event(event);
        }
        while let Some(event) = self.manager.poll_event() {
            events.connection(event);
        }
        self.publish(now, Publish::IfDue);
    }

    /// Before the end: has the acknowledgements that would have waited sent, and leave taken of
    /// every peer.
    pub(crate) fn owe_nothing(&mut self, now: Time) {
        if self.links.is_some() {
            self.endpoint.release_acknowledgements();
            self.manager.forget_all(now);
        }
    }

    /// Shows the counters to other programs.
    pub(crate) fn publish(&mut self, now: Time, when: Publish) {
        let Some(links) = &mut self.links else { return };
        let is_due = links.publisher.as_ref().is_some_and(|publisher| publisher.is_due(now));
        if is_due {
            self.counts.rx_buffer_overflow =
                links.all_sockets().map(|socket| socket.overflows()).sum();
        }
        if let Some(publisher) = &mut links.publisher
            && (is_due || when == Publish::Now)
        {
            publisher.publish(now, self.endpoint.stats(), self.manager.stats(), &self.counts);
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

    /// The application has polled at `now`, and found `count` completions.
    pub(crate) fn polled(&mut self, now: Time, count: usize) {
        if count > 0 {
            self.empty_polls = 0;
            return;
        }
        self.empty_polls = self.empty_polls.saturating_add(1);
        self.polled_in_vain = now;
        if self.posts > 0 {
            self.burst = core::mem::take(&mut self.posts);
        }
    }

    /// Whether the application will find whatever arrives: it polls in a loop, or `goes_on` taking
    /// packets. One that waits for events as well may stop at any moment.
    fn is_looked_for(&self, now: Time, goes_on: bool) -> bool {
        let polls = self.empty_polls > 1 && now.since(self.polled_in_vain) < POLL_LOOP;
        (polls || goes_on) && !expects_events(now, self.last_event)
    }

    /// Whoever looks after the NIC is awake. Whether he leaves the sockets to the application, which
    /// is looking itself, and is parked for.
    pub(crate) fn leaves_to_application(&mut self, parking: &mut Parking) -> bool {
        self.sleeps_until = Time::ZERO;
        self.set_asleep(false);
        let goes_on = parking.goes_on(self.inline_packets);
        let leaves = self.is_looked_for(clock::now(), goes_on) && !self.is_left_behind();
        if leaves {
            parking.park(self.inline_packets);
        }
        leaves
    }

    /// When something is to be done even if nothing arrives.
    pub(crate) fn deadline(&mut self) -> Option<Time> {
        let faults = self.links.as_ref().and_then(|links| links.faults.as_ref());
        let held = faults.and_then(|faults| faults.deadline());
        let paused = self.links.as_ref().and_then(|links| links.paused);
        let retry = paused.map(|_| self.given_at + PAUSE_RETRY);
        let (engine, manager) = (self.endpoint.poll_timeout(), self.manager.poll_timeout());
        // What waits behind others is looked after, should their answers be lost.
        let holds = self.burst.max(self.posts) > BATCH_BEHIND;
        let flush = engine.filter(|_| holds).map(|_| self.given_at + HELD_MAX);
        let unclaimed = self.links.as_ref().and_then(Links::claim_deadline);
        let left = self.is_left_behind().then_some(self.given_at);
        let timeouts = [engine, manager, held, retry, flush, unclaimed, left];
        timeouts.into_iter().flatten().min()
    }

    /// Whether the one whose duty it is would sleep past a deadline that has come up since. It is then
    /// not asked to be woken a second time.
    pub(crate) fn must_wake_duty(&mut self) -> bool {
        if self.sleeps_until == Time::ZERO {
            return false;
        }
        let wakes =
            self.deadline().is_some_and(|deadline| deadline + WAKE_SLACK < self.sleeps_until);
        if wakes {
            self.sleeps_until = Time::ZERO;
        }
        wakes
    }

    /// See [`Links::set_asleep`].
    pub(crate) fn set_asleep(&mut self, asleep: bool) -> bool {
        self.links.as_mut().is_some_and(|links| links.set_asleep(asleep))
    }

    /// What the fallback thread does besides: looks after members of its groups that have died.
    pub(crate) fn look_after(&mut self, now: Time) {
        if let Some(links) = &mut self.links
            && self.looked_after + SLEEP_MAX <= now
        {
            self.looked_after = now;
            links.look_after(&mut self.counts);
        }
    }
}
