//! The paths to other NICs: UDP, and for those of this host and user rings of shared memory; or all by a lab.
//!
//! ```text
//!   run ─► which path? ─┬─ UDP ──► GSO batches ─┬► outbox ─► kernel       room: credits
//!                       │                       └► outbox ─► lab          room: in the NIC of the host
//!                       └─ ring of the NIC there ─► its engine            room: in the ring
//! ```
//!
//! Packets to a NIC of this host go by UDP until it has taken a ring, and through the ring while that works.
//! At the change no packet overtakes another, and what lies in the receiver's sockets then is not lost. A
//! NIC of this host says how much room it has, by either path. Where there is none, sending to it pauses, for
//! [`PAUSE_MAX`] at most, or [`AWAITED_MAX`] for a ring, in which nothing is lost; to all others it goes on.
//!
//! **Invariant:** this is the only place that chooses between `udp/` and `shm/`, and that waits for room at the
//! ends of both.

use core::net::IpAddr;
use core::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rdma::{Gid, Time};
use transport::{Route, Run};
use wire::udp::ROCE_PORT;

use crate::attachment::membership::Membership;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::host::credits::Credits;
use crate::host::registry::Registry;
use crate::host::steering::is_ownable;
use crate::lab::Planned;
use crate::limits::{AWAITED_MAX, PAUSE_MAX};
use crate::packet::{Carrier, Flow, Missed, Path, Pushed};
use crate::shm::{RingPacket, Shm};
use crate::udp::outbox::Sockets;
use crate::udp::port::Port;
use crate::{Options, PathChoice, ProcessMemory};

/// Both paths, and what sending waits for.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Rings to and from NICs of this host.
    shm: Shm,
    /// Room at the sockets of NICs of this host.
    credits: Option<Credits>,
    /// Where all packets go, if that is a lab.
    lab: Option<Lab>,
    pauses: Vec<Pause>,
    /// Whether packets are built, sealed and looked at before they go into a ring.
    seals_rings: bool,
}

/// The port that leads to a lab, and what was built for it since packets were last sent.
#[derive(Debug)]
struct Lab {
    port: Arc<Port>,
    planned: Planned,
}

/// Nothing is sent to an address and slot, because the NIC there, of this host, has no room.
#[derive(Clone, Copy, Debug)]
struct Pause {
    destination: Gid,
    slot: u16,
    /// Of the packet that there was no more room behind.
    traffic_class: u8,
    since: Time,
}

/// Where the packets of one queue pair go. It is found for the first of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) flow: Flow,
    /// Whether it ends at a NIC of this host, which says how much room it has.
    is_local: bool,
    /// The source port of its route, if that counts: to other hosts.
    follows: Option<u16>,
    /// Whether the last packet of the GSO batches goes there too.
    pub(crate) is_last: bool,
}

impl Lane {
    /// Whether it may leave from another socket than that of its address.
    #[inline]
    pub(crate) fn departs(&self) -> bool {
        self.follows.is_some()
    }

    /// Whether packets of this route for this slot take the same path. A ring may have failed since.
    #[inline]
    pub(crate) fn is_for(&self, route: &Route, slot: u16) -> bool {
        let Flow { path, source, destination, traffic_class, hop_limit, .. } = self.flow;
        path == Path::Udp
            && self.flow.slot == slot
            && (source, destination) == (route.source, route.destination)
            && (traffic_class, hop_limit) == (route.traffic_class, route.hop_limit)
            && self.follows.is_none_or(|port| port == route.source_port)
    }
}

