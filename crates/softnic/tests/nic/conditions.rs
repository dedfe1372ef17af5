//! What a NIC is opened on, and how.

use core::net::Ipv4Addr;
use std::net::UdpSocket;
use std::time::Instant;

use rdma::{Operation, QpType};
use softnic::{DeviceInfo, Nic, OpenError, Options};
use transport::{Event, Notify};

use crate::support::{Events, Host, PATIENCE, SEND, pair_with, pattern};

#[test]
fn a_port_of_somebody_else_is_a_clear_error() {
    // It does not share the port, as a process of another user could not.
    let _taken = UdpSocket::bind((Ipv4Addr::new(127, 0, 42, 1), 4791)).unwrap();
    let device = DeviceInfo::find("lo/127.0.42.1", 0).unwrap();
    let error = Nic::open(&device, Box::new(Events::default())).unwrap_err();
    assert!(matches!(error, OpenError::PortTaken { .. }), "{error}");
    assert!(error.to_string().starts_with("UDP port 4791 of 127.0.42.1 is taken"), "{error}");
}

#[test]
fn exact_mode_sends_every_packet_by_itself() {
    const LENGTH: usize = 100_000;
    let options = Options { exact: true, ..Options::default() };
    let (mut a, b) = pair_with(43, QpType::Rc, LENGTH, &options);
    pattern(&mut a.memory, 3);
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, LENGTH));
    a.completions(1);
    assert!(a.memory == b.memory);
    let counts = a.nic.counts();
    assert_eq!(counts.tx_packets, counts.tx_trains);
    assert_eq!(counts.tx_packets, 25);
}

#[test]
fn ipv6_carries_gso_batches_too() {
    const LENGTH: usize = 100_000;
    let (mut a, b) = (Host::open("::1", QpType::Rc, LENGTH), Host::open("::1", QpType::Rc, LENGTH));
    a.connect(&b);
    b.connect(&a);
    pattern(&mut a.memory, 4);
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, LENGTH));
    a.completions(1);
    assert!(a.memory == b.memory);
    assert!(a.nic.counts().tx_trains < a.nic.counts().tx_packets);
    assert_eq!(b.nic.counts().rx_icrc_encapsulated, 0);
}

#[test]
fn a_nic_reaches_itself() {
    let a = Host::open("127.0.44.1", QpType::Rc, 4096);
    let other = a.create_qp(QpType::Rc);
    a.connect_qp(a.qpn, a.gid().gid, other);
    a.connect_qp(other, a.gid().gid, a.qpn);
    let sges = [a.sge(100, 100)];
    let receive = rdma::RecvRequest { id: 7, sges: &sges };
    a.nic.with(|endpoint, _, _| endpoint.post_recv(other, &receive)).unwrap();
    a.post(8, SEND, a.sge(0, 100));
    let mut ids: Vec<u64> = a.completions(2).iter().map(|completion| completion.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [7, 8]);
}

#[test]
fn an_application_that_sleeps_is_told_of_its_completion() {
    let (a, b) = pair_with(46, QpType::Rc, 4096, &Options::default());
    b.post_recv(7, b.sge(0, 100));
    b.nic.with(|endpoint, _, _| endpoint.arm_cq(b.cq, Notify::Next)).unwrap();
    a.post(8, SEND, a.sge(0, 100));
    let started = Instant::now();
    // Neither side polls: the two progress threads transfer it.
    while !b.events.0.lock().unwrap().contains(&Event::CompletionNotify(b.cq)) {
        assert!(started.elapsed() < PATIENCE);
        std::thread::sleep(core::time::Duration::from_millis(1));
    }
    assert_eq!(b.completions(1)[0].id, 7);
}

#[test]
fn an_idle_nic_costs_next_to_nothing() {
    let (a, b) = pair_with(45, QpType::Rc, 4096, &Options::default());
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, 8));
    a.completions(1);
    // The retransmission timer that the WRITE has started may still wake it once.
    std::thread::sleep(core::time::Duration::from_millis(50));
    let before = (a.nic.counts().thread_wakeups, b.nic.counts().thread_wakeups);
    std::thread::sleep(core::time::Duration::from_millis(500));
    let after = (a.nic.counts().thread_wakeups, b.nic.counts().thread_wakeups);
    assert!(after.0 - before.0 <= 3 && after.1 - before.1 <= 3, "{before:?} {after:?}");
}
