//! What goes wrong, done to the nodes and links that it concerns.

use super::{BuildError, Network};
use crate::fault::{Fault, FaultKind};
use crate::links::EventKind;
use crate::topology::routing::route_tables;
use crate::topology::{End, LinkSpec};
use rdma::{Span, Time};

impl Network {
    /// Checks the faults, and applies those that are there from the beginning.
    pub(super) fn plan_faults(
        &mut self,
        mut faults: Vec<Fault>,
        reroute: Option<Span>,
    ) -> Result<(), BuildError> {
        for (index, fault) in faults.iter().enumerate() {
            self.check_fault(index, fault.kind)?;
        }
        if let Some(delay) = reroute {
            let links = |fault: &&Fault| fault.kind.is_of_link();
            let follow =
                |fault: &Fault| Fault { at: fault.at + delay, kind: FaultKind::RoutesFollow };
            let following: Vec<Fault> = faults.iter().filter(links).map(follow).collect();
            faults.extend(following);
        }
        // A stable sort: faults of one time stay in the order of the settings.
        faults.sort_by_key(|fault| fault.at);
        let from_the_beginning = faults.iter().take_while(|fault| fault.at == Time::ZERO).count();
        for fault in &faults[..from_the_beginning] {
            self.apply(fault.kind);
        }
        self.faults_done = from_the_beginning;
        self.faults = faults;
        Ok(())
    }

    /// Whether what fault `index` concerns is there.
    pub(super) fn check_fault(&self, index: usize, kind: FaultKind) -> Result<(), BuildError> {
        let known = match kind {
            FaultKind::LinkRule { from, to, .. }
            | FaultKind::LinkDamage { from, to, .. }
            | FaultKind::LinkDown { ends: [from, to] }
            | FaultKind::LinkUp { ends: [from, to] } => self.port_between(from, to).is_some(),
            FaultKind::HostDies { host, .. }
            | FaultKind::HostReturns { host }
            | FaultKind::NicStuck { host }
            | FaultKind::NicRepaired { host } => (host as usize) < self.topology.hosts.len(),
            FaultKind::AlphaChanges { switch, .. } => {
                (switch as usize) < self.topology.switches.len()
            }
            FaultKind::RoutesFollow => true,
        };
        if known { Ok(()) } else { Err(BuildError::NoSuchNode(format!("fault {index}"))) }
    }

    pub(super) fn apply(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::LinkRule { from, to, rule } => {
                if let Some(port) = self.port_between(from, to) {
                    self.partition_mut(port).links.filter(port).rules.push(rule);
                }
            }
            FaultKind::LinkDamage { from, to, probability } => {
                if let Some(port) = self.port_between(from, to) {
                    self.partition_mut(port).links.filter(port).damage = probability;
                }
            }
            FaultKind::LinkDown { ends } => self.set_down(ends, true),
            FaultKind::LinkUp { ends } => self.set_down(ends, false),
            FaultKind::RoutesFollow => self.follow_links(),
            FaultKind::HostDies { host, mac_aged } => {
                let port = self.host_port(host);
                let partition = self.partition_mut(port);
                partition.links.port(port).alive = false;
                if let Some((switch, local)) = partition.switch_above(port)
                    && mac_aged
                {
                    switch.age_mac(local);
                }
            }
            FaultKind::HostReturns { host } => {
                let port = self.host_port(host);
                let partition = self.partition_mut(port);
                partition.links.port(port).alive = true;
                if let Some((switch, local)) = partition.switch_above(port) {
                    switch.server_returned(local);
                }
                partition.kick(port);
            }
            FaultKind::AlphaChanges { switch, exponent } => {
                let (partition, slot) = self.switches[switch as usize];
                self.partitions[partition].switches[slot].set_alpha(exponent);
            }
            FaultKind::NicStuck { host } => {
                let port = self.host_port(host);
                let (at, links, _) = self.partition_mut(port).host_at(port);
                at.buffer.stuck = true;
                if !at.buffer.muted {
                    links.stop(port, at.config.lossless_priorities);
                    at.kick(links);
                }
                if let Some(after) = at.config.watchdog {
                    links.schedule(after.as_ps(), EventKind::NicWatchdog, port, 0);
                }
            }
            FaultKind::NicRepaired { host } => {
                let port = self.host_port(host);
                let (at, links, _) = self.partition_mut(port).host_at(port);
                (at.buffer.stuck, at.buffer.muted) = (false, false);
                let off = links.at(port).off;
                if off != 0 {
                    links.resume(port, off);
                }
                at.take_next(links);
                at.kick(links);
            }
        }
    }

    /// Gives every switch routes that go round the links that are down.
    fn follow_links(&mut self) {
        let tables = route_tables(&self.topology, &self.down, &self.weighted);
        for (table, &(partition, slot)) in tables.into_iter().zip(&self.switches) {
            self.partitions[partition].switches[slot].routes = table;
        }
    }

    fn set_down(&mut self, ends: [End; 2], down: bool) {
        let between = |link: &LinkSpec| link.ends == ends || link.ends == [ends[1], ends[0]];
        if let Some(link) = self.topology.links.iter().position(between) {
            self.down.retain(|&other| other != link);
            self.down.extend(down.then_some(link));
        }
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if let Some(port) = self.port_between(from, to) {
                self.partition_mut(port).links.filter(port).down = down;
            }
        }
    }
}
