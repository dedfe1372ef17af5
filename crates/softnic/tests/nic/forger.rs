//! Packets that no NIC has sent: a plain UDP socket sends them, with an address of its own or of another.

use core::mem;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use wire::icrc::{self, Datagram};
use wire::roce;
use wire::udp::ROCE_PORT;

/// Somebody who claims to be `source`.
pub(crate) struct Forger {
    socket: UdpSocket,
    source: Ipv4Addr,
    port: u16,
}

impl Forger {
    /// Has `port` of `own`, where no NIC may be; any port for 0. The kernel lets whoever has a port at one
    /// address of the host send from that port with any address of the host (`IP_PKTINFO`).
    pub(crate) fn new(own: Ipv4Addr, port: u16, source: Ipv4Addr) -> Self {
        let socket = UdpSocket::bind((own, port)).unwrap();
        let port = socket.local_addr().unwrap().port();
        Self { socket, source, port }
    }

    pub(crate) fn send(&self, to: Ipv4Addr, bytes: &[u8]) {
        let address =
            |address: Ipv4Addr| libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) };
        let mut name = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: ROCE_PORT.to_be(),
            sin_addr: address(to),
            sin_zero: [0; 8],
        };
        let mut piece =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let info = libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: address(self.source),
            ipi_addr: address(Ipv4Addr::UNSPECIFIED),
        };
        let mut control = [0_u64; 8];
        // SAFETY: every pointer in the header is to a live place of the length beside it, and the control
        // message fits into its room.
        let sent = unsafe {
            let mut header: libc::msghdr = mem::zeroed();
            header.msg_name = (&raw mut name).cast();
            header.msg_namelen = size_of_val(&name) as libc::socklen_t;
            header.msg_iov = &raw mut piece;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size_of_val(&info) as u32) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::IPPROTO_IP;
            (*message).cmsg_type = libc::IP_PKTINFO;
            (*message).cmsg_len = libc::CMSG_LEN(size_of_val(&info) as u32) as _;
            libc::CMSG_DATA(message).cast::<libc::in_pktinfo>().write_unaligned(info);
            libc::sendmsg(self.socket.as_raw_fd(), &raw const header, 0)
        };
        let to = SocketAddrV4::new(to, ROCE_PORT);
        assert_eq!(usize::try_from(sent), Ok(bytes.len()), "to {to}");
    }

    /// Headers and payload with the ICRC that they need.
    pub(crate) fn seal(&self, to: Ipv4Addr, header: &roce::Repr, payload: &[u8]) -> Vec<u8> {
        let header = header.padded_for(payload.len() as u32);
        let pad = usize::from(header.bth.pad);
        let mut bytes = vec![0; header.header_len() + payload.len() + pad];
        let start = header.emit(&mut bytes);
        bytes[start..start + payload.len()].copy_from_slice(payload);
        self.close(to, bytes)
    }

    /// Bytes with their ICRC.
    pub(crate) fn close(&self, to: Ipv4Addr, mut bytes: Vec<u8>) -> Vec<u8> {
        let between = Datagram::between(self.source.into(), to.into());
        let datagram = Datagram { source_port: self.port, ..between };
        bytes.extend(icrc::compute(&datagram, &bytes).unwrap());
        bytes
    }
}
