//! The file of all captures: what tcpdump would have seen at the chosen ports, as pcapng.
//!
//! ```text
//!   sender ═══ link ═══► port     a tap at the receiving end sees each frame of its direction
//!
//!   a captured port: its own tap (inbound) and that of the port at the other end (outbound)
//! ```
//!
//! A tap keeps what a frame was made of ([`crate::capture`]); bytes are made when the file is. A frame is
//! stamped with the moment of its last bit: outbound when that left, inbound when it came. One that the link
//! lost is outbound at one end and nothing at the other. Packets of programs outside have their own bytes; other
//! payloads are zeroes with right ICRCs. Ethernet's
//! check sequence is left out, as it is by captures of a real port. TCP options that are no numbers here
//! (SACK) are NOPs. The header of the file says that it was simulated.
//!
//! The file is sorted by time, then by interface.

use rdma::Time;
use wire::ethernet::{Address, EtherType};
use wire::pcapng::Direction;
use wire::{ethernet, pcapng, pfc, vlan};

use crate::Network;
use crate::address::{Tuple, address_of, mac_of_host};
use crate::capture::{Headers, Seen};
use crate::network::PortEnd;
use crate::packet::{Kind, Packet};
use crate::paranoid;
use crate::pfc::PRIORITIES;
use crate::tcp::{Addresses, Carried, Segment, captured};
use crate::topology::Topology;

/// Of Ethernet, at the end of a frame.
const CHECK_SEQUENCE: usize = 4;

/// A frame on its way into the file.
struct Record<'a> {
    at: u64,
    interface: u32,
    direction: Direction,
    seen: &'a Seen,
    /// The ports that sent it and that it was sent to.
    ends: [&'a PortEnd; 2],
    snap_bytes: usize,
}

/// The file of all captures of `network`, if it has any.
pub(crate) fn file(network: &Network) -> Option<Vec<u8>> {
    let captures = network.captures();
    if captures.is_empty() {
        return None;
    }
    let mut file = Vec::new();
    pcapng::write_section(&mut file, "ferroce sim", "simulated: these frames were on no wire");
    let mut records: Vec<Record<'_>> = Vec::new();
    let ports: Vec<PortEnd> = network.port_ends().collect();
    let topology = network.topology();
    let mut interface = 0;
    for capture in captures {
        for port in ports.iter().filter(|port| capture.covers(port.at, port.to)) {
            write_interface(&mut file, topology, port, capture.snap_bytes);
            let peer = &ports[port.peer as usize];
            for (direction, ends) in
                [(Direction::Inbound, [peer, port]), (Direction::Outbound, [port, peer])]
            {
                let seen = network.tap(ends[1].port).map_or(&[][..], |tap| &tap.seen);
                let kept = seen.iter().filter(|seen| {
                    let there = direction == Direction::Outbound || !seen.lost;
                    there && priorities(seen, network) & capture.priorities != 0
                });
                records.extend(kept.map(|seen| Record {
                    at: last_bit(seen, ends[0], direction),
                    interface,
                    direction,
                    seen,
                    ends,
                    snap_bytes: capture.snap_bytes.map_or(usize::MAX, |bytes| bytes as usize),
                }));
            }
            interface += 1;
        }
    }
    records.sort_by_key(|record| (record.at, record.interface, record.direction as u8));
    for record in records {
        let to = (record.interface, Time::from_ps(record.at), record.direction);
        write_frame(&mut file, to, record.seen, network, record.ends, record.snap_bytes);
    }
    Some(file)
}

/// Describes a port as an interface of the file.
pub(super) fn write_interface(
    file: &mut Vec<u8>,
    topology: &Topology,
    port: &PortEnd,
    snap_bytes: Option<u32>,
) {
    let [at, to] = [port.at, port.to].map(|end| topology.name(end));
    let described = pcapng::Described {
        name: &format!("{at} to {to}"),
        description: &format!("the port of {at} that leads to {to}"),
        speed_bps: port.rate_bps,
        snap_bytes: snap_bytes.unwrap_or(0),
    };
    pcapng::write_described(file, &described);
}

/// Writes a frame as an interface has seen it.
pub(super) fn write_frame(
    file: &mut Vec<u8>,
    (interface, at, direction): (u32, Time, Direction),
    seen: &Seen,
    network: &Network,
    ends: [&PortEnd; 2],
    snap_bytes: usize,
) {
    let frame = frame(seen, network, ends);
    let part = &frame[..frame.len().min(snap_bytes)];
    let whole = match &seen.headers {
        // Perhaps only the beginning was kept.
        Headers::Whole(..) => usize::from(seen.packet.bytes).saturating_sub(CHECK_SEQUENCE),
        _ => frame.len(),
    };
    pcapng::write_part(file, interface, at, direction, part, whole as u32);
}

