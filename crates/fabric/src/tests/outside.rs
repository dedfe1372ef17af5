//! Programs outside: their packets cross the network with all their bytes, and PFC reaches both ends.

use core::net::Ipv4Addr;

use rdma::{Psn, Qpn, Rate, Span, Time};
use wire::frame::{Frame, Ip};
use wire::{Opcode, ethernet, ipv4, roce};

use crate::counters::Drop;
use crate::fault::FaultKind;
use crate::switch::config::EcnConfig;
use crate::topology::{Cables, End, leaf_spine, single_switch};
use crate::workload::FlowSpec;
use crate::{Left, Network, NetworkConfig, Refused};

const ECT: u8 = 2;

/// Hosts on one switch, at 10 Gb/s, attached.
pub(super) fn network(hosts: u32, settle: impl FnOnce(&mut NetworkConfig)) -> Network {
    let mut config = NetworkConfig::new(single_switch(hosts, Cables::new(Rate::from_gbps(10), 2)));
    config.partitions = Some(1);
    settle(&mut config);
    let mut network = Network::new(config).unwrap();
    assert_eq!(network.attach_hosts(), hosts as usize);
    network
}

fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host)
}

/// An IP packet, from its header to its ICRC.
pub(super) fn packet(from: u32, to: u32, number: u32, class: u8) -> Vec<u8> {
    let payload: Vec<u8> = (0..1000_u32).map(|at| (at * 7 + number) as u8).collect();
    let frame = Frame {
        source: ethernet::Address([0; 6]),
        destination: ethernet::Address([0; 6]),
        vlan: None,
        ip: Ip::V4 {
            source: address(from),
            destination: address(to),
            tos: class,
            id: number as u16,
            dont_fragment: true,
            ttl: 64,
        },
        source_port: 0xc123,
        roce: roce::Repr::new(Opcode::from_code(0x24).unwrap(), Qpn::new(0x4007), Psn::new(number)),
        payload: &payload,
    };
    frame.to_vec().split_off(ethernet::HEADER_LEN)
}

pub(super) fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

pub(super) fn taken(network: &mut Network, host: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    network.take_frames(host, |bytes| {
        all.push(bytes.to_vec());
        true
    });
    all
}

#[test]
fn a_packet_crosses_the_network_with_every_byte_but_what_switches_change() {
    let mut network = network(2, |_| {});
    let sent = packet(0, 1, 5, 0x1a << 2 | ECT);
    network.send_frame(0, &sent, 9).unwrap();
    let left: Vec<Left> = network.frames_left().collect();
    assert_eq!(left, [Left { owner: 9, priority: 3, bytes: sent.len() as u32 }]);
    network.live_until(at(1));
    assert!(taken(&mut network, 1).is_empty(), "two times 0.85 us of bits alone");
    network.live_until(at(10));
    let [came] = &taken(&mut network, 1)[..] else { panic!("one packet") };
    assert_eq!(came[ipv4::HEADER_LEN..], sent[ipv4::HEADER_LEN..]);
    let (before, after) = (ipv4::Repr::parse(&sent).unwrap(), ipv4::Repr::parse(came).unwrap());
    assert_eq!(after, ipv4::Repr { ttl: 63, ..before });
    assert_eq!(network.now(), at(10) + Span::from_ps(1));
}

#[test]
fn who_takes_nothing_pauses_his_switch_and_that_the_sender_and_nothing_is_lost() {
    let mut network = network(2, |config| config.switch.buffer_bytes = 1_000_000);
    for number in 0..3_000 {
        network.send_frame(0, &packet(0, 1, number, 0x1a << 2), 0).unwrap();
    }
    network.live_until(at(10_000));
    let pauses = |network: &Network, host| network.host_pauses(host).unwrap();
    assert!(pauses(&network, 1).sent[3] > 0 && pauses(&network, 0).received[3] > 0);
    let waiting = network.frames_waiting(0)[3];
    assert!(waiting > 1_000_000, "{waiting} bytes were not let into the network");
    let mut came = Vec::new();
    for step in 0..10_000 {
        came.extend(taken(&mut network, 1));
        network.live_until(at(10_000 + 10 * step));
    }
    let numbers: Vec<u16> = came.iter().map(|at| ipv4::Repr::parse(at).unwrap().id).collect();
    assert_eq!(numbers, (0..3_000).collect::<Vec<u16>>());
    assert_eq!((network.drops().total(), network.frames_waiting(0)[3]), (0, 0));
}

#[test]
fn ports_count_what_programs_send_under_the_names_of_their_kind() {
    let mut network = network(2, |_| {});
    for number in 0..7 {
        network.send_frame(0, &packet(0, 1, number, 0x1a << 2), 0).unwrap();
    }
    network.live_until(at(1_000));
    let counted = network.counted();
    let of = |node: &str, neighbour: &str, counter: &str| {
        let port = counted.iter().find(|at| (&*at.node, &*at.neighbour) == (node, neighbour));
        port.unwrap().named().into_iter().find(|(name, _)| name == counter).map(|(_, count)| count)
    };
    let bytes = 7 * (packet(0, 1, 0, 0).len() as u64 + 18);
    assert_eq!(of("h0", "s0", "tx_prio3_packets"), Some(7));
    assert_eq!(of("h0", "s0", "tx_prio3_bytes"), Some(bytes));
    assert_eq!(of("s0", "h0", "SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES:3"), Some(bytes));
    assert_eq!(of("s0", "h1", "SAI_QUEUE_STAT_PACKETS:3"), Some(7));
    assert_eq!(of("h1", "s0", "rx_prio3_bytes"), Some(bytes));
    assert_eq!(of("h1", "s0", transport::Stats::NAMES[0]), None, "engines are the programs'");
}

