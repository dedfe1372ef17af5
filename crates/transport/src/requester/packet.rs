//! The headers of each request.

use rdma::{Operation, QpType, SendFlags};
use wire::bth::Stride;
use wire::opcode::{Attach, Part, Service};
use wire::{Opcode, atomic_eth, deth, reth};

use super::{Cursor, SendWqe};
use crate::qp::{Qp, route_of_datagram};
use crate::transmit::{Body, Written};

impl SendWqe {
    /// The bytes of its packet `packet`, behind the headers.
    pub(super) fn payload_length(&self, packet: u32) -> u32 {
        match self.operation {
            Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => {
                0
            }
            _ => {
                // Below 2^31, as every offset in a message.
                (u64::from(self.length) - self.offset(packet)).min(self.stride.into()) as u32
            }
        }
    }
}

impl Qp {
    /// What packet `packet` of a request is.
    pub(super) fn request_opcode(&self, wqe: &SendWqe, packet: u32) -> Opcode {
        let service = match self.spec.kind {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcInitiator | QpType::XrcTarget => Service::Xrc,
        };
        let part = Part::of(packet, wqe.packets);
        match wqe.operation {
            Operation::Send { immediate: None, .. } => Opcode::send(service, part, Attach::Nothing),
            Operation::Send { .. } => Opcode::send(service, part, Attach::Immediate),
            Operation::SendInvalidate { .. } => Opcode::send(service, part, Attach::Invalidate),
            Operation::Write { immediate, .. } => Opcode::write(service, part, immediate.is_some()),
            Operation::Read { .. } => Opcode::RC_READ_REQUEST.in_service(service),
            Operation::CompareSwap { .. } => Opcode::RC_COMPARE_SWAP.in_service(service),
            Operation::FetchAdd { .. } => Opcode::RC_FETCH_ADD.in_service(service),
            Operation::AtomicWrite { .. } => Opcode::RC_ATOMIC_WRITE.in_service(service),
            Operation::BindWindow { .. } | Operation::LocalInvalidate { .. } => {
                unreachable!("done at this end before any packet is made")
            }
        }
    }

    /// Writes the headers of a packet, which stands for `count` PSNs, but for opcode and PSN, and says what
    /// follows them.
    pub(crate) fn write_request(
        &self,
        Cursor { serial, packet }: Cursor,
        count: u32,
        to: &mut Written,
    ) -> Body {
        let Some(wqe) = self.requester.wqe(serial) else { return Body::EMPTY };
        let Written { route, header } = to;
        let part = header.facts().part;
        let offset = wqe.offset(packet);
        if wqe.stride > self.mtu() && self.offered.is_some() {
            header.bth.stride = Stride::fitting(wqe.stride);
        }
        header.xrc_srqn = wqe.srq;
        route.traffic_class = self.data_class();
        let solicited = part.ends() && wqe.flags.contains(SendFlags::SOLICITED);
        match wqe.operation {
            Operation::Send { immediate, address } => {
                header.bth.solicited = solicited;
                header.immediate = immediate.filter(|_| part.ends());
                if let Some(address) = address.filter(|_| self.is_datagram()) {
                    *route = route_of_datagram(&address, self.qpn);
                    header.bth.destination = address.qpn;
                    let q_key = if address.q_key.is_controlled() {
                        self.attributes.q_key
                    } else {
                        address.q_key
                    };
                    header.deth = Some(deth::Repr { q_key, source: self.qpn });
                }
            }
            Operation::SendInvalidate { r_key } => {
                header.bth.solicited = solicited;
                header.invalidate = Some(r_key).filter(|_| part.ends());
            }
            Operation::Write { remote_address: address, r_key, immediate } => {
                header.bth.solicited = solicited && immediate.is_some();
                header.immediate = immediate.filter(|_| part.ends());
                if part.begins() {
                    header.reth = Some(reth::Repr { address, r_key, length: wqe.length });
                }
            }
            Operation::Read { remote_address, r_key } => {
                let asked = u64::from(count) * u64::from(wqe.stride);
                let length = (u64::from(wqe.length) - offset).min(asked) as u32;
                let address = remote_address.wrapping_add(offset);
                header.reth = Some(reth::Repr { address, r_key, length });
            }
            Operation::CompareSwap { remote_address: address, r_key, compare, swap } => {
                let swap_or_add = swap;
                header.atomic = Some(atomic_eth::Repr { address, r_key, swap_or_add, compare });
            }
            Operation::FetchAdd { remote_address: address, r_key, add } => {
                let (swap_or_add, compare) = (add, 0);
                header.atomic = Some(atomic_eth::Repr { address, r_key, swap_or_add, compare });
            }
            Operation::AtomicWrite { remote_address: address, r_key, .. } => {
                header.reth = Some(reth::Repr { address, r_key, length: wqe.length });
            }
            // Done at this end before any packet is made.
            Operation::BindWindow { .. } | Operation::LocalInvalidate { .. } => {}
        }
        wqe.body(serial, offset, wqe.payload_length(packet))
    }
}
