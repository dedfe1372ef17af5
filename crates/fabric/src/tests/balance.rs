//! Which of several paths packets take.

use std::collections::{BTreeMap, BTreeSet};

use rdma::{Rate, Span, Time};
use transport::Recovery;

use super::{CABLES, finish, with_flows};
use crate::fault::{DropRule, Fault, FaultKind};
use crate::switch::config::Balance;
use crate::topology::{End, fat_tree, leaf_spine};
use crate::workload::{FlowSpec, Interval, Service, Verb};
use crate::{Network, NetworkConfig};

/// Data packets that the first leaf has sent to each of four spines.
fn uplinks(balance: Balance, flow: FlowSpec) -> [u64; 4] {
    let mut config = NetworkConfig::new(leaf_spine(2, 4, 1, CABLES, CABLES));
    config.switch.balance = balance;
    let network = finish(with_flows(config, vec![flow]));
    assert_eq!((network.flows()[0].failed, network.drops().total()), (0, 0));
    [2, 3, 4, 5].map(|spine| {
        let counters = network.port_counters(0, End::Switch(spine)).unwrap();
        counters.queue_packets[3]
    })
}

#[test]
fn a_flow_stays_on_one_path_and_a_sprayed_one_uses_all_alike() {
    let flow = FlowSpec::write(0, 1, 4 << 20);
    let one = uplinks(Balance::Flow, flow);
    assert_eq!(one.iter().filter(|&&packets| packets > 0).count(), 1, "{one:?}");
    assert_eq!(one.iter().sum::<u64>(), 4_096);
    let all = uplinks(Balance::Packet, flow);
    assert!(all.iter().all(|packets| (900..1_150).contains(packets)), "{all:?}");
    assert_eq!(all.iter().sum::<u64>(), 4_096);
}

#[test]
fn polarised_switches_do_not_divide_again_what_one_has_divided() {
    // By the first switch above the rack: the second ones that flows of one host take.
    let second = |polarised: bool| {
        let mut config = NetworkConfig::new(fat_tree(8, CABLES));
        config.switch.polarised = polarised;
        config.flows = vec![FlowSpec::write(0, 127, 1); 200];
        let network = Network::new(config).unwrap();
        let mut seen: BTreeMap<End, BTreeSet<End>> = BTreeMap::new();
        for flow in 0..200 {
            let path = network.flow_path(flow).unwrap();
            seen.entry(path[0].1).or_default().insert(path[1].1);
        }
        seen.values().map(BTreeSet::len).collect::<Vec<_>>()
    };
    assert_eq!(second(false), [4; 4]);
    assert_eq!(second(true), [1; 4]);
}

#[test]
fn weighted_next_hops_take_flows_in_proportion_and_follow_a_link_that_fails() {
    // Spine 2 has a quarter of the others' rate to the second leaf.
    let taken = |weighted: bool, down: bool| {
        let mut config = NetworkConfig::new(leaf_spine(2, 2, 1, CABLES, CABLES));
        let slow = [End::Switch(1), End::Switch(2)];
        let link = config.topology.links.iter_mut().find(|link| link.ends == slow).unwrap();
        link.rate = Rate::from_gbps(25);
        config.switch.weighted = weighted;
        config.reroute = Some(Span::from_us(1));
        if down {
            let kind = FaultKind::LinkDown { ends: [End::Switch(1), End::Switch(3)] };
            config.faults = vec![Fault { at: Time::ZERO + Span::from_us(1), kind }];
        }
        config.flows = vec![FlowSpec::write(0, 1, 1); 1_000];
        let mut network = Network::new(config).unwrap();
        network.run(Time::ZERO + Span::from_us(10));
        let first = (0..1_000).filter(|&flow| network.flow_path(flow).unwrap()[0].1 == slow[1]);
        first.count()
    };
    // Five standard deviations of a binomial are 63 and 79.
    assert!(taken(true, false).abs_diff(200) < 63);
    assert!(taken(false, false).abs_diff(500) < 79);
    assert_eq!(taken(true, true), 1_000);
}

#[test]
fn a_flowlet_ends_with_a_gap_and_not_before() {
    let balance = Balance::Flowlet { gap: Span::from_us(5) };
    let bulk = uplinks(balance, FlowSpec::write(0, 1, 4 << 20));
    assert_eq!(bulk.iter().filter(|&&packets| packets > 0).count(), 1, "{bulk:?}");
    // Between a request and the next lies a round trip of more than 5 us.
    let asking = FlowSpec {
        verb: Verb::Send,
        messages: Some(64),
        reply_bytes: Some(1_000),
        ..FlowSpec::write(0, 1, 1_000)
    };
    let spread = uplinks(balance, asking);
    assert!(spread.iter().all(|&packets| packets > 0), "{spread:?}");
}

#[test]
fn acknowledgements_that_overtake_each_other_are_no_drops() {
    let mut config = NetworkConfig::new(leaf_spine(2, 4, 4, CABLES, CABLES));
    config.switch.balance = Balance::Packet;
    config.nic.recovery = Recovery::SelectiveRepeat;
    let flows = (0..4).flat_map(|host| [(host, host + 4), (host + 4, host)]);
    let flow = |(from, to)| FlowSpec::write(from, to, 1 << 20);
    let network = finish(with_flows(config, flows.map(flow).collect()));
    let overtaken: u64 = (0..8)
        .flat_map(|host| network.host_stats(host))
        .map(|stats| stats.drop_unexpected_response)
        .sum();
    assert!(overtaken > 0);
    assert_eq!(network.drops().total(), 0);
}

