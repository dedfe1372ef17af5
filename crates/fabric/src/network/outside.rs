//! Programs outside: the network lives on by a clock that is theirs, and passes on what they send.
//!
//! ```text
//!   send_frame ─► NIC of the host ─► live_until(now) ─► NIC of another host ─► take_frames
//! ```
//!
//! Whoever drives it says how far the time has come. What it is given in between is sent at the present.

use core::net::Ipv4Addr;
use std::collections::HashMap;

use rdma::{Span, Time};

use super::{BuildError, Cycle, Network, STEP, Verdict};
use crate::address::{Tuple, address_of, hash_of, mac_of_host};
use crate::fault::{Fault, FaultKind};
use crate::host::attached::{self, Left, Refused};
use crate::nic::NicConfig;
use crate::pfc::PRIORITIES;

/// Source ports of the packets between two hosts that equal-cost paths tell apart: a power of two.
const ENTROPY: u16 = 64;

/// The tuples of packets from outside, by source, destination and what is told apart of the source port.
pub(super) type Tuples = HashMap<(u32, u32, u16), u32>;

impl Network {
    /// Attaches every host that has no model to programs outside. To be called before it runs.
    ///
    /// Returns how many those are. A network that is divided has none: make it with
    /// [`NetworkConfig::partitions`](crate::NetworkConfig::partitions) 1.
    pub fn attach_hosts(&mut self) -> usize {
        let hosts = 0..self.topology.hosts.len() as u32;
        if self.partitions.len() != 1 {
            return 0;
        }
        self.finite = false;
        hosts.filter(|&host| self.host_mut(host).attach()).count()
    }

    /// Sends a packet of a program, from its IP header to its ICRC, by the NIC of `host`, as soon as it may.
    ///
    /// # Errors
    /// Why it is not sent.
    pub fn send_frame(&mut self, host: u32, bytes: &[u8], owner: u32) -> Result<(), Refused> {
        let hosts = self.topology.hosts.len() as u32;
        if host >= hosts || self.partitions.len() != 1 {
            return Err(Refused::Host);
        }
        let parsed = attached::parse(bytes, host, hosts)?;
        let tuple = self.tuple_of(host, parsed.destination, parsed.source_port);
        let port = self.host_port(host);
        let (host, links, _) = self.partitions[0].host_at(port);
        host.send_frame(links, bytes, (&parsed, tuple), owner);
        Ok(())
    }

    /// The tuple of packets between two hosts. Those of all source ports that are told apart are made at once,
    /// because a list of tuples that grows is a new one.
    fn tuple_of(&mut self, source: u32, destination: u32, source_port: u16) -> u32 {
        let class = source_port % ENTROPY;
        if let Some(&tuple) = self.outside.get(&(source, destination, class)) {
            return tuple;
        }
        let mut tuples = self.common.tuples.to_vec();
        for class in 0..ENTROPY {
            self.outside.insert((source, destination, class), tuples.len() as u32);
            let hash = hash_of(source, destination, class);
            tuples.push(Tuple { source, destination, source_port: class, hash });
        }
        self.common.tuples = tuples.into();
        self.partitions[0].links.common = self.common.clone();
        self.outside[&(source, destination, class)]
    }

    /// The addresses of a host, IP and MAC.
    pub fn host_addresses(&self, host: u32) -> (Ipv4Addr, [u8; 6]) {
        (address_of(host), mac_of_host(host).0)
    }

    /// The settings of a host's NIC; `None` if there is no such host.
    pub fn host_nic(&self, host: u32) -> Option<&NicConfig> {
        self.nic_config(host)
    }

    /// Shows `take` what has come for programs at `host`, oldest first, until it takes one no more: that one stays,
    /// and those behind it. A receive buffer that fills so pauses its switch.
    pub fn take_frames(&mut self, host: u32, take: impl FnMut(&[u8]) -> bool) {
        let port = self.host_port(host);
        let (host, links, _) = self.partitions[0].host_at(port);
        host.take_frames(links, take);
    }

    /// What has left the NICs of all hosts since this was last asked.
    pub fn frames_left(&mut self) -> impl Iterator<Item = Left> {
        self.partitions
            .iter_mut()
            .flat_map(|partition| &mut partition.hosts)
            .flat_map(|at| at.left())
    }

    /// By priority: bytes of programs' packets that wait for the port of `host`, or for the end of a pause.
    pub fn frames_waiting(&self, host: u32) -> [u64; PRIORITIES] {
        let links = &self.partitions[0].links;
        self.host(host).map_or([0; PRIORITIES], |host| host.waiting(links))
    }

    /// Lets the network live until `end`, that moment included, whatever its flows have done or not. Says which
    /// deadlocks were found.
    pub fn live_until(&mut self, end: Time) -> Vec<Cycle> {
        let mut found = Vec::new();
        self.exchange_flows();
        let end = end.as_ps();
        while self.past <= end {
            let fault_at = self.faults.get(self.faults_done).map(|fault| fault.at.as_ps());
            let next = self.next_at().into_iter().chain(fault_at).min().unwrap_or(u64::MAX);
            // Where nothing happens, the time is over at once.
            let from = next.max(self.past).min(end);
            let step = (from / STEP.as_ps() + 1) * STEP.as_ps();
            let stop =
                [Some(step), Some(end.saturating_add(1)), fault_at.filter(|&at| at > self.past)];
            let stop = stop.into_iter().flatten().min().unwrap_or(step);
            self.live(stop);
            (self.past, self.now) = (stop, stop);
            if let Some(Verdict::Deadlock(cycle)) = self.between() {
                found.push(cycle);
            }
        }
        self.exchange_flows();
        found
    }

    /// When something happens next; `None` if nothing will.
    pub fn next_event(&self) -> Option<Time> {
        let fault = self.faults.get(self.faults_done).map(|fault| fault.at.as_ps());
        self.next_at().into_iter().chain(fault).min().map(Time::from_ps)
    }

    /// What has gone wrong so far, oldest first.
    pub fn faults_so_far(&self) -> &[Fault] {
        &self.faults[..self.faults_done]
    }

    /// Does `kinds` to the network, each `after` from now. Where routing follows links, it does so as `reroute`
    /// says.
    ///
    /// # Errors
    /// A fault of a node or link that is not there; then none happens.
    pub fn add_faults(
        &mut self,
        kinds: &[(Span, FaultKind)],
        reroute: Option<Span>,
    ) -> Result<(), BuildError> {
        let now = Time::from_ps(self.past);
        let mut faults = Vec::new();
        for &(after, kind) in kinds {
            self.check_fault(faults.len(), kind)?;
            let at = now + after;
            faults.push(Fault { at, kind });
            if let Some(delay) = reroute.filter(|_| kind.is_of_link()) {
                faults.push(Fault { at: at + delay, kind: FaultKind::RoutesFollow });
            }
        }
        let mut rest = self.faults.split_off(self.faults_done);
        rest.extend(faults);
        rest.sort_by_key(|fault| fault.at);
        self.faults.extend(rest);
        Ok(())
    }
}
