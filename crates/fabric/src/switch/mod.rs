//! A switch: store and forward, or cut through where told; one shared buffer, eight priorities.
//!
//! ```text
//!   Arrive ─► classify (DSCP or PCP) ─► route (ECMP; at the last hop ARP and MAC tables)
//!          ─► admit to the shared buffer ──── XOFF due ──► pause frame out of the port it came in by
//!          ─► mark (ECN) ─► egress queue ─► port free? pick a queue, send ── XON due ──► resume
//! ```
//!
//! A packet that cannot be forwarded is dropped on arrival and counted by its cause. Once it is in a queue,
//! only the watchdog drops it. Packets of lossless groups are dropped only when their headroom is full, or
//! by a rule that says so.
//!
//! Routing is by destination rack, from tables that are computed once (`topology/routing.rs`).
//! Switches are routers: a VLAN tag ends here, and with it the PCP. Trunk ports put another one on.
//!
//! A flooded packet occupies the buffer once, until its last copy has left (real switches count
//! references as well). Its copies are addressed to the MAC of the server, so a switch that gets one
//! drops it: the address is not its own.

pub(crate) mod buffer;
mod cell;
mod change;
pub mod config;
mod custom;
mod ecmp;
mod ecn;
mod headroom;
pub(crate) mod models;
mod observe;
mod port;
mod queue;
mod tables;
mod watchdog;

use std::collections::BTreeMap;

use rdma::Time;

use config::{Balance, EcnMark, GroupConfig, Incomplete, PortMode, Schedule, SwitchConfig, Trust};

use buffer::{Admission, Group, Shared, admit, pass, release};
use ecmp::{Balancer, Seen};
use observe::observe;
use port::Port;
use queue::{Queue, pick};
use tables::{Lookup, Tables};
use watchdog::Watchdog;

pub use cell::Cell;
pub use custom::{Arrival, CustomBalance, Hop, Hops, LoadBalancer, LoadBalancerKind};
pub use headroom::{Frames, SONIC_MTU_BYTES, headroom_bytes, sonic_headroom_bytes};

use crate::address::Tuple;
use crate::counters::{Drop, PortCounters};
use crate::links::{Common, Links, PortClass};
use crate::pfc::PRIORITIES;
use crate::random::{Random, of_seed, split_mix};
use crate::slots::Slots;
use crate::topology::routing::{NextHop, RouteTable};

/// See the module. What each packet touches comes first, in few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Switch {
    ports: Vec<Port>,
    pub(crate) routes: RouteTable,
    ecmp_seed: u64,
    shared: Shared,
    /// Its ports are consecutive from here on.
    first_port: u32,
    /// Of the settings, those that each packet needs.
    trust: Trust,
    ecn_mark: EcnMark,
    /// Packets of a flow may take different paths.
    sprays: bool,
    /// A packet that need not wait leaves from its head on.
    cuts_through: bool,
    /// Group (low three bits) and queue by DSCP.
    by_dscp: [u8; 64],
    /// The same by PCP.
    by_pcp: [u8; PRIORITIES],
    tables: Tables,
    balancer: Balancer,
    /// Decides which packets are marked.
    random: Random,
    pub(crate) index: u32,
    /// References to flooded packets.
    floods: Slots<u32>,
    /// By flooded packet: its entry there.
    flooded: BTreeMap<u32, u32>,
    watchdog: Option<Watchdog>,
    /// Which of its watchdogs it is: events of earlier ones are nobody's.
    watchdog_number: u8,
    /// Its ports, and its settings, as they were in the beginning.
    specs: Box<[PortSpec]>,
    boot: Box<SwitchConfig>,
    /// Boxed, because packets need little of it.
    pub(crate) config: Box<SwitchConfig>,
}

/// A port of a switch that is being built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortSpec {
    /// Headroom of each of its lossless groups.
    pub(crate) headroom: u32,
    /// Whether a server is at the other end.
    pub(crate) serves: bool,
}

