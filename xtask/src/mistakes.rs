//! `cargo xtask mistakes`: makes each mistake of the book's chapter on debugging, and compares what comes of it
//! with the chapter: the status, the log, the counter and the packets. And what else the chapter
//! promises of programs that fail, and of valgrind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::tally::Tally;
use crate::terminal;
use crate::workspace::{dist_dir, root, run as run_command};

const CHAPTER: &str = "docs/book/debugging.md";
const SOURCES: [&str; 2] = ["examples/c/mistakes.c", "examples/c/peer.c"];
/// A column that says nothing.
const NOTHING: &str = "-";

/// A row of the chapter's table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    mistake: String,
    status: String,
    log: String,
    counter: String,
    packets: String,
}

pub(crate) fn run() -> Result<Tally> {
    let chapter = fs::read_to_string(root().join(CHAPTER)).context(CHAPTER)?;
    let rows = rows(&chapter);
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("mistakes");
    compile(&program, SOURCES)?;
    check_all_are_told(&program, &rows)?;
    let has_tshark = Command::new("tshark").arg("--version").output().is_ok();
    if !has_tshark {
        println!("  packets are not looked at: there is no tshark");
    }
    let mut tally = Tally::default();
    for row in &rows {
        match attempt(&program, folder.path(), row, has_tshark) {
            Ok(()) => tally.passed += 1,
            Err(why) => {
                println!("  {} {}: {why:#}", terminal::red("FAILED"), row.mistake);
                tally.failed += 1;
            }
        }
    }
    println!("  {} of {} mistakes end as the chapter says", tally.passed, rows.len());
    let more = [
        ("rc_write, of whose packets none arrives: both ends end", both_ends_end(folder.path())),
        ("valgrind has nothing to say of a program that opens a device", valgrind_is_content()),
    ];
    for (what, outcome) in more {
        match outcome {
            Ok(()) => {
                println!("  {what}");
                tally.passed += 1;
            }
            Err(why) => {
                println!("  {} {what}: {why:#}", terminal::red("FAILED"));
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

fn valgrind_is_content() -> Result<()> {
    let mut command = ferroce();
    command.args(["--", "valgrind", "--error-exitcode=9", "ibv_devinfo"]);
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ended with {}: {said}", output.status);
    Ok(())
}

fn compile(program: &Path, sources: [&str; 2]) -> Result<()> {
    run_command(
        Command::new("cc")
            .current_dir(root())
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(program)
            .args(sources)
            .arg("-libverbs"),
    )
}

/// The first example's server ends when its client has failed, and both say why.
fn both_ends_end(folder: &Path) -> Result<()> {
    let program = folder.join("rc_write");
    compile(&program, ["examples/c/rc_write.c", "examples/c/peer.c"])?;
    let within = |command: &mut Command| {
        let mut bounded = Command::new("timeout");
        bounded.args(["--signal=KILL", "60"]).arg(command.get_program());
        bounded.args(command.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
        bounded.spawn()
    };
    let server = within(ferroce().arg("--").arg(&program))?;
    let client = within(ferroce().args(["--faults", "drop", "--"]).arg(&program).arg("127.0.0.1"))?;
    let (client, server) = (client.wait_with_output()?, server.wait_with_output()?);
    let said = String::from_utf8_lossy(&client.stdout);
    ensure!(client.status.code() == Some(1), "the client ended with {}: {said}", client.status);
    ensure!(said.contains("written: transport retry counter exceeded"), "the client said {said}");
    let said = String::from_utf8_lossy(&server.stderr);
    ensure!(server.status.code() == Some(1), "the server ended with {}: {said}", server.status);
    ensure!(said.contains("the other side ended"), "the server said {said}");
    Ok(())
}

/// The rows of the table whose first column is a mistake.
fn rows(chapter: &str) -> Vec<Row> {
    let lines = chapter.lines().skip_while(|line| !line.starts_with("| mistake |"));
    let table = lines.skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        // A bar inside a cell is escaped.
        let cells = line.replace("\\|", "\u{1}");
        let mut cells = cells
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').replace('\u{1}', "|"));
        let mut next = || cells.next().unwrap_or_default();
        Row { mistake: next(), status: next(), log: next(), counter: next(), packets: next() }
    };
    table.map(row).collect()
}

/// The program knows no mistake that the chapter does not tell.
fn check_all_are_told(program: &Path, rows: &[Row]) -> Result<()> {
    let output = ferroce().arg("--").arg(program).output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in listed.lines() {
        ensure!(rows.iter().any(|row| row.mistake == name), "{CHAPTER} does not tell of {name}");
    }
    ensure!(listed.lines().count() == rows.len(), "{CHAPTER} tells of mistakes that there are not");
    Ok(())
}

fn ferroce() -> Command {
    let mut command = Command::new(dist_dir().join("bin/ferroce"));
    command.args(["run", "--log", "warn"]);
    command
}

fn attempt(program: &Path, folder: &Path, row: &Row, has_tshark: bool) -> Result<()> {
    let (stats, packets) = (folder.join("stats.json"), folder.join("packets.pcapng"));
    let output = ferroce()
        .arg("--stats")
        .arg(&stats)
        .arg("--pcap")
        .arg(&packets)
        .arg("--")
        .args([program.as_os_str(), row.mistake.as_ref()])
        .output()?;
    let (said, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "it ended otherwise: {said}{log}");
    ensure!(said.trim() == format!("{}: {}", row.mistake, row.status), "the program read {said}");
    ensure!(row.log == NOTHING || log.contains(&row.log), "the log says {log}");
    let stats: Value = serde_json::from_str(&fs::read_to_string(&stats)?)?;
    let nics = &stats["processes"][0]["nics"];
    if row.counter != NOTHING {
        let counted = nics[0]["counters"][&row.counter].as_u64();
        ensure!(counted.is_some_and(|count| count > 0), "{} is {counted:?}", row.counter);
    }
    if row.packets != NOTHING && has_tshark {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&packets).args(["-Y", &row.packets]);
        let found = tshark.output().context("tshark")?;
        ensure!(!found.stdout.is_empty(), "tshark finds no packet: {}", row.packets);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_with_its_escapes() {
        let text = "\n| mistake | the program reads | c | d | e | f |\n|---|---|---|---|---|---|\n\
                    | `a` | b | c \\| c | `d` | - | try |\n\nafter\n";
        let [row] = &rows(text)[..] else { panic!("one row") };
        let Row { mistake, status, log, counter, packets } = row;
        let read = [mistake, status, log, counter, packets].map(String::as_str);
        assert_eq!(read, ["a", "b", "c | c", "d", "-"]);
    }

    #[test]
    fn the_chapter_has_rows() {
        let chapter = include_str!("../../docs/book/debugging.md");
        assert!(rows(chapter).len() > 15);
    }
}
