//! Settings that change while a switch runs, and its restart.
//!
//! Each change counts from the next packet on. What is in the buffer stays where it is accounted, and leaves by the
//! limits that are in force then.

use super::config::{EcnConfig, GroupConfig, SwitchConfig, Threshold, WatchdogConfig};
use super::{Port, Switch, headroom_of, reserved_bytes, treatment};
use crate::counters::Drop;
use crate::links::Links;
use crate::pfc::PRIORITIES;

impl Switch {
    /// Gives the lossless groups of all ports a dynamic threshold.
    pub(crate) fn set_alpha(&mut self, exponent: i8) {
        let groups = self.ports.iter_mut().flat_map(Port::groups_mut);
        for group in groups.filter(|group| group.lossless) {
            group.threshold = Threshold::Dynamic { exponent };
        }
    }

    /// Gives `queues` of all ports other thresholds for marks.
    pub(crate) fn set_ecn(&mut self, queues: u8, ecn: Option<EcnConfig>) {
        let config = &mut *self.config;
        let of_ports = config.ports.values_mut().map(|port| &mut port.queues);
        for all in core::iter::once(&mut config.queues).chain(of_ports) {
            for (index, queue) in all.iter_mut().enumerate() {
                if queues >> index & 1 != 0 {
                    queue.ecn = ecn;
                }
            }
        }
        self.take_marks();
    }

    /// Pauses `priorities`, and no others.
    pub(crate) fn set_lossless(&mut self, links: &mut Links, priorities: u8) {
        let priority_of = self.config.group_to_priority;
        let change = |groups: &mut [GroupConfig; PRIORITIES], boot: &[GroupConfig; PRIORITIES]| {
            for (index, (group, boot)) in groups.iter_mut().zip(boot).enumerate() {
                let lossless = priorities >> (priority_of[index] & 7) & 1 != 0;
                if group.lossless == lossless {
                    continue;
                }
                *group = match (boot.lossless == lossless, lossless) {
                    (true, _) => *boot,
                    (false, true) => GroupConfig::LOSSLESS,
                    (false, false) => GroupConfig::LOSSY,
                };
            }
        };
        let Self { config, boot, .. } = self;
        change(&mut config.groups, &boot.groups);
        for (local, port) in &mut config.ports {
            change(&mut port.groups, boot.groups_of(*local));
        }
        self.take_groups(links);
    }

    /// Classifies by another map.
    pub(crate) fn set_dscp_map(&mut self, dscp_to_class: [u8; 64]) {
        self.config.dscp_to_class = dscp_to_class;
        self.by_dscp = dscp_to_class.map(|class| treatment(&self.config, class));
    }

    /// Watches all ports so, or none.
    pub(crate) fn set_watchdog(&mut self, links: &mut Links, watchdog: Option<WatchdogConfig>) {
        self.config.watchdog = watchdog;
        for port in self.config.ports.values_mut() {
            port.watchdog = watchdog;
        }
        self.change_watchdog(links);
    }

    /// Loses everything that it holds, and forgets who has paused whom. Its links are to be down meanwhile.
    pub(crate) fn go_down(&mut self, links: &mut Links) {
        for port in self.ports() {
            let local = usize::from(links.at(port).local);
            for queue in 0..PRIORITIES {
                while self.ports[local].queues()[queue].packets > 0 {
                    let packet = self.ports[local].queue(queue).discard(&mut links.pool);
                    // Nobody is told of it.
                    let _ = self.release(links, packet);
                    links.drop_packet(packet, Drop::Restart);
                }
            }
            links.port(port).occupied = 0;
        }
        for port in self.ports() {
            let local = usize::from(links.at(port).local);
            for group in self.ports[local].groups_mut() {
                group.off = false;
            }
            let at = links.port(port);
            (at.off, at.pending, at.stormed, at.deaf) = (0, 0, 0, 0);
            links.forget_pauses(port);
        }
    }

    /// Begins again, with the settings of the beginning and empty tables.
    pub(crate) fn boot(&mut self, links: &mut Links) {
        let boot: SwitchConfig = (*self.boot).clone();
        let map = boot.dscp_to_class;
        *self.config = boot;
        self.set_dscp_map(map);
        self.take_marks();
        self.take_groups(links);
        self.tables.forget();
        self.change_watchdog(links);
    }

    /// Puts the thresholds of marks in force.
    fn take_marks(&mut self) {
        for (local, port) in (0..).zip(&mut self.ports) {
            for (queue, config) in
                port.all_queues_mut().iter_mut().zip(self.config.queues_of(local))
            {
                queue.marks_above = config.ecn.map_or(u32::MAX, |ecn| ecn.min_bytes);
            }
        }
    }

    /// Puts the limits of groups in force. One that is lossy now resumes whom it has paused.
    fn take_groups(&mut self, links: &mut Links) {
        let reserved = reserved_bytes(&self.config, &self.specs);
        self.shared.size = u64::from(self.config.buffer_bytes).saturating_sub(reserved) as u32;
        for local in 0..self.ports.len() {
            let port = self.first_port + local as u32;
            let mut resumed = 0;
            for index in 0..PRIORITIES {
                let config = &self.config.groups_of(local as u16)[index];
                let headroom = headroom_of(config, &self.specs[local]);
                let group = self.ports[local].group(index);
                group.change(&mut self.shared, config, headroom);
                if group.off && !group.lossless {
                    group.off = false;
                    resumed |= 1 << (self.config.group_to_priority[index] & 7);
                }
            }
            if resumed != 0 {
                links.resume(port, resumed);
                self.kick(links, port);
            }
        }
    }
}
