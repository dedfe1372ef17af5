//! What a verdict may look at: what probes saw, which way they went, and what ports and hosts counted.

use std::collections::BTreeMap;

use fabric::topology::Topology;
use smallvec::{SmallVec, smallvec};

use super::configured::Configuration;
use super::counted::{HostDelta, PortDelta};
use super::node::Node;
use super::scope::{Map, Scope};
use super::window::{Latency, OfLabel, Window};

/// One direction of a link: who sends, and who receives.
pub type Hop = (Node, Node);

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

/// What became of the TCP probes of one pair of hosts in a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpBrief {
    /// When the window began, in nanoseconds.
    pub start_ns: u64,
    /// Who probed.
    pub host: u32,
    /// Whom.
    pub target: u32,
    /// How far away that is.
    pub scope: Scope,
    /// Probes that were answered, or not in time.
    pub known: u64,
    /// Of them, those that took as long as if a packet had been lost, or were not answered.
    pub hurt: u64,
    /// The median round trip, in microseconds.
    pub p50_us: Option<f32>,
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
    /// By pair and window: by TCP.
    pub tcp: Vec<TcpBrief>,
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
        self.tcp.extend(window.tcp.iter().map(|pair| TcpBrief {
            start_ns,
            host,
            target: pair.target,
            scope: pair.scope,
            known: pair.counts.known(),
            hurt: pair.hurt(),
            p50_us: pair.round_trip.us(0.5).map(|us| us as f32),
        }));
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
        let tcp = self.tcp.iter().filter(|pair| pair.start_ns >= start_ns).copied().collect();
        Self { pairs, tcp, responder: of(&self.responder), prober: of(&self.prober), probes }
    }

    /// Forgets windows that began before a time. Probes stay counted.
    pub fn forget(&mut self, before_ns: u64) {
        self.pairs.retain(|pair| pair.start_ns >= before_ns);
        self.tcp.retain(|pair| pair.start_ns >= before_ns);
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
    /// What is wrong with the configuration.
    pub configuration: &'a Configuration,
}

impl core::fmt::Debug for Evidence<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = f.debug_struct("Evidence");
        debug.field("pairs", &self.digest.pairs.len()).field("intervals", &self.intervals.len());
        debug.finish_non_exhaustive()
    }
}
