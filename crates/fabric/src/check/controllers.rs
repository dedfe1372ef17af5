//! Settings of HPCC and TIMELY that do not suit the paths of the network.
//!
//! ```text
//!   round trip of the empty network    a full frame there, and its acknowledgement back
//!   HPCC      T just above the longest             far above: late and uneven; below: paths are not filled
//!   TIMELY    T_high above it                      else rates fall without a queue
//!             T_low above it, if patched           the same
//!             a climb that ends before the run     else what fell low stays there
//! ```
//!
//! Paths are those with fewest links, as routing takes them. What NICs take to make packets is left out.

use std::collections::{BTreeMap, BTreeSet};

use rdma::{Rate, Span, Time};
use transport::congestion::{Congestion, Hpcc, Timely};

use super::text::{bytes, gbps};
use crate::NetworkConfig;
use crate::packet::{LOWER_BYTES, whole_frame};
use crate::topology::{End, LinkSpec};
use crate::workload::Service;

/// Racks from which paths are looked for. In a Clos those of one are like those of all.
const RACKS_MAX: usize = 16;

/// A T that is so many times the longest round trip is told. Ours: in a rack whose round trip is 0.6 us, sixteen
/// senders have slowdowns of 21 at the 99th percentile with T of 2 us, of 29 with 5 us, and of 68 with 13 us.
const FAR_ABOVE: u64 = 10;

/// Preamble, delimiter and gap.
const BESIDE_BYTES: u64 = 20;

/// The longest round trip of some flows, and its ends.
#[derive(Clone, Copy, Debug)]
struct Longest {
    round_trip: Span,
    ends: [u32; 2],
}

/// The links of hosts and between switches.
struct Paths<'a> {
    config: &'a NetworkConfig,
    /// By host: its other end, and its link.
    hosts: BTreeMap<u32, (End, &'a LinkSpec)>,
    /// By switch: other switches.
    switches: Vec<Vec<(u32, &'a LinkSpec)>>,
    /// By switch that paths begin at, and frame: what paths to the others take, there and back.
    known: BTreeMap<(u32, u32), Vec<Option<u64>>>,
}

impl<'a> Paths<'a> {
    fn of(config: &'a NetworkConfig) -> Self {
        let mut hosts = BTreeMap::new();
        let mut switches = vec![Vec::new(); config.topology.switches.len()];
        for link in &config.topology.links {
            for (end, peer) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
                match (end, peer) {
                    (End::Host(host), _) => drop(hosts.insert(host, (peer, link))),
                    (End::Switch(from), End::Switch(to)) => {
                        if let Some(links) = switches.get_mut(from as usize) {
                            links.push((to, link));
                        }
                    }
                    (End::Switch(_), End::Host(_)) => {}
                }
            }
        }
        Self { config, hosts, switches, known: BTreeMap::new() }
    }

    /// What a link takes, there and back, in picoseconds, behind a switch if there is one before it.
    fn link(&self, link: &LinkSpec, frame: u32, before: Option<u32>) -> u64 {
        let took = |bytes: u32| link.rate.time_of(u64::from(bytes) + BESIDE_BYTES).as_ps();
        let behind = before.map(|switch| self.config.switch_of(switch));
        let sent = match behind {
            // It begins to send what it has not got yet.
            Some(switch) if switch.cut_through => 0,
            _ => took(frame) + took(ACKNOWLEDGEMENT_BYTES),
        };
        let latency = behind.map_or(0, |switch| switch.latency.as_ps());
        sent + 2 * (link.propagation.as_ps() + latency)
    }

    /// From a switch to all others: the longest of the paths with fewest links.
    fn from(&mut self, start: u32, frame: u32) -> &[Option<u64>] {
        if !self.known.contains_key(&(start, frame)) {
            let mut took: Vec<Option<u64>> = vec![None; self.switches.len()];
            let mut front = BTreeMap::from([(start, 0)]);
            while !front.is_empty() {
                took.iter_mut().zip(0..).for_each(|(took, switch)| {
                    *took = took.or(front.get(&switch).copied());
                });
                let mut next: BTreeMap<u32, u64> = BTreeMap::new();
                for (&switch, &before) in &front {
                    for &(to, link) in self.switches.get(switch as usize).into_iter().flatten() {
                        if took.get(to as usize).is_some_and(Option::is_none) {
                            let at = before + self.link(link, frame, Some(switch));
                            let known = next.entry(to).or_default();
                            *known = at.max(*known);
                        }
                    }
                }
                front = next;
            }
            self.known.insert((start, frame), took);
        }
        self.known.get(&(start, frame)).map_or(&[], Vec::as_slice)
    }

    /// The round trip of the empty network, if there is a path that is looked for.
    fn round_trip(&mut self, source: u32, destination: u32) -> Option<Span> {
        let frame = whole_frame(self.config.nic_of(source).mtu);
        let (first, first_link) = *self.hosts.get(&source)?;
        let (last, last_link) = *self.hosts.get(&destination)?;
        let own = self.link(first_link, frame, None);
        let (End::Switch(first), End::Switch(last)) = (first, last) else {
            return Some(Span::from_ps(own));
        };
        if self.known.len() >= RACKS_MAX && !self.known.contains_key(&(first, frame)) {
            return None;
        }
        let between = (*self.from(first, frame).get(last as usize)?)?;
        Some(Span::from_ps(own + between + self.link(last_link, frame, Some(last))))
    }
}

