//! `cargo xtask bench`: our figures beside those of other programs (`datapath`, `ucx`), those of `ferroce
//! bench` beside perftest's (`verbs`), and what many connections cost (`connections`). Paths that lose and
//! delay (`network`) have a room of their own, and so have labs (`labs/scale.rs`).
//!
//! Ours and the peers' alternate in every round, because the machine changes from minute to
//! minute; a ratio is the median of the ratios of the rounds. All pairs are pinned to cores 0
//! and 1, server first.

mod figure;
mod floor;
mod measure;
mod queue_pairs;

use core::fmt;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;

use crate::lab::Lab;
use crate::median::median;
use crate::{terminal, workspace};
use figure as f;
use figure::Figure;

const ROUNDS: usize = 5;

/// The bar of a comparison.
#[derive(Debug, Clone, Copy)]
enum Bar {
    AtMost(f64),
    AtLeast(f64),
    /// Off from 1 by no more than this.
    Near(f64),
    /// Reported only.
    None,
}

/// One row of the report: the first figure divided by the second, or alone.
struct Target {
    /// As the design of the data path numbers them.
    id: &'static str,
    ours: Figure,
    peer: Option<Figure>,
    bar: Bar,
}

use Bar::{AtLeast, AtMost};

/// What is measured together.
#[derive(Clone, Copy)]
pub(crate) struct Set {
    name: &'static str,
    targets: &'static [Target],
}

const SETS: [Set; 4] = [
    Set { name: "datapath", targets: DATAPATH },
    Set { name: "ucx", targets: UCX },
    Set { name: "verbs", targets: VERBS },
    Set { name: "connections", targets: CONNECTIONS },
];

const DATAPATH: &[Target] = &[
    target("U1", f::WRITE_LAT_8, Some(f::SPIN), AtMost(1.3)),
    target("U1", f::WRITE_LAT_8, Some(f::TURNS), Bar::None),
    target("U2", f::WRITE_64K, Some(f::UCX_PUT_64K), AtLeast(2.5)),
    target("U2", f::WRITE_64K, Some(f::UCX_TAG_64K), AtLeast(1.5)),
    target("U2", f::WRITE_64K, Some(f::FI_TCP_WRITE_64K), AtLeast(1.3)),
    target("U2", f::WRITE_64K, Some(f::IPERF_64K), AtLeast(1.0)),
    target("U2", f::WRITE_64K, Some(f::TRAINS), Bar::None),
    target("U3", f::WRITE_1M, Some(f::IPERF_1M), AtLeast(0.9)),
    target("U3", f::WRITE_1M, Some(f::UCX_TAG_1M), AtLeast(0.65)),
    target("U3", f::WRITE_1M, Some(f::UCX_PUT_1M), AtLeast(10.0)),
    target("U4", f::WRITE_LAT_64K, Some(f::UCX_PUT_LAT_64K), AtMost(0.5)),
    target("U4", f::WRITE_LAT_64K, Some(f::FI_TCP_LAT_64K), AtMost(2.5)),
    target("U5", f::WRITE_4K, Some(f::UCX_PUT_4K), AtLeast(2.0)),
    target("U6", f::WRITE_64, Some(f::UCX_PUT_64), AtLeast(5.0)),
    target("U7", f::WRITE_64K_MTU_1024, Some(f::WRITE_64K), AtLeast(0.7)),
    target("U7", f::WRITE_64K_EXACT, Some(f::UCX_PUT_64K), AtLeast(0.85)),
    // The share of a packet's time that is its ICRC's, on each side.
    target("U8", f::WRITE_64K, Some(f::ICRC), AtMost(0.15)),
    target("P1", f::READ_LAT_8, Some(f::WRITE_LAT_8), AtMost(2.5)),
    target("P2", f::SPINS_MEDIAN, Some(f::WRITE_LAT_8), AtMost(2.5)),
    target("P2", f::SPINS_MEAN, Some(f::WRITE_LAT_8), AtMost(4.0)),
    target("P3", f::SEND_LAT_EVENTS, Some(f::SLEEP), AtMost(1.3)),
    target("P4", f::IDLE, None, AtMost(0.5)),
    target("S1", f::HOST_LAT_8, None, AtMost(1.5)),
    target("S2", f::HOST_64K, Some(f::UCX_MEMORY_64K), AtLeast(1.0)),
    target("S2", f::HOST_1M, Some(f::UCX_MEMORY_1M), AtLeast(1.0)),
    target("S2", f::HOST_NEW_64K, Some(f::READ_NEW_64K), Bar::None),
    target("S2", f::HOST_NEW_1M, Some(f::READ_NEW_1M), Bar::None),
    target("S3", f::HOST_64K, Some(f::WRITE_64K), AtLeast(2.0)),
    target("S", f::HOST_64K_ICRC, Some(f::HOST_64K), Bar::None),
    target("scale", f::QPS_4096, Some(f::QPS_16), AtLeast(0.8)),
    target("scale", f::QPS_256, Some(f::QPS_16), Bar::None),
    target("scale", f::QPS_2, Some(f::QPS_16), Bar::None),
    target("scale", f::THREADS_2, Some(f::THREADS_1), AtLeast(1.0)),
    target("scale", f::THREADS_4, Some(f::THREADS_1), AtLeast(1.0)),
    target("scale", f::QP_MEMORY, None, AtMost(64.0)),
];

