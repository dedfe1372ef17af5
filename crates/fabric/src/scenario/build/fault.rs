//! `[[fault]]`.

use rdma::Time;

use super::{At, Result, US, host, tables};
use crate::fault::{Fault, FaultKind};
use crate::limits::FLAPS_MAX;
use crate::link::DropRule;
use crate::scenario::error::plain;
use crate::topology::{End, Topology};

pub(super) fn fault(at: &At<'_, tables::Fault>, topology: &Topology) -> Result<Vec<Fault>> {
    use tables::FaultKind as Kind;
    let table = at.table;
    let why = "this fault";
    let keys: &[&str] = match table.kind {
        Kind::Drop => {
            &["from", "to", "probability", "every", "ip_id_ends", "source", "destination"]
        }
        Kind::Damage => &["from", "to", "probability"],
        Kind::LinkDown | Kind::LinkUp => &["from", "to"],
        Kind::LinkFlaps => &["from", "to", "down_us", "every_us", "times"],
        Kind::HostDies => &["host", "mac_aged"],
        Kind::HostReturns | Kind::NicStuck | Kind::NicRepaired => &["host"],
    };
    let there = [
        ("from", table.from.is_some()),
        ("to", table.to.is_some()),
        ("host", table.host.is_some()),
        ("probability", table.probability.is_some()),
        ("every", table.every.is_some()),
        ("ip_id_ends", table.ip_id_ends.is_some()),
        ("source", table.source.is_some()),
        ("destination", table.destination.is_some()),
        ("down_us", table.down_us.is_some()),
        ("every_us", table.every_us.is_some()),
        ("times", table.times.is_some()),
        ("mac_aged", table.mac_aged.is_some()),
    ];
    if let Some((key, _)) = there.iter().find(|(key, there)| *there && !keys.contains(key)) {
        let hint = format!("its keys are at_us, {}", keys.join(", "));
        return Err(at.wrong(key, "this kind of fault does not have it").hint(hint));
    }
    if table.every == Some(0) {
        return Err(at
            .wrong("every", "0 is not a number of packets")
            .hint("1 for every packet, 100 for each hundredth"));
    }
    let node = |key: &str, name: &Option<String>| {
        let name = at.need(key, name.as_deref(), why)?;
        let missing = || {
            at.wrong(key, format!("there is no host or switch {name:?}"))
                .hint("name one that the topology has")
        };
        topology.find(name).ok_or_else(missing)
    };
    let link = || {
        let (from, to) = (node("from", &table.from)?, node("to", &table.to)?);
        let joins = |ends: [End; 2]| ends == [from, to] || ends == [to, from];
        if topology.links.iter().any(|link| joins(link.ends)) {
            return Ok((from, to));
        }
        let (from, to) = (topology.name(from), topology.name(to));
        Err(at
            .wrong("to", format!("there is no link between {from} and {to}"))
            .hint("name both ends of one link"))
    };
    let of_host = || host(at, topology, "host", at.need("host", table.host.as_deref(), why)?);
    let chance = |value: f64| {
        if (0.0..=1.0).contains(&value) {
            return Ok(value);
        }
        let message = format!("{} is not a probability from 0 to 1", plain(value));
        Err(at.wrong("probability", message).hint("0.01 for one packet in a hundred"))
    };
    let kind = match table.kind {
        Kind::Drop => {
            let pair = match (&table.source, &table.destination) {
                (Some(source), Some(destination)) => Some(DropRule::Between {
                    source: host(at, topology, "source", source)?,
                    destination: host(at, topology, "destination", destination)?,
                }),
                (None, None) => None,
                _ => {
                    return Err(at
                        .wrong("source", "one of source and destination is missing")
                        .hint("a pair of hosts has both"));
                }
            };
            let rule = match (table.probability, table.every, table.ip_id_ends, pair) {
                (Some(probability), None, None, None) => DropRule::Chance(chance(probability)?),
                (None, Some(n), None, None) => DropRule::Every(n),
                (None, None, Some(byte), None) => DropRule::IpIdEnds(byte),
                (None, None, None, Some(rule)) => rule,
                _ => {
                    let message = "which packets are dropped is to be said once";
                    let hint =
                        "give one of probability, every, ip_id_ends, and source with destination";
                    return Err(at.wrong("kind", message).hint(hint));
                }
            };
            let (from, to) = link()?;
            FaultKind::LinkRule { from, to, rule }
        }
        Kind::Damage => {
            let (from, to) = link()?;
            let probability = chance(at.need("probability", table.probability, why)?)?;
            FaultKind::LinkDamage { from, to, probability }
        }
        Kind::LinkDown => {
            let (from, to) = link()?;
            FaultKind::LinkDown { ends: [from, to] }
        }
        Kind::LinkUp => {
            let (from, to) = link()?;
            FaultKind::LinkUp { ends: [from, to] }
        }
        Kind::LinkFlaps => {
            let (from, to) = link()?;
            let down = at.need("down_us", at.span_of("down_us", table.down_us, US)?, why)?;
            let every = at.need("every_us", at.span_of("every_us", table.every_us, US)?, why)?;
            let times = at.need("times", table.times, why)?;
            if down >= every {
                let message = format!("{down} is not below every_us, {every}");
                return Err(at
                    .wrong("down_us", message)
                    .hint("a link is up before it fails again"));
            }
            if times == 0 || times > FLAPS_MAX {
                let message = format!("{times} is not from 1 to {FLAPS_MAX}");
                return Err(at.wrong("times", message).hint("how often the link fails"));
            }
            let first = Time::ZERO + at.span("at_us", table.at_us.unwrap_or(0.0), US)?;
            return Ok(Fault::flaps([from, to], first, down, every, times));
        }
        Kind::HostDies => {
            FaultKind::HostDies { host: of_host()?, mac_aged: table.mac_aged.unwrap_or(false) }
        }
        Kind::HostReturns => FaultKind::HostReturns { host: of_host()? },
        Kind::NicStuck => FaultKind::NicStuck { host: of_host()? },
        Kind::NicRepaired => FaultKind::NicRepaired { host: of_host()? },
    };
    let after = at.span("at_us", table.at_us.unwrap_or(0.0), US)?;
    Ok(vec![Fault { at: Time::ZERO + after, kind }])
}
