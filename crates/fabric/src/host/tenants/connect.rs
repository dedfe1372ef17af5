//! The objects of applications: made, and connected, before the first event.

use std::collections::VecDeque;
use std::sync::Arc;

use rdma::app::{Channel, LABELS_MAX, Layout, RemoteRegion, Wait, flow_label};
use rdma::{Mtu, QpType, Qpn};
use transport::{AddressVector, BringUp, QpSpec, RegionSpec};

use super::cores::Core;
use super::memory::Regions;
use super::queue::Queue;
use super::task::{Known, OwnPair, Task};
use super::{Owner, Tenant, Tenants};
use crate::address::Tuple;
use crate::host::connect::{bring_up, path};
use crate::host::model::{CpuConfig, Slices};
use crate::host::{Host, Pair};
use crate::links::Links;
use crate::random::{Random, split_mix};
use crate::slots::Slots;
use crate::workload::Flows;

/// A queue pair, as others know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) channel: Channel,
    pub(crate) kind: QpType,
    qpn: Qpn,
    reads: u8,
}

/// What others must know of an application.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    pub(crate) host: u32,
    mtu: Mtu,
    regions: Arc<[RemoteRegion]>,
    /// Its queue pairs.
    pub(crate) ends: Vec<End>,
}

/// A peer of a queue pair: an application, and which of its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) of: &'a Introduction,
    pub(crate) end: usize,
}

impl Host {
    /// Makes room for applications that send in these priorities. Engines are all made before any
    /// region, so that a region has the same key in each.
    pub(crate) fn open_to_tenants(
        &mut self,
        config: &CpuConfig,
        priorities: &[u8],
    ) -> Result<(), String> {
        for &priority in priorities {
            self.engine(priority).map_err(|error| format!("no engine was made: {error}"))?;
        }
        let mut cores: Vec<Core> = (0..config.cores).map(|_| Core::new(config)).collect();
        for &hog in &config.hogs {
            if let Some(core) = cores.get_mut(hog as usize) {
                let place = core.add(None);
                core.queue.wake(0, place);
                // It has run for long.
                core.queue.has_run(config.latency.as_ps());
            }
        }
        let mut cqs = Vec::new();
        for engine in &mut self.engines {
            let made = engine.endpoint.create_cq(transport::limits::CQE_MAX);
            cqs.push(made.map_err(|error| format!("no completion queue was made: {error}"))?);
        }
        self.tenants = Some(Box::new(Tenants {
            config: config.clone(),
            regions: Regions::default(),
            region_tasks: Vec::new(),
            tasks: Vec::new(),
            cores,
            owners: cqs.iter().map(|_| Vec::new()).collect(),
            cqs,
            posts: Slots::default(),
        }));
        Ok(())
    }

    /// The priority of a traffic class.
    pub(crate) fn priority_of(&self, traffic_class: u8) -> u8 {
        self.config.priority_of(traffic_class >> 2)
    }

    /// Makes the objects of an application.
    pub(crate) fn admit(
        &mut self,
        app: Box<dyn Tenant>,
        core: u32,
        seed: u64,
    ) -> Result<Introduction, String> {
        let layout = app.layout();
        let Some(tenants) = &mut self.tenants else {
            return Err("its host has no model: give it a [host]".to_owned());
        };
        let number = tenants.tasks.len();
        let Some(at) = tenants.cores.get_mut(core as usize) else {
            return Err(format!("its host has {} cores, from 0 on", tenants.cores.len()));
        };
        let place = at.add(Some(number));
        let (mut regions, mut reached) = (Vec::new(), Vec::new());
        for (index, spec) in layout.regions.iter().enumerate() {
            let made = tenants.regions.add(spec.length);
            let (region, address) =
                made.ok_or_else(|| format!("no memory for the bytes of region {index}"))?;
            tenants.region_tasks.push(number);
            let (length, access) = (spec.length, spec.access);
            let mut keys = Vec::new();
            for engine in &mut self.engines {
                let spec = RegionSpec { address, length, iova: address, access };
                let key = engine.endpoint.register(engine.pd, spec);
                keys.push(key.map_err(|error| format!("region {index}: {error}"))?);
            }
            let key = keys.first().copied().unwrap_or_default();
            debug_assert!(keys.iter().all(|other| *other == key), "engines count alike");
            regions.push((region, key));
            reached.push(RemoteRegion { address, length, r_key: key });
        }
        let (pairs, ends) = self.make_pairs(number, &layout)?;
        let queues = layout.cqs.iter().map(|spec| Queue::new(spec.depth)).collect();
        let serves = layout.serves;
        let Some(tenants) = &mut self.tenants else { return Err(String::new()) };
        tenants.tasks.push(Task {
            app: Some(app),
            core: core as usize,
            place,
            serves,
            begins_at: None,
            wait: Wait::turn(),
            is_asleep: true,
            found: None,
            is_over: false,
            failure: None,
            began_at: 0,
            over_at: 0,
            queues,
            regions,
            pairs,
            random: Random::new(seed),
        });
        let (host, mtu) = (self.index, self.config.mtu);
        Ok(Introduction { host, mtu, regions: reached.into(), ends })
    }

