//! 4.3, 6.2, figures 5 and 9: one NIC that pauses without end, and the watchdogs that stop it.

use fabric::Network;
use fabric::counters::Drop;
use fabric::fault::{Fault, FaultKind};
use fabric::switch::config::WatchdogConfig;
use fabric::topology::End;
use fabric::workload::Flow;
use rdma::{Span, Time};

use super::{run_through, scenario};
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

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

/// Which watchdogs there are, with the times of the paper, and whether the server is repaired.
#[derive(Clone, Copy, Debug)]
struct Setting {
    name: &'static str,
    nic: Option<Span>,
    switch: Option<WatchdogConfig>,
    repair: bool,
}

fn measure(options: Options, setting: Setting) -> Result<Run, Error> {
    let Setting { name, nic, switch, repair } = setting;
    let mut scenario = scenario!(options, "storm.toml")?;
    let config = &mut scenario.network;
    (config.nic.watchdog, config.switch.watchdog) = (nic, switch);
    // Looks are some time apart.
    let restored = switch.map_or(Span::ZERO, |watchdog| watchdog.restoration + watchdog.poll);
    let (mut broken, mut stuck_at) = (0, Time::ZERO);
    for fault in &config.faults {
        if let FaultKind::NicStuck { host } = fault.kind {
            (broken, stuck_at) = (host, fault.at);
        }
    }
    if repair {
        config.faults.push(Fault { at: REPAIRED, kind: FaultKind::NicRepaired { host: broken } });
    }
    let end = if repair || !options.quick { scenario.end } else { SHORT };
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
            note_first(&network, broken, &mut run.first, now.since(stuck_at));
        }
        if now >= step_end {
            let all: u64 = (0..servers as u32).map(|host| host_pauses(&network, host).1).sum();
            run.pauses.push((ms(now), all - received));
            received = all;
            step_end = now + COARSE;
        }
        if now <= REPAIRED + restored {
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

/// Notes which hops have been crossed by a pause. On the way down only the podset counts that the broken
/// server is not in, as in figure 5: a Leaf of its own podset may pause other ToRs at once.
fn note_first(network: &Network, broken: u32, first: &mut [Option<f64>; HOPS.len()], since: Span) {
    let topology = network.topology();
    let podset = topology.hosts.len() as u32 / 2;
    let is_far = |host: u32| host / podset != broken / podset;
    let mut note = |hop: usize| {
        first[hop].get_or_insert(since.as_ps() as f64 / 1e9);
    };
    for (index, switch) in topology.switches.iter().enumerate() {
        let all = network.switch_counters(index as u32);
        let far = all.iter().any(|(end, _)| matches!(end, End::Host(host) if is_far(*host)));
        for (neighbour, counters) in all {
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
                (Some(1), 0) if far => note(4),
                _ => {}
            }
        }
    }
    for host in 0..topology.hosts.len() as u32 {
        if is_far(host) && host_pauses(network, host).1 > 0 {
            note(5);
        }
    }
}

/// What all draws came to, of one setting.
struct Draws(Vec<Run>);

impl Draws {
    fn measure(context: &mut Context<'_>, setting: Setting) -> Result<Self, Error> {
        let draws = seeds(context.options);
        context.say(&format!("storm: {}, {} seeds", setting.name, draws.len()));
        Ok(Self(each(&draws, |options| measure(options, setting))?))
    }

    /// The run that figures show.
    fn first(&self) -> &Run {
        &self.0[0]
    }

    fn all(&self, so: impl Fn(&Run) -> bool) -> bool {
        self.0.iter().all(so)
    }

    fn spread(&self, value: impl Fn(&Run) -> f64) -> Spread {
        Spread::of(&self.0, value)
    }

    /// When the last server was hit, in ms after the standstill.
    fn lasted(&self) -> Spread {
        self.spread(|run| run.lasted.unwrap_or(0.0))
    }

    /// The damage ends within hundreds of milliseconds.
    fn ends(&self) -> Check {
        let text = format!("{}: the damage ends within hundreds of ms", self.first().name);
        let ends = |run: &Run| run.at_end == 0 && run.lasted.is_some_and(|ms| ms < 1_000.0);
        Check::event(text, self.all(ends))
    }
}

