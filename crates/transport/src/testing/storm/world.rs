//! Nodes and links, and what happens to them when.

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use rdma::{
    Access, Completion, CompletionOpcode, CompletionStatus, Gid, Key, Psn, QKey, QpState, Qpn,
    Span, Time,
};

use super::check::Check;
use super::ground::Ground;
use super::link::{End, Link, Weather};
use super::log::Log;
use super::marks::Marks;
use super::plan::{LinkPlan, Plan};
use super::random::Random;
use super::tally::{Seen, Tally};
use crate::{
    AddressVector, BringUp, Config, CqId, Endpoint, Event, Notify, OutOfOrder, PdId, QpCapacity,
    QpSpec, Recovery, RegionSpec, SrqAttributes, SrqId,
};

/// Bytes of memory of a node.
const MEMORY: usize = 6 << 20;
/// No storm takes more steps.
const STEPS_MAX: u32 = 3_000_000;
/// The longest that a thread waits with the time before it calls an engine.
const WAIT_MAX_NS: u64 = 20_000;
/// How many incidents a stopped node counts as: more than any retry count.
const STOP_INCIDENTS: u64 = 100;
/// The key of all datagrams.
pub(super) const Q_KEY: QKey = QKey(0x2222);

/// Something that is going to happen.
#[derive(Debug)]
pub(super) enum Happening {
    Arrive {
        to: usize,
        packet: Packet,
    },
    /// A slow node takes a packet that arrived earlier.
    Take {
        to: usize,
        packet: Packet,
    },
    /// It would have taken a packet that was removed.
    Skip {
        node: usize,
    },
    /// A node may send its next packet.
    Turn,
    Stop {
        node: usize,
        span: Span,
    },
    Wake {
        node: usize,
    },
    /// A node takes packets one by one for a while, `each` after the other.
    Slow {
        node: usize,
        span: Span,
        each: Span,
    },
    Partition {
        from: usize,
        to: usize,
        span: Span,
    },
    /// The clock of a node is turned back.
    SetBack {
        node: usize,
        span: Span,
    },
    /// A driver gives a packet to an engine that it is not for.
    Misdeliver {
        to: usize,
        packet: Packet,
    },
    Post {
        link: usize,
        side: usize,
    },
    /// A receive that was due before is posted now.
    Receive {
        link: usize,
        side: usize,
        psn: u32,
    },
    Break {
        link: usize,
        side: usize,
    },
    Mend {
        link: usize,
    },
    /// The application of an end does not poll its completion queue.
    Sleep {
        link: usize,
        side: usize,
        span: Span,
    },
    Resize {
        node: usize,
    },
    SetLimit {
        node: usize,
    },
    FreeWindow {
        link: usize,
        side: usize,
        index: usize,
    },
    /// A request loses its memory at a node.
    Lose {
        link: usize,
        side: usize,
        id: u64,
        node: usize,
        loss: Loss,
    },
    Drain {
        link: usize,
        side: usize,
        span: Span,
    },
    Resume {
        link: usize,
        side: usize,
    },
    Recover {
        link: usize,
        side: usize,
    },
    Forge {
        link: usize,
        side: usize,
    },
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) link: usize,
    pub(super) from: Gid,
    pub(super) to: Gid,
    /// DSCP and ECN bits.
    pub(super) traffic_class: u8,
    pub(super) bytes: Vec<u8>,
}

/// How a request loses its memory.
#[derive(Clone, Debug)]
pub(super) enum Loss {
    /// Its region is deregistered.
    Freed(Key),
    /// Its region is registered anew, in another protection domain.
    Changed(Key),
    /// The application unmaps the pages, and leaves the region.
    Unmapped(Vec<(u64, u32)>),
}

/// What the oracle knows of the completion queue of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CqWatch {
    pub(super) armed: Option<Notify>,
    /// Events since it was armed.
    pub(super) events: u32,
    /// A queue pair was reset since the queue was looked at: its completions are gone.
    pub(super) forgot: bool,
}

