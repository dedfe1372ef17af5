//! The GID table of a port, in the order of the kernel's Soft-RoCE.

use core::net::{IpAddr, Ipv6Addr};

use rdma::Gid;

use crate::limits::GIDS_MAX;

/// One entry of a port's GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// Where it stands in the table.
    pub index: u8,
    /// Whether packets can be sent from it. The default GID of an interface without IPv6 cannot.
    pub usable: bool,
}

/// The EUI-64 of a MAC address (IEEE guidelines; RFC 4291, appendix A).
pub(crate) fn eui64(mac: [u8; 6]) -> [u8; 8] {
    [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]
}

/// The table of an interface with these addresses.
///
/// Index 0 is the link-local IPv6 address, or else the first IPv6 address there is, or else the
/// default GID made of the MAC, which cannot be used. Index 1 is the first IPv4 address. The others
/// follow in the kernel's order.
pub(crate) fn table(mac: [u8; 6], addresses: &[IpAddr]) -> Vec<GidEntry> {
    let is_link_local =
        |address: &&IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let first = addresses
        .iter()
        .find(is_link_local)
        .or_else(|| addresses.iter().find(|address| address.is_ipv6()));
    let second = addresses.iter().find(|address| address.is_ipv4());

    let mut ordered: Vec<(Gid, bool)> =
        vec![first.map_or_else(|| (default_gid(mac), false), |&address| (address.into(), true))];
    let rest = addresses.iter().filter(|&address| Some(address) != first);
    for &address in second.into_iter().chain(rest) {
        if ordered.iter().all(|&(gid, _)| gid != address.into()) {
            ordered.push((address.into(), true));
        }
    }
    ordered.truncate(GIDS_MAX);
    (0..).zip(ordered).map(|(index, (gid, usable))| GidEntry { gid, index, usable }).collect()
}

/// `fe80::` and the EUI-64 (IBTA vol 1, 4.1.1).
fn default_gid(mac: [u8; 6]) -> Gid {
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    octets[8..].copy_from_slice(&eui64(mac));
    Gid::from(Ipv6Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(addresses: &[&str]) -> Vec<(String, bool)> {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let table = table([0x02, 0xfc, 0, 0, 0, 1], &addresses);
        assert!(table.iter().enumerate().all(|(at, entry)| usize::from(entry.index) == at));
        table.iter().map(|entry| (entry.gid.to_string(), entry.usable)).collect()
    }

    fn used(gid: &str) -> (String, bool) {
        (gid.to_owned(), true)
    }

    #[test]
    fn link_local_is_first_and_ipv4_second() {
        assert_eq!(
            shown(&["10.0.0.2", "10.0.0.3", "fd00::2", "fe80::fc:ff:fe00:1"]),
            [
                used("fe80::fc:ff:fe00:1"),
                used("::ffff:10.0.0.2"),
                used("::ffff:10.0.0.3"),
                used("fd00::2")
            ]
        );
    }

    #[test]
    fn without_link_local_any_ipv6_is_first() {
        assert_eq!(shown(&["127.0.0.1", "::1"]), [used("::1"), used("::ffff:127.0.0.1")]);
    }

    #[test]
    fn without_ipv6_the_default_gid_keeps_ipv4_at_index_1() {
        assert_eq!(
            shown(&["127.0.0.1"]),
            [("fe80::fc:ff:fe00:1".to_owned(), false), used("::ffff:127.0.0.1")]
        );
    }

    #[test]
    fn the_table_is_small() {
        let many: Vec<String> = (0..100).map(|last| format!("10.0.0.{last}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(shown(&many).len(), GIDS_MAX);
    }
}
