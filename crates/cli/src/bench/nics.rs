//! The NICs of a run: soft ones, or devices of the system's own library.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use bench::load::Tally;
use bench::plan::Plan;
use bench::session::{self, Devices, Ran, Settings, Watcher};
use bench::world::nic::Device;
use clap::Args;
use softnic::{DeviceInfo, Options, PathChoice};
use verbs::Library;

use super::failure;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct Common {
    /// Where time passes
    #[arg(long, value_enum, default_value_t = World::Soft)]
    pub(super) world: World,

    /// Interfaces of those that ask and of those that serve, such as lo/127.0.0.1,lo/127.0.0.2, otherwise
    /// those of FERROCE_DEV, or loopback; in the world nic devices, such as mlx5_0, otherwise the first
    #[arg(long, value_name = "INTERFACE,...", value_delimiter = ',')]
    dev: Vec<String>,

    /// Which way packets take to soft NICs of the same host (FERROCE_LINK)
    #[arg(long, value_parser = ["shm", "shm,icrc", "udp"])]
    link: Option<String>,

    /// The libibverbs.so.1 of the world nic; otherwise the one that programs find
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// The place of the address in the GID table, in the world nic; otherwise the first for RoCEv2
    #[arg(long, value_name = "NUMBER")]
    gid_index: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum World {
    /// Soft NICs of this machine, in real time
    Soft,
    /// RDMA devices of this machine, by its own libibverbs
    Nic,
    /// Simulated hosts of a testbed, in model time
    Sim,
}

impl World {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Nic => "nic",
            Self::Sim => "sim",
        }
    }
}

impl Common {
    /// A flag that means nothing to simulated hosts.
    pub(super) fn first(&self) -> Option<&'static str> {
        let flags = [
            ("--dev", !self.dev.is_empty()),
            ("--link", self.link.is_some()),
            ("--library", self.library.is_some()),
            ("--gid-index", self.gid_index.is_some()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) enum Nics {
    Soft(Box<Settings>),
    Devices(Devices),
}

impl Nics {
    pub(super) fn open(common: &Common) -> Result<Self, Failure> {
        match common.world {
            World::Soft => soft(common).map(|nics| Self::Soft(Box::new(nics))),
            World::Nic => devices(common).map(Self::Devices),
            World::Sim => Err(Failure::new("simulated hosts are no NICs of this machine")
                .hint("measure them: ferroce bench VERB --world sim --testbed NAME")),
        }
    }

    pub(super) fn run(
        &self,
        plan: &Plan,
        tallies: &[Arc<Tally>],
        watcher: &mut dyn Watcher,
    ) -> Result<Ran, Failure> {
        let ran = match self {
            Self::Soft(nics) => session::run(plan, &**nics, tallies, watcher),
            Self::Devices(nics) => session::run(plan, nics, tallies, watcher),
        };
        ran.map_err(failure)
    }

    pub(super) fn connect(
        &self,
        plan: &Plan,
        address: &str,
        tallies: &[Arc<Tally>],
        watcher: &mut dyn Watcher,
    ) -> Result<Ran, Failure> {
        let ran = match self {
            Self::Soft(nics) => session::connect(plan, address, &**nics, tallies, watcher),
            Self::Devices(nics) => session::connect(plan, address, nics, tallies, watcher),
        };
        ran.map_err(failure)
    }

    pub(super) fn serve(
        &self,
        listener: &TcpListener,
        sessions: Option<u64>,
        watcher: &mut dyn Watcher,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), Failure> {
        let served = match self {
            Self::Soft(nics) => session::serve(listener, &**nics, sessions, watcher, tell),
            Self::Devices(nics) => session::serve(listener, nics, sessions, watcher, tell),
        };
        served.map_err(failure)
    }

    /// What the world consists of, to the server at `address` if there is one.
    pub(super) fn about(&self, address: Option<&str>) -> String {
        let (what, near, far) = match self {
            Self::Soft(nics) => {
                let Settings { near, far, .. } = &**nics;
                let what = format!("soft NICs in real time, by {}", nics.path());
                (what, near.interface.clone(), far.interface.clone())
            }
            Self::Devices(Devices { near, far }) => {
                ("RDMA devices by libibverbs".to_owned(), near.label(), far.label())
            }
        };
        let where_to = match address {
            Some(address) => format!("{near} to the server at {address}"),
            None if near == far => format!("{near}, both ends in this process"),
            None => format!("{near} to {far}, both ends in this process"),
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        format!("{what}; {where_to}; {cores} cores")
    }

    /// What serves.
    pub(super) fn server(&self) -> String {
        match self {
            Self::Soft(nics) => format!("soft NICs at {}", nics.near.interface),
            Self::Devices(nics) => nics.near.label(),
        }
    }
}

fn soft(common: &Common) -> Result<Settings, Failure> {
    if common.library.is_some() || common.gid_index.is_some() {
        return Err(Failure::new("--library and --gid-index are of the world nic")
            .hint("add --world nic, or leave them out"));
    }
    let mut options = Options::from_environment().map_err(|error| Failure::from_message(&error))?;
    match common.link.as_deref() {
        Some("udp") => options.path = PathChoice::Udp,
        Some("shm,icrc") => options.path = PathChoice::SharedMemoryWithIcrc,
        Some(_) => options.path = PathChoice::SharedMemory,
        None => {}
    }
    let devices = match common.dev.as_slice() {
        [] => softnic::devices().map_err(|error| Failure::from_message(&error))?,
        named => (0..)
            .zip(named)
            .map(|(index, name)| named_by_flag(index, name))
            .collect::<Result<_, _>>()?,
    };
    Settings::of(devices, options).map_err(failure)
}

/// A device of `--dev`, which has the form of the variable, and of which an error is not the variable's.
fn named_by_flag(index: u32, name: &str) -> Result<DeviceInfo, Failure> {
    DeviceInfo::find(name, index).map_err(|error| {
        let said = error.to_string();
        let of_flag = said.strip_prefix("FERROCE_DEV: ").map(|rest| format!("--dev: {rest}"));
        Failure::from_message(&of_flag.unwrap_or(said))
    })
}

fn devices(common: &Common) -> Result<Devices, Failure> {
    if common.link.is_some() {
        return Err(Failure::new("--link is of soft NICs")
            .hint("leave it out, or set FERROCE_LINK for Ferroce's own library"));
    }
    let library = Library::load(common.library.as_deref()).map_err(|error| {
        Failure::new(error.to_string())
            .hint("install libibverbs1, or name a libibverbs.so.1 with --library")
    })?;
    let open = |name: Option<&String>| {
        Device::open(&library, name.map(String::as_str), common.gid_index).map_err(failure)
    };
    let near = open(common.dev.first())?;
    let far = match common.dev.get(1) {
        Some(name) => open(Some(name))?,
        None => Arc::clone(&near),
    };
    Ok(Devices { near, far })
}
