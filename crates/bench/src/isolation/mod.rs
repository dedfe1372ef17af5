//! What flows on one path do to each other: each kind of flow beside each other kind, and many alike.
//!
//! The matrix is that of zhang17 (Zhang et al., "Performance Isolation Anomalies in RDMA", KBNets 2017):
//! elephants of two sizes, four verbs and two ways to wait beside each other (table 3, figure 4), mice
//! beside mice (figures 5 and 6), mice beside elephants (figure 7). Messages are of 1 MB and 8 MB where
//! the paper has 1 MB and 1 GB: a draw of a tenth of a second holds no gigabyte.
//!
//! A cell is measured once in every round, so that all cells see the same stretch of time, and each draw
//! has connections of its own. Each mouse runs alone twice a round: what the second differs by from the
//! first is what differences mean nothing below.

mod page;
mod result;
mod text;

use crate::plan::{Flow, Plan, Verb, WaitMode};

pub use page::{page, tables};
pub use result::{Limits, Results, Spread};

/// Rounds unless more are asked for: fewer draws say nothing of chance.
pub const ROUNDS_MIN: u32 = 8;
/// What is not measured at the beginning of a draw, in milliseconds.
const WARMUP_MS: f64 = 20.0;
/// What is measured, unless another length is asked for.
pub const DRAW_MS: f64 = 80.0;
/// What connecting and closing take beside, about.
const BESIDE_MS: f64 = 15.0;

/// Messages of elephants: 1 MB and 8 MB.
const LARGE: [u32; 2] = [1_000_000, 8_000_000];
/// The longest message of a mouse (zhang17, 3.2), and the longest that is posted inline (3.1).
const MOUSE_BYTES_MAX: u32 = 1_000;
const INLINE_BYTES_MAX: u32 = 100;

/// What is measured at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    /// One flow of a kind, by its index.
    Alone(usize),
    /// The same a second time: the control.
    Again(usize),
    /// Two flows.
    Pair(usize, usize),
    /// So many flows of one kind.
    Crowd(usize, u32),
}

/// Kinds of flows, and which of them meet.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Elephants, then mice.
    pub kinds: Vec<Flow>,
    /// What is measured in each round, in this order.
    pub cells: Vec<Cell>,
    /// Rounds.
    pub rounds: u32,
    /// What is measured of a draw, in milliseconds.
    pub draw_ms: f64,
}

/// Whether flows of this kind wait for answers rather than for bandwidth.
pub fn is_mouse(flow: &Flow) -> bool {
    flow.size_bytes <= MOUSE_BYTES_MAX
}

/// One message at a time, as in the paper (3.1).
pub fn kind(verb: Verb, size_bytes: u32, wait: WaitMode) -> Flow {
    let inline = verb != Verb::Read && size_bytes <= INLINE_BYTES_MAX;
    let name = format!("{} {} {}", short(verb), bytes(size_bytes), wait.name());
    Flow { name, size_bytes, wait, inline, ..Flow::new(verb) }
}

/// The verb as the paper has it.
fn short(verb: Verb) -> &'static str {
    if verb == Verb::WriteImm { "wimm" } else { verb.name() }
}

fn bytes(size: u32) -> String {
    match size {
        1_000_000.. => format!("{} MB", size / 1_000_000),
        1_000.. => format!("{} KB", size / 1_000),
        _ => format!("{size} B"),
    }
}

impl Matrix {
    /// Every verb, size and way to wait.
    pub fn full(rounds: u32, draw_ms: f64) -> Self {
        let verbs = [Verb::Send, Verb::WriteImm, Verb::Read, Verb::Write];
        Self::of(&verbs, &[WaitMode::Event, WaitMode::Poll], rounds, draw_ms)
    }

    /// WRITEs and READs only: for a look.
    pub fn quick(rounds: u32, draw_ms: f64) -> Self {
        Self::of(&[Verb::Read, Verb::Write], &[WaitMode::Event], rounds, draw_ms)
    }

