//! Circles among the modules of a crate: such modules cannot be read one at a time.
//!
//! - A **node** is a source file of a crate's library or program; inline modules belong to their file.
//!   Joined by the first word of their module paths, files are the crate's **folders**; a file at the top
//!   is a folder of its own, and so is the root.
//! - An **arrow** is a path in one file that leads to an item of another: in a `use` declaration, a type,
//!   an expression, an attribute, the text of a macro. It may begin with `crate`, `self`, `super`, with a
//!   child or with a name that was imported; how it is written makes no difference. From a module to what
//!   stands below it there is none: it is made of that.
//! - A **re-export** is followed to the file that defines the item, in the crate's root as elsewhere. So it
//!   neither hides an arrow nor makes one. `mod x;`, the name of a module that nothing is taken from, and
//!   what another crate defines are no arrows.
//! - What only **tests** compile does not count: an item whose `cfg` cannot hold without `test`.
//! - A **circle** is a set of nodes of which each leads to each other by arrows.
//!
//! [`ALLOWED`] lists the circles that still stand, by their sizes, because names change whenever a file
//! moves. They may only shrink: more is a finding, and so is a row that allows more
//! than there is left.
//! What only type inference knows (the module of a method that is called on a value) is not seen.

mod arrows;
mod graph;
mod modules;

use core::fmt::{self, Write as _};
use std::collections::BTreeSet;
use std::fs;
use std::thread;

use anyhow::{Context, Result};

use super::finding::Finding;
use super::metadata::{Metadata, Package};
use super::tree::Tree;
use crate::workspace;
use graph::Graph;
use modules::Modules;

/// The circles that still stand.
const ALLOWED: &str = "xtask/src/tidy/circles/allowed.md";

/// The two sizes that nodes come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Files,
    Folders,
}

/// How much of a crate is in circles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Members of the largest circle.
    largest: usize,
    /// Members of all circles together.
    together: usize,
}

/// Where an arrow is written; the shortest path to its end comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: String,
    line: usize,
    path: String,
}

/// The arrows of one crate, at both sizes.
#[derive(Debug)]
struct Crate {
    room: String,
    folder: String,
    files: Graph<Place>,
    folders: Graph<Place>,
}

/// A row of [`ALLOWED`].
#[derive(Debug)]
struct Row {
    line: usize,
    room: String,
    kind: Kind,
    size: Size,
}

/// What may be asked of `cargo xtask tidy --circles`.
#[derive(Debug)]
pub(super) enum Question {
    /// The circles of every crate.
    All,
    /// Those of one crate, with every arrow within them.
    Arrows(String),
    /// Write the smaller sizes into the list.
    Shrink,
}

/// The list against the crates: circles that grow, and rows that allow more than there is.
pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>> {
    let rows = rows(tree.text(ALLOWED)?);
    let crates = crates(tree, metadata)?;
    let mut findings = Vec::new();
    for one in &crates {
        for kind in [Kind::Files, Kind::Folders] {
            let row = rows.iter().find(|row| row.room == one.room && row.kind == kind);
            findings.extend(one.grown(kind, row));
        }
    }
    for row in &rows {
        match crates.iter().find(|one| one.room == row.room) {
            Some(one) if one.size(row.kind) == Size::default() => {
                let message = format!(
                    "`{}` has no circle among {} any more: remove this row, as `cargo xtask tidy \
                     --shrink` does",
                    row.room, row.kind
                );
                findings.push(Finding::new(ALLOWED, row.line, message));
            }
            Some(one) => findings.extend(one.shrunk(row)),
            None => {
                let message = format!("no crate of the workspace is called `{}`", row.room);
                findings.push(Finding::new(ALLOWED, row.line, message));
            }
        }
    }
    Ok(findings)
}

/// Answers on the standard output.
pub(super) fn answer(question: &Question, tree: &Tree, metadata: &Metadata) -> Result<()> {
    let crates = crates(tree, metadata)?;
    match question {
        Question::All => crates.iter().for_each(|one| print!("{}", one.shown(false))),
        Question::Arrows(room) => {
            let one = crates.iter().find(|one| one.room == *room);
            print!("{}", one.with_context(|| format!("no such crate: {room}"))?.shown(true));
        }
        Question::Shrink => {
            let path = workspace::root().join(ALLOWED);
            fs::write(&path, shrunk(tree.text(ALLOWED)?, &crates))?;
        }
    }
    Ok(())
}

/// Reads the workspace, each crate in a thread of its own.
fn crates(tree: &Tree, metadata: &Metadata) -> Result<Vec<Crate>> {
    thread::scope(|scope| {
        let readers: Vec<_> =
            metadata.ours().map(|package| scope.spawn(|| Crate::read(tree, package))).collect();
        let crates = readers.into_iter().map(|reader| reader.join().expect("a reader ends"));
        crates.filter_map(Result::transpose).collect()
    })
}

