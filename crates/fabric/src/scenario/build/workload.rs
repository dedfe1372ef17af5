//! `[[workload]]`.

use std::collections::BTreeMap;

use rdma::Time;
use transport::limits::MESSAGE_BYTES_MAX;

use super::kinds::only_known;
use super::sizes::sizes;
use super::{At, Files, Result, US, host, tables};
use crate::limits::{FLOWS_MAX, SPREAD_BYTES_MAX};
use crate::random::Random;
use crate::scenario::error::plain;
use crate::topology::{End, Topology};
use crate::workload::{FlowSpec, Verb, all_to_all, incast, permutation, poisson, ring, trace};
use tables::WorkloadKind;

pub(super) fn workload(
    at: &At<'_, tables::Workload>,
    topology: &Topology,
    end: Time,
    random: &mut Random,
    files: &Files<'_>,
) -> Result<Vec<FlowSpec>> {
    let table = at.table;
    only_known(at)?;
    let hosts = topology.hosts.len() as u32;
    check_numbers(at)?;
    let bytes = |why| at.need("message_bytes", table.message_bytes, why);
    let named = |key: &str, name: &Option<String>, why: &str| {
        let name = at.need(key, name.as_deref(), why)?;
        host(at, topology, key, name)
    };
    let copies = table.queue_pairs.unwrap_or(1);
    // Before anything is made: there is room for so many.
    let room = |flows: f64| {
        let all = flows * f64::from(copies);
        if all <= FLOWS_MAX as f64 {
            return Ok(());
        }
        let message = format!("these would be {all:.0} flows, and there is room for {FLOWS_MAX}");
        Err(at.wrong("kind", message).hint("take fewer hosts, less time, load or queue pairs"))
    };
    let all = f64::from(hosts);
    // Whether every flow says itself what it is, and of which DSCP.
    let (mut own_verbs, mut own_dscps) = (false, false);
    let mut flows = match table.kind {
        WorkloadKind::Flow => {
            let why = "kind \"flow\"";
            let (from, to) = (named("from", &table.from, why)?, named("to", &table.to, why)?);
            if from == to {
                return Err(at
                    .wrong("to", format!("{:?} is at both ends", table.to.as_deref().unwrap_or("")))
                    .hint("a flow is between two hosts"));
            }
            room(1.0)?;
            vec![FlowSpec::write(from, to, bytes(why)?)]
        }
        WorkloadKind::Permutation => {
            room(all)?;
            permutation(hosts, bytes("kind \"permutation\"")?, random)
        }
        WorkloadKind::Ring => {
            room(all)?;
            ring(hosts, bytes("kind \"ring\"")?)
        }
        WorkloadKind::AllToAll => {
            room(all * all)?;
            all_to_all(hosts, bytes("kind \"all-to-all\"")?)
        }
        WorkloadKind::Incast => {
            let why = "kind \"incast\"";
            let receiver = named("receiver", &table.receiver, why)?;
            let senders = table.senders.unwrap_or(hosts.saturating_sub(1));
            let others = hosts.saturating_sub(1);
            if senders == 0 || senders > others {
                let message = format!("{senders} of {others} other hosts");
                let hint = "at least one; queue_pairs gives each several flows";
                return Err(at.wrong("senders", message).hint(hint));
            }
            room(f64::from(senders))?;
            incast(hosts, receiver, senders, bytes(why)?, random)
        }
        WorkloadKind::Poisson => {
            let why = "kind \"poisson\"";
            let load = at.need("load", table.load, why)?;
            if !(load > 0.0 && load <= 1.0) {
                return Err(at
                    .wrong("load", format!("{} is not above 0 and at most 1", plain(load)))
                    .hint("0.5 for half of what the links of the hosts carry"));
            }
            let sizes = sizes(at, files)?;
            if sizes.mean() <= 0.0 {
                let message = "messages of no bytes make no load";
                return Err(at.wrong("load", message).hint("let them have a byte at least"));
            }
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
            let line = line.unwrap_or_default();
            let each = sizes.mean() * 8.0;
            room(load * line.as_bps() as f64 * all * until.as_ps() as f64 / 1e12 / each)?;
            poisson(hosts, line, load, &sizes, until, random)
        }
        WorkloadKind::Trace => {
            let name = at.need("trace_file", table.trace_file.as_deref(), "kind \"trace\"")?;
            let text = at.open("trace_file", name, files)?;
            let known: BTreeMap<&str, u32> =
                topology.hosts.iter().map(String::as_str).zip(0..).collect();
            let traced = trace(&text, &|name| known.get(name).copied()).map_err(|error| {
                let message = format!("{name}, {}", error.complaint());
                at.wrong("trace_file", message).hint(error.remedy())
            })?;
            room(traced.flows.len() as f64)?;
            (own_verbs, own_dscps) = (traced.verbs, traced.dscps);
            traced.flows
        }
    };
    let dscp = table.dscp.unwrap_or(3);
    if dscp > 63 {
        let message = format!("{dscp} is not from 0 to 63");
        return Err(at.wrong("dscp", message).hint("a DSCP has six bits"));
    }
    let endless = table.endless.unwrap_or(false);
    if endless && table.messages.is_some() {
        return Err(at
            .wrong("messages", "an endless flow has no number of messages")
            .hint("remove one of messages and endless"));
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
        return Err(at
            .wrong("spread_bytes", "a SEND goes where the receiver wants it")
            .hint("spread WRITEs or READs"));
    }
    let start = at.span("start_us", table.start_us.unwrap_or(0.0), US)?;
    for flow in &mut flows {
        flow.verb = if own_verbs { flow.verb } else { verb };
        flow.dscp = if own_dscps { flow.dscp } else { dscp };
        flow.reply_bytes = table.reply_bytes;
        flow.spread_bytes = table.spread_bytes;
        flow.depth = table.depth.unwrap_or(if endless { 2 } else { 1 }).max(1);
        flow.messages = if endless { None } else { Some(table.messages.unwrap_or(1)) };
        flow.start += start;
    }
    let copies = copies.max(1) as usize;
    Ok(flows.into_iter().flat_map(|flow| core::iter::repeat_n(flow, copies)).collect())
}

/// Refuses numbers that make no sense, whatever the kind.
fn check_numbers(at: &At<'_, tables::Workload>) -> Result<()> {
    let table = at.table;
    for (key, bytes) in [("message_bytes", table.message_bytes), ("reply_bytes", table.reply_bytes)]
    {
        if let Some(bytes) = bytes.filter(|&bytes| bytes > MESSAGE_BYTES_MAX) {
            let message = format!("{bytes} is more than {MESSAGE_BYTES_MAX}, the longest message");
            return Err(at.wrong(key, message).hint("send several messages"));
        }
    }
    let numbers = [
        ("messages", table.messages, "endless = true for one that does not end"),
        ("depth", table.depth.map(u64::from), "1 for a message at a time"),
        ("queue_pairs", table.queue_pairs.map(u64::from), "1 for a queue pair of each flow"),
    ];
    for (key, number, hint) in numbers {
        if number == Some(0) {
            return Err(at.wrong(key, "0 is not at least 1").hint(hint));
        }
    }
    let Some(spread) = table.spread_bytes else { return Ok(()) };
    let least = u64::from(table.message_bytes.unwrap_or(0));
    if spread < least || spread > SPREAD_BYTES_MAX {
        let message = format!("{spread} is not from message_bytes to {SPREAD_BYTES_MAX}");
        return Err(at
            .wrong("spread_bytes", message)
            .hint("it is the memory in which messages find a place"));
    }
    Ok(())
}
