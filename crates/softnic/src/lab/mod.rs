//! The path to a lab: a process that runs a modelled fabric in real time, of which this NIC is a host.
//!
//! ```text
//!   program                                   lab
//!     engine ─► packets ─► ring ────────────► NIC of the host ─► modelled switches and links
//!     engine ◄─ packets ◄─ ring ◄──────────── NIC of another host ◄─┘
//!                 └──── channel: who we are, which rings, doorbells, and that the other end lives
//! ```
//!
//! The NIC has no socket on a network: what it sends are IP packets in a ring (`link.rs`), with ICRC, and each with
//! the identification and the source port that a NIC would give it. The lab sees them at its end ([`Jack`]), and
//! says how much has left the modelled NIC, priority by priority: a NIC whose priority is paused so leaves its
//! packets in the engine.
//!
//! Slots, ports of connection management and mailboxes are those of NICs of one host (`host/`), in a
//! namespace of the lab's own.
//!
//! **Invariants:** neither end believes what the other can change: rings as in `shm/`. A lab that is gone
//! is a network that loses everything.

mod channel;
mod jack;
mod link;

use core::net::Ipv4Addr;
use std::env;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rdma::Mtu;

use crate::host::runtime::{self, LABS};
use crate::host::steering::is_ownable;
use crate::{OpenError, SettingError};

pub use crate::host::steering::Owner;
pub use channel::{Channel, Listener, Message};
pub use jack::{Broken, Jack};
pub(crate) use link::{Link, Planned};

/// The variable that names the socket of the lab.
pub const LAB: &str = "FERROCE_LAB";
/// The variable that says which of its hosts we are.
pub const HOST: &str = "FERROCE_LAB_HOST";
/// What both ends must agree on.
pub const VERSION: u32 = 1;
/// Bytes that a program may have in the NIC of its host for each priority.
pub const CREDIT_BYTES: u64 = 128 << 10;
/// Beginnings of the names of labs' sockets.
const PREFIX: &str = "lab-";

/// A host of a lab, as its devices know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The socket of the lab.
    pub socket: PathBuf,
    /// The name of the host.
    pub host: String,
    /// What stands for the network namespace.
    pub(crate) namespace: u64,
}

/// A lab of this user, which may be gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What it is called.
    pub name: String,
    /// Its socket.
    pub socket: PathBuf,
    namespace: u64,
}

/// The NIC of a host of a lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SiteNic {
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: [u8; 6],
    /// The largest RDMA MTU that it may have.
    pub(crate) mtu: Mtu,
}

impl SiteNic {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [address, mac, mtu] = words[..] else { return None };
        let [_, _, mac @ ..] = u64::from_str_radix(mac, 16).ok()?.to_be_bytes();
        Some(Self { address: address.parse().ok()?, mac, mtu: mtu_of(mtu)? })
    }
}

/// The MTU of so many bytes.
pub(crate) fn mtu_of(text: &str) -> Option<Mtu> {
    let bytes = text.trim().parse().ok();
    Mtu::ALL.into_iter().find(|mtu| Some(mtu.bytes()) == bytes)
}

impl Found {
    /// That of a socket, if it is called as labs' sockets are.
    fn of(socket: &Path) -> Option<Self> {
        let (number, name) = socket.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
        let namespace = number.parse().ok().filter(|number| LABS.contains(number))?;
        Some(Self { name: name.to_owned(), socket: socket.to_owned(), namespace })
    }

    /// Removes what it and its programs have left, once they are gone.
    pub fn bury(&self) {
        let Some(folder) = self.socket.parent() else { return };
        let Ok(entries) = folder.read_dir() else { return };
        let part = format!("-{}", self.namespace);
        for entry in entries.flatten() {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.split_once(&part)).map(|(_, rest)| rest);
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                runtime::remove(&entry.path());
            }
        }
    }
}

/// Whether a program can have this slot.
pub fn is_slot(slot: u16) -> bool {
    is_ownable(slot)
}

/// Removes what programs have left behind of labs whose sockets are not there.
pub fn sweep() {
    let Some(folder) = runtime::existing() else { return };
    // Before the labs are: one that begins meanwhile is none that has died.
    let entries: Vec<_> = folder.read_dir().into_iter().flatten().flatten().collect();
    let there: Vec<u64> = all().iter().map(|found| found.namespace).collect();
    for entry in entries {
        let name = entry.file_name();
        let numbers = name.to_str().into_iter().flat_map(|name| name.split('-'));
        let lab = numbers.filter_map(|part| part.parse().ok()).find(|number| LABS.contains(number));
        if lab.is_some_and(|lab| !there.contains(&lab)) {
            runtime::remove(&entry.path());
        }
    }
}

