//! XRC domains: `ibv_open_xrcd`, `ibv_close_xrcd`.
//!
//! A domain that is opened with a file is found again when the same file is opened, within this process,
//! because an engine lives in its process.

use core::ffi::c_int;
use std::sync::Arc;

use softnic::Nic;
use transport::XrcdId;

use crate::context::{Context, owned};
use crate::descriptor::Identity;
use crate::errno::{Errno, pointer, status};
use crate::registry::{self, Object, Shared};
use abi::{self, ibv_context, ibv_xrcd, ibv_xrcd_init_attr};

/// An open domain.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Xrcd {
    c: Shared<ibv_xrcd>,
    pub(crate) context: Arc<Context>,
    domain: Arc<Domain>,
}

/// A domain of the NIC, which ends with its last handle.
#[derive(Debug)]
struct Domain {
    nic: Arc<Nic>,
    id: XrcdId,
    /// The file that identifies it.
    file: Option<Identity>,
}

impl Drop for Domain {
    fn drop(&mut self) {
        // It fails only if the engine still has a queue in it, whose handle the program has lost
        // by closing the device: then the NIC ends soon.
        let _ = self.nic.with(|endpoint, _, _| endpoint.dealloc_xrcd(self.id));
    }
}

owned!(context, Xrcd, ibv_xrcd);

impl Xrcd {
    pub(crate) fn id(&self) -> XrcdId {
        self.domain.id
    }
}

/// `ibv_open_xrcd`: `EAGAIN` for a file without a domain if none is to be made, as in the kernel, and
/// `EINVAL` for a domain that must be new and is not.
pub(crate) unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::NULL)?;
        let known = abi::IBV_XRCD_INIT_ATTR_FD | abi::IBV_XRCD_INIT_ATTR_OFLAGS;
        if attr.comp_mask & !known != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.comp_mask != known || attr.oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Errno::invalid(
                "comp_mask lacks fd or oflags, or oflags has more than O_CREAT and O_EXCL",
            ));
        }
        let file = if attr.fd == -1 { None } else { Some(Identity::of(attr.fd)?) };
        open(&context, file, attr.oflags)
    }))
}

/// Opens the domain of `file`, or one without a file, as `oflags` say, and returns its handle.
pub(crate) fn open(
    context: &Arc<Context>,
    file: Option<Identity>,
    oflags: c_int,
) -> Result<*mut ibv_xrcd, Errno> {
    // What may be the last reference is dropped after the NIC's lock is released.
    let mut existing = None;
    // Under that lock, so that a file gets one domain.
    context.nic.with(|endpoint, _, _| {
        let of_file = |xrcd: &Arc<Xrcd>| {
            file.is_some()
                && xrcd.domain.file == file
                && Arc::ptr_eq(&xrcd.domain.nic, &context.nic)
        };
        existing = registry::search(|xrcd| of_file(xrcd).then(|| Arc::clone(&xrcd.domain)));
        let domain = match &existing {
            Some(_) if oflags & libc::O_EXCL != 0 => {
                return Err(Errno::invalid(
                    "the file has an XRC domain already, and O_EXCL was given",
                ));
            }
            Some(domain) => Arc::clone(domain),
            None if file.is_some() && oflags & libc::O_CREAT == 0 => return Err(Errno::AGAIN),
            None => {
                let id = endpoint.alloc_xrcd()?;
                Arc::new(Domain { nic: Arc::clone(&context.nic), id, file })
            }
        };
        let c = Shared::new(ibv_xrcd { context: context.c() });
        let context = Arc::clone(context);
        Ok(registry::insert(Arc::new(Xrcd { c, context, domain })))
    })
}

/// `ibv_close_xrcd`, which the header calls unchecked; `EBUSY` while anything uses this handle.
pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    status!(registry::find::<Xrcd>(xrcd).and_then(|xrcd| {
        registry::check_unused(&xrcd)?;
        registry::remove(&*xrcd);
        Ok(())
    }))
}
