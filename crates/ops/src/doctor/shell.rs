//! What to type, quoted for a shell: names of files, profiles and variables may hold anything.
//!
//! A [`Line`] is made of text that stands in our source ([`typed!`]'s first argument) and of words, each of which is one
//! argument of the command whatever is in it.

use core::fmt::Display;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line(String);

impl Line {
    /// Text as it stands.
    pub(super) fn raw(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// More of it, without a space before.
    pub(super) fn then(mut self, text: &'static str) -> Self {
        self.0 += text;
        self
    }

    /// One more argument.
    pub(super) fn word(mut self, word: impl Display) -> Self {
        self.0.push(' ');
        self.0 += &quoted(&word.to_string());
        self
    }

    /// To be shown.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl From<&'static str> for Line {
    fn from(text: &'static str) -> Self {
        Self::raw(text)
    }
}

/// A [`Line`]: text of ours, then words.
macro_rules! typed {
    ($text:literal $(, $word:expr)* $(,)?) => {
        $crate::doctor::shell::Line::raw($text)$(.word(&$word))*
    };
}
pub(super) use typed;

/// A word as one argument: bare if nothing in it means anything to a shell, otherwise in single quotes.
fn quoted(word: &str) -> String {
    // A control character would be obeyed by the terminal that the line is pasted into.
    let word: String = word.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_safe) {
        return word;
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_to_a_shell_is_quoted() {
        for (word, expected) in [
            ("pg_lossless_100000_5m_profile", "pg_lossless_100000_5m_profile"),
            ("-4", "-4"),
            ("NCCL_IB_HCA=mlx5_0:1,mlx5_1", "NCCL_IB_HCA=mlx5_0:1,mlx5_1"),
            ("", "''"),
            ("PORT_QOS_MAP|Ethernet0", "'PORT_QOS_MAP|Ethernet0'"),
            ("x; rm -rf ~ #", "'x; rm -rf ~ #'"),
            ("$(reboot)`reboot`", "'$(reboot)`reboot`'"),
            ("it's", "'it'\\''s'"),
            ("~", "'~'"),
            ("a\nreboot\u{1b}[2J", "'a?reboot?[2J'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
        let line = typed!("echo", 48).then(" | sudo tee").word("/sys/x y");
        assert_eq!(line.into_text(), "echo 48 | sudo tee '/sys/x y'");
    }

    /// By the shell itself.
    #[test]
    fn a_shell_sees_one_argument() {
        for word in ["x; exit 3 #", "it's", "$(exit 3)", "a b", "*", "\\", "\"", "-n", "!x", "'"] {
            let line = typed!("printf '[%s]'", word).into_text();
            let told = std::process::Command::new("sh").args(["-c", &line]).output();
            let told = told.expect("a shell");
            assert_eq!(String::from_utf8_lossy(&told.stdout), format!("[{word}]"), "{line}");
        }
    }
}
