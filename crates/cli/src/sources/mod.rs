//! Where counters are read: this host, a folder of what was saved of others, a simulation's results.
//!
//! ```text
//!   ferroce export, ferroce watch ─► Sources::gather ─► ops::watch::Raw
//! ```

mod folder;
mod here;
mod simulation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use ops::watch::Raw;

use crate::failure::Failure;
use crate::output::tell;

pub(crate) use simulation::replay;

/// Which counters.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sources {
    /// Read what was saved in this folder in place of this host's counters: sysfs, ethtool -S, dcb, rdma, SONiC; or the
    /// folder that `ferroce sim -o` wrote
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,

    /// Where the devices of this host are
    #[arg(long, value_name = "FOLDER", default_value = "/sys", conflicts_with = "from")]
    pub(crate) sysfs: PathBuf,
}

impl Sources {
    /// Everything that there is to be read now.
    pub(crate) fn gather(&self) -> Result<Raw, Failure> {
        let mut raw = Raw::default();
        match &self.from {
            Some(folder) if is_simulation(folder) => simulation::read(&mut raw, folder)?,
            Some(folder) => folder::read(&mut raw, folder)?,
            None => here::read(&mut raw, &self.sysfs, None),
        }
        raw.join_interfaces();
        Ok(raw)
    }

    /// What an RDMA device of this host and its interface count.
    pub(crate) fn of_device(sysfs: &Path, device: &str, interface: &str) -> Raw {
        let mut raw = Raw::default();
        here::read(&mut raw, sysfs, Some([device, interface]));
        raw.join_interfaces();
        raw
    }

    /// The folder of a simulation, if that is what is read.
    pub(crate) fn simulation(&self) -> Option<&Path> {
        self.from.as_deref().filter(|folder| is_simulation(folder))
    }
}

/// What was said of what cannot be read, which is said once.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    told: BTreeSet<String>,
}

impl Unread {
    /// The most that is remembered, and the most that is said of one look.
    const TOLD_MAX: usize = 10_000;
    const LINES_MAX: usize = 10;

    /// Says what is new of `notes` on standard error.
    pub(crate) fn tell(&mut self, notes: &[String]) {
        let room = Self::TOLD_MAX - self.told.len();
        let new = notes.iter().filter(|note| !self.told.contains(*note)).take(room);
        let new: Vec<String> = new.cloned().collect();
        for note in new.iter().take(Self::LINES_MAX) {
            tell(&format!("warning: {note}"));
        }
        if let Some(more) = new.len().checked_sub(Self::LINES_MAX).filter(|more| *more > 0) {
            tell(&format!("warning: {more} others cannot be read either"));
        }
        self.told.extend(new);
    }
}

fn is_simulation(folder: &Path) -> bool {
    folder.join("counters.parquet").is_file()
}
