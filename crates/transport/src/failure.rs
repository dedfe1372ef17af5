//! Why a queue pair failed, in the words of the end that says it.
//!
//! Both ends know one half. The responder knows what is wrong with a request, and tells its peer one of three
//! codes; the requester knows which of its requests that was, and what the code means. Whoever looks at both
//! logs has the whole.
//!
//! **Invariant:** it is made where the queue pair fails and nowhere before, so a queue pair that works pays
//! nothing for it.

use core::fmt;
use core::net::IpAddr;

use rdma::{CompletionOpcode, CompletionStatus, Gid, Key, QpState, Qpn};
use wire::opcode::Operation as Request;
use wire::roce;

/// Why a key does not reach what a request names with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyViolation {
    /// No region or window has it.
    Unknown,
    /// It is of another protection domain.
    Domain,
    /// What it names is not this long, or begins later.
    Bounds,
    /// It does not give this right.
    Rights,
    /// It is of a window that is bound to nothing.
    Unbound,
    /// It is of a window that is bound through another queue pair.
    OtherQueuePair,
    /// A window may not be bound so, or the key not be invalidated.
    Binding,
}

impl fmt::Display for KeyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no region or window has this key",
            Self::Domain => "the key is of another protection domain",
            Self::Bounds => "it reaches beyond what the key was registered for",
            Self::Rights => "the key does not give this right",
            Self::Unbound => "the key's memory window is bound to nothing",
            Self::OtherQueuePair => "the key's memory window is bound through another queue pair",
            Self::Binding => "the key is of no memory window that may be bound or invalidated so",
        })
    }
}

/// What is wrong with a request, or with the memory that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The R_Key.
    Key(KeyViolation),
    /// The L_Key of the receive request that the message has taken.
    Receive(KeyViolation),
    /// The memory is registered, but not mapped (any more).
    Gone,
    /// It begins, continues or ends a message at the wrong place.
    Sequence,
    /// The queue pair does not give its peer this right.
    Right,
    /// The service does not have it.
    Operation,
    /// It names no shared receive queue of the XRC domain.
    Queue,
    /// More READs and atomics at once than `max_dest_rd_atomic`.
    Reads,
    /// A packet is not as long as the path MTU asks.
    PacketLength,
    /// The receive request is shorter than the message.
    ReceiveTooShort,
    /// The packets of a message are not as long as it said.
    MessageLength,
    /// A message beyond what the device takes.
    TooLong,
    /// The address of an atomic is not a multiple of eight.
    Alignment,
    /// The queue pair has lost the receive request.
    Inconsistent,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(why) => return why.fmt(f),
            Self::Receive(why) => return write!(f, "the receive request cannot take it: {why}"),
            Self::Gone => "the memory is registered, but not mapped any more",
            Self::Sequence => "it does not follow what came before it in the message",
            Self::Right => "qp_access_flags of this queue pair do not allow it",
            Self::Operation => "the service of this queue pair does not have it",
            Self::Queue => "it names no shared receive queue of this XRC domain",
            Self::Reads => "more READs and atomics at once than max_dest_rd_atomic",
            Self::PacketLength => {
                "its payload is not as long as the path MTU: both ends need the same path_mtu"
            }
            Self::ReceiveTooShort => "the receive request is shorter than the message",
            Self::MessageLength => "its packets are not as long together as it said",
            Self::TooLong => "it is longer than the device allows",
            Self::Alignment => "an atomic needs eight bytes at a multiple of eight",
            Self::Inconsistent => "the queue pair has no receive request for it",
        })
    }
}

/// A request, as far as a failure tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Work {
    /// What it asks for.
    pub opcode: CompletionOpcode,
    /// The application's own name for it, at the end that posted it.
    pub id: Option<u64>,
    /// Of its message.
    pub bytes: u32,
    /// The peer's memory, and the key that names it.
    pub remote: Option<(u64, Key)>,
}

