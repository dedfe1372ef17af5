//! Which NIC has which slot of the QPN space: the processes of one user agree on it without a daemon.
//!
//! ```text
//!   slots-<netns>             for each slot a lock (held by its owner while it lives) and a claim
//!                             (a random number of the owner's); one lock more to change groups
//!   group-<netns>-<address>   magic, generation, count, then slot and claim of each member, in the
//!                             kernel's order; a bit above the slot says that it answers for QP1
//!   ports-<netns>-<address>   which NIC has which port of connection management (ports.rs)
//! ```
//!
//! A slot is the upper ten bits of a QPN. The kernel gives the locks of a killed process back, so
//! a member is alive if and only if the lock of its slot is held and the claim is still its own. A
//! NIC has one slot on all its addresses; each address is a group of its own.
//!
//! **Invariants:** groups and ports are changed only under the lock for that. A changed file is a new one,
//! which takes the name of the old: a reader needs no lock, and does not wait for a process that was
//! stopped in the middle of a change.

use core::net::IpAddr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rdma::Span;

use crate::clock::retry;
use crate::host::handover::Handover;
use crate::host::mailbox;
use crate::host::ports::{self, Ports};
use crate::host::runtime;
use crate::host::steering::{Group, Member, is_ownable};
use crate::limits::{OPEN_RETRY, PORTS_MAX, Retry, SLOT_RETRY, SLOTS};
use crate::sys::{self, Lock};

/// The byte whose lock is for changing groups.
const CHANGE: i64 = 1 << 20;
/// The first bytes of a group file; the last of them is its version.
const MAGIC: [u8; 8] = *b"FRGROUP\x02";
const HEADER_LEN: usize = 16;
const MEMBER_LEN: usize = 8;
/// Beside the slot of a member: it answers for QP1.
const MANAGES: u32 = 1 << 16;

/// Where the claim of a slot is.
fn claim_at(slot: u16) -> u64 {
    u64::from(slot) * 4
}

/// A slot of this host, held until it is left, or dropped.
#[derive(Debug)]
pub(crate) struct Registry {
    /// `None` if the slot has been left. Then nobody counts as alive, and nothing can be changed.
    file: Option<File>,
    directory: PathBuf,
    namespace: u64,
    member: Member,
}

/// The right to change groups.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    registry: &'a Registry,
    file: &'a File,
}

impl Registry {
    /// Takes a free slot, and the socket on which its owner gets what others received for it.
    pub(crate) fn claim(namespace: u64) -> io::Result<(Self, Handover)> {
        Self::claim_in(runtime::directory()?, namespace)
    }

    fn claim_in(directory: PathBuf, namespace: u64) -> io::Result<(Self, Handover)> {
        let path = directory.join(format!("slots-{namespace}"));
        retry(
            SLOT_RETRY,
            |error: &io::Error| error.kind() == io::ErrorKind::QuotaExceeded,
            || Self::claim_of(&directory, &path, namespace),
        )
    }

    fn claim_of(directory: &Path, path: &Path, namespace: u64) -> io::Result<(Self, Handover)> {
        let file = open(path)?;
        let claim = sys::random()? as u32;
        // At random, so that the QPNs of a process that has just died are not used again at once:
        // its peers may still be sending to them.
        let start = sys::random()? as u16;
        let slots = (0..SLOTS).map(|step| start.wrapping_add(step) % SLOTS);
        for slot in slots.filter(|slot| is_ownable(*slot)) {
            if sys::lock(file.as_fd(), slot.into(), Lock::Try).is_err() {
                continue;
            }
            if file.metadata()?.nlink() == 0 {
                // The last of the namespace has just removed its files. There is another by now, or we make it.
                break;
            }
            let mut before = [0; 4];
            if file.read_exact_at(&mut before, claim_at(slot)).is_ok() {
                mailbox::bury(namespace, Member { slot, claim: u32::from_ne_bytes(before) });
            }
            file.write_all_at(&claim.to_ne_bytes(), claim_at(slot))?;
            let member = Member { slot, claim };
            let handover = Handover::bind(namespace, member)?;
            let directory = directory.to_owned();
            return Ok((Self { file: Some(file), directory, namespace, member }, handover));
        }
        Err(io::Error::new(
            io::ErrorKind::QuotaExceeded,
            format!("{} NICs of this user are open on this host", SLOTS - 2),
        ))
    }

