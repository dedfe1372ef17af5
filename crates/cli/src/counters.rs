//! `ferroce counters`: the counters of running programs.

use core::fmt::Write;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::thread::sleep;

use serde_json::{Value, json};
use softnic::counters::{ProcessCounters, read_all};

use crate::args::Counters;
use crate::failure::Failure;
use crate::output::print;

/// Moves to the top left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) fn show(arguments: &Counters) -> Result<(), Failure> {
    let Some(seconds) = arguments.watch else {
        return print(&rendered(arguments, &read_all(), &Earlier::default()));
    };
    let clear = if io::stdout().is_terminal() && !arguments.json { CLEAR } else { "" };
    let mut earlier = Earlier::default();
    loop {
        let processes = read_all();
        print(&format!("{clear}{}", rendered(arguments, &processes, &earlier)))?;
        earlier = Earlier::new(&processes, seconds);
        sleep(Duration::from_secs_f64(seconds));
    }
}

fn rendered(arguments: &Counters, processes: &[ProcessCounters], earlier: &Earlier) -> String {
    if arguments.json { as_json(processes) } else { as_text(processes, earlier) }
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

    /// Per second since the previous look.
    fn rate(&self, process: &ProcessCounters, name: &str, value: u64) -> Option<f64> {
        let before = self.values.get(&(process.pid, process.slot, name.to_owned()))?;
        Some(value.saturating_sub(*before) as f64 / self.seconds)
    }
}

/// A process after the other, without the counters that are zero.
fn as_text(processes: &[ProcessCounters], earlier: &Earlier) -> String {
    let mut text = String::new();
    for process in processes {
        let ProcessCounters { pid, command, device, counters, .. } = process;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{command} (process {pid}) on {device}");
        let counted = counters.iter().filter(|(_, value)| *value > 0);
        for (name, value) in counted.clone() {
            let _ = match earlier.rate(process, name, *value) {
                Some(rate) => writeln!(text, "    {name:<28} {value:>14} {rate:>14.0}/s"),
                None => writeln!(text, "    {name:<28} {value:>14}"),
            };
        }
        let zero = counters.len() - counted.count();
        let _ = writeln!(text, "    {:<28} {zero:>14}", "(counters that are zero)");
    }
    if processes.is_empty() {
        text.push_str("no program of yours runs over Ferroce at the moment\n");
    }
    text
}

/// One line, so that `--watch` gives a line each time.
fn as_json(processes: &[ProcessCounters]) -> String {
    let process = |process: &ProcessCounters| {
        let ProcessCounters { pid, command, device, counters, .. } = process;
        let counters: BTreeMap<&str, u64> =
            counters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        json!({ "pid": pid, "command": command, "device": device, "counters": counters })
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
            counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        }]
    }

    #[test]
    fn counters_of_zero_are_only_counted() {
        assert_data_eq!(
            as_text(&processes(1_000), &Earlier::default()),
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
            as_text(&processes(5_000), &earlier),
            str![[r#"
ib_write_bw (process 4711) on ferroce0
    tx_packets                             5000           2000/s
    (counters that are zero)                  1

"#]]
        );
    }

    #[test]
    fn json_has_every_counter_on_one_line() {
        assert_data_eq!(
            as_json(&processes(1_000)),
            str![[r#"
[{"command":"ib_write_bw","counters":{"rx_packets":0,"tx_packets":1000},"device":"ferroce0","pid":4711}]

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
