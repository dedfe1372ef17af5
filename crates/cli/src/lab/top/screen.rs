//! What `lab top` shows, as data: lines about the whole, and tables of which the first is sorted by keys.
//!
//! **Invariant:** what a screen says does not depend on where it is shown. No cell is wider than its column, and no
//! control character of a name reaches the terminal.

use core::cmp::Ordering;
use core::fmt::Write;

use crate::view::{Column, fit};

/// How much something looks wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Level {
    /// Nothing happens.
    #[default]
    Quiet,
    /// It works.
    Fine,
    /// It may be meant so, such as a pause.
    Odd,
    /// It is not meant so, such as a drop.
    Wrong,
}

/// A line about the whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) level: Level,
}

impl Line {
    pub(super) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { text: text.into(), level }
    }
}

/// A row: a cell for each column, and for those of numbers what they are sorted by.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Row {
    pub(super) level: Level,
    /// Among rows of one level, the greater the higher.
    pub(super) weight: f64,
    pub(super) cells: Vec<Cell>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) key: f64,
    pub(super) level: Level,
}

impl Row {
    /// Adds a cell of text.
    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.cells.push(Cell { text: text.into(), key: 0.0, level: Level::Fine });
        self
    }

    /// Adds a number, as `text` says it.
    pub(super) fn number(mut self, key: f64, level: Level, text: impl Into<String>) -> Self {
        self.cells.push(Cell { text: text.into(), key, level });
        self.level = self.level.max(level);
        self
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Row>,
    /// What is said in place of rows, if there are none.
    pub(super) empty: &'static str,
}

/// What the rows are sorted by: what looks wrong, or a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sort(pub(super) Option<usize>);

impl Sort {
    /// The next one, or the one before, of a table with so many columns.
    pub(super) fn step(self, columns: usize, forward: bool) -> Self {
        // Place 0 is what looks wrong.
        let (place, count) = (self.0.map_or(0, |column| column + 1), columns + 1);
        let next = if forward { place + 1 } else { place + count - 1 } % count;
        Self(next.checked_sub(1))
    }

    /// What it is called.
    pub(super) fn name(self, grid: &Grid) -> &'static str {
        self.0.and_then(|column| grid.columns.get(column)).map_or("trouble", |column| column.title)
    }
}

impl Grid {
    /// Sorts the rows; what is equal stays in its order.
    pub(super) fn sort(&mut self, sort: Sort) {
        let numbers = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
        match sort.0.and_then(|index| Some((index, self.columns.get(index)?))) {
            None => self
                .rows
                .sort_by(|a, b| b.level.cmp(&a.level).then_with(|| numbers(a.weight, b.weight))),
            Some((index, column)) => self.rows.sort_by(|a, b| {
                let (Some(a), Some(b)) = (a.cells.get(index), b.cells.get(index)) else {
                    return Ordering::Equal;
                };
                if column.number { numbers(a.key, b.key) } else { a.text.cmp(&b.text) }
            }),
        }
    }

    /// The names of the columns, in a line.
    pub(super) fn header(&self) -> String {
        let names = self.columns.iter().map(|column| padded(column.title, *column));
        names.collect::<Vec<_>>().join(" ")
    }

    /// The cells of a row, each as wide as its column.
    pub(super) fn cells<'a>(&self, row: &'a Row) -> Vec<(String, &'a Cell)> {
        let cells = self.columns.iter().zip(&row.cells);
        cells.map(|(column, cell)| (padded(&cell.text, *column), cell)).collect()
    }
}

/// As wide as the column.
fn padded(text: &str, column: Column) -> String {
    let width = usize::from(column.width);
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let text = fit(&text, width);
    if column.number { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// A screen full.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    pub(super) head: Vec<Line>,
    pub(super) grids: Vec<Grid>,
}

impl Screen {
    /// All of it as text.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for line in &self.head {
            text += line.text.trim_end();
            text.push('\n');
        }
        for grid in &self.grids {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{}", grid.header().trim_end());
            for row in &grid.rows {
                let cells: Vec<String> =
                    grid.cells(row).into_iter().map(|(text, _)| text).collect();
                let _ = writeln!(text, "{}", cells.join(" ").trim_end());
            }
            if grid.rows.is_empty() {
                let _ = writeln!(text, "{}", grid.empty);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column { title: "PORT", width: 6, number: false },
        Column { title: "DROPS", width: 5, number: true },
    ];

    fn grid() -> Grid {
        let row = |name: &str, drops: f64, level| {
            Row { weight: drops, ..Row::default() }.text(name).number(
                drops,
                level,
                drops.to_string(),
            )
        };
        let rows = vec![
            row("b", 1.0, Level::Wrong),
            row("a", 0.0, Level::Quiet),
            row("a long name", 3.0, Level::Wrong),
            row("c", 9.0, Level::Odd),
        ];
        Grid { columns: COLUMNS, rows, empty: "nothing" }
    }

    fn order(sort: Sort) -> Vec<String> {
        let mut grid = grid();
        grid.sort(sort);
        grid.rows.iter().map(|row| row.cells[0].text.clone()).collect()
    }

    #[test]
    fn what_looks_wrong_stands_first_and_columns_can_be_sorted_by() {
        assert_eq!(order(Sort::default()), ["a long name", "b", "c", "a"]);
        assert_eq!(order(Sort(Some(0))), ["a", "a long name", "b", "c"]);
        assert_eq!(order(Sort(Some(1))), ["c", "a long name", "b", "a"]);
        let steps = [true, true, true, false].map(|forward| Sort::default().step(2, forward).0);
        assert_eq!(steps, [Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!(Sort(Some(1)).step(2, true), Sort(None));
    }

    #[test]
    fn cells_are_as_wide_as_their_columns_and_harmless() {
        let mut grid = grid();
        grid.rows.push(Row::default().text("x\x1b[2J").number(0.0, Level::Fine, "0"));
        let screen = Screen { head: vec![Line::new(Level::Fine, "head")], grids: vec![grid] };
        let expected = "head\n\nPORT   DROPS\nb          1\na          0\na l…me     3\nc          9\nx?[2J      0\n";
        assert_eq!(screen.to_text(), expected);
    }
}
