//! What goes wrong, done to the nodes and links that it concerns.

use super::partition::Partition;
use super::{BuildError, Network};
use crate::fault::{Fault, FaultKind};
use crate::links::Links;
use crate::links::{Down, EventKind};
use crate::rate::LineRate;
use crate::switch::Switch;
use crate::topology::routing::route_tables;
use crate::topology::{End, LinkSpec};
use rdma::{Rate, Span, Time};

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
            | FaultKind::LinkCorrupts { from, to, .. }
            | FaultKind::LinkDegrades { ends: [from, to], .. }
            | FaultKind::LinkRepaired { ends: [from, to] }
            | FaultKind::LinkDown { ends: [from, to] }
            | FaultKind::LinkUp { ends: [from, to] } => self.port_between(from, to).is_some(),
            FaultKind::HostDies { host, .. }
            | FaultKind::HostReturns { host }
            | FaultKind::NicStuck { host }
            | FaultKind::NicRepaired { host }
            | FaultKind::NicWatchdogChanges { host, .. }
            | FaultKind::PfcChanges { node: End::Host(host), .. } => {
                (host as usize) < self.topology.hosts.len()
            }
            FaultKind::AlphaChanges { switch, .. }
            | FaultKind::EcnChanges { switch, .. }
            | FaultKind::PfcChanges { node: End::Switch(switch), .. }
            | FaultKind::DscpMapChanges { switch, .. }
            | FaultKind::WatchdogChanges { switch, .. }
            | FaultKind::SwitchGoesDown { switch }
            | FaultKind::SwitchReturns { switch } => {
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
            FaultKind::LinkCorrupts { from, to, probability } => {
                if let Some(port) = self.port_between(from, to) {
                    self.partition_mut(port).links.filter(port).corruption = probability;
                }
            }
            FaultKind::LinkDegrades { ends, rate } => self.set_rate(ends, Some(rate)),
            FaultKind::LinkRepaired { ends } => {
                self.set_rate(ends, None);
                for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                    if let Some(port) = self.port_between(from, to) {
                        self.partition_mut(port).links.filter(port).repair();
                    }
                }
            }
            FaultKind::LinkDown { ends } => self.set_down(ends, None, true),
            FaultKind::LinkUp { ends } => self.set_down(ends, None, false),
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
                self.change_switch(switch, |switch, _| switch.set_alpha(exponent));
            }
            FaultKind::EcnChanges { switch, queues, ecn } => {
                self.change_switch(switch, |switch, _| switch.set_ecn(queues, ecn));
            }
            FaultKind::PfcChanges { node: End::Switch(switch), priorities } => {
                self.change_switch(switch, |switch, links| switch.set_lossless(links, priorities));
            }
            FaultKind::PfcChanges { node: End::Host(host), priorities } => {
                let port = self.host_port(host);
                let (at, links, _) = self.partition_mut(port).host_at(port);
                at.config.lossless_priorities = priorities;
                let given_up = links.at(port).off & !priorities;
                if given_up != 0 {
                    links.resume(port, given_up);
                }
                links.obey_all_but(port, !priorities);
                at.kick(links);
            }
            FaultKind::DscpMapChanges { switch, dscp_to_class } => {
                self.change_switch(switch, |switch, _| switch.set_dscp_map(dscp_to_class));
            }
            FaultKind::WatchdogChanges { switch, watchdog } => {
                self.change_switch(switch, |switch, links| switch.set_watchdog(links, watchdog));
            }
            FaultKind::NicWatchdogChanges { host, after } => {
                let port = self.host_port(host);
                let (at, links, _) = self.partition_mut(port).host_at(port);
                at.config.watchdog = after;
                if let Some(after) = after.filter(|_| at.buffer.stuck) {
                    links.schedule(after.as_ps(), EventKind::NicWatchdog, port, 0);
                }
            }
            FaultKind::SwitchGoesDown { switch } => {
                self.change_switch(switch, Switch::go_down);
                self.set_switch_down(switch, true);
            }
            FaultKind::SwitchReturns { switch } => {
                self.change_switch(switch, Switch::boot);
                self.set_switch_down(switch, false);
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
        self.keep_paths();
        let tables = route_tables(&self.topology, &self.down, &self.weighted);
        for (table, &(partition, slot)) in tables.into_iter().zip(&self.switches) {
            self.partitions[partition].switches[slot].routes = table;
        }
    }

    fn change_switch(&mut self, switch: u32, change: impl FnOnce(&mut Switch, &mut Links)) {
        let (partition, slot) = self.switches[switch as usize];
        let Partition { switches, links, .. } = &mut self.partitions[partition];
        change(&mut switches[slot], links);
    }

    /// Takes all links of a switch down with it, or up.
    fn set_switch_down(&mut self, switch: u32, down: bool) {
        let node = End::Switch(switch);
        let of = |link: &LinkSpec| link.ends.contains(&node).then_some(link.ends);
        let links: Vec<[End; 2]> = self.topology.links.iter().filter_map(of).collect();
        for ends in links {
            self.set_down(ends, Some(node), down);
        }
    }

    /// Takes a link down or up, because of a switch at its end or by itself.
    fn set_down(&mut self, ends: [End; 2], because_of: Option<End>, down: bool) {
        let mut is_down = false;
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let reason = match because_of {
                Some(node) if node == from => Down::Sender,
                Some(_) => Down::Receiver,
                None => Down::Link,
            };
            if let Some(port) = self.port_between(from, to) {
                let filter = self.partition_mut(port).links.filter(port);
                filter.down &= !(reason as u8);
                filter.down |= if down { reason as u8 } else { 0 };
                is_down |= filter.down != 0;
            }
        }
        let between = |link: &LinkSpec| link.ends == ends || link.ends == [ends[1], ends[0]];
        if let Some(link) = self.topology.links.iter().position(between) {
            self.down.retain(|&other| other != link);
            self.down.extend(is_down.then_some(link));
        }
    }

    /// Gives a link a rate, or its own.
    fn set_rate(&mut self, ends: [End; 2], rate: Option<Rate>) {
        let between = |link: &&LinkSpec| link.ends == ends || link.ends == [ends[1], ends[0]];
        let Some(own) = self.topology.links.iter().find(between).map(|link| link.rate) else {
            return;
        };
        // Partitions live side by side for as long as a packet takes on a link of its own rate.
        let rate = rate.filter(|rate| *rate > Rate::ZERO).map_or(own, |rate| rate.min(own));
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if let Some(port) = self.port_between(from, to) {
                self.partition_mut(port).links.port(port).rate = LineRate::new(rate);
            }
        }
    }
}
