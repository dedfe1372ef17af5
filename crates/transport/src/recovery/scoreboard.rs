//! What a requester knows of its packets beyond the cumulative acknowledgement.
//!
//! ```text
//!        unacked          resent_until        lost_until            top
//!   ───────┼──────────────────┼───────────────────┼──────────────────┼───
//!          │ gaps were sent   │ gaps are lost,    │ nothing is       │ not
//!          │ again            │ and sent next     │ known yet        │ sent
//! ```
//!
//! An arrival shows that each earlier packet has arrived or is lost. A request has arrived if a
//! selective acknowledgement says so, or if a later one was executed. A READ or an atomic also
//! needs its responses, which come once the gap before it is filled: from then on it counts as sent again.
//!
//! A packet that was sent again is lost once more if something arrives that was sent after it: a
//! packet that was new then, or one that was sent again later (RFC 8985 does this for TCP by the time of
//! sending). Each packet that was sent again has its own [`Place`], so a second loss is noticed while
//! others are under way. What was sent before it may come late, and has as long as what others have overtaken. What
//! arrives sooner after its repetition than the shortest round trip was only late, and tells nothing (RFC 8985, 6.2, step 2).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use rdma::{Psn, Span, Time};
use wire::saeth;

use super::{Bounds, ReorderBuffer};
use crate::limits::{OUT_OF_ORDER_PACKETS_MAX, OVERTAKEN_MARKS};
use crate::mutation::{Mutation, mutated};

const WORDS: usize = OUT_OF_ORDER_PACKETS_MAX as usize / 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    pub(crate) bounds: Bounds,
    unacked: Psn,
    /// Requests that wait at the responder: a bit for each PSN from `unacked` on, at the PSN modulo
    /// the number of bits.
    arrived: [u64; WORDS],
    /// Those of them that have brought what they carry: not READs and atomics, whose answers are to come.
    delivered: [u64; WORDS],
    /// How many bits of each are set.
    arrived_count: u32,
    delivered_count: u32,
    /// Responses that came before their turn.
    pub(crate) responses: ReorderBuffer,
    /// Requests before it have been executed.
    executed_until: Psn,
    /// Requests before it have arrived, and no gap is before them: the answers of READs and atomics are on the way.
    /// It is only believed, and completes nothing.
    awaited_until: Psn,
    /// Responses before it have had time to arrive.
    due_until: Psn,
    /// The end of the newest READ request that is being answered: it has arrived, and all before it.
    answering_until: Psn,
    /// A packet just before it has arrived, and was sent once.
    seen_until: Psn,
    /// Oldest first.
    overtaken: VecDeque<Overtaken>,
    lost_until: Psn,
    /// No packet before it is to be sent again.
    resent_until: Psn,
    /// By PSN modulo its length, of the packets from `unacked` on; empty until one is sent again.
    resent: Vec<Option<Place>>,
    /// No `before` of those is less, if there are any.
    resent_before: Option<Psn>,
    /// Numbers the repetitions; begins anew when none is outstanding.
    resends: u32,
    /// The newest repetition that has arrived. The earlier ones have so much time as what others have overtaken.
    repeated: Option<Repeated>,
    /// Losses since that was last asked that were none: what was sent again had been late.
    late: u32,
}

/// When something is heard, or sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    /// What is answered now was sent by then, if that is known.
    pub(crate) by: Option<Time>,
    /// Whether what is sent again may overtake what was, as over many paths.
    pub(crate) is_sprayed: bool,
    /// The first packet that was never sent.
    pub(crate) top: Psn,
}

/// What has time to arrive before it counts as lost.
#[derive(Clone, Copy, Debug)]
struct Overtaken {
    /// Packets before it.
    end: Psn,
    /// Responses before it.
    answers_end: Psn,
    /// Repetitions before this one.
    repeated: Option<Repeated>,
    until: Time,
}

/// A repetition that has arrived: by its number, and which of the packets of one READ request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Repeated {
    number: NonZeroU32,
    psn: Psn,
    /// The first new packet sent after it, if it has overtaken what was sent before.
    before: Option<Psn>,
}

/// When a packet was sent again, in the order of sending.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The first new packet sent after it.
    before: Psn,
    /// Its number among the repetitions. The packets of one READ request share it.
    number: NonZeroU32,
    /// When, or the beginning of time if no answer can be to an earlier one.
    at: Time,
    /// It counts as lost until it is known to have been late.
    is_loss: bool,
    /// It is answered with data, which may pass the answers of others.
    is_answered: bool,
}

