//! What the applications do: they post, break and mend, and free memory under their own requests.

use std::format;
use std::vec;
use std::vec::Vec;

use rdma::completion::Attached;
use rdma::{
    Access, CompletionOpcode, Key, Operation, QpType, RecvRequest, SendFlags, Sge, Span, UdAddress,
    WorkRequest,
};

use super::buffer::Remote;
use super::check::{Check, endpoint_result};
use super::ground::{Atomic, Ground, Target, pattern};
use super::link::{Message, Sent};
use super::tally::Seen;
use super::verbs::{Row, SEND_MAX, Verb, WORD};
use super::world::{Happening, Q_KEY, World, everything, place};
use crate::{Recovery, RegionSpec};

/// Bytes before the message in the receive of a datagram.
const GRH: u64 = 40;

impl World<'_> {
    /// Posts a receive at an end, or to the shared queue that it takes from.
    pub(super) fn post_receive(&mut self, index: usize, side: usize) -> Check {
        let link = &self.links[index];
        let (plan, node, qpn) = (link.plan, link.ends[side].node, link.ends[side].qpn);
        if link.ends[side].reset && !plan.shared[side] {
            return Ok(());
        }
        let header = if plan.kind == QpType::Ud { GRH } else { 0 };
        // Another user of the shared queue may need room for the header.
        let room = SEND_MAX + if plan.shared[side] { GRH } else { header };
        let pieces = self.random.between(1, 4);
        let Some(buffer) = self.buffer(node, room, pieces, Access::LOCAL_WRITE) else {
            return Ok(());
        };
        self.count += 1;
        let id = self.count;
        let pieces = buffer.pieces.clone();
        let target = Target {
            pieces: buffer.pieces,
            seed: None,
            written: 0,
            in_order: true,
            // A UC queue pair may take it from the shared queue.
            restarts: plan.kind != QpType::Rc || plan.shared[side] || self.restarts(),
            at_once: false,
        };
        self.nodes[node].ground.open(id, target);
        let request = RecvRequest { id, sges: &buffer.sges };
        let endpoint = &mut self.nodes[node].endpoint;
        if plan.shared[side] {
            let srq = self.nodes[node].srq;
            self.tally.count(Seen::SharedReceive);
            endpoint_result(self.nodes[node].endpoint.post_srq_recv(srq, &request), "a receive")?;
        } else {
            self.links[index].ends[side].receives.push_back(id);
            endpoint_result(endpoint.post_recv(qpn, &request), "a receive")?;
            self.lose_some_time((index, side), id, node, buffer.own, &pieces);
        }
        self.log.note(self.now, &place(node), "posts", || format!("{id} receive at {qpn}"));
        Ok(())
    }

    /// Whether messages may begin anew after a loss.
    fn restarts(&self) -> bool {
        self.plan.configs[0].recovery == Recovery::GoBack0
    }

    /// Posts a send request of a random kind.
    pub(super) fn post(&mut self, index: usize, side: usize) -> Check {
        let link = &self.links[index];
        let (plan, end) = (link.plan, &link.ends[side]);
        let dead = end.failed || end.fatal || end.sqe;
        let (node, qpn) = (end.node, end.qpn);
        if end.reset {
            return Ok(());
        }
        if let Some(until) = self.nodes[node].stopped {
            self.schedule(until.since(self.now), Happening::Post { link: index, side });
            return Ok(());
        }
        let (peer, peer_qpn) = (link.ends[1 - side].node, link.ends[1 - side].qpn);
        if self.tend_windows(index, side)? {
            return Ok(());
        }
        let verb = self.verb(index, side);
        let row = verb.row(plan.kind);
        let is_atomic = verb.is_atomic();
        let is_answered = is_atomic || verb == Verb::Read;
        let is_send = matches!(verb, Verb::Send | Verb::SendInvalidate(..));
        let word = verb == Verb::AtomicWrite;
        let length = if row.longest == WORD { WORD } else { self.length(&plan, row.longest) };
        self.count += 1;
        let id = self.count;
        let random = &mut self.random;
        let has_immediate = row.with_immediate.is_some() && random.chance(400);
        let immediate = has_immediate.then(|| (id as u32).to_be_bytes());
        let inline = length <= 256 && !is_answered && !word && random.chance(300);
        let signalled = random.chance(600);
        let (fenced, solicited) = (random.chance(200), random.chance(200));
        // In calm weather no READ may lose its window.
        let fenced = fenced || !self.stormy && matches!(verb, Verb::SendInvalidate(..));
        let invalidates_foreign = matches!(verb, Verb::SendInvalidate(None, _));
        let trespasses = self.stormy
            && plan.kind != QpType::Ud
            && !is_send
            && length > 0
            && random.chance(self.plan.faults.trespasses)
            || invalidates_foreign;

        // The local side.
        let pieces = self.random.between(1, 4);
        let access = if is_answered { Access::LOCAL_WRITE } else { Access::NONE };
        let Some(mut local) = self.buffer(node, length, pieces, access) else { return Ok(()) };
        let mut sent = Sent {
            id,
            visible: signalled || plan.signal_all,
            length: length as u32,
            trespasses,
            ..Sent::default()
        };
        let mut seed = id;
        let mut length = length;
        let before = self.links[index].ends[side].sends.back();
        let source = before.filter(|b| b.reads && b.atomic.is_none() && !b.local_gone);
        if verb == Verb::Write
            && fenced
            && !trespasses
            && let Some(read) = source
        {
            // It sends what the READ before it brings, which works only with the fence.
            let target = self.nodes[node].ground.target(read.id);
            if let Some(target) = target.filter(|target| target.seed.is_some()) {
                let l_key = self.nodes[node].key;
                let sge = |&(address, length): &(u64, u32)| Sge { address, length, l_key };
                local.sges = target.pieces.iter().map(sge).collect();
                local.own = None;
                local.pieces.clear();
                sent.borrows = Some(read.id);
                seed = target.seed.unwrap_or(id);
                length = u64::from(read.length);
                sent.length = read.length;
            }
        } else if !is_answered {
            let mut offset = 0;
            for &(address, piece) in &local.pieces {
                let bytes = pattern(id, offset, piece as usize);
                self.nodes[node].ground.fill(address, bytes);
                offset += u64::from(piece);
            }
            sent.sources.clone_from(&local.pieces);
        }
        let reused = seed != id;
        sent.unfit = self.is_unfit(index, side, verb, length);
        let arrives = !trespasses && !dead && !sent.unfit;
        self.tally.count(row.with_immediate.filter(|_| has_immediate).unwrap_or(row.alone));
        let seen = [
            (inline && !reused, Seen::Inline),
            (fenced, Seen::Fenced),
            (reused, Seen::FenceNeeded),
            (!sent.visible, Seen::Unsignalled),
            (solicited, Seen::Solicited),
        ];
        for (_, seen) in seen.into_iter().filter(|(is_so, _)| *is_so) {
            self.tally.count(seen);
        }
        let inline_bytes: Option<Vec<u8>> =
            (inline && !reused).then(|| pattern(id, 0, length as usize).collect());

        let Some(remote) = self.remote((index, side), row, length, trespasses) else {
            return Ok(());
        };
        let (mut remote_address, mut r_key, real_address) =
            (remote.address, remote.r_key, remote.real);
        sent.through = remote.through;
        let mut at_address = real_address;
        let in_order = plan.kind == QpType::Rc;
        let restarts = self.restarts();
        let operation = match verb {
            Verb::Send => {
                let address = UdAddress {
                    gid: self.nodes[peer].gid,
                    source_gid: self.nodes[node].gid,
                    traffic_class: 0,
                    hop_limit: 0,
                    flow_label: 0,
                    qpn: peer_qpn,
                    q_key: Q_KEY,
                };
                let address = (plan.kind == QpType::Ud).then_some(address);
                sent.opcode = Some(CompletionOpcode::Send);
                sent.is_message = true;
                Operation::Send { immediate, address }
            }
            Verb::SendInvalidate(window, r_key) => {
                sent.opcode = Some(CompletionOpcode::Send);
                sent.is_message = true;
                sent.through = window;
                if let Some(window) = window {
                    self.end_by_send(window, fenced);
                }
                Operation::SendInvalidate { r_key }
            }
            Verb::AtomicWrite => {
                sent.opcode = Some(CompletionOpcode::AtomicWrite);
                sent.writes = true;
                if arrives {
                    let (pieces, seed) = (vec![(real_address, 8)], Some(id));
                    let target =
                        Target { pieces, seed, written: 0, in_order, restarts, at_once: true };
                    self.nodes[peer].ground.open(id, target);
                    self.links[index].ends[1 - side].open_writes.push(id);
                }
                let bytes: Vec<u8> = pattern(id, 0, 8).collect();
                let bytes = bytes.try_into().expect("8 bytes");
                Operation::AtomicWrite { remote_address, r_key, bytes }
            }
            Verb::Write => {
                sent.opcode = Some(CompletionOpcode::Write);
                sent.writes = true;
                sent.is_message = immediate.is_some();
                if arrives {
                    let pieces =
                        if length > 0 { vec![(real_address, length as u32)] } else { Vec::new() };
                    let target = Target {
                        pieces,
                        seed: Some(seed),
                        written: 0,
                        in_order,
                        restarts,
                        at_once: false,
                    };
                    self.nodes[peer].ground.open(id, target);
                    self.links[index].ends[1 - side].open_writes.push(id);
                }
                Operation::Write { remote_address, r_key, immediate }
            }
            Verb::Read => {
                sent.opcode = Some(CompletionOpcode::Read);
                sent.reads = true;
                if remote.is_ours {
                    let bytes = pattern(id, 0, length as usize);
                    self.nodes[peer].ground.fill(real_address, bytes);
                }
                let pieces = local.pieces.clone();
                let target = Target {
                    pieces,
                    seed: Some(id),
                    written: 0,
                    in_order,
                    restarts,
                    at_once: false,
                };
                self.nodes[node].ground.open(id, target);
                Operation::Read { remote_address, r_key }
            }
            Verb::FetchAdd | Verb::CompareSwap => {
                sent.reads = true;
                let pieces = local.pieces.clone();
                let target =
                    Target { pieces, seed: None, written: 0, in_order, restarts, at_once: false };
                self.nodes[node].ground.open(id, target);
                // Most are on a word that others use as well.
                let shared = Ground::WORD;
                if !trespasses && self.random.chance(700) {
                    sent.through = None;
                    (remote_address, r_key) = (shared, self.nodes[peer].key);
                }
                let at = if remote_address == shared { shared } else { real_address };
                at_address = at;
                let operand = self.random.next();
                let word = self.nodes[peer].ground.view(at, 8);
                let word = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
                let is_swap = verb == Verb::CompareSwap;
                let compare = if self.random.chance(700) { word } else { !word };
                let atomics = &mut self.nodes[peer].ground.atomics;
                let compare_with = is_swap.then_some(compare);
                atomics.push(Atomic {
                    address: at,
                    compare: compare_with,
                    operand,
                    original: None,
                });
                sent.atomic = Some(atomics.len() - 1);
                if is_swap {
                    sent.opcode = Some(CompletionOpcode::CompareSwap);
                    Operation::CompareSwap { remote_address, r_key, compare, swap: operand }
                } else {
                    sent.opcode = Some(CompletionOpcode::FetchAdd);
                    Operation::FetchAdd { remote_address, r_key, add: operand }
                }
            }
        };
        let mut flags = SendFlags::NONE;
        let wanted = [
            (signalled, SendFlags::SIGNALED),
            (fenced, SendFlags::FENCE),
            (solicited, SendFlags::SOLICITED),
        ];
        for (_, flag) in wanted.into_iter().filter(|(wanted, _)| *wanted) {
            flags = flags | flag;
        }

        // A message needs a receive, which may come late.
        if sent.is_message && !dead {
            let opcode = match verb {
                Verb::Write => CompletionOpcode::RecvWriteImmediate,
                _ => CompletionOpcode::Recv,
            };
            let attached = match verb {
                Verb::SendInvalidate(_, key) => Attached::Invalidated(key),
                _ => immediate.map_or(Attached::None, Attached::Immediate),
            };
            let length = sent.length;
            let message = Message { id, opcode, length, attached, solicited };
            // A message that cannot arrive is not expected.
            if arrives {
                self.links[index].ends[1 - side].inbound.push_back(message);
            }
            if self.stormy && self.random.chance(self.plan.faults.late_receives) {
                self.tally.count(Seen::LateReceive);
                let after = Span::from_ns(self.random.below(2_000_000));
                let psn = self.links[index].ends[1 - side].psn;
                self.schedule(after, Happening::Receive { link: index, side: 1 - side, psn });
            } else {
                self.post_receive(index, 1 - side)?;
            }
        }
        self.log.note(self.now, &place(node), "posts", || {
            format!("{id} {verb:?} of {length} at {qpn}, {flags:?} {immediate:?}")
        });
        let sges: &[Sge] = if inline_bytes.is_some() || word { &[] } else { &local.sges };
        let request = WorkRequest { id, operation, flags, sges, inline: inline_bytes.as_deref() };
        self.links[index].ends[side].sends.push_back(sent);
        let now = self.time_of_call(node);
        let posted = self.nodes[node].endpoint.post_send(now, qpn, &request);
        endpoint_result(posted, "a send")?;
        if !reused {
            self.lose_some_time((index, side), id, node, local.own, &local.pieces);
        }
        if !is_send {
            // The shared word keeps its memory.
            let is_own = real_address == at_address && remote.is_ours && length > 0;
            let piece = [(real_address, length.max(1) as u32)];
            let piece = if is_own { &piece[..] } else { &[] };
            self.lose_some_time((index, side), id, peer, remote.own, piece);
        }
        Ok(())
    }

    /// Whether the packets of a message are of another size than the peer's queue pair takes them
    /// for, whose MTU differs. The spec has the responder refuse them as invalid (IBTA vol 1,
    /// 9.7.4.1.6), and the requester fail what is answered so. A short message has one packet that
    /// fits both, and a READ that is cut into packets is as many short ones.
    fn is_unfit(&mut self, index: usize, side: usize, verb: Verb, length: u64) -> bool {
        let link = &self.links[index];
        let [own, peer] = [side, 1 - side].map(|side| u64::from(link.mtus[side].bytes()));
        let config = self.nodes[link.ends[side].node].endpoint.config();
        let agreed = config.recovery.bounds(config.out_of_order());
        let offered = config.between_hosts.and_then(|between| between.out_of_order());
        let kept = agreed.or(offered).filter(|_| link.plan.kind == QpType::Rc);
        let is_cut = verb == Verb::Read
            && own < peer
            && config.read_packets(link.mtus[side].bytes(), kept) == 1;
        let connected = link.plan.kind != QpType::Ud;
        let unfit = connected && own != peer && length > own.min(peer) && !is_cut;
        if unfit {
            self.tally.count(Seen::Unfit);
        }
        unfit
    }

    /// What to post: any verb of the service that makes sense now.
    fn verb(&mut self, index: usize, side: usize) -> Verb {
        let plan = self.links[index].plan;
        if plan.kind != QpType::Rc {
            return Verb::draw(plan.kind, &mut self.random);
        }
        let trespasses = self.stormy && self.random.chance(self.plan.faults.trespasses / 4);
        if plan.windows > 0 && trespasses {
            let peer = self.links[index].ends[1 - side].node;
            let key = match self.random.below(2) {
                0 => Some(self.nodes[peer].key),
                _ => self.stale_key(peer, false),
            };
            if let Some(key) = key {
                self.tally.count(Seen::InvalidateForeign);
                return Verb::SendInvalidate(None, key);
            }
        }
        if self.random.chance(80)
            && let Some((window, key)) = self.invalidated(index, side)
        {
            return Verb::SendInvalidate(Some(window), key);
        }
        Verb::draw(plan.kind, &mut self.random)
    }

    /// Memory of the peer for a request of `length` bytes; for a trespasser, with an address, a key
    /// or rights that do not go together.
    fn remote(
        &mut self,
        at: (usize, usize),
        row: &Row,
        length: u64,
        trespasses: bool,
    ) -> Option<Remote> {
        let (index, side) = at;
        let peer = self.links[index].ends[1 - side].node;
        let is_send = row.rights == Access::NONE;
        if !is_send
            && self.random.chance(500)
            && let Some(remote) = self.through_window(at, length, row.rights, trespasses)
        {
            return Some(remote);
        }
        let rights =
            if trespasses && self.random.chance(300) { Access::LOCAL_WRITE } else { everything() };
        let buffer = self.buffer(peer, length.max(8), 1, rights)?;
        let real = buffer.pieces[0].0;
        let (mut address, mut r_key) = (buffer.sges[0].address, buffer.sges[0].l_key);
        let denied = buffer.own.is_some() && rights != everything();
        if trespasses && !denied && !is_send {
            (address, r_key) = self.trespass(peer, address, real, length);
        }
        Some(Remote { address, r_key, real, own: buffer.own, is_ours: true, through: None })
    }

    /// An address and a key that do not go together, for what lies at `real`.
    fn trespass(&mut self, peer: usize, address: u64, real: u64, length: u64) -> (u64, Key) {
        if self.random.chance(300)
            && let Some(key) = self.stale_key(peer, true)
        {
            self.tally.count(Seen::WindowStale);
            return (real, key);
        }
        let node = &mut self.nodes[peer];
        let mut spec = RegionSpec { address: real, length, iova: real, access: everything() };
        let how = self.random.below(4);
        self.tally.count(match how {
            0 => Seen::TrespassDomain,
            1 => Seen::TrespassBounds,
            2 => Seen::TrespassRights,
            _ => Seen::TrespassKey,
        });
        let pd = match how {
            0 => node.other_pd,
            1 => {
                // One byte too short. (An atomic has its own bounds.)
                spec.length -= 1;
                node.pd
            }
            2 => {
                spec.access = Access::LOCAL_WRITE;
                node.pd
            }
            _ => return (address, Key(node.key.0 ^ 0x55)),
        };
        let key = node.endpoint.register(pd, spec).expect("there is room for regions");
        node.keys.push(key);
        (real, key)
    }
}