/// What a port that is being built will do with each packet.
pub(crate) fn classify(config: &SwitchConfig, local: u16, serves: bool) -> (PortClass, u8) {
    let queues = config.queues_of(local).iter().enumerate();
    let strict = queues.filter(|(_, queue)| queue.schedule == Schedule::Strict);
    let is_trunk = serves && config.server_ports == PortMode::Trunk;
    (PortClass::new(serves, is_trunk), strict.fold(0, |mask, (queue, _)| mask | 1 << queue))
}

/// The group (low three bits) and queue of a class.
fn treatment(config: &SwitchConfig, class: u8) -> u8 {
    let class = usize::from(class & 7);
    config.class_to_group[class] & 7 | (config.class_to_queue[class] & 7) << 3
}

/// A switch whose reserves and headrooms would leave no shared buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BufferTooSmall {
    pub(crate) reserved_bytes: u64,
}

/// The headroom of a priority group, if it is lossless.
pub(crate) fn headroom_of(group: &GroupConfig, port: &PortSpec) -> u32 {
    if group.lossless { group.headroom_bytes.unwrap_or(port.headroom) } else { 0 }
}

/// Bytes that reserves and headrooms take of a buffer.
pub(crate) fn reserved_bytes(config: &SwitchConfig, ports: &[PortSpec]) -> u64 {
    let mut reserves = 0;
    let mut headrooms = 0;
    for (local, port) in ports.iter().enumerate() {
        for group in config.groups_of(local as u16) {
            reserves += u64::from(group.reserve_bytes);
            headrooms += u64::from(headroom_of(group, port));
        }
    }
    reserves + config.headroom_pool_bytes.map_or(headrooms, u64::from)
}

impl Switch {
    pub(crate) fn new(
        index: u32,
        first_port: u32,
        config: SwitchConfig,
        ports: &[PortSpec],
        seed: u64,
    ) -> Result<Self, BufferTooSmall> {
        let reserved_bytes = reserved_bytes(&config, ports);
        let size = u64::from(config.buffer_bytes).saturating_sub(reserved_bytes) as u32;
        if size == 0 {
            return Err(BufferTooSmall { reserved_bytes });
        }
        let class = |class: u8| treatment(&config, class);
        let own = if config.polarised { 0 } else { split_mix(u64::from(index)) };
        let headroom_size = config.headroom_pool_bytes.unwrap_or(u32::MAX);
        Ok(Self {
            index,
            first_port,
            shared: Shared {
                cell: config.cell,
                size,
                used: 0,
                peak: 0,
                headroom_size,
                headroom_used: 0,
            },
            ports: (0..).zip(ports).map(|(local, spec)| Port::new(&config, local, spec)).collect(),
            by_dscp: config.dscp_to_class.map(class),
            by_pcp: config.pcp_to_class.map(class),
            trust: config.trust,
            ecn_mark: config.ecn_mark,
            routes: RouteTable::default(),
            ecmp_seed: split_mix(config.ecmp_seed ^ own ^ of_seed(seed)),
            cuts_through: config.cut_through,
            sprays: config.balance != Balance::Flow,
            balancer: Balancer::new(config.balance),
            random: Random::new(split_mix(!seed ^ split_mix(u64::from(index)))),
            tables: Tables::new(&config.tables, ports.len()),
            floods: Slots::default(),
            flooded: BTreeMap::new(),
            watchdog: Watchdog::new(&config, ports),
            watchdog_number: 0,
            specs: ports.into(),
            boot: Box::new(config.clone()),
            config: Box::new(config),
        })
    }

    /// Whether both ends of a packet hang on this switch: it then goes by its MAC address, and may have no hops
    /// left. Programs for one subnet send such packets.
    #[cold]
    fn is_within_rack(&self, common: &Common, tuple: u32) -> bool {
        let Tuple { source, destination, .. } = common.tuples[tuple as usize];
        let is_here = |host: u32| common.racks[host as usize] == self.index;
        is_here(source) && is_here(destination)
    }

