//! Pause storms of one queue, by the rules that switches use.
//!
//! ```text
//!                    the rule holds for `detection`
//!   operational ──────────────────────────────────────► stormed
//!        ▲                                                 │
//!        └──────── no pause came for `restoration` ────────┘     (alert: the rule holds no longer)
//! ```
//!
//! | rule | a look counts if | charged |
//! |---|---|---|
//! | [`StormRule::Guo16`] | packets wait, none left, paused all the while | the gap |
//! | [`StormRule::Broadcom`] | pauses came, on-to-off did not rise, paused now and at the last look | the gap, all of `detection` but 1 us at most |
//! | [`StormRule::Mellanox`] | packets wait, none left, paused for more than 99 % of the gap | the gap, until 99 % of `detection` is passed |
//! | [`StormRule::Mellanox2019`] | none left, and: packets wait and pauses came, or none wait and paused for more than 80 % of the poll | the poll |
//!
//! Sources: guo16, 4.3; sonic-swss, `orchagent/pfc_detect_broadcom.lua` (2026, with measured gaps),
//! `pfc_detect_mellanox.lua` (2025 for [`StormRule::Mellanox`]; 2019 for the other), `pfc_restore.lua` (2026). As
//! there, a look without a value before it decides nothing, what the scripts forget at a storm is forgotten, and what
//! they leave lying is compared again afterwards.

/// By what a storm is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StormRule {
    /// The paper's, for ports towards servers.
    #[default]
    Guo16,
    /// SONiC's on Broadcom chips.
    Broadcom,
    /// SONiC's on Mellanox chips, since gaps are measured.
    Mellanox,
    /// The same as it was in 2019.
    Mellanox2019,
}

/// What the rules look at. What is not counted is `None`, and a rule that needs it decides nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StormSample {
    /// Bytes that wait (`SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES`).
    pub waiting_bytes: Option<u64>,
    /// Packets that left (`SAI_QUEUE_STAT_PACKETS`).
    pub packets: Option<u64>,
    /// Pause frames received (`SAI_PORT_STAT_PFC_n_RX_PKTS`).
    pub pauses_received: Option<u64>,
    /// On-to-off transitions (`SAI_PORT_STAT_PFC_n_ON2OFF_RX_PKTS`).
    pub transitions: Option<u64>,
    /// Whether it is paused (`SAI_QUEUE_ATTR_PAUSE_STATUS`).
    pub paused: Option<bool>,
    /// How long it has been paused (`SAI_PORT_STAT_PFC_n_RX_PAUSE_DURATION_US`).
    pub paused_us: Option<u64>,
}

/// What a look came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StormStep {
    /// Nothing new.
    Same,
    /// A storm has begun.
    Storm,
    /// It is over.
    Restored,
}

/// The state machine of one queue.
#[derive(Clone, Debug)]
pub struct Storm {
    rule: StormRule,
    poll_us: u64,
    detection_us: u64,
    restoration_us: u64,
    alert: bool,
    stormed: bool,
    detection_left_us: Option<u64>,
    restoration_left_us: Option<u64>,
    last: StormSample,
}

impl Storm {
    /// `alert`: nothing is done about storms, so the detection rule also says when one is over.
    pub fn new(
        rule: StormRule,
        poll_us: u64,
        detection_us: u64,
        restoration_us: u64,
        alert: bool,
    ) -> Self {
        Self {
            rule,
            poll_us: poll_us.max(1),
            detection_us: detection_us.max(1),
            restoration_us,
            alert,
            stormed: false,
            detection_left_us: None,
            restoration_left_us: None,
            last: StormSample::default(),
        }
    }

    /// Whether there is a storm.
    pub fn is_stormed(&self) -> bool {
        self.stormed
    }

    /// Forgets the last look, as when a counter began anew.
    pub fn forget(&mut self) {
        self.last = StormSample::default();
        self.detection_left_us = None;
    }

