//! How often the verdict is right: faults of seven kinds, two at once, and none, injected into a simulated Clos.
//!
//! ```text
//!   seed ─► where and when ─► network with the fault ─► probes, counters ─► verdict ─┐
//!     └─────────────────────► what is true ────────────────────────────────────────► right or wrong
//! ```
//!
//! Every network carries the same services: messages between servers taken at random, and answers that come from
//! several at once, now and then, below every ToR. The verdict sees probes, counters and topology; what was injected,
//! and when, only [`Trial`] knows.

use std::collections::BTreeMap;

use fabric::NetworkConfig;
use fabric::fault::{DropRule, Fault as NetworkFault, FaultKind};
use fabric::random::Random;
use fabric::switch::config::SwitchConfig;
use fabric::topology::{Cables, ClosShape, End, Topology, clos};
use fabric::workload::FlowSpec;
use rdma::{Rate, Span, Time};

use super::pinglist::Rates;
use super::scope::Map;
use super::simulation::{CORE, Mesh, Scale, host_model};
use super::verdict::{Culprit, Suspect, Verdict};

/// The Clos of all trials.
const SHAPE: ClosShape = ClosShape {
    podsets: 2,
    tors: 3,
    leaves: 2,
    spines: 2,
    hosts: 4,
    host_cables: Cables::new(Rate::from_gbps(40), 2),
    tor_cables: Cables::new(Rate::from_gbps(40), 20),
    spine_cables: Cables::new(Rate::from_gbps(40), 300),
};
/// How long a trial is, in windows.
const WINDOWS: u64 = 16;
const WINDOW: Span = Span::from_ms(25);
/// A fault begins in this window, at any moment.
const BEGINS_IN: u64 = 2;
/// Messages a second of each host, of this length.
const MESSAGES: u64 = 800;
const MESSAGE_BYTES: u32 = 65_536;
/// Below each ToR a server asks so often, on average, and so many others answer it at once.
const ASKS: Span = Span::from_ms(20);
const ANSWERS: u64 = 6;
const ANSWER_BYTES: u32 = 262_144;
/// A slow receiver takes so long for a packet; one comes every 221 ns at most.
const SLOW_RECEIVE: Span = Span::from_ns(1_500);
/// Of the packets of a lossy link, as the operators of R-Pingmesh would still want to know.
const LOSS: f64 = 0.001;

/// What is injected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// Nothing: a control.
    Nothing,
    /// A link carries nothing, and routes stay as they are.
    DeadLink,
    /// One direction of a link loses 0.1 % of its packets, and nobody counts them.
    LossyLink,
    /// The receive pipeline of a NIC stands still, and the NIC pauses (guo16, 4.3).
    Storm,
    /// A NIC takes longer for a packet than the link (guo16, 4.4).
    SlowReceiver,
    /// A ToR has alpha 1/64 where the others have 1/16 (guo16, 6.2).
    WrongAlpha,
    /// Two tasks that never wait run on the core that answers.
    BusyHost,
    /// A ToR maps the DSCP of RDMA to a class that is not lossless.
    WrongDscp,
    /// Two links carry nothing, from one moment on.
    DeadLinks,
    /// Of two links one direction each loses 0.1 % of its packets.
    LossyLinks,
}

impl Fault {
    /// All of them; the control first.
    pub const ALL: [Self; 10] = [
        Self::Nothing,
        Self::DeadLink,
        Self::LossyLink,
        Self::Storm,
        Self::SlowReceiver,
        Self::WrongAlpha,
        Self::BusyHost,
        Self::WrongDscp,
        Self::DeadLinks,
        Self::LossyLinks,
    ];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::DeadLink => "dead link",
            Self::LossyLink => "link losing 0.1 %",
            Self::Storm => "storming NIC",
            Self::SlowReceiver => "slow receiver",
            Self::WrongAlpha => "ToR with alpha 1/64",
            Self::BusyHost => "busy host",
            Self::WrongDscp => "ToR with wrong DSCP map",
            Self::DeadLinks => "two dead links",
            Self::LossyLinks => "two links losing 0.1 %",
        }
    }
}

/// A network with a fault.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What was injected.
    pub fault: Fault,
    /// Where: what the verdict is to say, all of it.
    pub truth: Vec<Culprit>,
    /// When.
    pub at: Time,
    config: NetworkConfig,
}

