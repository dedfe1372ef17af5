//! The counters of a program over Ferroce, read after its end.
//!
//! The program's file of counters (`crates/softnic/src/counters.rs` describes it) is removed when
//! the program closes its NIC; whoever has it open keeps it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

const HEADER_LEN: usize = 128;
const NAME_LEN: usize = 64;
const ENTRY_LEN: usize = NAME_LEN + 8;

/// The file of a running program, once it is there.
#[derive(Debug)]
pub(super) struct Counters {
    prefix: String,
    folder: PathBuf,
    file: Option<File>,
}

impl Counters {
    /// Of the process with this ID, of this user.
    pub(super) fn of(process: u32, user: u32) -> Self {
        let folder = PathBuf::from(format!("/dev/shm/ferroce-{user}/counters"));
        Self { prefix: format!("{process}-"), folder, file: None }
    }

    /// Looks for the file. To be called now and then, until the program ends.
    pub(super) fn look(&mut self) {
        if self.file.is_some() {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let ours = entries
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().starts_with(&self.prefix));
        self.file = ours.and_then(|entry| File::open(entry.path()).ok());
    }

    /// What was counted; empty if the program never opened a NIC.
    pub(super) fn read(mut self) -> BTreeMap<String, u64> {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file {
            // An unreadable file is one without counters, which no verdict passes.
            let _ = file.read_to_end(&mut bytes);
        }
        parse(&bytes)
    }
}

fn parse(bytes: &[u8]) -> BTreeMap<String, u64> {
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

    #[test]
    fn names_and_values_are_read() {
        let mut bytes = vec![0; HEADER_LEN];
        for (name, value) in [("rx_packets", 7_u64), ("tx_packets", 9)] {
            let start = bytes.len();
            bytes.extend(name.as_bytes());
            bytes.resize(start + NAME_LEN, 0);
            bytes.extend(value.to_ne_bytes());
        }
        let counters = parse(&bytes);
        assert_eq!((counters["rx_packets"], counters["tx_packets"]), (7, 9));
        assert!(parse(&bytes[..100]).is_empty());
    }
}
