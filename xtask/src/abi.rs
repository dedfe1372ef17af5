//! `cargo xtask abi`: compares the symbols that the library exports with the committed list.

use anyhow::{Result, bail};

/// Fails when `objdump -T` of the built library differs from `golden/symbols.txt`.
pub(crate) fn run() -> Result<()> {
    bail!("`cargo xtask abi` is not written yet")
}
