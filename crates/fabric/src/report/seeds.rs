//! One scenario with many seeds: medians and intervals in place of one draw.
//!
//! ```text
//!   seed ─► run ─► Report ─► numbers ─┐
//!   seed ─► run ─► Report ─► numbers ─┼─► median, its 95 % interval, least, most
//!   ...                              ─┘
//! ```

use core::fmt::Write as _;
use std::borrow::Cow;
use std::collections::BTreeMap;

use telemetry::{Block, Cell, Figure, Page, Table};

use super::Report;
use crate::Verdict;

/// A figure of a run: its name, its unit, and its value if it has one.
pub(super) type Number = (Cow<'static, str>, &'static str, Option<f64>);

/// How many runs ended in a way.
type Endings = BTreeMap<&'static str, usize>;

#[derive(Clone, Debug)]
struct Run {
    seed: u64,
    ending: &'static str,
    numbers: Vec<Number>,
}

/// What the runs of one scenario came to, in the order of their seeds.
#[derive(Clone, Debug, Default)]
pub struct Seeds {
    title: String,
    model: String,
    runs: Vec<Run>,
}

/// What a figure came to over all runs that have it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Interval {
    median: f64,
    /// In which the median of all seeds lies, with 95 %; `None` of fewer than six runs.
    likely: Option<(f64, f64)>,
    least: f64,
    most: f64,
}

impl Interval {
    /// `None` of no values.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let likely = rank(values.len()).map(|rank| (values[rank], values[values.len() - 1 - rank]));
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[half - 1], values[half]),
            _ => values[half],
        };
        Some(Self { median, likely, least, most })
    }
}

/// The place of the order statistic that, with the one as far from the other end, has the median between
/// them with 95 %: so many of `count` draws are below the median with 2.5 % at most.
fn rank(count: usize) -> Option<usize> {
    let mut ways = 0.5_f64.powi(count.min(1_000) as i32);
    let mut below = 0.0;
    for rank in 0..count.min(1_000) {
        below += ways;
        if below > 0.025 {
            return rank.checked_sub(1);
        }
        ways *= (count - rank) as f64 / (rank + 1) as f64;
    }
    None
}

impl Seeds {
    /// Adds a run that was made with `seed`.
    pub fn add(&mut self, seed: u64, report: &Report<'_>) {
        let ending = match report.verdict {
            Verdict::Finished => "finished",
            Verdict::TimeOver => "time over",
            Verdict::Stalled => "stalled",
            Verdict::Interrupted => "interrupted",
            Verdict::Deadlock(_) => "deadlocked",
        };
        self.title = report.title.to_owned();
        self.model = report.model();
        self.runs.push(Run { seed, ending, numbers: report.numbers() });
        self.runs.sort_by_key(|run| run.seed);
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs were deadlocked.
    pub fn deadlocks(&self) -> usize {
        self.endings().get("deadlocked").copied().unwrap_or(0)
    }

    fn endings(&self) -> Endings {
        let mut endings = Endings::new();
        for run in &self.runs {
            *endings.entry(run.ending).or_default() += 1;
        }
        endings
    }

    /// A row for each seed.
    pub fn table(&self) -> Table {
        let mut table = Table::new("seeds").integers("seed", "").texts("ended");
        for (name, unit, _) in self.runs.first().into_iter().flat_map(|run| &run.numbers) {
            table = table.floats(name, unit);
        }
        for run in &self.runs {
            let mut row: Vec<Cell<'_>> = vec![run.seed.into(), run.ending.into()];
            row.extend(run.numbers.iter().map(|(.., value)| Cell::from(*value)));
            table.push(row);
        }
        table
    }

    /// A row for each figure.
    fn intervals(&self) -> Vec<(String, Interval)> {
        let numbers = self.runs.first().into_iter().flat_map(|run| &run.numbers);
        let of = |(place, (name, unit, _)): (usize, &Number)| {
            let values = self.runs.iter().filter_map(|run| run.numbers.get(place)?.2);
            let values: Vec<f64> = values.collect();
            let mut name = name.replace('_', " ");
            if !unit.is_empty() {
                name += &format!(", {unit}");
            }
            if values.len() < self.runs.len() {
                name += &format!(" ({} of {} runs)", values.len(), self.runs.len());
            }
            Some((name, Interval::of(values)?))
        };
        numbers.enumerate().filter_map(of).collect()
    }

    fn ended(&self) -> String {
        let endings = self.endings();
        let ended: Vec<String> =
            endings.iter().map(|(ending, count)| format!("{count} {ending}")).collect();
        ended.join(", ")
    }

    /// What matters, in lines for a terminal.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let (first, last) = match self.runs.as_slice() {
            [first, .., last] => (first.seed, last.seed),
            _ => (0, 0),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} (simulated, seeds {first} to {last})", self.title);
        let _ = writeln!(text, "  ended        {}", self.ended());
        let mut rows = vec![["", "median", "95 % interval", "least", "most"].map(str::to_owned)];
        for (name, of) in self.intervals() {
            let likely = of.likely.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{} to {}", number(low), number(high)),
            );
            rows.push([name, number(of.median), likely, number(of.least), number(of.most)]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let [name, median, likely, least, most] = [0, 1, 2, 3, 4].map(width);
        for [a, b, c, d, e] in &rows {
            let _ =
                writeln!(text, "  {a:<name$}  {b:>median$}  {c:>likely$}  {d:>least$}  {e:>most$}");
        }
        text
    }

    /// One HTML file, with everything that it needs.
    pub fn page(&self) -> String {
        let mut page = Page::simulated(&self.title, &self.model);
        let count = self.runs.len();
        page.section("What happened").add(&Block::Text(&format!(
            "{count} runs, each with a seed of its own: {}. The 95 % interval is that of the median.",
            self.ended()
        )));
        let mut table = Table::new("figures")
            .texts("figure")
            .floats("median", "")
            .floats("from", "")
            .floats("to", "")
            .floats("least", "")
            .floats("most", "");
        for (name, of) in &self.intervals() {
            let (low, high) = of.likely.unzip();
            table.push([
                name.into(),
                of.median.into(),
                low.into(),
                high.into(),
                of.least.into(),
                of.most.into(),
            ]);
        }
        page.add(&Block::Table(&table, ""));
        let runs = self.table();
        let figure = Figure::ecdf(&runs, "goodput_gbps").title("Goodput over seeds");
        page.add(&Block::Figure(&figure));
        page.section("Every run").add(&Block::Table(&runs, ""));
        page.to_html()
    }
}

/// With three decimals, unless it is whole.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_binomial() {
        // Of six draws the median lies between the least and the most with 96.9 %; of eight with 99.2 %,
        // and between the second and the seventh with 93 %; of nine between those with 96.1 %.
        assert_eq!([5, 6, 8, 9, 20].map(rank), [None, Some(0), Some(0), Some(1), Some(5)]);
        let of = Interval::of((1..=9).map(f64::from).collect()).unwrap();
        assert_eq!((of.median, of.likely, of.least, of.most), (5.0, Some((2.0, 8.0)), 1.0, 9.0));
        assert_eq!(Interval::of(vec![1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Interval::of(Vec::new()), None);
    }
}
