//! Deadlocks: queues that wait for each other in a circle.
//!
//! ```text
//!   queue Q of port P is paused by the port at its other end, P' of switch S',
//!   because a priority group of P' is full of packets that wait in queues of S',
//!   of which some are paused themselves: Q waits for each of those.
//! ```
//!
//! A circle of waiting queues need not be a deadlock: a group may drain through another queue. It is one
//! if two checks in a row find it, and none of its queues has sent anything in between (guo16, 4.2,
//! figure 4).

use std::collections::BTreeMap;

use super::partition::{Partition, holding};
use crate::links::Port;
use crate::pfc::PRIORITIES;
use crate::switch::Switch;
use crate::topology::Topology;

/// A queue: its port, and its number.
type Waiter = (u32, u8);

/// A circle of paused queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Circle {
    waiters: Vec<Waiter>,
}

/// A circle of paused queues, in names: each waits for the next, and the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle {
    /// Switch, neighbour that its port leads to, and priority queue.
    pub queues: Vec<(String, String, u8)>,
}

/// Looks for circles, and remembers the last one.
#[derive(Debug, Default)]
pub(super) struct Detector {
    suspect: Option<(Circle, Vec<u64>)>,
}

impl Detector {
    /// A circle that has stood still since the last look.
    pub(super) fn look(&mut self, partitions: &[Partition]) -> Option<Circle> {
        let Some(circle) = find(partitions) else {
            self.suspect = None;
            return None;
        };
        let sent: Vec<u64> = circle
            .waiters
            .iter()
            .map(|&(port, queue)| {
                let switch = partitions[holding(partitions, port)].switch_at(port);
                switch.map_or(0, |switch| switch.sent(port, usize::from(queue)))
            })
            .collect();
        let now = (circle, sent);
        let stood_still = self.suspect.as_ref() == Some(&now);
        let circle = stood_still.then(|| now.0.clone());
        self.suspect = Some(now);
        circle
    }
}

fn port_of(partitions: &[Partition], port: u32) -> &Port {
    partitions[holding(partitions, port)].links.at(port)
}

/// A circle of queues that wait for each other, if there is one. The same state gives the same circle.
fn find(partitions: &[Partition]) -> Option<Circle> {
    let mut waits: BTreeMap<Waiter, Vec<Waiter>> = BTreeMap::new();
    for partition in partitions {
        for port in partition.switches.iter().flat_map(Switch::ports) {
            let at = partition.links.at(port);
            let stuck = at.occupied & at.paused;
            for queue in (0..PRIORITIES as u8).filter(|queue| stuck >> queue & 1 != 0) {
                waits.insert((port, queue), blockers(partitions, port, queue));
            }
        }
    }
    // Depth first: an edge back to a waiter that is on the path closes a circle.
    let mut done: BTreeMap<Waiter, ()> = BTreeMap::new();
    for &start in waits.keys() {
        let mut path: Vec<(Waiter, usize)> = vec![(start, 0)];
        while let Some((at, next)) = path.last_mut() {
            let waiter = *at;
            if done.contains_key(&waiter) {
                path.pop();
                continue;
            }
            let Some(&blocker) = waits.get(&waiter).and_then(|all| all.get(*next)) else {
                done.insert(waiter, ());
                path.pop();
                continue;
            };
            *next += 1;
            if let Some(first) = path.iter().position(|&(on_path, _)| on_path == blocker) {
                let waiters = path[first..].iter().map(|&(waiter, _)| waiter).collect();
                return Some(Circle { waiters });
            }
            if waits.contains_key(&blocker) {
                path.push((blocker, 0));
            }
        }
    }
    None
}

/// The paused queues that hold the packets for which `queue` of `port` is paused.
fn blockers(partitions: &[Partition], port: u32, queue: u8) -> Vec<Waiter> {
    let at = port_of(partitions, port);
    let peer = port_of(partitions, at.peer);
    let partition = &partitions[holding(partitions, at.peer)];
    let Some(switch) = partition.switch_at(at.peer) else { return Vec::new() };
    let mut found = Vec::new();
    for priority in 0..PRIORITIES {
        let stops = at.pauses.priority_to_queue[priority] == queue && peer.off >> priority & 1 != 0;
        if !stops {
            continue;
        }
        for egress in switch.ports() {
            let out = partition.links.at(egress);
            if out.occupied & out.paused == 0 {
                continue;
            }
            let fed = switch.queues_fed_by(&partition.links, egress, peer.local, priority);
            let stuck = fed & out.paused;
            found.extend(
                (0..PRIORITIES as u8)
                    .filter(|queue| stuck >> queue & 1 != 0)
                    .map(|queue| (egress, queue)),
            );
        }
    }
    found
}

impl Circle {
    /// The circle in names.
    pub(super) fn named(&self, partitions: &[Partition], topology: &Topology) -> Cycle {
        let name = |port: u32| topology.name(port_of(partitions, port).node).to_owned();
        let queues = self
            .waiters
            .iter()
            .map(|&(port, queue)| (name(port), name(port_of(partitions, port).peer), queue))
            .collect();
        Cycle { queues }
    }
}
