//! Selective repeat: gaps, what is said of them, bounds, and peers that lie.

use rdma::{CompletionStatus, Key, Operation, Psn, QpState, QpType, Span, Time};
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;
use wire::{Opcode, aeth, roce, saeth};

use super::{only, statuses, write};
use crate::limits::{OUT_OF_ORDER_BYTES_MAX, OUT_OF_ORDER_PACKETS_MAX};
use crate::testing::{Pair, TestMemory, Verdict, Wire};
use crate::{Arrival, Config, ModifyError, OutOfOrder, QpChange, Recovery};

const SUCCESS: CompletionStatus = CompletionStatus::Success;

fn config() -> Config {
    Config { recovery: Recovery::SelectiveRepeat, ..Config::default() }
}

/// What an application agrees on.
fn agree(change: &mut QpChange) {
    if change.state == Some(QpState::Rtr) {
        change.selective_repeat = Some(true);
    }
}

fn connected(config: Config) -> Pair {
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], agree);
    pair.record();
    pair
}

/// Loses the packets with these indices.
fn lose(pair: &mut Pair, lost: &'static [u64]) {
    pair.rule(
        move |packet| {
            if lost.contains(&packet.index) { Verdict::Drop } else { Verdict::Deliver }
        },
    );
}

/// Retransmissions and timeouts of node 0.
fn repeats(pair: &Pair) -> (u64, u64) {
    let stats = pair.nodes[0].endpoint.stats();
    (stats.retransmitted_pkts, stats.local_ack_timeout_err)
}

/// What the selective acknowledgements of node 1 have said: how far from the first PSN of node 0
/// the missing packet is, and the ranges.
fn said(pair: &Pair) -> Vec<(u32, Vec<(u16, u16)>)> {
    let first = Psn::new(0xff_fffe);
    let ranges = |selective: saeth::Repr| {
        let some = selective.ranges.into_iter().filter(|range| range.packets > 0);
        some.map(|range| (range.first, range.packets)).collect()
    };
    let answer = |packet: &Wire| {
        let selective = packet.header.selective?;
        Some((packet.header.bth.psn.distance_from(first), ranges(selective)))
    };
    pair.sent.iter().filter_map(answer).collect()
}

fn from_peer(pair: &Pair, to: usize) -> Arrival {
    Arrival {
        source: pair.nodes[1 - to].gid,
        destination: pair.nodes[to].gid,
        traffic_class: 0,
        hop_limit: 64,
    }
}

/// A selective acknowledgement from node 1, as bytes.
fn acknowledgement(pair: &Pair, missing: Psn, ranges: &[(u16, u16)]) -> Vec<u8> {
    let mut header = roce::Repr::new(Opcode::RC_SELECTIVE_ACKNOWLEDGE, pair.nodes[0].qpn, missing);
    let syndrome = aeth::Syndrome::Nak(aeth::NakCode::SequenceError);
    header.aeth = Some(aeth::Repr { syndrome, msn: 0 });
    let mut selective = saeth::Repr::default();
    for (range, &(first, packets)) in selective.ranges.iter_mut().zip(ranges) {
        *range = saeth::Arrived { first, packets };
    }
    header.selective = Some(selective);
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes
}

#[test]
fn a_lost_packet_alone_is_sent_again() {
    let mut pair = connected(config());
    lose(&mut pair, &[3]);
    write(&mut pair, 10_000);
    assert_eq!(repeats(&pair), (1, 0));
    // Packets arrive as one batch, and one acknowledgement speaks of them all.
    assert_eq!(said(&pair), [(3, vec![(1, 6)])]);
}

#[test]
fn each_of_several_gaps_is_filled() {
    let mut pair = connected(config());
    lose(&mut pair, &[0, 4, 5, 9]);
    write(&mut pair, 20_000);
    assert_eq!(repeats(&pair), (4, 0));
    assert_eq!(said(&pair), [(0, vec![(10, 10), (1, 3), (6, 3)])]);
}

/// A queue that is full drops one packet in two. An acknowledgement has room for four ranges.
#[test]
fn more_gaps_than_one_acknowledgement_can_tell_are_told_by_several() {
    let mut pair = connected(config());
    pair.rule(|packet| match (packet.from, packet.index) {
        (0, index) if index < 40 && index % 2 == 1 => Verdict::Drop,
        _ => Verdict::Deliver,
    });
    write(&mut pair, 48 * 1_024);
    assert_eq!(repeats(&pair), (20, 0));
    let said = said(&pair);
    assert_eq!(said[0], (1, vec![(39, 8), (33, 1), (35, 1), (37, 1)]));
    let told = said.iter().take_while(|(missing, _)| *missing == 1);
    let ranges: BTreeSet<_> = told.flat_map(|(_, ranges)| ranges).collect();
    assert_eq!(ranges.len(), 20, "{said:?}");
}

