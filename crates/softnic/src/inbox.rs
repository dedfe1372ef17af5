//! What is on its way from the kernel: it arrives while the engine is free for others.
//!
//! ```text
//!   recvmsg ──► inbox ┐                                      without the engine's lock
//!                     └──► engine ──► what is to be sent     under it
//! ```
//!
//! A look at a socket is a call of the kernel, which takes as long as all else that is done for a
//! short packet, and longer for a train. Meanwhile other threads post, and poll for what is there
//! already. One thread looks for all: who finds another looking does not wait for it, unless
//! nobody else would do what he came for.
//!
//! Rings ([`crate::same_host`]) are memory, and are looked at under the engine's lock.
//!
//! **Invariants:** the inbox is locked before the engine; who holds the engine only ever tries
//! ([`Shared::take`]). What a look finds is given to the engine before the inbox is given back, so
//! packets are handled in the order in which the sockets gave them out. Only who has the inbox takes
//! anything for lost, after it has looked.

use core::net::IpAddr;
use core::ops::Range;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use rdma::Time;

use crate::clock;
use crate::handover::{self, Entrance};
use crate::limits::{LOOKS_BEFORE_TIMEOUT, RECEIVE_BATCH};
use crate::links::Links;
use crate::progress::Core;
use crate::receive::{Reach, Sink, Turn};
use crate::shared::Shared;
use crate::socket::{Received, Socket};

/// Where packets arrive, and by what.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// As in [`Links`]: those of the addresses come first.
    sockets: Vec<Arc<Socket>>,
    /// How many are of addresses.
    addresses: usize,
    handover: Option<Entrance>,
    /// Which [`Links::layout`] that is.
    layout: Option<u32>,
    buffer: Box<[u8]>,
}

/// A look at some ports, one after the other. The last of all ports is what other NICs hand over.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) reach: Reach,
    port: usize,
    end: usize,
    /// How often something was found at this port.
    batch: usize,
    /// Whether the socket of an address was found empty, and it was not yet said.
    was_empty: bool,
    /// What had been sent to us before, as [`crate::flow`] has it.
    pub(crate) sent: Option<u64>,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) received: Received,
    pub(crate) destination: IpAddr,
    pub(crate) by: By,
    pub(crate) bytes: &'a [u8],
}

/// How something came here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// To an address, at this port.
    Address(usize),
    /// To a multicast group, at this port.
    Group(usize),
    /// By another NIC.
    Handover,
}

/// What is done by who finds another thread looking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Busy {
    /// It leaves it to that one.
    Leave,
    /// It waits until that one is back, and looks itself.
    Wait,
}

/// What became of a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// When it was over.
    pub(crate) now: Time,
    /// Packets that had arrived.
    pub(crate) packets: u64,
    /// Whether another thread was looking.
    pub(crate) is_served: bool,
}

impl Look {
    /// At `ports`, after so much had been `sent`.
    pub(crate) fn new(reach: Reach, ports: Range<usize>, sent: Option<u64>) -> Self {
        let Range { start: port, end } = ports;
        Self { reach, port, end, batch: 0, was_empty: false, sent }
    }

    /// Enough of this port.
    pub(crate) fn go_on(&mut self) {
        self.port += 1;
        self.batch = 0;
    }

    /// Whether the socket of an address has been found empty since this was last asked.
    pub(crate) fn takes_empty(&mut self) -> bool {
        core::mem::take(&mut self.was_empty)
    }

    fn is_over(&self) -> bool {
        self.port >= self.end
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let buffer = vec![0; handover::MESSAGE_MAX].into_boxed_slice();
        Self { sockets: Vec::new(), addresses: 0, handover: None, layout: None, buffer }
    }

    /// Has the sockets of `links` from now on.
    pub(crate) fn renew(&mut self, links: &Links) {
        if self.layout != Some(links.layout) {
            self.layout = Some(links.layout);
            self.sockets.clear();
            self.sockets.extend(links.all_sockets().cloned());
            self.addresses = links.sockets.len();
            self.handover = Some(links.handover.entrance());
        }
    }

    /// Lets go of the sockets, which are to be closed.
    pub(crate) fn forget(&mut self) {
        self.sockets.clear();
        self.handover = None;
        self.layout = None;
    }

    /// What comes next, if anything does.
    pub(crate) fn next(&mut self, look: &mut Look) -> Option<Found<'_>> {
        let Self { sockets, addresses, handover, buffer, .. } = self;
        while !look.is_over() {
            let port = look.port;
            let is_address = port < *addresses;
            let mut found = None;
            if look.batch < RECEIVE_BATCH {
                found = match (sockets.get(port), &*handover) {
                    (Some(socket), _) => socket.receive(buffer).map(|received| {
                        let by = if is_address { By::Address(port) } else { By::Group(port) };
                        (received, socket.address(), by, 0..received.length)
                    }),
                    (None, Some(entrance)) => {
                        entrance.receive(buffer).map(|(received, destination, place)| {
                            (received, destination, By::Handover, place)
                        })
                    }
                    (None, None) => None,
                };
                look.was_empty |= is_address && found.is_none();
            }
            if let Some((received, destination, by, place)) = found {
                look.batch += 1;
                return Some(Found { received, destination, by, bytes: &buffer[place] });
            }
            look.go_on();
        }
        None
    }
}

