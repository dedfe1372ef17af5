//! Loss, reordering, duplication, and receivers that are not ready.

use rdma::{CompletionStatus, Operation, QpState, QpType, Qpn, Span, Time};
use std::string::ToString;
use std::vec::Vec;

use super::{only, statuses, take_one};
use crate::testing::{Pair, TestMemory, Verdict};
use crate::{Arrival, Config, Endpoint, QpChange, Recovery};

/// A generator good enough to scatter faults (Steele et al. 2014, "SplitMix").
fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[test]
fn a_lost_packet_is_asked_for_once_and_sent_again_from_there() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    pair.rule(|packet| if packet.index == 3 { Verdict::Drop } else { Verdict::Deliver });
    pair.nodes[0].fill(0, 10_000, 1);
    let expected = pair.nodes[0].bytes(0, 10_000);
    let from = pair.nodes[0].sge(0, 10_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].bytes(0, 10_000), expected);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[1].endpoint.stats().send_seq_err, 1);
    // Ten packets, and seven of them again.
    assert_eq!(pair.nodes[0].endpoint.stats().retransmitted_pkts, 7);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
}

#[test]
fn a_lost_last_packet_is_sent_again_after_the_timeout() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.rule(|packet| if packet.index == 0 { Verdict::Drop } else { Verdict::Deliver });
    let from = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 1);
    // 4.096 us x 2^14 is 67.1 ms.
    let elapsed = pair.now.since(Time::ZERO);
    assert!(elapsed > Span::from_ms(67) && elapsed < Span::from_ms(68), "{elapsed}");
}

#[test]
fn what_waits_to_be_sent_again_is_not_lost_a_second_time() {
    let mut pair = Pair::connected(QpType::Rc);
    let (write, from) = (pair.write(1, 0), pair.nodes[0].sge(0, 8));
    pair.post(0, 1, write, &[from]);
    let mut now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    assert!(take_one(endpoint, now).is_some(), "it is lost");
    now = endpoint.poll_timeout().unwrap();
    endpoint.handle_timeout(now);
    // The driver has no room for it for many times as long as the peer has for an answer.
    while let Some(at) = endpoint.poll_timeout() {
        now = at;
        endpoint.handle_timeout(now);
    }
    assert_eq!(endpoint.stats().local_ack_timeout_err, 1);
    pair.now = now + Span::from_ms(10_000);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 1);
}

#[test]
fn a_lost_acknowledgement_does_not_execute_anything_twice() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.rule(|packet| if packet.index == 1 { Verdict::Drop } else { Verdict::Deliver });
    let word = TestMemory::BASE + 8;
    let (remote_address, r_key) = (word, pair.nodes[1].key);
    let to = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, Operation::FetchAdd { remote_address, r_key, add: 5 }, &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[1].bytes(8, 8), 5_u64.to_ne_bytes());
    assert_eq!(pair.nodes[0].bytes(0, 8), [0; 8]);
    assert_eq!(pair.nodes[1].endpoint.stats().duplicate_request, 1);
}

#[test]
fn a_duplicated_send_takes_one_receive() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.rule(|_| Verdict::Duplicate);
    let (from, to) = (pair.nodes[0].sge(0, 3000), pair.nodes[1].sge(0, 4096));
    pair.post_recv(1, 1, &[to]);
    pair.post_recv(1, 2, &[to]);
    pair.post(0, 1, Pair::send(), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(statuses(&mut pair.nodes[1]), [(1, CompletionStatus::Success)]);
}

#[test]
fn a_lost_read_response_is_asked_for_again_from_there() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    pair.rule(
        |packet| {
            if packet.from == 1 && packet.index == 5 { Verdict::Drop } else { Verdict::Deliver }
        },
    );
    pair.nodes[1].fill(0, 20_000, 1);
    let expected = pair.nodes[1].bytes(0, 20_000);
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(pair.nodes[0].bytes(0, 20_000), expected);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].endpoint.stats().implied_nak_seq_err, 1);
    let asked: Vec<_> = pair.sent.iter().filter_map(|packet| packet.header.reth).collect();
    // Packet 0 asks; responses 1 to 4 arrive, that is 4096 bytes.
    assert_eq!(asked[1].address, TestMemory::BASE + 4096);
    assert_eq!(asked[1].length, 20_000 - 4096);
}