#[test]
fn packets_that_overtake_each_other_are_put_in_order() {
    let mut pair = connected(config());
    pair.rule(|packet| match packet.index % 4 {
        0 if packet.from == 0 => Verdict::Delay(Span::from_ns(300)),
        _ => Verdict::Deliver,
    });
    write(&mut pair, 20_000);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
}

#[test]
fn nothing_is_done_before_its_turn() {
    let mut pair = connected(config());
    lose(&mut pair, &[0]);
    let from = pair.nodes[0].sge(0, 100);
    for id in 0..3 {
        let to = pair.nodes[1].sge(id * 100, 100);
        pair.post_recv(1, id, &[to]);
        pair.post(0, id, Pair::send(), &[from]);
    }
    pair.nodes[0].fill(0, 100, 7);
    pair.drive_for(Span::from_ns(1_500));
    assert_eq!(pair.nodes[1].completions().len(), 0);
    assert_eq!(pair.nodes[1].bytes(0, 300), [0; 300]);
    let query = pair.nodes[1].endpoint.query_qp(pair.nodes[1].qpn).unwrap();
    assert_eq!(query.out_of_order[0], OutOfOrder { packets: 2, bytes: 200 });
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[1]), [(0, SUCCESS), (1, SUCCESS), (2, SUCCESS)]);
    assert_eq!(statuses(&mut pair.nodes[0]), [(0, SUCCESS), (1, SUCCESS), (2, SUCCESS)]);
    assert_eq!(repeats(&pair), (1, 0));
}

#[test]
fn a_lost_read_response_alone_is_asked_for_again() {
    let mut pair = connected(config());
    lose(&mut pair, &[5, 9, 10]);
    pair.nodes[1].fill(0, 20_000, 1);
    let expected = pair.nodes[1].bytes(0, 20_000);
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(0, 20_000), expected);
    let asked: Vec<_> = pair.sent.iter().filter_map(|packet| packet.header.reth).collect();
    let asked: Vec<_> =
        asked.iter().map(|reth| (reth.address - TestMemory::BASE, reth.length)).collect();
    // Packet 0 asks, packet n brings the n-th KiB.
    assert_eq!(asked, [(0, 20_000), (4 << 10, 1 << 10), (8 << 10, 2 << 10)]);
    assert_eq!(repeats(&pair), (2, 0));
    let answers = pair.sent.iter().filter(|packet| packet.from == 1).count();
    assert_eq!(answers, 20 + 3);
}

#[test]
fn a_read_response_that_is_lost_twice_is_missed_by_the_answer_to_a_later_question() {
    let mut pair = connected(Config { window_bytes: 1 << 20, ..config() });
    // The sixth response as often as it comes before the twelfth is missed, and the twelfth once.
    let mut seen = [0; 2];
    pair.rule(move |packet| {
        let first = Psn::new(0xff_fffe);
        let of = match packet.header.bth.psn.distance_from(first) {
            5 if packet.from == 1 => 0,
            60 if packet.from == 1 => 1,
            _ => return Verdict::Deliver,
        };
        seen[of] += 1;
        if seen[of] <= [2, 1][of] { Verdict::Drop } else { Verdict::Deliver }
    });
    pair.nodes[1].fill(0, 100_000, 1);
    let expected = pair.nodes[1].bytes(0, 100_000);
    let to = pair.nodes[0].sge(0, 100_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(0, 100_000), expected);
    assert_eq!(repeats(&pair), (3, 0));
}

#[test]
fn the_end_of_a_read_that_is_lost_is_missed_by_the_next_read() {
    // Each is longer than what may wait for its turn, and nothing else limits how much is asked for.
    const LENGTH: u32 = 2 << 20;
    let unlimited = Config { window_bytes: u64::MAX, read_chunk_bytes: u32::MAX, ..config() };
    let mut pair = connected(unlimited);
    let mut seen = 0;
    pair.rule(move |packet| {
        let psn = Psn::new(0xff_fffe).plus((LENGTH >> 10) - 1);
        let last = packet.from == 1 && packet.header.bth.psn == psn;
        seen += usize::from(last);
        if last && seen == 1 { Verdict::Drop } else { Verdict::Deliver }
    });
    let to = pair.nodes[0].sge(0, LENGTH);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.post(0, 2, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, SUCCESS)]);
    assert_eq!(repeats(&pair), (1, 0));
}

