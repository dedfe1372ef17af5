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
    /// Every port, in an order that is the same in whatever parts the network is. A pause that is not over is counted until `now`.
    pub(crate) fn ports(&self, now: Time) -> impl Iterator<Item = PortView> {
        let ports = self.parts.iter().flat_map(|part| part.plant.ports());
        ports.map(move |port| self.port_view(port, now.as_ps()))
    }

    fn port_view(&self, port: u32, now: u64) -> PortView {
        let at = self.at(port);
        let peer = self.at(at.peer);
        let counters = |switch: u32, port: u32| {
            let (part, switch) = self.switch(switch)?;
            Some((switch, switch.counters(&part.plant, port, now)))
        };
        let (mut sent_bytes, mut queue_bytes) = ([0; PRIORITIES], [0; PRIORITIES]);
        match (at.node, peer.node) {
            (Node::Switch(switch), _) => {
                if let Some((switch, counters)) = counters(switch, port) {
                    sent_bytes = counters.queue_bytes;
                    queue_bytes = core::array::from_fn(|queue| switch.queue_bytes(at.local, queue));
                }
            }
            (Node::Host(_), Node::Switch(switch)) => {
                if let Some((switch, counters)) = counters(switch, at.peer) {
                    for (group, bytes) in counters.group_bytes.into_iter().enumerate() {
                        let priority = switch.config.group_to_priority[group] & 7;
                        sent_bytes[usize::from(priority)] += bytes;
                    }
                }
            }
            (Node::Host(host), Node::Host(_)) => {
                sent_bytes[0] = self.host_stats(host).iter().map(|stats| stats.sent_bytes).sum();
            }
        }
        PortView {
            at: end(at.node),
            to: end(peer.node),
            sent_bytes,
            queue_bytes,
            pauses: self.part(port).plant.pause_counters(port, now),
            priority_to_queue: at.pauses.priority_to_queue,
        }
    }
}

fn end(node: Node) -> End {
    match node {
        Node::Host(host) => End::Host(host),
        Node::Switch(switch) => End::Switch(switch),
    }
}
