//! Every block `console` of README and book is run again, and prints what the page shows.
//!
//! ```text
//!   ```console            a command behind `$ `, and what it prints; `...` is any number of lines
//!   ```console differs=…  the same, but for what a rule of DIFFERS leaves out
//!   ```console terminal   the same, and what it writes to is a terminal
//!   ELSEWHERE             what a plain test cannot run: who runs it, and why not here
//! ```
//!
//! The blocks of a page are run in order, in one folder, by bash. A block of another language whose first line is
//! `# NAME.toml` or `# NAME.csv` is a file of that folder, and the folders of [`SHARED`] are there as in the
//! repository. `SNAPSHOTS=overwrite` makes the page show what is printed now.
//!
//! Deliberately absent: blocks `text`, which are measurements on record, layouts and pictures.

mod blocks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use blocks::{Block, Step, blocks, pages, read, root, steps};

/// Folders of the repository that commands find.
const SHARED: [&str; 4] = ["examples", "flows", "scenarios", "studies"];

/// Rules by which what a page shows and what is printed are compared: a name, what a reader may know of it.
const DIFFERS: [(&str, &str); 2] = [
    (
        "numbers",
        "times and rates of a machine: each number stands for any, and so do spaces around",
    ),
    (
        "addresses",
        "hexadecimal numbers, 0x and what follows, stand for any; lines may break elsewhere",
    ),
];

/// Who runs a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    /// `cargo xtask book`, a stage of `make test`: it needs the libraries of `target/dist`.
    Book,
    /// `cargo xtask book --long`: minutes.
    Long,
    /// Another stage of `make test`.
    Stage(&'static str),
    /// A test elsewhere, by file and name.
    Test(&'static str, &'static str),
}
use Runner::{Book, Long, Stage, Test};

/// What is not run here: the page, the first command of the block, who runs it, and why.
const ELSEWHERE: &[(&str, &str, Runner, &str)] = &[
    (
        "docs/book/debugging.md",
        "cc -o mistakes examples/c/mistakes.c examples/c/peer.c -libverbs",
        Book,
        "a program over the libraries of target/dist",
    ),
    (
        "docs/book/middleware.md",
        "ferroce run -- bash -c 'ls /dev/infiniband; cat /sys/class/infiniband/ferroce0/ports/1/gid_attrs/types/1'",
        Book,
        "a program over the libraries of target/dist",
    ),
    (
        "docs/book/middleware.md",
        "ferroce run -- ucx_info -d",
        Stage("programs"),
        "it needs UCX; the stage looks for the lines",
    ),
    (
        "docs/book/middleware.md",
        "mpicc -O2 -o mpi examples/c/mpi.c",
        Stage("programs"),
        "it needs OpenMPI; the stage looks for the last lines",
    ),
    (
        "docs/book/middleware.md",
        "cd examples/python",
        Stage("programs"),
        "two terminals, and packages of Debian and PyPI; the stage looks for the last lines",
    ),
    (
        "docs/book/distributions.md",
        "sudo cargo xtask distributions",
        Stage("distributions"),
        "it needs root and a network",
    ),
    ("docs/book/interop.md", "sudo -E cargo xtask interop", Stage("interop"), "a virtual machine"),
    (
        "docs/book/pingmesh.md",
        "ferroce pingmesh collect --topology scenarios/pingmesh/four-hosts.toml --db mesh.db --key key",
        Stage("pingmesh"),
        "a network with a bad cable; the stage waits for the first line",
    ),
    (
        "docs/book/pingmesh.md",
        "cargo xtask pingmesh --full",
        Stage("pingmesh"),
        "it needs root; the stage runs its first rows",
    ),
    (
        "docs/book/pingmesh.md",
        "ferroce pingmesh collect --topology scenarios/pingmesh/hosts-20000.toml --db big.db --key key --rate 10",
        Test("crates/cli/tests/pingmesh/mod.rs", "a_load_of_few_agents_is_taken_whole"),
        "two terminals and two minutes; the test has fewer agents and shorter windows",
    ),
    ("docs/book/pingmesh.md", "ferroce pingmesh trial", Long, "160 simulated networks: minutes"),
    ("docs/book/guidance.md", "ferroce papers guidance", Long, "nine minutes"),
    (
        "docs/book/guidance.md",
        "ferroce papers guidance --quick",
        Test(
            "crates/papers/tests/guidance.rs",
            "the_page_of_guidance_shows_what_the_quick_form_prints",
        ),
        "simulations of a minute, which the papers' own tests have optimised",
    ),
];