impl Place {
    fn of(self, psn: Psn) -> Repeated {
        let Self { number, before, is_answered, .. } = self;
        Repeated { number, psn, before: (!is_answered).then_some(before) }
    }
}

impl Scoreboard {
    /// A scoreboard of a queue pair that begins at `psn`.
    pub(crate) fn new(bounds: Bounds, psn: Psn) -> Self {
        Self {
            bounds,
            unacked: psn,
            arrived: [0; WORDS],
            delivered: [0; WORDS],
            arrived_count: 0,
            delivered_count: 0,
            responses: ReorderBuffer::new(bounds, psn),
            executed_until: psn,
            awaited_until: psn,
            due_until: psn,
            answering_until: psn,
            seen_until: psn,
            overtaken: VecDeque::new(),
            lost_until: psn,
            resent_until: psn,
            resent: Vec::new(),
            resent_before: None,
            resends: 0,
            repeated: None,
            late: 0,
        }
    }

    /// Everything before `unacked` is done.
    pub(crate) fn advance(&mut self, unacked: Psn, moment: &Moment) {
        let passed = unacked.distance_from(self.unacked);
        if self.has_resent_any() {
            for psn in self.before(unacked) {
                self.note_late(psn, moment);
            }
            // This one is known to have been missing. Others may have arrived long ago, and untold.
            let first = self.answered(self.unacked, moment).filter(|_| passed > 0);
            self.note_repeated(first);
        }
        if !unacked.is_before(self.lost_until) {
            self.forget_resent();
        } else if self.resent_before.is_some() {
            for distance in 0..passed {
                self.clear(self.unacked.plus(distance));
            }
        }
        if self.arrived_count > 0 {
            for distance in 0..passed.min(OUT_OF_ORDER_PACKETS_MAX) {
                self.unmark(self.unacked.plus(distance));
            }
        }
        self.unacked = unacked;
        self.responses.advance(unacked);
        let is_over = |it: &Overtaken| !it.end.is_after(unacked) && it.repeated.is_none();
        while self.overtaken.front().is_some_and(is_over) {
            self.overtaken.pop_front();
        }
        let Self { executed_until, awaited_until, due_until, answering_until, .. } = self;
        let Self { seen_until, lost_until, resent_until, .. } = self;
        let of_answers = [executed_until, awaited_until, due_until, answering_until];
        for mark in of_answers.into_iter().chain([seen_until, lost_until, resent_until]) {
            if mark.is_before(unacked) {
                *mark = unacked;
            }
        }
        self.await_answers(moment);
    }

    /// Requests that have arrived, and before which none is missing any more, are executed. If they are answered
    /// with data, that is on the way from now on.
    fn await_answers(&mut self, moment: &Moment) {
        if self.awaited_until.is_before(self.executed_until) {
            self.awaited_until = self.executed_until;
        }
        let first = self.awaited_until;
        while self.has_arrived(self.awaited_until) {
            self.awaited_until = self.awaited_until.next();
        }
        let packets = self.awaited_until.distance_from(first);
        if packets > 0 {
            self.probed(moment, first, packets);
        }
    }

    /// Forgets what was said of packets behind the gap: all packets before `top` are sent again.
    pub(crate) fn forget(&mut self, top: Psn) {
        (self.arrived, self.delivered) = ([0; WORDS], [0; WORDS]);
        (self.arrived_count, self.delivered_count) = (0, 0);
        self.overtaken.clear();
        self.awaited_until = self.executed_until;
        self.due_until = self.executed_until;
        self.answering_until = self.unacked;
        self.seen_until = self.unacked;
        self.lost_until = top;
        self.resent_until = self.unacked;
        self.forget_resent();
    }

    /// All packets before `top` were lost, and those before `psn` are sent again.
    pub(crate) fn is_gone_back(&mut self, psn: Psn, top: Psn) {
        (self.resent_until, self.lost_until) = (psn, top);
    }

    fn forget_resent(&mut self) {
        if self.resent_before.take().is_some() {
            self.resent.fill(None);
            self.resends = 0;
            self.repeated = None;
            self.overtaken.iter_mut().for_each(|it| it.repeated = None);
        }
    }

