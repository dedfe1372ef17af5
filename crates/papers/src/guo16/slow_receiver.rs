//! 4.4: a NIC that looks up addresses in its server's memory, and a switch that compensates for it.

use fabric::Network;
use fabric::random::Random;
use fabric::switch::config::Threshold;
use fabric::topology::End;
use fabric::workload::FlowSpec;
use rdma::{Span, Time};

use super::{jitter, run_through, scenario};
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const MTT: &str = "guo16.slow-receiver.mtt";
const BUFFERS: &str = "guo16.slow-receiver.dynamic-buffers";
pub(super) const CLAIMS: &[&str] = &[MTT, BUFFERS];

/// Sizes of pages that are compared.
const PAGES: [(u64, &str); 2] = [(4 << 10, "pages of 4 KB"), (2 << 20, "pages of 2 MB")];
/// How much memory is written to, in MB.
const SPREADS: [u64; 8] = [4, 8, 12, 16, 32, 64, 256, 1_024];
/// Pauses are counted once the caches are warm.
const WARM: Time = Time::from_ps(5_000_000_000);

struct Written {
    /// Pause frames of the server a second.
    pauses: f64,
    /// Translations that were missing, of those looked for, in per cent.
    missed: f64,
    gbps: f64,
    drops: u64,
}

fn written(options: Options, page_bytes: u64, megabytes: u64) -> Result<Written, Error> {
    let mut scenario = scenario!(options, "slow-receiver.toml")?;
    let config = &mut scenario.network;
    jitter(config, JITTER);
    if let Some(memory) = &mut config.nic.host_memory {
        memory.page_bytes = page_bytes;
    }
    config.flows[0].spread_bytes = Some(megabytes << 20);
    let mut network = Network::new(scenario.network)?;
    let sent = |network: &Network| network.host_pauses(1).map_or(0, |pauses| pauses.sent[3]);
    network.run(WARM);
    let caches = network.host_caches(1).unwrap_or_default();
    let (pauses, bytes) = (sent(&network), network.delivered()[0].bytes());
    network.run(scenario.end);
    let seconds = scenario.end.since(WARM).as_ps() as f64 / 1e12;
    let after = network.host_caches(1).unwrap_or_default();
    Ok(Written {
        pauses: (sent(&network) - pauses) as f64 / seconds,
        missed: (after.mtt_misses - caches.mtt_misses) as f64
            / (after.mtt_lookups - caches.mtt_lookups) as f64
            * 100.0,
        gbps: (network.delivered()[0].bytes() - bytes) as f64 * 8.0 / seconds / 1e9,
        drops: network.drops().total(),
    })
}

fn mtt(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let mut figure = Figure::new(
        "guo16-slow-receiver",
        "Pause frames of a server that is written to at 40 Gb/s, by how much memory that is",
        Mark::Line,
    )
    .axes(("memory", ""), ("pause_frames_per_second", ""))
    .caption("2K translations cover 8 MB of pages of 4 KB, and 4 GB of pages of 2 MB.");
    let mut ends = Vec::new();
    for (page_bytes, name) in PAGES {
        let draws = seeds(context.options);
        context.say(&format!("slow receiver: {name}, {} draws", draws.len()));
        for megabytes in SPREADS {
            let runs = each(&draws, |options| written(options, page_bytes, megabytes))?;
            let pauses = Spread::of(&runs, |run| run.pauses).median();
            figure.point(name, format!("{megabytes} MB").as_str(), pauses);
            if [SPREADS[0], SPREADS[SPREADS.len() - 1]].contains(&megabytes) {
                ends.push(runs);
            }
        }
    }
    let [covered, small, _, large] = &ends[..] else {
        return Err(Error::Claims("two page sizes have two ends each".to_owned()));
    };
    let of = |runs: &[Written], value: fn(&Written) -> f64| Spread::of(runs, value);
    let pauses = |runs| of(runs, |run| run.pauses);
    Ok(Outcome {
        claim: context.claim(MTT)?,
        ran: format!(
            "40 GbE, PCIe Gen3 x8, 2K translations, WRITEs of 1 KB all over 1 GB; the median of {} draws \
             of places and starts, and between what",
            small.len()
        ),
        scale: None,
        measured: format!(
            "4 KB: {} pause frames a second, {} % of translations miss, {} Gb/s; 2 MB: {}, {} %, {} \
             Gb/s; 4 KB over no more than they cover, 4 MB: {}, {} %; {} packets dropped",
            pauses(small),
            of(small, |run| run.missed),
            of(small, |run| run.gbps),
            pauses(large),
            of(large, |run| run.missed),
            of(large, |run| run.gbps),
            pauses(covered),
            of(covered, |run| run.missed),
            ends.iter().flatten().map(|run| run.drops).sum::<u64>()
        ),
        checks: vec![
            Check::order(
                ("a thousand", 1_000.0),
                ("pauses at 4 KB, at least", pauses(small).least()),
                "a second",
            ),
            Check::order(
                ("pauses at 2 MB, at most", pauses(large).most()),
                ("at 4 KB, at least", pauses(small).least()),
                "a second",
            ),
            Check::order(
                ("pauses at 4 KB over 4 MB, at most", pauses(covered).most()),
                ("over 1 GB, at least", pauses(small).least()),
                "a second",
            ),
        ],
        figures: vec![figure],
    })
}

