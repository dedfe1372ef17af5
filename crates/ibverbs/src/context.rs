//! Contexts: `ibv_open_device`, `ibv_close_device`, `ibv_query_device`.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use softnic::{GidEntry, Nic};
use transport::limits;

use crate::abi::{
    self, Plain, ibv_context, ibv_context_ops, ibv_device, ibv_device_attr, ibv_device_attr_ex,
    ibv_odp_caps, ibv_query_device_ex_input, ibv_values_ex, verbs_context,
};
use crate::ah::Ah;
use crate::channel::Channel;
use crate::cq::Cq;
use crate::descriptor::{self, Identity};
use crate::device::{Device, copy_text};
use crate::dm::Dm;
use crate::errno::{Errno, pointer, status};
use crate::event::Events;
use crate::mr::Mr;
use crate::mw::Mw;
use crate::pd::{Pd, Td};
use crate::qp::Qp;
use crate::registry::{self, Live, Object, Shared, Table};
use crate::srq::Srq;
use crate::xrcd::Xrcd;
use crate::{cq, cq_ex, dm, mr, mw, pd, port, qp, send, srq, xrcd};

/// The vendor of software devices: kernel Soft-RoCE has it too, and no program takes it for a
/// NIC that it knows (test suites refuse 0).
pub(crate) const VENDOR_ID: u32 = 0xff_ffff;

/// Ticks of the device's clock in a millisecond: it counts nanoseconds.
pub(crate) const CLOCK_KHZ: u64 = 1_000_000;

/// An open device.
#[derive(Debug)]
pub(crate) struct Context {
    c: Shared<verbs_context>,
    pub(crate) nic: Arc<Nic>,
    pub(crate) events: Arc<Events>,
    started: AtomicBool,
    /// What C knows as `cmd_fd`, and what it is recognised by, however often it was duplicated.
    command: OwnedFd,
    identity: Identity,
}

impl Object for Context {
    type C = ibv_context;

    fn table(live: &mut Live) -> &mut Table<Self> {
        &mut live.contexts
    }

    fn c(&self) -> *mut ibv_context {
        // SAFETY: the field of a structure that we own.
        unsafe { &raw mut (*self.c.get()).context }
    }

    fn context(&self) -> Option<&Arc<Context>> {
        None
    }
}

impl Context {
    pub(crate) fn open(device: &Device) -> Result<Arc<Self>, Errno> {
        let events = Events::new()?;
        let (token, identity) = descriptor::token()?;
        let nic = Nic::open(&device.info, Box::new(events.sink())).map_err(|error| {
            crate::log::complain(&error);
            Errno::from(&error)
        })?;
        Ok(Self::new(device.c(), Arc::new(nic), events, token, identity))
    }

    /// Another context of the same NIC, which owns `command` from now on.
    fn beside(&self, command: OwnedFd) -> Result<Arc<Self>, Errno> {
        let events = self.events.beside()?;
        // SAFETY: the field was written before C had the pointer, and never is again.
        let device = unsafe { (*self.c()).device };
        Ok(Self::new(device, Arc::clone(&self.nic), events, command, self.identity))
    }

    fn new(
        device: *mut ibv_device,
        nic: Arc<Nic>,
        events: Events,
        command: OwnedFd,
        identity: Identity,
    ) -> Arc<Self> {
        let mut c = operations();
        c.context.device = device;
        c.context.async_fd = events.queue.fd();
        // There is no command channel, but a descriptor by which the device is known again.
        c.context.cmd_fd = command.as_raw_fd();
        let (events, started) = (Arc::new(events), AtomicBool::new(false));
        Arc::new(Self { c: Shared::new(c), nic, events, started, command, identity })
    }

    /// Starts the NIC's own progress: from now on a peer may wait for an answer.
    pub(crate) fn start(&self) {
        if !self.started.swap(true, Ordering::Relaxed) {
            self.nic.start();
        }
    }

    /// The entry of the port's GID table.
    pub(crate) fn gid(&self, index: u8) -> Option<GidEntry> {
        self.nic.device().gids.iter().find(|entry| entry.index == index).copied()
    }
}

