//! `ferroce run --stats`: waits for the program's end, and says what it came to.
//!
//! A program cannot say it itself if it is killed. So `ferroce run` stays for once: the program is its child, and
//! what `ferroce run` is sent in its place goes on to it. It ends as the program did, by the same status or signal.

use core::time::Duration;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use softnic::journal::{self, Folder, Process};

use crate::failure::Failure;
use crate::output::cannot_write;
use crate::program;

/// What a terminal sends to the program as well.
const OF_THE_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];
/// What goes on to the program.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Counters that say why packets were sent again, and the cause in words.
const REPEATED: [(&str, &str); 4] = [
    ("local_ack_timeout_err", "timeouts"),
    ("rcvd_seq_err", "NAKs: packets were missing"),
    ("rcvd_rnr_err", "RNR NAKs: no receive was posted"),
    ("implied_nak_seq_err", "responses that were missing"),
];

/// Where the result goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A table on stderr, which is ours as much as the program's.
    Terminal,
    /// JSON.
    File(PathBuf),
}

impl Target {
    /// Of the flag's value. A file is made now, so that a bad path is an error before anything runs.
    pub(crate) fn new(named: &Path) -> Result<Self, Failure> {
        if named == Path::new("-") {
            return Ok(Self::Terminal);
        }
        let hint =
            "name a file in a folder that exists and that you may write to, or `-` for a table";
        fs::File::create(named).map_err(|error| cannot_write(named, error).hint(hint))?;
        Ok(Self::File(named.to_owned()))
    }
}

/// What a run came to.
struct Report {
    program: Vec<OsString>,
    status: ExitStatus,
    took: Duration,
    processes: Vec<Process>,
}

/// Runs the program to its end, and reports.
pub(crate) fn run(
    mut command: Command,
    program: &[OsString],
    target: &Target,
) -> Result<(), Failure> {
    let folder = Folder::begin()
        .map_err(|error| Failure::new(format!("cannot keep what the program does: {error}")))?;
    command.env(journal::VARIABLE, folder.path());
    let began = Instant::now();
    let ended = to_its_end(&mut command);
    let processes = journal::read(folder.path());
    drop(folder);
    let status = ended?;
    let report = Report { program: program.to_vec(), status, took: began.elapsed(), processes };
    match target {
        Target::Terminal => {
            let _ = io::stderr().write_all(report.table().as_bytes());
        }
        Target::File(path) => {
            let text = format!("{:#}\n", report.json());
            fs::write(path, text).map_err(|error| cannot_write(path, error))?;
        }
    }
    end_as(status)
}

/// Runs the program as its parent where `exec` would not say what is wrong with it: it hands what the kernel does not run
/// to a shell.
pub(crate) fn accompany(mut command: Command) -> Result<(), Failure> {
    end_as(to_its_end(&mut command)?)
}

fn to_its_end(command: &mut Command) -> Result<ExitStatus, Failure> {
    let ended = command.spawn().and_then(wait);
    ended.map_err(|error| program::cannot_run(Path::new(command.get_program()), &error))
}

/// Waits for the program, and passes on what we are sent for it.
fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let mut signals = Signals::new(OF_THE_TERMINAL.into_iter().chain(PASSED_ON))?;
    let handle = signals.handle();
    let pid = Pid::from_child(&child);
    let passing = std::thread::spawn(move || {
        for number in signals.forever().filter(|number| PASSED_ON.contains(number)) {
            if let Some(signal) = Signal::from_named_raw(number) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    let status = child.wait();
    handle.close();
    let _ = passing.join();
    status
}

/// Ends this process as the program ended.
fn end_as(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(code), _) => std::process::exit(code),
        (None, Some(signal)) => {
            let _ = emulate_default_handler(signal);
            std::process::exit(128 + signal)
        }
        (None, None) => Ok(()),
    }
}

impl Report {
    fn json(&self) -> Value {
        let words: Vec<_> = self.program.iter().map(|word| word.to_string_lossy()).collect();
        json!({
            "program": words,
            "exit_status": self.status.code(),
            "signal": self.status.signal(),
            "seconds": self.took.as_secs_f64(),
            "processes": self.processes.iter().map(process_json).collect::<Vec<_>>(),
        })
    }

    /// For people, in 80 columns.
    fn table(&self) -> String {
        let mut text = format!("\n{}\n", self.title());
        for process in &self.processes {
            table_of(process, &mut text);
        }
        if self.processes.is_empty() {
            text.push_str("  no process of it opened an RDMA device\n");
        }
        text
    }

    fn title(&self) -> String {
        let name = self.program.first().map(|name| name.display().to_string()).unwrap_or_default();
        let how = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (_, Some(signal)) => format!("killed by signal {signal}"),
            _ => String::from("ended"),
        };
        format!("{name}: {how} after {:.1} s", self.took.as_secs_f64())
    }
}

fn process_json(process: &Process) -> Value {
    let pairs = process.queue_pairs.iter().map(|pair| {
        json!({
            "qpn": pair.qpn, "service": pair.service, "state": pair.state, "device": pair.device,
            "peer": pair.peer, "peer_qpn": pair.peer_qpn,
        })
    });
    let nics = process.nics.iter().map(|nic| {
        let counters = nic.counters.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
        json!({
            "device": nic.device,
            "retransmissions": retransmissions(process, Some(&nic.device)),
            "counters": counters.collect::<Map<_, _>>(),
        })
    });
    json!({
        "pid": process.pid,
        "command": process.command,
        "queue_pairs": pairs.collect::<Vec<_>>(),
        "failed": process.failed,
        "refused": process.refused,
        "nics": nics.collect::<Vec<_>>(),
    })
}

