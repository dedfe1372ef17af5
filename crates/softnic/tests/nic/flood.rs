//! Another user of the host who sends without a pause, to the mailboxes of NICs or to QP1. The programs of
//! this user go on to connect and to talk.
//!
//! ```text
//!   flooder (nobody) ──► mailboxes of all, or requests to QP1
//!   a ◄──────► b              messages to and fro, through a ring; now and then by a new queue pair
//!   client ──► server         connects; a third NIC of the server's address answers for QP1
//! ```
//!
//! The same without the flooder is the control. It has a processor for itself if there are two.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Instant;

use rdma::{Psn, QKey, QpType, Qpn};
use softnic::{Options, PathChoice};
use transport::Route;
use wire::cm::ip::PortSpace;
use wire::cm::{Mad, Message, req};
use wire::udp::ROCE_PORT;
use wire::{Opcode, deth, roce};

use crate::connections::{self, PORT};
use crate::forger::Forger;
use crate::strangers::{become_another_user, is_root, mailboxes};
use crate::support::{Host, SEND, pair_with};

/// How long they talk, with and without the flood.
const SPAN: Duration = Duration::from_millis(1_500);
/// A machine with other work is late without a flood, too, but not every time.
const TRIES: u32 = 4;
/// So many times fewer messages and connections than in calm would be too few.
const SLOWER_MAX: u32 = 40;
/// Between two connections.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// No message may take longer, beyond four times what it takes in calm. Ours: ten times what it takes on a busy
/// machine with two processors, and half of a timeout, which a lost packet or doorbell would cost.
const MESSAGE_MAX: Duration = Duration::from_millis(250);
/// Nor a connection, while mailboxes are flooded.
const CONNECTION_MAX: Duration = Duration::from_millis(500);
/// Requests to QP1 are datagrams. Where a flood of them fills the socket, some are lost, and repeated after a
/// second or so: ours, for three of them.
const CONNECTION_BESIDE_REQUESTS_MAX: Duration = Duration::from_secs(5);

/// A process that floods until this is dropped.
struct Flooder(libc::pid_t);

impl Flooder {
    fn start(mut send: impl FnMut()) -> Self {
        // SAFETY: the child makes plain calls, and ends without returning to state of other threads.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // It does not outlive the test.
            // SAFETY: plain calls.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                send();
            }
        }
        Self(pid)
    }
}

impl Drop for Flooder {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for; the kernel need not say how it ended.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, core::ptr::null_mut(), 0);
        }
    }
}

/// How often something was done, and the longest that it took.
#[derive(Default, Debug)]
struct Done {
    count: u32,
    longest: Duration,
}

struct Programs {
    a: Host,
    b: Host,
    client: connections::Host,
    server: connections::Host,
    bystander: connections::Host,
    server_address: String,
}

impl Programs {
    fn open(third: u8) -> Self {
        let options = Options { path: PathChoice::SharedMemory, ..Options::default() };
        let (a, b) = pair_with(third, QpType::Rc, 8192, &options);
        let server_address = format!("127.0.{third}.3");
        // The first answers for QP1, and hands over what is for the other.
        let bystander = connections::Host::open(&server_address);
        let server = connections::Host::open(&server_address);
        server.listen(PORT);
        let client = connections::Host::open(&format!("127.0.{third}.4"));
        let programs = Self { a, b, client, server, bystander, server_address };
        programs.a.until_by_ring(|| programs.message());
        programs
    }

    fn message(&self) {
        let Self { a, b, .. } = self;
        b.post_recv(7, b.sge(4096, 100));
        a.post(8, SEND, a.sge(0, 100));
        a.completions(1);
        b.completions(1);
    }

    /// Has one thread talk and another connect.
    fn run(&self) -> [Done; 2] {
        let until_end = |each: &dyn Fn(u32)| {
            let (began, mut done) = (Instant::now(), Done::default());
            while began.elapsed() < SPAN {
                let started = Instant::now();
                done.count += 1;
                each(done.count);
                done.longest = done.longest.max(started.elapsed());
            }
            done
        };
        thread::scope(|scope| {
            let talking = scope.spawn(|| until_end(&|_| self.message()));
            let connected = until_end(&|number| {
                thread::sleep(CONNECT_INTERVAL);
                self.client.converse(&self.server, &self.server_address, number);
            });
            [talking.join().unwrap(), connected]
        })
    }

    /// With and without a flood. Messages and connections take hardly longer beside it.
    fn go_on_beside(&self, what: &str, connection_max: Duration, flood: impl FnMut()) {
        let calm = self.run();
        let flooder = Flooder::start(flood);
        let is_in_time = |_| {
            let flooded = self.run();
            println!("flood: {what}: messages and connections: calm {calm:?}, flooded {flooded:?}");
            let mut each = flooded.iter().zip(&calm).zip([MESSAGE_MAX, connection_max]);
            each.all(|((done, calm), most)| {
                done.longest < most + calm.longest * 4 && done.count * SLOWER_MAX >= calm.count
            })
        };
        assert!((0..TRIES).any(is_in_time), "{what}: late in each of {TRIES} tries");
        drop(flooder);
    }
}

#[test]
fn programs_connect_and_talk_while_another_user_floods_their_mailboxes() {
    if !is_root() {
        return;
    }
    let programs = Programs::open(87);
    let mut names = [&programs.a, &programs.b].map(|host| mailboxes(&host.nic)).concat();
    let Programs { client, server, bystander, .. } = &programs;
    names.extend([client, server, bystander].into_iter().flat_map(|host| mailboxes(&host.nic)));
    assert!(names.len() >= 10, "{names:?}");
    let mut socket = None;
    programs.go_on_beside("mailboxes", CONNECTION_MAX, || {
        let socket = socket.get_or_insert_with(|| {
            become_another_user();
            let socket = UnixDatagram::unbound().unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        for name in &names {
            let _ = socket.send_to(&[7; 32], name);
        }
    });
}

#[test]
fn programs_connect_and_talk_while_another_user_floods_qp1() {
    let programs = Programs::open(88);
    let [own, listener] = [99, 3].map(|last| Ipv4Addr::new(127, 0, 88, last));
    let mut flooder = None;
    let mut number = 0_u32;
    programs.go_on_beside("QP1", CONNECTION_BESIDE_REQUESTS_MAX, || {
        let forger = flooder.get_or_insert_with(|| {
            if is_root() {
                become_another_user();
            }
            Forger::new(own, ROCE_PORT, own)
        });
        // Each a conversation of its own, with a service that nobody offers.
        number += 1;
        let (source, destination) = (IpAddr::from(own).into(), IpAddr::from(listener).into());
        let route = Route::between(source, destination);
        let request = connections::request(&route, 2);
        let request =
            req::Repr { local_id: number, service: PortSpace::TCP.service(PORT + 1), ..request };
        let message = Mad::new(number.into(), Message::Req(request)).to_bytes();
        let header = roce::Repr {
            deth: Some(deth::Repr { q_key: QKey::GSI, source: Qpn::GSI }),
            ..roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(0))
        };
        forger.send(listener, &forger.seal(listener, &header, &message));
    });
}
