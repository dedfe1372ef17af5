//! Scenario files: a network, its settings, what its applications do, and what goes wrong, in TOML.
//!
//! ```text
//!   text ─► tables (serde; what may be written) ─► build (what it means) ─► NetworkConfig, end
//! ```
//!
//! Numbers end with their unit. A key that is not known, a name that names nothing and a value that
//! makes no sense are refused with the line, the key, what was expected, and a remedy where there is
//! one; nothing misspelt falls back to a default.

mod build;
mod error;
mod tables;

use rdma::Time;

use crate::NetworkConfig;

pub use error::ScenarioError;

/// A scenario that is ready to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// What it is called.
    pub title: String,
    /// Everything that the network is made of.
    pub network: NetworkConfig,
    /// When the run ends at the latest.
    pub end: Time,
}

impl Scenario {
    /// Reads a scenario. `seed` takes the place of the file's.
    ///
    /// # Errors
    /// [`ScenarioError`], with line and key.
    pub fn parse(text: &str, seed: Option<u64>) -> Result<Self, ScenarioError> {
        let tables: tables::File =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(text, &error))?;
        build::scenario(text, tables, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "two"
end_ms = 1

[topology]
shape = "single-switch"
hosts = 3
rate_gbps = 40
cable_m = 2

[switch]
alpha = "1/16"

[[workload]]
kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000
"#;

    fn refused(text: &str) -> String {
        Scenario::parse(text, None).unwrap_err().to_string()
    }

    #[test]
    fn a_small_scenario_runs() {
        let scenario = Scenario::parse(SMALL, Some(9)).unwrap();
        assert_eq!((scenario.title.as_str(), scenario.network.seed), ("two", 9));
        let mut network = crate::Network::new(scenario.network).unwrap();
        assert_eq!(network.run(scenario.end), crate::Verdict::Finished);
        assert_eq!(network.flows().len(), 2);
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_the_likely_one() {
        assert_eq!(
            refused(&SMALL.replace("senders = 2", "sender = 2")),
            "line 17: unknown key `sender`\nhint: did you mean `senders`?"
        );
        assert_eq!(
            refused(&SMALL.replace("rate_gbps = 40", "rate = 40")),
            "line 8: unknown key `rate`\nhint: did you mean `rate_gbps`?"
        );
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_line() {
        assert_eq!(
            refused(&SMALL.replace("\"h0\"", "\"h7\"")),
            "line 16: workload.receiver: there is no host \"h7\"\nhint: hosts are h0 to h2"
        );
        assert_eq!(
            refused(&SMALL.replace("\"1/16\"", "\"1/15\"")),
            "line 12: switch.alpha: \"1/15\" is no power of two from 1/256 to 128\n\
             hint: write \"1/16\", \"1\" or \"8\", for instance"
        );
        assert_eq!(
            refused(&SMALL.replace("hosts = 3", "")),
            "line 5: topology.hosts: shape \"single-switch\" needs it"
        );
        assert_eq!(
            refused(&SMALL.replace("hosts = 3", "hosts = 3\nk = 4")),
            "line 8: topology.k: shape \"single-switch\" does not have it\n\
             hint: its keys are hosts, rate_gbps, cable_m"
        );
        assert_eq!(
            refused(&SMALL.replace("senders = 2", "senders = 3")),
            "line 17: workload.senders: 3 of 2 other hosts"
        );
    }

    #[test]
    fn every_scenario_of_the_repository_can_be_made() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let mut seen = 0;
        let mut paths = vec![std::path::PathBuf::from(folder)];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let scenario = Scenario::parse(&text, None);
            let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let network = crate::Network::new(scenario.network).unwrap();
            // Some flows of experiments are made by the experiment.
            let complete = !network.flows().is_empty() || path.parent().unwrap().ends_with("guo16");
            assert!(complete, "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 4);
    }

    #[test]
    fn what_is_no_toml_is_said_where() {
        let message = refused(&SMALL.replace("hosts = 3", "hosts = = 3"));
        assert!(message.starts_with("line 7: "), "{message}");
    }
}
