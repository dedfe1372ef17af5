//! How much is taken of files that anybody may have written.

/// Files above this are a finding, and not read. The `config_db.json` of 512 ports has 2 MB.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Of a whole folder.
pub const FOLDER_BYTES_MAX: u64 = 1 << 30;
/// Files of a folder.
pub const FILES_MAX: usize = 100_000;
/// Folders within folders: `DEVICE/sys/class/infiniband/DEV/ports/1/gid_attrs/types/0` has nine.
pub const DEPTH_MAX: usize = 16;
/// Older snapshots that are kept of a device, the newest.
pub const SNAPSHOTS_MAX: usize = 64;
/// Interfaces and RDMA devices of a host.
pub const INTERFACES_MAX: usize = 256;
/// Entries of a table of GIDs.
pub const GIDS_MAX: usize = 256;
/// Ports of a switch: twice those of 51.2 Tb/s at 100 Gb/s each. Rules look at pairs of them.
pub const PORTS_MAX: usize = 1_024;
/// Fields of a `config_db.json` that are not known and left out one by one; each costs another look at the file.
pub const UNKNOWN_FIELDS_MAX: usize = 32;
/// Queue pairs of a log.
pub const QUEUE_PAIRS_MAX: usize = 4_096;
/// Counters of an interface. mlx5 has 700.
pub const COUNTERS_MAX: usize = 4_096;
/// Neighbours that a device may name.
pub const NEIGHBOURS_MAX: usize = 1_024;
/// Characters of a device's name: those of a system name in LLDP.
pub const NAME_MAX: usize = 255;
/// Sentences about neighbours without a folder; the others are counted.
pub const STRANGERS_MAX: usize = 8;
/// Findings that one rule may have, before the rest is counted only.
pub const FINDINGS_MAX: usize = 1_000;
/// Characters of a file's own words in a message.
pub const WORDS_MAX: usize = 60;
/// A watchdog that takes longer is late: the bound in the title of SONiC's change "Limit PFC WD Detection time to
/// maximum value of 1000ms" (sonic-utilities 4306).
pub const WATCHDOG_LATE_MS: u64 = 1_000;
/// Ours: a host that completes less than this share of what it completes without the fault is a victim.
pub const VICTIM_SHARE: f64 = 0.8;
/// Ours: so is one whose slowest messages take this many times as long.
pub const VICTIM_TIMES: f64 = 2.0;
/// Hosts of a network that is simulated for a what-if.
pub const WHAT_IF_HOSTS_MAX: usize = 1_024;
