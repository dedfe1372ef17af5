//! REQ: a connection is wanted, and this is my side of it.
//!
//! ```text
//!   0                  52                96                140
//!   │ the connection   │ primary path    │ alternate path  │ private data
//! ```
//!
//! **Absent:** end-to-end contexts (reliable datagrams), and the alternate path, which is sent as
//! zeros: RoCE devices do not migrate.

use core::fmt;

use rdma::{Gid, PKey, Psn, QKey, Qpn};

use super::{data_of, put16, put24, put32, take, take24};
use crate::{Error, be16, be32, be64};

/// Bytes of private data.
pub const PRIVATE_LEN: usize = 92;
/// The LID of both ends on RoCE, which has none: the permissive one.
pub const NO_LID: u16 = 0xffff;

mod field {
    use core::ops::Range;
    pub(super) const LOCAL_ID: Range<usize> = 0..4;
    pub(super) const RESERVED: usize = 4;
    pub(super) const VENDOR: usize = 5;
    pub(super) const SERVICE: Range<usize> = 8..16;
    pub(super) const GUID: Range<usize> = 16..24;
    pub(super) const Q_KEY: Range<usize> = 28..32;
    pub(super) const QPN: usize = 32;
    pub(super) const RESPONDER_RESOURCES: usize = 35;
    pub(super) const INITIATOR_DEPTH: usize = 39;
    /// Remote response timeout, transport service, end-to-end flow control.
    pub(super) const REMOTE_TIMEOUT: usize = 43;
    pub(super) const PSN: usize = 44;
    /// Local response timeout, retry count.
    pub(super) const LOCAL_TIMEOUT: usize = 47;
    pub(super) const P_KEY: Range<usize> = 48..50;
    /// Path MTU, whether a reliable datagram channel exists, RNR retry count.
    pub(super) const MTU: usize = 50;
    /// CM retries, SRQ, extended transport.
    pub(super) const RETRIES: usize = 51;
    pub(super) const LOCAL_LID: Range<usize> = 52..54;
    pub(super) const REMOTE_LID: Range<usize> = 54..56;
    pub(super) const LOCAL_GID: usize = 56;
    pub(super) const REMOTE_GID: usize = 72;
    /// Flow label, and in its last byte the packet rate.
    pub(super) const FLOW_LABEL: Range<usize> = 88..92;
    pub(super) const TRAFFIC_CLASS: usize = 92;
    pub(super) const HOP_LIMIT: usize = 93;
    /// Service level, whether the path stays in the subnet.
    pub(super) const SERVICE_LEVEL: usize = 94;
    pub(super) const ACK_TIMEOUT: usize = 95;
    pub(super) const ALTERNATE: Range<usize> = 96..140;
    pub(super) const PRIVATE: usize = 140;
}

/// [`Repr::extended_transport`] of XRC.
pub const EXTENDED_XRC: u8 = 1;

/// The transport service that is asked for; two bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// What [`Repr::extended_transport`] says.
    Extended,
}

impl Transport {
    /// The meaning of the low two bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Rc,
            1 => Self::Uc,
            2 => Self::Rd,
            _ => Self::Extended,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// The primary path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// The sender's LID; [`NO_LID`] on RoCE.
    pub local_lid: u16,
    /// The receiver's LID; [`NO_LID`] on RoCE.
    pub remote_lid: u16,
    /// The sender's GID.
    pub local_gid: Gid,
    /// The receiver's GID.
    pub remote_gid: Gid,
    /// 20 bits.
    pub flow_label: u32,
    /// Static rate, 6 bits; 0 is the port's own.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// 4 bits.
    pub service_level: u8,
    /// Whether the path has no router on it.
    pub subnet_local: bool,
    /// The timeout that the receiver's queue pair is to have: 4.096 us x 2^n, 5 bits.
    pub ack_timeout: u8,
}

impl Path {
    /// A path of RoCE, on which nothing else is set.
    pub fn between(local_gid: Gid, remote_gid: Gid) -> Self {
        Self {
            local_lid: NO_LID,
            remote_lid: NO_LID,
            local_gid,
            remote_gid,
            flow_label: 0,
            rate: 0,
            traffic_class: 0,
            hop_limit: 64,
            service_level: 0,
            subnet_local: false,
            ack_timeout: 0,
        }
    }
}