impl Paths {
    /// The paths of a NIC whose sockets are open. With `sees_packets`, somebody wants to see or change
    /// what goes through rings.
    pub(crate) fn open(membership: &Membership, options: &Options, sees_packets: bool) -> Self {
        let Membership { registry, .. } = membership;
        let addresses = membership.sockets.iter().map(|socket| socket.gid());
        if let Some(port) = membership.sockets.first().filter(|port| port.link().is_some()) {
            let lab = Some(Lab { port: Arc::clone(port), planned: Planned::default() });
            let (shm, credits, pauses, seals_rings) = (Shm::none(), None, Vec::new(), false);
            return Self { shm, credits, lab, pauses, seals_rings };
        }
        let credits = Credits::open(registry.slot(), membership.receive_buffer_bytes(), addresses)
            .inspect_err(|error| tracing::debug!(%error, "no pauses for others of this host"))
            .ok();
        let takes_rings = options.path != PathChoice::Udp && !options.exact;
        let shm = if takes_rings { Shm::open(registry) } else { Shm::none() };
        let seals_rings = options.path == PathChoice::SharedMemoryWithIcrc || sees_packets;
        Self { shm, credits, lab: None, pauses: Vec::new(), seals_rings }
    }

    /// What was built has been sent, and packets are about to be built.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if let Some(lab) = &mut self.lab {
            lab.planned = Planned::default();
        }
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
        if self.shm.reach_or_offer(&membership.registry, flow.destination, slot, now, counts) {
            flow.path = Path::Shm;
        }
        let follows = match flow.path {
            Path::Udp => membership.depart(&mut flow, route.source_port, now),
            Path::Shm => None,
        };
        let knows = |credits: &Credits| credits.knows(slot, flow.destination);
        let is_local = is_ownable(slot) && self.credits.as_ref().is_some_and(knows);
        Some(Lane { flow, is_local, follows, is_last: false })
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
            Path::Udp => match &mut self.lab {
                None => {
                    let credits = self.credits.as_mut().filter(|_| lane.is_local);
                    credits.is_some_and(|credits| credits.plan(slot, length))
                }
                Some(lab) => lab.is_filled_by(lane.flow.traffic_class, length),
            },
            Path::Shm => self.shm.is_filled(slot, counts),
        }
    }

    /// Sending to `slot` at `destination` waits for room from now on.
    pub(crate) fn pause(&mut self, destination: Gid, slot: u16, traffic_class: u8, now: Time) {
        if !self.is_paused_for(destination, slot) {
            self.pauses.push(Pause { destination, slot, traffic_class, since: now });
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
        let Self { shm, credits, pauses, lab, .. } = self;
        if let Some(lab) = lab {
            // However long that takes: it is what PFC does.
            return pauses.retain(|pause| lab.is_full(pause.traffic_class));
        }
        pauses.retain(|&Pause { slot, since, .. }| {
            let ring = shm.is_full(registry, slot, now);
            let socket = credits.as_ref().filter(|_| ring.is_none());
            let is_full = ring.unwrap_or_else(|| socket.is_some_and(|it| it.is_full(slot)));
            let most = if ring.is_some() { AWAITED_MAX } else { PAUSE_MAX };
            let is_over = now.since(since) >= most;
            if is_full && is_over {
                counts.tx_pauses_given_up += 1;
                match socket {
                    Some(credits) if registry.has_owner(slot) => credits.give_up(slot),
                    Some(credits) => credits.forget(slot, || registry.has_owner(slot)),
                    None => shm.give_up(slot),
                }
            }
            is_full && !is_over
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

    /// Some of `all` ports are about to be looked at; with the last of them, messages about rings are taken.
    pub(crate) fn before_sockets(
        &mut self,
        ports: &Range<usize>,
        all: usize,
        registry: &Registry,
        counts: &mut Counts,
    ) {
        if ports.end == all {
            self.shm.receive_messages(registry, counts);
        }
        if ports.len() == all {
            self.shm.before_all_sockets();
        }
        if let Some(credits) = &mut self.credits {
            credits.begin_look();
        }
    }

    /// A look at all ports is over, and has found every socket empty or not.
    pub(crate) fn after_all_sockets(&mut self, is_empty: bool) {
        self.shm.after_all_sockets(is_empty);
    }

    /// Who brings most packets.
    #[inline]
    pub(crate) fn carrier(&self) -> Carrier {
        match self.lab {
            Some(_) => Carrier::Lab,
            None if self.has_rings() => Carrier::Sender,
            None => Carrier::Kernel,
        }
    }

    /// Whether rings are read.
    #[inline]
    pub(crate) fn has_rings(&self) -> bool {
        self.shm.has_sources()
    }

    /// Whether there is something in a ring that is read.
    #[inline]
    pub(crate) fn has_packets(&self) -> bool {
        self.shm.has_packets()
    }

    /// Whether something lies in a ring that is not read before all sockets have been looked at.
    #[inline]
    pub(crate) fn awaits_sockets(&self) -> bool {
        self.shm.awaits_sockets()
    }

    /// Has `handle` see what lies in rings: [`Shm::receive`].
    pub(crate) fn receive_from_rings(
        &mut self,
        place: (&mut [u8], usize),
        registry: &Registry,
        is_ours: impl Fn(IpAddr) -> bool,
        engine: &mut Engine<'_>,
        handle: impl FnMut(&RingPacket<'_>, &mut Engine<'_>),
    ) {
        self.shm.receive(place, registry, is_ours, engine, handle);
    }

    /// Whether the NIC with `slot` sends packets between these addresses through a ring, and none by UDP.
    pub(crate) fn has_ring_between(
        &mut self,
        registry: &Registry,
        addresses: (Gid, Gid),
        slot: u16,
        now: Time,
    ) -> bool {
        self.shm.sends_between(registry, addresses, slot, now)
    }

    /// What becomes readable when something is in a ring for a NIC that sleeps.
    pub(crate) fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.shm.doorbell()
    }

    /// Whoever watches goes to sleep, or has woken up. Returns whether there is something in a ring
    /// already.
    pub(crate) fn set_asleep(&mut self, asleep: bool) -> bool {
        match self.lab.as_ref().and_then(|lab| lab.port.link()) {
            Some(link) => link.set_asleep(asleep),
            None => self.shm.set_asleep(asleep),
        }
    }

    /// Whether something from this host may come to our sockets, for which credits are due.
    #[inline]
    pub(crate) fn expects_packets(&self) -> bool {
        self.credits.as_ref().is_some_and(Credits::expects_packets)
    }

    /// Packets have arrived by UDP.
    #[inline]
    pub(crate) fn arrived(&self, packets: usize, bytes: usize) {
        if let Some(credits) = &self.credits {
            credits.return_for(packets, bytes);
        }
    }

    /// These of all `sockets` of addresses are empty.
    pub(crate) fn found_empty(&mut self, empty: Range<usize>, sockets: usize) {
        if let Some(credits) = &mut self.credits {
            credits.found_empty(empty, sockets);
        }
    }

    /// All has been built for now: those who receive it are told.
    pub(crate) fn tell_receivers(&mut self, registry: &Registry, counts: &mut Counts) {
        self.send_credits();
        self.shm.ring_doorbells(registry, counts);
    }

    /// Looks whether NICs with rings have died.
    pub(crate) fn bury_the_dead(&mut self, registry: &Registry) {
        self.shm.bury_the_dead(registry);
    }

    /// Whether a NIC may still take what lies in its ring.
    pub(crate) fn is_untaken(&mut self, registry: &Registry) -> bool {
        self.shm.is_untaken(registry)
    }

    /// Tells those who send through rings that nobody will look any more.
    pub(crate) fn refuse(&self) {
        self.shm.leave();
    }

    /// The process ends, and nobody is to wait for us.
    pub(crate) fn retire(&self) {
        if let Some(credits) = &self.credits {
            credits.retire();
        }
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
        self.lab = None;
        self.shm = Shm::none();
        self.pauses.clear();
    }
}

impl Lab {
    /// Counts a packet of `length` bytes that was built; see [`Paths::is_filled_by`].
    fn is_filled_by(&mut self, traffic_class: u8, length: usize) -> bool {
        let Some(link) = self.port.link() else { return false };
        let priority = link.priority_of(traffic_class);
        self.planned[usize::from(priority)] += length as u64;
        link.is_full(priority, &self.planned)
    }

    /// Whether the NIC of the host has no room for a packet of the class.
    fn is_full(&self, traffic_class: u8) -> bool {
        let link = self.port.link();
        link.is_some_and(|link| link.is_full(link.priority_of(traffic_class), &Planned::default()))
    }
}

/// Where packets of this route for this slot go by UDP, as all of connection management does, from port 4791. `None`
/// if no socket has their source address.
pub(crate) fn udp_flow(membership: &Membership, route: &Route, slot: u16) -> Option<Flow> {
    let &Route { source, destination, traffic_class, hop_limit, .. } = route;
    let port = membership.port_of(source, destination)?;
    let path = Path::Udp;
    let source_port = ROCE_PORT;
    Some(Flow { path, port, source, destination, source_port, slot, traffic_class, hop_limit })
}

#[cfg(test)]
impl Paths {
    pub(crate) fn shm(&mut self) -> &mut Shm {
        &mut self.shm
    }

    pub(crate) fn credits(&mut self) -> &mut Credits {
        self.credits.as_mut().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::fork::Forks;
    use crate::limits::SLOTS;
    use crate::testing::open;

    /// Whether packets from the NIC to a slot at an address count against the room there.
    fn is_local(nic: &crate::Nic, destination: [u8; 4], slot: u16) -> bool {
        let mut core = nic.shared().lock();
        let (attachment, engine) = core.parts(clock::now());
        let site = &mut attachment.site;
        let (own, destination) =
            (site.membership.sockets[0].gid(), IpAddr::from(destination).into());
        let route = Route { source_port: ROCE_PORT, ..Route::between(own, destination) };
        let lane = site.paths.lane(&mut site.membership, &route, slot, engine.now, engine.counts);
        lane.unwrap().is_local
    }

    fn slot(nic: &crate::Nic) -> u16 {
        nic.shared().lock().attachment.site.membership.registry.slot()
    }

    #[test]
    fn the_same_slot_of_another_user_is_at_another_address_and_gives_no_credits() {
        let (nic, other) = (open("127.0.135.11"), open("127.0.135.12"));
        let slot = slot(&other);
        assert!(is_local(&nic, [127, 0, 135, 12], slot));
        assert!(!is_local(&nic, [127, 0, 135, 13], slot));
    }

    #[test]
    fn nobody_waits_for_a_process_that_ends() {
        let (nic, other) = (open("127.0.135.14"), open("127.0.135.15"));
        let slot = slot(&other);
        let is_filled = || {
            let mut core = nic.shared().lock();
            let credits = core.attachment.site.paths.credits();
            let is_filled = credits.plan(slot, 1 << 30);
            credits.send();
            is_filled
        };
        assert!(is_filled());
        other.shared().exit();
        assert!(!is_filled());
    }

    #[test]
    fn one_that_was_killed_is_waited_for_once() {
        let nic = open("127.0.135.16");
        let mut core = nic.shared().lock();
        let (attachment, engine) = core.parts(clock::now());
        let site = &mut attachment.site;
        let (registry, paths) = (&site.membership.registry, &mut site.paths);
        let slot = (0..SLOTS).find(|slot| is_ownable(*slot) && !registry.has_owner(*slot)).unwrap();
        let address: Gid = IpAddr::from([127, 0, 135, 17]).into();
        core::mem::forget(Credits::open(slot, 1 << 20, [address].into_iter()).unwrap());
        assert!(paths.credits().plan(slot, 1 << 30));
        paths.pause(address, slot, 0, engine.now);
        paths.end_pauses(registry, engine.now, engine.counts);
        assert!(paths.is_paused());
        paths.end_pauses(registry, engine.now + PAUSE_MAX, engine.counts);
        assert!(!paths.is_paused() && !paths.credits().plan(slot, 1 << 30));
    }
}
