//! The calls that an application makes in a step: what each costs, and when it takes effect.

use rdma::app::{Cq, LocalRegion, Qp, Refusal, Refused, Region, RemoteRegion, Verbs};
use rdma::{
    Completion, Operation, QpType, Qpn, RecvRequest, SendFlags, Sge, Span, Time, UdAddress,
    WorkRequest,
};
use smallvec::SmallVec;
use transport::PostError;

use super::task::{OwnPair, Task};
use crate::host::model::wqe_bytes;
use crate::host::{Engine, Host, Stages};
use crate::links::{EventKind, Links};

/// A send request, kept until the NIC knows of it.
#[derive(Debug)]
pub(super) struct Kept {
    id: u64,
    operation: Operation,
    flags: SendFlags,
    sges: SmallVec<[Sge; 2]>,
    inline: Option<SmallVec<[u8; 64]>>,
}

/// A list of send requests, and the doorbell that tells of it.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) task: usize,
    pub(super) qp: usize,
    pub(super) requests: SmallVec<[Kept; 1]>,
    /// Of their entries in the queue.
    pub(super) bytes: u64,
    /// They are in the NIC when the doorbell rings, or when it rings again.
    pub(super) is_here: bool,
    pub(super) is_ready: bool,
}

impl Kept {
    fn of(request: &WorkRequest<'_>) -> Self {
        let WorkRequest { id, operation, flags, sges, inline } = *request;
        Self { id, operation, flags, sges: sges.into(), inline: inline.map(SmallVec::from) }
    }
}

impl Engine {
    /// The NIC knows of a list of requests.
    pub(super) fn post_kept(&mut self, now: u64, qpn: Qpn, kept: &mut SmallVec<[Kept; 1]>) {
        for Kept { id, operation, flags, sges, inline } in kept.drain(..) {
            let inline = inline.as_deref();
            let request = WorkRequest { id, operation, flags, sges: &sges, inline };
            // It was checked when it was posted. If the queue pair has failed since, it is flushed.
            let posted = self.endpoint.post_send(Time::from_ps(now), qpn, &request);
            debug_assert_eq!(posted, Ok(()), "it was checked");
        }
    }
}

/// What an application is called with.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    host: &'a mut Host,
    links: &'a mut Links,
    task: usize,
    /// The present of the step, in picoseconds.
    at: u64,
}

impl<'a> Seat<'a> {
    pub(super) fn new(host: &'a mut Host, links: &'a mut Links, task: usize, at: u64) -> Self {
        Self { host, links, task, at }
    }

    /// When the step is over.
    pub(super) fn ends_at(&self) -> u64 {
        self.at
    }

    fn tenants(&self) -> &super::Tenants {
        self.host.tenants.as_deref().expect("a task has a host with tenants")
    }

    fn tenants_mut(&mut self) -> &mut super::Tenants {
        self.host.tenants.as_deref_mut().expect("a task has a host with tenants")
    }

    fn own(&self) -> &Task {
        &self.tenants().tasks[self.task]
    }

    fn pair(&self, qp: Qp) -> &OwnPair {
        &self.own().pairs[usize::from(qp.0)]
    }

    /// A range of a region.
    fn bytes(&mut self, region: Region, offset: u64, length: u64) -> &mut [u8] {
        let (number, _) = self.own().regions[usize::from(region.0)];
        self.tenants_mut().regions.bytes(number, offset, length)
    }

    fn spend(&mut self, span: Span) {
        self.at += span.as_ps();
    }

    /// A poll has found so many.
    fn has_polled(&mut self, count: usize) -> usize {
        let config = &self.tenants().config;
        let (poll, empty) = (config.poll, config.poll_empty);
        self.spend(if count > 0 { poll * count as u64 } else { empty });
        count
    }

    /// Rings the doorbell for a list of requests.
    fn ring(&mut self, qp: Qp, requests: SmallVec<[Kept; 1]>, bytes: u64, rides: bool) {
        let (task, qp) = (self.task, usize::from(qp.0));
        let doorbell = self.host.stages.as_ref().map_or(0, |nic| nic.config.doorbell.as_ps());
        let delay = self.at + doorbell - self.links.now();
        let tenants = self.tenants_mut();
        let count = requests.len();
        let made = Post { task, qp, requests, bytes, is_here: rides, is_ready: false };
        let post = tenants.posts.insert(made);
        let pair = &mut tenants.tasks[task].pairs[qp];
        pair.held.push_back(post);
        pair.held_requests += count;
        self.links.schedule(delay, EventKind::Doorbell, self.host.port, post);
    }
}

