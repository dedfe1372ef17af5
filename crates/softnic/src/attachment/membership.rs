//! A NIC's membership among the NICs of its host: its slot, and its sockets in the reuseport groups.
//!
//! Here a NIC joins the groups of its addresses, leaves them, and corrects the recorded order of their
//! sockets when it is not the kernel's ([`crate::host::steering`]). For connection management it takes
//! ports, and may be the one that answers for QP1.
//!
//! **Invariant:** the layout changes whenever there are other sockets to wait for.

use core::net::IpAddr;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rdma::{Gid, Time};
use wire::cm::ip::PortSpace;

use crate::counts::Counts;
use crate::host::handover::Handover;
use crate::host::ports::{PortChange, PortError};
use crate::host::registry::Registry;
use crate::host::steering::{Group, Probe};
use crate::host::{interfaces, leftovers, mailbox, runtime};
use crate::lab::{Link, Site};
use crate::limits::{HOST_KNOWN, HOSTS_MAX, SOCKET_BUFFER_BYTES, STEERING_INTERVAL};
use crate::packet::Flow;
use crate::packet::Message;
use crate::packet::Received;
use crate::udp::departures::{Departure, Departures};
use crate::udp::groups::Groups;
use crate::udp::port::Port;
use crate::udp::socket::Socket;
use crate::{DeviceInfo, OpenError, Options, SourcePorts, sys};

/// A slot, and the sockets that belong to it.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) registry: Registry,
    /// `None` if it has been left.
    pub(crate) handover: Option<Handover>,
    /// One for each address.
    pub(crate) sockets: Vec<Arc<Port>>,
    /// Where packets to other hosts leave from.
    pub(crate) departures: Departures,
    source_ports: SourcePorts,
    /// The multicast groups, each with its socket.
    pub(crate) groups: Groups,
    /// Changes whenever there are other sockets to wait for.
    pub(crate) layout: u32,
    /// When the kernel's order of the sockets may be looked into again.
    next_repair: Time,
    /// Whether addresses are of this host, and until when that is believed.
    hosts: HashMap<IpAddr, (bool, Time)>,
    /// The addresses of all interfaces, where any address may be bound, and until when they are believed.
    own: (Vec<IpAddr>, Time),
}

impl Membership {
    /// Takes a slot, of a lab if the NIC is one's.
    pub(crate) fn claim(lab: Option<&Site>) -> Result<Self, OpenError> {
        let namespace = lab.map_or_else(runtime::network_namespace, |site| site.namespace);
        leftovers::sweep_if_due();
        let (registry, handover) = Registry::claim(namespace)
            .map_err(|error| OpenError::Io { doing: "taking a range of QPNs", error })?;
        Ok(Self {
            registry,
            handover: Some(handover),
            sockets: Vec::new(),
            departures: Departures::default(),
            source_ports: SourcePorts::default(),
            groups: Groups::default(),
            layout: 0,
            next_repair: Time::ZERO,
            hosts: HashMap::new(),
            own: (Vec::new(), Time::ZERO),
        })
    }

