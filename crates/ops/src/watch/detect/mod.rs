//! Detectors over samples of all ports.
//!
//! ```text
//!   each queue ─┬─ Storm            of ports that do not lead to a switch
//!               ├─ slow receiver    a NIC that pauses often, and receives all the same
//!               ├─ loss             packets dropped in a class that is lossless
//!               └─ stuck ─► circle  deadlock, of ports that lead to switches
//!   each switch ─┬─ never marks     it sends pauses, nobody pauses it, and it marks nothing
//!                └─ early pauses    its groups pause when they hold less than those of its like do without (alpha.rs)
//! ```
//!
//! Where it is known what ports lead to, a finding names who is at fault, and all that see the same make one finding.
//! Where it is not, as in the counters of one switch, a stuck queue is a storm of that queue, as for SONiC.
//!
//! | finding | rule | source of its numbers |
//! |---|---|---|
//! | pause storm | [`StormRule`], for [`Settings::detection`] | guo16, 4.3: 100 ms; SONiC: 400 ms |
//! | slow receiver | [`Settings::slow_pauses_per_second`] or more sent in each look for [`Settings::slow_hold`], and data came | guo16, 4.4: "thousands" a second; ours |
//! | deadlock | a circle of stuck queues for [`Settings::deadlock_hold`] | ours |
//! | ECN never marks | pauses without a mark for [`Settings::ecn_hold`] in all | ours |
//! | early pauses | for [`Settings::early_hold`], by watermarks of [`Settings::early_memory`] | guo16, 6.2: a quarter; half is ours |
//! | loss | one packet in a lossless class | guo16, 2: there is to be none |

mod alpha;
mod cadence;
mod deadlock;
mod storm;

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::port::{PRIORITIES, PortName, Role};
use super::sample::{PortSample, QueueSample, Sample};
use crate::limits::WATCHED_PORTS_MAX;

use alpha::{Sooner, Thresholds};
use cadence::{Cadences, Update, Updates};
pub use storm::{Storm, StormRule, StormSample, StormStep};

/// What can be found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Switches wait for each other in a circle.
    Deadlock,
    /// Somebody pauses without end.
    PauseStorm,
    /// A packet was lost where none may be.
    LosslessLoss,
    /// A NIC pauses its switch again and again.
    SlowReceiver,
    /// A switch pauses, but marks nothing.
    EcnNeverMarks,
    /// A switch pauses sooner than its like: a wrong alpha.
    EarlyPauses,
}

impl Kind {
    /// All of them, the worst first.
    pub const ALL: [Self; 6] = [
        Self::Deadlock,
        Self::PauseStorm,
        Self::LosslessLoss,
        Self::SlowReceiver,
        Self::EcnNeverMarks,
        Self::EarlyPauses,
    ];

    /// As in labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::PauseStorm => "pause-storm",
            Self::LosslessLoss => "lossless-loss",
            Self::SlowReceiver => "slow-receiver",
            Self::EcnNeverMarks => "ecn-never-marks",
            Self::EarlyPauses => "early-pauses",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Who: a host, device or switch; of a deadlock, the switches of the circle.
    pub who: String,
    /// The priorities: bit `i` for priority `i`.
    pub priorities: u8,
    /// Where it was seen.
    pub port: PortName,
    /// When it began, as far as samples tell.
    pub since: Duration,
    /// When it was found.
    pub found: Duration,
    /// What was seen.
    pub evidence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, priority {}: {}",
            self.kind,
            self.who,
            self.priority_list(),
            self.evidence
        )
    }
}

impl Finding {
    /// The priorities, as in `3,4`.
    pub fn priority_list(&self) -> String {
        let named = (0..PRIORITIES).filter(|priority| self.priorities >> priority & 1 != 0);
        named.map(|priority| priority.to_string()).collect::<Vec<_>>().join(",")
    }
}

/// What a look came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// New.
    Found(Finding),
    /// No longer so.
    Over(Finding),
}

