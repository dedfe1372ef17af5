//! `[[fault]]`.

use rdma::{Span, Time};

use super::switch::alpha;
use super::{host, node};
use crate::fault::{DropRule, Fault as Happening, FaultKind};
use crate::limits::FLAPS_MAX;
use crate::scenario::at::{At, Result};
use crate::scenario::deferred::Deferred;
use crate::scenario::table::{kinds, table};
use crate::scenario::value::{
    Value, at_least, flag, needed, or, probability, text, time, whole, within,
};
use crate::topology::{End, Topology};

fn chance<'a>() -> Value<'a, f64> {
    probability("0.01 for one packet in a hundred")
}

fn named<'a>() -> Value<'a, String> {
    text("a host or switch")
}

kinds! {
    /// What goes wrong, and when.
    Fault by kind {
        /// From now on one direction of a link loses packets, by one of four rules.
        "drop" => Drop(Drop);
        /// From now on frames in one direction of a link are damaged.
        "damage" => Damage(Damage);
        /// Nothing that is sent on a link arrives, in either direction.
        "link-down" => LinkDown(Link);
        /// The link is well again.
        "link-up" => LinkUp(Link);
        /// A link goes down and comes up again, several times.
        "link-flaps" => LinkFlaps(LinkFlaps);
        /// A host neither sends nor receives any more.
        "host-dies" => HostDies(HostDies);
        /// The host is as it was.
        "host-returns" => HostReturns(Host);
        /// The lossless priority groups of a switch have another alpha (guo16, 6.2).
        "alpha" => Alpha(Alpha);
        /// The receive pipeline of a NIC stands still, and the NIC pauses its switch (guo16, 4.3).
        "nic-stuck" => NicStuck(Host);
        /// The host was rebooted, and its NIC receives again.
        "nic-repaired" => NicRepaired(Host);
    }
}

const EVERY: &str = "1 for every packet, 100 for each hundredth";

