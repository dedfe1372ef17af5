//! Where counters are.

use core::fmt;

/// Priorities of 802.1Qbb.
pub const PRIORITIES: usize = 8;

/// What a port is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// A NIC.
    #[default]
    Nic,
    /// A switch.
    Switch,
}

/// Where a port is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortName {
    /// The host or switch, if several are looked at; otherwise empty.
    pub host: String,
    /// The RDMA device, network interface or switch, such as `mlx5_0`.
    pub device: String,
    /// The port, such as `1` or `Ethernet4`.
    pub port: String,
}

impl PortName {
    /// A port of the only host.
    pub fn new(device: impl Into<String>, port: impl Into<String>) -> Self {
        Self { host: String::new(), device: device.into(), port: port.into() }
    }

    /// The device that it is of, as a port without a name.
    pub(super) fn of_device(&self) -> Self {
        Self { port: String::new(), ..self.clone() }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.host.is_empty() && self.host != self.device {
            write!(f, "{} ", self.host)?;
        }
        write!(f, "{}", self.device)?;
        if self.port.is_empty() { Ok(()) } else { write!(f, "/{}", self.port) }
    }
}
