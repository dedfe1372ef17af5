//! Queues of lossless classes that drop: FD004. Pauses keep the buffer of what arrives from overflowing; what leaves has
//! a limit for each queue and one pool for all, which nobody pauses for.
//!
//! ```text
//!   ports take in  ─► groups, which pause ─► queue ≤ its own limit ─► all queues ≤ their pool
//!                                            Lossy, Short             Small, Crowded
//! ```
//!
//! A pool is too small where it overflows before pauses are even due. Headroom is not counted there, as SONiC does not
//! either: its egress pool of a Trident 3 is less than size and `xoff` of the ingress pool together.

use std::collections::{BTreeMap, BTreeSet};

use fabric::scenario::sonic::Entry;
use fabric::switch::config::Threshold;

use super::marks::{lossless_queues, queues_of, size_of_peers};
use super::{Look, Traffic, alike, bytes};
use crate::doctor::cluster::{Part, Port, Qos, Switch};
use crate::doctor::finding::{Finding, Rule};
use crate::doctor::shell::typed;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        limits(look, switch, findings);
    }
}

/// Pools whose sizes would tell whether lossless queues drop, and that have none.
pub(super) fn without_size<'a>(switch: &'a Switch, traffic: &Traffic) -> BTreeSet<&'a str> {
    let of_queue = |queue: &Queue<'a>, all: &Queues<'a>| match all.verdict(queue) {
        Verdict::Unknown(pools) => pools,
        Verdict::Keeps | Verdict::Drops(..) => Vec::new(),
    };
    let all = Queues::of(switch, traffic);
    all.lossless().iter().flat_map(|queue| of_queue(queue, &all)).collect()
}

/// SONiC's threshold of queues that are not to drop.
const UNLIMITED: Threshold = Threshold::Dynamic { exponent: 7 };

/// Why a queue drops packets of a lossless class.
#[derive(Clone, PartialEq, Eq)]
enum Why<'a> {
    /// Its profile is that of queues that are to drop.
    Lossy,
    /// It holds less than may be on its way to it.
    Short { limit: u64 },
    /// Its pool holds less than that.
    Small { pool: &'a str },
    /// Queues of classes that drop may fill its pool, by this profile.
    Crowded { pool: &'a str, by: &'a str },
}

enum Verdict<'a> {
    Keeps,
    /// With what may be on its way to it, where that matters.
    Drops(Why<'a>, u64),
    /// For want of the sizes of these pools.
    Unknown(Vec<&'a str>),
}

/// A queue of a lossless class that has a profile.
struct Queue<'a> {
    port: &'a Port,
    qos: &'a Qos,
    number: u8,
    /// One that feeds it.
    group: u8,
    /// Its `BUFFER_QUEUE`.
    entry: &'a Entry,
    profile: &'a Entry,
}

/// What all queues of a switch share.
struct Queues<'a> {
    switch: &'a Switch,
    ports: Vec<(&'a Port, &'a Qos)>,
    /// Queues of classes that drop, by the place of their port.
    lossy: Vec<BTreeSet<u8>>,
    /// By pool, the profile by which one of these may fill it.
    filled: BTreeMap<&'a str, &'a str>,
}

impl<'a> Queues<'a> {
    fn of(switch: &'a Switch, traffic: &Traffic) -> Self {
        let known = |qos: &Qos| qos.knows(Part::Buffers) && qos.knows(Part::Queues);
        let ports: Vec<_> = switch.judged().filter(|(_, qos)| known(qos)).collect();
        // A class that some port pauses, or that has data, is not meant to drop: that it does is another finding.
        let pauses = |qos: &Qos, class: u8| qos.group_config(qos.group(class)).lossless;
        let drops = |class: &u8| switch.judged().all(|(_, qos)| !pauses(qos, *class));
        let classes: Vec<u8> = (0..8).filter(drops).collect();
        let of_port = |(_, qos): &(&Port, &Qos)| {
            let data: Vec<u8> = traffic.data.iter().map(|&dscp| qos.class(dscp)).collect();
            let classes = classes.iter().filter(|class| !data.contains(class));
            classes.map(|&class| qos.queue(class)).collect()
        };
        let lossy = ports.iter().map(of_port).collect();
        let mut all = Self { switch, ports, lossy, filled: BTreeMap::new() };
        for (&(port, qos), queues) in all.ports.iter().zip(&all.lossy) {
            for &queue in queues {
                let Some((_, profile)) = switch.buffer("BUFFER_QUEUE", &port.name, queue) else {
                    continue;
                };
                let Some(pool) = pool_of(switch, profile) else { continue };
                if is_limited(qos.queue_config(queue).limit, size_of(pool)) == Some(false) {
                    all.filled.entry(&pool.key).or_insert(&profile.key);
                }
            }
        }
        all
    }

