//! Credits: how much a NIC may send by UDP to another of its host.
//!
//! RoCE is made for links that pause a sender rather than drop its packets (IEEE 802.1Qbb). UDP on
//! loopback drops what the receiving socket has no room for, and an unreliable connection never sends it
//! again. So the NICs of one user on one host share a page, in which each says how much was sent to it and
//! how much it has taken. A sender pauses while there is no room.
//!
//! ```text
//!   credits-<netns>    for each slot: sent, taken, room, five marks of addresses (64 bits each)
//! ```
//!
//! A slot is a user's own: at another address it may be that of another user's NIC, which does not write here.
//! So a NIC marks its addresses, and packets to others are sent without credits; what is beyond five addresses is, too.
//!
//! The counts are estimated bytes of kernel memory. They need not be exact: a receiver whose sockets are
//! all empty writes off what was lost, and a pause that lasts is given up, as by a PFC watchdog. A NIC that
//! cannot share the page goes without. Both sides write to it once for many packets: a cache line that
//! goes from processor to processor takes as long as all else that is done for a short one.

use core::iter::repeat;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rdma::Gid;

use crate::host::runtime;
use crate::limits::SLOTS;
use crate::memory::map::Map;
use crate::sys;

const STRIDE: usize = 64;
const SENT: usize = 0;
const TAKEN: usize = 8;
const ROOM: usize = 16;
const MARKS: Range<usize> = 24..STRIDE;

/// The page, and our place in it.
#[derive(Debug)]
pub(crate) struct Credits {
    map: Map,
    slot: u16,
    planned: Option<Planned>,
    /// What had been sent to us before the first of those that are empty was looked at.
    before: u64,
    /// Which of our sockets have been found empty since then; nothing if none has.
    empty: Vec<bool>,
}

/// Packets for one slot that have been built, and are not in the page yet.
#[derive(Debug)]
struct Planned {
    slot: u16,
    cost: u64,
    /// What there was room for when the first of them was built.
    room: u64,
}

/// What `packets` of so many bytes above UDP take of a socket's buffer: the kernel counts memory, up
/// to twice the bytes, and its own bookkeeping.
fn cost(packets: usize, bytes: usize) -> u64 {
    2 * bytes as u64 + 512 * packets as u64
}

/// An address in a word; no word is zero.
fn mark(address: Gid) -> u64 {
    let [high, low] = [0, 8].map(|at| {
        let mut half = [0; 8];
        half.copy_from_slice(&address.0[at..at + 8]);
        u64::from_be_bytes(half)
    });
    (high.rotate_left(1) ^ low).max(1)
}