/// `ferroce bench` against perftest on the same path.
const VERBS: &[Target] = &[
    target("udp", f::BENCH_WRITE_64K, Some(f::WRITE_64K), Bar::Near(0.1)),
    target("udp", f::BENCH_SEND_64K, Some(f::SEND_64K), Bar::Near(0.1)),
    target("udp", f::BENCH_READ_64K, Some(f::READ_64K), Bar::Near(0.1)),
    target("udp", f::BENCH_FETCH_ADD, Some(f::FETCH_ADD), Bar::Near(0.1)),
    target("udp", f::BENCH_FETCH_ADD_16, Some(f::FETCH_ADD_16), Bar::Near(0.1)),
    target("host", f::BENCH_HOST_64K, Some(f::HOST_64K), Bar::Near(0.1)),
    target("host", f::BENCH_HOST_SEND_64K, Some(f::HOST_SEND_64K), Bar::Near(0.1)),
    target("host", f::BENCH_HOST_READ_64K, Some(f::HOST_READ_64K), Bar::Near(0.1)),
];

/// UCX's tag matching over Ferroce, and over its own TCP.
const UCX: &[Target] = &[
    target("udp", f::TAG_LAT_UDP, Some(f::TAG_LAT_TCP), Bar::None),
    target("udp", f::TAG_64K_UDP, Some(f::UCX_TAG_64K), Bar::None),
    target("udp", f::TAG_1M_UDP, Some(f::UCX_TAG_1M), Bar::None),
    target("host", f::TAG_LAT_HOST, Some(f::TAG_LAT_TCP), Bar::None),
    target("host", f::TAG_64K_HOST, Some(f::UCX_TAG_64K), Bar::None),
    target("host", f::TAG_1M_HOST, Some(f::UCX_TAG_1M), Bar::None),
];

/// Costs of one each: with ten times as many, a linear cost stays the same, a quadratic one is ten times
/// as much.
const CONNECTIONS: &[Target] = &[
    target("cm", f::CMTIME_500, Some(f::CMTIME_50), Bar::None),
    target("cm", f::CMTIME_5000, Some(f::CMTIME_500), Bar::None),
    target("open", f::QP_TIME_1000, Some(f::QP_TIME_10), Bar::None),
    target("open", f::QP_TIME_10000, Some(f::QP_TIME_1000), AtMost(2.0)),
    target("memory", f::QP_MEMORY, Some(f::QP_MEMORY_10), Bar::None),
    target("memory", f::QP_MEMORY_10000, Some(f::QP_MEMORY), AtMost(1.5)),
];

const fn target(id: &'static str, ours: Figure, peer: Option<Figure>, bar: Bar) -> Target {
    Target { id, ours, peer, bar }
}

impl Set {
    /// The set of this name.
    pub(crate) fn named(name: Option<&str>) -> Result<Self> {
        let set = SETS.into_iter().find(|set| name == Some(set.name));
        set.with_context(|| {
            let names = SETS.map(|set| set.name).join(", ");
            format!("what is to be measured? `cargo xtask bench` and one of {names}, lab, network")
        })
    }
}

/// Everything that is measured in a round: how near the cores are, and what the targets name, each
/// once and ours next to its peers.
fn round(targets: &[Target]) -> Vec<Figure> {
    let named = targets.iter().flat_map(|target| [Some(target.ours), target.peer]).flatten();
    let mut figures = vec![f::CACHE_LINE];
    for figure in named {
        if figures.iter().all(|known| known.name != figure.name) {
            figures.push(figure);
        }
    }
    figures
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::Near(off) => write!(f, "1 +- {off}"),
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
            Self::Near(off) if (value - 1.0).abs() <= off => terminal::green("met"),
            Self::AtMost(_) | Self::AtLeast(_) | Self::Near(_) => terminal::red("missed"),
        }
    }
}

/// What each round gave, by the name of the figure; `None` where it failed.
type Series = BTreeMap<&'static str, Vec<Option<f64>>>;

