//! Samples of a simulated network, as its switches and NICs would count them.

use fabric::counters::PauseCounters;
use fabric::topology::End;
use fabric::{Network, NetworkConfig};

use super::port::{PRIORITIES, PortName, Role};
use super::sample::{PoolSample, PortSample, Sample};

/// Whether switches of `config` mark at all: of those that do not, marks are not counted.
pub fn ecn_configured(config: &NetworkConfig) -> bool {
    let switches = config.switches.values().chain([&config.switch]);
    switches.flat_map(|switch| &switch.queues).any(|queue| queue.ecn.is_some())
}

/// All ports of `network`, now. With `marks`, switches count what they mark.
pub fn sample(network: &Network, marks: bool) -> Sample {
    let topology = network.topology();
    let mut sample = Sample::default();
    for switch in 0..topology.switches.len() as u32 {
        for (neighbour, counters) in network.switch_counters(switch) {
            let role = if matches!(neighbour, End::Host(_)) { Role::Nic } else { Role::Switch };
            let peer = topology.name(neighbour).to_owned();
            let name = PortName::new(topology.name(End::Switch(switch)), &peer);
            let mut port = PortSample {
                role: Role::Switch,
                peer: Some((peer, role)),
                ..PortSample::default()
            };
            pauses(&mut port, &counters.pause);
            for (index, queue) in port.queues.iter_mut().enumerate() {
                queue.sent_packets = Some(counters.queue_packets[index]);
                queue.sent_bytes = Some(counters.queue_bytes[index]);
                queue.received_bytes = Some(counters.group_bytes[index]);
                queue.waiting_bytes = network.queue_bytes(switch, neighbour, index).map(u64::from);
                queue.dropped = Some(counters.queue_dropped[index] + counters.group_dropped[index]);
                queue.marked = marks.then_some(counters.queue_marked[index]);
                queue.group_peak_bytes = Some(counters.group_peak_bytes[index]);
            }
            port.storm_events = Some(counters.watchdog.detected);
            sample.ports.insert(name, port);
        }
        sample.pools.insert(topology.name(End::Switch(switch)).to_owned(), pool(network, switch));
    }
    for host in 0..topology.hosts.len() as u32 {
        let mut port = PortSample::default();
        if let Some(counters) = network.host_pauses(host) {
            pauses(&mut port, &counters);
        }
        for stats in network.host_stats(host) {
            let add = |sum: &mut Option<u64>, value: u64| *sum = Some(sum.unwrap_or(0) + value);
            add(&mut port.sent_bytes, stats.sent_bytes);
            add(&mut port.received_bytes, stats.rcvd_bytes);
            add(&mut port.marked, stats.np_ecn_marked_roce_packets);
            add(&mut port.cnps_sent, stats.np_cnp_sent);
            add(&mut port.cnps_handled, stats.rp_cnp_handled);
            add(&mut port.retransmissions, stats.retransmitted_pkts);
        }
        // Its engines do not say of which priority; a pause of one that receives nothing at all is a storm.
        for queue in &mut port.queues {
            queue.received_bytes = port.received_bytes;
        }
        sample.ports.insert(PortName::new(topology.name(End::Host(host)), "1"), port);
    }
    sample
}

/// The memory of a switch.
pub fn pool(network: &Network, switch: u32) -> PoolSample {
    let size = network.shared_bytes(switch).map(u64::from);
    let peak = size.map(|size| size.saturating_sub(network.least_free_bytes(switch)));
    PoolSample { size_bytes: size, peak_bytes: peak }
}

fn pauses(port: &mut PortSample, counters: &PauseCounters) {
    for index in 0..PRIORITIES {
        let queue = &mut port.queues[index];
        queue.pauses_received = Some(counters.received[index] + counters.received_resume[index]);
        queue.pauses_sent = Some(counters.sent[index] + counters.sent_resume[index]);
        queue.paused_us = Some(counters.paused_ps[index] / 1_000_000);
        queue.transitions = Some(counters.transitions[index]);
    }
}
