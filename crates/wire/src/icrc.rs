//! The invariant CRC (IBTA vol 1, 7.8.1; RoCE v2: annex A17.3.3).
//!
//! A CRC-32 over what no switch may change, from the IP header to the last pad byte. Eight bytes of ones
//! precede it, and the fields that switches do change count as ones (traffic class,
//! TTL, header checksum; for IPv6 also the flow label; the UDP checksum; the fifth byte of the BTH).
//!
//! The IPv4 identification is covered, and a receiver on a UDP socket cannot see it. The CRC is
//! linear: the difference between the ICRC received and that computed with identification 0 depends
//! on nothing but the identification and the length. [`recover_id`] inverts that. It succeeds for
//! one difference in 2^16, so the other half of the check still holds.

use core::net::IpAddr;

use crate::bth;
use crate::udp::ROCE_PORT;

/// The headers below RoCE, as far as they are covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address, of the same family.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// IPv4 identification.
    pub id: u16,
    /// IPv4 "don't fragment".
    pub dont_fragment: bool,
}

impl Datagram {
    /// As most that carry RoCE are: from port 4791 to port 4791, with identification 0, and not to be
    /// fragmented.
    #[inline]
    pub const fn between(source: IpAddr, destination: IpAddr) -> Self {
        let (source_port, destination_port) = (ROCE_PORT, ROCE_PORT);
        Self { source, destination, source_port, destination_port, id: 0, dont_fragment: true }
    }
}

const ONES: usize = 8;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const BTH_MASKED: usize = 4;

/// The CRC of what is covered before the BTH, for packets whose headers below it differ in the IPv4
/// identification alone, such as those of a GSO batch.
///
/// The CRC is linear, so the difference between an identification and identification 0 depends on
/// nothing else, and is found in a table. The correction for the fifth byte of the BTH is in another. So
/// one pass covers a packet as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The CRC up to the BTH, with identification 0.
    crc: u32,
    has_id: bool,
}

impl Prefix {
    /// For packets of `length` bytes: BTH, extended headers, payload and padding together, everything
    /// that will be covered, without the ICRC itself. The identification in `datagram` is ignored.
    pub fn new(datagram: &Datagram, length: usize) -> Self {
        let mut bytes = [0xff_u8; ONES + IPV6_LEN + UDP_LEN];
        // Lengths beyond 16 bits cannot be sent; the CRC of such a packet is of no meaning.
        let udp_len = (UDP_LEN + length + crate::roce::ICRC_LEN) as u16;
        let mut at = ONES;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        let mut has_id = false;
        match (datagram.source, datagram.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                has_id = true;
                put(&[0x45, 0xff]);
                put(&udp_len.wrapping_add(IPV4_LEN as u16).to_be_bytes());
                put(&[0, 0]);
                put(&[if datagram.dont_fragment { 0x40 } else { 0 }, 0]);
                put(&[0xff, 17, 0xff, 0xff]);
                put(&source.octets());
                put(&destination.octets());
            }
            (source, destination) => {
                let octets = |address| match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                    IpAddr::V6(v6) => v6.octets(),
                };
                put(&[0x6f, 0xff, 0xff, 0xff]);
                put(&udp_len.to_be_bytes());
                put(&[17, 0xff]);
                put(&octets(source));
                put(&octets(destination));
            }
        }
        put(&datagram.source_port.to_be_bytes());
        put(&datagram.destination_port.to_be_bytes());
        put(&udp_len.to_be_bytes());
        put(&[0xff, 0xff]);
        Self { crc: crc32fast::hash(&bytes[..at]), has_id }
    }

    /// Whether there is an identification, which IPv6 does not have.
    pub fn has_id(&self) -> bool {
        self.has_id
    }

    /// The ICRC of the packet with IPv4 identification `id`: `bytes` are its BTH and all behind it
    /// that is covered, as many as the prefix was made for.
    ///
    /// # Errors
    /// [`crate::Error::Truncated`] if they are shorter than a BTH.
    #[inline]
    pub fn icrc(&self, id: u16, bytes: &[u8]) -> Result<[u8; 4], crate::Error> {
        if bytes.len() < bth::LEN {
            return Err(crate::Error::Truncated);
        }
        let [high, low] = if self.has_id { id.to_be_bytes() } else { [0, 0] };
        let ids = ID_HIGH[usize::from(high)] ^ ID_LOW[usize::from(low)];
        let masked = UNMASKED[usize::from(bytes[BTH_MASKED])];
        let mut hasher = crc32fast::Hasher::new_with_initial(self.crc ^ ids ^ masked);
        hasher.update(bytes);
        Ok(hasher.finalize().to_le_bytes())
    }
}

/// How the ICRC of a packet changes with the headers below it, whatever the packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Correction {
    /// What the other prefix adds to the CRC at the end of the packet.
    difference: u32,
    /// x^(8 length).
    shift: u32,
}

