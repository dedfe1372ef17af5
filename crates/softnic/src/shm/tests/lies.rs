//! A peer that does what chance says with rings and messages, for as long as a test takes.

use super::*;

/// What a liar does next.
#[derive(Clone, Copy)]
enum Lie {
    Ask,
    Overwrite,
    Say,
    Invent,
}

/// A liar that has a ring each way.
struct Lies {
    random: fastrand::Rng,
    /// Which lies there are this time.
    kinds: Vec<Lie>,
    liar: Liar,
    /// Requests so far.
    asked: u32,
    /// The queue pair at the victim, and the region that it may be asked for.
    qpn: Qpn,
    region: (u64, Key),
    /// The memory of the ring that it has made, and of the one that it was offered.
    maps: [Option<map::Map>; 2],
    /// Something to be passed on that is no ring.
    short: OwnedFd,
}

impl Lies {
    /// A value at or beside one that means something.
    fn value(&mut self) -> u64 {
        let lines = crate::limits::RING_BYTES as u64 / 64;
        let near = [0, 1, 2, lines, 2 * lines, 1 << 24, 1 << 32, 1 << 63, u64::MAX];
        match self.random.u8(..4) {
            0 => self.random.u64(..),
            1 => self.random.u64(..lines),
            _ => near[self.random.usize(..near.len())]
                .wrapping_add(self.random.u64(..3))
                .wrapping_sub(1),
        }
    }

    fn lie(&mut self) {
        match self.kinds[self.random.usize(..self.kinds.len())] {
            Lie::Ask => self.ask(),
            Lie::Overwrite => self.overwrite(),
            Lie::Say => self.say(),
            Lie::Invent => self.invent(),
        }
        if let Some(map) = self.liar.take_ring() {
            self.maps[1] = Some(map);
        }
    }

    /// A request that keeps to the rules of rings, for memory at, around and far from the region.
    fn ask(&mut self) {
        let opcode = match self.random.bool() {
            true => Opcode::RC_READ_REQUEST,
            false => Opcode::write(Service::Rc, Part::Only, false),
        };
        let (start, key) = self.region;
        let end = start + BYTES as u64;
        let places = [start, end - 8, start - 8, start - 4, end - 4, end, 0, u64::MAX - 3];
        let lengths = [8, 0, 9, BYTES as u32, u32::MAX];
        // What fails is the last that is done, so most of it is right.
        let is_wrong = self.random.u8(..8) == 0;
        let address = places[self.random.usize(..if is_wrong { places.len() } else { 2 })];
        let length = lengths[self.random.usize(..if is_wrong { lengths.len() } else { 1 })];
        let is_stranger = is_wrong && self.random.u8(..4) == 0;
        let r_key = if is_stranger { Key(self.random.u32(..)) } else { key };
        let psn = Psn::new(PSN.value() + self.asked);
        self.asked += u32::from(self.random.u8(..8) > 0);
        let header = roce::Repr {
            reth: Some(reth::Repr { address, r_key, length }),
            ..roce::Repr::new(opcode, self.qpn, psn)
        };
        let mut packet = [0; 64];
        let at = header.emit(&mut packet);
        packet[at..at + 8].copy_from_slice(b"I am not");
        let end = if opcode == Opcode::RC_READ_REQUEST { at } else { at + 8 };
        let _ = self.liar.ring.push(Entry::default(), &packet[..end]);
    }

    /// An entry that says of itself what it likes.
    fn invent(&mut self) {
        let flags = [0, WITH_ICRC, DECLARES_PAIR, self.random.u8(..)][self.random.usize(..4)];
        let entry = Entry {
            length: 0,
            pair: self.random.u8(..) & self.random.u8(..),
            traffic_class: self.random.u8(..),
            flags,
        };
        let bytes = vec![self.random.u8(..); self.random.usize(1..PACKET_MAX)];
        let _ = self.liar.ring.push(entry, &bytes);
    }

    /// Any word of either ring: nonce, head, state, words of entries, what lies behind them.
    fn overwrite(&mut self) {
        let value = self.value();
        let words = RING_MEMORY / 8;
        let at = match self.random.u8(..4) {
            0 => [0, 64, 128][self.random.usize(..3)],
            1 => 4096 + 64 * self.random.usize(..64),
            2 => 4096 + 8 * self.random.usize(..512),
            _ => 8 * self.random.usize(..words),
        };
        if let Some(map) = &self.maps[self.random.usize(..2)] {
            map.word(at).store(value, core::sync::atomic::Ordering::SeqCst);
        }
    }

