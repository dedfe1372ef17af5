//! A host: a NIC, the transport engines in it, and the applications that post to them.
//!
//! What arrives is handed to the engine of its queue pair; what completes is told to the flow that
//! posted it, which may post the next; then the port is asked whether it is free for what the engine
//! now wants to send. All of that happens at one moment: applications take no time here, NICs take
//! the time that [`crate::nic`] says.

use rdma::{
    Access, CompletionOpcode, CompletionStatus, Gid, Key, Operation, Psn, QpState, QpType, Qpn,
    RecvRequest, SendFlags, Sge, Time, WorkRequest,
};
use transport::{
    AddressVector, Arrival, Config, CqId, CreateError, Endpoint, ModifyError, PdId, PostError,
    QpCapacity, QpChange, QpSpec, Recovery, RegionSpec, Route,
};

use crate::counters::Drop;
use crate::limits::{OUTSTANDING_MAX, RECEIVES};
use crate::memory::{BASE, LENGTH, Lengths};
use crate::nic::{NicConfig, ReceiveBuffer};
use crate::packet::{Draft, Tuple, address_of, host_of};
use crate::paranoid;
use crate::plant::{Event, Plant, What};
use crate::switch::hash_of;
use crate::workload::{Flows, Verb};

/// QPNs of one engine: its number stands above these bits.
const ENGINE_SHIFT: u32 = 20;
/// The first QPN of an engine; 0 and 1 are management's.
const FIRST_QPN: u32 = 2;

/// One end of a connection.
#[derive(Debug)]
struct Pair {
    qpn: Qpn,
    /// The flow that it was made for.
    flow: u32,
    /// Where its packets go, and by which source port, as the engine said last; and which tuple that
    /// is.
    path: Option<(Gid, u16)>,
    tuple: u32,
    remote_key: Key,
    /// Flows that share it and found its queue full.
    backlog: std::collections::VecDeque<u32>,
}

#[derive(Debug)]
struct Engine {
    priority: u8,
    endpoint: Endpoint,
    pd: PdId,
    cq: CqId,
    key: Key,
    pairs: Vec<Pair>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Host {
    index: u32,
    pub(crate) port: u32,
    pub(crate) config: NicConfig,
    engines: Vec<Engine>,
    /// Whose turn it is to send.
    turn: usize,
    /// The IP ID of the last packet: NICs count them (guo16, 4.1).
    ip_id: u16,
    /// The earliest [`What::Timer`] that is scheduled.
    timer_at: u64,
    pub(crate) buffer: ReceiveBuffer,
    pub(crate) paranoid: bool,
}

/// One end of a connection, as others name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairId {
    engine: usize,
    pub(crate) qpn: Qpn,
    pub(crate) key: Key,
}

/// A connection could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectError {
    Create(CreateError),
    Modify(ModifyError),
    Post(PostError),
}

impl Host {
    pub(crate) fn new(index: u32, port: u32, config: NicConfig) -> Self {
        Self {
            index,
            port,
            config,
            engines: Vec::new(),
            turn: 0,
            // Wherever it stands: hosts do not count in step.
            ip_id: crate::random::split_mix(u64::from(index)) as u16,
            timer_at: u64::MAX,
            buffer: ReceiveBuffer::default(),
            paranoid: false,
        }
    }

    // ---- connections

    /// Makes a queue pair for `flow`, in RESET.
    pub(crate) fn create_pair(&mut self, flow: u32, dscp: u8) -> Result<PairId, ConnectError> {
        let priority = self.config.dscp_to_priority[usize::from(dscp & 63)] & 7;
        let engine = self.engine(priority).map_err(ConnectError::Create)?;
        let at = &mut self.engines[engine];
        let spec = QpSpec {
            kind: QpType::Rc,
            pd: at.pd,
            send_cq: at.cq,
            recv_cq: at.cq,
            srq: None,
            capacity: QpCapacity {
                send_wr: OUTSTANDING_MAX,
                recv_wr: RECEIVES,
                send_sge: 1,
                recv_sge: 1,
                inline: 0,
            },
            signal_all: true,
        };
        let qpn = at.endpoint.create_qp(spec).map_err(ConnectError::Create)?;
        at.pairs.push(Pair {
            qpn,
            flow,
            path: None,
            tuple: u32::MAX,
            remote_key: Key::default(),
            backlog: std::collections::VecDeque::new(),
        });
        Ok(PairId { engine, qpn, key: at.key })
    }

