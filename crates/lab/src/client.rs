//! The end of people: finding labs, and asking them.

use std::io;

use fabric::record::{CaptureLimits, CaptureTally};
use softnic::lab::{self, Channel, Found, VERSION};

use crate::limits::{NAME_MAX, SEEN_BYTES_MAX};
use crate::seen::Seen;

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

/// What the names of experiments' labs begin with. Nobody can call a lab so.
pub(crate) const OF_EXPERIMENTS: char = '+';

/// The lab of this name, or the only one. Those of experiments, which come and go, do not matter where there is another.
///
/// # Errors
/// There is none, or there are several.
pub fn find(name: Option<&str>) -> Result<Found, AskError> {
    let mut there = bury_the_dead();
    let names: Vec<&str> = there.iter().map(|found| found.name.as_str()).collect();
    let is_not_here = names.is_empty() || name.is_some();
    let chosen = choose(&names, name).map_err(|error| {
        if is_not_here { beside_others(&error, &lab::other_users()) } else { error }
    })?;
    Ok(there.swap_remove(chosen))
}

fn choose(names: &[&str], name: Option<&str>) -> Result<usize, AskError> {
    let all = names.join(", ");
    let only = |is_meant: &dyn Fn(&str) -> bool| {
        let mut meant = (0..names.len()).filter(|at| is_meant(names[*at]));
        meant.next().filter(|_| meant.next().is_none())
    };
    let (found, why) = match name {
        _ if names.is_empty() => {
            (None, "no lab runs\nhint: start one with `ferroce lab up FILE`".to_owned())
        }
        Some(name) => (
            names.iter().position(|other| *other == name),
            format!("no lab is called `{name}`\nhint: those that run are {all}"),
        ),
        None => (
            only(&|name| !name.starts_with(OF_EXPERIMENTS)).or_else(|| only(&|_| true)),
            format!("several labs run\nhint: name one with --lab: {all}"),
        ),
    };
    found.ok_or(AskError(why))
}

/// That a lab is not there, where other users have some: it may be one of these.
fn beside_others(error: &AskError, users: &[u32]) -> AskError {
    if users.is_empty() {
        return error.clone();
    }
    let (problem, hint) = error.0.split_once('\n').unwrap_or((&error.0, ""));
    let problem = problem.replacen("no lab ", "no lab of yours ", 1);
    let users = users.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    AskError(format!(
        "{problem}; labs of user {users} serve nobody else\n{hint}; or run this as that user"
    ))
}

/// Asks a lab, and returns its answer.
///
/// # Errors
/// It refuses, is gone, or does not answer.
pub fn ask(found: &Found, request: &str) -> Result<String, AskError> {
    ask_on(found, request).map(|(text, _)| text)
}

/// The same, and the connection, on which more may come.
fn ask_on(found: &Found, request: &str) -> Result<(String, Channel), AskError> {
    ask_for(found, request, PATIENCE_MS)
}

fn ask_for(found: &Found, request: &str, patience_ms: i32) -> Result<(String, Channel), AskError> {
    let (reply, channel) = Channel::connect(&found.socket)
        .and_then(|channel| {
            channel.send(request.as_bytes(), None)?;
            Ok((channel.wait(patience_ms)?, channel))
        })
        .map_err(|error| AskError(format!("lab `{}` does not answer: {error}", found.name)))?;
    match reply.text.split_once(' ') {
        Some(("ok", text)) => Ok((text.to_owned(), channel)),
        Some(("no", text)) => Err(AskError(text.to_owned())),
        _ => Err(AskError(format!("lab `{}` says what makes no sense", found.name))),
    }
}

/// What is seen of a lab now.
///
/// # Errors
/// The lab is gone, does not answer, or is of another version.
pub fn look(found: &Found) -> Result<Seen, AskError> {
    let (_, channel) = ask_on(found, "seen")?;
    let (mut text, mut message) = (Vec::new(), Vec::new());
    let unclear = |why: &dyn core::fmt::Display| {
        AskError(format!("lab `{}` does not say what is seen of it: {why}", found.name))
    };
    loop {
        channel.wait_bytes(&mut message, PATIENCE_MS).map_err(|error| unclear(&error))?;
        match message.split_first() {
            Some((b'd', part)) if text.len() + part.len() <= SEEN_BYTES_MAX => {
                text.extend_from_slice(part);
            }
            Some((b'e', _)) => break,
            _ => return Err(unclear(&String::from_utf8_lossy(&message))),
        }
    }
    serde_json::from_slice(&text).map_err(|error| unclear(&error))
}

/// Tells a lab to end and to write its results into `folder`; says what it has written. That may take a while.
///
/// # Errors
/// It cannot, is gone, or takes longer than `patience_ms`.
pub fn inherit(found: &Found, folder: &str, patience_ms: i32) -> Result<String, AskError> {
    ask_for(found, &format!("down\n{folder}"), patience_ms).map(|(text, _)| text)
}

