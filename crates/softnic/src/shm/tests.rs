//! Peers of this host that lie: in their offers, in what they write to a ring, and in what they say
//! of ours. They may make queue pairs fail; they may not make us crash, wait or reach other memory.

mod lies;
mod offers;

use core::time::Duration;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use rdma::{
    Access, CompletionStatus, Key, Operation, Psn, QpType, Qpn, SendFlags, Sge, WorkRequest,
};
use transport::{AddressVector, BringUp, CqId, PdId, QpCapacity, QpSpec, RegionSpec};
use wire::opcode::{Part, Service};
use wire::{Opcode, reth, roce};

use super::ring::{DECLARES_PAIR, Entry, WITH_ICRC};
use super::*;
use crate::attachment::Attachment;
use crate::limits::{PACKET_MAX, PAUSE_MAX, RUNS_BEFORE_OFFER};
use crate::memory::map;
use crate::testing::{open_by, paused_for};
use crate::{DeviceInfo, Nic, Options, PathChoice};

const BYTES: usize = 4096;
const PSN: Psn = Psn::new(100);
const PATIENCE_SECONDS: u64 = 20;
const RING_MEMORY: usize = 4096 + crate::limits::RING_BYTES;
/// Where a ring has its state, and what its receiver writes there who takes it.
const STATE_AT: usize = 128;
const AWAKE: u64 = 1;

/// A NIC with a region, which has no thread and is polled.
struct Honest {
    nic: Nic,
    pd: PdId,
    cq: CqId,
    key: Key,
    memory: Box<[u8]>,
}

