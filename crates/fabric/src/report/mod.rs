//! What a run is told in: a summary for the terminal, and tables as CSV.

use core::fmt::Write as _;

use rdma::{Span, Time};

use crate::counters::PauseCounters;
use crate::topology::End;
use crate::{Network, Verdict};

/// A network that has run, and how that ended.
#[derive(Debug)]
pub struct Report<'a> {
    title: &'a str,
    network: &'a Network,
    verdict: &'a Verdict,
}

impl<'a> Report<'a> {
    /// A report of `network`, whose run ended with `verdict`.
    pub fn new(title: &'a str, network: &'a Network, verdict: &'a Verdict) -> Self {
        Self { title, network, verdict }
    }

    /// What matters, in lines for a terminal. Every number is of simulated time.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_summary(&mut text);
        text
    }

    fn write_summary(&self, text: &mut String) -> core::fmt::Result {
        let network = self.network;
        writeln!(text, "{} (simulated)", self.title)?;
        let now = network.now();
        match self.verdict {
            Verdict::Finished => writeln!(text, "  finished at {now}")?,
            Verdict::TimeOver => writeln!(text, "  stopped at {now}: the time was over")?,
            Verdict::Interrupted => {
                writeln!(text, "  INTERRUPTED at {now}: what follows is of the run up to there")?;
            }
            Verdict::Stalled => writeln!(text, "  stalled at {now}: nothing is left to happen")?,
            Verdict::Deadlock(cycle) => {
                writeln!(text, "  DEADLOCK at {now}: these queues wait for each other")?;
                for (at, to, queue) in &cycle.queues {
                    writeln!(text, "    {at} port to {to}, queue {queue}")?;
                }
            }
        }
        self.write_flows(text, now)?;
        self.write_network(text)
    }

    fn write_flows(&self, text: &mut String, now: Time) -> core::fmt::Result {
        let flows = self.network.flows();
        let over = flows.iter().filter(|flow| flow.is_over() && flow.failed == 0).count();
        let failed = flows.iter().filter(|flow| flow.failed > 0).count();
        let messages: u64 = flows.iter().map(|flow| flow.completed).sum();
        let bytes: u64 = flows.iter().map(crate::workload::Flow::bytes).sum();
        let first = flows.iter().map(|flow| flow.spec.start).min().unwrap_or(Time::ZERO);
        writeln!(
            text,
            "  flows        {} ({over} finished, {failed} failed), {messages} messages",
            flows.len()
        )?;
        writeln!(text, "  goodput      {}", gbps(bytes, now.since(first)))?;
        let mut latencies: Vec<u64> =
            flows.iter().flat_map(|flow| flow.latencies_ps.iter().copied()).collect();
        latencies.sort_unstable();
        if !latencies.is_empty() {
            let [p50, p95, p99] =
                [50, 95, 99].map(|percent| Span::from_ps(percentile(&latencies, percent)));
            writeln!(text, "  completion   p50 {p50}, p95 {p95}, p99 {p99}")?;
        }
        let mut slowdowns = self.slowdowns();
        slowdowns.sort_by(f64::total_cmp);
        if !slowdowns.is_empty() {
            let at = |percent: usize| slowdowns[(slowdowns.len() - 1) * percent / 100];
            let [p50, p95, p99] = [at(50), at(95), at(99)];
            writeln!(text, "  slowdown     p50 {p50:.2}, p95 {p95:.2}, p99 {p99:.2}")?;
        }
        Ok(())
    }

    /// How many times longer than alone in the network the single WRITE of each flow took.
    fn slowdowns(&self) -> Vec<f64> {
        let single = |flow: &&crate::workload::Flow| {
            flow.spec.messages == Some(1)
                && flow.spec.verb == crate::workload::Verb::Write
                && flow.completed == 1
        };
        let flows = self.network.flows().iter().filter(single);
        flows
            .filter_map(|flow| {
                let spec = &flow.spec;
                let alone =
                    self.network.unloaded(spec.source, spec.destination, spec.message_bytes)?;
                let took = *flow.latencies_ps.first()?;
                (alone > Span::ZERO).then(|| took as f64 / alone.as_ps() as f64)
            })
            .collect()
    }

    fn write_network(&self, text: &mut String) -> core::fmt::Result {
        let network = self.network;
        let drops = network.drops();
        write!(text, "  drops        {}", drops.total())?;
        for (cause, count) in drops.iter() {
            write!(text, "\n    {count:>10} {cause}")?;
        }
        writeln!(text)?;
        let mut marked = 0;
        let mut paused: Vec<(u64, String)> = Vec::new();
        for switch in 0..network.topology().switches.len() as u32 {
            let at = network.topology().name(End::Switch(switch)).to_owned();
            for (to, counters) in network.switch_counters(switch) {
                marked += counters.queue_marked.iter().sum::<u64>();
                let to = network.topology().name(to);
                paused.push((longest(&counters.pause), format!("{at} port to {to}")));
            }
        }
        for host in 0..network.topology().hosts.len() as u32 {
            if let Some(pauses) = network.host_pauses(host) {
                let name = network.topology().name(End::Host(host)).to_owned();
                paused.push((longest(&pauses), name));
            }
        }
        let (mut again, mut timeouts, mut notified) = (0, 0, 0);
        for host in 0..network.topology().hosts.len() as u32 {
            for stats in network.host_stats(host) {
                again += stats.retransmitted_pkts;
                timeouts += stats.local_ack_timeout_err;
                notified += stats.np_cnp_sent;
            }
        }
        writeln!(text, "  again        {again} packets, {timeouts} timeouts")?;
        writeln!(text, "  ECN          {marked} marks, {notified} CNPs")?;
        writeln!(text, "  pauses       {} frames", network.pause_frames())?;
        paused.retain(|(time, _)| *time > 0);
        paused.sort_by(|a, b| b.cmp(a));
        for (time, name) in paused.iter().take(5) {
            writeln!(text, "    {} {name}", Span::from_ps(*time))?;
        }
        let hops = network.link_hops();
        writeln!(text, "  simulated    {hops} link-hops, {} events", network.events())
    }

    /// Every flow, a line each.
    pub fn flows_csv(&self) -> String {
        let mut text = String::from(
            "flow,source,destination,message_bytes,posted,completed,failed,start_ps,finished_ps\n",
        );
        let topology = self.network.topology();
        for (index, flow) in self.network.flows().iter().enumerate() {
            let spec = &flow.spec;
            let finished = flow.finished_at.map_or_else(String::new, |at| at.as_ps().to_string());
            let _ = writeln!(
                text,
                "{index},{},{},{},{},{},{},{},{finished}",
                topology.name(End::Host(spec.source)),
                topology.name(End::Host(spec.destination)),
                spec.message_bytes,
                flow.posted,
                flow.completed,
                flow.failed,
                spec.start.as_ps(),
            );
        }
        text
    }

    /// Every counter of every switch port that is not zero, a line each, under the names of SAI.
    pub fn counters_csv(&self) -> String {
        let mut text = String::from("switch,neighbour,counter,value\n");
        let topology = self.network.topology();
        for switch in 0..topology.switches.len() as u32 {
            let name = topology.name(End::Switch(switch));
            for (neighbour, counters) in self.network.switch_counters(switch) {
                let to = topology.name(neighbour);
                for (counter, value) in counters.named().iter().filter(|(_, value)| *value > 0) {
                    let _ = writeln!(text, "{name},{to},{counter},{value}");
                }
            }
        }
        text
    }
}