/// What came of a trial.
#[derive(Clone, PartialEq, Debug)]
pub struct Tried {
    /// What was injected.
    pub fault: Fault,
    /// Where.
    pub truth: Vec<Culprit>,
    /// When, in nanoseconds; zero if it was so from the beginning.
    pub at_ns: u64,
    /// What was said.
    pub verdict: Verdict,
    /// Probes that were sent.
    pub probes: u64,
}

impl Tried {
    /// Whether it was right: the very hosts, NICs, links or switches and no other; nothing if there was nothing.
    pub fn is_right(&self) -> bool {
        let sick = self.verdict.sick();
        sick.len() == self.truth.len() && sick.iter().all(|of| self.truth.contains(&of.culprit))
    }
}

impl Trial {
    /// The trial of a fault with a seed, which says where and when.
    ///
    /// # Errors
    /// A file of ours is not as it should be.
    pub fn new(fault: Fault, seed: u64) -> Result<Self, bench::Failure> {
        let mut random = Random::new(seed.wrapping_mul(16).wrapping_add(fault as u64));
        let topology = clos(&SHAPE);
        let map = Map::of(&topology);
        let end = Time::ZERO + WINDOW * WINDOWS;
        let mut config = NetworkConfig::new(topology);
        config.seed = seed;
        config.share_queue_pairs = true;
        config.host = Some(host_model()?);
        config.flows = services(&map, end, &mut random);
        // Nobody gives up: that would be a fault of its own.
        config.nic.ack_timeout_code = 13;
        let at = Time::ZERO + WINDOW * BEGINS_IN + Span::from_ps(random.below(WINDOW.as_ps()));
        let mut trial = Self { fault, truth: Vec::new(), at, config };
        trial.inject(&map, &mut random);
        Ok(trial)
    }

    fn inject(&mut self, map: &Map, random: &mut Random) {
        let topology: &Topology = &self.config.topology;
        let host = random.below(topology.hosts.len() as u64) as u32;
        let tors: Vec<u32> = map.podsets.keys().copied().collect();
        let tor = tors[random.below(tors.len() as u64) as usize];
        let mut link = random.below(topology.links.len() as u64) as usize;
        let mut of_link = |random: &mut Random| {
            let ends = topology.links[link].ends;
            let directed = if random.chance(0.5) { ends } else { [ends[1], ends[0]] };
            // Another one, if there is a second.
            link += 1 + random.below(topology.links.len() as u64 - 1) as usize;
            link %= topology.links.len();
            (Culprit::link(ends[0].into(), ends[1].into()), directed)
        };
        let links = match self.fault {
            Fault::DeadLinks | Fault::LossyLinks => vec![of_link(random), of_link(random)],
            _ => vec![of_link(random)],
        };
        let of_links = |kind: fn([End; 2]) -> FaultKind| {
            links.iter().map(|&(truth, ends)| (truth, Some(kind(ends)))).collect()
        };
        let settings = self.config.switch.clone();
        let injected: Vec<(Culprit, Option<FaultKind>)> =
            match self.fault {
                Fault::Nothing => Vec::new(),
                Fault::DeadLink | Fault::DeadLinks => of_links(|ends| FaultKind::LinkDown { ends }),
                Fault::LossyLink | Fault::LossyLinks => of_links(|[from, to]| {
                    FaultKind::LinkRule { from, to, rule: DropRule::Chance(LOSS) }
                }),
                Fault::Storm => vec![(Culprit::Nic(host), Some(FaultKind::NicStuck { host }))],
                Fault::SlowReceiver => {
                    let nic = self.config.nic.clone();
                    let slow = fabric::nic::NicConfig { receive: SLOW_RECEIVE, ..nic };
                    self.config.nics.insert(host, slow);
                    vec![(Culprit::Nic(host), None)]
                }
                Fault::WrongAlpha => {
                    let kind = FaultKind::AlphaChanges { switch: tor, exponent: -6 };
                    vec![(Culprit::Tor(tor), Some(kind))]
                }
                Fault::BusyHost => {
                    let mut model = self.config.host.clone().unwrap_or_default();
                    model.cpu.hogs = vec![CORE, CORE];
                    self.config.hosts.insert(host, model);
                    vec![(Culprit::Host(host), None)]
                }
                Fault::WrongDscp => {
                    let mut map = settings.dscp_to_class;
                    map[3] = 1;
                    let wrong = SwitchConfig { dscp_to_class: map, ..settings };
                    self.config.switches.insert(tor, wrong);
                    vec![(Culprit::Tor(tor), None)]
                }
            };
        let at = self.at;
        let begins = |(_, kind): &(_, Option<FaultKind>)| Some(NetworkFault { at, kind: (*kind)? });
        let faults: Vec<NetworkFault> = injected.iter().filter_map(begins).collect();
        if faults.is_empty() {
            self.at = Time::ZERO;
        }
        self.config.faults.extend(faults);
        self.truth = injected.into_iter().map(|(truth, _)| truth).collect();
    }

