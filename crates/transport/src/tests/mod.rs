//! Packet conversations between two engines.

mod between_hosts;
mod blocked;
mod congestion;
mod connected;
mod datagrams;
mod errors;
mod fluid;
mod fuzz;
mod limits;
mod livelock;
mod loss;
mod multicast;
mod pauses;
mod recovery;
mod runs;
mod selective;
mod states;
mod storm;
mod windows;
mod xrc;

use rdma::{Completion, CompletionStatus, Time};
use std::vec::Vec;
use wire::roce;

use crate::Endpoint;
use crate::testing::Node;

/// Identifier and status of every completion that waits.
fn statuses(node: &mut Node) -> Vec<(u64, CompletionStatus)> {
    node.completions().iter().map(|completion| (completion.id, completion.status)).collect()
}

/// The one completion that waits.
fn only(node: &mut Node) -> Completion {
    let completions = node.completions();
    let [completion] = completions[..] else { panic!("not one completion: {completions:?}") };
    completion
}

/// Takes out one packet, which then counts as sent.
fn take_one(endpoint: &mut Endpoint, now: Time) -> Option<roce::Repr> {
    let run = endpoint.poll_transmit(now, 1)?;
    let header = *run.header();
    run.sent();
    Some(header)
}
