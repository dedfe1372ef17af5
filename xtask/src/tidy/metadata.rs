//! What `cargo metadata` says of our crates and of everything they pull in.

use std::env::consts::ARCH;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace;

/// Every package of the dependency graph, on Linux.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
}

/// One package, ours or not.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    /// `None` for packages of this repository.
    source: Option<String>,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    /// `dev`, `build`, or nothing for a normal one.
    kind: Option<String>,
    /// The folder, for dependencies inside this repository.
    path: Option<String>,
}

impl Metadata {
    /// Asks cargo.
    pub(super) fn read() -> Result<Self> {
        // Without the filter cargo would download crates that only other systems build.
        let platform = format!("{ARCH}-unknown-linux-gnu");
        let json = workspace::output(workspace::cargo().args([
            "metadata",
            "--format-version=1",
            "--filter-platform",
            &platform,
        ]))?;
        serde_json::from_str(&json).context("cannot read what cargo metadata printed")
    }

    /// Packages of this repository.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.source.is_none())
    }
}

impl Package {
    /// The room that a package is: the name of its folder.
    pub(super) fn room(&self) -> &str {
        Path::new(&self.manifest_path).parent().map_or("", folder_name)
    }

    /// Its folder, relative to the root of the repository.
    pub(super) fn folder(&self) -> String {
        let manifest = Path::new(&self.manifest_path);
        let folder = manifest.parent().unwrap_or(manifest);
        folder.strip_prefix(workspace::root()).unwrap_or(folder).display().to_string()
    }

    /// The rooms that it is built from; what only its tests use does not count.
    pub(super) fn rooms_used(&self) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .filter_map(|dependency| dependency.path.as_deref())
            .map(|path| folder_name(Path::new(path)))
    }
}

fn folder_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A package of this repository at `crates/<room>`, with the rooms it uses.
    pub(in crate::tidy) fn room(room: &str, uses: &[&str]) -> Package {
        let folder = |room: &str| format!("{}/crates/{room}", workspace::root().display());
        let dependency = |used: &&str| Dependency { kind: None, path: Some(folder(used)) };
        Package {
            name: format!("ferroce-{room}"),
            version: "0.1.0".into(),
            license: Some("MIT OR Apache-2.0".into()),
            source: None,
            manifest_path: format!("{}/Cargo.toml", folder(room)),
            dependencies: uses.iter().map(dependency).collect(),
        }
    }

    /// A package of the registry.
    pub(in crate::tidy) fn external(name: &str, license: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(Into::into),
            source: Some("registry+https://example.org".into()),
            manifest_path: format!("/registry/{name}/Cargo.toml"),
            dependencies: Vec::new(),
        }
    }
}
