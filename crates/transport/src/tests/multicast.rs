//! Multicast: one datagram, many queue pairs.

use core::net::Ipv4Addr;

use rdma::{CompletionStatus, Gid, Operation, QKey, QpState, QpType, Qpn, RecvRequest, UdAddress};
use std::vec::Vec;

use crate::limits::{MULTICAST_GROUPS_MAX, MULTICAST_QPS_MAX};
use crate::testing::Pair;
use crate::{CreateError, DestroyError, QpChange};

const Q_KEY: QKey = QKey(0x1111);

fn group(last: u8) -> Gid {
    Ipv4Addr::new(239, 0, 0, last).into()
}

/// A message from node 0 to a group.
fn to_group(pair: &Pair, group: Gid) -> Operation {
    let address = UdAddress {
        gid: group,
        source_gid: pair.nodes[0].gid,
        traffic_class: 0,
        hop_limit: 0,
        flow_label: 0,
        qpn: Qpn::MULTICAST,
        q_key: Q_KEY,
    };
    Operation::Send { immediate: None, address: Some(address) }
}

/// One more queue pair of node 1, ready, with a receive into `offset`.
fn member(pair: &mut Pair, q_key: QKey, offset: u64) -> Qpn {
    let node = &mut pair.nodes[1];
    let qpn = node.create_qp(QpType::Ud, None);
    let init = QpChange {
        pkey_index: Some(0),
        port: Some(1),
        q_key: Some(q_key),
        ..QpChange::to(QpState::Init)
    };
    node.endpoint.modify_qp(qpn, &init).unwrap();
    node.endpoint.modify_qp(qpn, &QpChange::to(QpState::Rtr)).unwrap();
    let sge = node.sge(offset, 4096);
    let request = RecvRequest { id: offset, sges: &[sge] };
    node.endpoint.post_recv(qpn, &request).unwrap();
    qpn
}

#[test]
fn each_queue_pair_of_a_group_gets_one_copy() {
    let mut pair = Pair::connected(QpType::Ud);
    let members = [4096, 8192].map(|offset| member(&mut pair, Q_KEY, offset));
    let other = member(&mut pair, Q_KEY, 12288);
    for qpn in members {
        assert_eq!(pair.nodes[1].endpoint.attach_multicast(qpn, group(1)), Ok(true));
    }
    pair.nodes[1].endpoint.attach_multicast(other, group(2)).unwrap();
    pair.nodes[0].fill(0, 100, 3);
    let from = pair.nodes[0].sge(0, 100);
    pair.post(0, 1, to_group(&pair, group(1)), &[from]);
    pair.drive();
    let sent = pair.nodes[0].bytes(0, 100);
    let mut taken: Vec<(Qpn, u64, u32)> = pair.nodes[1]
        .completions()
        .iter()
        .map(|completion| (completion.qpn, completion.id, completion.byte_len))
        .collect();
    taken.sort_unstable();
    assert_eq!(taken, [(members[0], 4096, 140), (members[1], 8192, 140)]);
    for offset in [4096, 8192] {
        let buffer = pair.nodes[1].bytes(offset, 140);
        assert_eq!(buffer[40..], sent);
        assert_eq!(buffer[36..40], [239, 0, 0, 1], "the header shows where it was sent to");
    }
    let statuses: Vec<_> = pair.nodes[0].completions().iter().map(|it| it.status).collect();
    assert_eq!(statuses, [CompletionStatus::Success]);
}

#[test]
fn one_that_cannot_take_it_does_not_keep_it_from_others() {
    let mut pair = Pair::connected(QpType::Ud);
    let wrong = member(&mut pair, QKey(0x2222), 4096);
    let right = member(&mut pair, Q_KEY, 8192);
    // The pair's own queue pair has no receive.
    for qpn in [wrong, pair.nodes[1].qpn, right] {
        pair.nodes[1].endpoint.attach_multicast(qpn, group(1)).unwrap();
    }
    let from = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, to_group(&pair, group(1)), &[from]);
    pair.drive();
    let taken: Vec<Qpn> = pair.nodes[1].completions().iter().map(|it| it.qpn).collect();
    assert_eq!(taken, [right]);
    let stats = pair.nodes[1].endpoint.stats();
    assert_eq!((stats.drop_qkey, stats.drop_no_receive, stats.rcvd_pkts), (1, 1, 3));
}

#[test]
fn what_is_for_a_group_without_queue_pairs_is_dropped_and_counted() {
    let mut pair = Pair::connected(QpType::Ud);
    let qpn = pair.nodes[1].qpn;
    pair.nodes[1].endpoint.attach_multicast(qpn, group(1)).unwrap();
    let from = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, to_group(&pair, group(2)), &[from]);
    // The number of all groups at an address of one.
    pair.post(0, 2, to_group(&pair, pair.nodes[1].gid), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].endpoint.stats().drop_unknown_qpn, 2);
}

#[test]
fn a_queue_pair_is_attached_once_and_stays_as_long_as_it_is() {
    let mut pair = Pair::connected(QpType::Ud);
    let node = &mut pair.nodes[1];
    let (qpn, endpoint) = (node.qpn, &mut node.endpoint);
    assert_eq!(endpoint.attach_multicast(qpn, group(1)), Ok(true));
    assert_eq!(endpoint.attach_multicast(qpn, group(1)), Ok(false));
    assert_eq!(endpoint.groups_of(qpn).collect::<Vec<_>>(), [group(1)]);
    assert_eq!(endpoint.destroy_qp(qpn), Err(DestroyError::InUse));
    assert_eq!(endpoint.detach_multicast(qpn, group(2)), Err(DestroyError::NotFound));
    assert_eq!(endpoint.detach_multicast(qpn, group(1)), Ok(()));
    assert_eq!(endpoint.detach_multicast(qpn, group(1)), Err(DestroyError::NotFound));
    assert_eq!(endpoint.destroy_qp(qpn), Ok(()));
}

#[test]
fn only_datagram_queue_pairs_and_groups_go_together() {
    let mut pair = Pair::connected(QpType::Ud);
    let node = &mut pair.nodes[1];
    let connected = node.create_qp(QpType::Rc, None);
    let gid = node.gid;
    let mut attach = |qpn, gid| node.endpoint.attach_multicast(qpn, gid);
    assert_eq!(attach(connected, group(1)), Err(CreateError::Mismatch));
    assert_eq!(attach(node.qpn, gid), Err(CreateError::Mismatch));
    assert_eq!(attach(Qpn::MULTICAST, group(1)), Err(CreateError::NotFound));
}

#[test]
fn groups_and_their_queue_pairs_are_bounded() {
    let mut pair = Pair::connected(QpType::Ud);
    let node = &mut pair.nodes[1];
    for index in 0..MULTICAST_GROUPS_MAX {
        let group = Ipv4Addr::new(239, 1, (index >> 8) as u8, index as u8).into();
        assert_eq!(node.endpoint.attach_multicast(node.qpn, group), Ok(true));
    }
    let one_more = node.endpoint.attach_multicast(node.qpn, group(1));
    assert_eq!(one_more, Err(CreateError::Exhausted));
    let first = Ipv4Addr::new(239, 1, 0, 0).into();
    for _ in 1..MULTICAST_QPS_MAX {
        let qpn = node.create_qp(QpType::Ud, None);
        assert_eq!(node.endpoint.attach_multicast(qpn, first), Ok(true));
    }
    let qpn = node.create_qp(QpType::Ud, None);
    assert_eq!(node.endpoint.attach_multicast(qpn, first), Err(CreateError::Exhausted));
}
