//! Two folders that are of one device, as after a copy, a rename or a cloned disk: links and peers are then of either.

use std::collections::BTreeMap;

use super::{Cluster, Named};
use crate::doctor::finding::{Finding, Place, Severity};

const HINT: &str = "keep one of the two, or give each device a name of its own";

/// Of several files for one name the first stays.
pub(super) fn files(device: &str, now: &mut Named<'_>, findings: &mut Vec<Finding>) {
    let mut kept: Option<&str> = None;
    now.retain(|(name, file)| {
        let Some(first) = kept.filter(|_| *name == "config_db.json") else {
            if *name == "config_db.json" {
                kept = Some(&file.path);
            }
            return true;
        };
        let text = format!("{} was not read: {first} is of the same switch.", file.path);
        findings.push(Finding::not_understood(device, Place::of(&file.path), text, HINT));
        false
    });
}

/// Switches with the hostname of another, and hosts with the address of another.
pub(super) fn devices(cluster: &Cluster, findings: &mut Vec<Finding>) {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for switch in cluster.switches.iter().filter(|switch| !switch.hostname.is_empty()) {
        let first = *names.entry(&switch.hostname).or_insert(&switch.name);
        if first != switch.name {
            let text = format!(
                "it calls itself {}, as {first} does: which of the two its neighbours mean is not known.",
                switch.hostname
            );
            findings.push(twin(&switch.name, &switch.file, text));
        }
    }
    let mut addresses: BTreeMap<String, &str> = BTreeMap::new();
    for host in &cluster.hosts {
        // Bridges of containers have the same address everywhere; what carries RDMA has not.
        for (port, own) in host.judged() {
            let Some(mac) = &own.mac else { continue };
            let first = *addresses.entry(mac.to_ascii_lowercase()).or_insert(&host.name);
            if first != host.name {
                let text = format!(
                    "{port} has the address {mac}, as an interface of {first} has: which of the two is at the cable is not known."
                );
                let file = own.mtu.as_ref().map_or(&host.name, |known| &known.place.file);
                findings.push(twin(&host.name, file, text));
                break;
            }
        }
    }
}

fn twin(device: &str, file: &str, text: String) -> Finding {
    Finding::not_understood(device, Place::of(file), text, HINT).severity(Severity::Warning)
}
