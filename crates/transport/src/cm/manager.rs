//! The manager: listeners, conversations, and what the application's calls and timers do. What
//! messages do is in [`incoming`](incoming.rs).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::ops::Range;

use rdma::{Gid, Mtu, Qpn, Time};
use wire::cm::mra::About;
use wire::cm::{Mad, Message, brief, rej, rep, req, sidr};

use super::conversation::{Conversation, Rank, Timing, refusal, span};
use super::state::{Input, State};
use super::{CmConfig, CmError, CmEvent, CmStats, CommId, Discard, ListenerId, Outgoing};
use crate::limits::{
    CM_ANSWERS_MAX, CM_BACKLOG_MAX, CM_CONVERSATIONS_MAX, CM_LISTENERS_MAX,
    CM_PENDING_PER_SOURCE_MAX, CM_RESPONSE_TIMEOUT, CM_RETRIES,
};
use crate::secret::{Secret, keyed_hash};
use crate::{Arrival, Route};

/// A listener.
#[derive(Clone, Debug)]
struct Listener {
    service: u64,
    /// The address that is listened at; `None` for each that the port has.
    local: Option<Gid>,
    /// Requests that may wait for the application.
    backlog: u32,
    waiting: u32,
}

/// How a peer names a conversation that it began: its address, its adapter's GUID, its number, and
/// whether it is about datagrams. Requests for those name no GUID: it is 0.
pub(super) type PeerKey = (Gid, u64, u32, bool);

/// A peer's queue pair: its address, its adapter's GUID, its number.
type QueuePairKey = (Gid, u64, Qpn);

/// The connection manager of a port.
///
/// A driver passes in what arrives at QP1 ([`Manager::handle`]) and calls
/// [`Manager::handle_timeout`] when the time has come, and after any call takes out messages
/// ([`Manager::poll_transmit`]) and events ([`Manager::poll_event`]) until there are none.
#[derive(Debug)]
pub struct Manager {
    pub(super) config: CmConfig,
    /// Which number comes next, before they are shuffled.
    next_id: u32,
    /// Shuffles the numbers: who has one cannot tell those of others.
    secret: Secret,
    next_transaction: u64,
    next_turn: u64,
    next_listener: u32,
    listeners: BTreeMap<ListenerId, Listener>,
    services: BTreeMap<(u64, Option<Gid>), ListenerId>,
    pub(super) conversations: BTreeMap<u32, Conversation>,
    pub(super) by_peer: BTreeMap<PeerKey, u32>,
    /// Connections in use, by the peer's address, adapter and queue pair. What an adapter calls itself
    /// is not trusted: the address counts too.
    pub(super) by_queue_pair: BTreeMap<QueuePairKey, u32>,
    /// The share of each address that has one: its conversations by rank and turn. The first is the first to make room.
    shares: BTreeMap<Gid, BTreeSet<(Rank, u64, u32)>>,
    timers: BTreeSet<(Time, u32)>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<CmEvent>,
    pub(super) stats: CmStats,
}

impl Manager {
    /// A manager without any conversation.
    pub fn new(config: CmConfig) -> Self {
        let secret = Secret::new(Some(config.seed));
        Self {
            next_id: 0,
            // Peers see it, so it must not tell the seed.
            next_transaction: u64::from(secret.shuffled(0, 1 << 31)) << 32,
            next_turn: 0,
            secret,
            config,
            next_listener: 0,
            listeners: BTreeMap::new(),
            services: BTreeMap::new(),
            conversations: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            by_queue_pair: BTreeMap::new(),
            shares: BTreeMap::new(),
            timers: BTreeSet::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            stats: CmStats::default(),
        }
    }

    // ---- what an application asks for

    /// Listens for requests for `service`, sent to the address `local` or to any. Of two listeners
    /// for one service, the one that names an address is asked. `backlog` requests may wait to be
    /// accepted or rejected.
    ///
    /// # Errors
    /// [`CmError::InUse`], [`CmError::Exhausted`].
    pub fn listen(
        &mut self,
        service: u64,
        local: Option<Gid>,
        backlog: u32,
    ) -> Result<ListenerId, CmError> {
        if self.listeners.len() >= CM_LISTENERS_MAX {
            return Err(CmError::Exhausted);
        }
        if self.services.contains_key(&(service, local)) {
            return Err(CmError::InUse);
        }
        let id = ListenerId(self.next_listener);
        self.next_listener = self.next_listener.wrapping_add(1);
        let backlog = backlog.clamp(1, CM_BACKLOG_MAX);
        self.listeners.insert(id, Listener { service, local, backlog, waiting: 0 });
        self.services.insert((service, local), id);
        Ok(id)
    }

