//! Probes on the hosts of a simulated network.
//!
//! A simulation has milliseconds where a data centre has minutes: probes are sent [`Scale::faster`] times as often, and
//! windows are so much shorter. What is not scaled is what the network and the hosts do.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bench::simulation::TESTBEDS;
use fabric::counters::{PauseCounters, PortCounters};
use fabric::scenario::Testbed;
use fabric::topology::Topology;
use fabric::{Network, NetworkConfig, Placed, Tenant, Verdict as Ended};
use rdma::app::flow_label;
use rdma::{Span, Time};

use super::configured::Configuration;
use super::counted::{HostDelta, PortDelta};
use super::evidence::{Digest, Evidence, Hop, Interval, Paths};
use super::node::Node;
use super::pinglist::{Rates, pinglists};
use super::probe::{Prober, Results, Settings};
use super::scope::Map;
use super::verdict::{self, Verdict};
use super::window::Window;
use crate::watch::{PoolSample, pool_of};

/// The hosts of a network that says nothing of its own: a Xeon of guo16's years with a ConnectX-3.
const HOSTS: &str = "cx3-56g-xeon";
/// How long an answer may take: longer than a processor is with others at a time, which is 24 ms, or a busy host would
/// be taken for a network that loses.
pub const PATIENCE: Span = Span::from_ms(50);
/// After the end it is asked so often whether any probe is still under way.
const TAIL: Span = Span::from_ms(1);
/// The core of each host that probes and answers.
pub const CORE: u32 = 0;
/// Receives of each queue pair: fewer than on a host of its own, because many hosts share one machine.
const RECEIVES: u32 = 64;

/// How long windows are, and how often hosts probe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    /// How many times as often as outside.
    pub faster: f64,
    /// How long a window is.
    pub window: Span,
    /// How long an answer may take.
    pub patience: Span,
    /// What hosts send, before it is made faster.
    pub rates: Rates,
    /// Receives of each queue pair: what may come while a host's processor does something else.
    pub receives: u32,
    /// Probers poll all the time, which takes the simulator a third of the time.
    pub polls: bool,
}

impl Default for Scale {
    /// A thousandth: windows of 30 ms, and ten thousand probes a second of each host, which is what its core has
    /// time for.
    fn default() -> Self {
        Self {
            faster: 1e3,
            window: Span::from_ms(30),
            patience: PATIENCE,
            receives: RECEIVES,
            rates: Rates { host: 10.0, ..Rates::default() },
            polls: false,
        }
    }
}

/// A network with a prober on each host.
#[derive(Debug)]
pub struct Mesh {
    network: Network,
    map: Map,
    results: Vec<Results>,
    scale: Scale,
    end: Time,
    before: Readings,
    windows: Vec<Window>,
    intervals: Vec<Interval>,
}

/// What all counters said.
#[derive(Debug, Default)]
struct Readings {
    at_ns: u64,
    ports: BTreeMap<(u32, Node), PortCounters>,
    pools: Vec<PoolSample>,
    hosts: BTreeMap<u32, PauseCounters>,
}

impl Readings {
    fn of(network: &Network) -> Self {
        let topology = network.topology();
        let switches = 0..topology.switches.len() as u32;
        let pools = switches.clone().map(|switch| pool_of(network, switch)).collect();
        let ports = switches.flat_map(|switch| {
            let ports = network.switch_counters(switch).into_iter();
            ports.map(move |(neighbour, counters)| ((switch, neighbour.into()), counters))
        });
        let hosts = 0..topology.hosts.len() as u32;
        let hosts = hosts.filter_map(|host| Some((host, network.host_pauses(host)?)));
        let (ports, hosts) = (ports.collect(), hosts.collect());
        Self { at_ns: network.now().as_ns(), ports, pools, hosts }
    }

    fn since(&self, before: &Self) -> Interval {
        let ports = self.ports.iter().map(|(key, after)| {
            let before = before.ports.get(key).copied().unwrap_or_default();
            let pool = self.pools.get(key.0 as usize).copied().unwrap_or_default();
            (*key, PortDelta { pool, ..PortDelta::between(&before, after) })
        });
        let hosts = self.hosts.iter().map(|(key, after)| {
            let before = before.hosts.get(key).copied().unwrap_or_default();
            (*key, HostDelta::between(&before, after))
        });
        let (ports, hosts) = (ports.collect(), hosts.collect());
        Interval { start_ns: before.at_ns, end_ns: self.at_ns, ports, hosts }
    }
}

