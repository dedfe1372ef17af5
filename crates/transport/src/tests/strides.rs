//! Packets longer than the path MTU, between two that sign.

use std::vec;
use std::vec::Vec;

use rdma::{CompletionStatus, Mtu, Operation, Psn, QpState, QpType, Span};
use wire::bth::{Sign, Stride};
use wire::{Opcode, reth, roce};

use super::{inject, statuses, write};
use crate::failure::Unproven;
use crate::limits::{PATH_PROBE_HEADROOM, PATH_PROBE_WAIT_MAX, PATH_PROBES_MAX, STRIDE_MAX};
use crate::testing::{Pair, Verdict, Wire};
use crate::{AddressVector, BetweenHosts, Config, Congestion, Failure, QpChange};

/// What an interface of 1,500 bytes has room for.
const STRIDE: u32 = 1408;
/// What a probe of such a port carries.
const PROBE: u32 = STRIDE + PATH_PROBE_HEADROOM;

fn config(active_mtu: Mtu, stride_max: u32) -> Config {
    let between_hosts = BetweenHosts {
        congestion: Congestion::None,
        window_bytes: 1 << 20,
        refill_bytes: 0,
        signs: true,
        out_of_order_packets: 1024,
        out_of_order_bytes: 1 << 20,
        stride_max,
    };
    Config { active_mtu, between_hosts: Some(between_hosts), ..Config::default() }
}

/// Connected with a path MTU of 1,024; those of `signing` sign.
fn connected(configs: [Config; 2], signing: [bool; 2]) -> Pair {
    connected_by(configs, signing, Mtu::B1024, false)
}

/// Connected with a path MTU that two connection managers have agreed on.
fn negotiated(configs: [Config; 2], mtu: Mtu) -> Pair {
    connected_by(configs, [true, true], mtu, true)
}

fn connected_by(configs: [Config; 2], signing: [bool; 2], mtu: Mtu, negotiated: bool) -> Pair {
    let mut pair = Pair::unequal(configs);
    for node in &mut pair.nodes {
        node.qpn = node.create_qp(QpType::Rc, None);
    }
    for (index, signs) in signing.into_iter().enumerate() {
        pair.bring_up(index, QpType::Rc, &|change: &mut QpChange| {
            if change.state == Some(QpState::Rtr) {
                change.between_hosts = Some(signs);
                (change.path_mtu, change.negotiated_mtu) = (Some(mtu), Some(negotiated));
            }
        });
    }
    pair.record();
    pair
}

fn usual() -> Pair {
    let config = config(Mtu::B1024, STRIDE);
    connected([config.clone(), config], [true, true])
}

/// The second message probes the path, so the next are in long packets.
fn acquainted() -> Pair {
    let mut pair = usual();
    write(&mut pair, 5_000);
    write(&mut pair, 20_000);
    pair.sent.clear();
    pair
}

/// Packets sent by a node, as bytes of payload and what they say of it.
fn sent(pair: &Pair, from: usize) -> Vec<(usize, Option<u32>)> {
    let of = |packet: &&Wire| packet.from == from;
    let told = |packet: &Wire| (payload(packet), packet.header.bth.stride.bytes());
    pair.sent.iter().filter(of).map(told).collect()
}

/// Bytes of payload of the longest of them.
fn longest(pair: &Pair, from: usize) -> usize {
    sent(pair, from).into_iter().map(|it| it.0).max().unwrap_or(0)
}

fn payload(packet: &Wire) -> usize {
    packet.bytes.len() - packet.header.header_len() - usize::from(packet.header.bth.pad)
}

fn read(pair: &mut Pair, length: u32) {
    pair.nodes[1].fill(0, length as usize, 7);
    let expected = pair.nodes[1].bytes(0, length as usize);
    let to = pair.nodes[0].sge(0, length);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].bytes(0, length as usize), expected);
}

