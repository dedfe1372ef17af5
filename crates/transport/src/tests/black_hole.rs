//! Paths that become narrower than the packets that they took, without a word (RFC 8899, 4.3).

use core::cell::Cell;
use std::format;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use rdma::{
    CompletionOpcode, CompletionStatus, Mtu, Operation, Psn, QpState, QpType, Rate, Span, Time,
};
use wire::bth::{Sign, Stride};
use wire::opcode::{Operation as Is, Part, Service};
use wire::{Opcode, parteth, reth, roce};

use crate::congestion::Bbr;
use crate::limits::{PART_BYTES, PATH_PROBE_HEADROOM, STRIDE_MAX};
use crate::testing::storm::random::Random;
use crate::testing::{Pair, Verdict, Wire};
use crate::{BetweenHosts, Config, Congestion, QpChange};

/// What an interface of 1,500 bytes has room for.
const STRIDE: u32 = 1408;
/// Of each message.
const LENGTH: u32 = 65_536;
/// Where messages are written to and read from at node 1.
const THERE: u64 = 1 << 23;
/// The identifier of messages that nobody counts.
const SHORT: u64 = u64::MAX;
/// A path that takes packets of any length.
const WIDE: usize = usize::MAX;
/// And one that takes what any Ethernet takes, with the longest header.
const NARROW: usize = 1024 + 64;
/// And of the path MTU, where that is the longest.
const OF_MTU: usize = 4096 + 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Write,
    Send,
    Read,
}

const VERBS: [Verb; 3] = [Verb::Write, Verb::Send, Verb::Read];

/// Two hosts, a path of 1 Gb/s and a millisecond there and back, and how long packets may be that node 0 and node 1 send.
struct Hosts {
    pair: Pair,
    longest: [Rc<Cell<usize>>; 2],
    posted: u64,
    outstanding: u64,
    /// When each message was done.
    done: Vec<Time>,
    /// Messages of node 1 that were.
    back: u64,
}

impl Hosts {
    fn new(stride_max: u32, congestion: Congestion, timeout: u8) -> Self {
        Self::of(Mtu::B1024, [Some(stride_max); 2], congestion, timeout)
    }

    /// Interfaces of 9,000 bytes.
    fn jumbo(timeout: u8) -> Self {
        Self::of(Mtu::B4096, [Some(STRIDE_MAX); 2], bbr(), timeout)
    }

    /// One without a stride is no soft NIC.
    fn of(mtu: Mtu, strides: [Option<u32>; 2], congestion: Congestion, timeout: u8) -> Self {
        let between_hosts = |stride_max| BetweenHosts {
            congestion,
            window_bytes: 1 << 19,
            refill_bytes: 0,
            signs: true,
            out_of_order_packets: 1024,
            out_of_order_bytes: 1 << 20,
            stride_max,
        };
        let config = |stride_max: Option<u32>| {
            let between_hosts = stride_max.map(between_hosts);
            Config { between_hosts, ..Config::default() }
        };
        let mut pair = Pair::unequal(strides.map(config));
        (pair.latency, pair.rate) = (Span::from_us(500), Some(Rate::from_mbps(1_000)));
        pair.connect(QpType::Rc, [None, None], |change: &mut QpChange| match change.state {
            Some(QpState::Rtr) => {
                change.between_hosts = Some(true);
                (change.path_mtu, change.negotiated_mtu) = (Some(mtu), Some(true));
            }
            Some(QpState::Rts) => change.timeout = Some(timeout),
            _ => {}
        });
        let longest = [WIDE, WIDE].map(|it| Rc::new(Cell::new(it)));
        let mut hosts =
            Self { pair, longest, posted: 0, outstanding: 0, done: Vec::new(), back: 0 };
        hosts.rule(|_| Verdict::Deliver);
        hosts
    }

    /// What becomes of packets that are not too long.
    fn rule(&mut self, mut others: impl FnMut(&Wire) -> Verdict + 'static) {
        let longest = self.longest.clone();
        self.pair.rule(move |packet| match packet.bytes.len() > longest[packet.from].get() {
            true => Verdict::Drop,
            false => others(packet),
        });
    }

