//! What a collector reads beside windows: the files of `ferroce doctor`, and saved counters of switches.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use fabric::topology::Topology;
use ops::doctor::{Diagnosis, Folder};
use ops::pingmesh::configured::Configuration;
use ops::pingmesh::counted::Reading;

use crate::failure::Failure;
use crate::output::tell;
use crate::sources::{Sources, Unread};

/// How often the files of the configuration are read again.
const AGAIN: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Beside {
    cluster: Option<PathBuf>,
    counters: Option<Sources>,
    diagnosed: Option<Instant>,
    before: Option<Reading>,
    unread: Unread,
    /// What was said last, which is not said again.
    told: String,
}

impl Beside {
    pub(super) fn new(cluster: Option<&Path>, counters: Option<&Path>) -> Self {
        let counters =
            counters.map(|from| Sources { from: Some(from.to_owned()), sysfs: PathBuf::new() });
        Self {
            cluster: cluster.map(Path::to_owned),
            counters,
            diagnosed: None,
            before: None,
            unread: Unread::default(),
            told: String::new(),
        }
    }

    /// What doctor finds, if it is time to look again.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn configuration(
        &mut self,
        topology: &Topology,
    ) -> Result<Option<Configuration>, Failure> {
        let Some(cluster) = &self.cluster else { return Ok(None) };
        if self.diagnosed.is_some_and(|at| at.elapsed() < AGAIN) {
            return Ok(None);
        }
        self.diagnosed = Some(Instant::now());
        let folder = Folder::read(cluster).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", cluster.display()))
                .hint("--cluster names a folder as `ferroce doctor` reads it: one for each device")
        })?;
        let diagnosis = Diagnosis::of(&folder, None, Some(SystemTime::now()));
        let configuration = Configuration::of(&diagnosis, topology);
        if configuration.read.is_empty() {
            return Err(Failure::new(format!(
                "no device of {} has the name of one in the topology",
                cluster.display()
            ))
            .hint("folders and the topology name hosts and switches alike"));
        }
        Ok(Some(configuration))
    }

    /// What the saved counters of switches say now, and what they have said before, if anything.
    ///
    /// # Errors
    /// There are none.
    pub(super) fn counters(&mut self) -> Result<Option<(Option<Reading>, Reading)>, Failure> {
        let Some(counters) = &self.counters else { return Ok(None) };
        let raw = counters.gather()?;
        self.unread.tell(&raw.notes);
        let now = Reading::of(&raw, |_| true);
        Ok(Some((self.before.replace(now.clone()), now)))
    }

    /// Says something on standard error, once.
    pub(super) fn tell(&mut self, what: &str) {
        if self.told != what {
            tell(what);
            what.clone_into(&mut self.told);
        }
    }
}
