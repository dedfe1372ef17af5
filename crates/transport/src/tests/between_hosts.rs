//! Queue pairs of two hosts: they find out that both repeat selectively, and tell what was overtaken from
//! what was lost.

use core::sync::atomic::{AtomicU32, Ordering};
use rdma::{CompletionStatus, Operation, Psn, QpState, QpType, Rate, Span, Time};
use std::boxed::Box;
use std::vec::Vec;
use wire::bth::Sign;
use wire::{Opcode, roce};

use super::{inject, statuses, write};
use crate::congestion::{Controller, ControllerKind, Custom};
use crate::limits::{OVERTAKEN_WAIT_MIN, PROBE_WAIT_MIN};
use crate::testing::{Pair, Verdict, Wire};
use crate::{BetweenHosts, Config, Congestion, QpChange};

const SUCCESS: CompletionStatus = CompletionStatus::Success;
const FIRST: Psn = Psn::new(0xff_fffe);

fn config() -> Config {
    let between_hosts = BetweenHosts {
        congestion: Congestion::None,
        window_bytes: 1 << 20,
        refill_bytes: 0,
        signs: true,
        out_of_order_packets: 1024,
        out_of_order_bytes: 1 << 20,
        stride_max: 0,
    };
    Config { between_hosts: Some(between_hosts), ..Config::default() }
}

/// Those of `signing` are set to what another host needs; the others know nothing of it.
fn connected(signing: [bool; 2]) -> Pair {
    connected_with(config(), signing)
}

fn connected_with(config: Config, signing: [bool; 2]) -> Pair {
    connected_pair(Pair::new(config), signing)
}

fn connected_pair(mut pair: Pair, signing: [bool; 2]) -> Pair {
    for node in &mut pair.nodes {
        node.qpn = node.create_qp(QpType::Rc, None);
    }
    for (index, signs) in signing.into_iter().enumerate() {
        pair.bring_up(index, QpType::Rc, &|change: &mut QpChange| {
            if change.state == Some(QpState::Rtr) {
                change.between_hosts = Some(signs);
            }
        });
    }
    pair.record();
    pair
}

/// A pair that has written once, and so knows of each other.
fn acquainted(signing: [bool; 2]) -> Pair {
    let mut pair = connected(signing);
    write(&mut pair, 5_000);
    pair.sent.clear();
    pair
}

/// Has this happen to packets of one node with PSNs at these distances from the first, once each.
fn happen(pair: &mut Pair, from: usize, to: &[u32], verdict: Verdict) {
    let mut to: Vec<Psn> = to.iter().map(|&distance| FIRST.plus(distance)).collect();
    pair.rule(move |packet| {
        let place = to.iter().position(|psn| *psn == packet.header.bth.psn);
        match place.filter(|_| packet.from == from) {
            Some(place) => {
                to.remove(place);
                verdict
            }
            None => Verdict::Deliver,
        }
    });
}

fn lose(pair: &mut Pair, from: usize, lost: &[u32]) {
    happen(pair, from, lost, Verdict::Drop);
}

/// Packets repeated, timeouts, and NAKs received by node 0.
fn repeats(pair: &Pair) -> [u64; 3] {
    let stats = pair.nodes[0].endpoint.stats();
    [stats.retransmitted_pkts, stats.local_ack_timeout_err, stats.rcvd_seq_err]
}

fn is_selective(packet: &Wire) -> bool {
    packet.header.selective.is_some()
}

#[test]
fn two_that_sign_repeat_the_lost_packet_alone() {
    let mut pair = acquainted([true, true]);
    // Five packets have come before.
    lose(&mut pair, 0, &[8, 12]);
    write(&mut pair, 20_000);
    assert_eq!(repeats(&pair)[..2], [2, 0]);
    assert!(pair.sent.iter().all(|packet| packet.header.bth.sign == Sign::Selective));
    assert!(pair.sent.iter().any(is_selective));
}

#[test]
fn to_a_peer_that_does_not_sign_everything_is_as_the_standard_says() {
    for signing in [[true, false], [false, true]] {
        let mut pair = acquainted(signing);
        lose(&mut pair, 0, &[8, 12]);
        write(&mut pair, 20_000);
        assert!(repeats(&pair)[0] >= 15, "from the lost packet on: {:?}", repeats(&pair));
        assert!(!pair.sent.iter().any(is_selective));
        for packet in &pair.sent {
            assert_eq!(packet.header.bth.sign != Sign::None, signing[packet.from]);
        }
    }
}