    /// Where a message is at node 0.
    fn place(index: u64) -> u64 {
        index % 32 * u64::from(LENGTH)
    }

    /// Posts a message, of bytes that depend on its number.
    fn post(&mut self, verb: Verb) {
        let (index, length) = (self.posted, LENGTH as usize);
        let [here, there] = [Self::place(index), THERE + Self::place(index)];
        let [from, to] =
            if verb == Verb::Read { [(1, there), (0, here)] } else { [(0, here), (1, there)] };
        self.pair.nodes[from.0].fill(from.1, length, index as u8);
        self.pair.nodes[to.0].fill(to.1, length, 255 - index as u8);
        let operation = match verb {
            Verb::Write => self.pair.write(1, there),
            Verb::Read => self.pair.read(1, there),
            Verb::Send => {
                let to = self.pair.nodes[1].sge(there, LENGTH);
                self.pair.post_recv(1, index, &[to]);
                Operation::Send { immediate: None, address: None }
            }
        };
        let piece = self.pair.nodes[0].sge(here, LENGTH);
        self.pair.post(0, index, operation, &[piece]);
        self.posted += 1;
        self.outstanding += 1;
    }

    /// Takes completions, which come in order, and looks at what they brought.
    fn take(&mut self) {
        for completion in self.pair.nodes[0].completions() {
            assert_eq!(completion.status, CompletionStatus::Success, "at {}", self.pair.now);
            if completion.id == SHORT {
                continue;
            }
            assert_eq!(completion.id, self.done.len() as u64);
            let [here, there] = [0, THERE].map(|base| base + Self::place(completion.id));
            let here = self.pair.nodes[0].bytes(here, LENGTH as usize);
            let there = self.pair.nodes[1].bytes(there, LENGTH as usize);
            assert!(here == there, "message {}", completion.id);
            self.done.push(self.pair.now);
            self.outstanding -= 1;
        }
        for completion in self.pair.nodes[1].completions() {
            assert_eq!(completion.status, CompletionStatus::Success, "at {}", self.pair.now);
            self.back += u64::from(completion.opcode == CompletionOpcode::Write);
        }
    }

    /// Some that have found long packets, and have nothing to do.
    fn rested() -> Self {
        let mut hosts = Self::new(STRIDE, bbr(), 14);
        hosts.go_on_for(Span::from_ms(50), || Verb::Write);
        hosts.pair.drive();
        hosts.take();
        hosts
    }

    /// Messages one behind the other for so long, eight at a time, each of a verb that is chosen for it.
    fn go_on_for(&mut self, span: Span, mut verb: impl FnMut() -> Verb) {
        let end = self.pair.now + span;
        loop {
            while self.outstanding < 8 {
                self.post(verb());
            }
            if !self.pair.drive_once(end) {
                break;
            }
            self.take();
        }
        self.pair.now = self.pair.now.max(end);
    }

    /// Messages that are done in so long.
    fn done_in(&mut self, span: Span, verb: Verb) -> usize {
        let before = self.done.len();
        self.go_on_for(span, || verb);
        self.done.len() - before
    }

    /// Bytes of payload of the longest packet that is sent in so long, and whether any is a part.
    fn sent_in(&mut self, span: Span, verb: Verb) -> (usize, bool) {
        self.pair.sent.clear();
        self.pair.record();
        self.go_on_for(span, || verb);
        let sent = core::mem::take(&mut self.pair.sent);
        let is_data = |it: &&Wire| {
            !matches!(it.header.facts().operation, Is::PathProbe | Is::PathProbeAnswer)
        };
        let longest = sent.iter().filter(is_data).map(|it| it.bytes.len()).max();
        (longest.unwrap_or(0), sent.iter().any(|it| it.header.part.is_some()))
    }

    /// The same; returns the longest time without a message that was done.
    fn longest_pause(&mut self, span: Span, verb: Verb) -> Span {
        let (since, seen) = (self.pair.now, self.done.len());
        self.go_on_for(span, || verb);
        let moments = [since].into_iter().chain(self.done[seen..].iter().copied());
        let moments: Vec<Time> = moments.chain([self.pair.now]).collect();
        moments.windows(2).map(|two| two[1].since(two[0])).max().unwrap()
    }
}