    /// The packets of `ranges` behind `missing` have arrived. The caller has checked that they were
    /// sent, and knows which are answered with data.
    pub(crate) fn record(
        &mut self,
        missing: Psn,
        selective: &saeth::Repr,
        moment: &Moment,
        is_answered: impl Fn(Psn) -> bool,
    ) {
        self.seen(missing.next());
        for range in selective.ranges.iter().filter(|range| range.packets > 0) {
            for distance in u32::from(range.first)..range.end() {
                let psn = missing.plus(distance);
                if psn.distance_from(self.unacked) < OUT_OF_ORDER_PACKETS_MAX {
                    let (word, bit) = place(psn);
                    if self.arrived[word] & bit == 0 {
                        self.note_late(psn, moment);
                        self.note_repeated(self.answered(psn, moment));
                        self.arrived[word] |= bit;
                        self.arrived_count += 1;
                        if !is_answered(psn) {
                            self.delivered[word] |= bit;
                            self.delivered_count += 1;
                        }
                    }
                }
            }
            self.seen(missing.plus(range.end()));
        }
    }

    /// Requests before `end` have been executed.
    pub(crate) fn executed(&mut self, end: Psn, moment: &Moment) {
        if end.is_after(self.executed_until) {
            self.executed_until = end;
            self.await_answers(moment);
        }
        self.seen(end);
    }

    /// The READ request before `end` is being answered.
    pub(crate) fn answering(&mut self, end: Psn) {
        if end.is_after(self.answering_until) {
            self.answering_until = end;
        }
    }

    pub(crate) fn answering_until(&self) -> Psn {
        self.answering_until
    }

    pub(crate) fn executed_until(&self) -> Psn {
        self.executed_until
    }

    /// Whether the request that the response `psn` answers is known to have arrived.
    pub(crate) fn is_being_answered(&self, psn: Psn) -> bool {
        psn.is_before(self.executed_until) || psn.is_before(self.answering_until)
    }

    /// A packet before `end` that was sent once has arrived.
    fn seen(&mut self, end: Psn) {
        if end.is_after(self.seen_until) {
            self.seen_until = end;
        }
    }

    /// What others have overtaken is lost once it has had so much time to arrive. Returns when to look again.
    ///
    /// Each time has one mark, and there are a few: what is overtaken soon after the last mark counts from the next.
    pub(crate) fn look_for_losses(&mut self, now: Time, patience: Span) -> Option<Time> {
        while self.overtaken.front().is_some_and(|it| it.until <= now)
            && let Some(Overtaken { end, answers_end, repeated, .. }) = self.overtaken.pop_front()
        {
            self.answers_are_due(answers_end);
            self.lose_before(end);
            self.lose_repeated_before(repeated);
        }
        let (end, answers_end) = (self.seen_until, self.executed_until);
        let last = self.overtaken.back();
        let [known, known_answers] =
            last.map_or([self.lost_until, self.due_until], |last| [last.end, last.answers_end]);
        let has_overtaken = end.is_after(known) || answers_end.is_after(known_answers);
        let mut again = None;
        if has_overtaken || self.repeated.is_some() {
            let until = now + patience;
            let apart = Span::from_ps(patience.as_ps() / OVERTAKEN_MARKS);
            again = last.map(|last| last.until + apart).filter(|&at| at > until);
            if again.is_none() {
                let repeated = self.repeated.take();
                self.overtaken.push_back(Overtaken { end, answers_end, repeated, until });
            }
        }
        let first = self.overtaken.front().map(|first| first.until);
        first.into_iter().chain(again.map(|at| at - patience)).min()
    }

    /// From now on a READ before `end` counts as missing if its response is.
    fn answers_are_due(&mut self, end: Psn) {
        if end.is_after(self.due_until) {
            if self.resent_until.is_after(self.due_until) {
                self.resent_until = self.due_until;
            }
            self.due_until = end;
        }
    }

    /// What is missing before `end` is lost, or lost once more if it had been sent again earlier.
    fn lose_before(&mut self, end: Psn) {
        if self.resent_before.is_some_and(|before| end.is_after(before)) {
            self.lose_again(self.lost_until, |place| end.is_after(place.before));
            let left = self.before(self.lost_until).filter_map(|psn| self.place_of(psn));
            let before = left.map(|place| place.before);
            self.resent_before = before.reduce(|a, b| if b.is_before(a) { b } else { a });
        }
        if end.is_after(self.lost_until) {
            self.lost_until = end;
        }
    }