impl Shared {
    /// The inbox, however long another thread looks. The engine's lock must not be held.
    pub(crate) fn lock_inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has arrived and runs the timers. What the engine then has ready is not sent yet.
    ///
    /// The lock is not held while the kernel is asked.
    ///
    /// A timer may wait for what has arrived and was not looked for: whoever calls may have been
    /// late, or take one packet at a time. So nothing is given up before the sockets are empty, or
    /// as much has been taken as they hold.
    #[inline]
    pub(crate) fn take<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        reach: Reach,
        busy: Busy,
    ) -> (MutexGuard<'a, Core>, Taken) {
        core.posts_unlooked = 0;
        let Some(links) = &mut core.links else {
            return (core, Taken { now: clock::now(), packets: 0, is_served: false });
        };
        let turn = links.turn(reach);
        if turn == Turn::Rings && !links.has_ring_packets() {
            let now = clock::now();
            if !core.is_time(now) {
                core.end_look(0);
                return (core, Taken { now, packets: 0, is_served: false });
            }
        }
        self.take_what_there_is(core, turn, reach, busy)
    }

    #[inline(never)]
    fn take_what_there_is<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        mut turn: Turn,
        mut reach: Reach,
        busy: Busy,
    ) -> (MutexGuard<'a, Core>, Taken) {
        let mut inbox = None;
        let mut taken = Taken { now: Time::ZERO, packets: 0, is_served: false };
        for looks in 0.. {
            let (mut packets, mut now) = (0, None);
            if turn != Turn::Rings {
                if inbox.is_none() {
                    (core, inbox) = self.enter(core, busy);
                }
                match &mut inbox {
                    Some(inbox) => (core, packets, now) = self.look(core, inbox, (reach, turn)),
                    None => taken.is_served = true,
                }
            }
            taken.now = now.unwrap_or_else(clock::now);
            packets += core.take_from_rings(taken.now);
            core.end_look(packets);
            taken.packets += packets;
            let is_all = reach == Reach::All && packets == 0;
            if taken.is_served
                || is_all
                || looks == LOOKS_BEFORE_TIMEOUT
                || !core.is_loss_due(taken.now)
            {
                break;
            }
            (reach, turn) = (Reach::All, Turn::Round);
        }
        if !(taken.is_served && core.is_loss_due(taken.now)) {
            core.run_timers(taken.now);
        }
        (core, taken)
    }

    /// The inbox, if nobody has it or it is waited for.
    fn enter<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        busy: Busy,
    ) -> (MutexGuard<'a, Core>, Option<MutexGuard<'a, Inbox>>) {
        match self.inbox.try_lock() {
            Ok(inbox) => (core, Some(inbox)),
            Err(TryLockError::Poisoned(poisoned)) => (core, Some(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) if busy == Busy::Leave => (core, None),
            Err(TryLockError::WouldBlock) => {
                drop(core);
                let inbox = self.lock_inbox();
                (self.lock(), Some(inbox))
            }
        }
    }

    /// Looks, and gives what it finds to the engine. Returns how many packets that were, and when the
    /// lock was taken again.
    fn look<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        inbox: &mut Inbox,
        (reach, turn): (Reach, Turn),
    ) -> (MutexGuard<'a, Core>, u64, Option<Time>) {
        let (mut packets, mut last) = (0, None);
        let Some(mut look) = core.begin_look(inbox, reach, turn) else { return (core, 0, None) };
        while !look.is_over() {
            drop(core);
            let found = inbox.next(&mut look);
            core = self.lock();
            let now = clock::now();
            packets += core.arrived(now, found.as_ref(), &mut look);
            last = Some(now);
        }
        (core, packets, last)
    }
}

impl Core {
    /// Begins a look. `None` if there is nothing (any more) to look at.
    fn begin_look(&mut self, inbox: &mut Inbox, reach: Reach, turn: Turn) -> Option<Look> {
        let Self { counts, links, .. } = self;
        links.as_mut().map(|links| links.begin_look(inbox, (reach, turn), counts))
    }

    /// Takes what a look has found, or that it has found nothing (more). Returns how many packets
    /// that were.
    fn arrived(&mut self, now: Time, found: Option<&Found<'_>>, look: &mut Look) -> u64 {
        let Some(links) = &mut self.links else { return 0 };
        links.note_empty(look);
        let Some(found) = found else { return 0 };
        let before = self.counts.rx_packets;
        self.sink(now, |links, sink| links.arrived(found, look, sink));
        self.counts.rx_packets - before
    }

