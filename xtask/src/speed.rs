//! `cargo xtask speed`: how many instructions the simulator takes for a packet to cross a link, and the
//! soft NIC for the steps of a short message (`crates/softnic/benches/paths.rs`, which has its numbers
//! beside what is counted).
//!
//! Time says little where a machine is shared, and nothing about another machine. The number of
//! instructions depends on the compiler alone, so this is what may not grow unnoticed. A job is compared
//! with a shorter one: the difference in instructions is divided by that in link-hops, so the cost of
//! starting cancels out.

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo};

/// The job that is counted: see `crates/fabric/benches/jobs.rs`.
const JOB: &str = "permutation";
/// The last accepted count. Lower it with a change that takes fewer; raise it only for a change that is
/// faster by the clock, such as events of half the memory (`docs/book/sim-speed.md`).
const INSTRUCTIONS: f64 = 1_110.0;
/// Tolerance for changes of the compiler.
const TOLERANCE: f64 = 0.05;

pub(crate) fn run() -> Result<()> {
    simulator()?;
    let nic = ["bench", "--package", "ferroce-softnic", "--bench", "paths", "--", "--check"];
    workspace::run(cargo().args(nic))
}

fn simulator() -> Result<()> {
    let bench = ["bench", "--package", "ferroce-fabric", "--bench", "jobs"];
    workspace::run(cargo().args(bench).arg("--no-run"))?;
    let text = workspace::output(cargo().args(bench).args(["--", JOB, "--instructions"]))
        .context("hint: `scripts/setup test` installs valgrind, which counts")?;
    let counted = counted(&text).with_context(|| format!("no number of instructions in {text}"))?;
    println!(
        "{counted} instructions a link-hop; at most {INSTRUCTIONS} and {:.0} %",
        TOLERANCE * 100.0
    );
    if counted > INSTRUCTIONS * (1.0 + TOLERANCE) {
        bail!(
            "the simulator has become slower: find out where with callgrind, or say why in \
             INSTRUCTIONS of xtask/src/speed.rs"
        );
    }
    Ok(())
}

/// Of `permutation: 1200 instructions a link-hop`.
fn counted(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(JOB)?.strip_prefix(": "))?;
    line.strip_suffix(" instructions a link-hop")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_what_the_bench_prints() {
        assert_eq!(counted("\npermutation: 812 instructions a link-hop\n"), Some(812.0));
        assert_eq!(counted("permutation: 2984000 link-hops in 0.25 s"), None);
    }
}