const ACKNOWLEDGEMENT_BYTES: u32 = LOWER_BYTES + wire::bth::LEN as u32 + wire::aeth::LEN as u32;

/// Every warning; the run ends at `end`.
pub(super) fn warnings(config: &NetworkConfig, end: Time) -> Vec<String> {
    let own = |host: u32| config.nic_of(host).congestion;
    let concerned = |host: &u32| matches!(own(*host), Congestion::Hpcc(_) | Congestion::Timely(_));
    let reliable = config.flows.iter().filter(|flow| flow.service == Service::Rc);
    let pairs: BTreeSet<[u32; 2]> = reliable
        .filter(|flow| concerned(&flow.source))
        .map(|flow| [flow.source, flow.destination])
        .collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let rates = config.topology.host_rates();
    let mut paths = Paths::of(config);
    let mut of: Vec<(Congestion, Longest)> = Vec::new();
    for ends in pairs {
        let rate = rates.get(ends[0] as usize).copied().unwrap_or(Rate::ZERO);
        let control = own(ends[0]).at_rate(rate);
        let Some(round_trip) = paths.round_trip(ends[0], ends[1]) else { continue };
        match of.iter_mut().find(|(other, _)| *other == control) {
            Some((_, longest)) if longest.round_trip >= round_trip => {}
            Some((_, longest)) => *longest = Longest { round_trip, ends },
            None => of.push((control, Longest { round_trip, ends })),
        }
    }
    let mut warnings = Vec::new();
    for (control, longest) in of {
        let [source, destination] = longest.ends.map(|host| config.topology.name(End::Host(host)));
        let which = format!(
            "the longest round trip of the empty network is {} ns, from {source} to {destination}",
            bytes(longest.round_trip.as_ps() / 1_000)
        );
        match control {
            Congestion::Hpcc(hpcc) => warnings.extend(window(&hpcc, longest.round_trip, &which)),
            Congestion::Timely(timely) => {
                warnings.extend(thresholds(&timely, longest.round_trip, &which));
                warnings.extend(climb(&timely, source, end));
            }
            _ => {}
        }
    }
    warnings
}

/// Li et al. 2019, section 5.1: T is slightly more than the longest round trip.
fn window(hpcc: &Hpcc, round_trip: Span, which: &str) -> Option<String> {
    let (own, longest) = (hpcc.base_round_trip_ns, round_trip.as_ps() / 1_000);
    // Flows aim at no more than eta.
    let filled = longest.saturating_mul(hpcc.target.into()) / 1_000;
    let effect = if own < filled {
        "windows do not fill the path"
    } else if own > longest.saturating_mul(FAR_ABOVE) {
        "windows are for a longer path, and flows slow down late and unevenly"
    } else {
        return None;
    };
    Some(format!(
        "HPCC has t_ns = {}, and {which}: {effect}. T is to be just above the longest (HPCC, SIGCOMM 2019, \
         5.1); set nic.hpcc.t_ns to {} or somewhat more",
        bytes(own),
        bytes(longest.saturating_mul(11) / 10)
    ))
}

/// Mittal et al. 2015, algorithm 1, and Zhu et al. 2016, algorithm 2: which round trips slow down.
fn thresholds(timely: &Timely, round_trip: Span, which: &str) -> Option<String> {
    let (key, threshold, source) = if round_trip > timely.high {
        ("t_high_us", timely.high, "TIMELY, SIGCOMM 2015, algorithm 1")
    } else if timely.is_patched && round_trip > timely.low {
        ("t_low_us", timely.low, "Zhu et al., CoNEXT 2016, algorithm 2")
    } else {
        return None;
    };
    Some(format!(
        "TIMELY has {key} = {}, and {which}: rates fall though nothing waits ({source}); raise nic.timely.{key}",
        bytes(threshold.as_ps() / 1_000_000)
    ))
}

