//! Blocks between fences, of README and of the pages in `docs/`.

use core::ops::Range;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README and every page of `docs/` and of the book, from the root.
pub(crate) fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/book"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        pages.extend(names.filter(|name| name.ends_with(".md")).map(|n| format!("{folder}/{n}")));
    }
    pages.sort_unstable();
    pages
}

pub(crate) fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// What stands between two fences.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The line of the fence, from one.
    pub(crate) line: usize,
    pub(crate) language: String,
    /// The words behind the language.
    pub(crate) marks: String,
    /// Where the body is in the page.
    pub(crate) body: Range<usize>,
}

/// The blocks of a page.
///
/// # Panics
///
/// If a fence is never closed.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut at, mut is_open) = (0, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            if is_open {
                blocks.last_mut().unwrap().body.end = at;
            } else {
                let (language, marks) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
                let begin = at + line.len();
                blocks.push(Block {
                    line: number + 1,
                    language: language.to_owned(),
                    marks: marks.to_owned(),
                    body: begin..begin,
                });
            }
            is_open = !is_open;
        }
        at += line.len();
    }
    assert!(!is_open, "a block is not closed");
    blocks
}

/// A command behind `$ `, and what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) printed: String,
}

/// The commands of a block `console`. A command goes on behind a backslash.
///
/// # Panics
///
/// If it begins with something else than a command.
pub(crate) fn steps(body: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in body.split_inclusive('\n') {
        let text = line.trim_end();
        match (text.strip_prefix("$ "), steps.last_mut()) {
            (None, Some(step)) if goes_on => step.command += text.trim_end_matches('\\'),
            (None, Some(step)) => {
                step.printed += line;
                continue;
            }
            (Some(command), _) => {
                let command = command.trim_end_matches('\\').to_owned();
                steps.push(Step { command, printed: String::new() });
            }
            (None, None) => panic!("a block `console` begins with `$ `, and not with {text}"),
        }
        goes_on = text.ends_with('\\');
    }
    steps
}

#[test]
fn a_page_is_cut_into_blocks_and_a_block_into_commands() {
    let text =
        "a\n```console differs=numbers\n$ one \\\n  two\n1\n\n2\n$ three\n```\n```\n$ no\n```\n";
    let found = blocks(text);
    let [block, plain] = &found[..] else { panic!("two blocks") };
    assert_eq!((block.line, &*block.language, &*block.marks), (2, "console", "differs=numbers"));
    assert_eq!((plain.line, &*plain.language), (10, ""));
    let step = |command: &str, printed: &str| Step {
        command: command.to_owned(),
        printed: printed.to_owned(),
    };
    let steps = steps(&text[block.body.clone()]);
    assert_eq!(steps, [step("one   two", "1\n\n2\n"), step("three", "")]);
}
