//! Connection management between NICs, processes and sockets: messages reach their owner although
//! all share QP1, and a process that dies leaves nothing behind.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rdma::{Gid, Psn, QKey, QpType, Qpn};
use softnic::{DeviceInfo, EventSink, Nic, Options, PortChange, PortError};
use transport::cm::{CmEvent, CommId};
use transport::{Event, Route};
use wire::cm::ip::PortSpace;
use wire::cm::{brief, rej, rep, req};
use wire::{Opcode, deth, icrc, roce};

use crate::support::{self, PATIENCE};

/// Tells this test binary that it is a helper, and on which address it listens.
const ADDRESS: &str = "FERROCE_TEST_LISTENER";
pub(crate) const PORT: u16 = 7174;
const TCP: PortSpace = PortSpace::TCP;
const BIND: PortChange = PortChange::Bind { shared: false };

#[derive(Clone, Default)]
struct Events(Arc<Mutex<VecDeque<CmEvent>>>);

impl EventSink for Events {
    fn event(&self, _: Event) {}

    fn connection(&self, event: CmEvent) {
        self.0.lock().unwrap().push_back(event);
    }
}

/// A NIC that takes part in connection management.
pub(crate) struct Host {
    pub(crate) nic: Nic,
    events: Events,
    address: IpAddr,
}

impl Host {
    pub(crate) fn open(address: &str) -> Self {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        let events = Events::default();
        let nic = Nic::open_with(&device, Box::new(events.clone()), &Options::default()).unwrap();
        nic.manage().unwrap();
        Self { nic, events, address: address.parse().unwrap() }
    }

    fn bind(&self, number: u16) -> Result<u16, PortError> {
        self.nic.change_port(self.address, (TCP, number), BIND)
    }

    pub(crate) fn listen(&self, number: u16) {
        self.bind(number).unwrap();
        self.nic.change_port(self.address, (TCP, number), PortChange::Listen).unwrap();
        let gid = Gid::from(self.address);
        let service = TCP.service(number);
        self.nic.with_manager(|manager, _| manager.listen(service, Some(gid), 8)).unwrap();
    }

    fn connect(&self, to: &str, qpn: u32) -> CommId {
        let (source, destination) = (self.address.into(), to.parse::<IpAddr>().unwrap().into());
        let route = Route::between(source, destination);
        let request = request(&route, qpn);
        self.nic.with_manager(|manager, now| manager.connect(now, route, request, 0)).unwrap()
    }

