//! The cable plant: ports, the links between them, packets in flight, and what is to happen next.
//!
//! ```text
//!   transmit(port, packet)
//!     t                       the first bit leaves; the port is busy
//!     t + (8 + frame) bytes   + propagation [+ latency of a switch]: Arrive at the other end
//!     t + (8 + frame + 12) bytes: the port is free again
//! ```
//!
//! A port that has nothing more to send schedules no event for the end of its frame: it remembers
//! until when it is busy, and whoever brings it more work asks for a [`What::Sent`] then. So an
//! uncongested hop is one event.
//!
//! Pause frames wait for the frame that is being sent, and for no other. They travel as frames, take
//! their time on the wire, and are obeyed `response_quanta` after they came.

use rdma::Rate;

use crate::counters::{Drop, Drops, PauseCounters};
use crate::events::Events;
use crate::link::Filter;
use crate::packet::{GAP_BYTES, Kind, PREAMBLE_BYTES, Pause, Pool, Tuple};
use crate::random::Random;
use crate::rate::LineRate;
use crate::switch::config::{PRIORITIES, PfcConfig};

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum What {
    /// A packet arrives at a port.
    Arrive,
    /// A port is free, and has something to send.
    Sent,
    /// A port obeys a pause frame.
    Obey,
    /// A pause of a port may be over; the argument is the priority.
    Expire,
    /// A port renews its pauses.
    Renew,
    /// A host's engine has a deadline.
    Timer,
    /// A host's NIC is done with the packet at the front of its receive buffer.
    Received,
    /// A host's NIC can make the next packet.
    Ready,
    /// A flow posts for the first time.
    Start,
    /// A switch's watchdog looks.
    Watchdog,
    /// Something that the scenario has planned; index of it.
    Planned,
}

const WHATS: [What; 11] = [
    What::Arrive,
    What::Sent,
    What::Obey,
    What::Expire,
    What::Renew,
    What::Timer,
    What::Received,
    What::Ready,
    What::Start,
    What::Watchdog,
    What::Planned,
];

/// An event in eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    what: u32,
    /// A packet, or another small number.
    pub(crate) argument: u32,
}

const INDEX_BITS: u32 = 28;

impl Event {
    #[inline]
    pub(crate) fn new(what: What, index: u32, argument: u32) -> Self {
        debug_assert!(index < 1 << INDEX_BITS, "within the bounds of limits.rs");
        Self { what: (what as u32) << INDEX_BITS | index, argument }
    }

    #[inline]
    pub(crate) fn what(self) -> What {
        WHATS[((self.what >> INDEX_BITS) as usize).min(WHATS.len() - 1)]
    }

    /// The port, host, flow, switch or plan that it happens to.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.what & ((1 << INDEX_BITS) - 1)
    }
}

/// Who owns a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Host(u32),
    Switch(u32),
}

/// One end of a link. What a packet touches comes first.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// When the frame that is being sent, or was sent last, leaves room for another.
    pub(crate) free_at: u64,
    /// From the last bit sent to the packet's arrival at its queue or engine.
    delay: u64,
    /// From the last bit sent to a pause frame's arrival.
    delay_pause: u64,
    pub(crate) rate: LineRate,
    /// The port at the other end.
    pub(crate) peer: u32,
    /// Its number at its node.
    pub(crate) local: u16,
    /// Queues that have packets (switches only).
    pub(crate) occupied: u8,
    /// Queues, or priorities of a host, that the other end has paused.
    pub(crate) paused: u8,
    /// Priorities that this end has told the other to stop.
    pub(crate) off: u8,
    /// Priorities that a pause frame is still to be sent for.
    pub(crate) pending: u8,
    /// A [`What::Sent`] is scheduled.
    pub(crate) armed: bool,
    /// A [`What::Renew`] is scheduled.
    renewing: bool,
    /// Its filter has something to say.
    pub(crate) filtered: bool,
    /// Queues from which the switch's watchdog has taken the lossless mode.
    pub(crate) stormed: u8,
    /// Queues that obey no pauses, because of the same.
    pub(crate) deaf: u8,
    pub(crate) node: Node,
    pub(crate) pfc: PfcConfig,
    /// The queue that each priority's pauses stop.
    pub(crate) priority_to_queue: [u8; PRIORITIES],
}

