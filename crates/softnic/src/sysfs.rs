//! The devices as files, as the kernel shows those that it knows in `/sys` and `/dev`.
//!
//! ```text
//!   sys-<netns>-<hash>/dev/infiniband/uverbs0 ─────────────► /dev/null
//!                     /sys/class/infiniband/ferroce0 ──────► devices/virtual/ferroce/0/infiniband/ferroce0
//!                     /sys/class/infiniband_verbs/uverbs0 ─► .../0/infiniband_verbs/uverbs0
//!                     /sys/devices/virtual/ferroce/0/net/eth0 ─► /sys/class/net/eth0
//! ```
//!
//! Programs that look for a device there before they open it find nothing without a kernel driver.
//! A small library (`crates/ibverbs/preload/paths.c`) sends them to this folder instead, where links
//! lead as they do in the kernel's. Nobody talks to the character device: being one, and open to
//! the user, is all that is asked of it, so it is the one that everybody has.
//!
//! **Invariant:** a folder with this name is complete. It is made under another one, and renamed. When it goes:
//! `host/device_files.rs`.
//!
//! **Deliberately absent:** counters, which change: `ferroce counters` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rdma::Gid;

use crate::SettingError;
use crate::device::DeviceInfo;
use crate::host::{device_files, runtime};

/// The variable that names the folder to programs.
pub const VARIABLE: &str = "FERROCE_SYSFS";

/// The numbers of `/dev/null`.
const NULL_DEVICE: &str = "1:3";

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Entry {
    File(String),
    /// A link to a path that stands as it is.
    Link(PathBuf),
}

/// Files and links by their path in the folder.
type Tree = BTreeMap<PathBuf, Entry>;

/// Lays the devices out below the runtime directory of the user, unless they are there already,
/// and returns the folder that stands for `/`. Those that nobody needs any more go.
///
/// # Errors
/// There is no runtime directory, or it cannot be written to.
pub fn lay_out(devices: &[DeviceInfo]) -> io::Result<PathBuf> {
    let runtime = runtime::directory()?;
    let now = SystemTime::now();
    device_files::remove_unused(&runtime, now);
    let tree = tree(devices);
    let lab = devices.iter().find_map(|device| device.lab.as_ref());
    let namespace = lab.map_or_else(runtime::network_namespace, |site| site.namespace);
    let folder = runtime.join(device_files::name(namespace, &tree));
    if !is_used(&folder, now) {
        make(&tree, &folder)?;
    }
    Ok(folder)
}

/// Lays the devices out anew where [`VARIABLE`] says, if that folder has gone: the program that was
/// told of it has run for longer than folders are kept.
///
/// # Errors
/// There is no such folder, and it is none of those that are made.
pub fn restore(devices: &[DeviceInfo]) -> Result<(), SettingError> {
    let folder = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    folder.map_or(Ok(()), |folder| restore_at(Path::new(&folder), devices))
}

fn restore_at(folder: &Path, devices: &[DeviceInfo]) -> Result<(), SettingError> {
    if folder.is_absolute() && folder.is_dir() {
        return Ok(());
    }
    // Nothing is made where we would not have made it.
    if folder.parent().is_none_or(|parent| runtime::existing().as_deref() != Some(parent)) {
        let problem = format!("there is no folder `{}`, as a whole path", folder.display());
        let hint = "leave it out: `ferroce run` makes one; without it the devices have no files in /sys and /dev";
        return Err(SettingError::new(VARIABLE, problem, hint));
    }
    if let Err(error) = make(&tree(devices), folder) {
        tracing::warn!("{}: {error}", folder.display());
    }
    Ok(())
}

/// Whether the folder is there; if so, it was asked for now.
fn is_used(folder: &Path, now: SystemTime) -> bool {
    let times = FileTimes::new().set_modified(now);
    File::open(folder).is_ok_and(|file| file.set_times(times).is_ok())
}

fn make(tree: &Tree, folder: &Path) -> io::Result<()> {
    let making = folder.with_extension(std::process::id().to_string());
    let made = hold(&making).and_then(|_held| {
        write(tree, &making)?;
        match fs::rename(&making, folder) {
            // Somebody else was faster, with the same content.
            Err(_) if folder.is_dir() => fs::remove_dir_all(&making),
            renamed => renamed,
        }
    });
    made.inspect_err(|_| {
        // What is left of it is removed when it is old, if not now.
        let _ = fs::remove_dir_all(&making);
    })
}

/// Makes a folder and holds its lock: whoever sees it unlocked may remove it.
fn hold(folder: &Path) -> io::Result<File> {
    // Of an earlier process with our ID, which was killed.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder)?;
    let held = File::open(folder)?;
    held.lock_shared()?;
    Ok(held)
}

