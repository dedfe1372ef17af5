//! Tables as JSON: an array of objects, one a line.

use serde_json::Value;

use super::{Cell, Table};

impl Table {
    /// An array with an object for each row; cells that are missing, or not a finite number, are null.
    pub fn to_json(&self) -> String {
        let names: Vec<String> =
            self.columns().iter().map(|column| Value::from(column.label()).to_string()).collect();
        let mut text = String::from("[");
        for row in 0..self.len() {
            text += if row == 0 { "\n" } else { ",\n" };
            for (index, (column, name)) in self.columns().iter().zip(&names).enumerate() {
                text.push(if index == 0 { '{' } else { ',' });
                text += name;
                text.push(':');
                text += &Value::from(column.cell(row)).to_string();
            }
            text.push('}');
        }
        text += "\n]\n";
        text
    }
}

impl From<Cell<'_>> for Value {
    fn from(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Missing => Self::Null,
            Cell::Integer(value) => value.into(),
            Cell::Float(value) => value.into(),
            Cell::Text(value) => value.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn rows_are_objects_that_a_parser_reads() {
        let text = sample().to_json();
        assert_eq!(
            text,
            "[\n\
             {\"source\":\"h0\",\"start_ps\":5,\"rate_gbps\":1.5},\n\
             {\"source\":\"a \\\"b\\\", c\",\"start_ps\":null,\"rate_gbps\":-0.25},\n\
             {\"source\":\"h0\",\"start_ps\":9223372036854775807,\"rate_gbps\":null}\n\
             ]\n"
        );
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[1]["source"], "a \"b\", c");
    }

    #[test]
    fn an_empty_table_is_an_empty_array() {
        let parsed: Value = serde_json::from_str(&Table::new("none").to_json()).unwrap();
        assert_eq!(parsed, Value::Array(Vec::new()));
    }
}
