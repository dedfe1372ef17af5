//! The shared buffer of a switch: who may take what of it.
//!
//! ```text
//!   buffer = reserves of all groups + headrooms of all lossless groups + shared
//!   a group of a port:  reserve │ shared, up to its threshold │ headroom
//!                                                         XOFF▲
//! ```
//!
//! Memory is given out in cells: a packet takes whole ones ([`Cell`]), and all occupancies and limits are
//! in bytes of cells. Counters of traffic are in bytes of frames.
//!
//! A packet is accounted to the priority group of the port that it came in by until it leaves the
//! switch. (The memory of a real one is freed cell by cell while it is sent; here it is freed when
//! its first bit leaves.) As in guo16, 6.2, a group may take shared memory as long as
//! `alpha x free > taken`; so it passes its threshold by less than one packet. What arrives beyond
//! that goes to the headroom if the group is lossless, and is dropped if it is lossy.
//!
//! XOFF is due when a packet takes a group to its threshold or beyond. XON is due when a packet
//! leaves, the headroom is empty, and the group is `xon_offset` below its threshold, or at most `xon`
//! in shared memory. Each group has a headroom of its own, or all share a pool, which is smaller than
//! their sum: they are not expected to be full at once.
//!
//! **Invariant:** what all groups hold is what all queues hold. A lossless packet is dropped only when
//! its headroom is full, and counted as such.

use super::cell::Cell;
use super::config::{GroupConfig, Threshold};

/// A priority group of a port, with its limits: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Group {
    /// Held in reserve and shared memory.
    pub(crate) bytes: u32,
    /// Held in headroom.
    pub(crate) headroom: u32,
    reserve: u32,
    pub(crate) headroom_limit: u32,
    xon_offset: u32,
    xon: u32,
    pub(crate) threshold: Threshold,
    pub(crate) lossless: bool,
    /// XOFF was the last that was said.
    pub(crate) off: bool,
    pub(crate) peak_bytes: u32,
    pub(crate) peak_headroom: u32,
    pub(crate) dropped: u32,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
}

impl Group {
    /// The group of a port whose headroom, if it is lossless, is `headroom` bytes.
    pub(crate) fn new(config: &GroupConfig, headroom: u32) -> Self {
        Self {
            bytes: 0,
            headroom: 0,
            reserve: config.reserve_bytes,
            headroom_limit: if config.lossless { headroom } else { 0 },
            xon_offset: config.xon_offset_bytes,
            xon: config.xon_bytes,
            threshold: config.threshold,
            lossless: config.lossless,
            off: false,
            peak_bytes: 0,
            peak_headroom: 0,
            dropped: 0,
            received_packets: 0,
            received_bytes: 0,
        }
    }

    /// Gives it other limits. What it holds it keeps, and gives back as it is accounted.
    pub(crate) fn change(&mut self, shared: &mut Shared, config: &GroupConfig, headroom: u32) {
        shared.used -= self.shared();
        self.reserve = config.reserve_bytes;
        shared.used += self.shared();
        self.headroom_limit = if config.lossless { headroom } else { 0 };
        (self.xon_offset, self.xon) = (config.xon_offset_bytes, config.xon_bytes);
        (self.threshold, self.lossless) = (config.threshold, config.lossless);
    }

    /// What it holds of the shared memory.
    fn shared(&self) -> u32 {
        self.bytes.saturating_sub(self.reserve)
    }

    /// What it holds.
    pub(crate) fn held(&self) -> u32 {
        self.bytes + self.headroom
    }
}

/// The memory that all groups of a switch share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub(crate) cell: Cell,
    pub(crate) size: u32,
    pub(crate) used: u32,
    pub(crate) peak: u32,
    /// What all headrooms together may hold.
    pub(crate) headroom_size: u32,
    pub(crate) headroom_used: u32,
}

impl Shared {
    /// What `threshold` allows at present.
    #[inline]
    pub(crate) fn limit(&self, threshold: Threshold) -> u32 {
        self.limit_at(threshold, self.used)
    }

    /// What it allows when so many bytes are used.
    #[inline]
    fn limit_at(&self, threshold: Threshold, used: u32) -> u32 {
        match threshold {
            Threshold::Static { bytes } => bytes,
            Threshold::Dynamic { exponent } => {
                let free = u64::from(self.size.saturating_sub(used));
                let limit = if exponent >= 0 { free << exponent } else { free >> -exponent };
                limit.min(u64::from(u32::MAX)) as u32
            }
        }
    }
}

/// Whether a packet was let into the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It is in.
    Accepted,
    /// It is in, and XOFF is due.
    AcceptedXoff,
    /// There is no room.
    Refused,
}

