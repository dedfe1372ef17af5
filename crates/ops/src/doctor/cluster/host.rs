//! A host: what commands said of its interfaces, RDMA devices and jobs.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::unknown;
use crate::doctor::finding::{Finding, Place};
use crate::doctor::folder::File;
use crate::doctor::limits::{GIDS_MAX, INTERFACES_MAX, QUEUE_PAIRS_MAX};
use crate::doctor::source::lldp::{self, Neighbour};
use crate::doctor::source::queue_pairs::{self, QueuePair};
use crate::doctor::source::sysfs::{self, Fact};
use crate::doctor::source::{Said, Trusted, Wrong, dcb, env, ethtool, mlnx_qos};

/// A value and who says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// The line of the file.
    pub place: Place,
}

impl<T> Known<T> {
    fn of(file: &File, said: Said<T>) -> Self {
        Self { value: said.value, place: Place::new(&file.path, said.line) }
    }

    fn whole(file: &File, value: T) -> Self {
        Self { value, place: Place::of(&file.path) }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// What its folder is called.
    pub name: String,
    /// By name.
    pub interfaces: BTreeMap<String, Interface>,
    /// RDMA devices by name.
    pub devices: BTreeMap<String, Rdma>,
    /// By name, `NCCL_*` and `UCX_*` of its environment.
    pub jobs: BTreeMap<String, Job>,
    /// Queue pairs that programs have logged, by file and number.
    pub queue_pairs: BTreeMap<String, Known<QueuePair>>,
    /// lldpad runs.
    pub lldpad: Option<Place>,
    /// When the newest of its files was written.
    pub modified: Option<SystemTime>,
    /// Older snapshots, the newest last.
    pub history: Vec<(String, Host)>,
    pub(in crate::doctor) neighbours: Vec<Neighbour>,
    pub(in crate::doctor) lldp_file: Option<String>,
}

/// The environment of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Job {
    /// Which says so.
    pub file: String,
    /// By name.
    pub variables: BTreeMap<String, Known<String>>,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// Which field says the priority.
    pub trust: Option<Known<Trusted>>,
    /// Priority by DSCP.
    pub dscp_to_priority: Option<Known<[u8; 64]>>,
    /// A bit for each priority that has PFC.
    pub pfc: Option<Known<u8>>,
    /// The same as dcb says it; `pfc` is what `mlnx_qos` says, where that is there.
    pub pfc_of_dcb: Option<Known<u8>>,
    /// Traffic class by priority.
    pub priority_to_tc: Option<Known<[u8; 8]>>,
    /// Receive buffer by priority.
    pub priority_to_buffer: Option<Known<[u8; 8]>>,
    /// Sizes of the receive buffers, in bytes.
    pub buffers: Option<Known<[u32; 8]>>,
    /// What the NIC takes its cable to be, in metres.
    pub cable_m: Option<Known<u32>>,
    /// Whether the operating system, and not the firmware, sets DCB.
    pub os_controlled: Option<Known<bool>>,
    /// In bytes.
    pub mtu: Option<Known<u32>>,
    /// In Mb/s.
    pub speed_mbps: Option<u64>,
    /// Its address.
    pub mac: Option<String>,
    /// A bit for each priority for whose marks it sends CNPs.
    pub notifies: Option<Known<u8>>,
    /// A bit for each priority that slows down for CNPs.
    pub reacts: Option<Known<u8>>,
    /// The DSCP of its CNPs.
    pub cnp_dscp: Option<Known<u8>>,
    /// Counters of `ethtool -S`.
    pub counters: BTreeMap<String, u64>,
    /// Such as `mlx5_core`.
    pub driver: Option<String>,
    /// As `ethtool -i` says.
    pub firmware: Option<Known<String>>,
}

/// An RDMA device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rdma {
    /// By index.
    pub gids: BTreeMap<usize, Gid>,
    /// The traffic class that is forced upon all its packets.
    pub traffic_class: Option<Known<u8>>,
    /// As sysfs says.
    pub firmware: Option<Known<String>>,
}

/// An entry of a table of GIDs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gid {
    /// In groups of four digits.
    pub value: String,
    /// `IB/RoCE v1` or `RoCE v2`.
    pub kind: String,
    /// Its interface.
    pub interface: String,
    /// Where its kind stands.
    pub place: Place,
}

impl Gid {
    /// Whether it is an address.
    pub fn is_set(&self) -> bool {
        self.value.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0')
    }
}

/// A file's name in its parts: `COMMAND.WHAT.txt`.
fn parts(path: &str) -> Option<(&str, &str)> {
    let (stem, extension) = path.rsplit_once('.')?;
    let known = matches!(extension, "txt" | "json");
    known.then(|| stem.split_once('.').unwrap_or((stem, "")))
}

/// Whether a file is one that hosts alone have: switches have LLDP and a version, too.
pub(super) fn is_of_host(path: &str) -> bool {
    let command = parts(path).map(|(command, _)| command);
    path.starts_with("sys/")
        || command.is_some_and(|command| {
            let of_hosts = ["mlnx_qos", "ethtool-S", "ethtool-i", "sysfs", "env", "qp", "lldpad"];
            of_hosts.contains(&command) || command.starts_with("dcb-")
        })
}

