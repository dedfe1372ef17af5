//! `ferroce lab top`: what happens in a lab now, with what looks wrong at the top.
//!
//! Rates are per second of the model: a link of 1 Gb/s that is full shows 1 Gb/s, whatever the lab's factor.

mod screen;
mod terminal;

use core::time::Duration;
use std::io::{self, IsTerminal};
use std::thread::sleep;

use fabric::counters::PortCounted;
use lab::{ProgramSeen, Seen, client};
use softnic::lab::Found;

use crate::args::Top;
use crate::failure::Failure;
use crate::output::print;
use crate::view::{Column, percent};
use screen::{Grid, Level, Line, Row, Screen, Sort};
use terminal::Next;

const PORTS: &[Column] = &[
    Column { title: "PORT", width: 21, number: false },
    Column { title: "SENDS", width: 10, number: true },
    Column { title: "LOAD", width: 5, number: true },
    Column { title: "PAUSED", width: 6, number: true },
    Column { title: "PAUSES/s", width: 8, number: true },
    Column { title: "MARKS/s", width: 7, number: true },
    Column { title: "DROPS/s", width: 7, number: true },
    Column { title: "WAITS", width: 8, number: true },
];
const PROGRAMS: &[Column] = &[
    Column { title: "PROGRAM", width: 21, number: false },
    Column { title: "HOST", width: 10, number: false },
    Column { title: "PROCESS", width: 8, number: true },
    Column { title: "SENDS/s", width: 10, number: true },
    Column { title: "GETS/s", width: 10, number: true },
    Column { title: "AGAIN/s", width: 8, number: true },
    Column { title: "REFUSED", width: 7, number: true },
];
/// Who pauses whom: so many pairs are named.
const PAIRS: usize = 3;
/// A port that is paused for so much of the time is wrong: ours.
const PAUSED_WRONG: f64 = 0.5;

pub(super) fn run(arguments: &Top) -> Result<(), Failure> {
    let found = arguments.which.find()?;
    let every = Duration::from_secs_f64(arguments.every);
    let mut before = look(&found)?;
    if !io::stdout().is_terminal() {
        sleep(every);
        let mut screen = screen(&before, &look(&found)?);
        for grid in &mut screen.grids {
            grid.sort(Sort::default());
        }
        return print(&screen.to_text());
    }
    let mut is_first = true;
    let outcome = terminal::watch(every, || {
        // Rates need two looks; the first screen is not to wait for long.
        if core::mem::take(&mut is_first) {
            sleep(every.min(Duration::from_millis(200)));
        }
        match client::look(&found) {
            Ok(now) => {
                let screen = screen(&before, &now);
                before = now;
                Next::Show(screen)
            }
            Err(error) => Next::End(error.to_string()),
        }
    });
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(why)) => print(&format!("{why}\n")),
        Err(error) => Err(Failure::new(format!("cannot draw on this terminal: {error}"))
            .hint("`ferroce lab top | cat` prints what there is to be seen once")),
    }
}

fn look(found: &Found) -> Result<Seen, Failure> {
    client::look(found).map_err(|error| Failure::from_message(&error))
}

/// What happened between two looks.
fn screen(before: &Seen, now: &Seen) -> Screen {
    let model = now.model_ps.saturating_sub(before.model_ps) as f64 / 1e12;
    let ports =
        now.ports.iter().zip(&before.ports).map(|(now, before)| Change::of(before, now, model));
    let ports: Vec<Change> = ports.collect();
    let mut head = vec![title(now), clock(before, now)];
    head.push(whole(before, now, &ports, model));
    head.push(pairs(&ports));
    let programs = now.programs.iter().map(|program| {
        let earlier = before.programs.iter().find(|it| it.process == program.process);
        program_row(earlier, program, model)
    });
    let grids = vec![
        Grid { columns: PORTS, rows: ports.iter().map(Change::row).collect(), empty: "no ports" },
        Grid {
            columns: PROGRAMS,
            rows: programs.collect(),
            empty: "no program runs: `ferroce lab run --host h0 -- PROGRAM`",
        },
    ];
    Screen { head, grids }
}

fn title(now: &Seen) -> Line {
    let seconds = now.wall_ns / 1_000_000_000;
    let up = format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Line::new(Level::Fine, format!("lab {}: {}, up {up}", now.lab, now.title))
}

/// Whether the clock keeps its factor.
fn clock(before: &Seen, now: &Seen) -> Line {
    let factor = now.factor;
    let slipped = Duration::from_nanos(now.slipped_ns.saturating_sub(before.slipped_ns));
    let all = Duration::from_nanos(now.slipped_ns).as_secs_f64() * 1e3;
    let rates = if factor == 1.0 { "" } else { "; rates are per second of the model" };
    if now.slips == 0 {
        return Line::new(Level::Fine, format!("clock   factor {factor}, kept{rates}"));
    }
    let wall = now.wall_ns.saturating_sub(before.wall_ns).max(1) as f64;
    let share = 100.0 * slipped.as_nanos() as f64 / wall;
    let said = format!("fell behind {} times, {all:.1} ms in all, {share:.1} % now", now.slips);
    let level = if slipped.is_zero() { Level::Odd } else { Level::Wrong };
    Line::new(level, format!("clock   factor {factor}, {said}{rates}"))
}

