//! The NIC world: applications on whatever devices the system's `libibverbs.so.1` has.
//!
//! It does what a verbs program does, and no more: `ibv_poll_cq` in a loop, `ibv_get_cq_event` when it
//! sleeps, and the device's own progress otherwise. So it measures an RDMA NIC, the kernel's Soft-RoCE,
//! and Ferroce's own library as any program meets it.

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use fastrand::Rng;
use rdma::app::{Cq, Layout, LocalRegion, Qp, Refusal, Refused, Region, RemoteRegion, Verbs};
use rdma::{Completion, Gid, Psn, QpType, Qpn, RecvRequest, Span, Time, UdAddress, WorkRequest};
use rustix::event::{PollFd, PollFlags, poll};
use softnic::clock;
use verbs::{
    CompletionChannel, CompletionQueue, Connection, Context, GidEntry, Library, Pd, Port,
    QueuePair, QueuePairSpec,
};

use super::meeting::{End, Reach, Service};
use super::memory::Memory;
use super::runner::check;
use super::stash::Stash;
use super::{HOP_LIMIT, Introduction, Peer, Q_KEY, Seat, Stop, timespec};
use crate::Failure;

/// A device that is open, and the address that it is used by.
#[derive(Debug)]
pub struct Device {
    context: Arc<Context>,
    port: Port,
    source: GidEntry,
}

/// An application's objects on a device.
#[derive(Debug)]
pub struct NicSeat {
    device: Arc<Device>,
    stop: Stop,
    /// Readable when the world is over.
    over: OwnedFd,
    // In the order in which they go.
    qps: Vec<Pair>,
    cqs: Vec<Queue>,
    channel: Arc<CompletionChannel>,
    regions: Vec<(verbs::Region, Memory)>,
    serves: bool,
    random: Rng,
    failed: AtomicBool,
}

#[derive(Debug)]
struct Queue {
    queue: Arc<CompletionQueue>,
    stash: Stash,
    armed: bool,
    /// There was an event that nobody has waited for yet.
    has_event: bool,
}

#[derive(Debug)]
struct Pair {
    pair: QueuePair,
    kind: QpType,
    end: End,
    traffic_class: u8,
    peers: Vec<Peer>,
}

fn failure(error: verbs::Error) -> Failure {
    Failure::new(error.to_string())
}

impl Device {
    /// Opens the device `name`, or the first that there is; `gid` is the place of its address in its table,
    /// otherwise the first for RoCEv2 is used.
    ///
    /// # Errors
    /// There is no such device, it has no active port of Ethernet, or no address.
    pub fn open(
        library: &Arc<Library>,
        name: Option<&str>,
        gid: Option<u8>,
    ) -> Result<Arc<Self>, Failure> {
        let names = library.devices().map_err(|error| {
            failure(error).hint("RDMA devices are in /sys/class/infiniband; is there one?")
        })?;
        let known = match names.as_slice() {
            [] => "the library finds no device".to_owned(),
            names => format!("the devices are {}", names.join(", ")),
        };
        let name = name.or(names.first().map(String::as_str));
        let name = name.ok_or_else(|| Failure::new("there is no RDMA device").hint(&known))?;
        let context = library.open(name).map_err(|error| failure(error).hint(&known))?;
        let port = context.port().map_err(failure)?;
        let gids = context.gids().map_err(failure)?;
        let source = match gid {
            None => gids.first(),
            Some(index) => gids.iter().find(|entry| entry.index == index),
        };
        let source = *source.ok_or_else(|| {
            let places: Vec<String> = gids.iter().map(|entry| entry.index.to_string()).collect();
            let hint = match places.as_slice() {
                [] => "give its interface an IP address".to_owned(),
                places => format!("it has such addresses at {}", places.join(", ")),
            };
            Failure::new(format!("{name} has no such address for RoCEv2")).hint(hint)
        })?;
        Ok(Arc::new(Self { context, port, source }))
    }

    /// As `rxe0, ::ffff:10.0.0.1`.
    pub fn label(&self) -> String {
        format!("{} at {}", self.context.name(), self.source.gid.ip())
    }
}

