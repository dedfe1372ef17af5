//! What a stream has sent: which of its buffer is in use, and what the peer lets it send.
//!
//! Bytes of the program are copied into a ring, and stay there until the WRITE that takes them away
//! has completed. Short ones go inline and take no room. A message needs room in the ring, a place in
//! the send queue, a credit, and a place at the peer to write to; each of these comes back by itself.

use super::greeting::Place;
use super::receiving::{Stretches, stretches};

/// With less room than this, sending waits: the next completion makes more of it.
pub(super) const LOW_WATER: usize = 2048;
/// Requests that are kept for messages without data, so that they can always be sent.
pub(super) const CONTROLS: u32 = 4;
/// Places that the peer may offer at a time.
pub(super) const PLACES: usize = 2;

/// What a request of ours was, as its completion tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// It has used so many bytes of the ring; none if it went inline.
    Bytes(u32),
    /// A message without data.
    Control,
    /// The last message of all.
    Disconnect,
}

impl Sent {
    const KIND_SHIFT: u32 = 32;

    /// The number of the request.
    pub(super) fn id(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.into(),
            Self::Control => 1 << Self::KIND_SHIFT,
            Self::Disconnect => 2 << Self::KIND_SHIFT,
        }
    }

    /// What has this number.
    pub(super) fn of(id: u64) -> Self {
        match id >> Self::KIND_SHIFT {
            0 => Self::Bytes(id as u32),
            1 => Self::Control,
            _ => Self::Disconnect,
        }
    }
}

/// The account of one direction.
#[derive(Debug)]
pub(super) struct Sending {
    size: usize,
    /// Where the next bytes are put.
    at: usize,
    /// How many bytes of the ring are free.
    free: usize,
    /// How many requests with data may be posted, of how many.
    requests: u32,
    requests_max: u32,
    controls: u32,
    /// How many messages were sent, of all, and how many may be.
    sent: u16,
    credit: u16,
    /// Where the peer may be written to, and which of these comes next.
    places: [Place; PLACES],
    current: usize,
}

impl Sending {
    /// Nothing sent, and nothing allowed. The send queue takes `queue` requests.
    pub(super) fn new(size: usize, queue: u16) -> Self {
        let requests = u32::from(queue).saturating_sub(CONTROLS);
        Self {
            size,
            at: 0,
            free: size,
            requests,
            requests_max: requests,
            controls: CONTROLS,
            sent: 0,
            credit: 0,
            places: [Place::default(); PLACES],
            current: 0,
        }
    }

    /// Up to which message the peer lets us send.
    pub(super) fn allow(&mut self, credit: u16) {
        self.credit = credit;
    }

    /// The peer offers a place.
    pub(super) fn offer(&mut self, index: usize, place: Place) {
        if let Some(known) = self.places.get_mut(index) {
            *known = place;
        }
    }

    /// How long the next message may be; 0 if it has to wait.
    pub(super) fn room(&self) -> usize {
        if self.sent == self.credit {
            return 0;
        }
        self.room_beside().min(self.places[self.current].length as usize)
    }

    /// How much may be written to a map, which takes neither credit nor place.
    pub(super) fn room_beside(&self) -> usize {
        if self.requests == 0 || self.free < LOW_WATER { 0 } else { self.free }
    }

    /// Whether a message that has no data for the stream, but takes a credit, may be sent.
    pub(super) fn may_tell(&self) -> bool {
        self.requests > 0 && self.sent != self.credit
    }

    /// Takes a credit, and `length` bytes of the place that is next: where they go.
    pub(super) fn take_place(&mut self, length: usize) -> Place {
        self.take_credit();
        let current = &mut self.places[self.current];
        let length = (length as u32).min(current.length);
        let place = Place { length, ..*current };
        current.address = current.address.wrapping_add(length.into());
        current.length -= length;
        if current.length == 0 {
            self.current = (self.current + 1) % PLACES;
        }
        place
    }

