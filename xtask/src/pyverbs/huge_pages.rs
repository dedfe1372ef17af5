//! Huge pages, which some of the tests want and few machines have reserved.

use std::fs;
use std::path::Path;

/// The kernel's count of reserved pages of 2 MiB, which root may change.
const RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
/// What the tests need at once.
const NEEDED: u32 = 8;

/// Huge pages that are reserved as long as this lives.
#[derive(Debug)]
pub(super) struct HugePages {
    /// The count to go back to, if it was changed.
    before: Option<u32>,
}

impl HugePages {
    /// Reserves what the tests need, if there are none and we may; says so if not.
    pub(super) fn reserve() -> Self {
        let path = Path::new(RESERVED);
        let mut pages = Self { before: None };
        let Some(before) = read(path) else { return pages };
        if before > 0 {
            return pages;
        }
        let written = fs::write(path, NEEDED.to_string());
        // A part may have been reserved: give it back.
        pages.before = written.is_ok().then_some(before);
        match (written, read(path)) {
            (Ok(()), Some(count)) if count >= NEEDED => {
                println!("{count} huge pages are reserved for the run");
            }
            (Ok(()), count) => println!("huge pages: {} of {NEEDED}", count.unwrap_or(0)),
            (Err(error), _) => println!("no huge pages are reserved, and none can be: {error}"),
        }
        pages
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && let Err(error) = fs::write(RESERVED, before.to_string())
        {
            println!("huge pages stay reserved: {error}");
        }
    }
}

fn read(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