#[test]
fn an_answer_from_before_a_timeout_counts_no_second_retry() {
    let mut pair = Pair::default();
    pair.connect(QpType::Rc, [None, None], |change| {
        change.retry_count = change.retry_count.map(|_| 1);
    });
    // The first answer is lost; that to the second request is on its way when the timer expires.
    pair.rule(|packet| match packet.index {
        1 => Verdict::Drop,
        3 => Verdict::Delay(Span::from_us(100)),
        4.. if packet.from == 1 => Verdict::Delay(Span::from_us(200)),
        _ => Verdict::Deliver,
    });
    let (remote_address, r_key) = (TestMemory::BASE, pair.nodes[1].key);
    let add = Operation::FetchAdd { remote_address, r_key, add: 5 };
    let [first, second] = [0, 8].map(|offset| pair.nodes[0].sge(offset, 8));
    pair.post(0, 1, add, &[first]);
    // Timeout 14 is 67.1 ms.
    pair.drive_for(Span::from_us(67_050));
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
    pair.post(0, 2, add, &[second]);
    pair.drive();
    let success = CompletionStatus::Success;
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, success), (2, success)]);
    let stats = pair.nodes[0].endpoint.stats();
    assert_eq!((stats.local_ack_timeout_err, stats.implied_nak_seq_err), (1, 1));
    assert_eq!(pair.nodes[1].bytes(0, 8), 10_u64.to_ne_bytes());
}

#[test]
fn a_receiver_that_is_not_ready_delays_the_sender() {
    let mut pair = Pair::connected(QpType::Rc);
    let (from, to) = (pair.nodes[0].sge(0, 5000), pair.nodes[1].sge(0, 8192));
    pair.post(0, 1, Pair::send(), &[from]);
    pair.drive_for(Span::from_us(100));
    assert_eq!(pair.nodes[1].endpoint.stats().send_rnr_err, 1);
    pair.post_recv(1, 2, &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(statuses(&mut pair.nodes[1]), [(2, CompletionStatus::Success)]);
    // min_rnr_timer 12 is 640 us.
    let elapsed = pair.now.since(Time::ZERO);
    assert!(elapsed > Span::from_us(640) && elapsed < Span::from_us(660), "{elapsed}");
}

#[test]
fn rnr_retries_are_counted_out() {
    let mut pair = Pair::default();
    pair.connect(QpType::Rc, [None, None], |change| {
        if change.rnr_retry.is_some() {
            change.rnr_retry = Some(2);
        }
    });
    let from = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, Pair::send(), &[from]);
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::RnrRetryExceeded);
    assert_eq!(pair.nodes[1].endpoint.stats().send_rnr_err, 3);
}

/// The first node sends, and its program allows no RNR retry.
fn without_rnr_retries(between_hosts: bool) -> Pair {
    let config = Config { not_ready_grace: Span::from_ms(5), ..Config::default() };
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], |change| {
        if change.rnr_retry.is_some() {
            change.rnr_retry = Some(0);
        }
        if change.path_mtu.is_some() {
            change.between_hosts = Some(between_hosts);
        }
    });
    for id in 0..3 {
        let from = pair.nodes[0].sge(0, 5_000);
        pair.post(0, id, Pair::send(), &[from]);
    }
    pair
}

#[test]
fn a_receive_that_is_posted_soon_is_waited_for_without_retries() {
    let mut pair = without_rnr_retries(false);
    for id in 10..13 {
        pair.drive_for(Span::from_us(900));
        let to = pair.nodes[1].sge(0, 5_000);
        pair.post_recv(1, id, &[to]);
    }
    pair.drive();
    let ok = CompletionStatus::Success;
    assert_eq!(statuses(&mut pair.nodes[0]), [(0, ok), (1, ok), (2, ok)]);
    assert_eq!(statuses(&mut pair.nodes[1]), [(10, ok), (11, ok), (12, ok)]);
    // After 50, 50, 100, 200, 400 and 800 us, or a little more.
    let refused = pair.nodes[1].endpoint.stats().send_rnr_err;
    assert!((10..=18).contains(&refused), "{refused}");
}

#[test]
fn a_receive_that_does_not_come_is_not_waited_for_longer_than_the_grace() {
    let mut pair = without_rnr_retries(false);
    pair.drive_for(Span::from_us(4_900));
    assert_eq!(statuses(&mut pair.nodes[0]), []);
    pair.drive_for(Span::from_us(5_200));
    assert_eq!(statuses(&mut pair.nodes[0])[0], (0, CompletionStatus::RnrRetryExceeded));
    // To a peer on another host of which nothing is known all is as the standard says.
    let mut pair = without_rnr_retries(true);
    pair.drive_for(Span::from_us(100));
    assert_eq!(statuses(&mut pair.nodes[0])[0], (0, CompletionStatus::RnrRetryExceeded));
}

