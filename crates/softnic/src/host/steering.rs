//! Which socket of an address gets a packet: the program that the kernel runs, and the model of the
//! kernel's group that it is made from.
//!
//! Sockets that share an address and port are an array in the kernel (a reuseport group), and a
//! classic BPF program picks an index. It runs on the UDP payload, so offset 0 is the BTH:
//!
//! ```text
//!   byte 0 = 0xff?  ── yes ─► the index at bytes 2..4          (a probe, see below)
//!        │ no
//!   bytes 5..8 = destination QPN ─► slot = QPN >> 14 ─► index of that slot, else none
//!                                        │ 0, which is QP1
//!   REQ or SIDR_REQ ─► index of a member that answers for QP1
//!   any other message ─► slot = number of the conversation >> 22 ─► as above
//! ```
//!
//! A new socket is appended to the array. A closed one leaves a hole that the last one fills
//! ([`Group::leave`]): the order depends on who left first, which nobody sees when two processes
//! are killed at once. The truth can always be had from the kernel: a *probe* is a datagram that
//! names an index, so whoever receives it stands there ([`Group::stands_at`]). The BTH opcode 0xff
//! is of the range that IBTA leaves to manufacturers; a probe never leaves the host.

use crate::limits::{COMM_ID_SHIFT, SLOT_SHIFT, SLOTS};

/// The first byte of a probe.
pub(crate) const PROBE: u8 = 0xff;
/// Bytes of a probe.
pub(crate) const PROBE_LEN: usize = 16;
const PROBE_MAGIC: [u8; 8] = *b"ferroce?";

/// Where a management datagram, behind BTH and DETH, says what it is, and which conversation of the
/// receiver it is about (`wire::cm`).
const MAD_ATTRIBUTE: u32 = 20 + 16;
const MAD_REMOTE_ID: u32 = 20 + 28;
const MAD_REQUEST_ID: u32 = 20 + 24;
const ATTRIBUTE_REQ: u32 = 0x10;
const ATTRIBUTE_SIDR_REQ: u32 = 0x17;
const ATTRIBUTE_SIDR_REP: u32 = 0x18;

/// What the program answers for a slot that nobody has. It is no index, so the kernel then picks
/// any socket of the group, which counts the packet.
const NONE: u32 = u32::MAX;

/// The slot of a QPN: its upper ten bits.
pub(crate) const fn slot_of(qpn: u32) -> u16 {
    ((qpn & 0x00ff_ffff) >> SLOT_SHIFT) as u16
}

/// Whether a slot can be given to a NIC: the first holds the management QPs, the last the QPN of
/// multicast packets.
pub(crate) const fn is_ownable(slot: u16) -> bool {
    slot > 0 && slot < SLOTS - 1
}

/// A socket of a group, by its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) slot: u16,
    /// Tells the owner from earlier and later ones of the slot.
    pub(crate) claim: u32,
}

/// The sockets of an address in the kernel's order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    /// Changes whenever a socket enters or leaves, so that an old probe is not believed.
    pub(crate) generation: u32,
    pub(crate) members: Vec<Member>,
    /// The slots of those who answer for QP1, which is everybody's: the first of them gets what is
    /// sent there. The others of the group may not look at their sockets for long.
    pub(crate) managers: Vec<u16>,
}

impl Group {
    pub(crate) fn join(&mut self, member: Member) {
        self.generation = self.generation.wrapping_add(1);
        self.members.push(member);
    }

    /// Takes a member out as the kernel does. Returns whether it was one.
    pub(crate) fn leave(&mut self, member: Member) -> bool {
        let Some(at) = self.members.iter().position(|other| *other == member) else {
            return false;
        };
        self.generation = self.generation.wrapping_add(1);
        self.members.swap_remove(at);
        self.managers.retain(|slot| *slot != member.slot);
        true
    }

    /// Adds a member to those who answer for QP1. Returns whether that is news.
    pub(crate) fn manage(&mut self, member: Member) -> bool {
        let is_new = self.members.contains(&member) && !self.managers.contains(&member.slot);
        if is_new {
            self.managers.push(member.slot);
        }
        is_new
    }

