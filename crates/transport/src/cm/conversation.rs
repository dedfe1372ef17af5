//! One conversation: its numbers, its state, and the message to repeat.

use rdma::{Mtu, QKey, Qpn, Span, Time};
use wire::cm::mra::About;
use wire::cm::{Mad, Message, brief, mra, rej, req, sidr};

use super::state::{Input, State};
use super::{Discard, ListenerId};
use crate::Route;
use crate::limits::{
    CM_ANSWERS_MAX, CM_CONFIRM_TIME, CM_HALF_OPEN_MAX, CM_RESPONSE_TIMEOUT, CM_SERVICE_TIMEOUT,
    CM_TIMEOUT_MAX, CM_UNCLAIMED_INTERVAL, CM_UNCLAIMED_PATIENCE, ack_timeout,
};

/// In which order the conversations of one address make room for its newest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// In TIMEWAIT: nobody holds anything of it.
    Over,
    /// Accepted and not confirmed, or being taken down.
    Open,
    /// Taken back before the application had answered: makes no room. It goes by itself in a second, and
    /// until then keeps requests that are taken back in turn from filling the application's memory.
    TakenBack,
}

/// A conversation with a peer.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) state: State,
    /// Whether both sides have ever been able to use it.
    pub(super) established: bool,
    pub(super) id: u32,
    /// When it was begun or, on the passive side, accepted.
    pub(super) begun: Time,
    /// Its place among all by that time.
    pub(super) turn: u64,
    /// The peer's number; 0 until it is known.
    pub(super) remote_id: u32,
    pub(super) route: Route,
    /// The listener, on the passive side.
    pub(super) listener: Option<ListenerId>,
    /// Whether it is about datagrams.
    pub(super) datagram: bool,
    /// The service that datagrams are asked for.
    pub(super) service: u64,
    /// The transaction of the current exchange, and that of the first.
    pub(super) transaction: u64,
    pub(super) first_transaction: u64,
    pub(super) timing: Timing,
    /// The last message: repeated until it is answered, or when its request is repeated.
    pub(super) last: Option<Mad>,
    pub(super) retries_left: u8,
    /// How often the peer's last message is still answered again.
    pub(super) answers_left: u8,
    pub(super) deadline: Option<Time>,
    pub(super) local_qpn: Qpn,
    /// The peer's queue pair, and its adapter's GUID.
    pub(super) remote_qpn: Qpn,
    pub(super) remote_guid: u64,
    /// The peer has taken it back before the application had answered.
    pub(super) taken_back: bool,
    /// The application is done with it: no more events.
    pub(super) forgotten: bool,
}

/// What the REQ said about times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timing {
    /// How long the peer's connection manager has for an answer.
    pub(super) response: Span,
    /// How often a message is repeated.
    pub(super) retries: u8,
    /// How long TIMEWAIT lasts.
    pub(super) time_wait: Span,
}

impl Timing {
    /// What a REQ names, within bounds. A message is repeated for [`CM_HALF_OPEN_MAX`] at most.
    pub(super) fn named_by(request: &req::Repr) -> Self {
        let retries = request.max_retries;
        let longest = Span::from_ps(CM_HALF_OPEN_MAX.as_ps() / (u64::from(retries) + 1));
        Self {
            response: span(request.local_timeout).max(span(CM_RESPONSE_TIMEOUT)).min(longest),
            retries,
            time_wait: span(request.path.ack_timeout),
        }
    }
}

/// The time that a 5-bit code stands for, bounded. Here 0 is the shortest, not "for ever".
pub(super) fn span(code: u8) -> Span {
    ack_timeout(code.min(CM_TIMEOUT_MAX)).unwrap_or(Span::from_ns(4_096))
}

impl Conversation {
    /// Steps by `input`; `None` if that does nothing in this state.
    pub(super) fn step(&mut self, input: Input) -> Option<State> {
        self.state = self.state.after(input)?;
        self.established |= self.state == State::Established;
        self.answers_left = CM_ANSWERS_MAX;
        Some(self.state)
    }

