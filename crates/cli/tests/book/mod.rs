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
/// how many there were.
fn follow(page: &str) -> usize {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/book").join(page)).unwrap();
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink(Path::new(ROOT).join("scenarios"), folder.path().join("scenarios"))
        .unwrap();
    let mut commands = 0;
    // Every second piece between fences is a block.
    for block in text.split("```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').unwrap();
        if let Some(command) = body.strip_prefix("$ ferroce ").filter(|_| language == "console") {
            let (command, expected) = command.split_once('\n').unwrap();
            let run = ferroce().args(command.split(' ')).current_dir(folder.path());
            let output = run.output().unwrap();
            let printed = [output.stdout, output.stderr].concat();
            assert_eq!(String::from_utf8_lossy(&printed).trim_end(), expected.trim_end());
            commands += 1;
        }
        let name = body.lines().next().and_then(|line| line.strip_prefix("# "));
        let file = |name: &&str| name.ends_with(".toml") || name.ends_with(".csv");
        if let Some(name) = name.filter(file) {
            fs::write(folder.path().join(name), body).unwrap();
        }
    }
    commands
}

#[test]
fn what_the_book_shows_of_sim_check_is_what_it_prints() {
    assert_eq!(follow("sim-check.md"), 5);
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
