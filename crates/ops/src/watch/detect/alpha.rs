//! Switches that pause sooner than their like, by what they have shown lately: the incident of guo16, 6.2
//! ([`thresholds`](crate::thresholds)).

use core::time::Duration;
use std::collections::BTreeMap;

use crate::thresholds::{GROUPS, Shown, sooner};
use crate::tiers::climb;
use crate::watch::port::{PRIORITIES, PortName, Role};
use crate::watch::sample::Sample;

/// A switch that pauses sooner than its like.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Sooner {
    pub(super) device: String,
    pub(super) priority: usize,
    pub(super) evidence: String,
}

/// What all switches have shown lately: in the present stretch of time, and in the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Thresholds {
    begun: Option<Duration>,
    now: BTreeMap<String, Shown>,
    before: BTreeMap<String, Shown>,
}

impl Thresholds {
    /// One more look; `rise` says how many pauses a port has sent of a priority since the last.
    pub(super) fn look(
        &mut self,
        sample: &Sample,
        at: Duration,
        memory: Duration,
        rise: impl Fn(&PortName, usize) -> u64,
    ) {
        let begun = *self.begun.get_or_insert(at);
        if at.saturating_sub(begun) > memory {
            self.before = core::mem::take(&mut self.now);
            self.begun = Some(at);
        }
        let mut seen: BTreeMap<&str, Shown> = BTreeMap::new();
        for (name, port) in sample.ports.iter().filter(|(_, port)| port.role == Role::Switch) {
            let of = seen.entry(&name.device).or_default();
            for (group, queue) in port.queues.iter().enumerate() {
                let Some(peak) = queue.group_peak_bytes else { continue };
                let serves = matches!(port.peer, Some((_, Role::Nic)));
                of.group((group, serves), rise(name, group), peak);
            }
        }
        for (device, mut shown) in seen {
            if let Some(pool) = sample.pools.get(device) {
                shown.pool(pool.size_bytes, pool.peak_bytes);
            }
            self.now.entry(device.to_owned()).or_default().add(&shown);
        }
    }

    /// Who pauses sooner than its like.
    pub(super) fn sooner(&self, sample: &Sample) -> Vec<Sooner> {
        let mut by_tier: BTreeMap<u32, Vec<(&str, Shown)>> = BTreeMap::new();
        for (device, tier) in tiers(sample) {
            let Some(now) = self.now.get(device) else { continue };
            let mut shown = *now;
            self.before.get(device).into_iter().for_each(|before| shown.add(before));
            by_tier.entry(tier).or_default().push((device, shown));
        }
        let mut all = Vec::new();
        for like in by_tier.values().filter(|like| like.len() > 1) {
            for group in 0..GROUPS {
                let found = sooner(like, group).map(|(device, evidence)| Sooner {
                    device: device.to_owned(),
                    priority: group % PRIORITIES,
                    evidence,
                });
                all.extend(found);
            }
        }
        all
    }
}

