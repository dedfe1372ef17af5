//! The progress of `ferroce papers`: on a terminal a line that changes, elsewhere a line for each step.
//!
//! What is left is said once some experiments of this run are done, as an interval from how long these took; experiments
//! take seconds or minutes, and where they differ too much nothing is said.

use core::time::Duration;
use std::io::{self, IsTerminal};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use papers::Step;

use crate::output::tell;

/// How often the clock of the line moves.
const TICK: Duration = Duration::from_millis(200);
/// So many experiments are to be done before anything is said of the others.
const FEW: usize = 3;
/// An interval whose end is so many times its beginning says nothing.
const WIDEST: f64 = 3.0;

/// Shows steps until it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    /// How long the experiments took that are done, in seconds.
    done: Vec<f64>,
    /// The experiment that runs, and since when.
    runs: Option<(usize, Instant)>,
    /// `None` where stderr is no terminal.
    line: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn start() -> Self {
        let line = io::stderr().is_terminal().then(|| {
            let line = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}");
            line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            line.enable_steady_tick(TICK);
            line
        });
        Self { done: Vec::new(), runs: None, line }
    }

    pub(super) fn show(&mut self, step: &Step<'_>) {
        match self.runs {
            Some((number, _)) if number == step.number => {}
            before => {
                self.done.extend(before.map(|(_, since)| since.elapsed().as_secs_f64()));
                self.runs = Some((step.number, Instant::now()));
            }
        }
        let text = told(step, &self.done);
        match &self.line {
            Some(line) => line.set_message(text),
            None => tell(&format!("running {text}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}

/// A step in words, where those before took so many seconds each.
fn told(step: &Step<'_>, done: &[f64]) -> String {
    let Step { text, number, of } = *step;
    let left = match left(done, (of + 1).saturating_sub(number)) {
        Some([least, most]) if clock(least) == clock(most) => {
            format!(", {} left", clock(least))
        }
        Some([least, most]) => format!(", {} to {} left", clock(least), clock(most)),
        None => String::new(),
    };
    format!("{number} of {of}{left}: {text}")
}

/// How long `rest` experiments take, in seconds: two standard errors around the mean of those that are `done`.
fn left(done: &[f64], rest: usize) -> Option<[f64; 2]> {
    let count = done.len() as f64;
    let mean = done.iter().sum::<f64>() / count;
    let squares: f64 = done.iter().map(|seconds| (seconds - mean).powi(2)).sum();
    // Of the sum of `rest` more, and of the mean that it is reckoned with.
    let variance = squares / (count - 1.0);
    let error = 2.0 * (variance * rest as f64 * (1.0 + rest as f64 / count)).sqrt();
    let sum = mean * rest as f64;
    let [least, most] = [sum - error, sum + error];
    (done.len() >= FEW && least > 0.0 && most <= least * WIDEST).then_some([least, most])
}

fn clock(seconds: f64) -> String {
    match seconds.round() as u64 {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_after_a_few_that_are_alike_and_otherwise_not() {
        let said = |number, done: &[f64]| told(&Step { text: "storm", number, of: 9 }, done);
        assert_eq!(said(1, &[]), "1 of 9: storm");
        assert_eq!(said(3, &[20.0, 20.0]), "3 of 9: storm");
        assert_eq!(said(4, &[20.0, 21.0, 19.0]), "4 of 9, 2 min left: storm");
        assert_eq!(
            said(9, &[10.0, 11.0, 9.0, 10.0, 10.0, 12.0, 8.0, 10.0]),
            "9 of 9, 7 s to 13 s left: storm"
        );
        assert_eq!(said(5, &[1.0, 200.0, 3.0, 40.0]), "5 of 9: storm");
    }
}
