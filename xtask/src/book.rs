//! `cargo xtask book`: blocks of README and book that plain tests cannot run, as `crates/cli/tests/book/` lists them.

use anyhow::Result;

use crate::tally::{self, Tally};
use crate::workspace::whole;

/// The blocks of programs over the libraries of `target/dist`; with `long`, those of minutes too.
pub(crate) fn run(long: bool) -> Result<Tally> {
    let mut test = whole("test");
    test.args(["--test", "cli", "--", "--ignored", "blocks_of_programs"]);
    if long {
        test.arg("blocks_of_minutes");
    }
    tally::tests(&mut test)
}
