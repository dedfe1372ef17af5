//! `cargo xtask storm`: many storms, built for release; in CI as its other tests are.
//!
//! Of the transport alone, in pretended time (`transport::testing::storm`), or with `--link` of NICs over
//! a path of this machine (`crates/softnic/tests/nic/storm.rs`).

use std::process::Command;

use anyhow::{Result, bail};

use crate::tally;
use crate::workspace::{self, Build, cargo};

/// The default number of storms over a path.
const LINK_SEEDS: &str = "20000";

/// Builds the storm and passes `arguments` on to it.
pub(crate) fn run(mut arguments: pico_args::Arguments) -> Result<()> {
    if let Some(link) = arguments.opt_value_from_str::<_, String>("--link")? {
        let first = arguments.opt_value_from_str::<_, String>("--seed")?;
        let seeds = arguments.opt_value_from_str::<_, String>("--seeds")?;
        if let Some(word) = arguments.finish().first() {
            bail!("unexpected argument: {}", word.display());
        }
        let one = first.is_some().then(|| "1".to_owned());
        let seeds = seeds.or(one).unwrap_or_else(|| LINK_SEEDS.to_owned());
        let first = first.unwrap_or_else(|| "0".to_owned());
        return over(&link, &first, &seeds, Build::Release);
    }
    let what = ["run", "--release", "--quiet", "--package", "ferroce-transport"];
    let which = ["--features", "testing", "--example", "storm", "--"];
    workspace::run(cargo().args(what).args(which).args(arguments.finish()))
}

/// As many storms of the transport as CI runs.
pub(crate) fn of_ci(seeds: &str) -> Result<()> {
    workspace::run(workspace::whole("build").args(["--quiet", "--example", "storm"]))?;
    let program = workspace::target_dir().join("ci/examples/storm");
    workspace::run(Command::new(program).args(["--seeds", seeds]))
}

/// The storms of `seeds` seeds from `first` on, over the path `link`.
pub(crate) fn over(link: &str, first: &str, seeds: &str, build: Build) -> Result<()> {
    let mut command = build.nics();
    command.args(["--", "storm::"]);
    command.env("FERROCE_LINK", link);
    command.env("FERROCE_STORM_FIRST", first).env("FERROCE_STORM_SEEDS", seeds);
    tally::require_all_passed(tally::tests(&mut command)?)?;
    println!("{seeds} storms clean over {link}");
    Ok(())
}
