//! Who gets how much where pauses alone hold senders back: equal parts for the ingress ports of a
//! bottleneck, and not for its flows; and a flow that does not meet the bottleneck suffers with those
//! that do (Zhu et al., SIGCOMM 2015, figures 3 and 4).
//!
//! The parts are exact if every buffer on the way is full. So senders have far more under way than
//! the groups of three switches hold; with less, the victim gets what is left, as it should.

use rdma::{Rate, Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use crate::switch::config::{EcnConfig, Threshold};
use crate::topology::{Cables, End, Topology, leaf_spine, parking_lot};
use crate::workload::{Flow, FlowSpec};
use crate::{Network, NetworkConfig};

const LINE_GBPS: u64 = 40;
const CABLES: Cables = Cables::new(Rate::from_gbps(LINE_GBPS), 20);

/// Each of `pairs` sends without end, 1.6 MB at a time.
fn saturating(topology: Topology, pairs: &[(u32, u32)]) -> NetworkConfig {
    let mut config = NetworkConfig::new(topology);
    config.switch.groups[3].threshold = Threshold::Static { bytes: 100_000 };
    let flow = |&(from, to): &(u32, u32)| FlowSpec {
        depth: 16,
        ..FlowSpec::write(from, to, 100_000).endless()
    };
    config.flows = pairs.iter().map(flow).collect();
    config
}

/// The switch that each flow goes to from its first.
fn ways(network: &Network) -> Vec<End> {
    let flows = 0..network.flows().len() as u32;
    flows.map(|flow| network.flow_path(flow).unwrap()[0].1).collect()
}

/// The network with the first seed of ECMP under which flows go ways that are as `wanted`.
fn with_ways(mut config: NetworkConfig, wanted: fn(&[End]) -> bool) -> NetworkConfig {
    let found = (0..200).find(|&seed| {
        config.switch.ecmp_seed = seed;
        wanted(&ways(&Network::new(config.clone()).unwrap()))
    });
    assert!(found.is_some(), "a seed");
    config
}

/// The rate of each flow on the wire in Gb/s, from one time to another, in ms. Nothing is lost.
fn rates(config: NetworkConfig, from: u64, to: u64) -> Vec<f64> {
    let mut network = Network::new(config).unwrap();
    network.run(Time::ZERO + Span::from_ms(from));
    let before: Vec<u64> = network.flows().iter().map(Flow::bytes).collect();
    network.run(Time::ZERO + Span::from_ms(to));
    assert_eq!(network.drops().total(), 0);
    let seconds = (to - from) as f64 / 1e3;
    // 1,106 bytes on the wire for 1,024.
    let wire = 1_106.0 / 1_024.0 * 8.0 / 1e9 / seconds;
    network
        .flows()
        .iter()
        .zip(before)
        .map(|(flow, old)| (flow.bytes() - old) as f64 * wire)
        .collect()
}

#[track_caller]
fn assert_rates(measured: &[f64], expected: &[f64]) {
    assert_eq!(measured.len(), expected.len());
    for (rate, expected) in measured.iter().zip(expected) {
        assert!((rate / expected - 1.0).abs() < 0.02, "{measured:?}, not {expected:?}");
    }
}

#[test]
fn each_bottleneck_of_a_parking_lot_gives_its_ingress_ports_equal_parts() {
    // h0 and h1 enter at the first switch, h2 at the second, h3 at the last, where h4 is.
    let config = saturating(parking_lot(3, CABLES), &[(0, 4), (1, 4), (2, 4), (3, 4)]);
    assert_rates(&rates(config, 5, 20), &[5.0, 5.0, 10.0, 20.0]);
}

#[test]
fn a_sender_beside_the_receiver_gets_a_half_or_a_third_by_how_many_uplinks_the_others_have() {
    // Figure 3: H4 is below the switch of the receiver, H1 to H3 are below another.
    let config =
        || saturating(leaf_spine(2, 2, 3, CABLES, CABLES), &[(0, 4), (1, 4), (2, 4), (3, 4)]);
    let one = with_ways(config(), |ways| ways[0] == ways[1] && ways[1] == ways[2]);
    let third = LINE_GBPS as f64 / 3.0;
    assert_rates(&rates(one, 5, 20), &[third / 2.0, third / 2.0, third / 2.0, 20.0]);
    let two = with_ways(config(), |ways| ways[0] != ways[1] && ways[1] == ways[2]);
    assert_rates(&rates(two, 5, 20), &[third, third / 2.0, third / 2.0, third]);
}

/// Figure 4: a victim from rack 0 to rack 1; four servers of rack 0, over both uplinks, and two of
/// rack 2, if `more`, over the victim's, send to one of rack 3.
fn victim(more: bool) -> NetworkConfig {
    let mut pairs = vec![(4, 5), (0, 15), (1, 15), (2, 15), (3, 15)];
    if more {
        pairs.extend([(10, 15), (11, 15)]);
    }
    with_ways(saturating(leaf_spine(4, 2, 5, CABLES, CABLES), &pairs), |ways| {
        let with_victim = ways[1..5].iter().filter(|&&way| way == ways[0]).count();
        with_victim == 2 && ways[5..].iter().all(|&way| way == ways[0])
    })
}

#[test]
fn a_victim_gets_what_those_get_that_it_shares_a_paused_uplink_with() {
    // Its uplink carries 20 Gb/s of theirs; 20 are left. Paused half of the time, it has 10 for it.
    let four = rates(victim(false), 5, 20);
    assert_rates(&four, &[10.0; 5]);
    // With two more, the spine gives the uplink half of what it had, and the victim half as well: 5,
    // where the paper, whose network has one more tier, measures 4.5.
    let six = rates(victim(true), 5, 20);
    assert!((six[0] / 5.0 - 1.0).abs() < 0.02, "{six:?}");
    assert_rates(&six[5..], &[5.0, 5.0]);
    assert!((six[1..].iter().sum::<f64>() / LINE_GBPS as f64 - 1.0).abs() < 0.02, "{six:?}");
}

#[test]
fn a_victim_has_what_is_left_if_the_others_slow_down_by_themselves() {
    for more in [false, true] {
        let mut config = victim(more);
        let line_rate = CABLES.rate;
        config.nic.congestion = Congestion::Dcqcn(Dcqcn { line_rate, ..Dcqcn::paper() });
        config.switch.queues[3].ecn =
            Some(EcnConfig { min_bytes: 5_000, max_bytes: 200_000, max_probability: 0.01 });
        let rates = rates(config, 10, 40);
        assert!(rates[0] > 17.0, "{more}: {rates:?}");
    }
}
