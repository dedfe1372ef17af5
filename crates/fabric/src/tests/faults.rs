//! Links that fail and are gone round, hosts that die and return.

use rdma::{Span, Time};

use super::{CABLES, finish, with_flows};
use crate::counters::Drop;
use crate::fault::{DropRule, Fault, FaultKind};
use crate::scenario::Scenario;
use crate::switch::config::Incomplete;
use crate::topology::{End, leaf_spine, single_switch};
use crate::workload::{FlowSpec, Interval, Service, Verb};
use crate::{Network, NetworkConfig, Verdict};

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

/// Four flows from each host of the first rack to one of the second, 50 Gb/s together, which one uplink
/// carries. What they lose is not sent again, and stops none of them.
fn unreliable() -> Vec<FlowSpec> {
    let flow = |from: u32| FlowSpec {
        service: Service::Uc,
        verb: Verb::Send,
        interval: Some(Interval::every(Span::from_us(26))),
        ..FlowSpec::write(from, from + 4, 10_000).endless()
    };
    (0..4).flat_map(|from| [flow(from); 4]).collect()
}

/// Two racks and two spines; the link of spine 2 with the second rack is down from 100 us on. Messages
/// of flows between the racks that have come by 1,000 us, and packets lost at the link.
fn spine_link_fails(reroute: Option<Span>) -> (u64, u64) {
    let mut config = NetworkConfig::new(leaf_spine(2, 2, 4, CABLES, CABLES));
    let ends = [End::Switch(2), End::Switch(1)];
    config.faults = vec![Fault { at: us(100), kind: FaultKind::LinkDown { ends } }];
    config.reroute = reroute;
    config.flows = unreliable();
    let mut network = Network::new(config).unwrap();
    network.run(us(1_000));
    let received: u64 = (0..16).filter_map(|flow| network.received(flow)).sum();
    (received, network.drops().of(Drop::LinkDown))
}

#[test]
fn routes_go_round_a_dead_link_after_the_time_that_routing_takes() {
    let (stuck, lost_for_ever) = spine_link_fails(None);
    let (slow, lost_for_long) = spine_link_fails(Some(Span::from_us(200)));
    let (fast, lost) = spine_link_fails(Some(Span::from_us(20)));
    assert!(lost > 0 && lost_for_long > 5 * lost, "{lost} {lost_for_long}");
    assert!(lost_for_ever > 3 * lost_for_long, "{lost_for_ever} {lost_for_long}");
    assert!(stuck < slow && slow < fast, "{stuck} {slow} {fast}");
}

#[test]
fn a_link_that_is_up_again_is_used_again() {
    let mut config = NetworkConfig::new(leaf_spine(2, 2, 4, CABLES, CABLES));
    let ends = [End::Switch(2), End::Switch(1)];
    config.faults = Fault::flaps(ends, us(50), Span::from_us(100), Span::from_us(300), 2);
    config.reroute = Some(Span::from_us(10));
    config.flows = unreliable();
    let mut network = Network::new(config).unwrap();
    let sent = |network: &Network| {
        network.port_counters(2, End::Switch(1)).unwrap().queue_packets.iter().sum::<u64>()
    };
    // Up, down and gone round, up, down, up.
    let mut moved = Vec::new();
    for (from, to) in [(10, 45), (80, 145), (200, 340), (380, 440), (500, 640)] {
        network.run(us(from));
        let before = sent(&network);
        network.run(us(to));
        moved.push(sent(&network) > before);
    }
    assert_eq!(moved, [true, false, true, false, true]);
}

/// The same network as a file, in which the link of a spine is down from 50 to 150 us and from 350 to
/// 450; `more` stands before its tables.
fn flapping(more: &str) -> Network {
    let flows: String = (0..4)
        .map(|from| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{}\"\n\
                 service = \"uc\"\nverb = \"send\"\nmessage_bytes = 10_000\nendless = true\n\
                 interval_us = 26\nqueue_pairs = 4\n",
                from + 4
            )
        })
        .collect();
    let text = format!(
        "end_ms = 1\n{more}\n\
         [topology]\nshape = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 4\n\
         rate_gbps = 100\ncable_m = 200\n\
         [[fault]]\nkind = \"link-flaps\"\nfrom = \"spine0\"\nto = \"leaf1\"\n\
         at_us = 50\ndown_us = 100\nevery_us = 300\ntimes = 2\n{flows}"
    );
    let scenario = Scenario::parse(&text, None).unwrap();
    Network::new(scenario.network).unwrap()
}

#[test]
fn flaps_and_rerouting_that_a_file_asks_for_take_place() {
    // In each stretch: whether packets are given to the link, and whether it loses any.
    let run = |more: &str| {
        let mut network = flapping(more);
        let seen = |network: &Network| {
            let port = network.port_counters(2, End::Switch(1)).unwrap();
            (port.queue_packets.iter().sum::<u64>(), network.drops().of(Drop::LinkDown))
        };
        [(10, 45), (75, 145), (175, 345), (375, 445), (475, 640)].map(|(from, to)| {
            network.run(us(from));
            let before = seen(&network);
            network.run(us(to));
            let after = seen(&network);
            (after.0 > before.0, after.1 > before.1)
        })
    };
    let (used, gone_round, black_hole) = ((true, false), (false, false), (true, true));
    assert_eq!(run("reroute_us = 10"), [used, gone_round, used, gone_round, used]);
    // Routing takes longer than the link is down, or does not notice.
    for more in ["reroute_us = 150", ""] {
        let told = run(more);
        assert_eq!([told[0], told[1], told[3]], [used, black_hole, black_hole], "{more}");
    }
}