    /// Takes out the members that are not alive. Returns how many; the order of the others is a
    /// guess if they were several.
    pub(crate) fn bury(&mut self, is_alive: impl Fn(Member) -> bool) -> usize {
        let members = self.members.iter().copied();
        let dead: Vec<Member> = members.filter(|member| !is_alive(*member)).collect();
        dead.iter().filter(|member| self.leave(**member)).count()
    }

    /// Learns that `member` stands at `index`. Whoever was thought to stand there takes the place
    /// where `member` was thought to be. Returns whether that is news.
    pub(crate) fn stands_at(&mut self, member: Member, index: usize) -> bool {
        let at = self.members.iter().position(|other| *other == member);
        match at {
            Some(at) if index < self.members.len() && at != index => {
                self.members.swap(at, index);
                true
            }
            _ => false,
        }
    }

    /// The kernel's program for this order.
    pub(crate) fn program(&self) -> Vec<libc::sock_filter> {
        let manager = self.managers.first();
        let manager = self.members.iter().position(|member| Some(&member.slot) == manager);
        let mut program = vec![
            statement(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0),
            jump(PROBE.into(), 0, 2),
            statement(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 2),
            statement(libc::BPF_RET | libc::BPF_A, 0),
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 4),
            statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0x00ff_ffff),
            statement(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, SLOT_SHIFT),
            // Not QP1: on to the slots.
            jump(0, 0, 10),
            statement(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, MAD_ATTRIBUTE),
            jump(ATTRIBUTE_REQ, 7, 0),
            jump(ATTRIBUTE_SIDR_REQ, 6, 0),
            jump(ATTRIBUTE_SIDR_REP, 0, 2),
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, MAD_REQUEST_ID),
            statement(libc::BPF_JMP | libc::BPF_JA, 1),
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, MAD_REMOTE_ID),
            statement(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, COMM_ID_SHIFT),
            statement(libc::BPF_JMP | libc::BPF_JA, 1),
            statement(libc::BPF_RET | libc::BPF_K, manager.map_or(NONE, |index| index as u32)),
        ];
        for (index, member) in (0..).zip(&self.members) {
            program.push(jump(member.slot.into(), 0, 1));
            program.push(statement(libc::BPF_RET | libc::BPF_K, index));
        }
        program.push(statement(libc::BPF_RET | libc::BPF_K, NONE));
        program
    }
}

/// Whose a packet is, among the NICs of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Of the NIC with this slot.
    Slot(u16),
    /// Of one that answers for QP1.
    Manager,
}

impl Owner {
    /// What the kernel's program says, for who steers packets without the kernel. `None` if the packet, which begins
    /// with its BTH, ends too early.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let word = |at: u32| Some(u32::from_be_bytes(*packet.get(at as usize..)?.first_chunk()?));
        let slot = slot_of(word(4)?);
        if slot != 0 {
            return Some(Self::Slot(slot));
        }
        let conversation = match word(MAD_ATTRIBUTE)? >> 16 {
            ATTRIBUTE_REQ | ATTRIBUTE_SIDR_REQ => return Some(Self::Manager),
            ATTRIBUTE_SIDR_REP => word(MAD_REQUEST_ID)?,
            _ => word(MAD_REMOTE_ID)?,
        };
        Some(Self::Slot((conversation >> COMM_ID_SHIFT) as u16))
    }
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    // The codes of classic BPF have 16 bits.
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `jt` statements if the accumulator is `k`, else `jf`.
fn jump(k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// A question to whoever stands at `index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    pub(crate) index: u16,
    /// The generation of the group at the time of the question.
    pub(crate) generation: u32,
}

