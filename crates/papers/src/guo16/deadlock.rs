//! 4.2 and figure 4: flooded packets close a circle of pauses, and three ways to prevent that.
//!
//! Whether the circle closes hangs on what waits at T1 from La. Flooded packets wait there for the paused port
//! to Lb; those of S1 for S5 leave by another port, and if enough of them are among the others the group
//! sinks to its XON and lets La go on. So besides buffer and XON the flow from S1 to S5 is varied.

use fabric::counters::Drop;
use fabric::fault::{Fault, FaultKind};
use fabric::switch::config::{Incomplete, TableConfig};
use fabric::topology::End;
use fabric::workload::FlowSpec;
use fabric::{Cycle, Network, Verdict};
use rdma::{Span, Time};

use super::{jitter, run_through, scenario};
use crate::draws::{each, some};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const FLOODING: &str = "guo16.deadlock.flooding";
const DROP: &str = "guo16.deadlock.drop-incomplete-arp";
const OTHERS: &str = "guo16.deadlock.options-1-and-2";
pub(super) const CLAIMS: &[&str] = &[FLOODING, DROP, OTHERS];

/// Every server restarts at the first, and is back at the second.
const RESTART: [Time; 2] = [Time::from_ps(60_000_000_000), Time::from_ps(70_000_000_000)];
/// How finely progress is looked at.
const STEP: Span = Span::from_us(500);
/// Flows before this one, in the scenario, are to the dead.
const LIVE_FLOWS: usize = 2;

struct Run {
    name: &'static str,
    /// The circle, and when it had stood still.
    circle: Option<(Cycle, Time)>,
    /// The same circle at the end.
    stayed: bool,
    /// Packets put on a link after every queue pair had given up or finished.
    moved_later: u64,
    /// By flow among the living: messages completed of those asked for.
    done: u64,
    asked: u64,
    /// Bytes that the switches hold at the end.
    held: u64,
    dropped: [(Drop, u64); 4],
    arp_requests: u64,
    /// At each step, in ms: megabytes that S5 has of S1, through the circle.
    progress: Vec<(f64, f64)>,
}

fn measure(
    context: &mut Context<'_>,
    name: &'static str,
    restart: bool,
    vary: Vary,
) -> Result<Run, Error> {
    context.say(&format!("deadlock: {name}"));
    let mut scenario = scenario!(context, "deadlock.toml")?;
    let config = &mut scenario.network;
    vary(&mut config.switch.tables);
    let dead: Vec<u32> = config
        .faults
        .iter()
        .filter_map(|fault| match fault.kind {
            FaultKind::HostDies { host, .. } => Some(host),
            _ => None,
        })
        .collect();
    if restart {
        for host in 0..config.topology.hosts.len() as u32 {
            if !dead.contains(&host) {
                let kind = FaultKind::HostDies { host, mac_aged: false };
                config.faults.push(Fault { at: RESTART[0], kind });
            }
            config.faults.push(Fault { at: RESTART[1], kind: FaultKind::HostReturns { host } });
        }
        // A flow that begins after the end keeps the clock running when all others are over.
        let last = FlowSpec { start: scenario.end + STEP, ..config.flows[LIVE_FLOWS] };
        config.flows.push(last);
    }
    let live = LIVE_FLOWS..config.flows.len() - usize::from(restart);
    let mut network = Network::new(scenario.network)?;
    let mut run = Run {
        name,
        circle: None,
        stayed: false,
        moved_later: 0,
        done: 0,
        asked: 0,
        held: 0,
        dropped: [Drop::NotForMe, Drop::IncompleteArp, Drop::SwitchCpu, Drop::NoArp]
            .map(|cause| (cause, 0)),
        arp_requests: 0,
        progress: Vec::new(),
    };
    let mut next = Time::ZERO;
    let mut last = None;
    while next < scenario.end {
        next += STEP;
        while network.now() < next {
            match network.run(next) {
                Verdict::Deadlock(cycle) => {
                    run.circle.get_or_insert((cycle.clone(), network.now()));
                    last = Some((cycle, network.now()));
                }
                Verdict::Finished | Verdict::Stalled => {
                    run_through(&mut network, next);
                    break;
                }
                Verdict::TimeOver | Verdict::Interrupted => break,
            }
        }
        let bytes = network.flows()[LIVE_FLOWS].bytes();
        let at = next.since(Time::ZERO).as_ps() as f64 / 1e9;
        run.progress.push((at, bytes as f64 / 1e6));
        // A quarter of the time before the end all queue pairs have long given up.
        if next.as_ps() <= scenario.end.as_ps() / 4 * 3 {
            run.moved_later = network.link_hops();
        }
    }
    run.moved_later = network.link_hops() - run.moved_later;
    run.stayed = run.circle.is_some()
        && last.is_some_and(|(_, at)| scenario.end.since(at) <= Span::from_ms(2));
    let living = &network.flows()[live];
    run.done = living.iter().map(|flow| flow.completed).sum();
    run.asked = living.iter().filter_map(|flow| flow.spec.messages).sum();
    for (cause, count) in &mut run.dropped {
        *count = network.drops().of(*cause);
    }
    for switch in 0..network.topology().switches.len() as u32 {
        run.arp_requests += network.arp_requests(switch).unwrap_or(0);
        let neighbours: Vec<End> =
            network.switch_counters(switch).into_iter().map(|(end, _)| end).collect();
        for end in neighbours {
            for group in 0..8 {
                run.held += u64::from(network.group_bytes(switch, end, group).unwrap_or(0));
            }
        }
    }
    Ok(run)
}

