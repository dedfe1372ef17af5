//! What a NIC shows to observers: the capture of its packets, and the file of its counters.

use rdma::Time;
use transport::Arrival;
use wire::icrc::Datagram;
use wire::pcapng::Direction;

use crate::capture::{Below, Capture};
use crate::host::counters::Publisher;
use crate::limits::HOP_LIMIT;
use crate::packet::Flow;
use crate::udp::gso::Batches;
use crate::{DeviceInfo, OpenError, Options, journal};

/// What is shown of a NIC.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    pub(crate) capture: Option<Capture>,
    pub(crate) publisher: Option<Publisher>,
}

impl Observers {
    pub(crate) fn open(
        device: &DeviceInfo,
        options: &Options,
        slot: u16,
    ) -> Result<Self, OpenError> {
        let open = |name: &str| {
            Capture::open(name, device, slot)
                .map_err(|error| OpenError::Capture { file: name.to_owned(), error })
        };
        let capture = options.capture.as_deref().map(open).transpose()?.flatten();
        if options.capture.is_some() && capture.is_none() {
            tracing::warn!(device = %device.name, "another NIC writes to the stream of FERROCE_PCAP");
        }
        let control = options.congestion.told(device.lab.is_some());
        let publisher = Publisher::create(&device.name, slot, &control)
            .inspect(|publisher| journal::keep(publisher.path()))
            .inspect_err(|error| tracing::warn!(%error, "counters are not published"))
            .ok();
        Ok(Self { capture, publisher })
    }

    /// Whether nothing is to be written down at `now`.
    #[inline]
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        self.capture.is_none() && !self.is_publishing_due(now)
    }

    /// Whether the counters have not been shown for a while.
    #[inline]
    pub(crate) fn is_publishing_due(&self, now: Time) -> bool {
        self.publisher.as_ref().is_some_and(|publisher| publisher.is_due(now))
    }

    /// Records a packet that leaves, with its IP identification.
    pub(crate) fn record_sent(&mut self, now: Time, flow: &Flow, id: u16, packet: &[u8]) {
        if let Some(capture) = &mut self.capture {
            let hop_limit = if flow.hop_limit == 0 { HOP_LIMIT } else { flow.hop_limit };
            let (datagram, traffic_class) = (flow.datagram(id), flow.traffic_class);
            let below = Below { datagram, traffic_class, hop_limit };
            capture.record(now, Direction::Outbound, &below, packet);
        }
    }

    /// Records a packet that has arrived.
    pub(crate) fn record_received(
        &mut self,
        now: Time,
        datagram: Datagram,
        arrival: &Arrival,
        packet: &[u8],
    ) {
        if let Some(capture) = &mut self.capture {
            let &Arrival { traffic_class, hop_limit, .. } = arrival;
            let below = Below { datagram, traffic_class, hop_limit };
            capture.record(now, Direction::Inbound, &below, packet);
        }
    }

    /// Records what leaves in GSO batches.
    pub(crate) fn record_batches(&mut self, now: Time, batches: &Batches) {
        if self.capture.is_none() {
            return;
        }
        for batch in batches.all() {
            for (id, place) in batch.packets() {
                self.record_sent(now, &batch.flow, id, batches.bytes(place));
            }
        }
    }

    /// Writes down what was recorded.
    pub(crate) fn flush(&mut self) {
        if let Some(capture) = &mut self.capture
            && let Err(error) = capture.flush()
        {
            tracing::warn!(%error, "the record of packets ends here");
            self.capture = None;
        }
    }

    /// The process ends, and the record with it.
    pub(crate) fn finish(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.finish();
        }
    }

    /// Nothing is shown any more.
    pub(crate) fn leave(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.finish();
        }
        if let Some(publisher) = self.publisher.take() {
            publisher.remove();
        }
    }
}
