//! A hostile peer: random packets, with keys, addresses, lengths and sequence numbers that nearly fit, at
//! a responder whose regions lie between inaccessible pages.
//!
//! A model says what each packet may do. It knows the regions, the windows and the rules of the
//! specification, but nothing of the engine. After each packet the test compares memory and the answer
//! with the model.

use core::ops::Range;

use rdma::{
    Access, Gid, Key, Memory as _, Mtu, Operation, PKey, Psn, QpState, QpType, Qpn, RecvRequest,
    Sge, Time,
};
use softnic::{DeviceInfo, Nic, Options, ProcessMemory};
use transport::{Arrival, Endpoint, QpChange, RegionSpec, Segment, WindowKind};
use wire::aeth::{NakCode, Syndrome};
use wire::opcode::{Attach, Part, Service};
use wire::{Opcode, atomic_eth, reth, roce};

use crate::support::{Events, FIRST_PSN, Host, Mapping, PAGE, all_rights};

const MTU: usize = 1024;
/// Packets of a run, and runs.
const PACKETS: u32 = 20_000;
const SEEDS: Range<u64> = 1..5;
/// How far around a region memory is compared after each packet; whole pages are compared now and then.
const NEAR: usize = 2 * MTU;
const PACKETS_BETWEEN_LOOKS: u32 = 500;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len() as u64) as usize]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// A page between two inaccessible ones, and its expected bytes.
struct Island {
    mapping: Mapping,
    first: u64,
    must_hold: Vec<u8>,
}

impl Island {
    fn new(random: &mut Random) -> Self {
        let (mapping, first) = Mapping::guarded(1);
        let must_hold = random.bytes(PAGE);
        mapping.set(PAGE, &must_hold);
        Self { mapping, first, must_hold }
    }

    fn check(&self, part: Range<usize>) -> bool {
        self.mapping.holds(PAGE + part.start, &self.must_hold[part])
    }
}

/// What a key reaches.
#[derive(Clone, Copy, Debug)]
struct Reach {
    key: Key,
    island: usize,
    /// Its offset in the island's page.
    offset: usize,
    iova: u64,
    length: u64,
    access: Access,
    /// Whether it is for the queue pair that is attacked: of its domain, bound to it, not gone.
    is_ours: bool,
}

/// The model's answer to a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Verdict {
    /// It is done, and these bytes of an island change.
    Done(Option<(usize, usize, Vec<u8>)>),
    /// It is refused for good.
    Refused(NakCode),
    /// No receive is posted for it.
    NotReady,
}

/// A WRITE that has arrived in part.
#[derive(Clone, Copy, Debug)]
struct Message {
    island: usize,
    offset: usize,
    received: usize,
    length: usize,
}

struct Model {
    islands: Vec<Island>,
    reaches: Vec<Reach>,
    /// Rights that the queue pair was given.
    access: Access,
    expected: Psn,
    message: Option<Message>,
    /// The receive that is posted.
    receive: Option<Reach>,
    /// Whether a NAK of a gap is out.
    nak_is_out: bool,
}

/// Rights of the regions.
const RIGHTS: [Access; 4] =
    [Access::LOCAL_WRITE, Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];

impl Model {
    /// What `key` reaches at `iova`, if it may.
    fn find(&self, key: Key, iova: u64, length: u64, needed: Access) -> Option<(usize, usize)> {
        let reach = self.reaches.iter().find(|reach| reach.key == key && reach.is_ours)?;
        let offset = iova.checked_sub(reach.iova)?;
        let fits = offset.checked_add(length)? <= reach.length;
        (fits && reach.access.allows(needed))
            .then(|| (reach.island, reach.offset + offset as usize))
    }

