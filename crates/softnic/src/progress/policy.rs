//! Who looks after a NIC, when and for how long: the rules, without a clock, a thread or a lock.
//!
//! Packets arrive whether or not the application calls. Its threads look when they post and poll. When
//! they do not, somebody is on duty: the progress thread, or a thread of the application that waits
//! for an event and stands in for it.
//!
//! ```text
//!   application   polls in a loop ..... computes       waits ─ stands in ─► event, computes ...... waits
//!   progress      parked, nap by nap ─► watches ...... relieved .................. └ a nap later: ┘ relieved
//!   thread                                                                           watches
//! ```
//!
//! **Parked.** While the application polls, each packet would wake the one on duty only to find that the
//! packet has been taken. So it stops watching the sockets, and looks once a nap at what has happened. It
//! comes back when it finds a packet that nobody took, or that there was none. The first packet after
//! the application has stopped polling may wait for a nap, so nobody parks for an application that
//! waits for events: it will stop soon.
//!
//! **Relieved.** Only one stands in, and only if no other thread waits: it would leave with its own
//! event while that of the other is on its way. After it nobody watches, for a nap at most. If the progress
//! thread then finds packets, the application computes while others want something of it, and for a
//! while nobody stands in.
//!
//! **Busy polling.** A wake-up costs the sender as much as sending some hundred kilobytes, and the receiver
//! more. So the progress thread looks for more before it sleeps, a few times as long as it has just
//! worked, unless another thread may need the processor.
//!
//! Threads report each event with its time, and carry out what they are told.
//!
//! **Invariants:** a sleeper has said until when, and counts as awake once it is woken, so nobody is
//! woken twice. When nobody watches the sockets somebody wakes within a nap; if a stand-in is lost,
//! within the longest sleep and the grace.

#[cfg(test)]
mod tests;
pub(crate) mod turns;
#[cfg(test)]
mod world;

use core::mem;

use rdma::{Span, Time};
use transport::Pressure;

use self::turns::Turns;
use crate::limits::{
    ANSWER_PATIENCE, BATCH_BEHIND, BATCH_BYTES, BATCH_REQUESTS, BUSY_POLL_FACTOR, BUSY_POLL_MAX,
    CONTENTION_GAP, CONTENTION_INTERVAL, CONTENTION_SHARE, CONTENTION_STAYS, HELD_MAX,
    LAB_POLLS_BEFORE_YIELD, PARK_BLIND_NAPS, PARK_EVENT_FREE, PARK_NAP, PARK_PACKETS, PAUSE_RETRY,
    POLL_LOOP, POLLS_BEFORE_YIELD, POSTS_PER_LOOK, RING_POLLS_BEFORE_YIELD, SLEEP_MAX,
    STAND_IN_DISTRUST, STAND_IN_GRACE, WAKE_SLACK,
};
use crate::packet::Carrier;

/// What is known of the application, and of those who look after its NIC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    /// Packets that the application's own calls have taken.
    packets: u64,
    /// Polls in a row that found nothing, and when the last of them was.
    empty_polls: u32,
    empty_poll_at: Time,
    /// Posts since the last empty poll, and how many there were before it.
    posts: usize,
    burst: usize,
    /// Posts since anybody looked what has arrived.
    posts_unlooked: usize,
    /// When the application was last told of a completion by an event.
    event_at: Option<Time>,
    /// When anybody last tried to send.
    sent_at: Time,
    /// When members of groups that have died were last looked for.
    upkeep_at: Time,
    thread: Sleeper,
    stand_in: Sleeper,
    /// Tells one stand-in from the next.
    stand_in_number: u64,
    /// Until when somebody is taken to stand in.
    held_until: Time,
    /// When the last stand-in left, if it is expected back.
    left_at: Option<Time>,
    /// Nobody stands in before.
    distrust_until: Time,
    /// How far looks go.
    pub(crate) turns: Turns,
}

/// Who looks after a NIC while the application does not call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnDuty {
    Thread,
    StandIn,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sleeper {
    /// When it wakes up by itself. `None` if it is awake, has been woken, or does not exist.
    until: Option<Time>,
    /// What it watches, or did when it last slept.
    watch: Watch,
}

/// What a sleeper watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Watch {
    /// Everything.
    Sockets,
    /// Nothing: it is parked.
    #[default]
    Nothing,
    /// Nothing: somebody stands in, or has only just left.
    Relieved,
}

/// What one who goes to sleep is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sleep {
    pub(crate) until: Time,
    pub(crate) watch: Watch,
    /// It wakes the other: the thread, to be relieved, or a stand-in that would oversleep.
    pub(crate) wakes_other: bool,
}