impl Verbs for Seat<'_> {
    fn now(&mut self) -> Time {
        Time::from_ps(self.at)
    }

    fn random(&mut self) -> u64 {
        let task = self.task;
        self.tenants_mut().tasks[task].random.next_u64()
    }

    fn region(&self, region: Region) -> LocalRegion {
        let (number, l_key) = self.own().regions[usize::from(region.0)];
        let (address, length) = self.tenants().regions.place(number);
        LocalRegion { address, length, l_key }
    }

    fn qpn(&self, qp: Qp) -> Qpn {
        self.pair(qp).qpn
    }

    fn peers(&self, qp: Qp) -> usize {
        self.pair(qp).peers.len()
    }

    fn remote(&self, qp: Qp, peer: usize, region: Region) -> Option<RemoteRegion> {
        self.pair(qp).peers.get(peer)?.regions.get(usize::from(region.0)).copied()
    }

    fn remote_address(&self, qp: Qp, peer: usize) -> Option<UdAddress> {
        let pair = self.pair(qp);
        let peer = pair.peers.get(peer).filter(|_| pair.kind == QpType::Ud)?;
        peer.datagram.map(|(address, _)| address)
    }

    fn post_send(&mut self, qp: Qp, requests: &[WorkRequest<'_>]) -> Result<(), Refused> {
        let cpu = &self.tenants().config;
        let (post, piece, byte) = (cpu.post, cpu.post_sge, cpu.inline_byte);
        let pair = self.pair(qp);
        let (engine, qpn, held) = (pair.engine, pair.qpn, pair.held_requests);
        let mut kept: SmallVec<[Kept; 1]> = SmallVec::new();
        let (mut bytes, mut refused) = (0, None);
        for (index, request) in requests.iter().enumerate() {
            let pieces = request.sges.len().saturating_sub(1) as u64;
            let inline = request.inline.map_or(0, <[u8]>::len) as u64;
            self.spend(post + piece * pieces + byte * inline);
            let endpoint = &self.host.engines[engine].endpoint;
            if let Err(error) = endpoint.check_send(qpn, request, held + kept.len()) {
                refused = Some(Refused { index, why: refusal(error) });
                break;
            }
            bytes += wqe_bytes(request);
            kept.push(Kept::of(request));
        }
        if let [first, others @ ..] = requests
            && !kept.is_empty()
        {
            let is_alone = others.is_empty();
            let has_payload =
                first.inline.is_none() && first.sges.iter().any(|piece| piece.length > 0);
            let rides = |stages: &Stages| stages.rides(&first.operation, has_payload, bytes);
            let rides = is_alone && self.host.stages.as_deref().is_none_or(rides);
            self.ring(qp, kept, bytes, rides);
        }
        refused.map_or(Ok(()), Err)
    }

    fn post_recv(&mut self, qp: Qp, requests: &[RecvRequest<'_>]) -> Result<(), Refused> {
        let cost = self.tenants().config.post_recv;
        let pair = self.pair(qp);
        let (engine, qpn) = (pair.engine, pair.qpn);
        for (index, request) in requests.iter().enumerate() {
            self.spend(cost);
            let posted = self.host.engines[engine].endpoint.post_recv(qpn, request);
            posted.map_err(|error| Refused { index, why: refusal(error) })?;
            let task = self.task;
            self.tenants_mut().tasks[task].pairs[usize::from(qp.0)].receives += 1;
        }
        Ok(())
    }

    fn poll(&mut self, cq: Cq, out: &mut [Completion]) -> usize {
        let (task, now) = (self.task, self.at);
        let tenants = self.tenants_mut();
        let mut count = 0;
        let taken = tenants.tasks[task].queues[usize::from(cq.0)].take(now, out.len());
        for (place, (completion, _)) in out.iter_mut().zip(taken) {
            *place = completion;
            count += 1;
        }
        self.has_polled(count)
    }

    fn poll_timed(&mut self, cq: Cq, out: &mut [(Completion, Time)]) -> usize {
        let (task, now) = (self.task, self.at);
        let tenants = self.tenants_mut();
        let mut count = 0;
        let taken = tenants.tasks[task].queues[usize::from(cq.0)].take(now, out.len());
        for (place, (completion, at)) in out.iter_mut().zip(taken) {
            *place = (completion, Time::from_ps(at));
            count += 1;
        }
        self.has_polled(count)
    }

    fn arm(&mut self, cq: Cq, solicited: bool) {
        self.spend(self.tenants().config.arm);
        let (task, now) = (self.task, self.at);
        self.tenants_mut().tasks[task].queues[usize::from(cq.0)].arm(now, solicited);
    }

    /// Costs nothing: what an application means to be charged for, it says by the other calls.
    fn load(&mut self, region: Region, offset: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(self.bytes(region, offset, bytes.len() as u64));
    }

    /// Costs nothing, as [`Seat::load`].
    fn store(&mut self, region: Region, offset: u64, bytes: &[u8]) {
        self.bytes(region, offset, bytes.len() as u64).copy_from_slice(bytes);
    }

    fn touch(&mut self, region: Region, offset: u64, length: u64) {
        self.bytes(region, offset, length);
        self.spend(self.tenants().config.touch_byte * length);
    }

    fn compute(&mut self, span: Span) {
        self.spend(span);
    }

    fn word(&mut self, region: Region, offset: u64) -> u64 {
        self.spend(self.tenants().config.look);
        let mut word = [0; 8];
        self.load(region, offset, &mut word);
        u64::from_ne_bytes(word)
    }
}

fn refusal(error: PostError) -> Refusal {
    match error {
        PostError::Full => Refusal::Full,
        _ => Refusal::Invalid,
    }
}
