//! Receiving datagrams (IBTA vol 1, 9.8.3): one packet, one message, from anyone with the Q_Key.

use core::net::IpAddr;

use rdma::completion::{Attached, NetworkHeader};
use rdma::{Completion, CompletionOpcode, CompletionStatus, Memory, QpState, QpType};
use wire::{bth, ipv4, ipv6, roce, udp};

use crate::Event;
use crate::adapter::Adapter;
use crate::arrival::Arrival;
use crate::failure::{Cause, Work};
use crate::qp::Qp;
use crate::recv::ScatterError;
use crate::responder::Request;
use crate::stats::Drop;

/// Bytes before the message in a datagram's receive buffer.
pub(crate) const GRH_LEN: usize = 40;

impl Qp {
    /// Takes a datagram.
    pub(crate) fn handle_datagram<M: Memory>(
        &mut self,
        arrival: &Arrival,
        request: &Request<'_, '_, M>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        debug_assert_eq!(self.spec.kind, QpType::Ud);
        // 9.8.3.2: the Q_Key is the queue pair's.
        let deth = request.header.deth.ok_or(Drop::WrongTransport)?;
        if deth.q_key != self.attributes.q_key {
            return Err(Drop::QKey);
        }
        if request.length() > adapter.config.active_mtu.bytes() as usize {
            return Err(Drop::BadLength);
        }
        let mut wqe = self.take_receive(self.spec.srq, adapter).ok_or(Drop::NoReceive)?;
        let grh = global_header(arrival, request.header, request.length());
        let (regions, pd) = (&adapter.regions, self.spec.pd);
        let stored = wqe
            .scatter_bytes(regions, pd, &grh, memory)
            .and_then(|()| wqe.scatter(regions, pd, GRH_LEN as u64, request.carried, memory));
        match stored {
            Ok(()) => {}
            // The sender chose the length, and any sender with the Q_Key could stop the queue pair: the
            // datagram alone is lost.
            Err(ScatterError::Length) => {
                let status = CompletionStatus::LocalLength;
                self.complete_recv_error(&wqe, self.spec.recv_cq, status, adapter);
                return Ok(());
            }
            Err(ScatterError::Protection) => {
                let status = CompletionStatus::LocalProtection;
                self.complete_recv_error(&wqe, self.spec.recv_cq, status, adapter);
                let fault = wqe.fault(&adapter.regions, self.spec.pd);
                let work = Work::received(request.header);
                let cause = Cause::Refused { work, fault, told: None };
                self.note_failure(QpState::Error, cause, adapter);
                adapter.raise(Event::QpFatal(self.qpn));
                self.enter_error(false, adapter);
                return Ok(());
            }
        }
        let completion = Completion {
            // Below 2^16: the length of a datagram.
            byte_len: (request.length() + GRH_LEN) as u32,
            attached: request.header.immediate.map_or(Attached::None, Attached::Immediate),
            source_qpn: deth.source,
            network_header: match arrival.source.ip() {
                IpAddr::V4(_) => NetworkHeader::Ipv4,
                IpAddr::V6(_) => NetworkHeader::Ipv6,
            },
            solicited: request.header.bth.solicited,
            ..self.blank_completion(wqe.id, CompletionStatus::Success, CompletionOpcode::Recv)
        };
        adapter.complete(self.spec.recv_cq, completion);
        Ok(())
    }
}

/// The 40 bytes before the message: the IPv6 header, or 20 bytes undefined (zeros here) and the
/// IPv4 header (annex A17.4.5.2). The engine makes them from the addresses and lengths of the
/// packet.
fn global_header(arrival: &Arrival, header: &roce::Repr, length: usize) -> [u8; GRH_LEN] {
    let mut bytes = [0; GRH_LEN];
    let roce_len = header.header_len() + length + usize::from(header.bth.pad) + roce::ICRC_LEN;
    // Below 2^16, as it arrived in a datagram.
    let udp_len = (udp::HEADER_LEN + roce_len) as u16;
    debug_assert!(roce_len >= bth::LEN);
    match (arrival.source.ip(), arrival.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let repr = ipv4::Repr {
                source,
                destination,
                tos: arrival.traffic_class,
                total_len: udp_len + ipv4::HEADER_LEN as u16,
                id: 0,
                dont_fragment: true,
                ttl: arrival.hop_limit,
                protocol: udp::PROTOCOL,
            };
            repr.emit(&mut bytes[GRH_LEN - ipv4::HEADER_LEN..]);
        }
        (source, destination) => {
            let v6 = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let repr = ipv6::Repr {
                source: v6(source),
                destination: v6(destination),
                traffic_class: arrival.traffic_class,
                flow_label: 0,
                payload_len: udp_len,
                next_header: udp::PROTOCOL,
                hop_limit: arrival.hop_limit,
            };
            repr.emit(&mut bytes);
        }
    }
    bytes
}
