//! What a network takes of the heap. In a program of its own, for nobody else may allocate meanwhile.

use std::alloc::System;

use fabric::topology::{Cables, fat_tree};
use fabric::{Network, NetworkConfig};
use rdma::Rate;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are in use.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn an_idle_host_takes_less_than_ten_kilobytes_with_its_part_of_all_switches() {
    let topology = fat_tree(16, Cables::new(Rate::from_gbps(100), 200));
    let hosts = topology.hosts.len();
    let before = heap();
    let network = Network::new(NetworkConfig::new(topology)).unwrap();
    let bytes = (heap() - before) / hosts;
    assert_eq!((hosts, network.link_hops()), (1_024, 0));
    assert!(bytes < 10_240, "{bytes} bytes");
}
