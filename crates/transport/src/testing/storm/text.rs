//! A plan in words, one line each, for the log.
//!
//! The plan's own structures are taken apart without `..`: a field that is forgotten does not compile.
//! Faults that the plan does without have no line.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::plan::{Faults, LinkPlan, Plan};
use crate::congestion::{Congestion, Dcqcn};
use crate::{BetweenHosts, Config, Recovery};

impl Plan {
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { configs, links, faults, storm, latency, gap, grain } = self;
        let mut lines = Vec::from([
            format!("faults last {storm}"),
            format!(
                "network: latency {latency}, gap between packets {gap}, arrivals every {grain}"
            ),
        ]);
        lines.extend(configs.iter().enumerate().map(|(node, c)| config(node, c)));
        lines.extend(links.iter().enumerate().flat_map(|(index, plan)| link(index, plan)));
        lines.extend(faults.lines());
        lines
    }
}

impl Faults {
    fn lines(&self) -> Vec<String> {
        let Self {
            loss,
            burst: (burst, burst_packets),
            corruption,
            duplication,
            reordering,
            jitter,
            partitions,
            stops,
            slows,
            marks,
            late_receives,
            breaks,
            deregistrations,
            changes,
            unmappings,
            drains,
            forgeries,
            mtu_mismatches,
            sleeps,
            resizes,
            window_frees,
            trespasses,
            setbacks,
            waits,
            misdeliveries,
            put_offs,
            narrowing,
            narrows_below_mtu,
        } = *self;
        let rates = [
            (loss, "packets lost"),
            (burst, "bursts of losses"),
            (corruption, "packets corrupted"),
            (duplication, "packets duplicated"),
            (reordering, "packets held back"),
            (marks, "packets marked for congestion"),
            (late_receives, "receives posted late"),
            (deregistrations, "regions deregistered under a request"),
            (changes, "regions registered anew under a request"),
            (unmappings, "buffers unmapped under a request"),
            (mtu_mismatches, "links with two MTUs"),
            (trespasses, "requests for what they must not get"),
            (waits, "calls with the time of an earlier moment"),
            (misdeliveries, "packets given to another engine"),
            (put_offs, "timeouts put off by the driver"),
        ];
        let counts = [
            (partitions, "one-way partitions"),
            (stops, "stopped nodes"),
            (slows, "slow nodes"),
            (breaks, "queue pairs broken by their owner"),
            (setbacks, "clocks turned back"),
            (drains, "drained send queues"),
            (forgeries, "forged packets"),
            (sleeps, "completion queues left alone"),
            (resizes, "resizes and limits of queues"),
            (window_frees, "windows freed by their owner"),
        ];
        let rates = rates.iter().filter(|(rate, _)| *rate > 0);
        let rates = rates.map(|(rate, what)| format!("fault: {what}, {rate} in 1000"));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("fault: {what}, {count} times"));
        let mut lines: Vec<String> = rates.chain(counts).collect();
        if burst > 0 {
            lines.push(format!("fault: a burst takes up to {burst_packets} packets"));
        }
        if jitter.as_ps() > 0 {
            lines.push(format!("fault: packets late by up to {jitter}"));
        }
        if let Some(after) = narrowing {
            let least = if narrows_below_mtu { ", than the path MTU too" } else { "" };
            lines.push(format!("fault: paths become narrower after {after}{least}"));
        }
        lines
    }
}

/// What the plan draws for the engine of a node; the rest is the default.
fn config(node: usize, config: &Config) -> String {
    let Config { recovery, out_of_order_packets, out_of_order_bytes, window_bytes, .. } = config;
    let Config { refill_bytes, read_chunk_bytes, burst_packets, ack_interval_packets, .. } = config;
    let reorder = match recovery {
        Recovery::SelectiveRepeat => {
            let wait =
                config.overtaken_wait_min.map(|wait| format!(", waits {wait} for the overtaken"));
            format!(
                ", reorder buffer {out_of_order_packets} packets and {out_of_order_bytes} bytes{}",
                wait.unwrap_or_default()
            )
        }
        Recovery::GoBack0 | Recovery::GoBackN => match config.between_hosts {
            Some(BetweenHosts { out_of_order_packets, out_of_order_bytes, .. }) => {
                format!(
                    " that signs, reorder buffer {out_of_order_packets} packets and \
                     {out_of_order_bytes} bytes"
                )
            }
            None => String::new(),
        },
    };
    let congestion = match config.congestion {
        Congestion::None => "no congestion control".into(),
        Congestion::Fixed(rate) => format!("fixed rate {rate}"),
        Congestion::Dcqcn(Dcqcn { minimum_rate, alpha_gain, byte_counter, rate_timer, .. }) => {
            format!(
                "DCQCN (minimum rate {minimum_rate:?}, alpha gain {alpha_gain}/1024, byte counter \
             {byte_counter:?}, rate timer {rate_timer})"
            )
        }
        Congestion::Dctcp(_)
        | Congestion::Timely(_)
        | Congestion::Swift(_)
        | Congestion::Hpcc(_)
        | Congestion::Bbr(_)
        | Congestion::Custom(_) => config.congestion.name().into(),
    };
    let notification = match config.notification {
        None => "no CNPs".into(),
        Some(notification) => format!("CNP interval {}", notification.interval),
    };
    format!(
        "node {node}: {recovery:?}{reorder}, window {window_bytes} bytes, refill {refill_bytes} bytes, \
         READ chunk {read_chunk_bytes} bytes, burst {burst_packets} packets, acknowledgement every \
         {ack_interval_packets} packets or after {}, {congestion}, {notification}, not ready for {}",
        config.ack_delay, config.not_ready_grace
    )
}

/// The two ends, what both are set to, and what each is set to.
fn link(index: usize, plan: &LinkPlan) -> [String; 3] {
    let LinkPlan {
        kind,
        nodes: [first, second],
        mtu,
        other_mtu,
        timeout,
        retry_count,
        rnr_retry,
        min_rnr_timer,
        rd_atomic,
        first_psns,
        shared,
        own_cqs,
        signal_all,
        windows,
        operations,
    } = *plan;
    let (mtu, other_mtu) = (mtu.bytes(), other_mtu.bytes());
    let signalled = if signal_all { "all" } else { "some" };
    let end = |side: usize| {
        let srq = if shared[side] { "shared receive queue" } else { "own receive queue" };
        let cq =
            if own_cqs[side] { "small completion queue" } else { "completion queue of the node" };
        format!("first PSN {:#08x}, {srq}, {cq}", first_psns[side])
    };
    [
        format!(
            "link {index}: {kind:?}, node {first} to node {second}, {operations} requests each way, \
             {signalled} signalled, {windows} memory windows at each end"
        ),
        format!(
            "link {index}: MTU {mtu} and {other_mtu}, timeout {timeout}, retry count {retry_count}, RNR \
             retry {rnr_retry}, minimum RNR timer {min_rnr_timer}, {rd_atomic} READs and atomics \
             outstanding"
        ),
        format!("link {index}: node {first}: {}; node {second}: {}", end(0), end(1)),
    ]
}
