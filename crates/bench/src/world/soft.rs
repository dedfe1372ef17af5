//! The soft world: applications on soft NICs of this process.
//!
//! ```text
//!   Host ── Nic ── engine ─ events ─► Channels: which CQ's event goes to which Channel
//!     ▲                                              │
//!   Seat: memory, CQs, QPs of one application ◄── Channel: a flag a CQ, an eventfd
//! ```
//!
//! A poll polls the NIC and receives in this thread, as an unmodified program's `ibv_poll_cq` does. Who
//! waits for an event does the work of the NIC's own thread meanwhile, as in `ibv_get_cq_event`
//! ([`softnic::StandIn`]), if it is alone on its NIC. Who watches memory receives between two looks.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fastrand::Rng;
use rdma::app::{Cq, Layout, LocalRegion, Qp, Refusal, Refused, Region, RemoteRegion, Verbs};
use rdma::{
    Completion, Gid, Key, Psn, QpType, Qpn, RecvRequest, Span, Time, UdAddress, WorkRequest,
};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use softnic::{DeviceInfo, EventSink, GidEntry, Nic, Options, clock};
use transport::{AddressVector, BringUp, CqId, Event, Notify, PdId, PostError, QpSpec, RegionSpec};

use super::meeting::{End, Reach, Service};
use super::memory::Memory;
use super::runner::{check, wake};
use super::stash::Stash;
use super::{HOP_LIMIT, Introduction, Peer, Q_KEY, Seat, Stop, timespec};
use crate::Failure;
use crate::outcome::DeviceCounts;

/// The time of this world.
pub fn now() -> Time {
    clock::now()
}

/// An open NIC.
#[derive(Debug)]
pub struct Host {
    nic: Nic,
    gid: GidEntry,
    channels: Arc<Channels>,
    /// How many applications sit here.
    seats: AtomicUsize,
}

/// Where the engine's events go.
#[derive(Debug, Default)]
struct Channels {
    of_cq: Mutex<BTreeMap<CqId, (Arc<Channel>, usize)>>,
}

impl EventSink for Channels {
    fn event(&self, event: Event) {
        let of_cq = self.of_cq.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::CompletionNotify(cq) => {
                if let Some((channel, index)) = of_cq.get(&cq) {
                    channel.signal(*index);
                }
            }
            Event::CqError(cq) => {
                if let Some((channel, index)) = of_cq.get(&cq) {
                    channel.overrun.store(true, Ordering::Release);
                    channel.signal(*index);
                }
            }
            // Completions say what has become of queue pairs.
            _ => {}
        }
    }
}

/// The completion channel of an application.
#[derive(Debug)]
struct Channel {
    /// Which CQs have had an event. The lock is held while the descriptor is written to or read, so
    /// that both say the same.
    events: Mutex<Vec<bool>>,
    overrun: AtomicBool,
    /// Readable if there has been an event, or the world is over.
    fd: OwnedFd,
}

impl Channel {
    fn signal(&self, cq: usize) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events[cq] = true;
        wake(self.fd.as_fd());
    }

    fn has_event(&self, cq: usize) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)[cq]
    }

    /// Takes the event of a CQ, if there is one.
    fn take(&self, cq: usize) -> bool {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        core::mem::take(&mut events[cq])
    }
}

/// Readable when a channel is, or a time has come.
#[derive(Debug)]
struct Alarm {
    either: OwnedFd,
    timer: OwnedFd,
}

impl Alarm {
    fn new(channel: &Channel) -> rustix::io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (fd, number) in [(channel.fd.as_fd(), 0), (timer.as_fd(), 1)] {
            epoll::add(&either, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        Ok(Self { either, timer })
    }

    /// Sets it anew.
    fn set(&self, span: Span) {
        let value = timespec(span);
        let spec = Itimerspec { it_interval: timespec(Span::ZERO), it_value: value };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
    }
}

impl Host {
    /// Opens a NIC.
    ///
    /// # Errors
    /// As [`Nic::open_with`], and a device without an address.
    pub fn open(device: &DeviceInfo, options: &Options) -> Result<Arc<Self>, Failure> {
        let usable = device.gids.iter().rfind(|entry| entry.usable);
        let gid = *usable.ok_or_else(|| {
            Failure::new(format!("{} has no address that can be used", device.interface))
        })?;
        let channels = Arc::new(Channels::default());
        let sink = Box::new(Listener(Arc::clone(&channels)));
        let nic =
            Nic::open_with(device, sink, options).map_err(|error| Failure::from_message(&error))?;
        Ok(Arc::new(Self { nic, gid, channels, seats: AtomicUsize::new(0) }))
    }

