//! Every error completion, and what comes with it.

use rdma::{Access, CompletionStatus, Key, Operation, QpState, QpType, SendFlags, Sge, Span};
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;
use wire::aeth::{self, NakCode, Syndrome};
use wire::opcode::Part;
use wire::{Opcode, roce};

use super::{only, statuses, take_one};
use crate::failure::Unproven;
use crate::testing::{Pair, TestMemory, Verdict};
use crate::{Arrival, Event, PostError, QpChange, RegionSpec};

fn state(pair: &Pair, index: usize) -> QpState {
    let node = &pair.nodes[index];
    node.endpoint.query_qp(node.qpn).unwrap().state
}

/// Posts `operation` between two good WRITEs and expects `status` for it, and the second flushed.
fn fails_with(pair: &mut Pair, operation: Operation, sges: &[Sge], status: CompletionStatus) {
    let from = pair.nodes[0].sge(0, 5000);
    let good = pair.write(1, 0);
    pair.post(0, 1, good, &[from]);
    pair.post(0, 2, operation, sges);
    pair.post(0, 3, good, &[from]);
    pair.drive();
    assert_eq!(
        statuses(&mut pair.nodes[0]),
        [(1, CompletionStatus::Success), (2, status), (3, CompletionStatus::Flushed)]
    );
    assert_eq!(state(pair, 0), QpState::Error);
}

#[test]
fn a_local_key_that_does_not_fit_is_a_local_protection_error() {
    for broken in ["key", "bounds", "read target without the right"] {
        let mut pair = Pair::connected(QpType::Rc);
        let mut sge = pair.nodes[0].sge(0, 100);
        let mut operation = pair.write(1, 0);
        match broken {
            "key" => sge.l_key = Key(0x1234_5678),
            "bounds" => sge.address = TestMemory::BASE - 1,
            _ => {
                let pd = pair.nodes[0].pd;
                let region = RegionSpec {
                    address: TestMemory::BASE,
                    length: 100,
                    iova: TestMemory::BASE,
                    access: Access::NONE,
                };
                sge.l_key = pair.nodes[0].endpoint.register(pd, region).unwrap();
                operation = pair.read(1, 0);
            }
        }
        fails_with(&mut pair, operation, &[sge], CompletionStatus::LocalProtection);
        assert_eq!(state(&pair, 1), QpState::Rts, "the peer hears nothing of it");
    }
}

#[test]
fn a_remote_key_that_does_not_fit_is_a_remote_access_error() {
    let operations = |pair: &Pair| {
        let (remote_address, r_key) = (TestMemory::BASE, pair.nodes[1].key);
        let wrong = Key(r_key.0 ^ 1);
        let outside = TestMemory::BASE + (1 << 24) - 8;
        vec![
            (Operation::Write { remote_address, r_key: wrong, immediate: None }, 100),
            (Operation::Write { remote_address: outside, r_key, immediate: None }, 9),
            (Operation::Write { remote_address: u64::MAX - 1, r_key, immediate: None }, 9),
            (Operation::Read { remote_address, r_key: wrong }, 100),
            (Operation::Read { remote_address: outside, r_key }, 9),
            (Operation::FetchAdd { remote_address, r_key: wrong, add: 1 }, 8),
            (Operation::CompareSwap { remote_address: 0, r_key, compare: 1, swap: 1 }, 8),
        ]
    };
    for index in 0..operations(&Pair::connected(QpType::Rc)).len() {
        let mut pair = Pair::connected(QpType::Rc);
        let (operation, length) = operations(&pair)[index];
        let sge = pair.nodes[0].sge(0, length);
        fails_with(&mut pair, operation, &[sge], CompletionStatus::RemoteAccess);
        assert_eq!(state(&pair, 1), QpState::Error);
        assert!(pair.nodes[1].events.contains(&Event::QpAccessError(pair.nodes[1].qpn)));
        assert_eq!(pair.nodes[1].endpoint.stats().resp_remote_access_errors, 1);
    }
}

#[test]
fn a_zero_length_request_needs_no_key() {
    let mut pair = Pair::connected(QpType::Rc);
    let (remote_address, r_key) = (0, Key(0));
    pair.post(0, 1, Operation::Write { remote_address, r_key, immediate: None }, &[]);
    pair.post(0, 2, Operation::Read { remote_address, r_key }, &[]);
    pair.drive();
    assert_eq!(
        statuses(&mut pair.nodes[0]),
        [(1, CompletionStatus::Success), (2, CompletionStatus::Success)]
    );
}

