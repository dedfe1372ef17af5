//! What one direction of a path does to frames: a port of a certain rate with a queue in front, then a line
//! that delays, loses and reorders. It has no clock and no socket; times are given in since the start.
//!
//! In the words of netem a delay of 3 ms with a jitter of 4 ms is `delay 5ms 2ms`, and [`Reordering::Ahead`] is `reorder`.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::BinaryHeap;

use fastrand::Rng;

/// One direction of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// How long a frame is under way.
    pub(crate) delay: Duration,
    /// How much longer it is, at most: by chance, and each for itself, so that frames overtake each other.
    pub(crate) jitter: Duration,
    /// Part of the frames that are lost.
    pub(crate) loss: f64,
    /// Part of the frames that are reordered.
    pub(crate) reordered: f64,
    pub(crate) reordering: Reordering,
    /// The rate of the port.
    pub(crate) gbps: f64,
    /// What may wait before the port; a frame that finds more is dropped.
    pub(crate) queue_bytes: usize,
}

impl Line {
    /// One that only has a port.
    pub(crate) const fn new(gbps: f64, queue_bytes: usize) -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            reordered: 0.0,
            reordering: Reordering::USUAL,
            gbps,
            queue_bytes,
        }
    }
}

/// How frames come that are reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reordering {
    /// Late, by so much at most, after others that left behind them.
    Late(Duration),
    /// Without delay and jitter, before others that left before them.
    Ahead,
}

impl Reordering {
    /// Unless it is said: late by a round trip of a rack.
    pub(crate) const USUAL: Self = Self::Late(Duration::from_micros(200));
}

/// What became of frames.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(super) passed: u64,
    /// The queue was full.
    pub(super) dropped: u64,
    /// Chance.
    pub(super) lost: u64,
    pub(super) reordered: u64,
}

impl Counts {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            dropped: self.dropped + other.dropped,
            lost: self.lost + other.lost,
            reordered: self.reordered + other.reordered,
        }
    }

    /// Part of all frames that found the queue full.
    pub(super) fn dropped_part(self) -> f64 {
        let Self { passed, dropped, lost, .. } = self;
        dropped as f64 / (passed + dropped + lost).max(1) as f64
    }
}

#[derive(Debug)]
pub(super) struct Hop {
    line: Line,
    chance: Rng,
    /// When the port has sent all that it was given.
    idle_at: Duration,
    under_way: BinaryHeap<UnderWay>,
    counts: Counts,
}

#[derive(Debug)]
struct UnderWay {
    due: Duration,
    /// Frames that are due at one time arrive as they left.
    number: u64,
    frame: Vec<u8>,
}

