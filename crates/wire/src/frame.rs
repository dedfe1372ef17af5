//! A whole RoCEv2 frame, from the Ethernet header to the ICRC.
//!
//! ```text
//!   Ethernet │ 802.1Q? │ IPv4 or IPv6 │ UDP │ BTH │ extended headers │ payload │ pad │ ICRC
//! ```
//!
//! For captures, for the simulator when it turns every packet into bytes and back, and for tests;
//! an engine on a socket begins at the BTH and leaves the rest to the kernel.
//!
//! [`Frame::parse`] checks every length, the IPv4 checksum and the ICRC. It does not check the UDP
//! checksum: devices send zero over both families, and in a capture of the sending host an offloaded
//! checksum is only half computed. [`Frame::emit`] writes all of them. It gives back the bytes that
//! were parsed, except for what receivers ignore: reserved bits and pad bytes (both are sent as zero),
//! the UDP checksum, and Ethernet padding, which is left to the link.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ethernet::{Address, EtherType};
use crate::roce::ICRC_LEN;
use crate::{Error, ethernet, icrc, ipv4, ipv6, roce, udp, vlan};

/// The IP header of a frame, without what follows from the rest of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ip {
    /// IPv4.
    V4 {
        /// Who sent it.
        source: Ipv4Addr,
        /// Who it is for.
        destination: Ipv4Addr,
        /// Six bits of DSCP, two of ECN.
        tos: u8,
        /// Identification; the ICRC covers it.
        id: u16,
        /// Whether routers must drop the packet rather than cut it.
        dont_fragment: bool,
        /// Time to live.
        ttl: u8,
    },
    /// IPv6.
    V6 {
        /// Who sent it.
        source: Ipv6Addr,
        /// Who it is for.
        destination: Ipv6Addr,
        /// Six bits of DSCP, two of ECN.
        traffic_class: u8,
        /// 20 bits.
        flow_label: u32,
        /// Hop limit.
        hop_limit: u8,
    },
}

impl Ip {
    /// Source and destination.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        match *self {
            Self::V4 { source, destination, .. } => (source.into(), destination.into()),
            Self::V6 { source, destination, .. } => (source.into(), destination.into()),
        }
    }

    /// Six bits of DSCP, two of ECN.
    pub fn traffic_class(&self) -> u8 {
        match *self {
            Self::V4 { tos, .. } => tos,
            Self::V6 { traffic_class, .. } => traffic_class,
        }
    }

    fn header_len(&self) -> usize {
        match self {
            Self::V4 { .. } => ipv4::HEADER_LEN,
            Self::V6 { .. } => ipv6::HEADER_LEN,
        }
    }

    fn ethertype(&self) -> EtherType {
        match self {
            Self::V4 { .. } => EtherType::IPV4,
            Self::V6 { .. } => EtherType::IPV6,
        }
    }

    /// Reads the header of a packet of EtherType `ethertype` and returns it with the UDP datagram
    /// behind it.
    fn parse(ethertype: EtherType, bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let (ip, protocol, range) = match ethertype {
            EtherType::IPV4 => {
                let repr = ipv4::Repr::parse(bytes)?;
                let ip = Self::V4 {
                    source: repr.source,
                    destination: repr.destination,
                    tos: repr.tos,
                    id: repr.id,
                    dont_fragment: repr.dont_fragment,
                    ttl: repr.ttl,
                };
                (ip, repr.protocol, ipv4::HEADER_LEN..usize::from(repr.total_len))
            }
            EtherType::IPV6 => {
                let repr = ipv6::Repr::parse(bytes)?;
                let ip = Self::V6 {
                    source: repr.source,
                    destination: repr.destination,
                    traffic_class: repr.traffic_class,
                    flow_label: repr.flow_label,
                    hop_limit: repr.hop_limit,
                };
                let end = ipv6::HEADER_LEN + usize::from(repr.payload_len);
                (ip, repr.next_header, ipv6::HEADER_LEN..end)
            }
            _ => return Err(Error::Protocol),
        };
        if protocol != udp::PROTOCOL {
            return Err(Error::Protocol);
        }
        Ok((ip, bytes.get(range).ok_or(Error::Truncated)?))
    }

    /// Writes the header of a packet that holds a datagram of `length` bytes.
    fn emit(&self, length: u16, bytes: &mut [u8]) {
        match *self {
            Self::V4 { source, destination, tos, id, dont_fragment, ttl } => ipv4::Repr {
                source,
                destination,
                tos,
                total_len: length + ipv4::HEADER_LEN as u16,
                id,
                dont_fragment,
                ttl,
                protocol: udp::PROTOCOL,
            }
            .emit(bytes),
            Self::V6 { source, destination, traffic_class, flow_label, hop_limit } => ipv6::Repr {
                source,
                destination,
                traffic_class,
                flow_label,
                payload_len: length,
                next_header: udp::PROTOCOL,
                hop_limit,
            }
            .emit(bytes),
        }
    }
}

