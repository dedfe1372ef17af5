//! The folder in which the processes of one run of a program leave what they came to (`journal.rs`).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::host::runtime;
use crate::limits::SWEEP_INTERVAL;

/// What names of folders begin with, before the process that looks after them.
pub(crate) const PREFIX: &str = "stats-";

/// The folder of a run. Whoever looks after the run holds its lock, and removes it in the end; what one that was killed
/// has left is removed by others (`host/leftovers.rs`).
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes a folder for the run of one program.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn begin() -> io::Result<Self> {
        let path = runtime::directory()?.join(format!("{PREFIX}{}", std::process::id()));
        // Of an earlier process with our ID, which was killed before it could remove it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)?;
        let lock = File::open(&path)?;
        lock.lock_shared()?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes a folder of a run if nobody looks after it any more. One that was just made may not be locked yet.
pub(crate) fn remove_unattended(path: &Path) {
    let is_old = runtime::is_older(path, SWEEP_INTERVAL) == Some(true);
    if is_old && File::open(path).is_ok_and(|folder| folder.try_lock().is_ok()) {
        let _ = fs::remove_dir_all(path);
    }
}