impl Honest {
    fn open(address: &str, path: PathChoice) -> Self {
        let nic = open_by(address, path);
        let memory = vec![0; BYTES].into_boxed_slice();
        let address = memory.as_ptr().expose_provenance() as u64;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let (pd, cq, key) = nic.with(|endpoint, _, _| {
            let pd = endpoint.alloc_pd().unwrap();
            let cq = endpoint.create_cq(256).unwrap();
            let length = BYTES as u64;
            let region = RegionSpec { address, length, iova: address, access };
            (pd, cq, endpoint.register(pd, region).unwrap())
        });
        Self { nic, pd, cq, key, memory }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    fn gid(&self) -> Gid {
        self.nic.device().gids.iter().rfind(|entry| entry.usable).unwrap().gid
    }

    fn member(&self) -> Member {
        self.nic.shared().lock().attachment.site.membership.registry.member()
    }

    /// A queue pair that is connected to `peer` at `gid`, which is told of it before.
    fn queue_pair(&self, gid: Gid, peer: impl FnOnce(Qpn) -> Qpn) -> Qpn {
        let (kind, cq, srq) = (QpType::Rc, self.cq, None);
        let capacity = QpCapacity { send_wr: 16, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: 0 };
        let (send_cq, recv_cq, pd, signal_all) = (cq, cq, self.pd, true);
        let spec = QpSpec { kind, pd, send_cq, recv_cq, srq, capacity, signal_all };
        let qpn = self.nic.with(|endpoint, _, _| endpoint.create_qp(spec)).unwrap();
        let entry = *self.nic.device().gids.iter().rfind(|entry| entry.usable).unwrap();
        let path = AddressVector {
            gid,
            source_gid: entry.gid,
            source_gid_index: entry.index,
            hop_limit: 64,
            ..AddressVector::default()
        };
        let with = BringUp {
            rq_psn: PSN,
            sq_psn: PSN,
            timeout: 10,
            retry_count: 2,
            rnr_retry: 0,
            ..BringUp::new(path, self.nic.device().active_mtu, peer(qpn))
        };
        self.nic.with(|endpoint, _, _| endpoint.bring_up(qpn, &with)).unwrap();
        qpn
    }

    /// Posts a WRITE.
    fn post(&self, qpn: Qpn, length: u32, (remote_address, r_key): (u64, Key)) {
        let sges = [Sge { address: self.address(), length, l_key: self.key }];
        let operation = Operation::Write { remote_address, r_key, immediate: None };
        let flags = SendFlags::SIGNALED;
        let request = WorkRequest { id: 1, operation, flags, sges: &sges, inline: None };
        self.nic.with(|endpoint, _, now| endpoint.post_send(now, qpn, &request)).unwrap();
    }

    /// WRITEs eight bytes, does something else `meanwhile`, and says how the WRITE ended.
    fn write(&self, qpn: Qpn, to: (u64, Key), mut meanwhile: impl FnMut()) -> CompletionStatus {
        self.post(qpn, 8, to);
        let started = Instant::now();
        loop {
            if let Some((completion, _)) = self.nic.poll_cq_timed(self.cq) {
                return completion.status;
            }
            assert!(started.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", self.nic.counts());
            meanwhile();
            self.nic.poll();
        }
    }

    /// Writes to another, by whatever path there is.
    fn reaches(&self, other: &Self) {
        let mut theirs = None;
        let ours = self.queue_pair(other.gid(), |ours| {
            let qpn = other.queue_pair(self.gid(), |_| ours);
            theirs = Some(qpn);
            qpn
        });
        let status = self.write(ours, (other.address(), other.key), || other.nic.poll());
        assert_eq!(status, CompletionStatus::Success);
    }

    /// Writes to another, so often that the next time it is offered a ring.
    fn reaches_often(&self, other: &Self) {
        (0..RUNS_BEFORE_OFFER).for_each(|_| self.reaches(other));
    }

    /// Has a ring to another, and one from it, from now on.
    fn shares_rings_with(&self, other: &Self) {
        let before = [self, other].map(|one| one.nic.counts().tx_ring_packets);
        let started = Instant::now();
        let has_ring = |(one, before): (&Self, u64)| one.nic.counts().tx_ring_packets > before;
        while ![self, other].into_iter().zip(before).all(has_ring) {
            self.reaches(other);
            assert!(started.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", self.nic.counts());
        }
    }

    /// How many NICs of this host it has looked for and found.
    fn knows(&self) -> usize {
        let mut core = self.nic.shared().lock();
        core.attachment.site.paths.shm().peers.iter().flatten().count()
    }

    /// Takes the offers that have arrived, and looks at nothing else.
    fn takes_offers(&self) {
        let mut core = self.nic.shared().lock();
        let (Attachment { site, .. }, engine) = core.parts(crate::clock::now());
        site.paths.shm().receive_messages(&site.membership.registry, engine.counts);
    }

    /// Looks at rings alone.
    fn looks_at_rings(&self) {
        let mut core = self.nic.shared().lock();
        let (Attachment { receiver, site, .. }, mut engine) = core.parts(crate::clock::now());
        receiver.receive_from_rings(site, &mut engine);
    }
}

/// Somebody with a slot and an address, as a NIC has, who does with rings what it likes.
struct Liar {
    attachment: Attachment,
    link: Shm,
    /// The ring to the victim.
    ring: Producer,
    victim: Member,
}

impl Liar {
    /// Has a ring to `victim`, which that has taken.
    fn open(address: &str, victim: &Honest) -> Self {
        let mut liar = Self::without_ring(address, victim);
        let (ring, file) = Producer::create(7).unwrap();
        liar.ring = ring;
        liar.offer(Some(&file), 7);
        victim.nic.poll();
        assert_eq!(victim.nic.counts().rings_taken, 1);
        liar
    }

    fn without_ring(address: &str, victim: &Honest) -> Self {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        let mut attachment = Attachment::open(&device, &Options::default()).unwrap();
        let link = core::mem::replace(attachment.site.paths.shm(), Shm::none());
        let victim = victim.member();
        let (ring, _) = Producer::create(0).unwrap();
        Self { attachment, link, ring, victim }
    }

    fn offers(&self) -> &Offers {
        self.link.offers.as_ref().unwrap()
    }

    fn message(&self, kind: Kind, nonce: u64) -> Message {
        let from = self.attachment.site.membership.registry.member();
        Message { kind, from, nonce }
    }

    fn offer(&self, file: Option<&OwnedFd>, nonce: u64) {
        let message = self.message(Kind::Offer, nonce);
        self.offers().send(self.victim, message, file.map(AsFd::as_fd)).unwrap();
    }

    /// Takes the ring that it is offered, if it is.
    fn take_ring(&self) -> Option<map::Map> {
        let file = self.offers().receive()??.file?;
        let map = map::map_sealed_memory(file.as_fd(), RING_MEMORY).unwrap();
        map.word(STATE_AT).store(AWAKE, core::sync::atomic::Ordering::SeqCst);
        Some(map)
    }

    /// Has the victim speak to it until it is offered a ring, and takes that.
    fn take_ring_from(&self, victim: &Honest) -> map::Map {
        let started = Instant::now();
        loop {
            assert!(started.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", victim.nic.counts());
            let qpn = victim.queue_pair(self.address(), |_| self.qpn());
            victim.post(qpn, 8, (0, Key(0)));
            // What was posted to it does not end later, among other things.
            victim.nic.with(|endpoint, _, _| endpoint.destroy_qp(qpn)).unwrap();
            if let Some(map) = self.take_ring() {
                return map;
            }
        }
    }

    fn address(&self) -> Gid {
        self.attachment.site.membership.sockets[0].address().into()
    }

    fn qpn(&self) -> Qpn {
        Qpn::new(
            u32::from(self.attachment.site.membership.registry.slot()) << crate::limits::SLOT_SHIFT
                | 5,
        )
    }

    /// Says between which addresses pair `number` goes.
    fn declare(&mut self, number: u8, source: Gid, destination: Gid) {
        let entry = Entry { pair: number, flags: DECLARES_PAIR, ..Entry::default() };
        assert_eq!(self.ring.push(entry, &[source.0, destination.0].concat()), Ok(true));
    }

    /// Puts in a WRITE of eight bytes to `address`.
    fn push_write(&mut self, pair: u8, to: Qpn, psn: Psn, (address, key): (u64, Key)) {
        let header = roce::Repr {
            reth: Some(reth::Repr { address, r_key: key, length: 8 }),
            ..roce::Repr::new(Opcode::write(Service::Rc, Part::Only, false), to, psn)
        };
        let mut packet = [0; 64];
        let at = header.emit(&mut packet);
        packet[at..at + 8].copy_from_slice(b"I am not");
        let entry = Entry { pair, ..Entry::default() };
        assert_eq!(self.ring.push(entry, &packet[..at + 8]), Ok(true));
    }
}

#[test]
fn a_nic_that_ends_stays_until_what_it_has_sent_is_taken() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (mut a, b) = (open("127.0.48.56"), open("127.0.48.57"));
    a.shares_rings_with(&b);
    a.memory.fill(7);
    let qpn = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
    let sges = [Sge { address: a.address(), length: 8, l_key: a.key }];
    let (remote_address, r_key) = (b.address(), b.key);
    let operation = Operation::Write { remote_address, r_key, immediate: None };
    let flags = SendFlags::SIGNALED;
    let request = WorkRequest { id: 1, operation, flags, sges: &sges, inline: None };
    a.nic.with(|endpoint, _, now| endpoint.post_send(now, qpn, &request)).unwrap();
    let ending = std::thread::spawn(move || drop(a));
    let began = Instant::now();
    while !ending.is_finished() && began.elapsed() < Duration::from_millis(2) {
        std::thread::yield_now();
    }
    b.nic.poll();
    assert_eq!(b.memory[..9], [7, 7, 7, 7, 7, 7, 7, 7, 0], "{:?}", b.nic.counts());
    ending.join().unwrap();
}

#[test]
fn what_a_nic_has_not_looked_at_is_not_lost() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.58"), open("127.0.48.59"));
    a.shares_rings_with(&b);
    let before = a.nic.counts().tx_packets;
    let ours = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
    // It is kept from looking for longer than all retries of a queue pair take.
    let mut begins = None;
    let status = a.write(ours, (b.address(), b.key), || {
        let began = begins.get_or_insert_with(Instant::now);
        if began.elapsed() > Duration::from_millis(60) {
            b.nic.poll();
        }
    });
    assert_eq!(status, CompletionStatus::Success);
    let counts = a.nic.counts();
    assert!(counts.ring_timeouts_put_off > 0, "{counts:?}");
    assert_eq!(counts.tx_packets, before + 1);
}

#[test]
fn what_was_sent_by_udp_before_a_ring_began_is_not_lost() {
    // Whether it has taken the ring, and more has been sent through that, or it has only been offered it.
    for (takes, first) in [(false, 80), (true, 82)] {
        let open = |host| Honest::open(&format!("127.0.48.{host}"), PathChoice::SharedMemory);
        let pair = |_| {
            let (a, b) = (open(first), open(first + 1));
            a.reaches_often(&b);
            // What a busy machine has sent again counts as well: then there are offers already.
            (a.knows() + b.knows() == 0).then_some((a, b))
        };
        let (a, b) = (0..20).find_map(pair).unwrap();
        let before = a.nic.counts();
        let post = || {
            let ours = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
            a.post(ours, 8, (b.address(), b.key));
        };
        post();
        let mut waiting = 1;
        if takes {
            b.takes_offers();
            post();
            waiting += 1;
        }
        let began = Instant::now();
        while waiting > 0 {
            // It is kept from looking for longer than all retries of a queue pair take.
            if a.nic.counts().ring_timeouts_put_off > 4 {
                b.nic.poll();
            }
            if let Some((completion, _)) = a.nic.poll_cq_timed(a.cq) {
                assert_eq!(completion.status, CompletionStatus::Success);
                waiting -= 1;
            }
            assert!(began.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", a.nic.counts());
        }
        let counts = a.nic.counts();
        let sent = (counts.tx_packets - before.tx_packets, counts.tx_ring_packets);
        assert_eq!(sent, if takes { (2, 1) } else { (1, 0) });
    }
}

#[test]
fn what_a_nic_has_taken_and_not_answered_is_not_lost() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.71"), open("127.0.48.72"));
    a.shares_rings_with(&b);
    let ours = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
    // Nor is it the second time, after an answer to what was missed before.
    (0..2).for_each(|_| is_awaited(&a, &b, ours));
}

fn is_awaited(a: &Honest, b: &Honest, ours: Qpn) {
    let before = a.nic.counts();
    a.post(ours, 8, (b.address(), b.key));
    // It is stopped between the two.
    b.looks_at_rings();
    assert_eq!(b.nic.shared().lock().counts.rx_ring_packets, before.tx_ring_packets + 1);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(100) {
        a.nic.poll();
    }
    let completion = a.nic.poll_cq_timed(a.cq);
    assert!(completion.is_none(), "{completion:?}");
    while a.nic.poll_cq_timed(a.cq).is_none() {
        b.nic.poll();
        a.nic.poll();
        assert!(began.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", a.nic.counts());
    }
    let counts = a.nic.counts();
    assert_eq!(counts.tx_packets, before.tx_packets + 1);
    assert!(counts.ring_timeouts_put_off > before.ring_timeouts_put_off, "{counts:?}");
}

#[test]
fn what_waits_for_room_in_a_ring_is_not_dropped_while_a_busy_machine_may_be_the_cause() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.73"), open("127.0.48.74"));
    a.shares_rings_with(&b);
    // More than a ring holds.
    let mut posted = 0;
    for _ in 0..8 {
        let qpn = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
        for _ in 0..14 {
            a.post(qpn, BYTES as u32, (b.address(), b.key));
            posted += 1;
        }
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_nanos(2 * PAUSE_MAX.as_ns_ceil()) {
        a.nic.poll();
    }
    while posted > 0 {
        if let Some((completion, _)) = a.nic.poll_cq_timed(a.cq) {
            assert_eq!(completion.status, CompletionStatus::Success);
            posted -= 1;
        }
        b.nic.poll();
        a.nic.poll();
        assert!(began.elapsed().as_secs() < PATIENCE_SECONDS, "{posted}: {:?}", a.nic.counts());
    }
    let counts = a.nic.counts();
    assert_eq!((counts.tx_dropped, counts.tx_pauses_given_up), (0, 0));
    assert!(counts.tx_pauses > 0, "{counts:?}");
    let stats = a.nic.with(|endpoint, _, _| *endpoint.stats());
    assert_eq!((stats.retransmitted_pkts, stats.rcvd_seq_err), (0, 0), "{stats}");
}

#[test]
fn a_doorbell_is_left_for_the_thread_that_sleeps() {
    let other = Honest::open("127.0.48.36", PathChoice::SharedMemory);
    let mut sleeper = Liar::without_ring("127.0.48.37", &other);
    let peer = Liar::without_ring("127.0.48.38", &other);
    let is_woken = |link: &Shm| {
        let fd = link.doorbell().unwrap().as_raw_fd();
        let mut doorbell = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        sys::wait(&mut doorbell, 0);
        doorbell[0].revents != 0
    };
    let mut counts = Counts::default();
    let to = sleeper.attachment.site.membership.registry.member();
    let doorbell = peer.message(Kind::Doorbell, 0);
    sleeper.link.set_asleep(true);
    peer.offers().send(to, doorbell, None).unwrap();
    // The application polls meanwhile.
    sleeper.link.receive_messages(&sleeper.attachment.site.membership.registry, &mut counts);
    assert!(is_woken(&sleeper.link));
    sleeper.link.set_asleep(false);
    sleeper.link.receive_messages(&sleeper.attachment.site.membership.registry, &mut counts);
    assert!(!is_woken(&sleeper.link));
}

#[test]
fn packets_between_other_addresses_are_dropped() {
    let victim = Honest::open("127.0.48.32", PathChoice::SharedMemory);
    let mut liar = Liar::open("127.0.48.33", &victim);
    let other = Gid::from(IpAddr::from([10, 9, 8, 7]));
    let third = Honest::open("127.0.48.34", PathChoice::SharedMemory);
    let (ours, theirs) = (victim.gid(), liar.address());
    let qpn = victim.queue_pair(other, |_| liar.qpn());
    let pairs = [(other, ours), (third.gid(), ours), (theirs, other), (theirs, third.gid())];
    for (number, (source, destination)) in (0..).zip(pairs) {
        liar.declare(number, source, destination);
        liar.push_write(number, qpn, PSN, (victim.address(), victim.key));
    }
    victim.nic.poll();
    let counts = victim.nic.counts();
    assert_eq!((counts.ring_rx_dropped, counts.rx_ring_packets), (4, 0));
    assert!(victim.memory.iter().all(|byte| *byte == 0));
    // Its own address is its own: what it then may write is for the engine to say.
    let qpn = victim.queue_pair(theirs, |_| liar.qpn());
    liar.declare(4, theirs, ours);
    liar.push_write(4, qpn, PSN, (victim.address() + 8, victim.key));
    liar.push_write(4, qpn, PSN.next(), (victim.address() + BYTES as u64, victim.key));
    victim.nic.poll();
    assert_eq!(victim.memory[8..16], *b"I am not");
    assert!(victim.memory[16..].iter().all(|byte| *byte == 0));
    assert_eq!(victim.nic.counts().rings_broken, 0);
}

#[test]
fn entries_that_break_the_rules_end_the_ring_and_nothing_else() {
    let victim = Honest::open("127.0.48.35", PathChoice::SharedMemory);
    let other = Honest::open("127.0.48.36", PathChoice::SharedMemory);
    other.reaches(&victim);
    let own = Gid::from(IpAddr::from([127, 0, 48, 37]));
    let addresses = [own.0, victim.gid().0].concat();
    let declares = Entry { flags: DECLARES_PAIR, ..Entry::default() };
    let cases: [&[(Entry, &[u8])]; 6] = [
        // A pair that was not declared.
        &[(Entry { pair: 3, ..Entry::default() }, &[0; 60])],
        // Flags that nothing is known of.
        &[(declares, &addresses), (Entry { flags: 4, ..Entry::default() }, &[0; 60])],
        &[(Entry { flags: DECLARES_PAIR | WITH_ICRC, ..Entry::default() }, &addresses)],
        // Ways out of turn, twice, and too short.
        &[(Entry { pair: 1, ..declares }, &addresses)],
        &[(declares, &addresses), (declares, &addresses)],
        &[(declares, &addresses[..31])],
    ];
    for (number, entries) in (1..).zip(cases) {
        let broken = victim.nic.counts().rings_broken;
        let mut liar = Liar::without_ring("127.0.48.37", &victim);
        let (mut ring, file) = Producer::create(number).unwrap();
        for (entry, bytes) in entries {
            ring.push(*entry, bytes).unwrap();
        }
        liar.offer(Some(&file), number);
        victim.nic.poll();
        assert_eq!(victim.nic.counts().rings_broken, broken + 1, "case {number}");
        assert_eq!(ring.wakes(), State::Gone);
        // Nor is another ring of the same one taken.
        liar.offer(Some(&file), number);
        victim.nic.poll();
        assert_eq!(victim.nic.counts().rings_taken, number);
        liar.attachment.leave();
    }
    other.reaches(&victim);
    assert_eq!(victim.nic.counts().rings_refused, 6);
}

#[test]
fn packets_at_random_are_dropped_or_done_like_any_other() {
    let victim = Honest::open("127.0.48.38", PathChoice::SharedMemory);
    let mut liar = Liar::open("127.0.48.39", &victim);
    let qpn = victim.queue_pair(liar.address(), |_| liar.qpn());
    liar.declare(0, liar.address(), victim.gid());
    let mut state = 3_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for _ in 0..5_000 {
        let most = if next() % 4 == 0 { PACKET_MAX as u64 } else { 300 };
        let length = 1 + (next() % most) as usize;
        let mut packet: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        if next() % 4 > 0
            && let Some(bth) = packet.first_chunk_mut::<12>()
        {
            // An opcode of a reliable connection, to the queue pair that there is.
            bth[0] = (next() % 24) as u8;
            bth[1] = 0;
            let to = if next() % 8 == 0 { Qpn::GSI } else { qpn };
            bth[4..8].copy_from_slice(&to.value().to_be_bytes());
            bth[8..].copy_from_slice(&(PSN.value() + next() as u32 % 3).to_be_bytes());
        }
        let flags = if next() % 8 == 0 { WITH_ICRC } else { 0 };
        while !liar.ring.push(Entry { flags, ..Entry::default() }, &packet).unwrap() {
            victim.nic.poll();
        }
    }
    while liar.ring.is_empty() == Ok(false) {
        victim.nic.poll();
    }
    let counts = victim.nic.counts();
    assert_eq!((counts.rx_ring_packets, counts.rings_broken), (5_000, 0));
    assert!(counts.rx_icrc_encapsulated > 300, "{counts:?}");
    assert!(counts.ring_rx_dropped > 100, "{counts:?}");
    Honest::open("127.0.48.40", PathChoice::SharedMemory).reaches(&victim);
}

#[test]
fn a_receiver_that_lies_costs_a_queue_pair_and_no_more() {
    const HEAD_AT: usize = 64;
    const ASLEEP: u64 = 2;
    const GONE: u64 = 3;
    // What it does with head and state of the ring, each time that it is looked at.
    let lies: [fn(u64) -> (u64, u64); 6] = [
        |_| (0, AWAKE),
        |_| (u64::MAX, AWAKE),
        |round| (round * 64, ASLEEP),
        |_| (0, ASLEEP),
        |_| (0, GONE),
        |round| (0, round % 5),
    ];
    for (number, lie) in (0..).zip(lies) {
        let victim = Honest::open("127.0.48.41", PathChoice::SharedMemory);
        let liar = Liar::without_ring(&format!("127.0.48.{}", 42 + number), &victim);
        let map = liar.take_ring_from(&victim);
        let qpn = victim.queue_pair(liar.address(), |_| liar.qpn());
        let mut round = 0;
        let status = victim.write(qpn, (0, Key(0)), || {
            round += 1;
            let (head, state) = lie(round);
            map.word(HEAD_AT).store(head, core::sync::atomic::Ordering::SeqCst);
            map.word(STATE_AT).store(state, core::sync::atomic::Ordering::SeqCst);
        });
        assert_eq!(status, CompletionStatus::RetryExceeded, "lie {number}");
        let other = Honest::open("127.0.48.47", PathChoice::SharedMemory);
        victim.reaches(&other);
        other.reaches(&victim);
    }
}

#[test]
fn a_ring_that_nobody_empties_does_not_stop_the_others() {
    let victim = Honest::open("127.0.48.48", PathChoice::SharedMemory);
    let liar = Liar::without_ring("127.0.48.49", &victim);
    let other = Honest::open("127.0.48.50", PathChoice::SharedMemory);
    // The ring is full after so many retransmissions of what is never answered.
    let qpn = victim.queue_pair(liar.address(), |_| liar.qpn());
    liar.take_ring_from(&victim);
    for _ in 0..14 {
        victim.post(qpn, BYTES as u32, (0, Key(0)));
    }
    let started = Instant::now();
    let mut failed = 0;
    while failed < 14 {
        failed += usize::from(victim.nic.poll_cq_timed(victim.cq).is_some());
        victim.nic.poll();
        assert!(started.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", victim.nic.counts());
    }
    victim.reaches(&other);
    other.reaches(&victim);
}

#[test]
fn a_nic_that_takes_nothing_keeps_the_sender_from_nobody_else() {
    for (path, third) in [(PathChoice::SharedMemory, 56), (PathChoice::Udp, 57)] {
        let open = |last| Honest::open(&format!("127.0.{third}.{last}"), path);
        let (sender, stopped, other) = (open(101), open(102), open(103));
        let to_other =
            sender.queue_pair(other.gid(), |ours| other.queue_pair(sender.gid(), |_| ours));
        if path == PathChoice::Udp {
            paused_for(&sender.nic, &stopped.nic);
        } else {
            sender.shares_rings_with(&stopped);
            // More than a ring holds.
            for _ in 0..8 {
                let qpn = sender
                    .queue_pair(stopped.gid(), |ours| stopped.queue_pair(sender.gid(), |_| ours));
                for _ in 0..14 {
                    sender.post(qpn, BYTES as u32, (stopped.address(), stopped.key));
                }
            }
            assert!(sender.nic.counts().tx_pauses > 0);
        }
        for _ in 0..5 {
            let status = sender.write(to_other, (other.address(), other.key), || other.nic.poll());
            assert_eq!(status, CompletionStatus::Success);
        }
        let core = sender.nic.shared().lock();
        assert!(core.is_paused(), "the one that takes nothing is still waited for");
        assert_eq!(core.counts.tx_pauses_given_up, 0);
    }
}

#[test]
fn what_a_peer_leaves_behind_is_taken() {
    let victim = Honest::open("127.0.48.51", PathChoice::SharedMemory);
    let mut liar = Liar::open("127.0.48.52", &victim);
    let qpn = victim.queue_pair(liar.address(), |_| liar.qpn());
    liar.declare(0, liar.address(), victim.gid());
    liar.push_write(0, qpn, PSN, (victim.address(), victim.key));
    victim.nic.poll();
    liar.push_write(0, qpn, PSN.next(), (victim.address() + 8, victim.key));
    liar.attachment.leave();
    drop(liar);
    victim.nic.poll();
    assert_eq!(victim.memory[..16], *b"I am notI am not");
}
