//! The addresses of hosts and ports on the wire, and the tuples that identify the packets of a flow.

use core::net::Ipv4Addr;

use wire::ethernet::Address;

use crate::random::split_mix;

/// The address of host `index`: 10.0.0.1 is that of host 0.
pub(crate) fn address_of(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | (index + 1) & 0x00ff_ffff)
}

/// The host that would have an address.
pub(crate) fn host_of(address: Ipv4Addr) -> Option<u32> {
    let number = u32::from(address);
    (number >> 24 == 10).then_some(number & 0x00ff_ffff)?.checked_sub(1)
}

/// The MAC address of a host: its IP address behind a prefix that is nobody's.
pub(crate) fn mac_of_host(host: u32) -> Address {
    let [_, a, b, c] = address_of(host).octets();
    Address([2, 0, 0, a, b, c])
}

/// The MAC address of a port of a switch.
pub(crate) fn mac_of_port(switch: u32, local: u16) -> Address {
    let ([_, _, a, b], [c, d]) = (switch.to_be_bytes(), local.to_be_bytes());
    Address([2, 1, a, b, c, d])
}

/// Both ends of one direction, as a switch sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuple {
    /// Host that sends.
    pub(crate) source: u32,
    /// Host that it is for.
    pub(crate) destination: u32,
    /// UDP source port.
    pub(crate) source_port: u16,
    /// Of addresses and ports.
    pub(crate) hash: u32,
}

/// The hash of a five-tuple; protocol and destination port are those of RoCE for everybody.
pub(crate) fn hash_of(source: u32, destination: u32, source_port: u16) -> u32 {
    let addresses = u64::from(source) << 32 | u64::from(destination);
    (split_mix(split_mix(addresses) ^ u64::from(source_port)) >> 32) as u32
}
