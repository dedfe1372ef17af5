//! What may be written in a scenario, table by table. Every table refuses keys that it does not have.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) title: Option<String>,
    pub(super) seed: Option<u64>,
    pub(super) end_ms: f64,
    pub(super) deadlock_check_us: Option<f64>,
    pub(super) sample_us: Option<f64>,
    pub(super) paranoid: Option<bool>,
    pub(super) share_queue_pairs: Option<bool>,
    /// How long routing takes to go round a link that is down; without it, it never does.
    pub(super) reroute_us: Option<f64>,
    pub(super) topology: Spanned<Topology>,
    pub(super) switch: Option<Spanned<Switch>>,
    #[serde(default)]
    pub(super) switches: BTreeMap<String, Spanned<Switch>>,
    pub(super) nic: Option<Spanned<Nic>>,
    #[serde(default)]
    pub(super) nics: BTreeMap<String, Spanned<Nic>>,
    #[serde(default)]
    pub(super) workload: Vec<Spanned<Workload>>,
    #[serde(default)]
    pub(super) fault: Vec<Spanned<Fault>>,
    #[serde(default)]
    pub(super) capture: Vec<Spanned<Capture>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capture {
    pub(super) node: String,
    pub(super) neighbour: Option<String>,
    pub(super) snap_bytes: Option<u32>,
    pub(super) priorities: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Shape {
    BackToBack,
    SingleSwitch,
    LeafSpine,
    Clos,
    FatTree,
    ParkingLot,
    Links,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) shape: Shape,
    pub(super) hosts: Option<u32>,
    pub(super) leaves: Option<u32>,
    pub(super) spines: Option<u32>,
    pub(super) podsets: Option<u32>,
    pub(super) tors: Option<u32>,
    pub(super) switches: Option<u32>,
    pub(super) k: Option<u32>,
    pub(super) rate_gbps: Option<f64>,
    pub(super) uplink_rate_gbps: Option<f64>,
    pub(super) cable_m: Option<u32>,
    pub(super) uplink_cable_m: Option<u32>,
    pub(super) spine_cable_m: Option<u32>,
    #[serde(default)]
    pub(super) switch: Vec<NamedSwitch>,
    #[serde(default)]
    pub(super) host: Vec<String>,
    #[serde(default)]
    pub(super) link: Vec<Spanned<Link>>,
    #[serde(default)]
    pub(super) route: Vec<Spanned<Route>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedSwitch {
    pub(super) name: String,
    pub(super) tier: u8,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) rate_gbps: Option<f64>,
    pub(super) cable_m: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    pub(super) at: String,
    pub(super) to: String,
    pub(super) via: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Trust {
    Dscp,
    Pcp,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PortMode {
    Access,
    Trunk,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Incomplete {
    Flood,
    Drop,
    Cpu,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Balance {
    Flow,
    Packet,
    Flowlet,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WatchdogRule {
    Guo16,
    Broadcom,
    Mellanox,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WatchdogAction {
    Drop,
    Forward,
    Alert,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    /// A SONiC `config_db.json`, beside the scenario. Keys beside it count before what it says.
    pub(super) config_db: Option<String>,
    /// Its port that each link of the switch is at, in the order of the links; otherwise its first.
    pub(super) config_db_ports: Option<Vec<String>>,
    pub(super) trust: Option<Trust>,
    pub(super) server_ports: Option<PortMode>,
    pub(super) buffer_bytes: Option<u32>,
    pub(super) lossless_priorities: Option<Vec<u8>>,
    pub(super) alpha: Option<String>,
    pub(super) threshold_bytes: Option<u32>,
    pub(super) reserve_bytes: Option<u32>,
    pub(super) headroom_bytes: Option<u32>,
    pub(super) headroom_pool_bytes: Option<u32>,
    pub(super) xon_offset_bytes: Option<u32>,
    pub(super) xon_bytes: Option<u32>,
    pub(super) lossy_queue_bytes: Option<u32>,
    pub(super) weights: Option<[u8; 8]>,
    pub(super) strict_queues: Option<Vec<u8>>,
    pub(super) pause_quanta: Option<u16>,
    pub(super) pause_response_quanta: Option<u16>,
    pub(super) latency_ns: Option<f64>,
    pub(super) balance: Option<Balance>,
    pub(super) flowlet_gap_us: Option<f64>,
    pub(super) ecmp_seed: Option<u64>,
    pub(super) incomplete_arp: Option<Incomplete>,
    pub(super) arp_timeout_ms: Option<f64>,
    pub(super) mac_timeout_ms: Option<f64>,
    /// Whether a queue's length at a packet's departure decides on its mark, or that at its arrival.
    pub(super) ecn_mark: Option<EcnMark>,
    pub(super) ecn: Option<Spanned<Ecn>>,
    pub(super) watchdog: Option<Spanned<Watchdog>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EcnMark {
    Departure,
    Arrival,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ecn {
    pub(super) min_bytes: u32,
    pub(super) max_bytes: u32,
    pub(super) max_probability: f64,
    pub(super) queues: Option<Vec<u8>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watchdog {
    pub(super) rule: Option<WatchdogRule>,
    pub(super) action: Option<WatchdogAction>,
    pub(super) poll_ms: f64,
    pub(super) detection_ms: f64,
    pub(super) restoration_ms: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Congestion {
    None,
    Dcqcn,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    pub(super) mtu_bytes: Option<u32>,
    pub(super) recovery: Option<String>,
    pub(super) congestion: Option<Congestion>,
    pub(super) ack_interval_packets: Option<u32>,
    pub(super) window_bytes: Option<u64>,
    pub(super) ack_timeout_code: Option<u8>,
    pub(super) retry_count: Option<u8>,
    pub(super) tagged: Option<bool>,
    pub(super) receive_ns: Option<f64>,
    /// How long a NIC is busy with a packet that it makes, and with a work request.
    pub(super) transmit_ns: Option<f64>,
    pub(super) work_request_ns: Option<f64>,
    pub(super) host_memory: Option<Spanned<HostMemory>>,
    pub(super) tcp: Option<Spanned<Tcp>>,
    pub(super) receive_buffer_bytes: Option<u32>,
    pub(super) xoff_bytes: Option<u32>,
    pub(super) xon_bytes: Option<u32>,
    pub(super) watchdog_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TcpCongestion {
    Reno,
    Cubic,
}

/// The TCP of a host. Between an application and the stack a message is under way for
/// `kernel_floor_us`, and longer by `kernel_mean_us` on average, exponentially distributed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tcp {
    pub(super) mtu_bytes: Option<u16>,
    pub(super) buffer_bytes: Option<u32>,
    pub(super) congestion: Option<TcpCongestion>,
    pub(super) kernel_floor_us: Option<f64>,
    pub(super) kernel_mean_us: Option<f64>,
}

/// What the NIC keeps in its server's memory (guo16, 4.4). An empty table is the NIC of that paper:
/// pages of 4 KB, 2,048 entries of each kind, PCIe Gen3 x8.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostMemory {
    pub(super) page_bytes: Option<u64>,
    pub(super) mtt_entries: Option<u32>,
    pub(super) qpc_entries: Option<u32>,
    /// Entries of a cache that are compared at a time.
    pub(super) ways: Option<u32>,
    pub(super) pcie_gbps: Option<f64>,
    /// What a miss costs.
    pub(super) pcie_read_ns: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WorkloadKind {
    Flow,
    Permutation,
    Incast,
    AllToAll,
    Ring,
    Poisson,
    Trace,
    Queries,
    Probes,
}

/// What carries messages. TCP's are SENDs, and of DSCP 0 unless another is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Service {
    Rc,
    Uc,
    Ud,
    Tcp,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verb {
    Write,
    WriteImmediate,
    Send,
    Read,
    CompareSwap,
    FetchAdd,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) kind: WorkloadKind,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) receiver: Option<String>,
    pub(super) senders: Option<u32>,
    pub(super) service: Option<Service>,
    pub(super) verb: Option<Verb>,
    pub(super) message_bytes: Option<u32>,
    pub(super) messages: Option<u64>,
    pub(super) endless: Option<bool>,
    pub(super) depth: Option<u32>,
    pub(super) queue_pairs: Option<u32>,
    pub(super) start_us: Option<f64>,
    pub(super) dscp: Option<u8>,
    pub(super) reply_bytes: Option<u32>,
    /// Messages are posted by the clock: a message each interval, unless `depth` are under way.
    pub(super) interval_us: Option<f64>,
    /// Intervals are exponential, with `interval_us` for their mean.
    pub(super) interval_random: Option<bool>,
    /// Kind "queries": each of `queriers` asks `fan_out` other hosts, taken at random, at once, each
    /// interval, and gets `reply_bytes` from each.
    pub(super) queriers: Option<Vec<String>>,
    pub(super) fan_out: Option<u32>,
    /// Kind "probes": so many pairs of hosts, taken at random, unless `from` and `to` are given; 512
    /// bytes there and back, each interval.
    pub(super) pairs: Option<u32>,
    /// Messages go to places, taken at random, in so many bytes of the destination's memory.
    pub(super) spread_bytes: Option<u64>,
    pub(super) load: Option<f64>,
    pub(super) until_us: Option<f64>,
    pub(super) sizes: Option<Vec<(u32, f64)>>,
    /// Sizes that are shipped: `web-search`, `hadoop` or `memcached`.
    pub(super) distribution: Option<String>,
    /// Sizes as CSV: `bytes,cumulative`.
    pub(super) distribution_file: Option<String>,
    /// A trace as CSV: `start_us,source,destination,bytes`, and `dscp` and `verb`.
    pub(super) trace_file: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    Drop,
    Damage,
    LinkDown,
    LinkUp,
    LinkFlaps,
    HostDies,
    HostReturns,
    NicStuck,
    NicRepaired,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) at_us: Option<f64>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) host: Option<String>,
    pub(super) probability: Option<f64>,
    pub(super) every: Option<u64>,
    pub(super) ip_id_ends: Option<u8>,
    /// Kind "drop": what one host sends to another, all of it.
    pub(super) source: Option<String>,
    pub(super) destination: Option<String>,
    /// Kind "link-flaps": down for so long, every so often, so many times.
    pub(super) down_us: Option<f64>,
    pub(super) every_us: Option<f64>,
    pub(super) times: Option<u32>,
    pub(super) mac_aged: Option<bool>,
}
