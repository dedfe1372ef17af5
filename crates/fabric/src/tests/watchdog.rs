//! SONiC's watchdogs in a network: a NIC pauses its switch from 4.3 ms on, until it is repaired.

use rdma::{Span, Time};

use super::CABLES;
use crate::counters::{Drop, WatchdogCounters};
use crate::fault::{Fault, FaultKind};
use crate::report::Report;
use crate::switch::config::{GroupConfig, WatchdogAction, WatchdogConfig, WatchdogRule};
use crate::topology::single_switch;
use crate::workload::FlowSpec;
use crate::{Network, NetworkConfig};

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

/// The NIC of host 1 is stuck. If `busy`, host 0 has begun to send to it.
fn settings(watchdog: WatchdogConfig, repaired: Option<Time>, busy: bool) -> NetworkConfig {
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    config.switch.watchdog = Some(watchdog);
    config.switch.groups[4] = GroupConfig::LOSSY;
    config.nic.lossless_priorities = 1 << 3;
    if busy {
        config.flows =
            vec![FlowSpec { start: us(4_200), ..FlowSpec::write(0, 1, 8 << 20).endless() }];
    }
    config.faults.push(Fault { at: us(4_300), kind: FaultKind::NicStuck { host: 1 } });
    if let Some(at) = repaired {
        config.faults.push(Fault { at, kind: FaultKind::NicRepaired { host: 1 } });
    }
    config
}

fn stormed(watchdog: WatchdogConfig, repaired: Option<Time>, busy: bool) -> Network {
    stormed_by(1, watchdog, repaired, busy)
}

fn stormed_by(seed: u64, watchdog: WatchdogConfig, repaired: Option<Time>, busy: bool) -> Network {
    Network::new(NetworkConfig { seed, ..settings(watchdog, repaired, busy) }).unwrap()
}

fn config(rule: WatchdogRule, action: WatchdogAction) -> WatchdogConfig {
    WatchdogConfig {
        rule,
        action,
        poll: Span::from_ms(1),
        detection: Span::from_ms(4),
        restoration: Span::from_ms(4),
    }
}

/// When a storm was found, and found over, in hundreds of microseconds.
fn times(network: &mut Network) -> [Option<u64>; 2] {
    let mut found = [None, None];
    for step in 1..=240 {
        network.run(us(step * 100));
        let WatchdogCounters { detected, restored, .. } = network.watchdog_counters(0).unwrap();
        for (time, count) in found.iter_mut().zip([detected, restored]) {
            assert!(count < 2);
            if count == 1 {
                time.get_or_insert(step);
            }
        }
    }
    found
}

/// Within a look, of a millisecond, after `least`.
fn is_a_look_after(least: u64, time: Option<u64>) -> bool {
    time.is_some_and(|time| (least..=least + 11).contains(&time))
}

#[test]
fn both_rules_find_a_storm_after_the_detection_time_and_its_end_after_the_restoration_time() {
    for rule in [WatchdogRule::Broadcom, WatchdogRule::Mellanox] {
        let watchdog = config(rule, WatchdogAction::Drop);
        let mut network = stormed(watchdog, Some(us(12_300)), true);
        // A storm is to be seen from 4.3 ms on; four looks after the first that sees it, it has
        // lasted 4 ms. The last pause frame comes before 12.3 ms.
        let [found, over] = times(&mut network);
        assert!(is_a_look_after(83, found) && is_a_look_after(163, over), "{found:?} {over:?}");
        let counters = network.watchdog_counters(0).unwrap();
        assert!(counters.tx_dropped > 0);
        assert_eq!(network.drops().of(Drop::Watchdog), counters.dropped());
        assert_eq!(network.drops().of(Drop::ReceiveBuffer), 0);
    }
}

#[test]
fn the_looks_of_switches_do_not_begin_together_and_their_moments_are_those_of_the_seed() {
    let found = |seed| {
        let watchdog = config(WatchdogRule::Broadcom, WatchdogAction::Drop);
        let mut network = stormed_by(seed, watchdog, None, true);
        times(&mut network)[0]
    };
    let all: Vec<Option<u64>> = (1..=8).map(found).collect();
    assert!(all.iter().all(|&time| is_a_look_after(83, time)), "{all:?}");
    assert!(all.iter().any(|time| *time != all[0]), "{all:?}");
    assert_eq!(found(3), all[2]);
}