fn bbr() -> Congestion {
    Congestion::Bbr(Bbr::DEFAULT)
}

/// A timeout of four seconds, so nothing waits for one.
#[test]
fn messages_go_on_after_some_round_trips_whatever_the_timeout_is() {
    for (stride, verb) in
        [STRIDE, STRIDE_MAX].into_iter().flat_map(|it| VERBS.map(|verb| (it, verb)))
    {
        for narrowed in [&[0][..], &[1], &[0, 1]] {
            let mut hosts = Hosts::new(stride, bbr(), 20);
            hosts.go_on_for(Span::from_ms(40), || verb);
            assert_eq!(hosts.pair.nodes[0].endpoint.stats().path_probes_answered, 1);
            for &from in narrowed {
                hosts.longest[from].set(NARROW);
            }
            let pause = hosts.longest_pause(Span::from_ms(150), verb);
            assert!(pause < Span::from_ms(60), "{stride}, {verb:?}, {narrowed:?}: {pause}");
            let pause = hosts.longest_pause(Span::from_ms(50), verb);
            assert!(pause < Span::from_ms(10), "{stride}, {verb:?}, {narrowed:?}: {pause}");
        }
    }
}

/// Those are answered, so the path does not seem silent, and the timer is left.
#[test]
fn a_long_message_among_short_ones_goes_on_after_a_timeout() {
    let mut hosts = Hosts::new(STRIDE, bbr(), 14);
    hosts.go_on_for(Span::from_ms(300), || Verb::Write);
    hosts.longest[0].set(NARROW);
    hosts.post(Verb::Write);
    for _ in 0..300 {
        let piece = hosts.pair.nodes[0].sge(THERE, 64);
        hosts.pair.post(0, SHORT, hosts.pair.write(1, 0), &[piece]);
        hosts.pair.drive_for(Span::from_us(500));
        hosts.take();
    }
    assert_eq!(hosts.outstanding, 0);
    assert!(hosts.pair.nodes[0].endpoint.stats().local_ack_timeout_err <= 1);
}

/// The path is narrow and wide in turn, and loses, duplicates and holds back packets.
#[test]
fn whatever_becomes_of_parts_messages_are_whole() {
    let mut parts = [0; 2];
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let stride = random.pick(&[STRIDE, STRIDE_MAX]);
        let mut hosts = Hosts::new(stride, random.pick(&[bbr(), Congestion::None]), 14);
        let (mut chance, worst) = (random.clone(), random.pick(&[5, 30]));
        hosts.rule(move |_| match chance.below(1_000) {
            it if it < worst => Verdict::Drop,
            it if it < 2 * worst => Verdict::Duplicate,
            it if it < 4 * worst => Verdict::Delay(Span::from_us(chance.below(2_000))),
            _ => Verdict::Deliver,
        });
        hosts.pair.record();
        for _ in 0..8 {
            for longest in &hosts.longest {
                longest.set(random.pick(&[WIDE, NARROW]));
            }
            hosts.go_on_for(Span::from_ms(100), || random.pick(&VERBS));
        }
        hosts.pair.drive();
        hosts.take();
        assert_eq!(hosts.outstanding, 0, "seed {seed}");
        for packet in hosts.pair.sent.iter().filter(|packet| packet.header.part.is_some()) {
            parts[packet.from] += 1;
        }
    }
    assert!(parts.iter().all(|&count| count > 200), "{parts:?}");
}

/// As a queue that is full drops them. A path that was doubted would have been probed again.
#[test]
fn losses_by_chance_are_no_black_hole() {
    for verb in VERBS {
        let mut hosts = Hosts::new(STRIDE, bbr(), 14);
        let mut random = Random::new(7);
        hosts.rule(move |_| match random.below(100) {
            0..3 => Verdict::Drop,
            _ => Verdict::Deliver,
        });
        hosts.go_on_for(Span::from_ms(1_000), || verb);
        let stats = hosts.pair.nodes[0].endpoint.stats();
        assert!(stats.retransmitted_pkts > 100, "{stats}");
        assert_eq!(stats.path_probes_answered, 1, "{verb:?}: {stats}");
    }
}