    /// The response `psn` to a repeated READ request has arrived.
    pub(crate) fn answered_again(&mut self, psn: Psn) {
        self.note_repeated(self.place_of(psn).map(|place| place.of(psn)));
    }

    /// The repetition of `psn`, if that may have been answered by now.
    fn answered(&self, psn: Psn, moment: &Moment) -> Option<Repeated> {
        let place = self.place_of(psn).filter(|_| !moment.is_sprayed)?;
        (place.at <= moment.by.unwrap_or(Time::ZERO)).then(|| place.of(psn))
    }

    /// A repetition has arrived. Where nothing is known to have arrived behind it, a responder that has no room for what is behind a
    /// gap may have dropped all that, and the newest packet: what was sent before the repetition is late or lost.
    fn note_repeated(&mut self, arrived: Option<Repeated>) {
        if let Some(before) = arrived.and_then(|it| it.before).filter(|_| self.arrived_count == 0) {
            self.seen(before);
        }
        let is_newer = |it: &Repeated| {
            self.repeated.is_none_or(|last| {
                it.number > last.number || it.number == last.number && it.psn.is_after(last.psn)
            })
        };
        self.repeated = arrived.filter(is_newer).or(self.repeated);
    }

    /// The packet `psn`, or its response, has arrived. If it was sent again, and that cannot have been answered by now, it had
    /// been late (RFC 3522 tells that by timestamps).
    pub(crate) fn note_late(&mut self, psn: Psn, moment: &Moment) {
        let Some(by) = moment.by.filter(|_| !moment.is_sprayed) else { return };
        let Some(Some(place)) = self.resent.get_mut(index(psn)) else { return };
        if place.at > by && core::mem::take(&mut place.is_loss) {
            self.late += 1;
        }
    }

    /// How many losses were none, since that was last asked.
    pub(crate) fn take_late(&mut self) -> u32 {
        core::mem::take(&mut self.late)
    }

    /// Whether the response `psn` may be to the request that was repeated for it.
    pub(crate) fn may_be_answered_again(&self, psn: Psn, moment: &Moment) -> bool {
        self.answered(psn, moment).is_some()
    }

    /// This repetition has arrived: those that were sent before it, and have not, are lost, and those of earlier packets
    /// by the same READ request, because a responder answers it in the order of PSNs.
    fn lose_repeated_before(&mut self, arrived: Option<Repeated>) {
        if let Some(Repeated { number, psn, .. }) = arrived {
            self.lose_again(psn, |place| place.number == number);
            self.lose_again(self.lost_until, |place| place.number < number);
        }
    }

    /// Marks as lost those packets before `end` that were sent again at such a place.
    fn lose_again(&mut self, end: Psn, is_lost: impl Fn(Place) -> bool) {
        for psn in self.before(end) {
            if self.place_of(psn).is_some_and(&is_lost) {
                self.clear(psn);
                if psn.is_before(self.resent_until) {
                    self.resent_until = psn;
                }
            }
        }
    }

    /// The packets from `unacked` to `end`; none if that is done.
    fn before(&self, end: Psn) -> impl Iterator<Item = Psn> + use<> {
        let unacked = self.unacked;
        let packets = if end.is_after(unacked) { end.distance_from(unacked) } else { 0 };
        (0..packets).map(move |distance| unacked.plus(distance))
    }

    /// It is not known to have arrived.
    fn unmark(&mut self, psn: Psn) {
        let (word, bit) = place(psn);
        self.arrived_count -= u32::from(self.arrived[word] & bit != 0);
        self.delivered_count -= u32::from(self.delivered[word] & bit != 0);
        self.delivered[word] &= !bit;
        self.arrived[word] &= !bit;
    }

    /// How many packets behind a gap have brought what they carry.
    pub(crate) fn delivered_packets(&self) -> u32 {
        self.delivered_count + self.responses.held().packets as u32
    }

    /// Whether the request `psn` is known to have arrived.
    fn has_arrived(&self, psn: Psn) -> bool {
        let (word, bit) = place(psn);
        psn.distance_from(self.unacked) < OUT_OF_ORDER_PACKETS_MAX && self.arrived[word] & bit != 0
    }

