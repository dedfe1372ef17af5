//! The matrix for people: heat maps in 80 columns.

use core::fmt::{self, Write as _};

use telemetry::words::wrapped;

use super::result::{Number, Results, Spread};
use super::{bytes, short};
use crate::plan::WaitMode;

/// Characters of a cell, and of what stands before a row.
const CELL: usize = 8;
const LABEL: usize = 17;
/// Columns of a block: more would not fit into 80 characters.
const COLUMNS: usize = 7;

/// A heat map: what stands above its columns, and its rows.
struct Map<'a> {
    title: String,
    /// Above each column, two lines.
    columns: Vec<[String; 2]>,
    rows: Vec<(&'a str, Vec<Option<Spread>>)>,
}

impl fmt::Display for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.title)?;
        for from in (0..self.columns.len()).step_by(COLUMNS) {
            let until = (from + COLUMNS).min(self.columns.len());
            if from > 0 {
                f.write_char('\n')?;
            }
            for line in 0..2 {
                let above: String = self.columns[from..until]
                    .iter()
                    .map(|column| format!("{:>CELL$}", format!("{} ", column[line])))
                    .collect();
                writeln!(f, "{}", format!("{:LABEL$}{above}", "").trim_end())?;
            }
            for (name, cells) in &self.rows {
                let cells: String = cells[from..until].iter().map(cell).collect();
                writeln!(f, "{}", format!("{name:LABEL$}{cells}").trim_end())?;
            }
        }
        Ok(())
    }
}

/// A median; with a star where all draws lie on one side of 1.
fn cell(spread: &Option<Spread>) -> String {
    let Some(spread) = spread else { return format!("{:>CELL$}", "- ") };
    let digits = match spread.median {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let mark = if spread.is_one_sided() { '*' } else { ' ' };
    format!("{:>CELL$}", format!("{:.digits$}{mark}", spread.median))
}

impl Results {
    fn above(&self, kind: usize) -> [String; 2] {
        let flow = &self.matrix.kinds[kind];
        [format!("{} {}", short(flow.verb), &flow.wait.name()[..1]), bytes(flow.size_bytes)]
    }

    /// Elephants that wait one way beside those that wait another.
    fn shares(&self, left: WaitMode, top: WaitMode) -> Map<'_> {
        let of = |wait: WaitMode| {
            let kinds = self.kinds(false).into_iter();
            kinds.filter(move |kind| self.matrix.kinds[*kind].wait == wait).collect::<Vec<usize>>()
        };
        let (rows, columns) = (of(left), of(top));
        let row = |row: &usize| {
            let cells = columns.iter().map(|column| self.share(*row, *column)).collect();
            (self.matrix.kinds[*row].name.as_str(), cells)
        };
        Map {
            title: format!(
                "elephants: bandwidth of left over top; left {}, top {}",
                left.name(),
                top.name()
            ),
            columns: columns.iter().map(|kind| self.above(*kind)).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    /// Some kinds beside others, each over itself alone.
    fn slowed(&self, title: &str, rows: &[usize], columns: &[usize], number: Number) -> Map<'_> {
        let has_control = rows.iter().all(|kind| self.again(*kind, number).is_some());
        let row = |row: &usize| {
            let control = has_control.then(|| self.again(*row, number));
            let beside = columns.iter().map(|column| self.beside(*row, *column, number));
            (self.matrix.kinds[*row].name.as_str(), control.into_iter().chain(beside).collect())
        };
        let control = has_control.then(|| ["alone".to_owned(), "again".to_owned()]);
        let columns = columns.iter().map(|kind| self.above(*kind));
        Map {
            title: title.to_owned(),
            columns: control.into_iter().chain(columns).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    fn maps(&self) -> Vec<Map<'_>> {
        let mut maps = Vec::new();
        let waits: Vec<WaitMode> = [WaitMode::Event, WaitMode::Poll]
            .into_iter()
            .filter(|wait| {
                self.kinds(false).iter().any(|kind| self.matrix.kinds[*kind].wait == *wait)
            })
            .collect();
        for (index, left) in waits.iter().enumerate() {
            maps.extend(waits[..=index].iter().map(|top| self.shares(*left, *top)));
        }
        let (mice, elephants) = (self.kinds(true), self.beside_mice());
        let over = "left beside top over left alone";
        for (what, number) in [("median latency", Number::P50), ("p99 latency", Number::P99)] {
            maps.push(self.slowed(&format!("mice: {what} of {over}"), &mice, &mice, number));
        }
        let numbers =
            [("median latency", Number::P50), ("p99 latency", Number::P99), ("rate", Number::Rate)];
        for (what, number) in numbers {
            let title = format!("mice beside elephants: {what} of {over}");
            maps.push(self.slowed(&title, &mice, &elephants, number));
        }
        let title = format!("elephants beside mice: bandwidth of {over}");
        maps.push(self.slowed(&title, &elephants, &mice, Number::Bandwidth));
        maps
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = &self.matrix;
        f.write_str(&wrapped("world     ", &format!("{}: {}", self.world, self.about), 80))?;
        if let Some(why) = &self.partial {
            writeln!(f, "PARTIAL   {why}")?;
        }
        writeln!(
            f,
            "measured  {} of {} rounds over {} cells, {} ms a draw",
            self.rounds(),
            matrix.rounds,
            matrix.cells.len(),
            matrix.draw_ms
        )?;
        writeln!(f, "a number  the median of the draws; * eight or more, all on one side of 1")?;
        writeln!(f, "columns   e sleeps for events, p polls; one message at a time")?;
        for map in self.maps() {
            map.fmt(f)?;
        }
        writeln!(f, "\nmany alike: Jain's index of their bandwidths, median (least to greatest)")?;
        for cell in &matrix.cells {
            let super::Cell::Crowd(kind, flows) = *cell else { continue };
            let fairness = self.fairness(kind, flows);
            let told = fairness.map_or("-".to_owned(), |fairness| fairness.to_string());
            writeln!(f, "{:22} {told}", matrix.label(*cell))?;
        }
        Ok(())
    }
}
