//! In-band network telemetry (INT): what each switch writes into a data packet when it sends it.
//!
//! ```text
//!   requester ── data ──► switch ──► switch ──► responder ── acknowledgement, with the records ──► requester
//!                          │ record   │ record
//!                          └ time, bytes sent, queue length and link rate of the port that it leaves by
//! ```
//!
//! A READ response brings its records to the requester by itself. Records are exact here; in the paper they
//! are rounded to fields of four to twenty-four bits.

use alloc::vec::Vec;

use rdma::{Rate, Time};
use wire::opcode::{Operation, Service};
use wire::roce;

/// What so many records take of a packet.
pub(super) const fn bytes_of(hops: usize) -> u16 {
    2 + 8 * hops as u16
}

/// What a port of a switch was like when a packet left by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// When that was.
    pub at: Time,
    /// What the port had sent by then, ever: as many bytes as its link was busy with.
    pub sent_bytes: u64,
    /// What waited at the port.
    pub queue_bytes: u64,
    /// The rate of its link.
    pub rate: Rate,
}

/// The records of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Telemetry {
    /// The numbers of the ports that it has left by, XORed: packets with the same one are of one path. The
    /// paper's pathID is of switches, and says nothing of links side by side.
    pub path: u32,
    /// One a switch, in their order.
    pub hops: Vec<Hop>,
}

impl Telemetry {
    /// Hops that a packet has room for from the start; each more makes it longer.
    pub const HOPS_ROOM: usize = 5;

    /// No records yet.
    pub fn new() -> Self {
        Self { path: 0, hops: Vec::with_capacity(Self::HOPS_ROOM) }
    }

    /// What they take of a packet: two bytes and eight for each hop, so 42 as in the paper, or more.
    pub fn bytes(&self) -> u16 {
        bytes_of(self.hops.len().max(Self::HOPS_ROOM))
    }

    /// Whether a packet carries data of a reliable connection, so that its path is of interest.
    pub fn is_for(header: &roce::Repr) -> bool {
        let facts = header.facts();
        matches!(facts.service, Service::Rc | Service::Xrc)
            && matches!(
                facts.operation,
                Operation::Send | Operation::Write | Operation::ReadResponse
            )
    }
}
