//! What each message does to a conversation.

use alloc::boxed::Box;

use rdma::{Mtu, Time};
use wire::cm::mra::About;
use wire::cm::req::{EXTENDED_XRC, Transport};
use wire::cm::{Mad, Message, brief, mra, rej, rep, req, sidr};

use super::conversation::{Conversation, Timing, drep, refusal, rej, span};
use super::manager::PeerKey;
use super::state::{Input, State};
use super::{CmEvent, CommId, Discard, Manager};
use crate::limits::{CM_RESPONSE_TIMEOUT, CM_RETRIES};
use crate::{Arrival, Route};

impl Manager {
    /// A REQ.
    pub(super) fn requested(
        &mut self,
        now: Time,
        arrival: &Arrival,
        (mad, request): (&Mad, &req::Repr),
        path: impl FnOnce() -> Option<Mtu>,
    ) -> Result<(), Discard> {
        let rejection = |reason| rej(About::Req, reason, request.local_id);
        let refuse = |reason| Mad::new(mad.transaction, Message::Rej(rejection(reason)));
        let key = (arrival.source, request.guid, request.local_id, false);
        let over = |known: &Conversation| {
            let rej = known.rej(About::Req, rej::Reason::CONSUMER, [0; rej::PRIVATE_LEN]);
            Mad { transaction: mad.transaction, ..rej }
        };
        let former = self.expect_new(&key, mad, |known| match known.state {
            State::ReqReceived => Some(known.mra(About::Req)),
            State::RepSent | State::RtuWait => known.last,
            // The peer never had our REP, and gets none now.
            State::DreqSent => Some(over(known)),
            // If it was rejected, a late REQ gets that REJ again and does not reach a new listener.
            State::TimeWait => known.last.or(Some(over(known))),
            _ => None,
        })?;
        let route = back(arrival);
        let Some(listener) = self.listener(request.service, arrival.destination) else {
            self.stats.cm_unknown_services += 1;
            self.send(route, refuse(rej::Reason::INVALID_SERVICE));
            return Ok(());
        };
        let is_offered = match request.transport {
            Transport::Rc | Transport::Uc => true,
            Transport::Extended => request.extended_transport == EXTENDED_XRC,
            Transport::Rd => false,
        };
        if !is_offered {
            self.send(route, refuse(rej::Reason::INVALID_TRANSPORT));
            return Ok(());
        }
        let port = self.config.mtu;
        let most = path().map_or(port, |path| path.min(port));
        if Mtu::from_code(request.mtu).is_none_or(|mtu| mtu > most) {
            let mut rejection = rejection(rej::Reason::INVALID_MTU);
            rejection.suggest_mtu(most);
            self.send(route, Mad::new(mad.transaction, Message::Rej(rejection)));
            return Ok(());
        }
        if !self.has_room(listener) || !self.make_room(now, arrival.source) {
            return Err(Discard::Excess);
        }
        // Who ends a former conversation, or a stale one, knows the GUID that this peer tells us alone.
        if let Some(id) = former {
            self.lost(now, id);
        }
        let stale = (arrival.source, request.guid, request.qpn);
        if let Some(id) = self.by_queue_pair.get(&stale).copied() {
            self.lost(now, id);
            self.send(route, refuse(rej::Reason::STALE));
            return Ok(());
        }
        let timing = Timing::named_by(request);
        let Ok(mut conversation) = self.begin(now, State::ReqReceived, route, timing) else {
            self.send(route, refuse(rej::Reason::NO_RESOURCES));
            return Ok(());
        };
        conversation.remote_qpn = request.qpn;
        let id = CommId(conversation.id);
        let (request, options) = (Box::new(*request), mad.modifier);
        self.tell(&conversation, CmEvent::Request { listener, id, route, request, options });
        self.keep_new(conversation, key, listener, mad);
        Ok(())
    }

    /// A SIDR_REQ.
    pub(super) fn asked(
        &mut self,
        now: Time,
        arrival: &Arrival,
        mad: &Mad,
        request: &sidr::Req,
    ) -> Result<(), Discard> {
        let key = (arrival.source, 0, request.request_id, true);
        let former = self.expect_new(&key, mad, |known| known.last)?;
        let route = back(arrival);
        let refuse = |status| {
            let reply = refusal(request.request_id, request.service, status);
            Mad::new(mad.transaction, Message::SidrRep(reply))
        };
        let Some(listener) = self.listener(request.service, arrival.destination) else {
            self.stats.cm_unknown_services += 1;
            self.send(route, refuse(sidr::Status::UNSUPPORTED));
            return Ok(());
        };
        if !self.has_room(listener) || !self.make_room(now, arrival.source) {
            return Err(Discard::Excess);
        }
        if let Some(id) = former {
            self.lost(now, id);
        }
        let response = span(CM_RESPONSE_TIMEOUT);
        let timing = Timing { response, retries: CM_RETRIES, time_wait: response };
        let begun = self.begin(now, State::SidrReqReceived, route, timing);
        let Ok(mut conversation) = begun else {
            self.send(route, refuse(sidr::Status::NO_QP));
            return Ok(());
        };
        conversation.service = request.service;
        let id = CommId(conversation.id);
        let request = Box::new(*request);
        self.tell(&conversation, CmEvent::DatagramRequest { listener, id, route, request });
        self.keep_new(conversation, key, listener, mad);
        Ok(())
    }

