//! What we parse and emit against bytes of others: the kernel's Soft-RoCE and Scapy.

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

use rdma::{Gid, PKey, Psn, QKey, Qpn};
use wire::cm::{self, Mad, Message};
use wire::ethernet::EtherType;
use wire::frame::Ip;
use wire::pcap::Reader;
use wire::{Error, Frame, Opcode, ethernet, icrc, ipv4, roce, udp};

static RXE: &[u8] = include_bytes!("../../../golden/rxe-pair.pcap");
static SCAPY: &str = include_str!("../../../golden/icrc-scapy.txt");

/// Whether the bytes are of UDP port 4791 over IPv4, told without what is tested here.
fn is_roce(frame: &[u8]) -> bool {
    frame.len() > 42 && frame[12..14] == [8, 0] && frame[23] == 17 && frame[36..38] == [0x12, 0xb7]
}

#[test]
fn every_packet_of_soft_roce_is_parsed_and_emitted_again_byte_for_byte() {
    let mut opcodes = BTreeMap::new();
    for record in Reader::new(RXE).unwrap() {
        let (_, bytes) = record.unwrap();
        if !is_roce(bytes) {
            assert!(Frame::parse(bytes).is_err());
            continue;
        }
        let frame = Frame::parse(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:02x?}"));
        assert_eq!(frame.to_vec(), bytes, "{frame}");
        *opcodes.entry(frame.roce.bth.opcode).or_insert(0) += 1;
    }
    assert_eq!(opcodes.values().sum::<u32>(), 974);
    assert_eq!(opcodes[&Opcode::RC_ACKNOWLEDGE], 207);
    assert_eq!(opcodes[&Opcode::UD_SEND_ONLY], 62);
}

/// The connection management datagrams of the capture, in their order.
fn mads() -> Vec<Mad> {
    let frames = Reader::new(RXE).unwrap().map(|record| record.unwrap().1);
    let frames = frames.filter(|bytes| is_roce(bytes)).map(|bytes| Frame::parse(bytes).unwrap());
    let mads = frames.filter(|frame| frame.roce.bth.destination == Qpn::GSI).map(|frame| {
        assert_eq!(frame.roce.deth.unwrap().q_key, QKey::GSI);
        let mad = Mad::parse(frame.payload).unwrap_or_else(|error| panic!("{error}: {frame}"));
        assert_eq!(mad.to_bytes(), frame.payload, "{mad}");
        mad
    });
    mads.collect()
}

#[test]
fn every_connection_of_soft_roce_is_parsed_and_emitted_again_byte_for_byte() {
    let mads = mads();
    let shown: Vec<String> =
        mads.iter().map(|mad| mad.message.to_string().replace("0x", "")).collect();
    let kinds: Vec<&str> = shown.iter().map(|text| text.split(' ').next().unwrap()).collect();
    // rping, then ucmatose, then udaddy.
    let connection = ["REQ", "REP", "RTU", "DREQ", "DREP"];
    assert_eq!(kinds[..5], connection);
    assert_eq!(kinds[5..10], connection);
    assert_eq!(kinds[10..], ["SIDR_REQ", "SIDR_REP"]);

    let Message::Req(req) = mads[0].message else { unreachable!() };
    assert_eq!((req.local_id, req.service), (0xf28b_05d2, 0x0106_1c06));
    assert_eq!(req.guid, 0x5054_00ff_fe00_0003);
    assert_eq!((req.qpn, req.psn), (Qpn::new(0x19), Psn::new(0x97_d74a)));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!((req.remote_timeout, req.local_timeout, req.max_retries), (20, 20, 15));
    assert_eq!((req.retry_count, req.rnr_retry, req.mtu), (7, 7, 3));
    assert_eq!((req.transport, req.p_key), (cm::req::Transport::Rc, PKey::DEFAULT));
    let [client, server] = [3, 2].map(|last| Ipv4Addr::new(10, 77, 0, last));
    assert_eq!((req.path.local_gid, req.path.remote_gid), (client.into(), Gid::from(server)));
    assert_eq!((req.path.local_lid, req.path.flow_label), (cm::req::NO_LID, 0x2_b8d2));
    assert_eq!((req.path.hop_limit, req.path.ack_timeout), (64, 19));
    let addresses = cm::ip::Repr::parse(&req.private).unwrap();
    assert_eq!(addresses.to_string(), "10.77.0.3 port 39348 to 10.77.0.2");

    let Message::Rep(rep) = mads[1].message else { unreachable!() };
    assert_eq!((rep.local_id, rep.remote_id), (0x802a_8dde, req.local_id));
    assert_eq!((rep.qpn, rep.psn), (Qpn::new(0x19), Psn::new(0x50_2b37)));
    assert_eq!((rep.target_ack_delay, rep.rnr_retry, rep.srq), (15, 7, false));
    let Message::Dreq(dreq) = mads[3].message else { unreachable!() };
    assert_eq!(dreq.remote_qpn, rep.qpn);
    let Message::SidrRep(rep) = mads[11].message else { unreachable!() };
    assert_eq!((rep.qpn, rep.q_key), (Qpn::new(0x1b), QKey(0x0123_4567)));
}

