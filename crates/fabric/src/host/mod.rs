//! A host: a NIC, the transport engines in it, and the applications that post to them.
//!
//! A packet that arrives goes to the engine of its queue pair. A completion goes to the flow that posted
//! the request, which may post the next. Then the engine's next packet is sent, if the port is free. All
//! of that happens at one moment: flows take no time, NICs take the time that [`crate::nic`] says.
//!
//! A host with a [`model`] has a bus and stages of a NIC between engine and port (`stages.rs`), and may have
//! tenants: applications of [`rdma::app`], on cores that take time (`tenants/`). Beside its engines a host may be
//! attached to programs outside, whose packets it passes on with all their bytes (`attached.rs`).

mod apps;
pub(crate) mod attached;
mod connect;
mod delivery;
mod jobs;
pub mod model;
mod receive;
mod stages;
mod tcp;
mod tenants;
mod transmit;

pub use attached::{Left, Refused};
pub(crate) use jobs::beginning;
pub(crate) use tcp::opening;
pub(crate) use tenants::{Introduction, Peer};
pub use tenants::{Placed, Tenant, TenantEnd};

use rdma::{Key, Operation, Qpn, RecvRequest, SendFlags, Sge, Time, UdAddress, WorkRequest};
use transport::{CqId, CreateError, Endpoint, ModifyError, PdId, PostError};

use crate::memory::BASE;
use delivery::Delivery;

use crate::nic::{CacheCounters, Contexts, NicConfig, ReceiveBuffer};
use crate::random::{of_seed, split_mix};
use model::HostConfig;
use stages::Stages;
use tenants::Tenants;

/// QPNs of one engine: its number stands above these bits.
const ENGINE_SHIFT: u32 = 20;
/// The first QPN of an engine; 0 and 1 are management's.
const FIRST_QPN: u32 = 2;

/// One end of a connection.
#[derive(Debug)]
struct Pair {
    qpn: Qpn,
    /// The flow that it was made for.
    flow: u32,
    /// Index of the [`Tuple`](crate::address::Tuple) of its packets.
    tuple: u32,
    remote_key: Key,
    /// Where the datagrams of a UD queue pair go.
    address: Option<UdAddress>,
    /// Messages that came, and took a receive.
    received: u64,
    delivery: Delivery,
    /// Messages that found its queue full, by the ids that they will have: of flows that share it, or of
    /// a job.
    backlog: std::collections::VecDeque<u64>,
}

impl Pair {
    /// One that is not connected yet.
    fn new(qpn: Qpn, flow: u32) -> Self {
        Self {
            qpn,
            flow,
            tuple: u32::MAX,
            remote_key: Key::default(),
            address: None,
            received: 0,
            delivery: Delivery::default(),
            backlog: std::collections::VecDeque::new(),
        }
    }

    /// That of an application, which keeps its own accounts.
    fn of_tenant(qpn: Qpn) -> Self {
        Self::new(qpn, u32::MAX)
    }
}

#[derive(Debug)]
struct Engine {
    priority: u8,
    endpoint: Endpoint,
    pd: PdId,
    cq: CqId,
    key: Key,
    pairs: Vec<Pair>,
}

/// The last packet of a message that is done when it has left, at `at`, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Departing {
    at: u64,
    engine: usize,
    qpn: Qpn,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Host {
    index: u32,
    pub(crate) port: u32,
    pub(crate) config: NicConfig,
    engines: Vec<Engine>,
    /// Whose turn it is to send.
    turn: usize,
    /// What is on its way out of the port.
    departing: Option<Departing>,
    /// The IP ID of the last packet: NICs count them (guo16, 4.1).
    ip_id: u16,
    /// When an [`EventKind::Timer`] is scheduled, the earliest time last.
    timers: Vec<u64>,
    tcp: Option<Box<tcp::Tcp>>,
    /// Programs outside.
    attached: Option<Box<attached::Attached>>,
    pub(crate) buffer: ReceiveBuffer,
    /// The caches of what it keeps in the server's memory; `None` if it has everything itself.
    contexts: Option<Box<Contexts>>,
    /// The next packet is not made before, in picoseconds.
    ready_at: u64,
    /// An [`EventKind::Ready`] is scheduled.
    waking: bool,
    pub(crate) paranoid: bool,
    /// The network's.
    seed: u64,
    /// Its bus and the stages of its NIC, if they take time.
    stages: Option<Box<Stages>>,
    /// Its applications, if it has any that take time.
    tenants: Option<Box<Tenants>>,
}

