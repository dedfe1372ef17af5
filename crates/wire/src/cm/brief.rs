//! RTU, DREQ and DREP: messages that carry little but the numbers of both sides.
//!
//! ```text
//!   0         4          8              12
//!   │ local ID │ remote ID │ (DREQ: QPN) │ private data
//! ```

use core::fmt;

use rdma::Qpn;

use super::{data_of, ids, put24, put32, take, take24};
use crate::Error;

/// Bytes of an RTU's private data.
pub const RTU_PRIVATE_LEN: usize = 224;
/// Bytes of a DREQ's private data.
pub const DREQ_PRIVATE_LEN: usize = 220;
/// Bytes of a DREP's private data.
pub const DREP_PRIVATE_LEN: usize = 224;

mod field {
    pub(super) const LOCAL_ID: usize = 0;
    pub(super) const REMOTE_ID: usize = 4;
    pub(super) const REMOTE_QPN: usize = 8;
    pub(super) const RESERVED: usize = 11;
    pub(super) const PRIVATE: usize = 8;
    pub(super) const DREQ_PRIVATE: usize = 12;
}

/// Ready to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtu {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The application's.
    pub private: [u8; RTU_PRIVATE_LEN],
}

/// Request for communication release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dreq {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The receiver's queue pair, so that an old DREQ does not end a new connection.
    pub remote_qpn: Qpn,
    /// The application's.
    pub private: [u8; DREQ_PRIVATE_LEN],
}

/// Reply to a request for communication release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drep {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The application's.
    pub private: [u8; DREP_PRIVATE_LEN],
}

fn emit_ids(data: &mut [u8], local_id: u32, remote_id: u32) {
    put32(data, field::LOCAL_ID, local_id);
    put32(data, field::REMOTE_ID, remote_id);
}

impl Rtu {
    /// Reads the data of an RTU.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        let (local_id, remote_id) = ids(data);
        Ok(Self { local_id, remote_id, private: take(data, field::PRIVATE) })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        emit_ids(data, self.local_id, self.remote_id);
        data[field::PRIVATE..][..RTU_PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl Dreq {
    /// Reads the data of a DREQ.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        let (local_id, remote_id) = ids(data);
        Ok(Self {
            local_id,
            remote_id,
            remote_qpn: Qpn::new(take24(data, field::REMOTE_QPN)),
            private: take(data, field::DREQ_PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        emit_ids(data, self.local_id, self.remote_id);
        put24(data, field::REMOTE_QPN, self.remote_qpn.value());
        data[field::RESERVED] = 0;
        data[field::DREQ_PRIVATE..][..DREQ_PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl Drep {
    /// Reads the data of a DREP.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        let (local_id, remote_id) = ids(data);
        Ok(Self { local_id, remote_id, private: take(data, field::PRIVATE) })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        emit_ids(data, self.local_id, self.remote_id);
        data[field::PRIVATE..][..DREP_PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl fmt::Display for Rtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RTU {:#x} to {:#x}", self.local_id, self.remote_id)
    }
}

impl fmt::Display for Dreq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local_id, remote_id, remote_qpn, .. } = self;
        write!(f, "DREQ {local_id:#x} to {remote_id:#x} qp={remote_qpn}")
    }
}

impl fmt::Display for Drep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DREP {:#x} to {:#x}", self.local_id, self.remote_id)
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
        let dreq = Dreq {
            local_id: 0x0102_0304,
            remote_id: 0x0506_0708,
            remote_qpn: Qpn::new(0x0a_0b0c),
            private: [0xee; DREQ_PRIVATE_LEN],
        };
        dreq.emit(&mut data);
        assert_eq!(data[..12], [1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0]);
        assert_eq!(data[12..], [0xee; DREQ_PRIVATE_LEN]);
        assert_eq!(Dreq::parse(&data), Ok(dreq));
        assert_eq!(format!("{dreq}"), "DREQ 0x1020304 to 0x5060708 qp=0x0a0b0c");
        assert_eq!(Dreq::parse(&data[1..]), Err(Error::Truncated));

        let rtu = Rtu { local_id: 1, remote_id: 2, private: [3; RTU_PRIVATE_LEN] };
        rtu.emit(&mut data);
        assert_eq!(data[..9], [0, 0, 0, 1, 0, 0, 0, 2, 3]);
        assert_eq!(Rtu::parse(&data), Ok(rtu));
        let drep = Drep { local_id: 1, remote_id: 2, private: [3; DREP_PRIVATE_LEN] };
        assert_eq!(Drep::parse(&data), Ok(drep));
        assert_eq!(
            (format!("{rtu}"), format!("{drep}")),
            ("RTU 0x1 to 0x2".into(), "DREP 0x1 to 0x2".into())
        );
    }
}
