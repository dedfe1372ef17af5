//! Trials: a path and a load that a seed draws, and the time in which all messages must have come over.

use core::fmt;
use std::string::String;

use rdma::{Mtu, Rate, Span};

use super::load::{Load, Program, Verb, config};
use super::path::{MILLION, Path};
use super::storm::random::Random;
use crate::Congestion;

/// What a seed has drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// What the messages go over.
    pub path: Path,
    /// What is asked for.
    pub load: Load,
    /// How many messages, by each queue pair.
    pub messages: u64,
    /// See [`super::Pair::glance`].
    pub glance: Span,
    seed: u64,
}

impl Trial {
    /// Draws one.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0070_6174_6800);
        let rate = Rate::from_mbps(random.pick(&[50, 200, 1_000, 5_000]));
        let delay = Span::from_us(random.pick(&[10, 100, 1_000, 10_000]));
        let path = Path {
            queue_bytes: random.pick(&[60_000, 200_000, 1_000_000]),
            lost: random.pick(&[0, 1_000, 1_000, 10_000, 10_000, 50_000]),
            reordered: random.pick(&[0, 0, 10_000, 200_000, MILLION]),
            late: Span::from_us(random.pick(&[20, 200, 2_000])),
            duplicated: random.pick(&[0, 0, 10_000]),
            ..Path::new(rate, delay)
        };
        let mtu = random.pick(&[Mtu::B1024, Mtu::B4096]);
        let load = Load {
            length: random.pick(&[1, 1_000, 5_000, 65_536, 65_536, 262_144]),
            depth: random.pick(&[1, 2, 16, 128]),
            qps: random.pick(&[1, 1, 2, 8]),
            rd_atomics: random.pick(&[1, 4, 16, 128]),
            ..Load::new(random.pick(&Verb::ALL), mtu)
        };
        // Some 10 ms of the path, and what is no more than a few megabytes.
        let bytes = (rate.as_bps() / 8 / 100).clamp(100_000, 4_000_000);
        let each = u64::from(load.length) * load.qps as u64;
        let messages = (bytes / each).clamp(4, 300);
        // Its places are as many as there are messages at most.
        let load = Load { depth: load.depth.min(messages), ..load };
        let glance = Span::from_us(random.pick(&[0, 0, 20, 200]));
        Self { path, load, messages, glance, seed }
    }

    /// What it takes on the path if nothing is lost: what is under way at a time takes a round trip, and
    /// never less than the port needs for it.
    pub fn ideal(&self) -> Span {
        let Self { path, load, messages, glance, .. } = self;
        let Load { length, depth, qps, mtu, .. } = *load;
        let depth = if load.verb == Verb::Read { depth.min(load.rd_atomics.into()) } else { depth };
        let frames = u64::from(mtu.packets(length)) * 90 + u64::from(length);
        let port = path.rate.time_of(frames * messages * qps as u64);
        let late = if path.reordered == MILLION { path.late } else { Span::ZERO };
        let round = path.delay * 2 + *glance * 2 + path.rate.time_of(frames) + late;
        let rounds = round * messages.div_ceil(depth);
        port.max(rounds)
    }

    /// Brings the messages over. Returns how long that took.
    ///
    /// # Errors
    /// What went wrong, or that it was not done within `within`.
    pub fn run(&self, congestion: Congestion, within: Span) -> Result<Span, String> {
        let mut program = self.program(congestion);
        program.finish(self.messages, within)
    }

    /// The program that does it.
    pub fn program(&self, congestion: Congestion) -> Program {
        let mut program = Program::new(config(congestion), self.load, self.path, self.seed, None);
        program.pair.glance = self.glance;
        program
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, load, messages, glance, seed } = self;
        write!(
            f,
            "seed {seed}: {messages} {:?} of {} B, {} at a time, {} queue pairs, MTU {}, {} READs, over {} Mb/s, {} one \
             way, {} KB of queue, {} lost, {} late by {} at most, {} twice, of a million; a glance each {}",
            load.verb,
            load.length,
            load.depth,
            load.qps,
            load.mtu.bytes(),
            load.rd_atomics,
            path.rate.as_bps() / 1_000_000,
            path.delay,
            path.queue_bytes / 1_000,
            path.lost,
            path.reordered,
            path.late,
            path.duplicated,
            glance,
        )
    }
}