#[test]
fn a_lost_response_to_a_read_that_waited_behind_a_gap_is_asked_for_again() {
    let mut pair = connected(config());
    // The first packet of the WRITE, and of the READ behind it the second response.
    let mut seen = 0;
    pair.rule(move |packet| {
        let second = packet.from == 1 && packet.header.bth.psn == Psn::new(0xff_fffe).plus(4 + 1);
        seen += usize::from(second);
        let lost = packet.index == 0 || second && seen == 1;
        if lost { Verdict::Drop } else { Verdict::Deliver }
    });
    pair.nodes[1].fill(8_000, 4_000, 1);
    let expected = pair.nodes[1].bytes(8_000, 4_000);
    let (from, to) = (pair.nodes[0].sge(0, 4_000), pair.nodes[0].sge(8_000, 4_000));
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.post(0, 2, pair.read(1, 8_000), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(8_000, 4_000), expected);
    assert_eq!(repeats(&pair), (2, 0));
}

#[test]
fn what_follows_a_lost_read_or_atomic_response_is_not_sent_again() {
    let word = TestMemory::BASE + (1 << 20);
    for kind in ["read", "atomic", "atomic write"] {
        let mut pair = connected(config());
        // The first answer.
        let mut answers = 0;
        pair.rule(move |packet| {
            answers += packet.from;
            if packet.from == 1 && answers == 1 { Verdict::Drop } else { Verdict::Deliver }
        });
        let r_key = pair.nodes[1].key;
        let operation = match kind {
            "read" => pair.read(1, 0),
            "atomic" => Operation::FetchAdd { remote_address: word, r_key, add: 3 },
            _ => Operation::AtomicWrite { remote_address: word, r_key, bytes: [9; 8] },
        };
        let (to, from) = (pair.nodes[0].sge(64, 8), pair.nodes[0].sge(0, 5_000));
        let pieces = [to];
        let pieces = if kind == "atomic write" { &[] } else { &pieces[..] };
        pair.post(0, 1, operation, pieces);
        pair.post(0, 2, pair.write(1, 0), &[from]);
        let add = Operation::FetchAdd { remote_address: word + 8, r_key, add: 1 };
        pair.post(0, 3, add, &[to]);
        pair.drive();
        assert_eq!(
            statuses(&mut pair.nodes[0]),
            [(1, SUCCESS), (2, SUCCESS), (3, SUCCESS)],
            "{kind}"
        );
        assert_eq!(repeats(&pair), (1, 0), "{kind}");
        assert_eq!(pair.nodes[1].bytes((1 << 20) + 8, 8), 1_u64.to_ne_bytes(), "{kind}");
        if kind == "atomic" {
            assert_eq!(pair.nodes[1].bytes(1 << 20, 8), 3_u64.to_ne_bytes());
        }
    }
}

#[test]
fn a_retransmission_that_is_lost_is_missed_by_what_was_sent_after_it() {
    let mut pair = connected(Config { window_bytes: 12_000, ..config() });
    // Packet 0, as often as it is sent in the first 5 us.
    pair.rule(|packet| {
        let first = packet.from == 0 && packet.header.bth.psn == Psn::new(0xff_fffe);
        let early = packet.at < Time::ZERO + Span::from_us(3);
        if first && early { Verdict::Drop } else { Verdict::Deliver }
    });
    let from = pair.nodes[0].sge(0, 8_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive_for(Span::from_ns(2_500));
    assert_eq!(repeats(&pair), (1, 0), "sent again, and lost again");
    pair.post(0, 2, pair.write(1, 0), &[pair.nodes[0].sge(0, 1_000)]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, SUCCESS)]);
    assert_eq!(repeats(&pair), (2, 0));
}

