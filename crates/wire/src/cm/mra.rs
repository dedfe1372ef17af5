//! MRA: the message was received, and the answer will be late.
//!
//! ```text
//!   0         4          8        9         10
//!   │ local ID │ remote ID │ which │ timeout │ private data
//! ```

use core::fmt;

use super::{data_of, ids, put32, take};
use crate::Error;

/// Bytes of private data.
pub const PRIVATE_LEN: usize = 222;

mod field {
    pub(super) const LOCAL_ID: usize = 0;
    pub(super) const REMOTE_ID: usize = 4;
    pub(super) const MESSAGE: usize = 8;
    pub(super) const TIMEOUT: usize = 9;
    pub(super) const PRIVATE: usize = 10;
}

/// Which message an MRA or REJ is about; two bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum About {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// In a REJ no message at all, in an MRA a request for another path.
    Other,
    /// Reserved.
    Reserved,
}

impl About {
    /// The meaning of the low two bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Req,
            1 => Self::Rep,
            2 => Self::Other,
            _ => Self::Reserved,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// An MRA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// Which message was received.
    pub about: About,
    /// How long the answer may take: 4.096 us x 2^n, 5 bits.
    pub service_timeout: u8,
    /// The application's.
    pub private: [u8; PRIVATE_LEN],
}

impl Repr {
    /// Reads the data of an MRA.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        let (local_id, remote_id) = ids(data);
        Ok(Self {
            local_id,
            remote_id,
            about: About::from_bits(data[field::MESSAGE] >> 6),
            service_timeout: data[field::TIMEOUT] >> 3,
            private: take(data, field::PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        put32(data, field::LOCAL_ID, self.local_id);
        put32(data, field::REMOTE_ID, self.remote_id);
        data[field::MESSAGE] = self.about.bits() << 6;
        data[field::TIMEOUT] = self.service_timeout << 3;
        data[field::PRIVATE..][..PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local_id, remote_id, about, service_timeout, .. } = self;
        write!(f, "MRA {local_id:#x} to {remote_id:#x} of {about:?} timeout={service_timeout}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::DATA_LEN;
    use std::format;

    #[test]
    fn every_field_has_its_place() {
        let mut data = [0xa5; DATA_LEN];
        let repr = Repr {
            local_id: 0x0102_0304,
            remote_id: 0x0506_0708,
            about: About::Rep,
            service_timeout: 24,
            private: [0xee; PRIVATE_LEN],
        };
        repr.emit(&mut data);
        assert_eq!(data[..11], [1, 2, 3, 4, 5, 6, 7, 8, 0x40, 0xc0, 0xee]);
        assert_eq!(Repr::parse(&data), Ok(repr));
        assert_eq!(format!("{repr}"), "MRA 0x1020304 to 0x5060708 of Rep timeout=24");
        assert_eq!(Repr::parse(&data[1..]), Err(Error::Truncated));
    }

    #[test]
    fn two_bits_have_four_meanings() {
        for bits in 0..4 {
            assert_eq!(About::from_bits(bits).bits(), bits);
        }
    }
}
