//! pcapng: blocks for the section, its interfaces and their frames (draft-ietf-opsawg-pcapng).
//!
//! ```text
//!   0      4        8                      length-4  length
//!   │ type │ length │ body, options        │ length  │       all padded to four bytes
//!
//!   section header 0x0a0d0d0a │ interface description 1 │ enhanced packet 6 │ enhanced packet 6 ..
//! ```
//!
//! One file holds many interfaces by name, and each frame its interface and direction, so that a
//! simulated fabric or a lab is one capture. Written in little-endian nanoseconds; read in either
//! byte order and any resolution. Blocks of other types are passed over, simple packets too: they
//! have no time.
//!
//! As for [`crate::pcap`], no crate is used, for the same reasons.

use alloc::vec::Vec;
use core::fmt;

use rdma::Time;

use crate::Error;
use crate::pcap::{Base, LINKTYPE_ETHERNET, SNAP_LEN, u16_at, u32_at};

/// Length in bytes of the section header that is written.
pub const SECTION_HEADER_LEN: usize = 28;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_SHB_USERAPPL: u16 = 4;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_DESCRIPTION: u16 = 3;
const OPTION_IF_SPEED: u16 = 8;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_TSOFFSET: u16 = 14;
const OPTION_EPB_FLAGS: u16 = 2;
const OPTION_ISB_IFRECV: u16 = 4;
const OPTION_ISB_IFDROP: u16 = 5;

/// Type, length, and length again.
const FRAME_OF_BLOCK: usize = 12;

mod field {
    use core::ops::Range;
    pub(super) const TYPE: Range<usize> = 0..4;
    pub(super) const LENGTH: Range<usize> = 4..8;
    /// In a section header.
    pub(super) const BYTE_ORDER: Range<usize> = 8..12;

    /// Within the body, from here on.
    pub(super) const MAJOR: Range<usize> = 4..6;
    pub(super) const SECTION_OPTIONS: usize = 16;
    pub(super) const LINKTYPE: Range<usize> = 0..2;
    pub(super) const INTERFACE_OPTIONS: usize = 8;
    pub(super) const INTERFACE: Range<usize> = 0..4;
    pub(super) const TIME_HIGH: Range<usize> = 4..8;
    pub(super) const TIME_LOW: Range<usize> = 8..12;
    pub(super) const CAPTURED: Range<usize> = 12..16;
    pub(super) const FRAME: usize = 20;
}

/// The direction of a frame, seen from its interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// Not said.
    #[default]
    Unknown,
    /// It was received.
    Inbound,
    /// It was sent.
    Outbound,
}

impl Direction {
    /// The lowest two bits of `epb_flags`.
    const fn bits(self) -> u32 {
        self as u32
    }

    const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            1 => Self::Inbound,
            2 => Self::Outbound,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "?",
            Self::Inbound => "in",
            Self::Outbound => "out",
        })
    }
}