    /// Moves a queue pair to RTS, towards `remote` at `peer`.
    pub(crate) fn connect_pair(
        &mut self,
        pair: PairId,
        peer: u32,
        remote: PairId,
        dscp: u8,
        receives: bool,
    ) -> Result<(), ConnectError> {
        let path = AddressVector {
            gid: Gid::from(address_of(peer)),
            source_gid: Gid::from(address_of(self.index)),
            traffic_class: dscp << 2,
            // Both ends of a flow differ, and so do the flows of one pair of hosts.
            flow_label: crate::random::split_mix(
                u64::from(self.index) << 32 | u64::from(pair.qpn.value()),
            ) as u32
                & 0xf_ffff
                | 1,
            ..AddressVector::default()
        };
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
        let (mtu, timeout, retries) =
            (self.config.mtu, self.config.ack_timeout_code, self.config.retry_count);
        let at = &mut self.engines[pair.engine];
        let init = QpChange {
            pkey_index: Some(0),
            port: Some(1),
            access: Some(access),
            ..QpChange::to(QpState::Init)
        };
        let receive = QpChange {
            path: Some(path),
            path_mtu: Some(mtu),
            destination: Some(remote.qpn),
            rq_psn: Some(Psn::new(0)),
            max_dest_rd_atomic: Some(16),
            min_rnr_timer: Some(12),
            selective_repeat: Some(self.config.recovery == Recovery::SelectiveRepeat),
            ..QpChange::to(QpState::Rtr)
        };
        let send = QpChange {
            sq_psn: Some(Psn::new(0)),
            timeout: Some(timeout),
            retry_count: Some(retries),
            rnr_retry: Some(7),
            max_rd_atomic: Some(16),
            ..QpChange::to(QpState::Rts)
        };
        for change in [init, receive, send] {
            at.endpoint.modify_qp(pair.qpn, &change).map_err(ConnectError::Modify)?;
        }
        let index = at.index_of(pair.qpn);
        at.pairs[index].remote_key = remote.key;
        if receives {
            for _ in 0..RECEIVES {
                at.post_receive(pair.qpn).map_err(ConnectError::Post)?;
            }
        }
        Ok(())
    }

    /// The engine of a priority, made if there is none yet.
    fn engine(&mut self, priority: u8) -> Result<usize, CreateError> {
        if let Some(index) = self.engines.iter().position(|engine| engine.priority == priority) {
            return Ok(index);
        }
        let index = self.engines.len();
        let first = ((index as u32) << ENGINE_SHIFT) + FIRST_QPN;
        let mut endpoint = Endpoint::new(Config {
            qpns: first..first + transport::limits::QPS_MAX,
            active_mtu: self.config.mtu,
            recovery: self.config.recovery,
            window_bytes: self.config.window_bytes,
            read_chunk_bytes: self.config.read_chunk_bytes,
            burst_packets: 1,
            ack_interval_packets: self.config.ack_interval_packets,
            coalesce_acks: false,
            congestion: self.config.congestion,
            notification: self.config.notification,
            ..Config::default()
        });
        let pd = endpoint.alloc_pd()?;
        let cq = endpoint.create_cq(transport::limits::CQE_MAX)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let region = RegionSpec { address: BASE, length: LENGTH, iova: BASE, access };
        let key = endpoint.register(pd, region).map_err(|_| CreateError::Exhausted)?;
        self.engines.push(Engine { priority, endpoint, pd, cq, key, pairs: Vec::new() });
        Ok(index)
    }

    // ---- applications

    /// Posts as many messages of `flow`, to the queue pair `pair`, as it has room for.
    pub(crate) fn post(&mut self, plant: &mut Plant, flows: &mut Flows, flow: u32, pair: PairId) {
        self.post_at(plant, flows, flow, pair.engine, pair.qpn);
        self.after(plant, pair.engine);
        self.kick(plant);
    }