/// What is measured from the beginning to the end of the scenario, in every row.
struct Shared {
    /// Pauses of the slow server, of its ToR to the spine, and of the others to their servers.
    of_server: u64,
    upstream: u64,
    to_servers: u64,
    /// What the flow beside the bursts gets, in Gb/s.
    beside: f64,
    /// How long a burst takes of a sender, in us, and how many are not over.
    bursts: f64,
    unfinished: usize,
    drops: u64,
}

/// Senders of a burst, from the other rack.
const SENDERS: u32 = 8;
/// Messages of 1 KB of each sender in a burst: 480 KB to 1.3 MB in all.
const MESSAGES: [u32; 6] = [60, 80, 100, 120, 140, 160];
/// From one burst to the next, and how many there are.
const BURSTS: (Span, u64) = (Span::from_ms(1), 30);
/// Within which the senders of a burst begin.
const JITTER: Span = Span::from_us(10);

/// What a burst has of bytes, in KB.
fn kilobytes(messages: u32) -> f64 {
    f64::from(SENDERS * messages) * 1.024
}

/// Bursts of eight servers to one whose NIC has pages of `page_bytes`, and a flow beside them to its
/// neighbour.
fn shared(
    options: Options,
    threshold: Threshold,
    messages: u32,
    page_bytes: u64,
) -> Result<Shared, Error> {
    let mut scenario = scenario!(options, "slow-receiver-tor.toml")?;
    let config = &mut scenario.network;
    if let Some(memory) = &mut config.nic.host_memory {
        memory.page_bytes = page_bytes;
    }
    let rack = config.topology.hosts.len() as u32 / 2;
    // Its own ToR alone, the first switch: the others share as they always do.
    let mut tor = config.switch.clone();
    for group in tor.groups.iter_mut().filter(|group| group.lossless) {
        group.threshold = threshold;
    }
    config.switches.insert(0, tor);
    let mut random = Random::new(options.seed);
    for burst in 0..BURSTS.1 {
        for from in rack..rack + SENDERS {
            let jitter = Span::from_ps(random.below(JITTER.as_ps()));
            config.flows.push(FlowSpec {
                messages: Some(u64::from(messages)),
                depth: messages,
                start: Time::ZERO + BURSTS.0 * burst + jitter,
                spread_bytes: Some(1 << 30),
                ..FlowSpec::write(from, 0, 1_024)
            });
        }
    }
    let count = config.flows.len();
    config.flows.push(FlowSpec::write(rack + SENDERS, 1, 1 << 20).endless());
    // A flow that begins after the end keeps the clock running when the bursts are over.
    let later = scenario.end + Span::from_ms(1);
    config.flows.push(FlowSpec { start: later, ..FlowSpec::write(rack, 1, 1) });
    let mut network = Network::new(scenario.network)?;
    run_through(&mut network, scenario.end);
    let window = network.now().since(Time::ZERO);
    let flows = network.flows();
    let took: Vec<f64> = flows[..count]
        .iter()
        .filter_map(|flow| Some(flow.completion_time()?.as_ps() as f64 / 1e6))
        .collect();
    let upstream = network.switch_counters(0);
    let of_others: u64 = (rack..=rack + SENDERS)
        .map(|host| network.host_pauses(host).map_or(0, |pauses| pauses.received[3]))
        .sum();
    Ok(Shared {
        of_server: network.host_pauses(0).map_or(0, |pauses| pauses.sent[3]),
        upstream: upstream
            .iter()
            .filter(|(end, _)| matches!(end, End::Switch(_)))
            .map(|(_, of)| of.pause.sent[3])
            .sum(),
        to_servers: of_others,
        beside: network.delivered()[count].bytes() as f64 * 8_000.0 / window.as_ps() as f64,
        bursts: crate::stats::mean(&took),
        unfinished: count - took.len(),
        drops: network.drops().total(),
    })
}

/// A way to share the buffer, by the length of bursts.
struct Row {
    name: &'static str,
    /// By [`MESSAGES`]: each draw.
    runs: Vec<Vec<Shared>>,
}