    /// IBTA vol 1, 9.7.4.1: what becomes of a request that is next in sequence.
    fn judge(&self, header: &roce::Repr, payload: &[u8]) -> Verdict {
        use wire::opcode::Operation as Op;
        let invalid = Verdict::Refused(NakCode::InvalidRequest);
        let denied = Verdict::Refused(NakCode::RemoteAccess);
        let facts = header.facts();
        if self.message.is_none() != facts.part.begins()
            || self.message.is_some() && facts.operation != Op::Write
        {
            return invalid;
        }
        let needed = match facts.operation {
            Op::Send => Access::NONE,
            Op::Write | Op::AtomicWrite => Access::REMOTE_WRITE,
            Op::ReadRequest => Access::REMOTE_READ,
            _ => Access::REMOTE_ATOMIC,
        };
        if !self.access.allows(needed) {
            return invalid;
        }
        let takes_receive = facts.operation == Op::Send || header.immediate.is_some();
        if takes_receive && self.receive.is_none() {
            return Verdict::NotReady;
        }
        let fits = match facts.part {
            Part::First | Part::Middle => payload.len() == MTU,
            Part::Last => (1..=MTU).contains(&payload.len()),
            Part::Only => payload.len() <= MTU,
        };
        if facts.payload && !fits {
            return invalid;
        }
        match (facts.operation, header.reth, header.atomic) {
            (Op::Send, ..) => match self.receive {
                Some(receive) if payload.len() as u64 <= receive.length => {
                    // None of these keys is a window of our own, so none may be invalidated.
                    if header.invalidate.is_some() {
                        return denied;
                    }
                    Verdict::Done(Some((receive.island, receive.offset, payload.to_vec())))
                }
                _ => invalid,
            },
            (Op::Write, reth, _) => {
                let (received, length) = match (reth, self.message) {
                    (Some(reth), _) => (0, reth.length as usize),
                    (None, Some(message)) => (message.received, message.length),
                    (None, None) => return invalid,
                };
                let so_far = received + payload.len();
                let fits = if facts.part.ends() { so_far == length } else { so_far < length };
                if !fits || length > 1 << 31 {
                    return invalid;
                }
                let place = match (reth, self.message) {
                    (Some(reth), _) => {
                        self.find(reth.r_key, reth.address, reth.length.into(), needed)
                    }
                    (None, message) => message.map(|message| (message.island, message.offset)),
                };
                match place {
                    _ if length == 0 => Verdict::Done(None),
                    Some((island, offset)) => {
                        Verdict::Done(Some((island, offset + received, payload.to_vec())))
                    }
                    None => denied,
                }
            }
            (Op::ReadRequest, Some(reth), _) => {
                if reth.length > 1 << 31 {
                    return invalid;
                }
                match self.find(reth.r_key, reth.address, reth.length.into(), needed) {
                    None if reth.length > 0 => denied,
                    _ => Verdict::Done(None),
                }
            }
            (Op::AtomicWrite, Some(reth), _) => {
                if payload.len() != 8 || reth.length != 8 || !reth.address.is_multiple_of(8) {
                    return invalid;
                }
                match self.find(reth.r_key, reth.address, 8, needed) {
                    Some((island, offset)) => {
                        Verdict::Done(Some((island, offset, payload.to_vec())))
                    }
                    None => denied,
                }
            }
            (operation, _, Some(atomic)) => {
                if !atomic.address.is_multiple_of(8) {
                    return invalid;
                }
                let Some((island, offset)) = self.find(atomic.r_key, atomic.address, 8, needed)
                else {
                    return denied;
                };
                // The peer's address is aligned, but the memory behind it is not, and processors have no
                // atomic for a word that lies across two.
                if !offset.is_multiple_of(8) {
                    return denied;
                }
                let word = &self.islands[island].must_hold[offset..offset + 8];
                let word = u64::from_ne_bytes(word.try_into().unwrap());
                let new = match operation {
                    Op::FetchAdd => word.wrapping_add(atomic.swap_or_add),
                    _ if word == atomic.compare => atomic.swap_or_add,
                    _ => word,
                };
                Verdict::Done(Some((island, offset, new.to_ne_bytes().to_vec())))
            }
            _ => invalid,
        }
    }

