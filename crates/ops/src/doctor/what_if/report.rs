//! Draws side by side: what runs, and what is desired.

use serde_json::{Value, json as object};

use super::{Draw, Fate, Outcome, Trial};
use crate::doctor::report::{harmless, wrapped};
use crate::doctor::rules::bytes;

/// Columns of the table, in characters.
const NAME: usize = 27;
const COLUMN: usize = 26;
/// Victims and switches that are listed; of the others it is said how many there are.
const LISTED: usize = 24;

/// The middle of some values, the least and the most.
#[derive(Clone, Copy)]
struct Spread([f64; 3]);

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = values.collect();
        all.sort_by(f64::total_cmp);
        let (least, most) = (*all.first()?, *all.last()?);
        let middle = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
        Some(Self([middle, least, most]))
    }

    fn told(self, of: impl Fn(f64) -> String) -> String {
        let [middle, least, most] = self.0.map(of);
        if least == most { middle } else { format!("{middle} ({least} to {most})") }
    }
}

fn whole(value: f64) -> String {
    bytes(value.round() as u64)
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

/// Milliseconds with as many digits as matter.
fn ms(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// A host over all draws in which it had no fault: in how many it was a victim, and of these what became of it.
struct Told {
    victim: usize,
    draws: usize,
    delivered: Option<Spread>,
    slowest: Option<Spread>,
}

fn told(draws: &[Draw], column: usize, host: usize) -> Told {
    let fates = || draws.iter().filter_map(|draw| *draw.outcomes.get(column)?.hosts.get(host)?);
    let victims = || fates().filter(Fate::is_victim);
    Told {
        victim: victims().count(),
        draws: fates().count(),
        delivered: Spread::of(victims().map(|fate| fate.delivered)),
        slowest: Spread::of(victims().map(|fate| fate.slowest_ms[1])),
    }
}

fn fates(outcome: &Outcome) -> impl Iterator<Item = &Fate> {
    outcome.hosts.iter().flatten()
}

type Row = (&'static str, fn(&Outcome) -> f64, fn(f64) -> String);

const ROWS: [Row; 6] = [
    ("victims", |of| fates(of).filter(|fate| fate.is_victim()).count() as f64, whole),
    ("servers paused", |of| of.paused_servers as f64, whole),
    (
        "pauses of switches",
        |of| of.pauses.iter().map(|pauses| pauses[0]).sum::<u64>() as f64,
        whole,
    ),
    ("storms found by watchdogs", |of| of.detected as f64, whole),
    ("packets dropped", |of| of.drops as f64, whole),
    ("deadlocks", |of| f64::from(u8::from(of.deadlock.is_some())), whole),
];

fn spread(draws: &[Draw], column: usize, of: impl Fn(&Outcome) -> f64) -> Option<Spread> {
    Spread::of(draws.iter().filter_map(|draw| draw.outcomes.get(column)).map(of))
}

fn line(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let mut line = format!("{name:<NAME$}");
    for cell in cells {
        line += &format!("{cell:<COLUMN$}");
    }
    *text += line.trim_end();
    text.push('\n');
}

/// All draws for a terminal. `read` is what was read.
pub fn text(trial: &Trial, draws: &[Draw], read: &str) -> String {
    let Trial { what, columns, hosts, switches, assumed, at, window, .. } = trial;
    let at = match at {
        Some(at) => format!("at {}", hosts[*at as usize]),
        None => "each at another server".to_owned(),
    };
    let window = window.as_ps() / 1_000_000_000;
    let mut text = wrapped(
        &format!(
            "{read}: what if {} ({}): {} draws, {at}, of {window} ms. Middle (least to most); victims are \
             other servers whose messages to others are fewer than four fifths, or whose slowest hundredth \
             takes twice as long, by the same draw without the fault.",
            what.words(),
            what.name(),
            draws.len(),
        ),
        0,
        0,
    );
    text.push('\n');
    line(&mut text, "", columns.iter().map(|(name, _)| (*name).to_owned()));
    for (name, of, told) in ROWS {
        let cell = |column| spread(draws, column, of).map_or(String::new(), |all| all.told(told));
        line(&mut text, name, (0..columns.len()).map(cell));
    }
    text.push('\n');
    victims(&mut text, trial, draws);
    pauses(&mut text, columns.len(), switches, draws);
    for draw in draws {
        for ((name, _), outcome) in columns.iter().zip(&draw.outcomes) {
            if let Some(circle) = &outcome.deadlock {
                let host = &hosts[draw.at as usize];
                text += &wrapped(&format!("deadlock, {name}, fault at {host}: {circle}"), 0, 2);
            }
        }
    }
    for why in assumed {
        text += &wrapped(&format!("assumed: {why}"), 0, 9);
    }
    harmless(&text)
}

fn victims(text: &mut String, trial: &Trial, draws: &[Draw]) {
    let columns = 0..trial.columns.len();
    let all = trial.hosts.iter().enumerate().map(|(host, name)| {
        (name, columns.clone().map(|column| told(draws, column, host)).collect::<Vec<_>>())
    });
    let mut all: Vec<_> = all.filter(|(_, told)| told.iter().any(|told| told.victim > 0)).collect();
    if all.is_empty() {
        *text += "no server is a victim in any draw\n\n";
        return;
    }
    all.sort_by_key(|(_, told)| core::cmp::Reverse(told[0].victim));
    line(text, "victim", columns.clone().map(|_| "draws; delivered; slowest".to_owned()));
    for (name, told) in all.iter().take(LISTED) {
        let cells = told.iter().map(|told| match (told.delivered, told.slowest) {
            (Some(delivered), Some(slowest)) => format!(
                "{}/{}; {}; {} ms",
                told.victim,
                told.draws,
                percent(delivered.0[0]),
                ms(slowest.0[0])
            ),
            _ => "-".to_owned(),
        });
        line(text, name, cells);
    }
    if all.len() > LISTED {
        *text += &format!("and {} more\n", all.len() - LISTED);
    }
    text.push('\n');
}

/// Switches that pause with the fault, and how often without.
fn pauses(text: &mut String, columns: usize, switches: &[String], draws: &[Draw]) {
    let of = |column: usize, switch: usize, which: usize| {
        spread(draws, column, |of| of.pauses.get(switch).map_or(0.0, |all| all[which] as f64))
    };
    let most = |switch: usize| {
        (0..columns)
            .filter_map(|column| of(column, switch, 0))
            .map(|all| all.0[2])
            .fold(0.0, f64::max)
    };
    let mut all: Vec<usize> = (0..switches.len()).filter(|&switch| most(switch) > 0.0).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| most(*b).total_cmp(&most(*a)));
    line(text, "pauses sent by", (0..columns).map(|_| "with the fault".to_owned()));
    for &switch in all.iter().take(LISTED) {
        let cells = (0..columns)
            .map(|column| of(column, switch, 0).map_or(String::new(), |all| all.told(whole)));
        line(text, &switches[switch], cells);
    }
    text.push('\n');
}

/// All draws for scripts. Keys are only ever added.
pub fn json(trial: &Trial, draws: &[Draw], read: &str) -> String {
    let outcome = |(name, of): (&str, &Outcome)| {
        let hosts = trial.hosts.iter().zip(&of.hosts).filter_map(|(name, fate)| {
            let fate = (*fate)?;
            Some(object!({
                "host": name,
                "victim": fate.is_victim(),
                "delivered": fate.delivered,
                "slowest_ms": { "without": fate.slowest_ms[0], "with": fate.slowest_ms[1] },
            }))
        });
        let switches = trial.switches.iter().zip(&of.pauses).map(|(name, [with, without])| {
            object!({ "switch": name, "pauses": { "without": without, "with": with } })
        });
        object!({
            "configuration": name,
            "hosts": hosts.collect::<Vec<_>>(),
            "switches": switches.collect::<Vec<_>>(),
            "paused_servers": of.paused_servers,
            "drops": of.drops,
            "storms_found": of.detected,
            "deadlock": of.deadlock,
        })
    };
    let all = draws.iter().map(|draw| {
        let columns = trial.columns.iter().map(|(name, _)| *name);
        let outcomes: Vec<Value> = columns.zip(&draw.outcomes).map(outcome).collect();
        object!({ "at": trial.hosts[draw.at as usize], "outcomes": outcomes })
    });
    let value = object!({
        "version": 1,
        "read": read,
        "what_if": trial.what.name(),
        "window_ms": trial.window.as_ps() as f64 / 1e9,
        "assumed": trial.assumed,
        "draws": all.collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}