#[test]
fn what_the_queue_pair_does_not_allow_is_a_remote_invalid_request() {
    let (remote_address, r_key) = (TestMemory::BASE, Key(0));
    for operation in [
        Operation::Read { remote_address, r_key },
        Operation::FetchAdd { remote_address, r_key, add: 1 },
        Operation::FetchAdd { remote_address: remote_address + 4, r_key, add: 1 },
    ] {
        let mut pair = Pair::default();
        pair.connect(QpType::Rc, [None, None], |change| {
            if change.access.is_some() {
                change.access = Some(Access::REMOTE_WRITE);
            }
        });
        let sge = pair.nodes[0].sge(0, 8);
        fails_with(&mut pair, operation, &[sge], CompletionStatus::RemoteInvalidRequest);
        assert!(pair.nodes[1].events.contains(&Event::QpRequestError(pair.nodes[1].qpn)));
    }
}

#[test]
fn a_message_longer_than_the_receive_fails_at_both_ends() {
    let mut pair = Pair::connected(QpType::Rc);
    let (from, to) = (pair.nodes[0].sge(0, 3000), pair.nodes[1].sge(0, 2999));
    pair.post_recv(1, 5, &[to]);
    pair.post_recv(1, 6, &[to]);
    fails_with(&mut pair, Pair::send(), &[from], CompletionStatus::RemoteInvalidRequest);
    assert_eq!(
        statuses(&mut pair.nodes[1]),
        [(5, CompletionStatus::LocalLength), (6, CompletionStatus::Flushed)]
    );
}

#[test]
fn a_receive_with_a_bad_key_fails_at_both_ends() {
    let mut pair = Pair::connected(QpType::Rc);
    let from = pair.nodes[0].sge(0, 3000);
    let to = Sge { l_key: Key(0x99), ..pair.nodes[1].sge(0, 4096) };
    pair.post_recv(1, 5, &[to]);
    fails_with(&mut pair, Pair::send(), &[from], CompletionStatus::RemoteOperation);
    assert_eq!(statuses(&mut pair.nodes[1]), [(5, CompletionStatus::LocalProtection)]);
}

#[test]
fn memory_that_is_gone_under_a_region_fails_the_request_and_nothing_else() {
    let far = |pair: &Pair, index: usize| {
        // Registered, but not mapped.
        (
            pair.nodes[index].pd,
            RegionSpec {
                address: 64,
                length: 1 << 20,
                iova: 64,
                access: Access::from_bits(15).unwrap(),
            },
        )
    };
    let mut pair = Pair::connected(QpType::Rc);
    let (pd, region) = far(&pair, 0);
    let l_key = pair.nodes[0].endpoint.register(pd, region).unwrap();
    let gone = Sge { address: 64, length: 5000, l_key };
    let write = pair.write(1, 0);
    fails_with(&mut pair, write, &[gone], CompletionStatus::LocalProtection);

    for reads in [false, true] {
        let mut pair = Pair::connected(QpType::Rc);
        let (pd, region) = far(&pair, 1);
        let r_key = pair.nodes[1].endpoint.register(pd, region).unwrap();
        let operation = if reads {
            Operation::Read { remote_address: 64, r_key }
        } else {
            Operation::Write { remote_address: 64, r_key, immediate: None }
        };
        let sge = pair.nodes[0].sge(0, 5000);
        fails_with(&mut pair, operation, &[sge], CompletionStatus::RemoteAccess);
    }
}

#[test]
fn a_region_deregistered_in_flight_is_not_touched_any_more() {
    let mut pair = Pair::connected(QpType::Rc);
    let from = pair.nodes[0].sge(0, 1 << 20);
    pair.nodes[0].fill(0, 1 << 20, 1);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive_for(Span::from_us(2));
    let key = pair.nodes[1].key;
    pair.nodes[1].endpoint.deregister(key).unwrap();
    let before = pair.nodes[1].bytes(0, 1 << 20);
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::RemoteAccess);
    assert!(before == pair.nodes[1].bytes(0, 1 << 20), "nothing was written after that");
    assert!(before.iter().any(|&byte| byte != 0), "something was written before");
}

#[test]
fn an_overrun_completion_queue_fails_its_queue_pairs() {
    let mut pair = Pair::connected(QpType::Rc);
    let cq = pair.nodes[0].cq;
    pair.nodes[0].endpoint.resize_cq(cq, 2).unwrap();
    let from = pair.nodes[0].sge(0, 8);
    for id in 0..4 {
        let operation = pair.write(1, 0);
        pair.post(0, id, operation, &[from]);
    }
    pair.drive();
    let events = &pair.nodes[0].events;
    let qpn = pair.nodes[0].qpn;
    assert_eq!(events[..3], [Event::CqError(cq), Event::QpFailed(qpn), Event::QpFatal(qpn)]);
    assert_eq!(state(&pair, 0), QpState::Error);
    assert_eq!(pair.nodes[0].completions().len(), 2);
}

