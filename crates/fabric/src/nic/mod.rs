//! The NIC of a host: what is between its port and its engines.
//!
//! ```text
//!   engine of priority 0 ─┐
//!   engine of priority 3 ─┼─ round robin over those that are not paused ─► port
//!   ...                   ┘
//!   port ─► receive buffer ─► one packet per `receive` time ─► engine of the packet's priority
//!             XOFF above, XON below: pauses     │ what it needs of the server's memory
//!             every lossless priority           └─► wait for it, then for the bus; then the next
//! ```
//!
//! The same transport engine as on a socket: one for every priority that the host uses, so that a
//! pause of one priority stops the queue pairs of that one alone. The engine is asked for a packet
//! when the port is free to send it; nothing waits between the two.
//!
//! A NIC without a receive time and without [`HostMemory`] hands packets to its engine as they arrive,
//! and never pauses. One with host memory is the slow receiver of guo16, 4.4: a packet whose page or
//! queue pair is not in its caches holds up those behind it. (Its own acknowledgement leaves before
//! its data are in memory, as posted writes allow.) One that is stuck (guo16, 4.3: a bug of its receive
//! pipeline) takes no more packets out of its buffer and pauses for ever, unless its own watchdog forbids
//! that.

mod cache;
mod host_memory;

use rdma::{Mtu, Rate, Span};
use transport::Recovery;
use transport::congestion::{Congestion, Notification};

use crate::limits::OVERTAKEN_WAIT;
use crate::pfc::PfcConfig;
use crate::tcp::TcpConfig;

pub(crate) use host_memory::Contexts;
pub use host_memory::{CacheCounters, HostMemory, Pcie};

/// The settings of a NIC and of the engines in it.
#[derive(Clone, PartialEq, Debug)]
pub struct NicConfig {
    /// Payload of a packet.
    pub mtu: Mtu,
    /// What is sent again after a loss.
    pub recovery: Recovery,
    /// Selective repeat: how long packets that others have overtaken may still arrive before they are sent
    /// again, at least; with zero they count as lost at once. `None` leaves it to the network: no time where
    /// all switches keep a flow on one path.
    pub overtaken_wait: Option<Span>,
    /// Selective repeat: packets, from the oldest that is missing on, that a queue pair may have under way and
    /// place before their turn, each way.
    pub out_of_order_packets: u32,
    /// An acknowledgement is asked for every so many packets.
    pub ack_interval_packets: u32,
    /// Bytes that a queue pair may have in flight; see [`transport::Config::window_bytes`].
    pub window_bytes: u64,
    /// The most that one READ request asks for.
    pub read_chunk_bytes: u32,
    /// Local ACK timeout: 4.096 us x 2^code, none for 0.
    pub ack_timeout_code: u8,
    /// Retries before a queue pair fails, 0 to 7.
    pub retry_count: u8,
    /// Priority by DSCP.
    pub dscp_to_priority: [u8; 64],
    /// A bit for each priority that has PFC: this NIC obeys pauses of it, and sends them when its receive
    /// buffer fills.
    pub lossless_priorities: u8,
    /// How fast queue pairs may send. Packets say that they may be marked if it listens to marks. The
    /// line rate of DCQCN is that of the host's link, whatever it is here.
    pub congestion: Congestion,
    /// How senders are told of marks.
    pub notification: Option<Notification>,
    /// Whether it was told of VLANs: it tags what it sends with the priority (see
    /// [`crate::switch::config::Trust::Pcp`]), and takes what is tagged.
    pub tagged: bool,
    /// How long it takes to take a packet out of the receive buffer.
    pub receive: Span,
    /// How long it takes to make a packet.
    pub transmit: Span,
    /// How long it takes to begin with a work request, or with a READ that is asked of it.
    pub work_request: Span,
    /// The TCP of its server, whose segments leave by this NIC too.
    pub tcp: TcpConfig,
    /// What it keeps in its server's memory; `None` for a NIC that has everything at hand.
    pub host_memory: Option<HostMemory>,
    /// The receive buffer.
    pub receive_buffer_bytes: u32,
    /// It pauses above.
    pub xoff_bytes: u32,
    /// It resumes at or below.
    pub xon_bytes: u32,
    /// Pause frames.
    pub pfc: PfcConfig,
    /// How long its receive pipeline may stand still and pause, before it may pause no more
    /// (guo16, 4.3: 100 ms); `None` without that watchdog.
    pub watchdog: Option<Span>,
}

impl NicConfig {
    /// The same for a host whose link has `rate`.
    pub(crate) fn at_rate(mut self, rate: Rate) -> Self {
        self.congestion = self.congestion.at_rate(rate);
        self
    }

    /// The same for a host whose packets may overtake each other.
    pub(crate) fn over_many_paths(mut self) -> Self {
        self.overtaken_wait.get_or_insert(OVERTAKEN_WAIT);
        self
    }

    /// The priority of a DSCP.
    pub fn priority_of(&self, dscp: u8) -> u8 {
        self.dscp_to_priority[usize::from(dscp & 63)] & 7
    }
}

impl Default for NicConfig {
    /// A NIC that keeps up with its link: MTU 1024, go-back-N, an acknowledgement for each packet,
    /// no window.
    fn default() -> Self {
        Self {
            mtu: Mtu::B1024,
            recovery: Recovery::GoBackN,
            overtaken_wait: None,
            out_of_order_packets: 1024,
            ack_interval_packets: 1,
            window_bytes: u64::MAX,
            read_chunk_bytes: u32::MAX,
            ack_timeout_code: 14,
            retry_count: 7,
            dscp_to_priority: crate::pfc::default_dscp_map(),
            lossless_priorities: 0b0001_1000,
            congestion: Congestion::None,
            notification: Some(Notification::default()),
            tagged: false,
            receive: Span::ZERO,
            transmit: Span::ZERO,
            work_request: Span::ZERO,
            tcp: TcpConfig::default(),
            host_memory: None,
            receive_buffer_bytes: 256 << 10,
            xoff_bytes: 192 << 10,
            xon_bytes: 128 << 10,
            pfc: PfcConfig::default(),
            watchdog: None,
        }
    }
}

/// The receive buffer of a NIC.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    pub(crate) packets: std::collections::VecDeque<u32>,
    pub(crate) bytes: u32,
    pub(crate) peak_bytes: u32,
    /// An [`crate::links::EventKind::Received`] is scheduled.
    pub(crate) busy: bool,
    /// Of the packet that its engine has had, and whose data wait for memory or bus.
    pub(crate) held_bytes: u32,
    /// The pipeline stands still.
    pub(crate) stuck: bool,
    /// The watchdog has forbidden pauses.
    pub(crate) muted: bool,
    /// How often it has.
    pub(crate) storms: u64,
}
