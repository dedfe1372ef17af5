//! The topology drawn in layers, and pauses spreading over it.
//!
//! ```text
//!   Spine    S   S   S
//!   Leaf      L     L        racks share the width by their servers; the switches of a higher tier
//!   ToR      T       T       stand at equal distances, in the order of their numbers
//!   server  h h h   h h h    one box a rack where they are many
//! ```

use telemetry::{LEVELS, Replay, ReplayFrame, ReplayNode};

use super::hops::Layers;
use crate::limits::{REPLAY_ENTRIES_MAX, REPLAY_FRAMES, REPLAY_HOSTS};
use crate::record::Samples;
use crate::topology::routing::racks;
use crate::topology::{End, Topology};

/// Pixels of the drawing, as the page draws it.
const WIDTH: f64 = 1012.0;

/// Places of nodes and links.
struct Drawing {
    nodes: Vec<ReplayNode>,
    /// By host and by switch, its node.
    of_host: Vec<u32>,
    of_switch: Vec<u32>,
    /// Pairs of nodes, sorted.
    links: Vec<(u32, u32)>,
}

/// The replay of `samples`; `None` if there is nothing to draw.
pub(super) fn replay(topology: &Topology, layers: &Layers, samples: &Samples) -> Option<Replay> {
    let drawing = Drawing::of(topology, layers);
    let count = samples.times().len().checked_sub(1).filter(|&count| count > 0)?;
    let mut per_frame = count.div_ceil(REPLAY_FRAMES);
    let frames = loop {
        let frames = drawing.frames(samples, per_frame);
        let entries: usize = frames.iter().map(|one| one.waiting.len() + one.filled.len()).sum();
        if entries <= REPLAY_ENTRIES_MAX || per_frame >= count {
            break frames;
        }
        per_frame *= 2;
    };
    Some(Replay {
        nodes: drawing.nodes,
        links: drawing.links,
        layers: layers.names().to_vec(),
        frames,
        waiting: "part of the time that this end of the link was paused".to_owned(),
        filled: "what waits in the node, from nothing to the most of the run".to_owned(),
    })
}

/// The topology with some of its nodes and links marked, at one moment. `meaning` says what a mark means.
pub fn marked(
    topology: &Topology,
    nodes: &[End],
    links: &[[End; 2]],
    time: &str,
    meaning: &str,
) -> Replay {
    let layers = Layers::of(topology);
    let drawing = Drawing::of(topology, &layers);
    let filled = nodes.iter().map(|&end| (drawing.node(end), LEVELS)).collect();
    let waiting = links.iter().flat_map(|ends| {
        let [a, b] = ends.map(|end| drawing.node(end));
        let place = drawing.links.binary_search(&(a.min(b), a.max(b)));
        place.into_iter().flat_map(|at| [false, true].map(|far| (at as u32, far, LEVELS)))
    });
    let waiting = waiting.collect();
    let frames = vec![ReplayFrame { time: time.to_owned(), waiting, filled }];
    let (waiting, filled) = (meaning.to_owned(), meaning.to_owned());
    let Drawing { nodes, links, .. } = drawing;
    Replay { nodes, links, layers: layers.names().to_vec(), frames, waiting, filled }
}

impl Drawing {
    fn of(topology: &Topology, layers: &Layers) -> Self {
        let racks = racks(topology);
        let collapsed = topology.hosts.len() > REPLAY_HOSTS;
        let mut drawing = Self {
            nodes: Vec::new(),
            of_host: vec![0; topology.hosts.len()],
            of_switch: vec![0; topology.switches.len()],
            links: Vec::new(),
        };
        let of_rack = |rack: u32| -> Vec<u32> {
            let hosts = racks.iter().enumerate();
            hosts.filter(|(_, of)| **of == rack).map(|(host, _)| host as u32).collect()
        };
        // Racks from left to right, each as wide as its servers; hosts without a switch come first.
        let mut weights = Vec::new();
        let without = of_rack(u32::MAX);
        weights.push((None, without));
        for (index, _) in topology.switches.iter().enumerate().filter(|(_, node)| node.tier == 0) {
            weights.push((Some(index as u32), of_rack(index as u32)));
        }
        let weight = |hosts: &[u32]| if collapsed { 1.0 } else { hosts.len().max(1) as f64 };
        weights.retain(|(switch, hosts)| switch.is_some() || !hosts.is_empty());
        let all: f64 = weights.iter().map(|(_, hosts)| weight(hosts)).sum();
        let mut left = 0.0;
        for (switch, hosts) in &weights {
            let wide = 1_000.0 * weight(hosts) / all;
            if let Some(switch) = *switch {
                drawing.switch(topology, layers, switch, left + wide / 2.0, wide);
            }
            drawing.rack(topology, hosts, left, wide, collapsed);
            left += wide;
        }
        let highest = topology.switches.iter().map(|node| node.tier).max().unwrap_or(0);
        for tier in 1..=highest {
            let of_tier: Vec<u32> = (0..topology.switches.len() as u32)
                .filter(|&switch| topology.switches[switch as usize].tier == tier)
                .collect();
            let wide = 1_000.0 / of_tier.len().max(1) as f64;
            for (place, &switch) in of_tier.iter().enumerate() {
                let x = (place as f64 + 0.5) * wide;
                drawing.switch(topology, layers, switch, x, wide);
            }
        }
        for link in &topology.links {
            let [a, b] = link.ends.map(|end| drawing.node(end));
            drawing.links.push((a.min(b), a.max(b)));
        }
        drawing.links.sort_unstable();
        drawing.links.dedup();
        drawing
    }