/// The headers of a frame below what UDP carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Below {
    /// The sender's MAC address.
    pub source: Address,
    /// The receiver's MAC address.
    pub destination: Address,
    /// The VLAN tag, if there is one.
    pub vlan: Option<vlan::Tag>,
    /// The IP header.
    pub ip: Ip,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
}

impl Below {
    /// How many bytes they take.
    pub fn header_len(&self) -> usize {
        vlan::link_header_len(self.vlan) + self.ip.header_len() + udp::HEADER_LEN
    }

    /// Writes them, with their checksums, to the beginning of `frame`. Behind them stands what UDP
    /// carries, which is no longer than IP can say.
    ///
    /// # Panics
    /// If `frame` is shorter than [`Below::header_len`].
    pub fn emit(&self, frame: &mut [u8]) {
        let Self { source, destination, vlan, ip, source_port, destination_port } = *self;
        let link = ethernet::Repr { destination, source, ethertype: ip.ethertype() };
        vlan::emit_link_header(&link, vlan, frame);
        let ip_at = vlan::link_header_len(vlan);
        let udp_at = ip_at + ip.header_len();
        let length = (frame.len() - udp_at) as u16;
        ip.emit(length, &mut frame[ip_at..]);
        // Zero over IPv4 (annex A17.4.2). Over IPv6 zero is for tunnels that ask for it (RFC 6935),
        // so a plain receiver would drop it.
        udp::Repr { source_port, destination_port, length, checksum: 0 }.emit(&mut frame[udp_at..]);
        if let Ip::V6 { source, destination, .. } = ip {
            udp::fill_checksum_v6(source, destination, &mut frame[udp_at..]);
        }
    }
}