    /// Ends a listener. Requests that have come are still to be accepted or rejected.
    ///
    /// # Errors
    /// [`CmError::NotFound`].
    pub fn unlisten(&mut self, id: ListenerId) -> Result<(), CmError> {
        let listener = self.listeners.remove(&id).ok_or(CmError::NotFound)?;
        self.services.remove(&(listener.service, listener.local));
        Ok(())
    }

    /// Asks for a connection. Numbers, timeouts and the GUID of `request` are filled in.
    ///
    /// # Errors
    /// [`CmError::Exhausted`].
    pub fn connect(
        &mut self,
        now: Time,
        route: Route,
        request: req::Repr,
        options: u32,
    ) -> Result<CommId, CmError> {
        let timing = Timing {
            response: span(CM_RESPONSE_TIMEOUT),
            retries: CM_RETRIES,
            time_wait: span(request.path.ack_timeout),
        };
        let mut conversation = self.begin(now, State::ReqSent, route, timing)?;
        conversation.local_qpn = request.qpn;
        let message = Message::Req(req::Repr {
            local_id: conversation.id,
            guid: self.guid(route.destination),
            remote_timeout: CM_RESPONSE_TIMEOUT,
            local_timeout: CM_RESPONSE_TIMEOUT,
            max_retries: CM_RETRIES,
            ..request
        });
        let mad = Mad { modifier: options, ..conversation.mad(message) };
        Ok(self.say(now, conversation, mad))
    }

    /// Asks for the queue pair of a datagram service. The number of `request` is filled in.
    ///
    /// # Errors
    /// [`CmError::Exhausted`].
    pub fn ask(&mut self, now: Time, route: Route, request: sidr::Req) -> Result<CommId, CmError> {
        let response = span(CM_RESPONSE_TIMEOUT);
        let timing = Timing { response, retries: CM_RETRIES, time_wait: response };
        let conversation = self.begin(now, State::SidrReqSent, route, timing)?;
        let request = sidr::Req { request_id: conversation.id, ..request };
        let mad = conversation.mad(Message::SidrReq(request));
        Ok(self.say(now, conversation, mad))
    }

    /// Accepts a request. Numbers and the GUID of `reply` are filled in. The queue pair is to be
    /// ready to receive by now.
    ///
    /// # Errors
    /// [`CmError::NotFound`], [`CmError::State`].
    pub fn accept(
        &mut self,
        now: Time,
        id: CommId,
        reply: rep::Repr,
        options: u32,
    ) -> Result<(), CmError> {
        let mut conversation = self.stepped(id, Input::Accept, State::RepSent)?;
        conversation.local_qpn = reply.qpn;
        conversation.begun = now;
        conversation.turn = self.turn();
        let message = Message::Rep(rep::Repr {
            local_id: conversation.id,
            remote_id: conversation.remote_id,
            guid: self.guid(conversation.route.destination),
            ..reply
        });
        let mad = Mad { modifier: options, ..conversation.mad(message) };
        self.say(now, conversation, mad);
        Ok(())
    }

    /// Answers the question for a datagram service. The number and service of `reply` are filled
    /// in.
    ///
    /// # Errors
    /// [`CmError::NotFound`], [`CmError::State`].
    pub fn answer(&mut self, now: Time, id: CommId, reply: sidr::Rep) -> Result<(), CmError> {
        let conversation = self.stepped(id, Input::Accept, State::TimeWait)?;
        let service = conversation.service;
        let reply = sidr::Rep { request_id: conversation.remote_id, service, ..reply };
        let mad = conversation.mad(Message::SidrRep(reply));
        self.conclude(now, conversation, mad);
        Ok(())
    }