    /// Joins the group of each of the device's addresses.
    pub(crate) fn join_all(
        &mut self,
        device: &DeviceInfo,
        options: &Options,
    ) -> Result<(), OpenError> {
        self.source_ports = options.source_ports;
        let buffer = options.receive_buffer_bytes.and_then(|bytes| i32::try_from(bytes).ok());
        let buffer = buffer.unwrap_or(SOCKET_BUFFER_BYTES);
        if let Some(site) = &device.lab {
            let link = Link::attach(site, self.registry.slot())?;
            self.sockets.push(Arc::new(Port::Lab(link)));
            return Ok(());
        }
        for entry in device.gids.iter().filter(|entry| entry.usable) {
            let address = entry.gid.ip();
            match self.join(address, device.interface_index, buffer) {
                Ok(()) => {}
                // An address that is gone, or, on old kernels, still being checked for duplicates.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    tracing::warn!(%address, "the address cannot be used (yet)");
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(OpenError::PortTaken { address });
                }
                Err(error) => {
                    let doing =
                        "joining the user's NICs (by UDP port 4791, and a list in /dev/shm)";
                    return Err(OpenError::Io { doing, error });
                }
            }
        }
        if self.sockets.is_empty() {
            return Err(OpenError::NoAddress { interface: device.interface.clone() });
        }
        Ok(())
    }

    fn join(&mut self, address: IpAddr, interface: u32, buffer: i32) -> io::Result<()> {
        let change = self.registry.change()?;
        let mut group = change.read(address)?;
        let dead = group.bury(|member| self.registry.is_alive(member));
        let socket = Socket::bind(address, interface, buffer)?;
        group.join(self.registry.member());
        socket.attach(&group.program())?;
        change.write(address, &group)?;
        drop(change);
        tracing::debug!(%address, slot = self.registry.slot(), members = group.members.len(), "joined");
        if dead > 0 {
            ask(&socket, &group);
        }
        self.sockets.push(Arc::new(Port::Udp(socket)));
        Ok(())
    }

    /// The path to the lab that we are a host of.
    pub(crate) fn link(&self) -> Option<&Link> {
        self.sockets.first().and_then(|port| port.link())
    }

    /// Every socket: those of the addresses come first, then those of multicast groups.
    pub(crate) fn all_sockets(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.sockets.iter().chain(self.groups.sockets())
    }

    /// How many ports can be looked at: every socket, and last what other NICs hand over or say of rings.
    pub(crate) fn ports(&self) -> usize {
        self.sockets.len() + self.groups.count() + 1
    }

    /// Whether it is an address of this NIC.
    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        self.sockets.iter().any(|socket| socket.address() == address)
    }

    /// Whether it is an address of this host. The kernel is asked for each once in a while.
    #[inline]
    pub(crate) fn is_of_this_host(&mut self, address: IpAddr, now: Time) -> bool {
        address.is_loopback() || self.asks_of_host(address, now)
    }

    #[inline(never)]
    fn asks_of_host(&mut self, address: IpAddr, now: Time) -> bool {
        if self.link().is_some() {
            return self.has_address(address);
        }
        let known = self.hosts.get(&address).copied();
        if let Some((is_local, _)) = known.filter(|(_, until)| now < *until) {
            return is_local;
        }
        let Ok(is_local) = self.ask_kernel(address, now) else {
            // As without descriptors. What was so is so; a stranger is taken for one of this host, of whom
            // more is asked.
            return known.is_none_or(|(is_local, _)| is_local);
        };
        if self.hosts.len() == HOSTS_MAX {
            self.hosts.clear();
        }
        self.hosts.insert(address, (is_local, now + HOST_KNOWN));
        is_local
    }

    fn ask_kernel(&mut self, address: IpAddr, now: Time) -> io::Result<bool> {
        let is_same_family = |socket: &&Arc<Port>| socket.address().is_ipv4() == address.is_ipv4();
        let Some(socket) = self.all_sockets().find(is_same_family) else { return Ok(true) };
        let may_be_bound = socket.may_be_bound(address)?;
        if !may_be_bound || !interfaces::bind_any(address.is_ipv4()) {
            return Ok(may_be_bound);
        }
        // The list takes the kernel longer to make, the more interfaces there are.
        if self.own.1 <= now {
            self.own = (interfaces::addresses()?, now + HOST_KNOWN);
        }
        Ok(self.own.0.contains(&address))
    }

    /// The longest packet that the path to another host takes, as far as the kernel knows.
    pub(crate) fn path_bytes(&mut self, destination: Gid, now: Time) -> Option<u32> {
        if self.link().is_some() || self.is_of_this_host(destination.ip(), now) {
            return None;
        }
        let own = self.sockets.iter().find(|it| it.gid().is_ipv4() == destination.is_ipv4())?;
        let Port::Udp(own) = &**own else { return None };
        own.path_bytes(destination.ip()).ok()
    }

    /// The smallest receive buffer of a socket. The kernel counts up to twice a packet's bytes against
    /// it.
    pub(crate) fn receive_buffer_bytes(&self) -> u64 {
        self.sockets.iter().map(|socket| socket.receive_buffer_bytes()).min().unwrap_or(0)
    }

    /// The shorter of the window that is wanted and what a socket can hold: a peer's socket is taken
    /// to be like ours. The kernel grants half of what it says for data.
    pub(crate) fn window_bytes(&self, wanted: u64) -> u64 {
        let smallest = self.receive_buffer_bytes();
        let window = (smallest / 4).max(16 << 10);
        if window < wanted {
            tracing::debug!(
                smallest,
                "small receive buffers\nhint: raise the limit, as by sysctl net.core.rmem_max=8388608"
            );
        }
        wanted.min(window)
    }

    /// Leaves all groups, in order, so that the others' packets find them. Nobody else may have the
    /// sockets any more.
    pub(crate) fn leave(&mut self) {
        for socket in self.sockets.drain(..) {
            if socket.link().is_some() {
                continue;
            }
            let address = socket.address();
            let result = self.registry.change().and_then(|change| {
                let mut group = change.read(address)?;
                group.bury(|member| self.registry.is_alive(member));
                group.leave(self.registry.member());
                change.write(address, &group)?;
                // Only a member can attach a program, so we leave one for the time after us. Until the
                // socket is closed, it brings packets of another here: so that comes next.
                if let Port::Udp(socket) = &*socket {
                    socket.attach(&group.program())?;
                }
                drop(socket);
                Ok(())
            });
            if let Err(error) = result {
                // The others will find a dead member, as if we had been killed.
                tracing::debug!(%address, %error, "left without a word");
            }
        }
        mailbox::bury(self.registry.namespace(), self.registry.member());
        self.forget();
        leftovers::left(self.registry.namespace());
    }

    /// Lets go of the slot and the sockets, without a word to the others.
    pub(crate) fn forget(&mut self) {
        self.sockets.clear();
        self.departures = Departures::default();
        self.groups = Groups::default();
        self.handover = None;
        self.registry.leave();
    }

    /// Which socket sends from `source` to `destination`.
    pub(crate) fn port_of(&self, source: Gid, destination: Gid) -> Option<usize> {
        let port = self.sockets.iter().position(|socket| socket.gid() == source)?;
        (source.is_ipv4() == destination.is_ipv4()).then_some(port)
    }

    /// Has a flow to another host leave from source port `wanted`, or another that stands for it. Says what was
    /// wanted, if that counts.
    #[inline]
    pub(crate) fn depart(&mut self, flow: &mut Flow, wanted: u16, now: Time) -> Option<u16> {
        if flow.destination.ip().is_loopback() {
            return None;
        }
        self.depart_to(flow, wanted, now)
    }

    #[inline(never)]
    fn depart_to(&mut self, flow: &mut Flow, wanted: u16, now: Time) -> Option<u16> {
        let one_port = self.source_ports == SourcePorts::One || self.link().is_some();
        if one_port || self.is_of_this_host(flow.destination.ip(), now) {
            return None;
        }
        let Self { sockets, departures, .. } = self;
        if let Some(found) = departures.find(&sockets[flow.port], flow.port, wanted) {
            let Departure { at, source_port } = found;
            (flow.port, flow.source_port) = (sockets.len() + at, source_port);
        }
        Some(wanted)
    }

    /// A packet for another slot has arrived at `port`: finds out why, and puts it right.
    ///
    /// Either a member of the group has died, or the order of the members is not the kernel's.
    pub(crate) fn repair(&mut self, now: Time, port: usize, counts: &mut Counts) {
        if now < self.next_repair {
            return;
        }
        self.next_repair = now + STEERING_INTERVAL;
        let result = self.change_group(port, counts, |group, registry| {
            if !group.members.contains(&registry.member()) {
                group.join(registry.member());
            }
            group.bury(|member| registry.is_alive(member));
            After::Ask
        });
        if let Err(error) = result {
            tracing::warn!(%error, "the order of the sockets could not be put right");
        }
    }

    /// Looks whether a member of a group has died, for the sake of the others.
    pub(crate) fn bury_the_dead(&self, counts: &mut Counts) {
        for port in 0..self.sockets.len() {
            let result = self.change_group(port, counts, |group, registry| {
                match group.bury(|member| registry.is_alive(member)) {
                    0 => After::Unchanged,
                    // Where several die within a moment, nobody knows who was the first.
                    _ => After::Ask,
                }
            });
            if let Err(error) = result {
                tracing::debug!(%error, "a group could not be looked after");
            }
        }
    }

    /// A probe has arrived at `port`: now we know where we stand.
    pub(crate) fn probed(&mut self, port: usize, probe: Probe, counts: &mut Counts) {
        let result = self.change_group(port, counts, |group, registry| {
            let is_current = probe.generation == group.generation;
            if is_current && group.stands_at(registry.member(), probe.index.into()) {
                After::Known
            } else {
                After::Unchanged
            }
        });
        if let Err(error) = result {
            tracing::warn!(%error, "a place in the order of the sockets could not be told");
        }
    }

    /// Changes port `number` of `space` at `address`, and says which number it has.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while another process changes the ports.
    pub(crate) fn change_port(
        &self,
        address: IpAddr,
        (space, number): (PortSpace, u16),
        what: PortChange,
    ) -> Result<u16, PortError> {
        if !self.has_address(address) {
            return Err(PortError::Address);
        }
        let owner = self.registry.member();
        let service = space.service(number);
        let change = self.registry.change_now()?;
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
    pub(crate) fn answer_for_qp1(&self) -> io::Result<()> {
        for socket in &self.sockets {
            let socket = match &**socket {
                Port::Udp(socket) => socket,
                Port::Lab(link) => {
                    link.answer_for_qp1();
                    continue;
                }
            };
            let change = self.registry.change()?;
            let mut group = change.read(socket.address())?;
            if group.manage(self.registry.member()) {
                change.write(socket.address(), &group)?;
                socket.attach(&group.program())?;
            }
        }
        Ok(())
    }

    /// Gives packets that arrived at `destination` to the owner of `slot`. Returns whether there is one.
    ///
    /// # Errors
    /// Its mailbox is full. The packets have not been counted yet.
    pub(crate) fn hand_over(
        &mut self,
        slot: u16,
        received: &Received,
        destination: IpAddr,
        bytes: &[u8],
        counts: &mut Counts,
    ) -> io::Result<bool> {
        let packets = bytes.len().div_ceil(received.segment) as u64;
        let handover = self.handover.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // One that was never owned has no claim.
        let Ok(owner) = self.registry.owner(slot) else {
            counts.rx_unknown_slot += packets;
            return Ok(false);
        };
        let has_owner =
            handover.send(owner, received, destination, bytes).inspect_err(|error| {
                tracing::debug!(slot, %error, "not handed over");
            })?;
        // Nobody's, at least nobody's of this host: a peer that has not noticed a death yet.
        let counter =
            if has_owner { &mut counts.rx_handed_over } else { &mut counts.rx_unknown_slot };
        *counter += packets;
        Ok(has_owner)
    }

    /// Joins a multicast group, once more if it has been joined already.
    pub(crate) fn join_group(&mut self, group: IpAddr, interface: u32) -> io::Result<()> {
        if !group.is_multicast() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.link().is_some() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // What a sender of the other family says cannot be answered, nor be sent.
        let is_of_family = |socket: &Arc<Port>| socket.address().is_ipv4() == group.is_ipv4();
        if !self.groups.has(group) && !self.sockets.iter().any(is_of_family) {
            return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        }
        if self.groups.join(group, interface)? {
            self.layout = self.layout.wrapping_add(1);
        }
        Ok(())
    }

    /// Takes one [`Membership::join_group`] back.
    pub(crate) fn leave_group(&mut self, group: IpAddr) {
        if self.groups.leave(group) {
            self.layout = self.layout.wrapping_add(1);
        }
    }

    fn change_group(
        &self,
        port: usize,
        counts: &mut Counts,
        change_it: impl Fn(&mut Group, &Registry) -> After,
    ) -> io::Result<()> {
        let Port::Udp(socket) = &*self.sockets[port] else { return Ok(()) };
        // Mostly there is nothing to be changed, which is seen without the right to do so.
        let mut group = self.registry.read_group(socket.address())?;
        if change_it(&mut group, &self.registry) == After::Unchanged {
            return Ok(());
        }
        let change = self.registry.change_now()?;
        let mut group = change.read(socket.address())?;
        let after = change_it(&mut group, &self.registry);
        if after == After::Unchanged {
            return Ok(());
        }
        counts.steering_repairs += 1;
        tracing::debug!(address = %socket.address(), ?group, "the order of the sockets is put right");
        change.write(socket.address(), &group)?;
        socket.attach(&group.program())?;
        drop(change);
        if after == After::Ask {
            ask(socket, &group);
        }
        Ok(())
    }
}

