//! A connection: its queue pair, its memory, and what both sides have told each other.
//!
//! ```text
//!   program ── copy ──► ring ── WRITE with immediate data ──► inbox of the peer ── copy ──► program
//!                                                               list of the peer: where to write next
//! ```
//!
//! Nothing here waits. [`Stream::look`] takes what has happened, and whoever waits calls it again.

use core::ptr;
use std::sync::Arc;

use rdma::completion::Attached;
use rdma::{
    Access, Completion, CompletionStatus, Key, Operation, Qpn, RecvRequest, SendFlags, Sge,
    WorkRequest,
};
use transport::{Notify, PdId};

use super::super::id::CmId;
use super::super::queue_pair;
use super::buffer::Buffer;
use super::greeting::{Greeting, Place};
use super::maps::{Maps, WRITABLE};
use super::message::Message;
use super::pieces::Pieces;
use super::receiving::Receiving;
use super::sending::{PLACES, Sending, Sent};
use super::settings::Sizes;
use crate::channel::{self, Channel};
use crate::context::Context;
use crate::cq::{self, Cq, Spec};
use crate::errno::Errno;
use crate::pd::Pd;
use crate::qp::Qp;
use crate::registry::{self, Object};
use crate::request::Inline;
use abi::{IBV_QPT_RC, Plain, ibv_cq_ex, ibv_qp_cap, ibv_qp_init_attr};

/// Completions that are taken at once.
const BATCH: usize = 32;
/// Marks the number of a receive request.
const RECEIVE: u64 = 1 << 63;
/// The longest message of the library's own, an entry of a table of maps.
const OWN_BYTES_MAX: u32 = 24;
/// How a connection has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// One side has said so.
    Closed,
    /// By this error.
    Failed(i32),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) context: Arc<Context>,
    qpn: Qpn,
    pub(super) pd: PdId,
    cq: Arc<Cq>,
    channel: Arc<Channel>,
    /// What is being sent, what was received, and what the peer has told of its memory.
    ring: Buffer,
    inbox: Buffer,
    list: Buffer,
    /// Up to here data goes inline.
    inline: usize,
    credits: u16,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    /// What the peer has said of itself.
    peer: Option<Greeting>,
    /// Whether the peer's queue pair is ready: before, what is sent to it is lost.
    is_established: bool,
    /// The entry of the peer's list that is written next.
    next_entry: u32,
    pub(super) maps: Maps,
    /// Whether the peer may still send, and whether we may.
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) end: Option<End>,
    /// Whether the next completion is an event.
    armed: bool,
}

impl Stream {
    /// What a connection of `id` is made of: the queue pair that it shows, ready for the greeting.
    pub(super) fn new(id: &CmId, sizes: &Sizes) -> Result<Self, Errno> {
        let shown = id.shown();
        let context = registry::find::<Context>(shown.verbs)?;
        let pd = registry::find::<Pd>(shown.pd)?.id;
        let channel = channel::create(&context)?;
        let made = Self::with_channel(id, sizes, (context, pd), &channel);
        if made.is_err() {
            queue_pair::destroy(id);
            registry::remove(&*channel);
        }
        made
    }

    fn with_channel(
        id: &CmId,
        sizes: &Sizes,
        (context, pd): (Arc<Context>, PdId),
        channel: &Arc<Channel>,
    ) -> Result<Self, Errno> {
        let spec = Spec {
            cqe: u32::from(sizes.send_queue) + u32::from(sizes.receive_queue),
            cq_context: ptr::null_mut(),
            channel: Some(Arc::clone(channel)),
            comp_vector: 0,
            single_threaded: false,
        };
        let cq = cq::create(&context, spec, ibv_cq_ex::zeroed())?;
        let made = (|| {
            let qpn = make_queue_pair(id, sizes, &cq)?;
            let ring = Buffer::new(&context, pd, sizes.send_bytes, Access::LOCAL_WRITE)?;
            let inbox = Buffer::new(&context, pd, sizes.receive_bytes, WRITABLE)?;
            let table = PLACES * Place::LEN + usize::from(sizes.maps) * Maps::ENTRY_LEN;
            let list = Buffer::new(&context, pd, table, WRITABLE)?;
            let mut stream = Self {
                context,
                qpn,
                pd,
                cq: Arc::clone(&cq),
                channel: Arc::clone(channel),
                ring,
                inbox,
                list,
                inline: sizes.inline as usize,
                credits: sizes.receive_queue,
                sending: Sending::new(sizes.send_bytes, sizes.send_queue),
                receiving: Receiving::new(sizes.receive_bytes, sizes.receive_queue),
                peer: None,
                is_established: false,
                next_entry: 0,
                maps: Maps::new(sizes.maps),
                readable: true,
                writable: true,
                end: None,
                armed: false,
            };
            stream.post_receives(sizes.receive_queue.into())?;
            Ok(stream)
        })();
        if made.is_err() {
            queue_pair::destroy(id);
            // Nobody else knows it.
            let _ = cq::destroy(&cq);
        }
        made
    }