/// The labs of this user, by name.
pub fn all() -> Vec<Found> {
    let entries = runtime::existing().and_then(|folder| folder.read_dir().ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<Found> = paths.filter_map(|path| Found::of(&path)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Other users who have a lab, as far as this network namespace shows: what the labs are called only they can see.
pub fn other_users() -> Vec<u32> {
    let table = std::fs::read("/proc/self/net/unix").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    let folders = table.lines().filter_map(|line| listener_in(line)?.parent());
    let mut users: Vec<u32> =
        folders.filter_map(runtime::owner).filter(|user| *user != crate::sys::user()).collect();
    users.sort_unstable();
    users.dedup();
    users
}

/// The path at which a socket of a line of `/proc/net/unix` listens, if it is of the type of labs' sockets.
fn listener_in(line: &str) -> Option<&Path> {
    const LISTENS: &str = "00010000";
    const SEQPACKET: &str = "0005";
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, LISTENS, SEQPACKET, _, _, path] = words[..] else { return None };
    Some(Path::new(path))
}

/// A place for a new lab, and its socket there; `None` if there is a lab of this name.
///
/// # Errors
/// There is no folder for it, or the socket cannot be opened.
pub fn claim(name: &str) -> io::Result<Option<(Found, Listener)>> {
    let folder = runtime::directory()?;
    // Of two that begin at the same moment the second one sees the first.
    let turn = File::open(&folder)?;
    turn.lock()?;
    if all().iter().any(|found| found.name == name) {
        return Ok(None);
    }
    let number = LABS.start + crate::sys::random()? % (LABS.end - LABS.start);
    let socket = folder.join(format!("{PREFIX}{number}-{name}"));
    let listener = Listener::bind(&socket)?;
    Ok(Some((Found { name: name.to_owned(), socket, namespace: number }, listener)))
}

/// The host that the environment names, if it names a lab.
pub(crate) fn site() -> Result<Option<Site>, SettingError> {
    let variable = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
    let Some(socket) = variable(LAB) else { return Ok(None) };
    let hint = "`ferroce lab run --host h0 -- PROGRAM` sets both";
    let host = variable(HOST)
        .ok_or_else(|| SettingError::new(HOST, "it does not say which host", hint))?;
    Site::new(Path::new(&socket), &host).map(Some)
}

impl Site {
    /// Host `host` of the lab at `socket`.
    ///
    /// # Errors
    /// It is called as no lab is.
    pub fn new(socket: &Path, host: &str) -> Result<Self, SettingError> {
        let found = Found::of(socket).ok_or_else(|| {
            let problem = format!("`{}` is no socket of a lab", socket.display());
            SettingError::new(LAB, problem, "`ferroce lab status` lists those that run")
        })?;
        Ok(Self { socket: found.socket, host: host.to_owned(), namespace: found.namespace })
    }

    /// Asks the lab which NIC this host has.
    pub(crate) fn nic(&self) -> Result<SiteNic, OpenError> {
        let channel = self.connect()?;
        let reply = self.ask(&channel, &format!("device {VERSION} {}", self.host), None)?;
        SiteNic::parse(&reply.text).ok_or_else(|| self.unclear(&reply.text))
    }

    fn connect(&self) -> Result<Channel, OpenError> {
        Channel::connect(&self.socket).map_err(|error| {
            let socket = self.socket.display();
            let (problem, hint) = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => (
                    format!("no lab runs at `{socket}`"),
                    "start one with `ferroce lab up FILE`; `ferroce lab status` lists those that run",
                ),
                io::ErrorKind::PermissionDenied => (
                    format!("the lab at `{socket}` is of another user"),
                    "a lab serves the programs of the user who has started it",
                ),
                _ => (format!("the lab at `{socket}` cannot be reached: {error}"), "start it anew"),
            };
            SettingError::new(LAB, problem, hint).into()
        })
    }

    /// Asks, and returns the answer if it is not a refusal.
    fn ask(
        &self,
        channel: &Channel,
        request: &str,
        file: Option<std::os::fd::BorrowedFd<'_>>,
    ) -> Result<Message, OpenError> {
        let doing = "asking the lab";
        let io = |error| OpenError::Io { doing, error };
        channel.send(request.as_bytes(), file).map_err(io)?;
        let reply = channel.wait(ANSWER_WAIT_MS).map_err(io)?;
        if let Some(text) = reply.text.strip_prefix("ok ") {
            return Ok(Message { text: text.to_owned(), file: reply.file });
        }
        let text = reply.text.strip_prefix("no ").unwrap_or(&reply.text);
        let (problem, hint) =
            text.split_once("\nhint: ").unwrap_or((text, "see `ferroce lab status`"));
        Err(SettingError::new(LAB, problem, hint).into())
    }

    fn unclear(&self, text: &str) -> OpenError {
        let problem = format!("the lab's answer makes no sense: {text:?}");
        SettingError::new(LAB, problem, "use the same version of Ferroce for both").into()
    }
}

/// How long a lab may take to answer: it may be starved of a processor.
const ANSWER_WAIT_MS: i32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_told_from_those_that_were_accepted() {
        let line = |flags: &str, kind: &str| {
            format!(
                "00000000309c55c9: 00000002 00000000 {flags} {kind} 01 561 /tmp/ferroce-7/new.1"
            )
        };
        let path = Path::new("/tmp/ferroce-7/new.1");
        assert_eq!(listener_in(&line("00010000", "0005")), Some(path));
        for (flags, kind) in [("00000000", "0005"), ("00010000", "0001")] {
            assert_eq!(listener_in(&line(flags, kind)), None);
        }
        assert_eq!(listener_in("Num       RefCount Protocol Flags    Type St Inode Path"), None);
        // Those of this user are no other's.
        let listener = Listener::bind(&runtime::directory().unwrap().join("test-of-lab")).unwrap();
        let table = std::fs::read_to_string("/proc/self/net/unix").unwrap();
        let here = runtime::directory().unwrap();
        assert!(table.lines().filter_map(listener_in).any(|path| path.parent() == Some(&here)));
        assert!(!other_users().contains(&crate::sys::user()));
        drop(listener);
        std::fs::remove_file(here.join("test-of-lab")).unwrap();
    }
}