#[test]
fn after_a_timeout_nothing_is_believed_that_was_said_of_the_packets_behind_the_gap() {
    let mut pair = connected(config());
    lose(&mut pair, &[2]);
    let from = pair.nodes[0].sge(0, 4_000);
    pair.nodes[0].fill(0, 4_000, 1);
    let expected = pair.nodes[0].bytes(0, 4_000);
    // Four packets, of which the peer says at once that all but the first have arrived: it lies
    // about the third, and its own honest word is lost.
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive_for(Span::from_ns(500));
    pair.rule(|packet| if packet.index == 4 { Verdict::Drop } else { Verdict::Deliver });
    let lie = acknowledgement(&pair, Psn::new(0xff_fffe), &[(1, 3)]);
    let arrival = from_peer(&pair, 0);
    pair.inject(0, &arrival, &lie);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
    assert_eq!(pair.nodes[1].bytes(0, 4_000), expected);
    assert!(repeats(&pair).1 <= 1);
}

#[test]
fn an_acknowledgement_of_packets_that_were_never_sent_changes_nothing() {
    let mut pair = connected(config());
    pair.rule(|_| Verdict::Drop);
    let from = pair.nodes[0].sge(0, 4_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive_for(Span::from_us(5));
    let first = Psn::new(0xff_fffe);
    let arrival = from_peer(&pair, 0);
    let lies = [
        acknowledgement(&pair, first, &[(1, 4)]),
        acknowledgement(&pair, first, &[(1, 1), (0xffff, 0xffff)]),
        acknowledgement(&pair, first, &[(0, 2)]),
        acknowledgement(&pair, first.plus(3), &[(1, 1)]),
        acknowledgement(&pair, first.plus(4), &[]),
        acknowledgement(&pair, first.minus(1), &[(1, 1)]),
    ];
    for (count, lie) in (1..).zip(lies) {
        pair.inject(0, &arrival, &lie);
        let stats = pair.nodes[0].endpoint.stats();
        assert_eq!(stats.drop_unexpected_response, count);
        assert_eq!((stats.rcvd_seq_err, stats.retransmitted_pkts), (0, 0));
    }
    assert!(pair.nodes[0].endpoint.poll_transmit(pair.now, 1).is_none());
    assert_eq!(pair.nodes[0].completions().len(), 0);
}

#[test]
fn what_waits_is_bounded_in_packets() {
    let mut pair = connected(Config { out_of_order_packets: 5, ..config() });
    // The requester itself sends no more than five beyond a gap.
    lose(&mut pair, &[0]);
    let from = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive_for(Span::from_ns(1_500));
    assert_eq!(pair.sent.iter().filter(|packet| packet.from == 0).count(), 5);
    assert_eq!(kept(&pair, 1), [(4, 4 * 1024), (0, 0)]);
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, SUCCESS);
    assert_eq!(kept(&pair, 1), [(0, 0); 2]);
}

/// Packets and bytes.
fn kept(pair: &Pair, node: usize) -> [(usize, usize); 2] {
    let query = pair.nodes[node].endpoint.query_qp(pair.nodes[node].qpn).unwrap();
    query.out_of_order.map(|held| (held.packets, held.bytes))
}

/// WRITE packets of a peer that keeps to no window: `psns` packets after the first PSN.
fn forge(pair: &mut Pair, distance: u32, length: usize) {
    let psn = Psn::new(0xff_fffe).plus(distance);
    let opcode = Opcode::from_code(0x07).unwrap();
    let header = roce::Repr::new(opcode, pair.nodes[1].qpn, psn).padded_for(length as u32);
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes.resize(bytes.len() + length.next_multiple_of(4), 0xee);
    let arrival = from_peer(pair, 1);
    pair.inject(1, &arrival, &bytes);
}

#[test]
fn a_peer_that_keeps_to_no_window_fills_no_memory() {
    let mut pair = connected(config());
    for distance in (1..3_000).chain((1..500).map(|step| step * 16_001)) {
        forge(&mut pair, distance, 10);
        assert!(kept(&pair, 1)[0].0 < 1024);
    }
    assert_eq!(kept(&pair, 1)[0], (1023, 10_230), "the whole window, and no more");
    assert!(pair.nodes[1].endpoint.stats().drop_out_of_order > 1_900);

    let mut pair = connected(Config { out_of_order_bytes: 10_000, ..config() });
    for distance in 1..40 {
        forge(&mut pair, distance, 1_000);
    }
    assert_eq!(kept(&pair, 1)[0], (10, 10_000));
    // The same again takes no room.
    forge(&mut pair, 3, 1_000);
    assert_eq!(kept(&pair, 1)[0], (10, 10_000));
    // What was kept is no message: the first in its turn ends the connection, and frees the rest.
    forge(&mut pair, 0, 1_024);
    assert_eq!(kept(&pair, 1)[0], (0, 0));
    let state = pair.nodes[1].endpoint.query_qp(pair.nodes[1].qpn).unwrap().state;
    assert_eq!(state, QpState::Error);
}

