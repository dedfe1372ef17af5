//! The reorder buffer: packets that have arrived out of order.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;

use rdma::{Memory, Psn};
use wire::{roce, saeth};

use super::Bounds;
use crate::arrival::Carried;
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
}

impl ReorderBuffer {
    pub(crate) fn new(bounds: Bounds, base: Psn) -> Self {
        Self { bounds, base, slots: VecDeque::new(), held: OutOfOrder::default(), newest: base }
    }

    /// How much is kept.
    pub(crate) fn held(&self) -> OutOfOrder {
        self.held
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
