//! What happened in a lab, and when: faults, deadlocks, watchdogs, slips of the clock, programs that came and went.

use core::fmt::Write as _;
use core::time::Duration;
use std::collections::VecDeque;

use rdma::{Span, Time};

use crate::limits::{ANSWER_BYTES, JOURNAL_MAX, SLIP_QUIET};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    /// Entries that there was no room for any more: the oldest.
    forgotten: usize,
    /// The entry of the slips that are not over, and how many and how long they are.
    slip: Option<(usize, u32, Duration)>,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When, on the wall's clock since the lab began.
    pub wall: Duration,
    /// When, in the time of the model.
    pub model: Time,
    /// What.
    pub text: String,
}

impl core::fmt::Display for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let model = self.model.since(Time::ZERO).as_ps() as f64 / 1e12;
        write!(f, "{:>10.3} s {model:>12.6} s  {}", self.wall.as_secs_f64(), self.text)
    }
}

impl Journal {
    pub(crate) fn note(&mut self, wall: Duration, model: Time, text: impl Into<String>) {
        if self.entries.len() >= JOURNAL_MAX {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(Entry { wall, model, text: text.into() });
    }

    /// The clock has slipped by `late`. Slips that follow each other soon are one entry.
    pub(crate) fn slipped(&mut self, wall: Duration, model: Time, late: Duration) {
        let last = self.slip.filter(|(number, _, _)| {
            let entry = number.checked_sub(self.forgotten).and_then(|at| self.entries.get(at));
            entry.is_some_and(|entry| wall.saturating_sub(entry.wall) < SLIP_QUIET)
        });
        let (number, count, sum) = match last {
            Some((number, count, sum)) => (number, count + 1, sum + late),
            None => {
                self.note(wall, model, "");
                (self.forgotten + self.entries.len() - 1, 1, late)
            }
        };
        self.slip = Some((number, count, sum));
        if let Some(entry) = self.entries.get_mut(number - self.forgotten) {
            let ms = sum.as_secs_f64() * 1e3;
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            entry.text = format!("the clock slipped {times}, by {ms:.1} ms");
        }
    }

    /// All that is known.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Entries from number `first` on, as many as an answer holds, a line each; before them the number of the next.
    pub(crate) fn page(&self, first: usize) -> String {
        let mut lines = String::new();
        let mut next = first.max(self.forgotten);
        if first < self.forgotten {
            let _ = writeln!(lines, "({} earlier ones are forgotten)", self.forgotten - first);
        }
        for entry in self.entries.iter().skip(next - self.forgotten) {
            let line = entry.to_string();
            if lines.len() + line.len() > ANSWER_BYTES {
                break;
            }
            lines += &line;
            lines.push('\n');
            next += 1;
        }
        format!("{next}\n{lines}")
    }
}

/// A span in seconds.
pub(crate) fn seconds(span: Span) -> f64 {
    span.as_ps() as f64 / 1e12
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn slips_that_follow_each_other_are_one_entry_and_pages_go_on_where_the_last_ended() {
        let mut journal = Journal::default();
        journal.note(at(1), Time::ZERO, "first");
        journal.slipped(at(10), Time::ZERO, at(2));
        journal.slipped(at(400), Time::ZERO, at(3));
        journal.note(at(500), Time::ZERO, "second");
        journal.slipped(at(700), Time::ZERO, at(1));
        journal.slipped(at(5_000), Time::ZERO, at(4));
        let texts: Vec<&str> = journal.entries().map(|entry| entry.text.as_str()).collect();
        let slips = "the clock slipped 3 times, by 6.0 ms";
        assert_eq!(texts, ["first", slips, "second", "the clock slipped once, by 4.0 ms"]);
        let page = journal.page(2);
        assert!(page.starts_with("4\n     0.500 s     0.000000 s  second\n"), "{page}");
        assert_eq!(journal.page(4), "4\n");
    }

    #[test]
    fn the_oldest_are_forgotten_and_that_is_said() {
        let mut journal = Journal::default();
        for number in 0..JOURNAL_MAX + 5 {
            journal.note(at(number as u64), Time::ZERO, number.to_string());
        }
        let page = journal.page(0);
        assert!(page.contains("\n(5 earlier ones are forgotten)\n"), "{}", &page[..80]);
        assert!(page.lines().nth(2).unwrap().ends_with(" 5"));
        assert!(page.len() <= ANSWER_BYTES + 20);
    }
}