#[test]
fn no_setting_goes_beyond_the_limits() {
    let endless =
        Config { out_of_order_packets: u32::MAX, out_of_order_bytes: usize::MAX, ..config() };
    let mut pair = connected(endless.clone());
    for distance in 1..4_200 {
        forge(&mut pair, distance, 4_096);
    }
    assert_eq!(kept(&pair, 1)[0], (4_096, OUT_OF_ORDER_BYTES_MAX));
    let mut pair = connected(endless);
    for distance in 1..OUT_OF_ORDER_PACKETS_MAX + 10 {
        forge(&mut pair, distance, 4);
    }
    assert_eq!(kept(&pair, 1)[0].0, OUT_OF_ORDER_PACKETS_MAX as usize - 1);
}

#[test]
fn responses_that_wait_are_bounded() {
    let mut pair = connected(Config { out_of_order_bytes: 4_096, ..config() });
    // With what they cost beside their payload, three are asked for; the first does not come.
    lose(&mut pair, &[3]);
    pair.nodes[1].fill(0, 20_000, 1);
    let expected = pair.nodes[1].bytes(0, 20_000);
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive_for(Span::from_ns(2_500));
    assert_eq!(kept(&pair, 0), [(0, 0), (2, 2_048)]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(0, 20_000), expected);
}

#[test]
fn without_an_agreement_everything_is_sent_again() {
    for agreed in [[false, false], [true, false], [false, true]] {
        let mut pair = Pair::new(config());
        for node in &mut pair.nodes {
            node.qpn = node.create_qp(QpType::Rc, None);
        }
        for (index, agreed) in agreed.into_iter().enumerate() {
            pair.bring_up(index, QpType::Rc, &|change: &mut QpChange| {
                if agreed {
                    agree(change);
                }
            });
        }
        pair.record();
        lose(&mut pair, &[3]);
        write(&mut pair, 10_000);
        if agreed[1] {
            // The answer means nothing to a requester that has not agreed: a timeout it is.
            assert_eq!(repeats(&pair).1, 1, "{agreed:?}");
        } else {
            assert_eq!(repeats(&pair), (7, 0), "{agreed:?}");
            assert_eq!(said(&pair), []);
        }
    }
}

#[test]
fn it_is_agreed_between_init_and_rtr_where_the_device_offers_it() {
    let mut pair = Pair::new(config());
    let qpn = pair.nodes[0].create_qp(QpType::Rc, None);
    let agreed = QpChange { selective_repeat: Some(true), ..QpChange::default() };
    let endpoint = &mut pair.nodes[0].endpoint;
    assert_eq!(endpoint.modify_qp(qpn, &agreed), Err(ModifyError::Agreement));

    for (recovery, kind, expected) in [
        (Recovery::SelectiveRepeat, QpType::Rc, Ok(())),
        (Recovery::SelectiveRepeat, QpType::Uc, Err(ModifyError::Unsupported)),
        (Recovery::GoBackN, QpType::Rc, Err(ModifyError::Unsupported)),
        (Recovery::GoBack0, QpType::Rc, Err(ModifyError::Unsupported)),
    ] {
        let mut pair = Pair::new(Config { recovery, ..Config::default() });
        for node in &mut pair.nodes {
            node.qpn = node.create_qp(kind, None);
        }
        let qpn = pair.nodes[0].qpn;
        let init = pair.change(0, kind, QpState::Init, &|_| {});
        let rtr = pair.change(0, kind, QpState::Rtr, &agree);
        let endpoint = &mut pair.nodes[0].endpoint;
        endpoint.modify_qp(qpn, &init).unwrap();
        assert_eq!(endpoint.modify_qp(qpn, &rtr), expected, "{recovery:?} {kind:?}");
        let attributes = endpoint.query_qp(qpn).unwrap().attributes;
        assert_eq!(attributes.selective_repeat, expected.is_ok());
    }
}