    /// Gives the slot back.
    pub(crate) fn leave(&mut self) {
        self.file = None;
    }

    pub(crate) fn slot(&self) -> u16 {
        self.member.slot
    }

    /// What we are in the groups of our addresses.
    pub(crate) fn member(&self) -> Member {
        self.member
    }

    /// Waits for the right to change groups.
    ///
    /// # Errors
    /// `TimedOut` if its owner keeps it: a process that has been stopped in the middle of a change.
    pub(crate) fn change(&self) -> io::Result<Change<'_>> {
        self.try_to_change(OPEN_RETRY).ok_or_else(|| {
            let message = "another process of this user, which is stopped, keeps the list of NICs";
            io::Error::new(io::ErrorKind::TimedOut, message)
        })
    }

    /// Asks for the right to change groups once: its owner may be stopped, and packets must not wait for
    /// that.
    ///
    /// # Errors
    /// `WouldBlock` if somebody else has it.
    pub(crate) fn change_now(&self) -> io::Result<Change<'_>> {
        let change = self.try_to_change(Retry { tries: 1, pause: Span::ZERO });
        change.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn try_to_change(&self, times: Retry) -> Option<Change<'_>> {
        let file = self.file.as_ref()?;
        let lock = || sys::lock(file.as_fd(), CHANGE, Lock::Try);
        retry(times, |_| true, lock).ok().map(|()| Change { registry: self, file })
    }

    /// The network namespace that the slots are of.
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// Who has `slot` at an address, if it is somebody who is alive.
    ///
    /// # Errors
    /// `NotFound` if no NIC of this user on this host ever had the address; others if it cannot be
    /// read.
    pub(crate) fn member_at(&self, address: IpAddr, slot: u16) -> io::Result<Option<Member>> {
        let group = self.read_group(address)?;
        let member = group.members.into_iter().find(|member| member.slot == slot);
        Ok(member.filter(|member| self.is_alive(*member)))
    }

    /// The ports of an address that somebody has who is alive.
    pub(crate) fn read_ports(&self, address: IpAddr) -> io::Result<Ports> {
        let file = match File::open(self.path("ports", address)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ports::default()),
            file => file?,
        };
        let most = ports::file_len(PORTS_MAX) as u64;
        // In one piece, and not by doubling.
        let length = file.metadata()?.len().min(most) as usize;
        let mut bytes = Vec::with_capacity(length + 1);
        io::Read::read_to_end(&mut io::Read::take(&file, most), &mut bytes)?;
        let mut ports = Ports::parse(&bytes).unwrap_or_default();
        ports.bury(|member| self.is_alive(member));
        Ok(ports)
    }

    /// The group of an address, which needs no right to be read.
    pub(crate) fn read_group(&self, address: IpAddr) -> io::Result<Group> {
        let file = File::open(self.path("group", address))?;
        let mut bytes = vec![0; HEADER_LEN + MEMBER_LEN * SLOTS as usize];
        let mut length = 0;
        while length < bytes.len() {
            match file.read_at(&mut bytes[length..], length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        Ok(parse(&bytes[..length]).unwrap_or_default())
    }

    fn path(&self, what: &str, address: IpAddr) -> PathBuf {
        self.directory.join(format!("{what}-{}-{address}", self.namespace))
    }

    /// Who has `slot`, or had it last.
    pub(crate) fn owner(&self, slot: u16) -> io::Result<Member> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut claim = [0; 4];
        file.read_exact_at(&mut claim, claim_at(slot))?;
        Ok(Member { slot, claim: u32::from_ne_bytes(claim) })
    }

    /// Whether somebody has `slot`.
    pub(crate) fn has_owner(&self, slot: u16) -> bool {
        self.owner(slot).is_ok_and(|owner| self.is_alive(owner))
    }

    /// Whether a member is still there.
    pub(crate) fn is_alive(&self, member: Member) -> bool {
        if member.slot == self.member.slot {
            return member == self.member;
        }
        let Some(file) = &self.file else { return false };
        // One that cannot be asked about is left in peace.
        self.owner(member.slot).map_or(true, |owner| owner == member)
            && sys::is_locked(file.as_fd(), member.slot.into()).unwrap_or(true)
    }
}

