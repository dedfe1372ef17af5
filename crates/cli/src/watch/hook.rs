//! What happens at a new finding: a command is run, or only told.

use core::time::Duration;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use ops::watch::{Finding, PortSample, remedy, sonic_command};

/// How long a command may take.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Hook {
    command: Option<String>,
    act: bool,
}

impl Hook {
    pub(super) fn new(command: Option<String>, act: bool) -> Self {
        Self { command, act }
    }

    /// Does it, and says what: remedy, SONiC's own watchdog, command.
    pub(super) fn found(&self, finding: &Finding, port: Option<&PortSample>) -> Vec<String> {
        let mut told = vec![format!("{} {}: {}", finding.kind, finding.who, remedy(finding.kind))];
        if let Some(command) = port.and_then(|port| sonic_command(finding, port)) {
            told.push(format!("on {}: {command}", finding.port.device));
        }
        match &self.command {
            Some(command) if self.act => told.push(run(command, finding)),
            Some(command) => told.push(format!("would run: {command}  (say --act)")),
            None => {}
        }
        told
    }
}

/// Runs `command`; values are in its environment, never in its text.
fn run(command: &str, finding: &Finding) -> String {
    let child = Command::new("sh")
        .args(["-c", command])
        .env("FERROCE_FINDING", finding.kind.name())
        .env("FERROCE_WHO", &finding.who)
        .env("FERROCE_PORT", finding.port.to_string())
        .env("FERROCE_PRIORITIES", finding.priority_list())
        .env("FERROCE_EVIDENCE", &finding.evidence)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return format!("cannot run {command}: {error}"),
    };
    let end = Instant::now() + COMMAND_TIME_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return format!("ran: {command}"),
            Ok(Some(status)) => return format!("{command}: {status}"),
            Ok(None) if Instant::now() < end => sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return format!("{command}: ended after {} s", COMMAND_TIME_MAX.as_secs());
            }
        }
    }
}