/// How a command was found, and where it is run.
struct Page {
    name: String,
    text: String,
    folder: TempDir,
    /// Where the command `ferroce` is.
    programs: PathBuf,
}

impl Page {
    fn open(name: &str, programs: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        for shared in SHARED {
            std::os::unix::fs::symlink(root().join(shared), folder.path().join(shared)).unwrap();
        }
        let (name, text) = (name.to_owned(), read(name));
        Self { name, text, folder, programs: programs.to_owned() }
    }

    fn body(&self, block: &Block) -> &str {
        &self.text[block.body.clone()]
    }

    /// Whether somebody else runs a block.
    fn runner(&self, block: &Block) -> Option<Runner> {
        let steps = steps(self.body(block));
        let first = &steps.first()?.command;
        let row =
            ELSEWHERE.iter().find(|(page, command, ..)| *page == self.name && command == first);
        row.map(|&(_, _, runner, _)| runner)
    }

    /// Puts a file there, if the block is one.
    fn place(&self, block: &Block) {
        let body = self.body(block);
        // One with a folder is of the repository.
        if let Some(name) = file_of(body).filter(|name| !name.contains('/')) {
            fs::write(self.folder.path().join(name), body).unwrap();
        }
    }

    /// Runs one command, on a terminal if the block says so; what it prints on stdout and stderr.
    fn run(&self, command: &str, marks: &str) -> String {
        let path = std::env::var("PATH").unwrap();
        let mut bash = Command::new("bash");
        let set = std::env::vars_os().map(|(name, _)| name);
        for name in set.filter(|name| name.to_string_lossy().starts_with("FERROCE_")) {
            bash.env_remove(name);
        }
        if marks.split(' ').any(|mark| mark == "terminal") {
            bash.args(["-c", "script -qec \"$0\" /dev/null", command]);
        } else {
            bash.args(["-c", &format!("exec 2>&1\n{command}\n")]);
        }
        let output = bash
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).replace('\r', "")
    }

    /// Runs the blocks of `runner`, and compares. What differs, and the page as it would be right.
    fn follow(&self, runner: Option<Runner>) -> (usize, Vec<String>, String) {
        let (mut commands, mut wrong) = (0, Vec::new());
        let mut renewed = self.text.clone();
        for block in blocks(&self.text) {
            if block.language != "console" {
                self.place(&block);
                continue;
            }
            if self.runner(&block) != runner {
                continue;
            }
            for Step { command, printed: shown } in steps(self.body(&block)) {
                let printed = self.run(&command, &block.marks);
                commands += 1;
                if agree(&printed, &shown, &block.marks) {
                    continue;
                }
                let place = format!("{}:{}: $ {command}", self.name, block.line);
                wrong.push(format!("{place}\n--- shown\n{shown}\n--- printed\n{printed}"));
                let (old, new) =
                    (format!("$ {command}\n{shown}"), format!("$ {command}\n{printed}"));
                renewed = renewed.replacen(&old, &new, 1);
            }
        }
        (commands, wrong, renewed)
    }
}

/// Whether a text is the one that is shown, in which a line `...` is any number of lines.
fn agree(printed: &str, shown: &str, marks: &str) -> bool {
    let (printed, shown) = (masked(printed, marks), masked(shown, marks));
    let (printed, shown): (Vec<_>, Vec<_>) = (printed.lines().collect(), shown.lines().collect());
    let parts: Vec<&[&str]> = shown.split(|line| *line == "...").collect();
    let [first, middle @ .., last] = &parts[..] else { return printed == shown };
    let mut rest = printed.strip_prefix(*first).and_then(|rest| rest.strip_suffix(*last));
    for part in middle {
        rest = rest.and_then(|rest| {
            let at = rest.windows(part.len().max(1)).position(|lines| lines == *part)?;
            Some(&rest[at + part.len()..])
        });
    }
    rest.is_some()
}