table! {
    /// See [`Fault`].
    struct Drop {
        /// Who sends on the link.
        from = needed(named()) => from: String;
        /// Who receives.
        to = needed(named()) => to: String;
        /// Any packet, with this probability.
        probability = or("no such rule", chance()) => probability: Option<f64>;
        /// Every so many packets, one.
        every = or("no such rule",
            at_least(1, ("is not a number of packets", EVERY))) => every: Option<u64>;
        /// Packets whose IP ID ends in this byte.
        ip_id_ends = or("no such rule", whole()) => ip_id_ends: Option<u8>;
        /// All that this host sends to destination.
        source = or("no such rule", text("a host")) => source: Option<String>;
        /// See source.
        destination = or("no such rule", text("a host")) => destination: Option<String>;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct Damage {
        /// Who sends.
        from = needed(named()) => from: String;
        /// Who receives.
        to = needed(named()) => to: String;
        /// Of each frame.
        probability = needed(chance()) => probability: f64;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct Link {
        /// One end.
        from = needed(named()) => from: String;
        /// The other.
        to = needed(named()) => to: String;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct LinkFlaps {
        /// One end.
        from = needed(named()) => from: String;
        /// The other.
        to = needed(named()) => to: String;
        /// How long it is down each time.
        down_us = needed(time()) => down: Span;
        /// From one time to the next.
        every_us = needed(time()) => every: Span;
        /// How often.
        times = needed(within(1, FLAPS_MAX, "how often the link fails")) => times: u32;
        ..when: When;
    }
    check is_up_between;
}

fn is_up_between(flaps: &LinkFlaps, at: &At<'_>) -> Result<()> {
    let LinkFlaps { down, every, .. } = flaps;
    if down < every {
        return Ok(());
    }
    let wrong = at.wrong("down_us", format!("{down} is not below every_us, {every}"));
    Err(wrong.hint("a link is up before it fails again"))
}

table! {
    /// See [`Fault`].
    struct HostDies {
        /// Which.
        host = needed(text("a host")) => host: String;
        /// It died long ago: the MAC entry of its switch has aged, the ARP entry has not.
        mac_aged = flag() => mac_aged: bool;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct Host {
        /// Which.
        host = needed(text("a host")) => host: String;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct Alpha {
        /// Which.
        switch = needed(text("a switch")) => switch: String;
        /// From then on.
        alpha = needed(alpha()) => exponent: i8;
        ..when: When;
    }
}

table! {
    /// When a fault happens.
    struct When {
        /// When; at 0 it is so from before the first packet.
        at_us = time() => after: Span;
    }
}

pub(super) fn fault(table: &Deferred<'_, Fault>, topology: &Topology) -> Result<Vec<Happening>> {
    let at = &table.at;
    let link = |from: &str, to: &str| link(at, topology, from, to);
    let host = |name: &str| host(at, topology, "host", name);
    let (when, kind) = match table.kind()? {
        Fault::Drop(drop) => {
            let rule = rule(&drop, at, topology)?;
            let (from, to) = link(&drop.from, &drop.to)?;
            (drop.when, FaultKind::LinkRule { from, to, rule })
        }
        Fault::Damage(damage) => {
            let (from, to) = link(&damage.from, &damage.to)?;
            let probability = damage.probability;
            (damage.when, FaultKind::LinkDamage { from, to, probability })
        }
        Fault::LinkDown(Link { from, to, when }) => {
            (when, FaultKind::LinkDown { ends: link(&from, &to)?.into() })
        }
        Fault::LinkUp(Link { from, to, when }) => {
            (when, FaultKind::LinkUp { ends: link(&from, &to)?.into() })
        }
        Fault::LinkFlaps(LinkFlaps { from, to, down, every, times, when }) => {
            let first = Time::ZERO + when.after;
            return Ok(Happening::flaps(link(&from, &to)?.into(), first, down, every, times));
        }
        Fault::HostDies(HostDies { host: name, mac_aged, when }) => {
            (when, FaultKind::HostDies { host: host(&name)?, mac_aged })
        }
        Fault::HostReturns(of) => (of.when, FaultKind::HostReturns { host: host(&of.host)? }),
        Fault::Alpha(of) => {
            let switch = switch(at, topology, &of.switch)?;
            (of.when, FaultKind::AlphaChanges { switch, exponent: of.exponent })
        }
        Fault::NicStuck(of) => (of.when, FaultKind::NicStuck { host: host(&of.host)? }),
        Fault::NicRepaired(of) => (of.when, FaultKind::NicRepaired { host: host(&of.host)? }),
    };
    Ok(vec![Happening { at: Time::ZERO + when.after, kind }])
}

/// A switch that is there.
fn switch(at: &At<'_>, topology: &Topology, name: &str) -> Result<u32> {
    match topology.find(name) {
        Some(End::Switch(switch)) => Ok(switch),
        _ => {
            let wrong = at.wrong("switch", format!("there is no switch {name:?}"));
            Err(wrong.hint("name one that the topology has"))
        }
    }
}

/// Both ends of a link that is there.
fn link(at: &At<'_>, topology: &Topology, from: &str, to: &str) -> Result<(End, End)> {
    let (from, to) = (node(at, topology, "from", from)?, node(at, topology, "to", to)?);
    let joins = |ends: [End; 2]| ends == [from, to] || ends == [to, from];
    if topology.links.iter().any(|link| joins(link.ends)) {
        return Ok((from, to));
    }
    let message =
        format!("there is no link between {} and {}", topology.name(from), topology.name(to));
    Err(at.wrong("to", message).hint("name both ends of one link"))
}

/// Which packets are dropped.
fn rule(drop: &Drop, at: &At<'_>, topology: &Topology) -> Result<DropRule> {
    let pair = match (&drop.source, &drop.destination) {
        (Some(source), Some(destination)) => Some(DropRule::Between {
            source: host(at, topology, "source", source)?,
            destination: host(at, topology, "destination", destination)?,
        }),
        (None, None) => None,
        _ => {
            let wrong = at.wrong("source", "one of source and destination is missing");
            return Err(wrong.hint("a pair of hosts has both"));
        }
    };
    match (drop.probability, drop.every, drop.ip_id_ends, pair) {
        (Some(probability), None, None, None) => Ok(DropRule::Chance(probability)),
        (None, Some(n), None, None) => Ok(DropRule::Every(n)),
        (None, None, Some(byte), None) => Ok(DropRule::IpIdEnds(byte)),
        (None, None, None, Some(rule)) => Ok(rule),
        _ => {
            let hint = "give one of probability, every, ip_id_ends, and source with destination";
            Err(at.wrong("kind", "which packets are dropped is to be said once").hint(hint))
        }
    }
}