#[test]
fn a_dead_host_says_nothing_and_one_that_returns_goes_on() {
    let mut config = NetworkConfig::new(single_switch(3, CABLES));
    config.nic.ack_timeout_code = 4;
    config.faults = vec![
        Fault { at: us(30), kind: FaultKind::HostDies { host: 0, mac_aged: false } },
        Fault { at: us(300), kind: FaultKind::HostReturns { host: 0 } },
    ];
    config.flows =
        vec![FlowSpec { messages: Some(20), depth: 2, ..FlowSpec::write(0, 1, 100_000) }];
    let mut network = Network::new(config).unwrap();
    let received = |network: &Network| {
        network.port_counters(0, End::Host(0)).unwrap().group_packets.iter().sum::<u64>()
    };
    network.run(us(35));
    let before = received(&network);
    network.run(us(295));
    assert_eq!(received(&network), before, "its timers expire, and nothing leaves");
    assert_eq!(network.run(us(100_000)), Verdict::Finished);
    assert_eq!((network.flows()[0].completed, network.flows()[0].failed), (20, 0));
}

#[test]
fn packets_for_a_dead_host_meet_what_its_switch_knows_of_it() {
    // guo16, 4.2: the ARP entry lives, the MAC entry may have aged.
    let drops = |incomplete: Incomplete, mac_aged: bool| -> [bool; 4] {
        let mut config = NetworkConfig::new(single_switch(4, CABLES));
        config.switch.tables.incomplete = incomplete;
        let kind = FaultKind::HostDies { host: 1, mac_aged };
        config.faults = vec![Fault { at: us(20), kind }];
        config.flows = vec![FlowSpec::write(0, 1, 1 << 20).endless()];
        let mut network = Network::new(config).unwrap();
        let causes = [Drop::DeadHost, Drop::NotForMe, Drop::IncompleteArp, Drop::SwitchCpu];
        // What was on the cable to the host when it died has come by then.
        network.run(us(22));
        let before = causes.map(|cause| network.drops().of(cause));
        network.run(us(100));
        let after = causes.map(|cause| network.drops().of(cause));
        core::array::from_fn(|cause| after[cause] - before[cause] > 10)
    };
    assert_eq!(drops(Incomplete::Flood, false), [true, false, false, false]);
    assert_eq!(drops(Incomplete::Flood, true), [true, true, false, false]);
    assert_eq!(drops(Incomplete::Drop, true), [false, false, true, false]);
    assert_eq!(drops(Incomplete::Cpu, true), [false, false, false, true]);
}

#[test]
fn a_rule_may_pick_one_pair_of_hosts() {
    let mut config = NetworkConfig::new(single_switch(3, CABLES));
    config.nic.ack_timeout_code = 1;
    config.nic.retry_count = 1;
    let rule = DropRule::Between { source: 0, destination: 1 };
    let kind = FaultKind::LinkRule { from: End::Host(0), to: End::Switch(0), rule };
    config.faults = vec![Fault { at: Time::ZERO, kind }];
    let flows = vec![FlowSpec::write(0, 1, 10_000), FlowSpec::write(0, 2, 10_000)];
    let network = finish(with_flows(config, flows));
    assert_eq!(network.flows()[0].failed, 1);
    assert_eq!(network.flows()[1].completed, 1);
}

#[test]
fn the_watchdog_of_a_nic_looks_after_the_time_it_is_given() {
    // guo16, 4.3: 100 ms, unless another time is set.
    let pauses = |watchdog_ms: Option<u64>, end_ms: u64| {
        let mut config = NetworkConfig::new(single_switch(2, CABLES));
        config.nic.watchdog = watchdog_ms.map(Span::from_ms);
        config.faults = vec![Fault { at: us(1), kind: FaultKind::NicStuck { host: 1 } }];
        let mut network = Network::new(config).unwrap();
        network.run(us(end_ms * 1_000));
        network.host_pauses(1).unwrap().sent[3]
    };
    // A pause of 65,535 quanta at 100 Gb/s is renewed every 168 us.
    let rate = 1_000.0 / 167.8;
    for (watchdog, end, expected) in
        [(Some(100), 300, 100.0), (Some(10), 300, 10.0), (None, 50, 50.0)]
    {
        let sent = pauses(watchdog, end) as f64;
        assert!((sent / (expected * rate) - 1.0).abs() < 0.05, "{watchdog:?}: {sent}");
    }
}

#[test]
fn an_alpha_that_changes_counts_from_then_on() {
    // Two send to a third, which takes half: the switch holds them at its threshold.
    let held = |at: Option<u64>, end: u64| {
        let mut config = with_flows(
            NetworkConfig::new(single_switch(3, CABLES)),
            [0, 1].map(|from| FlowSpec::write(from, 2, 1 << 20).endless()).into(),
        );
        let change =
            |at| Fault { at: us(at), kind: FaultKind::AlphaChanges { switch: 0, exponent: -6 } };
        config.faults = at.map(change).into_iter().collect();
        let mut network = Network::new(config).unwrap();
        network.run(us(end));
        f64::from(network.group_bytes(0, End::Host(0), 3).unwrap())
    };
    let (wide, narrow, changed) = (held(None, 1_000), held(Some(0), 1_000), held(Some(900), 1_000));
    assert!((2.5..6.0).contains(&(wide / narrow)), "{wide} {narrow}");
    assert!((changed / narrow - 1.0).abs() < 0.2, "{changed} {narrow}");
    assert_eq!(held(Some(900), 900), held(None, 900));
}
