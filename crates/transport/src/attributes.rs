//! Queue pair attributes: what `modify` sets and `query` returns.

use rdma::{Access, Gid, Mtu, Psn, QKey, QpState, QpType, Qpn, UdAddress};

use crate::limits::RD_ATOMIC_MAX;
use crate::mask::Mask;
use crate::recovery::OutOfOrder;
use crate::{CqId, ModifyError, PdId, SrqId};

/// Where a connected queue pair sends to, or an address handle points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressVector {
    /// The peer's GID.
    pub gid: Gid,
    /// Our GID: entry `source_gid_index` of the port's table.
    pub source_gid: Gid,
    /// Which entry `source_gid` is.
    pub source_gid_index: u8,
    /// DSCP and ECN bits of the IP header.
    pub traffic_class: u8,
    /// TTL; 0 means the default, 64.
    pub hop_limit: u8,
    /// Seeds the UDP source port if not zero.
    pub flow_label: u32,
    /// Service level, 0 to 15. It is kept and not used.
    pub service_level: u8,
}

impl AddressVector {
    /// The address of a datagram that goes this way to queue pair `qpn`.
    pub fn datagram(&self, qpn: Qpn, q_key: QKey) -> UdAddress {
        let &Self { gid, source_gid, traffic_class, hop_limit, flow_label, .. } = self;
        UdAddress { gid, source_gid, traffic_class, hop_limit, flow_label, qpn, q_key }
    }
}

/// A change of a queue pair: the attributes that are given (`struct ibv_qp_attr` with its mask).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpChange {
    /// The state to move to; without it the state stays.
    pub state: Option<QpState>,
    /// The state that the caller takes the queue pair to be in.
    pub current_state: Option<QpState>,
    /// Whether to raise [`crate::Event::SqDrained`].
    pub sqd_notify: Option<bool>,
    /// What the peer may do.
    pub access: Option<Access>,
    /// Only index 0 exists.
    pub pkey_index: Option<u16>,
    /// Only port 1 exists.
    pub port: Option<u8>,
    /// The key of datagrams.
    pub q_key: Option<QKey>,
    /// Where the peer is.
    pub path: Option<AddressVector>,
    /// At most the port's active MTU.
    pub path_mtu: Option<Mtu>,
    /// Local ACK timeout, 5 bits: 4.096 us x 2^timeout, none for 0.
    pub timeout: Option<u8>,
    /// 0 to 7.
    pub retry_count: Option<u8>,
    /// 0 to 6, or 7 for ever.
    pub rnr_retry: Option<u8>,
    /// The PSN that the peer will send first.
    pub rq_psn: Option<Psn>,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: Option<u8>,
    /// Code of the shortest delay that our RNR NAKs ask for, 5 bits.
    pub min_rnr_timer: Option<u8>,
    /// The PSN that we send first.
    pub sq_psn: Option<Psn>,
    /// The peer's queue pair.
    pub destination: Option<Qpn>,
    /// Whether the peer has agreed to repeat selectively: on the way from INIT to RTR, for RC, on
    /// a device whose recovery is [`crate::Recovery::SelectiveRepeat`]. Unlike the others it is no
    /// attribute of `ibv_modify_qp`; it is agreed by Enhanced Connection Establishment.
    pub selective_repeat: Option<bool>,
    /// Whether the peer is on another host, which its driver knows: on the way from INIT to RTR. It chooses
    /// [`crate::Config::between_hosts`].
    pub between_hosts: Option<bool>,
    /// Whether the path MTU is what a connection manager has agreed on with the peer's, and no choice of the program: between
    /// two that sign, packets may be longer all the same.
    pub negotiated_mtu: Option<bool>,
    /// An alternate path is given. Automatic path migration is not offered.
    pub alternate_path: bool,
    /// A path migration state is given. Only "migrated" exists, so it changes nothing.
    pub path_migration: bool,
    /// Capacities are given. Queues are not resized.
    pub capacity: bool,
}

