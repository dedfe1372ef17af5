//! The RoCE headers of a packet: BTH and the extended headers that its opcode has.

use core::fmt;

use rdma::{Key, Psn, Qpn};

use crate::opcode::{Facts, Headers};
use crate::{Error, Opcode, aeth, atomic_eth, be24, be32, be64, bth, deth, parteth, reth, saeth};

/// Bytes of the ICRC at the end of a packet.
pub const ICRC_LEN: usize = 4;
/// The longest headers: those of compare and swap over XRC.
pub const HEADERS_MAX: usize = bth::LEN + atomic_eth::LEN + 4;

/// BTH and extended headers. Those present are the ones in the opcode's row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Base transport header.
    pub bth: bth::Repr,
    /// XRCETH (annex A14): the shared receive queue.
    pub xrc_srqn: Option<Qpn>,
    /// Datagrams.
    pub deth: Option<deth::Repr>,
    /// RDMA requests.
    pub reth: Option<reth::Repr>,
    /// Atomic requests.
    pub atomic: Option<atomic_eth::Repr>,
    /// Acknowledgements and READ responses.
    pub aeth: Option<aeth::Repr>,
    /// What arrived behind a gap, between queue pairs that repeat selectively.
    pub selective: Option<saeth::Repr>,
    /// AtomicAckETH (9.3.5.3): the word's value before the atomic.
    pub atomic_ack: Option<u64>,
    /// ImmDt (9.3.6): four bytes as the sender's application gave them.
    pub immediate: Option<[u8; 4]>,
    /// IETH (9.3.7): the key to invalidate.
    pub invalidate: Option<Key>,
    /// Where it belongs, if it is a part of a packet.
    pub part: Option<parteth::Repr>,
}

impl Repr {
    /// Of no packet: a place for headers.
    pub const NOTHING: Self = Self::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0), Psn::new(0));

    /// Headers with nothing after the BTH yet.
    pub const fn new(opcode: Opcode, destination: Qpn, psn: Psn) -> Self {
        Self {
            bth: bth::Repr::new(opcode, destination, psn),
            xrc_srqn: None,
            deth: None,
            reth: None,
            atomic: None,
            aeth: None,
            selective: None,
            atomic_ack: None,
            immediate: None,
            invalidate: None,
            part: None,
        }
    }

    /// The same, padded for a payload of `length` bytes to a multiple of four (9.4.1).
    #[must_use]
    pub fn padded_for(mut self, length: u32) -> Self {
        self.pad_for(length);
        self
    }

    /// As [`Repr::padded_for`], in place.
    pub fn pad_for(&mut self, length: u32) {
        self.bth.pad = (length.wrapping_neg() & 3) as u8;
    }

    /// The opcode's row.
    pub fn facts(&self) -> &'static Facts {
        self.bth.opcode.facts()
    }

    /// Reads headers and payload of a UDP datagram without its ICRC. The payload is returned
    /// without its pad bytes.
    ///
    /// # Errors
    /// Any of [`Error::Truncated`], [`Error::Opcode`], [`Error::Version`], [`Error::Pad`],
    /// [`Error::UnexpectedPayload`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let mut repr = Self { bth: bth::Repr::parse(bytes)?, ..Self::NOTHING };
        let payload = repr.read_extended(bytes)?;
        Ok((repr, payload))
    }

    /// Reads what follows the BTH, which has been read. The extended headers that its opcode does not
    /// have are already `None`.
    #[inline]
    fn read_extended<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let facts = self.bth.opcode.facts();
        let mut rest = bytes.get(bth::LEN..).ok_or(Error::Truncated)?;
        if !facts.headers.is_empty() {
            let (headers, payload) =
                rest.split_at_checked(facts.headers_len).ok_or(Error::Truncated)?;
            self.read_headers(facts.headers, headers)?;
            rest = payload;
        }
        // 9.4.1: payload and padding are whole words.
        if !rest.len().is_multiple_of(4) {
            return Err(Error::Pad);
        }
        let length = rest.len().checked_sub(usize::from(self.bth.pad)).ok_or(Error::Pad)?;
        // A CNP is followed by 16 reserved bytes (annex A17.9.3).
        if !facts.payload && length > 0 && self.bth.opcode != Opcode::CNP {
            return Err(Error::UnexpectedPayload);
        }
        Ok(&rest[..length])
    }

    /// Reads `headers` from `bytes`, which have their length.
    fn read_headers(&mut self, headers: Headers, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        let mut take = |length: usize| {
            let (taken, left) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
            rest = left;
            Ok(taken)
        };
        for header in headers.each() {
            match header {
                Headers::XRCETH => self.xrc_srqn = Some(Qpn::new(be24(take(4)?, 0..4))),
                Headers::DETH => self.deth = Some(deth::Repr::parse(take(deth::LEN)?)?),
                Headers::RETH => self.reth = Some(reth::Repr::parse(take(reth::LEN)?)?),
                Headers::ATOMIC_ETH => {
                    self.atomic = Some(atomic_eth::Repr::parse(take(atomic_eth::LEN)?)?);
                }
                Headers::AETH => self.aeth = Some(aeth::Repr::parse(take(aeth::LEN)?)?),
                Headers::SAETH => self.selective = Some(saeth::Repr::parse(take(saeth::LEN)?)?),
                Headers::ATOMIC_ACK_ETH => self.atomic_ack = Some(be64(take(8)?, 0..8)),
                Headers::IMMDT => self.immediate = Some(be32(take(4)?, 0..4).to_be_bytes()),
                Headers::IETH => self.invalidate = Some(Key(be32(take(4)?, 0..4))),
                _ => self.part = Some(parteth::Repr::parse(take(parteth::LEN)?)?),
            }
        }
        Ok(())
    }

    /// Bytes of all headers.
    pub fn header_len(&self) -> usize {
        bth::LEN + self.facts().headers_len
    }

    /// Writes the headers to the beginning of `bytes` and returns how many bytes they took.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Repr::header_len`]. A header that the opcode has and this
    /// value lacks is written as zeros.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        self.emit_as(self.bth.psn, bytes)
    }

    /// As [`Repr::emit`], for a packet that differs in nothing but its PSN.
    ///
    /// # Panics
    /// As [`Repr::emit`].
    pub fn emit_as(&self, psn: Psn, bytes: &mut [u8]) -> usize {
        let Facts { headers, headers_len, .. } = *self.facts();
        bth::Repr { psn, ..self.bth }.emit(&mut bytes[..bth::LEN]);
        let total = bth::LEN + headers_len;
        if headers_len == 0 {
            return total;
        }
        let mut rest = &mut bytes[bth::LEN..total];
        let mut take = |header: Headers, length: usize| {
            if !headers.has(header) {
                return None;
            }
            let (taken, left) = core::mem::take(&mut rest).split_at_mut_checked(length)?;
            rest = left;
            Some(taken)
        };
        put(take(Headers::XRCETH, 4), &self.xrc_srqn, |srqn, room| {
            room.copy_from_slice(&srqn.value().to_be_bytes());
        });
        put(take(Headers::DETH, deth::LEN), &self.deth, deth::Repr::emit);
        put(take(Headers::RETH, reth::LEN), &self.reth, reth::Repr::emit);
        put(take(Headers::ATOMIC_ETH, atomic_eth::LEN), &self.atomic, atomic_eth::Repr::emit);
        put(take(Headers::AETH, aeth::LEN), &self.aeth, aeth::Repr::emit);
        put(take(Headers::SAETH, saeth::LEN), &self.selective, saeth::Repr::emit);
        put(take(Headers::ATOMIC_ACK_ETH, 8), &self.atomic_ack, |original, room| {
            room.copy_from_slice(&original.to_be_bytes());
        });
        put(take(Headers::IMMDT, 4), &self.immediate, |bytes, room| room.copy_from_slice(bytes));
        put(take(Headers::IETH, 4), &self.invalidate, |key, room| {
            room.copy_from_slice(&key.0.to_be_bytes());
        });
        put(take(Headers::PARTETH, parteth::LEN), &self.part, parteth::Repr::emit);
        debug_assert!(rest.is_empty(), "as long as the opcode's row says");
        total
    }
}

