//! 802.1Q VLAN tag (IEEE 802.1Q, 9.6), after the EtherType 0x8100 that announces it.
//!
//! ```text
//!   0    3   4           16                32
//!   │ PCP │DEI│ VLAN id  │ inner EtherType │ payload
//! ```
//!
//! Priority flow control reads the priority from here, or from the DSCP where hosts boot untagged
//! (guo16, 3).

use core::fmt;

use crate::ethernet::{self, EtherType};
use crate::{Error, be16};

/// Length in bytes, without the EtherType before it.
pub const HEADER_LEN: usize = 4;

mod field {
    use core::ops::{Range, RangeFrom};
    pub(super) const TAG: Range<usize> = 0..2;
    pub(super) const ETHERTYPE: Range<usize> = 2..4;
    pub(super) const PAYLOAD: RangeFrom<usize> = 4..;
}

const PRIORITY_SHIFT: u32 = 13;
const DROP_ELIGIBLE: u16 = 0x1000;
const ID: u16 = 0x0fff;

/// The tag control information.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tag {
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// Dropped first when a queue is short.
    pub drop_eligible: bool,
    /// VLAN, 12 bits; 0 for a tag that carries only a priority.
    pub id: u16,
}

impl Tag {
    /// The meaning of the sixteen bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self {
            priority: (bits >> PRIORITY_SHIFT) as u8,
            drop_eligible: bits & DROP_ELIGIBLE != 0,
            id: bits & ID,
        }
    }

    /// The sixteen bits; what does not fit a field is cut off.
    pub const fn bits(self) -> u16 {
        let eligible = if self.drop_eligible { DROP_ELIGIBLE } else { 0 };
        ((self.priority & 7) as u16) << PRIORITY_SHIFT | eligible | self.id & ID
    }
}

/// A view of the bytes of a tag and whatever follows it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer is long enough.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is not.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Priority and VLAN.
    pub fn tag(&self) -> Tag {
        Tag::from_bits(be16(self.bytes(), field::TAG))
    }

    /// What the payload is.
    pub fn ethertype(&self) -> EtherType {
        EtherType(be16(self.bytes(), field::ETHERTYPE))
    }

    /// What follows the tag, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[field::PAYLOAD]
    }
}

/// A VLAN tag and the EtherType behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Priority and VLAN.
    pub tag: Tag,
    /// What the payload is.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the tag at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self { tag: packet.tag(), ethertype: packet.ethertype() })
    }

    /// Writes the tag to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::TAG].copy_from_slice(&self.tag.bits().to_be_bytes());
        bytes[field::ETHERTYPE].copy_from_slice(&self.ethertype.0.to_be_bytes());
    }
}

/// Bytes of an Ethernet header, and of the tag behind it if there is one.
pub const fn link_header_len(tag: Option<Tag>) -> usize {
    ethernet::HEADER_LEN + if tag.is_some() { HEADER_LEN } else { 0 }
}

/// Writes an Ethernet header, whose EtherType is that of the payload, and `tag` behind it if there is
/// one, to the first [`link_header_len`] bytes of `bytes`.
pub fn emit_link_header(header: &ethernet::Repr, tag: Option<Tag>, bytes: &mut [u8]) {
    let ethertype = if tag.is_some() { EtherType::VLAN } else { header.ethertype };
    ethernet::Repr { ethertype, ..*header }.emit(bytes);
    if let Some(tag) = tag {
        Repr { tag, ethertype: header.ethertype }.emit(&mut bytes[ethernet::HEADER_LEN..]);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tag { priority, drop_eligible, id } = self.tag;
        let eligible = if drop_eligible { " drop-eligible" } else { "" };
        write!(f, "802.1Q vlan={id} priority={priority}{eligible} {}", self.ethertype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; 5] = [0x70, 0x64, 0x86, 0xdd, 0x60];

    fn repr() -> Repr {
        Repr { tag: Tag { priority: 3, drop_eligible: true, id: 100 }, ethertype: EtherType::IPV6 }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        assert_eq!(Packet::new_checked(&BYTES).unwrap().payload(), [0x60]);
        assert_eq!(format!("{}", repr()), "802.1Q vlan=100 priority=3 drop-eligible IPv6");
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    #[test]
    fn rejects_truncated() {
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
    }

    #[test]
    fn every_tag_survives_its_bits() {
        for bits in 0..=u16::MAX {
            assert_eq!(Tag::from_bits(bits).bits(), bits);
        }
    }
}