    fn node(&self, end: End) -> u32 {
        match end {
            End::Host(host) => self.of_host[host as usize],
            End::Switch(switch) => self.of_switch[switch as usize],
        }
    }

    fn switch(&mut self, topology: &Topology, layers: &Layers, switch: u32, x: f64, wide: f64) {
        let name = topology.name(End::Switch(switch)).to_owned();
        // A letter is some seven pixels wide; a box leaves a gap beside it.
        let pixels = (wide / 1_000.0 * WIDTH - 4.0).clamp(4.0, 96.0);
        let label = if name.len() as f64 * 7.0 < pixels { name.clone() } else { String::new() };
        self.of_switch[switch as usize] = self.nodes.len() as u32;
        let layer = usize::from(layers.layer(End::Switch(switch)));
        self.nodes.push(ReplayNode { x, layer, width: pixels, name, label });
    }

    fn rack(&mut self, topology: &Topology, hosts: &[u32], left: f64, wide: f64, collapsed: bool) {
        let (Some(&first), Some(&last)) = (hosts.first(), hosts.last()) else { return };
        let name = |host: u32| topology.name(End::Host(host)).to_owned();
        if collapsed {
            for &host in hosts {
                self.of_host[host as usize] = self.nodes.len() as u32;
            }
            let pixels = (wide / 1_000.0 * WIDTH - 4.0).clamp(4.0, 96.0);
            let label = format!("x{}", hosts.len());
            let fits = label.len() as f64 * 7.0 < pixels;
            self.nodes.push(ReplayNode {
                x: left + wide / 2.0,
                layer: 0,
                width: pixels,
                name: format!("{} to {} ({})", name(first), name(last), hosts.len()),
                label: if fits { label } else { String::new() },
            });
            return;
        }
        let each = wide / hosts.len() as f64;
        // All servers are named, or none: a few names among many say nothing.
        let longest = topology.hosts.iter().map(String::len).max().unwrap_or(0);
        let fits = longest as f64 * 7.0 < each / 1_000.0 * WIDTH;
        for (place, &host) in hosts.iter().enumerate() {
            let name = name(host);
            self.of_host[host as usize] = self.nodes.len() as u32;
            self.nodes.push(ReplayNode {
                x: left + (place as f64 + 0.5) * each,
                layer: 0,
                width: 0.0,
                label: if fits { name.clone() } else { String::new() },
                name,
            });
        }
    }

    /// The link between two nodes, and whether `at` is its second end.
    fn end_of(&self, at: u32, to: u32) -> (usize, bool) {
        let key = (at.min(to), at.max(to));
        (self.links.binary_search(&key).unwrap_or(0), at > to)
    }

