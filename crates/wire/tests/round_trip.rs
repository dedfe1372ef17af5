//! Whatever can be said is said and understood: `parse(emit(r)) == r` for every header.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rdma::{Key, PKey, Psn, QKey, Qpn, Time};
use wire::ethernet::{self, Address, EtherType};
use wire::frame::Ip;
use wire::opcode::Headers;
use wire::pcapng::Direction;
use wire::{
    Frame, Opcode, aeth, arp, atomic_eth, bth, cnp, deth, ipv4, ipv6, parteth, pause, pcap, pcapng,
    pfc, reth, roce, saeth, udp, vlan,
};

fn address() -> impl Strategy<Value = Address> {
    any::<[u8; 6]>().prop_map(Address)
}

fn ethertype() -> impl Strategy<Value = EtherType> {
    any::<u16>().prop_map(EtherType)
}

fn ip4() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn ip6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(Ipv6Addr::from)
}

fn tag() -> impl Strategy<Value = vlan::Tag> {
    any::<u16>().prop_map(vlan::Tag::from_bits)
}

fn qpn() -> impl Strategy<Value = Qpn> {
    any::<u32>().prop_map(Qpn::new)
}

fn opcode() -> impl Strategy<Value = Opcode> {
    proptest::sample::select(Opcode::all().collect::<Vec<_>>())
}

fn ip() -> impl Strategy<Value = Ip> {
    let v4 = (ip4(), ip4(), any::<u8>(), any::<u16>(), any::<bool>(), any::<u8>()).prop_map(
        |(source, destination, tos, id, dont_fragment, ttl)| Ip::V4 {
            source,
            destination,
            tos,
            id,
            dont_fragment,
            ttl,
        },
    );
    let v6 = (ip6(), ip6(), any::<u8>(), 0u32..1 << 20, any::<u8>()).prop_map(
        |(source, destination, traffic_class, flow_label, hop_limit)| Ip::V6 {
            source,
            destination,
            traffic_class,
            flow_label,
            hop_limit,
        },
    );
    prop_oneof![v4, v6]
}

prop_compose! {
    fn bth()(
        opcode in opcode(),
        bits in any::<[bool; 7]>(),
        p_key in any::<u16>(),
        destination in qpn(),
        psn in any::<u32>(),
    ) -> bth::Repr {
        bth::Repr {
            solicited: bits[0],
            migration: bits[1],
            p_key: PKey(p_key),
            fecn: bits[2],
            becn: bits[3],
            ack_request: bits[4],
            sign: match (bits[5], bits[6]) {
                (false, _) => bth::Sign::None,
                (true, false) => bth::Sign::Selective,
                (true, true) => bth::Sign::Twice,
            },
            ..bth::Repr::new(opcode, destination, Psn::new(psn))
        }
    }
}

prop_compose! {
    /// RoCE headers, and a payload that the opcode may carry.
    fn roce()(
        bth in bth(),
        address in any::<u64>(),
        words in any::<[u64; 2]>(),
        key in any::<u32>(),
        length in any::<u32>(),
        qpns in [qpn(), qpn()],
        syndrome in any::<u8>(),
        msn in 0u32..1 << 24,
        immediate in any::<[u8; 4]>(),
        payload in vec(any::<u8>(), 0..300),
    ) -> (roce::Repr, Vec<u8>) {
        let has = |header| bth.opcode.facts().headers.has(header);
        let payload = match bth.opcode {
            Opcode::CNP => payload.into_iter().chain([0; 16]).take(16).collect(),
            opcode if opcode.facts().payload => payload,
            _ => Vec::new(),
        };
        let r_key = Key(key);
        let syndrome = aeth::Syndrome::from_bits(syndrome);
        let [swap_or_add, compare] = words;
        let repr = roce::Repr {
            bth,
            xrc_srqn: has(Headers::XRCETH).then_some(qpns[0]),
            deth: has(Headers::DETH).then_some(deth::Repr { q_key: QKey(key), source: qpns[1] }),
            reth: has(Headers::RETH).then_some(reth::Repr { address, r_key, length }),
            atomic: has(Headers::ATOMIC_ETH)
                .then_some(atomic_eth::Repr { address, r_key, swap_or_add, compare }),
            aeth: has(Headers::AETH).then_some(aeth::Repr { syndrome, msn }),
            selective: has(Headers::SAETH).then_some(saeth::Repr {
                ranges: [16, 24, 32, 40].map(|shift| saeth::Arrived {
                    first: (address >> shift) as u16,
                    packets: (swap_or_add >> shift) as u16,
                }),
            }),
            atomic_ack: has(Headers::ATOMIC_ACK_ETH).then_some(compare),
            immediate: has(Headers::IMMDT).then_some(immediate),
            invalidate: has(Headers::IETH).then_some(r_key),
            part: has(Headers::PARTETH)
                .then_some(parteth::Repr { offset: address as u16, whole: length as u16 }),
        };
        (repr.padded_for(payload.len() as u32), payload)
    }
}

