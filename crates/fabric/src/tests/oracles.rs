//! Times and counts that are exact.

use rdma::{Rate, Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use super::{CABLES, finish, with_flows};
use crate::fault::{DropRule, Fault, FaultKind};
use crate::random::Random;
use crate::switch::config::{EcnConfig, Threshold};
use crate::topology::{Cables, End, back_to_back, fat_tree, leaf_spine, single_switch};
use crate::workload::{FlowSpec, SizeDistribution, Verb, all_to_all, poisson};
use crate::{Network, NetworkConfig, Verdict};

/// Of the last bit of a frame, over one link: preamble, frame, cable.
fn hop(frame: u64, byte_ps: u64, cable_ps: u64) -> u64 {
    (8 + frame) * byte_ps + cable_ps
}

/// Frame of an acknowledgement: Ethernet 14, IP 20, UDP 8, BTH 12, AETH 4, ICRC 4, FCS 4.
const ACK: u64 = 66;

#[test]
fn one_packet_over_one_cable_takes_its_bits_and_the_cable() {
    let cables = Cables::new(Rate::from_gbps(40), 2);
    let config = NetworkConfig::new(back_to_back(cables));
    let network = finish(with_flows(config, vec![FlowSpec::write(0, 1, 1024)]));
    // RETH 16 more than the frames of guo16, figure 7.
    let expected = hop(1_102, 200, 10_000) + hop(ACK, 200, 10_000);
    assert_eq!(network.flows()[0].latencies_ps, [expected]);
    assert_eq!(network.unloaded(0, 1, 1024), Some(Span::from_ps(expected)));
    assert_eq!((network.link_hops(), network.drops().total()), (2, 0));
}

#[test]
fn unloaded_messages_of_every_length_take_what_arithmetic_says() {
    // A host link of 25 Gb/s and 3 m, then 100 Gb/s and 100 m, and the same way down.
    let down = Cables::new(Rate::from_gbps(25), 3);
    let up = Cables::new(Rate::from_gbps(100), 100);
    for bytes in [0, 1, 3, 64, 1_023, 1_024, 1_025, 4_096, 1_000_000] {
        let config = NetworkConfig::new(leaf_spine(2, 3, 1, down, up));
        let network = finish(with_flows(config, vec![FlowSpec::write(0, 1, bytes)]));
        let full = u64::from(bytes / 1_024);
        let rest = u64::from(bytes % 1_024);
        // Frames: the first has a RETH; the last is padded to four bytes.
        let mut frames = vec![1_086; full as usize];
        if rest > 0 || full == 0 {
            frames.push(62 + rest.next_multiple_of(4));
        }
        frames[0] += 16;
        // The host's link is the slowest, so frames queue there and at the last hop alone: each
        // leaves the host as soon as the one before it has, with its gap.
        let sent: u64 = frames[..frames.len() - 1].iter().map(|frame| (20 + frame) * 320).sum();
        let last = *frames.last().unwrap();
        let arrives = sent + hop(last, 320, 15_000) + 2 * hop(last, 80, 500_000);
        // The last hop is as slow as the first: the last frame may have to wait for the one before,
        // which was longer.
        let mut free = 0;
        let mut at = 0;
        let mut left = 0;
        for frame in &frames {
            let reached = left + hop(*frame, 320, 15_000) + 2 * hop(*frame, 80, 500_000);
            left += (20 + frame) * 320;
            at = reached.max(free) + hop(*frame, 320, 15_000);
            free = reached.max(free) + (20 + frame) * 320;
        }
        assert!(at >= arrives + hop(last, 320, 15_000));
        let back = 2 * hop(ACK, 320, 15_000) + 2 * hop(ACK, 80, 500_000);
        assert_eq!(network.flows()[0].latencies_ps, [at + back], "{bytes} bytes");
        assert_eq!(network.unloaded(0, 1, bytes), Some(Span::from_ps(at + back)));
    }
}

#[test]
fn a_frame_that_is_cut_through_is_whole_once_and_waits_for_64_bytes_at_each_switch() {
    // One frame over hosts' links and uplinks of these rates.
    let took = |down: u64, up: u64| {
        let rates = [down, up].map(|gbps| Cables::new(Rate::from_gbps(gbps), 2));
        let mut config = NetworkConfig::new(leaf_spine(2, 1, 1, rates[0], rates[1]));
        config.switch.cut_through = true;
        let network = finish(with_flows(config, vec![FlowSpec::write(0, 1, 1_024)]));
        let took = network.flows()[0].latencies_ps[0];
        assert_eq!(network.unloaded(0, 1, 1_024), Some(Span::from_ps(took)));
        took
    };
    let (frame, cable, head) = (1_102, 10_000, 8 + 64);
    // The whole frame comes over the last link; before it each switch has seen a head.
    let there = hop(frame, 80, cable) + 3 * (head * 80 + cable);
    let back = hop(ACK, 80, cable) + 3 * (head * 80 + cable);
    assert_eq!(took(100, 100), there + back);
    // Faster uplinks: the first switch has to wait for the last bit, the spine and the last leaf have not.
    let up =
        hop(frame, 80, cable) + (head * 20 + cable) + (head * 20 + cable) + hop(frame, 80, cable);
    let down = hop(ACK, 80, cable) + 2 * (head * 20 + cable) + hop(ACK, 80, cable);
    assert_eq!(took(100, 400), up + down);
    // Slower uplinks: the last switch is the one that waits.
    let up =
        head * 20 + cable + (head * 80 + cable) + hop(frame, 80, cable) + hop(frame, 20, cable);
    let down = head * 20 + cable + (head * 80 + cable) + hop(ACK, 80, cable) + hop(ACK, 20, cable);
    assert_eq!(took(400, 100), up + down);
}

#[test]
fn frames_that_are_cut_through_follow_each_other_as_close_as_they_came() {
    let mut config = NetworkConfig::new(leaf_spine(2, 1, 1, CABLES, CABLES));
    config.switch.cut_through = true;
    config.paranoid = true;
    let network = finish(with_flows(config, vec![FlowSpec::write(0, 1, 1_000_000)]));
    let took = network.flows()[0].latencies_ps[0];
    assert_eq!(network.unloaded(0, 1, 1_000_000), Some(Span::from_ps(took)));
}

/// The permutation of 128 hosts that Python's `random.seed(1)` shuffles: that of job P.
#[rustfmt::skip]
const JOB_P: [u32; 128] = [
    127, 43, 66, 85, 15, 55, 99, 125, 118, 95, 77, 123, 19, 116, 17, 36, 5, 18, 30, 101, 107, 110,
    40, 56, 92, 114, 80, 73, 117, 84, 124, 75, 54, 47, 94, 51, 105, 33, 48, 71, 59, 113, 28, 89, 88,
    90, 119, 49, 65, 91, 27, 38, 13, 97, 122, 87, 6, 16, 12, 50, 26, 126, 24, 39, 102, 82, 60, 63,
    41, 115, 106, 83, 103, 67, 93, 20, 21, 8, 37, 112, 96, 108, 14, 34, 31, 35, 1, 57, 2, 10, 9, 86,
    4, 32, 98, 11, 23, 74, 120, 22, 81, 29, 3, 76, 58, 42, 78, 100, 79, 69, 68, 0, 44, 53, 45, 104,
    62, 52, 64, 25, 70, 72, 46, 111, 61, 7, 121, 109,
];

#[test]
fn the_permutation_job_crosses_2_984_000_links() {
    // Fat tree k = 8, 100 Gb/s, 1 us a link, 2,000 packets a flow, an acknowledgement a packet: the
    // job on which other simulators were measured. A buffer without end keeps pauses away, under
    // which a NIC whose acknowledgements wait in hundreds lets them coalesce.
    let mut config = NetworkConfig::new(fat_tree(8, CABLES));
    config.switch.buffer_bytes = 1 << 30;
    config.switch.groups[3].threshold = Threshold::Dynamic { exponent: 3 };
    let flow = |(from, &to): (usize, &u32)| FlowSpec::write(from as u32, to, 2_000 * 1_024);
    config.flows = JOB_P.iter().enumerate().map(flow).collect();
    let network = finish(config);
    assert_eq!(network.link_hops(), 2_984_000);
    assert_eq!((network.drops().total(), network.pause_frames()), (0, 0));
    assert_eq!(digest(&network), 0xc9a5_506d_c35d_1781);
}

/// A number that is another one if anything is: when messages completed, to the picosecond, and what
/// was in each queue. Whoever makes the simulator faster must not make it different.
fn digest(network: &Network) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |number: u64| digest = (digest ^ number).wrapping_mul(0x0000_0100_0000_01b3);
    network.flows().iter().flat_map(|flow| &flow.latencies_ps).for_each(|&latency| add(latency));
    for switch in 0..network.topology().switches.len() as u32 {
        for (_, counters) in network.switch_counters(switch) {
            counters.queue_peak_bytes.into_iter().for_each(&mut add);
            counters.queue_bytes.into_iter().for_each(&mut add);
        }
    }
    digest
}

