//! Paranoid mode: every packet that arrives is written out as bytes, parsed again, and its ICRC
//! checked.
//!
//! In a fast simulation a packet is thirty-two bytes of numbers, of which headers are made at the end. This
//! shows that those numbers are a RoCEv2 frame: what the engine is given is what a parser would have
//! read from the wire, and the frame is as long as the link was busy with it.

use wire::ethernet::Address;
use wire::frame::{Frame, Ip};
use wire::roce;

use crate::address::{Tuple, address_of, mac_of_host};
use crate::packet::Packet;

/// The frame of a packet on a link between two MAC addresses.
pub(crate) fn frame<'a>(
    packet: &Packet,
    header: &roce::Repr,
    tuple: &Tuple,
    [source, destination]: [Address; 2],
    payload: &'a [u8],
) -> Frame<'a> {
    Frame {
        source,
        destination,
        vlan: packet.tag(),
        ip: Ip::V4 {
            source: address_of(tuple.source),
            destination: address_of(tuple.destination),
            tos: packet.traffic_class,
            id: packet.ip_id,
            dont_fragment: true,
            ttl: packet.ttl,
        },
        source_port: tuple.source_port,
        roce: *header,
        payload,
    }
}

/// Emits the frame of a packet and parses it.
///
/// # Panics
/// If what is parsed is not what was emitted: a mistake of ours.
pub(crate) fn check(packet: &Packet, header: &roce::Repr, tuple: &Tuple) {
    let payload = vec![0x5a; usize::from(packet.payload())];
    let addresses = [mac_of_host(tuple.source), mac_of_host(tuple.destination)];
    let frame = frame(packet, header, tuple, addresses, &payload);
    let bytes = frame.to_vec();
    let check_sequence = 4;
    assert_eq!(bytes.len() + check_sequence, usize::from(packet.bytes), "{frame}");
    assert_eq!(Frame::parse(&bytes), Ok(frame), "a frame that does not survive the wire");
}
