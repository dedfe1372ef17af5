//! Rsockets, both ends in one process: what programs know of sockets holds for them.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;
use core::time::Duration;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Instant;

use abi::{self, Plain, ibv_recv_wr, ibv_send_wr};
use ibverbs::memory::mr::ibv_reg_mr;
use ibverbs::rdmacm::abi::event;
use ibverbs::rdmacm::queue_pair::ferroce_rdma_destroy_qp;
use ibverbs::rdmacm::rsocket::closing::{ferroce_rclose, ferroce_rshutdown};
use ibverbs::rdmacm::rsocket::direct::{ferroce_riomap, ferroce_riounmap, ferroce_riowrite};
use ibverbs::rdmacm::rsocket::making::{
    ferroce_raccept, ferroce_rbind, ferroce_rconnect, ferroce_rlisten, ferroce_rsocket,
};
use ibverbs::rdmacm::rsocket::names::{ferroce_rgetpeername, ferroce_rgetsockname};
use ibverbs::rdmacm::rsocket::options::{ferroce_rfcntl, ferroce_rgetsockopt, ferroce_rsetsockopt};
use ibverbs::rdmacm::rsocket::poll::ferroce_rpoll;
use ibverbs::rdmacm::rsocket::repoll::{ferroce_repoll_create, ferroce_repoll_ctl};
use ibverbs::rdmacm::rsocket::select::ferroce_rselect;
use ibverbs::rdmacm::rsocket::transfer::{
    ferroce_rread, ferroce_rrecv, ferroce_rrecvmsg, ferroce_rsend, ferroce_rsendto, ferroce_rwritev,
};

use crate::support::{PATIENCE, Side, errno, loopback};

const SOL_RDMA: c_int = 0x10000;
const RDMA_RQSIZE: c_int = 1;
const RDMA_IOMAPSIZE: c_int = 3;
const LENGTH: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

/// An rsocket, closed at the end.
struct Socket(c_int);

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: a number that is looked up.
        unsafe { ferroce_rclose(self.0) };
    }
}

fn checked(result: isize) -> Result<usize, c_int> {
    usize::try_from(result).map_err(|_| errno())
}

fn done(result: c_int) -> Result<(), c_int> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

impl Socket {
    fn new(kind: c_int) -> Self {
        // SAFETY: plain numbers.
        let number = unsafe { ferroce_rsocket(libc::AF_INET, libc::SOCK_STREAM | kind, 0) };
        assert!(number >= 0, "{}", errno());
        Self(number)
    }

    fn listening() -> (Self, u16) {
        let socket = Self::new(0);
        let address = loopback(0);
        // SAFETY: an address and its length.
        unsafe {
            assert_eq!(ferroce_rbind(socket.0, (&raw const address).cast(), LENGTH), 0);
            assert_eq!(ferroce_rlisten(socket.0, 8), 0);
        }
        let port = socket.name();
        (socket, port)
    }

    fn name(&self) -> u16 {
        let (mut address, mut length) = (loopback(0), LENGTH);
        let place = (&raw mut address).cast();
        // SAFETY: room for an address, and its length.
        unsafe { assert_eq!(ferroce_rgetsockname(self.0, place, &raw mut length), 0) };
        u16::from_be(address.sin_port)
    }

    fn connect(&self, port: u16) -> Result<(), c_int> {
        let address = loopback(port);
        // SAFETY: an address and its length.
        done(unsafe { ferroce_rconnect(self.0, (&raw const address).cast(), LENGTH) })
    }

    fn accept(&self) -> Result<Self, c_int> {
        // SAFETY: NULL is allowed.
        let number = unsafe { ferroce_raccept(self.0, ptr::null_mut(), ptr::null_mut()) };
        if number < 0 { Err(errno()) } else { Ok(Self(number)) }
    }

