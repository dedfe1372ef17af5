//! Several threads of a program in one NIC, each with a queue pair of its own.

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Instant;

use rdma::{
    Completion, CompletionStatus, Operation, QpType, Qpn, RecvRequest, SendFlags, Sge, WorkRequest,
};
use softnic::{Options, PathChoice};
use transport::{CqId, QpCapacity, QpSpec};

use crate::fork::in_child;
use crate::support::{Host, PATIENCE, SEND, pattern};

const THREADS: usize = 4;
const MESSAGES: u64 = 400;
/// Messages that a thread has in flight, each with a place of its own.
const DEPTH: u64 = 8;
const LENGTH_MAX: usize = 20_000;
/// Bytes that a thread has in the memory of each host.
const SHARE: usize = DEPTH as usize * LENGTH_MAX;

/// What a thread has in one NIC.
#[derive(Clone, Copy)]
struct Lane {
    index: usize,
    qpn: Qpn,
    cq: CqId,
}

impl Lane {
    fn new(host: &Host, index: usize) -> Self {
        let cq = host.nic.with(|endpoint, _, _| endpoint.create_cq(64)).unwrap();
        let capacity = QpCapacity { send_wr: 16, recv_wr: 16, send_sge: 1, recv_sge: 1, inline: 0 };
        let spec = QpSpec {
            kind: QpType::Rc,
            pd: host.pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            capacity,
            signal_all: false,
        };
        let qpn = host.nic.with(|endpoint, _, _| endpoint.create_qp(spec)).unwrap();
        Self { index, qpn, cq }
    }

    /// The place of message `number`.
    fn place(self, host: &Host, number: u64, length: usize) -> Sge {
        host.sge(self.index * SHARE + (number % DEPTH) as usize * LENGTH_MAX, length)
    }

    /// Waits for completions, all of them good.
    fn completions(self, host: &Host) -> Vec<Completion> {
        let started = Instant::now();
        let mut some = [Completion::NOTHING; 4];
        loop {
            let found = host.nic.poll_cq(self.cq, &mut some);
            for completion in &some[..found] {
                assert_eq!(completion.status, CompletionStatus::Success, "{completion:?}");
            }
            if found > 0 {
                return some[..found].to_vec();
            }
            assert!(started.elapsed() < PATIENCE, "thread {}: {:?}", self.index, host.nic.counts());
        }
    }
}

/// How long message `number` of a thread is: one packet or several, full or not.
fn length(index: usize, number: u64) -> usize {
    let mixed = (number * 7 + index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    1 + mixed as usize % if number.is_multiple_of(3) { LENGTH_MAX } else { 64 }
}

fn contents(index: usize, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; length(index, number)];
    pattern(&mut bytes, number * THREADS as u64 + index as u64 + 1);
    bytes
}

/// The bytes at a place of the host's memory that only this thread, and no packet, touches now.
fn bytes(place: Sge) -> &'static mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(place.address as usize);
    // SAFETY: in the host's memory, which lives until the threads have ended; the place belongs to
    // one message of one thread, whose packets have not begun or have ended.
    unsafe { core::slice::from_raw_parts_mut(start, place.length as usize) }
}

fn send_all(host: &Host, lane: Lane) {
    let (mut posted, mut done) = (0, 0);
    while done < MESSAGES {
        while posted < MESSAGES && posted - done < DEPTH {
            let message = contents(lane.index, posted);
            let place = lane.place(host, posted, message.len());
            bytes(place).copy_from_slice(&message);
            host.post_on(lane.qpn, posted, SEND, place);
            posted += 1;
        }
        for completion in lane.completions(host) {
            assert_eq!(completion.id, done, "requests complete in order");
            done += 1;
        }
    }
}

fn post_recv(host: &Host, lane: Lane, number: u64) {
    let place = lane.place(host, number, LENGTH_MAX);
    let request = RecvRequest { id: number, sges: &[place] };
    host.nic.with(|endpoint, _, _| endpoint.post_recv(lane.qpn, &request)).unwrap();
}

fn receive_all(host: &Host, lane: Lane) {
    let mut taken = 0;
    while taken < MESSAGES {
        for completion in lane.completions(host) {
            let expected = contents(lane.index, taken);
            assert_eq!((completion.id, completion.byte_len as usize), (taken, expected.len()));
            let place = lane.place(host, taken, expected.len());
            assert!(bytes(place) == expected, "message {taken} of thread {}", lane.index);
            if taken + DEPTH < MESSAGES {
                post_recv(host, lane, taken + DEPTH);
            }
            taken += 1;
        }
    }
}

/// Two hosts, each with a connected queue pair for every thread.
fn connected(third: u8, path: PathChoice) -> (Host, Host, Vec<(Lane, Lane)>) {
    let options = Options { path, ..Options::default() };
    let open = |last| {
        let address = format!("127.0.{third}.{last}");
        Host::open_with(&address, QpType::Rc, THREADS * SHARE, &options)
    };
    let (a, b) = (open(1), open(2));
    let lanes: Vec<(Lane, Lane)> =
        (0..THREADS).map(|index| (Lane::new(&a, index), Lane::new(&b, index))).collect();
    for (ours, theirs) in &lanes {
        a.connect_qp(ours.qpn, b.gid().gid, theirs.qpn);
        b.connect_qp(theirs.qpn, a.gid().gid, ours.qpn);
    }
    (a, b, lanes)
}

