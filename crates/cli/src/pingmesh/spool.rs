//! Windows that an agent has not delivered yet: a file each, in a folder of its own, so that they outlive the agent. What
//! the disk does not take is held in memory, so that a full disk keeps nobody from delivering.

use core::fmt;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ops::pingmesh::limits::SPOOL_MAX;
use ops::pingmesh::window::Window;

use crate::failure::Failure;
use crate::output::make_folder;

/// Windows that are held in memory, at most.
pub(super) const HELD_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    held: VecDeque<Window>,
}

/// Where a window is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kept {
    File(PathBuf),
    /// In memory, by when it began.
    Held(u64),
}

/// What became of a window that was to be kept.
#[derive(Debug)]
pub(super) enum Put {
    /// It is on the disk.
    Kept,
    /// It is, and so many others had to go: the oldest.
    Over(usize),
    /// It is in memory alone.
    InMemory(io::Error),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Held(_) => f.write_str("a window in memory"),
        }
    }
}

impl Spool {
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        make_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), held: VecDeque::new() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps a window, on the disk if it can.
    pub(super) fn put(&mut self, window: Window) -> Put {
        match self.write(&window) {
            Ok(0) => Put::Kept,
            Ok(over) => Put::Over(over),
            Err(error) => {
                if self.held.len() >= HELD_MAX {
                    self.held.pop_front();
                }
                self.held.push_back(window);
                Put::InMemory(error)
            }
        }
    }

    /// Writes a window. Returns how many others it had no room for beside it.
    fn write(&self, window: &Window) -> io::Result<usize> {
        let path = self.folder.join(format!("{:020}.json", window.start_ns));
        let beside = path.with_extension("new");
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(window)?)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        });
        if let Err(error) = written {
            // Half a window on a full disk would take the room of others.
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        File::open(&self.folder)?.sync_all()?;
        let all = self.files()?;
        let over = all.len().saturating_sub(SPOOL_MAX);
        all.iter().take(over).try_for_each(fs::remove_file)?;
        Ok(over)
    }

    /// The files, the oldest first.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut all: Vec<PathBuf> = fs::read_dir(&self.folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|of| of == "json"))
            .collect();
        all.sort();
        Ok(all)
    }

    /// All windows, the oldest first, those in memory last. Of a folder that cannot be read there are none: whoever wants
    /// to put one there is told.
    pub(super) fn all(&self) -> Vec<Kept> {
        let held = self.held.iter().map(|window| Kept::Held(window.start_ns));
        self.files().unwrap_or_default().into_iter().map(Kept::File).chain(held).collect()
    }

    /// One of them; `None` of a file that somebody has spoilt.
    pub(super) fn read(&self, kept: &Kept) -> io::Result<Option<Window>> {
        match kept {
            Kept::File(path) => Ok(serde_json::from_slice(&fs::read(path)?).ok()),
            Kept::Held(start_ns) => {
                Ok(self.held.iter().find(|window| window.start_ns == *start_ns).cloned())
            }
        }
    }

    /// Forgets one of them.
    pub(super) fn remove(&mut self, kept: &Kept) -> io::Result<()> {
        match kept {
            Kept::File(path) => fs::remove_file(path),
            Kept::Held(start_ns) => {
                self.held.retain(|window| window.start_ns != *start_ns);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start_ns: u64) -> Window {
        Window::new(0, start_ns, 1)
    }

    /// When each of the windows began; `None` of one that cannot be read.
    fn starts(spool: &Spool) -> Vec<Option<u64>> {
        let read = |kept: &Kept| spool.read(kept).unwrap().map(|window| window.start_ns);
        spool.all().iter().map(read).collect()
    }

    #[test]
    fn windows_outlive_the_agent_in_order_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        for start in [30, 4, 200] {
            assert!(matches!(spool.put(window(start)), Put::Kept));
        }
        fs::write(folder.path().join("00000000000000000001.json"), "spoilt").unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        assert_eq!(starts(&spool), [None, Some(4), Some(30), Some(200)]);
        for number in 0..SPOOL_MAX - 4 {
            fs::write(folder.path().join(format!("{:020}.json", 1_000 + number)), "").unwrap();
        }
        assert!(matches!(spool.put(window(5_000_000)), Put::Over(1)));
        assert!(!folder.path().join("00000000000000000001.json").exists());
    }

    #[test]
    fn what_the_disk_does_not_take_is_delivered_from_memory_within_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        spool.put(window(1));
        fs::remove_dir_all(&path).unwrap();
        for start in 2..20 {
            assert!(matches!(spool.put(window(start)), Put::InMemory(_)), "{start}");
        }
        let held: Vec<Option<u64>> = (4..20).map(Some).collect();
        assert_eq!(starts(&spool), held);
        // There is room again: what is in memory goes behind what was written.
        fs::create_dir(&path).unwrap();
        assert!(matches!(spool.put(window(20)), Put::Kept));
        let all = spool.all();
        assert_eq!((all.len(), &all[1]), (HELD_MAX + 1, &Kept::Held(4)));
        all.iter().for_each(|kept| spool.remove(kept).unwrap());
        assert_eq!(spool.all(), []);
    }

    #[test]
    fn half_a_window_does_not_stay_on_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        // A name that a file cannot take: renaming to it fails as writing does on a full disk.
        fs::create_dir(folder.path().join(format!("{:020}.json", 7))).unwrap();
        assert!(matches!(spool.put(window(7)), Put::InMemory(_)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