    fn pair(listener: &Self, port: u16) -> (Self, Self) {
        let client = Self::new(0);
        thread::scope(|scope| {
            let server = scope.spawn(|| listener.accept().unwrap());
            client.connect(port).unwrap();
            (server.join().unwrap(), client)
        })
    }

    fn send(&self, bytes: &[u8], flags: c_int) -> Result<usize, c_int> {
        // SAFETY: live bytes.
        checked(unsafe { ferroce_rsend(self.0, bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    fn receive(&self, bytes: &mut [u8], flags: c_int) -> Result<usize, c_int> {
        // SAFETY: live bytes.
        checked(unsafe { ferroce_rrecv(self.0, bytes.as_mut_ptr().cast(), bytes.len(), flags) })
    }

    fn all(&self) -> Vec<u8> {
        let (mut all, mut bytes) = (Vec::new(), vec![0; 100_000]);
        loop {
            match self.receive(&mut bytes, 0).unwrap() {
                0 => return all,
                length => all.extend_from_slice(&bytes[..length]),
            }
        }
    }

    fn set(&self, level: c_int, name: c_int, value: c_int) -> Result<(), c_int> {
        let place = (&raw const value).cast::<c_void>();
        // SAFETY: a live integer.
        done(unsafe { ferroce_rsetsockopt(self.0, level, name, place, 4) })
    }

    fn get(&self, level: c_int, name: c_int) -> Result<c_int, c_int> {
        let (mut value, mut length) = (0, 4);
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: a live integer.
        done(unsafe { ferroce_rgetsockopt(self.0, level, name, place, &raw mut length) })?;
        Ok(value)
    }

    fn ready(&self, events: i16, timeout: c_int) -> i16 {
        let mut fds = [libc::pollfd { fd: self.0, events, revents: 0 }];
        // SAFETY: a live list.
        unsafe { ferroce_rpoll(fds.as_mut_ptr(), 1, timeout) };
        fds[0].revents
    }
}

/// Bytes that tell where they are.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn a_stream_arrives_whole_in_both_directions_and_ends() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    let bytes = pattern(3_000_001);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let all = server.all();
            assert_eq!(server.send(&all, 0), Ok(all.len()));
        });
        assert_eq!(client.send(&bytes, 0), Ok(bytes.len()));
        // SAFETY: a live socket.
        assert_eq!(unsafe { ferroce_rshutdown(client.0, libc::SHUT_WR) }, 0);
        assert_eq!(client.send(b"more", 0), Err(libc::EPIPE));
        let mut back = vec![0; bytes.len()];
        assert_eq!(client.receive(&mut back, libc::MSG_WAITALL), Ok(bytes.len()));
        assert!(back == bytes, "what came back is not what was sent");
        echo.join().unwrap();
    });
    drop(server);
    assert_eq!(client.receive(&mut [0; 1], 0), Ok(0));
    assert_ne!(client.ready(libc::POLLIN, 0) & libc::POLLHUP, 0);
}

#[test]
fn two_threads_of_each_end_send_and_receive_at_once() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    let bytes = pattern(1_000_000);
    thread::scope(|scope| {
        for (socket, other) in [(&server, "client"), (&client, "server")] {
            let bytes = &bytes;
            scope.spawn(move || assert_eq!(socket.send(bytes, 0), Ok(bytes.len())));
            scope.spawn(move || {
                let mut back = vec![0; bytes.len()];
                let received = socket.receive(&mut back, libc::MSG_WAITALL);
                assert_eq!(received, Ok(bytes.len()), "from the {other}");
                assert!(back == *bytes, "from the {other}");
            });
        }
    });
}

