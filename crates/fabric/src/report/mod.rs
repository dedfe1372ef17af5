//! Reports: what a run came to, as lines for a terminal, tables and a page.
//!
//! ```text
//!   Network, Verdict, Samples ─► summary (terminal), notes, flows, counters, samples (tables), page
//! ```
//!
//! Every number is of simulated time, and every form says so. The same run gives the same bytes. Of a lab, whose
//! hosts are programs in real time, every form says that and whether its clock kept its factor.

mod cause;
mod diagnosis;
mod hops;
mod interval;
mod jobs;
mod json;
mod lab;
mod page;
mod replay;
mod seeds;
mod slow;
mod tables;

use core::cell::OnceCell;
use core::fmt::Write as _;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rdma::{Span, Time};
use telemetry::Table;

pub use cause::{Effect, Trial};
pub use diagnosis::Note;
pub(crate) use interval::{Interval, is_one_draw};
pub(crate) use json::written;
pub use lab::{LabRun, ProgramRun};
pub(crate) use page::capital;
pub use replay::marked;
pub use seeds::Seeds;

use crate::counters::WatchdogCounters;
use crate::record::Samples;
use crate::switch::config::WatchdogAction;
use crate::workload::{Flow, Service, Verb};
use crate::{Delivered, Network, Verdict};
use hops::{Hop, HopTotals, Layers};
use telemetry::words::wrapped;

/// Columns of the terminal that notes are set for.
const COLUMNS: usize = 79;

/// A network that has run, how that ended, and what was sampled.
#[derive(Debug)]
pub struct Report<'a> {
    title: &'a str,
    network: &'a Network,
    verdict: &'a Verdict,
    samples: Option<&'a Samples>,
    lab: Option<&'a LabRun>,
    /// What was tried afterwards.
    trials: Vec<Trial>,
    /// Remedies that change nothing here, or cannot be set.
    moot: Vec<Vec<String>>,
    /// By flow: what a message takes alone in the network, once somebody has asked.
    alone: OnceCell<Vec<Option<Span>>>,
}

impl<'a> Report<'a> {
    /// A report of `network`, whose run ended with `verdict`.
    pub fn new(title: &'a str, network: &'a Network, verdict: &'a Verdict) -> Self {
        let (trials, moot, alone) = (Vec::new(), Vec::new(), OnceCell::new());
        Self { title, network, verdict, samples: None, lab: None, trials, moot, alone }
    }

    /// The same, with what was sampled.
    #[must_use]
    pub fn with_samples(mut self, samples: &'a Samples) -> Self {
        self.samples = Some(samples);
        self
    }

    /// The same, as of a lab.
    #[must_use]
    pub fn in_lab(mut self, lab: &'a LabRun) -> Self {
        self.lab = Some(lab);
        self
    }

    /// What every file of results says about itself, as key and value.
    pub fn about(&self) -> Vec<(&'static str, String)> {
        let origin = if self.lab.is_some() { "lab" } else { "simulated" };
        let mut about = vec![
            ("origin", origin.to_owned()),
            ("title", self.title.to_owned()),
            ("model", self.model()),
        ];
        if let Some(lab) = self.lab {
            about.push(("factor", lab.factor.to_string()));
            about.push(("fell_behind", lab.behind.clone()));
        }
        about
    }

    /// What was sampled: a row for each queue and sample in which something changed.
    pub fn samples(&self) -> Option<Table> {
        let layers = Layers::of(self.network.topology());
        Some(tables::samples(self.samples?, self, &layers))
    }

    /// What was captured, as a pcapng file; `None` if the scenario captures nothing.
    pub fn capture(&self) -> Option<Vec<u8>> {
        crate::record::pcapng::file(self.network)
    }