impl NicSeat {
    /// Sets up what `layout` asks for on `device`. `seed` is of its numbers of chance.
    ///
    /// # Errors
    /// What the device has refused.
    pub fn new(
        device: &Arc<Device>,
        layout: &Layout<'_>,
        stop: &Stop,
        seed: u64,
    ) -> Result<Self, Failure> {
        check(layout)?;
        let mut random = Rng::with_seed(seed);
        let pd = Pd::new(&device.context).map_err(failure)?;
        let channel = CompletionChannel::new(&device.context).map_err(failure)?;
        let mut regions = Vec::new();
        for (index, spec) in layout.regions.iter().enumerate() {
            let memory = Memory::new(spec.length)?;
            let (words, range) = memory.words();
            let length = spec.length as usize;
            let region = verbs::Region::register(&pd, words, range, length, spec.access);
            let region = region.map_err(refused(&format!("region {index}")))?;
            regions.push((region, memory));
        }
        let mut cqs: Vec<Queue> = Vec::new();
        for (index, spec) in layout.cqs.iter().enumerate() {
            let queue = CompletionQueue::new(&channel, spec.depth, index);
            let queue = queue.map_err(refused(&format!("completion queue {index}")))?;
            cqs.push(Queue { queue, stash: Stash::default(), armed: false, has_event: false });
        }
        let mut qps = Vec::new();
        for (index, spec) in layout.qps.iter().enumerate() {
            let service = Service::of(spec.kind).ok_or_else(|| {
                Failure::new(format!("queue pair {index}: an application has RC, UC or UD"))
            })?;
            let made = QueuePairSpec {
                kind: spec.kind,
                send_depth: spec.send_depth,
                recv_depth: spec.recv_depth,
                sges: spec.sges,
                inline_bytes: spec.inline_bytes,
            };
            let cq = |cq: Cq| &cqs[usize::from(cq.0)].queue;
            let pair = QueuePair::new(&pd, &made, cq(spec.send_cq), cq(spec.recv_cq));
            let pair = pair.map_err(refused(&format!("queue pair {index}")))?;
            let end = End {
                channel: spec.channel.0,
                service,
                qpn: pair.qpn().value(),
                psn: random.u32(..1 << 24),
                reads: spec.reads,
            };
            let (kind, traffic_class) = (spec.kind, spec.traffic_class);
            qps.push(Pair { pair, kind, end, traffic_class, peers: Vec::new() });
        }
        Ok(Self {
            device: Arc::clone(device),
            stop: stop.clone(),
            over: stop.descriptor()?,
            qps,
            cqs,
            channel,
            regions,
            serves: layout.serves,
            random,
            failed: AtomicBool::new(false),
        })
    }

    fn memory(&self, region: Region) -> &Memory {
        &self.regions[usize::from(region.0)].1
    }

    /// Takes the events that have come.
    fn take_events(&mut self) -> Result<(), Failure> {
        while let Some(index) = self.channel.take().map_err(failure)? {
            if let Some(queue) = self.cqs.get_mut(index) {
                queue.has_event = true;
            }
        }
        Ok(())
    }

    /// Sleeps until there is an event, the world is over, or the time.
    fn doze(&self, hears_events: bool, until: Option<Time>) {
        let left = until.map(|until| timespec(until.since(clock::now())));
        let fds = &mut [
            PollFd::new(&self.over, PollFlags::IN),
            PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN),
        ];
        let count = if hears_events { 2 } else { 1 };
        // A signal ends it early; then it is looked again.
        let _ = poll(&mut fds[..count], left.as_ref());
    }
}

/// Why the device refused to make something.
fn refused(what: &str) -> impl FnOnce(verbs::Error) -> Failure + '_ {
    move |error| {
        let failure = Failure::new(format!("the device did not make {what}: {error}"));
        match error.errno() {
            Some(12) => failure.hint("allow more memory to be locked: ulimit -l"),
            _ => failure,
        }
    }
}

/// Polls a queue. One that has failed ends the application.
fn polled(queue: &CompletionQueue, failed: &AtomicBool, out: &mut [Completion]) -> usize {
    queue.poll(out).unwrap_or_else(|_| {
        failed.store(true, Ordering::Relaxed);
        0
    })
}

fn post(posted: Result<(), (usize, verbs::Error)>) -> Result<(), Refused> {
    posted.map_err(|(index, error)| {
        // ENOMEM, or EAGAIN as some providers have it.
        let is_full = matches!(error.errno(), Some(11 | 12));
        Refused { index, why: if is_full { Refusal::Full } else { Refusal::Invalid } }
    })
}

impl Verbs for NicSeat {
    fn now(&mut self) -> Time {
        clock::now()
    }

    fn random(&mut self) -> u64 {
        self.random.u64(..)
    }

    fn region(&self, region: Region) -> LocalRegion {
        let (registered, memory) = &self.regions[usize::from(region.0)];
        LocalRegion {
            address: memory.address(),
            length: memory.length(),
            l_key: registered.l_key(),
        }
    }