    /// The request was done.
    fn advance(
        &mut self,
        header: &roce::Repr,
        payload: &[u8],
        change: Option<(usize, usize, Vec<u8>)>,
    ) {
        use wire::opcode::Operation as Op;
        let facts = header.facts();
        let (mut island, mut offset) = (0, 0);
        if let Some((at_island, at, bytes)) = change {
            self.islands[at_island].must_hold[at..at + bytes.len()].copy_from_slice(&bytes);
            (island, offset) = (at_island, at);
        }
        if facts.operation == Op::Write {
            let fresh = Message {
                island,
                offset,
                received: 0,
                length: header.reth.map_or(0, |reth| reth.length as usize),
            };
            let mut message = self.message.unwrap_or(fresh);
            message.received += payload.len();
            self.message = Some(message).filter(|_| !facts.part.ends());
        }
        if facts.operation == Op::Send || header.immediate.is_some() {
            self.receive = None;
        }
        let psns = match header.reth {
            Some(reth) if facts.operation == Op::ReadRequest => reth.length.div_ceil(MTU as u32),
            _ => 1,
        };
        self.expected = self.expected.plus(psns.max(1));
        self.nak_is_out = false;
    }

    /// Whether a READ may be answered from here.
    fn is_readable(&self, address: u64, length: u32) -> bool {
        self.reaches.iter().filter(|reach| reach.is_ours).any(|reach| {
            let start = self.islands[reach.island].first + reach.offset as u64;
            let end = start + reach.length;
            reach.access.allows(Access::REMOTE_READ)
                && (start..=end).contains(&address)
                && address + u64::from(length) <= end
        })
    }
}

/// The NIC that is attacked.
struct Scene<'h> {
    host: &'h Host,
    /// The address that it takes for its peer's.
    peer: Gid,
    model: Model,
    random: Random,
}

const PEER: Qpn = Qpn::new(0x123);

impl<'h> Scene<'h> {
    fn open() -> Host {
        let mut device = DeviceInfo::find("lo/127.0.72.1", 0).unwrap();
        device.active_mtu = Mtu::B1024;
        let events = Events::default();
        let nic = Nic::open_with(&device, Box::new(events.clone()), &Options::default()).unwrap();
        Host::on(nic, events, QpType::Rc, 64)
    }

    fn new(host: &'h Host, seed: u64) -> Self {
        let mut random = Random(seed);
        let peer = Gid::from(core::net::Ipv4Addr::new(127, 0, 72, 2));
        let model = Model {
            islands: Vec::new(),
            reaches: Vec::new(),
            access: all_rights(),
            expected: FIRST_PSN,
            message: None,
            receive: None,
            nak_is_out: false,
        };
        host.connect_qp(host.qpn, peer, PEER);
        let mut scene = Self { host, peer, model, random: Random(0) };
        scene.register(&mut random);
        scene.bind(&mut random);
        scene.random = random;
        scene
    }

