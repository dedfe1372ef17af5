//! `[[fault]]`.

use rdma::{Rate, Span, Time};

use super::switch::{POLL, alpha, some};
use super::{host, node};
use crate::fault::{DropRule, Fault as Happening, FaultKind};
use crate::limits::FLAPS_MAX;
use crate::scenario::at::{At, Entry, Result};
use crate::scenario::deferred::Deferred;
use crate::scenario::table::{kinds, table};
use crate::scenario::value::{
    Value, at_least, choice, dscp_map, flag, needed, or, otherwise, probability, rate, text, time,
    time_from, whole, within,
};
use crate::switch::config::{EcnConfig, SwitchConfig, WatchdogConfig};
use crate::topology::{End, LinkSpec, Topology};

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
        /// Bytes of packets in one direction of a link are changed; Ethernet's check does not see it, and ICRC does.
        "corrupt" => Corrupt(Damage);
        /// A link carries less, in both directions.
        "link-degrades" => LinkDegrades(LinkDegrades);
        /// A link neither drops, damages nor corrupts any more, and has its own rate.
        "link-repaired" => LinkRepaired(Link);
        /// A link goes down and comes up again, several times.
        "link-flaps" => LinkFlaps(LinkFlaps);
        /// A host neither sends nor receives any more.
        "host-dies" => HostDies(HostDies);
        /// The host is as it was.
        "host-returns" => HostReturns(Host);
        /// The lossless priority groups of a switch have another alpha (guo16, 6.2).
        "alpha" => Alpha(Alpha);
        /// Queues of a switch mark by other thresholds, or not at all.
        "ecn" => Ecn(Ecn);
        /// A switch, or the NIC of a host, pauses these priorities, and no others.
        "pfc" => Pfc(Pfc);
        /// A switch has another map from DSCP to class.
        "dscp-map" => DscpMap(DscpMap);
        /// All ports of a switch get a watchdog, or lose it.
        "watchdog" => Watchdog(Watchdog);
        /// The NIC of a host gets a watchdog over its own pauses, or loses it.
        "nic-watchdog" => NicWatchdog(NicWatchdog);
        /// A switch restarts: what it holds is lost, its links are down, its settings are those of the file again.
        "switch-reboots" => SwitchReboots(SwitchReboots);
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
    /// See [`Fault`].
    struct LinkDegrades {
        /// One end.
        from = needed(named()) => from: String;
        /// The other.
        to = needed(named()) => to: String;
        /// What it carries from then on, at most its own rate.
        rate_gbps = needed(rate()) => rate: Rate;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct Ecn {
        /// Which.
        switch = or("all", text("a switch")) => switch: Option<String>;
        /// Nothing is marked up to here.
        min_bytes = or("not with off", whole()) => min_bytes: Option<u32>;
        /// Everything is marked from here on.
        max_bytes = or("not with off", whole()) => max_bytes: Option<u32>;
        /// The probability just before that.
        max_probability = otherwise(1.0, probability("0.1 for 10 %")) => max_probability: Option<f64>;
        /// Which queues.
        queues = or("all", some()) => queues: Option<u8>;
        /// Nothing is marked any more.
        off = flag() => off: bool;
        ..when: When;
    }
    check marks_or_not;
}

fn marks_or_not(ecn: &Ecn, at: &At<'_>) -> Result<()> {
    match (ecn.off, ecn.min_bytes, ecn.max_bytes) {
        (true, None, None) => Ok(()),
        (false, Some(min), Some(max)) if min < max => Ok(()),
        (false, Some(min), Some(max)) => {
            let wrong = at.wrong("max_bytes", format!("{max} is not above min_bytes, {min}"));
            Err(wrong.hint("marks begin at min_bytes, and are certain above max_bytes"))
        }
        _ => {
            let wrong = at.wrong("kind", "either thresholds or off are to be said");
            Err(wrong.hint("give min_bytes and max_bytes, or off = true"))
        }
    }
}

