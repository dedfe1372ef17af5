//! How a thread looks for what has arrived, and runs the timers afterwards.
//!
//! A look at a socket is a call of the kernel, which takes as long as all else that is done for a
//! short packet, and longer for a batch. Meanwhile other threads post, and poll for what is there
//! already. So one thread looks for all. A thread that finds another one looking does not wait, unless
//! its work would be left undone.
//!
//! **Invariants:** the inbox is locked before the engine; a thread that holds the engine only tries. Only
//! a thread that has the inbox takes anything for lost, and only after it has looked.

use core::ops::Range;
use std::sync::{MutexGuard, PoisonError, TryLockError};

use rdma::Time;

use super::Shared;
use crate::attachment::Attachment;
use crate::attachment::receiver::Came;
use crate::attachment::site::Site;
use crate::clock;
use crate::progress::core::Core;
use crate::progress::policy::turns::{Reach, looks_again};
use crate::udp::inbox::Inbox;

/// What a thread does that finds another one looking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Busy {
    /// It leaves the work to that one.
    Leave,
    /// It waits until that one is back, and looks itself.
    Wait,
}

/// What became of a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// When it was over.
    pub(crate) now: Time,
    /// Packets that had arrived.
    pub(crate) packets: u64,
    /// Whether another thread was looking.
    pub(crate) is_served: bool,
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
    /// What a timer waits for may have arrived already, if the application called late or takes one packet at a
    /// time. So nothing counts as lost before the sockets are empty, or as much has been taken as they
    /// hold ([`looks_again`]).
    #[inline]
    pub(crate) fn look<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        reach: Reach,
        busy: Busy,
    ) -> (MutexGuard<'a, Core>, Looked) {
        core.policy.receives();
        if core.attachment.is_dead() {
            return (core, Looked { now: clock::now(), packets: 0, is_served: false });
        }
        let ports = core.turn(reach);
        if ports.is_none() {
            let now = clock::now();
            if !core.is_time(now) {
                core.policy.turns.ends(0);
                return (core, Looked { now, packets: 0, is_served: false });
            }
        }
        self.look_at(core, ports.unwrap_or_default(), reach, busy)
    }

    #[inline(never)]
    fn look_at<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        mut ports: Range<usize>,
        mut reach: Reach,
        busy: Busy,
    ) -> (MutexGuard<'a, Core>, Looked) {
        let mut inbox = None;
        let mut looked = Looked { now: Time::ZERO, packets: 0, is_served: false };
        for looks in 0.. {
            let (mut packets, mut now) = (0, None);
            if !ports.is_empty() {
                if inbox.is_none() {
                    (core, inbox) = self.enter(core, busy);
                }
                match &mut inbox {
                    Some(inbox) => {
                        (core, packets, now) = self.look_at_sockets(core, inbox, reach, ports);
                    }
                    None => looked.is_served = true,
                }
            }
            looked.now = now.unwrap_or_else(clock::now);
            let (Attachment { receiver, site, .. }, mut engine) = core.parts(looked.now);
            let before = engine.counts.rx_packets;
            receiver.receive_from_rings(site, &mut engine);
            packets += engine.counts.rx_packets - before;
            core.policy.turns.ends(packets);
            looked.packets += packets;
            let is_loss_due = || core.is_loss_due(looked.now);
            if looked.is_served || !looks_again(looks, reach, packets, is_loss_due) {
                break;
            }
            reach = Reach::All;
            ports = core.turn(reach).unwrap_or_default();
        }
        if !(looked.is_served && core.is_loss_due(looked.now)) {
            core.run_timers(looked.now);
        }
        (core, looked)
    }

    /// The inbox, at once or after another thread, unless that one is left to its work.
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
    fn look_at_sockets<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        inbox: &mut Inbox,
        reach: Reach,
        ports: Range<usize>,
    ) -> (MutexGuard<'a, Core>, u64, Option<Time>) {
        let (mut packets, mut last) = (0, None);
        let Core { policy, attachment, counts, .. } = &mut *core;
        policy.turns.begins(&ports);
        let mut look = attachment.site.begin_look(inbox, ports, counts);
        while !look.is_over() {
            drop(core);
            let found = inbox.next(&mut look);
            core = self.lock();
            let now = clock::now();
            last = Some(now);
            let empty = look.newly_empty();
            if !empty.is_empty() {
                let Core { policy, attachment, .. } = &mut *core;
                policy.turns.found_empty();
                let Site { membership, paths, .. } = &mut attachment.site;
                paths.found_empty(empty, membership.sockets.len());
            }
            let Some(found) = found else { continue };
            let (Attachment { receiver, site, .. }, mut engine) = core.parts(now);
            let before = engine.counts.rx_packets;
            let came = receiver.receive(&found, site, &mut engine);
            packets += engine.counts.rx_packets - before;
            if let Some(Came { port, bytes }) = came {
                let Core { policy, endpoint, .. } = &mut *core;
                let is_window_full = || endpoint.pressure(None).last.is_window_full;
                if policy.turns.found_at(port, bytes, reach, is_window_full) {
                    look.go_on();
                }
            }
        }
        if look.is_whole {
            let Site { membership, paths, .. } = &mut core.attachment.site;
            paths.after_all_sockets(look.emptied == membership.sockets.len());
        }
        (core, packets, last)
    }
}

#[cfg(test)]
mod tests {
    use crate::Nic;
    use crate::testing::open;
    use core::net::Ipv4Addr;
    use core::time::Duration;
    use rdma::{Access, Completion, Gid, Operation, QpType, Qpn, SendFlags, WorkRequest};
    use std::sync::Arc;
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
            let groups = &core.attachment.site.membership.groups;
            assert_eq!(groups.count(), 1);
            let socket = groups.sockets().next().unwrap();
            assert_eq!(Arc::strong_count(socket), 2, "the inbox has it as well");
            Arc::downgrade(socket)
        };
        nic.leave_group(group);
        assert!(socket.upgrade().is_none());
        nic.poll();
    }
}
