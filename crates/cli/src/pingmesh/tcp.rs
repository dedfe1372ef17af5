//! TCP probes beside those of RDMA: a connection, sixteen bytes there and back, and its end. One thread probes, another
//! answers.
//!
//! ```text
//!   due ─ socket, bind to our address, connect ─► writable ─ 16 bytes ─► readable: the same 16 bytes ─► answered
//!                                                     └──── nothing within 2 s: timeout; refused: an error
//! ```
//!
//! Targets are those of RDMA's probes, and each is probed a tenth as often. A probe counts to the window in which it
//! ends. What a stranger may do with the port is bounded: it keeps one of 128 places for two seconds, and is sent back
//! sixteen bytes.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use ops::pingmesh::exchange::Aim;
use ops::pingmesh::scope::Scope;
use ops::pingmesh::window::TcpPair;
use rdma::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::clock::wall_ns;
use crate::failure::Failure;
use crate::output::tell;

/// How many times more seldom than by RDMA.
const SELDOM: u32 = 10;
/// How long a probe may take: a lost packet is sent again after a second at the latest, when the connection begins.
const PATIENCE: Duration = Duration::from_secs(2);
/// Probes under way, and connections that are answered at a time.
const PROBES_MAX: usize = 256;
const ANSWERED_MAX: usize = 128;
/// What a probe says: this, and its number.
const MAGIC: [u8; 8] = *b"FPM1 TCP";
const PROBE: usize = 16;
/// How often the threads look whether there is something new.
const LOOK: Duration = Duration::from_millis(100);
/// Windows of which outcomes are kept, until somebody takes them.
const WINDOWS_MAX: usize = 16;

/// By the beginning of a window, and by target.
type Outcomes = BTreeMap<u64, BTreeMap<(Scope, u32), TcpPair>>;

