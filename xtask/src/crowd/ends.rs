//! `cargo xtask crowd --ends N`: what short programs leave behind, of which half are killed.
//!
//! They run in network namespaces that come and go, over a `/dev/shm` of their own, so that nobody else's files are
//! counted. Each opens a device and a queue pair (`short.c`); every second one is killed at a moment that the seed
//! gives: while it is started, while it opens, while it waits. The last program that runs ends well, a while later.

use core::time::Duration;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use tempfile::TempDir;

use super::Choice;
use crate::dist;
use crate::network::hosts::Host;
use crate::workspace;

/// The flag of the process in namespaces of its own.
pub(super) const INSIDE: &str = "--inside";
/// The runtime folder, beside the program.
const RUNTIME: &str = "run";
/// Namespaces at a time, and how many programs run in each before it goes.
const NAMESPACES: usize = 4;
const PROGRAMS_OF_NAMESPACE: usize = 25;
/// Programs at a time.
const AT_ONCE: usize = 12;
/// Within what time of its start a program is killed. It takes some 20 ms to begin to wait, where nobody else works.
const KILLED_WITHIN_MS: u64 = 150;
/// For how long those wait that are killed, and those that are not.
const WAIT_MS: [u64; 2] = [60_000, 5];
/// A program that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// NICs look for what is left at most once a second.
const LATER: Duration = Duration::from_millis(1_200);
/// What stays, beside the folder with the devices' files of the last program's namespace.
const FURNITURE: [&str; 2] = ["counters", "swept"];

/// Builds what runs, and has it run in namespaces of its own.
pub(super) fn run(choice: &Choice, programs: usize) -> Result<()> {
    if choice.inside {
        return within(choice, programs);
    }
    dist::run()?;
    let folder = TempDir::new()?;
    compile(&folder.path().join("short"))?;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", "sh", "-c"]);
    command.arg("mount -t tmpfs none /dev/shm && ip link set lo up && exec \"$0\" \"$@\"");
    command.arg(env::current_exe()?).args(["crowd", INSIDE, "--ends", &programs.to_string()]);
    command.args(["--seed", &choice.seed.to_string()]);
    // What a program finds first if there is one: nothing may come to be here either.
    command.env("XDG_RUNTIME_DIR", folder.path().join(RUNTIME));
    workspace::run(&mut command)
}

fn compile(program: &Path) -> Result<()> {
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program);
    command.arg(workspace::root().join("xtask/src/crowd/short.c"));
    command.arg("-L").arg(workspace::dist_dir().join("lib/ferroce")).arg("-l:libibverbs.so.1");
    workspace::run(&mut command).context("the headers come with libibverbs-dev")
}

/// How programs ended.
#[derive(Debug, Default)]
struct Ends {
    well: usize,
    killed: usize,
}

fn within(choice: &Choice, programs: usize) -> Result<()> {
    let runtime =
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).context("no place to look at")?;
    let folder = runtime.parent().context("no place for the program")?.to_owned();
    fs::create_dir(&runtime)?;
    let places = [PathBuf::from("/dev/shm"), runtime];
    let mut rng = Rng::with_seed(choice.seed.into());
    let (mut ends, mut most_files, mut most_bytes) = (Ends::default(), 0, 0);
    let begin = Instant::now();
    for first in (0..programs).step_by(NAMESPACES * PROGRAMS_OF_NAMESPACE) {
        let hosts = (0..NAMESPACES).map(|place| host(first + place)).collect::<Result<Vec<_>>>()?;
        let last = programs.min(first + NAMESPACES * PROGRAMS_OF_NAMESPACE);
        batch(&folder, &hosts, first..last, &mut rng, &mut ends)?;
        let left = left_in(&places)?;
        most_files = most_files.max(left.len());
        most_bytes = most_bytes.max(bytes(&left));
    }
    let Ends { well, killed } = ends;
    let took = begin.elapsed().as_secs();
    println!("  {programs} programs in {took} s: {well} ended well, {killed} were killed");
    println!("  files and KiB at most: {most_files} and {}", most_bytes / 1024);
    let left = left_in(&places)?;
    println!("  when all had gone: {} and {}", left.len(), bytes(&left) / 1024);

    sleep(LATER);
    let status = short(&folder, None, WAIT_MS[1]).status()?;
    ensure!(status.success(), "the last program ended with {status}");
    let left = left_in(&places)?;
    println!("  after one more program: {} and {}", left.len(), bytes(&left) / 1024);
    let unexpected = unexpected(&places[0], left.into_keys())?;
    if !unexpected.is_empty() {
        bail!("{} files were left:\n  {}", unexpected.len(), unexpected.join("\n  "));
    }
    Ok(())
}

