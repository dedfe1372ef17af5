//! SONiC's watchdogs in a network: a NIC pauses its switch from 4.3 ms on, until it is repaired.

use rdma::{Span, Time};

use super::CABLES;
use crate::counters::Drop;
use crate::fault::{Fault, FaultKind};
use crate::switch::config::{GroupConfig, WatchdogAction, WatchdogConfig, WatchdogRule};
use crate::topology::single_switch;
use crate::workload::FlowSpec;
use crate::{Network, NetworkConfig};

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

/// The NIC of host 1 is stuck. If `busy`, host 0 has begun to send to it.
fn stormed(watchdog: WatchdogConfig, repaired: Option<Time>, busy: bool) -> Network {
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
    Network::new(config).unwrap()
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

/// The looks, in milliseconds, at which a storm was found, and found over.
fn times(network: &mut Network) -> [Option<u64>; 2] {
    let mut found = [None, None];
    for look in 1..=24 {
        network.run(us(look * 1_000 + 100));
        let (detected, restored) = network.watchdog_counts(0).unwrap();
        for (time, count) in found.iter_mut().zip([detected, restored]) {
            assert!(count < 2);
            if count == 1 {
                time.get_or_insert(look);
            }
        }
    }
    found
}

#[test]
fn both_rules_find_a_storm_after_the_detection_time_and_its_end_after_the_restoration_time() {
    for rule in [WatchdogRule::Broadcom, WatchdogRule::Mellanox] {
        let watchdog = config(rule, WatchdogAction::Drop);
        let mut network = stormed(watchdog, Some(us(12_300)), true);
        // From the look at 5 ms on a storm is to be seen; four looks later it has lasted 4 ms. The
        // last pause frame came before the look at 13 ms.
        assert_eq!(times(&mut network), [Some(9), Some(17)], "{rule:?}");
        assert!(network.drops().of(Drop::Watchdog) > 0);
        assert_eq!(network.drops().of(Drop::ReceiveBuffer), 0);
    }
}

#[test]
fn an_empty_queue_storms_by_the_rule_of_broadcom_and_not_of_mellanox() {
    let of = |rule| stormed(config(rule, WatchdogAction::Drop), None, false);
    assert_eq!(times(&mut of(WatchdogRule::Broadcom))[0], Some(9));
    assert_eq!(times(&mut of(WatchdogRule::Mellanox))[0], None);
}

#[test]
fn a_detection_time_below_the_interval_takes_two_looks() {
    // sonic-buildimage 27865: the command line accepts it.
    let watchdog = WatchdogConfig {
        detection: Span::from_us(100),
        ..config(WatchdogRule::Broadcom, WatchdogAction::Drop)
    };
    // 5 ms: the pause began since the last look. 6 ms: it went on, and is charged for once.
    assert_eq!(times(&mut stormed(watchdog, None, true))[0], Some(7));
}

#[test]
fn forwarding_sends_what_waits_to_the_nic_that_does_not_want_it() {
    let watchdog = config(WatchdogRule::Broadcom, WatchdogAction::Forward);
    let mut network = stormed(watchdog, None, true);
    network.run(us(8_900));
    assert_eq!(network.drops().total(), 0);
    network.run(us(14_000));
    assert!(network.drops().of(Drop::ReceiveBuffer) > 0);
    assert_eq!(network.drops().of(Drop::Watchdog), 0);
}

#[test]
fn an_alert_changes_nothing_but_the_counters() {
    let watchdog = config(WatchdogRule::Mellanox, WatchdogAction::Alert);
    let mut network = stormed(watchdog, Some(us(12_300)), true);
    // It is over at the first look that finds it so.
    assert_eq!(times(&mut network), [Some(9), Some(13)]);
    assert_eq!(network.drops().total(), 0);
}
