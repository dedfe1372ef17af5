//! `cargo xtask extensions`: the crate `examples/extensions`, which is no part of the workspace, as the book tells a
//! reader to build, test and run it.
//!
//! It has the versions of dependencies that the workspace has, and its target directory, so that what the two share
//! is built once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tally::{self, Tally};
use crate::workspace::{cargo, output, root, run as run_command, shown, target_dir};

/// Scenarios, and what their summary says if the extension was at work.
const SCENARIOS: [(&str, &str); 3] = [
    ("gradient.toml", "Incast of 8 with a controller of ours"),
    ("two-choices.toml", "Web search over two choices"),
    ("parameter-server.toml", "parameter server, 14 workers, 2 servers"),
];

fn folder() -> PathBuf {
    root().join("examples/extensions")
}

/// A cargo command in the folder of the crate.
fn here() -> Command {
    let mut command = cargo();
    command.current_dir(folder()).env("CARGO_TARGET_DIR", target_dir());
    command
}

/// Builds all of it, and lets no warning pass. Flags for that would build everything else once more.
fn build() -> Result<()> {
    let mut command = here();
    let built = command.args(["build", "--quiet", "--profile", "ci", "--all-targets"]).output();
    let built = built.with_context(|| format!("cannot start {}", shown(&command)))?;
    let said = String::from_utf8_lossy(&built.stderr);
    let is_clean = !said.lines().any(|line| line.starts_with("warning"));
    ensure!(built.status.success() && is_clean, "{} says:\n{said}", shown(&command));
    Ok(())
}

pub(crate) fn run() -> Result<Tally> {
    let lock = folder().join("Cargo.lock");
    fs::copy(root().join("Cargo.lock"), &lock).with_context(|| format!("{}", lock.display()))?;
    run_command(here().args(["fmt", "--check"]))?;
    build()?;
    let tally = tally::tests(here().args(["test", "--profile", "ci"]))?;
    let results = tempfile::tempdir()?;
    for (file, title) in SCENARIOS {
        let folder = results.path().join(file);
        let summary = output(
            here()
                .args(["run", "--quiet", "--profile", "ci", "--", "sim", "--no-trials", file, "-o"])
                .arg(&folder),
        )?;
        ensure!(summary.contains(title), "{file}: its summary does not say {title:?}:\n{summary}");
        ensure!(Path::new(&folder).join("report.html").is_file(), "{file}: there is no report");
    }
    println!("  {} scenarios of examples/extensions run", SCENARIOS.len());
    Ok(tally)
}
