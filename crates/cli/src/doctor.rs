//! `ferroce doctor`: judges the configuration of switches and hosts.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::{available_parallelism, sleep};
use std::time::{Instant, SystemTime};

use clap::Args;
use ops::doctor::{
    Ask, Diagnosis, File, Folder, Rule, Severity, collect, explain, here, path, report, what_if,
};

use crate::failure::Failure;
use crate::output::{paragraphs, print};

pub(crate) const ENDS: &str = "\
Examples:
  ferroce doctor examples/cluster
  ferroce doctor examples/cluster --path h0,h5 --dscp 26
  ferroce doctor examples/cluster --what-if incast --at h7
  ferroce doctor --collect > collect.sh    # on each: sh collect.sh cluster/
  ferroce doctor --explain FD007

A folder has a folder for each device; desired.toml says what each should be,
and doctor.toml which findings are known and why. docs/book/doctor.md has all
of it.

Exit status: 0 when nothing is wrong, or notes only; 1 with a warning or an
error (--fail-on), or a chain that breaks or is not known (--path); 125 when the
folder cannot be read.";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// A folder with the files of each device in a folder of its own
    #[arg(
        value_name = "FOLDER",
        required_unless_present_any = ["here", "collect", "explain"],
        conflicts_with_all = ["here", "collect", "explain"]
    )]
    folder: Option<PathBuf>,

    /// Judge this host, by its commands and /sys
    #[arg(long, conflicts_with_all = ["collect", "explain"])]
    here: bool,

    /// Print the script that writes a device's folder
    #[arg(long, conflicts_with = "explain")]
    collect: bool,

    /// Say what a rule looks at, why, the incident behind it, and the remedy; all rules without a name
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,

    /// What every device should be, in the place of the folder's desired.toml
    #[arg(long, value_name = "FILE")]
    desired: Option<PathBuf>,

    /// Show one DSCP hop by hop between two hosts, there and back
    #[arg(long, value_name = "HOST,HOST", requires = "folder")]
    path: Option<String>,

    /// The DSCP of --path; otherwise that of the data
    #[arg(long, value_name = "NUMBER", requires = "path", value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: Option<u8>,

    /// Simulate a fault on the network of these files, as it runs and as it is desired, and name the victims
    #[arg(long, value_name = "FAULT", requires = "folder", conflicts_with_all = ["path", "sarif"])]
    what_if: Option<Fault>,

    /// The server with the fault; otherwise each draw takes another
    #[arg(long, value_name = "HOST", requires = "what_if")]
    at: Option<String>,

    /// How often it is simulated, with seeds from 1 on
    #[arg(long, value_name = "NUMBER", requires = "what_if", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=64))]
    draws: u64,

    /// Print JSON instead
    #[arg(long, conflicts_with = "path")]
    json: bool,

    /// Print SARIF 2.1.0 instead, for code review
    #[arg(long, conflicts_with_all = ["json", "path"])]
    sarif: bool,

    /// From which severity on the exit status is 1
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    fail_on: FailOn,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Fault {
    /// The NIC of a server pauses without end
    Storm,
    /// All servers send to one at once, every millisecond
    Incast,
    /// A server dies, and its switch has forgotten its port
    DeadServer,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FailOn {
    Note,
    Warning,
    Error,
    /// The exit status is 0 whatever is found
    Never,
}

pub(crate) fn run(arguments: &Doctor) -> ExitCode {
    let told = tell(arguments);
    told.unwrap_or_else(|failure| {
        crate::output::tell(&failure.to_string());
        failure.exit_code()
    })
}

fn tell(arguments: &Doctor) -> Result<ExitCode, Failure> {
    if arguments.collect {
        print(collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.explain {
        return told_rules(name);
    }
    let (folder, what) = match &arguments.folder {
        Some(at) => (read(at)?, at.display().to_string()),
        None => {
            let name = ThisHost.read("/proc/sys/kernel/hostname").unwrap_or_default();
            let name = name.trim().split(['.', '/']).next().unwrap_or_default().to_owned();
            let name = if name.is_empty() { "here".to_owned() } else { name };
            (here(&name, &mut ThisHost), format!("{name}, this host"))
        }
    };
    let desired = arguments.desired.as_deref().map(desired).transpose()?;
    let diagnosis = Diagnosis::of(&folder, desired.as_ref(), Some(SystemTime::now()));
    if let Some(ends) = &arguments.path {
        let Some((from, to)) = ends.split_once(',') else {
            return Err(Failure::new(format!("{ends:?} names no two hosts")).hint("--path h0,h5"));
        };
        let (text, breaks) = path(&diagnosis, from.trim(), to.trim(), arguments.dscp)
            .map_err(|error| Failure::from_message(&error))?;
        print(&text)?;
        return Ok(ExitCode::from(u8::from(breaks > 0)));
    }
    if let Some(fault) = arguments.what_if {
        return simulated(arguments, &diagnosis, fault, &what);
    }
    print(&if arguments.json {
        report::json(&diagnosis, &what)
    } else if arguments.sarif {
        report::sarif(&diagnosis)
    } else {
        report::text(&diagnosis, &what)
    })?;
    let bound = match arguments.fail_on {
        FailOn::Note => Severity::Note,
        FailOn::Warning => Severity::Warning,
        FailOn::Error => Severity::Error,
        FailOn::Never => return Ok(ExitCode::SUCCESS),
    };
    Ok(ExitCode::from(u8::from(diagnosis.worst().is_some_and(|worst| worst >= bound))))
}

/// Draws on all cores, told in their order.
fn simulated(
    arguments: &Doctor,
    diagnosis: &Diagnosis,
    fault: Fault,
    what: &str,
) -> Result<ExitCode, Failure> {
    let fault = match fault {
        Fault::Storm => what_if::WhatIf::Storm,
        Fault::Incast => what_if::WhatIf::Incast,
        Fault::DeadServer => what_if::WhatIf::DeadServer,
    };
    let trial = what_if::Trial::new(diagnosis, fault, arguments.at.as_deref(), arguments.draws)
        .map_err(|error| Failure::from_message(&error))?;
    let next = AtomicU64::new(0);
    let work = || {
        let mut own = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= trial.draws() {
                return own;
            }
            own.push((number, trial.draw(number)));
        }
    };
    let threads = available_parallelism().map_or(1, NonZeroUsize::get);
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(number, _)| *number);
    let draws = all.into_iter().map(|(_, draw)| draw).collect::<Result<Vec<_>, _>>();
    let draws = draws.map_err(|error| Failure::from_message(&error))?;
    print(&match arguments.json {
        true => what_if::json(&trial, &draws, what),
        false => what_if::text(&trial, &draws, what),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn told_rules(name: &str) -> Result<ExitCode, Failure> {
    if name.is_empty() {
        let line = |rule: Rule| format!("{}  {}\n", rule.id(), rule.title());
        print(&Rule::ALL.into_iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(rule) = Rule::find(name) else {
        let message = format!("there is no rule {name:?}");
        return Err(Failure::new(message).hint("ferroce doctor --explain lists all of them"));
    };
    print(&paragraphs(explain(rule)))?;
    Ok(ExitCode::SUCCESS)
}

fn read(at: &Path) -> Result<Folder, Failure> {
    let folder = Folder::read(at).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", at.display()))
            .hint("name a folder that has a folder for each device; `ferroce doctor --collect` fills them")
    })?;
    if folder.files.is_empty() && folder.left_out.is_empty() {
        let message = format!("there is nothing in {}", at.display());
        return Err(
            Failure::new(message).hint("`ferroce doctor --collect` prints a script that fills it")
        );
    }
    Ok(folder)
}

fn desired(at: &Path) -> Result<File, Failure> {
    let bytes = fs::read(at)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", at.display())))?;
    Ok(File { path: at.display().to_string(), bytes, modified: None })
}

/// The longest that a command of this host may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that is taken of what it prints.
const OUTPUT_MAX: u64 = 4 << 20;

/// This host, by its files and commands.
struct ThisHost;

impl Ask for ThisHost {
    fn list(&mut self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn read(&mut self, path: &str) -> Option<String> {
        let file = fs::File::open(path).ok()?;
        let mut bytes = Vec::new();
        file.take(OUTPUT_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn run(&mut self, program: &str, arguments: &[&str]) -> Option<String> {
        let mut child = Command::new(program)
            .args(arguments.iter().map(OsStr::new))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let stdout = child.stdout.take()?;
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.take(OUTPUT_MAX).read_to_end(&mut bytes).ok().map(|_| bytes)
        });
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Ok(Some(_)) = child.try_wait() {
                let bytes = reader.join().ok().flatten()?;
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            sleep(Duration::from_millis(5));
        }
        // It hangs: what it said is not waited for either.
        child.kill().ok()?;
        child.wait().ok()?;
        None
    }

    fn environment(&mut self) -> Vec<(String, String)> {
        let all = std::env::vars_os();
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        all.map(|(name, value)| (text(name), text(value))).collect()
    }
}
