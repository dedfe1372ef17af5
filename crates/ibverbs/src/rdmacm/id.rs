//! An id, and what is known of both sides.

use core::ffi::c_void;
use core::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use rdma::{Gid, Psn, Qpn};
use softnic::PortChange;
use transport::Route;
use transport::cm::{CommId, ListenerId};
use wire::cm::ip::{self, PortSpace};

use super::abi::{rdma_cm_id, rdma_event_channel};
use super::addresses;
use super::channel::EventChannel;
use super::conversation::forget;
use super::devices::{self, Place};
use crate::connections::{Mailbox, What};
use crate::context::Context;
use crate::errno::Errno;
use crate::event::Acks;
use crate::port::PORT;
use crate::registry::{Object, Shared, object};
use crate::sync::lock;
use abi::{IBV_QPT_RC, IBV_QPT_UD, Plain, ibv_qp_init_attr};

/// The local ACK timeout of queue pairs whose program names none.
const LOCAL_ACK_TIMEOUT: u8 = 14;

/// An id.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CmId {
    c: Shared<rdma_cm_id>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) acks: Arc<Acks>,
    inner: Mutex<Inner>,
}

/// What an id knows.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) space: PortSpace,
    /// The channel of a synchronous id, which is its own.
    pub(super) own_channel: Option<Arc<EventChannel>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// Where the port was taken.
    pub(super) ports: Vec<Place>,
    pub(super) listeners: Vec<(Arc<Context>, ListenerId)>,
    pub(super) context: Option<Arc<Context>>,
    pub(super) conversation: Option<CommId>,
    /// Whether the peer has begun the conversation.
    pub(super) passive: bool,
    /// Retries of our queue pair, where we have asked for the connection.
    pub(super) retry_count: u8,
    /// The PSN that the peer's queue pair is to begin with.
    pub(super) psn: Psn,
    /// What is known of the other side.
    pub(super) peer: Option<Peer>,
    pub(super) settings: Settings,
    /// What a listener's new ids get.
    pub(super) template: Option<Template>,
    /// Options of enhanced connection establishment: vendor and options, ours and the peer's.
    pub(super) ece: [Option<(u32, u32)>; 2],
    /// The multicast groups, the newest last.
    pub(super) memberships: Vec<Membership>,
}

/// A group that an id has joined, or is only to send to.
#[derive(Debug)]
pub(super) struct Membership {
    /// Tells it from others in an event.
    pub(super) number: u64,
    pub(super) address: IpAddr,
    pub(super) group: Gid,
    /// The program's own word, which events bring back.
    pub(super) context: usize,
    pub(super) sends_only: bool,
    /// Where the group was joined, if it was.
    pub(super) joined: Option<Arc<Context>>,
    /// The queue pair that was attached.
    pub(super) attached: Option<Qpn>,
}

impl Inner {
    /// The device and the conversation.
    pub(super) fn connection(&self) -> Result<(Arc<Context>, CommId), Errno> {
        let (context, conversation) = (self.context.clone().zip(self.conversation))
            .ok_or(Errno::invalid("the id has no connection"))?;
        context.check_process()?;
        Ok((context, conversation))
    }

    /// Our address, and the peer's.
    fn ends(&self) -> Result<(SocketAddr, SocketAddr), Errno> {
        self.local.zip(self.remote).ok_or(Errno::invalid("the id has no two addresses"))
    }

    /// The path of messages to the peer.
    pub(super) fn route(&self) -> Result<Route, Errno> {
        let (local, remote) = self.ends()?;
        Ok(Route {
            traffic_class: self.settings.traffic_class,
            ..Route::between(local.ip().into(), remote.ip().into())
        })
    }

    /// The header in front of the private data of a request.
    pub(super) fn addresses(&self) -> Result<ip::Repr, Errno> {
        let (local, remote) = self.ends()?;
        Ok(ip::Repr { port: local.port(), source: local.ip(), destination: remote.ip() })
    }

    /// The GID of our end.
    pub(super) fn local_gid(&self) -> Result<Gid, Errno> {
        self.local.map(|local| local.ip().into()).ok_or(Errno::invalid("the id has no address"))
    }

    /// The timeout of our queue pairs.
    pub(super) fn ack_timeout(&self) -> u8 {
        self.settings.ack_timeout.unwrap_or(LOCAL_ACK_TIMEOUT)
    }
}

/// The peer's side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    pub(super) qpn: Qpn,
    /// What our queue pair is to begin with.
    pub(super) psn: Psn,
    /// Path MTU, by its code.
    pub(super) mtu: u8,
    /// READs and atomics that we answer at once, and that we may ask for.
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
}

/// What `rdma_set_option` sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Settings {
    pub(super) traffic_class: u8,
    pub(super) reuse_address: bool,
    pub(super) ack_timeout: Option<u8>,
    /// An IPv6 wildcard does not stand for IPv4.
    pub(super) one_family: bool,
}

