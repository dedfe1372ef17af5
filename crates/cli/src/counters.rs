//! `ferroce counters`: the counters of running programs.

mod explain;

use core::fmt::Write;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::thread::sleep;

use serde_json::{Value, json};
use softnic::counters::{ProcessCounters, is_gauge, read_all};
use telemetry::words::{COLUMNS, wrapped};

use crate::args::Counters;
use crate::failure::Failure;
use crate::output::{print, print_while_read};

/// Moves to the top left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What a terminal that does not say how large it is has.
const SCREEN: (usize, usize) = (24, 80);

pub(crate) fn show(arguments: &Counters) -> Result<(), Failure> {
    if let Some(name) = &arguments.explain {
        return print(&if name.is_empty() { explain::all() } else { explain::one(name)? });
    }
    let Some(seconds) = arguments.watch else {
        let processes = read_all();
        let text = if arguments.json { as_json(&processes) } else { as_text(&processes) };
        return print(&text);
    };
    let is_screen = io::stdout().is_terminal() && !arguments.json;
    let mut earlier = Earlier::default();
    loop {
        let processes = read_all();
        let text = match is_screen {
            true => format!("{CLEAR}{}", as_screen(&processes, &earlier, size_of_screen())),
            false if arguments.json => as_json(&processes),
            false => as_screen(&processes, &earlier, (usize::MAX, SCREEN.1)),
        };
        if !print_while_read(&text)? {
            return Ok(());
        }
        earlier = Earlier::new(&processes, seconds);
        sleep(Duration::from_secs_f64(seconds));
    }
}

/// Rows and columns.
fn size_of_screen() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 3 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => SCREEN,
    }
}

/// The values of the previous look, which make rates.
#[derive(Default)]
struct Earlier {
    seconds: f64,
    values: BTreeMap<Place, u64>,
}

/// Process, slot and name of a counter: a process may have a device open twice.
type Place = (u32, u32, String);

impl Earlier {
    fn new(processes: &[ProcessCounters], seconds: f64) -> Self {
        let values = processes.iter().flat_map(|process| {
            let counters = process.counters.iter();
            counters.map(|(name, value)| ((process.pid, process.slot, name.clone()), *value))
        });
        Self { seconds, values: values.collect() }
    }

    /// Per second since the previous look; of what goes up and down there is none.
    fn rate(&self, process: &ProcessCounters, name: &str, value: u64) -> Option<f64> {
        if is_gauge(name) {
            return None;
        }
        let before = self.values.get(&(process.pid, process.slot, name.to_owned()))?;
        Some(value.saturating_sub(*before) as f64 / self.seconds)
    }
}

/// Whose counters they are.
fn title(process: &ProcessCounters) -> String {
    let ProcessCounters { pid, command, device, .. } = process;
    format!("{command} (process {pid}) on {device}")
}

const NOBODY: &str = "no program of yours runs over Ferroce at the moment\n";

/// A process after the other, without the counters that are zero.
fn as_text(processes: &[ProcessCounters]) -> String {
    let mut text = String::new();
    for process in processes {
        let counters = &process.counters;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", title(process));
        if !process.control.is_empty() {
            let control = format!("congestion control: {}", process.control);
            text += &wrapped("    ", &control, COLUMNS);
        }
        let counted = counters.iter().filter(|(_, value)| *value > 0);
        for (name, value) in counted.clone() {
            let _ = writeln!(text, "    {name:<28} {value:>14}");
        }
        let zero = counters.len() - counted.count();
        let _ = writeln!(text, "    {:<28} {zero:>14}", "(counters that are zero)");
    }
    if processes.is_empty() {
        text.push_str(NOBODY);
    }
    text
}

/// What fits a screen of so many rows and columns: of each process the counters that move most, then those that
/// have counted most. The last row stays empty, for the cursor.
fn as_screen(
    processes: &[ProcessCounters],
    earlier: &Earlier,
    (rows, columns): (usize, usize),
) -> String {
    if processes.is_empty() {
        return NOBODY.into();
    }
    let mut left = rows.saturating_sub(1);
    // Two rows are a title and a counter.
    let fits = (left / 2).clamp(1, processes.len());
    let others = processes.len() - fits;
    left -= usize::from(others > 0);
    let mut lines: Vec<String> = Vec::new();
    for (at, process) in processes.iter().take(fits).enumerate() {
        // Each gets its share of what those before it have left.
        let shown = of_process(process, earlier, left / (fits - at));
        left -= shown.len();
        lines.extend(shown);
    }
    if others > 0 {
        lines.push(format!("and {others} more"));
    }
    let cut = |line: &String| line.chars().take(columns).collect::<String>() + "\n";
    lines.iter().map(cut).collect()
}