    pub(super) fn take_credit(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Takes a request, and room for `length` bytes of the ring: where they are put.
    pub(super) fn take_room(&mut self, length: usize) -> Stretches {
        let length = length.min(self.free);
        let room = stretches(self.at, length, self.size);
        self.free -= length;
        self.at = (self.at + length) % self.size;
        self.requests = self.requests.saturating_sub(1);
        room
    }

    /// Whether there is a request for a message without data.
    pub(super) fn may_control(&self) -> bool {
        self.controls > 0
    }

    pub(super) fn take_control(&mut self) {
        self.controls = self.controls.saturating_sub(1);
    }

    /// A request has completed.
    pub(super) fn done(&mut self, sent: Sent) {
        match sent {
            Sent::Bytes(bytes) => {
                self.free = self.size.min(self.free + bytes as usize);
                self.requests = self.requests_max.min(self.requests + 1);
            }
            Sent::Control | Sent::Disconnect => self.controls = CONTROLS.min(self.controls + 1),
        }
    }

    /// Whether all that was posted has completed.
    pub(super) fn is_done(&self) -> bool {
        self.requests == self.requests_max && self.controls == CONTROLS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { address: 1000, key: 7, length: 5000 };

    fn ready() -> Sending {
        let mut sending = Sending::new(8192, 16);
        sending.allow(3);
        sending.offer(0, PLACE);
        sending
    }

    #[test]
    fn sending_waits_for_each_thing_that_it_needs() {
        let mut sending = Sending::new(8192, 16);
        sending.offer(0, PLACE);
        assert_eq!(sending.room(), 0, "no credit");
        sending.allow(3);
        assert_eq!(sending.room(), 5000);
        sending.offer(0, Place::default());
        assert_eq!(sending.room(), 0, "no place");
        assert_eq!(sending.room_beside(), 8192);

        let mut sending = ready();
        sending.take_room(8192 - LOW_WATER + 1);
        assert_eq!(sending.room(), 0, "too little of the ring");

        let mut sending = ready();
        for _ in 0..16 - CONTROLS {
            assert!(sending.room() > 0);
            sending.take_room(0);
        }
        assert_eq!(sending.room(), 0, "no request");
        sending.done(Sent::Bytes(0));
        assert_eq!(sending.room(), 5000);
    }

    #[test]
    fn a_place_is_filled_before_the_next_is_begun() {
        let mut sending = ready();
        sending.offer(1, Place { address: 9000, key: 8, length: 100 });
        assert_eq!(sending.take_place(4000), Place { length: 4000, ..PLACE });
        assert_eq!(sending.room(), 1000);
        assert_eq!(sending.take_place(1000), Place { address: 5000, key: 7, length: 1000 });
        assert_eq!(sending.room(), 100);
        assert_eq!(sending.take_place(100), Place { address: 9000, key: 8, length: 100 });
        sending.allow(9);
        assert_eq!(sending.room(), 0, "the first has not been offered again");
        sending.offer(0, PLACE);
        assert_eq!(sending.room(), 5000);
    }

    #[test]
    fn a_place_at_the_end_of_the_address_space_ends_there() {
        let mut sending = ready();
        sending.offer(0, Place { address: u64::MAX, key: 0, length: u32::MAX });
        assert_eq!(sending.take_place(10).address, u64::MAX);
        assert_eq!(sending.take_place(10).address, 9, "which the peer's NIC refuses");
    }

    #[test]
    fn the_ring_is_used_round_its_end_and_comes_back() {
        let mut sending = ready();
        assert_eq!(sending.take_room(6000), [(0, 6000), (0, 0)]);
        assert!(!sending.is_done());
        sending.done(Sent::Bytes(6000));
        assert_eq!(sending.take_room(4000), [(6000, 2192), (0, 1808)]);
        sending.take_control();
        sending.done(Sent::Bytes(4000));
        assert!(!sending.is_done());
        sending.done(Sent::Control);
        assert!(sending.is_done());
    }

    #[test]
    fn what_has_completed_is_known_by_its_number() {
        for sent in [Sent::Bytes(0), Sent::Bytes(u32::MAX), Sent::Control, Sent::Disconnect] {
            assert_eq!(Sent::of(sent.id()), sent);
        }
    }

    #[test]
    fn messages_without_data_have_requests_of_their_own() {
        let mut sending = ready();
        for _ in 0..CONTROLS {
            assert!(sending.may_control());
            sending.take_control();
        }
        assert!(!sending.may_control() && sending.room() > 0);
    }
}