/// What is told of a run that was stopped, in one line.
fn summary(network: &Network) -> String {
    let told = Report::new("storm", network, &crate::Verdict::TimeOver).summary();
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_report_says_what_watchdogs_found_and_recommends_none_that_is_on() {
    let report = |switch: bool, nic: bool| {
        let watchdog = config(WatchdogRule::Broadcom, WatchdogAction::Drop);
        let mut config = settings(watchdog, Some(us(12_300)), true);
        config.switch.watchdog = config.switch.watchdog.filter(|_| switch);
        config.nic.watchdog = nic.then(|| Span::from_ms(20));
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(us(24_000));
        let report = Report::new("storm", &network, &verdict);
        let dropped = network.drops().of(Drop::Watchdog);
        (report.summary(), report.page(), report.counters().to_csv(), dropped)
    };
    let (summary, page, counters, dropped) = report(true, true);
    let line = format!("storms: 1 detected, 1 restored, {dropped} packets dropped meanwhile");
    assert!(dropped > 0 && summary.contains(&line), "{summary}");
    assert!(page.contains(&line));
    assert!(
        counters.contains("switch,s0,h1,PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED,1\n"),
        "{counters}"
    );
    assert!(!summary.contains("watchdog_ms") && !summary.contains("switch.watchdog"), "{summary}");
    let (summary, ..) = report(false, true);
    assert!(
        summary.contains("switch.watchdog too") && !summary.contains("watchdog_ms"),
        "{summary}"
    );
    let (summary, ..) = report(false, false);
    assert!(!summary.contains("  watchdogs") && summary.contains("nic.watchdog_ms"), "{summary}");
}

#[test]
fn an_empty_queue_storms_by_the_rule_of_broadcom_and_not_of_mellanox() {
    let of = |rule| stormed(config(rule, WatchdogAction::Drop), None, false);
    assert!(is_a_look_after(83, times(&mut of(WatchdogRule::Broadcom))[0]));
    assert_eq!(times(&mut of(WatchdogRule::Mellanox))[0], None);
}

#[test]
fn a_detection_time_below_the_interval_takes_two_looks() {
    // sonic-buildimage 27865: the command line accepts it.
    let watchdog = WatchdogConfig {
        detection: Span::from_us(100),
        ..config(WatchdogRule::Broadcom, WatchdogAction::Drop)
    };
    // The first look: the pause began since the last. The second: it went on, and is charged for once.
    assert!(is_a_look_after(63, times(&mut stormed(watchdog, None, true))[0]));
}

#[test]
fn forwarding_sends_what_waits_to_the_nic_that_does_not_want_it() {
    let watchdog = config(WatchdogRule::Broadcom, WatchdogAction::Forward);
    let mut network = stormed(watchdog, None, true);
    network.run(us(8_300));
    assert_eq!(network.drops().total(), 0);
    network.run(us(14_000));
    assert!(network.drops().of(Drop::ReceiveBuffer) > 0);
    assert_eq!(network.drops().of(Drop::Watchdog), 0);
    let summary = summary(&network);
    assert!(
        summary.contains("pauses ignored meanwhile, and nothing dropped by the switch"),
        "{summary}"
    );
    assert!(!summary.contains("dropped meanwhile"), "{summary}");
}

#[test]
fn an_alert_changes_nothing_but_the_counters() {
    let watchdog = config(WatchdogRule::Mellanox, WatchdogAction::Alert);
    let mut network = stormed(watchdog, Some(us(12_300)), true);
    // It is over at the first look that finds it so.
    let [found, over] = times(&mut network);
    assert!(is_a_look_after(83, found) && is_a_look_after(123, over), "{found:?} {over:?}");
    assert_eq!(network.drops().total(), 0);
    let summary = summary(&network);
    assert!(summary.contains("1 restored, nothing done about them"), "{summary}");
}