impl Mesh {
    /// Puts a prober on each host of a network, until `end`. Hosts that have no model get one.
    ///
    /// # Errors
    /// The network cannot be made, and says why.
    pub fn new(mut config: NetworkConfig, scale: Scale, end: Time) -> Result<Self, bench::Failure> {
        if config.host.is_none() {
            config.host = Some(host_model()?);
        }
        let map = Map::of(&config.topology);
        let rates = scale.rates.times(scale.faster);
        let settings = Settings {
            window: scale.window,
            patience: scale.patience,
            receives: scale.receives,
            polls: scale.polls,
            // A network whose flows are over would end before its probers otherwise.
            until: Some(end),
            ..Settings::default()
        };
        let lists = pinglists(&map, rates);
        if lists.is_empty() {
            let why = "no two hosts of this network can probe each other";
            return Err(
                bench::Failure::new(why).hint("hosts hang on switches, two at least on one")
            );
        }
        let mut results = Vec::new();
        let placed = lists.iter().map(|list| {
            let of = Results::default();
            results.push(of.clone());
            let app: Box<dyn Tenant> = Box::new(Prober::of(list, settings, of));
            Placed { host: list.host, core: CORE, app }
        });
        let network = Network::with_tenants(config, placed.collect());
        let network = network.map_err(|error| bench::Failure::new(error.to_string()))?;
        let before = Readings::of(&network);
        let (windows, intervals) = (Vec::new(), Vec::new());
        Ok(Self { network, map, results, scale, end, before, windows, intervals })
    }

    /// Runs it to its end, in stretches of a window. `glance` is called after each, and may end it by `false`.
    pub fn run(&mut self, mut glance: impl FnMut(&Self) -> bool) {
        while self.network.now() < self.end {
            let next = (self.network.now() + self.scale.window).min(self.end);
            let mut is_over = false;
            while self.network.now() < next && !is_over {
                // Queues that wait for each other in a circle do so for ever, and are what probes see.
                is_over = !matches!(self.network.run(next), Ended::Deadlock(_) | Ended::TimeOver);
            }
            let now = Readings::of(&self.network);
            self.intervals.push(now.since(&self.before));
            self.before = now;
            // Each interval has its own: alpha may change.
            self.network.clear_watermarks();
            for results in &self.results {
                self.windows.extend(results.take());
            }
            if is_over || !glance(self) {
                return;
            }
        }
        // What is under way at the end is waited for: what fails just before it is seen, too.
        let last = self.end + self.scale.patience + TAIL;
        while self.network.now() < last && !self.results.iter().all(Results::is_over) {
            let next = (self.network.now() + TAIL).min(last);
            if !matches!(self.network.run(next), Ended::Deadlock(_) | Ended::TimeOver) {
                break;
            }
        }
        for results in &self.results {
            self.windows.extend(results.take());
        }
    }

    /// What probes saw so far, in windows that are finished.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// What was counted, window by window.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Where hosts are.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Who is linked to whom.
    pub fn topology(&self) -> &Topology {
        self.network.topology()
    }

    /// What is sick, by what probes and counters have said so far.
    pub fn verdict(&self) -> Verdict {
        let paths = Traced { network: &self.network, known: Mutex::default() };
        verdict::judge(&Evidence {
            topology: self.network.topology(),
            map: &self.map,
            digest: &Digest::of(&self.windows),
            paths: &paths,
            intervals: &self.intervals,
            configuration: Configuration::UNKNOWN,
        })
    }
}

/// The links of a path, if there is one.
type Traces = Option<Vec<Hop>>;

/// Paths as a tracer of routes finds them, with the five-tuple of the probes (R-Pingmesh traces them, too).
struct Traced<'a> {
    network: &'a Network,
    known: Mutex<BTreeMap<(u32, u32, u16), Traces>>,
}

impl Paths for Traced<'_> {
    fn path(&self, from: u32, to: u32, label: u16) -> Option<Vec<Hop>> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let trace = || {
            let ports = self.network.datagram_path(from, to, flow_label(label))?;
            let first = Node::Switch(ports.first()?.0);
            let mut hops = vec![(Node::Host(from), first)];
            hops.extend(ports.iter().map(|(at, next)| (Node::Switch(*at), (*next).into())));
            Some(hops)
        };
        known.entry((from, to, label)).or_insert_with(trace).clone()
    }
}

/// What a host costs where nobody says.
///
/// # Errors
/// A file of ours is not as it should be.
pub fn host_model() -> Result<fabric::model::HostConfig, bench::Failure> {
    let text = TESTBEDS.iter().find(|(name, _)| *name == HOSTS).map_or("", |(_, text)| text);
    let testbed = Testbed::parse(text).map_err(|error| bench::Failure::from_message(&error))?;
    let host = testbed.network(2).host;
    host.ok_or_else(|| bench::Failure::new(format!("{HOSTS} has no host")))
}

#[cfg(test)]
mod tests {
    use fabric::fault::{Fault, FaultKind};
    use fabric::scenario::Scenario;
    use fabric::topology::{Cables, ClosShape, clos, single_switch};
    use rdma::Rate;

    use super::super::verdict::Culprit;
    use super::*;

    const CABLES: Cables = Cables::new(Rate::from_gbps(40), 2);

