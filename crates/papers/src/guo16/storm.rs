//! 4.3, 6.2, figures 5 and 9: one NIC that pauses without end, and the watchdogs that stop it.

use fabric::Network;
use fabric::counters::Drop;
use fabric::fault::{Fault, FaultKind};
use fabric::switch::config::WatchdogConfig;
use fabric::topology::End;
use fabric::workload::Flow;
use rdma::{Span, Time};

use super::{Context, run_through, scenario};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::{Check, Error, Outcome};

const UNPROTECTED: &str = "guo16.storm.unprotected";
const NIC: &str = "guo16.storm.nic-watchdog";
const SWITCH: &str = "guo16.storm.switch-watchdog";
pub(super) const CLAIMS: &[&str] = &[UNPROTECTED, NIC, SWITCH];

/// How finely the spreading is looked at, and for how long.
const FINE: (Span, Span) = (Span::from_us(100), Span::from_ms(150));
/// How finely everything else is.
const COARSE: Span = Span::from_ms(5);
/// A message that takes longer than this between healthy servers hits the one that sent it.
const LATE: Span = Span::from_ms(5);
const REPAIRED: Time = Time::from_ps(400_000_000_000);
/// When quick runs in which nothing is repaired end.
const SHORT: Time = Time::from_ps(200_000_000_000);
/// The tail in which there must be no victims any more.
const TAIL: Span = Span::from_ms(20);

/// Directions in which pauses spread, as figure 5 has them.
const HOPS: [&str; 6] = [
    "server pauses ToR",
    "ToR pauses Leaf",
    "Leaf pauses Spine",
    "Spine pauses Leaf",
    "Leaf pauses ToR",
    "ToR pauses server",
];

struct Run {
    name: &'static str,
    servers: usize,
    /// At each step, in ms: servers hit, and pauses that servers received in it.
    hit: Vec<(f64, usize)>,
    pauses: Vec<(f64, u64)>,
    /// When a pause first crossed each of [`HOPS`], in ms after the NIC stood still.
    first: [Option<f64>; HOPS.len()],
    /// Pause frames that the NIC sent a second.
    rate: f64,
    /// Servers hit at the end of the storm, or when all watchdogs have had their time.
    at_end: usize,
    most: usize,
    /// From the standstill until no server is hit any more, in ms.
    lasted: Option<f64>,
    detected: u64,
    restored: u64,
    /// Messages to the broken server that completed while it was broken.
    to_broken: u64,
    lost_after_repair: u64,
    to_repaired: u64,
}