#[test]
fn a_dead_peer_is_given_up_in_the_time_that_the_attributes_say() {
    for (timeout, retry_count) in [(14, 7), (10, 0), (8, 3)] {
        let mut pair = Pair::default();
        pair.connect(QpType::Rc, [None, None], |change| {
            if change.timeout.is_some() {
                change.timeout = Some(timeout);
                change.retry_count = Some(retry_count);
            }
        });
        pair.rule(|_| Verdict::Drop);
        let from = pair.nodes[0].sge(0, 8);
        for id in 0..3 {
            let operation = pair.write(1, 0);
            pair.post(0, id, operation, &[from]);
        }
        pair.drive();
        assert_eq!(
            statuses(&mut pair.nodes[0]),
            [
                (0, CompletionStatus::RetryExceeded),
                (1, CompletionStatus::Flushed),
                (2, CompletionStatus::Flushed)
            ]
        );
        // The first timeout is the least that is allowed, the second twice that, all others four times.
        let units: u64 = [1, 2].into_iter().chain([4; 6]).take(usize::from(retry_count) + 1).sum();
        let expected = Span::from_ps(4_096_000 << timeout) * units;
        let elapsed = pair.now.since(Time::from_ns(1));
        assert_eq!(elapsed, expected, "timeout {timeout}, retries {retry_count}");
    }
}

#[test]
fn uc_drops_a_message_with_a_hole_and_takes_the_next() {
    let mut pair = Pair::connected(QpType::Uc);
    pair.rule(|packet| if packet.index == 1 { Verdict::Drop } else { Verdict::Deliver });
    let (from, to) = (pair.nodes[0].sge(0, 3000), pair.nodes[1].sge(0, 4096));
    for id in [1, 2] {
        pair.post_recv(1, id, &[to]);
        pair.post(0, id, Pair::send(), &[from]);
    }
    pair.drive();
    assert_eq!(pair.nodes[0].completions().len(), 2, "a sender of UC knows nothing");
    assert_eq!(statuses(&mut pair.nodes[1]), [(1, CompletionStatus::Success)]);
    assert!(pair.nodes[1].endpoint.stats().drop_out_of_order > 0);
}

#[test]
fn every_message_survives_a_bad_link() {
    for seed in 0..60 {
        let mut pair = Pair::connected(QpType::Rc);
        let mut next = random(seed);
        pair.rule(move |_| match next() % 20 {
            0 => Verdict::Drop,
            1 => Verdict::Duplicate,
            2 => Verdict::Delay(Span::from_us(30)),
            _ => Verdict::Deliver,
        });
        let length = 40_000;
        pair.nodes[0].fill(0, length, seed as u8);
        let expected = pair.nodes[0].bytes(0, length);
        let from = pair.nodes[0].sge(0, length as u32);
        let back = pair.nodes[0].sge(1 << 20, length as u32);
        let to = pair.nodes[1].sge(1 << 20, length as u32);
        let (remote_address, r_key) = (TestMemory::BASE + (1 << 22), pair.nodes[1].key);
        let word = pair.nodes[0].sge(1 << 22, 8);
        for round in 0..5 {
            pair.post_recv(1, round, &[to]);
            let operations = [
                (Pair::send(), from),
                (pair.write(1, 0), from),
                (Operation::FetchAdd { remote_address, r_key, add: 1 }, word),
                (pair.read(1, 0), back),
            ];
            for (operation, sge) in operations {
                pair.post(0, round, operation, &[sge]);
            }
        }
        pair.drive();
        let sent = pair.nodes[0].completions();
        assert!(
            sent.iter().all(|c| c.status == CompletionStatus::Success),
            "seed {seed}: {sent:?}"
        );
        assert_eq!(sent.len(), 20, "seed {seed}");
        assert_eq!(pair.nodes[1].completions().len(), 5, "seed {seed}");
        assert_eq!(pair.nodes[1].bytes(1 << 22, 8), 5_u64.to_ne_bytes(), "seed {seed}");
        assert_eq!(pair.nodes[1].bytes(0, length), expected, "seed {seed}");
        assert_eq!(pair.nodes[1].bytes(1 << 20, length), expected, "seed {seed}");
        assert_eq!(pair.nodes[0].bytes(1 << 20, length), expected, "seed {seed}");
    }
}

