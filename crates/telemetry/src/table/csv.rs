//! Tables as CSV (RFC 4180, with plain line feeds).

use core::fmt::Write as _;

use super::{Cell, Table};

impl Table {
    /// A header line of labels, and a line for each row.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let labels = self.columns().iter().map(|column| Cell::Text(column.label()));
        line(&mut text, labels);
        for row in 0..self.len() {
            line(&mut text, self.columns().iter().map(|column| column.cell(row)));
        }
        text
    }
}

fn line<'a>(text: &mut String, cells: impl Iterator<Item = Cell<'a>>) {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            text.push(',');
        }
        field(text, cell);
    }
    text.push('\n');
}

fn field(text: &mut String, cell: Cell<'_>) {
    // Writing to a string cannot fail.
    let _ = match cell {
        Cell::Missing => Ok(()),
        Cell::Integer(value) => write!(text, "{value}"),
        Cell::Float(value) => write!(text, "{value}"),
        Cell::Text(value) if value.contains(['"', ',', '\n', '\r']) => {
            write!(text, "\"{}\"", value.replace('"', "\"\""))
        }
        Cell::Text(value) => text.write_str(value),
    };
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn a_field_with_quotes_or_commas_is_quoted() {
        assert_eq!(
            sample().to_csv(),
            "source,start_ps,rate_gbps\n\
             h0,5,1.5\n\
             \"a \"\"b\"\", c\",,-0.25\n\
             h0,9223372036854775807,\n"
        );
    }
}