    /// Regions of every kind, each at the beginning, the end or in the middle of a page.
    fn register(&mut self, random: &mut Random) {
        let Self { host, model, .. } = self;
        let other = host.nic.with(|endpoint, _, _| endpoint.alloc_pd()).unwrap();
        let local = Access::LOCAL_WRITE;
        let every = all_rights() | Access::MW_BIND;
        let kinds = [
            (every, true, false),
            (every, true, false),
            (every, true, true),
            (local | Access::REMOTE_READ, true, false),
            (Access::REMOTE_READ, true, false),
            (local | Access::REMOTE_WRITE, true, false),
            (local | Access::REMOTE_ATOMIC, true, false),
            (local, true, false),
            // Of another domain, and gone.
            (every, false, false),
            (every, false, false),
        ];
        for (index, (access, is_ours, shifted)) in kinds.into_iter().enumerate() {
            let island = Island::new(random);
            let length = random.of(&[0, 1, 7, 8, 4096, 5001]) + 8 * (index % 2);
            let length = if index < 3 { 4096 + length } else { length };
            let offset = match random.below(3) {
                0 => 0,
                1 => PAGE - length,
                _ => random.below((PAGE - length) as u64) as usize,
            };
            let address = island.first + offset as u64;
            let iova = if shifted { 0x10_0000 + random.below(64) } else { address };
            let spec = RegionSpec { address, length: length as u64, iova, access };
            let pd = if index == 8 { other } else { host.pd };
            let key = host.nic.register(pd, spec).unwrap();
            let reach =
                Reach { key, island: index, offset, iova, length: length as u64, access, is_ours };
            if index == 9 {
                host.nic.with(|endpoint, _, _| endpoint.deregister(key)).unwrap();
            }
            model.islands.push(island);
            model.reaches.push(reach);
        }
    }

    /// Windows of both types: one for all queue pairs, one for ours, one for another's.
    fn bind(&mut self, random: &mut Random) {
        let Self { host, model, peer, .. } = self;
        let other = host.create_qp(QpType::Rc);
        host.connect_qp(other, *peer, PEER);
        let kinds = [
            (WindowKind::Type1, host.qpn, true),
            (WindowKind::Type2, host.qpn, true),
            (WindowKind::Type2, other, false),
        ];
        for (index, (kind, qpn, is_ours)) in kinds.into_iter().enumerate() {
            let under = model.reaches[index % 2];
            let window = host.nic.with(|endpoint, _, _| endpoint.alloc_window(host.pd, kind));
            let key = Key::from_parts(window.unwrap().index(), random.next() as u8);
            let offset = random.below(64) as usize;
            let length = 1 + random.below(under.length - 64);
            let access = random.of(&[
                Access::REMOTE_READ,
                Access::REMOTE_WRITE,
                Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            ]);
            let iova = under.iova + offset as u64;
            let operation = Operation::BindWindow {
                r_key: key,
                region: under.key,
                address: iova,
                length,
                access,
            };
            host.post_on(qpn, 1, operation, host.sge(0, 0));
            host.completions(1);
            let offset = under.offset + offset;
            model.reaches.push(Reach { key, offset, iova, length, access, is_ours, ..under });
        }
    }

    /// A number near the edges of what is allowed.
    fn length(&mut self, reach: &Reach) -> u32 {
        let near = reach.length as u32 + 2;
        match self.random.below(8) {
            0 => self.random.of(&[0, 1, 7, 8, 9, 1023, 1024, 1025]),
            1 => near.saturating_sub(self.random.below(5) as u32),
            2 => self.random.of(&[1 << 31, (1 << 31) + 1, u32::MAX]),
            _ => self.random.below(u64::from(near).min(MTU as u64)) as u32,
        }
    }

    fn address(&mut self, reach: &Reach, length: u32) -> u64 {
        let edge = match self.random.below(6) {
            0 => return self.random.next(),
            1 => u64::MAX - 8,
            2 | 3 => reach.iova,
            _ => (reach.iova + reach.length).wrapping_sub(u64::from(length)),
        };
        let near = edge.wrapping_add(self.random.below(5)).wrapping_sub(2);
        match self.random.below(4) {
            0 => near,
            1 => edge,
            2 => edge & !7,
            _ => reach.iova + self.random.below(reach.length.saturating_sub(length.into()) + 1),
        }
    }

    fn key(&mut self, reach: &Reach) -> Key {
        match self.random.below(12) {
            0 => Key(self.random.next() as u32),
            1 => Key::from_parts(reach.key.index(), self.random.next() as u8),
            2 => Key::from_parts(reach.key.index() + 1, reach.key.tag()),
            _ => reach.key,
        }
    }

