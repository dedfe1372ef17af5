//! Which IP identifications a sender uses, so that its ICRCs are checked in (nearly) all their bits.
//!
//! The ICRC covers the IPv4 identification, which a UDP socket does not show. It can be found out
//! from the ICRC itself ([`icrc::recover_id`]), but if any will do, one wrong ICRC in 2^16 passes. So
//! a sender is held to what it was seen to do:
//!
//! ```text
//!   any ─┬─ so many in a row below 64 ────────────► small: 0 to 63, as Ferroce sends
//!    ▲   └─ so many in a row, each 1 to 64 higher ► steps: 1 to 64 above the last one
//!    └───── others, more than accidents explain ──┘
//! ```
//!
//! In habits of 64 identifications, one wrong ICRC in 2^26 passes. A sender of random ones, such as
//! Soft-RoCE, stays at any. One that changes loses a few packets, which it repeats.

use core::net::{IpAddr, Ipv4Addr};

use wire::icrc::{self, Prefix};

use crate::limits::{
    GSO_SEGMENTS_MAX, HABIT_PACKETS, HABIT_PACKETS_MAX, HABIT_PERIOD_PACKETS, HABITS,
    STRANGE_PACKETS_MAX,
};

/// The habits of the senders of late.
#[derive(Debug)]
pub(crate) struct Habits {
    /// By a hash of the address: the last sender that has it.
    senders: Box<[Habit]>,
}

impl Habits {
    pub(crate) fn new() -> Self {
        Self { senders: vec![Habit::default(); HABITS].into_boxed_slice() }
    }

    /// Where that of the sender at `source` is, which is new if it had no place.
    #[inline]
    pub(crate) fn place_of(&mut self, source: IpAddr) -> usize {
        let hash = match source {
            IpAddr::V4(address) => u32::from(address),
            // Nothing is to be found out.
            IpAddr::V6(_) => 0,
        };
        let index = hash.wrapping_mul(0x9e37_79b1) as usize >> (32 - HABITS.ilog2());
        let index = index % HABITS;
        let habit = &mut self.senders[index];
        if habit.source != source {
            *habit = Habit { source, ..Habit::default() };
        }
        index
    }

    /// The habit at a place.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &mut Habit {
        &mut self.senders[place % HABITS]
    }
}

/// What one sender does.
#[derive(Clone, Debug)]
pub(crate) struct Habit {
    source: IpAddr,
    /// The last identification that was believed.
    last: u16,
    /// How many in a row were small.
    small: u32,
    /// How many in a row were a step above the one before.
    steps: u32,
    /// How many in a row make a habit: more, each time that one was given up.
    needed: u32,
    /// How many of this period did not fit, and the last of them.
    strange: u32,
    strange_last: u16,
    /// Packets of this period.
    packets: u32,
}

impl Default for Habit {
    fn default() -> Self {
        Self {
            source: Ipv4Addr::UNSPECIFIED.into(),
            last: 0,
            small: 0,
            steps: 0,
            needed: HABIT_PACKETS,
            strange: 0,
            strange_last: 0,
            packets: 0,
        }
    }
}

/// Whether an identification is one that follows `last` soon.
#[inline]
fn is_step(last: u16, id: u16) -> bool {
    usize::from(id.wrapping_sub(last).wrapping_sub(1)) < GSO_SEGMENTS_MAX
}

#[inline]
fn is_small(id: u16) -> bool {
    usize::from(id) < GSO_SEGMENTS_MAX
}

impl Habit {
    /// The identification that the next datagram probably has.
    #[inline]
    pub(crate) fn expected(&self) -> u16 {
        if self.small < self.needed && self.steps >= self.needed {
            self.last.wrapping_add(1)
        } else {
            0
        }
    }

    /// The last packet of a batch, or the only one, had `id`.
    #[inline]
    pub(crate) fn note(&mut self, id: u16) {
        self.small = if is_small(id) { self.small.saturating_add(1) } else { 0 };
        self.steps = if is_step(self.last, id) { self.steps.saturating_add(1) } else { 0 };
        self.last = id;
        self.packets += 1;
        if self.packets >= HABIT_PERIOD_PACKETS {
            (self.packets, self.strange) = (0, 0);
        }
    }