/// What is to be done even if nothing arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    /// The engine's next timer, and the next of all others.
    pub(crate) engine: Option<Time>,
    pub(crate) others: Option<Time>,
    /// Whether sending waits for room at a destination.
    pub(crate) is_paused: bool,
    /// Whether there may be something to send that nobody is about to.
    pub(crate) is_left_behind: bool,
    /// Whether packets lie in rings, which wake only who was asleep when they came.
    pub(crate) has_arrived: bool,
}

/// What becomes of a post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posted {
    /// It waits for more, to leave together.
    Waits,
    Leaves,
    /// The program posts on and on: it looks for what has arrived first.
    LooksFirst,
}

// The application calls.
impl Policy {
    /// The application has polled, and `found` so many completions. Says whether it yields, because
    /// whoever is to send what it waits for may need that very core.
    ///
    /// `is_served` if another thread sends or receives for it, and a third may be about to answer that.
    #[inline]
    pub(crate) fn polled(
        &mut self,
        now: Time,
        found: usize,
        is_served: bool,
        carrier: Carrier,
    ) -> bool {
        if found > 0 {
            self.empty_polls = 0;
            return false;
        }
        self.empty_polls = self.empty_polls.saturating_add(1);
        self.empty_poll_at = now;
        if self.posts > 0 {
            self.burst = mem::take(&mut self.posts);
        }
        let patience = match carrier {
            Carrier::Kernel => POLLS_BEFORE_YIELD,
            Carrier::Sender => RING_POLLS_BEFORE_YIELD,
            Carrier::Lab => LAB_POLLS_BEFORE_YIELD,
        };
        is_served || self.empty_polls > patience
    }

    /// The application has posted to a queue pair under this `pressure`. One with several requests in
    /// flight, or that posts many in a row, is after throughput: its next may wait.
    #[inline]
    pub(crate) fn posted(&mut self, now: Time, pressure: &Pressure) -> Posted {
        self.posts = self.posts.saturating_add(1);
        self.posts_unlooked += 1;
        let posts = self.posts.max(self.burst);
        let &Pressure { waiting, waiting_bytes, own, last } = pressure;
        let is_recent = |asked| now.since(asked) < ANSWER_PATIENCE;
        let is_answer_due =
            own.answer_due_since.is_some() || last.answer_due_since.is_some_and(is_recent);
        if is_answer_due
            && own.requests.max(posts) > BATCH_BEHIND
            && waiting < BATCH_REQUESTS
            && waiting_bytes < BATCH_BYTES
        {
            Posted::Waits
        } else if self.posts_unlooked > POSTS_PER_LOOK {
            Posted::LooksFirst
        } else {
            Posted::Leaves
        }
    }

    /// Anybody looks what has arrived.
    #[inline]
    pub(crate) fn receives(&mut self) {
        self.posts_unlooked = 0;
    }

    /// The application's own call has taken `packets`.
    #[inline]
    pub(crate) fn took(&mut self, packets: u64) {
        self.packets += packets;
    }

    /// Anybody tries to send all that is ready.
    #[inline]
    pub(crate) fn sends(&mut self, now: Time) {
        self.sent_at = now;
    }

    /// The application is told of a completion by an event.
    pub(crate) fn told(&mut self, now: Time) {
        self.event_at = Some(now);
    }

    /// Whether the application, which was sent an event, is taken to wait for another.
    fn expects_event(&self, now: Time) -> bool {
        self.event_at.is_some_and(|event| now.since(event) < PARK_EVENT_FREE)
    }
}

// One on duty wakes up, looks and sleeps.
impl Policy {
    /// One on duty is awake. Says whether it leaves the sockets to the application, and is parked from
    /// now on: the application finds what arrives if it polls in a loop, or goes on taking packets.
    pub(crate) fn parks(
        &mut self,
        who: OnDuty,
        now: Time,
        parking: &mut Parking,
        is_left_behind: bool,
    ) -> bool {
        self.sleeper(who).until = None;
        parking.blind_naps = 0;
        let polls = self.empty_polls > 1 && now.since(self.empty_poll_at) < POLL_LOOP;
        let looks = polls || (parking.is_parked && parking.inline_before != self.packets);
        let parks = looks && !self.expects_event(now) && !is_left_behind;
        if parks {
            *parking = Parking { is_parked: true, ..Parking::since(self.packets) };
        }
        parks
    }

    /// The progress thread has found `packets`. If it was relieved before, they had to wait.
    pub(crate) fn found(&mut self, now: Time, packets: u64) {
        if mem::take(&mut self.thread.watch) == Watch::Relieved {
            self.left_at = None;
            if packets > 0 {
                self.distrust_until = now + STAND_IN_DISTRUST;
            }
        }
    }