/// A context's operations. What is NULL is not offered: the header's functions then fail with
/// `EOPNOTSUPP` by themselves, but for those that are called unchecked.
fn operations() -> verbs_context {
    let mut c = verbs_context::zeroed();
    c.sz = size_of::<verbs_context>();
    c.context.abi_compat = ptr::without_provenance_mut(usize::MAX);
    c.context.num_comp_vectors = 1;
    c.context.ops = ibv_context_ops {
        alloc_mw: Some(mw::alloc_mw),
        bind_mw: Some(mw::bind_mw),
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
    c.query_rt_values = Some(query_rt_values);
    c.create_cq_ex = Some(cq_ex::create_cq_ex);
    c.query_device_ex = Some(query_device_ex);
    c.open_qp = Some(qp::open_qp);
    c.create_qp_ex = Some(qp::create_qp_ex);
    c.get_srq_num = Some(srq::get_srq_num);
    c.create_srq_ex = Some(srq::create_srq_ex);
    c.open_xrcd = Some(xrcd::open_xrcd);
    c.close_xrcd = Some(xrcd::close_xrcd);
    c
}

/// Opens a device: its sockets are bound from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let device = registry::find::<Device>(device);
    pointer(device.and_then(|device| Context::open(&device)).map(registry::insert))
}

/// Opens, once more, the device whose `cmd_fd` was duplicated to `cmd_fd`, which belongs to the new
/// context from now on. An engine lives in its process: what another process has sent is
/// `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    let context = Identity::of(cmd_fd).and_then(|identity| {
        let (original, taken) = registry::with(|live| {
            let its = live.contexts.values().filter(|context| context.identity == identity);
            let taken = its.clone().any(|context| context.command.as_raw_fd() == cmd_fd);
            (its.clone().next().cloned(), taken)
        });
        // Two owners would close it twice.
        if taken {
            return Err(Errno::INVALID);
        }
        let original = original.ok_or(Errno::UNSUPPORTED)?;
        // SAFETY: the caller gives away a descriptor that is open, as was just seen.
        original.beside(unsafe { OwnedFd::from_raw_fd(cmd_fd) })
    });
    pointer(context.map(registry::insert))
}

/// Closes a device. What the program has not destroyed goes with it, as the kernel does it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    status(registry::find::<Context>(context).map(|context| {
        registry::remove(&*context);
        registry::remove_all::<Qp>(&context);
        registry::remove_all::<Srq>(&context);
        registry::remove_all::<Xrcd>(&context);
        registry::remove_all::<Cq>(&context);
        registry::remove_all::<Channel>(&context);
        registry::remove_all::<Mw>(&context);
        registry::remove_all::<Mr>(&context);
        registry::remove_all::<Dm>(&context);
        registry::remove_all::<Ah>(&context);
        registry::remove_all::<Pd>(&context);
        registry::remove_all::<Td>(&context);
    }))
}

/// What the device can hold, written to at most as much of the structure as the caller has.
fn attributes(context: &Context) -> ibv_device_attr {
    let device = context.nic.device();
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    let rd_atomic = c_int::from(limits::RD_ATOMIC_MAX);
    let [groups, group_qps] = [limits::MULTICAST_GROUPS_MAX, limits::MULTICAST_QPS_MAX]
        .map(|bound| c_int::try_from(bound).unwrap_or(c_int::MAX));
    let mut attr = ibv_device_attr {
        node_guid: device.guid.to_be(),
        sys_image_guid: device.guid.to_be(),
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_f000,
        vendor_id: VENDOR_ID,
        vendor_part_id: 0,
        hw_ver: 0,
        max_qp: int(limits::QPS_MAX),
        max_qp_wr: int(limits::WR_MAX),
        device_cap_flags: abi::IBV_DEVICE_BAD_QKEY_CNTR
            | abi::IBV_DEVICE_CURR_QP_STATE_MOD
            | abi::IBV_DEVICE_SYS_IMAGE_GUID
            | abi::IBV_DEVICE_RC_RNR_NAK_GEN
            | abi::IBV_DEVICE_SRQ_RESIZE
            | abi::IBV_DEVICE_N_NOTIFY_CQ
            | abi::IBV_DEVICE_MEM_WINDOW
            | abi::IBV_DEVICE_XRC
            | abi::IBV_DEVICE_MEM_MGT_EXTENSIONS
            | abi::IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        max_sge: int(limits::SGE_MAX),
        max_sge_rd: int(limits::SGE_MAX),
        max_cq: int(limits::CQS_MAX),
        max_cqe: int(limits::CQE_MAX),
        max_mr: int(limits::REGIONS_MAX),
        max_mw: int(limits::REGIONS_MAX),
        max_pd: int(limits::PDS_MAX),
        max_qp_rd_atom: rd_atomic,
        max_res_rd_atom: rd_atomic * int(limits::QPS_MAX),
        max_qp_init_rd_atom: rd_atomic,
        atomic_cap: abi::IBV_ATOMIC_HCA,
        max_mcast_grp: groups,
        max_mcast_qp_attach: group_qps,
        max_total_mcast_qp_attach: groups * group_qps,
        max_ah: int(limits::QPS_MAX),
        max_srq: int(limits::SRQS_MAX),
        max_srq_wr: int(limits::SRQ_WR_MAX),
        max_srq_sge: int(limits::SGE_MAX),
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..ibv_device_attr::zeroed()
    };
    copy_text(&mut attr.fw_ver, env!("CARGO_PKG_VERSION"));
    attr
}

