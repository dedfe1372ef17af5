//! What else speaks for or against an accusation: counters of ports and hosts, and what `ferroce doctor` finds in the
//! configuration.
//!
//! ```text
//!   suspect ─┬─ counters at its ends, since then ───────┐
//!            └─ findings about it and about its ToR ────┴─► agrees, contradicts ─► confirmed, alone, doubtful
//! ```
//!
//! **The rule.** A suspect that something agrees with, and nothing contradicts, is *confirmed*; one that something
//! contradicts, and nothing agrees with, is *doubtful*; any other stands *alone*, on what accused it. A doubtful suspect
//! comes behind all others; among suspects of one cause a confirmed one comes first. Nobody is accused or acquitted here.
//!
//! | accused of | agrees | contradicts |
//! |---|---|---|
//! | pauses without end, receives slowly | the NIC counts pauses that it sent, or drops for want of buffers; no watchdog | the NIC counts pauses, and has sent none |
//! | carries nothing, loses packets | packets sent and not received; drops, link errors or retransmissions at its ends; headroom, a chain of priorities that breaks, cabling | both ports count, and nothing is missing; one of them was stopped by pause frames for more than half of the time |
//! | is slow | pauses at its ends; ECN that does not mark | |
//! | takes long to answer | its NIC drops packets or pauses the network | |
//! | pauses sooner than its like, queues otherwise | thresholds, maps | its configuration was read, and is as it should be |
//!
//! Counters of a host count if they are [`TIMES`] times the median of all hosts, and [`LEAST`] at least: both are ours.

use core::fmt;

use fabric::topology::End;
use serde::{Deserialize, Serialize};

use super::super::counted::{HostDelta, PortDelta};
use super::super::evidence::{Evidence, Interval};
use super::super::node::Node;
use super::missing::missing_of_link;
use super::{Cause, Culprit, LEAST, Suspect, TIMES};
use crate::doctor::Rule;

/// How well an accusation is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Support {
    /// Something contradicts it, and nothing agrees.
    Doubtful,
    /// It rests on what accused it alone.
    Alone,
    /// Something else agrees, and nothing contradicts.
    Confirmed,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Doubtful => "doubtful",
            Self::Alone => "nothing else says so",
            Self::Confirmed => "confirmed",
        })
    }
}

/// What a suspect hurts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// RDMA alone: look at PFC, maps of DSCPs, and the NIC's RoCE.
    RdmaOnly,
    /// All that goes by it: look at link, cable and host.
    Everything,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RdmaOnly => "RDMA only",
            Self::Everything => "TCP too",
        })
    }
}

/// What else was said of a suspect, a sentence each.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Joined {
    /// What agrees.
    pub agrees: Vec<String>,
    /// What contradicts.
    pub contradicts: Vec<String>,
    /// What it hurts, as far as TCP probes say that.
    #[serde(default)]
    pub reach: Option<Reach>,
    /// What they have seen.
    #[serde(default)]
    pub tcp: Option<String>,
    /// Whether it is sick for itself, though something comes before it that might be why.
    #[serde(default)]
    pub is_apart: bool,
}

impl Joined {
    /// By the rule of the module.
    pub fn support(&self) -> Support {
        match (self.agrees.is_empty(), self.contradicts.is_empty()) {
            (false, true) => Support::Confirmed,
            (true, false) => Support::Doubtful,
            _ => Support::Alone,
        }
    }
}

/// Asks counters and findings about a suspect.
pub(super) fn join(evidence: &Evidence<'_>, suspect: &Suspect) -> Joined {
    let mut asked = Asked { evidence, since_ns: suspect.since_ns, joined: Joined::default() };
    match suspect.cause {
        Cause::PauseStorm | Cause::SlowReceiver => asked.pauses(suspect.culprit),
        Cause::Dead | Cause::Lossy => asked.losses(suspect.culprit),
        Cause::Slow => asked.delays(suspect.culprit),
        Cause::Busy => asked.host(suspect.culprit),
        Cause::WrongClass | Cause::EarlyPauses => {}
    }
    asked.findings(suspect);
    asked.joined
}

