//! The files of the repository, read once, under paths relative to its root.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold nothing that we wrote.
const SKIPPED: [&str; 4] = [".git", "target", "node_modules", "artifacts"];

/// Kinds of files whose text the rules read; of all others only the path is known.
const READ: [&str; 6] = ["rs", "c", "h", "md", "toml", "sh"];

/// Path to text; the text of a binary or unread file is empty.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads everything below `root`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.descend(root, "")?;
        Ok(tree)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let own = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        Self { files: files.iter().map(own).collect() }
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Result<&str> {
        let text = self.files.get(path).with_context(|| format!("{path} is missing"))?;
        Ok(text)
    }

    /// Whether a file or a folder stands at `path`.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.below(path).next().is_some()
    }

    /// Files whose name ends in `.extension`.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| Path::new(path).extension() == Some(OsStr::new(extension)))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Files anywhere below a folder.
    pub(super) fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> {
        let prefix = format!("{folder}/");
        self.files
            .range(prefix.clone()..)
            .take_while(move |(path, _)| path.starts_with(&prefix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn descend(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.descend(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                let extension = Path::new(&name).extension().and_then(OsStr::to_str);
                let text = match extension {
                    Some(extension) if READ.contains(&extension) => {
                        fs::read_to_string(entry.path()).with_context(|| path.clone())?
                    }
                    _ => String::new(),
                };
                self.files.insert(path, text);
            }
        }
        Ok(())
    }
}