#[test]
fn a_path_is_probed_once_and_then_packets_are_as_long_as_it_takes() {
    let mut pair = usual();
    write(&mut pair, 5_000);
    assert!(sent(&pair, 0).iter().all(|&(length, told)| length <= 1024 && told.is_none()));
    write(&mut pair, 20_000);
    let probes = |opcode| pair.sent.iter().filter(move |it| it.header.bth.opcode == opcode);
    let [probe, answer] = [Opcode::RC_PATH_PROBE, Opcode::RC_PATH_PROBE_ANSWER].map(|opcode| {
        let mut found = probes(opcode);
        let one = found.next().expect("one was sent");
        assert!(found.next().is_none(), "and only one");
        assert_eq!(payload(one), PROBE as usize);
        one.header.bth.psn
    });
    assert_eq!(probe, answer);

    pair.sent.clear();
    write(&mut pair, 20_000);
    let whole = 20_000 / STRIDE as usize;
    let packets = sent(&pair, 0);
    assert_eq!(packets.len(), whole + 1);
    assert!(packets[..whole].iter().all(|it| *it == (STRIDE as usize, Some(STRIDE))));
    // What fits into one packet of the path MTU is as it was, and what fits into a long one is one.
    for (length, told) in
        [(1_000, None), (1_024, None), (1_025, Some(STRIDE)), (1_408, Some(STRIDE))]
    {
        pair.sent.clear();
        write(&mut pair, length);
        assert_eq!(sent(&pair, 0), [(length as usize, told)]);
    }
    let stats = pair.nodes[0].endpoint.stats();
    assert_eq!((stats.path_probes_sent, stats.path_probes_answered), (1, 1));
}

#[test]
fn reads_are_answered_so_and_the_peer_needs_no_probe_of_its_own() {
    let mut pair = acquainted();
    read(&mut pair, 20_000);
    let answers = sent(&pair, 1);
    assert_eq!(answers.len(), 20_000_usize.div_ceil(STRIDE as usize));
    assert_eq!(answers[0].0, STRIDE as usize);

    pair.sent.clear();
    pair.nodes[1].fill(0, 9_000, 3);
    let from = pair.nodes[1].sge(0, 9_000);
    pair.post(1, 2, pair.write(0, 0), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[1]), [(2, CompletionStatus::Success)]);
    assert_eq!(sent(&pair, 1)[0], (STRIDE as usize, Some(STRIDE)));
    assert_eq!(pair.nodes[1].endpoint.stats().path_probes_sent, 0);
}

#[test]
fn messages_that_wait_when_the_answer_comes_are_cut_anew() {
    let mut pair = usual();
    write(&mut pair, 5_000);
    pair.sent.clear();
    // More than the window: those behind it begin after the answer.
    for index in 0..200 {
        let from = pair.nodes[0].sge(0, 20_000);
        pair.post(0, index, pair.write(1, 0), &[from]);
    }
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]).len(), 200);
    let packets = sent(&pair, 0);
    let (first, last) = (packets.iter().position(|it| it.1 == Some(STRIDE)), packets.last());
    assert!((100..2_000).contains(&first.unwrap()), "{first:?}");
    assert_eq!(last.unwrap().1, Some(STRIDE));
}

#[test]
fn lost_packets_of_any_kind_are_repeated_as_they_were() {
    let mut pair = acquainted();
    for (from, number) in [(0, 3), (0, 14), (1, 0), (1, 5)] {
        let mut left = number;
        pair.rule(move |packet| {
            let is_lost = packet.from == from && left == 0;
            left -= i32::from(packet.from == from);
            if is_lost { Verdict::Drop } else { Verdict::Deliver }
        });
        write(&mut pair, 20_000);
        read(&mut pair, 20_000);
    }
    assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
    assert!(pair.nodes[0].endpoint.stats().retransmitted_pkts >= 3);
}

#[test]
fn a_path_that_is_too_narrow_in_either_direction_keeps_the_path_mtu() {
    for narrow in [0, 1] {
        let mut pair = usual();
        pair.rule(move |packet| match packet.from == narrow && payload(packet) > 1024 {
            true => Verdict::Drop,
            false => Verdict::Deliver,
        });
        for _ in 0..3 {
            write(&mut pair, 50_000);
            read(&mut pair, 50_000);
        }
        let data = sent(&pair, 0).into_iter().chain(sent(&pair, 1));
        assert!(
            data.filter(|it| it.0 > 1024).all(|it| it == (PROBE as usize, Some(1024))),
            "probes alone"
        );
        let stats = pair.nodes[0].endpoint.stats();
        assert!((1..=u64::from(PATH_PROBES_MAX)).contains(&stats.path_probes_sent));
        assert_eq!(stats.path_probes_answered, 0);
        assert_eq!(stats.local_ack_timeout_err + stats.retransmitted_pkts, 0);
    }
}

