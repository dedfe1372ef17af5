//! Where our libraries are.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// What is preloaded: the libraries under the names that programs are linked to, and the library that
/// shows programs the files of their devices.
pub(crate) const LIBRARIES: [&str; 3] =
    ["libibverbs.so.1", "librdmacm.so.1", "libferroce-paths.so"];
/// Overrides the search.
const DIRECTORY_VARIABLE: &str = "FERROCE_LIBDIR";
/// Where it is installed, below the folder whose `bin/` holds the executable.
const BELOW_PREFIX: &str = "lib/ferroce";

/// The folder that holds the libraries.
pub(crate) fn directory() -> Result<PathBuf, Failure> {
    let (directory, hint) = match env::var_os(DIRECTORY_VARIABLE) {
        Some(named) => {
            (PathBuf::from(named), format!("{DIRECTORY_VARIABLE} names the folder; correct it"))
        }
        None => (
            below_prefix()?,
            format!("build it with `cargo xtask dist`, or name its folder in {DIRECTORY_VARIABLE}"),
        ),
    };
    let absolute = directory.canonicalize().unwrap_or_else(|_| directory.clone());
    if let Some(missing) = LIBRARIES.iter().find(|name| !absolute.join(name).is_file()) {
        let message = format!("there is no {missing} in {}", absolute.display());
        return Err(Failure::new(message).hint(hint));
    }
    if !fits_preload(&absolute) {
        let message = format!("{} cannot be written into LD_PRELOAD", absolute.display());
        return Err(Failure::new(message).hint(
            "the loader splits it at spaces, colons and semicolons: move Ferroce elsewhere",
        ));
    }
    Ok(absolute)
}

fn below_prefix() -> Result<PathBuf, Failure> {
    let executable = env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Failure::new(format!("cannot tell where ferroce itself is: {error}")))?;
    let prefix = executable.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    Ok(prefix.join(BELOW_PREFIX))
}

fn fits_preload(path: &Path) -> bool {
    let separators: &[u8] = b" \t\n:;";
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| separators.contains(byte))
}
