//! What losses make of a window of `bbr` (`bbr.rs`): the ceiling that it gets, and how that rises again.
//!
//! Packets that met a queue are told from those that met none by the round trips around them. What is lost of the second, and
//! while a queue is far from full (`depth.rs`), says what chance takes on this path. Where more than twice that is lost in
//! rounds that met a queue, summed up over rounds, the queue has been full, which others may share: the window falls. A flow
//! that begins knows nothing of chance yet: it falls where it has lost very many.
//!
//! Where others that share the queue were dropped of instead, it falls with them (`others.rs`).
//!
//! A path that has carried very many packets in a row of late takes none by chance, and a TCP could fill it: there a window falls
//! and rises as one of CUBIC does (`level.rs`). On any other path a TCP leaves much free, and some of what seems to be a full
//! queue is chance: there it falls less and rises sooner.
//!
//! A queue that is too short to be seen drops packets, too. So where very many are lost without one, there is a ceiling as
//! well, which is no lower than what the path seems to hold, and rises soon.

use core::mem::{replace, take};

use rdma::{Span, Time};

use super::depth::Depth;
use super::level::{Level, Why};
use super::others::Others;
use crate::limits::{
    BBR_CHANCE_TIMES, BBR_CLEAN_DIVISOR, BBR_CLEAN_KNOWN, BBR_CLEAN_RUNS, BBR_EXCESS,
    BBR_FALL_PERCENT, BBR_FALL_PERCENT_UNSEEN, BBR_FLOOR_PERCENT, BBR_LIGHT_LOSS,
    BBR_LIGHT_LOSS_DIVISOR, BBR_LOSS_AT_START, BBR_LOSS_SAMPLE, BBR_QUEUE_SEEN,
    BBR_QUEUE_SEEN_DIVISOR, BBR_RECOVERY, BBR_RECOVERY_ROUNDS_UNSEEN,
};

/// The whole of a part.
const WHOLE: u64 = 1_000;
const MILLION: u64 = 1_000_000;
/// Losses without a queue are forgotten when so many samples have met one.
const SAMPLES_ASIDE: u64 = 8;
/// A round trip weighs an eighth less for each that comes after it.
const PEAK_DIVISOR: u64 = 8;
/// So does a sample of losses.
const SAMPLES: u64 = 8;

/// Packets of which something has become known.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    arrived: u64,
    lost: u64,
}

impl Tally {
    fn all(self) -> u64 {
        self.arrived + self.lost
    }

    fn plus(self, other: Self) -> Self {
        Self { arrived: self.arrived + other.arrived, lost: self.lost + other.lost }
    }

    fn lost_ppm(self) -> u64 {
        self.lost * MILLION / self.all().max(1)
    }

    fn is_more_than(self, thousandths: u16) -> bool {
        self.lost * WHOLE > self.all() * u64::from(thousandths)
    }

    /// Whether chance may have taken that, though it takes no more than such a part.
    fn is_light(self, thousandths: u16) -> bool {
        let few = BBR_LIGHT_LOSS.min(self.all() / BBR_LIGHT_LOSS_DIVISOR);
        self.lost <= few || !self.is_more_than(thousandths)
    }
}

/// What a round has shown of the path. Windows are in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) now: Time,
    pub(super) window: u64,
    /// What the path seems to hold: with the queue that is always there, and without any.
    pub(super) product: u64,
    pub(super) least_product: u64,
    /// The shortest round trip of late.
    pub(super) shortest: Span,
    /// By how much more a packet takes that others overtake.
    pub(super) spread: Span,
    /// The part of the packets, in thousandths, that may be lost where no queue is seen.
    pub(super) loss: u16,
    /// A flow that begins has found the end of the path where it loses very many, and not before.
    pub(super) is_starting: bool,
    /// The window was a half: it is no measure.
    pub(super) is_draining: bool,
    /// It kept to its pace, and so did the rounds before that are heard of in it.
    pub(super) is_even: bool,
}

/// How many packets in a row show that chance takes none that a TCP with such a window would notice.
fn clean_run(window: u64) -> u64 {
    let [least, most] = BBR_CLEAN_RUNS;
    (window.saturating_mul(window) / BBR_CLEAN_DIVISOR).clamp(least, most)
}

