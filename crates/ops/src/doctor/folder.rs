//! A folder of files, read within bounds.
//!
//! ```text
//!   cluster/
//!     desired.toml                       what every device should be (optional)
//!     doctor.toml                        findings that are known, with reasons (optional)
//!     tor-1/config_db.json               a switch
//!     tor-1/lldp.txt                     show lldp table
//!     tor-1/history/2026-11-20.json      an older config_db.json
//!     h0/mlnx_qos.eth2.txt               a host: COMMAND.INTERFACE.txt, COMMAND.INTERFACE.json
//! ```

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::limits::{DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX, FOLDER_BYTES_MAX};

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct File {
    /// Relative to the folder, with `/`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// When it was written, if the file system says.
    pub modified: Option<SystemTime>,
}

impl File {
    /// One with that text, without a time.
    pub fn new(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: text.into(), modified: None }
    }

    /// Its text, without what is no UTF-8 or UTF-16 and without a byte order mark.
    pub(super) fn text(&self) -> String {
        crate::text::of(&self.bytes)
    }
}

/// Files, by path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Folder {
    /// What it is called; empty if that is not known.
    pub name: String,
    /// What was read, in the order of their paths.
    pub files: Vec<File>,
    /// What was not, and why.
    pub left_out: Vec<(String, String)>,
}

impl Folder {
    /// Reads a folder with all within, but for files whose names begin with a point or with README. A file that
    /// cannot be read, or is too long, is among those left out.
    ///
    /// # Errors
    /// If the folder itself cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let real = fs::canonicalize(folder)?;
        let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut found = Self { name: name.unwrap_or_default(), ..Self::default() };
        let mut bytes_left = FOLDER_BYTES_MAX;
        found.walk(folder, "", &mut vec![real], &mut bytes_left)?;
        found.files.sort_by(|a, b| a.path.cmp(&b.path));
        found.left_out.sort();
        Ok(found)
    }

    /// A folder of these files.
    pub fn of(files: impl IntoIterator<Item = File>) -> Self {
        let mut files: Vec<File> = files.into_iter().collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { name: String::new(), files, left_out: Vec::new() }
    }

    /// The file at that path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// `within` are the folders that `at` is in, and itself.
    fn walk(
        &mut self,
        at: &Path,
        under: &str,
        within: &mut Vec<PathBuf>,
        left: &mut u64,
    ) -> io::Result<()> {
        let mut entries: Vec<fs::DirEntry> = fs::read_dir(at)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') || name.starts_with("README") {
                continue;
            }
            let path = if under.is_empty() { name.to_string() } else { format!("{under}/{name}") };
            if let Err(why) = self.take(&entry.path(), &path, within, left) {
                self.left_out.push((path, why));
            }
            if self.files.len() + self.left_out.len() >= FILES_MAX {
                let why = format!("a folder has at most {FILES_MAX} files");
                self.left_out.push((under.to_owned(), why));
                break;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        at: &Path,
        path: &str,
        within: &mut Vec<PathBuf>,
        left: &mut u64,
    ) -> Result<(), String> {
        // Links are followed, but not back to where they are.
        let why = |error: io::Error| error.to_string();
        let metadata = fs::metadata(at).map_err(why)?;
        if metadata.is_dir() {
            // A tree of sysfs may have any names.
            let is_file = ["json", "txt", "toml"]
                .iter()
                .any(|end| path.rsplit_once('.').is_some_and(|(_, extension)| extension == *end));
            if is_file && !path.contains("/sys/") {
                return Err("it is a folder, where a file should be".to_owned());
            }
            if !path.contains('/') && fs::read_dir(at).map_err(why)?.next().is_none() {
                return Err("there is nothing in it".to_owned());
            }
            if within.len() > DEPTH_MAX {
                return Err(format!("folders are read {DEPTH_MAX} deep"));
            }
            let real = fs::canonicalize(at).map_err(why)?;
            if within.contains(&real) {
                return Err("it is a link to a folder that it is in".to_owned());
            }
            within.push(real);
            let walked = self.walk(at, path, within, left).map_err(why);
            within.pop();
            return walked;
        }
        if !metadata.is_file() {
            return Err("it is no file".to_owned());
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(at).map_err(why)?;
        let bound = FILE_BYTES_MAX.min(*left);
        let length = file.take(bound + 1).read_to_end(&mut bytes).map_err(why)? as u64;
        if length > FILE_BYTES_MAX {
            return Err(format!("it is longer than {} MiB", FILE_BYTES_MAX >> 20));
        }
        if length > *left {
            return Err(format!("the folder has more than {} MiB", FOLDER_BYTES_MAX >> 20));
        }
        *left -= length;
        let modified = metadata.modified().ok();
        self.files.push(File { path: path.to_owned(), bytes, modified });
        Ok(())
    }
}