/// A queue that has room for one packet again has none for a repetition behind a probe.
#[test]
fn a_path_is_not_probed_between_a_timeout_and_progress() {
    let mut pair = usual();
    write(&mut pair, 5_000);
    pair.sent.clear();
    pair.rule(|_| Verdict::Drop);
    let from = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert!(pair.nodes[0].endpoint.stats().local_ack_timeout_err > 1);
    let is_probe = |packet: &&Wire| packet.header.bth.opcode == Opcode::RC_PATH_PROBE;
    let last = pair.sent.iter().rfind(is_probe).unwrap();
    let timeout = crate::limits::ack_timeout(14).unwrap();
    assert!(last.at.since(pair.sent[0].at) < timeout, "{:?}", last.at);
}

#[test]
fn nobody_else_is_probed() {
    let long = config(Mtu::B1024, STRIDE);
    // A program that chose less than its port has, a port that is kept to path MTUs, and peers that do not sign.
    for (configs, signing) in [
        ([config(Mtu::B4096, STRIDE_MAX), config(Mtu::B4096, STRIDE_MAX)], [true, true]),
        ([config(Mtu::B1024, 0), long.clone()], [true, true]),
        ([long.clone(), long.clone()], [true, false]),
        ([long.clone(), long.clone()], [false, true]),
        ([long.clone(), long.clone()], [false, false]),
    ] {
        let mut pair = connected(configs, signing);
        for _ in 0..3 {
            write(&mut pair, 20_000);
            read(&mut pair, 20_000);
        }
        assert_eq!(pair.nodes[0].endpoint.stats().path_probes_sent, 0);
        for from in [0, 1] {
            assert!(sent(&pair, from).iter().all(|it| it.0 <= 1024 && it.1.is_none()));
        }
    }
}

#[test]
fn a_port_of_more_takes_what_its_narrower_peer_has_found() {
    let mut pair =
        connected([config(Mtu::B1024, STRIDE), config(Mtu::B4096, STRIDE_MAX)], [true, true]);
    write(&mut pair, 5_000);
    write(&mut pair, 20_000);
    pair.sent.clear();
    write(&mut pair, 20_000);
    assert_eq!(sent(&pair, 0)[0], (STRIDE as usize, Some(STRIDE)));
    read(&mut pair, 20_000);
}

/// As where a router has told of packets that were too long, or somebody in its name.
#[test]
fn a_path_mtu_that_was_negotiated_is_no_choice() {
    for (port, stride) in [(Mtu::B1024, STRIDE), (Mtu::B4096, STRIDE_MAX)] {
        let config = config(port, stride);
        let mut pair = negotiated([config.clone(), config], Mtu::B256);
        write(&mut pair, 5_000);
        assert!(sent(&pair, 0).iter().all(|it| it.0 <= 256 && it.1.is_none()));
        write(&mut pair, 20_000);
        pair.sent.clear();
        write(&mut pair, 20_000);
        read(&mut pair, 20_000);
        for from in [0, 1] {
            assert_eq!(longest(&pair, from), stride as usize);
        }
        let stats = pair.nodes[0].endpoint.stats();
        assert_eq!((stats.path_probes_sent, stats.path_probes_answered), (1, 1));
    }
}

