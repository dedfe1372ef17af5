//! Processes that programs of an experiment have left behind, also those that left the process group.
//!
//! Linux gives a process whose parent is gone to the nearest ancestor that asks for such. This process asks, so that
//! the children which it then has, beside its programs, are all that those have left.

use core::time::Duration;
use std::collections::HashSet;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// How long those that are killed may take to be gone: one that waits for a disk takes its time.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(2);

/// Whose orphans come to this process: those of one run at a time.
static TAKER: Mutex<()> = Mutex::new(());

/// While this lives, orphans come to this process. They end with it, so programs are to have ended before.
#[derive(Debug)]
pub(super) struct Orphans {
    /// Children that were there before would have orphans of their own, so with such none is taken.
    takes: bool,
    _alone: MutexGuard<'static, ()>,
}

impl Orphans {
    /// Takes orphans from now on.
    pub(super) fn take() -> Self {
        let alone = TAKER.lock().unwrap_or_else(PoisonError::into_inner);
        let takes = children().is_empty() && set_child_subreaper(Some(getpid())).is_ok();
        Self { takes, _alone: alone }
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        if !self.takes {
            return;
        }
        let until = Instant::now() + PATIENCE;
        // Children of those that are killed come next.
        loop {
            let left = children();
            if left.is_empty() || Instant::now() > until {
                break;
            }
            for &child in &left {
                // Nobody else waits for it, so its number is still its own.
                let _ = kill_process(child, Signal::KILL);
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
            std::thread::sleep(GLANCE);
        }
        let _ = set_child_subreaper(None);
    }
}

/// The children of this process.
fn children() -> HashSet<Pid> {
    let this = getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return HashSet::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            // It may be gone by now.
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            (parent_in(&stat)? == this).then_some(pid)
        })
        .collect()
}

/// The parent, by the text of `/proc/PID/stat`: number, name in parentheses (which may have any letter), state, parent.
fn parent_in(stat: &str) -> Option<Pid> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    Pid::from_raw(behind_name.split(' ').nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_hides_no_parent() {
        assert_eq!(parent_in("12 (a) S 3 (b) S 34 12 0").unwrap().as_raw_nonzero().get(), 34);
        assert_eq!(parent_in("12 (init) S 0 1 1"), None);
    }
}
