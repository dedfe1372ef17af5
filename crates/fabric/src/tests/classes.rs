//! NICs and switches that do not agree on classes, the classic mistake: what it costs, and that `--check` says it.

use rdma::{Span, Time};

use crate::Network;
use crate::check::Check;
use crate::counters::Drop;
use crate::scenario::Scenario;
use crate::topology::End;

/// Eight hosts send 500 KB each to another, as DSCP 26. `tables` says what NICs and switch make of that.
fn incast(tables: &str) -> Scenario {
    let text = format!(
        "end_ms = 10\n[topology]\nshape = \"single-switch\"\nhosts = 9\nrate_gbps = 100\n\
         [[workload]]\nkind = \"incast\"\nreceiver = \"h0\"\nsenders = 8\n\
         message_bytes = 500_000\ndscp = 26\n{tables}"
    );
    Scenario::parse(&text, None).unwrap()
}

/// Packets of lossless and of lossy classes that were dropped, and times that the switch paused a sender.
fn run(scenario: &Scenario) -> (u64, u64, u64) {
    let mut network = Network::new(scenario.network.clone()).unwrap();
    network.run(Time::ZERO + Span::from_ms(10));
    let paused = (1..9).map(|host| {
        let port = network.port_counters(0, End::Host(host)).unwrap();
        port.pause.sent.iter().sum::<u64>()
    });
    let paused = paused.sum();
    let drops = network.drops();
    (drops.of(Drop::Headroom), drops.of(Drop::Buffer), paused)
}

fn says(scenario: &Scenario, words: &str) -> bool {
    Check::new(scenario).warnings().iter().any(|warning| warning.contains(words))
}

/// A small buffer, and one lossless class.
const SWITCH: &str = "[switch]\nbuffer_bytes = 1_500_000\nlossless_priorities = [3]\n";

#[test]
fn where_nic_and_switch_agree_nothing_is_lost() {
    // By the map that nobody has set, and by one.
    let set = "dscp_to_class = [[26, 5]]\n[nic]\ndscp_to_priority = [[26, 5]]\n";
    let switch = SWITCH.replace("[3]", "[5]");
    for tables in [SWITCH.to_owned(), format!("{switch}{set}")] {
        let scenario = incast(&tables);
        let (lossless, lossy, paused) = run(&scenario);
        assert_eq!((lossless, lossy), (0, 0));
        assert!(paused > 0);
        assert!(!says(&scenario, "at the NICs"));
    }
}

#[test]
fn a_nic_without_pfc_for_the_class_sends_on_and_loses_packets() {
    let scenario = incast(&format!("{SWITCH}[nic]\nlossless_priorities = [4]\n"));
    let (lossless, lossy, paused) = run(&scenario);
    assert!(lossless > 0 && paused > 0);
    assert_eq!(lossy, 0);
    assert!(says(&scenario, "DSCP 26 is lossless here, and priority 3 has no PFC at the NICs"));
}

#[test]
fn a_nic_with_another_priority_for_the_class_sends_on_and_loses_packets() {
    let nic = "[nic]\nlossless_priorities = [3, 4]\ndscp_to_priority = [[26, 4]]\n";
    let scenario = incast(&format!("{SWITCH}{nic}"));
    let (lossless, _, paused) = run(&scenario);
    assert!(lossless > 0 && paused > 0);
    assert!(says(&scenario, "DSCP 26 is priority 4 at the NICs, and the switch pauses priority 3"));
}

#[test]
fn a_switch_that_has_the_class_as_lossy_pauses_nobody_and_drops() {
    let scenario = incast(&format!("{SWITCH}dscp_to_class = [[26, 0]]\n"));
    let (lossless, lossy, paused) = run(&scenario);
    assert_eq!((lossless, paused), (0, 0));
    assert!(lossy > 0);
    assert!(says(&scenario, "DSCP 26 is lossless at the NICs and lossy here"));
}

#[test]
fn one_nic_without_pfc_loses_its_own_packets_and_nobody_elses() {
    let scenario = incast(&format!("{SWITCH}[nics.h4]\nlossless_priorities = []\n"));
    let mut network = Network::new(scenario.network.clone()).unwrap();
    network.run(Time::ZERO + Span::from_ms(10));
    for host in 1..9 {
        let port = network.port_counters(0, End::Host(host)).unwrap();
        assert_eq!(port.group_dropped[3] > 0, host == 4, "h{host}");
    }
    assert!(says(&scenario, "priority 3 has no PFC at the NICs of h4"));
}
