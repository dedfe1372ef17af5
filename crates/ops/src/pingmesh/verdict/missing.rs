//! Packets that one port of a link has sent, and the other has not received.
//!
//! Only switches count both. Ports are read one after the other, so that in one window a busy link seems to miss some
//! packets, and in the next to have received too many: what is believed comes back window after window, and adds up.

use core::cmp::Reverse;

use super::super::evidence::{Evidence, Hop, Interval};
use super::super::limits::WINDOWS_MIN;
use super::super::node::Node;
use super::{LEAST, TIMES};

/// What one direction of a link misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Missing {
    pub(super) packets: u64,
    /// When that began, in nanoseconds of windows.
    pub(super) since_ns: u64,
}

/// What was sent and received in an interval; `None` if nobody counts both.
fn counted(interval: &Interval, from: Node, to: Node) -> Option<(u64, u64)> {
    let (Node::Switch(a), Node::Switch(b)) = (from, to) else { return None };
    let (out, into) = (interval.ports.get(&(a, to))?, interval.ports.get(&(b, from))?);
    Some((out.queue_packets.iter().sum::<u64>(), into.rx_packets?))
}

/// Packets that the ports of a link have sent in a direction, and that did not arrive; `None` if nobody counts both.
pub(super) fn missing(evidence: &Evidence<'_>, from: Node, to: Node) -> Option<u64> {
    let all = evidence.intervals.iter().filter_map(|interval| counted(interval, from, to));
    let all = all.reduce(|sum, next| (sum.0 + next.0, sum.1 + next.1));
    all.map(|(sent, received)| sent.saturating_sub(received))
}

/// In both directions.
pub(super) fn missing_of_link(evidence: &Evidence<'_>, a: Node, b: Node) -> Option<u64> {
    match (missing(evidence, a, b), missing(evidence, b, a)) {
        (None, None) => None,
        (there, back) => Some(there.unwrap_or(0) + back.unwrap_or(0)),
    }
}

/// Of some directions of links, the one that misses the most packets: in [`WINDOWS_MIN`] windows at least, [`LEAST`]
/// in all, and [`TIMES`] times as many as the median of all links.
pub(super) fn again_and_again(
    evidence: &Evidence<'_>,
    hops: impl Iterator<Item = Hop>,
) -> Option<(Hop, Missing)> {
    let links = evidence.topology.links.iter().map(|link| link.ends.map(Node::from));
    let directions = links.flat_map(|[a, b]| [(a, b), (b, a)]);
    let mut all: Vec<u64> =
        directions.filter_map(|(from, to)| missing(evidence, from, to)).collect();
    all.sort_unstable();
    let usual = all.get(all.len() / 2).copied()?;
    let of = |hop: Hop| {
        let packets = missing(evidence, hop.0, hop.1)?;
        let is_short = |interval: &&Interval| {
            counted(interval, hop.0, hop.1).is_some_and(|(sent, received)| sent > received)
        };
        let mut short =
            evidence.intervals.iter().filter(is_short).map(|interval| interval.start_ns);
        let since_ns = short.next()?;
        let is_remarkable = packets >= LEAST && packets > TIMES.saturating_mul(usual);
        (is_remarkable && short.count() + 1 >= WINDOWS_MIN)
            .then_some((hop, Missing { packets, since_ns }))
    };
    // And then the smaller.
    hops.filter_map(of).max_by_key(|(hop, missing)| (missing.packets, Reverse(*hop)))
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, ClosShape, clos};
    use rdma::Rate;

    use super::super::super::configured::Configuration;
    use super::super::super::evidence::{Digest, EndsOnly};
    use super::super::super::scope::Map;
    use super::*;

    const CABLES: Cables = Cables::new(Rate::from_gbps(40), 2);
    const SHAPE: ClosShape = ClosShape {
        podsets: 1,
        tors: 3,
        leaves: 2,
        spines: 1,
        hosts: 1,
        host_cables: CABLES,
        tor_cables: CABLES,
        spine_cables: CABLES,
    };

    /// What is found, if a direction of a link sends 1,000 packets a window, of which `lost` says how many do not
    /// arrive, by number of the direction and of the window.
    fn found(lost: impl Fn(usize, u64) -> i64) -> Option<(usize, Missing)> {
        let topology = clos(&SHAPE);
        let map = Map::of(&topology);
        let ends = topology.links.iter().map(|link| link.ends.map(Node::from));
        let hops: Vec<Hop> = ends.flat_map(|[a, b]| [(a, b), (b, a)]).collect();
        let interval = |window: u64| {
            let mut interval = Interval { start_ns: window, ..Interval::default() };
            for (number, hop) in hops.iter().enumerate() {
                let (Node::Switch(from), Node::Switch(to)) = *hop else { continue };
                let out = interval.ports.entry((from, hop.1)).or_default();
                out.queue_packets[3] = 1_000;
                let into = interval.ports.entry((to, hop.0)).or_default();
                into.rx_packets = Some((1_000 - lost(number, window)) as u64);
            }
            interval
        };
        let intervals: Vec<Interval> = (0..8).map(interval).collect();
        let evidence = Evidence {
            topology: &topology,
            map: &map,
            digest: &Digest::default(),
            paths: &EndsOnly(&map),
            intervals: &intervals,
            configuration: &Configuration::default(),
        };
        let (hop, missing) = again_and_again(&evidence, hops.iter().copied())?;
        Some((hops.iter().position(|of| *of == hop)?, missing))
    }

    #[test]
    fn a_link_is_found_that_misses_packets_window_after_window() {
        let links = clos(&SHAPE).links.len();
        let last = 2 * links - 1;
        let missing = Missing { packets: 6 * 4, since_ns: 2 };
        let one = |of: usize, window| if of == last && window >= 2 { 4 } else { 0 };
        assert_eq!(found(one), Some((last, missing)));
        // Of two the worse.
        let two = |of, window| one(of, window) + if of == last - 1 { 2 } else { 0 };
        assert_eq!(found(two), Some((last, missing)));
    }

    #[test]
    fn readings_at_different_times_bad_readings_and_what_all_miss_are_no_losses() {
        assert_eq!(found(|_, _| 0), None);
        // Read before the other, and after it in the next window.
        assert_eq!(found(|of, window| [300, -300][(of + window as usize) % 2]), None);
        // Once, and too few.
        assert_eq!(found(|of, window| if of > 9 && window == 3 { 900 } else { 0 }), None);
        assert_eq!(found(|of, window| i64::from(of > 9 && window < 4)), None);
        // All alike.
        assert_eq!(found(|of, _| 50 + of as i64), None);
    }
}