/// Emits over dirty bytes, so that a field that is not written shows.
fn emitted(length: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0xa5; length];
    emit(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn ethernet(destination in address(), source in address(), ethertype in ethertype()) {
        let repr = ethernet::Repr { destination, source, ethertype };
        let bytes = emitted(ethernet::HEADER_LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(ethernet::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn vlan_tag(tag in tag(), ethertype in ethertype()) {
        let repr = vlan::Repr { tag, ethertype };
        let bytes = emitted(vlan::HEADER_LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(vlan::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn arp_packet(
        reply in any::<bool>(), macs in [address(), address()], ips in [ip4(), ip4()],
    ) {
        let operation = if reply { arp::Operation::Reply } else { arp::Operation::Request };
        let [sender_mac, target_mac] = macs;
        let [sender_ip, target_ip] = ips;
        let repr = arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        let bytes = emitted(arp::HEADER_LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(arp::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn ipv4_header(
        ips in [ip4(), ip4()], tos in any::<u8>(), length in 0u16..64, id in any::<u16>(),
        dont_fragment in any::<bool>(), ttl in any::<u8>(), protocol in any::<u8>(),
    ) {
        let [source, destination] = ips;
        let total_len = ipv4::HEADER_LEN as u16 + length;
        let repr =
            ipv4::Repr { source, destination, tos, total_len, id, dont_fragment, ttl, protocol };
        let bytes = emitted(usize::from(total_len), |bytes| repr.emit(bytes));
        prop_assert_eq!(ipv4::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn ipv6_header(
        ips in [ip6(), ip6()], traffic_class in any::<u8>(), flow_label in 0u32..1 << 20,
        payload_len in 0u16..64, next_header in any::<u8>(), hop_limit in any::<u8>(),
    ) {
        let [source, destination] = ips;
        let repr = ipv6::Repr {
            source, destination, traffic_class, flow_label, payload_len, next_header, hop_limit,
        };
        let length = ipv6::HEADER_LEN + usize::from(payload_len);
        let bytes = emitted(length, |bytes| repr.emit(bytes));
        prop_assert_eq!(ipv6::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn udp_header(ports in any::<[u16; 2]>(), length in 8u16..64, checksum in any::<u16>()) {
        let [source_port, destination_port] = ports;
        let repr = udp::Repr { source_port, destination_port, length, checksum };
        let bytes = emitted(usize::from(length), |bytes| repr.emit(bytes));
        prop_assert_eq!(udp::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn flow_control(quanta in any::<u16>(), classes in any::<[Option<u16>; 8]>()) {
        let repr = pause::Repr { quanta };
        let bytes = emitted(pause::HEADER_LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(pause::Repr::parse(&bytes), Ok(repr));
        let repr = pfc::Repr { quanta: classes };
        let bytes = emitted(pfc::HEADER_LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(pfc::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn congestion_notification(destination in qpn(), p_key in any::<u16>()) {
        let repr = cnp::Repr { destination, p_key: PKey(p_key) };
        let bytes = emitted(cnp::HEADER_LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(cnp::Repr::parse(&bytes), Ok(repr));
        let (headers, reserved) = roce::Repr::parse(&bytes).unwrap();
        prop_assert_eq!((headers.bth, reserved.len()), (repr.bth(), cnp::RESERVED_LEN));
    }

    #[test]
    fn base_transport_header(repr in bth()) {
        let bytes = emitted(bth::LEN, |bytes| repr.emit(bytes));
        prop_assert_eq!(bth::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn roce_headers((repr, payload) in roce()) {
        let length = repr.header_len() + payload.len() + usize::from(repr.bth.pad);
        let bytes = emitted(length, |bytes| {
            let at = repr.emit(bytes);
            bytes[at..at + payload.len()].copy_from_slice(&payload);
        });
        prop_assert_eq!(length % 4, 0);
        prop_assert_eq!(roce::Repr::parse(&bytes), Ok((repr, &payload[..])));
    }

    #[test]
    fn whole_frames(
        (roce, payload) in roce(), source in address(), destination in address(),
        vlan in option::of(tag()), ip in ip(), source_port in any::<u16>(),
        dirt in any::<u8>(),
    ) {
        let payload = &payload[..];
        let frame = Frame { source, destination, vlan, ip, source_port, roce, payload };
        let mut bytes = vec![dirt; frame.emitted_len()];
        prop_assert_eq!(frame.emit(&mut bytes), bytes.len());
        prop_assert_eq!(Frame::parse(&bytes), Ok(frame));
        prop_assert_eq!(frame.to_vec(), bytes);
    }

    #[test]
    fn captures(
        records in vec((0u64..1 << 54, 0u8..3, 0u32..3, vec(any::<u8>(), 0..70)), 0..8),
    ) {
        let directions = [Direction::Unknown, Direction::Inbound, Direction::Outbound];
        let mut classic = pcap::file_header().to_vec();
        let mut blocks = pcapng::section_header().to_vec();
        for name in ["a", "bc", ""] {
            pcapng::write_interface(&mut blocks, name);
        }
        for (ns, direction, interface, frame) in &records {
            let (at, direction) = (Time::from_ns(*ns), directions[usize::from(*direction)]);
            pcap::write(&mut classic, at, frame);
            pcapng::write(&mut blocks, *interface, at, direction, frame);
        }
        let expected: Vec<_> =
            records.iter().map(|(ns, _, _, frame)| Ok((Time::from_ns(*ns), &frame[..]))).collect();
        prop_assert_eq!(pcap::Reader::new(&classic).unwrap().collect::<Vec<_>>(), &expected[..]);
        let mut reader = pcapng::Reader::new(&blocks).unwrap();
        prop_assert_eq!(reader.clone().collect::<Vec<_>>(), &expected[..]);
        for (_, direction, interface, _) in &records {
            let record = reader.next_record().unwrap().unwrap();
            let seen = (record.direction, record.interface);
            prop_assert_eq!(seen, (directions[usize::from(*direction)], *interface));
        }
    }
}
