//! Controllers that are not of this crate: what one says of itself, and what is kept of its promises.
//!
//! ```text
//!   static KIND: ControllerKind ─► Custom (KIND, its settings, the line rate) ─► Congestion::Custom
//!                                   └─ make, for each queue pair ─► Bounded(controller) ─► Pacer
//! ```
//!
//! A kind is a `static`, so that what chooses a controller stays as small and as easy to copy as for ours.
//! Its controllers are called through the same table of functions as ours.
//!
//! **Invariant:** whatever such a controller answers, the queue pair goes on: a rate below
//! [`RATE_LEAST`] counts as that, a window of less than a packet as a packet, and nothing is held back for
//! longer than [`HELD_MOST`] at a time.

use alloc::boxed::Box;
use core::fmt;

use rdma::{Rate, Setting, Span, Time, Values};

use super::{Controller, Progress, Telemetry};

/// A slower rate counts as this one, at which a packet of 4 KiB takes half a minute.
const RATE_LEAST: Rate = Rate::from_bps(1_000);
/// A controller that wants nothing sent before a time waits for so long at most.
const HELD_MOST: Span = Span::from_ms(1_000);

/// How a sender hears that a switch has marked its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Marks {
    /// It does not, and its packets cannot be marked.
    #[default]
    Ignored,
    /// By a CNP of the receiver, as DCQCN does ([`Controller::on_cnp`]).
    Notified,
    /// In the acknowledgement, as DCTCP does ([`Progress::is_marked`]).
    Echoed,
}

/// A kind of controller, which a `static` of its crate describes.
pub struct ControllerKind {
    name: &'static str,
    about: &'static str,
    settings: &'static [Setting],
    marks: Marks,
    telemetry: bool,
    make: fn(&Custom) -> Box<dyn Controller>,
}

impl ControllerKind {
    /// A controller called `name`, which `make` makes for each queue pair.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        make: fn(&Custom) -> Box<dyn Controller>,
    ) -> Self {
        Self { name, about, settings: &[], marks: Marks::Ignored, telemetry: false, make }
    }

    /// It can be set to these.
    #[must_use]
    pub const fn with_settings(mut self, settings: &'static [Setting]) -> Self {
        self.settings = settings;
        self
    }

    /// It hears of marks in this way.
    #[must_use]
    pub const fn with_marks(mut self, marks: Marks) -> Self {
        self.marks = marks;
        self
    }

    /// It needs what switches write into packets ([`Controller::on_telemetry`]), at both ends.
    #[must_use]
    pub const fn with_telemetry(mut self) -> Self {
        self.telemetry = true;
        self
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, in a sentence.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// What it can be set to.
    pub const fn settings(&self) -> &'static [Setting] {
        self.settings
    }

    pub(super) const fn marks(&self) -> Marks {
        self.marks
    }

    pub(super) const fn has_telemetry(&self) -> bool {
        self.telemetry
    }
}

impl fmt::Debug for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControllerKind({:?})", self.name)
    }
}

/// A controller of a kind, as it is set.
#[derive(Clone, Copy, Debug)]
pub struct Custom {
    kind: &'static ControllerKind,
    pub(super) line_rate: Rate,
    /// What it is set to.
    pub values: Values,
}

impl Custom {
    /// One of `kind`, set as it is by default, at a port of 100 Gb/s ([`super::Congestion::at_rate`] says another).
    pub fn new(kind: &'static ControllerKind) -> Self {
        Self { kind, line_rate: Rate::from_gbps(100), values: Values::of(kind.settings) }
    }

    /// Of which kind it is.
    pub fn kind(&self) -> &'static ControllerKind {
        self.kind
    }

    /// The number that a setting has.
    pub fn get(&self, setting: &Setting) -> u64 {
        self.values.get(setting)
    }

    /// The rate of the port: of the host's own link.
    pub fn line_rate(&self) -> Rate {
        self.line_rate
    }

    pub(super) fn controller(&self) -> Box<dyn Controller> {
        Box::new(Bounded((self.kind.make)(self)))
    }
}

/// Kinds are the same if they have one name: two of a name are never known at a time.
impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        (self.kind.name, self.line_rate, self.values)
            == (other.kind.name, other.line_rate, other.values)
    }
}

impl Eq for Custom {}

/// Keeps a controller within the bounds of the module.
#[derive(Debug)]
struct Bounded(Box<dyn Controller>);

