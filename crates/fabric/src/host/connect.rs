//! Connections: queue pairs are made, and led to RTS, before the first event.

use rdma::{Access, Gid, QKey, QpType, UdAddress};
use transport::{
    AddressVector, BringUp, Config, CreateError, Endpoint, QpCapacity, QpSpec, Recovery, RegionSpec,
};

use super::{ConnectError, ENGINE_SHIFT, Engine, FIRST_QPN, Host, Pair, PairId};
use crate::address::{Tuple, address_of, hash_of};
use crate::limits::{OUTSTANDING_MAX, RECEIVES};
use crate::memory::{BASE, LENGTH};
use crate::workload::{FlowSpec, Service};

/// The Q_Key of all datagrams.
const Q_KEY: QKey = QKey(0x1111_1111);

/// The type of the queue pairs of a flow.
fn kind_of(service: Service) -> QpType {
    match service {
        // TCP has none.
        Service::Rc | Service::Tcp => QpType::Rc,
        Service::Uc => QpType::Uc,
        Service::Ud => QpType::Ud,
    }
}

impl Host {
    /// Makes a queue pair for `flow`, in RESET.
    pub(crate) fn create_pair(
        &mut self,
        flow: u32,
        spec: &FlowSpec,
    ) -> Result<PairId, ConnectError> {
        let priority = self.config.priority_of(spec.dscp);
        let engine = self.engine(priority).map_err(ConnectError::Create)?;
        let at = &mut self.engines[engine];
        let spec = QpSpec {
            kind: kind_of(spec.service),
            pd: at.pd,
            send_cq: at.cq,
            recv_cq: at.cq,
            srq: None,
            capacity: QpCapacity {
                send_wr: OUTSTANDING_MAX,
                recv_wr: RECEIVES,
                send_sge: 1,
                recv_sge: 1,
                inline: 0,
            },
            signal_all: true,
        };
        let qpn = at.endpoint.create_qp(spec).map_err(ConnectError::Create)?;
        at.unreliable |= spec.kind != QpType::Rc;
        at.pairs.push(Pair::new(qpn, flow));
        Ok(PairId { engine, qpn, key: at.key })
    }

    /// Moves a queue pair to RTS, towards `remote` at `peer`, and enters the tuple of its packets.
    pub(crate) fn connect_pair(
        &mut self,
        pair: PairId,
        peer: u32,
        remote: PairId,
        flow: &FlowSpec,
        tuples: &mut Vec<Tuple>,
    ) -> Result<(), ConnectError> {
        let FlowSpec { dscp, service, .. } = *flow;
        let path = AddressVector {
            gid: Gid::from(address_of(peer)),
            source_gid: Gid::from(address_of(self.index)),
            traffic_class: dscp << 2,
            // Both ends of a flow differ, and so do the flows of one pair of hosts.
            flow_label: crate::random::split_mix(
                u64::from(self.index) << 32 | u64::from(pair.qpn.value()),
            ) as u32
                & 0xf_ffff
                | 1,
            ..AddressVector::default()
        };
        let (mtu, timeout, retries) =
            (self.config.mtu, self.config.ack_timeout_code, self.config.retry_count);
        let at = &mut self.engines[pair.engine];
        let connected = service != Service::Ud;
        let up = BringUp {
            q_key: Q_KEY,
            timeout,
            retry_count: retries,
            selective_repeat: Some(self.config.recovery == Recovery::SelectiveRepeat),
            ..BringUp::new(path, mtu, remote.qpn)
        };
        at.endpoint.bring_up(pair.qpn, &up).map_err(ConnectError::Modify)?;
        let index = at.index_of(pair.qpn);
        at.pairs[index].remote_key = remote.key;
        at.pairs[index].tuple = tuples.len() as u32;
        let (source, destination) = (self.index, peer);
        let source_port = if connected {
            at.endpoint.query_qp(pair.qpn).map_or(0, |pair| pair.source_port)
        } else {
            transport::source_port(path.flow_label)
        };
        let hash = hash_of(source, destination, source_port);
        tuples.push(Tuple { source, destination, source_port, hash });
        at.pairs[index].address = (!connected).then_some(UdAddress {
            gid: path.gid,
            source_gid: path.source_gid,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            flow_label: path.flow_label,
            qpn: remote.qpn,
            q_key: Q_KEY,
        });
        let receives = match self.index == flow.source {
            true => flow.reply_bytes.is_some(),
            false => flow.verb.takes_receive(),
        };
        if receives {
            for _ in 0..RECEIVES {
                at.post_receive(pair.qpn).map_err(ConnectError::Post)?;
            }
        }
        Ok(())
    }

    /// The engine of a priority, made if there is none yet.
    pub(super) fn engine(&mut self, priority: u8) -> Result<usize, CreateError> {
        if let Some(index) = self.engines.iter().position(|engine| engine.priority == priority) {
            return Ok(index);
        }
        let index = self.engines.len();
        let first = ((index as u32) << ENGINE_SHIFT) + FIRST_QPN;
        let mut endpoint = Endpoint::new(Config {
            qpns: first..first + transport::limits::QPS_MAX,
            active_mtu: self.config.mtu,
            recovery: self.config.recovery,
            window_bytes: self.config.window_bytes,
            read_chunk_bytes: self.config.read_chunk_bytes,
            burst_packets: 1,
            ack_interval_packets: self.config.ack_interval_packets,
            coalesce_acks: false,
            congestion: self.config.congestion,
            notification: self.config.notification,
            ..Config::default()
        });
        let pd = endpoint.alloc_pd()?;
        let cq = endpoint.create_cq(transport::limits::CQE_MAX)?;
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let region = RegionSpec { address: BASE, length: LENGTH, iova: BASE, access };
        let key = endpoint.register(pd, region).map_err(|_| CreateError::Exhausted)?;
        self.engines.push(Engine {
            priority,
            endpoint,
            pd,
            cq,
            key,
            pairs: Vec::new(),
            unreliable: false,
            unsettled: false,
        });
        Ok(index)
    }
}
