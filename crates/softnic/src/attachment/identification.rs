//! The IP identifications that a sender uses: to know them makes the check of its ICRCs strict.
//!
//! The ICRC covers the IPv4 identification, which a UDP socket does not show. It can be computed
//! from the ICRC itself ([`icrc::recover_id`]), but if any value is accepted, one wrong ICRC in 2^16
//! passes. Ferroce sends 0, and 0 to 63 in a GSO batch. Once several batches of a sender in a row have
//! begun with 0, it is expected to go on like that, and one wrong ICRC in 2^26 passes. Other senders
//! count or draw their identifications, and nothing is expected of them.
//!
//! When a sender changes its ways, or a second one uses its address, single packets are lost, never two
//! in a row.

use core::net::{IpAddr, Ipv4Addr};

use wire::icrc::{self, Prefix};

use crate::limits::{GSO_SEGMENTS_MAX, HABIT_BATCHES, HABIT_BATCHES_MAX, HABITS};

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
        let address = match source {
            IpAddr::V4(address) => u32::from(address),
            // Nothing is to be found out.
            IpAddr::V6(_) => 0,
        };
        // Hosts of one network have a place each.
        let network = (address >> 8).wrapping_mul(0x9e37_79b1) >> 24;
        let index = (address ^ network) as usize % HABITS;
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
    /// How many batches in a row began with identification 0.
    zeros: u32,
    /// How many make a habit: more, each time that one was given up.
    needed: u32,
    /// Whether the packet before was not believed.
    is_doubtful: bool,
}

impl Default for Habit {
    fn default() -> Self {
        let source = Ipv4Addr::UNSPECIFIED.into();
        Self { source, zeros: 0, needed: HABIT_BATCHES, is_doubtful: false }
    }
}

impl Habit {
    /// The first packet of a batch, or the only one, had `id`.
    #[inline]
    pub(crate) fn note(&mut self, id: u16) {
        if id == 0 {
            self.zeros = self.zeros.saturating_add(1);
        } else if usize::from(id) >= GSO_SEGMENTS_MAX {
            self.zeros = 0;
        }
        // Smaller ones begin a batch that the kernel has split.
        self.is_doubtful = false;
    }

    /// Whether an ICRC that only `id` explains is believed.
    #[cold]
    fn believes(&mut self, id: u16) -> bool {
        if self.zeros < self.needed || usize::from(id) < GSO_SEGMENTS_MAX {
            return true;
        }
        if self.is_doubtful {
            self.zeros = 0;
            self.needed = (self.needed * 4).min(HABIT_BATCHES_MAX);
        }
        // An accident does not come twice in a row.
        core::mem::replace(&mut self.is_doubtful, true)
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

/// Checks the ICRC of a packet that probably has IP identification `id`, of a sender with `habit`.
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
    use std::collections::HashSet;
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
    fn lost(habit: &mut Habit, ids: impl IntoIterator<Item = u16>) -> Vec<usize> {
        let is_lost = |id: u16| {
            let packet = packet(id);
            let seen = check(&packet, 0, &prefix(), habit).ok().map(|checked| checked.id);
            seen.inspect(|id| habit.note(*id)).is_none()
        };
        let all = ids.into_iter().map(is_lost).enumerate();
        all.filter(|(_, is_lost)| *is_lost).map(|(place, _)| place).collect()
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
            check(&packet, 0, &prefix(), &mut habit).is_ok()
        };
        random().take(1_000_000).filter(|bits| passes(bits)).count()
    }

    /// A counter that jumps after each pause, as the kernel's does.
    fn jumping() -> impl Iterator<Item = u16> {
        random_ids().flat_map(|start| (0..40).map(move |step| start.wrapping_add(step)))
    }

    #[test]
    fn hosts_of_one_network_do_not_share_a_place() {
        let mut habits = Habits::new();
        let places: HashSet<usize> =
            (0..=255).map(|host| habits.place_of(IpAddr::from([10, 0, 7, host]))).collect();
        assert_eq!(places.len(), 256);
    }

    #[test]
    fn of_a_million_random_icrcs_none_passes_once_a_sender_is_known() {
        let [mut ferroce, mut counter, mut soft_roce] = [(); 3].map(|()| Habit::default());
        assert_eq!(lost(&mut ferroce, [0; 40]), [0; 0]);
        assert_eq!(lost(&mut ferroce, [0, 12, 0, 63]), [0; 0], "split batches");
        assert_eq!(lost(&mut counter, jumping().take(200_000)), [0; 0]);
        assert_eq!(lost(&mut soft_roce, random_ids().take(200_000)), [0; 0]);
        assert_eq!([&Habit::default(), &counter, &soft_roce].map(passing), [13; 3], "1 in 2^16");
        assert_eq!(passing(&ferroce), 0);
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
    fn who_changes_loses_one_packet_and_whoever_shares_an_address_never_two_in_a_row() {
        let mut habit = Habit::default();
        assert_eq!(lost(&mut habit, [0; 100].into_iter().chain(jumping().take(200))), [100]);
        let mut habit = Habit::default();
        let runs = (0..2_000).flat_map(|run| [run % 2 == 0; 50]);
        let ids = runs.zip(random_ids()).map(|(zero, id)| if zero { 0 } else { id | 64 });
        let lost = lost(&mut habit, ids);
        // Until a habit is no longer formed by fifty in a row.
        assert_eq!(lost, [50]);
    }

    #[test]
    fn each_sender_has_its_own_habit() {
        let mut habits = Habits::new();
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let places = addresses.map(|address| habits.place_of(address));
        assert_eq!(lost(habits.at(places[0]), [0; 40]), [0; 0]);
        assert_eq!(lost(habits.at(places[1]), random_ids().take(10)), [0; 0]);
        assert_eq!(lost(habits.at(places[0]), [500]), [0]);
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
