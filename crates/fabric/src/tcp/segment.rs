//! A TCP segment as numbers, and as the bytes that smoltcp takes and gives.
//!
//! Like RoCE packets, segments travel the fabric as numbers: their payload is a length. MSS and window
//! scale occur in segments that say SYN alone.

use core::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: Option<u32>,
    pub(crate) window: u16,
    pub(crate) control: TcpControl,
    pub(crate) scale: Option<u8>,
    pub(crate) mss: Option<u16>,
    /// In bytes.
    pub(crate) payload: u16,
    /// The whole IP packet, in bytes.
    pub(crate) bytes: u16,
}

const CONTROLS: [TcpControl; 5] =
    [TcpControl::None, TcpControl::Psh, TcpControl::Syn, TcpControl::Fin, TcpControl::Rst];
const ACKNOWLEDGES: u32 = 1 << 3;
const SCALE_SHIFT: u32 = 4;
const WINDOW_SHIFT: u32 = 16;

impl Segment {
    /// Window, control, flags and scale in a word.
    pub(crate) fn word(&self) -> u32 {
        let control = CONTROLS.iter().position(|&control| control == self.control).unwrap_or(0);
        let acknowledges = if self.acknowledgement.is_some() { ACKNOWLEDGES } else { 0 };
        let scale = self.scale.map_or(0, |scale| u32::from(scale & 0xf) + 1);
        control as u32
            | acknowledges
            | scale << SCALE_SHIFT
            | u32::from(self.window) << WINDOW_SHIFT
    }

    /// The segment of such a word. `payload` is the MSS where that says SYN, which carries no data.
    pub(crate) fn of(word: u32, sequence: u32, acknowledgement: u32, payload: u16) -> Self {
        let control = CONTROLS[(word & 7) as usize % CONTROLS.len()];
        let opens = control == TcpControl::Syn;
        let scale = (word >> SCALE_SHIFT & 0x1f).checked_sub(1);
        Self {
            sequence,
            acknowledgement: (word & ACKNOWLEDGES != 0).then_some(acknowledgement),
            window: (word >> WINDOW_SHIFT) as u16,
            control,
            scale: scale.map(|scale| scale as u8),
            mss: opens.then_some(payload),
            payload: if opens { 0 } else { payload },
            bytes: 0,
        }
    }
}

/// The addresses and ports of a segment, from whoever sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addresses {
    pub(crate) from: (Ipv4Addr, u16),
    pub(crate) to: (Ipv4Addr, u16),
}

/// Turns segments into bytes and back, in memory that it keeps.
#[derive(Debug, Default)]
pub(crate) struct Codec {
    /// As long as the longest packet so far; payloads are whatever it holds.
    bytes: Vec<u8>,
}

impl Codec {
    /// The bytes of a packet that smoltcp may write, `length` of them.
    pub(crate) fn scratch(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        &mut self.bytes[..length]
    }

    /// The IP packet of a segment.
    pub(crate) fn emit(&mut self, segment: &Segment, addresses: &Addresses) -> &[u8] {
        const HEADERS: usize = 60 + 60;
        self.scratch(HEADERS + usize::from(segment.payload));
        let (head, payload) = self.bytes.split_at_mut(HEADERS);
        let payload = &payload[..usize::from(segment.payload)];
        let tcp = repr(segment, addresses);
        let header = tcp.header_len();
        let ip = Ipv4Repr {
            src_addr: addresses.from.0,
            dst_addr: addresses.to.0,
            next_header: IpProtocol::Tcp,
            payload_len: header + payload.len(),
            hop_limit: 64,
        };
        // Headers end where the payload, which nobody reads, begins.
        let begin = HEADERS - header - ip.buffer_len();
        let ignored = ChecksumCapabilities::ignored();
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut head[begin..]), &ignored);
        tcp.emit(
            &mut TcpPacket::new_unchecked(&mut head[HEADERS - header..]),
            &IpAddress::Ipv4(addresses.from.0),
            &IpAddress::Ipv4(addresses.to.0),
            &ignored,
        );
        &self.bytes[begin..HEADERS + usize::from(segment.payload)]
    }

    /// The segment of an IP packet.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Segment> {
        let ip = Ipv4Packet::new_checked(bytes).ok()?;
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        let (from, to) = (IpAddress::Ipv4(ip.src_addr()), IpAddress::Ipv4(ip.dst_addr()));
        let repr = TcpRepr::parse(&tcp, &from, &to, &ChecksumCapabilities::ignored()).ok()?;
        Some(Segment {
            sequence: repr.seq_number.0 as u32,
            acknowledgement: repr.ack_number.map(|number| number.0 as u32),
            window: repr.window_len,
            control: repr.control,
            scale: repr.window_scale,
            mss: repr.max_seg_size,
            payload: repr.payload.len().min(usize::from(u16::MAX)) as u16,
            bytes: bytes.len().min(usize::from(u16::MAX)) as u16,
        })
    }
}

