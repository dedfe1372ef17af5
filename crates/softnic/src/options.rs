//! How a NIC sends and what it records, as the environment or its opener says.

use std::env;

use transport::Recovery;

use crate::capture::CaptureSpec;
use crate::congestion::CongestionSettings;
use crate::faults::FaultSettings;
use crate::{OpenError, SettingError};

/// The paths that packets may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathChoice {
    /// UDP alone.
    Udp,
    /// To NICs of the same host and user by rings of shared memory, to all others by UDP.
    #[default]
    SharedMemory,
    /// The same, with ICRCs in the rings, which are checked as over UDP.
    SharedMemoryWithIcrc,
}

/// The UDP source ports of packets to other hosts. Within a host all have 4791.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SourcePorts {
    /// Of each flow its own, from 49152 to 65535: paths of equal cost are all used.
    #[default]
    ByFlow,
    /// 4791: for filters that let an answer in by the port that was asked.
    One,
}

/// The settings of a [`crate::Nic`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// One packet, one datagram: every packet is seen by a capture on the interface, at a price
    /// (`FERROCE_WIRE=exact`).
    pub exact: bool,
    /// How NICs of the same host are reached (`FERROCE_LINK`). With [`Options::exact`], by UDP.
    pub path: PathChoice,
    /// Faults of what is sent (`FERROCE_FAULTS`).
    pub faults: Option<FaultSettings>,
    /// How fast queue pairs send, and how they tell senders of marks (`FERROCE_CC`).
    pub congestion: CongestionSettings,
    /// What is sent again after a loss (`FERROCE_RECOVERY`). Selective repeat is offered to peers,
    /// and used by queue pairs whose applications agree on it.
    pub recovery: Recovery,
    /// Whether packets to other hosts carry the sign of selective repeat, so that two soft NICs repeat so
    /// (unless `FERROCE_RECOVERY` names another strategy).
    pub signs: bool,
    /// Which UDP ports packets to other hosts come from (`FERROCE_SOURCE_PORTS`).
    pub source_ports: SourcePorts,
    /// The file that packets are recorded in (`FERROCE_PCAP`). `%p` in it is the process ID. The
    /// first NIC that uses a name has it; later ones write to the name with `.` and their slot.
    pub capture: Option<String>,
    /// What is asked of the kernel for the receive buffer of each socket, in bytes, instead of
    /// [`SOCKET_BUFFER_BYTES`](crate::limits::SOCKET_BUFFER_BYTES) (`FERROCE_RCVBUF_BYTES`).
    pub receive_buffer_bytes: Option<u32>,
}

impl Options {
    /// What the environment says.
    ///
    /// # Errors
    /// A variable that says nothing valid.
    pub fn from_environment() -> Result<Self, OpenError> {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// What the variables of an environment say, whose values `value` knows; an empty one says nothing.
    ///
    /// # Errors
    /// A variable that says nothing valid.
    pub fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<Self, OpenError> {
        let variable = |name| value(name).filter(|value| !value.is_empty());
        let is_no = |name, value: &str, what: &str, hint: &str| {
            Err(SettingError::new(name, format!("`{value}` is not a {what}"), hint).into())
        };
        let exact = match variable("FERROCE_WIRE").as_deref() {
            None | Some("train") => false,
            Some("exact") => true,
            Some(other) => {
                return is_no("FERROCE_WIRE", other, "way of sending", "use `train` or `exact`");
            }
        };
        let path = match variable("FERROCE_LINK").as_deref() {
            None | Some("shm") => PathChoice::SharedMemory,
            Some("shm,icrc") => PathChoice::SharedMemoryWithIcrc,
            Some("udp") => PathChoice::Udp,
            Some(other) => {
                return is_no("FERROCE_LINK", other, "link", "use `shm`, `shm,icrc` or `udp`");
            }
        };
        let recovery = match variable("FERROCE_RECOVERY") {
            None => Recovery::default(),
            Some(name) => match Recovery::ALL.into_iter().find(|it| it.name() == name) {
                Some(recovery) => recovery,
                None => return is_no("FERROCE_RECOVERY", &name, "strategy", &recoveries()),
            },
        };
        let source_ports = match variable("FERROCE_SOURCE_PORTS").as_deref() {
            None | Some("flow") => SourcePorts::ByFlow,
            Some("4791") => SourcePorts::One,
            Some(other) => {
                let hint = "use `flow` or `4791`";
                return is_no("FERROCE_SOURCE_PORTS", other, "choice of source ports", hint);
            }
        };
        let capture = variable("FERROCE_PCAP");
        capture.as_deref().map(str::parse::<CaptureSpec>).transpose()?;
        let signs = variable("FERROCE_RECOVERY").is_none() || recovery == Recovery::SelectiveRepeat;
        let buffer = variable("FERROCE_RCVBUF_BYTES");
        // The kernel doubles it, and keeps it in an `int`.
        let fits = |bytes: &u32| *bytes <= i32::MAX as u32 / 2;
        let bytes = buffer.as_deref().and_then(|value| value.parse().ok()).filter(fits);
        if let (Some(value), None) = (&buffer, bytes) {
            let hint = "leave it out for the largest that the kernel grants";
            return is_no("FERROCE_RCVBUF_BYTES", value, "size in bytes below 1 GiB", hint);
        }
        let faults = variable("FERROCE_FAULTS").map(|text| text.parse());
        let congestion = variable("FERROCE_CC").map(|text| text.parse());
        Ok(Self {
            exact,
            path,
            recovery,
            signs,
            source_ports,
            faults: faults.transpose()?,
            congestion: congestion.transpose()?.unwrap_or_default(),
            capture,
            receive_buffer_bytes: bytes,
        })
    }

    /// What is sent again after a loss, and why, in one line.
    pub fn recovery_told(&self) -> String {
        let name = self.recovery.name();
        match (self.recovery, self.signs) {
            (Recovery::SelectiveRepeat, _) => {
                let other = Recovery::default().name();
                format!("{name} where both ends know it, else {other} (FERROCE_RECOVERY says so)")
            }
            (_, true) => {
                let between_hosts = Recovery::SelectiveRepeat.name();
                format!(
                    "{between_hosts} with soft NICs on other hosts (by default: a loss costs one packet), \
                     {name} with others (every NIC knows it) and within this one (nothing is lost)"
                )
            }
            (_, false) => format!("{name} (FERROCE_RECOVERY says so)"),
        }
    }
}

/// Which strategies there are, the default first.
fn recoveries() -> String {
    let mut all = Recovery::ALL;
    all.sort_by_key(|it| *it != Recovery::default());
    let [others @ .., last] = all.map(|it| format!("`{}`", it.name()));
    format!("use {} or {last}", others.join(", "))
}
