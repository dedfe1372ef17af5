//! Rings of shared memory between processes.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::time::Instant;

use rdma::{Completion, CompletionStatus, Gid, Operation, QpState, QpType, Qpn, UdAddress};
use softnic::{Options, PathChoice};

use crate::fork::status_of_child;
use crate::processes::{CONFINED, Helper, USER};
use crate::support::{Host, LOSSY, PATIENCE, Q_KEY, SEND, pattern};

/// Over rings, whatever the environment says.
fn shm() -> Options {
    Options { path: PathChoice::SharedMemory, ..Options::default() }
}

const SHM: [(&str, &str); 1] = [("FERROCE_LINK", "shm")];

/// How many rings this process has mapped.
fn rings_mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:ferroce-ring")).count()
}

/// Open descriptors of this process that are rings.
fn rings_open() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("ferroce-ring")).count()
}

/// Two connected hosts.
fn two(last: u8, kind: QpType, bytes: usize, options: &Options) -> (Host, Host) {
    let host = |last| Host::open_with(&format!("127.0.48.{last}"), kind, bytes, options);
    let (a, b) = (host(last), host(last + 1));
    a.connect(&b);
    b.connect(&a);
    (a, b)
}

fn connect(host: &Host, address: &str, helper: &mut Helper) -> Qpn {
    let qpn = host.create_qp(QpType::Rc);
    let gid = Gid::from(address.parse::<core::net::Ipv4Addr>().unwrap());
    host.connect_qp(qpn, gid, helper.qpn);
    helper.connect(host.gid().gid, qpn);
    qpn
}

