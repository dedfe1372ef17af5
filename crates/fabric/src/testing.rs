//! Any bytes, as everything that the simulator reads from files.

use std::collections::BTreeSet;

use rdma::{Rate, Span};

use crate::Network;
use crate::check::Check;
use crate::scenario::sonic::ConfigDb;
use crate::scenario::{Files, Scenario};
use crate::switch::config::SwitchConfig;
use crate::topology::Cables;

/// Networks above this are read and explained, and not made: a fuzzer has better things to do.
const HOSTS_MADE: usize = 64;
/// The same, in flows.
const FLOWS_MADE: usize = 1_000;

/// Reads `bytes` as a `config_db.json` if they begin with a brace, and otherwise as a scenario, up to a
/// network that could run; says whether it could. Files that a scenario names are what stands behind the first NUL,
/// or of a folder, if that begins with the line "folder", what stands there behind the name of each.
///
/// # Panics
/// If an error does not say a line, or a line that is not there.
pub fn read_anything(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let (text, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(text) = core::str::from_utf8(text) else { return false };
    if text.trim_start().starts_with('{') {
        let link = Cables { rate: Rate::from_gbps(100), propagation: Span::from_ns(25) };
        let made = ConfigDb::parse(text)
            .and_then(|db| db.switch(&[link; 2], None, None, &SwitchConfig::default()));
        return made.map_or_else(|error| refused(text, &error.to_string()), |_| true);
    }
    let scenario = match Scenario::parse_with(text, &Content(file), None) {
        Ok(scenario) => scenario,
        Err(error) => return refused(text, &error.to_string()),
    };
    assert!(Check::new(&scenario).to_string().starts_with(&scenario.title));
    let network = scenario.network;
    if network.topology.hosts.len() > HOSTS_MADE || network.flows.len() > FLOWS_MADE {
        return true;
    }
    match Network::new(network) {
        Ok(_) => true,
        Err(error) => refused(text, &scenario.origin.explain(&error).to_string()),
    }
}

/// Files that a scenario names; see [`read_anything`].
pub(crate) struct Content<'a>(pub(crate) &'a [u8]);

impl Content<'_> {
    /// The lines of a folder.
    fn lines(&self) -> Option<impl Iterator<Item = &[u8]>> {
        Some(self.0.strip_prefix(b"folder\n")?.split(|&byte| byte == b'\n'))
    }
}

impl Files for Content<'_> {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(mut lines) = self.lines() else { return Ok(Some(self.0.to_owned())) };
        let of =
            |line: &[u8]| Some(line.strip_prefix(name.as_bytes())?.strip_prefix(b" ")?.to_owned());
        Ok(lines.find_map(of))
    }

    fn names(&self, folder: &str) -> Result<Option<Vec<String>>, String> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let of = |line: &[u8]| {
            let below = line.strip_prefix(prefix.as_bytes())?;
            let name = below.split(|&byte| byte == b'/' || byte == b' ').next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let names: BTreeSet<String> = self.lines().into_iter().flatten().filter_map(of).collect();
        Ok((!names.is_empty()).then(|| names.into_iter().collect()))
    }
}

/// Holds that the error says a line of the text.
fn refused(text: &str, error: &str) -> bool {
    let number = error.strip_prefix("line ").and_then(|rest| rest.split_once(':'));
    let line: Option<usize> = number.and_then(|(digits, _)| digits.parse().ok());
    // The end of a text may be behind its last line feed.
    let lines = text.lines().count() + 1;
    assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{error}");
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Every file of a folder of `fuzz/`.
    fn files(folder: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder);
        let entries = fs::read_dir(&folder).expect("the folder is in the repository");
        let read = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.expect("it can be listed").path();
            std::println!("{}", path.display());
            fs::read(path).expect("it can be read")
        };
        entries.map(read).collect()
    }

    #[test]
    fn the_corpus_is_read_and_what_is_cut_is_refused_without_a_panic() {
        let corpus = files("corpus/fabric");
        assert!(corpus.len() > 20, "{} files", corpus.len());
        assert!(corpus.iter().all(|bytes| read_anything(bytes)));
        for bytes in corpus.iter().chain(&files("regressions/fabric")) {
            // Cut at every fifth byte, it is a small fuzzer of its own.
            for end in (0..bytes.len().min(1_000)).step_by(5) {
                read_anything(&bytes[..end]);
            }
        }
    }
}
