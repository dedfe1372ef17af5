//! The directory in which processes of one user find each other.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use rdma::Span;

use crate::sys;

/// What a directory's path may have of the 107 bytes of a socket's (unix(7)): the names of mailboxes take up
/// to 34 of them.
const LENGTH_MAX: usize = 70;

/// Where the directory may be, the best place first. Every process of the user must come to the
/// same answer, so memory that all of them see comes before what depends on the environment.
fn candidates(runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let user = sys::user();
    let mut candidates = vec![PathBuf::from(format!("/dev/shm/ferroce-{user}"))];
    // Who has the folder around ours can put another in its place: `su` may leave somebody else's in the
    // variable. Nobody can in the others, which are the system's and sticky.
    let below = runtime.filter(|path| is_ours(path).is_ok()).map(|path| path.join("ferroce"));
    candidates.extend(below.filter(|path| path.as_os_str().len() <= LENGTH_MAX));
    candidates.push(PathBuf::from(format!("/tmp/ferroce-{user}")));
    candidates
}

fn runtime_folder() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
}

/// Whether a file was written at least so long ago; `None` if there is none, or none whose time can be.
pub(crate) fn is_older(path: &Path, than: Span) -> Option<bool> {
    let age = path.metadata().ok()?.modified().ok()?.elapsed().ok()?;
    Some(age.as_nanos() >= u128::from(than.as_ps() / 1000))
}

/// The directory, if there is one.
pub(crate) fn existing() -> Option<PathBuf> {
    candidates(runtime_folder()).into_iter().find(|path| is_ours(path).is_ok())
}

/// The directory, made if there is none.
///
/// # Errors
/// What went wrong at the first place, if no place would do.
pub(crate) fn directory() -> io::Result<PathBuf> {
    let mut first_error = None;
    for path in candidates(runtime_folder()) {
        let made = match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => is_ours(&path),
        };
        match made {
            Ok(()) => return Ok(path),
            Err(error) => {
                let error = io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Whose folder this is, as those of the system's places are called; `None` of other folders, and if that cannot be seen.
pub(crate) fn owner(folder: &Path) -> Option<u32> {
    let is_place = [Path::new("/dev/shm"), Path::new("/tmp")].contains(&folder.parent()?);
    let is_called_so = folder.file_name()?.to_str()?.starts_with("ferroce-");
    let metadata = fs::symlink_metadata(folder).ok()?;
    (is_place && is_called_so && metadata.is_dir()).then_some(metadata.uid())
}

/// Its parents can be written to by everybody, so somebody else may have been there first.
fn is_ours(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() || metadata.uid() != sys::user() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "not a directory that belongs to this user alone",
        ));
    }
    Ok(())
}

/// Numbers of labs, which are not those of network namespaces (`PROC_DYNAMIC_FIRST` of Linux).
pub(crate) const LABS: core::ops::Range<u64> = 0x8000_0000..0xc000_0000;

/// Removes a file, or a folder with what is in it. Somebody else may have done so.
pub(crate) fn remove(path: &Path) {
    if fs::remove_file(path).is_err() {
        let _ = fs::remove_dir_all(path);
    }
}

/// What tells this network namespace from others of the host.
pub(crate) fn network_namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_and_found_again() {
        let made = directory().unwrap();
        let of_system = !env::var_os("XDG_RUNTIME_DIR").is_some_and(|path| made.starts_with(path));
        assert_eq!(owner(&made), of_system.then(sys::user));
        assert_eq!(owner(Path::new("/tmp")), None);
        assert_eq!(existing(), Some(made));
    }

    #[test]
    fn a_directory_of_another_user_is_not_trusted() {
        let path = env::temp_dir().join(format!("ferroce-others-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        is_ours(&path).unwrap();
        if sys::user() == 0 {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(is_ours(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn a_folder_below_that_of_another_user_is_not_trusted() {
        let theirs = env::temp_dir().join(format!("ferroce-runtime-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&theirs).unwrap();
        let below = |places: Vec<PathBuf>| places.contains(&theirs.join("ferroce"));
        assert!(below(candidates(Some(theirs.clone()))));
        if sys::user() == 0 {
            std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
            assert!(!below(candidates(Some(theirs.clone()))));
        }
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(!below(candidates(Some(theirs.clone()))));
        fs::remove_dir(&theirs).unwrap();
        let long = env::temp_dir().join("f".repeat(LENGTH_MAX));
        fs::DirBuilder::new().mode(0o700).create(&long).unwrap();
        assert_eq!(candidates(Some(long.clone())).len(), 2, "no socket could be in it");
        fs::remove_dir(&long).unwrap();
    }

    #[test]
    fn a_link_is_not_trusted() {
        let link = env::temp_dir().join(format!("ferroce-link-{}", std::process::id()));
        std::os::unix::fs::symlink(directory().unwrap(), &link).unwrap();
        assert_eq!(is_ours(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::remove_file(link).unwrap();
    }
}
