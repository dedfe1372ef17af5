//! TCP beside RDMA.

use rdma::{Rate, Span, Time};

use super::{finish, with_flows};
use crate::check::Check;
use crate::counters::Drop;
use crate::fault::{DropRule, Fault, FaultKind};
use crate::scenario::Scenario;
use crate::switch::config::Threshold;
use crate::tcp::{KernelLatency, TcpConfig, TcpCongestion};
use crate::topology::{Cables, End, leaf_spine, single_switch};
use crate::workload::{FlowSpec, Service, Verb};
use crate::{Network, NetworkConfig, Verdict};

const AT_ONCE: KernelLatency = KernelLatency { floor: Span::ZERO, mean: Span::ZERO };

fn cables() -> Cables {
    Cables::new(Rate::from_gbps(40), 20)
}

/// Messages over TCP in the lossy class of DSCP 0.
fn tcp(source: u32, destination: u32, message_bytes: u32) -> FlowSpec {
    let flow = FlowSpec::write(source, destination, message_bytes);
    FlowSpec { service: Service::Tcp, verb: Verb::Send, dscp: 0, ..flow }
}

fn percentile(latencies: &[u64], part: f64) -> f64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() as f64 * part) as usize] as f64 / 1e6
}

#[test]
fn a_connection_alone_fills_its_link() {
    for congestion in [TcpCongestion::Reno, TcpCongestion::Cubic] {
        let mut config = NetworkConfig::new(single_switch(2, cables()));
        config.nic.tcp.congestion = congestion;
        config.nic.tcp.kernel = AT_ONCE;
        config.flows = vec![tcp(0, 1, 1 << 20).endless()];
        let mut network = Network::new(config).unwrap();
        network.run(Time::ZERO + Span::from_ms(10));
        assert_eq!(network.host_connections(0), Some(1));
        let gbps = network.flows()[0].bytes() as f64 * 8.0 / 10e-3 / 1e9;
        // 1,460 of 1,538 bytes on the wire.
        let expected = 40.0 * 1_460.0 / 1_538.0;
        assert!((0.9..=1.0).contains(&(gbps / expected)), "{congestion:?}: {gbps} of {expected}");
        assert_eq!((network.drops().total(), network.pause_frames()), (0, 0));
    }
}

#[test]
fn a_message_and_its_answer_take_what_the_kernels_of_both_ends_do() {
    let mut config = NetworkConfig::new(single_switch(2, cables()));
    let probe = FlowSpec { messages: Some(4_000), reply_bytes: Some(512), ..tcp(0, 1, 512) };
    config.flows = vec![FlowSpec { start: Time::ZERO + Span::from_us(50), ..probe }];
    let network = finish(config);
    let latencies = &network.flows()[0].latencies_ps;
    assert_eq!(latencies.len(), 4_000);
    let (p50, p99) = (percentile(latencies, 0.5), percentile(latencies, 0.99));
    // Four delays, and a microsecond of network.
    assert!((205.0..235.0).contains(&p50), "{p50} us");
    assert!((460.0..540.0).contains(&p99), "{p99} us");
}

#[test]
fn a_lossy_class_of_tcp_alone_is_nothing_to_warn_of() {
    let text = include_str!("../../../../scenarios/latency-under-load.toml");
    let warnings = |text: &str| {
        let scenario = Scenario::parse(text, None).unwrap();
        Check::new(&scenario).warnings().len()
    };
    assert_eq!(warnings(text), 0);
    assert!(warnings(&text.replace("service = \"tcp\"", "dscp = 0")) > 0);
}

#[test]
fn segments_that_are_lost_are_sent_again() {
    let mut config = NetworkConfig::new(single_switch(2, cables()));
    config.nic.tcp.kernel = AT_ONCE;
    let rule = DropRule::Every(300);
    let kind = FaultKind::LinkRule { from: End::Host(0), to: End::Switch(0), rule };
    config.faults.push(Fault { at: Time::ZERO, kind });
    let network = finish(with_flows(config, vec![tcp(0, 1, 8 << 20)]));
    assert!(network.drops().of(Drop::Rule) > 15);
    assert_eq!(network.flows()[0].completed, 1);
}

