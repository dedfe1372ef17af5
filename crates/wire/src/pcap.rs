//! Classic pcap: a file header, then a record per frame (draft-ietf-opsawg-pcap, 4 and 5).
//!
//! ```text
//!   0       4     8          16        20          24
//!   │ magic │ 2.4 │ reserved │ snaplen │ link type │ records ..
//!   record: │ seconds │ nanoseconds │ captured length │ original length │ frame
//! ```
//!
//! Written in nanoseconds; read in nanoseconds or microseconds, in either byte order. For several
//! interfaces or directions in one file see [`crate::pcapng`].
//!
//! No crate is used: those that parse allocate or need std, and those that write need
//! `std::io`, while a file header and a record header are all there is to the format. Bytes go to
//! the caller, which owns the file.

use alloc::vec::Vec;

use rdma::Time;

use crate::Error;

/// Length of the file header in bytes.
pub const HEADER_LEN: usize = 24;
/// Length of the header before each frame in bytes.
const RECORD_HEADER_LEN: usize = 16;
/// LINKTYPE_ETHERNET: frames begin with an Ethernet header.
pub(crate) const LINKTYPE_ETHERNET: u32 = 1;
/// The longest frame that the file header announces; programs read it as "whole frames".
pub(crate) const SNAP_LEN: u32 = 262_144;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;

const PS_PER_SECOND: u128 = 1_000_000_000_000;

mod field {
    use core::ops::Range;
    pub(super) const MAGIC: Range<usize> = 0..4;
    pub(super) const MAJOR: Range<usize> = 4..6;
    pub(super) const MINOR: Range<usize> = 6..8;
    pub(super) const SNAP_LEN: Range<usize> = 16..20;
    pub(super) const LINKTYPE: Range<usize> = 20..24;

    pub(super) const SECONDS: Range<usize> = 0..4;
    pub(super) const FRACTION: Range<usize> = 4..8;
    pub(super) const CAPTURED: Range<usize> = 8..12;
    pub(super) const ORIGINAL: Range<usize> = 12..16;
}

/// The header of a file, in little-endian nanoseconds.
pub fn file_header() -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[field::MAGIC].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
    bytes[field::MAJOR].copy_from_slice(&2u16.to_le_bytes());
    bytes[field::MINOR].copy_from_slice(&4u16.to_le_bytes());
    bytes[field::SNAP_LEN].copy_from_slice(&SNAP_LEN.to_le_bytes());
    bytes[field::LINKTYPE].copy_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
    bytes
}

/// The header of a frame of `length` bytes seen at `at`; picoseconds are cut off.
fn record_header(at: Time, length: u32) -> [u8; RECORD_HEADER_LEN] {
    let nanoseconds = at.as_ns();
    // 2^64 ps are 213 days: neither part overflows.
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let mut bytes = [0; RECORD_HEADER_LEN];
    bytes[field::SECONDS].copy_from_slice(&(seconds as u32).to_le_bytes());
    bytes[field::FRACTION].copy_from_slice(&(fraction as u32).to_le_bytes());
    bytes[field::CAPTURED].copy_from_slice(&length.to_le_bytes());
    bytes[field::ORIGINAL].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Appends the record of `frame`, seen at `at`, to `file`.
pub fn write(file: &mut Vec<u8>, at: Time, frame: &[u8]) {
    let length = u32::try_from(frame.len()).expect("a frame is shorter than 4 GiB");
    file.extend_from_slice(&record_header(at, length));
    file.extend_from_slice(frame);
}

/// The frames of a file, in its order.
///
/// Times are what the file says if the first of them fits [`Time`]. A real capture counts from
/// 1970, which does not: there, times count from the whole second in which it begins, see
/// [`Reader::base_seconds`]. After an error comes nothing more.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    little_endian: bool,
    ps_per_unit: u128,
    base: Base,
}

impl<'a> Reader<'a> {
    /// A reader over a whole file.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Capture`] if the magic is unknown; [`Error::Version`];
    /// [`Error::Protocol`] if the frames are not Ethernet's.
    pub fn new(file: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = file.split_at_checked(HEADER_LEN).ok_or(Error::Truncated)?;
        let magic = u32_at(header, field::MAGIC, true);
        let (little_endian, ps_per_unit) = match (magic, magic.swap_bytes()) {
            (MAGIC_NANOSECONDS, _) => (true, 1_000),
            (MAGIC_MICROSECONDS, _) => (true, 1_000_000),
            (_, MAGIC_NANOSECONDS) => (false, 1_000),
            (_, MAGIC_MICROSECONDS) => (false, 1_000_000),
            _ => return Err(Error::Capture),
        };
        if u16_at(header, field::MAJOR, little_endian) != 2 {
            return Err(Error::Version);
        }
        // The upper bits say whether a check sequence follows each frame; none of ours has one.
        if u32_at(header, field::LINKTYPE, little_endian) != LINKTYPE_ETHERNET {
            return Err(Error::Protocol);
        }
        let mut reader = Self { rest, little_endian, ps_per_unit, base: Base::default() };
        if let Some(header) = rest.get(..RECORD_HEADER_LEN) {
            reader.base = Base::of(reader.timestamp(header));
        }
        Ok(reader)
    }