    /// Refuses a request, or a reply.
    ///
    /// # Errors
    /// [`CmError::NotFound`], [`CmError::State`].
    pub fn reject(
        &mut self,
        now: Time,
        id: CommId,
        reason: rej::Reason,
        private: [u8; rej::PRIVATE_LEN],
    ) -> Result<(), CmError> {
        let about = self.conversations.get(&id.0).ok_or(CmError::NotFound)?.rejects();
        let conversation = self.stepped(id, Input::Reject, State::TimeWait)?;
        let mad = conversation.rej(about, reason, private);
        self.conclude(now, conversation, mad);
        Ok(())
    }

    /// Confirms a reply: the queue pair is ready to send. On the accepting side it says that the
    /// connection is in use though no RTU has come.
    ///
    /// # Errors
    /// [`CmError::NotFound`], [`CmError::State`].
    pub fn confirm(
        &mut self,
        id: CommId,
        private: [u8; brief::RTU_PRIVATE_LEN],
    ) -> Result<(), CmError> {
        let mut conversation = self.stepped(id, Input::Confirm, State::Established)?;
        conversation.deadline = None;
        if conversation.listener.is_none() {
            let mad = conversation.rtu(private);
            conversation.answer(mad);
            self.send(conversation.route, mad);
        } else {
            self.tell(&conversation, CmEvent::Established(id));
        }
        self.keep(conversation);
        Ok(())
    }

    /// Ends a connection. Its end is an event, and so is the end of TIMEWAIT.
    ///
    /// # Errors
    /// [`CmError::NotFound`], [`CmError::State`].
    pub fn disconnect(
        &mut self,
        now: Time,
        id: CommId,
        private: [u8; brief::DREQ_PRIVATE_LEN],
    ) -> Result<(), CmError> {
        let conversation = self.stepped(id, Input::Disconnect, State::DreqSent)?;
        self.release(now, conversation, private);
        Ok(())
    }

    /// Brings a conversation to its end without another event: the application is done with it.
    pub fn forget(&mut self, now: Time, id: CommId) {
        self.events.retain(|event| event.conversation() != id);
        self.end(now, id.0);
    }

    fn end(&mut self, now: Time, id: u32) {
        let Some(mut conversation) = self.take(id) else { return };
        conversation.forgotten = true;
        self.leave_backlog(&conversation);
        match conversation.state {
            // A late REP gets a REJ, as one that belongs to no conversation.
            State::ReqSent | State::RepWait => {
                self.refuse_late(&conversation);
                conversation.state = State::Closed;
            }
            State::ReqReceived | State::RepReceived => {
                let private = [0; rej::PRIVATE_LEN];
                let about = conversation.rejects();
                conversation.state = State::TimeWait;
                let mad = conversation.rej(about, rej::Reason::CONSUMER, private);
                return self.conclude(now, conversation, mad);
            }
            State::SidrReqReceived => {
                conversation.state = State::TimeWait;
                let Conversation { remote_id, service, .. } = conversation;
                let reply = refusal(remote_id, service, sidr::Status::REJECTED);
                let mad = conversation.mad(Message::SidrRep(reply));
                return self.conclude(now, conversation, mad);
            }
            // The peer may use the connection already, so it must hear of the end.
            State::RepSent | State::RtuWait | State::Established => {
                conversation.state = State::DreqSent;
                return self.release(now, conversation, [0; brief::DREQ_PRIVATE_LEN]);
            }
            State::SidrReqSent => conversation.state = State::Closed,
            State::DreqSent | State::TimeWait | State::Closed => {}
        }
        self.keep(conversation);
    }

    /// Ends every conversation, before the driver ends.
    pub fn forget_all(&mut self, now: Time) {
        let all: alloc::vec::Vec<u32> = self.conversations.keys().copied().collect();
        for id in all {
            self.forget(now, CommId(id));
        }
    }

    // ---- the driver's verbs

