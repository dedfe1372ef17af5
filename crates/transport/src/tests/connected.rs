//! Every operation of RC and UC, over a link that loses nothing.

use rdma::completion::Attached;
use rdma::{
    CompletionOpcode, CompletionStatus, Operation, QpState, QpType, SendFlags, Span, Time,
    WorkRequest,
};
use std::vec;
use std::vec::Vec;

use super::{only, statuses, take_one};
use crate::limits::PACKET_OVERHEAD_BYTES;
use crate::testing::{Pair, TestMemory, Verdict, Wire};
use crate::{Config, Event, Flight, Notify, PostError, Pressure, QpChange};

const KINDS: [QpType; 2] = [QpType::Rc, QpType::Uc];
/// Around nothing, a word, and one and two packets of 1024.
const LENGTHS: [usize; 11] = [0, 1, 3, 4, 1023, 1024, 1025, 2047, 2048, 2049, 100_000];

#[test]
fn sends_of_every_length_arrive_whole() {
    for kind in KINDS {
        for length in LENGTHS {
            let mut pair = Pair::connected(kind);
            pair.nodes[0].fill(0, length, 7);
            let expected = pair.nodes[0].bytes(0, length);
            let (from, to) = (pair.nodes[0].sge(0, length as u32), pair.nodes[1].sge(64, 1 << 20));
            pair.post_recv(1, 2, &[to]);
            pair.post(0, 1, Pair::send(), &[from]);
            pair.drive();
            let sent = only(&mut pair.nodes[0]);
            assert_eq!(
                (sent.id, sent.status, sent.opcode),
                (1, CompletionStatus::Success, CompletionOpcode::Send)
            );
            let received = only(&mut pair.nodes[1]);
            assert_eq!((received.id, received.status), (2, CompletionStatus::Success));
            assert_eq!(
                (received.opcode, received.byte_len as usize),
                (CompletionOpcode::Recv, length)
            );
            assert_eq!(received.attached, Attached::None);
            assert_eq!(pair.nodes[1].bytes(64, length), expected, "{kind:?} {length}");
            assert_eq!(pair.nodes[1].bytes(64 + length as u64, 8), [0; 8], "nothing beyond it");
        }
    }
}

#[test]
fn writes_of_every_length_arrive_whole_without_a_receive() {
    for kind in KINDS {
        for length in LENGTHS {
            let mut pair = Pair::connected(kind);
            pair.nodes[0].fill(0, length, 9);
            let expected = pair.nodes[0].bytes(0, length);
            let from = pair.nodes[0].sge(0, length as u32);
            pair.post(0, 1, pair.write(1, 128), &[from]);
            pair.drive();
            assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
            assert_eq!(statuses(&mut pair.nodes[1]), []);
            assert_eq!(pair.nodes[1].bytes(128, length), expected, "{kind:?} {length}");
        }
    }
}

#[test]
fn reads_of_every_length_arrive_whole() {
    for length in LENGTHS.into_iter().chain([300_000, 1 << 22]) {
        let mut pair = Pair::connected(QpType::Rc);
        pair.nodes[1].fill(32, length, 3);
        let expected = pair.nodes[1].bytes(32, length);
        let to = pair.nodes[0].sge(0, length as u32);
        pair.post(0, 1, pair.read(1, 32), &[to]);
        pair.drive();
        let read = only(&mut pair.nodes[0]);
        assert_eq!((read.status, read.opcode), (CompletionStatus::Success, CompletionOpcode::Read));
        assert_eq!(read.byte_len as usize, length);
        assert_eq!(pair.nodes[0].bytes(0, length), expected, "{length}");
        assert_eq!(pair.nodes[0].endpoint.stats().retransmitted_pkts, 0);
    }
}

