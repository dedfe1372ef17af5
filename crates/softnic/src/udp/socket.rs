//! One UDP socket: an address of the port, with everything that RoCE needs of the kernel.
//!
//! It is never connected. An unconnected socket that may not fragment sends IP identification 0
//! (and 0, 1, 2... for the segments of a GSO batch), so that the sender's ICRC, which covers the
//! identification, is exact. A connected one starts at random.
//!
//! Packets within the host leave from port 4791 as well, those to other hosts by further sockets
//! ([`crate::udp::departures`]), which receive nothing.

use core::ffi::c_int;
use core::mem::{self, MaybeUninit};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rdma::Gid;
use wire::udp::ROCE_PORT;

use crate::limits::{HOP_LIMIT, MESSAGES_MAX, SOCKET_BUFFER_BYTES};
use crate::packet::{Message, Received};
use crate::sys::{self, Plain, check, set_option};

/// The index of the loopback interface in every network namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// The classic BPF instruction that ends a program with a constant.
const BPF_RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A BPF program as the kernel is told of it, `sock_fprog`, whose padding is a field: a compiler leaves padding that
/// is none as it was, and valgrind complains of it.
#[repr(C)]
struct NamedProgram {
    len: u16,
    padding: [u16; 3],
    filter: *const libc::sock_filter,
}

const _: () = assert!(
    size_of::<NamedProgram>() == size_of::<libc::sock_fprog>()
        && mem::offset_of!(NamedProgram, filter) == mem::offset_of!(libc::sock_fprog, filter)
);

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    address: IpAddr,
    gid: Gid,
    /// Scope of link-local addresses.
    interface: u32,
}

impl Socket {
    /// A socket on port 4791 of `address`, in the group of those that share it. What the kernel is
    /// asked for as receive buffer is `receive_buffer` bytes.
    pub(crate) fn bind(address: IpAddr, interface: u32, receive_buffer: c_int) -> io::Result<Self> {
        let socket = Self::open(address, interface, receive_buffer)?;
        socket.share_port()?;
        socket.take_name(ROCE_PORT)?;
        Ok(socket)
    }

