//! What goes from one part of a network to another.
//!
//! ```text
//!   part A: transmit ─► outbox[B] ──── the parts meet ────► part B: pool, events
//! ```
//!
//! A packet that leaves its part takes its thirty-two bytes along, for parts have pools of their own. No
//! part is ever so far ahead of another that what it gets is due in its past: see `network/run.rs`.

use wire::roce;

use super::{Event, Plant, What};
use crate::packet::{Kind, Packet};

/// A packet and when it arrives.
#[derive(Clone, Copy, Debug)]
struct Mail {
    at: u64,
    what: What,
    port: u32,
    packet: Packet,
}

/// Packets on their way to one part.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    mail: Vec<Mail>,
    /// The headers of those that are [`Kind::Extended`], in their order.
    headers: Vec<roce::Repr>,
}

impl Mailbox {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.mail.is_empty()
    }
}

impl Plant {
    /// Sends `packet` to part `part`, where it arrives at `at`.
    pub(super) fn post(&mut self, part: usize, at: u64, what: What, port: u32, packet: u32) {
        let of = *self.pool.get(packet);
        let mailbox = &mut self.outbox[part];
        if of.kind == Kind::Extended {
            mailbox.headers.push(self.pool.header(packet));
        }
        self.pfc_in_flight -= usize::from(of.kind == Kind::Pfc);
        self.pool.free(packet);
        mailbox.mail.push(Mail { at, what, port, packet: of });
    }

    /// Takes what came from another part, and leaves the mailbox empty.
    pub(crate) fn collect(&mut self, mailbox: &mut Mailbox) {
        let mut headers = mailbox.headers.drain(..);
        for Mail { at, what, port, packet } in mailbox.mail.drain(..) {
            let header = if packet.kind == Kind::Extended { headers.next() } else { None };
            self.pfc_in_flight += usize::from(packet.kind == Kind::Pfc);
            let packet = self.pool.adopt(packet, header);
            self.events.push_at(at, Event::new(what, port, packet).0);
        }
    }
}