#[test]
fn a_long_read_is_asked_for_in_pieces_that_respect_the_window() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    let to = pair.nodes[0].sge(0, 1 << 20);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    let asked: Vec<u32> =
        pair.sent.iter().filter_map(|packet| packet.header.reth.map(|reth| reth.length)).collect();
    assert_eq!(asked, vec![128 << 10; 8]);

    let endless =
        Config { read_chunk_bytes: u32::MAX, window_bytes: u64::MAX, ..Config::default() };
    let mut pair = Pair::new(endless);
    pair.connect(QpType::Rc, [None, None], |_| {});
    pair.record();
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(pair.sent.iter().filter(|packet| packet.header.reth.is_some()).count(), 1);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
}

#[test]
fn immediate_data_consumes_a_receive_and_arrives_in_its_completion() {
    for kind in KINDS {
        for (length, is_write) in [(0, false), (5000, false), (0, true), (5000, true)] {
            let mut pair = Pair::connected(kind);
            let (from, to) = (pair.nodes[0].sge(0, length), pair.nodes[1].sge(0, 8192));
            let immediate = Some([0xde, 0xad, 0xbe, 0xef]);
            let operation = if is_write {
                let Operation::Write { remote_address, r_key, .. } = pair.write(1, 0) else {
                    unreachable!()
                };
                Operation::Write { remote_address, r_key, immediate }
            } else {
                Operation::Send { immediate, address: None }
            };
            pair.post_recv(1, 2, &[to]);
            pair.post(0, 1, operation, &[from]);
            pair.drive();
            let received = only(&mut pair.nodes[1]);
            let opcode = if is_write {
                CompletionOpcode::RecvWriteImmediate
            } else {
                CompletionOpcode::Recv
            };
            assert_eq!((received.id, received.opcode, received.byte_len), (2, opcode, length));
            assert_eq!(received.attached, Attached::Immediate([0xde, 0xad, 0xbe, 0xef]));
        }
    }
}

#[test]
fn atomics_change_the_word_and_return_what_it_was() {
    let mut pair = Pair::connected(QpType::Rc);
    let word = TestMemory::BASE + 64;
    pair.nodes[1].memory.at(word, 8).copy_from_slice(&40_u64.to_ne_bytes());
    let (remote_address, r_key) = (word, pair.nodes[1].key);
    let operations = [
        Operation::FetchAdd { remote_address, r_key, add: 2 },
        Operation::CompareSwap { remote_address, r_key, compare: 42, swap: 7 },
        Operation::CompareSwap { remote_address, r_key, compare: 42, swap: 8 },
    ];
    for (index, operation) in operations.into_iter().enumerate() {
        let to = pair.nodes[0].sge(8 * index as u64, 8);
        pair.post(0, index as u64, operation, &[to]);
    }
    pair.drive();
    let originals: Vec<u64> = pair.nodes[0]
        .bytes(0, 24)
        .chunks(8)
        .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap()))
        .collect();
    assert_eq!(originals, [40, 42, 7]);
    assert_eq!(pair.nodes[1].bytes(64, 8), 7_u64.to_ne_bytes());
    let opcodes: Vec<_> = pair.nodes[0].completions().iter().map(|c| c.opcode).collect();
    assert_eq!(
        opcodes,
        [CompletionOpcode::FetchAdd, CompletionOpcode::CompareSwap, CompletionOpcode::CompareSwap]
    );
}

#[test]
fn lists_are_gathered_and_scattered_piece_by_piece() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.nodes[0].fill(0, 6000, 1);
    let from = [
        pair.nodes[0].sge(0, 1),
        pair.nodes[0].sge(1000, 0),
        pair.nodes[0].sge(2, 3000),
        pair.nodes[0].sge(5000, 999),
    ];
    let to =
        [pair.nodes[1].sge(0, 1500), pair.nodes[1].sge(2000, 7), pair.nodes[1].sge(3000, 5000)];
    let mut expected = pair.nodes[0].bytes(0, 1);
    expected.extend(pair.nodes[0].bytes(2, 3000));
    expected.extend(pair.nodes[0].bytes(5000, 999));
    pair.post_recv(1, 2, &to);
    pair.post(0, 1, Pair::send(), &from);
    pair.drive();
    let mut received = pair.nodes[1].bytes(0, 1500);
    received.extend(pair.nodes[1].bytes(2000, 7));
    received.extend(pair.nodes[1].bytes(3000, 4000 - 1507));
    assert_eq!(received, expected);
}

