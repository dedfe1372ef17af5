//! Multicast: every NIC that has joined a group gets one copy of what is sent to it, and no other NIC
//! does. Each test has a group of its own.

use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Instant;

use rdma::completion::NetworkHeader;
use rdma::{Completion, Gid, Operation, Psn, QpType, Qpn, UdAddress};
use softnic::GroupError;
use transport::{CreateError, DestroyError};
use wire::icrc::{self, Datagram};
use wire::udp::ROCE_PORT;
use wire::{Opcode, deth, roce};

use crate::support::{Host, PATIENCE, Q_KEY};

fn group(last: u8) -> Gid {
    Ipv4Addr::new(239, 255, 52, last).into()
}

/// A NIC whose queue pair is ready, with a receive.
fn host(address: &str) -> Host {
    let host = Host::open(address, QpType::Ud, 8192);
    host.connect(&host);
    host.post_recv(1, host.sge(0, 4096));
    host
}

fn to(host: &Host, gid: Gid) -> Operation {
    let address = UdAddress {
        gid,
        source_gid: host.gid().gid,
        traffic_class: 0,
        hop_limit: 0,
        flow_label: 0,
        qpn: Qpn::MULTICAST,
        q_key: Q_KEY,
    };
    Operation::Send { immediate: None, address: Some(address) }
}

/// What has completed, without a call that receives: the progress thread does that.
fn completed(host: &Host) -> Vec<Completion> {
    host.nic.with(|endpoint, _, _| core::iter::from_fn(|| endpoint.poll_cq(host.cq)).collect())
}