    /// The NIC.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }
}

/// The engine owns its sink; the host keeps a hand on it.
#[derive(Debug)]
struct Listener(Arc<Channels>);

impl EventSink for Listener {
    fn event(&self, event: Event) {
        self.0.event(event);
    }
}

/// An application's objects on a soft NIC.
#[derive(Debug)]
pub struct SoftSeat {
    host: Arc<Host>,
    stop: Stop,
    channel: Arc<Channel>,
    alarm: OnceLock<Alarm>,
    pd: PdId,
    regions: Vec<(Memory, Key)>,
    cqs: Vec<Queue>,
    qps: Vec<Pair>,
    serves: bool,
    random: Rng,
}

/// A completion queue.
#[derive(Debug)]
struct Queue {
    id: CqId,
    armed: bool,
    stash: Stash,
}

#[derive(Debug)]
struct Pair {
    qpn: Qpn,
    kind: QpType,
    end: End,
    traffic_class: u8,
    peers: Vec<Peer>,
}

impl SoftSeat {
    /// Sets up what `layout` asks for on `host`. `seed` is of its numbers of chance.
    ///
    /// # Errors
    /// The NIC has no room, or does not know what is asked for.
    pub fn new(
        host: &Arc<Host>,
        layout: &Layout<'_>,
        stop: &Stop,
        seed: u64,
    ) -> Result<Self, Failure> {
        check(layout)?;
        let channel = Arc::new(Channel {
            events: Mutex::new(vec![false; layout.cqs.len()]),
            overrun: AtomicBool::new(false),
            fd: stop.descriptor()?,
        });
        let nic = &host.nic;
        let pd = nic.with(|endpoint, _, _| endpoint.alloc_pd()).map_err(refused("a domain"))?;
        host.seats.fetch_add(1, Ordering::Relaxed);
        let mut seat = Self {
            host: Arc::clone(host),
            stop: stop.clone(),
            channel,
            alarm: OnceLock::new(),
            pd,
            regions: Vec::new(),
            cqs: Vec::new(),
            qps: Vec::new(),
            serves: layout.serves,
            random: Rng::with_seed(seed),
        };
        for (index, spec) in layout.regions.iter().enumerate() {
            let memory = Memory::new(spec.length)?;
            let address = memory.address();
            let (length, access) = (spec.length, spec.access);
            let region = RegionSpec { address, length, iova: address, access };
            let key = seat.host.nic.register(pd, region);
            seat.regions.push((memory, key.map_err(refused(&format!("region {index}")))?));
        }
        for (index, spec) in layout.cqs.iter().enumerate() {
            let made = seat.host.nic.with(|endpoint, _, _| endpoint.create_cq(spec.depth));
            let id = made.map_err(refused(&format!("completion queue {index}")))?;
            seat.cqs.push(Queue { id, armed: false, stash: Stash::default() });
            let mut of_cq = seat.host.channels.of_cq.lock().unwrap_or_else(PoisonError::into_inner);
            of_cq.insert(id, (Arc::clone(&seat.channel), index));
        }
        for (index, spec) in layout.qps.iter().enumerate() {
            let pair = seat.pair(index, spec)?;
            seat.qps.push(pair);
        }
        Ok(seat)
    }

