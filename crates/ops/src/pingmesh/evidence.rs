//! What a verdict may look at: what probes saw, which way they went, and what ports and hosts counted.

use std::collections::BTreeMap;

use fabric::counters::{PauseCounters, PortCounters};
use fabric::topology::{End, Topology};
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::scope::{Map, Scope};
use super::window::{Latency, OfLabel, Window};

/// A host or a switch, by index in the topology.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Node {
    /// A host.
    Host(u32),
    /// A switch.
    Switch(u32),
}

impl From<End> for Node {
    fn from(end: End) -> Self {
        match end {
            End::Host(index) => Self::Host(index),
            End::Switch(index) => Self::Switch(index),
        }
    }
}

impl From<Node> for End {
    fn from(node: Node) -> Self {
        match node {
            Node::Host(index) => Self::Host(index),
            Node::Switch(index) => Self::Switch(index),
        }
    }
}

/// One direction of a link: who sends, and who receives.
pub type Hop = (Node, Node);

/// What a port of a switch has counted in an interval. Names in brackets are SAI's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortDelta {
    /// Pause frames that it received: its neighbour stopped it (`PFC_n_RX_PKTS`).
    pub rx_pause: u64,
    /// Pause frames that it sent: it stopped its neighbour (`PFC_n_TX_PKTS`).
    pub tx_pause: u64,
    /// For how long it was stopped, of the priority that was longest (`PFC_n_RX_PAUSE_DURATION_US`).
    pub paused_us: u64,
    /// Packets dropped, at either side of its buffer.
    pub dropped: u64,
    /// By queue: packets sent (`SAI_QUEUE_STAT_PACKETS`).
    pub queue_packets: [u64; 8],
    /// Packets received (`SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS`).
    pub rx_packets: u64,
}

impl PortDelta {
    /// What has been counted from one reading to the next.
    pub fn between(before: &PortCounters, after: &PortCounters) -> Self {
        let sum = |of: &PortCounters| {
            let PortCounters { queue_dropped, group_dropped, .. } = of;
            queue_dropped.iter().chain(group_dropped).sum::<u64>()
        };
        let mut queue_packets = [0; 8];
        for (queue, packets) in queue_packets.iter_mut().enumerate() {
            *packets = after.queue_packets[queue].saturating_sub(before.queue_packets[queue]);
        }
        let HostDelta { rx_pause, tx_pause, paused_us } =
            HostDelta::between(&before.pause, &after.pause);
        let dropped = sum(after).saturating_sub(sum(before));
        let received = |of: &PortCounters| of.group_packets.iter().sum::<u64>();
        let rx_packets = received(after).saturating_sub(received(before));
        Self { rx_pause, tx_pause, paused_us, dropped, queue_packets, rx_packets }
    }
}

/// What the NIC of a host has counted in an interval. Names in brackets are mlx5's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostDelta {
    /// Pause frames that it received: the network stopped it (`rx_prioN_pause`).
    pub rx_pause: u64,
    /// Pause frames that it sent: it stopped the network (`tx_prioN_pause`).
    pub tx_pause: u64,
    /// For how long it was stopped (`rx_prioN_pause_duration`).
    pub paused_us: u64,
}

impl HostDelta {
    /// What has been counted from one reading to the next.
    pub fn between(before: &PauseCounters, after: &PauseCounters) -> Self {
        let sum = |of: &[u64; 8]| of.iter().sum::<u64>();
        let paused = after.paused_ps.iter().zip(before.paused_ps);
        let longest = paused.map(|(after, before)| after.saturating_sub(before)).max();
        Self {
            rx_pause: sum(&after.received).saturating_sub(sum(&before.received)),
            tx_pause: sum(&after.sent).saturating_sub(sum(&before.sent)),
            paused_us: longest.unwrap_or(0) / 1_000_000,
        }
    }
}

/// What was counted from one time to another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// In nanoseconds, as windows have it.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// By switch and neighbour.
    pub ports: BTreeMap<(u32, Node), PortDelta>,
    /// By host.
    pub hosts: BTreeMap<u32, HostDelta>,
}

impl Interval {
    /// How long it was, in microseconds; never zero.
    pub fn length_us(&self) -> u64 {
        (self.end_ns.saturating_sub(self.start_ns) / 1_000).max(1)
    }
}

/// What is known of the ways of probes.
pub trait Paths {
    /// The links from one host to another, with a flow label of that number; `None` if nobody knows.
    fn path(&self, from: u32, to: u32, label: u16) -> Option<Vec<Hop>>;
}

/// Nobody knows which way probes go: only where they begin and end, and the one link of each host.
#[derive(Clone, Copy, Debug)]
pub struct EndsOnly<'a>(pub &'a Map);

impl Paths for EndsOnly<'_> {
    fn path(&self, from: u32, to: u32, _label: u16) -> Option<Vec<Hop>> {
        let (above, below) = (self.0.rack_of(from)?, self.0.rack_of(to)?);
        let (up, down) = (Node::Switch(above), Node::Switch(below));
        Some(vec![(Node::Host(from), up), (down, Node::Host(to))])
    }
}