#[test]
fn a_late_duplicate_of_a_read_takes_no_resource_from_the_next() {
    let mut pair = Pair::default();
    pair.connect(QpType::Rc, [None, None], |change| {
        change.max_rd_atomic = change.max_rd_atomic.map(|_| 1);
        change.max_dest_rd_atomic = change.max_dest_rd_atomic.map(|_| 1);
    });
    pair.record();
    let to = pair.nodes[0].sge(0, 100);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    pair.rule(|packet| if packet.from == 0 { Verdict::Drop } else { Verdict::Deliver });
    pair.post(0, 2, pair.read(1, 0), &[to]);
    pair.drive_for(Span::from_us(10));
    // The first READ comes again, late, and the second right behind it.
    let arrival = Arrival {
        source: pair.nodes[0].gid,
        destination: pair.nodes[1].gid,
        traffic_class: 0,
        hop_limit: 64,
    };
    let asked: Vec<_> = pair.sent.iter().filter(|packet| packet.from == 0).cloned().collect();
    for packet in asked {
        pair.inject(1, &arrival, &packet.bytes);
    }
    pair.drive();
    let success = CompletionStatus::Success;
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, success), (2, success)]);
}

#[test]
fn a_send_is_acknowledged_at_once_when_the_read_behind_it_fits_no_window() {
    let mut pair = Pair::new(Config { window_bytes: 4_000, ..Config::default() });
    pair.connect(QpType::Rc, [None, None], |_| {});
    let (from, to) = (pair.nodes[0].sge(0, 8), pair.nodes[1].sge(0, 8));
    let back = pair.nodes[0].sge(100, 20_000);
    pair.post_recv(1, 1, &[to]);
    pair.post(0, 1, Pair::send(), &[from]);
    pair.post(0, 2, pair.read(1, 0), &[back]);
    pair.drive();
    assert_eq!(pair.nodes[0].completions().len(), 2);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
}

#[test]
fn go_back_0_begins_no_piece_of_a_long_read_anew_that_has_been_answered() {
    let config =
        Config { recovery: Recovery::GoBack0, read_chunk_bytes: 1024, ..Config::default() };
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], |_| {});
    // The responder remembers four pieces, and the tenth is lost.
    let mut responses = 0;
    pair.rule(move |packet| {
        responses += packet.from;
        if packet.from == 1 && responses == 10 { Verdict::Drop } else { Verdict::Deliver }
    });
    pair.nodes[1].fill(0, 20_000, 1);
    let expected = pair.nodes[1].bytes(0, 20_000);
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].bytes(0, 20_000), expected);
}

/// What the storm found with seed 11315.
#[test]
fn a_request_whose_memory_is_gone_does_not_keep_the_one_before_it_waiting() {
    let mut pair = Pair::default();
    pair.connect(QpType::Rc, [None, None], |change| {
        if change.retry_count.is_some() {
            change.retry_count = Some(0);
        }
    });
    let good = pair.nodes[0].sge(0, 8);
    let gone = rdma::Sge { l_key: rdma::Key(0x1234), ..good };
    for (id, sge) in [(1, good), (2, gone)] {
        let operation = pair.write(1, 0);
        pair.post(0, id, operation, &[sge]);
    }
    pair.drive();
    assert_eq!(
        statuses(&mut pair.nodes[0]),
        [(1, CompletionStatus::Success), (2, CompletionStatus::LocalProtection)]
    );
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
}

#[test]
fn a_read_asked_for_again_from_a_region_that_has_gone_is_refused() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.rule(|packet| if packet.index == 1 { Verdict::Drop } else { Verdict::Deliver });
    let to = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive_for(Span::from_us(10));
    let key = pair.nodes[1].key;
    pair.nodes[1].endpoint.deregister(key).unwrap();
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::RemoteAccess);
}