    /// Whether a request with `key` is a new one, and which conversation had that key before: the peer
    /// has forgotten it. A repeated request gets the `answer` to what it began.
    fn expect_new(
        &mut self,
        key: &PeerKey,
        mad: &Mad,
        answer: impl FnOnce(&Conversation) -> Option<Mad>,
    ) -> Result<Option<u32>, Discard> {
        let known = self.by_peer.get(key).and_then(|id| self.conversations.get_mut(id));
        let Some(known) = known else { return Ok(None) };
        if known.first_transaction == mad.transaction {
            let (route, answer) = (known.route, answer(known));
            if let Some(answer) = known.again(answer)? {
                self.send(route, answer);
            }
            return Err(Discard::Duplicate);
        }
        Ok(Some(known.id))
    }

    /// A message of a conversation that exists or existed.
    pub(super) fn answered(
        &mut self,
        now: Time,
        arrival: &Arrival,
        mad: &Mad,
    ) -> Result<(), Discard> {
        let Some(mut conversation) = self.meant(arrival, &mad.message) else {
            match &mad.message {
                // So that the peer's conversation ends.
                Message::Dreq(brief::Dreq { local_id, remote_id, .. }) => {
                    self.send(back(arrival), drep(mad.transaction, *remote_id, *local_id));
                }
                Message::Rep(reply) => {
                    let rejection = rej(About::Rep, rej::Reason::INVALID_ID, reply.local_id);
                    let rejection = rej::Repr { local_id: reply.remote_id, ..rejection };
                    let mad = Mad::new(mad.transaction, Message::Rej(rejection));
                    self.send(back(arrival), mad);
                }
                _ => {}
            }
            return Err(Discard::Stray);
        };
        let known = &mut conversation;
        let result = match &mad.message {
            Message::Mra(message) => self.excused(now, known, message),
            Message::Rep(message) => self.replied(known, mad, message),
            Message::Rtu(_) => self.confirmed(known),
            Message::Rej(message) => self.rejected(now, known, mad, message),
            Message::Dreq(message) => self.released(now, known, mad, message),
            Message::Drep(_) => self.release_confirmed(now, known),
            Message::SidrRep(message) => self.told(now, known, message),
            Message::Req(_) | Message::SidrReq(_) => Err(Discard::Stray),
        };
        self.keep(conversation);
        result
    }

    /// Takes out the conversation that a message belongs to.
    fn meant(&mut self, arrival: &Arrival, message: &Message) -> Option<Conversation> {
        let (local, remote) = match message {
            Message::Mra(message) => (message.remote_id, Some(message.local_id)),
            Message::Rep(message) => (message.remote_id, Some(message.local_id)),
            Message::Rtu(message) => (message.remote_id, Some(message.local_id)),
            Message::Dreq(message) => (message.remote_id, Some(message.local_id)),
            Message::Drep(message) => (message.remote_id, Some(message.local_id)),
            Message::SidrRep(message) => (message.request_id, None),
            Message::Rej(message) if message.remote_id == 0 => {
                (self.taken_back(arrival, message)?, Some(message.local_id))
            }
            Message::Rej(message) => (message.remote_id, Some(message.local_id)),
            Message::Req(_) | Message::SidrReq(_) => return None,
        };
        let known = self.conversations.get(&local)?;
        let is_peer = known.route.destination == arrival.source;
        // Who refuses a request has no number yet.
        let fits = remote.is_none_or(|id| !known.knows_peer() || known.remote_id == id);
        let same_kind =
            matches!(message, Message::SidrRep(_)) == (known.state == State::SidrReqSent);
        if is_peer && fits && same_kind { self.take(local) } else { None }
    }

    /// The conversation that a REJ without our number is about: a peer that gives up before we answer
    /// does not know it, and names itself by its adapter's GUID (IBTA vol 1, 12.6.7).
    fn taken_back(&self, arrival: &Arrival, message: &rej::Repr) -> Option<u32> {
        let guid = message.info.first_chunk().map(|guid| u64::from_be_bytes(*guid))?;
        let key = (arrival.source, guid, message.local_id, false);
        let id = self.by_peer.get(&key)?;
        // Who uses a connection knows both numbers.
        self.conversations.get(id).filter(|known| !known.established).map(|known| known.id)
    }

    fn excused(
        &mut self,
        now: Time,
        conversation: &mut Conversation,
        message: &mra::Repr,
    ) -> Result<(), Discard> {
        let expected = match conversation.state {
            State::ReqSent | State::RepWait => About::Req,
            _ => About::Rep,
        };
        let moved = message.about == expected && conversation.step(Input::Mra).is_some();
        if moved {
            conversation.be_patient(now, message.service_timeout);
        }
        if moved { Ok(()) } else { Err(Discard::Stray) }
    }