/// Accounts a packet of `bytes` to `group`.
#[inline]
pub(crate) fn admit(shared: &mut Shared, group: &mut Group, bytes: u32) -> Admission {
    let cells = shared.cell.taken_by(bytes);
    let limit = shared.limit(group.threshold);
    let taken = group.shared();
    let after = (group.bytes + cells).saturating_sub(group.reserve);
    let fits = after == 0 || limit > taken && shared.used + (after - taken) <= shared.size;
    if fits {
        shared.used += after - taken;
        shared.peak = shared.peak.max(shared.used);
        group.bytes += cells;
        group.peak_bytes = group.peak_bytes.max(group.bytes);
    } else if group.headroom + cells <= group.headroom_limit
        && shared.headroom_used + cells <= shared.headroom_size
    {
        group.headroom += cells;
        shared.headroom_used += cells;
        group.peak_headroom = group.peak_headroom.max(group.headroom);
    } else {
        group.dropped += 1;
        return Admission::Refused;
    }
    group.received_packets += 1;
    group.received_bytes += u64::from(bytes);
    let over = !fits || after > 0 && after >= shared.limit(group.threshold);
    if group.lossless && !group.off && over { Admission::AcceptedXoff } else { Admission::Accepted }
}

/// Accounts a packet of `bytes` that leaves as soon as it has come, if no pause has to do with it:
/// what [`admit`] and [`release`] would come to, one after the other. If not it changes nothing and
/// returns `false`.
#[inline]
pub(crate) fn pass(shared: &mut Shared, group: &mut Group, bytes: u32) -> bool {
    let held = group.bytes + shared.cell.taken_by(bytes);
    let after = held.saturating_sub(group.reserve);
    let used = shared.used + (after - group.shared());
    // What is below its threshold with the packet was below it without.
    let below = after < shared.limit_at(group.threshold, used) && used <= shared.size;
    if group.off || group.headroom > 0 || after > 0 && !below {
        return false;
    }
    shared.peak = shared.peak.max(used);
    group.peak_bytes = group.peak_bytes.max(held);
    group.received_packets += 1;
    group.received_bytes += u64::from(bytes);
    true
}

