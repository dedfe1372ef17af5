//! The line between an agent and its collector: a TCP connection, and what is said on it
//! ([`ops::pingmesh::exchange`]).

use core::net::SocketAddr;
use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use ops::pingmesh::exchange::{Bad, CHANCE, FRAME_HEAD, Seal, Side};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::tls::{Stream, Tls, Trust, hurry};
use crate::failure::Failure;

/// How long the other may be silent in the middle of something.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest message of whoever has not proved yet that it has the key: a hello.
const HELLO_BYTES_MAX: usize = 4_096;
/// A shorter key could be guessed.
const KEY_BYTES_MIN: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Line {
    stream: Stream,
    seal: Seal,
    /// Until when the other has to have proved that it has the key; `None` if it has, or need not hurry.
    greeting: Option<Instant>,
}

/// How the sides of a line know each other.
#[derive(Clone, Debug)]
pub(super) enum Secret {
    /// All have it.
    Key(Vec<u8>),
    /// Each has a certificate.
    Tls(Tls),
}

impl Secret {
    /// What was named on the command line.
    pub(super) fn read(trust: &Trust) -> Result<Self, Failure> {
        match (trust.tls()?, &trust.key) {
            (Some(tls), _) => Ok(Self::Tls(tls)),
            (None, Some(key)) => read_key(key).map(Self::Key),
            (None, None) => Err(Failure::new("there is neither a key nor a certificate")
                .hint("--key FILE, or --tls-cert, --tls-key and --tls-ca")),
        }
    }
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
    pub(super) fn connect(address: SocketAddr, secret: &Secret) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        prepare(&socket)?;
        let stream = match secret {
            Secret::Key(_) => Stream::Plain(socket),
            Secret::Tls(tls) => tls.connect(address.ip(), socket)?,
        };
        Self::open(stream, Side::Agent, secret, None)
    }

    /// From an agent that has connected, and has so long to say its first message.
    pub(super) fn accept(
        socket: TcpStream,
        secret: &Secret,
        greeting: Duration,
    ) -> io::Result<Self> {
        let until = Some(Instant::now() + greeting);
        prepare(&socket)?;
        let stream = match secret {
            Secret::Key(_) => Stream::Plain(socket),
            Secret::Tls(tls) => tls.accept(socket, until)?,
        };
        Self::open(stream, Side::Collector, secret, until)
    }

    fn open(
        mut stream: Stream,
        own: Side,
        secret: &Secret,
        greeting: Option<Instant>,
    ) -> io::Result<Self> {
        let (ours, mut theirs) = (chance()?, [0; CHANCE]);
        stream.write_all(&ours)?;
        fill(&mut stream, &mut theirs, greeting)?;
        let (agent, collector) = match own {
            Side::Agent => (&ours, &theirs),
            Side::Collector => (&theirs, &ours),
        };
        let key = match secret {
            Secret::Key(key) => &key[..],
            // It has sealed all that is said already.
            Secret::Tls(_) => b"TLS",
        };
        let seal = Seal::new(key, own, agent, collector);
        Ok(Self { stream, seal, greeting })
    }

    /// Whether the other side may speak for a host.
    pub(super) fn may_be(&self, host: &str) -> bool {
        self.stream.may_be(host)
    }

    pub(super) fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let frame = self.seal.emit(message).map_err(bad)?;
        self.stream.write_all(&frame)
    }

    /// What the other says; `None` if it has hung up.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut head = [0; FRAME_HEAD];
        if !fill(&mut self.stream, &mut head, self.greeting)? {
            return Ok(None);
        }
        let length = Seal::length(&head).map_err(bad)?;
        let mut body = Vec::new();
        if self.greeting.is_some() {
            if length > HELLO_BYTES_MAX {
                return Err(bad(Bad::TooLong));
            }
            body.resize(length, 0);
            fill(&mut self.stream, &mut body, self.greeting)?;
        } else {
            // What is not there takes no memory.
            (&mut self.stream).take(length as u64).read_to_end(&mut body)?;
        }
        if body.len() < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let said = self.seal.parse(&head, &body).map_err(bad)?;
        if self.greeting.take().is_some() {
            self.stream.socket().set_read_timeout(Some(PATIENCE))?;
        }
        Ok(Some(said))
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

/// Reads all of `bytes`, until a time if there is one: however little comes at once, it does not come for longer.
/// `false` if the other has hung up before the first.
fn fill(stream: &mut Stream, bytes: &mut [u8], until: Option<Instant>) -> io::Result<bool> {
    let mut done = 0;
    while done < bytes.len() {
        hurry(stream.socket(), until)?;
        match stream.read(&mut bytes[done..]) {
            Ok(0) if done == 0 => return Ok(false),
            // As TLS has it where the other has not said that it ends.
            Err(error) if done == 0 && error.kind() == ErrorKind::UnexpectedEof => {
                return Ok(false);
            }
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const KEY: &[u8] = b"a key that both have";
    const GREETING: Duration = Duration::from_millis(300);

    fn key(bytes: &[u8]) -> Secret {
        Secret::Key(bytes.to_vec())
    }

    fn agent(stream: TcpStream, bytes: &[u8]) -> io::Result<Line> {
        Line::open(Stream::Plain(stream), Side::Agent, &key(bytes), None)
    }

    /// What a collector makes of whoever connects, and after how long.
    fn greeted(by: impl FnOnce(TcpStream) + Send + 'static) -> (io::Result<Option<u32>>, Duration) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = thread::spawn(move || by(TcpStream::connect(address).unwrap()));
        let (stream, _) = listener.accept().unwrap();
        let begun = Instant::now();
        let heard = Line::accept(stream, &key(KEY), GREETING).and_then(|mut line| line.hear());
        let took = begun.elapsed();
        other.join().unwrap();
        (heard, took)
    }

    #[test]
    fn whoever_has_the_key_is_heard_and_whoever_trickles_is_not_waited_for() {
        let (heard, _) = greeted(|stream| {
            agent(stream, KEY).unwrap().say(&7_u32).unwrap();
        });
        assert_eq!(heard.unwrap(), Some(7));
        let (heard, _) = greeted(|stream| {
            agent(stream, b"another key").unwrap().say(&7_u32).unwrap();
        });
        assert_eq!(heard.unwrap_err().kind(), ErrorKind::InvalidData);
        // A byte now and then, more of them than there are to a hello.
        let (heard, took) = greeted(|mut stream| {
            for _ in 0..40 {
                if stream.write_all(&[0]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(heard.is_err());
        assert!(took < Duration::from_millis(1_500), "{took:?}");
        // One that says that its hello is long.
        let (heard, _) = greeted(|mut stream| {
            stream.write_all(&[0; CHANCE]).unwrap();
            stream.write_all(&[0, 1, 0, 0]).unwrap();
            stream.write_all(&[0; FRAME_HEAD - 4]).unwrap();
            let _ = stream.read(&mut [0; 64]);
        });
        assert_eq!(heard.unwrap_err().to_string(), Bad::TooLong.to_string());
    }
}
