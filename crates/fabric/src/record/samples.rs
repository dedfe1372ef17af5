//! Samples: what every queue of every port did between two points in time.
//!
//! ```text
//!   time        0        1        2        3        4
//!   queue 3     ·     entry    entry      ·      entry      an entry where something has changed
//! ```
//!
//! A queue is looked at, not followed: a peak between two samples is not seen (the watermarks of the
//! counters see it). Sums are differences of counters, and miss nothing.
//!
//! **Invariant:** an entry is written if, and only if, a counter or the length of the queue differs
//! from the entry before. That still holds when the distance is doubled and every second sample goes.

use rdma::{Span, Time};

use crate::Network;
use crate::limits::{SAMPLE_ENTRIES_MAX, SAMPLES_KEPT};
use crate::pfc::PRIORITIES;
use crate::topology::End;

/// A queue at a sample, in totals since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct State {
    sent_bytes: u64,
    paused_ps: u64,
    queue_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    sample: u32,
    state: State,
}

/// The entries of one queue.
#[derive(Clone, Debug)]
struct Series {
    port: u32,
    queue: u8,
    entries: Vec<Entry>,
}

/// What a queue did in the time before a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which sample: an index of [`Samples::times`].
    pub sample: u32,
    /// The port: an index of [`Samples::ports`].
    pub port: u32,
    /// The queue, or the priority of a host.
    pub queue: u8,
    /// Bytes of frames sent since the sample before.
    pub sent_bytes: u64,
    /// How long it was paused since the sample before.
    pub paused: Span,
    /// What waits at the time of the sample.
    pub queue_bytes: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Samples {
    interval: Span,
    /// Whether the interval may grow for other reasons than want of memory.
    automatic: bool,
    due: Time,
    /// The events that the network had taken at the last look.
    events: u64,
    times: Vec<Time>,
    ports: Vec<(End, End)>,
    /// By port and queue, the series; `u32::MAX` as long as nothing has happened there.
    places: Vec<u32>,
    series: Vec<Series>,
    entries: usize,
}

impl Samples {
    /// Samples of `network` every `interval`; without one, often at first, and half as often
    /// whenever there are many, so that a run which ends early has samples enough.
    pub fn new(network: &Network, end: Time, interval: Option<Span>) -> Self {
        let finest = Span::from_ns(100).as_ps();
        let length = end.since(network.now()).as_ps();
        let automatic = Span::from_ps((length / (16 * SAMPLES_KEPT as u64)).max(finest));
        Self::every(network, interval.unwrap_or(automatic), interval.is_none())
    }

    /// Samples of a network that lives until somebody ends it: every `interval` at first, and half as often
    /// whenever there are many. So they take no more memory after days than after a minute.
    pub fn of_living(network: &Network, interval: Span) -> Self {
        Self::every(network, interval.max(Span::from_ns(100)), true)
    }

    fn every(network: &Network, interval: Span, automatic: bool) -> Self {
        let ports: Vec<(End, End)> =
            network.ports(network.now()).map(|port| (port.at, port.to)).collect();
        Self {
            interval,
            automatic,
            due: network.now() + interval,
            events: 0,
            times: vec![network.now()],
            places: vec![u32::MAX; ports.len() * PRIORITIES],
            ports,
            series: Vec::new(),
            entries: 0,
        }
    }

    /// When the next sample is due.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Takes the sample that is due: the network has lived until then.
    pub fn take(&mut self, network: &Network) {
        let at = self.due;
        self.look(network, at);
        self.thin();
    }

    /// Nothing happens in `network` before `until`: takes the samples that are due before. Only the first of them
    /// looks, if something has happened since the last look.
    pub fn pass(&mut self, network: &Network, until: Time) {
        while self.due < until {
            match network.events() == self.events {
                true => self.times.push(self.due),
                false => self.look(network, self.due),
            }
            self.thin();
        }
    }

    /// After a sample: the next one is due and, if there are many, every second one goes.
    fn thin(&mut self) {
        self.due += self.interval;
        let many = self.automatic && self.times.len() > 2 * SAMPLES_KEPT;
        if many || self.entries > SAMPLE_ENTRIES_MAX {
            self.halve();
        }
    }

    /// Takes a sample where the run has ended, unless there is one.
    pub fn take_last(&mut self, network: &Network) {
        let now = network.now();
        if self.times.last().is_some_and(|&last| last < now) {
            self.look(network, now);
        }
    }