#[test]
fn one_thread_connects_to_itself() {
    let (listener, port) = Socket::listening();
    let client = Socket::new(libc::SOCK_NONBLOCK);
    assert_eq!(client.connect(port), Err(libc::EINPROGRESS));
    assert_eq!(listener.ready(libc::POLLIN, 10_000), libc::POLLIN);
    let server = listener.accept().unwrap();
    assert_eq!(client.ready(libc::POLLOUT, 10_000), libc::POLLOUT);
    assert_eq!(client.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
    assert_eq!(client.connect(port), Err(libc::EISCONN));
    assert_eq!(client.receive(&mut [0; 8], 0), Err(libc::EAGAIN));
    assert_eq!(server.ready(libc::POLLIN | libc::POLLOUT, 10_000), libc::POLLOUT);
    assert_eq!(server.send(b"hello", 0), Ok(5));
    assert_eq!(client.ready(libc::POLLIN, 10_000), libc::POLLIN);
    let mut bytes = [0; 8];
    assert_eq!(client.receive(&mut bytes, libc::MSG_PEEK), Ok(5));
    assert_eq!(client.receive(&mut bytes[..2], 0), Ok(2));
    assert_eq!(client.receive(&mut bytes[2..], 0), Ok(3));
    assert_eq!(&bytes[..5], b"hello");
}

#[test]
fn a_nonblocking_sender_stops_when_nobody_reads_and_goes_on_when_somebody_does() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    let bytes = pattern(100_000);
    let mut sent = 0;
    let deadline = Instant::now() + PATIENCE;
    // Not every attempt fails that finds nothing to send with at the moment.
    let mut failures = 0;
    while failures < 1000 {
        assert!(Instant::now() < deadline);
        match client.send(&bytes, libc::MSG_DONTWAIT) {
            Ok(length) => (sent, failures) = (sent + length, 0),
            Err(error) => {
                assert_eq!(error, libc::EAGAIN);
                failures += 1;
            }
        }
    }
    assert!(sent <= 2 * 131_072, "{sent} bytes, and the peer's buffer has 128 KiB");
    assert_eq!(client.ready(libc::POLLOUT, 0), 0);
    let mut all = vec![0; sent];
    assert_eq!(server.receive(&mut all, libc::MSG_WAITALL), Ok(sent));
    assert_eq!(client.ready(libc::POLLOUT, 10_000), libc::POLLOUT);
}

#[test]
fn who_is_not_there_refuses() {
    let (listener, port) = Socket::listening();
    drop(listener);
    let client = Socket::new(0);
    assert_eq!(client.connect(port), Err(libc::ECONNREFUSED));
    let client = Socket::new(libc::SOCK_NONBLOCK);
    assert_eq!(client.connect(port), Err(libc::EINPROGRESS));
    assert_ne!(client.ready(libc::POLLOUT, 10_000) & libc::POLLERR, 0);
    assert_eq!(client.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(libc::ECONNREFUSED));
}

