//! The stages of a modelled NIC between engine and port.
//!
//! ```text
//!   engine 0 ─┐                                ┌─► window 0 ─┐
//!   engine 3 ─┼─ round robin ─► begin ─► bus ──┼─► window 3 ─┼─ not paused, ready ─► port
//!   ...       ┘   while there is room          ┘             ┘
//! ```
//!
//! Where a NIC without a model is asked for a packet when the port is free, this one begins packets as
//! long as their window has room. Beginning takes the NIC's time, payloads take the bus's.

use rdma::{Operation as Requested, Qpn};
use transport::{Run, Segment};
use wire::opcode::Operation;

use super::Host;
use super::model::{BlueFlame, Bus, Planned, PrefetchWindow, StageConfig, fetches};
use super::transmit::done_by;
use crate::links::{EventKind, Links};
use crate::nic::{Contexts, NicConfig};

/// What a packet takes of its window at least, in bytes.
const LEAST: u32 = 64;

/// What a packet needs of its host before it can leave.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// Payload in memory.
    bytes: u64,
    /// Pieces that it lies in.
    pieces: u64,
}

/// See the module. Times are in picoseconds.
#[derive(Debug)]
pub(crate) struct Stages {
    pub(crate) config: StageConfig,
    pub(crate) bus: Bus,
    /// By engine.
    windows: Vec<PrefetchWindow>,
    /// The next packet is begun then at the earliest.
    free_at: u64,
    /// When the next [`EventKind::Ready`] is due.
    wakes_at: u64,
    /// Which engine begins the next packet.
    turn: usize,
}

impl Stages {
    pub(crate) fn new(config: &StageConfig) -> Self {
        Self {
            bus: Bus::new(config),
            config: config.clone(),
            windows: Vec::new(),
            free_at: 0,
            wakes_at: u64::MAX,
            turn: 0,
        }
    }

    /// A flow posts: an idle NIC begins when it knows of it.
    pub(super) fn doorbell(&mut self, now: u64) {
        if self.free_at <= now {
            let read = match self.config.blueflame {
                BlueFlame::Always => 0,
                _ => self.config.dma_read.as_ps(),
            };
            self.free_at = now + self.config.doorbell.as_ps() + read;
        }
    }

    /// An [`EventKind::Ready`] has come.
    pub(super) fn woken(&mut self, now: u64) {
        if self.wakes_at <= now {
            self.wakes_at = u64::MAX;
        }
    }

    /// A packet of an engine is begun: it takes the NIC's time, and its payload the bus's.
    #[cold]
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        links: &Links,
        nic: &NicConfig,
        mut contexts: Option<&mut Contexts>,
        (engine, packet): (usize, u32),
        run: &Run<'_>,
    ) {
        let needs = needs_of(run, contexts.as_deref_mut());
        let facts = run.header().facts();
        let is_request = run.header().bth.opcode.is_request();
        let is_answer = facts.operation == Operation::ReadResponse;
        let mut time = nic.transmit.as_ps();
        if facts.part.begins() && is_request {
            time += self.config.request_out.as_ps();
        } else if facts.part.begins() && is_answer {
            time += self.config.request_in.as_ps();
        }
        time += needs.pieces.saturating_sub(1) * self.config.sge.as_ps();
        time += contexts.map_or(0, |contexts| contexts.waited());
        self.free_at = links.now() + time;
        self.turn = engine + 1;
        if !is_request && !is_answer {
            return self.windows[engine].pass(packet);
        }
        let begun = self.free_at;
        let ends = done_by(run).is_some();
        let ready = if needs.bytes > 0 { self.bus.read(begun, needs.bytes) } else { begun };
        let bytes = u32::from(links.pool.get(packet).payload()).max(LEAST);
        let qpn = run.qpn().value();
        self.windows[engine].begin(Planned { packet, bytes, qpn, ready, ends });
    }

    /// When a list of work requests of `bytes` is there, asked for at `now`.
    pub(super) fn fetch_work(&mut self, now: u64, bytes: u64) -> u64 {
        let more = fetches(bytes, self.config.wqe_fetch_bytes) - 1;
        self.bus.read(now, bytes) + more * self.config.dma_read.as_ps()
    }

    /// Whether a request of `bytes`, alone, travels with its doorbell.
    pub(super) fn rides(&self, operation: &Requested, has_payload: bool, bytes: u64) -> bool {
        let fetches_data = matches!(
            operation,
            Requested::Read { .. } | Requested::CompareSwap { .. } | Requested::FetchAdd { .. }
        );
        bytes <= u64::from(self.config.blueflame_bytes)
            && match self.config.blueflame {
                BlueFlame::Never => false,
                BlueFlame::Inline => fetches_data || !has_payload,
                BlueFlame::Always => true,
            }
    }
}

