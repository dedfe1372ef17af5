//! The headers of each request.

use rdma::{Mtu, Operation, Psn, QpType, SendFlags};
use wire::opcode::{Attach, Part, Service};
use wire::{Opcode, deth, reth, roce};

use super::SendWqe;
use crate::qp::{Body, Qp};

impl Qp {
    /// Headers and payload of packet `at.1` of request `at.0`, which stands for `count` PSNs.
    pub(super) fn request_packet(
        &self,
        wqe: &SendWqe,
        at: (u64, u32),
        count: u32,
        psn: Psn,
        mtu: Mtu,
    ) -> (roce::Repr, Body) {
        let service = match self.spec.kind {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcInitiator | QpType::XrcTarget => Service::Xrc,
        };
        let (serial, packet) = at;
        let part = Part::of(packet, wqe.packets);
        let offset = u64::from(packet) * u64::from(mtu.bytes());
        // Below 2^31, as every offset in a message.
        let length = (u64::from(wqe.length) - offset).min(u64::from(mtu.bytes())) as u32;
        let body = Body::Request { serial, offset, length };
        let new = |opcode: Opcode| roce::Repr {
            xrc_srqn: wqe.srq,
            ..roce::Repr::new(opcode.in_service(service), self.attributes.destination, psn)
        };
        let solicited = part.ends() && wqe.flags.contains(SendFlags::SOLICITED);
        match wqe.operation {
            Operation::Send { immediate, address } => {
                let attach = if immediate.is_some() { Attach::Immediate } else { Attach::Nothing };
                let mut header = new(Opcode::send(service, part, attach));
                header.bth.solicited = solicited;
                header.immediate = immediate.filter(|_| part.ends());
                if let Some(address) = address.filter(|_| self.is_datagram()) {
                    header.bth.destination = address.qpn;
                    let q_key = if address.q_key.is_controlled() {
                        self.attributes.q_key
                    } else {
                        address.q_key
                    };
                    header.deth = Some(deth::Repr { q_key, source: self.qpn });
                }
                (header, body)
            }
            Operation::SendInvalidate { r_key } => {
                let mut header = new(Opcode::send(service, part, Attach::Invalidate));
                header.bth.solicited = solicited;
                header.invalidate = Some(r_key).filter(|_| part.ends());
                (header, body)
            }
            Operation::Write { remote_address, r_key, immediate } => {
                let mut header = new(Opcode::write(service, part, immediate.is_some()));
                header.bth.solicited = solicited && immediate.is_some();
                header.immediate = immediate.filter(|_| part.ends());
                let whole = reth::Repr { address: remote_address, r_key, length: wqe.length };
                header.reth = Some(whole).filter(|_| part.begins());
                (header, body)
            }
            Operation::Read { remote_address, r_key } => {
                let mut header = new(Opcode::RC_READ_REQUEST);
                let asked = u64::from(count) * u64::from(mtu.bytes());
                let length = (u64::from(wqe.length) - offset).min(asked) as u32;
                let address = remote_address.wrapping_add(offset);
                header.reth = Some(reth::Repr { address, r_key, length });
                (header, Body::None)
            }
            Operation::CompareSwap { remote_address, r_key, compare, swap } => {
                let mut header = new(Opcode::RC_COMPARE_SWAP);
                header.atomic = Some(wire::atomic_eth::Repr {
                    address: remote_address,
                    r_key,
                    swap_or_add: swap,
                    compare,
                });
                (header, Body::None)
            }
            Operation::FetchAdd { remote_address, r_key, add } => {
                let mut header = new(Opcode::RC_FETCH_ADD);
                header.atomic = Some(wire::atomic_eth::Repr {
                    address: remote_address,
                    r_key,
                    swap_or_add: add,
                    compare: 0,
                });
                (header, Body::None)
            }
            Operation::AtomicWrite { remote_address, r_key, .. } => {
                let mut header = new(Opcode::RC_ATOMIC_WRITE);
                let whole = reth::Repr { address: remote_address, r_key, length: wqe.length };
                header.reth = Some(whole);
                (header, body)
            }
            Operation::BindWindow { .. } | Operation::LocalInvalidate { .. } => {
                unreachable!("done at this end before any packet is made")
            }
        }
    }
}
