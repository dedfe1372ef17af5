//! A lab in a terminal of its own, and programs on its hosts.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::runtime_folder;
use crate::lab::{Ended, Lab, Running, free_port};

/// Two hosts on one switch.
const NETWORK: &str = "scenarios/lab/two-hosts.toml";
/// How long anything may take: retries last two seconds where the machine has time.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(20);
/// The RC timeout of programs whose peer goes away: 67 ms.
pub(super) const TIMEOUT_CODE: &str = "14";

/// A lab that somebody has started; it is killed with this.
pub(super) struct Up<'l> {
    pub(super) lab: &'l Lab,
    name: String,
    pub(super) process: Running,
}

/// A program that sends to another one for a minute, and back.
pub(super) struct Pair {
    pub(super) server: Running,
    pub(super) client: Running,
}

impl Pair {
    /// Packets that its programs have received, by what a status says.
    pub(super) fn received(&self, status: &str) -> [u64; 2] {
        [&self.server, &self.client].map(|program| received(status, program.id()).unwrap_or(0))
    }
}

impl<'l> Up<'l> {
    /// `which` tells the labs of this process apart.
    pub(super) fn begin(lab: &'l Lab, which: char) -> Result<Self> {
        let file = lab.folder().join(NETWORK);
        Self::begin_with(lab, which, &[&file.to_string_lossy(), "--factor", "1"])
    }

    /// The same with what else `lab up` is told.
    pub(super) fn begin_with(lab: &'l Lab, which: char, words: &[&str]) -> Result<Self> {
        let name = format!("{which}{}", process::id());
        let process = lab.start(&name, up(lab, &name, words))?;
        let mut up = Self { lab, name, process };
        up.wait_for("the lab to begin", |up| Ok(up.status().is_ok()))?;
        Ok(up)
    }

    /// Two of one name at the same moment: the one that lives, and what the other says.
    pub(super) fn begin_twice(lab: &'l Lab, which: char) -> Result<(Self, String)> {
        let name = format!("{which}{}", process::id());
        let file = lab.folder().join(NETWORK);
        let words = [&file.to_string_lossy(), "--factor", "1"];
        let mut first = lab.start(&format!("{name}-first"), up(lab, &name, &words))?;
        let mut second = lab.start(&format!("{name}-second"), up(lab, &name, &words))?;
        let begin = Instant::now();
        while !first.has_ended()? && !second.has_ended()? {
            ensure!(begin.elapsed() < PATIENCE, "both live");
            sleep(GLANCE);
        }
        let (process, ended) = if first.has_ended()? { (second, first) } else { (first, second) };
        let ended = ended.finish(Instant::now() + PATIENCE)?;
        ensure!(!succeeded(&ended), "one ended as if all were well: {}", ended.stdout);
        let mut up = Self { lab, name, process };
        up.wait_for("the lab to begin", |up| Ok(up.status().is_ok()))?;
        Ok((up, ended.stderr))
    }

    /// Somebody else wants a lab of this name.
    pub(super) fn again(&self) -> Command {
        let file = self.lab.folder().join(NETWORK);
        up(self.lab, &self.name, &[&file.to_string_lossy()])
    }

    pub(super) fn wait_for(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let begin = Instant::now();
        while !is_so(self)? {
            ensure!(begin.elapsed() < PATIENCE, "waited for {what} in vain");
            sleep(GLANCE);
        }
        Ok(())
    }