    /// Runs it.
    ///
    /// # Errors
    /// The network cannot be made.
    pub fn run(self) -> Result<Tried, bench::Failure> {
        let end = Time::ZERO + WINDOW * WINDOWS;
        let mut mesh = Mesh::new(self.config, scale(), end)?;
        mesh.run(|_| true);
        let verdict = mesh.verdict();
        let (probes, at_ns) = (verdict.probes, self.at.as_ns());
        Ok(Tried { fault: self.fault, truth: self.truth, at_ns, verdict, probes })
    }

    /// The topology of all trials.
    pub fn topology() -> Topology {
        clos(&SHAPE)
    }
}

/// How often hosts probe in a trial: as often to each of the six targets, so that every link is crossed by thousands.
fn scale() -> Scale {
    let rates = Rates { rack: 2.0, beyond: 2.0, host: 100.0 };
    Scale { faster: 1e3, window: WINDOW, rates, receives: 256, polls: true, ..Scale::default() }
}

/// What servers send each other: some messages at random, and answers of several servers to one below each ToR.
fn services(map: &Map, end: Time, random: &mut Random) -> Vec<FlowSpec> {
    let hosts = map.racks.len() as u64;
    let mut flows = Vec::new();
    let other = |random: &mut Random, host: u32| -> u32 {
        let step = 1 + random.below(hosts - 1);
        ((u64::from(host) + step) % hosts) as u32
    };
    // Exponential gaps, of this mean.
    let gap = |random: &mut Random, mean: Span| {
        Span::from_ps((-(1.0 - random.unit()).ln() * mean.as_ps() as f64) as u64)
    };
    let mean = Span::from_ps(1_000_000_000_000 / MESSAGES);
    for host in 0..hosts as u32 {
        let mut at = Time::ZERO + gap(random, mean);
        while at < end {
            let to = other(random, host);
            flows.push(FlowSpec { start: at, ..FlowSpec::write(host, to, MESSAGE_BYTES) });
            at += gap(random, mean);
        }
    }
    let mut by_rack: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (host, rack) in (0..).zip(&map.racks) {
        by_rack.entry(rack.unwrap_or(u32::MAX)).or_default().push(host);
    }
    for below in by_rack.values() {
        let mut at = Time::ZERO + gap(random, ASKS);
        while at < end {
            let asks = below[random.below(below.len() as u64) as usize];
            let mut answer: Vec<u32> =
                (0..hosts as u32).filter(|host| !below.contains(host)).collect();
            for _ in 0..ANSWERS {
                let from = answer.swap_remove(random.below(answer.len() as u64) as usize);
                flows.push(FlowSpec { start: at, ..FlowSpec::write(from, asks, ANSWER_BYTES) });
            }
            at += gap(random, ASKS);
        }
    }
    flows
}

/// Right and wrong of many trials, for one kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Score {
    /// Trials with this fault.
    pub injected: u32,
    /// Of them, those of which the verdict has named the very culprits.
    pub right: u32,
    /// Of them, those of which it has named nothing.
    pub missed: u32,
    /// Accusations of a kind that belongs to this fault, in all trials; see [`Score::precision`].
    pub said: u32,
    /// Of them, those that were right.
    pub said_right: u32,
}

impl Score {
    /// The part of the trials with this fault of which the verdict was right.
    pub fn recall(self) -> f64 {
        f64::from(self.right) / f64::from(self.injected.max(1))
    }

    /// The part of the verdicts with this fault's cause that were right; 1 if nobody said so.
    pub fn precision(self) -> f64 {
        if self.said == 0 { 1.0 } else { f64::from(self.said_right) / f64::from(self.said) }
    }
}

