//! The storm: engines, a network that does its worst, and an oracle that knows what must be.
//!
//! ```text
//!   seed ─► plan: nodes, links, settings, which faults there are, and how often
//!             │
//!             ▼
//!   storm: applications post, faults strike     every change of memory and every completion
//!   lull:  faults stop, all must end in time ──► is held against what was posted, in the moment
//!   calm:  broken links are mended, all works    in which it appears
//!             │
//!             ▼
//!   everything is destroyed, and nothing remains
//! ```
//!
//! One seed is one run, the same on every machine. The shape is that of TigerBeetle's VOPR.
//! **Deliberately absent:** bandwidth shared between nodes, and the queues of switches, so that marks
//! of congestion are drawn by lot; the `fabric` has them.

mod buffer;
mod check;
mod forgery;
mod ground;
mod link;
mod log;
mod marks;
mod network;
mod oracle;
mod plan;
pub(crate) mod queues;
pub(crate) mod random;
mod tally;
mod text;
mod trouble;
mod verbs;
mod windows;
mod work;
mod world;

use core::fmt;
use std::format;
use std::string::String;

use rdma::{QpType, Span};

pub use log::Log;
pub use tally::Tally;

use check::Check;
use plan::{AFTERMATH, CALM_OPERATIONS};
use world::{Happening, World};

/// What was counted in a storm without a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Packets sent.
    pub packets: u64,
    /// Completions checked.
    pub completions: u64,
    /// Packets sent a second time or more.
    pub retransmissions: u64,
    /// How often each fault and operation occurred.
    pub tally: Tally,
}

impl Report {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.completions += other.completions;
        self.retransmissions += other.retransmissions;
        self.tally.add(&other.tally);
    }
}

/// A promise that the engine broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The storm's seed.
    pub seed: u64,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.text)
    }
}

impl core::error::Error for Failure {}

/// Packets that a node takes out of its engine at once: more than any turn has.
const RUN_PACKETS: u32 = 64;

/// Runs the storm of `seed`.
///
/// # Errors
/// The first promise that is broken.
///
/// # Panics
/// If the engine does.
pub fn run(seed: u64, log: &mut Log) -> Result<Report, Failure> {
    run_with(seed, RUN_PACKETS, log)
}

/// Runs the storm of `seed` with nodes that take up to `run_packets` at once out of their engines,
/// which changes nothing.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_with(seed: u64, run_packets: u32, log: &mut Log) -> Result<Report, Failure> {
    let mut world = World::new(seed, run_packets, log);
    weather(&mut world).map_err(|text| Failure { seed, text })?;
    for (index, node) in world.nodes.iter().enumerate() {
        let stats = node.endpoint.stats();
        world.log.note(world.now, &world::place(index), "counted", || format!("{stats:?}"));
    }
    let again = |node: &world::Node| node.endpoint.stats().retransmitted_pkts;
    Ok(Report {
        packets: world.packets,
        completions: world.completions,
        retransmissions: world.nodes.iter().map(again).sum(),
        tally: world.tally,
    })
}

fn weather(world: &mut World<'_>) -> Check {
    storm(world);
    let end = world.now + world.plan.storm;
    world.run(end)?;

    phase(world, "lull");
    lull(world)?;
    expect_end(world)?;

    phase(world, "calm");
    calm(world)?;
    expect_end(world)?;
    for (index, link) in world.links.iter().enumerate() {
        for end in &link.ends {
            if end.failed || end.fatal {
                return Err(format!("link {index} failed in calm weather"));
            }
            if !end.inbound.is_empty() {
                return Err(format!("link {index} lost a message in calm weather"));
            }
        }
    }
    for node in &world.nodes {
        let stats = node.endpoint.stats();
        world.log.note(world.now, "", "counted", || format!("{stats:?}"));
    }
    world.destroy()
}

fn phase(world: &mut World<'_>, name: &str) {
    world.log.note(world.now, "", name, String::new);
}

