//! What the engine gives out to be sent, until its driver has said what became of it.

use core::fmt;

use rdma::{Psn, Qpn};
use wire::roce;

use super::Endpoint;
use crate::congestion::Telemetry;
use crate::limits::TRAIN_PACKETS_MAX;
use crate::transmit::{Body, Payload, Route};

/// A packet, or several of one message that differ only in PSN and place.
///
/// It borrows the engine until its driver says what became of the packets: [`Run::sent`],
/// [`Run::sent_only`] or [`Run::faulted`]. A run that is dropped counts as sent, and its packets are
/// lost, as on any network. That is a driver's mistake: in debug builds the next
/// [`Endpoint::poll_transmit`] panics.
#[must_use = "say what became of it: `sent`, `sent_only` or `faulted`"]
pub struct Run<'a> {
    endpoint: &'a mut Endpoint,
    qpn: Qpn,
    count: u32,
    /// Of all of its packets.
    body: Body,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut run = f.debug_struct("Run");
        run.field("qpn", &self.qpn).field("header", self.header()).field("count", &self.count);
        run.finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    #[inline]
    pub(super) fn new(endpoint: &'a mut Endpoint, qpn: Qpn, count: u32, body: Body) -> Self {
        if cfg!(debug_assertions) {
            endpoint.is_run_open = true;
        }
        Self { endpoint, qpn, count, body }
    }

    /// All of it has left.
    #[inline]
    pub fn sent(self) {
        if cfg!(debug_assertions) {
            self.endpoint.is_run_open = false;
        }
    }

    /// Its first `packets` have left, one at least, and there was no room for the others. Those are
    /// given out again, as if the run had ended before them.
    pub fn sent_only(self, packets: u32) {
        let each = self.body.len() / self.count;
        self.endpoint.put_back(self.qpn, self.count.saturating_sub(packets.max(1)), each);
        self.sent();
    }

    /// Its first `packets` have left, and the payload of the next could not be read, because its
    /// memory is gone. The next one's request fails, and the packets behind it are not given out again.
    pub fn faulted(self, packets: u32) {
        let Self { endpoint, qpn, count, body } = self;
        endpoint.is_run_open = false;
        let index = packets.min(count - 1);
        endpoint.put_back(qpn, count - index - 1, body.len() / count);
        let header = &endpoint.written.header;
        let (psn, opcode) = (header.bth.psn.plus(index), header.bth.opcode);
        let Some((qp, adapter)) = endpoint.qp_mut(qpn) else { return };
        qp.forget_part();
        if opcode.is_request() {
            qp.request_faulted(psn, opcode.facts().part);
        } else {
            qp.refuse_read(psn, adapter);
        }
        endpoint.settle(qpn);
    }

    /// The queue pair that sends it.
    #[inline]
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Where to.
    #[inline]
    pub fn route(&self) -> &Route {
        &self.endpoint.written.route
    }

    /// BTH and extended headers of the first packet; the pad count is set. Those of the others differ
    /// in nothing but the PSN, which counts up.
    #[inline]
    pub fn header(&self) -> &roce::Repr {
        &self.endpoint.written.header
    }

    /// How many packets: one at least, and no more than were asked for.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// What an acknowledgement tells of switches, once.
    #[inline]
    pub fn take_telemetry(&mut self) -> Option<Telemetry> {
        self.endpoint.adapter.echo.take()
    }

    /// How many packets, of this run and its neighbours, the network should see as one at most: it may
    /// drop them as one.
    #[inline]
    pub fn train_packets(&self) -> u32 {
        let qp = self.endpoint.qp(self.qpn);
        qp.map_or(TRAIN_PACKETS_MAX, |qp| qp.requester.train.packets())
    }

    /// What follows the headers of all of them; each carries an equal share.
    #[inline]
    pub fn payload(&self) -> Payload<'_> {
        self.body.payload(|serial, offset, length| {
            let qp = self.endpoint.qp(self.qpn);
            qp.map_or(Payload::EMPTY, |qp| qp.requester.payload(serial, offset, length))
        })
    }

    /// The packets, in order: the PSN of each, and what it carries.
    pub fn packets(&self) -> impl Iterator<Item = (Psn, Payload<'_>)> {
        let first = self.header().bth.psn;
        let payloads = self.payload().shares(self.count);
        payloads.zip(0..).map(move |(payload, index)| (first.plus(index), payload))
    }
}

impl Endpoint {
    /// The last `unsent` packets of the run that was given out last have not left, with `each` bytes of payload.
    fn put_back(&mut self, qpn: Qpn, unsent: u32, each: u32) {
        let is_request = self.written.header.bth.opcode.is_request();
        let Some((qp, adapter)) = self.qp_mut(qpn).filter(|_| unsent > 0) else { return };
        qp.put_back(unsent, is_request);
        adapter.stats.sent_pkts -= u64::from(unsent);
        adapter.stats.sent_bytes -= u64::from(unsent) * u64::from(each);
        if self.burst == 0 {
            // The run was the end of its turn, and is not any more.
            self.burst = self.adapter.config.burst_packets;
            self.ready.rotate_right(1);
        }
        self.burst -= unsent;
    }
}
