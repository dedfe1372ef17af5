//! Acknowledge extended transport header (IBTA vol 1, 9.3.5 and 9.7.5.1.1).

use core::fmt;

use rdma::Span;

use crate::{Error, be24};

/// Length in bytes.
pub const LEN: usize = 4;

mod field {
    use core::ops::Range;
    pub(super) const SYNDROME: usize = 0;
    pub(super) const MSN: Range<usize> = 0..4;
}

/// Why a request was refused (IBTA vol 1, table 46).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NakCode {
    /// A PSN was not the one expected.
    SequenceError,
    /// The request is malformed, too long or unsupported.
    InvalidRequest,
    /// The R_Key, its bounds or rights do not fit.
    RemoteAccess,
    /// The responder failed at its own end.
    RemoteOperation,
    /// An RD request was invalid; unused by RC.
    InvalidRdRequest,
    /// A reserved code, 5 to 31.
    Reserved(u8),
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// Done. `credits` is the code of how many receives are posted; 31 means that the responder
    /// does not tell.
    Ack {
        /// 5 bits.
        credits: u8,
    },
    /// No receive was posted: try again after the delay that `timer` codes for.
    RnrNak {
        /// 5 bits, see [`rnr_delay`].
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// A reserved kind; all eight bits.
    Reserved(u8),
}

impl Syndrome {
    /// A positive acknowledgement without end-to-end credits.
    pub const ACK: Self = Self::Ack { credits: 31 };

    /// The meaning of the eight bits.
    pub const fn from_bits(bits: u8) -> Self {
        let value = bits & 0x1f;
        match bits >> 5 {
            0 => Self::Ack { credits: value },
            1 => Self::RnrNak { timer: value },
            3 => Self::Nak(match value {
                0 => NakCode::SequenceError,
                1 => NakCode::InvalidRequest,
                2 => NakCode::RemoteAccess,
                3 => NakCode::RemoteOperation,
                4 => NakCode::InvalidRdRequest,
                code => NakCode::Reserved(code),
            }),
            _ => Self::Reserved(bits),
        }
    }

    /// The eight bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::RnrNak { timer } => 0x20 | (timer & 0x1f),
            Self::Nak(code) => {
                0x60 | match code {
                    NakCode::SequenceError => 0,
                    NakCode::InvalidRequest => 1,
                    NakCode::RemoteAccess => 2,
                    NakCode::RemoteOperation => 3,
                    NakCode::InvalidRdRequest => 4,
                    NakCode::Reserved(code) => code & 0x1f,
                }
            }
            Self::Reserved(bits) => bits,
        }
    }
}

/// An AETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What it says.
    pub syndrome: Syndrome,
    /// Message sequence number: how many messages the responder has completed, modulo 2^24.
    pub msn: u32,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..LEN).ok_or(Error::Truncated)?;
        Ok(Self {
            syndrome: Syndrome::from_bits(bytes[field::SYNDROME]),
            msn: be24(bytes, field::MSN),
        })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::MSN].copy_from_slice(&(self.msn & 0x00ff_ffff).to_be_bytes());
        bytes[field::SYNDROME] = self.syndrome.bits();
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.syndrome {
            Syndrome::Ack { .. } => f.write_str("ACK")?,
            Syndrome::RnrNak { timer } => write!(f, "RNR NAK {}", rnr_delay(timer))?,
            Syndrome::Nak(code) => write!(f, "NAK {code:?}")?,
            Syndrome::Reserved(bits) => write!(f, "syndrome {bits:#04x}")?,
        }
        write!(f, " msn={}", self.msn)
    }
}

/// The delay of an RNR timer code (IBTA vol 1, table 45), from 10 us for 1 to 491.52 ms for 31;
/// 0 is the longest, 655.36 ms.
pub const fn rnr_delay(code: u8) -> Span {
    /// In units of 10 us.
    const UNITS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
        1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Span::from_us(10 * UNITS[(code & 0x1f) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_survives() {
        for bits in 0..=u8::MAX {
            assert_eq!(Syndrome::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn round_trips() {
        let bytes = [0x61, 0x00, 0x01, 0x02];
        let repr = Repr { syndrome: Syndrome::Nak(NakCode::InvalidRequest), msn: 0x102 };
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        let mut out = [0xff; LEN];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }

    #[test]
    fn rnr_delays_are_those_of_the_table() {
        assert_eq!(rnr_delay(0), Span::from_us(655_360));
        assert_eq!(rnr_delay(1), Span::from_us(10));
        assert_eq!(rnr_delay(12), Span::from_us(640));
        assert_eq!(rnr_delay(31), Span::from_us(491_520));
    }
}