    /// Takes a datagram that has arrived at QP1. `path` says the longest path MTU that the path to its sender takes, where
    /// that is known: a request may ask for no more than that, and no more than the port has. It is asked of requests alone
    /// that are not refused or answered already.
    ///
    /// # Errors
    /// Why it changed nothing. It is counted.
    pub fn handle(
        &mut self,
        now: Time,
        arrival: &Arrival,
        path: impl FnOnce() -> Option<Mtu>,
        bytes: &[u8],
    ) -> Result<(), Discard> {
        let result = match Mad::parse(bytes) {
            Err(error) => Err(Discard::Malformed(error)),
            Ok(mad) => {
                self.stats.cm_rx_msgs += 1;
                match &mad.message {
                    Message::Req(request) => self.requested(now, arrival, (&mad, request), path),
                    Message::SidrReq(request) => self.asked(now, arrival, &mad, request),
                    _ => self.answered(now, arrival, &mad),
                }
            }
        };
        match result {
            Ok(()) => {}
            Err(Discard::Malformed(_)) => self.stats.cm_rx_malformed += 1,
            Err(Discard::Duplicate) => self.stats.cm_rx_duplicates += 1,
            Err(Discard::Stray) => self.stats.cm_rx_strays += 1,
            Err(Discard::Excess) => self.stats.cm_rx_excess += 1,
        }
        result
    }