    /// A request that is nearly right, and its payload.
    fn forge(&mut self) -> (roce::Repr, Vec<u8>) {
        let reaches = self.model.reaches.clone();
        let reach = self.random.of(&reaches);
        let length = self.length(&reach);
        let address = self.address(&reach, length);
        let r_key = self.key(&reach);
        let write = |part, immediate| Opcode::write(Service::Rc, part, immediate);
        let send = |part, attach| Opcode::send(Service::Rc, part, attach);
        let goes_on = self.model.message.filter(|_| !self.random.one_in(6));
        let opcode = match goes_on {
            Some(_) => self.random.of(&[write(Part::Middle, false), write(Part::Last, false)]),
            None => self.random.of(&[
                write(Part::Only, false),
                write(Part::Only, false),
                write(Part::Only, true),
                write(Part::First, false),
                write(Part::First, false),
                write(Part::Last, false),
                send(Part::Only, Attach::Nothing),
                send(Part::Only, Attach::Nothing),
                send(Part::Only, Attach::Immediate),
                send(Part::Only, Attach::Invalidate),
                Opcode::RC_READ_REQUEST,
                Opcode::RC_READ_REQUEST,
                Opcode::RC_COMPARE_SWAP,
                Opcode::RC_FETCH_ADD,
                Opcode::RC_ATOMIC_WRITE,
            ]),
        };
        let facts = opcode.facts();
        let mut header = roce::Repr::new(opcode, self.host.qpn, self.model.expected);
        header.bth.ack_request = self.random.one_in(2);
        let (mut asked, mut length) = (length, length as usize);
        match (facts.part, goes_on) {
            (Part::Last, Some(message)) => length = message.length - message.received,
            (Part::First | Part::Middle, _) => length = MTU,
            _ => {}
        }
        if opcode == Opcode::RC_ATOMIC_WRITE {
            (asked, length) = (8, 8);
        }
        if self.random.one_in(10) {
            length = length.wrapping_add(1);
        }
        let payload =
            if facts.payload { self.random.bytes(length.min(2 * MTU)) } else { Vec::new() };
        header.reth = Some(reth::Repr { address, r_key, length: asked })
            .filter(|_| facts.headers.has(wire::opcode::Headers::RETH));
        header.atomic = Some(atomic_eth::Repr {
            address,
            r_key,
            swap_or_add: self.random.next(),
            compare: self.random.next(),
        })
        .filter(|_| facts.headers.has(wire::opcode::Headers::ATOMIC_ETH));
        header.immediate =
            Some([1, 2, 3, 4]).filter(|_| facts.headers.has(wire::opcode::Headers::IMMDT));
        // Of a region, or of a window that is not our own to invalidate.
        header.invalidate = Some(self.random.of(&reaches))
            .map(|reach| if reach.is_ours { reaches[0].key } else { reach.key })
            .filter(|_| facts.headers.has(wire::opcode::Headers::IETH));
        (header.padded_for(payload.len() as u32), payload)
    }

    /// Resets the queue pair and connects it again, with random rights, and with or without a receive.
    fn begin(&mut self, endpoint: &mut Endpoint) {
        let access = RIGHTS[1..].iter().filter(|_| !self.random.one_in(5));
        let access = access.fold(Access::NONE, |all, right| all | *right);
        endpoint.modify_qp(self.host.qpn, &QpChange::to(QpState::Reset)).unwrap();
        for change in self.host.way_to_rts(self.peer, PEER, access) {
            endpoint.modify_qp(self.host.qpn, &change).unwrap();
        }
        self.model.access = access;
        self.model.expected = FIRST_PSN;
        self.model.message = None;
        self.model.receive = None;
        self.model.nak_is_out = false;
    }

