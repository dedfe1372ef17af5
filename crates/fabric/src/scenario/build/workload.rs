//! `[[workload]]`.

use rdma::Time;

use super::{At, Result, US, host, tables};
use crate::random::Random;
use crate::topology::{End, Topology};
use crate::workload::{FlowSpec, SizeDistribution, Verb, all_to_all, incast, permutation, poisson};
use tables::WorkloadKind;

pub(super) fn workload(
    at: &At<'_, tables::Workload>,
    topology: &Topology,
    end: Time,
    random: &mut Random,
) -> Result<Vec<FlowSpec>> {
    let table = at.table;
    let hosts = topology.hosts.len() as u32;
    let bytes = |why| at.need("message_bytes", table.message_bytes, why);
    let named = |key: &str, name: &Option<String>, why: &str| {
        let name = at.need(key, name.as_deref(), why)?;
        host(at, topology, key, name)
    };
    let mut flows = match table.kind {
        WorkloadKind::Flow => {
            let why = "kind \"flow\"";
            let (from, to) = (named("from", &table.from, why)?, named("to", &table.to, why)?);
            if from == to {
                return Err(at.wrong("to", "a flow is between two hosts"));
            }
            vec![FlowSpec::write(from, to, bytes(why)?)]
        }
        WorkloadKind::Permutation => permutation(hosts, bytes("kind \"permutation\"")?, random),
        WorkloadKind::AllToAll => all_to_all(hosts, bytes("kind \"all-to-all\"")?),
        WorkloadKind::Incast => {
            let why = "kind \"incast\"";
            let receiver = named("receiver", &table.receiver, why)?;
            let senders = table.senders.unwrap_or(hosts.saturating_sub(1));
            let others = hosts.saturating_sub(1);
            if senders > others {
                return Err(at.wrong("senders", format!("{senders} of {others} other hosts")));
            }
            incast(hosts, receiver, senders, bytes(why)?, random)
        }
        WorkloadKind::Poisson => {
            let why = "kind \"poisson\"";
            let load = at.need("load", table.load, why)?;
            if !(load > 0.0 && load <= 1.0) {
                return Err(at.wrong("load", "a load is above 0 and at most 1"));
            }
            let sizes = match (&table.sizes, table.message_bytes) {
                (Some(points), None) => SizeDistribution::new(points.clone()).ok_or_else(|| {
                    at.wrong("sizes", "bytes and probabilities rise, the last one to 1")
                })?,
                (None, Some(bytes)) => SizeDistribution::constant(bytes),
                _ => return Err(at.wrong("sizes", "give either sizes or message_bytes")),
            };
            let until = match at.span_of("until_us", table.until_us, US)? {
                Some(until) => Time::ZERO + until,
                None => end,
            };
            // The links of hosts come first in every shape but a list, where they may differ.
            let line = topology
                .links
                .iter()
                .filter(|link| link.ends.iter().any(|end| matches!(end, End::Host(_))))
                .map(|link| link.rate)
                .min();
            poisson(hosts, line.unwrap_or_default(), load, &sizes, until, random)
        }
    };
    let dscp = table.dscp.unwrap_or(3);
    if dscp > 63 {
        return Err(at.wrong("dscp", format!("{dscp} is not from 0 to 63")));
    }
    let endless = table.endless.unwrap_or(false);
    if endless && table.messages.is_some() {
        return Err(at.wrong("messages", "an endless flow has no number of messages"));
    }
    let verb = match table.verb {
        Some(tables::Verb::Send) => Verb::Send,
        Some(tables::Verb::Read) => Verb::Read,
        Some(tables::Verb::Write) | None => Verb::Write,
    };
    if table.reply_bytes.is_some() && verb != Verb::Send {
        return Err(at.wrong("reply_bytes", "only SENDs can be answered").hint("verb = \"send\""));
    }
    if table.spread_bytes.is_some() && verb == Verb::Send {
        return Err(at.wrong("spread_bytes", "a SEND goes where the receiver wants it"));
    }
    let start = at.span("start_us", table.start_us.unwrap_or(0.0), US)?;
    for flow in &mut flows {
        flow.verb = verb;
        flow.dscp = dscp;
        flow.reply_bytes = table.reply_bytes;
        flow.spread_bytes = table.spread_bytes;
        flow.depth = table.depth.unwrap_or(if endless { 2 } else { 1 }).max(1);
        flow.messages = if endless { None } else { Some(table.messages.unwrap_or(1)) };
        flow.start += start;
    }
    let copies = table.queue_pairs.unwrap_or(1).max(1) as usize;
    Ok(flows.into_iter().flat_map(|flow| core::iter::repeat_n(flow, copies)).collect())
}
