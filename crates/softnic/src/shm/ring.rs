//! A ring of packets in shared memory, from one NIC to another.
//!
//! ```text
//!       0  nonce                                     of the offer that the memory came with
//!       8  producer: there, left                     (what it sends from then on comes by UDP)
//!      64  head      consumer: lines taken so far
//!      72  answered  consumer: lines whose answers have been sent
//!     128  state     offered, then the consumer's: awake, asleep (the doorbell is to be rung), gone
//!     192  tallies   consumer: what became of what was taken, as both have agreed
//!    4096  lines of 64 bytes, each entry a few of them, around the end
//!
//!   entry:  │ sequence u24 │ length u16 │ pair u8 │ class u8 │ flags u8 │ packet ... │
//! ```
//!
//! The first word of an entry is written last. It holds the entry's place in the stream, so a word
//! that is not zero and not of this place is not an entry, and the ring is broken. What stands there from
//! the round before may be anything, payload of applications included: so the producer sets the
//! word behind an entry to zero before it shows the entry, and the word before it is what the
//! consumer waits for: one line goes from processor to processor for a short packet.
//!
//! Whether a ring is used is decided by one word: the consumer turns *offered* into *awake*, or the producer
//! turns it into *gone*, and whoever comes second finds that out. So nothing is put in before it is taken.
//!
//! **Invariants:** each side believes nothing that the other can change. What is read is copied out
//! first and checked after; the consumer never reads its own head, nor the producer an entry. A
//! ring that breaks these rules is given up.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rdma::MemoryFault;

use crate::limits::{PACKET_MAX, RING_BYTES};
use crate::memory::guard::Guard;
use crate::memory::map::{self, Map, Stretch};

const NONCE_AT: usize = 0;
const PRODUCER_AT: usize = 8;
const HEAD_AT: usize = 64;
const ANSWERED_AT: usize = 72;
const STATE_AT: usize = 128;
const TALLIES_AT: usize = 192;
/// Words of the consumer's that the ring gives no meaning.
pub(crate) const TALLIES: usize = 8;
const DATA_AT: usize = 4096;
const MEMORY_BYTES: usize = DATA_AT + RING_BYTES;

const LINE: usize = 64;
const LINES: u64 = (RING_BYTES / LINE) as u64;
/// The word in front of a packet.
const WORD: usize = size_of::<u64>();
/// Lines of the longest entry.
const ENTRY_LINES_MAX: u64 = ((WORD + PACKET_MAX).div_ceil(LINE)) as u64;

const _: () = assert!(LINES.is_power_of_two() && LINES > 2 * ENTRY_LINES_MAX && LINES <= 1 << 23);

const OFFERED: u64 = 0;
const AWAKE: u64 = 1;
const ASLEEP: u64 = 2;
const GONE: u64 = 3;

/// The packet ends with its ICRC.
pub(crate) const WITH_ICRC: u8 = 1;
/// No packet: 32 bytes that say between which addresses the packets of this pair go.
pub(crate) const DECLARES_PAIR: u8 = 2;

/// The other side does not keep to the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// What is said of a packet beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) length: u16,
    /// Which addresses it goes between.
    pub(crate) pair: u8,
    pub(crate) traffic_class: u8,
    pub(crate) flags: u8,
}

/// An entry that was found in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundEntry {
    pub(crate) entry: Entry,
    pub(crate) place: u64,
}

impl Entry {
    fn lines(self) -> u64 {
        lines(self.length.into())
    }

    fn word(self, place: u64) -> u64 {
        let Self { length, pair, traffic_class, flags } = self;
        let low = place & 0x00ff_ffff | u64::from(length) << 24 | u64::from(pair) << 40;
        low | u64::from(traffic_class) << 48 | u64::from(flags) << 56
    }

    /// The entry that `word` announces at `place`, if it is one.
    fn parse(word: u64, place: u64) -> Result<Self, Broken> {
        let [_, _, _, low, high, pair, traffic_class, flags] = word.to_le_bytes();
        let length = u16::from_le_bytes([low, high]);
        let entry = Self { length, pair, traffic_class, flags };
        let fits = (1..=PACKET_MAX).contains(&usize::from(length));
        if fits && entry.word(place) == word { Ok(entry) } else { Err(Broken) }
    }
}

fn lines(length: usize) -> u64 {
    (WORD + length).div_ceil(LINE) as u64
}

