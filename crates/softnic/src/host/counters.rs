//! Counters that other programs read while this one runs.
//!
//! Each open NIC has a file in [`counters_dir`], named `<pid>-<device>-<slot>`, mapped by its owner
//! and readable by anybody who may read the directory:
//!
//! ```text
//!     0  magic "FRCOUNT\x02"
//!     8  process ID u32       12  number of counters u32
//!    16  slot u32             20  0
//!    24  device, 40 bytes     64  command, 64 bytes            (text, filled up with zeros)
//!   128  the congestion control, and why it is that one, 256 bytes (text, filled up with zeros)
//!   384  counters: name, 64 bytes (text, filled up with zeros), value u64
//! ```
//!
//! Numbers are in the byte order of the machine. Names and their order do not change while the file
//! exists, so a reader may keep the offsets; each value is stored by one aligned store. The owner
//! holds a lock (`flock`) on the file for as long as it lives: a file without it is of a process
//! that was killed, whatever process has its ID now.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rdma::Time;
use transport::cm::CmStats;
use transport::{Control, Stats};

use crate::counts::Counts;
use crate::host::{leftovers, runtime};
use crate::limits::{COUNTER_NAME_BYTES, PUBLISH_CONTROL_INTERVAL, PUBLISH_INTERVAL};
use crate::memory::map::Map;

const MAGIC: [u8; 8] = *b"FRCOUNT\x02";
const SLOT_AT: usize = 16;
const DEVICE_AT: usize = 24;
const COMMAND_AT: usize = 64;
const CONTROL_AT: usize = 128;
const HEADER_LEN: usize = 384;
const ENTRY_LEN: usize = COUNTER_NAME_BYTES + size_of::<u64>();

/// What one NIC of a process has counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessCounters {
    /// The process ID, in its own namespace.
    pub pid: u32,
    /// The process's name.
    pub command: String,
    /// The device.
    pub device: String,
    /// Its slot of the QPN space: the upper ten bits of its QPNs.
    pub slot: u32,
    /// The congestion control that the NIC has chosen, and why.
    pub control: String,
    /// Name and value, the engine's counters first.
    pub counters: Vec<(String, u64)>,
}

/// Where the files of counters are: `/dev/shm/ferroce-<uid>`, or else `$XDG_RUNTIME_DIR/ferroce`,
/// or else `/tmp/ferroce-<uid>`, and in it `counters`. `None` if no NIC has been opened yet.
pub fn counters_dir() -> Option<PathBuf> {
    runtime::existing().map(|directory| directory.join("counters"))
}

/// The counters of all NICs that are open, of this user's processes, by process ID. Files of
/// processes that were killed are removed.
pub fn read_all() -> Vec<ProcessCounters> {
    leftovers::sweep();
    let Some(entries) = counters_dir().and_then(|directory| fs::read_dir(directory).ok()) else {
        return Vec::new();
    };
    let mut all: Vec<ProcessCounters> =
        entries.filter_map(|entry| read(&entry.ok()?.path())).collect();
    all.sort_by(|a, b| (a.pid, &a.device, a.slot).cmp(&(b.pid, &b.device, b.slot)));
    all
}

fn read(path: &Path) -> Option<ProcessCounters> {
    let file = File::open(path).ok()?;
    if file.try_lock_shared().is_ok() {
        // Its owner is gone. One that is being made has a name of another kind until it is locked.
        let _ = fs::remove_file(path);
        return None;
    }
    parse(&fs::read(path).ok()?)
}

/// The counters in a file that is kept beyond its NIC.
pub(crate) fn read_kept(path: &Path) -> Option<ProcessCounters> {
    parse(&fs::read(path).ok()?)
}