    fn pair(&mut self, index: usize, spec: &rdma::app::QpSpec) -> Result<Pair, Failure> {
        let service = Service::of(spec.kind).ok_or_else(|| {
            Failure::new(format!("queue pair {index}: an application has RC, UC or UD"))
        })?;
        let cqs = [spec.send_cq, spec.recv_cq].map(|cq| self.cqs[usize::from(cq.0)].id);
        let made = QpSpec::for_app(spec, self.pd, cqs);
        let qpn = self.host.nic.with(|endpoint, _, _| endpoint.create_qp(made));
        let qpn = qpn.map_err(refused(&format!("queue pair {index}")))?;
        let end = End {
            channel: spec.channel.0,
            service,
            qpn: qpn.value(),
            psn: self.random.u32(..1 << 24),
            reads: spec.reads,
        };
        let (kind, traffic_class) = (spec.kind, spec.traffic_class);
        Ok(Pair { qpn, kind, end, traffic_class, peers: Vec::new() })
    }

    /// The processes' own descriptor to sleep on, which is readable at the deadline, too.
    fn ready(&self, until: Option<Time>) -> Result<BorrowedFd<'_>, Failure> {
        let Some(until) = until else { return Ok(self.channel.fd.as_fd()) };
        if self.alarm.get().is_none() {
            let made = Alarm::new(&self.channel);
            let made = made.map_err(|error| Failure::new(format!("opening a timer: {error}")))?;
            let _ = self.alarm.set(made);
        }
        let alarm = self.alarm.get().expect("it was set just now");
        alarm.set(until.since(clock::now()).max(Span::from_ns(1)));
        Ok(alarm.either.as_fd())
    }

    fn queue(&mut self, cq: Cq) -> &mut Queue {
        &mut self.cqs[usize::from(cq.0)]
    }

    fn memory(&self, region: Region) -> &Memory {
        &self.regions[usize::from(region.0)].0
    }
}

/// Why the NIC refused to make something.
fn refused<E: core::fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure + '_ {
    move |error| Failure::new(format!("the NIC did not make {what}: {error}"))
}

