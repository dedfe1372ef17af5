//! The body of the fuzz target `wire`: any bytes at all, as everything that this crate reads.
//!
//! Nothing may panic, and what is parsed must say the same when it is emitted again. Where a header
//! has no bits that receivers ignore, it must be the same bytes. A broken promise is a panic, which
//! is what a fuzzer looks for.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Debug, Display};
use core::net::{Ipv4Addr, Ipv6Addr};

use rdma::Time;

use crate::ethernet::Address;
use crate::frame::Ip;
use crate::{
    Error, Frame, aeth, arp, atomic_eth, bth, cm, cnp, deth, ethernet, ipv4, ipv6, mad, pause,
    pcap, pcapng, pfc, reth, roce, udp, vlan,
};

/// Reads `bytes` as every header, frame and capture that there is, and emits whatever they are.
///
/// # Panics
/// If what was read is not what is written.
pub fn parse_anything(bytes: &[u8]) {
    lower_headers(bytes);
    flow_control(bytes);
    transport_headers(bytes);
    management(bytes);
    frames(bytes);
    captures(bytes);
}

/// Reads, emits over dirty bytes and reads again. Returns what was emitted.
fn again<R: Copy + PartialEq + Debug>(
    bytes: &[u8],
    length: usize,
    parse: impl Fn(&[u8]) -> Result<R, Error>,
    emit: impl Fn(&R, &mut [u8]),
) -> Option<(R, Vec<u8>)> {
    let repr = parse(bytes).ok()?;
    // What follows the header stays, because lengths may speak of it.
    let mut out = bytes.to_vec();
    out[..length].fill(0xa5);
    emit(&repr, &mut out);
    assert_eq!(parse(&out), Ok(repr));
    assert_eq!(out[length..], bytes[length..], "written past the header");
    Some((repr, out))
}

/// The same, for a header without a bit that is ignored.
fn exactly<R: Copy + PartialEq + Debug>(
    bytes: &[u8],
    length: usize,
    parse: impl Fn(&[u8]) -> Result<R, Error>,
    emit: impl Fn(&R, &mut [u8]),
) -> Option<R> {
    let (repr, out) = again(bytes, length, parse, emit)?;
    assert_eq!(out, bytes, "{repr:?}");
    Some(repr)
}

fn show(shown: Option<impl Display>) {
    if let Some(shown) = shown {
        assert!(!format!("{shown}").is_empty());
    }
}

fn lower_headers(bytes: &[u8]) {
    let parse = ethernet::Repr::parse;
    show(exactly(bytes, ethernet::HEADER_LEN, parse, ethernet::Repr::emit));
    show(exactly(bytes, vlan::HEADER_LEN, vlan::Repr::parse, vlan::Repr::emit));
    show(exactly(bytes, arp::HEADER_LEN, arp::Repr::parse, arp::Repr::emit));
    show(exactly(bytes, ipv6::HEADER_LEN, ipv6::Repr::parse, ipv6::Repr::emit));
    show(exactly(bytes, udp::HEADER_LEN, udp::Repr::parse, udp::Repr::emit));
    if let Some((repr, out)) = again(bytes, ipv4::HEADER_LEN, ipv4::Repr::parse, ipv4::Repr::emit) {
        show(Some(repr));
        // A checksum of zero may also be sent as its twin in ones' complement.
        assert!(out == bytes || out[10..12] == [0, 0], "{repr}");
    }
    if let Ok(packet) = ipv4::Packet::new_checked(bytes) {
        assert_eq!(packet.header().len() + packet.payload().len(), packet.total_len().into());
        let _ = (packet.checksum(), packet.verify_checksum(), packet.is_fragment());
    }
    if let Ok(packet) = ipv6::Packet::new_checked(bytes) {
        assert_eq!(packet.header().len(), ipv6::HEADER_LEN);
        assert_eq!(packet.payload().len(), packet.payload_len().into());
    }
    if let Ok(packet) = udp::Packet::new_checked(bytes) {
        assert_eq!(packet.header().len() + packet.payload().len(), packet.length().into());
        let (source, destination) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let mut datagram = bytes[..usize::from(packet.length())].to_vec();
        udp::fill_checksum_v6(source, destination, &mut datagram);
        assert!(udp::verify_checksum_v6(source, destination, &datagram));
    }
}

