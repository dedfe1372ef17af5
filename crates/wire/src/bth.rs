//! Base transport header (IBTA vol 1, 9.2).
//!
//! ```text
//!   0        8 9 10  12      16                     31
//!   │ opcode │S│M│Pad│TVer│        P_Key           │
//!   │F│B│ resv6 │          destination QP           │
//!   │A│ resv7   │               PSN                 │
//! ```
//!
//! The reserved bits are sent as zero and ignored on receipt (IBTA vol 1, 9.2), with two exceptions. Where a queue
//! pair asks for it, `resv6` holds the sign of a Ferroce NIC that repeats selectively, or the sign that this packet is
//! one of two that are the same, or that the path seems to be narrow. Other NICs ignore it, as the
//! standard says and Linux's Soft-RoCE does, which takes the queue pair out of that word by a mask. The check that covers `F`, `B` and `resv6` masks them (see
//! [`crate::icrc`]), because switches may set FECN on the way. And where two such NICs have found that longer packets
//! than those of the path MTU pass between them, `resv7` of a request says how long those of its message are
//! ([`Stride`]); the ICRC covers it.

use core::fmt;

use rdma::{PKey, Psn, Qpn};

use crate::{Error, Opcode, be16, be24};

/// Length in bytes.
pub const LEN: usize = 12;

mod field {
    use core::ops::Range;
    pub(super) const OPCODE: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const PKEY: Range<usize> = 2..4;
    pub(super) const CONGESTION: usize = 4;
    pub(super) const DESTINATION: Range<usize> = 4..8;
    pub(super) const ACK_REQUEST: usize = 8;
    pub(super) const PSN: Range<usize> = 8..12;
}

const SOLICITED: u8 = 0x80;
const MIGRATION: u8 = 0x40;
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;
const RESERVED_6: u8 = 0x3f;
const ACK_REQUEST: u8 = 0x80;
const RESERVED_7: u8 = 0x7f;

/// What a Ferroce NIC that repeats selectively says to its like in `resv6`. All bits are set one way or the other, so
/// that no single flaw makes a sign, or another one of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Sign {
    /// It is no such NIC, or does not repeat so here.
    #[default]
    None = 0,
    /// It repeats selectively.
    Selective = 0x29,
    /// The same, and this packet is one of two that are sent at once: it is nothing if the other has arrived.
    Twice = 0x16,
    /// The same, and the path may be too narrow for packets as long as this message's: they leave in parts, and so do those of
    /// its answer.
    Narrowed = 0x33,
}

/// How long the packets of a message are, all but the last, if they are longer than the path MTU; `resv7` holds it,
/// in parts of 128 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stride(u8);

impl Stride {
    /// They are as long as the path MTU.
    pub const PATH_MTU: Self = Self(0);
    const UNIT: u32 = 128;

    /// The longest that is no longer than `bytes` of payload.
    pub const fn fitting(bytes: u32) -> Self {
        let units = bytes / Self::UNIT;
        Self(if units > RESERVED_7 as u32 { RESERVED_7 } else { units as u8 })
    }

    /// The longest whose packets fit an interface MTU of `bytes`, whatever their headers.
    pub const fn of_interface(bytes: u32) -> Self {
        Self::fitting(bytes.saturating_sub(rdma::mtu::HEADROOM))
    }

    /// In bytes of payload, if it is not the path MTU.
    pub const fn bytes(self) -> Option<u32> {
        match self.0 {
            0 => None,
            units => Some(units as u32 * Self::UNIT),
        }
    }
}

