//! How long an idle core takes to wake.
//!
//! ```text
//!   lengths of the last sleeps ─► expected ─► the deepest state worth it ─► its exit,
//!                                               less if another core of the package is awake
//! ```
//!
//! Nothing happens when a core falls asleep: the state that it had is worked out when it wakes. Like
//! Linux's menu governor, it expects what has been (the mean of the last eight sleeps), and nothing of
//! the sleep at hand; the first is expected to be as long as it is.

use super::IdleState;

const RECENT: usize = 8;

/// What a core expects of its sleeps. Times are in picoseconds.
#[derive(Debug, Default)]
pub(crate) struct Governor {
    recent: [u64; RECENT],
    /// Sleeps that there have been.
    count: usize,
}

impl Governor {
    /// The core wakes, after it has slept for `slept`. Returns how long that takes.
    pub(crate) fn wake(
        &mut self,
        states: &[IdleState],
        slept: u64,
        package_factor: Option<f64>,
    ) -> u64 {
        let known = self.count.min(RECENT);
        let expected = match known {
            0 => slept,
            _ => self.recent[..known].iter().sum::<u64>() / known as u64,
        };
        self.recent[self.count % RECENT] = slept;
        self.count += 1;
        let state = states.iter().rfind(|state| state.stay.as_ps() <= expected);
        let exit = state.map_or(0, |state| state.exit.as_ps());
        package_factor.map_or(exit, |factor| (exit as f64 * factor) as u64)
    }
}

#[cfg(test)]
mod tests {
    use rdma::Span;

    use super::*;

    /// Ivy Bridge-EP, as `intel_idle.c` has it: C1, C1E, C3, C6.
    fn states() -> Vec<IdleState> {
        [(1, 1), (10, 80), (59, 156), (82, 300)]
            .map(|(exit, stay)| IdleState { exit: Span::from_us(exit), stay: Span::from_us(stay) })
            .to_vec()
    }

    const US: u64 = 1_000_000;

    #[test]
    fn the_deepest_state_is_entered_that_the_last_sleeps_were_worth() {
        for (slept, exit) in [(0, 0), (2, 1), (79, 1), (80, 10), (164, 59), (328, 82)] {
            let mut governor = Governor::default();
            for _ in 0..20 {
                assert_eq!(governor.wake(&states(), slept * US, None), exit * US, "{slept} us");
            }
        }
    }

    #[test]
    fn it_expects_what_has_been() {
        let mut governor = Governor::default();
        for _ in 0..8 {
            governor.wake(&states(), 200 * US, None);
        }
        // Mean 200, 176, 152 us.
        let exits = [(); 3].map(|()| governor.wake(&states(), 8 * US, None) / US);
        assert_eq!(exits, [59, 59, 10]);
    }

    #[test]
    fn an_exit_is_shorter_while_the_package_is_awake() {
        let mut governor = Governor::default();
        assert_eq!(governor.wake(&states(), 200 * US, Some(0.5)), 59 * US / 2);
        assert_eq!(Governor::default().wake(&[], 200 * US, None), 0);
    }

    /// Of two flows on one link, one is never idle, and the other has one message of S bytes outstanding
    /// and a gap of g between two: their shares are as 1 + gC / S to 1, as each has half of the rate
    /// while both are there (zhang17, table 3).
    #[test]
    fn who_sleeps_between_messages_has_the_share_of_the_gap() {
        let rate = 48.8e9 / 8.0 / 1e12;
        for (bytes, path_us) in [(1e6, 6.5), (5e6, 6.5), (1e5, 3.0)] {
            let mut governor = Governor::default();
            let (mut now, mut sleeper, mut busy) = (0.0, 0.0, 0.0);
            for _ in 0..200 {
                let both = 2.0 * bytes / rate;
                let exit = governor.wake(&states(), both as u64, None) as f64;
                let gap = exit + path_us * US as f64;
                sleeper += bytes;
                busy += bytes + gap * rate;
                now += both + gap;
            }
            let exit = if bytes > 8e5 { 82.0 } else { 1.0 };
            let expected = 1.0 + (exit + path_us) * 1e6 * rate / bytes;
            assert!((busy / sleeper / expected - 1.0).abs() < 1e-6, "{bytes}");
            assert!(((busy + sleeper) / now / rate - 1.0).abs() < 1e-6);
        }
    }
}
