//! The record of a conversation.

use rdma::{Operation, QpType};
use softnic::{Options, PathChoice};
use wire::icrc::{self, Datagram};
use wire::pcapng::{Direction, Reader};
use wire::{ipv4, roce, udp};

use crate::support::pair_with;

#[test]
fn every_packet_is_a_frame_whose_icrc_verifies() {
    assert!(batches_recorded(41, PathChoice::Udp) > 200);
}

#[test]
fn packets_of_rings_are_recorded_as_they_would_be_on_the_wire() {
    assert_eq!(batches_recorded(47, PathChoice::SharedMemory), 0);
}

/// Records a long WRITE, and says how many packets were in a GSO batch, without the first of each.
fn batches_recorded(third: u8, path: PathChoice) -> u64 {
    let file = format!("ferroce-record-{third}-{}", std::process::id());
    let file = std::env::temp_dir().join(file);
    let capture = Some(file.to_str().unwrap().to_owned());
    let options = Options { capture, path, ..Options::default() };
    let (a, b) = pair_with(third, QpType::Rc, 1 << 20, &options);
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    let write_bytes = |bytes| {
        a.post(1, write, a.sge(0, bytes));
        a.completions(1);
    };
    if path == PathChoice::SharedMemory {
        a.until_by_ring(|| write_bytes(8));
    }
    write_bytes(1 << 20);
    let counts = a.nic.counts();
    drop((a, b));

    // The first NIC that opened has the plain name.
    let record = std::fs::read(&file).unwrap();
    let mut reader = Reader::new(&record).unwrap();
    let (mut sent, mut received, mut batched) = (0, 0, 0);
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
        batched += u64::from(ip.id() > 0);
    }
    // A receiver without the processor for long has no room in the end.
    assert_eq!((sent, received), (counts.tx_packets + counts.tx_dropped, counts.rx_packets));
    assert!(sent >= 256 && received > 0, "{sent} {received}");
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap() {
        let other = entry.unwrap().path();
        if other.to_str().unwrap().starts_with(file.to_str().unwrap()) {
            std::fs::remove_file(other).unwrap();
        }
    }
    batched
}
