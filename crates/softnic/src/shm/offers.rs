//! How two NICs of a host come to share rings: messages between sockets that have abstract names.
//!
//! ```text
//!   magic u64 │ kind u32 │ slot u32 │ claim u32 │ receiver's claim u32 │ nonce u64   (an offer: + fd)
//! ```
//!
//! The name is made of user, network namespace and slot; the slot is in every QPN of the device at
//! that address. Only a NIC that takes rings has the name. The kernel says whose a message is, and
//! those of other users are not looked at: whoever can send one is of this host, and this user.
//!
//! A message is also how the doorbell is rung. An eventfd would be quicker by a microsecond, of the twenty
//! that it takes to wake somebody; but both ends would share it, and a peer that fills it and makes it
//! wait could stop whoever signals it. A message that is not to wait never waits.

use core::mem;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::host::steering::Member;
use crate::sys::{self, set_option};

const MAGIC: [u8; 8] = *b"FRRING\0\x01";
const MESSAGE_LEN: usize = 32;
const OFFER: u32 = 1;
const REFUSAL: u32 = 2;
const DOORBELL: u32 = 3;

/// What NICs tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A ring from the sender to the receiver. The file comes along.
    Offer,
    /// The sender takes no ring from the receiver.
    Refusal,
    /// There is something in a ring.
    Doorbell,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) from: Member,
    /// The claim of the one that it is meant for: the slot may have gone to another.
    pub(super) to_claim: u32,
    pub(super) nonce: u64,
}

/// A message that has arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) message: Message,
    pub(super) file: Option<OwnedFd>,
}

impl Message {
    fn emit(self) -> [u8; MESSAGE_LEN] {
        let kind = match self.kind {
            Kind::Offer => OFFER,
            Kind::Refusal => REFUSAL,
            Kind::Doorbell => DOORBELL,
        };
        let mut bytes = [0; MESSAGE_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.from.slot).to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.from.claim.to_ne_bytes());
        bytes[20..24].copy_from_slice(&self.to_claim.to_ne_bytes());
        bytes[24..].copy_from_slice(&self.nonce.to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_LEN] = bytes.try_into().ok()?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_ne_bytes(words[at]);
        let kind = match word(2) {
            OFFER => Kind::Offer,
            REFUSAL => Kind::Refusal,
            DOORBELL => Kind::Doorbell,
            _ => return None,
        };
        let (_, nonce) = bytes.split_last_chunk()?;
        Some(Self {
            kind,
            from: Member { slot: u16::try_from(word(3)).ok()?, claim: word(4) },
            to_claim: word(5),
            nonce: u64::from_ne_bytes(*nonce),
        })
        .filter(|_| bytes.starts_with(&MAGIC))
    }
}

/// The socket of one NIC.
#[derive(Debug)]
pub(super) struct Offers {
    socket: UnixDatagram,
    namespace: u64,
}

impl Offers {
    /// Takes the name of `slot`, which the caller owns.
    pub(super) fn bind(namespace: u64, slot: u16) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name(namespace, slot)?)?;
        socket.set_nonblocking(true)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, 1)?;
        Ok(Self { socket, namespace })
    }

    /// Sends a message to the owner of `slot`, with a file if it is an offer.
    ///
    /// # Errors
    /// `ConnectionRefused` if nobody there takes rings, `WouldBlock` if too many messages wait.
    pub(super) fn send(
        &self,
        slot: u16,
        message: Message,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let name = name(self.namespace, slot)?;
        let bytes = message.emit();
        let Some(file) = file else {
            return self.socket.send_to_addr(&bytes, &name).map(|_| ());
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
            header.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as _;
            let passed = libc::CMSG_FIRSTHDR(&raw const header);
            (*passed).cmsg_level = libc::SOL_SOCKET;
            (*passed).cmsg_type = libc::SCM_RIGHTS;
            (*passed).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as _;
            libc::CMSG_DATA(passed).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(self.socket.as_raw_fd(), &raw const header, flags)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes the next message; `None` if there is no more. What makes no sense, or is another
    /// user's, is `Some(None)`.
    pub(super) fn receive(&self) -> Option<Option<Arrived>> {
        // SAFETY: all zeros are a valid msghdr.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        let mut bytes = [0_u8; MESSAGE_LEN + 1];
        // Room for the credentials (32 bytes) and one or two descriptors. The kernel closes others.
        let mut control = [0_u64; 7];
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
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
                        for at in 0..space / size_of::<libc::c_int>() {
                            let fd = data.cast::<libc::c_int>().add(at).read_unaligned();
                            files.push(OwnedFd::from_raw_fd(fd));
                        }
                    }
                    _ => {}
                }
                part = libc::CMSG_NXTHDR(&raw const header, part);
            }
        }
        let message = Message::parse(bytes.get(..length)?);
        let file = files.pop().filter(|_| files.is_empty());
        let is_ours = user == Some(sys::user());
        Some(message.filter(|_| is_ours).map(|message| Arrived { message, file }))
    }
}

impl AsFd for Offers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn name(namespace: u64, slot: u16) -> io::Result<SocketAddr> {
    sys::abstract_name("ferroce-ring", namespace, slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::map;

    /// A namespace that no other test has.
    const NAMESPACE: u64 = u64::MAX;

    fn message(kind: Kind) -> Message {
        let from = Member { slot: 1021, claim: 0x8765_4321 };
        Message { kind, from, to_claim: 0xfedc_ba98, nonce: 0x0123_4567_89ab_cdef }
    }

    #[test]
    fn every_message_arrives_as_it_was_sent_and_an_offer_with_its_file() {
        let from = Offers::bind(NAMESPACE, 11).unwrap();
        let to = Offers::bind(NAMESPACE, 12).unwrap();
        assert!(to.receive().is_none());
        let file = map::sealed_memory(4096).unwrap();
        from.send(12, message(Kind::Offer), Some(file.as_fd())).unwrap();
        from.send(12, message(Kind::Refusal), None).unwrap();
        from.send(12, message(Kind::Doorbell), None).unwrap();
        let arrived = to.receive().unwrap().unwrap();
        assert_eq!(arrived.message, message(Kind::Offer));
        map::map_sealed_memory(arrived.file.unwrap().as_fd(), 4096).unwrap();
        for kind in [Kind::Refusal, Kind::Doorbell] {
            let arrived = to.receive().unwrap().unwrap();
            assert_eq!(arrived.message, message(kind));
            assert!(arrived.file.is_none());
        }
        assert!(to.receive().is_none());
    }

    #[test]
    fn who_is_not_there_refuses() {
        let from = Offers::bind(NAMESPACE, 13).unwrap();
        let file = map::sealed_memory(4096).unwrap();
        for file in [None, Some(file.as_fd())] {
            let error = from.send(14, message(Kind::Doorbell), file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn what_makes_no_sense_is_skipped_and_its_files_closed() {
        let to = Offers::bind(NAMESPACE, 15).unwrap();
        let stranger = UnixDatagram::unbound().unwrap();
        let address = name(NAMESPACE, 15).unwrap();
        let mut unknown = message(Kind::Doorbell).emit();
        unknown[8] = 9;
        let mut long = message(Kind::Doorbell).emit().to_vec();
        long.push(0);
        let mut of_slot = message(Kind::Doorbell).emit();
        of_slot[14] = 1;
        for bytes in [&b"hello"[..], &[], &unknown, &long, &of_slot] {
            stranger.send_to_addr(bytes, &address).unwrap();
            assert!(to.receive().unwrap().is_none(), "{bytes:?}");
        }
        assert!(to.receive().is_none());
    }
}