/// A server that has received all there is destroys its queue pair, or disconnects: its peer may have lost the last
/// acknowledgement, and nobody would answer when it asks.
#[test]
fn a_queue_pair_that_ends_repeats_its_last_acknowledgement() {
    let destroy: fn(&mut Endpoint, Qpn) = |endpoint, qpn| endpoint.destroy_qp(qpn).unwrap();
    let fail = |endpoint: &mut Endpoint, qpn| {
        endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    };
    for (end, final_acknowledgements, status) in [
        (destroy, 0, CompletionStatus::RetryExceeded),
        (destroy, 2, CompletionStatus::Success),
        (fail, 0, CompletionStatus::RetryExceeded),
        (fail, 2, CompletionStatus::Success),
    ] {
        let mut pair = Pair::new(Config { final_acknowledgements, ..Config::default() });
        pair.connect(QpType::Rc, [None, None], |_| {});
        // The WRITE is packet 0, its acknowledgement is lost.
        pair.rule(|packet| if packet.index == 1 { Verdict::Drop } else { Verdict::Deliver });
        let from = pair.nodes[0].sge(0, 8);
        pair.post(0, 1, pair.write(1, 0), &[from]);
        pair.drive_for(Span::from_us(10));
        let qpn = pair.nodes[1].qpn;
        end(&mut pair.nodes[1].endpoint, qpn);
        pair.drive();
        assert_eq!(only(&mut pair.nodes[0]).status, status, "{final_acknowledgements} times");
    }
}

/// A program that polls has its completion before the acknowledgement has left, and may disconnect at once.
#[test]
fn a_queue_pair_that_ends_sends_the_acknowledgement_that_it_owes() {
    let destroy: fn(&mut Endpoint, Qpn) = |endpoint, qpn| endpoint.destroy_qp(qpn).unwrap();
    let fail = |endpoint: &mut Endpoint, qpn| {
        endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    };
    for end in [destroy, fail] {
        let mut pair = Pair::connected(QpType::Rc);
        pair.record();
        pair.rule(|_| Verdict::Drop);
        pair.post(0, 1, pair.write(1, 0), &[pair.nodes[0].sge(0, 8)]);
        pair.drive_for(Span::from_us(1));
        let write = pair.sent.pop().expect("a request").bytes;
        pair.rule(|_| Verdict::Deliver);
        let (source, destination) = (pair.nodes[0].gid, pair.nodes[1].gid);
        let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 64 };
        pair.inject(1, &arrival, &write);
        let qpn = pair.nodes[1].qpn;
        end(&mut pair.nodes[1].endpoint, qpn);
        pair.drive();
        assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::Success);
    }
}

#[test]
fn a_read_that_is_asked_for_again_while_it_is_answered_is_answered_before_what_followed_it() {
    let mut pair = Pair::connected(QpType::Rc);
    pair.record();
    pair.rule(|_| Verdict::Drop);
    let to = pair.nodes[0].sge(0, 3 * 1024);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.post(0, 2, pair.write(1, 8192), &[pair.nodes[0].sge(8192, 8)]);
    pair.drive_for(Span::from_us(1));
    let asked: Vec<_> = pair.sent.drain(..).map(|packet| packet.bytes).collect();
    let [read, write] = &asked[..] else { panic!("not two packets: {asked:?}") };
    let (source, destination) = (pair.nodes[0].gid, pair.nodes[1].gid);
    let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 64 };
    pair.inject(1, &arrival, read);
    pair.inject(1, &arrival, write);
    let now = pair.now;
    let answer = |pair: &mut Pair| {
        let header = take_one(&mut pair.nodes[1].endpoint, now)?;
        Some(header.bth.opcode.to_string())
    };
    assert_eq!(answer(&mut pair), Some("RC RDMA READ response First".into()));
    pair.inject(1, &arrival, read);
    pair.inject(1, &arrival, write);
    let rest: Vec<_> = core::iter::from_fn(|| answer(&mut pair)).collect();
    let expected = [
        "RC RDMA READ response First",
        "RC RDMA READ response Middle",
        "RC RDMA READ response Last",
        "RC Acknowledge",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn a_request_whose_last_page_is_unmapped_does_not_keep_the_one_before_it_waiting() {
    let mut pair = Pair::default();
    pair.connect(QpType::Rc, [None, None], |change| {
        if change.retry_count.is_some() {
            change.retry_count = Some(0);
        }
    });
    let (address, length, access) = (64, 4096, rdma::Access::NONE);
    let unmapped = crate::RegionSpec { address, length, iova: address, access };
    let node = &mut pair.nodes[0];
    let l_key = node.endpoint.register(node.pd, unmapped).unwrap();
    let good = node.sge(0, 2048);
    let gone = rdma::Sge { address, length: 1024, l_key };
    let operation = pair.write(1, 0);
    pair.post(0, 1, operation, &[good]);
    // Two packets of it can be read, and the third, which asks for the acknowledgement, cannot.
    pair.post(0, 2, operation, &[good, gone]);
    pair.drive();
    assert_eq!(
        statuses(&mut pair.nodes[0]),
        [(1, CompletionStatus::Success), (2, CompletionStatus::LocalProtection)]
    );
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
}

/// What a WRITE comes to whose first packet is lost, at this time.
fn lossy_write(pair: &mut Pair, at: Time) -> Vec<(u64, CompletionStatus)> {
    pair.now = at;
    let mut is_first = true;
    pair.rule(
        move |_| {
            if core::mem::take(&mut is_first) { Verdict::Drop } else { Verdict::Deliver }
        },
    );
    let (write, from) = (pair.write(1, 0), pair.nodes[0].sge(0, 8));
    pair.post(0, 1, write, &[from]);
    pair.drive();
    let taken = pair.now.since(at);
    assert!(taken > Span::from_ms(67) && taken < Span::from_ms(68), "{taken}");
    statuses(&mut pair.nodes[0])
}

const DAY_NS: u64 = 24 * 3_600 * 1_000_000_000;

#[test]
fn timers_run_for_longer_than_any_process() {
    let mut pair = Pair::connected(QpType::Rc);
    for day in (0..290).step_by(10).chain([213, 214, 10 * 365]) {
        let at = Time::from_ns(day * DAY_NS + 1).max(pair.now);
        assert_eq!(lossy_write(&mut pair, at), [(1, CompletionStatus::Success)], "day {day}");
    }
}

#[test]
fn a_clock_that_jumps_costs_a_timeout_and_no_timer() {
    let mut pair = Pair::connected(QpType::Rc);
    let (write, from) = (pair.write(1, 0), pair.nodes[0].sge(0, 8));
    pair.rule(|packet| if packet.index < 2 { Verdict::Drop } else { Verdict::Deliver });
    pair.post(0, 1, write, &[from]);
    // The timer runs, and the clock leaps over its time, and over the end of the picoseconds.
    pair.drive_for(Span::from_ms(1));
    pair.now = Time::from_ns(400 * DAY_NS);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 2);
    let later = Time::from_ns(800 * DAY_NS);
    assert_eq!(lossy_write(&mut pair, later), [(1, CompletionStatus::Success)]);
}

