//! The counters of this host: files of RDMA devices, what `ethtool`, `dcb` and `rdma` print, and NICs of Ferroce.
//!
//! A program that is not installed, hangs or fails costs its counters alone; the rest is read.

use core::time::Duration;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use ops::watch::{PortName, Raw, dcb, ethtool, rdma, soft, sysfs};

/// The longest answer of a program that is read.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// How long a program may take.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(3);
/// The most interfaces that are asked.
const INTERFACES_MAX: usize = 128;

/// Reads all, or what belongs to an RDMA device and its interface alone.
pub(super) fn read(raw: &mut Raw, root: &Path, only: Option<[&str; 2]>) {
    let is_wanted = |name: &str| only.is_none_or(|only| only.contains(&name));
    devices(raw, &root.join("class/infiniband"), is_wanted);
    // Interfaces of this host can be asked for, those of a copy of its files cannot.
    if root == Path::new("/sys") {
        for netdev in interfaces(raw, root).into_iter().filter(|name| is_wanted(name)) {
            let port = PortName::new(&netdev, "");
            if let Some(text) = output("ethtool", &["-S", &netdev]) {
                // Many drivers have none.
                let _ = ethtool::read(raw, &port, &text);
            }
            if let Some(text) = output("dcb", &["-j", "-s", "pfc", "show", "dev", &netdev]) {
                let _ = dcb::read(raw, &port, &text);
            }
        }
        if !raw.ports().is_empty() {
            for arguments in [&["-j", "statistic", "show"][..], &["-j", "statistic", "qp", "show"]]
            {
                if let Some(text) = output("rdma", arguments) {
                    let _ = rdma::read(raw, "", &text);
                }
            }
        }
    }
    let processes = softnic::counters::read_all().into_iter();
    for process in processes {
        // Names of NICs are each network namespace's own.
        if only.is_some() && !(is_wanted(&process.device) && is_of_this_network(process.pid)) {
            continue;
        }
        let counters = process.counters.iter().map(|(name, value)| (name.as_str(), *value));
        soft::read(raw, &process.device, counters);
    }
}

fn is_of_this_network(pid: u32) -> bool {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    of(&pid.to_string()).is_some_and(|network| Some(network) == of("self"))
}

/// Names of entries of a folder, sorted.
fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn devices(raw: &mut Raw, class: &Path, is_wanted: impl Fn(&str) -> bool) {
    for device in entries(class).into_iter().filter(|name| is_wanted(name)) {
        let folder = class.join(&device);
        for port in entries(&folder.join("ports")) {
            let files = folder.join("ports").join(&port);
            let mut relative = vec![
                "state",
                "phys_state",
                "rate",
                "link_layer",
                "link_width",
                "gid_attrs/ndevs/0",
            ]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>();
            for kind in ["counters", "hw_counters"] {
                relative.extend(
                    entries(&files.join(kind)).into_iter().map(|name| format!("{kind}/{name}")),
                );
            }
            for name in relative {
                // A counter that the device does not have reads as an error.
                let Ok(text) = fs::read_to_string(files.join(&name)) else { continue };
                sysfs::read(raw, "", &format!("infiniband/{device}/ports/{port}/{name}"), &text);
            }
            let info = &mut raw.port(&PortName::new(&device, &port)).info;
            let link = folder.join("device");
            if let Some(address) = fs::canonicalize(&link).ok().as_deref().and_then(Path::file_name)
            {
                info.insert("pci_addr".into(), address.to_string_lossy().into_owned());
            }
            let physical = link.join("physfn");
            info.insert("is_vf".into(), physical.exists().to_string());
            let owner = entries(&physical.join("infiniband")).into_iter().next();
            info.insert("pf_device".into(), owner.unwrap_or_default());
        }
    }
}

/// Interfaces with hardware, and those of RDMA devices.
fn interfaces(raw: &Raw, root: &Path) -> Vec<String> {
    let net = root.join("class/net");
    let mut names: Vec<String> =
        entries(&net).into_iter().filter(|name| net.join(name).join("device").exists()).collect();
    names.extend(
        raw.ports().values().map(|port| port.netdev.clone()).filter(|name| !name.is_empty()),
    );
    names.sort();
    names.dedup();
    names.truncate(INTERFACES_MAX);
    names
}

/// What a program prints, if it is there, ends in time and succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (said, heard) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(OUTPUT_BYTES_MAX).read_to_string(&mut text);
        let _ = said.send(read.ok().map(|_| text));
    });
    let text = heard.recv_timeout(PROGRAM_TIME_MAX).ok().flatten();
    if text.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    let _ = reader.join();
    text.filter(|_| status.success())
}
