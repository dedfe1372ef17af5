//! The usual workloads, as lists of flows.

use rdma::{Rate, Time};

use super::FlowSpec;
use crate::random::Random;

/// Every host sends `bytes` to another one, and every one is sent to once.
pub fn permutation(hosts: u32, bytes: u32, random: &mut Random) -> Vec<FlowSpec> {
    if hosts < 2 {
        return Vec::new();
    }
    let mut to: Vec<u32> = (0..hosts).collect();
    loop {
        random.shuffle(&mut to);
        if to.iter().enumerate().all(|(from, &to)| from as u32 != to) {
            break;
        }
    }
    (0..hosts).map(|from| FlowSpec::write(from, to[from as usize], bytes)).collect()
}

/// `senders` hosts, taken at random, send `bytes` each to `receiver`.
pub fn incast(
    hosts: u32,
    receiver: u32,
    senders: u32,
    bytes: u32,
    random: &mut Random,
) -> Vec<FlowSpec> {
    let mut from: Vec<u32> = (0..hosts).filter(|&host| host != receiver).collect();
    random.shuffle(&mut from);
    from.truncate(senders as usize);
    from.into_iter().map(|from| FlowSpec::write(from, receiver, bytes)).collect()
}

/// Every host sends `bytes` to every other one.
pub(crate) fn all_to_all(hosts: u32, bytes: u32) -> Vec<FlowSpec> {
    // Each begins with its right-hand neighbour, so that nobody is everybody's first.
    (1..hosts)
        .flat_map(|step| {
            (0..hosts).map(move |from| FlowSpec::write(from, (from + step) % hosts, bytes))
        })
        .collect()
}

/// Every host sends `bytes` to the next, and the last one to the first, as in a step of a ring
/// all-reduce.
pub fn ring(hosts: u32, bytes: u32) -> Vec<FlowSpec> {
    if hosts < 2 {
        return Vec::new();
    }
    (0..hosts).map(|from| FlowSpec::write(from, (from + 1) % hosts, bytes)).collect()
}

/// Sizes of messages and how often they occur, as points of the cumulative distribution, between
/// which it is linear.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeDistribution {
    /// Bytes, and the probability of a message of at most as many; both rise, the last to 1.
    points: Vec<(u32, f64)>,
}

impl SizeDistribution {
    /// The distribution through `points`. `None` unless both columns rise and the last probability
    /// is 1.
    pub fn new(points: Vec<(u32, f64)>) -> Option<Self> {
        let rises = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let whole = points.last().is_some_and(|last| last.1 == 1.0);
        (rises && whole && points.iter().all(|point| point.1 >= 0.0)).then_some(Self { points })
    }

    /// Messages of one size.
    pub fn constant(bytes: u32) -> Self {
        Self { points: vec![(bytes, 1.0)] }
    }

    /// The average size.
    pub fn mean(&self) -> f64 {
        let mut before = (self.points[0].0, 0.0);
        let mut mean = 0.0;
        for &(bytes, probability) in &self.points {
            let middle = (f64::from(before.0) + f64::from(bytes)) / 2.0;
            mean += middle * (probability - before.1);
            before = (bytes, probability);
        }
        mean
    }

    /// One size, at least a byte.
    pub(crate) fn sample(&self, random: &mut Random) -> u32 {
        let at = random.unit();
        let mut before = (self.points[0].0, 0.0);
        for &(bytes, probability) in &self.points {
            if at < probability {
                let part = (at - before.1) / (probability - before.1);
                let size = f64::from(before.0) + part * f64::from(bytes - before.0);
                return (size as u32).max(1);
            }
            before = (bytes, probability);
        }
        before.0.max(1)
    }
}

