//! Flows, counters and samples as tables, which become Parquet files and figures.

use telemetry::{Cell, Table};

use super::Report;
use super::hops::Layers;
use crate::counters::{Counters, POOL_PEAK, POOL_SIZE};
use crate::network::{Choice, FlowPath};
use crate::record::Samples;
use crate::scenario::variants;
use crate::topology::{End, Topology};
use crate::workload::{Flow, Service, Verb};

impl Report<'_> {
    /// Every flow, a row each. `asked` are its messages, unless it has no end. `delivered_bytes` came to its destination in order, `delivered_back_bytes`
    /// to its source: answers, and what READs ask for; flows that share a queue pair have them in the row
    /// of the first. `slowdown` is how many times longer than alone in the network its
    /// messages took on average; only WRITEs over RC that are posted one at a time have it. `path`, `ports` and `choices`
    /// are as [`Network::path_of`](crate::Network::path_of) has them.
    pub fn flows(&self) -> Table {
        let mut table = Table::new("flows")
            .integers("seed", "")
            .integers("flow", "")
            .texts("source")
            .texts("destination")
            .texts("service")
            .texts("verb")
            .integers("dscp", "")
            .integers("message", "bytes")
            .integers("asked", "")
            .integers("posted", "")
            .integers("completed", "")
            .integers("failed", "")
            .integers("delivered", "bytes")
            .integers("delivered_back", "bytes")
            .integers("start", "ps")
            .integers("finished", "ps")
            .integers("latency_p50", "ps")
            .integers("latency_p99", "ps")
            .integers("latency_max", "ps")
            .floats("slowdown", "")
            .integers("source_port", "")
            .integers("hash", "")
            .texts("path")
            .texts("ports")
            .texts("choices");
        let topology = self.network.topology();
        let delivered = self.network.delivered();
        for (index, flow) in self.network.flows().iter().enumerate() {
            let spec = &flow.spec;
            let mut latencies = flow.latencies_ps.clone();
            latencies.sort_unstable();
            let at = |percent| super::percentile(&latencies, percent);
            let slowdowns = self.slowdowns(index);
            let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
            let path = self.network.path_of(index as u32);
            let [hops, ports, choices] = told(topology, spec.source, path.as_ref());
            table.push([
                self.network.seed().into(),
                index.into(),
                topology.name(End::Host(spec.source)).into(),
                topology.name(End::Host(spec.destination)).into(),
                variants::<Service>()[spec.service as usize].into(),
                variants::<Verb>()[spec.verb as usize].into(),
                u32::from(spec.dscp).into(),
                spec.message_bytes.into(),
                spec.messages.into(),
                flow.posted.into(),
                flow.completed.into(),
                flow.failed.into(),
                delivered[index].there.into(),
                delivered[index].back.into(),
                spec.start.as_ps().into(),
                flow.finished_at.map(rdma::Time::as_ps).into(),
                at(50).into(),
                at(99).into(),
                at(100).into(),
                (!slowdowns.is_empty()).then_some(mean).into(),
                path.as_ref().map(|path| u32::from(path.source_port)).into(),
                path.as_ref().map(|path| path.hash).into(),
                hops.as_deref().into(),
                ports.as_deref().into(),
                choices.as_deref().into(),
            ]);
        }
        table
    }

    /// The completion of every message: how long it took, and how many times longer than alone.
    pub(super) fn messages(&self) -> Table {
        let mut table =
            Table::new("messages").texts("traffic").floats("latency", "us").floats("slowdown", "");
        for (number, flow) in self.network.flows().iter().enumerate() {
            let slowdowns = self.slowdowns(number);
            let traffic = traffic(flow);
            for (index, &latency) in flow.latencies_ps.iter().enumerate() {
                let slowdown = slowdowns.get(index).copied();
                table.push([(&traffic).into(), micros(latency).into(), slowdown.into()]);
            }
        }
        table
    }

    /// Every counter that is not zero: of ports of switches under the names of SAI, of NICs under
    /// those of Linux (`hw_counters`, `ethtool -S`); and of each switch what its groups share, which is of no port.
    pub fn counters(&self) -> Table {
        let mut table = Table::new("counters")
            .texts("kind")
            .texts("node")
            .texts("neighbour")
            .texts("counter")
            .integers("value", "");
        for port in self.network.counted() {
            let neighbour = match port.counters {
                Counters::Switch(_) => port.neighbour.as_str().into(),
                // A NIC has one port.
                Counters::Nic(_) => Cell::Missing,
            };
            for (counter, value) in port.named().iter().filter(|(_, value)| *value > 0) {
                let node = port.node.as_str().into();
                table.push([port.kind().into(), node, neighbour, counter.into(), (*value).into()]);
            }
        }
        let topology = self.network.topology();
        for switch in 0..topology.switches.len() as u32 {
            let size = u64::from(self.network.shared_bytes(switch).unwrap_or(0));
            let peak = size.saturating_sub(self.network.least_free_bytes(switch));
            let of = topology.name(End::Switch(switch));
            for (counter, value) in [(POOL_SIZE, size), (POOL_PEAK, peak)] {
                table.push([
                    "switch".into(),
                    of.into(),
                    Cell::Missing,
                    counter.into(),
                    value.into(),
                ]);
            }
        }
        table
    }
}