    /// Whether an ICRC that only `id` explains is believed.
    #[cold]
    fn believes(&mut self, id: u16) -> bool {
        // A counter comes past 0, and a long batch counts: both may hold, and either is enough.
        let habits = [
            (self.small >= self.needed).then(|| is_small(id)),
            (self.steps >= self.needed).then(|| is_step(self.last, id)),
        ];
        let mut held = habits.into_iter().flatten().peekable();
        let fits = held.peek().is_none() || held.any(|fits| fits);
        if fits {
            return true;
        }
        // Two in a row are a sender that has gone on elsewhere.
        let before = self.strange_last;
        let goes_on = self.strange > 0 && (id == before || is_step(before, id));
        (self.strange, self.strange_last) = (self.strange + 1, id);
        if goes_on || self.strange >= STRANGE_PACKETS_MAX {
            let needed = (self.needed * 4).min(HABIT_PACKETS_MAX);
            *self = Self { source: self.source, last: id, needed, ..Self::default() };
        }
        goes_on
    }
}

/// A packet whose ICRC is right.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    /// Everything but the ICRC.
    pub(crate) covered: &'a [u8],
    /// The IP identification that it was sent with.
    pub(crate) id: u16,
    /// Whether that had to be found out.
    pub(crate) recovered: bool,
}

/// Checks the ICRC, of a packet that probably has IP identification `id`, of a sender with `habit`.
#[inline]
pub(crate) fn check<'a>(
    packet: &'a [u8],
    id: u16,
    prefix: &Prefix,
    habit: &mut Habit,
) -> Result<Checked<'a>, wire::Error> {
    let (covered, icrc) = packet.split_last_chunk().ok_or(wire::Error::Truncated)?;
    let expected = prefix.icrc(id, covered)?;
    if *icrc == expected {
        return Ok(Checked { covered, id, recovered: false });
    }
    if !prefix.has_id() {
        return Err(wire::Error::Icrc);
    }
    let with_zero = if id == 0 { expected } else { prefix.icrc(0, covered)? };
    let found = icrc::recover_id(*icrc, with_zero, covered.len()).ok_or(wire::Error::Icrc)?;
    if !habit.believes(found) {
        return Err(wire::Error::Icrc);
    }
    // Identification 0 in the middle of a batch is a packet that the kernel has joined to others.
    Ok(Checked { covered, id: found, recovered: found != 0 })
}

