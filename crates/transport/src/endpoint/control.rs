//! What congestion control allows now, and what it measures: for people, and not for the engine.

use rdma::Span;

use crate::qp::Qp;

rdma::counters! {
    /// Of the queue pairs of an endpoint that have a controller, or measure round trips, and may send: how things stand. These
    /// numbers go up and down.
    pub struct Control {
        /// Now: queue pairs that have a congestion control, or measure round trips.
        cc_queue_pairs,
        /// Now: bytes that those may have in flight, together.
        cc_window_bytes,
        /// Now: megabits per second at which those may send, together; 0 if only windows limit them.
        cc_rate_mbps,
        /// Now: the shortest round trip of those, of late, in microseconds; 0 if none was measured.
        rtt_min_us,
        /// Now: the smoothed round trip of those (RFC 6298), the mean over them, in microseconds.
        rtt_smoothed_us,
    }
}

/// In microseconds, and not 0.
fn us(span: Span) -> u64 {
    (span.as_ps() / 1_000_000).max(1)
}

impl Control {
    /// Of all of these queue pairs.
    pub(crate) fn of<'a>(queue_pairs: impl Iterator<Item = &'a Qp>) -> Self {
        let mut all = Self::default();
        let (mut bps, mut measured) = (0_u64, 0_u64);
        for qp in queue_pairs.filter(|qp| qp.may_send()) {
            let (pacer, round_trips) = (&qp.pacer, &qp.patience);
            if !pacer.is_controlled() && round_trips.smoothed().is_none() {
                continue;
            }
            all.cc_queue_pairs += 1;
            all.cc_window_bytes = all.cc_window_bytes.saturating_add(pacer.window_bytes());
            bps = bps.saturating_add(pacer.rate().map_or(0, |rate| rate.as_bps()));
            if let Some(shortest) = round_trips.shortest() {
                let known = Some(all.rtt_min_us).filter(|us| *us > 0);
                all.rtt_min_us = known.map_or(us(shortest), |known| known.min(us(shortest)));
            }
            if let Some(smoothed) = round_trips.smoothed() {
                measured += 1;
                all.rtt_smoothed_us += us(smoothed);
            }
        }
        all.cc_rate_mbps = bps.div_ceil(1_000_000);
        all.rtt_smoothed_us = all.rtt_smoothed_us.checked_div(measured).unwrap_or(0);
        all
    }
}