#[test]
fn inline_data_needs_no_key_and_is_taken_at_once() {
    let mut pair = Pair::connected(QpType::Rc);
    let node = &mut pair.nodes[0];
    let mut data = *b"taken before the post returns";
    let request = WorkRequest {
        id: 1,
        operation: Pair::send(),
        flags: SendFlags::INLINE | SendFlags::SIGNALED,
        sges: &[],
        inline: Some(&data),
    };
    node.endpoint.post_send(pair.now, node.qpn, &request).unwrap();
    data.fill(0);
    let to = pair.nodes[1].sge(0, 64);
    pair.post_recv(1, 2, &[to]);
    pair.drive();
    assert_eq!(pair.nodes[1].bytes(0, 29), *b"taken before the post returns");
    let too_long = [0; 257];
    let node = &mut pair.nodes[0];
    let flags = SendFlags::INLINE;
    let operation = Pair::send();
    let request = WorkRequest { id: 2, operation, flags, sges: &[], inline: Some(&too_long) };
    assert_eq!(
        node.endpoint.post_send(pair.now, node.qpn, &request),
        Err(PostError::InlineTooLong)
    );
}

#[test]
fn only_signalled_requests_complete_visibly_and_in_order() {
    let mut pair = Pair::connected(QpType::Rc);
    let from = pair.nodes[0].sge(0, 100);
    for id in 0..10 {
        let flags = if id % 3 == 0 { SendFlags::SIGNALED } else { SendFlags::NONE };
        let operation = pair.write(1, 0);
        pair.try_post(0, id, operation, &[from], flags).unwrap();
    }
    pair.drive();
    let ids: Vec<u64> = pair.nodes[0].completions().iter().map(|c| c.id).collect();
    assert_eq!(ids, [0, 3, 6, 9]);
    assert!(pair.nodes[0].endpoint.query_qp(pair.nodes[0].qpn).is_some());
}

#[test]
fn a_fenced_request_waits_for_the_read_before_it() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.nodes[1].fill(0, 8, 0x55);
    let to = pair.nodes[0].sge(0, 8);
    // What the READ brings is what the fenced WRITE carries on.
    let operations = [(pair.read(1, 0), SendFlags::NONE), (pair.write(1, 64), SendFlags::FENCE)];
    for (operation, flags) in operations {
        pair.try_post(0, 1, operation, &[to], flags).unwrap();
    }
    pair.drive();
    let expected = pair.nodes[1].bytes(0, 8);
    assert_eq!(pair.nodes[1].bytes(64, 8), expected);
    assert_ne!(expected, [0; 8]);
}

#[test]
fn no_more_reads_are_outstanding_than_agreed() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    let to = pair.nodes[0].sge(0, 8);
    for id in 0..20 {
        let operation = pair.read(1, 0);
        pair.post(0, id, operation, &[to]);
    }
    pair.drive();
    assert_eq!(pair.nodes[0].completions().len(), 20);
    let (mut outstanding, mut most) = (0_i32, 0);
    for packet in &pair.sent {
        outstanding += if packet.from == 0 { 1 } else { -1 };
        most = most.max(outstanding);
    }
    assert_eq!(most, 4);
}

#[test]
fn acknowledgements_coalesce_over_a_batch() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    let from = pair.nodes[0].sge(0, 8);
    for id in 0..100 {
        let operation = pair.write(1, 0);
        pair.post(0, id, operation, &[from]);
    }
    pair.drive();
    assert_eq!(pair.nodes[0].completions().len(), 100);
    assert_eq!(pair.sent.iter().filter(|packet| packet.from == 1).count(), 1);
}