#[test]
fn the_psn_in_a_request_is_that_which_the_other_side_begins_with() {
    let frames: Vec<Frame<'_>> = Reader::new(RXE)
        .unwrap()
        .map(|record| record.unwrap().1)
        .filter(|bytes| is_roce(bytes))
        .map(|bytes| Frame::parse(bytes).unwrap())
        .collect();
    let cm = frames.iter().position(|frame| frame.roce.bth.destination == Qpn::GSI).unwrap();
    let mads = mads();
    let (Message::Req(req), Message::Rep(rep)) = (mads[0].message, mads[1].message) else {
        unreachable!()
    };
    // Both of rping's queue pairs have one number, so their hosts tell them apart.
    let first = |from: [u8; 4]| {
        let sent = frames[cm..].iter().find(|frame| {
            let source = match frame.ip {
                Ip::V4 { source, .. } => source.octets(),
                Ip::V6 { .. } => unreachable!(),
            };
            let bth = frame.roce.bth;
            source == from && bth.destination != Qpn::GSI && bth.opcode.is_request()
        });
        sent.unwrap().roce.bth.psn
    };
    assert_eq!((first([10, 77, 0, 2]), first([10, 77, 0, 3])), (req.psn, rep.psn));
}

#[test]
fn a_capture_is_the_same_in_the_other_format() {
    let reader = Reader::new(RXE).unwrap();
    let mut file = wire::pcapng::section_header().to_vec();
    wire::pcapng::write_interface(&mut file, "veth0");
    for record in reader.clone() {
        let (at, frame) = record.unwrap();
        wire::pcapng::write(&mut file, 0, at, wire::pcapng::Direction::Unknown, frame);
    }
    assert!(wire::pcapng::Reader::new(&file).unwrap().eq(reader));
}

/// Family, opcode and bytes of each vector.
fn scapy() -> impl Iterator<Item = (u8, u8, Vec<u8>)> {
    SCAPY.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words a line");
        let (family, opcode, hex) = (word(), word(), word());
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes = (0..hex.len()).step_by(2).map(byte).collect();
        (family[1..].parse().unwrap(), u8::from_str_radix(opcode, 16).unwrap(), bytes)
    })
}

#[test]
fn every_frame_of_scapy_is_parsed_and_emitted_again_byte_for_byte() {
    let mut seen = BTreeSet::new();
    for (family, opcode, bytes) in scapy() {
        let frame = Frame::parse(&bytes)
            .unwrap_or_else(|error| panic!("v{family} {opcode:02x}: {error}: {bytes:02x?}"));
        assert_eq!(matches!(frame.ip, Ip::V6 { .. }), family == 6);
        assert_eq!(frame.roce.bth.opcode.code(), opcode);
        assert_eq!(frame.to_vec(), bytes, "{frame}");
        seen.insert((family, opcode));
    }
    // RC 23, UC 12, UD 2, CNP 1, over both families. Scapy has no XRC.
    assert_eq!(seen.len(), 2 * (23 + 12 + 2 + 1));
}

#[test]
fn an_ip_id_recovered_is_the_one_that_a_search_over_all_finds() {
    let mut searched = 0;
    for (_, _, bytes) in scapy().filter(|&(family, _, _)| family == 4) {
        let frame = Frame::parse(&bytes).unwrap();
        let Ip::V4 { id, .. } = frame.ip else { unreachable!() };
        let mut datagram = icrc::Datagram { id: 0, ..frame.datagram() };
        let ethernet = ethernet::Packet::new_checked(&bytes).unwrap();
        let tag = if ethernet.ethertype() == EtherType::VLAN { 4 } else { 0 };
        let covered = ethernet::HEADER_LEN + tag + ipv4::HEADER_LEN + udp::HEADER_LEN;
        let (covered, &received) = bytes[covered..].split_last_chunk().unwrap();
        let computed = icrc::compute(&datagram, covered).unwrap();
        assert_eq!(icrc::recover_id(received, computed, covered.len()), Some(id), "{frame}");

        // A search over every identification is slow, so it is made for some.
        if id == 0 || covered.len() > 120 || searched == 6 {
            continue;
        }
        searched += 1;
        let mut broken = received;
        broken[searched % 4] ^= 1;
        let found = [received, broken].map(|received| {
            let mut ids = (0..=u16::MAX).filter(|&id| {
                datagram.id = id;
                icrc::compute(&datagram, covered) == Ok(received)
            });
            (ids.next(), ids.count())
        });
        assert_eq!(found[0], (Some(id), 0), "there is one");
        assert_eq!(found[1].0, icrc::recover_id(broken, computed, covered.len()));
    }
    assert_eq!(searched, 6);
}

#[test]
fn a_byte_changed_on_the_way_is_seen() {
    for (_, _, mut bytes) in scapy() {
        let last = bytes.len() - roce::ICRC_LEN - 1;
        bytes[last] ^= 0x10;
        let seen = Frame::parse(&bytes).unwrap_err();
        assert_eq!(seen, Error::Icrc);
    }
}
