//! What goes from one partition of a network to another.
//!
//! ```text
//!   partition A: transmit ─► outbox[B] ── the partitions meet ──► partition B: pool, events
//! ```
//!
//! Partitions have pools of their own, so a packet that leaves one takes its thirty-two bytes along. No
//! partition is ever so far ahead of another that what it gets is due in its past: see `network/run.rs`.

use super::{Event, EventKind, Links};
use crate::packet::{Extension, Kind, Packet};

/// Packets on their way to one partition. Each says to which port.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    packets: Vec<Packet>,
    /// When each arrives, in picoseconds.
    times: Vec<u64>,
    /// Of those that are [`Kind::Extended`], in their order.
    extensions: Vec<Extension>,
}

impl Mailbox {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

impl Links {
    /// Sends `packet` to partition `partition`, where it arrives at `at`.
    pub(super) fn post(&mut self, partition: usize, at: u64, packet: u32) {
        let of = *self.pool.get(packet);
        let mailbox = &mut self.outbox[partition];
        if of.kind == Kind::Extended {
            mailbox.extensions.push(self.pool.take_extension(packet));
        }
        self.pfc_in_flight -= usize::from(of.kind == Kind::Pfc);
        self.pool.free(packet);
        grow_by_a_quarter(&mut mailbox.packets);
        mailbox.packets.push(of);
        grow_by_a_quarter(&mut mailbox.times);
        mailbox.times.push(at);
    }

    /// Takes what came from other partitions, and leaves the mailboxes empty.
    pub(crate) fn collect(&mut self, mailboxes: &mut [Mailbox]) {
        self.events.open_mail(EventKind::Arrive as u8);
        for mailbox in mailboxes {
            let mut extensions = mailbox.extensions.drain(..);
            for (packet, at) in mailbox.packets.drain(..).zip(mailbox.times.drain(..)) {
                let index = self.pool.insert(packet);
                if packet.kind == Kind::Extended
                    && let Some(extension) = extensions.next()
                {
                    self.pool.extend(index, extension);
                }
                if packet.kind == Kind::Pfc {
                    self.pfc_in_flight += 1;
                    let event = Event::new(EventKind::ArrivePause, packet.next, index);
                    self.events.push_at(at, event.0);
                } else {
                    let event = || Event::new(EventKind::Arrive, packet.next, index).0;
                    self.events.post(at, index, event);
                }
            }
        }
        self.events.close_mail();
    }
}

/// Makes room for one more. There are as many mailboxes as pairs of partitions, and if they doubled, half
/// of each would be empty.
#[inline]
fn grow_by_a_quarter<T>(vector: &mut Vec<T>) {
    if vector.len() == vector.capacity() {
        vector.reserve_exact(16 + vector.len() / 4);
    }
}