/// Writes a header to its room, if the opcode has one: zeros if it is lacking.
#[inline]
fn put<H>(room: Option<&mut [u8]>, header: &Option<H>, emit: impl Fn(&H, &mut [u8])) {
    match (room, header) {
        (Some(room), Some(header)) => emit(header, room),
        (Some(room), None) => room.fill(0),
        (None, _) => {}
    }
}

/// Reads the headers of one packet after another. They take two hundred bytes, and are kept in one place.
/// Most packets have the BTH of the packet before, but for the PSN.
#[derive(Clone, Debug)]
pub struct Reader {
    header: Repr,
    /// The BTH that `header.bth` was read from.
    bth: Option<[u8; bth::LEN]>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { header: Repr::NOTHING, bth: None }
    }
}

impl Reader {
    /// Reads headers and payload, as [`Repr::parse`].
    ///
    /// # Errors
    /// As [`Repr::parse`].
    #[inline]
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<(&Repr, &'a [u8]), Error> {
        let Self { header, bth } = self;
        let now = bytes.first_chunk().ok_or(Error::Truncated)?;
        if bth.as_ref().is_some_and(|before| bth::differ_in_psn(before, now)) {
            header.bth.psn = bth::psn(now);
        } else {
            let read = bth::Repr::parse(now)?;
            // With the same opcode, the extended headers are the same as well, and written over.
            if read.opcode != header.bth.opcode {
                *header = Repr::NOTHING;
            }
            header.bth = read;
            *bth = Some(*now);
        }
        let payload = header.read_extended(bytes)?;
        Ok((header, payload))
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bth)?;
        if let Some(srqn) = self.xrc_srqn {
            write!(f, " srq={srqn}")?;
        }
        if let Some(deth) = self.deth {
            write!(f, " from={} qkey={:#x}", deth.source, deth.q_key.0)?;
        }
        if let Some(reth) = self.reth {
            write!(f, " va={:#x} rkey={:#x} len={}", reth.address, reth.r_key.0, reth.length)?;
        }
        if let Some(atomic) = self.atomic {
            write!(f, " va={:#x} rkey={:#x}", atomic.address, atomic.r_key.0)?;
        }
        if let Some(aeth) = self.aeth {
            write!(f, " {aeth}")?;
        }
        if let Some(selective) = self.selective {
            write!(f, " {selective}")?;
        }
        if let Some(original) = self.atomic_ack {
            write!(f, " original={original:#x}")?;
        }
        if let Some(immediate) = self.immediate {
            write!(f, " imm={:#x}", u32::from_be_bytes(immediate))?;
        }
        if let Some(key) = self.invalidate {
            write!(f, " invalidate={:#x}", key.0)?;
        }
        if let Some(part) = self.part {
            write!(f, " {part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn every_opcode_round_trips_with_its_headers() {
        for opcode in Opcode::all() {
            let facts = opcode.facts();
            let length: usize = if facts.payload { 13 } else { 0 };
            let total = bth::LEN + facts.headers_len;
            let mut bytes = vec![0; total + length.next_multiple_of(4)];
            for (index, byte) in bytes.iter_mut().enumerate().skip(bth::LEN) {
                *byte = index as u8;
            }
            bth::Repr {
                pad: ((4 - length % 4) % 4) as u8,
                ..bth::Repr::new(opcode, Qpn::new(7), Psn::new(9))
            }
            .emit(&mut bytes);
            // Reserved bytes are sent as zero.
            if facts.headers.has(Headers::XRCETH) {
                bytes[bth::LEN] = 0;
            }
            if facts.headers.has(Headers::DETH) {
                bytes[bth::LEN + 4] = 0;
            }
            let (repr, payload) = Repr::parse(&bytes).unwrap();
            assert_eq!(payload, &bytes[total..total + length], "{opcode}");
            let mut out = vec![0xff; repr.header_len()];
            assert_eq!(repr.emit(&mut out), total);
            assert_eq!(out, bytes[..total], "{opcode}");
        }
    }

    #[test]
    fn a_reader_finds_what_a_parser_does_whatever_came_before() {
        // Packets of every opcode, some of them cut short or with a version or pad that is wrong, in
        // an order in which each comes behind many others, and often behind its like.
        let mut reader = Reader::default();
        let mut state = 1_u32;
        let mut bytes = [0; 80];
        let opcodes: Vec<Opcode> = Opcode::all().collect();
        for _ in 0..40_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [a, b, c, d] = state.to_be_bytes();
            if a < 100 {
                let opcode = opcodes[usize::from(b) % opcodes.len()];
                bytes = [c; 80];
                bth::Repr::new(opcode, Qpn::new(u32::from(c & 3)), Psn::new(state))
                    .emit(&mut bytes);
            }
            bytes[usize::from(b) % 80] = c;
            let length = if a & 1 == 0 { 80 } else { usize::from(d) % 81 };
            let read = reader.read(&bytes[..length]).map(|(header, payload)| (*header, payload));
            assert_eq!(read, Repr::parse(&bytes[..length]));
        }
    }

