//! HPCC: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019.
//!
//! ```text
//!   each link of the path     u = least queue of the last two records / (B T) + rate sent / B
//!   the fullest of them       U = what of u is new over T
//!
//!   window W
//!   ─────────────────────────────────────────────────────────────────────────────
//!   U at or above eta, or maxStage steps up     Wc eta / U + W_AI
//!   U below eta                                 Wc + W_AI
//!   rate                                        W / T
//! ```
//!
//! Switches write what their ports have sent, and what waits there, into data packets
//! ([`super::Telemetry`]), so a sender knows how many bytes are in flight on each link, and moves its window
//! there in one step. Each acknowledgement moves it, from a reference Wc that changes once in a round trip:
//! so a sender reacts at once, and no more than once to the same bytes (section 3.2, algorithm 1).
//!
//! The receiver echoes what switches have written, so both ends must have this controller. READ responses
//! bring it to the requester, whose window they count in. Each direction has last records of its own.
//!
//! Not in the paper: U begins at 1, what a flow that begins at line rate makes of its link; and no window is
//! larger than the first, which fills the line. Absent, as in the paper: a loss changes nothing.

use rdma::{Rate, Span, Time};

use super::keys::keys;
use super::parameters::Field;
use super::telemetry::bytes_of;
use super::{Conflict, Controller, Key, Progress, Telemetry};
use crate::limits::{LINK_HEADER_BYTES, PACKET_OVERHEAD_BYTES};

/// The utilisation of a link that never rests.
const ONE: u64 = 1 << 20;
/// Parts of a byte, in which windows are said.
const PARTS: u64 = 1 << 10;
/// In which eta is said.
const WHOLE: u64 = 1_000;
const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// A utilisation counts as no more. A full buffer of 64 MB at 1 Gb/s makes one of 40,000 over 13 us.
const UTILISATION_MAX: u128 = (ONE as u128) << 16;
/// What a data packet takes of a link beside what a rate counts: preamble, delimiter and gap (IEEE 802.3), and
/// the room for records.
const BESIDE_BYTES: u64 = 20 + bytes_of(Telemetry::HOPS_ROOM) as u64;

/// What a sender is set to, under the paper's symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hpcc {
    /// The rate of the port: where a flow begins.
    pub line_rate: Rate,
    /// The utilisation of the fullest link that flows aim at, in thousandths (eta).
    pub target: u16,
    /// Steps up before the window is set by the utilisation though that is below the target (maxStage).
    pub stages: u32,
    /// What a window gains at each step, in bytes (W_AI).
    pub additive_bytes: u64,
    /// The round trip of an empty network, in nanoseconds, the same for all flows (T).
    pub base_round_trip_ns: u64,
}

impl Hpcc {
    /// The paper's: section 5.1, whose simulated network has round trips of 13 us.
    pub(super) const DEFAULT: Self = Self {
        line_rate: Rate::from_gbps(40),
        target: 950,
        stages: 5,
        additive_bytes: 80,
        base_round_trip_ns: 13_000,
    };

    pub(super) const KEYS: &'static [Key] = &keys! { Hpcc:
        target: "eta_1000ths", 1..=1_000,
            "The utilisation of the fullest link that flows aim at (eta).";
        stages: "max_stage", 0..=1_000_000,
            "Steps up before the window is set by the utilisation though that is below eta (maxStage).";
        additive_bytes: "w_ai_bytes", 1..=1_000_000_000, "What a window gains at each step (W_AI).";
        base_round_trip_ns: "t_ns", 1..=1_000_000_000,
            "The round trip of the longest path of an empty network (T).";
    };

    pub(super) fn check(&self) -> Result<(), Conflict> {
        let (step, first) = (self.additive_bytes, self.first_window() / PARTS);
        if step <= first {
            return Ok(());
        }
        let Self { base_round_trip_ns, line_rate, .. } = *self;
        let mbps = line_rate.number(line_rate);
        Err(Conflict {
            keys: ["w_ai_bytes", "t_ns"],
            problem: alloc::format!(
                "w_ai_bytes = {step} must be at most the {first} bytes that the line sends in t_ns = \
                 {base_round_trip_ns} at {mbps} Mb/s"
            ),
            hint: "lower w_ai_bytes or raise t_ns: a flow begins with a window that fills the line"
                .into(),
        })
    }

    fn base_round_trip(&self) -> Span {
        Span::from_ps(self.base_round_trip_ns.saturating_mul(1_000).max(1))
    }

    /// What the line sends in T, in [`PARTS`] of a byte (W_init).
    fn first_window(&self) -> u64 {
        let bits = u128::from(self.line_rate.as_bps()) * u128::from(self.base_round_trip().as_ps());
        let parts = bits.saturating_mul(PARTS.into()) / (8 * PS_PER_SECOND);
        u64::try_from(parts).unwrap_or(u64::MAX)
    }
}

