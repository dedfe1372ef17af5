//! Who has which port of connection management at an address.
//!
//! ```text
//!   ports-<netns>-<address>    magic, count, then of each: service u64, slot u32, claim u32, flags u64
//! ```
//!
//! A port is named by its service ID: port space and number. An entry counts as long as its owner
//! lives (`registry.rs`), so a process that is killed frees its ports. The table also says
//! whose a request is that arrives at QP1, which all processes of an address share.

use core::net::IpAddr;
use std::io;

use transport::cm::CommId;
use wire::cm::ip::PortSpace;

use crate::clock::{retry, would_block};
use crate::limits::{COMM_ID_SHIFT, EPHEMERAL_PORTS, PORT_PAUSE, PORT_TRIES, PORTS_MAX};
use crate::links::Links;
use crate::steering::{Member, is_ownable};
use crate::{Nic, sys};

/// The first bytes of a file of ports; the last of them is its version.
const MAGIC: [u8; 8] = *b"FRPORTS\x01";
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 24;
const LISTENS: u64 = 1;
const SHARED: u64 = 2;

/// Bytes of a file with `count` ports.
pub(crate) const fn file_len(count: usize) -> usize {
    HEADER_LEN + ENTRY_LEN * count
}

/// A port that somebody has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Port {
    pub(crate) service: u64,
    pub(crate) owner: Member,
    /// Requests for it are its owner's.
    pub(crate) listens: bool,
    /// Others may have it too, as long as one of them listens.
    pub(crate) shared: bool,
}

/// The ports of an address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ports(Vec<Port>);

/// Why a port could not be had.
#[derive(Debug)]
pub enum PortError {
    /// Somebody has it.
    InUse,
    /// There is none left.
    Exhausted,
    /// The address is not the device's.
    Address,
    /// The table of ports could not be read or written.
    Io(io::Error),
}

impl core::fmt::Display for PortError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::InUse => f.write_str("the port is in use"),
            Self::Exhausted => f.write_str("every port is in use"),
            Self::Address => f.write_str("the address is not the device's"),
            Self::Io(error) => write!(f, "the table of ports: {error}"),
        }
    }
}

impl core::error::Error for PortError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::InUse | Self::Exhausted | Self::Address => None,
        }
    }
}

impl From<io::Error> for PortError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Ports {
    /// Forgets the ports of the dead.
    pub(crate) fn bury(&mut self, is_alive: impl Fn(Member) -> bool) {
        let mut known: Vec<(Member, bool)> = Vec::new();
        self.0.retain(|port| match known.iter().find(|(member, _)| *member == port.owner) {
            Some((_, alive)) => *alive,
            None => {
                let alive = is_alive(port.owner);
                known.push((port.owner, alive));
                alive
            }
        });
    }

    /// Takes a port, or any that is free if `number` is 0; the search begins at `start`.
    fn bind(
        &mut self,
        (space, number): (PortSpace, u16),
        owner: Member,
        shared: bool,
        start: u16,
    ) -> Result<u16, PortError> {
        if self.0.len() >= PORTS_MAX {
            return Err(PortError::Exhausted);
        }
        let number = match number {
            0 => self.free(space, start).ok_or(PortError::Exhausted)?,
            number => number,
        };
        let service = space.service(number);
        // Listening is exclusive, and so is a port unless all who have it say otherwise.
        let is_taken =
            |port: &&Port| port.service == service && !(shared && port.shared && !port.listens);
        if self.0.iter().any(|port| is_taken(&port)) {
            return Err(PortError::InUse);
        }
        self.0.push(Port { service, owner, listens: false, shared });
        Ok(number)
    }

    fn free(&self, space: PortSpace, start: u16) -> Option<u16> {
        let (first, last) = EPHEMERAL_PORTS.into_inner();
        let count = last - first + 1;
        let mut taken = vec![false; usize::from(count)];
        for port in &self.0 {
            if let Some((of, number)) = PortSpace::of_service(port.service)
                && of == space
                && EPHEMERAL_PORTS.contains(&number)
            {
                taken[usize::from(number - first)] = true;
            }
        }
        let places = (0..count).map(|step| usize::from((start % count + step) % count));
        let place = places.into_iter().find(|place| !taken[*place])?;
        Some(first + place as u16)
    }

    /// Says that the owner of a port waits for requests, or does so no more.
    fn listen(&mut self, service: u64, owner: Member, listens: bool) -> Result<(), PortError> {
        let is_it = |port: &Port| port.service == service;
        if listens && self.0.iter().any(|port| is_it(port) && port.listens) {
            return Err(PortError::InUse);
        }
        let own = self
            .0
            .iter_mut()
            .find(|port| is_it(port) && port.owner == owner && port.listens != listens);
        own.ok_or(PortError::InUse)?.listens = listens;
        Ok(())
    }

