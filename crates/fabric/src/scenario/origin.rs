//! Where in its text a scenario says what a network turns out to be unable to have.

use std::collections::BTreeMap;

use super::ScenarioError;
use super::place::Place;
use crate::BuildError;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    pub(super) topology: Place,
    /// What all switches have, if the scenario says anything about it.
    pub(super) switch: Option<Place>,
    /// By name.
    pub(super) switches: BTreeMap<String, Place>,
    /// The workloads, each with its first flow.
    pub(super) workloads: Vec<(usize, Place)>,
}

impl Origin {
    /// Says of an error of [`crate::Network::new`] where the scenario is to be changed.
    pub fn explain(&self, error: &BuildError) -> ScenarioError {
        let whole = || error.to_string();
        let (place, message, hint) = match error {
            BuildError::BufferTooSmall { switch, buffer_bytes, reserved_bytes } => (
                self.switches.get(switch).or(self.switch.as_ref()).unwrap_or(&self.topology),
                format!(
                    "{switch} has a buffer of {buffer_bytes} bytes, and its ports reserve \
                     {reserved_bytes} for reserves and headrooms"
                ),
                "make the buffer larger, or headroom, reserves or cables smaller",
            ),
            BuildError::Flow { index, reason } => {
                (self.workload(*index), (*reason).to_owned(), "change this workload")
            }
            BuildError::QueuePairs { flow, shared, .. } => (
                self.workload(*flow),
                whole(),
                match shared {
                    true => {
                        "take fewer flows to or from it, or spread them over hosts or priorities"
                    }
                    false => {
                        "share_queue_pairs = true lets flows of the same two hosts and DSCP share one; or take \
                         fewer flows to or from it"
                    }
                },
            ),
            BuildError::Disconnected { flow, .. } => (
                self.workload(*flow),
                whole(),
                "packets go up, and then down: add a link, or change the tier of a switch",
            ),
            BuildError::NoSuchNode(_)
            | BuildError::TooMany(..)
            | BuildError::HostLinks { .. }
            | BuildError::Tenant { .. }
            | BuildError::NoAlpha { .. }
            | BuildError::NoRate { .. } => {
                (&self.topology, whole(), "the network is made of what this table says")
            }
        };
        ScenarioError::at_place(place, message).hint(hint)
    }

    fn workload(&self, flow: usize) -> &Place {
        let before = self.workloads.iter().take_while(|(first, _)| *first <= flow);
        before.last().map_or(&self.topology, |(_, place)| place)
    }
}
