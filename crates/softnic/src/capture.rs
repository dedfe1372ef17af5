//! A record of every packet, as a pcapng file.
//!
//! `FERROCE_PCAP=file,snaplen=256,size=100M`: `%p` in the name is the process ID; so many bytes of each frame are
//! kept, and no more than so many bytes are written (1 GiB unless it says so). What was in the file before is gone,
//! unless `append` says that another section follows: so `ferroce run` has all packets of programs that a script starts
//! one after the other. The first NIC that a process opens writes to the file itself. Each further one, and one that
//! finds the file in use by another process, appends `.` and its slot to the name, and says so in the log.
//!
//! The file may be a FIFO or a pipe (`/dev/fd/N`), with a program behind it that shows packets as they come. One NIC
//! writes to it. A reader that is too slow does not slow the program down: what it has no room for is left out, and
//! said at the end. One that is gone ends the record, and nothing else.
//!
//! What is written is whole frames, after each batch of packets, so a file is good up to its end when the program
//! is killed; a kill in the middle of a write may cut the last frame.
//!
//! One packet is one frame: GSO batches are cut, and Ethernet, IP and UDP headers are made anew with the
//! IP identification that the ICRC was computed with, so that it verifies. The MAC addresses are
//! the device's own; the hop limit of received packets and checksums of UDP over IPv4 are not known
//! and shown as 64 and none.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use core::net::IpAddr;
use rdma::{Span, Time, nearest};
use wire::ethernet;
use wire::frame::{self, Ip};
use wire::icrc::Datagram;
use wire::pcapng::{self, Direction};

use crate::limits::{
    CAPTURE_BYTES, CAPTURE_DRAIN, CAPTURE_FLUSH_BYTES, CAPTURE_PENDING_MAX, CAPTURE_RETRY,
    CAPTURE_SNAP_MIN,
};
use crate::{DeviceInfo, SettingError, clock, sys};

/// The headers below RoCE, as a frame shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    /// What the ICRC covers of them.
    pub(crate) datagram: Datagram,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

/// What `FERROCE_PCAP` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureSpec {
    /// The file, with `%p` for the process ID.
    pub file: String,
    /// Bytes of each frame that are kept.
    pub snap_bytes: Option<u32>,
    /// Bytes of the whole record.
    pub size_bytes: u64,
    /// Whether it goes behind what is in the file.
    pub append: bool,
}

impl core::str::FromStr for CaptureSpec {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const KEYS: [&str; 3] = ["append", "size", "snaplen"];
        let wrong = |problem: String, hint: &str| SettingError::new("FERROCE_PCAP", problem, hint);
        let mut elements = text.split(',');
        let file = elements.next().unwrap_or_default().to_owned();
        let mut spec = Self { file, snap_bytes: None, size_bytes: CAPTURE_BYTES, append: false };
        for element in elements {
            let (key, value) = element.split_once('=').unwrap_or((element, ""));
            match key.trim() {
                "snaplen" => {
                    let bytes =
                        value.trim().parse().ok().filter(|bytes| *bytes >= CAPTURE_SNAP_MIN);
                    let hint = "snaplen is a number of bytes from 90 on, so that it cuts no header";
                    spec.snap_bytes =
                        Some(bytes.ok_or_else(|| wrong(format!("`{element}` cannot be"), hint))?);
                }
                "size" => {
                    let hint = "size is a number of bytes, as 500000, 100M or 2G";
                    spec.size_bytes = size(value.trim())
                        .ok_or_else(|| wrong(format!("`{element}` cannot be"), hint))?;
                }
                "append" if value.is_empty() => spec.append = true,
                other => {
                    let hint = match nearest(other, &KEYS) {
                        Some(meant) => format!("you may have meant {meant}"),
                        None => {
                            "behind the file come snaplen and size; its name has no comma".into()
                        }
                    };
                    return Err(wrong(format!("`{other}` is no bound of a record"), &hint));
                }
            }
        }
        Ok(spec)
    }
}

/// Bytes, with a unit of 1000 or 1024 as people use it for files: k, M and G are powers of 1024.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

/// An open record.
#[derive(Debug)]
pub(crate) struct Capture {
    file: File,
    /// Whether it is a pipe or a FIFO, whose reader may be slow, or gone.
    is_stream: bool,
    snap_bytes: usize,
    /// What may still be written, in bytes.
    left: u64,
    /// Frames that were left out because the reader was too slow.
    left_out: u64,
    /// What is not written yet, behind what a reader has taken already.
    pending: Vec<u8>,
    taken: usize,
    frame: Vec<u8>,
    mac: [u8; 6],
    /// What is added to our time, so that with the file's offset in seconds it is the wall clock's.
    offset: Span,
}

