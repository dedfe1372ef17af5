//! Which NIC has which port of connection management, at each address.
//!
//! ```text
//!   ports-<netns>-<address>    magic, count, then of each: service u64, slot u32, claim u32, flags u64
//! ```
//!
//! A port is named by its service ID: port space and number. An entry counts as long as its owner
//! lives (`registry.rs`), so a process that is killed frees its ports. All processes of an address
//! share QP1, and the table also says which of them a request that arrives there is for.
//!
//! A process that has asked for a port by its number may come back for it: perftest's server listens
//! twice. So such a port rests when it is given back. It can be had by its number; a caller that names none
//! gets another one, until the owner has ended.

use std::io;

use transport::cm::CommId;
use wire::cm::ip::PortSpace;

use crate::host::steering::{Member, is_ownable};
use crate::limits::{COMM_ID_SHIFT, EPHEMERAL_PORTS, PORTS_MAX, RESTING_PORTS_MAX};

/// The first bytes of a file of ports; the last of them is its version. A library that does not know a
/// flag leaves it out when it writes: a port that rests is then one that its owner has, which refuses
/// more, and forgets nothing. Another version would be read as no ports at all, and overwritten.
const MAGIC: [u8; 8] = *b"FRPORTS\x01";
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 24;
const LISTENS: u64 = 1;
const SHARED: u64 = 2;
const NAMED: u64 = 4;
const RESTS: u64 = 8;

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
    /// Its owner has asked for this number.
    named: bool,
    /// It was given back, and is not for those who name none.
    rests: bool,
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
    pub(crate) fn bind(
        &mut self,
        (space, number): (PortSpace, u16),
        owner: Member,
        shared: bool,
        start: u16,
    ) -> Result<u16, PortError> {
        if self.0.len() >= PORTS_MAX {
            return Err(PortError::Exhausted);
        }
        let named = number != 0;
        let number = match number {
            0 => self
                .free(space, start, |_| true)
                .or_else(|| self.free(space, start, |port| !port.rests))
                .ok_or(PortError::Exhausted)?,
            number => number,
        };
        let service = space.service(number);
        // Listening is exclusive, and so is a port unless all who have it say otherwise.
        let is_taken = |port: &Port| {
            port.service == service && !port.rests && !(shared && port.shared && !port.listens)
        };
        if self.0.iter().any(is_taken) {
            return Err(PortError::InUse);
        }
        self.0.retain(|port| port.service != service || !port.rests);
        self.0.push(Port { service, owner, listens: false, shared, named, rests: false });
        Ok(number)
    }

    /// The first port from `start` on that is free: no entry for which `counts` holds has it.
    fn free(&self, space: PortSpace, start: u16, counts: impl Fn(&Port) -> bool) -> Option<u16> {
        let (first, last) = EPHEMERAL_PORTS.into_inner();
        let count = last - first + 1;
        let mut taken = vec![false; usize::from(count)];
        for port in self.0.iter().filter(|port| counts(port)) {
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
    pub(crate) fn listen(
        &mut self,
        service: u64,
        owner: Member,
        listens: bool,
    ) -> Result<(), PortError> {
        let is_it = |port: &Port| port.service == service;
        if listens && self.0.iter().any(|port| is_it(port) && port.listens) {
            return Err(PortError::InUse);
        }
        let own = self
            .0
            .iter_mut()
            .find(|it| is_it(it) && it.owner == owner && it.listens != listens && !it.rests);
        own.ok_or(PortError::InUse)?.listens = listens;
        Ok(())
    }

    /// Gives one port back. It rests if its owner has named it, unless too many do.
    pub(crate) fn release(&mut self, service: u64, owner: Member, listens: bool) {
        let is_it = |it: &Port| {
            (it.service, it.owner, it.listens, it.rests) == (service, owner, listens, false)
        };
        let Some(at) = self.0.iter().position(is_it) else { return };
        let port = self.0.swap_remove(at);
        let resting = || self.0.iter().filter(|port| port.rests);
        let is_known = resting().any(|port| port.service == service);
        if port.named && !is_known && resting().count() < RESTING_PORTS_MAX {
            self.0.push(Port { listens: false, rests: true, ..port });
        }
    }

    /// Whose the requests for a service are.
    pub(crate) fn listener(&self, service: u64) -> Option<u16> {
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
                named: flags & NAMED != 0,
                rests: flags & RESTS != 0,
            })
        });
        ports.collect::<Option<_>>().map(Self)
    }

    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.0.len() as u64).to_ne_bytes());
        for Port { service, owner, listens, shared, named, rests } in &self.0 {
            let flags = [(listens, LISTENS), (shared, SHARED), (named, NAMED), (rests, RESTS)]
                .map(|(is_so, flag)| if *is_so { flag } else { 0 });
            let flags = flags.into_iter().sum::<u64>();
            bytes.extend(service.to_ne_bytes());
            bytes.extend(u32::from(owner.slot).to_ne_bytes());
            bytes.extend(owner.claim.to_ne_bytes());
            bytes.extend(flags.to_ne_bytes());
        }
        bytes
    }
}

