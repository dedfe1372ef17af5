//! Connection management messages (IBTA vol 1, chapter 12, "Communication Management").
//!
//! ```text
//!   active side                    passive side          datagrams: SIDR_REQ ─►  ◄─ SIDR_REP
//!     REQ ────────────────────────────►                  one cannot answer yet: MRA
//!        ◄──────────────────────────── REP               one does not want to:  REJ
//!     RTU ────────────────────────────►                  the end: DREQ ─►  ◄─ DREP
//! ```
//!
//! Each message has a file; RTU, DREQ and DREP, which are short, share one. [`Mad`] is a
//! whole management datagram of this class. What RDMA CM puts in front of the private data, and
//! how it makes service IDs of ports, is in [`ip`].

pub mod brief;
pub mod ip;
pub mod mra;
pub mod rej;
pub mod rep;
pub mod req;
pub mod sidr;

use core::fmt;

use crate::{Error, be32, mad};

/// The management class.
const CLASS: u8 = 7;
/// Version of the class's format.
const CLASS_VERSION: u8 = 2;
/// The method of every message: Send.
const METHOD_SEND: u8 = 3;

/// The numbers of the messages.
mod attribute {
    pub(super) const REQ: u16 = 0x10;
    pub(super) const MRA: u16 = 0x11;
    pub(super) const REJ: u16 = 0x12;
    pub(super) const REP: u16 = 0x13;
    pub(super) const RTU: u16 = 0x14;
    pub(super) const DREQ: u16 = 0x15;
    pub(super) const DREP: u16 = 0x16;
    pub(super) const SIDR_REQ: u16 = 0x17;
    pub(super) const SIDR_REP: u16 = 0x18;
}

/// What a message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Wants a connection.
    Req(req::Repr),
    /// Will answer later.
    Mra(mra::Repr),
    /// Refuses.
    Rej(rej::Repr),
    /// Accepts.
    Rep(rep::Repr),
    /// Is ready to use the connection.
    Rtu(brief::Rtu),
    /// Ends the connection.
    Dreq(brief::Dreq),
    /// Has ended it too.
    Drep(brief::Drep),
    /// Asks for the queue pair of a datagram service.
    SidrReq(sidr::Req),
    /// Names it.
    SidrRep(sidr::Rep),
}

impl Message {
    fn attribute(&self) -> u16 {
        match self {
            Self::Req(_) => attribute::REQ,
            Self::Mra(_) => attribute::MRA,
            Self::Rej(_) => attribute::REJ,
            Self::Rep(_) => attribute::REP,
            Self::Rtu(_) => attribute::RTU,
            Self::Dreq(_) => attribute::DREQ,
            Self::Drep(_) => attribute::DREP,
            Self::SidrReq(_) => attribute::SIDR_REQ,
            Self::SidrRep(_) => attribute::SIDR_REP,
        }
    }

    /// The receiver's own number of the conversation, if the message answers one; 0 stands for
    /// one that the sender does not know.
    pub fn remote_id(&self) -> Option<u32> {
        match self {
            Self::Req(_) | Self::SidrReq(_) => None,
            Self::Mra(message) => Some(message.remote_id),
            Self::Rej(message) => Some(message.remote_id),
            Self::Rep(message) => Some(message.remote_id),
            Self::Rtu(message) => Some(message.remote_id),
            Self::Dreq(message) => Some(message.remote_id),
            Self::Drep(message) => Some(message.remote_id),
            Self::SidrRep(message) => Some(message.request_id),
        }
    }

    /// The service that is asked for, if the message begins a conversation.
    pub fn service(&self) -> Option<u64> {
        match self {
            Self::Req(message) => Some(message.service),
            Self::SidrReq(message) => Some(message.service),
            _ => None,
        }
    }
}

/// A management datagram of this class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mad {
    /// Chosen by the side that begins an exchange, repeated in the answer.
    pub transaction: u64,
    /// The attribute modifier: the options of enhanced connection establishment, 0 without it.
    pub modifier: u32,
    /// What it says.
    pub message: Message,
}

impl Mad {
    /// A datagram without options.
    pub fn new(transaction: u64, message: Message) -> Self {
        Self { transaction, modifier: 0, message }
    }