/// A path in words: the nodes, the ports of its switches, and the choices; all that is not known is missing.
fn told(topology: &Topology, source: u32, path: Option<&FlowPath>) -> [Option<String>; 3] {
    let Some(path) = path else { return [None, None, None] };
    let hops = path.hops.as_ref().filter(|hops| !hops.is_empty());
    let nodes = hops.map(|hops| {
        let first = [topology.name(End::Host(source)), topology.name(End::Switch(hops[0].switch))];
        let names = first.into_iter().chain(hops.iter().map(|hop| topology.name(hop.to)));
        names.collect::<Vec<_>>().join(" ")
    });
    let ports =
        hops.map(|hops| hops.iter().map(|hop| hop.port.to_string()).collect::<Vec<_>>().join(" "));
    let choice = |choice: &Choice| {
        let taken = choice.taken.map_or_else(|| "*".to_owned(), |taken| taken.to_string());
        format!("{}:{taken}/{}", topology.name(End::Switch(choice.switch)), choice.of)
    };
    let choices = path.choices.iter().map(choice).collect::<Vec<_>>().join(" ");
    [nodes, ports, Some(choices)]
}

/// What a flow is called together with its like: service, if it is not RC, verb and class.
fn traffic(flow: &Flow) -> String {
    let spec = &flow.spec;
    let verb = match spec.verb {
        Verb::Write => "WRITE",
        Verb::WriteImmediate => "WRITE with immediate data",
        Verb::Send => "SEND",
        Verb::Read => "READ",
        Verb::CompareSwap => "compare and swap",
        Verb::FetchAdd => "fetch and add",
    };
    let what = match spec.service {
        Service::Rc => verb.to_owned(),
        Service::Uc => format!("UC {verb}"),
        Service::Ud => format!("UD {verb}"),
        Service::Tcp => "TCP".to_owned(),
    };
    format!("{what}, DSCP {}", spec.dscp)
}

pub(super) fn micros(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// The queues that did something between two samples, a row for each queue and sample.
pub(super) fn samples(samples: &Samples, report: &Report<'_>, layers: &Layers) -> Table {
    let mut table = Table::new("samples")
        .integers("time", "ps")
        .texts("node")
        .texts("neighbour")
        .texts("hop")
        .integers("queue", "")
        .integers("sent", "bytes")
        .floats("rate", "gbps")
        .integers("queued", "bytes")
        .integers("paused", "ps");
    let topology = report.network.topology();
    let names: Vec<String> =
        samples.ports().iter().map(|&(at, to)| layers.name(layers.hop(at, to))).collect();
    for change in samples.changes() {
        let (at, to) = samples.ports()[change.port as usize];
        let span = samples.span(change.sample);
        table.push([
            samples.times()[change.sample as usize].as_ps().into(),
            topology.name(at).into(),
            topology.name(to).into(),
            (&names[change.port as usize]).into(),
            u32::from(change.queue).into(),
            change.sent_bytes.into(),
            super::gbps(change.sent_bytes, span).into(),
            change.queue_bytes.into(),
            change.paused.as_ps().into(),
        ]);
    }
    table
}