    fn post_at(&mut self, plant: &Plant, flows: &mut Flows, flow: u32, engine: usize, qpn: Qpn) {
        let now = plant.now();
        let at = &mut self.engines[engine];
        let index = at.index_of(qpn);
        for _ in 0..flows.flows[flow as usize].room() {
            let spec = flows.flows[flow as usize].spec;
            let r_key = at.pairs[index].remote_key;
            let operation = match spec.verb {
                Verb::Write => Operation::Write { remote_address: BASE, r_key, immediate: None },
                Verb::Read => Operation::Read { remote_address: BASE, r_key },
                Verb::Send => Operation::Send { immediate: None, address: None },
            };
            match at.send(now, qpn, flow, operation, spec.message_bytes) {
                Ok(()) => flows.posted(flow, now),
                Err(PostError::Full) => {
                    at.pairs[index].backlog.push_back(flow);
                    return;
                }
                Err(_) => return flows.failed(flow),
            }
        }
    }

    /// Tells flows what has completed.
    fn drain(&mut self, plant: &Plant, flows: &mut Flows, engine: usize) {
        let now = plant.now();
        while let Some(completion) = {
            let at = &mut self.engines[engine];
            at.endpoint.poll_cq(at.cq)
        } {
            let qpn = completion.qpn;
            let at = &mut self.engines[engine];
            let index = at.index_of(qpn);
            let failed = completion.status != CompletionStatus::Success;
            if completion.opcode == CompletionOpcode::Recv {
                if failed {
                    continue;
                }
                // What was taken is posted again: a receiver that is never short.
                let _ = at.post_receive(qpn);
                let flow = at.pairs[index].flow;
                let spec = flows.flows[flow as usize].spec;
                match spec.reply_bytes {
                    Some(bytes) if self.index == spec.destination => {
                        let operation = Operation::Send { immediate: None, address: None };
                        let reply = u64::from(flow) | REPLY;
                        if at.send_as(now, qpn, reply, operation, bytes).is_err() {
                            flows.failed(flow);
                        }
                    }
                    Some(_) => {
                        flows.completed(flow, now);
                        self.continue_after(plant, flows, flow, engine, qpn);
                    }
                    None => {}
                }
                continue;
            }
            if completion.id & REPLY != 0 {
                continue;
            }
            let flow = completion.id as u32;
            if failed {
                flows.failed(flow);
                continue;
            }
            if flows.flows[flow as usize].spec.reply_bytes.is_none() {
                flows.completed(flow, now);
                self.continue_after(plant, flows, flow, engine, qpn);
            }
        }
    }

    fn continue_after(
        &mut self,
        plant: &Plant,
        flows: &mut Flows,
        flow: u32,
        engine: usize,
        qpn: Qpn,
    ) {
        for next in flows.next_of(flow) {
            // Flows of a round have queue pairs of their own.
            let of_next = if next == flow { Some((engine, qpn)) } else { self.pair_of(next) };
            if let Some((engine, qpn)) = of_next {
                self.post_at(plant, flows, next, engine, qpn);
            }
        }
        let at = &mut self.engines[engine];
        let index = at.index_of(qpn);
        if let Some(waiting) = at.pairs[index].backlog.pop_front() {
            self.post_at(plant, flows, waiting, engine, qpn);
        }
    }

    fn pair_of(&self, flow: u32) -> Option<(usize, Qpn)> {
        self.engines.iter().enumerate().find_map(|(engine, at)| {
            let pair = at.pairs.iter().find(|pair| pair.flow == flow)?;
            Some((engine, pair.qpn))
        })
    }

    // ---- what arrives