    /// Gives one port back.
    fn release(&mut self, service: u64, owner: Member, listens: bool) {
        let is_it =
            |port: &Port| (port.service, port.owner, port.listens) == (service, owner, listens);
        if let Some(at) = self.0.iter().position(is_it) {
            self.0.swap_remove(at);
        }
    }

    /// Whose the requests for a service are.
    fn listener(&self, service: u64) -> Option<u16> {
        let mut listeners = self.0.iter().filter(|port| port.service == service && port.listens);
        listeners.next().map(|port| port.owner.slot)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (count, rest) = rest.split_first_chunk()?;
        let count = usize::try_from(u64::from_ne_bytes(*count)).ok()?;
        let (entries, _) = rest.as_chunks::<ENTRY_LEN>();
        let ports = entries.get(..count)?.iter().map(|entry| {
            let (service, entry) = entry.split_first_chunk()?;
            let (slot, entry) = entry.split_first_chunk()?;
            let (claim, flags) = entry.split_first_chunk()?;
            let slot = u16::try_from(u32::from_ne_bytes(*slot)).ok()?;
            let flags = u64::from_ne_bytes(*flags.first_chunk()?);
            Some(Port {
                service: u64::from_ne_bytes(*service),
                owner: Member { slot, claim: u32::from_ne_bytes(*claim) },
                listens: flags & LISTENS != 0,
                shared: flags & SHARED != 0,
            })
        });
        ports.collect::<Option<_>>().map(Self)
    }

    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.0.len() as u64).to_ne_bytes());
        for Port { service, owner, listens, shared } in &self.0 {
            let flags = if *listens { LISTENS } else { 0 } | if *shared { SHARED } else { 0 };
            bytes.extend(service.to_ne_bytes());
            bytes.extend(u32::from(owner.slot).to_ne_bytes());
            bytes.extend(owner.claim.to_ne_bytes());
            bytes.extend(flags.to_ne_bytes());
        }
        bytes
    }
}

/// What is done to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PortChange {
    /// It is taken; others may have it too if `shared`.
    Bind { shared: bool },
    /// Its owner waits for requests.
    Listen,
    /// Its owner does so no more.
    Unlisten,
    /// It is given back.
    Release { listens: bool },
}

impl Nic {
    /// Takes part in connection management: answers for QP1 on behalf of every process of its
    /// addresses, from now on and without being called.
    ///
    /// # Errors
    /// What the kernel said about the files that the processes of the host share.
    pub fn manage(&self) -> io::Result<()> {
        self.start();
        self.answer_for_management()
    }

    /// Takes port `number` of `space` at `address`, or a free one for 0, for as long as the process
    /// lives or until it is released. With `shared`, others may have it too, of whom one listens.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn bind_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        shared: bool,
    ) -> Result<u16, PortError> {
        self.change_port(address, (space, number), PortChange::Bind { shared })
    }

    /// Has the requests for a port that this NIC has taken brought here, or not any more. What is
    /// brought here meets the listeners of the manager.
    ///
    /// # Errors
    /// [`PortError::InUse`] if another listens there; see [`PortError`].
    pub fn listen_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        listens: bool,
    ) -> Result<(), PortError> {
        let what = if listens { PortChange::Listen } else { PortChange::Unlisten };
        self.change_port(address, (space, number), what).map(|_| ())
    }

    /// Gives a port back. `listens` says which, where this NIC has it more than once.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn release_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        listens: bool,
    ) -> Result<(), PortError> {
        self.change_port(address, (space, number), PortChange::Release { listens }).map(|_| ())
    }

    fn change_port(
        &self,
        address: IpAddr,
        port: (PortSpace, u16),
        what: PortChange,
    ) -> Result<u16, PortError> {
        let is_busy =
            |error: &PortError| matches!(error, PortError::Io(error) if would_block(error));
        // The lock is not held while somebody else is waited for.
        retry((PORT_TRIES, PORT_PAUSE), is_busy, || match &self.shared().lock().links {
            Some(links) => links.change_port(address, port, what),
            None => Err(PortError::Address),
        })
    }

    pub(crate) fn answer_for_management(&self) -> io::Result<()> {
        match &self.shared().lock().links {
            Some(links) => links.manage(),
            None => Ok(()),
        }
    }
}

impl Links {
    /// Changes port `number` of `space` at `address`, and says which number it has.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if somebody else is at it right now.
    pub(crate) fn change_port(
        &self,
        address: IpAddr,
        (space, number): (PortSpace, u16),
        what: PortChange,
    ) -> Result<u16, PortError> {
        if !self.sockets.iter().any(|socket| socket.address() == address) {
            return Err(PortError::Address);
        }
        let owner = self.registry.member();
        let service = space.service(number);
        let change = self.registry.change_soon()?;
        let mut ports = change.read_ports(address)?;
        let mut taken = number;
        match what {
            PortChange::Bind { shared } => {
                taken = ports.bind((space, number), owner, shared, sys::random()? as u16)?;
            }
            PortChange::Listen => ports.listen(service, owner, true)?,
            PortChange::Unlisten => ports.listen(service, owner, false)?,
            PortChange::Release { listens } => ports.release(service, owner, listens),
        }
        change.write_ports(address, &ports)?;
        Ok(taken)
    }