fn what_threads_send_arrives(third: u8, path: PathChoice) {
    let (a, b, lanes) = connected(third, path);
    for (_, theirs) in &lanes {
        for number in 0..DEPTH {
            post_recv(&b, *theirs, number);
        }
    }
    let (a, b) = (&a, &b);
    scope(|scope| {
        for (ours, theirs) in lanes {
            scope.spawn(move || send_all(a, ours));
            scope.spawn(move || receive_all(b, theirs));
        }
    });
    // What is left may be an acknowledgement on its way.
    let settled = || {
        let (sent, received) = (a.nic.counts(), b.nic.counts());
        sent.tx_packets == received.rx_packets || received.rx_buffer_overflow > 0
    };
    let started = Instant::now();
    while !settled() {
        assert!(started.elapsed() < PATIENCE, "{:?}\n{:?}", a.nic.counts(), b.nic.counts());
        b.nic.poll();
    }
    let counts = a.nic.counts();
    assert_eq!(counts.tx_errors, 0);
    // The test does not wait for a peer that is long without a processor.
    assert!(counts.tx_dropped == 0 || counts.tx_pauses_given_up > 0, "{counts:?}");
}

#[test]
fn what_threads_send_arrives_in_order_and_is_counted() {
    what_threads_send_arrives(131, PathChoice::Udp);
}

#[test]
fn what_threads_send_by_rings_arrives_in_order_and_is_counted() {
    what_threads_send_arrives(132, PathChoice::SharedMemory);
}

fn write_all(host: &Host, lane: Lane, peer: &Host) {
    let (mut posted, mut done) = (0, 0);
    while done < MESSAGES {
        while posted < MESSAGES && posted - done < DEPTH {
            let place = lane.place(host, posted, length(lane.index, posted));
            let remote_address = lane.place(peer, posted, 0).address;
            let write = Operation::Write { remote_address, r_key: peer.key, immediate: None };
            host.post_on(lane.qpn, posted, write, place);
            posted += 1;
        }
        for completion in lane.completions(host) {
            assert_eq!(completion.id, done, "requests complete in order");
            done += 1;
        }
    }
}

#[test]
fn packets_are_handled_in_the_order_in_which_they_came_whoever_takes_them() {
    let (a, b, lanes) = connected(137, PathChoice::Udp);
    let (a, b, stop) = (&a, &b, &AtomicBool::new(false));
    scope(|scope| {
        let writers: Vec<_> =
            lanes.iter().map(|(ours, _)| scope.spawn(move || write_all(a, *ours, b))).collect();
        for (_, theirs) in &lanes {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(b.nic.poll_cq(theirs.cq, &mut [Completion::NOTHING]), 0);
                }
            });
        }
        for _ in 0..10 {
            assert!(in_child(|| b.nic.poll()));
        }
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let stats = b.nic.with(|endpoint, _, _| *endpoint.stats());
    let lost = a.nic.counts().tx_dropped + b.nic.counts().rx_buffer_overflow;
    assert!(stats.out_of_seq_request == 0 || lost > 0, "{stats:?}");
}

#[test]
fn a_fork_among_sending_threads_leaves_nothing_behind() {
    let (a, b, lanes) = connected(133, PathChoice::Udp);
    let stop = AtomicBool::new(false);
    let (a, b, stop) = (&a, &b, &stop);
    let writes = scope(|scope| {
        let threads: Vec<_> = lanes
            .into_iter()
            .map(|(lane, _)| {
                scope.spawn(move || {
                    let mut writes = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        let place = b.address() + (lane.index * SHARE) as u64;
                        let write = Operation::Write {
                            remote_address: place,
                            r_key: b.key,
                            immediate: None,
                        };
                        a.post_on(lane.qpn, writes, write, lane.place(a, 0, LENGTH_MAX));
                        assert_eq!(lane.completions(a).len(), 1);
                        writes += 1;
                    }
                    writes
                })
            })
            .collect();
        for _ in 0..30 {
            assert!(in_child(|| {
                let sent = a.nic.counts().tx_packets;
                a.nic.poll();
                b.nic.poll();
                assert_eq!(a.nic.counts().tx_packets, sent, "the child sends nothing");
            }));
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(writes.iter().all(|writes| *writes > 0), "{writes:?}");
}

#[test]
fn a_queue_pair_can_go_while_others_send() {
    let (a, b, lanes) = connected(134, PathChoice::Udp);
    let (a, b) = (&a, &b);
    scope(|scope| {
        let (first, rest) = lanes.split_first().unwrap();
        for (ours, theirs) in rest {
            for number in 0..DEPTH {
                post_recv(b, *theirs, number);
            }
            scope.spawn(move || send_all(a, *ours));
            scope.spawn(move || receive_all(b, *theirs));
        }
        for round in 0..40 {
            let lane = Lane::new(a, 0);
            a.connect_qp(lane.qpn, b.gid().gid, first.1.qpn);
            let place = lane.place(a, 0, LENGTH_MAX);
            let write =
                Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
            let request = WorkRequest {
                id: round,
                operation: write,
                flags: SendFlags::SIGNALED,
                sges: &[place],
                inline: None,
            };
            // It ends with packets in flight, or left to the thread that sends.
            a.nic.with(|endpoint, _, now| {
                endpoint.post_send(now, lane.qpn, &request).unwrap();
            });
            a.nic.with(|endpoint, _, _| endpoint.destroy_qp(lane.qpn)).unwrap();
        }
    });
}