impl Hop {
    pub(super) fn new(line: Line, seed: u64) -> Self {
        Self {
            line,
            chance: Rng::with_seed(seed),
            idle_at: Duration::ZERO,
            under_way: BinaryHeap::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// A frame that takes so many bytes of the port's time comes to it.
    pub(super) fn enter(&mut self, now: Duration, frame: Vec<u8>, bytes: usize) {
        let starts = self.idle_at.max(now);
        let waiting = (starts - now).as_secs_f64() * self.line.gbps * 1e9 / 8.0;
        if waiting > self.line.queue_bytes as f64 {
            self.counts.dropped += 1;
            return;
        }
        let sending = bytes as f64 * 8.0 / (self.line.gbps * 1e9);
        self.idle_at = starts + Duration::from_secs_f64(sending);
        if self.chance.f64() < self.line.loss {
            self.counts.lost += 1;
            return;
        }
        let Line { delay, jitter, reordered, reordering, .. } = self.line;
        let is_reordered = self.chance.f64() < reordered;
        let mut up_to = |most: Duration| most.mul_f64(self.chance.f64());
        let mut on_line = delay;
        // A line without jitter draws no number for it.
        if !jitter.is_zero() {
            on_line += up_to(jitter);
        }
        if is_reordered {
            self.counts.reordered += 1;
            match reordering {
                Reordering::Late(most) => on_line += up_to(most),
                Reordering::Ahead => on_line = Duration::ZERO,
            }
        }
        let due = self.idle_at + on_line;
        self.counts.passed += 1;
        let number = self.counts.passed;
        self.under_way.push(UnderWay { due, number, frame });
    }

    /// The next frame that has arrived by now.
    #[cfg(test)]
    fn leave(&mut self, now: Duration) -> Option<Vec<u8>> {
        let mut frames = Vec::new();
        self.leave_in_order(now, 1, &mut frames);
        frames.pop()
    }

    /// The next frames that have arrived by now, so many at most, up to one that others have overtaken.
    pub(super) fn leave_in_order(&mut self, now: Duration, most: usize, frames: &mut Vec<Vec<u8>>) {
        let mut last = 0;
        while frames.len() < most
            && self.under_way.peek().is_some_and(|next| next.due <= now && next.number > last)
            && let Some(next) = self.under_way.pop()
        {
            last = next.number;
            frames.push(next.frame);
        }
    }

    /// When the next frame arrives.
    pub(super) fn next(&self) -> Option<Duration> {
        self.under_way.peek().map(|it| it.due)
    }
}

/// The heap has its greatest first: that is what is due first.
impl Ord for UnderWay {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for UnderWay {}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// 1,000 bytes take 8 us.
    const LINE: Line = Line { delay: MS, ..Line::new(1.0, 100_000) };
    const ENDLESS: Line = Line { queue_bytes: usize::MAX, ..LINE };

    /// When each of so many frames of 1,000 bytes that come at once arrives, and its number.
    fn arrivals(hop: &mut Hop, count: u32) -> Vec<(Duration, u32)> {
        for number in 0..count {
            let mut frame = vec![0; 1000];
            frame[..4].copy_from_slice(&number.to_be_bytes());
            hop.enter(Duration::ZERO, frame, 1000);
        }
        let mut arrivals = Vec::new();
        while let Some(due) = hop.next() {
            assert!(hop.leave(due - Duration::from_nanos(1)).is_none());
            let frame = hop.leave(due).unwrap();
            arrivals.push((due, u32::from_be_bytes(frame[..4].try_into().unwrap())));
        }
        arrivals
    }

    /// When the port has sent the frame of this number.
    fn sent_at(number: u32) -> Duration {
        Duration::from_micros(8) * (number + 1)
    }

    /// By how much a frame has come later than port and delay make it.
    fn late((due, number): (Duration, u32)) -> Duration {
        due - sent_at(number) - MS
    }

    /// Frames that arrive right behind one that left after them.
    fn overtaken(arrivals: &[(Duration, u32)]) -> usize {
        arrivals.windows(2).filter(|pair| pair[1].1 < pair[0].1).count()
    }

    /// That as many are late by each quarter of the most.
    fn assert_is_even(late: impl ExactSizeIterator<Item = Duration>, most: Duration) {
        let count = late.len();
        let mut quarters = [0; 4];
        for late in late {
            quarters[(late.as_nanos() * 4 / most.as_nanos()) as usize] += 1;
        }
        let few = count / 4 - count / 50;
        assert!(quarters.into_iter().all(|it| it > few), "{quarters:?}");
    }

    #[test]
    fn frames_arrive_at_the_rate_of_the_port_and_after_the_delay() {
        let arrivals = arrivals(&mut Hop::new(LINE, 1), 100);
        for (index, (due, number)) in (0..).zip(arrivals) {
            assert_eq!(number, index);
            assert_eq!(due, MS + sent_at(index));
        }
    }

    #[test]
    fn what_leaves_at_once_is_in_the_order_of_its_coming() {
        let line = Line { reordered: 0.2, ..ENDLESS };
        let mut hop = Hop::new(line, 3);
        for number in 0_u32..1_000 {
            hop.enter(Duration::ZERO, number.to_be_bytes().to_vec(), 1000);
        }
        let (mut seen, mut parts) = (0, 0);
        while hop.next().is_some() {
            let mut frames = Vec::new();
            hop.leave_in_order(MS * 100, 64, &mut frames);
            assert!(frames.is_sorted() && (1..=64).contains(&frames.len()));
            (seen, parts) = (seen + frames.len(), parts + 1);
        }
        assert!(seen == 1_000 && parts > 150, "{parts}");
    }

    #[test]
    fn what_the_queue_cannot_hold_is_dropped() {
        let mut hop = Hop::new(LINE, 1);
        // One is being sent, a hundred wait, and one more found the queue not quite full.
        assert_eq!(arrivals(&mut hop, 200).len(), 101);
        assert_eq!(hop.counts().dropped, 99);
        hop.enter(MS, vec![0; 1000], 1000);
        assert_eq!(hop.counts().dropped, 99);
    }

    #[test]
    fn chance_loses_and_reorders_as_often_as_it_was_told() {
        let line = Line { loss: 0.01, reordered: 0.1, ..ENDLESS };
        let mut hop = Hop::new(line, 7);
        let arrivals = arrivals(&mut hop, 100_000);
        let counts = hop.counts();
        assert!((900..1100).contains(&counts.lost), "{counts:?}");
        assert!((9_500..10_500).contains(&counts.reordered), "{counts:?}");
        let overtaken = overtaken(&arrivals);
        assert!((8_000..10_500).contains(&overtaken), "{overtaken}");
    }

    #[test]
    fn jitter_makes_each_frame_late_by_any_part_of_it() {
        let line = Line { jitter: Duration::from_micros(400), ..ENDLESS };
        let frames = arrivals(&mut Hop::new(line, 1), 10_000);
        assert_is_even(frames.iter().map(|&frame| late(frame)), line.jitter);
        // Each frame leaves 8 us after the one before it, so nearly half arrive behind one of the next.
        let overtaken = overtaken(&frames);
        assert!((4_000..5_000).contains(&overtaken), "{overtaken}");
        assert_ne!(frames, arrivals(&mut Hop::new(line, 2), 10_000));
    }

    #[test]
    fn what_is_late_is_so_by_any_part_of_what_was_told() {
        let most = MS * 5;
        let line = Line { reordered: 0.1, reordering: Reordering::Late(most), ..ENDLESS };
        let mut hop = Hop::new(line, 1);
        let lateness = arrivals(&mut hop, 100_000).into_iter().map(late);
        let late: Vec<Duration> = lateness.filter(|it| !it.is_zero()).collect();
        assert_eq!(late.len() as u64, hop.counts().reordered);
        assert_is_even(late.into_iter(), most);
    }

    #[test]
    fn what_is_ahead_waits_for_the_port_alone() {
        let line = Line {
            jitter: Duration::from_micros(400),
            reordered: 0.01,
            reordering: Reordering::Ahead,
            ..ENDLESS
        };
        let mut hop = Hop::new(line, 1);
        let frames = arrivals(&mut hop, 10_000);
        let is_ahead = |&(due, number): &(Duration, u32)| due == sent_at(number);
        assert!(frames.iter().all(|frame| is_ahead(frame) || frame.0 >= sent_at(frame.1) + MS));
        let ahead: Vec<u32> = frames.iter().copied().filter(is_ahead).map(|it| it.1).collect();
        assert!((70..130).contains(&ahead.len()) && ahead.is_sorted(), "{ahead:?}");
        assert_eq!(ahead.len() as u64, hop.counts().reordered);
        // In the millisecond before the first of the others only such arrive.
        let first = ahead.iter().filter(|&&number| sent_at(number) < MS).count();
        assert!(first > 0 && frames[..first].iter().all(is_ahead), "{first}");
    }

    #[test]
    fn two_numbers_are_drawn_for_each_frame_of_a_line_without_chance() {
        let mut hop = Hop::new(LINE, 1);
        arrivals(&mut hop, 100);
        let mut chance = Rng::with_seed(1);
        for _ in 0..200 {
            chance.f64();
        }
        assert_eq!(hop.chance, chance);
    }
}
