//! Counters as samples, and detectors as state machines over them.
//!
//! ```text
//!   sysfs, ethtool, dcb, rdma ──┐
//!   SONiC: COUNTERS_DB, show  ──┤ read        counted         look
//!   soft NICs, labs           ──┼──────► Raw ────────► Sample ────► Watch ─► found, over
//!   a simulation's counters   ──┘         │                          ▲
//!                                         └─ metrics                 │ fabric::sample
//!                                                                  Network
//! ```
//!
//! [`Raw`] has every counter under the name that its driver gives it. [`metrics`] renames them for dashboards, and
//! [`Raw::sample`] picks those that detectors understand, whatever they are called.
//!
//! # What holds
//!
//! - Nothing here has a clock, a socket or a file: texts, samples and times are arguments.
//! - Directions are those of the port that counts. *Received* pauses: the other end stopped this port, so look at what
//!   is behind it. *Sent* pauses: this port stopped the other end, so look at this device.
//! - A counter that has fallen, a time that stands still or goes back, and a port that was away give a new beginning,
//!   never a finding.

mod detect;
mod fabric;
mod hook;
mod metrics;
mod port;
mod rates;
mod raw;
mod read;
mod sample;

pub use detect::{Event, Finding, Kind, Settings, Storm, StormRule, StormSample, StormStep, Watch};
pub use fabric::{ecn_configured, pool as pool_of, sample as sample_network};
pub use hook::{remedy, sonic_command};
pub use metrics::{metrics, sample_metrics};
pub use port::{PRIORITIES, PortName, Role};
pub use rates::{Row, rates};
pub use raw::{Origin, Raw, RawPort};
pub use read::{ReadError, dcb, ethtool, rdma, recorded, simulated, soft, sonic, sysfs};
pub use sample::{PoolSample, PortSample, QueueSample, Sample};