/// A text without what its block says that differs.
fn masked(text: &str, marks: &str) -> String {
    let mut text = text.trim_end().to_owned();
    for rule in rules(marks) {
        text = match rule {
            "numbers" => without_numbers(&text),
            "addresses" => without_addresses(&text),
            _ => panic!("no rule is called {rule}"),
        };
    }
    text
}

/// What the marks of a block say that differs.
fn rules(marks: &str) -> impl Iterator<Item = &str> {
    let of = marks.split(' ').filter_map(|mark| mark.strip_prefix("differs="));
    of.flat_map(|rules| rules.split(','))
}

/// With `N` in the place of each number, and one space in the place of several.
fn without_numbers(text: &str) -> String {
    let line = |line: &str| {
        let mut out = String::new();
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            if character.is_ascii_digit() && !out.ends_with(char::is_alphabetic) {
                let goes_on = |c: &char| c.is_ascii_digit() || ",._".contains(*c);
                while characters.next_if(goes_on).is_some() {}
                out.push('N');
            } else if character != ' ' || !out.ends_with(' ') {
                out.push(character);
            }
        }
        out.trim_end().to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// With `0x` in the place of each hexadecimal number, and one space in the place of any white space.
fn without_addresses(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        let (before, number) = word.split_once("0x").unwrap_or((word, ""));
        out += before;
        if word.contains("0x") {
            out += "0x";
            out += number.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        }
        out.push(' ');
    }
    out
}

fn overwrites() -> bool {
    std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite")
}

/// Follows all pages for one runner.
fn follow_all(runner: Option<Runner>, programs: &Path) {
    let (mut commands, mut wrong) = (0, Vec::new());
    for name in pages() {
        let page = Page::open(&name, programs);
        let (count, differences, renewed) = page.follow(runner);
        commands += count;
        if overwrites() && !differences.is_empty() {
            fs::write(root().join(&name), renewed).unwrap();
            continue;
        }
        wrong.extend(differences);
    }
    println!("{commands} commands");
    assert!(commands > 0, "no page has a block for {runner:?}");
    assert!(wrong.is_empty(), "{}\nSNAPSHOTS=overwrite renews pages", wrong.join("\n\n"));
}

#[test]
fn every_block_of_a_terminal_prints_what_the_page_shows() {
    let program = Path::new(env!("CARGO_BIN_EXE_ferroce"));
    follow_all(None, program.parent().unwrap());
}

/// Where `cargo xtask book` has built everything.
fn dist() -> PathBuf {
    root().join("target/dist/bin")
}

#[test]
#[ignore = "it needs target/dist: cargo xtask book"]
fn blocks_of_programs_over_the_libraries_print_what_the_page_shows() {
    follow_all(Some(Book), &dist());
}

#[test]
#[ignore = "minutes: cargo xtask book --long"]
fn blocks_of_minutes_print_what_the_page_shows() {
    follow_all(Some(Long), &dist());
}

#[test]
fn every_row_of_the_table_has_its_block_and_its_runner() {
    let stages = read("xtask/src/ci.rs");
    let is_stage = |name: &str| {
        let how = ["stage", "tests", "if_it_can"];
        how.iter().any(|how| stages.contains(&format!("{how}(\"{name}\"")))
    };
    for &(page, command, runner, why) in ELSEWHERE {
        let text = read(page);
        let console = blocks(&text).into_iter().filter(|block| block.language == "console");
        let first = |block: Block| steps(&text[block.body]).swap_remove(0).command;
        assert!(console.map(first).any(|first| first == command), "{page} has no `{command}`");
        assert!(!why.is_empty());
        match runner {
            Book | Long => assert!(is_stage("book"), "no stage runs the book"),
            Stage(name) => assert!(is_stage(name), "there is no stage {name}"),
            Test(file, name) => {
                assert!(read(file).contains(&format!("fn {name}(")), "{file} has no {name}");
            }
        }
    }
}