#[test]
fn a_lost_response_alone_is_asked_for_again() {
    let mut pair = acquainted([true, true]);
    lose(&mut pair, 1, &[9, 14]);
    pair.nodes[1].fill(0, 20_000, 7);
    let expected = pair.nodes[1].bytes(0, 20_000);
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(0, 20_000), expected);
    assert_eq!(repeats(&pair)[..2], [2, 0]);
}

/// Reads 20 packets, of which each of these requests or responses is lost once. Returns how many READ requests leave
/// before the first answer arrives, and how many responses are sent.
fn read_where(pair: &mut Pair, from: usize, lost: &[u32]) -> (usize, usize) {
    pair.sent.clear();
    lose(pair, from, lost);
    pair.nodes[1].fill(0, 20_000, 7);
    let expected = pair.nodes[1].bytes(0, 20_000);
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(0, 20_000), expected);
    let asked = pair.sent.iter().take_while(|packet| packet.from == 0).count();
    (asked, pair.sent.iter().filter(|packet| packet.from == 1).count())
}

#[test]
fn after_a_loss_reads_are_asked_for_twice_and_answered_once() {
    let mut pair = acquainted([true, true]);
    assert_eq!(read_where(&mut pair, 1, &[]), (1, 20));
    assert_eq!(read_where(&mut pair, 1, &[30]).0, 1);
    let before = repeats(&pair);
    assert_eq!(read_where(&mut pair, 1, &[]), (2, 20));
    // One of the two is lost, whichever.
    assert_eq!(read_where(&mut pair, 0, &[65]), (2, 20));
    assert_eq!(repeats(&pair), before);
    assert_eq!(pair.nodes[0].endpoint.stats().sent_read_copies, 2);
    let stats = pair.nodes[1].endpoint.stats();
    assert_eq!((stats.rcvd_read_copies, stats.duplicate_request), (1, 1));
    // Both are.
    assert_eq!(read_where(&mut pair, 0, &[85, 85]).1, 20);
    assert!(repeats(&pair)[0] > before[0]);
}

static LOST: AtomicU32 = AtomicU32::new(0);

/// Counts what it hears is lost.
#[derive(Debug)]
struct Counting;

impl Controller for Counting {
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        None
    }

    fn on_repetition(&mut self, packets: u32) {
        LOST.fetch_add(packets, Ordering::Relaxed);
    }

    fn window(&self, _: u64) -> u64 {
        1 << 20
    }
}

static COUNTING: ControllerKind =
    ControllerKind::new("counting", "Counts.", |_| Box::new(Counting));

#[test]
fn a_lost_request_for_many_packets_is_one_loss_and_a_peer_that_is_not_ready_is_none() {
    let mut config = config();
    if let Some(between) = &mut config.between_hosts {
        between.congestion = Congestion::Custom(Custom::new(&COUNTING));
    }
    let mut pair = connected_with(config, [true, true]);
    write(&mut pair, 5_000);
    // A second READ tells of it.
    lose(&mut pair, 0, &[5]);
    for number in 1..=2 {
        let to = pair.nodes[0].sge(0, 20_000);
        pair.post(0, number, pair.read(1, 0), &[to]);
    }
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, SUCCESS)]);
    assert_eq!((LOST.load(Ordering::Relaxed), repeats(&pair)[0]), (1, 1));
    read_where(&mut pair, 1, &[50, 51, 55]);
    assert_eq!(LOST.load(Ordering::Relaxed), 4);
    let (from, to) = (pair.nodes[0].sge(0, 5_000), pair.nodes[1].sge(0, 5_000));
    pair.post(0, 3, Operation::Send { immediate: None, address: None }, &[from]);
    pair.drive_for(Span::from_us(100));
    pair.post_recv(1, 4, &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]).last(), Some(&(3, SUCCESS)));
    assert!(pair.nodes[0].endpoint.stats().retransmitted_after_rnr > 0);
    assert_eq!(LOST.load(Ordering::Relaxed), 4);
}

