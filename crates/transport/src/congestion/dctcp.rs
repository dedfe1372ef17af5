//! DCTCP: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, and RFC 8257.
//!
//! ```text
//!   window  ╱│   ╱│   ╱│      a mark: the window falls by alpha / 2, once in a window of data
//!          ╱ │  ╱ │  ╱ │
//!         ╱  │ ╱  │ ╱  │      otherwise it grows by a packet in a window of data
//!   alpha ──────────────      the part of packets that is marked, averaged with gain g
//! ```
//!
//! The receiver echoes marks in its acknowledgements, in the BECN bit of their BTH, so both ends must
//! have this controller; it sends no CNPs. A mark is echoed once, and counts for all packets that the
//! acknowledgement is the first to cover: with an acknowledgement for each packet alpha is exact, with
//! one for several it is too large. A READ is answered by a sender that hears nothing; its requester
//! sees the marks, and what it asks for counts in its own window.
//!
//! A flow begins as TCP's do: its window doubles in each window of data, until the first mark.

use rdma::{Rate, Time};

use super::keys::{keys, order};
use super::{Conflict, Controller, Key, Progress};

/// A packet, and the alpha of 1.
const ONE: u64 = 1 << 16;

/// What a sender is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dctcp {
    /// g: the part of alpha that is new after each window of data, in 2^-10. The paper's is 1/16.
    pub gain: u16,
    /// The window of a flow that begins, in packets: ten in TCP (RFC 6928).
    pub initial_window: u32,
    /// What the window never falls below, in packets: two in TCP (RFC 5681).
    pub minimum_window: u32,
}

impl Dctcp {
    pub(super) const DEFAULT: Self = Self { gain: 64, initial_window: 10, minimum_window: 2 };

    pub(super) const KEYS: &'static [Key] = &keys! { Dctcp:
        gain: "gain_1024ths", 1..=1_024,
            "g: the part of alpha that is new after each window of data; 64 is the paper's 1/16.";
        initial_window: "initial_window_packets", 1..=1_000_000,
            "The window of a flow that begins; TCP's is ten (RFC 6928).";
        minimum_window: "min_window_packets", 1..=1_000_000,
            "What the window never falls below; TCP's is two (RFC 5681).";
    };

    pub(super) fn check(&self) -> Result<(), Conflict> {
        let Self { minimum_window, initial_window, .. } = *self;
        order(
            minimum_window <= initial_window,
            [
                ("min_window_packets", minimum_window.into()),
                ("initial_window_packets", initial_window.into()),
            ],
            "at most",
            "a flow begins with a window that it may have",
        )
    }
}

impl Default for Dctcp {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The controller of a sender. Windows are in 2^-16 packets.
#[derive(Clone, Debug)]
pub(crate) struct DctcpWindow {
    gain: u64,
    minimum: u64,
    window: u64,
    /// In 2^-16. It begins at 1, and falls while nothing is marked (RFC 8257, 3.3).
    alpha: u64,
    /// Whether nothing was marked or lost yet.
    is_starting: bool,
    /// Whether the window has fallen in this window of data.
    has_fallen: bool,
    /// Packets of this window of data that are not acknowledged.
    left: u64,
    /// Those that are.
    arrived: u64,
    /// Those that were marked.
    marked: u64,
}

impl DctcpWindow {
    /// Settings that make no sense are moved to the nearest that do.
    pub(crate) fn new(settings: &Dctcp) -> Self {
        let minimum = u64::from(settings.minimum_window.max(1)) * ONE;
        let window = (u64::from(settings.initial_window) * ONE).max(minimum);
        Self {
            gain: u64::from(settings.gain).clamp(1, 1 << 10),
            minimum,
            window,
            alpha: ONE,
            is_starting: true,
            has_fallen: false,
            left: window / ONE,
            arrived: 0,
            marked: 0,
        }
    }

    /// Lowers the window by `part` of itself, in 2^-16, once in a window of data.
    fn fall(&mut self, part: u64) {
        self.is_starting = false;
        if !core::mem::replace(&mut self.has_fallen, true) {
            self.window = (self.window - self.window * part / ONE).max(self.minimum);
        }
    }

