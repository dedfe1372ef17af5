//! Holds data packets of a queue pair back until their time has come, says how much may be in flight, and measures
//! round trips.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use rdma::{Psn, QpType, Rate, Span, Time};

use super::{Congestion, Controller, Progress, Telemetry};
use crate::bursts::Bursts;
use crate::limits::{
    LINK_HEADER_BYTES, PACED_BATCH_BYTES, PACED_BATCH_LEAST, PACED_BATCH_MOST,
    PACKET_OVERHEAD_BYTES, ROUND_TRIPS_MAX,
};
use crate::mutation::{Mutation, mutated};

/// A request that an acknowledgement was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The PSN behind it.
    end: Psn,
    /// When it was sent.
    at: Time,
    /// How many packets had arrived by then.
    delivered: u64,
    /// It is the last of responses that the peer sends at once, and waits behind them.
    is_last_of_many: bool,
    /// When what was sent behind it had arrived: it is late or lost.
    overtaken: Option<Time>,
}

impl Asked {
    fn late_by(&self, now: Time) -> Span {
        self.overtaken.map_or(Span::ZERO, |at| now.since(at))
    }

    /// Its round trip, if it is the newest of those that end now.
    fn ends(&self, now: Time, oldest: Option<Span>, late_by: Span) -> RoundTrip {
        let &Self { at, delivered, is_last_of_many, .. } = self;
        RoundTrip { newest: now.since(at), oldest, is_last_of_many, late_by, delivered }
    }
}

/// Round trips that end at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    pub(crate) newest: Span,
    /// The path is no longer than that, whichever acknowledgements have overtaken others; `None` if the packet itself has
    /// overtaken some, so that it says nothing of that.
    pub(crate) oldest: Option<Span>,
    /// Whether it waited behind responses that were asked for with it.
    pub(crate) is_last_of_many: bool,
    /// How much later a packet has arrived than one that was sent after it.
    pub(crate) late_by: Span,
    /// How many packets had arrived when the newest was sent.
    pub(crate) delivered: u64,
}

impl RoundTrip {
    /// Of one packet, in its turn.
    pub(crate) fn single(took: Span) -> Self {
        let (oldest, late_by) = (Some(took), Span::ZERO);
        Self { newest: took, oldest, is_last_of_many: false, late_by, delivered: 0 }
    }
}

/// Holds data packets back until their time has come, and says how much may be in flight.
#[derive(Debug)]
pub(crate) struct Pacer {
    controller: Box<dyn Controller>,
    is_ecn_capable: bool,
    /// Whether there may ever be a rate to keep to.
    is_limited: bool,
    /// Whether the controller hears what acknowledgements tell.
    listens: bool,
    /// Whether round trips are measured.
    measures: bool,
    /// When the next data packet may leave.
    next: Time,
    /// How much may be in flight at most, whatever the controller says.
    most_bytes: u64,
    /// How much may be now.
    window_bytes: u64,
    /// At what rate that is to leave, in batches.
    pace: Option<Rate>,
    batches: Bursts,
    /// What a full packet counts of that.
    packet_bytes: u64,
    /// Requests that an acknowledgement was asked for.
    asked: VecDeque<Asked>,
    /// What was sent before the last probe, and how long the answer took if it is not that probe's.
    probed: Option<Asked>,
    probed_at: Time,
    doubtful: Option<Span>,
    /// Packets that are acknowledged.
    acknowledged: u64,
    /// Packets that have arrived, also behind gaps.
    delivered: u64,
    /// A mark has been heard of since the last progress.
    is_marked: bool,
}

/// How long a batch takes at `pace`.
fn batch_time(pace: Rate) -> Span {
    pace.time_of(PACED_BATCH_BYTES).clamp(PACED_BATCH_LEAST, PACED_BATCH_MOST)
}

impl Pacer {
    /// `most_bytes` may be in flight without a controller.
    pub(crate) fn new(congestion: &Congestion, kind: QpType, most_bytes: u64) -> Self {
        let congestion = congestion.of(kind);
        let controller = congestion.controller();
        Self {
            is_ecn_capable: congestion.obeys_marks(),
            is_limited: congestion.has_rate(),
            listens: congestion.listens(),
            measures: congestion.listens(),
            controller,
            next: Time::ZERO,
            most_bytes,
            window_bytes: most_bytes,
            pace: None,
            batches: Bursts::default(),
            packet_bytes: 0,
            asked: VecDeque::new(),
            probed: None,
            probed_at: Time::ZERO,
            doubtful: None,
            acknowledged: 0,
            delivered: 0,
            is_marked: false,
        }
    }

