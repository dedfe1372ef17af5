//! The port: `ibv_query_port`, `ibv_query_gid`, `ibv_query_gid_ex`, `ibv_query_pkey`.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use rdma::{Gid, Mtu};
use softnic::DeviceInfo;
use transport::limits;

use crate::context::{Context, copy_sized};
use crate::errno::{Errno, minus_one, status};
use crate::registry;
use abi::{
    self, COMPAT_PORT_ATTR_BYTES, Plain, ibv_context, ibv_gid, ibv_gid_entry, ibv_port_attr,
};

/// The only port.
pub(crate) const PORT: u8 = 1;

/// `IBTA` physical state "link up".
const PHYSICAL_LINK_UP: u8 = 5;
/// `IBTA` physical state "disabled".
const PHYSICAL_DISABLED: u8 = 3;

/// The only partition, in network byte order.
const PKEY: u16 = 0xffff;

/// Codes of `active_width` and `active_speed` by which an Ethernet speed is known to RDMA
/// programs, from the fastest down (as the kernel maps `ethtool` speeds).
const SPEEDS: [(u32, u8, u8); 8] = [
    (400_000, 2, 128),
    (200_000, 2, 64),
    (100_000, 2, 32),
    (50_000, 1, 64),
    (40_000, 2, 8),
    (25_000, 1, 32),
    (10_000, 1, 8),
    (0, 1, 1),
];

/// What the last of them stands for: one lane of SDR.
const LEAST_MBPS: u32 = 2_500;

fn find(context: *mut ibv_context, port: u32) -> Result<Arc<Context>, Errno> {
    let context = registry::find::<Context>(context)?;
    if port == u32::from(PORT) {
        Ok(context)
    } else {
        Err(Errno::invalid("port_num is not 1, the only port"))
    }
}

/// The fewest entries of the GID table: room for an address that comes later, and few enough for
/// programs that query each.
const GID_TABLE_LENGTH: u32 = 16;

/// How many entries the GID table has, empty ones included.
fn gid_count(device: &DeviceInfo) -> u32 {
    let used = device.gids.iter().map(|entry| u32::from(entry.index) + 1).max();
    used.unwrap_or(0).max(GID_TABLE_LENGTH)
}

/// Width and speed codes of the interface.
fn width_and_speed(device: &DeviceInfo) -> (u8, u8) {
    let mbps = device.speed_mbps();
    SPEEDS
        .iter()
        .find(|(least, ..)| mbps >= *least)
        .map_or((1, 1), |(_, width, speed)| (*width, *speed))
}

fn attributes(device: &DeviceInfo) -> ibv_port_attr {
    let (active_width, active_speed) = width_and_speed(device);
    let (state, phys_state) = if device.link_up {
        (abi::IBV_PORT_ACTIVE, PHYSICAL_LINK_UP)
    } else {
        (abi::IBV_PORT_DOWN, PHYSICAL_DISABLED)
    };
    ibv_port_attr {
        state,
        max_mtu: u32::from(Mtu::B4096.code()),
        active_mtu: u32::from(device.active_mtu.code()),
        gid_tbl_len: gid_count(device).cast_signed(),
        port_cap_flags: abi::IBV_PORT_CM_SUP | abi::IBV_PORT_IP_BASED_GIDS,
        max_msg_sz: limits::MESSAGE_BYTES_MAX,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width,
        active_speed,
        phys_state,
        link_layer: abi::IBV_LINK_LAYER_ETHERNET,
        ..ibv_port_attr::zeroed()
    }
}

/// The port's attributes, as programs built before 2019 know them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut c_void,
) -> c_int {
    // SAFETY: the structure that this function was declared with has that many bytes.
    unsafe { query_port(context, port_num, port_attr.cast(), COMPAT_PORT_ATTR_BYTES) }
}

/// `ibv_query_port` of newer headers, which say how long their structure is.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    port_attr_len: usize,
) -> c_int {
    status!(find(context, u32::from(port_num)).and_then(|context| {
        if port_attr.is_null() {
            return Err(Errno::NULL);
        }
        let attr = attributes(context.nic.device());
        // SAFETY: C passes `port_attr_len` writable bytes.
        unsafe { copy_sized(&attr, port_attr.cast(), port_attr_len) };
        Ok(())
    }))
}