impl Change<'_> {
    /// The group of an address; an empty one if there is none, or if its file says nothing valid.
    pub(crate) fn read(&self, address: IpAddr) -> io::Result<Group> {
        match self.registry.read_group(address) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Group::default()),
            group => group,
        }
    }

    pub(crate) fn write(&self, address: IpAddr, group: &Group) -> io::Result<()> {
        self.replace("group", address, &emit(group))
    }

    /// See [`Registry::read_ports`].
    pub(crate) fn read_ports(&self, address: IpAddr) -> io::Result<Ports> {
        self.registry.read_ports(address)
    }

    pub(crate) fn write_ports(&self, address: IpAddr, ports: &Ports) -> io::Result<()> {
        self.replace("ports", address, &ports.emit())
    }

    fn replace(&self, what: &str, address: IpAddr, bytes: &[u8]) -> io::Result<()> {
        let Registry { directory, namespace, .. } = self.registry;
        // A process that is killed in between leaves it to the next.
        let making = directory.join(format!("making-{namespace}"));
        open(&making).and_then(|file| {
            file.set_len(0)?;
            file.write_all_at(bytes, 0)
        })?;
        fs::rename(making, self.registry.path(what, address))
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // Giving a lock back can only fail for a descriptor that is not open.
        let _ = sys::lock(self.file.as_fd(), CHANGE, Lock::Release);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

fn emit(group: &Group) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(group.generation.to_ne_bytes());
    bytes.extend((group.members.len() as u32).to_ne_bytes());
    for member in &group.members {
        let manages = if group.managers.contains(&member.slot) { MANAGES } else { 0 };
        bytes.extend((u32::from(member.slot) | manages).to_ne_bytes());
        bytes.extend(member.claim.to_ne_bytes());
    }
    bytes
}