fn measure(
    context: &mut Context<'_>,
    name: &'static str,
    nic: bool,
    switch: bool,
    repair: bool,
) -> Result<Run, Error> {
    context.say(&format!("storm: {name}"));
    let mut scenario = scenario!(context, "storm.toml")?;
    let config = &mut scenario.network;
    let stopped = context.claim(NIC)?.value("stopped_ms");
    let restored = context.claim(SWITCH)?.value("restored_ms");
    config.nic.watchdog = nic.then(|| Span::from_ms(stopped as u64));
    config.switch.watchdog = switch.then(|| WatchdogConfig {
        restoration: Span::from_ms(restored as u64),
        ..WatchdogConfig::default()
    });
    let (mut broken, mut stuck_at) = (0, Time::ZERO);
    for fault in &config.faults {
        if let FaultKind::NicStuck { host } = fault.kind {
            (broken, stuck_at) = (host, fault.at);
        }
    }
    if repair {
        config.faults.push(Fault { at: REPAIRED, kind: FaultKind::NicRepaired { host: broken } });
    }
    let end = if repair || !context.options.quick { scenario.end } else { SHORT };
    config.flows.retain(|flow| flow.start < end);
    let servers = config.topology.hosts.len();
    let mut network = Network::new(scenario.network)?;
    let mut run = Run {
        name,
        servers,
        hit: Vec::new(),
        pauses: Vec::new(),
        first: [None; HOPS.len()],
        rate: 0.0,
        at_end: 0,
        most: 0,
        lasted: None,
        detected: 0,
        restored: 0,
        to_broken: 0,
        lost_after_repair: 0,
        to_repaired: 0,
    };
    let mut received = 0;
    let mut lost_before = 0;
    let mut now = Time::ZERO;
    let mut step_end = Time::ZERO + COARSE;
    run_through(&mut network, stuck_at);
    let before = host_pauses(&network, broken).0;
    while now < end {
        let spreading = now >= stuck_at && now < stuck_at + FINE.1;
        now = if spreading { now + FINE.0 } else { now + COARSE };
        run_through(&mut network, now);
        if spreading {
            note_first(&network, &mut run.first, now.since(stuck_at));
        }
        if now >= step_end {
            let all: u64 = (0..servers as u32).map(|host| host_pauses(&network, host).1).sum();
            run.pauses.push((ms(now), all - received));
            received = all;
            step_end = now + COARSE;
        }
        if now <= REPAIRED + Span::from_ms(restored as u64 * 3 / 2) {
            lost_before = network.drops().of(Drop::Watchdog);
        }
    }
    let seconds = end.since(stuck_at).as_ps() as f64 / 1e12;
    run.rate = (host_pauses(&network, broken).0 - before) as f64 / seconds;
    run.lost_after_repair = network.drops().of(Drop::Watchdog) - lost_before;
    for host in 0..network.topology().switches.len() as u32 {
        let of_switch = network.watchdog_counters(host).unwrap_or_default();
        run.detected += of_switch.detected;
        run.restored += of_switch.restored;
    }
    let healthy: Vec<&Flow> = network
        .flows()
        .iter()
        .filter(|flow| flow.spec.source != broken && flow.spec.destination != broken)
        .collect();
    let mut at = Time::ZERO + COARSE;
    while at <= end {
        let hit = hit_at(&healthy, at, servers);
        run.most = run.most.max(hit);
        run.hit.push((ms(at), hit));
        if hit > 0 {
            run.lasted = Some(at.since(stuck_at).as_ps() as f64 / 1e9);
        }
        at += COARSE;
    }
    let tail = TAIL.as_ps() / COARSE.as_ps();
    run.at_end = run.hit.iter().rev().take(tail as usize).map(|&(_, hit)| hit).max().unwrap_or(0);
    let finished_in = |from: Time, to: Time| {
        let done = |flow: &&Flow| {
            flow.spec.destination == broken
                && flow.finished_at.is_some_and(|at| at > from && at <= to)
        };
        network.flows().iter().filter(done).count() as u64
    };
    run.to_broken = finished_in(stuck_at + Span::from_ms(1), REPAIRED);
    run.to_repaired = if repair { finished_in(REPAIRED, end) } else { 0 };
    Ok(run)
}

fn ms(at: Time) -> f64 {
    at.as_ps() as f64 / 1e9
}

/// Pauses of the lossless priority that a host has sent and received.
fn host_pauses(network: &Network, host: u32) -> (u64, u64) {
    network.host_pauses(host).map_or((0, 0), |pauses| (pauses.sent[3], pauses.received[3]))
}

/// How many servers have a message that at `at` has been in flight for too long.
fn hit_at(flows: &[&Flow], at: Time, servers: usize) -> usize {
    let mut hit = vec![false; servers];
    for flow in flows {
        let waits = flow.spec.start + LATE < at && flow.finished_at.is_none_or(|end| end > at);
        hit[flow.spec.source as usize] |= waits;
    }
    hit.into_iter().filter(|hit| *hit).count()
}

