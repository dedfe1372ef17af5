//! What is sent next: the request at the cursor, if window, fence and limits allow it.

use rdma::{CompletionStatus, Operation, Psn, QpState, SendFlags, Span, Time};
use wire::opcode::Part;

use super::{Begun, Cursor, ReadRequest, SendWqe};
use crate::Blocked;
use crate::adapter::Adapter;
use crate::limits::{
    ACK_TIMEOUT_DOUBLINGS, ACK_TIMEOUT_PARTS, ACK_TIMEOUT_SPREAD, PACKET_OVERHEAD_BYTES,
    READ_CHUNK_PACKETS_MIN, READ_CHUNKS_OF_WINDOW, REPEATED_PACE_PERCENT, ack_timeout,
};
use crate::mutation::{Mutation, mutated};
use crate::qp::{Content, Outgoing, Qp};
use crate::recovery::Moment;
use crate::secret::mix;
use crate::stats::Again;
use crate::timer::Timer;

/// What one queue pair may have in flight.
pub(super) struct SendWindow {
    /// With the overhead of each packet.
    pub(super) bytes: u64,
    /// From the oldest that is not acknowledged on.
    pub(super) packets: u32,
}

/// What a packet takes of the pace that is sent again.
fn repeated(bytes: u64) -> u64 {
    bytes * 100 / REPEATED_PACE_PERCENT
}

