//! Congestion controls other than DCQCN, each against what its paper says of flows that always send.

use rdma::{Rate, Span, Time};
use transport::congestion::{Congestion, Dctcp, Hpcc, Swift, Timely};

use crate::switch::config::{EcnConfig, EcnMark};
use crate::topology::{Cables, End, single_switch};
use crate::workload::{FlowSpec, Verb};
use crate::{Network, NetworkConfig};

/// A full packet in a queue.
const FRAME: f64 = 1_024.0 + 62.0;

/// Flows to one host at one switch, once they have settled.
struct Settled {
    /// The queue, in bytes: the least, on average, the most.
    queue: [f64; 3],
    /// The rate of each flow as a part of its share.
    parts: Vec<f64>,
    /// What was delivered of what the link carries, headers included.
    utilisation: f64,
    drops: u64,
}

struct Case {
    verb: Verb,
    senders: u32,
    gbps: u64,
    cable_m: u32,
    congestion: Congestion,
    mark_at_bytes: Option<u32>,
    /// Before it is measured, and for how long.
    ms: (u64, u64),
}

fn settle(case: &Case) -> Settled {
    let Case { senders, gbps, cable_m, .. } = *case;
    let mut config =
        NetworkConfig::new(single_switch(senders + 1, Cables::new(Rate::from_gbps(gbps), cable_m)));
    config.nic.congestion = case.congestion;
    // READs are asked for in chunks, of which one is always under way.
    config.nic.read_chunk_bytes = 4_096;
    config.switch.queues[3].ecn = case.mark_at_bytes.map(|bytes| EcnConfig {
        min_bytes: bytes,
        max_bytes: bytes,
        max_probability: 1.0,
    });
    config.switch.ecn_mark = EcnMark::Arrival;
    config.flows = (0..senders)
        .map(|from| match case.verb {
            // Who reads is who is answered: the data come to it.
            Verb::Read => FlowSpec { verb: Verb::Read, ..FlowSpec::write(senders, from, 64 << 20) },
            verb => FlowSpec { verb, ..FlowSpec::write(from, senders, 64 << 20) },
        })
        .map(|flow| FlowSpec { message_bytes: 100_000, depth: 8, ..flow.endless() })
        .collect();
    let mut network = Network::new(config).unwrap();
    let (from, lasts) = case.ms;
    network.run(Time::ZERO + Span::from_ms(from));
    let before: Vec<u64> = network.flows().iter().map(|flow| flow.bytes()).collect();
    let mut queue = [f64::MAX, 0.0, 0.0];
    let samples = lasts * 1_000 / 5;
    for sample in 1..=samples {
        network.run(Time::ZERO + Span::from_ms(from) + Span::from_us(5 * sample));
        let bytes = f64::from(network.queue_bytes(0, End::Host(senders), 3).unwrap());
        queue = [queue[0].min(bytes), queue[1] + bytes / samples as f64, queue[2].max(bytes)];
    }
    let after = network.flows().iter().map(|flow| flow.bytes());
    let sent: Vec<f64> =
        after.zip(&before).map(|(after, before)| (after - before) as f64).collect();
    let total: f64 = sent.iter().sum();
    // Preamble and gap, too.
    let wire = total / 1_024.0 * (FRAME + 20.0) * 8.0;
    Settled {
        queue,
        parts: sent.iter().map(|bytes| bytes / total * f64::from(senders)).collect(),
        utilisation: wire / (gbps as f64 * 1e6 * lasts as f64),
        drops: network.drops().total(),
    }
}

impl Settled {
    #[track_caller]
    fn assert_fair(&self, apart: f64) {
        for part in &self.parts {
            assert!((part - 1.0).abs() < apart, "{:?}", self.parts);
        }
    }
}

/// DCTCP, section 3.3: a queue that is marked from K on reaches K + N packets, and falls from there by
/// A = sqrt(2 N (C x RTT + K)) / 2.
#[test]
fn windows_of_dctcp_swing_about_the_mark_as_far_as_the_paper_says() {
    for senders in [2, 4, 8] {
        let settled = settle(&Case {
            verb: Verb::Write,
            senders,
            gbps: 10,
            cable_m: 2_000,
            congestion: Congestion::Dctcp(Dctcp::default()),
            mark_at_bytes: Some(65 * FRAME as u32),
            ms: (20, 40),
        });
        let flows = f64::from(senders);
        // Four times 10 us of cable.
        let flight = 10e9 / 8.0 * 40e-6 / FRAME;
        let most = 65.0 + flows;
        let amplitude = (2.0 * flows * (flight + 65.0)).sqrt() / 2.0;
        let [least, _, found] = settled.queue.map(|bytes| bytes / FRAME);
        // A packet arrives or leaves between two looks, and windows are whole packets.
        assert!((found - most).abs() < 3.5, "{senders}: {found} of {most}");
        let expected = most - amplitude;
        assert!((least - expected).abs() < 3.5, "{senders}: {least} of {expected}");
        assert!(settled.utilisation > 0.99 && settled.drops == 0, "{}", settled.utilisation);
        if senders == 2 {
            settled.assert_fair(0.05);
        }
    }
}