    /// One on duty has taken `packets`, and sent what that made ready. It parks if the application's own
    /// calls took nearly all recent ones. Says whether more may come that is for it alone: it busy
    /// polls then, unless the application takes packets itself, or was woken by this look.
    pub(crate) fn took_on_duty(&self, now: Time, parking: &mut Parking, packets: u64) -> bool {
        let inline = self.packets - parking.inline_before;
        parking.inline_before = self.packets;
        parking.packets += inline + packets;
        parking.here += packets;
        let comes_back = parking.is_parked && (packets > 0 || inline == 0);
        if comes_back || self.expects_event(now) {
            *parking = Parking::since(self.packets);
        } else if parking.packets >= PARK_PACKETS {
            parking.is_parked = parking.here * 10 <= parking.packets;
            (parking.packets, parking.here) = (0, 0);
        }
        packets > 0 && inline == 0 && !parking.is_parked && self.event_at != Some(now)
    }

    /// One on duty has looked. Says whether members of groups that have died are to be looked for.
    pub(crate) fn is_upkeep_due(&mut self, now: Time) -> bool {
        let is_due = self.upkeep_at + SLEEP_MAX <= now;
        if is_due {
            self.upkeep_at = now;
        }
        is_due
    }

    /// One on duty goes to sleep.
    pub(crate) fn sleeps(
        &mut self,
        who: OnDuty,
        now: Time,
        parking: &Parking,
        pending: Pending,
    ) -> Sleep {
        let (until, watch) = if parking.is_parked {
            (now + PARK_NAP, Watch::Nothing)
        } else if pending.has_arrived {
            (now, Watch::Sockets)
        } else {
            let latest = now + SLEEP_MAX;
            let deadline = self.deadline(pending);
            (deadline.map_or(latest, |deadline| deadline.min(latest)), Watch::Sockets)
        };
        *self.sleeper(who) = Sleeper { until: Some(until), watch };
        let mut wakes_other = false;
        if who == OnDuty::StandIn {
            self.held_until = until + STAND_IN_GRACE;
            wakes_other = self.thread.watch == Watch::Sockets && self.thread.until.take().is_some();
        }
        Sleep { until, watch, wakes_other }
    }

    /// Whom to wake for what is pending: the one on duty, if it would oversleep.
    #[inline]
    pub(crate) fn wakes(&mut self, now: Time, pending: impl FnOnce() -> Pending) -> Option<OnDuty> {
        let who = if self.is_held(now) { OnDuty::StandIn } else { OnDuty::Thread };
        let until = self.sleeper(who).until?;
        // A retransmission timer starts anew for every message, and mostly to a later time.
        self.deadline(pending()).filter(|&deadline| deadline + WAKE_SLACK < until)?;
        self.woke(who);
        Some(who)
    }

    /// One on duty is woken.
    pub(crate) fn woke(&mut self, who: OnDuty) {
        self.sleeper(who).until = None;
    }

    /// When something is to be done even if nothing arrives.
    fn deadline(&self, pending: Pending) -> Option<Time> {
        let Pending { engine, others, is_paused, is_left_behind, .. } = pending;
        let retry = is_paused.then_some(self.sent_at + PAUSE_RETRY);
        let left_behind = is_left_behind.then_some(self.sent_at);
        // What waits for the answers of others leaves in time even if these are lost.
        let may_wait = self.burst.max(self.posts) > BATCH_BEHIND;
        let held = engine.filter(|_| may_wait).map(|_| self.sent_at + HELD_MAX);
        [engine, others, retry, left_behind, held].into_iter().flatten().min()
    }

    fn sleeper(&mut self, who: OnDuty) -> &mut Sleeper {
        match who {
            OnDuty::Thread => &mut self.thread,
            OnDuty::StandIn => &mut self.stand_in,
        }
    }
}

// Somebody stands in.
impl Policy {
    /// A thread that waits for an event wants to stand in. Gives it a number, unless somebody else
    /// stands in, `another_waits`, or nobody may.
    pub(crate) fn stands_in(&mut self, now: Time, another_waits: bool) -> Option<(u64, Parking)> {
        if self.is_held(now) || another_waits || now < self.distrust_until {
            return None;
        }
        // Who polled before was this thread, and it does not now.
        self.empty_polls = 0;
        self.stand_in_number += 1;
        self.held_until = now + STAND_IN_GRACE;
        self.woke(OnDuty::StandIn);
        Some((self.stand_in_number, Parking::since(self.packets)))
    }

    /// Whether the stand-in is (still) that of this number. One who was away for too long has been replaced.
    pub(crate) fn is_stand_in(&self, number: u64) -> bool {
        self.stand_in_number == number
    }

