//! `cargo xtask storm`: many storms (see `transport::testing::storm`), built for release.

use std::ffi::OsString;

use anyhow::Result;

use crate::workspace::{self, cargo};

/// Builds the storm and passes `arguments` on to it.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<()> {
    let what = ["run", "--release", "--quiet", "--package", "ferroce-transport"];
    let which = ["--features", "testing", "--example", "storm", "--"];
    workspace::run(cargo().args(what).args(which).args(arguments))
}
