//! What agents and their collector say to each other, and how they know each other.
//!
//! ```text
//!   agent                                    collector
//!   32 bytes of chance ─────────────────────────────►
//!   ◄───────────────────────────── 32 bytes of chance
//!   hello: my name, my address, my queue pair ──────►
//!   ◄──────────── targets: whom to probe, how often
//!   window ─────────────────────────────────────────►   written, and on the disk
//!   ◄────────────────────────────────────── kept
//! ```
//!
//! A message is a frame:
//!
//! ```text
//!   0   length of what follows the tag, big endian
//!   4   tag: HMAC-SHA256 with the shared key, over both numbers of chance, who speaks, the place of the message in
//!       the conversation, and what follows
//!  36   JSON
//! ```
//!
//! So a message cannot be made without the key, and none can be said again, in this conversation or another. It is not
//! secret: whoever can listen can read it.

use hmac::{Hmac, Mac};
use rdma::Span;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::limits::MESSAGE_BYTES_MAX;
use super::scope::Scope;
use super::window::Window;

/// Of this conversation.
pub const VERSION: u32 = 1;
/// Bytes of chance that each side begins with.
pub const CHANCE: usize = 32;
/// Bytes of a frame before its JSON.
pub const FRAME_HEAD: usize = 4 + TAG;
const TAG: usize = 32;

/// Where probes of a host go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Address {
    /// The address of its NIC.
    pub gid: [u8; 16],
    /// The number of its queue pair of datagrams.
    pub qpn: u32,
    /// The port at which it answers TCP probes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let at = core::net::Ipv6Addr::from(self.gid).to_canonical();
        write!(f, "{at} (queue pair {})", self.qpn)
    }
}

/// What an agent says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Say {
    /// It is there. Its first message, and again whenever it wants to know its targets.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Its name in the topology.
        host: String,
        /// Where it is probed; `None` if it is not there yet, and asks how long windows are.
        address: Option<Address>,
    },
    /// What it has seen.
    Window(Box<Window>),
}

/// Whom to probe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Aim {
    /// Its index in the topology.
    pub host: u32,
    /// How far away it is.
    pub scope: Scope,
    /// Where it is.
    pub address: Address,
    /// From one probe to the next, in microseconds.
    pub every_us: u64,
    /// Flow labels that probes carry in turn.
    pub labels: u16,
}

impl Aim {
    /// From one probe to the next.
    pub fn every(&self) -> Span {
        Span::from_us(self.every_us.clamp(100, 3_600_000_000))
    }
}

/// What the collector answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// To a hello.
    Targets {
        /// The agent's index in the topology.
        host: u32,
        /// How long windows are, in milliseconds.
        window_ms: u64,
        /// Whom to probe: those that have said hello.
        targets: Vec<Aim>,
    },
    /// The window is on the disk, now or since it was said before. Whoever has said it may forget it.
    Kept,
    /// The window is none, and never will be: it is to be forgotten.
    Refused {
        /// Why.
        why: String,
    },
    /// It cannot be kept now: a full disk. It is to be said again.
    Later {
        /// Why.
        why: String,
    },
}

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The agent.
    Agent,
    /// The collector.
    Collector,
}

/// Why a frame is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// Its tag is not of this key, conversation, side and place.
    Unknown,
    /// Its JSON is no message.
    NoMessage,
}

impl core::fmt::Display for Bad {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a message is too long",
            Self::Unknown => "a message is not sealed with our key",
            Self::NoMessage => "a message makes no sense: is the other of another version?",
        })
    }
}

impl core::error::Error for Bad {}

/// One conversation, as one side has it.
#[derive(Clone)]
pub struct Seal {
    keyed: Hmac<Sha256>,
    own: Side,
    said: u64,
    heard: u64,
}