    fn make_pairs(
        &mut self,
        task: usize,
        layout: &Layout<'_>,
    ) -> Result<(Vec<OwnPair>, Vec<End>), String> {
        let (mut pairs, mut ends) = (Vec::new(), Vec::new());
        for (qp, spec) in layout.qps.iter().enumerate() {
            let (send_cq, recv_cq) = (usize::from(spec.send_cq.0), usize::from(spec.recv_cq.0));
            if send_cq.max(recv_cq) >= layout.cqs.len() {
                return Err(format!("queue pair {qp} completes to a queue that is not there"));
            }
            let priority = self.priority_of(spec.traffic_class);
            let engine =
                self.engine(priority).map_err(|error| format!("queue pair {qp}: {error}"))?;
            let Some(tenants) = &mut self.tenants else { return Err(String::new()) };
            let cq = tenants.cqs[engine];
            let at = &mut self.engines[engine];
            let made = QpSpec::for_app(spec, at.pd, [cq; 2]);
            let qpn = at.endpoint.create_qp(made);
            let qpn = qpn.map_err(|error| format!("queue pair {qp}: {error}"))?;
            at.pairs.push(Pair::of_tenant(qpn));
            let owners = &mut tenants.owners[engine];
            owners.resize(at.pairs.len(), None);
            owners[at.index_of(qpn)] = Some(Owner { task, qp });
            pairs.push(OwnPair {
                engine,
                qpn,
                kind: spec.kind,
                traffic_class: spec.traffic_class,
                labels: if spec.kind == QpType::Ud { spec.labels.min(LABELS_MAX) } else { 0 },
                send_cq,
                recv_cq,
                peers: Vec::new(),
                receives: 0,
                held: VecDeque::new(),
                held_requests: 0,
            });
            ends.push(End { channel: spec.channel, kind: spec.kind, qpn, reads: spec.reads });
        }
        Ok((pairs, ends))
    }

    /// Connects queue pair `qp` of application `task` to its peers.
    pub(crate) fn connect_tenant(
        &mut self,
        (task, qp): (usize, usize),
        own: &Introduction,
        peers: &[Peer<'_>],
        tuples: &mut Vec<Tuple>,
    ) -> Result<(), String> {
        let index = self.index;
        let Some(tenants) = &mut self.tenants else { return Err(String::new()) };
        let pair = &mut tenants.tasks[task].pairs[qp];
        let at = &mut self.engines[pair.engine];
        let label = |peer: u64| {
            let mix = split_mix(u64::from(index) << 32 | u64::from(pair.qpn.value()));
            split_mix(mix ^ peer)
        };
        let labels = pair.labels;
        let path = |peer: &Peer<'_>| {
            let label = match labels {
                0 => label(peer.of.host.into()),
                _ => flow_label(0).into(),
            };
            path(index, peer.of.host, pair.traffic_class, label)
        };
        let Some(first) = peers.first() else { return Err("it has no peer".to_owned()) };
        let (other, mine) = (&first.of.ends[first.end], &own.ends[qp]);
        let mtu = own.mtu.min(first.of.mtu);
        let up = BringUp {
            rd_atomics: mine.reads.min(other.reads),
            ..bring_up(&self.config, path(first), mtu, other.qpn)
        };
        let brought = at.endpoint.bring_up(pair.qpn, &up);
        brought.map_err(|error| format!("queue pair {qp} could not be connected: {error}"))?;
        let mut known = Vec::new();
        for peer in peers {
            let (path, mine, remote) =
                (path(peer), (pair.qpn, pair.kind), peer.of.ends[peer.end].qpn);
            let ends = (index, peer.of.host);
            let (tuple, address) = at.enter(mine, ends, &path, remote, tuples);
            for label in 1..labels {
                let path = AddressVector { flow_label: flow_label(label), ..path };
                at.enter(mine, ends, &path, remote, tuples);
            }
            let place = at.index_of(pair.qpn);
            at.pairs[place].tuple = tuple;
            known.push(Known {
                gid: path.gid,
                regions: Arc::clone(&peer.of.regions),
                datagram: address.map(|address| (address, tuple)),
            });
        }
        pair.peers = known;
        Ok(())
    }

    /// An application that serves has its first step, before anything else happens. Returns when it is over.
    pub(crate) fn serve(&mut self, links: &mut Links, flows: &mut Flows, task: usize) -> u64 {
        let Some(tenants) = &mut self.tenants else { return 0 };
        let of = &mut tenants.tasks[task];
        let (core, place) = (of.core, of.place);
        of.begins_at = Some(0);
        of.wake(0);
        let at = &mut tenants.cores[core];
        let now = at.busy_until;
        at.queue.seize(now, place);
        self.step(links, flows, task, now);
        self.tenants.as_ref().map_or(0, |tenants| tenants.cores[core].busy_until)
    }

    /// Whoever runs beside a hog is somewhere in its slice, as chance has it, unless slices are in lockstep.
    pub(crate) fn draw_slices(&mut self, seed: u64) {
        let Some(tenants) = &mut self.tenants else { return };
        if tenants.config.slices == Slices::InStep {
            return;
        }
        let mut random = Random::new(split_mix(seed ^ u64::from(self.index)));
        let slice = tenants.config.latency.as_ps() / 2;
        for &hog in &tenants.config.hogs {
            if let Some(core) = tenants.cores.get_mut(hog as usize) {
                core.queue.has_run(random.below(slice.max(1)));
            }
        }
    }

    /// An application has its first step at `at`, in picoseconds.
    pub(crate) fn begin_tenant(&mut self, links: &mut Links, task: usize, at: u64) {
        let Some(tenants) = &mut self.tenants else { return };
        tenants.tasks[task].begins_at = Some(at);
        tenants.plan(links, self.port, tenants.tasks[task].core);
    }

    /// Schedules what is due on all cores.
    pub(crate) fn plan_tenants(&mut self, links: &mut Links) {
        let Some(tenants) = &mut self.tenants else { return };
        for core in 0..tenants.cores.len() {
            tenants.plan(links, self.port, core);
        }
    }
}
