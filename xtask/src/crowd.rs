//! `cargo xtask crowd`: many processes, each connected to each other, of which some are disturbed
//! (`crates/softnic/tests/nic/crowd.rs`); with `--ends`, what short programs leave behind ([`ends`]).

mod ends;

use anyhow::{Result, bail};

use crate::tally;
use crate::workspace::Build;

/// How many processes there are, and who is disturbed.
pub(crate) struct Choice {
    processes: u32,
    seed: u32,
    /// Messages that each sends to each other before some are disturbed.
    rounds: u32,
    links: Vec<&'static str>,
    build: Build,
    /// How many short programs come and go instead.
    ends: Option<usize>,
    /// Whether this process is the one in namespaces of its own.
    inside: bool,
}

/// Over which the processes run one after the other, and what else `--link` may be.
const LINKS: [&str; 2] = ["shm", "udp"];
const CHECKED: &str = "shm,icrc";

impl Default for Choice {
    fn default() -> Self {
        let links = LINKS.to_vec();
        let build = Build::Release;
        Self { processes: 32, seed: 1, rounds: 5, links, build, ends: None, inside: false }
    }
}

impl Choice {
    pub(crate) fn parse(arguments: &mut pico_args::Arguments) -> Result<Self> {
        let mut choice = Self::default();
        if let Some(processes) = arguments.opt_value_from_str::<_, u32>("--processes")? {
            // With fewer there is nobody left who is well; a host has no more NICs.
            if !(6..=1000).contains(&processes) {
                bail!("--processes is from 6 to 1000, not {processes}");
            }
            choice.processes = processes;
        }
        if let Some(rounds) = arguments.opt_value_from_str::<_, u32>("--rounds")? {
            // All come to the next place within two minutes, or the crowd has failed.
            if !(1..=10_000).contains(&rounds) {
                bail!("--rounds is from 1 to 10000, not {rounds}");
            }
            choice.rounds = rounds;
        }
        if let Some(seed) = arguments.opt_value_from_str("--seed")? {
            choice.seed = seed;
        }
        choice.ends = arguments.opt_value_from_str("--ends")?;
        choice.inside = arguments.contains(ends::INSIDE);
        if let Some(link) = arguments.opt_value_from_str::<_, String>("--link")? {
            let known = LINKS.into_iter().chain([CHECKED]).find(|known| *known == link);
            let Some(link) = known else { bail!("--link is shm, shm,icrc or udp, not {link}") };
            choice.links = vec![link];
        }
        Ok(choice)
    }
}

/// What CI runs: few, of whom each has a ring to each; another seed, where a look at rings is at stake;
/// so many that rings once failed; and short programs.
pub(crate) fn of_ci() -> [Choice; 5] {
    let few = || Choice { build: Build::Ci, ..Choice::default() };
    [
        few(),
        Choice { seed: 2, links: vec!["shm"], ..few() },
        Choice { processes: 130, ..few() },
        Choice { processes: 200, ..few() },
        Choice { ends: Some(200), ..few() },
    ]
}

/// Runs the processes over each link, and shows what they have measured.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    if let Some(programs) = choice.ends {
        return ends::run(choice, programs);
    }
    for link in &choice.links {
        let mut command = choice.build.nics();
        command.args(["--", "crowd::", "--nocapture"]);
        command.env("FERROCE_LINK", link);
        command.env("FERROCE_CROWD_PROCESSES", choice.processes.to_string());
        command.env("FERROCE_CROWD_SEED", choice.seed.to_string());
        command.env("FERROCE_CROWD_ROUNDS", choice.rounds.to_string());
        tally::require_all_passed(tally::tests(&mut command)?)?;
    }
    Ok(())
}