/// How many switches there are from each one down to a server: those of one tier are alike.
fn tiers(sample: &Sample) -> BTreeMap<&str, u32> {
    let mut tiers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut neighbours: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, port) in sample.ports.iter().filter(|(_, port)| port.role == Role::Switch) {
        match &port.peer {
            Some((_, Role::Nic)) => drop(tiers.insert(&name.device, 0)),
            Some((peer, Role::Switch)) => {
                neighbours.entry(peer).or_default().push(&name.device);
            }
            None => {}
        }
    }
    climb(&mut tiers, &neighbours, usize::MAX);
    tiers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::sample::{PoolSample, PortSample};

    const POOL: u64 = 8_000_000;
    const MEMORY: Duration = Duration::from_secs(60);

    /// A ToR below two Leafs: pauses sent by the port of its server, the most that its group held, the most used.
    type Tor = (u64, u64, u64);

    fn sample(tors: &[Tor], size: Option<u64>) -> Sample {
        let mut sample = Sample::default();
        let mut port = |device: &str, peer: &str, role, (pauses, peak): (u64, u64)| {
            let peer = Some((peer.to_owned(), role));
            let mut port = PortSample { role: Role::Switch, peer, ..PortSample::default() };
            port.queues[3].pauses_sent = Some(pauses);
            port.queues[3].group_peak_bytes = Some(peak);
            sample.ports.insert(PortName::new(device, &port.peer.as_ref().unwrap().0), port);
        };
        for (number, &(pauses, peak, _)) in tors.iter().enumerate() {
            let tor = format!("tor{number}");
            port(&tor, &format!("h{number}"), Role::Nic, (pauses, peak));
            for leaf in ["leaf0", "leaf1"] {
                port(&tor, leaf, Role::Switch, (0, 0));
                port(leaf, &tor, Role::Switch, (0, 3_000_000));
            }
        }
        for (number, &(_, _, used)) in tors.iter().enumerate() {
            let pool = PoolSample { size_bytes: size, peak_bytes: Some(used) };
            sample.pools.insert(format!("tor{number}"), pool);
        }
        sample
    }

    fn found(tors: &[Tor], size: Option<u64>) -> Vec<String> {
        let sample = sample(tors, size);
        let mut thresholds = Thresholds::default();
        let pauses = |name: &PortName, group: usize| {
            sample.ports[name].queues[group].pauses_sent.unwrap_or(0)
        };
        thresholds.look(&sample, Duration::from_secs(1), MEMORY, pauses);
        thresholds.sooner(&sample).into_iter().map(|of| of.device).collect()
    }

    #[test]
    fn alphas_are_bounded_by_watermarks_whatever_the_load_is() {
        // At alpha 1/16 a group alone holds 470,588 bytes when it pauses, and at 1/64 123,076.
        const WIDE: Tor = (100, 470_588, 500_000);
        const NARROW: Tor = (900, 123_076, 130_000);
        let rows: [(&str, &[Tor], &[&str]); 9] = [
            ("all alike", &[WIDE, WIDE, WIDE], &[]),
            ("one of three", &[WIDE, NARROW, WIDE], &["tor1"]),
            // Its load is what is different, or its alpha: nobody can say.
            ("the others hold little", &[(0, 60_000, 60_000), NARROW, (0, 200_000, 900_000)], &[]),
            (
                "one other holds much and does not pause",
                &[(0, 400_000, 450_000), NARROW],
                &["tor1"],
            ),
            ("two of four, which is as many", &[NARROW, WIDE, NARROW, (0, 0, 0)], &[]),
            ("two of five", &[NARROW, WIDE, NARROW, WIDE, WIDE], &["tor0", "tor2"]),
            // Fourteen groups at once bring the threshold of 1/16 down to 266,666 bytes, and so on.
            ("many ports of it pause at once", &[WIDE, (900, 170_000, 5_300_000), WIDE], &[]),
            ("hardly ever", &[WIDE, (15, 123_076, 130_000), WIDE], &[]),
            ("one that is wider", &[WIDE, (9, 1_600_000, 1_700_000), WIDE, WIDE], &[]),
        ];
        for (what, tors, expected) in rows {
            assert_eq!(found(tors, Some(POOL)), expected, "{what}");
        }
    }

    #[test]
    fn ports_towards_servers_are_held_against_such_alone() {
        // Uplinks have a larger alpha at all of them, and only the second has load from its servers.
        let mut sample = sample(&[(0, 60_000, 2_000_000), (900, 123_076, 130_000)], Some(POOL));
        let up = PortName::new("tor0", "leaf0");
        sample.ports.get_mut(&up).unwrap().queues[3].group_peak_bytes = Some(1_900_000);
        let mut thresholds = Thresholds::default();
        let pauses = |name: &PortName, group: usize| {
            sample.ports[name].queues[group].pauses_sent.unwrap_or(0)
        };
        thresholds.look(&sample, Duration::from_secs(1), MEMORY, pauses);
        assert_eq!(thresholds.sooner(&sample), []);
    }

    #[test]
    fn without_sizes_a_buffer_is_as_large_as_was_ever_used_of_one() {
        let narrow = (900, 123_076, 130_000);
        let tors = |used| [(100, 470_588, used), narrow, (100, 470_588, 480_000)];
        assert_eq!(found(&tors(2_000_000), None), ["tor1"]);
        // It may be no larger than what is used of it here.
        assert_eq!(found(&[(100, 470_588, 470_588), (900, 123_076, 480_000)], None), [""; 0]);
    }

    #[test]
    fn what_was_shown_long_ago_is_forgotten() {
        let mut thresholds = Thresholds::default();
        let wide = sample(&[(100, 470_588, 500_000), (900, 123_076, 130_000)], Some(POOL));
        let idle = sample(&[(0, 0, 0), (900, 123_076, 130_000)], Some(POOL));
        let pauses = |name: &PortName, _: usize| if name.device == "tor1" { 100 } else { 0 };
        let mut look = |second: u64, sample: &Sample| {
            thresholds.look(sample, Duration::from_secs(second), MEMORY, pauses);
            thresholds.sooner(sample).len()
        };
        assert_eq!(look(0, &wide), 1);
        assert_eq!(look(61, &idle), 1);
        assert_eq!(look(122, &idle), 0);
    }
}