/// Memory of a ring, as either side has it.
#[derive(Debug)]
struct RingMemory {
    map: Map,
    guard: Guard,
}

impl RingMemory {
    fn word(&self, place: u64) -> &core::sync::atomic::AtomicU64 {
        self.map.word(DATA_AT + (place % LINES) as usize * LINE)
    }

    /// The `length` bytes behind the word of the entry at `place`.
    fn stretch(&self, place: u64, length: usize) -> Stretch<'_> {
        let start = (place % LINES) as usize * LINE + WORD;
        let first = length.min(RING_BYTES - start);
        self.map.stretch([(DATA_AT + start, first), (DATA_AT, length - first)])
    }
}

/// The side that sends.
#[derive(Debug)]
pub(crate) struct Producer {
    memory: RingMemory,
    /// Lines written so far.
    tail: u64,
    /// Lines of them that are known to have been taken.
    head: u64,
}

/// What the consumer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It has not taken the ring yet.
    Offered,
    /// It will look at the ring by itself.
    Awake,
    /// It waits for the doorbell, which is to be rung when there is something.
    Asleep,
    /// It never looks, or looks again; or the offer was taken back.
    Gone,
}

impl Producer {
    /// A new ring, and the file that its consumer maps.
    pub(crate) fn create(nonce: u64) -> io::Result<(Self, OwnedFd)> {
        let file = map::sealed_memory(MEMORY_BYTES)?;
        let map = map::map_sealed_memory(file.as_fd(), MEMORY_BYTES)?;
        map.word(NONCE_AT).store(nonce, Release);
        let memory = RingMemory { map, guard: Guard::new() };
        Ok((Self { memory, tail: 0, head: 0 }, file))
    }

    pub(crate) fn state(&self) -> State {
        match self.memory.map.word(STATE_AT).load(Acquire) {
            OFFERED => State::Offered,
            AWAKE => State::Awake,
            ASLEEP => State::Asleep,
            _ => State::Gone,
        }
    }

    /// Whether somebody has taken the ring, and may still look.
    fn is_taken(&self) -> bool {
        matches!(self.state(), State::Awake | State::Asleep)
    }

    /// Takes the offer back, if the ring has not been taken.
    pub(crate) fn withdraw(&self) {
        let state = self.memory.map.word(STATE_AT);
        let _ = state.compare_exchange(OFFERED, GONE, AcqRel, Relaxed);
    }

    /// Says that nothing more will be put in.
    pub(crate) fn leave(&self) {
        self.memory.map.word(PRODUCER_AT).store(GONE, Release);
    }

    /// Whether a packet of any length fits.
    pub(crate) fn has_room(&mut self) -> Result<bool, Broken> {
        Ok(self.free() >= ENTRY_LINES_MAX || {
            self.refresh()?;
            self.free() >= ENTRY_LINES_MAX
        })
    }

    /// Whether everything has been taken.
    pub(crate) fn is_empty(&mut self) -> Result<bool, Broken> {
        self.refresh()?;
        Ok(self.head == self.tail)
    }

    /// Whether there is something in it that somebody may still take.
    pub(crate) fn is_untaken(&mut self) -> bool {
        self.is_empty() == Ok(false) && self.is_taken()
    }