    /// What this side says of itself.
    pub(super) fn greeting(&self) -> Greeting {
        let half = self.inbox_half();
        Greeting {
            big_endian: cfg!(target_endian = "big"),
            credits: self.credits,
            maps: self.maps.offered(),
            list: Place {
                address: self.list.address(),
                key: self.list.key.0,
                length: PLACES as u32,
            },
            buffer: Place { address: self.inbox.address(), key: self.inbox.key.0, length: half },
        }
    }

    fn inbox_half(&self) -> u32 {
        (self.receiving.size() / 2) as u32
    }

    /// The peer has said who it is.
    pub(super) fn greet(&mut self, peer: Greeting) {
        self.sending.allow(peer.credits);
        self.sending.offer(0, peer.buffer);
        // The first entry came with the greeting.
        self.next_entry = 1 % peer.list.length.max(1);
        self.peer = Some(peer);
    }

    /// From now on both may send.
    pub(super) fn establish(&mut self) {
        self.is_established = true;
        self.look();
    }

    pub(super) fn peer(&self) -> Option<&Greeting> {
        self.peer.as_ref()
    }

    pub(super) fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// Neither side sends any more, but what has arrived can be read.
    pub(super) fn close(&mut self) {
        self.finish(End::Closed);
    }

    pub(super) fn fail(&mut self, error: i32) {
        self.finish(End::Failed(error));
    }