    /// A look, `gap_us` after the last one; `None` if nobody measured it, and the configured poll is charged.
    pub fn step(&mut self, now: StormSample, gap_us: Option<u64>) -> StormStep {
        let gap_us = gap_us.filter(|&gap| gap > 0);
        if self.stormed && !self.alert {
            self.restores(now, gap_us)
        } else {
            self.detects(now, gap_us)
        }
    }

    fn detects(&mut self, now: StormSample, gap_us: Option<u64>) -> StormStep {
        let left = self.detection_left_us.unwrap_or(self.detection_us);
        let gap = gap_us.unwrap_or(self.poll_us);
        let Some(holds) = self.holds(&now, gap) else {
            if self.counts(&now) {
                self.last = now;
                self.detection_left_us = Some(left);
            }
            return StormStep::Same;
        };
        let charge = match self.rule {
            StormRule::Broadcom => gap.min(self.detection_us - 1),
            StormRule::Mellanox2019 => self.poll_us,
            StormRule::Guo16 | StormRule::Mellanox => gap,
        };
        // More than 99 % of the time is spent when less than 1 % is left.
        let slack = if self.rule == StormRule::Mellanox {
            self.detection_us.div_ceil(100).saturating_sub(1)
        } else {
            0
        };
        let step = match (holds, left.saturating_sub(slack) <= charge) {
            (true, true) => {
                self.detection_left_us = Some(self.detection_us);
                if self.stormed { StormStep::Same } else { StormStep::Storm }
            }
            (true, false) => {
                self.detection_left_us = Some(left - charge);
                StormStep::Same
            }
            (false, _) => {
                self.detection_left_us = Some(self.detection_us);
                if self.stormed { StormStep::Restored } else { StormStep::Same }
            }
        };
        self.last = now;
        if holds && left.saturating_sub(slack) <= charge {
            // What the scripts delete at a storm.
            match self.rule {
                StormRule::Mellanox => {
                    (self.last.paused_us, self.last.pauses_received) = (None, None);
                }
                StormRule::Mellanox2019 => self.last.paused_us = None,
                StormRule::Guo16 | StormRule::Broadcom => {}
            }
        }
        self.stormed = match step {
            StormStep::Storm => true,
            StormStep::Restored => false,
            StormStep::Same => self.stormed,
        };
        step
    }

    /// Whether everything that the rule needs is counted.
    fn counts(&self, now: &StormSample) -> bool {
        let queue = now.waiting_bytes.is_some() && now.packets.is_some();
        match self.rule {
            StormRule::Guo16 => queue && (now.paused_us.is_some() || now.pauses_received.is_some()),
            StormRule::Broadcom => {
                queue
                    && now.pauses_received.is_some()
                    && now.transitions.is_some()
                    && now.paused.is_some()
            }
            StormRule::Mellanox | StormRule::Mellanox2019 => {
                queue && now.pauses_received.is_some() && now.paused_us.is_some()
            }
        }
    }

    /// Whether the rule holds for the time since the last look; `None` if it cannot be said.
    fn holds(&self, now: &StormSample, gap_us: u64) -> Option<bool> {
        if !self.counts(now) {
            return None;
        }
        let last = &self.last;
        let waits = now.waiting_bytes? > 0;
        let still = now.packets? == last.packets?;
        let rose = |now: Option<u64>, last: Option<u64>| Some(now? > last?);
        Some(match self.rule {
            StormRule::Guo16 => {
                let paused = match (now.paused_us, last.paused_us) {
                    (Some(now), Some(last)) => {
                        now.saturating_sub(last) as f64 > 0.99 * gap_us as f64
                    }
                    _ => rose(now.pauses_received, last.pauses_received)?,
                };
                waits && still && paused
            }
            StormRule::Broadcom => {
                let came = rose(now.pauses_received, last.pauses_received)?;
                came && now.transitions? == last.transitions? && now.paused? && last.paused?
            }
            StormRule::Mellanox => {
                last.pauses_received?;
                let paused = now.paused_us?.saturating_sub(last.paused_us?);
                waits && still && paused as f64 > 0.99 * gap_us as f64
            }
            StormRule::Mellanox2019 => {
                let came = rose(now.pauses_received, last.pauses_received)?;
                let paused = now.paused_us?.saturating_sub(last.paused_us?) as f64
                    > 0.8 * self.poll_us as f64;
                still && ((waits && came) || (!waits && paused))
            }
        })
    }