#[test]
fn a_pause_of_one_priority_leaves_the_others_their_way() {
    let mut network = network(2, |config| config.switch.buffer_bytes = 1_000_000);
    for number in 0..3_000 {
        network.send_frame(0, &packet(0, 1, number, 0x1a << 2), 0).unwrap();
    }
    network.live_until(at(10_000));
    assert!(network.frames_waiting(0)[3] > 0);
    network.send_frame(0, &packet(0, 1, 0, 0), 0).unwrap();
    network.live_until(at(10_010));
    assert_eq!(network.frames_waiting(0)[0], 0);
}

#[test]
fn marks_are_in_the_bytes_and_the_header_checksum_knows() {
    let mut network = network(3, |config| {
        let ecn = EcnConfig { min_bytes: 5_000, max_bytes: 10_000, max_probability: 0.5 };
        for queue in &mut config.switch.queues {
            queue.ecn = Some(ecn);
        }
    });
    for (from, number) in (0..60).flat_map(|number| [(0, number), (1, number)]) {
        network.send_frame(from, &packet(from, 2, number, 0x1a << 2 | ECT), 0).unwrap();
    }
    network.live_until(at(1_000));
    let came = taken(&mut network, 2);
    let marked = came.iter().filter(|at| ipv4::Repr::parse(at).unwrap().tos & 3 == 3).count();
    assert_eq!(came.len(), 120);
    assert!((20..120).contains(&marked), "{marked}");
}

#[test]
fn what_is_no_packet_of_that_host_for_another_is_refused() {
    let mut network = network(3, |_| {});
    let good = packet(0, 1, 0, 0);
    let mut refused = |host, bytes: &[u8]| network.send_frame(host, bytes, 0).unwrap_err();
    assert_eq!(refused(1, &good), Refused::Source);
    assert_eq!(refused(0, &packet(0, 3, 0, 0)), Refused::Destination);
    assert_eq!(refused(0, &packet(0, 0, 0, 0)), Refused::Destination);
    assert_eq!(refused(7, &good), Refused::Host);
    for end in 0..good.len() {
        assert!(matches!(refused(0, &good[..end]), Refused::Malformed(_)), "{end} bytes");
    }
    for at in 0..ipv4::HEADER_LEN {
        let mut wrong = good.clone();
        wrong[at] ^= 0x11;
        assert!(matches!(refused(0, &wrong), Refused::Malformed(_)), "byte {at}");
    }
    assert_eq!(network.drops().total(), 0);
}

#[test]
fn simulated_hosts_load_the_same_links_and_have_an_end_of_which_nobody_takes_notice() {
    let mut network = network(3, |config| config.flows = vec![FlowSpec::write(1, 2, 1_000_000)]);
    network.live_until(at(100));
    network.send_frame(0, &packet(0, 2, 1, 0x1a << 2), 0).unwrap();
    network.live_until(at(20_000));
    assert_eq!(taken(&mut network, 2).len(), 1);
    assert!(network.flows()[0].finished_at.is_some());
    network.send_frame(0, &packet(0, 2, 2, 0x1a << 2), 0).unwrap();
    network.live_until(at(20_100));
    assert_eq!(taken(&mut network, 2).len(), 1);
}

#[test]
fn a_packet_without_hops_reaches_its_own_rack_and_no_further() {
    let mut config = NetworkConfig::new(leaf_spine(
        2,
        1,
        2,
        Cables::new(Rate::from_gbps(10), 2),
        Cables::new(Rate::from_gbps(10), 2),
    ));
    config.partitions = Some(1);
    let mut network = Network::new(config).unwrap();
    network.attach_hosts();
    for to in [1, 2] {
        let mut bytes = packet(0, to, 1, 0);
        let header = ipv4::Repr::parse(&bytes).unwrap();
        ipv4::Repr { ttl: 1, ..header }.emit(&mut bytes);
        network.send_frame(0, &bytes, 0).unwrap();
    }
    network.live_until(at(100));
    assert_eq!([1, 2].map(|host| taken(&mut network, host).len()), [1, 0]);
    assert_eq!(network.drops().of(Drop::HopLimit), 1);
}

#[test]
fn faults_come_while_it_lives() {
    let mut network = network(2, |_| {});
    network.live_until(at(50));
    let ends = [End::Host(1), End::Switch(0)];
    let flap = [
        (Span::ZERO, FaultKind::LinkDown { ends }),
        (Span::from_us(50), FaultKind::LinkUp { ends }),
    ];
    network.add_faults(&flap, None).unwrap();
    let missing = FaultKind::NicStuck { host: 9 };
    assert!(network.add_faults(&[(Span::ZERO, missing)], None).is_err());
    for (number, until) in [(0, 90), (1, 150)] {
        network.live_until(at(until - 30));
        network.send_frame(0, &packet(0, 1, number, 0), 0).unwrap();
        network.live_until(at(until));
    }
    assert_eq!(taken(&mut network, 1).len(), 1);
    assert_eq!(network.drops().of(Drop::LinkDown), 1);
}