/// Whether a line says something of lldpad: a state of `systemctl is-active`, or a line of ps, which has a number.
fn is_of_lldpad(line: &str) -> bool {
    let states = [
        "inactive",
        "failed",
        "activating",
        "deactivating",
        "reloading",
        "refreshing",
        "maintenance",
        "unknown",
    ];
    let mut words = line.split_whitespace().take(2);
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    states.contains(&line.trim()) || words.any(|word| is_number(word) || word == "PID")
}

impl Host {
    /// Nothing if there is no file that is of a host.
    pub(super) fn read(
        name: &str,
        files: &[(&str, &File)],
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let mut host = Self { name: name.to_owned(), ..Self::default() };
        let mut any = false;
        for &(path, file) in files {
            host.modified = host.modified.max(file.modified);
            match host.read_file(path, file) {
                Ok(true) => any = true,
                Ok(false) => findings.push(unknown(name, file)),
                Err(wrong) => {
                    any = true;
                    let place = Place { file: file.path.clone(), line: wrong.line };
                    let what = format!("{}: {}.", file.path, wrong.what);
                    findings.push(Finding::not_understood(name, place, what, wrong.hint));
                }
            }
        }
        any.then_some(host)
    }

    /// Whether the file's name is known.
    fn read_file(&mut self, path: &str, file: &File) -> Result<bool, Wrong> {
        if path.starts_with("sys/") {
            if let Some(fact) = sysfs::fact(path, &file.text()) {
                self.take(fact, Place::new(&file.path, 1));
            }
            return Ok(true);
        }
        let Some((command, of)) = parts(path) else { return Ok(false) };
        let text = file.text();
        match (command, of) {
            ("mlnx_qos", interface) if !interface.is_empty() => {
                let said = mlnx_qos::read(&text)?;
                self.take_mlnx_qos(interface, file, said);
            }
            ("dcb-pfc" | "dcb-app" | "dcb-ets" | "dcb-buffer", interface)
                if !interface.is_empty() =>
            {
                let said = dcb::read(&text)?;
                self.take_dcb(interface, file, &said);
            }
            ("ethtool-S", interface) if !interface.is_empty() => {
                let counters = ethtool::counters(&text)?;
                if let Some(own) = self.interface(interface) {
                    own.counters = counters;
                }
            }
            ("ethtool-i", interface) if !interface.is_empty() => {
                let said = ethtool::driver(&text)?;
                if let Some(own) = self.interface(interface) {
                    own.driver = said.driver;
                    let line = said.line;
                    own.firmware = said.firmware.map(|value| Known::of(file, Said { value, line }));
                }
            }
            ("sysfs", _) => {
                let (facts, any) = sysfs::read(&text);
                if !any {
                    let hint = "take it again: grep -R . /sys/class/... > sysfs.txt";
                    return Err(Wrong::whole("it has no line that begins with /sys/", hint));
                }
                for fact in facts {
                    self.take(fact.value, Place::new(&file.path, fact.line));
                }
            }
            ("lldp", "") => {
                self.neighbours = lldp::read(&text)?;
                self.lldp_file = Some(file.path.clone());
            }
            ("env", job) if !job.is_empty() => {
                let variables = env::read(&text)?.into_iter();
                let variables = variables.map(|(name, said)| (name, Known::of(file, said)));
                let variables = variables.collect();
                self.jobs.insert(job.to_owned(), Job { file: file.path.clone(), variables });
            }
            ("qp", of) if !of.is_empty() => {
                for said in queue_pairs::read(&text).into_iter().take(QUEUE_PAIRS_MAX) {
                    let name = format!("{} of {of}", said.value.name);
                    self.queue_pairs.insert(name, Known::of(file, said));
                }
            }
            ("lldpad", "") => {
                // `systemctl is-active lldpad`, or lines of ps.
                let running = |line: &str| {
                    line.trim() == "active"
                        || line
                            .split_whitespace()
                            .any(|word| word.rsplit('/').next() == Some("lldpad"))
                };
                if let Some(number) = text.lines().position(running) {
                    self.lldpad = Some(Place::new(&file.path, number + 1));
                } else if !text.trim().is_empty() && !text.lines().any(is_of_lldpad) {
                    let what = "it is neither a word of systemctl is-active nor lines of ps";
                    let hint = "take it again: systemctl is-active lldpad > lldpad.txt";
                    return Err(Wrong::whole(what, hint));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The interface of that name; `None` if there are too many.
    fn interface(&mut self, name: &str) -> Option<&mut Interface> {
        let room = self.interfaces.len() < INTERFACES_MAX || self.interfaces.contains_key(name);
        room.then(|| self.interfaces.entry(name.to_owned()).or_default())
    }

    fn device(&mut self, name: &str) -> Option<&mut Rdma> {
        let room = self.devices.len() < INTERFACES_MAX || self.devices.contains_key(name);
        room.then(|| self.devices.entry(name.to_owned()).or_default())
    }

    fn take_mlnx_qos(&mut self, interface: &str, file: &File, said: mlnx_qos::MlnxQos) {
        if let Some(said) = said.lldpad {
            self.lldpad = Some(Place::new(&file.path, said.line));
        }
        let Some(own) = self.interface(interface) else { return };
        own.trust = said.trust.map(|said| Known::of(file, said));
        own.dscp_to_priority = said.dscp_to_priority.map(|said| Known::of(file, said));
        own.pfc = said.pfc.map(|said| Known::of(file, said));
        own.priority_to_tc = said.priority_to_tc.map(|said| Known::of(file, said));
        own.priority_to_buffer = said.priority_to_buffer.map(|said| Known::of(file, said));
        own.buffers = said.buffers.map(|said| Known::of(file, said));
        own.cable_m = said.cable_m.map(|said| Known::of(file, said));
        own.os_controlled = said.os_controlled.map(|said| Known::of(file, said));
    }

    /// What `mlnx_qos` says as well it says first.
    fn take_dcb(&mut self, interface: &str, file: &File, said: &dcb::Dcb) {
        let Some(own) = self.interface(interface) else { return };
        fn fill<T: Copy>(slot: &mut Option<Known<T>>, file: &File, said: Option<T>) {
            if slot.is_none() {
                *slot = said.map(|value| Known::whole(file, value));
            }
        }
        fill(&mut own.pfc, file, said.pfc);
        fill(&mut own.pfc_of_dcb, file, said.pfc);
        fill(&mut own.priority_to_tc, file, said.priority_to_tc);
        fill(&mut own.priority_to_buffer, file, said.priority_to_buffer);
        fill(&mut own.buffers, file, said.buffers);
        fill(&mut own.dscp_to_priority, file, said.dscp_to_priority);
        if said.has_dscp {
            // A driver of dcbnl trusts DSCPs as soon as one has a priority.
            fill(&mut own.trust, file, Some(Trusted::Dscp));
        }
    }

    fn take(&mut self, fact: Fact, place: Place) {
        let set = |slot: &mut Option<Known<u8>>, priority: u8, on: bool, place: Place| {
            let known = slot.get_or_insert(Known { value: 0, place });
            known.value |= u8::from(on) << priority;
        };
        match fact {
            Fact::Firmware { device, version } => {
                if let Some(own) = self.device(&device) {
                    own.firmware = Some(Known { value: version, place });
                }
            }
            Fact::TrafficClass { device, value } => {
                if let Some(own) = self.device(&device) {
                    own.traffic_class = Some(Known { value, place });
                }
            }
            Fact::Gid { device, index, value } => {
                if let Some(gid) = self.gid(&device, index) {
                    gid.value = value;
                }
            }
            Fact::GidType { device, index, value } => {
                if let Some(gid) = self.gid(&device, index) {
                    (gid.kind, gid.place) = (value, place);
                }
            }
            Fact::GidDevice { device, index, interface } => {
                if let Some(gid) = self.gid(&device, index) {
                    gid.interface = interface;
                }
            }
            Fact::Mtu { interface, bytes } => {
                if let Some(own) = self.interface(&interface) {
                    own.mtu = Some(Known { value: bytes, place });
                }
            }
            Fact::Address { interface, mac } => {
                if let Some(own) = self.interface(&interface) {
                    own.mac = Some(mac);
                }
            }
            Fact::Speed { interface, mbps } => {
                if let Some(own) = self.interface(&interface) {
                    own.speed_mbps = Some(mbps).filter(|mbps| (1..=100_000_000).contains(mbps));
                }
            }
            Fact::Notifies { interface, priority, on } => {
                if let Some(own) = self.interface(&interface) {
                    set(&mut own.notifies, priority, on, place);
                }
            }
            Fact::Reacts { interface, priority, on } => {
                if let Some(own) = self.interface(&interface) {
                    set(&mut own.reacts, priority, on, place);
                }
            }
            Fact::CnpDscp { interface, dscp } => {
                if let Some(own) = self.interface(&interface) {
                    own.cnp_dscp = Some(Known { value: dscp, place });
                }
            }
        }
    }

    fn gid(&mut self, device: &str, index: usize) -> Option<&mut Gid> {
        let own = self.device(device)?;
        (index < GIDS_MAX).then(|| own.gids.entry(index).or_default())
    }

    /// The firmware of its first NIC that says one.
    pub(in crate::doctor) fn firmware(&self) -> Option<String> {
        let of_nics = self.interfaces.values().filter_map(|own| own.firmware.as_ref());
        let of_devices = self.devices.values().filter_map(|own| own.firmware.as_ref());
        of_nics.chain(of_devices).next().map(|known| known.value.clone())
    }

    /// The interfaces that carry RDMA: those whose DCB is known, or that a device with GIDs has.
    pub fn judged(&self) -> impl Iterator<Item = (&String, &Interface)> {
        self.interfaces.iter().filter(|(_, interface)| {
            interface.pfc.is_some() || interface.dscp_to_priority.is_some()
        })
    }
}