/// The counters and findings about one suspect.
struct Asked<'a> {
    evidence: &'a Evidence<'a>,
    since_ns: u64,
    joined: Joined,
}

/// A counter of hosts: what it says of one.
type OfHost = fn(&HostDelta) -> Option<u64>;

impl Asked<'_> {
    fn name(&self, node: Node) -> String {
        self.evidence.topology.name(End::from(node)).to_owned()
    }

    fn agrees(&mut self, what: String) {
        self.joined.agrees.push(what);
    }

    fn contradicts(&mut self, what: String) {
        self.joined.contradicts.push(what);
    }

    /// What was counted while the suspect was sick.
    fn meanwhile(&self) -> impl Iterator<Item = &Interval> {
        let since_ns = self.since_ns;
        self.evidence.intervals.iter().filter(move |interval| interval.end_ns > since_ns)
    }

    fn of_host(&self, host: u32, counter: OfHost) -> Option<u64> {
        let counted = self.meanwhile().filter_map(|of| counter(of.hosts.get(&host)?));
        counted.reduce(u64::saturating_add)
    }

    fn of_port(&self, switch: u32, to: Node, counter: fn(&PortDelta) -> u64) -> u64 {
        let counted = self.meanwhile().filter_map(|of| of.ports.get(&(switch, to)));
        counted.map(counter).fold(0, u64::saturating_add)
    }

    /// What a host has counted, if that is remarkable.
    fn remarkable(&self, host: u32, counter: OfHost) -> Option<u64> {
        let own = self.of_host(host, counter)?;
        let hosts = 0..self.evidence.topology.hosts.len() as u32;
        let mut others: Vec<u64> = hosts
            .filter(|other| *other != host)
            .filter_map(|other| self.of_host(other, counter))
            .collect();
        others.sort_unstable();
        let median = others.get(others.len() / 2).copied().unwrap_or(0);
        (own >= LEAST && own > TIMES.saturating_mul(median)).then_some(own)
    }

    /// Each of some counters of a host that is remarkable.
    fn host_says<const N: usize>(&mut self, host: u32, counters: [(OfHost, &str); N]) {
        for (counter, what) in counters {
            if let Some(count) = self.remarkable(host, counter) {
                let name = self.name(Node::Host(host));
                self.agrees(format!("the NIC of {name} counts {count} {what}"));
            }
        }
    }

    fn pauses(&mut self, culprit: Culprit) {
        let Culprit::Nic(host) = culprit else { return };
        let name = self.name(Node::Host(host));
        match self.of_host(host, |host| host.tx_pause) {
            Some(0) => self
                .contradicts(format!("the NIC of {name} counts pause frames, and has sent none")),
            Some(count) => self
                .agrees(format!("the NIC of {name} counts {count} pause frames that it has sent")),
            None => {}
        }
        self.host_says(host, [(|host| host.dropped, "packets that it has dropped")]);
    }

    fn losses(&mut self, culprit: Culprit) {
        let links = self.ends(culprit);
        if let Culprit::Link(a, b) = culprit {
            match missing_of_link(self.evidence, a, b) {
                Some(0) => self.contradicts(
                    "by the counters of its ports all packets that were sent have been received"
                        .to_owned(),
                ),
                Some(count) => self.agrees(format!(
                    "by the counters of its ports {count} packets were sent and not received"
                )),
                None => {}
            }
        }
        for (switch, to) in links {
            let paused_us = self.of_port(switch, to, |port| port.paused_us);
            let (at, beyond) = (self.name(Node::Switch(switch)), self.name(to));
            self.stopped(&format!("the port of {at} to {beyond}"), paused_us);
            let dropped = self.of_port(switch, to, |port| port.dropped);
            if dropped >= LEAST {
                let (at, to) = (self.name(Node::Switch(switch)), self.name(to));
                self.agrees(format!("the port of {at} to {to} has dropped {dropped} packets"));
            }
        }
        for host in hosts(culprit) {
            let paused_us = self.of_host(host, |host| host.paused_us).unwrap_or(0);
            let name = self.name(Node::Host(host));
            self.stopped(&format!("the NIC of {name}"), paused_us);
            self.host_says(
                host,
                [
                    (|host| host.dropped, "packets that it has dropped"),
                    (|host| host.link_errors, "errors of its link"),
                    (|host| host.retransmitted, "retransmissions"),
                ],
            );
        }
    }

    /// What does not send because others stop it is not what is broken.
    fn stopped(&mut self, what: &str, paused_us: u64) {
        let length_us: u64 = self.meanwhile().map(Interval::length_us).sum();
        if paused_us > length_us / 2 {
            let percent = (paused_us as f64 * 100.0 / length_us as f64).min(100.0);
            self.contradicts(format!(
                "{what} was stopped by pause frames for {percent:.0} % of the time"
            ));
        }
    }

    fn delays(&mut self, culprit: Culprit) {
        for (switch, to) in self.ends(culprit) {
            let frames =
                self.of_port(switch, to, |port| port.rx_pause.saturating_add(port.tx_pause));
            if frames >= LEAST {
                let (at, to) = (self.name(Node::Switch(switch)), self.name(to));
                self.agrees(format!("the port of {at} to {to} has seen {frames} pause frames"));
            }
        }
        for host in hosts(culprit) {
            self.host_says(
                host,
                [
                    (|host| host.tx_pause, "pause frames that it has sent"),
                    (|host| host.rx_pause, "pause frames that it has received"),
                ],
            );
        }
    }

    fn host(&mut self, culprit: Culprit) {
        for host in hosts(culprit) {
            self.host_says(
                host,
                [
                    (|host| host.dropped, "packets that it has dropped"),
                    (|host| host.tx_pause, "pause frames that it has sent"),
                ],
            );
        }
    }

    /// The ports of switches that belong to a culprit, and what they lead to.
    fn ends(&self, culprit: Culprit) -> Vec<(u32, Node)> {
        let of_link = |a: Node, b: Node| match (a, b) {
            (Node::Switch(switch), to) => Some((switch, to)),
            (Node::Host(_), _) => None,
        };
        match culprit {
            Culprit::Link(a, b) => of_link(a, b).into_iter().chain(of_link(b, a)).collect(),
            Culprit::Tor(switch) | Culprit::Plane(switch) => {
                let ports = self.meanwhile().flat_map(|of| of.ports.keys());
                let mut own: Vec<_> = ports.filter(|(at, _)| *at == switch).copied().collect();
                own.sort_unstable();
                own.dedup();
                own
            }
            Culprit::Nothing | Culprit::Host(_) | Culprit::Nic(_) => Vec::new(),
        }
    }

    fn findings(&mut self, suspect: &Suspect) {
        let configuration = self.evidence.configuration;
        let mut devices = devices(suspect.culprit);
        let racks = hosts(suspect.culprit).filter_map(|host| self.evidence.map.rack_of(host));
        let own = devices.len();
        devices.extend(racks.map(Node::Switch));
        let told = configuration.findings.iter().filter(|finding| {
            devices.contains(&finding.node)
                && finding.rule().is_some_and(|rule| explains(rule, suspect.cause))
        });
        let mut is_clear = true;
        for finding in told {
            is_clear = false;
            let name = self.name(finding.node);
            self.joined
                .agrees
                .push(format!("doctor of {name}: {}: {}", finding.rule, finding.what));
        }
        let is_setting = matches!(suspect.cause, Cause::WrongClass | Cause::EarlyPauses);
        let is_read = devices[..own].iter().all(|node| configuration.read.contains(node));
        if is_setting && is_clear && own > 0 && is_read {
            self.contradicts(
                "doctor has read its configuration, and finds nothing that would do this"
                    .to_owned(),
            );
        }
    }
}