/// A REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The vendor whose options of enhanced connection establishment the modifier holds, 24 bits.
    pub vendor: u32,
    /// Which service is wanted.
    pub service: u64,
    /// The sender's channel adapter.
    pub guid: u64,
    /// Q_Key, for datagrams.
    pub q_key: QKey,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// READs and atomics that the sender answers at once.
    pub responder_resources: u8,
    /// READs and atomics that it asks for at once.
    pub initiator_depth: u8,
    /// How long the receiver's connection manager has for an answer: 4.096 us x 2^n, 5 bits.
    pub remote_timeout: u8,
    /// What kind of connection.
    pub transport: Transport,
    /// Whether the sender gives end-to-end credits.
    pub flow_control: bool,
    /// The PSN that the receiver of this message is to begin with: the one that its sender expects
    /// first.
    pub psn: Psn,
    /// How long the sender's connection manager takes for an answer: 4.096 us x 2^n, 5 bits.
    pub local_timeout: u8,
    /// Retries of the receiver's queue pair, 3 bits.
    pub retry_count: u8,
    /// The partition.
    pub p_key: PKey,
    /// Path MTU, by its code; 4 bits.
    pub mtu: u8,
    /// RNR retries of the receiver's queue pair, 3 bits.
    pub rnr_retry: u8,
    /// How often a connection manager repeats a message, 4 bits.
    pub max_retries: u8,
    /// Whether the sender has a shared receive queue.
    pub srq: bool,
    /// What [`Transport::Extended`] means, 3 bits; one of them is [`EXTENDED_XRC`].
    pub extended_transport: u8,
    /// The primary path.
    pub path: Path,
    /// The application's, after what [`super::ip`] describes.
    pub private: [u8; PRIVATE_LEN],
}

impl Repr {
    /// A request for a reliable connection over `path`, in which nothing else is set.
    pub fn over(path: Path) -> Self {
        Self {
            local_id: 0,
            vendor: 0,
            service: 0,
            guid: 0,
            q_key: QKey::default(),
            qpn: Qpn::default(),
            responder_resources: 0,
            initiator_depth: 0,
            remote_timeout: 0,
            transport: Transport::Rc,
            flow_control: false,
            psn: Psn::default(),
            local_timeout: 0,
            retry_count: 0,
            p_key: PKey::DEFAULT,
            mtu: 0,
            rnr_retry: 0,
            max_retries: 0,
            srq: false,
            extended_transport: 0,
            path,
            private: [0; PRIVATE_LEN],
        }
    }

    /// Reads the data of a REQ.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let data = data_of(bytes)?;
        Ok(Self {
            local_id: be32(data, field::LOCAL_ID),
            vendor: be32(data, field::RESERVED..field::RESERVED + 4) & 0x00ff_ffff,
            service: be64(data, field::SERVICE),
            guid: be64(data, field::GUID),
            q_key: QKey(be32(data, field::Q_KEY)),
            qpn: Qpn::new(take24(data, field::QPN)),
            responder_resources: data[field::RESPONDER_RESOURCES],
            initiator_depth: data[field::INITIATOR_DEPTH],
            remote_timeout: data[field::REMOTE_TIMEOUT] >> 3,
            transport: Transport::from_bits(data[field::REMOTE_TIMEOUT] >> 1),
            flow_control: data[field::REMOTE_TIMEOUT] & 1 != 0,
            psn: Psn::new(take24(data, field::PSN)),
            local_timeout: data[field::LOCAL_TIMEOUT] >> 3,
            retry_count: data[field::LOCAL_TIMEOUT] & 7,
            p_key: PKey(be16(data, field::P_KEY)),
            mtu: data[field::MTU] >> 4,
            rnr_retry: data[field::MTU] & 7,
            max_retries: data[field::RETRIES] >> 4,
            srq: data[field::RETRIES] & 8 != 0,
            extended_transport: data[field::RETRIES] & 7,
            path: Path::parse(data),
            private: take(data, field::PRIVATE),
        })
    }

    /// Writes the data.
    pub fn emit(&self, data: &mut [u8]) {
        data[..field::PRIVATE].fill(0);
        put32(data, field::LOCAL_ID.start, self.local_id);
        put24(data, field::VENDOR, self.vendor);
        data[field::SERVICE].copy_from_slice(&self.service.to_be_bytes());
        data[field::GUID].copy_from_slice(&self.guid.to_be_bytes());
        put32(data, field::Q_KEY.start, self.q_key.0);
        put24(data, field::QPN, self.qpn.value());
        data[field::RESPONDER_RESOURCES] = self.responder_resources;
        data[field::INITIATOR_DEPTH] = self.initiator_depth;
        data[field::REMOTE_TIMEOUT] =
            self.remote_timeout << 3 | self.transport.bits() << 1 | u8::from(self.flow_control);
        put24(data, field::PSN, self.psn.value());
        data[field::LOCAL_TIMEOUT] = self.local_timeout << 3 | (self.retry_count & 7);
        put16(data, field::P_KEY.start, self.p_key.0);
        data[field::MTU] = self.mtu << 4 | (self.rnr_retry & 7);
        data[field::RETRIES] =
            self.max_retries << 4 | u8::from(self.srq) << 3 | (self.extended_transport & 7);
        self.path.emit(data);
        data[field::ALTERNATE].fill(0);
        data[field::PRIVATE..][..PRIVATE_LEN].copy_from_slice(&self.private);
    }
}

