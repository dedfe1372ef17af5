//! What leaves: the engines are asked for a packet when the port is free.

use rdma::{Qpn, Time};
use transport::congestion::Telemetry;
use transport::{Route, Run, Segment};
use wire::opcode::{Operation, Service};

use super::{Departing, ENGINE_SHIFT, FIRST_QPN, Host, LocalEnd};
use crate::links::{EventKind, Links};
use crate::nic::{Contexts, NicConfig};
use crate::packet::Draft;

impl Host {
    /// Sends if the port is free; asks to be called again if not.
    pub(crate) fn kick(&mut self, links: &mut Links) {
        if self.stages.is_some() {
            self.prefetch(links);
        }
        let now = links.now();
        let at = links.port(self.port);
        if at.armed || !at.alive {
            return;
        }
        if at.free_at > now {
            links.arm(self.port);
        } else {
            self.send(links);
        }
    }

    /// The port is free: sends the next frame, if there is one.
    pub(crate) fn send(&mut self, links: &mut Links) {
        let at = links.port(self.port);
        if at.pending != 0 {
            links.send_pause(self.port);
            links.arm(self.port);
            return;
        }
        let paused = at.paused;
        if self.stages.is_some() {
            return self.send_staged(links, paused);
        }
        if self.ready_at > links.now() {
            return self.wake_when_ready(links);
        }
        // The segments of TCP have a turn like an engine, and so have the packets of programs outside.
        let engines = self.engines.len();
        let segments = usize::from(self.tcp.is_some());
        let count = engines + segments + usize::from(self.attached.is_some());
        let mut next = self.turn;
        for _ in 0..count {
            let index = if next < count { next } else { 0 };
            next = index + 1;
            if index >= engines {
                let is_segment = index < engines + segments;
                let packet = if is_segment {
                    self.take_segment(paused)
                } else {
                    self.take_frame(links, paused)
                };
                let Some(packet) = packet else { continue };
                self.turn = next;
                links.transmit(self.port, packet);
                links.arm(self.port);
                return;
            }
            if paused >> self.engines[index].priority & 1 != 0 {
                continue;
            }
            let packet = self.take(links, index);
            // It may have begun to wait for an acknowledgement, or for its pace.
            self.after(links, index);
            if let Some((packet, done)) = packet {
                self.turn = next;
                links.transmit(self.port, packet);
                links.arm(self.port);
                if let Some(qpn) = done {
                    self.departs(links, index, qpn);
                }
                return;
            }
        }
    }

    /// The doorbell, when an application posts: an idle NIC reads the work request from memory, then the data.
    pub(super) fn doorbell(&mut self, links: &Links) {
        if let Some(stages) = &mut self.stages {
            return stages.doorbell(links.now());
        }
        let Some(contexts) = &self.contexts else { return };
        let now = links.now();
        if self.ready_at <= now && links.at(self.port).free_at <= now {
            self.ready_at = now + 2 * contexts.config.pcie.read.as_ps();
        }
    }

    fn wake_when_ready(&mut self, links: &mut Links) {
        if !self.waking {
            self.waking = true;
            let delay = self.ready_at - links.now();
            links.schedule(delay, EventKind::Ready, self.port, 0);
        }
    }

    /// The time of an [`EventKind::Ready`] has come.
    pub(crate) fn awake(&mut self, now: u64) {
        self.waking = false;
        if let Some(stages) = &mut self.stages {
            stages.woken(now);
        }
    }

    /// The tuple of what a flow sends.
    pub(crate) fn tuple_of(&self, end: LocalEnd) -> Option<u32> {
        match end {
            LocalEnd::Pair(pair) => {
                let engine = &self.engines[pair.engine];
                Some(engine.pairs[engine.index_of(pair.qpn)].tuple)
            }
            LocalEnd::Tcp(connection) => self.tuple_of_connection(connection),
        }
    }