/// On-demand paging is what a processor does anyway.
fn on_demand_paging() -> ibv_odp_caps {
    let datagrams =
        abi::IBV_ODP_SUPPORT_SEND | abi::IBV_ODP_SUPPORT_RECV | abi::IBV_ODP_SUPPORT_SRQ_RECV;
    let unreliable = datagrams | abi::IBV_ODP_SUPPORT_WRITE;
    ibv_odp_caps {
        general_caps: abi::IBV_ODP_SUPPORT | abi::IBV_ODP_SUPPORT_IMPLICIT,
        rc_odp_caps: unreliable | abi::IBV_ODP_SUPPORT_READ | abi::IBV_ODP_SUPPORT_ATOMIC,
        uc_odp_caps: unreliable,
        ud_odp_caps: datagrams,
    }
}

/// The device's attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    device_attr: *mut ibv_device_attr,
) -> c_int {
    status(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a writable structure.
        let target = unsafe { device_attr.as_mut() }.ok_or(Errno::INVALID)?;
        *target = attributes(&context);
        Ok(())
    }))
}

/// `ibv_query_device_ex`.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
) -> c_int {
    status(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes NULL or a readable structure.
        let comp_mask = unsafe { input.as_ref() }.map_or(0, |input| input.comp_mask);
        if comp_mask != 0 || attr.is_null() || attr_size < size_of::<ibv_device_attr>() {
            return Err(Errno::INVALID);
        }
        let mut full = ibv_device_attr_ex::zeroed();
        full.orig_attr = attributes(&context);
        full.odp_caps = on_demand_paging();
        full.completion_timestamp_mask = u64::MAX;
        full.hca_core_clock = CLOCK_KHZ;
        full.max_dm_size = softnic::limits::DEVICE_MEMORY_BYTES;
        full.xrc_odp_caps = full.odp_caps.rc_odp_caps;
        full.device_cap_flags_ex = u64::from(full.orig_attr.device_cap_flags);
        full.phys_port_cnt_ex = u32::from(full.orig_attr.phys_port_cnt);
        // SAFETY: C passes `attr_size` writable bytes.
        unsafe { copy_sized(&full, attr.cast(), attr_size) };
        Ok(())
    }))
}

/// Copies a structure to a caller that may know a shorter or a longer one; what it knows and we
/// do not becomes zero.
///
/// # Safety
/// `target` has `size` writable bytes.
pub(crate) unsafe fn copy_sized<T: Plain>(source: &T, target: *mut c_void, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: both ranges are within what the caller and the reference vouch for.
    unsafe {
        ptr::write_bytes(target.cast::<u8>().add(known), 0, size - known);
        ptr::copy_nonoverlapping(ptr::from_ref(source).cast::<u8>(), target.cast(), known);
    }
}

/// `ibv_query_rt_values_ex`: the device's clock, by which completions are stamped. As with hardware,
/// all of its ticks are in the nanoseconds, which are then more than a second's.
unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    status(registry::find::<Context>(context).and_then(|_| {
        // SAFETY: C passes a writable structure.
        let values = unsafe { values.as_mut() }.ok_or(Errno::INVALID)?;
        if values.comp_mask & !abi::IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno::INVALID);
        }
        if values.comp_mask != 0 {
            let now = cq_ex::ticks(softnic::clock::now());
            values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec: now.cast_signed() };
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_caller_gets_no_more_than_it_has_room_for() {
        let mut full = ibv_device_attr::zeroed();
        full.max_qp = 7;
        let mut room = [0xff_u8; 400];
        // SAFETY: the array has that many bytes.
        unsafe { copy_sized(&full, room.as_mut_ptr().cast(), 300) };
        assert_eq!(room[size_of::<ibv_device_attr>()..300], [0; 300 - 232]);
        assert_eq!(room[300..], [0xff; 100]);
    }

    #[test]
    fn the_context_says_that_it_is_extended() {
        let c = operations();
        assert_eq!(c.context.abi_compat.addr(), usize::MAX);
        assert_eq!(c.sz, size_of::<verbs_context>());
        assert!(c.close_xrcd.is_some(), "the header calls it unchecked");
    }
}