/// What is done to a port of connection management ([`Nic::change_port`](crate::Nic::change_port)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortChange {
    /// It is taken.
    Bind {
        /// Others may have it too, of whom one listens.
        shared: bool,
    },
    /// Requests for it are brought to its owner.
    Listen,
    /// They are not any more.
    Unlisten,
    /// It is given back.
    Release {
        /// Which, where its owner has it more than once.
        listens: bool,
    },
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

    /// Has somebody take all of these.
    fn fill(ports: &mut Ports, numbers: impl Iterator<Item = u16>) {
        ports.0.extend(numbers.map(|number| Port {
            service: TCP.service(number),
            owner: owner(1),
            listens: false,
            shared: false,
            named: false,
            rests: false,
        }));
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
        fill(&mut ports, EPHEMERAL_PORTS.skip(2).filter(|it| ![41_839, 50_000].contains(it)));
        assert_eq!(bind(&mut ports, 0, 1, false).unwrap(), 50_000);
        assert!(matches!(bind(&mut ports, 0, 1, false), Err(PortError::Exhausted)));
    }

    #[test]
    fn who_comes_back_for_a_port_that_he_has_named_finds_it_free() {
        let mut ports = Ports::default();
        let service = TCP.service(32_768);
        bind(&mut ports, 32_768, 1, false).unwrap();
        ports.listen(service, owner(1), true).unwrap();
        ports.release(service, owner(1), true);
        assert_eq!(bind(&mut ports, 0, 2, false).unwrap(), 32_769, "not the one that rests");
        assert_eq!(ports.listener(service), None);
        assert!(ports.listen(service, owner(1), true).is_err(), "it is nobody's");
        assert_eq!(bind(&mut ports, 32_768, 1, false).unwrap(), 32_768);
        ports.release(service, owner(1), false);
        assert_eq!(bind(&mut ports, 32_768, 2, false).unwrap(), 32_768, "anybody may name it");
        ports.release(service, owner(2), false);
        ports.bury(|member| member.slot != 2);
        assert_eq!(bind(&mut ports, 0, 1, false).unwrap(), 32_768, "its owner has ended");
    }

    #[test]
    fn a_port_that_nobody_has_named_is_free_at_once() {
        let mut ports = Ports::default();
        for _ in 0..2 {
            assert_eq!(bind(&mut ports, 0, 1, false).unwrap(), 32_768);
            ports.release(TCP.service(32_768), owner(1), false);
        }
        assert_eq!(ports, Ports::default());
    }

    #[test]
    fn resting_ports_are_few_and_the_last_to_be_drawn() {
        let mut ports = Ports::default();
        let named = || EPHEMERAL_PORTS.take(RESTING_PORTS_MAX + 1);
        for number in named().chain(named()) {
            bind(&mut ports, number, 1, false).unwrap();
            ports.release(TCP.service(number), owner(1), false);
        }
        assert_eq!(ports.0.len(), RESTING_PORTS_MAX);
        let last = named().next_back().unwrap();
        assert_eq!(bind(&mut ports, 0, 2, false).unwrap(), last, "the one that does not rest");
        fill(&mut ports, EPHEMERAL_PORTS.skip(RESTING_PORTS_MAX + 1));
        let drawn: Vec<u16> =
            (0..RESTING_PORTS_MAX).map(|_| bind(&mut ports, 0, 2, false).unwrap()).collect();
        assert!(drawn.into_iter().eq(named().take(RESTING_PORTS_MAX)));
        assert!(matches!(bind(&mut ports, 0, 1, false), Err(PortError::Exhausted)));
    }

    #[test]
    fn a_table_of_a_library_that_knows_no_resting_ports_is_kept() {
        let mut before = Ports::default();
        bind(&mut before, 7_471, 1, false).unwrap();
        before.listen(TCP.service(7_471), owner(1), true).unwrap();
        let mut bytes = before.emit();
        // What such a library writes: the same, without the flags that it does not know.
        assert_eq!(bytes[..8], *b"FRPORTS\x01");
        let flags = HEADER_LEN + 16;
        bytes[flags..flags + 8].copy_from_slice(&(LISTENS).to_ne_bytes());
        let mut ports = Ports::parse(&bytes).unwrap();
        assert_eq!(ports.listener(TCP.service(7_471)), before.listener(TCP.service(7_471)));
        assert!(matches!(bind(&mut ports, 7_471, 2, false), Err(PortError::InUse)));
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
        bind(&mut ports, 0, 3, false).unwrap();
        bind(&mut ports, 4, 3, false).unwrap();
        ports.release(TCP.service(4), owner(3), false);
        let bytes = ports.emit();
        assert_eq!(bytes.len(), file_len(4));
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