#[test]
fn a_message_that_waited_for_its_turn_may_find_no_receive() {
    let mut pair = connected(config());
    lose(&mut pair, &[0]);
    let (from, to) = (pair.nodes[0].sge(0, 100), pair.nodes[1].sge(0, 100));
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.post(0, 2, Pair::send(), &[from]);
    pair.post(0, 3, pair.write(1, 0), &[from]);
    pair.drive_for(Span::from_us(100));
    assert_eq!(pair.nodes[1].endpoint.stats().send_rnr_err, 1);
    assert_eq!(kept(&pair, 1)[0], (0, 0));
    pair.post_recv(1, 9, &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, SUCCESS), (3, SUCCESS)]);
    assert_eq!(statuses(&mut pair.nodes[1]), [(9, SUCCESS)]);
    assert_eq!(repeats(&pair).1, 0, "no timeout");
}

#[test]
fn every_message_survives_a_bad_link() {
    for seed in 0..60_u64 {
        let mut pair = connected(config());
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        pair.rule(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match state % 20 {
                0 => Verdict::Drop,
                1 => Verdict::Duplicate,
                2 => Verdict::Delay(Span::from_us(30)),
                _ => Verdict::Deliver,
            }
        });
        let length = 40_000;
        pair.nodes[0].fill(0, length, seed as u8);
        let expected = pair.nodes[0].bytes(0, length);
        let from = pair.nodes[0].sge(0, length as u32);
        let back = pair.nodes[0].sge(1 << 20, length as u32);
        let to = pair.nodes[1].sge(1 << 20, length as u32);
        for round in 0..5 {
            pair.post_recv(1, round, &[to]);
            pair.post(0, round, Pair::send(), &[from]);
            pair.post(0, round, pair.write(1, 0), &[from]);
            pair.post(0, round, pair.read(1, 0), &[back]);
        }
        pair.drive();
        let sent = statuses(&mut pair.nodes[0]);
        assert!(sent.iter().all(|&(_, status)| status == SUCCESS), "seed {seed}: {sent:?}");
        assert_eq!((sent.len(), pair.nodes[1].completions().len()), (15, 5), "seed {seed}");
        assert_eq!(pair.nodes[1].bytes(0, length), expected, "seed {seed}");
        assert_eq!(pair.nodes[1].bytes(1 << 20, length), expected, "seed {seed}");
        assert_eq!(pair.nodes[0].bytes(1 << 20, length), expected, "seed {seed}");
    }
}

#[test]
fn a_request_that_failed_at_home_is_not_passed_over_when_a_gap_before_it_is_filled() {
    let mut pair = connected(config());
    lose(&mut pair, &[1]);
    let from = pair.nodes[0].sge(0, 5_000);
    let write = pair.write(1, 0);
    pair.post(0, 1, write, &[from]);
    pair.post(0, 2, Operation::LocalInvalidate { r_key: Key(0) }, &[]);
    pair.post(0, 3, write, &[from]);
    pair.drive();
    let (failed, flushed) = (CompletionStatus::WindowBind, CompletionStatus::Flushed);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, failed), (3, flushed)]);
}

/// 50 packets, of which the second and the 31st are lost. Each 16th asks for an acknowledgement, and the last one.
#[test]
fn behind_a_gap_a_responder_answers_what_asks_or_leaves_a_gap_and_not_each_packet() {
    let mut pair = connected(config());
    // One comes after the other, and not all at once.
    pair.rule(|packet| match packet.index {
        1 | 30 => Verdict::Drop,
        index @ 0..50 => Verdict::Delay(Span::from_ns(10 * index)),
        _ => Verdict::Deliver,
    });
    write(&mut pair, 50 * 1024);
    let told: Vec<u16> = said(&pair).iter().map(|(_, ranges)| ranges[0].0 + ranges[0].1).collect();
    // Of the 48 behind a gap: the first behind each, and what asks.
    assert!((4..=6).contains(&told.len()), "{:?}", said(&pair));
    assert!(told.contains(&2) && told.contains(&31), "{told:?}");
    assert_eq!(repeats(&pair), (2, 0));
}

/// The first packet is overtaken by a little, and the fourth is lost.
#[test]
fn when_a_gap_is_filled_the_peer_is_told_of_the_next_one() {
    let mut pair = connected(config());
    pair.rule(|packet| match packet.index {
        0 => Verdict::Delay(Span::from_ps(1)),
        3 => Verdict::Drop,
        _ => Verdict::Deliver,
    });
    write(&mut pair, 5 * 1024);
    assert!(said(&pair).contains(&(3, vec![(1, 1)])), "{:?}", said(&pair));
}