/// See the module.
#[derive(Clone, Default, Debug)]
pub(super) struct Ceiling {
    level: Level,
    /// What was sent before it fell is not lost because it did not.
    has_just_fallen: bool,
    /// Where it was before it fell, and how many packets it fell for that may be lost; none if others were it.
    fell: Option<(Level, u64)>,
    /// The last round trip, or what is left of a longer one before it.
    peak: Span,
    meets_queue: bool,
    /// Of this round: packets that met no queue, and those that met one.
    seen: [Tally; 2],
    /// Of some rounds: those that met none, and how many met one meanwhile.
    sample: Tally,
    aside: u64,
    /// How many of a million are lost where there is no queue.
    chance_ppm: u64,
    /// Packets that have arrived since one was lost, and when those were very many.
    run: u64,
    clean_at: Option<Time>,
    /// Millionths of packets that were lost, where there was a queue, beyond twice what chance takes, and never below
    /// nothing: E. S. Page, "Continuous Inspection Schemes", Biometrika 41, 1954.
    excess: u64,
    depth: Depth,
    others: Others,
    /// A round has ended in which the flow no longer began.
    has_begun: bool,
}

impl Ceiling {
    pub(super) fn packets(&self) -> u64 {
        self.level.packets()
    }

    /// A round trip was measured. Where there is no queue it is the shortest one that is known, and up to `more`: what a batch
    /// takes that leaves at once, or what packets that overtake each other differ by.
    pub(super) fn measured(&mut self, took: Span, shortest: Span, more: Span) {
        let left = self.peak.as_ps().saturating_sub(took.as_ps());
        self.peak = took + Span::from_ps(left - left.div_ceil(PEAK_DIVISOR));
        let part = Span::from_ps(shortest.as_ps() / BBR_QUEUE_SEEN_DIVISOR);
        self.meets_queue = self.peak > shortest + more + BBR_QUEUE_SEEN.max(part);
        self.depth.measured(took);
    }

    pub(super) fn arrived(&mut self, packets: u64) {
        self.run += packets;
        self.seen[usize::from(self.meets_queue)].arrived += packets;
    }

    pub(super) fn lost(&mut self, packets: u64) {
        if packets > 0 {
            self.run = 0;
        }
        if let Some((_, lost)) = self.fell.as_mut().filter(|_| self.has_just_fallen) {
            *lost += packets;
        }
        self.seen[usize::from(self.meets_queue)].lost += packets;
    }

    /// So many that counted as lost had been late. If it fell for no others, it is where it was (RFC 4015).
    pub(super) fn were_late(&mut self, packets: u64) {
        let [free, queued] = &mut self.seen;
        let mut left = packets;
        for tally in [queued, free, &mut self.sample] {
            let less = left.min(tally.lost);
            tally.lost -= less;
            left -= less;
        }
        self.excess = self.excess.saturating_sub(packets * MILLION);
        if let Some((before, lost)) = &mut self.fell {
            *lost = lost.saturating_sub(packets);
            if *lost == 0 {
                self.level.restore(before);
                self.fell = None;
            }
        }
    }

    /// The window falls to a packet.
    pub(super) fn timed_out(&mut self) {
        self.others.fell_ourselves();
    }

    /// Whether a flow that begins has lost so many in this round that it has found the end of the path.
    pub(super) fn has_lost_many(&self, loss: u16) -> bool {
        let [free, queued] = self.seen;
        let all = free.plus(queued);
        let arrived = all.arrived.max(BBR_LOSS_SAMPLE / 2);
        all.lost >= BBR_LOSS_AT_START && Tally { arrived, ..all }.is_more_than(loss)
    }

    /// Whether in this round so much is lost that it is not chance, which takes such a part, in thousandths.
    pub(super) fn is_lossy(&self, loss: u16) -> bool {
        let [free, queued] = self.seen;
        !free.plus(queued).is_light(loss)
    }

