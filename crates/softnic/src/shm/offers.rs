//! How two NICs of a host come to share rings: messages between mailboxes.
//!
//! ```text
//!   magic u64 │ kind u32 │ slot u32 │ claim u32 │ 0 u32 │ nonce u64   (an offer: + fd)
//! ```
//!
//! Only a NIC that takes rings has a [`Mailbox`] for them. An offer is answered in the ring ([`ring`](super::ring)). Messages of other users are not looked at: whoever can send one is of this host and user.
//!
//! A message is also how the doorbell is rung. An eventfd would be quicker by a microsecond, of the twenty
//! that it takes to wake somebody; but both ends would share it, and a peer that fills it and makes it
//! wait could stop whoever signals it. A message that is not to wait never waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::host::mailbox::{Mailbox, RINGS};
use crate::host::steering::Member;

const MAGIC: [u8; 8] = *b"FRRING\0\x04";
const MESSAGE_LEN: usize = 32;
const OFFER: u32 = 1;
const DOORBELL: u32 = 2;

/// What NICs tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A ring from the sender to the receiver. The file comes along.
    Offer,
    /// There is something in a ring.
    Doorbell,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) from: Member,
    pub(super) nonce: u64,
}

/// A message that has arrived.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) message: Message,
    pub(super) file: Option<OwnedFd>,
}

impl Message {
    fn emit(self) -> [u8; MESSAGE_LEN] {
        let kind = match self.kind {
            Kind::Offer => OFFER,
            Kind::Doorbell => DOORBELL,
        };
        let mut bytes = [0; MESSAGE_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.from.slot).to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.from.claim.to_ne_bytes());
        bytes[24..].copy_from_slice(&self.nonce.to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_LEN] = bytes.try_into().ok()?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_ne_bytes(words[at]);
        let kind = match word(2) {
            OFFER => Kind::Offer,
            DOORBELL => Kind::Doorbell,
            _ => return None,
        };
        let (_, nonce) = bytes.split_last_chunk()?;
        Some(Self {
            kind,
            from: Member { slot: u16::try_from(word(3)).ok()?, claim: word(4) },
            nonce: u64::from_ne_bytes(*nonce),
        })
        .filter(|_| bytes.starts_with(&MAGIC))
    }
}

/// The mailbox of one NIC.
#[derive(Debug)]
pub(super) struct Offers(Mailbox);

impl Offers {
    /// Takes the name of `owner`, which is the caller.
    pub(super) fn bind(namespace: u64, owner: Member) -> io::Result<Self> {
        Mailbox::bind(RINGS, namespace, owner).map(Self)
    }

    /// Sends a message to `to`, with a file if it is an offer.
    ///
    /// # Errors
    /// `ConnectionRefused` if it takes no rings, `WouldBlock` if too many messages wait.
    pub(super) fn send(
        &self,
        to: Member,
        message: Message,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.0.send(to, &message.emit(), file)
    }

    /// Takes the next message; `None` if there is no more. What makes no sense, or is another
    /// user's, is `Some(None)`.
    pub(super) fn receive(&self) -> Option<Option<Delivery>> {
        let mut bytes = [0; MESSAGE_LEN + 1];
        let letter = self.0.receive(&mut bytes)?;
        Some(letter.and_then(|letter| {
            let message = Message::parse(bytes.get(..letter.length)?)?;
            Some(Delivery { message, file: letter.file })
        }))
    }
}

impl AsFd for Offers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mailbox::address;
    use crate::host::runtime;
    use crate::memory::map;
    use std::os::unix::net::UnixDatagram;

    /// A namespace that no other test has.
    const NAMESPACE: u64 = u64::MAX;

    fn owner(slot: u16) -> Member {
        Member { slot, claim: 7 }
    }

    fn message(kind: Kind) -> Message {
        let from = Member { slot: 1021, claim: 0x8765_4321 };
        Message { kind, from, nonce: 0x0123_4567_89ab_cdef }
    }

    #[test]
    fn every_message_arrives_as_it_was_sent_and_an_offer_with_its_file() {
        let from = Offers::bind(NAMESPACE, owner(11)).unwrap();
        let to = Offers::bind(NAMESPACE, owner(12)).unwrap();
        assert!(to.receive().is_none());
        let file = map::sealed_memory(4096).unwrap();
        from.send(owner(12), message(Kind::Offer), Some(file.as_fd())).unwrap();
        from.send(owner(12), message(Kind::Doorbell), None).unwrap();
        let arrived = to.receive().unwrap().unwrap();
        assert_eq!(arrived.message, message(Kind::Offer));
        map::map_sealed_memory(arrived.file.unwrap().as_fd(), 4096).unwrap();
        let arrived = to.receive().unwrap().unwrap();
        assert_eq!(arrived.message, message(Kind::Doorbell));
        assert!(arrived.file.is_none());
        assert!(to.receive().is_none());
    }

    #[test]
    fn who_is_not_there_refuses() {
        let from = Offers::bind(NAMESPACE, owner(13)).unwrap();
        let file = map::sealed_memory(4096).unwrap();
        for file in [None, Some(file.as_fd())] {
            let error = from.send(owner(14), message(Kind::Doorbell), file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn what_makes_no_sense_is_skipped_and_its_files_closed() {
        let to = Offers::bind(NAMESPACE, owner(15)).unwrap();
        let stranger = UnixDatagram::unbound().unwrap();
        let address = address(&runtime::directory().unwrap(), RINGS, NAMESPACE, owner(15)).unwrap();
        let mut unknown = message(Kind::Doorbell).emit();
        unknown[8] = 9;
        let mut long = message(Kind::Doorbell).emit().to_vec();
        long.push(0);
        let mut of_slot = message(Kind::Doorbell).emit();
        of_slot[14] = 1;
        for bytes in [&b"hello"[..], &[], &unknown, &long, &of_slot] {
            stranger.send_to_addr(bytes, &address).unwrap();
            assert!(to.receive().unwrap().is_none(), "{bytes:?}");
        }
        assert!(to.receive().is_none());
    }
}