    /// Whether somebody stands in. A stand-in that does not report in time is taken for lost: a signal's
    /// handler may jump out of the wait.
    #[inline]
    pub(crate) fn is_held(&self, now: Time) -> bool {
        now < self.held_until
    }

    /// The progress thread's sleep while it has nothing to do, if that is so.
    pub(crate) fn relieves(
        &mut self,
        now: Time,
        pending: impl FnOnce() -> Pending,
    ) -> Option<Sleep> {
        let back_at = self.left_at.map_or(Time::ZERO, |left| left + PARK_NAP);
        let until = Some(self.held_until.max(back_at)).filter(|until| now < *until)?;
        let (is_held, pending) = (self.is_held(now), pending());
        if pending.is_left_behind && !is_held {
            return None;
        }
        let watch = Watch::Relieved;
        self.thread = Sleeper { until: Some(until), watch };
        // The thread may have started a timer, or left something behind.
        let wakes_other = is_held && self.wakes(now, || pending).is_some();
        Some(Sleep { until, watch, wakes_other })
    }

    /// The stand-in leaves. The progress thread looks after a nap; or `at_once`, if something waits to be
    /// sent, another thread waits, or this one was cancelled. Says how soon to wake it, if it sleeps for
    /// longer.
    pub(crate) fn ends(&mut self, now: Time, at_once: bool) -> Option<Span> {
        self.held_until = Time::ZERO;
        self.woke(OnDuty::StandIn);
        self.left_at = (!at_once).then_some(now);
        let nap = if at_once { Span::ZERO } else { PARK_NAP };
        self.thread.until.filter(|&until| now + nap < until)?;
        self.thread.until = self.left_at.map(|left| left + nap);
        Some(nap)
    }
}

/// Whether one on duty is parked, and what speaks for it. Each has its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parking {
    is_parked: bool,
    /// Packets since they were last counted, and those of them that were taken here.
    packets: u64,
    here: u64,
    /// Packets that the application's own calls had taken by the last look here.
    inline_before: u64,
    /// Naps in a row without having seen the engine.
    blind_naps: u32,
}

impl Parking {
    fn since(inline: u64) -> Self {
        Self { inline_before: inline, ..Self::default() }
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// The engine is in use. Says whether a sleeper naps again without having seen it: one that is parked
    /// does not get in the way of the application that it is parked for.
    pub(crate) fn naps_again(&mut self, watch: Watch, was_woken: bool) -> bool {
        let naps = watch == Watch::Nothing && !was_woken && self.blind_naps < PARK_BLIND_NAPS;
        self.blind_naps += u32::from(naps);
        naps
    }
}

/// How long the progress thread busy polls, and whether another thread needs its processor: one of the
/// application that runs, or anybody who took the processor while this thread busy polled.
#[derive(Clone, Debug)]
pub(crate) struct BusyPoll {
    until: Time,
    /// When it last looked whether to go on.
    asked_at: Time,
    has_contention: bool,
    /// When that was found out, and the processor time that other threads had used by then.
    judged_at: Time,
    used: Time,
}

impl BusyPoll {
    /// Contention is taken to be there at first.
    pub(crate) fn new(now: Time, used: Time) -> Self {
        let until = Time::ZERO;
        Self { until, asked_at: now, has_contention: true, judged_at: now, used }
    }

    /// The thread has slept: what was left of the last time is forfeit.
    pub(crate) fn woke(&mut self) {
        self.until = Time::ZERO;
    }

    /// The thread has worked from `since` to `end`. Says whether it busy polls now. `used` measures the
    /// processor time of other threads, by two calls of the kernel.
    pub(crate) fn begins(&mut self, since: Time, end: Time, used: impl FnOnce() -> Time) -> bool {
        let left = self.until.since(since);
        self.until = end + (left + end.since(since) * BUSY_POLL_FACTOR).min(BUSY_POLL_MAX);
        self.asked_at = end;
        let passed = end.since(self.judged_at);
        if passed >= if self.has_contention { CONTENTION_STAYS } else { CONTENTION_INTERVAL } {
            let before = mem::replace(&mut self.used, used());
            self.has_contention = self.used.since(before) * CONTENTION_SHARE > passed;
            self.judged_at = end;
        }
        !self.has_contention
    }

    /// Whether it goes on. If two looks are far apart, another thread had the processor between them.
    pub(crate) fn goes_on(&mut self, now: Time, used: impl FnOnce() -> Time) -> bool {
        if now.since(mem::replace(&mut self.asked_at, now)) > CONTENTION_GAP {
            *self = Self { until: self.until, ..Self::new(now, used()) };
        }
        !self.has_contention && now < self.until
    }
}
