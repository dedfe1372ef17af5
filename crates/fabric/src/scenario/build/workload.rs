//! `[[workload]]`.

use std::collections::BTreeMap;

use rdma::{Span, Time};
use transport::limits::MESSAGE_BYTES_MAX;

use super::kinds::only_known;
use super::sizes::sizes;
use super::{At, Files, Result, US, host, tables};
use crate::limits::{FLOWS_MAX, SPREAD_BYTES_MAX};
use crate::random::Random;
use crate::scenario::error::plain;
use crate::topology::{End, Topology};
use crate::workload::{
    FlowSpec, Interval, Queries, Service, Verb, all_to_all, incast, permutation, poisson, probes,
    queries, ring, trace,
};
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
    let others = hosts.saturating_sub(1);
    check_numbers(at)?;
    let bytes = |why| at.need("message_bytes", table.message_bytes, why);
    let named = |key: &str, name: &Option<String>, why: &str| {
        let name = at.need(key, name.as_deref(), why)?;
        host(at, topology, key, name)
    };
    let service = match table.service {
        Some(tables::Service::Uc) => Service::Uc,
        Some(tables::Service::Ud) => Service::Ud,
        Some(tables::Service::Tcp) => Service::Tcp,
        Some(tables::Service::Rc) | None => Service::Rc,
    };
    let tcp = service == Service::Tcp;
    let dscp = table.dscp.unwrap_or(if tcp { 0 } else { 3 });
    if dscp > 63 {
        let message = format!("{dscp} is not from 0 to 63");
        return Err(at.wrong("dscp", message).hint("a DSCP has six bits"));
    }
    let every = at.span_of("interval_us", table.interval_us, US)?;
    if every == Some(Span::ZERO) {
        return Err(at
            .wrong("interval_us", "messages cannot begin all at one time")
            .hint("10 for a message every 10 us; without it, messages follow each other"));
    }
    if table.interval_random.is_some() && every.is_none() {
        return Err(at
            .wrong("interval_random", "without interval_us, messages follow each other")
            .hint("add interval_us"));
    }
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
        WorkloadKind::Probes => {
            let every = at.need("interval_us", every, "kind \"probes\"")?;
            room(f64::from(table.pairs.unwrap_or(1)))?;
            let pairs = probed(at, topology, random)?;
            return Ok(probes(&pairs, service, dscp, every, random));
        }
        WorkloadKind::Queries => {
            let why = "kind \"queries\"";
            let names = at.need("queriers", table.queriers.as_ref(), why)?;
            let own = names.iter().map(|name| host(at, topology, "queriers", name));
            let own = own.collect::<Result<Vec<u32>>>()?;
            let fan_out = at.need("fan_out", table.fan_out, why)?;
            if fan_out == 0 || fan_out > others {
                let message = format!("{fan_out} of {others} other hosts");
                return Err(at
                    .wrong("fan_out", message)
                    .hint("at least 1, and not more than there are"));
            }
            room(own.len() as f64 * f64::from(fan_out))?;
            let of = Queries {
                service,
                dscp,
                query_bytes: bytes(why)?,
                answer_bytes: at.need("reply_bytes", table.reply_bytes, why)?,
                every: at.need("interval_us", every, why)?,
                count: table.messages,
            };
            return Ok(queries(hosts, &own, fan_out, &of, random));
        }
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
            let senders = table.senders.unwrap_or(others);
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
    let endless = table.endless.unwrap_or(false);
    if endless && table.messages.is_some() {
        return Err(at
            .wrong("messages", "an endless flow has no number of messages")
            .hint("remove one of messages and endless"));
    }
    let verb = match table.verb {
        Some(tables::Verb::Write) => Verb::Write,
        Some(tables::Verb::WriteImmediate) => Verb::WriteImmediate,
        Some(tables::Verb::Send) => Verb::Send,
        Some(tables::Verb::Read) => Verb::Read,
        Some(tables::Verb::CompareSwap) => Verb::CompareSwap,
        Some(tables::Verb::FetchAdd) => Verb::FetchAdd,
        None if matches!(service, Service::Ud | Service::Tcp) => Verb::Send,
        None => Verb::Write,
    };
    let verb_of = |flow: &FlowSpec| if own_verbs { flow.verb } else { verb };
    if !flows.iter().all(|flow| verb_of(flow).is_of(service)) {
        let hint = "uc: write, write-immediate and send; ud and tcp: send";
        return Err(at.wrong("verb", "the service does not have it").hint(hint));
    }
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
        flow.service = service;
        flow.verb = verb_of(flow);
        flow.dscp = if own_dscps { flow.dscp } else { dscp };
        flow.reply_bytes = table.reply_bytes;
        flow.spread_bytes = table.spread_bytes;
        let exponential = table.interval_random.unwrap_or(false);
        flow.interval = every.map(|mean| Interval { mean, exponential });
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

/// The pairs of hosts that are probed.
fn probed(
    at: &At<'_, tables::Workload>,
    topology: &Topology,
    random: &mut Random,
) -> Result<Vec<(u32, u32)>> {
    let table = at.table;
    let hosts = topology.hosts.len() as u64;
    match (&table.from, &table.to, table.pairs) {
        (Some(from), Some(to), None) => {
            let (from, to) = (host(at, topology, "from", from)?, host(at, topology, "to", to)?);
            if from == to {
                return Err(at
                    .wrong("to", "a probe is between two hosts")
                    .hint("name another one"));
            }
            Ok(vec![(from, to)])
        }
        (None, None, Some(_)) if hosts < 2 => {
            Err(at.wrong("pairs", "there are not two hosts").hint("a topology of two or more"))
        }
        (None, None, Some(count)) => {
            let pair = |_| {
                let from = random.below(hosts);
                let to = (from + 1 + random.below(hosts - 1)) % hosts;
                // Hosts are fewer than 2^32.
                (from as u32, to as u32)
            };
            Ok((0..count).map(pair).collect())
        }
        _ => Err(at
            .wrong("pairs", "which hosts are probed is not said, or twice")
            .hint("give pairs, or from and to")),
    }
}
