//! The safety experiments of guo16, section 4, at their scale.

use rdma::{Rate, Span, Time};
use transport::Recovery;

use crate::counters::Drop;
use crate::fault::{DropRule, Fault, FaultKind};
use crate::switch::config::{Incomplete, WatchdogConfig};
use crate::topology::{Cables, ClosShape, End, StaticRoute, Topology, clos, single_switch};
use crate::workload::{FlowSpec, Verb};
use crate::{Network, NetworkConfig, Verdict};

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

fn at_start(kind: FaultKind) -> Fault {
    Fault { at: Time::ZERO, kind }
}

// ---- 4.1: livelock

/// Goodput in parts of what 1,024 of 1,106 bytes on the wire would give, and how busy the link was.
fn lossy_switch(recovery: Recovery, verb: Verb) -> (f64, f64, Network) {
    let mut config = NetworkConfig::new(single_switch(2, Cables::new(Rate::from_gbps(40), 200)));
    config.nic.recovery = recovery;
    // On the way of the data. (On the way of NAKs as well, timeouts would come into it.)
    let rule = DropRule::IpIdEnds(0xff);
    config.faults.push(at_start(FaultKind::LinkRule {
        from: End::Host(0),
        to: End::Switch(0),
        rule,
    }));
    // Two at a time, as fast as possible; READs fetch what WRITEs push.
    let (from, to) = if verb == Verb::Read { (1, 0) } else { (0, 1) };
    config.flows = vec![FlowSpec { verb, ..FlowSpec::write(from, to, 4 << 20).endless() }];
    let mut network = Network::new(config).unwrap();
    let time = Span::from_ms(40);
    network.run(Time::ZERO + time);
    let seconds = time.as_ps() as f64 / 1e12;
    let goodput = network.flows()[0].bytes() as f64 * 8.0 / seconds;
    // What the host that has the data sent, before the switch dropped any of it.
    let sent: u64 = network.host_stats(0).iter().map(|stats| stats.sent_bytes).sum();
    let full = 40e9 * 1_024.0 / 1_106.0;
    (goodput / full, sent as f64 * 8.0 / seconds / full, network)
}

const VERBS: [Verb; 3] = [Verb::Send, Verb::Write, Verb::Read];

#[test]
fn go_back_0_delivers_nothing_and_fills_the_link() {
    for verb in VERBS {
        let (goodput, busy, network) = lossy_switch(Recovery::GoBack0, verb);
        assert_eq!(goodput, 0.0, "{verb:?}");
        let delivered = network.delivered()[0].bytes();
        assert!(delivered < 1 << 20, "the beginning of one message, once: {delivered} of {verb:?}");
        assert!(busy > 0.9, "{verb:?}: {busy}");
        assert!(network.drops().of(Drop::Rule) > 600, "{verb:?}");
    }
}

#[test]
fn go_back_n_wastes_a_round_trip_of_packets_for_each_that_is_lost() {
    // From sending a packet that is lost to hearing of it: the next packet goes there, a NAK comes
    // back. At 40 Gb/s a packet takes 221.2 ns with its gap, a NAK 14.8 ns to its last bit.
    let round_trip = 221.2 + 2.0 * (218.8 + 1_000.0) + 2.0 * (14.8 + 1_000.0);
    let wasted = round_trip / 221.2;
    let expected = 256.0 / (256.0 + wasted);
    for verb in [Verb::Send, Verb::Write] {
        let (goodput, busy, _) = lossy_switch(Recovery::GoBackN, verb);
        assert!((goodput / expected - 1.0).abs() < 0.02, "{verb:?}: {goodput} of {expected}");
        assert!(busy > 0.98, "{verb:?}: {busy}");
    }
    // A READ that lost a response is asked for again from there.
    let (goodput, ..) = lossy_switch(Recovery::GoBackN, Verb::Read);
    assert!((goodput / expected - 1.0).abs() < 0.05, "{goodput} of {expected}");
}

#[test]
fn selective_repeat_sends_one_packet_for_each_that_is_lost() {
    let expected = 255.0 / 256.0;
    for verb in [Verb::Send, Verb::Write] {
        let (goodput, ..) = lossy_switch(Recovery::SelectiveRepeat, verb);
        assert!((goodput / expected - 1.0).abs() < 0.03, "{verb:?}: {goodput} of {expected}");
    }
}

