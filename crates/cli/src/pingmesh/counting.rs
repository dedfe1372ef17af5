//! What this host's device has counted in each window: it is read whenever a window ends, by a thread of its own, because
//! programs that are asked for it may hang.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ops::pingmesh::counted::{HostDelta, Reading};
use ops::pingmesh::window::Window;

use super::clock::wall_ns;
use crate::failure::Failure;
use crate::sources::Sources;

/// How often it looks whether a window has ended: so much too late a reading may be.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A reading that has taken longer is of no window.
const LATE_NS: u64 = 5_000_000_000;
/// Readings that are kept, for windows that are still waiting for answers.
const READINGS_MAX: usize = 8;

/// See the module. The thread ends with this.
#[derive(Debug)]
pub(super) struct Counting {
    /// By the end of a window.
    readings: Arc<Mutex<BTreeMap<u64, Reading>>>,
    is_over: Arc<AtomicBool>,
}

impl Counting {
    /// Of a device and its interface.
    pub(super) fn start(
        sysfs: PathBuf,
        device: String,
        interface: String,
        length_ns: u64,
    ) -> Result<Self, Failure> {
        let (readings, is_over) = (Arc::default(), Arc::<AtomicBool>::default());
        let counting = Self { readings: Arc::clone(&readings), is_over: Arc::clone(&is_over) };
        let read = move || {
            let mut last_ns = wall_ns() / length_ns * length_ns;
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(LOOK_INTERVAL);
                let end_ns = wall_ns() / length_ns * length_ns;
                if end_ns == last_ns {
                    continue;
                }
                last_ns = end_ns;
                let raw = Sources::of_device(&sysfs, &device, &interface);
                let reading = Reading::of(&raw, |_| true);
                if wall_ns().saturating_sub(end_ns) > LATE_NS.min(length_ns / 2) {
                    continue;
                }
                let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
                readings.insert(end_ns, reading);
                while readings.len() > READINGS_MAX {
                    readings.pop_first();
                }
            }
        };
        thread::Builder::new()
            .name("counters".to_owned())
            .spawn(read)
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok(counting)
    }

    /// What was counted in a window; `None` if it was not read at both of its ends.
    pub(super) fn of(&self, window: &Window) -> Option<HostDelta> {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = readings.get(&window.start_ns)?;
        let counted = readings.get(&window.end_ns())?.host_since(before);
        (counted != HostDelta::default()).then_some(counted)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
