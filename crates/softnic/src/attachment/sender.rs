//! From the engine to the paths.
//!
//! ```text
//!   manager ─ messages ─┐
//!   engine ─ runs ──────┴► which path? ─┬─ a ring, which nobody looks into ──────────► written there
//!                                       └─ else: built ─► faults ─► record ─┬► GSO batches ─► outbox
//!                                                                           └► pushed one by one
//! ```
//!
//! Packets come in runs, and a run has one path ([`crate::path`]). Those that there is room for at its end
//! are built where they leave from; the engine keeps the others. With a record, faults or ICRCs, packets
//! for rings are built like those for sockets.
//!
//! **Invariants:** all of it happens under the engine's lock and with the outbox in its place: it is away
//! while a thread sends, and only then. Where one destination of this host has no room, no queue pair sends
//! to it, and the others go on; messages of connection management leave all the same.

use std::sync::Arc;

use rdma::{Gid, Qpn, Time};
use transport::Run;
use transport::cm::Manager;
use wire::roce::ICRC_LEN;

use crate::Options;
use crate::ProcessMemory;
use crate::attachment::site::Site;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::faults::Faults;
use crate::host::steering::slot_of;
use crate::limits::GSO_SEGMENTS_MAX;
use crate::management::Built;
use crate::packet::{Flow, Pushed, write_packet};
use crate::path::Lane;
use crate::udp::gso::Batches;
use crate::udp::outbox::Outbox;
use crate::udp::port::Port;

/// The sending half of an attachment.
#[derive(Debug)]
pub(crate) struct Sender {
    /// `None` while a thread sends what is in it, without the lock.
    pub(crate) outbox: Option<Box<Outbox>>,
    /// Whether there may be something to send: it was left to the thread that has the outbox, or not
    /// begun because of a claim.
    is_left_behind: bool,
    /// Threads that wait for the outbox to be back. Nobody else takes it then.
    pub(crate) claims: u32,
    faults: Option<Faults>,
}

impl Sender {
    pub(crate) fn new(options: &Options, sockets: &[Arc<Port>]) -> Self {
        let faults = options.faults.clone().map(Faults::new);
        // Faults are for single packets.
        let is_singly = options.exact || faults.is_some();
        let batches = Batches::new(if is_singly { 1 } else { GSO_SEGMENTS_MAX });
        let outbox = Some(Box::new(Outbox::new(batches, sockets.to_vec())));
        Self { outbox, is_left_behind: false, claims: 0, faults }
    }

    /// Whether nobody is sending.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.outbox.is_some()
    }

    /// Whether there may be something to send that nobody is about to.
    #[inline]
    pub(crate) fn is_left_behind(&self) -> bool {
        self.is_left_behind && self.claims == 0 && self.is_whole()
    }

    /// Whether all that was given to it has left.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_left_behind && self.faults.is_none()
    }

    /// When a packet that was held back is to leave.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.faults.as_ref().and_then(Faults::deadline)
    }

    /// Sends nothing any more, and lets go of the sockets.
    pub(crate) fn end(&mut self) {
        if let Some(outbox) = &mut self.outbox {
            outbox.close();
        }
        (self.is_left_behind, self.faults) = (false, None);
    }

    /// Builds what the engine and the connection manager have ready, and pushes what goes by rings. If
    /// there is something for the kernel, the outbox leaves with it: it is to be sent without the lock,
    /// and to come back by [`Sender::unload`].
    ///
    /// While it is away, work is left behind for whoever has it.
    pub(crate) fn load(&mut self, site: &mut Site, engine: &mut Engine<'_>) -> Option<Box<Outbox>> {
        self.is_left_behind = self.claims > 0 || self.outbox.is_none();
        if self.is_left_behind {
            return None;
        }
        let mut outbox = self.outbox.take()?;
        site.paths.begin();
        let Engine { now, endpoint, manager, memory, counts } = engine;
        let now = *now;
        let mut stages = Stages { now, faults: &mut self.faults, outbox: &mut outbox, site };
        // They go by UDP, and a peer that waits for the end of a conversation does not wait for room in
        // a ring.
        stages.build_messages(manager, counts);
        let Site { membership, paths, .. } = &mut *stages.site;
        if paths.is_paused() {
            paths.end_pauses(&membership.registry, now, counts);
            endpoint.resume();
        }
        let is_full = stages.build_runs(endpoint, memory, counts);
        stages.end(counts);
        if outbox.batches.all().is_empty() {
            self.outbox = Some(outbox);
            return None;
        }
        outbox.is_full = is_full;
        Some(outbox)
    }

    /// Takes the outbox back. Returns whether there was more than it could hold.
    pub(crate) fn unload(&mut self, mut outbox: Box<Outbox>, counts: &mut Counts) -> bool {
        outbox.unload(counts);
        let is_full = outbox.is_full;
        self.outbox = Some(outbox);
        is_full
    }
}

/// What a packet passes before its path.
struct Stages<'a> {
    now: Time,
    faults: &'a mut Option<Faults>,
    outbox: &'a mut Outbox,
    site: &'a mut Site,
}

