//! The transport engine, borrowed to send, to receive or to run timers; and where its events go.

use rdma::Time;
use transport::cm::{CmEvent, Manager};
use transport::{Arrival, Endpoint, Event};
use wire::roce;

use crate::counts::Counts;
use crate::{Arrived, ProcessMemory};

/// Where the events of a [`Nic`](crate::Nic) go.
pub trait EventSink: Send + Sync {
    /// An event of the engine. Called with the engine's lock held: it must not call the `Nic`, and
    /// must not fork.
    fn event(&self, event: Event);

    /// An event of the connection manager. Called as [`EventSink::event`] is. Who makes no
    /// connections need not hear of any.
    fn connection(&self, event: CmEvent) {
        drop(event);
    }
}

/// Transport and connection management, with what they are driven by.
pub(crate) struct Engine<'a> {
    pub(crate) now: Time,
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) manager: &'a mut Manager,
    pub(crate) memory: &'a mut ProcessMemory,
    pub(crate) counts: &'a mut Counts,
}

impl Engine<'_> {
    /// Has the transport handle a packet.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        arrival: &Arrival,
        header: &roce::Repr,
        payload: Arrived<'_>,
        length: usize,
    ) {
        let Self { now, endpoint, memory, .. } = self;
        // The engine has counted it, if it was of no use.
        if let Err(cause) = endpoint.handle(*now, arrival, header, payload, length, *memory) {
            tracing::debug!(%header, ?cause, "dropped");
        }
    }
}
