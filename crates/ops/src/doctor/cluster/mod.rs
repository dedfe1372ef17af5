//! What the files say is there: switches, hosts, and the links between them.
//!
//! A device is a folder. It is a switch if it has a `config_db.json`, or other files that only switches have, or if
//! others see a switch's ports of it by LLDP; so is a `NAME.json` beside the folders. Everything else is a host, whose
//! files are named after the command and the interface that they are of.

mod history;
mod host;
mod links;
mod missing;
mod switch;
mod twins;

use std::collections::BTreeMap;

use super::finding::{Finding, Place, Severity};
use super::folder::{File, Folder};

pub use super::source::Trusted;
pub use super::source::queue_pairs::QueuePair;
pub use host::{Gid, Host, Interface, Job, Known, Rdma};
pub use links::{End, Link, Node};
pub(super) use links::{Names, strangers, without_domain};
pub(super) use missing::finding as without_configuration;
pub(super) use switch::of_ports;
pub use switch::{Part, Port, Qos, Switch};

/// Everything that is there.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// In the order of their names.
    pub switches: Vec<Switch>,
    /// In the order of their names.
    pub hosts: Vec<Host>,
    /// Cables, each once.
    pub links: Vec<Link>,
    /// What is at the other end of each end.
    peers: BTreeMap<End, End>,
}

/// Files of the top of a folder that are of no device.
const OF_NO_DEVICE: [&str; 2] = ["desired.toml", "doctor.toml"];
/// Files of a switch's folder.
const OF_SWITCHES: [&str; 4] = ["config_db.json", "lldp.txt", "lldp.json", "version.txt"];

/// The device that a folder is of by itself: its files are where folders of devices should be.
fn itself(folder: &Folder) -> Option<&str> {
    let files = folder.files.iter().map(|file| file.path.as_str());
    let mut is_device = false;
    for path in files.chain(folder.left_out.iter().map(|(path, _)| path.as_str())) {
        match path.split_once('/') {
            Some(("history" | "sys", _)) => {}
            Some((_, rest)) if OF_SWITCHES.contains(&rest) || host::is_of_host(rest) => {
                return None;
            }
            Some(_) => {}
            None if OF_NO_DEVICE.contains(&path) => {}
            None if OF_SWITCHES.contains(&path) || host::is_of_host(path) => is_device = true,
            // A switch beside folders, or a folder that was not read.
            None if path.ends_with(".json") || !path.contains('.') => return None,
            None => {}
        }
    }
    let name = if folder.name.is_empty() { "device" } else { &folder.name };
    is_device.then_some(name)
}

impl Cluster {
    /// Reads every device of a folder; what is not understood becomes findings. No snapshot is later than `latest`, a
    /// date, if that is not empty.
    pub(super) fn of(folder: &Folder, latest: &str) -> (Self, Vec<Finding>) {
        let mut findings = Vec::new();
        let itself = itself(folder);
        for (path, why) in &folder.left_out {
            let device = itself.or(path.split('/').next()).unwrap_or_default();
            let what = format!("{path} was not read: {why}.");
            let hint = "make it a file that can be read, or take it out of the folder";
            findings.push(Finding::not_understood(device, Place::of(path), what, hint));
        }
        let mut devices: BTreeMap<&str, Vec<(&str, &File)>> = BTreeMap::new();
        for file in &folder.files {
            match file.path.split_once('/') {
                _ if OF_NO_DEVICE.contains(&file.path.as_str()) => {}
                _ if itself.is_some() => {
                    let device = itself.unwrap_or_default();
                    devices.entry(device).or_default().push((&file.path, file));
                }
                Some((device, rest)) => devices.entry(device).or_default().push((rest, file)),
                None => {
                    let stem = file.path.trim_end_matches(".json").trim_end_matches(".config_db");
                    devices.entry(stem).or_default().push(("config_db.json", file));
                }
            }
        }
        let mut cluster = Self::default();
        let mut unsure = Vec::new();
        for (name, files) in devices {
            // One whose file was not read is one, too.
            let own = match itself {
                Some(_) => "config_db.json".to_owned(),
                None => format!("{name}/config_db.json"),
            };
            let is_switch = files.iter().any(|(path, _)| *path == "config_db.json")
                || folder.left_out.iter().any(|(path, _)| *path == own);
            let (mut now, snapshots) = history::by_time(name, &files, latest, &mut findings);
            twins::files(name, &mut now, &mut findings);
            if let Some(finding) = missing::nested(name, &now).filter(|_| !is_switch) {
                findings.push(finding);
                continue;
            }
            let sign = if is_switch { None } else { missing::by_files(&now, &snapshots) };
            if is_switch || sign.is_some() {
                let mut switch = Switch::read(name, &now, &mut findings);
                for (stamp, files) in snapshots {
                    let mut wrong = Vec::new();
                    let old = Switch::read(name, &files, &mut wrong);
                    match history::unread(name, wrong) {
                        Some(finding) => findings.push(finding),
                        None => switch.history.push((stamp, old)),
                    }
                }
                cluster.switches.push(switch);
                findings.extend(sign.map(|sign| missing::finding(name, sign)));
            } else {
                if !now.iter().any(|(path, _)| host::is_of_host(path)) {
                    unsure.push((name, now.clone()));
                }
                let Some(mut host) = Host::read(name, &now, &mut findings) else { continue };
                for (stamp, files) in snapshots {
                    let mut wrong = Vec::new();
                    let old = Host::read(name, &files, &mut wrong);
                    match history::unread(name, wrong) {
                        Some(finding) => findings.push(finding),
                        None => host.history.extend(old.map(|old| (stamp, old))),
                    }
                }
                cluster.hosts.push(host);
            }
        }
        for (name, files) in unsure {
            let Some(sign) = missing::by_neighbours(&cluster, name) else { continue };
            findings.push(missing::finding(name, sign));
            cluster.hosts.retain(|host| host.name != name);
            cluster.switches.push(Switch::read(name, &files, &mut Vec::new()));
        }
        cluster.switches.sort_by_key(|switch| super::finding::natural(&switch.name));
        cluster.hosts.sort_by_key(|host| super::finding::natural(&host.name));
        twins::devices(&cluster, &mut findings);
        cluster.links = links::of(&cluster);
        let both = cluster.links.iter().map(|link| &link.ends);
        let both = both.flat_map(|[a, b]| [(a.clone(), b.clone()), (b.clone(), a.clone())]);
        cluster.peers = both.collect();
        (cluster, findings)
    }

