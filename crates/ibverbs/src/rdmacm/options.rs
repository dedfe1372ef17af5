//! `rdma_set_option`.

use core::ffi::{c_int, c_void};

use super::abi::rdma_cm_id;
use super::id::CmId;
use crate::errno::{Errno, minus_one};
use crate::registry;

const RDMA_OPTION_ID: c_int = 0;
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
/// Five bits.
const ACK_TIMEOUT_MAX: u8 = 31;

/// Sets an option of an id. An unknown one is `ENOSYS`, as in the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: usize,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        if level != RDMA_OPTION_ID {
            return Err(Errno::new(libc::ENOSYS));
        }
        let length = match optname {
            TOS | ACK_TIMEOUT => size_of::<u8>(),
            REUSEADDR | AFONLY => size_of::<c_int>(),
            _ => return Err(Errno::new(libc::ENOSYS)),
        };
        if optval.is_null() || optlen != length {
            return Err(Errno::invalid("optval is NULL, or optlen is not that of the option"));
        }
        // SAFETY: C passes as many readable bytes as it says.
        let value = unsafe {
            match optname {
                TOS | ACK_TIMEOUT => c_int::from(optval.cast::<u8>().read()),
                _ => optval.cast::<c_int>().read_unaligned(),
            }
        };
        let mut inner = id.lock();
        let bound = inner.local.is_some();
        let settings = &mut inner.settings;
        match optname {
            TOS => settings.traffic_class = value as u8,
            ACK_TIMEOUT if value > ACK_TIMEOUT_MAX.into() => {
                return Err(Errno::invalid("the ACK timeout has five bits"));
            }
            ACK_TIMEOUT => settings.ack_timeout = Some(value as u8),
            // Too late once there is a port.
            _ if bound => {
                return Err(Errno::invalid("the id has an address already: set this before"));
            }
            REUSEADDR => settings.reuse_address = value != 0,
            _ => settings.one_family = value != 0,
        }
        Ok(())
    }))
}