#[test]
fn full_queues_and_long_lists_are_refused() {
    let mut pair = Pair::connected(QpType::Rc);
    let sge = pair.nodes[0].sge(0, 8);
    let write = pair.write(1, 0);
    let long = [sge; 9];
    assert_eq!(pair.try_post(0, 1, write, &long, SendFlags::NONE), Err(PostError::TooManySges));
    for id in 0..4096 {
        assert_eq!(pair.try_post(0, id, write, &[sge], SendFlags::NONE), Ok(()));
    }
    assert_eq!(pair.try_post(0, 1, write, &[sge], SendFlags::NONE), Err(PostError::Full));
    let huge = Sge { length: u32::MAX, ..sge };
    pair.drive();
    assert_eq!(pair.try_post(0, 1, write, &[huge], SendFlags::NONE), Err(PostError::TooLong));
}

#[test]
fn a_peer_that_moves_to_error_is_silent() {
    let mut pair = Pair::connected(QpType::Rc);
    let qpn = pair.nodes[1].qpn;
    pair.nodes[1].endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    let from = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::RetryExceeded);
    assert_eq!(pair.nodes[1].endpoint.stats().drop_qp_state, 8);
}

#[test]
fn who_hears_that_a_completion_queue_is_overrun_finds_its_queue_pairs_failed() {
    let mut pair = Pair::default();
    let node = &mut pair.nodes[0];
    node.cq = node.endpoint.create_cq(1).unwrap();
    pair.connect(QpType::Uc, [None, None], |_| {});
    let (from, qpn) = (pair.nodes[0].sge(0, 8), pair.nodes[0].qpn);
    for id in 0..3 {
        pair.post(0, id, pair.write(1, 0), &[from]);
    }
    // UC completes when the driver comes for the next packet, and here it stops coming.
    let (now, cq) = (pair.now, pair.nodes[0].cq);
    let endpoint = &mut pair.nodes[0].endpoint;
    for _ in 0..3 {
        assert!(take_one(endpoint, now).is_some());
    }
    assert_eq!(endpoint.poll_event(), Some(Event::CqError(cq)));
    assert_eq!(endpoint.query_qp(qpn).map(|query| query.state), Some(QpState::Error));
    assert_eq!(endpoint.poll_event(), Some(Event::QpFailed(qpn)));
    assert_eq!(endpoint.poll_event(), Some(Event::QpFatal(qpn)));
}

/// What both ends say of a failure, the requester first.
fn said(pair: &Pair) -> [String; 2] {
    [0, 1].map(|index| {
        let node = &pair.nodes[index];
        node.endpoint.failure(node.qpn).map(ToString::to_string).unwrap_or_default()
    })
}

#[test]
fn both_ends_say_their_half_of_a_failure_until_they_are_reset() {
    let mut pair = Pair::connected(QpType::Rc);
    let from = pair.nodes[0].sge(0, 8);
    let (remote_address, r_key) = (64, Key(0x102));
    pair.post(0, 7, Operation::Write { remote_address, r_key, immediate: None }, &[from]);
    pair.drive();
    let [asks, refuses] = said(&pair);
    assert!(asks.contains("RTS -> ERR: remote access error: RDMA WRITE of 8 bytes"), "{asks}");
    assert!(asks.contains("at 0x40 with R_Key 0x102 (wr_id 0x7) to "), "{asks}");
    assert!(refuses.contains("no region or window has this key"), "{refuses}");
    let qpn = pair.nodes[0].qpn;
    assert!(pair.nodes[0].events.contains(&Event::QpFailed(qpn)));
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Reset)).unwrap();
    assert_eq!(said(&pair)[0], "");
}

#[test]
fn what_is_wrong_with_a_request_is_said_where_it_is_known() {
    let failed = |change: &dyn Fn(&mut Pair) -> (Operation, Sge)| {
        let mut pair = Pair::connected(QpType::Rc);
        let (operation, piece) = change(&mut pair);
        pair.post(0, 1, operation, &[piece]);
        pair.drive();
        said(&pair)
    };
    let [asks, refuses] = failed(&|pair| {
        let Operation::Write { r_key, .. } = pair.write(1, 0) else { unreachable!() };
        let write = Operation::Write { remote_address: u64::MAX - 8, r_key, immediate: None };
        (write, pair.nodes[0].sge(0, 8))
    });
    assert!(refuses.contains("it reaches beyond what the key was registered for"), "{refuses}");
    assert!(asks.contains("do not fit there"), "{asks}");
    let [asks, _] = failed(&|pair| {
        let piece = pair.nodes[0].sge(0, 8);
        (pair.write(1, 0), Sge { l_key: Key(0x999), ..piece })
    });
    assert!(asks.contains("local protection error: "), "{asks}");
    assert!(asks.ends_with(": no region or window has this key"), "{asks}");
    let [_, refuses] = failed(&|pair| {
        let qpn = pair.nodes[1].qpn;
        let change = QpChange { access: Some(Access::REMOTE_READ), ..QpChange::default() };
        pair.nodes[1].endpoint.modify_qp(qpn, &change).unwrap();
        (pair.write(1, 0), pair.nodes[0].sge(0, 8))
    });
    assert!(refuses.contains("qp_access_flags of this queue pair do not allow it"), "{refuses}");
    assert!(refuses.ends_with("(the peer reads: remote invalid request error)"), "{refuses}");
}

