//! DCQCN against the fluid model of its authors (Zhu et al., SIGCOMM 2015, section 5): N flows on one
//! link settle where the model says, in rate, in marking probability and in queue.
//!
//! The model is about mean values. It is close where CNPs come so often that a rate does not move far
//! between two: the engine's marking is within 1 % of it up to a fair rate of 5 Gb/s, within 5 % up to
//! 13 Gb/s, and 7 % below at 20 Gb/s.

use std::vec::Vec;

use rdma::{Rate, Span, Time};

use crate::congestion::{Controller, Dcqcn, Notification, NotificationPoint, ReactionPoint};
use crate::testing::storm::random::Random;

const PACKET_BYTES: u64 = 1_000;
const WARM_UP: Span = Span::from_ms(200);
const MEASURED: Span = Span::from_ms(1_000);

/// A link, and the marking of the queue before it: none below `kmin_bytes`, `pmax` at `kmax_bytes`,
/// linear between. The slope is gentler than the 1 % in 200 KB of the paper's deployment, which does
/// not move the probability and leaves the queue room to swing.
struct Link {
    rate: Rate,
    kmin_bytes: f64,
    kmax_bytes: f64,
    pmax: f64,
}

impl Link {
    fn new(rate: Rate) -> Self {
        Self { rate, kmin_bytes: 5e3, kmax_bytes: 4e6, pmax: 0.1 }
    }

    fn marking(&self, queue_bytes: f64) -> f64 {
        let beyond = (queue_bytes - self.kmin_bytes) / (self.kmax_bytes - self.kmin_bytes);
        if beyond > 1.0 { 1.0 } else { (beyond * self.pmax).max(0.0) }
    }

    fn queue(&self, marking: f64) -> f64 {
        self.kmin_bytes + marking / self.pmax * (self.kmax_bytes - self.kmin_bytes)
    }
}

struct Flow {
    reaction: ReactionPoint,
    notification: NotificationPoint,
    next: Time,
    packets: u64,
}

impl Flow {
    fn notify(&mut self, now: Time) {
        if self.notification.notify(now, Notification::default().interval) {
            self.reaction.on_cnp(now);
        }
    }
}

/// Mean values over [`MEASURED`].
struct Outcome {
    rates_bps: Vec<f64>,
    marking: f64,
    queue_bytes: f64,
}

/// Flows that always have something to send, packet by packet, without delay between the parts.
fn run(flows: usize, link: &Link) -> Outcome {
    let settings = Dcqcn { line_rate: link.rate, ..Dcqcn::paper() };
    let flow = |index| Flow {
        reaction: ReactionPoint::new(&settings),
        notification: NotificationPoint::default(),
        next: Time::from_ns(37 * index),
        packets: 0,
    };
    let mut flows: Vec<Flow> = (0..flows as u64).map(flow).collect();
    let mut random = Random::new(1);
    let (mut queue, mut last) = (0.0_f64, Time::ZERO);
    let (mut packets, mut marks, mut queues) = (0_u64, 0_u64, 0.0);
    let start = Time::ZERO + WARM_UP;
    loop {
        for flow in &mut flows {
            while let Some(due) = flow.notification.due().filter(|&due| due <= last) {
                flow.notify(due);
            }
        }
        let flow = flows.iter_mut().min_by_key(|flow| flow.next).unwrap();
        let now = flow.next;
        if now > start + MEASURED {
            break;
        }
        let sent = now.since(last).as_ps() as f64 * link.rate.as_bps() as f64 / 8e12;
        (queue, last) = ((queue - sent).max(0.0), now);
        let is_marked = (random.below(1 << 32) as f64) < link.marking(queue) * 4_294_967_296.0;
        queue += PACKET_BYTES as f64;
        if now > start {
            packets += 1;
            marks += u64::from(is_marked);
            queues += queue;
            flow.packets += 1;
        }
        let rate = flow.reaction.on_sent(now, PACKET_BYTES).unwrap();
        flow.next = now + rate.time_of(PACKET_BYTES);
        if is_marked {
            flow.notification.marked(now);
            flow.notify(now);
        }
    }
    let seconds = MEASURED.as_ps() as f64 / 1e12;
    let rate = |flow: &Flow| (flow.packets * PACKET_BYTES * 8) as f64 / seconds;
    Outcome {
        rates_bps: flows.iter().map(rate).collect(),
        marking: marks as f64 / packets as f64,
        queue_bytes: queues / packets as f64,
    }
}