    fn lossless(&self) -> Vec<Queue<'a>> {
        let of_port = |&(port, qos): &(&'a Port, &'a Qos)| {
            let classes = (0..8).filter(|&class| !qos.group_config(qos.group(class)).lossless);
            let lossy: Vec<u8> = classes.map(|class| qos.queue(class)).collect();
            let alone = lossless_queues(qos).into_iter();
            alone.filter(move |(number, _)| !lossy.contains(number)).filter_map(
                move |(number, group)| {
                    let (entry, profile) =
                        self.switch.buffer("BUFFER_QUEUE", &port.name, number)?;
                    Some(Queue { port, qos, number, group, entry, profile })
                },
            )
        };
        self.ports.iter().flat_map(of_port).collect()
    }

    fn verdict(&self, queue: &Queue<'a>) -> Verdict<'a> {
        let Some(pool) = pool_of(self.switch, queue.profile) else { return Verdict::Keeps };
        let (threshold, size) = (queue.qos.queue_config(queue.number).limit, size_of(pool));
        let Some(threshold) = threshold else { return Verdict::Keeps };
        let is_limited = is_limited(Some(threshold), size);
        if is_limited == Some(true) && self.is_of_lossy(queue) {
            return Verdict::Drops(Why::Lossy, 0);
        }
        let (Some(size), Some(shared)) = (size, self.switch.shared_bytes) else {
            let pools = self.switch.entries("BUFFER_POOL").iter();
            let matters = |of: &&Entry| of.key == pool.key || is_ingress(of);
            let silent = pools.filter(matters).filter(|of| size_of(of).is_none());
            return Verdict::Unknown(silent.map(|of| of.key.as_str()).collect());
        };
        let (held, headroom) = self.comes(queue, shared);
        if size < held {
            return Verdict::Drops(Why::Small { pool: &pool.key }, held);
        }
        let limit = threshold.xoff_bytes(size, 1);
        if is_limited == Some(true) && limit < held + headroom {
            return Verdict::Drops(Why::Short { limit }, held + headroom);
        }
        match self.filled.get(pool.key.as_str()) {
            Some(by) if size <= taken_in(self.switch) => {
                Verdict::Drops(Why::Crowded { pool: &pool.key, by }, 0)
            }
            _ => Verdict::Keeps,
        }
    }

    /// Whether a queue of a class that drops has the same profile at its port.
    fn is_of_lossy(&self, queue: &Queue<'_>) -> bool {
        let at = self.ports.iter().position(|(port, _)| port.name == queue.port.name);
        let mut lossy = at.and_then(|at| self.lossy.get(at)).into_iter().flatten();
        lossy.any(|&other| {
            let other = self.switch.buffer("BUFFER_QUEUE", &queue.port.name, other);
            other.is_some_and(|(_, other)| other.key == queue.profile.key)
        })
    }

    /// What may be on its way to a queue when all other ports send to it: what their groups hold when pauses are due, and
    /// what arrives until the last has obeyed.
    fn comes(&self, queue: &Queue<'_>, shared: u64) -> (u64, u64) {
        let others = self.ports.iter().filter(|(port, _)| port.name != queue.port.name);
        let groups = others.map(|(_, qos)| qos.group_config(queue.group));
        let groups: Vec<_> = groups.filter(|group| group.lossless).collect();
        let held = groups.iter().map(|group| group.threshold.xoff_bytes(shared, groups.len()));
        let headroom = groups.iter().map(|group| u64::from(group.headroom_bytes.unwrap_or(0)));
        let pool = queue.qos.config().headroom_pool_bytes.map_or(u64::MAX, u64::from);
        (held.sum::<u64>().min(shared), headroom.sum::<u64>().min(pool))
    }
}

fn limits(look: Look<'_>, switch: &Switch, findings: &mut Vec<Finding>) {
    let all = Queues::of(switch, look.traffic);
    let found = all.lossless().into_iter().filter_map(|queue| match all.verdict(&queue) {
        Verdict::Drops(why, comes) => Some(((queue.profile.key.as_str(), why), (comes, queue))),
        Verdict::Keeps | Verdict::Unknown(_) => None,
    });
    for ((_, why), of) in alike(found) {
        let comes = of.iter().map(|(comes, _)| *comes).max().unwrap_or(0);
        let queues: Vec<Queue<'_>> = of.into_iter().map(|(_, queue)| queue).collect();
        findings.push(told(look, switch, &why, comes, &queues));
    }
}