    /// Round trips are measured, whether a controller has a use for them or not.
    pub(crate) fn measure(&mut self) {
        self.measures = true;
    }

    /// Requests are sent from now on, in packets of so many bytes of payload.
    pub(crate) fn begin(&mut self, stride: u32) {
        self.packet_bytes = u64::from(stride) + PACKET_OVERHEAD_BYTES;
        self.set_window();
    }

    fn set_window(&mut self) {
        self.window_bytes = self.most_bytes.min(self.controller.window(self.packet_bytes));
        self.pace = self.controller.pace(self.packet_bytes);
    }

    /// How many bytes may be in flight.
    #[inline]
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// How many full packets may be, if that is the controller's choice.
    #[inline]
    pub(crate) fn window_packets(&self) -> Option<u32> {
        let packets = self.window_bytes / self.packet_bytes.max(1);
        self.listens.then(|| u32::try_from(packets).unwrap_or(u32::MAX))
    }

    /// A request before `end` is sent, and its acknowledgement asked for.
    #[inline]
    pub(crate) fn asked(&mut self, now: Time, end: Psn, is_last_of_many: bool) {
        if self.measures && self.asked.len() < ROUND_TRIPS_MAX {
            self.asked.push_back(Asked {
                end,
                at: now,
                delivered: self.delivered,
                is_last_of_many,
                overtaken: None,
            });
        }
    }

    /// What stands for so many packets from `psn` on is sent again, since `lost` of them, or one request for them, are
    /// lost: what answers them tells nothing of the round trip (Karn's rule).
    pub(crate) fn repeated(&mut self, psn: Psn, packets: u32, lost: u32) {
        self.probed = None;
        self.forget_round_trips(psn, packets);
        self.controller.on_repetition(lost);
    }

    /// So many of those had been late.
    pub(crate) fn were_late(&mut self, packets: u32) {
        self.controller.on_late(packets);
        self.set_window();
    }

    /// As many are sent again, but may have arrived.
    pub(crate) fn forget_round_trips(&mut self, psn: Psn, packets: u32) {
        let end = psn.plus(packets);
        self.asked.retain(|asked| !asked.end.is_after(psn) || asked.end.is_after(end));
    }

    /// Packets are sent again: which of them an acknowledgement is for, nobody knows.
    pub(crate) fn repeats(&mut self) {
        self.asked.clear();
    }

    /// A packet is sent again, which may have arrived.
    pub(crate) fn probes(&mut self, now: Time) {
        let probe = || Some(Asked { at: self.probed_at, ..self.probed? });
        self.probed = self.asked.front().copied().or_else(probe);
        (self.probed_at, self.doubtful) = (now, None);
        self.repeats();
    }

    /// The packet had arrived: how long the answer to what was sent before it took, at least.
    pub(crate) fn probed_in_vain(&mut self) -> Option<Span> {
        self.doubtful.take()
    }

    /// The local ACK timer has expired: all that was sent counts as lost.
    pub(crate) fn timed_out(&mut self) {
        self.probed = None;
        self.repeats();
        self.controller.on_timeout();
        self.set_window();
    }

    /// Packets of this queue pair were marked.
    pub(crate) fn mark(&mut self) {
        self.is_marked = true;
    }

    /// Switches have written this into a packet of this queue pair.
    pub(crate) fn observe(&mut self, telemetry: Telemetry, is_of_response: bool) {
        if self.listens {
            self.controller.on_telemetry(telemetry, is_of_response);
        }
    }

    /// Whether there is a controller.
    pub(crate) fn is_controlled(&self) -> bool {
        self.is_limited || self.listens
    }

