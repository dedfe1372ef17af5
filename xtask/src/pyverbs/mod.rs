//! `cargo xtask pyverbs`: rdma-core's own test suite, which Debian ships with `python3-pyverbs`,
//! over our library. It is that of this machine, or that of another distribution, below its root folder.
//!
//! Most of its tests skip themselves where a device lacks something, and a run in which all skip
//! exits with success. So results are kept by name, and a committed list says which names must pass: one
//! that fails, skips or is gone is red, whatever the exit status.

mod huge_pages;
mod verdict;

use core::time::Duration;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;

use crate::debootstrap;
use crate::lab::Lab;
use crate::tally::Tally;
use crate::workspace::{self, root, target_dir};
use huge_pages::HugePages;
use verdict::{Results, Verdict};

/// Where the package puts its suite, below a root folder.
const INSTALLED: &str = "usr/share/doc/rdma-core/tests";
const PACKAGE: &str = "python3-pyverbs";
/// The interpreter that the package is built for, whatever else is on the path.
const PYTHON: &str = "/usr/bin/python3";
/// Goes into the folder of the suite.
const RUNNER: &str = include_str!("runner.py");
/// A whole run takes about a minute.
const DEADLINE: Duration = Duration::from_secs(600);
/// Lines of the suite's own output shown when it ended badly.
const LINES_SHOWN: usize = 15;

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pattern: Option<String>,
    link: Option<String>,
    bless: bool,
    /// Whose suite and interpreter they are, if not this machine's.
    distribution: Option<Distribution>,
}

/// Another distribution.
#[derive(Debug)]
struct Distribution {
    name: String,
    root: PathBuf,
    /// The first number of its release of rdma-core, whose suite it is.
    release: String,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let choice = Self {
            pattern: arguments.opt_value_from_str("-k")?,
            link: arguments.opt_value_from_str("--link")?,
            bless: arguments.contains("--bless"),
            distribution: None,
        };
        if choice.bless && choice.pattern.is_some() {
            bail!("--bless writes the whole list: leave out -k");
        }
        Ok(choice)
    }

    /// The whole suite, over a path that is not the default.
    pub(crate) fn over(link: &str) -> Self {
        Self { link: Some(link.to_owned()), ..Self::default() }
    }

    /// The same choice, of the suite of another distribution.
    pub(crate) fn of_distribution(self, name: &str, root: &Path) -> Result<Self> {
        let version = debootstrap::version(root, PACKAGE)?;
        let release = version.chars().take_while(char::is_ascii_digit).collect();
        let (name, root) = (name.to_owned(), root.to_owned());
        Ok(Self { distribution: Some(Distribution { name, root, release }), ..self })
    }

    /// The names that must pass, one a line, in a file of `golden/`. Distributions of the same release share it.
    fn list(&self) -> String {
        format!("golden/pyverbs{}.txt", self.suffix())
    }

    /// What tells the files of one release from those of this machine.
    fn suffix(&self) -> String {
        self.distribution.as_ref().map_or(String::new(), |other| format!("-{}", other.release))
    }

    /// The command that writes the list.
    fn blessing(&self) -> String {
        let other = self.distribution.as_ref();
        let flag = other.map_or(String::new(), |other| format!(" --distribution {}", other.name));
        format!("`cargo xtask pyverbs{flag} --bless`")
    }
}

/// Runs the suite, or the tests that match the pattern, and compares with the list.
pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    let other = choice.distribution.as_ref().map(|other| other.root.clone());
    let lab = Lab::open_apart()?.below(other);
    let suite = prepare(&lab, choice)?;
    let huge_pages = HugePages::reserve();
    let results = execute(&lab, &suite, choice)?;
    drop(huge_pages);
    print!("{}", results.table());

    let name = choice.list();
    let list = root().join(&name);
    if choice.bless {
        fs::write(&list, results.list())
            .with_context(|| format!("cannot write {}", list.display()))?;
        println!("{name} is written");
    }
    let listed = fs::read_to_string(&list)
        .with_context(|| format!("cannot read {name}\n hint: {}", choice.blessing()))?;
    let verdict = Verdict::of(&results, &listed, choice.pattern.is_none());
    print!("{verdict}");
    if verdict.has_news() {
        println!("new names pass: {} adds them to {name}", choice.blessing());
    }
    let tally = Tally { passed: verdict.passed, failed: verdict.red.len() };
    println!("{tally}");
    Ok(tally)
}