fn flow_control(bytes: &[u8]) {
    show(exactly(bytes, pause::HEADER_LEN, pause::Repr::parse, pause::Repr::emit));
    let pfc = again(bytes, pfc::HEADER_LEN, pfc::Repr::parse, pfc::Repr::emit);
    show(pfc.map(|(repr, _)| repr));
    let cnp = again(bytes, cnp::HEADER_LEN, cnp::Repr::parse, cnp::Repr::emit);
    show(cnp.map(|(repr, _)| repr));
}

fn transport_headers(bytes: &[u8]) {
    let bth = again(bytes, bth::LEN, bth::Repr::parse, bth::Repr::emit);
    show(bth.map(|(repr, _)| repr));
    again(bytes, deth::LEN, deth::Repr::parse, deth::Repr::emit);
    exactly(bytes, reth::LEN, reth::Repr::parse, reth::Repr::emit);
    exactly(bytes, atomic_eth::LEN, atomic_eth::Repr::parse, atomic_eth::Repr::emit);
    show(exactly(bytes, aeth::LEN, aeth::Repr::parse, aeth::Repr::emit));

    let Ok((repr, payload)) = roce::Repr::parse(bytes) else { return };
    show(Some(repr));
    let mut out = bytes.to_vec();
    out[..repr.header_len()].fill(0xa5);
    assert_eq!(repr.emit(&mut out), repr.header_len());
    assert_eq!(roce::Repr::parse(&out), Ok((repr, payload)));

    // No fuzzer guesses an ICRC, so it is computed here.
    let v4 = Ip::V4 {
        source: Ipv4Addr::LOCALHOST,
        destination: Ipv4Addr::BROADCAST,
        tos: bytes[1],
        id: u16::from(bytes[2]),
        dont_fragment: bytes[3] & 1 != 0,
        ttl: bytes[4],
    };
    let v6 = Ip::V6 {
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::UNSPECIFIED,
        traffic_class: bytes[1],
        flow_label: u32::from(bytes[2]),
        hop_limit: bytes[4],
    };
    let tag = vlan::Tag::from_bits(u16::from(bytes[0]) << 8);
    for (ip, vlan) in [(v4, None), (v6, Some(tag))] {
        let frame = Frame {
            source: Address::MAC_CONTROL,
            destination: Address::BROADCAST,
            vlan,
            ip,
            source_port: u16::from(bytes[5]),
            roce: repr,
            payload,
        };
        // Longer than IP can say: not ours to send.
        if frame.emitted_len() < usize::from(u16::MAX) {
            let out = frame.to_vec();
            assert_eq!(Frame::parse(&out), Ok(frame));
        }
    }
}

fn management(bytes: &[u8]) {
    let header = again(bytes, mad::HEADER_LEN, mad::Repr::parse, mad::Repr::emit);
    show(header.map(|(repr, _)| repr));
    let addresses = again(bytes, cm::ip::LEN, cm::ip::Repr::parse, cm::ip::Repr::emit);
    show(addresses.map(|(repr, _)| repr));
    let Ok(mad) = cm::Mad::parse(bytes) else { return };
    show(Some(mad));
    let _ = (mad.message.remote_id(), mad.message.service());
    assert_eq!(cm::Mad::parse(&mad.to_bytes()), Ok(mad));
}

fn frames(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else { return };
    show(Some(frame));
    let out = frame.to_vec();
    assert_eq!(out.len(), frame.emitted_len());
    assert!(out.len() <= bytes.len());
    // Not the same bytes: the ICRC covers reserved bits, which are sent as zero.
    assert_eq!(Frame::parse(&out), Ok(frame));
}