/// What another tool has found, as far as a verdict can use it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The device that it is about.
    pub node: Node,
    /// What is wrong with it, for people.
    pub what: String,
}

/// What became of the probes of one pair of hosts in a window: what a verdict needs of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Brief {
    /// When the window began, in nanoseconds.
    pub start_ns: u64,
    /// Who probed.
    pub host: u32,
    /// Whom.
    pub target: u32,
    /// How far away that is.
    pub scope: Scope,
    /// By number of the flow label; all as one where nobody knows which way a label goes.
    pub labels: SmallVec<[OfLabel; 1]>,
    /// The median round trip of the network, in microseconds; `None` if nothing was answered.
    pub p50_us: Option<f32>,
    /// The 99th percentile.
    pub p99_us: Option<f32>,
}

impl Brief {
    /// Probes that were answered, or not in time; and the latter.
    pub fn losses(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), of: &OfLabel| (sum.0 + of.sent, sum.1 + of.lost.min(of.sent));
        self.labels.iter().fold((0, 0), add)
    }
}

/// What probes saw in several windows, without what a verdict does not need: a tenth of their memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Digest {
    /// By pair and window.
    pub pairs: Vec<Brief>,
    /// By when the window began and who answered: T4 - T3.
    pub responder: BTreeMap<(u64, u32), Latency>,
    /// By when the window began and who probed: its own delay.
    pub prober: BTreeMap<(u64, u32), Latency>,
    /// Probes that were sent.
    pub probes: u64,
}

impl Digest {
    /// Of all these windows.
    pub fn of<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Self {
        let mut digest = Self::default();
        windows.into_iter().for_each(|window| digest.add(window));
        digest
    }

    /// One window more.
    pub fn add(&mut self, window: &Window) {
        self.add_with(window, |labels| labels.into());
    }

    /// The same, with all labels as one: what [`EndsOnly`] can use.
    pub fn add_ends(&mut self, window: &Window) {
        self.add_with(window, |labels| {
            let mut all = OfLabel::default();
            for OfLabel { sent, lost, slow } in labels {
                all.sent = all.sent.saturating_add(*sent);
                all.lost = all.lost.saturating_add(*lost);
                all.slow = all.slow.saturating_add(*slow);
            }
            smallvec![all]
        });
    }

    fn add_with(&mut self, window: &Window, labels: impl Fn(&[OfLabel]) -> SmallVec<[OfLabel; 1]>) {
        let (host, start_ns) = (window.host, window.start_ns);
        self.prober.entry((start_ns, host)).or_default().add(&window.prober);
        for pair in &window.pairs {
            let us = |rank| pair.network.us(rank).map(|us| us as f32);
            self.probes += pair.counts.sent;
            self.responder.entry((start_ns, pair.target)).or_default().add(&pair.responder);
            self.pairs.push(Brief {
                start_ns,
                host,
                target: pair.target,
                scope: pair.scope,
                labels: labels(&pair.labels),
                p50_us: us(0.5),
                p99_us: us(0.99),
            });
        }
    }

    /// When the oldest of its windows began.
    pub fn begin_ns(&self) -> Option<u64> {
        self.prober.keys().next().map(|(start, _)| *start)
    }

    /// What is in it of windows that began at a time or later.
    #[must_use]
    pub fn since(&self, start_ns: u64) -> Self {
        let pairs: Vec<Brief> =
            self.pairs.iter().filter(|pair| pair.start_ns >= start_ns).cloned().collect();
        let of = |all: &BTreeMap<(u64, u32), Latency>| {
            all.range((start_ns, 0)..).map(|(key, latency)| (*key, latency.clone())).collect()
        };
        let sent = |pair: &Brief| pair.labels.iter().map(|of| of.sent).sum::<u64>();
        let probes = pairs.iter().map(sent).sum();
        Self { pairs, responder: of(&self.responder), prober: of(&self.prober), probes }
    }

    /// Forgets windows that began before a time. Probes stay counted.
    pub fn forget(&mut self, before_ns: u64) {
        self.pairs.retain(|pair| pair.start_ns >= before_ns);
        self.responder = self.responder.split_off(&(before_ns, 0));
        self.prober = self.prober.split_off(&(before_ns, 0));
    }
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// Who is linked to whom.
    pub topology: &'a Topology,
    /// Where hosts are.
    pub map: &'a Map,
    /// What probes saw.
    pub digest: &'a Digest,
    /// Which way they went.
    pub paths: &'a dyn Paths,
    /// What was counted meanwhile, in the order of time; nothing if nobody reads counters.
    pub intervals: &'a [Interval],
    /// What is wrong with the configuration, as far as anybody has looked.
    pub findings: &'a [Finding],
}

impl core::fmt::Debug for Evidence<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = f.debug_struct("Evidence");
        debug.field("pairs", &self.digest.pairs.len()).field("intervals", &self.intervals.len());
        debug.finish_non_exhaustive()
    }
}
