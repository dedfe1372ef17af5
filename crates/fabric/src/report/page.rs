//! `report.html`: what happened, for somebody who was not there.

use std::collections::{BTreeMap, BTreeSet};

use rdma::{Span, Time};
use telemetry::{Block, Cell, Figure, Page, Table};

use super::hops::{Hop, Layers};
use super::tables::micros;
use super::{Report, gbps, replay};
use crate::Verdict;
use crate::limits::REPORT_QUEUES;
use crate::record::{Change, Samples};

const REST: &str = "Beside this page: `flows.parquet`, a row a flow, with what completed and what was delivered; \
    `samples.parquet`, a row for each queue and sample in which something changed; `counters.parquet`, under the \
    names of SAI for switches and of Linux for NICs. DuckDB, pandas and Spark read them: \
    `duckdb -c \"SELECT * FROM 'flows.parquet' ORDER BY slowdown DESC LIMIT 10\"`.";
const LAB_REST: &str = "Beside this page: `programs.parquet`, a row a program; `samples.parquet`, a row for each queue \
    and sample in which something changed; `counters.parquet`, under the names of SAI for switches and of Linux for \
    NICs; `flows.parquet`, of simulated hosts. DuckDB, pandas and Spark read them: \
    `duckdb -c \"SELECT * FROM 'counters.parquet' WHERE counter LIKE '%PFC%'\"`.";

