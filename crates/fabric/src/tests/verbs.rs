//! Every verb over every service that has it, probes, and servers that ask many others at once.

use rdma::{Rate, Span, Time};

use super::{CABLES, finish, with_flows};
use crate::fault::{DropRule, Fault, FaultKind};
use crate::random::Random;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::switch::config::Threshold;
use crate::topology::{Cables, End, leaf_spine, single_switch};
use crate::workload::{FlowSpec, Interval, Queries, Service, Verb, probes, queries};
use crate::{BuildError, Delivered, Network, NetworkConfig};

const SERVICES: [Service; 3] = [Service::Rc, Service::Uc, Service::Ud];
const VERBS: [Verb; 6] =
    [Verb::Write, Verb::WriteImmediate, Verb::Send, Verb::Read, Verb::CompareSwap, Verb::FetchAdd];

/// A flow of others that ends when everything else has arrived: what is unreliable is done when it has
/// left, and may be on its way then.
const LATER: FlowSpec = FlowSpec { start: Time::from_ns(2_000_000), ..FlowSpec::write(2, 1, 64) };

fn bytes_of(verb: Verb, service: Service) -> u32 {
    match (verb, service) {
        (Verb::CompareSwap | Verb::FetchAdd, _) => 8,
        (_, Service::Ud) => 1_000,
        _ => 10_000,
    }
}