    /// `ferroce lab WORDS` about this lab.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lab.plain(&self.lab.command().to_string_lossy());
        command.arg("lab").args(words).args(["--lab", &self.name]);
        command
    }

    /// What it prints.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String> {
        let asked = self.command(words);
        let ended = self.lab.finish("asked", asked, Instant::now() + PATIENCE)?;
        ensure!(succeeded(&ended), "lab {}: {}", words.join(" "), ended.stderr);
        Ok(ended.stdout)
    }

    pub(super) fn status(&self) -> Result<String> {
        self.ask(&["status"])
    }

    pub(super) fn run(&self, host: &str, words: &[&str]) -> Command {
        let mut command = self.command(&["run", "--host", host]);
        command.arg("--").args(words);
        command
    }

    /// A server on h0 and its client on h1.
    pub(super) fn two(&self, name: &str, words: &[&str]) -> Result<Pair> {
        self.two_on(["h0", "h1"], name, words)
    }

    /// The same on any hosts.
    pub(super) fn two_on(&self, hosts: [&str; 2], name: &str, words: &[&str]) -> Result<Pair> {
        let port = free_port()?.to_string();
        let words = [words, &["-p", &port]].concat();
        let file = |end| format!("{}-{name}-{end}", self.name);
        let mut server = self.lab.start(&file("server"), self.run(hosts[0], &words))?;
        let deadline = Instant::now() + PATIENCE;
        ensure!(server.listens(port.parse()?, deadline)?, "the server does not listen");
        let words = [&words[..], &["127.0.0.1"]].concat();
        let client = self.lab.start(&file("client"), self.run(hosts[1], &words))?;
        Ok(Pair { server, client })
    }

    /// Two programs that exchange data for a minute.
    pub(super) fn sending(&self, name: &str) -> Result<Pair> {
        let words = ["ib_write_bw", "-d", "ferroce0", "-b", "-D", "60", "-u", TIMEOUT_CODE];
        self.two(name, &words)
    }

    /// The same, each of which has received some.
    pub(super) fn pair(&mut self, name: &str) -> Result<Pair> {
        let pair = self.sending(name)?;
        self.wait_for_more(&pair)?;
        Ok(pair)
    }

    /// Waits until both have received a thousand packets from now on.
    pub(super) fn wait_for_more(&mut self, pair: &Pair) -> Result<()> {
        let before = pair.received(&self.status()?);
        self.wait_for("data at both ends", |up| {
            let now = pair.received(&up.status()?);
            Ok(now.iter().zip(before).all(|(now, before)| *now > before + 1_000))
        })
    }

    /// Whether programs of both hosts reach each other.
    pub(super) fn is_whole(&self) -> Result<()> {
        self.exchange(&["ib_send_bw", "-d", "ferroce0", "-n", "50", "-u", "18"])
    }

    /// A server and its client, which both end well.
    pub(super) fn exchange(&self, words: &[&str]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let Pair { server, client } = self.two("whole", words)?;
        for ended in [client.finish(deadline)?, server.finish(deadline)?] {
            ensure!(succeeded(&ended), "{}{}", ended.stdout, ended.stderr);
        }
        Ok(())
    }

    /// No program is on any host.
    pub(super) fn becomes_empty(&mut self) -> Result<()> {
        self.wait_for("no program", |up| Ok(up.status()?.contains("programs    none")))
    }

    pub(super) fn end(&self) -> Result<()> {
        self.ask(&["down"]).map(drop)
    }

    /// Ends as a lab should.
    pub(super) fn down(self) -> Result<()> {
        self.end()?;
        let ended = self.process.finish(Instant::now() + PATIENCE)?;
        ensure!(succeeded(&ended), "the lab ended badly: {}", ended.stderr);
        Ok(())
    }

    pub(super) fn socket(&self) -> Result<PathBuf> {
        let suffix = format!("-{}", self.name);
        let is_it = |path: &PathBuf| path.to_string_lossy().ends_with(&suffix);
        let entries = fs::read_dir(runtime_folder())?.flatten();
        entries.map(|entry| entry.path()).find(is_it).context("the lab has no socket")
    }

    /// What it holds: files in the folder of programs, descriptors, and kilobytes of memory.
    pub(super) fn holds(&self) -> Result<[u64; 3]> {
        let process = PathBuf::from(format!("/proc/{}", self.process.id()));
        let count = |folder: PathBuf| -> Result<u64> { Ok(fs::read_dir(folder)?.count() as u64) };
        let status = fs::read_to_string(process.join("status"))?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let memory = memory.context("the kernel does not say how much memory the lab has")?;
        Ok([count(runtime_folder())?, count(process.join("fd"))?, memory])
    }
}

fn up(lab: &Lab, name: &str, words: &[&str]) -> Command {
    let mut command = lab.plain(&lab.command().to_string_lossy());
    command.args(["lab", "up", "--name", name]).args(words);
    command
}

pub(super) fn succeeded(ended: &Ended) -> bool {
    ended.status.is_some_and(|status| status.success())
}

/// Packets that a program has received, by what a status says.
fn received(status: &str, process: u32) -> Option<u64> {
    let name = format!(" process {process} sent ");
    let (_, counts) = status.split_once(&name)?;
    counts.split_once("received ")?.1.split(' ').next()?.parse().ok()
}

pub(super) fn kill(running: &Running) -> Result<()> {
    signal(running, Signal::KILL)
}

pub(super) fn signal(running: &Running, signal: Signal) -> Result<()> {
    let id = Pid::from_raw(running.id().cast_signed()).context("a process has a number")?;
    Ok(kill_process(id, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_a_program_has_received_are_read_from_a_status() {
        let status = "  h0          process 47 sent 1 and received 2 packets\n  \
                      h1          process 4711 sent 17 and received 1234 packets; 1 were refused\n";
        assert_eq!(received(status, 4711), Some(1_234));
        assert_eq!(received(status, 47), Some(2));
        assert_eq!(received("  programs    none", 47), None);
    }
}
