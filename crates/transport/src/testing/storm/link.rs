//! A link as the oracle knows it: two ends, what is posted to each, and their memory windows.

use std::collections::VecDeque;
use std::vec::Vec;

use rdma::{Access, CompletionOpcode, Key, Mtu, Qpn, Time, completion::Attached};

use super::plan::LinkPlan;
use crate::{CqId, WindowKind};

/// A send request that has been posted and has not been seen to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) id: u64,
    pub(super) visible: bool,
    pub(super) opcode: Option<CompletionOpcode>,
    pub(super) length: u32,
    /// Whether the peer must have seen [`Message`] `id`.
    pub(super) is_message: bool,
    /// Whether target `id` of the peer's memory must have been written.
    pub(super) writes: bool,
    /// Whether target `id` of our own must have been.
    pub(super) reads: bool,
    /// Which of the peer's atomics it is.
    pub(super) atomic: Option<usize>,
    /// Overwritten when it is done: from then on the engine has no business there.
    pub(super) sources: Vec<(u64, u32)>,
    /// Its memory here, or there, has been deregistered.
    pub(super) local_gone: bool,
    pub(super) remote_gone: bool,
    /// It asks for what it must not get.
    pub(super) trespasses: bool,
    /// The window that it reaches the peer's memory through.
    pub(super) through: Option<WindowId>,
    /// What it does to a window here.
    pub(super) step: Option<Step>,
    /// It is a bind or an invalidation that must fail.
    pub(super) misbinds: bool,
    /// The READ whose target it sends.
    pub(super) borrows: Option<u64>,
    /// Its packets are of another size than the peer takes them for.
    pub(super) unfit: bool,
    /// It was posted to a send queue that had failed, and nobody has asked yet what became of it.
    pub(super) flushed: bool,
}

/// A send queue that is stopped, or being stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// Whether an event is to tell when it is drained.
    pub(super) notify: bool,
    /// Whether it has.
    pub(super) is_drained: bool,
}

/// A message that takes a receive of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) opcode: CompletionOpcode,
    pub(super) length: u32,
    pub(super) attached: Attached,
    pub(super) solicited: bool,
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct End {
    pub(super) node: usize,
    pub(super) qpn: Qpn,
    pub(super) sends: VecDeque<Sent>,
    pub(super) receives: VecDeque<u64>,
    /// What the peer has sent to here and has not arrived.
    pub(super) inbound: VecDeque<Message>,
    /// Targets here that the peer may write.
    pub(super) open_writes: Vec<u64>,
    /// Its own, for the peer to reach memory here.
    pub(super) windows: Vec<MemoryWindow>,
    /// A request has failed: from now on all are flushed.
    pub(super) failed: bool,
    /// The queue pair has been broken, or says that it is.
    pub(super) fatal: bool,
    /// Its completion queue, if not the node's; nobody looks at it until then; and it has lost a
    /// completion.
    pub(super) own_cq: Option<CqId>,
    pub(super) asleep: Option<Time>,
    pub(super) cq_lost: bool,
    /// UC and UD: the send queue alone has failed.
    pub(super) sqe: bool,
    pub(super) drain: Option<Drain>,
    /// It refused a request, and failed for no other reason.
    pub(super) refused: bool,
    /// It holds nothing, and nothing can be posted.
    pub(super) reset: bool,
    /// A receive lost its memory.
    pub(super) receive_gone: bool,
    /// The last receive that it took from the shared queue.
    pub(super) last_shared: u64,
    pub(super) psn: u32,
}

/// Two queue pairs.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) plan: LinkPlan,
    /// What each end takes for the MTU.
    pub(super) mtus: [Mtu; 2],
    pub(super) ends: [End; 2],
    /// What the network did to packets of it since it was connected.
    pub(super) incidents: u64,
    /// It is about to be connected anew.
    pub(super) mending: bool,
}

/// What the oracle has to know of the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Whether packets may arrive twice or out of order.
    pub(super) disorders: bool,
    /// Whether receives are posted late.
    pub(super) late_receives: bool,
    /// Whether the end that completes, or its peer, has failed while nobody looked at its queue.
    pub(super) own_gone: bool,
    pub(super) peer_gone: bool,
    /// Whether a link takes its time, so that an acknowledgement may be slower than a timeout.
    pub(super) paced: bool,
}

/// A window as its owner knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryWindow {
    pub(super) kind: WindowKind,
    /// The key that it has, or had last.
    pub(super) key: Key,
    pub(super) state: State,
    /// The key that it had before.
    pub(super) old: Option<Key>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It reaches nothing.
    Void,
    /// Request `.0`, which binds it, is not done.
    Binding(u64, Reach),
    Bound(Reach),
    /// Something is posted, here or by the peer, that ends it.
    Ending,
}

/// What a window reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reach {
    /// Where it begins: in memory, and as requests name it.
    pub(super) address: u64,
    pub(super) iova: u64,
    pub(super) length: u64,
    pub(super) access: Access,
    /// Bytes at its beginning that requests have had.
    pub(super) used: u64,
}

/// Which window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WindowId {
    pub(super) link: usize,
    pub(super) side: usize,
    pub(super) index: usize,
}

/// What a request of the owner does to a window of his when it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Bind(usize),
    End(usize),
}

impl MemoryWindow {
    /// Request `id` of the owner is done, which was to do `step`.
    pub(super) fn stepped(&mut self, id: u64, step: Step) {
        match (step, self.state) {
            (Step::Bind(_), State::Binding(by, reach)) if by == id => {
                self.state = State::Bound(reach);
            }
            (Step::End(_), State::Ending) => self.state = State::Void,
            _ => {}
        }
    }

    /// The key that it is to have next: the same index, another tag.
    pub(super) fn next_key(&self) -> Key {
        Key::from_parts(self.key.index(), self.key.tag().wrapping_add(1))
    }
}