    /// A round has ended. Returns whether the ceiling falls.
    pub(super) fn end_round(&mut self, round: &Round) -> bool {
        let has_lost_many = self.has_lost_many(round.loss);
        let [mut free, mut queued] = take(&mut self.seen);
        let is_free = queued.all() == 0;
        let all = free.plus(queued);
        // Where more is lost at once it has been full, and that was noticed late.
        let queue = self.depth.end_round(round.now, round.shortest, round.spread);
        let was_clean = self.is_clean(round.now);
        if queue.is_some_and(|it| it.is_shallow(was_clean)) && all.is_light(round.loss) {
            (free, queued) = (all, Tally::default());
        }
        if self.run >= clean_run(round.window.max(round.product)) {
            if !was_clean {
                // What was taken for it before was something else.
                self.chance_ppm = 0;
                self.begin_sample();
            }
            self.clean_at = Some(round.now);
        }
        let is_clean = self.is_clean(round.now);
        self.level.rise(round.now, is_free, is_clean);
        let has_just_fallen = replace(&mut self.has_just_fallen, false);
        if has_just_fallen {
            // By now it would be known of what it fell for that it was late.
            self.fell = None;
        }
        if round.is_draining {
            self.others.drained();
        }
        if round.is_starting {
            self.others.fell_ourselves();
        }
        let have_others_fallen =
            queue.is_some_and(|it| self.others.end_round(round.now, &it, round.is_even));
        if has_just_fallen || round.is_draining {
            return false;
        }
        // A window that is not full is not what was lost of.
        let used = round.window.min(all.all().max(round.product));
        self.sample = self.sample.plus(free);
        self.aside += queued.all();
        if self.aside > SAMPLES_ASIDE * BBR_LOSS_SAMPLE {
            self.begin_sample();
        }
        let sample = self.sample;
        // Of few packets it may seem to be any part.
        let most_ppm = u64::from(round.loss) * (MILLION / WHOLE);
        let seems_ppm = if sample.is_light(round.loss) { sample.lost_ppm() } else { most_ppm };
        let chance_ppm = self.chance_ppm.max(seems_ppm);
        let is_full = match replace(&mut self.has_begun, !round.is_starting) {
            false => has_lost_many,
            // Losses come together, and may all have met the little queue that there was: the round is weighed as a whole.
            true => queued.all() > 0 && self.is_beyond_chance(all, chance_ppm),
        };
        // As a TCP that has filled the path, and gives up none of it but its part of the queue.
        let is_with_others = have_others_fallen && is_clean && !round.is_starting;
        if is_full || is_with_others {
            // Some of what it lost seemed to meet none.
            self.begin_sample();
            self.excess = 0;
            let floor = match (is_full, is_clean) {
                (true, true) => 0,
                (true, false) => round.least_product * BBR_FLOOR_PERCENT / 100,
                (false, _) => round.least_product,
            };
            let ceiling = (used * BBR_FALL_PERCENT / 100).max(floor).min(used);
            let rounds = BBR_RECOVERY.as_ps() / round.shortest.as_ps().max(1);
            let lost = if is_full { all.lost } else { 0 };
            self.fall(round.now, [used, ceiling], rounds, Why::Queue, lost);
            return true;
        }
        // Whatever the rest of them will be.
        let is_many = sample.lost * WHOLE > BBR_LOSS_SAMPLE * u64::from(round.loss);
        if sample.all() < BBR_LOSS_SAMPLE && !is_many {
            return false;
        }
        self.begin_sample();
        // Chance takes no more than that; a queue that is not seen does.
        let is_full = sample.is_more_than(round.loss);
        if is_full {
            let ceiling = (used * BBR_FALL_PERCENT_UNSEEN / 100).max(round.product);
            self.fall(
                round.now,
                [used, ceiling],
                BBR_RECOVERY_ROUNDS_UNSEEN,
                Why::Unseen,
                sample.lost,
            );
        } else {
            let before = self.chance_ppm * (SAMPLES - 1);
            self.chance_ppm = (before + sample.lost_ppm()) / SAMPLES;
        }
        is_full
    }

    /// Whether more was lost in rounds like this than chance takes.
    fn is_beyond_chance(&mut self, all: Tally, chance_ppm: u64) -> bool {
        let expected = all.all() * chance_ppm * BBR_CHANCE_TIMES;
        self.excess = (self.excess + all.lost * MILLION).saturating_sub(expected);
        self.excess > if chance_ppm > 0 { BBR_EXCESS * MILLION } else { 0 }
    }

