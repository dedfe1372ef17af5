//! `[[fault]]`.

use rdma::Time;

use super::{At, Result, US, host, tables};
use crate::fault::{Fault, FaultKind};
use crate::link::DropRule;
use crate::topology::Topology;

pub(super) fn fault(at: &At<'_, tables::Fault>, topology: &Topology) -> Result<Fault> {
    use tables::FaultKind as Kind;
    let table = at.table;
    let why = "this fault";
    let node = |key: &str, name: &Option<String>| {
        let name = at.need(key, name.as_deref(), why)?;
        let missing = || at.wrong(key, format!("there is no host or switch {name:?}"));
        topology.find(name).ok_or_else(missing)
    };
    let of_host = || host(at, topology, "host", at.need("host", table.host.as_deref(), why)?);
    let chance = |value: f64| {
        let fits = (0.0..=1.0).contains(&value);
        if fits { Ok(value) } else { Err(at.wrong("probability", "it is from 0 to 1")) }
    };
    let kind = match table.kind {
        Kind::Drop => {
            let rule = match (table.probability, table.every, table.ip_id_ends) {
                (Some(probability), None, None) => DropRule::Chance(chance(probability)?),
                (None, Some(n), None) => DropRule::Every(n),
                (None, None, Some(byte)) => DropRule::IpIdEnds(byte),
                _ => {
                    let message = "give one of probability, every and ip_id_ends";
                    return Err(at.wrong("kind", message));
                }
            };
            FaultKind::LinkRule {
                from: node("from", &table.from)?,
                to: node("to", &table.to)?,
                rule,
            }
        }
        Kind::Damage => FaultKind::LinkDamage {
            from: node("from", &table.from)?,
            to: node("to", &table.to)?,
            probability: chance(at.need("probability", table.probability, why)?)?,
        },
        Kind::LinkDown => {
            FaultKind::LinkDown { ends: [node("from", &table.from)?, node("to", &table.to)?] }
        }
        Kind::LinkUp => {
            FaultKind::LinkUp { ends: [node("from", &table.from)?, node("to", &table.to)?] }
        }
        Kind::HostDies => {
            FaultKind::HostDies { host: of_host()?, mac_aged: table.mac_aged.unwrap_or(false) }
        }
        Kind::HostReturns => FaultKind::HostReturns { host: of_host()? },
        Kind::NicStuck => FaultKind::NicStuck { host: of_host()? },
        Kind::NicRepaired => FaultKind::NicRepaired { host: of_host()? },
    };
    let after = at.span("at_us", table.at_us.unwrap_or(0.0), US)?;
    Ok(Fault { at: Time::ZERO + after, kind })
}
