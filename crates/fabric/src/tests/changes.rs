//! Settings that change while a network runs, and switches that restart.

use rdma::{Rate, Span, Time};

use super::{CABLES, with_flows};
use crate::counters::Drop;
use crate::fault::{Fault, FaultKind};
use crate::scenario::{self, Scenario};
use crate::switch::config::{EcnConfig, SwitchConfig, WatchdogConfig};
use crate::topology::{End, single_switch};
use crate::workload::FlowSpec;
use crate::{Network, NetworkConfig};

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

/// Two hosts send to a third, which takes half, from the beginning to the end.
fn incast(settle: impl FnOnce(&mut NetworkConfig)) -> Network {
    let mut config = with_flows(
        NetworkConfig::new(single_switch(3, CABLES)),
        [0, 1].map(|from| FlowSpec::write(from, 2, 1 << 20).endless()).into(),
    );
    settle(&mut config);
    Network::new(config).unwrap()
}

fn received(network: &Network) -> u64 {
    network.delivered().iter().map(|flow| flow.there).sum()
}

/// What `seen` says of each of the stretches that end at `ends`.
fn in_stretches(network: &mut Network, ends: &[u64], seen: impl Fn(&Network) -> u64) -> Vec<u64> {
    let mut before = seen(network);
    let stretch = |&end: &u64| {
        network.run(us(end));
        let after = seen(network);
        let more = after - before;
        before = after;
        more
    };
    ends.iter().map(stretch).collect()
}

#[test]
fn a_link_that_degrades_carries_its_new_rate_until_it_is_repaired() {
    let ends = [End::Switch(0), End::Host(2)];
    let mut network = incast(|config| {
        let slow = FaultKind::LinkDegrades { ends, rate: Rate::from_gbps(25) };
        config.faults = vec![
            Fault { at: us(400), kind: slow },
            Fault { at: us(800), kind: FaultKind::LinkRepaired { ends } },
        ];
    });
    let moved = in_stretches(&mut network, &[100, 400, 500, 800, 900, 1_200], received);
    let part = |stretch: usize| moved[stretch] as f64 / moved[1] as f64;
    assert!((0.23..0.27).contains(&part(3)), "{moved:?}");
    assert!((0.97..1.03).contains(&part(5)), "{moved:?}");
}

#[test]
fn what_is_corrupted_reaches_its_host_and_is_dropped_there_and_sent_again() {
    let mut network = incast(|config| {
        let (from, to) = (End::Host(0), End::Switch(0));
        let kind = FaultKind::LinkCorrupts { from, to, probability: 0.01 };
        config.faults = vec![Fault { at: us(100), kind }];
    });
    network.run(us(1_000));
    let dropped = network.drops().of(Drop::Icrc);
    assert!(dropped > 20, "{dropped}");
    // What comes behind is refused by the engine, which waits for what is missing.
    assert_eq!(network.drops().total(), dropped + network.drops().of(Drop::Refused));
    let again: u64 = network.host_stats(0).iter().map(|stats| stats.retransmitted_pkts).sum();
    assert!(again >= dropped, "{again}");
}

#[test]
fn pfc_that_is_turned_off_drops_and_on_again_pauses() {
    let mut network = incast(|config| {
        config.switch.buffer_bytes = 1_500_000;
        config.nic.ack_timeout_code = 4;
        let all = [End::Switch(0), End::Host(0), End::Host(1), End::Host(2)];
        let change = |at, priorities| {
            all.map(|node| Fault { at: us(at), kind: FaultKind::PfcChanges { node, priorities } })
        };
        config.faults = [change(300, 0), change(600, 0b1_1000)].concat();
    });
    let seen =
        [|network: &Network| network.drops().total(), |network: &Network| network.pause_frames()];
    let mut of = vec![[0; 2]];
    for end in [300, 310, 600, 900, 1_200] {
        network.run(us(end));
        of.push(seen.map(|seen| seen(&network)));
    }
    let more = |stretch: usize| [0, 1].map(|what| of[stretch + 1][what] - of[stretch][what]);
    assert!(more(0)[0] == 0 && more(0)[1] > 0, "{of:?}");
    assert!(more(2)[0] > 0 && more(2)[1] == 0, "{of:?}");
    // What came as lossy packets may still be dropped while it lasts.
    assert!(more(4)[0] == 0 && more(4)[1] > 0, "{of:?}");
}

#[test]
fn a_map_that_changes_moves_packets_to_another_queue() {
    let mut map = SwitchConfig::default().dscp_to_class;
    map[usize::from(FlowSpec::write(0, 2, 1).dscp)] = 4;
    let mut network = incast(|config| {
        let kind = FaultKind::DscpMapChanges { switch: 0, dscp_to_class: map };
        config.faults = vec![Fault { at: us(300), kind }];
    });
    let sent = |queue: usize| {
        move |network: &Network| {
            network.port_counters(0, End::Host(2)).unwrap().queue_packets[queue]
        }
    };
    network.run(us(300));
    assert!(sent(3)(&network) > 0 && sent(4)(&network) == 0);
    // What waited has left by then.
    network.run(us(700));
    let before = sent(3)(&network);
    network.run(us(900));
    assert_eq!(sent(3)(&network), before);
    assert!(sent(4)(&network) > 0);
}