#[test]
fn memory_of_one_end_is_written_by_the_other() {
    let (listener, port) = Socket::listening();
    listener.set(SOL_RDMA, RDMA_IOMAPSIZE, 1).unwrap();
    let client = Socket::new(0);
    client.set(SOL_RDMA, RDMA_IOMAPSIZE, 1).unwrap();
    let (server, client) = thread::scope(|scope| {
        let server = scope.spawn(|| listener.accept().unwrap());
        client.connect(port).unwrap();
        (server.join().unwrap(), client)
    });
    let bytes = pattern(300_000);
    let write = |offset, flags| {
        let (at, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: live bytes.
        checked(unsafe { ferroce_riowrite(client.0, at, length, offset, flags) })
    };
    assert_eq!(write(0, 0), Err(libc::EINVAL), "nothing is mapped");
    for round in 0..3 {
        let mut target = vec![0_u8; bytes.len()];
        let place = target.as_mut_ptr().cast::<c_void>();
        let offset = 1_000 * round;
        // SAFETY: live memory, which the test does not look at meanwhile.
        unsafe {
            let length = target.len();
            let mapped = ferroce_riomap(server.0, place, length, libc::PROT_WRITE, 0, offset);
            assert_eq!(mapped, offset);
            let second = ferroce_riomap(server.0, place, length, libc::PROT_WRITE, 0, 0);
            assert_eq!((second, errno()), (-1, libc::ENOMEM), "the table has one entry");
        }
        // The next message tells of it.
        server.send(b"go", 0).unwrap();
        client.receive(&mut [0; 2], libc::MSG_WAITALL).unwrap();
        assert_eq!(write(offset, 0), Ok(bytes.len()));
        client.send(b"ok", 0).unwrap();
        server.receive(&mut [0; 2], libc::MSG_WAITALL).unwrap();
        assert!(target == bytes, "round {round}");
        // SAFETY: as mapped.
        unsafe {
            assert_eq!(ferroce_riounmap(server.0, place, target.len()), 0);
            assert_eq!(ferroce_riounmap(server.0, place, target.len()), -1);
        }
    }
}

#[test]
fn credits_last_as_long_as_the_connection() {
    let (listener, port) = Socket::listening();
    let client = Socket::new(0);
    for socket in [&listener, &client] {
        socket.set(SOL_RDMA, RDMA_RQSIZE, 16).unwrap();
        socket.set(SOL_RDMA, RDMA_IOMAPSIZE, 1).unwrap();
    }
    let (server, client) = thread::scope(|scope| {
        let server = scope.spawn(|| listener.accept().unwrap());
        client.connect(port).unwrap();
        (server.join().unwrap(), client)
    });
    let mut memory = [0_u8; 64];
    // Maps take credits, too.
    for round in 0..200_u8 {
        let place = memory.as_mut_ptr().cast::<c_void>();
        // SAFETY: live memory.
        unsafe {
            assert_eq!(ferroce_riomap(server.0, place, 64, libc::PROT_WRITE, 0, 0), 0);
            assert_eq!(server.send(&[round], 0), Ok(1));
            assert_eq!(ferroce_riounmap(server.0, place, 64), 0);
        }
        let mut byte = [0];
        assert_eq!((client.receive(&mut byte, 0), byte), (Ok(1), [round]));
    }
}

#[test]
fn ordinary_descriptors_are_waited_for_beside_rsockets() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let events = libc::POLLIN;
    let mut fds =
        [client.0, reader.as_raw_fd(), -1].map(|fd| libc::pollfd { fd, events, revents: 7 });
    let mut poll = |timeout| {
        // SAFETY: a live list.
        let ready = unsafe { ferroce_rpoll(fds.as_mut_ptr(), 3, timeout) };
        (ready, fds.map(|fd| fd.revents))
    };
    let began = Instant::now();
    assert_eq!(poll(20), (0, [0, 0, 0]));
    assert!(began.elapsed() >= Duration::from_millis(20));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(30));
            writer.write_all(b"x").unwrap();
        });
        assert_eq!(poll(10_000), (1, [0, events, 0]));
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(30));
            server.send(b"x", 0).unwrap();
        });
        let mut one = libc::pollfd { fd: client.0, events, revents: 0 };
        // SAFETY: a live list.
        assert_eq!(unsafe { ferroce_rpoll(&raw mut one, 1, 10_000) }, 1);
    });
    assert_eq!(poll(10_000), (2, [events, events, 0]));
    // SAFETY: live sets and a time.
    unsafe {
        let mut set: libc::fd_set = mem::zeroed();
        for fd in [client.0, reader.as_raw_fd(), server.0] {
            libc::FD_SET(fd, &raw mut set);
        }
        let mut time = libc::timeval { tv_sec: 10, tv_usec: 0 };
        let (none, most) = (ptr::null_mut(), 1024);
        assert_eq!(ferroce_rselect(most, &raw mut set, none, none, &raw mut time), 2);
        assert!(libc::FD_ISSET(client.0, &raw const set));
        assert!(!libc::FD_ISSET(server.0, &raw const set));
        let epoll = ferroce_repoll_create(0);
        let mut event = libc::epoll_event { events: 1, u64: 0 };
        assert_eq!(ferroce_repoll_ctl(epoll, 1, client.0, &raw mut event), -1);
        assert_eq!(errno(), libc::EPERM);
        assert_eq!(ferroce_repoll_ctl(epoll, 1, reader.as_raw_fd(), &raw mut event), 0);
        libc::close(epoll);
    }
}