fn parse(bytes: &[u8]) -> Option<Group> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (generation, rest) = rest.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let count = usize::try_from(u32::from_ne_bytes(*count)).ok()?;
    let (words, _) = rest.as_chunks();
    let (members, _) = words.as_chunks();
    let mut group = Group { generation: u32::from_ne_bytes(*generation), ..Group::default() };
    for [slot, claim] in members.get(..count)? as &[[[u8; 4]; 2]] {
        let word = u32::from_ne_bytes(*slot);
        let member = Member { slot: word as u16, claim: u32::from_ne_bytes(*claim) };
        group.members.push(member);
        if word & MANAGES != 0 {
            group.manage(member);
        }
    }
    Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_owner_and_is_free_when_it_is_gone() {
        let (first, _handover) = Registry::claim(runtime::network_namespace()).unwrap();
        let (second, _handover) = Registry::claim(runtime::network_namespace()).unwrap();
        assert_ne!(first.slot(), second.slot());
        let member = first.member();
        assert!(second.is_alive(member) && second.is_alive(second.member()));
        // Another owner of the slot, earlier or later.
        assert!(!second.is_alive(Member { claim: member.claim ^ 1, ..member }));
        assert!(!first.is_alive(Member { claim: member.claim ^ 1, ..member }));
        drop(first);
        assert!(!second.is_alive(member));
    }

    #[test]
    fn a_host_has_so_many_nics_and_no_more() {
        // In a namespace that nobody is in.
        const NAMESPACE: u64 = u64::MAX - 1;
        let directory = std::env::temp_dir().join(format!("ferroce-slots-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let claim = || Registry::claim_in(directory.clone(), NAMESPACE);
        let (first, _handover) = claim().unwrap();
        let taken = first.slot();
        let others = open(&directory.join(format!("slots-{NAMESPACE}"))).unwrap();
        let all_others = (0..SLOTS).filter(|slot| is_ownable(*slot) && *slot != taken);
        for slot in all_others {
            sys::lock(others.as_fd(), slot.into(), Lock::Try).unwrap();
        }
        let error = claim().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        assert!(error.to_string().starts_with("1022 NICs"), "{error}");
        let free = if taken == 77 { 78 } else { 77 };
        sys::lock(others.as_fd(), free, Lock::Release).unwrap();
        let (second, _handover) = claim().unwrap();
        assert_eq!(i64::from(second.slot()), free);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_name_that_somebody_else_has_taken_first_is_not_needed() {
        const NAMESPACE: u64 = u64::MAX - 2;
        let directory = std::env::temp_dir().join(format!("ferroce-names-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let others = open(&directory.join(format!("slots-{NAMESPACE}"))).unwrap();
        // One slot is left.
        for slot in (0..SLOTS).filter(|slot| is_ownable(*slot) && *slot != 77) {
            sys::lock(others.as_fd(), slot.into(), Lock::Try).unwrap();
        }
        let claim = || Registry::claim_in(directory.clone(), NAMESPACE).unwrap();
        let (first, handover) = claim();
        let seen = first.member();
        drop((first, handover));
        let _stranger = Handover::bind(NAMESPACE, seen).unwrap();
        let (second, _handover) = claim();
        assert_eq!(second.slot(), 77);
        assert_ne!(second.member(), seen);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_right_that_somebody_keeps_is_not_waited_for_without_end() {
        // In a file of its own: everybody else on this host waits for the real one.
        let directory = std::env::temp_dir();
        let path = directory.join(format!("ferroce-change-{}", std::process::id()));
        let member = Member { slot: 1, claim: 1 };
        let registry = || {
            let (file, directory) = (open(&path).unwrap(), directory.clone());
            Registry { file: Some(file), directory, namespace: 0, member }
        };
        let (stopped, waiting) = (registry(), registry());
        let kept = stopped.change().unwrap();
        assert!(waiting.try_to_change(Retry { tries: 3, ..OPEN_RETRY }).is_none());
        assert_eq!(waiting.change_now().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(waiting.change().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(kept);
        assert!(waiting.change().is_ok());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_group_is_read_as_it_was_written() {
        let (registry, _handover) = Registry::claim(runtime::network_namespace()).unwrap();
        let address = IpAddr::from([127, 0, 20, 1]);
        let change = registry.change().unwrap();
        assert_eq!(change.read(address).unwrap(), Group::default());
        let member = |slot| Member { slot, claim: 0x1234_5678 ^ u32::from(slot) };
        let group = Group {
            generation: 9,
            members: [5, 1022, 7].map(member).to_vec(),
            managers: vec![1022],
        };
        change.write(address, &group).unwrap();
        assert_eq!(change.read(address).unwrap(), group);
        let shorter = Group { generation: 10, members: vec![member(7)], managers: Vec::new() };
        change.write(address, &shorter).unwrap();
        assert_eq!(change.read(address).unwrap(), shorter);
        fs::remove_file(registry.path("group", address)).unwrap();
    }

    #[test]
    fn only_a_member_that_is_alive_is_at_an_address() {
        let (registry, _handover) = Registry::claim(runtime::network_namespace()).unwrap();
        let address = IpAddr::from([127, 0, 20, 3]);
        let missing = registry.member_at(address, registry.slot()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let change = registry.change().unwrap();
        let own = registry.member();
        let other = Member { slot: if own.slot == 7 { 8 } else { 7 }, claim: 1 };
        let group = Group { members: vec![own, other], ..Group::default() };
        change.write(address, &group).unwrap();
        // While somebody keeps the right to change it.
        assert_eq!(registry.member_at(address, own.slot).unwrap(), Some(own));
        assert_eq!(registry.member_at(address, other.slot).unwrap(), None);
        assert_eq!(registry.member_at(address, 1000).unwrap(), None);
        fs::remove_file(registry.path("group", address)).unwrap();
    }

    #[test]
    fn a_file_that_says_nothing_valid_is_an_empty_group() {
        let bytes = emit(&Group {
            generation: 9,
            members: vec![Member { slot: 5, claim: 6 }; 2],
            managers: Vec::new(),
        });
        assert!(parse(&bytes).is_some());
        assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(parse(b"something else entirely"), None);
        assert_eq!(parse(&[]), None);
    }
}
