//! Packets of one message that are taken out at once.

use std::vec::Vec;

use rdma::{Access, CompletionStatus, Psn, QpType, Qpn};
use wire::opcode::{Operation, Part};

use super::{statuses, take_one};
use crate::testing::{Pair, TestMemory, Verdict};
use crate::{Config, Endpoint, RegionSpec, Segment, Stats};

const MTU: u32 = 1024;

/// What a run was: the queue pair, the part of the message, the PSN, how many packets.
type Run = (Qpn, Part, Psn, u32);

fn take(endpoint: &mut Endpoint, pair_now: rdma::Time, most: u32) -> Option<Run> {
    let run = endpoint.poll_transmit(pair_now, most)?;
    let header = run.header();
    let taken = (run.qpn(), header.facts().part, header.bth.psn, run.count());
    run.sent();
    Some(taken)
}

fn counts(pair: &mut Pair, index: usize, most: u32) -> Vec<u32> {
    let now = pair.now;
    let endpoint = &mut pair.nodes[index].endpoint;
    core::iter::from_fn(|| take(endpoint, now, most)).map(|(.., count)| count).collect()
}

fn connected(config: Config) -> Pair {
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], |_| {});
    pair
}

#[test]
fn the_middle_of_a_message_is_a_run() {
    let mut pair = connected(Config { ack_interval_packets: 1_000, ..Config::default() });
    let write = pair.write(1, 0);
    // The third piece is longer than the MTU, so that packets of a run lie in one piece or in two.
    let node = &pair.nodes[0];
    let sges = [node.sge(0, 1_500), node.sge(10_000, 100), node.sge(20_000, 8 * MTU)];
    pair.post(0, 1, write, &sges);
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    assert_eq!(take(endpoint, now, 64).unwrap().1, Part::First);
    let run = endpoint.poll_transmit(now, 64).unwrap();
    assert_eq!((run.header().facts().part, run.count()), (Part::Middle, 8));
    let first = run.header().bth.psn;
    for (index, (psn, payload)) in (0..).zip(run.packets()) {
        assert_eq!((psn, payload.len()), (first.plus(index), MTU));
    }
    // The message is 9,792 bytes; packets 1 to 8 carry those from 1,024 to 9,216.
    let pieces = |payload: crate::Payload<'_>| {
        let piece = |segment| match segment {
            Segment::Memory { address, length } => (address - TestMemory::BASE, length),
            Segment::Bytes(_) => unreachable!("nothing is inline"),
        };
        payload.segments().map(piece).collect::<Vec<_>>()
    };
    let mut payloads = run.packets().map(|(_, payload)| pieces(payload));
    assert_eq!(payloads.next().unwrap(), [(1_024, 476), (10_000, 100), (20_000, 448)]);
    assert_eq!(payloads.next().unwrap(), [(20_448, MTU)]);
    assert_eq!(payloads.last().unwrap(), [(20_448 + 6 * 1_024, MTU)]);
    run.sent();
    let last = take(endpoint, now, 64).unwrap();
    assert_eq!((last.1, last.3), (Part::Last, 1));
    assert_eq!(endpoint.stats().sent_pkts, 10);
    assert_eq!(endpoint.stats().sent_bytes, 9_792);
}

#[test]
fn a_run_ends_at_the_turn_the_interval_and_the_window() {
    let long = |config: Config| {
        let mut pair = connected(config);
        let write = pair.write(1, 0);
        let sge = pair.nodes[0].sge(0, 40 * MTU);
        pair.post(0, 1, write, &[sge]);
        counts(&mut pair, 0, 64)
    };
    let free = Config { ack_interval_packets: 1_000, ..Config::default() };
    // The first packet is of the turn, too.
    assert_eq!(long(free.clone()), [1, 15, 16, 7, 1]);
    assert_eq!(long(Config { burst_packets: 1_000, ..free.clone() }), [1, 38, 1]);
    // Packets 10, 20 and 30 ask.
    let asking = Config { burst_packets: 1_000, ack_interval_packets: 10, ..free.clone() };
    assert_eq!(long(asking), [1, 8, 1, 9, 1, 9, 1, 9, 1]);
    // The window takes six; the sixth asks.
    assert_eq!(long(Config { window_bytes: 6 * (1024 + 256), ..free }), [1, 4, 1]);
}