/// What `rdma_create_ep` was given for a listener.
#[derive(Clone, Copy)]
pub(super) struct Template {
    pub(super) pd: *mut abi::ibv_pd,
    pub(super) attr: ibv_qp_init_attr,
}

// SAFETY: the pointers are handles, which are looked up before they are followed.
unsafe impl Send for Template {}

impl core::fmt::Debug for Template {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Template").field("pd", &self.pd).finish_non_exhaustive()
    }
}

object!(CmId, rdma_cm_id);

impl CmId {
    /// An id whose events go to `mailbox`.
    pub(super) fn new(
        mailbox: Arc<Mailbox>,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        space: PortSpace,
    ) -> Arc<Self> {
        let mut c = rdma_cm_id::zeroed();
        c.channel = channel;
        c.context = context;
        c.ps = space.0.into();
        c.qp_type = if space == PortSpace::UDP || space == PortSpace::IPOIB {
            IBV_QPT_UD
        } else {
            IBV_QPT_RC
        };
        let inner = Inner {
            space,
            own_channel: None,
            local: None,
            remote: None,
            ports: Vec::new(),
            listeners: Vec::new(),
            context: None,
            conversation: None,
            passive: false,
            retry_count: 7,
            psn: Psn::new(random()),
            peer: None,
            settings: Settings::default(),
            template: None,
            ece: [None; 2],
            memberships: Vec::new(),
        };
        let acks = Arc::<Acks>::default();
        let id = Arc::new(Self { c: Shared::new(c), mailbox, acks, inner: Mutex::new(inner) });
        id.mailbox.set_id(id.c().expose_provenance());
        id
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// What C reads of it.
    pub(super) fn shown(&self) -> rdma_cm_id {
        // SAFETY: a structure of plain data that we own; C writes to it between calls only.
        unsafe { *self.c.get() }
    }

    /// Changes what C reads of it.
    pub(super) fn show(&self, change: impl FnOnce(&mut rdma_cm_id)) {
        // SAFETY: as above; C reads what a call has changed when the call, or the event that it
        // leads to, is over.
        change(unsafe { &mut *self.c.get() });
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.shown().qp_type == IBV_QPT_UD
    }

    /// Binds the id to a device.
    pub(super) fn attach(&self, inner: &mut Inner, context: &Arc<Context>) -> Result<(), Errno> {
        let pd = devices::default_pd(context)?;
        inner.context = Some(Arc::clone(context));
        self.show(|c| {
            c.pd = pd;
            c.verbs = context.c();
            c.port_num = PORT;
        });
        self.show_addresses(inner);
        Ok(())
    }

    /// Shows what is known of both addresses.
    pub(super) fn show_addresses(&self, inner: &Inner) {
        self.show(|c| {
            let route = &mut c.route.addr;
            if let Some(local) = &inner.local {
                route.src_addr = addresses::storage(local);
                route.addr.sgid.raw = Gid::from(local.ip()).0;
            }
            if let Some(remote) = &inner.remote {
                route.dst_addr = addresses::storage(remote);
                route.addr.dgid.raw = Gid::from(remote.ip()).0;
            }
            route.addr.pkey = u16::MAX;
        });
    }

    /// Ends the id's conversation, listener and port; it stays in multicast groups.
    pub(super) fn leave(&self) {
        let mut inner = self.lock();
        let listens = !inner.listeners.is_empty();
        for (context, listener) in inner.listeners.drain(..) {
            context.nic.with_manager(|manager, _| {
                // It can only be gone already.
                let _ = manager.unlisten(listener);
                context.events.connections.unlisten(listener);
            });
        }
        let contexts: Vec<Arc<Context>> =
            inner.ports.iter().map(|place| Arc::clone(&place.context)).collect();
        let port = inner.local.map_or(0, |local| local.port());
        for Place { context, address } in core::mem::take(&mut inner.ports) {
            // A port that is not given back is free when the process ends.
            let release = PortChange::Release { listens };
            let _ = context.nic.change_port(address, (inner.space, port), release);
        }
        let conversation = inner.conversation.take();
        if let (Some(context), Some(conversation)) = (&inner.context, conversation) {
            forget(context, conversation);
        }
        drop(inner);
        let queue = self.mailbox.queue();
        for raw in queue.take(|raw| core::ptr::eq(&*raw.mailbox, &*self.mailbox)) {
            // Requests that the program has not fetched are refused.
            if let What::Asked(event, fresh) = raw.what {
                drop(queue.take(|raw| Arc::ptr_eq(&raw.mailbox, &fresh)));
                for context in &contexts {
                    forget(context, event.conversation());
                }
            }
        }
    }
}

/// A random number, as the standard library has them for its hash tables.
pub(super) fn random() -> u32 {
    use core::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() as u32
}