/// The pauses of a port: rarely touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct PauseState {
    until: [u64; PRIORITIES],
    since: [u64; PRIORITIES],
    /// Which priorities are paused.
    pub(crate) paused: u8,
    pub(crate) counters: PauseCounters,
    /// When the last frame that stops each priority came.
    pub(crate) last_received: [u64; PRIORITIES],
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Plant {
    pub(crate) events: Events<Event>,
    pub(crate) pool: Pool,
    pub(crate) ports: Vec<Port>,
    pub(crate) pauses: Vec<PauseState>,
    /// By receiving port.
    pub(crate) filters: Vec<Filter>,
    pub(crate) tuples: Vec<Tuple>,
    /// By host: its port.
    pub(crate) host_ports: Vec<u32>,
    /// By host: the switch that it hangs on, `u32::MAX` for none.
    pub(crate) racks: Vec<u32>,
    pub(crate) random: Random,
    pub(crate) drops: Drops,
    /// Packets (pauses not counted) that were put on a link.
    pub(crate) link_hops: u64,
    /// Packets made by engines, and copies made by flooding.
    pub(crate) created: u64,
    /// Packets taken by engines.
    pub(crate) delivered: u64,
    pub(crate) pfc_frames: u64,
    /// Pause frames that are on a link, or not obeyed yet.
    pub(crate) pfc_in_flight: usize,
}

/// A time of `quanta` at `rate`, in picoseconds (IEEE 802.3, 31B: 512 bit times each).
pub(crate) fn quanta_ps(rate: LineRate, quanta: u16) -> u64 {
    rate.ps(u64::from(quanta) * wire::pause::QUANTUM_BITS / 8)
}

