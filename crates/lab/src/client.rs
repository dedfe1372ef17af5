//! The end of people: finding labs, and asking them.

use std::io;

use softnic::lab::{self, Channel, Found};

use crate::limits::NAME_MAX;

/// Why a lab does not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskError(String);

impl core::fmt::Display for AskError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for AskError {}

/// How long an answer may take, in milliseconds.
const PATIENCE_MS: i32 = 10_000;

/// A name that a lab can have: letters, digits and underscores.
pub fn is_name(name: &str) -> bool {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_fit)
}

/// The name of a lab whose file is called so.
pub fn name_of(stem: &str) -> String {
    let fit = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = stem.chars().take(NAME_MAX).map(fit).collect();
    if name.is_empty() { "lab".to_owned() } else { name }
}

/// Removes what is left of labs that are gone, and says which are there.
pub fn bury_the_dead() -> Vec<Found> {
    let is_there = |found: &Found| match Channel::connect(&found.socket) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            found.bury();
            false
        }
        // One that cannot be asked is left in peace.
        _ => true,
    };
    let there = lab::all().into_iter().filter(is_there).collect();
    lab::sweep();
    there
}

/// The lab of this name, or the only one.
///
/// # Errors
/// There is none, or there are several.
pub fn find(name: Option<&str>) -> Result<Found, AskError> {
    let mut there = bury_the_dead();
    let names: Vec<&str> = there.iter().map(|found| found.name.as_str()).collect();
    let all = names.join(", ");
    match name {
        _ if there.is_empty() => {
            Err(AskError("no lab runs\nhint: start one with `ferroce lab up FILE`".to_owned()))
        }
        Some(name) => match names.iter().position(|other| *other == name) {
            Some(index) => Ok(there.swap_remove(index)),
            None => {
                Err(AskError(format!("no lab is called `{name}`\nhint: those that run are {all}")))
            }
        },
        None if there.len() == 1 => Ok(there.swap_remove(0)),
        None => Err(AskError(format!("several labs run\nhint: name one with --lab: {all}"))),
    }
}

/// Asks a lab, and returns its answer.
///
/// # Errors
/// It refuses, is gone, or does not answer.
pub fn ask(found: &Found, request: &str) -> Result<String, AskError> {
    let reply = Channel::connect(&found.socket)
        .and_then(|channel| {
            channel.send(request.as_bytes(), None)?;
            channel.wait(PATIENCE_MS)
        })
        .map_err(|error| AskError(format!("lab `{}` does not answer: {error}", found.name)))?;
    match reply.text.split_once(' ') {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("no", text)) => Err(AskError(text.to_owned())),
        _ => Err(AskError(format!("lab `{}` says what makes no sense", found.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_called_as_its_file_and_names_are_short_and_plain() {
        assert_eq!(name_of("two-hosts"), "two_hosts");
        assert_eq!(name_of(""), "lab");
        for name in [name_of("a very long name of a file"), name_of("ünï"), name_of("x")] {
            assert!(is_name(&name), "{name}");
        }
        for name in ["", "a-b", "a/b", "..", "seventeen_letters"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