impl Credits {
    /// Opens the page as the owner of `slot`, with these addresses, whose sockets have `buffer` bytes each.
    pub(crate) fn open(
        slot: u16,
        buffer: u64,
        addresses: impl Iterator<Item = Gid>,
    ) -> io::Result<Self> {
        let name = format!("credits-{}", runtime::network_namespace());
        let path = runtime::directory()?.join(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        let length = STRIDE * SLOTS as usize;
        // It is made whole now: who finds no memory when a page of it is first touched is killed by SIGBUS.
        sys::allocate(file.as_fd(), length as u64)?;
        let map = Map::new(file.as_fd(), length)?;
        let credits = Self { map, slot, planned: None, before: 0, empty: Vec::new() };
        credits.word(slot, SENT).store(0, Relaxed);
        credits.word(slot, TAKEN).store(0, Relaxed);
        let marks = addresses.map(mark).chain(repeat(0));
        for (at, mark) in MARKS.step_by(size_of::<u64>()).zip(marks) {
            credits.word(slot, at).store(mark, Relaxed);
        }
        // Half of it is left for those who looked at the same moment.
        credits.word(slot, ROOM).store(buffer / 2, Relaxed);
        Ok(credits)
    }

    fn word(&self, slot: u16, field: usize) -> &AtomicU64 {
        self.map.word(usize::from(slot) * STRIDE + field)
    }

    /// Whether the NIC with `slot` at this address writes here.
    #[inline]
    pub(crate) fn knows(&self, slot: u16, address: Gid) -> bool {
        let mark = mark(address);
        MARKS.step_by(size_of::<u64>()).any(|at| self.word(slot, at).load(Relaxed) == mark)
    }

    /// Counts a packet that has been built for `slot`. Returns whether it is the last that there is
    /// room for.
    pub(crate) fn plan(&mut self, slot: u16, length: usize) -> bool {
        if self.planned.as_ref().is_none_or(|planned| planned.slot != slot) {
            self.send();
            self.planned = Some(Planned { slot, cost: 0, room: self.room(slot) });
        }
        let Some(planned) = &mut self.planned else { return false };
        planned.cost += cost(1, length);
        if planned.cost <= planned.room {
            return false;
        }
        // The receiver has probably taken something since.
        self.send();
        self.is_full(slot)
    }

    /// What has been built is about to be sent.
    pub(crate) fn send(&mut self) {
        if let Some(Planned { slot, cost, .. }) = self.planned.take() {
            self.word(slot, SENT).fetch_add(cost, Relaxed);
        }
    }

    /// How much more can be sent to `slot`.
    fn room(&self, slot: u16) -> u64 {
        let room = self.word(slot, ROOM).load(Relaxed);
        if room == 0 {
            return u64::MAX;
        }
        room.saturating_sub(self.on_the_way(slot))
    }

    /// How much was sent to `slot` and not taken. Two who write at the same moment may make more of what was
    /// taken than was sent, until more is sent.
    pub(crate) fn on_the_way(&self, slot: u16) -> u64 {
        let [sent, taken] = [SENT, TAKEN].map(|field| self.word(slot, field).load(Relaxed));
        let on_the_way = sent.wrapping_sub(taken);
        if on_the_way < u64::MAX / 2 { on_the_way } else { 0 }
    }

    /// Whether somebody of this host has sent to us what we have not taken.
    #[inline]
    pub(crate) fn expects_packets(&self) -> bool {
        self.on_the_way(self.slot) > 0
    }

    /// Whether `slot` has no room now.
    pub(crate) fn is_full(&self, slot: u16) -> bool {
        self.room(slot) == 0
    }

    /// Gives up waiting for `slot`: what was sent is taken for lost.
    pub(crate) fn give_up(&self, slot: u16) {
        let sent = self.word(slot, SENT).load(Relaxed);
        self.word(slot, TAKEN).store(sent, Relaxed);
    }

    /// Nobody has `slot` any more, so nobody waits for it, unless somebody gets it at this very moment.
    pub(crate) fn forget(&self, slot: u16, has_owner: impl FnOnce() -> bool) {
        let room = self.word(slot, ROOM).swap(0, Relaxed);
        if has_owner() {
            self.word(slot, ROOM).store(room, Relaxed);
        }
    }

    /// Nobody is to wait for us any more.
    pub(crate) fn retire(&self) {
        self.word(self.slot, ROOM).store(0, Relaxed);
    }

    /// Packets from this host have arrived here: their senders get the room back. No more is given back than
    /// senders have announced. The rest comes from NICs that do not share the page, or after it was written
    /// off.
    pub(crate) fn return_for(&self, packets: usize, bytes: usize) {
        let taken = self.word(self.slot, TAKEN);
        let on_the_way = self.on_the_way(self.slot);
        taken.fetch_add(cost(packets, bytes).min(on_the_way), Relaxed);
    }

    /// What was sent to us up to now.
    pub(crate) fn sent_to_us(&self) -> u64 {
        self.word(self.slot, SENT).load(Relaxed)
    }

    /// A look at some of our sockets begins.
    #[inline]
    pub(crate) fn begin_look(&mut self) {
        if self.empty.is_empty() {
            self.before = self.sent_to_us();
        }
    }

    /// These of all our `sockets` are empty. Once all have been, what was sent before has arrived, or never
    /// will.
    #[inline]
    pub(crate) fn found_empty(&mut self, empty: Range<usize>, sockets: usize) {
        if empty.len() == sockets || self.are_all_empty(empty, sockets) {
            self.empty.clear();
            self.write_off(self.before);
        }
    }

    #[cold]
    fn are_all_empty(&mut self, empty: Range<usize>, sockets: usize) -> bool {
        self.empty.resize(sockets, false);
        self.empty.get_mut(empty).unwrap_or_default().fill(true);
        !self.empty.contains(&false)
    }

    fn write_off(&self, sent: u64) {
        let taken = self.word(self.slot, TAKEN);
        let missing = sent.wrapping_sub(taken.load(Relaxed));
        if missing != 0 && missing < u64::MAX / 2 {
            taken.store(sent, Relaxed);
        }
    }
}

impl Drop for Credits {
    fn drop(&mut self) {
        self.retire();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::os::unix::fs::MetadataExt;

    use crate::testing::{Nothing, ask, in_namespace, open, sent};
    use crate::{DeviceInfo, Nic};

    /// Slots that no NIC of the tests gets: they are drawn at random from a thousand.
    fn pair() -> (Credits, Credits) {
        let open = |slot, last| {
            let addresses = [last, 200].map(|it| Gid::from(IpAddr::from([127, 0, 48, it])));
            Credits::open(slot, 1 << 20, addresses.into_iter()).unwrap()
        };
        (open(0, 1), open(1023, 2))
    }

    #[test]
    fn a_nic_is_known_at_its_addresses_alone() {
        let (from, _to) = pair();
        let known = |slot, last| from.knows(slot, IpAddr::from([127, 0, 48, last]).into());
        assert!(known(1023, 2) && known(1023, 200) && known(0, 1));
        assert!(!known(1023, 1) && !known(1022, 2) && !known(0, 2));
    }

    #[test]
    fn there_is_memory_for_every_slot_before_one_is_looked_at() {
        let (from, _to) = pair();
        drop(from);
        let name = format!("credits-{}", runtime::network_namespace());
        let file = fs::metadata(runtime::directory().unwrap().join(name)).unwrap();
        assert_eq!(file.len(), (STRIDE * SLOTS as usize) as u64);
        assert!(file.blocks() * 512 >= file.len());
    }

    #[test]
    fn who_fills_shared_memory_ends_no_nic() {
        let script = "ip link set lo up; mount -t tmpfs -o size=1m none /dev/shm";
        if !in_namespace("host::credits::tests::who_fills_shared_memory_ends_no_nic", script) {
            return;
        }
        let early = open("127.0.0.1");
        let mut filler = File::create("/dev/shm/filler").unwrap();
        let full = (0..1 << 20).find_map(|_| filler.write_all(&[1; 4096]).err()).unwrap();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        let late = DeviceInfo::find("lo/127.0.0.2", 0).unwrap();
        let late = Nic::open(&late, Box::new(Nothing)).unwrap_err().to_string();
        assert!(late.contains("/dev/shm") && late.contains("No space left"), "{late}");
        // Every part of the page is touched.
        {
            let paths = &mut early.shared().lock().attachment.site.paths;
            (0..SLOTS).for_each(|slot| assert!(!paths.credits().plan(slot, 1)));
        }
        ask(&early);
        assert_eq!(sent(&early), 1);
    }

    #[test]
    fn one_empty_socket_of_two_writes_nothing_off() {
        let (mut from, mut to) = pair();
        let sends = |from: &mut Credits| {
            from.plan(1023, 4096);
            from.send();
        };
        sends(&mut from);
        for _ in 0..2 {
            to.begin_look();
            to.found_empty(1..2, 2);
            assert_eq!(from.on_the_way(1023), 8704);
        }
        // This was sent after the second had been found empty.
        sends(&mut from);
        to.begin_look();
        to.found_empty(0..1, 2);
        assert_eq!(from.on_the_way(1023), 8704);
        to.begin_look();
        to.found_empty(0..2, 2);
        assert_eq!(from.on_the_way(1023), 0);
    }

    #[test]
    fn a_sender_pauses_until_the_receiver_has_taken_or_written_off_what_was_sent() {
        let (mut from, mut to) = pair();
        let mut packets = 1;
        while !from.plan(1023, 4096) {
            packets += 1;
        }
        // Half of a mebibyte, at twice 4096 and 512 each.
        assert_eq!(packets, (1 << 19) / 8704 + 1);
        to.return_for(1, 4096);
        assert!(!from.is_full(1023));
        assert!(from.plan(1023, 4096));
        to.begin_look();
        to.found_empty(0..1, 1);
        assert!(!from.is_full(1023));
        // What comes late does not count against anybody.
        to.return_for(1, 4096);
        assert!(!from.is_full(1023));
        while !from.plan(1023, 4096) {}
        from.give_up(1023);
        assert!(!from.is_full(1023));
        while !from.plan(1023, 4096) {}
        drop(to);
        assert!(!from.is_full(1023), "nobody is there any more");
    }

    #[test]
    fn what_is_taken_while_much_is_built_makes_room_for_more() {
        let (mut from, to) = pair();
        for _ in 0..60 {
            assert!(!from.plan(1023, 4096));
        }
        assert_eq!(to.sent_to_us(), 0, "not sent yet");
        from.send();
        assert_eq!(to.sent_to_us(), 60 * 8704);
        to.return_for(40, 40 * 4096);
        for _ in 0..40 {
            assert!(!from.plan(1023, 4096));
        }
        // What nobody has said to have sent makes no room.
        to.return_for(1000, 1000 * 4096);
        from.send();
        assert_eq!(from.on_the_way(1023), 40 * 8704);
        // Another slot's packets do not wait for these to be sent.
        assert!(!from.plan(0, 4096));
        assert_eq!(to.sent_to_us(), 100 * 8704);
    }
}
