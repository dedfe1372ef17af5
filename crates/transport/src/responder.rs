//! The responder: executes the peer's requests (IBTA vol 1, 9.7.4 and 9.7.5).
//!
//! A request passes the column of checks (`checks.rs`) and is executed and acknowledged at its end.
//! A failed check is a [`Refusal`], and `refusal.rs` alone says what a refusal does. Answers are in
//! `replies.rs`. Packets in the middle of a message take a short cut (`middle.rs`). This file has
//! the responder's state.

mod ahead;
mod checks;
mod middle;
mod refusal;
mod replies;
mod shaper;

pub(crate) use refusal::told_by;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use rdma::{CompletionStatus, Key, Memory, Psn, Span, Time};
use wire::aeth::Syndrome;
use wire::opcode::Facts;
use wire::roce;

use self::shaper::Shaper;
use crate::PdId;
use crate::arrival::Carried;
use crate::congestion::Telemetry;
use crate::failure::Fault;
use crate::limits::{ANSWERS_BEFORE_ACK_WAITS, ANSWERS_MAX, REPLIES_MAX};
use crate::mutation::{Mutation, mutated};
use crate::recovery::{Bounds, ReorderBuffer};
use crate::recv::{Place, RecvWqe};
use crate::region::Epoch;
use crate::stats::Drop;

/// A request packet.
pub(crate) struct Request<'h, 'p, M: Memory> {
    pub(crate) header: &'h roce::Repr,
    /// What is true of its opcode.
    pub(crate) facts: &'static Facts,
    pub(crate) carried: Carried<M::Payload<'p>>,
}

impl<'h, 'p, M: Memory> Request<'h, 'p, M> {
    pub(crate) fn new(header: &'h roce::Repr, carried: Carried<M::Payload<'p>>) -> Self {
        Self { header, facts: header.facts(), carried }
    }

    /// Bytes of its payload.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.carried.length
    }
}

/// Why a request is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// It changes nothing.
    Ignore(Drop),
    /// It was executed before, and has been answered again.
    Duplicate,
    /// Requests before it are missing.
    SequenceError,
    /// No receive is posted.
    NotReady,
    /// Malformed, too long or unsupported. The receive that the message had taken fails so.
    Invalid(CompletionStatus, Fault),
    /// A key, its bounds or rights do not fit.
    Access(Fault),
    /// Our own receive is at fault, with this status.
    Local(CompletionStatus),
}

/// A message whose first packet has arrived and whose last has not.
#[derive(Clone, Copy, Debug)]
struct Message {
    first_psn: Psn,
    received: u64,
    target: Target,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    /// The receive request that was taken.
    Receive,
    /// A part of a region.
    Region(RemoteTarget),
}

/// A receive request that a message has taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) wqe: RecvWqe,
    pub(crate) place: Place,
}

/// Memory that a peer's RDMA request names: where it writes to or reads from.
#[derive(Clone, Copy, Debug)]
struct RemoteTarget {
    pd: PdId,
    iova: u64,
    r_key: Key,
    length: u32,
    /// Its address in memory, and how old that is.
    address: u64,
    epoch: Epoch,
}

/// What answers a duplicate READ or atomic (9.7.5.1.5).
#[derive(Clone, Copy, Debug)]
struct Resource {
    first_psn: Psn,
    packets: u32,
    kind: ResourceKind,
}

#[derive(Clone, Copy, Debug)]
enum ResourceKind {
    Read { remote: RemoteTarget, stride: u32 },
    Atomic { original: u64 },
    AtomicWrite,
}

/// An answer that waits to be sent.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Acknowledge {
        psn: Psn,
        syndrome: Syndrome,
        msn: u32,
    },
    Atomic {
        psn: Psn,
        original: u64,
        msn: u32,
    },
    /// A selective acknowledgement: `psn` is missing. What has arrived behind it is looked up when
    /// this leaves.
    Selective {
        psn: Psn,
        msn: u32,
    },
    /// `again` if it was answered before.
    Read {
        first_psn: Psn,
        packets: u32,
        /// Bytes of payload of each of them but the last.
        stride: u32,
        sent: u32,
        remote: RemoteTarget,
        msn: u32,
        again: bool,
    },
}

