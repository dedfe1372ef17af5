//! A record of every packet, as a pcapng file.
//!
//! `FERROCE_PCAP=file`: `%p` in the name is the process ID. The first NIC that a process opens
//! writes to the file itself. Each further one, and one that finds the file in use by another
//! process, appends `.` and its slot to the name.
//!
//! One packet is one frame: GSO batches are cut, and Ethernet, IP and UDP headers are made anew with the
//! IP identification that the ICRC was computed with, so that it verifies. The MAC addresses are
//! the device's own; the hop limit of received packets and checksums of UDP over IPv4 are not known
//! and shown as 64 and none.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use core::net::IpAddr;
use rdma::{Span, Time};
use wire::ethernet;
use wire::frame::{self, Ip};
use wire::icrc::Datagram;
use wire::pcapng::{self, Direction};

use crate::limits::CAPTURE_FLUSH_BYTES;
use crate::{DeviceInfo, clock};

/// The headers below RoCE, as a frame shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    /// What the ICRC covers of them.
    pub(crate) datagram: Datagram,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

/// An open record.
#[derive(Debug)]
pub(crate) struct Capture {
    file: File,
    /// What is not written yet.
    pending: Vec<u8>,
    frame: Vec<u8>,
    mac: [u8; 6],
    /// What is added to our time, so that with the file's offset in seconds it is the wall clock's.
    offset: Span,
}

impl Capture {
    /// Opens the record that `name` asks for.
    pub(crate) fn open(name: &str, device: &DeviceInfo, slot: u16) -> io::Result<Self> {
        let name = name.replace("%p", &std::process::id().to_string());
        let file = match exclusive(Path::new(&name))? {
            Some(file) => file,
            None => exclusive(&PathBuf::from(format!("{name}.{slot}")))?
                .ok_or(io::ErrorKind::ResourceBusy)?,
        };
        let origin = clock::wall(Time::ZERO);
        let mut capture = Self {
            file,
            pending: pcapng::section_header().to_vec(),
            frame: Vec::new(),
            mac: device.mac,
            offset: Span::from_ns(origin.subsec_nanos().into()),
        };
        describe(&mut capture.pending, &device.name, origin.as_secs());
        capture.flush()?;
        Ok(capture)
    }

    /// Adds a packet: what UDP carries, ICRC included.
    pub(crate) fn record(&mut self, at: Time, direction: Direction, below: &Below, roce: &[u8]) {
        frame(&mut self.frame, self.mac, direction, below, roce);
        pcapng::write(&mut self.pending, 0, at + self.offset, direction, &self.frame);
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
        let result = self.file.write_all(&self.pending);
        self.pending.clear();
        result
    }
}

/// The file, emptied, if nobody else is writing to it. Its lock ends with the process.
fn exclusive(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    Ok(Some(file))
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
        let mut capture = Capture::open(name.to_str().unwrap(), &device(), 3).unwrap();
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
        let first = Capture::open(name, &device(), 3).unwrap();
        let _second = Capture::open(name, &device(), 4).unwrap();
        let second = PathBuf::from(format!("{name}.4"));
        assert!(second.exists());
        drop(first);
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(second).unwrap();
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
