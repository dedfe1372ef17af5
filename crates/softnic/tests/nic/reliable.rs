//! Reliable connections between two NICs of one process, over real sockets.

use core::net::Ipv4Addr;
use core::time::Duration;

use rdma::{Key, Operation, QpType, Qpn};
use softnic::limits::{ANSWER_PATIENCE, BATCH_BEHIND, BATCH_REQUESTS, POSTS_PER_LOOK};

use crate::support::{Host, QUEUE, SEND, all_rights, pair, pattern};

const MIB: usize = 1 << 20;

#[test]
fn a_message_arrives() {
    let (mut a, b) = pair(30, QpType::Rc, 4096);
    pattern(&mut a.memory[..100], 1);
    b.post_recv(7, b.sge(1000, 200));
    a.post(8, SEND, a.sge(0, 100));
    assert_eq!(a.completions(1)[0].id, 8);
    let received = b.completions(1)[0];
    assert_eq!((received.id, received.byte_len), (7, 100));
    assert_eq!(b.memory[1000..1100], a.memory[..100]);
}

#[test]
fn writes_and_reads_of_every_size_arrive_whole() {
    let (mut a, b) = pair(31, QpType::Rc, 4 * MIB);
    let mut at = 0;
    for length in [0, 1, 3, 8, 4095, 4096, 4097, 65_536, 100_001, MIB] {
        pattern(&mut a.memory[at..at + length], length as u64);
        let remote_address = b.address() + at as u64;
        let write = Operation::Write { remote_address, r_key: b.key, immediate: None };
        a.post(1, write, a.sge(at, length));
        a.completions(1);
        assert!(b.memory[at..at + length] == a.memory[at..at + length], "WRITE of {length}");

        let read = Operation::Read { remote_address, r_key: b.key };
        a.memory[at..at + length].fill(0);
        a.post(2, read, a.sge(at, length));
        a.completions(1);
        assert!(b.memory[at..at + length] == a.memory[at..at + length], "READ of {length}");
        at += length;
    }
    let counts = a.nic.counts();
    assert_eq!(counts.tx_errors + counts.tx_dropped + counts.rx_icrc_encapsulated, 0, "{counts:?}");
    assert!(counts.tx_trains < counts.tx_packets / 4, "trains are used: {counts:?}");
}

#[test]
fn an_idle_peer_answers_by_its_progress_thread() {
    let (a, b) = pair(32, QpType::Rc, 4096);
    for round in 0..100 {
        let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
        a.post(round, write, a.sge(0, 8));
        a.completions(1);
    }
    let counts = b.nic.counts();
    assert!(counts.thread_packets >= 100, "{counts:?}");
}

#[test]
fn atomics_count() {
    let (a, b) = pair(33, QpType::Rc, 4096);
    for _ in 0..10 {
        let remote_address = b.address().next_multiple_of(8);
        let add = Operation::FetchAdd { remote_address, r_key: b.key, add: 5 };
        a.post(1, add, a.sge(0, 8));
    }
    a.completions(10);
    let at = (b.address().next_multiple_of(8) - b.address()) as usize;
    assert_eq!(u64::from_ne_bytes(b.memory[at..at + 8].try_into().unwrap()), 50);
    assert_eq!(u64::from_ne_bytes(a.memory[..8].try_into().unwrap()), 45);
}

#[test]
fn what_is_posted_behind_much_that_is_in_flight_leaves_together() {
    let mut a = Host::open("127.0.34.1", QpType::Rc, 4096);
    // There is no peer, nothing is sent again for half a minute, and there is no thread.
    a.timeout = 23;
    let peer = (Ipv4Addr::new(127, 0, 34, 2).into(), Qpn::new(0x0008_0077));
    for change in a.way_to_rts(peer.0, peer.1, all_rights()) {
        a.nic.with(|endpoint, _, _| endpoint.modify_qp(a.qpn, &change)).unwrap();
    }
    let write = Operation::Write { remote_address: 0, r_key: Key(1), immediate: None };
    let post = |count: usize| {
        for _ in 0..count {
            a.post(1, write, a.sge(0, 8));
        }
        let counts = a.nic.counts();
        (counts.tx_packets as usize, counts.tx_trains as usize)
    };
    assert_eq!(post(BATCH_BEHIND), (BATCH_BEHIND, BATCH_BEHIND), "few are not held up");
    assert_eq!(post(BATCH_REQUESTS - 1), (BATCH_BEHIND, BATCH_BEHIND), "more wait");
    let all = BATCH_BEHIND + BATCH_REQUESTS;
    assert_eq!(post(1), (all, BATCH_BEHIND + 1), "until there are enough");
    assert_eq!(post(2).0, all);
    assert_eq!(a.nic.poll_cq(a.cq, &mut [rdma::Completion::NOTHING]), 0);
    assert_eq!(post(0), (all + 2, BATCH_BEHIND + 2), "or whoever posts looks for an end");
}

const NOWHERE: Operation = Operation::Write { remote_address: 0, r_key: Key(1), immediate: None };