    /// A window of data has arrived.
    fn end_window(&mut self) {
        let marked = self.marked * ONE / self.arrived.max(1);
        self.alpha = (self.alpha * ((1 << 10) - self.gain) + marked * self.gain) >> 10;
        (self.arrived, self.marked, self.has_fallen) = (0, 0, false);
        self.left = self.window / ONE;
    }
}

impl Controller for DctcpWindow {
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        None
    }

    fn on_acknowledgement(&mut self, _: Time, progress: &Progress) -> Option<Time> {
        let packets = u64::from(progress.packets);
        self.arrived += packets;
        if progress.is_marked {
            self.marked += packets;
            self.fall(self.alpha / 2);
        } else if progress.is_window_full && !self.has_fallen {
            let grown = if self.is_starting { ONE } else { ONE * ONE / self.window };
            self.window = self.window.saturating_add(packets * grown).min(WINDOW_MAX);
        }
        self.left = self.left.saturating_sub(packets);
        if self.left == 0 {
            self.end_window();
        }
        None
    }

    fn on_loss(&mut self, _: Time) {
        self.fall(ONE / 2);
    }

    fn window(&self, packet_bytes: u64) -> u64 {
        (self.window * packet_bytes) / ONE
    }
}

/// The sequence numbers that may be outstanding.
const WINDOW_MAX: u64 = ONE << 23;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(flow: &mut DctcpWindow, packets: u32, is_marked: bool) {
        let progress = Progress { packets, is_marked, is_window_full: true, ..Progress::default() };
        flow.on_acknowledgement(Time::ZERO, &progress);
    }

    fn packets(flow: &DctcpWindow) -> f64 {
        flow.window as f64 / ONE as f64
    }

    #[test]
    fn the_window_doubles_until_the_first_mark() {
        let mut flow = DctcpWindow::new(&Dctcp::default());
        for expected in [20.0, 40.0, 80.0] {
            for _ in 0..flow.window / ONE {
                arrive(&mut flow, 1, false);
            }
            assert_eq!(packets(&flow), expected);
        }
        arrive(&mut flow, 1, true);
        // Alpha has fallen by a sixteenth in each of three windows.
        let left = 80.0 * (1.0 - f64::powi(15.0 / 16.0, 3) / 2.0);
        assert!((packets(&flow) - left).abs() < 0.01, "{} of {left}", packets(&flow));
        // Once in a window of data, and it does not grow meanwhile.
        let before = flow.window;
        arrive(&mut flow, 1, true);
        arrive(&mut flow, 1, false);
        assert_eq!(flow.window, before);
    }

    #[test]
    fn alpha_follows_the_part_that_is_marked_and_a_cut_is_half_of_it() {
        let mut flow = DctcpWindow::new(&Dctcp { initial_window: 100, ..Dctcp::default() });
        // A tenth of each window is marked, at its end.
        for _ in 0..200 {
            flow.window = 100 * ONE;
            flow.left = 100;
            for index in 0..100 {
                arrive(&mut flow, 1, index >= 90);
            }
        }
        let alpha = flow.alpha as f64 / ONE as f64;
        assert!((alpha - 0.1).abs() < 0.001, "{alpha}");
        flow.window = 100 * ONE;
        arrive(&mut flow, 1, true);
        assert!((packets(&flow) - 95.0).abs() < 0.1, "{}", packets(&flow));
    }

    #[test]
    fn a_flow_that_does_not_fill_its_window_has_no_larger_one() {
        let mut flow = DctcpWindow::new(&Dctcp::default());
        for _ in 0..1_000 {
            flow.on_acknowledgement(Time::ZERO, &Progress { packets: 1, ..Progress::default() });
        }
        assert_eq!(packets(&flow), 10.0);
    }

    #[test]
    fn no_setting_and_no_packets_lead_below_the_least_or_out_of_range() {
        for settings in [
            Dctcp { gain: 0, initial_window: 0, minimum_window: 0 },
            Dctcp { gain: u16::MAX, initial_window: u32::MAX, minimum_window: u32::MAX },
        ] {
            let mut flow = DctcpWindow::new(&settings);
            for step in 0..10_000_u32 {
                arrive(&mut flow, step % 3 * 1_000, step % 7 == 0);
                flow.on_loss(Time::ZERO);
                assert!(flow.window(4_352) >= 4_352 && flow.alpha <= ONE);
            }
        }
    }
}