    fn look(&mut self, network: &Network, at: Time) {
        let sample = self.times.len() as u32;
        self.times.push(at);
        self.events = network.events();
        for (port, view) in network.ports(at).enumerate() {
            let mut paused = [0; PRIORITIES];
            for (priority, &length) in view.pauses.paused_ps.iter().enumerate() {
                let queue = usize::from(view.priority_to_queue[priority] & 7);
                paused[queue] = length.max(paused[queue]);
            }
            for (queue, paused_ps) in paused.into_iter().enumerate() {
                let state = State {
                    sent_bytes: view.sent_bytes[queue],
                    paused_ps,
                    queue_bytes: view.queue_bytes[queue],
                };
                self.note(port, queue, sample, state);
            }
        }
    }

    fn note(&mut self, port: usize, queue: usize, sample: u32, state: State) {
        let place = &mut self.places[port * PRIORITIES + queue];
        if *place == u32::MAX {
            if state == State::default() {
                return;
            }
            *place = self.series.len() as u32;
            let (port, queue) = (port as u32, queue as u8);
            self.series.push(Series { port, queue, entries: Vec::new() });
        }
        let entries = &mut self.series[*place as usize].entries;
        match entries.last_mut() {
            Some(last) if last.state == state => {}
            // One that had to wait for this sample when the distance was doubled.
            Some(last) if last.sample == sample => last.state = state,
            _ => {
                entries.push(Entry { sample, state });
                self.entries += 1;
            }
        }
    }

    /// Twice the distance: forgets every second sample.
    fn halve(&mut self) {
        let mut index = 0;
        self.times.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.entries = 0;
        for series in &mut self.series {
            let mut kept: Vec<Entry> = Vec::with_capacity(series.entries.len() / 2 + 1);
            for entry in &series.entries {
                // What an odd sample saw is seen by the even one after it, if nothing newer is.
                let sample = entry.sample.div_ceil(2);
                match kept.last_mut().filter(|last| last.sample == sample) {
                    Some(last) => last.state = entry.state,
                    None => kept.push(Entry { sample, state: entry.state }),
                }
            }
            series.entries = kept;
            self.entries += series.entries.len();
        }
        // An odd sample that came last is now taken with the next.
        let last = self.times.last().copied().unwrap_or(Time::ZERO);
        self.interval = self.interval + self.interval;
        self.due = last + self.interval;
    }

    /// The distance between two samples; the last one may come sooner.
    pub fn interval(&self) -> Span {
        self.interval
    }

    /// When the samples were taken; the first, of which nothing is known, at the beginning.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The ports: where each is, and where it leads to.
    pub fn ports(&self) -> &[(End, End)] {
        &self.ports
    }

    /// How long the time before `sample` was.
    pub fn span(&self, sample: u32) -> Span {
        let at = sample as usize;
        match (self.times.get(at), at.checked_sub(1).and_then(|before| self.times.get(before))) {
            (Some(now), Some(before)) => now.since(*before),
            _ => Span::ZERO,
        }
    }

    /// What the queues of a port did while they were looked at between two times, as nearly as there are
    /// samples: bytes sent, for how long the one that was paused longest was, and how long that time was.
    pub(crate) fn between(&self, port: u32, from: Time, to: Time) -> (u64, Span, Span) {
        let first = self.times.partition_point(|&time| time <= from).saturating_sub(1);
        let last = self.times.partition_point(|&time| time < to);
        let last = last.min(self.times.len() - 1).max(first);
        let (mut bytes, mut paused) = (0, 0);
        let places = &self.places[port as usize * PRIORITIES..][..PRIORITIES];
        for series in places.iter().filter_map(|&place| self.series.get(place as usize)) {
            let at = |sample: usize| {
                let known = series.entries.partition_point(|of| of.sample as usize <= sample);
                let entry = known.checked_sub(1).and_then(|last| series.entries.get(last));
                entry.map(|entry| entry.state).unwrap_or_default()
            };
            let (before, after) = (at(first), at(last));
            bytes += after.sent_bytes - before.sent_bytes;
            paused = (after.paused_ps - before.paused_ps).max(paused);
        }
        (bytes, Span::from_ps(paused), self.times[last].since(self.times[first]))
    }