/// The header of a segment.
fn repr(segment: &Segment, addresses: &Addresses) -> TcpRepr<'static> {
    TcpRepr {
        src_port: addresses.from.1,
        dst_port: addresses.to.1,
        control: segment.control,
        seq_number: TcpSeqNumber(segment.sequence as i32),
        ack_number: segment.acknowledgement.map(|number| TcpSeqNumber(number as i32)),
        window_len: segment.window,
        window_scale: segment.scale,
        max_seg_size: segment.mss,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// What the IP header of a segment says beside its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carried {
    /// DSCP and ECN bits.
    pub(crate) traffic_class: u8,
    pub(crate) ip_id: u16,
    pub(crate) ttl: u8,
    /// The whole IP packet, in bytes.
    pub(crate) bytes: usize,
}

/// The IP packet of a segment as a capture has it: with checksums, and a payload of zeroes. What its
/// stack sent beyond the numbers of a [`Segment`] are options, in whose place there are NOPs.
pub(crate) fn captured(segment: &Segment, addresses: &Addresses, carried: &Carried) -> Vec<u8> {
    const IP: usize = 20;
    const HEADER_MAX: usize = 60;
    const NOP: u8 = 1;
    let tcp = repr(segment, addresses);
    let payload = usize::from(segment.payload);
    let said = tcp.header_len();
    let header = carried.bytes.saturating_sub(IP + payload).clamp(said, HEADER_MAX);
    let mut bytes = vec![0; IP + header + payload];
    let ignored = ChecksumCapabilities::ignored();
    let repr = Ipv4Repr {
        src_addr: addresses.from.0,
        dst_addr: addresses.to.0,
        next_header: IpProtocol::Tcp,
        payload_len: header + payload,
        hop_limit: carried.ttl,
    };
    let mut ip = Ipv4Packet::new_unchecked(&mut bytes[..]);
    repr.emit(&mut ip, &ignored);
    ip.set_ident(carried.ip_id);
    ip.set_dscp(carried.traffic_class >> 2);
    ip.set_ecn(carried.traffic_class & 3);
    ip.fill_checksum();
    let ends = [addresses.from.0, addresses.to.0].map(IpAddress::Ipv4);
    tcp.emit(&mut TcpPacket::new_unchecked(&mut bytes[IP..]), &ends[0], &ends[1], &ignored);
    bytes[IP + said..IP + header].fill(NOP);
    let mut packet = TcpPacket::new_unchecked(&mut bytes[IP..]);
    packet.set_header_len(header as u8);
    packet.fill_checksum(&ends[0], &ends[1]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_survives_as_a_word_and_as_bytes() {
        let addresses = Addresses {
            from: (Ipv4Addr::new(10, 0, 0, 1), 7),
            to: (Ipv4Addr::new(10, 0, 0, 2), 9),
        };
        let mut codec = Codec::default();
        for control in CONTROLS {
            for (acknowledgement, scale) in [(None, None), (Some(0xffff_fffe), Some(14))] {
                let opens = control == TcpControl::Syn;
                let segment = Segment {
                    sequence: 0xdead_beef,
                    acknowledgement,
                    window: 0xfffe,
                    control,
                    scale: scale.filter(|_| opens),
                    mss: opens.then_some(1_460),
                    payload: if opens { 0 } else { 1_000 },
                    bytes: 0,
                };
                let carried = segment.mss.unwrap_or(segment.payload);
                let word = segment.word();
                let again =
                    Segment::of(word, segment.sequence, acknowledgement.unwrap_or(7), carried);
                assert_eq!(again, segment);
                let bytes = codec.emit(&segment, &addresses);
                let parsed = Codec::parse(bytes).unwrap();
                assert_eq!(parsed.bytes as usize, bytes.len());
                assert_eq!(Segment { bytes: 0, ..parsed }, segment);
            }
        }
        assert_eq!(Codec::parse(&[0x45; 10]), None);
    }
}