impl Capture {
    /// Opens the record that `spec` asks for; `None` if it is a stream that another NIC writes to.
    pub(crate) fn open(spec: &str, device: &DeviceInfo, slot: u16) -> io::Result<Option<Self>> {
        let spec: CaptureSpec = spec.parse().map_err(io::Error::other)?;
        let name = spec.file.replace("%p", &std::process::id().to_string());
        let (mut file, is_stream) = match exclusive(Path::new(&name))? {
            Opened::Ours(file, is_stream) => (file, is_stream),
            Opened::StreamOfAnother => return Ok(None),
            Opened::FileOfAnother => {
                let beside = format!("{name}.{slot}");
                tracing::warn!(
                    "another NIC records in {name}: packets of this one are in {beside}"
                );
                match exclusive(&PathBuf::from(beside))? {
                    Opened::Ours(file, is_stream) => (file, is_stream),
                    _ => return Err(io::ErrorKind::ResourceBusy.into()),
                }
            }
        };
        let before = match (is_stream, spec.append) {
            (true, _) => 0,
            (false, true) => file.seek(SeekFrom::End(0))?,
            (false, false) => file.set_len(0).map(|()| 0)?,
        };
        let origin = clock::wall(Time::ZERO);
        let mut capture = Self {
            file,
            is_stream,
            snap_bytes: spec.snap_bytes.map_or(usize::MAX, |bytes| bytes as usize),
            left: spec.size_bytes.saturating_sub(before),
            left_out: 0,
            pending: pcapng::section_header().to_vec(),
            taken: 0,
            frame: Vec::new(),
            mac: device.mac,
            offset: Span::from_ns(origin.subsec_nanos().into()),
        };
        describe(&mut capture.pending, &device.name, origin.as_secs());
        capture.flush()?;
        Ok(Some(capture))
    }

    /// Adds a packet: what UDP carries, ICRC included.
    pub(crate) fn record(&mut self, at: Time, direction: Direction, below: &Below, roce: &[u8]) {
        if self.left == 0 {
            return;
        }
        if self.pending.len() >= CAPTURE_PENDING_MAX {
            self.left_out += 1;
            return;
        }
        frame(&mut self.frame, self.mac, direction, below, roce);
        let whole = self.frame.len() as u32;
        self.frame.truncate(self.snap_bytes);
        let before = self.pending.len();
        let at = at + self.offset;
        pcapng::write_part(&mut self.pending, 0, at, direction, &self.frame, whole);
        let added = (self.pending.len() - before) as u64;
        if added > self.left {
            self.pending.truncate(before);
            self.left = 0;
            tracing::warn!(
                "the record of packets is full: `size=` in FERROCE_PCAP says how long it may get"
            );
            return;
        }
        self.left -= added;
        if self.pending.len() >= CAPTURE_FLUSH_BYTES {
            // Said at the end of the batch.
            let _ = self.flush();
        }
    }

    /// Writes what is pending, so that a process that is killed leaves whole frames.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if !self.is_stream {
            let result = self.file.write_all(&self.pending);
            self.pending.clear();
            return result;
        }
        let written = loop {
            match sys::without_sigpipe(|| (&self.file).write(&self.pending[self.taken..])) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What the reader has no room for waits, within bounds.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                result => break result?,
            }
        };
        self.taken += written;
        if self.taken == self.pending.len() {
            self.pending.clear();
            self.taken = 0;
        } else if self.taken > self.pending.len() / 2 {
            self.pending.drain(..core::mem::take(&mut self.taken));
        }
        Ok(())
    }

    /// Nothing follows: gives a reader a while to take the rest, and says what it did not get.
    pub(crate) fn finish(&mut self) {
        let end = clock::now() + CAPTURE_DRAIN;
        while self.flush().is_ok() && !self.pending.is_empty() && clock::now() < end {
            clock::pause(CAPTURE_RETRY);
        }
        if self.left_out > 0 {
            let frames = core::mem::take(&mut self.left_out);
            tracing::warn!(frames, "left out of the record: its reader was too slow");
        }
    }
}

/// How a file was found.
enum Opened {
    /// A file as it is, or a stream.
    Ours(File, bool),
    FileOfAnother,
    StreamOfAnother,
}