/// Times and bounds of the detectors.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// How often samples are taken.
    pub poll: Duration,
    /// By what storms are recognised.
    pub storm_rule: StormRule,
    /// How long a storm lasts until it is one.
    pub detection: Duration,
    /// How long it is over until it is over; also of all other findings.
    pub restoration: Duration,
    /// Pauses sent that make a receiver slow.
    pub slow_pauses_per_second: f64,
    /// For how long it sends them.
    pub slow_hold: Duration,
    /// For how long a circle stands still.
    pub deadlock_hold: Duration,
    /// For how long, in all, a switch pauses without a mark.
    pub ecn_hold: Duration,
    /// For how long a switch pauses sooner than its like.
    pub early_hold: Duration,
    /// How far back watermarks are looked at for that, at least; at most twice as far.
    pub early_memory: Duration,
    /// Priorities that are lossless; `None` for those of which a device has seen pauses.
    pub lossless: Option<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            poll: ms(1_000),
            storm_rule: StormRule::Guo16,
            detection: ms(400),
            restoration: ms(400),
            slow_pauses_per_second: 1_000.0,
            slow_hold: ms(5_000),
            deadlock_hold: ms(2_000),
            ecn_hold: ms(10_000),
            early_hold: ms(5_000),
            early_memory: ms(600_000),
            lossless: None,
        }
    }
}

impl Settings {
    /// How long, and in how many gaps between looks, something has to be so until it is found.
    pub fn takes(&self, kind: Kind) -> (Duration, u32) {
        match kind {
            Kind::Deadlock => (self.deadlock_hold, 1),
            Kind::PauseStorm => (self.detection, 2),
            Kind::LosslessLoss => (Duration::ZERO, 1),
            Kind::SlowReceiver => (self.slow_hold, 1),
            Kind::EcnNeverMarks => (self.ecn_hold, 1),
            Kind::EarlyPauses => (self.early_hold, 1),
        }
    }

    /// How many looks, [`poll`](Self::poll) apart, find whatever is so from the first of them on.
    pub fn looks_for_all(&self) -> u64 {
        let poll = self.poll.as_nanos().max(1);
        let gaps = Kind::ALL.map(|kind| {
            let (time, gaps) = self.takes(kind);
            time.as_nanos().div_ceil(poll).max(u128::from(gaps))
        });
        1 + u64::try_from(gaps.into_iter().max().unwrap_or(1)).unwrap_or(u64::MAX - 1)
    }

    /// The same with every time multiplied, for simulations of milliseconds.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for time in [
            &mut self.poll,
            &mut self.detection,
            &mut self.restoration,
            &mut self.slow_hold,
            &mut self.deadlock_hold,
            &mut self.ecn_hold,
            &mut self.early_hold,
            &mut self.early_memory,
        ] {
            *time = time.mul_f64(factor.clamp(1e-9, 1e9));
        }
        self
    }
}

/// A condition over time.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    since: Option<Duration>,
    /// For how many gaps between looks it has held.
    gaps: u32,
}

impl Held {
    /// Since when it holds without a break; the gap from `before` counts.
    fn look(&mut self, holds: bool, before: Duration) -> Option<Duration> {
        if holds {
            self.since = self.since.or(Some(before));
            self.gaps = self.gaps.saturating_add(1);
        } else {
            *self = Self::default();
        }
        self.since
    }
}

#[derive(Clone, Debug)]
struct QueueState {
    storm: Storm,
    nic_storm: Held,
    slow: Held,
    stuck: Held,
}

#[derive(Clone, Debug)]
struct PortState {
    last: PortSample,
    queues: Vec<QueueState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct EcnState {
    unmarked: Duration,
    pauses: u64,
    since: Duration,
}

type Key = (Kind, String);

#[derive(Clone, Debug)]
struct Open {
    finding: Finding,
    /// When each priority was last seen to be so.
    seen: [Duration; PRIORITIES],
}

/// All detectors over all ports.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    at: Option<Duration>,
    /// When the first look was, and how many gaps there were since.
    begin: (Duration, u32),
    ports: BTreeMap<PortName, PortState>,
    cadences: Cadences,
    /// Devices and priorities of which pauses were seen.
    paused: BTreeMap<PortName, u8>,
    ecn: BTreeMap<(String, u8), EcnState>,
    thresholds: Thresholds,
    early: BTreeMap<(String, usize), Held>,
    open: BTreeMap<Key, Open>,
}

/// What is seen at one look.
type Seen = Vec<(Kind, String, usize, PortName, Duration, String)>;

impl Watch {
    /// Nothing was seen yet.
    pub fn new(settings: Settings) -> Self {
        let (at, begin, ports, cadences, paused, ecn, thresholds, early, open) = Default::default();
        Self { settings, at, begin, ports, cadences, paused, ecn, thresholds, early, open }
    }