    /// A packet arrived at `port`.
    pub(crate) fn receive(&mut self, links: &mut Links, port: u32, packet: u32) {
        let now = links.now();
        let at = links.at(port);
        let (ingress, stormed, serves) = (at.local, at.stormed, at.class.serves());
        let of = links.pool.get_mut(packet);
        if of.is_flooded() {
            return links.drop_packet(packet, Drop::NotForMe);
        }
        let class = match self.trust {
            Trust::Dscp => self.by_dscp[of.dscp()],
            Trust::Pcp => self.by_pcp[usize::from(of.pcp().unwrap_or(0))],
        };
        if of.pcp().is_some() {
            of.set_pcp(None);
        }
        of.set_group(class);
        of.ingress = ingress;
        if of.ttl <= 1 {
            let tuple = of.tuple;
            if !self.is_within_rack(&links.common, tuple) {
                return links.drop_packet(packet, Drop::HopLimit);
            }
        } else {
            of.ttl -= 1;
        }
        let Tuple { destination, hash, .. } = links.common.tuples[of.tuple as usize];
        let (group, queue) = (usize::from(class & 7), usize::from(class >> 3));
        let lossless = self.ports[usize::from(ingress)].group(group).lossless;
        if lossless && stormed >> queue & 1 != 0 {
            self.watchdog_drops(ingress, true);
            return links.drop_packet(packet, Drop::Watchdog);
        }
        let rack = links.common.racks[destination as usize];
        let egress = match self.routes.next_hops.get(rack as usize) {
            Some(&NextHop::Port(only)) => {
                if self.sprays {
                    // It counts packets.
                    self.balancer.hash(hash, now);
                }
                only
            }
            Some(&NextHop::Ports { first, count }) => {
                let choice = match self.sprays {
                    true => self.spread(links, packet, (first, count), queue),
                    false => ecmp::choose(hash, self.ecmp_seed, u32::from(count)),
                };
                self.routes.members[usize::from(first) + choice as usize]
            }
            Some(NextHop::Local) => {
                let to = links.host_port(destination);
                let (local, alive) = (links.at(to.peer).local, to.alive);
                match self.tables.look_up(local, now, alive) {
                    Lookup::Known => local,
                    Lookup::Unknown => return links.drop_packet(packet, Drop::NoArp),
                    Lookup::Incomplete => {
                        return match self.config.tables.incomplete {
                            Incomplete::Drop if lossless => {
                                links.drop_packet(packet, Drop::IncompleteArp);
                            }
                            Incomplete::Cpu if lossless => {
                                links.drop_packet(packet, Drop::SwitchCpu);
                            }
                            _ => self.flood(links, packet, queue),
                        };
                    }
                }
            }
            Some(NextHop::None) | None => return links.drop_packet(packet, Drop::NoRoute),
        };
        if serves {
            self.tables.saw(ingress, now);
        }
        let out = links.at(self.first_port + u32::from(egress));
        let (is_idle, stormed) = (out.is_idle_for(queue, now), out.stormed >> queue & 1 != 0);
        if (stormed || !lossless)
            && let Err(cause) = self.may_enter(links, packet, egress, queue, lossless)
        {
            return links.drop_packet(packet, cause);
        }
        if is_idle && self.passes(links, packet, egress, queue) {
            return;
        }
        match self.admit(links, packet) {
            Admission::Refused => {
                let cause = if lossless { Drop::Headroom } else { Drop::Buffer };
                links.drop_packet(packet, cause);
            }
            admission => {
                self.enqueue(links, packet, egress, queue);
                if admission == Admission::AcceptedXoff {
                    self.kick(links, port);
                }
            }
        }
    }

    /// Which of `count` next hops, from `first` on, a packet takes that is for `queue`, if not its flow alone
    /// decides.
    #[inline(never)]
    fn spread(
        &mut self,
        links: &Links,
        packet: u32,
        (first, count): (u16, u16),
        queue: usize,
    ) -> u32 {
        let (now, seed) = (links.now(), self.ecmp_seed);
        let of = links.pool.get(packet);
        let hash = links.common.tuples[of.tuple as usize].hash;
        let Balancer::Custom(custom) = &mut self.balancer else {
            return ecmp::choose(self.balancer.hash(hash, now), seed, u32::from(count));
        };
        let members = &self.routes.members[usize::from(first)..][..usize::from(count)];
        let (ports, first_port) = (&self.ports, self.first_port);
        let ports = &Seen { ports, links, first_port, queue, seed };
        let hops = Hops { members, ports };
        let arrival = Arrival { now: Time::from_ps(now), hash, bytes: u32::from(of.bytes) };
        u32::from(custom.choose(&arrival, &hops).index)
    }