/// Opens a file, unless somebody else is writing to it. The lock ends with the process. A FIFO is waited for until
/// somebody reads.
fn exclusive(path: &Path) -> io::Result<Opened> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    let is_stream = !file.metadata()?.is_file();
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) if is_stream => return Ok(Opened::StreamOfAnother),
        Err(TryLockError::WouldBlock) => return Ok(Opened::FileOfAnother),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if is_stream {
        sys::never_wait(file.as_fd())?;
    }
    Ok(Opened::Ours(file, is_stream))
}

/// Describes an interface of which times are nanoseconds from `seconds` after 1970 on.
///
/// [`Time`] holds 213 days, so a frame's time counts from the start of the process, and the
/// interface says when that was (option `if_tsoffset`).
fn describe(file: &mut Vec<u8>, name: &str, seconds: u64) {
    let start = file.len();
    pcapng::write_interface(file, name);
    // The block ends with the option that ends options, and its length: the offset goes before.
    let end = file.len() - 8;
    let mut option = Vec::with_capacity(12);
    option.extend(14_u16.to_le_bytes());
    option.extend(8_u16.to_le_bytes());
    option.extend(seconds.to_le_bytes());
    file.splice(end..end, option);
    let length = ((file.len() - start) as u32).to_le_bytes();
    file[start + 4..start + 8].copy_from_slice(&length);
    let tail = file.len() - 4;
    file[tail..].copy_from_slice(&length);
}