impl Probe {
    pub(crate) fn emit(self) -> [u8; PROBE_LEN] {
        let mut bytes = [0; PROBE_LEN];
        bytes[0] = PROBE;
        bytes[2..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.generation.to_be_bytes());
        bytes[8..].copy_from_slice(&PROBE_MAGIC);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PROBE_LEN] = bytes.try_into().ok()?;
        (bytes[0] == PROBE && bytes[8..] == PROBE_MAGIC).then(|| Self {
            index: u16::from_be_bytes([bytes[2], bytes[3]]),
            generation: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does with a program: the part of classic BPF that ours uses.
    fn run(program: &[libc::sock_filter], packet: &[u8]) -> u32 {
        let (mut accumulator, mut at) = (0_u32, 0);
        loop {
            let step = program[at];
            at += 1;
            let load = |length: usize| {
                let bytes = packet.get(step.k as usize..step.k as usize + length)?;
                Some(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
            };
            let loaded = match u32::from(step.code) {
                code if code == libc::BPF_LD | libc::BPF_B | libc::BPF_ABS => load(1),
                code if code == libc::BPF_LD | libc::BPF_H | libc::BPF_ABS => load(2),
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => load(4),
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                    Some(accumulator & step.k)
                }
                code if code == libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K => {
                    Some(accumulator >> step.k)
                }
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    at += usize::from(if accumulator == step.k { step.jt } else { step.jf });
                    continue;
                }
                code if code == libc::BPF_JMP | libc::BPF_JA => {
                    at += step.k as usize;
                    continue;
                }
                code if code == libc::BPF_RET | libc::BPF_A => return accumulator,
                code if code == libc::BPF_RET | libc::BPF_K => return step.k,
                code => panic!("code {code:#x}"),
            };
            // A load beyond the packet ends the program with 0.
            let Some(value) = loaded else { return 0 };
            accumulator = value;
        }
    }

    #[test]
    fn what_is_for_qp1_goes_to_one_that_answers_for_it() {
        let mut group = group(&[5, 1022, 7]);
        let index = |group: &Group| run(&group.program(), &message(ATTRIBUTE_REQ, 0));
        assert_eq!(index(&group), NONE);
        assert!(group.manage(member(7)) && group.manage(member(1022)));
        assert!(!group.manage(member(7)) && !group.manage(member(9)));
        assert_eq!(index(&group), 2);
        assert_eq!(run(&group.program(), &message(ATTRIBUTE_SIDR_REQ, 0)), 2);
        // The last takes the place of the first.
        group.leave(member(5));
        assert_eq!(index(&group), 0);
        group.leave(member(7));
        assert_eq!((index(&group), group.managers.as_slice()), (0, &[1022][..]));
        group.leave(member(1022));
        assert_eq!(index(&group), NONE);
    }

    #[test]
    fn an_answer_goes_to_whose_conversation_it_is() {
        let group = group(&[5, 1022, 7]);
        let index = |attribute, id: u32| run(&group.program(), &message(attribute, id));
        for attribute in [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, ATTRIBUTE_SIDR_REP] {
            assert_eq!(index(attribute, 7 << COMM_ID_SHIFT | 99), 2);
            assert_eq!(index(attribute, 1022 << COMM_ID_SHIFT), 1);
            assert_eq!(index(attribute, 8 << COMM_ID_SHIFT), NONE);
        }
        // A packet that ends early is whoever's.
        assert_eq!(run(&group.program(), &packet(1)), 0);
    }

    #[test]
    fn who_steers_without_the_kernel_steers_as_it_does() {
        let mut group = group(&[5, 1022, 7]);
        group.manage(member(1022));
        let program = group.program();
        let mut packets =
            vec![packet(5 << SLOT_SHIFT).to_vec(), packet(9 << SLOT_SHIFT | 3).to_vec()];
        for attribute in 0x10..0x19 {
            packets.extend(
                [5, 7, 9, 1022].map(|slot| message(attribute, slot << COMM_ID_SHIFT | 3).to_vec()),
            );
        }
        for packet in packets {
            let index = match Owner::of(&packet).unwrap() {
                Owner::Manager => 1,
                Owner::Slot(slot) => {
                    let at = group.members.iter().position(|member| member.slot == slot);
                    at.map_or(NONE, |at| at as u32)
                }
            };
            assert_eq!(index, run(&program, &packet), "{packet:x?}");
        }
        assert_eq!(Owner::of(&packet(1)), None);
        assert_eq!(Owner::of(&packet(1)[..7]), None);
    }

    /// A message about conversation `id` of the receiver.
    fn message(attribute: u32, id: u32) -> [u8; 60] {
        let mut bytes = [0xee; 60];
        bytes[..16].copy_from_slice(&packet(1));
        bytes[36..38].copy_from_slice(&(attribute as u16).to_be_bytes());
        let at = if attribute == ATTRIBUTE_SIDR_REP { 44 } else { 48 };
        bytes[at..at + 4].copy_from_slice(&id.to_be_bytes());
        bytes
    }

    fn packet(qpn: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0] = 0x04;
        // The reserved byte before the QPN carries congestion bits, which must not matter.
        bytes[4..8].copy_from_slice(&(qpn | 0xc000_0000).to_be_bytes());
        bytes
    }