    /// How many seconds were taken off every time.
    pub fn base_seconds(&self) -> u64 {
        self.base.0
    }

    fn timestamp(&self, header: &[u8]) -> u128 {
        let seconds = u32_at(header, field::SECONDS, self.little_endian);
        let fraction = u32_at(header, field::FRACTION, self.little_endian);
        u128::from(seconds) * PS_PER_SECOND + u128::from(fraction) * self.ps_per_unit
    }

    fn record(&mut self) -> Result<(Time, &'a [u8]), Error> {
        let (header, rest) =
            self.rest.split_at_checked(RECORD_HEADER_LEN).ok_or(Error::Truncated)?;
        let length = u32_at(header, field::CAPTURED, self.little_endian) as usize;
        let (frame, rest) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok((self.base.time(self.timestamp(header)), frame))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(Time, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

/// What times of a file count from, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Base(pub(crate) u64);

impl Base {
    /// The base for a file whose first frame was seen `first_ps` picoseconds after 1970, or after
    /// the beginning of a simulation.
    pub(crate) fn of(first_ps: u128) -> Self {
        if u64::try_from(first_ps).is_ok() {
            return Self(0);
        }
        Self(u64::try_from(first_ps / PS_PER_SECOND).unwrap_or(u64::MAX))
    }

    /// The time that `ps` is; the nearest that there is, if it does not fit.
    pub(crate) fn time(self, ps: u128) -> Time {
        let since = ps.saturating_sub(u128::from(self.0) * PS_PER_SECOND);
        Time::from_ps(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// A `u32` at `range` of `bytes`, which is long enough.
pub(crate) fn u32_at(bytes: &[u8], range: core::ops::Range<usize>, little_endian: bool) -> u32 {
    let word = crate::be32(bytes, range);
    if little_endian { word.swap_bytes() } else { word }
}

/// A `u16` at `range` of `bytes`, which is long enough.
pub(crate) fn u16_at(bytes: &[u8], range: core::ops::Range<usize>, little_endian: bool) -> u16 {
    let word = crate::be16(bytes, range);
    if little_endian { word.swap_bytes() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn file() -> Vec<u8> {
        let mut file = file_header().to_vec();
        write(&mut file, Time::from_ns(1_500_000_007), &[1, 2, 3]);
        write(&mut file, Time::from_ns(2_000_000_000), &[]);
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let file = file();
        let reader = Reader::new(&file).unwrap();
        assert_eq!(reader.base_seconds(), 0);
        let frames: Result<Vec<_>, _> = reader.collect();
        let expected: Vec<(Time, &[u8])> =
            vec![(Time::from_ns(1_500_000_007), &[1, 2, 3]), (Time::from_ns(2_000_000_000), &[])];
        assert_eq!(frames, Ok(expected));
    }

    #[test]
    fn the_header_is_that_of_every_other_program() {
        assert_eq!(
            file_header(),
            [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]
        );
        assert_eq!(
            record_header(Time::from_ns(1_500_000_007), 3),
            [1, 0, 0, 0, 0x07, 0x65, 0xcd, 0x1d, 3, 0, 0, 0, 3, 0, 0, 0]
        );
    }

    #[test]
    fn a_big_endian_file_in_microseconds_since_1970_is_read() {
        let mut file = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        file.extend([0, 0, 0xff, 0xff, 0, 0, 0, 1]);
        for seconds in [0x6900_0000u32, 0x6900_0001, 0x68ff_ffff] {
            file.extend(seconds.to_be_bytes());
            file.extend([0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 9, 0xee]);
        }
        let reader = Reader::new(&file).unwrap();
        assert_eq!(reader.base_seconds(), 0x6900_0000);
        let times: Vec<_> = reader.map(|frame| frame.unwrap().0).collect();
        let (us, s) = (1_000, 1_000_000_000);
        assert_eq!(times, [Time::from_ns(5 * us), Time::from_ns(s + 5 * us), Time::ZERO]);
    }

    #[test]
    fn says_why_it_refuses() {
        let with = |index: usize, value| {
            let mut file = file();
            file[index] = value;
            Reader::new(&file).err()
        };
        assert_eq!(Reader::new(&file()[..23]).err(), Some(Error::Truncated));
        assert_eq!(with(0, 0), Some(Error::Capture));
        assert_eq!(with(4, 1), Some(Error::Version));
        assert_eq!(with(20, 113), Some(Error::Protocol));
    }

    #[test]
    fn a_file_that_ends_early_gives_what_is_whole_and_one_error() {
        let file = file();
        for end in HEADER_LEN..file.len() {
            let mut reader = Reader::new(&file[..end]).unwrap();
            let whole = reader.by_ref().take_while(Result::is_ok).count();
            assert_eq!(whole, usize::from(end >= HEADER_LEN + RECORD_HEADER_LEN + 3), "{end}");
            assert_eq!(reader.next(), None);
        }
    }
}