/// The time that the priority which was paused longest was paused.
fn longest(pauses: &PauseCounters) -> u64 {
    pauses.paused_ps.iter().copied().max().unwrap_or(0)
}

/// The smallest of `sorted` that at least `percent` of it do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank.min(sorted.len()) - 1]
}

fn gbps(bytes: u64, time: Span) -> String {
    if time == Span::ZERO {
        return "none".to_owned();
    }
    let rate = u128::from(bytes) * 8 * 1_000_000 / u128::from(time.as_ps());
    format!("{}.{:03} Gb/s", rate / 1_000, rate % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkConfig;
    use crate::topology::{Cables, single_switch};
    use crate::workload::FlowSpec;
    use rdma::Rate;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!([50, 95, 99].map(|percent| percentile(&sorted, percent)), [100, 190, 198]);
        assert_eq!(percentile(&[7], 99), 7);
    }

    #[test]
    fn a_report_says_what_happened() {
        let cables = Cables::new(Rate::from_gbps(100), 200);
        let mut config = NetworkConfig::new(single_switch(3, cables));
        config.flows = vec![FlowSpec::write(0, 2, 1 << 20), FlowSpec::write(1, 2, 1 << 20)];
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_ms(10));
        let report = Report::new("two to one", &network, &verdict);
        let summary = report.summary();
        assert!(summary.starts_with("two to one (simulated)\n  finished at "), "{summary}");
        assert!(summary.contains("flows        2 (2 finished, 0 failed), 2 messages"), "{summary}");
        assert!(summary.contains("slowdown     p50 1.9"), "{summary}");
        assert_eq!(report.flows_csv().lines().count(), 3);
        let counters = report.counters_csv();
        assert!(counters.contains("s0,h2,SAI_QUEUE_STAT_PACKETS:3,2048\n"), "{counters}");
    }
}