#[test]
fn a_read_that_is_asked_for_again_later_is_answered_again() {
    let mut pair = acquainted([true, true]);
    read_where(&mut pair, 1, &[10]);
    // All that answers both requests is lost, and a probe asks again.
    let lost: Vec<u32> = (25..45).collect();
    read_where(&mut pair, 1, &lost);
}

#[test]
fn the_later_of_two_is_dropped_though_its_region_is_gone() {
    for (number, late_us) in [(1, 20), (1, 40_000), (2, 200), (2, 400), (2, 40_000)] {
        let mut pair = acquainted([true, true]);
        read_where(&mut pair, 1, &[10]);
        pair.sent.clear();
        let mut late = 0;
        pair.rule(move |packet| {
            let is_of_two = packet.header.bth.sign == Sign::Twice;
            late += u32::from(is_of_two);
            let is_late = is_of_two && late == number;
            if is_late { Verdict::Delay(Span::from_us(late_us)) } else { Verdict::Deliver }
        });
        let to = pair.nodes[0].sge(0, 20_000);
        pair.post(0, 2, pair.read(1, 0), &[to]);
        let done = pair.now + Span::from_us(100);
        while pair.drive_once(done) {}
        assert_eq!(statuses(&mut pair.nodes[0]), [(2, SUCCESS)]);
        let key = pair.nodes[1].key;
        pair.nodes[1].endpoint.deregister(key).unwrap();
        pair.drive();
        assert_eq!(pair.sent.iter().filter(|packet| packet.from == 1).count(), 20);
        assert_eq!(pair.nodes[1].endpoint.query_qp(pair.nodes[1].qpn).unwrap().state, QpState::Rts);
        assert_eq!(pair.nodes[1].endpoint.stats().rcvd_read_copies, 1);
    }
}

/// A peer without the sign sends reserved bits as it likes.
#[test]
fn what_looks_like_one_of_two_is_answered_where_nothing_is_signed() {
    let mut pair = connected([true, false]);
    read_where(&mut pair, 1, &[]);
    let mut header = pair.sent[0].header;
    assert_eq!(header.bth.opcode, Opcode::RC_READ_REQUEST);
    header.bth.sign = Sign::Twice;
    pair.sent.clear();
    inject(&mut pair, 1, &header, &[]);
    pair.drive();
    assert_eq!(pair.sent.iter().filter(|packet| packet.from == 1).count(), 20);
}

#[test]
fn short_reads_are_asked_for_once() {
    let mut pair = acquainted([true, true]);
    read_where(&mut pair, 1, &[10]);
    let to = pair.nodes[0].sge(0, 3 * 1024);
    pair.post(0, 2, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(2, SUCCESS)]);
    assert_eq!(pair.nodes[0].endpoint.stats().sent_read_copies, 0);
}

#[test]
fn answers_that_are_lost_once_a_gap_is_filled_are_not_asked_for_one_by_one() {
    let mut pair = acquainted([true, true]);
    // The first of three READs of 20 packets, and the first answer to each packet of the others, which had to wait
    // behind it.
    let mut lost: Vec<u32> = (25..65).collect();
    let mut request = Some(5);
    pair.rule(move |packet| {
        let distance = packet.header.bth.psn.distance_from(FIRST);
        let is_lost = match packet.from {
            0 => request.take_if(|request| *request == distance).is_some(),
            _ => lost.iter().position(|it| *it == distance).map(|at| lost.remove(at)).is_some(),
        };
        if is_lost { Verdict::Drop } else { Verdict::Deliver }
    });
    pair.nodes[1].fill(0, 60_000, 7);
    let expected = pair.nodes[1].bytes(0, 60_000);
    for (id, offset) in [(1, 0), (2, 20_000), (3, 40_000)] {
        let to = pair.nodes[0].sge(offset, 20_000);
        pair.post(0, id, pair.read(1, offset), &[to]);
    }
    let began = pair.now;
    while pair.nodes[0].endpoint.stats().rcvd_bytes < 60_000 {
        pair.drive_for(Span::from_us(100));
    }
    let took = pair.now.since(began);
    assert!(took < PROBE_WAIT_MIN * 4, "{took}");
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS), (2, SUCCESS), (3, SUCCESS)]);
    assert_eq!(pair.nodes[0].bytes(0, 60_000), expected);
    assert_eq!(repeats(&pair)[1], 0);
}

