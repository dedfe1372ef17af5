//! guo16, 4.1: a switch that drops every packet whose IP ID ends in 0xff, and messages of 4 MB.
//!
//! The link is that of the paper, 40 Gb/s. The one-way delay is one that a data centre has, chosen so
//! that what is sent again after a loss is not as long as the drops are apart: counted as they are,
//! the same packet would be lost for ever.

use core::cell::RefCell;
use std::rc::Rc;
use std::vec::Vec;

use rdma::{CompletionStatus, QpState, QpType, Rate, Span, Time};
use wire::aeth::{NakCode, Syndrome};

use crate::testing::{Pair, Verdict, Wire, on_wire};
use crate::{Config, Recovery};

const RATE: Rate = Rate::from_gbps(40);
const LATENCY: Span = Span::from_us(10);
const MESSAGE: u32 = 4 << 20;
/// Payload of a packet.
const MTU: u64 = 1024;
/// BTH, and the AETH of an acknowledgement.
const HEADER: usize = 12;
const ACKNOWLEDGEMENT: usize = 16;

const SEQUENCE_ERROR: Syndrome = Syndrome::Nak(NakCode::SequenceError);

/// Which packets the switch has dropped, by [`Wire::index`].
type Dropped = Rc<RefCell<Vec<u64>>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Send,
    Write,
    Read,
}

const VERBS: [Verb; 3] = [Verb::Send, Verb::Write, Verb::Read];

/// Two hosts and the switch between them, and `messages` that wait to be sent.
fn experiment(recovery: Recovery, verb: Verb, messages: u64) -> (Pair, Dropped) {
    let selective = recovery == Recovery::SelectiveRepeat;
    let config = Config {
        recovery,
        window_bytes: u64::MAX,
        read_chunk_bytes: if selective { 128 << 10 } else { u32::MAX },
        ..Config::default()
    };
    let mut pair = Pair::new(config);
    (pair.rate, pair.latency) = (Some(RATE), LATENCY);
    pair.connect(QpType::Rc, [None, None], |change| {
        if change.state == Some(QpState::Rtr) && selective {
            change.selective_repeat = Some(true);
        }
        // 1 ms: the switch drops NAKs as well.
        change.timeout = change.timeout.map(|_| 8);
    });
    pair.record();
    let dropped = Dropped::default();
    let drops = dropped.clone();
    // A NIC numbers what it sends, whatever it is.
    let mut ids = [0_u16; 2];
    pair.rule(move |packet| {
        let id = &mut ids[packet.from];
        *id = id.wrapping_add(1);
        if *id & 0xff == 0xff {
            drops.borrow_mut().push(packet.index);
            return Verdict::Drop;
        }
        Verdict::Deliver
    });
    pair.nodes[0].fill(0, MESSAGE as usize, 1);
    pair.nodes[1].fill(0, MESSAGE as usize, 1);
    let here = pair.nodes[0].sge(if verb == Verb::Read { 8 << 20 } else { 0 }, MESSAGE);
    let there = pair.nodes[1].sge(8 << 20, MESSAGE);
    for id in 0..messages {
        pair.post_recv(1, id, &[there]);
        let operation = match verb {
            Verb::Send => Pair::send(),
            Verb::Write => pair.write(1, 8 << 20),
            Verb::Read => pair.read(1, 0),
        };
        pair.post(0, id, operation, &[here]);
    }
    (pair, dropped)
}

/// The node that sends the data.
fn source(verb: Verb) -> usize {
    usize::from(verb == Verb::Read)
}

/// What a node has sent.
fn sent_by(pair: &Pair, node: usize) -> impl Iterator<Item = &Wire> {
    pair.sent.iter().filter(move |packet| packet.from == node)
}

/// The part of the time that the link from `node` has been in use, in thousandths.
fn utilisation(pair: &Pair, node: usize) -> u64 {
    let bytes = sent_by(pair, node).map(|packet| on_wire(packet.bytes.len())).sum();
    RATE.time_of(bytes).as_ps() * 1000 / pair.now.since(Time::from_ns(1)).as_ps()
}

/// All messages have arrived, as they are.
fn check_delivered(pair: &mut Pair, verb: Verb, messages: u64) {
    let done = pair.nodes[0].completions();
    assert!(done.iter().all(|completion| completion.status == CompletionStatus::Success));
    assert_eq!(done.len() as u64, messages, "{verb:?}");
    let target = usize::from(verb != Verb::Read);
    let expected = pair.nodes[1 - target].bytes(0, MESSAGE as usize);
    assert!(pair.nodes[target].bytes(8 << 20, MESSAGE as usize) == expected, "{verb:?}");
}

