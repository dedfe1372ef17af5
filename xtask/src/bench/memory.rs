//! What an open, connected RC queue pair costs in memory.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::lab::Lab;

const SOURCE: &str = "xtask/src/bench/qp_memory.c";
const PATIENCE: Duration = Duration::from_secs(60);

/// Resident memory per queue pair in KiB, queues of one entry included.
pub(super) fn per_qp_kib(lab: &Lab) -> Result<f64> {
    let program = lab.compile("qp_memory", &[SOURCE])?;
    let ended = lab.finish("qp_memory", lab.run(&[], &[&program]), Instant::now() + PATIENCE)?;
    match ended.status {
        Some(status) if status.success() => {}
        Some(status) => bail!("{status}: {}", ended.stderr.trim()),
        None => bail!("not finished within {} s", PATIENCE.as_secs()),
    }
    let bytes: f64 = ended.stdout.trim().parse().context("it printed no number")?;
    Ok(bytes / 1024.0)
}
