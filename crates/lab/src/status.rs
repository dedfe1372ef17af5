//! What a lab says of itself.

use core::fmt::Write as _;
use core::time::Duration;

use fabric::topology::End;
use rdma::{Span, Time};

use crate::factor::Reason;
use crate::state::State;

/// What it is, and how its time was diluted.
pub(crate) fn greeting(lab: &State) -> String {
    let topology = lab.network.topology();
    let (hosts, switches) = (topology.hosts.len(), topology.switches.len());
    let name = &lab.found.name;
    format!(
        "lab {name}: {} ({hosts} hosts, {switches} switches)\n  time        {}\n",
        lab.title,
        time(lab)
    )
}

/// The factor, and why it is that.
fn time(lab: &State) -> String {
    let factor = lab.choice.factor;
    match lab.choice.reason {
        None => format!("factor {factor}, as it was set"),
        Some(Reason { carried, needed }) => format!(
            "factor {factor}: this machine carries {:.0} thousand packets/s, and programs could send {:.0}",
            carried / 1e3,
            needed / 1e3
        ),
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
    for (at, cycle) in &lab.deadlocks {
        let at = seconds(at.since(Time::ZERO));
        let queues: Vec<String> = cycle
            .queues
            .iter()
            .map(|(at, to, queue)| format!("{at} to {to}, queue {queue}"))
            .collect();
        let _ = writeln!(text, "  DEADLOCK    at {at:.6} s: {}", queues.join("; "));
    }
    text
}

/// Whether the clock slipped, when, and by how much.
fn behind(lab: &State) -> String {
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

fn seconds(span: Span) -> f64 {
    span.as_ps() as f64 / 1e12
}