/// How sure a new order is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// There is none.
    Unchanged,
    /// It is the kernel's.
    Known,
    /// It is a guess: each member is to be asked.
    Ask,
}

/// Sends a probe to every place of the group.
fn ask(socket: &Socket, group: &Group) {
    for index in (0..).take(group.members.len()) {
        let probe = Probe { index, generation: group.generation }.emit();
        let message = Message {
            bytes: &probe,
            segment: None,
            destination: socket.address().into(),
            traffic_class: 0,
            hop_limit: 0,
        };
        // A lost probe leaves an order that the next misled packet will lead to be asked about.
        let _ = socket.send(&[message]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::Attachment;
    use crate::engine::Engine;
    use crate::limits::SLOT_SHIFT;
    use crate::testing::{in_namespace, open};
    use crate::udp::inbox::Inbox;
    use crate::{ProcessMemory, clock};
    use core::net::Ipv4Addr;
    use rdma::{Mtu, Span};
    use transport::cm::{CmConfig, Manager};
    use transport::{Config, Endpoint};

    /// Lets every NIC take what has arrived, a few times.
    fn settle(nics: &mut [Attachment], counts: &mut [Counts], now: Time) {
        // SAFETY: nothing is registered, so the engine touches no memory.
        let mut memory = unsafe { ProcessMemory::new(&mut crate::fork::Nics::lock()) };
        let mut endpoint = Endpoint::new(Config::default());
        let mut manager = Manager::new(CmConfig { ids: 0..1, guid: 0, seed: 0, mtu: Mtu::B4096 });
        let mut inboxes: Vec<Inbox> = nics.iter().map(|_| Inbox::new()).collect();
        for _ in 0..4 {
            for ((nic, inbox), counts) in nics.iter_mut().zip(&mut inboxes).zip(&mut *counts) {
                let (endpoint, memory, manager) = (&mut endpoint, &mut memory, &mut manager);
                let mut engine = Engine { now, endpoint, manager, memory, counts };
                let Attachment { receiver, site, .. } = nic;
                let ports = 0..site.membership.ports();
                let mut look = site.begin_look(inbox, ports, engine.counts);
                while let Some(found) = inbox.next(&mut look) {
                    receiver.receive(&found, site, &mut engine);
                }
            }
        }
    }

    /// A packet for `slot`, with nothing right in it but the QPN.
    fn send(from: &Membership, to: IpAddr, slot: u16) {
        let mut bytes = [0; 64];
        bytes[4..8].copy_from_slice(&(u32::from(slot) << SLOT_SHIFT | 1).to_be_bytes());
        let message = Message {
            bytes: &bytes,
            segment: None,
            destination: to.into(),
            traffic_class: 0,
            hop_limit: 0,
        };
        from.sockets[0].send(&[message]).unwrap();
    }

    #[test]
    fn a_wrong_order_is_noticed_and_put_right() {
        let open = |address: Ipv4Addr| {
            let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
            Attachment::open(&device, &Options::default()).unwrap()
        };
        let address = Ipv4Addr::new(127, 0, 48, 2);
        let from = open(Ipv4Addr::new(127, 0, 48, 1));
        let mut nics: Vec<Attachment> = (0..5).map(|_| open(address)).collect();
        let mut counts = vec![Counts::default(); 5];
        let truth =
            nics[0].site.membership.registry.change().unwrap().read(address.into()).unwrap();

        // As after deaths whose order nobody saw.
        let mut wrong = truth.clone();
        wrong.members.rotate_left(2);
        wrong.members.swap(0, 1);
        nics[0].site.membership.registry.change().unwrap().write(address.into(), &wrong).unwrap();
        let Port::Udp(socket) = &*nics[0].site.membership.sockets[0] else { panic!("a socket") };
        socket.attach(&wrong.program()).unwrap();

        let slots: Vec<u16> = nics.iter().map(|nic| nic.site.membership.registry.slot()).collect();
        let handed_over =
            |counts: &[Counts]| counts.iter().map(|counts| counts.rx_handed_over).sum::<u64>();
        let mut now = Time::ZERO;
        let mut tries = 0;
        // Other tests of this process change groups as well. Who finds that right taken leaves it to
        // the next packet.
        while nics[0]
            .site
            .membership
            .registry
            .change()
            .unwrap()
            .read(address.into())
            .unwrap()
            .members
            != truth.members
        {
            tries += 1;
            assert!(tries <= 100);
            now += Span::from_ms(20);
            send(&from.site.membership, address.into(), slots[3]);
            settle(&mut nics, &mut counts, now);
        }
        assert!((1..=tries).contains(&handed_over(&counts)));
        assert_eq!(counts[3].rx_taken_over, handed_over(&counts), "the packet was not lost");

        let before = handed_over(&counts);
        for slot in slots {
            send(&from.site.membership, address.into(), slot);
        }
        settle(&mut nics, &mut counts, now + Span::from_ms(20));
        assert_eq!(handed_over(&counts), before);
        // All of them were nonsense, and counted as such by those that they were for.
        assert!(counts.iter().all(|counts| counts.rx_icrc_encapsulated >= 1));
        for mut nic in nics {
            nic.leave();
        }
    }

    #[test]
    fn addresses_of_this_host_are_known_where_any_may_be_bound() {
        let script = "ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind; \
                      ip link add eth0 type veth peer name eth1; ip link set eth1 up; \
                      ip link set eth0 up; ip address add 10.0.0.1/24 dev eth0; \
                      ip address add 10.0.0.2/24 dev eth0";
        let this = "attachment::membership::tests::addresses_of_this_host_are_known_where_any_may_be_bound";
        if !in_namespace(this, script) {
            return;
        }
        let nic = open("127.0.0.1");
        let membership = &mut nic.shared().lock().attachment.site.membership;
        let mut is_own = |it: [u8; 4]| membership.is_of_this_host(it.into(), clock::now());
        assert_eq!([[10, 0, 0, 1], [10, 0, 0, 2], [127, 0, 0, 1]].map(&mut is_own), [true; 3]);
        // On the link, and where no route leads.
        assert_eq!([[10, 0, 0, 3], [192, 0, 2, 1]].map(&mut is_own), [false; 2]);
    }
}
