//! What a lab says of itself.

use core::fmt::Write as _;
use core::time::Duration;
use std::collections::BTreeMap;

use fabric::Cycle;
use fabric::report::{LabRun, ProgramRun};
use fabric::topology::End;
use rdma::{Span, Time};

use crate::factor::Reason;
use crate::journal::seconds;
use crate::programs::{Counts, Program};
use crate::seen::{ProgramSeen, Seen};
use crate::state::State;

/// What it is, and how its time was diluted.
pub(crate) fn greeting(lab: &State) -> String {
    let topology = lab.network.topology();
    let hosts = number_of(topology.hosts.len(), "host", "hosts");
    let switches = number_of(topology.switches.len(), "switch", "switches");
    let name = &lab.found.name;
    format!(
        "lab {name}: {} ({hosts}, {switches})\n  time        {}\n{}",
        lab.title,
        time(lab),
        timeouts(lab)
    )
}

fn number_of(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Which timeouts of RC lie too close: those of programs are in the time of the wall, and the network is diluted.
fn timeouts(lab: &State) -> String {
    let (network, last) = (&lab.network, lab.hosts.saturating_sub(1));
    let mtu = network.host_nic(0).map_or(1_024, |nic| nic.mtu.bytes());
    let [Some(idle), Some(loaded)] =
        [network.unloaded(0, last, mtu), network.behind_full_queues(0, last, mtu)]
    else {
        return String::new();
    };
    let wall = |span: Span| seconds(span) * lab.clock.factor();
    // IBTA vol 1, 9.7.6.1.3: 4.096 us x 2^code, of which a requester takes one to four times.
    let code =
        (1..=31_u8).find(|code| 4.096e-6 * f64::from(*code).exp2() > wall(loaded)).unwrap_or(31);
    format!(
        "  timeouts    a round trip takes {} on the wall, and {} behind full queues: RC timeouts below {code} \
         (4.096 us x 2^{code}) are too short\n",
        duration(wall(idle)),
        duration(wall(loaded))
    )
}

/// A time as people read it.
fn duration(seconds: f64) -> String {
    match seconds {
        it if it < 1e-3 => format!("{:.1} us", it * 1e6),
        it if it < 1.0 => format!("{:.1} ms", it * 1e3),
        it => format!("{it:.2} s"),
    }
}

/// The limits of every host that has had programs.
pub(crate) fn all_limits(lab: &State) -> Vec<String> {
    let mut hosts: Vec<u32> = lab.programs.totals().into_keys().collect();
    hosts.sort_unstable();
    let line = |host| {
        let name = lab.network.topology().name(End::Host(host));
        limits(lab, host).map(|limits| format!("{name:<11} {limits}"))
    };
    hosts.into_iter().filter_map(line).collect()
}

/// How far a host's link was its limit, how far pauses were, and how far its processor.
fn limits(lab: &State, host: u32) -> Option<String> {
    let (wall, model) = lab.ages();
    let topology = lab.network.topology();
    let node = End::Host(host);
    let link = topology.links.iter().find(|link| link.ends.contains(&node))?;
    let [a, b] = link.ends;
    let End::Switch(switch) = (if a == node { b } else { a }) else { return None };
    let counters = lab.network.port_counters(switch, node)?;
    let seconds = seconds(model).max(1e-9);
    let share = |bytes: &[u64]| {
        let bits = 8.0 * bytes.iter().sum::<u64>() as f64;
        100.0 * bits / seconds / link.rate.as_bps().max(1) as f64
    };
    let paused = lab.network.host_pauses(host)?.paused_ps.into_iter().max().unwrap_or(0);
    let used = lab.processors.of(host);
    let of_wall = |time: Duration| 100.0 * time.as_secs_f64() / wall.as_secs_f64().max(1e-9);
    Some(format!(
        "its link carried {:.1} % out and {:.1} % in, it was paused for {:.1} % of the time; its programs ran for \
         {:.1} %, and waited for a processor for {:.1} %",
        share(&counters.group_bytes),
        share(&counters.queue_bytes),
        100.0 * paused as f64 / 1e12 / seconds,
        of_wall(used.ran),
        of_wall(used.waited)
    ))
}

/// The factor, and why it is that.
fn time(lab: &State) -> String {
    let between = if lab.choice.reason.is_some() { ":" } else { "," };
    format!("factor {}{between} {}", lab.choice.factor, why(lab))
}

/// Why the factor is what it is.
pub(crate) fn why(lab: &State) -> String {
    match lab.choice.reason {
        None => "as it was set".to_owned(),
        Some(Reason { carried, needed }) => format!(
            "this machine carries {:.0} thousand packets/s, and programs could send {:.0}",
            carried / 1e3,
            needed / 1e3
        ),
    }
}

/// The factor, and whether it was kept.
pub(crate) fn kept(lab: &State) -> String {
    let factor = lab.choice.factor;
    match lab.clock.slips().count {
        0 => format!("factor {factor}, kept"),
        _ => format!("factor {factor}, NOT kept: fell behind {}", behind(lab)),
    }
}

/// All that there is to be known now.
pub(crate) fn status(lab: &State) -> String {
    let mut text = greeting(lab);
    let (wall, model) = lab.ages();
    let _ = writeln!(
        text,
        "  up          {:.3} s, in which {:.3} s of the model have passed",
        wall.as_secs_f64(),
        seconds(model)
    );
    let _ = writeln!(text, "  fell behind {}", behind(lab));
    for program in lab.programs.iter() {
        let host = lab.network.topology().name(End::Host(program.host));
        let counts = program.counts;
        let _ = write!(
            text,
            "  {host:<11} process {} sent {} and received {} packets",
            program.process, counts.sent, counts.received
        );
        if counts.refused > 0 {
            let _ = write!(text, "; {} were refused", counts.refused);
        }
        text.push('\n');
    }
    if lab.programs.iter().next().is_none() {
        text += "  programs    none\n";
    }
    for host in 0..lab.hosts {
        let Some(pauses) = lab.network.host_pauses(host) else { continue };
        let (sent, received): (u64, u64) = (pauses.sent.iter().sum(), pauses.received.iter().sum());
        let waiting: u64 = lab.network.frames_waiting(host).iter().sum();
        if sent + received + waiting > 0 {
            let name = lab.network.topology().name(End::Host(host));
            let _ = writeln!(
                text,
                "  {name:<11} NIC sent {sent} and received {received} pauses, {waiting} bytes wait"
            );
        }
    }
    for line in all_limits(lab) {
        let _ = writeln!(text, "  {line}");
    }
    let drops = lab.network.drops();
    let mut any = false;
    for &cause in fabric::counters::Drop::ALL {
        let count = drops.of(cause);
        if count > 0 {
            any = true;
            let _ = writeln!(text, "  dropped     {count}: {}", cause.text());
        }
    }
    if !any {
        text += "  dropped     nothing\n";
    }
    if lab.programs.unclaimed > 0 {
        let _ = writeln!(text, "  unclaimed   {} packets for no program", lab.programs.unclaimed);
    }
    for found in &lab.deadlocks {
        let _ = writeln!(text, "  DEADLOCK    {}", deadlock(found));
    }
    if let Some(address) = lab.metrics {
        let _ = writeln!(text, "  metrics     http://{address}/metrics");
    }
    text
}

/// The queues of a deadlock.
pub(crate) fn circle(cycle: &Cycle) -> String {
    let queues = cycle.queues.iter().map(|(at, to, queue)| format!("{at} to {to}, queue {queue}"));
    queues.collect::<Vec<_>>().join("; ")
}

/// When it was found, and of which queues it is.
pub(crate) fn deadlock((at, cycle): &(Time, Cycle)) -> String {
    let at = seconds(at.since(Time::ZERO));
    format!("at {at:.6} s: {}", circle(cycle))
}

/// Whether the clock slipped, when, and by how much.
pub(crate) fn behind(lab: &State) -> String {
    let slips = lab.clock.slips();
    let Some(first) = slips.first_at else { return "never: it kept its factor".to_owned() };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (wall, _) = lab.ages();
    let share = 100.0 * slips.sum.as_secs_f64() / wall.as_secs_f64().max(1e-9);
    let left = wall.saturating_sub(slips.sum).as_secs_f64().max(1e-9);
    format!(
        "{} times between {:.3} s and {:.3} s, by {:.1} ms in all ({share:.2} %: as factor {:.2}), \
         at worst by {:.1} ms at {:.3} s",
        slips.count,
        first.as_secs_f64(),
        slips.last_at.as_secs_f64(),
        ms(slips.sum),
        lab.clock.factor() * wall.as_secs_f64() / left,
        ms(slips.worst),
        slips.worst_at.as_secs_f64()
    )
}

/// What a report says of it.
pub(crate) fn run(lab: &State) -> LabRun {
    let program = |host, process, command: &str, counts: Counts| ProgramRun {
        host: lab.network.topology().name(End::Host(host)).to_owned(),
        process,
        command: command.to_owned(),
        sent: counts.sent,
        received: counts.received,
        refused: counts.refused,
    };
    let gone = lab.programs.gone.iter();
    let gone = gone.map(|it| program(it.host, it.process, &it.command, it.counts));
    let there = lab.programs.iter();
    let there = there.map(|it| program(it.host, it.process, &it.command, it.counts));
    // One for each process of a host: it may have had several NICs.
    let mut programs: Vec<ProgramRun> = Vec::new();
    for more in gone.chain(there) {
        let same = |it: &&mut ProgramRun| (&it.host, it.process) == (&more.host, more.process);
        match programs.iter_mut().find(same) {
            Some(program) => {
                program.sent += more.sent;
                program.received += more.received;
                program.refused += more.refused;
            }
            None => programs.push(more),
        }
    }
    LabRun {
        name: lab.found.name.clone(),
        factor: lab.clock.factor(),
        why: why(lab),
        wall: lab.begin.elapsed(),
        kept: lab.clock.slips().count == 0,
        behind: behind(lab),
        programs,
        more_programs: lab.programs.forgotten,
        unclaimed: lab.programs.unclaimed,
        deadlocks: lab.deadlocks.iter().map(deadlock).collect(),
    }
}

/// What is to be seen now, but for what programs count themselves.
pub(crate) fn seen(lab: &State) -> Seen {
    let (wall, model) = lab.ages();
    let slips = lab.clock.slips();
    let topology = lab.network.topology();
    let drops = lab.network.drops();
    let program = |program: &Program| ProgramSeen {
        host: topology.name(End::Host(program.host)).to_owned(),
        process: program.process,
        command: program.command.clone(),
        sent: program.counts.sent,
        received: program.counts.received,
        refused: program.counts.refused,
        counters: BTreeMap::new(),
    };
    Seen {
        lab: lab.found.name.clone(),
        title: lab.title.clone(),
        wall_ns: wall.as_nanos() as u64,
        model_ps: model.as_ps(),
        factor: lab.clock.factor(),
        slips: slips.count,
        slipped_ns: slips.sum.as_nanos() as u64,
        ports: lab.network.counted(),
        drops: drops.iter().map(|(cause, count)| (cause.text().to_owned(), count)).collect(),
        unclaimed: lab.programs.unclaimed,
        deadlocks: lab.deadlocks.len() as u64,
        link_hops: lab.network.link_hops(),
        programs: by_process(lab.programs.iter().map(program)),
    }
}

/// One for each process of a host: it may have several NICs.
fn by_process(all: impl Iterator<Item = ProgramSeen>) -> Vec<ProgramSeen> {
    let mut programs: Vec<ProgramSeen> = Vec::new();
    for more in all {
        let same = |it: &&mut ProgramSeen| (&it.host, it.process) == (&more.host, more.process);
        match programs.iter_mut().find(same) {
            Some(program) => {
                program.sent += more.sent;
                program.received += more.received;
                program.refused += more.refused;
            }
            None => programs.push(more),
        }
    }
    programs
}