#[test]
fn a_network_in_trouble_does_to_the_picosecond_what_it_did() {
    // Pauses, marks and CNPs, paces and retransmissions, of WRITEs, SENDs and READs.
    let mut config = NetworkConfig::new(leaf_spine(4, 3, 8, CABLES, CABLES));
    config.nic.congestion = Congestion::Dcqcn(Dcqcn { line_rate: CABLES.rate, ..Dcqcn::paper() });
    config.nic.ack_interval_packets = 4;
    config.switch.buffer_bytes = 6_000_000;
    config.switch.queues[3].ecn =
        Some(EcnConfig { min_bytes: 40_000, max_bytes: 160_000, max_probability: 0.2 });
    let mut random = Random::new(3);
    let mut below = |limit: u32| random.below(u64::from(limit)) as u32;
    config.flows = [Verb::Write, Verb::Send, Verb::Read]
        .into_iter()
        .cycle()
        .take(600)
        .map(|verb| {
            let from = below(32);
            let bytes = [64, 3_000, 20_000, 200_000][below(4) as usize];
            let start = Time::from_ps(u64::from(below(300_000_000)));
            FlowSpec { verb, start, ..FlowSpec::write(from, (from + 1 + below(31)) % 32, bytes) }
        })
        .collect();
    config.share_queue_pairs = true;
    config.flows.extend((0..31).map(|from| FlowSpec::write(from, 31, 150_000)));
    let lossy = |host: u32| {
        let (from, to) = (End::Host(host), End::Switch(host / 8));
        let kind = FaultKind::LinkRule { from, to, rule: DropRule::Every(900) };
        Fault { at: Time::ZERO, kind }
    };
    config.faults = [0, 9, 18, 27].map(lossy).into();
    let network = finish(config);
    let stats = || (0..32).flat_map(|host| network.host_stats(host));
    let retransmitted: u64 = stats().map(|stats| stats.retransmitted_pkts).sum();
    let notified: u64 = stats().map(|stats| stats.rp_cnp_handled).sum();
    assert!(network.pause_frames() > 0 && retransmitted > 0 && notified > 0);
    assert_eq!(digest(&network), 0x024f_485e_2c51_f2ac);
}