/// Of memory that is deregistered no part leaves any more.
#[test]
fn parts_do_not_outlive_the_region_that_they_are_of() {
    let mut hosts = Hosts::new(STRIDE_MAX, bbr(), 14);
    hosts.go_on_for(Span::from_ms(50), || Verb::Write);
    while hosts.outstanding > 0 {
        hosts.pair.drive();
        hosts.take();
    }
    hosts.longest[1].set(NARROW);
    hosts.post(Verb::Read);
    hosts.pair.record();
    let parts = |hosts: &Hosts| {
        let is_part = |packet: &&Wire| packet.header.part.is_some();
        hosts.pair.sent.iter().filter(is_part).count()
    };
    while parts(&hosts) == 0 {
        assert!(hosts.pair.drive_once(hosts.pair.now + Span::from_ms(1_000)));
    }
    let key = hosts.pair.nodes[1].key;
    hosts.pair.nodes[1].endpoint.deregister(key).unwrap();
    hosts.pair.drive();
    assert_eq!(parts(&hosts), 1);
    assert_ne!(super::only(&mut hosts.pair.nodes[0]).status, CompletionStatus::Success);
}

/// It says that the peer does not repeat selectively, until the next of its own packets.
#[test]
fn a_forged_packet_without_a_sign_holds_up_no_parts() {
    let mut hosts = Hosts::rested();
    hosts.longest[0].set(NARROW);
    // Of packets that are too long alone.
    let piece = hosts.pair.nodes[0].sge(0, 2 * STRIDE);
    hosts.pair.post(0, SHORT, hosts.pair.write(1, THERE), &[piece]);
    hosts.pair.drive_for(Span::from_ms(1));
    let qpn = hosts.pair.nodes[1].qpn;
    let psn = hosts.pair.nodes[1].endpoint.query_qp(qpn).unwrap().rq_psn.minus(1);
    let opcode = Opcode::write(Service::Rc, Part::Middle, false);
    let header = roce::Repr::new(opcode, qpn, psn);
    super::inject(&mut hosts.pair, 1, &header, &[]);
    hosts.pair.drive();
    assert_eq!(super::only(&mut hosts.pair.nodes[0]).status, CompletionStatus::Success);
}

/// Whatever a peer makes of them.
#[test]
fn parts_that_make_no_packet_are_dropped() {
    let mut hosts = Hosts::rested();
    let before = *hosts.pair.nodes[1].endpoint.stats();
    let psn = hosts.pair.nodes[1].endpoint.query_qp(hosts.pair.nodes[1].qpn).unwrap().rq_psn;
    let mut inject = |psn: Psn, offset, whole, length: usize| {
        let opcode = Opcode::write(Service::Rc, Part::Only, false).part();
        let mut header = roce::Repr::new(opcode, hosts.pair.nodes[1].qpn, psn);
        header.bth.sign = Sign::Narrowed;
        header.bth.stride = Stride::fitting(STRIDE);
        let (address, r_key) = (hosts.pair.nodes[1].sge(0, 0).address, hosts.pair.nodes[1].key);
        header.reth = Some(reth::Repr { address, r_key, length: u32::from(whole) });
        header.part = Some(parteth::Repr { offset, whole });
        header.pad_for(length as u32);
        super::inject(&mut hosts.pair, 1, &header, &vec![9; length.next_multiple_of(4)]);
        let stats = hosts.pair.nodes[1].endpoint.stats();
        (
            stats.drop_bad_length - before.drop_bad_length,
            stats.rx_write_requests - before.rx_write_requests,
        )
    };
    for (dropped, (offset, whole, length)) in (1..).zip([
        // Of a packet of the path MTU, of one that is too long, between two parts, behind the end, and too short or too long.
        (0, 1_024, 1_024),
        (0, 1_412, 1_024),
        (0, u16::MAX, 1_024),
        (512, 1_408, 896),
        (2_048, 1_408, 0),
        (u16::MAX, 1_408, 0),
        (0, 1_408, 1_020),
        (1_024, 1_408, 388),
        (0, 0, 0),
    ]) {
        assert_eq!(inject(psn, offset, whole, length), (dropped, 0));
    }
    // The same one twice, of the packet of a former message, far ahead, and then the other.
    for psn in [psn, psn, psn.minus(1), psn.plus(1), psn.plus(5_000)] {
        assert_eq!(inject(psn, 0, 1_408, 1_024), (9, 0));
    }
    assert_eq!(inject(psn, 1_024, 1_408, 384), (9, 1));
    assert_eq!(inject(psn.plus(1), 1_024, 1_408, 384), (9, 2));
    assert_eq!(hosts.pair.nodes[1].bytes(0, 1_408), [9; 1_408]);
}

