//! A topology as text, for a collector's file: what probes need of it, and no more.

use fabric::topology::{End, Topology};
use rdma::{Rate, Span};
use serde::{Deserialize, Serialize};

use super::node::Node;

/// Hosts by name, switches by name and tier, and who is linked to whom.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Layout {
    hosts: Vec<String>,
    switches: Vec<(String, u8)>,
    links: Vec<(Node, Node, u64)>,
}

/// As JSON.
pub fn to_text(topology: &Topology) -> String {
    let layout = Layout {
        hosts: topology.hosts.clone(),
        switches: topology.switches.iter().map(|of| (of.name.clone(), of.tier)).collect(),
        links: topology
            .links
            .iter()
            .map(|link| (link.ends[0].into(), link.ends[1].into(), link.rate.as_bps()))
            .collect(),
    };
    serde_json::to_string(&layout).unwrap_or_default()
}

/// Read again; `None` if it is none.
pub fn from_text(text: &str) -> Option<Topology> {
    let layout: Layout = serde_json::from_str(text).ok()?;
    let mut topology = Topology::default();
    for host in layout.hosts {
        topology.add_host(host);
    }
    for (switch, tier) in layout.switches {
        topology.add_switch(switch, tier);
    }
    for (a, b, bps) in layout.links {
        let [a, b] = [a, b].map(End::from);
        let is_there = |end: End| match end {
            End::Host(index) => (index as usize) < topology.hosts.len(),
            End::Switch(index) => (index as usize) < topology.switches.len(),
        };
        if !is_there(a) || !is_there(b) || bps == 0 {
            return None;
        }
        topology.link(a, b, Rate::from_bps(bps), Span::ZERO);
    }
    Some(topology)
}

#[cfg(test)]
mod tests {
    use fabric::topology::{ClosShape, clos};

    use super::super::scope::Map;
    use super::*;

    #[test]
    fn what_is_written_is_the_same_network_for_probes() {
        let topology = clos(&ClosShape::FIGURE_7);
        let read = from_text(&to_text(&topology)).unwrap();
        assert_eq!(Map::of(&read), Map::of(&topology));
        assert_eq!(read.find("h17"), topology.find("h17"));
        for wrong in ["", "{}", r#"{"hosts":[],"switches":[],"links":[[{"host":0},{"host":1},5]]}"#]
        {
            assert!(from_text(wrong).is_none(), "{wrong}");
        }
    }
}