fn parse(bytes: &[u8]) -> Option<ProcessCounters> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let text = |at: usize, length: usize| {
        let bytes = bytes.get(at..at + length)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let entries = bytes.get(HEADER_LEN..)?.chunks_exact(ENTRY_LEN);
    let count = word(12)? as usize;
    let counters = (0..count.min(entries.len())).map(|index| {
        let at = HEADER_LEN + index * ENTRY_LEN;
        let value = bytes.get(at + COUNTER_NAME_BYTES..)?.first_chunk()?;
        Some((text(at, COUNTER_NAME_BYTES)?, u64::from_ne_bytes(*value)))
    });
    Some(ProcessCounters {
        pid: word(8)?,
        command: text(COMMAND_AT, CONTROL_AT - COMMAND_AT)?,
        control: text(CONTROL_AT, HEADER_LEN - CONTROL_AT)?,
        device: text(DEVICE_AT, COMMAND_AT - DEVICE_AT)?,
        slot: word(SLOT_AT)?,
        counters: counters.collect::<Option<_>>()?,
    })
}

/// The file of one NIC.
#[derive(Debug)]
pub(crate) struct Publisher {
    path: PathBuf,
    map: Map,
    /// Holds the lock.
    _file: File,
    next: Time,
    next_control: Time,
}

impl Publisher {
    /// Makes the file, with every counter at zero. `control` says which congestion control there is, and why.
    pub(crate) fn create(device: &str, slot: u16, control: &str) -> io::Result<Self> {
        let directory = runtime::directory()?.join("counters");
        fs::create_dir_all(&directory)?;
        let name = format!("{}-{device}-{slot}", std::process::id());
        // Not under its name before it is locked: a reader would take it for a dead one's. What is
        // left over of a process that is killed right here is overwritten by the slot's next owner.
        let making = runtime::directory()?.join(format!("making-counters-{slot}"));
        let mut options = File::options();
        let file =
            options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&making)?;
        file.lock()?;
        io::Write::write_all(&mut &file, &header(device, slot, control))?;
        let map = Map::new(file.as_fd(), HEADER_LEN + names().count() * ENTRY_LEN)?;
        let path = directory.join(name);
        fs::rename(&making, &path)?;
        Ok(Self { path, map, _file: file, next: Time::ZERO, next_control: Time::ZERO })
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is time to publish again.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    pub(crate) fn publish(&mut self, now: Time, stats: &Stats, cm: &CmStats, counts: &Counts) {
        self.next = now + PUBLISH_INTERVAL;
        let values = stats.values().into_iter().chain(cm.values()).chain(counts.values());
        for (index, value) in values.enumerate() {
            self.value(index).store(value, Ordering::Relaxed);
        }
    }

    /// Publishes what congestion control allows, if that was not done of late. Without queue pairs that have one, what
    /// was last so stays.
    pub(crate) fn publish_control(&mut self, now: Time, control: impl FnOnce() -> Control) {
        if now < self.next_control {
            return;
        }
        self.next_control = now + PUBLISH_CONTROL_INTERVAL;
        let control = control();
        let first = names().count() - Control::NAMES.len();
        let known = if control.cc_queue_pairs == 0 { 1 } else { Control::NAMES.len() };
        for (index, value) in control.values().into_iter().enumerate().take(known) {
            self.value(first + index).store(value, Ordering::Relaxed);
        }
    }

    fn value(&self, index: usize) -> &AtomicU64 {
        self.map.word(HEADER_LEN + index * ENTRY_LEN + COUNTER_NAME_BYTES)
    }

    /// Removes the file.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Every counter with what it counts, in the order in which they are published.
pub fn explained() -> Vec<(&'static str, &'static str)> {
    let texts =
        [Stats::EXPLAINED, CmStats::EXPLAINED, Counts::EXPLAINED, Control::EXPLAINED].concat();
    names().zip(texts).map(|(name, text)| (name, text.trim())).collect()
}

/// The names of all counters, in their order.
fn names() -> impl Iterator<Item = &'static str> {
    let counted = Stats::NAMES.iter().chain(CmStats::NAMES).chain(Counts::NAMES);
    counted.chain(Control::NAMES).copied()
}