    fn member(slot: u16) -> Member {
        Member { slot, claim: 5 }
    }

    fn group(slots: &[u16]) -> Group {
        Group {
            generation: 1,
            members: slots.iter().map(|slot| member(*slot)).collect(),
            managers: Vec::new(),
        }
    }

    fn slots(group: &Group) -> Vec<u16> {
        group.members.iter().map(|member| member.slot).collect()
    }

    #[test]
    fn the_program_finds_the_socket_of_a_slot() {
        let many: Vec<u16> = (1..1023).rev().collect();
        for members in [&[7, 3, 900][..], &many] {
            let program = group(members).program();
            assert!(program.len() <= 4096, "the kernel's limit");
            for (index, &slot) in members.iter().enumerate() {
                let first = u32::from(slot) << SLOT_SHIFT;
                for qpn in [first, first + 1, first + (1 << SLOT_SHIFT) - 1] {
                    assert_eq!(run(&program, &packet(qpn)), index as u32, "{qpn:#x}");
                }
            }
            assert_eq!(run(&program, &packet(0x00ff_ffff)), NONE);
            assert_eq!(run(&program, &[0x04, 0, 0]), 0);
        }
    }

    #[test]
    fn a_probe_goes_where_it_says() {
        let program = group(&[7, 3, 900]).program();
        let probe = Probe { index: 2, generation: 0x0102_0304 };
        assert_eq!(run(&program, &probe.emit()), 2);
        assert_eq!(Probe::parse(&probe.emit()), Some(probe));
        assert_eq!(Probe::parse(&packet(7)), None);
        assert_eq!(Probe::parse(&probe.emit()[..15]), None);
    }

    #[test]
    fn the_last_member_fills_the_hole() {
        let mut group = group(&[1, 2, 3, 4]);
        assert!(group.leave(member(2)));
        assert_eq!((group.generation, slots(&group)), (2, vec![1, 4, 3]));
        assert!(!group.leave(member(2)));
        assert!(!group.leave(Member { slot: 4, claim: 6 }), "another owner");
        assert_eq!(group.bury(|member| member.slot != 1), 1);
        assert_eq!(slots(&group), [3, 4]);
    }

    #[test]
    fn probes_repair_any_order() {
        let truth = [5_u16, 1, 4, 2, 3];
        let mut group = group(&[1, 2, 3, 4, 5]);
        for (index, &slot) in truth.iter().enumerate().rev() {
            group.stands_at(member(slot), index);
        }
        assert_eq!(slots(&group), truth);
        assert!(!group.stands_at(member(5), 0), "no news");
        assert!(!group.stands_at(member(5), 9), "no such place");
        assert!(!group.stands_at(member(77), 0), "no member");
    }

    #[test]
    fn the_management_and_multicast_slots_are_nobodys() {
        assert!(!is_ownable(slot_of(1)) && !is_ownable(slot_of(0x00ff_ffff)));
        assert!(is_ownable(1) && is_ownable(1022));
    }
}
