//! What two rsockets tell each other while they connect: the private data of REQ and REP.
//!
//! ```text
//!   0  version, which is 1              8  places: address 8, key 4, how many 4
//!   1  flags                           24  buffer: address 8, key 4, bytes 4
//!   2  credits
//!   4  zeros        7  maps, scaled     (40 bytes, in network order)
//! ```

/// How long it is.
pub(super) const LEN: usize = 40;
const VERSION: u8 = 1;
/// The sender is a big-endian machine, and so are the entries that are written into its memory.
const BIG_ENDIAN: u8 = 1;
/// The sender has a table of maps behind its list of places.
const HAS_MAPS: u8 = 1 << 1;

mod field {
    use core::ops::Range;

    pub(super) const VERSION: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const CREDITS: Range<usize> = 2..4;
    pub(super) const MAPS: usize = 7;
    pub(super) const LIST: Range<usize> = 8..24;
    pub(super) const BUFFER: Range<usize> = 24..40;
}

/// Memory of the other side: of the list of places, the length is in entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) key: u32,
    pub(super) length: u32,
}

impl Place {
    /// How long one is.
    pub(super) const LEN: usize = 16;

    fn parse(bytes: [u8; Self::LEN]) -> Self {
        let word = u128::from_be_bytes(bytes);
        Self { address: (word >> 64) as u64, key: (word >> 32) as u32, length: word as u32 }
    }

    fn emit(self) -> [u8; Self::LEN] {
        let (address, key) = (u128::from(self.address), u128::from(self.key));
        (address << 64 | key << 32 | u128::from(self.length)).to_be_bytes()
    }

    /// One that was written into our memory.
    pub(super) fn of_memory(bytes: [u8; Self::LEN]) -> Self {
        let [address @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, key @ .., _, _, _, _] = bytes;
        let [.., a, b, c, d] = bytes;
        Self {
            address: u64::from_ne_bytes(address),
            key: u32::from_ne_bytes(key),
            length: u32::from_ne_bytes([a, b, c, d]),
        }
    }

    /// As it is written into the memory of a machine.
    pub(super) fn in_memory(self, big_endian: bool) -> [u8; Self::LEN] {
        if big_endian {
            return self.emit();
        }
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }
}

/// What one side says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Greeting {
    pub(super) big_endian: bool,
    /// How many messages may be sent to it.
    pub(super) credits: u16,
    /// How many maps its table has.
    pub(super) maps: u16,
    /// Where it is to be told of places to write to.
    pub(super) list: Place,
    /// The first of these.
    pub(super) buffer: Place,
}

impl Greeting {
    /// Reads one; `None` if it is of no rsocket that this one understands.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.first_chunk()?;
        if bytes[field::VERSION] != VERSION {
            return None;
        }
        let place =
            |range| bytes.get::<core::ops::Range<usize>>(range)?.try_into().ok().map(Place::parse);
        let flags = bytes[field::FLAGS];
        let has_maps = flags & HAS_MAPS != 0;
        Some(Self {
            big_endian: flags & BIG_ENDIAN != 0,
            credits: u16::from_be_bytes(bytes[field::CREDITS].try_into().ok()?),
            maps: if has_maps { unscaled(bytes[field::MAPS]) } else { 0 },
            list: place(field::LIST)?,
            buffer: place(field::BUFFER)?,
        })
    }

    pub(super) fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[field::VERSION] = VERSION;
        bytes[field::FLAGS] = HAS_MAPS | if self.big_endian { BIG_ENDIAN } else { 0 };
        bytes[field::CREDITS].copy_from_slice(&self.credits.to_be_bytes());
        bytes[field::MAPS] = scaled(self.maps);
        bytes[field::LIST].copy_from_slice(&self.list.emit());
        bytes[field::BUFFER].copy_from_slice(&self.buffer.emit());
        bytes
    }
}

/// The most maps whose number can be told.
pub(super) const MAPS_MAX: u16 = 0x7f << 8;
/// Up to here a number of maps is told as it is; beyond, in units of 256.
const EXACT: u16 = 128;

fn scaled(maps: u16) -> u8 {
    let maps = maps.min(MAPS_MAX);
    if maps <= EXACT { maps as u8 } else { EXACT as u8 | (maps >> 8) as u8 }
}

fn unscaled(scale: u8) -> u16 {
    let scale = u16::from(scale);
    if scale <= EXACT { scale } else { (scale & !EXACT) << 8 }
}

/// The number of maps that can be told and is nearest below `maps`.
pub(super) fn tellable(maps: u32) -> u16 {
    unscaled(scaled(u16::try_from(maps).unwrap_or(u16::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: Greeting = Greeting {
        big_endian: false,
        credits: 384,
        maps: 1,
        list: Place { address: 0x0102_0304_0506_0708, key: 0x1112_1314, length: 2 },
        buffer: Place { address: 0x2122_2324_2526_2728, key: 0x3132_3334, length: 0x1_0000 },
    };
    const BYTES: [u8; LEN] = [
        1, 2, 0x01, 0x80, 0, 0, 0, 1, //
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 2, //
        0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0, 1, 0, 0,
    ];

    #[test]
    fn a_greeting_has_the_bytes_of_the_protocol() {
        assert_eq!(GREETING.emit(), BYTES);
        assert_eq!(Greeting::parse(&BYTES), Some(GREETING));
        // Private data is longer than what is in it.
        let mut longer = BYTES.to_vec();
        longer.extend([0xff; 16]);
        assert_eq!(Greeting::parse(&longer), Some(GREETING));
    }

    #[test]
    fn what_is_no_greeting_is_refused() {
        let mut other = BYTES;
        other[0] = 2;
        assert_eq!(Greeting::parse(&other), None);
        assert_eq!(Greeting::parse(&BYTES[..LEN - 1]), None);
        assert_eq!(Greeting::parse(&[]), None);
    }

    #[test]
    fn who_does_not_say_so_has_no_maps() {
        let mut older = BYTES;
        older[1] = 1;
        let parsed = Greeting::parse(&older).unwrap();
        assert_eq!((parsed.maps, parsed.big_endian), (0, true));
    }

    #[test]
    fn numbers_of_maps_beyond_128_are_told_in_units_of_256() {
        let told = [0, 1, 128, 129, 256, 511, 512, 1 << 20].map(tellable);
        assert_eq!(told, [0, 1, 128, 128, 256, 256, 512, MAPS_MAX]);
    }

    #[test]
    fn entries_are_written_as_their_reader_has_numbers() {
        let place = Place { address: 1, key: 2, length: 3 };
        assert_eq!(place.in_memory(false), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(place.in_memory(true), [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        assert_eq!(Place::of_memory(place.in_memory(cfg!(target_endian = "big"))), place);
    }
}
