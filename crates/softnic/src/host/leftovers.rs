//! What processes that were killed have left in the directory of this user, and who removes it.
//!
//! ```text
//!   counters/<process>-...          nobody holds its lock: its NIC has gone
//!   making-counters-<slot>          nor its: it was killed before it had made that
//!   stats-<process>                 nor its: `ferroce run --stats` has gone
//!   slots-<netns>                   nobody holds any lock of it: all NICs of that network namespace have gone,
//!   group-, ports-, credits-,       and with it go these
//!   rings-, handover-<netns>-...
//!   rings-, handover-<netns>-<slot>-...     nobody holds the lock of the slot
//!   sys-<netns>-...                 see `device_files.rs`
//! ```
//!
//! The last NIC of a namespace removes what is its namespace's, and what others have left. If it was killed, the next
//! NIC of this user does, of whatever namespace, or `ferroce counters`. A NIC that is opened looks for it at most once
//! in [`SWEEP_INTERVAL`].
//!
//! **Invariant:** nothing that somebody may come to use is removed: who removes the files of a namespace holds all
//! locks of its slots, so nobody can have one; and who takes a slot looks afterwards whether the file is still there.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::SystemTime;

use crate::host::device_files;
use crate::host::mailbox::{HANDOVER, RINGS};
use crate::host::run_folder::{self, PREFIX};
use crate::host::runtime;
use crate::limits::{ORPHAN_AGE, SWEEP_INTERVAL};
use crate::sys;

const SLOTS: &str = "slots";
/// Of a namespace, beside its slots.
const KINDS: [&str; 6] = ["group", "ports", "credits", "making", RINGS, HANDOVER];
/// Counters that are not yet under their name.
const MAKING_COUNTERS: &str = "making-counters-";
/// Its time says when somebody last looked.
const SWEPT: &str = "swept";

/// Removes what nobody uses, in the directory of this user.
pub(crate) fn sweep() {
    if let Some(directory) = runtime::existing() {
        sweep_in(&directory);
    }
}

fn sweep_in(directory: &Path) {
    remove_counters(directory);
    for name in names(directory).filter(|name| name.starts_with(PREFIX)) {
        run_folder::remove_unattended(&directory.join(name));
    }
    for namespace in namespaces(directory) {
        if !remove_unused(directory, namespace) {
            let _ = remove_mailboxes(directory, namespace);
        }
    }
    remove_orphans(directory);
    device_files::remove_unused(directory, SystemTime::now());
}

/// The same, unless that was just done.
pub(crate) fn sweep_if_due() {
    if let Some(directory) = runtime::existing()
        && is_due(&directory)
    {
        sweep();
    }
}

/// A NIC of `namespace` has gone: if it was the last, so does all that was theirs. Perhaps nobody comes after it, so it
/// takes along what others have left.
pub(crate) fn left(namespace: u64) {
    if let Some(directory) = runtime::existing()
        && remove_unused(&directory, namespace)
    {
        sweep_in(&directory);
    }
}

fn is_due(directory: &Path) -> bool {
    let mark = directory.join(SWEPT);
    let is_due = runtime::is_older(&mark, SWEEP_INTERVAL) != Some(false);
    // Where the mark cannot be made, each NIC looks.
    is_due && File::create(mark).is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok())
}

