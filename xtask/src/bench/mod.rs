//! `cargo xtask bench datapath`: our figures beside those of other programs.
//!
//! Ours and the peers' alternate in every round, because the machine changes from minute to
//! minute; a ratio is the median of the ratios of the rounds. All pairs are pinned to cores 0
//! and 1, server first.

mod floor;
mod measure;
mod memory;

use core::fmt;
use std::collections::BTreeMap;

use anyhow::{Result, bail};
use pico_args::Arguments;

use crate::lab::Lab;
use crate::terminal;
use measure::{Figure, ROUND, is_present};

const ROUNDS: usize = 5;

/// What a comparison must come to.
#[derive(Debug, Clone, Copy)]
enum Bar {
    AtMost(f64),
    AtLeast(f64),
    /// Reported only.
    None,
}

/// One row of the report: the first figure divided by the second, or alone.
struct Target {
    ours: Figure,
    peer: Option<Figure>,
    bar: Bar,
}

const TARGETS: [Target; 8] = [
    target(Figure::WriteLatency8, Some(Figure::UdpOneWay), Bar::AtMost(2.0)),
    target(Figure::Write64K, Some(Figure::UcxPut64K), Bar::AtLeast(1.0)),
    target(Figure::Write64K, Some(Figure::UcxTag64K), Bar::None),
    target(Figure::Write64K, Some(Figure::Iperf64K), Bar::None),
    target(Figure::Write1M, Some(Figure::UcxPut1M), Bar::None),
    target(Figure::Write1M, Some(Figure::UcxTag1M), Bar::None),
    target(Figure::Write1M, Some(Figure::Iperf1M), Bar::None),
    target(Figure::MemoryPerQp, None, Bar::AtMost(64.0)),
];

const fn target(ours: Figure, peer: Option<Figure>, bar: Bar) -> Target {
    Target { ours, peer, bar }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most:.1}"),
            Self::AtLeast(least) => write!(f, ">= {least:.1}"),
            Self::None => write!(f, "-"),
        }
    }
}

impl Bar {
    fn verdict(self, value: f64) -> String {
        match self {
            Self::None => String::new(),
            Self::AtMost(most) if value <= most => terminal::green("met"),
            Self::AtLeast(least) if value >= least => terminal::green("met"),
            Self::AtMost(_) | Self::AtLeast(_) => terminal::red("missed"),
        }
    }
}

/// What each round gave; `None` where it failed.
type Series = BTreeMap<Figure, Vec<Option<f64>>>;

/// The number of rounds from the command line.
pub(crate) fn rounds(arguments: &mut Arguments) -> Result<usize> {
    match arguments.opt_value_from_str("--rounds")?.unwrap_or(ROUNDS) {
        0 => bail!("--rounds 0 measures nothing"),
        rounds => Ok(rounds),
    }
}

/// Measures and prints. What misses its bar is said, and is no error: the machine may be busy.
pub(crate) fn datapath(rounds: usize) -> Result<()> {
    let lab = Lab::open_apart()?;
    let (present, missing): (Vec<Figure>, Vec<Figure>) = ROUND
        .into_iter()
        .partition(|figure| figure.needs().is_none_or(|(_, program)| is_present(program)));
    let mut series = Series::new();
    for round in 1..=rounds {
        terminal::heading(&format!("round {round} of {rounds}"));
        for &figure in &present {
            let value = match figure.measure(&lab) {
                Ok(value) => {
                    println!("  {:<34} {value:>10.3}", figure.name());
                    Some(value)
                }
                Err(error) => {
                    println!("  {:<34} {}: {error:#}", figure.name(), terminal::red("failed"));
                    None
                }
            };
            series.entry(figure).or_default().push(value);
        }
    }
    print_medians(&series, &missing);
    print_targets(&series);
    Ok(())
}

fn print_medians(series: &Series, missing: &[Figure]) {
    terminal::heading("medians");
    for (figure, values) in series {
        let mut good: Vec<f64> = values.iter().flatten().copied().collect();
        let failed = values.len() - good.len();
        let note = if failed > 0 { format!("  {failed} rounds failed") } else { String::new() };
        if good.is_empty() {
            println!("  {:<34}          -{note}", figure.name());
            continue;
        }
        let middle = median(&mut good);
        // `median` has sorted them.
        let (least, most) = (good[0], good[good.len() - 1]);
        println!("  {:<34} {middle:>10.3}  [{least:.3} .. {most:.3}]{note}", figure.name());
    }
    for figure in missing {
        let package = figure.needs().map_or("", |(package, _)| package);
        println!("  {:<34} not measured: apt install {package}", figure.name());
    }
}

fn print_targets(series: &Series) {
    terminal::heading("targets");
    println!("  {:<28} {:<28} {:>7}  bar", "", "compared with", "ratio");
    for Target { ours, peer, bar } in &TARGETS {
        let mut values = compared(series, *ours, *peer);
        let (value, verdict) = if values.is_empty() {
            ("-".to_owned(), "not measured".to_owned())
        } else {
            let value = median(&mut values);
            (format!("{value:.2}"), bar.verdict(value))
        };
        let (ours, peer, bar) = (short(*ours), peer.map_or("", short), bar.to_string());
        println!("  {ours:<28} {peer:<28} {value:>7}  {bar:<7} {verdict}");
    }
}

/// The name without its unit, which a ratio has not.
fn short(figure: Figure) -> &'static str {
    figure.name().split(", ").next().unwrap_or_default()
}

/// Ours over theirs, round by round; rounds in which either failed are left out.
fn compared(series: &Series, ours: Figure, peer: Option<Figure>) -> Vec<f64> {
    let values = |figure: Figure| series.get(&figure).map(Vec::as_slice).unwrap_or_default();
    match peer {
        None => values(ours).iter().flatten().copied().collect(),
        Some(peer) => {
            let rounds = values(ours).iter().zip(values(peer));
            rounds.filter_map(|(ours, peer)| Some((*ours)? / (*peer)?)).collect()
        }
    }
}

/// The middle value. Sorts.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_failed_does_not_pair_with_another() {
        let series = Series::from([
            (Figure::Write64K, vec![Some(9.0), None, Some(20.0)]),
            (Figure::UcxPut64K, vec![Some(3.0), Some(4.0), Some(5.0)]),
        ]);
        assert_eq!(compared(&series, Figure::Write64K, Some(Figure::UcxPut64K)), [3.0, 4.0]);
        assert_eq!(compared(&series, Figure::Write64K, None), [9.0, 20.0]);
        assert!(compared(&series, Figure::Write1M, None).is_empty());
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((median(&mut [4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!((median(&mut [9.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