    /// Whether the packet `psn`, or a response to it, is known to have arrived.
    pub(crate) fn has_come(&self, psn: Psn) -> bool {
        self.has_arrived(psn) || self.responses.has(psn)
    }

    fn place_of(&self, psn: Psn) -> Option<Place> {
        *self.resent.get(index(psn))?
    }

    fn clear(&mut self, psn: Psn) {
        if let Some(place) = self.resent.get_mut(index(psn)) {
            *place = None;
        }
    }

    /// Whether any packet was sent again.
    pub(crate) fn has_resent_any(&self) -> bool {
        self.resent_before.is_some()
    }

    /// Whether a packet was sent again, and is not known to be lost once more.
    pub(crate) fn is_resent(&self, psn: Psn) -> bool {
        self.place_of(psn).is_some()
    }

    /// Where to look for lost packets, if there may be any that have not been sent again.
    pub(crate) fn suspects(&self) -> Option<(Psn, Psn)> {
        let some = self.resent_until.is_before(self.lost_until);
        some.then_some((self.resent_until, self.lost_until))
    }

    /// All lost packets have been sent again.
    pub(crate) fn all_resent(&mut self) {
        self.resent_until = self.lost_until;
    }

    /// `packets` packets from `psn` on are sent again, of which the first `lost` count as lost: those of one READ request, or one
    /// packet, which may be answered with data, too.
    pub(crate) fn resent(
        &mut self,
        moment: &Moment,
        psn: Psn,
        [packets, lost]: [u32; 2],
        is_answered: bool,
    ) {
        let end = psn.plus(packets);
        if end.is_after(self.resent_until) {
            self.resent_until = end;
        }
        if self.resent.is_empty() {
            self.resent.resize(OUT_OF_ORDER_PACKETS_MAX as usize, None);
        }
        // A later repetition comes before the same new packet or a later one.
        self.resent_before.get_or_insert(moment.top);
        self.resends = self.resends.saturating_add(1);
        let number = NonZeroU32::MIN.saturating_add(self.resends);
        let (before, at) = (moment.top, moment.now);
        for distance in 0..packets {
            let is_loss = distance < lost;
            let place = Place { before, number, at, is_loss, is_answered };
            self.resent[index(psn.plus(distance))] = Some(place);
        }
    }

    /// `packets` packets from `psn` on are sent again, to hear of them, or their first answers are on the way. Whatever
    /// is heard of them answers this.
    pub(crate) fn probed(&mut self, moment: &Moment, psn: Psn, packets: u32) {
        let resent_until = self.resent_until;
        self.resent(&Moment { now: Time::ZERO, ..*moment }, psn, [packets, 0], true);
        self.resent_until = resent_until;
    }

    /// Whether the packet `psn` is to be sent again, if it is lost and before [`Self::suspects`]' end.
    pub(crate) fn is_wanted(&self, psn: Psn, is_answered: bool) -> bool {
        // Responses of a request that has arrived are under way.
        let is_due = psn.is_before(self.due_until) || !self.is_being_answered(psn);
        self.is_missing(psn, is_answered) && is_due && !self.is_resent(psn)
    }

    /// Whether the packet `psn` is not known to have arrived; of a READ or an atomic, the response.
    pub(crate) fn is_missing(&self, psn: Psn, is_answered: bool) -> bool {
        if psn.is_before(self.executed_until) || psn.is_before(self.awaited_until) {
            let is_answered = is_answered && !mutated(Mutation::AnswerNotAskedAgain);
            return is_answered && !self.responses.has(psn);
        }
        !self.has_arrived(psn)
    }

    /// Marks `psn`, which was sent last, as lost.
    pub(crate) fn lose(&mut self, psn: Psn) {
        self.unmark(psn);
        self.clear(psn);
        if psn.is_before(self.resent_until) {
            self.resent_until = psn;
        }
        if !psn.is_before(self.lost_until) {
            self.lost_until = psn.next();
        }
    }
}

/// The place of a PSN in a ring of [`OUT_OF_ORDER_PACKETS_MAX`]: no more than that are outstanding.
fn index(psn: Psn) -> usize {
    (psn.value() % OUT_OF_ORDER_PACKETS_MAX) as usize
}

/// The word of a PSN's bit, and the bit.
fn place(psn: Psn) -> (usize, u64) {
    (index(psn) / 64, 1 << (index(psn) % 64))
}
