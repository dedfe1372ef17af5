//! TCP beside RDMA: smoltcp's stack, one instance a connection, behind a model of the kernel.
//!
//! ```text
//!   application ── send delay ──► smoltcp ──► queue of the priority ──► port
//!   application ◄─ receive delay ── smoltcp ◄───────────────────────── port
//! ```
//!
//! smoltcp is sans-IO, as our engine is: it is given packets and the time, and gives packets out.
//! Segments are packets of the fabric like others, in the class that the DSCP of their flow says. They
//! do not do ECN, so a lossy class drops them where it is full. SACK, which smoltcp's sender does not
//! listen to, is not carried. Its clock ticks in microseconds.
//!
//! A connection is opened when the simulation begins, so that messages do not wait for a handshake. A
//! message of a flow is done when it is acknowledged, by the peer's stack; one that is answered
//! (`reply_bytes`), when the application has its answer, after four delays of a kernel.
//!
//! **What is deliberately absent:** CPUs that are busy. Their effect is in the distribution of delays.

mod connection;
mod kernel;
mod segment;

use serde::Deserialize;

pub(crate) use connection::{Connection, Ends, Progress};
pub use kernel::KernelLatency;
pub(crate) use segment::{Addresses, Carried, Codec, Segment, captured};

/// Which congestion control a sender has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpCongestion {
    /// Reno: RFC 5681.
    #[default]
    Reno,
    /// CUBIC: RFC 8312.
    Cubic,
}

/// The TCP of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpConfig {
    /// An IP packet at most.
    pub mtu_bytes: u16,
    /// The buffer of a connection in each direction, and so its window.
    pub buffer_bytes: u32,
    /// What a loss means to a sender. A retransmission timeout is at least 10 ms; smoltcp begins with
    /// 700 ms, and comes down by an eighth of the way with each round trip that it measures.
    pub congestion: TcpCongestion,
    /// Between applications and the stack.
    pub kernel: KernelLatency,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mtu_bytes: 1_500,
            buffer_bytes: 256 << 10,
            congestion: TcpCongestion::default(),
            kernel: KernelLatency::default(),
        }
    }
}