impl Host {
    /// Begins packets while there is room for them.
    #[inline(never)]
    pub(super) fn prefetch(&mut self, links: &mut Links) {
        let now = links.now();
        let most = self.config.mtu.bytes();
        let count = self.engines.len();
        let Some(stages) = &mut self.stages else { return };
        let (limit, order) = (stages.config.prefetch_bytes, stages.config.prefetch_order);
        stages.windows.resize_with(count, || PrefetchWindow::new(limit, order));
        loop {
            let Some(stages) = &self.stages else { return };
            let (turn, free_at) = (stages.turn, stages.free_at);
            let mut able = (0..count)
                .map(|step| (turn + step) % count)
                .filter(|&engine| stages.windows[engine].has_room(most));
            if free_at > now {
                let waits = |engine: usize| !self.engines[engine].endpoint.is_idle();
                if able.any(waits) {
                    self.wake_at(links, free_at);
                }
                return;
            }
            let able: [Option<usize>; 8] = core::array::from_fn(|_| able.next());
            let mut begins = |engine: usize| {
                let packet = self.take(links, engine);
                // It may have begun to wait for an acknowledgement, or for its pace.
                self.after(links, engine);
                packet.is_some()
            };
            if !able.into_iter().flatten().any(&mut begins) {
                return;
            }
        }
    }

    /// The port is free: sends the next frame, if one is ready.
    #[inline(never)]
    pub(super) fn send_staged(&mut self, links: &mut Links, paused: u8) {
        let now = links.now();
        let engines = self.engines.len();
        let count = engines + usize::from(self.tcp.is_some());
        let mut ready: Option<u64> = None;
        for step in 0..count {
            let index = (self.turn + step) % count;
            let packet = if index == engines {
                self.take_segment(paused).map(|packet| (packet, None))
            } else if paused >> self.engines[index].priority & 1 != 0 {
                None
            } else {
                let Some(stages) = &mut self.stages else { return };
                let window = &mut stages.windows[index];
                let packet = window.take(now);
                if packet.is_none() {
                    ready = ready.into_iter().chain(window.ready()).min();
                }
                packet
            };
            if let Some((packet, done)) = packet {
                self.turn = index + 1;
                links.transmit(self.port, packet);
                links.arm(self.port);
                if let Some(qpn) = done {
                    self.departs(links, index, Qpn::new(qpn));
                }
                return self.prefetch(links);
            }
        }
        if let Some(ready) = ready {
            self.wake_at(links, ready);
        }
    }

    fn wake_at(&mut self, links: &mut Links, at: u64) {
        let Some(stages) = &mut self.stages else { return };
        if at < stages.wakes_at {
            stages.wakes_at = at;
            links.schedule(at.saturating_sub(links.now()), EventKind::Ready, self.port, 0);
        }
    }
}

/// What the payload of a packet takes; caches are told of its addresses.
fn needs_of(run: &Run<'_>, mut contexts: Option<&mut Contexts>) -> Needs {
    if let Some(contexts) = &mut contexts {
        contexts.queue_pair(run.qpn().value());
    }
    let mut needs = Needs::default();
    for segment in run.payload().segments() {
        if let Segment::Memory { address, length } = segment {
            needs.bytes += u64::from(length);
            needs.pieces += 1;
            if let Some(contexts) = &mut contexts {
                contexts.memory(address, u64::from(length));
            }
        }
    }
    needs
}