    /// When [`Manager::handle_timeout`] is to be called. The answer may change after every other
    /// call.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(deadline, id)) = self.timers.first() {
            if deadline > now {
                return;
            }
            match self.take(id) {
                Some(conversation) => self.expired(now, conversation),
                None => {
                    self.timers.pop_first();
                }
            }
        }
    }

    /// The next message to send, if any.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        let outgoing = self.outgoing.pop_front()?;
        self.stats.cm_tx_msgs += 1;
        Some(outgoing)
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<CmEvent> {
        self.events.pop_front()
    }

    /// Whether neither [`Manager::poll_transmit`] nor [`Manager::poll_event`] has anything.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.events.is_empty()
    }

    /// What was counted.
    pub fn stats(&self) -> &CmStats {
        &self.stats
    }

    /// Whether there is a listener for `service` at the address `local`.
    pub fn listens(&self, service: u64, local: Gid) -> bool {
        self.listener(service, local).is_some()
    }

    /// How many conversations there are.
    pub fn len(&self) -> usize {
        self.conversations.len()
    }

    /// Whether there is no conversation.
    pub fn is_empty(&self) -> bool {
        self.conversations.is_empty()
    }

    // ---- timers

    fn expired(&mut self, now: Time, mut conversation: Conversation) {
        let id = CommId(conversation.id);
        if !conversation.state.repeats() {
            if conversation.step(Input::Over).is_some() {
                self.tell(&conversation, CmEvent::Closed(id));
            } else {
                conversation.deadline = None;
            }
        } else if let (Some(left), Some(last), false) = (
            conversation.retries_left.checked_sub(1),
            conversation.last,
            conversation.is_overdue(now),
        ) {
            conversation.retries_left = left;
            conversation.wait(now, conversation.timing.response);
            self.stats.cm_tx_retries += 1;
            self.send(conversation.route, last);
        } else {
            self.give_up(&mut conversation);
            if conversation.state == State::TimeWait {
                conversation.begin_time_wait(now);
            }
        }
        self.keep(conversation);
    }

    /// The peer has had its time to answer.
    fn give_up(&mut self, conversation: &mut Conversation) {
        let id = CommId(conversation.id);
        self.refuse_late(conversation);
        let is_closed = conversation.step(Input::GiveUp) == Some(State::Closed);
        let event = if is_closed { CmEvent::Unreachable(id) } else { CmEvent::Disconnected(id) };
        self.tell(conversation, event);
    }

    /// Makes room for another conversation with `source`: if its share is used up, ends the oldest that may
    /// go, as if all its time had passed. Returns whether there is room.
    pub(super) fn make_room(&mut self, now: Time, source: Gid) -> bool {
        let share = self.shares.get(&source);
        let share = share.filter(|share| share.len() >= CM_PENDING_PER_SOURCE_MAX);
        let Some(&(.., id)) = share.and_then(BTreeSet::first) else { return true };
        if !self.conversations.get(&id).is_some_and(|oldest| oldest.may_make_room(now)) {
            return false;
        }
        if let Some(mut oldest) = self.take(id) {
            if oldest.state.repeats() {
                self.give_up(&mut oldest);
            }
            if oldest.step(Input::Over).is_some() {
                self.tell(&oldest, CmEvent::Closed(CommId(id)));
            }
            self.keep(oldest);
        }
        true
    }

    /// Tells a peer that has not answered that it is too late.
    fn refuse_late(&mut self, conversation: &Conversation) {
        let about = match conversation.state {
            State::ReqSent | State::RepWait => About::Req,
            State::RepSent | State::RtuWait => About::Rep,
            _ => return,
        };
        let mut mad = conversation.rej(about, rej::Reason::TIMEOUT, [0; rej::PRIVATE_LEN]);
        // With this reason goes the adapter's GUID: the peer's number is not always known.
        if let Message::Rej(rejection) = &mut mad.message {
            let guid = self.guid(conversation.route.destination);
            rejection.info[..8].copy_from_slice(&guid.to_be_bytes());
            rejection.info_length = 8;
        }
        self.send(conversation.route, mad);
    }

    /// Sends the DREQ of a conversation that has stepped to [`State::DreqSent`].
    fn release(
        &mut self,
        now: Time,
        mut conversation: Conversation,
        private: [u8; brief::DREQ_PRIVATE_LEN],
    ) {
        conversation.transaction = self.transaction();
        let mad = conversation.dreq(private);
        self.say(now, conversation, mad);
    }

    /// Begins to send a message of a conversation, which is repeated until it is answered.
    fn say(&mut self, now: Time, mut conversation: Conversation, mad: Mad) -> CommId {
        conversation.say(now, mad);
        self.send(conversation.route, mad);
        self.keep(conversation)
    }

    /// Sends the last message of a conversation.
    fn conclude(&mut self, now: Time, mut conversation: Conversation, mad: Mad) {
        conversation.conclude(now, mad);
        self.send(conversation.route, mad);
        self.keep(conversation);
    }

    /// The peer has begun something else in the place of `id`: ends that, and tells the
    /// application, and the peer in case it still knows of it.
    pub(super) fn lost(&mut self, now: Time, id: u32) {
        let Some(mut conversation) = self.conversations.get(&id).cloned() else { return };
        match conversation.state {
            State::SidrReqReceived | State::TimeWait => {}
            _ => self.tell(&conversation, CmEvent::Disconnected(CommId(id))),
        }
        self.tell(&conversation, CmEvent::Closed(CommId(id)));
        if !conversation.waits() {
            return self.end(now, id);
        }
        self.take(id);
        self.leave_backlog(&conversation);
        conversation.be_taken_back(now, true);
        self.keep(conversation);
    }

    // ---- the tables

    pub(super) fn listener(&self, service: u64, local: Gid) -> Option<ListenerId> {
        let named = self.services.get(&(service, Some(local)));
        named.or_else(|| self.services.get(&(service, None))).copied()
    }

    pub(super) fn has_room(&self, listener: ListenerId) -> bool {
        self.listeners.get(&listener).is_some_and(|listener| listener.waiting < listener.backlog)
    }

    /// A conversation that waited for the application leaves the listener's backlog.
    pub(super) fn leave_backlog(&mut self, conversation: &Conversation) {
        if let Some(listener) = conversation.listener.filter(|_| conversation.waits())
            && let Some(listener) = self.listeners.get_mut(&listener)
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// A new conversation with a number of its own.
    pub(super) fn begin(
        &mut self,
        now: Time,
        state: State,
        route: Route,
        timing: Timing,
    ) -> Result<Conversation, CmError> {
        let range = self.config.ids.clone();
        let most = range.len().min(CM_CONVERSATIONS_MAX);
        if self.conversations.len() >= most {
            return Err(CmError::Exhausted);
        }
        // As there are fewer than numbers, one is free.
        let mut id = self.number();
        while self.conversations.contains_key(&id) {
            id = self.number();
        }
        let transaction = self.transaction();
        let turn = self.turn();
        Ok(Conversation {
            state,
            established: false,
            id,
            begun: now,
            turn,
            remote_id: 0,
            route,
            listener: None,
            service: 0,
            transaction,
            first_transaction: transaction,
            timing,
            last: None,
            retries_left: 0,
            answers_left: CM_ANSWERS_MAX,
            deadline: None,
            local_qpn: Qpn::default(),
            remote_qpn: Qpn::default(),
            remote_guid: 0,
            datagram: matches!(state, State::SidrReqSent | State::SidrReqReceived),
            taken_back: false,
            forgotten: false,
        })
    }

    /// The next number. There is one.
    fn number(&mut self) -> u32 {
        let Range { start, end } = self.config.ids;
        let count = end - start;
        let id = start + self.secret.shuffled(self.next_id, count);
        self.next_id = (self.next_id + 1) % count;
        id
    }

    pub(super) fn transaction(&mut self) -> u64 {
        self.next_transaction = self.next_transaction.wrapping_add(1);
        self.next_transaction
    }

    fn turn(&mut self) -> u64 {
        self.next_turn = self.next_turn.wrapping_add(1);
        self.next_turn
    }

    /// How our adapter is named to the manager at `peer`: no other address can find it out.
    pub(super) fn guid(&self, peer: Gid) -> u64 {
        keyed_hash([self.config.guid, self.config.seed], &peer.0)
    }

    /// Takes a conversation out of the tables, until [`Manager::keep`].
    pub(super) fn take(&mut self, id: u32) -> Option<Conversation> {
        let conversation = self.conversations.remove(&id)?;
        if let Some(deadline) = conversation.deadline {
            self.timers.remove(&(deadline, id));
        }
        let source = conversation.route.destination;
        let key = (source, conversation.remote_guid, conversation.remote_qpn);
        if self.by_queue_pair.get(&key) == Some(&id) {
            self.by_queue_pair.remove(&key);
        }
        if let Some(rank) = conversation.rank()
            && let Some(share) = self.shares.get_mut(&source)
        {
            share.remove(&(rank, conversation.turn, id));
            if share.is_empty() {
                self.shares.remove(&source);
            }
        }
        Some(conversation)
    }

    /// Takes out a conversation and steps it by the application's `input` to `expected`.
    fn stepped(
        &mut self,
        id: CommId,
        input: Input,
        expected: State,
    ) -> Result<Conversation, CmError> {
        let known = self.conversations.get(&id.0).ok_or(CmError::NotFound)?;
        if known.state.after(input) != Some(expected) {
            return Err(CmError::State);
        }
        let mut conversation = self.take(id.0).ok_or(CmError::NotFound)?;
        self.leave_backlog(&conversation);
        conversation.step(input);
        Ok(conversation)
    }

    /// Puts a conversation back, unless it is closed.
    pub(super) fn keep(&mut self, conversation: Conversation) -> CommId {
        let id = conversation.id;
        if conversation.state == State::Closed {
            if conversation.listener.is_some() {
                let Conversation { route, remote_guid, remote_id, datagram, .. } = conversation;
                let key = (route.destination, remote_guid, remote_id, datagram);
                // The peer may have begun another with that number.
                if self.by_peer.get(&key) == Some(&id) {
                    self.by_peer.remove(&key);
                }
            }
            return CommId(id);
        }
        if let Some(deadline) = conversation.deadline {
            self.timers.insert((deadline, id));
        }
        let in_use =
            matches!(conversation.state, State::RepSent | State::RtuWait | State::Established);
        // A peer that connects no queue pair says 0.
        if in_use && conversation.remote_qpn != Qpn::default() {
            let source = conversation.route.destination;
            let key = (source, conversation.remote_guid, conversation.remote_qpn);
            self.by_queue_pair.insert(key, id);
        }
        if let Some(rank) = conversation.rank() {
            let share = self.shares.entry(conversation.route.destination).or_default();
            share.insert((rank, conversation.turn, id));
        }
        self.conversations.insert(id, conversation);
        CommId(id)
    }

    /// Keeps a conversation that a request has begun, until the application says what becomes of it.
    pub(super) fn keep_new(
        &mut self,
        mut begun: Conversation,
        key: PeerKey,
        listener: ListenerId,
        mad: &Mad,
    ) {
        if let Some(listener) = self.listeners.get_mut(&listener) {
            listener.waiting += 1;
        }
        (_, begun.remote_guid, begun.remote_id, _) = key;
        begun.listener = Some(listener);
        begun.transaction = mad.transaction;
        begun.first_transaction = mad.transaction;
        self.by_peer.insert(key, begun.id);
        self.keep(begun);
    }

    pub(super) fn send(&mut self, route: Route, mad: Mad) {
        self.outgoing.push_back(Outgoing { route, mad });
    }

    pub(super) fn tell(&mut self, conversation: &Conversation, event: CmEvent) {
        if !conversation.forgotten {
            self.events.push_back(event);
        }
    }
}
