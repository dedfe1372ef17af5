//! Circles of switches that wait for each other.
//!
//! A switch waits for the next where a queue towards it holds packets, is paused and has sent nothing for a while. Where
//! these make a circle, none of them can go on: a deadlock, as guo16 (4.2) had by flooding. A tree of such queues has a
//! root instead, and the root is somebody else's fault: a storm.

use std::collections::BTreeMap;

/// A circle in `waits`, which has for each device those that it waits for; it begins with the device of the lowest
/// name. The same edges give the same circle.
pub(super) fn circle(waits: &BTreeMap<&str, Vec<&str>>) -> Option<Vec<String>> {
    let mut done: BTreeMap<&str, bool> = BTreeMap::new();
    for &start in waits.keys() {
        // Depth first, with the place in the list of each device on the path.
        let mut path: Vec<(&str, usize)> = vec![(start, 0)];
        while let Some((at, next)) = path.last_mut() {
            let at = *at;
            if done.get(at) == Some(&true) {
                path.pop();
                continue;
            }
            done.insert(at, false);
            match waits.get(at).and_then(|list| list.get(*next)) {
                None => {
                    done.insert(at, true);
                    path.pop();
                }
                Some(&to) => {
                    *next += 1;
                    if let Some(begin) = path.iter().position(|(on, _)| *on == to) {
                        let mut circle: Vec<String> =
                            path[begin..].iter().map(|(on, _)| (*on).to_owned()).collect();
                        let least =
                            (0..circle.len()).min_by_key(|&at| circle[at].clone()).unwrap_or(0);
                        circle.rotate_left(least);
                        return Some(circle);
                    }
                    if done.get(to) != Some(&true) {
                        path.push((to, 0));
                    }
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_and_a_tree_is_none() {
        for (edges, expected) in [
            (vec!["a b", "b c", "c d", "d a"], Some("a b c d")),
            (vec!["x b", "b c", "c b"], Some("b c")),
            (vec!["a b", "a c", "b d", "c d"], None),
            (vec!["a b", "b c", "d c", "e d"], None),
            (vec!["c a", "a c", "z y"], Some("a c")),
            (vec![], None),
        ] {
            let mut waits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for edge in &edges {
                let (from, to) = edge.split_once(' ').unwrap();
                waits.entry(from).or_default().push(to);
            }
            assert_eq!(
                circle(&waits).map(|circle| circle.join(" ")).as_deref(),
                expected,
                "{edges:?}"
            );
        }
    }
}