/// Its title and counters, in so many rows at most.
fn of_process(process: &ProcessCounters, earlier: &Earlier, rows: usize) -> Vec<String> {
    let rate = |name: &str, value| earlier.rate(process, name, value);
    let mut moving: Vec<_> = process.counters.iter().filter(|(_, value)| *value > 0).collect();
    moving.sort_by(|(a, x), (b, y)| {
        let key = |name: &str, value: u64| (rate(name, value).unwrap_or_default(), value as f64);
        key(b, *y).partial_cmp(&key(a, *x)).unwrap_or(core::cmp::Ordering::Equal)
    });
    let room = rows.saturating_sub(1);
    let hidden = moving.len().saturating_sub(room);
    moving.truncate(room);
    let mut head = title(process);
    if hidden > 0 {
        let _ = write!(head, ", {hidden} more counters");
    }
    let line = |(name, value): &(String, u64)| match rate(name, *value) {
        Some(rate) => format!("    {name:<28} {value:>14} {rate:>14.0}/s"),
        None => format!("    {name:<28} {value:>14}"),
    };
    core::iter::once(head).chain(moving.into_iter().map(line)).collect()
}

/// One line, so that `--watch` gives a line each time.
fn as_json(processes: &[ProcessCounters]) -> String {
    let process = |process: &ProcessCounters| {
        let ProcessCounters { pid, command, device, control, counters, .. } = process;
        let counters: BTreeMap<&str, u64> =
            counters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        json!({
            "pid": pid, "command": command, "device": device, "congestion_control": control,
            "counters": counters,
        })
    };
    let processes: Value = processes.iter().map(process).collect();
    format!("{processes}\n")
}

#[cfg(test)]
mod tests {
    use snapbox::{assert_data_eq, str};

    use super::*;

    fn processes(sent: u64) -> Vec<ProcessCounters> {
        let counters = [("rx_packets", 0), ("tx_packets", sent)];
        vec![ProcessCounters {
            pid: 4711,
            command: "ib_write_bw".into(),
            device: "ferroce0".into(),
            slot: 3,
            control: String::new(),
            counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        }]
    }

    #[test]
    fn counters_of_zero_are_only_counted() {
        assert_data_eq!(
            as_text(&processes(1_000)),
            str![[r#"
ib_write_bw (process 4711) on ferroce0
    tx_packets                             1000
    (counters that are zero)                  1

"#]]
        );
    }

    #[test]
    fn a_second_look_has_rates() {
        let earlier = Earlier::new(&processes(1_000), 2.0);
        assert_data_eq!(
            as_screen(&processes(5_000), &earlier, SCREEN),
            str![[r#"
ib_write_bw (process 4711) on ferroce0
    tx_packets                             5000           2000/s

"#]]
        );
    }

    #[test]
    fn a_screen_is_never_longer_or_wider_than_it_is() {
        let of = |slot: u32| {
            let counters = (0..90).map(|at| (format!("counter_{at}"), u64::from(slot) * 7 + at));
            let command = "a_program_with_a_long_name_that_goes_on_and_on_and_on_and_on".into();
            let device = "ferroce0".into();
            let (control, counters) = (String::new(), counters.collect());
            ProcessCounters { pid: slot, command, device, slot, control, counters }
        };
        for count in 1..40 {
            let processes: Vec<_> = (0..count).map(of).collect();
            for screen in [(24, 80), (10, 40), (4, 80)] {
                let text = as_screen(&processes, &Earlier::default(), screen);
                assert!(text.lines().count() < screen.0, "{count} on {screen:?}");
                assert!(text.lines().all(|line| line.chars().count() <= screen.1));
                assert!(!text.is_empty());
            }
        }
        let text = as_screen(&[of(1)], &Earlier::default(), SCREEN);
        assert!(text.lines().nth(1).unwrap().contains("counter_89"), "{text}");
    }

    #[test]
    fn json_has_every_counter_on_one_line() {
        assert_data_eq!(
            as_json(&processes(1_000)),
            str![[r#"
[{"command":"ib_write_bw","congestion_control":"","counters":{"rx_packets":0,"tx_packets":1000},"device":"ferroce0","pid":4711}]

"#]]
        );
        assert_data_eq!(
            as_json(&[]),
            str![[r#"
[]

"#]]
        );
    }
}