/// The receiving side of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    expected: Psn,
    /// Messages completed, modulo 2^24.
    msn: u32,
    message: Option<Message>,
    /// The receive request of the message.
    taken: Option<Taken>,
    /// A NAK for `expected` is sent: no other until that packet arrives (9.7.5.1.3).
    nak_sent: bool,
    /// Under selective repeat: requests that are kept until their turn.
    ahead: Option<Box<ReorderBuffer>>,
    /// A marked request has come since the last acknowledgement left, which the next one tells.
    pub(crate) owes_echo: bool,
    /// What switches have written into the last request that brought any, which the next one tells, too.
    pub(crate) telemetry: Option<Telemetry>,
    /// Whether the first packet has come.
    established: bool,
    replies: VecDeque<Reply>,
    /// Holds responses to another host back.
    shaper: Shaper,
    resources: VecDeque<Resource>,
    /// When the last message ended, unless the application has answered it.
    unanswered_since: Option<Time>,
    /// How surely the application answers a message at once with one of its own: up with each
    /// answer, down with each that did not come.
    answers: u8,
}

impl Responder {
    /// Ready to receive from `psn` on.
    pub(crate) fn begin(&mut self, psn: Psn, kept: Option<Bounds>) {
        self.expected = psn;
        self.ahead = kept.map(|bounds| Box::new(ReorderBuffer::new(bounds, psn)));
    }

    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    pub(crate) fn forget_replies(&mut self) {
        self.replies.clear();
    }

    /// Gives up the message in progress. Returns the receive that it had taken.
    pub(crate) fn abandon_message(&mut self) -> Option<Taken> {
        self.message = None;
        self.taken.take()
    }

    /// The application posts a send: an answer, if a message came just before.
    pub(crate) fn note_answer(&mut self, now: Time, delay: Span) {
        if let Some(since) = self.unanswered_since.take() {
            assert!(now >= since || !mutated(Mutation::TimeNeverGoesBack), "a time below zero");
            if now.since(since) < delay {
                self.answers = (self.answers + 1).min(ANSWERS_MAX);
            } else {
                self.answer_did_not_come();
            }
        }
    }

    /// The application's answer did not come in time.
    pub(crate) fn answer_did_not_come(&mut self) {
        self.answers = self.answers.saturating_sub(ANSWERS_BEFORE_ACK_WAITS);
        self.unanswered_since = None;
    }

    /// Queues an acknowledgement. It replaces one that stands directly before it, if
    /// acknowledgements `coalesce` or the queue is full.
    fn acknowledge(&mut self, psn: Psn, coalesce: bool) {
        let msn = self.msn;
        let reply = Reply::Acknowledge { psn, syndrome: Syndrome::ACK, msn };
        let replaces = coalesce || self.replies.len() >= REPLIES_MAX;
        match self.replies.back_mut() {
            Some(last @ Reply::Acknowledge { syndrome: Syndrome::Ack { .. }, .. }) if replaces => {
                *last = reply;
            }
            _ => self.push_reply(reply),
        }
    }

    fn nak(&mut self, syndrome: Syndrome) {
        let reply = Reply::Acknowledge { psn: self.expected, syndrome, msn: self.msn };
        self.push_reply(reply);
    }

    /// An atomic write is answered by a READ response without data (annex A19).
    fn answer_atomic_write(&mut self, psn: Psn, msn: u32, again: bool) {
        let (pd, epoch) = (PdId::NONE, <_>::default());
        let remote = RemoteTarget { pd, iova: 0, r_key: Key(0), length: 0, address: 0, epoch };
        let (packets, stride) = (1, 0);
        let reply = Reply::Read { first_psn: psn, packets, stride, sent: 0, remote, msn, again };
        self.push_reply(reply);
    }

    /// The bound holds against a peer that asks without end and a driver that never takes answers.
    fn push_reply(&mut self, reply: Reply) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back(reply);
        }
    }

    /// Keeps what answers a duplicate, at most `limit`, and forgets the oldest.
    fn keep(&mut self, resource: Resource, limit: u8) {
        let limit = if mutated(Mutation::AnswersForgotten) { 1 } else { limit };
        while self.resources.len() >= usize::from(limit.max(1)) {
            self.resources.pop_front();
        }
        self.resources.push_back(resource);
    }

    /// READs that are being answered for the first time. (A late duplicate does not count: the
    /// requester may have its answer, and use the resource for another READ.)
    fn reads_in_progress(&self) -> usize {
        let is_first = |reply: &&Reply| matches!(reply, Reply::Read { again: false, .. });
        self.replies.iter().filter(is_first).count()
    }
}
