//! What is written of the command line anywhere can be typed, and what it says of itself fits a terminal.
//!
//! Looked at are the blocks of README and book, the commands within their sentences, and the examples below
//! `--help`: whether clap takes them, whether the commands of `cargo xtask` and the files of the repository are
//! there. What commands print is compared in `tests/book/`.

#[path = "../tests/book/blocks.rs"]
mod blocks;

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::Cli;
use blocks::{blocks, pages, read, root, steps};

/// The columns of a terminal.
const COLUMNS: usize = 80;

/// Folders of the repository whose files pages name.
const FOLDERS: [&str; 6] = ["examples", "flows", "scenarios", "scripts", "studies", "docs"];

/// A simple command of the shell: its words.
type Words = Vec<String>;

/// Cuts a script into simple commands. Redirections are left out, loops over words are unrolled one variable at
/// a time, and other variables stand as they are.
fn commands(script: &str) -> Vec<Words> {
    let mut commands = vec![Words::new()];
    let mut word: Option<String> = None;
    let mut is_target = false;
    let end_word = |word: &mut Option<String>, commands: &mut Vec<Words>, is_target: &mut bool| {
        if let Some(word) = word.take().filter(|_| !core::mem::take(is_target)) {
            match &*word {
                "do" | "then" | "time" | "sudo" | "-E" => {}
                _ => commands.last_mut().unwrap().push(word),
            }
        }
    };
    let mut characters = script.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                let quoted: String = characters.by_ref().take_while(|c| *c != character).collect();
                word.get_or_insert_default().push_str(&quoted);
            }
            '#' if word.is_none() => while characters.next_if(|c| *c != '\n').is_some() {},
            '\\' if characters.peek() == Some(&'\n') => {
                characters.next();
            }
            ' ' => end_word(&mut word, &mut commands, &mut is_target),
            '>' | '<' => {
                end_word(&mut word, &mut commands, &mut is_target);
                is_target = true;
            }
            '\n' | ';' | '|' | '&' | '(' | ')' => {
                end_word(&mut word, &mut commands, &mut is_target);
                commands.push(Words::new());
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    end_word(&mut word, &mut commands, &mut is_target);
    commands.retain(|words| !words.is_empty());
    let mut unrolled = commands.clone();
    for words in &commands {
        if let ["for", name, "in", values @ ..] =
            &words.iter().map(|w| &**w).collect::<Vec<_>>()[..]
        {
            let put = |words: &Words, value: &str| -> Words {
                words.iter().map(|word| word.replace(&format!("${name}"), value)).collect()
            };
            unrolled = unrolled
                .iter()
                .flat_map(|words| values.iter().map(|value| put(words, value)))
                .collect();
        }
    }
    let unrolled: BTreeSet<Words> = unrolled.into_iter().collect();
    unrolled.into_iter().filter(|words| words[0] != "for").collect()
}

/// What is wrong with a simple command, if anything.
fn wrong(words: &[String]) -> Option<String> {
    let missing = words.iter().skip(1).find(|word| is_missing(word));
    if let Some(file) = missing {
        return Some(format!("there is no {file}"));
    }
    if let Some(at) = words.iter().position(|word| word == "ferroce") {
        let parsed = Cli::command().try_get_matches_from(&words[at..]);
        return parsed.err().map(|error| error.to_string());
    }
    if let ["cargo", "xtask", name, ..] = &words.iter().map(|w| &**w).collect::<Vec<_>>()[..] {
        let is_there = read("xtask/src/main.rs").contains(&format!("\"{name}\" => "));
        return (!is_there).then(|| format!("no command of xtask is called {name}"));
    }
    None
}

/// Whether a word names a file of the repository that is not there; `*` is any text.
fn is_missing(word: &str) -> bool {
    let (folder, _) = word.split_once('/').unwrap_or_default();
    if !FOLDERS.contains(&folder) || word.contains('$') {
        return false;
    }
    match word.split_once('*') {
        None => !root().join(word).exists(),
        Some((before, after)) => {
            let entries = Path::new(before).parent().and_then(|f| root().join(f).read_dir().ok());
            let fits = |name: &str| name.ends_with(after);
            !entries.is_some_and(|mut all| {
                all.any(|e| e.is_ok_and(|e| e.file_name().to_str().is_some_and(fits)))
            })
        }
    }
}