/// One end of a connection, as others name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairId {
    engine: usize,
    pub(crate) qpn: Qpn,
    pub(crate) key: Key,
}

/// The end of a flow at its source: what it posts to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LocalEnd {
    Pair(PairId),
    /// A TCP connection of its host.
    Tcp(u32),
}

/// A connection could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectError {
    Create(CreateError),
    Modify(ModifyError),
    Post(PostError),
}

impl Host {
    pub(crate) fn new(
        index: u32,
        port: u32,
        config: NicConfig,
        seed: u64,
        model: Option<&HostConfig>,
    ) -> Self {
        let contexts = config.host_memory.map(|memory| Box::new(Contexts::new(memory)));
        Self {
            index,
            port,
            config,
            engines: Vec::new(),
            turn: 0,
            departing: None,
            // Hosts begin at different numbers.
            ip_id: split_mix(u64::from(index) ^ of_seed(seed)) as u16,
            timers: Vec::new(),
            tcp: None,
            attached: None,
            buffer: ReceiveBuffer::default(),
            contexts,
            ready_at: 0,
            waking: false,
            paranoid: false,
            seed,
            stages: model.map(|model| Box::new(Stages::new(&model.nic))),
            tenants: None,
        }
    }

    /// How often its NIC had to fetch what it needs.
    pub(crate) fn cache_counters(&self) -> CacheCounters {
        self.contexts.as_ref().map_or_else(CacheCounters::default, |contexts| contexts.counters())
    }

    /// Its index in the topology.
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    /// The bytes that each of its queue pairs and connections has delivered here, in order, with its
    /// flow.
    pub(crate) fn delivered(&self) -> impl Iterator<Item = (u32, u64)> {
        let pairs = self.engines.iter().flat_map(|engine| &engine.pairs);
        let over_tcp = self.tcp.iter().flat_map(|tcp| tcp.delivered());
        pairs.map(|pair| (pair.flow, pair.delivery.bytes)).chain(over_tcp)
    }

    /// The counters of all its engines.
    pub(crate) fn stats(&self) -> Vec<transport::Stats> {
        self.engines.iter().map(|engine| *engine.endpoint.stats()).collect()
    }
}

/// Set in the ids of answers, so that they are not taken for messages of their flow.
const REPLY: u64 = 1 << 32;

impl Engine {
    /// Where a queue pair stands in `pairs`: they are given out in order.
    fn index_of(&self, qpn: Qpn) -> usize {
        ((qpn.value() & ((1 << ENGINE_SHIFT) - 1)) - FIRST_QPN) as usize
    }

    fn send(
        &mut self,
        now: u64,
        qpn: Qpn,
        id: u64,
        operation: Operation,
        (address, length): (u64, u32),
    ) -> Result<(), PostError> {
        let sges = [Sge { address, length, l_key: self.key }];
        let request =
            WorkRequest { id, operation, flags: SendFlags::SIGNALED, sges: &sges, inline: None };
        self.endpoint.post_send(Time::from_ps(now), qpn, &request)
    }

    fn post_receive(&mut self, qpn: Qpn) -> Result<(), PostError> {
        // As long as the longest message.
        let sges = [Sge { address: BASE, length: 1 << 31, l_key: self.key }];
        self.endpoint.post_recv(qpn, &RecvRequest { id: 0, sges: &sges })
    }
}