/// Checks an ICRC that was computed with identification 0, as those in rings are.
pub(crate) fn check_exactly<'a>(
    packet: &'a [u8],
    prefix: &Prefix,
) -> Result<&'a [u8], wire::Error> {
    let (covered, icrc) = packet.split_last_chunk().ok_or(wire::Error::Truncated)?;
    if *icrc == prefix.icrc(0, covered)? { Ok(covered) } else { Err(wire::Error::Icrc) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::icrc::Datagram;

    fn datagram(id: u16) -> Datagram {
        let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last).into());
        Datagram { id, ..Datagram::between(source, destination) }
    }

    fn packet(id: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..100).collect();
        bytes.extend(icrc::compute(&datagram(id), &bytes).unwrap());
        bytes
    }

    fn prefix() -> Prefix {
        Prefix::new(&datagram(0), 100)
    }

    /// Of packets with these identifications, in single datagrams: which are lost.
    fn lost(habit: &mut Habit, ids: impl IntoIterator<Item = u16>) -> usize {
        let is_lost = |id: &u16| {
            let packet = packet(*id);
            let checked = check(&packet, habit.expected(), &prefix(), habit);
            let seen = checked.as_ref().ok().map(|checked| checked.id);
            seen.inspect(|id| habit.note(*id)).is_none()
        };
        ids.into_iter().filter(is_lost).count()
    }

    fn random() -> impl Iterator<Item = u32> {
        let mut state = 1_u64;
        core::iter::from_fn(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some((state >> 32) as u32)
        })
    }

    fn random_ids() -> impl Iterator<Item = u16> {
        random().map(|bits| (bits >> 16) as u16)
    }

    /// Of a million random ICRCs: how many pass.
    fn passing(habit: &Habit) -> usize {
        let mut packet = packet(0);
        let mut passes = |bits: &u32| {
            packet[100..].copy_from_slice(&bits.to_le_bytes());
            let mut habit = habit.clone();
            check(&packet, habit.expected(), &prefix(), &mut habit).is_ok()
        };
        random().take(1_000_000).filter(|bits| passes(bits)).count()
    }

    #[test]
    fn of_a_million_random_icrcs_none_passes_once_a_sender_is_known() {
        let (mut batches, mut counter, mut soft_roce) =
            (Habit::default(), Habit::default(), Habit::default());
        assert_eq!(lost(&mut batches, (0..40).map(|index| index % 8)), 0);
        assert_eq!(lost(&mut counter, (0..40).map(|index| 65_520_u16.wrapping_add(index * 3))), 0);
        assert_eq!(lost(&mut soft_roce, random_ids().take(1_000)), 0);
        assert_eq!([&Habit::default(), &soft_roce].map(passing), [13; 2], "1 in 2^16 passes");
        assert_eq!([&batches, &counter].map(passing), [0; 2]);
    }

    #[test]
    fn an_expected_identification_is_taken_as_it_is() {
        for id in [0, 5] {
            let packet = packet(id);
            let checked = check(&packet, id, &prefix(), &mut Habit::default()).unwrap();
            assert_eq!(
                (checked.covered, checked.id, checked.recovered),
                (&packet[..100], id, false)
            );
        }
    }

    #[test]
    fn another_identification_is_found_out() {
        let packet = packet(0xbeef);
        let checked = check(&packet, 3, &prefix(), &mut Habit::default()).unwrap();
        assert_eq!((checked.id, checked.recovered), (0xbeef, true));
    }

    #[test]
    fn a_counter_is_expected_to_count_on() {
        let mut habit = Habit::default();
        assert_eq!(lost(&mut habit, 300..340), 0);
        assert_eq!(habit.expected(), 340);
        let packet = packet(340);
        let checked = check(&packet, habit.expected(), &prefix(), &mut habit).unwrap();
        assert!(!checked.recovered);
    }

    #[test]
    fn a_counter_that_jumps_loses_one_packet_and_a_sender_that_changes_a_few() {
        let mut habit = Habit::default();
        assert_eq!(lost(&mut habit, 300..400), 0);
        assert_eq!(lost(&mut habit, 9_000..9_100), 1);
        assert_eq!(lost(&mut habit, [0; 1_000]), 1);
        assert!(lost(&mut habit, random_ids().take(1_000)) <= 20);
    }

    #[test]
    fn senders_behind_one_address_stay_apart_from_habits_after_a_while() {
        let mut habit = Habit::default();
        let runs = (0..200).flat_map(|run| [(run % 2 == 0); 100]);
        let ids: Vec<u16> =
            runs.zip(random_ids()).map(|(small, id)| if small { 0 } else { id }).collect();
        // What fits no habit is lost, until one is no longer formed by a hundred in a row.
        assert!(lost(&mut habit, ids) <= 60);
    }

    #[test]
    fn each_sender_has_its_own_habit() {
        let mut habits = Habits::new();
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let places = addresses.map(|address| habits.place_of(address));
        assert_eq!(lost(habits.at(places[0]), 300..400), 0);
        assert_eq!(habits.at(places[1]).expected(), 0);
        assert_eq!(habits.at(places[0]).expected(), 400);
    }

    #[test]
    fn a_corrupt_or_short_packet_is_refused() {
        let mut corrupt = packet(0);
        corrupt[50] ^= 4;
        let refused = |packet: &[u8]| check(packet, 0, &prefix(), &mut Habit::default()).err();
        assert_eq!(refused(&corrupt), Some(wire::Error::Icrc));
        assert_eq!(refused(&corrupt[..15]), Some(wire::Error::Truncated));
        assert_eq!(refused(&[]), Some(wire::Error::Truncated));
    }

    #[test]
    fn in_a_ring_every_bit_counts() {
        assert!(check_exactly(&packet(0), &prefix()).is_ok());
        assert_eq!(check_exactly(&packet(1), &prefix()), Err(wire::Error::Icrc));
    }

    #[test]
    fn ipv6_has_no_identification_to_find_out() {
        let address = core::net::Ipv6Addr::LOCALHOST.into();
        let v6 = Prefix::new(&Datagram::between(address, address), 100);
        let packet = packet(0xbeef);
        let checked = check(&packet, 0, &v6, &mut Habit::default());
        assert_eq!(checked.err(), Some(wire::Error::Icrc));
    }
}
