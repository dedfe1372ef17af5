//! What a switch keeps for each of its ports.

use super::buffer::Group;
use super::config::SwitchConfig;
use super::queue::Queue;
use super::{PortSpec, headroom_of};
use crate::pfc::PRIORITIES;

/// A port, as far as it is the switch's own: the link is the links's.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// Of what came in here.
    groups: [Group; PRIORITIES],
    /// Of what is to leave here.
    queues: [Queue; PRIORITIES],
    /// Packets that were marked, by queue.
    pub(super) marked: [u64; PRIORITIES],
    /// Whose turn it is in the round robin.
    turn: u8,
}

impl Port {
    pub(super) fn new(config: &SwitchConfig, local: u16, spec: &PortSpec) -> Self {
        let groups = config.groups_of(local);
        let queues = config.queues_of(local);
        Self {
            groups: groups.each_ref().map(|group| Group::new(group, headroom_of(group, spec))),
            queues: queues.each_ref().map(|queue| Queue::new(queue, config.cell)),
            marked: [0; PRIORITIES],
            turn: 0,
        }
    }

    pub(super) fn groups(&self) -> &[Group; PRIORITIES] {
        &self.groups
    }

    pub(super) fn groups_mut(&mut self) -> &mut [Group; PRIORITIES] {
        &mut self.groups
    }

    pub(super) fn all_queues_mut(&mut self) -> &mut [Queue; PRIORITIES] {
        &mut self.queues
    }

    pub(super) fn queues(&self) -> &[Queue; PRIORITIES] {
        &self.queues
    }

    #[inline]
    pub(super) fn group(&mut self, group: usize) -> &mut Group {
        &mut self.groups[group & (PRIORITIES - 1)]
    }

    #[inline]
    pub(super) fn queue(&mut self, queue: usize) -> &mut Queue {
        &mut self.queues[queue & (PRIORITIES - 1)]
    }

    #[inline]
    pub(super) fn queues_mut(&mut self) -> (&mut [Queue; PRIORITIES], &mut u8) {
        (&mut self.queues, &mut self.turn)
    }
}
