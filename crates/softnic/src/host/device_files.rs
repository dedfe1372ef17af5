//! The folders with the devices' files (`sysfs.rs`): how they are called, and when they go.
//!
//! ```text
//!   sys-<netns>-<hash>        this user has no process in that network namespace any more,
//!                             or nobody has asked for it in a week
//!   sys-<netns>-<hash>.<pid>  is being made: nobody holds its lock
//! ```
//!
//! Programs cannot hold a lock on their folder: many close all files that they have not opened. Of a lab it goes with
//! the lab (`lab/`).
//!
//! **Deliberately absent:** processes that share this directory from another PID namespace and are not seen from here.
//! Their folder is made anew when they open a device.

use core::hash::{Hash, Hasher};
use std::collections::BTreeSet;
use std::fs;
use std::hash::DefaultHasher;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::host::run_folder;
use crate::host::runtime::{self, LABS};
use crate::limits::{SWEEP_INTERVAL, SYSFS_DAYS};
use crate::sys;

const PREFIX: &str = "sys-";
/// What `/proc/self/uid_map` is outside of user namespaces (user_namespaces(7)).
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

/// The name of the folder with this content.
pub(crate) fn name(namespace: u64, content: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{PREFIX}{namespace}-{:016x}", hasher.finish())
}

/// Removes the folders that nobody needs. One that cannot be removed stays.
pub(crate) fn remove_unused(directory: &Path, now: SystemTime) {
    let ours = runtime::network_namespace();
    let mut inhabited = None;
    for path in folders(directory) {
        if path.extension().is_some() {
            run_folder::remove_unattended(&path);
            continue;
        }
        let is_deserted = namespace_of(&path).is_some_and(|namespace| {
            namespace != ours
                && !LABS.contains(&namespace)
                && inhabited
                    .get_or_insert_with(inhabited_namespaces)
                    .as_ref()
                    .is_some_and(|inhabited| !inhabited.contains(&namespace))
        });
        // After that was found out: somebody may have come meanwhile.
        let is_fresh = runtime::is_older(&path, SWEEP_INTERVAL) != Some(true);
        if is_old(&path, now) || is_deserted && !is_fresh {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    ours.map(|entry| entry.path()).collect()
}

fn namespace_of(folder: &Path) -> Option<u64> {
    let name = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    name.split_once('-')?.0.parse().ok()
}

fn is_old(folder: &Path, now: SystemTime) -> bool {
    let modified = folder.metadata().and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
    age.is_some_and(|age| age.as_secs() > SYSFS_DAYS * 24 * 60 * 60)
}

/// The network namespaces in which this user has processes; `None` where not all of those can be seen, as from within a
/// user namespace. Outside of one, a process that cannot be seen is a protected one, and does not use devices.
fn inhabited_namespaces() -> Option<BTreeSet<u64>> {
    let users = fs::read_to_string("/proc/self/uid_map").ok()?;
    let is_outside = users.split_whitespace().eq(ALL_USERS);
    let mut namespaces = BTreeSet::new();
    for process in fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path()) {
        match fs::metadata(process.join("ns/net")) {
            Ok(namespace) => {
                namespaces.insert(namespace.ino());
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_outside => {
                let is_ours = |metadata: fs::Metadata| metadata.uid() == sys::user();
                if fs::metadata(&process).is_ok_and(is_ours) {
                    return None;
                }
            }
            // No process, or one that has ended.
            Err(_) => {}
        }
    }
    namespaces.contains(&runtime::network_namespace()).then_some(namespaces)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::fs::{File, FileTimes};
    use std::process::{Command, Stdio};

    use super::*;

    /// A folder that was asked for so long ago.
    fn folder(namespace: u64, content: &str, seconds: u64) -> PathBuf {
        let path = runtime::directory().unwrap().join(name(namespace, &content));
        fs::create_dir_all(path.join("sys/class")).unwrap();
        let asked = SystemTime::now() - Duration::from_secs(seconds);
        let times = FileTimes::new().set_modified(asked);
        File::open(&path).unwrap().set_times(times).unwrap();
        path
    }

    fn remove() {
        remove_unused(&runtime::directory().unwrap(), SystemTime::now());
    }

    #[test]
    fn a_folder_goes_with_the_last_process_of_its_namespace() {
        let own = runtime::network_namespace();
        let of_ours = folder(own, "ours", 60);
        // No network namespace has this number, and the second is of a lab.
        let (deserted, of_lab) = (folder(7, "deserted", 60), folder(LABS.start, "lab", 60));
        let fresh = folder(7, "fresh", 0);
        remove();
        assert!(!deserted.exists());
        assert!(of_ours.exists() && of_lab.exists() && fresh.exists());
        for folder in [of_ours, of_lab, fresh] {
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn a_namespace_is_inhabited_for_as_long_as_a_process_is_in_it() {
        let Some(before) = inhabited_namespaces() else { return };
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "cat"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let namespace = format!("/proc/{}/ns/net", child.id());
        let own = runtime::network_namespace();
        let other = loop {
            let Ok(metadata) = fs::metadata(&namespace) else { break None };
            if metadata.ino() != own {
                break Some(metadata.ino());
            }
            if child.try_wait().unwrap().is_some() {
                println!("not tested: no namespaces may be made here");
                return;
            }
        };
        let during = inhabited_namespaces().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        let other = other.unwrap();
        assert!(!before.contains(&other) && during.contains(&other) && during.contains(&own));
        assert!(!inhabited_namespaces().unwrap().contains(&other));
    }

    #[test]
    fn a_folder_that_nobody_asks_for_goes_after_a_week() {
        let week = SYSFS_DAYS * 24 * 60 * 60;
        let own = runtime::network_namespace();
        let (old, recent) = (folder(own, "old", week * 2), folder(own, "recent", week / 2));
        remove();
        assert!(!old.exists() && recent.exists());
        fs::remove_dir_all(recent).unwrap();
    }

    #[test]
    fn what_a_killed_process_was_making_goes_and_what_somebody_makes_stays() {
        let own = runtime::network_namespace();
        let [left, making] = ["left", "making"].map(|content| {
            let folder = folder(own, content, 60);
            let unfinished = folder.with_extension("4711");
            fs::rename(&folder, &unfinished).unwrap();
            unfinished
        });
        let lock = File::open(&making).unwrap();
        lock.lock_shared().unwrap();
        remove();
        assert!(!left.exists() && making.exists());
        drop(lock);
        fs::remove_dir_all(making).unwrap();
    }
}