    /// What has changed: by port and queue, in the order of time.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let mut order: Vec<&Series> = self.series.iter().collect();
        order.sort_by_key(|series| (series.port, series.queue));
        order.into_iter().flat_map(|series| {
            let mut before = State::default();
            series.entries.iter().map(move |entry| {
                let last = core::mem::replace(&mut before, entry.state);
                Change {
                    sample: entry.sample,
                    port: series.port,
                    queue: series.queue,
                    sent_bytes: entry.state.sent_bytes - last.sent_bytes,
                    paused: Span::from_ps(entry.state.paused_ps - last.paused_ps),
                    queue_bytes: entry.state.queue_bytes,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkConfig;
    use crate::record::{Next, run};
    use crate::topology::{Cables, single_switch};
    use crate::workload::FlowSpec;
    use rdma::Rate;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn sampled(end: Time, interval: Option<Span>) -> (Network, Samples) {
        let cables = Cables::new(Rate::from_gbps(40), 200);
        let mut config = NetworkConfig::new(single_switch(5, cables));
        config.flows = (0..4).map(|host| FlowSpec::write(host, 4, 1_000_000)).collect();
        config.switch.buffer_bytes = 2_000_000;
        let mut network = Network::new(config).unwrap();
        let mut samples = Samples::new(&network, end, interval);
        run(&mut network, end, Some(&mut samples), |_| Next::Run(Span::from_ms(1)));
        (network, samples)
    }

    /// Bytes and pauses of all samples, by port.
    fn sums(samples: &Samples) -> Vec<(u64, u64)> {
        let mut sums = vec![(0, 0); samples.ports().len()];
        for change in samples.changes() {
            let (bytes, paused) = &mut sums[change.port as usize];
            *bytes += change.sent_bytes;
            *paused += change.paused.as_ps();
        }
        sums
    }

    #[test]
    fn the_sum_of_all_samples_is_what_the_counters_say() {
        let (network, samples) = sampled(ms(5), Some(Span::from_us(20)));
        assert_eq!(samples.interval(), Span::from_us(20));
        for (port, (bytes, paused)) in network.ports(network.now()).zip(sums(&samples)) {
            assert_eq!(port.sent_bytes.iter().sum::<u64>(), bytes, "{port:?}");
            assert_eq!(port.pauses.paused_ps.iter().max(), Some(&paused), "{port:?}");
        }
        assert!(sums(&samples).iter().any(|(_, paused)| *paused > 0));
        assert!(samples.changes().all(|change| change.paused <= samples.span(change.sample)));
    }

    #[test]
    fn what_a_port_did_in_a_part_of_the_run_adds_up_to_the_whole() {
        let (network, samples) = sampled(ms(5), Some(Span::from_us(20)));
        let half = Time::ZERO + Span::from_us(400);
        for (port, (bytes, paused)) in (0..).zip(sums(&samples)) {
            let [first, second] = [(Time::ZERO, half), (half, network.now())]
                .map(|(from, to)| samples.between(port, from, to));
            assert_eq!((first.0 + second.0, (first.1 + second.1).as_ps()), (bytes, paused));
            assert_eq!(
                (first.2 + second.2, first.2),
                (network.now().since(Time::ZERO), Span::from_us(400))
            );
        }
        let late = network.now() + Span::from_ms(1);
        assert_eq!(samples.between(0, late, late), (0, Span::ZERO, Span::ZERO));
    }

    #[test]
    fn samples_that_grow_too_many_are_halved_and_still_add_up() {
        let (_, fine) = sampled(ms(5), Some(Span::from_us(1)));
        let mut halved = fine.clone();
        halved.halve();
        assert_eq!(sums(&halved), sums(&fine));
        assert_eq!(halved.times().len(), fine.times().len().div_ceil(2));
        assert!(halved.entries < fine.entries);
        let at = |samples: &Samples, time: Time| {
            let sample = samples.times().iter().position(|&at| at == time).unwrap() as u32;
            let seen = samples.changes().filter(|change| change.sample <= sample);
            seen.filter(|change| change.port == 4).last().map(|change| change.queue_bytes)
        };
        assert_eq!(
            at(&halved, Time::ZERO + Span::from_us(200)),
            at(&fine, Time::ZERO + Span::from_us(200))
        );
    }

    #[test]
    fn samples_of_a_network_that_lives_on_stay_few_and_time_that_passes_costs_nothing() {
        let (mut network, _) = sampled(ms(5), Some(Span::from_us(20)));
        let mut samples = Samples::of_living(&network, Span::from_us(1));
        samples.pass(&network, ms(100));
        assert!((SAMPLES_KEPT..=2 * SAMPLES_KEPT + 1).contains(&samples.times().len()));
        assert!(samples.due() >= ms(100));
        // What had happened before is in the first sample, and in no later one.
        assert!(samples.entries > 0 && samples.changes().all(|change| change.sample == 1));
        assert!(
            samples.times().windows(3).skip(1).all(|at| at[2].since(at[1]) == at[1].since(at[0]))
        );
        for _ in 0..3_000 {
            network.live_until(samples.due());
            samples.take(&network);
        }
        assert!(samples.times().len() <= 2 * SAMPLES_KEPT + 1);
        assert_eq!(samples.changes().count(), samples.entries);
    }

    #[test]
    fn without_an_interval_there_are_enough_samples_and_never_too_many() {
        // The flows end in less than a millisecond.
        for end in [ms(2), ms(50)] {
            let (network, samples) = sampled(end, None);
            assert!(network.now() < ms(1));
            let count = samples.times().len();
            assert!((64..=2 * SAMPLES_KEPT + 1).contains(&count), "{count} of {end}");
        }
    }
}