/// Waits until this process has mapped so many rings.
fn until_mapped(rings: usize) {
    let began = Instant::now();
    while rings_mapped() != rings {
        assert!(began.elapsed() < PATIENCE, "{} and not {rings}", rings_mapped());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn write_to(helper: &Helper) -> Operation {
    Operation::Write { remote_address: helper.address, r_key: helper.key, immediate: None }
}

#[test]
fn every_service_goes_by_rings_and_all_of_it() {
    for (last, kind) in [(65, QpType::Rc), (67, QpType::Uc), (69, QpType::Ud)] {
        const LENGTH: usize = 100_000;
        let length = if kind == QpType::Ud { 4000 } else { LENGTH };
        let (mut a, b) = two(last, kind, LENGTH, &shm());
        pattern(&mut a.memory, 8);
        let round = |round| {
            // A datagram comes with 40 bytes of addresses in front.
            b.post_recv(round, b.sge(0, LENGTH));
            let address = (kind == QpType::Ud).then(|| UdAddress {
                gid: b.gid().gid,
                source_gid: a.gid().gid,
                qpn: b.qpn,
                q_key: Q_KEY,
                traffic_class: 0,
                hop_limit: 64,
                flow_label: 0,
            });
            a.post(round, Operation::Send { immediate: None, address }, a.sge(0, length));
            assert_eq!(a.completions(1)[0].id, round);
            assert_eq!(b.completions(1)[0].id, round);
            let skip = if kind == QpType::Ud { 40 } else { 0 };
            assert!(b.memory[skip..skip + length] == a.memory[..length], "{kind:?}");
        };
        a.until_by_ring(|| round(99));
        let (before, had) = (a.nic.counts(), b.nic.counts());
        (0..20).for_each(round);
        let (sent, got) = (a.nic.counts(), b.nic.counts());
        let packets = sent.tx_packets - before.tx_packets;
        assert_eq!(sent.tx_ring_packets - before.tx_ring_packets, packets, "{kind:?}");
        assert_eq!(got.rx_ring_packets - had.rx_ring_packets, got.rx_packets - had.rx_packets);
        assert!(packets >= 20);
    }
}

#[test]
fn wire_exact_puts_nothing_into_rings() {
    let (a, b) = two(71, QpType::Rc, 4096, &Options { exact: true, ..shm() });
    b.post_recv(1, b.sge(0, 100));
    a.post(1, SEND, a.sge(0, 100));
    a.completions(1);
    assert_eq!((a.nic.counts().rings_made, b.nic.counts().rings_made), (0, 0));
}

#[test]
fn a_process_that_sleeps_is_woken_for_what_is_in_its_ring() {
    let host = Host::open_with("127.0.48.61", QpType::Rc, 4096, &shm());
    let mut helper = Helper::start_with("127.0.48.62", &SHM);
    let qpn = connect(&host, "127.0.48.62", &mut helper);
    host.until_by_ring(|| {
        host.post_on(qpn, 0, write_to(&helper), host.sge(0, 8));
        host.completions(1);
    });
    for round in 0..20 {
        // The peer does not poll, and its thread is asleep by now.
        std::thread::sleep(Duration::from_millis(5));
        let began = Instant::now();
        host.post_on(qpn, round, write_to(&helper), host.sge(0, 8));
        host.completions(1);
        assert!(began.elapsed() < Duration::from_millis(900), "it woke up by itself");
    }
    let counts = host.nic.counts();
    assert!(counts.tx_ring_packets >= 15 && counts.ring_doorbells >= 10, "{counts:?}");
}

#[test]
fn a_process_that_is_killed_is_a_peer_that_does_not_answer_and_leaves_nothing() {
    // In a process of its own, without rings of other tests.
    let ended = status_of_child(|| {
        // But another thread may have been about to pass one on when this was forked.
        let (mapped, open) = (rings_mapped(), rings_open());
        let mut host = Host::open_with("127.0.48.63", QpType::Rc, 1 << 20, &shm());
        host.timeout = LOSSY;
        let mut helper = Helper::start_with("127.0.48.64", &SHM);
        let qpn = connect(&host, "127.0.48.64", &mut helper);
        host.until_by_ring(|| {
            host.post_on(qpn, 0, write_to(&helper), host.sge(0, 8));
            host.completions(1);
        });
        until_mapped(mapped + 2);
        assert_eq!(rings_open(), open);
        let post = |ids: RangeInclusive<u64>| {
            for id in ids {
                host.post_on(qpn, id, write_to(&helper), host.sge(0, 1 << 20));
            }
        };
        post(1..=8);
        host.outcomes(1);
        // It may have received all of them by now, but receives nothing of what follows.
        helper.stop();
        post(9..=10);
        helper.kill();
        let mut some = [Completion::NOTHING; 16];
        let began = Instant::now();
        let mut statuses = Vec::new();
        while statuses.last() != Some(&CompletionStatus::Flushed) {
            let found = host.nic.poll_cq(host.cq, &mut some);
            statuses.extend(some[..found].iter().map(|completion| completion.status));
            assert!(began.elapsed() < PATIENCE, "{statuses:?}");
        }
        assert!(statuses.contains(&CompletionStatus::RetryExceeded), "{statuses:?}");
        assert_eq!(host.state(qpn), QpState::Error);
        // It is forgotten within a second or two.
        while rings_mapped() > mapped {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(20));
        }
        // And another one is reached as before.
        let mut other = Helper::start_with("127.0.48.64", &SHM);
        let qpn = connect(&host, "127.0.48.64", &mut other);
        host.post_on(qpn, 11, write_to(&other), host.sge(0, 8));
        host.completions(1);
        drop(host);
        assert_eq!((rings_mapped(), rings_open()), (mapped, open));
    });
    assert_eq!(ended, 0);
}

/// Writes to the helper at `address` and has it read, all by UDP.
fn is_reached_by_udp(host: &Host, address: &str, mut helper: Helper) {
    let qpn = connect(host, address, &mut helper);
    for id in 0..20 {
        host.post_on(qpn, id, write_to(&helper), host.sge(0, 4000));
        host.completions(1);
    }
    helper.pull(host.address(), host.key, 4000, 5);
    assert_eq!(helper.line(), ["pulled"]);
    let counts = host.nic.counts();
    assert_eq!((counts.tx_ring_packets, counts.rx_ring_packets, counts.rings_made), (0, 0, 0));
    assert!(counts.tx_packets >= 25 && counts.rx_packets >= 25, "{counts:?}");
}

#[test]
fn a_process_that_may_not_share_memory_is_reached_by_udp() {
    let host = Host::open_with("127.0.48.75", QpType::Rc, 4096, &shm());
    let helper = Helper::start_with("127.0.48.76", &[SHM[0], (CONFINED, "1")]);
    is_reached_by_udp(&host, "127.0.48.76", helper);
    assert!(host.nic.counts().rings_refused >= 1);
}

#[test]
fn a_process_of_another_user_is_reached_by_udp() {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let host = Host::open_with("127.0.48.77", QpType::Rc, 4096, &shm());
    let helper = Helper::start_with("127.0.48.78", &[SHM[0], (USER, "65534")]);
    is_reached_by_udp(&host, "127.0.48.78", helper);
}

#[test]
fn a_forked_child_has_no_rings_and_the_parent_keeps_its_own() {
    let (a, b) = two(73, QpType::Rc, 4096, &shm());
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    let write_once = || {
        a.post(1, write, a.sge(0, 8));
        a.completions(1);
    };
    a.until_by_ring(write_once);
    assert!(rings_mapped() >= 2);
    // One that another test was about to pass on, at the moment of the fork, is no ring of ours.
    let has_none = || status_of_child(|| assert_eq!((rings_mapped(), rings_open()), (0, 0))) == 0;
    assert!((0..5).any(|_| has_none()));
    a.until_by_ring(write_once);
    assert_eq!(a.nic.counts().rings_broken, 0);
}
