//! Root folders of distributions, filled by debootstrap and kept.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

const MIRROR: &str = "http://deb.debian.org/debian";

/// Fills a folder that is not there yet: `words` are what debootstrap is told before the folder, and `finish` what is
/// done with it then.
pub(crate) fn fill(
    root: &Path,
    words: &[&str],
    finish: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    println!("filling {}", root.display());
    // Under its name only when it is complete.
    let fresh = root.with_extension("new");
    if fresh.exists() {
        remove(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    workspace::output(Command::new("debootstrap").args(words).arg(&fresh).arg(MIRROR))
        .with_context(|| format!("debootstrap cannot fill {}", fresh.display()))?;
    finish(&fresh)?;
    fs::rename(&fresh, root)?;
    Ok(())
}

/// The version of a package that is installed below a root folder.
pub(crate) fn version(root: &Path, package: &str) -> Result<String> {
    let admin = format!("--admindir={}", root.join("var/lib/dpkg").display());
    let words = [admin.as_str(), "--show", "--showformat=${Version}", package];
    workspace::output(Command::new("dpkg-query").args(words))
}

/// Removes what an interrupted debootstrap has left, but nothing behind a mount.
fn remove(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
    let inside = format!("{}/", folder.display());
    if let Some(mount) = mounts.split_whitespace().find(|word| word.starts_with(&inside)) {
        bail!("{mount} is still mounted\n hint: umount {mount}");
    }
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}