    /// Frames of so many samples each.
    fn frames(&self, samples: &Samples, per_frame: usize) -> Vec<ReplayFrame> {
        let count = samples.times().len() - 1;
        let frames = count.div_ceil(per_frame);
        let ends: Vec<(usize, bool)> = samples
            .ports()
            .iter()
            .map(|&(at, to)| self.end_of(self.node(at), self.node(to)))
            .collect();
        // Several ports stand at one end where hosts are drawn as one, or links run side by side.
        let mut ports_at = vec![[0u64; 2]; self.links.len()];
        for &(link, far) in &ends {
            ports_at[link][usize::from(far)] += 1;
        }
        let mut paused = vec![vec![[0u64; 2]; self.links.len()]; frames];
        let mut held = vec![vec![0u64; self.nodes.len()]; frames];
        let mut queues: Vec<(u32, u8, u32, usize, u32)> = Vec::new();
        for change in samples.changes() {
            // Sample 0 is the beginning: the first stretch of time belongs to sample 1.
            let frame = (change.sample as usize).saturating_sub(1) / per_frame;
            let (link, far) = ends[change.port as usize];
            paused[frame][link][usize::from(far)] += change.paused.as_ps();
            let node = self.node(samples.ports()[change.port as usize].0);
            queues.push((change.port, change.queue, node, frame, change.queue_bytes));
        }
        // What a queue held at its last change, it holds until the next.
        for (place, &(port, queue, node, frame, bytes)) in queues.iter().enumerate() {
            let next = queues.get(place + 1).filter(|next| (next.0, next.1) == (port, queue));
            let until = next.map_or(frames, |next| next.3.max(frame));
            // Of several changes within a frame the last one counts.
            for held in &mut held[frame..until] {
                held[node as usize] += u64::from(bytes);
            }
        }
        let most = held.iter().flatten().copied().max().unwrap_or(0);
        (0..frames)
            .map(|frame| {
                let last = ((frame + 1) * per_frame).min(count);
                let from = samples.times()[frame * per_frame];
                let until = samples.times()[last];
                let length = until.since(from).as_ps().max(1);
                let waiting = paused[frame].iter().enumerate().flat_map(|(link, ends)| {
                    let ports = ports_at[link];
                    [false, true].into_iter().filter_map(move |far| {
                        let side = usize::from(far);
                        let level = level(ends[side], length * ports[side].max(1));
                        (level > 0).then_some((link as u32, far, level))
                    })
                });
                let filled = held[frame].iter().enumerate().filter_map(|(node, &bytes)| {
                    let level = level(bytes, most);
                    (level > 0).then_some((node as u32, level))
                });
                ReplayFrame {
                    time: until.to_string(),
                    waiting: waiting.collect(),
                    filled: filled.collect(),
                }
            })
            .collect()
    }
}

/// A part of a whole as a level; the least part is seen.
fn level(part: u64, whole: u64) -> u8 {
    let levels = u128::from(part) * u128::from(LEVELS);
    levels.div_ceil(u128::from(whole.max(1))).min(u128::from(LEVELS)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Next, run};
    use crate::topology::{Cables, ClosShape, clos, single_switch};
    use crate::workload::{FlowSpec, incast};
    use crate::{Network, NetworkConfig};
    use rdma::{Rate, Span, Time};

    fn replay_of(config: NetworkConfig) -> Replay {
        let topology = config.topology.clone();
        let mut network = Network::new(config).unwrap();
        let end = Time::ZERO + Span::from_ms(5);
        let mut samples = Samples::new(&network, end, None);
        run(&mut network, end, Some(&mut samples), |_| Next::Run(Span::from_ms(1)));
        replay(&topology, &Layers::of(&topology), &samples).unwrap()
    }

    #[test]
    fn a_server_that_is_paused_is_coloured_at_its_own_end() {
        let cables = Cables::new(Rate::from_gbps(40), 200);
        let mut config = NetworkConfig::new(single_switch(3, cables));
        config.flows = vec![FlowSpec::write(0, 2, 1_000_000), FlowSpec::write(1, 2, 1_000_000)];
        config.switch.buffer_bytes = 1_000_000;
        let replay = replay_of(config);
        // The switch is node 0, and each link leads from it to a server.
        assert_eq!(replay.links, [(0, 1), (0, 2), (0, 3)]);
        let ends: std::collections::BTreeSet<(u32, bool)> = replay
            .frames
            .iter()
            .flat_map(|frame| frame.waiting.iter().map(|&(link, far, _)| (link, far)))
            .collect();
        assert_eq!(ends.into_iter().collect::<Vec<_>>(), [(0, true), (1, true)]);
        assert!(replay.frames.iter().any(|frame| frame.filled == [(0, LEVELS)]));
        assert_eq!(replay.frames.last().unwrap().filled, []);
    }

    #[test]
    fn a_thousand_servers_are_boxes_of_racks_in_their_places() {
        let mut config = NetworkConfig::new(clos(&ClosShape::FIGURE_7));
        config.flows = incast(1_152, 0, 40, 20_000, &mut crate::random::Random::new(1));
        let replay = replay_of(config);
        let racks: Vec<&ReplayNode> = replay.nodes.iter().filter(|node| node.layer == 0).collect();
        assert_eq!((racks.len(), racks[0].name.as_str()), (48, "h0 to h23 (24)"));
        assert!(racks.windows(2).all(|two| two[0].x < two[1].x));
        assert_eq!(replay.layers, ["server", "tor", "leaf", "spine"]);
        assert!(replay.frames.len() <= REPLAY_FRAMES);
    }

    #[test]
    fn the_least_part_is_seen_and_the_whole_is_the_highest_level() {
        assert_eq!([level(0, 100), level(1, 100), level(50, 100), level(100, 100)], [0, 1, 5, 9]);
    }
}
