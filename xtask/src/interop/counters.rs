//! The counters of a program over Ferroce, read after its end.
//!
//! A program's file of counters (`crates/softnic/src/host/counters.rs` describes it) is removed when
//! the program closes its NIC; a process that has it open can still read it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

const MAGIC: &[u8; 8] = b"FRCOUNT\x02";
const HEADER_LEN: usize = 384;
const NAME_LEN: usize = 64;
const ENTRY_LEN: usize = NAME_LEN + 8;

/// The files of a running program: one for each NIC that it has opened so far.
#[derive(Debug)]
pub(super) struct Counters {
    prefix: String,
    folder: PathBuf,
    files: BTreeMap<OsString, File>,
}

impl Counters {
    /// Of the process with this ID, of this user.
    pub(super) fn of(process: u32, user: u32) -> Self {
        let folder = PathBuf::from(format!("/dev/shm/ferroce-{user}/counters"));
        Self { prefix: format!("{process}-"), folder, files: BTreeMap::new() }
    }

    /// Looks for files. To be called now and then, until the program ends.
    pub(super) fn look(&mut self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_ours = name.to_string_lossy().starts_with(&self.prefix);
            if is_ours
                && !self.files.contains_key(&name)
                && let Ok(file) = File::open(entry.path())
                // A file without a lock was left by a killed process.
                && file.try_lock_shared().is_err()
            {
                self.files.insert(name, file);
            }
        }
    }

    /// What was counted; empty if the program never opened a NIC.
    pub(super) fn read(self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for mut file in self.files.into_values() {
            let mut bytes = Vec::new();
            // An unreadable file counts as empty, and then the verdict fails.
            let _ = file.read_to_end(&mut bytes);
            for (name, value) in parse(&bytes) {
                *sum.entry(name).or_default() += value;
            }
        }
        sum
    }
}

/// Empty of a file of another layout.
fn parse(bytes: &[u8]) -> BTreeMap<String, u64> {
    if !bytes.starts_with(MAGIC) {
        return BTreeMap::new();
    }
    let entries = bytes.get(HEADER_LEN..).unwrap_or_default().chunks_exact(ENTRY_LEN);
    entries
        .map(|entry| {
            let (name, value) = entry.split_at(NAME_LEN);
            let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
            (name, u64::from_ne_bytes(value.try_into().expect("an entry ends in eight bytes")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(HEADER_LEN, 0);
        bytes
    }

    #[test]
    fn what_a_dead_process_has_left_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = header();
        bytes.extend(b"tx_packets");
        bytes.resize(HEADER_LEN + NAME_LEN, 0);
        bytes.extend(5_u64.to_ne_bytes());
        let names = ["7-ferroce0-1", "7-ferroce0-2", "7-ferroce0-3", "77-ferroce0-4"];
        let files = names.map(|name| {
            fs::write(folder.path().join(name), &bytes).unwrap();
            File::open(folder.path().join(name)).unwrap()
        });
        for alive in [1, 2, 3] {
            files[alive].lock().unwrap();
        }
        let mut counters = Counters { folder: folder.path().to_owned(), ..Counters::of(7, 0) };
        counters.look();
        counters.look();
        assert_eq!(counters.read(), BTreeMap::from([("tx_packets".to_owned(), 10)]));
    }

    #[test]
    fn names_and_values_are_read() {
        let mut bytes = header();
        for (name, value) in [("rx_packets", 7_u64), ("tx_packets", 9)] {
            let start = bytes.len();
            bytes.extend(name.as_bytes());
            bytes.resize(start + NAME_LEN, 0);
            bytes.extend(value.to_ne_bytes());
        }
        let counters = parse(&bytes);
        assert_eq!((counters["rx_packets"], counters["tx_packets"]), (7, 9));
        assert!(parse(&bytes[..100]).is_empty());
        bytes[7] += 1;
        assert!(parse(&bytes).is_empty());
    }
}