    fn take_from_rings(&mut self, now: Time) -> u64 {
        if !self.links.as_ref().is_some_and(Links::has_rings) {
            return 0;
        }
        let before = self.counts.rx_packets;
        self.sink(now, Links::receive_from_rings);
        self.counts.rx_packets - before
    }

    /// A look has found `packets`.
    fn end_look(&mut self, packets: u64) {
        if let Some(links) = &mut self.links {
            links.finds = if packets > 0 { links.finds.saturating_add(1) } else { 0 };
        }
    }

    fn sink(&mut self, now: Time, f: impl FnOnce(&mut Links, &mut Sink<'_>)) {
        let Self { endpoint, manager, memory, counts, links, .. } = self;
        if let Some(links) = links {
            f(links, &mut Sink { now, endpoint, memory, manager, counts });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nic;
    use crate::testing::open;
    use core::net::Ipv4Addr;
    use core::time::Duration;
    use rdma::{Access, Completion, Gid, Operation, QpType, Qpn, SendFlags, WorkRequest};
    use transport::{AddressVector, BringUp, CqId, QpCapacity, QpSpec, RegionSpec, Stats};

    /// Has a queue pair send to somebody who is not there.
    fn write_to_nobody(nic: &Nic) -> CqId {
        let own = *nic.device().gids.iter().rfind(|entry| entry.usable).unwrap();
        let nobody = AddressVector {
            gid: Ipv4Addr::new(127, 0, 136, 9).into(),
            source_gid: own.gid,
            source_gid_index: own.index,
            hop_limit: 64,
            ..AddressVector::default()
        };
        let peer = Qpn::new(1 << crate::limits::SLOT_SHIFT | 5);
        let with = BringUp {
            // Four milliseconds (IBTA vol 1, 9.7.6.1.3).
            timeout: 10,
            ..BringUp::new(nobody, nic.device().active_mtu, peer)
        };
        nic.with(|endpoint, _, now| {
            let pd = endpoint.alloc_pd().unwrap();
            let cq = endpoint.create_cq(4).unwrap();
            let capacity =
                QpCapacity { send_wr: 1, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: 0 };
            let (send_cq, recv_cq) = (cq, cq);
            let (kind, srq, signal_all) = (QpType::Rc, None, true);
            let spec = QpSpec { kind, pd, send_cq, recv_cq, srq, capacity, signal_all };
            let qpn = endpoint.create_qp(spec).unwrap();
            endpoint.bring_up(qpn, &with).unwrap();
            let region = RegionSpec { address: 0, length: 8, iova: 0, access: Access::NONE };
            let r_key = endpoint.register(pd, region).unwrap();
            let operation = Operation::Write { remote_address: 0, r_key, immediate: None };
            let (flags, sges) = (SendFlags::SIGNALED, &[]);
            let request = WorkRequest { id: 1, operation, flags, sges, inline: None };
            endpoint.post_send(now, qpn, &request).unwrap();
            cq
        })
    }

    fn stats(nic: &Nic) -> Stats {
        *nic.shared().lock().endpoint.stats()
    }

    #[test]
    fn nothing_is_taken_for_lost_while_another_thread_looks() {
        let nic = open("127.0.136.1");
        let cq = write_to_nobody(&nic);
        let poll = || assert_eq!(nic.poll_cq(cq, &mut [Completion::NOTHING]), 0);
        let another = nic.shared().lock_inbox();
        std::thread::sleep(Duration::from_millis(20));
        // It does not wait either.
        poll();
        assert_eq!(stats(&nic).local_ack_timeout_err, 0);
        drop(another);
        poll();
        assert_eq!(stats(&nic).local_ack_timeout_err, 1);
    }

    #[test]
    fn who_must_look_waits_until_another_thread_has() {
        let nic = open("127.0.136.2");
        write_to_nobody(&nic);
        let another = nic.shared().lock_inbox();
        std::thread::scope(|scope| {
            let poll = scope.spawn(|| nic.poll());
            std::thread::sleep(Duration::from_millis(20));
            // The engine is free meanwhile.
            assert_eq!(stats(&nic).local_ack_timeout_err, 0);
            drop(another);
            poll.join().unwrap();
        });
        assert_eq!(stats(&nic).local_ack_timeout_err, 1);
    }

    #[test]
    fn the_socket_of_a_group_that_was_left_is_closed() {
        let nic = open("127.0.136.3");
        let group: Gid = Ipv4Addr::new(239, 0, 136, 3).into();
        nic.join_group(group).unwrap();
        nic.poll();
        let socket = {
            let core = nic.shared().lock();
            let [joined] = &core.links.as_ref().unwrap().groups[..] else { panic!("one group") };
            assert_eq!(Arc::strong_count(&joined.socket), 2, "the inbox has it as well");
            Arc::downgrade(&joined.socket)
        };
        nic.leave_group(group);
        assert!(socket.upgrade().is_none());
        nic.poll();
    }
}
