//! What a program's run leaves behind, for whoever waits for its end.
//!
//! `FERROCE_STATS` names a folder, which `ferroce run --stats` makes, reads when the program has ended, and
//! removes. In it, each process of the program has
//!
//! ```text
//!   PID.journal              a line for each event of a queue pair, and for each call that was refused
//!   PID-DEVICE-SLOT          the file of counters of each NIC (counters_dir), under a second name
//! ```
//!
//! Both are files that others read, so they are there however the process ends: by `exit`, `_exit`, or a signal,
//! SIGKILL among them. A process that is killed, or calls `_exit`, may not have shown what it counted in the last
//! `PUBLISH_INTERVAL`.
//!
//! **Invariants:** a line is written by one call, and whole or not there. Nothing of this is done on the data
//! path, and without the variable nothing at all.
//!
//! **Deliberately absent:** a lock. Lines are rare, so each opens the file anew, and a forked child writes to its
//! own.

use core::fmt;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rdma::{Gid, QpState, QpType, Qpn};

use crate::host::counters::{self, ProcessCounters};
pub use crate::host::run_folder::Folder;

/// The variable that names the folder.
pub const VARIABLE: &str = "FERROCE_STATS";

const SUFFIX: &str = "journal";

/// A queue pair, when it changed its state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// Its number, as programs print it.
    pub qpn: String,
    /// Its transport service.
    pub service: String,
    /// Its state; `gone` when it was destroyed before the program ended.
    pub state: String,
    /// The address of its peer, once it has one.
    pub peer: Option<String>,
    /// Its peer's number.
    pub peer_qpn: Option<String>,
    /// Its device.
    pub device: String,
}

/// What one process of the program left behind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// Its ID.
    pub pid: u32,
    /// Its name, as far as it is known.
    pub command: String,
    /// Its queue pairs as they were last, in the order in which they were made.
    pub queue_pairs: Vec<QueuePair>,
    /// Why queue pairs failed, in their order.
    pub failed: Vec<String>,
    /// Which calls were refused, and why.
    pub refused: Vec<String>,
    /// Its NICs, and what they counted.
    pub nics: Vec<ProcessCounters>,
}

/// The folder that the environment names.
pub(crate) fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let named = || {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from)?;
        (named.is_absolute() && named.is_dir()).then_some(named)
    };
    FOLDER.get_or_init(named).as_deref()
}

/// Whether anybody wants to know.
pub fn is_kept() -> bool {
    folder().is_some()
}

/// A queue pair has a new state, and perhaps a peer.
pub fn note_state(
    device: &str,
    (qpn, kind, state): (Qpn, QpType, QpState),
    (peer, peer_qpn): (Gid, Qpn),
) {
    if !is_kept() {
        return;
    }
    let peer =
        if peer.is_zero() { String::from("-\t-") } else { format!("{}\t{peer_qpn}", peer.ip()) };
    write(format_args!("state\t{qpn}\t{kind}\t{state}\t{peer}\t{device}"));
}

/// A queue pair is gone.
pub fn note_gone(qpn: Qpn) {
    write(format_args!("gone\t{qpn}"));
}

/// A queue pair failed.
pub(crate) fn note_failure(qpn: Qpn, to: QpState, why: &dyn fmt::Display) {
    write(format_args!("failed\t{qpn}\t{to}\t{why}"));
}

/// A call of the program was refused.
pub fn note_refusal(why: &dyn fmt::Display) {
    write(format_args!("refused\t{why}"));
}

fn write(line: fmt::Arguments<'_>) {
    let Some(folder) = folder() else { return };
    let path = folder.join(format!("{}.{SUFFIX}", std::process::id()));
    let line = format!("{}\n", line.to_string().replace('\n', " "));
    let appended = File::options()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = appended {
        tracing::debug!(%error, "the journal of this run has a hole");
    }
}

/// Gives a file of counters a second name, which stays when the first goes.
pub(crate) fn keep(counters: &Path) {
    let Some(name) = folder().zip(counters.file_name()).map(|(folder, name)| folder.join(name))
    else {
        return;
    };
    let _ = fs::remove_file(&name);
    if let Err(error) = fs::hard_link(counters, &name) {
        tracing::warn!(%error, "this run's counters are not kept: {VARIABLE} is on another file system");
    }
}

/// Reads what the processes of a program have left in `folder`, by their IDs.
pub fn read(folder: &Path) -> Vec<Process> {
    let mut all: Vec<Process> = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let digits = name.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let Ok(pid) = digits.parse() else { continue };
        let at = all.iter().position(|process| process.pid == pid).unwrap_or_else(|| {
            all.push(Process { pid, ..Process::default() });
            all.len() - 1
        });
        let process = &mut all[at];
        if path.extension() == Some(OsStr::new(SUFFIX)) {
            let text = fs::read(&path).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().for_each(|line| process.take(line));
        } else if let Some(nic) = counters::read_kept(&path) {
            process.command.clone_from(&nic.command);
            process.nics.push(nic);
        }
    }
    all.sort_by_key(|process| process.pid);
    all
}

impl Process {
    /// Takes a line of the journal; one that says nothing is of a version that knows more.
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["state", qpn, service, state, peer, peer_qpn, device] => {
                let known = |text: &str| Some(text.to_owned()).filter(|text| text != "-");
                let pair = QueuePair {
                    qpn: qpn.into(),
                    service: service.into(),
                    state: state.into(),
                    peer: known(peer),
                    peer_qpn: known(peer_qpn),
                    device: device.into(),
                };
                match self.last(qpn) {
                    Some(known) if known.state != GONE => *known = pair,
                    _ => self.queue_pairs.push(pair),
                }
            }
            ["gone", qpn] => self.becomes(qpn, GONE),
            ["failed", qpn, to, why] => {
                self.becomes(qpn, to);
                self.failed.push(why.into());
            }
            ["refused", why] => self.refused.push(why.into()),
            _ => {}
        }
    }

    fn becomes(&mut self, qpn: &str, state: &str) {
        if let Some(pair) = self.last(qpn) {
            pair.state = state.into();
        }
    }

    /// The queue pair that had a number last.
    fn last(&mut self, qpn: &str) -> Option<&mut QueuePair> {
        self.queue_pairs.iter_mut().rev().find(|pair| pair.qpn == qpn)
    }
}

/// The state of a queue pair that was destroyed.
const GONE: &str = "gone";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_says_what_became_of_each_queue_pair() {
        let mut process = Process::default();
        for line in [
            "state\t0x71c000\tRC\tINIT\t-\t-\tferroce0",
            "state\t0x71c000\tRC\tRTR\t127.0.0.1\t0x000020\tferroce0",
            "refused\tibv_modify_qp INIT -> RTR: EINVAL: attr_mask lacks IBV_QP_RQ_PSN",
            "failed\t0x71c000\tERR\tQP 0x71c000 RTS -> ERR: because",
            "gone\t0x71c000",
            "state\t0x71c000\tUD\tRTR\t-\t-\tferroce0",
            "a line of a later version",
        ] {
            process.take(line);
        }
        let states = process.queue_pairs.iter().map(|pair| (&*pair.service, &*pair.state));
        assert_eq!(states.collect::<Vec<_>>(), [("RC", "gone"), ("UD", "RTR")]);
        assert_eq!(process.queue_pairs[0].peer.as_deref(), Some("127.0.0.1"));
        assert_eq!(process.failed, ["QP 0x71c000 RTS -> ERR: because"]);
        assert_eq!(process.refused.len(), 1);
    }
}
