//! How fast a queue pair may send.
//!
//! ```text
//!   data packet ──► network, queue above Kmin: CE ──► notification point
//!        ▲                                                 │ at most one CNP an interval
//!      pacer ◄── rate ── controller (reaction point) ◄─────┘
//! ```
//!
//! Each queue pair has a `Controller`, which says at what rate it may send, and a `Pacer`, which
//! keeps to that: the next data packet leaves when the one before it has, at that rate, been sent.
//! Requests and READ responses are data packets: the sender of data slows down. Acknowledgements
//! and CNPs are neither paced nor counted.
//!
//! A controller may also say how much may be in flight, a window, and hear what acknowledgements tell:
//!
//! ```text
//!   request, acknowledgement asked for ──► time of sending kept ──► round trip when it is there
//!   marked request  ──► BECN of the next acknowledgement ──┐
//!   marked READ response ──────────────────────────────────┴─► controller of the requester
//! ```
//!
//! What switches write into data packets comes to it in the same two ways ([`Telemetry`]).
//!
//! **Invariants:** rates are integers, the same on every machine, and never zero. A controller owns
//! no timer: when asked it catches up with `now`, in bounded time however late it is.
//!
//! Our controllers are a closed list, [`Congestion`]; one of somebody else's is a [`ControllerKind`]
//! (`custom.rs`).

mod bbr;
mod custom;
mod dcqcn;
mod dctcp;
mod fixed;
mod folder;
mod hpcc;
mod keys;
mod none;
mod parameters;
mod settings;
mod swift;
mod telemetry;
mod timely;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;

use rdma::{Mtu, Psn, QpType, Rate, Span, Time};

pub use bbr::Bbr;
use bbr::BbrWindow;
pub use custom::{ControllerKind, Custom, Marks};
pub(crate) use dcqcn::{NotificationPoint, ReactionPoint};
pub use dctcp::Dctcp;
use dctcp::DctcpWindow;
use fixed::Fixed;
pub use folder::{Folder, FolderError, FolderNote, read_folder};
pub use hpcc::Hpcc;
use hpcc::HpccWindow;
pub use keys::{Conflict, Key};
use none::Unlimited;
pub use parameters::{PARAMETERS, Parameter};
pub use settings::{Dcqcn, Notification, Settings, Share, Volume};
pub use swift::Swift;
use swift::SwiftWindow;
pub use telemetry::{Hop, Telemetry};
pub use timely::Timely;
use timely::TimelyRate;

use crate::limits::{
    LINK_HEADER_BYTES, PACED_BATCH_BYTES, PACED_BATCH_TIME, PACKET_OVERHEAD_BYTES, ROUND_TRIPS_MAX,
};
use crate::mutation::{Mutation, mutated};

/// Decides how fast one queue pair may send. One that says no more than a rate ignores the network.
///
/// Its queue pair calls it, with a `now` that never goes back. What is said of rate, pace and
/// window counts from the next packet on, so a controller may change its mind in any of these calls.
pub trait Controller: fmt::Debug + Send {
    /// A data packet of `bytes` on the wire leaves. Returns at what rate it is to be counted, or
    /// `None` for no limit.
    fn on_sent(&mut self, now: Time, bytes: u64) -> Option<Rate>;

    /// A CNP has arrived. Returns whether the controller obeys it.
    fn on_cnp(&mut self, _now: Time) -> bool {
        false
    }

    /// A loss has been noticed. It is called once for each, however many packets are sent again.
    fn on_loss(&mut self, _now: Time) {}

    /// Nothing has come for so long that all that was sent counts as lost.
    fn on_timeout(&mut self) {}

    /// Something that was not acknowledged before is.
    fn on_progress(&mut self, _now: Time) {}

    /// The same, with what it tells of the network, if the controller has a use for that (`Congestion::listens`).
    /// Returns before when no data packet is to leave, if there is such a time.
    fn on_acknowledgement(&mut self, _now: Time, _progress: &Progress) -> Option<Time> {
        None
    }

    /// Packets behind a gap have arrived, which is no progress but tells as much.
    fn on_arrival_behind_a_gap(&mut self, _now: Time, _progress: &Progress) {}

    /// So many packets were lost, and are sent again.
    fn on_repetition(&mut self, _packets: u32) {}

