//! What all hosts have seen: by scope and window, and by pairs of racks and podsets.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use fabric::topology::{End, Topology};
use telemetry::{Cell, Table};

use super::scope::{Map, Scope};
use super::window::{Counts, Latency, Pair, TcpPair, Window};

/// Probes of one kind, added up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sum {
    /// By outcome.
    pub counts: Counts,
    /// Round trips of the network.
    pub network: Latency,
    /// What those that answered took.
    pub responder: Latency,
}

impl Sum {
    /// Those of a target.
    pub fn add(&mut self, pair: &Pair) {
        self.counts.add(&pair.counts);
        self.network.add(&pair.network);
        self.responder.add(&pair.responder);
    }

    /// These and those.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.network.add(&other.network);
        self.responder.add(&other.responder);
    }
}

/// TCP probes, added up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TcpSum {
    /// By outcome.
    pub counts: Counts,
    /// Of those that were answered: how many as late as if a packet had been lost.
    pub late: u64,
    /// Round trips, of the connection too.
    pub round_trip: Latency,
}

impl TcpSum {
    /// Those of a target.
    pub fn add(&mut self, pair: &TcpPair) {
        self.counts.add(&pair.counts);
        self.late = self.late.saturating_add(pair.late);
        self.round_trip.add(&pair.round_trip);
    }

    /// These and those.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.late = self.late.saturating_add(other.late);
        self.round_trip.add(&other.round_trip);
    }
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// By scope, and by when the window began, in nanoseconds.
    pub windows: BTreeMap<(Scope, u64), Sum>,
    /// By scope, and by the units that probes went from and to.
    pub pairs: BTreeMap<(Scope, String, String), Sum>,
    /// TCP probes, by scope, and by when the window began.
    pub tcp: BTreeMap<(Scope, u64), TcpSum>,
    /// What the probers' own processors took.
    pub prober: Latency,
    /// How long windows are.
    pub length_ns: u64,
}

/// Of so many hosts a heat map shows each by itself.
const HOSTS_SHOWN: usize = 64;

/// What a host counts to, at the distance of a scope: its podset beyond podsets, otherwise its rack; in a small network,
/// within a rack, itself.
pub fn unit(topology: &Topology, map: &Map, scope: Scope, host: u32) -> String {
    match (scope, map.podset_of(host), map.rack_of(host)) {
        (Scope::Dc, Some(podset), _) => format!("podset{podset}"),
        (Scope::Tor, ..) if topology.hosts.len() <= HOSTS_SHOWN => {
            topology.name(End::Host(host)).to_owned()
        }
        (_, _, Some(rack)) => topology.name(End::Switch(rack)).to_owned(),
        _ => topology.name(End::Host(host)).to_owned(),
    }
}

impl Summary {
    /// Of some windows.
    pub fn of(topology: &Topology, map: &Map, windows: &[Window]) -> Self {
        let mut summary = Self::default();
        for window in windows {
            summary.length_ns = summary.length_ns.max(window.length_ns);
            summary.prober.add(&window.prober);
            for pair in &window.tcp {
                summary.tcp.entry((pair.scope, window.start_ns)).or_default().add(pair);
            }
            for pair in &window.pairs {
                let scope = pair.scope;
                summary.windows.entry((scope, window.start_ns)).or_default().add(pair);
                let from = unit(topology, map, scope, window.host);
                let to = unit(topology, map, scope, pair.target);
                summary.pairs.entry((scope, from, to)).or_default().add(pair);
            }
        }
        summary
    }

    /// Of a scope.
    pub fn scope(&self, scope: Scope) -> Sum {
        let mut all = Sum::default();
        let of = self.windows.range((scope, 0)..=(scope, u64::MAX));
        of.for_each(|(_, sum)| all.merge(sum));
        all
    }

    /// TCP probes of a scope.
    pub fn tcp(&self, scope: Scope) -> TcpSum {
        let mut all = TcpSum::default();
        let of = self.tcp.range((scope, 0)..=(scope, u64::MAX));
        of.for_each(|(_, sum)| all.merge(sum));
        all
    }

    /// When the first window began.
    pub fn begin_ns(&self) -> u64 {
        self.windows.keys().map(|(_, start)| *start).min().unwrap_or(0)
    }

