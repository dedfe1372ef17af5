//! Round trips of messages that are posted by the clock, and the longest of them.

use fabric::workload::Flow;
use rdma::{Span, Time};

use crate::stats::quantile;

/// Round trips in us. One that is not over counts as long as it has lasted.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    times: Vec<f64>,
    unanswered: usize,
}

impl Tail {
    /// Of the messages that `flows` posted in `window`, one `every` so often and none left out, as
    /// they are `now`.
    pub(super) fn new<'a>(
        flows: impl IntoIterator<Item = &'a Flow>,
        every: Span,
        window: (Time, Time),
        now: Time,
    ) -> Self {
        let mut tail = Self { times: Vec::new(), unanswered: 0 };
        for flow in flows {
            for number in 0..flow.posted {
                let posted = flow.spec.start + every * number;
                if posted < window.0 || posted >= window.1 {
                    continue;
                }
                let over = flow.latencies_ps.get(number as usize).copied();
                tail.unanswered += usize::from(over.is_none());
                let took = over.unwrap_or_else(|| now.since(posted).as_ps());
                tail.times.push(took as f64 / 1e6);
            }
        }
        tail
    }

    /// How many messages there are, answered or not.
    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    /// How many are not answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// What the part `rank` (0 to 1) of them takes at most.
    pub(super) fn at(&self, rank: f64) -> f64 {
        quantile(&mut self.times.clone(), rank)
    }

    /// What 99 of 100 take at most.
    pub(super) fn p99(&self) -> f64 {
        self.at(0.99)
    }

    /// What 999 of 1,000 take at most.
    pub(super) fn p999(&self) -> f64 {
        self.at(0.999)
    }
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, single_switch};
    use fabric::workload::{FlowSpec, Interval, Service, Verb};
    use fabric::{Network, NetworkConfig};
    use rdma::Rate;

    use super::*;

    #[test]
    fn messages_of_the_window_count_and_one_without_an_answer_counts_as_long_as_it_has_lasted() {
        let every = Span::from_us(100);
        let mut config = NetworkConfig::new(single_switch(2, Cables::new(Rate::from_gbps(40), 2)));
        let flow = FlowSpec {
            service: Service::Rc,
            verb: Verb::Send,
            messages: None,
            reply_bytes: Some(64),
            interval: Some(Interval::every(every)),
            depth: 100,
            ..FlowSpec::write(0, 1, 64)
        };
        config.flows = vec![flow];
        let dies = fabric::fault::FaultKind::HostDies { host: 1, mac_aged: false };
        let at = Time::ZERO + Span::from_us(450);
        config.faults = vec![fabric::fault::Fault { at, kind: dies }];
        let mut network = Network::new(config).unwrap();
        let now = Time::ZERO + Span::from_us(990);
        network.run(now);
        let window = |from: u64, to: u64| {
            let window = (Time::ZERO + Span::from_us(from), Time::ZERO + Span::from_us(to));
            Tail::new(network.flows(), every, window, now)
        };
        let whole = window(0, 1_000);
        assert_eq!((whole.count(), whole.unanswered()), (10, 5));
        assert!(whole.at(0.5) < 10.0 && whole.at(0.6) == 90.0 && whole.p99() == 490.0);
        assert_eq!((window(100, 600).count(), window(100, 600).unanswered()), (5, 1));
        assert!(window(2_000, 3_000).p999().is_nan());
    }
}
