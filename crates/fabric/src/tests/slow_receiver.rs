//! guo16, 4.4: a NIC whose translation table is too small for the memory that others write to.

use rdma::{Rate, Span, Time};

use crate::nic::{HostMemory, Pcie};
use crate::switch::config::Threshold;
use crate::topology::{Cables, End, leaf_spine, single_switch};
use crate::workload::{FlowSpec, Verb};
use crate::{Network, NetworkConfig};

const SMALL: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;

fn ms(time: u64) -> Time {
    Time::ZERO + Span::from_ms(time)
}

fn cables() -> Cables {
    Cables::new(Rate::from_gbps(40), 2)
}

/// WRITEs of 1 KB at 40 Gb/s, to places taken at random from `spread_bytes`: pauses that the server
/// sends in ten milliseconds, once its caches are warm, and the part of its lookups that missed.
fn written_to(page_bytes: u64, spread_bytes: u64) -> (u64, f64) {
    let mut config = NetworkConfig::new(single_switch(2, cables()));
    config.nic.host_memory = Some(HostMemory { page_bytes, ..HostMemory::default() });
    let flow = FlowSpec::write(0, 1, 1_024).endless();
    config.flows = vec![FlowSpec { depth: 256, spread_bytes: Some(spread_bytes), ..flow }];
    let mut network = Network::new(config).unwrap();
    network.run(ms(10));
    let (pauses, caches) = (network.host_pauses(1).unwrap(), network.host_caches(1).unwrap());
    network.run(ms(20));
    assert_eq!(network.drops().total(), 0);
    let after = network.host_caches(1).unwrap();
    let looked = after.mtt_lookups - caches.mtt_lookups;
    let missed = (after.mtt_misses - caches.mtt_misses) as f64 / looked as f64;
    (network.host_pauses(1).unwrap().sent[3] - pauses.sent[3], missed)
}

#[test]
fn pauses_begin_where_the_memory_is_larger_than_what_the_translations_cover() {
    // 2,048 pages of 4 KB are 8 MB: up to there nothing ever misses.
    for spread in [4 << 20, 8 << 20] {
        assert_eq!(written_to(SMALL, spread), (0, 0.0), "{spread}");
    }
    // Beyond, 1 - 8 MB / spread of all packets miss. A packet comes every 224 ns, and a miss takes
    // 550: from 40 % on, the NIC falls behind.
    let (pauses, missed) = written_to(SMALL, 10 << 20);
    assert!((0.18..0.22).contains(&missed) && pauses == 0, "{pauses} {missed}");
    for spread in [16u64 << 20, 64 << 20, 1 << 30] {
        let (pauses, missed) = written_to(SMALL, spread);
        let expected = 1.0 - f64::from(8 << 20) / spread as f64;
        assert!((missed - expected).abs() < 0.02, "{spread}: {missed} of {expected}");
        // Thousands a second.
        assert!(pauses > 20, "{spread}: {pauses}");
    }
}

#[test]
fn large_pages_cover_four_gigabytes() {
    for spread in [64 << 20, 1 << 30] {
        let (pauses, missed) = written_to(LARGE, spread);
        assert_eq!((pauses, missed), (0, 0.0), "{spread}");
    }
    let (pauses, missed) = written_to(LARGE, 16 << 30);
    assert!(pauses > 20 && missed > 0.5, "{pauses} {missed}");
}

/// Bursts that the server takes its time with, from two servers of another rack: the pauses that its
/// ToR passes on to the leaf, and when the last burst was done.
fn bursts(threshold: Threshold) -> (u64, u64, Time) {
    let mut config = NetworkConfig::new(leaf_spine(2, 1, 3, cables(), cables()));
    config.nic.host_memory = Some(HostMemory::default());
    config.switch.groups[3].threshold = threshold;
    for burst in 0..40 {
        for from in [3, 4] {
            let flow = FlowSpec::write(from, 0, 1_024);
            config.flows.push(FlowSpec {
                messages: Some(200),
                depth: 200,
                start: Time::ZERO + Span::from_us(300 * burst),
                spread_bytes: Some(1 << 30),
                ..flow
            });
        }
    }
    let mut network = Network::new(config).unwrap();
    assert_eq!(network.run(ms(100)), crate::Verdict::Finished);
    let from_server = network.host_pauses(0).unwrap().sent[3];
    let upstream = network.port_counters(0, End::Switch(2)).unwrap().pause.sent[3];
    (from_server, upstream, network.now())
}

#[test]
fn a_switch_that_shares_its_buffer_passes_fewer_pauses_on() {
    let (pauses, fixed, slow) = bursts(Threshold::Static { bytes: 40_000 });
    assert!(pauses >= 40 && fixed >= 40, "{pauses} {fixed}");
    let (pauses, shared, fast) = bursts(Threshold::Dynamic { exponent: -4 });
    assert!(pauses >= 40, "{pauses}");
    assert!(shared < fixed / 4, "{shared} of {fixed}");
    assert!(fast <= slow, "{fast} {slow}");
}

#[test]
fn a_bus_that_is_slower_than_its_link_is_the_bottleneck_both_ways() {
    for (verb, slow) in [(Verb::Write, 1), (Verb::Write, 0), (Verb::Read, 1), (Verb::Read, 0)] {
        let mut config = NetworkConfig::new(single_switch(2, cables()));
        let pcie = Pcie { rate: Rate::from_gbps(16), ..Pcie::default() };
        let mut nic = config.nic.clone();
        nic.host_memory = Some(HostMemory { pcie, ..HostMemory::default() });
        config.nics.insert(slow, nic);
        config.flows = vec![FlowSpec { verb, ..FlowSpec::write(0, 1, 1 << 20).endless() }];
        let mut network = Network::new(config).unwrap();
        network.run(ms(10));
        let gbps = network.flows()[0].bytes() as f64 * 8.0 / 10e-3 / 1e9;
        let expected = 16.0 * 1_024.0 / 1_120.0;
        assert!((gbps / expected - 1.0).abs() < 0.08, "{verb:?} {slow}: {gbps} of {expected}");
        assert_eq!(network.drops().total(), 0);
    }
}

#[test]
fn more_queue_pairs_than_contexts_cost_a_read_each() {
    let misses = |queue_pairs: usize| {
        let mut config = NetworkConfig::new(single_switch(2, cables()));
        config.nic.host_memory = Some(HostMemory { qpc_entries: 64, ..HostMemory::default() });
        let flow = FlowSpec { depth: 1, ..FlowSpec::write(0, 1, 64).endless() };
        config.flows = vec![flow; queue_pairs];
        let mut network = Network::new(config).unwrap();
        network.run(ms(1));
        let caches = network.host_caches(1).unwrap();
        caches.qpc_misses as f64 / caches.qpc_lookups as f64
    };
    assert!(misses(32) < 0.01);
    // The acknowledgement finds what the packet has fetched.
    let missed = misses(256);
    assert!((0.45..0.55).contains(&missed), "{missed}");
}

#[test]
fn a_nic_that_needs_time_for_work_requests_sends_so_many_messages() {
    let mut config = NetworkConfig::new(single_switch(2, cables()));
    config.nic.transmit = Span::from_ns(50);
    config.nic.work_request = Span::from_ns(150);
    config.flows = vec![FlowSpec { depth: 64, ..FlowSpec::write(0, 1, 64).endless() }];
    let mut network = Network::new(config).unwrap();
    network.run(ms(2));
    // The receiver makes acknowledgements in 50 ns.
    let rate = network.flows()[0].completed as f64 / 2e-3;
    assert!((rate * 200e-9 - 1.0).abs() < 0.02, "{rate} messages a second");
}
