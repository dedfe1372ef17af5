//! By how much a lab's time is diluted, and why: what this machine carries against what the links could.
//!
//! Before the lab begins, frames of a NIC's MTU cross a copy of its network, the longest way there is in it, for a
//! moment. Programs could at most send as much as the links of all hosts carry that no workload uses. If that is more
//! than the part of a processor that the lab counts on can do, its time goes slower than the wall's.

use core::time::Duration;
use std::time::Instant;

use fabric::topology::End;
use fabric::{BuildError, Network, NetworkConfig};
use rdma::{Psn, Qpn};
use wire::ethernet::{self, Address};
use wire::frame::{Frame, Ip};
use wire::{Opcode, roce};

use crate::limits::{SHARE, STRETCH};

/// How long is measured.
const MEASURED: Duration = Duration::from_millis(40);
/// What surrounds a payload on a link, in bytes: preamble, Ethernet, IP, UDP, BTH, ICRC, check sequence, gap.
const AROUND_BYTES: f64 = 8.0 + 14.0 + 20.0 + 8.0 + 12.0 + 4.0 + 4.0 + 12.0;

/// A factor, and what it follows from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Choice {
    pub(crate) factor: f64,
    /// `None` if it was set.
    pub(crate) reason: Option<Reason>,
}

/// Packets per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Reason {
    /// What this machine carried, on one processor.
    pub(crate) carried: f64,
    /// What programs could send.
    pub(crate) needed: f64,
}

impl Choice {
    /// What is set, or else what follows from a measurement.
    pub(crate) fn make(set: Option<f64>, config: &NetworkConfig) -> Result<Self, BuildError> {
        if let Some(factor) = set {
            return Ok(Self { factor, reason: None });
        }
        let needed = needed(config);
        let Some(carried) = carried(config)? else {
            return Ok(Self { factor: 1.0, reason: None });
        };
        Ok(Self { factor: factor(carried, needed), reason: Some(Reason { carried, needed }) })
    }
}

/// Rounded up to two digits, so that it is said as it is.
fn factor(carried: f64, needed: f64) -> f64 {
    let least = needed / (carried * SHARE);
    if least <= 1.0 {
        return 1.0;
    }
    // A tenth of a whole number is said as it is, and so many times 0.1 is not.
    match least.log10().floor() {
        0.0 => (least * 10.0).ceil() / 10.0,
        digits => {
            let unit = 10_f64.powf(digits - 1.0);
            (least / unit).ceil() * unit
        }
    }
}

/// What the links of hosts without workload carry in packets of their NICs' MTUs.
fn needed(config: &NetworkConfig) -> f64 {
    let is_used =
        |host: u32| config.flows.iter().any(|at| at.source == host || at.destination == host);
    let rates = config.topology.links.iter().filter_map(|link| {
        let host = link.ends.iter().find_map(|end| match end {
            End::Host(host) => Some(*host),
            End::Switch(_) => None,
        })?;
        let mtu = config.nics.get(&host).unwrap_or(&config.nic).mtu.bytes();
        let bits = 8.0 * (f64::from(mtu) + AROUND_BYTES);
        (!is_used(host)).then(|| link.rate.as_bps() as f64 / bits)
    });
    // The sum of no numbers is -0.0, which would be said as it is.
    rates.sum::<f64>() + 0.0
}

/// What this machine carries through a copy of the network; `None` if it has fewer hosts than two.
fn carried(config: &NetworkConfig) -> Result<Option<f64>, BuildError> {
    let hosts = config.topology.hosts.len() as u32;
    let (source, destination) = (0, hosts.saturating_sub(1));
    let mut network = Network::new(config.clone())?;
    network.attach_hosts();
    let mtu = network.host_nic(source).map_or(1_024, |nic| nic.mtu.bytes());
    if source == destination {
        return Ok(None);
    }
    let frame = frame(&network, [source, destination], mtu);
    let begin = Instant::now();
    let (mut sent, mut came) = (0_u64, 0_u64);
    while begin.elapsed() < MEASURED {
        for _ in 0..8 {
            if sent - came < 1_000 && network.send_frame(source, &frame, 0).is_ok() {
                sent += 1;
            }
        }
        network.live_until(network.now() + STRETCH);
        network.take_frames(destination, |_| {
            came += 1;
            true
        });
        network.frames_left().for_each(drop);
        if came == 0 && begin.elapsed() > MEASURED / 2 {
            return Ok(None);
        }
    }
    Ok((came > 0).then(|| came as f64 / begin.elapsed().as_secs_f64()))
}

fn frame(network: &Network, ends: [u32; 2], mtu: u32) -> Vec<u8> {
    let [(source, _), (destination, _)] = ends.map(|host| network.host_addresses(host));
    let payload = vec![0; mtu as usize];
    let frame = Frame {
        source: Address([0; 6]),
        destination: Address([0; 6]),
        vlan: None,
        ip: Ip::V4 { source, destination, tos: 0, id: 0, dont_fragment: true, ttl: 64 },
        source_port: 0xc000,
        roce: roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::new(2), Psn::new(0)),
        payload: &payload,
    };
    frame.to_vec().split_off(ethernet::HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::topology::{Cables, single_switch};
    use fabric::workload::FlowSpec;
    use rdma::Rate;

    #[test]
    fn time_is_diluted_where_the_links_carry_more_than_the_machine() {
        assert_eq!(factor(300_000.0, 100_000.0), 1.0);
        assert_eq!(factor(300_000.0, 150_000.0), 1.0);
        assert_eq!(factor(300_000.0, 1_000_000.0), 6.7);
        assert_eq!(factor(100_000.0, 12_340_000.0), 250.0);
        assert_eq!(factor(2_005_000.0, 2_260_000.0).to_string(), "2.3");
    }

    #[test]
    fn what_programs_could_send_is_what_links_carry_that_no_workload_uses() {
        let mut config = NetworkConfig::new(single_switch(4, Cables::new(Rate::from_gbps(1), 2)));
        let each = 1e9 / 8.0 / (1_024.0 + AROUND_BYTES);
        assert!((needed(&config) - 4.0 * each).abs() < 1.0);
        config.flows = vec![FlowSpec::write(0, 1, 1)];
        assert!((needed(&config) - 2.0 * each).abs() < 1.0);
    }

    #[test]
    fn a_machine_carries_something_and_a_network_of_one_host_nothing() {
        let mut config = NetworkConfig::new(single_switch(2, Cables::new(Rate::from_gbps(10), 2)));
        config.partitions = Some(1);
        assert!(carried(&config).unwrap().is_some_and(|rate| rate > 1_000.0));
        config.topology = single_switch(1, Cables::new(Rate::from_gbps(10), 2));
        assert_eq!(carried(&config).unwrap(), None);
    }
}
