//! Schedules in the text form of GOAL, as LogGOPSim and ATLAHS read them.
//!
//! ```text
//!   num_ranks 2
//!
//!   rank 0 {
//!   l1: calc 1000 cpu 0                    nanoseconds, on a core
//!   l2: send 4096b to 1 tag 7 nic 0
//!   l2 requires l1                         l2 starts when l1 is complete
//!   }
//!   rank 1 {
//!   l1: recv 4096b from 0 tag 7
//!   l2: calc 500
//!   l2 irequires l1                        l2 starts when l1 has started
//!   }
//! ```
//!
//! A statement has a line of its own; `//`, `#` and `/* */` begin comments. Labels belong to their rank. `cpu`
//! says on which core a rank computes, and means nothing of messages, which take no core here; messages of
//! another `nic` go by a queue pair of their own.
//!
//! The n-th send of a rank to another with a tag is received by the other's n-th receive of these, in the
//! order of the file. So it is known before the run what has no other end, and who waits for whom.

use std::collections::HashMap;
use std::sync::Arc;

use rdma::Span;
use transport::limits::MESSAGE_BYTES_MAX;

use super::matching::{Matching, Why};
use super::schedule::{OpId, Plan, Schedule, Unfit};
use crate::limits::{OPERATIONS_MAX, RANKS_MAX, SECONDS_MAX};
use crate::mistake::FileError;

const STATEMENTS: &str = "a line is `l1: send 8b to 1 tag 0`, `l2: recv 8b from 1 tag 0`, \
                          `l3: calc 100`, `l2 requires l1` or `l3 irequires l2`";

/// Reads a schedule.
///
/// # Errors
/// [`FileError`], with its line.
pub(crate) fn goal(text: &str) -> Result<Arc<Schedule>, FileError> {
    let mut lines = Lines { lines: text.lines().enumerate(), comment: None };
    let mut reading = Reading::begin(&mut lines)?;
    while let Some((line, words)) = lines.next() {
        reading.statement(line, &words)?;
    }
    if let Some(line) = lines.comment {
        return Err(FileError::new(line, "a comment does not end").hint("end it with `*/`"));
    }
    reading.finish()
}

/// Lines of words, without comments and empty ones.
struct Lines<'a> {
    lines: core::iter::Enumerate<core::str::Lines<'a>>,
    /// The line where a comment has begun that has not ended.
    comment: Option<usize>,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(usize, Vec<&'a str>)> {
        loop {
            let (index, mut rest) = self.lines.next()?;
            let mut words = Vec::new();
            loop {
                if self.comment.is_some() {
                    let Some((_, after)) = rest.split_once("*/") else { break };
                    (rest, self.comment) = (after, None);
                }
                let ends = ["//", "#", "/*"].map(|mark| rest.find(mark).unwrap_or(rest.len()));
                let [line, hash, block] = ends;
                let end = line.min(hash).min(block);
                words.extend(rest[..end].split_whitespace());
                if block != end || end == rest.len() {
                    break;
                }
                (rest, self.comment) = (&rest[end + 2..], Some(index + 1));
            }
            if !words.is_empty() {
                return Some((index + 1, words));
            }
        }
    }
}

/// A schedule, as far as it has been read.
struct Reading<'a> {
    plan: Plan,
    ranks: u32,
    /// By operation: its line.
    lines: Vec<u32>,
    messages: Matching,
    /// The rank that is being read.
    rank: Option<u32>,
    /// Ranks that were there.
    seen: Vec<bool>,
    last_line: usize,
    labels: HashMap<&'a str, OpId>,
    /// What requires what, with its line, until the rank is complete.
    requires: Vec<(usize, &'a str, bool, &'a str)>,
}

/// The number that follows a word, of at most `most`.
fn number(line: usize, what: &str, word: Option<&str>, most: u32) -> Result<u32, FileError> {
    let wrong = |said: String| FileError::new(line, said).hint(STATEMENTS);
    let word = word.ok_or_else(|| wrong(format!("{what} is missing")))?;
    let number = word.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| wrong(format!("{what} {word:?} is no number from 0 to {most}")))
}