impl Plant {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            events: Events::default(),
            pool: Pool::default(),
            ports: Vec::new(),
            pauses: Vec::new(),
            filters: Vec::new(),
            tuples: Vec::new(),
            host_ports: Vec::new(),
            racks: Vec::new(),
            random: Random::new(seed),
            drops: Drops::default(),
            link_hops: 0,
            created: 0,
            delivered: 0,
            pfc_frames: 0,
            pfc_in_flight: 0,
        }
    }

    /// Adds a port that is not connected yet.
    pub(crate) fn add_port(&mut self, node: Node, local: u16, rate: Rate, pfc: PfcConfig) -> u32 {
        self.ports.push(Port {
            free_at: 0,
            delay: 0,
            delay_pause: 0,
            rate: LineRate::new(rate),
            peer: u32::MAX,
            local,
            occupied: 0,
            paused: 0,
            off: 0,
            pending: 0,
            armed: false,
            renewing: false,
            filtered: false,
            stormed: 0,
            deaf: 0,
            node,
            pfc,
            priority_to_queue: [0, 1, 2, 3, 4, 5, 6, 7],
        });
        self.pauses.push(PauseState::default());
        self.filters.push(Filter::default());
        (self.ports.len() - 1) as u32
    }

    /// Joins two ports by a link of `propagation` picoseconds. `latency` is what each end takes to
    /// bring a packet to its queue.
    pub(crate) fn connect(&mut self, ends: [u32; 2], propagation: u64, latency: [u64; 2]) {
        for (from, to, latency) in [(ends[0], ends[1], latency[1]), (ends[1], ends[0], latency[0])]
        {
            let port = &mut self.ports[from as usize];
            port.peer = to;
            port.delay = propagation + latency;
            port.delay_pause = propagation;
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.events.now()
    }

    #[inline]
    pub(crate) fn port(&mut self, port: u32) -> &mut Port {
        &mut self.ports[port as usize]
    }

    /// Sends a packet from a port that is free.
    #[inline]
    pub(crate) fn transmit(&mut self, port: u32, packet: u32) {
        let now = self.events.now();
        let of = self.pool.get(packet);
        let bytes = u64::from(of.bytes);
        let port = &mut self.ports[port as usize];
        debug_assert!(port.free_at <= now, "a port sends one frame at a time");
        let arrival = port.rate.ps(PREAMBLE_BYTES + bytes);
        port.free_at = now + port.rate.ps(PREAMBLE_BYTES + bytes + GAP_BYTES);
        let delay = if of.kind == Kind::Pfc {
            port.delay_pause
        } else {
            self.link_hops += 1;
            port.delay
        };
        self.events.push(arrival + delay, Event::new(What::Arrive, port.peer, packet));
    }

    /// Asks for a [`What::Sent`] when the port is free, unless one is on its way.
    #[inline]
    pub(crate) fn arm(&mut self, port: u32) {
        let now = self.events.now();
        let at = &mut self.ports[port as usize];
        if !at.armed {
            at.armed = true;
            let delay = at.free_at.saturating_sub(now);
            self.events.push(delay, Event::new(What::Sent, port, 0));
        }
    }

    /// Ends a packet that does not arrive.
    pub(crate) fn drop_packet(&mut self, packet: u32, cause: Drop) {
        self.drops.add(cause);
        self.pool.free(packet);
    }

    /// Lets a filter judge a packet that arrives at `port`.
    #[cold]
    pub(crate) fn judge(&mut self, port: u32, packet: u32) -> Option<Drop> {
        let of = self.pool.get(packet);
        let tuple = self.tuples.get(of.tuple as usize);
        self.filters[port as usize].judge(of, tuple, &mut self.random)
    }

    // ---- pauses that we send

    /// Tells the other end to stop `priorities`, as soon as a frame can be sent.
    pub(crate) fn stop(&mut self, port: u32, priorities: u8) {
        let at = self.port(port);
        at.off |= priorities;
        at.pending |= priorities;
    }

    /// Tells the other end to go on with `priorities`.
    pub(crate) fn resume(&mut self, port: u32, priorities: u8) {
        let at = self.port(port);
        at.off &= !priorities;
        at.pending |= priorities;
    }

    /// Sends the pause frame that is pending at a port that is free.
    pub(crate) fn send_pause(&mut self, port: u32) {
        let at = &mut self.ports[port as usize];
        let pending = core::mem::take(&mut at.pending);
        let (stop, resume) = (pending & at.off, pending & !at.off);
        let (rate, pfc) = (at.rate, at.pfc);
        if stop != 0 && !at.renewing {
            at.renewing = true;
            let half = quanta_ps(rate, pfc.quanta / 2);
            self.events.push(half, Event::new(What::Renew, port, 0));
        }
        let counters = &mut self.pauses[port as usize].counters;
        for priority in 0..PRIORITIES {
            counters.sent[priority] += u64::from(stop >> priority & 1);
            counters.sent_resume[priority] += u64::from(resume >> priority & 1);
        }
        self.pfc_frames += 1;
        self.pfc_in_flight += 1;
        let packet = self.pool.pfc(Pause { stop, resume, quanta: pfc.quanta });
        self.transmit(port, packet);
    }

    /// Half of the pauses' time is over. Returns whether a frame is pending now.
    pub(crate) fn renew(&mut self, port: u32) -> bool {
        let at = self.port(port);
        at.renewing = false;
        at.pending |= at.off;
        at.pending != 0
    }

    // ---- pauses that we receive

    /// A pause frame arrived. Obeyed at once, or by a [`What::Obey`].
    pub(crate) fn pause_arrived(&mut self, port: u32, packet: u32) -> bool {
        let now = self.events.now();
        let pause = self.pool.get(packet).pause();
        let state = &mut self.pauses[port as usize];
        for priority in 0..PRIORITIES {
            if pause.stop >> priority & 1 != 0 {
                state.counters.received[priority] += 1;
                state.last_received[priority] = now;
            }
            state.counters.received_resume[priority] += u64::from(pause.resume >> priority & 1);
        }
        let at = &self.ports[port as usize];
        let response = quanta_ps(at.rate, at.pfc.response_quanta);
        if response == 0 {
            return self.obey(port, packet);
        }
        self.events.push(response, Event::new(What::Obey, port, packet));
        false
    }

    /// Ends a pause frame.
    pub(crate) fn end_pause_frame(&mut self, packet: u32) {
        self.pfc_in_flight -= 1;
        self.pool.free(packet);
    }

    /// Obeys a pause frame. Returns whether something may be sent now that could not before.
    pub(crate) fn obey(&mut self, port: u32, packet: u32) -> bool {
        let now = self.events.now();
        let pause = self.pool.get(packet).pause();
        self.end_pause_frame(packet);
        let stop = if pause.quanta == 0 { 0 } else { pause.stop };
        let resume = if pause.quanta == 0 { pause.resume | pause.stop } else { pause.resume };
        let rate = self.ports[port as usize].rate;
        let length = quanta_ps(rate, pause.quanta);
        for priority in 0..PRIORITIES {
            let bit = 1 << priority;
            let state = &mut self.pauses[port as usize];
            if stop & bit != 0 {
                state.until[priority] = now + length;
                if state.paused & bit == 0 {
                    state.paused |= bit;
                    state.since[priority] = now;
                    state.counters.transitions[priority] += 1;
                }
                self.events.push(length, Event::new(What::Expire, port, priority as u32));
            }
        }
        let resumed = self.pauses[port as usize].paused & resume;
        self.end_pauses(port, resumed)
    }

    /// A pause may be over because it was not renewed.
    pub(crate) fn expire(&mut self, port: u32, priority: u32) -> bool {
        let state = &self.pauses[port as usize];
        let bit = 1u8 << (priority & 7);
        let over = state.paused & bit != 0
            && self.events.now() >= state.until[priority as usize & (PRIORITIES - 1)];
        self.end_pauses(port, if over { bit } else { 0 })
    }

    /// Ends every pause of a port, whatever the other end wants.
    pub(crate) fn forget_pauses(&mut self, port: u32) -> bool {
        let all = self.pauses[port as usize].paused;
        self.end_pauses(port, all)
    }

    /// From now on these queues obey no pauses, and the others do. Returns whether something may be
    /// sent now that could not before.
    pub(crate) fn obey_all_but(&mut self, port: u32, queues: u8) -> bool {
        self.port(port).deaf = queues;
        self.end_pauses(port, 0)
    }

    fn end_pauses(&mut self, port: u32, priorities: u8) -> bool {
        let now = self.events.now();
        let state = &mut self.pauses[port as usize];
        state.paused &= !priorities;
        for priority in 0..PRIORITIES {
            if priorities >> priority & 1 != 0 {
                state.counters.paused_ps[priority] += now - state.since[priority];
            }
        }
        let paused = state.paused;
        let at = &mut self.ports[port as usize];
        let before = at.paused;
        at.paused = (0..PRIORITIES)
            .filter(|priority| paused >> priority & 1 != 0)
            .fold(0, |mask, priority| mask | 1 << (at.priority_to_queue[priority] & 7))
            & !at.deaf;
        before & !at.paused != 0
    }

    /// When a frame of `bytes` that begins to leave `port` at `at` arrives, and when the port is free
    /// for the next.
    pub(crate) fn hop(&self, port: u32, at: u64, bytes: u64) -> (u64, u64) {
        let port = &self.ports[port as usize];
        let arrives = at + port.rate.ps(PREAMBLE_BYTES + bytes) + port.delay;
        (arrives, at + port.rate.ps(PREAMBLE_BYTES + bytes + GAP_BYTES))
    }

    /// The pauses of a port, those that are not over included.
    pub(crate) fn pause_counters(&self, port: u32) -> PauseCounters {
        self.pause_counters_at(port, self.events.now())
    }

    /// The same at `now`, up to which nothing more will happen.
    pub(crate) fn pause_counters_at(&self, port: u32, now: u64) -> PauseCounters {
        let state = &self.pauses[port as usize];
        let mut counters = state.counters;
        for priority in 0..PRIORITIES {
            if state.paused >> priority & 1 != 0 {
                counters.paused_ps[priority] += now - state.since[priority];
            }
        }
        counters
    }
}