impl Correction {
    /// From one prefix to another, both for packets of `length` bytes.
    pub fn new(from: &Prefix, to: &Prefix, length: usize) -> Self {
        let shift = fast_power(8 * length);
        Self { difference: multiply(from.crc ^ to.crc, shift), shift }
    }

    /// The ICRC with the other prefix and identification `to` of a packet that had `icrc` with identification
    /// `from`. If that was wrong, so is this, and by the same bits.
    #[inline]
    pub fn apply(&self, icrc: [u8; 4], from: u16, to: u16) -> [u8; 4] {
        let [high, low] = (from ^ to).to_be_bytes();
        let ids = ID_HIGH[usize::from(high)] ^ ID_LOW[usize::from(low)];
        let icrc = u32::from_le_bytes(icrc) ^ self.difference ^ multiply(ids, self.shift);
        icrc.to_le_bytes()
    }
}

/// The ICRC of a packet: `bytes` are BTH, extended headers, payload and padding.
///
/// # Errors
/// [`crate::Error::Truncated`] if they are shorter than a BTH.
pub fn compute(datagram: &Datagram, bytes: &[u8]) -> Result<[u8; 4], crate::Error> {
    Prefix::new(datagram, bytes.len()).icrc(datagram.id, bytes)
}

/// The IPv4 identification that explains why an ICRC is `received` and not `computed`, which was
/// computed with identification 0 over `length` bytes from the BTH on; `None` if none does.
pub fn recover_id(received: [u8; 4], computed: [u8; 4], length: usize) -> Option<u16> {
    let syndrome = u32::from_le_bytes(received) ^ u32::from_le_bytes(computed);
    // What is covered after the identification: the rest of the IP header, UDP, RoCE.
    let after = IPV4_LEN - 6 + UDP_LEN + length;
    // The identification is a polynomial X of degree 15 at most, and the syndrome is
    // X * x^(8 after + 32) mod P. The bits are reflected: x^0 is bit 31.
    let x = multiply(syndrome, inverse_power(8 * after + 32));
    if x & 0xffff != 0 {
        return None;
    }
    Some(((x >> 16) as u16).swap_bytes())
}

/// The polynomial of CRC-32, reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// x^0, reflected.
const ONE: u32 = 1 << 31;

/// The product modulo the polynomial.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = ONE;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 != 0 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
        bit >>= 1;
    }
    product
}

/// x^-(2^i) for i = 0..20, enough for every length of a datagram.
static INVERSES: [u32; 20] = {
    // x^-1: the polynomial has a constant term, so shifting it out undoes a multiplication by x.
    let mut powers = [(ONE ^ POLYNOMIAL) << 1 | 1; 20];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = multiply(powers[index - 1], powers[index - 1]);
        index += 1;
    }
    powers
};

/// What the upper byte of an identification adds to the CRC up to the BTH, and the lower: they are
/// followed by the rest of the IP header and UDP.
static ID_HIGH: [u32; 256] = products(16, power(8 * (IPV4_LEN - 6 + UDP_LEN) + 32));
static ID_LOW: [u32; 256] = products(24, power(8 * (IPV4_LEN - 6 + UDP_LEN) + 32));

/// By the value of the fifth byte of the BTH: what to add to the CRC up to the BTH so that this byte
/// counts as ones.
static UNMASKED: [u32; 256] = {
    let mut table = products(24, INVERSES[3]);
    table.reverse();
    table
};

/// The product of each byte, moved `shift` bits to the left, with `factor`.
const fn products(shift: u32, factor: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = multiply((byte as u32) << shift, factor);
        byte += 1;
    }
    table
}

/// x^exponent modulo the polynomial.
const fn power(exponent: usize) -> u32 {
    let mut product = ONE;
    let mut left = exponent;
    while left > 0 {
        product = multiply(product, ONE >> 1);
        left -= 1;
    }
    product
}

/// x^(2^i) for i = 0..20.
static POWERS: [u32; 20] = {
    let mut powers = [ONE >> 1; 20];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = multiply(powers[index - 1], powers[index - 1]);
        index += 1;
    }
    powers
};

/// [`power`] of exponents below 2^20, in as many steps as they have bits.
fn fast_power(exponent: usize) -> u32 {
    let bits = POWERS.iter().enumerate().filter(|(bit, _)| exponent >> bit & 1 != 0);
    bits.fold(ONE, |product, (_, &power)| multiply(product, power))
}