impl Work {
    pub(crate) fn received(header: &roce::Repr) -> Self {
        let opcode = match header.facts().operation {
            Request::Write => CompletionOpcode::Write,
            Request::ReadRequest => CompletionOpcode::Read,
            Request::CompareSwap => CompletionOpcode::CompareSwap,
            Request::FetchAdd => CompletionOpcode::FetchAdd,
            Request::AtomicWrite => CompletionOpcode::AtomicWrite,
            _ => CompletionOpcode::Send,
        };
        let remote = match (header.reth, header.atomic) {
            (Some(reth), _) => Some((reth.address, reth.r_key)),
            (None, Some(atomic)) => Some((atomic.address, atomic.r_key)),
            (None, None) => None,
        };
        let bytes = header.reth.map_or(if header.atomic.is_some() { 8 } else { 0 }, |it| it.length);
        Self { opcode, id: None, bytes, remote }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { opcode, id, bytes, remote } = self;
        write!(f, "{opcode}")?;
        if bytes > 0 {
            write!(f, " of {bytes} bytes")?;
        }
        if let Some((address, key)) = remote {
            write!(f, " at {address:#x} with R_Key {:#x}", key.0)?;
        }
        match id {
            Some(id) => write!(f, " (wr_id {id:#x})"),
            None => Ok(()),
        }
    }
}

/// A packet of a request that was never answered, where the path has not brought any so long: a path that drops long
/// packets without a word looks like a peer that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unproven {
    /// Payload of its longest packet, or of the longest one that it asks for, in bytes.
    pub bytes: u32,
    /// The longest that was answered on this queue pair; `None` if nothing ever was.
    pub answered: Option<u32>,
}

/// What brought a queue pair down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// A request of our own failed.
    Request {
        /// The request.
        work: Work,
        /// As its completion says.
        status: CompletionStatus,
        /// Of our own memory.
        fault: Option<Fault>,
        /// Nobody has answered, and the path may be why.
        unproven: Option<Unproven>,
        /// Local ACK timeout, retry count and RNR retry count, as the program set them.
        patience: (u8, u8, u8),
    },
    /// We refused a request of the peer.
    Refused {
        /// The request.
        work: Work,
        /// What is wrong.
        fault: Fault,
        /// What the peer's completion says; an unreliable service tells it nothing.
        told: Option<CompletionStatus>,
    },
    /// A completion queue was full when a completion came.
    Overrun,
}

/// A queue pair failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Failure {
    /// Which one.
    pub qpn: Qpn,
    /// The state that it was in.
    pub from: QpState,
    /// The state that it is in now: ERROR, or SQE.
    pub to: QpState,
    /// Where its peer is; zero for datagrams.
    pub peer: Gid,
    /// The peer's queue pair.
    pub peer_qpn: Qpn,
    /// What brought it down.
    pub cause: Cause,
}

impl Failure {
    /// Whether the peer has answered nothing, however often it was asked.
    pub fn is_of_silence(&self) -> bool {
        matches!(self.cause, Cause::Request { status: CompletionStatus::RetryExceeded, .. })
    }

