//! Where packets to other hosts leave from: a socket for each UDP source port.
//!
//! ```text
//!   within the host ────────────────────────────► the address's own socket   4791 ─► 4791
//!   to another host ─► source port of the flow ─► a socket that has it     0xc123 ─► 4791
//! ```
//!
//! Switches with several paths to a host choose one by a hash of the addresses and ports (ECMP), so a flow has a port
//! of its own: that of its flow label, or what stands for one ([`transport::Route::source_port`]). Within the host
//! all packets come from 4791, which no other user can have: it tells whose they are.
//!
//! **Invariants:** nothing is ever received here: the kernel drops what is sent to these ports. The port of a flow
//! stays what it is. A NIC has [`DEPARTURES_MAX`] of these sockets; further flows share their ports.

use std::collections::HashMap;
use std::sync::Arc;

use wire::udp::ROCE_PORT;

use crate::limits::DEPARTURES_MAX;
use crate::udp::port::Port;

/// Which socket, by its place behind those of the addresses, and its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    pub(crate) at: usize,
    pub(crate) source_port: u16,
}

/// The sockets that packets to other hosts leave from, opened when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    sockets: Vec<Arc<Port>>,
    /// What each socket has: the place of its address, and its port.
    names: Vec<(usize, u16)>,
    /// By the place of the address and the port that is wanted.
    chosen: HashMap<(usize, u16), Option<Departure>>,
}

impl Departures {
    /// All of them, in the order of their places.
    pub(crate) fn sockets(&self) -> &[Arc<Port>] {
        &self.sockets
    }

    /// Where packets leave that want source port `wanted`, of the address whose own socket is `own`, the one at
    /// place `address`. `None` if they leave there.
    pub(crate) fn find(&mut self, own: &Port, address: usize, wanted: u16) -> Option<Departure> {
        if wanted == ROCE_PORT {
            return None;
        }
        if let Some(chosen) = self.chosen.get(&(address, wanted)) {
            return *chosen;
        }
        let chosen = self.open(own, address, wanted).or_else(|| self.shared(address, wanted));
        self.chosen.insert((address, wanted), chosen);
        chosen
    }

    fn open(&mut self, own: &Port, address: usize, wanted: u16) -> Option<Departure> {
        let Port::Udp(own) = own else { return None };
        if self.sockets.len() >= DEPARTURES_MAX {
            return None;
        }
        match own.open_beside(wanted) {
            Ok(socket) => {
                self.sockets.push(Arc::new(Port::Udp(socket)));
                self.names.push((address, wanted));
                Some(Departure { at: self.sockets.len() - 1, source_port: wanted })
            }
            Err(error) => {
                // Somebody else has the port, or there are no more descriptors.
                tracing::debug!(port = wanted, %error, "a flow shares the port of another");
                None
            }
        }
    }

    /// One of those that the address has.
    fn shared(&self, address: usize, wanted: u16) -> Option<Departure> {
        let of_address = || self.names.iter().enumerate().filter(|(_, name)| name.0 == address);
        let count = of_address().count();
        let (at, name) = of_address().nth(usize::from(wanted).checked_rem(count)?)?;
        Some(Departure { at, source_port: name.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SOCKET_BUFFER_BYTES;
    use crate::packet::Message;
    use crate::udp::socket::Socket;
    use core::net::Ipv4Addr;
    use std::net::UdpSocket;

    fn own(last: u8) -> Port {
        let address = Ipv4Addr::new(127, 0, 12, last);
        Port::Udp(Socket::bind(address.into(), 1, SOCKET_BUFFER_BYTES).unwrap())
    }

    #[test]
    fn a_packet_has_the_port_that_is_wanted_and_nothing_is_received_there() {
        let (own, peer) = (own(1), UdpSocket::bind("127.0.12.9:0").unwrap());
        let mut departures = Departures::default();
        assert_eq!(departures.find(&own, 0, ROCE_PORT), None);
        let there = departures.find(&own, 0, 0xc123).unwrap();
        assert_eq!(there, Departure { at: 0, source_port: 0xc123 });
        assert_eq!(departures.find(&own, 0, 0xc123), Some(there));
        let socket = &departures.sockets()[0];
        peer.send_to(b"stray", "127.0.12.1:49443").unwrap();
        assert!(socket.receive(&mut [0; 64]).is_none());
        let receiver = Socket::bind(Ipv4Addr::new(127, 0, 12, 2).into(), 1, 1 << 16).unwrap();
        let message = Message {
            bytes: b"packet",
            segment: None,
            destination: receiver.gid(),
            traffic_class: 0,
            hop_limit: 0,
        };
        assert_eq!(socket.send(&[message]).unwrap(), 1);
        let received = receiver.receive(&mut [0; 64]).unwrap();
        assert_eq!((received.source, received.source_port), (own.address(), 0xc123));
    }

    #[test]
    fn flows_share_ports_where_there_are_no_more_and_one_that_somebody_else_has_is_left() {
        let own = own(3);
        let mut departures = Departures::default();
        let taken = UdpSocket::bind("127.0.12.3:0").unwrap().local_addr().unwrap().port();
        let _taken = UdpSocket::bind(("127.0.12.3", taken)).unwrap();
        // There is none to share yet.
        assert_eq!(departures.find(&own, 0, taken), None);
        let wanted: Vec<u16> = (0xc000..).filter(|port| *port != taken).take(200).collect();
        let found: Vec<Departure> =
            wanted.iter().map(|port| departures.find(&own, 0, *port).unwrap()).collect();
        assert_eq!(departures.sockets().len(), DEPARTURES_MAX);
        for (wanted, found) in wanted.iter().zip(&found) {
            // What is said of the port is what the socket has.
            assert_eq!(departures.names[found.at], (0, found.source_port));
            assert_eq!(departures.find(&own, 0, *wanted), Some(*found));
        }
        let beyond: std::collections::HashSet<u16> =
            found[DEPARTURES_MAX..].iter().map(|it| it.source_port).collect();
        assert_eq!(beyond.len(), DEPARTURES_MAX, "they are spread");
    }
}