impl core::fmt::Debug for Seal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Seal").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Seal {
    /// The conversation that begins with these bytes of chance.
    pub fn new(key: &[u8], own: Side, agent: &[u8; CHANCE], collector: &[u8; CHANCE]) -> Self {
        let mut keyed = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        keyed.update(b"ferroce pingmesh 1");
        keyed.update(agent);
        keyed.update(collector);
        Self { keyed, own, said: 0, heard: 0 }
    }

    fn tag(&self, side: Side, place: u64, body: &[u8]) -> Hmac<Sha256> {
        let mut tag = self.keyed.clone();
        tag.update(&[side as u8]);
        tag.update(&place.to_be_bytes());
        tag.update(body);
        tag
    }

    /// A message as a frame.
    ///
    /// # Errors
    /// It is too long.
    pub fn emit(&mut self, message: &impl Serialize) -> Result<Vec<u8>, Bad> {
        let body = serde_json::to_vec(message).map_err(|_| Bad::NoMessage)?;
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(Bad::TooLong);
        }
        let tag = self.tag(self.own, self.said, &body).finalize().into_bytes();
        self.said += 1;
        let mut frame = Vec::with_capacity(FRAME_HEAD + body.len());
        frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
        frame.extend_from_slice(&tag);
        frame.extend_from_slice(&body);
        Ok(frame)
    }

    /// How long the JSON of a frame is that begins so.
    ///
    /// # Errors
    /// Too long, before anything of it is read.
    pub fn length(head: &[u8; FRAME_HEAD]) -> Result<usize, Bad> {
        let [a, b, c, d, ..] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MESSAGE_BYTES_MAX { Err(Bad::TooLong) } else { Ok(length) }
    }

    /// What the other side says.
    ///
    /// # Errors
    /// It is not the other side, or makes no sense.
    pub fn parse<'a, T: Deserialize<'a>>(
        &mut self,
        head: &[u8; FRAME_HEAD],
        body: &'a [u8],
    ) -> Result<T, Bad> {
        let other = match self.own {
            Side::Agent => Side::Collector,
            Side::Collector => Side::Agent,
        };
        let tag = self.tag(other, self.heard, body);
        tag.verify_slice(&head[4..]).map_err(|_| Bad::Unknown)?;
        self.heard += 1;
        serde_json::from_slice(body).map_err(|_| Bad::NoMessage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"a key that both have";

    fn pair() -> (Seal, Seal) {
        let (a, c) = ([1; CHANCE], [2; CHANCE]);
        (Seal::new(KEY, Side::Agent, &a, &c), Seal::new(KEY, Side::Collector, &a, &c))
    }

    fn hello() -> Say {
        let address = Address { gid: [7; 16], qpn: 17, tcp: Some(4793) };
        Say::Hello { version: VERSION, host: "h0".to_owned(), address: Some(address) }
    }

    fn split(frame: &[u8]) -> ([u8; FRAME_HEAD], &[u8]) {
        let (head, body) = frame.split_first_chunk().unwrap();
        assert_eq!(Seal::length(head), Ok(body.len()));
        (*head, body)
    }

    #[test]
    fn both_understand_each_other_in_order() {
        let (mut agent, mut collector) = pair();
        for _ in 0..3 {
            let frame = agent.emit(&hello()).unwrap();
            let (head, body) = split(&frame);
            assert_eq!(collector.parse::<Say>(&head, body), Ok(hello()));
            let frame = collector.emit(&Answer::Kept).unwrap();
            let (head, body) = split(&frame);
            assert_eq!(agent.parse::<Answer>(&head, body), Ok(Answer::Kept));
        }
    }

    #[test]
    fn nothing_is_believed_twice_or_from_another() {
        let (mut agent, mut collector) = pair();
        let frame = agent.emit(&hello()).unwrap();
        let (head, body) = split(&frame);
        // Our own words, another's key, another conversation.
        assert_eq!(agent.clone().parse::<Say>(&head, body), Err(Bad::Unknown));
        let stranger =
            Seal::new(b"another", Side::Agent, &[1; CHANCE], &[2; CHANCE]).emit(&hello()).unwrap();
        let later = Seal::new(KEY, Side::Agent, &[1; CHANCE], &[3; CHANCE]).emit(&hello()).unwrap();
        for frame in [&stranger, &later] {
            let (head, body) = split(frame);
            assert_eq!(collector.clone().parse::<Say>(&head, body), Err(Bad::Unknown));
        }
        // Any byte of it changed.
        for at in 4..frame.len() {
            let mut wrong = frame.clone();
            wrong[at] ^= 1;
            let (head, body) = split(&wrong);
            assert_eq!(collector.clone().parse::<Say>(&head, body), Err(Bad::Unknown), "byte {at}");
        }
        assert_eq!(collector.parse::<Say>(&head, body), Ok(hello()));
        assert_eq!(collector.parse::<Say>(&head, body), Err(Bad::Unknown), "said again");
    }

    #[test]
    fn a_long_message_is_refused_before_it_is_read() {
        let mut head = [0; FRAME_HEAD];
        head[..4].copy_from_slice(&(MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes());
        assert_eq!(Seal::length(&head), Err(Bad::TooLong));
        let (mut agent, _) = pair();
        assert_eq!(agent.emit(&"x".repeat(MESSAGE_BYTES_MAX)), Err(Bad::TooLong));
    }
}
