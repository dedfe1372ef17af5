//! Connections: queue pairs are made, and brought to RTS, before the first event.

use rdma::{Access, Gid, Mtu, QKey, QpType, Qpn, Span, UdAddress};
use transport::limits::OUT_OF_ORDER_BYTES_MAX;
use transport::{
    AddressVector, BringUp, Config, CreateError, Endpoint, QpCapacity, QpSpec, Recovery, RegionSpec,
};

use super::{ConnectError, ENGINE_SHIFT, Engine, FIRST_QPN, Host, Pair, PairId};
use crate::address::{Tuple, address_of, hash_of};
use crate::limits::{OUTSTANDING_MAX, RECEIVES};
use crate::memory::{BASE, LENGTH};
use crate::nic::NicConfig;
use crate::random::split_mix;
use crate::workload::{FlowSpec, Service};

/// The Q_Key of all datagrams.
const Q_KEY: QKey = QKey(0x1111_1111);

/// The path from host `from` to host `to`. Flows of one pair of hosts differ by the `label`.
pub(super) fn path(from: u32, to: u32, traffic_class: u8, label: u64) -> AddressVector {
    AddressVector {
        gid: Gid::from(address_of(to)),
        source_gid: Gid::from(address_of(from)),
        traffic_class,
        flow_label: label as u32 & 0xf_ffff | 1,
        ..AddressVector::default()
    }
}

/// What leads a queue pair of a NIC with these settings to RTS, towards `remote`.
pub(super) fn bring_up(nic: &NicConfig, path: AddressVector, mtu: Mtu, remote: Qpn) -> BringUp {
    BringUp {
        q_key: Q_KEY,
        timeout: nic.ack_timeout_code,
        retry_count: nic.retry_count,
        selective_repeat: Some(nic.recovery == Recovery::SelectiveRepeat),
        ..BringUp::new(path, mtu, remote)
    }
}

impl Engine {
    /// Enters the tuple of the packets of a queue pair from one host to the other, by `path` to its
    /// `remote`. Returns its index and, of a datagram, the address.
    pub(super) fn enter(
        &self,
        (qpn, kind): (Qpn, QpType),
        (source, destination): (u32, u32),
        path: &AddressVector,
        remote: Qpn,
        tuples: &mut Vec<Tuple>,
    ) -> (u32, Option<UdAddress>) {
        let is_datagram = kind == QpType::Ud;
        let source_port = match is_datagram {
            true => transport::source_port(path.flow_label),
            false => self.endpoint.query_qp(qpn).map_or(0, |pair| pair.source_port),
        };
        let hash = hash_of(source, destination, source_port);
        tuples.push(Tuple { source, destination, source_port, hash });
        let address = path.datagram(remote, Q_KEY);
        (tuples.len() as u32 - 1, is_datagram.then_some(address))
    }
}

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
        // Both ends of a flow differ, and so do the flows of one pair of hosts.
        let label = split_mix(u64::from(self.index) << 32 | u64::from(pair.qpn.value()));
        let path = path(self.index, peer, flow.dscp << 2, label);
        let up = bring_up(&self.config, path, self.config.mtu, remote.qpn);
        let at = &mut self.engines[pair.engine];
        at.endpoint.bring_up(pair.qpn, &up).map_err(ConnectError::Modify)?;
        let own = (pair.qpn, kind_of(flow.service));
        let (tuple, address) = at.enter(own, (self.index, peer), &path, remote.qpn, tuples);
        let index = at.index_of(pair.qpn);
        let of = &mut at.pairs[index];
        (of.remote_key, of.tuple, of.address) = (remote.key, tuple, address);
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
            overtaken_wait_min: self.config.overtaken_wait.filter(|wait| *wait > Span::ZERO),
            out_of_order_packets: self.config.out_of_order_packets,
            // What is placed at once takes no memory of the NIC.
            out_of_order_bytes: OUT_OF_ORDER_BYTES_MAX,
            window_bytes: self.config.window_bytes,
            read_chunk_bytes: self.config.read_chunk_bytes,
            burst_packets: 1,
            ack_interval_packets: self.config.ack_interval_packets,
            coalesce_acks: false,
            done_on_departure: true,
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
        self.engines.push(Engine { priority, endpoint, pd, cq, key, pairs: Vec::new() });
        Ok(index)
    }
}