#[test]
fn a_socket_that_is_listed_several_times_wakes_whoever_waits_for_it() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    let bytes = pattern(16_000_000);
    thread::scope(|scope| {
        // It ends the stream at the end, whatever that is.
        let client = client;
        let reads = scope.spawn(|| server.all());
        // The longer the list, the more happens between its first entry and its last.
        let mut fds = [libc::pollfd { fd: client.0, events: libc::POLLIN, revents: 0 }; 100];
        fds[0].events = libc::POLLOUT;
        let mut sent = 0;
        while sent < bytes.len() {
            let (began, count) = (Instant::now(), fds.len() as libc::nfds_t);
            // SAFETY: a live list.
            let ready = unsafe { ferroce_rpoll(fds.as_mut_ptr(), count, 10_000) };
            assert_eq!((ready, fds[0].revents), (1, libc::POLLOUT), "after {sent} bytes");
            // When the time is over it looks again.
            let took = began.elapsed();
            assert!(took < Duration::from_secs(10), "after {sent} bytes nothing has woken it");
            sent += client.send(&bytes[sent..], libc::MSG_DONTWAIT).unwrap_or(0);
        }
        drop(client);
        assert!(reads.join().unwrap() == bytes, "what arrived is not what was sent");
    });
}

#[test]
fn who_waits_is_told_of_the_end_by_another_thread() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    thread::scope(|scope| {
        let reads = scope.spawn(|| client.receive(&mut [0; 1], 0));
        let polls = scope.spawn(|| client.ready(libc::POLLIN, 20_000));
        thread::sleep(Duration::from_millis(50));
        // SAFETY: a live socket.
        assert_eq!(unsafe { ferroce_rshutdown(client.0, libc::SHUT_RDWR) }, 0);
        assert_eq!(reads.join().unwrap(), Ok(0));
        assert_ne!(polls.join().unwrap() & libc::POLLIN, 0);
    });
    assert_eq!(server.receive(&mut [0; 1], 0), Ok(0));
}

#[test]
fn an_end_is_told_when_all_has_been_read() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    server.send(b"last", 0).unwrap();
    drop(server);
    let deadline = Instant::now() + PATIENCE;
    // It is known that the peer has gone.
    while client.ready(libc::POLLOUT, 0) & libc::POLLOUT == 0 || client.send(b"x", 0).is_ok() {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(client.ready(libc::POLLIN, 0), libc::POLLIN);
    assert_eq!(client.receive(&mut [0; 8], 0), Ok(4));
    assert_eq!(client.ready(libc::POLLIN, 0), libc::POLLIN | libc::POLLHUP);
    assert_eq!(client.receive(&mut [0; 8], 0), Ok(0));
}

