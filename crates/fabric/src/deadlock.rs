//! Deadlocks: queues that wait for each other in a circle.
//!
//! ```text
//!   queue Q of port P is paused by the port at its other end, P' of switch S',
//!   because a priority group of P' is full of packets that wait in queues of S',
//!   of which some are paused themselves: Q waits for each of those.
//! ```
//!
//! A circle in that relation need not be a deadlock: a group may drain through another queue. One
//! that is found at two looks in a row, while none of its queues has sent anything in between, is
//! (guo16, 4.2, figure 4).

use std::collections::BTreeMap;

use crate::network::part::Part;
use crate::plant::{Node, Port};
use crate::switch::Switch;
use crate::switch::config::PRIORITIES;
use crate::topology::{End, Topology};

/// A queue: its port, and its number.
type Waiter = (u32, u8);

/// A circle of paused queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Circle {
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
pub(crate) struct Detector {
    suspect: Option<(Circle, Vec<u64>)>,
}

impl Detector {
    /// A circle that has stood still since the last look.
    pub(crate) fn look(&mut self, parts: &[Part]) -> Option<Circle> {
        let Some(circle) = find(parts) else {
            self.suspect = None;
            return None;
        };
        let sent: Vec<u64> = circle
            .waiters
            .iter()
            .map(|&(port, queue)| {
                switch_of(parts, port).map_or(0, |(_, at)| at.sent(port, usize::from(queue)))
            })
            .collect();
        let now = (circle, sent);
        let stood_still = self.suspect.as_ref() == Some(&now);
        let circle = stood_still.then(|| now.0.clone());
        self.suspect = Some(now);
        circle
    }
}

fn part_of(parts: &[Part], port: u32) -> &Part {
    &parts[parts.partition_point(|part| part.plant.ports().start <= port) - 1]
}

fn port_of(parts: &[Part], port: u32) -> &Port {
    part_of(parts, port).plant.at(port)
}

/// The switch that a port is of, if it is one's, and its part.
fn switch_of(parts: &[Part], port: u32) -> Option<(&Part, &Switch)> {
    let part = part_of(parts, port);
    let at = part.plant.at(port);
    match at.node {
        Node::Switch(_) => Some((part, &part.switches[at.slot as usize])),
        Node::Host(_) => None,
    }
}

/// A circle in the relation of waiting, if there is one; the same for the same state.
fn find(parts: &[Part]) -> Option<Circle> {
    let mut waits: BTreeMap<Waiter, Vec<Waiter>> = BTreeMap::new();
    for part in parts {
        for port in part.switches.iter().flat_map(Switch::ports) {
            let at = part.plant.at(port);
            let stuck = at.occupied & at.paused;
            for queue in (0..PRIORITIES as u8).filter(|queue| stuck >> queue & 1 != 0) {
                waits.insert((port, queue), blockers(parts, port, queue));
            }
        }
    }
    // Depth first; the way back to a waiter that is on the path is a circle.
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
fn blockers(parts: &[Part], port: u32, queue: u8) -> Vec<Waiter> {
    let at = port_of(parts, port);
    let peer = port_of(parts, at.peer);
    let Some((part, switch)) = switch_of(parts, at.peer) else { return Vec::new() };
    let mut found = Vec::new();
    for priority in 0..PRIORITIES {
        let stops = at.pauses.priority_to_queue[priority] == queue && peer.off >> priority & 1 != 0;
        if !stops {
            continue;
        }
        for egress in switch.ports() {
            let out = part.plant.at(egress);
            if out.occupied & out.paused == 0 {
                continue;
            }
            let fed = switch.queues_fed_by(&part.plant, egress, peer.local, priority);
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
    pub(crate) fn named(&self, parts: &[Part], topology: &Topology) -> Cycle {
        let name = |port: u32| {
            let end = match port_of(parts, port).node {
                Node::Host(host) => End::Host(host),
                Node::Switch(switch) => End::Switch(switch),
            };
            topology.name(end).to_owned()
        };
        let queues = self
            .waiters
            .iter()
            .map(|&(port, queue)| (name(port), name(port_of(parts, port).peer), queue))
            .collect();
        Cycle { queues }
    }
}
