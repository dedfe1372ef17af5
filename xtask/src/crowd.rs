//! `cargo xtask crowd`: many processes, each connected to each other, of which some are disturbed
//! (`crates/softnic/tests/nic/crowd.rs`).

use anyhow::{Result, bail};

use crate::tally;
use crate::workspace::cargo;

/// How many processes there are, and who is disturbed.
pub(crate) struct Choice {
    processes: String,
    seed: String,
    links: Vec<String>,
}

impl Default for Choice {
    fn default() -> Self {
        let links = ["shm", "udp"].map(str::to_owned).to_vec();
        Self { processes: "32".to_owned(), seed: "1".to_owned(), links }
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
            choice.processes = processes.to_string();
        }
        if let Some(seed) = arguments.opt_value_from_str::<_, u32>("--seed")? {
            choice.seed = seed.to_string();
        }
        if let Some(link) = arguments.opt_value_from_str::<_, String>("--link")? {
            choice.links = vec![link];
        }
        Ok(choice)
    }
}

/// Who is disturbed by another seed, where a look at rings is at stake.
pub(crate) fn second_seed() -> Choice {
    Choice { seed: "2".to_owned(), links: vec!["shm".to_owned()], ..Choice::default() }
}

/// Runs the processes over each link, and shows what they have measured.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    for link in &choice.links {
        let what =
            ["test", "--release", "--quiet", "--package", "ferroce-softnic", "--test", "nic"];
        let mut command = cargo();
        command.args(what).args(["--", "crowd::", "--nocapture"]);
        command.env("FERROCE_LINK", link);
        command.env("FERROCE_CROWD_PROCESSES", &choice.processes);
        command.env("FERROCE_CROWD_SEED", &choice.seed);
        tally::require_all_passed(tally::tests(&mut command)?)?;
    }
    Ok(())
}