    fn begin_sample(&mut self) {
        (self.sample, self.aside) = (Tally::default(), 0);
    }

    /// Whether it is known of this path that it takes nothing by chance.
    fn is_clean(&self, now: Time) -> bool {
        self.clean_at.is_some_and(|at| now.since(at) < BBR_CLEAN_KNOWN)
    }

    fn fall(&mut self, now: Time, span: [u64; 2], rounds: u64, why: Why, lost: u64) {
        self.fell = (lost > 0).then_some((self.level, lost));
        self.others.fell_ourselves();
        self.level.fall(now, span, rounds, why);
        self.has_just_fallen = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Span = Span::from_ms(2);
    const ROUND: Round = Round {
        now: Time::ZERO,
        window: 400,
        product: 200,
        least_product: 200,
        shortest: SHORTEST,
        spread: Span::ZERO,
        loss: 30,
        is_starting: false,
        is_draining: false,
        is_even: true,
    };

    /// A round of 400 packets, all of which take so long. Returns whether the ceiling falls.
    fn round(ceiling: &mut Ceiling, took: Span, lost: u64) -> bool {
        round_of(ceiling, took, lost, &ROUND)
    }

    fn round_of(ceiling: &mut Ceiling, took: Span, lost: u64, round: &Round) -> bool {
        for _ in 0..400 {
            ceiling.measured(took, SHORTEST, Span::ZERO);
            ceiling.arrived(1);
        }
        ceiling.lost(lost);
        ceiling.end_round(round)
    }

    /// A round of a full window that met a queue, and lost one packet. Returns whether the ceiling falls.
    fn round_that_lost_one(ceiling: &mut Ceiling, took: Span, round: &Round) -> bool {
        ceiling.measured(took, SHORTEST, Span::ZERO);
        ceiling.arrived(round.window);
        ceiling.lost(1);
        ceiling.end_round(round)
    }

    #[test]
    fn a_loss_with_a_queue_lowers_it_once_and_it_rises_by_half_a_packet() {
        let mut ceiling = Ceiling::default();
        let long = SHORTEST + Span::from_ms(1);
        assert!(!round(&mut ceiling, long, 0));
        assert_eq!(ceiling.packets(), u64::MAX);
        assert!(round(&mut ceiling, long, 1));
        assert_eq!(ceiling.packets(), 280);
        // What was sent before is lost yet.
        assert!(!round(&mut ceiling, long, 50));
        for _ in 0..20 {
            assert!(!round(&mut ceiling, long, 0));
        }
        assert_eq!(ceiling.packets(), 290);
        assert!(round(&mut ceiling, long, 1));
    }

    /// As a window of CUBIC, whether there is a queue just now or not.
    #[test]
    fn on_a_clean_path_it_falls_by_the_whole_and_rises_slowly_even_without_a_queue() {
        let mut ceiling = Ceiling::default();
        for _ in 0..50 {
            assert!(!round(&mut ceiling, SHORTEST, 0));
        }
        let held = Round { window: 220, ..ROUND };
        assert!(round_that_lost_one(&mut ceiling, SHORTEST * 2, &held));
        assert_eq!(ceiling.packets(), 154);
        for _ in 0..24 {
            assert!(!round(&mut ceiling, SHORTEST, 0));
        }
        assert_eq!(ceiling.packets(), 163);
    }

    #[test]
    fn a_path_that_is_found_clean_has_taken_nothing_by_chance() {
        let ceiling = &mut Ceiling::default();
        for _ in 0..2 {
            assert!(!round(ceiling, SHORTEST, 4));
        }
        let long = SHORTEST + Span::from_ms(1);
        assert!(!round(ceiling, long, 1), "chance may have been it");
        for _ in 0..50 {
            assert!(!round(ceiling, long, 0));
        }
        assert!(round(ceiling, long, 1));
    }

    /// Rounds of a queue that fills, and is shorter at once. Returns whether the ceiling falls in the last.
    fn rounds_in_which_others_fall(ceiling: &mut Ceiling, round: &Round) -> bool {
        for tenths in [30, 36, 40] {
            assert!(!round_of(ceiling, Span::from_us(100 * tenths), 0, round));
        }
        round_of(ceiling, Span::from_ms(3), 0, round)
    }

    #[test]
    fn on_a_clean_path_it_falls_when_others_fell_and_leaves_what_the_path_holds() {
        let ceiling = &mut Ceiling::default();
        assert!(!rounds_in_which_others_fall(ceiling, &ROUND), "chance may have been it");
        for _ in 0..50 {
            assert!(!round(ceiling, Span::from_ms(3), 0));
        }
        assert!(rounds_in_which_others_fall(ceiling, &ROUND));
        assert_eq!(ceiling.packets(), 280);
        // It fell for none that may prove to be late.
        ceiling.were_late(1);
        assert_eq!(ceiling.packets(), 280);
        let held = Round { least_product: 390, ..ROUND };
        assert!(rounds_in_which_others_fall(ceiling, &held));
        assert_eq!(ceiling.packets(), 390);
    }

    #[test]
    fn it_falls_no_lower_than_nearly_what_the_path_holds_without_a_queue() {
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, SHORTEST, 0));
        let held = Round { window: 220, ..ROUND };
        assert!(round_that_lost_one(&mut ceiling, SHORTEST * 2, &held));
        assert_eq!(ceiling.packets(), 180);
    }

    #[test]
    fn what_chance_takes_lowers_nothing_until_more_is_lost_with_a_queue() {
        let mut ceiling = Ceiling::default();
        for _ in 0..60 {
            assert!(!round(&mut ceiling, SHORTEST, 4));
        }
        let long = SHORTEST + Span::from_ms(1);
        for _ in 0..60 {
            assert!(!round(&mut ceiling, long, 4));
            assert!(!round(&mut ceiling, long, 7));
        }
        assert_eq!(ceiling.packets(), u64::MAX);
        // Eight of a round are twice what chance takes.
        for lost in [12, 11] {
            assert!(!round(&mut ceiling, long, lost));
        }
        assert!(round(&mut ceiling, long, 12));
        assert!(!round(&mut ceiling, long, 50));
        assert!(round(&mut ceiling, long, 20), "at once");
    }

    #[test]
    fn a_fall_is_taken_back_if_all_that_it_fell_for_was_late() {
        let long = SHORTEST + Span::from_ms(1);
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, long, 0));
        assert!(round(&mut ceiling, long, 2));
        let fallen = ceiling.packets();
        ceiling.lost(1);
        ceiling.were_late(2);
        assert_eq!(ceiling.packets(), fallen, "one that was sent before it fell is lost");
        ceiling.were_late(1);
        assert_eq!(ceiling.packets(), u64::MAX);
        // It has not been lost in the next round either.
        ceiling.lost(3);
        ceiling.were_late(3);
        assert!(!round(&mut ceiling, long, 0) && !round(&mut ceiling, long, 0));
        assert!(round(&mut ceiling, long, 1));
        // What is late long after a fall was not fallen for.
        let fallen = ceiling.packets();
        assert!(!round(&mut ceiling, long, 0));
        ceiling.were_late(1);
        assert_eq!(ceiling.packets(), fallen);
    }

    /// Such losses were taken for chance, until many packets had met no queue: so nothing was ever too much.
    #[test]
    fn what_is_lost_at_the_beginning_lowers_it_and_is_not_chance() {
        let mut ceiling = Ceiling::default();
        let is_starting = Round { is_starting: true, ..ROUND };
        ceiling.measured(SHORTEST, SHORTEST, Span::ZERO);
        ceiling.arrived(180);
        assert!(!ceiling.end_round(&is_starting));
        ceiling.lost(60);
        assert!(ceiling.has_lost_many(ROUND.loss));
        assert!(ceiling.end_round(&ROUND));
        let long = SHORTEST + Span::from_ms(1);
        assert!(!round(&mut ceiling, long, 0));
        assert!(round(&mut ceiling, long, 1));
    }

    /// Flows that share a queue that is never empty: what is lost while it is short is lost by chance.
    #[test]
    fn chance_is_learned_while_a_queue_is_far_from_full() {
        let mut ceiling = Ceiling::default();
        let long = SHORTEST + Span::from_ms(4);
        assert!(!round(&mut ceiling, long, 0));
        assert!(round(&mut ceiling, long, 1));
        let shorter = SHORTEST + Span::from_ms(2);
        for _ in 0..20 {
            assert!(!round(&mut ceiling, shorter, 4));
        }
        // As long as it was full: as many are no more than chance takes.
        for _ in 0..20 {
            assert!(!round(&mut ceiling, long, 4));
        }
        let fell_after = (1..20).find(|_| round(&mut ceiling, long, 12));
        assert!(fell_after.is_some_and(|rounds| rounds > 1), "{fell_after:?}");
    }

    #[test]
    fn the_run_of_a_clean_path_is_as_long_as_a_window_of_tcp_falls_rarely() {
        for (window, run) in
            [(0, 1_024), (100, 1_250), (300, 11_250), (1_000, 16_384), (u64::MAX, 16_384)]
        {
            assert_eq!(clean_run(window), run, "{window}");
        }
    }

    #[test]
    fn chance_is_learned_anew_where_a_queue_is_met_nearly_always() {
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, SHORTEST, 0));
        ceiling.measured(SHORTEST, SHORTEST, Span::ZERO);
        ceiling.lost(15);
        let long = SHORTEST + Span::from_ms(1);
        assert!(!round(&mut ceiling, long, 0));
        assert!(!round(&mut ceiling, long, 20), "very much is lost without a queue, as it seems");
        for _ in 0..10 {
            assert!(!round(&mut ceiling, long, 0));
        }
        assert!(round(&mut ceiling, long, 20));
    }

    /// Where a queue is too short to be seen, and most rounds seem to meet none.
    #[test]
    fn many_losses_of_few_packets_are_not_taken_for_chance() {
        let long = SHORTEST + Span::from_ms(1);
        let few = Round { window: 40, product: 20, least_product: 20, ..ROUND };
        let lossy = |ceiling: &mut Ceiling, took| {
            ceiling.measured(took, SHORTEST, Span::ZERO);
            ceiling.arrived(12);
            ceiling.lost(6);
            ceiling.end_round(&few)
        };
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, SHORTEST, 0));
        ceiling.begin_sample();
        assert!(!lossy(&mut ceiling, SHORTEST));
        // A third, as it seems, is lost by chance.
        assert!((0..2).any(|_| lossy(&mut ceiling, long)));
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, SHORTEST, 0));
        assert!((0..3).any(|_| lossy(&mut ceiling, SHORTEST)), "long before there are 512");
    }

    #[test]
    fn it_rises_as_on_a_clean_path_once_that_is_known_and_falls_never_up() {
        let mut ceiling = Ceiling::default();
        let long = SHORTEST + Span::from_ms(1);
        assert!(!round(&mut ceiling, long, 0));
        assert!(round(&mut ceiling, long, 1));
        // 40 rounds of 400 packets are not enough, and 41 are.
        for _ in 0..40 {
            assert!(!round(&mut ceiling, long, 0));
        }
        assert_eq!(ceiling.packets(), 300);
        // Without a queue it would rise ever sooner else.
        for _ in 0..40 {
            assert!(!round(&mut ceiling, SHORTEST, 0));
        }
        assert_eq!(ceiling.packets(), 315);
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, long, 0));
        let small = Round { window: 150, product: 0, least_product: 300, ..ROUND };
        assert!(round_that_lost_one(&mut ceiling, long, &small));
        assert_eq!(ceiling.packets(), 150);
    }

    #[test]
    fn a_batch_of_ones_own_and_late_threads_are_no_queue() {
        let mut ceiling = Ceiling::default();
        let batch = Span::from_ms(3);
        ceiling.measured(SHORTEST + batch + Span::from_us(300), SHORTEST, batch);
        ceiling.arrived(400);
        ceiling.lost(1);
        assert!(!ceiling.end_round(&ROUND));
    }

    #[test]
    fn very_many_losses_are_a_queue_that_is_not_seen_and_cost_little_for_long() {
        let mut ceiling = Ceiling::default();
        assert!(!round(&mut ceiling, SHORTEST, 0));
        assert!(round(&mut ceiling, SHORTEST, 40));
        assert_eq!(ceiling.packets(), 340);
        for _ in 0..40 {
            assert!(!round(&mut ceiling, SHORTEST, 0));
        }
        assert!(ceiling.packets() > 400);
    }
}