/// The block that a file begins with.
pub fn section_header() -> [u8; SECTION_HEADER_LEN] {
    let length = SECTION_HEADER_LEN as u32;
    let mut bytes = [0; SECTION_HEADER_LEN];
    bytes[field::TYPE].copy_from_slice(&SECTION_HEADER.to_le_bytes());
    bytes[field::LENGTH].copy_from_slice(&length.to_le_bytes());
    bytes[field::BYTE_ORDER].copy_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
    bytes[12..14].copy_from_slice(&1u16.to_le_bytes());
    // The section's length is not known while it is written: all ones.
    bytes[16..24].fill(0xff);
    bytes[24..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Appends the block that a file begins with, with the program that writes it and a remark about the
/// whole.
pub fn write_section(file: &mut Vec<u8>, application: &str, comment: &str) {
    let start = open(file, SECTION_HEADER);
    file.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
    file.extend_from_slice(&[1, 0, 0, 0]);
    // The section's length is not known while it is written.
    file.extend_from_slice(&[0xff; 8]);
    write_option(file, OPTION_COMMENT, cut(comment));
    write_option(file, OPTION_SHB_USERAPPL, cut(application));
    write_option(file, OPTION_END, &[]);
    close(file, start);
}

/// Appends the description of the next interface to `file`; the first is interface 0.
pub fn write_interface(file: &mut Vec<u8>, name: &str) {
    write_described(file, &Described { name, ..Described::default() });
}

/// What a file says of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Described<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is, in a few words; empty for nothing.
    pub description: &'a str,
    /// Bits per second; 0 if that is not known.
    pub speed_bps: u64,
    /// So many bytes of a frame are kept at most; 0 for all.
    pub snap_bytes: u32,
}

/// Appends the description of the next interface to `file`, with all that is known of it.
pub fn write_described(file: &mut Vec<u8>, of: &Described<'_>) {
    let start = open(file, INTERFACE_DESCRIPTION);
    file.extend_from_slice(&(LINKTYPE_ETHERNET as u16).to_le_bytes());
    file.extend_from_slice(&[0; 2]);
    let snap = if of.snap_bytes == 0 { SNAP_LEN } else { of.snap_bytes };
    file.extend_from_slice(&snap.to_le_bytes());
    write_option(file, OPTION_IF_NAME, cut(of.name));
    if !of.description.is_empty() {
        write_option(file, OPTION_IF_DESCRIPTION, cut(of.description));
    }
    if of.speed_bps != 0 {
        write_option(file, OPTION_IF_SPEED, &of.speed_bps.to_le_bytes());
    }
    write_option(file, OPTION_IF_TSRESOL, &[9]);
    write_option(file, OPTION_END, &[]);
    close(file, start);
}

/// Appends how many frames `interface` has seen until `at`, and how many of them are not in the file because
/// nobody took them in time.
pub fn write_statistics(file: &mut Vec<u8>, interface: u32, at: Time, seen: u64, missed: u64) {
    let start = open(file, INTERFACE_STATISTICS);
    let nanoseconds = at.as_ns();
    file.extend_from_slice(&interface.to_le_bytes());
    file.extend_from_slice(&((nanoseconds >> 32) as u32).to_le_bytes());
    file.extend_from_slice(&(nanoseconds as u32).to_le_bytes());
    write_option(file, OPTION_ISB_IFRECV, &seen.to_le_bytes());
    write_option(file, OPTION_ISB_IFDROP, &missed.to_le_bytes());
    write_option(file, OPTION_END, &[]);
    close(file, start);
}

/// The longest name or remark that is written, in bytes.
const TEXT_MAX: usize = 256;

/// An option's length has 16 bits: longer text is cut, by whole characters.
fn cut(text: &str) -> &[u8] {
    let whole = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(whole).unwrap_or(0);
    &text.as_bytes()[..end]
}

/// Appends `frame`, which `interface` saw at `at`, to `file`; picoseconds are cut off.
pub fn write(file: &mut Vec<u8>, interface: u32, at: Time, direction: Direction, frame: &[u8]) {
    let length = u32::try_from(frame.len()).expect("a frame is shorter than 4 GiB");
    write_part(file, interface, at, direction, frame, length);
}

/// The same of a frame of `whole` bytes, of which `frame` is the beginning.
pub fn write_part(
    file: &mut Vec<u8>,
    interface: u32,
    at: Time,
    direction: Direction,
    frame: &[u8],
    whole: u32,
) {
    let length = u32::try_from(frame.len()).expect("a frame is shorter than 4 GiB");
    let nanoseconds = at.as_ns();
    let start = open(file, ENHANCED_PACKET);
    file.extend_from_slice(&interface.to_le_bytes());
    file.extend_from_slice(&((nanoseconds >> 32) as u32).to_le_bytes());
    file.extend_from_slice(&(nanoseconds as u32).to_le_bytes());
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&whole.to_le_bytes());
    file.extend_from_slice(frame);
    pad(file, frame.len());
    if direction != Direction::Unknown {
        write_option(file, OPTION_EPB_FLAGS, &direction.bits().to_le_bytes());
        write_option(file, OPTION_END, &[]);
    }
    close(file, start);
}

fn open(file: &mut Vec<u8>, block: u32) -> usize {
    let start = file.len();
    file.extend_from_slice(&block.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    start
}

fn close(file: &mut Vec<u8>, start: usize) {
    let length = u32::try_from(file.len() - start + 4).expect("a block is shorter than 4 GiB");
    file[start..][field::LENGTH].copy_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&length.to_le_bytes());
}

fn write_option(file: &mut Vec<u8>, code: u16, value: &[u8]) {
    file.extend_from_slice(&code.to_le_bytes());
    file.extend_from_slice(&(value.len() as u16).to_le_bytes());
    file.extend_from_slice(value);
    pad(file, value.len());
}

fn pad(file: &mut Vec<u8>, length: usize) {
    file.extend(core::iter::repeat_n(0, length.next_multiple_of(4) - length));
}

/// An interface of the section that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface<'a> {
    /// Its name, if it has one that is text.
    pub name: Option<&'a str>,
    resolution: Resolution,
    /// Seconds to be added to its times.
    offset_seconds: i64,
}

/// How long one unit of a time is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resolution {
    /// 10^-n seconds.
    Decimal(u8),
    /// 2^-n seconds.
    Binary(u8),
}