    /// Whether there is something in it whose answer somebody may still send. What a consumer says who lies
    /// costs it the wait.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_taken() && self.answered() < self.tail
    }

    /// Up to which place answers have been sent.
    pub(crate) fn answered(&self) -> u64 {
        self.memory.map.word(ANSWERED_AT).load(Acquire)
    }

    /// A tally of the consumer's.
    pub(crate) fn tally(&self, index: usize) -> u64 {
        self.memory.map.word(TALLIES_AT + index % TALLIES * WORD).load(Acquire)
    }

    /// The place of what is put in next.
    pub(crate) fn end(&self) -> u64 {
        self.tail
    }

    /// Up to which place it has been taken.
    pub(crate) fn taken(&mut self) -> u64 {
        let _ = self.refresh();
        self.head
    }

    /// Puts in a packet. `Ok(false)`: there is no room.
    pub(crate) fn push(&mut self, entry: Entry, packet: &[u8]) -> Result<bool, Broken> {
        let filled =
            self.push_with(entry, packet.len(), |ring, guard| ring.store(guard, packet))?;
        match filled {
            Some(Err(MemoryFault)) => Err(Broken),
            Some(Ok(())) => Ok(true),
            None => Ok(false),
        }
    }

    /// Puts in a packet of `length` bytes that `fill` writes, unless it meets memory that is gone:
    /// then nothing is put in. `Ok(None)`: there is no room, or a ring takes none so long.
    pub(crate) fn push_with(
        &mut self,
        entry: Entry,
        length: usize,
        fill: impl FnOnce(Stretch<'_>, Guard) -> Result<(), MemoryFault>,
    ) -> Result<Option<Result<(), MemoryFault>>, Broken> {
        let entry = Entry { length: u16::try_from(length).map_err(|_| Broken)?, ..entry };
        let lines = entry.lines();
        if length > PACKET_MAX {
            return Ok(None);
        }
        if self.free() < lines {
            self.refresh()?;
            if self.free() < lines {
                return Ok(None);
            }
        }
        if let Err(fault) = fill(self.memory.stretch(self.tail, length), self.memory.guard) {
            return Ok(Some(Err(fault)));
        }
        self.memory.word(self.tail + lines).store(0, Relaxed);
        self.memory.word(self.tail).store(entry.word(self.tail), Release);
        self.tail += lines;
        Ok(Some(Ok(())))
    }

    /// What the consumer does, asked after packets were pushed. One that is asleep is not found so
    /// a second time: the doorbell is to be rung.
    pub(crate) fn wakes(&self) -> State {
        // Either we see that it has gone to sleep, or it sees our packet when it looks once more.
        fence(SeqCst);
        let state = self.state();
        let word = self.memory.map.word(STATE_AT);
        if state == State::Asleep && word.compare_exchange(ASLEEP, AWAKE, AcqRel, Relaxed).is_err()
        {
            return State::Awake;
        }
        state
    }

    /// Lines that can be written; the one behind them stays free for the word of the next entry.
    fn free(&self) -> u64 {
        LINES - 1 - (self.tail - self.head)
    }

    fn refresh(&mut self) -> Result<(), Broken> {
        let head = self.memory.map.word(HEAD_AT).load(Acquire);
        if !(self.head..=self.tail).contains(&head) {
            return Err(Broken);
        }
        self.head = head;
        Ok(())
    }
}

/// The side that receives.
#[derive(Debug)]
pub(crate) struct Consumer {
    memory: RingMemory,
    /// Lines taken so far.
    head: u64,
}

impl Consumer {
    /// The ring in `file`, which came with an offer of this nonce.
    pub(crate) fn open(file: BorrowedFd<'_>, nonce: u64) -> io::Result<Self> {
        let map = map::map_sealed_memory(file, MEMORY_BYTES)?;
        if map.word(NONCE_AT).load(Acquire) != nonce {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { memory: RingMemory { map, guard: Guard::new() }, head: 0 })
    }

    /// Accepts the ring. Returns whether it is still offered.
    pub(crate) fn take(&self) -> bool {
        let state = self.memory.map.word(STATE_AT);
        state.compare_exchange(OFFERED, AWAKE, AcqRel, Relaxed).is_ok()
    }

    /// Whether the producer has said that nothing more will be put in.
    pub(crate) fn is_left(&self) -> bool {
        self.memory.map.word(PRODUCER_AT).load(Acquire) != 0
    }

