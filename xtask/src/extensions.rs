//! `cargo xtask extensions`: the crate `examples/extensions`, which is no part of the workspace, as the book tells a
//! reader to build, test and run it.
//!
//! It has the versions of dependencies that the workspace has, and its target directory, so that what the two share
//! is built once. So has the crate that the book makes in an empty folder, of its blocks of code.

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

const CHAPTER: &str = "docs/book/extending.md";

fn folder() -> PathBuf {
    root().join("examples/extensions")
}

/// A cargo command in the folder of the crate.
fn here() -> Command {
    let mut command = cargo();
    outside(&mut command, &folder());
    command
}

/// A crate in `folder` is no member of the workspace, and is built as one.
fn outside(cargo: &mut Command, folder: &Path) {
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", target_dir());
    cargo.arg("--config").arg(root().join("xtask/src/extensions.toml"));
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
    from_an_empty_folder().context(CHAPTER)?;
    println!("  the crate that the book makes in an empty folder runs");
    Ok(tally)
}

/// Writes the files whose names stand in the first lines of the chapter's blocks into an empty folder, and runs what is
/// there as the chapter does.
fn from_an_empty_folder() -> Result<()> {
    let chapter = fs::read_to_string(root().join(CHAPTER))?;
    let folder = tempfile::tempdir()?;
    for (name, text) in files(&chapter) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        // The reader's clone is beside the folder; ours is here.
        fs::write(&path, text.replace("../ferroce/", &format!("{}/", root().display())))?;
    }
    fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
    let here = || {
        let mut command = cargo();
        outside(&mut command, folder.path());
        command.args(["run", "--quiet", "--profile", "ci", "--", "sim"]);
        command
    };
    let summary = output(here().arg("mine.toml"))?;
    ensure!(summary.contains("flows        7 (7 finished, 0 failed)"), "{summary}");
    let keys = output(here().args(["--keys", "nic.still"]))?;
    ensure!(keys.contains("packets"), "{keys}");
    Ok(())
}

/// The blocks of code of a page whose first line is a comment that names a file, each with its name.
fn files(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks
        .filter_map(|block| {
            let (_, text) = block.split_once('\n')?;
            let first = text.lines().next()?;
            let name = first.strip_prefix("// ").or_else(|| first.strip_prefix("# "))?;
            let is_name = name.ends_with(".rs") || name.ends_with(".toml");
            (is_name && !name.contains(' ')).then_some((name, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where they differ, what both share is built twice, and nobody is told.
    #[test]
    fn crates_outside_of_the_workspace_have_its_profile() {
        let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let lines = |text: &str| -> Vec<String> {
            let (_, profile) = text.split_once("[profile.ci]\n").unwrap();
            profile.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
        };
        let (ours, theirs) =
            (lines(&read("Cargo.toml")), lines(&read("xtask/src/extensions.toml")));
        // They use none of these, and cargo warns of what nothing uses.
        let unused = ["xtask.opt-level = 0", "ferroce-ibverbs.opt-level = 0"];
        // Which the profile of the workspace has from `dev`.
        let inherited = "ferroce-fabric.opt-level = 2";
        let expected = ours.iter().map(String::as_str).filter(|line| !unused.contains(line));
        let expected: Vec<&str> = expected.chain([inherited]).collect();
        assert_eq!(theirs, expected);
    }

    #[test]
    fn files_are_blocks_that_begin_with_their_name() {
        let page = "a\n```toml\n# one.toml\na = 1\n```\nb\n```sh\n# not this\n```\n```rust\n// src/two.rs\n```\n";
        assert_eq!(
            files(page),
            [("one.toml", "# one.toml\na = 1"), ("src/two.rs", "// src/two.rs")]
        );
        let chapter = include_str!("../../docs/book/extending.md");
        let names: Vec<&str> = files(chapter).iter().map(|(name, _)| *name).collect();
        let three = ["src/still.rs", "src/hashed.rs", "src/chain.rs"];
        assert_eq!(names, [&three[..], &["Cargo.toml", "src/main.rs", "mine.toml"]].concat());
    }
}
