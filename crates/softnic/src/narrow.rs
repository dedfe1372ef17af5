//! Paths that take shorter packets than a queue pair sends.
//!
//! ```text
//!   host, MTU 9000 ── switch, router or tunnel of MTU 1500 ── host, MTU 9000
//!       │  packets of 4,180 bytes ──► dropped │
//!       ◄── ICMP: take 1500 ─────────────────┘   the kernel keeps it
//! ```
//!
//! The path MTU of a connected queue pair is what its ends have agreed on before RTR, and every packet of a
//! message but its last is that long (IBTA vol 1, 9.7.2 and 11.2.5): the NIC may neither shorten nor fragment
//! them. So it says what is wrong where that is known: of a route, or of routers that have told the kernel. Who may
//! choose a path MTU, RDMA CM, takes one that fits.
//!
//! Where ICMP is filtered, long packets are dropped without a word, and the peer looks gone. What a queue pair knows then
//! is how long the packets were that it had answers to.
//!
//! **Invariant:** what a router says changes no connection that stands: anybody could say it.

use core::fmt;
use core::net::IpAddr;

use rdma::{Gid, Mtu};
use transport::failure::Unproven;

/// Packets of this path MTU fit any Ethernet.
const EVERYWHERE: Mtu = Mtu::B1024;

/// A path that is narrower than a path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NarrowPath {
    /// Where it leads.
    pub destination: IpAddr,
    /// The longest IP packet that it takes, as far as the kernel knows.
    pub bytes: u32,
    /// The path MTU that it is too narrow for.
    pub path_mtu: Mtu,
}

impl NarrowPath {
    /// `None` if packets of `path_mtu` fit a path to `destination` that takes so many `bytes`.
    pub(crate) fn of(destination: Gid, bytes: u32, path_mtu: Mtu) -> Option<Self> {
        let fits = Mtu::fitting(bytes) >= path_mtu;
        (!fits).then(|| Self { destination: destination.ip(), bytes, path_mtu })
    }
}

impl fmt::Display for NarrowPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { destination, bytes, path_mtu } = self;
        let needed = path_mtu.bytes() + rdma::mtu::HEADROOM;
        let fitting = Mtu::fitting(bytes).bytes();
        write!(
            f,
            "the path to {destination} takes packets of {bytes} bytes, and a path MTU of {} needs up to {needed}\n\
             hint: FERROCE_MTU={fitting} at both ends, or a smaller path_mtu in ibv_modify_qp",
            path_mtu.bytes(),
        )
    }
}

/// A path that has not brought packets as long as one that nobody has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SilentPath {
    destination: IpAddr,
    unproven: Unproven,
}

impl SilentPath {
    /// `None` if any Ethernet brings such packets: then the peer is gone, or all is dropped. What fits an Ethernet may not
    /// fit a tunnel, but is told only of a path that has brought something, and of what another path MTU would shorten.
    pub(crate) fn of(destination: Gid, unproven: Unproven) -> Option<Self> {
        let Unproven { bytes, answered } = unproven;
        let is_long = bytes > EVERYWHERE.bytes();
        let is_told = is_long || answered.is_some() && bytes > Mtu::B256.bytes();
        is_told.then(|| Self { destination: destination.ip(), unproven })
    }
}

impl fmt::Display for SilentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { destination, unproven: Unproven { bytes, answered } } = self;
        match answered {
            Some(0) => write!(
                f,
                "{destination} has answered, but no packet with {bytes} bytes of payload: the path may drop what is long \
                 without a word"
            )?,
            Some(short) => write!(
                f,
                "{destination} has answered packets with up to {short} bytes of payload, and none with {bytes}: \
                 the path may drop what is long without a word"
            )?,
            None => write!(
                f,
                "{destination} has never answered this queue pair: it or its queue pair is gone, or the path drops \
                 packets with {bytes} bytes of payload without a word"
            )?,
        }
        // What was short may have been so by chance.
        let shorter = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() < bytes);
        let fitting = shorter.unwrap_or(Mtu::B256).min(EVERYWHERE).bytes();
        // What `ping` is told is without the IP header and its own.
        let header = if destination.is_ipv4() { 20 } else { 40 };
        let size = bytes + rdma::mtu::HEADROOM - header - 8;
        write!(
            f,
            "\nhint: if `ping -M do -s {size} {destination}` is not answered and a short one is: FERROCE_MTU={fitting} at both ends"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::testing::{in_namespace, open};

    #[test]
    fn a_path_that_is_too_narrow_says_what_fits() {
        let destination = Gid::from(IpAddr::from([10, 0, 0, 2]));
        assert_eq!(NarrowPath::of(destination, 1500, Mtu::B1024), None);
        assert_eq!(
            NarrowPath::of(destination, 1500, Mtu::B4096).unwrap().to_string(),
            "the path to 10.0.0.2 takes packets of 1500 bytes, and a path MTU of 4096 needs up to 4180\n\
             hint: FERROCE_MTU=1024 at both ends, or a smaller path_mtu in ibv_modify_qp"
        );
    }

    #[test]
    fn a_path_that_is_silent_about_long_packets_says_how_to_find_out() {
        let destination = Gid::from(IpAddr::from([10, 0, 0, 2]));
        let said = |bytes, answered| {
            SilentPath::of(destination, Unproven { bytes, answered }).map(|it| it.to_string())
        };
        assert_eq!(
            said(4096, Some(1024)).unwrap(),
            "10.0.0.2 has answered packets with up to 1024 bytes of payload, and none with 4096: the path may drop what is \
             long without a word\n\
             hint: if `ping -M do -s 4152 10.0.0.2` is not answered and a short one is: FERROCE_MTU=1024 at both ends"
        );
        let answered = said(4096, Some(0)).unwrap();
        assert!(answered.starts_with("10.0.0.2 has answered, but no packet with 4096 bytes"));
        assert!(answered.ends_with("FERROCE_MTU=1024 at both ends"));
        assert!(said(4096, Some(8)).unwrap().ends_with("FERROCE_MTU=1024 at both ends"));
        assert!(said(2048, None).unwrap().contains("has never answered this queue pair"));
        // Through a tunnel.
        assert!(said(1024, Some(600)).unwrap().ends_with("FERROCE_MTU=512 at both ends"));
        // A path of Ethernet has no say in these.
        assert_eq!(said(1024, None), None);
        assert_eq!(said(256, Some(8)), None);
    }

    #[test]
    fn the_mtu_of_a_route_is_that_of_the_path() {
        let script = "ip link set lo up; ip link add eth0 type veth peer name eth1; \
                      ip link set eth1 up; ip link set eth0 mtu 9000 up; \
                      ip address add 10.0.0.1/24 dev eth0; \
                      ip route add 10.9.0.0/16 dev eth0 mtu 1400";
        let this = "narrow::tests::the_mtu_of_a_route_is_that_of_the_path";
        if !in_namespace(this, script) {
            return;
        }
        let nic = open("127.0.0.1");
        let membership = &mut nic.shared().lock().attachment.site.membership;
        let mut of = |it: [u8; 4]| membership.path_bytes(IpAddr::from(it).into(), clock::now());
        assert_eq!(of([10, 9, 0, 1]), Some(1400));
        assert_eq!(of([10, 0, 0, 2]), Some(9000));
        // Of this host, and where no route leads.
        assert_eq!([of([10, 0, 0, 1]), of([192, 0, 2, 1])], [None; 2]);
    }
}
