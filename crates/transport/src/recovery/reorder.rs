//! The reorder buffer: packets that have arrived out of order.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use rdma::{Memory, Psn};
use wire::{parteth, roce, saeth};

use super::Bounds;
use crate::arrival::Carried;
use crate::limits::PACKETS_IN_PARTS_MAX;
use crate::mutation::{Mutation, mutated};

/// What was told so often has been heard, but for very many losses: acknowledgements are lost, too.
const TOLD_ENOUGH: u8 = 2;

/// A packet as it arrived.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) header: roce::Repr,
    payload: Vec<u8>,
    /// The payload's length on arrival; fewer bytes may be kept.
    length: usize,
    /// PSNs that it stands for.
    packets: u32,
    /// How often the sender was told of it, up to [`TOLD_ENOUGH`].
    told: u8,
}

impl Kept {
    /// What it carries.
    pub(crate) fn carried<M: Memory>(&self) -> Carried<M::Payload<'_>> {
        Carried { payload: M::recall(&self.payload), length: self.length }
    }
}

/// A packet of which only some parts have arrived.
#[derive(Debug)]
struct Unfinished {
    psn: Psn,
    payload: Vec<u8>,
    /// A bit for each part of the shortest kind that has not.
    missing: u64,
}

/// How much is kept out of order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutOfOrder {
    /// Packets.
    pub packets: usize,
    /// Bytes of their payload.
    pub bytes: usize,
}

/// Kept packets, by their distance from the missing one.
///
/// **Invariant:** it holds no more than its bounds allow, whatever a peer sends.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    bounds: Bounds,
    /// The PSN that is missing: that of the first slot.
    base: Psn,
    slots: VecDeque<Option<Box<Kept>>>,
    held: OutOfOrder,
    newest: Psn,
    /// Packets, from the missing one on, that arrive in parts.
    unfinished: Vec<Unfinished>,
    /// One that lacked a part, which came with its repetition: the others of that are still to come.
    early: Option<Psn>,
}

impl ReorderBuffer {
    pub(crate) fn new(bounds: Bounds, base: Psn) -> Self {
        let (slots, held) = (VecDeque::new(), OutOfOrder::default());
        Self { bounds, base, slots, held, newest: base, unfinished: Vec::new(), early: None }
    }

    /// How much is kept.
    pub(crate) fn held(&self) -> OutOfOrder {
        self.held
    }

    /// Whether a packet waits for some of its parts.
    pub(crate) fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Whether a part is of a repetition that has brought already what was missing. It tells nothing: who takes it for a
    /// duplicate thinks that all of that was in vain.
    pub(crate) fn is_left_over(&mut self, psn: Psn, offset: u16, is_last: bool) -> bool {
        let is_left_over = self.early == Some(psn) && offset > 0;
        if self.early == Some(psn) && (is_last || offset == 0) {
            self.early = None;
        }
        is_left_over
    }

    /// Keeps a part of the packet `psn`, which is the missing one or behind it; parts of it begin at multiples of `each`.
    /// Returns what the packet carries once all its parts have come. If there are too many such packets, the furthest ahead
    /// makes room.
    pub(crate) fn keep_part<M: Memory>(
        &mut self,
        psn: Psn,
        parteth::Repr { offset, whole }: parteth::Repr,
        each: u16,
        Carried { payload, length }: Carried<M::Payload<'_>>,
    ) -> Option<Vec<u8>> {
        let base = self.base;
        let bits = |bytes: usize| {
            let none = 64_u32.saturating_sub(bytes.div_ceil(each.into()) as u32);
            u64::MAX.checked_shr(none).unwrap_or(0)
        };
        let ahead = |it: &Unfinished| it.psn.distance_from(base);
        if psn.distance_from(base) >= self.bounds.packets {
            return None;
        }
        let is_same = |it: &Unfinished| it.psn == psn && it.payload.len() == usize::from(whole);
        let found = self.unfinished.iter().position(is_same).unwrap_or_else(|| {
            self.unfinished.retain(|it| it.psn != psn);
            let missing = bits(whole.into());
            self.unfinished.push(Unfinished { psn, payload: vec![0; whole.into()], missing });
            self.unfinished.len() - 1
        });
        let unfinished = self.unfinished.get_mut(found)?;
        let mut at = usize::from(offset);
        M::keep(payload, length, |bytes| {
            if let Some(place) = unfinished.payload.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            at += bytes.len();
        });
        unfinished.missing &= !(bits(length) << (offset / each));
        if unfinished.missing == 0 {
            let is_last = usize::from(offset) + length == usize::from(whole);
            self.early = (!is_last).then_some(psn);
            return Some(self.unfinished.swap_remove(found).payload);
        }
        if self.unfinished.len() > PACKETS_IN_PARTS_MAX {
            let furthest = self.unfinished.iter().max_by_key(|it| ahead(it)).map(|it| it.psn);
            self.unfinished.retain(|it| Some(it.psn) != furthest);
        }
        None
    }