impl Stages<'_> {
    fn build_messages(&mut self, manager: &mut Manager, counts: &mut Counts) {
        while self.outbox.batches.has_room() {
            let Site { management, membership, .. } = &mut *self.site;
            let room = self.outbox.batches.room();
            let Some(built) = management.build(manager, membership, room, counts) else { break };
            let Built { flow, length } = built;
            self.pass(&flow, false, usize::MAX, length, counts);
        }
    }

    /// Builds packets until the engine has no more, or the arena is full. What there is no room for at
    /// its destination is put back.
    fn build_runs(
        &mut self,
        endpoint: &mut transport::Endpoint,
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) -> bool {
        // What one queue pair sends takes the same path, packet by packet.
        let mut lane: Option<Lane> = None;
        loop {
            let most = self.outbox.batches.packets_left();
            if most == 0 {
                return true;
            }
            let paths = &self.site.paths;
            let is_full = |gid, qpn: Qpn| paths.is_paused_for(gid, slot_of(qpn.value()));
            let is_full: Option<&dyn Fn(Gid, Qpn) -> bool> =
                if paths.is_paused() { Some(&is_full) } else { None };
            let Some(run) = endpoint.poll_transmit_but(self.now, most, is_full) else {
                if tracing::enabled!(tracing::Level::TRACE) {
                    for (qpn, why) in endpoint.blocked() {
                        tracing::trace!(%qpn, %why, "blocked");
                    }
                }
                return false;
            };
            let Site { membership, paths, .. } = &mut *self.site;
            let slot = slot_of(run.header().bth.destination.value());
            let destination = run.route().destination;
            if !lane.as_ref().is_some_and(|lane| lane.is_for(run.route(), slot)) {
                lane = paths.lane(membership, run.route(), slot, self.now, counts);
                if lane.as_ref().is_some_and(Lane::departs) {
                    let departures = membership.departures.sockets();
                    self.outbox.sockets.follow(membership.sockets.len(), departures);
                }
            }
            let Some(lane) = &mut lane else {
                counts.tx_no_source += u64::from(run.count());
                run.sent();
                continue;
            };
            let written = paths.write_run(&lane.flow, &run, memory, counts);
            let Pushed { packets, is_faulted, is_full } = match written {
                Some(written) => written,
                None => self.build_run(lane, &run, memory, counts),
            };
            tracing::trace!(header = %run.header(), packets, is_faulted, "sent");
            if is_faulted {
                counts.tx_faulted += 1;
                run.faulted(packets - 1);
            } else {
                run.sent_only(packets);
            }
            if is_full {
                let class = lane.flow.traffic_class;
                self.site.paths.pause(destination, slot, class, self.now);
                counts.tx_pauses += 1;
            }
        }
    }

    /// Builds the packets of a run, as long as there is room for them at their destination.
    fn build_run(
        &mut self,
        lane: &mut Lane,
        run: &Run<'_>,
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        let most = run.train_packets() as usize;
        for (psn, payload) in run.packets() {
            pushed.packets += 1;
            let room = self.outbox.batches.room();
            let Ok(length) = write_packet(room, run.header(), psn, payload, memory) else {
                pushed.is_faulted = true;
                break;
            };
            let is_behind = core::mem::replace(&mut lane.is_last, true);
            self.pass(&lane.flow, is_behind, most, length, counts);
            if self.site.paths.is_filled_by(lane, length + ICRC_LEN, counts) {
                pushed.is_full = true;
                break;
            }
        }
        pushed
    }

    /// Passes on the packet of `length` bytes that was built. `is_behind` says that the one before it
    /// has the same flow, and `most` how many may travel as one.
    #[inline]
    fn pass(
        &mut self,
        flow: &Flow,
        is_behind: bool,
        most: usize,
        length: usize,
        counts: &mut Counts,
    ) {
        if self.faults.is_some() || !flow.is_batched() {
            self.pass_singly(flow, length, counts);
        } else if is_behind {
            self.outbox.batches.add_behind(length, most);
        } else {
            self.outbox.batches.add(flow, length, most);
        }
    }

    fn pass_singly(&mut self, flow: &Flow, length: usize, counts: &mut Counts) {
        let Self { now, faults, outbox, site, .. } = self;
        let Site { paths, observers, .. } = &mut **site;
        let Outbox { batches, sockets, .. } = &mut **outbox;
        let packet = &mut batches.room()[..length + ICRC_LEN];
        flow.seal(packet);
        let mut leave = |flow: &Flow, packet: &[u8], counts: &mut Counts| {
            observers.record_sent(*now, flow, 0, packet);
            paths.push(flow, packet, sockets, counts);
        };
        match faults {
            Some(faults) => faults.pass(*now, *flow, packet, counts, leave),
            None => leave(flow, packet, counts),
        }
    }

    /// All has been built for now.
    fn end(&mut self, counts: &mut Counts) {
        let Self { now, faults, outbox, site } = self;
        let Site { membership, paths, observers, .. } = &mut **site;
        if let Some(faults) = faults {
            for held in faults.after_time(*now) {
                observers.record_sent(*now, &held.flow, 0, &held.packet);
                paths.push(&held.flow, &held.packet, &mut outbox.sockets, counts);
            }
            outbox.unload(counts);
        }
        observers.record_batches(*now, &outbox.batches);
        paths.tell_receivers(&membership.registry, counts);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{ask, open, paused_for, sent};

    #[test]
    fn a_message_of_connection_management_does_not_wait_for_room_that_others_wait_for() {
        let (nic, full) = (open("127.0.135.3"), open("127.0.135.4"));
        paused_for(&nic, &full);
        ask(&nic);
        assert_eq!(sent(&nic), 1);
        assert!(nic.shared().lock().is_paused());
    }
}
