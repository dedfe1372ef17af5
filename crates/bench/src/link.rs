//! What a server and its client say to each other beside the packets: a TCP connection with frames.
//!
//! ```text
//!   client ─ Hello: the plan ─────────► server    what is to be run
//!          ─ Introductions ───────────►           the client's queue pairs and memory
//!          ◄─────────── Introductions ─           the server's; or Refused, as it is busy, or cannot
//!          ◄─────── Connected, both ──►
//!          ◄── Beat, each second, both ►          while it runs
//!          ◄──────────── Done, both ──►           who asks is done; who serves is at once
//!          ◄─────────────── Results ───           what the server has received and used
//!
//!   frame: length, 4 bytes, little-endian │ JSON
//! ```
//!
//! **Invariants:** nothing waits for ever: a peer that is silent for too long is gone. No frame is longer
//! than [`FRAME_BYTES_MAX`]. A plan that arrives is held against the ranges of all keys.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::limits::{BEAT, FRAME_BYTES_MAX, PARTING_MAX, SILENCE_MAX, TOLD_READ_BYTES};
use crate::outcome::{Served, Watcher};
use crate::plan::Plan;
use crate::world::{Bystander, Introduction};

/// Both ends must be of the same version.
pub(crate) const VERSION: u32 = 3;
/// Between two looks at a socket that has nothing.
const NAP: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Frame {
    Hello { version: u32, plan: Box<Plan> },
    Refused { why: String },
    Introductions(Vec<Introduction>),
    Connected,
    Beat,
    Done,
    Stopped { why: String },
    Results(Vec<Served>),
}

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    /// Who is at the other end, for people.
    who: &'static str,
    arrived: Vec<u8>,
    heard: Instant,
    spoke: Instant,
    peer_is_connected: bool,
    is_done: bool,
    peer_is_done: bool,
}

impl Link {
    pub(crate) fn new(stream: TcpStream, who: &'static str) -> Result<Self, Failure> {
        let prepared = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        prepared.map_err(|error| Failure::new(format!("the connection to the {who}: {error}")))?;
        let now = Instant::now();
        Ok(Self {
            stream,
            who,
            arrived: Vec::new(),
            heard: now,
            spoke: now,
            peer_is_connected: false,
            is_done: false,
            peer_is_done: false,
        })
    }

    fn gone(&self, why: &str) -> Failure {
        Failure::new(format!("the {} is gone: {why}", self.who))
            .hint("see what it says at its own end")
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), Failure> {
        let json = serde_json::to_vec(frame)
            .map_err(|error| Failure::new(format!("a message to the {}: {error}", self.who)))?;
        if json.len() > FRAME_BYTES_MAX {
            return Err(Failure::new("there is too much to tell the other end")
                .hint("fewer flows or queue pairs"));
        }
        let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
        bytes.extend(json);
        let mut rest = &bytes[..];
        let began = Instant::now();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(self.gone("it takes no more")),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if began.elapsed() > SILENCE_MAX {
                        return Err(self.gone("it does not listen"));
                    }
                    thread::sleep(NAP);
                }
                Err(error) => return Err(self.gone(&error.to_string())),
            }
        }
        self.spoke = Instant::now();
        Ok(())
    }

    /// The next frame, if one has arrived.
    pub(crate) fn take(&mut self) -> Result<Option<Frame>, Failure> {
        let mut some = [0; 1 << 14];
        loop {
            match self.stream.read(&mut some) {
                Ok(0) => return self.last("it has closed the connection"),
                Ok(count) => {
                    self.heard = Instant::now();
                    self.arrived.extend_from_slice(&some[..count]);
                    if self.arrived.len() > FRAME_BYTES_MAX + 4 {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return self.last(&error.to_string()),
            }
        }
        self.parse()
    }

    /// What the other end said last, as that may be why it is gone.
    fn last(&mut self, why: &str) -> Result<Option<Frame>, Failure> {
        match self.parse()? {
            Some(frame) => Ok(Some(frame)),
            None => Err(self.gone(why)),
        }
    }

    /// Says a last thing, and hears the other end until it has closed, or for [`PARTING_MAX`]. A connection
    /// that is closed with something unread takes what was said last with it.
    pub(crate) fn part(mut self, frame: &Frame) -> Result<(), Failure> {
        self.send(frame)?;
        let closed = self.stream.shutdown(Shutdown::Write);
        closed.map_err(|error| self.gone(&error.to_string()))?;
        let mut some = [0; TOLD_READ_BYTES];
        let began = Instant::now();
        while self.discard(&mut some) && began.elapsed() < PARTING_MAX {
            thread::sleep(NAP);
        }
        Ok(())
    }

    /// Reads what has arrived, as far as `some` has room, and forgets it. Whether the other end may say more.
    pub(crate) fn discard(&mut self, some: &mut [u8]) -> bool {
        match self.stream.read(some) {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
        }
    }

    /// Whether the other end has closed, and has said nothing that was not taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.arrived.is_empty() && matches!(self.stream.peek(&mut [0]), Ok(0))
    }

    fn parse(&mut self) -> Result<Option<Frame>, Failure> {
        let Some((length, rest)) = self.arrived.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        let nonsense = || {
            Failure::new(format!("the {} says what nobody understands", self.who)).hint(
                "run the same version of ferroce at both ends, and see that the address is right",
            )
        };
        if length > FRAME_BYTES_MAX {
            return Err(nonsense());
        }
        let Some(json) = rest.get(..length) else { return Ok(None) };
        let frame = serde_json::from_slice(json).map_err(|_| nonsense())?;
        self.arrived.drain(..4 + length);
        Ok(Some(frame))
    }

    /// Waits for the next frame that is not a sign of life.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<Frame, Failure> {
        let began = Instant::now();
        loop {
            match self.take()? {
                Some(Frame::Beat) => {}
                Some(Frame::Refused { why }) => {
                    return Err(Failure::from_message(&why).within(format!("the {}", self.who)));
                }
                Some(Frame::Stopped { why }) => {
                    return Err(Failure::new(format!("the {} has stopped: {why}", self.who)));
                }
                Some(frame) => return Ok(frame),
                None if began.elapsed() > patience => {
                    return Err(self.gone(&format!("nothing for {patience:?}")));
                }
                None => thread::sleep(NAP),
            }
        }
    }

    fn unexpected<T>(&self) -> Result<T, Failure> {
        Err(Failure::new(format!("the {} says something else than is its turn", self.who))
            .hint("run the same version of ferroce at both ends"))
    }

    /// Says that this end is there, and hears the other.
    fn beat(&mut self) -> Result<(), Failure> {
        while let Some(frame) = self.take()? {
            match frame {
                Frame::Beat => {}
                Frame::Connected => self.peer_is_connected = true,
                Frame::Done => self.peer_is_done = true,
                Frame::Stopped { why } => {
                    return Err(Failure::new(format!("the {} has stopped: {why}", self.who)));
                }
                _ => return self.unexpected(),
            }
        }
        if self.heard.elapsed() > SILENCE_MAX {
            return Err(self.gone(&format!("nothing for {SILENCE_MAX:?}")));
        }
        if self.spoke.elapsed() > BEAT {
            self.send(&Frame::Beat)?;
        }
        Ok(())
    }
}