fn captures(bytes: &[u8]) {
    if let Ok(reader) = pcap::Reader::new(bytes) {
        let records = whole(reader);
        let mut file = pcap::file_header().to_vec();
        for (at, frame) in &records {
            pcap::write(&mut file, *at, frame);
        }
        let again = pcap::Reader::new(&file).map(whole);
        assert_eq!(again, Ok(records));
    }
    if let Ok(mut reader) = pcapng::Reader::new(bytes) {
        let mut records = vec![];
        let mut file = pcapng::section_header().to_vec();
        while let Some(Ok(record)) = reader.next_record() {
            let name = reader.interfaces()[record.interface as usize].name.unwrap_or("");
            // One interface per record, because a later section forgets those of an earlier one.
            let number = records.len() as u32;
            pcapng::write_interface(&mut file, name);
            let at = nanoseconds(record.at);
            pcapng::write(&mut file, number, at, record.direction, record.frame);
            records.push(pcapng::Record { interface: number, at, ..record });
        }
        let mut again = pcapng::Reader::new(&file).expect("it was just written");
        for record in records {
            assert_eq!(again.next_record(), Some(Ok(record)));
        }
        assert_eq!(again.next_record(), None);
    }
}

/// The records before the first error, if there is one; each frame is read as well.
fn whole<'a>(
    reader: impl Iterator<Item = Result<(Time, &'a [u8]), Error>>,
) -> Vec<(Time, &'a [u8])> {
    let records: Vec<_> =
        reader.map_while(Result::ok).map(|(at, frame)| (nanoseconds(at), frame)).collect();
    for (_, frame) in &records {
        frames(frame);
    }
    records
}

/// What a file can say of a time.
fn nanoseconds(at: Time) -> Time {
    Time::from_ps(at.as_ps() / 1_000 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// Every file of a folder of `fuzz/`, by name.
    fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| {
            panic!("{}: {error}", folder.display());
        });
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    #[test]
    fn the_corpus_is_read_without_a_panic() {
        // fuzz/corpus/wire and fuzz/regressions/wire.
        let corpus = files("corpus/wire");
        assert!(corpus.len() > 50, "{} files", corpus.len());
        for (path, bytes) in corpus.into_iter().chain(files("regressions/wire")) {
            std::println!("{}", path.display());
            parse_anything(&bytes);
            // Cut and flipped at every byte, it is a small fuzzer of its own.
            for end in 0..bytes.len().min(128) {
                parse_anything(&bytes[..end]);
                let mut flipped = bytes.clone();
                flipped[end] ^= 1 << (end % 8);
                parse_anything(&flipped);
            }
        }
    }

    #[test]
    fn the_corpus_reaches_every_parser() {
        let corpus = files("corpus/wire");
        let any = |parses: &dyn Fn(&[u8]) -> bool| corpus.iter().any(|(_, bytes)| parses(bytes));
        let reached = [
            ("arp", any(&|bytes| arp::Repr::parse(bytes).is_ok())),
            ("ipv4", any(&|bytes| ipv4::Repr::parse(bytes).is_ok())),
            ("ipv6", any(&|bytes| ipv6::Repr::parse(bytes).is_ok())),
            ("pause", any(&|bytes| pause::Repr::parse(bytes).is_ok())),
            ("pfc", any(&|bytes| pfc::Repr::parse(bytes).is_ok())),
            ("cnp", any(&|bytes| cnp::Repr::parse(bytes).is_ok())),
            ("roce", any(&|bytes| roce::Repr::parse(bytes).is_ok())),
            ("cm", any(&|bytes| cm::Mad::parse(bytes).is_ok())),
            ("frame", any(&|bytes| Frame::parse(bytes).is_ok())),
            (
                "pcap",
                any(&|bytes| {
                    pcap::Reader::new(bytes).is_ok_and(|mut file| file.any(|frame| frame.is_ok()))
                }),
            ),
            (
                "pcapng",
                any(&|bytes| {
                    pcapng::Reader::new(bytes).is_ok_and(|mut file| file.any(|frame| frame.is_ok()))
                }),
            ),
        ];
        for (name, reached) in reached {
            assert!(reached, "no input of the corpus is {name}");
        }
    }
}
