//! How far the processor was a host's limit, and not its link.
//!
//! Linux says of each thread how long it ran, and how long it waited for a processor though it could have run
//! (`/proc/PID/task/TID/schedstat`). The second is time in which the host was slower than its link for a reason that
//! the modelled fabric knows nothing of.

use core::time::Duration;
use std::collections::HashMap;
use std::fs;

/// Time on processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Used {
    pub(crate) ran: Duration,
    pub(crate) waited: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    /// By process: its host, and what its threads have used.
    processes: HashMap<u32, (u32, HashMap<u64, Used>)>,
    /// By host: what processes that are gone have used.
    gone: HashMap<u32, Used>,
}

impl Used {
    fn plus(self, other: Self) -> Self {
        Self { ran: self.ran + other.ran, waited: self.waited + other.waited }
    }
}

impl Processors {
    /// Looks at `programs`, which are processes of hosts. A process that is gone keeps what was last seen of it.
    pub(crate) fn look(&mut self, programs: impl Iterator<Item = (u32, u32)>) {
        let there: HashMap<u32, u32> = programs.collect();
        let Self { processes, gone } = self;
        processes.retain(|process, (host, threads)| {
            let stays = there.contains_key(process);
            if !stays {
                let used = threads.values().fold(Used::default(), |sum, used| sum.plus(*used));
                let sum = gone.entry(*host).or_default();
                *sum = sum.plus(used);
            }
            stays
        });
        for (process, host) in there {
            let (_, threads) = processes.entry(process).or_insert_with(|| (host, HashMap::new()));
            read(process, threads);
        }
    }

    /// What the programs of a host have used.
    pub(crate) fn of(&self, host: u32) -> Used {
        let there = self.processes.values().filter(|(of, _)| *of == host);
        let threads = there.flat_map(|(_, threads)| threads.values());
        let gone = self.gone.get(&host).copied().unwrap_or_default();
        threads.fold(gone, |sum, used| sum.plus(*used))
    }
}

/// What is not there, or cannot be read, has used nothing more.
fn read(process: u32, threads: &mut HashMap<u64, Used>) {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return };
    for entry in entries.flatten() {
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let text = fs::read_to_string(entry.path().join("schedstat")).unwrap_or_default();
        if let Some(used) = parse(&text) {
            threads.insert(thread, used);
        }
    }
}

/// Nanoseconds on a processor, nanoseconds of waiting for one, times that it got one.
fn parse(text: &str) -> Option<Used> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok().map(Duration::from_nanos));
    Some(Used { ran: words.next()??, waited: words.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_processes_counts_for_their_host_and_stays_when_they_are_gone() {
        assert_eq!(
            parse("7 9 2\n"),
            Some(Used { ran: Duration::from_nanos(7), waited: Duration::from_nanos(9) })
        );
        assert_eq!(parse(""), None);
        let mut processors = Processors::default();
        let own = std::process::id();
        processors.look([(own, 3)].into_iter());
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        processors.look([(own, 3)].into_iter());
        let used = processors.of(3);
        // A kernel without these numbers says nothing.
        if std::path::Path::new("/proc/self/schedstat").exists() {
            assert!(used.ran > Duration::ZERO);
        }
        processors.look([(u32::MAX, 4)].into_iter());
        assert_eq!((processors.of(3), processors.of(4)), (used, Used::default()));
    }
}