impl QpChange {
    /// A change to `state` and nothing else.
    pub fn to(state: QpState) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    /// Which attributes are given.
    pub fn mask(&self) -> Mask {
        let given = [
            (self.state.is_some(), Mask::STATE),
            (self.current_state.is_some(), Mask::CURRENT_STATE),
            (self.sqd_notify.is_some(), Mask::SQD_NOTIFY),
            (self.access.is_some(), Mask::ACCESS),
            (self.pkey_index.is_some(), Mask::PKEY_INDEX),
            (self.port.is_some(), Mask::PORT),
            (self.q_key.is_some(), Mask::QKEY),
            (self.path.is_some(), Mask::PATH),
            (self.path_mtu.is_some(), Mask::PATH_MTU),
            (self.timeout.is_some(), Mask::TIMEOUT),
            (self.retry_count.is_some(), Mask::RETRY_COUNT),
            (self.rnr_retry.is_some(), Mask::RNR_RETRY),
            (self.rq_psn.is_some(), Mask::RQ_PSN),
            (self.max_rd_atomic.is_some(), Mask::MAX_RD_ATOMIC),
            (self.max_dest_rd_atomic.is_some(), Mask::MAX_DEST_RD_ATOMIC),
            (self.min_rnr_timer.is_some(), Mask::MIN_RNR_TIMER),
            (self.sq_psn.is_some(), Mask::SQ_PSN),
            (self.destination.is_some(), Mask::DESTINATION),
            (self.alternate_path, Mask::ALTERNATE_PATH),
            (self.path_migration, Mask::PATH_MIGRATION),
            (self.capacity, Mask::CAPACITY),
        ];
        given.iter().filter(|(given, _)| *given).fold(Mask::NONE, |mask, (_, bit)| mask | *bit)
    }

    /// Checks every value against its range.
    pub(crate) fn check_values(&self, active_mtu: Mtu) -> Result<(), ModifyError> {
        let within = |value: Option<u8>, max: u8| value.is_none_or(|value| value <= max);
        let path = |path: AddressVector| !path.gid.is_zero() && path.service_level <= 15;
        let checks = [
            (within(self.timeout, 31), Mask::TIMEOUT),
            (within(self.retry_count, 7), Mask::RETRY_COUNT),
            (within(self.rnr_retry, 7), Mask::RNR_RETRY),
            (within(self.min_rnr_timer, 31), Mask::MIN_RNR_TIMER),
            (within(self.max_rd_atomic, RD_ATOMIC_MAX), Mask::MAX_RD_ATOMIC),
            (within(self.max_dest_rd_atomic, RD_ATOMIC_MAX), Mask::MAX_DEST_RD_ATOMIC),
            (self.pkey_index.is_none_or(|index| index == 0), Mask::PKEY_INDEX),
            (self.port.is_none_or(|port| port == 1), Mask::PORT),
            (self.path_mtu.is_none_or(|mtu| mtu <= active_mtu), Mask::PATH_MTU),
            (self.path.is_none_or(path), Mask::PATH),
        ];
        let wrong = checks.iter().filter(|(fits, _)| !fits);
        let wrong = wrong.fold(Mask::NONE, |mask, (_, bit)| mask | *bit);
        match wrong {
            _ if self.alternate_path => Err(ModifyError::Unsupported),
            Mask::NONE => Ok(()),
            wrong => Err(ModifyError::Value(wrong)),
        }
    }
}

/// The attributes that a queue pair has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttributes {
    /// What the peer may do.
    pub access: Access,
    /// Index of the P_Key.
    pub pkey_index: u16,
    /// The port.
    pub port: u8,
    /// The key of datagrams.
    pub q_key: QKey,
    /// Where the peer is.
    pub path: AddressVector,
    /// Payload of a packet.
    pub path_mtu: Mtu,
    /// Local ACK timeout.
    pub timeout: u8,
    /// Retries after a timeout or a sequence error.
    pub retry_count: u8,
    /// Retries after an RNR NAK.
    pub rnr_retry: u8,
    /// READs and atomics as requester.
    pub max_rd_atomic: u8,
    /// READs and atomics as responder.
    pub max_dest_rd_atomic: u8,
    /// Code of the RNR delay.
    pub min_rnr_timer: u8,
    /// The peer's queue pair.
    pub destination: Qpn,
    /// Whether the end of draining raises an event.
    pub sqd_notify: bool,
    /// Whether lost packets alone are sent again.
    pub selective_repeat: bool,
    /// Whether the peer is on another host.
    pub between_hosts: bool,
    /// Whether the path MTU is no choice of the program.
    pub negotiated_mtu: bool,
}

