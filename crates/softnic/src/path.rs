//! The paths to other NICs: UDP, and for those of this host and user rings of shared memory.
//!
//! ```text
//!   run ─► which path? ─┬─ UDP ──► GSO batches ─► outbox ─► kernel       room: credits
//!                       └─ ring of the NIC there ─► its engine           room: in the ring
//! ```
//!
//! Packets to a NIC of this host go by UDP until it has taken a ring, and through the ring while that works.
//! At the change no packet overtakes another, and what lies in the receiver's sockets then is not lost. A
//! NIC of this host says how much room it has, by either path. Where there is none, sending to it pauses, for
//! [`PAUSE_MAX`] at most, or [`AWAITED_MAX`] for a ring, in which nothing is lost; to all others it goes on.
//!
//! **Invariant:** only this module chooses between sockets and rings, and waits for room at the ends of both.

use rdma::{Gid, Time};
use transport::{Route, Run};

use crate::attachment::membership::Membership;
use crate::counts::Counts;
use crate::host::credits::Credits;
use crate::host::registry::Registry;
use crate::host::steering::is_ownable;
use crate::limits::{AWAITED_MAX, PAUSE_MAX};
use crate::packet::{Flow, Missed, Path, Pushed};
use crate::shm::Shm;
use crate::udp::outbox::Sockets;
use crate::{Link, Options, ProcessMemory};

/// Both paths, and what sending waits for.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Rings to and from NICs of this host. What concerns them alone is asked of them.
    pub(crate) shm: Shm,
    /// Room at the sockets of NICs of this host.
    credits: Option<Credits>,
    pauses: Vec<Pause>,
    /// Whether packets are built, sealed and looked at before they go into a ring.
    seals_rings: bool,
}

/// Nothing is sent to an address and slot, because the NIC there, of this host, has no room.
#[derive(Clone, Copy, Debug)]
struct Pause {
    destination: Gid,
    slot: u16,
    since: Time,
}

/// Where the packets of one queue pair go. It is found for the first of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) flow: Flow,
    /// Whether it ends at a NIC of this host, which says how much room it has.
    is_local: bool,
    /// Whether the last packet of the GSO batches goes there too.
    pub(crate) is_last: bool,
}

impl Lane {
    /// Whether packets of this route for this slot go the same way. A ring may have failed since.
    #[inline]
    pub(crate) fn is_for(&self, route: &Route, slot: u16) -> bool {
        let Flow { path, source, destination, traffic_class, hop_limit, .. } = self.flow;
        path == Path::Udp
            && self.flow.slot == slot
            && (source, destination) == (route.source, route.destination)
            && (traffic_class, hop_limit) == (route.traffic_class, route.hop_limit)
    }
}

impl Paths {
    /// The paths of a NIC whose sockets are open. With `sees_packets`, somebody wants to see or change
    /// what goes through rings.
    pub(crate) fn open(membership: &Membership, options: &Options, sees_packets: bool) -> Self {
        let Membership { registry, .. } = membership;
        let credits = Credits::open(registry.slot(), membership.receive_buffer_bytes())
            .inspect_err(|error| tracing::debug!(%error, "no pauses for others of this host"))
            .ok();
        let takes_rings = options.link != Link::Udp && !options.exact;
        let shm = if takes_rings { Shm::open(registry) } else { Shm::none() };
        let seals_rings = options.link == Link::SharedMemoryWithIcrc || sees_packets;
        Self { shm, credits, pauses: Vec::new(), seals_rings }
    }

    /// Where packets of this route for this slot go, if they can be sent at all.
    pub(crate) fn lane(
        &mut self,
        membership: &mut Membership,
        route: &Route,
        slot: u16,
        now: Time,
        counts: &mut Counts,
    ) -> Option<Lane> {
        let mut flow = udp_flow(membership, route, slot)?;
        if self.shm.reaches(&membership.registry, flow.destination, slot, now, counts) {
            flow.path = Path::Shm;
        }
        let is_local = is_ownable(slot) && membership.is_of_this_host(flow.destination.ip(), now);
        Some(Lane { flow, is_local, is_last: false })
    }

    /// Writes packets to the ring that they go through, from where their payload lies. `None` if they
    /// are to be built first.
    pub(crate) fn write_run(
        &mut self,
        flow: &Flow,
        run: &Run<'_>,
        memory: &ProcessMemory,
        counts: &mut Counts,
    ) -> Option<Pushed> {
        if flow.path == Path::Udp || self.seals_rings {
            return None;
        }
        let pushed = self.shm.write(flow, run, memory, counts);
        Some(Pushed { is_full: self.shm.is_filled(flow.slot, counts), ..pushed })
    }

    /// Pushes one packet, with its ICRC.
    pub(crate) fn push(
        &mut self,
        flow: &Flow,
        packet: &[u8],
        sockets: &mut Sockets,
        counts: &mut Counts,
    ) {
        if flow.path == Path::Udp {
            self.send_credits();
            sockets.send_packet(flow, packet);
        } else {
            self.shm.push(flow, packet, counts);
        }
    }

