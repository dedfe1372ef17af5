//! Probes: small messages that are answered, by the clock, to see how long that takes (guo16, 5.3).

use rdma::{Span, Time};

use super::{FlowSpec, Interval, Service, Verb};
use crate::random::Random;

/// The payload of a probe, and of its answer: guo16, 5.3.
pub const PROBE_BYTES: u32 = 512;

/// Each of `pairs` is probed once an interval, over `service`, without end. Probes begin at a moment
/// of the first interval that is chance, so that they do not meet.
pub fn probes(
    pairs: &[(u32, u32)],
    service: Service,
    dscp: u8,
    every: Span,
    random: &mut Random,
) -> Vec<FlowSpec> {
    let probe = |&(source, destination): &(u32, u32)| FlowSpec {
        service,
        verb: Verb::Send,
        messages: None,
        dscp,
        start: Time::ZERO + Span::from_ps(random.below(every.as_ps().max(1))),
        reply_bytes: Some(PROBE_BYTES),
        interval: Some(Interval::every(every)),
        ..FlowSpec::write(source, destination, PROBE_BYTES)
    };
    pairs.iter().map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_do_not_begin_together() {
        let pairs: Vec<_> = (1..50).map(|to| (0, to)).collect();
        let every = Span::from_us(100);
        let flows = probes(&pairs, Service::Tcp, 7, every, &mut Random::new(1));
        let mut starts: Vec<Time> = flows.iter().map(|flow| flow.start).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!((flows.len(), starts.len()), (49, 49));
        assert!(starts.iter().all(|&start| start < Time::ZERO + every));
        assert!(flows.iter().all(|flow| (flow.service, flow.dscp) == (Service::Tcp, 7)));
    }
}
