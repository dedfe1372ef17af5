//! A socket by which NICs of one user and host find each other: a file in the user's directory
//! ([`runtime`](crate::host::runtime)).
//!
//! The file's name is made of a purpose, the network namespace, the slot and the claim, a random number of
//! the slot's owner: a process that is being killed does not hold the name of the next owner, who removes it.
//! Other users cannot reach into the directory, so they can neither send to it nor fill it. Should one send
//! all the same, the kernel says whose a message is, and it is not looked at.

use core::ffi::c_int;
use core::mem;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

use crate::host::runtime;
use crate::host::steering::Member;
use crate::sys::{self, check, set_option};

/// Bytes that a socket's path may have before its zero (unix(7)).
const PATH_MAX: usize = 107;
/// What mailboxes are for: packets that are handed over, and messages about rings.
pub(crate) const HANDOVER: &str = "handover";
pub(crate) const RINGS: &str = "rings";

/// The socket of one NIC for one purpose.
#[derive(Debug)]
pub(crate) struct Mailbox {
    socket: UnixDatagram,
    directory: PathBuf,
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
        let directory = runtime::directory()?;
        let address = address(&directory, purpose, namespace, owner)?;
        if let Some(path) = address.as_pathname() {
            // Nobody but the owner of the slot can have made one.
            let _ = std::fs::remove_file(path);
        }
        let socket = UnixDatagram::bind_addr(&address)?;
        if let Some(path) = address.as_pathname() {
            // Whatever the mask for new files is.
            std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        }
        socket.set_nonblocking(true)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, 1)?;
        Ok(Self { socket, directory, purpose, namespace })
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
        let sent = self.try_send(to, bytes, file);
        // Nobody has it, or nobody any more.
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        if sent.as_ref().is_err_and(is_gone) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        sent
    }

    fn try_send(&self, to: Member, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let to = address(&self.directory, self.purpose, self.namespace, to)?;
        let Some(file) = file else {
            return self.socket.send_to_addr(bytes, &to).map(|_| ());
        };
        let path = to.as_pathname().ok_or(io::ErrorKind::InvalidInput)?.as_os_str().as_bytes();
        // SAFETY: all zeros are valid for these plain C structures.
        let (mut address, mut header): (libc::sockaddr_un, libc::msghdr) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (place, byte) in address.sun_path.iter_mut().zip(path) {
            *place = *byte as libc::c_char;
        }
        let length = mem::offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
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

/// Where the mailbox of `owner` is. Making it takes no memory from the heap: a doorbell is rung by it.
pub(crate) fn address(
    directory: &Path,
    purpose: &str,
    namespace: u64,
    owner: Member,
) -> io::Result<SocketAddr> {
    let mut text = [0; PATH_MAX];
    let mut rest = &mut text[..];
    let Member { slot, claim } = owner;
    rest.write_all(directory.as_os_str().as_bytes())?;
    write!(rest, "/{purpose}-{namespace}-{slot}-{claim:08x}")?;
    let length = PATH_MAX - rest.len();
    SocketAddr::from_pathname(Path::new(OsStr::from_bytes(&text[..length])))
}

/// Removes the names of mailboxes whose owner has gone, or goes. Who has the slot now may do that.
pub(crate) fn bury(namespace: u64, owner: Member) {
    let Ok(directory) = runtime::directory() else { return };
    for purpose in [HANDOVER, RINGS] {
        let address = address(&directory, purpose, namespace, owner);
        if let Some(path) = address.as_ref().ok().and_then(SocketAddr::as_pathname) {
            // There may be none.
            let _ = std::fs::remove_file(path);
        }
    }
}