    /// A packet has come out of the link.
    pub(crate) fn receive(&mut self, plant: &mut Plant, flows: &mut Flows, packet: u32) {
        let of = plant.pool.get(packet);
        if of.destination != self.index {
            return plant.drop_packet(packet, Drop::NotForMe);
        }
        let bytes = u32::from(of.bytes);
        let buffer = &mut self.buffer;
        if self.config.receive == rdma::Span::ZERO && !buffer.stuck {
            return self.deliver(plant, flows, packet);
        }
        if buffer.bytes + bytes > self.config.receive_buffer_bytes {
            return plant.drop_packet(packet, Drop::ReceiveBuffer);
        }
        buffer.bytes += bytes;
        buffer.peak_bytes = buffer.peak_bytes.max(buffer.bytes);
        buffer.packets.push_back(packet);
        if buffer.bytes > self.config.xoff_bytes && !buffer.muted {
            let lossless = self.config.lossless_priorities;
            if plant.port(self.port).off & lossless != lossless {
                plant.stop(self.port, lossless);
                self.kick(plant);
            }
        }
        self.take_next(plant);
    }

    /// The receive pipeline works again.
    pub(crate) fn restart_receiving(&mut self, plant: &mut Plant) {
        self.take_next(plant);
    }

    /// Schedules the end of the next packet's processing.
    fn take_next(&mut self, plant: &mut Plant) {
        let buffer = &mut self.buffer;
        if !buffer.busy && !buffer.stuck && !buffer.packets.is_empty() {
            buffer.busy = true;
            let event = Event::new(What::Received, self.index, 0);
            plant.events.push(self.config.receive.as_ps(), event);
        }
    }

    /// The packet at the front of the receive buffer is processed.
    pub(crate) fn received(&mut self, plant: &mut Plant, flows: &mut Flows) {
        let buffer = &mut self.buffer;
        buffer.busy = false;
        if buffer.stuck {
            return;
        }
        let Some(packet) = buffer.packets.pop_front() else { return };
        buffer.bytes -= u32::from(plant.pool.get(packet).bytes);
        let off = plant.port(self.port).off;
        if off != 0 && buffer.bytes <= self.config.xon_bytes {
            plant.resume(self.port, off);
            self.kick(plant);
        }
        self.take_next(plant);
        self.deliver(plant, flows, packet);
    }

    /// Hands a packet to its engine.
    fn deliver(&mut self, plant: &mut Plant, flows: &mut Flows, packet: u32) {
        let of = *plant.pool.get(packet);
        let header = plant.pool.header(packet);
        let source = plant.tuples[of.tuple as usize].source;
        if self.paranoid {
            paranoid::check(&of, &header, source);
        }
        plant.pool.free(packet);
        let engine = (of.qpn().value() >> ENGINE_SHIFT) as usize;
        let Some(at) = self.engines.get_mut(engine) else {
            return plant.drops.add(Drop::Refused);
        };
        let arrival = Arrival {
            source: Gid::from(address_of(source)),
            destination: Gid::from(address_of(self.index)),
            traffic_class: of.traffic_class,
            hop_limit: of.ttl,
        };
        let now = Time::from_ps(plant.now());
        let length = u32::from(of.payload);
        let result =
            at.endpoint.handle(now, &arrival, &header, length, length as usize, &mut Lengths);
        match result {
            Ok(()) => plant.delivered += 1,
            Err(_) => plant.drops.add(Drop::Refused),
        }
        self.drain(plant, flows, engine);
        self.after(plant, engine);
        self.kick(plant);
    }

    /// A deadline of an engine has come.
    pub(crate) fn timer(&mut self, plant: &mut Plant, flows: &mut Flows) {
        if plant.now() < self.timer_at {
            return;
        }
        self.timer_at = u64::MAX;
        for engine in 0..self.engines.len() {
            self.engines[engine].endpoint.handle_timeout(Time::from_ps(plant.now()));
            self.drain(plant, flows, engine);
            self.after(plant, engine);
        }
        self.kick(plant);
    }

    /// After an engine was called: its deadline may have changed.
    fn after(&mut self, plant: &mut Plant, engine: usize) {
        let Some(at) = self.engines[engine].endpoint.poll_timeout() else { return };
        if at.as_ps() < self.timer_at {
            self.timer_at = at.as_ps();
            let delay = at.as_ps().saturating_sub(plant.now());
            plant.events.push(delay, Event::new(What::Timer, self.index, 0));
        }
    }

