//! Somebody waits for a run: how fast it is, how far, and Ctrl-C.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Instant;

use bench::load::Tally;
use bench::plan::Plan;
use bench::session::Watcher;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::SIGINT;

use crate::failure::Failure;
use crate::signals::stop_then_end;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    interrupted: Arc<AtomicBool>,
    /// Hidden unless stderr is a terminal.
    bar: ProgressBar,
    points: usize,
    point: usize,
    label: String,
    tallies: Vec<Arc<Tally>>,
    began: Instant,
    drawn: Instant,
    /// Bytes and operations at that time.
    before: (u64, u64),
}

impl Watch {
    /// Watches so many runs. From here on Ctrl-C ends them; a later one ends the program as it
    /// always does.
    pub(super) fn new(points: usize) -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        stop_then_end(&[SIGINT], &interrupted)?;
        let is_seen = points > 0 && io::stderr().is_terminal();
        let bar = if is_seen { ProgressBar::new(1000) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:14} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Ok(Self {
            interrupted,
            bar,
            points,
            point: 0,
            label: String::new(),
            tallies: Vec::new(),
            began: now,
            drawn: now,
            before: (0, 0),
        })
    }

    /// The next run begins.
    pub(super) fn begin(&mut self, plan: &Plan, label: &str, tallies: &[Arc<Tally>]) {
        self.point += 1;
        self.label = label.to_owned();
        self.tallies = tallies.to_vec();
        (self.began, self.drawn, self.before) = (Instant::now(), Instant::now(), (0, 0));
        self.bar.set_length((plan.warmup_ms + plan.length_ms) as u64);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The bar goes, and Ctrl-C ends the program.
    pub(super) fn end(self) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
    }

    fn show(&mut self) {
        let sum = |count: fn(&Tally) -> u64| self.tallies.iter().map(|tally| count(tally)).sum();
        let now: (u64, u64) = (
            sum(|tally| tally.bytes.load(Ordering::Relaxed)),
            sum(|tally| tally.operations.load(Ordering::Relaxed)),
        );
        let seconds = self.drawn.elapsed().as_secs_f64().max(1e-3);
        let gbps = (now.0 - self.before.0) as f64 * 8.0 / 1e9 / seconds;
        let rate = (now.1 - self.before.1) as f64 / seconds;
        let of = match self.points {
            1 => String::new(),
            points => format!("{} of {points}: {}  ", self.point, self.label),
        };
        self.bar.set_position(self.began.elapsed().as_millis() as u64);
        self.bar.set_message(format!("{of}{gbps:.2} Gb/s, {rate:.0} operations/s"));
        (self.drawn, self.before) = (Instant::now(), now);
    }
}

impl Watcher for Watch {
    fn glance(&mut self) -> Option<bench::Failure> {
        if self.is_interrupted() {
            return Some(bench::Failure::new("interrupted"));
        }
        if !self.bar.is_hidden() && self.drawn.elapsed() > DRAW {
            self.show();
        }
        None
    }
}