fn bounded(rate: Option<Rate>) -> Option<Rate> {
    rate.map(|rate| rate.max(RATE_LEAST))
}

impl Controller for Bounded {
    fn on_sent(&mut self, now: Time, bytes: u64) -> Option<Rate> {
        bounded(self.0.on_sent(now, bytes))
    }

    fn on_cnp(&mut self, now: Time) -> bool {
        self.0.on_cnp(now)
    }

    fn on_loss(&mut self, now: Time) {
        self.0.on_loss(now);
    }

    fn on_timeout(&mut self) {
        self.0.on_timeout();
    }

    fn on_progress(&mut self, now: Time) {
        self.0.on_progress(now);
    }

    fn on_acknowledgement(&mut self, now: Time, progress: &Progress) -> Option<Time> {
        self.0.on_acknowledgement(now, progress).map(|until| until.min(now + HELD_MOST))
    }

    fn on_arrival_behind_a_gap(&mut self, now: Time, progress: &Progress) {
        self.0.on_arrival_behind_a_gap(now, progress);
    }

    fn on_repetition(&mut self, packets: u32) {
        self.0.on_repetition(packets);
    }

    fn on_late(&mut self, packets: u32) {
        self.0.on_late(packets);
    }

    fn on_telemetry(&mut self, telemetry: Telemetry, is_of_response: bool) {
        self.0.on_telemetry(telemetry, is_of_response);
    }

    fn window(&self, packet_bytes: u64) -> u64 {
        self.0.window(packet_bytes).max(packet_bytes)
    }

    fn pace(&self, packet_bytes: u64) -> Option<Rate> {
        bounded(self.0.pace(packet_bytes))
    }

    fn rate(&self) -> Option<Rate> {
        bounded(self.0.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Congestion, Pacer};
    use rdma::{Psn, QpType};

    /// Answers as if to stop its queue pair for ever.
    #[derive(Debug)]
    struct Stubborn;

    impl Controller for Stubborn {
        fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
            Some(Rate::ZERO)
        }

        fn on_acknowledgement(&mut self, _: Time, _: &Progress) -> Option<Time> {
            Some(Time::from_ps(u64::MAX))
        }

        fn window(&self, _: u64) -> u64 {
            0
        }
    }

    const PART: Setting = Setting::new("part_1000ths", 1..=1_000, 7, "A part.");
    static STUBBORN: ControllerKind =
        ControllerKind::new("stubborn", "Stops.", |_| Box::new(Stubborn))
            .with_settings(&[PART])
            .with_marks(Marks::Echoed);

    #[test]
    fn a_controller_that_wants_to_stop_a_queue_pair_for_ever_only_slows_it_down() {
        let congestion = Congestion::Custom(Custom::new(&STUBBORN));
        let mut pacer = Pacer::new(&congestion, QpType::Rc, 1 << 20);
        pacer.begin(4096);
        assert!(pacer.window_bytes() >= 4_096);
        let now = Time::ZERO + Span::from_us(1);
        pacer.sent(now, 4_096, Span::ZERO);
        let held = pacer.held_until(now).map(|until| until.since(now));
        assert!(held.is_some_and(|held| held < Span::from_ms(60_000)), "{held:?}");
        pacer.on_progress(now, Psn::new(1), [1, 0, 0], false);
        assert_eq!(pacer.held_until(now), Some(now + HELD_MOST));
    }

    #[test]
    fn what_a_kind_says_of_itself_is_what_its_device_does() {
        let mut custom = Custom::new(&STUBBORN);
        assert_eq!(custom.get(&PART), 7);
        custom.values.set(&PART, 9);
        let congestion = Congestion::Custom(custom).at_rate(Rate::from_gbps(25));
        let Congestion::Custom(at_port) = congestion else { panic!() };
        assert_eq!((at_port.get(&PART), at_port.line_rate()), (9, Rate::from_gbps(25)));
        assert_eq!((congestion.name(), congestion.obeys_marks()), ("stubborn", true));
        assert!(congestion.echoes_marks() && !congestion.needs_telemetry());
        assert_ne!(congestion, Congestion::Custom(custom));
        // A datagram has no acknowledgements to hear of.
        assert!(!Pacer::new(&congestion, QpType::Ud, 1 << 20).is_controlled());
    }
}
