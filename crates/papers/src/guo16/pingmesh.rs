//! 5.3: probes between applications on hosts that take time.
//!
//! A probe over the bare network has no host in it. Here it has: an application on a core of its own sends by
//! its timer, and another answers 512 bytes. Either both sleep in between (a round trip counts from when it
//! was due, and so has three awakenings in it) or both poll. What that costs are the hosts of zhang17 (`studies/testbeds/cx3-56g-xeon.toml`, a Xeon of those
//! years with a ConnectX-3, frozen before it was used here), at the rates of guo16's links. What the queue
//! pairs beside the probes send takes the time of buses and NICs, and none of cores.

use core::any::Any;

use bench::load::{self, Load, Record};
use bench::plan::{Flow, Plan, Verb, WaitMode};
use fabric::random::Random;
use fabric::workload::PROBE_BYTES;
use fabric::{Network, NetworkConfig, Placed, Tenant};
use rdma::{Span, Time};

use crate::hosts::Hosts;
use crate::{Error, Options};

/// The hosts.
pub(super) const TESTBED: &str = "cx3-56g-xeon";
/// Windows that what was seen is kept by.
pub(super) const WINDOW_MS: u64 = 1;
/// Probes of a pair that may be under way.
const WINDOW: u32 = 64;
/// The traffic class of DSCP 3.
const CLASS: u8 = 3 << 2;

/// Applications that probe each other, on hosts of a network.
pub(super) struct Mesh {
    pub(super) network: Network,
}

impl Mesh {
    /// Each of `pairs` is probed once `every` so often until `end`.
    pub(super) fn new(
        options: Options,
        mut config: NetworkConfig,
        hosts: &Hosts,
        pairs: &[(u32, u32)],
        (every, wait): (Span, WaitMode),
        end: Time,
    ) -> Result<Self, Error> {
        config.host = hosts.network(options)?.host;
        let cores = config.host.as_ref().map_or(1, |host| host.cpu.cores);
        let length_ms = end.as_ps() as f64 / 1e9;
        let mut random = Random::new(options.seed);
        let flow = |index: usize| Flow {
            name: index.to_string(),
            size_bytes: PROBE_BYTES,
            window: WINDOW,
            wait,
            rate_per_s: Some(1e12 / every.as_ps() as f64),
            start_ms: random.below(every.as_ps()) as f64 / 1e9,
            traffic_class: CLASS,
            ..Flow::new(Verb::SendSend)
        };
        let plan = Plan {
            title: TESTBED.to_owned(),
            warmup_ms: 0.0,
            length_ms,
            window_ms: WINDOW_MS as f64,
            flows: (0..pairs.len()).map(flow).collect(),
            ..Plan::default()
        };
        let wrong = |why: String| Error::Hosts(TESTBED, why);
        plan.check().map_err(|failure| wrong(failure.to_string()))?;
        let mut used = vec![0; config.topology.hosts.len()];
        let [near, far] = load::applications(&plan, &[]);
        let ends =
            near.into_iter().map(|app| (app, false)).chain(far.into_iter().map(|app| (app, true)));
        let place = |(app, serves): (Load, bool)| {
            let (from, to) = pairs[app.flow];
            let host = if serves { to } else { from };
            let core = used[host as usize] % cores;
            used[host as usize] += 1;
            let app: Box<dyn Tenant> = Box::new(app);
            Placed { host, core, app }
        };
        let network = Network::with_tenants(config, ends.map(place).collect())?;
        Ok(Self { network })
    }

    /// What those that ask have seen.
    pub(super) fn seen(self) -> Result<Seen, Error> {
        let mut all: Option<Record> = None;
        for end in self.network.into_tenants() {
            if let Some(why) = end.failure {
                return Err(Error::Hosts(TESTBED, why));
            }
            let app: Box<dyn Any> = end.app;
            let Ok(app) = app.downcast::<Load>() else { continue };
            let Some(record) = app.found().record else { continue };
            match &mut all {
                Some(all) => all.add(&record),
                None => all = Some(record),
            }
        }
        all.map(Seen).ok_or_else(|| Error::Hosts(TESTBED, "nobody probes".to_owned()))
    }
}

/// Round trips of probes, by when they ended.
pub(super) struct Seen(Record);

impl Seen {
    /// What the parts `ranks` of those that ended in `window` took at most, in us.
    pub(super) fn at<const N: usize>(&self, window: (Time, Time), ranks: [f64; N]) -> [f64; N] {
        let index = |at: Time| (at.as_ps() / Span::from_ms(WINDOW_MS).as_ps()) as usize;
        let windows = self.0.windows.iter().take(index(window.1)).skip(index(window.0));
        let mut all = self.0.latency.clone();
        all.reset();
        for window in windows {
            // Both grow as they must.
            let _ = all.add(&window.latency);
        }
        ranks.map(|rank| match all.is_empty() {
            true => f64::NAN,
            false => all.value_at_quantile(rank) as f64 / 1e3,
        })
    }
}
