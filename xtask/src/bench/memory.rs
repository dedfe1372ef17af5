//! What an open, connected RC queue pair costs in memory.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::lab::Lab;
use crate::workspace;

const SOURCE: &str = "xtask/src/bench/qp_memory.c";
const PATIENCE: Duration = Duration::from_secs(60);

/// Resident memory per queue pair in KiB, queues of one entry included.
pub(super) fn per_qp_kib(lab: &Lab) -> Result<f64> {
    let program = lab.folder().join("qp_memory");
    if !program.exists() {
        compile(lab)?;
    }
    let path = program.display().to_string();
    let ended = lab.finish("qp_memory", lab.run(&[], &[&path]), Instant::now() + PATIENCE)?;
    match ended.status {
        Some(status) if status.success() => {}
        Some(status) => bail!("{status}: {}", ended.stderr.trim()),
        None => bail!("not finished within {} s", PATIENCE.as_secs()),
    }
    let bytes: f64 = ended.stdout.trim().parse().context("it printed no number")?;
    Ok(bytes / 1024.0)
}

fn compile(lab: &Lab) -> Result<()> {
    let program = lab.folder().join("qp_memory");
    let mut command = Command::new("cc");
    command.current_dir(workspace::root()).args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program);
    command.arg(SOURCE).arg("-L").arg(lab.library_dir()).arg("-l:libibverbs.so.1");
    workspace::run(&mut command).context("the headers come with libibverbs-dev")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