impl CqWatch {
    /// Whether `completion` is to raise an event.
    pub(super) fn awaits(&self, completion: &Completion) -> bool {
        match self.armed {
            None => false,
            Some(Notify::Next) => true,
            Some(Notify::Solicited) => {
                completion.solicited || completion.status != CompletionStatus::Success
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) endpoint: Endpoint,
    pub(super) ground: Ground,
    pub(super) pd: PdId,
    /// It holds regions for trespassers only.
    pub(super) other_pd: PdId,
    pub(super) cq: CqId,
    pub(super) srq: SrqId,
    /// A region over all of memory.
    pub(super) key: Key,
    /// The same, and windows may be bound to it.
    pub(super) bindable: Key,
    /// Regions for one request each.
    pub(super) keys: Vec<Key>,
    /// Keys of windows that are gone.
    pub(super) stale: Vec<Key>,
    pub(super) gid: Gid,
    pub(super) watch: CqWatch,
    /// Whether its shared receive queue is to tell when it runs low.
    pub(super) limit_armed: bool,
    pub(super) stopped: Option<Time>,
    /// Packets that wait until it moves again.
    pub(super) held: VecDeque<Packet>,
    /// Until when it is slow, and how much time it takes for each packet.
    pub(super) slow: Option<(Time, Span)>,
    /// Packets that it has not come to, and when it is done with them.
    pub(super) backlog: usize,
    pub(super) free_at: Time,
    /// When it may send again.
    pub(super) next_turn: Time,
    /// How much its clock has been turned back.
    pub(super) behind: Span,
    /// What was to be sent when it was last turned back may wait until then.
    pub(super) held_until: Time,
}

/// Everything.
#[derive(Debug)]
pub(super) struct World<'l> {
    pub(super) plan: Plan,
    pub(super) random: Random,
    /// Which timeouts the drivers put off. Of its own, so that a seed makes all other faults as it did before
    /// there were such drivers.
    driver: Random,
    pub(super) log: &'l mut Log,
    pub(super) now: Time,
    /// Whether faults strike.
    pub(super) stormy: bool,
    /// Whether no packet that a fault has touched is under way.
    pub(super) calm: bool,
    pub(super) happenings: BTreeMap<(Time, u64), Happening>,
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    /// Numbers requests and events.
    pub(super) count: u64,
    /// Packets that are lost before the burst ends.
    pub(super) burst_left: u64,
    /// From which node to which nothing passes, and until when.
    pub(super) dead: Vec<(usize, usize, Time)>,
    /// The latest arrival from one node at another, to see what overtakes.
    pub(super) latest: BTreeMap<(usize, usize), Time>,
    /// The links and nodes that have lost a packet which was too long for its path.
    pub(super) narrowed: BTreeSet<(usize, usize)>,
    pub(super) steps: u32,
    /// The most that a node takes out of its engine at once.
    pub(super) run_packets: u32,
    pub(super) packets: u64,
    pub(super) completions: u64,
    pub(super) tally: Tally,
    pub(super) marks: Marks,
}

impl<'l> World<'l> {
    pub(super) fn new(seed: u64, run_packets: u32, log: &'l mut Log) -> Self {
        let (mut random, mut driver) = (Random::new(seed), Random::new(!seed));
        let plan = Plan::new(&mut random, &mut driver);
        let nodes = plan.configs.iter().enumerate().map(|(index, config)| {
            let mut endpoint = Endpoint::new(config.clone());
            let room = "a new endpoint has room";
            let pd = endpoint.alloc_pd().expect(room);
            let all = RegionSpec {
                address: Ground::BASE,
                length: MEMORY as u64,
                iova: Ground::BASE,
                access: everything(),
            };
            let bindable = RegionSpec { access: everything() | Access::MW_BIND, ..all };
            let attributes = SrqAttributes { max_wr: 1 << 12, max_sge: 8, limit: 0 };
            Node {
                pd,
                other_pd: endpoint.alloc_pd().expect(room),
                cq: endpoint.create_cq(1 << 16).expect(room),
                srq: endpoint.create_srq(pd, attributes).expect(room),
                key: endpoint.register(pd, all).expect(room),
                bindable: endpoint.register(pd, bindable).expect(room),
                keys: Vec::new(),
                stale: Vec::new(),
                ground: Ground::new(MEMORY),
                gid: Ipv4Addr::new(10, 0, 0, index as u8 + 1).into(),
                watch: CqWatch::default(),
                limit_armed: false,
                stopped: None,
                held: VecDeque::new(),
                slow: None,
                backlog: 0,
                free_at: Time::ZERO,
                next_turn: Time::ZERO,
                behind: Span::ZERO,
                held_until: Time::ZERO,
                endpoint,
            }
        });
        let nodes = nodes.collect();
        let mut world = Self {
            nodes,
            plan,
            random,
            driver,
            log,
            now: Time::from_ns(1),
            stormy: true,
            calm: false,
            happenings: BTreeMap::new(),
            links: Vec::new(),
            count: 0,
            burst_left: 0,
            dead: Vec::new(),
            latest: BTreeMap::new(),
            narrowed: BTreeSet::new(),
            steps: 0,
            run_packets,
            packets: 0,
            completions: 0,
            tally: Tally::default(),
            marks: Marks::default(),
        };
        for index in 0..world.plan.links.len() {
            let plan = world.plan.links[index];
            let ends = [0, 1].map(|side| world.end(&plan, side));
            let mtus = [plan.mtu, plan.other_mtu];
            world.links.push(Link { plan, mtus, ends, incidents: 0, mending: false });
            for side in [0, 1] {
                world.make_windows(index, side);
            }
            world.connect(index);
        }
        world
    }