    /// Keeps a packet behind the missing one that stands for `packets` PSNs. Returns whether it is
    /// kept, now or since before.
    pub(crate) fn keep<M: Memory>(
        &mut self,
        header: &roce::Repr,
        Carried { payload, length }: Carried<M::Payload<'_>>,
        packets: u32,
    ) -> bool {
        let distance = header.bth.psn.distance_from(self.base);
        let OutOfOrder { packets: count, bytes } = self.held;
        let fits = distance < self.bounds.packets && bytes + length <= self.bounds.bytes;
        if !fits && !mutated(Mutation::OutOfOrderUnbounded) {
            return false;
        }
        let index = distance as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.newest = header.bth.psn;
        let Some(slot @ None) = self.slots.get_mut(index) else { return true };
        let mut kept = Vec::new();
        M::keep(payload, length, |bytes| kept.extend_from_slice(bytes));
        *slot = Some(Box::new(Kept { header: *header, payload: kept, length, packets, told: 0 }));
        self.held = OutOfOrder { packets: count + 1, bytes: bytes + length };
        true
    }

    /// Whether `psn` is new, comes next behind the packet that came last and is kept, and fills no gap.
    pub(crate) fn goes_on_with(&self, psn: Psn) -> bool {
        let is_next = psn == self.newest.next() && self.has(self.newest);
        is_next && !self.has(psn) && !self.has(psn.next())
    }

    /// Makes `base` the missing packet, and forgets what is before it.
    pub(crate) fn advance(&mut self, base: Psn) {
        let passed = base.distance_from(self.base) as usize;
        self.base = base;
        self.unfinished.retain(|it| !it.psn.is_before(base));
        for _ in 0..passed.min(self.slots.len()) {
            self.remove_first();
        }
    }

    /// The packet whose turn it is, if it is here.
    pub(crate) fn take(&mut self) -> Option<Box<Kept>> {
        if mutated(Mutation::GapTakenForFilled) {
            while let Some(None) = self.slots.front() {
                self.slots.pop_front();
                self.base = self.base.next();
            }
        }
        self.slots.front()?.as_ref()?;
        self.base = self.base.next();
        self.remove_first()
    }

    /// Whether the response `psn` is here.
    pub(crate) fn has(&self, psn: Psn) -> bool {
        let index = psn.distance_from(self.base) as usize;
        self.slots.get(index).is_some_and(Option::is_some)
    }

    pub(crate) fn clear(&mut self) {
        self.slots = VecDeque::new();
        self.held = OutOfOrder::default();
        self.unfinished.clear();
        self.early = None;
    }

    fn remove_first(&mut self) -> Option<Box<Kept>> {
        let kept = self.slots.pop_front()??;
        self.held.packets -= 1;
        self.held.bytes -= kept.length;
        Some(kept)
    }