    /// A socket that gets a copy of what is sent to port 4791 of the multicast group `group` on
    /// `interface`, and sends nothing.
    pub(crate) fn join(group: IpAddr, interface: u32, receive_buffer: c_int) -> io::Result<Self> {
        let socket = Self::open(group, interface, receive_buffer)?;
        let set = |level, name, value: c_int| set_option(socket.as_fd(), level, name, value);
        // Any number of users have the same group: nobody takes packets from another by this.
        set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        match group {
            IpAddr::V4(_) => set(libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?,
            IpAddr::V6(_) => {
                /// `linux/in6.h`, since Linux 4.20; before, groups of other interfaces come too.
                const IPV6_MULTICAST_ALL: c_int = 29;
                let _ = set(libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
            }
        }
        socket.take_name(ROCE_PORT)?;
        sys::join_group(socket.as_fd(), group, interface)?;
        Ok(socket)
    }

    /// A socket on `port` of the same address, which sends and receives nothing. Other processes of this user may
    /// have the port too.
    pub(crate) fn open_beside(&self, port: u16) -> io::Result<Self> {
        let socket = Self::open(self.address, self.interface, 0)?;
        let nothing = [libc::sock_filter { code: BPF_RETURN, jt: 0, jf: 0, k: 0 }];
        socket.set_program(libc::SO_ATTACH_FILTER, &nothing)?;
        socket.share_port()?;
        socket.take_name(port)?;
        Ok(socket)
    }

    fn open(address: IpAddr, interface: u32, receive_buffer: c_int) -> io::Result<Self> {
        let fd = sys::udp_socket(address.is_ipv4())?;
        let socket = Self { fd, address, gid: address.into(), interface };
        socket.configure(receive_buffer)?;
        Ok(socket)
    }

    /// Other sockets of this user may have its name too.
    fn share_port(&self) -> io::Result<()> {
        set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        if self.address.is_ipv6() {
            // For a second or two after an interface is up, its address is checked for duplicates and
            // nobody can bind to it. Its GID is in the table all the same, as that of a kernel's
            // device is. Kernels before 4.15 do not know the option.
            let _ = set_option(self.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1);
        }
        Ok(())
    }

    fn take_name(&self, port: u16) -> io::Result<()> {
        let (name, length) = self.name(self.address, port);
        // SAFETY: `name` is a socket address of `length` bytes.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const name).cast(), length) })?;
        Ok(())
    }

    fn configure(&self, receive_buffer: c_int) -> io::Result<()> {
        let fd = self.fd.as_fd();
        let set = |level, name, value: c_int| set_option(fd, level, name, value);
        // Never in fragments, and never shorter because an ICMP message says so: anybody could send it, and
        // the path MTU of a connection is what its ends have agreed on.
        if self.address.is_ipv4() {
            set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
            set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
            set(libc::IPPROTO_IP, libc::IP_TTL, HOP_LIMIT.into())?;
            set(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, HOP_LIMIT.into())?;
        } else {
            set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
            set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, HOP_LIMIT.into())?;
            set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, HOP_LIMIT.into())?;
        }
        sys::send_groups_by(fd, self.address.is_ipv4(), self.interface)?;
        // Kernels without it (before 5.0) deliver each datagram by itself, and that is all.
        let _ = set(libc::SOL_UDP, libc::UDP_GRO, 1);
        for (forced, plain, bytes) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SOCKET_BUFFER_BYTES),
        ] {
            set(libc::SOL_SOCKET, forced, bytes)
                .or_else(|_| set(libc::SOL_SOCKET, plain, bytes))?;
        }
        Ok(())
    }

    /// What the kernel really grants as receive buffer.
    pub(crate) fn receive_buffer_bytes(&self) -> u64 {
        let bytes: io::Result<c_int> =
            sys::option(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF);
        bytes.map_or(0, |bytes| u64::from(bytes.unsigned_abs()))
    }

    /// What the kernel has dropped for want of room, since the socket was opened.
    pub(crate) fn overflows(&self) -> u64 {
        // linux/sock_diag.h: the last of nine numbers is SK_MEMINFO_DROPS.
        let numbers: io::Result<[u32; 9]> =
            sys::option(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO);
        numbers.map_or(0, |numbers| numbers[8].into())
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// The address as GIDs have it.
    pub(crate) fn gid(&self) -> Gid {
        self.gid
    }

    /// Makes `program` choose the socket of each packet, for the whole group.
    pub(crate) fn attach(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        self.set_program(libc::SO_ATTACH_REUSEPORT_CBPF, program)
    }

    fn set_program(&self, option: c_int, program: &[libc::sock_filter]) -> io::Result<()> {
        let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let named = NamedProgram { len, padding: [0; 3], filter: program.as_ptr() };
        // SAFETY: the kernel reads the program, whose length is given and which lives long enough.
        check(unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const named).cast(),
                size_of::<NamedProgram>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    /// Whether one may send from `address` here, as far as this socket's interface goes.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub(crate) fn may_be_bound(&self, address: IpAddr) -> io::Result<bool> {
        let (name, length) = self.name(address, 0);
        let socket = sys::udp_socket(self.address.is_ipv4())?;
        // SAFETY: `name` is a socket address of `length` bytes.
        match check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length) }) {
            Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(false),
            bound => bound.map(|_| true),
        }
    }

    /// The longest packet that the path to `destination` takes, as far as the kernel knows: by the interface, the
    /// route, and what routers have told of packets of this host.
    ///
    /// # Errors
    /// No route leads there.
    pub(crate) fn path_bytes(&self, destination: IpAddr) -> io::Result<u32> {
        let (name, length) = self.name(destination, ROCE_PORT);
        let is_ipv4 = self.address.is_ipv4();
        let socket = sys::udp_socket(is_ipv4)?;
        // SAFETY: `name` is a socket address of `length` bytes.
        check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), length) })?;
        let (level, name) = if is_ipv4 {
            (libc::IPPROTO_IP, libc::IP_MTU)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        };
        let bytes: c_int = sys::option(socket.as_fd(), level, name)?;
        u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Takes the next datagram, or GSO batch; `None` if there is none.
    ///
    /// An error that the kernel reports on a socket (an ICMP that it has kept) is not about a
    /// packet that we would receive, so the next one is taken.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<Received> {
        let mut name = Name::EMPTY;
        let mut control = [const { MaybeUninit::<u64>::uninit() }; CONTROL_WORDS];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all zeros are valid for this plain C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        for _ in 0..2 {
            header.msg_name = (&raw mut name).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_iov = &raw mut piece;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            // SAFETY: every pointer in the header is to a live place of the length beside it.
            match unsafe { sys::receive_message(self.fd.as_fd(), &mut header, 0) } {
                // SAFETY: the kernel has filled `name` and the control messages of `header`.
                Ok(length) => return Some(unsafe { self.read_header(length, &name, &header) }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// # Safety
    /// `name` and `header` are as recvmsg has left them.
    unsafe fn read_header(&self, length: usize, name: &Name, header: &libc::msghdr) -> Received {
        // SAFETY: a socket of one family receives names of that family.
        let (source, source_port): (IpAddr, _) = unsafe {
            if self.address.is_ipv4() {
                (Ipv4Addr::from(name.v4.sin_addr.s_addr.to_ne_bytes()).into(), name.v4.sin_port)
            } else {
                (Ipv6Addr::from(name.v6.sin6_addr.s6_addr).into(), name.v6.sin6_port)
            }
        };
        let mut received = Received {
            length,
            segment: length,
            source,
            source_port: u16::from_be(source_port),
            traffic_class: 0,
            id: 0,
            by_loopback: false,
        };
        // SAFETY: the macros walk the control messages of a header that the kernel has filled; the
        // data of each of these types is as long as what is read.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while !message.is_null() {
                let data = libc::CMSG_DATA(message);
                match ((*message).cmsg_level, (*message).cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_TOS) => received.traffic_class = data.read(),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        received.traffic_class =
                            data.cast::<c_int>().read_unaligned().to_le_bytes()[0];
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        received.by_loopback = info.ipi6_ifindex == LOOPBACK;
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let segment = data.cast::<c_int>().read_unaligned();
                        received.segment =
                            usize::try_from(segment).unwrap_or(length).clamp(1, length.max(1));
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        received
    }

    /// Sends messages, up to [`MESSAGES_MAX`], and returns how many were taken.
    ///
    /// # Errors
    /// What the kernel said to the first message, if it took none.
    pub(crate) fn send(&self, messages: &[Message<'_>]) -> io::Result<usize> {
        let count = messages.len().min(MESSAGES_MAX);
        if count == 1 {
            // The path of a short message: no array of thirty-two to prepare.
            return self.send_some::<1>(&messages[..1]);
        }
        self.send_some::<MESSAGES_MAX>(&messages[..count])
    }

    /// `messages` are from one to `N`.
    fn send_some<const N: usize>(&self, messages: &[Message<'_>]) -> io::Result<usize> {
        // Most calls have few messages: what the others would need is not even zeroed.
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; N];
        let mut parts = [const { MaybeUninit::<Parts>::uninit() }; N];
        for ((header, parts), message) in headers.iter_mut().zip(&mut parts).zip(messages) {
            let (name, name_length) = self.name(message.destination.ip(), ROCE_PORT);
            let piece = libc::iovec {
                iov_base: message.bytes.as_ptr().cast_mut().cast(),
                iov_len: message.bytes.len(),
            };
            let parts = parts.write(Parts { name, piece, control: Control::new() });
            self.write_control(&mut parts.control, message);
            // SAFETY: all zeros are valid for this plain C structure.
            let header = header.write(unsafe { mem::zeroed() });
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut parts.name).cast();
            header.msg_namelen = name_length;
            header.msg_iov = &raw mut parts.piece;
            header.msg_iovlen = 1;
            if parts.control.used > 0 {
                header.msg_control = parts.control.bytes.as_mut_ptr().cast();
                header.msg_controllen = parts.control.used as _;
            }
        }
        let count = messages.len().min(N);
        // SAFETY: so many have just been written.
        let headers =
            unsafe { core::slice::from_raw_parts_mut(headers.as_mut_ptr().cast(), count) };
        // SAFETY: every pointer in the headers is to a live place of the length beside it.
        unsafe { sys::send_messages(self.fd.as_fd(), headers) }
    }

    fn write_control(&self, control: &mut Control, message: &Message<'_>) {
        if let Some(segment) = message.segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        let (level, class, hops) = if self.address.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
        };
        if message.traffic_class != 0 {
            control.push(level, class, c_int::from(message.traffic_class));
        }
        if message.hop_limit != 0 && message.hop_limit != HOP_LIMIT {
            control.push(level, hops, c_int::from(message.hop_limit));
        }
    }

    /// A socket address of this socket's family. An address of the other family becomes one that
    /// the kernel refuses: broadcast is not allowed to this socket, nor IPv4 to one for IPv6.
    fn name(&self, address: IpAddr, port: u16) -> (Name, libc::socklen_t) {
        let mut name = Name::EMPTY;
        let length = if self.address.is_ipv4() {
            let address = match address {
                IpAddr::V4(v4) => v4,
                IpAddr::V6(_) => Ipv4Addr::BROADCAST,
            };
            name.v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
                sin_zero: [0; 8],
            };
            size_of::<libc::sockaddr_in>()
        } else {
            let address = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let has_scope = address.is_unicast_link_local() || address.is_multicast();
            name.v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.octets() },
                sin6_scope_id: if has_scope { self.interface } else { 0 },
            };
            size_of::<libc::sockaddr_in6>()
        };
        (name, length as libc::socklen_t)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A socket address of either family. All of it is integers, so that each may be read as the other.
