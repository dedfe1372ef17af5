//! What a NIC has of the kernel: its sockets, its slot, and what goes with them.
//!
//! It is all that a forked child must not have, in one piece, so that it can be let go at once
//! ([`crate::fork`]). What is done with it stands in other rooms: sending in `transmit.rs`, receiving in
//! `receive.rs`, groups, ports and messages of connection management in theirs. Here a NIC joins the
//! groups of its addresses, leaves them, and puts the order of their sockets right when it turns out
//! not to be the kernel's ([`crate::steering`]).
//!
//! **Invariants:** the outbox is away while a thread sends, and only then. The layout changes whenever
//! other sockets are to be waited for.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rdma::{Gid, Qpn, Time};
use wire::roce;

use crate::capture::Capture;
use crate::counters::Publisher;
use crate::counts::Counts;
use crate::faults::Faults;
use crate::flow::Flow;
use crate::groups::Joined;
use crate::handover::Handover;
use crate::limits::{PACKET_MAX, SOCKET_BUFFER_BYTES, STEERING_INTERVAL, TRAIN_SEGMENTS_MAX};
use crate::management::Waiting;
use crate::outbox::Outbox;
use crate::registry::Registry;
use crate::same_host::SameHost;
use crate::socket::{Message, Socket};
use crate::steering::{Group, Probe, slot_of};
use crate::train::Trains;
use crate::{DeviceInfo, Link, OpenError, Options};

/// Sockets, slot, and buffers. A forked child has none.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) sockets: Vec<Arc<Socket>>,
    /// The multicast groups, each with its socket.
    pub(crate) groups: Vec<Joined>,
    /// Changes whenever there are other sockets to wait for.
    pub(crate) layout: u32,
    pub(crate) registry: Registry,
    pub(crate) handover: Handover,
    /// `None` while a thread sends what is in it, without the lock.
    pub(crate) outbox: Option<Box<Outbox>>,
    /// Whether there may be something to send that was left to the thread that has the outbox, or
    /// would have been but for a claim.
    pub(crate) is_left_behind: bool,
    /// Threads that wait for the outbox to be back. Nobody else takes it then.
    pub(crate) claims: u32,
    pub(crate) faults: Option<Faults>,
    pub(crate) capture: Option<Capture>,
    pub(crate) publisher: Option<Publisher>,
    /// Where what is looked at of a packet in a ring is copied to.
    pub(crate) ring_buffer: Box<[u8]>,
    /// Reads the headers of packets.
    pub(crate) reader: roce::Reader,
    /// The socket that had something last.
    pub(crate) hot: usize,
    /// How often it was looked for what has arrived.
    pub(crate) polls: u32,
    /// Where a round that is looked at in parts goes on.
    pub(crate) next_port: usize,
    /// Rings to and from NICs of this host.
    pub(crate) same_host: Option<Box<SameHost>>,
    /// Whether a socket had something when it was last looked at.
    pub(crate) is_socket_hot: bool,
    /// How many looks in a row have found something, the socket not being empty after them.
    pub(crate) finds: u32,
    /// Room at the NICs of this host.
    pub(crate) flow: Option<Flow>,
    /// The slot that sending waits for, and since when.
    pub(crate) paused: Option<(u16, Time)>,
    /// Requests for services that nobody offers (yet), the oldest first.
    pub(crate) unclaimed: VecDeque<Waiting>,
    /// The PSN of the next packet from QP1.
    pub(crate) next_gsi_psn: u32,
    /// When the kernel's order of the sockets may be looked into again.
    next_repair: Time,
}