#[test]
fn a_window_keeps_bytes_in_flight_down() {
    let config = Config { window_bytes: 64 << 10, ..Config::default() };
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], |_| {});
    pair.record();
    let from = pair.nodes[0].sge(0, 1 << 20);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    let (mut in_flight, mut most) = (0_usize, 0);
    for packet in &pair.sent {
        in_flight = if packet.from == 0 { in_flight + packet.bytes.len() } else { 0 };
        most = most.max(in_flight);
    }
    assert!(most <= 64 << 10, "{most} bytes in flight");
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0, "never waits for a timer");
}

#[test]
fn a_window_that_was_full_is_refilled_in_large_pieces() {
    let runs = |refill_bytes| {
        let config = Config {
            window_bytes: 64 << 10,
            refill_bytes,
            ack_interval_packets: 1,
            coalesce_acks: false,
            ..Config::default()
        };
        let mut pair = Pair::new(config);
        pair.connect(QpType::Rc, [None, None], |_| {});
        // One after the other, as on a slow link.
        let mut free = Time::ZERO;
        pair.rule(move |packet| {
            free = free.max(packet.at) + Span::from_us(1);
            if packet.from == 0 { Verdict::Delay(free.since(packet.at)) } else { Verdict::Deliver }
        });
        pair.record();
        let from = pair.nodes[0].sge(0, 1 << 20);
        pair.post(0, 1, pair.write(1, 0), &[from]);
        pair.drive();
        assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
        assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
        let requests: Vec<&Wire> = pair.sent.iter().filter(|packet| packet.from == 0).collect();
        requests.chunk_by(|one, next| one.at == next.at).map(<[_]>::len).collect::<Vec<_>>()
    };
    // The window holds 51 packets of 1,024 bytes and their overhead.
    assert!(runs(0)[1..].iter().all(|run| *run == 1));
    // Half of it is 26, however much more is asked for.
    for refill in [32 << 10, u64::MAX] {
        assert_eq!(runs(refill)[..4], [51, 26, 26, 26], "{refill}");
    }
}

#[test]
fn a_solicited_event_is_raised_by_solicited_completions_only() {
    let mut pair = Pair::connected(QpType::Rc);
    let (from, to) = (pair.nodes[0].sge(0, 8), pair.nodes[1].sge(0, 8));
    let cq = pair.nodes[1].cq;
    pair.nodes[1].endpoint.arm_cq(cq, Notify::Solicited).unwrap();
    pair.post_recv(1, 1, &[to]);
    pair.post_recv(1, 2, &[to]);
    pair.post(0, 1, Pair::send(), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].events, []);
    let flags = SendFlags::SIGNALED | SendFlags::SOLICITED;
    pair.try_post(0, 2, Pair::send(), &[from], flags).unwrap();
    pair.drive();
    assert_eq!(pair.nodes[1].events, [Event::CompletionNotify(cq)]);
}

#[test]
fn a_completion_that_came_before_the_event_was_asked_for_is_told_of_at_once() {
    let mut pair = Pair::connected(QpType::Rc);
    let (from, to) = (pair.nodes[0].sge(0, 8), pair.nodes[1].sge(0, 8));
    let cq = pair.nodes[1].cq;
    let arrive = |pair: &mut Pair, flags| {
        pair.post_recv(1, 1, &[to]);
        pair.try_post(0, 1, Pair::send(), &[from], SendFlags::SIGNALED | flags).unwrap();
        pair.drive();
    };
    let asked = |pair: &mut Pair, notify| {
        pair.nodes[1].endpoint.arm_cq(cq, notify).unwrap();
        pair.drive();
        core::mem::take(&mut pair.nodes[1].events)
    };
    let told = [Event::CompletionNotify(cq)];
    // An event for the one, which tells of all that is there. It is not asked for by that.
    arrive(&mut pair, SendFlags::NONE);
    assert_eq!(asked(&mut pair, Notify::Next), told);
    arrive(&mut pair, SendFlags::NONE);
    assert_eq!(pair.nodes[1].events, []);
    // Whoever asks for solicited ones is not told of others, but is asking still.
    assert_eq!(asked(&mut pair, Notify::Solicited), []);
    arrive(&mut pair, SendFlags::SOLICITED);
    assert_eq!(core::mem::take(&mut pair.nodes[1].events), told);
    // What was told of, or fetched, is not told of again.
    assert_eq!(asked(&mut pair, Notify::Next), []);
    arrive(&mut pair, SendFlags::NONE);
    assert_eq!(core::mem::take(&mut pair.nodes[1].events), told);
    arrive(&mut pair, SendFlags::SOLICITED);
    assert_eq!(statuses(&mut pair.nodes[1]).len(), 5);
    assert_eq!(asked(&mut pair, Notify::Solicited), []);
    arrive(&mut pair, SendFlags::SOLICITED);
    assert_eq!(pair.nodes[1].events, told);
}

