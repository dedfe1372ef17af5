//! Since when something loses probes, whether all of them, and whether it has healed.

use std::collections::BTreeMap;

use super::losses::{LOSSES_MIN, Losses};

/// What loses more than this part is dead,
const DEAD: f64 = 0.9;
/// since a window in which it loses more than this.
const DYING: f64 = 0.1;
/// What has healed is no chance: e^-5 is 1 in 150.
const HEALED: f64 = 5.0;

/// When some probes were lost, in the times at which windows begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Course {
    /// The window in which they began to be lost, if nearly all of them were behind it, up to the end; what was lost
    /// before by chance is not why.
    pub(super) dead_since: Option<u64>,
    /// The first window behind the last in which any was lost, if so many have arrived since that it is no chance.
    pub(super) until: Option<u64>,
    /// Any was lost.
    pub(super) is_lossy: bool,
}

impl Course {
    pub(super) fn of(losses: impl Iterator<Item = (u64, Losses)>) -> Self {
        let mut by_window: BTreeMap<u64, Losses> = BTreeMap::new();
        losses.for_each(|(start_ns, of)| by_window.entry(start_ns).or_default().add(of));
        let windows: Vec<(u64, Losses)> = by_window.into_iter().collect();
        let is_lossy = |(_, of): &(u64, Losses)| of.lost > 0;
        let (Some(first), Some(last)) =
            (windows.iter().position(is_lossy), windows.iter().rposition(is_lossy))
        else {
            return Self::default();
        };
        let sum = |windows: &[(u64, Losses)]| {
            windows.iter().fold(Losses::default(), |sum, (_, of)| sum.and(*of))
        };
        let (sick, healthy) = windows.split_at(last + 1);
        let (of_sick, later) = (sum(&sick[first..]), sum(healthy));
        // That by chance all but the first are in those windows, if it goes on as it was.
        let share = of_sick.sent as f64 / (of_sick.sent + later.sent).max(1) as f64;
        let ln_chance = (of_sick.lost - 1) as f64 * share.ln();
        if ln_chance > -HEALED {
            let dead_since = dead_since(&windows, windows.len() == 1);
            return Self { dead_since, until: None, is_lossy: true };
        }
        let until = healthy.first().map(|(start_ns, _)| *start_ns);
        // In the last it may have come back.
        let whole = if sick[last].1.rate() > DEAD { sick } else { &sick[..last] };
        Self { dead_since: dead_since(whole, true), until, is_lossy: true }
    }
}

/// See [`Course::dead_since`]. Of the last window the end may have been the first moment of death, unless it `is_known`.
fn dead_since(windows: &[(u64, Losses)], is_known: bool) -> Option<u64> {
    let mut behind = Losses::default();
    let mut since = None;
    for (start_ns, of) in windows.iter().rev() {
        let is_last = behind.sent == 0 && is_known;
        let is_dead = if is_last { of.rate() > DEAD } else { behind.rate() > DEAD };
        if is_dead && of.rate() > DYING && of.lost + behind.lost >= LOSSES_MIN {
            since = Some(*start_ns);
        }
        behind.add(*of);
    }
    since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dead_has_died_in_a_window_behind_which_all_is_lost() {
        let course = |lost: &[u64]| {
            let losses = lost.iter().map(|&lost| Losses { sent: 1_000, lost });
            let Course { dead_since, until, .. } = Course::of((0..).zip(losses));
            (dead_since, until)
        };
        assert_eq!(course(&[0, 0, 400, 1_000, 1_000]), (Some(2), None));
        assert_eq!(course(&[0, 3, 0, 1_000, 990]), (Some(3), None));
        assert_eq!(course(&[1_000]), (Some(0), None));
        // It may have ended with the last, or loses some, or so few that what is not lost behind them says nothing.
        assert_eq!(course(&[0, 0, 1_000]), (None, None));
        assert_eq!(course(&[200, 200, 200]), (None, None));
        assert_eq!(course(&[2, 0, 2, 0]), (None, None));
        assert_eq!(course(&[0, 0]), (None, None));
        // It has come back: from one window to the next, in the middle of some, before it was dead for a whole one.
        assert_eq!(course(&[0, 1_000, 1_000, 0]), (Some(1), Some(3)));
        assert_eq!(course(&[0, 300, 1_000, 600, 0]), (Some(1), Some(4)));
        assert_eq!(course(&[0, 300, 0, 0]), (None, Some(2)));
        assert_eq!(course(&[10, 10, 10, 0]), (None, Some(3)));
        // Of few that are lost all may be early.
        assert_eq!(course(&[1, 0, 0, 0, 0, 0]), (None, None));
        assert_eq!(course(&[2, 0, 0, 0, 0, 0]), (None, None));
        assert_eq!(course(&[6, 0, 0, 0, 0, 0]), (None, Some(1)));
        // And is dead again.
        assert_eq!(course(&[0, 1_000, 0, 1_000, 1_000]), (Some(3), None));
    }
}