/// An entry of the GID table. An empty one is the zero GID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    minus_one!(find(context, u32::from(port_num)).and_then(|context| {
        // SAFETY: C passes a writable GID.
        let gid = unsafe { gid.as_mut() }.ok_or(Errno::NULL)?;
        let index = u32::try_from(index).map_err(|_| Errno::invalid("index is negative"))?;
        gid.raw = entry(&context, index)?.unwrap_or_default().0;
        Ok(())
    }))
}

/// Entry `index`: an error beyond the table, `None` if it is empty.
fn entry(context: &Context, index: u32) -> Result<Option<Gid>, Errno> {
    if index >= gid_count(context.nic.device()) {
        return Err(Errno::invalid("index is beyond the table of GIDs"));
    }
    let entry = u8::try_from(index).ok().and_then(|index| context.gid(index));
    Ok(entry.map(|entry| entry.gid))
}

fn full_entry(device: &DeviceInfo, index: u32, gid: Gid) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: gid.0 },
        gid_index: index,
        port_num: u32::from(PORT),
        gid_type: abi::IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: device.interface_index,
    }
}

/// An entry of the GID table with its type and interface; `ENODATA` if it is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    target: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    status!(find(context, port_num).and_then(|context| {
        if target.is_null() {
            return Err(Errno::NULL);
        }
        if flags != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        let gid = entry(&context, gid_index)?.ok_or(Errno::NO_DATA)?;
        let found = full_entry(context.nic.device(), gid_index, gid);
        // SAFETY: C passes `entry_size` writable bytes.
        unsafe { copy_sized(&found, target.cast(), entry_size) };
        Ok(())
    }))
}

/// All entries of the GID table that are not empty. Returns how many, or an error's number,
/// negative.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    let result = find(context, u32::from(PORT)).and_then(|context| {
        let device = context.nic.device();
        if flags != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if entries.is_null() || device.gids.len() > max_entries {
            return Err(Errno::invalid("max_entries is too small for the table of GIDs"));
        }
        for (at, known) in device.gids.iter().enumerate() {
            let found = full_entry(device, u32::from(known.index), known.gid);
            // SAFETY: C passes `max_entries` entries of `entry_size` bytes.
            unsafe { copy_sized(&found, entries.byte_add(at * entry_size).cast(), entry_size) };
        }
        Ok(device.gids.len())
    });
    match result {
        Ok(count) => count.cast_signed(),
        Err(error) => {
            error.set();
            -(error.number as isize)
        }
    }
}

/// The port's speed in units of 100 Mb/s: what its width and speed codes say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    port_speed: *mut u64,
) -> c_int {
    status!(find(context, port_num).and_then(|context| {
        // SAFETY: C passes a writable number.
        let port_speed = unsafe { port_speed.as_mut() }.ok_or(Errno::NULL)?;
        *port_speed = u64::from(context.nic.device().speed_mbps().max(LEAST_MBPS) / 100);
        Ok(())
    }))
}

/// The type of an entry by the numbers of sysfs: RoCE v2 is 1. `ibv_query_gid_type`, to which
/// `providers/private.S` gives its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: u32,
    gid_type: *mut u32,
) -> c_int {
    minus_one!(find(context, u32::from(port_num)).and_then(|context| {
        // SAFETY: C passes a writable number.
        let gid_type = unsafe { gid_type.as_mut() }.ok_or(Errno::NULL)?;
        entry(&context, index)?;
        *gid_type = abi::IBV_GID_TYPE_SYSFS_ROCE_V2;
        Ok(())
    }))
}

/// An entry of the P_Key table, in network byte order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    minus_one!(find(context, u32::from(port_num)).and_then(|_| {
        // SAFETY: C passes a writable number.
        let pkey = unsafe { pkey.as_mut() }.ok_or(Errno::NULL)?;
        if index != 0 {
            return Err(Errno::invalid("index is not 0, the only P_Key"));
        }
        *pkey = PKEY;
        Ok(())
    }))
}

/// The index of a P_Key, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port_num: u8,
    pkey: u16,
) -> c_int {
    let is_known = if pkey == PKEY {
        Ok(())
    } else {
        Err(Errno::invalid("pkey is not 0xffff, the only P_Key"))
    };
    minus_one!(find(context, u32::from(port_num)).and(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_or_unknown_speed_has_codes_too() {
        let codes =
            |mbps: u32| SPEEDS.iter().find(|(least, ..)| mbps >= *least).map(|(_, w, s)| (*w, *s));
        assert_eq!(codes(0), Some((1, 1)));
        assert_eq!(codes(100_000), Some((2, 32)));
        assert_eq!(codes(u32::MAX), Some((2, 128)));
    }
}