#[test]
fn every_verb_completes_and_a_reply_comes_back() {
    for verb in [Verb::Write, Verb::Send, Verb::Read] {
        let config = NetworkConfig::new(single_switch(4, CABLES));
        let flow = FlowSpec { verb, messages: Some(20), depth: 3, ..FlowSpec::write(0, 2, 10_000) };
        let network = finish(with_flows(config, vec![flow]));
        let flow = &network.flows()[0];
        assert_eq!((flow.completed, flow.failed, flow.bytes()), (20, 0, 200_000));
        assert_eq!(network.drops().total(), 0);
    }
    let config = NetworkConfig::new(single_switch(4, CABLES));
    let flow = FlowSpec {
        verb: Verb::Send,
        messages: Some(50),
        reply_bytes: Some(64),
        ..FlowSpec::write(0, 2, 512)
    };
    let network = finish(with_flows(config, vec![flow]));
    let flow = &network.flows()[0];
    // There and back, store and forward, nothing else: Ethernet to FCS around a SEND is 62 bytes.
    let expected = 2 * hop(62 + 512, 80, 1_000_000) + 2 * hop(62 + 64, 80, 1_000_000);
    assert_eq!(flow.completed, 50);
    assert!(flow.latencies_ps[1..].iter().all(|&latency| latency >= expected));
    assert_eq!(flow.latencies_ps[0], expected + (8 + ACK + 12) * 80, "behind the acknowledgement");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let run = |seed| {
        let mut config = NetworkConfig::new(fat_tree(4, CABLES));
        config.seed = seed;
        let sizes = SizeDistribution::new(vec![(64, 0.5), (100_000, 1.0)]).unwrap();
        let end = Time::ZERO + Span::from_us(200);
        let mut random = Random::new(seed);
        config.flows = poisson(16, Rate::from_gbps(100), 0.6, &sizes, end, &mut random);
        config.share_queue_pairs = true;
        let network = finish(config);
        let latencies: Vec<_> =
            network.flows().iter().flat_map(|flow| flow.latencies_ps.clone()).collect();
        (latencies, network.events(), network.link_hops(), network.pause_frames())
    };
    let first = run(7);
    assert!(first.0.len() > 100);
    assert_eq!(first, run(7));
    assert_ne!(first.0, run(8).0);
}

#[test]
fn paranoid_mode_gives_what_the_fast_one_does() {
    let run = |paranoid, tagged| {
        let mut config = NetworkConfig::new(leaf_spine(2, 2, 4, CABLES, CABLES));
        config.paranoid = paranoid;
        config.nic.tagged = tagged;
        config.flows = all_to_all(8, 30_000);
        for (flow, verb) in
            config.flows.iter_mut().zip([Verb::Write, Verb::Send, Verb::Read].iter().cycle())
        {
            flow.verb = *verb;
        }
        let network = finish(config);
        let latencies: Vec<_> =
            network.flows().iter().flat_map(|flow| flow.latencies_ps.clone()).collect();
        (latencies, network.link_hops())
    };
    assert_eq!(run(true, false), run(false, false));
    assert_eq!(run(true, true), run(false, true));
}

#[test]
fn an_endless_flow_fills_its_link() {
    let config = NetworkConfig::new(single_switch(2, CABLES));
    let flow = FlowSpec::write(0, 1, 1 << 20).endless();
    let mut network = Network::new(with_flows(config, vec![flow])).unwrap();
    assert_eq!(network.run(Time::ZERO + Span::from_ms(5)), Verdict::TimeOver);
    let gbps = network.flows()[0].bytes() as f64 * 8.0 / 5e-3 / 1e9;
    // 1,024 of 1,106 bytes on the wire are payload, and the last message is not done.
    assert!((90.5..92.6).contains(&gbps), "{gbps}");
}