impl Report<'_> {
    /// One HTML file, with everything that it needs.
    pub fn page(&self) -> String {
        let mut page = match self.lab {
            Some(_) => Page::in_lab(self.title, &self.model()),
            None => Page::simulated(self.title, &self.model()),
        };
        page.section("What happened").add(&Block::Text(&self.ending()));
        page.add(&Block::Table(&self.key_figures(), ""));
        self.add_lab(&mut page);
        let notes = self.notes();
        if !notes.is_empty() {
            page.section("Findings");
            for note in &notes {
                let change = note.change.as_ref();
                let change =
                    change.map_or_else(String::new, |change| format!(" To change it: {change}."));
                let tried = note.tried.iter().map(|tried| format!(" Tried: {tried}."));
                let untried = note.untried.iter();
                let untried = untried.map(|remedy| format!(" To try: {}.", super::typed(remedy)));
                page.add(&Block::Notice(&format!(
                    "{}: {}.{change}{}",
                    capital(&note.about),
                    note.why,
                    tried.chain(untried).collect::<String>()
                )));
            }
        }
        let layers = Layers::of(self.network.topology());
        if let Some(samples) = self.samples {
            self.add_replay(&mut page, &layers, samples);
            self.add_time(&mut page, &layers, samples);
        }
        self.add_hops(&mut page, &layers);
        self.add_jobs(&mut page);
        self.add_messages(&mut page);
        self.add_drops(&mut page);
        page.section("Where the rest is").add(&Block::Text(if self.lab.is_some() {
            LAB_REST
        } else {
            REST
        }));
        page.to_html()
    }

    /// What simulated this, and what it leaves out.
    pub(super) fn model(&self) -> String {
        let topology = self.network.topology();
        let count = |number: usize, one: &str, several: &str| {
            format!("{number} {}", if number == 1 { one } else { several })
        };
        let [hosts, switches, links] = [
            count(topology.hosts.len(), "host", "hosts"),
            count(topology.switches.len(), "switch", "switches"),
            count(topology.links.len(), "link", "links"),
        ];
        if let Some(lab) = self.lab {
            return format!(
                "real programs on {hosts}, {switches} and {links} that are modelled packet by packet, in real time \
                 diluted by factor {}; store and forward, shared-buffer switches; in every program the transport \
                 engine of Ferroce's soft NIC. Not calibrated against hardware.",
                lab.factor
            );
        }
        format!(
            "{hosts}, {switches} and {links}, packet by packet in integer picoseconds; store and \
             forward, shared-buffer switches; in every NIC the transport engine of Ferroce's soft NIC. \
             Not calibrated against hardware."
        )
    }

    fn ending(&self) -> String {
        let now = self.network.now();
        if let Some(lab) = self.lab {
            return format!("The lab {}.", self.lab_ending(lab));
        }
        match self.verdict {
            Verdict::Finished => format!("Every flow with an end had reached it at {now}."),
            Verdict::TimeOver => format!("The run stopped at {now}, when its time was over."),
            Verdict::Stalled => format!("The run stalled at {now}: nothing was left to happen."),
            Verdict::Interrupted => {
                format!("The run was interrupted at {now}; all that follows is of the time before.")
            }
            Verdict::Deadlock(_) => {
                format!("The network deadlocked; the run ended at {now}, when that was found.")
            }
        }
    }

    fn key_figures(&self) -> Table {
        let mut table = Table::new("key").texts("of_the_whole_run").texts("value");
        for (figure, value) in self.figures() {
            table.push([(&figure).into(), (&value).into()]);
        }
        table
    }

    fn add_replay(&self, page: &mut Page, layers: &Layers, samples: &Samples) {
        if samples.changes().all(|change| change.paused == Span::ZERO) {
            return;
        }
        let Some(replay) = replay::replay(self.network.topology(), layers, samples) else { return };
        page.section("Pauses, spreading").add(&Block::Text(
            "Each link has two ends; an end is coloured when it had to wait, because the other end had \
             paused it. Pauses begin where a node is full and spread to whoever sends to it. The \
             moment shown first is the one with the most pauses.",
        ));
        page.add(&Block::Replay(&replay));
    }

    // ---- over time

    /// The unit of time of all figures: a lab may live for days.
    fn clock(&self) -> Clock {
        match self.lab {
            Some(_) => Clock { unit: "s", ps: 1e12 },
            None => Clock { unit: "us", ps: 1e6 },
        }
    }

    fn add_time(&self, page: &mut Page, layers: &Layers, samples: &Samples) {
        page.section("Over time");
        let interval = samples.interval();
        let hops: Vec<Hop> = samples.ports().iter().map(|&(at, to)| layers.hop(at, to)).collect();
        let mut per_hop: BTreeMap<Hop, Vec<(u64, u64)>> = BTreeMap::new();
        let mut ports: BTreeMap<Hop, u64> = BTreeMap::new();
        for &hop in &hops {
            *ports.entry(hop).or_default() += 1;
        }
        let count = samples.times().len();
        let mut queues: BTreeMap<(u32, u8), (u32, Vec<Change>)> = BTreeMap::new();
        for change in samples.changes() {
            let of_hop =
                per_hop.entry(hops[change.port as usize]).or_insert_with(|| vec![(0, 0); count]);
            let (sent, paused) = &mut of_hop[change.sample as usize];
            *sent += change.sent_bytes;
            *paused += change.paused.as_ps();
            let (peak, changes) = queues.entry((change.port, change.queue)).or_default();
            *peak = change.queue_bytes.max(*peak);
            changes.push(change);
        }
        let clock = self.clock();
        let time = clock.column();
        let rates = throughput(layers, samples, &per_hop, clock);
        let figure = Figure::steps(&rates, time, "throughput_gbps").by("hop").title("Throughput");
        let thinned = match self.lab {
            Some(_) => {
                " A lab keeps some 500 to 1,000 samples, however long it lives: they lie farther apart then."
            }
            None => "",
        };
        let caption =
            format!("Frames sent by all ports of a hop together, over {interval} each.{thinned}");
        page.add(&Block::Figure(&figure.caption(&caption)));
        let pauses = self.paused(layers, samples, &per_hop, &ports);
        if !pauses.is_empty() {
            let figure = Figure::heat_map(&pauses, time, "hop", "paused_percent")
                .title("Part of the time paused")
                .height(34 * per_hop.len() as u32 + 30)
                .caption(
                    "The part of the time for which the ports of a hop had to wait, as a mean over \
                     its ports. A hop is named for the way of the packets.",
                );
            page.add(&Block::Figure(&figure));
        }
        let lengths = self.queues(samples, queues);
        if !lengths.is_empty() {
            let mut figure =
                Figure::steps(&lengths, time, "length_bytes").by("queue").title("Queues");
            if let Some((at, label)) = self.marking_begins() {
                figure = figure.rule(at, &label);
            }
            let caption =
                "The egress queues that were longest, looked at when each sample was taken.";
            page.add(&Block::Figure(&figure.caption(caption)));
        }
    }

    fn paused(
        &self,
        layers: &Layers,
        samples: &Samples,
        per_hop: &BTreeMap<Hop, Vec<(u64, u64)>>,
        ports: &BTreeMap<Hop, u64>,
    ) -> Table {
        /// Columns of the heat map.
        const COLUMNS: usize = 120;
        let clock = self.clock();
        let mut table = Table::new("pauses")
            .floats("time", clock.unit)
            .texts("hop")
            .floats("paused", "percent");
        if per_hop.values().flatten().all(|&(_, paused)| paused == 0) {
            return table;
        }
        let last = samples.times().len() - 1;
        let width = last.div_ceil(COLUMNS).max(1);
        // The last column may be cut short; where it ends is not drawn wider than the others.
        for (hop, values) in per_hop.iter().rev() {
            let name = layers.name(*hop);
            for first in (0..last).step_by(width) {
                let until = (first + width).min(last);
                let paused: u64 = values[first + 1..=until].iter().map(|&(_, paused)| paused).sum();
                let from = samples.times()[first];
                let whole = samples.times()[until].since(from).as_ps() * ports[hop];
                let percent = 100.0 * paused as f64 / whole.max(1) as f64;
                table.push([clock.of(from).into(), (&name).into(), percent.min(100.0).into()]);
            }
        }
        table
    }

    fn queues(&self, samples: &Samples, queues: BTreeMap<(u32, u8), (u32, Vec<Change>)>) -> Table {
        let clock = self.clock();
        let mut table = Table::new("queues")
            .floats("time", clock.unit)
            .integers("length", "bytes")
            .texts("queue");
        let mut longest: Vec<_> = queues.into_iter().filter(|(_, (peak, _))| *peak > 0).collect();
        longest.sort_by_key(|&(key, (peak, _))| (core::cmp::Reverse(peak), key));
        longest.truncate(REPORT_QUEUES);
        let topology = self.network.topology();
        for ((port, queue), (_, changes)) in longest {
            let (at, to) = samples.ports()[port as usize];
            let name = format!("{} to {}, {queue}", topology.name(at), topology.name(to));
            let mut before = 0;
            for change in changes.iter().filter(|change| {
                change.queue_bytes != core::mem::replace(&mut before, change.queue_bytes)
            }) {
                let time = clock.of(samples.times()[change.sample as usize]);
                table.push([time.into(), change.queue_bytes.into(), (&name).into()]);
            }
            let end = clock.of(self.network.now());
            table.push([end.into(), before.into(), (&name).into()]);
        }
        table
    }

    /// Lengths at which queues begin to be marked, if the switches agree.
    fn marking_begins(&self) -> Option<(f64, String)> {
        let queues = self.network.switch_configs().flat_map(|(_, config)| &config.queues);
        let lengths = queues.filter_map(|queue| Some(queue.ecn?.min_bytes));
        let lengths: BTreeSet<u32> = lengths.collect();
        let one = lengths.first().filter(|_| lengths.len() == 1)?;
        Some((f64::from(*one), "marks begin".to_owned()))
    }

    // ---- in all

    fn add_hops(&self, page: &mut Page, layers: &Layers) {
        let hops = self.hops(layers);
        if hops.values().all(|totals| totals.paused_ps == 0) {
            return;
        }
        page.section("Who paused whom");
        let topology = self.network.topology();
        let mut table = Table::new("hops")
            .texts("who")
            .integers("frames", "")
            .integers("ports", "")
            .integers("ports_paused", "")
            .floats("paused", "us")
            .texts("longest");
        let paused = hops.iter().filter(|(_, totals)| totals.frames > 0 || totals.paused_ps > 0);
        for (hop, totals) in paused {
            let name = layers.pausing(*hop);
            let longest = totals.longest.map_or_else(String::new, |(paused, at, to)| {
                let (at, to) = (topology.name(at), topology.name(to));
                format!("{at} by {to}: {}", Span::from_ps(paused))
            });
            table.push([
                (&name).into(),
                totals.frames.into(),
                totals.ports.into(),
                totals.paused_ports.into(),
                micros(totals.paused_ps).into(),
                (&longest).into(),
            ]);
        }
        // What a row says needs no bar.
        if table.len() > 1 {
            let figure = Figure::bar(&table, "paused_us", "who")
                .height(30 * table.len() as u32 + 20)
                .x_title("time paused, all paused ports together (µs)")
                .y_title("");
            page.add(&Block::Figure(&figure));
        }
        page.add(&Block::Table(&table, ""));
    }

    fn add_jobs(&self, page: &mut Page) {
        let Some(jobs) = self.jobs() else { return };
        page.section("Jobs").add(&Block::Text(
            "What ranks did together, a row for each repetition. It took from the beginning of the first \
             rank until the last was done; least is what it could not be faster than, alone in this \
             network. Held up by: on the path of the last message of the rank that was last, the link \
             that was paused for longest or, if none was, used most.",
        ));
        page.add(&Block::Table(&jobs, ""));
    }

    fn add_messages(&self, page: &mut Page) {
        let messages = self.messages();
        if messages.is_empty() {
            return;
        }
        page.section("Messages");
        let slowed = messages.column("slowdown");
        let any = |column: &telemetry::Column| {
            (0..messages.len()).any(|row| column.cell(row) != Cell::Missing)
        };
        if slowed.is_some_and(any) {
            let figure = Figure::ecdf(&messages, "slowdown")
                .by("traffic")
                .title("Slowdown of completion times")
                .x_title("times longer than alone in the network")
                .caption("Of WRITEs that were posted one at a time.");
            page.add(&Block::Figure(&figure));
        }
        let figure = Figure::ecdf(&messages, "latency_us")
            .by("traffic")
            .title("Completion times")
            .x_title("from post to completion (µs)");
        page.add(&Block::Figure(&figure));
    }

    fn add_drops(&self, page: &mut Page) {
        let mut table = Table::new("drops").texts("cause").integers("packets", "");
        for (cause, count) in self.network.drops().iter() {
            table.push([cause.text().into(), count.into()]);
        }
        if table.is_empty() {
            return;
        }
        page.section("Drops");
        if table.len() > 1 {
            let height = 30 * table.len() as u32 + 20;
            let figure = Figure::bar(&table, "packets", "cause").height(height).y_title("");
            page.add(&Block::Figure(&figure));
        }
        page.add(&Block::Table(&table, ""));
    }
}