    /// Reads a whole management datagram. What is reserved is not looked at.
    ///
    /// # Errors
    /// [`Error::Length`] for anything that is not [`mad::LEN`] bytes long, [`Error::Version`],
    /// [`Error::Protocol`] for another class or method, [`Error::Opcode`] for a message that is
    /// not known (path migration is not).
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != mad::LEN {
            return Err(Error::Length);
        }
        let header = mad::Repr::parse(bytes)?;
        if header.class != CLASS || header.method != METHOD_SEND {
            return Err(Error::Protocol);
        }
        if header.class_version != CLASS_VERSION {
            return Err(Error::Version);
        }
        let data = &bytes[mad::HEADER_LEN..];
        let message = match header.attribute {
            attribute::REQ => Message::Req(req::Repr::parse(data)?),
            attribute::MRA => Message::Mra(mra::Repr::parse(data)?),
            attribute::REJ => Message::Rej(rej::Repr::parse(data)?),
            attribute::REP => Message::Rep(rep::Repr::parse(data)?),
            attribute::RTU => Message::Rtu(brief::Rtu::parse(data)?),
            attribute::DREQ => Message::Dreq(brief::Dreq::parse(data)?),
            attribute::DREP => Message::Drep(brief::Drep::parse(data)?),
            attribute::SIDR_REQ => Message::SidrReq(sidr::Req::parse(data)?),
            attribute::SIDR_REP => Message::SidrRep(sidr::Rep::parse(data)?),
            _ => return Err(Error::Opcode),
        };
        Ok(Self { transaction: header.transaction, modifier: header.modifier, message })
    }

    /// Writes the datagram.
    pub fn emit(&self, bytes: &mut [u8; mad::LEN]) {
        bytes.fill(0);
        mad::Repr {
            class: CLASS,
            class_version: CLASS_VERSION,
            method: METHOD_SEND,
            status: 0,
            class_specific: 0,
            transaction: self.transaction,
            attribute: self.message.attribute(),
            modifier: self.modifier,
        }
        .emit(bytes);
        let data = &mut bytes[mad::HEADER_LEN..];
        match &self.message {
            Message::Req(message) => message.emit(data),
            Message::Mra(message) => message.emit(data),
            Message::Rej(message) => message.emit(data),
            Message::Rep(message) => message.emit(data),
            Message::Rtu(message) => message.emit(data),
            Message::Dreq(message) => message.emit(data),
            Message::Drep(message) => message.emit(data),
            Message::SidrReq(message) => message.emit(data),
            Message::SidrRep(message) => message.emit(data),
        }
    }

    /// The datagram's bytes.
    pub fn to_bytes(&self) -> [u8; mad::LEN] {
        let mut bytes = [0; mad::LEN];
        self.emit(&mut bytes);
        bytes
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Req(message) => message.fmt(f),
            Self::Mra(message) => message.fmt(f),
            Self::Rej(message) => message.fmt(f),
            Self::Rep(message) => message.fmt(f),
            Self::Rtu(message) => message.fmt(f),
            Self::Dreq(message) => message.fmt(f),
            Self::Drep(message) => message.fmt(f),
            Self::SidrReq(message) => message.fmt(f),
            Self::SidrRep(message) => message.fmt(f),
        }
    }
}

impl fmt::Display for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tid={:#x}", self.message, self.transaction)
    }
}

/// The two numbers at the beginning of every message but REQ and those of SIDR.
fn ids(data: &[u8]) -> (u32, u32) {
    (be32(data, 0..4), be32(data, 4..8))
}

fn put32(data: &mut [u8], at: usize, value: u32) {
    data[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put16(data: &mut [u8], at: usize, value: u16) {
    data[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes the low 24 bits of `value`, and leaves the byte behind them.
fn put24(data: &mut [u8], at: usize, value: u32) {
    data[at..at + 3].copy_from_slice(&value.to_be_bytes()[1..]);
}

/// The upper 24 bits of the word at `at`.
fn take24(data: &[u8], at: usize) -> u32 {
    be32(data, at..at + 4) >> 8
}

/// `N` bytes from `at` on.
fn take<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data[at..at + N].try_into().expect("the range is N bytes long")
}

/// The data of a message, of the length that it must have.
fn data_of(bytes: &[u8]) -> Result<&[u8], Error> {
    bytes.get(..mad::DATA_LEN).ok_or(Error::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> [u8; mad::LEN] {
        Mad::new(
            0x2_0000_0001,
            Message::Rtu(brief::Rtu { local_id: 1, remote_id: 2, private: [7; 224] }),
        )
        .to_bytes()
    }

    #[test]
    fn malformed_datagrams_are_told_apart() {
        assert!(Mad::parse(&bytes()).is_ok());
        assert_eq!(Mad::parse(&bytes()[..255]), Err(Error::Length));
        for (at, value, error) in [
            (0, 2, Error::Version),
            (1, 3, Error::Protocol),
            (2, 1, Error::Version),
            (3, 1, Error::Protocol),
            (17, 0x19, Error::Opcode),
        ] {
            let mut bytes = bytes();
            bytes[at] = value;
            assert_eq!(Mad::parse(&bytes), Err(error), "{at}");
        }
    }

    #[test]
    fn answers_name_the_conversation_and_openings_the_service() {
        let Mad { message, .. } = Mad::parse(&bytes()).unwrap();
        assert_eq!((message.remote_id(), message.service()), (Some(2), None));
        let ask = sidr::Req { service: 9, ..sidr::Req::default() };
        let message = Message::SidrReq(ask);
        assert_eq!((message.remote_id(), message.service()), (None, Some(9)));
    }
}