impl Drop for SoftSeat {
    fn drop(&mut self) {
        let nic = &self.host.nic;
        nic.with(|endpoint, _, _| {
            for pair in &self.qps {
                let _ = endpoint.destroy_qp(pair.qpn);
            }
            for queue in &self.cqs {
                let _ = endpoint.destroy_cq(queue.id);
            }
            // Before the memory goes.
            for (_, key) in &self.regions {
                let _ = endpoint.deregister(*key);
            }
            let _ = endpoint.dealloc_pd(self.pd);
        });
        let mut of_cq = self.host.channels.of_cq.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in &self.cqs {
            of_cq.remove(&queue.id);
        }
        drop(of_cq);
        self.host.seats.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Verbs for SoftSeat {
    fn now(&mut self) -> Time {
        clock::now()
    }

    fn random(&mut self) -> u64 {
        self.random.u64(..)
    }

    fn region(&self, region: Region) -> LocalRegion {
        let (memory, key) = &self.regions[usize::from(region.0)];
        LocalRegion { address: memory.address(), length: memory.length(), l_key: *key }
    }

    fn qpn(&self, qp: Qp) -> Qpn {
        self.qps[usize::from(qp.0)].qpn
    }

    fn peers(&self, qp: Qp) -> usize {
        self.qps[usize::from(qp.0)].peers.len()
    }

    fn remote(&self, qp: Qp, peer: usize, region: Region) -> Option<RemoteRegion> {
        self.qps[usize::from(qp.0)].peers.get(peer)?.region(usize::from(region.0))
    }

    fn remote_address(&self, qp: Qp, peer: usize) -> Option<UdAddress> {
        let pair = &self.qps[usize::from(qp.0)];
        let peer = pair.peers.get(peer).filter(|_| pair.kind == QpType::Ud)?;
        Some(peer.address(self.host.gid.gid, pair.traffic_class))
    }

    fn post_send(&mut self, qp: Qp, requests: &[WorkRequest<'_>]) -> Result<(), Refused> {
        let qpn = self.qps[usize::from(qp.0)].qpn;
        self.host.nic.post(qpn, |endpoint, _, now| {
            for (index, request) in requests.iter().enumerate() {
                let posted = endpoint.post_send(now, qpn, request);
                posted.map_err(|error| Refused { index, why: refusal(error) })?;
            }
            Ok(())
        })
    }

    fn post_recv(&mut self, qp: Qp, requests: &[RecvRequest<'_>]) -> Result<(), Refused> {
        let qpn = self.qps[usize::from(qp.0)].qpn;
        self.host.nic.with(|endpoint, _, _| {
            for (index, request) in requests.iter().enumerate() {
                let posted = endpoint.post_recv(qpn, request);
                posted.map_err(|error| Refused { index, why: refusal(error) })?;
            }
            Ok(())
        })
    }

    fn poll(&mut self, cq: Cq, out: &mut [Completion]) -> usize {
        let Queue { id, stash, .. } = &mut self.cqs[usize::from(cq.0)];
        stash.poll(out, |out| self.host.nic.poll_cq(*id, out))
    }

    fn poll_timed(&mut self, cq: Cq, out: &mut [(Completion, Time)]) -> usize {
        let Queue { id, stash, .. } = &mut self.cqs[usize::from(cq.0)];
        let mut count = 0;
        for place in out {
            // What a busy wait has taken in advance has been here for a moment only.
            let mut one = [Completion::NOTHING];
            let found = match stash.poll(&mut one, |_| 0) {
                0 => self.host.nic.poll_cq_timed(*id),
                _ => Some((one[0], clock::now())),
            };
            let Some(found) = found else { break };
            *place = found;
            count += 1;
        }
        count
    }

    fn arm(&mut self, cq: Cq, solicited: bool) {
        let queue = self.queue(cq);
        queue.armed = true;
        let id = queue.id;
        let notify = if solicited { Notify::Solicited } else { Notify::Next };
        // The queue is there as long as the seat is.
        let _ = self.host.nic.with(|endpoint, _, _| endpoint.arm_cq(id, notify));
    }

    fn load(&mut self, region: Region, offset: u64, bytes: &mut [u8]) {
        self.memory(region).load(offset, bytes);
    }

    fn store(&mut self, region: Region, offset: u64, bytes: &[u8]) {
        self.memory(region).store(offset, bytes);
    }

    fn touch(&mut self, region: Region, offset: u64, length: u64) {
        self.memory(region).touch(offset, length);
    }

    fn compute(&mut self, span: Span) {
        let end = clock::now() + span;
        while clock::now() < end {
            core::hint::spin_loop();
        }
    }

    fn word(&mut self, region: Region, offset: u64) -> u64 {
        self.memory(region).word(offset)
    }
}

fn refusal(error: PostError) -> Refusal {
    match error {
        PostError::Full => Refusal::Full,
        _ => Refusal::Invalid,
    }
}

impl Seat for SoftSeat {
    fn introduction(&self) -> Introduction {
        let reach = |(memory, key): &(Memory, Key)| Reach {
            address: memory.address(),
            length: memory.length(),
            key: key.0,
        };
        Introduction {
            gid: self.host.gid.gid.0,
            mtu: self.host.nic.device().active_mtu.bytes(),
            regions: self.regions.iter().map(reach).collect(),
            ends: self.qps.iter().map(|pair| pair.end).collect(),
            serves: self.serves,
        }
    }

    fn connect(&mut self, peers: Vec<Vec<Peer>>) -> Result<(), Failure> {
        let own = self.host.nic.device().active_mtu;
        let gid = self.host.gid;
        for (index, (pair, peers)) in self.qps.iter_mut().zip(peers).enumerate() {
            pair.peers = peers;
            let path = AddressVector {
                source_gid: gid.gid,
                source_gid_index: gid.index,
                traffic_class: pair.traffic_class,
                hop_limit: HOP_LIMIT,
                ..AddressVector::default()
            };
            let with = match pair.peers.first() {
                Some(peer) => {
                    let end = peer.end();
                    let path = AddressVector { gid: Gid(peer.introduction.gid), ..path };
                    BringUp {
                        rq_psn: Psn::new(end.psn),
                        rd_atomics: pair.end.reads.min(end.reads),
                        between_hosts: self.host.nic.is_of_another_host(path.gid),
                        ..BringUp::new(path, peer.path_mtu(own), Qpn::new(end.qpn))
                    }
                }
                // Datagrams may go to whom the application has an address of.
                None if pair.kind == QpType::Ud => {
                    BringUp::new(AddressVector { gid: gid.gid, ..path }, own, pair.qpn)
                }
                None => continue,
            };
            let with = BringUp { q_key: Q_KEY, sq_psn: Psn::new(pair.end.psn), ..with };
            let qpn = pair.qpn;
            let brought = self.host.nic.with(|endpoint, _, _| endpoint.bring_up(qpn, &with));
            brought.map_err(|error| {
                Failure::new(format!("queue pair {index} could not be connected: {error}"))
            })?;
        }
        self.host.nic.start();
        Ok(())
    }

    fn look(&mut self, cq: Cq) -> bool {
        let Queue { id, stash, .. } = &mut self.cqs[usize::from(cq.0)];
        stash.look(|out| self.host.nic.poll_cq(*id, out))
    }

    fn sleep_for_event(&mut self, cq: Cq, until: Option<Time>) -> Result<bool, Failure> {
        let index = usize::from(cq.0);
        let channel = Arc::clone(&self.channel);
        if !self.cqs[index].armed && !channel.has_event(index) {
            return Err(Failure::new(format!(
                "the application waits for an event of completion queue {index}, which it has not armed"
            )));
        }
        let stand_in = self.host.nic.stand_in();
        let is_alone = self.host.seats.load(Ordering::Relaxed) == 1;
        let is_late = || until.is_some_and(|until| clock::now() >= until);
        loop {
            if channel.take(index) {
                self.cqs[index].armed = false;
                return Ok(true);
            }
            if self.stop.is_over() || is_late() || self.fault().is_some() {
                return Ok(false);
            }
            let ready = self.ready(until)?;
            let is_there = || channel.has_event(index) || self.stop.is_over() || is_late();
            if is_alone {
                match stand_in.until(ready, is_there) {
                    Err(error) if error.kind() != ErrorKind::Interrupted => {
                        return Err(Failure::new(format!("waiting for an event: {error}")));
                    }
                    _ if is_there() => continue,
                    _ => {}
                }
            }
            let waiting = stand_in.waiting();
            // A signal ends it early; then it is looked again.
            let _ = poll(&mut [PollFd::new(&ready, PollFlags::IN)], None);
            drop(waiting);
        }
    }

    fn sleep(&mut self, until: Option<Time>) {
        while !self.stop.is_over() {
            let left = until.map(|until| until.since(clock::now()));
            if left == Some(Span::ZERO) {
                return;
            }
            let left = left.map(timespec);
            // An event that nobody waits for must not keep it awake.
            let _ = rustix::io::read(&self.channel.fd, &mut [0; 8]);
            if self.stop.is_over() {
                return;
            }
            let _ = poll(&mut [PollFd::new(&self.channel.fd, PollFlags::IN)], left.as_ref());
        }
    }

    fn progress(&mut self) {
        self.host.nic.poll();
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }

    fn device_counts(&self) -> Option<DeviceCounts> {
        if self.host.seats.load(Ordering::Relaxed) != 1 {
            return None;
        }
        let stats = self.host.nic.with(|endpoint, _, _| *endpoint.stats());
        Some(DeviceCounts {
            sent_bytes: stats.sent_bytes,
            rcvd_bytes: stats.rcvd_bytes,
            rx_atomic_requests: stats.rx_atomic_requests,
            retransmitted_pkts: stats.retransmitted_pkts,
            disordered: stats.duplicate_request + stats.out_of_seq_request,
        })
    }

    fn fault(&self) -> Option<Failure> {
        self.channel.overrun.load(Ordering::Acquire).then(|| {
            Failure::new("a completion queue was full, and its queue pairs have failed")
                .hint("fewer requests outstanding, or a deeper queue")
        })
    }
}