/// The priorities that it is of, or speaks of.
pub(super) fn priorities(seen: &Seen, network: &Network) -> u8 {
    match (seen.packet.pcp(), &seen.headers) {
        (Some(priority), _) => 1 << (priority & 7),
        (None, Headers::Roce(_, tuple) | Headers::Tcp(_, tuple) | Headers::Whole(_, tuple)) => {
            let nic = network.nic_config(tuple.source);
            nic.map_or(0, |nic| 1 << nic.priority_of(seen.packet.dscp() as u8))
        }
        (None, Headers::Pause) => {
            let pause = seen.packet.pause();
            pause.stop | pause.resume
        }
    }
}

/// When the last bit left `sender`, or came to the port at the other end.
pub(super) fn last_bit(seen: &Seen, sender: &PortEnd, direction: Direction) -> u64 {
    let pause = seen.packet.kind == Kind::Pfc;
    let (packet, alone) = sender.delays;
    let whole = if pause { alone } else { packet };
    match direction {
        Direction::Outbound => seen.at - whole,
        _ => seen.at - (whole - alone),
    }
}

fn frame(seen: &Seen, network: &Network, [from, to]: [&PortEnd; 2]) -> Vec<u8> {
    // A flooded copy is addressed to the server, not to the port that it comes to.
    let macs = |tuple: &Tuple| match seen.packet.is_flooded() {
        true => [from.mac, mac_of_host(tuple.destination)],
        false => [from.mac, to.mac],
    };
    match &seen.headers {
        Headers::Roce(header, tuple) => {
            let payload = vec![0; usize::from(seen.packet.payload())];
            paranoid::frame(&seen.packet, header, tuple, macs(tuple), &payload).to_vec()
        }
        Headers::Tcp(segment, tuple) => {
            tcp_frame(seen, segment, tuple, network.tcp_port(tuple), macs(tuple))
        }
        Headers::Whole(bytes, tuple) => whole_frame(&seen.packet, bytes, macs(tuple)),
        Headers::Pause => {
            let pause = seen.packet.pause();
            let said = |priority: usize| match (
                pause.stop >> priority & 1,
                pause.resume >> priority & 1,
            ) {
                (1, _) => Some(pause.quanta),
                (_, 1) => Some(0),
                _ => None,
            };
            let quanta: [Option<u16>; PRIORITIES] = core::array::from_fn(said);
            pfc::Repr { quanta }.frame(from.mac).to_vec()
        }
    }
}

/// The Ethernet header of a packet, to which the rest is to be added.
fn link_header(packet: &Packet, [source, destination]: [Address; 2]) -> Vec<u8> {
    let mut frame = vec![0; vlan::link_header_len(packet.tag())];
    let link = ethernet::Repr { destination, source, ethertype: EtherType::IPV4 };
    vlan::emit_link_header(&link, packet.tag(), &mut frame);
    frame
}

/// The frame of a program's packet.
fn whole_frame(packet: &Packet, bytes: &[u8], macs: [Address; 2]) -> Vec<u8> {
    let mut frame = link_header(packet, macs);
    frame.extend_from_slice(bytes);
    frame
}