    fn post_receive(&mut self, endpoint: &mut Endpoint) {
        let choice: Vec<Reach> = self.model.reaches[..8]
            .iter()
            .filter(|reach| reach.access.allows(Access::LOCAL_WRITE))
            .copied()
            .collect();
        let mut receive = self.random.of(&choice);
        let shorter = self.random.below(receive.length + 1);
        // Up to the very end of the region.
        receive.offset += shorter as usize;
        receive.iova += shorter;
        receive.length -= shorter;
        let sge = Sge { address: receive.iova, length: receive.length as u32, l_key: receive.key };
        let request = RecvRequest { id: 1, sges: &[sge] };
        endpoint.post_recv(self.host.qpn, &request).unwrap();
        self.model.receive = Some(receive);
    }

    /// Collects the syndromes of the engine's answers. All memory that it sends must be readable, by the
    /// model and in fact.
    fn answers(
        &self,
        now: Time,
        endpoint: &mut Endpoint,
        memory: &mut ProcessMemory,
    ) -> Vec<Syndrome> {
        let mut syndromes = Vec::new();
        let mut bytes = vec![0; MTU];
        while let Some(run) = endpoint.poll_transmit(now, 1) {
            syndromes.extend(run.header().aeth.map(|aeth| aeth.syndrome));
            for segment in run.payload().segments() {
                let Segment::Memory { address, length } = segment else { continue };
                assert!(self.model.is_readable(address, length), "{:?}", run.header());
                memory.load(address, &mut bytes[..length as usize]).unwrap();
            }
            run.sent();
        }
        while endpoint.poll_event().is_some() {}
        while endpoint.poll_cq(self.host.cq).is_some() {}
        syndromes
    }

    fn check(&self, step: u32) -> bool {
        let whole = step.is_multiple_of(PACKETS_BETWEEN_LOOKS);
        self.model.reaches.iter().all(|reach| {
            let island = &self.model.islands[reach.island];
            let start = reach.offset.saturating_sub(NEAR);
            let end = (reach.offset + reach.length as usize + NEAR).min(PAGE);
            island.check(if whole { 0..PAGE } else { start..end })
        })
    }

    /// A packet that must change nothing, whatever is in it.
    fn ignore(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        memory: &mut ProcessMemory,
    ) -> Result<(), String> {
        let (mut header, payload) = self.forge();
        let mut arrival = self.arrival();
        let before = *endpoint.stats();
        let (name, counter): (_, fn(&transport::Stats) -> u64) = match self.random.below(7) {
            0 => {
                arrival.source = self.host.gid().gid;
                ("source", |stats| stats.drop_wrong_source)
            }
            1 => {
                let (uc, ud) =
                    (Opcode::write(Service::Uc, Part::Only, false), Opcode::UD_SEND_ONLY);
                header.bth.opcode = self.random.of(&[uc, ud]);
                ("transport", |stats| stats.drop_wrong_transport)
            }
            2 => {
                header.bth.destination = Qpn::new(self.host.qpn.value() + 100);
                ("queue pair", |stats| stats.drop_unknown_qpn)
            }
            3 => {
                header.bth.p_key = PKey(0x1234);
                ("partition", |stats| stats.drop_pkey)
            }
            4 => {
                let ahead = 1 + self.random.below((1 << 23) - 1) as u32;
                header.bth.psn = self.model.expected.plus(ahead);
                if self.model.nak_is_out {
                    ("hole, told already", |stats| stats.drop_out_of_order)
                } else {
                    self.model.nak_is_out = true;
                    ("hole", |stats| stats.out_of_seq_request)
                }
            }
            5 => {
                let behind = 1 + self.random.below((1 << 23) - 1) as u32;
                header.bth.psn = self.model.expected.minus(behind);
                ("past", |stats| stats.duplicate_request)
            }
            _ => {
                header.bth.opcode = self.random.of(&[
                    Opcode::RC_ACKNOWLEDGE,
                    Opcode::RC_ATOMIC_ACKNOWLEDGE,
                    Opcode::read_response(Part::Only),
                ]);
                header.aeth = Some(wire::aeth::Repr {
                    syndrome: Syndrome::ACK,
                    msn: self.random.next() as u32,
                });
                header.atomic_ack = Some(self.random.next());
                ("answer", |stats| stats.drop_unexpected_response)
            }
        };
        let _ = endpoint.handle(now, &arrival, &header, payload[..].into(), payload.len(), memory);
        let answers = self.answers(now, endpoint, memory);
        let state = endpoint.query_qp(self.host.qpn).unwrap();
        if counter(endpoint.stats()) != counter(&before) + 1 {
            return Err(format!("{name}: not counted: {header:?}\n{}", endpoint.stats()));
        }
        let refused = answers
            .iter()
            .any(|answer| matches!(answer, Syndrome::Nak(code) if *code != NakCode::SequenceError));
        if refused || state.state != QpState::Rts || state.rq_psn != self.model.expected {
            return Err(format!("{name}: {answers:?} {state:?}: {header:?}"));
        }
        Ok(())
    }

