//! Which way flows went, as `flows.parquet` says it.

use std::collections::{BTreeMap, BTreeSet};

use rdma::{Span, Time};

use super::{CABLES, finish, with_flows};
use crate::fault::{Fault, FaultKind};
use crate::report::Report;
use crate::switch::config::Balance;
use crate::topology::{End, fat_tree, leaf_spine, next_hops};
use crate::workload::FlowSpec;
use crate::{Network, NetworkConfig, Verdict};

/// The columns source_port, path, ports and choices of each flow.
fn told(network: &Network) -> Vec<[String; 4]> {
    let csv = Report::new("", network, &Verdict::Finished).flows().to_csv();
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let titles = lines.next().unwrap();
    let at = |title| titles.iter().position(|found| found == title).unwrap();
    let places = ["source_port", "path", "ports", "choices"].map(at);
    lines.map(|line| places.map(|place| line[place].clone())).collect()
}

#[test]
fn paths_are_those_of_routing_and_of_the_packets() {
    let flows = (0..16).flat_map(|from| (0..16).map(move |to| (from, to)));
    let flows = flows.filter(|(from, to)| from != to);
    let flows = flows.map(|(from, to)| FlowSpec::write(from, to, 10_000)).collect();
    let network = finish(with_flows(NetworkConfig::new(fat_tree(4, CABLES)), flows));
    let hops = next_hops(network.topology());
    let mut used = BTreeSet::new();
    for (index, flow) in network.flows().iter().enumerate() {
        let path = network.path_of(index as u32).unwrap();
        let taken = path.hops.unwrap();
        let last = taken.last().unwrap();
        let rack = last.switch;
        assert_eq!(last.to, End::Host(flow.spec.destination));
        let mut choices = path.choices.iter();
        for pair in taken.windows(2) {
            let next = &hops[pair[0].switch as usize][rack as usize];
            assert!(next.contains(&pair[1].switch), "{index}: {taken:?}");
            assert_eq!(pair[0].to, End::Switch(pair[1].switch));
            if next.len() > 1 {
                let choice = choices.next().unwrap();
                assert_eq!((choice.switch, choice.of), (pair[0].switch, next.len() as u32));
                assert!(choice.taken.unwrap() < choice.of);
            }
        }
        assert_eq!(choices.next(), None);
        used.extend(taken.iter().map(|hop| (hop.switch, hop.to)));
    }
    // Packets have gone where paths lead, and data nowhere else.
    for switch in 0..network.topology().switches.len() as u32 {
        for neighbour in (0..20).map(End::Switch).chain((0..16).map(End::Host)) {
            let Some(counters) = network.port_counters(switch, neighbour) else { continue };
            let has_data = counters.queue_bytes[3] > 10_000;
            assert!(!has_data || used.contains(&(switch, neighbour)), "{switch} {neighbour:?}");
        }
    }
}

#[test]
fn polarisation_is_seen_in_the_choices() {
    // By the choice of the first switch: those of the second.
    let second = |polarised: bool| {
        let mut config = NetworkConfig::new(fat_tree(8, CABLES));
        config.switch.polarised = polarised;
        config.flows = vec![FlowSpec::write(0, 127, 1); 200];
        let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for [source_port, path, ports, choices] in told(&Network::new(config).unwrap()) {
            assert!((0xc000..=0xffff).contains(&source_port.parse::<u32>().unwrap()));
            assert!(path.starts_with("h0 ") && path.ends_with(" h127"), "{path}");
            assert_eq!((path.split(' ').count(), ports.split(' ').count()), (7, 5));
            let choice = |choice: &str| choice.split_once(':').unwrap().1.to_owned();
            let (first, then) = choices.split_once(' ').unwrap();
            seen.entry(choice(first)).or_default().insert(choice(then));
        }
        seen.values().map(BTreeSet::len).collect::<Vec<_>>()
    };
    assert_eq!(second(false), [4; 4]);
    assert_eq!(second(true), [1; 4]);
}

#[test]
fn a_path_is_that_of_the_beginning_also_when_routes_change() {
    let us = |time| Time::ZERO + Span::from_us(time);
    let mut config = NetworkConfig::new(leaf_spine(2, 2, 1, CABLES, CABLES));
    let ends = [End::Switch(2), End::Switch(0)];
    config.faults = vec![Fault { at: us(100), kind: FaultKind::LinkDown { ends } }];
    config.reroute = Some(Span::from_us(10));
    let late = FlowSpec { start: us(200), ..FlowSpec::write(0, 1, 100_000) };
    config.flows = [[FlowSpec::write(0, 1, 100_000); 8], [late; 8]].concat();
    let mut network = Network::new(config).unwrap();
    let before: Vec<_> = (0..8).map(|flow| network.path_of(flow).unwrap()).collect();
    network.run(us(1_000));
    let after: Vec<_> = (0..8).map(|flow| network.path_of(flow).unwrap()).collect();
    assert_eq!(before, after);
    let spine = |path: &[String; 4]| path[1].split(' ').nth(2).unwrap().to_owned();
    let spines: Vec<String> = told(&network).iter().map(spine).collect();
    assert_eq!(spines[..8].iter().collect::<BTreeSet<_>>().len(), 2, "{spines:?}");
    assert_eq!(spines[8..].iter().collect::<BTreeSet<_>>().len(), 1, "{spines:?}");
}

#[test]
fn sprayed_flows_have_no_path_and_say_where() {
    let mut config = NetworkConfig::new(leaf_spine(2, 4, 1, CABLES, CABLES));
    config.switch.balance = Balance::Packet;
    config.flows = vec![FlowSpec::write(0, 1, 100_000)];
    let [_, path, ports, choices] = told(&Network::new(config).unwrap()).remove(0);
    assert_eq!((&*path, &*ports, &*choices), ("", "", "leaf0:*/4"));
}
