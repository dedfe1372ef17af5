//! How often each device counts on. Whoever saves counters may do so more rarely than they are looked at: then a look at which
//! nothing has changed says nothing, and the next one tells of the whole time since.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::watch::port::PortName;

/// Counters are saved once in this time at least, or nobody waits for them.
const LONGEST: Duration = Duration::from_secs(60);

/// So many gaps are remembered: who saves does not do so by the clock.
const REMEMBERED: usize = 6;

/// When a device has counted on.
#[derive(Clone, Copy, Debug)]
struct Cadence {
    /// When it was last judged.
    at: Duration,
    changed: Duration,
    /// How long that took of late, and the place of the next.
    gaps: ([Duration; REMEMBERED], usize),
}

impl Cadence {
    /// How long it takes at most. The longest is not believed: it may have been idle once.
    fn gap(self) -> Duration {
        let mut gaps = self.gaps.0;
        gaps.sort_unstable();
        gaps[REMEMBERED - 2]
    }

    /// How long counters have gone on that were saved in a gap between looks. One who saves between two looks seems to be
    /// a look early or late: on average he is less so.
    fn took(self, gap: Duration, poll: Duration) -> Duration {
        if gap <= poll * 3 / 2 {
            return gap;
        }
        let (gaps, next) = self.gaps;
        let known = next.clamp(1, REMEMBERED) as u32;
        let mean = (gaps.iter().sum::<Duration>() / known).saturating_sub(poll / known);
        let usual = if self.is_slow(poll) { mean } else { Duration::ZERO };
        gap.min(usual).max(gap.saturating_sub(poll))
    }

    /// A look more or less is no cadence.
    fn is_slow(self, poll: Duration) -> bool {
        self.gap() > poll * 3 / 2
    }

    /// Whether a device that shows no change is taken not to have been asked since, and not to be idle.
    fn is_awaited(self, now: Duration, poll: Duration) -> bool {
        let usual = self.gap().clamp(poll.min(LONGEST), LONGEST);
        now.saturating_sub(self.changed) < usual * 2
    }
}

/// By device.
#[derive(Clone, Debug, Default)]
pub(super) struct Cadences(BTreeMap<PortName, Cadence>);

/// What a device that is judged has counted on for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// When it was last judged.
    pub(super) since: Duration,
    /// How long its counters have gone on since, at least.
    pub(super) took: Duration,
}

/// What a look is worth.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// Devices that are judged.
    pub(super) updated: BTreeMap<PortName, Update>,
    /// Devices that have not been asked since.
    pub(super) awaited: BTreeSet<PortName>,
}

impl Cadences {
    /// A look at some devices, of each of which it is known whether it has `changed` since the look `before`.
    pub(super) fn look(
        &mut self,
        changed: BTreeMap<PortName, bool>,
        before: Duration,
        at: Duration,
        poll: Duration,
    ) -> Updates {
        let mut updates = Updates::default();
        for (device, changed) in changed {
            let first = Cadence { at: before, changed: before, gaps: Default::default() };
            let known = self.0.entry(device.clone()).or_insert(first);
            // One who was taken to be idle may have been saved rarely: then what has come is of all that time.
            let silent = (changed && known.at > known.changed).then(|| at - known.changed);
            if changed {
                let took = at - core::mem::replace(&mut known.changed, at);
                let (gaps, next) = &mut known.gaps;
                gaps[*next % REMEMBERED] = took;
                *next += 1;
            } else if known.is_awaited(at, poll) {
                updates.awaited.insert(device);
                continue;
            }
            let since = core::mem::replace(&mut known.at, at);
            let took = silent.unwrap_or_else(|| known.took(at - since, poll));
            updates.updated.insert(device, Update { since, took });
        }
        updates
    }

    /// How long the slowest device takes to count on, if it is slower than the looks.
    pub(super) fn longest(&self, poll: Duration) -> Duration {
        let slow = self.0.values().filter(|known| known.is_slow(poll));
        slow.map(|known| known.gap()).max().unwrap_or(Duration::ZERO)
    }
}