#[test]
fn packets_that_have_a_rate_leave_singly() {
    use crate::Congestion;
    let congestion = Congestion::Fixed(rdma::Rate::from_gbps(1_000));
    let mut pair = connected(Config { congestion, ..Config::default() });
    let write = pair.write(1, 0);
    let sge = pair.nodes[0].sge(0, 8 * MTU);
    pair.post(0, 1, write, &[sge]);
    pair.now = rdma::Time::from_ns(1_000_000);
    assert_eq!(counts(&mut pair, 0, 64), [1]);
}

#[test]
fn what_is_put_back_leaves_later_and_its_turn_goes_on() {
    let mut pair = connected(Config { ack_interval_packets: 1_000, ..Config::default() });
    let first = pair.nodes[0].qpn;
    pair.connect(QpType::Rc, [None, None], |_| {});
    let second = pair.nodes[0].qpn;
    let write = pair.write(1, 0);
    for qpn in [first, second] {
        pair.nodes[0].qpn = qpn;
        let sge = pair.nodes[0].sge(0, 40 * MTU);
        pair.post(0, 1, write, &[sge]);
    }
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    let start = take(endpoint, now, 64).unwrap().2;
    assert_eq!(take(endpoint, now, 64).unwrap(), (first, Part::Middle, start.plus(1), 15));
    let header = take_one(endpoint, now).unwrap();
    assert_eq!(header.facts().part, Part::First, "the other one's turn");
    let run = endpoint.poll_transmit(now, 64).unwrap();
    assert_eq!((run.qpn(), run.count()), (second, 15));
    run.sent_only(10);
    // As it was before five were put back: two turns of sixteen.
    let before = Stats { sent_pkts: 32, sent_bytes: 32 * 1_024, ..Stats::default() };
    assert_eq!(endpoint.stats().sent_pkts, before.sent_pkts - 5);
    assert_eq!(endpoint.stats().sent_bytes, before.sent_bytes - 5 * 1_024);
    // Its turn was over, and is not.
    assert_eq!(take(endpoint, now, 64).unwrap(), (second, Part::Middle, start.plus(11), 5));
    assert_eq!(take(endpoint, now, 64).unwrap(), (first, Part::Middle, start.plus(16), 16));
    assert_eq!(endpoint.stats().sent_bytes, before.sent_bytes + 16 * 1_024);
}

#[test]
fn an_answer_leaves_in_runs_and_can_be_put_back() {
    let mut pair = connected(Config::default());
    let read = pair.read(1, 0);
    let sge = pair.nodes[0].sge(0, 12 * MTU);
    pair.post(0, 1, read, &[sge]);
    pair.nodes[1].fill(0, 12 * MTU as usize, 3);
    let now = pair.now;
    let header = take_one(&mut pair.nodes[0].endpoint, now).unwrap();
    let arrival = crate::Arrival {
        source: pair.nodes[0].gid,
        destination: pair.nodes[1].gid,
        traffic_class: 0,
        hop_limit: 64,
    };
    let mut bytes = std::vec![0; header.header_len()];
    header.emit(&mut bytes);
    pair.inject(1, &arrival, &bytes);
    let endpoint = &mut pair.nodes[1].endpoint;
    assert_eq!(take(endpoint, now, 64).unwrap().1, Part::First);
    let run = endpoint.poll_transmit(now, 64).unwrap();
    assert_eq!((run.header().facts().operation, run.count()), (Operation::ReadResponse, 10));
    let header = *run.header();
    let pieces: Vec<_> = run.packets().flat_map(|(_, payload)| payload.segments()).collect();
    let place = |index| TestMemory::BASE + index * u64::from(MTU);
    let piece = |index| Segment::Memory { address: place(index), length: MTU };
    assert_eq!(pieces, (1..11).map(piece).collect::<Vec<_>>());
    run.sent_only(3);
    let again = endpoint.poll_transmit(now, 3).unwrap();
    assert_eq!((again.header().bth.psn, again.count()), (header.bth.psn.plus(3), 3));
    again.sent();
    assert_eq!(take(endpoint, now, 64).unwrap().3, 4);
    assert_eq!(take(endpoint, now, 64).unwrap().1, Part::Last);
    assert_eq!(take(endpoint, now, 64), None);
}