/// A RoCEv2 frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The sender's MAC address.
    pub source: Address,
    /// The receiver's MAC address.
    pub destination: Address,
    /// The VLAN tag, if there is one.
    pub vlan: Option<vlan::Tag>,
    /// The IP header.
    pub ip: Ip,
    /// UDP source port.
    pub source_port: u16,
    /// BTH and extended headers. `bth.pad` counts the zeros that follow the payload, see
    /// [`roce::Repr::padded_for`].
    pub roce: roce::Repr,
    /// What the packet carries, without padding; of a CNP, its reserved bytes.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads and checks a frame.
    ///
    /// # Errors
    /// Those of each header's `parse`; [`Error::Protocol`] if it is no RoCEv2 frame;
    /// [`Error::Length`] if the lengths of IP and UDP contradict each other; [`Error::Icrc`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let ethernet = ethernet::Repr::parse(bytes)?;
        let mut rest = &bytes[ethernet::HEADER_LEN..];
        let (mut ethertype, mut tag) = (ethernet.ethertype, None);
        if ethertype == EtherType::VLAN {
            let repr = vlan::Repr::parse(rest)?;
            rest = &rest[vlan::HEADER_LEN..];
            (ethertype, tag) = (repr.ethertype, Some(repr.tag));
        }
        let (ip, datagram) = Ip::parse(ethertype, rest)?;
        let udp = udp::Repr::parse(datagram)?;
        if udp.destination_port != udp::ROCE_PORT {
            return Err(Error::Protocol);
        }
        // The ICRC covers one length, so those of IP and UDP must agree.
        if usize::from(udp.length) != datagram.len() {
            return Err(Error::Length);
        }
        let (covered, icrc) =
            datagram[udp::HEADER_LEN..].split_last_chunk::<ICRC_LEN>().ok_or(Error::Truncated)?;
        if icrc::compute(&covered_headers(&ip, udp.source_port), covered)? != *icrc {
            return Err(Error::Icrc);
        }
        let (roce, payload) = roce::Repr::parse(covered)?;
        Ok(Self {
            source: ethernet.source,
            destination: ethernet.destination,
            vlan: tag,
            ip,
            source_port: udp.source_port,
            roce,
            payload,
        })
    }

    /// How many bytes [`Frame::emit`] writes. Fewer than
    /// [`MIN_FRAME_LEN`](ethernet::MIN_FRAME_LEN) for an empty SEND over IPv4, which the link pads.
    pub fn emitted_len(&self) -> usize {
        self.below().header_len() + self.covered_len() + ICRC_LEN
    }

    /// What the ICRC covers below the BTH.
    pub fn datagram(&self) -> icrc::Datagram {
        covered_headers(&self.ip, self.source_port)
    }

    /// What is before the BTH.
    fn below(&self) -> Below {
        let Self { source, destination, vlan, ip, source_port, .. } = *self;
        Below { source, destination, vlan, ip, source_port, destination_port: udp::ROCE_PORT }
    }

    /// Bytes from the BTH to the ICRC.
    fn covered_len(&self) -> usize {
        self.roce.header_len() + self.payload.len() + usize::from(self.roce.bth.pad & 3)
    }

    /// Writes the frame, with its checksums, to the beginning of `bytes` and returns how many bytes
    /// it took.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Frame::emitted_len`], or the payload longer than IP can say.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let bytes = &mut bytes[..self.emitted_len()];
        let below = self.below();
        let (covered, icrc) = bytes[below.header_len()..].split_at_mut(self.covered_len());

        let headers_len = self.roce.emit(covered);
        let (payload, pad) = covered[headers_len..].split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        pad.fill(0);
        let check = icrc::compute(&self.datagram(), covered);
        icrc.copy_from_slice(&check.expect("a BTH was written"));

        let datagram_len = udp::HEADER_LEN + covered.len() + ICRC_LEN;
        assert!(
            datagram_len <= usize::from(u16::MAX) - ipv4::HEADER_LEN,
            "a payload of {} bytes fits no IP packet",
            self.payload.len()
        );
        below.emit(bytes);
        bytes.len()
    }

    /// The frame's bytes.
    ///
    /// # Panics
    /// If the payload is longer than IP can say.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.emitted_len()];
        self.emit(&mut bytes);
        bytes
    }
}