    /// Whether an egress queue takes a packet, before the buffer is asked: of a lossless one, from which the
    /// watchdog has taken that, none.
    #[inline]
    fn may_enter(
        &mut self,
        links: &Links,
        packet: u32,
        egress: u16,
        queue: usize,
        lossless: bool,
    ) -> Result<(), Drop> {
        if lossless {
            self.ports[usize::from(egress)].queue(queue).dropped += 1;
            self.watchdog_drops(egress, false);
            return Err(Drop::Watchdog);
        }
        let bytes = u32::from(links.pool.get(packet).bytes);
        let queue = self.ports[usize::from(egress)].queue(queue);
        let Some(limit) = queue.limit else { return Ok(()) };
        if queue.bytes + self.shared.cell.taken_by(bytes) > self.shared.limit(limit) {
            queue.dropped += 1;
            return Err(Drop::QueueLimit);
        }
        Ok(())
    }

    /// Accounts a packet to its group, and says XOFF if that is due.
    #[inline]
    fn admit(&mut self, links: &mut Links, packet: u32) -> Admission {
        let of = links.pool.get(packet);
        let (ingress, group) = (of.ingress, of.group());
        let bytes = u32::from(of.bytes);
        let state = self.ports[usize::from(ingress)].group(group);
        let admission = admit(&mut self.shared, state, bytes);
        if admission == Admission::AcceptedXoff {
            state.off = true;
            let priority = self.config.group_to_priority[group] & 7;
            links.stop(self.first_port + u32::from(ingress), 1 << priority);
        }
        admission
    }

    /// Sends a packet at once to a port that is free, and where no other could leave, if no pause is
    /// involved. The result is that of [`Switch::admit`] and [`Switch::enqueue`]. Returns whether it was sent.
    #[inline]
    fn passes(&mut self, links: &mut Links, packet: u32, egress: u16, queue: usize) -> bool {
        let port = self.first_port + u32::from(egress);
        let is_trunk = links.at(port).class.is_trunk();
        let of = links.pool.get_mut(packet);
        let bytes = u32::from(of.bytes);
        // A packet that alone is enough for a mark takes the longer way.
        let marks_above = self.ports[usize::from(egress)].queue(queue).marks_above;
        if self.shared.cell.taken_by(bytes) > marks_above {
            return false;
        }
        let group = of.group();
        let ingress = of.ingress;
        let state = self.ports[usize::from(ingress)].group(group);
        if !pass(&mut self.shared, state, bytes) {
            return false;
        }
        self.ports[usize::from(egress)].queue(queue).pass(bytes);
        if is_trunk {
            of.set_pcp(Some(self.config.group_to_priority[group] & 7));
        }
        if of.is_observed() {
            observe(&self.ports[usize::from(egress)], links, port, packet);
        }
        if self.cuts_through {
            links.transmit_through(self.first_port + u32::from(ingress), port, packet);
        } else {
            links.transmit(port, packet);
        }
        true
    }

    /// Puts an admitted packet into a queue.
    fn enqueue(&mut self, links: &mut Links, packet: u32, egress: u16, queue: usize) {
        let state = self.ports[usize::from(egress)].queue(queue);
        let bytes = u32::from(links.pool.get(packet).bytes);
        if state.bytes > state.marks_above && self.ecn_mark == EcnMark::Arrival {
            let waits = state.bytes;
            self.mark(links, packet, (egress, queue), waits);
        }
        let state = self.ports[usize::from(egress)].queue(queue);
        state.push(&mut links.pool, packet, bytes);
        let port = self.first_port + u32::from(egress);
        links.port(port).occupied |= 1 << queue;
        self.kick(links, port);
    }