/// A NIC without a thread, and so many queue pairs of it that have no peer; requests are not sent again
/// for half a minute.
fn alone(address: &str, peer: u8, count: usize) -> (Host, Vec<Qpn>) {
    let mut host = Host::open(address, QpType::Rc, 4096);
    host.timeout = 23;
    let octets = host.gid().gid.ip();
    let core::net::IpAddr::V4(own) = octets else { panic!("{octets} is no IPv4 address") };
    let [a, b, c, _] = own.octets();
    let qpns: Vec<Qpn> = (0..count).map(|_| host.create_qp(QpType::Rc)).collect();
    for &qpn in &qpns {
        let peer = Ipv4Addr::new(a, b, c, peer).into();
        for change in host.way_to_rts(peer, Qpn::new(0x0008_0077), all_rights()) {
            host.nic.with(|endpoint, _, _| endpoint.modify_qp(qpn, &change)).unwrap();
        }
    }
    (host, qpns)
}

#[test]
fn requests_of_many_queue_pairs_leave_as_one_gso_batch() {
    let (host, qpns) = alone("127.0.34.11", 12, 8 * BATCH_REQUESTS);
    for &qpn in &qpns {
        host.post_on(qpn, 1, NOWHERE, host.sge(0, 8));
    }
    host.nic.poll();
    let counts = host.nic.counts();
    assert_eq!(counts.tx_packets as usize, qpns.len());
    // Each has nothing in flight before its own. On a machine that stands still now and then, an
    // acknowledgement seems late, which costs a GSO batch.
    assert!(counts.tx_trains as usize <= qpns.len() / 4, "{} trains", counts.tx_trains);
}

#[test]
fn a_request_does_not_wait_for_the_answer_to_another_that_is_late() {
    let (host, qpns) = alone("127.0.34.13", 14, 2);
    let sent = || host.nic.counts().tx_packets as usize;
    for _ in 0..2 * BATCH_BEHIND {
        host.post_on(qpns[0], 1, NOWHERE, host.sge(0, 8));
    }
    let before = sent();
    assert!(before < 2 * BATCH_BEHIND, "the first queue pair's own wait");
    std::thread::sleep(Duration::from_nanos(2 * ANSWER_PATIENCE.as_ns_ceil()));
    host.post_on(qpns[1], 1, NOWHERE, host.sge(0, 8));
    assert_eq!(sent(), 2 * BATCH_BEHIND + 1, "all leave with that of the second");
}

#[test]
fn a_lone_request_leaves_at_once_beside_others_in_flight() {
    let (host, qpns) = alone("127.0.34.15", 16, BATCH_BEHIND);
    for (already, &qpn) in qpns.iter().enumerate() {
        host.post_on(qpn, 1, NOWHERE, host.sge(0, 8));
        assert_eq!(host.nic.counts().tx_packets as usize, already + 1);
    }
}

/// A pair without threads, with so many connected queue pairs beside their own.
fn many(third: u8, count: usize, timeout: u8) -> (Host, Host, Vec<Qpn>) {
    let host = |last| Host::open(&format!("127.0.{third}.{last}"), QpType::Rc, 4096);
    let (mut a, b) = (host(1), host(2));
    a.timeout = timeout;
    let connect = |from: &Host, to: &Host, qpn, peer| {
        for change in from.way_to_rts(to.gid().gid, peer, all_rights()) {
            from.nic.with(|endpoint, _, _| endpoint.modify_qp(qpn, &change)).unwrap();
        }
    };
    let qpns = (0..count).map(|_| {
        let (qpn, peer) = (a.create_qp(QpType::Rc), b.create_qp(QpType::Rc));
        connect(&a, &b, qpn, peer);
        connect(&b, &a, peer, qpn);
        qpn
    });
    let qpns = qpns.collect();
    (a, b, qpns)
}

#[test]
fn nothing_is_sent_again_that_an_acknowledgement_has_arrived_for() {
    let timeout = 14;
    let (a, b, qpns) = many(48, 100, timeout);
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    for &qpn in &qpns {
        a.post_on(qpn, 1, write, a.sge(0, 8));
        // Each is acknowledged by itself.
        a.nic.with(|_, _, _| ());
        b.nic.poll();
    }
    // The program has computed for longer than any of its timers.
    std::thread::sleep(Duration::from_nanos(2 * (4096 << timeout)));
    a.completions(qpns.len());
    let (late, again) = a.nic.with(|endpoint, _, _| {
        (endpoint.stats().local_ack_timeout_err, endpoint.stats().retransmitted_pkts)
    });
    assert_eq!((late, again), (0, 0));
}

#[test]
fn who_posts_without_a_poll_is_taken_the_acknowledgements() {
    let (a, b, qpns) = many(49, POSTS_PER_LOOK / 64 + 1, 20);
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    for qpn in qpns.into_iter().cycle().take(POSTS_PER_LOOK + BATCH_REQUESTS + QUEUE as usize) {
        a.post_on(qpn, 1, write, a.sge(0, 8));
        b.nic.poll();
    }
    let mut completion = [rdma::Completion::NOTHING];
    let found = a.nic.with(|endpoint, _, _| {
        completion[0] = endpoint.poll_cq(a.cq)?;
        Some(completion[0].status)
    });
    assert_eq!(found, Some(rdma::CompletionStatus::Success));
}