/// The marking probability at which equations 5 to 11 of the paper stand still, in packets and
/// seconds.
fn fixed_point(flows: usize, link: &Link) -> f64 {
    let Dcqcn { alpha_timer, rate_timer, byte_counter, fast_recovery_steps, .. } = Dcqcn::paper();
    let seconds = |span: Span| span.as_ps() as f64 / 1e12;
    let per_second = |rate: Rate| rate.as_bps() as f64 / 8.0 / PACKET_BYTES as f64;
    let rate = per_second(link.rate) / flows as f64;
    let additive = per_second(Dcqcn::paper().additive_increase.at(link.rate));
    let interval = seconds(Notification::default().interval);
    let counter = byte_counter.at(link.rate) as f64 / PACKET_BYTES as f64;
    let timer = seconds(rate_timer) * rate;
    let steps = f64::from(fast_recovery_steps);
    // What cuts, less what climbs.
    let excess = |p: f64| {
        let unmarked = |packets: f64| (packets * (-p).ln_1p()).exp();
        let alpha = 1.0 - unmarked(seconds(alpha_timer) * rate);
        let cuts = (1.0 - unmarked(interval * rate)) / interval;
        let climbs = |packets: f64| p * unmarked(packets) / (1.0 - unmarked(packets));
        let gained = additive
            * rate
            * (unmarked(steps * counter) * climbs(counter)
                + unmarked(steps * timer) * climbs(timer));
        // The target rate is above the current one by what it gains between two cuts.
        alpha * cuts - gained / cuts * (climbs(counter) + climbs(timer))
    };
    let (mut low, mut high) = (1e-9_f64, 0.5_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if excess(middle) > 0.0 { high = middle } else { low = middle }
    }
    low
}

#[track_caller]
fn assert_near(what: &str, value: f64, expected: f64) {
    let off = value / expected - 1.0;
    assert!(off.abs() < 0.05, "{what} is {value:.6}, {:+.1} % from {expected:.6}", off * 100.0);
}

#[track_caller]
fn assert_settles(flows: usize, rate: Rate) {
    let link = Link::new(rate);
    let outcome = run(flows, &link);
    let marking = fixed_point(flows, &link);
    assert_near("marking", outcome.marking, marking);
    assert_near("queue", outcome.queue_bytes, link.queue(marking));
    for rate_bps in outcome.rates_bps {
        assert_near("rate", rate_bps, rate.as_bps() as f64 / flows as f64);
    }
}

#[test]
fn the_solver_finds_what_the_model_is_known_to() {
    // From a solver of the same equations that was written apart from this one.
    for (flows, marking) in [(2, 0.00078), (4, 0.00189), (8, 0.00455), (10, 0.00603)] {
        let found = fixed_point(flows, &Link::new(Rate::from_gbps(40)));
        assert!((found - marking).abs() < 0.000_006, "{flows}: {found}");
    }
}

#[test]
fn two_flows_settle_where_the_fluid_model_does() {
    assert_settles(2, Rate::from_gbps(10));
}

#[test]
fn four_flows_settle_where_the_fluid_model_does() {
    assert_settles(4, Rate::from_gbps(10));
    assert_settles(4, Rate::from_gbps(40));
}

#[test]
fn ten_flows_settle_where_the_fluid_model_does() {
    assert_settles(10, Rate::from_gbps(10));
}