/// A namespace with an address of its own, so that its devices' files are not those of another.
fn host(number: usize) -> Result<Host> {
    let host = Host::new()?;
    host.ip(&["link", "set", "lo", "up"])?;
    let address = format!("10.81.{}.{}/32", number / 250, 1 + number % 250);
    host.ip(&["address", "add", &address, "dev", "lo"])?;
    Ok(host)
}

/// `ferroce run -- short`, in the namespace of a host.
fn short(folder: &Path, host: Option<&Host>, wait_ms: u64) -> Command {
    let ferroce = workspace::dist_dir().join("bin/ferroce");
    let mut command = match host {
        // It becomes the program: what is killed is not nsenter.
        Some(host) => {
            let mut command = Command::new("nsenter");
            command.args(["--target", &host.id().to_string(), "--net"]).arg(ferroce);
            command
        }
        None => Command::new(ferroce),
    };
    command.args(["run", "--"]).arg(folder.join("short")).arg(wait_ms.to_string());
    command.stdin(Stdio::null());
    command
}

/// Runs programs, some at a time, each in the namespace whose turn it is.
fn batch(
    folder: &Path,
    hosts: &[Host],
    numbers: core::ops::Range<usize>,
    rng: &mut Rng,
    ends: &mut Ends,
) -> Result<()> {
    let mut running: Vec<Program> = Vec::new();
    let mut numbers = numbers.into_iter().peekable();
    while numbers.peek().is_some() || !running.is_empty() {
        while running.len() < AT_ONCE
            && let Some(number) = numbers.next()
        {
            let moment = Duration::from_micros(rng.u64(0..KILLED_WITHIN_MS * 1000));
            let host = &hosts[rng.usize(0..hosts.len())];
            let is_victim = number % 2 == 0;
            let wait = WAIT_MS[usize::from(!is_victim)];
            let child = short(folder, Some(host), wait).spawn().context("cannot start nsenter")?;
            let killed_at = is_victim.then(|| Instant::now() + moment);
            running.push(Program { child, started: Instant::now(), killed_at });
        }
        let mut still = Vec::new();
        for mut program in running {
            if program.has_ended(ends)? {
                continue;
            }
            still.push(program);
        }
        running = still;
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

struct Program {
    child: Child,
    started: Instant,
    killed_at: Option<Instant>,
}

impl Program {
    /// Kills it if it is time to.
    fn has_ended(&mut self, ends: &mut Ends) -> Result<bool> {
        if self.killed_at.is_some_and(|moment| moment <= Instant::now()) {
            self.child.kill()?;
        }
        let Some(status) = self.child.try_wait()? else {
            ensure!(self.started.elapsed() < PATIENCE, "a program hangs");
            return Ok(false);
        };
        match (status.signal(), self.killed_at) {
            (Some(9), Some(_)) => ends.killed += 1,
            (None, None) if status.success() => ends.well += 1,
            _ => bail!("a program ended with {status}"),
        }
        Ok(true)
    }
}

/// Files, folders and sockets, with what they take in memory.
fn left_in(places: &[PathBuf]) -> Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    let mut folders = places.to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            // What somebody is just removing is not left.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, metadata.blocks() * 512);
        }
    }
    Ok(found)
}

fn bytes(files: &BTreeMap<PathBuf, u64>) -> u64 {
    files.values().sum()
}

/// What may not be there when nobody runs: all but the folder of this user, the furniture in it, which is empty, and one
/// folder of devices' files.
fn unexpected(shared: &Path, left: impl Iterator<Item = PathBuf>) -> Result<Vec<String>> {
    let user = shared.join("ferroce-0");
    let namespace = fs::metadata("/proc/self/ns/net")?.ino();
    let of_devices = user.join(format!("sys-{namespace}-"));
    let expected: Vec<PathBuf> = FURNITURE.map(|name| user.join(name)).into();
    let is_of_devices = |path: &PathBuf| {
        let folder = path.strip_prefix(&user).ok().and_then(|path| path.iter().next());
        let prefix = of_devices.file_name().unwrap_or_default().as_encoded_bytes();
        folder.is_some_and(|folder| folder.as_encoded_bytes().starts_with(prefix))
    };
    let unexpected =
        left.filter(|path| *path != user && !expected.contains(path) && !is_of_devices(path));
    Ok(unexpected.map(|path| path.display().to_string()).collect())
}
