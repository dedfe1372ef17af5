//! What the cells came to: draws, what they spread over, and limits that they are held against.

use core::fmt;

use serde::Serialize;
use serde_json::json;

use super::{Cell, Matrix, ROUNDS_MIN, is_mouse};
use crate::report::jain;
use crate::session::{Measured, Ran};

/// What the file is, for whoever reads it.
const FORMAT: &str = "ferroce-isolation/1";

/// A flow in one draw.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Seen {
    /// Payload.
    pub bandwidth_gbps: f64,
    /// Operations a second.
    pub rate_per_s: f64,
    /// Median latency; nothing if no operation ended.
    pub p50_us: Option<f64>,
    /// The 99th percentile.
    pub p99_us: Option<f64>,
}

/// The median of what the draws say, and what all of them lie in.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least draw.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How many there are.
    pub draws: usize,
}

/// Bounds of medians; a cell that lies beyond one is missed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// How many times the bandwidth of one elephant may be that of another.
    pub share_max: Option<f64>,
    /// How many times its median latency alone a mouse may have beside another flow.
    pub p50_max: Option<f64>,
    /// The same of the 99th percentile.
    pub p99_max: Option<f64>,
    /// Jain's index of flows that are alike, at least.
    pub fairness_min: Option<f64>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was measured.
    pub matrix: Matrix,
    /// Where the time passed.
    pub world: &'static str,
    /// What the world consists of, in words.
    pub about: String,
    /// Why not all rounds were measured, if so.
    pub partial: Option<String>,
    /// By cell and draw: a flow each.
    draws: Vec<Vec<Vec<Seen>>>,
}

/// Which number of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Number {
    Bandwidth,
    Rate,
    P50,
    P99,
}

impl Number {
    fn of(self, seen: &Seen) -> f64 {
        match self {
            Self::Bandwidth => seen.bandwidth_gbps,
            Self::Rate => seen.rate_per_s,
            Self::P50 => seen.p50_us.unwrap_or(f64::INFINITY),
            Self::P99 => seen.p99_us.unwrap_or(f64::INFINITY),
        }
    }
}

impl Seen {
    fn new(measured: &Measured, draw_ms: f64) -> Self {
        let record = &measured.record;
        let seconds = draw_ms / 1e3;
        let bytes: u64 = record.windows.iter().map(|window| window.bytes).sum();
        let operations: u64 = record.windows.iter().map(|window| window.operations).sum();
        let latency = &record.latency;
        let at = |quantile: f64| {
            (!latency.is_empty()).then(|| latency.value_at_quantile(quantile) as f64 / 1e3)
        };
        Self {
            bandwidth_gbps: bytes as f64 * 8.0 / 1e9 / seconds,
            rate_per_s: operations as f64 / seconds,
            p50_us: at(0.5),
            p99_us: at(0.99),
        }
    }
}