/// Changes what becomes of packets for the dead.
type Vary = fn(&mut TableConfig);

const REMEDIES: [(&str, Vary); 4] = [
    ("option 3, drop", |tables| tables.incomplete = Incomplete::Drop),
    ("option 1, to the CPU", |tables| tables.incomplete = Incomplete::Cpu),
    ("option 2, ARP 4 min", |tables| tables.arp_timeout = Span::from_ms(4)),
    ("option 2, MAC 5 h", |tables| tables.mac_timeout = Span::from_ms(300)),
];

/// Draws of which a probability is made, and within what flows begin.
const DRAWS: u64 = 20;
const JITTER: Span = Span::from_ms(1);
/// The incast is over by then, and with it what a circle needs to close.
const CLOSED_BY: Time = Time::from_ps(40_000_000_000);
/// Buffers in MB: the paper's, and smaller and larger ones beside them.
const BUFFERS: [f64; 7] = [1.0, 2.0, 4.0, 6.0, 9.0, 12.0, 24.0];
/// How far below XOFF a group resumes, in KB: two long packets, which is the simulator's default, and more.
const XON_KB: [f64; 3] = [4.608, 50.0, 200.0];

/// The flow from S1 to S5, which goes through the circle beside those to the dead: how many there are,
/// of which messages, and how many of these are in flight.
#[derive(Clone, Copy, Debug)]
struct Living {
    flows: usize,
    message_bytes: u32,
    depth: u32,
}

/// As in the scenario.
const ONE: Living = Living { flows: 1, message_bytes: 1 << 20, depth: 2 };

/// What is tried of the living, to find out what they have to do with it, and with which buffers.
const LIVING: [(&str, Living); 4] = [
    ("none of S1 to S5", Living { flows: 0, ..ONE }),
    ("three", Living { flows: 3, ..ONE }),
    ("one with 12 MB in flight", Living { depth: 12, ..ONE }),
    ("one with 256 KB in flight", Living { message_bytes: 256 << 10, depth: 1, ..ONE }),
];
const TRIED: [f64; 3] = [4.0, 9.0, 12.0];

/// Whether the circle closes in a draw in which flows begin at moments of their own.
fn closes(
    options: Options,
    megabytes: f64,
    xon_kb: f64,
    (vary, living): (Vary, Living),
) -> Result<bool, Error> {
    let mut scenario = scenario!(options, "deadlock.toml")?;
    let config = &mut scenario.network;
    vary(&mut config.switch.tables);
    let through = config.flows.remove(LIVE_FLOWS);
    let all_bytes = through.messages.unwrap_or(0) * u64::from(through.message_bytes);
    let Living { flows, message_bytes, depth } = living;
    let messages = Some(all_bytes / u64::from(message_bytes));
    let through = FlowSpec { message_bytes, messages, depth, ..through };
    config.flows.extend(core::iter::repeat_n(through, flows));
    config.switch.buffer_bytes = (megabytes * 1e6) as u32;
    for group in config.switch.groups.iter_mut().filter(|group| group.lossless) {
        group.xon_offset_bytes = (xon_kb * 1e3) as u32;
    }
    jitter(config, JITTER);
    let mut network = Network::new(scenario.network)?;
    Ok(matches!(network.run(CLOSED_BY), Verdict::Deadlock(_)))
}

/// How often the circle closes, by buffer and XON.
struct Odds {
    name: &'static str,
    /// Buffer in MB, XON in KB below XOFF, draws in which it closes, and draws.
    cells: Vec<(f64, f64, usize, usize)>,
}