#[test]
fn bad_calls_have_the_errno_of_their_man_pages() {
    // SAFETY: what is passed is checked before it is followed.
    unsafe {
        let refused = |domain, kind, protocol| {
            assert_eq!(ferroce_rsocket(domain, kind, protocol), -1);
            errno()
        };
        let unsupported = libc::EOPNOTSUPP;
        assert_eq!(refused(libc::AF_INET, libc::SOCK_DGRAM, 0), unsupported);
        assert_eq!(refused(libc::AF_UNIX, libc::SOCK_STREAM, 0), unsupported);
        assert_eq!(refused(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP), unsupported);

        let socket = Socket::new(libc::SOCK_CLOEXEC);
        let (mut name, mut length) = (loopback(0), LENGTH);
        let place = (&raw mut name).cast::<libc::sockaddr>();
        assert_eq!(ferroce_rgetpeername(socket.0, place, &raw mut length), -1);
        assert_eq!(errno(), libc::ENOTCONN);
        assert_eq!(ferroce_rgetsockname(socket.0, place, ptr::null_mut()), -1);
        assert_eq!(errno(), libc::EFAULT);
        assert_eq!(socket.send(b"x", 0), Err(libc::ENOTCONN));
        assert_eq!(socket.receive(&mut [0], 0), Err(libc::ENOTCONN));
        assert_eq!(done(ferroce_rshutdown(socket.0, libc::SHUT_RDWR)), Err(libc::ENOTCONN));
        assert_eq!(socket.accept().err(), Some(libc::EINVAL));
        assert_eq!(done(ferroce_rbind(socket.0, place, 3)), Err(libc::EINVAL));
        assert_eq!(done(ferroce_rconnect(socket.0, ptr::null(), 16)), Err(libc::EFAULT));
        assert_eq!(done(ferroce_rpoll(ptr::null_mut(), 1, 0)), Err(libc::EFAULT));
        assert_eq!(ferroce_rpoll(ptr::null_mut(), 0, 0), 0);

        let (listener, port) = Socket::listening();
        assert_eq!(listener.connect(port), Err(libc::EINVAL));
        let (server, client) = Socket::pair(&listener, port);
        let sent = ferroce_rsendto(client.0, b"x".as_ptr().cast(), 1, 0, place, LENGTH);
        assert_eq!((sent, errno()), (-1, libc::EISCONN));
        assert_eq!(checked(ferroce_rread(client.0, ptr::null_mut(), 1)), Err(libc::EFAULT));
        assert_eq!(checked(ferroce_rwritev(client.0, ptr::null(), -1)), Err(libc::EINVAL));
        assert_eq!(checked(ferroce_rrecvmsg(client.0, ptr::null_mut(), 0)), Err(libc::EFAULT));
        assert_eq!(done(ferroce_rshutdown(client.0, 7)), Err(libc::EINVAL));
        assert_eq!(client.send(&[], 0), Ok(0));
        assert_eq!(done(ferroce_rfcntl(client.0, libc::F_GETLK, 0)), Err(unsupported));
        let flags = ferroce_rfcntl(client.0, libc::F_GETFL, 0);
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        drop(server);

        let number = client.0;
        drop(client);
        assert_eq!(done(ferroce_rclose(number)), Err(libc::EBADF));
        assert_eq!(Socket(number).send(b"x", 0), Err(libc::EBADF));
    }
}

#[test]
fn options_are_those_of_sockets() {
    let socket = Socket::new(0);
    let (sol, tcp) = (libc::SOL_SOCKET, libc::IPPROTO_TCP);
    assert_eq!(socket.get(sol, libc::SO_TYPE), Ok(libc::SOCK_STREAM));
    for (level, name) in [(sol, libc::SO_REUSEADDR), (tcp, libc::TCP_NODELAY)] {
        assert_eq!(socket.get(level, name), Ok(0));
        socket.set(level, name, 1).unwrap();
        assert_eq!(socket.get(level, name), Ok(1));
    }
    socket.set(sol, libc::SO_RCVBUF, 1 << 19).unwrap();
    assert_eq!(socket.get(sol, libc::SO_RCVBUF), Ok(1 << 20));
    assert_eq!(socket.get(sol, libc::SO_BINDTODEVICE), Err(libc::EOPNOTSUPP));
    assert_eq!(socket.set(tcp, libc::TCP_CORK, 1), Err(libc::EOPNOTSUPP));
    let (mut info, mut length) = ([7_u8; 32], 24);
    let place = info.as_mut_ptr().cast();
    // SAFETY: as many bytes as are told, and more.
    let told =
        unsafe { ferroce_rgetsockopt(socket.0, tcp, libc::TCP_INFO, place, &raw mut length) };
    assert_eq!((told, length, info[23], info[24]), (0, 24, 0, 7), "TCP's figures are zeros");
    let (listener, port) = Socket::listening();
    listener.set(SOL_RDMA, RDMA_RQSIZE, 20).unwrap();
    let (server, _client) = Socket::pair(&listener, port);
    assert_eq!(server.get(SOL_RDMA, RDMA_RQSIZE), Ok(20), "a listener's sockets have its sizes");
    assert_eq!(server.set(SOL_RDMA, RDMA_RQSIZE, 30), Err(libc::EINVAL));
}

