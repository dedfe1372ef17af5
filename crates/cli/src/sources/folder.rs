//! A folder of what was saved:
//!
//! ```text
//!   FOLDER/[HOST/]...infiniband/mlx5_0/ports/1/...     a copy of /sys/class/infiniband
//!   FOLDER/[HOST/]ethtool-eth0.txt                     ethtool -S eth0
//!   FOLDER/[HOST/]dcb-pfc-eth0.json                    dcb -j -s pfc show dev eth0
//!   FOLDER/[HOST/]rdma-statistic.json                  rdma -j statistic show, and qp show
//!   FOLDER/[SWITCH/]pfc-counters.txt, interfaces.txt   show pfc counters, show interfaces counters
//!   FOLDER/[SWITCH/]counters-db.json                   redis-dump or sonic-db-dump of COUNTERS_DB, or gNMI's answer
//! ```
//!
//! What a file is follows from its name, and of switches from its text. A file that is none of these is passed over: the
//! folder may hold a configuration too. One that is, and cannot be read, costs its own counters, and is noted.

use core::cmp::Ordering;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use ops::watch::{PortName, Raw, dcb, ethtool, rdma, sonic, sysfs};

use crate::failure::Failure;

/// The deepest folder, the most files, and the longest of them.
const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 500_000;
const FILE_BYTES_MAX: u64 = 64 << 20;

const HINT: &str = "save a copy of /sys/class/infiniband, `ethtool -S eth0` as ethtool-eth0.txt, `dcb -j -s pfc show dev \
                    eth0` as dcb-pfc-eth0.json, or of a switch `show pfc counters` as pfc-counters.txt";

pub(super) fn read(raw: &mut Raw, folder: &Path) -> Result<(), Failure> {
    let mut walk = Walk { raw, root: folder, files: 0, known: 0 };
    walk.folder(folder, "", 0).map_err(|why| {
        Failure::new(format!("cannot read {}: {why}", folder.display())).hint(HINT)
    })?;
    let known = walk.known;
    let is_empty = raw.ports().values().all(|port| port.counters().next().is_none());
    if known > 0 || !is_empty {
        return Ok(());
    }
    // Nothing was read at all: why not is all that there is to be said.
    let message = match &raw.notes[..] {
        [] => format!("there are no counters in {}", folder.display()),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first}; and {} others", rest.len()),
    };
    Err(Failure::new(message).hint(HINT))
}

