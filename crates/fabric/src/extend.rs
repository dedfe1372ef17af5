//! What a simulation can have that is not of this crate: congestion controllers, load balancers and workloads.
//!
//! ```text
//!   a crate of yours                                     a scenario
//!   static GRADIENT: ControllerKind ────┐                [nic]
//!   static TWO: LoadBalancerKind ───────┼─► Extensions   congestion = "gradient"
//!   static SERVERS: WorkloadKind ───────┘       │        [nic.gradient]
//!                                               │        gain_1000ths = 300
//!                                               └─► Scenario::parse_extended ─► NetworkConfig
//! ```
//!
//! [`Extensions`] is a value that is handed to whoever reads a scenario. There is no list of them anywhere else,
//! and what is not handed over does not exist. In code, without a file, nothing has to be listed:
//! `Congestion::Custom(Custom::new(&GRADIENT))` is a controller like ours.
//!
//! Each has keys of its own, which are whole numbers with bounds ([`Setting`]): `[nic.NAME]` and
//! `[switch.NAME]` are the tables of a controller and of a balancer, and a workload has its keys beside its
//! `kind`. They are read, refused and explained as ours are.
//!
//! The chapter "Extending Ferroce" of the book has an example of each, which `examples/extensions` builds.

use std::sync::OnceLock;

use transport::congestion::Congestion;

use crate::switch::config::Balance;

pub use crate::switch::{Arrival, CustomBalance, Hop, Hops, LoadBalancer, LoadBalancerKind};
pub use crate::workload::{
    FlowSpec, HostList, Job, OpId, Plan, Refusal, Scene, Traffic, Unfit, Verb, WorkloadKind,
};
pub use rdma::{SETTINGS_MAX, Setting, Values};
pub use transport::congestion::{
    Controller, ControllerKind, Custom, Hop as Record, Marks, Progress, Telemetry,
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    controllers: Vec<&'static ControllerKind>,
    balancers: Vec<&'static LoadBalancerKind>,
    workloads: Vec<&'static WorkloadKind>,
}

impl Extensions {
    /// None.
    pub const fn new() -> Self {
        Self { controllers: Vec::new(), balancers: Vec::new(), workloads: Vec::new() }
    }

    /// None, for as long as anybody wants.
    pub(crate) fn none() -> &'static Self {
        static NONE: OnceLock<Extensions> = OnceLock::new();
        NONE.get_or_init(Self::new)
    }

    /// `nic.congestion` may be this one, too.
    #[must_use]
    pub fn congestion(mut self, kind: &'static ControllerKind) -> Self {
        self.controllers.push(kind);
        self
    }

    /// `switch.balance` may be this one, too.
    #[must_use]
    pub fn balance(mut self, kind: &'static LoadBalancerKind) -> Self {
        self.balancers.push(kind);
        self
    }

    /// `workload.kind` may be this one, too.
    #[must_use]
    pub fn workload(mut self, kind: &'static WorkloadKind) -> Self {
        self.workloads.push(kind);
        self
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.controllers.is_empty() && self.balancers.is_empty() && self.workloads.is_empty()
    }

    pub(crate) fn controllers(&self) -> &[&'static ControllerKind] {
        &self.controllers
    }

    pub(crate) fn balancers(&self) -> &[&'static LoadBalancerKind] {
        &self.balancers
    }

    pub(crate) fn workloads(&self) -> &[&'static WorkloadKind] {
        &self.workloads
    }

    /// The controllers by name, each as it is by default.
    pub(crate) fn congestions(&self) -> Vec<(&'static str, Congestion)> {
        let of =
            |kind: &&'static ControllerKind| (kind.name(), Congestion::Custom(Custom::new(kind)));
        self.controllers.iter().map(of).collect()
    }

    /// The balancers by name, each as it is by default.
    pub(crate) fn balances(&self) -> Vec<(&'static str, Balance)> {
        let of = |kind: &&'static LoadBalancerKind| {
            (kind.name(), Balance::Custom(CustomBalance::new(kind)))
        };
        self.balancers.iter().map(of).collect()
    }
}
