//! What was measured or simulated, in open formats.
//!
//! ```text
//!   rows ─► Table ─┬─► CSV, JSON, Parquet
//!                  └─► Figure ─► Page: one HTML file that needs nothing else
//! ```
//!
//! A [`Table`] has named columns with units. A [`Figure`] is a Vega-Lite specification with the rows
//! that it needs, and a [`Page`] holds text, tables and figures together with the programs that draw
//! them, so that it opens anywhere, years later.
//!
//! **Invariant:** the same rows give the same bytes in every format. Nothing here asks for the time
//! or for chance.

#![forbid(unsafe_code)]

pub mod limits;
mod page;
mod table;

pub use page::{Block, Figure, LEVELS, Page, Replay, ReplayFrame, ReplayNode};
pub use table::{Cell, Column, Kind, Table};
