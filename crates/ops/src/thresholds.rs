//! Bounds of alpha by watermarks, whatever the load was: who pauses sooner than its like (guo16, 6.2: 1/64 in place of 1/16).
//!
//! A group pauses when it holds `alpha x (pool - used)` (guo16, 6.2), and gets no more. So watermarks bound alpha, on
//! both sides:
//!
//! ```text
//!   of a switch that paused:  alpha <= most that a group which paused has held / (pool - most that was used of it)
//!   of any switch:            alpha >= most that a group has held / pool
//! ```
//!
//! A switch is found whose upper bound is below half of the lower bound of its like: of more switches of its tier than
//! are as low as itself. Half is ours; alphas are powers of two, and the incident's is a quarter.
//!
//! What cannot be told: a switch that pauses, none of whose like has ever held more than it. Its load may be what is
//! different, and counts of pauses alone never say which. Then nothing is said; the configuration does
//! ([`doctor`](crate::doctor)).
//!
//! Sizes of pools are no counters. Where nobody says them, all switches of a tier are taken to have one size, and that
//! is at least the most that was ever used in any of them; smaller finds less.

use fabric::pfc::PRIORITIES;

/// A switch is found if its alpha is less than this part of that of its like.
const PART: f64 = 0.5;
/// Fewer pauses than this are not looked at.
pub(crate) const PAUSES_MIN: u64 = 16;
/// A group's watermark has its reserve, and passes its threshold by a packet: it says so much too much at most.
const SLACK_BYTES: u64 = 16_384;

/// Groups that are told apart: by number, and by whether the port leads to a host, as switches may treat those otherwise.
pub(crate) const GROUPS: usize = 2 * PRIORITIES;

/// What the groups of one number have shown, of all ports of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Pauses that they have sent.
    pauses: u64,
    /// The most that one of those which paused has held.
    paused_peak: u64,
    /// The most that any has held.
    peak: u64,
}

/// What a switch has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    groups: [Group; GROUPS],
    /// The most that was used of its pool.
    used: u64,
    /// Whether its pool says so itself.
    is_of_pool: bool,
    size: Option<u64>,
}

impl Shown {
    /// What the group of a priority of a port has shown: pauses that it has sent since the last look, and the most that it
    /// has held. The port `serves` if it leads to a host.
    pub(crate) fn group(&mut self, (priority, serves): (usize, bool), pauses: u64, peak: u64) {
        let shown = &mut self.groups[priority + if serves { PRIORITIES } else { 0 }];
        shown.pauses = shown.pauses.saturating_add(pauses);
        shown.peak = shown.peak.max(peak);
        if pauses > 0 {
            shown.paused_peak = shown.paused_peak.max(peak);
        }
        // Not all at once, so no less than what was.
        self.used = self.used.saturating_add(peak);
    }

    /// What its pool says itself, which counts more than the sum of its groups: its size, and the most that was used.
    pub(crate) fn pool(&mut self, size: Option<u64>, peak: Option<u64>) {
        self.size = size;
        if let Some(used) = peak {
            (self.used, self.is_of_pool) = (used, true);
        }
    }

    /// All that it has shown.
    pub(crate) fn sum(all: &[Self]) -> Self {
        let mut sum = Self::default();
        all.iter().for_each(|shown| sum.add(shown));
        sum
    }

    /// What it has shown at another look, too.
    pub(crate) fn add(&mut self, other: &Self) {
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            group.pauses = group.pauses.saturating_add(other.pauses);
            group.paused_peak = group.paused_peak.max(other.paused_peak);
            group.peak = group.peak.max(other.peak);
        }
        self.used = self.used.max(other.used);
        self.is_of_pool |= other.is_of_pool;
        self.size = self.size.or(other.size);
    }

    /// No alpha of a group can be more, if it has paused.
    fn most(&self, group: usize, pool: u64) -> Option<f64> {
        let of = &self.groups[group];
        let free = pool.checked_sub(self.used).filter(|free| *free > 0)?;
        (of.pauses >= PAUSES_MIN && of.paused_peak > 0).then(|| of.paused_peak as f64 / free as f64)
    }

    /// No alpha of a group can be less.
    fn least(&self, group: usize, pool: u64) -> f64 {
        self.groups[group].peak.saturating_sub(SLACK_BYTES) as f64 / pool.max(1) as f64
    }
}

/// Of the switches of one tier those of whose [`GROUPS`] this one pauses sooner than most, and by what that is known.
pub(crate) fn sooner<K: Copy + PartialEq>(
    like: &[(K, Shown)],
    group: usize,
) -> impl Iterator<Item = (K, String)> {
    let of_pools = like.iter().filter(|(_, shown)| shown.is_of_pool);
    let least_size = of_pools.map(|(_, shown)| shown.used).max();
    let pool = move |shown: &Shown| shown.size.or(least_size);
    like.iter().filter_map(move |(device, shown)| {
        let size = pool(shown)?;
        let most = shown.most(group, size)?;
        let [mut higher, mut as_low] = [Vec::new(), Vec::new()];
        for (_, other) in like.iter().filter(|(other, _)| other != device) {
            let Some(size) = pool(other) else { continue };
            if most < PART * other.least(group, size) {
                higher.push(other);
            } else if other.most(group, size).is_some_and(|other| PART * other <= most) {
                as_low.push(other);
            }
        }
        if higher.len() <= as_low.len() {
            return None;
        }
        let of = &shown.groups[group];
        let theirs = higher.iter().map(|other| other.groups[group].peak).max().unwrap_or(0);
        let used = 100.0 * shown.used as f64 / size.max(1) as f64;
        let evidence = format!(
            "it paused {} times, and none of those groups held more than {} bytes, though at most {used:.0} % of its \
             buffer was used; of the {} others of its tier {} let theirs hold twice that part of their buffers and more, \
             up to {theirs} bytes",
            of.pauses,
            of.paused_peak,
            like.len() - 1,
            higher.len(),
        );
        Some((*device, evidence))
    })
}