/// Gives back what a packet of `bytes` took. Returns whether XON is due.
#[inline]
pub(crate) fn release(shared: &mut Shared, group: &mut Group, bytes: u32) -> bool {
    // What came last, into the headroom, is given back first: the room for the next pause.
    let cells = shared.cell.taken_by(bytes);
    let of_headroom = cells.min(group.headroom);
    group.headroom -= of_headroom;
    shared.headroom_used -= of_headroom;
    let before = group.shared();
    group.bytes -= cells - of_headroom;
    shared.used -= before - group.shared();
    group.off && group.headroom == 0 && {
        let limit = shared.limit(group.threshold);
        let taken = group.shared();
        // SAI: the larger of the two is what counts.
        let offset = u64::from(group.xon_offset);
        taken <= group.xon || u64::from(taken) + offset <= u64::from(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(size: u32) -> Shared {
        let cell = Cell::BYTE;
        Shared { cell, size, used: 0, peak: 0, headroom_size: u32::MAX, headroom_used: 0 }
    }

    fn group(exponent: i8, headroom: u32) -> Group {
        let threshold = Threshold::Dynamic { exponent };
        Group::new(&GroupConfig { threshold, ..GroupConfig::LOSSLESS }, headroom)
    }

    /// Fills until XOFF is due, and says how many packets it took.
    fn fill(shared: &mut Shared, group: &mut Group) -> u32 {
        for count in 1.. {
            match admit(shared, group, 1_000) {
                Admission::Accepted => {}
                Admission::AcceptedXoff => {
                    group.off = true;
                    return count;
                }
                Admission::Refused => panic!("refused before XOFF"),
            }
        }
        0
    }

    #[test]
    fn k_groups_that_fill_together_stop_at_the_occupancy_of_choudhury_and_hahne() {
        // alpha B / (1 + k alpha) each.
        for (exponent, k) in [(0i8, 1u32), (0, 4), (-4, 1), (-4, 16), (2, 2), (-6, 30)] {
            let mut shared = shared(10_000_000);
            let mut groups = vec![group(exponent, 0); k as usize];
            let mut active: Vec<usize> = (0..k as usize).collect();
            while !active.is_empty() {
                active.retain(|&index| {
                    let outcome = admit(&mut shared, &mut groups[index], 100);
                    outcome == Admission::Accepted
                });
            }
            let alpha = 2f64.powi(i32::from(exponent));
            let expected = alpha * 10_000_000.0 / (1.0 + f64::from(k) * alpha);
            for group in &groups {
                let difference = (f64::from(group.bytes) - expected).abs();
                assert!(difference <= 200.0 * (1.0 + alpha), "{} {expected}", group.bytes);
            }
        }
    }

    #[test]
    fn after_xoff_packets_go_to_the_headroom_and_leave_it_first() {
        let mut shared = shared(160_000);
        let mut group = group(-1, 2_500);
        // 53,334 of 160,000: 54 packets take it over half of what is then free.
        assert_eq!(fill(&mut shared, &mut group), 54);
        assert_eq!(admit(&mut shared, &mut group, 1_000), Admission::Accepted);
        assert_eq!(admit(&mut shared, &mut group, 1_000), Admission::Accepted);
        assert_eq!((group.bytes, group.headroom), (54_000, 2_000));
        assert_eq!(admit(&mut shared, &mut group, 1_000), Admission::Refused);
        assert_eq!((group.dropped, group.received_packets, shared.used), (1, 56, 54_000));
        for _ in 0..2 {
            assert!(!release(&mut shared, &mut group, 1_000));
        }
        assert_eq!((group.bytes, group.headroom), (54_000, 0));
        // XON at 4,608 below the threshold: 51,000 and (160,000 - 51,000) / 2 = 54,500 no; at
        // 50,000 it is 55,000.
        let mut left = 0;
        while !release(&mut shared, &mut group, 1_000) {
            left += 1;
        }
        assert_eq!((left, group.bytes), (3, 50_000));
    }

    #[test]
    fn a_group_in_a_full_buffer_resumes_when_it_is_empty() {
        let mut shared = shared(10_000);
        let mut first = group(0, 5_000);
        let mut second = group(7, 5_000);
        assert_eq!(fill(&mut shared, &mut second), 10);
        assert_eq!(admit(&mut shared, &mut first, 1_000), Admission::AcceptedXoff);
        first.off = true;
        assert_eq!((first.bytes, first.headroom), (0, 1_000));
        assert!(release(&mut shared, &mut first, 1_000));
    }

    #[test]
    fn a_packet_takes_whole_cells_and_counts_as_what_it_is() {
        let mut shared = Shared { cell: Cell::new(208).unwrap(), ..shared(4_160) };
        let mut group = group(7, 416);
        // Twenty cells, and two of headroom.
        for _ in 0..18 {
            assert_eq!(admit(&mut shared, &mut group, 66), Admission::Accepted);
        }
        assert!(pass(&mut shared, &mut group, 64));
        assert_eq!(admit(&mut shared, &mut group, 66), Admission::Accepted);
        assert_eq!(admit(&mut shared, &mut group, 66), Admission::AcceptedXoff);
        group.off = true;
        assert_eq!(admit(&mut shared, &mut group, 208), Admission::Accepted);
        assert_eq!(admit(&mut shared, &mut group, 209), Admission::Refused);
        assert_eq!((shared.used, group.held(), group.peak_headroom), (4_160, 4_368, 208));
        assert_eq!((group.received_packets, group.received_bytes), (22, 20 * 66 + 64 + 208));
        for bytes in [208, 66, 66] {
            release(&mut shared, &mut group, bytes);
        }
        assert_eq!((shared.used, shared.headroom_used, group.held()), (3_744, 0, 3_744));
    }

    #[test]
    fn headrooms_of_one_pool_are_full_together() {
        let mut shared = Shared { headroom_size: 3_000, ..shared(1_000) };
        let (mut first, mut second) = (group(7, 2_500), group(7, 2_500));
        assert_eq!(admit(&mut shared, &mut first, 1_000), Admission::AcceptedXoff);
        first.off = true;
        assert_eq!(admit(&mut shared, &mut first, 1_000), Admission::Accepted);
        assert_eq!(admit(&mut shared, &mut first, 1_000), Admission::Accepted);
        assert_eq!(admit(&mut shared, &mut second, 1_000), Admission::AcceptedXoff);
        second.off = true;
        assert_eq!(admit(&mut shared, &mut second, 1_000), Admission::Refused);
        assert_eq!((first.headroom, second.headroom, shared.headroom_used), (2_000, 1_000, 3_000));
        release(&mut shared, &mut first, 1_000);
        assert_eq!(admit(&mut shared, &mut second, 1_000), Admission::Accepted);
    }

    #[test]
    fn xon_is_due_at_an_occupancy_as_well() {
        let mut shared = shared(160_000);
        let threshold = Threshold::Static { bytes: 20_000 };
        let config = GroupConfig {
            threshold,
            xon_offset_bytes: 20_000,
            xon_bytes: 7_000,
            ..GroupConfig::LOSSLESS
        };
        let mut group = Group::new(&config, 0);
        assert_eq!(fill(&mut shared, &mut group), 20);
        let mut left = 1;
        while !release(&mut shared, &mut group, 1_000) {
            left += 1;
        }
        assert_eq!((left, group.bytes), (13, 7_000));
    }

    #[test]
    fn a_reserve_is_kept_for_its_group() {
        let mut shared = shared(10_000);
        let config = GroupConfig { reserve_bytes: 3_000, ..GroupConfig::LOSSY };
        let mut reserved = Group::new(&config, 0);
        shared.used = 10_000;
        for _ in 0..3 {
            assert_eq!(admit(&mut shared, &mut reserved, 1_000), Admission::Accepted);
        }
        assert_eq!(admit(&mut shared, &mut reserved, 1_000), Admission::Refused);
        assert_eq!((shared.used, reserved.held()), (10_000, 3_000));
        assert!(!release(&mut shared, &mut reserved, 1_000));
        assert_eq!((shared.used, reserved.held()), (10_000, 2_000));
    }

    #[test]
    fn a_static_threshold_does_not_move() {
        let mut shared = shared(1_000_000);
        let threshold = Threshold::Static { bytes: 20_000 };
        let mut group = Group::new(&GroupConfig { threshold, ..GroupConfig::LOSSLESS }, 0);
        assert_eq!(fill(&mut shared, &mut group), 20);
    }
}