    /// The next event; it comes without a call.
    fn event(&self) -> CmEvent {
        let started = Instant::now();
        loop {
            if let Some(event) = self.events.0.lock().unwrap().pop_front() {
                return event;
            }
            assert!(started.elapsed() < PATIENCE, "no event: {:?}", self.nic.counts());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn rejection(&self) -> rej::Reason {
        match self.event() {
            CmEvent::Rejected { rejection, .. } => rejection.reason,
            other => panic!("{other:?}"),
        }
    }

    fn accept_next(&self, qpn: u32) -> CommId {
        let CmEvent::Request { id, .. } = self.event() else { panic!("a request") };
        let reply = reply(qpn);
        self.nic.with_manager(|manager, now| manager.accept(now, id, reply, 0)).unwrap();
        id
    }

    /// Connects to somebody at `to` who listens, and ends the connection.
    pub(crate) fn converse(&self, server: &Self, to: &str, qpn: u32) {
        let active = self.connect(to, qpn);
        let passive = server.accept_next(qpn + 100);
        self.confirm_next();
        assert_eq!(server.event(), CmEvent::Established(passive));
        let private = [0; brief::DREQ_PRIVATE_LEN];
        self.nic.with_manager(|it, now| it.disconnect(now, active, private)).unwrap();
        assert_eq!(server.event(), CmEvent::Disconnected(passive));
        assert_eq!(self.event(), CmEvent::Disconnected(active));
        assert_eq!(server.event(), CmEvent::Closed(passive));
        assert_eq!(self.event(), CmEvent::Closed(active));
    }

    fn confirm_next(&self) {
        let CmEvent::Reply { id, .. } = self.event() else { panic!("a reply") };
        let private = [0; brief::RTU_PRIVATE_LEN];
        self.nic.with_manager(|manager, _| manager.confirm(id, private)).unwrap();
    }
}

pub(crate) fn request(route: &Route, qpn: u32) -> req::Repr {
    let path = req::Path::between(route.source, route.destination);
    req::Repr {
        service: TCP.service(PORT),
        qpn: Qpn::new(qpn),
        responder_resources: 1,
        initiator_depth: 1,
        psn: Psn::new(7),
        retry_count: 7,
        mtu: 5,
        rnr_retry: 7,
        ..req::Repr::over(req::Path { ack_timeout: 10, ..path })
    }
}

fn reply(qpn: u32) -> rep::Repr {
    rep::Repr {
        qpn: Qpn::new(qpn),
        psn: Psn::new(9),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 15,
        rnr_retry: 7,
        ..rep::Repr::default()
    }
}

/// A process that listens on [`PORT`] and accepts nothing.
struct Listener {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Listener {
    fn start(address: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["connections::listener", "--exact", "--ignored", "--nocapture"])
            .env(ADDRESS, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut listener = Self { child, output };
        listener.says("listening");
        listener
    }

    fn says(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the helper has ended");
        }
    }

    fn kill(&mut self) {
        // SIGKILL: nothing of it runs any more.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Not a test: what a helper process runs.
#[test]
#[ignore = "run by the tests of this file, as a process of its own"]
fn listener() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let host = Host::open(&address);
    host.listen(PORT);
    println!("helper:listening");
    let CmEvent::Request { .. } = host.event() else { panic!("a request") };
    println!("helper:asked");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn connections_are_made_between_nics_that_share_an_address() {
    // The first NIC answers for QP1, but has no part in the conversation.
    let bystander = Host::open("127.0.36.1");
    let (server, client) = (Host::open("127.0.36.1"), Host::open("127.0.36.1"));
    server.listen(PORT);
    for qpn in 2..5 {
        client.converse(&server, "127.0.36.1", qpn);
    }
    // The requests alone: the kernel brings answers to their owner.
    let counts = bystander.nic.counts();
    assert_eq!((counts.rx_handed_over, counts.rx_packets), (3, 3), "{counts:?}");
    assert!(bystander.events.0.lock().unwrap().is_empty());
}

#[test]
fn a_request_for_a_port_where_nobody_listens_is_refused() {
    let (server, client) = (Host::open("127.0.36.2"), Host::open("127.0.36.3"));
    client.connect("127.0.36.2", 2);
    assert_eq!(client.rejection(), rej::Reason::INVALID_SERVICE);
    // A NIC with a port that does not listen does not matter.
    server.bind(PORT).unwrap();
    client.connect("127.0.36.2", 3);
    assert_eq!(client.rejection(), rej::Reason::INVALID_SERVICE);
}

#[test]
fn a_nic_that_knows_nothing_of_connections_refuses_them() {
    // Its neighbours are open, but not looked at.
    let address = "127.0.36.13";
    let _idle = [(); 4].map(|()| support::Host::open(address, QpType::Rc, 64));
    let busy = support::Host::open(address, QpType::Rc, 64);
    let client = Host::open("127.0.36.14");
    busy.nic.start();
    client.connect(address, 2);
    assert_eq!(client.rejection(), rej::Reason::INVALID_SERVICE);
}

#[test]
fn a_server_may_begin_to_listen_a_moment_after_it_is_asked() {
    let (server, client) = (Host::open("127.0.36.12"), Host::open("127.0.36.12"));
    let active = client.connect("127.0.36.12", 2);
    std::thread::sleep(Duration::from_millis(10));
    server.listen(PORT);
    server.accept_next(100);
    assert!(matches!(client.event(), CmEvent::Reply { id, .. } if id == active));
}

#[test]
fn a_port_has_one_owner_among_the_nics_of_an_address() {
    let (one, other) = (Host::open("127.0.36.4"), Host::open("127.0.36.4"));
    one.listen(PORT);
    assert!(matches!(other.bind(PORT), Err(PortError::InUse)));
    // The port is free at another address, and after it was given back.
    let elsewhere = Host::open("127.0.36.5");
    elsewhere.listen(PORT);
    one.nic.change_port(one.address, (TCP, PORT), PortChange::Release { listens: true }).unwrap();
    other.listen(PORT);
    drop(other);
    one.bind(PORT).unwrap();
    let free = one.bind(0).unwrap();
    assert!(free >= 32_768);
    assert!(matches!(elsewhere.bind(free), Ok(port) if port == free));
    let foreign = one.nic.change_port(elsewhere.address, (TCP, 9), BIND);
    assert!(matches!(foreign, Err(PortError::Address)));
}

#[test]
fn a_process_that_is_killed_in_the_middle_leaves_nothing_behind() {
    let client = Host::open("127.0.36.6");
    let mut listener = Listener::start("127.0.36.6");
    assert!(matches!(client.bind(PORT), Err(PortError::InUse)));
    let first = client.connect("127.0.36.6", 2);
    listener.says("asked");
    listener.kill();
    // The port is free, and the next listener gets the request.
    let server = Host::open("127.0.36.6");
    server.listen(PORT);
    client.nic.with_manager(|manager, now| manager.forget(now, first));
    client.connect("127.0.36.6", 3);
    let passive = server.accept_next(100);
    client.confirm_next();
    assert_eq!(server.event(), CmEvent::Established(passive));
    assert_eq!(client.nic.with_manager(|manager, _| manager.len()), 1);
}

#[test]
fn who_goes_tells_those_who_are_connected() {
    let (server, client) = (Host::open("127.0.36.7"), Host::open("127.0.36.8"));
    server.listen(PORT);
    let active = client.connect("127.0.36.7", 2);
    server.accept_next(100);
    client.confirm_next();
    while !matches!(server.event(), CmEvent::Established(_)) {}
    drop(server);
    assert_eq!(client.event(), CmEvent::Disconnected(active));
}

#[test]
fn what_is_no_message_is_counted_and_dropped() {
    let host = Host::open("127.0.36.10");
    let stranger = UdpSocket::bind("127.0.36.11:4791").unwrap();
    let send = |q_key, payload: &[u8]| {
        let header = roce::Repr {
            deth: Some(deth::Repr { q_key, source: Qpn::GSI }),
            ..roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(0))
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend(payload);
        let datagram = icrc::Datagram::between("127.0.36.11".parse().unwrap(), host.address);
        bytes.extend(icrc::compute(&datagram, &bytes).unwrap());
        stranger.send_to(&bytes, "127.0.36.10:4791").unwrap();
    };
    send(QKey::GSI, &[1; 256]);
    send(QKey::GSI, &[1; 64]);
    send(QKey(7), &[1; 256]);
    let started = Instant::now();
    let counted = || {
        let malformed = host.nic.with_manager(|manager, _| manager.stats().cm_rx_malformed);
        (malformed, host.nic.counts().rx_gsi_dropped)
    };
    while counted() != (2, 1) {
        assert!(started.elapsed() < PATIENCE, "{:?}", counted());
        std::thread::sleep(Duration::from_millis(1));
    }
}