/// Whether a value goes up and down: it says how things stand, and counts nothing.
pub fn is_gauge(name: &str) -> bool {
    Control::NAMES.contains(&name)
}

fn header(device: &str, slot: u16, control: &str) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &MAGIC);
    put(8, &std::process::id().to_ne_bytes());
    put(12, &(names().count() as u32).to_ne_bytes());
    put(SLOT_AT, &u32::from(slot).to_ne_bytes());
    put(DEVICE_AT, cut(device, COMMAND_AT - DEVICE_AT));
    let command = fs::read_to_string("/proc/self/comm").unwrap_or_default();
    put(COMMAND_AT, cut(command.trim_end(), CONTROL_AT - COMMAND_AT));
    put(CONTROL_AT, cut(control, HEADER_LEN - CONTROL_AT));
    for name in names() {
        let start = bytes.len();
        bytes.extend(cut(name, COUNTER_NAME_BYTES));
        bytes.resize(start + ENTRY_LEN, 0);
    }
    bytes
}

fn cut(text: &str, length: usize) -> &[u8] {
    &text.as_bytes()[..text.len().min(length)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(device: &str) -> Option<ProcessCounters> {
        read_all().into_iter().find(|process| process.device == device)
    }

    #[test]
    fn what_is_published_is_read() {
        let mut publisher = Publisher::create("test-publish", 1001, "bbr (by default)").unwrap();
        let stats = Stats { acks_sent: 7, ..Stats::default() };
        let counts = Counts { rx_packets: 9, ..Counts::default() };
        assert!(publisher.is_due(Time::ZERO));
        let cm = CmStats { cm_tx_retries: 5, ..CmStats::default() };
        publisher.publish(Time::ZERO, &stats, &cm, &counts);
        assert!(!publisher.is_due(Time::from_ns(9_999_999)));
        assert!(publisher.is_due(Time::from_ns(10_000_000)));

        let read = of("test-publish").unwrap();
        assert_eq!((read.pid, read.slot), (std::process::id(), 1001));
        assert!(!read.command.is_empty());
        assert_eq!(read.counters.len(), names().count());
        let value = |name| read.counters.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(value("cm_tx_retries"), 5);
        assert_eq!((value("acks_sent"), value("rx_packets"), value("tx_packets")), (7, 9, 0));
        assert_eq!(read.control, "bbr (by default)");

        let known = Control { cc_queue_pairs: 2, rtt_min_us: 31, ..Control::default() };
        publisher.publish_control(Time::ZERO, || known);
        publisher.publish_control(Time::from_ns(99_999_999), || panic!("it was just done"));
        // The last queue pair is gone, and what was measured stays.
        publisher.publish_control(Time::from_ns(100_000_000), Control::default);
        let read = of("test-publish").unwrap();
        let value = |name| read.counters.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!((value("cc_queue_pairs"), value("rtt_min_us")), (0, 31));
        assert!(is_gauge("rtt_min_us") && !is_gauge("tx_packets"));
        publisher.remove();
        assert_eq!(of("test-publish"), None);
    }

    #[test]
    fn the_file_of_a_dead_process_is_removed() {
        let publisher = Publisher::create("test-dead", 1002, "").unwrap();
        let path = publisher.path.clone();
        assert!(of("test-dead").is_some() && path.exists());
        drop(publisher);
        assert_eq!(of("test-dead"), None);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_something_else_is_passed_over() {
        assert_eq!(parse(b"FRCOUNT\x02"), None);
        assert_eq!(parse(&[0; 500]), None);
        let bytes = header("ferroce0", 5, "none");
        for end in 0..bytes.len() {
            let _ = parse(&bytes[..end]);
        }
        assert_eq!(parse(&bytes).unwrap().device, "ferroce0");
    }

    #[test]
    fn every_name_fits_and_is_one() {
        let mut all: Vec<_> = names().collect();
        assert!(all.iter().all(|name| name.len() < COUNTER_NAME_BYTES));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), names().count(), "two counters have one name");
    }
}