/// From 9,000 to 1,500 bytes, where packets of the path MTU are too long, too. Nothing waits for the timeout of four seconds. The second
/// hosts had found no more than the path MTU.
#[test]
fn messages_go_on_where_packets_of_the_path_mtu_pass_no_more() {
    for (before, verb) in [WIDE, OF_MTU].into_iter().flat_map(|it| VERBS.map(|verb| (it, verb))) {
        for narrowed in [&[0][..], &[1], &[0, 1]] {
            let mut hosts = Hosts::jumbo(20);
            hosts.longest.iter().for_each(|it| it.set(before));
            hosts.go_on_for(Span::from_ms(60), || verb);
            let usual = hosts.done_in(Span::from_ms(100), verb);
            for &from in narrowed {
                hosts.longest[from].set(NARROW);
            }
            let about = format!("{before}, {verb:?}, {narrowed:?}");
            let pause = hosts.longest_pause(Span::from_ms(150), verb);
            assert!(pause < Span::from_ms(60), "{about}: {pause}");
            let pause = hosts.longest_pause(Span::from_ms(50), verb);
            assert!(pause < Span::from_ms(10), "{about}: {pause}");
            let done = hosts.done_in(Span::from_ms(100), verb);
            assert!(done * 4 > usual * 3, "{about}: {done} of {usual}");
        }
    }
}

#[test]
fn messages_begin_to_pass_after_a_timeout_where_packets_of_the_path_mtu_never_did() {
    for verb in VERBS {
        for narrowed in [&[0][..], &[1], &[0, 1]] {
            let mut hosts = Hosts::jumbo(14);
            for &from in narrowed {
                hosts.longest[from].set(NARROW);
            }
            let about = format!("{verb:?}, {narrowed:?}");
            let pause = hosts.longest_pause(Span::from_ms(150), verb);
            assert!(pause < Span::from_ms(100), "{about}: {pause}");
            let stats = hosts.pair.nodes[0].endpoint.stats();
            assert!(stats.local_ack_timeout_err <= 1, "{about}: {stats}");
            let pause = hosts.longest_pause(Span::from_ms(50), verb);
            assert!(pause < Span::from_ms(10), "{about}: {pause}");
            // Of 190 that a gigabit brings.
            let done = hosts.done_in(Span::from_ms(100), verb);
            assert!(done > 130, "{about}: {done}");
        }
    }
}

/// Node 1 writes as well, and atomics are between the messages of node 0.
#[test]
fn in_both_directions_messages_of_all_verbs_pass_beside_each_other() {
    let mut hosts = Hosts::jumbo(14);
    hosts.longest.iter().for_each(|it| it.set(NARROW));
    let mut random = Random::new(3);
    for id in 0..40 {
        hosts.post(random.pick(&VERBS));
        let r_key = hosts.pair.nodes[1].key;
        let remote_address = hosts.pair.nodes[1].sge(2 * THERE - 8, 8).address;
        let add = Operation::FetchAdd { remote_address, r_key, add: 1 };
        let word = hosts.pair.nodes[0].sge(2 * THERE - 8, 8);
        hosts.pair.post(0, SHORT, add, &[word]);
        let piece = hosts.pair.nodes[1].sge(THERE + THERE / 2, LENGTH);
        hosts.pair.post(1, id, hosts.pair.write(0, THERE + THERE / 2), &[piece]);
    }
    hosts.pair.drive();
    hosts.take();
    assert_eq!((hosts.outstanding, hosts.back), (0, 40));
    assert_eq!(hosts.pair.nodes[1].bytes(2 * THERE - 8, 8), 40_u64.to_ne_bytes());
}