    /// What cannot have been found yet, because it has been looked for too short a time; and how long it takes.
    pub fn unjudged(&self) -> Vec<(Kind, Duration)> {
        let (begin, gaps) = self.begin;
        let length = self.at.map_or(Duration::ZERO, |at| at.saturating_sub(begin));
        let takes = Kind::ALL.map(|kind| (kind, self.settings.takes(kind)));
        // Counters that are saved more rarely than looks are taken have longer gaps.
        let longest = self.cadences.longest(self.settings.poll);
        let not_yet = |(kind, (time, least)): (Kind, (Duration, u32))| {
            let time = time.max(longest * least);
            (length < time || gaps < least).then_some((kind, time))
        };
        takes.into_iter().filter_map(not_yet).collect()
    }

    /// What is wrong at present, the worst first.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        self.open.values().map(|open| &open.finding)
    }

    /// A look at all ports, `at` after some beginning. What it finds, and what is over.
    pub fn look(&mut self, at: Duration, sample: &Sample) -> Vec<Event> {
        let before = self.at.replace(at);
        let gap = match before {
            Some(before) if at > before => at - before,
            // The same look again.
            Some(before) if at == before => return Vec::new(),
            _ => {
                // The first look, or a clock that went back.
                self.begin_anew(at, sample);
                return Vec::new();
            }
        };
        self.begin.1 = self.begin.1.saturating_add(1);
        let mut changed: BTreeMap<PortName, bool> = BTreeMap::new();
        for (name, now) in &sample.ports {
            let is_new = self.ports.get(name).is_none_or(|state| state.last != *now);
            *changed.entry(name.of_device()).or_default() |= is_new;
        }
        let Updates { updated, awaited } =
            self.cadences.look(changed, at - gap, at, self.settings.poll);
        let mut seen = Seen::new();
        let mut waits: [BTreeMap<&str, Vec<&str>>; PRIORITIES] = Default::default();
        for (name, now) in &sample.ports {
            self.learn(name, now);
            let Some(state) = self.ports.get_mut(name) else {
                self.enter(name, now);
                continue;
            };
            let Some(&Update { since: before, took: gap }) = updated.get(&name.of_device()) else {
                continue;
            };
            if fell(&state.last, now) {
                *state = PortState::new(&self.settings, now);
                continue;
            }
            let lossless = self
                .settings
                .lossless
                .or_else(|| self.paused.get(&name.of_device()).copied())
                .unwrap_or(0);
            let look = Look { settings: &self.settings, name, now, before, gap, at, lossless };
            look.port(state, &mut seen);
            for (priority, waits) in waits.iter_mut().enumerate() {
                let Some((peer, Role::Switch)) = &now.peer else { continue };
                let since = state.queues[priority].stuck.since;
                if since.is_some_and(|since| at - since >= self.settings.deadlock_hold) {
                    waits.entry(&name.device).or_default().push(peer);
                }
            }
        }
        for (priority, waits) in waits.iter().enumerate() {
            if let Some(circle) = deadlock::circle(waits) {
                let evidence = format!(
                    "each waits for the next, paused and without sending: {}",
                    circle.join(" > ")
                );
                let port = PortName::new(&circle[0], circle.get(1).cloned().unwrap_or_default());
                let since = at - self.settings.deadlock_hold;
                seen.push((Kind::Deadlock, circle.join(","), priority, port, since, evidence));
            }
        }
        self.marks(sample, &updated, at, &mut seen);
        self.early(sample, at - gap, at, &mut seen);
        for (name, now) in &sample.ports {
            if let Some(state) = self.ports.get_mut(name) {
                state.last = now.clone();
            }
        }
        self.ports.retain(|name, _| sample.ports.contains_key(name));
        self.events(at, seen, &awaited)
    }

    fn begin_anew(&mut self, at: Duration, sample: &Sample) {
        self.begin = (at, 0);
        self.ports.clear();
        self.cadences = Cadences::default();
        self.thresholds = Thresholds::default();
        // Times of another clock say nothing by this one. What was found is so until that is over by the new one.
        self.early.clear();
        self.open.values_mut().for_each(|open| open.seen = [at; PRIORITIES]);
        for (name, now) in &sample.ports {
            self.learn(name, now);
            self.enter(name, now);
        }
    }

    fn enter(&mut self, name: &PortName, now: &PortSample) {
        if self.ports.len() < WATCHED_PORTS_MAX {
            self.ports.insert(name.clone(), PortState::new(&self.settings, now));
        }
    }

    /// Which priorities are lossless, by the pauses that they have seen.
    fn learn(&mut self, name: &PortName, now: &PortSample) {
        for (priority, queue) in now.queues.iter().enumerate() {
            if queue.pauses_received.max(queue.pauses_sent).is_some_and(|pauses| pauses > 0) {
                *self.paused.entry(name.of_device()).or_default() |= 1 << priority;
            }
        }
    }

    /// Switches that pause without being paused, and mark nothing.
    fn marks(
        &mut self,
        sample: &Sample,
        updated: &BTreeMap<PortName, Update>,
        at: Duration,
        seen: &mut Seen,
    ) {
        #[derive(Default)]
        struct Sum {
            sent: u64,
            held_up: u64,
            marked: Option<u64>,
            before: Option<Duration>,
        }
        let mut sums: BTreeMap<(&str, u8), Sum> = BTreeMap::new();
        for (name, now) in sample.ports.iter().filter(|(_, now)| now.role == Role::Switch) {
            let Some(state) = self.ports.get(name) else { continue };
            let before = updated.get(&name.of_device()).map(|of| of.since);
            for priority in 0..PRIORITIES as u8 {
                let (now, last) =
                    (&now.queues[usize::from(priority)], &state.last.queues[usize::from(priority)]);
                let sum = sums.entry((&name.device, priority)).or_default();
                sum.before = before;
                sum.sent += rise(now.pauses_sent, last.pauses_sent);
                sum.held_up += rise(now.paused_us, last.paused_us)
                    + rise(now.pauses_received, last.pauses_received);
                if let (Some(now), Some(last)) = (now.marked, last.marked) {
                    sum.marked = Some(sum.marked.unwrap_or(0) + now.saturating_sub(last));
                }
            }
        }
        for ((device, priority), sum) in sums {
            let (Some(marked), Some(before)) = (sum.marked, sum.before) else { continue };
            let key = (device.to_owned(), priority);
            if marked > 0 {
                self.ecn.remove(&key);
                continue;
            }
            if sum.sent == 0 || sum.held_up > 0 {
                continue;
            }
            let state =
                self.ecn.entry(key).or_insert(EcnState { since: before, ..EcnState::default() });
            state.unmarked += at - before;
            state.pauses += sum.sent;
            if state.unmarked >= self.settings.ecn_hold {
                let evidence = format!(
                    "{} pauses sent because of its own queues, and not one packet marked",
                    state.pauses
                );
                let port = PortName::new(device, "");
                let priority = usize::from(priority);
                seen.push((
                    Kind::EcnNeverMarks,
                    device.to_owned(),
                    priority,
                    port,
                    state.since,
                    evidence,
                ));
            }
        }
    }

    /// Switches that pause sooner than their like.
    fn early(&mut self, sample: &Sample, before: Duration, at: Duration, seen: &mut Seen) {
        let ports = &self.ports;
        let sent = |name: &PortName, priority: usize| {
            let both = sample.ports.get(name).zip(ports.get(name));
            both.map_or(0, |(now, state)| {
                let of = |port: &PortSample| port.queues[priority].pauses_sent;
                rise(of(now), of(&state.last))
            })
        };
        self.thresholds.look(sample, at, self.settings.early_memory, sent);
        let sooner = self.thresholds.sooner(sample);
        self.early.retain(|(device, priority), _| {
            sooner.iter().any(|of| of.device == *device && of.priority == *priority)
        });
        for Sooner { device, priority, evidence } in sooner {
            let held = self.early.entry((device.clone(), priority)).or_default();
            let since = held.look(true, before);
            let Some(since) = since.filter(|&since| at - since >= self.settings.early_hold) else {
                continue;
            };
            let port = PortName::new(&device, "");
            seen.push((Kind::EarlyPauses, device, priority, port, since, evidence));
        }
    }

    fn events(&mut self, at: Duration, seen: Seen, awaited: &BTreeSet<PortName>) -> Vec<Event> {
        // What is new of one culprit is one finding, of all priorities that show it; another priority later is news again.
        let mut news: BTreeMap<Key, Finding> = BTreeMap::new();
        for (kind, who, priority, port, since, evidence) in seen {
            let key = (kind, who.clone());
            let priorities = 1 << (priority & 7);
            if let Some(open) = self.open.get_mut(&key) {
                open.seen[priority & 7] = at;
                if open.finding.priorities & priorities != 0 {
                    continue;
                }
            }
            let finding = Finding { kind, who, priorities, port, since, found: at, evidence };
            news.entry(key).or_insert(finding).priorities |= priorities;
        }
        let mut events: Vec<Event> = news.values().cloned().map(Event::Found).collect();
        for (key, finding) in news {
            let priorities = finding.priorities;
            let open = self.open.entry(key).or_insert(Open { finding, seen: [at; PRIORITIES] });
            open.finding.priorities |= priorities;
        }
        let patience = self.settings.restoration.max(self.settings.poll);
        self.open.retain(|_, open| {
            // What is wrong with a device that was not asked since is wrong still.
            let PortName { host, device, .. } = &open.finding.port;
            let is_of =
                |of: &PortName| of.device == *device && (host.is_empty() || of.host == *host);
            if awaited.iter().any(is_of) {
                return true;
            }
            let late = (0..PRIORITIES).filter(|priority| at - open.seen[*priority] > patience);
            let over =
                late.fold(0, |mask, priority| mask | 1 << priority) & open.finding.priorities;
            if over != 0 {
                events.push(Event::Over(Finding { priorities: over, ..open.finding.clone() }));
                open.finding.priorities &= !over;
            }
            open.finding.priorities != 0
        });
        events
    }
}