    fn qpn(&self, qp: Qp) -> Qpn {
        self.qps[usize::from(qp.0)].pair.qpn()
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
        Some(peer.address(self.device.source.gid, pair.traffic_class))
    }

    fn post_send(&mut self, qp: Qp, requests: &[WorkRequest<'_>]) -> Result<(), Refused> {
        post(self.qps[usize::from(qp.0)].pair.post_send(requests))
    }

    fn post_recv(&mut self, qp: Qp, requests: &[RecvRequest<'_>]) -> Result<(), Refused> {
        post(self.qps[usize::from(qp.0)].pair.post_recv(requests))
    }

    fn poll(&mut self, cq: Cq, out: &mut [Completion]) -> usize {
        let Queue { queue, stash, .. } = &mut self.cqs[usize::from(cq.0)];
        stash.poll(out, |out| polled(queue, &self.failed, out))
    }

    fn arm(&mut self, cq: Cq, solicited: bool) {
        let queue = &mut self.cqs[usize::from(cq.0)];
        queue.armed = true;
        if queue.queue.arm(solicited).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
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

impl Seat for NicSeat {
    fn introduction(&self) -> Introduction {
        let reach = |(region, memory): &(verbs::Region, Memory)| Reach {
            address: memory.address(),
            length: memory.length(),
            key: region.r_key().0,
        };
        Introduction {
            gid: self.device.source.gid.0,
            mtu: self.device.port.active_mtu.bytes(),
            regions: self.regions.iter().map(reach).collect(),
            ends: self.qps.iter().map(|pair| pair.end).collect(),
            serves: self.serves,
        }
    }

    fn connect(&mut self, peers: Vec<Vec<Peer>>) -> Result<(), Failure> {
        let own = self.device.port.active_mtu;
        for (index, (pair, peers)) in self.qps.iter_mut().zip(peers).enumerate() {
            pair.peers = peers;
            let of_peer = |peer: &Peer| {
                let end = peer.end();
                let reads = pair.end.reads.min(end.reads);
                (Gid(peer.introduction.gid), peer.path_mtu(own), end.qpn, end.psn, reads)
            };
            let (gid, path_mtu, qpn, psn, rd_atomics) = match pair.peers.first() {
                Some(peer) => of_peer(peer),
                // Datagrams may go to whom the application has an address of.
                None if pair.kind == QpType::Ud => {
                    (self.device.source.gid, own, pair.end.qpn, 0, 0)
                }
                None => continue,
            };
            let connected = pair.pair.connect(&Connection {
                source: self.device.source,
                gid,
                traffic_class: pair.traffic_class,
                hop_limit: HOP_LIMIT,
                path_mtu,
                destination: Qpn::new(qpn),
                rq_psn: Psn::new(psn),
                sq_psn: Psn::new(pair.end.psn),
                rd_atomics,
                q_key: Q_KEY,
            });
            connected.map_err(|error| {
                Failure::new(format!("queue pair {index} could not be connected: {error}"))
            })?;
        }
        Ok(())
    }

    fn look(&mut self, cq: Cq) -> bool {
        let Queue { queue, stash, .. } = &mut self.cqs[usize::from(cq.0)];
        stash.look(|out| polled(queue, &self.failed, out))
    }

    fn sleep_for_event(&mut self, cq: Cq, until: Option<Time>) -> Result<bool, Failure> {
        let index = usize::from(cq.0);
        if !self.cqs[index].armed && !self.cqs[index].has_event {
            return Err(Failure::new(format!(
                "the application waits for an event of completion queue {index}, which it has not armed"
            )));
        }
        loop {
            self.take_events()?;
            let queue = &mut self.cqs[index];
            if core::mem::take(&mut queue.has_event) {
                queue.armed = false;
                return Ok(true);
            }
            let is_late = until.is_some_and(|until| clock::now() >= until);
            if self.stop.is_over() || is_late || self.fault().is_some() {
                return Ok(false);
            }
            self.doze(true, until);
        }
    }

    fn sleep(&mut self, until: Option<Time>) {
        while !self.stop.is_over() && until.is_none_or(|until| clock::now() < until) {
            self.doze(false, until);
        }
    }

    /// The device needs none of ours.
    fn progress(&mut self) {}

    fn stop(&self) -> &Stop {
        &self.stop
    }

    fn fault(&self) -> Option<Failure> {
        self.failed.load(Ordering::Relaxed).then(|| {
            Failure::new("a completion queue has failed, and with it its queue pairs")
                .hint("fewer requests outstanding, or a deeper queue")
        })
    }
}
