//! What a queue pair has delivered to its application: bytes, in order, of messages whole or not.
//!
//! ```text
//!   RC               what is stored is in order, and stored once: each byte counts when it comes
//!   RC, go-back-0    a message that begins again stores what was there: bytes beyond that count
//!   UC, UD           a message that lacks a packet never arrives: bytes count when it is whole
//! ```

use transport::Recovery;
use wire::opcode::{Part, Service};
use wire::roce;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) bytes: u64,
    /// How far the message at hand has come, this time and at most.
    here: u32,
    most: u32,
}

impl Delivery {
    /// A packet has led to `stored` bytes in application memory.
    #[inline]
    pub(super) fn stored(&mut self, header: &roce::Repr, recovery: Recovery, stored: u32) {
        let facts = header.facts();
        if facts.service == Service::Rc && recovery != Recovery::GoBack0 {
            self.bytes += u64::from(stored);
        } else {
            self.part(facts.part, facts.service == Service::Rc, stored);
        }
    }

    fn part(&mut self, part: Part, begins_again: bool, stored: u32) {
        if part.begins() {
            self.here = 0;
        }
        self.here += stored;
        if begins_again {
            self.bytes += u64::from(self.here.saturating_sub(self.most));
            self.most = self.most.max(self.here);
        } else if part.ends() {
            self.bytes += u64::from(self.here);
        }
        if part.ends() {
            (self.here, self.most) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(begins_again: bool, parts: &[(Part, u32)]) -> u64 {
        let mut delivery = Delivery::default();
        for &(part, stored) in parts {
            delivery.part(part, begins_again, stored);
        }
        delivery.bytes
    }

    #[test]
    fn what_is_stored_again_counts_once() {
        use Part::{First, Last, Middle, Only};
        let again = [(First, 10), (Middle, 10), (First, 10), (Middle, 10), (Middle, 10), (Last, 1)];
        assert_eq!(delivered(true, &again), 31);
        assert_eq!(delivered(true, &[(First, 10), (First, 10), (First, 10)]), 10);
        assert_eq!(delivered(true, &[(Only, 10), (Only, 10)]), 20);
    }

    #[test]
    fn an_unreliable_message_counts_when_it_is_whole() {
        use Part::{First, Last, Middle, Only};
        assert_eq!(delivered(false, &[(First, 10), (Middle, 10)]), 0);
        assert_eq!(delivered(false, &[(First, 10), (First, 10), (Last, 3), (Only, 4)]), 17);
    }
}