impl Row {
    fn measure(
        context: &mut Context<'_>,
        name: &'static str,
        threshold: Threshold,
        page_bytes: u64,
    ) -> Result<Self, Error> {
        let draws = seeds(context.options);
        context.say(&format!("slow receiver: {name}, {} draws", draws.len()));
        let of = |&messages: &u32| {
            each(&draws, |options| shared(options, threshold, messages, page_bytes))
        };
        Ok(Self { name, runs: MESSAGES.iter().map(of).collect::<Result<_, _>>()? })
    }

    /// By the length of bursts.
    fn spreads(&self, value: fn(&Shared) -> f64) -> Vec<Spread> {
        self.runs.iter().map(|runs| Spread::of(runs, value)).collect()
    }

    /// The same in words.
    fn text(&self, value: fn(&Shared) -> f64) -> String {
        let spreads = self.spreads(value);
        spreads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The sum of the medians over all lengths of bursts.
    fn sum(&self, value: fn(&Shared) -> f64) -> f64 {
        self.spreads(value).iter().map(Spread::median).sum()
    }

    fn all(&self, so: fn(&Shared) -> bool) -> bool {
        self.runs.iter().flatten().all(so)
    }
}

fn buffers(context: &mut Context<'_>) -> Result<Outcome, Error> {
    // What each lossless group of a ToR of 24 servers and 4 uplinks gets if all get the same of what
    // 9 MB have beside headroom: about 9 MB less 28 x 2 x 23 KB, by 56.
    let fixed = Threshold::Static { bytes: 137_000 };
    let dynamic = Threshold::Dynamic { exponent: -4 };
    let (slow, fast) = (PAGES[0].0, PAGES[1].0);
    let control = Row::measure(context, "static, a fast server", fixed, fast)?;
    let fixed = Row::measure(context, "static", fixed, slow)?;
    let dynamic = Row::measure(context, "dynamic", dynamic, slow)?;
    let mut figure = Figure::new(
        "guo16-slow-receiver-buffers",
        "A slow receiver under a ToR: pauses passed upstream, by burst and by how the buffer is shared",
        Mark::Line,
    )
    .axes(("burst", "kB"), ("pause_frames_upstream", ""))
    .caption("The median of all draws.");
    for row in [&fixed, &dynamic, &control] {
        for (messages, spread) in MESSAGES.iter().zip(row.spreads(|run| run.upstream as f64)) {
            figure.point(row.name, kilobytes(*messages), spread.median());
        }
    }
    let told = |row: &Row| {
        format!(
            "{}: the ToR pauses {} times upstream, senders get {}, the flow beside {} Gb/s, a burst \
             takes {} us",
            row.name,
            row.text(|run| run.upstream as f64),
            row.text(|run| run.to_servers as f64),
            row.text(|run| run.beside),
            row.text(|run| run.bursts),
        )
    };
    let upstream = |row: &Row| row.sum(|run| run.upstream as f64);
    let lengths: Vec<String> =
        MESSAGES.iter().map(|&messages| format!("{:.0}", kilobytes(messages))).collect();
    let rows = [&control, &fixed, &dynamic];
    let runs = || rows.iter().flat_map(|row| row.runs.iter().flatten());
    let drops: u64 = runs().map(|run| run.drops).sum();
    let unfinished: usize = runs().map(|run| run.unfinished).sum();
    Ok(Outcome {
        claim: context.claim(BUFFERS)?,
        ran: format!(
            "bursts of {} KB a ms from eight servers to one with 4 KB pages, a flow beside them to its \
             neighbour, 40 ms in every row; each lossless group of the ToR has 137 KB, or alpha \
             1/16 of what is free; medians of {} draws of memory and moments, and between what",
            lengths.join(", "),
            seeds(context.options).len(),
        ),
        scale: Some("two racks".to_owned()),
        measured: format!(
            "{}; {}; {}; {unfinished} bursts not over, {drops} packets dropped",
            told(&fixed),
            told(&dynamic),
            told(&control)
        ),
        checks: vec![
            Check::event("the slow server pauses its ToR in every run", {
                fixed.all(|run| run.of_server > 0) && dynamic.all(|run| run.of_server > 0)
            }),
            Check::order(
                ("pauses upstream over all lengths, static and a fast server", upstream(&control)),
                ("a slow one", upstream(&fixed)),
                "",
            ),
            Check::order(
                ("pauses upstream over all lengths, dynamic", upstream(&dynamic)),
                ("static", upstream(&fixed)),
                "",
            ),
            Check::order(
                ("the flow beside over all lengths, static", fixed.sum(|run| run.beside)),
                ("dynamic", dynamic.sum(|run| run.beside)),
                "Gb/s",
            ),
        ],
        figures: vec![figure],
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![mtt(context)?, buffers(context)?])
}
