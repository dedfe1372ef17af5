//! What a stream has received: where its bytes are, and what the peer may send next.
//!
//! ```text
//!   the buffer, a ring in two halves            granted + unread + free = size
//!   ┌─────────────────┬─────────────────┐
//!   │ free │ unread   │ granted         │       The peer writes into what is granted. What it says
//!   └─────────────────┴─────────────────┘       it has written is unread. What the program has
//!          └ at                                 read is free, and is granted by halves.
//! ```
//!
//! Each message takes a credit, which it gives back when its last byte is read. Whoever says that it
//! has written more than was granted, or sends more messages than it has credits for, breaks the
//! protocol; nothing of this is believed.

use std::collections::VecDeque;

/// A peer that does not keep to the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Violation;

/// Two stretches of a ring, each an offset and a length; the second begins at 0, or is empty.
pub(super) type Stretches = [(usize, usize); 2];

/// `length` bytes of a ring of `size`, from `at` on.
pub(super) fn stretches(at: usize, length: usize, size: usize) -> Stretches {
    let first = length.min(size - at);
    [(at, first), (0, length - first)]
}

/// What the peer is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grant {
    /// Up to which of its messages it may send.
    pub(super) credit: u16,
    /// Where in the buffer it may write, and how much.
    pub(super) place: Option<(usize, usize)>,
}

/// The account of one direction.
#[derive(Debug)]
pub(super) struct Receiving {
    size: usize,
    /// The lengths of the messages of which something is unread; of the first, what is left of it.
    messages: VecDeque<u32>,
    /// Where the first unread byte is.
    at: usize,
    unread: usize,
    granted: usize,
    free: usize,
    /// Where the half begins that is granted next.
    next: usize,
    /// How many messages there may be.
    queue: u16,
    /// How many messages have been read, of all.
    read: u16,
    /// With how many the peer is told, at the latest.
    tell_at: u16,
}

impl Receiving {
    /// Nothing received, and half of `size` bytes granted by the greeting. `size` is even.
    pub(super) fn new(size: usize, queue: u16) -> Self {
        let half = size / 2;
        Self {
            size,
            messages: VecDeque::new(),
            at: 0,
            unread: 0,
            granted: half,
            free: half,
            next: half,
            queue,
            read: 0,
            tell_at: queue / 2,
        }
    }

    /// Of the whole buffer.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The peer says that it has written.
    pub(super) fn arrived(&mut self, bytes: u32) -> Result<(), Violation> {
        let length = bytes as usize;
        if length > self.granted || self.messages.len() >= self.queue.into() {
            return Err(Violation);
        }
        if length == 0 {
            self.spend();
            return Ok(());
        }
        self.granted -= length;
        self.unread += length;
        self.messages.push_back(bytes);
        Ok(())
    }

    /// The peer has sent a message that nobody reads.
    pub(super) fn spend(&mut self) {
        self.read = self.read.wrapping_add(1);
    }

    pub(super) fn has_data(&self) -> bool {
        self.unread > 0
    }

    /// Where the next bytes are, `wanted` at most, and how many.
    pub(super) fn next(&self, wanted: usize) -> (Stretches, usize) {
        let length = wanted.min(self.unread);
        (stretches(self.at, length, self.size), length)
    }

    /// The program has read so many bytes, which were there.
    pub(super) fn consume(&mut self, length: usize) {
        let length = length.min(self.unread);
        self.at = (self.at + length) % self.size;
        self.unread -= length;
        self.free += length;
        let mut left = length as u32;
        while let Some(first) = self.messages.front_mut() {
            if left < *first {
                *first -= left;
                break;
            }
            left -= *first;
            self.messages.pop_front();
            self.spend();
            if left == 0 {
                break;
            }
        }
    }

    /// Whether the peer should be told what it may send.
    pub(super) fn owes_grant(&self) -> bool {
        let behind = self.read.wrapping_sub(self.tell_at).cast_signed();
        self.free >= self.size / 2 || behind >= 0
    }

