//! The connection between a program and a lab: short messages, perhaps with a file.
//!
//! It is a Unix socket of sequenced packets. That it closes says that the other end is gone, however it ended. A
//! doorbell is rung by it too, as one byte, and not by an eventfd, which both ends would share: whoever fills that
//! and takes its non-blocking flag away stops the other.

use core::ffi::c_int;
use core::mem;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::sys::{self, check};

/// The longest message.
const MESSAGE_MAX: usize = 64 << 10;
/// Connections that wait to be accepted.
const BACKLOG: c_int = 128;

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What came: text, and a file if one came along.
#[derive(Debug)]
pub struct Message {
    /// What it says.
    pub text: String,
    /// What came along.
    pub file: Option<OwnedFd>,
}

/// Where connections are accepted.
#[derive(Debug)]
pub struct Listener(OwnedFd);

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointer; the descriptor that it returns is nobody else's.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?)) }
}

fn name(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all zeros are valid for this plain C structure.
    let mut name: libc::sockaddr_un = unsafe { mem::zeroed() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if bytes.len() >= name.sun_path.len() || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in name.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    Ok((name, length as libc::socklen_t))
}

impl Listener {
    /// Listens at `path`, which only this user can reach.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let fd = socket()?;
        // Under its own name it is there once it listens: whoever finds one that does not takes it for dead.
        let made = path.with_file_name(format!("new.{:x}", sys::random()?));
        let (name, length) = name(&made)?;
        // SAFETY: a live socket address of the length beside it.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), length) })?;
        // SAFETY: takes no pointer.
        check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
        std::fs::rename(made, path)?;
        Ok(Self(fd))
    }

    /// The next connection, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, and others of the kernel.
    pub fn accept(&self) -> io::Result<Channel> {
        let mut ready = [libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        if !sys::poll(&mut ready, 0)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (fd, none) = (self.0.as_raw_fd(), core::ptr::null_mut());
        // SAFETY: no address is asked for; the descriptor that is returned is nobody else's.
        let fd = unsafe {
            let fd = check(libc::accept4(fd, none, core::ptr::null_mut(), libc::SOCK_CLOEXEC))?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Channel(fd))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// Connects to who listens at `path`.
    ///
    /// # Errors
    /// `ConnectionRefused` or `NotFound` if nobody does.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let fd = socket()?;
        let (name, length) = name(path)?;
        // SAFETY: a live socket address of the length beside it.
        check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), length) })?;
        Ok(Self(fd))
    }

    /// The user at the other end.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn peer(&self) -> io::Result<u32> {
        let [_, uid, _] = self.credentials()?;
        Ok(uid)
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn process(&self) -> io::Result<u32> {
        let [pid, _, _] = self.credentials()?;
        Ok(pid)
    }

    fn credentials(&self) -> io::Result<[u32; 3]> {
        sys::option(self.0.as_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED)
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if too much waits to be received; others if nobody is there any more.
    pub fn send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        // SAFETY: all zeros are valid for this plain C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        let mut piece =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; 4];
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        // SAFETY: the room is as long as one message with one descriptor takes (24 bytes), aligned as
        // a header is, and lives through the call; the kernel only reads what the header points to.
        let sent = unsafe {
            if let Some(file) = file {
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
                let passed = libc::CMSG_FIRSTHDR(&raw const header);
                (*passed).cmsg_level = libc::SOL_SOCKET;
                (*passed).cmsg_type = libc::SCM_RIGHTS;
                (*passed).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
                libc::CMSG_DATA(passed).cast::<c_int>().write_unaligned(file.as_raw_fd());
            }
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes the next message, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, `UnexpectedEof` if the other end is gone.
    pub fn receive(&self) -> io::Result<Message> {
        let mut bytes = Vec::new();
        let file = self.receive_bytes(&mut bytes)?;
        Ok(Message { text: String::from_utf8_lossy(&bytes).into_owned(), file })
    }

    /// The same for a message of any bytes, which take the place of those in `bytes`.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_bytes(&self, bytes: &mut Vec<u8>) -> io::Result<Option<OwnedFd>> {
        bytes.clear();
        bytes.resize(MESSAGE_MAX, 0);
        // SAFETY: all zeros are a valid msghdr.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        // Room for one descriptor, or two: the kernel closes others.
        let mut control = [0_u64; 3];
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: every pointer in the header is to a live place of the length beside it.
        let length =
            unsafe { sys::receive_message(self.0.as_fd(), &mut header, libc::MSG_CMSG_CLOEXEC)? };
        let mut files: Vec<OwnedFd> = Vec::new();
        // SAFETY: the macros walk the control messages of a header that the kernel has filled; those of
        // SCM_RIGHTS are descriptors that are ours from now on, as many as fit into its length.
        unsafe {
            let mut part = libc::CMSG_FIRSTHDR(&raw const header);
            while !part.is_null() {
                if ((*part).cmsg_level, (*part).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                    let space = (*part).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    for at in 0..space / size_of::<c_int>() {
                        let fd = libc::CMSG_DATA(part).cast::<c_int>().add(at).read_unaligned();
                        files.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                part = libc::CMSG_NXTHDR(&raw const header, part);
            }
        }
        if length == 0 && files.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(length);
        Ok(files.pop().filter(|_| files.is_empty()))
    }

    /// Takes the next message of a few bytes, such as a doorbell, into `bytes`; says how long it is. What is longer
    /// is cut, and files that come along are closed.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_short(&self, bytes: &mut [u8; 32]) -> io::Result<usize> {
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: the kernel writes to a live place of the length beside it.
        let length = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), flags) };
        match usize::try_from(length) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => Ok(length),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// `TimedOut` after so long; otherwise as [`Channel::receive`].
    pub fn wait(&self, timeout_ms: i32) -> io::Result<Message> {
        let mut bytes = Vec::new();
        let file = self.wait_bytes(&mut bytes, timeout_ms)?;
        Ok(Message { text: String::from_utf8_lossy(&bytes).into_owned(), file })
    }

    /// The same for a message of any bytes, which take the place of those in `bytes`.
    ///
    /// # Errors
    /// As [`Channel::wait`].
    pub fn wait_bytes(&self, bytes: &mut Vec<u8>, timeout_ms: i32) -> io::Result<Option<OwnedFd>> {
        let mut ready = [libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        let until =
            sys::clock_ns(libc::CLOCK_MONOTONIC) + u64::from(timeout_ms.unsigned_abs()) * 1_000_000;
        loop {
            let left = until.saturating_sub(sys::clock_ns(libc::CLOCK_MONOTONIC));
            match sys::poll(&mut ready, left) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            };
            match self.receive_bytes(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && left == 0 => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// From now on nobody is at the other end, and nothing ever makes it ready to be read. Who waits for it by its
    /// number need not know.
    pub(crate) fn fall_silent(&self) -> io::Result<()> {
        let silent = sys::eventfd()?;
        // SAFETY: both are descriptors of ours; the number stays ours.
        check(unsafe { libc::dup3(silent.as_raw_fd(), self.0.as_raw_fd(), libc::O_CLOEXEC) })?;
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn pair() -> (Channel, Channel) {
        let path = std::env::temp_dir().join(format!("ferroce-channel-{}", sys::random().unwrap()));
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let near = Channel::connect(&path).unwrap();
        let far = listener.accept().unwrap();
        std::fs::remove_file(path).unwrap();
        (near, far)
    }

    #[test]
    fn messages_come_whole_with_their_files_and_the_end_is_seen() {
        let (near, far) = pair();
        let file = sys::eventfd().unwrap();
        near.send(b"first", Some(file.as_fd())).unwrap();
        near.send(b"second", None).unwrap();
        let first = far.receive().unwrap();
        assert_eq!((first.text.as_str(), first.file.is_some()), ("first", true));
        assert_eq!(far.wait(1_000).unwrap().text, "second");
        assert_eq!(far.receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(far.wait(1).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(
            (far.peer().unwrap(), far.process().unwrap()),
            (sys::user(), std::process::id())
        );
        drop(near);
        assert_eq!(far.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(far.send(b"nobody", None).is_err());
        far.fall_silent().unwrap();
        let mut ready = [libc::pollfd { fd: far.0.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        assert!(!sys::poll(&mut ready, 0).unwrap());
    }

    #[test]
    fn who_does_not_receive_makes_nobody_wait() {
        let (near, _far) = pair();
        let full = (0..100_000).map(|_| near.send(&[1], None)).find_map(Result::err);
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn more_files_than_one_are_closed() {
        let (near, far) = pair();
        let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
        for _ in 0..3 {
            near.send(b"x", Some(near.as_fd())).unwrap();
        }
        for _ in 0..3 {
            drop(far.receive().unwrap());
        }
        assert_eq!(std::fs::read_dir("/proc/self/fd").unwrap().count(), before);
        assert_eq!(std::fs::metadata("/proc/self/fd").unwrap().uid(), sys::user());
    }
}