// ---- 4.2: deadlock

/// Figure 4: S1, S2 under T0; S3, S4, S5 under T1; La, Lb above both. S2 and S3 are dead, their MAC
/// entries have aged. S1 sends to S3 and S5 by La, S4 to S2 by Lb; two more servers of T0 join the
/// incast at S5.
fn figure_4(incomplete: Incomplete, mac_aged: bool) -> Network {
    Network::new(figure_4_config(incomplete, mac_aged)).unwrap()
}

pub(super) fn figure_4_config(incomplete: Incomplete, mac_aged: bool) -> NetworkConfig {
    let cables = Cables::new(Rate::from_gbps(40), 20);
    let mut topology = Topology::default();
    let t0 = topology.add_switch("T0", 0);
    let t1 = topology.add_switch("T1", 0);
    let la = topology.add_switch("La", 1);
    let lb = topology.add_switch("Lb", 1);
    let mut server = |name: &str, tor: u32| {
        let host = topology.add_host(name);
        topology.link(End::Host(host), End::Switch(tor), cables.rate, cables.propagation);
        host
    };
    let (s1, s2) = (server("S1", t0), server("S2", t0));
    let (s3, s4, s5) = (server("S3", t1), server("S4", t1), server("S5", t1));
    let others = [server("S6", t1), server("S7", t1)];
    for tor in [t0, t1] {
        for leaf in [la, lb] {
            topology.link(End::Switch(tor), End::Switch(leaf), cables.rate, cables.propagation);
        }
    }
    topology.routes.push(StaticRoute { at: t0, to: t1, via: vec![la] });
    topology.routes.push(StaticRoute { at: t1, to: t0, via: vec![lb] });
    let mut config = NetworkConfig::new(topology);
    config.switch.tables.incomplete = incomplete;
    config.switch.buffer_bytes = 2_000_000;
    // XON at about half of XOFF. Where the two are only a few packets apart, the circle does not
    // close in this simulation: no pause lasts long enough for the next buffer to fill.
    config.switch.groups[3].xon_offset_bytes = 50_000;
    for host in [s2, s3] {
        config.faults.push(at_start(FaultKind::HostDies { host, mac_aged }));
    }
    // To the dead there is always something to send, for nothing is ever acknowledged.
    let endless =
        |from, to| FlowSpec { depth: 1_000, ..FlowSpec::write(from, to, 1 << 20).endless() };
    let write = |from, to| FlowSpec { messages: Some(20), depth: 2, ..endless(from, to) };
    config.flows = vec![endless(s1, s3), write(s1, s5), endless(s4, s2)];
    config.flows.extend(others.map(|other| write(other, s5)));
    config
}

#[test]
fn flooding_of_incomplete_arp_entries_closes_a_circle_of_pauses() {
    let mut network = figure_4(Incomplete::Flood, true);
    let Verdict::Deadlock(cycle) = network.run(us(100_000)) else {
        panic!("no deadlock: {:?}", network.drops());
    };
    let mut ports: Vec<(&str, &str)> =
        cycle.queues.iter().map(|(at, to, _)| (at.as_str(), to.as_str())).collect();
    ports.sort_unstable();
    assert_eq!(ports, [("La", "T1"), ("Lb", "T0"), ("T0", "La"), ("T1", "Lb")]);
    // It stays, although nobody has anything new to say: nothing more is delivered.
    let before = network.flows()[1].completed;
    let at = network.now();
    network.run(at + Span::from_ms(20));
    assert_eq!(network.flows()[1].completed, before);
    assert!(before < 20);
}

#[test]
fn each_of_the_three_remedies_prevents_the_deadlock() {
    // Options 3 and 1: lossless packets with an incomplete entry are dropped, or go to the CPU.
    for (incomplete, cause) in
        [(Incomplete::Drop, Drop::IncompleteArp), (Incomplete::Cpu, Drop::SwitchCpu)]
    {
        let mut network = figure_4(incomplete, true);
        assert_eq!(network.run(us(100_000)), Verdict::Finished, "{incomplete:?}");
        assert!(network.drops().of(cause) > 0);
        assert_eq!(network.drops().of(Drop::NotForMe), 0);
    }
    // Option 2: the MAC entry outlives the ARP entry, so packets for the dead go to their ports.
    let mut network = figure_4(Incomplete::Flood, false);
    assert_eq!(network.run(us(100_000)), Verdict::Finished);
    assert!(network.drops().of(Drop::DeadHost) > 0);
    assert_eq!(network.drops().of(Drop::NotForMe), 0);
}

