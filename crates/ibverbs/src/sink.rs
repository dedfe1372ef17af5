//! From the events of a NIC's engine, which carry numbers, to the program's objects, and to the queues
//! that the program reads.

use core::sync::atomic::AtomicUsize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rdma::Qpn;
use softnic::EventSink;
use transport::cm::CmEvent;
use transport::{CqId, Event, SrqId};

use crate::connections::Connections;
use crate::errno::Errno;
use crate::event::{Acks, EventQueue};
use crate::sync::lock;

/// A completion event: which queue, by its handle's address.
#[derive(Debug)]
pub(crate) struct CompletionEvent {
    pub(crate) cq: usize,
    pub(crate) acks: Arc<Acks>,
}

/// An asynchronous event: what happened to which object.
#[derive(Debug)]
pub(crate) struct AsyncEvent {
    pub(crate) kind: u32,
    pub(crate) object: usize,
    pub(crate) acks: Arc<Acks>,
}

/// What the sink must know of an object. It holds no reference to the object itself, so that the
/// progress thread never drops the last one.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    handle: usize,
    acks: Arc<Acks>,
    /// That of the object's context.
    queue: Arc<EventQueue<AsyncEvent>>,
}

/// What the sink must know of a completion queue.
#[derive(Debug)]
pub(crate) struct CqTarget {
    pub(crate) target: Target,
    pub(crate) completions: Option<(Arc<EventQueue<CompletionEvent>>, Arc<Acks>)>,
}

/// The objects behind the numbers of a NIC's engine.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    cqs: BTreeMap<CqId, CqTarget>,
    /// An XRC target may have several handles.
    qps: BTreeMap<Qpn, Vec<Target>>,
    srqs: BTreeMap<SrqId, Target>,
}

/// The events of one context: its asynchronous queue, and the objects behind the engine's numbers,
/// which all contexts of a NIC share.
///
/// Objects enter and leave inside the call that makes or destroys them in the engine, under the
/// engine's lock, so that a number is never looked up while it means two objects.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) queue: Arc<EventQueue<AsyncEvent>>,
    /// The ids behind the connection manager's numbers.
    pub(crate) connections: Arc<Connections>,
    /// How many completion channels the contexts of the NIC have.
    pub(crate) channels: Arc<AtomicUsize>,
    targets: Arc<Mutex<Targets>>,
}

impl Events {
    pub(crate) fn new() -> Result<Self, Errno> {
        let queue = Arc::new(EventQueue::new()?);
        let (connections, channels) = (Arc::default(), Arc::default());
        Ok(Self { queue, connections, channels, targets: Arc::default() })
    }

    /// The events of another context of the same NIC.
    pub(crate) fn beside(&self) -> Result<Self, Errno> {
        let (connections, channels) = (Arc::clone(&self.connections), Arc::clone(&self.channels));
        let targets = Arc::clone(&self.targets);
        Ok(Self { queue: Arc::new(EventQueue::new()?), connections, channels, targets })
    }

    /// What the NIC calls.
    pub(crate) fn sink(&self) -> Sink {
        Sink { targets: Arc::clone(&self.targets), connections: Arc::clone(&self.connections) }
    }

    /// An object of this context.
    pub(crate) fn target(&self, handle: usize, acks: &Arc<Acks>) -> Target {
        Target { handle, acks: Arc::clone(acks), queue: Arc::clone(&self.queue) }
    }

    pub(crate) fn add_cq(&self, id: CqId, target: CqTarget) {
        lock(&self.targets).cqs.insert(id, target);
    }

    pub(crate) fn add_qp(&self, qpn: Qpn, target: Target) {
        lock(&self.targets).qps.entry(qpn).or_default().push(target);
    }

    pub(crate) fn add_srq(&self, id: SrqId, target: Target) {
        lock(&self.targets).srqs.insert(id, target);
    }

    pub(crate) fn remove_cq(&self, id: CqId) {
        lock(&self.targets).cqs.remove(&id);
    }

    /// Returns whether the handle was known.
    pub(crate) fn remove_qp(&self, qpn: Qpn, handle: usize) -> bool {
        let mut targets = lock(&self.targets);
        let Some(handles) = targets.qps.get_mut(&qpn) else { return false };
        let before = handles.len();
        handles.retain(|target| target.handle != handle);
        let known = handles.len() < before;
        if handles.is_empty() {
            targets.qps.remove(&qpn);
        }
        known
    }

    pub(crate) fn remove_srq(&self, id: SrqId) {
        lock(&self.targets).srqs.remove(&id);
    }

    /// Withdraws the events that wait for `handle`.
    pub(crate) fn withdraw(&self, handle: usize) {
        self.queue.withdraw(|event| event.object == handle);
    }
}

fn raise<'a>(kind: u32, targets: impl IntoIterator<Item = &'a Target>) {
    for Target { handle, acks, queue } in targets {
        queue.push(AsyncEvent { kind, object: *handle, acks: Arc::clone(acks) });
    }
}

/// What the NIC calls.
#[derive(Debug)]
pub(crate) struct Sink {
    targets: Arc<Mutex<Targets>>,
    connections: Arc<Connections>,
}

impl EventSink for Sink {
    fn event(&self, event: Event) {
        let targets = lock(&self.targets);
        let (kind, qpn) = match event {
            Event::CompletionNotify(id) => {
                if let Some(CqTarget { target, completions: Some((queue, acks)) }) =
                    targets.cqs.get(&id)
                {
                    queue.push(CompletionEvent { cq: target.handle, acks: Arc::clone(acks) });
                }
                return;
            }
            Event::CqError(id) => {
                let cq = targets.cqs.get(&id).map(|cq| &cq.target);
                return raise(abi::IBV_EVENT_CQ_ERR, cq);
            }
            Event::SrqLimitReached(id) => {
                return raise(abi::IBV_EVENT_SRQ_LIMIT_REACHED, targets.srqs.get(&id));
            }
            // The NIC has said why; programs hear of what the specification has.
            Event::QpFailed(_) => return,
            Event::QpFatal(qpn) => (abi::IBV_EVENT_QP_FATAL, qpn),
            Event::QpRequestError(qpn) => (abi::IBV_EVENT_QP_REQ_ERR, qpn),
            Event::QpAccessError(qpn) => (abi::IBV_EVENT_QP_ACCESS_ERR, qpn),
            Event::CommunicationEstablished(qpn) => (abi::IBV_EVENT_COMM_EST, qpn),
            Event::SqDrained(qpn) => (abi::IBV_EVENT_SQ_DRAINED, qpn),
            Event::LastWqeReached(qpn) => (abi::IBV_EVENT_QP_LAST_WQE_REACHED, qpn),
        };
        raise(kind, targets.qps.get(&qpn).into_iter().flatten());
    }

    fn connection(&self, event: CmEvent) {
        self.connections.deliver(event);
    }
}