/// Copies the suite to where the user of the lab can read it.
fn prepare(lab: &Lab, choice: &Choice) -> Result<PathBuf> {
    let source = match &choice.distribution {
        None => find()?,
        Some(other) if is_installed(&other.root) => other.root.join(INSTALLED),
        Some(other) => bail!("{} has no {INSTALLED}", other.root.display()),
    };
    let suite = lab.folder().join("tests");
    workspace::run(Command::new("cp").arg("-rL").arg(&source).arg(&suite))?;
    let packed = |path: &PathBuf| path.extension() == Some(OsStr::new("gz"));
    let files: Vec<PathBuf> = entries(&suite)?.into_iter().filter(packed).collect();
    if !files.is_empty() {
        workspace::run(Command::new("gunzip").arg("-f").args(files))?;
    }
    let runner = suite.join("runner.py");
    fs::write(&runner, RUNNER).with_context(|| format!("cannot write {}", runner.display()))?;
    workspace::run(Command::new("chmod").args(["-R", "a+rX"]).arg(&suite))?;
    Ok(suite)
}

/// Whether the suite is installed below a root folder.
pub(crate) fn is_installed(root: &Path) -> bool {
    root.join(INSTALLED).join("__init__.py").is_file()
}

/// The installed suite; where documentation is not installed, that of the package, unpacked.
fn find() -> Result<PathBuf> {
    let system = Path::new("/");
    if is_installed(system) {
        return Ok(system.join(INSTALLED));
    }
    let folder = target_dir().join("pyverbs");
    let unpacked = folder.join("package");
    if !is_installed(&unpacked) {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        workspace::run(
            Command::new("apt-get").current_dir(&folder).args(["-q", "download", PACKAGE]),
        )
        .with_context(|| format!("the suite comes with Debian's {PACKAGE}"))?;
        let package = entries(&folder)?
            .into_iter()
            .find(|path| path.extension() == Some(OsStr::new("deb")))
            .context("apt-get has downloaded nothing")?;
        workspace::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
    }
    Ok(unpacked.join(INSTALLED))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let entries: std::io::Result<Vec<PathBuf>> = read();
    entries.with_context(|| format!("cannot read {}", folder.display()))
}

/// Runs the suite as an ordinary user.
fn execute(lab: &Lab, suite: &Path, choice: &Choice) -> Result<Results> {
    let results = lab.folder().join("results");
    let mut words = vec![
        PYTHON.to_owned(),
        suite.join("runner.py").display().to_string(),
        results.display().to_string(),
    ];
    // GID 1 is the IPv4 address; the suite takes 0 for "not given".
    words.extend(["-v", "--dev", "ferroce0", "--port", "1", "--gid", "1"].map(str::to_owned));
    if let Some(pattern) = &choice.pattern {
        words.extend(["-k".to_owned(), pattern.clone()]);
    }
    let link = choice.link.as_deref().map_or(String::new(), |link| format!(", link {link}"));
    let of = choice
        .distribution
        .as_ref()
        .map_or(String::new(), |other| format!(" {} of {}", other.release, other.name));
    println!("the suite of {PACKAGE}{of} as {}{link}", lab.user());
    let flags: Vec<String> =
        choice.link.iter().flat_map(|link| ["--link".to_owned(), link.clone()]).collect();
    let start = Instant::now();
    let ended = lab.finish("pyverbs", lab.run(&flags, &words), start + DEADLINE)?;
    let text = fs::read_to_string(&results).unwrap_or_default();
    let results = Results::parse(&text);
    if results.is_empty() || ended.status.is_none() {
        let lines: Vec<&str> = ended.stdout.lines().chain(ended.stderr.lines()).collect();
        let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
        match results.is_empty() {
            true => bail!("no test has run\n hint: is {PACKAGE} installed?\n{last}"),
            false => println!("did not end within {} s\n{last}", DEADLINE.as_secs()),
        }
    }
    keep(&text, &choice.suffix())?;
    println!("{:.0} s", start.elapsed().as_secs_f64());
    Ok(results)
}

/// Keeps the results, for the reasons of failures and skips.
fn keep(text: &str, suffix: &str) -> Result<()> {
    let folder = target_dir().join("pyverbs");
    let path = folder.join(format!("results{suffix}.txt"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_its_list_and_each_distribution_the_command_that_writes_it() {
        let here = Choice::default();
        assert_eq!(here.list(), "golden/pyverbs.txt");
        assert_eq!(here.blessing(), "`cargo xtask pyverbs --bless`");
        let (name, root, release) = ("sid".to_owned(), PathBuf::from("/sid"), "65".to_owned());
        let there = Choice { distribution: Some(Distribution { name, root, release }), ..here };
        assert_eq!(there.list(), "golden/pyverbs-65.txt");
        assert_eq!(there.blessing(), "`cargo xtask pyverbs --distribution sid --bless`");
    }
}
