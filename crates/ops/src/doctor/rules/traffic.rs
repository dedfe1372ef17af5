//! Which DSCPs carry RDMA: what `desired.toml` says, or jobs, or NICs.

use std::collections::BTreeMap;

use crate::doctor::cluster::{Cluster, Host, Known};
use crate::doctor::desired::Desired;
use crate::doctor::finding::Place;
use crate::doctor::source::env;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in crate::doctor) struct Traffic {
    /// DSCPs of data that are to be lossless everywhere.
    pub(in crate::doctor) data: Vec<u8>,
    /// By host, job and DSCP, the jobs whose DSCP is another.
    pub(in crate::doctor) strays: Vec<Stray>,
    /// The DSCP of CNPs that the file says.
    pub(in crate::doctor) cnp: Option<u8>,
    /// That of acknowledgements, where NICs set one of their own.
    pub(in crate::doctor) ack: Option<u8>,
    /// Of packets of lossless classes.
    pub(in crate::doctor) lossless_mtu: u32,
}

/// A job, or a device, that marks its packets otherwise than all others.
#[derive(Clone, Debug)]
pub(in crate::doctor) struct Stray {
    pub(in crate::doctor) host: String,
    pub(in crate::doctor) what: String,
    pub(in crate::doctor) value: String,
    pub(in crate::doctor) dscp: u8,
    pub(in crate::doctor) place: Place,
}

/// Variables of jobs that say it.
pub(super) const TRAFFIC_CLASSES: [&str; 2] = ["NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS"];
/// Payload, and what RoCEv2 over Ethernet puts around it; SONiC takes 1024 for the packets of lossless classes.
const LOSSLESS_MTU: u32 = 1_024;

impl Traffic {
    pub(in crate::doctor) fn of(cluster: &Cluster, desired: &Desired) -> Self {
        let mut said: Vec<Stray> = cluster.hosts.iter().flat_map(marks).collect();
        let own = &desired.traffic;
        let mut votes: BTreeMap<u8, usize> = BTreeMap::new();
        for stray in &said {
            *votes.entry(stray.dscp).or_default() += 1;
        }
        let mut data = own.data_dscp.clone();
        if data.is_empty() {
            // What most jobs say; the lower of two that are said as often.
            let most =
                votes.iter().max_by_key(|(dscp, count)| (**count, core::cmp::Reverse(**dscp)));
            data.extend(most.map(|(dscp, _)| *dscp));
        }
        said.retain(|stray| !data.contains(&stray.dscp));
        data.sort_unstable();
        data.dedup();
        Self {
            data,
            strays: said,
            cnp: own.cnp_dscp,
            ack: own.ack_dscp,
            lossless_mtu: own.lossless_mtu_bytes.unwrap_or(LOSSLESS_MTU),
        }
    }
}

/// The DSCPs that a host's jobs and devices put on their packets.
fn marks(host: &Host) -> Vec<Stray> {
    let mut all = Vec::new();
    let mut add = |what: String, known: &Known<String>, class: Option<u64>| {
        let Some(class) = class.filter(|&class| class < 256) else { return };
        all.push(Stray {
            host: host.name.clone(),
            what,
            value: known.value.clone(),
            dscp: (class >> 2) as u8,
            place: known.place.clone(),
        });
    };
    for (name, job) in &host.jobs {
        for variable in TRAFFIC_CLASSES {
            let Some(known) = job.variables.get(variable) else { continue };
            add(format!("{variable} of job {name}"), known, env::number(&known.value));
        }
    }
    for (name, device) in &host.devices {
        let Some(known) = &device.traffic_class else { continue };
        let text = Known { value: known.value.to_string(), place: known.place.clone() };
        add(format!("traffic_class of {name}"), &text, Some(u64::from(known.value)));
    }
    all
}
