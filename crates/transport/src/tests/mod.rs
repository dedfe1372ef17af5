//! Packet conversations between two engines.

mod between_hosts;
mod black_hole;
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
mod network;
mod paths;
mod pauses;
mod recovery;
mod runs;
mod selective;
mod states;
mod storm;
mod strides;
mod windows;
mod xrc;

use rdma::{Completion, CompletionStatus, Time};
use std::vec;
use std::vec::Vec;
use wire::roce;

use crate::testing::{Node, Pair};
use crate::{Arrival, Endpoint};

/// Identifier and status of every completion that waits.
fn statuses(node: &mut Node) -> Vec<(u64, CompletionStatus)> {
    node.completions().iter().map(|completion| (completion.id, completion.status)).collect()
}

/// Node 0 writes `length` bytes, and checks that they arrive.
fn write(pair: &mut Pair, length: u32) {
    pair.nodes[0].fill(0, length as usize, 1);
    let expected = pair.nodes[0].bytes(0, length as usize);
    let from = pair.nodes[0].sge(0, length);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[1].bytes(0, length as usize), expected);
}

/// The one completion that waits.
fn only(node: &mut Node) -> Completion {
    let completions = node.completions();
    let [completion] = completions[..] else { panic!("not one completion: {completions:?}") };
    completion
}

/// Has one node receive a packet as if from the other.
fn inject(pair: &mut Pair, to: usize, header: &roce::Repr, payload: &[u8]) {
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes.extend(payload);
    let [destination, source] = [to, 1 - to].map(|node| pair.nodes[node].gid);
    let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 64 };
    pair.inject(to, &arrival, &bytes);
}

/// Takes out one packet, which then counts as sent.
fn take_one(endpoint: &mut Endpoint, now: Time) -> Option<roce::Repr> {
    let run = endpoint.poll_transmit(now, 1)?;
    let header = *run.header();
    run.sent();
    Some(header)
}