    /// A packet is leaving with which a message of an unreliable queue pair is done.
    #[cold]
    pub(super) fn departs(&mut self, links: &mut Links, engine: usize, qpn: Qpn) {
        self.settle(links.now());
        let at = links.at(self.port).free_at;
        self.departing = Some(Departing { at, engine, qpn });
        self.call_at(links, at);
    }

    /// What has left by now is done.
    pub(super) fn settle(&mut self, now: u64) {
        if let Some(Departing { at, engine, qpn }) = self.departing.take_if(|of| of.at <= now) {
            self.engines[engine].endpoint.departed(Time::from_ps(at), qpn);
        }
    }

    /// The next packet of an engine, and the queue pair of which a message is done by it; stages have it until it can leave.
    pub(super) fn take(&mut self, links: &mut Links, engine: usize) -> Option<(u32, Option<Qpn>)> {
        let at = &mut self.engines[engine];
        let now = links.now();
        let mut run = at.endpoint.poll_transmit(Time::from_ps(now), 1)?;
        let index = ((run.qpn().value() & ((1 << ENGINE_SHIFT) - 1)) - FIRST_QPN) as usize;
        let Route { source_port, traffic_class, hop_limit, destination, .. } = *run.route();
        let tenants = self.tenants.as_deref();
        let to_peer = tenants
            .and_then(|tenants| tenants.tuple_towards((engine, index), destination, source_port));
        let tuple = to_peer.unwrap_or(at.pairs[index].tuple);
        debug_assert_eq!(source_port, links.common.tuples[tuple as usize].source_port);
        self.ip_id = self.ip_id.wrapping_add(1);
        let priority = at.priority;
        let draft = Draft {
            header: run.header(),
            payload: run.payload().len(),
            tuple,
            traffic_class,
            ttl: hop_limit,
            ip_id: self.ip_id,
            pcp: self.config.tagged.then_some(priority),
        };
        links.created += 1;
        let packet = links.pool.roce(&draft);
        if self.config.congestion.needs_telemetry() {
            let is_open = Telemetry::is_for(run.header());
            let echo = run.take_telemetry();
            if let Some(telemetry) = if is_open { Some(Telemetry::new()) } else { echo } {
                links.pool.attach(packet, telemetry, is_open);
            }
        }
        let contexts = self.contexts.as_deref_mut();
        match &mut self.stages {
            None => self.ready_at = now + time_to_make(&self.config, contexts, &run),
            Some(stages) => {
                if let Some(tenants) = tenants.filter(|_| !run.payload().is_empty()) {
                    links.pool.carry(packet, |bytes| tenants.gather(run.payload(), bytes));
                }
                stages.begin(links, &self.config, contexts, (engine, packet), &run);
            }
        }
        let done = done_by(&run);
        run.sent();
        Some((packet, done))
    }
}

/// The queue pair of which a message is done when a packet has left: the last of one to which nothing is answered.
pub(super) fn done_by(run: &Run<'_>) -> Option<Qpn> {
    let facts = run.header().facts();
    let is_unreliable = matches!(facts.service, Service::Uc | Service::Ud);
    (is_unreliable && facts.part.ends()).then(|| run.qpn())
}

/// How long a NIC is busy with a packet before it can make the next, in picoseconds: with what it has
/// to look up, and meanwhile with its payload, which comes over the bus.
#[inline]
fn time_to_make(config: &NicConfig, contexts: Option<&mut Contexts>, run: &Run<'_>) -> u64 {
    let facts = run.header().facts();
    let asked = facts.part.begins()
        && (run.header().bth.opcode.is_request() || facts.operation == Operation::ReadResponse);
    let request = if asked { config.work_request.as_ps() } else { 0 };
    let processing = config.transmit.as_ps() + request;
    let Some(contexts) = contexts else { return processing };
    contexts.queue_pair(run.qpn().value());
    for segment in run.payload().segments() {
        if let Segment::Memory { address, length } = segment {
            contexts.memory(address, u64::from(length));
        }
    }
    (processing + contexts.waited()).max(contexts.transfer(run.payload().len()))
}