/// Each command below `command`, itself included, with its words.
fn tree(command: &Command, before: &str) -> Vec<(String, Command)> {
    let name = format!("{before}{}", command.get_name());
    let below = command.get_subcommands().flat_map(|below| tree(below, &format!("{name} ")));
    core::iter::once((name.clone(), command.clone())).chain(below).collect()
}

#[test]
fn every_command_of_readme_and_book_can_be_typed() {
    let (mut told, mut looked_at) = (Vec::new(), 0);
    for page in pages() {
        let text = read(&page);
        let indented = text.lines().filter(|line| line.starts_with("    ferroce "));
        for words in indented.flat_map(commands) {
            let place = format!("{page}: {}", words.join(" "));
            told.extend(wrong(&words).map(|why| format!("{place}\n  {why}")));
        }
        for block in blocks(&text) {
            let body = &text[block.body];
            let scripts: Vec<String> = match &*block.language {
                "sh" => vec![body.to_owned()],
                "console" => steps(body).into_iter().map(|step| step.command).collect(),
                _ => continue,
            };
            for words in scripts.iter().flat_map(|script| commands(script)) {
                looked_at += 1;
                let place = format!("{page}:{}: {}", block.line, words.join(" "));
                told.extend(wrong(&words).map(|why| format!("{place}\n  {why}")));
            }
        }
    }
    assert!(looked_at > 150, "{looked_at} commands");
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn flags_that_sentences_name_are_there() {
    let mut told = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        let text = read(&page);
        // Every second piece between backquotes is code; blocks are fenced by three.
        for code in text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("ferroce ")) {
            let Some(words) = commands(code).into_iter().next() else { continue };
            let mut command = Cli::command();
            command.build();
            let mut names = words[1..].iter().peekable();
            while let Some(below) =
                names.peek().and_then(|name| command.find_subcommand(name.as_str()))
            {
                command = below.clone();
                names.next();
            }
            let flags =
                names.take_while(|word| *word != "--").filter(|word| word.starts_with("--"));
            for flag in flags {
                looked_at += 1;
                let flag = flag.split('=').next().unwrap_or_default().trim_start_matches('-');
                let is_there = command.get_arguments().any(|known| known.get_long() == Some(flag));
                if !is_there && flag != "help" {
                    told.push(format!("{page}: `{code}`: {} has no --{flag}", command.get_name()));
                }
            }
        }
    }
    assert!(looked_at > 20, "{looked_at} flags");
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn examples_of_help_can_be_typed_and_every_help_fits_a_terminal() {
    let mut told = Vec::new();
    let mut command = Cli::command();
    command.build();
    for (name, mut command) in tree(&command, "") {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for words in after.lines().filter(|line| line.starts_with("  ferroce ")).flat_map(commands)
        {
            told.extend(
                wrong(&words).map(|why| format!("{name} --help: {}\n  {why}", words.join(" "))),
            );
        }
        // clap would break a line that is too long: an example would be cut in two.
        let texts =
            [after, command.render_help().to_string(), command.render_long_help().to_string()];
        let wide =
            texts.iter().flat_map(|text| text.lines()).find(|line| line.chars().count() > COLUMNS);
        told.extend(wide.map(|line| format!("{name} --help is wider than {COLUMNS}: {line}")));
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn a_script_is_cut_into_simple_commands() {
    let script = "a 'b c' --d=\"e\" | f - > out # no\nfor x in 1 2; do\n  g $x \\\n    h; done & i && sudo -E j";
    let found: Vec<String> = commands(script).iter().map(|words| words.join("|")).collect();
    assert_eq!(found, ["a|b c|--d=e", "done", "f|-", "g|1|h", "g|2|h", "i", "j"]);
    let typed = |script: &str| commands(script).iter().find_map(|words| wrong(words));
    assert!(typed("ferroce sim --chekc scenarios/incast.toml").is_some());
    assert!(typed("ferroce sim scenarios/incest.toml").is_some());
    assert!(typed("ls scenarios/*.tomato").is_some());
    assert!(typed("cargo xtask boook").is_some());
    assert_eq!(
        typed("ferroce sim scenarios/incast.toml; ls scenarios/*.toml; cargo xtask ci"),
        None
    );
}
