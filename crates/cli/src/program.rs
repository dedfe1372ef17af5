//! Finds the program to run, and notices early that it cannot be preloaded.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{getgid, getuid};

use crate::failure::{Failure, Status};

/// The file that a shell would run for `name`.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = name.display();
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(name)]
    } else {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).map(|folder| folder.join(name)).collect()
    };
    if let Some(found) = candidates.iter().find(|path| is_runnable(path)) {
        return Ok(found.clone());
    }
    // A folder below one of PATH is nothing that a shell would look at.
    let named = |path: &&PathBuf| path.is_file() || is_path && path.exists();
    if let Some(path) = candidates.iter().find(named) {
        let is_folder = path.is_dir();
        let path = path.display();
        if is_folder {
            let failure = Failure::new(format!("{path} is a folder, not a program"));
            return Err(failure.hint("name a program in it").status(Status::CannotRun));
        }
        let failure = Failure::new(format!("{path} is not a program that you may run"));
        return Err(failure
            .hint(format!("`ls -l {path}` shows its permissions"))
            .status(Status::CannotRun));
    }
    let failure = Failure::new(format!("there is no program called {shown}"));
    let hint = match package(name) {
        Some(package) => format!("on Debian and Ubuntu: apt install {package}"),
        None => "check the spelling; what is not in PATH needs its whole path".to_owned(),
    };
    Err(failure.hint(hint).status(Status::NotFound))
}

/// The package that brings a well-known verbs program.
fn package(name: &OsStr) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 5] = [
        ("ibv_", "ibverbs-utils"),
        ("ib_", "perftest"),
        ("rdma_", "rdmacm-utils"),
        ("ucx_", "ucx-utils"),
        ("fi_", "libfabric-bin"),
    ];
    const NAMES: [(&str, &str); 7] = [
        ("cmtime", "rdmacm-utils"),
        ("mckey", "rdmacm-utils"),
        ("rping", "rdmacm-utils"),
        ("ucmatose", "rdmacm-utils"),
        ("udaddy", "rdmacm-utils"),
        ("mpirun", "openmpi-bin"),
        ("qperf", "qperf"),
    ];
    let name = name.to_str()?;
    let by_prefix = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
    let found = NAMES.iter().find(|(known, _)| *known == name).or(by_prefix)?;
    Some(found.1)
}

fn is_runnable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Says so where the loader would silently ignore `LD_PRELOAD`.
pub(crate) fn check_preload(path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = path.metadata() else { return Ok(()) };
    if gains_privileges(&metadata) {
        let path = path.display();
        let message = format!("{path} is setuid or setgid, so the loader keeps our library out");
        return Err(Failure::new(message)
            .hint("let it start ferroce, as in `sudo ferroce run -- PROGRAM`")
            .status(Status::CannotRun));
    }
    if is_static(path) {
        // Not an error: it may start other programs, which inherit the environment.
        let path = path.display();
        eprintln!("warning: {path} is statically linked: only programs that it starts see Ferroce");
    }
    Ok(())
}

/// Whether the kernel runs the file with more rights than we have.
fn gains_privileges(metadata: &Metadata) -> bool {
    const SETUID: u32 = 0o4000;
    // Without the execute bit of the group, this bit means mandatory locking.
    const SETGID: u32 = 0o2010;
    let mode = metadata.permissions().mode();
    let user_changes = mode & SETUID != 0 && metadata.uid() != getuid().as_raw();
    let group_changes = mode & SETGID == SETGID && metadata.gid() != getgid().as_raw();
    user_changes || group_changes
}

/// Whether the file is a 64-bit little-endian ELF executable that names no loader.
/// Anything else is left to the kernel to judge.
fn is_static(path: &Path) -> bool {
    const PT_DYNAMIC: u32 = 2;
    const PT_INTERP: u32 = 3;
    let mut head = Vec::new();
    let Ok(file) = File::open(path) else { return false };
    if file.take(4096).read_to_end(&mut head).is_err() || !head.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    let half =
        |at: usize| head.get(at..at + 2).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])));
    let word =
        |at: usize| head.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(table), Some(entry_bytes), Some(entries)) = (word(0x20), half(0x36), half(0x38))
    else {
        return false;
    };
    let kinds = (0..entries).map(|entry| word(table as usize + entry * entry_bytes));
    let mut known = kinds.flatten();
    !known.any(|kind| kind == PT_INTERP || kind == PT_DYNAMIC)
}
