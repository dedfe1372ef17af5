//! `cargo xtask routed`: programs of two hosts, and what a router between them sees and does.
//!
//! ```text
//!   client ───── 10.81.1.0/24 ───── router ───── 10.81.2.0/24 ───── server
//!    .1                          .254 │ .254                            .1
//!                       nftables: which ports, which packets pass, marks
//! ```
//!
//! All three are network namespaces. Each case has rules of its own, and looks at what the rules have counted and
//! at what the programs' NICs have.

mod cases;
mod place;

use std::env;
use std::process::Command;

use anyhow::{Result, bail};
use rustix::process::geteuid;

use crate::tally::Tally;
use crate::{terminal, workspace};
use cases::CASES;
use place::Place;

/// Set for the process that is in a namespace of its own, where the cables are laid.
const INSIDE: &str = "--inside";
const NEEDED: [&str; 3] = ["ib_write_bw", "nft", "setpriv"];

/// Which cases.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) filter: Option<String>,
    pub(crate) inside: bool,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut pico_args::Arguments) -> Result<Self> {
        let inside = arguments.contains(INSIDE);
        Ok(Self { filter: arguments.opt_value_from_str("--filter")?, inside })
    }
}

/// Says why nothing can be tested here, if that is so.
pub(crate) fn prepare() -> Result<()> {
    if !geteuid().is_root() {
        bail!("only root makes network namespaces that are joined");
    }
    for program in NEEDED {
        if workspace::installed(program).is_none() {
            bail!("{program} is not installed");
        }
    }
    Ok(())
}

/// Runs the cases.
pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    if !choice.inside {
        let mut command = Command::new("unshare");
        command.arg("--net").arg(env::current_exe()?).args(["routed", INSIDE]);
        if let Some(filter) = &choice.filter {
            command.args(["--filter", filter]);
        }
        return crate::tally::tests(&mut command);
    }
    let wanted = |name: &str| choice.filter.as_ref().is_none_or(|part| name.contains(part));
    let place = Place::build()?;
    let mut tally = Tally::default();
    for (name, case) in CASES {
        if !wanted(name) {
            continue;
        }
        match case(&place) {
            Ok(said) => {
                println!("  {} {name}: {said}", terminal::green("ok"));
                tally.passed += 1;
            }
            Err(error) => {
                println!("  {} {name}: {error:#}", terminal::red("FAILED"));
                tally.failed += 1;
            }
        }
    }
    println!("{tally}");
    Ok(tally)
}
