//! Devices are opened and closed here: `ibv_open_device`, `ibv_import_device`, `ibv_close_device`.
//!
//! The top floor: it knows every room, because a context has a table of their functions, and
//! because closing it ends what was made in them.

use core::ffi::c_int;
use core::ptr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::ah::Ah;
use crate::channel::Channel;
use crate::context::{self, Context, Owned};
use crate::cq::Cq;
use crate::descriptor::Identity;
use crate::device::Device;
use crate::errno::{Errno, pointer, status};
use crate::fork;
use crate::memory::buf::Buf;
use crate::memory::dm::Dm;
use crate::memory::mr::Mr;
use crate::memory::mw::Mw;
use crate::memory::{dm, mr, mw};
use crate::pd::{Pd, Td};
use crate::qp::Qp;
use crate::qp::{bind, create, send};
use crate::registry;
use crate::srq::Srq;
use crate::xrcd::Xrcd;
use crate::{cq, cq_ex, pd, port, srq, xrcd};
use abi::{Plain, ibv_context, ibv_context_ops, ibv_device, verbs_context};

/// A context's operations. NULL means "not offered": the header's functions then fail with `EOPNOTSUPP`,
/// except those that call unchecked.
fn operations() -> verbs_context {
    let mut c = verbs_context::zeroed();
    c.sz = size_of::<verbs_context>();
    c.context.abi_compat = ptr::without_provenance_mut(usize::MAX);
    c.context.num_comp_vectors = 1;
    c.context.ops = ibv_context_ops {
        alloc_mw: Some(mw::alloc_mw),
        bind_mw: Some(bind::bind_mw),
        dealloc_mw: Some(mw::dealloc_mw),
        poll_cq: Some(cq::poll_cq),
        req_notify_cq: Some(cq::req_notify_cq),
        post_srq_recv: Some(srq::post_srq_recv),
        post_send: Some(send::post_send),
        post_recv: Some(send::post_recv),
        ..c.context.ops
    };
    c.query_port = Some(port::query_port);
    c.advise_mr = Some(mr::advise_mr);
    c.reg_dm_mr = Some(dm::reg_dm_mr);
    c.alloc_dm = Some(dm::alloc_dm);
    c.free_dm = Some(dm::free_dm);
    c.alloc_parent_domain = Some(pd::alloc_parent_domain);
    c.alloc_td = Some(pd::alloc_td);
    c.dealloc_td = Some(pd::dealloc_td);
    c.query_rt_values = Some(context::query_rt_values);
    c.create_cq_ex = Some(cq_ex::create_cq_ex);
    c.query_device_ex = Some(context::query_device_ex);
    c.open_qp = Some(create::open_qp);
    c.create_qp_ex = Some(create::create_qp_ex);
    c.get_srq_num = Some(srq::get_srq_num);
    c.create_srq_ex = Some(srq::create_srq_ex);
    c.open_xrcd = Some(xrcd::open_xrcd);
    c.close_xrcd = Some(xrcd::close_xrcd);
    c
}

/// Opens a device: its sockets are bound from now on.
pub(crate) fn open(device: &Device) -> Result<Arc<Context>, Errno> {
    fork::guard();
    Context::open(device, operations())
}

/// Opens a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer!(registry::find::<Device>(device).and_then(|it| open(&it)).map(registry::insert))
}

/// Opens, once more, the device whose `cmd_fd` was duplicated to `cmd_fd`, which belongs to the new
/// context from now on. An engine lives in its process: a descriptor from another process is
/// `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    let context = Identity::of(cmd_fd).and_then(|identity| {
        let is_its = |it: &Arc<Context>| it.identity == identity;
        // Two owners would close it twice.
        let is_taken = |it: &Arc<Context>| is_its(it) && it.command.as_raw_fd() == cmd_fd;
        if registry::search(|it| is_taken(it).then_some(())).is_some() {
            return Err(Errno::invalid("cmd_fd belongs to an open context already"));
        }
        let original = registry::search(|it| is_its(it).then(|| Arc::clone(it)));
        let original = original.ok_or(Errno::UNSUPPORTED)?;
        // SAFETY: the caller gives away a descriptor, and the check above has shown that it is open.
        original.beside(operations(), unsafe { OwnedFd::from_raw_fd(cmd_fd) })
    });
    pointer!(context.map(registry::insert))
}

/// Closes a device. Objects that the program has not destroyed end with it, as in the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    status!(registry::find::<Context>(context).map(|context| {
        registry::remove(&*context);
        end_all(&context, Qp::end);
        end_all(&context, Srq::end);
        end_all::<Xrcd>(&context, |_| {});
        end_all(&context, Cq::end);
        end_all::<Channel>(&context, |_| {});
        end_all(&context, Mw::end);
        end_all(&context, Mr::end);
        end_all::<Dm>(&context, |_| {});
        end_all::<Buf>(&context, |_| {});
        end_all::<Ah>(&context, |_| {});
        end_all(&context, Pd::end);
        end_all::<Td>(&context, |_| {});
    }))
}

/// Forgets every object of a kind that belongs to `context`, and ends it by `end`. Another context of the
/// same NIC may go on.
fn end_all<T: Owned>(context: &Arc<Context>, end: impl Fn(&T)) {
    let gone = registry::remove_all(|object: &T| Arc::ptr_eq(object.context(), context));
    gone.iter().for_each(|object| end(object));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_says_that_it_is_extended() {
        let c = operations();
        assert_eq!(c.context.abi_compat.addr(), usize::MAX);
        assert_eq!(c.sz, size_of::<verbs_context>());
        assert!(c.close_xrcd.is_some(), "the header calls it unchecked");
    }
}
