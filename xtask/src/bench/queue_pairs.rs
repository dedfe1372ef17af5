//! What an open, connected RC queue pair costs: memory, and time to open and to close it.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::lab::Lab;

const SOURCE: &str = "xtask/src/bench/queue_pairs.c";
const PATIENCE: Duration = Duration::from_secs(60);

/// What each of many queue pairs costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Resident memory, queues of one entry included.
    pub(super) kib: f64,
    /// To create it, to bring it to RTS and to destroy it.
    pub(super) us: f64,
}

/// Opens `count` queue pairs in one process.
pub(super) fn cost(lab: &Lab, count: u32) -> Result<Cost> {
    let program = lab.compile("queue_pairs", &[SOURCE])?;
    let words = [program, count.to_string()];
    let ended = lab.finish("queue_pairs", lab.run(&[], &words), Instant::now() + PATIENCE)?;
    match ended.status {
        Some(status) if status.success() => {}
        Some(status) => bail!("{status}: {}", ended.stderr.trim()),
        None => bail!("not finished within {} s", PATIENCE.as_secs()),
    }
    let mut numbers = ended.stdout.split_whitespace().map(str::parse::<f64>);
    let mut number = || numbers.next().context("it printed too little")?.context("no number");
    Ok(Cost { kib: number()? / 1024.0, us: number()? })
}