impl Qp {
    /// The next request packet.
    ///
    /// # Errors
    /// Why none may be sent now; `None` if there is nothing to send.
    pub(crate) fn next_request(
        &mut self,
        now: Time,
        adapter: &mut Adapter,
    ) -> Result<Outgoing, Option<Blocked>> {
        let reliable = self.spec.kind.is_reliable();
        if !reliable && !adapter.config.done_on_departure {
            self.finish_unreliable(adapter);
        }
        let sending = matches!(self.state, QpState::Rts | QpState::Sqd);
        if !sending {
            return Err(None);
        }
        if self.timers.is_running(Timer::RnrRetry) {
            return Err(Some(Blocked::Rnr));
        }
        if self.requester.has_copy()
            && let Some(copy) = self.next_copy(adapter)
        {
            return Ok(copy);
        }
        loop {
            if self.requester.scoreboard.is_some() {
                self.requester.pass_over();
            }
            if !self.execute_local(adapter)? {
                break;
            }
        }
        let Cursor { serial, packet } = loop {
            let cursor = self.requester.cursor;
            match self.prepare(cursor.serial, adapter) {
                Ok(()) => break cursor,
                // A request that cannot be sent may have moved the cursor back, to request an
                // acknowledgement.
                Err(Some(_)) if self.requester.cursor != cursor => {}
                Err(why) => return Err(why),
            }
        };
        let wqe = self.requester.wqe(serial).ok_or(None)?;
        let begun = wqe.begun.ok_or(None)?;
        let psn = begun.first_psn.plus(packet);
        let again = psn.is_before(self.requester.top);
        let (mut count, mut cost) = self.extent(wqe, packet, adapter);
        let selective = self.requester.scoreboard.is_some();
        let mut spent = cost;
        if selective && again {
            // A lost packet was in flight before; of a READ some responses may have arrived.
            count = self.requester.lost_run(psn, count);
            spent = wqe.cost(packet + count) - wqe.cost(packet);
            cost = 0;
        }
        let sent = begun.start_bytes + wqe.cost(packet);
        let outstanding = self.requester.unacknowledged(sent);
        let in_flight = self.requester.less_arrived(outstanding, psn);
        let window = self.window();
        let behind = psn.plus(count).distance_from(self.requester.unacked);
        let room = window.bytes.saturating_sub(in_flight);
        let refill = self.refill_bytes.min(window.bytes / 2);
        let refill = if self.requester.filled { refill } else { 0 };
        // What is sent again was in flight before. Between hosts it may wait all the same: after a timeout
        // nothing is in flight any more.
        let (is_free, needed) = match selective && again {
            true => (self.offered.is_none() || self.requester.probe, spent),
            false => (false, cost),
        };
        let beyond = room < needed.max(refill) || behind > window.packets;
        if reliable && outstanding > 0 && beyond && !is_free {
            self.requester.filled = true;
            return Err(Some(Blocked::Window));
        }
        if wqe.is_read_or_atomic()
            && !(selective && again)
            && self.is_read_limit_reached()
            && !mutated(Mutation::RdAtomicsUnlimited)
        {
            self.requester.filled |= room < cost;
            return Err(Some(Blocked::ReadLimit));
        }
        let until = self.pacer.held_until(now);
        if let Some(until) = until.or_else(|| self.pacer.batch_held_until(now)) {
            self.timers.set_sooner(Timer::Pace, until);
            return Err(Some(Blocked::Pace));
        }
        let opcode = self.request_opcode(wqe, packet);
        let length = wqe.payload_length(packet);
        let ends_message = packet + count == wqe.packets;
        let is_read_or_atomic = wqe.is_read_or_atomic();
        let says_narrowed = self.says_narrowed(wqe.stride);

        let early = self.pace(now, opcode, length, adapter);
        let spent = if again && selective { repeated(spent) } else { spent };
        self.pacer.spend(now, spent, 1);
        let end = psn.plus(count);
        let requester = &mut self.requester;
        requester.filled = false;
        requester.cursor = if ends_message {
            Cursor::first_of(serial + 1)
        } else {
            Cursor { serial, packet: packet + count }
        };
        if again {
            let is_probe = requester.probe;
            adapter.stats.again(if is_probe { Again::Probe } else { requester.again });
            if !selective {
                self.pacer.repeats();
            }
        }
        if end.is_after(requester.top) {
            requester.top = end;
        }
        let mut in_flight = in_flight.saturating_add(cost);
        let is_probe = core::mem::take(&mut requester.probe);
        if let Some(scoreboard) = requester.scoreboard.as_mut().filter(|_| again) {
            let is_sprayed = self.patience.is_sprayed();
            let moment = Moment { now, by: None, is_sprayed, top: requester.top };
            if is_probe {
                self.pacer.forget_round_trips(psn, count);
                scoreboard.probed(&moment, psn, count);
            } else {
                // One READ request is lost, and not all that would have answered it.
                let is_request = is_read_or_atomic && !scoreboard.is_being_answered(psn);
                let lost = match requester.again {
                    Again::NotReady => 0,
                    _ if is_request => 1,
                    _ => count,
                };
                self.pacer.repeated(psn, count, lost);
                scoreboard.resent(&moment, psn, [count, lost], is_read_or_atomic);
                requester.note_loss();
            }
            requester.pass_over();
            in_flight = requester.in_flight();
        }
        let mut ack_request = false;
        if reliable {
            self.requester.unasked += 1;
            ack_request = early || is_probe || self.must_ask(in_flight, &window, adapter);
            let requester = &mut self.requester;
            if ack_request {
                requester.unasked = 0;
                requester.asked_at = now;
            }
            if (ack_request || is_read_or_atomic) && !again {
                if count > 1 {
                    // The first response tells how long the path is, and the last how much it carries.
                    self.pacer.asked(now, psn.next(), false);
                }
                self.pacer.asked(now, end, count > 1);
            }
            if is_read_or_atomic && !(selective && again) {
                requester.rd_atomics.push_back(end.minus(1));
            }
            if !self.timers.is_running(Timer::Retransmit) {
                self.arm_ack_timer(now);
                self.arm_probe(now, false);
            }
        } else if ends_message {
            self.requester.sent_whole += 1;
        }
        let twice = is_read_or_atomic
            && !says_narrowed
            && selective
            && !again
            && self.offered.is_some()
            && self.requester.copy_read(psn, Cursor { serial, packet }, count);
        Ok(Outgoing {
            opcode,
            psn,
            content: Content::Request { serial, packet, count, ack_request, twice },
        })
    }

    /// A READ request that was sent just before, once more.
    #[cold]
    fn next_copy(&mut self, adapter: &mut Adapter) -> Option<Outgoing> {
        let ReadRequest { psn, at: Cursor { serial, packet }, count } =
            self.requester.take_copy()?;
        let opcode = self.request_opcode(self.requester.wqe(serial)?, packet);
        adapter.stats.sent_read_copies += 1;
        let (ack_request, twice) = (false, true);
        let content = Content::Request { serial, packet, count, ack_request, twice };
        Some(Outgoing { opcode, psn, content })
    }