impl Crate {
    /// The crate of a package; `None` if it has no source.
    fn read(tree: &Tree, package: &Package) -> Result<Option<Self>> {
        let (room, folder) = (package.room().to_owned(), format!("{}/src", package.folder()));
        let roots = [format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
        let roots: Vec<&String> = roots.iter().filter(|path| tree.text(path).is_ok()).collect();
        if roots.is_empty() {
            return Ok(None);
        }
        let mut files = Graph::new();
        for root in roots {
            for arrow in arrows::of(Modules::read(tree, root)?) {
                let (from, to) = (within(&folder, &arrow.from), within(&folder, &arrow.to));
                let place = Place { file: arrow.from.clone(), line: arrow.line, path: arrow.path };
                files.add(from, to, place);
            }
        }
        let folders = files.joined(|file| {
            let top = file.split_once('/').map_or(file, |(top, _)| top);
            top.strip_suffix(".rs").unwrap_or(top).to_owned()
        });
        Ok(Some(Self { room, folder, files, folders }))
    }

    fn graph(&self, kind: Kind) -> &Graph<Place> {
        match kind {
            Kind::Files => &self.files,
            Kind::Folders => &self.folders,
        }
    }

    fn size(&self, kind: Kind) -> Size {
        let circles = self.graph(kind).circles();
        Size {
            largest: circles.first().map_or(0, BTreeSet::len),
            together: circles.iter().map(BTreeSet::len).sum(),
        }
    }

    /// More in circles than a row allows, or than none where there is no row.
    fn grown(&self, kind: Kind, row: Option<&Row>) -> Option<Finding> {
        let size = self.size(kind);
        let allowed = row.map_or(Size::default(), |row| row.size);
        if size.largest <= allowed.largest && size.together <= allowed.together {
            return None;
        }
        let mut message = format!(
            "`{}`: circles among {kind} grow: the largest has {}, all together {}; allowed are {} and {}",
            self.room, size.largest, size.together, allowed.largest, allowed.together
        );
        for circle in self.graph(kind).circles() {
            let _ = write!(message, "\n  the smallest within {}:", listed(&circle));
            message.push_str(&drawn(&self.graph(kind).smallest_within(&circle)));
        }
        let path = row.map_or(self.folder.as_str(), |_| ALLOWED);
        Some(Finding::new(path, row.map(|row| row.line), message))
    }

    /// Less in circles than a row allows.
    fn shrunk(&self, row: &Row) -> Option<Finding> {
        let (kind, size) = (row.kind, self.size(row.kind));
        let less = size.largest < row.size.largest || size.together < row.size.together;
        let message = format!(
            "`{}`: the largest circle among {kind} has {}, all together {}, which is less than allowed: \
             `cargo xtask tidy --shrink` writes so",
            self.room, size.largest, size.together
        );
        less.then(|| Finding::new(ALLOWED, row.line, message))
    }

    fn shown(&self, arrows: bool) -> String {
        let mut text = String::new();
        for kind in [Kind::Files, Kind::Folders] {
            let circles = self.graph(kind).circles();
            let sizes: Vec<String> =
                circles.iter().map(|circle| circle.len().to_string()).collect();
            let sizes = if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") };
            let _ = writeln!(text, "{}, circles among {kind}: {sizes}", self.room);
            for circle in &circles {
                let _ = write!(text, "  {}: {}", circle.len(), listed(circle));
                let shown = match arrows {
                    true => self.graph(kind).within(circle),
                    false => self.graph(kind).smallest_within(circle),
                };
                let _ = writeln!(text, "{}", drawn(&shown));
            }
        }
        text
    }
}

/// `path` without the folder of the crate's source.
fn within<'p>(folder: &str, path: &'p str) -> &'p str {
    path.strip_prefix(folder).map_or(path, |path| path.trim_start_matches('/'))
}

fn listed(circle: &BTreeSet<String>) -> String {
    circle.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn drawn(arrows: &[(&str, &str, &Place)]) -> String {
    let mut text = String::new();
    for (from, to, place) in arrows {
        let _ = write!(text, "\n    {from} -> {to}   {}:{} {}", place.file, place.line, place.path);
    }
    text
}

/// The rows of the list: crate, `files` or `folders`, members of the largest circle, of all together.
fn rows(list: &str) -> Vec<Row> {
    list.lines().enumerate().filter_map(|(index, text)| row(index + 1, text)).collect()
}

fn row(line: usize, text: &str) -> Option<Row> {
    let cells: Vec<&str> = text.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [room, kind, largest, together] = cells.as_slice() else { return None };
    let kind = [Kind::Files, Kind::Folders].into_iter().find(|it| it.to_string() == *kind)?;
    let size = Size { largest: largest.parse().ok()?, together: together.parse().ok()? };
    Some(Row { line, room: (*room).to_owned(), kind, size })
}

/// The list with what has shrunk, and without rows that allow nothing.
fn shrunk(list: &str, crates: &[Crate]) -> String {
    let mut kept = String::new();
    for text in list.lines() {
        let Some(row) = row(0, text) else {
            kept.push_str(text);
            kept.push('\n');
            continue;
        };
        let now = crates.iter().find(|one| one.room == row.room);
        let now = now.map_or(Size::default(), |one| one.size(row.kind));
        let largest = now.largest.min(row.size.largest);
        let together = now.together.min(row.size.together);
        if largest > 0 {
            let _ = writeln!(kept, "| {} | {} | {largest} | {together} |", row.room, row.kind);
        }
    }
    kept
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::Folders => "folders",
        })
    }
}

#[cfg(test)]
mod tests;
