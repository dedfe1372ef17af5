//! What happened, for those who have to understand it.

use core::net::IpAddr;
use std::format;
use std::string::String;
use std::vec::Vec;

use rdma::{Gid, Time};
use wire::frame::{Frame, Ip};
use wire::{ethernet, pcap, roce};

/// The events of a run and its packets. Keeping neither is fast.
#[derive(Debug, Default)]
pub struct Log {
    recording: bool,
    lines: Vec<String>,
    capture: Vec<u8>,
}

impl Log {
    /// Keeps nothing.
    pub fn silent() -> Self {
        Self::default()
    }

    /// Keeps everything.
    pub fn recording() -> Self {
        Self { recording: true, lines: Vec::new(), capture: pcap::file_header().to_vec() }
    }

    /// One line an event, oldest first, in columns: time, where, what, and more of it.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Every packet that was sent, lost ones too, as a pcap file.
    pub fn capture(&self) -> &[u8] {
        &self.capture
    }

    pub(super) fn note(&mut self, at: Time, place: &str, what: &str, more: impl Fn() -> String) {
        if self.recording {
            let us = at.as_ps() / 1_000;
            let (us, ns) = (us / 1_000, us % 1_000);
            self.lines.push(format!("{us:>8}.{ns:03} us  {place:<8}  {what:<10}  {}", more()));
        }
    }

    pub(super) fn packet(
        &mut self,
        at: Time,
        from: Gid,
        to: Gid,
        header: &roce::Repr,
        body: &[u8],
    ) {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.ip(), to.ip()) else { return };
        if !self.recording {
            return;
        }
        let mac = |octets: [u8; 4]| {
            let [a, b, c, d] = octets;
            ethernet::Address([2, 0, a, b, c, d])
        };
        let frame = Frame {
            source: mac(source.octets()),
            destination: mac(destination.octets()),
            vlan: None,
            ip: Ip::V4 { source, destination, tos: 0, id: 0, dont_fragment: true, ttl: 64 },
            source_port: 0xc000,
            roce: *header,
            payload: body,
        };
        pcap::write(&mut self.capture, at, &frame.to_vec());
    }
}
