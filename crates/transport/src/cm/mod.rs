//! The connection manager: how two queue pairs learn of each other (IBTA vol 1, chapter 12).
//!
//! ```text
//!   connect, accept, reject ──► Manager ──► poll_transmit ──► (UD packets between QP1s)
//!   poll_event ◄── Request,        ▲                                      │
//!                  Established...  └────────────── handle ◄───────────────┘
//! ```
//!
//! [`Manager`] is a state machine beside [`crate::Endpoint`], driven by the same verbs: datagrams
//! come in by [`Manager::handle`], time by `now`, and the driver polls for messages, deadlines and
//! events. It changes no queue pair: as in IBTA, the application does, from what the events say.
//!
//! A client whose service nobody offers asks again for a tenth of a second. Servers such as
//! perftest's listen anew for each connection, and a client that is told over TCP to go on may come
//! in between. With hardware, address resolution takes longer than the gap.
//!
//! Messages are those of [`wire::cm`]. A caller fills in what only it knows (queue pair, PSN,
//! resources, private data); the manager fills in numbers, timeouts and the GUID.
//!
//! A message that needs an answer is repeated as often, and at such intervals, as the REQ says. A
//! duplicate gets the former answer again and never reaches the application. While an application
//! takes its time, MRAs tell the peer to wait.
//!
//! Where an address has used up its share of conversations, the oldest goes in favour of the newest
//! ([`Rank`](conversation.rs)). So a burst of requests, whoever forged them, locks out nobody for longer than
//! peers have to confirm, four seconds. What waits for an application is bounded by its listener's backlog; what comes beyond that is dropped, and its
//! peer asks again.
//!
//! **Invariants:** no datagram and no call can make it panic. A peer can make it hold no more
//! conversations than [`crate::limits`] allows, and a host no more than its share. Every conversation
//! ends: what waits for a peer has a timer ([`state`](state.rs)), and a connection that is accepted
//! does not stay half open for longer than five minutes. A REQ ends an old connection of its queue
//! pair only if it comes from the address of that connection.
//!
//! **Absent:** alternate paths (LAP, APR), reliable datagrams, redirection.

mod conversation;
mod incoming;
mod manager;
mod state;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;

use rdma::Mtu;
use wire::cm::{Mad, rej, rep, req, sidr};

use crate::Route;
pub use manager::Manager;

/// The number of a conversation: what IBTA calls the local communication ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommId(pub u32);

/// A listener: it waits for requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(pub u32);

/// The settings of a manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CmConfig {
    /// The numbers that its conversations may have. Managers that share an address have ranges
    /// that do not meet.
    pub ids: Range<u32>,
    /// The adapter's own GUID, which nobody learns. Random: with `seed` it is the key of the hash that
    /// a peer is told as Local CA GUID, another one at each address. To peers it is a number like any
    /// other (IBTA vol 1, 12.6.5), but who knows it and a queue pair can end a connection by a REQ.
    pub guid: u64,
    /// What shuffles numbers and where transactions begin: random, so that they cannot be guessed and
    /// are not taken for those of an earlier run.
    pub seed: u64,
    /// The longest path MTU that requests may ask for: that of the port.
    pub mtu: Mtu,
}

/// An outgoing message, from QP1 to QP1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Where to.
    pub route: Route,
    /// What.
    pub mad: Mad,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CmEvent {
    /// A peer wants a connection.
    Request {
        /// Whom it asks.
        listener: ListenerId,
        /// The conversation's number from now on.
        id: CommId,
        /// The way back.
        route: Route,
        /// What it wants.
        request: Box<req::Repr>,
        /// Options of enhanced connection establishment.
        options: u32,
    },
    /// The peer has accepted: the queue pair is to be made ready, and the reply confirmed.
    Reply {
        /// The conversation.
        id: CommId,
        /// What it says.
        reply: Box<rep::Repr>,
        /// Options of enhanced connection establishment.
        options: u32,
        /// The path MTU that the peer has accepted: less than what was asked for if it could not have that.
        mtu: Mtu,
    },
    /// The peer has confirmed.
    Established(CommId),
    /// The peer refuses, or has given up waiting. The number is free.
    Rejected {
        /// The conversation.
        id: CommId,
        /// Why.
        rejection: Box<rej::Repr>,
    },
    /// The peer does not answer. The number is free.
    Unreachable(CommId),
    /// The connection has ended.
    Disconnected(CommId),
    /// No late packet of the connection is to be expected any more. The number is free.
    Closed(CommId),
    /// A peer asks for the queue pair of a datagram service.
    DatagramRequest {
        /// Whom it asks.
        listener: ListenerId,
        /// The conversation's number from now on.
        id: CommId,
        /// The way back.
        route: Route,
        /// What it says.
        request: Box<sidr::Req>,
    },
    /// The peer has answered that question, in one way or the other. The number is free.
    DatagramReply {
        /// The conversation.
        id: CommId,
        /// What it says.
        reply: Box<sidr::Rep>,
    },
}

impl CmEvent {
    /// Which conversation it is about.
    pub fn conversation(&self) -> CommId {
        match self {
            Self::Request { id, .. }
            | Self::Reply { id, .. }
            | Self::Rejected { id, .. }
            | Self::DatagramRequest { id, .. }
            | Self::DatagramReply { id, .. }
            | Self::Established(id)
            | Self::Unreachable(id)
            | Self::Disconnected(id)
            | Self::Closed(id) => *id,
        }
    }
}

/// Why a call did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CmError {
    /// There is no such conversation or listener (any more).
    NotFound,
    /// The conversation is not at that point.
    State,
    /// Somebody listens there already.
    InUse,
    /// As many as there can be.
    Exhausted,
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such conversation",
            Self::State => "the conversation is not at that point",
            Self::InUse => "somebody listens there already",
            Self::Exhausted => "as many conversations as there can be",
        })
    }
}

impl core::error::Error for CmError {}

/// Why a datagram changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Discard {
    /// It is not what it should be.
    Malformed(wire::Error),
    /// It was there before; what it asked for is answered again.
    Duplicate,
    /// It answers nothing that we have said.
    Stray,
    /// It asks for more than may wait, or its sender has had its answer too often.
    Excess,
}

rdma::counters! {
    /// What a manager has counted, under the names of Linux where it has them.
    pub struct CmStats {
        /// Connection management messages received.
        cm_rx_msgs,
        /// Messages received again.
        cm_rx_duplicates,
        /// Datagrams received that are no such message.
        cm_rx_malformed,
        /// Messages received that answer nothing.
        cm_rx_strays,
        /// Requests dropped because too many wait or were taken back, and messages that came again too often.
        cm_rx_excess,
        /// Messages sent.
        cm_tx_msgs,
        /// Messages sent again, unasked.
        cm_tx_retries,
        /// Requests refused because nobody offers the service.
        cm_unknown_services,
    }
}