    /// What has arrived, for a selective acknowledgement: the range with the newest packet, and of the others those that
    /// were told least often, and of these the furthest ahead. Returns with it whether all have been told by now.
    pub(crate) fn tell(&mut self) -> (saeth::Repr, bool) {
        let newest = self.newest.distance_from(self.base);
        let mut ranges = [saeth::Arrived::default(); saeth::RANGES];
        let mut others = Vec::new();
        for (range, told) in self.runs() {
            if (u32::from(range.first)..range.end()).contains(&newest) {
                ranges[0] = range;
            } else {
                others.push((told, Reverse(range.first), range));
            }
        }
        others.sort_unstable_by_key(|&(told, first, _)| (told, first));
        let is_all = others.get(saeth::RANGES - 1).is_none_or(|&(told, ..)| told > 0);
        others.truncate(saeth::RANGES - 1);
        others.sort_unstable_by_key(|&(_, Reverse(first), _)| first);
        for (range, (_, _, other)) in ranges.iter_mut().rev().zip(others.iter().rev()) {
            *range = *other;
        }
        for range in ranges {
            let (first, packets) = (usize::from(range.first), usize::from(range.packets));
            for kept in self.slots.iter_mut().skip(first).take(packets).flatten() {
                kept.told = (kept.told + 1).min(TOLD_ENOUGH);
            }
        }
        (saeth::Repr { ranges }, is_all)
    }

    /// Ranges of kept packets without a gap, nearest first, and how often all of each has been told. The further PSNs of a
    /// READ request have no slots; beyond the bounds they are not looked for.
    fn runs(&self) -> impl Iterator<Item = (saeth::Arrived, u8)> {
        let furthest = self.bounds.packets as usize;
        let mut index = 0;
        core::iter::from_fn(move || {
            let mut run: Option<(usize, usize)> = None;
            let mut told = TOLD_ENOUGH;
            while let Some(slot) = self.slots.get(index) {
                let until = slot.as_ref().map_or(0, |kept| index + kept.packets as usize);
                match &mut run {
                    None if until > 0 => run = Some((index, until.min(furthest))),
                    None => {}
                    Some((_, end)) if until == 0 && index >= *end => break,
                    Some((_, end)) => *end = until.min(furthest).max(*end),
                }
                told = slot.as_ref().map_or(told, |kept| told.min(kept.told));
                index += 1;
            }
            let (first, end) = run?;
            // Both are within the bounds, which 16 bits hold.
            let range = saeth::Arrived { first: first as u16, packets: (end - first) as u16 };
            Some((range, told))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestMemory;

    fn keep(buffer: &mut ReorderBuffer, psn: u32, offset: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        let carried = Carried { payload: bytes, length: bytes.len() };
        let part = parteth::Repr { offset, whole: 6 };
        buffer.keep_part::<TestMemory>(Psn::new(psn), part, 4, carried)
    }

    #[test]
    fn parts_wait_for_each_other_within_bounds_and_until_their_packet_is_done() {
        let bounds = Bounds { packets: 1_000, bytes: 1 << 20 };
        let mut buffer = ReorderBuffer::new(bounds, Psn::new(0));
        assert_eq!(keep(&mut buffer, 0, 4, b"56"), None);
        assert_eq!(keep(&mut buffer, 0, 4, b"56"), None);
        assert_eq!(keep(&mut buffer, 0, 0, b"1234"), Some(b"123456".to_vec()));
        assert!(!buffer.has_unfinished());
        // What was missing came with a repetition, of which more follows. Another one is for nothing.
        let mut is_left_over = |psn, offset| buffer.is_left_over(Psn::new(psn), offset, offset > 0);
        assert_eq!(
            [(1, 4), (0, 4), (0, 4)].map(|(psn, offset)| is_left_over(psn, offset)),
            [false, true, false]
        );
        assert_eq!(keep(&mut buffer, 0, 4, b"56"), None);
        assert_eq!(keep(&mut buffer, 0, 0, b"1234"), Some(b"123456".to_vec()));
        assert_eq!(
            [0, 4].map(|offset| buffer.is_left_over(Psn::new(0), offset, offset > 0)),
            [false; 2]
        );
        // Nothing is kept beyond the bounds, and the furthest ahead makes room.
        assert_eq!(keep(&mut buffer, 1_000, 0, b"1234"), None);
        assert!(!buffer.has_unfinished());
        let most = PACKETS_IN_PARTS_MAX as u32;
        for psn in (0..=most).rev() {
            assert_eq!(keep(&mut buffer, psn, 0, b"1234"), None);
        }
        assert_eq!(keep(&mut buffer, most, 4, b"56"), None);
        assert_eq!(keep(&mut buffer, most - 1, 4, b"56"), Some(b"123456".to_vec()));
        // What was done otherwise is forgotten, before its PSN comes round again.
        buffer.advance(Psn::new(most));
        assert!(!buffer.has_unfinished());
    }
}