/// Rates that are cut to the least do not come back in this run.
fn climb(timely: &Timely, host: &str, end: Time) -> Option<String> {
    let takes = timely.climb_time();
    if takes.is_some_and(|takes| takes <= end.since(Time::ZERO)) {
        return None;
    }
    let takes = takes.map_or("more than 10 s".to_owned(), |takes| {
        format!("{:.1} ms", takes.as_ps() as f64 / 1e9)
    });
    let rise = timely.steepest_rise().map_or(String::new(), |rise| {
        format!(
            ", as when round trips rise by {:.1} us from one segment to the next,",
            rise.as_ps() as f64 / 1e6
        )
    });
    let mbps = |rate: Rate| bytes(rate.as_bps() / 1_000_000);
    Some(format!(
        "TIMELY climbs from min_mbps = {} to the {} Gb/s of {host} in {takes}, by additive_mbps = {} a \
         segment, and the run ends at {} ms: a flow that falls so low{rise} does not come back; raise \
         nic.timely.additive_mbps, min_mbps or min_rtt_us",
        mbps(timely.minimum_rate),
        gbps(timely.line_rate),
        mbps(timely.additive_increase),
        end.as_ps() as f64 / 1e9,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;
    use crate::topology::{Cables, leaf_spine, single_switch};
    use crate::workload::FlowSpec;

    fn warned(config: &NetworkConfig, congestion: Congestion, end_ms: u64) -> Vec<String> {
        let mut config = config.clone();
        config.nic.congestion = congestion;
        warnings(&config, Time::ZERO + Span::from_ms(end_ms))
    }

    /// A rack, and two.
    fn networks() -> [NetworkConfig; 2] {
        let cables = Cables::new(Rate::from_gbps(100), 20);
        let far = Cables::new(Rate::from_gbps(100), 300);
        let mut rack = NetworkConfig::new(single_switch(3, cables));
        rack.flows = vec![FlowSpec::write(0, 1, 1_000)];
        let mut racks = NetworkConfig::new(leaf_spine(2, 2, 2, cables, far));
        racks.flows = vec![FlowSpec::write(0, 1, 1_000), FlowSpec::write(1, 3, 1_000)];
        [rack, racks]
    }

    #[test]
    fn round_trips_are_those_of_a_packet_alone_in_the_network() {
        for config in networks() {
            let mut paths = Paths::of(&config);
            let own: Vec<Span> = config
                .flows
                .iter()
                .map(|flow| paths.round_trip(flow.source, flow.destination).unwrap())
                .collect();
            let network = Network::new(config.clone()).unwrap();
            for (own, flow) in own.iter().zip(&config.flows) {
                let alone = network.unloaded(flow.source, flow.destination, 1_024).unwrap();
                let part = own.as_ps() as f64 / alone.as_ps() as f64;
                assert!((part - 1.0).abs() < 0.05, "{own:?} {alone:?}");
            }
        }
    }

    #[test]
    fn hpcc_is_told_of_a_t_that_is_far_from_the_longest_round_trip() {
        let [rack, racks] = networks();
        let with = |t: u64| Congestion::Hpcc(Hpcc { base_round_trip_ns: t, ..Hpcc::default() });
        let [near] = &warned(&rack, with(13_000), 1)[..] else { panic!("one warning") };
        assert!(near.starts_with("HPCC has t_ns = 13,000, and the longest round trip"), "{near}");
        assert!(near.contains("from h0 to h1: windows are for a longer path"), "{near}");
        let set = near.rsplit(' ').nth(3).unwrap().replace(',', "").parse().unwrap();
        assert_eq!(warned(&rack, with(set), 1), [""; 0]);
        let [far] = &warned(&racks, with(set), 1)[..] else { panic!("one warning") };
        assert!(far.contains("from h1 to h3: windows do not fill the path"), "{far}");
        assert_eq!(warned(&racks, with(13_000), 1), [""; 0]);
    }

    #[test]
    fn timely_is_told_of_thresholds_below_the_empty_network() {
        let [_, racks] = networks();
        let with = |low_us: u64, high_us: u64, is_patched: bool| {
            let (low, high) = (Span::from_us(low_us), Span::from_us(high_us));
            let timely = Timely { low, high, is_patched, ..Timely::default() };
            warned(&racks, Congestion::Timely(timely), 1_000)
        };
        assert_eq!(with(50, 500, false), [""; 0]);
        assert_eq!(with(5, 500, false), [""; 0]);
        for (low, high, is_patched, key) in
            [(5, 6, false, "t_high_us = 6"), (5, 500, true, "t_low_us = 5")]
        {
            let [one] = &with(low, high, is_patched)[..] else { panic!("one warning") };
            assert!(
                one.starts_with(&format!("TIMELY has {key}, and the longest round trip")),
                "{one}"
            );
        }
    }

    #[test]
    fn timely_is_told_of_a_climb_that_is_longer_than_the_run() {
        let [rack, _] = networks();
        let with = |mbps: u64, end_ms: u64| {
            let additive_increase = Rate::from_mbps(mbps);
            let timely = Timely { additive_increase, ..Timely::default() };
            warned(&rack, Congestion::Timely(timely), end_ms)
        };
        let [one] = &with(10, 5)[..] else { panic!("one warning") };
        assert!(
            one.starts_with("TIMELY climbs from min_mbps = 10 to the 100 Gb/s of h0 in 12"),
            "{one}"
        );
        assert!(one.contains("rise by 28.6 us from one segment to the next"), "{one}");
        assert_eq!(with(10, 200), [""; 0]);
        assert_eq!(with(1_000, 20), [""; 0]);
    }
}
