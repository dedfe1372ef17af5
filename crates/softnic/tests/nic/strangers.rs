//! Other users of the host, who know everything that a packet of a connection says, and try to be the peer.
//!
//! Each is a process of the user `nobody`, where the tests may become one.

use core::cell::Cell;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use rdma::{Access, QpType, Qpn};
use softnic::limits::SLOT_SHIFT;
use softnic::{Counts, Nic, Options, PathChoice};
use wire::opcode::{Part, Service};
use wire::udp::ROCE_PORT;
use wire::{Opcode, reth, roce};

use crate::forger::Forger;
use crate::fork::in_child;
use crate::support::{FIRST_PSN, Host, PATIENCE, SEND, pair_with};

const NOBODY: libc::uid_t = 65_534;

/// Runs `stranger` in a process of another user, if we may make one.
fn as_another_user(stranger: impl FnOnce()) {
    assert!(in_child(|| {
        become_another_user();
        stranger();
    }));
}

/// Becomes another user, in a process of one thread that may.
pub(crate) fn become_another_user() {
    // SAFETY: plain calls.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!((libc::setgid(NOBODY), libc::setuid(NOBODY)), (0, 0));
        }
    }
}

/// Somebody with `port` at `own` sends the very packet that the peer of `victim` would send next: a WRITE
/// for which all is granted. It is counted by `counter`, and changes nothing.
fn is_refused(path: PathChoice, third: u8, (own, port): (u8, u16), counter: fn(&Counts) -> u64) {
    let options = Options { path, ..Options::default() };
    let (a, b) = pair_with(third, QpType::Rc, 8192, &options);
    let [own, peer, victim] = [own, 1, 2].map(|last| Ipv4Addr::new(127, 0, third, last));
    let sent = Cell::new(0);
    let genuine = || {
        sent.set(sent.get() + 1);
        b.post_recv(7, b.sge(4096, 100));
        a.post(8, SEND, a.sge(0, 100));
        a.completions(1);
        b.completions(1);
    };
    if path == PathChoice::SharedMemory {
        a.until_by_ring(genuine);
    }
    genuine();
    let next = FIRST_PSN.plus(sent.get());
    let (qpn, address, key, before) = (b.qpn, b.address(), b.key, b.memory.to_vec());
    as_another_user(|| {
        let forger = Forger::new(own, port, peer);
        let opcode = Opcode::write(Service::Rc, Part::Only, false);
        let mut header = roce::Repr::new(opcode, qpn, next);
        header.reth = Some(reth::Repr { address, r_key: key, length: 64 });
        forger.send(victim, &forger.seal(victim, &header, &[0xbd; 64]));
    });
    let began = Instant::now();
    while counter(&b.nic.counts()) == 0 {
        assert!(began.elapsed() < PATIENCE, "not counted: {:?}", b.nic.counts());
        b.nic.poll();
    }
    assert!(*b.memory == before);
    genuine();
}

#[test]
fn another_user_cannot_send_from_another_port_of_the_peers_address() {
    is_refused(PathChoice::Udp, 81, (1, 0), |counts| counts.rx_local_port_dropped);
}

#[test]
fn another_user_cannot_send_by_udp_what_comes_through_a_ring() {
    is_refused(PathChoice::SharedMemory, 82, (99, ROCE_PORT), |counts| {
        counts.rx_beside_ring_dropped
    });
}

/// Whether this process may become another user.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        eprintln!("skipped: only root can become another user");
    }
    is_root
}

/// Where a NIC's mailboxes are, as everybody can read.
pub(crate) fn mailboxes(nic: &Nic) -> Vec<String> {
    let slot = (nic.with(|endpoint, _, _| endpoint.config().qpns.start) >> SLOT_SHIFT).to_string();
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    let paths = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
    let is_its = |path: &&str| path.contains("/ferroce") && path.split('-').nth(3) == Some(&slot);
    paths.filter(is_its).map(str::to_owned).collect()
}

#[test]
fn another_user_cannot_send_to_mailboxes() {
    let options = Options { path: PathChoice::SharedMemory, ..Options::default() };
    let (a, b) = pair_with(84, QpType::Rc, 8192, &options);
    if !is_root() {
        return;
    }
    let all = [&a, &b].map(|host| mailboxes(&host.nic));
    assert!(all.iter().all(|names| names.len() == 2), "{all:?}");
    as_another_user(|| {
        let socket = UnixDatagram::unbound().unwrap();
        for path in all.iter().flatten() {
            let sent = socket.send_to(b"FRH\x01", path);
            assert_eq!(sent.err().map(|error| error.kind()), Some(ErrorKind::PermissionDenied));
        }
    });
    let round = || {
        b.post_recv(7, b.sge(4096, 100));
        a.post(8, SEND, a.sge(0, 100));
        a.completions(1);
        b.completions(1);
    };
    a.until_by_ring(round);
    for host in [&a, &b] {
        let counts = host.nic.counts();
        assert_eq!((counts.rings_refused, counts.rx_taken_over), (0, 0), "{counts:?}");
        assert!(counts.rings_taken <= 1 && counts.rx_handover_dropped == 0, "{counts:?}");
    }
}

#[test]
fn another_user_does_not_get_at_what_nics_share() {
    let _host = Host::open("127.0.85.1", QpType::Rc, 4096);
    if !is_root() {
        return;
    }
    let folder = "/dev/shm/ferroce-0";
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(files.iter().any(|path| path.to_str().unwrap().contains("/slots-")), "{files:?}");
    as_another_user(|| {
        let denied = Some(ErrorKind::PermissionDenied);
        assert_eq!(std::fs::read_dir(folder).err().map(|error| error.kind()), denied);
        for path in &files {
            assert_eq!(std::fs::File::open(path).err().map(|error| error.kind()), denied);
        }
        assert_eq!(std::fs::rename(folder, "/dev/shm/mine").err().map(|it| it.kind()), denied);
        let port = std::net::UdpSocket::bind((Ipv4Addr::new(127, 0, 85, 1), ROCE_PORT));
        assert_eq!(port.err().map(|error| error.kind()), Some(ErrorKind::AddrInUse));
    });
}