impl Links {
    /// Takes a slot, and joins the group of each of the device's addresses.
    pub(crate) fn open(device: &DeviceInfo, options: &Options) -> Result<Self, OpenError> {
        let (registry, handover) = Registry::claim()
            .map_err(|error| OpenError::Io { doing: "taking a range of QPNs", error })?;
        let capture = options
            .capture
            .as_deref()
            .map(|name| {
                Capture::open(name, device, registry.slot())
                    .map_err(|error| OpenError::Capture { file: name.to_owned(), error })
            })
            .transpose()?;
        let publisher = Publisher::create(&device.name, registry.slot())
            .inspect_err(|error| tracing::warn!(%error, "counters are not published"))
            .ok();
        let faults = options.faults.map(Faults::new);
        // Faults are for single packets, so trains would only have to be cut again.
        let singly = options.exact || faults.is_some();
        // A fault may be a wrong bit, and a record shows packets as they would be on the wire.
        let seals_rings =
            options.link == Link::SharedMemoryWithIcrc || faults.is_some() || capture.is_some();
        let mut links = Self {
            sockets: Vec::new(),
            groups: Vec::new(),
            layout: 0,
            registry,
            handover,
            outbox: None,
            is_left_behind: false,
            claims: 0,
            faults,
            capture,
            publisher,
            ring_buffer: vec![0; PACKET_MAX].into_boxed_slice(),
            reader: roce::Reader::default(),
            hot: 0,
            polls: 0,
            next_port: 0,
            same_host: None,
            is_socket_hot: false,
            finds: 0,
            flow: None,
            paused: None,
            unclaimed: VecDeque::new(),
            next_gsi_psn: 0,
            next_repair: Time::ZERO,
        };
        let buffer = options.receive_buffer_bytes.and_then(|bytes| i32::try_from(bytes).ok());
        let buffer = buffer.unwrap_or(SOCKET_BUFFER_BYTES);
        for entry in device.gids.iter().filter(|entry| entry.usable) {
            let address = entry.gid.ip();
            match links.join(address, device.interface_index, buffer) {
                Ok(()) => {}
                // An address that is gone, or, on old kernels, still being checked for duplicates.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    tracing::warn!(%address, "the address cannot be used (yet)");
                }
                Err(error) => {
                    links.leave();
                    return Err(if error.kind() == io::ErrorKind::AddrInUse {
                        OpenError::PortTaken { address }
                    } else {
                        OpenError::Io { doing: "opening a socket on UDP port 4791", error }
                    });
                }
            }
        }
        if links.sockets.is_empty() {
            return Err(OpenError::NoAddress { interface: device.interface.clone() });
        }
        let trains = Trains::new(if singly { 1 } else { TRAIN_SEGMENTS_MAX }, seals_rings);
        links.outbox = Some(Box::new(Outbox::new(trains, links.sockets.clone())));
        let buffers = links.sockets.iter().map(|socket| socket.receive_buffer_bytes());
        links.flow = Flow::open(links.registry.slot(), buffers.min().unwrap_or(0))
            .inspect_err(|error| tracing::debug!(%error, "no pauses for others of this host"))
            .ok();
        if options.link != Link::Udp && !options.exact {
            links.same_host = SameHost::open(&links.registry)
                .inspect_err(|error| tracing::debug!(%error, "others of this host by UDP"))
                .ok()
                .map(Box::new);
        }
        Ok(links)
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
        self.sockets.push(Arc::new(socket));
        Ok(())
    }

    /// Every socket: those of the addresses come first, then those of multicast groups.
    pub(crate) fn all_sockets(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.sockets.iter().chain(self.groups.iter().map(|joined| &joined.socket))
    }

    /// Tells those who send by rings that nobody will look any more. They then do not wait for that.
    pub(crate) fn leave_rings(&self) {
        if let Some(link) = &self.same_host {
            link.leave();
        }
    }

    /// Leaves all groups, in order, so that the others' packets find them. The inbox must have let go
    /// of the sockets.
    pub(crate) fn leave(&mut self) {
        self.leave_rings();
        self.same_host = None;
        self.groups.clear();
        // It has the sockets too, and they are to be closed.
        self.outbox = None;
        for socket in self.sockets.drain(..) {
            let address = socket.address();
            let result = self.registry.change().and_then(|change| {
                let mut group = change.read(address)?;
                group.bury(|member| self.registry.is_alive(member));
                group.leave(self.registry.member());
                change.write(address, &group)?;
                // Only a member can attach a program, so we leave one for the time after us. Until the
                // socket is closed, it brings packets of another here: so that comes next.
                socket.attach(&group.program())?;
                drop(socket);
                Ok(())
            });
            if let Err(error) = result {
                // The others will find a dead member, as if we had been killed.
                tracing::debug!(%address, %error, "left without a word");
            }
        }
        if let Some(capture) = &mut self.capture {
            let _ = capture.flush();
        }
        if let Some(publisher) = self.publisher.take() {
            publisher.remove();
        }
    }

    /// The fallback thread goes to sleep, to be woken by packets in rings, or has woken up. Returns
    /// whether there are some that it has to stay awake for.
    pub(crate) fn set_asleep(&mut self, asleep: bool) -> bool {
        self.same_host.as_mut().is_some_and(|link| link.set_asleep(asleep))
    }

    /// Whether anything comes by rings.
    pub(crate) fn has_rings(&self) -> bool {
        self.same_host.as_ref().is_some_and(|link| link.sources() > 0)
    }

    /// Whether what has been given to them has left, and nothing is to be written down at `now`.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        !self.is_left_behind
            && self.paused.is_none()
            && self.faults.is_none()
            && self.capture.is_none()
            && self.unclaimed.is_empty()
            && !self.publisher.as_ref().is_some_and(|publisher| publisher.is_due(now))
    }

    /// Whether a packet to `qpn` at `destination` that is missed at `now` may still be where a NIC of this
    /// host will find it. By UDP nobody knows.
    pub(crate) fn is_on_its_way(
        &mut self,
        now: Time,
        (destination, qpn): (Gid, Qpn),
        counts: &mut Counts,
    ) -> bool {
        let Self { same_host, registry, .. } = self;
        let is_on_its_way = same_host.as_mut().is_some_and(|link| {
            link.is_on_its_way(registry, (destination, slot_of(qpn.value())), now)
        });
        counts.ring_timeouts_put_off += u64::from(is_on_its_way);
        is_on_its_way
    }

    /// Which socket sends from `source` to `destination`.
    pub(crate) fn port_of(&self, source: Gid, destination: Gid) -> Option<usize> {
        let port = self.sockets.iter().position(|socket| socket.gid() == source)?;
        (source.is_ipv4() == destination.is_ipv4()).then_some(port)
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
    pub(crate) fn look_after(&mut self, counts: &mut Counts) {
        if let Some(link) = &mut self.same_host {
            link.look_after(&self.registry);
        }
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

    fn change_group(
        &self,
        port: usize,
        counts: &mut Counts,
        change_it: impl FnOnce(&mut Group, &Registry) -> After,
    ) -> io::Result<()> {
        let socket = &self.sockets[port];
        let change = self.registry.change_soon()?;
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

/// The shorter of the window that is wanted and what a socket can hold: a peer's
/// socket is taken to be like ours. The kernel counts up to twice a packet's bytes against the
/// buffer, and grants half of what it says for data.
pub(crate) fn window_bytes(sockets: &[Arc<Socket>], wanted: u64) -> u64 {
    let smallest = sockets.iter().map(|socket| socket.receive_buffer_bytes()).min().unwrap_or(0);
    let window = (smallest / 4).max(16 << 10);
    if window < wanted {
        tracing::debug!(
            smallest,
            "small receive buffers\nhint: raise the limit, as by sysctl net.core.rmem_max=8388608"
        );
    }
    wanted.min(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessMemory;
    use crate::inbox::Inbox;
    use crate::limits::SLOT_SHIFT;
    use crate::receive::{Reach, Sink, Turn};
    use core::net::Ipv4Addr;
    use rdma::Span;
    use transport::cm::{CmConfig, Manager};
    use transport::{Config, Endpoint};

    /// Lets every NIC take what has arrived, a few times.
    fn settle(nics: &mut [Links], counts: &mut [Counts], now: Time) {
        // SAFETY: nothing is registered, so the engine touches no memory.
        let mut memory = unsafe { ProcessMemory::new(&mut crate::fork::Nics::lock()) };
        let mut endpoint = Endpoint::new(Config::default());
        let mut manager = Manager::new(CmConfig { ids: 0..1, guid: 0, seed: 0 });
        let mut inboxes: Vec<Inbox> = nics.iter().map(|_| Inbox::new()).collect();
        for _ in 0..4 {
            for ((nic, inbox), counts) in nics.iter_mut().zip(&mut inboxes).zip(&mut *counts) {
                let mut look = nic.begin_look(inbox, (Reach::All, Turn::Round), counts);
                while let Some(found) = inbox.next(&mut look) {
                    let (endpoint, memory, manager) = (&mut endpoint, &mut memory, &mut manager);
                    let mut sink = Sink { now, endpoint, memory, manager, counts };
                    nic.arrived(&found, &mut look, &mut sink);
                }
            }
        }
    }

    /// A packet for `slot`, with nothing right in it but the QPN.
    fn send(from: &Links, to: IpAddr, slot: u16) {
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
            Links::open(&device, &Options::default()).unwrap()
        };
        let address = Ipv4Addr::new(127, 0, 48, 2);
        let from = open(Ipv4Addr::new(127, 0, 48, 1));
        let mut nics: Vec<Links> = (0..5).map(|_| open(address)).collect();
        let mut counts = vec![Counts::default(); 5];
        let truth = nics[0].registry.change().unwrap().read(address.into()).unwrap();

        // As after deaths whose order nobody saw.
        let mut wrong = truth.clone();
        wrong.members.rotate_left(2);
        wrong.members.swap(0, 1);
        nics[0].registry.change().unwrap().write(address.into(), &wrong).unwrap();
        nics[0].sockets[0].attach(&wrong.program()).unwrap();

        let slots: Vec<u16> = nics.iter().map(|nic| nic.registry.slot()).collect();
        let handed_over =
            |counts: &[Counts]| counts.iter().map(|counts| counts.rx_handed_over).sum::<u64>();
        let mut now = Time::ZERO;
        let mut tries = 0;
        // Other tests of this process change groups as well. Who finds that right taken leaves it to
        // the next packet.
        while nics[0].registry.change().unwrap().read(address.into()).unwrap().members
            != truth.members
        {
            tries += 1;
            assert!(tries <= 100);
            now += Span::from_ms(20);
            send(&from, address.into(), slots[3]);
            settle(&mut nics, &mut counts, now);
        }
        assert!((1..=tries).contains(&handed_over(&counts)));
        assert_eq!(counts[3].rx_taken_over, handed_over(&counts), "the packet was not lost");

        let before = handed_over(&counts);
        for slot in slots {
            send(&from, address.into(), slot);
        }
        settle(&mut nics, &mut counts, now + Span::from_ms(20));
        assert_eq!(handed_over(&counts), before);
        // All of them were nonsense, and counted as such by those that they were for.
        assert!(counts.iter().all(|counts| counts.rx_icrc_encapsulated >= 1));
        for mut nic in nics {
            nic.leave();
        }
    }
}
