//! A program of an experiment: a process group of its own, which is ended with it.

use core::time::Duration;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long programs that are told to end have for it.
pub(super) const END_WAIT: Duration = Duration::from_millis(500);
const GLANCE: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    outputs: [PathBuf; 2],
    status: Option<ExitStatus>,
}

impl Group {
    /// Starts a program whose outputs are kept in `folder` under `name`.
    pub(super) fn start(mut command: Command, folder: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let outputs = ["out", "err"].map(|end| folder.join(format!("{name}.{end}")));
        command.stdin(Stdio::null());
        command.stdout(File::create(&outputs[0])?).stderr(File::create(&outputs[1])?);
        command.process_group(0);
        Ok(Self { child: command.spawn()?, outputs, status: None })
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// How it ended, if it has. What it has started and left behind ends then, too.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_some() {
            return self.status;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let has_ended = waitid(WaitId::Pid(self.id()), options).is_ok_and(|ended| ended.is_some());
        if has_ended {
            // Until it is waited for, its number is nobody else's.
            let _ = kill_process_group(self.id(), Signal::KILL);
            self.status = self.child.wait().ok();
        }
        self.status
    }

    /// Sends a signal to all of the group; nothing if it has ended.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.status().is_none() {
            // It may end at this moment.
            let _ = kill_process_group(self.id(), signal);
        }
    }

    /// Tells it to end.
    pub(super) fn tell_to_end(&mut self) {
        self.signal(Signal::TERM);
        // One that was stopped does not hear it.
        self.signal(Signal::CONT);
    }

    /// Sees to it that it ends, at `until` at the latest.
    pub(super) fn end(&mut self, until: Instant) {
        while self.status().is_none() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        self.kill();
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
    }

    /// What it has printed so far: lines of stdout, then of stderr.
    pub(super) fn printed(&self) -> String {
        let texts = self.outputs.iter().map(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A status in words.
pub(super) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// The signal of a name.
pub(super) fn signal_of(name: &str) -> Signal {
    match name {
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        _ => Signal::KILL,
    }
}

/// Whether a process of this network namespace listens at a TCP port.
pub(super) fn is_listened_on(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        // A kernel without IPv6 has no second table.
        let text = fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
        text.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().is_some_and(|local| local.ends_with(&suffix));
            local && columns.nth(1) == Some(LISTEN)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, folder: &Path) -> Group {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Group::start(command, folder, "it").unwrap()
    }

    fn wait(group: &mut Group) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = group.status() {
                return status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(GLANCE);
        }
    }

    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut group = shell("sleep 60 & echo $!; exit 3", folder.path());
        assert_eq!(words(wait(&mut group)), "status 3");
        let process: u32 = group.printed().trim().parse().unwrap();
        let is_gone = || {
            let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let begin = Instant::now();
        while !is_gone() {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(GLANCE);
        }
    }

    #[test]
    fn who_does_not_want_to_end_or_was_stopped_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut stopped = shell("echo here; sleep 60", folder.path());
        while !stopped.printed().contains("here") {
            std::thread::sleep(GLANCE);
        }
        stopped.signal(Signal::STOP);
        stopped.tell_to_end();
        stopped.end(Instant::now() + Duration::from_secs(20));
        assert_eq!(words(stopped.status().unwrap()), "signal 15");
        drop(shell("trap '' TERM; sleep 60", folder.path()));
    }

    #[test]
    fn a_listener_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listened_on(port));
        drop(listener);
        // A process that another test is starting has a copy of it until it executes its program.
        let begin = Instant::now();
        while is_listened_on(port) {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(GLANCE);
        }
    }
}
