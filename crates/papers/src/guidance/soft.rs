//! What soft NICs say of a question: `studies/soft-nics.csv`, a record of `ferroce papers le19 --soft`.

use super::grid::Way;
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

    /// The best of the ways that are on record, and those whose draws are not all worse than all of its. `advised`
    /// are the best of the model: if none of them is on record nothing is decided.
    pub(super) fn says(&self, question: Question, advised: &[Way]) -> String {
        let Question { size, depends, load, goal } = question;
        let figure = match (goal, load) {
            (Goal::Latency, Load::Idle) => "1",
            (Goal::Latency, Load::Busy) => "3",
            (Goal::Throughput, Load::Idle) => "2a",
            (Goal::Throughput, Load::Busy) => "4a",
            _ => "",
        };
        let find = |way: &Way| {
            let mut rows = self.0.iter();
            rows.find(|row| (row.figure, row.method, row.size) == (figure, way.name(), size))
        };
        let ways = Way::of(depends, size);
        let rows: Vec<&Row> = ways.iter().filter_map(find).collect();
        // Without its READs a question is not answered.
        if !rows.iter().any(|row| row.method.starts_with("READ")) {
            return String::new();
        }
        let Some(best) = rows.iter().min_by(|a, b| a.median.total_cmp(&b.median)) else {
            return String::new();
        };
        let names = |ways: &[Way]| ways.iter().map(|way| way.name()).collect::<Vec<_>>().join(", ");
        if !advised.iter().any(|way| find(way).is_some()) {
            return format!("undecided; not recorded: {}", names(advised));
        }
        let like: Vec<&str> =
            rows.iter().filter(|row| row.least <= best.most).map(|row| row.method).collect();
        let text = match like.len() {
            1 => best.method.to_owned(),
            all if all == rows.len() => "undecided".to_owned(),
            _ => format!("undecided: {}", like.join(" or ")),
        };
        let missing: Vec<Way> = ways.into_iter().filter(|way| find(way).is_none()).collect();
        match missing.is_empty() {
            true => text,
            false => format!("{text}, of those recorded; not recorded: {}", names(&missing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::le19::Method;

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
        let (poll, cq) = (Way::Small(Method::ReadPoll), Way::Small(Method::ReadCq(1)));
        let all = |poll, write| {
            let others = ["READ-Intr", "READ-Poll of the CQ", "SEND/SEND-Intr", "SEND/SEND-Poll"];
            let mut rows = vec![row("READ-Poll", poll), row("WRITE/SEND-Poll", write)];
            rows.extend(others.map(|method| row(method, [7.0, 8.0, 9.0])));
            Measured(rows)
        };
        let clear = all([4.0, 5.0, 6.0], [1.0, 2.0, 3.0]);
        assert_eq!(clear.says(asked, &[poll]), "WRITE/SEND-Poll");
        assert_eq!(clear.says(Question { depends: 2, ..asked }, &[poll]), "");
        assert_eq!(clear.says(Question { goal: Goal::Processor, ..asked }, &[poll]), "");
        let both = all([2.0, 5.0, 6.0], [1.0, 2.0, 3.0]);
        assert_eq!(both.says(asked, &[poll]), "undecided: READ-Poll or WRITE/SEND-Poll");
        // What is not on record could be better.
        let mut some = clear;
        some.0.retain(|row| !row.method.contains("CQ") && !row.method.starts_with("SEND"));
        assert_eq!(
            some.says(asked, &[poll, cq]),
            "WRITE/SEND-Poll, of those recorded; not recorded: READ-Poll of the CQ, SEND/SEND-Intr, \
             SEND/SEND-Poll"
        );
        assert_eq!(some.says(asked, &[cq]), "undecided; not recorded: READ-Poll of the CQ");
    }

    #[test]
    fn the_record_can_be_read() {
        assert!(Measured::read().unwrap().0.len() > 100);
    }
}