/// A view of the bytes of a BTH and whatever follows it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer is long enough.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is not.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < LEN {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// The opcode, known or not.
    pub fn opcode(&self) -> u8 {
        self.bytes()[field::OPCODE]
    }

    /// Whether the receiver's completion raises a solicited event.
    pub fn solicited(&self) -> bool {
        self.bytes()[field::FLAGS] & SOLICITED != 0
    }

    /// The migration state: set in "migrated", which is what every device without automatic path
    /// migration sends.
    pub fn migration(&self) -> bool {
        self.bytes()[field::FLAGS] & MIGRATION != 0
    }

    /// Pad bytes after the payload, 0 to 3.
    pub fn pad(&self) -> u8 {
        self.bytes()[field::FLAGS] >> 4 & 3
    }

    /// Transport header version; 0.
    pub fn version(&self) -> u8 {
        self.bytes()[field::FLAGS] & 0x0f
    }

    /// The partition.
    pub fn p_key(&self) -> PKey {
        PKey(be16(self.bytes(), field::PKEY))
    }

    /// Forward explicit congestion notification.
    pub fn fecn(&self) -> bool {
        self.bytes()[field::CONGESTION] & FECN != 0
    }

    /// Backward explicit congestion notification.
    pub fn becn(&self) -> bool {
        self.bytes()[field::CONGESTION] & BECN != 0
    }

    /// The sign of selective repeat, if one is there.
    pub fn sign(&self) -> Sign {
        const SELECTIVE: u8 = Sign::Selective as u8;
        const TWICE: u8 = Sign::Twice as u8;
        const NARROWED: u8 = Sign::Narrowed as u8;
        match self.bytes()[field::CONGESTION] & RESERVED_6 {
            SELECTIVE => Sign::Selective,
            TWICE => Sign::Twice,
            NARROWED => Sign::Narrowed,
            _ => Sign::None,
        }
    }

    /// The queue pair that it is for.
    pub fn destination(&self) -> Qpn {
        Qpn::new(be24(self.bytes(), field::DESTINATION))
    }

    /// Whether an acknowledgement is asked for.
    pub fn ack_request(&self) -> bool {
        self.bytes()[field::ACK_REQUEST] & ACK_REQUEST != 0
    }

    /// How long the packets of its message are, if a Ferroce NIC says so.
    pub fn stride(&self) -> Stride {
        Stride(self.bytes()[field::ACK_REQUEST] & RESERVED_7)
    }

    /// The packet sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(be24(self.bytes(), field::PSN))
    }
}

/// Whether two headers are the same but for the PSN.
pub(crate) fn differ_in_psn(a: &[u8; LEN], b: &[u8; LEN]) -> bool {
    a[..=field::ACK_REQUEST] == b[..=field::ACK_REQUEST]
}

/// The PSN of a header.
pub(crate) fn psn(header: &[u8; LEN]) -> Psn {
    Psn::new(be24(header, field::PSN))
}

/// A BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What the packet is.
    pub opcode: Opcode,
    /// Whether the receiver's completion raises a solicited event.
    pub solicited: bool,
    /// The migration state; true where there is no automatic path migration.
    pub migration: bool,
    /// Pad bytes after the payload, 0 to 3.
    pub pad: u8,
    /// The partition.
    pub p_key: PKey,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
    /// The sign of a Ferroce NIC that repeats selectively.
    pub sign: Sign,
    /// The queue pair that it is for.
    pub destination: Qpn,
    /// Whether an acknowledgement is asked for.
    pub ack_request: bool,
    /// How long the packets of its message are; of meaning between two that sign alone.
    pub stride: Stride,
    /// The packet sequence number.
    pub psn: Psn,
}