fn wait_for(host: &Host, what: impl Fn(&Host) -> bool) {
    let started = Instant::now();
    while !what(host) {
        assert!(started.elapsed() < PATIENCE, "{:?}", host.nic.counts());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_nic_of_a_group_gets_one_copy_its_sender_included() {
    let group = group(1);
    let mut sender = host("127.0.52.1");
    // Two that share an address, and one that has its own.
    let members = ["127.0.52.2", "127.0.52.2", "127.0.52.3"].map(host);
    let stranger = host("127.0.52.2");
    for member in members.iter().chain([&sender]) {
        member.nic.attach_multicast(member.qpn, group).unwrap();
        // The one receive is used up; a second copy would be counted.
    }
    sender.memory[4096..4104].copy_from_slice(b"to all !");
    sender.post(2, to(&sender, group), sender.sge(4096, 8));
    for member in &members {
        let [completion] = member.completions(1)[..] else { panic!("one") };
        assert_eq!((completion.id, completion.byte_len), (1, 48));
        assert_eq!(completion.source_qpn, sender.qpn);
        assert_eq!(completion.network_header, NetworkHeader::Ipv4);
        assert_eq!(member.memory[40..48], *b"to all !");
        assert_eq!(Ipv4Addr::from([32, 33, 34, 35].map(|at| member.memory[at])), address(&sender));
    }
    assert_eq!(sender.completions(2).len(), 2, "sent, and received");
    assert_eq!(sender.memory[40..48], *b"to all !");
    for host in members.iter().chain([&sender]) {
        let drops = host.nic.with(|endpoint, _, _| endpoint.stats().drop_no_receive);
        assert_eq!(drops, 0, "no second copy");
        host.nic.detach_multicast(host.qpn, group).unwrap();
    }
    assert_eq!((stranger.nic.counts().rx_packets, completed(&stranger).len()), (0, 0));
}

fn address(host: &Host) -> Ipv4Addr {
    match host.gid().gid.ip() {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(v6) => panic!("{v6}"),
    }
}

#[test]
fn a_group_is_heard_while_the_application_sleeps_until_it_is_left() {
    let (sender, member) = (host("127.0.52.4"), host("127.0.52.5"));
    // The thread waits on the sockets from before the change.
    std::thread::sleep(Duration::from_millis(20));
    let group = group(2);
    member.nic.attach_multicast(member.qpn, group).unwrap();
    sender.post(2, to(&sender, group), sender.sge(4096, 8));
    wait_for(&member, |member| !completed(member).is_empty());

    // It was joined once more, so packets still arrive, but no queue pair takes them.
    member.nic.join_group(group).unwrap();
    member.nic.detach_multicast(member.qpn, group).unwrap();
    sender.post(3, to(&sender, group), sender.sge(4096, 8));
    let unknown = |host: &Host| host.nic.with(|endpoint, _, _| endpoint.stats().drop_unknown_qpn);
    wait_for(&member, |member| unknown(member) == 1);

    member.nic.leave_group(group);
    sender.post(4, to(&sender, group), sender.sge(4096, 8));
    sender.completions(3);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((unknown(&member), member.nic.counts().rx_packets), (1, 2));
}

#[test]
fn a_long_gso_batch_arrives_whole() {
    let (sender, member) = (host("127.0.52.6"), host("127.0.52.7"));
    let group = group(3);
    member.nic.attach_multicast(member.qpn, group).unwrap();
    for id in 2..=40 {
        member.post_recv(id, member.sge(0, 4096));
    }
    for id in 1..=40 {
        sender.post(id, to(&sender, group), sender.sge(4096, 1000));
    }
    let ids: Vec<u64> = member.completions(40).iter().map(|completion| completion.id).collect();
    assert_eq!(ids, (1..=40).collect::<Vec<_>>());
    let counts = member.nic.counts();
    assert_eq!((counts.rx_icrc_encapsulated, counts.rx_packets), (0, 40));
    member.nic.detach_multicast(member.qpn, group).unwrap();
}

#[test]
fn what_is_no_group_or_cannot_be_joined_is_refused() {
    let host = host("127.0.52.8");
    let gid = host.gid().gid;
    let attach = |gid| host.nic.attach_multicast(host.qpn, gid);
    assert!(matches!(attach(gid), Err(GroupError::Attach(CreateError::Mismatch))));
    let error = host.nic.join_group(gid).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    // The device has no IPv6 address.
    let v6 = "ff0e::1234".parse::<core::net::Ipv6Addr>().unwrap().into();
    let Err(GroupError::Io(error)) = attach(v6) else { panic!("joined") };
    assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
    // The attempt leaves nothing behind.
    let detached = host.nic.detach_multicast(host.qpn, v6);
    assert_eq!(detached, Err(DestroyError::NotFound));
    host.nic.attach_multicast(host.qpn, group(4)).unwrap();
    host.nic.detach_all_multicast(host.qpn);
    host.nic.with(|endpoint, _, _| endpoint.destroy_qp(host.qpn)).unwrap();
}

#[test]
fn a_packet_to_a_group_with_the_number_of_one_queue_pair_is_dropped() {
    let host = host("127.0.52.9");
    let (group, source) = (Ipv4Addr::new(239, 255, 52, 5), Ipv4Addr::new(127, 0, 52, 10));
    host.nic.attach_multicast(host.qpn, group.into()).unwrap();
    let forger = UdpSocket::bind((source, ROCE_PORT)).unwrap();
    let by = libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) };
    // SAFETY: an option as long as it says, on a live socket.
    let set = unsafe {
        let length = size_of::<libc::in_addr>() as libc::socklen_t;
        let name = libc::IP_MULTICAST_IF;
        libc::setsockopt(forger.as_raw_fd(), libc::IPPROTO_IP, name, (&raw const by).cast(), length)
    };
    assert_eq!(set, 0);
    for qpn in [host.qpn, Qpn::GSI] {
        let header = roce::Repr {
            deth: Some(deth::Repr { q_key: Q_KEY, source: Qpn::new(5) }),
            ..roce::Repr::new(Opcode::UD_SEND_ONLY, qpn, Psn::new(1))
        };
        let mut bytes = vec![0; header.header_len() + 8];
        header.emit(&mut bytes);
        let source_port = forger.local_addr().unwrap().port();
        let datagram = Datagram { source_port, ..Datagram::between(source.into(), group.into()) };
        bytes.extend(icrc::compute(&datagram, &bytes).unwrap());
        forger.send_to(&bytes, SocketAddrV4::new(group, ROCE_PORT)).unwrap();
    }
    wait_for(&host, |host| host.nic.counts().rx_group_dropped == 2);
    assert!(completed(&host).is_empty());
}