    /// Marks a packet, perhaps, in a queue of so many bytes.
    fn mark(&mut self, links: &mut Links, packet: u32, at: (u16, usize), bytes: u32) {
        let (local, queue) = at;
        let Some(ecn) = &self.config.queues_of(local)[queue].ecn else { return };
        let of = links.pool.get_mut(packet);
        if let Some(marked) = ecn::mark(ecn, bytes, of.traffic_class, &mut self.random) {
            of.traffic_class = marked;
            self.ports[usize::from(local)].marked[queue] += 1;
        }
    }

    /// Sends a packet to every port but the one that it came in by.
    fn flood(&mut self, links: &mut Links, packet: u32, queue: usize) {
        let ingress = links.pool.get(packet).ingress;
        let lossless = {
            let group = links.pool.get(packet).group();
            self.ports[usize::from(ingress)].group(group).lossless
        };
        let admission = self.admit(links, packet);
        if admission == Admission::Refused {
            let cause = if lossless { Drop::Headroom } else { Drop::Buffer };
            return links.drop_packet(packet, cause);
        }
        let of = links.pool.get_mut(packet);
        of.set_flooded();
        let all = 0..self.ports.len() as u16;
        let ports: Vec<u16> = all.filter(|&port| port != ingress).collect();
        let flood = self.floods.insert(ports.len() as u32);
        if ports.is_empty() {
            self.flooded.insert(packet, flood);
            self.release(links, packet);
            return links.drop_packet(packet, Drop::NoRoute);
        }
        for (count, &port) in ports.iter().enumerate() {
            let copy = if count + 1 == ports.len() {
                packet
            } else {
                links.created += 1;
                links.pool.copy(packet)
            };
            self.flooded.insert(copy, flood);
            self.enqueue(links, copy, port, queue);
        }
        if admission == Admission::AcceptedXoff {
            self.kick(links, self.first_port + u32::from(ingress));
        }
    }

    /// Sends if the port is free and has something to send; asks to be called again if not.
    pub(crate) fn kick(&mut self, links: &mut Links, port: u32) {
        let now = links.now();
        let at = links.port(port);
        if at.armed {
            return;
        }
        if at.free_at > now {
            links.arm(port);
        } else {
            self.send(links, port);
        }
    }

    /// The port is free: sends the next frame, if there is one.
    pub(crate) fn send(&mut self, links: &mut Links, port: u32) {
        let at = links.at(port);
        let eligible = at.occupied & !at.paused;
        if at.pending != 0 {
            links.send_pause(port);
            if eligible != 0 {
                links.arm(port);
            }
            return;
        }
        if eligible == 0 {
            return;
        }
        let (strict, is_trunk) = (at.strict, at.class.is_trunk());
        let local = usize::from(at.local);
        let (queues, turn) = self.ports[local].queues_mut();
        let queue = pick(queues, &links.pool, eligible, strict, turn);
        let queued = &mut queues[queue & (PRIORITIES - 1)];
        let waited = queued.bytes;
        let may_mark = waited > queued.marks_above && self.ecn_mark == EcnMark::Departure;
        let packet = queued.pop(&mut links.pool);
        let mut left = eligible;
        if queued.packets == 0 {
            left &= !(1 << queue);
            links.port(port).occupied &= !(1 << queue);
        }
        // It will be asked for when this frame has left.
        links.pool.fetch(queued.next());
        if may_mark {
            self.mark(links, packet, (local as u16, queue), waited);
        }
        let resumed = self.release(links, packet);
        if is_trunk {
            let of = links.pool.get_mut(packet);
            of.set_pcp(Some(self.config.group_to_priority[of.group()] & 7));
        }
        if links.pool.get(packet).is_observed() {
            observe(&self.ports[local], links, port, packet);
        }
        links.transmit(port, packet);
        if left != 0 {
            links.arm(port);
        }
        if let Some(ingress) = resumed {
            self.kick(links, ingress);
        }
    }