#[test]
fn a_transport_refuses_what_it_does_not_have() {
    let mut pair = Pair::connected(QpType::Uc);
    let to = pair.nodes[0].sge(0, 8);
    let (remote_address, r_key) = (TestMemory::BASE, pair.nodes[1].key);
    let operations = [
        pair.read(1, 0),
        Operation::FetchAdd { remote_address, r_key, add: 1 },
        Operation::CompareSwap { remote_address, r_key, compare: 1, swap: 1 },
    ];
    for operation in operations {
        let result = pair.try_post(0, 1, operation, &[to], SendFlags::NONE);
        assert_eq!(result, Err(PostError::Opcode));
    }
}

#[test]
fn both_sides_may_send_at_once() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.latency = Span::from_us(5);
    for index in [0, 1] {
        let to = pair.nodes[index].sge(1 << 20, 1 << 16);
        for id in 0..50 {
            pair.post_recv(index, 1000 + id, &[to]);
        }
    }
    for id in 0..50 {
        for index in [0, 1] {
            let from = pair.nodes[index].sge(0, 10_000);
            pair.post(index, id, Pair::send(), &[from]);
        }
    }
    pair.drive();
    for node in &mut pair.nodes {
        let completions = node.completions();
        assert_eq!(completions.len(), 100);
        assert!(completions.iter().all(|c| c.status == CompletionStatus::Success));
        assert_eq!(node.endpoint.stats().retransmitted_pkts, 0);
    }
}

#[test]
fn every_packet_has_an_acknowledgement_of_its_own_where_they_do_not_coalesce() {
    // One that no longer fits among those that wait takes the place of the last, and none is lost.
    for (coalesce_acks, packets, acknowledgements) in
        [(false, 20, 20), (true, 20, 1), (false, 900, 512)]
    {
        let config = Config {
            coalesce_acks,
            ack_interval_packets: 1,
            window_bytes: u64::MAX,
            ..Config::default()
        };
        let mut pair = Pair::new(config);
        pair.connect(QpType::Rc, [None, None], |_| {});
        let from = pair.nodes[0].sge(0, packets * 1024);
        pair.post(0, 1, pair.write(1, 0), &[from]);
        pair.drive();
        assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
        assert_eq!(pair.nodes[1].endpoint.stats().acks_sent, acknowledgements);
        assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
    }
}