/// The number of rounds from the command line.
pub(crate) fn rounds(arguments: &mut Arguments) -> Result<usize> {
    match arguments.opt_value_from_str("--rounds")?.unwrap_or(ROUNDS) {
        0 => bail!("--rounds 0 measures nothing"),
        rounds => Ok(rounds),
    }
}

/// Measures and prints. A missed bar is reported, and is no error: the machine may be busy.
pub(crate) fn run(set: Set, rounds: usize) -> Result<()> {
    let lab = Lab::open_apart()?;
    let (present, missing): (Vec<Figure>, Vec<Figure>) =
        round(set.targets).into_iter().partition(|figure| {
            figure.needs().is_none_or(|(_, program)| workspace::installed(program).is_some())
        });
    let mut series = Series::new();
    let width = width(present.iter().chain(&missing).map(|figure| figure.name));
    for round in 1..=rounds {
        terminal::heading(&format!("round {round} of {rounds}"));
        for figure in &present {
            let value = match figure.measure(&lab) {
                Ok(value) => {
                    println!("  {:<width$} {value:>10.3}", figure.name);
                    Some(value)
                }
                Err(error) => {
                    println!("  {:<width$} {}: {error:#}", figure.name, terminal::red("failed"));
                    None
                }
            };
            series.entry(figure.name).or_default().push(value);
        }
    }
    print_medians(&series, &present, &missing, width);
    print_targets(&series, set.targets);
    Ok(())
}

/// The widest of some names.
fn width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(str::len).max().unwrap_or(0)
}

fn print_medians(series: &Series, present: &[Figure], missing: &[Figure], width: usize) {
    terminal::heading("medians");
    for figure in present {
        let values = series.get(figure.name).map(Vec::as_slice).unwrap_or_default();
        let mut good: Vec<f64> = values.iter().flatten().copied().collect();
        let failed = values.len() - good.len();
        let note = if failed > 0 { format!("  {failed} rounds failed") } else { String::new() };
        let Some(middle) = median(&mut good) else {
            println!("  {:<width$}          -{note}", figure.name);
            continue;
        };
        // `median` has sorted them.
        let (least, most) = (good[0], good[good.len() - 1]);
        println!("  {:<width$} {middle:>10.3}  [{least:.3} .. {most:.3}]{note}", figure.name);
    }
    for figure in missing {
        let package = figure.needs().map_or("", |(package, _)| package);
        println!("  {:<width$} not measured: apt install {package}", figure.name);
    }
}

fn print_targets(series: &Series, targets: &[Target]) {
    terminal::heading("targets");
    let own = width(targets.iter().map(|target| short(&target.ours)));
    let theirs = width(targets.iter().filter_map(|target| target.peer.as_ref()).map(short));
    println!("  {:<6} {:<own$} {:<theirs$} {:>7}  bar", "", "", "compared with", "ratio");
    for Target { id, ours, peer, bar } in targets {
        let mut values = compared(series, ours, peer.as_ref());
        let (value, verdict) = match median(&mut values) {
            None => ("-".to_owned(), "not measured".to_owned()),
            Some(value) => (format!("{value:.2}"), bar.verdict(value)),
        };
        let (ours, peer, bar) = (short(ours), peer.as_ref().map_or("", short), bar.to_string());
        println!("  {id:<6} {ours:<own$} {peer:<theirs$} {value:>7}  {bar:<7} {verdict}");
    }
}

/// The name without its unit, which a ratio has not.
fn short(figure: &Figure) -> &'static str {
    figure.name.rsplit_once(", ").map_or(figure.name, |(name, _)| name)
}

/// Ours over theirs, round by round; rounds in which either failed are left out.
fn compared(series: &Series, ours: &Figure, peer: Option<&Figure>) -> Vec<f64> {
    let values = |figure: &Figure| series.get(figure.name).map(Vec::as_slice).unwrap_or_default();
    match peer {
        None => values(ours).iter().flatten().copied().collect(),
        Some(peer) => {
            let rounds = values(ours).iter().zip(values(peer));
            rounds.filter_map(|(ours, peer)| Some((*ours)? / (*peer)?)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_failed_does_not_pair_with_another() {
        let series = Series::from([
            (f::WRITE_64K.name, vec![Some(9.0), None, Some(20.0)]),
            (f::UCX_PUT_64K.name, vec![Some(3.0), Some(4.0), Some(5.0)]),
        ]);
        assert_eq!(compared(&series, &f::WRITE_64K, Some(&f::UCX_PUT_64K)), [3.0, 4.0]);
        assert_eq!(compared(&series, &f::WRITE_64K, None), [9.0, 20.0]);
        assert!(compared(&series, &f::WRITE_1M, None).is_empty());
    }
}