/// It knows of its peer by that one's requests alone.
#[test]
fn the_first_read_of_a_peer_passes_though_the_path_has_become_narrow_before() {
    let mut hosts = Hosts::jumbo(14);
    hosts.go_on_for(Span::from_ms(50), || Verb::Write);
    hosts.longest.iter().for_each(|it| it.set(NARROW));
    // None of the packets that would answer it is short.
    let piece = hosts.pair.nodes[1].sge(THERE + THERE / 2, LENGTH);
    hosts.pair.post(1, 1, hosts.pair.read(0, 0), &[piece]);
    hosts.pair.drive_for(Span::from_ms(200));
    let completions = hosts.pair.nodes[1].completions();
    let read = completions.iter().find(|it| it.opcode == CompletionOpcode::Read);
    assert_eq!(read.map(|it| it.status), Some(CompletionStatus::Success));
}

/// By the probe that is answered then.
#[test]
fn packets_are_long_again_once_the_path_is_wide() {
    for verb in VERBS {
        for wide in [OF_MTU, WIDE] {
            let mut hosts = Hosts::jumbo(14);
            hosts.longest.iter().for_each(|it| it.set(NARROW));
            hosts.go_on_for(Span::from_ms(150), || verb);
            let (longest, in_parts) = hosts.sent_in(Span::from_ms(20), verb);
            assert!(longest <= NARROW && in_parts, "{verb:?}: {longest}");
            hosts.longest.iter().for_each(|it| it.set(wide));
            hosts.go_on_for(Span::from_ms(1_300), || verb);
            let (longest, in_parts) = hosts.sent_in(Span::from_ms(20), verb);
            let least = if wide == WIDE { STRIDE_MAX } else { 4_096 } as usize;
            assert!(longest > least && !in_parts, "{verb:?}, {wide}: {longest}");
        }
    }
}

#[test]
fn parts_that_are_lost_by_chance_cost_little() {
    for verb in VERBS {
        let mut hosts = Hosts::jumbo(14);
        hosts.longest.iter().for_each(|it| it.set(NARROW));
        let mut random = Random::new(5);
        hosts.rule(move |_| if random.below(100) == 0 { Verdict::Drop } else { Verdict::Deliver });
        hosts.go_on_for(Span::from_ms(300), || verb);
        // Of 880 without losses: four in a hundred packets lack a part.
        let done = hosts.done_in(Span::from_ms(500), verb);
        let least = if verb == Verb::Read { 400 } else { 780 };
        assert!(done > least, "{verb:?}: {done}");
    }
}

/// What becomes of one message.
struct Course {
    /// Path probes of node 0, by their bytes of payload, and its other packets.
    probes: Vec<usize>,
    others: Vec<(Time, Vec<u8>)>,
    /// When all is over.
    end: Time,
}

fn course(mut hosts: Hosts, verb: Verb) -> Course {
    hosts.pair.rate = None;
    hosts.pair.record();
    hosts.post(verb);
    hosts.pair.drive();
    let stats = hosts.pair.nodes[0].endpoint.stats();
    let sent = hosts.pair.sent.iter().filter(|it| it.from == 0);
    let is_probe = |it: &&Wire| it.header.bth.opcode == Opcode::RC_PATH_PROBE;
    let (probes, others): (Vec<&Wire>, Vec<&Wire>) = sent.partition(is_probe);
    assert!(probes.len() as u64 <= stats.local_ack_timeout_err, "{stats}");
    let probes = probes.iter().map(|it| it.bytes.len() - it.header.header_len()).collect();
    let others = others.iter().map(|it| (it.at, it.bytes.clone())).collect();
    Course { probes, others, end: hosts.pair.now }
}