impl PortState {
    fn new(settings: &Settings, now: &PortSample) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // Nothing is done about a storm from here, so it is over when the pauses are.
        let storm = Storm::new(
            settings.storm_rule,
            us(settings.poll),
            us(settings.detection),
            us(settings.restoration),
            false,
        );
        let (nic_storm, slow, stuck) = Default::default();
        let mut state = QueueState { storm, nic_storm, slow, stuck };
        let queues = now.queues.iter().map(|queue| {
            state.storm.step(storm_sample(queue), None);
            let made = state.clone();
            state.storm.forget();
            made
        });
        Self { last: now.clone(), queues: queues.collect() }
    }
}

fn storm_sample(queue: &QueueSample) -> StormSample {
    StormSample {
        waiting_bytes: queue.waiting_bytes,
        packets: queue.sent_packets,
        pauses_received: queue.pauses_received,
        transitions: queue.transitions,
        paused: queue.paused,
        paused_us: queue.paused_us,
    }
}

fn rise(now: Option<u64>, last: Option<u64>) -> u64 {
    match (now, last) {
        (Some(now), Some(last)) => now.saturating_sub(last),
        _ => 0,
    }
}

/// Whether a counter of pauses or packets began anew.
fn fell(last: &PortSample, now: &PortSample) -> bool {
    let less = |now: Option<u64>, last: Option<u64>| matches!((now, last), (Some(now), Some(last)) if now < last);
    now.queues.iter().zip(&last.queues).any(|(now, last)| {
        less(now.pauses_received, last.pauses_received)
            || less(now.pauses_sent, last.pauses_sent)
            || less(now.sent_packets, last.sent_packets)
            || less(now.dropped, last.dropped)
            || less(now.marked, last.marked)
    }) || less(now.storm_events, last.storm_events)
}