#[test]
fn memory_that_is_gone_in_the_middle_of_a_run_fails_its_request_in_turn() {
    for kind in [QpType::Rc, QpType::Uc] {
        let mut pair = Pair::default();
        pair.connect(kind, [None, None], |_| {});
        let node = &mut pair.nodes[0];
        // A region that its memory does not reach the end of.
        let base = TestMemory::BASE + (1 << 24) - 6 * u64::from(MTU);
        let (length, access) = (1 << 16, Access::LOCAL_WRITE);
        let region = RegionSpec { address: base, length, iova: base, access };
        let l_key = node.endpoint.register(node.pd, region).unwrap();
        let sge = rdma::Sge { address: base, length: 12 * MTU, l_key };
        let (write, good) = (pair.write(1, 0), pair.nodes[0].sge(0, 8));
        pair.post(0, 1, write, &[good]);
        pair.post(0, 2, write, &[sge]);
        pair.post(0, 3, write, &[good]);
        let now = pair.now;
        let endpoint = &mut pair.nodes[0].endpoint;
        assert_eq!(take(endpoint, now, 64).unwrap().1, Part::Only);
        assert_eq!(take(endpoint, now, 64).unwrap().1, Part::First);
        let run = endpoint.poll_transmit(now, 64).unwrap();
        assert_eq!(run.count(), 10);
        // Five are sent; the sixth cannot be read.
        run.faulted(5);
        assert_eq!(endpoint.stats().sent_pkts, 8, "the one that could not be read is counted");
        pair.drive();
        // What was sent by hand never arrived: the first request of RC is sent again, and done first.
        let expected = [
            (1, CompletionStatus::Success),
            (2, CompletionStatus::LocalProtection),
            (3, CompletionStatus::Flushed),
        ];
        assert_eq!(statuses(&mut pair.nodes[0]), expected, "{kind:?}");
    }
}

#[test]
fn a_run_that_never_arrives_is_sent_again() {
    let mut pair = connected(Config::default());
    let write = pair.write(1, 0);
    let sge = pair.nodes[0].sge(0, 12 * MTU);
    pair.nodes[0].fill(0, 12 * MTU as usize, 7);
    pair.post(0, 1, write, &[sge]);
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    while let Some(run) = endpoint.poll_transmit(now, 64) {
        run.sent();
    }
    assert_eq!(endpoint.stats().sent_pkts, 12);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert!(pair.nodes[0].endpoint.stats().retransmitted_pkts > 0);
    let bytes = pair.nodes[0].bytes(0, 12 * MTU as usize);
    assert_eq!(pair.nodes[1].bytes(0, 12 * MTU as usize), bytes);
}

#[test]
fn what_is_said_of_more_or_fewer_packets_than_a_run_has_is_said_of_those_it_has() {
    let mut pair = connected(Config { ack_interval_packets: 1_000, ..Config::default() });
    let write = pair.write(1, 0);
    let sge = pair.nodes[0].sge(0, 14 * MTU);
    pair.post(0, 1, write, &[sge]);
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    let start = take(endpoint, now, 64).unwrap().2;
    // The first of a run has left in any case.
    endpoint.poll_transmit(now, 4).unwrap().sent_only(0);
    assert_eq!(endpoint.stats().sent_pkts, 2);
    let run = endpoint.poll_transmit(now, 4).unwrap();
    assert_eq!(run.header().bth.psn, start.plus(2));
    run.sent_only(9);
    assert_eq!(endpoint.stats().sent_pkts, 6);
    let run = endpoint.poll_transmit(now, 4).unwrap();
    assert_eq!(run.header().bth.psn, start.plus(6));
    run.faulted(9);
    assert_eq!(endpoint.stats().sent_pkts, 10);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::LocalProtection)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a run was dropped")]
fn a_run_that_is_dropped_is_noticed_at_the_next() {
    let mut pair = connected(Config::default());
    let write = pair.write(1, 0);
    let sge = pair.nodes[0].sge(0, 100);
    pair.post(0, 1, write, &[sge]);
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    assert!(endpoint.poll_transmit(now, 1).is_some());
    let _ = endpoint.poll_transmit(now, 1);
}

#[test]
fn after_a_loss_trains_are_short_without_a_controller_too() {
    let mut pair = connected(Config::default());
    let mut number = 0;
    pair.rule(move |packet| {
        number += u32::from(packet.from == 0);
        if packet.from == 0 && number == 3 { Verdict::Drop } else { Verdict::Deliver }
    });
    for expected in [64, 8] {
        let write = pair.write(1, 0);
        let sge = pair.nodes[0].sge(0, 10 * MTU);
        pair.post(0, 1, write, &[sge]);
        let run = pair.nodes[0].endpoint.poll_transmit(pair.now, 1).unwrap();
        assert_eq!(run.train_packets(), expected);
        run.sent_only(0);
        pair.drive();
        assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    }
}