#[test]
fn marks_begin_and_end_with_their_thresholds() {
    let marks = |network: &Network| {
        network.port_counters(0, End::Host(2)).unwrap().queue_marked.iter().sum::<u64>()
    };
    let mut network = incast(|config| {
        config.nic.congestion =
            transport::congestion::Congestion::Dcqcn(transport::congestion::Dcqcn::scaled());
        let ecn = EcnConfig { min_bytes: 5_000, max_bytes: 50_000, max_probability: 0.5 };
        let change = |at, ecn| Fault {
            at: us(at),
            kind: FaultKind::EcnChanges { switch: 0, queues: 0b1000, ecn },
        };
        config.faults = vec![change(200, Some(ecn)), change(600, None)];
    });
    let seen = in_stretches(&mut network, &[200, 600, 1_000], marks);
    assert!(seen[0] == 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
}

#[test]
fn a_watchdog_that_is_turned_on_finds_the_storm_and_off_lets_it_be() {
    let storm = |on: bool| {
        let mut network = incast(|config| {
            let watchdog = WatchdogConfig {
                poll: Span::from_us(50),
                detection: Span::from_us(200),
                restoration: Span::from_us(200),
                ..WatchdogConfig::default()
            };
            config.switch.watchdog = (!on).then_some(watchdog);
            let change = FaultKind::WatchdogChanges { switch: 0, watchdog: on.then_some(watchdog) };
            config.faults = vec![
                Fault { at: us(50), kind: change },
                Fault { at: us(100), kind: FaultKind::NicStuck { host: 2 } },
            ];
        });
        network.run(us(2_000));
        network.watchdog_counters(0).unwrap().detected
    };
    assert!(storm(true) > 0);
    assert_eq!(storm(false), 0);
}

#[test]
fn a_switch_that_restarts_loses_what_it_holds_and_what_was_changed() {
    let mut network = incast(|config| {
        config.nic.ack_timeout_code = 4;
        config.faults = vec![
            Fault { at: us(200), kind: FaultKind::AlphaChanges { switch: 0, exponent: -8 } },
            Fault { at: us(400), kind: FaultKind::SwitchGoesDown { switch: 0 } },
            Fault { at: us(500), kind: FaultKind::SwitchReturns { switch: 0 } },
        ];
    });
    let held = |network: &Network| network.group_bytes(0, End::Host(0), 3).unwrap();
    network.run(us(200));
    let before = held(&network);
    network.run(us(400));
    assert!(held(&network) < before / 4);
    network.run(us(499));
    assert_eq!(held(&network), 0);
    assert!(network.drops().of(Drop::Restart) > 0 && network.drops().of(Drop::LinkDown) > 0);
    let delivered = received(&network);
    network.run(us(2_000));
    assert!(received(&network) > 2 * delivered, "it goes on");
    assert!(held(&network) > before / 2, "with the alpha that it had");
    assert!(network.arp_requests(0).unwrap() > 0);
}

#[test]
fn every_change_has_a_name_in_scenarios_and_by_itself() {
    let topology = single_switch(3, CABLES);
    let kinds = |text: &str| {
        let faults = scenario::faults(text, &topology).map_err(|error| error.to_string());
        faults.map(|faults| faults.into_iter().map(|fault| fault.kind).collect::<Vec<_>>())
    };
    let switch = 0;
    let cases: [(&str, &[FaultKind]); 6] = [
        ("kind = \"ecn\"\noff = true", &[FaultKind::EcnChanges { switch, queues: 255, ecn: None }]),
        (
            "kind = \"pfc\"\nnode = \"h1\"\nlossless_priorities = [3]",
            &[FaultKind::PfcChanges { node: End::Host(1), priorities: 8 }],
        ),
        (
            "kind = \"watchdog\"\nswitch = \"s0\"\noff = true",
            &[FaultKind::WatchdogChanges { switch, watchdog: None }],
        ),
        (
            "kind = \"nic-watchdog\"\nhost = \"h2\"\nafter_ms = 100",
            &[FaultKind::NicWatchdogChanges { host: 2, after: Some(Span::from_ms(100)) }],
        ),
        (
            "kind = \"switch-reboots\"\nswitch = \"s0\"\ndown_ms = 3",
            &[FaultKind::SwitchGoesDown { switch }, FaultKind::SwitchReturns { switch }],
        ),
        (
            "kind = \"link-repaired\"\nfrom = \"h0\"\nto = \"s0\"",
            &[FaultKind::LinkRepaired { ends: [End::Host(0), End::Switch(0)] }],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(kinds(text).unwrap(), expected, "{text}");
    }
    assert_eq!(
        kinds("kind = \"link-degrades\"\nfrom = \"h0\"\nto = \"s0\"\nrate_gbps = 400").unwrap_err(),
        "line 4: rate_gbps: 400.000 Gb/s is more than the link's own rate, 100.000 Gb/s\n\
         hint: link-repaired gives the link its own rate again"
    );
    assert_eq!(
        kinds("kind = \"ecn\"").unwrap_err(),
        "line 1: kind: either thresholds or off are to be said\n\
         hint: give min_bytes and max_bytes, or off = true"
    );
    assert_eq!(
        kinds("kind = \"nic-watchdog\"").unwrap_err(),
        "line 1: kind: either after_ms or off is to be said\n\
         hint: give after_ms = 100, for instance, or off = true"
    );
    let file = "end_ms = 1\n[topology]\nshape = \"single-switch\"\nhosts = 2\nrate_gbps = 10\ncable_m = 1\n\
                [[fault]]\nkind = \"dscp-map\"\ndscp_to_class = [[5, 3]]\nat_us = 7\n";
    let faults = Scenario::parse(file, None).unwrap().network.faults;
    let [Fault { at, kind: FaultKind::DscpMapChanges { switch: 0, dscp_to_class } }] = faults[..]
    else {
        panic!("{faults:?}")
    };
    assert_eq!((at, dscp_to_class[5]), (us(7), 3));
}
