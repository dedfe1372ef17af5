//! What was measured or simulated, in open formats.
//!
//! ```text
//!   rows ─► Table ─┬─► CSV, JSON, Parquet
//!                  └─► Figure ─► Page: one HTML file that needs nothing else
//! ```
//!
//! # A table
//!
//! A [`Table`] has named columns with units, and rows. Columns come first; each is called by its name and
//! unit in every format:
//!
//! ```
//! use telemetry::{Cell, Table};
//!
//! let mut flows = Table::new("flows").texts("source").integers("sent", "bytes").floats("rate", "gbps");
//! flows.push([Cell::Text("h0"), Cell::Integer(4096), Cell::Float(38.5)]);
//! flows.push([Cell::Text("h1"), Cell::Integer(0), Cell::Missing]);
//!
//! assert_eq!(flows.to_csv(), "source,sent_bytes,rate_gbps\nh0,4096,38.5\nh1,0,\n");
//! assert_eq!(
//!     flows.to_json(),
//!     "[\n{\"source\":\"h0\",\"sent_bytes\":4096,\"rate_gbps\":38.5},\n\
//!      {\"source\":\"h1\",\"sent_bytes\":0,\"rate_gbps\":null}\n]\n",
//! );
//! ```
//!
//! [`Table::write_parquet`] writes the same rows for pandas, DuckDB and the like.
//!
//! # A page
//!
//! A [`Figure`] is a Vega-Lite specification with the rows that it needs. A [`Page`] holds text, tables and
//! figures together with the programs that draw them, so that it opens anywhere, years later:
//!
//! ```
//! use telemetry::{Block, Cell, Figure, Page, Table};
//!
//! let mut queue = Table::new("queue").integers("time", "us").integers("length", "bytes");
//! for (time, length) in [(0, 0), (1, 64_000), (2, 12_000)] {
//!     queue.push([Cell::Integer(time), Cell::Integer(length)]);
//! }
//! let figure = Figure::steps(&queue, "time_us", "length_bytes")
//!     .title("The queue towards h3")
//!     .rule(48_000.0, "XOFF");
//!
//! let mut page = Page::simulated("Three to one", "one switch, four hosts");
//! page.section("Queues").add(&Block::Text("It is `XOFF` that stops the senders."));
//! page.add(&Block::Figure(&figure));
//! let html = page.to_html();
//! assert!(html.starts_with("<!DOCTYPE html>") && html.contains("The queue towards h3"));
//! ```
//!
//! [`Block`] lists what else stands on a page, among it a [`Replay`]: a drawing of a network with a slider
//! over time.
//!
//! # Metrics
//!
//! [`Metrics`] are what runs counts now, for Prometheus; an [`Endpoint`] serves them.
//!
//! **Invariant:** the same rows give the same bytes in every format. Nothing here asks for the time
//! or for chance.

#![forbid(unsafe_code)]

mod limits;
mod metrics;
mod page;
mod table;
pub mod words;

pub use metrics::{
    Endpoint, EndpointError, Format, MetricKind, MetricValue, Metrics, OtlpError, OtlpReceiver,
    Reach,
};
pub use page::{Block, Figure, LEVELS, Page, Replay, ReplayFrame, ReplayNode};
pub use rdma::nearest;
pub use table::{Cell, Column, Kind, Table};
