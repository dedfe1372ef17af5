//! Chatty servers: one asks many at once, and all answer at once (guo16, 6.2).
//!
//! ```text
//!   querier ── query ──► server 1..n      each interval, all at the same moment
//!   querier ◄─ answer ── server 1..n      an incast at the querier
//! ```

use rdma::{Span, Time};

use super::{FlowSpec, Interval, Service, Verb};
use crate::random::Random;

/// What is asked, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queries {
    /// What carries it.
    pub service: Service,
    /// DSCP of queries and answers.
    pub dscp: u8,
    /// The length of a query.
    pub query_bytes: u32,
    /// The length of an answer.
    pub answer_bytes: u32,
    /// From one query to the next.
    pub every: Span,
    /// Queries of each querier; `None` for as many as the time allows.
    pub count: Option<u64>,
}

/// Each of `queriers` asks `fan_out` of `hosts` other hosts, taken at random, again and again. Each
/// querier begins at a moment of the first interval that is chance.
pub fn queries(
    hosts: u32,
    queriers: &[u32],
    fan_out: u32,
    of: &Queries,
    random: &mut Random,
) -> Vec<FlowSpec> {
    let mut flows = Vec::new();
    for &querier in queriers {
        let mut servers: Vec<u32> = (0..hosts).filter(|&host| host != querier).collect();
        random.shuffle(&mut servers);
        let start = Time::ZERO + Span::from_ps(random.below(of.every.as_ps().max(1)));
        flows.extend(servers.into_iter().take(fan_out as usize).map(|server| FlowSpec {
            service: of.service,
            verb: Verb::Send,
            messages: of.count,
            dscp: of.dscp,
            start,
            reply_bytes: Some(of.answer_bytes),
            interval: Some(Interval::every(of.every)),
            ..FlowSpec::write(querier, server, of.query_bytes)
        }));
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_querier_asks_others_and_all_of_them_at_once() {
        let of = Queries {
            service: Service::Rc,
            dscp: 3,
            query_bytes: 100,
            answer_bytes: 2_000,
            every: Span::from_us(500),
            count: Some(3),
        };
        let flows = queries(30, &[4, 9], 10, &of, &mut Random::new(3));
        assert_eq!(flows.len(), 20);
        for (querier, own) in [(4, &flows[..10]), (9, &flows[10..])] {
            assert!(own.iter().all(|flow| flow.source == querier && flow.destination != querier));
            assert!(own.iter().all(|flow| flow.start == own[0].start));
            let mut asked: Vec<u32> = own.iter().map(|flow| flow.destination).collect();
            asked.sort_unstable();
            asked.dedup();
            assert_eq!(asked.len(), 10);
        }
        assert_ne!(flows[0].start, flows[10].start);
    }
}
