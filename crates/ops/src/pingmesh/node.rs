//! A host or a switch of a topology.

use fabric::topology::End;
use serde::{Deserialize, Serialize};

/// A host or a switch, by index in the topology.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Node {
    /// A host.
    Host(u32),
    /// A switch.
    Switch(u32),
}

impl From<End> for Node {
    fn from(end: End) -> Self {
        match end {
            End::Host(index) => Self::Host(index),
            End::Switch(index) => Self::Switch(index),
        }
    }
}

impl From<Node> for End {
    fn from(node: Node) -> Self {
        match node {
            Node::Host(index) => Self::Host(index),
            Node::Switch(index) => Self::Switch(index),
        }
    }
}
