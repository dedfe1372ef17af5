//! What is recorded of a conversation.

use rdma::{Operation, QpType};
use softnic::Options;
use wire::icrc::{self, Datagram};
use wire::pcapng::{Direction, Reader};
use wire::{ipv4, roce, udp};

use crate::support::pair_with;

#[test]
fn every_packet_is_a_frame_whose_icrc_verifies() {
    let path = std::env::temp_dir().join(format!("ferroce-record-{}", std::process::id()));
    let capture = Some(path.to_str().unwrap().to_owned());
    let (a, b) = pair_with(41, QpType::Rc, 1 << 20, &Options { capture, ..Options::default() });
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, 1 << 20));
    a.completions(1);
    let counts = a.nic.counts();
    drop((a, b));

    // The first that opened has the name.
    let file = std::fs::read(&path).unwrap();
    let mut reader = Reader::new(&file).unwrap();
    let (mut sent, mut received, mut trains) = (0, 0, 0);
    while let Some(record) = reader.next_record() {
        let record = record.unwrap();
        match record.direction {
            Direction::Outbound => sent += 1,
            Direction::Inbound => received += 1,
            Direction::Unknown => panic!("a direction"),
        }
        let ip = ipv4::Packet::new_checked(&record.frame[14..]).unwrap();
        let udp = udp::Packet::new_checked(ip.payload()).unwrap();
        let (covered, icrc) = udp.payload().split_last_chunk().unwrap();
        let datagram = Datagram {
            source: ip.source().into(),
            destination: ip.destination().into(),
            source_port: udp.source_port(),
            destination_port: udp.destination_port(),
            id: ip.id(),
            dont_fragment: ip.dont_fragment(),
        };
        assert_eq!(icrc::compute(&datagram, covered), Ok(*icrc));
        roce::Repr::parse(covered).unwrap();
        trains += u64::from(ip.id() > 0);
    }
    assert_eq!((sent, received), (counts.tx_packets, counts.rx_packets));
    assert!(sent >= 256 && received > 0 && trains > 200, "{sent} {received} {trains}");
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap() {
        let other = entry.unwrap().path();
        if other.to_str().unwrap().starts_with(path.to_str().unwrap()) {
            std::fs::remove_file(other).unwrap();
        }
    }
}