impl Spread {
    /// Of the values of the draws; nothing if there are none.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, low, high, draws: values.len() })
    }

    /// Seen from the other side.
    fn inverse(self) -> Self {
        let (low, high) = (self.high.recip(), self.low.recip());
        Self { median: self.median.recip(), low, high, ..self }
    }

    /// Whether all draws, and enough of them, lie on one side of 1. If nothing but chance decided, eight
    /// draws would do so once in 128 times.
    pub(super) fn is_one_sided(&self) -> bool {
        self.draws >= ROUNDS_MIN as usize && (self.low > 1.0 || self.high < 1.0)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

impl Results {
    /// Of nothing yet.
    pub fn new(matrix: Matrix, world: &'static str, about: &str) -> Self {
        let draws = vec![Vec::new(); matrix.cells.len()];
        Self { matrix, world, about: about.to_owned(), partial: None, draws }
    }

    /// A draw of the cell at `index`.
    pub fn add(&mut self, index: usize, ran: &Ran) {
        let seen = ran.flows.iter().map(|flow| Seen::new(flow, self.matrix.draw_ms)).collect();
        self.draws[index].push(seen);
    }

    fn draws(&self, cell: Cell) -> &[Vec<Seen>] {
        let index = self.matrix.cells.iter().position(|other| *other == cell);
        index.map_or(&[], |index| &self.draws[index])
    }

    /// The ratio of two numbers, draw by draw. A flow of which nothing ended had the worst that there is.
    fn ratio<'a>(
        first: impl Iterator<Item = &'a Seen>,
        second: impl Iterator<Item = &'a Seen>,
        number: Number,
    ) -> Option<Spread> {
        let ratios = first.zip(second).filter_map(|(first, second)| {
            let ratio = number.of(first) / number.of(second);
            (!ratio.is_nan()).then_some(ratio)
        });
        Spread::of(ratios.collect())
    }

    /// A pair's draws with the flow of kind `left` first.
    fn pair(&self, left: usize, top: usize) -> (&[Vec<Seen>], [usize; 2]) {
        match self.draws(Cell::Pair(left, top)) {
            [] => (self.draws(Cell::Pair(top, left)), [1, 0]),
            draws => (draws, [0, 1]),
        }
    }

    /// How many times the bandwidth of `top` `left` has beside it.
    pub(super) fn share(&self, left: usize, top: usize) -> Option<Spread> {
        let (draws, [first, second]) = self.pair(left, top);
        let of = |at: usize| draws.iter().map(move |flows| &flows[at]);
        Self::ratio(of(first), of(second), Number::Bandwidth)
    }

    /// A number of `left` beside `top` over the same alone.
    pub(super) fn beside(&self, left: usize, top: usize, number: Number) -> Option<Spread> {
        let (draws, [first, _]) = self.pair(left, top);
        let alone = self.draws(Cell::Alone(left)).iter().map(|flows| &flows[0]);
        Self::ratio(draws.iter().map(|flows| &flows[first]), alone, number)
    }

    /// The control: alone the second time over alone the first.
    pub(super) fn again(&self, kind: usize, number: Number) -> Option<Spread> {
        let of = |cell: Cell| self.draws(cell).iter().map(|flows| &flows[0]);
        Self::ratio(of(Cell::Again(kind)), of(Cell::Alone(kind)), number)
    }

    /// Jain's index of a crowd.
    pub(super) fn fairness(&self, kind: usize, flows: u32) -> Option<Spread> {
        let index = |flows: &Vec<Seen>| {
            jain(&flows.iter().map(|flow| flow.bandwidth_gbps).collect::<Vec<f64>>())
        };
        Spread::of(self.draws(Cell::Crowd(kind, flows)).iter().map(index).collect())
    }

    /// Indices of the kinds that are mice, or that are not.
    pub(super) fn kinds(&self, mice: bool) -> Vec<usize> {
        let kinds = &self.matrix.kinds;
        (0..kinds.len()).filter(|kind| is_mouse(&kinds[*kind]) == mice).collect()
    }

    /// Elephants that mice were put beside.
    pub(super) fn beside_mice(&self) -> Vec<usize> {
        let mouse = self.kinds(true)[0];
        let meets = |kind: &usize| self.matrix.cells.contains(&Cell::Pair(mouse, *kind));
        self.kinds(false).into_iter().filter(meets).collect()
    }

    /// Rounds in which every cell was measured.
    pub fn rounds(&self) -> usize {
        self.draws.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// What lies beyond the limits, in words.
    pub fn misses(&self, limits: &Limits) -> Vec<String> {
        let mut misses = Vec::new();
        for cell in &self.matrix.cells {
            let label = self.matrix.label(*cell);
            let mut most = |what: &str, spread: Option<Spread>, bound: Option<f64>| {
                if let (Some(spread), Some(bound)) = (spread, bound)
                    && spread.median > bound
                {
                    misses.push(format!("{label}: {what} {spread} is above {bound}"));
                }
            };
            match *cell {
                Cell::Pair(left, top) if is_mouse(&self.matrix.kinds[left]) => {
                    most("p50", self.beside(left, top, Number::P50), limits.p50_max);
                    most("p99", self.beside(left, top, Number::P99), limits.p99_max);
                }
                Cell::Pair(left, top) => {
                    let share = self.share(left, top);
                    most("share", share, limits.share_max);
                    most("share, inverted,", share.map(Spread::inverse), limits.share_max);
                }
                Cell::Crowd(kind, flows) => {
                    if let (Some(fairness), Some(least)) =
                        (self.fairness(kind, flows), limits.fairness_min)
                        && fairness.median < least
                    {
                        misses.push(format!("{label}: fairness {fairness} is below {least}"));
                    }
                }
                Cell::Alone(_) | Cell::Again(_) => {}
            }
        }
        misses
    }

    /// One document with every draw.
    pub fn to_json(&self) -> String {
        let name = |kind: &usize| json!(self.matrix.kinds[*kind].name);
        let cells = self.matrix.cells.iter().zip(&self.draws).map(|(cell, draws)| {
            let flows: Vec<_> = match cell {
                Cell::Alone(kind) | Cell::Again(kind) => vec![name(kind)],
                Cell::Pair(left, top) => vec![name(left), name(top)],
                Cell::Crowd(kind, flows) => vec![name(kind); *flows as usize],
            };
            json!({"cell": self.matrix.label(*cell), "flows": flows, "draws": draws})
        });
        let document = json!({
            "format": FORMAT,
            "world": self.world,
            "simulated": false,
            "about": self.about,
            "partial": self.partial,
            "draw_ms": self.matrix.draw_ms,
            "kinds": self.matrix.kinds,
            "cells": cells.collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bandwidth_gbps: f64, p50_us: Option<f64>) -> Seen {
        Seen { bandwidth_gbps, rate_per_s: bandwidth_gbps, p50_us, p99_us: p50_us }
    }

    /// Two kinds, an elephant and a mouse, whose draws are given.
    fn results(pair: &[[Seen; 2]], alone: &[Seen]) -> Results {
        let mut matrix = Matrix::quick(1, 10.0);
        let mouse = matrix.kinds.iter().position(is_mouse).unwrap();
        let cells = [Cell::Pair(1, 0), Cell::Pair(mouse, 0), Cell::Alone(mouse)];
        matrix.cells = cells.to_vec();
        let mut results = Results::new(matrix, "soft", "a test");
        let pair: Vec<Vec<Seen>> = pair.iter().map(|flows| flows.to_vec()).collect();
        results.draws = vec![pair.clone(), pair, alone.iter().map(|seen| vec![*seen]).collect()];
        results
    }

    #[test]
    fn a_ratio_is_the_median_of_draws_and_its_inverse_looks_from_the_other_side() {
        let draws = [[3.0, 1.0], [4.0, 2.0], [1.0, 1.0]].map(|pair| pair.map(|of| seen(of, None)));
        let results = results(&draws, &[]);
        let share = results.share(1, 0).unwrap();
        assert_eq!(share, Spread { median: 2.0, low: 1.0, high: 3.0, draws: 3 });
        assert_eq!(results.share(0, 1).unwrap().median, 0.5);
        assert!(!share.is_one_sided());
        let of = |count: usize| Spread::of(vec![1.5; count]).unwrap();
        assert!(of(8).is_one_sided() && !of(7).is_one_sided(), "seven draws are too few");
        let limits = |share_max| Limits { share_max: Some(share_max), ..Limits::default() };
        assert_eq!(results.misses(&limits(2.0)), [""; 0]);
        let missed = results.misses(&limits(1.5));
        assert_eq!(
            missed,
            ["read 8 MB event beside read 1 MB event: share 2.00 (1.00 to 3.00) is above 1.5"]
        );
    }

    #[test]
    fn a_flow_that_got_nothing_is_the_worst_case_and_no_missing_value() {
        let starved = [[seen(1.0, None), seen(0.0, None)]; 2];
        let results = results(&starved, &[seen(1.0, Some(5.0)); 2]);
        assert_eq!(results.share(1, 0).unwrap().median, f64::INFINITY);
        let mouse = results.kinds(true)[0];
        assert_eq!(results.beside(mouse, 0, Number::P50).unwrap().median, f64::INFINITY);
        let limits = Limits { p50_max: Some(1e9), ..Limits::default() };
        assert_eq!(results.misses(&limits).len(), 1);
    }

    #[test]
    fn draws_that_were_not_made_miss_nothing_and_the_file_is_valid() {
        let results = results(&[], &[]);
        let limits = Limits { share_max: Some(1.0), p50_max: Some(1.0), ..Limits::default() };
        assert_eq!((results.misses(&limits).len(), results.rounds()), (0, 0));
        let read: serde_json::Value = serde_json::from_str(&results.to_json()).unwrap();
        assert_eq!(read["format"], FORMAT);
    }
}
