//! The scenarios of guo16 as files, with the rows of each as settings that `ferroce sim --set` takes.
//!
//! ```text
//!   scenarios/guo16/livelock.toml + rows ──► livelock.toml, whose first lines are a command for each row
//! ```
//!
//! A row stands here once more, as words; a test reads each. What an experiment makes in code (flows that
//! hang on the seed, a moment of its own for each, what it counts and when) is said in the file's first lines.

use core::fmt::Write as _;

use super::{alpha, config_monitoring, counters, cpu, deadlock, dscp, ecmp, headroom, livelock};
use super::{loaded_latency, probes, slow_receiver, storm, tail_latency};

/// A scenario that experiments vary.
struct File {
    name: &'static str,
    text: &'static str,
    /// The claims that it is about.
    claims: &'static [&'static str],
    /// Each a name, and what is set.
    rows: &'static [(&'static str, &'static [&'static str])],
    /// What the experiment makes in code.
    besides: &'static str,
    /// Its flows, as workloads, where the file has none of its own.
    flows: fn() -> String,
}

/// A file of `scenarios/guo16/`, and its text.
macro_rules! file {
    ($name:literal, $claims:expr, $rows:expr, $besides:literal) => {
        File {
            name: $name,
            text: include_str!(concat!("../../../../scenarios/guo16/", $name)),
            claims: $claims,
            rows: $rows,
            besides: $besides,
            flows: String::new,
        }
    };
}

/// What becomes of flows that no file says.
const NO_FLOWS: &[(&str, &[&str])] = &[];

const FILES: &[File] = &[
    file!(
        "livelock.toml",
        livelock::CLAIMS,
        &[
            ("go-back-0", &["nic.recovery=go-back-0"]),
            ("go-back-N", &["nic.recovery=go-back-n"]),
            ("selective repeat", &["nic.recovery=selective-repeat"]),
            ("go-back-0, WRITEs", &["nic.recovery=go-back-0", "workload.0.verb=write"]),
            (
                "go-back-0, short messages",
                &[
                    "nic.recovery=go-back-0",
                    "workload.0.message_bytes=131_072",
                    "workload.0.messages=1_280",
                ],
            ),
        ],
        "the row without loss, which has no [[fault]]; READs, which h1 posts"
    ),
    file!(
        "deadlock.toml",
        deadlock::CLAIMS,
        &[
            ("flooding", &[]),
            ("option 3, drop", &["switch.incomplete_arp=drop"]),
            ("option 1, to the CPU", &["switch.incomplete_arp=cpu"]),
            ("option 2, ARP 4 min", &["switch.arp_timeout_ms=4"]),
            ("option 2, MAC 5 h", &["switch.mac_timeout_ms=300"]),
        ],
        "every server restarts, which says whether the circle stays; buffers and XONs of the map"
    ),
    file!(
        "storm.toml",
        storm::CLAIMS,
        &[
            ("none", &[]),
            ("NIC watchdog", &["nic.watchdog_ms=100"]),
            (
                "switch watchdog",
                &["switch.watchdog={ poll_ms = 50, detection_ms = 200, restoration_ms = 200 }"]
            ),
            (
                "both",
                &[
                    "nic.watchdog_ms=100",
                    "switch.watchdog={ poll_ms = 50, detection_ms = 200, restoration_ms = 200 }"
                ]
            ),
        ],
        "under the switch watchdog alone the NIC is repaired at a time, which is one [[fault]] more"
    ),
    file!(
        "slow-receiver.toml",
        slow_receiver::CLAIMS,
        &[
            ("pages of 4 KB, 1 GB", &[]),
            ("pages of 2 MB, 1 GB", &["nic.host_memory.page_bytes=2_097_152"]),
            ("pages of 4 KB, 4 MB", &["workload.0.spread_bytes=4_194_304"]),
        ],
        "the flow begins at a moment of its own"
    ),
    file!(
        "slow-receiver-tor.toml",
        slow_receiver::CLAIMS,
        NO_FLOWS,
        "all flows: bursts of the other rack towards h0, and one flow beside"
    ),
    file!(
        "dscp.toml",
        dscp::CLAIMS,
        &[
            ("priority in the DSCP", &[]),
            ("priority in the VLAN tag", &["switch.trust=pcp", "switch.server_ports=trunk"]),
        ],
        "with tags all NICs but that of the server that boots are told of VLANs (nic.tagged)"
    ),
    file!(
        "headroom.toml",
        headroom::CLAIMS,
        &[("to the byte", &[]), ("in cells", &["switch.cell_bytes=208"])],
        "the length of cables, and the headroom that is tried"
    ),
    file!("leaf-buffer.toml", headroom::CLAIMS, NO_FLOWS, "no packet: only what the buffer leaves"),
    file!(
        "alpha.toml",
        alpha::CLAIMS,
        &[("alpha 1/16", &[]), ("alpha 1/64", &["switch.alpha=1/64"])],
        "chatty servers and what answers them; the other alpha at two ToRs alone, and changed back later"
    ),
    file!(
        "tail-latency.toml",
        tail_latency::CLAIMS,
        NO_FLOWS,
        "all flows: questions and answers over RDMA and TCP"
    ),
    File {
        flows: ecmp::workloads,
        ..file!(
            "ecmp.toml",
            ecmp::CLAIMS,
            &[
                ("saturating", &[]),
                (
                    "DCQCN",
                    &[
                        "nic.congestion=dcqcn",
                        "switch.ecn={ min_bytes = 5_000, max_bytes = 200_000, max_probability = 0.01 }"
                    ]
                ),
                ("polarised", &["switch.polarised=true"]),
            ],
            "rows in which queue pairs are paced, bounded, or wait for each other"
        )
    },
    file!(
        "loaded-latency.toml",
        loaded_latency::CLAIMS,
        NO_FLOWS,
        "all flows: probes, and what fills the links"
    ),
    file!(
        "counters.toml",
        counters::CLAIMS,
        &[
            ("250 ns a packet", &["nics.h3.receive_ns=250"]),
            ("12 us a packet", &["nics.h3.receive_ns=12_000"])
        ],
        "other times; in a row the NIC of h3 stands still, which is a [[fault]]; when flows begin"
    ),
];