/// One that is gone, and one that is no soft NIC, to which packets of the path MTU do not pass for a while: but for a short probe
/// beside a timeout everything is as if there were no parts, and as late.
#[test]
fn a_peer_that_is_not_known_is_sent_short_probes_and_nothing_else_that_is_new() {
    let gone = (Some(STRIDE_MAX), 0, Span::from_ms(100_000));
    let other = (None, NARROW, Span::from_ms(300));
    for (verb, (peer, longest, span)) in VERBS.into_iter().flat_map(|it| [(it, gone), (it, other)])
    {
        let of = |stride| {
            let strides = [Some(stride), peer];
            let mut hosts = Hosts::of(Mtu::B4096, strides, Congestion::None, 14);
            hosts.rule(move |it| match it.at < Time::ZERO + span && it.bytes.len() > longest {
                true => Verdict::Drop,
                false => Verdict::Deliver,
            });
            hosts
        };
        let [with, without] = [STRIDE_MAX, 0].map(|stride| course(of(stride), verb));
        let is_same = with.others == without.others && with.end == without.end;
        assert!(is_same, "{verb:?}, {longest}");
        let short = (PART_BYTES + PATH_PROBE_HEADROOM) as usize;
        let Course { probes, .. } = with;
        assert!(probes.len() > 1 && probes.iter().all(|it| *it == short), "{probes:?}");
        assert_eq!(without.probes, []);
    }
}

/// It was known, and it is noticed as soon as without parts that it is gone.
#[test]
fn a_peer_that_goes_is_noticed_as_soon_as_ever() {
    let noticed = |stride| {
        let mut hosts = Hosts::of(Mtu::B4096, [Some(stride); 2], Congestion::None, 14);
        hosts.go_on_for(Span::from_ms(100), || Verb::Write);
        hosts.pair.drive();
        hosts.take();
        let since = hosts.pair.now;
        hosts.longest.iter().for_each(|it| it.set(0));
        hosts.post(Verb::Write);
        hosts.pair.drive();
        assert_eq!(super::only(&mut hosts.pair.nodes[0]).status, CompletionStatus::RetryExceeded);
        let timeouts = hosts.pair.nodes[0].endpoint.stats().local_ack_timeout_err;
        (timeouts, hosts.pair.now.since(since).as_ps() / 1_000_000_000)
    };
    assert_eq!(noticed(STRIDE_MAX), noticed(0));
}

/// It was late, and nothing is known of it but that. Packets are soon long.
#[test]
fn a_peer_that_comes_late_is_on_no_narrow_path() {
    for verb in VERBS {
        let mut hosts = Hosts::jumbo(14);
        hosts.longest.iter().for_each(|it| it.set(0));
        hosts.go_on_for(Span::from_ms(100), || verb);
        hosts.longest.iter().for_each(|it| it.set(WIDE));
        hosts.go_on_for(Span::from_ms(150), || verb);
        let (longest, in_parts) = hosts.sent_in(Span::from_ms(20), verb);
        assert!(longest > STRIDE_MAX as usize && !in_parts, "{verb:?}: {longest}");
    }
}

/// Its answer to a short probe comes before all others, and long probes are not answered, as they do not come back.
#[test]
fn a_peer_that_is_slow_is_on_no_narrow_path() {
    for verb in [Verb::Write, Verb::Send] {
        let mut hosts = Hosts::jumbo(14);
        hosts.longest[1].set(NARROW);
        hosts.go_on_for(Span::from_ms(100), || verb);
        let (sleeps, wakes) = (hosts.pair.now, hosts.pair.now + Span::from_ms(300));
        hosts.rule(move |it| match it.from == 0 && it.at >= sleeps && it.at < wakes {
            true => Verdict::Delay(wakes.since(it.at)),
            false => Verdict::Deliver,
        });
        hosts.go_on_for(Span::from_ms(305), || verb);
        let stats = hosts.pair.nodes[0].endpoint.stats();
        assert!(stats.local_ack_timeout_err > 0, "{stats}");
        let (longest, in_parts) = hosts.sent_in(Span::from_ms(100), verb);
        assert!(longest > 4_096 && !in_parts, "{verb:?}: {longest}");
    }
}

