//! Selective repeat: requests that arrive out of order are kept until their turn.

use alloc::boxed::Box;

use rdma::{Memory, mtu};
use wire::opcode::Operation;
use wire::roce;

use super::{Reply, Request, Responder};
use crate::adapter::Adapter;
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::recovery::{OutOfOrder, ReorderBuffer};
use crate::stats::Drop;

impl Responder {
    /// Whether any request is kept.
    fn keeps_some(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.held().packets > 0)
    }

    /// The same, or a part of one.
    pub(super) fn keeps_anything(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.held().packets > 0 || ahead.has_unfinished())
    }

    /// Queues a selective acknowledgement of what has arrived behind the gap, unless one waits.
    fn tell_of_gap(&mut self, adapter: &mut Adapter) {
        let (psn, msn) = (self.expected, self.msn);
        let is_said =
            |reply: &Reply| matches!(reply, Reply::Selective { psn: said, .. } if *said == psn);
        if !self.replies.iter().any(is_said) {
            self.push_reply(Reply::Selective { psn, msn });
            adapter.stats.send_seq_err += 1;
        }
    }

    /// What keeps them.
    pub(crate) fn kept_mut(&mut self) -> Option<&mut ReorderBuffer> {
        self.ahead.as_deref_mut()
    }

    /// Requests that are kept.
    pub(crate) fn kept(&self) -> OutOfOrder {
        self.ahead.as_ref().map(|ahead| ahead.held()).unwrap_or_default()
    }

    /// Drops what is kept: the peer sends it again.
    pub(crate) fn forget_kept(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.clear();
        }
    }
}

impl Qp {
    /// A request has come from a peer that signs its packets or does not. The last one counts, so a forged
    /// one changes nothing for longer than until the next.
    pub(crate) fn follow_sign(&mut self, signed: bool) {
        let Some(bounds) = self.offered.filter(|_| !self.attributes.selective_repeat) else {
            return;
        };
        let Responder { ahead, expected, .. } = &mut self.responder;
        if signed != ahead.is_some() {
            *ahead = signed.then(|| Box::new(ReorderBuffer::new(bounds, *expected)));
        }
    }

    /// How many PSNs a request stands for: those of its responses, if it is a READ.
    pub(super) fn packets(&self, header: &roce::Repr) -> u32 {
        match header.reth {
            Some(reth) if header.facts().operation == Operation::ReadRequest => {
                mtu::packets(reth.length, self.stride_of(header))
            }
            _ => 1,
        }
    }

    /// A request behind a gap: it is kept if there is room, and the peer is told what has arrived. Of one that only goes
    /// on with what came last it is told if that asks: an answer to each packet would cost as much as the packets.
    pub(super) fn keep_ahead<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let packets = self.packets(request.header);
        let responder = &mut self.responder;
        // After an RNR NAK the peer sends everything again from there on.
        let Some(ahead) = responder.ahead.as_mut().filter(|_| !responder.nak_sent) else {
            return Err(Drop::OutOfOrder);
        };
        ahead.advance(responder.expected);
        let goes_on = ahead.goes_on_with(request.header.bth.psn);
        let kept = ahead.keep::<M>(request.header, request.carried, packets);
        let is_told = request.header.bth.ack_request || !goes_on || !kept;
        if is_told {
            responder.tell_of_gap(adapter);
        }
        if kept { Ok(()) } else { Err(Drop::OutOfOrder) }
    }

    /// After a request was executed: executes the kept ones whose turn it now is, and acknowledges
    /// them at once, because the peer waits to learn that the gap is filled.
    pub(super) fn respond_to_kept<M: Memory>(
        &mut self,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let filled = self.responder.expected;
        while let Some(ahead) = &mut self.responder.ahead {
            ahead.advance(self.responder.expected);
            let Some(kept) = ahead.take() else { break };
            if mutated(Mutation::GapTakenForFilled) {
                self.responder.expected = kept.header.bth.psn;
            }
            let request = Request::<M>::new(&kept.header, kept.carried::<M>());
            if let Err(refusal) = self.respond(&request, memory, adapter) {
                self.responder.forget_kept();
                return self.refuse(refusal, &kept.header, adapter);
            }
        }
        let responder = &mut self.responder;
        if responder.expected != filled {
            responder.acknowledge(responder.expected.minus(1), adapter.config.coalesce_acks);
            if responder.keeps_some() {
                // What was to tell of the next gap is gone with the gap before it.
                responder.tell_of_gap(adapter);
            }
        }
        Ok(())
    }
}
