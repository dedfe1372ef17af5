//! What soft NICs say of a question: `studies/soft-nics.csv`, a record of `ferroce papers le19 --soft`.

use super::{Goal, Load, Question};
use crate::Error;

const TEXT: &str = include_str!("../../../../studies/soft-nics.csv");

/// A row of the record.
struct Row {
    figure: &'static str,
    method: &'static str,
    size: u32,
    /// As much better as it is less.
    median: f64,
    least: f64,
    most: f64,
}

/// The record.
pub(super) struct Measured(Vec<Row>);

impl Measured {
    pub(super) fn read() -> Result<Self, Error> {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).skip(1);
        let row = |line: &'static str| {
            let wrong = || Error::Claims(format!("studies/soft-nics.csv: {line:?} is no row"));
            let cells: Vec<&'static str> = line.split(',').collect();
            let [figure, method, size, median, least, most, unit] = cells[..] else {
                return Err(wrong());
            };
            let number = |text: &str| text.parse::<f64>().map_err(|_| wrong());
            let (median, least, most) = (number(median)?, number(least)?, number(most)?);
            let size = size.parse().map_err(|_| wrong())?;
            // Of rates, the time of one.
            Ok(match unit {
                "us" => Row { figure, method, size, median, least, most },
                _ => {
                    let (median, least, most) = (1.0 / median, 1.0 / most, 1.0 / least);
                    Row { figure, method, size, median, least, most }
                }
            })
        };
        Ok(Self(lines.map(row).collect::<Result<_, _>>()?))
    }

    /// The best way, and those whose draws are not all worse than all of its.
    pub(super) fn says(&self, question: Question) -> String {
        let Question { size, depends, load, goal } = question;
        let figure = match (goal, load) {
            (Goal::Latency, Load::Idle) => "1",
            (Goal::Latency, Load::Busy) => "3",
            (Goal::Throughput, Load::Idle) => "2a",
            (Goal::Throughput, Load::Busy) => "4a",
            _ => "",
        };
        // Which READs are those of so many accesses; compound reads need one, whatever depends.
        let fits = |method: &str| match method.strip_prefix("READ") {
            None => true,
            Some("-Intr" | "-Poll") => depends == 1,
            Some(reads) => reads == format!("-Intr-{depends}"),
        };
        let rows = self.0.iter().filter(|row| (row.figure, row.size) == (figure, size));
        let rows: Vec<&Row> = rows.filter(|row| fits(row.method)).collect();
        // Without its READs a question is not answered.
        if !rows.iter().any(|row| row.method.starts_with("READ")) {
            return String::new();
        }
        let Some(best) = rows.iter().min_by(|a, b| a.median.total_cmp(&b.median)) else {
            return String::new();
        };
        let like: Vec<&str> =
            rows.iter().filter(|row| row.least <= best.most).map(|row| row.method).collect();
        match like.len() {
            1 => best.method.to_owned(),
            all if all == rows.len() => "undecided".to_owned(),
            _ => format!("undecided: {}", like.join(" or ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_said_and_what_was_not_is_left_out() {
        let row = |method, [least, median, most]: [f64; 3]| Row {
            figure: "1",
            method,
            size: 64,
            median,
            least,
            most,
        };
        let asked = Question { size: 64, depends: 1, load: Load::Idle, goal: Goal::Latency };
        let clear = [row("READ-Poll", [4.0, 5.0, 6.0]), row("WRITE/SEND-Poll", [1.0, 2.0, 3.0])];
        let clear = Measured(clear.into());
        assert_eq!(clear.says(asked), "WRITE/SEND-Poll");
        assert_eq!(clear.says(Question { depends: 2, ..asked }), "");
        assert_eq!(clear.says(Question { goal: Goal::Processor, ..asked }), "");
        let both = [row("READ-Poll", [2.0, 5.0, 6.0]), row("WRITE/SEND-Poll", [1.0, 2.0, 3.0])];
        assert_eq!(Measured(both.into()).says(asked), "undecided");
    }

    #[test]
    fn the_record_can_be_read() {
        assert!(Measured::read().unwrap().0.len() > 100);
    }
}