/// A peer that speaks RDMA CM, and says what it likes.
struct Stranger {
    side: Side,
    /// Where the socket offers places to write to.
    list: Box<[u8; 64]>,
    key: u32,
}

impl Stranger {
    fn new(port: u16) -> Self {
        let side = Side::toward(port);
        let mut list = Box::new([0_u8; 64]);
        // SAFETY: calls as a C program makes them, with memory that lives as long as the queue pair.
        let key = unsafe {
            let id = *side.id;
            // LOCAL_WRITE and REMOTE_WRITE.
            let access = 1 | 1 << 1;
            let region = ibv_reg_mr(id.pd, list.as_mut_ptr().cast(), list.len(), access);
            assert!(!region.is_null());
            let mut wr = ibv_recv_wr::zeroed();
            let (post, mut bad) = ((*id.verbs).ops.post_recv.unwrap(), ptr::null_mut());
            assert_eq!(post(id.qp, &raw mut wr, &raw mut bad), 0);
            (*region).rkey
        };
        Self { side, list, key }
    }

    /// What an rsocket says while it connects, with a list of this key.
    fn greeting(&self, key: u32) -> [u8; 40] {
        let mut bytes = [0; 40];
        (bytes[0], bytes[3]) = (1, 16);
        bytes[8..16].copy_from_slice(&(self.list.as_ptr().addr() as u64).to_be_bytes());
        bytes[16..20].copy_from_slice(&key.to_be_bytes());
        bytes[20..24].copy_from_slice(&2_u32.to_be_bytes());
        bytes
    }

    fn connect(&self, greeting: &[u8]) -> u32 {
        assert_eq!(self.side.connect(greeting), 0);
        self.side.next().kind
    }

    /// Sends nothing but immediate data.
    fn say(&self, immediate: [u8; 4]) {
        let mut wr = ibv_send_wr::zeroed();
        wr.opcode = abi::IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.imm_data = u32::from_ne_bytes(immediate);
        // SAFETY: a queue pair of the id, and a request without data.
        unsafe {
            let id = *self.side.id;
            let (post, mut bad) = ((*id.verbs).ops.post_send.unwrap(), ptr::null_mut());
            assert_eq!(post(id.qp, &raw mut wr, &raw mut bad), 0);
        }
    }
}

#[test]
fn who_speaks_another_protocol_is_refused_and_the_next_is_accepted() {
    let (listener, port) = Socket::listening();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept().unwrap());
        let rejected = event::REJECTED;
        assert_eq!(Stranger::new(port).connect(b"hello"), rejected);
        assert_eq!(Stranger::new(port).connect(&[2; 40]), rejected);
        let client = Socket::new(0);
        client.connect(port).unwrap();
        assert_eq!(client.send(b"x", 0), Ok(1));
        assert_eq!(accepted.join().unwrap().receive(&mut [0; 8], 0), Ok(1));
    });
}

