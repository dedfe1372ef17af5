//! What arrives: from the link to the receive buffer, and from there to the engines.

use rdma::{Gid, Time};
use transport::{Arrival, Drop as Refused};
use wire::opcode::Operation;
use wire::roce;

use super::{ENGINE_SHIFT, Host};
use crate::address::address_of;
use crate::counters::Drop;
use crate::links::{EventKind, Links};
use crate::memory::Lengths;
use crate::packet::Kind;
use crate::paranoid;
use crate::workload::Flows;

/// Whether a packet says what has arrived, and nothing else.
fn is_acknowledgement(header: &roce::Repr) -> bool {
    matches!(header.facts().operation, Operation::Acknowledge | Operation::SelectiveAcknowledge)
}

impl Host {
    /// A packet has come out of the link.
    pub(crate) fn receive(&mut self, links: &mut Links, flows: &mut Flows, packet: u32) {
        let of = links.pool.get(packet);
        if links.common.tuples[of.tuple as usize].destination != self.index {
            return links.drop_packet(packet, Drop::NotForMe);
        }
        if of.pcp().is_some() && !self.config.tagged {
            return links.drop_packet(packet, Drop::Tagged);
        }
        let bytes = u32::from(of.bytes);
        // The ICRC of a program's packet is for the program to check.
        if of.is_corrupt() && !of.is_whole() {
            return links.drop_packet(packet, Drop::Icrc);
        }
        if of.is_whole() {
            return self.keep_frame(links, packet);
        }
        let buffer = &mut self.buffer;
        if self.config.receive == rdma::Span::ZERO && self.contexts.is_none() && !buffer.stuck {
            self.deliver(links, flows, packet);
            return;
        }
        if buffer.bytes + bytes > self.config.receive_buffer_bytes {
            return links.drop_packet(packet, Drop::ReceiveBuffer);
        }
        buffer.packets.push_back(packet);
        self.fill(links, bytes);
        self.take_next(links);
    }

    /// So many bytes more are in the receive buffer, where there was room for them.
    pub(super) fn fill(&mut self, links: &mut Links, bytes: u32) {
        let buffer = &mut self.buffer;
        buffer.bytes += bytes;
        buffer.peak_bytes = buffer.peak_bytes.max(buffer.bytes);
        if buffer.bytes > self.config.xoff_bytes && !buffer.muted {
            let lossless = self.config.lossless_priorities;
            if links.port(self.port).off & lossless != lossless {
                links.stop(self.port, lossless);
                self.kick(links);
            }
        }
    }

    /// Schedules the end of the next packet's processing, if the receive pipeline works.
    pub(crate) fn take_next(&mut self, links: &mut Links) {
        let buffer = &mut self.buffer;
        if !buffer.busy && !buffer.stuck && !buffer.packets.is_empty() {
            buffer.busy = true;
            links.schedule(self.config.receive.as_ps(), EventKind::Received, self.port, 0);
        }
    }

    /// The packet at the front of the receive buffer is processed, or what it waited for is there.
    pub(crate) fn received(&mut self, links: &mut Links, flows: &mut Flows) {
        let buffer = &mut self.buffer;
        buffer.busy = false;
        if buffer.held_bytes > 0 {
            return self.release(links);
        }
        if buffer.stuck {
            return;
        }
        let Some(packet) = buffer.packets.pop_front() else { return };
        let of = links.pool.get(packet);
        let payload = u32::from(of.payload());
        buffer.held_bytes = u32::from(of.bytes);
        if self.contexts.is_none() {
            self.release(links);
            self.deliver(links, flows, packet);
            return;
        }
        let now = links.now();
        let waited = self.deliver(links, flows, packet);
        let Some(contexts) = &mut self.contexts else { return };
        let done = contexts.write(now + waited, payload);
        if done == now {
            return self.release(links);
        }
        self.buffer.busy = true;
        links.schedule(done - now, EventKind::Received, self.port, 0);
    }

    /// A packet has left the receive buffer.
    fn release(&mut self, links: &mut Links) {
        let bytes = core::mem::take(&mut self.buffer.held_bytes);
        self.drain_buffer(links, bytes);
        self.take_next(links);
    }

    /// So many bytes have left the receive buffer.
    pub(super) fn drain_buffer(&mut self, links: &mut Links, bytes: u32) {
        let buffer = &mut self.buffer;
        buffer.bytes -= bytes;
        let off = links.port(self.port).off;
        if off != 0 && !buffer.stuck && buffer.bytes <= self.config.xon_bytes {
            links.resume(self.port, off);
            self.kick(links);
        }
    }

    /// Hands a packet to its engine. Returns how long it waits for what the NIC has to fetch, in
    /// picoseconds.
    #[inline]
    fn deliver(&mut self, links: &mut Links, flows: &mut Flows, packet: u32) -> u64 {
        match self.tenants.is_some() {
            false => self.hand_over::<false>(links, flows, packet),
            true => self.deliver_bytes(links, flows, packet),
        }
    }