/// Messages of `sizes` between hosts taken at random, at exponential intervals, so that each host's
/// link is used to `load` (0 to 1) on average, from time zero to `end`.
pub fn poisson(
    hosts: u32,
    rate: Rate,
    load: f64,
    sizes: &SizeDistribution,
    end: Time,
    random: &mut Random,
) -> Vec<FlowSpec> {
    if hosts < 2 || load <= 0.0 {
        return Vec::new();
    }
    let bits = sizes.mean() * 8.0;
    let per_second = load * rate.as_bps() as f64 * f64::from(hosts) / bits;
    let interval_ps = 1e12 / per_second;
    let mut flows = Vec::new();
    let mut at = 0.0;
    loop {
        at += random.exponential() * interval_ps;
        if at >= end.as_ps() as f64 {
            return flows;
        }
        let source = random.below(u64::from(hosts)) as u32;
        let step = 1 + random.below(u64::from(hosts) - 1) as u32;
        let destination = (source + step) % hosts;
        let bytes = sizes.sample(random);
        let start = Time::from_ps(at as u64);
        flows.push(FlowSpec { start, ..FlowSpec::write(source, destination, bytes) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    #[test]
    fn a_permutation_sends_and_receives_once_each_and_never_to_itself() {
        let flows = permutation(50, 1_000, &mut Random::new(1));
        let mut to: Vec<u32> = flows.iter().map(|flow| flow.destination).collect();
        assert!(flows.iter().all(|flow| flow.source != flow.destination));
        to.sort_unstable();
        assert_eq!(to, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn everybody_meets_everybody() {
        let flows = all_to_all(7, 10);
        let mut pairs: Vec<_> = flows.iter().map(|flow| (flow.source, flow.destination)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 42);
        assert!(pairs.iter().all(|(from, to)| from != to));
    }

    #[test]
    fn a_ring_closes() {
        let flows = ring(5, 10);
        let pairs: Vec<_> = flows.iter().map(|flow| (flow.source, flow.destination)).collect();
        assert_eq!(pairs, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
        assert_eq!(ring(1, 10), []);
    }

    #[test]
    fn an_incast_has_as_many_senders_as_asked_for() {
        let flows = incast(20, 4, 10, 10, &mut Random::new(1));
        assert_eq!(flows.len(), 10);
        assert!(flows.iter().all(|flow| flow.destination == 4 && flow.source != 4));
    }

    #[test]
    fn sizes_follow_their_distribution() {
        assert_eq!(SizeDistribution::new(vec![(10, 0.5), (5, 1.0)]), None);
        assert_eq!(SizeDistribution::new(vec![(10, 0.5)]), None);
        let sizes = SizeDistribution::new(vec![(100, 0.5), (1_100, 1.0)]).unwrap();
        assert!((sizes.mean() - 350.0).abs() < 1e-9);
        let mut random = Random::new(5);
        let samples: Vec<u32> = (0..40_000).map(|_| sizes.sample(&mut random)).collect();
        let mean = samples.iter().map(|&size| f64::from(size)).sum::<f64>() / 40_000.0;
        assert!((340.0..360.0).contains(&mean), "{mean}");
        assert!(samples.iter().all(|size| (100..=1_100).contains(size)));
    }

    #[test]
    fn arrivals_make_the_load_that_was_asked_for() {
        let sizes = SizeDistribution::constant(10_000);
        let end = Time::ZERO + Span::from_ms(10);
        let flows = poisson(32, Rate::from_gbps(10), 0.4, &sizes, end, &mut Random::new(2));
        let bits: f64 = flows.iter().map(|flow| f64::from(flow.message_bytes) * 8.0).sum();
        let load = bits / (32.0 * 10e9 * 0.01);
        assert!((0.38..0.42).contains(&load), "{load}");
        assert!(flows.is_sorted_by_key(|flow| flow.start));
        // The intervals are memoryless: their standard deviation is their mean.
        let gaps: Vec<f64> = flows
            .windows(2)
            .map(|pair| pair[1].start.since(pair[0].start).as_ps() as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.9..1.1).contains(&(variance.sqrt() / mean)));
    }
}
