//! UD.

use rdma::completion::NetworkHeader;
use rdma::{CompletionStatus, QKey, QpType, SendFlags};

use super::{only, statuses};
use crate::testing::Pair;
use crate::{Event, PostError};

const Q_KEY: QKey = QKey(0x1111);

#[test]
fn a_datagram_arrives_behind_a_correct_global_header() {
    let mut pair = Pair::connected(QpType::Ud);
    pair.nodes[0].fill(0, 1000, 5);
    let (from, to) = (pair.nodes[0].sge(0, 1000), pair.nodes[1].sge(0, 4096));
    pair.post_recv(1, 2, &[to]);
    pair.post(0, 1, pair.datagram(1, Q_KEY), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    let received = only(&mut pair.nodes[1]);
    assert_eq!((received.byte_len, received.network_header), (1040, NetworkHeader::Ipv4));
    assert_eq!(received.source_qpn, pair.nodes[0].qpn);
    let expected = pair.nodes[0].bytes(0, 1000);
    let buffer = pair.nodes[1].bytes(0, 1040);
    assert_eq!(buffer[40..], expected);
    // The total length counts headers and ICRC that the buffer does not hold.
    let packet = [&buffer[20..], &[0; 32]].concat();
    let ip = wire::ipv4::Repr::parse(&packet).expect("an IPv4 header with a right checksum");
    assert_eq!(
        (ip.source, ip.destination),
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    );
    assert_eq!((ip.total_len, ip.protocol), (1000 + 20 + 8 + 12 + 8 + 4, 17));
}

#[test]
fn a_wrong_queue_key_is_dropped_and_counted() {
    let mut pair = Pair::connected(QpType::Ud);
    let (from, to) = (pair.nodes[0].sge(0, 8), pair.nodes[1].sge(0, 4096));
    pair.post_recv(1, 2, &[to]);
    pair.post(0, 1, pair.datagram(1, QKey(0x2222)), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[1]), []);
    assert_eq!(pair.nodes[1].endpoint.stats().drop_qkey, 1);
    // A controlled key stands for the sender's own.
    pair.post(0, 2, pair.datagram(1, QKey(0x8000_0000)), &[from]);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[1]), [(2, CompletionStatus::Success)]);
}

#[test]
fn a_datagram_without_a_receive_is_dropped_and_counted() {
    let mut pair = Pair::connected(QpType::Ud);
    let from = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, pair.datagram(1, Q_KEY), &[from]);
    pair.drive();
    assert_eq!(pair.nodes[1].endpoint.stats().drop_no_receive, 1);
}

#[test]
fn a_datagram_longer_than_its_receive_costs_that_receive_alone() {
    let mut pair = Pair::connected(QpType::Ud);
    let (from, to) = (pair.nodes[0].sge(0, 100), pair.nodes[1].sge(0, 139));
    let fits = pair.nodes[0].sge(0, 99);
    pair.post_recv(1, 2, &[to]);
    pair.post_recv(1, 3, &[to]);
    pair.post(0, 1, pair.datagram(1, Q_KEY), &[from]);
    pair.post(0, 2, pair.datagram(1, Q_KEY), &[fits]);
    pair.drive();
    assert_eq!(
        statuses(&mut pair.nodes[1]),
        [(2, CompletionStatus::LocalLength), (3, CompletionStatus::Success)]
    );
    assert_eq!(pair.nodes[1].events, []);
}

#[test]
fn a_receive_without_memory_fails_its_queue_pair() {
    let mut pair = Pair::connected(QpType::Ud);
    let (from, to) = (pair.nodes[0].sge(0, 100), pair.nodes[1].sge(0, 200));
    let nowhere = rdma::Sge { l_key: rdma::Key(to.l_key.0 ^ 0x55), ..to };
    pair.post_recv(1, 2, &[nowhere]);
    pair.post_recv(1, 3, &[to]);
    pair.post(0, 1, pair.datagram(1, Q_KEY), &[from]);
    pair.drive();
    assert_eq!(
        statuses(&mut pair.nodes[1]),
        [(2, CompletionStatus::LocalProtection), (3, CompletionStatus::Flushed)]
    );
    let qpn = pair.nodes[1].qpn;
    assert_eq!(pair.nodes[1].events, [Event::QpFailed(qpn), Event::QpFatal(qpn)]);
}

#[test]
fn a_datagram_is_one_packet_to_an_address() {
    let mut pair = Pair::connected(QpType::Ud);
    let operation = pair.datagram(1, Q_KEY);
    let fits = pair.nodes[0].sge(0, 4096);
    let longer = pair.nodes[0].sge(0, 4097);
    assert_eq!(pair.try_post(0, 1, operation, &[fits], SendFlags::NONE), Ok(()));
    assert_eq!(pair.try_post(0, 1, operation, &[longer], SendFlags::NONE), Err(PostError::TooLong));
    assert_eq!(
        pair.try_post(0, 1, Pair::send(), &[fits], SendFlags::NONE),
        Err(PostError::Address)
    );
    let write = pair.write(1, 0);
    assert_eq!(pair.try_post(0, 1, write, &[fits], SendFlags::NONE), Err(PostError::Opcode));
}
