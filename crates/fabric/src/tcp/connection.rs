//! One end of a TCP connection: smoltcp's socket, and how far the application is.
//!
//! The stream is cut into messages by counting: a client writes messages of one length, a server
//! answers of another, so what has been read says how many there were.

use core::fmt;
use core::net::Ipv4Addr;

use rdma::Time;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Cidr};

use super::segment::{Addresses, Codec, Segment};
use super::{TcpConfig, TcpCongestion};

const PS_PER_US: u64 = 1_000_000;

/// Who a connection is between, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The flow that it is for.
    pub(crate) flow: u32,
    /// Whether this end opens it, and sends the messages.
    pub(crate) client: bool,
    pub(crate) local: (Ipv4Addr, u16),
    pub(crate) remote: (Ipv4Addr, u16),
    pub(crate) traffic_class: u8,
    pub(crate) priority: u8,
    /// The length of a message, and of an answer if there are any.
    pub(crate) message_bytes: u32,
    pub(crate) reply_bytes: Option<u32>,
}

/// See the module.
pub(crate) struct Connection {
    pub(crate) ends: Ends,
    /// Index of the [`crate::address::Tuple`] of what it sends.
    pub(crate) tuple: u32,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    mtu: usize,
    /// What the application has written, and the socket has not taken yet.
    unwritten: u64,
    /// What the socket has taken.
    written: u64,
    read: u64,
    /// Messages, or answers, that have been read.
    received: u64,
    /// Messages that have been acknowledged.
    acknowledged: u64,
    /// When the last message reaches the stack, and the application, in picoseconds.
    pub(crate) sending: u64,
    pub(crate) receiving: u64,
    /// When a timer is scheduled.
    pub(crate) timer_at: u64,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("ends", &self.ends).finish_non_exhaustive()
    }
}

/// What a call has led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Progress {
    /// Whole messages, or answers, that the stack has for the application.
    pub(crate) received: u64,
    /// Messages that the other end has acknowledged.
    pub(crate) acknowledged: u64,
    /// When it is to be called again at the latest.
    pub(crate) timer: Option<u64>,
}

fn instant(now: Time) -> Instant {
    Instant::from_micros((now.as_ps() / PS_PER_US) as i64)
}

impl Connection {
    /// A connection that is not open yet: a server listens, a client will ask.
    pub(crate) fn new(ends: Ends, config: &TcpConfig, seed: u64) -> Self {
        let mut codec = Codec::default();
        let mtu = usize::from(config.mtu_bytes.max(576));
        let mut wire = Wire { mtu, incoming: None, outgoing: &mut Vec::new(), codec: &mut codec };
        let mut settings = Config::new(HardwareAddress::Ip);
        settings.random_seed = seed;
        let mut interface = Interface::new(settings, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // There is room for the first.
            let _ = addresses.push(IpCidr::Ipv4(Ipv4Cidr::new(ends.local.0, 8)));
        });
        let buffer = || SocketBuffer::new(vec![0; config.buffer_bytes.max(2_048) as usize]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(match config.congestion {
            TcpCongestion::Reno => CongestionControl::Reno,
            TcpCongestion::Cubic => CongestionControl::Cubic,
        });
        // Messages are to leave when they are written, and to be acknowledged when they come.
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        let opened = if ends.client {
            socket.connect(interface.context(), ends.remote, ends.local).is_ok()
        } else {
            socket.listen(ends.local).is_ok()
        };
        debug_assert!(opened, "a new socket, with ports that are not zero");
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Self {
            ends,
            tuple: u32::MAX,
            interface,
            sockets,
            handle,
            mtu,
            unwritten: 0,
            written: 0,
            read: 0,
            received: 0,
            acknowledged: 0,
            sending: 0,
            receiving: 0,
            timer_at: u64::MAX,
        }
    }

    /// The application's next `bytes` have reached the stack.
    pub(crate) fn write(&mut self, bytes: u32) {
        self.unwritten += u64::from(bytes);
    }

    /// Lets the stack work: with `segment`, if one has come, and with what there is to send. Segments
    /// that leave are put into `outgoing`.
    pub(crate) fn advance(
        &mut self,
        now: Time,
        segment: Option<&Segment>,
        outgoing: &mut Vec<Segment>,
        codecs: &mut [Codec; 2],
    ) -> Progress {
        let [incoming, scratch] = codecs;
        let addresses = Addresses { from: self.ends.remote, to: self.ends.local };
        let mut bytes = segment.map(|segment| incoming.emit(segment, &addresses));
        let now = instant(now);
        loop {
            let mut wire = Wire { mtu: self.mtu, incoming: bytes.take(), outgoing, codec: scratch };
            let _ = self.interface.poll(now, &mut wire, &mut self.sockets);
            let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
            let mut moved = 0;
            while let Ok(count @ 1..) = socket.recv(|bytes| (bytes.len(), bytes.len())) {
                self.read += count as u64;
                moved += count;
            }
            while self.unwritten > 0 {
                // What the bytes are matters to nobody.
                let want = usize::try_from(self.unwritten).unwrap_or(usize::MAX);
                let taken = socket.send(|room| {
                    let count = room.len().min(want);
                    (count, count)
                });
                let Ok(count @ 1..) = taken else { break };
                self.unwritten -= count as u64;
                self.written += count as u64;
                moved += count;
            }
            if moved == 0 {
                break;
            }
        }
        self.progress(now)
    }

    fn progress(&mut self, now: Instant) -> Progress {
        let socket = self.sockets.get::<Socket<'_>>(self.handle);
        let arrived = self.written - socket.send_queue() as u64;
        let unit = |client: bool| match (client, self.ends.reply_bytes) {
            (true, reply) => u64::from(reply.unwrap_or(0)),
            (false, _) => u64::from(self.ends.message_bytes),
        };
        let received = self.read.checked_div(unit(self.ends.client)).unwrap_or(0);
        let acknowledged = arrived / unit(false).max(1);
        let progress = Progress {
            received: received - self.received,
            acknowledged: acknowledged - self.acknowledged,
            timer: self
                .interface
                .poll_at(now, &self.sockets)
                .map(|at| at.max(now).total_micros() as u64 * PS_PER_US),
        };
        (self.received, self.acknowledged) = (received, acknowledged);
        progress
    }

    /// Bytes that the application has read.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Whether the handshake is over.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.sockets.get::<Socket<'_>>(self.handle).may_send()
    }
}

/// What smoltcp takes for a device: at most one packet comes, any number leave.
struct Wire<'a> {
    mtu: usize,
    incoming: Option<&'a [u8]>,
    outgoing: &'a mut Vec<Segment>,
    codec: &'a mut Codec,
}

struct Incoming<'a>(&'a [u8]);

struct Outgoing<'a> {
    segments: &'a mut Vec<Segment>,
    codec: &'a mut Codec,
}

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let bytes = self.codec.scratch(len);
        let result = f(bytes);
        self.segments.extend(Codec::parse(bytes));
        result
    }
}

impl Device for Wire<'_> {
    type RxToken<'a>
        = Incoming<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Outgoing<'a>
    where
        Self: 'a;

    fn receive(&mut self, _now: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let bytes = self.incoming.take()?;
        let outgoing = Outgoing { segments: self.outgoing, codec: self.codec };
        Some((Incoming(bytes), outgoing))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing { segments: self.outgoing, codec: self.codec })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}