    fn finish(&mut self, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
        }
        (self.readable, self.writable) = (false, false);
    }

    /// The descriptor that is readable when an armed stream should look.
    pub(super) fn descriptor(&self) -> i32 {
        self.channel.queue.fd()
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Has the next completion make the descriptor readable, and says whether that worked.
    pub(super) fn arm(&mut self) -> bool {
        if !self.armed {
            let id = self.cq.id;
            let armed = self.context.nic.with(|endpoint, _, _| endpoint.arm_cq(id, Notify::Next));
            self.armed = armed.is_ok();
        }
        self.armed
    }

    /// Takes what has happened, answers what is to be answered, and says whether there was anything.
    pub(super) fn look(&mut self) -> bool {
        while !self.channel.queue.is_empty() {
            self.armed = false;
            if self.channel.queue.pop().is_err() {
                break;
            }
        }
        let mut found = [Completion::NOTHING; BATCH];
        let (mut has_changed, mut received) = (false, 0);
        loop {
            let count = self.context.nic.poll_cq(self.cq.id, &mut found);
            for completion in &found[..count] {
                received += usize::from(self.completed(completion));
            }
            has_changed |= count > 0;
            if count < BATCH {
                break;
            }
        }
        if received > 0
            && self.is_open()
            && let Err(error) = self.post_receives(received)
        {
            self.fail(error.number);
        }
        self.grant();
        has_changed
    }

    /// What a completion means, and whether a receive request is used up.
    fn completed(&mut self, completion: &Completion) -> bool {
        let is_done = completion.status == CompletionStatus::Success;
        if completion.id & RECEIVE != 0 {
            match completion.attached {
                // Receives end only with their queue pair.
                _ if !is_done => self.fail(libc::ECONNRESET),
                Attached::Immediate(bytes) => self.heard(Message::parse(bytes)),
                Attached::None | Attached::Invalidated(_) => {}
            }
            return is_done;
        }
        let sent = Sent::of(completion.id);
        self.sending.done(sent);
        match completion.status {
            CompletionStatus::Success if sent == Sent::Disconnect => self.close(),
            CompletionStatus::Success => {}
            CompletionStatus::RetryExceeded => self.fail(libc::ETIMEDOUT),
            _ => self.fail(libc::ECONNRESET),
        }
        false
    }

    fn heard(&mut self, message: Message) {
        match message {
            Message::Data(bytes) => {
                if self.receiving.arrived(bytes).is_err() {
                    tracing::warn!("rsocket: the peer has written {bytes} bytes without leave");
                    self.fail(libc::ECONNRESET);
                }
            }
            Message::Credit(credit) => {
                self.sending.allow(credit);
                self.read_list();
            }
            Message::Map(index) => {
                // It took a credit.
                self.receiving.spend();
                self.read_map(index);
            }
            Message::Disconnect => self.close(),
            Message::Shutdown if self.writable => self.readable = false,
            Message::Shutdown => self.close(),
            Message::KeepAlive | Message::Unknown => {}
        }
    }

    /// Takes the places that the peer has offered out of the list.
    fn read_list(&mut self) {
        let (list, sending) = (&self.list, &mut self.sending);
        // Under the device's lock, so that no entry is half written.
        self.context.nic.with(|_, _, _| {
            for index in 0..PLACES {
                let at = index * Place::LEN;
                let place = Place::of_memory(list.bytes(at));
                if place.length > 0 {
                    list.clear::<{ Place::LEN }>(at);
                    sending.offer(index, place);
                }
            }
        });
    }

    fn read_map(&mut self, index: u16) {
        if index >= self.maps.offered() {
            return;
        }
        let at = PLACES * Place::LEN + usize::from(index) * Maps::ENTRY_LEN;
        let list = &self.list;
        let entry = self.context.nic.with(|_, _, _| list.bytes(at));
        self.maps.hear(index, entry);
    }

    fn post_receives(&mut self, count: usize) -> Result<(), Errno> {
        let qpn = self.qpn;
        self.context.nic.with(|endpoint, _, _| {
            for _ in 0..count {
                endpoint.post_recv(qpn, &RecvRequest { id: RECEIVE, sges: &[] })?;
            }
            Ok(())
        })
    }

    /// Tells the peer what it may send, where that is due.
    fn grant(&mut self) {
        while let Some(peer) = self.peer
            && self.is_established
            && self.is_open()
            && self.receiving.owes_grant()
            && self.sending.may_control()
        {
            let grant = self.receiving.grant();
            let message = Message::Credit(grant.credit);
            self.sending.take_control();
            let Some((at, length)) = grant.place else {
                self.post(Sent::Control, write(0, 0, Some(message)), &[], None);
                continue;
            };
            let address = self.inbox.address() + at as u64;
            let place = Place { address, key: self.inbox.key.0, length: length as u32 };
            let bytes = place.in_memory(peer.big_endian);
            let entry = u64::from(self.next_entry) * Place::LEN as u64;
            self.next_entry = (self.next_entry + 1) % peer.list.length.max(1);
            let target = peer.list.address.wrapping_add(entry);
            let operation = write(target, peer.list.key, Some(message));
            self.post(Sent::Control, operation, &[], Some(&bytes));
        }
    }

    /// Sends a message without data, for which there is a request.
    pub(super) fn tell(&mut self, message: Message) {
        self.sending.take_control();
        let is_last = message == Message::Disconnect;
        let sent = if is_last { Sent::Disconnect } else { Sent::Control };
        self.post(sent, write(0, 0, Some(message)), &[], None);
    }

    /// Tells the peer of a map, if there is a credit for that.
    pub(super) fn tell_of_map(&mut self) -> bool {
        let Some(peer) = self.peer else { return false };
        if !self.sending.may_tell() {
            return false;
        }
        let Some((index, entry)) = self.maps.next_untold(peer.big_endian) else { return false };
        self.sending.take_credit();
        self.sending.take_room(0);
        let table = u64::from(peer.list.length) * Place::LEN as u64;
        let at = table + u64::from(index) * Maps::ENTRY_LEN as u64;
        let operation =
            write(peer.list.address.wrapping_add(at), peer.list.key, Some(Message::Map(index)));
        self.post(Sent::Bytes(0), operation, &[], Some(&entry));
        true
    }

    /// Sends one message of `most` bytes at most, and says how long it is; 0 if it has to wait.
    ///
    /// # Safety
    /// The program's bytes are readable.
    pub(super) unsafe fn send(&mut self, pieces: &mut Pieces<'_>, most: usize) -> usize {
        let length = self.sending.room().min(pieces.left()).min(most);
        if length > 0 {
            let place = self.sending.take_place(length);
            let message = Message::Data(length as u32);
            let operation = write(place.address, place.key, Some(message));
            // SAFETY: the caller vouches for it.
            unsafe { self.carry(pieces, length, operation) };
        }
        length
    }

    /// Writes to a map of the peer `most` bytes at most, and says how many; 0 if it has to wait.
    ///
    /// # Safety
    /// The program's bytes are readable.
    pub(super) unsafe fn send_to(
        &mut self,
        pieces: &mut Pieces<'_>,
        most: usize,
        place: Place,
    ) -> usize {
        let room = self.sending.room_beside();
        let length = room.min(pieces.left()).min(most).min(place.length as usize);
        if length > 0 {
            let operation = write(place.address, place.key, None);
            // SAFETY: the caller vouches for it.
            unsafe { self.carry(pieces, length, operation) };
        }
        length
    }

    /// # Safety
    /// The program's bytes are readable.
    unsafe fn carry(&mut self, pieces: &mut Pieces<'_>, length: usize, operation: Operation) {
        if length <= self.inline {
            let mut bytes = Inline::new();
            pieces.take(length, |from, length| {
                // SAFETY: the caller vouches for it.
                bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(from, length) });
            });
            self.sending.take_room(0);
            self.post(Sent::Bytes(0), operation, &[], Some(&bytes));
            return;
        }
        let stretches = self.sending.take_room(length);
        for (mut at, length) in stretches {
            pieces.take(length, |from, length| {
                // SAFETY: the caller vouches for it.
                unsafe { self.ring.put(at, from, length) };
                at += length;
            });
        }
        let sges = self.ring.pieces(stretches);
        let count = if sges[1].length > 0 { 2 } else { 1 };
        self.post(Sent::Bytes(length as u32), operation, &sges[..count], None);
    }

    /// Copies what has arrived to the program, and says how much.
    ///
    /// # Safety
    /// The program's memory is writable.
    pub(super) unsafe fn receive(&mut self, pieces: &mut Pieces<'_>, peeks: bool) -> usize {
        let (stretches, length) = self.receiving.next(pieces.left());
        for (mut at, length) in stretches {
            pieces.take(length, |to, length| {
                // SAFETY: the caller vouches for it.
                unsafe { self.inbox.get(at, to, length) };
                at += length;
            });
        }
        if !peeks {
            self.receiving.consume(length);
            self.grant();
        }
        length
    }

    fn post(&mut self, sent: Sent, operation: Operation, sges: &[Sge], inline: Option<&[u8]>) {
        let flags = if inline.is_some() { SendFlags::INLINE } else { SendFlags::NONE };
        let request = WorkRequest { id: sent.id(), operation, flags, sges, inline };
        let qpn = self.qpn;
        let posted =
            self.context.nic.post(qpn, |endpoint, _, now| endpoint.post_send(now, qpn, &request));
        if let Err(error) = posted {
            self.fail(Errno::from(error).number);
        }
    }

    /// Ends the queue pair of `id`, and then what it used.
    pub(super) fn destroy(self, id: &CmId) {
        queue_pair::destroy(id);
        let Self { cq, channel, ring, inbox, list, maps, context, .. } = self;
        maps.forget(&context);
        drop((ring, inbox, list));
        // Nobody else knows them.
        let _ = cq::destroy(&cq);
        drop(cq);
        registry::remove(&*channel);
    }
}

fn write(remote_address: u64, r_key: u32, message: Option<Message>) -> Operation {
    Operation::Write { remote_address, r_key: Key(r_key), immediate: message.map(Message::emit) }
}

fn make_queue_pair(id: &CmId, sizes: &Sizes, cq: &Arc<Cq>) -> Result<Qpn, Errno> {
    let mut attr = ibv_qp_init_attr {
        send_cq: cq.c(),
        recv_cq: cq.c(),
        cap: ibv_qp_cap {
            max_send_wr: sizes.send_queue.into(),
            max_recv_wr: sizes.receive_queue.into(),
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_data: sizes.inline.max(OWN_BYTES_MAX),
        },
        qp_type: IBV_QPT_RC,
        sq_sig_all: 1,
        ..ibv_qp_init_attr::zeroed()
    };
    queue_pair::create(id, ptr::null_mut(), &mut attr)?;
    Ok(registry::find::<Qp>(id.shown().qp)?.qpn)
}