    fn restores(&mut self, now: StormSample, gap_us: Option<u64>) -> StormStep {
        let Some(received) = now.pauses_received else { return StormStep::Same };
        let left = self.restoration_left_us.unwrap_or(self.restoration_us);
        let charge = gap_us.unwrap_or(self.poll_us);
        let mut step = StormStep::Same;
        let left = match self.last.pauses_received {
            None => left,
            Some(last) if last != received => self.restoration_us,
            Some(_) if left <= charge => {
                step = StormStep::Restored;
                self.stormed = false;
                self.restoration_us
            }
            Some(_) => left - charge,
        };
        self.restoration_left_us = Some(left);
        self.last.pauses_received = Some(received);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::StormStep::{Restored, Same, Storm as Begins};
    use super::*;

    /// Waiting bytes, packets, pauses received, transitions, paused, microseconds paused.
    type Row = (u64, u64, u64, u64, bool, u64);

    fn sample((waiting, packets, pauses, transitions, paused, paused_us): Row) -> StormSample {
        StormSample {
            waiting_bytes: Some(waiting),
            packets: Some(packets),
            pauses_received: Some(pauses),
            transitions: Some(transitions),
            paused: Some(paused),
            paused_us: Some(paused_us),
        }
    }

    fn check(
        rule: StormRule,
        [poll, detection, restoration]: [u64; 3],
        alert: bool,
        rows: &[(Row, Option<u64>, StormStep)],
    ) {
        let mut storm = Storm::new(rule, poll, detection, restoration, alert);
        for (number, (row, gap, step)) in rows.iter().enumerate() {
            assert_eq!(storm.step(sample(*row), *gap), *step, "{rule:?}: look {number}");
        }
    }

    #[test]
    fn broadcom_needs_two_looks_that_agree_even_if_one_gap_is_all_of_the_time() {
        let gap = Some(200_000);
        check(
            StormRule::Broadcom,
            [200_000, 200_000, 400_000],
            false,
            &[
                ((0, 5, 0, 0, false, 0), gap, Same), // a baseline
                ((9, 5, 8, 1, true, 0), gap, Same),  // it has just gone off
                ((9, 5, 16, 1, true, 0), gap, Same), // 199,999 charged of 200,000
                ((9, 5, 24, 1, true, 0), gap, Begins),
                ((9, 5, 32, 1, true, 0), gap, Same), // pauses still come
                ((9, 5, 32, 1, true, 0), gap, Same), // 200,000 of restoration
                ((9, 5, 32, 1, false, 0), gap, Restored),
                ((0, 9, 33, 2, false, 0), gap, Same),
            ],
        );
    }

    #[test]
    fn broadcom_charges_the_measured_gap_and_else_the_poll() {
        let rows = |gap| {
            let mut steps = Vec::new();
            let mut storm = Storm::new(StormRule::Broadcom, 100_000, 400_000, 400_000, false);
            for look in 0..8u64 {
                steps.push(storm.step(sample((1, 1, look, 0, true, 0)), gap));
            }
            steps.iter().position(|step| *step == Begins)
        };
        assert_eq!(
            (rows(None), rows(Some(100_000)), rows(Some(200_000))),
            (Some(4), Some(4), Some(2))
        );
    }

    #[test]
    fn an_on_to_off_transition_or_a_look_without_pauses_begins_anew() {
        let gap = Some(100_000);
        check(
            StormRule::Broadcom,
            [100_000, 200_000, 200_000],
            false,
            &[
                ((1, 1, 0, 0, true, 0), gap, Same),
                ((1, 1, 1, 0, true, 0), gap, Same),
                ((1, 1, 2, 1, true, 0), gap, Same), // it was on in between
                ((1, 1, 3, 1, true, 0), gap, Same),
                ((1, 1, 3, 1, true, 0), gap, Same), // nothing came
                ((1, 1, 4, 1, true, 0), gap, Same),
                ((1, 1, 5, 1, true, 0), gap, Begins),
            ],
        );
    }

    #[test]
    fn mellanox_wants_the_queue_stuck_and_paused_for_nearly_all_of_the_gap() {
        let gap = Some(200_000);
        check(
            StormRule::Mellanox,
            [200_000, 400_000, 200_000],
            false,
            &[
                ((9, 5, 1, 0, true, 0), gap, Same),
                ((9, 5, 1, 0, true, 198_000), gap, Same), // 99 % is not more than 99 %
                ((9, 5, 1, 0, true, 397_000), gap, Same),
                ((9, 5, 1, 0, true, 596_000), Some(196_001), Begins), // 396,001 of 396,000
                ((9, 5, 1, 0, true, 796_000), gap, Same),             // the baseline was deleted
                ((9, 5, 1, 0, true, 996_000), gap, Restored),         // no frames came
            ],
        );
        check(
            StormRule::Mellanox,
            [200_000, 400_000, 200_000],
            false,
            &[
                ((9, 5, 1, 0, true, 0), gap, Same),
                ((9, 5, 1, 0, true, 200_000), gap, Same),
                ((9, 6, 1, 0, true, 400_000), gap, Same), // one left
                ((9, 6, 1, 0, true, 600_000), gap, Same),
                ((9, 6, 1, 0, true, 800_000), gap, Begins),
            ],
        );
    }

    #[test]
    fn mellanox_of_2019_also_takes_an_empty_queue_that_is_paused_and_charges_polls() {
        check(
            StormRule::Mellanox2019,
            [100_000, 200_000, 200_000],
            false,
            &[
                ((0, 5, 1, 0, true, 0), None, Same),
                ((0, 5, 1, 0, true, 80_001), None, Same),
                ((7, 5, 2, 0, true, 80_001), None, Begins),
            ],
        );
        check(
            StormRule::Mellanox2019,
            [100_000, 200_000, 200_000],
            false,
            &[
                ((0, 5, 1, 0, true, 0), None, Same),
                ((0, 5, 1, 0, true, 80_000), None, Same), // 80 % is not more
                ((0, 5, 2, 0, true, 160_001), None, Same),
                ((0, 5, 3, 0, true, 240_002), None, Begins),
            ],
        );
    }

    #[test]
    fn guo16_wants_packets_that_do_not_drain_while_the_server_pauses() {
        let gap = Some(50_000);
        check(
            StormRule::Guo16,
            [50_000, 100_000, 200_000],
            false,
            &[
                ((9, 5, 1, 0, true, 0), gap, Same),
                ((0, 5, 2, 0, true, 50_000), gap, Same), // nothing waits
                ((9, 5, 3, 0, true, 100_000), gap, Same),
                ((9, 5, 4, 0, true, 150_000), gap, Begins),
                ((9, 5, 4, 0, true, 150_000), Some(199_999), Same),
                ((9, 5, 4, 0, true, 150_000), gap, Restored),
            ],
        );
    }

    #[test]
    fn an_alert_is_over_when_the_rule_holds_no_longer() {
        let gap = Some(100_000);
        check(
            StormRule::Broadcom,
            [100_000, 200_000, 60_000_000],
            true,
            &[
                ((1, 1, 0, 0, true, 0), gap, Same),
                ((1, 1, 1, 0, true, 0), gap, Same),
                ((1, 1, 2, 0, true, 0), gap, Begins),
                ((1, 1, 3, 0, true, 0), gap, Same),
                ((1, 1, 4, 0, true, 0), gap, Same),
                ((1, 1, 5, 0, false, 0), gap, Restored),
            ],
        );
    }

    #[test]
    fn what_is_not_counted_decides_nothing() {
        for rule in
            [StormRule::Guo16, StormRule::Broadcom, StormRule::Mellanox, StormRule::Mellanox2019]
        {
            let mut storm = Storm::new(rule, 1, 1, 1, false);
            for look in 0..10 {
                let now = StormSample { pauses_received: Some(look), ..StormSample::default() };
                assert_eq!(storm.step(now, None), Same, "{rule:?}");
            }
        }
    }
}