#[test]
fn every_verb_of_every_service_arrives() {
    let mut seen = 0;
    for service in SERVICES {
        for verb in VERBS.into_iter().filter(|verb| verb.is_of(service)) {
            let mut config = NetworkConfig::new(single_switch(3, CABLES));
            config.paranoid = true;
            let flow = FlowSpec::write(0, 1, bytes_of(verb, service));
            let flow = FlowSpec { service, verb, messages: Some(200), depth: 4, ..flow };
            let network = finish(with_flows(config, vec![flow, LATER]));
            assert_eq!(network.flows()[0].completed, 200, "{service:?} {verb:?}");
            let received = if verb.takes_receive() { 200 } else { 0 };
            assert_eq!(network.received(0), Some(received), "{service:?} {verb:?}");
            let bytes = 200 * u64::from(bytes_of(verb, service));
            let delivered = match verb {
                Verb::Read => Delivered { there: 0, back: bytes },
                _ => Delivered { there: bytes, back: 0 },
            };
            assert_eq!(network.delivered()[0], delivered, "{service:?} {verb:?}");
            assert_eq!(network.drops().total(), 0, "{service:?} {verb:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 6 + 3 + 1);
}

#[test]
fn what_an_unreliable_service_loses_stays_lost() {
    for (service, message_bytes) in
        [(Service::Uc, 1_024), (Service::Ud, 1_024), (Service::Rc, 1_024)]
    {
        let mut config = NetworkConfig::new(single_switch(3, CABLES));
        let rule = DropRule::Every(100);
        let kind = FaultKind::LinkRule { from: End::Host(0), to: End::Switch(0), rule };
        config.faults.push(Fault { at: Time::ZERO, kind });
        let flow = FlowSpec::write(0, 1, message_bytes);
        let flow = FlowSpec { service, verb: Verb::Send, messages: Some(1_000), depth: 8, ..flow };
        let network = finish(with_flows(config, vec![flow, LATER]));
        let expected = if service == Service::Rc { 1_000 } else { 990 };
        assert_eq!(network.received(0), Some(expected), "{service:?}");
    }
}

#[test]
fn what_is_unreliable_is_done_whenever_its_engine_is_asked_again() {
    fn slow(config: &mut NetworkConfig) {
        config.nic.transmit = Span::from_us(1);
    }
    // The receiver pauses the switch, and that one the sender, until 300 us.
    fn paused(config: &mut NetworkConfig) {
        let fault = |us, kind| Fault { at: Time::ZERO + Span::from_us(us), kind };
        config.faults.push(fault(20, FaultKind::NicStuck { host: 1 }));
        config.faults.push(fault(300, FaultKind::NicRepaired { host: 1 }));
        config.switch.groups[3].threshold = Threshold::Static { bytes: 20_000 };
    }
    for (how, hold_up) in [("paused", paused as fn(&mut _)), ("slow", slow)] {
        for service in [Service::Uc, Service::Ud] {
            let mut config = NetworkConfig::new(single_switch(2, CABLES));
            hold_up(&mut config);
            // One after the other: nothing but its own completion makes the next one leave.
            let flow = FlowSpec::write(0, 1, 1_000);
            let flow = FlowSpec { service, verb: Verb::Send, messages: Some(2_000), ..flow };
            let network = finish(with_flows(config, vec![flow]));
            assert_eq!(network.flows()[0].completed, 2_000, "{how} {service:?}");
            let pauses = network.pause_frames();
            assert_eq!(pauses > 0, how == "paused", "{how} {service:?}: {pauses} pauses");
        }
    }
}

#[test]
fn a_verb_that_a_service_does_not_have_is_refused() {
    let refused = |flow: FlowSpec| {
        let config = with_flows(NetworkConfig::new(single_switch(2, CABLES)), vec![flow]);
        matches!(Network::new(config), Err(BuildError::Flow { index: 0, .. }))
    };
    let flow = FlowSpec::write(0, 1, 8);
    for service in [Service::Uc, Service::Ud, Service::Tcp] {
        for verb in VERBS.into_iter().filter(|verb| !verb.is_of(service)) {
            assert!(refused(FlowSpec { service, verb, ..flow }), "{service:?} {verb:?}");
        }
    }
    let datagram = FlowSpec { service: Service::Ud, verb: Verb::Send, ..flow };
    assert!(!refused(datagram));
    assert!(refused(FlowSpec { message_bytes: 1_025, ..datagram }));
    assert!(refused(FlowSpec { verb: Verb::FetchAdd, message_bytes: 16, ..flow }));
    assert!(refused(FlowSpec { depth: 2, reply_bytes: Some(8), ..datagram }));
}

#[test]
fn probes_go_by_the_clock_and_measure_the_path() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        let mut config = NetworkConfig::new(single_switch(3, CABLES));
        let every = Span::from_us(50);
        config.flows = probes(&[(0, 1), (2, 1)], service, 3, every, &mut Random::new(1));
        let mut network = Network::new(config).unwrap();
        network.run(Time::ZERO + Span::from_ms(10));
        for flow in network.flows() {
            assert!((198..=200).contains(&flow.completed), "{service:?}: {}", flow.completed);
            // Four links of 200 m, and 606 or so bytes on each at 100 Gb/s.
            for &latency in &flow.latencies_ps {
                assert!((4_180_000..4_230_000).contains(&latency), "{service:?}: {latency}");
            }
        }
    }
}

#[test]
fn probes_and_queries_are_refused_what_they_do_not_have() {
    let network = "end_ms = 1\n[topology]\nshape = \"single-switch\"\nhosts = 3\nrate_gbps = 40\n\
                   cable_m = 2\n[[workload]]\n";
    let refused = |workload: &str| {
        let parsed = Scenario::parse(&format!("{network}{workload}"), None);
        parsed.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let probes = "kind = \"probes\"\npairs = 2\ninterval_us = 10\n";
    let queries = "kind = \"queries\"\nqueriers = [\"h0\"]\nfan_out = 2\nmessage_bytes = 8\n\
                   reply_bytes = 8\ninterval_us = 10\n";
    assert_eq!([refused(probes), refused(queries)], ["", ""]);
    for (workload, key) in [(probes, "verb = \"send\""), (queries, "depth = 2")] {
        let error = refused(&format!("{workload}{key}\n"));
        assert!(error.contains("does not have it"), "{error}");
    }
    let many = refused(&probes.replace("pairs = 2", "pairs = 4000000000"));
    assert!(many.contains("there is room for"), "{many}");
    let never = refused("kind = \"permutation\"\nmessage_bytes = 8\ninterval_random = true\n");
    assert!(never.contains("interval_us"), "{never}");
}

#[test]
fn exponential_intervals_make_the_rate_that_was_asked_for() {
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    let interval = Interval { mean: Span::from_us(10), exponential: true };
    let flow = FlowSpec { depth: 100, ..FlowSpec::write(0, 1, 64).endless() };
    config.flows = vec![FlowSpec { depth: 100, interval: Some(interval), ..flow }];
    let mut network = Network::new(config).unwrap();
    network.run(Time::ZERO + Span::from_ms(20));
    let count = network.flows()[0].completed;
    assert!((1_850..2_150).contains(&count), "{count}");
}

#[test]
fn a_flow_with_an_interval_and_an_end_reaches_it() {
    let config = NetworkConfig::new(single_switch(2, CABLES));
    let flow = FlowSpec {
        messages: Some(7),
        interval: Some(Interval::every(Span::from_us(3))),
        ..FlowSpec::write(0, 1, 100_000)
    };
    // Each takes 10 us: two of three ticks are left out.
    let network = finish(with_flows(config, vec![flow]));
    assert_eq!(network.flows()[0].completed, 7);
    let end = network.flows()[0].finished_at.unwrap().since(Time::ZERO);
    assert!(end > Span::from_us(7 * 9), "{end}");
}

#[test]
fn answers_to_a_chatty_server_meet_and_alpha_decides_whether_they_pause() {
    // guo16, 6.2, at a small scale: answers to one server from all others.
    let pauses = |exponent: i8| {
        let cables = Cables::new(Rate::from_gbps(40), 20);
        let mut config = NetworkConfig::new(leaf_spine(4, 2, 16, cables, cables));
        config.switch.buffer_bytes = 9_000_000;
        config.switch.groups[3].threshold = Threshold::Dynamic { exponent };
        let of = Queries {
            service: Service::Rc,
            dscp: 3,
            query_bytes: 100,
            answer_bytes: 16_000,
            every: Span::from_us(1_000),
            count: Some(5),
        };
        config.flows = queries(64, &[0], 48, &of, &mut Random::new(2));
        let network = finish(config);
        assert!(network.flows().iter().all(|flow| flow.completed == 5));
        assert_eq!(network.drops().total(), 0);
        network.pause_frames()
    };
    let (large, small) = (pauses(-4), pauses(-6));
    assert!(small > 4 * large.max(1), "{small} of {large}");
}

#[test]
fn goodput_is_what_applications_have_of_messages_that_are_not_done_too() {
    for verb in [Verb::Read, Verb::Write, Verb::Send] {
        let mut config = NetworkConfig::new(single_switch(2, CABLES));
        config.flows = vec![FlowSpec { verb, ..FlowSpec::write(0, 1, 1 << 30) }];
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_ms(1));
        assert_eq!(network.flows()[0].completed, 0);
        let line = CABLES.rate.as_bps() as f64 / 8e3;
        let part = network.delivered()[0].bytes() as f64 / line;
        assert!((0.88..0.93).contains(&part), "{verb:?}: {part}");
        let summary = Report::new("long", &network, &verdict).summary();
        assert!(summary.contains("completed    0 of 1 messages\n"), "{summary}");
        assert!(summary.contains(" bytes in order, in the first 1.000 ms\n"), "{summary}");
    }
}

#[test]
fn answers_are_goodput_over_every_service() {
    for service in [Service::Rc, Service::Uc, Service::Ud, Service::Tcp] {
        let flow = FlowSpec { service, verb: Verb::Send, ..FlowSpec::write(0, 1, 100) };
        let flow = FlowSpec { messages: Some(50), reply_bytes: Some(1_000), ..flow };
        let network = finish(with_flows(NetworkConfig::new(single_switch(3, CABLES)), vec![flow]));
        let delivered = Delivered { there: 5_000, back: 50_000 };
        assert_eq!(network.delivered()[0], delivered, "{service:?}");
    }
}

#[test]
fn bytes_of_an_unreliable_message_that_lacks_a_packet_are_no_goodput() {
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    let every = DropRule::Every(7);
    let kind = FaultKind::LinkRule { from: End::Host(0), to: End::Switch(0), rule: every };
    config.faults.push(Fault { at: Time::ZERO, kind });
    let flow = FlowSpec { service: Service::Uc, verb: Verb::Send, ..FlowSpec::write(0, 1, 4_096) };
    config.flows = vec![FlowSpec { messages: Some(100), ..flow }];
    let mut network = Network::new(config).unwrap();
    network.run(Time::ZERO + Span::from_ms(2));
    let whole = network.received(0).unwrap();
    assert!((1..100).contains(&whole), "{whole}");
    assert_eq!(network.delivered()[0].there, whole * 4_096);
}
