//! The progress of a run, and Ctrl-C.
//!
//! The run is made in stretches of model time. If a stretch took too little or too much real time, the
//! next one is longer or shorter. So the bar moves and Ctrl-C works within a moment, whatever the size of
//! the network. The results do not depend on it.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Instant;

use fabric::Network;
use fabric::record::Next;
use indicatif::{ProgressBar, ProgressStyle};
use rdma::{Span, Time};
use signal_hook::consts::SIGINT;

use crate::failure::Failure;
use crate::signals::stop_then_end;

/// The first stretch.
const FIRST: Span = Span::from_us(1);
/// A stretch that is over sooner is doubled.
const SHORT: Duration = Duration::from_millis(20);
/// A stretch that takes longer is halved.
const LONG: Duration = Duration::from_millis(100);
/// The length of the bar in steps.
const STEPS: u64 = 10_000;

/// Ctrl-C, of the whole program: whether it was pressed while a run was watched, or none is.
#[derive(Debug)]
pub(super) struct Interrupt(Arc<AtomicBool>);

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    end: Time,
    stretch: Span,
    began: Instant,
    asked: Instant,
    interrupted: Arc<AtomicBool>,
    /// Hidden unless stderr is a terminal.
    bar: ProgressBar,
}

/// Says on a terminal that something is being made, of which no part can be told.
#[derive(Debug)]
pub(super) struct Building(ProgressBar);

impl Building {
    pub(super) fn start() -> Self {
        let bar = bar(None);
        let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message("reading the scenario");
        bar.enable_steady_tick(LONG);
        Self(bar)
    }

    /// The scenario is read, and a network of so many hosts is to be made of it.
    pub(super) fn read(&self, hosts: usize) {
        self.0.set_message(format!("building a network of {hosts} hosts"));
    }

    /// Says something else meanwhile.
    pub(super) fn aside<T>(&self, say: impl FnOnce() -> T) -> T {
        self.0.suspend(say)
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar, hidden unless stderr is a terminal.
fn bar(length: Option<u64>) -> ProgressBar {
    match (io::stderr().is_terminal(), length) {
        (true, Some(length)) => ProgressBar::new(length),
        (true, None) => ProgressBar::new_spinner(),
        (false, _) => ProgressBar::hidden(),
    }
}

impl Interrupt {
    /// Ctrl-C ends the program as it always does, but for while a run is watched.
    ///
    /// # Errors
    /// If the signal cannot be caught.
    pub(super) fn catch() -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(true));
        stop_then_end(&[SIGINT], &interrupted)?;
        Ok(Self(interrupted))
    }
}

impl Watch {
    /// Watches a run that ends at `end` at the latest. From here on Ctrl-C stops the run; a later
    /// one ends the program.
    pub(super) fn new(end: Time, Interrupt(interrupted): &Interrupt) -> Self {
        interrupted.store(false, Ordering::Relaxed);
        let interrupted = Arc::clone(interrupted);
        let bar = bar(Some(STEPS));
        let style = ProgressStyle::with_template("{bar:14} {percent:>3} %  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self { end, stretch: FIRST, began: now, asked: now, interrupted, bar }
    }

    /// Watches another run beside this one, and shows nothing of it.
    pub(super) fn beside(&self) -> Self {
        let now = Instant::now();
        let interrupted = Arc::clone(&self.interrupted);
        let bar = ProgressBar::hidden();
        Self { end: self.end, stretch: FIRST, began: now, asked: now, interrupted, bar }
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// So much of all runs is done.
    pub(super) fn show_part(&self, part: f64) {
        self.bar.set_position((part * STEPS as f64) as u64);
    }

    /// What to do after a stretch.
    pub(super) fn next(&mut self, network: &Network) -> Next {
        if self.is_interrupted() {
            return Next::Stop;
        }
        let now = Instant::now();
        let took = now - self.asked;
        self.asked = now;
        if took < SHORT {
            self.stretch = self.stretch * 2;
        } else if took > LONG {
            self.stretch = Span::from_ps((self.stretch.as_ps() / 2).max(1));
        }
        if !self.bar.is_hidden() {
            self.show(network, now - self.began);
        }
        Next::Run(self.stretch)
    }

    fn show(&self, network: &Network, elapsed: Duration) {
        let part = part_done(network, self.end);
        self.bar.set_position((part * STEPS as f64) as u64);
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let rate = network.events() as f64 / seconds / 1e6;
        // The first moments do not predict the rest.
        let left = if part > 0.001 && seconds > 0.5 {
            format!("{} left", clock(seconds * (1.0 - part) / part))
        } else {
            "- left".to_owned()
        };
        self.bar.set_message(format!(
            "{} of {}, {rate:.1} M events/s, {left}",
            network.now(),
            self.end
        ));
    }

    /// The run is over: the bar goes, and Ctrl-C ends the program. After a Ctrl-C the bar may stay as it was then:
    /// the "^C" that a terminal shows has moved the cursor to the next line.
    pub(super) fn end(self) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
    }
}

/// The part of the run that is done: of its time or, where flows have ends, of their messages.
fn part_done(network: &Network, end: Time) -> f64 {
    let time = network.now().as_ps() as f64 / end.as_ps().max(1) as f64;
    let (mut completed, mut all) = (0u64, 0u64);
    for flow in network.flows() {
        if let Some(messages) = flow.spec.messages {
            completed += flow.completed;
            all = all.saturating_add(messages);
        }
    }
    let messages = if all > 0 { completed as f64 / all as f64 } else { 0.0 };
    time.max(messages).min(1.0)
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_said_in_the_unit_that_fits() {
        let said = [0.4, 59.6, 3_599.0, 7_320.0].map(clock);
        assert_eq!(said, ["0 s", "1:00 min", "59:59 min", "2:02 h"]);
    }
}