    /// A few words: how many of what there are.
    pub fn summary(&self) -> String {
        let count = |number: usize, what: &str, many: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {many}"),
        };
        let jobs: std::collections::BTreeSet<&str> =
            self.hosts.iter().flat_map(|host| host.jobs.keys().map(String::as_str)).collect();
        [
            count(self.switches.len(), "switch", "switches"),
            count(self.hosts.len(), "host", "hosts"),
            count(self.links.len(), "link", "links"),
            count(jobs.len(), "job", "jobs"),
        ]
        .join(", ")
    }

    /// The switch of that name.
    pub fn switch(&self, name: &str) -> Option<&Switch> {
        self.switches.iter().find(|switch| switch.name == name)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// The name of a node.
    pub fn name(&self, node: Node) -> &str {
        match node {
            Node::Switch(index) => self.switches.get(index).map_or("?", |switch| &switch.name),
            Node::Host(index) => self.hosts.get(index).map_or("?", |host| &host.name),
        }
    }

    /// What is at the other end of a port.
    pub fn peer(&self, node: Node, port: &str) -> Option<&End> {
        self.peers.get(&End { node, port: port.to_owned() })
    }
}

type Named<'a> = Vec<(&'a str, &'a File)>;

/// A file that is there and that no reader knows.
fn unknown(device: &str, file: &File) -> Finding {
    let text = file.text();
    let what = match vendor(&text) {
        Some(vendor) => format!("{} is a configuration of {vendor}.", file.path),
        None => format!("{} has no name that is known here.", file.path),
    };
    let finding = Finding::not_understood(
        device,
        Place::of(&file.path),
        what,
        "files are named as `ferroce doctor --collect` writes them; of switches, SONiC's config_db.json is read",
    );
    if vendor(&text).is_some() { finding } else { finding.severity(Severity::Note) }
}

/// Whose configuration a text is, by words that theirs have.
pub(in crate::doctor) fn vendor(text: &str) -> Option<&'static str> {
    let head: String = text.lines().take(60).collect::<Vec<_>>().join("\n");
    let has = |words: &[&str]| words.iter().any(|word| head.contains(word));
    if has(&["! Command: show running-config", "! device:", "EOS-4", "vEOS"]) {
        Some("Arista EOS")
    } else if has(&["!Command: show running-config", "boot nxos", "feature nxapi"]) {
        Some("Cisco NX-OS")
    } else if has(&["openconfig-interfaces:", "ietf-interfaces:", "openconfig-qos:"]) {
        Some("OpenConfig or IETF models, as gNMI and NETCONF give it")
    } else if has(&["set system host-name", "## Last commit", "host-name ", "junos"]) {
        Some("Juniper Junos")
    } else if has(&[
        "nv set ",
        "- set:",
        "auto swp",
        "traffic.packet_priority_source_set",
        "nvue-api-version",
    ]) {
        Some("NVIDIA Cumulus Linux")
    } else if has(&["Building configuration...", "Current configuration"]) {
        Some("Cisco IOS, or one of its kind")
    } else {
        None
    }
}
