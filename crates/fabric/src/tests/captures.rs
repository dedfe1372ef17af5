//! Captures of a network that lives: begun and ended at any time, in the order of time, and within their bounds.

use rdma::{Span, Time};
use wire::frame::Frame;
use wire::pcapng::{Direction, Reader};
use wire::{ethernet, ipv4, pfc};

use super::outside::{at, network, packet, taken};
use crate::capture::Capture;
use crate::counters::Drop;
use crate::fault::{DropRule, FaultKind};
use crate::record::{CaptureLimits, LiveCapture};
use crate::topology::End;
use crate::{BuildError, Network};

const CLASS: u8 = 0x1a << 2;

fn of(node: End, neighbour: Option<End>) -> Capture {
    Capture { node, neighbour, snap_bytes: None, priorities: 0xff }
}

fn begin(network: &mut Network, of: &[Capture], limits: CaptureLimits) -> (LiveCapture, Vec<u8>) {
    let mut file = Vec::new();
    let live = LiveCapture::begin(network, of, limits, ["a test", "a remark"], &mut file).unwrap();
    (live, file)
}

/// Interface, direction, time and frame of each record.
fn records(file: &[u8]) -> Vec<(u32, Direction, Time, Vec<u8>)> {
    let mut reader = Reader::new(file).unwrap();
    core::iter::from_fn(|| reader.next_record())
        .map(|record| record.unwrap())
        .map(|record| (record.interface, record.direction, record.at, record.frame.to_vec()))
        .collect()
}

#[test]
fn a_capture_that_begins_in_between_has_the_bytes_of_programs_in_both_directions_and_their_order() {
    let mut network = network(3, |config| config.switch.buffer_bytes = 1_000_000);
    network.send_frame(0, &packet(0, 1, 7, CLASS), 0).unwrap();
    network.live_until(at(50));
    assert_eq!(taken(&mut network, 1).len(), 1, "before the capture");
    let ports = [of(End::Switch(0), Some(End::Host(1))), of(End::Host(0), None)];
    let (mut live, mut file) = begin(&mut network, &ports, CaptureLimits::default());
    let sent: Vec<Vec<u8>> = (0..20).map(|number| packet(0, 1, number, CLASS)).collect();
    for (number, bytes) in (0..).zip(&sent) {
        network.send_frame(0, bytes, 0).unwrap();
        network.send_frame(1, &packet(1, 0, number, CLASS), 0).unwrap();
        network.live_until(at(60 + 3 * u64::from(number)));
        live.take(&mut network, &mut file, usize::MAX);
    }
    network.live_until(at(1_000));
    let tally = live.end(&mut network, &mut file, usize::MAX);
    assert_eq!((tally.frames, tally.missed, tally.bytes), (80, 0, file.len() as u64));
    let records = records(&file);
    assert!(records.iter().map(|(_, _, at, _)| *at).is_sorted());
    let of = |interface, direction| {
        let these = records.iter().filter(move |it| (it.0, it.1) == (interface, direction));
        these.map(|(.., frame)| frame.clone()).collect::<Vec<_>>()
    };
    let left = of(1, Direction::Outbound);
    let came = of(0, Direction::Outbound);
    assert_eq!((left.len(), came.len()), (20, 20));
    for ((sent, left), came) in sent.iter().zip(&left).zip(&came) {
        assert_eq!(left[ethernet::HEADER_LEN..], sent[..], "as the program sent it");
        let header = ipv4::Repr::parse(&came[ethernet::HEADER_LEN..]).unwrap();
        assert_eq!(header.ttl, 63, "as the switch sent it on");
        assert_eq!(Frame::parse(came).unwrap().payload.len(), 1_000);
    }
    // Nothing is left of it: what comes now is for nobody.
    network.send_frame(0, &sent[0], 0).unwrap();
    network.live_until(at(2_000));
    assert_eq!(taken(&mut network, 1).len(), 21);
}

#[test]
fn pauses_are_captured_and_what_is_lost_was_sent_and_did_not_come() {
    let mut network = network(3, |config| config.switch.buffer_bytes = 1_000_000);
    let rule =
        FaultKind::LinkRule { from: End::Host(0), to: End::Switch(0), rule: DropRule::Every(10) };
    network.add_faults(&[(Span::ZERO, rule)], None).unwrap();
    network.live_until(at(1));
    let ports = [of(End::Host(0), None), of(End::Switch(0), Some(End::Host(0)))];
    let (live, mut file) = begin(&mut network, &ports, CaptureLimits::default());
    for number in 0..3_000 {
        network.send_frame(0, &packet(0, 1, number, CLASS), 0).unwrap();
    }
    network.live_until(at(10_000));
    live.end(&mut network, &mut file, usize::MAX);
    let records = records(&file);
    let count = |interface, direction| {
        records.iter().filter(|it| (it.0, it.1) == (interface, direction)).count() as u64
    };
    let lost = network.drops().of(Drop::Rule);
    assert!(lost > 10, "{lost}");
    assert_eq!(count(0, Direction::Outbound), count(1, Direction::Inbound) + lost);
    let pauses = records.iter().filter(|(interface, direction, _, frame)| {
        (*interface, *direction) == (0, Direction::Inbound)
            && pfc::Repr::parse(&frame[ethernet::HEADER_LEN..])
                .is_ok_and(|pause| pause.quanta[3].is_some())
    });
    assert!(pauses.count() > 0);
}

#[test]
fn a_reader_that_is_slow_or_has_enough_costs_frames_and_they_are_counted() {
    let mut network = network(2, |_| {});
    let port = [of(End::Host(0), None)];
    let snap = [Capture { snap_bytes: Some(96), ..port[0] }];
    let few = CaptureLimits { frames: Some(5), bytes: None };
    let small = CaptureLimits { frames: None, bytes: Some(1_000) };
    let (slow, mut slow_file) = begin(&mut network, &port, CaptureLimits::default());
    let (mut few, mut few_file) = begin(&mut network, &port, few);
    let (small, mut small_file) = begin(&mut network, &snap, small);
    for number in 0..50 {
        network.send_frame(0, &packet(0, 1, number, CLASS), 0).unwrap();
    }
    network.live_until(at(1_000));
    let tally = slow.end(&mut network, &mut slow_file, 10_000);
    assert_eq!(
        (tally.frames + tally.missed, records(&slow_file).len()),
        (50, tally.frames as usize)
    );
    assert!((1..20).contains(&tally.frames), "{tally:?}");
    few.take(&mut network, &mut few_file, usize::MAX);
    assert!(few.is_full());
    assert_eq!(few.end(&mut network, &mut few_file, usize::MAX).frames, 5);
    let tally = small.end(&mut network, &mut small_file, usize::MAX);
    assert!(tally.bytes <= 1_000 && tally.bytes == small_file.len() as u64, "{tally:?}");
    let lengths: Vec<usize> = records(&small_file).iter().map(|(.., frame)| frame.len()).collect();
    assert!(!lengths.is_empty() && lengths.iter().all(|length| *length == 96), "{lengths:?}");
    let nowhere = [of(End::Host(0), Some(End::Host(1)))];
    let mut file = Vec::new();
    let none = CaptureLimits::default();
    let error = LiveCapture::begin(&mut network, &nowhere, none, ["", ""], &mut file).unwrap_err();
    assert!(matches!(error, BuildError::NoSuchNode(_)) && file.is_empty());
}
