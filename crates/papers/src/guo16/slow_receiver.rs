//! 4.4: a NIC that looks up addresses in its server's memory, and a switch that compensates for it.

use fabric::Network;
use fabric::switch::config::Threshold;
use fabric::topology::End;
use fabric::workload::FlowSpec;
use rdma::{Span, Time};

use super::{Context, run_through, scenario};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::{Check, Error, Outcome};

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

fn written(context: &Context<'_>, page_bytes: u64, megabytes: u64) -> Result<Written, Error> {
    let mut scenario = scenario!(context, "slow-receiver.toml")?;
    let config = &mut scenario.network;
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
    let mut last = Vec::new();
    for (page_bytes, name) in PAGES {
        context.say(&format!("slow receiver: {name}"));
        for megabytes in SPREADS {
            let run = written(context, page_bytes, megabytes)?;
            figure.point(name, format!("{megabytes} MB").as_str(), run.pauses);
            if Some(&megabytes) == SPREADS.last() {
                last.push(run);
            }
        }
    }
    let (small, large) = (&last[0], &last[1]);
    Ok(Outcome {
        claim: context.claim(MTT)?,
        ran: "40 GbE, PCIe Gen3 x8, 2K translations, WRITEs of 1 KB all over 1 GB".to_owned(),
        scale: None,
        measured: format!(
            "4 KB: {} pause frames a second, {} % of translations miss, {} Gb/s; 2 MB: {}, {} %, {} \
             Gb/s; {} packets dropped",
            short(small.pauses),
            short(small.missed),
            short(small.gbps),
            short(large.pauses),
            short(large.missed),
            short(large.gbps),
            small.drops + large.drops
        ),
        checks: vec![
            Check::order(("a thousand", 1_000.0), ("pauses at 4 KB", small.pauses), "a second"),
            Check::order(
                ("a tenth of them, 2 MB", 10.0 * large.pauses),
                ("4 KB", small.pauses),
                "",
            ),
        ],
        figures: vec![figure],
    })
}

struct Shared {
    /// Pauses of the slow server, of its ToR to the spine, and of the others to their servers.
    of_server: u64,
    upstream: u64,
    to_servers: u64,
    /// What the flow beside the bursts gets, and how long the bursts take in all.
    beside: f64,
    bursts: f64,
    drops: u64,
}

/// Bursts of eight servers to one that is slow, and a flow beside them to its neighbour.
fn shared(context: &Context<'_>, threshold: Threshold) -> Result<Shared, Error> {
    let mut scenario = scenario!(context, "slow-receiver-tor.toml")?;
    let config = &mut scenario.network;
    let rack = config.topology.hosts.len() as u32 / 2;
    // Its own ToR alone, the first switch: the others share as they always do.
    let mut tor = config.switch.clone();
    for group in tor.groups.iter_mut().filter(|group| group.lossless) {
        group.threshold = threshold;
    }
    config.switches.insert(0, tor);
    let bursts = 30;
    for burst in 0..bursts {
        for from in rack..rack + 8 {
            config.flows.push(FlowSpec {
                messages: Some(60),
                depth: 60,
                start: Time::ZERO + Span::from_ms(1) * burst,
                spread_bytes: Some(1 << 30),
                ..FlowSpec::write(from, 0, 1_024)
            });
        }
    }
    let count = config.flows.len();
    config.flows.push(FlowSpec::write(rack + 8, 1, 1 << 20).endless());
    let mut network = Network::new(scenario.network)?;
    run_through(&mut network, scenario.end);
    let time = network.now();
    let flows = network.flows();
    let took: Vec<f64> = flows[..count]
        .iter()
        .filter_map(|flow| Some(flow.completion_time()?.as_ps() as f64 / 1e6))
        .collect();
    let upstream = network.switch_counters(0);
    let of_others: u64 = (rack..rack + 9)
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
        beside: flows[count].bytes() as f64 * 8.0 / (time.as_ps() as f64 / 1e12) / 1e9,
        bursts: crate::stats::mean(&took),
        drops: network.drops().total(),
    })
}

fn buffers(context: &mut Context<'_>) -> Result<Outcome, Error> {
    // What each lossless group of a ToR of 24 servers and 4 uplinks gets if all get the same of what
    // 9 MB have beside headroom: about 9 MB less 28 x 2 x 23 KB, by 56.
    let fixed = Threshold::Static { bytes: 137_000 };
    context.say("slow receiver: static buffers");
    let fixed = shared(context, fixed)?;
    context.say("slow receiver: dynamic buffers");
    let dynamic = shared(context, Threshold::Dynamic { exponent: -4 })?;
    let mut figure = Figure::new(
        "guo16-slow-receiver-buffers",
        "A slow receiver under a ToR: pauses passed on, by how the buffer is shared",
        Mark::Bar,
    )
    .axes(("pause_frames", ""), ("frames", ""));
    for (name, run) in [("static", &fixed), ("dynamic", &dynamic)] {
        figure.point(name, "by the slow server", run.of_server as f64);
        figure.point(name, "by its ToR, upstream", run.upstream as f64);
        figure.point(name, "to senders", run.to_servers as f64);
    }
    Ok(Outcome {
        claim: context.claim(BUFFERS)?,
        ran: "bursts of 480 KB a ms from eight servers to one with 4 KB pages, a flow beside them to \
              its neighbour; each lossless group of the ToR has 137 KB, or alpha 1/16 of what is free"
            .to_owned(),
        scale: Some("two racks".to_owned()),
        measured: format!(
            "static: the server pauses {} times, its ToR {} times upstream, senders get {}, the flow \
             beside {} Gb/s, a burst takes {} us; dynamic: {}, {}, {}, {} Gb/s, {} us; {} packets \
             dropped",
            fixed.of_server,
            fixed.upstream,
            fixed.to_servers,
            short(fixed.beside),
            short(fixed.bursts),
            dynamic.of_server,
            dynamic.upstream,
            dynamic.to_servers,
            short(dynamic.beside),
            short(dynamic.bursts),
            fixed.drops + dynamic.drops,
        ),
        checks: vec![
            Check::event("the server pauses its ToR in both", {
                fixed.of_server > 0 && dynamic.of_server > 0
            }),
            Check::order(
                ("pauses upstream, dynamic", dynamic.upstream as f64),
                ("static", fixed.upstream as f64),
                "",
            ),
            Check::order(
                ("the flow beside, static", fixed.beside),
                ("dynamic", dynamic.beside),
                "Gb/s",
            ),
        ],
        figures: vec![figure],
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![mtt(context)?, buffers(context)?])
}