table! {
    /// See [`Fault`].
    struct Pfc {
        /// A switch or a host.
        node = or("all switches, and all hosts", named()) => node: Option<String>;
        /// Those that are paused, and not dropped; [] for none.
        lossless_priorities = needed(some()) => priorities: u8;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct DscpMap {
        /// Which.
        switch = or("all", text("a switch")) => switch: Option<String>;
        /// DSCPs that are not in it have the class that they have by default.
        dscp_to_class = map() => map: DscpToClass;
        ..when: When;
    }
}

/// The map of a switch.
#[derive(Debug)]
struct DscpToClass([u8; 64]);

fn map<'a>() -> Value<'a, DscpToClass> {
    let map = dscp_map();
    let accepts = map.accepts.clone();
    let read = move |entry: &Entry<'a, '_>, out: &mut DscpToClass| map.read(entry, &mut out.0);
    Value::of_tables(&accepts, read, |_, _| {})
}

impl Default for DscpToClass {
    fn default() -> Self {
        Self(SwitchConfig::default().dscp_to_class)
    }
}

table! {
    /// See [`Fault`].
    struct Watchdog with config: WatchdogConfig {
        /// Which.
        switch = or("all", text("a switch")) => switch: Option<String>;
        /// It is lost.
        off = flag() => off: bool;
        /// When it finds a storm.
        rule = choice() => config.rule;
        /// What it does about one.
        action = choice() => config.action;
        /// How often it looks.
        poll_ms = time_from(Span::from_us(1), POLL) => config.poll;
        /// A storm has lasted so long.
        detection_ms = time() => config.detection;
        /// It is over when no pause has come for so long.
        restoration_ms = time() => config.restoration;
        ..when: When;
    }
}

table! {
    /// See [`Fault`].
    struct NicWatchdog {
        /// Of which.
        host = or("all", text("a host")) => host: Option<String>;
        /// How long its receive pipeline may stand still and pause; guo16, 4.3, has 100 ms.
        after_ms = or("not with off", time()) => after: Option<Span>;
        /// It is lost.
        off = flag() => off: bool;
        ..when: When;
    }
    check after_or_off;
}

fn after_or_off(watchdog: &NicWatchdog, at: &At<'_>) -> Result<()> {
    if watchdog.after.is_some() != watchdog.off {
        return Ok(());
    }
    let wrong = at.wrong("kind", "either after_ms or off is to be said");
    Err(wrong.hint("give after_ms = 100, for instance, or off = true"))
}

table! {
    /// See [`Fault`].
    struct SwitchReboots {
        /// Which.
        switch = needed(text("a switch")) => switch: String;
        /// How long it takes.
        down_ms = needed(time()) => down: Span;
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
        Fault::Corrupt(damage) => {
            let (from, to) = link(&damage.from, &damage.to)?;
            let probability = damage.probability;
            (damage.when, FaultKind::LinkCorrupts { from, to, probability })
        }
        Fault::LinkDegrades(of) => {
            let ends: [End; 2] = link(&of.from, &of.to)?.into();
            let between = |link: &&LinkSpec| link.ends == ends || link.ends == [ends[1], ends[0]];
            let own = topology.links.iter().find(between).map_or(of.rate, |link| link.rate);
            if of.rate > own {
                let wrong = format!("{} is more than the link's own rate, {own}", of.rate);
                let wrong = at.wrong("rate_gbps", wrong);
                return Err(wrong.hint("link-repaired gives the link its own rate again"));
            }
            (of.when, FaultKind::LinkDegrades { ends, rate: of.rate })
        }
        Fault::LinkRepaired(Link { from, to, when }) => {
            (when, FaultKind::LinkRepaired { ends: link(&from, &to)?.into() })
        }
        Fault::Ecn(of) => {
            let marks = of.min_bytes.zip(of.max_bytes);
            let ecn = marks.map(|(min_bytes, max_bytes)| EcnConfig {
                min_bytes,
                max_bytes,
                max_probability: of.max_probability.unwrap_or(1.0),
            });
            let queues = of.queues.unwrap_or(u8::MAX);
            let kind = |switch| FaultKind::EcnChanges { switch, queues, ecn };
            return of_switches(at, topology, of.switch.as_deref(), &of.when, kind);
        }
        Fault::Pfc(Pfc { node: name, priorities, when }) => {
            let nodes: Vec<End> = match name {
                Some(name) => vec![node(at, topology, "node", &name)?],
                None => {
                    let switches = 0..topology.switches.len() as u32;
                    let hosts = 0..topology.hosts.len() as u32;
                    switches.map(End::Switch).chain(hosts.map(End::Host)).collect()
                }
            };
            let of = |node| when.fault(FaultKind::PfcChanges { node, priorities });
            return Ok(nodes.into_iter().map(of).collect());
        }
        Fault::DscpMap(of) => {
            let dscp_to_class = of.map.0;
            let kind = |switch| FaultKind::DscpMapChanges { switch, dscp_to_class };
            return of_switches(at, topology, of.switch.as_deref(), &of.when, kind);
        }
        Fault::Watchdog(of) => {
            let watchdog = (!of.off).then_some(of.config);
            let kind = |switch| FaultKind::WatchdogChanges { switch, watchdog };
            return of_switches(at, topology, of.switch.as_deref(), &of.when, kind);
        }
        Fault::NicWatchdog(of) => {
            let hosts = match of.host {
                Some(name) => vec![host(&name)?],
                None => (0..topology.hosts.len() as u32).collect(),
            };
            let after = of.after;
            let of = |host| of.when.fault(FaultKind::NicWatchdogChanges { host, after });
            return Ok(hosts.into_iter().map(of).collect());
        }
        Fault::SwitchReboots(of) => {
            let switch = switch(at, topology, &of.switch)?;
            let mut back = of.when.fault(FaultKind::SwitchReturns { switch });
            back.at += of.down;
            return Ok(vec![of.when.fault(FaultKind::SwitchGoesDown { switch }), back]);
        }
        Fault::NicStuck(of) => (of.when, FaultKind::NicStuck { host: host(&of.host)? }),
        Fault::NicRepaired(of) => (of.when, FaultKind::NicRepaired { host: host(&of.host)? }),
    };
    Ok(vec![when.fault(kind)])
}

impl When {
    fn fault(&self, kind: FaultKind) -> Happening {
        Happening { at: Time::ZERO + self.after, kind }
    }
}

/// One for the switch that is named, or for all.
fn of_switches(
    at: &At<'_>,
    topology: &Topology,
    name: Option<&str>,
    when: &When,
    kind: impl Fn(u32) -> FaultKind,
) -> Result<Vec<Happening>> {
    let switches = match name {
        Some(name) => vec![switch(at, topology, name)?],
        None => (0..topology.switches.len() as u32).collect(),
    };
    Ok(switches.into_iter().map(|switch| when.fault(kind(switch))).collect())
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