    /// In lines of 80 columns, for people: what became of the probes, which adds up, round trips, and the 99th percentile
    /// of the responder's delay.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<6} {:>7} {:>8} {:>7} {:>5} {:>6} {:>7} {:>6} {:>6} {:>6} {:>6}\n",
            "scope",
            "probes",
            "answered",
            "timeout",
            "error",
            "clocks",
            "unknown",
            "p50 us",
            "p99",
            "p99.9",
            "resp."
        );
        for scope in Scope::ALL {
            let Sum { counts, network, responder } = self.scope(scope);
            if counts.sent == 0 {
                continue;
            }
            let us =
                |latency: &Latency, rank: f64| latency.us(rank).map_or_else(|| "-".to_owned(), six);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:<6} {:>7} {:>8} {:>7} {:>5} {:>6} {:>7} {:>6} {:>6} {:>6} {:>6}",
                scope.name(),
                counts.sent,
                counts.answered,
                counts.timeout,
                counts.send_error,
                counts.invalid_rtt,
                counts.unknown,
                us(&network, 0.5),
                us(&network, 0.99),
                us(&network, 0.999),
                us(&responder, 0.99),
            );
            let TcpSum { counts, late, round_trip } = self.tcp(scope);
            if counts.sent > 0 {
                let _ = writeln!(
                    text,
                    "{:<6} {:>7} {:>8} {:>7} {:>5}{:>7} {:>7} {:>6} {:>6} {:>6} {:>6}",
                    "  TCP",
                    counts.sent,
                    counts.answered,
                    counts.timeout,
                    counts.send_error,
                    // Their clock is one.
                    format!("{late} late"),
                    counts.unknown,
                    us(&round_trip, 0.5),
                    us(&round_trip, 0.99),
                    us(&round_trip, 0.999),
                    "-",
                );
            }
        }
        text
    }

    /// By scope and window.
    pub fn windows_table(&self) -> Table {
        let mut table = Table::new("windows")
            .texts("scope")
            .floats("time", "ms")
            .integers("sent", "probes")
            .integers("timeout", "probes")
            .floats("p50", "us")
            .floats("p99", "us")
            .floats("p999", "us")
            .floats("responder_p99", "us");
        let begin = self.begin_ns();
        for ((scope, start), sum) in &self.windows {
            let float = |value: Option<f64>| value.map_or(Cell::Missing, Cell::Float);
            table.push([
                scope.name().into(),
                ((start - begin) as f64 / 1e6).into(),
                sum.counts.sent.into(),
                sum.counts.timeout.into(),
                float(sum.network.us(0.5)),
                float(sum.network.us(0.99)),
                float(sum.network.us(0.999)),
                float(sum.responder.us(0.99)),
            ]);
        }
        table
    }

    /// By pair of units of all scopes.
    pub fn all_pairs_table(&self) -> Table {
        let mut table = Table::new("pairs")
            .texts("scope")
            .texts("from")
            .texts("to")
            .integers("sent", "probes")
            .integers("timeout", "probes")
            .floats("p50", "us")
            .floats("p99", "us");
        for ((scope, from, to), sum) in &self.pairs {
            let float = |value: Option<f64>| value.map_or(Cell::Missing, Cell::Float);
            table.push([
                scope.name().into(),
                Cell::Text(from),
                Cell::Text(to),
                sum.counts.sent.into(),
                sum.counts.timeout.into(),
                float(sum.network.us(0.5)),
                float(sum.network.us(0.99)),
            ]);
        }
        table
    }

    /// By pair of units of a scope.
    pub fn pairs_table(&self, scope: Scope) -> Table {
        let mut table = Table::new("pairs")
            .texts("from")
            .texts("to")
            .integers("sent", "probes")
            .floats("lost", "percent")
            .floats("p50", "us")
            .floats("p99", "us");
        for ((of, from, to), sum) in &self.pairs {
            if *of != scope {
                continue;
            }
            let float = |value: Option<f64>| value.map_or(Cell::Missing, Cell::Float);
            table.push([
                Cell::Text(from),
                Cell::Text(to),
                sum.counts.sent.into(),
                (sum.counts.lost() * 100.0).into(),
                float(sum.network.us(0.5)),
                float(sum.network.us(0.99)),
            ]);
        }
        table
    }
}

/// A number in at most six columns.
fn six(number: f64) -> String {
    match number {
        ..9_999.95 => format!("{number:.1}"),
        ..999_999.5 => format!("{number:.0}"),
        _ => format!("{number:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_of_any_length_keeps_its_columns() {
        let told = [0.04, 457.12, 9_999.96, 9_999.4, 10_240.0, 999_999.4, 1e6, 1.3e11].map(six);
        let expected = ["0.0", "457.1", "10000", "9999.4", "10240", "999999", "1.0e6", "1.3e11"];
        assert_eq!(told, expected);
        assert!(told.iter().all(|of| of.len() <= 6));
    }
}
