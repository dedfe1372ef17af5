//! Applications of [`rdma::app`] on the hosts of a network.
//!
//! ```text
//!   Placed ─► objects on its host ─► introductions ─► queue pairs that name one channel are connected
//!          ─► those that serve have their first step ─► all others begin at one time
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rdma::QpType;
use rdma::app::Channel;

use super::{BuildError, Network, NetworkConfig};
use crate::host::{Introduction, Peer, Placed, TenantEnd};
use crate::random::split_mix;

impl Network {
    /// A network with applications on hosts that have a [`model`](crate::model). It is finished when all
    /// flows are over, and all applications but those that serve.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn with_tenants(config: NetworkConfig, placed: Vec<Placed>) -> Result<Self, BuildError> {
        let seed = config.seed;
        let hosts = config.topology.hosts.len() as u32;
        let mut models = BTreeMap::new();
        for (index, at) in placed.iter().enumerate() {
            if at.host >= hosts {
                return Err(BuildError::NoSuchNode(format!("application {index}")));
            }
            let reason = "its host has no model: give it a [host]".to_owned();
            let none = BuildError::Tenant { index, reason };
            models.insert(at.host, config.host_of(at.host).cloned().ok_or(none)?);
        }
        let mut network = Self::new(config)?;
        let mut priorities: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for at in &placed {
            let layout = at.app.layout();
            let classes = layout.qps.iter().map(|qp| qp.traffic_class);
            let host = network.host_mut(at.host);
            let of = classes.map(|class| host.priority_of(class));
            priorities.entry(at.host).or_default().extend(of);
        }
        for (host, priorities) in &priorities {
            let index = placed.iter().position(|at| at.host == *host).unwrap_or(0);
            let opened = network.host_mut(*host).open_to_tenants(&models[host].cpu, priorities);
            opened.map_err(|reason| BuildError::Tenant { index, reason })?;
        }
        let (mut tasks, mut serving, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, Placed { host, core, app }) in placed.into_iter().enumerate() {
            let count = counts.entry(host).or_default();
            tasks.push((host, *count));
            *count += 1;
            serving.push(app.layout().serves);
            let chance = split_mix(seed ^ split_mix(index as u64));
            let admitted = network.host_mut(host).admit(app, core, chance);
            all.push(admitted.map_err(|reason| BuildError::Tenant { index, reason })?);
        }
        network.meet(&tasks, &all)?;
        network.tenants = tasks.iter().map(|task| task.0).collect();
        network.begin(&tasks, &serving);
        Ok(network)
    }

    /// Connects the queue pairs that name the same channel.
    fn meet(&mut self, tasks: &[(u32, usize)], all: &[Introduction]) -> Result<(), BuildError> {
        let mut channels: BTreeMap<Channel, Vec<(usize, usize)>> = BTreeMap::new();
        for (index, introduction) in all.iter().enumerate() {
            for (end, what) in introduction.ends.iter().enumerate() {
                channels.entry(what.channel).or_default().push((index, end));
            }
        }
        let mut tuples = self.common.tuples.to_vec();
        for (index, introduction) in all.iter().enumerate() {
            let wrong = |reason| BuildError::Tenant { index, reason };
            for (end, what) in introduction.ends.iter().enumerate() {
                let named = &channels[&what.channel];
                let others = named.iter().filter(|other| **other != (index, end));
                let peers: Vec<Peer<'_>> =
                    others.map(|&(of, end)| Peer { of: &all[of], end }).collect();
                let channel = what.channel;
                if peers.iter().any(|peer| peer.of.ends[peer.end].kind != what.kind) {
                    return Err(wrong(format!("{channel:?} has ends of several services")));
                }
                if peers.is_empty() || (peers.len() > 1 && what.kind != QpType::Ud) {
                    let count = peers.len() + 1;
                    let said = format!("{channel:?} joins two queue pairs, and {count} name it");
                    return Err(wrong(said));
                }
                if peers.iter().any(|peer| peer.of.host == introduction.host) {
                    return Err(wrong(format!("{channel:?} has two ends at one host")));
                }
                for peer in &peers {
                    if self.path(introduction.host, peer.of.host, 0).is_none() {
                        return Err(wrong(format!("there is no path to the end of {channel:?}")));
                    }
                }
                let (host, task) = tasks[index];
                let host = self.host_mut(host);
                host.connect_tenant((task, end), introduction, &peers, &mut tuples)
                    .map_err(wrong)?;
            }
        }
        self.common.tuples = tuples.into();
        for partition in &mut self.partitions {
            partition.links.common = self.common.clone();
        }
        Ok(())
    }

    /// Those that serve have their first step, and all others are scheduled.
    fn begin(&mut self, tasks: &[(u32, usize)], serving: &[bool]) {
        let mut ready = 0;
        for (&(host, task), _) in tasks.iter().zip(serving).filter(|(_, serves)| **serves) {
            let port = self.host_port(host);
            let (host, links, flows) = self.partition_mut(port).host_at(port);
            ready = ready.max(host.serve(links, flows, task));
        }
        let all: BTreeSet<u32> = tasks.iter().map(|task| task.0).collect();
        for host in all {
            let seed = self.common.seed;
            self.host_mut(host).draw_slices(seed);
        }
        for (&(host, task), serves) in tasks.iter().zip(serving) {
            let port = self.host_port(host);
            let (host, links, flows) = self.partition_mut(port).host_at(port);
            if *serves {
                host.plan_tenants(links);
            } else {
                host.begin_tenant(links, task, ready);
                flows.unfinished += 1;
                self.finite = true;
            }
        }
    }

    /// What has become of all applications, in their order.
    pub fn into_tenants(self) -> Vec<TenantEnd> {
        let Self { partitions, tenants, common, now, .. } = self;
        let mut by_host: BTreeMap<u32, VecDeque<TenantEnd>> = BTreeMap::new();
        for partition in partitions {
            for host in partition.hosts {
                let index = common.host_ports.iter().position(|port| *port == host.port);
                if let Some(index) = index.filter(|index| tenants.contains(&(*index as u32))) {
                    by_host.insert(index as u32, host.into_tenants(now).into());
                }
            }
        }
        let one = |host: &u32| by_host.get_mut(host)?.pop_front();
        tenants.iter().filter_map(one).collect()
    }
}