#[test]
fn the_acknowledgement_of_a_message_that_is_answered_travels_behind_the_answer() {
    // Behind the last packet of 1024 bytes; behind the first where the answer is long.
    for (length, behind) in [(8, 1), (5_000, 5), (100_000, 1)] {
        let config = Config { ack_delay: Span::from_us(30), ..Config::default() };
        let mut pair = Pair::new(config);
        pair.connect(QpType::Rc, [None, None], |_| {});
        pair.record();
        let sges = [pair.nodes[0].sge(0, length), pair.nodes[1].sge(0, length)];
        let play = |pair: &mut Pair, rounds: u64| {
            for id in 0..rounds {
                for index in [0, 1] {
                    let operation = pair.write(1 - index, 1 << 20);
                    pair.post(index, id, operation, &[sges[index]]);
                    // The other side sees it, and answers, after a latency and a little more.
                    pair.drive_for(Span::from_us(2));
                }
            }
        };
        play(&mut pair, 4);
        pair.sent.clear();
        play(&mut pair, 10);
        let is_ack = |packet: &&Wire| packet.header.aeth.is_some();
        let acks: Vec<_> = pair.sent.iter().filter(is_ack).collect();
        assert_eq!(acks.len(), 20, "of messages of {length}");
        for ack in &acks[1..] {
            let before = pair.sent.iter().rev().filter(|packet| packet.index < ack.index);
            let before: Vec<_> = before.take_while(|packet| packet.at == ack.at).collect();
            assert!(before.iter().all(|packet| packet.from == ack.from));
            assert_eq!(before.len(), behind, "packets of {length} bytes before it");
        }
        // The last one is not answered, and is acknowledged all the same.
        pair.drive();
        assert_eq!(pair.nodes[1].completions().len(), 14);
        assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
    }
}

#[test]
fn an_acknowledgement_does_not_wait_for_an_answer_that_waits_for_room() {
    let config = Config {
        ack_delay: Span::from_us(30),
        window_bytes: 4 * (1024 + PACKET_OVERHEAD_BYTES),
        ..Config::default()
    };
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], |_| {});
    pair.record();
    let sges = [pair.nodes[0].sge(0, 8), pair.nodes[1].sge(0, 8)];
    for id in 0..5 {
        for index in [0, 1] {
            let operation = pair.write(1 - index, 1 << 20);
            pair.post(index, id, operation, &[sges[index]]);
            pair.drive_for(Span::from_us(2));
        }
    }
    // The answer has more packets than there is room for.
    let (operation, sge) = (pair.write(1, 1 << 20), pair.nodes[0].sge(0, 6_000));
    pair.sent.clear();
    pair.post(0, 9, operation, &[sge]);
    pair.drive_for(Span::from_us(2));
    let own = pair.sent.iter().filter(|packet| packet.from == 0);
    let kinds: Vec<bool> = own.map(|packet| packet.header.aeth.is_some()).collect();
    assert_eq!(kinds[..5], [false, false, false, false, true]);
    assert_eq!(pair.sent[4].at, pair.sent[0].at);
    pair.drive();
    assert_eq!(pair.nodes[0].completions().len(), 6);
}

#[test]
fn an_acknowledgement_that_waits_is_not_lost_with_its_queue_pair() {
    for end in ["destroy", "error", "reset", "close"] {
        let config = Config { ack_delay: Span::from_us(30), ..Config::default() };
        let mut pair = Pair::new(config);
        pair.connect(QpType::Rc, [None, None], |_| {});
        let sges = [pair.nodes[0].sge(0, 8), pair.nodes[1].sge(0, 8)];
        for id in 0..5 {
            for index in [0, 1] {
                let operation = pair.write(1 - index, 64);
                pair.post(index, id, operation, &[sges[index]]);
                pair.drive_for(Span::from_us(2));
            }
        }
        // The last message of node 1 has arrived, and node 0 answers no more.
        let node = &mut pair.nodes[0];
        let qpn = node.qpn;
        match end {
            "destroy" => node.endpoint.destroy_qp(qpn).unwrap(),
            "error" => node.endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap(),
            "reset" => node.endpoint.modify_qp(qpn, &QpChange::to(QpState::Reset)).unwrap(),
            _ => node.endpoint.release_acknowledgements(),
        }
        pair.drive();
        let ended: Vec<_> = statuses(&mut pair.nodes[1]);
        assert_eq!(ended, [0, 1, 2, 3, 4].map(|id| (id, CompletionStatus::Success)), "{end}");
        assert_eq!(pair.nodes[1].endpoint.stats().local_ack_timeout_err, 0, "{end}");
    }
}