/// How often packets were sent again, and what made the NICs do so.
fn retransmissions(process: &Process, device: Option<&str>) -> Value {
    let nics = process.nics.iter().filter(|nic| device.is_none_or(|device| nic.device == device));
    let counted = |wanted: &str| -> u64 {
        let all = nics.clone().flat_map(|nic| &nic.counters);
        all.filter(|(name, _)| name == wanted).map(|(_, value)| value).sum()
    };
    let causes = REPEATED.map(|(name, _)| (name.to_owned(), Value::from(counted(name))));
    let mut all: Map<_, _> = causes.into_iter().collect();
    all.insert("retransmitted_pkts".into(), counted("retransmitted_pkts").into());
    all.into()
}

fn table_of(process: &Process, text: &mut String) {
    let Process { pid, command, queue_pairs, failed, refused, nics } = process;
    let name = if command.is_empty() { "a process" } else { command };
    text.push_str(&format!("  {name} (process {pid})\n"));
    for pair in queue_pairs {
        let peer = match (&pair.peer, &pair.peer_qpn) {
            (Some(peer), Some(qpn)) => format!("to {peer} QP {qpn}"),
            _ => String::new(),
        };
        let line = format!("    QP {} {} {:<5} {peer}", pair.qpn, pair.service, pair.state);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (title, lines) in [("failed", failed), ("refused", refused)] {
        for line in lines {
            wrap(&format!("    {title}: {line}"), text);
        }
    }
    let repeated = retransmissions(process, None);
    let count = |name: &str| repeated[name].as_u64().unwrap_or_default();
    let causes = REPEATED.iter().filter(|(name, _)| count(name) > 0);
    let causes: Vec<_> = causes.map(|(name, cause)| format!("{} {cause}", count(name))).collect();
    if count("retransmitted_pkts") > 0 || !causes.is_empty() {
        let packets = count("retransmitted_pkts");
        wrap(&format!("    packets retransmitted: {packets} ({})", causes.join(", ")), text);
    }
    for nic in nics {
        text.push_str(&format!("    {}:\n", nic.device));
        let counted = nic.counters.iter().filter(|(_, value)| *value > 0);
        let cells: Vec<_> = counted.map(|(name, value)| format!("{name:<26}{value:>10}")).collect();
        for row in cells.chunks(2) {
            text.push_str(&format!("    {}\n", row.join("  ")));
        }
    }
}

/// Breaks a line at spaces, so that it fits 80 columns.
fn wrap(line: &str, text: &mut String) {
    const COLUMNS: usize = 80;
    const INDENT: &str = "        ";
    let mut length = 0;
    let lead = line.len() - line.trim_start().len();
    text.push_str(&line[..lead]);
    length += lead;
    for (at, word) in line.split_whitespace().enumerate() {
        let is_full = length + 1 + word.chars().count() > COLUMNS;
        if at > 0 && is_full {
            text.push('\n');
            text.push_str(INDENT);
            length = INDENT.len();
        } else if at > 0 {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += word.chars().count();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use softnic::counters::ProcessCounters;
    use softnic::journal::QueuePair;

    use super::*;

    fn report() -> Report {
        let counters =
            [("sent_pkts", 12), ("rcvd_seq_err", 2), ("retransmitted_pkts", 3), ("x", 0)];
        let nic = ProcessCounters {
            pid: 4711,
            command: "ib_write_bw".into(),
            device: "ferroce0".into(),
            slot: 3,
            control: String::new(),
            counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        };
        let pair = QueuePair {
            qpn: "0x71c000".into(),
            service: "RC".into(),
            state: "ERR".into(),
            peer: Some("127.0.0.1".into()),
            peer_qpn: Some("0x000020".into()),
            device: "ferroce0".into(),
        };
        let why = "QP 0x71c000 RTS -> ERR: remote access error: RDMA WRITE of 64 bytes at 0x7000 with R_Key 0x102";
        let process = Process {
            pid: 4711,
            command: "ib_write_bw".into(),
            queue_pairs: vec![pair],
            failed: vec![why.into()],
            refused: vec![],
            nics: vec![nic],
        };
        Report {
            program: vec!["ib_write_bw".into()],
            status: ExitStatus::from_raw(9),
            took: Duration::from_millis(1_500),
            processes: vec![process],
        }
    }

    #[test]
    fn the_table_says_who_failed_and_why_in_80_columns() {
        let table = report().table();
        snapbox::assert_data_eq!(
            &table,
            snapbox::str![[r#"

ib_write_bw: killed by signal 9 after 1.5 s
  ib_write_bw (process 4711)
    QP 0x71c000 RC ERR   to 127.0.0.1 QP 0x000020
    failed: QP 0x71c000 RTS -> ERR: remote access error: RDMA WRITE of 64 bytes
        at 0x7000 with R_Key 0x102
    packets retransmitted: 3 (2 NAKs: packets were missing)
    ferroce0:
    sent_pkts                         12  rcvd_seq_err                       2
    retransmitted_pkts                 3

"#]]
        );
        assert!(table.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn json_says_the_same() {
        let json = report().json();
        assert_eq!((&json["signal"], &json["exit_status"]), (&Value::from(9), &Value::Null));
        let nic = &json["processes"][0]["nics"][0];
        assert_eq!(nic["counters"]["sent_pkts"], 12);
        assert_eq!(nic["retransmissions"]["rcvd_seq_err"], 2);
        assert_eq!(json["processes"][0]["queue_pairs"][0]["state"], "ERR");
    }
}
