//! What is possible in which state, shared receive queues, and packets that are not for us.

use rdma::{CompletionStatus, Gid, QpState, QpType, Qpn, RecvRequest, SendFlags, Span};

use super::{only, statuses, take_one};
use crate::testing::Pair;
use crate::{
    Arrival, CreateError, DestroyError, Event, Mask, ModifyError, PostError, QpChange,
    SrqAttributes,
};

#[test]
fn nothing_is_posted_before_its_time() {
    let mut pair = Pair::default();
    for index in [0, 1] {
        pair.nodes[index].qpn = pair.nodes[index].create_qp(QpType::Rc, None);
    }
    let sge = pair.nodes[0].sge(0, 8);
    let recv = RecvRequest { id: 1, sges: &[sge] };
    for (state, may_send, may_receive) in [
        (QpState::Reset, false, false),
        (QpState::Init, false, true),
        (QpState::Rtr, false, true),
        (QpState::Rts, true, true),
        (QpState::Error, true, true),
    ] {
        if state != QpState::Reset {
            let change = match state {
                QpState::Error => QpChange::to(state),
                _ => pair.change(0, QpType::Rc, state, &|_| {}),
            };
            let node = &mut pair.nodes[0];
            node.endpoint.modify_qp(node.qpn, &change).unwrap();
        }
        let write = pair.write(1, 0);
        let sent = pair.try_post(0, 1, write, &[sge], SendFlags::NONE);
        assert_eq!(sent, if may_send { Ok(()) } else { Err(PostError::State) }, "{state:?}");
        let node = &mut pair.nodes[0];
        let received = node.endpoint.post_recv(node.qpn, &recv);
        assert_eq!(received, if may_receive { Ok(()) } else { Err(PostError::State) }, "{state:?}");
    }
}

#[test]
fn error_flushes_both_queues_in_order_and_what_is_posted_later() {
    let mut pair = Pair::connected(QpType::Rc);
    let sge = pair.nodes[0].sge(0, 8);
    pair.post_recv(0, 10, &[sge]);
    pair.post_recv(0, 11, &[sge]);
    for id in [1, 2] {
        let write = pair.write(1, 0);
        pair.try_post(0, id, write, &[sge], SendFlags::NONE).unwrap();
    }
    let qpn = pair.nodes[0].qpn;
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    pair.post_recv(0, 12, &[sge]);
    pair.post(0, 3, Pair::send(), &[sge]);
    let flushed = |id| (id, CompletionStatus::Flushed);
    assert_eq!(statuses(&mut pair.nodes[0]), [1, 2, 10, 11, 12, 3].map(flushed));
}

#[test]
fn reset_forgets_what_was_posted_and_the_queue_pair_can_be_used_again() {
    let mut pair = Pair::connected(QpType::Rc);
    let sge = pair.nodes[0].sge(0, 8);
    pair.post_recv(1, 1, &[sge]);
    pair.post(0, 1, Pair::send(), &[sge]);
    for index in [0, 1] {
        let node = &mut pair.nodes[index];
        node.endpoint.modify_qp(node.qpn, &QpChange::to(QpState::Reset)).unwrap();
    }
    pair.drive();
    for index in [0, 1] {
        assert_eq!(statuses(&mut pair.nodes[index]), []);
        pair.bring_up(index, QpType::Rc, &|_| {});
    }
    pair.post_recv(1, 2, &[sge]);
    pair.post(0, 2, Pair::send(), &[sge]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[1]), [(2, CompletionStatus::Success)]);
}

#[test]
fn draining_finishes_what_was_begun_and_begins_nothing() {
    let mut pair = Pair::connected(QpType::Rc);
    let long = pair.nodes[0].sge(0, 1 << 20);
    for id in [1, 2] {
        let write = pair.write(1, 0);
        pair.post(0, id, write, &[long]);
    }
    pair.drive_for(Span::from_us(3));
    let qpn = pair.nodes[0].qpn;
    let change = QpChange { sqd_notify: Some(true), ..QpChange::to(QpState::Sqd) };
    pair.nodes[0].endpoint.modify_qp(qpn, &change).unwrap();
    assert!(pair.nodes[0].endpoint.query_qp(qpn).unwrap().draining);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[0].events, [Event::SqDrained(qpn)]);
    assert!(!pair.nodes[0].endpoint.query_qp(qpn).unwrap().draining);
    let change = QpChange::to(QpState::Rts);
    pair.nodes[0].endpoint.modify_qp(qpn, &change).unwrap();
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(2, CompletionStatus::Success)]);
}