#[test]
fn an_atomic_write_is_done_once_and_answered_again() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    // The first answer is lost.
    pair.rule(|packet| if packet.index == 1 { Verdict::Drop } else { Verdict::Deliver });
    let (remote_address, r_key) = (TestMemory::BASE + 64, pair.nodes[1].key);
    let bytes = *b"one word";
    pair.post(0, 1, Operation::AtomicWrite { remote_address, r_key, bytes }, &[]);
    pair.drive();
    let done = only(&mut pair.nodes[0]);
    assert_eq!(
        (done.status, done.opcode),
        (CompletionStatus::Success, CompletionOpcode::AtomicWrite)
    );
    assert_eq!(pair.nodes[1].bytes(64, 8), bytes);
    assert_eq!(pair.nodes[1].endpoint.stats().rx_atomic_requests, 1);
    let codes: Vec<u8> = pair.sent.iter().map(|packet| packet.header.bth.opcode.code()).collect();
    assert_eq!(codes, [0x1d, 0x10, 0x1d, 0x10], "answered by READ responses without data");
    let unaligned = Operation::AtomicWrite { remote_address: remote_address + 4, r_key, bytes };
    pair.post(0, 2, unaligned, &[]);
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::RemoteInvalidRequest);
}

#[test]
fn an_atomic_write_takes_its_word_from_pieces_or_inline_data_of_eight_bytes() {
    let mut pair = Pair::connected(QpType::Rc);
    let (remote_address, r_key) = (TestMemory::BASE + 64, pair.nodes[1].key);
    let operation = Operation::AtomicWrite { remote_address, r_key, bytes: [0; 8] };
    pair.nodes[0].fill(0, 8, 5);
    let expected = pair.nodes[0].bytes(0, 8);
    let halves = [pair.nodes[0].sge(0, 4), pair.nodes[0].sge(4, 4)];
    pair.post(0, 1, operation, &halves);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[1].bytes(64, 8), expected);

    let node = &mut pair.nodes[0];
    let mut post = |inline| {
        let flags = SendFlags::SIGNALED;
        let request = WorkRequest { id: 2, operation, flags, sges: &[], inline };
        node.endpoint.post_send(pair.now, node.qpn, &request)
    };
    assert_eq!(post(Some(b"too long!".as_slice())), Err(PostError::Opcode));
    assert_eq!(post(Some(b"the word".as_slice())), Ok(()));
    pair.drive();
    assert_eq!(pair.nodes[1].bytes(64, 8), b"the word");
}

#[test]
fn a_completion_carries_the_time_at_which_it_came_about() {
    let mut pair = Pair::connected(QpType::Rc);
    let begun = pair.now;
    let (from, to) = (pair.nodes[0].sge(0, 8), pair.nodes[1].sge(64, 8));
    pair.post_recv(1, 2, &[to]);
    pair.post(0, 1, Pair::send(), &[from]);
    pair.drive();
    // Later than that, it is fetched.
    pair.drive_for(Span::from_ms(5));
    let [sent, received] = [0, 1].map(|index: usize| {
        let node = &mut pair.nodes[index];
        node.endpoint.poll_cq_timed(node.cq).unwrap().1
    });
    assert_eq!(received, begun + pair.latency, "when the message came");
    assert_eq!(sent, begun + pair.latency + pair.latency, "when its acknowledgement came");
}

#[test]
fn pressure_is_of_all_queue_pairs_and_ends_when_all_is_taken_out() {
    let mut pair = Pair::connected(QpType::Rc);
    let first = pair.nodes[0].qpn;
    let (write, piece) = (pair.write(1, 0), pair.nodes[0].sge(0, 100));
    pair.post(0, 1, write, &[piece]);
    pair.connect(QpType::Rc, [None, None], |_| {});
    pair.post(0, 2, write, &[piece]);
    pair.post(0, 3, write, &[piece]);
    let second = pair.nodes[0].qpn;
    pair.connect(QpType::Rc, [None, None], |_| {});
    let idle = pair.nodes[0].qpn;

    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    let posted = Pressure { waiting: 3, waiting_bytes: 300, ..Pressure::default() };
    for qpn in [first, second, idle].map(Some).into_iter().chain([None]) {
        assert_eq!(endpoint.pressure(qpn), posted);
    }
    while take_one(endpoint, now).is_some() {}
    let flight =
        |requests, answer_due_since| Flight { requests, answer_due_since, is_window_full: false };
    for (qpn, own) in [
        (Some(first), flight(1, Some(now))),
        (Some(second), flight(2, Some(now))),
        (Some(idle), Flight::default()),
        (None, Flight::default()),
    ] {
        // The second was the last to ask.
        let last = flight(2, Some(now));
        let sent = Pressure { waiting: 0, waiting_bytes: 0, own, last };
        assert_eq!(endpoint.pressure(qpn), sent);
    }
}

