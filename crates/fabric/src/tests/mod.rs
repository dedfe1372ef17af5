//! Whole networks, held against what can be computed by hand.

mod balance;
mod captures;
mod changes;
mod classes;
mod congestion;
mod controllers;
mod elements;
mod faults;
mod guo16;
mod jobs;
mod oracles;
mod outside;
mod partitions;
mod paths;
mod pauses;
mod shares;
mod slow_receiver;
mod tcp;
mod tenants;
mod verbs;
mod watchdog;

use rdma::{Rate, Span, Time};

use crate::topology::Cables;
use crate::workload::FlowSpec;
use crate::{Network, NetworkConfig, Verdict};

/// 100 Gb/s, 200 m (1 us).
const CABLES: Cables = Cables::new(Rate::from_gbps(100), 200);

/// A network with these flows, made and run until all have finished.
fn finish(config: NetworkConfig) -> Network {
    let mut network = Network::new(config).unwrap();
    assert_eq!(network.run(Time::ZERO + Span::from_ms(1_000)), Verdict::Finished);
    network
}

fn with_flows(mut config: NetworkConfig, flows: Vec<FlowSpec>) -> NetworkConfig {
    config.flows = flows;
    config
}