/// Who looks on where the other end is another process.
pub(crate) struct Remote<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) watcher: &'a mut dyn Watcher,
    /// Whether this end speaks first.
    pub(crate) is_client: bool,
}

impl Bystander for Remote<'_> {
    fn glance(&mut self) -> Option<Failure> {
        self.watcher.glance().or_else(|| self.link.beat().err())
    }

    fn introduce(
        &mut self,
        ours: Vec<Introduction>,
    ) -> Result<(Vec<Introduction>, core::ops::Range<usize>), Failure> {
        let count = ours.len();
        let said = Frame::Introductions(ours.clone());
        if self.is_client {
            self.link.send(&said)?;
        }
        let theirs = match self.link.wait(SILENCE_MAX)? {
            Frame::Introductions(theirs) => theirs,
            _ => return self.link.unexpected(),
        };
        if self.is_client {
            return Ok((ours.into_iter().chain(theirs).collect(), 0..count));
        }
        self.link.send(&said)?;
        let before = theirs.len();
        Ok((theirs.into_iter().chain(ours).collect(), before..before + count))
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.link.send(&Frame::Connected)?;
        if self.link.peer_is_connected {
            return Ok(());
        }
        match self.link.wait(SILENCE_MAX)? {
            Frame::Connected => Ok(()),
            _ => self.link.unexpected(),
        }
    }

    fn may_end(&mut self) -> Result<bool, Failure> {
        if !self.link.is_done {
            self.link.send(&Frame::Done)?;
            self.link.is_done = true;
        }
        self.link.beat()?;
        Ok(self.link.peer_is_done)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_is_discarded_has_a_bound_and_is_not_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        // A long frame begins.
        client.write_all(&(FRAME_BYTES_MAX as u32).to_le_bytes()).unwrap();
        client.write_all(&[b' '; 20]).unwrap();
        while stream.peek(&mut [0; 24]).unwrap() < 24 {}
        let mut link = Link::new(stream, "client").unwrap();
        assert!(link.discard(&mut [0; 16]));
        assert!(link.arrived.is_empty());
        assert_eq!(link.stream.peek(&mut [0; 24]).unwrap(), 8);
        assert!(link.discard(&mut [0; 16]));
        assert!(link.discard(&mut [0; 16]), "nothing has arrived");
        drop(client);
        while link.discard(&mut [0; 16]) {}
    }
}