#[test]
fn a_repetition_that_is_lost_is_missed_by_the_answer_to_a_probe() {
    for verb in ["write", "read"] {
        let mut pair = acquainted([true, true]);
        // Twelve of 40 packets, or answers, twice each.
        let mut lost: Vec<u32> = (10..22).chain(10..22).collect();
        let from = usize::from(verb == "read");
        pair.rule(move |packet| {
            let distance = packet.header.bth.psn.distance_from(FIRST);
            let place = lost.iter().position(|it| *it == distance);
            match place.filter(|_| packet.from == from) {
                Some(place) => {
                    lost.remove(place);
                    Verdict::Drop
                }
                None => Verdict::Deliver,
            }
        });
        let began = pair.now;
        let piece = pair.nodes[0].sge(0, 40_000);
        let operation = if from == 0 { pair.write(1, 0) } else { pair.read(1, 0) };
        pair.post(0, 1, operation, &[piece]);
        let mut done = None;
        while done.is_none() && pair.now.since(began) < Span::from_ms(60) {
            pair.drive_for(Span::from_us(100));
            done = pair.nodes[0].completions().pop();
        }
        assert_eq!(done.map(|it| it.status), Some(SUCCESS), "{verb}");
        let took = pair.now.since(began);
        assert!(took < PROBE_WAIT_MIN * 3, "{verb}: {took}");
    }
}

/// The probe is dropped as well, so nothing that was sent later is told of. Before its repetition told of the rest, each packet of
/// that was missed by a probe of its own.
#[test]
fn what_a_responder_has_no_room_for_behind_a_gap_is_repeated_at_once_when_that_is_filled() {
    let mut configs = [config(), config()];
    configs[1].between_hosts.as_mut().unwrap().out_of_order_packets = 1;
    let mut pair = connected_pair(Pair::unequal(configs), [true, true]);
    write(&mut pair, 5_000);
    lose(&mut pair, 0, &[5]);
    let before = pair.now;
    write(&mut pair, 60 * 1_024);
    assert_eq!(repeats(&pair)[1], 0, "timeouts");
    let took = pair.now.since(before);
    assert!(took < PROBE_WAIT_MIN * 4, "{took}");
}

#[test]
fn what_is_overtaken_for_less_than_the_wait_is_not_repeated_and_what_is_later_is() {
    for (late, repeated) in [(Span::from_us(100), 0), (OVERTAKEN_WAIT_MIN * 2, 3)] {
        let mut pair = acquainted([true, true]);
        happen(&mut pair, 0, &[6, 10, 14], Verdict::Delay(late));
        write(&mut pair, 30_000);
        assert_eq!(repeats(&pair)[..2], [repeated, 0], "late by {late}");
    }
}

#[test]
fn a_lost_end_is_learnt_of_by_a_probe_long_before_the_timeout() {
    let mut pair = acquainted([true, true]);
    // 20 packets, of which the last eight are lost.
    lose(&mut pair, 0, &[17, 18, 19, 20, 21, 22, 23, 24]);
    let began = pair.now;
    write(&mut pair, 20_000);
    let [repeated, timeouts, _] = repeats(&pair);
    assert_eq!((repeated, timeouts), (8, 0));
    let ends = pair.sent.iter().map(|packet| packet.at).max().unwrap();
    assert!(ends.since(began) < PROBE_WAIT_MIN * 2, "{}", ends.since(began));
}

/// Each round trip that a probe spoils would be missing from the estimate by which the next probe is sent.
#[test]
fn long_messages_among_short_ones_are_not_probed_for_ever() {
    for verb in ["write", "read"] {
        let mut pair = acquainted([true, true]);
        // What answers a long message comes when that has crossed a slow link.
        pair.rule(move |packet| {
            let is_answer = packet.from == 1;
            let is_long = packet.header.bth.psn.distance_from(FIRST) % 5 == 3;
            match is_answer && is_long {
                true => Verdict::Delay(Span::from_ms(6)),
                false => Verdict::Deliver,
            }
        });
        const ROUNDS: u64 = 100;
        for _ in 0..ROUNDS {
            // Four packets, of which the answer is late, and one.
            for bytes in [4_000, 100] {
                let piece = pair.nodes[0].sge(0, bytes);
                let operation = if verb == "read" { pair.read(1, 0) } else { pair.write(1, 0) };
                pair.post(0, 1, operation, &[piece]);
                pair.drive();
                assert_eq!(statuses(&mut pair.nodes[0]), [(1, SUCCESS)]);
            }
        }
        let [repeated, timeouts, _] = repeats(&pair);
        assert!(repeated < ROUNDS / 5, "{verb}: {repeated} of {ROUNDS}");
        assert_eq!(timeouts, 0);
    }
}