fn covered_headers(ip: &Ip, source_port: u16) -> icrc::Datagram {
    let (source, destination) = ip.addresses();
    let (id, dont_fragment) = match *ip {
        Ip::V4 { id, dont_fragment, .. } => (id, dont_fragment),
        Ip::V6 { .. } => (0, false),
    };
    icrc::Datagram {
        source,
        destination,
        source_port,
        destination_port: udp::ROCE_PORT,
        id,
        dont_fragment,
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = self.ip.addresses();
        let class = self.ip.traffic_class();
        write!(f, "{source} > {destination} dscp={} ecn={}", class >> 2, class & 3)?;
        write!(f, " {}, {} bytes", self.roce, self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Opcode, bth, reth};
    use rdma::{Key, Psn, Qpn};
    use std::format;

    fn v4() -> Ip {
        Ip::V4 {
            source: Ipv4Addr::new(10, 77, 0, 1),
            destination: Ipv4Addr::new(10, 77, 0, 2),
            tos: 26 << 2 | 2,
            id: 0,
            dont_fragment: true,
            ttl: 64,
        }
    }

    fn v6() -> Ip {
        Ip::V6 {
            source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
            destination: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
            traffic_class: 26 << 2,
            flow_label: 0x1_2345,
            hop_limit: 64,
        }
    }

    fn frame(ip: Ip, payload: &[u8]) -> Frame<'_> {
        let opcode = Opcode::from_code(0x0a).unwrap();
        let headers = roce::Repr::new(opcode, Qpn::new(0x11), Psn::new(7));
        let reth = reth::Repr { address: 0x1000, r_key: Key(0x1234), length: 5 };
        Frame {
            source: Address([2, 0, 0, 0, 0, 1]),
            destination: Address([2, 0, 0, 0, 0, 2]),
            vlan: None,
            ip,
            source_port: 49_192,
            roce: roce::Repr { reth: Some(reth), ..headers }.padded_for(payload.len() as u32),
            payload,
        }
    }

    #[test]
    fn what_is_emitted_is_parsed() {
        let tag = vlan::Tag { priority: 3, drop_eligible: false, id: 10 };
        for ip in [v4(), v6()] {
            for vlan in [None, Some(tag)] {
                let frame = Frame { vlan, ..frame(ip, b"hello") };
                let mut bytes = frame.to_vec();
                assert_eq!(Frame::parse(&bytes), Ok(frame));
                assert_eq!(bytes.len() % 4, ethernet::HEADER_LEN % 4, "padded to words");
                bytes.extend([0; 3]);
                assert_eq!(Frame::parse(&bytes), Ok(frame), "padding of the link is ignored");
            }
        }
        assert_eq!(
            format!("{}", frame(v4(), b"hello")),
            "10.77.0.1 > 10.77.0.2 dscp=26 ecn=2 RC RDMA WRITE Only qp=0x000011 psn=7 va=0x1000 \
             rkey=0x1234 len=5, 5 bytes"
        );
    }

    #[test]
    fn over_ipv6_the_udp_checksum_is_right_and_over_ipv4_absent() {
        let bytes = frame(v6(), b"hello").to_vec();
        let Ip::V6 { source, destination, .. } = v6() else { unreachable!() };
        let datagram = &bytes[ethernet::HEADER_LEN + ipv6::HEADER_LEN..];
        assert!(udp::verify_checksum_v6(source, destination, datagram));
        let bytes = frame(v4(), b"hello").to_vec();
        let datagram = &bytes[ethernet::HEADER_LEN + ipv4::HEADER_LEN..];
        assert_eq!(udp::Repr::parse(datagram).unwrap().checksum, 0);
    }

    #[test]
    fn no_bit_that_is_covered_can_flip() {
        for ip in [v4(), v6()] {
            let frame = frame(ip, b"hello");
            let bytes = frame.to_vec();
            for bit in ethernet::HEADER_LEN * 8..bytes.len() * 8 {
                let mut broken = bytes.clone();
                broken[bit / 8] ^= 1 << (bit % 8);
                let Ok(parsed) = Frame::parse(&broken) else { continue };
                // What may change on the way: congestion and hop fields, in BTH and in IPv6, which
                // has no header checksum, and the UDP checksum.
                let bth = frame.below().header_len();
                let checksum = bth - 2..bth;
                let changes = bit / 8 == bth + 4 || checksum.contains(&(bit / 8));
                let hops = matches!(ip, Ip::V6 { .. }) && matches!(bit / 8, 14..=17 | 21);
                assert!(changes || hops, "bit {bit} of byte {}", bit / 8);
                assert_eq!(parsed.payload, frame.payload);
            }
        }
    }

    #[test]
    fn says_why_it_refuses() {
        let bytes = frame(v4(), b"hello").to_vec();
        for end in 0..bytes.len() {
            assert_eq!(Frame::parse(&bytes[..end]), Err(Error::Truncated), "{end} bytes");
        }
        let with = |index: usize, value| {
            let mut bytes = bytes.clone();
            bytes[index] = value;
            Frame::parse(&bytes).err()
        };
        assert_eq!(with(13, 6), Some(Error::Protocol), "ARP");
        assert_eq!(with(22, 63), Some(Error::Checksum));
        assert_eq!(with(37, 0), Some(Error::Protocol), "another port");
        assert_eq!(with(39, bytes[39] - 4), Some(Error::Length));
        assert_eq!(with(bytes.len() - 1, !bytes[bytes.len() - 1]), Some(Error::Icrc));
        let frame = frame(v6(), b"");
        let mut bytes = frame.to_vec();
        bytes[20] = 6;
        assert_eq!(Frame::parse(&bytes), Err(Error::Protocol), "TCP");
    }

    #[test]
    fn an_unknown_opcode_with_a_right_icrc_is_an_unknown_opcode() {
        let frame = frame(v4(), b"");
        let mut bytes = frame.to_vec();
        let at = frame.below().header_len();
        bytes[at] = 0x15;
        let end = bytes.len() - ICRC_LEN;
        let check = icrc::compute(&frame.datagram(), &bytes[at..end]).unwrap();
        bytes[end..].copy_from_slice(&check);
        assert_eq!(Frame::parse(&bytes), Err(Error::Opcode));
        assert_eq!(bytes[at..].len(), bth::LEN + reth::LEN + ICRC_LEN);
    }
}