    fn end(&mut self, plan: &LinkPlan, side: usize) -> End {
        let own_cq = plan.own_cqs[side].then(|| self.create_own_cq(plan.nodes[side]));
        End {
            node: plan.nodes[side],
            qpn: self.create_qp(plan, side, own_cq),
            own_cq,
            asleep: None,
            cq_lost: false,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            inbound: VecDeque::new(),
            open_writes: Vec::new(),
            windows: Vec::new(),
            failed: false,
            fatal: false,
            sqe: false,
            drain: None,
            refused: false,
            reset: true,
            receive_gone: false,
            last_shared: 0,
            psn: plan.first_psns[side],
        }
    }

    pub(super) fn create_qp(&mut self, plan: &LinkPlan, side: usize, own_cq: Option<CqId>) -> Qpn {
        let node = &mut self.nodes[plan.nodes[side]];
        let capacity =
            QpCapacity { send_wr: 4096, recv_wr: 4096, send_sge: 8, recv_sge: 8, inline: 256 };
        let spec = QpSpec {
            kind: plan.kind,
            pd: node.pd,
            send_cq: own_cq.unwrap_or(node.cq),
            recv_cq: own_cq.unwrap_or(node.cq),
            srq: plan.shared[side].then_some(node.srq),
            capacity,
            signal_all: plan.signal_all,
        };
        node.endpoint.create_qp(spec).expect("the sizes are within the limits")
    }

    /// Brings both ends, which are in RESET, to RTS.
    pub(super) fn connect(&mut self, index: usize) {
        let link = &mut self.links[index];
        let plan = link.plan;
        // A stopped or slow node delays a new connection, too.
        let is_late = |node: &Node| {
            let slow = node.slow.is_some_and(|(until, _)| self.now < until);
            slow || node.backlog > 0 || node.stopped.is_some()
        };
        let stopped = plan.nodes.iter().any(|&node| is_late(&self.nodes[node]));
        link.incidents = if stopped { STOP_INCIDENTS } else { 0 };
        link.mending = false;
        for side in [0, 1] {
            let (own, peer) = (&link.ends[side], &link.ends[1 - side]);
            let path = AddressVector {
                gid: self.nodes[peer.node].gid,
                source_gid: self.nodes[own.node].gid,
                ..AddressVector::default()
            };
            let selective = self.plan.configs[0].recovery == Recovery::SelectiveRepeat;
            let up = BringUp {
                access: everything(),
                q_key: Q_KEY,
                rq_psn: Psn::new(peer.psn),
                sq_psn: Psn::new(own.psn),
                rd_atomics: plan.rd_atomic,
                min_rnr_timer: plan.min_rnr_timer,
                timeout: plan.timeout,
                retry_count: plan.retry_count,
                rnr_retry: plan.rnr_retry,
                selective_repeat: Some(selective),
                between_hosts: true,
                ..BringUp::new(path, link.mtus[side], peer.qpn)
            };
            let brought = self.nodes[own.node].endpoint.bring_up(own.qpn, &up);
            brought.expect("the attributes are complete");
        }
        for end in &mut link.ends {
            self.marks.forget(end.node, end.qpn);
            (end.failed, end.fatal, end.refused) = (false, false, false);
            (end.reset, end.receive_gone) = (false, false);
            (end.drain, end.sqe) = (None, false);
            end.cq_lost = false;
        }
    }

