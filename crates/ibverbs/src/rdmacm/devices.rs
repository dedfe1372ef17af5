//! The devices that ids are bound to: opened once, by the first id that needs them, until the process
//! ends.

use core::net::{IpAddr, SocketAddr};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard};

use softnic::DeviceInfo;

use super::addresses;
use crate::context::Context;
use crate::device::{self, Device};
use crate::errno::Errno;
use crate::registry::{self, Object};
use crate::sync::lock;
use crate::{open, pd, xrcd};
use abi::{ibv_pd, ibv_xrcd};

/// The devices of one process.
struct Opened {
    /// A forked child inherits dead copies, and opens its own.
    process: u32,
    contexts: Vec<(DeviceInfo, Arc<Context>)>,
    /// The device of packets that the kernel would send from this address. Finding it means reading every
    /// interface of the host.
    paths: Vec<(IpAddr, Arc<Context>)>,
    /// The protection domains of ids that are given none, by their devices' handles.
    pds: Vec<(usize, usize)>,
    /// Their XRC domains, by the same handles.
    xrcds: Vec<(usize, usize)>,
}

static OPENED: Mutex<Opened> = Mutex::new(Opened {
    process: 0,
    contexts: Vec::new(),
    paths: Vec::new(),
    pds: Vec::new(),
    xrcds: Vec::new(),
});

fn opened() -> MutexGuard<'static, Opened> {
    let mut opened = lock(&OPENED);
    let process = std::process::id();
    if opened.process != process {
        // This closes nothing: the registry has them too.
        opened.contexts.clear();
        opened.paths.clear();
        opened.pds.clear();
        opened.xrcds.clear();
        opened.process = process;
    }
    opened
}

fn open(device: &Device) -> Result<Arc<Context>, Errno> {
    let mut opened = opened();
    if let Some((_, context)) = opened.contexts.iter().find(|(info, _)| *info == device.info) {
        return Ok(Arc::clone(context));
    }
    let context = open::open(device)?;
    context.nic.manage()?;
    registry::insert(Arc::clone(&context));
    opened.contexts.push((device.info.clone(), Arc::clone(&context)));
    Ok(context)
}

/// Every device.
pub(super) fn all() -> Result<Vec<Arc<Context>>, Errno> {
    device::list()?.iter().map(|device| open(device)).collect()
}

/// The device that has `address`; `ENODEV` if none has it.
pub(super) fn having(address: IpAddr) -> Result<Arc<Context>, Errno> {
    if let Some((_, context)) = opened().contexts.iter().find(|(info, _)| has(info, address)) {
        return Ok(Arc::clone(context));
    }
    let devices = device::list()?;
    let device = devices.iter().find(|device| has(&device.info, address));
    open(device.ok_or(Errno::NO_DEVICE)?)
}

/// An address of a device.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) context: Arc<Context>,
    pub(super) address: IpAddr,
}

/// The first device that has an address of the family of `like`, and that address.
pub(super) fn any(like: IpAddr) -> Result<Place, Errno> {
    let own = |context: Arc<Context>| {
        let address = *addresses_of(&context, like).first()?;
        Some(Place { context, address })
    };
    all()?.into_iter().find_map(own).ok_or(Errno::NO_DEVICE)
}

fn has(info: &DeviceInfo, address: IpAddr) -> bool {
    info.gids.iter().any(|entry| entry.usable && entry.gid.ip() == address)
}

/// The usable addresses of a device of the family of `like`.
pub(super) fn addresses_of(context: &Context, like: IpAddr) -> Vec<IpAddr> {
    let gids = context.nic.device().gids.iter().filter(|entry| entry.usable);
    let addresses = gids.map(|entry| entry.gid.ip());
    addresses.filter(|address| address.is_ipv4() == like.is_ipv4()).collect()
}

/// The device by which `destination` is reached, and the address that packets to it leave from.
///
/// That is the device with the address that the kernel would send from, or another on the same
/// interface: of a loopback interface each address can be a device.
pub(super) fn toward(destination: SocketAddr) -> Result<Place, Errno> {
    let source = kernel_source(destination);
    let known = source.and_then(|source| {
        let opened = opened();
        opened
            .paths
            .iter()
            .find(|(from, _)| *from == source)
            .map(|(_, context)| Arc::clone(context))
    });
    let context = match known {
        Some(context) => context,
        None => find_path(source, destination)?,
    };
    let own = addresses_of(&context, destination.ip());
    let chosen = source.filter(|source| own.contains(source)).or(own.first().copied());
    Ok(Place { address: chosen.ok_or(Errno::NO_DEVICE)?, context })
}

/// Finds the device for [`toward`], and remembers it.
fn find_path(source: Option<IpAddr>, destination: SocketAddr) -> Result<Arc<Context>, Errno> {
    let devices = device::list()?;
    let exact = source.and_then(|source| devices.iter().find(|device| has(&device.info, source)));
    let beside =
        || devices.iter().find(|device| source.is_some_and(|it| is_beside(&device.info, it)));
    // Multicast needs no route, and of the network of a lab the kernel knows none.
    let is_multicast = destination.ip().is_multicast();
    let any = || devices.first().filter(|device| is_multicast || device.info.lab.is_some());
    let device = exact.or_else(beside);
    let context = open(device.or_else(any).ok_or(Errno::NO_DEVICE)?)?;
    if let Some(source) = source.filter(|_| device.is_some()) {
        opened().paths.push((source, Arc::clone(&context)));
    }
    Ok(context)
}

/// The address that the kernel would send from; nothing is sent.
fn kernel_source(destination: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((addresses::any(destination.ip()), 0)).ok()?;
    socket.connect((destination.ip(), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether `address` is of the interface that the device is on.
fn is_beside(info: &DeviceInfo, address: IpAddr) -> bool {
    DeviceInfo::find(&info.interface, 0).is_ok_and(|whole| has(&whole, address))
}

/// The protection domain of ids that are given none.
pub(super) fn default_pd(context: &Arc<Context>) -> Result<*mut ibv_pd, Errno> {
    kept(context, |opened| &mut opened.pds, || pd::alloc(Arc::clone(context)))
}

/// The XRC domain of ids that are given none.
pub(super) fn default_xrcd(context: &Arc<Context>) -> Result<*mut ibv_xrcd, Errno> {
    kept(context, |opened| &mut opened.xrcds, || xrcd::open(context, None, libc::O_CREAT))
}

/// The object that is kept for a device among `objects`, made when it is first asked for.
fn kept<T>(
    context: &Context,
    objects: impl FnOnce(&mut Opened) -> &mut Vec<(usize, usize)>,
    make: impl FnOnce() -> Result<*mut T, Errno>,
) -> Result<*mut T, Errno> {
    let mut opened = opened();
    let (objects, device) = (objects(&mut opened), context.c().addr());
    if let Some((_, object)) = objects.iter().find(|(known, _)| *known == device) {
        return Ok(core::ptr::with_exposed_provenance_mut(*object));
    }
    let object = make()?;
    objects.push((device, object.expose_provenance()));
    Ok(object)
}
