//! Why a NIC could not be found or opened: mistakes of the user, with a hint.

use core::fmt;
use core::net::IpAddr;
use std::io;

use wire::udp::ROCE_PORT;

/// Why a [`crate::Nic`] could not be found or opened.
#[derive(Debug)]
pub enum OpenError {
    /// A variable of the environment says nothing valid.
    Setting(SettingError),
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

/// What is wrong with a variable of the environment, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingError {
    variable: &'static str,
    problem: String,
    hint: String,
}

impl SettingError {
    pub(crate) fn new(
        variable: &'static str,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { variable, problem: problem.into(), hint: hint.into() }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, problem, hint } = self;
        write!(f, "{variable}: {problem}\nhint: {hint}")
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(error) => error.fmt(f),
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
            Self::Capture { file, error } => write!(
                f,
                "FERROCE_PCAP: cannot write `{file}`: {error}\n\
                 hint: name a file in a folder that exists and that you may write to"
            ),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl core::error::Error for SettingError {}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } | Self::Capture { error, .. } => Some(error),
            Self::Setting(_) | Self::PortTaken { .. } | Self::NoAddress { .. } => None,
        }
    }
}

impl From<SettingError> for OpenError {
    fn from(error: SettingError) -> Self {
        Self::Setting(error)
    }
}