/// The wider port probes as well: for what it carries, and in vain, and for what usual Ethernet does.
#[test]
fn a_port_of_more_finds_what_its_narrower_peer_has() {
    let [narrow, wide] = [config(Mtu::B1024, STRIDE), config(Mtu::B4096, STRIDE_MAX)];
    let mut pair = negotiated([wide, narrow], Mtu::B1024);
    write(&mut pair, 5_000);
    // Its longer probes do not arrive: the port behind the last switch does not carry them.
    pair.rule(|packet| match payload(packet) > PROBE as usize {
        true => Verdict::Drop,
        false => Verdict::Deliver,
    });
    for _ in 0..200 {
        write(&mut pair, 20_000);
        pair.drive_for(Span::from_ms(10));
    }
    pair.sent.clear();
    write(&mut pair, 20_000);
    read(&mut pair, 20_000);
    for from in [0, 1] {
        assert_eq!(longest(&pair, from), STRIDE as usize);
    }
    let stats = pair.nodes[0].endpoint.stats();
    assert_eq!(stats.path_probes_sent, u64::from(PATH_PROBES_MAX));
    assert_eq!(stats.path_probes_answered, 1);
}

/// The long probe is lost by chance, so that the shorter one is answered first.
#[test]
fn who_has_found_the_packets_of_ethernet_goes_on_probing_for_longer_ones() {
    let wide = config(Mtu::B4096, STRIDE_MAX);
    let mut pair = negotiated([wide.clone(), wide], Mtu::B1024);
    write(&mut pair, 5_000);
    let mut is_first = true;
    pair.rule(move |packet| {
        let is_lost = packet.header.bth.opcode == Opcode::RC_PATH_PROBE && is_first;
        is_first &= !is_lost;
        if is_lost { Verdict::Drop } else { Verdict::Deliver }
    });
    let mut found = Vec::new();
    for _ in 0..20 {
        pair.sent.clear();
        write(&mut pair, 20_000);
        let data = sent(&pair, 0).into_iter().filter_map(|it| it.1);
        found.extend(data.filter(|told| *told > 1024));
        pair.drive_for(Span::from_ms(10));
    }
    found.dedup();
    assert_eq!(found, [STRIDE, STRIDE_MAX]);
}

/// As `FERROCE_MTU` does, at one end.
#[test]
fn a_port_that_is_kept_to_path_mtus_answers_no_probe() {
    let [kept, wide] = [config(Mtu::B1024, 0), config(Mtu::B4096, STRIDE_MAX)];
    for configs in [[kept.clone(), wide.clone()], [wide, kept]] {
        let mut pair = negotiated(configs, Mtu::B1024);
        for _ in 0..20 {
            write(&mut pair, 20_000);
            read(&mut pair, 20_000);
        }
        assert_eq!(pair.nodes[0].endpoint.stats().path_probes_answered, 0);
        let is_probe = |it: &Wire| it.header.bth.opcode == Opcode::RC_PATH_PROBE;
        assert!(pair.sent.iter().all(|it| payload(it) <= 1024 || is_probe(it)));
    }
}

#[test]
fn what_was_not_asked_for_changes_nothing() {
    let mut pair = acquainted();
    let [psn, other] = [Psn::new(5), Psn::new(6)];
    for (opcode, psn, length, mtu) in [
        (Opcode::RC_PATH_PROBE_ANSWER, psn, PROBE, 1_024),
        (Opcode::RC_PATH_PROBE_ANSWER, other, 1_024, 1_024),
        // Too short to be of use, too long for the port, and of another path MTU.
        (Opcode::RC_PATH_PROBE, psn, 1_024, 1_024),
        (Opcode::RC_PATH_PROBE, psn, 0, 1_024),
        (Opcode::RC_PATH_PROBE, psn, PROBE + 128, 1_024),
        (Opcode::RC_PATH_PROBE, psn, PROBE, 512),
    ] {
        let mut header = roce::Repr::new(opcode, pair.nodes[0].qpn, psn);
        header.bth.sign = Sign::Selective;
        header.bth.stride = Stride::fitting(mtu);
        inject(&mut pair, 0, &header, &vec![0; length as usize]);
    }
    let stats = *pair.nodes[0].endpoint.stats();
    assert_eq!((stats.drop_unexpected_response, stats.drop_bad_length), (2, 4));
    pair.sent.clear();
    pair.drive();
    assert_eq!(pair.sent, [], "none is answered");
    write(&mut pair, 20_000);
    read(&mut pair, 20_000);
}

