//! A drawing of nodes and links, and how they fared from moment to moment: a slider over time.
//!
//! Nodes have fixed places, so that two runs of one network can be laid side by side. A link is drawn
//! as two halves, one for each of its ends; a half that is coloured is an end that had to wait. A
//! node is coloured by how full it was. Levels are 1 to 9; what is at level 0 is not written down.

use serde_json::{Value, json};

/// The highest level.
pub const LEVELS: u8 = 9;

/// A node: a box or, with a width of zero, a dot.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayNode {
    /// Its middle, from the left, in thousandths of the drawing's width.
    pub x: f64,
    /// Its layer, 0 at the bottom.
    pub layer: usize,
    /// How wide it is drawn, in pixels.
    pub width: f64,
    /// Its name, shown when it is pointed at.
    pub name: String,
    /// What is written on or below it, if there is room.
    pub label: String,
}

/// What is seen at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplayFrame {
    /// What stands beside the slider, such as "1.25 ms".
    pub time: String,
    /// Ends of links that wait: the link, which of its ends, and how much of the time.
    pub waiting: Vec<(u32, bool, u8)>,
    /// Nodes that hold something: the node, and how full it is.
    pub filled: Vec<(u32, u8)>,
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Replay {
    /// The nodes.
    pub nodes: Vec<ReplayNode>,
    /// The links, as pairs of nodes.
    pub links: Vec<(u32, u32)>,
    /// The names of the layers, from the bottom.
    pub layers: Vec<String>,
    /// The moments.
    pub frames: Vec<ReplayFrame>,
    /// What a coloured end means, such as "paused".
    pub waiting: String,
    /// What a coloured node means, such as "part of the longest queue".
    pub filled: String,
}

impl Replay {
    /// The data that the page's program draws: numbers in flat lists.
    pub(super) fn to_json(&self) -> Value {
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|node| {
                json!([tenths(node.x), node.layer, tenths(node.width), node.name, node.label])
            })
            .collect();
        let links: Vec<u32> = self.links.iter().flat_map(|&(a, b)| [a, b]).collect();
        let frames: Vec<Value> = self
            .frames
            .iter()
            .map(|frame| {
                let waiting = frame.waiting.iter();
                let ends: Vec<u32> = waiting
                    .flat_map(|&(link, far, level)| [2 * link + u32::from(far), level.into()])
                    .collect();
                let nodes = frame.filled.iter();
                let fills: Vec<u32> =
                    nodes.flat_map(|&(node, level)| [node, level.into()]).collect();
                json!([frame.time, ends, fills])
            })
            .collect();
        // What is shown first: the moment at which most ends wait.
        let busiest = self.frames.iter().enumerate().rev().max_by_key(|(_, frame)| {
            frame.waiting.iter().map(|&(_, _, level)| u64::from(level)).sum::<u64>()
        });
        json!({
            "nodes": nodes,
            "links": links,
            "layers": self.layers,
            "frames": frames,
            "first": busiest.map_or(0, |(index, _)| index),
            "waiting": self.waiting,
            "filled": self.filled,
        })
    }
}

/// A number with one digit behind the point, as an integer where there is none.
fn tenths(value: f64) -> Value {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.fract() == 0.0 { (rounded as i64).into() } else { rounded.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_flat_lists_and_begins_where_most_wait() {
        let node = |x: f64, name: &str| ReplayNode {
            x,
            layer: 0,
            width: 0.0,
            name: name.to_owned(),
            label: String::new(),
        };
        let frame = |time: &str, waiting: &[(u32, bool, u8)]| ReplayFrame {
            time: time.to_owned(),
            waiting: waiting.to_vec(),
            filled: vec![(1, 4)],
        };
        let replay = Replay {
            nodes: vec![node(12.34, "h0"), node(500.0, "h1")],
            links: vec![(0, 1)],
            frames: vec![
                frame("0 us", &[]),
                frame("1 us", &[(0, false, 9), (0, true, 1)]),
                frame("2 us", &[(0, true, 3)]),
            ],
            ..Replay::default()
        };
        let value = replay.to_json();
        assert_eq!(value["nodes"], json!([[12.3, 0, 0, "h0", ""], [500, 0, 0, "h1", ""]]));
        assert_eq!(value["links"], json!([0, 1]));
        assert_eq!(value["frames"][1], json!(["1 us", [0, 9, 1, 1], [1, 4]]));
        assert_eq!(value["first"], 1);
    }
}
