//! What the ports of a network have done so far, all at once: what samples and reports are made of.

use rdma::Time;

use super::Network;
use crate::counters::PauseCounters;
use crate::plant::Node;
use crate::switch::config::PRIORITIES;
use crate::topology::End;

/// One end of a link, as it stands now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortView {
    /// Where the port is.
    pub(crate) at: End,
    /// Where it leads to.
    pub(crate) to: End,
    /// By queue, or priority of a host: bytes of frames sent. Of a host it is what its switch took
    /// of it; of a host that hangs on another, the payload.
    pub(crate) sent_bytes: [u64; PRIORITIES],
    /// By queue: what waits. A host keeps nothing between engine and port.
    pub(crate) queue_bytes: [u32; PRIORITIES],
    /// By priority: pauses that it has sent and received.
    pub(crate) pauses: PauseCounters,
    /// The queue that each priority's pauses stop.
    pub(crate) priority_to_queue: [u8; PRIORITIES],
}

impl Network {
    /// Every port, in an order that is always the same: those of switches, then those of hosts.
    /// A pause that is not over is counted until `now`.
    pub(crate) fn ports(&self, now: Time) -> impl Iterator<Item = PortView> {
        (0..self.plant.ports.len()).map(move |port| self.port_view(port as u32, now))
    }

    fn port_view(&self, port: u32, now: Time) -> PortView {
        let at = &self.plant.ports[port as usize];
        let peer = &self.plant.ports[at.peer as usize];
        let (mut sent_bytes, mut queue_bytes) = ([0; PRIORITIES], [0; PRIORITIES]);
        match (at.node, peer.node) {
            (Node::Switch(switch), _) => {
                let switch = &self.switches[switch as usize];
                sent_bytes = switch.counters(&self.plant, port).queue_bytes;
                queue_bytes = core::array::from_fn(|queue| switch.queue_bytes(at.local, queue));
            }
            (Node::Host(_), Node::Switch(switch)) => {
                let switch = &self.switches[switch as usize];
                let received = switch.counters(&self.plant, at.peer).group_bytes;
                for (group, bytes) in received.into_iter().enumerate() {
                    let priority = switch.config.group_to_priority[group] & 7;
                    sent_bytes[usize::from(priority)] += bytes;
                }
            }
            (Node::Host(host), Node::Host(_)) => {
                sent_bytes[0] =
                    self.hosts[host as usize].stats().iter().map(|stats| stats.sent_bytes).sum();
            }
        }
        PortView {
            at: end(at.node),
            to: end(peer.node),
            sent_bytes,
            queue_bytes,
            pauses: self.plant.pause_counters_at(port, now.as_ps()),
            priority_to_queue: at.priority_to_queue,
        }
    }
}

fn end(node: Node) -> End {
    match node {
        Node::Host(host) => End::Host(host),
        Node::Switch(switch) => End::Switch(switch),
    }
}
