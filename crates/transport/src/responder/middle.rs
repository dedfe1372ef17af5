//! The short way through the responder: the next packet in the middle of a long message.
//!
//! Of the 64 packets of a message 62 are such. The message's first packet has passed the checks
//! that would be made of each of them.

use rdma::{Access, Memory, PKey, QpType};
use wire::bth::Sign;
use wire::opcode::{Operation, Part, Service};

use super::{Message, Request, Responder, Target};
use crate::adapter::Adapter;
use crate::arrival::Arrival;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::qp::Qp;
use crate::timer::Timer;

impl Qp {
    /// Takes the packet if it is the next one in the middle of the message in progress, and does
    /// all that [`Qp::handle_request`] would. Returns whether it did. If not, nothing has changed
    /// except, perhaps, the bytes where the payload goes, and the column of checks says why.
    pub(crate) fn continue_message<M: Memory>(
        &mut self,
        arrival: &Arrival,
        request: &Request<'_, '_, M>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> bool {
        if !self.continues(arrival, request, adapter) || !is_open() {
            return false;
        }
        let bth = &request.header.bth;
        let asks = bth.ack_request && self.spec.kind.is_reliable();
        let Responder { message, taken, expected, nak_sent, .. } = &mut self.responder;
        let Some(Message { received, target, .. }) = message else { return false };
        let length = request.length();
        let stored = match (target, taken) {
            (Target::Region(remote), _) => {
                memory.write(remote.address + *received, request.carried.payload, 0, length).is_ok()
            }
            (Target::Receive, Some(taken)) => {
                let (regions, pd) = (&adapter.regions, taken.place.pd);
                taken.wqe.scatter(regions, pd, *received, request.carried, memory).is_ok()
            }
            (Target::Receive, None) => false,
        };
        if stored {
            *received += length as u64;
            *expected = expected.next();
            *nak_sent = false;
            adapter.stats.rcvd_pkts += 1;
            adapter.stats.rcvd_bytes += length as u64;
            if asks {
                self.responder.acknowledge(bth.psn, adapter.config.coalesce_acks);
            }
        }
        stored
    }

    /// Whether a packet is the next one in the middle of the message in progress. If so it passes
    /// every check:
    ///
    /// - The queue pair takes packets, and communication is established, since there is a message:
    ///   every way into a state that takes none gives that up.
    /// - `check_psn`, and of the packet's headers partition, sender and service, by comparison. XRC
    ///   goes the long way, so there is no other queue for `check_queue` to find.
    /// - `check_sequence`: it goes on with a message of its own kind. As it neither begins nor ends
    ///   one, `check_resources` has nothing to take.
    /// - `check_operation`: the right may have been withdrawn since, so it is asked for.
    /// - `check_length`: the payload fills the packet, and leaves something for those that follow.
    /// - `check_key`: the whole of a WRITE was found within its region, and none has gone since. The
    ///   list of a receive sees to that itself.
    ///
    /// And it need only be stored, and acknowledged if it asks: it has the sign that its message began with, no
    /// mark, releases no acknowledgement that waits, and no kept request follows it.
    fn continues<M: Memory>(
        &self,
        arrival: &Arrival,
        request: &Request<'_, '_, M>,
        adapter: &Adapter,
    ) -> bool {
        let Some(message) = &self.responder.message else { return false };
        let bth = &request.header.bth;
        let end = message.received + request.length() as u64;
        let fits = match (request.facts.operation, &message.target) {
            (Operation::Write, Target::Region(remote)) => {
                remote.epoch == adapter.regions.epoch()
                    && end < u64::from(remote.length)
                    && self.attributes.access.allows(Access::REMOTE_WRITE)
            }
            (Operation::Send, Target::Receive) => end <= u64::from(MESSAGE_BYTES_MAX),
            _ => false,
        };
        let is_of_service = matches!(
            (self.spec.kind, request.facts.service),
            (QpType::Rc, Service::Rc) | (QpType::Uc, Service::Uc)
        );
        fits && request.facts.part == Part::Middle
            && is_of_service
            && bth.psn == self.responder.expected
            && PKey::DEFAULT.admits(bth.p_key)
            && request.length() == self.stride_of(request.header) as usize
            && arrival.source == self.attributes.path.gid
            && !arrival.is_marked()
            && !self.timers.is_running(Timer::AckDelay)
            && !self.responder.keeps_anything()
            && request.header.part.is_none()
            && (bth.sign != Sign::None || self.offered.is_none())
    }
}

/// Whether packets may take the short way: a test compares it with the long one.
#[cfg(not(test))]
const fn is_open() -> bool {
    true
}

#[cfg(test)]
std::thread_local! {
    static CLOSED: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    static TAKEN: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

#[cfg(test)]
fn is_open() -> bool {
    let is_open = !CLOSED.get();
    TAKEN.set(TAKEN.get() + u64::from(is_open));
    is_open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::storm::{self, Log};

    #[test]
    fn the_short_way_leads_where_the_long_one_does() {
        for seed in 0..150 {
            let [short, long] = [false, true].map(|is_closed| {
                CLOSED.set(is_closed);
                let mut log = Log::recording();
                let report = storm::run(seed, &mut log);
                CLOSED.set(false);
                (report, log)
            });
            assert_eq!(short.0, long.0, "seed {seed}");
            let differs = short.1.lines().iter().zip(long.1.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}");
            assert!(short.1.capture() == long.1.capture(), "seed {seed}: the packets differ");
        }
        assert!(TAKEN.get() > 5_000, "{} packets took it", TAKEN.get());
    }
}