    /// Gives back a packet's place in the buffer. Returns the port that is to send XON.
    #[inline]
    fn release(&mut self, links: &mut Links, packet: u32) -> Option<u32> {
        let of = links.pool.get(packet);
        let (ingress, group) = (of.ingress, of.group());
        let bytes = u32::from(of.bytes);
        if of.is_flooded() && !self.is_last_copy(packet) {
            return None;
        }
        let state = self.ports[usize::from(ingress)].group(group);
        if !release(&mut self.shared, state, bytes) {
            return None;
        }
        state.off = false;
        let port = self.first_port + u32::from(ingress);
        let priority = self.config.group_to_priority[group] & 7;
        links.resume(port, 1 << priority);
        Some(port)
    }

    /// A flooded packet leaves. Whether it was the last copy that was here.
    #[cold]
    fn is_last_copy(&mut self, packet: u32) -> bool {
        let Some(flood) = self.flooded.remove(&packet) else { return true };
        let references = self.floods.get_mut(flood);
        *references = references.saturating_sub(1);
        let last = *references == 0;
        if last {
            self.floods.free(flood);
        }
        last
    }

    /// Drops what waits in those of `mask` that are lossless queues of a port, and says how much.
    /// Called by the watchdog.
    fn flush(&mut self, links: &mut Links, port: u32, mask: u8) -> u64 {
        let mut dropped = 0;
        let local = usize::from(links.port(port).local);
        for queue in (0..PRIORITIES).filter(|queue| mask >> queue & 1 != 0) {
            let waiting: Vec<u32> = self.ports[local].queue(queue).iter(&links.pool).collect();
            let is_lossless = |packet: &u32| {
                let of = links.pool.get(*packet);
                self.ports[usize::from(of.ingress)].groups()[of.group()].lossless
            };
            if !waiting.iter().any(is_lossless) {
                continue;
            }
            dropped += waiting.len() as u64;
            for _ in 0..waiting.len() {
                let packet = self.ports[local].queue(queue).discard(&mut links.pool);
                let resumed = self.release(links, packet);
                links.drop_packet(packet, Drop::Watchdog);
                if let Some(ingress) = resumed {
                    self.kick(links, ingress);
                }
            }
            links.port(port).occupied &= !(1 << queue);
        }
        dropped
    }

    // ---- what can be asked

    /// The port that a packet with `hash` for a rack leaves by, and which of how many next hops that is; `None` if the
    /// rack is its own, or unknown.
    pub(crate) fn egress(&self, rack: u32, hash: u32) -> Option<(u32, u32, u32)> {
        let ports = self.routes.ports_to(rack);
        let of = ports.len() as u32;
        let choice = ecmp::choose(hash, self.ecmp_seed, of);
        let local = ports.get(choice as usize)?;
        Some((self.first_port + u32::from(*local), choice, of))
    }

    /// Whether packets of one flow may leave by several ports.
    pub(crate) fn sprays(&self) -> bool {
        self.sprays
    }

    /// Whether flooded packets are in its queues.
    pub(crate) fn floods(&self) -> bool {
        !self.floods.is_empty()
    }

    /// Its ports.
    pub(crate) fn ports(&self) -> core::ops::Range<u32> {
        self.first_port..self.first_port + self.ports.len() as u32
    }

    /// What a port has counted by `now`.
    pub(crate) fn counters(&self, links: &Links, port: u32, now: u64) -> PortCounters {
        let of = &self.ports[(port - self.first_port) as usize];
        let (queues, groups) = (of.queues(), of.groups());
        let queue = |of: fn(&Queue) -> u64| core::array::from_fn(|index| of(&queues[index]));
        let group = |of: fn(&Group) -> u64| core::array::from_fn(|index| of(&groups[index]));
        PortCounters {
            queue_packets: queue(|queue| queue.sent_packets),
            queue_bytes: queue(|queue| queue.sent_bytes),
            queue_dropped: queue(|queue| u64::from(queue.dropped)),
            queue_marked: of.marked,
            queue_peak_bytes: queue(|queue| u64::from(queue.peak_bytes)),
            group_packets: group(|group| group.received_packets),
            group_bytes: group(|group| group.received_bytes),
            group_dropped: group(|group| u64::from(group.dropped)),
            group_peak_bytes: group(|group| u64::from(group.peak_bytes)),
            group_peak_headroom_bytes: group(|group| u64::from(group.peak_headroom)),
            in_errors: links.damage(port).0,
            pause: links.pause_counters(port, now),
            watchdog: self.watchdog_counters((port - self.first_port) as u16),
        }
    }