    pub(super) fn schedule(&mut self, after: Span, happening: Happening) {
        self.count += 1;
        self.happenings.insert((self.now + after, self.count), happening);
    }

    pub(super) fn weather(&self) -> Weather {
        let faults = &self.plan.faults;
        Weather {
            disorders: !self.calm && faults.disorders(),
            late_receives: faults.late_receives > 0,
            peer_gone: false,
            own_gone: false,
            paced: self.plan.is_paced(),
        }
    }

    /// Runs until `end`, or until nothing is left to happen; returns whether that is so.
    pub(super) fn run(&mut self, end: Time) -> Check<bool> {
        loop {
            let arrival = self.happenings.keys().next().map(|&(at, _)| at);
            let timeouts = self.nodes.iter_mut().filter_map(|node| {
                let at = node.endpoint.poll_timeout()? + node.behind;
                Some(node.stopped.map_or(at, |until| until.max(at)))
            });
            let Some(next) = timeouts.chain(arrival).min() else { return Ok(true) };
            if next > end {
                self.now = self.now.max(end);
                return Ok(false);
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(format!("still busy after {STEPS_MAX} steps"));
            }
            self.now = self.now.max(next);
            while let Some(entry) = self.happenings.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let happening = entry.remove();
                self.happen(happening)?;
            }
            for index in 0..self.nodes.len() {
                self.settle(index)?;
            }
        }
    }

    fn happen(&mut self, happening: Happening) -> Check {
        match happening {
            Happening::Arrive { to, packet } => self.arrive(to, packet),
            Happening::Take { to, packet } => {
                self.nodes[to].backlog -= 1;
                self.take(to, packet);
            }
            Happening::Skip { node } => self.nodes[node].backlog -= 1,
            Happening::Turn => {}
            Happening::Stop { node, span } => {
                self.log.note(self.now, &place(node), "stops", || format!("{span}"));
                self.tally.count(Seen::Stop);
                self.nodes[node].stopped = Some(self.now + span);
                self.blame(|link| link.plan.nodes.contains(&node));
                self.schedule(span, Happening::Wake { node });
            }
            Happening::Wake { node } => {
                if self.nodes[node].stopped.is_some_and(|until| until <= self.now) {
                    self.log.note(self.now, &place(node), "wakes", String::new);
                    self.nodes[node].stopped = None;
                    for packet in core::mem::take(&mut self.nodes[node].held) {
                        self.deliver(node, &packet);
                    }
                }
            }
            Happening::Slow { node, span, each } => {
                self.log.note(self.now, &place(node), "slows", || format!("{span}, {each}"));
                self.tally.count(Seen::Slow);
                self.nodes[node].slow = Some((self.now + span, each));
                self.blame(|link| link.plan.nodes.contains(&node));
            }
            Happening::Partition { from, to, span } => {
                self.log.note(self.now, &place(from), "partition", || format!("to {to}, {span}"));
                self.dead.push((from, to, self.now + span));
            }
            Happening::SetBack { node, span } => self.set_back(node, span),
            Happening::Misdeliver { to, packet } => self.misdeliver(to, &packet)?,
            Happening::Post { link, side } => self.post(link, side)?,
            Happening::Receive { link, side, psn } => {
                // The message may have taken a receive of the shared queue that is another's.
                let concerned = &self.links[link];
                if concerned.ends[side].psn == psn || concerned.plan.shared[side] {
                    self.post_receive(link, side)?;
                }
            }
            Happening::Break { link, side } => self.break_end(link, side)?,
            Happening::Mend { link } => {
                // What a packet of this moment has completed is taken before its queue pair is gone.
                for node in self.links[link].plan.nodes {
                    self.settle(node)?;
                }
                self.mend(link)?;
            }
            Happening::Sleep { link, side, span } => self.sleep(link, side, span),
            Happening::Resize { node } => self.resize(node)?,
            Happening::SetLimit { node } => self.set_limit(node)?,
            Happening::FreeWindow { link, side, index } => self.free_window(link, side, index)?,
            Happening::Lose { link, side, id, node, loss } => {
                self.lose((link, side), id, node, loss)?;
            }
            Happening::Drain { link, side, span } => self.drain(link, side, span)?,
            Happening::Resume { link, side } => self.resume(link, side)?,
            Happening::Recover { link, side } => self.recover(link, side)?,
            Happening::Forge { link, side } => self.forge(link, side)?,
        }
        Ok(())
    }