    /// Whether it waits for the application's answer, in the listener's backlog.
    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::ReqReceived | State::SidrReqReceived)
    }

    /// Its rank in the share of the peer's address. None if we have begun it, if it counts to a backlog,
    /// or if it is established.
    pub(super) fn rank(&self) -> Option<Rank> {
        let rank = match self.state {
            State::TimeWait if self.taken_back => Rank::TakenBack,
            State::TimeWait => Rank::Over,
            State::RepSent | State::RtuWait | State::DreqSent => Rank::Open,
            _ => return None,
        };
        self.listener.map(|_| rank)
    }

    /// Whether it may end in favour of a newer one of its address. The peers of a crowd have time to
    /// confirm.
    pub(super) fn may_make_room(&self, now: Time) -> bool {
        let has_had_time = now.since(self.begun) >= span(CM_CONFIRM_TIME);
        self.rank().is_some_and(|rank| match rank {
            Rank::Over => true,
            Rank::Open => has_had_time,
            Rank::TakenBack => false,
        })
    }

    /// Whether the peer has said which number it has.
    pub(super) fn knows_peer(&self) -> bool {
        !matches!(self.state, State::ReqSent | State::RepWait | State::SidrReqSent)
    }

    /// Whether it is half open, and has been for as long as it may.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.is_half_open() && now.since(self.begun) >= CM_HALF_OPEN_MAX
    }

    /// Whether it is accepted and has never been established, also while it is taken down.
    fn is_half_open(&self) -> bool {
        let accepted = matches!(
            self.state,
            State::RepSent | State::RtuWait | State::DreqSent | State::TimeWait
        );
        self.listener.is_some() && accepted && !self.established
    }

    /// Sets the timer to `after`, or to the end of the time that a half-open connection has.
    pub(super) fn wait(&mut self, now: Time, after: Span) {
        let end = self.begun + CM_HALF_OPEN_MAX;
        let deadline = now + after;
        self.deadline = Some(if self.is_half_open() { deadline.min(end) } else { deadline });
    }

    /// `answer`, unless the peer has had it too often.
    pub(super) fn again(&mut self, answer: Option<Mad>) -> Result<Option<Mad>, Discard> {
        if answer.is_some() {
            self.answers_left = self.answers_left.checked_sub(1).ok_or(Discard::Excess)?;
        }
        Ok(answer)
    }

    /// Begins to send a message, which is repeated until it is answered.
    pub(super) fn say(&mut self, now: Time, mad: Mad) {
        self.last = Some(mad);
        self.retries_left = self.timing.retries;
        self.wait(now, self.timing.response);
    }

    /// Sends a message once; it is repeated for a duplicate.
    pub(super) fn answer(&mut self, mad: Mad) {
        self.last = Some(mad);
        self.deadline = None;
    }

    /// Sends the last message, which is kept for as long as the peer may repeat its own.
    pub(super) fn conclude(&mut self, now: Time, mad: Mad) {
        self.last = Some(mad);
        self.remember(now);
    }

    /// Stays for as long as the peer may repeat its message.
    fn remember(&mut self, now: Time) {
        let repeats = self.timing.response * (u64::from(self.timing.retries) + 1);
        self.deadline = Some(now + repeats.min(CM_HALF_OPEN_MAX));
    }

    /// The peer has taken its request back, and the application knows. `waited`: before it had answered.
    pub(super) fn be_taken_back(&mut self, now: Time, waited: bool) {
        self.state = State::TimeWait;
        self.forgotten = true;
        self.last = None;
        self.taken_back = waited;
        if waited {
            self.deadline = Some(now + span(CM_RESPONSE_TIMEOUT));
        } else {
            self.remember(now);
        }
    }

    /// After a refusal because nobody offers the service: asks again in a moment, if the
    /// conversation is young.
    pub(super) fn asks_again(&mut self, now: Time) -> bool {
        let asks = matches!(self.state, State::ReqSent | State::SidrReqSent);
        let is_young = now.since(self.begun) < CM_UNCLAIMED_PATIENCE;
        if asks && is_young {
            self.retries_left = self.timing.retries;
            self.deadline = Some(now + CM_UNCLAIMED_INTERVAL);
        }
        asks && is_young
    }

    /// What to ask for after a refusal because the path MTU is too long for the peer, which says what it can have: the same
    /// with that. So a connection is refused no more often than there are path MTUs. It is another request, and not the
    /// old one repeated, so it is a transaction of its own.
    pub(super) fn asks_for_less(&self, rejection: &rej::Repr) -> Option<Mad> {
        let mut mad = self.last.filter(|_| self.state == State::ReqSent)?;
        let Message::Req(request) = &mut mad.message else { return None };
        let most = rejection.suggested_mtu().filter(|most| most.code() < request.mtu)?;
        request.mtu = most.code();
        Some(mad)
    }

    /// Whether a refusal answers a request that asked for a longer path MTU than the last one.
    pub(super) fn has_asked_for_less_since(&self, refusal: &Mad) -> bool {
        let has_asked = self.listener.is_none() && self.transaction != self.first_transaction;
        has_asked && refusal.transaction != self.transaction
    }

    /// The path MTU that was asked for last.
    pub(super) fn asked_mtu(&self) -> Option<Mtu> {
        match self.last.as_ref()?.message {
            Message::Req(request) => Mtu::from_code(request.mtu),
            _ => None,
        }
    }

    /// Begins TIMEWAIT.
    pub(super) fn begin_time_wait(&mut self, now: Time) {
        self.wait(now, self.timing.time_wait);
    }

    /// The peer's MRA says that it needs `service_timeout` more.
    pub(super) fn be_patient(&mut self, now: Time, service_timeout: u8) {
        self.wait(now, span(service_timeout) + self.timing.response);
    }

    pub(super) fn mad(&self, message: Message) -> Mad {
        Mad::new(self.transaction, message)
    }

    pub(super) fn rtu(&self, private: [u8; brief::RTU_PRIVATE_LEN]) -> Mad {
        let Self { id, remote_id, .. } = *self;
        self.mad(Message::Rtu(brief::Rtu { local_id: id, remote_id, private }))
    }

    pub(super) fn dreq(&self, private: [u8; brief::DREQ_PRIVATE_LEN]) -> Mad {
        let Self { id, remote_id, remote_qpn, .. } = *self;
        self.mad(Message::Dreq(brief::Dreq { local_id: id, remote_id, remote_qpn, private }))
    }

    /// An MRA: the application takes its time to answer `about`.
    pub(super) fn mra(&self, about: About) -> Mad {
        self.mad(Message::Mra(mra::Repr {
            local_id: self.id,
            remote_id: self.remote_id,
            about,
            service_timeout: CM_SERVICE_TIMEOUT,
            private: [0; mra::PRIVATE_LEN],
        }))
    }

    /// What a REJ of ours would be about.
    pub(super) fn rejects(&self) -> About {
        match self.state {
            State::ReqReceived => About::Req,
            State::RepReceived => About::Rep,
            _ => About::Other,
        }
    }

    pub(super) fn rej(
        &self,
        about: About,
        reason: rej::Reason,
        private: [u8; rej::PRIVATE_LEN],
    ) -> Mad {
        let local_id = self.id;
        let rej = rej::Repr { local_id, private, ..rej(about, reason, self.remote_id) };
        self.mad(Message::Rej(rej))
    }
}

/// A REJ that names no conversation of the sender's.
pub(super) fn rej(about: About, reason: rej::Reason, remote_id: u32) -> rej::Repr {
    rej::Repr {
        local_id: 0,
        remote_id,
        about,
        info_length: 0,
        reason,
        info: [0; rej::INFO_LEN],
        private: [0; rej::PRIVATE_LEN],
    }
}

pub(super) fn drep(transaction: u64, local_id: u32, remote_id: u32) -> Mad {
    let private = [0; brief::DREP_PRIVATE_LEN];
    Mad::new(transaction, Message::Drep(brief::Drep { local_id, remote_id, private }))
}

/// A SIDR_REP that names no queue pair.
pub(super) fn refusal(request_id: u32, service: u64, status: sidr::Status) -> sidr::Rep {
    sidr::Rep {
        request_id,
        status,
        info_length: 0,
        qpn: Qpn::default(),
        service,
        q_key: QKey::default(),
        info: [0; sidr::INFO_LEN],
        private: [0; sidr::REP_PRIVATE_LEN],
    }
}