#[repr(C)]
#[derive(Clone, Copy)]
union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    const EMPTY: Self = Self {
        v6: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };
}

/// What the header of a message points to.
struct Parts {
    name: Name,
    piece: libc::iovec,
    control: Control,
}

/// Room for the control messages of one datagram, in words.
const CONTROL_WORDS: usize = 12;

/// Control messages of one datagram, aligned as the kernel's headers are.
struct Control {
    bytes: [u64; CONTROL_WORDS],
    used: usize,
}

impl Control {
    const fn new() -> Self {
        Self { bytes: [0; CONTROL_WORDS], used: 0 }
    }

    /// Adds a message. There is room for the three that a datagram can have.
    fn push<T: Plain>(&mut self, level: c_int, kind: c_int, value: T) {
        let length = size_of::<T>() as libc::c_uint;
        // SAFETY: only computes a size.
        let space = unsafe { libc::CMSG_SPACE(length) } as usize;
        assert!(self.used + space <= size_of_val(&self.bytes), "no room for a control message");
        // SAFETY: the message lies inside `bytes`, as was just checked, and `used` is a multiple of
        // the alignment of a header, because CMSG_SPACE is.
        unsafe {
            let message =
                self.bytes.as_mut_ptr().cast::<u8>().add(self.used).cast::<libc::cmsghdr>();
            (*message).cmsg_level = level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = libc::CMSG_LEN(length) as _;
            libc::CMSG_DATA(message).cast::<T>().write_unaligned(value);
        }
        self.used += space;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(last: u8) -> (Socket, Socket) {
        let socket = |third| {
            let address = Ipv4Addr::new(127, 0, third, last);
            Socket::bind(address.into(), 1, SOCKET_BUFFER_BYTES).unwrap()
        };
        (socket(10), socket(11))
    }

    fn receive(socket: &Socket, buffer: &mut [u8]) -> Received {
        let fd = socket.as_fd().as_raw_fd();
        let ready =
            sys::wait(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], 1_000_000_000);
        assert!(ready, "nothing arrived within a second");
        socket.receive(buffer).unwrap()
    }

