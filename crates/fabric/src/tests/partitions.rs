//! A network gives the same results however it is divided, and on however many threads.

use core::fmt::Write as _;

use rdma::{Rate, Span, Time};
use telemetry::Table;
use transport::Recovery;
use transport::congestion::{Congestion, Dcqcn, Hpcc};

use super::CABLES;
use crate::capture::Capture;
use crate::fault::{DropRule, Fault, FaultKind};
use crate::random::Random;
use crate::record::{Next, Samples, run};
use crate::report::Report;
use crate::switch::config::{EcnConfig, Incomplete, WatchdogAction, WatchdogConfig, WatchdogRule};
use crate::topology::{Cables, End, fat_tree, leaf_spine};
use crate::workload::{
    Algorithm, Collective, FlowSpec, Job, Operation, Queries, Service, Size, SizeDistribution,
    Verb, all_to_all, permutation, poisson, probes, queries,
};
use crate::{Network, NetworkConfig, Verdict};

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

/// Everything that can be asked of a network that has run until `end`, in words.
fn results(config: &NetworkConfig, end: Time, partitions: u32, threads: u32) -> String {
    let config = NetworkConfig { partitions: Some(partitions), threads, ..config.clone() };
    let mut network = Network::new(config).unwrap();
    let verdict = network.run(end);
    let mut text = format!("{verdict:?} at {}\n", network.now());
    let counts = (network.link_hops(), network.pause_frames(), network.events());
    write!(text, "{counts:?} {:?}\n{:?}\n", network.drops(), network.flows()).unwrap();
    writeln!(text, "{:?}", network.delivered()).unwrap();
    for job in 0..network.jobs().len() {
        writeln!(text, "{:?}", network.repetitions(job)).unwrap();
    }
    for switch in 0..network.topology().switches.len() as u32 {
        writeln!(text, "{:?}", network.switch_counters(switch)).unwrap();
        writeln!(text, "{:?}", network.watchdog_counters(switch)).unwrap();
    }
    for host in 0..network.topology().hosts.len() as u32 {
        writeln!(text, "{:?}", network.host_pauses(host)).unwrap();
        writeln!(text, "{:?}", network.host_stats(host)).unwrap();
    }
    text
}

/// Every file that a recorded run leaves behind, by name.
fn records(
    config: &NetworkConfig,
    end: Time,
    partitions: u32,
    threads: u32,
) -> Vec<(&str, Vec<u8>)> {
    let config = NetworkConfig { partitions: Some(partitions), threads, ..config.clone() };
    let mut network = Network::new(config).unwrap();
    let mut samples = Samples::new(&network, end, Some(Span::from_us(7)));
    // Stretches of other lengths than those of partitions and samples.
    let next = |_: &Network| Next::Run(Span::from_ns(3_300));
    let verdict = run(&mut network, end, Some(&mut samples), next);
    let report = Report::new("records", &network, &verdict).with_samples(&samples);
    let parquet = |table: Table| {
        let mut file = Vec::new();
        table.write_parquet(&mut file, &[]).unwrap();
        file
    };
    vec![
        ("summary", report.summary().into_bytes()),
        ("flows", parquet(report.flows())),
        ("samples", parquet(report.samples().unwrap())),
        ("counters", parquet(report.counters())),
        ("capture", report.capture().unwrap()),
        ("page", report.page().into_bytes()),
        ("jobs", report.jobs().map_or_else(Vec::new, parquet)),
    ]
}

