//! Why a NIC could not be opened: mistakes of the user, with a hint.

use core::fmt;
use core::net::IpAddr;
use std::io;

use wire::udp::ROCE_PORT;

use crate::congestion::CongestionSettingsError;
use crate::faults::FaultSettingsError;

/// Why a [`crate::Nic`] could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Somebody else has the UDP port of an address.
    PortTaken {
        /// The address.
        address: IpAddr,
    },
    /// The interface has no address that can be used.
    NoAddress {
        /// The interface.
        interface: String,
    },
    /// `FERROCE_WIRE` is not a way of sending.
    Wire {
        /// What it is.
        value: String,
    },
    /// `FERROCE_LINK` is not a link.
    Link {
        /// What it is.
        value: String,
    },
    /// `FERROCE_RECOVERY` is not a strategy.
    Recovery {
        /// What it is.
        value: String,
    },
    /// `FERROCE_RCVBUF_BYTES` is not a size of a buffer.
    ReceiveBuffer {
        /// What it is.
        value: String,
    },
    /// `FERROCE_FAULTS` says nothing valid.
    Faults(FaultSettingsError),
    /// `FERROCE_CC` says nothing valid.
    Congestion(CongestionSettingsError),
    /// The file of `FERROCE_PCAP` cannot be written.
    Capture {
        /// What the variable says.
        file: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A call of the kernel failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken { address } => write!(
                f,
                "UDP port {ROCE_PORT} of {address} is taken by a process of another user, or by \
                 something that does not share it\n\
                 hint: name another address of the interface, as in FERROCE_DEV=lo/127.0.0.2"
            ),
            Self::NoAddress { interface } => write!(
                f,
                "interface `{interface}` has no IP address that can be used\n\
                 hint: give it one, and bring it up, as by `ip link set {interface} up`: RoCE v2 packets \
                 are UDP over IP"
            ),
            Self::Wire { value } => write!(
                f,
                "FERROCE_WIRE: `{value}` is not a way of sending\nhint: use `train` or `exact`"
            ),
            Self::Link { value } => write!(
                f,
                "FERROCE_LINK: `{value}` is not a link\nhint: use `shm`, `shm,icrc` or `udp`"
            ),
            Self::Recovery { value } => write!(
                f,
                "FERROCE_RECOVERY: `{value}` is not a strategy\n\
                 hint: use `go-back-n`, `go-back-0` or `selective-repeat`"
            ),
            Self::ReceiveBuffer { value } => write!(
                f,
                "FERROCE_RCVBUF_BYTES: `{value}` is not a size in bytes below 1 GiB\n\
                 hint: leave it out for the largest that the kernel grants"
            ),
            Self::Faults(error) => error.fmt(f),
            Self::Congestion(error) => error.fmt(f),
            Self::Capture { file, error } => write!(
                f,
                "FERROCE_PCAP: cannot write `{file}`: {error}\n\
                 hint: name a file in a folder that exists and that you may write to"
            ),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } | Self::Capture { error, .. } => Some(error),
            Self::Faults(error) => Some(error),
            Self::Congestion(error) => Some(error),
            Self::PortTaken { .. }
            | Self::NoAddress { .. }
            | Self::Wire { .. }
            | Self::Link { .. }
            | Self::Recovery { .. }
            | Self::ReceiveBuffer { .. } => None,
        }
    }
}
