//! The inbox: datagrams are received into it while other threads use the engine.
//!
//! ```text
//!   recvmsg ──► inbox ┐                                      without the engine's lock
//!                     └──► engine ──► what is to be sent     under it
//! ```
//!
//! One thread looks for all, and has the inbox meanwhile. Rings are memory, and are read under the engine's
//! lock ([`crate::path`]).
//!
//! **Invariant:** what a look finds is given to the engine before the inbox is given back, so packets are
//! handled in the order in which the sockets gave them out.

use core::net::IpAddr;
use core::ops::Range;
use std::sync::Arc;

use crate::attachment::membership::Membership;
use crate::host::handover::{self, Entrance, Handover};
use crate::limits::RECEIVE_BATCH;
use crate::packet::{InBuffer, Received};
use crate::udp::port::Port;

/// Where packets arrive, and by what.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// As in [`Membership`]: those of the addresses come first.
    sockets: Vec<Arc<Port>>,
    /// How many are of addresses.
    addresses: usize,
    handover: Option<Entrance>,
    /// Which [`Membership::layout`] that is.
    layout: Option<u32>,
    buffer: Box<[u8]>,
}

/// A look at some ports, one after the other. The last of all ports is what other NICs hand over.
#[derive(Debug)]
pub(crate) struct Look {
    port: usize,
    end: usize,
    /// How often something was found at this port.
    batch: usize,
    /// Which sockets of addresses were found empty, and it was not yet said: one after the other.
    empty: Range<usize>,
    /// How many sockets of addresses were found empty.
    pub(crate) emptied: usize,
    /// Whether it goes to all ports.
    pub(crate) is_whole: bool,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) received: Received,
    pub(crate) destination: IpAddr,
    pub(crate) by: By,
    pub(crate) bytes: &'a [u8],
}

/// How something came here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// To an address, at this port.
    Address(usize),
    /// To a multicast group, at this port.
    Group(usize),
    /// By another NIC.
    Handover,
}

impl Look {
    /// At `ports`, which may be all.
    pub(crate) fn new(ports: Range<usize>, is_whole: bool) -> Self {
        let Range { start: port, end } = ports;
        Self { port, end, batch: 0, empty: 0..0, emptied: 0, is_whole }
    }

    /// Enough of this port.
    pub(crate) fn go_on(&mut self) {
        self.port += 1;
        self.batch = 0;
    }

    /// Which sockets of addresses have been found empty since this was last asked.
    pub(crate) fn newly_empty(&mut self) -> Range<usize> {
        core::mem::take(&mut self.empty)
    }

    /// Whether all ports have been looked at.
    pub(crate) fn is_over(&self) -> bool {
        self.port >= self.end
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let buffer = vec![0; handover::MESSAGE_MAX].into_boxed_slice();
        Self { sockets: Vec::new(), addresses: 0, handover: None, layout: None, buffer }
    }

    /// Has the sockets of `membership` from now on.
    pub(crate) fn renew(&mut self, membership: &Membership) {
        if self.layout != Some(membership.layout) {
            self.layout = Some(membership.layout);
            self.sockets.clear();
            self.sockets.extend(membership.all_sockets().cloned());
            self.addresses = membership.sockets.len();
            self.handover = membership.handover.as_ref().map(Handover::entrance);
        }
    }

    /// Lets go of the sockets, which are to be closed.
    pub(crate) fn forget(&mut self) {
        self.sockets.clear();
        self.handover = None;
        self.layout = None;
    }

    /// What comes next, if anything does.
    pub(crate) fn next(&mut self, look: &mut Look) -> Option<Found<'_>> {
        let Self { sockets, addresses, handover, buffer, .. } = self;
        while !look.is_over() {
            let port = look.port;
            let is_address = port < *addresses;
            let mut found = None;
            if look.batch < RECEIVE_BATCH {
                found = match (sockets.get(port), &*handover) {
                    (Some(socket), _) => socket.receive(buffer),
                    (None, Some(entrance)) => entrance.receive(buffer),
                    (None, None) => None,
                };
                if is_address && found.is_none() {
                    let first = if look.empty.is_empty() { port } else { look.empty.start };
                    look.empty = first..port + 1;
                    look.emptied += 1;
                }
            }
            if let Some(InBuffer { received, destination, place }) = found {
                look.batch += 1;
                let by = match port {
                    _ if is_address => By::Address(port),
                    _ if port < sockets.len() => By::Group(port),
                    _ => By::Handover,
                };
                return Some(Found { received, destination, by, bytes: &buffer[place] });
            }
            look.go_on();
        }
        None
    }
}
