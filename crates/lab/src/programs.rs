//! The programs of a lab: their rings, and whose a packet is.

use std::collections::HashMap;

use fabric::{Network, Refused};
use softnic::lab::{Broken, Channel, Jack, Owner};
use wire::{ipv4, udp};

use crate::again::Again;
use crate::limits::{BATCH, GONE_MAX, INSIDE_BYTES_MAX, LAST_PACKETS, PROGRAMS_MAX};

/// A program that is attached to a host.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its place, and above it a number that no program in that place had before: packets outlive programs.
    pub(crate) owner: u32,
    pub(crate) channel: Channel,
    pub(crate) host: u32,
    pub(crate) slot: u16,
    pub(crate) process: u32,
    /// What it is called.
    pub(crate) command: String,
    jack: Jack,
    /// It answers for QP1 of its host.
    manages: bool,
    /// Bytes of it in the NIC of the host.
    inside: u64,
    pub(crate) counts: Counts,
    /// Something was put in its ring since its doorbell was rung.
    touched: bool,
}

/// Packets of a program, as the lab sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Sent again.
    pub(crate) again: u64,
    /// Refused: malformed, of another host, or for nobody.
    pub(crate) refused: u64,
}

impl Counts {
    fn add(&mut self, more: &Self) {
        let Self { sent, received, again, refused } = more;
        self.sent += sent;
        self.received += received;
        self.again += again;
        self.refused += refused;
    }
}

/// A program that is gone.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub(crate) host: u32,
    pub(crate) process: u32,
    pub(crate) command: String,
    pub(crate) counts: Counts,
}

/// What a process is called, as the kernel knows it.
fn command_of(process: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// All programs.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    all: Vec<Option<Program>>,
    /// How many there have been.
    attached: u32,
    /// By host and slot: the owner.
    slots: HashMap<(u32, u16), u32>,
    /// Packets that no program had.
    pub(crate) unclaimed: u64,
    /// By host: packets of all programs that there have been.
    totals: HashMap<u32, Counts>,
    again: Again,
    /// Who has come and gone since that was last asked.
    moves: Vec<Move>,
    /// Those that are gone, as many as are remembered, and how many are not.
    pub(crate) gone: Vec<Gone>,
    pub(crate) forgotten: u64,
    buffer: Vec<u8>,
}

/// A program has come, or is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub(crate) host: u32,
    pub(crate) process: u32,
    pub(crate) kind: MoveKind,
}

/// See [`Move`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MoveKind {
    Came,
    Went,
    /// It has scribbled over its ring.
    Expelled,
}

/// Bits of an owner that are its place.
const PLACE_BITS: u32 = 10;
const _: () = assert!(PROGRAMS_MAX <= 1 << PLACE_BITS);

/// Why a program is not attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    Taken,
    TooMany,
}

impl Programs {
    /// Whether there is a place for a program with this slot.
    pub(crate) fn has_place(&self, host: u32, slot: u16) -> Result<(), Unfit> {
        if self.slots.contains_key(&(host, slot)) {
            return Err(Unfit::Taken);
        }
        if self.slots.len() >= PROGRAMS_MAX { Err(Unfit::TooMany) } else { Ok(()) }
    }

    /// Attaches a program, for which there is a place.
    pub(crate) fn add(
        &mut self,
        channel: Channel,
        (host, slot, process): (u32, u16, u32),
        jack: Jack,
    ) {
        let free = self.all.iter().position(Option::is_none);
        let place = free.unwrap_or(self.all.len());
        if place == self.all.len() {
            self.all.push(None);
        }
        self.attached = self.attached.wrapping_add(1);
        let owner = self.attached << PLACE_BITS | place as u32;
        let (manages, inside, touched) = (false, 0, false);
        let (counts, command) = (Counts::default(), command_of(process));
        let program = Program {
            owner,
            channel,
            host,
            slot,
            process,
            command,
            jack,
            manages,
            inside,
            counts,
            touched,
        };
        self.all[place] = Some(program);
        self.moves.push(Move { host, process, kind: MoveKind::Came });
        self.slots.insert((host, slot), owner);
    }

    fn remove(&mut self, owner: u32, kind: MoveKind) {
        let place = self.all.get_mut(place_of(owner));
        if let Some(gone) = place.and_then(|place| place.take_if(|it| it.owner == owner)) {
            self.slots.remove(&(gone.host, gone.slot));
            self.totals.entry(gone.host).or_default().add(&gone.counts);
            self.moves.push(Move { host: gone.host, process: gone.process, kind });
            if self.gone.len() >= GONE_MAX {
                self.forgotten += 1;
                return;
            }
            let Program { host, process, command, counts, .. } = gone;
            self.gone.push(Gone { host, process, command, counts });
        }
    }

    /// Who has come and gone since this was last asked.
    pub(crate) fn moves(&mut self) -> impl Iterator<Item = Move> {
        self.moves.drain(..)
    }

    /// By host: packets of all programs that there have been.
    pub(crate) fn totals(&self) -> HashMap<u32, Counts> {
        let mut totals = self.totals.clone();
        for program in self.iter() {
            totals.entry(program.host).or_default().add(&program.counts);
        }
        totals
    }

    /// Removes a program that is gone, after what it has sent: its last acknowledgements are in its ring.
    pub(crate) fn end(&mut self, owner: u32, network: &mut Network) {
        let mut buffer = core::mem::take(&mut self.buffer);
        for _ in 0..LAST_PACKETS {
            if !matches!(self.send_next(place_of(owner), network, &mut buffer), Ok(true)) {
                break;
            }
        }
        self.buffer = buffer;
        self.remove(owner, MoveKind::Went);
    }