    fn of(verbs: &[Verb], waits: &[WaitMode], rounds: u32, draw_ms: f64) -> Self {
        let mut kinds = Vec::new();
        for wait in waits {
            for verb in verbs {
                kinds.extend(LARGE.map(|size| kind(*verb, size, *wait)));
            }
        }
        let elephants = kinds.len();
        kinds.extend([10, 100, 1_000].map(|size| kind(Verb::Write, size, WaitMode::Poll)));
        let others = verbs.iter().filter(|verb| matches!(verb, Verb::Read | Verb::Send));
        kinds.extend(others.map(|verb| kind(*verb, 10, WaitMode::Poll)));
        kinds.push(kind(Verb::Write, 10, WaitMode::Event));

        let mice = elephants..kinds.len();
        // Which verb an elephant has makes no difference to a mouse in the paper: WRITEs stand for all.
        let stands: Vec<usize> =
            (0..elephants).filter(|index| kinds[*index].verb == Verb::Write).collect();
        let mut cells: Vec<Cell> = (0..kinds.len()).map(Cell::Alone).collect();
        for left in 0..elephants {
            cells.extend((0..=left).map(|top| Cell::Pair(left, top)));
        }
        for left in mice.clone() {
            cells.extend((elephants..=left).map(|top| Cell::Pair(left, top)));
            cells.extend(stands.iter().map(|top| Cell::Pair(left, *top)));
        }
        for flows in [2, 4, 8] {
            cells.extend(stands.iter().map(|kind| Cell::Crowd(*kind, flows)));
        }
        cells.extend(mice.map(Cell::Again));
        Self { kinds, cells, rounds, draw_ms }
    }

    /// What is run for a cell.
    pub fn plan(&self, cell: Cell) -> Plan {
        let named = |kind: usize, name: String| Flow { name, ..self.kinds[kind].clone() };
        let flows = match cell {
            Cell::Alone(kind) | Cell::Again(kind) => vec![named(kind, "alone".to_owned())],
            Cell::Pair(left, top) => {
                vec![named(left, "left".to_owned()), named(top, "top".to_owned())]
            }
            Cell::Crowd(kind, flows) => {
                (0..flows).map(|index| named(kind, format!("flow {index}"))).collect()
            }
        };
        Plan {
            title: self.label(cell),
            warmup_ms: WARMUP_MS,
            length_ms: self.draw_ms,
            window_ms: self.draw_ms,
            flows,
            ..Plan::default()
        }
    }

    /// A cell in words.
    pub fn label(&self, cell: Cell) -> String {
        let name = |kind: usize| self.kinds[kind].name.as_str();
        match cell {
            Cell::Alone(kind) => format!("{} alone", name(kind)),
            Cell::Again(kind) => format!("{} alone again", name(kind)),
            Cell::Pair(left, top) => format!("{} beside {}", name(left), name(top)),
            Cell::Crowd(kind, flows) => format!("{flows} x {}", name(kind)),
        }
    }

    /// How many runs there are.
    pub fn draws(&self) -> usize {
        self.cells.len() * self.rounds as usize
    }

    /// How long all of them take, about, in seconds.
    pub fn seconds(&self) -> f64 {
        self.draws() as f64 * (WARMUP_MS + self.draw_ms + BESIDE_MS) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_has_every_pair_of_elephants_once_and_fits_into_five_minutes() {
        let matrix = Matrix::full(ROUNDS_MIN, DRAW_MS);
        let elephants = matrix.kinds.iter().filter(|kind| !is_mouse(kind)).count();
        let pairs = matrix.cells.iter().filter(
            |cell| matches!(cell, Cell::Pair(left, top) if *left < elephants && *top < elephants),
        );
        assert_eq!((elephants, pairs.count()), (16, 16 * 17 / 2));
        assert!(matrix.seconds() < 300.0, "{}", matrix.seconds());
        for (index, cell) in matrix.cells.iter().enumerate() {
            assert!(!matrix.cells[..index].contains(cell), "{cell:?}");
            matrix.plan(*cell).check().unwrap();
        }
    }

    #[test]
    fn every_mouse_runs_alone_twice_and_small_ones_are_inline() {
        let matrix = Matrix::quick(ROUNDS_MIN, DRAW_MS);
        for (index, kind) in matrix.kinds.iter().enumerate() {
            assert_eq!(matrix.cells.contains(&Cell::Again(index)), is_mouse(kind), "{}", kind.name);
            assert!(!kind.inline || kind.size_bytes <= 100);
        }
        let names: Vec<&str> = matrix.kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert!(names.contains(&"write 10 B event") && names.contains(&"read 8 MB event"));
    }
}
