//! A Unix socket with an abstract name, by which NICs of one user and host reach each other.
//!
//! The name is made of a purpose, the user, the network namespace, the slot and the claim, a random number
//! of the slot's owner. So nobody can take the name in advance, and a process that is being killed does
//! not hold the name of the slot's next owner. Any user of the host can send to an abstract name. The
//! kernel says which user sent a message, and those of other users are dropped unread.

use core::ffi::c_int;
use core::mem;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::host::steering::Member;
use crate::sys::{self, check, set_option};

/// Bytes that an abstract name may have, behind its zero (unix(7)).
const NAME_MAX: usize = 107;

/// The socket of one NIC for one purpose.
#[derive(Debug)]
pub(crate) struct Mailbox {
    socket: UnixDatagram,
    purpose: &'static str,
    namespace: u64,
}

/// A message of this user.
#[derive(Debug)]
pub(crate) struct Letter {
    /// Bytes in the buffer.
    pub(crate) length: usize,
    /// What came along, if it was one file.
    pub(crate) file: Option<OwnedFd>,
}

impl Mailbox {
    /// Takes the name of `owner`, which is the caller.
    pub(crate) fn bind(purpose: &'static str, namespace: u64, owner: Member) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name(purpose, namespace, owner)?)?;
        socket.set_nonblocking(true)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, 1)?;
        Ok(Self { socket, purpose, namespace })
    }

    /// Sends a message to `to`, without waiting.
    ///
    /// # Errors
    /// `ConnectionRefused` if it does not have such a mailbox, `WouldBlock` if too many messages wait.
    pub(crate) fn send(
        &self,
        to: Member,
        bytes: &[u8],
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let name = name(self.purpose, self.namespace, to)?;
        let Some(file) = file else {
            return self.socket.send_to_addr(bytes, &name).map(|_| ());
        };
        let text = name.as_abstract_name().ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: all zeros are valid for these plain C structures.
        let (mut address, mut header): (libc::sockaddr_un, libc::msghdr) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // An abstract name begins with a zero.
        for (place, byte) in address.sun_path[1..].iter_mut().zip(text) {
            *place = *byte as libc::c_char;
        }
        let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + text.len();
        let mut piece =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; 4];
        header.msg_name = (&raw mut address).cast();
        header.msg_namelen = length as libc::socklen_t;
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the room is as long as one message with one descriptor takes (24 bytes), aligned as
        // a header is, and lives through the call; the kernel only reads what the header points to.
        let sent = unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
            let passed = libc::CMSG_FIRSTHDR(&raw const header);
            (*passed).cmsg_level = libc::SOL_SOCKET;
            (*passed).cmsg_type = libc::SCM_RIGHTS;
            (*passed).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
            libc::CMSG_DATA(passed).cast::<c_int>().write_unaligned(file.as_raw_fd());
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(self.socket.as_raw_fd(), &raw const header, flags)
        };
        check(sent as c_int).map(|_| ())
    }

    /// Takes the next message; `None` if there is no more, and `Some(None)` for one of another user.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<Option<Letter>> {
        // SAFETY: all zeros are a valid msghdr.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        // Room for the credentials (32 bytes) and one or two descriptors. The kernel closes others.
        let mut control = [0_u64; 7];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let (socket, flags) = (self.socket.as_fd(), libc::MSG_CMSG_CLOEXEC);
        // SAFETY: every pointer in the header is to a live place of the length beside it.
        let length = unsafe { sys::receive_message(socket, &mut header, flags) }.ok()?;
        let mut user = None;
        let mut files: Vec<OwnedFd> = Vec::new();
        // SAFETY: the macros walk the control messages of a header that the kernel has filled. The
        // data of SCM_CREDENTIALS is a ucred; that of SCM_RIGHTS are descriptors that are ours from
        // now on, as many as fit into its length.
        unsafe {
            let mut part = libc::CMSG_FIRSTHDR(&raw const header);
            while !part.is_null() {
                let data = libc::CMSG_DATA(part);
                match ((*part).cmsg_level, (*part).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                        user = Some(data.cast::<libc::ucred>().read_unaligned().uid);
                    }
                    (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                        let space = (*part).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                        for at in 0..space / size_of::<c_int>() {
                            let fd = data.cast::<c_int>().add(at).read_unaligned();
                            files.push(OwnedFd::from_raw_fd(fd));
                        }
                    }
                    _ => {}
                }
                part = libc::CMSG_NXTHDR(&raw const header, part);
            }
        }
        let file = files.pop().filter(|_| files.is_empty());
        Some((user == Some(sys::user())).then_some(Letter { length, file }))
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Making one takes no memory from the heap: a doorbell is rung by it.
pub(crate) fn name(purpose: &str, namespace: u64, owner: Member) -> io::Result<SocketAddr> {
    let mut text = [0; NAME_MAX];
    let mut rest = &mut text[..];
    let Member { slot, claim } = owner;
    write!(rest, "{purpose}/{}/{namespace}/{slot}/{claim:08x}", sys::user())?;
    let length = NAME_MAX - rest.len();
    SocketAddr::from_abstract_name(&text[..length])
}
