//! 4.2 and figure 4: flooded packets close a circle of pauses, and three ways to prevent that.

use fabric::counters::Drop;
use fabric::fault::{Fault, FaultKind};
use fabric::switch::config::{Incomplete, TableConfig};
use fabric::topology::End;
use fabric::workload::FlowSpec;
use fabric::{Cycle, Network, Verdict};
use rdma::{Span, Time};

use super::{run_through, scenario};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Outcome};

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
    vary: impl FnOnce(&mut TableConfig),
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

/// In which variants the circle closes: by how many join the incast, the buffer, and how far XON is
/// below XOFF.
fn variants(context: &mut Context<'_>) -> Result<String, Error> {
    context.say("deadlock: variants");
    let mut closed = Vec::new();
    let mut all = 0;
    let counts: &[usize] = if context.options.quick { &[2, 12] } else { &[2, 6, 12] };
    for &others in counts {
        for megabytes in [2u32, 9] {
            for xon_offset_bytes in [4_608, 50_000] {
                let mut scenario = scenario!(context, "deadlock.toml")?;
                let config = &mut scenario.network;
                config.flows.truncate(LIVE_FLOWS + 1 + others);
                config.switch.buffer_bytes = megabytes * 1_000_000;
                config.switch.groups[3].xon_offset_bytes = xon_offset_bytes;
                let mut network = Network::new(scenario.network)?;
                all += 1;
                if let Verdict::Deadlock(_) = network.run(RESTART[0]) {
                    closed.push(format!("{others}/{megabytes} MB/{xon_offset_bytes} B"));
                }
            }
        }
    }
    Ok(format!(
        "of {all} variants (others in the incast/buffer/XON below XOFF) {} deadlock: {}",
        closed.len(),
        closed.join(", ")
    ))
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
    let dropped =
        measure(context, "option 3, drop", false, |tables| tables.incomplete = Incomplete::Drop)?;
    let to_cpu = measure(context, "option 1, to the CPU", false, |tables| {
        tables.incomplete = Incomplete::Cpu;
    })?;
    let short_arp = measure(context, "option 2, ARP 4 min", false, |tables| {
        tables.arp_timeout = Span::from_ms(4);
    })?;
    let long_mac = measure(context, "option 2, MAC 5 h", false, |tables| {
        tables.mac_timeout = Span::from_ms(300);
    })?;

    let closes = variants(context)?;
    let mut figure = Figure::new(
        "guo16-deadlock",
        "Figure 4: what S5, alive, receives of S1, with flooding and with each remedy",
        Mark::Line,
    )
    .axes(("time", "ms"), ("delivered", "MB"));
    for run in [&flooded, &dropped, &to_cpu, &short_arp, &long_mac] {
        for &(at, megabytes) in run.progress.iter().filter(|(at, _)| *at <= 80.0) {
            figure.point(run.name, at, megabytes);
        }
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
             moved; {closes}",
            circle.join(", "),
            flooded.done,
            flooded.asked,
            if flooded.stayed { "stands" } else { "does not stand" },
            flooded.held / 1_000,
            flooded.moved_later,
        ),
        checks: vec![
            Check::event("the circle is that of the four switches", circle == four),
            Check::event("nothing moves", flooded.done < flooded.asked && flooded.moved_later == 0),
            Check::event(
                "it stays after all servers restarted and the incast ended",
                flooded.stayed,
            ),
        ],
        figures: vec![figure],
    };
    let second = Outcome {
        claim: context.claim(DROP)?,
        ran: ran.to_owned(),
        scale: scale.clone(),
        measured: format!(
            "no circle; {} of {} messages arrive; {} packets dropped for an incomplete entry",
            dropped.done,
            dropped.asked,
            dropped.of(Drop::IncompleteArp)
        ),
        checks: vec![dropped.no_deadlock(), dropped.finished()],
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
             usual; with longer MAC entries no circle, {} of {} messages, and the dead stay known",
            to_cpu.done,
            to_cpu.asked,
            to_cpu.of(Drop::SwitchCpu),
            short_arp.done,
            short_arp.asked,
            short_arp.arp_requests,
            usual,
            long_mac.done,
            long_mac.asked,
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
        ],
        figures: Vec::new(),
    };
    Ok(vec![first, second, third])
}
