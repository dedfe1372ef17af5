//! Memory windows: `ibv_alloc_mw`, `ibv_dealloc_mw`, and the request that binds one.

use core::ffi::{c_int, c_uint};
use std::sync::Arc;

use rdma::{Access, Key, Operation};
use transport::WindowKind;

use crate::context::{Context, owned};
use crate::errno::{Errno, pointer, status};
use crate::memory::mr::Mr;
use crate::pd::Pd;
use crate::registry::{self, Hot, Mark, Object, Shared};
use abi::{self, ibv_mw, ibv_mw_bind_info, ibv_pd};

/// A window.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mw {
    c: Shared<ibv_mw>,
    mark: Mark,
    context: Arc<Context>,
    /// Its index never changes; its tag does.
    key: Key,
    _pd: Arc<Pd>,
}

owned!(context, Mw, ibv_mw, b"fcMW");

impl Mw {
    /// Ends the engine's object: the device is closed.
    pub(crate) fn end(&self) {
        // It fails if the engine's object is gone already.
        let _ = self.context.nic.with(|endpoint, _, _| endpoint.dealloc_window(self.key));
    }
}

fn kind(number: u32) -> Result<WindowKind, Errno> {
    match number {
        abi::IBV_MW_TYPE_1 => Ok(WindowKind::Type1),
        abi::IBV_MW_TYPE_2 => Ok(WindowKind::Type2),
        _ => Err(Errno::invalid("a memory window is of IBV_MW_TYPE_1 or IBV_MW_TYPE_2")),
    }
}

/// What a peer may do through a window. Windows have no local rights: local rights that programs pass
/// are ignored.
fn access(bits: c_uint) -> Result<Access, Errno> {
    let access = Access::from_bits(bits)
        .ok_or(Errno::invalid("mw_access_flags has bits that are not known"))?;
    let meant =
        Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::ZERO_BASED;
    Ok(access & meant)
}

/// The request that binds the window `mw` to what `info` names, under the key `r_key`.
///
/// # Safety
/// The window is alive, and so is the region if there is one.
pub(crate) unsafe fn bind(
    mw: *mut ibv_mw,
    r_key: u32,
    info: &ibv_mw_bind_info,
) -> Result<Operation, Errno> {
    // SAFETY: the caller vouches for it.
    let mw = unsafe { registry::hot::<Mw>(mw)? };
    let r_key = Key(r_key);
    if r_key.index() != mw.key.index() {
        return Err(Errno::invalid("rkey is not one of this window"));
    }
    let region = match info.mr.is_null() {
        true => Key(0),
        // SAFETY: the caller vouches for it.
        false => unsafe { registry::hot::<Mr>(info.mr)? }.key,
    };
    let access = access(info.mw_access_flags)?;
    Ok(Operation::BindWindow { r_key, region, address: info.addr, length: info.length, access })
}

/// `ibv_alloc_mw`.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, number: u32) -> *mut ibv_mw {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        let kind = kind(number)?;
        let context = Arc::clone(&pd.context);
        let key = context.nic.with(|endpoint, _, _| endpoint.alloc_window(pd.id, kind))?;
        let c = ibv_mw {
            context: context.c(),
            pd: pd.c(),
            rkey: key.0,
            handle: key.index(),
            kind: number,
        };
        Ok(registry::insert(Arc::new(Mw {
            c: Shared::new(c),
            mark: Mark::new(Mw::KIND),
            context,
            key,
            _pd: pd,
        })))
    }))
}

/// `ibv_dealloc_mw`.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status!(registry::find::<Mw>(mw).and_then(|mw| {
        mw.context.nic.with(|endpoint, _, _| endpoint.dealloc_window(mw.key))?;
        registry::remove(&*mw);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::Plain;

    #[test]
    fn there_are_two_types_of_windows() {
        assert_eq!(kind(1), Ok(WindowKind::Type1));
        assert_eq!(kind(2), Ok(WindowKind::Type2));
        assert_eq!(kind(3), Err(Errno::INVALID));
    }

    #[test]
    fn a_window_has_no_local_rights() {
        assert_eq!(access(0b11), Ok(Access::REMOTE_WRITE));
        assert_eq!(access(1 << 8), Err(Errno::INVALID));
    }

    #[test]
    fn a_foreign_window_is_refused() {
        let mut foreign = ibv_mw::zeroed();
        let info = ibv_mw_bind_info::zeroed();
        // SAFETY: as much readable memory as a window of ours, or a handle that is looked up.
        unsafe {
            let mut memory = [ibv_mw::zeroed(); 4];
            assert_eq!(bind(memory.as_mut_ptr(), 0, &info), Err(Errno::INVALID));
            assert_eq!(dealloc_mw(&raw mut foreign), libc::EINVAL);
        }
    }
}
