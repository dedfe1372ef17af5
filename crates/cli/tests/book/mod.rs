//! Pages of the book that show what a command prints: each is run again, and prints that.
//!
//! A block `console` is a command behind `$ ` and what it prints. A block whose first line is
//! `# NAME.toml` or `# NAME.csv` is a file, which the commands after it find.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::ferroce;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs the commands of a page, each beside the files before it and the folder `scenarios`; returns
/// how many there were. With `SNAPSHOTS=overwrite` the page shows afterwards what they print.
fn follow(page: &str) -> usize {
    let path = Path::new(ROOT).join("docs/book").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let mut renewed = text.clone();
    let overwrite = std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite");
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink(Path::new(ROOT).join("scenarios"), folder.path().join("scenarios"))
        .unwrap();
    let mut commands = 0;
    // Every second piece between fences is a block.
    for block in text.split("```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').unwrap();
        if let Some(command) = body.strip_prefix("$ ferroce ").filter(|_| language == "console") {
            let (command, expected) = command.split_once('\n').unwrap();
            let words = command.split(' ').map(|word| word.trim_matches('\''));
            let output = ferroce().args(words).current_dir(folder.path()).output().unwrap();
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed).into_owned();
            if overwrite {
                let shown = format!("$ ferroce {command}\n{}\n", printed.trim_end());
                renewed = renewed.replacen(body, &shown, 1);
            } else {
                assert_eq!(printed.trim_end(), expected.trim_end(), "{page}: {command}");
            }
            commands += 1;
        }
        if let Some(files) = body.strip_prefix("$ cp ").filter(|_| language == "console") {
            let (from, to) = files.trim_end().split_once(' ').unwrap();
            fs::copy(folder.path().join(from), folder.path().join(to)).unwrap();
        }
        let name = body.lines().next().and_then(|line| line.strip_prefix("# "));
        let file = |name: &&str| name.ends_with(".toml") || name.ends_with(".csv");
        if let Some(name) = name.filter(file) {
            fs::write(folder.path().join(name), body).unwrap();
        }
    }
    if overwrite {
        fs::write(&path, renewed).unwrap();
    }
    commands
}

#[test]
fn what_the_book_shows_of_sim_check_is_what_it_prints() {
    assert_eq!(follow("sim-check.md"), 5);
}

#[test]
fn the_way_from_a_switch_to_a_verdict_is_what_the_commands_print() {
    assert_eq!(follow("from-a-switch.md"), 5);
}

#[test]
fn the_page_of_all_keys_is_what_the_code_says() {
    let path = Path::new(ROOT).join("docs/book/scenario.md");
    let page = fabric::scenario::page(&fabric::scenario::reference());
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, &page).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == page, "stale: SNAPSHOTS=overwrite renews it");
}