#[test]
fn an_incast_over_tcp_drops_and_one_over_rdma_pauses() {
    let run = |flow: fn(u32) -> FlowSpec| {
        let mut config = NetworkConfig::new(single_switch(21, cables()));
        config.nic.tcp.kernel = AT_ONCE;
        config.switch.buffer_bytes = 6_000_000;
        for queue in &mut config.switch.queues {
            queue.limit = Some(Threshold::Static { bytes: 300_000 });
        }
        config.flows = (0..20).map(flow).collect();
        let mut network = Network::new(config).unwrap();
        // A sender that knows little of round trips waits for most of a second.
        assert_eq!(network.run(Time::ZERO + Span::from_ms(60_000)), Verdict::Finished);
        network
    };
    let over_tcp =
        run(|from| FlowSpec { start: Time::ZERO + Span::from_us(100), ..tcp(from, 20, 200_000) });
    assert!(over_tcp.drops().of(Drop::QueueLimit) > 0);
    assert_eq!(over_tcp.pause_frames(), 0);
    let over_rdma = run(|from| FlowSpec::write(from, 20, 200_000));
    assert_eq!(over_rdma.drops().total(), 0);
    assert!(over_rdma.pause_frames() > 0);
    // Who lost the end of a message waits for a timeout; nobody does over RDMA.
    let slowest = |network: &Network| {
        network.flows().iter().map(|flow| flow.latencies_ps[0]).max().unwrap_or(0) / 1_000_000
    };
    assert!(slowest(&over_tcp) > 5_000, "{} us", slowest(&over_tcp));
    assert!(slowest(&over_rdma) < 1_500, "{} us", slowest(&over_rdma));
}

#[test]
fn rdma_in_a_queue_of_its_own_leaves_tcp_alone() {
    // guo16, figure 8: TCP's tail does not change when RDMA fills the links.
    let p99 = |load: bool| {
        let mut config = NetworkConfig::new(leaf_spine(2, 2, 3, cables(), cables()));
        let probe = FlowSpec { messages: Some(600), reply_bytes: Some(512), ..tcp(0, 3, 512) };
        config.flows = vec![FlowSpec { start: Time::ZERO + Span::from_us(50), ..probe }];
        if load {
            for from in [1, 2] {
                let flow = FlowSpec::write(from, from + 3, 1 << 20).endless();
                config.flows.extend([flow; 4]);
            }
        }
        let network = finish(config);
        percentile(&network.flows()[0].latencies_ps, 0.99)
    };
    let (idle, loaded) = (p99(false), p99(true));
    assert!((loaded / idle - 1.0).abs() < 0.05, "{idle} us, {loaded} us");
}

#[test]
fn headroom_is_made_for_the_frames_of_tcp_where_there_are_any() {
    // Host 2 stops for good, and what comes for it stays in the switch: TCP in a lossless class, or
    // RDMA there, whose pauses wait on their way behind TCP of a lossy class.
    let lossless = FlowSpec { dscp: 3, ..tcp(0, 2, 1 << 20).endless() };
    let rdma = FlowSpec::write(0, 2, 8 << 20).endless();
    let against = FlowSpec { dscp: 0, ..tcp(1, 0, 1 << 20).endless() };
    for flows in [vec![rdma, against, against], vec![lossless; 8]] {
        for step in 0..20 {
            let mut config = NetworkConfig::new(single_switch(3, cables()));
            config.nic.tcp = TcpConfig { mtu_bytes: 9_000, kernel: AT_ONCE, ..config.nic.tcp };
            config.nic.ack_interval_packets = 1_000;
            config.switch.groups[3].threshold = Threshold::Static { bytes: 50_000 };
            let at = Time::ZERO + Span::from_us(1_000) + Span::from_ns(317) * step;
            config.faults.push(Fault { at, kind: FaultKind::NicStuck { host: 2 } });
            let mut network = Network::new(with_flows(config, flows.clone())).unwrap();
            network.run(at + Span::from_us(500));
            assert_eq!(network.drops().of(Drop::Headroom), 0, "{step}");
            let counters = network.port_counters(0, End::Host(0)).unwrap();
            assert!(counters.pause.sent[3] > 0, "{step}");
        }
    }
}

#[test]
fn the_same_network_gives_the_same_latencies_again() {
    let run = || {
        let mut config = NetworkConfig::new(single_switch(9, cables()));
        config.switch.buffer_bytes = 3_000_000;
        config.flows = (0..8)
            .map(|from| FlowSpec { messages: Some(4), ..tcp(from, 8, 100_000) })
            .chain([FlowSpec::write(0, 8, 1 << 20)])
            .collect();
        let network = finish(config);
        let latencies: Vec<_> =
            network.flows().iter().map(|flow| flow.latencies_ps.clone()).collect();
        (latencies, network.events(), network.link_hops())
    };
    assert_eq!(run(), run());
}
