//! How often each device counts on. Whoever saves counters may do so more rarely than they are looked at: then a look at which
//! nothing has changed says nothing, and the next one tells of the whole time since.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Counters are saved once in this time at least, or nobody waits for them.
const LONGEST: Duration = Duration::from_secs(60);

/// When a device has counted on.
#[derive(Clone, Copy, Debug)]
struct Cadence {
    /// When it was last judged.
    at: Duration,
    changed: Duration,
    /// How long that took the time before.
    gap: Duration,
}

impl Cadence {
    /// A look more or less is no cadence.
    fn is_slow(self, poll: Duration) -> bool {
        self.gap > poll * 3 / 2
    }

    /// Whether a device that shows no change is taken not to have been asked since, and not to be idle.
    fn is_awaited(self, now: Duration, poll: Duration) -> bool {
        self.is_slow(poll) && now.saturating_sub(self.changed) < self.gap.min(LONGEST) * 3 / 2
    }
}

/// By device.
#[derive(Clone, Debug, Default)]
pub(super) struct Cadences(BTreeMap<String, Cadence>);

/// What a look is worth.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// Devices that are judged, and since when they were not.
    pub(super) updated: BTreeMap<String, Duration>,
    /// Devices that have not been asked since.
    pub(super) awaited: BTreeSet<String>,
}

impl Cadences {
    /// A look at some devices, of each of which it is known whether it has `changed` since the look `before`.
    pub(super) fn look(
        &mut self,
        changed: BTreeMap<&str, bool>,
        before: Duration,
        at: Duration,
        poll: Duration,
    ) -> Updates {
        let mut updates = Updates::default();
        for (device, changed) in changed {
            let first = Cadence { at: before, changed: before, gap: Duration::ZERO };
            let known = self.0.entry(device.to_owned()).or_insert(first);
            if changed {
                known.gap = at - core::mem::replace(&mut known.changed, at);
            } else if known.is_awaited(at, poll) {
                updates.awaited.insert(device.to_owned());
                continue;
            }
            let since = core::mem::replace(&mut known.at, at);
            updates.updated.insert(device.to_owned(), since);
        }
        updates
    }

    /// How long the slowest device takes to count on, if it is slower than the looks.
    pub(super) fn longest(&self, poll: Duration) -> Duration {
        let slow = self.0.values().filter(|known| known.is_slow(poll));
        slow.map(|known| known.gap.min(LONGEST)).max().unwrap_or(Duration::ZERO)
    }
}