/// guo16.livelock.go-back-0.
#[test]
fn go_back_0_delivers_nothing_while_the_link_is_full() {
    for verb in VERBS {
        let (mut pair, dropped) = experiment(Recovery::GoBack0, verb, 2);
        // A message takes less than one.
        pair.drive_for(Span::from_ms(10));
        assert_eq!(pair.nodes[0].completions(), [], "{verb:?}");
        assert_eq!(pair.nodes[1].completions(), [], "{verb:?}");
        assert!(dropped.borrow().len() > 100, "{verb:?}");
        let utilisation = utilisation(&pair, source(verb));
        assert!(utilisation >= 990, "{verb:?}: the link is used {utilisation} / 1000 of the time");
    }
}

/// guo16.livelock.go-back-n.
#[test]
fn go_back_n_finishes_and_wastes_at_most_a_round_trip_for_each_drop() {
    // From the beginning of a packet to the end of the answer to it.
    let data = RATE.time_of(on_wire(HEADER + MTU as usize));
    let round_trip = LATENCY * 2 + data + RATE.time_of(on_wire(ACKNOWLEDGEMENT));
    let capacity = round_trip.as_ps() / RATE.time_of(1).as_ps();
    // And the packet that is leaving when the answer comes, which is not recalled; the first of a
    // message, or of the answer to a READ, has a longer header.
    let bound = capacity + 2 * on_wire(HEADER + 16 + MTU as usize);
    for verb in VERBS {
        let (mut pair, dropped) = experiment(Recovery::GoBackN, verb, 2);
        pair.drive();
        check_delivered(&mut pair, verb, 2);
        let node = source(verb);
        let (mut checked, mut unsaid) = (0, 0);
        for &index in dropped.borrow().iter() {
            let lost = &pair.sent[index as usize];
            if lost.from != node {
                continue;
            }
            let psn = lost.header.bth.psn;
            let after = || sent_by(&pair, node).filter(|packet| packet.index > index);
            let again = after().find(|packet| packet.header.bth.psn == psn);
            let again = again.expect("what is lost is sent again").index;
            // A NAK, or a READ that asks again. If it was dropped as well, a timeout has to notice
            // this drop, and those until then.
            let is_said = pair.sent[index as usize..again as usize].iter().any(|answer| {
                let header = &answer.header;
                let is_nak = header.aeth.is_some_and(|aeth| aeth.syndrome == SEQUENCE_ERROR);
                answer.from != node
                    && header.bth.psn == psn
                    && (is_nak || header.reth.is_some())
                    && !dropped.borrow().contains(&answer.index)
            });
            if !is_said {
                unsaid += 1;
                continue;
            }
            let wasted: u64 = after()
                .take_while(|packet| packet.index < again)
                .map(|packet| on_wire(packet.bytes.len()))
                .sum();
            assert!(wasted <= bound, "{verb:?}: {wasted} bytes for one drop, of {bound}");
            // It is that much, too, unless the message ended.
            checked += u64::from(wasted + bound / 10 >= capacity);
        }
        assert!(checked >= 30 && unsaid <= 5, "{verb:?}: {checked} drops, {unsaid} others");
    }
}

/// What the paper's authors could not have: only what was dropped is sent again.
#[test]
fn selective_repeat_sends_again_what_was_dropped_and_nothing_else() {
    for verb in VERBS {
        let messages = 4;
        let (mut pair, dropped) = experiment(Recovery::SelectiveRepeat, verb, messages);
        pair.drive();
        check_delivered(&mut pair, verb, messages);
        let node = source(verb);
        let lost = dropped.borrow();
        let lost = lost.iter().filter(|&&index| pair.sent[index as usize].from == node).count();
        let is_data = |packet: &&Wire| packet.header.facts().payload;
        let sent = sent_by(&pair, node).filter(is_data).count();
        let needed = (messages * u64::from(MESSAGE) / MTU) as usize;
        assert_eq!(sent, needed + lost, "{verb:?}");
        assert_eq!(lost, (sent_by(&pair, node).count() + 1) / 256, "{verb:?}");
        assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0, "{verb:?}");
        // Of the link, 255 / 256 bring something; the beginning and the end take a round trip.
        let payload = RATE.time_of(needed as u64 * on_wire(HEADER + MTU as usize)).as_ps();
        let goodput = payload * 1000 / pair.now.since(Time::from_ns(1)).as_ps();
        assert!(goodput >= 970, "{verb:?}: {goodput} / 1000");
    }
}