/// The longest header is that of a WRITE with immediate data.
#[test]
fn what_a_path_takes_of_a_probe_it_takes_of_every_packet() {
    for longest in 1_440..1_500 {
        let mut pair = usual();
        pair.rule(move |packet| match packet.bytes.len() > longest {
            true => Verdict::Drop,
            false => Verdict::Deliver,
        });
        for _ in 0..3 {
            write(&mut pair, 20_000);
            read(&mut pair, 20_000);
        }
        let address = pair.nodes[1].sge(0, 0).address;
        let r_key = pair.nodes[1].key;
        let immediate = Some([1; 4]);
        let operation = Operation::Write { remote_address: address, r_key, immediate };
        let from = pair.nodes[0].sge(0, STRIDE);
        pair.post_recv(1, 9, &[]);
        pair.post(0, 9, operation, &[from]);
        pair.drive();
        assert_eq!(statuses(&mut pair.nodes[0]), [(9, CompletionStatus::Success)], "{longest}");
        let stats = pair.nodes[0].endpoint.stats();
        assert_eq!(stats.local_ack_timeout_err, 0, "{longest}");
        let fits = longest >= wire::bth::LEN + PROBE as usize;
        assert_eq!(stats.path_probes_answered, u64::from(fits), "{longest}");
    }
}

#[test]
fn of_a_new_path_nothing_is_known() {
    let mut pair = acquainted();
    let drained = QpChange::to(QpState::Sqd);
    let path = AddressVector {
        gid: pair.nodes[1].gid,
        source_gid: pair.nodes[0].gid,
        hop_limit: 7,
        ..AddressVector::default()
    };
    let moved = QpChange { path: Some(path), ..QpChange::to(QpState::Sqd) };
    let qpn = pair.nodes[0].qpn;
    for change in [drained, moved] {
        pair.nodes[0].endpoint.modify_qp(qpn, &change).unwrap();
    }
    // Posted as long as it is drained.
    let from = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.rule(|packet| match packet.from == 0 && payload(packet) > 1024 {
        true => Verdict::Drop,
        false => Verdict::Deliver,
    });
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Rts)).unwrap();
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    // What the peer sends in long packets tells nothing of this path.
    pair.nodes[1].fill(0, 9_000, 3);
    let from = pair.nodes[1].sge(0, 9_000);
    pair.post(1, 2, pair.write(0, 0), &[from]);
    pair.drive();
    write(&mut pair, 20_000);
    let stats = pair.nodes[0].endpoint.stats();
    assert!(stats.path_probes_sent > 1 && stats.path_probes_answered == 1, "{stats}");
    assert_eq!(stats.local_ack_timeout_err, 0);
}

/// Packets beyond the path MTU pass no more from the `first`th that is sent on.
fn becomes_narrow(pair: &mut Pair, first: u64) {
    let mut left = first;
    pair.rule(move |packet| {
        let is_too_long = left == 0 && payload(packet) > 1024;
        left = left.saturating_sub(1);
        if is_too_long { Verdict::Drop } else { Verdict::Deliver }
    });
}

#[test]
fn on_a_path_that_becomes_narrower_messages_that_have_begun_go_on_in_parts() {
    for (first, is_read) in (0..40).flat_map(|first| [(first, false), (first, true)]) {
        let mut pair = acquainted();
        becomes_narrow(&mut pair, first);
        for id in 0..3 {
            let here = pair.nodes[0].sge(0, 20_000);
            let operation = if is_read { pair.read(1, 0) } else { pair.write(1, 0) };
            pair.post(0, id, operation, &[here]);
        }
        pair.drive();
        let success = CompletionStatus::Success;
        let all = [(0, success), (1, success), (2, success)];
        assert_eq!(statuses(&mut pair.nodes[0]), all, "{first}, {is_read}");
        assert!(pair.nodes[0].endpoint.stats().local_ack_timeout_err < 5);
        // What begins now is in packets of the path MTU.
        pair.sent.clear();
        write(&mut pair, 20_000);
        read(&mut pair, 20_000);
        let is_whole = |it: &Wire| payload(it) <= 1024 && it.header.bth.sign != Sign::Narrowed;
        let is_probe = |it: &Wire| it.header.bth.opcode == Opcode::RC_PATH_PROBE;
        assert!(pair.sent.iter().all(|it| is_whole(it) || is_probe(it)));
    }
}