    // ---- what leaves

    /// Sends if the port is free; asks to be called again if not.
    pub(crate) fn kick(&mut self, plant: &mut Plant) {
        let now = plant.now();
        let at = plant.port(self.port);
        if at.armed {
            return;
        }
        if at.free_at > now {
            plant.arm(self.port);
        } else {
            self.send(plant);
        }
    }

    /// The port is free: sends the next frame, if there is one.
    pub(crate) fn send(&mut self, plant: &mut Plant) {
        let at = plant.port(self.port);
        if at.pending != 0 {
            plant.send_pause(self.port);
            plant.arm(self.port);
            return;
        }
        let paused = at.paused;
        let count = self.engines.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if paused >> self.engines[index].priority & 1 != 0 {
                continue;
            }
            let packet = self.take(plant, index);
            // It may have begun to wait for an acknowledgement, or for its pace.
            self.after(plant, index);
            if let Some(packet) = packet {
                self.turn = index + 1;
                plant.transmit(self.port, packet);
                plant.arm(self.port);
                return;
            }
        }
    }

    /// The next packet of an engine.
    fn take(&mut self, plant: &mut Plant, engine: usize) -> Option<u32> {
        let at = &mut self.engines[engine];
        let transmit = at.endpoint.poll_transmit(Time::from_ps(plant.events.now()))?;
        let index = (transmit.qpn.value() & ((1 << ENGINE_SHIFT) - 1)) - FIRST_QPN;
        let pair = &mut at.pairs[index as usize];
        let Route { destination, source_port, traffic_class, hop_limit, .. } = transmit.route;
        if pair.path != Some((destination, source_port)) {
            pair.path = Some((destination, source_port));
            let destination = host_of(destination)?;
            let hash = hash_of(self.index, destination, source_port);
            plant.tuples.push(Tuple { source: self.index, destination, source_port, hash });
            pair.tuple = (plant.tuples.len() - 1) as u32;
        }
        self.ip_id = self.ip_id.wrapping_add(1);
        let priority = at.priority;
        let draft = Draft {
            header: &transmit.header,
            payload: transmit.payload.len(),
            tuple: (pair.tuple, plant.tuples[pair.tuple as usize]),
            traffic_class,
            ttl: hop_limit,
            ip_id: self.ip_id,
            pcp: self.config.tagged.then_some(priority),
        };
        plant.created += 1;
        Some(plant.pool.roce(&draft))
    }

    /// The counters of all its engines.
    pub(crate) fn stats(&self) -> Vec<transport::Stats> {
        self.engines.iter().map(|engine| *engine.endpoint.stats()).collect()
    }
}

/// Set in the ids of answers, which belong to no message of their flow.
const REPLY: u64 = 1 << 32;

impl Engine {
    /// Where a queue pair stands in `pairs`: they are given out in order.
    fn index_of(&self, qpn: Qpn) -> usize {
        ((qpn.value() & ((1 << ENGINE_SHIFT) - 1)) - FIRST_QPN) as usize
    }

    fn send(
        &mut self,
        now: u64,
        qpn: Qpn,
        flow: u32,
        operation: Operation,
        length: u32,
    ) -> Result<(), PostError> {
        self.send_as(now, qpn, u64::from(flow), operation, length)
    }

    fn send_as(
        &mut self,
        now: u64,
        qpn: Qpn,
        id: u64,
        operation: Operation,
        length: u32,
    ) -> Result<(), PostError> {
        let sges = [Sge { address: BASE, length, l_key: self.key }];
        let request =
            WorkRequest { id, operation, flags: SendFlags::SIGNALED, sges: &sges, inline: None };
        self.endpoint.post_send(Time::from_ps(now), qpn, &request)
    }

    fn post_receive(&mut self, qpn: Qpn) -> Result<(), PostError> {
        // As long as the longest message.
        let sges = [Sge { address: BASE, length: 1 << 31, l_key: self.key }];
        self.endpoint.post_recv(qpn, &RecvRequest { id: 0, sges: &sges })
    }
}
