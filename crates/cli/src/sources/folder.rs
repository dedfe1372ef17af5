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
//! folder may hold a configuration too.

use std::fs;
use std::path::Path;

use ops::watch::{PortName, Raw, ReadError, dcb, ethtool, rdma, sonic, sysfs};

use crate::failure::Failure;

/// The deepest folder, the most files, and the longest of them.
const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 500_000;
const FILE_BYTES_MAX: u64 = 64 << 20;

const HINT: &str = "save a copy of /sys/class/infiniband, `ethtool -S eth0` as ethtool-eth0.txt, `dcb -j -s pfc show dev \
                    eth0` as dcb-pfc-eth0.json, or of a switch `show pfc counters` as pfc-counters.txt";

pub(super) fn read(raw: &mut Raw, folder: &Path) -> Result<(), Failure> {
    let mut walk = Walk { raw, root: folder, files: 0, known: 0 };
    walk.folder(folder, "", 0)?;
    if walk.known == 0 {
        return Err(
            Failure::new(format!("there are no counters in {}", folder.display())).hint(HINT)
        );
    }
    Ok(())
}

struct Walk<'a> {
    raw: &'a mut Raw,
    root: &'a Path,
    files: usize,
    known: usize,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, relative: &str, depth: usize) -> Result<(), Failure> {
        let cannot =
            |error| Failure::new(format!("cannot read {}: {error}", folder.display())).hint(HINT);
        let mut entries: Vec<_> = fs::read_dir(folder).map_err(cannot)?.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative =
                if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            let path = entry.path();
            // Links are followed in a copy of sysfs only as far as they stay files.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH_MAX {
                self.folder(&path, &relative, depth + 1)?;
            } else if kind.is_file() && self.files < FILES_MAX {
                self.files += 1;
                self.file(&path, &relative, &name)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, relative: &str, name: &str) -> Result<(), Failure> {
        let kind = kind(relative, name);
        if kind == Kind::Other || fs::metadata(path).is_ok_and(|about| about.len() > FILE_BYTES_MAX)
        {
            return Ok(());
        }
        // What is no text is no counter.
        let Ok(text) = fs::read_to_string(path) else { return Ok(()) };
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
            Kind::Text if is_counters => sonic::read_text(self.raw, &switch, &text),
            Kind::Json if text.contains("SAI_") => sonic::read_json(self.raw, &switch, &text),
            _ => return Ok(()),
        };
        self.known += 1;
        read.map_err(|ReadError { line, expected }| {
            let at = if line > 0 { format!(":{line}") } else { String::new() };
            Failure::new(format!("{}{at}: {expected}", path.display()))
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sysfs,
    Ethtool,
    Dcb,
    Rdma,
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
            ("tor0/pfc-counters.txt", Kind::Text, "tor0"),
            ("tor0/counters-db.json", Kind::Json, "tor0"),
            ("rdma-statistic.json", Kind::Rdma, ""),
            ("core.gz", Kind::Other, ""),
        ] {
            let name = path.rsplit('/').next().unwrap();
            assert_eq!((kind(path, name), host(path)), (expected, of), "{path}");
        }
    }
}