    /// What switches have written into a packet of this queue pair: one that an acknowledgement tells of, or
    /// a READ response. The acknowledgement follows.
    fn on_telemetry(&mut self, _telemetry: Telemetry, _is_of_response: bool) {}

    /// How many bytes may be in flight, where a full packet counts as `packet_bytes`.
    fn window(&self, _packet_bytes: u64) -> u64 {
        u64::MAX
    }

    /// At what rate what is in the window is to leave, where a full packet counts as `packet_bytes`; `None` for
    /// at once.
    fn pace(&self, _packet_bytes: u64) -> Option<Rate> {
        None
    }

    /// The rate that [`Controller::on_sent`] last counted by, if there is one.
    fn rate(&self) -> Option<Rate> {
        None
    }
}

/// What an acknowledgement, or a response, tells a requester of the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Packets that were not acknowledged before.
    pub packets: u32,
    /// Their payload, if they were full.
    pub bytes: u64,
    /// Packets that were sent, and are not acknowledged yet.
    pub under_way: u32,
    /// From sending the last request that asked for an acknowledgement and has one now until now; `None`
    /// if there is none, or packets were repeated.
    pub round_trip: Option<Span>,
    /// All packets that have arrived, also behind gaps, since the queue pair was made.
    pub delivered: u64,
    /// As many when the packet was sent whose round trip this is.
    pub delivered_when_sent: u64,
    /// Whether one of them was marked.
    pub is_marked: bool,
    /// Whether more would have been sent if the window were larger.
    pub is_window_full: bool,
}

/// Which controller the queue pairs of a device have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// No limit but the window.
    #[default]
    None,
    /// A constant rate.
    Fixed(Rate),
    /// DCQCN, with these settings.
    Dcqcn(Dcqcn),
    /// A window as in DCTCP, with these settings.
    Dctcp(Dctcp),
    /// A rate as in TIMELY, with these settings.
    Timely(Timely),
    /// A window as in Swift, with these settings.
    Swift(Swift),
    /// A window and a rate as in HPCC, with these settings.
    Hpcc(Hpcc),
    /// A window after BBR, with these settings.
    Bbr(Bbr),
    /// A controller that is not of this crate, with its settings.
    Custom(Custom),
}