/// Figures 9(a) and (b), of the first draw.
fn over_time(runs: &[&Draws]) -> [Figure; 2] {
    let mut victims = Figure::new(
        "guo16-figure-9a",
        "Figure 9(a): servers that the storm of one NIC hits",
        Mark::Line,
    )
    .axes(("time", "ms"), ("servers_hit", ""))
    .caption(
        "A server is hit while one of its messages to a healthy server is late by 5 ms. With both \
         watchdogs that of the NIC acts first: the two lines are one. One of the seeds.",
    );
    let mut pauses = Figure::new(
        "guo16-figure-9b",
        "Figure 9(b): pause frames that servers receive",
        Mark::Line,
    )
    .axes(("time", "ms"), ("pause_frames_per_5_ms", ""));
    for run in runs.iter().map(|draws| draws.first()) {
        for &(at, hit) in &run.hit {
            victims.point(run.name, at, hit as f64);
        }
        for &(at, count) in &run.pauses {
            pauses.point(run.name, at, count as f64);
        }
    }
    [victims, pauses]
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let stopped = context.claim(NIC)?.value("stopped_ms");
    let restored = context.claim(SWITCH)?.value("restored_ms");
    let of_nic = Some(Span::from_ms(stopped as u64));
    let of_switch = Some(WatchdogConfig {
        restoration: Span::from_ms(restored as u64),
        ..WatchdogConfig::default()
    });
    let mut measure =
        |name, nic, switch, repair| Draws::measure(context, Setting { name, nic, switch, repair });
    let none = measure("none", None, None, false)?;
    let nic = measure("NIC watchdog", of_nic, None, false)?;
    let switch = measure("switch watchdog", None, of_switch, true)?;
    let both = measure("both", of_nic, of_switch, false)?;

    let servers = none.first().servers;
    let half = servers as f64 / 2.0;
    let [mut victims, pauses] = over_time(&[&none, &nic, &switch, &both]);
    victims.reference("paper: half of the servers", half);
    let mut spread = Figure::new(
        "guo16-figure-5",
        "Figure 5: when the pause of one NIC first crosses each hop",
        Mark::Bar,
    )
    .axes(("hop", ""), ("after_the_standstill", "ms"));
    let mut hops = Vec::new();
    for (place, hop) in HOPS.iter().enumerate() {
        let first = none.spread(|run| run.first[place].unwrap_or(f64::NAN));
        spread.point("first pause", *hop, first.median());
        hops.push(format!("{hop} {first}"));
    }
    let in_order =
        |run: &Run| run.first.iter().all(Option::is_some) && run.first.is_sorted_by(|a, b| a <= b);
    let shape = format!(
        "three-tier Clos of {servers} servers, 350 Mb/s each, one NIC stands still at 20 ms; the \
         median of {} seeds, and between what",
        none.0.len()
    );
    let scale = Some(format!("{servers} servers"));
    let unprotected = context.claim(UNPROTECTED)?;
    let rate = none.spread(|run| run.rate);
    let first = Outcome {
        ran: shape.clone(),
        scale: scale.clone(),
        measured: format!(
            "{} of {servers} servers hit, to the end; first pauses, ms after the standstill: {}, in \
             this order with {} of {} seeds; the NIC sends {rate} pauses a second",
            none.spread(|run| run.at_end as f64),
            hops.join(", "),
            none.0.iter().filter(|run| in_order(run)).count(),
            none.0.len(),
        ),
        checks: vec![
            Check::event("pauses spread in the order of figure 5", none.all(in_order)),
            Check::order(
                ("pauses a second of the incident", unprotected.value("pauses_per_second")),
                ("of the NIC, at least", rate.least()),
                "frames",
            ),
            Check::event("at least half of the servers are hit", {
                none.all(|run| run.most as f64 >= half)
            }),
            Check::event("they stay so", none.all(|run| run.at_end as f64 >= half)),
        ],
        figures: vec![victims, pauses, spread],
        claim: unprotected,
    };
    let second = Outcome {
        claim: context.claim(NIC)?,
        ran: format!("{shape}; the NIC may pause no more after 100 ms"),
        scale: scale.clone(),
        measured: format!(
            "last victim {} ms after the standstill, {} at the end; {} messages to the broken \
             server complete",
            nic.lasted(),
            nic.spread(|run| run.at_end as f64),
            nic.spread(|run| run.to_broken as f64)
        ),
        checks: vec![
            nic.ends(),
            Check::event("the broken server stays unreachable", nic.all(|run| run.to_broken == 0)),
        ],
        figures: Vec::new(),
    };
    let restores = |run: &Run| run.detected == 1 && run.restored == 1 && run.lost_after_repair == 0;
    let third = Outcome {
        claim: context.claim(SWITCH)?,
        ran: format!("{shape}; switch watchdog of 200 ms, the server repaired at 400 ms; and both"),
        scale,
        measured: format!(
            "last victim {} ms after the standstill (with both {}); {} port lost its lossless mode \
             and {} got it back; then {} packets lost and {} messages to the server complete",
            switch.lasted(),
            both.lasted(),
            switch.spread(|run| run.detected as f64),
            switch.spread(|run| run.restored as f64),
            switch.spread(|run| run.lost_after_repair as f64),
            switch.spread(|run| run.to_repaired as f64)
        ),
        checks: vec![
            switch.ends(),
            Check::event("the port of the repaired server is lossless again", switch.all(restores)),
            Check::event("the repaired server is reached", switch.all(|run| run.to_repaired > 0)),
            both.ends(),
        ],
        figures: Vec::new(),
    };
    Ok(vec![first, second, third])
}