    /// What the peer is told, which it may do from now on.
    pub(super) fn grant(&mut self) -> Grant {
        let half = self.size / 2;
        self.tell_at = self.read.wrapping_add(self.queue / 2);
        let credit = self.read.wrapping_add(self.queue);
        if self.free < half {
            return Grant { credit, place: None };
        }
        let place = (self.next, half);
        self.free -= half;
        self.granted += half;
        self.next = (self.next + half) % self.size;
        Grant { credit, place: Some(place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(receiving: &Receiving) -> usize {
        receiving.granted + receiving.unread + receiving.free
    }

    #[test]
    fn the_second_half_is_granted_at_once() {
        let mut receiving = Receiving::new(100, 16);
        assert!(receiving.owes_grant());
        assert_eq!(receiving.grant(), Grant { credit: 16, place: Some((50, 50)) });
        assert!(!receiving.owes_grant());
        assert_eq!(balance(&receiving), 100);
    }

    #[test]
    fn halves_are_granted_in_turn_as_they_are_read() {
        let mut receiving = Receiving::new(100, 1000);
        receiving.grant();
        let mut places = Vec::new();
        for _ in 0..25 {
            receiving.arrived(10).unwrap();
            let (stretches, length) = receiving.next(100);
            assert_eq!((stretches[0].1 + stretches[1].1, length), (10, 10));
            receiving.consume(length);
            if receiving.owes_grant() {
                places.push(receiving.grant().place.unwrap());
            }
            assert_eq!(balance(&receiving), 100);
        }
        assert_eq!(places, [(0, 50), (50, 50), (0, 50), (50, 50), (0, 50)]);
    }

    #[test]
    fn a_stretch_goes_round_the_end() {
        let mut receiving = Receiving::new(100, 1000);
        receiving.grant();
        receiving.arrived(90).unwrap();
        receiving.consume(90);
        receiving.grant();
        receiving.arrived(30).unwrap();
        assert_eq!(receiving.next(usize::MAX), ([(90, 10), (0, 20)], 30));
        assert_eq!(receiving.next(4), ([(90, 4), (0, 0)], 4));
    }

    #[test]
    fn a_message_gives_its_credit_back_with_its_last_byte() {
        let mut receiving = Receiving::new(1000, 4);
        receiving.grant();
        for _ in 0..4 {
            receiving.arrived(10).unwrap();
        }
        receiving.consume(15);
        assert!(!receiving.owes_grant(), "one message of two is read");
        receiving.consume(5);
        assert!(receiving.owes_grant());
        assert_eq!(receiving.grant(), Grant { credit: 6, place: None });
        receiving.consume(20);
        assert_eq!(receiving.grant().credit, 8);
    }

    #[test]
    fn credits_are_counted_beyond_the_end_of_their_number() {
        let mut receiving = Receiving::new(1000, 4);
        receiving.grant();
        let mut credit = 4;
        for read in 1..=70_000_u32 {
            receiving.arrived(1).unwrap();
            receiving.consume(1);
            if receiving.owes_grant() {
                credit = receiving.grant().credit;
            }
            let left = credit.wrapping_sub(read as u16);
            assert!((2..=4).contains(&left), "{left} credits after {read}");
        }
    }

    #[test]
    fn a_peer_that_writes_more_than_it_may_is_not_believed() {
        let mut receiving = Receiving::new(100, 2);
        assert_eq!(receiving.arrived(51), Err(Violation));
        receiving.arrived(50).unwrap();
        assert_eq!(receiving.arrived(1), Err(Violation));
        receiving.grant();
        receiving.arrived(1).unwrap();
        assert_eq!(receiving.arrived(1), Err(Violation), "it has no credit");
        assert_eq!(receiving.arrived(u32::MAX), Err(Violation));
        assert_eq!(balance(&receiving), 100);
    }

    #[test]
    fn a_message_without_bytes_takes_a_credit_and_is_read() {
        let mut receiving = Receiving::new(100, 2);
        receiving.arrived(0).unwrap();
        assert!(!receiving.has_data());
        assert_eq!(receiving.grant().credit, 3);
    }
}
