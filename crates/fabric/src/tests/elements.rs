//! Elements in a network: receive buffers, VLAN tags, links that fail, queues that share.

use rdma::{Rate, Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use super::{CABLES, finish, with_flows};
use crate::counters::Drop;
use crate::fault::{Fault, FaultKind};
use crate::nic::NicConfig;
use crate::switch::config::{EcnConfig, PortMode, Schedule, Threshold, Trust};
use crate::topology::{Cables, End, leaf_spine, parking_lot, single_switch};
use crate::workload::FlowSpec;
use crate::{BuildError, Network, NetworkConfig, Verdict};

fn ms(time: u64) -> Time {
    Time::ZERO + Span::from_ms(time)
}

#[test]
fn a_nic_that_cannot_keep_up_pauses_its_switch_and_loses_nothing() {
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    // 150 ns a packet, where one comes every 88.5 ns.
    config.nic.receive = Span::from_ns(150);
    config.flows = vec![FlowSpec::write(0, 1, 1 << 20).endless()];
    let mut network = Network::new(config).unwrap();
    network.run(ms(5));
    assert_eq!(network.drops().total(), 0);
    assert!(network.host_pauses(1).unwrap().sent[3] > 5);
    let gbps = network.flows()[0].bytes() as f64 * 8.0 / 5e-3 / 1e9;
    let expected = 1_024.0 * 8.0 / 150.0;
    assert!((gbps / expected - 1.0).abs() < 0.05, "{gbps} of {expected}");
}

#[test]
fn the_priority_of_a_vlan_tag_is_lost_where_a_packet_is_routed() {
    // guo16, 3: DSCP 3 survives the whole way, PCP 3 the first switch alone.
    let queues = |trust: Trust| {
        let mut config = NetworkConfig::new(leaf_spine(2, 1, 1, CABLES, CABLES));
        config.switch.trust = trust;
        config.nic.tagged = trust == Trust::Pcp;
        let network = finish(with_flows(config, vec![FlowSpec::write(0, 1, 1 << 20)]));
        let at = |switch, to| {
            let sent = network.port_counters(switch, to).unwrap().queue_packets;
            sent.iter().position(|&packets| packets > 1_000).unwrap()
        };
        [at(0, End::Switch(2)), at(2, End::Switch(1)), at(1, End::Host(1))]
    };
    assert_eq!(queues(Trust::Dscp), [3, 3, 3]);
    assert_eq!(queues(Trust::Pcp), [3, 0, 0]);
}

#[test]
fn a_trunk_port_reaches_servers_that_know_of_vlans_and_no_others() {
    let to_server = |mode: PortMode, tagged: bool| {
        let mut config = NetworkConfig::new(leaf_spine(2, 1, 1, CABLES, CABLES));
        config.switch.server_ports = mode;
        config.nic.tagged = true;
        let receiver = config.nic.clone();
        config.nics.insert(1, NicConfig { tagged, ..receiver });
        config.flows = vec![FlowSpec::write(0, 1, 100_000)];
        let mut network = Network::new(config).unwrap();
        network.run(ms(5));
        (network.flows()[0].completed, network.drops().of(Drop::Tagged) > 0)
    };
    assert_eq!(to_server(PortMode::Access, false), (1, false));
    assert_eq!(to_server(PortMode::Access, true), (1, false));
    assert_eq!(to_server(PortMode::Trunk, true), (1, false));
    assert_eq!(to_server(PortMode::Trunk, false), (0, true));
}

#[test]
fn a_flow_says_by_which_ports_it_goes() {
    let mut config = NetworkConfig::new(leaf_spine(2, 4, 1, CABLES, CABLES));
    config.flows = vec![FlowSpec::write(0, 1, 100_000); 8];
    let mut network = Network::new(config).unwrap();
    network.run(ms(5));
    for flow in 0..8 {
        let path = network.flow_path(flow).unwrap();
        let &[(0, End::Switch(spine)), (at, End::Switch(1)), (1, End::Host(1))] = path.as_slice()
        else {
            panic!("{path:?}");
        };
        assert!(at == spine && (2..6).contains(&spine));
        let sent = network.port_counters(0, End::Switch(spine)).unwrap().queue_bytes[3];
        assert!(sent >= 100_000, "{flow} by {spine}: {sent}");
    }
    assert_eq!(network.flow_path(8), None);
}

#[test]
fn a_link_that_flaps_loses_what_it_carries_and_the_engines_recover() {
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    let ends = [End::Host(0), End::Switch(0)];
    let at = |us, kind| Fault { at: Time::ZERO + Span::from_us(us), kind };
    config.faults = vec![at(20, FaultKind::LinkDown { ends }), at(60, FaultKind::LinkUp { ends })];
    let network = finish(with_flows(config, vec![FlowSpec::write(0, 1, 1 << 20)]));
    assert!(network.drops().of(Drop::LinkDown) > 100);
    assert_eq!((network.flows()[0].completed, network.flows()[0].failed), (1, 0));
    let stats = &network.host_stats(0)[0];
    assert!(stats.retransmitted_pkts > 100 && stats.rcvd_seq_err > 0);
}

#[test]
fn classes_share_a_link_by_their_weights() {
    let mut config = NetworkConfig::new(single_switch(3, CABLES));
    config.switch.queues[3].schedule = Schedule::Weighted(3);
    config.flows = vec![
        FlowSpec::write(0, 2, 1 << 20).endless(),
        FlowSpec { dscp: 4, ..FlowSpec::write(1, 2, 1 << 20).endless() },
    ];
    let mut network = Network::new(config).unwrap();
    network.run(ms(5));
    let sent = network.port_counters(0, End::Host(2)).unwrap().queue_bytes;
    let ratio = sent[3] as f64 / sent[4] as f64;
    assert!((2.9..3.1).contains(&ratio), "{ratio}");
    assert_eq!(network.drops().total(), 0);
}

#[test]
fn pauses_alone_share_by_ports_and_not_by_flows() {
    // A chain of three switches; everybody sends to the last host. At the last switch the chain and
    // the host there have a port each and get a half each; the flows of the chain share theirs.
    let cables = Cables::new(Rate::from_gbps(40), 20);
    let mut config = NetworkConfig::new(parking_lot(3, cables));
    // Hosts 0 and 1 are at the first switch, 2 at the second, 3 and 4 at the last.
    config.flows = [0, 1, 2, 3].map(|from| FlowSpec::write(from, 4, 1 << 20).endless()).to_vec();
    let mut network = Network::new(config).unwrap();
    network.run(ms(20));
    let gbps: Vec<f64> =
        network.flows().iter().map(|flow| flow.bytes() as f64 * 8.0 / 20e-3 / 1e9).collect();
    let full = 40.0 * 1_024.0 / 1_106.0;
    let shares = [1.0 / 8.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0];
    for (rate, share) in gbps.iter().zip(shares) {
        assert!((rate / (full * share) - 1.0).abs() < 0.1, "{gbps:?}");
    }
    assert_eq!(network.drops().total(), 0);
}

#[test]
fn what_cannot_be_built_is_refused_with_a_reason() {
    let mut config = NetworkConfig::new(single_switch(4, CABLES));
    config.switch.buffer_bytes = 50_000;
    let error = Network::new(config).unwrap_err();
    assert!(matches!(error, BuildError::BufferTooSmall { .. }), "{error}");
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    config.topology.links.pop();
    let error = Network::new(config).unwrap_err();
    assert_eq!(error.to_string(), "host h1 has 0 links; a host has one port");
    let mut config = NetworkConfig::new(leaf_spine(2, 0, 1, CABLES, CABLES));
    config.flows = vec![FlowSpec::write(0, 1, 10)];
    let error = Network::new(config).unwrap_err();
    assert_eq!(error.to_string(), "there is no path from h0 to h1");
    let mut config = NetworkConfig::new(single_switch(2, CABLES));
    config.flows = vec![FlowSpec::write(0, 5, 10)];
    assert!(matches!(Network::new(config), Err(BuildError::NoSuchNode(_))));
    for exponent in [-9, 8, i8::MIN, i8::MAX] {
        let alpha = Threshold::Dynamic { exponent };
        let mut config = NetworkConfig::new(single_switch(2, CABLES));
        config.switch.queues[3].limit = Some(alpha);
        assert_eq!(Network::new(config).unwrap_err(), BuildError::NoAlpha { exponent });
        let mut config = NetworkConfig::new(single_switch(2, CABLES));
        let mut own = config.switch.clone();
        own.groups[3].threshold = alpha;
        config.switches.insert(0, own);
        assert_eq!(Network::new(config).unwrap_err(), BuildError::NoAlpha { exponent });
        let mut config = NetworkConfig::new(single_switch(2, CABLES));
        let kind = FaultKind::AlphaChanges { switch: 0, exponent };
        config.faults = vec![Fault { at: Time::ZERO, kind }];
        let error = Network::new(config).unwrap_err();
        let said = format!("there is no alpha of 2^{exponent}: they are from 2^-8 to 2^7");
        assert_eq!(error.to_string(), said);
    }
    let network = Network::new(NetworkConfig::new(single_switch(2, CABLES)));
    assert_eq!(network.unwrap().run(ms(1)), Verdict::TimeOver, "nothing to do");
}

/// Gb/s of a flow from rack 0 to rack 3, beside four from rack 0 to a server of rack 2, to which as many
/// servers of rack 1 as `others` send as well: they share no link with the first flow.
fn victim(others: u32, congestion: Congestion) -> f64 {
    let cables = Cables::new(Rate::from_gbps(40), 20);
    let mut config = NetworkConfig::new(leaf_spine(4, 2, 5, cables, cables));
    config.nic.congestion = congestion;
    for queue in &mut config.switch.queues {
        queue.ecn = Some(EcnConfig { min_bytes: 5_000, max_bytes: 200_000, max_probability: 0.01 });
    }
    let senders = (0..4).chain(5..5 + others);
    config.flows = senders.map(|from| FlowSpec::write(from, 10, 1 << 20).endless()).collect();
    config.flows.push(FlowSpec::write(4, 15, 1 << 20).endless());
    let mut network = Network::new(config).unwrap();
    // DCQCN needs its time.
    network.run(ms(20));
    let last = network.flows().len() - 1;
    let before = network.flows()[last].bytes();
    network.run(ms(40));
    assert_eq!(network.drops().total(), 0);
    (network.flows()[last].bytes() - before) as f64 * 8.0 / 20e-3 / 1e9
}

#[test]
fn a_flow_suffers_from_pauses_that_it_has_no_part_in_and_dcqcn_spares_it() {
    // Zhu et al., SIGCOMM 2015, figure 4: the more servers elsewhere join the incast, the slower a
    // flow that only begins below the same switch; with DCQCN it does not notice.
    let pauses = [0, 2, 4].map(|others| victim(others, Congestion::None));
    assert!(pauses[1] < pauses[0] * 0.9 && pauses[2] < pauses[0] * 0.75, "{pauses:?}");
    let line_rate = Rate::from_gbps(40);
    let dcqcn = Congestion::Dcqcn(Dcqcn { line_rate, ..Dcqcn::paper() });
    let spared = [0, 4].map(|others| victim(others, dcqcn));
    assert!(spared[1] > pauses[2] * 1.5 && spared[1] > spared[0] * 0.8, "{spared:?} {pauses:?}");
}