    /// Whether the packet before the cursor requests an acknowledgement: because nothing can follow
    /// it at once, or because the interval is over. With it, `in_flight` bytes are in flight.
    #[inline]
    fn must_ask(&self, in_flight: u64, window: &SendWindow, adapter: &Adapter) -> bool {
        let requester = &self.requester;
        let Cursor { serial, packet } = requester.cursor;
        let following = requester.wqe(serial);
        // Any other request has one packet next, and costs no more than the longest.
        let (count, cost) = match following {
            Some(wqe) if matches!(wqe.operation, Operation::Read { .. }) => {
                self.extent(wqe, packet, adapter)
            }
            _ => (1, 0),
        };
        let waits = following.is_none_or(|next| {
            let fenced = next.flags.contains(SendFlags::FENCE);
            // A local operation is no packet, done or not.
            let alone = next.stuck || next.operation.is_local();
            alone
                || next.begun.is_none() && (self.state == QpState::Sqd || fenced)
                || next.is_read_or_atomic() && self.is_read_limit_reached()
        });
        let longest = u64::from(self.stride()) + PACKET_OVERHEAD_BYTES;
        let is_full = in_flight.saturating_add(longest.max(cost)) > window.bytes;
        let behind = || requester.cursor_psn().plus(count).distance_from(requester.unacked);
        waits
            || is_full
            || requester.bounds.is_some() && behind() > window.packets
            || requester.unasked >= self.ack_interval(adapter)
    }

    /// Whether as many READs and atomics are outstanding as the peer answers.
    fn is_read_limit_reached(&self) -> bool {
        self.requester.rd_atomics.len() >= usize::from(self.attributes.max_rd_atomic)
    }

    /// How much may be in flight: no more than the peer is likely to keep behind a gap.
    pub(super) fn window(&self) -> SendWindow {
        let bytes = self.pacer.window_bytes();
        match &self.requester.bounds {
            None => SendWindow { bytes, packets: u32::MAX },
            Some(bounds) => SendWindow {
                bytes: bytes.min(bounds.bytes as u64),
                packets: bounds.packets.min(bounds.bytes as u32 / self.stride()),
            },
        }
    }

    /// How many PSNs packet `packet` of `wqe` stands for (a READ request for all responses that it
    /// asks for), and what they count for in flight.
    fn extent(&self, wqe: &SendWqe, packet: u32, adapter: &Adapter) -> (u32, u64) {
        let Operation::Read { .. } = wqe.operation else {
            let left = u64::from(wqe.length).saturating_sub(wqe.offset(packet));
            return (1, PACKET_OVERHEAD_BYTES + left.min(wqe.stride.into()));
        };
        let chunk = wqe.begun.map_or_else(|| self.read_chunk(adapter), |begun| begun.chunk);
        let end = wqe.chunk_end(packet, chunk);
        (end - packet, wqe.cost(end) - wqe.cost(packet))
    }

    /// The most responses that one request of a READ asks for that begins now: no more than a part of the window,
    /// because a responder sends what it is asked for at once.
    fn read_chunk(&self, adapter: &Adapter) -> u32 {
        let most = adapter.config.read_packets(self.stride(), self.requester.bounds());
        match self.pacer.window_packets().filter(|_| self.offered.is_some()) {
            None => most,
            Some(packets) => {
                // As many requests as may be outstanding fill it.
                let chunks = READ_CHUNKS_OF_WINDOW.min(self.attributes.max_rd_atomic.into());
                most.min(packets.div_ceil(chunks.max(1)).max(READ_CHUNK_PACKETS_MIN))
            }
        }
    }

    /// Where the message that holds `unacked` began. To the responder each chunk of a READ is a
    /// message, and it remembers no more of them than may be outstanding.
    pub(crate) fn message_start(&self) -> Psn {
        let requester = &self.requester;
        let unacked = requester.unacked;
        let Some(wqe) = requester.queue.front() else { return unacked };
        let Some(Begun { first_psn, chunk, .. }) = wqe.begun else { return unacked };
        let Operation::Read { .. } = wqe.operation else { return first_psn };
        first_psn.plus(unacked.distance_from(first_psn) / chunk * chunk)
    }

    /// Starts the local ACK timer anew. IBTA vol 1, 9.7.6.1.3 allows one to four times the timeout:
    /// the first is the shortest, so that a loss is noticed early, and each after it is twice as long,
    /// so that a path which is down for a while uses up no connection's retries. Between hosts each queue pair makes
    /// those a little shorter, for itself: many that lost all at one time would lose it again, time after time.
    pub(crate) fn arm_ack_timer(&mut self, now: Time) {
        let timeout = self.answer_timeout();
        let factor = 1 << self.requester.timeouts.min(ACK_TIMEOUT_DOUBLINGS);
        match timeout.filter(|_| !mutated(Mutation::AckTimerForgotten)) {
            Some(timeout) => {
                let parts = ACK_TIMEOUT_PARTS - self.timeout_spread();
                let wait = (timeout * factor).as_ps() / ACK_TIMEOUT_PARTS * parts;
                self.timers.set(Timer::Retransmit, now + Span::from_ps(wait));
            }
            None => self.timers.stop(Timer::Retransmit),
        }
    }