    /// Whose the requests are that arrive at `address` for `service`.
    pub(crate) fn listener(&self, address: IpAddr, service: u64) -> io::Result<Option<u16>> {
        Ok(self.registry.read_ports(address)?.listener(service))
    }

    /// Tells the others of our addresses that we answer for QP1.
    pub(crate) fn manage(&self) -> io::Result<()> {
        for socket in &self.sockets {
            let change = self.registry.change()?;
            let mut group = change.read(socket.address())?;
            if group.manage(self.registry.member()) {
                change.write(socket.address(), &group)?;
                socket.attach(&group.program())?;
            }
        }
        Ok(())
    }
}

/// Whose the conversation of that number is, if it can be anybody's.
pub(crate) fn slot_of_conversation(id: CommId) -> Option<u16> {
    // Ten bits.
    let slot = (id.0 >> COMM_ID_SHIFT) as u16;
    is_ownable(slot).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: PortSpace = PortSpace::TCP;

    fn owner(slot: u16) -> Member {
        Member { slot, claim: 7 }
    }

    fn bind(ports: &mut Ports, number: u16, slot: u16, shared: bool) -> Result<u16, PortError> {
        ports.bind((TCP, number), owner(slot), shared, 0)
    }

    #[test]
    fn a_port_has_one_owner_in_each_port_space() {
        let mut ports = Ports::default();
        assert_eq!(bind(&mut ports, 7174, 1, false).unwrap(), 7174);
        for (slot, shared) in [(1, false), (2, true)] {
            let again = bind(&mut ports, 7174, slot, shared);
            assert!(matches!(again, Err(PortError::InUse)), "{again:?}");
        }
        assert_eq!(ports.bind((PortSpace::UDP, 7174), owner(2), false, 0).unwrap(), 7174);
        ports.release(TCP.service(7174), owner(1), false);
        assert_eq!(bind(&mut ports, 7174, 2, false).unwrap(), 7174);
    }

    #[test]
    fn of_those_who_share_a_port_one_listens() {
        let mut ports = Ports::default();
        bind(&mut ports, 7174, 1, true).unwrap();
        bind(&mut ports, 7174, 2, true).unwrap();
        let service = TCP.service(7174);
        assert_eq!(ports.listener(service), None);
        ports.listen(service, owner(2), true).unwrap();
        assert_eq!(ports.listener(service), Some(2));
        assert!(matches!(ports.listen(service, owner(1), true), Err(PortError::InUse)));
        assert!(matches!(bind(&mut ports, 7174, 3, true), Err(PortError::InUse)));
        ports.release(service, owner(2), true);
        ports.listen(service, owner(1), true).unwrap();
        assert_eq!(ports.listener(service), Some(1));
    }

    #[test]
    fn who_names_no_port_gets_a_free_one() {
        let mut ports = Ports::default();
        assert_eq!(bind(&mut ports, 0, 1, false).unwrap(), 32_768);
        assert_eq!(bind(&mut ports, 0, 1, false).unwrap(), 32_769);
        assert_eq!(ports.bind((TCP, 0), owner(1), false, u16::MAX).unwrap(), 41_839);
        for number in EPHEMERAL_PORTS.skip(2).filter(|number| ![41_839, 50_000].contains(number)) {
            let service = TCP.service(number);
            ports.0.push(Port { service, owner: owner(1), listens: false, shared: false });
        }
        assert_eq!(bind(&mut ports, 0, 1, false).unwrap(), 50_000);
        assert!(matches!(bind(&mut ports, 0, 1, false), Err(PortError::Exhausted)));
    }

    #[test]
    fn the_ports_of_the_dead_are_free() {
        let mut ports = Ports::default();
        bind(&mut ports, 1, 1, false).unwrap();
        bind(&mut ports, 2, 2, false).unwrap();
        bind(&mut ports, 3, 1, false).unwrap();
        ports.bury(|member| member.slot == 2);
        assert_eq!(ports.0.len(), 1);
        bind(&mut ports, 1, 2, false).unwrap();
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut ports = Ports::default();
        bind(&mut ports, 1, 1, true).unwrap();
        bind(&mut ports, 2, 1022, false).unwrap();
        ports.listen(TCP.service(2), owner(1022), true).unwrap();
        let bytes = ports.emit();
        assert_eq!(bytes.len(), file_len(2));
        assert_eq!(Ports::parse(&bytes), Some(ports));
        assert_eq!(Ports::parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Ports::parse(b"something else"), None);
    }

    #[test]
    fn a_conversation_says_whose_it_is() {
        assert_eq!(slot_of_conversation(CommId(5 << COMM_ID_SHIFT | 77)), Some(5));
        assert_eq!(slot_of_conversation(CommId(77)), None);
        assert_eq!(slot_of_conversation(CommId(u32::MAX)), None);
    }
}
