//! The NIC that an agent probes by: a soft NIC, or an RDMA device of whatever `libibverbs.so.1` there is.

use std::fs;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bench::world::nic::{Device, NicSeat};
use bench::world::soft::{Host, SoftSeat};
use bench::world::{Ended, Seat, Stop, drive};
use ops::pingmesh::exchange::Address;
use ops::pingmesh::probe::Prober;
use rdma::app::App;
use softnic::{DeviceInfo, Options};
use verbs::Library;

use super::arguments::Agent;
use crate::failure::Failure;

/// See the module.
#[derive(Debug)]
pub(super) enum Nic {
    Soft { device: Box<DeviceInfo>, options: Box<Options> },
    Device { device: Arc<Device>, name: String, interface: String },
}

fn failed(failure: bench::Failure) -> Failure {
    Failure::from_message(&failure)
}

impl Nic {
    pub(super) fn open(arguments: &Agent) -> Result<Self, Failure> {
        let Some(name) = &arguments.device else {
            let options =
                Options::from_environment().map_err(|error| Failure::from_message(&error))?;
            let (device, options) = (Box::new(arguments.interface()?), Box::new(options));
            return Ok(Self::Soft { device, options });
        };
        let library = Library::load(arguments.library.as_deref()).map_err(|error| {
            Failure::new(error.to_string())
                .hint("install rdma-core's libibverbs1, or name one: --library; --dev probes by a soft NIC")
        })?;
        let device = Device::open(&library, Some(name), arguments.gid_index).map_err(failed)?;
        let ndev =
            arguments.sysfs.join(format!("class/infiniband/{name}/ports/1/gid_attrs/ndevs/0"));
        let interface = fs::read_to_string(ndev).unwrap_or_default().trim().to_owned();
        Ok(Self::Device { device, name: name.clone(), interface })
    }

    /// As people call it.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Soft { device, .. } => device.interface.clone(),
            Self::Device { device, .. } => {
                format!(
                    "{} (its completions have no times: those of the poll stand in)",
                    device.label()
                )
            }
        }
    }

    /// Whether its completions say when it had them.
    pub(super) const fn has_times(&self) -> bool {
        matches!(self, Self::Soft { .. })
    }

    /// The RDMA device and the interface whose counters are its own.
    pub(super) fn counted(&self) -> (String, String) {
        match self {
            Self::Soft { device, .. } => (device.name.clone(), device.interface.clone()),
            Self::Device { name, interface, .. } => (name.clone(), interface.clone()),
        }
    }

    /// Starts a prober on it, in a thread of its own, and says where it is probed.
    pub(super) fn start(
        &self,
        prober: Prober,
        stop: &Stop,
        seed: u64,
    ) -> Result<(Address, JoinHandle<Ended>), Failure> {
        match self {
            Self::Soft { device, options } => {
                let host = Host::open(device, options).map_err(failed)?;
                let seat = SoftSeat::new(&host, &prober.layout(), stop, seed).map_err(failed)?;
                begin(prober, seat)
            }
            Self::Device { device, .. } => {
                let seat = NicSeat::new(device, &prober.layout(), stop, seed).map_err(failed)?;
                begin(prober, seat)
            }
        }
    }
}

fn begin(
    mut prober: Prober,
    mut seat: impl Seat + 'static,
) -> Result<(Address, JoinHandle<Ended>), Failure> {
    let introduction = seat.introduction();
    let end = introduction.ends.first();
    let qpn = end.ok_or_else(|| Failure::new("a prober has a queue pair"))?.qpn;
    seat.connect(vec![Vec::new()]).map_err(failed)?;
    let thread = thread::Builder::new()
        .name("prober".to_owned())
        .spawn(move || drive(&mut prober, &mut seat, || {}))
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    Ok((Address { gid: introduction.gid, qpn, tcp: None }, thread))
}