    fn run(config: NetworkConfig, scale: Scale, ms: u64) -> Mesh {
        let end = Time::ZERO + Span::from_ms(ms);
        let mut mesh = Mesh::new(config, scale, end).unwrap();
        mesh.run(|_| true);
        mesh
    }

    fn scale() -> Scale {
        let (window, patience) = (Span::from_ms(10), Span::from_ms(5));
        Scale { window, patience, ..Scale::default() }
    }

    #[test]
    fn a_round_trip_is_the_network_and_nothing_of_its_hosts() {
        let mesh = run(NetworkConfig::new(single_switch(3, CABLES)), scale(), 30);
        let windows = mesh.windows();
        let answered = windows.iter().filter(|window| window.counts().answered > 0).count();
        assert!(answered >= 3 * 2, "{answered}");
        for window in windows {
            let counts = window.counts();
            // The end waits for what is under way.
            assert_eq!((counts.answered, counts.is_sound()), (counts.sent, true), "{counts:?}");
            for pair in &window.pairs {
                // From when it has left: 512 bytes and headers, 120 ns at 40 Gb/s, wait for the switch each way.
                let network = pair.network.us(0.5).unwrap();
                assert!((0.25..0.5).contains(&network), "{network}");
                // Who sleeps is woken first.
                let responder = pair.responder.us(0.5).unwrap();
                assert!(responder > 1.0, "{responder}");
            }
            assert!(window.prober.us(0.5).unwrap() > 1.0);
        }
        assert_eq!(mesh.verdict().culprit(), Culprit::Nothing);
    }

    /// A NIC that begins packets ahead has others to send before it asks for more.
    #[test]
    fn a_loaded_nic_says_when_a_probe_has_left() {
        let text = r#"
            end_ms = 8
            share_queue_pairs = true
            topology = { shape = "clos", podsets = 1, tors = 3, leaves = 2, spines = 4, hosts = 4, rate_gbps = 40 }
            switch = { buffer_bytes = 9_000_000 }
            workload = [{ kind = "poisson", load = 0.5, message_bytes = 65_536 }]
        "#;
        let scenario = Scenario::parse(text, None).unwrap();
        let mesh = run(scenario.network, Scale { faster: 300.0, ..scale() }, 8);
        let mut answered = 0;
        for window in mesh.windows() {
            let counts = window.counts();
            assert_eq!((counts.answered, counts.invalid_rtt), (counts.sent, 0), "{counts:?}");
            answered += counts.answered;
        }
        assert!(answered > 200, "{answered}");
    }

    #[test]
    fn a_busy_host_is_not_taken_for_a_network() {
        let mut config = NetworkConfig::new(single_switch(5, CABLES));
        let mut model = host_model().unwrap();
        config.host = Some(model.clone());
        model.cpu.hogs = vec![CORE, CORE];
        config.hosts.insert(3, model);
        // Who sleeps is woken before tasks that never do; who polls has a share of the core.
        let scale = Scale { patience: PATIENCE, receives: 256, polls: true, ..scale() };
        let mesh = run(config, scale, 150);
        let verdict = mesh.verdict();
        assert_eq!(verdict.culprit(), Culprit::Host(3), "{}", verdict.text(mesh.topology()));
        let lost: u64 = mesh.windows().iter().map(|window| window.counts().timeout).sum();
        assert_eq!(lost, 0);
    }

    #[test]
    fn labels_lead_by_several_paths_and_the_vote_finds_the_dead_link_among_them() {
        let shape = ClosShape {
            podsets: 2,
            tors: 2,
            leaves: 2,
            spines: 2,
            hosts: 2,
            host_cables: CABLES,
            tor_cables: CABLES,
            spine_cables: CABLES,
        };
        let mut config = NetworkConfig::new(clos(&shape));
        let topology = config.topology.clone();
        let ends = ["tor1-0", "leaf1-1"].map(|name| topology.find(name).unwrap());
        let at = Time::ZERO + Span::from_ms(12);
        config.faults.push(Fault { at, kind: FaultKind::LinkDown { ends } });
        let mesh = run(config, scale(), 60);
        let paths = |label| mesh.network().datagram_path(0, 7, flow_label(label)).unwrap();
        let different: std::collections::BTreeSet<_> = (0..16).map(paths).collect();
        assert_eq!(different.len(), 2, "{different:?}");
        let verdict = mesh.verdict();
        let truth = Culprit::link(ends[0].into(), ends[1].into());
        assert_eq!(verdict.culprit(), truth, "{}", verdict.text(mesh.topology()));
        assert_eq!(verdict.suspects[0].since_ns, 10_000_000);
    }

    #[test]
    fn a_network_without_two_hosts_is_refused() {
        let config = NetworkConfig::new(single_switch(1, CABLES));
        let end = Time::ZERO + Span::from_ms(1);
        let said = Mesh::new(config, scale(), end).unwrap_err().to_string();
        assert!(said.contains("\nhint: "), "{said}");
    }
}
