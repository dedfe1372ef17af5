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
mod ceiling;
mod curve;
mod custom;
mod dcqcn;
mod dctcp;
mod depth;
mod fixed;
mod folder;
mod hpcc;
mod jitter;
mod keys;
mod level;
mod none;
mod others;
mod pacer;
mod parameters;
mod settings;
mod swift;
mod telemetry;
mod timely;

use alloc::boxed::Box;
use core::fmt;

use rdma::{QpType, Rate, Span, Time};

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
pub(crate) use pacer::{Pacer, RoundTrip};
pub use parameters::{PARAMETERS, Parameter};
pub use settings::{Dcqcn, Notification, Settings, Share, Volume};
pub use swift::Swift;
use swift::SwiftWindow;
pub use telemetry::{Hop, Telemetry};
pub use timely::Timely;
use timely::TimelyRate;

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

    /// So many packets that were sent again had not been lost, but late.
    fn on_late(&mut self, _packets: u32) {}

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
    /// That of the oldest packet that it tells of: the path is no longer than that, even if acknowledgements overtake each
    /// other. `None` if the packet itself has overtaken others.
    pub oldest_round_trip: Option<Span>,
    /// Whether `round_trip` is of a READ response that waited behind others of one request, which the peer sends at once: what
    /// it took longer than the path takes is no queue of others.
    pub is_last_of_many: bool,
    /// How much later a packet has arrived than one that was sent after it, which no queue makes it.
    pub late_by: Span,
    /// All packets that have arrived, also behind gaps, since the queue pair was made.
    pub delivered: u64,
    /// As many when the packet was sent whose round trip this is.
    pub delivered_when_sent: u64,
    /// What a full packet takes on the wire.
    pub packet_bytes: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
