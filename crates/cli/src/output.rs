//! Where results go: stdout, which may be a closed pipe, and the folder of `-o`.

use core::fmt::Display;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;

use rustix::fs::{Access, access};
use telemetry::Table;
use telemetry::words::{COLUMNS, wrapped};

use crate::failure::Failure;

/// Writes `text`. If the reader has closed the pipe, as `head` does, it has seen enough: the work goes on, and ends
/// as it would have.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_while_read(text).map(drop)
}

/// The same, and whether there is a reader still: what would print for ever ends without one.
pub(crate) fn print_while_read(text: &str) -> Result<bool, Failure> {
    match write(text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot write: {error}"))),
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Writes lines: on a terminal in 80 columns, elsewhere as they are, for programs that look for them.
pub(crate) fn print_lines(text: &str) -> Result<(), Failure> {
    print(&lines(text))
}

fn lines(text: &str) -> Cow<'_, str> {
    match io::stdout().is_terminal() {
        true => fitted(text).into(),
        false => text.into(),
    }
}

/// Lines of a service, which may run for months: when they are lost, for whatever reason, it says so once.
#[derive(Default)]
pub(crate) struct Lines {
    are_lost: bool,
}

impl Lines {
    pub(crate) fn print(&mut self, text: &str) {
        if let Err(error) = write(&lines(text))
            && !self.are_lost
        {
            tell(&format!("warning: standard output is lost ({error}); all else goes on"));
            self.are_lost = true;
        }
    }
}

/// The same on standard error; there is nowhere to say that it is lost.
pub(crate) fn tell(text: &str) {
    let text = match io::stderr().is_terminal() {
        true => fitted(text),
        false => format!("{text}\n"),
    };
    let _ = io::stderr().write_all(text.as_bytes());
}

/// What stands before the words of a line has so many columns at most.
const LABEL: usize = 16;

/// Lines of at most 80 columns. One that is longer goes on below its words, behind its label if it has one:
/// `  time         factor 5, this machine`.
pub(crate) fn fitted(text: &str) -> String {
    let line = |line: &str| {
        let indented = line.len() - line.trim_start().len();
        let label = line[indented..].find("  ").map(|at| indented + at);
        let label = label.filter(|at| *at < LABEL && line.len() > COLUMNS);
        let words = label.map_or(indented, |at| line.len() - line[at..].trim_start().len());
        wrapped(&line[..words], &line[words..], COLUMNS)
    };
    text.lines().map(line).collect()
}

/// Text in paragraphs, such as pages of the book are, in lines of at most 80 columns; indented lines stay.
pub(crate) fn paragraphs(text: &str) -> String {
    let paragraph = |text: &str| match text.starts_with(' ') {
        true => format!("{text}\n"),
        false => wrapped("", &text.replace('\n', " "), COLUMNS),
    };
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n")
}

/// Makes the folder for results. This is done before the run, so that a bad path is an error at once.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = fs::create_dir_all(folder);
    made.and_then(|()| Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)).map_err(|error| {
        cannot_write(folder, error)
            .hint("name a folder of yours; it and those above it are made if they are not there")
    })
}

/// Writes a table as Parquet, under its own name, into a folder.
pub(crate) fn write_table(
    folder: &Path,
    table: &Table,
    about: &[(&str, &str)],
) -> Result<(), Failure> {
    let path = folder.join(format!("{}.parquet", table.name()));
    let file = File::create(&path).map_err(|error| cannot_write(&path, error))?;
    let mut file = BufWriter::new(file);
    table.write_parquet(&mut file, about).map_err(|error| cannot_write(&path, error))?;
    file.flush().map_err(|error| cannot_write(&path, error))
}

pub(crate) fn cannot_write(path: &Path, error: impl Display) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_in_others_and_columns_stay() {
        let words = "word ".repeat(20);
        let text = format!("short\n  {}\n", words.trim_end());
        let lines: Vec<usize> = fitted(&text).lines().map(str::len).collect();
        assert_eq!(lines, [5, 76, 26]);
        assert!(fitted(&text).lines().skip(1).all(|line| line.starts_with("  word")));
        let labelled = fitted(&format!("  time    {}", words.trim_end()));
        assert!(labelled.ends_with("\n          word word word word word word\n"), "{labelled}");
        assert_eq!(paragraphs("a\nb\n\n    x  y\n\nc"), "a b\n\n    x  y\n\nc\n");
    }
}