    fn message<'a>(bytes: &'a [u8], to: &Socket) -> Message<'a> {
        Message {
            bytes,
            segment: None,
            destination: to.address().into(),
            traffic_class: 0,
            hop_limit: 0,
        }
    }

    #[test]
    fn a_datagram_arrives_with_its_sender_and_traffic_class() {
        let (a, b) = pair(1);
        let sent = Message { traffic_class: 0x6a, hop_limit: 3, ..message(b"datagram", &b) };
        assert_eq!(a.send(&[sent]).unwrap(), 1);
        let mut buffer = [0; 64];
        let received = receive(&b, &mut buffer);
        assert_eq!(&buffer[..received.length], b"datagram");
        assert_eq!(
            received,
            Received {
                length: 8,
                segment: 8,
                source: a.address(),
                source_port: ROCE_PORT,
                traffic_class: 0x6a,
                id: 0,
                by_loopback: false
            }
        );
        assert_eq!(b.receive(&mut buffer), None);
    }

    #[test]
    fn a_gso_batch_arrives_as_one_buffer_of_segments() {
        let (a, b) = pair(2);
        let bytes: Vec<u8> = (0..2500_u32).map(|at| (at % 251) as u8).collect();
        let batch = Message { segment: Some(1000), ..message(&bytes, &b) };
        assert_eq!(a.send(&[batch, message(b"end", &b)]).unwrap(), 2);
        let mut buffer = vec![0; 65_536];
        let received = receive(&b, &mut buffer);
        assert_eq!((received.length, received.segment), (2500, 1000));
        assert_eq!(buffer[..2500], bytes);
        assert_eq!(receive(&b, &mut buffer).length, 3);
    }

    #[test]
    fn one_call_takes_so_many_messages_and_no_more() {
        let (a, b) = pair(4);
        let messages = [message(b"x", &b); MESSAGES_MAX + 1];
        assert_eq!(a.send(&messages).unwrap(), MESSAGES_MAX);
        let mut buffer = vec![0; 65_536];
        let mut taken = 0;
        while taken < MESSAGES_MAX {
            taken += receive(&b, &mut buffer).length;
        }
        assert_eq!((taken, b.receive(&mut buffer)), (MESSAGES_MAX, None));
    }

    #[test]
    fn an_address_of_the_other_family_is_refused() {
        let (a, _) = pair(3);
        let sent = Message { destination: Ipv6Addr::LOCALHOST.into(), ..message(b"x", &a) };
        assert!(a.send(&[sent]).is_err());
    }
}