/// Schedules the applications' requests and the large faults.
fn storm(world: &mut World<'_>) {
    phase(world, "storm");
    for line in world.plan.lines() {
        world.log.note(world.now, "", "plan", || line.clone());
    }
    let storm = world.plan.storm.as_ps();
    let at = |world: &mut World<'_>| Span::from_ps(world.random.below(storm));
    for link in 0..world.links.len() {
        for _ in 0..world.links[link].plan.operations {
            for side in [0, 1] {
                let mut after = at(world);
                // Some come in bursts.
                if world.random.chance(500) {
                    after = Span::from_ps(after.as_ps() & !0xfff_ffff);
                }
                world.schedule(after, Happening::Post { link, side });
            }
        }
    }
    let faults = world.plan.faults;
    let nodes = world.nodes.len() as u64;
    let links = world.links.len() as u64;
    for _ in 0..faults.partitions {
        // One direction between two nodes that share a link.
        let link = world.random.below(links) as usize;
        let side = world.random.below(2) as usize;
        let [from, to] = [side, 1 - side].map(|side| world.links[link].plan.nodes[side]);
        let (after, span) = (at(world), Span::from_us(world.random.between(10, 6_000)));
        world.schedule(after, Happening::Partition { from, to, span });
    }
    for _ in 0..faults.stops {
        let node = world.random.below(nodes) as usize;
        let (after, span) = (at(world), Span::from_us(world.random.between(10, 3_000)));
        world.schedule(after, Happening::Stop { node, span });
    }
    for _ in 0..faults.slows {
        let node = world.random.below(nodes) as usize;
        let (after, span) = (at(world), Span::from_us(world.random.between(100, 3_000)));
        let each = Span::from_ns(world.random.between(500, 40_000));
        world.schedule(after, Happening::Slow { node, span, each });
    }
    for _ in 0..faults.setbacks {
        let node = world.random.below(nodes) as usize;
        // All of them together are no longer than what a fault leaves behind.
        let most = AFTERMATH.as_ns_ceil() / faults.setbacks;
        let (after, span) = (at(world), Span::from_ns(world.random.between(10, most)));
        world.schedule(after, Happening::SetBack { node, span });
    }
    for _ in 0..faults.window_frees {
        let link = world.random.below(links) as usize;
        let (side, index) = (world.random.below(2) as usize, world.random.below(4) as usize);
        let after = at(world);
        world.schedule(after, Happening::FreeWindow { link, side, index });
    }
    for _ in 0..faults.drains {
        let (link, side) = (world.random.below(links) as usize, world.random.below(2) as usize);
        let (after, span) = (at(world), Span::from_us(world.random.between(10, 3_000)));
        world.schedule(after, Happening::Drain { link, side, span });
    }
    for _ in 0..faults.forgeries {
        let (link, side) = (world.random.below(links) as usize, world.random.below(2) as usize);
        let after = at(world);
        world.schedule(after, Happening::Forge { link, side });
    }
    for _ in 0..faults.sleeps {
        let (link, side) = (world.random.below(links) as usize, world.random.below(2) as usize);
        let (after, span) = (at(world), Span::from_us(world.random.between(10, 3_000)));
        world.schedule(after, Happening::Sleep { link, side, span });
    }
    for _ in 0..faults.resizes {
        let (after, node) = (at(world), world.random.below(nodes) as usize);
        world.schedule(after, Happening::Resize { node });
        let (after, node) = (at(world), world.random.below(nodes) as usize);
        world.schedule(after, Happening::SetLimit { node });
    }
    for _ in 0..faults.breaks {
        let link = world.random.below(links) as usize;
        let side = world.random.below(2) as usize;
        let after = at(world);
        world.schedule(after, Happening::Break { link, side });
    }
}

/// Faults stop: what is under way must end within the bound.
fn lull(world: &mut World<'_>) -> Check {
    world.stormy = false;
    for node in &mut world.nodes {
        node.slow = None;
    }
    world.enlarge_queues()?;
    // A broken link stays broken, and both sides must notice.
    world.happenings.retain(|_, happening| !matches!(happening, Happening::Mend { .. }));
    let bound = AFTERMATH + world.plan.bound();
    finish(world, bound)
}

/// Broken links are mended, and everything must work.
fn calm(world: &mut World<'_>) -> Check {
    world.calm = true;
    let held = world.nodes.iter().map(|node| node.held_until.since(world.now)).max();
    let held = held.unwrap_or(Span::ZERO);
    for index in 0..world.links.len() {
        let link = &mut world.links[index];
        let is_broken =
            link.ends.iter().any(|end| end.failed || end.fatal || end.reset || end.receive_gone);
        // The two ends use different MTUs; now they agree.
        let is_mismatched = link.mtus[0] != link.mtus[1];
        link.mtus[1] = link.mtus[0];
        for side in [0, 1] {
            world.recover(index, side)?;
        }
        if is_broken || is_mismatched {
            world.mend(index)?;
        } else if world.links[index].plan.kind != QpType::Rc {
            for end in &mut world.links[index].ends {
                end.inbound.clear();
            }
        }
        world.links[index].incidents = 0;
        for _ in 0..CALM_OPERATIONS {
            for side in [0, 1] {
                let after = held + Span::from_ns(world.random.below(50_000));
                world.schedule(after, Happening::Post { link: index, side });
            }
        }
    }
    let bound = held + world.plan.bound();
    finish(world, bound)
}

fn finish(world: &mut World<'_>, bound: Span) -> Check {
    let end = world.now + bound;
    if world.run(end)? {
        return Ok(());
    }
    Err(format!("still busy {bound} after the last fault"))
}

/// Nothing is under way: every request must have ended, with success or an error.
fn expect_end(world: &mut World<'_>) -> Check {
    for (index, link) in world.links.iter().enumerate() {
        let pair = link.ends.each_ref().map(|end| end.node);
        for side in [0, 1] {
            let end = &link.ends[side];
            if end.cq_lost {
                continue;
            }
            if let Some(sent) = end.sends.iter().find(|sent| sent.visible) {
                return Err(format!("link {index}: {} never ended", sent.id));
            }
            let [a, b] = world.nodes.get_disjoint_mut(pair).expect("a link has two nodes");
            let grounds = [&mut a.ground, &mut b.ground];
            for sent in &end.sends {
                link.check_done(side, sent, &grounds)?;
            }
        }
    }
    Ok(())
}