#[test]
fn a_shared_receive_queue_serves_its_queue_pairs_and_tells_when_it_runs_low() {
    let mut pair = Pair::default();
    let pd = pair.nodes[1].pd;
    let attributes = SrqAttributes { max_wr: 8, max_sge: 2, limit: 2 };
    let srq = pair.nodes[1].endpoint.create_srq(pd, attributes).unwrap();
    pair.connect(QpType::Rc, [None, Some(srq)], |_| {});
    let (from, to) = (pair.nodes[0].sge(0, 100), pair.nodes[1].sge(0, 128));
    let node = &mut pair.nodes[1];
    let recv = RecvRequest { id: 7, sges: &[to] };
    assert_eq!(node.endpoint.post_recv(node.qpn, &recv), Err(PostError::Address));
    for _ in 0..3 {
        node.endpoint.post_srq_recv(srq, &recv).unwrap();
    }
    pair.post(0, 1, Pair::send(), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].events, []);
    pair.post(0, 2, Pair::send(), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].events, [Event::SrqLimitReached(srq)]);
    assert_eq!(pair.nodes[1].endpoint.query_srq(srq).unwrap().limit, 0, "disarmed");
    assert_eq!(pair.nodes[1].endpoint.destroy_srq(srq), Err(DestroyError::InUse));
    let qpn = pair.nodes[1].qpn;
    pair.nodes[1].endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    pair.drive();
    assert!(pair.nodes[1].events.contains(&Event::LastWqeReached(qpn)));
    pair.nodes[1].endpoint.destroy_qp(qpn).unwrap();
    assert_eq!(pair.nodes[1].endpoint.destroy_srq(srq), Ok(()));
}

#[test]
fn packets_that_are_not_for_the_queue_pair_change_nothing() {
    let mut pair = Pair::connected(QpType::Rc);
    let mut stranger = Arrival {
        source: Gid::from(core::net::Ipv4Addr::new(10, 9, 9, 9)),
        destination: pair.nodes[1].gid,
        traffic_class: 0,
        hop_limit: 64,
    };
    let mut bytes = [0; 12];
    let (opcode, psn) = (wire::Opcode::from_code(4).unwrap(), rdma::Psn::new(0xff_fffe));
    let mut bth = wire::bth::Repr::new(opcode, pair.nodes[1].qpn, psn);
    bth.emit(&mut bytes);
    pair.inject(1, &stranger, &bytes);
    stranger.source = pair.nodes[0].gid;
    bth.p_key = rdma::PKey(0x1234);
    bth.emit(&mut bytes);
    pair.inject(1, &stranger, &bytes);
    bth.p_key = rdma::PKey::DEFAULT;
    bth.destination = Qpn::new(0x3fff);
    bth.emit(&mut bytes);
    pair.inject(1, &stranger, &bytes);
    bth.destination = pair.nodes[1].qpn;
    bth.opcode = wire::Opcode::from_code(0x24).unwrap();
    bth.emit(&mut bytes);
    pair.inject(1, &stranger, &bytes);
    let stats = pair.nodes[1].endpoint.stats();
    let drops = [
        stats.drop_wrong_source,
        stats.drop_pkey,
        stats.drop_unknown_qpn,
        stats.drop_wrong_transport,
    ];
    assert_eq!(drops, [1; 4]);
    assert_eq!(stats.rcvd_pkts, 0);
    assert_eq!(stats.send_rnr_err, 0, "not even an RNR NAK");
}

#[test]
fn communication_established_is_told_once() {
    let mut pair = Pair::default();
    for index in [0, 1] {
        pair.nodes[index].qpn = pair.nodes[index].create_qp(QpType::Rc, None);
    }
    pair.bring_up(0, QpType::Rc, &|_| {});
    for state in [QpState::Init, QpState::Rtr] {
        let change = pair.change(1, QpType::Rc, state, &|_| {});
        let node = &mut pair.nodes[1];
        node.endpoint.modify_qp(node.qpn, &change).unwrap();
    }
    let from = pair.nodes[0].sge(0, 5000);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].events, [Event::CommunicationEstablished(pair.nodes[1].qpn)]);
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::Success);
}

