//! Colour, on terminals alone.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::LazyLock;

static COLOURED: LazyLock<bool> =
    LazyLock::new(|| io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none());

pub(crate) fn bold(text: &str) -> String {
    painted("1", text)
}

pub(crate) fn dim(text: &str) -> String {
    painted("2", text)
}

pub(crate) fn green(text: &str) -> String {
    painted("32", text)
}

pub(crate) fn red(text: &str) -> String {
    painted("31", text)
}

fn painted(code: &str, text: &str) -> String {
    if *COLOURED { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A line that says what follows.
pub(crate) fn heading(text: &str) {
    println!(
        "\n{}",
        bold(
            &format!("── {text} ")
                .chars()
                .chain("─".repeat(76).chars())
                .take(79)
                .collect::<String>()
        )
    );
}