/// Removes the files of counters of NICs that have gone.
fn remove_counters(directory: &Path) {
    let files = fs::read_dir(directory.join("counters")).into_iter().flatten().flatten();
    for path in files.map(|file| file.path()) {
        if File::open(&path).is_ok_and(|file| file.try_lock_shared().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
    for name in names(directory).filter(|name| name.starts_with(MAKING_COUNTERS)) {
        let path = directory.join(name);
        // One that was just made may not be locked yet.
        let is_old = runtime::is_older(&path, SWEEP_INTERVAL) == Some(true);
        if is_old && File::open(&path).is_ok_and(|file| file.try_lock_shared().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes files of namespaces that have no slots: whoever made them has none.
fn remove_orphans(directory: &Path) {
    let files: Vec<String> = names(directory).collect();
    let with_slots = namespaces(directory);
    for name in files {
        let path = directory.join(&name);
        let is_orphan =
            namespace_of(&name).is_some_and(|namespace| !with_slots.contains(&namespace));
        if is_orphan && runtime::is_older(&path, ORPHAN_AGE) == Some(true) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Those that have slots.
fn namespaces(directory: &Path) -> Vec<u64> {
    let names = names(directory);
    names.filter_map(|name| name.strip_prefix("slots-")?.parse().ok()).collect()
}

fn names(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The namespace that a file is of, if it is of one.
fn namespace_of(name: &str) -> Option<u64> {
    let (kind, rest) = name.split_once('-')?;
    let namespace = rest.split('-').next()?;
    KINDS.contains(&kind).then(|| namespace.parse().ok())?
}

/// Removes the files of a namespace, if nobody there has a slot. Whether it did.
fn remove_unused(directory: &Path, namespace: u64) -> bool {
    let slots = directory.join(format!("{SLOTS}-{namespace}"));
    let held = || -> io::Result<File> {
        let file = File::options().read(true).write(true).open(&slots)?;
        sys::lock_whole(file.as_fd())?;
        Ok(file)
    };
    // Somebody has a slot, or is about to: or it is gone already.
    let Ok(_held) = held() else { return false };
    for name in names(directory).filter(|name| namespace_of(name) == Some(namespace)) {
        let _ = fs::remove_file(directory.join(name));
    }
    fs::remove_file(&slots).is_ok()
}

/// Removes the mailboxes of slots that nobody has. Who takes a slot meanwhile has a mailbox of another name.
fn remove_mailboxes(directory: &Path, namespace: u64) -> io::Result<()> {
    let all: Vec<String> =
        names(directory).filter(|it| namespace_of(it) == Some(namespace)).collect();
    let slots = File::options()
        .read(true)
        .write(true)
        .open(directory.join(format!("{SLOTS}-{namespace}")))?;
    for name in all {
        let mut parts = name.split('-');
        let is_mailbox = parts.next().is_some_and(|kind| [RINGS, HANDOVER].contains(&kind));
        let slot: Option<u16> = parts.nth(1).and_then(|slot| slot.parse().ok());
        if let Some(slot) = slot.filter(|_| is_mailbox)
            && !sys::is_locked(slots.as_fd(), slot.into())?
        {
            fs::remove_file(directory.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::env;
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, Command, Stdio};

    use crate::testing::{in_namespace, open};

    /// How many processes there are in all, and at a time.
    const PROCESSES: &str = "FERROCE_TEST_PROCESSES";
    const AT_ONCE: usize = 8;
    const ADDRESS: &str = "FERROCE_TEST_LEFTOVERS_ADDRESS";

    /// What there is of our namespace, and of these processes.
    fn leftovers(processes: &BTreeSet<u32>) -> Vec<String> {
        let directory = runtime::existing().unwrap();
        let namespace = runtime::network_namespace();
        let of_namespace = |name: &String| {
            namespace_of(name) == Some(namespace) || *name == format!("{SLOTS}-{namespace}")
        };
        let of_process = |name: &String| {
            let process = name.split('-').next().and_then(|process| process.parse().ok());
            process.is_some_and(|process| processes.contains(&process))
        };
        let counters = names(&directory.join("counters")).filter(of_process);
        names(&directory).filter(of_namespace).chain(counters).collect()
    }

    #[test]
    #[ignore = "is a process of the next test"]
    fn process() {
        let Ok(address) = env::var(ADDRESS) else { return };
        let nic = open(&address);
        println!("ready:");
        let _ = io::stdin().read(&mut [0]);
        drop(nic);
    }

    fn start(place: usize) -> Child {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["host::leftovers::tests::process", "--exact", "--ignored", "--nocapture"]);
        command.env(ADDRESS, format!("127.0.136.{}", 1 + place));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready:") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "a process has ended");
        }
        child
    }

    /// `FERROCE_TEST_PROCESSES=10000 cargo test -p ferroce-softnic processes_that_end` is the long form.
    #[test]
    fn processes_that_end_and_processes_that_are_killed_leave_nothing_behind() {
        let this = "host::leftovers::tests::processes_that_end_and_processes_that_are_killed_leave_nothing_behind";
        if !in_namespace(this, "ip link set lo up") {
            return;
        }
        let all: usize = env::var(PROCESSES).ok().and_then(|it| it.parse().ok()).unwrap_or(32);
        let mut processes = BTreeSet::new();
        for first in (0..all).step_by(AT_ONCE) {
            let mut children: Vec<Child> = (0..AT_ONCE.min(all - first)).map(start).collect();
            processes.extend(children.iter().map(Child::id));
            assert!(!leftovers(&processes).is_empty());
            for (place, child) in children.iter_mut().enumerate() {
                match place % 2 {
                    0 => child.kill().unwrap(),
                    _ => drop(child.stdin.take()),
                }
            }
            for child in &mut children {
                child.wait().unwrap();
            }
        }
        // As the next NIC does, or `ferroce counters`.
        sweep();
        assert_eq!(leftovers(&processes), [""; 0]);
    }

    #[test]
    fn the_last_that_leaves_takes_all_with_it_and_others_are_left_in_peace() {
        let this = "host::leftovers::tests::the_last_that_leaves_takes_all_with_it_and_others_are_left_in_peace";
        if !in_namespace(this, "ip link set lo up") {
            return;
        }
        let none = BTreeSet::new();
        let (first, second) = (open("127.0.136.101"), open("127.0.136.102"));
        sweep();
        let before = leftovers(&none);
        drop(first);
        sweep();
        let after = leftovers(&none);
        assert!(after.contains(&format!("{SLOTS}-{}", runtime::network_namespace())), "{after:?}");
        assert!(!after.is_empty() && after.len() < before.len(), "{before:?} {after:?}");
        // Somebody new finds the one that is still there.
        let third = open("127.0.136.102");
        drop((second, third));
        assert_eq!(leftovers(&none), [""; 0]);
    }

    #[test]
    fn the_folder_of_a_run_goes_when_nobody_looks_after_it() {
        let attended = run_folder::Folder::begin().unwrap();
        let left = runtime::directory().unwrap().join(format!("{PREFIX}killed"));
        let _ = fs::create_dir(&left);
        fs::write(left.join("4711.journal"), "gone\t0x18edea\n").unwrap();
        sweep();
        assert!(left.exists(), "it may not be locked yet");
        for folder in [attended.path(), &left] {
            let made = SystemTime::now() - core::time::Duration::from_secs(60);
            File::open(folder).unwrap().set_modified(made).unwrap();
        }
        sweep();
        assert!(attended.path().exists() && !left.exists());
        let path = attended.path().to_owned();
        drop(attended);
        assert!(!path.exists());
    }

    #[test]
    fn files_say_which_namespace_they_are_of() {
        for (name, namespace) in [
            ("group-4026531833-127.0.48.69", Some(4_026_531_833)),
            ("rings-7-573-097cba07", Some(7)),
            ("credits-7", Some(7)),
            ("making-counters-12", None),
            ("slots-7", None),
            ("counters", None),
            ("sys-0011", None),
        ] {
            assert_eq!(namespace_of(name), namespace, "{name}");
        }
    }
}