impl Default for QpAttributes {
    fn default() -> Self {
        Self {
            access: Access::NONE,
            pkey_index: 0,
            port: 1,
            q_key: QKey(0),
            path: AddressVector::default(),
            path_mtu: Mtu::B1024,
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            destination: Qpn::default(),
            sqd_notify: false,
            selective_repeat: false,
            between_hosts: false,
            negotiated_mtu: false,
        }
    }
}

impl QpAttributes {
    /// Takes over what `change` gives.
    pub(crate) fn apply(&mut self, change: &QpChange) {
        fn set<T: Copy>(target: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *target = value;
            }
        }
        set(&mut self.access, change.access);
        set(&mut self.pkey_index, change.pkey_index);
        set(&mut self.port, change.port);
        set(&mut self.q_key, change.q_key);
        set(&mut self.path, change.path);
        set(&mut self.path_mtu, change.path_mtu);
        set(&mut self.timeout, change.timeout);
        set(&mut self.retry_count, change.retry_count);
        set(&mut self.rnr_retry, change.rnr_retry);
        set(&mut self.max_rd_atomic, change.max_rd_atomic);
        set(&mut self.max_dest_rd_atomic, change.max_dest_rd_atomic);
        set(&mut self.min_rnr_timer, change.min_rnr_timer);
        set(&mut self.destination, change.destination);
        set(&mut self.sqd_notify, change.sqd_notify);
        set(&mut self.selective_repeat, change.selective_repeat);
        set(&mut self.between_hosts, change.between_hosts);
        set(&mut self.negotiated_mtu, change.negotiated_mtu);
    }
}

/// How much a queue pair holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpCapacity {
    /// Send requests.
    pub send_wr: u32,
    /// Receive requests.
    pub recv_wr: u32,
    /// Pieces of a send request.
    pub send_sge: u32,
    /// Pieces of a receive request.
    pub recv_sge: u32,
    /// Bytes of inline data of a send request.
    pub inline: u32,
}

/// What queue pair to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSpec {
    /// The transport service.
    pub kind: QpType,
    /// Its protection domain.
    pub pd: PdId,
    /// Where sends complete.
    pub send_cq: CqId,
    /// Where receives complete.
    pub recv_cq: CqId,
    /// Where receives come from, if not from a queue of its own.
    pub srq: Option<SrqId>,
    /// Its sizes.
    pub capacity: QpCapacity,
    /// Whether every send request completes visibly, signalled or not.
    pub signal_all: bool,
}

impl QpSpec {
    /// What an application asks for, in `pd`, with the queues that its sends and its receives complete to.
    pub fn for_app(spec: &rdma::app::QpSpec, pd: PdId, [send_cq, recv_cq]: [CqId; 2]) -> Self {
        let capacity = QpCapacity {
            send_wr: spec.send_depth,
            recv_wr: spec.recv_depth,
            send_sge: spec.sges,
            recv_sge: spec.sges,
            inline: spec.inline_bytes,
        };
        Self { kind: spec.kind, pd, send_cq, recv_cq, srq: None, capacity, signal_all: false }
    }
}

/// What a query returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpQuery {
    /// The state.
    pub state: QpState,
    /// Whether the send queue is still draining (meaningful in SQD).
    pub draining: bool,
    /// The attributes.
    pub attributes: QpAttributes,
    /// The PSN expected next.
    pub rq_psn: Psn,
    /// The PSN sent next.
    pub sq_psn: Psn,
    /// The capacities that it really has.
    pub capacity: QpCapacity,
    /// The UDP source port of a connected queue pair's packets, which stays until its path changes.
    pub source_port: u16,
    /// Whether every send request is signalled.
    pub signal_all: bool,
    /// What is kept out of order, as responder and as requester.
    pub out_of_order: [OutOfOrder; 2],
}
