//! REP: yes, and this is my side of the connection.

use core::fmt;

use rdma::{Psn, QKey, Qpn};

use super::{data_of, ids, put24, put32, take, take24};
use crate::{Error, be32, be64};

/// Bytes of private data.
pub const PRIVATE_LEN: usize = 196;

mod field {
    use core::ops::Range;
    pub(super) const LOCAL_ID: usize = 0;
    pub(super) const REMOTE_ID: usize = 4;
    pub(super) const Q_KEY: Range<usize> = 8..12;
    pub(super) const QPN: usize = 12;
    pub(super) const VENDOR_HIGH: usize = 15;
    /// End-to-end context.
    pub(super) const EECN: usize = 16;
    pub(super) const VENDOR_MIDDLE: usize = 19;
    pub(super) const PSN: usize = 20;
    pub(super) const VENDOR_LOW: usize = 23;
    pub(super) const RESPONDER_RESOURCES: usize = 24;
    pub(super) const INITIATOR_DEPTH: usize = 25;
    /// Target ACK delay, failover accepted, end-to-end flow control.
    pub(super) const DELAY: usize = 26;
    /// RNR retry count, SRQ.
    pub(super) const RETRY: usize = 27;
    pub(super) const GUID: Range<usize> = 28..36;
    pub(super) const PRIVATE: usize = 36;
}

/// A REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// Q_Key of the sender's queue pair, for datagrams.
    pub q_key: QKey,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// The sender's end-to-end context; for XRC its target, and then [`Repr::qpn`] is none.
    pub eecn: Qpn,
    /// The vendor whose options of enhanced connection establishment the modifier holds, 24 bits.
    pub vendor: u32,
    /// The PSN that the receiver of this message is to begin with: the one that its sender expects
    /// first.
    pub psn: Psn,
    /// READs and atomics that it answers at once.
    pub responder_resources: u8,
    /// READs and atomics that it asks for at once.
    pub initiator_depth: u8,
    /// How long it may take to acknowledge: 4.096 us x 2^n, 5 bits.
    pub target_ack_delay: u8,
    /// Whether and how it accepts the alternate path, 2 bits.
    pub failover: u8,
    /// Whether it gives end-to-end credits.
    pub flow_control: bool,
    /// How often it wants to be asked again when it has no receive posted, 3 bits.
    pub rnr_retry: u8,
    /// Whether it has a shared receive queue.
    pub srq: bool,
    /// Its channel adapter.
    pub guid: u64,
    /// The application's.
    pub private: [u8; PRIVATE_LEN],
}

impl Default for Repr {
    /// In which nothing is set.
    fn default() -> Self {
        Self {
            local_id: 0,
            remote_id: 0,
            q_key: QKey::default(),
            qpn: Qpn::default(),
            eecn: Qpn::default(),
            vendor: 0,
            psn: Psn::default(),
            responder_resources: 0,
            initiator_depth: 0,
            target_ack_delay: 0,
            failover: 0,
            flow_control: false,
            rnr_retry: 0,
            srq: false,
            guid: 0,
            private: [0; PRIVATE_LEN],
        }
    }
}

impl Repr {
    /// Reads the data of a REP.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        let (local_id, remote_id) = ids(data);
        let vendor = [field::VENDOR_HIGH, field::VENDOR_MIDDLE, field::VENDOR_LOW];
        let [high, middle, low] = vendor.map(|at| data[at]);
        Ok(Self {
            local_id,
            remote_id,
            q_key: QKey(be32(data, field::Q_KEY)),
            qpn: Qpn::new(take24(data, field::QPN)),
            eecn: Qpn::new(take24(data, field::EECN)),
            vendor: u32::from_be_bytes([0, high, middle, low]),
            psn: Psn::new(take24(data, field::PSN)),
            responder_resources: data[field::RESPONDER_RESOURCES],
            initiator_depth: data[field::INITIATOR_DEPTH],
            target_ack_delay: data[field::DELAY] >> 3,
            failover: data[field::DELAY] >> 1 & 3,
            flow_control: data[field::DELAY] & 1 != 0,
            rnr_retry: data[field::RETRY] >> 5,
            srq: data[field::RETRY] & 0x10 != 0,
            guid: be64(data, field::GUID),
            private: take(data, field::PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        let [_, high, middle, low] = self.vendor.to_be_bytes();
        put32(data, field::LOCAL_ID, self.local_id);
        put32(data, field::REMOTE_ID, self.remote_id);
        put32(data, field::Q_KEY.start, self.q_key.0);
        put24(data, field::QPN, self.qpn.value());
        data[field::VENDOR_HIGH] = high;
        put24(data, field::EECN, self.eecn.value());
        data[field::VENDOR_MIDDLE] = middle;
        put24(data, field::PSN, self.psn.value());
        data[field::VENDOR_LOW] = low;
        data[field::RESPONDER_RESOURCES] = self.responder_resources;
        data[field::INITIATOR_DEPTH] = self.initiator_depth;
        data[field::DELAY] =
            self.target_ack_delay << 3 | (self.failover & 3) << 1 | u8::from(self.flow_control);
        data[field::RETRY] = self.rnr_retry << 5 | u8::from(self.srq) << 4;
        data[field::GUID].copy_from_slice(&self.guid.to_be_bytes());
        data[field::PRIVATE..][..PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local_id, remote_id, qpn, psn, .. } = self;
        write!(f, "REP {local_id:#x} to {remote_id:#x} qp={qpn} psn={psn}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::DATA_LEN;

    #[test]
    fn every_field_has_its_place() {
        let mut data = [0xa5; DATA_LEN];
        let repr = Repr {
            local_id: 0x0102_0304,
            remote_id: 0x0506_0708,
            q_key: QKey(0x1112_1314),
            qpn: Qpn::new(0x21_2223),
            eecn: Qpn::new(0x24_2526),
            vendor: 0x00f1_f2f3,
            psn: Psn::new(0x31_3233),
            responder_resources: 5,
            initiator_depth: 6,
            target_ack_delay: 15,
            failover: 2,
            flow_control: true,
            rnr_retry: 7,
            srq: true,
            guid: 0x4142_4344_4546_4748,
            private: [0xee; PRIVATE_LEN],
        };
        repr.emit(&mut data);
        let expected = [
            1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0xf1, 0x24, 0x25,
            0x26, 0xf2, 0x31, 0x32, 0x33, 0xf3, 5, 6, 0x7d, 0xf0, 0x41, 0x42, 0x43, 0x44, 0x45,
            0x46, 0x47, 0x48, 0xee,
        ];
        assert_eq!(data[..37], expected);
        assert_eq!(Repr::parse(&data), Ok(repr));
        assert_eq!(Repr::parse(&data[1..]), Err(Error::Truncated));
    }
}
