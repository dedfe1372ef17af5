//! What terminal views share: a table of rates that fits 80 columns, as text and on a screen, and numbers that are short.

use core::fmt::Write as _;

use ratatui::layout::{Alignment, Constraint};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row as ScreenRow, Table};

/// A column: its title, its width, and whether numbers stand in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: u16,
    pub(crate) number: bool,
}

/// A row of a table, and whether it is marked as wrong.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) cells: Vec<String>,
    pub(crate) wrong: bool,
}

/// A rate in at most six characters: `0`, `12`, `3.4k`, `1.2M`; `-` if nobody counts it.
pub(crate) fn short(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    for (unit, letter) in steps {
        // From 999.5 on it would be written with four digits.
        if value >= unit * 0.9995 {
            let value = value / unit;
            return if value < 9.95 {
                format!("{value:.1}{letter}")
            } else {
                format!("{value:.0}{letter}")
            };
        }
    }
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// `part` of the time, in percent.
pub(crate) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", 100.0 * part))
}

/// `text` in `width` characters; one that is longer loses its middle.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let (begin, end) = (width.saturating_sub(1).div_ceil(2), width.saturating_sub(1) / 2);
    let first: String = text.chars().take(begin).collect();
    let last: String = text.chars().skip(length - end).collect();
    format!("{first}…{last}")
}

/// The table as plain text.
pub(crate) fn text(columns: &[Column], lines: &[Line]) -> String {
    let mut text = String::new();
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    let title = Line { cells: titles, wrong: false };
    for line in [&title].into_iter().chain(lines) {
        let mut written = String::new();
        for (column, cell) in columns.iter().zip(&line.cells) {
            let width = usize::from(column.width);
            let cell = fit(cell, width);
            // Writing to a string cannot fail.
            let _ = if column.number {
                write!(written, "{cell:>width$} ")
            } else {
                write!(written, "{cell:<width$} ")
            };
        }
        text += written.trim_end();
        text.push('\n');
    }
    text
}

/// The table for a screen, from row `first` on.
pub(crate) fn table<'a>(columns: &[Column], lines: &'a [Line], first: usize) -> Table<'a> {
    let cell = |column: &Column, text: String| {
        let alignment = if column.number { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(text).alignment(alignment))
    };
    let rows: Vec<ScreenRow<'a>> = lines
        .iter()
        .skip(first)
        .map(|line| {
            let cells = columns.iter().zip(&line.cells);
            let row = ScreenRow::new(
                cells.map(|(column, text)| cell(column, fit(text, column.width.into()))),
            );
            if line.wrong { row.style(Style::new().fg(Color::Red)) } else { row }
        })
        .collect();
    let titles = columns.iter().map(|column| cell(column, column.title.to_owned()));
    let header = ScreenRow::new(titles).style(Style::new().add_modifier(Modifier::BOLD));
    let widths: Vec<Constraint> =
        columns.iter().map(|column| Constraint::Length(column.width)).collect();
    Table::new(rows, widths).header(header).column_spacing(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        for (value, expected) in [
            (None, "-"),
            (Some(0.0), "0"),
            (Some(0.5), "0.5"),
            (Some(12.4), "12"),
            (Some(999.4), "999"),
            (Some(999.6), "1.0k"),
            (Some(3_400.0), "3.4k"),
            (Some(99_960.0), "100k"),
            (Some(1.25e12), "1.2T"),
        ] {
            assert_eq!(short(value), expected, "{value:?}");
        }
    }

    #[test]
    fn what_does_not_fit_loses_its_middle() {
        assert_eq!(fit("Ethernet120", 8), "Ethe…120");
        assert_eq!(fit("h0", 8), "h0");
        assert_eq!(fit("ab", 1), "…");
    }
}