/// The cause that a verdict about a fault has.
const fn belongs(fault: Fault) -> Option<super::verdict::Cause> {
    use super::verdict::Cause;
    match fault {
        Fault::Nothing => None,
        Fault::DeadLink | Fault::DeadLinks => Some(Cause::Dead),
        Fault::LossyLink | Fault::LossyLinks => Some(Cause::Lossy),
        Fault::Storm => Some(Cause::PauseStorm),
        Fault::SlowReceiver => Some(Cause::SlowReceiver),
        Fault::WrongAlpha => Some(Cause::EarlyPauses),
        Fault::BusyHost => Some(Cause::Busy),
        Fault::WrongDscp => Some(Cause::WrongClass),
    }
}

/// By fault: how many of its trials the verdict was right about, and how many of the verdicts of its kind were right.
pub fn scores(tried: &[Tried]) -> BTreeMap<Fault, Score> {
    let mut scores: BTreeMap<Fault, Score> = BTreeMap::new();
    for one in tried {
        let score = scores.entry(one.fault).or_default();
        score.injected += 1;
        score.right += u32::from(one.is_right());
        score.missed += u32::from(one.verdict.sick().is_empty());
    }
    for one in tried {
        // That nothing is wrong is said as well.
        let nothing = (None, one.truth.is_empty());
        let accused = |of: &Suspect| (Some(of.cause), one.truth.contains(&of.culprit));
        let mut said: Vec<_> = one.verdict.sick().iter().map(accused).collect();
        if said.is_empty() {
            said.push(nothing);
        }
        for (cause, is_right) in said {
            for (_, score) in scores.iter_mut().filter(|(fault, _)| belongs(**fault) == cause) {
                score.said += 1;
                score.said_right += u32::from(is_right);
            }
        }
    }
    scores
}

/// What culprits are called in the topology of trials.
pub fn named(culprits: &[Culprit]) -> String {
    let topology = Trial::topology();
    let names: Vec<String> = culprits.iter().map(|of| of.named(&topology)).collect();
    if names.is_empty() { Culprit::Nothing.named(&topology) } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_where_and_when_and_every_fault_has_its_culprit() {
        for fault in Fault::ALL {
            let [one, again, other] = [7, 7, 8].map(|seed| Trial::new(fault, seed).unwrap());
            assert_eq!((&one.truth, one.at), (&again.truth, again.at));
            let culprits: std::collections::BTreeSet<_> = one.truth.iter().collect();
            let faults = match fault {
                Fault::Nothing => 0,
                Fault::DeadLinks | Fault::LossyLinks => 2,
                _ => 1,
            };
            assert_eq!(culprits.len(), faults);
            assert_ne!(one.config.flows, other.config.flows);
        }
    }

    #[test]
    fn precision_is_of_what_was_said_and_recall_of_what_was_there() {
        let tried = |fault, truth, said: Option<(Culprit, super::super::verdict::Cause)>| Tried {
            fault,
            truth,
            at_ns: 0,
            verdict: Verdict {
                suspects: said
                    .map(|(culprit, cause)| Suspect {
                        joined: Default::default(),
                        culprit,
                        cause,
                        score: 1.0,
                        since_ns: 0,
                        until_ns: None,
                        evidence: Vec::new(),
                    })
                    .into_iter()
                    .collect(),
                probes: 1,
                known: (1, 0),
                unexplained: 0,
            },
            probes: 1,
        };
        use super::super::verdict::Cause::Busy;
        let (here, there) = (Culprit::Host(1), Culprit::Host(2));
        let all = [
            tried(Fault::BusyHost, vec![here], Some((here, Busy))),
            tried(Fault::BusyHost, vec![here], Some((there, Busy))),
            tried(Fault::BusyHost, vec![here], None),
            tried(Fault::Nothing, vec![], Some((here, Busy))),
        ];
        let scores = scores(&all);
        let busy = scores[&Fault::BusyHost];
        assert_eq!((busy.injected, busy.right, busy.missed), (3, 1, 1));
        assert_eq!((busy.said, busy.said_right), (3, 1));
        let nothing = scores[&Fault::Nothing];
        assert_eq!((nothing.recall(), nothing.said, nothing.said_right), (0.0, 1, 0));
        // One of two is not all.
        let one = tried(
            Fault::DeadLinks,
            vec![here, there],
            Some((here, super::super::verdict::Cause::Dead)),
        );
        assert!(!one.is_right());
        let two = super::scores(&[one])[&Fault::DeadLinks];
        assert_eq!((two.right, two.missed, two.said, two.said_right), (0, 0, 1, 1));
    }
}