/// What is to be captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureOf {
    /// The ports, as `NODE:NEIGHBOUR`, or `NODE` for all of a node.
    pub ports: Vec<String>,
    /// So many bytes of a frame are kept; `None` for all.
    pub snap_bytes: Option<u32>,
    /// A bit for each priority.
    pub priorities: u8,
    /// When it ends by itself.
    pub limits: CaptureLimits,
}

/// The end of a capture at which its file comes out.
#[derive(Debug)]
pub struct Capturing {
    channel: Channel,
    message: Vec<u8>,
    name: String,
}

/// What came out of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Captured<'a> {
    /// The next bytes of the file.
    Bytes(&'a [u8]),
    /// Nothing, for as long as it was waited.
    Nothing,
    /// It is over, and the file complete.
    Over(CaptureTally, CaptureEnd),
}

/// Why a capture is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureEnd {
    /// It has as much as it may have.
    Limit,
    /// It was told to stop.
    Asked,
    /// The lab has ended.
    Lab,
}

impl Capturing {
    /// Begins to capture.
    ///
    /// # Errors
    /// There is no such port, or the lab does not answer.
    pub fn begin(found: &Found, of: &CaptureOf) -> Result<Self, AskError> {
        let CaptureLimits { frames, bytes } = of.limits;
        let (snap, frames) = (of.snap_bytes.unwrap_or(0), frames.unwrap_or(0));
        let (bytes, priorities) = (bytes.unwrap_or(0), of.priorities);
        let mut request = format!("capture {VERSION} {snap} {frames} {bytes} {priorities}");
        for port in &of.ports {
            request.push('\n');
            request.push_str(port);
        }
        let (_, channel) = ask_on(found, &request)?;
        Ok(Self { channel, message: Vec::new(), name: found.name.clone() })
    }

    /// What comes next, within so many milliseconds.
    ///
    /// # Errors
    /// The lab is gone, and the file may end in the middle of a frame.
    pub fn next(&mut self, timeout_ms: i32) -> Result<Captured<'_>, AskError> {
        let gone = |why: &dyn core::fmt::Display| {
            AskError(format!("lab `{}` ended in the middle of a capture: {why}", self.name))
        };
        match self.channel.wait_bytes(&mut self.message, timeout_ms) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Captured::Nothing),
            Err(error) => return Err(gone(&error)),
        }
        match self.message.split_first() {
            Some((b'd', bytes)) => Ok(Captured::Bytes(bytes)),
            Some((b'e', said)) => {
                let said = String::from_utf8_lossy(said);
                over(&said).ok_or_else(|| gone(&"it says what makes no sense"))
            }
            _ => Err(gone(&"it says what makes no sense")),
        }
    }

    /// Tells the lab that it is enough. What was seen until then still comes.
    pub fn stop(&self) {
        // If the lab is gone, that is seen when it is read from.
        let _ = self.channel.send(b"stop", None);
    }
}

fn over(said: &str) -> Option<Captured<'static>> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let [frames, bytes, missed, why] = words[..] else { return None };
    let why = match why {
        "limit" => CaptureEnd::Limit,
        "asked" => CaptureEnd::Asked,
        _ => CaptureEnd::Lab,
    };
    let number = |word: &str| word.parse().ok();
    let [frames, bytes, missed] = [number(frames)?, number(bytes)?, number(missed)?];
    Some(Captured::Over(CaptureTally { frames, bytes, missed }, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_lab_needs_no_name_and_those_of_experiments_do_not_count() {
        for (names, name, expected) in [
            (&[][..], None, Err("no lab runs")),
            (&["a"], None, Ok(0)),
            (&["+5_1", "a"], None, Ok(1)),
            (&["+5_1"], None, Ok(0)),
            (&["+5_1", "+6_1"], None, Err("several labs run")),
            (&["+5_1", "a", "b"], None, Err("several labs run")),
            (&["+5_1", "a"], Some("+5_1"), Ok(0)),
            (&["a"], Some("b"), Err("no lab is called `b`")),
        ] {
            let chosen = choose(names, name).map_err(|why| why.0);
            let first = chosen.as_ref().map_err(|why| why.lines().next().unwrap());
            assert_eq!(first.copied(), expected, "{names:?} {name:?}");
        }
    }

    #[test]
    fn who_has_no_lab_is_told_who_has() {
        let none = choose(&[], Some("a")).unwrap_err();
        assert_eq!(beside_others(&none, &[]), none);
        assert_eq!(
            beside_others(&none, &[0, 1000]).0,
            "no lab of yours runs; labs of user 0, 1000 serve nobody else\n\
             hint: start one with `ferroce lab up FILE`; or run this as that user"
        );
        let other = choose(&["b"], Some("a")).unwrap_err();
        assert_eq!(
            beside_others(&other, &[7]).0,
            "no lab of yours is called `a`; labs of user 7 serve nobody else\n\
             hint: those that run are b; or run this as that user"
        );
    }

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
