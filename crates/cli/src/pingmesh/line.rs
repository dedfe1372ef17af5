//! The line between an agent and its collector: a TCP connection, and what is said on it
//! ([`ops::pingmesh::exchange`]).

use core::net::SocketAddr;
use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ops::pingmesh::exchange::{Bad, CHANCE, FRAME_HEAD, Seal, Side};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// How long the other may be silent in the middle of something.
const PATIENCE: Duration = Duration::from_secs(10);
/// A shorter key could be guessed.
const KEY_BYTES_MIN: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    seal: Seal,
}

/// What is wrong with a file that is to be a key; of others than its owner it must not be readable.
pub(super) fn read_key(path: &Path) -> Result<Vec<u8>, Failure> {
    let about = |what: &str| Failure::new(format!("the key {}: {what}", path.display()));
    let make = format!(
        "make one, and give it to all: (umask 077; head -c 32 /dev/urandom | base64 > {})",
        path.display()
    );
    let known = fs::metadata(path).map_err(|error| about(&error.to_string()).hint(&make))?;
    if known.mode() & 0o077 != 0 {
        return Err(about("others may read it").hint(format!("chmod 600 {}", path.display())));
    }
    let mut key = fs::read(path).map_err(|error| about(&error.to_string()).hint(&make))?;
    while key.last().is_some_and(u8::is_ascii_whitespace) {
        key.pop();
    }
    if key.len() < KEY_BYTES_MIN {
        return Err(about("it has fewer than 16 bytes").hint(make));
    }
    Ok(key)
}

fn bad(why: Bad) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn chance() -> io::Result<[u8; CHANCE]> {
    let mut bytes = [0; CHANCE];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Line {
    /// To the collector.
    pub(super) fn connect(address: SocketAddr, key: &[u8]) -> io::Result<Self> {
        Self::open(TcpStream::connect_timeout(&address, PATIENCE)?, Side::Agent, key)
    }

    /// From an agent that has connected.
    pub(super) fn accept(stream: TcpStream, key: &[u8]) -> io::Result<Self> {
        Self::open(stream, Side::Collector, key)
    }

    fn open(mut stream: TcpStream, own: Side, key: &[u8]) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (ours, mut theirs) = (chance()?, [0; CHANCE]);
        stream.write_all(&ours)?;
        stream.read_exact(&mut theirs)?;
        let (agent, collector) = match own {
            Side::Agent => (&ours, &theirs),
            Side::Collector => (&theirs, &ours),
        };
        let seal = Seal::new(key, own, agent, collector);
        Ok(Self { stream, seal })
    }

    pub(super) fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let frame = self.seal.emit(message).map_err(bad)?;
        self.stream.write_all(&frame)
    }

    /// What the other says; `None` if it has hung up.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut head = [0; FRAME_HEAD];
        if self.stream.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut head[1..])?;
        let length = Seal::length(&head).map_err(bad)?;
        // What is not there takes no memory.
        let mut body = Vec::new();
        (&self.stream).take(length as u64).read_to_end(&mut body)?;
        if body.len() < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.seal.parse(&head, &body).map(Some).map_err(bad)
    }
}
