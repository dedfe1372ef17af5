//! Protection domains, parent domains and thread domains.

use core::ffi::c_int;
use std::sync::Arc;

use transport::PdId;

use crate::context::{Context, owned};
use crate::errno::{Errno, pointer, status};
use crate::registry::{self, Object, Shared};
use abi::{self, ibv_context, ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr};

/// A protection domain, or a parent domain in front of one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pd {
    c: Shared<ibv_pd>,
    pub(crate) context: Arc<Context>,
    pub(crate) id: PdId,
    /// A parent domain's protection domain, which must not go before it.
    protection_domain: Option<Arc<Self>>,
    /// A parent domain's thread domain. It changes nothing: one lock serialises the engine.
    _thread_domain: Option<Arc<Td>>,
    /// Another context made it.
    imported: bool,
}

owned!(context, Pd, ibv_pd);

/// A thread domain.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Td {
    c: Shared<ibv_td>,
    context: Arc<Context>,
}

owned!(context, Td, ibv_td);

impl Pd {
    /// Ends the engine's object: the device is closed.
    pub(crate) fn end(&self) {
        if self.protection_domain.is_none() && !self.imported {
            // It fails if the engine's object is gone already.
            let _ = self.context.nic.with(|endpoint, _, _| endpoint.dealloc_pd(self.id));
        }
    }

    fn new(
        context: Arc<Context>,
        id: PdId,
        protection_domain: Option<Arc<Self>>,
        thread_domain: Option<Arc<Td>>,
        imported: bool,
    ) -> Arc<Self> {
        let c = ibv_pd { context: context.c(), handle: id.0 };
        Arc::new(Self {
            c: Shared::new(c),
            context,
            id,
            protection_domain,
            _thread_domain: thread_domain,
            imported,
        })
    }
}

/// Makes a protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer!(registry::find::<Context>(context).and_then(alloc))
}

/// Makes a protection domain, and returns its handle.
pub(crate) fn alloc(context: Arc<Context>) -> Result<*mut ibv_pd, Errno> {
    let id = context.nic.with(|endpoint, _, _| endpoint.alloc_pd())?;
    Ok(registry::insert(Pd::new(context, id, None, None, false)))
}

/// Destroys a protection domain or a parent domain; `EBUSY` while anything is in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status!(registry::find::<Pd>(pd).and_then(|pd| {
        registry::check_unused(&pd)?;
        if pd.protection_domain.is_none() {
            pd.context.nic.with(|endpoint, _, _| endpoint.dealloc_pd(pd.id))?;
        }
        registry::remove(&*pd);
        Ok(())
    }))
}

/// Makes a handle, in `context`, of the protection domain that has the number `pd_handle` in another
/// context of the same device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        let id = PdId(pd_handle);
        let is_it = |pd: &Arc<Pd>| pd.id == id && Arc::ptr_eq(&pd.context.nic, &context.nic);
        registry::search(|pd| is_it(pd).then_some(()))
            .ok_or(Errno::invalid("no protection domain of this context has this handle"))?;
        Ok(registry::insert(Pd::new(context, id, None, None, true)))
    }))
}

/// Forgets a handle. The protection domain stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(pd: *mut ibv_pd) {
    let _gone = registry::forget::<Pd>(pd);
}

/// `ibv_alloc_parent_domain`. Its allocators are for buffers that hardware shares with programs:
/// there are none, so they are never called.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::NULL)?;
        if attr.comp_mask & !abi::IBV_PARENT_DOMAIN_INIT_ATTR_KNOWN != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        let pd = registry::find::<Pd>(attr.pd)?;
        let td = registry::find_unless_null::<Td>(attr.td)?;
        if pd.protection_domain.is_some() || !Arc::ptr_eq(&pd.context, &context) {
            return Err(Errno::invalid(
                "the domain is a parent domain itself, or of another context",
            ));
        }
        Ok(registry::insert(Pd::new(context, pd.id, Some(pd), td, false)))
    }))
}

/// `ibv_alloc_td`.
pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::NULL)?;
        if attr.comp_mask != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        let c = Shared::new(ibv_td { context: context.c() });
        Ok(registry::insert(Arc::new(Td { c, context })))
    }))
}

/// `ibv_dealloc_td`.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    status!(registry::find::<Td>(td).and_then(|td| {
        registry::check_unused(&td)?;
        registry::remove(&*td);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::Plain;

    #[test]
    fn a_foreign_domain_is_refused() {
        let mut foreign = ibv_pd::zeroed();
        // SAFETY: the handles are looked up, not followed.
        unsafe {
            assert_eq!(ibv_dealloc_pd(core::ptr::null_mut()), libc::EINVAL);
            assert_eq!(ibv_dealloc_pd(&raw mut foreign), libc::EINVAL);
            assert!(ibv_alloc_pd(core::ptr::null_mut()).is_null());
        }
    }
}
