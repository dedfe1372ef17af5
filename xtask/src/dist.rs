//! `cargo xtask dist`: builds what users run and lays it out under `target/dist`.

use anyhow::{Result, bail};

/// Builds `dist/bin/ferroce` and `dist/lib/ferroce/libibverbs.so.1`.
pub(crate) fn run() -> Result<()> {
    bail!("`cargo xtask dist` is not written yet")
}
