//! What happened between two samples, a row for each port and priority: what people look at.

use core::time::Duration;

use super::port::{PRIORITIES, PortName};
use super::sample::{PortSample, QueueSample, Sample};

/// A port, or a priority of it. What nobody counts is `None`.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The port.
    pub port: PortName,
    /// The priority; `None` for the whole port.
    pub priority: Option<u8>,
    /// Pauses received, a second.
    pub pauses_received: Option<f64>,
    /// Part of the time that it had to wait, from 0 to 1.
    pub paused: Option<f64>,
    /// Pauses sent, a second.
    pub pauses_sent: Option<f64>,
    /// Marks, a second.
    pub marks: Option<f64>,
    /// Congestion notifications sent and obeyed, a second.
    pub cnps: Option<f64>,
    /// Packets dropped, a second.
    pub drops: Option<f64>,
    /// Packets sent again, a second.
    pub retransmissions: Option<f64>,
    /// Bits sent and received, a second.
    pub bits: Option<f64>,
}

impl Row {
    /// How much it deserves to be looked at.
    fn weight(&self) -> (f64, f64) {
        let bad = [
            self.pauses_received,
            self.pauses_sent,
            self.drops,
            self.retransmissions,
            self.cnps,
            self.marks,
        ];
        (
            bad.into_iter().flatten().sum::<f64>() + 1e3 * self.paused.unwrap_or(0.0),
            self.bits.unwrap_or(0.0),
        )
    }
}

/// Every port, and the priorities of it that ever were paused or dropped something; the busiest first.
pub fn rates(before: &Sample, now: &Sample, gap: Duration) -> Vec<Row> {
    let seconds = gap.as_secs_f64().max(1e-9);
    let mut rows = Vec::new();
    for (name, now) in &now.ports {
        let Some(before) = before.ports.get(name) else { continue };
        rows.push(whole(name, before, now, seconds));
        for priority in 0..PRIORITIES {
            let (before, now) = (&before.queues[priority], &now.queues[priority]);
            let used = [now.pauses_received, now.pauses_sent, now.dropped, now.marked];
            if used.iter().flatten().any(|&count| count > 0) {
                rows.push(of_priority(name, priority as u8, before, now, seconds));
            }
        }
    }
    rows.sort_by(|a, b| {
        let weights = b.weight().partial_cmp(&a.weight()).unwrap_or(core::cmp::Ordering::Equal);
        weights.then_with(|| (&a.port, a.priority).cmp(&(&b.port, b.priority)))
    });
    rows
}

fn per_second(before: Option<u64>, now: Option<u64>, seconds: f64) -> Option<f64> {
    Some(now?.saturating_sub(before?) as f64 / seconds)
}

fn plus(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

fn whole(port: &PortName, before: &PortSample, now: &PortSample, seconds: f64) -> Row {
    let rate = |of: &dyn Fn(&PortSample) -> Option<u64>| per_second(of(before), of(now), seconds);
    let bytes = plus(rate(&PortSample::all_sent_bytes), rate(&PortSample::all_received_bytes));
    Row {
        port: port.clone(),
        priority: None,
        pauses_received: None,
        paused: None,
        pauses_sent: None,
        marks: rate(&PortSample::all_marked),
        cnps: plus(rate(&|at| at.cnps_sent), rate(&|at| at.cnps_handled)),
        drops: rate(&PortSample::all_dropped),
        retransmissions: rate(&|at| at.retransmissions),
        bits: bytes.map(|bytes| 8.0 * bytes),
    }
}

fn of_priority(
    port: &PortName,
    priority: u8,
    before: &QueueSample,
    now: &QueueSample,
    seconds: f64,
) -> Row {
    let rate = |of: &dyn Fn(&QueueSample) -> Option<u64>| per_second(of(before), of(now), seconds);
    let bytes = plus(rate(&|at| at.sent_bytes), rate(&|at| at.received_bytes));
    Row {
        port: port.clone(),
        priority: Some(priority),
        pauses_received: rate(&|at| at.pauses_received),
        paused: rate(&|at| at.paused_us).map(|us| (us / 1e6).min(1.0)),
        pauses_sent: rate(&|at| at.pauses_sent),
        marks: rate(&|at| at.marked),
        cnps: None,
        drops: rate(&|at| at.dropped),
        retransmissions: None,
        bits: bytes.map(|bytes| 8.0 * bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_by_time_and_the_busiest_comes_first() {
        let sample = |factor: u64| {
            let mut sample = Sample::default();
            for (port, busy) in [("1", 1), ("2", 10)] {
                let mut at =
                    PortSample { received_bytes: Some(factor * 1_000), ..PortSample::default() };
                at.queues[3].pauses_received = Some(factor * 100 * busy);
                at.queues[3].paused_us = Some(factor * 500_000);
                sample.ports.insert(PortName::new("mlx5_0", port), at);
            }
            sample
        };
        let rows = rates(&sample(1), &sample(3), Duration::from_secs(2));
        let seen: Vec<_> = rows.iter().map(|row| (row.port.port.as_str(), row.priority)).collect();
        assert_eq!(seen, [("2", Some(3)), ("1", Some(3)), ("1", None), ("2", None)]);
        assert_eq!(
            (rows[0].pauses_received, rows[0].paused, rows[0].marks),
            (Some(1_000.0), Some(0.5), None)
        );
        assert_eq!(rows[2].bits, Some(8_000.0));
    }
}