    /// Whether there is nothing to be taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.word(self.head).load(Acquire) == 0
    }

    /// Takes the next entry, and copies its first `most` bytes to the beginning of `buffer`, which
    /// has room for the longest. The whole of it stays where it is until [`Consumer::release`].
    pub(crate) fn next(
        &mut self,
        buffer: &mut [u8],
        most: usize,
    ) -> Result<Option<FoundEntry>, Broken> {
        let word = self.memory.word(self.head).load(Acquire);
        if word == 0 {
            return Ok(None);
        }
        let entry = Entry::parse(word, self.head)?;
        // An ICRC is checked before anything is done.
        let most = if entry.flags & WITH_ICRC == 0 { most } else { PACKET_MAX };
        let bytes = buffer.get_mut(..most.min(entry.length.into())).ok_or(Broken)?;
        let stretch = self.memory.stretch(self.head, bytes.len());
        stretch.load(self.memory.guard, bytes).map_err(|_| Broken)?;
        let place = self.head;
        self.head += entry.lines();
        Ok(Some(FoundEntry { entry, place }))
    }

    /// The first `length` bytes of the packet that was taken from `place`.
    pub(crate) fn packet(&self, place: u64, length: usize) -> Stretch<'_> {
        self.memory.stretch(place, length)
    }

    /// Gives the room of what was taken back to the producer.
    pub(crate) fn release(&self) {
        self.memory.map.word(HEAD_AT).store(self.head, Release);
    }

    /// Says that what was taken so far has been answered, where there is an answer.
    pub(crate) fn answer(&self) {
        self.memory.map.word(ANSWERED_AT).store(self.head, Release);
    }

    /// Says how much a tally has come to.
    pub(crate) fn set_tally(&self, index: usize, value: u64) {
        self.memory.map.word(TALLIES_AT + index % TALLIES * WORD).store(value, Release);
    }

    /// Says whether the doorbell is to be rung for what is pushed from now on. After that,
    /// [`Consumer::is_empty`] must be asked once more before anybody sleeps.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        let state = self.memory.map.word(STATE_AT);
        if state.load(Relaxed) == GONE {
            return;
        }
        if asleep {
            state.store(ASLEEP, Relaxed);
            fence(SeqCst);
        } else if state.load(Relaxed) != AWAKE {
            state.store(AWAKE, Relaxed);
        }
    }

    /// Says that nobody will look again.
    pub(crate) fn leave(&self) {
        self.memory.map.word(STATE_AT).store(GONE, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 0x1234;

    fn pair() -> (Producer, Consumer) {
        let (producer, file) = Producer::create(NONCE).unwrap();
        let consumer = Consumer::open(file.as_fd(), NONCE).unwrap();
        assert!(consumer.take());
        (producer, consumer)
    }

    fn packet(number: u64, length: usize) -> Vec<u8> {
        (0..length as u64).map(|at| (at.wrapping_mul(31) ^ number) as u8).collect()
    }

    /// What an attacker has: the memory, to do with as it likes.
    fn words(memory: &RingMemory) -> impl Fn(usize, u64) {
        |at, word| memory.map.word(at).store(word, SeqCst)
    }

    #[test]
    fn packets_of_every_length_come_out_as_they_went_in() {
        let (mut producer, mut consumer) = pair();
        let mut buffer = vec![0; PACKET_MAX];
        let mut taken = 0;
        for number in 0..20_000_u64 {
            let length = 1 + (number.wrapping_mul(2_654_435_761) % PACKET_MAX as u64) as usize;
            let entry = Entry { pair: number as u8, traffic_class: 2, flags: 1, length: 0 };
            while !producer.push(entry, &packet(number, length)).unwrap() {
                // Every few packets, so that the ring is full and empty in turn.
                while let Some(FoundEntry { entry, .. }) =
                    consumer.next(&mut buffer, PACKET_MAX).unwrap()
                {
                    let length = usize::from(entry.length);
                    assert_eq!(buffer[..length], packet(taken, length));
                    assert_eq!((entry.pair, entry.traffic_class, entry.flags), (taken as u8, 2, 1));
                    taken += 1;
                }
                consumer.release();
            }
        }
        assert!(taken > 19_000);
    }

    #[test]
    fn two_threads_see_every_packet_once_and_in_order() {
        let (mut producer, mut consumer) = pair();
        const PACKETS: u64 = 50_000;
        let sender = std::thread::spawn(move || {
            for number in 0..PACKETS {
                let length = 8 + (number % 900) as usize;
                let mut bytes = packet(number, length);
                bytes[..8].copy_from_slice(&number.to_le_bytes());
                while !producer.push(Entry::default(), &bytes).unwrap() {
                    std::thread::yield_now();
                }
            }
            producer
        });
        let mut buffer = vec![0; PACKET_MAX];
        let mut expected = 0_u64;
        while expected < PACKETS {
            let Some(FoundEntry { entry, .. }) = consumer.next(&mut buffer, PACKET_MAX).unwrap()
            else {
                std::thread::yield_now();
                continue;
            };
            consumer.release();
            let bytes = &buffer[..entry.length.into()];
            assert_eq!(bytes[..8], expected.to_le_bytes());
            assert_eq!(bytes[8..], packet(expected, bytes.len())[8..]);
            expected += 1;
        }
        let mut producer = sender.join().unwrap();
        assert!(consumer.is_empty() && producer.is_empty().unwrap());
    }

    #[test]
    fn one_that_sleeps_is_woken_whatever_the_moment() {
        let (mut producer, mut consumer) = pair();
        const PACKETS: u64 = 20_000;
        let (doorbell, sleeper) = std::sync::mpsc::channel();
        let sender = std::thread::spawn(move || {
            for number in 0..PACKETS {
                while !producer.push(Entry::default(), &number.to_le_bytes()).unwrap() {
                    std::thread::yield_now();
                }
                match producer.wakes() {
                    State::Awake => {}
                    State::Asleep => doorbell.send(()).unwrap(),
                    State::Offered | State::Gone => panic!("it is there"),
                }
            }
        });
        let mut buffer = vec![0; PACKET_MAX];
        let mut taken = 0;
        let patience = core::time::Duration::from_secs(20);
        while taken < PACKETS {
            consumer.set_asleep(true);
            if consumer.is_empty() {
                sleeper.recv_timeout(patience).expect("a packet came and no doorbell");
            }
            consumer.set_asleep(false);
            while consumer.next(&mut buffer, PACKET_MAX).unwrap().is_some() {
                taken += 1;
            }
            consumer.release();
        }
        sender.join().unwrap();
    }

    #[test]
    fn a_packet_whose_bytes_are_gone_is_not_put_in() {
        let (mut producer, mut consumer) = pair();
        let mut buffer = vec![0; PACKET_MAX];
        let gone = producer.push_with(Entry::default(), 100, |_, _| Err(MemoryFault));
        assert_eq!(gone, Ok(Some(Err(MemoryFault))));
        assert!(consumer.is_empty());
        assert_eq!(producer.push(Entry::default(), b"there"), Ok(true));
        let FoundEntry { entry, place } = consumer.next(&mut buffer, 2).unwrap().unwrap();
        assert_eq!((entry.length, &buffer[..3]), (5, &b"th\0"[..]));
        let mut rest = [0; 3];
        consumer.packet(place, 5).part(2, 3).unwrap().load(Guard::new(), &mut rest).unwrap();
        assert_eq!(&rest, b"ere");
    }

    #[test]
    fn a_packet_of_any_length_fits_while_there_is_room() {
        let (mut producer, mut consumer) = pair();
        let mut buffer = vec![0; PACKET_MAX];
        for _ in 0..3 {
            while producer.has_room().unwrap() {
                assert!(producer.push(Entry::default(), &[7; PACKET_MAX]).unwrap());
            }
            assert_eq!(producer.push(Entry::default(), &[7; PACKET_MAX]), Ok(false));
            while consumer.next(&mut buffer, PACKET_MAX).unwrap().is_some() {}
            consumer.release();
            assert!(producer.has_room().unwrap());
        }
    }

    #[test]
    fn what_was_put_in_is_untaken_until_it_is_taken_or_nobody_will() {
        let (mut producer, mut consumer) = pair();
        let mut buffer = vec![0; PACKET_MAX];
        assert!(!producer.is_untaken());
        producer.push(Entry::default(), &[1; 1000]).unwrap();
        consumer.set_asleep(true);
        assert!(producer.is_untaken());
        consumer.next(&mut buffer, PACKET_MAX).unwrap();
        assert!(producer.is_untaken(), "it is being looked at");
        consumer.release();
        assert!(!producer.is_untaken());
        producer.push(Entry::default(), &[1; 1000]).unwrap();
        consumer.leave();
        assert!(!producer.is_untaken());
        // Not even if it is woken up, or goes to sleep, once more.
        for asleep in [true, false] {
            consumer.set_asleep(asleep);
            assert_eq!(producer.wakes(), State::Gone);
        }
    }

    #[test]
    fn payload_that_looks_like_entries_is_none() {
        let (mut producer, mut consumer) = pair();
        let mut buffer = vec![0; PACKET_MAX];
        for round in 0..LINES {
            // Each line of the payload is the word of an entry at that place one round later.
            let place = producer.tail;
            let mut bytes = vec![0; LINE * 8 - WORD];
            for line in 1..8_u64 {
                let at = line as usize * LINE - WORD;
                let forged = Entry { length: 100, ..Entry::default() }.word(place + line + LINES);
                bytes[at..at + WORD].copy_from_slice(&forged.to_ne_bytes());
            }
            // Lengths that shift the lines against each other.
            bytes.truncate(LINE * (1 + round as usize % 7) - WORD);
            assert!(producer.push(Entry::default(), &bytes).unwrap());
            let FoundEntry { entry, .. } = consumer.next(&mut buffer, PACKET_MAX).unwrap().unwrap();
            assert_eq!(buffer[..entry.length.into()], bytes);
            assert_eq!(consumer.next(&mut buffer, PACKET_MAX), Ok(None));
            consumer.release();
        }
    }

    #[test]
    fn a_consumer_that_lies_about_what_it_has_taken_is_found_out() {
        for head in [1, LINES, u64::MAX, 1 << 63] {
            let (mut producer, consumer) = pair();
            words(&consumer.memory)(HEAD_AT, head);
            assert_eq!(producer.has_room(), Ok(true), "it need not be asked");
            assert_eq!(producer.is_empty(), Err(Broken));
        }
        let (mut producer, mut consumer) = pair();
        let mut buffer = vec![0; PACKET_MAX];
        producer.push(Entry::default(), &[1; 1000]).unwrap();
        consumer.next(&mut buffer, PACKET_MAX).unwrap();
        consumer.release();
        assert_eq!(producer.is_empty(), Ok(true));
        words(&consumer.memory)(HEAD_AT, 0);
        assert_eq!(producer.is_empty(), Err(Broken), "what was taken stays taken");
        words(&consumer.memory)(STATE_AT, 77);
        assert_eq!(producer.wakes(), State::Gone);
    }

    #[test]
    fn a_producer_that_lies_about_its_packets_is_found_out() {
        let mut buffer = vec![0; PACKET_MAX];
        let good = Entry { length: 12, ..Entry::default() };
        let too_long = Entry { length: PACKET_MAX as u16 + 1, ..Entry::default() };
        let longest = Entry { length: u16::MAX, ..Entry::default() };
        for word in [
            good.word(1),
            good.word(LINES),
            good.word(0) | 1 << 23,
            too_long.word(0),
            longest.word(0),
            1,
            u64::MAX,
            Entry::default().word(0) | 1 << 56,
        ] {
            let (producer, mut consumer) = pair();
            words(&producer.memory)(DATA_AT, word);
            assert_eq!(consumer.next(&mut buffer, PACKET_MAX), Err(Broken), "{word:#x}");
        }
        // One that says nothing false, but has nothing written behind it, is bytes like any other.
        let (producer, mut consumer) = pair();
        words(&producer.memory)(DATA_AT, good.word(0));
        assert_eq!(
            consumer.next(&mut buffer, PACKET_MAX),
            Ok(Some(FoundEntry { entry: good, place: 0 }))
        );
    }

    #[test]
    fn memory_that_is_changed_while_it_is_read_breaks_nothing() {
        let (_producer, file) = Producer::create(NONCE).unwrap();
        let mut consumer = Consumer::open(file.as_fd(), NONCE).unwrap();
        let theirs = Consumer::open(file.as_fd(), NONCE).unwrap();
        let stop = std::sync::Arc::new(core::sync::atomic::AtomicBool::new(false));
        let is_over = std::sync::Arc::clone(&stop);
        let liar = std::thread::spawn(move || {
            let (map, mut state) = (theirs.memory.map, 1_u64);
            while !is_over.load(Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = DATA_AT + (state >> 40) as usize % 64 * WORD;
                let length = state >> 20 & 0x1fff;
                map.word(at).store(state >> 60 | length << 24, Relaxed);
            }
        });
        let mut buffer = vec![0; PACKET_MAX];
        let (mut taken, mut broken) = (0, 0);
        let started = std::time::Instant::now();
        while taken < 1_000 || broken < 1_000 {
            assert!(started.elapsed().as_secs() < 20, "{taken} {broken}");
            match consumer.next(&mut buffer, PACKET_MAX) {
                Ok(Some(FoundEntry { entry, .. })) => {
                    assert!(usize::from(entry.length) <= PACKET_MAX);
                    taken += 1;
                }
                Ok(None) => {}
                Err(Broken) => broken += 1,
            }
            // The lines that the liar writes to.
            consumer.head %= 8;
        }
        stop.store(true, Relaxed);
        liar.join().unwrap();
    }

    #[test]
    fn memory_of_another_offer_is_refused() {
        let (_producer, file) = Producer::create(NONCE).unwrap();
        assert!(Consumer::open(file.as_fd(), NONCE + 1).is_err());
        let short = map::sealed_memory(DATA_AT).unwrap();
        assert!(Consumer::open(short.as_fd(), 0).is_err());
    }
}