/// Files of the same content are one, so that a folder costs a few pages of memory.
fn write(tree: &Tree, folder: &Path) -> io::Result<()> {
    let folders: BTreeSet<&Path> = tree.keys().filter_map(|path| path.parent()).collect();
    for path in folders {
        fs::create_dir_all(folder.join(path))?;
    }
    let mut written: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for (path, entry) in tree {
        let path = folder.join(path);
        match entry {
            Entry::Link(target) => symlink(target, path)?,
            Entry::File(content) => match written.get(content.as_str()) {
                Some(same) => fs::hard_link(same, path)?,
                None => {
                    fs::write(&path, content)?;
                    written.insert(content, path);
                }
            },
        }
    }
    Ok(())
}

fn tree(devices: &[DeviceInfo]) -> Tree {
    let mut tree = Tree::new();
    // There with no device as well, as with the kernel's modules and no hardware.
    tree.insert("sys/class/infiniband_verbs/abi_version".into(), Entry::File("6\n".to_owned()));
    for device in devices {
        add(&mut tree, device);
    }
    tree
}

fn add(tree: &mut Tree, device: &DeviceInfo) {
    let DeviceInfo { name, index, .. } = device;
    let parent = format!("devices/virtual/ferroce/{index}");
    let rdma = format!("sys/{parent}/infiniband/{name}");
    let verbs = format!("sys/{parent}/infiniband_verbs/uverbs{index}");
    let mut file = |path: String, content: &str| {
        tree.insert(path.into(), Entry::File(format!("{content}\n")));
    };

    // The kernel's answer for a device that belongs to no node.
    file(format!("sys/{parent}/numa_node"), "-1");
    let guid = words(&device.guid.to_be_bytes());
    file(format!("{rdma}/node_guid"), &guid);
    file(format!("{rdma}/sys_image_guid"), &guid);
    file(format!("{rdma}/node_type"), "1: CA");
    file(format!("{rdma}/node_desc"), name);
    file(format!("{rdma}/fw_ver"), env!("CARGO_PKG_VERSION"));
    // Read by `ibstat` and `ibstatus`.
    file(format!("{rdma}/hw_rev"), "0x0");
    file(format!("{rdma}/hca_type"), "Ferroce soft NIC");
    file(format!("{rdma}/board_id"), "");
    file(format!("{verbs}/ibdev"), name);
    file(format!("{verbs}/dev"), NULL_DEVICE);
    file(format!("{verbs}/abi_version"), "1");

    let port = format!("{rdma}/ports/1");
    let (state, physical) =
        if device.link_up { ("4: ACTIVE", "5: LinkUp") } else { ("1: DOWN", "3: Disabled") };
    file(format!("{port}/state"), state);
    file(format!("{port}/phys_state"), physical);
    file(format!("{port}/link_layer"), "Ethernet");
    file(format!("{port}/rate"), rate(device.speed_mbps()));
    file(format!("{port}/cap_mask"), "0x00010000");
    // Addresses of InfiniBand, of which an Ethernet port has none.
    for absent in ["lid", "sm_lid"] {
        file(format!("{port}/{absent}"), "0x0");
    }
    for absent in ["lid_mask_count", "sm_sl"] {
        file(format!("{port}/{absent}"), "0");
    }
    file(format!("{port}/pkeys/0"), "0xffff");
    for entry in &device.gids {
        let Gid(octets) = entry.gid;
        file(format!("{port}/gids/{}", entry.index), &words(&octets));
        file(format!("{port}/gid_attrs/types/{}", entry.index), "RoCE v2");
        file(format!("{port}/gid_attrs/ndevs/{}", entry.index), &device.interface);
    }

    let mut link = |path: String, target: String| {
        tree.insert(path.into(), Entry::Link(target.into()));
    };
    link(format!("dev/infiniband/uverbs{index}"), "/dev/null".to_owned());
    let interface = &device.interface;
    link(format!("sys/{parent}/net/{interface}"), format!("/sys/class/net/{interface}"));
    link(format!("{rdma}/device"), "../..".to_owned());
    link(format!("{verbs}/device"), "../..".to_owned());
    let class = format!("sys/class/infiniband/{name}");
    link(class, format!("../../{parent}/infiniband/{name}"));
    let class = format!("sys/class/infiniband_verbs/uverbs{index}");
    link(class, format!("../../{parent}/infiniband_verbs/uverbs{index}"));
}

