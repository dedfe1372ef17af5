//! Switches whose `config_db.json` is not there, known by what else is: taken for hosts they would be healthy.

use super::host::is_of_host;
use super::{Cluster, Named, without_domain};
use crate::doctor::finding::{Finding, Place};
use crate::doctor::source::lldp::Neighbour;

/// Why a folder is a switch's, by its own files.
pub(super) fn by_files(now: &Named<'_>, then: &[(String, Named<'_>)]) -> Option<(String, Place)> {
    if now.iter().any(|(path, _)| is_of_host(path)) {
        return None;
    }
    let own = now.iter().find_map(|(path, file)| {
        let text = file.text();
        let why = match *path {
            "version.txt" if text.contains("Software Version:") => "is what `show version` prints",
            "lldp.txt" if text.contains("LocalPort") => "is what `show lldp table` prints",
            _ if path.starts_with("config_db") => "is like it, and is not read",
            _ => return None,
        };
        Some((format!("{} {why}", file.path), Place::of(&file.path)))
    });
    let old = || {
        let all = then.iter().flat_map(|(_, files)| files);
        let (_, file) = all.into_iter().find(|(path, _)| *path == "config_db.json")?;
        Some((format!("{} is an older one", file.path), Place::of(&file.path)))
    };
    own.or_else(old)
}

/// That a folder is no device's, and has folders of devices: a cluster within the one that was named.
pub(super) fn nested(name: &str, now: &Named<'_>) -> Option<Finding> {
    let is_of_device = |path: &str| {
        let file = path.rsplit_once('/').map(|(_, file)| file);
        file.is_some_and(|file| file == "config_db.json" || is_of_host(file))
    };
    if now.iter().any(|(path, _)| is_of_host(path)) {
        return None;
    }
    let (path, file) = now.iter().find(|(path, _)| is_of_device(path))?;
    let (inner, _) = path.split_once('/')?;
    let text = format!("{name} is no device, and was not judged: {name}/{inner} is like one.");
    let hint =
        format!("name the folder that has the folders of devices: ferroce doctor .../{name}");
    Some(Finding::not_understood(name, Place::of(&file.path), text, hint).key(name))
}

/// Why a folder is a switch's, by the LLDP of others: a port of it is called as SONiC's are.
pub(super) fn by_neighbours(cluster: &Cluster, name: &str) -> Option<(String, Place)> {
    let sonic = |port: &String| {
        let number = port.strip_prefix("Ethernet").filter(|digits| !digits.is_empty());
        number.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let of = |neighbours: &[Neighbour], file: &Option<String>| {
        let named = |there: &&Neighbour| {
            without_domain(&there.device) == without_domain(name) && there.ports.iter().any(sonic)
        };
        let there = neighbours.iter().find(named)?;
        let file = file.clone()?;
        let port = there.ports.iter().find(|port| sonic(port))?;
        Some((format!("{file} has its port {port}"), Place { file, line: there.line }))
    };
    let mut hosts = cluster.hosts.iter();
    let by_host = hosts.find_map(|host| of(&host.neighbours, &host.lldp_file));
    let mut switches = cluster.switches.iter();
    by_host.or_else(|| switches.find_map(|switch| of(&switch.neighbours, &switch.lldp_file)))
}

/// That it is missing.
pub(in crate::doctor) fn finding(device: &str, (why, place): (String, Place)) -> Finding {
    let own = format!("{device}/config_db.json");
    let text = format!("{own} is not there, and {device} is a switch: {why}.");
    let hint = "take it there: show runningconfiguration all > config_db.json";
    Finding::not_understood(device, place, text, hint).key(own)
}