impl Default for Hpcc {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The controller of a sender. Windows are in [`PARTS`] of a byte.
#[derive(Clone, Debug)]
pub(crate) struct HpccWindow {
    settings: Hpcc,
    first: u64,
    window: u64,
    /// Wc: the window that the next is computed from.
    reference: u64,
    /// U, in parts of [`ONE`].
    utilisation: u64,
    stage: u32,
    /// Packets that must be acknowledged before the reference changes again: those that were under way when
    /// it changed last, which have seen nothing of that.
    before: u64,
    /// L: the last records, of what was sent and of what was asked for.
    last: [Option<Telemetry>; 2],
    /// U is new since the window was computed.
    is_news: bool,
}

impl HpccWindow {
    pub(crate) fn new(settings: &Hpcc) -> Self {
        let first = settings.first_window().max(PARTS);
        Self {
            settings: *settings,
            first,
            window: first,
            reference: first,
            utilisation: ONE,
            stage: 0,
            before: 0,
            last: [None, None],
            is_news: false,
        }
    }

    /// Takes what the records of two packets of one path say of the fullest link between them
    /// (MeasureInflight). Returns whether they say anything.
    fn measure(&mut self, last: &Telemetry, new: &Telemetry) -> bool {
        let base = u128::from(self.settings.base_round_trip().as_ps());
        let (mut fullest, mut lasts) = (0, 0);
        for (last, new) in last.hops.iter().zip(&new.hops) {
            let took = u128::from(new.at.since(last.at).as_ps());
            let bps = u128::from(new.rate.as_bps());
            if took == 0 || bps == 0 {
                return false;
            }
            let of_line = |bytes: u64, time: u128| {
                u128::from(bytes) * 8 * PS_PER_SECOND * u128::from(ONE) / (bps * time)
            };
            let sent = new.sent_bytes.saturating_sub(last.sent_bytes);
            let found = of_line(new.queue_bytes.min(last.queue_bytes), base) + of_line(sent, took);
            if found > fullest {
                (fullest, lasts) = (found.min(UTILISATION_MAX), took.min(base));
            }
        }
        let average = u128::from(self.utilisation) * (base - lasts) + fullest * lasts;
        // Neither of the two is above the greatest.
        self.utilisation = (average / base) as u64;
        lasts > 0
    }

    /// The window for the present utilisation, and the reference if that is to change (ComputeWind).
    fn compute(&mut self, changes_reference: bool) {
        let Hpcc { target, stages, additive_bytes, .. } = self.settings;
        let target = u64::from(target) * ONE / WHOLE;
        let is_set = self.utilisation >= target || self.stage >= stages;
        let before = if is_set {
            let scaled = u128::from(self.reference) * u128::from(target);
            u64::try_from(scaled / u128::from(self.utilisation.max(1))).unwrap_or(u64::MAX)
        } else {
            self.reference
        };
        let step = additive_bytes.saturating_mul(PARTS);
        self.window = before.saturating_add(step).min(self.first);
        if changes_reference {
            self.stage = if is_set { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }
}

impl Controller for HpccWindow {
    fn on_sent(&mut self, _: Time, bytes: u64) -> Option<Rate> {
        // W / T of a link that is busy with more than these bytes.
        let base = u128::from(self.settings.base_round_trip().as_ps());
        let bps = u128::from(self.window) * 8 * PS_PER_SECOND / (u128::from(PARTS) * base);
        let bps = bps * u128::from(bytes) / u128::from(bytes + BESIDE_BYTES);
        Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX).max(1)))
    }