    /// At what rate data leaves now, if something limits it beside the window.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.controller.rate().or(self.pace)
    }

    /// Whether data packets are to be counted.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// When a data packet may leave, if not now.
    pub(crate) fn held_until(&self, now: Time) -> Option<Time> {
        (self.next > now).then_some(self.next)
    }

    /// When a request may leave, if not now.
    #[inline]
    pub(crate) fn batch_held_until(&mut self, now: Time) -> Option<Time> {
        let batch = batch_time(self.pace?);
        self.batches.held_until(now, batch)
    }

    /// Bytes of the window that may leave at once.
    #[inline]
    pub(crate) fn batch_bytes(&self, now: Time) -> u64 {
        let Some(pace) = self.pace else { return u64::MAX };
        let left = self.batches.left(now, batch_time(pace));
        let bits = u128::from(left.as_ps()) * u128::from(pace.as_bps()) / 1_000_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// So many packets leave that each take as many bytes of the window.
    #[inline]
    pub(crate) fn spend(&mut self, now: Time, bytes: u64, packets: u32) {
        if let Some(pace) = self.pace {
            self.batches.spend(now, pace.time_of(bytes) * packets.into());
        }
    }

    /// The last so many have not left after all.
    pub(crate) fn take_back(&mut self, bytes: u64, packets: u32) {
        if let Some(pace) = self.pace {
            self.batches.take_back(pace.time_of(bytes) * packets.into());
        }
    }

    /// A data packet leaves, of `length` bytes from its BTH to the end of its payload. If the
    /// driver came up to `slack` late for it, the next one may leave that much earlier.
    pub(crate) fn sent(&mut self, now: Time, length: u64, slack: Span) {
        let bytes = length + LINK_HEADER_BYTES;
        if let Some(rate) = self.controller.on_sent(now, bytes) {
            self.next = self.next.max(now - slack) + rate.time_of(bytes);
        }
    }

    pub(crate) fn on_cnp(&mut self, now: Time) -> bool {
        self.controller.on_cnp(now)
    }

    pub(crate) fn on_loss(&mut self, now: Time) {
        self.controller.on_loss(now);
        self.set_window();
    }

    /// What is before `unacked` is acknowledged: packets for the first time, those that are under way, and
    /// those of them that have arrived behind a gap. `is_window_full` if more would have been sent in a larger
    /// window. Returns the round trip that has ended.
    #[inline]
    pub(crate) fn on_progress(
        &mut self,
        now: Time,
        unacked: Psn,
        [packets, under_way, behind]: [u32; 3],
        is_window_full: bool,
    ) -> Option<RoundTrip> {
        if self.is_limited {
            self.controller.on_progress(now);
        }
        if !self.measures {
            return None;
        }
        self.acknowledged += u64::from(packets);
        self.note_delivered(behind);
        let round_trip = self.round_trip_to(now, unacked);
        if let Some(probed) = self.probed.take_if(|probed| !probed.end.is_after(unacked)) {
            self.doubtful = Some(now.since(probed.at));
        }
        if self.listens {
            let payload = self.packet_bytes.saturating_sub(PACKET_OVERHEAD_BYTES);
            let bytes = u64::from(packets) * payload;
            let is_marked = core::mem::take(&mut self.is_marked);
            let news = self.progress(round_trip, is_window_full);
            let progress = Progress { packets, bytes, under_way, is_marked, ..news };
            if let Some(next) = self.controller.on_acknowledgement(now, &progress) {
                self.next = next;
            }
            self.set_window();
        }
        round_trip
    }

    /// Packets behind a gap have arrived, `behind` in all; which ones `has` tells. Returns the round trip of the newest that has
    /// arrived now.
    pub(crate) fn arrived_behind_a_gap(
        &mut self,
        now: Time,
        end: Psn,
        is_window_full: bool,
        behind: u32,
        has: impl Fn(Psn) -> bool,
    ) -> Option<RoundTrip> {
        if !self.measures {
            return None;
        }
        self.note_delivered(behind);
        let round_trip = self.round_trip_of(now, end, has);
        if self.listens {
            let progress = self.progress(round_trip, is_window_full);
            self.controller.on_arrival_behind_a_gap(now, &progress);
            self.set_window();
        }
        round_trip
    }

    /// What has arrived so far, and what the round trip tells.
    fn progress(&self, round_trip: Option<RoundTrip>, is_window_full: bool) -> Progress {
        Progress {
            round_trip: round_trip.map(|it| it.newest),
            oldest_round_trip: round_trip.and_then(|it| it.oldest),
            is_last_of_many: round_trip.is_some_and(|it| it.is_last_of_many),
            late_by: round_trip.map_or(Span::ZERO, |it| it.late_by),
            delivered: self.delivered,
            delivered_when_sent: round_trip.map_or(0, |it| it.delivered),
            packet_bytes: self.packet_bytes,
            is_window_full,
            ..Progress::default()
        }
    }

    /// A peer that takes back what it said makes it no fewer.
    fn note_delivered(&mut self, behind: u32) {
        self.delivered = self.delivered.max(self.acknowledged + u64::from(behind));
    }

    /// The round trips of the packets before `end` that asked for an acknowledgement.
    fn round_trip_to(&mut self, now: Time, end: Psn) -> Option<RoundTrip> {
        let first = self.asked.front()?.at;
        let (mut last, mut late_by) = (None, Span::ZERO);
        while let Some(&asked) = self.asked.front()
            && !asked.end.is_after(end)
        {
            late_by = late_by.max(asked.late_by(now));
            last = self.asked.pop_front();
        }
        last.map(|last| last.ends(now, Some(now.since(first)), late_by))
    }

    /// The same of those before `end`, which may have overtaken others, which are still under way. Of one that has not arrived
    /// it counts once when what is behind it has: a queue that has dropped it is full.
    fn round_trip_of(
        &mut self,
        now: Time,
        end: Psn,
        has: impl Fn(Psn) -> bool,
    ) -> Option<RoundTrip> {
        let (mut newest, mut oldest, mut late_by) = (None, None, Span::ZERO);
        self.asked.retain_mut(|asked| {
            let has_arrived = has(asked.end.minus(1));
            if has_arrived && asked.overtaken.is_some() {
                late_by = late_by.max(asked.late_by(now));
                oldest = oldest.max(Some(now.since(asked.at)));
            }
            let is_passed = !asked.end.is_after(end) && asked.overtaken.is_none();
            if is_passed {
                asked.overtaken = Some(now);
            }
            if has_arrived || is_passed {
                newest = Some(*asked);
            }
            !has_arrived
        });
        newest.map(|newest: Asked| newest.ends(now, oldest, late_by))
    }

    /// The traffic class of a data packet of a queue pair that has `class`.
    pub(crate) fn data_class(&self, class: u8) -> u8 {
        const ECN_BITS: u8 = 3;
        const ECT_0: u8 = 2;
        let allows = self.is_ecn_capable || mutated(Mutation::MarksAllowedAlways);
        if allows { class & !ECN_BITS | ECT_0 } else { class }
    }

    /// When the next data packet may leave, if there is a rate to keep to.
    pub(crate) fn paces_until(&self) -> Option<Time> {
        (self.next != Time::ZERO).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const RATE: Rate = Rate::from_gbps(8);

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Packets that leave at one moment, of 1 us each.
    fn leave(pacer: &mut Pacer, now: Time, slack: Span) -> u32 {
        let mut count = 0;
        while pacer.held_until(now).is_none() && count < 100 {
            pacer.sent(now, 1_000 - LINK_HEADER_BYTES, slack);
            count += 1;
        }
        count
    }

    #[test]
    fn a_driver_that_comes_late_gets_what_was_due_and_no_more_than_the_slack() {
        let mut pacer = Pacer::new(&Congestion::Fixed(RATE), QpType::Rc, u64::MAX);
        let slack = Span::from_us(10);
        assert_eq!(leave(&mut pacer, us(100), slack), 11);
        assert_eq!(pacer.held_until(us(100)), Some(us(101)));
        assert_eq!(leave(&mut pacer, us(105), slack), 5);
        assert_eq!(leave(&mut pacer, us(1_000), slack), 11);
    }

    #[test]
    fn without_slack_one_packet_leaves_at_a_time() {
        let mut pacer = Pacer::new(&Congestion::Fixed(RATE), QpType::Rc, u64::MAX);
        for at in [100, 101, 105, 1_000] {
            assert_eq!(leave(&mut pacer, us(at), Span::ZERO), 1);
        }
    }

    #[test]
    fn a_round_trip_ends_with_the_acknowledgement_that_was_asked_for_and_not_after_a_repetition() {
        #[derive(Debug, Default)]
        struct Heard(Vec<Option<u64>>);

        impl Controller for Heard {
            fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
                None
            }

            fn on_acknowledgement(&mut self, _: Time, progress: &Progress) -> Option<Time> {
                self.0.push(progress.round_trip.map(|span| span.as_ps() / 1_000_000));
                None
            }

            fn window(&self, packet_bytes: u64) -> u64 {
                self.0.len() as u64 * packet_bytes
            }
        }

        let mut pacer = Pacer::new(&Congestion::NAMED[0].1, QpType::Rc, 3_000);
        pacer.controller = Box::new(Heard::default());
        pacer.begin(1024);
        assert_eq!(pacer.window_bytes(), 0);
        pacer.asked(us(10), Psn::new(5), false);
        pacer.asked(us(20), Psn::new(9), false);
        pacer.on_progress(us(31), Psn::new(4), [4, 5, 0], false);
        pacer.on_progress(us(32), Psn::new(5), [1, 4, 0], false);
        assert_eq!(pacer.window_bytes(), 2 * 1_280);
        pacer.repeats();
        pacer.on_progress(us(33), Psn::new(9), [4, 0, 0], false);
        assert_eq!(pacer.window_bytes(), 3_000);
        let heard = std::format!("{:?}", pacer.controller);
        assert_eq!(heard, "Heard([None, Some(22), None])");
    }

    #[test]
    fn round_trips_are_of_what_has_arrived_and_not_of_what_it_has_overtaken() {
        let mut pacer = Pacer::new(&Congestion::None, QpType::Rc, u64::MAX);
        pacer.measure();
        for (at, end) in [(10, 5), (20, 9), (30, 13), (40, 17)] {
            pacer.asked(us(at), Psn::new(end), end == 17);
        }
        // Of one that has not arrived it counts once.
        let mut arrived = |at, psn| {
            let psn = Psn::new(psn);
            let ended = pacer.arrived_behind_a_gap(us(at), psn.next(), false, 1, |it| it == psn);
            ended.map(|it| (it.newest, it.oldest))
        };
        // PSN 5 has overtaken what was sent before it.
        assert_eq!(arrived(41, 6), Some((Span::from_us(31), None)));
        assert_eq!(arrived(42, 7), None);
        assert_eq!(arrived(45, 12), Some((Span::from_us(15), None)));
        assert_eq!(arrived(46, 13), None);
        // An acknowledgement that has overtaken another tells of two.
        let ended = pacer.on_progress(us(50), Psn::new(13), [13, 4, 0], false);
        let RoundTrip { newest, oldest, is_last_of_many, late_by, .. } = ended.unwrap();
        assert_eq!((newest, oldest), (Span::from_us(30), Some(Span::from_us(40))));
        // What ends before PSN 5 was overtaken at 41.
        assert_eq!((is_last_of_many, late_by), (false, Span::from_us(9)));
        let ended = pacer.on_progress(us(60), Psn::new(17), [4, 0, 0], false);
        let RoundTrip { oldest, is_last_of_many, late_by, .. } = ended.unwrap();
        assert_eq!((oldest, is_last_of_many), (Some(Span::from_us(20)), true));
        assert_eq!(late_by, Span::ZERO);
    }

    /// Where packets overtake each other all the time, there is always a gap.
    #[test]
    fn what_comes_late_behind_a_gap_tells_how_long_the_path_is() {
        let mut pacer = Pacer::new(&Congestion::None, QpType::Rc, u64::MAX);
        pacer.measure();
        for (at, end) in [(10, 5), (20, 9), (30, 13)] {
            pacer.asked(us(at), Psn::new(end), false);
        }
        let mut arrived = |at, psn| {
            let psn = Psn::new(psn);
            pacer.arrived_behind_a_gap(us(at), psn.next(), false, 1, |it| it == psn).unwrap()
        };
        assert_eq!(arrived(41, 12).oldest, None);
        let RoundTrip { oldest, late_by, .. } = arrived(48, 8);
        assert_eq!((oldest, late_by), (Some(Span::from_us(28)), Span::from_us(7)));
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        let mut pacer = Pacer::new(&Congestion::None, QpType::Rc, u64::MAX);
        assert_eq!(leave(&mut pacer, us(1), Span::ZERO), 100);
        assert_eq!(pacer.paces_until(), None);
    }
}