/// How the kernel writes the rate of an Ethernet port that is so fast, in the lanes and speeds of InfiniBand.
fn rate(mbps: u32) -> &'static str {
    const RATES: [(u32, &str); 8] = [
        (400_000, "400 Gb/sec (4X NDR)"),
        (200_000, "200 Gb/sec (4X HDR)"),
        (100_000, "100 Gb/sec (4X EDR)"),
        (50_000, "50 Gb/sec (1X HDR)"),
        (40_000, "40 Gb/sec (4X QDR)"),
        (25_000, "25 Gb/sec (1X EDR)"),
        (10_000, "10 Gb/sec (1X QDR)"),
        (0, "2.5 Gb/sec (1X SDR)"),
    ];
    RATES.iter().find(|(least, _)| mbps >= *least).map_or("", |(_, text)| *text)
}

/// Octets in groups of two, as the kernel writes GUIDs and GIDs.
fn words(octets: &[u8]) -> String {
    let (pairs, _) = octets.as_chunks();
    let words: Vec<String> =
        pairs.iter().map(|[a, b]: &[u8; 2]| format!("{a:02x}{b:02x}")).collect();
    words.join(":")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    fn device(interface: &str) -> DeviceInfo {
        DeviceInfo::find(interface, 0).unwrap()
    }

    /// A folder of the runtime directory that no test and no program shares.
    fn scratch(what: &str) -> PathBuf {
        let namespace = runtime::network_namespace();
        let name = device_files::name(namespace, &(what, std::process::id()));
        runtime::directory().unwrap().join(name)
    }

    #[test]
    fn a_device_is_found_by_the_paths_of_the_kernel() {
        let root = lay_out(&[device("lo/127.0.38.1")]).unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let port = "sys/class/infiniband/ferroce0/ports/1";
        assert_eq!(read(&format!("{port}/state")), "4: ACTIVE\n");
        assert_eq!(read(&format!("{port}/rate")), "100 Gb/sec (4X EDR)\n");
        assert_eq!(read(&format!("{port}/gid_attrs/types/1")), "RoCE v2\n");
        assert_eq!(read(&format!("{port}/gid_attrs/ndevs/1")), "lo\n");
        let gid = read(&format!("{port}/gids/1"));
        assert_eq!(gid, "0000:0000:0000:0000:0000:ffff:7f00:2601\n");
        assert_eq!(read("sys/class/infiniband/ferroce0/node_guid"), "00fe:7fff:fe00:2601\n");
        assert_eq!(read("sys/class/infiniband_verbs/uverbs0/ibdev"), "ferroce0\n");
        assert_eq!(read("sys/class/infiniband_verbs/uverbs0/device/numa_node"), "-1\n");

        let interfaces = fs::read_dir(root.join("sys/class/infiniband/ferroce0/device/net"));
        let names: Vec<_> = interfaces.unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["lo"]);
        let node = fs::metadata(root.join("dev/infiniband/uverbs0")).unwrap();
        assert!(node.file_type().is_char_device());
    }

    #[test]
    fn the_same_devices_share_a_folder_and_others_do_not() {
        let first = lay_out(&[device("lo/127.0.38.2")]).unwrap();
        let content = first.join("sys/class/infiniband_verbs/abi_version");
        let made = fs::metadata(&content).unwrap().modified().unwrap();
        assert_eq!(lay_out(&[device("lo/127.0.38.2")]).unwrap(), first);
        assert_eq!(fs::metadata(&content).unwrap().modified().unwrap(), made);
        assert_ne!(lay_out(&[device("lo/127.0.38.3")]).unwrap(), first);
    }

    #[test]
    fn a_host_without_devices_has_empty_classes() {
        let root = lay_out(&[]).unwrap();
        assert!(root.join("sys/class/infiniband_verbs/abi_version").is_file());
        assert!(!root.join("dev/infiniband").exists());
    }

    #[test]
    fn the_first_of_two_makers_is_kept() {
        let folder = scratch("race");
        let tree = tree(&[device("lo/127.0.38.4")]);
        make(&tree, &folder).unwrap();
        make(&tree, &folder).unwrap();
        assert!(!folder.with_extension(std::process::id().to_string()).exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_has_gone_comes_back_where_it_was_and_nowhere_else() {
        let folder = scratch("gone");
        restore_at(&folder, &[device("lo/127.0.38.5")]).unwrap();
        assert!(folder.join("sys/class/infiniband/ferroce0").is_dir());
        fs::remove_dir_all(&folder).unwrap();
        let elsewhere = std::env::temp_dir().join(folder.file_name().unwrap());
        for wrong in [elsewhere.as_path(), Path::new("."), Path::new("/dev/null")] {
            let said = restore_at(wrong, &[]).unwrap_err().to_string();
            let problem = format!("FERROCE_SYSFS: there is no folder `{}`", wrong.display());
            assert!(said.starts_with(&problem) && said.contains("\nhint: leave it out"), "{said}");
        }
        assert!(!elsewhere.exists());
        assert!(restore_at(&std::env::temp_dir(), &[]).is_ok(), "what is in it is the user's");
    }
}