    #[test]
    fn malformed_packets_are_told_apart() {
        let mut bytes = [0; 16];
        let repr = Repr::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(7), Psn::new(9));
        repr.emit(&mut bytes);
        assert!(Repr::parse(&bytes).is_ok());
        assert_eq!(Repr::parse(&bytes[..15]), Err(Error::Truncated));
        let mut longer = [0; 20];
        longer[..16].copy_from_slice(&bytes);
        assert_eq!(Repr::parse(&longer), Err(Error::UnexpectedPayload));
        bytes[1] |= 0x10;
        assert_eq!(Repr::parse(&bytes), Err(Error::Pad));
    }

    #[test]
    fn a_payload_that_is_not_padded_to_words_is_refused() {
        let repr = Repr::new(Opcode::UD_SEND_ONLY, Qpn::new(7), Psn::new(9));
        let repr =
            Repr { deth: Some(deth::Repr { q_key: rdma::QKey(1), source: Qpn::new(8) }), ..repr };
        let mut bytes = vec![0; repr.header_len() + 5];
        repr.emit(&mut bytes);
        assert_eq!(Repr::parse(&bytes), Err(Error::Pad));
        bytes.resize(repr.header_len() + 8, 0);
        assert_eq!(Repr::parse(&bytes).map(|(_, payload)| payload.len()), Ok(8));
        repr.padded_for(5).emit(&mut bytes);
        assert_eq!(Repr::parse(&bytes).map(|(_, payload)| payload.len()), Ok(5));
    }

    #[test]
    fn payloads_are_padded_to_words() {
        let repr = Repr::new(Opcode::UD_SEND_ONLY, Qpn::new(7), Psn::new(9));
        let pads = [0, 1, 2, 3, 4, 5].map(|length| repr.padded_for(length).bth.pad);
        assert_eq!(pads, [0, 3, 2, 1, 0, 3]);
    }
}