/// Experiments that are no scenarios: what they are called, their claims, and why.
const WITHOUT: &[(&str, &[&str], &str)] = &[
    (
        "config-monitoring",
        config_monitoring::CLAIMS,
        "it judges files of switches and hosts: ferroce doctor examples/cluster",
    ),
    (
        "pingmesh",
        probes::CLAIMS,
        "its probes are no workload: ferroce pingmesh sim scenarios/pingmesh/storm.toml",
    ),
    (
        "cpu",
        cpu::CLAIMS,
        "processor time is of hosts: ferroce bench write --world sim --testbed cx3-56g-xeon",
    ),
];

/// Those of them that are about `claims`.
pub(crate) fn without_files(claims: &[&str]) -> Vec<(&'static str, &'static str)> {
    let are_meant = |(_, of, _): &&(_, &[&str], _)| of.iter().any(|claim| claims.contains(claim));
    WITHOUT.iter().filter(are_meant).map(|&(name, _, why)| (name, why)).collect()
}

/// The scenarios of the experiments about `claims`, each as a file name and its text.
pub(crate) fn files(claims: &[&str]) -> Vec<(String, String)> {
    let are_meant = |file: &&File| file.claims.iter().any(|claim| claims.contains(claim));
    FILES.iter().filter(are_meant).map(|file| (file.name.to_owned(), file.whole())).collect()
}

impl File {
    /// Its text, behind what is run with it.
    fn whole(&self) -> String {
        let mut text =
            "# What `ferroce papers guo16` runs with this file, each row with eight seeds:\n#\n"
                .to_owned();
        for (name, set) in self.rows {
            let set: String = set.iter().map(|set| format!(" --set '{set}'")).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "#   {name}:\n#     ferroce sim {} --seeds 8{set}", self.name);
        }
        if self.rows.is_empty() {
            text += "#   (no row is a matter of keys alone: without flows of yours this simulates nothing)\n";
        }
        let _ =
            writeln!(text, "#\n# Made by the experiment, and not in the file: {}.\n", self.besides);
        text + self.text + &(self.flows)()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fabric::scenario::Scenario;

    use super::*;
    use crate::guo16::EXPERIMENTS;

    #[test]
    fn every_row_is_a_scenario_that_can_be_built_and_every_file_is_there() {
        for file in FILES {
            let rows = file.rows.iter().map(|(_, set)| *set).chain([&[][..]]);
            for set in rows {
                let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
                let scenario = Scenario::parse_set(&file.whole(), Path::new("."), &set, None);
                let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", file.name));
                assert!(fabric::Network::new(scenario.network).is_ok(), "{}", file.name);
            }
        }
        let ecmp = FILES.iter().find(|file| file.name == "ecmp.toml").unwrap();
        let ecmp = Scenario::parse(&ecmp.whole(), None).unwrap();
        assert_eq!(ecmp.network.flows.len(), 3_072);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/guo16");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
    }

    #[test]
    fn files_are_those_of_the_claims_that_are_meant() {
        let names = |claims: &[&str]| -> Vec<String> {
            files(claims).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(livelock::CLAIMS), ["livelock.toml"]);
        let all: Vec<&str> = EXPERIMENTS.iter().flat_map(|of| of.claims).copied().collect();
        assert_eq!(names(&all).len(), FILES.len());
        for experiment in EXPERIMENTS {
            let is_told = !names(experiment.claims).is_empty();
            assert_eq!(is_told, without_files(experiment.claims).is_empty());
        }
        let text = &files(storm::CLAIMS)[0].1;
        assert!(
            text.contains("\n#     ferroce sim storm.toml --seeds 8 --set 'nic.watchdog_ms=100'\n"),
            "{text}"
        );
    }
}