// ---- 4.3: storm

/// Two podsets; host 0's NIC stands still at 4 ms. Each host sends to the one of the same rack and
/// place in the other podset, and all send to host 0 besides.
fn storm(nic: bool, switch: bool, repaired: Option<Time>) -> Network {
    let cables = Cables::new(Rate::from_gbps(40), 20);
    let shape = ClosShape {
        podsets: 2,
        tors: 2,
        leaves: 2,
        spines: 2,
        hosts: 3,
        host_cables: cables,
        tor_cables: cables,
        spine_cables: cables,
    };
    let mut config = NetworkConfig::new(clos(&shape));
    // Everything a hundred times faster than in the paper: storms of milliseconds.
    config.nic.watchdog = nic.then_some(Span::from_ms(1));
    config.switch.watchdog = switch.then_some(WatchdogConfig {
        poll: Span::from_us(500),
        detection: Span::from_ms(2),
        restoration: Span::from_ms(2),
        ..WatchdogConfig::default()
    });
    config.switch.buffer_bytes = 2_000_000;
    config.nic.ack_timeout_code = 10;
    config.flows = (0..12)
        .map(|host| FlowSpec::write(host, (host + 6) % 12, 100_000).endless())
        .chain((1..12).map(|host| FlowSpec::write(host, 0, 100_000).endless()))
        .collect();
    config.faults.push(Fault { at: us(4_000), kind: FaultKind::NicStuck { host: 0 } });
    if let Some(at) = repaired {
        config.faults.push(Fault { at, kind: FaultKind::NicRepaired { host: 0 } });
    }
    Network::new(config).unwrap()
}

/// How many of the flows among healthy hosts complete anything between two times.
fn alive(network: &mut Network, from: Time, to: Time) -> usize {
    network.run(from);
    let completed = |network: &Network| -> Vec<u64> {
        network.flows()[..12]
            .iter()
            .filter(|flow| flow.spec.source != 0 && flow.spec.destination != 0)
            .map(|flow| flow.completed)
            .collect()
    };
    let before = completed(network);
    network.run(to);
    completed(network).iter().zip(&before).filter(|(after, before)| after > before).count()
}

#[test]
fn one_nic_that_pauses_for_ever_stops_the_whole_network() {
    let mut network = storm(false, false, None);
    assert_eq!(alive(&mut network, us(1_000), us(4_000)), 10, "before");
    assert_eq!(alive(&mut network, us(10_000), us(30_000)), 0, "everybody is a victim");
    // At 40 Gb/s a pause of 65,535 quanta is renewed every 419 us: the more than two thousand a
    // second of the incident (6.2).
    let sent = network.host_pauses(0).unwrap().sent[3];
    let seconds = 26e-3;
    assert!((2_300.0..2_400.0).contains(&(sent as f64 / seconds)), "{sent}");
}

#[test]
fn either_watchdog_ends_the_storm() {
    for (nic, switch) in [(true, false), (false, true), (true, true)] {
        let mut network = storm(nic, switch, None);
        assert_eq!(alive(&mut network, us(11_000), us(15_000)), 10, "{nic} {switch}");
        let tor = network.watchdog_counters(0).unwrap();
        assert_eq!(tor.detected > 0, switch && !nic, "{nic} {switch}: {tor:?}");
        assert_eq!(network.nic_storms(0), Some(u64::from(nic)));
    }
}

#[test]
fn a_repaired_server_gets_its_lossless_port_back() {
    let mut network = storm(false, true, Some(us(11_000)));
    network.run(us(10_900));
    let tor = network.watchdog_counters(0).unwrap();
    assert_eq!((tor.detected, tor.restored), (1, 0));
    network.run(us(15_000));
    let tor = network.watchdog_counters(0).unwrap();
    assert_eq!((tor.detected, tor.restored), (1, 1));
    let lost = network.drops().of(Drop::Watchdog);
    assert!(lost > 0);
    assert_eq!(tor.dropped(), lost);
    network.run(us(18_000));
    assert_eq!(network.drops().of(Drop::Watchdog), lost, "lossless again");
}
