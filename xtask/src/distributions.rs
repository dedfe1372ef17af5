//! `cargo xtask distributions`: other distributions' own programs over our libraries.
//!
//! Each distribution is a folder that debootstrap has filled, kept in `target/distributions`. Its programs
//! run there as an ordinary user, over `target/dist` as it was built here, against the oldest C library. With
//! more packages, its release of rdma-core's own test suite runs there, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use pico_args::Arguments;
use rustix::process::geteuid;

use crate::debootstrap;
use crate::programs;
use crate::pyverbs;
use crate::tally::Tally;
use crate::workspace;

/// Debian 12 is where the programs of `cargo xtask programs` are from.
const SUITES: [&str; 2] = ["trixie", "sid"];
/// What is installed in each.
const PACKAGES: &str = "rdma-core,ibverbs-utils,ibverbs-providers,rdmacm-utils,perftest";
/// And for all rows and the test suite, which asks `ip` for addresses: what is built upon verbs.
const PACKAGES_FULL: &str =
    "python3-pyverbs,ucx-utils,openmpi-bin,qperf,fio,libfabric-bin,iproute2";

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    full: bool,
    suite: Option<String>,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let full = arguments.contains("--full");
        Ok(Self { full, suite: arguments.opt_value_from_str("--suite")? })
    }

    fn suites(&self) -> Vec<&str> {
        self.suite.as_deref().map_or(SUITES.to_vec(), |suite| vec![suite])
    }
}

/// Fills the folders of the distributions that were chosen.
///
/// # Errors
/// Why they cannot be: no root, no debootstrap, no network.
pub(crate) fn prepare(choice: &Choice) -> Result<()> {
    if !geteuid().is_root() {
        bail!("only root can enter another root folder");
    }
    workspace::run(Command::new(workspace::root().join("scripts/setup")).arg("distributions"))?;
    choice.suites().into_iter().try_for_each(|suite| fill(suite, choice.full))
}

/// Runs the programs of each distribution.
pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    let mut sum = Tally::default();
    for suite in choice.suites() {
        let root = root_of(suite, choice.full);
        println!("{suite}: {}", versions(&root)?);
        let one = programs::run(&programs::Choice::of_distribution(root.clone(), choice.full))?;
        sum.passed += one.passed;
        sum.failed += one.failed;
        if choice.full {
            let tests = own_tests(suite, &root)?;
            sum.passed += tests.passed;
            sum.failed += tests.failed;
        }
    }
    Ok(sum)
}

fn own_tests(suite: &str, root: &Path) -> Result<Tally> {
    if !pyverbs::is_installed(root) {
        println!("  skip          rdma-core's own test suite: not installed there");
        return Ok(Tally::default());
    }
    pyverbs::run(&pyverbs::Choice::default().of_distribution(suite, root)?)
}

/// Runs the test suite of one distribution alone.
pub(crate) fn pyverbs(suite: &str, choice: pyverbs::Choice) -> Result<Tally> {
    prepare(&Choice { full: true, suite: Some(suite.to_owned()) })?;
    let root = root_of(suite, true);
    pyverbs::run(&choice.of_distribution(suite, &root)?)
}

/// One with more packages is a folder of its own.
fn root_of(suite: &str, full: bool) -> PathBuf {
    let folder = workspace::target_dir().join("distributions");
    folder.join(if full { format!("{suite}-full") } else { suite.to_owned() })
}

fn fill(suite: &str, full: bool) -> Result<()> {
    let mut packages = PACKAGES.to_owned();
    if full {
        packages = format!("{packages},{PACKAGES_FULL}");
    }
    let root = root_of(suite, full);
    let include = format!("--include={packages}");
    debootstrap::fill(&root, &["--variant=minbase", &include, suite], |_| Ok(()))?;
    // A folder is kept, and the list of packages may have become longer.
    let missing = packages.split(',').find(|package| debootstrap::version(&root, package).is_err());
    match missing {
        None => Ok(()),
        Some(package) => bail!(
            "{} has no {package}\n hint: remove the folder; it is filled anew",
            root.display()
        ),
    }
}

/// The versions of what a distribution has, as its package manager says them.
fn versions(root: &Path) -> Result<String> {
    let shown = |package| Ok(format!("{package} {}", debootstrap::version(root, package)?));
    let shown: Result<Vec<String>> =
        ["rdma-core", "perftest", "libc6"].map(shown).into_iter().collect();
    Ok(shown?.join(", "))
}
