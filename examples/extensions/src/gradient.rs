//! A congestion controller: additive increase, multiplicative decrease, on how round trips change.
//!
//! ```text
//!   shortest round trip of the last round, once a round trip
//!        │        too long, and no shorter than in the round before    window x (1 - decrease)
//!        │ ───────────────────────────────────────── shortest ever + room
//!        │        too long, but falling: the queue drains already      as it is
//!        │        short enough                                         window + increase
//! ```
//!
//! A round trip is too long for as long as the queue stands, which a sender that cuts its window at every
//! long one answers several times: the queue runs empty, and the link stands idle. The sign of the gradient says
//! whether the last cut was enough. The room is a time and not a part of the shortest round trip: so flows from near
//! and far aim at the same queue, and share it. A flow that begins with a large window finds the queue that it makes
//! itself, and takes it for the shortest round trip: so it begins with a packet.
//!
//! What is absent: a rate within the window (what fits into it leaves at once), and a window of less than a packet
//! (the engine sends one at a time whatever a controller says), so that many senders share a short queue.

use fabric::extend::{Controller, ControllerKind, Custom, Progress, Setting};
use rdma::{Rate, Span, Time};

const INITIAL: Setting =
    Setting::new("initial_packets", 1..=65_536, 1, "The window of a queue pair that begins.");
const INCREASE: Setting =
    Setting::new("increase_packets", 1..=1_000, 4, "By how much a window grows in a round trip.");
const DECREASE: Setting = Setting::new(
    "decrease_1000ths",
    1..=999,
    500,
    "Which part of it is lost where round trips are too long, and do not fall.",
);
const ROOM: Setting = Setting::new(
    "room_ns",
    1..=10_000_000,
    8_000,
    "Round trips may be longer than the shortest by this.",
);

/// What is registered.
pub static GRADIENT: ControllerKind = ControllerKind::new(
    "gradient",
    "AIMD on the gradient of round trips: what gradient's windows are set to.",
    |custom| Box::new(Gradient::new(custom)),
)
.with_settings(&[INITIAL, INCREASE, DECREASE, ROOM]);

/// In which a window is counted: thousandths of a packet.
const PACKET: u64 = 1_000;

/// The controller of one queue pair.
#[derive(Debug)]
struct Gradient {
    increase: u64,
    decrease: u64,
    room: Span,
    /// In thousandths of a packet.
    window: u64,
    /// The shortest round trip of all.
    shortest: Span,
    /// The shortest of the round before, and of this one so far.
    before: Span,
    now: Span,
    /// The round is over when a packet is acknowledged that was sent when so many had arrived.
    over_at: u64,
}

/// Longer than every round trip.
const NEVER: Span = Span::from_ps(u64::MAX);

impl Gradient {
    fn new(custom: &Custom) -> Self {
        Self {
            increase: custom.get(&INCREASE) * PACKET,
            decrease: custom.get(&DECREASE),
            room: Span::from_ns(custom.get(&ROOM)),
            window: custom.get(&INITIAL) * PACKET,
            shortest: NEVER,
            before: NEVER,
            now: NEVER,
            over_at: 0,
        }
    }

    /// A round is over. `wants_more` if the window was in the way.
    fn change(&mut self, wants_more: bool) {
        if self.now <= self.shortest + self.room {
            // A window that nobody fills says nothing of the network.
            self.window += if wants_more { self.increase } else { 0 };
        } else if self.now >= self.before {
            self.shrink(self.decrease);
        }
        self.before = self.now;
        self.now = NEVER;
    }

    fn shrink(&mut self, part: u64) {
        self.window = (self.window - self.window * part / 1_000).max(PACKET);
    }
}

impl Controller for Gradient {
    /// The window is the limit, and there is no rate.
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        None
    }

    fn on_acknowledgement(&mut self, _: Time, progress: &Progress) -> Option<Time> {
        if let Some(round_trip) = progress.round_trip {
            self.shortest = self.shortest.min(round_trip);
            self.now = self.now.min(round_trip);
            if progress.delivered_when_sent >= self.over_at {
                self.change(progress.is_window_full);
                self.over_at = progress.delivered;
            }
        }
        None
    }

    fn on_loss(&mut self, _: Time) {
        self.shrink(500);
    }

    fn on_timeout(&mut self) {
        self.window = PACKET;
    }

    fn window(&self, packet_bytes: u64) -> u64 {
        self.window * packet_bytes / PACKET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip of so many microseconds ends a round.
    fn hear(gradient: &mut Gradient, us: u64) -> u64 {
        let round_trip = Some(Span::from_us(us));
        let delivered = gradient.over_at + 1;
        let progress = Progress {
            packets: 1,
            round_trip,
            delivered,
            delivered_when_sent: delivered,
            is_window_full: true,
            ..Progress::default()
        };
        gradient.on_acknowledgement(Time::ZERO, &progress);
        gradient.window
    }

    #[test]
    fn a_window_grows_by_a_packet_shrinks_by_a_part_and_waits_while_the_queue_drains() {
        let mut custom = Custom::new(&GRADIENT);
        for (setting, number) in [(INITIAL, 16), (INCREASE, 1), (DECREASE, 200), (ROOM, 4_000)] {
            custom.values.set(&setting, number);
        }
        let mut gradient = Gradient::new(&custom);
        let windows = [10, 10, 14, 15, 30, 29, 20, 20, 14].map(|us| hear(&mut gradient, us));
        // Up to 14 us it grows. 15 us is too long, and 30 more so. 29 and 20 fall; 20 again does not.
        let expected = [17_000, 18_000, 19_000, 15_200, 12_160, 12_160, 12_160, 9_728, 10_728];
        assert_eq!(windows, expected);
        assert_eq!(gradient.window(1_000), 10_728);
    }

    #[test]
    fn a_window_is_never_less_than_a_packet() {
        let mut gradient = Gradient::new(&Custom::new(&GRADIENT));
        hear(&mut gradient, 1);
        for us in 10..1_000 {
            hear(&mut gradient, us);
            gradient.on_loss(Time::ZERO);
        }
        assert_eq!(gradient.window, PACKET);
    }
}