#[test]
fn objects_in_use_are_not_destroyed() {
    let mut pair = Pair::connected(QpType::Rc);
    let node = &mut pair.nodes[0];
    assert_eq!(node.endpoint.dealloc_pd(node.pd), Err(DestroyError::InUse));
    assert_eq!(node.endpoint.destroy_cq(node.cq), Err(DestroyError::InUse));
    assert_eq!(node.endpoint.destroy_qp(node.qpn), Ok(()));
    assert_eq!(node.endpoint.destroy_qp(node.qpn), Err(DestroyError::NotFound));
    assert_eq!(node.endpoint.destroy_cq(node.cq), Ok(()));
    assert_eq!(node.endpoint.deregister(node.key), Ok(()));
    assert_eq!(node.endpoint.dealloc_pd(node.pd), Ok(()));
    assert_eq!(node.endpoint.create_cq(0), Err(CreateError::Limit));
}

#[test]
fn attributes_out_of_range_change_nothing() {
    let mut pair = Pair::connected(QpType::Rc);
    let qpn = pair.nodes[0].qpn;
    let before = pair.nodes[0].endpoint.query_qp(qpn);
    let change = QpChange { min_rnr_timer: Some(32), ..QpChange::default() };
    let result = pair.nodes[0].endpoint.modify_qp(qpn, &change);
    assert_eq!(result, Err(ModifyError::Value(Mask::MIN_RNR_TIMER)));
    assert_eq!(pair.nodes[0].endpoint.query_qp(qpn), before);
}

#[test]
fn a_queue_pair_that_begins_anew_is_not_told_of_what_it_was() {
    let mut pair = Pair::connected(QpType::Rc);
    let qpn = pair.nodes[0].qpn;
    let sge = pair.nodes[0].sge(0, 8);
    pair.post_recv(0, 1, &[sge]);
    let endpoint = &mut pair.nodes[0].endpoint;
    endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    endpoint.modify_qp(qpn, &QpChange::to(QpState::Reset)).unwrap();
    assert_eq!(statuses(&mut pair.nodes[0]), []);
}

#[test]
fn a_send_queue_of_uc_is_drained_when_what_is_begun_is_sent_though_more_waits() {
    let mut pair = Pair::connected(QpType::Uc);
    pair.record();
    let from = pair.nodes[0].sge(0, 3 * 1024);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    pair.post(0, 2, pair.write(1, 8192), &[from]);
    let qpn = pair.nodes[0].qpn;
    let now = pair.now;
    assert!(take_one(&mut pair.nodes[0].endpoint, now).is_some());
    let change = QpChange { sqd_notify: Some(true), ..QpChange::to(QpState::Sqd) };
    pair.nodes[0].endpoint.modify_qp(qpn, &change).unwrap();
    pair.drive();
    assert_eq!(pair.nodes[0].events, [Event::SqDrained(qpn)]);
    assert_eq!(pair.sent.len(), 2, "the rest of the first, and nothing of the second");
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Rts)).unwrap();
    pair.drive();
    assert_eq!(pair.sent.len(), 5);
}

#[test]
fn a_send_queue_that_failed_while_it_was_drained_begins_requests_when_it_is_set_going() {
    let mut pair = Pair::connected(QpType::Uc);
    let from = pair.nodes[0].sge(0, 3 * 1024);
    let gone = rdma::Sge { l_key: rdma::Key(0x1234), ..from };
    let (qpn, now) = (pair.nodes[0].qpn, pair.now);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    assert!(take_one(&mut pair.nodes[0].endpoint, now).is_some());
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Sqd)).unwrap();
    pair.nodes[0].endpoint.deregister(from.l_key).unwrap();
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::LocalProtection)]);
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Rts)).unwrap();
    pair.post(0, 2, pair.write(1, 0), &[rdma::Sge { length: 0, ..gone }]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(2, CompletionStatus::Success)]);
}

#[test]
fn a_send_queue_that_fails_while_it_is_drained_is_not_said_to_be_drained() {
    let mut pair = Pair::connected(QpType::Uc);
    let from = pair.nodes[0].sge(0, 3 * 1024);
    let (qpn, now) = (pair.nodes[0].qpn, pair.now);
    pair.post(0, 1, pair.write(1, 0), &[from]);
    assert!(take_one(&mut pair.nodes[0].endpoint, now).is_some());
    let change = QpChange { sqd_notify: Some(true), ..QpChange::to(QpState::Sqd) };
    pair.nodes[0].endpoint.modify_qp(qpn, &change).unwrap();
    pair.nodes[0].endpoint.modify_qp(qpn, &QpChange::to(QpState::Error)).unwrap();
    pair.post(0, 2, pair.write(1, 0), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[0].events, []);
}