/// How a READ of three packets ends whose first answer is `change`d on its way.
fn read_with(change: impl Fn(&mut roce::Repr)) -> Vec<(u64, CompletionStatus)> {
    const MTU: u32 = 1024;
    let mut pair = Pair::connected(QpType::Rc);
    let (read, to) = (pair.read(1, 0), pair.nodes[0].sge(0, 3 * MTU));
    pair.post(0, 1, read, &[to]);
    pair.record();
    pair.rule(|packet| if packet.from == 1 { Verdict::Drop } else { Verdict::Deliver });
    pair.drive_for(Span::from_ms(1));
    let answers: Vec<_> = pair.sent.iter().filter(|sent| sent.from == 1).cloned().collect();
    assert_eq!(answers.len(), 3);
    let (source, destination) = (pair.nodes[1].gid, pair.nodes[0].gid);
    let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 64 };
    for (index, answer) in answers.iter().enumerate() {
        let mut header = answer.header;
        if index == 0 {
            change(&mut header);
        }
        let payload = &answer.bytes[answer.header.header_len()..];
        let mut bytes = std::vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        pair.inject(0, &arrival, &bytes);
    }
    statuses(&mut pair.nodes[0])
}

#[test]
fn an_answer_to_a_read_must_be_the_part_that_is_due_and_positive() {
    let refused = [(1, CompletionStatus::BadResponse)];
    assert_eq!(read_with(|_| {}), [(1, CompletionStatus::Success)]);
    assert_eq!(read_with(|header| header.bth.opcode = Opcode::read_response(Part::Only)), refused);
    let middle = |header: &mut roce::Repr| {
        header.bth.opcode = Opcode::read_response(Part::Middle);
        header.aeth = None;
    };
    assert_eq!(read_with(middle), refused);
    for syndrome in [Syndrome::Nak(NakCode::RemoteAccess), Syndrome::RnrNak { timer: 1 }] {
        let nak = |header: &mut roce::Repr| header.aeth = Some(aeth::Repr { syndrome, msn: 1 });
        assert_eq!(read_with(nak), refused, "{syndrome:?}");
    }
}

/// What a request of one packet, that fails after those of `lengths` were answered, tells of a path.
fn unproven_after(lengths: &[u32], dropped_from: usize, is_read: bool) -> Option<Unproven> {
    let mut pair = Pair::connected(QpType::Rc);
    let operation = |pair: &Pair| if is_read { pair.read(1, 0) } else { pair.write(1, 0) };
    for (id, length) in (0..).zip(lengths) {
        let sge = pair.nodes[0].sge(0, *length);
        let operation = operation(&pair);
        pair.post(0, id, operation, &[sge]);
        pair.drive();
    }
    pair.rule(
        move |packet| {
            if packet.bytes.len() >= dropped_from { Verdict::Drop } else { Verdict::Deliver }
        },
    );
    let sge = pair.nodes[0].sge(0, 5_000);
    let operation = operation(&pair);
    pair.post(0, 99, operation, &[sge]);
    pair.drive();
    let ended = statuses(&mut pair.nodes[0]);
    assert_eq!(ended.last(), Some(&(99, CompletionStatus::RetryExceeded)));
    pair.nodes[0].endpoint.failure(pair.nodes[0].qpn).unwrap().unproven()
}

#[test]
fn a_silent_peer_is_told_from_a_path_that_drops_what_is_long() {
    let mtu = 1024;
    for is_read in [false, true] {
        let said = |lengths: &[u32], dropped| unproven_after(lengths, dropped, is_read);
        let short = Some(Unproven { bytes: mtu, answered: Some(600) });
        assert_eq!(said(&[8, 600, 0], 900), short, "read: {is_read}");
        let never = Some(Unproven { bytes: mtu, answered: None });
        assert_eq!(said(&[], 0), never, "read: {is_read}");
        // As long a packet was answered before, so that is not why.
        assert_eq!(said(&[8, 3_000, 8], 0), None, "read: {is_read}");
    }
}
