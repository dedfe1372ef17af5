//! What ends a command that runs until somebody has seen enough.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;

/// Signals that come within this time are one: `timeout` sends its own to us and then to our group.
const ONE: Duration = Duration::from_millis(500);

/// The first of these signals sets `stop`; one that comes later, while it is set, ends the program.
pub(crate) fn stop_then_end(signals: &[i32], stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let mut signals = Signals::new(signals)
        .map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            if !stop.swap(true, Ordering::Relaxed) {
                first = Some(Instant::now());
            } else if first.is_none_or(|first| first.elapsed() >= ONE) {
                let _ = emulate_default_handler(signal);
            }
        }
    });
    Ok(())
}

/// Is set when somebody wants us to end, or when the terminal goes.
pub(crate) fn stopper() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    // What nohup started outlives its terminal.
    let of_terminal = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(of_terminal) {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}

/// Whether we were started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
