//! The progress of `ferroce papers`: on a terminal a line that changes, elsewhere a line for each step.
//!
//! Experiments take seconds or minutes, and what is left is guessed from those that are done as if all took the
//! same: "about".

use core::time::Duration;
use std::io::{self, IsTerminal};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use papers::Step;

/// How often the clock of the line moves.
const TICK: Duration = Duration::from_millis(200);

/// Shows steps until it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
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
        Self { began: Instant::now(), line }
    }

    pub(super) fn show(&self, step: &Step<'_>) {
        let text = told(step, self.began.elapsed());
        match &self.line {
            Some(line) => line.set_message(text),
            None => eprintln!("running {text}"),
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

/// A step in words, after so long.
fn told(step: &Step<'_>, elapsed: Duration) -> String {
    let Step { text, number, of } = *step;
    let done = number.saturating_sub(1);
    let left = match done {
        0 => String::new(),
        _ => {
            let seconds = elapsed.as_secs_f64() * of.saturating_sub(done) as f64 / done as f64;
            format!(", about {} left", clock(seconds))
        }
    };
    format!("{number} of {of}{left}: {text}")
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
    fn what_is_left_is_guessed_from_what_is_done() {
        let said = |number, seconds| {
            told(&Step { text: "storm", number, of: 4 }, Duration::from_secs(seconds))
        };
        assert_eq!(said(1, 50), "1 of 4: storm");
        assert_eq!(said(3, 20), "3 of 4, about 20 s left: storm");
        assert_eq!(said(2, 60), "2 of 4, about 3 min left: storm");
    }
}
