//! Forged packets: they change nothing, and are counted.

use core::net::Ipv4Addr;
use std::format;

use rdma::{Gid, PKey, Psn, QKey, QpState, QpType, Qpn};
use wire::aeth::{self, NakCode, Syndrome};
use wire::opcode::{Attach, Part, Service};
use wire::{Opcode, deth, reth, roce};

use super::check::Check;
use super::tally::Seen;
use super::world::{Q_KEY, World, place};
use crate::{Arrival, Drop, QpQuery};

/// A QPN that no endpoint of a storm gives out.
const NOBODY: u32 = 0x3f00;

/// What is forged, and what becomes of it.
struct Forgery {
    seen: Seen,
    header: roce::Repr,
    source: Gid,
    /// Why it is dropped; nothing if it is told from a real packet by its PSN alone.
    expected: Option<Drop>,
}

impl World<'_> {
    /// A forged packet arrives at an end, and the oracle looks at what it does.
    pub(super) fn forge(&mut self, link: usize, side: usize) -> Check {
        let (own, peer) = (&self.links[link].ends[side], &self.links[link].ends[1 - side]);
        let (to, qpn) = (own.node, own.qpn);
        let Some(before) = self.nodes[to].endpoint.query_qp(qpn) else { return Ok(()) };
        if self.nodes[to].stopped.is_some() {
            return Ok(());
        }
        let source = self.nodes[peer.node].gid;
        let kind = self.links[link].plan.kind;
        let Some(forgery) = self.forgery(kind, qpn, source, &before) else { return Ok(()) };
        self.tally.count(forgery.seen);
        let Forgery { header, source, expected, .. } = forgery;
        let header = header.padded_for(0);
        let payload: &[u8] = &[];
        let arrival =
            Arrival { source, destination: self.nodes[to].gid, traffic_class: 0, hop_limit: 64 };
        let now = self.time_of_call(to);
        let node = &mut self.nodes[to];
        let (stats, changes) = (*node.endpoint.stats(), node.ground.changes);
        let ground = &mut node.ground;
        let result = node.endpoint.handle(now, &arrival, &header, payload, 0, ground);
        self.log.note(self.now, &place(to), "is fooled", || format!("{header}: {result:?}"));
        let node = &self.nodes[to];
        let after = node.endpoint.query_qp(qpn);
        let new = *node.endpoint.stats();
        if node.ground.changes != changes {
            return Err(format!("a forged packet changes memory: {header}"));
        }
        let Some(cause) = expected else {
            // An answer may go out, and find its way to the real peer.
            self.links[link].incidents += 1;
            let counted = new.out_of_seq_request + new.duplicate_request
                - stats.out_of_seq_request
                - stats.duplicate_request;
            let moved = after.is_none_or(|after| after.rq_psn.is_after(before.rq_psn));
            return match (moved, counted) {
                (false, 1) => Ok(()),
                _ => Err(format!("{header} is forged, and not seen to be: counted {counted}")),
            };
        };
        let mut counted = stats;
        counted.drop_packet(cause);
        (counted.rcvd_pkts, counted.rcvd_bytes) = (new.rcvd_pkts, new.rcvd_bytes);
        if result != Err(cause) || new != counted || after != Some(before) {
            return Err(format!("{header} is forged: {result:?}, not {cause:?}; {after:?}"));
        }
        Ok(())
    }

    fn forgery(&mut self, kind: QpType, qpn: Qpn, source: Gid, query: &QpQuery) -> Option<Forgery> {
        let random = &mut self.random;
        let service = match kind {
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            _ => Service::Rc,
        };
        let near = query.rq_psn.plus(random.below(3) as u32);
        let mut header = message(service, qpn, near);
        let stranger = Gid::from(Ipv4Addr::new(10, 9, 9, 9));
        let dead = matches!(query.state, QpState::Reset | QpState::Init | QpState::Error);
        let answerable = matches!(query.state, QpState::Rts | QpState::Sqd);
        let (seen, source, expected) = match random.below(7) {
            _ if dead => (Seen::ForgedState, source, Some(Drop::QpState)),
            0 if kind == QpType::Ud => {
                header.deth = Some(deth::Repr { q_key: QKey(0x3333), source: Qpn::new(2) });
                (Seen::ForgedQKey, source, Some(Drop::QKey))
            }
            0 => {
                if random.chance(500) {
                    header = write(service, qpn, near);
                }
                (Seen::ForgedSource, stranger, Some(Drop::WrongSource))
            }
            1 => {
                let others = [Service::Rc, Service::Uc, Service::Ud];
                let other = random.pick(&others);
                if other == service {
                    return None;
                }
                header = message(other, qpn, near);
                (Seen::ForgedTransport, source, Some(Drop::WrongTransport))
            }
            2 => {
                header.bth.p_key = PKey(0x1234);
                (Seen::ForgedPartition, source, Some(Drop::PKey))
            }
            3 => {
                header.bth.destination = Qpn::new(NOBODY);
                (Seen::ForgedQpn, source, Some(Drop::UnknownQpn))
            }
            4 if kind == QpType::Rc => {
                header = self.answer(qpn, query.sq_psn);
                let cause = if answerable { Drop::UnexpectedResponse } else { Drop::QpState };
                (Seen::ForgedAnswer, source, Some(cause))
            }
            5 if kind == QpType::Rc => {
                header.bth.psn = query.rq_psn.plus(random.between(5_000, 100_000) as u32);
                (Seen::ForgedAhead, source, None)
            }
            6 if kind == QpType::Rc => {
                header.bth.psn = query.rq_psn.minus(random.between(100_000, 1_000_000) as u32);
                (Seen::ForgedBehind, source, None)
            }
            _ => return None,
        };
        Some(Forgery { seen, header, source, expected })
    }

    /// An answer of any kind to what was never asked: ahead of `next`, or long before it.
    fn answer(&mut self, qpn: Qpn, next: Psn) -> roce::Repr {
        let random = &mut self.random;
        let psn = match random.below(2) {
            0 => next.plus(random.between(1, 100_000) as u32),
            _ => next.minus(random.between(1_000_000, 2_000_000) as u32),
        };
        let syndromes = [
            Syndrome::ACK,
            Syndrome::RnrNak { timer: 1 },
            Syndrome::Nak(NakCode::SequenceError),
            Syndrome::Nak(NakCode::RemoteAccess),
        ];
        let syndrome = random.pick(&syndromes);
        let opcodes = [
            Opcode::RC_ACKNOWLEDGE,
            Opcode::RC_ATOMIC_ACKNOWLEDGE,
            Opcode::read_response(Part::Only),
        ];
        let opcode = random.pick(&opcodes);
        let mut header = roce::Repr::new(opcode, qpn, psn);
        header.aeth = Some(aeth::Repr { syndrome, msn: 0 });
        header.atomic_ack = (opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE).then_some(7);
        header
    }
}

/// An empty SEND.
fn message(service: Service, qpn: Qpn, psn: Psn) -> roce::Repr {
    let opcode = Opcode::send(service, Part::Only, Attach::Nothing);
    let mut header = roce::Repr::new(opcode, qpn, psn);
    let is_datagram = service == Service::Ud;
    header.deth = is_datagram.then_some(deth::Repr { q_key: Q_KEY, source: Qpn::new(2) });
    header
}

/// A WRITE of nothing to nowhere.
fn write(service: Service, qpn: Qpn, psn: Psn) -> roce::Repr {
    let mut header = roce::Repr::new(Opcode::write(service, Part::Only, false), qpn, psn);
    header.reth = Some(reth::Repr { address: 0, r_key: rdma::Key(0), length: 0 });
    header
}
