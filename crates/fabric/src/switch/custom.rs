//! Load balancers that are not of this crate: which of several equal next hops a packet takes.
//!
//! ```text
//!   static KIND: LoadBalancerKind ─► CustomBalance (KIND, its settings) ─► Balance::Custom
//!                                     └─ make, for each switch ─► choose(packet, next hops) ─► next hop
//! ```
//!
//! It is asked for each packet that has several next hops, and is told what its own switch knows: the hash of
//! the flow, and what waits at each port. Switches do not see each other's queues, and no message tells them.
//!
//! **Invariants:** a next hop is one of those that are offered, because nothing else is a [`Hop`], and none of
//! them can be kept beyond the call. A switch is asked in the order in which packets arrive, so the choices are
//! the same however the network is divided, as long as they follow from what was told.

use core::fmt;
use core::marker::PhantomData;

use rdma::{Rate, Setting, Time, Values};

/// Chooses among next hops, at one switch.
pub trait LoadBalancer: fmt::Debug + Send {
    /// Which of `hops` a packet takes. There are two at least.
    fn choose<'s>(&mut self, packet: &Arrival, hops: &Hops<'s>) -> Hop<'s>;
}

/// A packet that is to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When it arrived.
    pub now: Time,
    /// The hash of its five-tuple: the same for all packets of a flow, in one direction.
    pub hash: u32,
    /// Its length, from the Ethernet header to the FCS.
    pub bytes: u32,
}

/// What a switch knows of its ports when a packet asks. Ports are meant by their number.
pub(super) trait Ports {
    /// Which of so many next hops a hash names here.
    fn hashed(&self, hash: u32, count: u32) -> u32;
    /// See [`Hops::backlog_bytes`].
    fn backlog_bytes(&self, port: u16) -> u64;
    /// See [`Hops::is_paused`].
    fn is_paused(&self, port: u16) -> bool;
    /// See [`Hops::rate`].
    fn rate(&self, port: u16) -> Rate;
}

/// The next hops of a packet.
#[derive(Clone, Copy)]
pub struct Hops<'s> {
    pub(super) members: &'s [u16],
    pub(super) ports: &'s dyn Ports,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop<'s> {
    pub(super) index: u16,
    of: PhantomData<&'s ()>,
}

impl Hop<'_> {
    /// Its place among the next hops; [`Hops::at`] finds it again.
    pub fn index(self) -> usize {
        usize::from(self.index)
    }
}

impl<'s> Hops<'s> {
    /// How many there are: two at least. Where next hops are weighted, one of twice the rate is there twice.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The one at a place; places count round.
    pub fn at(&self, index: usize) -> Hop<'s> {
        let index = (index % self.members.len().max(1)) as u16;
        Hop { index, of: PhantomData }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Hop<'s>> {
        (0..self.members.len() as u16).map(|index| Hop { index, of: PhantomData })
    }

    /// The one that ECMP would take for `hash`. The hashes of one flow and of another, or of one flow and
    /// of that flow with some bits turned over, choose independently; so do two switches.
    pub fn hashed(&self, hash: u32) -> Hop<'s> {
        self.at(self.ports.hashed(hash, self.members.len() as u32) as usize)
    }

    /// What has to leave by this port before the packet can: what waits in the queue of its class, and the
    /// rest of the frame that is leaving.
    pub fn backlog_bytes(&self, hop: Hop<'s>) -> u64 {
        self.ports.backlog_bytes(self.port(hop))
    }

    /// Whether a pause stops the class of the packet there at present.
    pub fn is_paused(&self, hop: Hop<'s>) -> bool {
        self.ports.is_paused(self.port(hop))
    }

    /// The rate of its link.
    pub fn rate(&self, hop: Hop<'s>) -> Rate {
        self.ports.rate(self.port(hop))
    }

    /// Which port of the switch it is, in the order of the topology's links.
    pub fn port(&self, hop: Hop<'s>) -> u16 {
        self.members[hop.index()]
    }
}

impl fmt::Debug for Hops<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.all().map(|hop| (self.port(hop), self.backlog_bytes(hop))))
            .finish()
    }
}

/// A kind of load balancer, which a `static` of its crate describes.
pub struct LoadBalancerKind {
    name: &'static str,
    about: &'static str,
    settings: &'static [Setting],
    keeps_order: bool,
    make: fn(&CustomBalance) -> Box<dyn LoadBalancer>,
}

impl LoadBalancerKind {
    /// A balancer called `name`, which `make` makes for each switch.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        make: fn(&CustomBalance) -> Box<dyn LoadBalancer>,
    ) -> Self {
        Self { name, about, settings: &[], keeps_order: false, make }
    }

    /// It can be set to these.
    #[must_use]
    pub const fn with_settings(mut self, settings: &'static [Setting]) -> Self {
        self.settings = settings;
        self
    }

    /// The packets of a flow do not overtake each other, as far as it can tell. Otherwise the NICs of the
    /// network expect that they do, as under `balance = "packet"`.
    #[must_use]
    pub const fn in_order(mut self) -> Self {
        self.keeps_order = true;
        self
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, in a sentence.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// What it can be set to.
    pub const fn settings(&self) -> &'static [Setting] {
        self.settings
    }
}

impl fmt::Debug for LoadBalancerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadBalancerKind({:?})", self.name)
    }
}

/// A load balancer of a kind, as it is set.
#[derive(Clone, Copy, Debug)]
pub struct CustomBalance {
    kind: &'static LoadBalancerKind,
    /// What it is set to.
    pub values: Values,
}

impl CustomBalance {
    /// One of `kind`, set as it is by default.
    pub fn new(kind: &'static LoadBalancerKind) -> Self {
        Self { kind, values: Values::of(kind.settings) }
    }

    /// Of which kind it is.
    pub fn kind(&self) -> &'static LoadBalancerKind {
        self.kind
    }

    /// The number that a setting has.
    pub fn get(&self, setting: &Setting) -> u64 {
        self.values.get(setting)
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.kind.name
    }

    pub(crate) fn keeps_order(&self) -> bool {
        self.kind.keeps_order
    }

    pub(super) fn balancer(&self) -> Box<dyn LoadBalancer> {
        (self.kind.make)(self)
    }
}

/// Kinds are the same if they have one name: two of a name are never known at a time.
impl PartialEq for CustomBalance {
    fn eq(&self, other: &Self) -> bool {
        (self.kind.name, self.values) == (other.kind.name, other.values)
    }
}

impl Eq for CustomBalance {}
