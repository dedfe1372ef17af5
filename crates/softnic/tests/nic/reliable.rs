//! Reliable connections between two NICs of one process, over real sockets.

use core::net::Ipv4Addr;

use rdma::{Key, Operation, QpType, Qpn};
use softnic::limits::{BATCH_BEHIND, BATCH_REQUESTS};

use crate::support::{Host, SEND, all_rights, pair, pattern};

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
fn an_idle_peer_answers_by_its_fallback_thread() {
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
    // Nobody is there, nothing is sent again for half a minute, and there is no thread.
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
