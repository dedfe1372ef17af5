//! Workloads that are not of this crate: who sends what to whom, made from the keys of its own table.
//!
//! ```text
//!   static KIND: WorkloadKind ─► [[workload]] kind = "..." ─► Scene (settings, hosts, topology, chance)
//!                                 └─ make ─► Traffic: flows, or a job whose operations wait for each other
//! ```
//!
//! It is called once, before the run: what happens later follows from the flows, and from what the operations of
//! a [`Plan`](super::Plan) wait for.
//!
//! **Invariant:** the same scene gives the same traffic; chance comes from [`Scene::random`] alone.

use core::fmt;

use rdma::{Setting, Time, Values};

use super::{FlowSpec, Job, Unfit};
use crate::random::Random;
use crate::topology::Topology;

/// A key that names hosts, in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostList {
    key: &'static str,
    about: &'static str,
}

impl HostList {
    /// A list called `key`; where nothing is said it is empty.
    pub const fn new(key: &'static str, about: &'static str) -> Self {
        Self { key, about }
    }

    /// What it is called.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// What it is, in a sentence.
    pub const fn about(&self) -> &'static str {
        self.about
    }
}

/// What a workload is made for, and of.
#[derive(Debug)]
pub struct Scene<'s> {
    pub(crate) topology: &'s Topology,
    pub(crate) end: Time,
    pub(crate) values: Values,
    pub(crate) lists: Vec<(&'static str, Vec<u32>)>,
    pub(crate) random: &'s mut Random,
}

impl Scene<'_> {
    /// The number that a setting has.
    pub fn get(&self, setting: &Setting) -> u64 {
        self.values.get(setting)
    }

    /// The hosts that a list names, in its order, each once; empty if it is not written.
    pub fn hosts_of(&self, list: &HostList) -> &[u32] {
        let found = self.lists.iter().find(|(key, _)| *key == list.key);
        found.map_or(&[], |(_, hosts)| hosts)
    }

    /// How many hosts there are: they are numbered from 0 on.
    pub fn host_count(&self) -> u32 {
        // Hosts are fewer than 2^32.
        self.topology.hosts.len() as u32
    }

    /// What hangs on what.
    pub fn topology(&self) -> &Topology {
        self.topology
    }

    /// When the run ends at the latest.
    pub fn end(&self) -> Time {
        self.end
    }

    /// The source of all chance: the seed of the run decides.
    pub fn random(&mut self) -> &mut Random {
        self.random
    }
}

/// What a workload adds.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// Flows, each on its own.
    Flows(Vec<FlowSpec>),
    /// What ranks do together, step by step.
    Job(Job),
}

/// Why there is no such workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub(crate) key: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    /// `key` is wrong: that of a [`Setting`] or of a [`HostList`].
    pub fn of(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into(), hint: None }
    }

    /// With a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A schedule that does not fit is a mistake of the workload, whatever its keys say.
impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Self {
        Self::of("kind", unfit.to_string()).hint("the workload itself is to be mended")
    }
}

/// A kind of workload, which a `static` of its crate describes.
pub struct WorkloadKind {
    name: &'static str,
    about: &'static str,
    settings: &'static [Setting],
    lists: &'static [HostList],
    make: Make,
}

type Make = fn(&mut Scene<'_>) -> Result<Traffic, Refusal>;

impl WorkloadKind {
    /// A workload called `name`, which `make` makes for each of its tables.
    pub const fn new(name: &'static str, about: &'static str, make: Make) -> Self {
        Self { name, about, settings: &[], lists: &[], make }
    }

    /// Its keys that are numbers.
    #[must_use]
    pub const fn with_settings(mut self, settings: &'static [Setting]) -> Self {
        self.settings = settings;
        self
    }

    /// Its keys that are lists of hosts.
    #[must_use]
    pub const fn with_hosts(mut self, lists: &'static [HostList]) -> Self {
        self.lists = lists;
        self
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it is, in a sentence.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// Its keys that are numbers.
    pub const fn settings(&self) -> &'static [Setting] {
        self.settings
    }

    /// Its keys that are lists of hosts.
    pub const fn lists(&self) -> &'static [HostList] {
        self.lists
    }

    pub(crate) fn make(&self, scene: &mut Scene<'_>) -> Result<Traffic, Refusal> {
        (self.make)(scene)
    }
}

impl fmt::Debug for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkloadKind({:?})", self.name)
    }
}
