//! From the connection manager to the ids: which id an event is for.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use transport::cm::{CmEvent, CommId, ListenerId};

use crate::event::EventQueue;
use crate::sync::lock;

/// Events that wait in a channel.
pub(crate) type Queue = EventQueue<Raw>;

/// Where the events of an id go: to the queue of the channel that it has now.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// The id's handle; 0 until the program has fetched the event that brings the id.
    id: AtomicUsize,
    queue: Mutex<Arc<Queue>>,
}

/// An event that waits to be fetched.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum What {
    /// An event without a peer: its number, and an error number or 0.
    Local(u32, i32),
    /// The program's own event, with its status and its word.
    User(i32, u64),
    /// A multicast group was joined, by the number of the membership; or an error number.
    Joined(u64, i32),
    /// A request to a listener; the mailbox is that of the id to come.
    Asked(CmEvent, Arc<Mailbox>),
    /// A message of a conversation, or its absence.
    Said(CmEvent),
}

impl Mailbox {
    pub(crate) fn new(queue: Arc<Queue>) -> Arc<Self> {
        Arc::new(Self { id: AtomicUsize::new(0), queue: Mutex::new(queue) })
    }

    pub(crate) fn id(&self) -> usize {
        self.id.load(Ordering::Acquire)
    }

    pub(crate) fn set_id(&self, id: usize) {
        self.id.store(id, Ordering::Release);
    }

    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&lock(&self.queue))
    }

    /// Moves the id's events from the old queue to `queue`.
    pub(crate) fn move_to(self: &Arc<Self>, queue: Arc<Queue>) {
        // New events wait for the mailbox's lock meanwhile.
        let mut current = lock(&self.queue);
        for raw in current.take(|raw| Arc::ptr_eq(&raw.mailbox, self)) {
            queue.push(raw);
        }
        *current = queue;
    }

    pub(crate) fn post(self: &Arc<Self>, what: What) {
        let queue = lock(&self.queue);
        queue.push(Raw { mailbox: Arc::clone(self), what });
    }
}

#[derive(Debug, Default)]
struct Table {
    listeners: BTreeMap<ListenerId, Arc<Mailbox>>,
    conversations: BTreeMap<CommId, Arc<Mailbox>>,
}

/// The ids behind the numbers of one device's connection manager.
///
/// As with the engine's objects, a conversation is entered inside the call that begins it, under the
/// NIC's lock.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Table>);

impl Connections {
    pub(crate) fn listen(&self, listener: ListenerId, mailbox: &Arc<Mailbox>) {
        lock(&self.0).listeners.insert(listener, Arc::clone(mailbox));
    }

    pub(crate) fn unlisten(&self, listener: ListenerId) {
        lock(&self.0).listeners.remove(&listener);
    }

    pub(crate) fn begin(&self, conversation: CommId, mailbox: &Arc<Mailbox>) {
        lock(&self.0).conversations.insert(conversation, Arc::clone(mailbox));
    }

    pub(crate) fn end(&self, conversation: CommId) {
        lock(&self.0).conversations.remove(&conversation);
    }

    /// What the sink calls, under the NIC's lock.
    pub(crate) fn deliver(&self, event: CmEvent) {
        let mut table = lock(&self.0);
        let conversation = event.conversation();
        match &event {
            CmEvent::Request { listener, .. } | CmEvent::DatagramRequest { listener, .. } => {
                // A listener leaves this table and the manager in one call.
                let Some(mailbox) = table.listeners.get(listener).cloned() else { return };
                let fresh = Mailbox::new(mailbox.queue());
                table.conversations.insert(conversation, Arc::clone(&fresh));
                mailbox.post(What::Asked(event, fresh));
            }
            last if is_last(last) => {
                // The number is free from now on.
                if let Some(mailbox) = table.conversations.remove(&conversation) {
                    mailbox.post(What::Said(event));
                }
            }
            _ => {
                if let Some(mailbox) = table.conversations.get(&conversation) {
                    mailbox.post(What::Said(event));
                }
            }
        }
    }
}

/// Whether an event says that the conversation's number is free.
pub(crate) fn is_last(event: &CmEvent) -> bool {
    matches!(
        event,
        CmEvent::Rejected { .. }
            | CmEvent::Unreachable(_)
            | CmEvent::Closed(_)
            | CmEvent::DatagramReply { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arc<Queue> {
        let queue = Queue::new().unwrap();
        // SAFETY: a plain system call on our descriptor.
        unsafe { libc::fcntl(queue.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Arc::new(queue)
    }

    #[test]
    fn the_events_of_an_id_follow_it_to_another_channel() {
        let (old, new) = (queue(), queue());
        let (mine, other) = (Mailbox::new(Arc::clone(&old)), Mailbox::new(Arc::clone(&old)));
        mine.post(What::Local(1, 0));
        other.post(What::Local(2, 0));
        mine.post(What::Local(3, 0));
        mine.move_to(Arc::clone(&new));
        mine.post(What::Local(4, 0));
        let numbers = |queue: &Queue| {
            let all = core::iter::from_fn(|| queue.pop().ok());
            let numbers = all.map(|raw| match raw.what {
                What::Local(number, _) => number,
                _ => panic!("nobody has said anything"),
            });
            numbers.collect::<Vec<_>>()
        };
        assert_eq!((numbers(&old), numbers(&new)), (vec![2], vec![1, 3, 4]));
    }

    #[test]
    fn who_has_left_is_told_nothing() {
        let (queue, connections) = (queue(), Connections::default());
        let mailbox = Mailbox::new(Arc::clone(&queue));
        connections.begin(CommId(1), &mailbox);
        connections.begin(CommId(2), &mailbox);
        connections.end(CommId(1));
        connections.deliver(CmEvent::Established(CommId(1)));
        assert!(queue.pop().is_err());
        connections.deliver(CmEvent::Unreachable(CommId(2)));
        connections.deliver(CmEvent::Disconnected(CommId(2)));
        assert!(matches!(queue.pop().unwrap().what, What::Said(CmEvent::Unreachable(CommId(2)))));
        assert!(queue.pop().is_err(), "the number was free");
    }
}