    fn arrival(&self) -> Arrival {
        let destination = self.host.gid().gid;
        Arrival { source: self.peer, destination, traffic_class: 0, hop_limit: 64 }
    }

    /// A packet that is next in sequence.
    fn attack(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        memory: &mut ProcessMemory,
    ) -> Result<(), String> {
        let (header, payload) = self.forge();
        // A parser refuses a packet that is longer than it says; these packets have passed one.
        let mut bytes = vec![0; header.header_len() + payload.len() + usize::from(header.bth.pad)];
        header.emit(&mut bytes);
        let start = header.header_len();
        bytes[start..start + payload.len()].copy_from_slice(&payload);
        let (header, payload) = roce::Repr::parse(&bytes).unwrap();
        let verdict = self.model.judge(&header, payload);
        let arrival = self.arrival();
        let result = endpoint.handle(now, &arrival, &header, payload.into(), payload.len(), memory);
        let answers = self.answers(now, endpoint, memory);
        let state = endpoint.query_qp(self.host.qpn).unwrap().state;
        let right = match &verdict {
            Verdict::Done(_) => {
                let all_good = answers.iter().all(|answer| matches!(answer, Syndrome::Ack { .. }));
                result.is_ok() && all_good && state == QpState::Rts
            }
            Verdict::Refused(code) => answers == [Syndrome::Nak(*code)] && state == QpState::Error,
            Verdict::NotReady => {
                matches!(answers[..], [Syndrome::RnrNak { .. }]) && state == QpState::Rts
            }
        };
        if !right {
            return Err(format!("{verdict:?}: {result:?} {answers:?} {state:?}: {header:?}"));
        }
        match verdict {
            Verdict::Done(change) => self.model.advance(&header, payload, change),
            Verdict::Refused(_) => self.begin(endpoint),
            Verdict::NotReady => self.model.nak_is_out = true,
        }
        Ok(())
    }
}

#[test]
fn whatever_a_peer_sends_it_reaches_what_it_may_and_nothing_else() {
    for seed in SEEDS {
        let host = Scene::open();
        let mut scene = Scene::new(&host, seed);
        for step in 0..PACKETS {
            let result = host.nic.with(|endpoint, memory, now| {
                if scene.model.receive.is_none() && scene.random.one_in(2) {
                    scene.post_receive(endpoint);
                }
                if scene.random.one_in(4) {
                    scene.ignore(now, endpoint, memory)
                } else {
                    scene.attack(now, endpoint, memory)
                }
            });
            assert_eq!(result, Ok(()), "seed {seed}, packet {step}");
            assert!(scene.check(step), "seed {seed}, packet {step}");
        }
        // Both sides of the edge have been visited.
        let stats = host.nic.with(|endpoint, _, _| *endpoint.stats());
        for count in [
            stats.resp_remote_access_errors,
            stats.rx_write_requests,
            stats.rx_read_requests,
            stats.rx_atomic_requests,
        ] {
            assert!(count > u64::from(PACKETS) / 500, "{stats}");
        }
    }
}