    /// A message, of whichever kind, from and to whomever.
    fn say(&mut self) {
        let kind = [Kind::Offer, Kind::Doorbell][self.random.usize(..2)];
        let mut message = self.liar.message(kind, self.random.u64(..8));
        match self.random.u8(..3) {
            0 => message.from.slot = self.random.u16(..),
            1 => message.from.claim = self.random.u32(..),
            _ => {}
        }
        let made = Producer::create(message.nonce).unwrap().1;
        let file = match self.random.u8(..3) {
            0 => Some(made.as_fd()),
            1 => Some(self.short.as_fd()),
            _ => None,
        };
        let _ = self.liar.offers().send(self.liar.victim, message, file);
    }
}

#[test]
fn whatever_a_peer_writes_into_rings_and_messages_only_its_queue_pair_suffers() {
    const SECRET: u32 = 0x5e5e_5e5e;
    let (mut broken, mut written, mut read) = (0, 0, 0);
    for seed in 0..60 {
        let victim = Honest::open("127.0.48.53", PathChoice::SharedMemory);
        // The region is the middle of it.
        let mut yard = vec![SECRET; 3 * BYTES / 4];
        yard[BYTES / 4..2 * BYTES / 4].fill(0);
        let address = yard.as_ptr().expose_provenance() as u64 + BYTES as u64;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let region = RegionSpec { address, length: BYTES as u64, iova: address, access };
        let key = victim.nic.with(|endpoint, _, _| endpoint.register(victim.pd, region)).unwrap();

        let mut liar = Liar::without_ring("127.0.48.54", &victim);
        let (ring, file) = Producer::create(seed).unwrap();
        let map = map::map_sealed_memory(file.as_fd(), RING_MEMORY).unwrap();
        liar.ring = ring;
        liar.offer(Some(&file), seed);
        victim.nic.poll();
        liar.declare(0, liar.address(), victim.gid());
        let theirs = liar.take_ring_from(&victim);
        let qpn = victim.queue_pair(liar.address(), |_| liar.qpn());
        let mut lies = Lies {
            random: fastrand::Rng::with_seed(seed),
            // Every set of the others beside requests that are none.
            kinds: [Lie::Overwrite, Lie::Say, Lie::Invent]
                .into_iter()
                .enumerate()
                .filter_map(|(kind, lie)| (seed >> kind & 1 == 1).then_some(lie))
                .chain([Lie::Ask; 6])
                .collect(),
            asked: 0,
            liar,
            qpn,
            region: (address, key),
            maps: [Some(map), Some(theirs)],
            short: map::sealed_memory(BYTES).unwrap(),
        };
        for _ in 0..100 {
            lies.lie();
            victim.nic.poll();
        }
        // That it ends, and how soon, is said by `write`.
        victim.write(qpn, (0, Key(0)), || lies.lie());
        broken += victim.nic.counts().rings_broken;

        let mut outside = yard[..BYTES / 4].iter().chain(&yard[2 * BYTES / 4..]);
        assert!(outside.all(|word| *word == SECRET), "seed {seed}: written outside");
        if let Some(map) = &lies.maps[1] {
            let mut words = (0..RING_MEMORY)
                .step_by(8)
                .map(|at| map.word(at).load(core::sync::atomic::Ordering::SeqCst));
            let is_secret = |word: u64| word as u32 == SECRET || (word >> 32) as u32 == SECRET;
            assert!(!words.any(is_secret), "seed {seed}: read outside");
            read += victim.nic.with(|endpoint, _, _| endpoint.stats().rx_read_requests);
        }
        written += u64::from(yard[BYTES / 4..2 * BYTES / 4].iter().any(|word| *word != 0));
        lies.liar.attachment.leave();
        let other = Honest::open("127.0.48.55", PathChoice::SharedMemory);
        victim.reaches(&other);
        other.reaches(&victim);
    }
    let counts = (broken, written, read);
    assert!(broken > 10 && written > 10 && read > 10, "{counts:?}: neither lies nor truth");
}