/// The file that a block is, by its first line.
fn file_of(body: &str) -> Option<&str> {
    let name = body.lines().next()?.strip_prefix("# ")?;
    (name.ends_with(".toml") || name.ends_with(".csv")).then_some(name)
}

#[test]
fn files_of_the_repository_are_shown_as_they_are() {
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        for block in blocks(&text) {
            let body = &text[block.body];
            let Some(name) = file_of(body).filter(|name| name.contains('/')) else { continue };
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
            let file = fs::read_to_string(path).unwrap_or_default();
            assert!(body == file, "{page}:{}: {name} is another", block.line);
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn marks_of_blocks_are_rules_and_outputs_are_no_plain_text() {
    for page in pages() {
        let text = read(&page);
        for block in blocks(&text) {
            let place = format!("{page}:{}", block.line);
            let body = &text[block.body];
            match &*block.language {
                "console" => {
                    for rule in rules(&block.marks) {
                        assert!(DIFFERS.iter().any(|(name, _)| *name == rule), "{place}: {rule}");
                    }
                    let mut marks = block.marks.split(' ');
                    let known = |mark: &str| {
                        ["", "terminal"].contains(&mark) || mark.starts_with("differs=")
                    };
                    assert!(marks.all(known), "{place}: {}", block.marks);
                }
                "" | "text" | "sh" => {
                    assert!(
                        !body.starts_with("$ "),
                        "{place}: a command and its output are `console`"
                    );
                    assert_eq!(block.marks, "", "{place}");
                }
                "toml" | "csv" | "json" | "yaml" | "c" | "python" | "rust" | "sql" => {}
                other => panic!("{place}: {other} is not looked at by anybody"),
            }
        }
    }
}

/// Lines that may be wider than a terminal: how they begin, and why.
const WIDE: &[(&str, &str)] = &[
    ("error: ", "a message is one line, for whoever looks for its words"),
    ("hint: ", "the same"),
    ("note: ", "the same"),
    ("libibverbs (ferroce): ", "a log has an event a line"),
    ("    2.578 ms  found  ", "the same"),
    ("SICK: ", "the same"),
    ("  3 of 3 slow pairs ", "the same"),
    ("window ", "the same"),
    ("         type     ", "a command to be copied stands alone on its line"),
];

#[test]
fn what_the_command_prints_fits_a_terminal() {
    let mut wide = Vec::new();
    for page in pages() {
        let text = read(&page);
        for block in blocks(&text).iter().filter(|block| block.language == "console") {
            let ours = steps(&text[block.body.clone()]).into_iter();
            for step in ours.filter(|step| step.command.starts_with("ferroce ")) {
                let may = |line: &str| WIDE.iter().any(|(begin, _)| line.starts_with(begin));
                let lines = step.printed.lines().filter(|line| line.chars().count() > 80);
                wide.extend(lines.filter(|l| !may(l)).map(|line| format!("{page}: {line}")));
            }
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn what_differs_is_left_out_and_nothing_else() {
    let of = |printed, shown, marks| agree(printed, shown, marks);
    assert!(of("a\nb\nc\n", "a\n...\nc\n", ""));
    assert!(of("a\nb\nc\n", "...\nc\n", ""));
    assert!(of("a\nb\nc\n", "a\n...\n", ""));
    assert!(!of("a\nb\nc\n", "a\n...\nb\n", ""));
    assert!(!of("a\nb\n", "a\n", ""));
    assert!(of("12 us,  p99 3.5\n", "1,000 us, p99 77\n", "differs=numbers"));
    assert!(!of("12 us\n", "12 ms\n", "differs=numbers"));
    assert!(!of("12 us\n", "13 us\n", ""));
    assert!(of("QP 0x1f:\n", "QP 0x2:\n", "differs=addresses"));
    assert!(!of("QP 0x1f: a\n", "QP 0x2: b\n", "differs=addresses"));
}

#[test]
fn the_page_of_all_keys_is_what_the_code_says() {
    let path = root().join("docs/book/scenario.md");
    let page = fabric::scenario::page(&fabric::scenario::reference());
    if overwrites() {
        fs::write(&path, &page).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == page, "stale: SNAPSHOTS=overwrite renews it");
}