impl Congestion {
    /// The controllers that have settings other than DCQCN's, by name, as they are by default.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("dctcp", Self::Dctcp(Dctcp::DEFAULT)),
        ("timely", Self::Timely(Timely::DEFAULT)),
        ("swift", Self::Swift(Swift::DEFAULT)),
        ("hpcc", Self::Hpcc(Hpcc::DEFAULT)),
        ("bbr", Self::Bbr(Bbr::DEFAULT)),
    ];

    /// The name of the controller.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed(_) => "fixed",
            Self::Dcqcn(_) => "dcqcn",
            Self::Dctcp(_) => "dctcp",
            Self::Timely(_) => "timely",
            Self::Swift(_) => "swift",
            Self::Hpcc(_) => "hpcc",
            Self::Bbr(_) => "bbr",
            Self::Custom(custom) => custom.kind().name(),
        }
    }

    /// The settings of the controller; none of DCQCN, and none of one that is [`Custom`], which has its own.
    pub fn keys(&self) -> &'static [Key] {
        match self {
            Self::None | Self::Fixed(_) | Self::Dcqcn(_) | Self::Custom(_) => &[],
            Self::Dctcp(_) => Dctcp::KEYS,
            Self::Timely(_) => Timely::KEYS,
            Self::Swift(_) => Swift::KEYS,
            Self::Hpcc(_) => Hpcc::KEYS,
            Self::Bbr(_) => Bbr::KEYS,
        }
    }

    /// Whether the settings of a controller agree with each other, and with the line rate.
    ///
    /// # Errors
    /// The first two that do not.
    pub fn check(&self) -> Result<(), Conflict> {
        match self {
            Self::None | Self::Fixed(_) | Self::Custom(_) => Ok(()),
            Self::Dcqcn(settings) => settings.check(),
            Self::Dctcp(settings) => settings.check(),
            Self::Timely(settings) => settings.check(),
            Self::Swift(settings) => settings.check(),
            Self::Hpcc(settings) => settings.check(),
            Self::Bbr(settings) => settings.check(),
        }
    }

    /// The controller that a queue pair of `kind` gets. A CNP names a connection, so datagrams have no
    /// DCQCN, and without acknowledgements there is no window.
    fn of(self, kind: QpType) -> Self {
        let is_heard = if self.listens() { kind.is_reliable() } else { kind.is_connected() };
        if is_heard || matches!(self, Self::Fixed(_)) { self } else { Self::None }
    }

    fn controller(&self) -> Box<dyn Controller> {
        match self {
            Self::None => Box::new(Unlimited),
            Self::Fixed(rate) => Box::new(Fixed::new(*rate)),
            Self::Dcqcn(settings) => Box::new(ReactionPoint::new(settings)),
            Self::Dctcp(settings) => Box::new(DctcpWindow::new(settings)),
            Self::Timely(settings) => Box::new(TimelyRate::new(settings)),
            Self::Swift(settings) => Box::new(SwiftWindow::new(settings)),
            Self::Hpcc(settings) => Box::new(HpccWindow::new(settings)),
            Self::Bbr(settings) => Box::new(BbrWindow::new(settings)),
            Self::Custom(custom) => custom.controller(),
        }
    }

    /// The same at a port of rate `line`.
    #[must_use]
    pub fn at_rate(mut self, line: Rate) -> Self {
        match &mut self {
            Self::Dcqcn(Dcqcn { line_rate, .. })
            | Self::Timely(Timely { line_rate, .. })
            | Self::Hpcc(Hpcc { line_rate, .. })
            | Self::Custom(Custom { line_rate, .. }) => *line_rate = line,
            Self::None | Self::Fixed(_) | Self::Dctcp(_) | Self::Swift(_) | Self::Bbr(_) => {}
        }
        self
    }

    /// Whether there may ever be a rate to keep to.
    fn has_rate(&self) -> bool {
        matches!(
            self,
            Self::Fixed(_) | Self::Dcqcn(_) | Self::Timely(_) | Self::Hpcc(_) | Self::Custom(_)
        )
    }

    /// Whether it hears what acknowledgements tell.
    fn listens(&self) -> bool {
        !matches!(self, Self::None | Self::Fixed(_) | Self::Dcqcn(_))
    }

    /// Whether a receiver tells of marks in its acknowledgements, and not by CNPs.
    pub(crate) fn echoes_marks(&self) -> bool {
        match self {
            Self::Custom(custom) => custom.kind().marks() == Marks::Echoed,
            other => matches!(other, Self::Dctcp(_)),
        }
    }

    /// Whether it obeys marks, so that data packets carry ECT(0) and may be marked (RFC 3168).
    pub fn obeys_marks(&self) -> bool {
        match self {
            Self::Custom(custom) => custom.kind().marks() != Marks::Ignored,
            other => matches!(other, Self::Dcqcn(_) | Self::Dctcp(_)),
        }
    }

    /// Whether it needs what switches write into data packets ([`Telemetry::is_for`]), and a receiver that
    /// echoes it.
    pub fn needs_telemetry(&self) -> bool {
        match self {
            Self::Custom(custom) => custom.kind().has_telemetry(),
            other => matches!(other, Self::Hpcc(_)),
        }
    }
}