struct Walk<'a> {
    raw: &'a mut Raw,
    root: &'a Path,
    files: usize,
    known: usize,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, relative: &str, depth: usize) -> Result<(), String> {
        let read = fs::read_dir(folder).map_err(|error| error.to_string())?;
        let mut entries: Vec<_> = read.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative =
                if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            let path = entry.path();
            // Links are followed in a copy of sysfs only as far as they stay files.
            let Ok(kind) = entry.file_type() else { continue };
            let read = match kind {
                kind if kind.is_dir() && depth == DEPTH_MAX => {
                    Err(format!("folders are read {DEPTH_MAX} deep"))
                }
                kind if kind.is_dir() => self.folder(&path, &relative, depth + 1),
                kind if kind.is_file() => self.file(&path, &relative, &name),
                _ => Ok(()),
            };
            // A copy of sysfs has deep folders without counters.
            let is_other = kind.is_dir() && self::kind(&relative, &name) == Kind::Sysfs;
            if let Err(why) = read
                && !is_other
            {
                self.raw.notes.push(format!("cannot read {}: {why}", path.display()));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, relative: &str, name: &str) -> Result<(), String> {
        let kind = kind(relative, name);
        if kind == Kind::Other {
            return Ok(());
        }
        self.files += 1;
        match self.files.cmp(&FILES_MAX) {
            Ordering::Less => {}
            Ordering::Equal => return Err(format!("{FILES_MAX} files are read, and no more")),
            Ordering::Greater => return Ok(()),
        }
        let text = match text(path) {
            Ok(text) => text,
            // A copy of sysfs has files of other kinds, and some that its device does not let be read.
            Err(_) if matches!(kind, Kind::Sysfs | Kind::Text | Kind::Json) => return Ok(()),
            Err(why) => return Err(why),
        };
        let host = host(relative);
        let stem = name.split('.').next().unwrap_or(name);
        let interface = |prefixes: &[&str]| {
            let mut rest = stem;
            for prefix in prefixes {
                rest =
                    rest.strip_prefix(prefix).unwrap_or(rest).trim_start_matches(['-', '_', ' ']);
            }
            PortName { host: host.to_owned(), device: rest.to_owned(), port: String::new() }
        };
        let root = || {
            self.root
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let switch = if host.is_empty() { root() } else { host.to_owned() };
        let is_counters =
            text.contains("Port Rx") || text.contains("Port Tx") || text.contains("IFACE");
        let read = match kind {
            Kind::Sysfs => {
                self.known += usize::from(sysfs::read(self.raw, host, relative, &text));
                return Ok(());
            }
            Kind::Ethtool => ethtool::read(self.raw, &interface(&["ethtool", "S"]), &text),
            Kind::Dcb => dcb::read(self.raw, &interface(&["dcb", "pfc"]), &text),
            Kind::Rdma => rdma::read(self.raw, host, &text),
            Kind::Tables => sonic::read_text(self.raw, &switch, &text),
            Kind::Text if is_counters => sonic::read_text(self.raw, &switch, &text),
            Kind::CountersDb => sonic::read_json(self.raw, &switch, &text),
            Kind::Json if text.contains("SAI_") => sonic::read_json(self.raw, &switch, &text),
            _ => return Ok(()),
        };
        read.map_err(|error| error.to_string())?;
        self.known += 1;
        Ok(())
    }
}

/// The text of a file that is not too long.
fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_or(0, |about| about.len());
    if length <= FILE_BYTES_MAX {
        // It may have grown since.
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
    }
    if length.max(bytes.len() as u64) > FILE_BYTES_MAX {
        return Err(format!("it is longer than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok(ops::text::of(&bytes))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sysfs,
    Ethtool,
    Dcb,
    Rdma,
    /// What `show` prints, by its name.
    Tables,
    /// A dump of COUNTERS_DB, by its name.
    CountersDb,
    /// What may be the one or the other.
    Text,
    Json,
    Other,
}

fn kind(relative: &str, name: &str) -> Kind {
    if relative.split('/').any(|part| part == "infiniband") {
        return Kind::Sysfs;
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match name {
        name if name.starts_with("ethtool") && name != "ethtool" => Kind::Ethtool,
        name if name.starts_with("dcb-pfc") || name.starts_with("dcb_pfc") => Kind::Dcb,
        name if name.starts_with("rdma") && ending == "json" => Kind::Rdma,
        name if ending == "txt" && name.starts_with("pfc-counters") => Kind::Tables,
        name if ending == "json" && name.starts_with("counters-db") => Kind::CountersDb,
        _ if ending == "txt" => Kind::Text,
        _ if ending == "json" => Kind::Json,
        _ => Kind::Other,
    }
}

/// The host or switch: the folder that a file is in, unless that is of sysfs.
fn host(relative: &str) -> &str {
    match relative.split_once('/') {
        Some((first, _)) if !["sys", "class", "infiniband"].contains(&first) => first,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_their_names() {
        for (path, expected, of) in [
            ("infiniband/mlx5_0/ports/1/state", Kind::Sysfs, ""),
            ("gpu1/sys/class/infiniband/mlx5_0/ports/1/counters/x", Kind::Sysfs, "gpu1"),
            ("gpu1/ethtool-eth0.txt", Kind::Ethtool, "gpu1"),
            ("ethtool-S-eth0.txt", Kind::Ethtool, ""),
            ("dcb-pfc-eth0.json", Kind::Dcb, ""),
            ("dcb-ets-eth0.json", Kind::Json, ""),
            ("tor0/pfc-counters.txt", Kind::Tables, "tor0"),
            ("tor0/interfaces.txt", Kind::Text, "tor0"),
            ("tor0/counters-db.json", Kind::CountersDb, "tor0"),
            ("tor0/config_db.json", Kind::Json, "tor0"),
            ("rdma-statistic.json", Kind::Rdma, ""),
            ("core.gz", Kind::Other, ""),
        ] {
            let name = path.rsplit('/').next().unwrap();
            assert_eq!((kind(path, name), host(path)), (expected, of), "{path}");
        }
    }
}