/// A queue that others keep full drops many in a row.
#[test]
fn after_a_timeout_the_oldest_packet_is_repeated_several_times_until_the_next() {
    let mut pair = acquainted([true, true]);
    pair.rule(|packet| if packet.from == 0 { Verdict::Drop } else { Verdict::Deliver });
    let from = pair.nodes[0].sge(0, 40_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    let oldest = pair.sent[0].header.bth.psn;
    let times = pair.sent.iter().filter(|packet| packet.header.bth.psn == oldest).count() as u64;
    let timeouts = repeats(&pair)[1];
    assert!(times > 3 * timeouts, "{times} in {timeouts}");
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::RetryExceeded)]);
}

/// Those that lost all at one time would lose it again.
#[test]
fn timeouts_of_queue_pairs_differ_but_for_the_first() {
    let mut pair = connected([true, true]);
    pair.rule(|_| Verdict::Drop);
    let repeated_at = |pair: &mut Pair| {
        pair.sent.clear();
        let from = pair.nodes[0].sge(0, 100);
        pair.post(0, 1, pair.write(1, 0), &[from]);
        pair.drive();
        pair.sent.iter().map(|packet| packet.at).collect::<Vec<_>>()
    };
    let first = repeated_at(&mut pair);
    pair.connect(QpType::Rc, [None, None], |change| {
        if change.state == Some(QpState::Rtr) {
            change.between_hosts = Some(true);
        }
    });
    let second = repeated_at(&mut pair);
    let [first, second] = [first, second]
        .map(|sent| sent.windows(2).map(|two| two[1].since(two[0])).collect::<Vec<_>>());
    assert_eq!((first.len(), second.len(), first[0]), (7, 7, second[0]));
    for (wait, other) in first.iter().zip(&second).skip(1) {
        assert!(wait != other && *wait * 2 >= first[0] * 3, "{wait} {other}");
    }
}

#[test]
fn probes_do_not_save_a_connection_whose_peer_is_gone() {
    let mut pair = acquainted([true, true]);
    pair.rule(|_| Verdict::Drop);
    let from = pair.nodes[0].sge(0, 5_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::RetryExceeded)]);
    // The first time, and seven retries.
    assert_eq!(repeats(&pair)[1], 8);
}

/// A packet of node 0's queue pair to node 1's, so many packets ahead, with a sign or not.
fn forge(pair: &mut Pair, ahead: u32, signed: bool) {
    let psn = FIRST.plus(5 + ahead);
    let opcode = Opcode::from_code(0x07).unwrap();
    let mut header = roce::Repr::new(opcode, pair.nodes[1].qpn, psn);
    header.bth.sign = if signed { Sign::Selective } else { Sign::None };
    inject(pair, 1, &header, &[0xee; 1024]);
}

#[test]
fn a_forged_sign_lasts_until_the_next_packet() {
    let mut pair = acquainted([false, true]);
    forge(&mut pair, 2_000, true);
    pair.drive();
    let refused = pair.nodes[0].endpoint.stats().drop_unexpected_response;
    assert!(refused > 0, "a peer that knows nothing of it drops what it is told");
    pair.sent.clear();
    lose(&mut pair, 0, &[8, 12]);
    write(&mut pair, 20_000);
    assert_eq!(repeats(&pair)[1], 0);
    assert!(!pair.sent.iter().any(is_selective));
}

#[test]
fn a_forged_packet_without_a_sign_costs_no_more_than_repetitions() {
    let mut pair = acquainted([true, true]);
    forge(&mut pair, 2_000, false);
    lose(&mut pair, 0, &[8, 12]);
    write(&mut pair, 20_000);
    assert!(pair.sent.iter().any(is_selective), "it is forgotten");
}