    /// Every program.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Program> {
        self.all.iter().flatten()
    }

    fn at(&mut self, owner: u32) -> Option<&mut Program> {
        self.all.get_mut(place_of(owner))?.as_mut().filter(|program| program.owner == owner)
    }

    /// What a program says beside packets. Returns whether it is still there.
    pub(crate) fn listen(&mut self, owner: u32) -> bool {
        let Some(program) = self.at(owner) else { return false };
        let mut bytes = [0; 32];
        loop {
            match program.channel.receive_short(&mut bytes) {
                Ok(3) if bytes.starts_with(b"qp1") => program.manages = true,
                // A doorbell has done its work, and what makes no sense does none.
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Gives the network what programs have sent. Returns how many packets those were.
    pub(crate) fn send(&mut self, network: &mut Network) -> usize {
        let mut buffer = core::mem::take(&mut self.buffer);
        let mut packets = 0;
        for place in 0..self.all.len() {
            for _ in 0..BATCH {
                match self.send_next(place, network, &mut buffer) {
                    Ok(true) => packets += 1,
                    Ok(false) => break,
                    Err(Broken) => {
                        let owner = self.all[place].as_ref().map(|program| program.owner);
                        owner.into_iter().for_each(|owner| self.remove(owner, MoveKind::Expelled));
                        break;
                    }
                }
            }
        }
        self.buffer = buffer;
        packets
    }

    fn send_next(
        &mut self,
        place: usize,
        network: &mut Network,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, Broken> {
        let Some(Some(program)) = self.all.get_mut(place) else { return Ok(false) };
        if program.inside > INSIDE_BYTES_MAX {
            return Ok(false);
        }
        let Some(packet) = program.jack.next(buffer)? else { return Ok(false) };
        program.counts.sent += 1;
        let (host, bytes) = (program.host, packet.len() as u32);
        let class = packet.get(1).copied().unwrap_or(0);
        let priority = network.host_nic(host).map_or(0, |nic| nic.priority_of(class >> 2));
        match network.send_frame(host, packet, program.owner) {
            Ok(()) => {
                program.inside += u64::from(bytes);
                program.counts.again += u64::from(self.again.is_again(host, packet));
            }
            refused => {
                program.jack.leaves(priority, bytes);
                // What is for a program of the same host never leaves its NIC.
                let is_own = refused == Err(Refused::Destination)
                    && packet.get(12..16) == packet.get(16..20);
                if !is_own {
                    program.counts.refused += 1;
                } else if !self.deliver(host, packet)? {
                    // There is no link that could be paused.
                    self.unclaimed += 1;
                }
            }
        }
        Ok(true)
    }

    /// Tells programs what has left the NICs.
    pub(crate) fn left(&mut self, network: &mut Network) {
        for left in network.frames_left() {
            if let Some(program) = self.at(left.owner) {
                program.inside = program.inside.saturating_sub(left.bytes.into());
                program.jack.leaves(left.priority, left.bytes);
            }
        }
    }

    /// Gives programs what has come to `host`. Returns how many packets were taken.
    pub(crate) fn receive(&mut self, host: u32, network: &mut Network) -> usize {
        let mut packets = 0;
        network.take_frames(host, |packet| {
            // A program whose ring is broken gets nothing more.
            let taken = self.deliver(host, packet).unwrap_or(true);
            packets += usize::from(taken);
            taken
        });
        packets
    }

    /// Gives a packet to its program at `host`. `Ok(false)`: its ring is full.
    fn deliver(&mut self, host: u32, packet: &[u8]) -> Result<bool, Broken> {
        let owner = self.owner_of(host, packet);
        let Some(program) = owner.and_then(|owner| self.at(owner)) else {
            self.unclaimed += 1;
            return Ok(true);
        };
        let pushed = program.jack.push(packet);
        match pushed {
            Ok(true) => {
                program.counts.received += 1;
                program.touched = true;
            }
            Ok(false) => {}
            Err(Broken) => self.remove(owner.unwrap_or(u32::MAX), MoveKind::Expelled),
        }
        pushed
    }

    /// The program that a packet is for.
    fn owner_of(&self, host: u32, packet: &[u8]) -> Option<u32> {
        match Owner::of(packet.get(ipv4::HEADER_LEN + udp::HEADER_LEN..)?)? {
            Owner::Slot(slot) => self.slots.get(&(host, slot)).copied(),
            Owner::Manager => {
                let manages = |it: &&Program| it.host == host && it.manages;
                self.iter().find(manages).map(|program| program.owner)
            }
        }
    }

    /// Wakes the programs that sleep and have got something.
    pub(crate) fn ring_doorbells(&mut self) {
        for program in self.all.iter_mut().flatten() {
            if core::mem::take(&mut program.touched) && program.jack.wakes() {
                // If it is gone, that is noticed when its channel is looked at.
                let _ = program.channel.send(&[1], None);
            }
        }
    }

    /// Whether the lab sleeps. Returns whether something has been sent already.
    pub(crate) fn set_asleep(&mut self, asleep: bool) -> bool {
        let mut has_packets = false;
        for program in self.all.iter_mut().flatten() {
            program.jack.set_asleep(asleep);
            has_packets |= asleep && !program.jack.is_empty() && program.inside <= INSIDE_BYTES_MAX;
        }
        has_packets
    }
}

fn place_of(owner: u32) -> usize {
    (owner & ((1 << PLACE_BITS) - 1)) as usize
}