/// Zhu et al., "ECN or Delay", CoNEXT 2016, theorem 5: the patch of TIMELY settles where round trips are
/// T_low (1 + N delta / (beta C)), with equal rates.
#[test]
fn patched_timely_settles_at_the_queue_of_its_fixed_point() {
    for senders in [2, 4] {
        let patched = Timely { decrease: 8, is_patched: true, ..Timely::default() };
        let settled = settle(&Case {
            verb: Verb::Write,
            senders,
            gbps: 10,
            cable_m: 1_000,
            congestion: Congestion::Timely(patched),
            mark_at_bytes: None,
            ms: (300, 100),
        });
        let round_trip_us = 50.0 * (1.0 + f64::from(senders) * 10e6 / (0.008 * 10e9));
        // Four times 5 us of cable; the packet twice, and its acknowledgement.
        let base_us = 20.0 + 2.0 * (FRAME + 20.0 + 86.0) * 8.0 / 10e3;
        let expected = (round_trip_us - base_us) * 10e3 / 8.0;
        let [_, mean, _] = settled.queue;
        assert!((mean / expected - 1.0).abs() < 0.05, "{senders}: {mean} of {expected}");
        assert!(settled.utilisation > 0.98 && settled.drops == 0, "{}", settled.utilisation);
        settled.assert_fair(0.05);
    }
}

/// Swift, section 3.5: the round trip is the target of the window that is a flow's share of it, longer for
/// more flows. Of 128 flows the share is half a packet: a window of one each would be 139 KB of queue. They
/// grow by a fifth of a packet: a whole one is twice what they have.
#[test]
fn flows_of_swift_settle_at_the_target_of_their_share() {
    let mut before = 0.0;
    for (senders, additive_increase, apart) in [(2, 1_000, 0.05), (8, 1_000, 0.1), (128, 200, 0.3)]
    {
        let settled = settle(&Case {
            verb: Verb::Write,
            senders,
            gbps: 10,
            cable_m: 400,
            congestion: Congestion::Swift(Swift { additive_increase, ..Swift::default() }),
            mark_at_bytes: None,
            ms: (100, 100),
        });
        // Four times 2 us of cable; the packet twice, and its acknowledgement.
        let base_us = 8.0 + 2.0 * (FRAME + 20.0 + 86.0) * 8.0 / 10e3;
        let round_trip_us = base_us + settled.queue[1] * 8.0 / 10e3;
        let window = round_trip_us * 10e3 / 8.0 / (FRAME + 20.0) / f64::from(senders);
        let inverse = |window: f64| 1.0 / window.sqrt();
        let (most, least) = (inverse(0.1), inverse(100.0));
        let target_us = 25.0 + 50.0 * (inverse(window) - least) / (most - least);
        let off = round_trip_us / target_us - 1.0;
        assert!(off.abs() < 0.1, "{senders}: {round_trip_us} of {target_us}");
        assert!(round_trip_us > before, "{senders}: {round_trip_us} after {before}");
        before = round_trip_us;
        assert!(settled.utilisation > 0.98 && settled.drops == 0, "{}", settled.utilisation);
        settled.assert_fair(apart);
    }
}

/// HPCC, algorithm 1: a window settles where W = W eta / U + W_AI. All windows together are U B T, so the link
/// is used to U = eta + N W_AI / (B T), and nothing waits but packets that come at one moment. Frames
/// have 42 bytes for what switches write.
#[test]
fn flows_of_hpcc_leave_of_the_link_what_its_paper_says_and_no_queue() {
    for (senders, additive_bytes, verb) in
        [(2, 400, Verb::Write), (8, 160, Verb::Write), (4, 400, Verb::Read)]
    {
        let hpcc = Hpcc { additive_bytes, base_round_trip_ns: 13_000, ..Hpcc::default() };
        let settled = settle(&Case {
            verb,
            senders,
            gbps: 100,
            cable_m: 600,
            congestion: Congestion::Hpcc(hpcc),
            mark_at_bytes: None,
            ms: (5, 10),
        });
        let line_bytes = 100e9 / 8.0 * 13e-6;
        let expected = 0.95 + f64::from(senders) * additive_bytes as f64 / line_bytes;
        let found = settled.utilisation * (FRAME + 20.0 + 42.0) / (FRAME + 20.0);
        let what = format!("{senders} {verb:?}: {found} of {expected}, {:?}", settled.queue);
        assert!((found / expected - 1.0).abs() < 0.01, "{what}");
        assert!(settled.queue[1] < 2.0 * FRAME && settled.drops == 0, "{what}");
        // Of READs, a window has whole chunks: seven to nine of them are a share.
        settled.assert_fair(if verb == Verb::Read { 0.25 } else { 0.08 });
    }
}
