//! A directed graph of a few hundred nodes: its circles, and the smallest of them.
//!
//! A circle here is a strongly connected component of two nodes or more: each of its members can be
//! reached from each other one. An arrow from a node to itself is not kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes are names; an arrow carries what is to be said of it, of several the smallest.
#[derive(Debug)]
pub(super) struct Graph<A> {
    arrows: BTreeMap<String, BTreeMap<String, A>>,
}

impl<A: Ord + Clone> Graph<A> {
    /// A graph without nodes.
    pub(super) fn new() -> Self {
        Self { arrows: BTreeMap::new() }
    }

    /// Adds an arrow and, if they are new, its two ends.
    pub(super) fn add(&mut self, from: &str, to: &str, arrow: A) {
        if from == to {
            return;
        }
        self.arrows.entry(to.to_owned()).or_default();
        let known = self.arrows.entry(from.to_owned()).or_default();
        let kept = known.entry(to.to_owned()).or_insert_with(|| arrow.clone());
        if arrow < *kept {
            *kept = arrow;
        }
    }

    /// The same graph with nodes joined under the names that `group` gives them.
    pub(super) fn joined(&self, group: impl Fn(&str) -> String) -> Self {
        let mut joined = Self::new();
        for (from, to, arrow) in self.all() {
            joined.add(&group(from), &group(to), arrow.clone());
        }
        joined
    }

    /// Every circle, the largest first; members in alphabetical order.
    pub(super) fn circles(&self) -> Vec<BTreeSet<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.arrows.keys().map(|node| (node.as_str(), self.reached_from(node))).collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (node, reaches) in &reached {
            if circles.iter().any(|circle| circle.contains(*node)) {
                continue;
            }
            let members = reaches.iter().filter(|other| reached[*other].contains(node));
            let circle: BTreeSet<String> = members.map(|member| (*member).to_owned()).collect();
            if circle.len() > 1 {
                circles.push(circle);
            }
        }
        circles.sort_by_key(|circle| core::cmp::Reverse(circle.len()));
        circles
    }

    /// The fewest arrows that lead from a node of `circle` back to it.
    pub(super) fn smallest_within(&self, circle: &BTreeSet<String>) -> Vec<(&str, &str, &A)> {
        let ways = circle.iter().map(|node| self.back_to(node));
        ways.filter(|way| !way.is_empty()).min_by_key(Vec::len).unwrap_or_default()
    }

    /// All arrows whose two ends are members of `circle`.
    pub(super) fn within(&self, circle: &BTreeSet<String>) -> Vec<(&str, &str, &A)> {
        self.all().filter(|(from, to, _)| circle.contains(*from) && circle.contains(*to)).collect()
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str, &A)> {
        self.arrows.iter().flat_map(|(from, ends)| {
            ends.iter().map(move |(to, arrow)| (from.as_str(), to.as_str(), arrow))
        })
    }

    /// The nodes that one arrow or more lead to.
    fn reached_from<'g>(&'g self, start: &'g str) -> BTreeSet<&'g str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            open.extend(
                self.arrows[node].keys().map(String::as_str).filter(|&to| reached.insert(to)),
            );
        }
        reached
    }

    /// The shortest round from `start` back to it; nothing if there is none.
    fn back_to(&self, start: &str) -> Vec<(&str, &str, &A)> {
        let mut came_by: BTreeMap<&str, (&str, &A)> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(node) = open.pop_front() {
            let (node, ends) = self.arrows.get_key_value(node).expect("only nodes are reached");
            for (to, arrow) in ends {
                if !came_by.contains_key(to.as_str()) {
                    came_by.insert(to, (node, arrow));
                    open.push_back(to);
                }
            }
            if came_by.contains_key(start) {
                break;
            }
        }
        let mut round = Vec::new();
        let mut end = start;
        while let Some((&to, &(from, arrow))) = came_by.get_key_value(end) {
            round.push((from, to, arrow));
            if from == start {
                break;
            }
            end = from;
        }
        round.reverse();
        round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&str, &str)]) -> Graph<usize> {
        let mut graph = Graph::new();
        for (index, (from, to)) in arrows.iter().enumerate() {
            graph.add(from, to, index);
        }
        graph
    }

    fn names(circle: &BTreeSet<String>) -> Vec<&str> {
        circle.iter().map(String::as_str).collect()
    }

    #[test]
    fn what_leads_in_or_out_of_a_circle_is_no_member() {
        let graph = graph(&[("in", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "out")]);
        let circles = graph.circles();
        assert_eq!(circles.len(), 1);
        assert_eq!(names(&circles[0]), ["a", "b", "c"]);
    }

    #[test]
    fn a_tree_has_no_circle_and_a_node_is_none_alone() {
        let arrows = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "d")];
        assert!(graph(&arrows).circles().is_empty());
    }

    #[test]
    fn the_largest_comes_first() {
        let graph =
            graph(&[("a", "b"), ("b", "a"), ("x", "y"), ("y", "z"), ("z", "x"), ("a", "x")]);
        let sizes: Vec<usize> = graph.circles().iter().map(BTreeSet::len).collect();
        assert_eq!(sizes, [3, 2]);
    }

    #[test]
    fn the_smallest_round_of_a_circle_is_shown_arrow_by_arrow() {
        let graph = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "b")]);
        let circle = &graph.circles()[0];
        assert_eq!(circle.len(), 4);
        assert_eq!(graph.smallest_within(circle), [("b", "c", &1), ("c", "b", &4)]);
        assert_eq!(graph.within(circle).len(), 5);
    }

    #[test]
    fn nodes_joined_to_one_have_no_circle_among_themselves() {
        let graph = graph(&[("f/a", "f/b"), ("f/b", "f/a"), ("f/a", "g/c"), ("g/d", "f/b")]);
        assert_eq!(graph.circles().len(), 1);
        let folders = graph.joined(|node| node[..1].to_owned());
        assert_eq!(names(&folders.circles()[0]), ["f", "g"]);
    }
}
