//! REJ: no, and why.
//!
//! ```text
//!   0         4          8       9        10       12                        84
//!   │ local ID │ remote ID │ which │ length │ reason │ additional information │ private data
//! ```

use core::fmt;

use rdma::Mtu;

use super::mra::About;
use super::{data_of, ids, put16, put32, take};
use crate::{Error, be16};

/// Bytes of additional information.
pub const INFO_LEN: usize = 72;
/// Bytes of private data.
pub const PRIVATE_LEN: usize = 148;

mod field {
    use core::ops::Range;
    pub(super) const LOCAL_ID: usize = 0;
    pub(super) const REMOTE_ID: usize = 4;
    pub(super) const MESSAGE: usize = 8;
    pub(super) const INFO_LENGTH: usize = 9;
    pub(super) const REASON: Range<usize> = 10..12;
    pub(super) const INFO: usize = 12;
    pub(super) const PRIVATE: usize = 84;
}

/// Why (IBTA vol 1, chapter 12, "Rejection Reason").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reason(pub u16);

impl Reason {
    /// No queue pair available.
    pub const NO_QP: Self = Self(1);
    /// No resources.
    pub const NO_RESOURCES: Self = Self(3);
    /// The other side did not answer in time.
    pub const TIMEOUT: Self = Self(4);
    /// The request is not supported.
    pub const UNSUPPORTED: Self = Self(5);
    /// The number of the connection names none.
    pub const INVALID_ID: Self = Self(6);
    /// No listener offers that service.
    pub const INVALID_SERVICE: Self = Self(8);
    /// The transport service is not offered.
    pub const INVALID_TRANSPORT: Self = Self(9);
    /// A connection of an earlier life of the sender's queue pair was still known.
    pub const STALE: Self = Self(10);
    /// A GID that is not the receiver's.
    pub const INVALID_GID: Self = Self(12);
    /// The path MTU is not possible.
    pub const INVALID_MTU: Self = Self(26);
    /// The application refuses.
    pub const CONSUMER: Self = Self(28);
}

/// A REJ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's number of the connection; 0 if it has none.
    pub local_id: u32,
    /// The receiver's; 0 if the sender does not know it.
    pub remote_id: u32,
    /// Which message is refused.
    pub about: About,
    /// Bytes of `info` that mean something, 7 bits.
    pub info_length: u8,
    /// Why.
    pub reason: Reason,
    /// More about the reason.
    pub info: [u8; INFO_LEN],
    /// The application's.
    pub private: [u8; PRIVATE_LEN],
}

impl Repr {
    /// Says which path MTU would do instead: four bits, as in a REQ, in the upper ones of the first byte (IBTA vol 1,
    /// 12.6.7.2).
    pub fn suggest_mtu(&mut self, mtu: Mtu) {
        (self.info[0], self.info_length) = (mtu.code() << 4, 1);
    }

    /// Which path MTU would do instead, if it says so.
    pub fn suggested_mtu(&self) -> Option<Mtu> {
        Mtu::from_code(self.info[0] >> 4).filter(|_| self.info_length > 0)
    }

    /// Reads the data of a REJ.
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
            info_length: data[field::INFO_LENGTH] >> 1,
            reason: Reason(be16(data, field::REASON)),
            info: take(data, field::INFO),
            private: take(data, field::PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        put32(data, field::LOCAL_ID, self.local_id);
        put32(data, field::REMOTE_ID, self.remote_id);
        data[field::MESSAGE] = self.about.bits() << 6;
        data[field::INFO_LENGTH] = self.info_length << 1;
        put16(data, field::REASON.start, self.reason.0);
        data[field::INFO..][..INFO_LEN].copy_from_slice(&self.info);
        data[field::PRIVATE..][..PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local_id, remote_id, about, reason, .. } = self;
        write!(f, "REJ {local_id:#x} to {remote_id:#x} of {about:?} reason={}", reason.0)
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
            about: About::Other,
            info_length: 8,
            reason: Reason::CONSUMER,
            info: [0xdd; INFO_LEN],
            private: [0xee; PRIVATE_LEN],
        };
        repr.emit(&mut data);
        assert_eq!(data[..13], [1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x10, 0, 28, 0xdd]);
        assert_eq!((data[83], data[84]), (0xdd, 0xee));
        assert_eq!(Repr::parse(&data), Ok(repr));
        assert_eq!(format!("{repr}"), "REJ 0x1020304 to 0x5060708 of Other reason=28");
        assert_eq!(Repr::parse(&data[1..]), Err(Error::Truncated));
    }

    #[test]
    fn the_path_mtu_that_would_do_is_in_the_upper_half_of_a_byte() {
        let mut data = [0; DATA_LEN];
        let mut repr = Repr {
            local_id: 0,
            remote_id: 1,
            about: About::Req,
            info_length: 0,
            reason: Reason::INVALID_MTU,
            info: [0; INFO_LEN],
            private: [0; PRIVATE_LEN],
        };
        assert_eq!(repr.suggested_mtu(), None);
        repr.suggest_mtu(Mtu::B1024);
        repr.emit(&mut data);
        assert_eq!(data[9..13], [2, 0, 26, 0x30]);
        assert_eq!(Repr::parse(&data).unwrap().suggested_mtu(), Some(Mtu::B1024));
        for (length, byte) in [(0, 0x30), (1, 0x00), (1, 0x60), (1, 0x03)] {
            (repr.info_length, repr.info[0]) = (length, byte);
            assert_eq!(repr.suggested_mtu(), None, "{length} {byte:#x}");
        }
    }
}
