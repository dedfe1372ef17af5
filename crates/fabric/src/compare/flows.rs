//! The same flows of two variants, one by one.

use super::Results;
use super::results::{FlowResult, Identity};

/// Two times, or amounts, that differ by less count as alike.
pub(super) const ALIKE: f64 = 0.01;

/// A flow of both, with one seed.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) seed: i64,
    pub(super) identity: Identity,
    /// How long it took in the first and in the other, in microseconds; `None` if it was not finished.
    pub(super) took: [Option<f64>; 2],
}

impl Pair {
    /// How many times as long it took: above all numbers if the other did not finish it, zero if it alone
    /// did.
    pub(super) fn ratio(&self) -> f64 {
        match self.took {
            [Some(first), Some(other)] if first > 0.0 => other / first,
            [Some(_), Some(other)] => 1.0 + other,
            [Some(_), None] => f64::INFINITY,
            [None, Some(_)] => 0.0,
            [None, None] => 1.0,
        }
    }
}

/// The flows of a variant against those of the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    /// Those with an end, by ratio.
    pub(super) with_end: Vec<Pair>,
    /// Of those without: how many were given more by the other, less, and about as much.
    pub(super) endless: [usize; 3],
    /// The first that is not the same, if any.
    other: Option<String>,
}

impl Pairs {
    pub(super) fn of(first: &Results, other: &Results, seeds: &[i64]) -> Self {
        let mut pairs = Self::default();
        for &seed in seeds {
            if let (Some(a), Some(b)) = (first.runs.get(&seed), other.runs.get(&seed)) {
                pairs.add(seed, &a.flows, &b.flows);
            }
        }
        pairs.with_end.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        pairs
    }

    fn add(&mut self, seed: i64, first: &[FlowResult], other: &[FlowResult]) {
        if first.len() != other.len() && self.other.is_none() {
            self.other = Some(format!("{} and {} with seed {seed}", first.len(), other.len()));
        }
        for (a, b) in first.iter().zip(other) {
            if a.identity != b.identity {
                let number = a.identity.number;
                self.other
                    .get_or_insert_with(|| format!("such as number {number} with seed {seed}"));
            } else if a.identity.asked.is_some() {
                let (identity, took) = (a.identity.clone(), [a.took, b.took]);
                self.with_end.push(Pair { seed, identity, took });
            } else {
                self.endless[place(b.delivered, a.delivered)] += 1;
            }
        }
    }

    /// What is not the same.
    pub(super) fn others(&self) -> Option<&str> {
        self.other.as_deref()
    }

    /// How many were sooner done in the other, later, and about as soon, of those that both have finished.
    pub(super) fn both(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for pair in &self.with_end {
            if let [Some(first), Some(other)] = pair.took {
                counts[place(first, other)] += 1;
            }
        }
        counts
    }

    /// How many were done in the first alone, in the other alone, and in neither.
    pub(super) fn alone(&self) -> [usize; 3] {
        let count = |wanted: [bool; 2]| {
            let is = |pair: &&Pair| pair.took.map(|took| took.is_some()) == wanted;
            self.with_end.iter().filter(is).count()
        };
        [[true, false], [false, true], [false, false]].map(count)
    }
}

/// 0 if `one` is more than `other`, 1 if it is less, 2 if they are about alike.
fn place(one: f64, other: f64) -> usize {
    if (one - other).abs() <= ALIKE * one.max(other) { 2 } else { usize::from(one < other) }
}