impl Odds {
    fn measure(
        context: &mut Context<'_>,
        name: &'static str,
        (buffers, xons): (&[f64], &[f64]),
        of: (Vary, Living),
    ) -> Result<Self, Error> {
        context.say(&format!("deadlock: {name}, by buffer and XON"));
        let draws = some(context.options, DRAWS);
        let mut cells = Vec::new();
        for &megabytes in buffers {
            for &xon_kb in xons {
                let runs = each(&draws, |options| closes(options, megabytes, xon_kb, of))?;
                let closed = runs.iter().filter(|closed| **closed).count();
                cells.push((megabytes, xon_kb, closed, runs.len()));
            }
        }
        Ok(Self { name, cells })
    }

    fn told(&self) -> String {
        let cell = |&(megabytes, xon_kb, closed, draws): &(f64, f64, usize, usize)| {
            format!("{megabytes} MB/{xon_kb} KB {closed} of {draws}")
        };
        self.cells.iter().map(cell).collect::<Vec<_>>().join(", ")
    }

    /// Draws in which it closes, of all, with buffers such as the paper's.
    fn of(&self, megabytes: &[f64]) -> (usize, usize) {
        let cells = self.cells.iter().filter(|cell| megabytes.contains(&cell.0));
        cells.fold((0, 0), |sum, cell| (sum.0 + cell.2, sum.1 + cell.3))
    }

    /// That it closes in none of the draws in which it does for `others` in some.
    fn never(&self, megabytes: &[f64], others: &Self) -> Check {
        let text =
            format!("{}: no deadlock in any draw, where without it there are some", self.name);
        Check::event(text, self.of(megabytes).0 == 0 && others.of(megabytes).0 > 0)
    }
}

/// The paper's buffers.
const PAPER_MB: [f64; 2] = [9.0, 12.0];

fn listed(megabytes: &[f64]) -> String {
    megabytes.iter().map(f64::to_string).collect::<Vec<_>>().join(" and ")
}

impl Run {
    fn of(&self, cause: Drop) -> u64 {
        self.dropped.iter().find(|(of, _)| *of == cause).map_or(0, |&(_, count)| count)
    }

    fn finished(&self) -> Check {
        let text = format!("{}: the living get all {} messages", self.name, self.asked);
        Check::event(text, self.done == self.asked)
    }