fn tcp_frame(
    seen: &Seen,
    segment: &Segment,
    tuple: &Tuple,
    port: Option<u16>,
    macs: [Address; 2],
) -> Vec<u8> {
    let mut frame = link_header(&seen.packet, macs);
    let addresses = Addresses {
        from: (address_of(tuple.source), tuple.source_port),
        to: (address_of(tuple.destination), port.unwrap_or_default()),
    };
    let carried = Carried {
        traffic_class: seen.packet.traffic_class,
        ip_id: seen.packet.ip_id,
        ttl: seen.packet.ttl,
        bytes: usize::from(seen.packet.bytes).saturating_sub(frame.len() + CHECK_SEQUENCE),
    };
    frame.extend(captured(segment, &addresses, &carried));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkConfig;
    use crate::address::mac_of_port;
    use crate::capture::Capture;
    use crate::fault::{DropRule, Fault, FaultKind};
    use crate::topology::{Cables, End, single_switch};
    use crate::workload::FlowSpec;
    use rdma::{Rate, Span};
    use wire::frame::Frame;

    /// Three to one under a small buffer, with a link that loses every hundredth packet.
    fn run(captures: Vec<Capture>) -> (Network, Option<Vec<u8>>) {
        let cables = Cables::new(Rate::from_gbps(40), 200);
        let mut config = NetworkConfig::new(single_switch(4, cables));
        config.flows = (0..3).map(|host| FlowSpec::write(host, 3, 300_000)).collect();
        config.switch.buffer_bytes = 400_000;
        config.switch.latency = Span::from_ns(500);
        let (from, to) = (End::Host(0), End::Switch(0));
        let kind = FaultKind::LinkRule { from, to, rule: DropRule::Every(100) };
        config.faults = vec![Fault { at: Time::ZERO, kind }];
        config.captures = captures;
        let mut network = Network::new(config).unwrap();
        assert_eq!(network.run(Time::ZERO + Span::from_ms(50)), crate::Verdict::Finished);
        let file = file(&network);
        (network, file)
    }

    fn of(node: End, neighbour: Option<End>) -> Capture {
        Capture { node, neighbour, snap_bytes: None, priorities: 0xff }
    }

    /// Interface, direction, time and frame of each record.
    fn records(file: &[u8]) -> Vec<(u32, Direction, Time, Vec<u8>)> {
        let mut reader = pcapng::Reader::new(file).unwrap();
        let mut all = Vec::new();
        while let Some(record) = reader.next_record() {
            let record = record.unwrap();
            all.push((record.interface, record.direction, record.at, record.frame.to_vec()));
        }
        all
    }

    #[test]
    fn a_capture_holds_whole_frames_of_both_directions_and_changes_nothing() {
        let (plain, none) = run(Vec::new());
        assert_eq!(none, None);
        let (network, file) = run(vec![of(End::Host(0), None)]);
        assert_eq!((network.now(), network.events()), (plain.now(), plain.events()));
        let records = records(&file.unwrap());
        let (mut data, mut pauses, mut answers) = (0, 0, 0);
        for (_, direction, _, bytes) in &records {
            match (direction, Frame::parse(bytes)) {
                (Direction::Outbound, Ok(frame)) => {
                    assert_eq!(
                        (frame.source, frame.destination),
                        (mac_of_host(0), mac_of_port(0, 0))
                    );
                    data += 1;
                }
                (Direction::Inbound, Ok(_)) => answers += 1,
                (Direction::Inbound, Err(_)) => {
                    let pause = pfc::Repr::parse(&bytes[ethernet::HEADER_LEN..]).unwrap();
                    assert!(pause.quanta[3].is_some());
                    pauses += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let stats = network.host_stats(0);
        assert_eq!(data, stats.iter().map(|stats| stats.sent_pkts).sum::<u64>());
        assert!(data > 300_000 / 1_024 && answers > 0 && pauses > 0);
        let times: Vec<Time> = records.iter().map(|(_, _, at, _)| *at).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn what_a_link_lost_was_sent_and_did_not_come() {
        let (network, file) =
            run(vec![of(End::Host(0), None), of(End::Switch(0), Some(End::Host(0)))]);
        let records = records(&file.unwrap());
        let count = |interface: u32, direction: Direction| {
            let these =
                records.iter().filter(|(at, way, ..)| (*at, *way) == (interface, direction));
            these.count() as u64
        };
        let lost = network.drops().of(crate::counters::Drop::Rule);
        assert!(lost > 0);
        assert_eq!(count(0, Direction::Outbound), count(1, Direction::Inbound) + lost);
        assert_eq!(count(0, Direction::Inbound), count(1, Direction::Outbound));
        // The first frame left at once, and came 200 m later: its last bit, not its place in a queue.
        let first = |interface, direction| {
            let of = |record: &&(u32, Direction, Time, Vec<u8>)| {
                (record.0, record.1) == (interface, direction)
            };
            records.iter().find(of).unwrap().2
        };
        let way = first(1, Direction::Inbound).since(first(0, Direction::Outbound));
        assert_eq!(way, Span::from_ns(1_000));
    }

    #[test]
    fn frames_are_cut_and_chosen_by_priority() {
        let mut short = of(End::Host(0), None);
        short.snap_bytes = Some(90);
        short.priorities = 1 << 3;
        let (_, file) = run(vec![short]);
        let records_of_3 = records(&file.unwrap());
        assert_eq!(records_of_3.iter().map(|(.., frame)| frame.len()).max(), Some(90));
        let mut other = of(End::Host(0), None);
        other.priorities = 1 << 4;
        let (_, file) = run(vec![other]);
        assert_eq!(records(&file.unwrap()), []);
    }
}
