//! The library, its devices, and a device that is open.

use core::error::Error as _;
use core::ffi::{CStr, c_int};
use core::ptr::NonNull;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use abi::{
    IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE, Plain, ibv_context, ibv_device,
    ibv_gid, ibv_gid_entry, ibv_port_attr,
};
use rdma::{Gid, Mtu};

use crate::Error;
use crate::calls::Calls;

/// What programs are linked to.
const NAME: &str = "libibverbs.so.1";
/// The port that is used.
pub(crate) const PORT: u8 = 1;

/// A library that is loaded.
#[derive(Debug)]
pub struct Library {
    pub(crate) calls: Calls,
    /// Beneath the calls: it is unloaded after them.
    _loaded: libloading::Library,
}

/// A device that is open.
#[derive(Debug)]
pub struct Context {
    pub(crate) library: Arc<Library>,
    pub(crate) raw: NonNull<ibv_context>,
    name: String,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for Context {}
// SAFETY: the same.
unsafe impl Sync for Context {}

/// A port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// The largest packet, in bytes of payload.
    pub active_mtu: Mtu,
    /// How many entries its table of GIDs has.
    pub gids: u32,
}

/// An address of the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidEntry {
    /// Its place in the table.
    pub index: u8,
    /// The address.
    pub gid: Gid,
}

impl Library {
    /// Loads the library at `path`, or the one that programs of this system are linked to.
    ///
    /// # Errors
    /// There is none, or it is no libibverbs.
    pub fn load(path: Option<&Path>) -> Result<Arc<Self>, Error> {
        let name = path.unwrap_or(Path::new(NAME));
        // SAFETY: what its initialisers do is what they do in any program that is linked to it.
        let loaded = unsafe { libloading::Library::new(name) };
        let loaded = loaded.map_err(|error| {
            // The loader's own words, which name what is missing, are its source.
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Error::new(format!("cannot load {}: {why}", name.display()))
        })?;
        // SAFETY: the library is loaded for as long as the calls are.
        let calls = unsafe { Calls::find(&loaded) }
            .map_err(|error| Error::new(format!("{}: {error}", name.display())))?;
        Ok(Arc::new(Self { calls, _loaded: loaded }))
    }

    /// The names of the devices.
    ///
    /// # Errors
    /// The library cannot list them.
    pub fn devices(&self) -> Result<Vec<String>, Error> {
        self.with_devices(|devices| devices.iter().map(|device| self.name(*device)).collect())
    }

    /// Opens a device.
    ///
    /// # Errors
    /// There is no such device, or it cannot be opened.
    pub fn open(self: &Arc<Self>, name: &str) -> Result<Arc<Context>, Error> {
        let opened = self.with_devices(|devices| {
            let device = devices.iter().find(|device| self.name(**device) == name);
            let device = *device.ok_or_else(|| Error::new(format!("no RDMA device {name:?}")))?;
            // SAFETY: a device of the list that is there still.
            let raw = unsafe { (self.calls.ibv_open_device)(device) };
            NonNull::new(raw).ok_or_else(|| Error::last(&format!("ibv_open_device of {name}")))
        })??;
        Ok(Arc::new(Context { library: Arc::clone(self), raw: opened, name: name.to_owned() }))
    }

    fn with_devices<R>(&self, f: impl FnOnce(&[*mut ibv_device]) -> R) -> Result<R, Error> {
        let mut count: c_int = 0;
        // SAFETY: a writable number.
        let list = unsafe { (self.calls.ibv_get_device_list)(&mut count) };
        if list.is_null() {
            return Err(Error::last("ibv_get_device_list"));
        }
        // SAFETY: the library has written so many devices into its list.
        let devices = unsafe { core::slice::from_raw_parts(list, count.max(0) as usize) };
        let result = f(devices);
        // SAFETY: the list, which nobody looks at any more.
        unsafe { (self.calls.ibv_free_device_list)(list) };
        Ok(result)
    }

    fn name(&self, device: *mut ibv_device) -> String {
        // SAFETY: a device of a list that is there; its name ends with a NUL.
        let name = unsafe { CStr::from_ptr((self.calls.ibv_get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }
}

impl Context {
    /// Its name, as `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its first port.
    ///
    /// # Errors
    /// It cannot be asked, is down, or is not of Ethernet.
    pub fn port(&self) -> Result<Port, Error> {
        let mut attr = ibv_port_attr::zeroed();
        // SAFETY: a live context, a writable structure.
        let result =
            unsafe { (self.library.calls.ibv_query_port)(self.raw.as_ptr(), PORT, &mut attr) };
        if result != 0 {
            return Err(Error::number(&format!("ibv_query_port of {}", self.name), result));
        }
        if attr.state != IBV_PORT_ACTIVE {
            return Err(Error::new(format!("port {PORT} of {} is not active", self.name)));
        }
        if attr.link_layer != IBV_LINK_LAYER_ETHERNET {
            let what = format!("port {PORT} of {} is not of Ethernet: there is no RoCE", self.name);
            return Err(Error::new(what));
        }
        let active_mtu = Mtu::from_code(attr.active_mtu as u8).unwrap_or(Mtu::B1024);
        Ok(Port { active_mtu, gids: attr.gid_tbl_len.max(0) as u32 })
    }

    /// Its addresses for RoCEv2, IPv4 first.
    ///
    /// # Errors
    /// As [`Context::port`].
    pub fn gids(&self) -> Result<Vec<GidEntry>, Error> {
        let count = self.port()?.gids.min(256);
        let of = |index: u32| {
            let gid = self.gid(index).filter(|gid| gid.0 != [0; 16])?;
            self.is_v2(index).then_some(GidEntry { index: index as u8, gid })
        };
        let mut gids: Vec<GidEntry> = (0..count).filter_map(of).collect();
        gids.sort_by_key(|entry| entry.gid.ip().is_ipv6());
        Ok(gids)
    }

    fn gid(&self, index: u32) -> Option<Gid> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: a live context, a writable GID.
        let result = unsafe {
            (self.library.calls.ibv_query_gid)(self.raw.as_ptr(), PORT, index as c_int, &mut gid)
        };
        (result == 0).then_some(Gid(gid.raw))
    }

    /// Whether an entry is of RoCEv2: by the library, if it can say so, else by the kernel's files.
    fn is_v2(&self, index: u32) -> bool {
        if let Some(query) = self.library.calls.query_gid_ex {
            let mut entry = ibv_gid_entry::zeroed();
            let (context, size) = (self.raw.as_ptr(), size_of::<ibv_gid_entry>());
            // SAFETY: a live context, a writable structure of that size.
            let result = unsafe { query(context, PORT.into(), index, &mut entry, 0, size) };
            return result == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
        }
        let path =
            format!("/sys/class/infiniband/{}/ports/{PORT}/gid_attrs/types/{index}", self.name);
        fs::read_to_string(path).is_ok_and(|kind| kind.trim() == "RoCE v2")
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all that was made of the context keeps it, so nothing is left.
        unsafe { (self.library.calls.ibv_close_device)(self.raw.as_ptr()) };
    }
}