    fn no_deadlock(&self) -> Check {
        Check::event(format!("{}: no deadlock", self.name), self.circle.is_none())
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let flooded = measure(context, "flooding", true, |_| {})?;
    let mut remedies = Vec::new();
    for (name, vary) in REMEDIES {
        remedies.push(measure(context, name, false, vary)?);
    }
    let [dropped, to_cpu, short_arp, long_mac] = &remedies[..] else { return Ok(Vec::new()) };
    let quick = context.options.quick;
    let buffers = if quick { &BUFFERS[1..2] } else { &BUFFERS[..] };
    let theirs = if quick { buffers } else { &PAPER_MB[..] };
    let none: Vary = |_| {};
    let floods = Odds::measure(context, "flooding", (buffers, &XON_KB), (none, ONE))?;
    let mut living = Vec::new();
    for (name, of) in LIVING {
        let tried = if quick { buffers } else { &TRIED[..] };
        living.push(Odds::measure(context, name, (tried, &XON_KB[..1]), (none, of))?);
    }
    let mut prevented = Vec::new();
    for (name, vary) in REMEDIES {
        prevented.push(Odds::measure(context, name, (theirs, &XON_KB), (vary, ONE))?);
    }
    let mut figure = Figure::new(
        "guo16-deadlock",
        "Figure 4: what S5, alive, receives of S1, with flooding and with each remedy",
        Mark::Line,
    )
    .axes(("time", "ms"), ("delivered", "MB"));
    for run in [&flooded, dropped, to_cpu, short_arp, long_mac] {
        for &(at, megabytes) in run.progress.iter().filter(|(at, _)| *at <= 80.0) {
            figure.point(run.name, at, megabytes);
        }
    }
    let mut odds = Figure::new(
        "guo16-deadlock-odds",
        "How often the circle closes, by buffer and by how far below XOFF a group resumes",
        Mark::Line,
    )
    .axes(("buffer", "MB"), ("deadlocks", "percent"));
    for &(megabytes, xon_kb, closed, draws) in &floods.cells {
        let part = closed as f64 / draws as f64 * 100.0;
        odds.point(format!("XON {xon_kb} KB below"), megabytes, part);
    }
    let ran =
        "the topology and routes of figure 4 at 40 Gb/s, with a minute of its timeouts in a ms";
    let scale = Some("timeouts 60,000 times shorter".to_owned());
    let mut circle: Vec<String> = flooded
        .circle
        .iter()
        .flat_map(|(cycle, _)| cycle.queues.iter().map(|(at, to, _)| format!("{at}->{to}")))
        .collect();
    circle.sort();
    let at = flooded.circle.as_ref().map_or(f64::NAN, |(_, at)| at.as_ps() as f64 / 1e9);
    let four = ["La->T1", "Lb->T0", "T0->La", "T1->Lb"];
    let first = Outcome {
        claim: context.claim(FLOODING)?,
        ran: format!("{ran}; all servers restart at 60 ms, run of 250 ms"),
        scale: scale.clone(),
        measured: format!(
            "queues {} wait for each other from {at:.0} ms; {} of {} messages to the living \
             arrive; at the end a circle {}, {} KB are held, and in the last 60 ms {} packets \
             moved. Flows that begin within {JITTER}, circles that close within {} by buffer and XON: {}. With \
             other flows through the circle that are not for the dead: {}",
            circle.join(", "),
            flooded.done,
            flooded.asked,
            if flooded.stayed { "stands" } else { "does not stand" },
            flooded.held / 1_000,
            flooded.moved_later,
            CLOSED_BY.since(Time::ZERO),
            floods.told(),
            living
                .iter()
                .map(|odds| format!("{}: {}", odds.name, odds.told()))
                .collect::<Vec<_>>()
                .join("; "),
        ),
        checks: vec![
            Check::event("the circle is that of the four switches", circle == four),
            Check::event("nothing moves", flooded.done < flooded.asked && flooded.moved_later == 0),
            Check::event(
                "it stays after all servers restarted and the incast ended",
                flooded.stayed,
            ),
            Check::event(
                format!("a circle closes in some draws of {} MB", listed(theirs)),
                floods.of(theirs).0 > 0,
            ),
        ],
        figures: vec![figure, odds],
    };
    let second = Outcome {
        claim: context.claim(DROP)?,
        ran: ran.to_owned(),
        scale: scale.clone(),
        measured: format!(
            "no circle; {} of {} messages arrive; {} packets dropped for an incomplete entry; with {} MB, \
             by XON and start: {} of {} draws deadlock, {} of {} without the remedy",
            dropped.done,
            dropped.asked,
            dropped.of(Drop::IncompleteArp),
            listed(theirs),
            prevented[0].of(theirs).0,
            prevented[0].of(theirs).1,
            floods.of(theirs).0,
            floods.of(theirs).1,
        ),
        checks: vec![
            dropped.no_deadlock(),
            dropped.finished(),
            prevented[0].never(theirs, &floods),
        ],
        figures: Vec::new(),
    };
    let usual = flooded.arp_requests.max(long_mac.arp_requests);
    let third = Outcome {
        claim: context.claim(OTHERS)?,
        ran: ran.to_owned(),
        scale,
        measured: format!(
            "(1) no circle, {} of {} messages, {} packets to switch CPUs; (2) with ARP entries \
             shorter than MAC entries no circle, {} of {} messages, {} ARP requests where {} are \
             usual; with longer MAC entries no circle, {} of {} messages, and the dead stay known; \
             deadlocks with {} MB, by XON and start: {}",
            to_cpu.done,
            to_cpu.asked,
            to_cpu.of(Drop::SwitchCpu),
            short_arp.done,
            short_arp.asked,
            short_arp.arp_requests,
            usual,
            long_mac.done,
            long_mac.asked,
            listed(theirs),
            prevented[1..]
                .iter()
                .map(|odds| format!("{} {} of {}", odds.name, odds.of(theirs).0, odds.of(theirs).1))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        checks: vec![
            to_cpu.no_deadlock(),
            to_cpu.finished(),
            Check::event("(1) costs the CPU packets", to_cpu.of(Drop::SwitchCpu) > 0),
            short_arp.no_deadlock(),
            short_arp.finished(),
            Check::event("(2) costs ARP requests", short_arp.arp_requests > usual),
            long_mac.no_deadlock(),
            long_mac.finished(),
            prevented[1].never(theirs, &floods),
            prevented[2].never(theirs, &floods),
            prevented[3].never(theirs, &floods),
        ],
        figures: Vec::new(),
    };
    Ok(vec![first, second, third])
}