/// It says that answers do not pass whole, until the next of its own.
#[test]
fn a_forged_request_makes_no_answers_leave_in_parts() {
    let mut hosts = Hosts::jumbo(14);
    hosts.go_on_for(Span::from_ms(50), || Verb::Read);
    hosts.pair.drive();
    hosts.take();
    let psn = hosts.pair.nodes[1].endpoint.query_qp(hosts.pair.nodes[1].qpn).unwrap().rq_psn;
    for stride in [Stride::PATH_MTU, Stride::fitting(STRIDE_MAX)] {
        let opcode = Opcode::write(Service::Rc, Part::Middle, false);
        let mut header = roce::Repr::new(opcode, hosts.pair.nodes[1].qpn, psn.minus(1));
        (header.bth.sign, header.bth.stride) = (Sign::Narrowed, stride);
        super::inject(&mut hosts.pair, 1, &header, &[]);
        let (longest, in_parts) = hosts.sent_in(Span::from_ms(5), Verb::Read);
        assert!(longest > STRIDE_MAX as usize && !in_parts, "{longest}");
        hosts.pair.drive();
        hosts.take();
    }
}

/// Nothing waits for it, or something does and all is well otherwise.
#[test]
fn an_answer_to_a_short_probe_narrows_nothing_by_itself() {
    let mut hosts = Hosts::jumbo(14);
    // Its own are lost, so the first probe is not answered, and has the first PSN.
    hosts.longest[1].set(OF_MTU);
    hosts.go_on_for(Span::from_ms(5), || Verb::Write);
    let probe = Opcode::RC_PATH_PROBE_ANSWER;
    for ahead in 0..64 {
        let psn = hosts.pair.nodes[1].endpoint.query_qp(hosts.pair.nodes[1].qpn).unwrap().rq_psn;
        let mut header = roce::Repr::new(probe, hosts.pair.nodes[0].qpn, psn.minus(ahead));
        (header.bth.sign, header.bth.stride) = (Sign::Selective, Stride::fitting(4_096));
        let zeros = [0; (PART_BYTES + PATH_PROBE_HEADROOM) as usize];
        super::inject(&mut hosts.pair, 0, &header, &zeros);
    }
    let (longest, in_parts) = hosts.sent_in(Span::from_ms(5), Verb::Write);
    assert!(longest > 4_096 && !in_parts, "{longest}");
}

/// Of packets of a path MTU of 4,096: a part ends where one of the shortest may, or with its packet.
#[test]
fn parts_of_several_lengths_make_a_packet() {
    for lengths in [&[1_024, 1_024, 1_024, 1_024][..], &[2_048, 2_048], &[4_096, 4_736]] {
        let mut hosts = Hosts::jumbo(14);
        hosts.go_on_for(Span::from_ms(50), || Verb::Write);
        hosts.pair.drive();
        hosts.take();
        let node = &hosts.pair.nodes[1];
        let psn = node.endpoint.query_qp(node.qpn).unwrap().rq_psn;
        let whole: u16 = lengths.iter().sum();
        let opcode = Opcode::write(Service::Rc, Part::Only, false).part();
        let mut header = roce::Repr::new(opcode, node.qpn, psn);
        (header.bth.sign, header.bth.stride) = (Sign::Narrowed, Stride::fitting(STRIDE_MAX));
        let (address, r_key) = (node.sge(0, 0).address, node.key);
        header.reth = Some(reth::Repr { address, r_key, length: whole.into() });
        let before = node.endpoint.stats().rx_write_requests;
        let mut offset = whole;
        for (index, length) in lengths.iter().enumerate().rev() {
            offset -= length;
            header.part = Some(parteth::Repr { offset, whole });
            super::inject(
                &mut hosts.pair,
                1,
                &header,
                &vec![1 + index as u8; usize::from(*length)],
            );
        }
        let stats = hosts.pair.nodes[1].endpoint.stats();
        assert_eq!(stats.rx_write_requests, before + 1, "{lengths:?}: {stats}");
        let last = hosts.pair.nodes[1].bytes(u64::from(whole) - 1, 1);
        assert_eq!(last, [lengths.len() as u8]);
    }
}