    /// What matters, in lines for a terminal.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_summary(&mut text);
        text
    }

    fn write_summary(&self, text: &mut String) -> core::fmt::Result {
        let network = self.network;
        let origin = if self.lab.is_some() { "a lab run" } else { "simulated" };
        *text += &wrapped("", &format!("{} ({origin})", self.title), COLUMNS);
        let now = network.now();
        match self.verdict {
            _ if self.lab.is_some() => {
                let ending = self.lab.map(|lab| self.lab_ending(lab)).unwrap_or_default();
                writeln!(text, "  {ending}")?;
            }
            Verdict::Finished => writeln!(text, "  finished at {now}")?,
            Verdict::TimeOver => writeln!(text, "  stopped at {now}: the time was over")?,
            Verdict::Stalled => writeln!(text, "  stalled at {now}: nothing is left to happen")?,
            Verdict::Interrupted => {
                writeln!(text, "  INTERRUPTED at {now}: these are partial results")?;
            }
            Verdict::Deadlock(cycle) => {
                writeln!(text, "  DEADLOCK at {now}: these queues wait for each other")?;
                for (at, to, queue) in &cycle.queues {
                    writeln!(text, "    {at} port to {to}, queue {queue}")?;
                }
            }
        }
        for (figure, value) in self.figures() {
            *text += &wrapped(&format!("  {figure:<12} "), &value, COLUMNS);
            match figure.as_str() {
                "drops" => self.write_drops(text)?,
                "pauses" => self.write_hops(text)?,
                _ => {}
            }
        }
        for note in self.notes() {
            write_note(text, &note);
        }
        Ok(())
    }

    /// What can be compared with other runs.
    fn numbers(&self) -> Vec<seeds::Number> {
        let network = self.network;
        let flows = network.flows();
        let (latencies, slowdowns) = (self.latencies(), self.all_slowdowns());
        let took = |percent| percentile(&latencies, percent).map(tables::micros);
        let slower = |percent| percentile(&slowdowns, percent);
        let (again, timeouts) = self.repeated();
        let completed: u64 = flows.iter().map(|flow| flow.completed).sum();
        let count = |value: u64| Some(value as f64);
        let mut numbers = [
            ("ended_at", "us", Some(tables::micros(network.now().as_ps()))),
            ("completed", "messages", count(completed)),
            ("flows_unfinished", "", count(self.unfinished())),
            ("goodput", "gbps", Some(self.goodput_of().0)),
            ("latency_p50", "us", took(50)),
            ("latency_p99", "us", took(99)),
            ("slowdown_p50", "", slower(50)),
            ("slowdown_p99", "", slower(99)),
            ("drops", "", count(network.drops().total())),
            ("retransmits", "packets", count(again)),
            ("timeouts", "", count(timeouts)),
            ("pauses", "frames", count(network.pause_frames())),
            ("paused", "us", Some(tables::micros(self.paused_ps()))),
            ("marks", "", count(self.marks().0)),
            ("busiest_link", "percent", self.busiest_link()),
        ]
        .map(|(name, unit, value)| (Cow::Borrowed(name), unit, value))
        .to_vec();
        numbers.extend(self.job_numbers());
        numbers
    }

    /// Flows that have an end and have not reached it, or failed.
    fn unfinished(&self) -> u64 {
        let flows = self.network.flows().iter();
        let open = flows.filter(|flow| {
            flow.failed > 0 || flow.spec.messages.is_some() && flow.finished_at.is_none()
        });
        open.count() as u64
    }

    /// How long all ports together had to wait.
    fn paused_ps(&self) -> u64 {
        self.network.ports(self.network.now()).map(|port| hops::longest(&port.pauses)).sum()
    }

    /// For which part of the run the link that was used most was busy, in percent.
    fn busiest_link(&self) -> Option<f64> {
        let uses = self.network.link_uses().map(|part| part * 100.0);
        uses.max_by(f64::total_cmp)
    }

    /// From post to completion of every message, in picoseconds, in their order.
    fn latencies(&self) -> Vec<u64> {
        let flows = self.network.flows().iter();
        let mut all: Vec<u64> = flows.flat_map(|flow| flow.latencies_ps.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// The slowdowns of all flows, in their order.
    fn all_slowdowns(&self) -> Vec<f64> {
        let flows = 0..self.network.flows().len();
        let mut all: Vec<f64> = flows.flat_map(|flow| self.slowdowns(flow)).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Packets that were sent again, and timeouts.
    fn repeated(&self) -> (u64, u64) {
        self.network.all_host_stats().fold((0, 0), |(again, timeouts), of| {
            (again + of.retransmitted_pkts, timeouts + of.local_ack_timeout_err)
        })
    }

    /// Packets that were marked, and CNPs.
    fn marks(&self) -> (u64, u64) {
        let counters = self.network.all_switch_counters();
        let marked = counters.map(|(.., port)| port.queue_marked.iter().sum::<u64>()).sum();
        (marked, self.network.all_host_stats().map(|stats| stats.np_cnp_sent).sum())
    }

    /// The figures that matter, each in a line.
    fn figures(&self) -> Vec<(String, String)> {
        let network = self.network;
        let flows = network.flows();
        let over = flows.iter().filter(|flow| flow.is_over() && flow.failed == 0).count();
        let failed = flows.iter().filter(|flow| flow.failed > 0).count();
        let mut figures = self.lab.map(LabRun::figures).unwrap_or_default();
        let has_flows = self.lab.is_none() || !flows.is_empty();
        if has_flows {
            figures.extend([
                ("flows", format!("{} ({over} finished, {failed} failed)", flows.len())),
                ("completed", self.completion()),
                ("goodput", self.goodput()),
            ]);
        }
        let latencies = self.latencies();
        let at = |percent| percentile(&latencies, percent).map(Span::from_ps);
        if let [Some(p50), Some(p95), Some(p99)] = [50, 95, 99].map(at) {
            figures.push(("latency", format!("p50 {p50}, p95 {p95}, p99 {p99}")));
        }
        let slowdowns = self.all_slowdowns();
        let at = |percent| percentile(&slowdowns, percent);
        if let [Some(p50), Some(p95), Some(p99)] = [50, 95, 99].map(at) {
            figures.push(("slowdown", format!("p50 {p50:.2}, p95 {p95:.2}, p99 {p99:.2}")));
        }
        figures.extend(self.job_figures());
        let (again, timeouts) = self.repeated();
        let (marked, notified) = self.marks();
        figures.extend(self.storms().map(|storms| ("watchdogs", storms)));
        let simulated = format!("{} link-hops, {} events", network.link_hops(), network.events());
        figures.push(("drops", network.drops().total().to_string()));
        // Programs count for themselves.
        if has_flows {
            let sent: u64 = network.all_host_stats().map(|own| own.sent_pkts).sum();
            let again = format!("{again} of {sent} packets, {timeouts} timeouts");
            figures.push(("retransmits", again));
            figures.push(("ECN", format!("{marked} marks, {notified} CNPs")));
        } else {
            figures.push(("ECN", format!("{marked} marks")));
        }
        figures.extend([
            ("pauses", format!("{} frames", network.pause_frames())),
            (if self.lab.is_some() { "carried" } else { "simulated" }, simulated),
        ]);
        figures.into_iter().map(|(figure, value)| (figure.to_owned(), value)).collect()
    }

    /// What watchdogs have found, if there are any.
    fn storms(&self) -> Option<String> {
        let network = self.network;
        let mut parts = Vec::new();
        if network.switch_configs().any(|(_, own)| own.has_watchdog()) {
            let all = network.switch_configs();
            let all = all.filter_map(|(switch, _)| network.watchdog_counters(switch));
            let all = all.fold(WatchdogCounters::default(), WatchdogCounters::plus);
            let actions: BTreeSet<WatchdogAction> =
                network.switch_configs().flat_map(|(_, own)| own.watchdog_actions()).collect();
            // Of several the one that drops has most to tell.
            let meanwhile = match actions.first() {
                None | Some(WatchdogAction::Drop) => {
                    format!("{} packets dropped meanwhile", all.dropped())
                }
                Some(WatchdogAction::Forward) => {
                    "pauses ignored meanwhile, and nothing dropped by the switch".to_owned()
                }
                Some(WatchdogAction::Alert) => "nothing done about them".to_owned(),
            };
            parts.push(format!(
                "storms: {} detected, {} restored, {meanwhile}",
                all.detected, all.restored,
            ));
        }
        if network.nic_configs().any(|(_, nic)| nic.watchdog.is_some()) {
            let hosts = network.nic_configs();
            let storms: u64 = hosts.filter_map(|(host, _)| network.nic_storms(host)).sum();
            parts.push(format!("NICs that gave up pausing: {storms}"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Goodput in Gb/s, its bytes, and from when on.
    fn goodput_of(&self) -> (f64, u64, Time) {
        let (flows, now) = (self.network.flows(), self.network.now());
        let bytes: u64 = self.network.delivered().into_iter().map(Delivered::bytes).sum();
        let first = flows.iter().map(|flow| flow.spec.start).min().unwrap_or(now).min(now);
        (gbps(bytes, now.since(first)), bytes, first)
    }

    /// Messages that are done.
    fn completion(&self) -> String {
        let flows = self.network.flows();
        let done: u64 = flows.iter().map(|flow| flow.completed).sum();
        let asked: Option<u128> = flows.iter().map(|flow| flow.spec.messages.map(u128::from)).sum();
        match asked {
            Some(asked) => format!("{done} of {asked} messages"),
            None => format!("{done} messages, of flows without an end"),
        }
    }

    /// What applications were given, in order, by messages whole or not, in both directions.
    fn goodput(&self) -> String {
        let (rate, bytes, first) = self.goodput_of();
        let now = self.network.now();
        let window = match first {
            Time::ZERO => format!("in the first {now}"),
            first => format!("{first} to {now}"),
        };
        format!("{rate:.3} Gb/s: {bytes} bytes in order, {window}")
    }

    fn write_drops(&self, text: &mut String) -> core::fmt::Result {
        for (cause, count) in self.network.drops().iter() {
            writeln!(text, "    {count:>10} {cause}")?;
        }
        Ok(())
    }

    fn write_hops(&self, text: &mut String) -> core::fmt::Result {
        let topology = self.network.topology();
        let layers = Layers::of(topology);
        let head = ["who pauses whom", "frames", "ports", "paused", "most", "which"];
        let mut rows = vec![head.map(str::to_owned)];
        for (hop, totals) in self.hops(&layers) {
            let Some((longest, at, to)) = totals.longest else { continue };
            rows.push([
                layers.pausing(hop),
                totals.frames.to_string(),
                format!("{} of {}", totals.paused_ports, totals.ports),
                Span::from_ps(totals.paused_ps).to_string(),
                Span::from_ps(longest).to_string(),
                format!("{} by {}", topology.name(at), topology.name(to)),
            ]);
        }
        if rows.len() == 1 {
            return Ok(());
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let [hop, frames, ports, paused, most] = [0, 1, 2, 3, 4].map(width);
        for [a, b, c, d, e, at] in &rows {
            writeln!(
                text,
                "    {a:<hop$}  {b:>frames$}  {c:>ports$}  {d:>paused$}  {e:>most$}  {at}"
            )?;
        }
        Ok(())
    }

    fn hops(&self, layers: &Layers) -> BTreeMap<Hop, HopTotals> {
        hops::totals(layers, self.network.ports(self.network.now()))
    }

    /// How many times longer than alone in the network each message of a flow took: of WRITEs over RC
    /// that are posted one at a time.
    fn slowdowns(&self, flow: usize) -> Vec<f64> {
        let Some(alone) = self.alone().get(flow).copied().flatten() else { return Vec::new() };
        let latencies = self.network.flows()[flow].latencies_ps.iter();
        latencies.map(|&took| took as f64 / alone.as_ps() as f64).collect()
    }

    fn alone(&self) -> &[Option<Span>] {
        let of = |flow: &Flow| {
            let spec = &flow.spec;
            // Without an acknowledgement a message is done when it has left.
            let measured = spec.service == Service::Rc && spec.verb == Verb::Write;
            if !measured || spec.depth > 1 || flow.latencies_ps.is_empty() {
                return None;
            }
            let alone = self.network.unloaded(spec.source, spec.destination, spec.message_bytes);
            alone.filter(|alone| *alone > Span::ZERO)
        };
        self.alone.get_or_init(|| self.network.flows().iter().map(of).collect())
    }
}

/// A remedy as it is typed.
fn typed(remedy: &[String]) -> String {
    let set: Vec<String> = remedy.iter().map(|set| format!("--set '{set}'")).collect();
    set.join(" ")
}

fn write_note(text: &mut String, note: &Note) {
    *text += &wrapped("  finding      ", &format!("{}: {}", note.about, note.why), COLUMNS);
    if let Some(change) = &note.change {
        *text += &wrapped("               ", &format!("change: {change}"), COLUMNS);
    }
    for tried in &note.tried {
        *text += &wrapped("               ", &format!("tried: {tried}"), COLUMNS);
    }
    for remedy in &note.untried {
        *text += &wrapped("               ", &format!("to try: {}", typed(remedy)), COLUMNS);
    }
}

/// The smallest of `sorted` that at least `percent` of it do not exceed; `None` of nothing.
pub(crate) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// A rate in Gb/s; zero of no time.
fn gbps(bytes: u64, time: Span) -> f64 {
    if time == Span::ZERO { 0.0 } else { bytes as f64 * 8_000.0 / time.as_ps() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkConfig;
    use crate::nic::HostMemory;
    use crate::record::{Next, run};
    use crate::topology::{Cables, single_switch};
    use crate::workload::FlowSpec;
    use rdma::Rate;

    fn two_to_one() -> (Network, Verdict, Samples) {
        let cables = Cables::new(Rate::from_gbps(100), 200);
        let mut config = NetworkConfig::new(single_switch(3, cables));
        config.flows = vec![FlowSpec::write(0, 2, 1 << 20), FlowSpec::write(1, 2, 1 << 20)];
        config.switch.buffer_bytes = 2_000_000;
        let mut network = Network::new(config).unwrap();
        let end = Time::ZERO + Span::from_ms(10);
        let mut samples = Samples::new(&network, end, Some(Span::from_us(5)));
        let verdict = run(&mut network, end, Some(&mut samples), |_| Next::Run(Span::from_ms(1)));
        (network, verdict, samples)
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(
            [50, 95, 99].map(|percent| percentile(&sorted, percent)),
            [100, 190, 198].map(Some)
        );
        assert_eq!(percentile(&[7], 99), Some(7));
    }

    #[test]
    fn a_summary_says_what_happened_and_where_pauses_were() {
        let (network, verdict, _) = two_to_one();
        let summary = Report::new("two to one", &network, &verdict).summary();
        assert!(summary.starts_with("two to one (simulated)\n  finished at "), "{summary}");
        assert!(summary.contains("flows        2 (2 finished, 0 failed)\n"), "{summary}");
        assert!(summary.contains("completed    2 of 2 messages\n"), "{summary}");
        let delivered = "Gb/s: 2097152 bytes in order, in the first ";
        assert!(summary.contains(delivered), "{summary}");
        assert!(summary.contains("slowdown     p50 1.9"), "{summary}");
        assert!(summary.contains("    who pauses whom    frames   ports "), "{summary}");
        assert!(summary.contains("    ToR pauses server  "), "{summary}");
        assert!(summary.contains("  2 of 3  "), "{summary}");
        assert!(summary.contains("  finding      no ECN: no queue marks"), "{summary}");
        assert!(summary.lines().all(|line| line.len() <= COLUMNS), "{summary}");
    }

    #[test]
    fn messages_that_no_count_holds_are_added_up() {
        let mut config = NetworkConfig::new(single_switch(3, Cables::new(Rate::from_gbps(100), 2)));
        let flow = FlowSpec { messages: Some(u64::MAX), ..FlowSpec::write(0, 2, 1_000) };
        config.flows = vec![flow, FlowSpec { source: 1, ..flow }];
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_us(10));
        let summary = Report::new("many", &network, &verdict).summary();
        assert!(summary.contains(" of 36893488147419103230 messages\n"), "{summary}");
    }

    #[test]
    fn a_pause_frame_counts_once_whatever_priorities_it_stops() {
        // A NIC that has no room left stops all lossless priorities.
        let mut config = NetworkConfig::new(single_switch(2, Cables::new(Rate::from_gbps(40), 2)));
        config.nic.host_memory = Some(HostMemory { page_bytes: 4 << 10, ..HostMemory::default() });
        let flow = FlowSpec::write(0, 1, 1_024).endless();
        config.flows = vec![FlowSpec { depth: 256, spread_bytes: Some(256 << 20), ..flow }];
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_ms(2));
        let summary = Report::new("slow", &network, &verdict).summary();
        let frames = network.pause_frames();
        let stopped = network.host_pauses(1).unwrap().sent;
        assert!(stopped.iter().filter(|&&sent| sent > 0).count() > 1, "{stopped:?}");
        assert!(
            summary.contains(&format!("it sent\n               {frames} pause frames")),
            "{summary}"
        );
        let hop = summary.lines().find(|line| line.starts_with("    server pauses ToR ")).unwrap();
        assert_eq!(hop.split_whitespace().nth(3), Some(frames.to_string().as_str()), "{summary}");
    }

    #[test]
    fn tables_hold_what_the_network_counted() {
        let (network, verdict, samples) = two_to_one();
        let report = Report::new("two to one", &network, &verdict).with_samples(&samples);
        let flows = report.flows();
        assert_eq!(flows.len(), 2);
        assert!(flows.column("slowdown").unwrap().cell(0).number().is_some_and(|slow| slow > 1.5));
        let counters = report.counters().to_csv();
        assert!(counters.contains("switch,s0,h2,SAI_QUEUE_STAT_PACKETS:3,2048\n"), "{counters}");
        assert!(counters.contains("nic,h0,,sent_bytes,1048576\n"), "{counters}");
        assert!(counters.contains("switch,s0,,SAI_BUFFER_POOL_ATTR_SIZE,"), "{counters}");
        assert!(counters.contains("nic,h0,,rx_prio3_pause,"), "{counters}");
        assert!(counters.contains("nic,h0,,tx_prio3_packets,1024\n"), "{counters}");
        let sampled = report.samples().unwrap();
        let sent = sampled.column("sent_bytes").unwrap();
        let of_h0 = |row: &usize| sampled.column("node").unwrap().cell(*row) == "h0".into();
        let total: f64 =
            (0..sampled.len()).filter(of_h0).filter_map(|row| sent.cell(row).number()).sum();
        assert!(total > f64::from(1 << 20), "{total}");
    }

    #[test]
    fn only_what_is_acknowledged_has_a_slowdown() {
        let cables = Cables::new(Rate::from_gbps(100), 200);
        let mut config = NetworkConfig::new(single_switch(2, cables));
        let flow = FlowSpec::write(0, 1, 10_000);
        config.flows = vec![flow, FlowSpec { service: Service::Uc, ..flow }];
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_ms(1));
        let report = Report::new("services", &network, &verdict);
        let flows = report.flows();
        let column = |name| {
            let column = flows.column(name).unwrap();
            [0, 1].map(|row| column.cell(row))
        };
        assert_eq!(column("service"), ["rc".into(), "uc".into()]);
        let [reliable, unreliable] = column("slowdown").map(|cell| cell.number());
        assert!(reliable.is_some_and(|slowdown| slowdown >= 1.0), "{reliable:?}");
        assert_eq!(unreliable, None);
        assert_eq!(network.flows()[1].latencies_ps.len(), 1);
    }

    #[test]
    fn a_lab_is_told_with_its_factor_its_slips_and_its_programs() {
        let (network, verdict, samples) = two_to_one();
        let program = ProgramRun {
            host: "h0".to_owned(),
            process: 4711,
            command: "ib_write_bw".to_owned(),
            sent: 90,
            received: 8,
            refused: 0,
        };
        let mut lab = LabRun {
            name: "two".to_owned(),
            factor: 4.0,
            why: "as it was set".to_owned(),
            wall: core::time::Duration::from_millis(2_500),
            kept: true,
            behind: "never: it kept its factor".to_owned(),
            programs: vec![program],
            more_programs: 0,
            unclaimed: 0,
            deadlocks: Vec::new(),
        };
        let report =
            Report::new("two to one", &network, &verdict).with_samples(&samples).in_lab(&lab);
        let summary = report.summary();
        assert!(summary.starts_with("two to one (a lab run)\n  ended at "), "{summary}");
        assert!(
            summary.contains(" of the model, after 2.500 s on the wall (factor 4)\n"),
            "{summary}"
        );
        assert!(summary.contains("  time         factor 4, as it was set\n"), "{summary}");
        assert!(summary.contains("  programs     1: 90 packets sent, 8 received\n"), "{summary}");
        assert!(report.about().contains(&("origin", "lab".to_owned())));
        assert!(report.json().contains("\"factor\": 4.0"), "{}", report.json());
        let html = report.page();
        for part in
            ["(a lab run)</title>", "<strong>Lab run:</strong>", "ib_write_bw", "Pauses, spreading"]
        {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("did not keep its factor"));
        (lab.kept, lab.behind) = (false, "3 times".to_owned());
        let html = Report::new("two to one", &network, &verdict).in_lab(&lab).page();
        assert!(html.contains("did not keep its factor: it fell behind 3 times"));
    }

    #[test]
    fn the_page_of_a_run_is_the_same_each_time() {
        let page = || {
            let (network, verdict, samples) = two_to_one();
            Report::new("two to one", &network, &verdict).with_samples(&samples).page()
        };
        let html = page();
        assert!(html == page());
        for part in
            ["Pauses, spreading", "Throughput", "Slowdown of completion times", "ToR pauses server"]
        {
            assert!(html.contains(part), "{part}");
        }
    }
}