fn hosts(culprit: Culprit) -> impl Iterator<Item = u32> {
    devices(culprit).into_iter().filter_map(|node| match node {
        Node::Host(host) => Some(host),
        Node::Switch(_) => None,
    })
}

fn devices(culprit: Culprit) -> Vec<Node> {
    match culprit {
        Culprit::Nothing => vec![],
        Culprit::Host(host) | Culprit::Nic(host) => vec![Node::Host(host)],
        Culprit::Link(a, b) => vec![a, b],
        Culprit::Tor(switch) | Culprit::Plane(switch) => vec![Node::Switch(switch)],
    }
}

/// Which findings of doctor can be behind what is seen.
pub(super) const fn explains(rule: Rule, cause: Cause) -> bool {
    match cause {
        Cause::PauseStorm => {
            matches!(rule, Rule::WatchdogBelowPoll | Rule::WatchdogLate | Rule::NoWatchdog)
        }
        Cause::SlowReceiver => matches!(rule, Rule::NoMarks | Rule::MarksAfterPauses),
        Cause::WrongClass => matches!(rule, Rule::Chain | Rule::Trust | Rule::NotDesired),
        Cause::Dead => matches!(rule, Rule::Cabling | Rule::Circle),
        Cause::Lossy => {
            matches!(
                rule,
                Rule::Headroom | Rule::Chain | Rule::Trust | Rule::EndsDiffer | Rule::Cabling
            )
        }
        Cause::EarlyPauses => {
            matches!(rule, Rule::AlphaDiffers | Rule::MarksAfterPauses | Rule::NotDesired)
        }
        Cause::Slow => matches!(
            rule,
            Rule::NoMarks
                | Rule::MarksAfterPauses
                | Rule::NotificationsAmongData
                | Rule::Chain
                | Rule::Trust
                | Rule::Circle
        ),
        Cause::Busy => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fabric::topology::{Cables, Topology, single_switch};
    use rdma::Rate;

    use super::super::super::configured::{Configuration, Finding};
    use super::super::super::evidence::{Digest, EndsOnly};
    use super::super::super::scope::Map;
    use super::super::{Verdict, judge};
    use super::*;

    const LINK: Culprit = Culprit::Link(Node::Host(1), Node::Switch(0));
    const TOR: Culprit = Culprit::Tor(0);

    /// What is known of four hosts at a switch.
    #[derive(Default)]
    struct Known {
        hosts: BTreeMap<u32, HostDelta>,
        ports: BTreeMap<(u32, Node), PortDelta>,
        configuration: Configuration,
    }

    fn topology() -> Topology {
        single_switch(4, Cables::new(Rate::from_gbps(40), 2))
    }

    impl Known {
        fn look<T>(&self, look: impl FnOnce(&Evidence<'_>) -> T) -> T {
            let (hosts, ports) = (self.hosts.clone(), self.ports.clone());
            let interval = Interval { start_ns: 0, end_ns: 1_000_000_000, hosts, ports };
            let topology = topology();
            let map = Map::of(&topology);
            look(&Evidence {
                topology: &topology,
                map: &map,
                digest: &Digest::default(),
                paths: &EndsOnly(&map),
                intervals: &[interval],
                configuration: &self.configuration,
            })
        }

        fn of(&self, culprit: Culprit, cause: Cause) -> Joined {
            let (score, since_ns, until_ns, evidence, joined) = Default::default();
            let suspect = Suspect { culprit, cause, score, since_ns, until_ns, evidence, joined };
            self.look(|evidence| join(evidence, &suspect))
        }

        fn host(mut self, host: u32, counted: HostDelta) -> Self {
            self.hosts.insert(host, counted);
            self
        }

        fn doctor(mut self, rules: &[Rule]) -> Self {
            let node = Node::Switch(0);
            let finding = |rule: &Rule| Finding {
                node,
                rule: rule.id().to_owned(),
                what: "as it should not be".to_owned(),
            };
            self.configuration.findings.extend(rules.iter().map(finding));
            self.configuration.read = BTreeSet::from([node]);
            self
        }
    }

    fn errors(count: u64) -> HostDelta {
        HostDelta { link_errors: Some(count), tx_pause: Some(0), ..HostDelta::default() }
    }

    fn pauses(tx_pause: u64, pausing_us: u64) -> HostDelta {
        let (tx_pause, pausing_us) = (Some(tx_pause), Some(pausing_us));
        HostDelta { tx_pause, pausing_us, ..HostDelta::default() }
    }

    #[test]
    fn what_agrees_confirms_and_what_contradicts_alone_makes_doubtful() {
        use Support::{Alone, Confirmed, Doubtful};
        let none = Known::default;
        let dropping = PortDelta { dropped: 20, ..PortDelta::default() };
        let at_port = Known { ports: [((0, Node::Host(1)), dropping)].into(), ..none() };
        let paused = |paused_us| {
            let port = PortDelta { paused_us, ..PortDelta::default() };
            Known { ports: [((0, Node::Host(1)), port)].into(), ..none() }
        };
        let storm = (Culprit::Nic(1), Cause::PauseStorm);
        let cases: [(Known, Culprit, Cause, Support, &str); 15] = [
            (none(), LINK, Cause::Lossy, Alone, ""),
            (none().host(1, errors(40)), LINK, Cause::Lossy, Confirmed, "40 errors of its link"),
            (none().host(1, errors(15)), LINK, Cause::Lossy, Alone, ""),
            // All hosts have as many.
            (
                (0..4).fold(none(), |known, host| known.host(host, errors(40 + u64::from(host)))),
                LINK,
                Cause::Lossy,
                Alone,
                "",
            ),
            // Another's errors are no reason.
            (none().host(2, errors(40)), LINK, Cause::Dead, Alone, ""),
            (at_port, LINK, Cause::Lossy, Confirmed, "port of s0 to h1 has dropped 20"),
            (
                paused(980_000),
                LINK,
                Cause::Dead,
                Doubtful,
                "s0 to h1 was stopped by pause frames for 98 %",
            ),
            (paused(490_000), LINK, Cause::Dead, Alone, ""),
            (none().host(1, pauses(9, 900_000)), storm.0, storm.1, Confirmed, "9 pause frames"),
            (none().host(1, errors(0)), storm.0, storm.1, Doubtful, "has sent none"),
            (none().doctor(&[Rule::Headroom]), LINK, Cause::Lossy, Confirmed, "s0: FD003: as it"),
            (none().doctor(&[Rule::Headroom]), LINK, Cause::Slow, Alone, ""),
            (none().doctor(&[Rule::AlphaDiffers]), TOR, Cause::EarlyPauses, Confirmed, "FD007"),
            (none().doctor(&[Rule::Lldpad]), TOR, Cause::EarlyPauses, Doubtful, "finds nothing"),
            // A watchdog that is missing lets a storm live; its NIC says that it is none.
            (
                none().doctor(&[Rule::NoWatchdog]).host(1, errors(0)),
                storm.0,
                storm.1,
                Alone,
                "has sent none",
            ),
        ];
        for (number, (known, culprit, cause, support, what)) in cases.into_iter().enumerate() {
            let joined = known.of(culprit, cause);
            assert_eq!(joined.support(), support, "case {number}: {joined:?}");
            let said = format!("{joined:?}");
            assert!(said.contains(what), "case {number}: {said}");
        }
    }

    #[test]
    fn a_nic_that_says_itself_that_it_pauses_storms_and_a_doubtful_one_comes_last() {
        let verdict: Verdict = Known::default()
            .host(1, pauses(0, 900_000))
            .host(2, pauses(5_000, 300_000))
            .look(judge);
        let said: Vec<_> =
            verdict.suspects.iter().map(|of| (of.culprit, of.cause, of.joined.support())).collect();
        assert_eq!(
            said,
            [
                (Culprit::Nic(2), Cause::SlowReceiver, Support::Confirmed),
                (Culprit::Nic(1), Cause::PauseStorm, Support::Doubtful),
            ]
        );
        let text = verdict.text(&topology()).to_string();
        assert!(text.starts_with("verdict: NIC of h2: receives more slowly"), "{text}");
        assert!(
            text.contains(", confirmed\n") && text.contains("  agrees: the NIC of h2"),
            "{text}"
        );
    }
}