/// The second pair is of ports of 1,500 and 9,000 bytes: the wider one has never probed, and probes for what it had.
#[test]
fn after_an_outage_a_path_is_probed_and_packets_are_long_again() {
    let [narrow, wide] = [config(Mtu::B1024, STRIDE), config(Mtu::B4096, STRIDE_MAX)];
    for other in [narrow.clone(), wide] {
        let mut pair = connected([narrow.clone(), other], [true, true]);
        write(&mut pair, 5_000);
        write(&mut pair, 20_000);
        for from in [0, 1] {
            let until = pair.now + Span::from_ms(200);
            pair.rule(
                move |packet| if packet.at < until { Verdict::Drop } else { Verdict::Deliver },
            );
            write_from(&mut pair, from);
            assert!(pair.nodes[from].endpoint.stats().local_ack_timeout_err > 0);
            // Long after probes of a new path would have ended.
            pair.drive_for(PATH_PROBE_WAIT_MAX);
            write_from(&mut pair, from);
            pair.sent.clear();
            write_from(&mut pair, from);
            read(&mut pair, 20_000);
            // Who has written, and who was read.
            for sender in [from, 1] {
                assert_eq!(longest(&pair, sender), STRIDE as usize, "node {sender}");
            }
            assert!(pair.sent.iter().all(|it| it.header.part.is_none()));
        }
    }
}

/// A message of 20,000 bytes from a node to the other.
fn write_from(pair: &mut Pair, from: usize) {
    let to = 1 - from;
    pair.nodes[from].fill(0, 20_000, 3);
    let here = pair.nodes[from].sge(0, 20_000);
    pair.post(from, 2, pair.write(to, 0), &[here]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[from]), [(2, CompletionStatus::Success)]);
}

#[test]
fn a_port_has_room_for_whole_strides_alone() {
    let config = config(Mtu::B1024, STRIDE + 100);
    let mut pair = connected([config.clone(), config], [true, true]);
    for length in [5_000, 20_000, 20_000, STRIDE + 1, STRIDE + 100] {
        write(&mut pair, length);
        read(&mut pair, length);
    }
    assert_eq!(pair.nodes[0].endpoint.stats().path_probes_answered, 1);
}

#[test]
fn a_failure_says_how_long_packets_were_and_not_messages() {
    let mut pair = usual();
    write(&mut pair, 5_000);
    write(&mut pair, 20_000);
    pair.rule(|packet| match payload(packet) > 1000 {
        true => Verdict::Drop,
        false => Verdict::Deliver,
    });
    let from = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::RetryExceeded)]);
    let qpn = pair.nodes[0].qpn;
    let unproven = pair.nodes[0].endpoint.failure(qpn).and_then(Failure::unproven);
    assert_eq!(unproven, Some(Unproven { bytes: STRIDE, answered: Some(1024) }));
}

/// The standard has them ignored (IBTA vol 1, 9.2), whatever a peer that is no soft NIC sends in them.
#[test]
fn reserved_bits_of_a_peer_that_never_signed_say_nothing() {
    let long = config(Mtu::B1024, STRIDE);
    let mut pair = connected([long.clone(), long], [true, false]);
    let request = reth::Repr {
        address: pair.nodes[0].sge(0, 0).address,
        r_key: pair.nodes[0].key,
        length: 2_000,
    };
    let psn = pair.nodes[0].endpoint.query_qp(pair.nodes[0].qpn).unwrap().rq_psn;
    let mut header = roce::Repr::new(Opcode::RC_READ_REQUEST, pair.nodes[0].qpn, psn);
    header.bth.stride = Stride::fitting(STRIDE);
    header.reth = Some(request);
    inject(&mut pair, 0, &header, &[]);
    pair.drive();
    assert_eq!(sent(&pair, 0), [(1_024, None), (976, None)]);
}