/// Packets sent again, timeouts, and packets that engines refused.
fn repeats(network: &Network) -> [u64; 3] {
    let hosts = 0..network.topology().hosts.len() as u32;
    hosts.flat_map(|host| network.host_stats(host)).fold([0; 3], |[again, out, refused], stats| {
        let dropped = stats.drop_unexpected_response + stats.drop_out_of_order;
        [again + stats.retransmitted_pkts, out + stats.local_ack_timeout_err, refused + dropped]
    })
}

/// Four flows of host 0 to 3, and four back, over four spines.
fn sprayed(verb: Verb) -> NetworkConfig {
    let mut config = NetworkConfig::new(leaf_spine(2, 4, 4, CABLES, CABLES));
    config.switch.balance = Balance::Packet;
    config.nic.recovery = Recovery::SelectiveRepeat;
    let flows = (0..4).flat_map(|host| [(host, host + 4), (host + 4, host)]);
    let flow = |(from, to)| FlowSpec {
        verb,
        messages: Some(4),
        depth: 2,
        ..FlowSpec::write(from, to, 1 << 20)
    };
    with_flows(config, flows.map(flow).collect())
}

#[test]
fn nothing_is_repeated_that_was_only_overtaken() {
    for verb in [Verb::Write, Verb::Send, Verb::Read] {
        // One flow in an idle network has the line.
        let mut idle = sprayed(verb);
        idle.flows.truncate(1);
        let network = finish(idle);
        assert_eq!(repeats(&network), [0, 0, 0], "{verb:?}");
        let finished = network.flows()[0].finished_at.unwrap().since(Time::ZERO);
        // 4,096 packets of 1,102 or 1,086 bytes, with 20 of preamble and gap, and 4 round trips of some 10 us.
        let line = Rate::from_gbps(100).time_of(4_096 * 1_122);
        assert!(finished < line + Span::from_us(60), "{verb:?}: {finished}");
        // Both directions at once.
        let network = finish(sprayed(verb));
        assert_eq!(repeats(&network)[..2], [0, 0], "{verb:?}");
        // A NIC that does not wait takes what is overtaken for lost.
        let mut hasty = sprayed(verb);
        hasty.nic.overtaken_wait = Some(Span::ZERO);
        assert!(repeats(&finish(hasty))[0] > 100, "{verb:?}");
    }
}

#[test]
fn what_was_dropped_is_repeated_once_and_nothing_else() {
    // By who sends the data.
    for (verb, host) in [(Verb::Write, 0), (Verb::Send, 0), (Verb::Read, 4)] {
        let mut config = sprayed(verb);
        let rule = DropRule::Every(97);
        let kind = FaultKind::LinkRule { from: End::Host(host), to: End::Switch(host / 4), rule };
        config.faults = vec![Fault { at: Time::ZERO, kind }];
        // So no acknowledgement is lost, nor a request.
        config.flows.retain(|flow| flow.destination != 0);
        let network = finish(config);
        let [again, timeouts, _] = repeats(&network);
        assert_eq!((again, timeouts), (network.drops().total(), 0), "{verb:?}");
        // 4,096 packets, and those that are sent again.
        assert!((42..=43).contains(&again), "{verb:?}: {again}");
    }
}

/// Everything that a seed may change, without a change of the flows themselves.
#[derive(PartialEq, Debug)]
struct Drawn {
    /// The paths of flows.
    hashes: Vec<Vec<(u32, End)>>,
    /// When a flow with intervals has finished.
    intervals: u64,
    /// Round trips over TCP.
    kernels: Vec<u64>,
}

fn drawn(seed: u64) -> Drawn {
    let mut config = NetworkConfig::new(leaf_spine(2, 4, 4, CABLES, CABLES));
    config.seed = seed;
    let every = Interval { mean: Span::from_us(20), exponential: true };
    let asking = FlowSpec {
        verb: Verb::Send,
        messages: Some(20),
        depth: 20,
        reply_bytes: Some(100),
        interval: Some(every),
        ..FlowSpec::write(0, 4, 100)
    };
    let over_tcp = FlowSpec { service: Service::Tcp, interval: None, depth: 1, ..asking };
    let many = (0..4).map(|host| FlowSpec::write(host, host + 4, 1_000));
    let network = finish(with_flows(config, many.chain([asking, over_tcp]).collect()));
    Drawn {
        hashes: (0..4).map(|flow| network.flow_path(flow).unwrap()).collect(),
        intervals: network.flows()[4].finished_at.map_or(0, Time::as_ps),
        kernels: network.flows()[5].latencies_ps.clone(),
    }
}

#[test]
fn the_seed_draws_hashes_intervals_and_the_times_of_kernels() {
    let first = drawn(1);
    assert_eq!(first, drawn(1));
    let others: Vec<Drawn> = (2..6).map(drawn).collect();
    assert!(others.iter().any(|other| other.hashes != first.hashes));
    assert!(others.iter().all(|other| other.intervals != first.intervals));
    assert!(others.iter().all(|other| other.kernels != first.kernels));
}
