//! The plainest world: two engines, a pretended network, and applications that are stepped in turn.

use std::collections::VecDeque;

use rdma::app::{
    App, Cq, LocalRegion, On, Qp, Refusal, Refused, Region, RemoteRegion, Verbs, Wait, Woke,
};
use rdma::{
    Completion, Gid, Key, Memory as _, Mtu, QKey, QpType, Qpn, RecvRequest, Span, Time, UdAddress,
    WorkRequest,
};
use transport::testing::{Pair, TestMemory};
use transport::{
    AddressVector, BringUp, Config, CqId, Event, Notify, PostError, QpSpec, RegionSpec,
};

use crate::program::Program;

const Q_KEY: QKey = QKey(7);
/// Model time that passes between two steps.
const MOMENT: Span = Span::from_us(5);

/// The objects of one application.
struct Objects {
    regions: Vec<(u64, u64, Key)>,
    cqs: Vec<(CqId, VecDeque<Completion>)>,
    qps: Vec<(Qpn, QpType)>,
}

/// What an application is called with.
struct Reference<'a> {
    pair: &'a mut Pair,
    objects: &'a mut [Objects; 2],
    side: usize,
}

impl Reference<'_> {
    fn own(&self) -> &Objects {
        &self.objects[self.side]
    }

    fn look(&mut self, cq: Cq) -> bool {
        let (id, taken) = &mut self.objects[self.side].cqs[usize::from(cq.0)];
        if taken.is_empty() {
            taken.extend(self.pair.nodes[self.side].endpoint.poll_cq(*id));
        }
        !taken.is_empty()
    }

    fn wakes(&mut self, wait: &Wait) -> Option<Woke> {
        match wait.on {
            On::Poll(cq) => self.look(cq).then_some(Woke::Completions),
            On::Event(cq) => {
                let notify = Event::CompletionNotify(self.own().cqs[usize::from(cq.0)].0);
                let events = &mut self.pair.nodes[self.side].events;
                let found = events.iter().position(|event| *event == notify);
                found.map(|at| events.remove(at)).map(|_| Woke::Event)
            }
            On::Words(words) => (0..words.count)
                .find(|index| {
                    let offset = words.offset + u64::from(*index) * words.stride;
                    self.word(words.region, offset) != words.idle
                })
                .map(Woke::Word),
            On::Time => wait.until.filter(|until| *until <= self.pair.now).map(|_| Woke::Deadline),
            On::Turn => Some(Woke::Turn),
            On::Done => None,
        }
    }
}