impl Resolution {
    const fn from_bits(bits: u8) -> Self {
        if bits & 0x80 != 0 { Self::Binary(bits & 0x7f) } else { Self::Decimal(bits) }
    }

    /// `units` in picoseconds; what is shorter is cut off.
    fn ps(self, units: u64) -> u128 {
        let units = u128::from(units);
        match self {
            Self::Decimal(n @ 0..=12) => units * 10u128.pow(12 - u32::from(n)),
            // Past 10^-31 every time of 64 bits is shorter than a picosecond.
            Self::Decimal(n) => {
                10u128.checked_pow(u32::from(n) - 12).map_or(0, |divisor| units / divisor)
            }
            // 64 bits times 10^12 take 104.
            Self::Binary(n) => (units * 1_000_000_000_000) >> n,
        }
    }
}

/// A frame of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The interface that saw it, by its place in [`Reader::interfaces`].
    pub interface: u32,
    /// When; see [`Reader`].
    pub at: Time,
    /// Its direction.
    pub direction: Direction,
    /// Its bytes, as many as were captured.
    pub frame: &'a [u8],
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
    interfaces: Vec<Interface<'a>>,
    base: Option<Base>,
}

impl<'a> Reader<'a> {
    /// A reader over a whole file.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Capture`] or [`Error::Version`] of the first block.
    pub fn new(file: &'a [u8]) -> Result<Self, Error> {
        let block = u32_at(file.get(..4).ok_or(Error::Truncated)?, field::TYPE, true);
        if block != SECTION_HEADER {
            return Err(Error::Capture);
        }
        let mut reader =
            Self { rest: file, little_endian: true, interfaces: Vec::new(), base: None };
        reader.block()?;
        Ok(reader)
    }

    /// How many seconds are taken off every time; known once a frame was read.
    pub fn base_seconds(&self) -> u64 {
        self.base.map_or(0, |base| base.0)
    }

    /// The interfaces described so far in this section.
    pub fn interfaces(&self) -> &[Interface<'a>] {
        &self.interfaces
    }