    /// The local ACK timeout. Between hosts it is no shorter than their path is: programs choose it for the nearest peers.
    pub(crate) fn answer_timeout(&self) -> Option<Span> {
        let chosen = ack_timeout(self.attributes.timeout)?;
        let follows_path = self.attributes.between_hosts && self.patience.is_needed();
        Some(if follows_path { self.patience.for_answer(chosen) } else { chosen })
    }

    /// By how many of its parts a timeout is shorter.
    fn timeout_spread(&self) -> u64 {
        let timeouts = u64::from(self.requester.timeouts);
        if timeouts == 0 || !self.attributes.between_hosts {
            return 0;
        }
        let destination = u64::from(self.attributes.destination.value());
        mix(u64::from(self.qpn.value()) | destination << 24 | timeouts << 48) % ACK_TIMEOUT_SPREAD
    }

    /// Begins the request `serial` if it has not begun, and makes sure that its memory is
    /// reachable.
    ///
    /// # Errors
    /// Why it has to wait, or that it fails; `None` if there is no such request.
    pub(super) fn prepare(
        &mut self,
        serial: u64,
        adapter: &mut Adapter,
    ) -> Result<(), Option<Blocked>> {
        let pd = self.spec.pd;
        let no_rd_atomics = self.attributes.max_rd_atomic == 0;
        let draining = self.state == QpState::Sqd && !mutated(Mutation::DrainIgnored);
        let begins_read =
            |wqe: &SendWqe| wqe.begun.is_none() && matches!(wqe.operation, Operation::Read { .. });
        let chunk = match self.requester.wqe(serial).is_some_and(begins_read) {
            true => self.read_chunk(adapter),
            false => 1,
        };
        let requester = &mut self.requester;
        let index = serial.checked_sub(requester.first_serial).ok_or(None)?;
        let oldest = index == 0;
        let busy = !requester.rd_atomics.is_empty();
        let place = usize::try_from(index).map_err(|_| None)?;
        let wqe = requester.queue.get_mut(place).ok_or(None)?;
        let beginning = wqe.begun.is_none();
        // IBTA vol 1, 10.8.3.3: a fenced request waits for earlier READs and atomics.
        let fenced = wqe.flags.contains(SendFlags::FENCE) && !mutated(Mutation::FenceIgnored);
        if beginning && draining {
            return Err(Some(Blocked::Drain));
        }
        if beginning && busy && fenced {
            return Err(Some(Blocked::Fence));
        }
        let failure = if wqe.faulted || !wqe.resolve(&adapter.regions, pd) {
            Some(CompletionStatus::LocalProtection)
        } else if wqe.is_read_or_atomic() && no_rd_atomics {
            Some(CompletionStatus::LocalQpOperation)
        } else {
            None
        };
        if let Some(status) = failure {
            // Completions are in order: those before it come first.
            if oldest {
                self.fail_oldest(status, adapter);
                return Err(None);
            }
            if !core::mem::replace(&mut wqe.stuck, true) {
                self.ask_again();
            }
            return Err(Some(Blocked::Failure));
        }
        if beginning {
            let first_psn = requester.next_psn;
            let start_bytes = requester.started_bytes;
            wqe.begun = Some(Begun { first_psn, start_bytes, chunk });
            requester.next_psn = first_psn.plus(wqe.packets);
            requester.started_bytes += wqe.cost(wqe.packets);
        }
        Ok(())
    }

    /// The payload of a request packet could not be read: its request fails, as for a bad key, once
    /// those before it are done.
    pub(crate) fn request_faulted(&mut self, psn: Psn, part: Part) {
        let requester = &mut self.requester;
        let serial = if self.spec.kind.is_reliable() {
            requester.repeat(psn);
            // None of its packets is sent any more. One of them may have requested an
            // acknowledgement, so the last packet before it must.
            requester.cursor.packet = 0;
            requester.unasked = 1;
            requester.cursor.serial
        } else if part.ends() {
            // It was counted as sent whole, and the cursor has left it.
            requester.sent_whole = requester.sent_whole.saturating_sub(1);
            requester.cursor = Cursor::first_of(requester.cursor.serial.saturating_sub(1));
            requester.cursor.serial
        } else {
            requester.cursor.serial
        };
        if let Some(wqe) = requester.wqe_mut(serial) {
            wqe.faulted = !mutated(Mutation::FaultForgotten);
        }
    }
}
