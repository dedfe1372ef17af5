//! How far switches are from the servers.

use std::collections::BTreeMap;

/// Gives every switch that `tiers` does not know one more than the lowest of its neighbours, from those that it knows on and
/// at most so many times.
pub(crate) fn climb<K: Ord + Copy>(
    tiers: &mut BTreeMap<K, u32>,
    neighbours: &BTreeMap<K, Vec<K>>,
    most: usize,
) {
    let mut edge: Vec<K> = tiers.keys().copied().collect();
    for _ in 0..most {
        let mut next: BTreeMap<K, u32> = BTreeMap::new();
        for at in &edge {
            let above = tiers[at] + 1;
            for of in neighbours.get(at).into_iter().flatten().filter(|of| !tiers.contains_key(of))
            {
                next.entry(*of).and_modify(|tier| *tier = above.min(*tier)).or_insert(above);
            }
        }
        if next.is_empty() {
            break;
        }
        edge = next.keys().copied().collect();
        tiers.extend(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_one_above_its_lowest_neighbour_and_what_nobody_reaches_has_no_tier() {
        let links = [(0, 2), (1, 2), (2, 3), (3, 4), (5, 4), (7, 8)];
        let mut neighbours: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (a, b) in links {
            neighbours.entry(a).or_default().push(b);
            neighbours.entry(b).or_default().push(a);
        }
        // Somebody has said that 5 is a spine.
        let known = BTreeMap::from([(0, 0), (1, 0), (5, 2)]);
        let mut tiers = known.clone();
        climb(&mut tiers, &neighbours, usize::MAX);
        let all: Vec<(u8, u32)> = tiers.into_iter().collect();
        assert_eq!(all, [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 2)]);
        let mut tiers = known;
        climb(&mut tiers, &neighbours, 1);
        assert!(!tiers.contains_key(&3));
    }
}