    /// The same where there are applications, out of the way of hosts that have none.
    #[cold]
    #[inline(never)]
    fn deliver_bytes(&mut self, links: &mut Links, flows: &mut Flows, packet: u32) -> u64 {
        self.hand_over::<true>(links, flows, packet)
    }

    #[inline(always)]
    fn hand_over<const TO_TENANTS: bool>(
        &mut self,
        links: &mut Links,
        flows: &mut Flows,
        packet: u32,
    ) -> u64 {
        let mut of = *links.pool.get(packet);
        let mut telemetry = None;
        if of.kind == Kind::Extended {
            telemetry = links.pool.take_telemetry(packet);
            of.bytes = links.pool.get(packet).bytes;
        }
        if of.kind == Kind::Tcp {
            self.deliver_tcp(links, flows, packet);
            return 0;
        }
        let header = links.pool.header(packet);
        let tuple = &links.common.tuples[of.tuple as usize];
        let source = tuple.source;
        if self.paranoid {
            paranoid::check(&of, &header, tuple);
        }
        let bytes = if TO_TENANTS { links.pool.take_payload(packet) } else { Vec::new() };
        links.pool.free(packet);
        let engine = (of.qpn().value() >> ENGINE_SHIFT) as usize;
        let Some(at) = self.engines.get_mut(engine) else {
            links.drops.add(Drop::Refused);
            return 0;
        };
        let arrival = Arrival {
            source: Gid::from(address_of(source)),
            destination: Gid::from(address_of(self.index)),
            traffic_class: of.traffic_class,
            hop_limit: of.ttl,
        };
        let now = Time::from_ps(links.now());
        let payload = u32::from(of.payload());
        let length = payload as usize;
        if let Some(contexts) = &mut self.contexts {
            contexts.queue_pair(of.qpn().value());
        }
        let contexts = self.contexts.as_deref_mut();
        let endpoint = &mut at.endpoint;
        if let Some(telemetry) = telemetry {
            endpoint.observe(&arrival, &header, telemetry);
        }
        let (result, stored) = match &mut self.tenants {
            Some(tenants) if TO_TENANTS => {
                let mut memory = tenants.memory(contexts);
                let bytes = bytes.as_slice();
                let result = endpoint.handle(now, &arrival, &header, bytes, length, &mut memory);
                (result, memory.stored)
            }
            _ => {
                let mut memory = Lengths { contexts, stored: 0 };
                let result = endpoint.handle(now, &arrival, &header, payload, length, &mut memory);
                (result, memory.stored)
            }
        };
        if stored > 0 {
            let index = at.index_of(of.qpn());
            at.pairs[index].delivery.stored(&header, self.config.recovery, stored);
        }
        let waited = self.contexts.as_mut().map_or(0, |contexts| contexts.waited());
        match result {
            Ok(()) => links.delivered += 1,
            // A later acknowledgement has overtaken it, and said the same: nothing is lost.
            Err(Refused::UnexpectedResponse) if is_acknowledgement(&header) => links.delivered += 1,
            Err(_) => links.drops.add(Drop::Refused),
        }
        self.drain(links, flows, engine);
        if TO_TENANTS {
            links.pool.put_back(bytes);
            self.tell_tenants(links, engine, payload);
        }
        self.after(links, engine);
        self.kick(links);
        waited
    }

    /// A deadline of an engine has come.
    pub(crate) fn timer(&mut self, links: &mut Links, flows: &mut Flows) {
        self.timers.pop_if(|at| *at <= links.now());
        self.settle(links.now());
        for engine in 0..self.engines.len() {
            self.engines[engine].endpoint.handle_timeout(Time::from_ps(links.now()));
            self.drain(links, flows, engine);
            if self.tenants.is_some() {
                self.tell_tenants(links, engine, 0);
            }
            self.after(links, engine);
        }
        if let Some(of) = self.departing {
            self.call_at(links, of.at);
        }
        self.kick(links);
    }

    /// After an engine was called: its deadline may have changed.
    #[inline]
    pub(super) fn after(&mut self, links: &mut Links, engine: usize) {
        if let Some(at) = self.engines[engine].endpoint.earliest_timeout() {
            self.call_at(links, at.as_ps());
        }
    }

    /// Schedules a call of the engines at `at`, after which applications are told what is done.
    pub(super) fn call_at(&mut self, links: &mut Links, at: u64) {
        if self.timers.last().is_none_or(|&earliest| at < earliest) {
            self.timers.push(at);
            let delay = at.saturating_sub(links.now());
            links.schedule(delay, EventKind::Timer, self.port, 0);
        }
    }
}