/// Runs `config` in every division, and returns what all of them agree upon.
fn agreed(config: &NetworkConfig, end: Time) -> String {
    let whole = results(config, end, 1, 1);
    for (partitions, threads) in [(2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (4, 3), (4, 4)] {
        let divided = results(config, end, partitions, threads);
        let differs = whole.lines().zip(divided.lines()).find(|(a, b)| a != b);
        assert!(whole == divided, "{partitions} partitions, {threads} threads: {differs:#?}");
    }
    whole
}

fn marks_and_pauses() -> NetworkConfig {
    let mut config = NetworkConfig::new(fat_tree(4, CABLES));
    let line_rate = Rate::from_gbps(100);
    config.nic.congestion = Congestion::Dcqcn(Dcqcn { line_rate, ..Dcqcn::paper() });
    config.switch.buffer_bytes = 2_000_000;
    for queue in &mut config.switch.queues {
        queue.ecn = Some(EcnConfig { min_bytes: 10_000, max_bytes: 80_000, max_probability: 0.2 });
    }
    let sizes = SizeDistribution::new(vec![(100, 0.5), (30_000, 0.9), (200_000, 1.0)]).unwrap();
    config.flows = poisson(16, line_rate, 0.7, &sizes, us(150), &mut Random::new(4));
    config.share_queue_pairs = true;
    config
}

#[test]
fn marks_and_pauses_under_many_flows() {
    let text = agreed(&marks_and_pauses(), us(400));
    assert!(text.contains("np_cnp_sent: 1"), "nothing was marked");
}

#[test]
fn frames_that_are_cut_through() {
    let mut config = marks_and_pauses();
    let stored = results(&config, us(400), 1, 1);
    config.switch.cut_through = true;
    config.paranoid = true;
    assert_ne!(agreed(&config, us(400)), stored);
}

#[test]
fn what_switches_write_into_packets_and_what_is_told_of_it() {
    let mut config = marks_and_pauses();
    config.nic.congestion = Congestion::Hpcc(Hpcc::default()).at_rate(Rate::from_gbps(100));
    config.nic.read_chunk_bytes = 10_000;
    config.flows.iter_mut().step_by(4).for_each(|flow| flow.verb = Verb::Read);
    config.paranoid = true;
    let text = agreed(&config, us(400));
    config.nic.congestion = Congestion::None;
    assert_ne!(text, results(&config, us(400), 1, 1));
}

#[test]
fn everybody_at_once_to_everybody() {
    // No chance anywhere: hundreds of events at each time.
    let mut config = NetworkConfig::new(fat_tree(4, CABLES));
    config.switch.buffer_bytes = 1_000_000;
    config.flows = all_to_all(16, 20_000);
    config.flows.iter_mut().step_by(3).for_each(|flow| flow.verb = Verb::Read);
    config.flows.iter_mut().skip(1).step_by(5).for_each(|flow| {
        (flow.verb, flow.reply_bytes, flow.messages) = (Verb::Send, Some(3_000), Some(3));
    });
    let text = agreed(&config, us(5_000));
    assert!(text.starts_with("Finished"), "{}", &text[..30]);
    assert!(text.contains("Drops { counts: [0, 0"), "lossless");
}

#[test]
fn jobs_side_by_side() {
    let mut config = NetworkConfig::new(fat_tree(4, CABLES));
    config.switch.buffer_bytes = 1_000_000;
    let mut random = Random::new(6);
    for (operation, algorithm) in [
        (Operation::AllReduce, Algorithm::Ring),
        (Operation::AllReduce, Algorithm::Tree),
        (Operation::AllReduce, Algorithm::Hierarchical),
        (Operation::AllToAll, Algorithm::Direct),
    ] {
        let of = Collective { operation, algorithm, ranks: 16, bytes: 300_000 };
        let size = Size { chunk_bytes: 9_000, channels: 2, group: 4 };
        let mut hosts: Vec<u32> = (0..16).collect();
        random.shuffle(&mut hosts);
        let job = Job::new(of.to_string(), of.schedule(size).unwrap(), hosts);
        let compute = Span::from_us(7);
        config.add_job(Job { repeat: 3, compute, collective: Some(of), ..job });
    }
    let text = agreed(&config, us(50_000));
    assert!(text.starts_with("Finished"), "{}", &text[..30]);
    config.captures = vec![Capture {
        node: End::Switch(0),
        neighbour: None,
        snap_bytes: Some(90),
        priorities: 0xff,
    }];
    let whole = records(&config, us(300), 1, 1);
    for (one, other) in whole.iter().zip(records(&config, us(300), 4, 2)) {
        assert!(*one == other, "{}", one.0);
    }
}

#[test]
fn faults_at_links_and_hosts() {
    let mut config = NetworkConfig::new(fat_tree(4, CABLES));
    config.nic.recovery = Recovery::SelectiveRepeat;
    config.nic.ack_timeout_code = 4;
    config.nic.watchdog = Some(Span::from_us(90));
    config.switch.watchdog = Some(WatchdogConfig {
        poll: Span::from_us(10),
        detection: Span::from_us(60),
        restoration: Span::from_us(50),
        rule: WatchdogRule::Guo16,
        action: WatchdogAction::Drop,
    });
    config.switch.buffer_bytes = 1_000_000;
    config.flows = permutation(16, 3_000_000, &mut Random::new(2));
    config.flows.extend((1..9).map(|host| FlowSpec::write(host, 0, 1 << 20).endless()));
    let network = Network::new(config.clone()).unwrap();
    let find = |name| network.topology().find(name).unwrap();
    // Both ends of this link are in different partitions, in most divisions.
    let ends = [find("leaf0-0"), find("spine1")];
    let at = |time, kind| Fault { at: us(time), kind };
    config.faults = vec![
        at(0, FaultKind::LinkDamage { from: ends[1], to: ends[0], probability: 0.01 }),
        at(
            0,
            FaultKind::LinkRule {
                from: ends[0],
                to: find("spine0"),
                rule: DropRule::Chance(0.005),
            },
        ),
        at(31, FaultKind::LinkDown { ends }),
        at(74, FaultKind::LinkUp { ends }),
        at(40, FaultKind::NicStuck { host: 5 }),
        at(240, FaultKind::NicRepaired { host: 5 }),
        at(50, FaultKind::HostDies { host: 9, mac_aged: false }),
        at(55, FaultKind::HostReturns { host: 9 }),
    ];
    let text = agreed(&config, us(400));
    assert!(
        text.contains("detected: 1, restored: 1,"),
        "a switch's watchdog has found a storm, and its end"
    );
    assert!(!text.contains("Drops { counts: [0, 0, 0, 0, 0, 0"), "frames were damaged");
}

#[test]
fn what_is_recorded_does_not_depend_on_the_division() {
    let mut config = marks_and_pauses();
    let find = |name| config.topology.find(name).unwrap();
    let of = |node, neighbour| Capture { node, neighbour, snap_bytes: Some(90), priorities: 0xff };
    let (spine, leaf) = (find("spine0"), find("leaf0-0"));
    // The second is of the other end of a link of the first.
    config.captures = vec![of(spine, None), of(leaf, Some(spine)), of(find("h0"), None)];
    let ends = [spine, leaf];
    config.faults = vec![
        Fault { at: us(60), kind: FaultKind::LinkDown { ends } },
        Fault { at: us(90), kind: FaultKind::LinkUp { ends } },
    ];
    let whole = records(&config, us(250), 1, 1);
    assert!(whole.iter().all(|(name, file)| file.len() > 500 || *name == "jobs"));
    for (partitions, threads) in [(2, 1), (4, 1), (4, 2)] {
        for (one, other) in whole.iter().zip(records(&config, us(250), partitions, threads)) {
            assert!(*one == other, "{}: {partitions} partitions, {threads} threads", one.0);
        }
    }
}

#[test]
fn a_deadlock_is_found_at_the_same_time() {
    let config = super::guo16::figure_4_config(Incomplete::Flood, true);
    let text = agreed(&config, us(100_000));
    assert!(text.starts_with("Deadlock"), "{}", &text[..100]);
}

#[test]
fn a_network_of_a_thousand_hosts_is_divided_and_one_of_short_links_is_not() {
    let hosts = |racks: u32, metres| {
        let cables = Cables::new(Rate::from_gbps(100), metres);
        let mut config = NetworkConfig::new(leaf_spine(racks, 1, 40, cables, cables));
        config.flows = vec![FlowSpec::write(0, racks * 40 - 1, 10_000)];
        let mut network = Network::new(config).unwrap();
        assert_eq!(network.run(us(1_000)), Verdict::Finished);
        (network.partitions(), network.port_counters(0, End::Switch(racks)).is_some())
    };
    assert_eq!(hosts(3, 200), (1, true));
    assert_eq!(hosts(26, 200), (26, true));
    assert_eq!(hosts(26, 5), (1, true));
}

#[test]
fn tcp_probes_and_queries_beside_each_other() {
    let mut config = NetworkConfig::new(fat_tree(4, CABLES));
    config.switch.buffer_bytes = 3_000_000;
    config.nic.host_memory = Some(crate::nic::HostMemory::default());
    let mut random = Random::new(8);
    let of = Queries {
        service: Service::Tcp,
        dscp: 0,
        query_bytes: 200,
        answer_bytes: 20_000,
        every: Span::from_us(200),
        count: None,
    };
    config.flows = queries(16, &[3, 12], 10, &of, &mut random);
    let pairs: Vec<_> = (0..16).map(|host| (host, (host + 5) % 16)).collect();
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        config.flows.extend(probes(&pairs, service, 3, Span::from_us(40), &mut random));
    }
    let text = agreed(&config, us(1_000));
    assert!(text.contains("completed: 24,"), "nothing was probed");
}
