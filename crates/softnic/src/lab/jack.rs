//! The lab's end of the rings of one program.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::limits::PACKET_MAX;
use crate::shm::ring::{Consumer, Entry, Producer, State, TALLIES};

/// The other end does not keep to the rules of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

impl From<crate::shm::ring::Broken> for Broken {
    fn from(_: crate::shm::ring::Broken) -> Self {
        Self
    }
}

/// See the module.
#[derive(Debug)]
pub struct Jack {
    from: Consumer,
    to: Producer,
    left: [u64; TALLIES],
}

impl Jack {
    /// Takes the ring that a program has made, with its nonce, and makes the other: its file is for the program.
    ///
    /// # Errors
    /// The file is no such ring, or the kernel has no memory.
    pub fn take(file: &OwnedFd, nonce: u64) -> io::Result<(Self, OwnedFd)> {
        let from = Consumer::open(file.as_fd(), nonce)?;
        if !from.take() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (to, file) = Producer::create(nonce)?;
        Ok((Self { from, to, left: [0; TALLIES] }, file))
    }

    /// The next packet that the program has sent, from its IP header on, if there is one.
    ///
    /// # Errors
    /// The program has scribbled over the ring: it is to be left.
    pub fn next<'a>(&mut self, buffer: &'a mut Vec<u8>) -> Result<Option<&'a [u8]>, Broken> {
        buffer.resize(PACKET_MAX, 0);
        let Some(found) = self.from.next(buffer, PACKET_MAX)? else { return Ok(None) };
        self.from.release();
        Ok(Some(&buffer[..found.entry.length.into()]))
    }

    /// Whether the program has sent nothing more.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Says that so many bytes of a priority have left the NIC of the host, or were dropped there.
    pub fn leaves(&mut self, priority: u8, bytes: u32) {
        let index = usize::from(priority) % TALLIES;
        self.left[index] += u64::from(bytes);
        self.from.set_tally(index, self.left[index]);
    }

    /// Gives the program a packet. Returns whether there was room for it.
    ///
    /// # Errors
    /// As [`Jack::next`].
    pub fn push(&mut self, packet: &[u8]) -> Result<bool, Broken> {
        if packet.len() > PACKET_MAX {
            return Err(Broken);
        }
        Ok(self.to.push(Entry::default(), packet)?)
    }

    /// Whether the program sleeps, and its doorbell is to be rung for what was pushed.
    pub fn wakes(&mut self) -> bool {
        self.to.wakes() == State::Asleep
    }

    /// Whether the lab sleeps: then the program rings its doorbell. After that, [`Jack::is_empty`] must be asked
    /// once more.
    pub fn set_asleep(&self, asleep: bool) {
        self.from.set_asleep(asleep);
    }
}
