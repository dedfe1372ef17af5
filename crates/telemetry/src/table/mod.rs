//! Tables: named columns with units, and rows.
//!
//! ```text
//!   name      │ integer, ps │ float, Gb/s │ text
//!   ──────────┼─────────────┼─────────────┼──────────────────────────
//!   the title │ start_ps    │ rate_gbps   │ source (each text kept once)
//! ```
//!
//! A column is called by its name and, behind an underscore, its unit, in every format. A cell may be
//! missing; that is an empty field in CSV and null in JSON and Parquet.

mod csv;
mod json;
mod parquet;

use std::collections::HashMap;

/// What the cells of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 64-bit signed integers.
    Integer,
    /// 64-bit floating point numbers.
    Float,
    /// UTF-8 text.
    Text,
}

/// A cell on its way into a table, or out of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// Nothing is known.
    Missing,
    /// For a column of integers.
    Integer(i64),
    /// For a column of floats.
    Float(f64),
    /// For a column of text.
    Text(&'a str),
}

/// A column: its name, its unit, and its cells.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    name: String,
    unit: &'static str,
    label: String,
    cells: Cells,
    /// Which cells are there; empty as long as all are.
    present: Vec<bool>,
}

#[derive(Clone, PartialEq, Debug)]
enum Cells {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    /// An index into the texts for each cell.
    Texts(Vec<u32>, Texts),
}

/// Every text once.
#[derive(Clone, PartialEq, Debug, Default)]
struct Texts {
    all: Vec<String>,
    places: HashMap<String, u32>,
}

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    name: String,
    columns: Vec<Column>,
    rows: usize,
}

impl Table {
    /// A table without columns. Its name is that of its file, without an extension.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), columns: Vec::new(), rows: 0 }
    }

    /// Adds a column of integers. `unit` is as in names: `ps`, `bytes`, or nothing.
    pub fn integers(self, name: &str, unit: &'static str) -> Self {
        self.with(name, unit, Cells::Integers(Vec::new()))
    }

    /// Adds a column of floats.
    pub fn floats(self, name: &str, unit: &'static str) -> Self {
        self.with(name, unit, Cells::Floats(Vec::new()))
    }

    /// Adds a column of text.
    pub fn texts(self, name: &str) -> Self {
        self.with(name, "", Cells::Texts(Vec::new(), Texts::default()))
    }

    fn with(mut self, name: &str, unit: &'static str, cells: Cells) -> Self {
        assert!(self.rows == 0, "the columns of a table come before its rows");
        let label = if unit.is_empty() { name.to_owned() } else { format!("{name}_{unit}") };
        assert!(self.column(&label).is_none(), "{} has two columns {label}", self.name);
        self.columns.push(Column {
            name: name.to_owned(),
            unit,
            label,
            cells,
            present: Vec::new(),
        });
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If there are more or fewer cells than columns, or one is of another kind than its column.
    pub fn push<'a>(&mut self, row: impl IntoIterator<Item = Cell<'a>>) {
        let mut cells = row.into_iter();
        for column in &mut self.columns {
            let cell = cells.next();
            column.push(cell.unwrap_or_else(|| panic!("no cell for {}", column.label)), self.rows);
        }
        assert!(cells.next().is_none(), "{}: more cells than columns", self.name);
        self.rows += 1;
    }

    /// Adds all rows of a table with the same columns.
    ///
    /// # Panics
    /// If the columns are not the same.
    pub fn append(&mut self, other: &Self) {
        for row in 0..other.rows {
            self.push(other.columns.iter().map(|column| column.cell(row)));
        }
    }

    /// The name of its file, without an extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Its columns, from left to right.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column that is called `label`, its unit included, such as `start_ps`.
    pub fn column(&self, label: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.label == label)
    }
}

impl Column {
    fn push(&mut self, cell: Cell<'_>, rows: usize) {
        let missing = matches!(cell, Cell::Missing);
        if missing && self.present.is_empty() {
            self.present = vec![true; rows];
        }
        if missing || !self.present.is_empty() {
            self.present.push(!missing);
        }
        match (&mut self.cells, cell) {
            (Cells::Integers(all), Cell::Integer(value)) => all.push(value),
            (Cells::Integers(all), Cell::Missing) => all.push(0),
            (Cells::Floats(all), Cell::Float(value)) => all.push(value),
            (Cells::Floats(all), Cell::Missing) => all.push(0.0),
            (Cells::Texts(all, texts), Cell::Text(text)) => all.push(texts.place(text)),
            (Cells::Texts(all, _), Cell::Missing) => all.push(0),
            (_, cell) => panic!("{cell:?} in the column {}", self.label),
        }
    }

    /// Its name, without the unit.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its unit as in its label; empty for numbers without one, and for text.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Name and unit: what the column is called in every format.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What its cells are.
    pub fn kind(&self) -> Kind {
        match self.cells {
            Cells::Integers(_) => Kind::Integer,
            Cells::Floats(_) => Kind::Float,
            Cells::Texts(..) => Kind::Text,
        }
    }

    /// The cell of row `row`; missing if there is no such row.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        if self.present.get(row) == Some(&false) {
            return Cell::Missing;
        }
        let cell = match &self.cells {
            Cells::Integers(all) => all.get(row).map(|&value| Cell::Integer(value)),
            Cells::Floats(all) => all.get(row).map(|&value| Cell::Float(value)),
            Cells::Texts(all, texts) => {
                all.get(row).and_then(|&place| texts.all.get(place as usize)).map(|t| Cell::Text(t))
            }
        };
        cell.unwrap_or(Cell::Missing)
    }
}

impl Texts {
    fn place(&mut self, text: &str) -> u32 {
        if let Some(&place) = self.places.get(text) {
            return place;
        }
        let place = self.all.len() as u32;
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

impl Cell<'_> {
    /// The number, if it is one.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Missing | Self::Text(_) => None,
        }
    }
}

/// Beyond 2^63, the highest number that an integer column holds.
impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

/// See the conversion from `u64`.
impl From<usize> for Cell<'_> {
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<f64> for Cell<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

#[cfg(test)]
pub(crate) fn sample() -> Table {
    let mut table =
        Table::new("flows").texts("source").integers("start", "ps").floats("rate", "gbps");
    table.push(["h0".into(), 5u64.into(), 1.5.into()]);
    table.push(["a \"b\", c".into(), Cell::Missing, (-0.25).into()]);
    table.push(["h0".into(), u64::MAX.into(), Cell::Missing]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_went_in() {
        let table = sample();
        assert_eq!((table.len(), table.columns().len()), (3, 3));
        let start = table.column("start_ps").unwrap();
        assert_eq!((start.name(), start.unit(), start.kind()), ("start", "ps", Kind::Integer));
        let cells: Vec<Cell<'_>> = (0..4).map(|row| start.cell(row)).collect();
        let highest = Cell::Integer(i64::MAX);
        assert_eq!(cells, [Cell::Integer(5), Cell::Missing, highest, Cell::Missing]);
        let source = table.column("source").unwrap();
        assert_eq!(source.cell(1), Cell::Text("a \"b\", c"));
        assert_eq!(source.cell(2), Cell::Text("h0"));
    }

    #[test]
    #[should_panic(expected = "Text(\"x\") in the column n")]
    fn a_cell_of_another_kind_is_refused() {
        Table::new("t").integers("n", "").push(["x".into()]);
    }

    #[test]
    #[should_panic(expected = "more cells than columns")]
    fn a_row_that_is_too_long_is_refused() {
        Table::new("t").texts("a").push(["x".into(), "y".into()]);
    }
}