/// One port at one look.
struct Look<'a> {
    settings: &'a Settings,
    name: &'a PortName,
    now: &'a PortSample,
    before: Duration,
    gap: Duration,
    at: Duration,
    lossless: u8,
}

impl Look<'_> {
    fn port(&self, state: &mut PortState, seen: &mut Seen) {
        let PortState { last, queues } = state;
        for (priority, state) in queues.iter_mut().enumerate() {
            let (now, last) = (&self.now.queues[priority], &last.queues[priority]);
            self.storm(priority, now, state, seen);
            self.nic(priority, now, last, state, seen);
            self.stuck(now, last, state);
            let lost = rise(now.dropped, last.dropped);
            if lost > 0 && self.lossless >> priority & 1 != 0 {
                let evidence = format!("{lost} packets dropped at {}", self.name);
                self.see(Kind::LosslessLoss, self.owner(), priority, self.before, evidence, seen);
            }
        }
        let storms = rise(self.now.storm_events, last.storm_events);
        if storms > 0 {
            let evidence = format!("the watchdog of {} itself tells of {storms} more", self.name);
            let priority =
                (0..PRIORITIES).find(|priority| self.lossless >> priority & 1 != 0).unwrap_or(0);
            self.see(Kind::PauseStorm, self.at_fault(), priority, self.before, evidence, seen);
        }
    }

    /// The host or switch that this port is of.
    fn owner(&self) -> String {
        let PortName { host, device, .. } = self.name;
        if host.is_empty() { device.clone() } else { host.clone() }
    }

    /// Who pauses this port, or, of a NIC, pauses its switch.
    fn at_fault(&self) -> String {
        match (self.now.role, &self.now.peer) {
            (Role::Switch, Some((peer, Role::Nic))) => peer.clone(),
            (Role::Switch, _) => self.name.to_string(),
            (Role::Nic, _) => self.owner(),
        }
    }

    fn see(
        &self,
        kind: Kind,
        who: String,
        priority: usize,
        since: Duration,
        evidence: String,
        seen: &mut Seen,
    ) {
        seen.push((kind, who, priority, self.name.clone(), since, evidence));
    }

    fn storm(&self, priority: usize, now: &QueueSample, state: &mut QueueState, seen: &mut Seen) {
        if matches!(self.now.peer, Some((_, Role::Switch))) {
            return;
        }
        state.storm.step(storm_sample(now), u64::try_from(self.gap.as_micros()).ok());
        if state.storm.is_stormed() {
            let waiting = now.waiting_bytes.unwrap_or(0);
            let evidence = format!(
                "{} is paused all the time, and {waiting} bytes for it do not drain",
                self.name
            );
            let since = self.at.saturating_sub(self.settings.detection);
            self.see(Kind::PauseStorm, self.at_fault(), priority, since, evidence, seen);
        }
    }

    /// What pauses of a NIC mean: sent by itself, or, at its switch, received from it.
    fn nic(
        &self,
        priority: usize,
        now: &QueueSample,
        last: &QueueSample,
        state: &mut QueueState,
        seen: &mut Seen,
    ) {
        let own = self.now.role == Role::Nic;
        if !own && !matches!(self.now.peer, Some((_, Role::Nic))) {
            return;
        }
        // A pause that the NIC sends holds up what the switch sends to it.
        let (frames, held_us, data) = if own {
            let data = now.received_bytes.zip(last.received_bytes);
            (rise(now.pauses_sent, last.pauses_sent), now.pausing_us.zip(last.pausing_us), data)
        } else {
            let data = now.sent_packets.zip(last.sent_packets);
            (
                rise(now.pauses_received, last.pauses_received),
                now.paused_us.zip(last.paused_us),
                data,
            )
        };
        let came = data.map(|(now, last)| now > last);
        let gap = self.gap.as_secs_f64();
        let always = held_us.map(|(now, last)| now.saturating_sub(last) as f64 > 0.99e6 * gap);
        if own {
            // No data while it pauses; where neither is counted, nothing is said.
            let storm = frames > 0 && came == Some(false) && always.unwrap_or(true);
            let since = state.nic_storm.look(storm || always == Some(true), self.before);
            let two_agree = state.nic_storm.gaps >= 2;
            if let Some(since) =
                since.filter(|&since| two_agree && self.at - since >= self.settings.detection)
            {
                let evidence =
                    format!("{} sends pauses without end, and nothing comes in", self.name);
                self.see(Kind::PauseStorm, self.at_fault(), priority, since, evidence, seen);
            }
        }
        let per_second = frames as f64 / gap;
        let slow = per_second >= self.settings.slow_pauses_per_second
            && came != Some(false)
            && always != Some(true);
        let since = state.slow.look(slow, self.before);
        if let Some(since) = since.filter(|&since| self.at - since >= self.settings.slow_hold) {
            let data = match came {
                Some(_) => "while data comes in",
                None => "and nobody counts what comes in",
            };
            let evidence = format!("{per_second:.0} pauses a second from it, {data}");
            self.see(Kind::SlowReceiver, self.at_fault(), priority, since, evidence, seen);
        }
    }

    /// Whether a queue towards a switch stands still.
    fn stuck(&self, now: &QueueSample, last: &QueueSample, state: &mut QueueState) {
        let still = now.sent_packets.is_some() && now.sent_packets == last.sent_packets;
        let held = match now.paused_us.zip(last.paused_us) {
            Some((now, last)) => {
                now.saturating_sub(last) as f64 > 0.99 * self.gap.as_micros() as f64
            }
            None => now.paused == Some(true) && last.paused == Some(true),
        };
        state
            .stuck
            .look(still && held && now.waiting_bytes.is_some_and(|bytes| bytes > 0), self.before);
    }
}

#[cfg(test)]
mod tests;