fn frame(frame: &mut Vec<u8>, mac: [u8; 6], direction: Direction, below: &Below, roce: &[u8]) {
    let &Below { datagram, traffic_class, hop_limit } = below;
    let Datagram { id, dont_fragment, source_port, destination_port, .. } = datagram;
    let ip = match (datagram.source, datagram.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (tos, ttl) = (traffic_class, hop_limit);
            Ip::V4 { source, destination, tos, id, dont_fragment, ttl }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ip::V6 { source, destination, traffic_class, flow_label: 0, hop_limit }
        }
        // A socket and its peers are of one family.
        _ => return frame.clear(),
    };
    // The other end's MAC address is not known above UDP.
    let (ours, other) = (ethernet::Address(mac), ethernet::Address([0; 6]));
    let (source, destination) = match direction {
        Direction::Inbound => (other, ours),
        Direction::Outbound | Direction::Unknown => (ours, other),
    };
    let below = frame::Below { source, destination, vlan: None, ip, source_port, destination_port };
    frame.clear();
    frame.resize(below.header_len(), 0);
    frame.extend_from_slice(roce);
    below.emit(frame);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use wire::{icrc, ipv4, ipv6, udp};

    fn below(source: IpAddr, destination: IpAddr) -> Below {
        let datagram = Datagram { id: 7, ..Datagram::between(source, destination) };
        Below { datagram, traffic_class: 0x6a, hop_limit: 64 }
    }

    fn device() -> DeviceInfo {
        DeviceInfo::find("lo", 0).unwrap()
    }

    fn read(path: &Path) -> Vec<(Direction, Vec<u8>)> {
        let file = std::fs::read(path).unwrap();
        let mut reader = pcapng::Reader::new(&file).unwrap();
        core::iter::from_fn(|| reader.next_record())
            .map(|record| record.unwrap())
            .map(|record| (record.direction, record.frame.to_vec()))
            .collect()
    }

    #[test]
    fn a_frame_has_the_headers_that_its_icrc_covers() {
        let name = std::env::temp_dir().join("ferroce-capture-%p-frame.pcapng");
        let mut capture = Capture::open(name.to_str().unwrap(), &device(), 3).unwrap().unwrap();
        let below = below(Ipv4Addr::new(127, 0, 0, 1).into(), Ipv4Addr::new(127, 0, 0, 2).into());
        let mut packet = vec![5; 40];
        packet.extend(icrc::compute(&below.datagram, &packet).unwrap());
        capture.record(Time::ZERO, Direction::Outbound, &below, &packet);
        capture.flush().unwrap();

        let path = name.to_str().unwrap().replace("%p", &std::process::id().to_string());
        let frames = read(Path::new(&path));
        assert_eq!(frames.len(), 1);
        let (direction, frame) = &frames[0];
        assert_eq!(*direction, Direction::Outbound);
        let ip = ipv4::Repr::parse(&frame[14..]).unwrap();
        assert_eq!((ip.id, ip.tos, ip.dont_fragment, ip.ttl), (7, 0x6a, true, 64));
        let udp = udp::Packet::new_checked(&frame[34..]).unwrap();
        assert_eq!(udp.payload(), packet);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn ipv6_frames_have_a_checksum() {
        let mut bytes = Vec::new();
        let address = Ipv6Addr::LOCALHOST;
        let below = below(address.into(), address.into());
        frame(&mut bytes, [2; 6], Direction::Inbound, &below, &[1; 24]);
        assert!(ipv6::Repr::parse(&bytes[14..]).is_ok());
        assert!(udp::verify_checksum_v6(address, address, &bytes[54..]));
    }

    #[test]
    fn a_file_in_use_is_left_alone() {
        let path = std::env::temp_dir().join(format!("ferroce-capture-{}", std::process::id()));
        let name = path.to_str().unwrap();
        let first = Capture::open(name, &device(), 3).unwrap().unwrap();
        let _second = Capture::open(name, &device(), 4).unwrap();
        let second = PathBuf::from(format!("{name}.4"));
        assert!(second.exists());
        drop(first);
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(second).unwrap();
    }

    #[test]
    fn a_record_follows_another_if_it_is_to() {
        let path = std::env::temp_dir().join(format!("ferroce-append-{}", std::process::id()));
        let below = below(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
        let record = |spec: &str| {
            let mut capture = Capture::open(spec, &device(), 3).unwrap().unwrap();
            capture.record(Time::ZERO, Direction::Outbound, &below, &[7; 500]);
            capture.flush().unwrap();
            read(&path).len()
        };
        let name = path.to_str().unwrap();
        let append = format!("{name},append");
        assert_eq!([name, &append, &append, name].map(record), [1, 2, 3, 1]);
        // The bound is one for all.
        assert_eq!(record(&format!("{name},append,size=700")), 1);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_record_is_bounded_and_says_what_is_wrong_with_a_bound() {
        let spec: CaptureSpec = "a.pcapng,snaplen=128,size=2M".parse().unwrap();
        assert_eq!(
            (&*spec.file, spec.snap_bytes, spec.size_bytes),
            ("a.pcapng", Some(128), 2 << 20)
        );
        assert_eq!("a".parse::<CaptureSpec>().unwrap().size_bytes, CAPTURE_BYTES);
        for (text, problem) in [
            ("a,snaplen=10", "`snaplen=10` cannot be\nhint: snaplen is"),
            ("a,size=0", "`size=0` cannot be\nhint: size is"),
            ("a,size=1T", "`size=1T` cannot be"),
            ("a,snalen=128", "`snalen` is no bound of a record\nhint: you may have meant snaplen"),
        ] {
            let error = text.parse::<CaptureSpec>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        let path = std::env::temp_dir().join(format!("ferroce-bounds-{}", std::process::id()));
        let spec = format!("{},snaplen=90,size=1000", path.display());
        let mut capture = Capture::open(&spec, &device(), 3).unwrap().unwrap();
        let below = below(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
        for _ in 0..100 {
            capture.record(Time::ZERO, Direction::Outbound, &below, &[7; 500]);
        }
        capture.flush().unwrap();
        let frames = read(&path);
        assert!((5..10).contains(&frames.len()), "{}", frames.len());
        assert!(frames.iter().all(|(_, frame)| frame.len() == 90));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_reader_that_is_slow_or_gone_stops_nobody() {
        use std::os::fd::AsRawFd;
        let (reader, writer) = io::pipe().unwrap();
        let name = format!("/dev/fd/{}", writer.as_raw_fd());
        let mut capture = Capture::open(&name, &device(), 3).unwrap().unwrap();
        assert!(Capture::open(&name, &device(), 4).unwrap().is_none(), "one NIC writes to it");
        let below = below(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
        let mut record = |count| {
            for _ in 0..count {
                capture.record(Time::ZERO, Direction::Outbound, &below, &[7; 4000]);
            }
            (capture.flush(), capture.left_out)
        };
        let (flushed, left_out) = record(2 * CAPTURE_PENDING_MAX / 4000);
        assert!(flushed.is_ok() && left_out > 0);
        drop((reader, writer));
        // SIGPIPE would end the test.
        assert_eq!(record(1).0.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn times_are_those_of_the_wall_clock() {
        let mut file = pcapng::section_header().to_vec();
        describe(&mut file, "ferroce0", 1_700_000_000);
        pcapng::write(&mut file, 0, Time::from_ns(5), Direction::Inbound, &[0; 60]);
        let mut reader = pcapng::Reader::new(&file).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(reader.base_seconds(), 1_700_000_000);
        assert_eq!(record.at, Time::from_ns(5));
    }
}