impl Verbs for Reference<'_> {
    fn now(&mut self) -> Time {
        self.pair.now
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn region(&self, region: Region) -> LocalRegion {
        let (address, length, l_key) = self.own().regions[usize::from(region.0)];
        LocalRegion { address, length, l_key }
    }

    fn qpn(&self, qp: Qp) -> Qpn {
        self.own().qps[usize::from(qp.0)].0
    }

    fn peers(&self, _: Qp) -> usize {
        1
    }

    fn remote(&self, _: Qp, peer: usize, region: Region) -> Option<RemoteRegion> {
        let theirs = &self.objects[1 - self.side];
        let (address, length, r_key) = *theirs.regions.get(usize::from(region.0))?;
        (peer == 0).then_some(RemoteRegion { address, length, r_key })
    }

    fn remote_address(&self, qp: Qp, _: usize) -> Option<UdAddress> {
        let (qpn, kind) = self.objects[1 - self.side].qps[usize::from(qp.0)];
        (kind == QpType::Ud).then_some(UdAddress {
            gid: self.pair.nodes[1 - self.side].gid,
            source_gid: self.pair.nodes[self.side].gid,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            qpn,
            q_key: Q_KEY,
        })
    }

    fn post_send(&mut self, qp: Qp, requests: &[WorkRequest<'_>]) -> Result<(), Refused> {
        let (qpn, now) = (self.qpn(qp), self.pair.now);
        for (index, request) in requests.iter().enumerate() {
            let posted = self.pair.nodes[self.side].endpoint.post_send(now, qpn, request);
            posted.map_err(|error| Refused { index, why: refusal(error) })?;
        }
        Ok(())
    }

    fn post_recv(&mut self, qp: Qp, requests: &[RecvRequest<'_>]) -> Result<(), Refused> {
        let qpn = self.qpn(qp);
        for (index, request) in requests.iter().enumerate() {
            let posted = self.pair.nodes[self.side].endpoint.post_recv(qpn, request);
            posted.map_err(|error| Refused { index, why: refusal(error) })?;
        }
        Ok(())
    }

    fn poll(&mut self, cq: Cq, out: &mut [Completion]) -> usize {
        let mut count = 0;
        while count < out.len() && self.look(cq) {
            let (_, taken) = &mut self.objects[self.side].cqs[usize::from(cq.0)];
            out[count] = taken.pop_front().unwrap();
            count += 1;
        }
        count
    }

    fn arm(&mut self, cq: Cq, solicited: bool) {
        let id = self.own().cqs[usize::from(cq.0)].0;
        let notify = if solicited { Notify::Solicited } else { Notify::Next };
        self.pair.nodes[self.side].endpoint.arm_cq(id, notify).unwrap();
    }

    fn load(&mut self, region: Region, offset: u64, bytes: &mut [u8]) {
        let (address, length, _) = self.own().regions[usize::from(region.0)];
        assert!(offset + bytes.len() as u64 <= length);
        self.pair.nodes[self.side].memory.load(address + offset, bytes).unwrap();
    }

    fn store(&mut self, region: Region, offset: u64, bytes: &[u8]) {
        let (address, length, _) = self.own().regions[usize::from(region.0)];
        assert!(offset + bytes.len() as u64 <= length);
        self.pair.nodes[self.side].memory.store(address + offset, bytes).unwrap();
    }

    fn touch(&mut self, _: Region, _: u64, _: u64) {}

    fn compute(&mut self, _: Span) {}
}

fn refusal(error: PostError) -> Refusal {
    if error == PostError::Full { Refusal::Full } else { Refusal::Invalid }
}

fn set_up(pair: &mut Pair, side: usize, app: &Program) -> Objects {
    let layout = app.layout();
    let node = &mut pair.nodes[side];
    let mut free = TestMemory::BASE;
    let regions = layout
        .regions
        .iter()
        .map(|spec| {
            let (address, length, access) = (free, spec.length, spec.access);
            free = (free + length).next_multiple_of(4096);
            let region = RegionSpec { address, length, iova: address, access };
            (address, length, node.endpoint.register(node.pd, region).unwrap())
        })
        .collect();
    let cq =
        |spec: &rdma::app::CqSpec| (node.endpoint.create_cq(spec.depth).unwrap(), VecDeque::new());
    let cqs: Vec<_> = layout.cqs.iter().map(cq).collect();
    let qps = layout
        .qps
        .iter()
        .map(|spec| {
            let at = [spec.send_cq, spec.recv_cq].map(|cq| cqs[usize::from(cq.0)].0);
            let made = QpSpec::for_app(spec, node.pd, at);
            (node.endpoint.create_qp(made).unwrap(), spec.kind)
        })
        .collect();
    Objects { regions, cqs, qps }
}

fn connect(pair: &mut Pair, objects: &[Objects; 2]) {
    let gids: [Gid; 2] = [pair.nodes[0].gid, pair.nodes[1].gid];
    for side in [0, 1] {
        for ((qpn, _), (peer, _)) in objects[side].qps.iter().zip(&objects[1 - side].qps) {
            let path = AddressVector {
                gid: gids[1 - side],
                source_gid: gids[side],
                ..AddressVector::default()
            };
            let with =
                BringUp { q_key: Q_KEY, rd_atomics: 4, ..BringUp::new(path, Mtu::B1024, *peer) };
            pair.nodes[side].endpoint.bring_up(*qpn, &with).unwrap();
        }
    }
}

/// Runs two applications to their end.
pub(crate) fn run(mut apps: [Program; 2]) -> [Program; 2] {
    let mut pair = Pair::new(Config::default());
    let mut objects = [0, 1].map(|side| set_up(&mut pair, side, &apps[side]));
    connect(&mut pair, &objects);
    let mut waits: [Option<Wait>; 2] = [None, None];
    for _ in 0..1_000_000 {
        for side in [0, 1] {
            let mut verbs = Reference { pair: &mut pair, objects: &mut objects, side };
            let woke = match &waits[side] {
                None => Some(Woke::Start),
                Some(wait) => verbs.wakes(wait),
            };
            if let Some(woke) = woke {
                waits[side] = Some(apps[side].step(&mut verbs, woke));
            }
        }
        if waits.iter().flatten().all(|wait| wait.on == On::Done) {
            return apps;
        }
        pair.drive_for(MOMENT);
    }
    panic!("they wait for ever: {waits:?}");
}
