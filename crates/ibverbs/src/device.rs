//! Devices: `ibv_get_device_list`, `ibv_get_device_name`, `ibv_get_device_guid`.

use core::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, Once};

use softnic::DeviceInfo;

use crate::errno::{Errno, pointer};
use crate::log;
use crate::registry::{self, Object, Shared, object};
use abi::{self, Plain, ibv_device, verbs_device};

/// A device. It is never freed: programs keep the pointer after they have freed the list.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Device {
    c: Shared<verbs_device>,
    pub(crate) info: DeviceInfo,
}

object!(Device, ibv_device);

impl Device {
    fn new(info: DeviceInfo) -> Self {
        let mut c = verbs_device::zeroed();
        c.device.node_type = abi::IBV_NODE_CA;
        c.device.transport_type = abi::IBV_TRANSPORT_IB;
        let uverbs = format!("uverbs{}", info.index);
        copy_text(&mut c.device.name, &info.name);
        copy_text(&mut c.device.dev_name, &uverbs);
        copy_text(&mut c.device.dev_path, &format!("/sys/class/infiniband_verbs/{uverbs}"));
        copy_text(&mut c.device.ibdev_path, &format!("/sys/class/infiniband/{}", info.name));
        Self { c: Shared::new(c), info }
    }
}

/// Copies `text` into a C array, cut off so that a NUL follows.
pub(crate) fn copy_text(target: &mut [c_char], text: &str) {
    let room = target.len().saturating_sub(1);
    for (place, byte) in target.iter_mut().take(room).zip(text.bytes()) {
        *place = byte.cast_signed() as c_char;
    }
}

/// The devices of the host as they are now. One that has not changed keeps its pointer.
pub(crate) fn list() -> Result<Vec<Arc<Device>>, Errno> {
    log::start();
    registry::guard_forks();
    let infos = softnic::devices().map_err(|error| {
        log::complain(&error);
        Errno::NO_DEVICE
    })?;
    if let Err(error) = softnic::sysfs::restore(&infos) {
        // The devices work without it. It is said once, and lists are asked for often.
        static TOLD: Once = Once::new();
        TOLD.call_once(|| log::complain(&error));
    }
    let device_of = |info: DeviceInfo| {
        let is_it = |device: &Arc<Device>| device.info == info;
        registry::search(|device| is_it(device).then(|| Arc::clone(device))).unwrap_or_else(|| {
            let device = Arc::new(Device::new(info));
            registry::insert(Arc::clone(&device));
            device
        })
    };
    Ok(infos.into_iter().map(device_of).collect())
}

/// Lists the devices in an array that ends with NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let devices = list();
    // SAFETY: C passes NULL or a writable integer.
    if let Some(num_devices) = unsafe { num_devices.as_mut() } {
        *num_devices = devices.as_ref().map_or(0, |devices| devices.len() as c_int);
    }
    pointer!(devices.and_then(|devices| registry::list(&devices)))
}

/// Frees a list. The devices in it stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: made by `calloc` in `ibv_get_device_list`, or NULL.
    unsafe { libc::free(list.cast()) };
}

/// The name, as `ferroce0`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    pointer!(registry::find::<Device>(device).map(|device| {
        // SAFETY: devices are never freed, and the name never changes.
        unsafe { (&raw mut (*device.c()).name).cast::<c_char>() }
    }))
}

/// The number by which the kernel is asked about a device (NETLINK_RDMA). It knows nothing of ours, so they have none,
/// and programs do not ask: UCX would take the answer for an error, or that about another device for ours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(_: *mut ibv_device) -> c_int {
    -1
}

/// The node GUID in network byte order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    match registry::find::<Device>(device) {
        Ok(device) => device.info.guid.to_be(),
        Err(error) => {
            error.set();
            0
        }
    }
}

/// A text from C.
///
/// # Safety
/// `text` is NULL or ends with a NUL.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a CStr, Errno> {
    if text.is_null() {
        return Err(Errno::NULL);
    }
    // SAFETY: the caller vouches for the NUL.
    Ok(unsafe { CStr::from_ptr(text) })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn a_text_is_cut_so_that_it_ends() {
        let mut target = [0; 4];
        copy_text(&mut target, "ferroce0");
        assert_eq!(target.map(|byte| byte.cast_unsigned()), *b"fer\0");
    }

    #[test]
    fn a_stale_device_has_no_name() {
        // SAFETY: a NULL and a foreign pointer are looked up, not followed.
        unsafe {
            assert!(ibv_get_device_name(ptr::null_mut()).is_null());
            assert!(ibv_get_device_name(ptr::dangling_mut()).is_null());
            assert_eq!(ibv_get_device_guid(ptr::null_mut()), 0);
        }
    }
}
