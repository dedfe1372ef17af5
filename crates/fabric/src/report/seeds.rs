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

use telemetry::words::{COLUMNS, wrapped};
use telemetry::{Block, Cell, Figure as Drawing, Page, Table};

use super::Report;
use super::interval::{self, Interval};

/// What is said in place of intervals where there are none.
const ONE_DRAW: &str =
    "none: each seed came to the same, so they are one draw, and there is no interval";

/// A figure of a run: its name, its unit, and its value if it has one.
pub(super) type Number = (Cow<'static, str>, &'static str, Option<f64>);

/// What a figure is called in every table.
pub(super) fn label(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name}_{unit}") }
}

/// A figure over all runs that have it.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) label: String,
    words: String,
    /// How many have it.
    pub(super) runs: usize,
    pub(super) of: Interval,
}

/// How many runs ended in a way.
type Endings = BTreeMap<&'static str, usize>;

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) ending: &'static str,
    pub(super) numbers: Vec<Number>,
    pub(super) jobs: Option<Table>,
    /// Its flows, if they are kept.
    flows: Option<Table>,
}

/// What the runs of one scenario came to, in the order of their seeds.
#[derive(Clone, Debug, Default)]
pub struct Seeds {
    pub(super) title: String,
    pub(super) model: String,
    pub(super) runs: Vec<Run>,
}

impl Seeds {
    /// Adds a run; of its flows only if they are to be `kept`.
    pub fn add(&mut self, report: &Report<'_>, kept: bool) {
        self.title = report.title.to_owned();
        self.model = report.model();
        self.runs.push(Run {
            seed: report.network.seed(),
            ending: report.verdict.word(),
            numbers: report.numbers(),
            jobs: report.jobs(),
            flows: kept.then(|| report.flows()),
        });
        self.runs.sort_by_key(|run| run.seed);
    }

    /// What every file of results says about itself, as key and value.
    pub fn about(&self) -> [(&'static str, &str); 3] {
        [("origin", "simulated"), ("title", &self.title), ("model", &self.model)]
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

    /// Whether they are one draw.
    fn is_one_draw(&self) -> bool {
        interval::is_one_draw(self.runs.iter().map(|run| (run.ending, &run.numbers)))
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

    /// A row for each flow of each seed, of those that were kept.
    pub fn flows(&self) -> Option<Table> {
        joined(self.runs.iter().filter_map(|run| run.flows.as_ref()))
    }

    /// A row for each repetition of each job of each seed.
    pub fn jobs(&self) -> Option<Table> {
        joined(self.runs.iter().filter_map(|run| run.jobs.as_ref()))
    }

    /// A row for each figure.
    pub(super) fn intervals(&self) -> Vec<Figure> {
        let numbers = self.runs.first().into_iter().flat_map(|run| &run.numbers);
        let draws = if self.is_one_draw() { 1 } else { self.runs.len() };
        let of = |(place, (name, unit, _)): (usize, &Number)| {
            let values = self.runs.iter().filter_map(|run| run.numbers.get(place)?.2);
            let mut values: Vec<f64> = values.collect();
            let runs = values.len();
            values.truncate(draws);
            let mut words = name.replace('_', " ");
            if !unit.is_empty() {
                words += &format!(", {unit}");
            }
            if runs < self.runs.len() {
                words += &format!(" ({runs} of {} runs)", self.runs.len());
            }
            Some(Figure { label: label(name, unit), words, runs, of: Interval::of(values)? })
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
        let title = format!("{} (simulated, seeds {first} to {last})", self.title);
        text += &wrapped("", &title, COLUMNS);
        let _ = writeln!(text, "  ended        {}", self.ended());
        if self.is_one_draw() {
            text += &wrapped("  chance       ", ONE_DRAW, COLUMNS);
        }
        let mut rows = vec![["", "median", "95 % interval", "least", "most"].map(str::to_owned)];
        for Figure { words, of, .. } in self.intervals() {
            let likely = of.likely.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{} to {}", number(low), number(high)),
            );
            rows.push([words, number(of.median), likely, number(of.least), number(of.most)]);
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
        let count = self.runs.len();
        let title = format!("{}, {count} seeds", self.title);
        let mut page = Page::simulated(&title, &self.model);
        page.section("What happened").add(&Block::Text(&format!(
            "{count} runs, each with a seed of its own: {}. The 95 % interval is that of the median.",
            self.ended()
        )));
        if self.is_one_draw() {
            page.add(&Block::Notice(&format!("Left to chance: {ONE_DRAW}.")));
        }
        let mut table = Table::new("figures")
            .texts("figure")
            .floats("median", "")
            .floats("from", "")
            .floats("to", "")
            .floats("least", "")
            .floats("most", "");
        for Figure { words, of, .. } in &self.intervals() {
            let (low, high) = of.likely.unzip();
            table.push([
                words.into(),
                of.median.into(),
                low.into(),
                high.into(),
                of.least.into(),
                of.most.into(),
            ]);
        }
        page.add(&Block::Table(&table, ""));
        let runs = self.table();
        let figure = Drawing::ecdf(&runs, "goodput_gbps").title("Goodput over seeds");
        page.add(&Block::Figure(&figure));
        page.section("Every run").add(&Block::Table(&runs, ""));
        page.to_html()
    }
}

/// All rows of tables with the same columns.
fn joined<'t>(mut tables: impl Iterator<Item = &'t Table>) -> Option<Table> {
    let mut table = tables.next()?.clone();
    tables.for_each(|more| table.append(more));
    Some(table)
}

/// With three decimals, unless it is whole.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") }
}