    /// Bytes that the groups hold, and bytes that the queues hold; equal unless packets are flooded.
    pub(crate) fn held(&self) -> (u64, u64) {
        let groups = self.ports.iter().flat_map(Port::groups);
        let queues = self.ports.iter().flat_map(Port::queues);
        let groups = groups.map(|group| u64::from(group.held())).sum();
        let queues = queues.map(|queue| u64::from(queue.bytes)).sum();
        (groups, queues)
    }

    /// What a group holds at present.
    pub(crate) fn group_bytes(&self, local: u16, group: usize) -> u32 {
        self.ports[usize::from(local)].groups()[group].held()
    }

    /// What a queue holds at present.
    pub(crate) fn queue_bytes(&self, local: u16, queue: usize) -> u32 {
        self.ports[usize::from(local)].queues()[queue].bytes
    }

    /// The bytes that groups share.
    pub(crate) fn shared_bytes(&self) -> u32 {
        self.shared.size
    }

    /// What a group may take if no other has anything.
    pub(crate) fn largest_group_bytes(&self) -> u32 {
        let groups = self.config.groups.iter();
        let most = groups.map(|group| match group.threshold {
            config::Threshold::Static { bytes } => bytes.min(self.shared.size),
            config::Threshold::Dynamic { exponent } => {
                let alpha = f64::from(exponent).exp2();
                (f64::from(self.shared.size) * alpha / (1.0 + alpha)) as u32
            }
        });
        most.max().unwrap_or(0)
    }

    /// Begins its watermarks anew: the most that was held is what is held now.
    pub(crate) fn clear_watermarks(&mut self) {
        self.shared.peak = self.shared.used;
        for port in &mut self.ports {
            for group in port.groups_mut() {
                (group.peak_bytes, group.peak_headroom) = (group.bytes, group.headroom);
            }
            for queue in port.all_queues_mut() {
                queue.peak_bytes = queue.bytes;
            }
        }
    }

    /// What was free of it when the groups had taken most.
    pub(crate) fn least_free_bytes(&self) -> u32 {
        self.shared.size.saturating_sub(self.shared.peak)
    }

    /// The queues of `port` that hold packets which came in by `ingress` in a group whose priority
    /// is `priority`, as a mask.
    pub(crate) fn queues_fed_by(
        &self,
        links: &Links,
        port: u32,
        ingress: u16,
        priority: usize,
    ) -> u8 {
        let mut mask = 0;
        let queues = self.ports[(port - self.first_port) as usize].queues();
        for (queue, at) in queues.iter().enumerate() {
            let fed = at.iter(&links.pool).any(|packet| {
                let of = links.pool.get(packet);
                let sends = usize::from(self.config.group_to_priority[of.group()] & 7);
                of.ingress == ingress && sends == priority
            });
            mask |= u8::from(fed) << queue;
        }
        mask
    }

    /// Packets that a queue has sent.
    pub(crate) fn sent(&self, port: u32, queue: usize) -> u64 {
        self.ports[(port - self.first_port) as usize].queues()[queue].sent_packets
    }

    /// Lets the MAC entry of the server at `port` age at once.
    pub(crate) fn age_mac(&mut self, local: u16) {
        self.tables.age_mac(local);
    }

    /// The server at `port` has returned.
    pub(crate) fn server_returned(&mut self, local: u16) {
        self.tables.returned(local);
    }

    /// Requests that its CPU has made to keep the ARP table.
    pub(crate) fn arp_requests(&self) -> u64 {
        self.tables.arp_requests
    }
}
