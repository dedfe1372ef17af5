//! SIDR_REQ and SIDR_REP: which queue pair has the datagrams of a service.
//!
//! ```text
//!   0            4         8         16                    REQ
//!   │ request ID │ P_Key   │ service │ private data
//!   0            4         8     12        20      24                       96    REP
//!   │ request ID │ status  │ QPN │ service │ Q_Key │ additional information │ private data
//! ```

use core::fmt;

use rdma::{PKey, QKey, Qpn};

use super::{data_of, put16, put24, put32, take, take24};
use crate::{Error, be16, be32, be64};

/// Bytes of a request's private data.
pub const REQ_PRIVATE_LEN: usize = 216;
/// Bytes of a reply's private data.
pub const REP_PRIVATE_LEN: usize = 136;
/// Bytes of a reply's additional information.
pub const INFO_LEN: usize = 72;

mod field {
    use core::ops::Range;
    pub(super) const REQUEST_ID: Range<usize> = 0..4;
    pub(super) const P_KEY: Range<usize> = 4..6;
    pub(super) const RESERVED: Range<usize> = 6..8;
    pub(super) const REQ_SERVICE: Range<usize> = 8..16;
    pub(super) const REQ_PRIVATE: usize = 16;
    pub(super) const STATUS: usize = 4;
    pub(super) const INFO_LENGTH: usize = 5;
    pub(super) const QPN: usize = 8;
    pub(super) const QPN_RESERVED: usize = 11;
    pub(super) const REP_SERVICE: Range<usize> = 12..20;
    pub(super) const Q_KEY: Range<usize> = 20..24;
    pub(super) const INFO: usize = 24;
    pub(super) const REP_PRIVATE: usize = 96;
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Status(pub u8);

impl Status {
    /// The queue pair and Q_Key are those of the service.
    pub const OK: Self = Self(0);
    /// No listener offers that service.
    pub const UNSUPPORTED: Self = Self(1);
    /// The application refuses.
    pub const REJECTED: Self = Self(2);
    /// No queue pair is available.
    pub const NO_QP: Self = Self(3);
}

/// A SIDR_REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Req {
    /// The sender's number of the request.
    pub request_id: u32,
    /// The partition.
    pub p_key: PKey,
    /// Which service is meant.
    pub service: u64,
    /// The application's, after what [`super::ip`] describes.
    pub private: [u8; REQ_PRIVATE_LEN],
}

impl Default for Req {
    fn default() -> Self {
        Self { request_id: 0, p_key: PKey::DEFAULT, service: 0, private: [0; REQ_PRIVATE_LEN] }
    }
}

/// A SIDR_REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep {
    /// The receiver's number of the request.
    pub request_id: u32,
    /// How it ended.
    pub status: Status,
    /// Bytes of `info` that mean something.
    pub info_length: u8,
    /// The service's queue pair.
    pub qpn: Qpn,
    /// Which service it is.
    pub service: u64,
    /// The queue pair's Q_Key.
    pub q_key: QKey,
    /// More about the status.
    pub info: [u8; INFO_LEN],
    /// The application's.
    pub private: [u8; REP_PRIVATE_LEN],
}

impl Req {
    /// Reads the data of a SIDR_REQ.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        Ok(Self {
            request_id: be32(data, field::REQUEST_ID),
            p_key: PKey(be16(data, field::P_KEY)),
            service: be64(data, field::REQ_SERVICE),
            private: take(data, field::REQ_PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        put32(data, field::REQUEST_ID.start, self.request_id);
        put16(data, field::P_KEY.start, self.p_key.0);
        data[field::RESERVED].fill(0);
        data[field::REQ_SERVICE].copy_from_slice(&self.service.to_be_bytes());
        data[field::REQ_PRIVATE..][..REQ_PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl Rep {
    /// Reads the data of a SIDR_REP.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        Ok(Self {
            request_id: be32(data, field::REQUEST_ID),
            status: Status(data[field::STATUS]),
            info_length: data[field::INFO_LENGTH],
            qpn: Qpn::new(take24(data, field::QPN)),
            service: be64(data, field::REP_SERVICE),
            q_key: QKey(be32(data, field::Q_KEY)),
            info: take(data, field::INFO),
            private: take(data, field::REP_PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        put32(data, field::REQUEST_ID.start, self.request_id);
        data[field::STATUS] = self.status.0;
        data[field::INFO_LENGTH] = self.info_length;
        data[field::RESERVED].fill(0);
        put24(data, field::QPN, self.qpn.value());
        data[field::QPN_RESERVED] = 0;
        data[field::REP_SERVICE].copy_from_slice(&self.service.to_be_bytes());
        put32(data, field::Q_KEY.start, self.q_key.0);
        data[field::INFO..][..INFO_LEN].copy_from_slice(&self.info);
        data[field::REP_PRIVATE..][..REP_PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl fmt::Display for Req {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIDR_REQ {:#x} service={:#x}", self.request_id, self.service)
    }
}

impl fmt::Display for Rep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_id, status, qpn, q_key, .. } = self;
        write!(f, "SIDR_REP to {request_id:#x} status={} qp={qpn} qkey={:#x}", status.0, q_key.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::DATA_LEN;
    use std::format;

    #[test]
    fn every_field_of_a_request_has_its_place() {
        let mut data = [0xa5; DATA_LEN];
        let req = Req {
            request_id: 0x0102_0304,
            p_key: PKey(0x8001),
            service: 0x0111_1c06,
            private: [0xee; REQ_PRIVATE_LEN],
        };
        req.emit(&mut data);
        assert_eq!(data[..17], [1, 2, 3, 4, 0x80, 1, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x1c, 6, 0xee]);
        assert_eq!(Req::parse(&data), Ok(req));
        assert_eq!(format!("{req}"), "SIDR_REQ 0x1020304 service=0x1111c06");
        assert_eq!(Req::parse(&data[1..]), Err(Error::Truncated));
    }

    #[test]
    fn every_field_of_a_reply_has_its_place() {
        let mut data = [0xa5; DATA_LEN];
        let rep = Rep {
            request_id: 0x0102_0304,
            status: Status::NO_QP,
            info_length: 7,
            qpn: Qpn::new(0x21_2223),
            service: 0x0111_1c06,
            q_key: QKey(0x0123_4567),
            info: [0xdd; INFO_LEN],
            private: [0xee; REP_PRIVATE_LEN],
        };
        rep.emit(&mut data);
        let expected = [
            1, 2, 3, 4, 3, 7, 0, 0, 0x21, 0x22, 0x23, 0, 0, 0, 0, 0, 1, 0x11, 0x1c, 6, 1, 0x23,
            0x45, 0x67, 0xdd,
        ];
        assert_eq!(data[..25], expected);
        assert_eq!((data[95], data[96]), (0xdd, 0xee));
        assert_eq!(Rep::parse(&data), Ok(rep));
        assert_eq!(format!("{rep}"), "SIDR_REP to 0x1020304 status=3 qp=0x212223 qkey=0x1234567");
        assert_eq!(Rep::parse(&data[1..]), Err(Error::Truncated));
    }
}