    /// What the path has not been seen to bring, if the failure is one of silence.
    pub fn unproven(&self) -> Option<Unproven> {
        match self.cause {
            Cause::Request { unproven, .. } if self.is_of_silence() => unproven,
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { qpn, from, to, peer, peer_qpn, cause } = self;
        let peer = Peer(peer.ip(), peer_qpn);
        write!(f, "QP {qpn} {from} -> {to}: ")?;
        match cause {
            Cause::Overrun => f.write_str("a completion queue was full, and a completion was lost"),
            Cause::Refused { work, fault, told } => {
                write!(f, "refused {work} from {peer}: {fault}")?;
                match told {
                    Some(status) => write!(f, " (the peer reads: {status})"),
                    None => Ok(()),
                }
            }
            Cause::Request { work, status, fault, patience, unproven: _ } => {
                let (timeout, retries, rnr_retries) = patience;
                write!(f, "{status}: {work} to {peer}")?;
                match (status, fault) {
                    (_, Some(fault)) => write!(f, ": {fault}"),
                    (CompletionStatus::RetryExceeded, _) => write!(
                        f,
                        ": no answer to {} attempts (retry_cnt {retries}, timeout {timeout})",
                        u32::from(retries) + 1
                    ),
                    (CompletionStatus::RnrRetryExceeded, _) => write!(
                        f,
                        ": no receive was posted there in {} attempts (rnr_retry {rnr_retries})",
                        u32::from(rnr_retries) + 1
                    ),
                    (CompletionStatus::RemoteAccess, _) => {
                        f.write_str(": its R_Key, bounds or rights do not fit there")
                    }
                    (CompletionStatus::RemoteInvalidRequest, _) => f.write_str(
                        ": not allowed by qp_access_flags there, too long for the receive, too many READs, or not in packets of its path_mtu",
                    ),
                    (CompletionStatus::RemoteOperation, _) => {
                        f.write_str(": the memory of the receive there cannot be written")
                    }
                    (CompletionStatus::LocalQpOperation, _) => {
                        f.write_str(": max_rd_atomic of this queue pair is 0")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The other end of a queue pair.
struct Peer(IpAddr, Qpn);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(address, qpn) = self;
        if address.is_unspecified() {
            return f.write_str("its peers");
        }
        write!(f, "{address} QP {qpn}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::string::ToString;

    fn failure(cause: Cause) -> Failure {
        Failure {
            qpn: Qpn::new(0x71_c000),
            from: QpState::Rts,
            to: QpState::Error,
            peer: Ipv4Addr::LOCALHOST.into(),
            peer_qpn: Qpn::new(0x20),
            cause,
        }
    }

    #[test]
    fn each_end_says_its_half() {
        let remote = Some((0x7000, Key(0x102)));
        let work = Work { opcode: CompletionOpcode::Write, id: None, bytes: 64, remote };
        let (told, fault) =
            (Some(CompletionStatus::RemoteAccess), Fault::Key(KeyViolation::Unknown));
        assert_eq!(
            failure(Cause::Refused { work, fault, told }).to_string(),
            "QP 0x71c000 RTS -> ERR: refused RDMA WRITE of 64 bytes at 0x7000 with R_Key 0x102 from \
             127.0.0.1 QP 0x000020: no region or window has this key (the peer reads: remote access error)"
        );
        let work = Work { id: Some(7), ..work };
        let (fault, unproven, patience) = (None, None, (14, 7, 0));
        let said = |status| {
            failure(Cause::Request { work, status, fault, unproven, patience }).to_string()
        };
        assert_eq!(
            said(CompletionStatus::RemoteAccess),
            "QP 0x71c000 RTS -> ERR: remote access error: RDMA WRITE of 64 bytes at 0x7000 with R_Key \
             0x102 (wr_id 0x7) to 127.0.0.1 QP 0x000020: its R_Key, bounds or rights do not fit there"
        );
        assert!(
            said(CompletionStatus::RetryExceeded)
                .ends_with(": no answer to 8 attempts (retry_cnt 7, timeout 14)")
        );
        assert!(said(CompletionStatus::RnrRetryExceeded).ends_with("in 1 attempts (rnr_retry 0)"));
    }

    #[test]
    fn a_datagram_has_no_peer_to_name() {
        let cause = Cause::Overrun;
        let of = Failure { peer: Gid::ZERO, ..failure(cause) }.to_string();
        assert_eq!(
            of,
            "QP 0x71c000 RTS -> ERR: a completion queue was full, and a completion was lost"
        );
        assert_eq!(Peer(Gid::ZERO.ip(), Qpn::new(0)).to_string(), "its peers");
    }
}
