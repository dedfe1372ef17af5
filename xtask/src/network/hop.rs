//! What one direction of a path does to frames: a port of a certain rate with a queue in front, then a line
//! that delays, loses and reorders. It has no clock and no socket; times are given in since the start.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::BinaryHeap;

use fastrand::Rng;

/// How late a frame that others overtake comes, at most: a round trip of a rack.
const HELD_BACK_MAX: Duration = Duration::from_micros(200);

/// One direction of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// How long a frame is under way.
    pub(crate) delay: Duration,
    /// Part of the frames that are lost.
    pub(crate) loss: f64,
    /// Part of the frames that come late, after others that left behind them.
    pub(crate) reordered: f64,
    /// The rate of the port.
    pub(crate) gbps: f64,
    /// What may wait before the port; a frame that finds more is dropped.
    pub(crate) queue_bytes: usize,
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
        let mut due = self.idle_at + self.line.delay;
        if self.chance.f64() < self.line.reordered {
            self.counts.reordered += 1;
            due += HELD_BACK_MAX.mul_f64(self.chance.f64());
        }
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
    const LINE: Line =
        Line { delay: MS, loss: 0.0, reordered: 0.0, gbps: 1.0, queue_bytes: 100_000 };

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

    #[test]
    fn frames_arrive_at_the_rate_of_the_port_and_after_the_delay() {
        let arrivals = arrivals(&mut Hop::new(LINE, 1), 100);
        for (index, (due, number)) in (0..).zip(arrivals) {
            assert_eq!(number, index);
            assert_eq!(due, MS + Duration::from_micros(8) * (index + 1));
        }
    }

    #[test]
    fn what_leaves_at_once_is_in_the_order_of_its_coming() {
        let line = Line { reordered: 0.2, queue_bytes: usize::MAX, ..LINE };
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
        let line = Line { loss: 0.01, reordered: 0.1, queue_bytes: usize::MAX, ..LINE };
        let mut hop = Hop::new(line, 7);
        let arrivals = arrivals(&mut hop, 100_000);
        let counts = hop.counts();
        assert!((900..1100).contains(&counts.lost), "{counts:?}");
        assert!((9_500..10_500).contains(&counts.reordered), "{counts:?}");
        let overtaken = arrivals.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
        assert!((8_000..10_500).contains(&overtaken), "{overtaken}");
    }
}