/// A unit of time.
#[derive(Clone, Copy)]
struct Clock {
    unit: &'static str,
    ps: f64,
}

impl Clock {
    fn of(self, at: Time) -> f64 {
        at.as_ps() as f64 / self.ps
    }

    /// What a column of times is called.
    fn column(self) -> &'static str {
        if self.unit == "s" { "time_s" } else { "time_us" }
    }
}

/// What each hop sent, over time.
fn throughput(
    layers: &Layers,
    samples: &Samples,
    per_hop: &BTreeMap<Hop, Vec<(u64, u64)>>,
    clock: Clock,
) -> Table {
    let mut table = Table::new("throughput")
        .floats("time", clock.unit)
        .texts("hop")
        .floats("throughput", "gbps");
    for (hop, values) in per_hop {
        let name = layers.name(*hop);
        for (sample, &(sent, _)) in values.iter().enumerate().skip(1) {
            // The last sample may follow the one before so closely that a frame is a peak.
            if samples.span(sample as u32) * 2 < samples.interval() {
                continue;
            }
            // A rate holds from the sample before to this one.
            let from = clock.of(samples.times()[sample - 1]);
            let rate = gbps(sent, samples.span(sample as u32));
            table.push([from.into(), (&name).into(), rate.into()]);
        }
    }
    table
}

/// With a capital letter, as a sentence begins.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