    /// The time by the clock of a node.
    pub(super) fn clock(&self, node: usize) -> Time {
        self.now - self.nodes[node].behind
    }

    /// The time with which a node's engine is called: it may be that of an earlier moment.
    pub(super) fn time_of_call(&mut self, node: usize) -> Time {
        if !self.stormy || !self.random.chance(self.plan.faults.waits) {
            return self.clock(node);
        }
        self.tally.count(Seen::Wait);
        self.clock(node) - Span::from_ns(self.random.below(WAIT_MAX_NS))
    }

    /// To the links of a stopped or slow node, any number of packets may look lost.
    pub(super) fn blame(&mut self, concerned: impl Fn(&Link) -> bool) {
        for link in self.links.iter_mut().filter(|link| concerned(link)) {
            link.incidents += STOP_INCIDENTS;
        }
    }

    /// After anything may have happened to a node: its timers, packets, events and completions.
    fn settle(&mut self, index: usize) -> Check {
        if self.nodes[index].stopped.is_none() {
            let now = self.clock(index);
            let endpoint = &mut self.nodes[index].endpoint;
            if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                let Self { driver, tally, .. } = self;
                let rate = if self.stormy { self.plan.faults.put_offs } else { 0 };
                endpoint.handle_timeout_but(now, |_, _, _| {
                    let puts_off = driver.chance(rate);
                    if puts_off {
                        tally.count(Seen::PutOff);
                    }
                    puts_off
                });
                if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                    return Err(format!("a deadline of node {index} is in the past"));
                }
            }
            self.transmit(index)?;
        }
        while let Some(event) = self.nodes[index].endpoint.poll_event() {
            self.raised(index, event)?;
        }
        self.poll(index)?;
        self.check_bounds(index)?;
        match self.nodes[index].ground.complaint.take() {
            None => Ok(()),
            Some(complaint) => Err(format!("node {index}: {complaint}")),
        }
    }

    /// What waits for its turn at a node is no more than the plan allows.
    fn check_bounds(&self, index: usize) -> Check {
        let config = &self.plan.configs[index];
        let Config { out_of_order_packets, out_of_order_bytes, between_hosts, .. } = config;
        let (most_packets, most_bytes) = match between_hosts {
            Some(it) => (it.out_of_order_packets as usize, it.out_of_order_bytes),
            None if config.recovery == Recovery::SelectiveRepeat => {
                (*out_of_order_packets as usize, *out_of_order_bytes)
            }
            None => (0, 0),
        };
        for end in self.links.iter().flat_map(|link| &link.ends).filter(|end| end.node == index) {
            let query = self.nodes[index].endpoint.query_qp(end.qpn);
            for OutOfOrder { packets, bytes } in
                query.map(|query| query.out_of_order).into_iter().flatten()
            {
                if packets >= most_packets && packets > 0 || bytes > most_bytes {
                    return Err(format!("node {index} keeps {packets} packets, {bytes} bytes"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn find(&self, node: usize, qpn: Qpn) -> Option<(usize, usize)> {
        let sides = |link: &Link| link.ends.iter().position(|e| e.node == node && e.qpn == qpn);
        self.links.iter().enumerate().find_map(|(index, link)| Some((index, sides(link)?)))
    }

    fn raised(&mut self, node: usize, event: Event) -> Check {
        self.log.note(self.now, &place(node), "event", || format!("{event:?}"));
        if let Event::QpFatal(qpn) = event
            && let Some((link, side)) = self.find(node, qpn)
            && let end = &self.links[link].ends[side]
            && !end.cq_lost
            && !end.receive_gone
        {
            return Err(format!("{qpn} fails for no reason"));
        }
        match event {
            Event::CompletionNotify(cq) => self.notified(node, cq),
            Event::CqError(cq) => self.overrun(node, cq),
            Event::SrqLimitReached(_) => self.limit_reached(node),
            Event::QpFatal(qpn) | Event::QpRequestError(qpn) | Event::QpAccessError(qpn) => {
                if let Some((link, side)) = self.find(node, qpn) {
                    let end = &mut self.links[link].ends[side];
                    end.refused = !matches!(event, Event::QpFatal(_)) && !end.failed;
                    end.fatal = true;
                    self.mend_later(link);
                }
                Ok(())
            }
            Event::SqDrained(qpn) => match self.find(node, qpn) {
                Some((link, side)) => self.drained(link, side),
                None => Ok(()),
            },
            Event::QpFailed(_) | Event::CommunicationEstablished(_) | Event::LastWqeReached(_) => {
                Ok(())
            }
        }
    }

    pub(super) fn completed(&mut self, index: usize, completion: &Completion) -> Check {
        self.completions += 1;
        self.log.note(self.now, &place(index), "completes", || {
            let Completion { id, status, opcode, qpn, .. } = completion;
            format!("{id} {opcode:?} at {qpn}: {status}")
        });
        let Some((at, side)) = self.find(index, completion.qpn) else {
            return Err(format!("completion of a queue pair that is gone: {completion:?}"));
        };
        if self.links[at].ends[side].cq_lost {
            // One is missing, and so nothing is known of the others.
            return Ok(());
        }
        let mut weather = self.weather();
        let dead = |end: &End| {
            let query = self.nodes[end.node].endpoint.query_qp(end.qpn);
            end.own_cq.is_some()
                && query.is_none_or(|q| matches!(q.state, QpState::Error | QpState::Reset))
        };
        weather.peer_gone = dead(&self.links[at].ends[1 - side]);
        weather.own_gone = dead(&self.links[at].ends[side]);
        let link = &mut self.links[at];
        let is_receive = matches!(
            completion.opcode,
            CompletionOpcode::Recv | CompletionOpcode::RecvWriteImmediate
        );
        if is_receive {
            let ground = &mut self.nodes[index].ground;
            link.receive_completed(side, completion, weather, ground)?;
        } else {
            let peer = link.ends[1 - side].node;
            let [own, other] =
                self.nodes.get_disjoint_mut([index, peer]).expect("a link has two nodes");
            let mut grounds = [&mut own.ground, &mut other.ground];
            if side == 1 {
                grounds.swap(0, 1);
            }
            link.send_completed(side, completion, weather, &mut grounds)?;
        }
        if completion.status != CompletionStatus::Success {
            if self.links[at].ends[side].sqe && self.stormy && self.random.chance(700) {
                let after = Span::from_us(self.random.below(1_000));
                self.schedule(after, Happening::Recover { link: at, side });
            } else {
                self.mend_later(at);
            }
        }
        Ok(())
    }

    /// Destroys everything, in the order in which it depends on each other.
    pub(super) fn destroy(&mut self) -> Check {
        self.check_limits()?;
        for link in &self.links {
            for end in &link.ends {
                let destroyed = self.nodes[end.node].endpoint.destroy_qp(end.qpn);
                destroyed.map_err(|error| format!("a queue pair is {error}"))?;
                if let Some(cq) = end.own_cq {
                    let destroyed = self.nodes[end.node].endpoint.destroy_cq(cq);
                    destroyed.map_err(|error| format!("a completion queue is {error}"))?;
                }
            }
        }
        for index in 0..self.nodes.len() {
            self.destroy_windows(index)?;
            let now = self.clock(index);
            let node = &mut self.nodes[index];
            let endpoint = &mut node.endpoint;
            let mut results = vec![endpoint.destroy_cq(node.cq), endpoint.destroy_srq(node.srq)];
            node.keys.push(node.key);
            results.extend(node.keys.drain(..).map(|key| endpoint.deregister(key)));
            results.extend([endpoint.dealloc_pd(node.pd), endpoint.dealloc_pd(node.other_pd)]);
            if let Some(error) = results.into_iter().find_map(Result::err) {
                return Err(format!("node {index} cannot be taken down: {error}"));
            }
            if endpoint.poll_timeout().is_some() || endpoint.poll_transmit(now, 1).is_some() {
                return Err(format!("node {index} has something to do, and no queue pair"));
            }
        }
        Ok(())
    }
}

/// The name of a node in the log.
pub(super) fn place(node: usize) -> String {
    format!("node {node}")
}

/// All rights that a region can have.
pub(super) fn everything() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}