impl<'a> Reading<'a> {
    fn begin(lines: &mut Lines<'a>) -> Result<Self, FileError> {
        let hint = "the first line is `num_ranks 2`, for instance";
        let wrong = |line, said: &str| Err(FileError::new(line, said).hint(hint));
        let Some((line, words)) = lines.next() else { return wrong(1, "the file is empty") };
        let ranks = match words.as_slice() {
            ["num_ranks", count] => {
                count.parse().ok().filter(|count| (1..=RANKS_MAX).contains(count))
            }
            _ => return wrong(line, "num_ranks is not said first"),
        };
        let Some(ranks) = ranks else {
            return wrong(line, &format!("num_ranks is no number from 1 to {RANKS_MAX}"));
        };
        Ok(Self {
            plan: Plan::new(ranks),
            ranks,
            lines: Vec::new(),
            messages: Matching::default(),
            rank: None,
            seen: vec![false; ranks as usize],
            last_line: line,
            labels: HashMap::new(),
            requires: Vec::new(),
        })
    }

    fn statement(&mut self, line: usize, words: &[&'a str]) -> Result<(), FileError> {
        self.last_line = line;
        let wrong = |said: String| Err(FileError::new(line, said).hint(STATEMENTS));
        match (self.rank, words) {
            (None, ["rank", rank, "{"]) => self.begin_rank(line, rank),
            (None, ["rank", rank, "{", "}"]) => {
                self.begin_rank(line, rank)?;
                self.end_rank()
            }
            (None, [word, ..]) => {
                let said = format!("{word:?} stands outside a rank");
                Err(FileError::new(line, said).hint("a rank begins with `rank 0 {`"))
            }
            (Some(_), ["}"]) => self.end_rank(),
            (Some(_), ["rank", ..]) => {
                let said = "a rank begins inside another";
                Err(FileError::new(line, said).hint("end the one before with `}`"))
            }
            (Some(_), [op, how @ ("requires" | "irequires"), other]) => {
                self.requires.push((line, op, *how == "irequires", other));
                Ok(())
            }
            (Some(rank), [label, what, rest @ ..]) if label.ends_with(':') => {
                let op = self.operation(line, rank, what, rest)?;
                self.lines.push(line as u32);
                match self.labels.insert(&label[..label.len() - 1], op) {
                    None => Ok(()),
                    Some(_) => {
                        let said = format!("label {label:?} is there twice in rank {rank}");
                        Err(FileError::new(line, said)
                            .hint("give each operation a label of its own"))
                    }
                }
            }
            (_, words) => wrong(format!("{:?} is no statement", words.join(" "))),
        }
    }

    fn begin_rank(&mut self, line: usize, rank: &str) -> Result<(), FileError> {
        let rank = number(line, "rank", Some(rank), self.ranks - 1)?;
        if core::mem::replace(&mut self.seen[rank as usize], true) {
            let said = format!("rank {rank} is there twice");
            return Err(FileError::new(line, said).hint("write its operations in one place"));
        }
        self.rank = Some(rank);
        Ok(())
    }

    /// All labels of the rank are known.
    fn end_rank(&mut self) -> Result<(), FileError> {
        for (line, op, at_start, other) in self.requires.drain(..) {
            let find = |label: &str| {
                self.labels.get(label).copied().ok_or_else(|| {
                    let said = format!("there is no label {label:?} in this rank");
                    FileError::new(line, said).hint("an operation requires others of its own rank")
                })
            };
            let (op, other) = (find(op)?, find(other)?);
            match at_start {
                true => self.plan.requires_start(op, other),
                false => self.plan.requires(op, other),
            }
        }
        self.labels.clear();
        self.rank = None;
        Ok(())
    }

    fn operation(
        &mut self,
        line: usize,
        rank: u32,
        what: &str,
        words: &[&str],
    ) -> Result<OpId, FileError> {
        let wrong = |said: String| FileError::new(line, said).hint(STATEMENTS);
        if self.plan.len() >= OPERATIONS_MAX {
            let said = format!("there is room for {OPERATIONS_MAX} operations");
            return Err(FileError::new(line, said).hint("cut the trace in pieces"));
        }
        let (&size, mut rest) =
            words.split_first().ok_or_else(|| wrong(format!("{what} of how much?")))?;
        let direction = match what {
            "send" => Some("to"),
            "recv" => Some("from"),
            "calc" => None,
            _ => return Err(wrong(format!("{what:?} is none of send, recv and calc"))),
        };
        let mut peer = None;
        if let Some(direction) = direction {
            let [word, number, after @ ..] = rest else {
                return Err(wrong(format!("{what} {direction} whom?")));
            };
            if *word != direction {
                return Err(wrong(format!("{word:?} stands in the place of {direction:?}")));
            }
            (peer, rest) =
                (Some(self::number(line, direction, Some(number), self.ranks - 1)?), after);
        }
        let (mut tag, mut core, mut nic) = (0, 0, 0);
        while let [key, value, after @ ..] = rest {
            let value = Some(*value);
            match *key {
                "tag" if peer.is_some() => tag = number(line, "tag", value, u32::MAX)?,
                // One number stands for the beginning of a rank among its events.
                "cpu" => core = number(line, "cpu", value, u32::from(u8::MAX))? as u8,
                "nic" if peer.is_some() => nic = number(line, "nic", value, u32::from(u8::MAX))?,
                _ => return Err(wrong(format!("{key:?} does not belong to {what}"))),
            }
            rest = after;
        }
        if let [word] = rest {
            return Err(wrong(format!("{word:?} is of what?")));
        }
        let Some(peer) = peer else {
            let time = size.parse::<u64>().ok().filter(|&ns| ns as f64 <= SECONDS_MAX * 1e9);
            let time =
                time.ok_or_else(|| wrong(format!("calc {size:?} is no time in nanoseconds")))?;
            return Ok(self.plan.calc(rank, core, Span::from_ns(time)));
        };
        let bytes = size.strip_suffix('b').unwrap_or(size).parse::<u32>().ok();
        let bytes = bytes.filter(|&bytes| bytes <= MESSAGE_BYTES_MAX).ok_or_else(|| {
            let said = format!("{size:?} is no length from 0b to {MESSAGE_BYTES_MAX}b");
            FileError::new(line, said).hint("write 10b, and several messages of one that is longer")
        })?;
        if peer == rank {
            let said = format!("rank {rank} sends to itself, or receives from itself");
            return Err(FileError::new(line, said).hint("write a calc for the copy"));
        }
        let Self { messages, plan, .. } = self;
        Ok(match what {
            "send" => messages.send(plan, (rank, peer), (tag, nic), bytes),
            _ => messages.receive(plan, (peer, rank), tag, bytes),
        })
    }

    fn line(&self, op: OpId) -> usize {
        self.lines.get(op.index()).map_or(self.last_line, |&line| line as usize)
    }

    fn finish(mut self) -> Result<Arc<Schedule>, FileError> {
        if let Some(rank) = self.rank {
            let said = format!("rank {rank} does not end");
            return Err(FileError::new(self.last_line, said).hint("end it with `}`"));
        }
        if let Some(rank) = self.seen.iter().position(|seen| !seen) {
            let said = format!("rank {rank} of {} is missing", self.ranks);
            let hint = format!("write `rank {rank} {{ }}` if it has nothing to do");
            return Err(FileError::new(self.last_line, said).hint(hint));
        }
        if let Some(wrong) = self.messages.join(&mut self.plan) {
            let ((source, destination), tag, bytes) = (wrong.ends, wrong.tag, wrong.bytes);
            let (said, hint) = match wrong.why {
                Why::NotReceived => (
                    format!("no receive takes this send to {destination} with tag {tag}"),
                    format!("add `recv {bytes}b from {source} tag {tag}` to rank {destination}"),
                ),
                Why::NotSent => (
                    format!("nothing is sent to this receive from {source} with tag {tag}"),
                    format!("add `send {bytes}b to {destination} tag {tag}` to rank {source}"),
                ),
                Why::TooLong { send, room } => (
                    format!("{bytes} bytes come, and there is room for {room}"),
                    format!("the send is in line {}", self.line(send)),
                ),
            };
            return Err(FileError::new(self.line(wrong.op), said).hint(hint));
        }
        let lines = core::mem::take(&mut self.lines);
        let line = |op: OpId| lines.get(op.index()).map_or(self.last_line, |&line| line as usize);
        self.plan.finish().map_err(|unfit| match unfit {
            Unfit::Circle(op) => {
                FileError::new(line(op), "this operation waits for itself, by way of others").hint(
                    "remove a requires of the circle, or send before what is received in return",
                )
            }
            Unfit::Unmatched(op) | Unfit::OtherRank(op) | Unfit::NoRank(op) => {
                FileError::new(line(op), "this operation has no other end").hint(STATEMENTS)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Op;
    use super::*;

    fn refused(text: &str) -> String {
        goal(text).unwrap_err().to_string()
    }

    const PING: &str = "num_ranks 2 // two\n\nrank 0 {\nl1: calc 1000 cpu 1\nl2: send 10b to 1 tag 5\n\
                        l2 requires l1 /* so */\n}\nrank 1 {\nl1: recv 10b from 0 tag 5 cpu 0 nic 0\n\
                        l2: calc 7\nl2 irequires l1\n}\n";

    #[test]
    fn a_schedule_is_what_the_text_says() {
        let schedule = goal(PING).unwrap();
        assert_eq!((schedule.ranks(), schedule.len(), schedule.connections().len()), (2, 4, 1));
        assert_eq!(schedule.op(0).time(), Span::from_us(1));
        assert_eq!(schedule.op(1), Op::Send { connection: 0, bytes: 10, receive: 2 });
        assert_eq!(schedule.followers(0, false).collect::<Vec<_>>(), [1]);
        assert_eq!(schedule.followers(2, true).collect::<Vec<_>>(), [3]);
        let longest = schedule.longest_chain(|_, _| (2_000, 500));
        assert_eq!(longest, Span::from_us(1).as_ps() + 2_500);
    }

    #[test]
    fn messages_of_one_tag_are_matched_in_their_order() {
        let text = "num_ranks 2\nrank 0 {\na: send 1b to 1\nb: send 2b to 1 tag 1\nc: send 3b to 1\n}\n\
                    rank 1 {\nx: recv 2b from 0 tag 1\ny: recv 1b from 0\nz: recv 3b from 0\n}\n";
        let schedule = goal(text).unwrap();
        let to = |op| match schedule.op(op) {
            Op::Send { receive, .. } => receive,
            _ => unreachable!(),
        };
        assert_eq!([0, 1, 2].map(to), [4, 3, 5]);
    }

    #[test]
    fn a_mistake_is_named_with_line_and_remedy() {
        let cases = [
            ("", "line 1: the file is empty\nhint: the first line is `num_ranks 2`, for instance"),
            ("rank 0 {", "line 1: num_ranks is not said first"),
            ("num_ranks 0", "line 1: num_ranks is no number from 1 to"),
            ("num_ranks 2\nl1: calc 5", "line 2: \"l1:\" stands outside a rank"),
            ("num_ranks 2\nrank 2 {", "line 2: rank \"2\" is no number from 0 to 1"),
            ("num_ranks 2\nrank 0 {\n", "line 2: rank 0 does not end"),
            ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "line 4: rank 0 is there twice"),
            ("num_ranks 2\nrank 0 {\nrank 1 {", "line 3: a rank begins inside another"),
            (
                "num_ranks 2\nrank 0 { }\n",
                "line 2: rank 1 of 2 is missing\nhint: write `rank 1 { }`",
            ),
            ("num_ranks 1\n/* a\nrank 0 { }", "line 2: a comment does not end"),
        ];
        for (text, said) in cases {
            assert!(refused(text).starts_with(said), "{}", refused(text));
        }
        for (good, bad, said) in [
            ("calc 1000", "calc -1", "line 4: calc \"-1\" is no time"),
            ("calc 1000", "think 1000", "line 4: \"think\" is none of send, recv and calc"),
            ("10b to 1", "10 bytes to 1", "line 5: \"bytes\" stands in the place of \"to\""),
            ("10b to 1", "3000000000b to 1", "line 5: \"3000000000b\" is no length"),
            ("10b to 1", "10b to 0", "line 5: rank 0 sends to itself"),
            ("10b to 1", "10b to 7", "line 5: to \"7\" is no number from 0 to 1"),
            ("tag 5\nl2", "tag 6\nl2", "line 5: no receive takes this send to 1 with tag 6"),
            (
                "send 10b",
                "send 11b",
                "line 9: 11 bytes come, and there is room for 10\nhint: the send is in line 5",
            ),
            ("cpu 1", "gpu 1", "line 4: \"gpu\" does not belong to calc"),
            ("cpu 1", "cpu", "line 4: \"cpu\" is of what?"),
            ("cpu 1", "cpu 256", "line 4: cpu \"256\" is no number from 0 to 255"),
            ("requires l1 ", "requires l3 ", "line 6: there is no label \"l3\" in this rank"),
            ("l2: calc 7", "l1: calc 7", "line 10: label \"l1:\" is there twice in rank 1"),
            ("l2 requires l1", "l2 requires l2", "line 5: this operation waits for itself"),
            ("l2: calc 7", "l2 calc 7", "line 10: \"l2 calc 7\" is no statement"),
        ] {
            let text = PING.replacen(good, bad, 1);
            assert_ne!(text, PING, "{good}");
            let refused = refused(&text);
            assert!(refused.starts_with(said) && refused.contains("\nhint: "), "{refused}");
        }
    }

    #[test]
    fn two_that_both_receive_first_are_found_before_the_run() {
        let text = "num_ranks 2\nrank 0 {\na: recv 1b from 1\nb: send 1b to 1\nb requires a\n}\n\
                    rank 1 {\na: recv 1b from 0\nb: send 1b to 0\nb requires a\n}\n";
        assert!(refused(text).contains("waits for itself, by way of others"));
    }
}