#[derive(Debug)]
struct Shared {
    aims: Mutex<Arc<[Aim]>>,
    outcomes: Mutex<Outcomes>,
    is_over: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module. Both threads end with this.
#[derive(Debug)]
pub(super) struct Beside {
    shared: Arc<Shared>,
    port: u16,
}

/// The IP address that a GID stands for; `None` of one of a link alone, which does not say which.
pub(super) fn ip(gid: [u8; 16]) -> Option<IpAddr> {
    let address = Ipv6Addr::from(gid);
    let is_of_link = address.is_unicast_link_local() || address.is_unspecified();
    (!is_of_link).then(|| address.to_canonical())
}

impl Beside {
    /// Probes from an address, and answers at a port of it; port 0 is any that is free.
    ///
    /// # Errors
    /// It is no address of this host, or the port is not for everybody.
    pub(super) fn start(own: IpAddr, port: u16, length_ns: u64) -> Result<Self, Failure> {
        let cannot = |error: io::Error| {
            Failure::new(format!("cannot answer TCP probes at {own}, port {port}: {error}")).hint(
                "--tcp-port names another port, and 0 any that is free; --no-tcp leaves TCP away",
            )
        };
        let listener = match TcpListener::bind((own, port)) {
            // Another agent of this host: the collector tells ours to whom it concerns.
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                tell(&format!(
                    "warning: port {port} of {own} is taken: TCP probes are answered at another"
                ));
                TcpListener::bind((own, 0))
            }
            bound => bound,
        };
        let listener = listener.map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let shared = Arc::new(Shared {
            aims: Mutex::new([].into()),
            outcomes: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let (of_answers, of_probes) = (Arc::clone(&shared), Arc::clone(&shared));
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("tcp answers").spawn(move || answer(&listener, &of_answers)).map_err(cannot)?;
        named("tcp probes").spawn(move || probe(own, length_ns, &of_probes)).map_err(cannot)?;
        Ok(Self { shared, port })
    }

    /// Where it answers.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Whom to probe from now on.
    pub(super) fn retarget(&self, aims: &[Aim]) {
        let mut aims = aims.to_vec();
        aims.retain(|aim| aim.address.tcp.is_some() && ip(aim.address.gid).is_some());
        *lock(&self.shared.aims) = aims.into();
    }

    /// What became of the probes that have ended in a window.
    pub(super) fn take(&self, start_ns: u64) -> Vec<TcpPair> {
        let mut outcomes = lock(&self.shared.outcomes);
        outcomes.remove(&start_ns).unwrap_or_default().into_values().collect()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

/// Waits until something can be done with one of some sockets, for so long at most.
fn wait(sockets: &mut [PollFd<'_>], patience: Duration) {
    let patience = patience.max(Duration::from_millis(1));
    let left =
        Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    // A signal ends it early; then it is looked again.
    let _ = poll(sockets, Some(&left));
}

/// A probe under way.
struct Probe {
    stream: TcpStream,
    target: (Scope, u32),
    begun: Instant,
    number: u64,
    is_said: bool,
    heard: Vec<u8>,
}

/// What became of one.
enum Outcome {
    Answered(Duration),
    Timeout,
    Failed,
}

impl Probe {
    fn begin(own: IpAddr, to: SocketAddr, target: (Scope, u32), number: u64) -> io::Result<Self> {
        let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // It leaves no trace in tables of the kernel: the answer has been heard, or nobody waits for it.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        rustix::net::bind(&socket, &SocketAddr::new(own, 0))?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let (stream, begun) = (TcpStream::from(socket), Instant::now());
        Ok(Self { stream, target, begun, number, is_said: false, heard: Vec::new() })
    }

    fn says(&self) -> [u8; PROBE] {
        let mut bytes = [0; PROBE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Goes on as far as it can.
    fn step(&mut self) -> Option<Outcome> {
        if !self.is_said {
            match sockopt::socket_error(&self.stream) {
                Ok(Ok(())) => {}
                _ => return Some(Outcome::Failed),
            }
            match self.stream.write(&self.says()) {
                Ok(PROBE) => self.is_said = true,
                Err(error) if waits(&error) || error.kind() == ErrorKind::NotConnected => {}
                _ => return Some(Outcome::Failed),
            }
        }
        let mut bytes = [0; PROBE];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Some(Outcome::Failed),
            Ok(read) => self.heard.extend_from_slice(&bytes[..read]),
            Err(error) if waits(&error) || error.kind() == ErrorKind::NotConnected => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => return Some(Outcome::Timeout),
            Err(_) => return Some(Outcome::Failed),
        }
        if self.heard.len() >= PROBE {
            let is_ours = self.heard[..] == self.says();
            return Some(match is_ours {
                true => Outcome::Answered(self.begun.elapsed()),
                false => Outcome::Failed,
            });
        }
        (self.begun.elapsed() > PATIENCE).then_some(Outcome::Timeout)
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn probe(own: IpAddr, length_ns: u64, shared: &Shared) {
    let mut due: BTreeMap<(Scope, u32), Instant> = BTreeMap::new();
    let mut probes: Vec<Probe> = Vec::new();
    let mut number = 0_u64;
    let mut aims = Arc::clone(&lock(&shared.aims));
    while !shared.is_over.load(Ordering::Relaxed) {
        let said = Arc::clone(&lock(&shared.aims));
        if !Arc::ptr_eq(&said, &aims) {
            aims = said;
            due.retain(|target, _| aims.iter().any(|aim| (aim.scope, aim.host) == *target));
        }
        let now = Instant::now();
        let mut next = now + LOOK;
        for (place, aim) in (0..).zip(aims.iter()) {
            let every = Duration::from_nanos(aim.every().as_ps() / 1_000) * SELDOM;
            // Not all at once.
            let spread = every / aims.len().max(1) as u32 * place;
            let at = due.entry((aim.scope, aim.host)).or_insert(now + spread);
            if *at <= now && probes.len() < PROBES_MAX {
                *at = (*at + every).max(now);
                number += 1;
                let target = (aim.scope, aim.host);
                let Some((to, port)) = ip(aim.address.gid).zip(aim.address.tcp) else { continue };
                match Probe::begin(own, SocketAddr::new(to, port), target, number) {
                    Ok(probe) => probes.push(probe),
                    Err(_) => note(shared, length_ns, target, &Outcome::Failed),
                }
            }
            next = next.min(*at);
        }
        let mut sockets: Vec<PollFd<'_>> = probes
            .iter()
            .map(|of| {
                PollFd::new(&of.stream, if of.is_said { PollFlags::IN } else { PollFlags::OUT })
            })
            .collect();
        wait(&mut sockets, next.saturating_duration_since(now));
        probes.retain_mut(|probe| match probe.step() {
            None => true,
            Some(outcome) => {
                note(shared, length_ns, probe.target, &outcome);
                false
            }
        });
    }
}

fn note(shared: &Shared, length_ns: u64, target: (Scope, u32), outcome: &Outcome) {
    let start_ns = wall_ns() / length_ns * length_ns;
    let mut outcomes = lock(&shared.outcomes);
    while outcomes.len() >= WINDOWS_MAX && !outcomes.contains_key(&start_ns) {
        outcomes.pop_first();
    }
    let of_window = outcomes.entry(start_ns).or_default();
    let pair = of_window.entry(target).or_insert_with(|| TcpPair::new(target.1, target.0));
    match outcome {
        Outcome::Answered(after) => {
            pair.answered(Span::from_ns(
                u64::try_from(after.as_nanos()).unwrap_or(u64::MAX / 1_000),
            ));
        }
        Outcome::Timeout => {
            pair.counts.sent += 1;
            pair.counts.timeout += 1;
        }
        Outcome::Failed => {
            pair.counts.sent += 1;
            pair.counts.send_error += 1;
        }
    }
}

/// A connection that is answered.
struct Asked {
    stream: TcpStream,
    begun: Instant,
    heard: Vec<u8>,
}

impl Asked {
    /// `false` if it is over.
    fn step(&mut self) -> bool {
        let mut bytes = [0; PROBE];
        let left = PROBE - self.heard.len();
        match self.stream.read(&mut bytes[..left.max(1)]) {
            Ok(0) => return false,
            // After the answer nothing is heard but the end.
            Ok(_) if left == 0 => return false,
            Ok(read) => self.heard.extend_from_slice(&bytes[..read]),
            Err(error) if waits(&error) => return self.begun.elapsed() < PATIENCE,
            Err(_) => return false,
        }
        if self.heard.len() < PROBE {
            return true;
        }
        // The prober ends it: who ends a connection keeps its memory for a while.
        self.heard.starts_with(&MAGIC) && matches!(self.stream.write(&self.heard), Ok(PROBE))
    }
}

fn answer(listener: &TcpListener, shared: &Shared) {
    let mut all: Vec<Asked> = Vec::new();
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut sockets = vec![PollFd::new(listener, PollFlags::IN)];
        sockets.extend(all.iter().map(|of| PollFd::new(&of.stream, PollFlags::IN)));
        wait(&mut sockets, LOOK);
        while let Ok((stream, _)) = listener.accept() {
            let is_good = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if all.len() < ANSWERED_MAX && is_good.is_ok() {
                all.push(Asked { stream, begun: Instant::now(), heard: Vec::new() });
            }
        }
        all.retain_mut(Asked::step);
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use ops::pingmesh::exchange::Address;

    use super::*;

    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    /// Longer than a test.
    const LENGTH_NS: u64 = 1 << 62;

    fn aim(host: u32, port: u16) -> Aim {
        let gid = Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        let address = Address { gid, qpn: 1, tcp: Some(port) };
        Aim { host, scope: Scope::Tor, address, every_us: 2_000, labels: 1 }
    }

    #[test]
    fn who_answers_who_is_silent_and_who_is_not_there_are_told_apart() {
        let answering = Beside::start(OWN, 0, LENGTH_NS).unwrap();
        let silent = TcpListener::bind((OWN, 0)).unwrap();
        let gone = TcpListener::bind((OWN, 0)).unwrap();
        let port = |of: &TcpListener| of.local_addr().unwrap().port();
        let probing = Beside::start(OWN, 0, LENGTH_NS).unwrap();
        let aims = [aim(1, answering.port()), aim(2, port(&silent)), aim(3, port(&gone))];
        drop(gone);
        probing.retarget(&aims);
        let seen = || {
            let outcomes = lock(&probing.shared.outcomes);
            let of =
                |host: u32| outcomes.get(&0).and_then(|of| of.get(&(Scope::Tor, host))).cloned();
            [1, 2, 3].map(|host| of(host).map(|pair| pair.counts).unwrap_or_default())
        };
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let [well, slow, absent] = seen();
            if well.answered > 2 && slow.timeout > 0 && absent.send_error > 2 {
                assert_eq!((slow.answered, absent.answered, absent.timeout), (0, 0, 0));
                break;
            }
            assert!(Instant::now() < until, "{:?}", seen());
            thread::sleep(LOOK);
        }
        let taken = probing.take(0);
        assert_eq!(taken.len(), 3);
        assert!(taken[0].round_trip.count() > 2 && taken[0].counts.is_sound());
    }

    #[test]
    fn strangers_are_answered_nothing_and_keep_no_place() {
        let answering = Beside::start(OWN, 0, LENGTH_NS).unwrap();
        let connect = || TcpStream::connect((OWN, answering.port())).unwrap();
        let mut stranger = connect();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
        let mut silent: Vec<TcpStream> = (0..ANSWERED_MAX).map(|_| connect()).collect();
        silent[0].set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // After its patience it has ended them.
        assert!(matches!(silent[0].read(&mut [0; 8]), Ok(0)));
    }

    #[test]
    fn addresses_of_a_link_alone_are_not_probed() {
        let of = |text: &str| ip(text.parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(of("::ffff:10.0.0.1"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(of("2001:db8::1"), Some("2001:db8::1".parse().unwrap()));
        assert_eq!(of("fe80::1"), None);
    }
}