#[test]
fn a_clock_that_is_turned_back_makes_what_waits_wait_for_that_much_longer() {
    let mut pair = Pair::connected(QpType::Rc);
    let back = Span::from_ms(500);
    pair.now = Time::ZERO + Span::from_ms(1_000);
    pair.rule(|packet| if packet.index < 1 { Verdict::Drop } else { Verdict::Deliver });
    let (write, from) = (pair.write(1, 0), pair.nodes[0].sge(0, 8));
    pair.post(0, 1, write, &[from]);
    pair.drive_for(Span::from_ms(1));
    let began = pair.now - back;
    pair.now = began;
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 1);
    let taken = pair.now.since(began);
    assert!(taken > back + Span::from_ms(66) && taken < back + Span::from_ms(67), "{taken}");
    // Once the clock is where it was, nothing is left of it.
    let at = pair.now;
    assert_eq!(lossy_write(&mut pair, at), [(1, CompletionStatus::Success)]);
}

#[test]
fn a_link_that_is_down_for_half_a_second_breaks_no_connection() {
    // Timeout 14 and seven retries, as most programs set: 67.1 ms each at least, and four times that at
    // most (IBTA vol 1, 9.7.6.1.3).
    let mut pair = Pair::connected(QpType::Rc);
    let down = Time::ZERO + Span::from_ms(600);
    pair.record();
    pair.rule(move |packet| if packet.at < down { Verdict::Drop } else { Verdict::Deliver });
    let (write, from) = (pair.write(1, 0), pair.nodes[0].sge(0, 8));
    pair.post(0, 1, write, &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    // Progress begins the count anew, and the intervals.
    let at = pair.now;
    assert_eq!(lossy_write(&mut pair, at), [(1, CompletionStatus::Success)]);
    let (least, most) = (Span::from_ps(4_096_000 << 14), Span::from_ps((4 * 4_096_000) << 14));
    let at: Vec<Time> =
        pair.sent.iter().filter(|sent| sent.from == 0).map(|sent| sent.at).collect();
    for pair in at[..4].windows(2) {
        let interval = pair[1].since(pair[0]);
        assert!(interval >= least && interval <= most, "{interval}");
    }
}