    fn on_telemetry(&mut self, new: Telemetry, is_of_response: bool) {
        let place = usize::from(is_of_response);
        // On another path, what is known of this one says nothing.
        let is_same = |last: &Telemetry| last.path == new.path && last.hops.len() == new.hops.len();
        let last = self.last[place].take();
        let Some(last) = last.filter(is_same) else {
            self.last[place] = Some(new);
            return;
        };
        let is_news = self.measure(&last, &new);
        self.is_news |= is_news;
        // One that was overtaken is not the last.
        self.last[place] = Some(if is_news { new } else { last });
    }

    fn on_acknowledgement(&mut self, _: Time, progress: &Progress) -> Option<Time> {
        let packets = u64::from(progress.packets);
        let is_new_round = packets > self.before;
        self.before = self.before.saturating_sub(packets);
        if core::mem::take(&mut self.is_news) {
            self.compute(is_new_round);
            if is_new_round {
                self.before = progress.under_way.into();
            }
        }
        None
    }

    fn window(&self, packet_bytes: u64) -> u64 {
        // A packet may leave while less than the window is in flight.
        const BTH_BYTES: u64 = wire::bth::LEN as u64;
        let payload = packet_bytes.saturating_sub(PACKET_OVERHEAD_BYTES);
        let on_link = payload + BTH_BYTES + LINK_HEADER_BYTES + BESIDE_BYTES;
        let bytes = u128::from(self.window) * u128::from(packet_bytes)
            / (u128::from(on_link) * u128::from(PARTS));
        u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(packet_bytes.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Hop;
    use std::vec::Vec;

    const LINE: Rate = Rate::from_gbps(100);
    /// What the line sends in a T of 13 us.
    const FIRST: f64 = 162_500.0;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    /// A record of a link of 100 Gb/s.
    fn hop(ns: u64, sent_bytes: u64, queue_bytes: u64) -> Hop {
        Hop { at: at(ns), sent_bytes, queue_bytes, rate: LINE }
    }

    fn flow(settings: Hpcc) -> HpccWindow {
        HpccWindow::new(&Hpcc { line_rate: LINE, ..settings })
    }

    /// A packet is acknowledged that has passed these links, and `under_way` are not.
    fn hear(flow: &mut HpccWindow, hops: &[Hop], under_way: u32) {
        flow.on_telemetry(Telemetry { path: 1, hops: hops.to_vec() }, false);
        acknowledge(flow, under_way);
    }

    fn acknowledge(flow: &mut HpccWindow, under_way: u32) {
        let progress = Progress { packets: 1, under_way, ..Progress::default() };
        flow.on_acknowledgement(Time::ZERO, &progress);
    }

    fn bytes(flow: &HpccWindow) -> f64 {
        flow.window as f64 / PARTS as f64
    }

    /// Flows at one link of 100 Gb/s for 4 ms, in steps of 0.1 us: what each sends as a part of the link, and
    /// the mean queue, in the second half.
    fn run(count: usize, settings: Hpcc) -> (Vec<f64>, f64) {
        const STEP_NS: u64 = 100;
        const PACKET: f64 = 1_024.0 + 12.0 + 50.0 + 62.0;
        let mut flows: Vec<HpccWindow> = (0..count).map(|_| flow(settings)).collect();
        let mut due = std::vec![0.0; count];
        let mut shares = std::vec![0.0; count];
        let mut records = Vec::new();
        let (mut queue, mut sent, mut mean) = (0.0_f64, 0.0, 0.0);
        let room = 12.5 * STEP_NS as f64;
        let (steps, delay) = (40_000, settings.base_round_trip_ns / STEP_NS);
        for step in 0..steps {
            let rates: Vec<f64> = flows
                .iter_mut()
                .map(|flow| {
                    let of_frame = (PACKET - 62.0) as u64;
                    let bps = flow.on_sent(Time::ZERO, of_frame).unwrap().as_bps() as f64;
                    bps / of_frame as f64 * PACKET / 8e9
                })
                .collect();
            queue += rates.iter().sum::<f64>() * STEP_NS as f64;
            let leaves = queue.min(room);
            (queue, sent) = (queue - leaves, sent + leaves);
            records.push(hop(step * STEP_NS, sent as u64, queue as u64));
            if step >= steps / 2 {
                mean += queue / (steps / 2) as f64;
                for (share, rate) in shares.iter_mut().zip(&rates) {
                    *share += rate / 12.5 / (steps / 2) as f64;
                }
            }
            let Some(heard) = step.checked_sub(delay) else { continue };
            for (index, (flow, rate)) in flows.iter_mut().zip(&rates).enumerate() {
                due[index] += rate * STEP_NS as f64 / PACKET;
                if due[index] >= 1.0 {
                    due[index] -= 1.0;
                    let under_way = rate * settings.base_round_trip_ns as f64 / PACKET;
                    hear(flow, &[records[heard as usize]], under_way as u32);
                }
            }
        }
        (shares, mean)
    }

    /// Where W = W eta / U + W_AI and all windows together are U B T: U = eta + N W_AI / (B T).
    #[test]
    fn flows_share_eta_of_the_link_and_what_their_steps_add_and_leave_no_queue() {
        for (count, additive_bytes) in [(1, 80), (2, 400), (8, 400), (16, 80)] {
            let (shares, queue) = run(count, Hpcc { additive_bytes, ..Hpcc::default() });
            let expected = 0.95 + count as f64 * additive_bytes as f64 / FIRST;
            let found: f64 = shares.iter().sum();
            assert!((found - expected).abs() < 0.002, "{count}: {found} of {expected}");
            assert!(queue < 1_500.0, "{count}: {queue}");
            for share in &shares {
                assert!((share * count as f64 / found - 1.0).abs() < 0.02, "{count}: {shares:?}");
            }
        }
    }

    /// Algorithm 1, in floating point.
    struct Algorithm {
        window: f64,
        reference: f64,
        utilisation: f64,
        stage: u32,
    }

    impl Algorithm {
        fn new_ack(&mut self, last: &[Hop], new: &[Hop], is_new_round: bool) {
            let (mut most, mut tau) = (0.0, 0.0);
            for (last, new) in last.iter().zip(new) {
                let ns = new.at.since(last.at).as_ps() as f64 / 1e3;
                let rate = (new.sent_bytes - last.sent_bytes) as f64 / ns;
                let queue = new.queue_bytes.min(last.queue_bytes) as f64;
                let found = queue / FIRST + rate / 12.5;
                if found > most {
                    (most, tau) = (found, ns);
                }
            }
            let part = f64::min(tau, 13_000.0) / 13_000.0;
            self.utilisation = (1.0 - part) * self.utilisation + part * most;
            let is_set = self.utilisation >= 0.95 || self.stage >= 5;
            let before =
                if is_set { self.reference / (self.utilisation / 0.95) } else { self.reference };
            self.window = (before + 80.0).min(FIRST);
            if is_new_round {
                self.stage = if is_set { 0 } else { self.stage + 1 };
                self.reference = self.window;
            }
        }
    }

    #[test]
    fn each_acknowledgement_moves_the_window_as_algorithm_1_does() {
        let mut flow = flow(Hpcc::default());
        let mut expected =
            Algorithm { window: FIRST, reference: FIRST, utilisation: 1.0, stage: 0 };
        let mut random = 1_u64;
        let mut below = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let mut last = [hop(0, 0, 0), hop(10, 0, 0)];
        hear(&mut flow, &last, 0);
        let mut left = 0;
        let (mut rounds, mut ups) = (0, 0);
        for step in 0..3_000 {
            // For a while the links are busy, then idle.
            let is_busy = step / 300 % 2 == 0;
            let new = last.map(|last| {
                let ns = 100 + below(3_000);
                let sent = ns * 25 / 2 * if is_busy { 60 + below(41) } else { below(60) } / 100;
                let queue = if is_busy { below(60_000) } else { 0 };
                let now = last.at.since(Time::ZERO).as_ps() / 1_000 + ns;
                hop(now, last.sent_bytes + sent, queue)
            });
            let under_way = below(40) as u32;
            let is_new_round = left == 0;
            left = if is_new_round { under_way } else { left - 1 };
            expected.new_ack(&last, &new, is_new_round);
            hear(&mut flow, &new, under_way);
            let off = bytes(&flow) / expected.window - 1.0;
            assert!(off.abs() < 0.001, "{step}: {} of {}", bytes(&flow), expected.window);
            assert_eq!(flow.stage, expected.stage, "{step}");
            rounds += u32::from(is_new_round);
            ups += u32::from(is_new_round && expected.stage > 0);
            last = new;
        }
        assert!(rounds > 100 && ups > 20, "{rounds} {ups}");
    }

    #[test]
    fn records_of_another_path_and_of_an_overtaken_packet_are_not_compared() {
        let mut flow = flow(Hpcc::default());
        let whole = flow.window;
        hear(&mut flow, &[hop(1_000, 0, 0)], 0);
        flow.on_telemetry(Telemetry { path: 2, hops: [hop(2_000, 1, 90_000)].into() }, false);
        acknowledge(&mut flow, 0);
        flow.on_telemetry(Telemetry { path: 2, hops: [hop(1_900, 9, 90_000)].into() }, false);
        acknowledge(&mut flow, 0);
        // What was asked for is another path, even by the same switches.
        flow.on_telemetry(Telemetry { path: 2, hops: [hop(3_000, 12_501, 90_000)].into() }, true);
        acknowledge(&mut flow, 0);
        assert_eq!(flow.window, whole);
        flow.on_telemetry(Telemetry { path: 2, hops: [hop(3_000, 12_501, 90_000)].into() }, false);
        acknowledge(&mut flow, 0);
        assert!(flow.window < whole);
    }

    #[test]
    fn a_packet_may_leave_while_less_than_the_window_is_in_flight() {
        let flow = flow(Hpcc::default());
        // 1,024 bytes of payload, which the send window counts as 1,280 and the link as 1,148.
        assert_eq!(flow.window(1_280), 162_500 * 1_280 / 1_148 + 1_279);
    }

    #[test]
    fn no_setting_and_no_record_leads_to_a_rate_of_zero_or_out_of_range() {
        let huge = Hop {
            at: at(u64::MAX / 4_000),
            sent_bytes: u64::MAX,
            queue_bytes: u64::MAX,
            rate: Rate::from_bps(1),
        };
        let none = Hop { rate: Rate::ZERO, ..huge };
        for settings in [
            Hpcc {
                line_rate: Rate::from_bps(1),
                target: 0,
                stages: 0,
                additive_bytes: 0,
                base_round_trip_ns: 0,
            },
            Hpcc {
                line_rate: Rate::from_bps(u64::MAX),
                target: u16::MAX,
                stages: u32::MAX,
                additive_bytes: u64::MAX,
                base_round_trip_ns: u64::MAX,
            },
        ] {
            let mut flow = HpccWindow::new(&settings);
            let records = [hop(5, 7, 9), hop(6, 7, 9), huge, none, hop(7, 0, 0)];
            for (index, record) in records.iter().cycle().take(50).enumerate() {
                hear(&mut flow, &[*record, *record][..1 + index % 2], u32::MAX);
                hear(&mut flow, &[], 0);
                assert!(flow.on_sent(Time::ZERO, 4_096).is_some_and(|rate| rate > Rate::ZERO));
                assert!(flow.window(4_352) >= 4_351 && flow.window <= flow.first);
                flow.window(0);
            }
        }
    }
}