/// A request that an acknowledgement was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The PSN behind it.
    end: Psn,
    /// When it was sent.
    at: Time,
    /// How many packets had arrived by then.
    delivered: u64,
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
    /// At what rate that is to leave, in batches, and when all that has left would have at that rate.
    pace: Option<Rate>,
    paced_until: Time,
    is_batch_full: bool,
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
    pace.time_of(PACED_BATCH_BYTES).max(PACED_BATCH_TIME)
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
            paced_until: Time::ZERO,
            is_batch_full: false,
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

    /// Requests are sent from now on, in packets of `mtu`.
    pub(crate) fn begin(&mut self, mtu: Mtu) {
        self.packet_bytes = u64::from(mtu.bytes()) + PACKET_OVERHEAD_BYTES;
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
    pub(crate) fn asked(&mut self, now: Time, end: Psn) {
        if self.measures && self.asked.len() < ROUND_TRIPS_MAX {
            self.asked.push_back(Asked { end, at: now, delivered: self.delivered });
        }
    }

    /// So many packets from `psn` on are lost, and sent again: what answers them tells nothing of the round trip
    /// (Karn's rule).
    pub(crate) fn repeated(&mut self, psn: Psn, packets: u32) {
        self.probed = None;
        self.forget_round_trips(psn, packets);
        self.controller.on_repetition(packets);
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

    /// When a request may leave, if not now: once a batch is full, when there is room for half of one, so that
    /// a driver that comes often does not send packets one by one.
    #[inline]
    pub(crate) fn batch_held_until(&mut self, now: Time) -> Option<Time> {
        let pace = self.pace?;
        let batch = batch_time(pace);
        let ahead = self.paced_until.since(now);
        let half = Span::from_ps(batch.as_ps() / 2);
        self.is_batch_full = ahead > if self.is_batch_full { half } else { batch };
        self.is_batch_full.then(|| self.paced_until - half)
    }

    /// Bytes of the window that may leave at once.
    #[inline]
    pub(crate) fn batch_bytes(&self, now: Time) -> u64 {
        let Some(pace) = self.pace else { return u64::MAX };
        let batch = batch_time(pace);
        let left = batch.as_ps().saturating_sub(self.paced_until.since(now).as_ps());
        let bits = u128::from(left) * u128::from(pace.as_bps()) / 1_000_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// So many packets leave that each take as many bytes of the window.
    #[inline]
    pub(crate) fn spend(&mut self, now: Time, bytes: u64, packets: u32) {
        if let Some(pace) = self.pace {
            self.paced_until = self.paced_until.max(now) + pace.time_of(bytes) * packets.into();
        }
    }

    /// The last so many have not left after all.
    pub(crate) fn take_back(&mut self, bytes: u64, packets: u32) {
        if let Some(pace) = self.pace {
            self.paced_until = self.paced_until - pace.time_of(bytes) * packets.into();
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
    ) -> Option<Span> {
        if self.is_limited {
            self.controller.on_progress(now);
        }
        if !self.measures {
            return None;
        }
        self.acknowledged += u64::from(packets);
        self.note_delivered(behind);
        let (round_trip, delivered_when_sent) = self.round_trip_to(now, unacked);
        if let Some(probed) = self.probed.take_if(|probed| !probed.end.is_after(unacked)) {
            self.doubtful = Some(now.since(probed.at));
        }
        if self.listens {
            let payload = self.packet_bytes.saturating_sub(PACKET_OVERHEAD_BYTES);
            let bytes = u64::from(packets) * payload;
            let is_marked = core::mem::take(&mut self.is_marked);
            let progress = Progress {
                packets,
                bytes,
                under_way,
                round_trip,
                delivered: self.delivered,
                delivered_when_sent,
                is_marked,
                is_window_full,
            };
            if let Some(next) = self.controller.on_acknowledgement(now, &progress) {
                self.next = next;
            }
            self.set_window();
        }
        round_trip
    }

    /// The newest packet that has arrived, behind a gap, is the one before `end`; `behind` the gap, so many
    /// have. Returns its round trip.
    pub(crate) fn arrived_behind_a_gap(
        &mut self,
        now: Time,
        end: Psn,
        is_window_full: bool,
        behind: u32,
    ) -> Option<Span> {
        if !self.measures {
            return None;
        }
        self.note_delivered(behind);
        let (round_trip, delivered_when_sent) = self.round_trip_to(now, end);
        if self.listens {
            let delivered = self.delivered;
            let news = Progress { round_trip, delivered, delivered_when_sent, ..<_>::default() };
            let progress = Progress { is_window_full, ..news };
            self.controller.on_arrival_behind_a_gap(now, &progress);
            self.set_window();
        }
        round_trip
    }

    /// A peer that takes back what it said makes it no fewer.
    fn note_delivered(&mut self, behind: u32) {
        self.delivered = self.delivered.max(self.acknowledged + u64::from(behind));
    }

    /// The round trip of the last packet before `end` that asked for an acknowledgement, and how many had
    /// arrived when it was sent.
    fn round_trip_to(&mut self, now: Time, end: Psn) -> (Option<Span>, u64) {
        let (mut round_trip, mut delivered) = (None, 0);
        while let Some(asked) = self.asked.front()
            && !asked.end.is_after(end)
        {
            (round_trip, delivered) = (Some(now.since(asked.at)), asked.delivered);
            self.asked.pop_front();
        }
        (round_trip, delivered)
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
    fn each_setting_is_its_own_and_comes_back_as_it_was_set() {
        for (name, default) in Congestion::NAMED {
            assert_eq!(name, default.name());
            for key in default.keys() {
                assert!(key.range.contains(&key.get(&default)), "{name}.{}", key.key);
                for value in [*key.range.start(), *key.range.end()] {
                    let mut congestion = default;
                    key.set(&mut congestion, value);
                    assert_eq!(key.get(&congestion), value, "{name}.{}", key.key);
                    for other in default.keys().iter().filter(|other| other.key != key.key) {
                        assert_eq!(other.get(&congestion), other.get(&default), "{}", other.key);
                    }
                }
            }
        }
    }

    #[test]
    fn a_flow_of_dcqcn_cannot_have_more_at_least_than_at_most() {
        let mbps = |mbps| Rate::from_mbps(mbps);
        let told = |least: Share, most, line| {
            let of = Dcqcn {
                line_rate: mbps(line),
                minimum_rate: least,
                maximum_rate: most,
                ..Dcqcn::scaled()
            };
            Congestion::Dcqcn(of).check().map_err(|conflict| conflict.problem)
        };
        let fixed = |rate| Share::Fixed(mbps(rate));
        assert_eq!(told(fixed(1_000), Some(mbps(1_000)), 100_000), Ok(()));
        assert_eq!(told(Share::OfLine(400), Some(mbps(250)), 100_000), Ok(()));
        for (least, most, line, said) in [
            (
                fixed(1_000),
                Some(mbps(10)),
                100_000,
                "min_mbps = 1000 must be at most max_mbps = 10",
            ),
            (
                Share::OfLine(400),
                Some(mbps(10)),
                400_000,
                "min_mbps = 1000 must be at most max_mbps = 10",
            ),
            (fixed(500_000), None, 400_000, "min_mbps = 500000 must be at most line_mbps = 400000"),
            (fixed(50), Some(mbps(60)), 40, "min_mbps = 50 must be at most line_mbps = 40"),
        ] {
            assert_eq!(told(least, most, line), Err(said.into()));
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_told_by_name_and_equal_ones_are_not() {
        for (controller, said, keys) in [
            (
                0,
                &[("min_window_packets", 11)][..],
                ["min_window_packets", "initial_window_packets"],
            ),
            (1, &[("t_low_us", 501)], ["t_low_us", "t_high_us"]),
            (1, &[("min_mbps", 40_001)], ["min_mbps", "line_mbps"]),
            (
                2,
                &[("fs_min_cwnd_1000ths", 100_000)],
                ["fs_min_cwnd_1000ths", "fs_max_cwnd_packets"],
            ),
            (
                2,
                &[("min_cwnd_1000ths", 10_001), ("max_cwnd_packets", 10)],
                ["min_cwnd_1000ths", "max_cwnd_packets"],
            ),
            (2, &[("min_cwnd_1000ths", 10_001)], ["min_cwnd_1000ths", "initial_window_packets"]),
            (2, &[("max_cwnd_packets", 9)], ["initial_window_packets", "max_cwnd_packets"]),
            (3, &[("w_ai_bytes", 65_001)], ["w_ai_bytes", "t_ns"]),
            (4, &[("min_window_packets", 11)], ["min_window_packets", "initial_window_packets"]),
            (4, &[("max_window_packets", 9)], ["initial_window_packets", "max_window_packets"]),
        ] {
            // What is one less, or more, is right.
            for (is_wrong, nearer) in [(true, 0), (false, 1)] {
                let (_, mut congestion) = Congestion::NAMED[controller];
                for (name, value) in said {
                    let key = congestion.keys().iter().find(|key| key.key == *name).unwrap();
                    let is_high = *value < key.get(&congestion);
                    key.set(&mut congestion, if is_high { value + nearer } else { value - nearer });
                }
                let told = congestion.check().map_err(|conflict| conflict.keys);
                assert_eq!(told, if is_wrong { Err(keys) } else { Ok(()) }, "{said:?}");
            }
        }
        assert!(Congestion::NAMED.iter().all(|(_, default)| default.check().is_ok()));
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
        pacer.begin(Mtu::B1024);
        assert_eq!(pacer.window_bytes(), 0);
        pacer.asked(us(10), Psn::new(5));
        pacer.asked(us(20), Psn::new(9));
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
    fn without_a_rate_nothing_is_held_back() {
        let mut pacer = Pacer::new(&Congestion::None, QpType::Rc, u64::MAX);
        assert_eq!(leave(&mut pacer, us(1), Span::ZERO), 100);
        assert_eq!(pacer.paces_until(), None);
    }
}