/// Packets, drops and deadlocks of the whole network.
fn whole(before: &Seen, now: &Seen, ports: &[Change], model: f64) -> Line {
    let hops = now.link_hops.saturating_sub(before.link_hops) as f64 / model.max(1e-12);
    let mut text = format!("network {} packets/s on links", short(hops));
    let mut level = Level::Fine;
    let dropped: u64 = now.drops.values().sum();
    match now.drops.iter().max_by_key(|(_, count)| **count) {
        None => text += ", nothing dropped",
        Some((cause, count)) => {
            let earlier: u64 = before.drops.values().sum();
            level = if dropped > earlier { Level::Wrong } else { Level::Odd };
            text += &format!(", {dropped} dropped ({count} {cause})");
        }
    }
    if now.deadlocks > 0 {
        level = Level::Wrong;
        text += &format!(", {} DEADLOCKS", now.deadlocks);
    }
    let down = ports.iter().filter(|port| port.is_down).count();
    if down > 0 {
        level = Level::Wrong;
        let links = down.div_ceil(2);
        text += &format!(", {links} {} down", if links == 1 { "link" } else { "links" });
    }
    Line::new(level, text)
}

/// Who pauses whom, most first.
fn pairs(ports: &[Change]) -> Line {
    let mut paused: Vec<&Change> = ports.iter().filter(|port| port.paused > 0.0).collect();
    paused.sort_by(|a, b| b.paused.total_cmp(&a.paused));
    if paused.is_empty() {
        return Line::new(Level::Fine, "pauses  nobody pauses anybody");
    }
    let said: Vec<String> = paused
        .iter()
        .take(PAIRS)
        .map(|port| format!("{} pauses {} {}", port.to, port.at, percent(Some(port.paused))))
        .collect();
    let more = match paused.len().saturating_sub(PAIRS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Line::new(Level::Odd, format!("pauses  {}{more}", said.join(", ")))
}

/// What a port did between two looks, per second of the model.
struct Change {
    at: String,
    to: String,
    sends_bps: f64,
    load: f64,
    /// Part of the time for which it was paused.
    paused: f64,
    pauses: f64,
    marks: f64,
    drops: f64,
    waits: u64,
    is_down: bool,
}

impl Change {
    fn of(before: &PortCounted, now: &PortCounted, model: f64) -> Self {
        let per_second = |of: fn(&PortCounted) -> u64| {
            of(now).saturating_sub(of(before)) as f64 / model.max(1e-12)
        };
        let sends_bps = 8.0 * per_second(PortCounted::sent_bytes);
        Self {
            at: now.node.clone(),
            to: now.neighbour.clone(),
            sends_bps,
            load: sends_bps / now.rate_bps.max(1) as f64,
            paused: (per_second(PortCounted::paused_ps) / 1e12).min(1.0),
            pauses: per_second(|port| port.pause().received_frames),
            marks: per_second(PortCounted::marked),
            drops: per_second(PortCounted::dropped),
            waits: now.queue_bytes.iter().sum(),
            is_down: now.is_down,
        }
    }

    fn row(&self) -> Row {
        let some = |value: f64, level| if value > 0.0 { level } else { Level::Quiet };
        let paused = if self.paused >= PAUSED_WRONG { Level::Wrong } else { Level::Odd };
        let weight = self.drops + self.paused + self.load;
        let row = Row { level: Level::Quiet, weight, ..Row::default() }
            .text(format!("{} → {}", self.at, self.to));
        let row = match self.is_down {
            true => row.number(self.sends_bps, Level::Wrong, "DOWN"),
            false => {
                row.number(self.sends_bps, some(self.sends_bps, Level::Fine), rate(self.sends_bps))
            }
        };
        row.number(self.load, Level::Quiet, percent(Some(self.load)))
            .number(self.paused, some(self.paused, paused), percent(Some(self.paused)))
            .number(self.pauses, some(self.pauses, Level::Odd), short(self.pauses))
            .number(self.marks, some(self.marks, Level::Odd), short(self.marks))
            .number(self.drops, some(self.drops, Level::Wrong), short(self.drops))
            .number(self.waits as f64, some(self.waits as f64, Level::Fine), bytes(self.waits))
    }
}

/// What programs count themselves when they send again.
const AGAIN: &str = "retransmitted_pkts";

fn program_row(before: Option<&ProgramSeen>, now: &ProgramSeen, model: f64) -> Row {
    let per_second = |of: fn(&ProgramSeen) -> u64| {
        before.map_or(0.0, |before| of(now).saturating_sub(of(before)) as f64 / model.max(1e-12))
    };
    let sends = per_second(|program| program.sent);
    let gets = per_second(|program| program.received);
    let again = per_second(|program| program.counters.get(AGAIN).copied().unwrap_or(0));
    let level = |value: f64, level| if value > 0.0 { level } else { Level::Quiet };
    Row { weight: sends + gets, ..Row::default() }
        .text(&*now.command)
        .text(&*now.host)
        .number(f64::from(now.process), Level::Quiet, now.process.to_string())
        .number(sends, level(sends, Level::Fine), short(sends))
        .number(gets, level(gets, Level::Fine), short(gets))
        .number(again, level(again, Level::Odd), short(again))
        .number(
            now.refused as f64,
            level(now.refused as f64, Level::Wrong),
            now.refused.to_string(),
        )
}

/// Bits per second in few letters.
fn rate(bps: f64) -> String {
    match bps {
        _ if bps >= 1e9 => format!("{:.2} Gb/s", bps / 1e9),
        _ if bps >= 1e6 => format!("{:.1} Mb/s", bps / 1e6),
        _ if bps >= 1e3 => format!("{:.1} kb/s", bps / 1e3),
        _ => format!("{bps:.0} b/s"),
    }
}

/// A count in few letters.
fn short(value: f64) -> String {
    crate::view::short(Some(value))
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::counters::{Counters, NicCounters, PortCounters};
    use snapbox::{assert_data_eq, str};

    fn seen(second: u64) -> Seen {
        let mut nic = NicCounters::default();
        nic.tx.bytes[3] = 100_000_000 * second;
        nic.pause.paused_ps[3] = 600_000_000_000 * second;
        nic.pause.received_frames = 1_200 * second;
        let mut switch = PortCounters::default();
        switch.queue_bytes[3] = 125_000_000 * second;
        switch.queue_marked[3] = 52_000 * second;
        let port = |node: &str, neighbour: &str, counters, is_down| PortCounted {
            node: node.to_owned(),
            neighbour: neighbour.to_owned(),
            rate_bps: 1_000_000_000,
            is_down,
            paused: 0,
            queue_bytes: [0, 0, 0, 14_000, 0, 0, 0, 0],
            counters,
        };
        let idle = || Counters::Nic(Box::default());
        Seen {
            lab: "incast".to_owned(),
            title: "Incast".to_owned(),
            wall_ns: 4_000_000_000 * second,
            model_ps: 1_000_000_000_000 * second,
            factor: 4.0,
            slips: 0,
            slipped_ns: 0,
            ports: vec![
                port("s0", "h1", Counters::Switch(Box::new(switch)), false),
                port("h0", "s0", Counters::Nic(Box::new(nic)), false),
                port("h1", "s0", idle(), false),
                port("h2", "s0", idle(), true),
            ],
            drops: [("link down".to_owned(), 3 * second)].into(),
            unclaimed: 0,
            deadlocks: 0,
            link_hops: 20_000 * second,
            programs: vec![ProgramSeen {
                host: "h0".to_owned(),
                process: 4_711,
                command: "ib_write_bw".to_owned(),
                sent: 90_000 * second,
                received: 300 * second,
                refused: 0,
                counters: [(AGAIN.to_owned(), 5 * second)].into(),
            }],
        }
    }

    #[test]
    fn what_looks_wrong_stands_at_the_top_and_all_of_it_fits_eighty_columns() {
        let mut screen = screen(&seen(1), &seen(2));
        screen.grids.iter_mut().for_each(|grid| grid.sort(Sort::default()));
        let text = screen.to_text();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_data_eq!(
            text,
            str![[r#"
lab incast: Incast, up 0:00:08
clock   factor 4, kept; rates are per second of the model
network 20k packets/s on links, 6 dropped (6 link down), 1 link down
pauses  s0 pauses h0 60%

PORT                       SENDS  LOAD PAUSED PAUSES/s MARKS/s DROPS/s    WAITS
h0 → s0               800.0 Mb/s   80%    60%     1.2k       0       0    14 kB
h2 → s0                     DOWN    0%     0%        0       0       0    14 kB
s0 → h1                1.00 Gb/s  100%     0%        0     52k       0    14 kB
h1 → s0                    0 b/s    0%     0%        0       0       0    14 kB

PROGRAM               HOST        PROCESS    SENDS/s     GETS/s  AGAIN/s REFUSED
ib_write_bw           h0             4711        90k        300      5.0       0

"#]]
        );
    }

    #[test]
    fn a_clock_that_fell_behind_is_said() {
        let mut now = seen(2);
        (now.slips, now.slipped_ns) = (3, 40_000_000);
        let line = clock(&seen(1), &now);
        assert_eq!(line.level, Level::Wrong);
        assert!(line.text.contains("fell behind 3 times, 40.0 ms in all, 1.0 % now"), "{line:?}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 4.2, 980.0, 12_345.0, 1.2e7].map(short),
            ["0", "4.2", "980", "12k", "12M"]
        );
        assert_eq!([0, 9_999, 10_000, 12_000_000].map(bytes), ["0 B", "9999 B", "10 kB", "12 MB"]);
    }
}
