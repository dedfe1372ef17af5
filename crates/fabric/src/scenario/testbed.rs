//! Testbeds: what hosts, NICs, links and switches of one kind cost, in a file of its own.
//!
//! The same tables and words as in a scenario, without a network: how many hosts there are, and how they hang
//! together, is said by who uses it.

use super::{ScenarioError, Testbed, build, with_file};
use crate::extend::Extensions;
use crate::topology::Topology;

impl Testbed {
    /// Reads a testbed.
    ///
    /// # Errors
    /// [`ScenarioError`], with line and key.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        with_file(text, &[], Extensions::none(), build::testbed)
    }
}

/// The `[topology]` of a file that has nothing else.
///
/// # Errors
/// [`ScenarioError`], with line and key.
pub fn topology(text: &str) -> Result<Topology, ScenarioError> {
    with_file(text, &[], Extensions::none(), build::bare_topology)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SMALL: &str = r#"
title = "small"
rate_gbps = 40

[switch]
lossless_priorities = [0]

[host]
cores = 4
post_ns = 150
idle = [{ exit_us = 1, stay_us = 2 }, { exit_us = 10, stay_us = 20 }]
prefetch_order = "by-readiness"
"#;

    fn refused(text: &str) -> String {
        Testbed::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_testbed_is_hosts_of_any_number() {
        let testbed = Testbed::parse(SMALL).unwrap();
        let config = testbed.network(5);
        assert_eq!((config.topology.hosts.len(), config.nic.lossless_priorities), (5, 1));
        let host = config.host.unwrap();
        assert_eq!((host.cpu.cores, host.cpu.idle.len()), (4, 2));
    }

    #[test]
    fn a_mistake_is_named_with_its_line_its_key_and_a_remedy() {
        assert_eq!(
            refused(&SMALL.replace("post_ns", "posts_ns")),
            "line 10: unknown key `posts_ns`\nhint: did you mean `post_ns`?"
        );
        assert_eq!(
            refused(&SMALL.replace("post_ns = 150", "hogs = [4]")),
            "line 10: host.hogs: there is no core 4\nhint: cores are 0 to 3"
        );
        assert_eq!(
            refused(&SMALL.replace("stay_us = 20", "stay_us = 1")),
            "line 11: host.idle: the states are not in the order of their depth\n\
             hint: a deeper state has a longer exit_us and a longer stay_us"
        );
        assert_eq!(
            refused(&SMALL.replace("exit_us = 10", "exit_us = \"10\"")),
            "line 11: host.idle.exit_us: expected a number, and found the text \"10\"\n\
             hint: write it without quotes, and without a unit: the end of the key says that"
        );
        assert_eq!(
            refused(&SMALL.replace("by-readiness", "in-orders")),
            "line 12: host.prefetch_order: there is no \"in-orders\"\n\
             hint: did you mean \"in-order\"?"
        );
        assert_eq!(
            refused(&SMALL.replace("rate_gbps = 40", "")),
            "line 1: rate_gbps is missing\nhint: add rate_gbps to this table"
        );
    }

    /// Whatever is not a text has a source: of whom it is known, or what it was fitted on.
    #[test]
    fn every_number_of_a_testbed_says_where_it_is_from() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/testbeds");
        let mut titles = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let testbed = Testbed::parse(&text);
            let testbed = testbed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(path.file_stem().unwrap().to_str(), Some(testbed.title.as_str()));
            for line in text.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
                let is_text = line.starts_with("title") || line.starts_with("about");
                let source = line.split_once('#').map_or("", |(_, source)| source.trim());
                let says = ["source: ", "fitted on ", "estimate: "];
                let is_said = says.iter().any(|word| source.starts_with(word));
                assert!(is_text || is_said, "{}: {line}", path.display());
            }
            titles.push(testbed.title);
        }
        titles.sort();
        assert_eq!(
            titles,
            ["cx3-10g-arm", "cx3-40g-ethernet", "cx3-40g-xeon", "cx3-56g-xeon", "cx4-100g-power8"]
        );
    }

    #[test]
    fn a_topology_may_stand_alone() {
        let text = "[topology]\nshape = \"single-switch\"\nhosts = 3\nrate_gbps = 10\n";
        assert_eq!(topology(text).unwrap().hosts.len(), 3);
        let wrong = topology(&text.replace("hosts", "host")).unwrap_err().to_string();
        assert!(wrong.starts_with("line 3: topology.host: shape "), "{wrong}");
    }
}
