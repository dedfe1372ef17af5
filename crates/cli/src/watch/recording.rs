//! Recordings: `--record` appends a line for each look, `--replay` judges them again.

use core::fmt;
use core::time::Duration;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ops::watch::{Raw, Watch, recorded};

use super::{Look, history, rows, verdict};
use crate::failure::Failure;
use crate::output::{cannot_write, print, tell};

/// What `--record` writes to.
#[derive(Debug)]
pub(super) struct Recording {
    path: PathBuf,
    file: File,
}

impl Recording {
    /// Goes on with the file, on a new line if its last one is cut.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let open = || {
            let mut file = File::options().create(true).read(true).append(true).open(path)?;
            let length =
                file.metadata().ok().filter(Metadata::is_file).map_or(0, |file| file.len());
            let mut last = [b'\n'];
            if length > 0 {
                file.read_exact_at(&mut last, length - 1)?;
            }
            if last != [b'\n'] {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = open().map_err(|error: io::Error| cannot_write(path, error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(super) fn add(&mut self, raw: &Raw, at: Duration) -> Result<(), Failure> {
        let line = recorded::write(raw, at);
        if line.len() > recorded::LINE_BYTES_MAX {
            let mib = recorded::LINE_BYTES_MAX >> 20;
            return Err(Failure::new(format!("a look is longer than a line of {mib} MiB"))
                .hint("record fewer hosts in one file: --from names the folder of some"));
        }
        self.file.write_all(line.as_bytes()).map_err(|error| cannot_write(&self.path, error))
    }
}

/// The next line, without its end; `None` after the last.
fn line(from: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    let most = recorded::LINE_BYTES_MAX as u64 + 1;
    from.take(most).read_until(b'\n', &mut bytes).map_err(|error| error.to_string())?;
    match bytes.last() {
        None => return Ok(None),
        Some(b'\n') => drop(bytes.pop()),
        Some(_) if bytes.len() > recorded::LINE_BYTES_MAX => {
            return Err(format!("it is longer than {} MiB", recorded::LINE_BYTES_MAX >> 20));
        }
        Some(_) => {}
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is no text".to_owned())
}

/// Judges a recording.
pub(super) fn replay(arguments: &Look, path: &Path) -> Result<(), Failure> {
    let cannot = |error: &dyn fmt::Display| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .hint("a recording is what --record wrote")
    };
    let mut file = BufReader::new(File::open(path).map_err(|error| cannot(&error))?);
    let mut watch = Watch::new(arguments.settings());
    let mut events = Vec::new();
    let (mut looks, mut ports, mut number) = (0u64, 0, 0);
    let mut cut = Vec::new();
    loop {
        number += 1;
        let line = line(&mut file).map_err(|why| cannot(&format!("line {number}: {why}")))?;
        let Some(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        match recorded::read(&line, number) {
            Ok((at, raw)) => {
                let sample = raw.sample();
                events.extend(watch.look(at, &sample).into_iter().map(|event| (at, event)));
                ports = ports.max(sample.ports.len());
                looks += 1;
            }
            // Whoever wrote it was ended; what comes after it, and what was before, is whole.
            Err(error) if recorded::is_cut(&line) => cut.push(error),
            Err(error) => return Err(cannot(&error)),
        }
    }
    match cut.first() {
        Some(error) if looks == 0 => return Err(cannot(error)),
        None if looks == 0 => return Err(cannot(&"there are no looks in it")),
        _ if ports == 0 => return Err(cannot(&"there are no ports in its looks")),
        _ => {}
    }
    for error in cut {
        tell(&format!("warning: line {} of {} is cut, and left out", error.line, path.display()));
    }
    let (found, open) = history(arguments, &events)?;
    if !arguments.json {
        print(&format!("{looks} looks; {found} found, {open} of them at the end\n"))?;
    }
    if let Some(line) = rows::too_soon(&watch.unjudged()) {
        tell(&format!("warning: {line}"));
    }
    verdict(found)
}