#[test]
fn a_peer_that_breaks_the_protocol_loses_its_connection_and_no_other() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    let data = |bytes: u32| bytes.to_be_bytes();
    // More than the buffer has, at once and after some that it has; a kind that is none, then too much.
    let table: [&[[u8; 4]]; 3] =
        [&[data(1 << 28)], &[data(65_536), data(131_073)], &[[0x40, 0, 0, 0], data(0x1fff_ffff)]];
    for said in table {
        let stranger = Stranger::new(port);
        let victim = thread::scope(|scope| {
            let accepted = scope.spawn(|| listener.accept().unwrap());
            let greeting = stranger.greeting(stranger.key);
            assert_eq!(stranger.connect(&greeting), event::ESTABLISHED);
            accepted.join().unwrap()
        });
        said.iter().for_each(|immediate| stranger.say(*immediate));
        let mut bytes = vec![0; 200_000];
        let ended = core::iter::repeat_with(|| victim.receive(&mut bytes, 0)).find(Result::is_err);
        assert_eq!(ended, Some(Err(libc::ECONNRESET)), "{said:?}");
        assert_ne!(victim.ready(libc::POLLIN, 0) & libc::POLLERR, 0);
    }
    // A list that is nowhere.
    let stranger = Stranger::new(port);
    let victim = thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept().unwrap());
        let greeting = stranger.greeting(stranger.key ^ 0xff00);
        assert_eq!(stranger.connect(&greeting), event::ESTABLISHED);
        accepted.join().unwrap()
    });
    assert_eq!(victim.receive(&mut [0; 8], 0), Err(libc::ECONNRESET));
    assert_eq!(client.send(b"x", 0), Ok(1));
    assert_eq!(server.receive(&mut [0; 8], 0), Ok(1));
}

#[test]
fn who_waits_for_a_peer_that_is_gone_notices_by_keeping_alive() {
    let (listener, port) = Socket::listening();
    let keeps = || {
        let stranger = Stranger::new(port);
        let victim = thread::scope(|scope| {
            let accepted = scope.spawn(|| listener.accept().unwrap());
            let greeting = stranger.greeting(stranger.key);
            assert_eq!(stranger.connect(&greeting), event::ESTABLISHED);
            accepted.join().unwrap()
        });
        victim.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1).unwrap();
        victim.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1).unwrap();
        // Its first message of all, which takes the stranger's only receive request.
        assert_eq!(victim.ready(libc::POLLIN, 100), 0);
        // SAFETY: a live id. Without its queue pair nobody answers any more.
        unsafe { ferroce_rdma_destroy_qp(stranger.side.id) };
        (stranger, victim)
    };
    let ((_one, reads), (_other, polls)) = (keeps(), keeps());
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(reads.receive(&mut [0], 0), Err(libc::ETIMEDOUT)));
        scope.spawn(|| assert_ne!(polls.ready(libc::POLLIN, 20_000) & libc::POLLERR, 0));
    });
}

#[test]
fn a_forked_child_has_none_of_its_parents_sockets_and_ends_none() {
    let (listener, port) = Socket::listening();
    let (server, client) = Socket::pair(&listener, port);
    // SAFETY: the child makes calls that are refused at once, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let sent =
                ferroce_rsend(client.0, b"x".as_ptr().cast(), 1, 0) == -1 && errno() == libc::EBADF;
            let closed = ferroce_rclose(client.0) == -1 && errno() == libc::EBADF;
            libc::_exit(if sent && closed { 0 } else { 1 });
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0);
    }
    assert_eq!(client.send(b"x", 0), Ok(1));
    assert_eq!(server.receive(&mut [0; 8], 0), Ok(1));
}

#[test]
fn a_hundred_connections_leave_no_descriptor_behind() {
    let (listener, port) = Socket::listening();
    // The first opens what all share.
    drop(Socket::pair(&listener, port));
    let last = || Socket::new(0).0;
    let before = last();
    for _ in 0..100 {
        let (server, client) = Socket::pair(&listener, port);
        client.send(b"x", 0).unwrap();
        assert_eq!(server.receive(&mut [0; 8], 0), Ok(1));
    }
    // Descriptors are the lowest that are free; other tests have some.
    assert!(last() < before + 100, "{} after {before}", last());
}