    fn replied(
        &mut self,
        conversation: &mut Conversation,
        mad: &Mad,
        message: &rep::Repr,
    ) -> Result<(), Discard> {
        if conversation.step(Input::Rep).is_none() {
            // Our RTU or REJ was lost, or the application has not decided yet.
            let again = match conversation.state {
                State::RepReceived => Some(conversation.mra(About::Rep)),
                State::Established | State::TimeWait => conversation.last,
                _ => None,
            };
            // The passive side expects no REP.
            let again = conversation.again(again.filter(|_| conversation.listener.is_none()));
            if let Ok(Some(answer)) = again {
                self.send(conversation.route, answer);
            }
            return again.and(Err(Discard::Duplicate));
        }
        conversation.remote_id = message.local_id;
        conversation.remote_qpn = message.qpn;
        conversation.remote_guid = message.guid;
        let mtu = conversation.asked_mtu().unwrap_or(self.config.mtu);
        conversation.last = None;
        conversation.deadline = None;
        let (id, reply) = (CommId(conversation.id), Box::new(*message));
        self.tell(conversation, CmEvent::Reply { id, reply, options: mad.modifier, mtu });
        Ok(())
    }

    fn confirmed(&mut self, conversation: &mut Conversation) -> Result<(), Discard> {
        let moved = conversation.step(Input::Rtu).is_some();
        if moved {
            conversation.last = None;
            conversation.deadline = None;
            self.tell(conversation, CmEvent::Established(CommId(conversation.id)));
        }
        if moved { Ok(()) } else { Err(Discard::Duplicate) }
    }

    fn rejected(
        &mut self,
        now: Time,
        conversation: &mut Conversation,
        mad: &Mad,
        message: &rej::Repr,
    ) -> Result<(), Discard> {
        let id = CommId(conversation.id);
        if message.reason == rej::Reason::INVALID_SERVICE && conversation.asks_again(now) {
            return Ok(());
        }
        if message.reason == rej::Reason::INVALID_MTU {
            if conversation.has_asked_for_less_since(mad) {
                return Err(Discard::Duplicate);
            }
            if let Some(request) = conversation.asks_for_less(message) {
                conversation.transaction = self.transaction();
                let mad = Mad { transaction: conversation.transaction, ..request };
                conversation.say(now, mad);
                self.send(conversation.route, mad);
                return Ok(());
            }
        }
        if conversation.state.after(Input::Rej).is_none() {
            return Err(Discard::Stray);
        }
        self.leave_backlog(conversation);
        let waited = conversation.waits();
        match conversation.step(Input::Rej) {
            Some(State::Closed) => {
                let rejection = Box::new(*message);
                self.tell(conversation, CmEvent::Rejected { id, rejection });
                if conversation.listener.is_some() {
                    conversation.be_taken_back(now, waited);
                }
            }
            _ => self.disconnected(now, conversation),
        }
        Ok(())
    }

    /// A DREQ.
    fn released(
        &mut self,
        now: Time,
        conversation: &mut Conversation,
        mad: &Mad,
        message: &brief::Dreq,
    ) -> Result<(), Discard> {
        if message.remote_qpn != conversation.local_qpn {
            return Err(Discard::Stray);
        }
        let moved = conversation.step(Input::Dreq).is_some();
        let answers = moved || conversation.state == State::TimeWait;
        let answer = drep(mad.transaction, conversation.id, conversation.remote_id);
        let answer = conversation.again(answers.then_some(answer));
        if let Ok(Some(answer)) = answer {
            self.send(conversation.route, answer);
        }
        if moved {
            self.disconnected(now, conversation);
        }
        if moved { Ok(()) } else { answer.and(Err(Discard::Duplicate)) }
    }

    /// A DREP.
    fn release_confirmed(
        &mut self,
        now: Time,
        conversation: &mut Conversation,
    ) -> Result<(), Discard> {
        let moved = conversation.step(Input::Drep).is_some();
        if moved {
            self.disconnected(now, conversation);
        }
        if moved { Ok(()) } else { Err(Discard::Duplicate) }
    }

    /// The connection is released on both sides: nothing is repeated, and TIMEWAIT begins.
    fn disconnected(&mut self, now: Time, conversation: &mut Conversation) {
        conversation.last = None;
        conversation.begin_time_wait(now);
        self.tell(conversation, CmEvent::Disconnected(CommId(conversation.id)));
    }

    /// A SIDR_REP.
    fn told(
        &mut self,
        now: Time,
        conversation: &mut Conversation,
        message: &sidr::Rep,
    ) -> Result<(), Discard> {
        if message.status == sidr::Status::UNSUPPORTED && conversation.asks_again(now) {
            return Ok(());
        }
        let moved = conversation.step(Input::SidrRep).is_some();
        if moved {
            let (id, reply) = (CommId(conversation.id), Box::new(*message));
            self.tell(conversation, CmEvent::DatagramReply { id, reply });
        }
        if moved { Ok(()) } else { Err(Discard::Stray) }
    }
}

/// The route back to the sender of a datagram.
fn back(arrival: &Arrival) -> Route {
    Route {
        // The peer's congestion marks are not ours.
        traffic_class: arrival.traffic_class & !3,
        ..Route::between(arrival.destination, arrival.source)
    }
}