    /// The next frame with all that is known of it.
    pub fn next_record(&mut self) -> Option<Result<Record<'a>, Error>> {
        while !self.rest.is_empty() {
            match self.block() {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => {
                    self.rest = &[];
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// Reads one block, whatever it is.
    fn block(&mut self) -> Result<Option<Record<'a>>, Error> {
        let start = self.rest.get(..FRAME_OF_BLOCK).ok_or(Error::Truncated)?;
        // The type of a section header reads the same in both orders, and what follows its length
        // tells the order of the section.
        let section = u32_at(start, field::TYPE, true) == SECTION_HEADER;
        if section {
            self.little_endian = match u32_at(start, field::BYTE_ORDER, true) {
                BYTE_ORDER_MAGIC => true,
                magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => false,
                _ => return Err(Error::Capture),
            };
        }
        let block = self.u32(start, field::TYPE);
        let length = self.u32(start, field::LENGTH) as usize;
        if length < FRAME_OF_BLOCK || !length.is_multiple_of(4) {
            return Err(Error::Capture);
        }
        let (whole, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        if self.u32(whole, length - 4..length) as usize != length {
            return Err(Error::Length);
        }
        self.rest = rest;
        let body = &whole[8..length - 4];
        match block {
            SECTION_HEADER => self.section(body).map(|()| None),
            INTERFACE_DESCRIPTION => self.interface(body).map(|()| None),
            ENHANCED_PACKET => self.packet(body).map(Some),
            _ => Ok(None),
        }
    }

    fn section(&mut self, body: &'a [u8]) -> Result<(), Error> {
        if body.len() < field::SECTION_OPTIONS {
            return Err(Error::Capture);
        }
        if u16_at(body, field::MAJOR, self.little_endian) != 1 {
            return Err(Error::Version);
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, body: &'a [u8]) -> Result<(), Error> {
        if body.len() < field::INTERFACE_OPTIONS {
            return Err(Error::Capture);
        }
        if u32::from(u16_at(body, field::LINKTYPE, self.little_endian)) != LINKTYPE_ETHERNET {
            return Err(Error::Protocol);
        }
        let mut interface =
            Interface { name: None, resolution: Resolution::Decimal(6), offset_seconds: 0 };
        for option in self.options(&body[field::INTERFACE_OPTIONS..]) {
            match option? {
                (OPTION_IF_NAME, name) => interface.name = core::str::from_utf8(name).ok(),
                (OPTION_IF_TSRESOL, &[bits]) => interface.resolution = Resolution::from_bits(bits),
                (OPTION_IF_TSOFFSET, seconds) => {
                    let seconds: [u8; 8] = seconds.try_into().map_err(|_| Error::Capture)?;
                    let order =
                        if self.little_endian { i64::from_le_bytes } else { i64::from_be_bytes };
                    interface.offset_seconds = order(seconds);
                }
                (OPTION_IF_TSRESOL, _) => return Err(Error::Capture),
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet(&mut self, body: &'a [u8]) -> Result<Record<'a>, Error> {
        let header = body.get(..field::FRAME).ok_or(Error::Capture)?;
        let number = self.u32(header, field::INTERFACE);
        let interface = self.interfaces.get(number as usize).ok_or(Error::Capture)?;
        let high = u64::from(self.u32(header, field::TIME_HIGH));
        let units = high << 32 | u64::from(self.u32(header, field::TIME_LOW));
        let offset = i128::from(interface.offset_seconds) * 1_000_000_000_000;
        // Below 2^125 picoseconds, so it fits the signed sum; what is before 1970 is cut off.
        let ps = interface.resolution.ps(units).cast_signed().saturating_add(offset);
        let ps = u128::try_from(ps).unwrap_or(0);
        let base = *self.base.get_or_insert_with(|| Base::of(ps));

        let length = self.u32(header, field::CAPTURED) as usize;
        let padded = length.checked_next_multiple_of(4).ok_or(Error::Length)?;
        let (frame, options) =
            body[field::FRAME..].split_at_checked(padded).ok_or(Error::Length)?;
        let mut direction = Direction::Unknown;
        for option in self.options(options) {
            if let (OPTION_EPB_FLAGS, flags) = option? {
                let flags: &[u8; 4] = flags.try_into().map_err(|_| Error::Capture)?;
                direction = Direction::from_bits(self.u32(flags, 0..4));
            }
        }
        Ok(Record { interface: number, at: base.time(ps), direction, frame: &frame[..length] })
    }

    fn options(&self, bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes, little_endian: self.little_endian }
    }

    fn u32(&self, bytes: &[u8], range: core::ops::Range<usize>) -> u32 {
        u32_at(bytes, range, self.little_endian)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(Time, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.next_record()?;
        Some(record.map(|record| (record.at, record.frame)))
    }
}

/// The options of a block: code and value.
struct Options<'a> {
    rest: &'a [u8],
    little_endian: bool,
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (header, rest) = self.rest.split_at_checked(4)?;
        let code = u16_at(header, 0..2, self.little_endian);
        let length = usize::from(u16_at(header, 2..4, self.little_endian));
        if code == OPTION_END {
            self.rest = &[];
            return None;
        }
        let Some((value, rest)) = rest.split_at_checked(length.next_multiple_of(4)) else {
            self.rest = &[];
            return Some(Err(Error::Capture));
        };
        self.rest = rest;
        Some(Ok((code, &value[..length])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn file() -> Vec<u8> {
        let mut file = section_header().to_vec();
        write_interface(&mut file, "tor1:swp3");
        write_interface(&mut file, "host1:eth0");
        write(&mut file, 0, Time::from_ns(7), Direction::Unknown, &[1, 2, 3, 4]);
        write(&mut file, 1, Time::from_ns(5_000_000_000), Direction::Outbound, &[5, 6, 7]);
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let file = file();
        let mut reader = Reader::new(&file).unwrap();
        let first = Record {
            interface: 0,
            at: Time::from_ns(7),
            direction: Direction::Unknown,
            frame: &[1, 2, 3, 4],
        };
        let second = Record {
            interface: 1,
            at: Time::from_ns(5_000_000_000),
            direction: Direction::Outbound,
            frame: &[5, 6, 7],
        };
        assert_eq!(reader.next_record(), Some(Ok(first)));
        assert_eq!(reader.next_record(), Some(Ok(second)));
        assert_eq!(reader.next_record(), None);
        let names: Vec<_> = reader.interfaces().iter().map(|interface| interface.name).collect();
        assert_eq!(names, [Some("tor1:swp3"), Some("host1:eth0")]);
    }

    #[test]
    fn the_blocks_are_as_the_draft_draws_them() {
        let mut file = Vec::new();
        write(&mut file, 1, Time::from_ns(1 << 32 | 2), Direction::Inbound, &[0xaa, 0xbb, 0xcc]);
        assert_eq!(file.len(), 28 + 4 + 12 + 4);
        assert_eq!(file[..16], [6, 0, 0, 0, 48, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(file[16..32], [2, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0xaa, 0xbb, 0xcc, 0]);
        assert_eq!(file[32..], [2, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0]);
    }

    #[test]
    fn what_is_said_of_an_interface_is_as_the_draft_draws_it_and_passed_over() {
        let mut file = section_header().to_vec();
        let (name, description) = ("s0 to h1", "a port");
        write_described(
            &mut file,
            &Described { name, description, speed_bps: 1_000_000_000, snap_bytes: 96 },
        );
        let said = &file[SECTION_HEADER_LEN..];
        assert_eq!(said[12..16], 96_u32.to_le_bytes());
        assert!(said.windows(10).any(|part| part == b"\x03\0\x06\0a port"));
        assert!(said.windows(8).any(|part| part == [8, 0, 8, 0, 0, 0xca, 0x9a, 0x3b]));
        let before = file.len();
        write_statistics(&mut file, 0, Time::from_ns(3), 9, 2);
        let counted = &file[before..];
        assert_eq!(counted[..8], [5, 0, 0, 0, 52, 0, 0, 0]);
        assert_eq!(counted[20..32], [4, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(counted[32..44], [5, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let mut reader = Reader::new(&file).unwrap();
        assert_eq!(reader.next_record(), None);
        assert_eq!(reader.interfaces()[0].name, Some(name));
    }

    #[test]
    fn a_big_endian_section_with_coarse_times_is_read() {
        let mut file =
            vec![0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0];
        file.extend([0xff; 8]);
        file.extend([0, 0, 0, 28]);
        // An interface in units of 1/1024 s, from 1 s before the epoch.
        file.extend([0, 0, 0, 1, 0, 0, 0, 40, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x8a, 0, 0, 0]);
        file.extend([0, 14, 0, 8]);
        file.extend((-1i64).to_be_bytes());
        file.extend([0, 0, 0, 40]);
        // A block of an unknown type, then 3 s and 1 / 1024.
        file.extend([0, 0, 0x0b, 0xad, 0, 0, 0, 12, 0, 0, 0, 12]);
        file.extend([0, 0, 0, 6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 1]);
        file.extend([0, 0, 0, 1, 0, 0, 0, 1, 0xee, 0, 0, 0, 0, 0, 0, 36]);
        let frames: Result<Vec<_>, _> = Reader::new(&file).unwrap().collect();
        let at = Time::from_ps(2_000_000_000_000 + 1_000_000_000_000 / 1024);
        assert_eq!(frames, Ok(vec![(at, &[0xee][..])]));
    }

    #[test]
    fn no_resolution_overflows() {
        for bits in 0..=u8::MAX {
            let ps = Resolution::from_bits(bits).ps(u64::MAX);
            assert!(ps < 1 << 125, "{bits:#x}");
        }
        assert_eq!(Resolution::Decimal(0).ps(1), 1_000_000_000_000);
        assert_eq!(Resolution::Decimal(15).ps(1_999), 1);
    }

    #[test]
    fn says_why_it_refuses() {
        let with = |index: usize, value| {
            let mut file = file();
            file[index] = value;
            Reader::new(&file).and_then(|reader| reader.collect::<Result<Vec<_>, _>>()).err()
        };
        assert_eq!(Reader::new(&[0x0a]).err(), Some(Error::Truncated));
        assert_eq!(with(0, 0), Some(Error::Capture), "no section");
        assert_eq!(with(8, 0), Some(Error::Capture), "no byte order");
        assert_eq!(with(12, 2), Some(Error::Version));
        assert_eq!(with(24, 32), Some(Error::Length), "the lengths of a block differ");
        assert_eq!(with(SECTION_HEADER_LEN + 8, 113), Some(Error::Protocol), "link type");
        assert_eq!(with(SECTION_HEADER_LEN + 4, 9), Some(Error::Capture), "block length");
    }

    #[test]
    fn a_frame_of_an_interface_that_nobody_described_is_an_error() {
        let mut file = section_header().to_vec();
        write(&mut file, 0, Time::ZERO, Direction::Unknown, &[]);
        let mut reader = Reader::new(&file).unwrap();
        assert_eq!(reader.next(), Some(Err(Error::Capture)));
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn a_file_that_ends_early_never_panics() {
        let file = file();
        for end in 0..file.len() {
            if let Ok(reader) = Reader::new(&file[..end]) {
                assert!(reader.count() <= 2);
            }
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name: std::string::String = core::iter::repeat_n('é', 200).collect();
        let mut file = section_header().to_vec();
        write_interface(&mut file, &name);
        let mut reader = Reader::new(&file).unwrap();
        assert_eq!(reader.next(), None);
        assert_eq!(reader.interfaces()[0].name, Some(&name[..TEXT_MAX]));
    }
}