impl Repr {
    /// A BTH with everything else as most packets have it.
    pub const fn new(opcode: Opcode, destination: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migration: true,
            pad: 0,
            p_key: PKey::DEFAULT,
            fecn: false,
            becn: false,
            sign: Sign::None,
            destination,
            ack_request: false,
            stride: Stride::PATH_MTU,
            psn,
        }
    }

    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Opcode`] or [`Error::Version`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        let opcode = Opcode::from_code(packet.opcode()).ok_or(Error::Opcode)?;
        // IBTA vol 1, 9.2.7: a version that is not ours is not for us to read.
        if packet.version() != 0 {
            return Err(Error::Version);
        }
        Ok(Self {
            opcode,
            solicited: packet.solicited(),
            migration: packet.migration(),
            pad: packet.pad(),
            p_key: packet.p_key(),
            fecn: packet.fecn(),
            becn: packet.becn(),
            sign: packet.sign(),
            destination: packet.destination(),
            ack_request: packet.ack_request(),
            stride: packet.stride(),
            psn: packet.psn(),
        })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        fn bit(set: bool, mask: u8) -> u8 {
            if set { mask } else { 0 }
        }
        bytes[field::OPCODE] = self.opcode.code();
        bytes[field::FLAGS] =
            bit(self.solicited, SOLICITED) | bit(self.migration, MIGRATION) | (self.pad & 3) << 4;
        bytes[field::PKEY].copy_from_slice(&self.p_key.0.to_be_bytes());
        bytes[field::DESTINATION].copy_from_slice(&self.destination.value().to_be_bytes());
        bytes[field::CONGESTION] = bit(self.fecn, FECN) | bit(self.becn, BECN) | self.sign as u8;
        bytes[field::PSN].copy_from_slice(&self.psn.value().to_be_bytes());
        bytes[field::ACK_REQUEST] = bit(self.ack_request, ACK_REQUEST) | self.stride.0;
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} qp={} psn={}", self.opcode, self.destination, self.psn)?;
        for (set, name) in [
            (self.ack_request, " ack-request"),
            (self.solicited, " solicited"),
            (self.fecn, " fecn"),
            (self.becn, " becn"),
            (self.sign != Sign::None, " signed"),
            (self.sign == Sign::Twice, " twice"),
            (self.sign == Sign::Narrowed, " narrowed"),
        ] {
            if set {
                f.write_str(name)?;
            }
        }
        if let Some(bytes) = self.stride.bytes().filter(|_| self.sign != Sign::None) {
            write!(f, " stride={bytes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static BYTES: [u8; LEN] =
        [0x0a, 0xf0, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef];

    fn repr() -> Repr {
        Repr {
            solicited: true,
            pad: 3,
            becn: true,
            ack_request: true,
            ..Repr::new(Opcode::from_code(0x0a).unwrap(), Qpn::new(0x12_3456), Psn::new(0xab_cdef))
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn a_sign_is_all_six_bits_and_other_reserved_bits_are_ignored() {
        let mut bytes = BYTES;
        let signed = Repr { sign: Sign::Selective, ..repr() };
        signed.emit(&mut bytes);
        assert_eq!(bytes[4], 0x40 | 0x29);
        assert_eq!(Repr::parse(&bytes), Ok(signed));
        let twice = Repr { sign: Sign::Twice, ..signed };
        twice.emit(&mut bytes);
        assert_eq!(bytes[4], 0x40 | 0x16);
        assert_eq!(Repr::parse(&bytes), Ok(twice));
        for bit in 0..6 {
            bytes[4] ^= 1 << bit;
            assert_eq!(Repr::parse(&bytes), Ok(repr()));
            bytes[4] ^= 1 << bit;
        }
    }

    #[test]
    fn a_stride_is_in_parts_of_128_bytes_beside_the_request_for_an_acknowledgement() {
        let mut bytes = BYTES;
        let long = Repr { stride: Stride::fitting(1416), ..repr() };
        long.emit(&mut bytes);
        assert_eq!(bytes[8], 0x80 | 11);
        assert_eq!(Repr::parse(&bytes), Ok(long));
        assert_eq!(long.stride.bytes(), Some(1408));
        assert_eq!(Stride::fitting(127), Stride::PATH_MTU);
        assert_eq!(Stride::of_interface(1500).bytes(), Some(1408));
        assert_eq!(Stride::of_interface(9000).bytes(), Some(8832));
        assert_eq!(Stride::of_interface(0), Stride::PATH_MTU);
        assert_eq!(Stride::fitting(u32::MAX).bytes(), Some(127 * 128));
    }

    #[test]
    fn says_why_it_refuses() {
        let with = |index: usize, value| {
            let mut bytes = BYTES;
            bytes[index] = value;
            Repr::parse(&bytes)
        };
        assert_eq!(Repr::parse(&BYTES[..11]), Err(Error::Truncated));
        assert_eq!(with(0, 0x15), Err(Error::Opcode));
        assert_eq!(with(1, 0x41), Err(Error::Version));
    }
}