/// Notes which hops have been crossed by a pause.
fn note_first(network: &Network, first: &mut [Option<f64>; HOPS.len()], since: Span) {
    let topology = network.topology();
    let mut note = |hop: usize| {
        first[hop].get_or_insert(since.as_ps() as f64 / 1e9);
    };
    for (index, switch) in topology.switches.iter().enumerate() {
        for (neighbour, counters) in network.switch_counters(index as u32) {
            // A port that has been paused was paused by its neighbour.
            if counters.pause.received[3] == 0 {
                continue;
            }
            let by = match neighbour {
                End::Host(_) => None,
                End::Switch(by) => Some(topology.switches[by as usize].tier),
            };
            match (by, switch.tier) {
                (None, _) => note(0),
                (Some(0), _) => note(1),
                (Some(1), 2) => note(2),
                (Some(2), _) => note(3),
                (Some(1), 0) => note(4),
                _ => {}
            }
        }
    }
    for host in 0..topology.hosts.len() as u32 {
        if host_pauses(network, host).1 > 0 {
            note(5);
        }
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let none = measure(context, "none", false, false, false)?;
    let nic = measure(context, "NIC watchdog", true, false, false)?;
    let switch = measure(context, "switch watchdog", false, true, true)?;
    let both = measure(context, "both", true, true, false)?;

    let runs = [&none, &nic, &switch, &both];
    let mut victims = Figure::new(
        "guo16-figure-9a",
        "Figure 9(a): servers that the storm of one NIC hits",
        Mark::Line,
    )
    .axes(("time", "ms"), ("servers_hit", ""))
    .caption(
        "A server is hit while one of its messages to a healthy server is late by 5 ms. With both \
         watchdogs that of the NIC acts first: the two lines are one.",
    );
    let mut pauses = Figure::new(
        "guo16-figure-9b",
        "Figure 9(b): pause frames that servers receive",
        Mark::Line,
    )
    .axes(("time", "ms"), ("pause_frames_per_5_ms", ""));
    for run in runs {
        for &(at, hit) in &run.hit {
            victims.point(run.name, at, hit as f64);
        }
        for &(at, count) in &run.pauses {
            pauses.point(run.name, at, count as f64);
        }
    }
    let half = none.servers as f64 / 2.0;
    victims.reference("paper: half of the servers", half);
    let mut spread = Figure::new(
        "guo16-figure-5",
        "Figure 5: when the pause of one NIC first crosses each hop",
        Mark::Bar,
    )
    .axes(("hop", ""), ("after_the_standstill", "ms"));
    for (hop, at) in HOPS.iter().zip(none.first) {
        spread.point("first pause", *hop, at.unwrap_or(f64::NAN));
    }
    let hops: Vec<String> = HOPS
        .iter()
        .zip(none.first)
        .map(|(hop, at)| format!("{hop} {}", at.map_or_else(|| "never".to_owned(), short)))
        .collect();
    let in_order = none.first.iter().all(Option::is_some) && none.first.is_sorted_by(|a, b| a <= b);
    let shape = format!(
        "three-tier Clos of {} servers, 350 Mb/s each, one NIC stands still at 20 ms",
        none.servers
    );
    let scale = Some(format!("{} servers", none.servers));
    let unprotected = context.claim(UNPROTECTED)?;
    let most = none.most as f64;
    let first = Outcome {
        ran: shape.clone(),
        scale: scale.clone(),
        measured: format!(
            "{} of {} servers hit, to the end; first pauses, ms after the standstill: {}; the NIC \
             sends {} pauses a second",
            none.at_end,
            none.servers,
            hops.join(", "),
            short(none.rate)
        ),
        checks: vec![
            Check::event("pauses spread in the order of figure 5", in_order),
            Check::order(
                ("pauses a second of the incident", unprotected.value("pauses_per_second")),
                ("of the NIC", none.rate),
                "frames",
            ),
            Check::event("at least half of the servers are hit", most >= half),
            Check::event("they stay so", none.at_end as f64 >= half),
        ],
        figures: vec![victims, pauses, spread],
        claim: unprotected,
    };
    let lasted = |run: &Run| run.lasted.map_or_else(|| "never".to_owned(), short);
    let hundreds = |run: &Run| {
        let lasted = run.lasted.unwrap_or(f64::NAN);
        Check::event(
            format!("{}: the damage ends within hundreds of ms", run.name),
            run.at_end == 0 && lasted < 1_000.0,
        )
    };
    let second = Outcome {
        claim: context.claim(NIC)?,
        ran: format!("{shape}; the NIC may pause no more after 100 ms"),
        scale: scale.clone(),
        measured: format!(
            "last victim {} ms after the standstill, {} at the end; {} messages to the broken \
             server complete",
            lasted(&nic),
            nic.at_end,
            nic.to_broken
        ),
        checks: vec![
            hundreds(&nic),
            Check::event("the broken server stays unreachable", nic.to_broken == 0),
        ],
        figures: Vec::new(),
    };
    let third = Outcome {
        claim: context.claim(SWITCH)?,
        ran: format!("{shape}; switch watchdog of 200 ms, the server repaired at 400 ms; and both"),
        scale,
        measured: format!(
            "last victim {} ms after the standstill (with both {}); {} port lost its lossless mode \
             and {} got it back; then {} packets lost and {} messages to the server complete",
            lasted(&switch),
            lasted(&both),
            switch.detected,
            switch.restored,
            switch.lost_after_repair,
            switch.to_repaired
        ),
        checks: vec![
            hundreds(&switch),
            Check::event(
                "the port of the repaired server is lossless again",
                switch.detected == 1 && switch.restored == 1 && switch.lost_after_repair == 0,
            ),
            Check::event("the repaired server is reached", switch.to_repaired > 0),
            hundreds(&both),
        ],
        figures: Vec::new(),
    };
    Ok(vec![first, second, third])
}