/// A socket on port 4791 of an address that no host here has, as anybody may have one.
fn at_an_address_that_is_not_here() -> std::io::Result<std::net::UdpSocket> {
    let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
    // SAFETY: plain numbers; the descriptor is owned by nobody else; all zeros are valid for the name.
    unsafe {
        let fd = libc::socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let socket = std::net::UdpSocket::from_raw_fd(fd);
        let yes = 1;
        let mut name: libc::sockaddr_in6 = core::mem::zeroed();
        name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        name.sin6_port = ROCE_PORT.to_be();
        name.sin6_addr.s6_addr = address.octets();
        let (level, option) = (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND);
        let length = |it: usize| it as libc::socklen_t;
        let set = libc::setsockopt(fd, level, option, (&raw const yes).cast(), length(4));
        let bound = libc::bind(fd, (&raw const name).cast(), length(size_of_val(&name)));
        if (set, bound) == (0, 0) { Ok(socket) } else { Err(std::io::Error::last_os_error()) }
    }
}

#[test]
fn over_ipv6_another_user_cannot_be_a_host_that_is_not_here() {
    if at_an_address_that_is_not_here().is_err() {
        eprintln!("skipped: there is no IPv6 here");
        return;
    }
    let host = Host::open("::1", QpType::Rc, 4096);
    // NICs of other tests have the address, too: it goes to the one that it names.
    let mut packet = [0; 64];
    packet[4..8].copy_from_slice(&host.qpn.value().to_be_bytes());
    as_another_user(|| {
        let socket = at_an_address_that_is_not_here().unwrap();
        assert_eq!(socket.send_to(&packet, (Ipv6Addr::LOCALHOST, ROCE_PORT)).unwrap(), 64);
    });
    let began = Instant::now();
    while host.nic.counts().rx_local_port_dropped == 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", host.nic.counts());
        host.nic.poll();
    }
}

/// An ICMP message to `to`, whose datagram from ROCE_PORT to `beyond` would not fit: RFC 1191, section 4. Returns
/// whether this process may send one.
fn says_that_the_path_is_narrow(to: Ipv4Addr, beyond: Ipv4Addr) -> bool {
    // SAFETY: plain numbers; the descriptor is owned by nobody else.
    let socket = unsafe {
        let fd =
            libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMP);
        if fd < 0 {
            return false;
        }
        std::net::UdpSocket::from_raw_fd(fd)
    };
    const NARROW: u16 = 552;
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(NARROW.to_be_bytes());
    // The header of the datagram in question, and its ports.
    message.extend([0x45, 0, 16, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    message.extend(to.octets().into_iter().chain(beyond.octets()));
    message.extend([ROCE_PORT.to_be_bytes(), ROCE_PORT.to_be_bytes(), [16, 8], [0; 2]].concat());
    let words = message.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = !(((sum >> 16) + (sum & 0xffff)) as u16);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    socket.send_to(&message, (to, 0)).unwrap();
    true
}

#[test]
fn who_says_that_a_path_is_narrow_ends_no_connection() {
    let options = Options { path: PathChoice::Udp, ..Options::default() };
    let (a, b) = pair_with(86, QpType::Rc, 8192, &options);
    let [near, far] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 86, last));
    let round = || {
        b.post_recv(7, b.sge(4096, 4000));
        a.post(8, SEND, a.sge(0, 4000));
        a.completions(1);
        b.completions(1);
    };
    round();
    if !says_that_the_path_is_narrow(near, far) {
        eprintln!("skipped: only root can send ICMP messages");
        return;
    }
    // The kernel has believed it, and holds others to it, which ask for that.
    let other = std::net::UdpSocket::bind((near, 0)).unwrap();
    let (level, name, strictly) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO);
    // SAFETY: the option is an integer.
    let set = unsafe {
        let length = size_of_val(&strictly) as libc::socklen_t;
        libc::setsockopt(other.as_raw_fd(), level, name, (&raw const strictly).cast(), length)
    };
    assert_eq!(set, 0);
    let refused = other.send_to(&[0; 4000], (far, 9)).err().and_then(|error| error.raw_os_error());
    assert_eq!(refused, Some(libc::EMSGSIZE));
    round();
    assert_eq!(a.nic.counts().tx_errors, 0, "{:?}", a.nic.counts());
}

#[test]
fn queue_pair_numbers_and_keys_are_not_counted_up() {
    let host = Host::open("127.0.83.1", QpType::Rc, 4096);
    let qpns: Vec<Qpn> = (0..8).map(|_| host.create_qp(QpType::Rc)).collect();
    let place = |qpn: &Qpn| qpn.value() & ((1 << SLOT_SHIFT) - 1);
    let first = place(&host.qpn);
    assert!(!qpns.iter().map(place).eq(first + 1..first + 9), "{first:#x} and {qpns:?}");
    // Each drawn at random from 255.
    let tags: Vec<u8> = (0..8)
        .map(|_| {
            let key = host.register(host.address(), 8, Access::NONE);
            host.nic.with(|endpoint, _, _| endpoint.deregister(key)).unwrap();
            key.0 as u8
        })
        .collect();
    let steps = tags.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    assert!(steps.clone().any(|step| step != 1) && steps.clone().all(|step| step != 0), "{tags:?}");
}
