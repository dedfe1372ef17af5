//! The guest, and the commands that it gets over a virtio serial port (the interrupts of an
//! emulated UART get lost under load); `guest-init.sh` defines them.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::cases::{GROUP, Meeting, Weather};
use super::image::{self, Image};
use super::{GLANCE, GUEST, MTU, TAP};
use crate::workspace;

/// How long booting may take on a busy machine.
const BOOT: Duration = Duration::from_secs(180);
/// How long the guest may take to answer, beyond the time of its program.
const ANSWER: Duration = Duration::from_secs(20);
const MEMORY_MB: &str = "768";

/// A running guest; dropping it ends it.
#[derive(Debug)]
pub(super) struct Guest {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    jobs: u32,
    pub(super) kernel: String,
}

/// A program in the guest.
#[derive(Debug)]
pub(super) struct Job {
    id: u32,
    seconds: u64,
    program: String,
}

/// How a program in the guest ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) status: i32,
    pub(super) printed: String,
    /// Since the guest was booted.
    pub(super) counters: BTreeMap<String, u64>,
}

impl Guest {
    /// Boots, and waits until the guest is ready.
    pub(super) fn boot(image: &Image) -> Result<Self> {
        let append = format!(
            "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable mitigations=off nokaslr \
             address={}/24 mtu={MTU}",
            GUEST.address
        );
        // The guest ends with us, for whatever reason we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        // The processor of QEMU's default hangs early in the boot.
        command.args(["-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", MEMORY_MB, "-M", "q35"]);
        command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        command.arg("-serial").arg(format!("file:{}", console().display()));
        command.args(["-chardev", "stdio,id=c,signal=off", "-device", "virtio-serial-pci"]);
        command.args(["-device", "virtserialport,chardev=c"]);
        command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initramfs);
        command.args(["-append", &append]);
        command.args(["-netdev", &format!("tap,id=n,ifname={TAP},script=no,downscript=no")]);
        command.args(["-device", "virtio-net-pci,netdev=n"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", workspace::shown(&command)))?;
        let stdin = child.stdin.take().context("QEMU has no stdin")?;
        let stdout = child.stdout.take().context("QEMU has no stdout")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut guest = Self { child, stdin, lines, jobs: 0, kernel: String::new() };
        let deadline = Instant::now() + BOOT;
        guest.kernel = loop {
            if let Some(kernel) = guest.line(deadline)?.strip_prefix("ready ") {
                break kernel.to_owned();
            }
        };
        Ok(guest)
    }

    /// Starts a program.
    pub(super) fn start(&mut self, words: &[String], seconds: u64) -> Result<Job> {
        self.run(words, "-", seconds)
    }

    /// Starts a program, and waits until it listens at its port.
    pub(super) fn serve(
        &mut self,
        words: &[String],
        (meeting, port): (Meeting, u16),
        seconds: u64,
    ) -> Result<Job> {
        let place = match meeting {
            Meeting::Tcp => format!("tcp:{port}"),
            Meeting::Cm => format!("cm:{port}"),
            // As /proc/net/igmp writes it.
            Meeting::Group => format!("group:{:08X}", u32::from_ne_bytes(GROUP.octets())),
        };
        let job = self.run(words, &place, seconds)?;
        let deadline = Instant::now() + Duration::from_secs(seconds) + ANSWER;
        while self.line(deadline)? != format!("+ {}", job.id) {}
        Ok(job)
    }

    fn run(&mut self, words: &[String], place: &str, seconds: u64) -> Result<Job> {
        self.jobs += 1;
        let id = self.jobs;
        self.say(&format!("run {id} {place} {seconds} {}", words.join(" ")))?;
        Ok(Job { id, seconds, program: words[0].clone() })
    }

    /// Waits for the program's end, and calls `meanwhile` now and then.
    pub(super) fn finish(&mut self, job: &Job, mut meanwhile: impl FnMut()) -> Result<Done> {
        let deadline = Instant::now() + Duration::from_secs(job.seconds) + ANSWER;
        let end = format!("= {} ", job.id);
        let mut done = Done { status: 0, printed: String::new(), counters: BTreeMap::new() };
        loop {
            let line = loop {
                meanwhile();
                let glance = Instant::now() + GLANCE;
                match self.lines.recv_timeout(GLANCE) {
                    Ok(line) => break line,
                    Err(_) if glance < deadline => {}
                    Err(_) => break self.line(deadline)?,
                }
            };
            if let Some(text) = line.strip_prefix("| ") {
                done.printed.push_str(text);
                done.printed.push('\n');
            } else if let Some(counter) = line.strip_prefix("# ") {
                let (name, value) = counter.split_once(' ').context("a counter without value")?;
                done.counters.insert(name.to_owned(), value.trim().parse()?);
            } else if let Some(status) = line.strip_prefix(&end) {
                done.status = status.trim().parse()?;
                return Ok(done);
            }
        }
    }

    /// Ends a program whose peer has failed.
    pub(super) fn stop(&mut self, job: &Job) -> Result<()> {
        self.say(&format!("stop {}", job.program))
    }

    /// Changes what happens to packets that the guest's card sends.
    pub(super) fn set_weather(&mut self, weather: Weather) -> Result<()> {
        self.say(&format!("weather {}", weather.of_guest()))
    }

    /// Ends it at once. It has no disk to damage.
    pub(super) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn say(&mut self, line: &str) -> Result<()> {
        writeln!(self.stdin, "{line}").context("the guest has ended")
    }

    fn line(&self, deadline: Instant) -> Result<String> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(Silent(last_words()).into()),
            Err(RecvTimeoutError::Disconnected) => bail!("the guest has ended{}", last_words()),
        }
    }
}

/// The guest does not report the end of a program that was killed at its deadline: its kernel stands still.
#[derive(Debug)]
pub(super) struct Silent(String);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the guest does not answer{}", self.0)
    }
}

impl core::error::Error for Silent {}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where the kernel's messages go.
fn console() -> PathBuf {
    image::folder().join("console.log")
}

/// The end of what the guest's kernel has said.
fn last_words() -> String {
    let bytes = fs::read(console()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(10)..].join("\n");
    format!("; its console, {}:\n{shown}", console().display())
}