    /// Counts a packet that has been built or pushed against the room at its destination. Returns
    /// whether it was the last that fits.
    #[inline]
    pub(crate) fn is_filled_by(&mut self, lane: &Lane, length: usize, counts: &mut Counts) -> bool {
        let Flow { path, slot, .. } = lane.flow;
        match path {
            Path::Udp => {
                lane.is_local
                    && self.credits.as_mut().is_some_and(|credits| credits.plan(slot, length))
            }
            Path::Shm => self.shm.is_filled(slot, counts),
        }
    }

    /// Sending to `slot` at `destination` waits for room from now on.
    pub(crate) fn pause(&mut self, destination: Gid, slot: u16, now: Time) {
        if !self.is_paused_for(destination, slot) {
            self.pauses.push(Pause { destination, slot, since: now });
        }
    }

    /// Whether sending to `slot` at `destination` waits for room.
    pub(crate) fn is_paused_for(&self, destination: Gid, slot: u16) -> bool {
        let is_it = |pause: &Pause| (pause.destination, pause.slot) == (destination, slot);
        self.pauses.iter().any(is_it)
    }

    /// Ends the pauses of those who have room again. One that lasts for too long ends too, and what there
    /// is no room for is dropped.
    pub(crate) fn end_pauses(&mut self, registry: &Registry, now: Time, counts: &mut Counts) {
        let Self { shm, credits, pauses, .. } = self;
        pauses.retain(|&Pause { slot, since, .. }| {
            let ring = shm.is_full(registry, slot, now);
            let socket = || credits.as_ref().is_some_and(|credits| credits.is_full(slot));
            if !ring.unwrap_or_else(socket) {
                return false;
            }
            let most = if ring.is_some() { AWAITED_MAX } else { PAUSE_MAX };
            if now.since(since) < most {
                return true;
            }
            counts.tx_pauses_given_up += 1;
            match credits {
                _ if ring.is_some() => shm.give_up(slot),
                Some(credits) => credits.give_up(slot),
                None => {}
            }
            false
        });
    }

    /// Whether sending to anybody waited for room when it was last tried.
    pub(crate) fn is_paused(&self) -> bool {
        !self.pauses.is_empty()
    }

    /// What has been built is about to be sent by UDP.
    fn send_credits(&mut self) {
        if let Some(credits) = &mut self.credits {
            credits.send();
        }
    }

    /// Whether what is `missed` at `now` may still be where a NIC of this host will find it. By UDP that is
    /// known of those to whom a ring is offered.
    pub(crate) fn may_still_lie(&mut self, registry: &Registry, missed: Missed, now: Time) -> bool {
        let Self { shm, credits, .. } = self;
        let is_in_sockets =
            |slot| credits.as_ref().is_some_and(|credits| credits.on_the_way(slot) > 0);
        shm.may_still_lie(registry, missed, now, is_in_sockets)
    }

    /// What NICs of this host have sent to our sockets up to now, to be written off if it is not there
    /// ([`Paths::write_off`]).
    #[inline]
    pub(crate) fn sent_to_us(&self) -> Option<u64> {
        self.credits.as_ref().map(Credits::sent_to_us)
    }

    /// Packets have arrived by UDP.
    #[inline]
    pub(crate) fn arrived(&self, packets: usize, bytes: usize) {
        if let Some(credits) = &self.credits {
            credits.return_for(packets, bytes);
        }
    }

    /// A socket is empty: what was `sent` before we looked has arrived, or never will.
    pub(crate) fn write_off(&self, sent: Option<u64>) {
        if let (Some(credits), Some(sent)) = (&self.credits, sent) {
            credits.write_off(sent);
        }
    }

    /// All has been built for now: those who receive it are told.
    pub(crate) fn tell_receivers(&mut self, registry: &Registry, counts: &mut Counts) {
        self.send_credits();
        self.shm.ring_doorbells(registry, counts);
    }

    /// Nothing comes or goes any more, and all who might wait for us are told.
    pub(crate) fn leave(&mut self) {
        self.shm.leave();
        self.credits = None;
        self.forget();
    }

    /// In a forked child: nothing comes or goes any more. Nobody is told, because the parent's NIC lives.
    pub(crate) fn forget(&mut self) {
        core::mem::forget(self.credits.take());
        self.shm = Shm::none();
        self.pauses.clear();
    }
}

/// Where packets of this route for this slot go by UDP, as all of connection management does. `None` if
/// no socket has their source address.
pub(crate) fn udp_flow(membership: &Membership, route: &Route, slot: u16) -> Option<Flow> {
    let &Route { source, destination, traffic_class, hop_limit, .. } = route;
    let port = membership.port_of(source, destination)?;
    let path = Path::Udp;
    Some(Flow { path, port, source, destination, slot, traffic_class, hop_limit })
}

#[cfg(test)]
impl Paths {
    pub(crate) fn credits(&mut self) -> &mut Credits {
        self.credits.as_mut().unwrap()
    }
}
