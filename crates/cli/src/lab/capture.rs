//! `ferroce lab capture`: the frames of ports of a lab, into a file or a pipe.

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use fabric::record::{CaptureLimits, CaptureTally};
use lab::client::{CaptureEnd, CaptureOf, Captured, Capturing};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::Capture;
use crate::failure::Failure;
use crate::output::{cannot_write, tell};
use crate::signals::stop_then_end;

/// How long a capture waits for frames before it looks whether Ctrl-C was pressed, in milliseconds.
const LOOK_EVERY_MS: i32 = 50;
pub(super) fn run(arguments: &Capture) -> Result<(), Failure> {
    let found = arguments.which.find()?;
    let to_stdout = arguments.file == Path::new("-");
    if to_stdout && io::stdout().is_terminal() {
        return Err(Failure::new("a capture is no text for a terminal")
            .hint("name a file, or put `| tshark -r -` behind the command"));
    }
    let priorities = arguments.priorities.iter().fold(0, |all, priority| all | 1 << priority);
    let of = CaptureOf {
        ports: arguments.ports.clone(),
        snap_bytes: arguments.snaplen,
        priorities: if priorities == 0 { u8::MAX } else { priorities },
        limits: CaptureLimits { frames: arguments.packets, bytes: arguments.size },
    };
    let mut capturing =
        Capturing::begin(&found, &of).map_err(|error| Failure::from_message(&error))?;
    // Only now: a port that is not there leaves a file that is as it was.
    let cannot = |error: io::Error| cannot_write(&arguments.file, error);
    let mut file: Box<dyn Write> = match to_stdout {
        true => Box::new(io::stdout().lock()),
        false => Box::new(File::create(&arguments.file).map_err(cannot)?),
    };
    let stop = Arc::new(AtomicBool::new(false));
    // A later one ends the program, whatever the lab does.
    stop_then_end(&[SIGINT, SIGTERM], &stop)?;
    if io::stderr().is_terminal() {
        tell(&format!("capturing {}: Ctrl-C ends it", arguments.ports.join(", ")));
    }
    let mut is_told = false;
    loop {
        if !is_told && stop.load(Ordering::Relaxed) {
            capturing.stop();
            is_told = true;
        }
        match capturing.next(LOOK_EVERY_MS).map_err(|error| Failure::from_message(&error))? {
            Captured::Nothing => {}
            Captured::Bytes(bytes) => match file.write_all(bytes).and_then(|()| file.flush()) {
                Ok(()) => {}
                // Whoever read it has seen enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe && to_stdout => return Ok(()),
                Err(error) => return Err(cannot(error)),
            },
            Captured::Over(tally, end) => {
                tell(&said(&tally, end));
                return Ok(());
            }
        }
    }
}

/// What a capture came to, in a line.
fn said(tally: &CaptureTally, end: CaptureEnd) -> String {
    let CaptureTally { frames, bytes, missed } = *tally;
    let why = match end {
        CaptureEnd::Limit => "as much as there was to be",
        CaptureEnd::Asked => "stopped",
        CaptureEnd::Lab => "the lab has ended",
    };
    let missed = match missed {
        0 => "none missed".to_owned(),
        _ => format!("{missed} MISSED, because they were not taken in time"),
    };
    format!("{frames} frames, {bytes} bytes; {missed}; {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_not_overlooked() {
        let tally = |missed| CaptureTally { frames: 12, bytes: 3_456, missed };
        assert_eq!(
            said(&tally(0), CaptureEnd::Asked),
            "12 frames, 3456 bytes; none missed; stopped"
        );
        let missed = said(&tally(7), CaptureEnd::Lab);
        assert!(missed.contains("7 MISSED") && missed.ends_with("the lab has ended"), "{missed}");
    }
}