fn told(
    look: Look<'_>,
    switch: &Switch,
    why: &Why<'_>,
    comes: u64,
    queues: &[Queue<'_>],
) -> Finding {
    let mut names: Vec<&str> = queues.iter().map(|queue| queue.port.name.as_str()).collect();
    names.dedup();
    let numbers: BTreeSet<u8> = queues.iter().map(|queue| queue.number).collect();
    let which = queues_of(&numbers, &names);
    let (has, is) = if numbers.len() == 1 { ("has", "is") } else { ("have", "are") };
    let Queue { entry, profile: own, .. } = queues[0];
    let (profile, line) = (&own.key, |of: &Entry, fields: &[&str]| {
        let mut fields = fields.iter().filter_map(|name| of.field(name));
        switch.place(fields.next().map_or(of.line, |field| field.line))
    });
    let hset = |of: &Entry, field: &str, value: u64| {
        typed!("sonic-db-cli CONFIG_DB hset", of.place(), field, value)
    };
    let of = |words: String| Finding::new(Rule::Chain, &switch.name, format!("{which} {words}"));
    let pool = |name: &str| switch.entry("BUFFER_POOL", name);
    let holds = |name: &str| bytes(pool(name).and_then(size_of).unwrap_or(0));
    match *why {
        Why::Lossy => of(format!(
            "{has} the buffer profile {profile}, as queues of classes that drop: what is lossless is \
             dropped with them."
        ))
        .key(entry.place())
        .remedy("give it a profile of its own, in the pool of lossless queues")
        .command(typed!("sonic-db-cli CONFIG_DB hgetall", entry.place()))
        .at(switch.place(entry.line)),
        Why::Short { limit } => of(format!(
            "{has} a limit of {} bytes by profile {profile}, and {} may come before all who send to it \
             are paused.",
            bytes(limit),
            bytes(comes)
        ))
        .key(entry.place())
        .remedy("give the profile a limit that is never reached: alpha 128, or all of its pool")
        // One excludes the other.
        .command(match (own.field("static_th"), pool_of(switch, own).and_then(size_of)) {
            (Some(_), Some(size)) => hset(own, "static_th", size),
            _ => hset(own, "dynamic_th", 7),
        })
        .at(line(own, &["dynamic_th", "static_th"])),
        Why::Small { pool: name } => {
            let of = of(format!(
                "{is} in BUFFER_POOL|{name} of {} bytes, and {} may come before any sender is \
                 paused.",
                holds(name),
                bytes(comes)
            ));
            let Some(pool) = pool(name) else { return of };
            let of_peers = size_of_peers(look, switch, pool).filter(|&size| size >= comes);
            of.key(pool.place())
                .remedy("give the pool what ports take in, as switches of the same kind do")
                .command(hset(pool, "size", of_peers.unwrap_or_else(|| taken_in(switch))))
                .at(line(pool, &["size"]))
        }
        Why::Crowded { pool: name, by } if by == profile => of(format!(
            "{has} the buffer profile {profile}, which has no limit, as queues of classes that drop: these \
             may fill BUFFER_POOL|{name} of {} bytes, and what is lossless is dropped as well.",
            holds(name)
        ))
        .key(entry.place())
        .remedy("give it a profile of its own, in the pool of lossless queues")
        .command(typed!("sonic-db-cli CONFIG_DB hgetall", entry.place()))
        .at(switch.place(entry.line)),
        Why::Crowded { pool: name, by } => {
            let of = of(format!(
                "{is} in BUFFER_POOL|{name} of {} bytes, as queues of classes that drop, which have no \
                 limit by profile {by}: these may fill it, and what is lossless is dropped as well.",
                holds(name)
            ));
            let Some(by) = switch.entry("BUFFER_PROFILE", by) else { return of };
            let of = of
                .key(by.place())
                .remedy("give queues of classes that drop a limit, as alpha 8, or a pool of their own")
                .at(line(by, &["dynamic_th", "static_th"]))
                .at(switch.place(entry.line));
            match (by.field("static_th"), pool(name).and_then(size_of)) {
                (Some(_), Some(size)) => of.command(hset(by, "static_th", size / 2)),
                _ => of.command(hset(by, "dynamic_th", 3)),
            }
        }
    }
}

/// Whether a queue has less than its whole pool, if that is known.
fn is_limited(threshold: Option<Threshold>, pool: Option<u64>) -> Option<bool> {
    match threshold? {
        UNLIMITED => Some(false),
        Threshold::Dynamic { .. } => Some(true),
        Threshold::Static { bytes } => Some(u64::from(bytes) < pool?),
    }
}

fn pool_of<'a>(switch: &'a Switch, profile: &Entry) -> Option<&'a Entry> {
    switch.referred(profile.field("pool")?, "BUFFER_POOL")
}

/// The size of a pool, if the file says it.
fn size_of(pool: &Entry) -> Option<u64> {
    pool.field("size")?.value.trim().parse().ok()
}

fn is_ingress(pool: &Entry) -> bool {
    pool.field("type").is_some_and(|of| !of.value.eq_ignore_ascii_case("egress"))
}

/// All that ports take in at once: no pool of queues as large is ever full, but for copies of what is flooded.
fn taken_in(switch: &Switch) -> u64 {
    let number = |of: &Entry, name: &str| of.field(name)?.value.trim().parse::<u32>().ok();
    let of_pool = |of: &Entry| {
        ["size", "xoff"].map(|name| u64::from(number(of, name).unwrap_or(0))).iter().sum::<u64>()
    };
    switch.entries("BUFFER_POOL").iter().filter(|of| is_ingress(of)).map(of_pool).sum()
}