/// x^-exponent modulo the polynomial.
fn inverse_power(exponent: usize) -> u32 {
    INVERSES
        .iter()
        .enumerate()
        .filter(|(index, _)| exponent >> index & 1 != 0)
        .fold(ONE, |product, (_, &power)| multiply(product, power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::vec::Vec;

    fn datagram(id: u16) -> Datagram {
        let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(10, 77, 0, last).into());
        Datagram { source_port: 49_192, id, ..Datagram::between(source, destination) }
    }

    fn packet(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 7 + 3) as u8).collect()
    }

    #[test]
    fn a_power_and_its_inverse_make_one() {
        let x = ONE >> 1;
        let mut power = ONE;
        for exponent in 0..100 {
            assert_eq!(multiply(power, inverse_power(exponent)), ONE, "x^{exponent}");
            power = multiply(power, x);
        }
    }

    #[test]
    fn an_icrc_is_corrected_for_other_headers_and_a_wrong_one_stays_as_wrong() {
        for length in [12, 13, 28, 1_040, 4_120] {
            let (bytes, from) = (packet(length), datagram(0));
            let to = Datagram { source_port: 0xc0de, ..datagram(0) };
            let prefixes = [from, to].map(|datagram| Prefix::new(&datagram, length));
            let correction = Correction::new(&prefixes[0], &prefixes[1], length);
            for ids in [(0, 0), (0, 1), (63, 0xabcd), (0xffff, 0)] {
                let [before, after] = [(0, ids.0), (1, ids.1)]
                    .map(|(prefix, id): (usize, u16)| prefixes[prefix].icrc(id, &bytes).unwrap());
                assert_eq!(correction.apply(before, ids.0, ids.1), after, "{length} {ids:?}");
                let wrong = before.map(|byte| byte ^ 0x40);
                let corrected = correction.apply(wrong, ids.0, ids.1);
                assert_eq!(corrected, after.map(|byte| byte ^ 0x40));
            }
        }
    }

    #[test]
    fn every_identification_is_recovered() {
        let bytes = packet(12 + 1024);
        let zero = compute(&datagram(0), &bytes).unwrap();
        for id in (0..=u16::MAX).step_by(17) {
            let received = compute(&datagram(id), &bytes).unwrap();
            assert_eq!(recover_id(received, zero, bytes.len()), Some(id));
        }
    }

    #[test]
    fn an_identification_is_recovered_at_every_length() {
        for length in 12..300 {
            let bytes = packet(length);
            let zero = compute(&datagram(0), &bytes).unwrap();
            let received = compute(&datagram(0xbeef), &bytes).unwrap();
            assert_eq!(recover_id(received, zero, length), Some(0xbeef), "length {length}");
        }
    }

    #[test]
    fn a_flipped_bit_is_no_identification() {
        let bytes = packet(12 + 256);
        let zero = compute(&datagram(0), &bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            // The fifth byte of the BTH is not covered.
            if bit / 8 == BTH_MASKED {
                continue;
            }
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let computed = compute(&datagram(0), &broken).unwrap();
            assert_eq!(recover_id(zero, computed, bytes.len()), None, "bit {bit}");
        }
    }

    /// The definition, byte by byte.
    fn defined(datagram: &Datagram, bytes: &[u8]) -> [u8; 4] {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (datagram.source, datagram.destination)
        else {
            unreachable!("the tests of it are of IPv4");
        };
        let udp_len = (bytes.len() + 12) as u16;
        let mut covered = std::vec![0xff; 8];
        covered.extend([0x45, 0xff]);
        covered.extend((udp_len + 20).to_be_bytes());
        covered.extend(datagram.id.to_be_bytes());
        covered.extend([0x40, 0, 0xff, 17, 0xff, 0xff]);
        covered.extend(source.octets());
        covered.extend(destination.octets());
        covered.extend(datagram.source_port.to_be_bytes());
        covered.extend(datagram.destination_port.to_be_bytes());
        covered.extend(udp_len.to_be_bytes());
        covered.extend([0xff, 0xff]);
        covered.extend(bytes);
        let masked = covered.len() - bytes.len() + BTH_MASKED;
        covered[masked] = 0xff;
        crc32fast::hash(&covered).to_le_bytes()
    }

    #[test]
    fn one_prefix_serves_every_identification_and_every_fifth_byte() {
        let mut bytes = packet(12 + 77);
        let prefix = Prefix::new(&datagram(0), bytes.len());
        for id in (0..=u16::MAX).step_by(251) {
            bytes[BTH_MASKED] = (id / 251) as u8;
            let expected = defined(&datagram(id), &bytes);
            assert_eq!(prefix.icrc(id, &bytes), Ok(expected), "identification {id}");
        }
    }

    #[test]
    fn switches_may_set_congestion_bits() {
        let bytes = packet(40);
        let mut marked = bytes.clone();
        marked[BTH_MASKED] ^= 0xc0;
        assert_eq!(compute(&datagram(0), &bytes), compute(&datagram(0), &marked));
        assert!(compute(&datagram(0), &[0; 11]).is_err());
    }

    #[test]
    fn ipv6_has_no_identification() {
        let v6 = |id| Datagram {
            source: Ipv6Addr::LOCALHOST.into(),
            destination: Ipv6Addr::LOCALHOST.into(),
            ..datagram(id)
        };
        assert_eq!(compute(&v6(0), &packet(40)), compute(&v6(9), &packet(40)));
    }
}