#[test]
fn a_window_that_is_full_is_said_to_be_until_an_acknowledgement_frees_it() {
    let mut pair = Pair::new(Config { window_bytes: 3_000, ..Config::default() });
    pair.connect(QpType::Rc, [None, None], |_| {});
    let (write, piece) = (pair.write(1, 0), pair.nodes[0].sge(0, 5_000));
    pair.post(0, 1, write, &[piece]);
    let is_full = |pair: &Pair| pair.nodes[0].endpoint.pressure(None).last.is_window_full;
    assert!(!is_full(&pair));
    pair.drive_for(Span::from_ns(1));
    assert!(is_full(&pair));
    pair.drive();
    assert!(!is_full(&pair));
}

#[test]
fn without_a_window_one_packet_is_under_way_at_a_time() {
    let mut pair = Pair::new(Config { window_bytes: 0, ..Config::default() });
    pair.connect(QpType::Rc, [None, None], |_| {});
    let (write, piece) = (pair.write(1, 0), pair.nodes[0].sge(0, 5_000));
    pair.post(0, 1, write, &[piece]);
    let (now, endpoint) = (pair.now, &mut pair.nodes[0].endpoint);
    assert!(take_one(endpoint, now).is_some());
    assert!(take_one(endpoint, now).is_none());
}

#[test]
fn what_may_still_be_on_its_way_is_not_taken_for_lost() {
    let mut pair = Pair::connected(QpType::Rc);
    let (write, piece) = (pair.write(1, 0), pair.nodes[0].sge(0, 100));
    pair.post(0, 1, write, &[piece]);
    let (now, peer) = (pair.now, pair.nodes[1].qpn);
    let endpoint = &mut pair.nodes[0].endpoint;
    while take_one(endpoint, now).is_some() {}
    let timeout = endpoint.poll_timeout().unwrap();
    let mut asked = Vec::new();
    endpoint.handle_timeout_but(timeout, |_, qpn, is_first| {
        asked.push((qpn, is_first));
        true
    });
    assert!(endpoint.poll_transmit(timeout, 1).is_none());
    assert_eq!(endpoint.stats().local_ack_timeout_err, 0);
    // The timer has begun anew, and this time it is lost.
    let again = endpoint.poll_timeout().unwrap();
    assert_eq!(again.since(timeout), timeout.since(now));
    endpoint.handle_timeout_but(again, |_, qpn, is_first| {
        asked.push((qpn, is_first));
        false
    });
    assert_eq!(asked, [(peer, true), (peer, false)]);
    assert!(take_one(endpoint, again).is_some());
    assert_eq!(endpoint.stats().local_ack_timeout_err, 1);
}

#[test]
fn a_timeout_that_takes_packets_for_lost_says_so_before() {
    let mut pair = Pair::connected(QpType::Rc);
    let (write, piece) = (pair.write(1, 0), pair.nodes[0].sge(0, 100));
    pair.post(0, 1, write, &[piece]);
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    while take_one(endpoint, now).is_some() {}
    assert!(!endpoint.is_loss_due(now));
    let timeout = endpoint.poll_timeout().unwrap();
    assert!(endpoint.is_loss_due(timeout));
    endpoint.handle_timeout(timeout);
    assert!(!endpoint.is_loss_due(timeout), "it has been taken for lost");
}
