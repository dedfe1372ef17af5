//! Windows that an agent has not delivered yet: a file each, in a folder of its own, so that they outlive the agent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ops::pingmesh::limits::SPOOL_MAX;
use ops::pingmesh::window::Window;

use crate::failure::Failure;
use crate::output::make_folder;

/// See the module.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
}

impl Spool {
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        make_folder(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Keeps a window. Returns how many others it had no room for beside it: the oldest go.
    pub(super) fn put(&self, window: &Window) -> io::Result<usize> {
        let path = self.folder.join(format!("{:020}.json", window.start_ns));
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec(window)?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(&self.folder)?.sync_all()?;
        let all = self.all()?;
        let over = all.len().saturating_sub(SPOOL_MAX);
        all.iter().take(over).try_for_each(fs::remove_file)?;
        Ok(over)
    }

    /// The files, the oldest first.
    pub(super) fn all(&self) -> io::Result<Vec<PathBuf>> {
        let mut all: Vec<PathBuf> = fs::read_dir(&self.folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|of| of == "json"))
            .collect();
        all.sort();
        Ok(all)
    }

    /// What is in one of them; `None` of a file that somebody has spoilt.
    pub(super) fn read(path: &Path) -> io::Result<Option<Window>> {
        Ok(serde_json::from_slice(&fs::read(path)?).ok())
    }
}

#[cfg(test)]
mod tests {
    use ops::pingmesh::window::Latency;

    use super::*;

    fn window(start_ns: u64) -> Window {
        Window {
            host: 0,
            start_ns,
            length_ns: 1,
            pairs: vec![],
            prober: Latency::default(),
            counted: None,
            tcp: vec![],
        }
    }

    #[test]
    fn windows_outlive_the_agent_in_order_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        for start in [30, 4, 200] {
            assert_eq!(spool.put(&window(start)).unwrap(), 0);
        }
        fs::write(folder.path().join("00000000000000000001.json"), "spoilt").unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        let read: Vec<Option<u64>> = spool
            .all()
            .unwrap()
            .iter()
            .map(|path| Spool::read(path).unwrap().map(|window| window.start_ns))
            .collect();
        assert_eq!(read, [None, Some(4), Some(30), Some(200)]);
        for number in 0..SPOOL_MAX - 4 {
            fs::write(folder.path().join(format!("{:020}.json", 1_000 + number)), "").unwrap();
        }
        assert_eq!(spool.put(&window(5_000_000)).unwrap(), 1);
        assert!(!folder.path().join("00000000000000000001.json").exists());
    }
}