impl Path {
    fn parse(data: &[u8]) -> Self {
        let label = be32(data, field::FLOW_LABEL);
        Self {
            local_lid: be16(data, field::LOCAL_LID),
            remote_lid: be16(data, field::REMOTE_LID),
            local_gid: Gid(take(data, field::LOCAL_GID)),
            remote_gid: Gid(take(data, field::REMOTE_GID)),
            flow_label: label >> 12,
            rate: (label & 0x3f) as u8,
            traffic_class: data[field::TRAFFIC_CLASS],
            hop_limit: data[field::HOP_LIMIT],
            service_level: data[field::SERVICE_LEVEL] >> 4,
            subnet_local: data[field::SERVICE_LEVEL] & 8 != 0,
            ack_timeout: data[field::ACK_TIMEOUT] >> 3,
        }
    }

    fn emit(&self, data: &mut [u8]) {
        put16(data, field::LOCAL_LID.start, self.local_lid);
        put16(data, field::REMOTE_LID.start, self.remote_lid);
        data[field::LOCAL_GID..][..16].copy_from_slice(&self.local_gid.0);
        data[field::REMOTE_GID..][..16].copy_from_slice(&self.remote_gid.0);
        let label = self.flow_label << 12 | u32::from(self.rate & 0x3f);
        put32(data, field::FLOW_LABEL.start, label);
        data[field::TRAFFIC_CLASS] = self.traffic_class;
        data[field::HOP_LIMIT] = self.hop_limit;
        data[field::SERVICE_LEVEL] = self.service_level << 4 | u8::from(self.subnet_local) << 3;
        data[field::ACK_TIMEOUT] = self.ack_timeout << 3;
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local_id, service, transport, qpn, psn, .. } = self;
        write!(f, "REQ {local_id:#x} service={service:#x} {transport:?} qp={qpn} psn={psn}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::DATA_LEN;

    fn repr() -> Repr {
        Repr {
            local_id: 0x0102_0304,
            vendor: 0x00f1_f2f3,
            service: 0x0106_1c06,
            guid: 0x4142_4344_4546_4748,
            q_key: QKey(0x1112_1314),
            qpn: Qpn::new(0x21_2223),
            responder_resources: 5,
            initiator_depth: 6,
            remote_timeout: 20,
            transport: Transport::Extended,
            flow_control: true,
            psn: Psn::new(0x31_3233),
            local_timeout: 18,
            retry_count: 7,
            p_key: PKey::DEFAULT,
            mtu: 3,
            rnr_retry: 6,
            max_retries: 15,
            srq: true,
            extended_transport: 1,
            path: Path {
                local_lid: 0x5152,
                remote_lid: 0x6162,
                local_gid: Gid([0x71; 16]),
                remote_gid: Gid([0x72; 16]),
                flow_label: 0x8_1828,
                rate: 0x13,
                traffic_class: 0x68,
                hop_limit: 64,
                service_level: 9,
                subnet_local: true,
                ack_timeout: 19,
            },
            private: [0xee; PRIVATE_LEN],
        }
    }

    #[test]
    fn every_field_has_its_place() {
        let mut data = [0xa5; DATA_LEN];
        repr().emit(&mut data);
        let connection = [
            1, 2, 3, 4, 0, 0xf1, 0xf2, 0xf3, 0, 0, 0, 0, 1, 6, 0x1c, 6, 0x41, 0x42, 0x43, 0x44,
            0x45, 0x46, 0x47, 0x48, 0, 0, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 5, 0, 0,
            0, 6, 0, 0, 0, 0xa7, 0x31, 0x32, 0x33, 0x97, 0xff, 0xff, 0x36, 0xf9, 0x51, 0x52, 0x61,
            0x62,
        ];
        assert_eq!(data[..56], connection);
        assert_eq!((data[56], data[71], data[72], data[87]), (0x71, 0x71, 0x72, 0x72));
        assert_eq!(data[88..96], [0x81, 0x82, 0x80, 0x13, 0x68, 64, 0x98, 0x98]);
        assert_eq!(data[96..140], [0; 44]);
        assert_eq!(data[140..], [0xee; PRIVATE_LEN]);
        assert_eq!(Repr::parse(&data), Ok(repr()));
    }

    #[test]
    fn says_why_it_refuses() {
        assert_eq!(Repr::parse(&[0; DATA_LEN - 1]), Err(Error::Truncated));
    }

    #[test]
    fn two_bits_have_four_meanings() {
        for bits in 0..4 {
            assert_eq!(Transport::from_bits(bits).bits(), bits);
        }
    }
}
