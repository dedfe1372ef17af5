//! Contexts, which are open devices, and their attributes: `ibv_query_device`.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rdma::Time;
use softnic::{GidEntry, Nic};
use transport::limits;

use crate::descriptor::{self, Identity};
use crate::device::{Device, copy_text};
use crate::errno::{Errno, status};
use crate::registry::{self, Object, Shared, Table};
use crate::sink::Events;
use abi::{
    self, Plain, ibv_context, ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_odp_caps,
    ibv_query_device_ex_input, ibv_values_ex, verbs_context,
};

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
    /// Who has opened it: the engine runs there alone.
    process: u32,
    /// C's `cmd_fd`, and the identity of its file, which duplicates share.
    pub(crate) command: OwnedFd,
    pub(crate) identity: Identity,
}

impl Object for Context {
    type C = ibv_context;

    fn table() -> &'static Table<Self> {
        static LIVE: Table<Context> = Table::new();
        &LIVE
    }

    fn c(&self) -> *mut ibv_context {
        // SAFETY: the field of a structure that we own.
        unsafe { &raw mut (*self.c.get()).context }
    }
}

impl Context {
    /// Opens a device. `c` holds the context's operations.
    pub(crate) fn open(device: &Device, c: verbs_context) -> Result<Arc<Self>, Errno> {
        let events = Events::new()?;
        let (token, identity) = descriptor::token()?;
        let nic = Nic::open(&device.info, Box::new(events.sink())).map_err(|error| {
            crate::log::complain(&error);
            Errno::from(&error)
        })?;
        Ok(Self::new(c, device.c(), Arc::new(nic), events, (token, identity)))
    }

    /// Another context of the same NIC, which owns `command` from now on.
    pub(crate) fn beside(&self, c: verbs_context, command: OwnedFd) -> Result<Arc<Self>, Errno> {
        self.check_process()?;
        let events = self.events.beside()?;
        // SAFETY: the field was written before C had the pointer, and never is again.
        let device = unsafe { (*self.c()).device };
        Ok(Self::new(c, device, Arc::clone(&self.nic), events, (command, self.identity)))
    }

    fn new(
        mut c: verbs_context,
        device: *mut ibv_device,
        nic: Arc<Nic>,
        events: Events,
        (command, identity): (OwnedFd, Identity),
    ) -> Arc<Self> {
        c.context.device = device;
        c.context.async_fd = events.queue.fd();
        // There is no command channel, but a descriptor by which the device is known again.
        c.context.cmd_fd = command.as_raw_fd();
        let (events, started) = (Arc::new(events), AtomicBool::new(false));
        let (c, process) = (Shared::new(c), std::process::id());
        Arc::new(Self { c, nic, events, started, process, command, identity })
    }

    /// Fails in a forked child of who has opened it: what needs the engine would be waited for in vain.
    pub(crate) fn check_process(&self) -> Result<(), Errno> {
        if self.process == std::process::id() { Ok(()) } else { Err(Errno::of_child()) }
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

/// What belongs to a context and ends with it.
pub(crate) trait Owned: Object {
    /// Whose it is.
    fn context(&self) -> &Arc<Context>;
}

/// Makes a type whose context is in the field `$context` an [`Object`] that is [`Owned`].
macro_rules! owned {
    ($($context:ident).+, $object:ident $($of_object:tt)*) => {
        $crate::registry::object!($object $($of_object)*);

        impl $crate::context::Owned for $object {
            fn context(&self) -> &Arc<Context> {
                &self.$($context).+
            }
        }
    };
}
pub(crate) use owned;

/// Writes the device's limits, to at most as much of the structure as the caller has.
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
        // An address handle is memory of the program, and as many as it has room for can be made.
        max_ah: c_int::MAX,
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

/// On-demand paging is what a processor does anyway. For XRC there is a word of its own, behind.
fn on_demand_paging() -> (ibv_odp_caps, u32) {
    let datagrams =
        abi::IBV_ODP_SUPPORT_SEND | abi::IBV_ODP_SUPPORT_RECV | abi::IBV_ODP_SUPPORT_SRQ_RECV;
    let unreliable = datagrams | abi::IBV_ODP_SUPPORT_WRITE;
    let extended = unreliable | abi::IBV_ODP_SUPPORT_READ | abi::IBV_ODP_SUPPORT_ATOMIC;
    let caps = ibv_odp_caps {
        general_caps: abi::IBV_ODP_SUPPORT | abi::IBV_ODP_SUPPORT_IMPLICIT,
        rc_odp_caps: extended | abi::IBV_ODP_SUPPORT_ATOMIC_WRITE,
        uc_odp_caps: unreliable,
        ud_odp_caps: datagrams,
    };
    (caps, extended)
}

/// The device's attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    device_attr: *mut ibv_device_attr,
) -> c_int {
    status!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a writable structure.
        let target = unsafe { device_attr.as_mut() }.ok_or(Errno::NULL)?;
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
    status!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes NULL or a readable structure.
        let comp_mask = unsafe { input.as_ref() }.map_or(0, |input| input.comp_mask);
        if comp_mask != 0 || attr.is_null() || attr_size < size_of::<ibv_device_attr>() {
            return Err(Errno::invalid(
                "comp_mask is not 0, or the structure is too short for an ibv_device_attr",
            ));
        }
        let mut full = ibv_device_attr_ex::zeroed();
        full.orig_attr = attributes(&context);
        (full.odp_caps, full.xrc_odp_caps) = on_demand_paging();
        full.completion_timestamp_mask = u64::MAX;
        full.hca_core_clock = CLOCK_KHZ;
        full.max_dm_size = softnic::limits::DEVICE_MEMORY_BYTES;
        full.device_cap_flags_ex = u64::from(full.orig_attr.device_cap_flags);
        full.phys_port_cnt_ex = u32::from(full.orig_attr.phys_port_cnt);
        // SAFETY: C passes `attr_size` writable bytes.
        unsafe { copy_sized(&full, attr.cast(), attr_size) };
        Ok(())
    }))
}

/// Copies a structure to a caller whose version may be shorter or longer; fields that only the caller
/// has become zero.
///
/// # Safety
/// `target` has `size` writable bytes.
pub(crate) unsafe fn copy_sized<T: Plain>(source: &T, target: *mut c_void, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: the caller vouches for one range, the reference for the other.
    unsafe {
        ptr::write_bytes(target.cast::<u8>().add(known), 0, size - known);
        ptr::copy_nonoverlapping(ptr::from_ref(source).cast::<u8>(), target.cast(), known);
    }
}

/// The device's clock as programs see it: nanoseconds, see [`CLOCK_KHZ`].
pub(crate) fn ticks(time: Time) -> u64 {
    time.as_ns()
}

/// `ibv_query_rt_values_ex`: the device's clock, by which completions are stamped. As with hardware,
/// all of its ticks are in the nanoseconds, which are then more than a second's.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    status!(registry::find::<Context>(context).and_then(|_| {
        // SAFETY: C passes a writable structure.
        let values = unsafe { values.as_mut() }.ok_or(Errno::NULL)?;
        if values.comp_mask & !abi::IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno::invalid("comp_mask has bits that are not known"));
        }
        if values.comp_mask != 0 {
            let now = ticks(softnic::clock::now());
            values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec: now.cast_signed() };
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::extended::functions;
    use rdma::QpType;

    #[test]
    fn on_demand_paging_is_offered_for_the_requests_that_a_queue_pair_posts() {
        let (caps, xrc) = on_demand_paging();
        let bits = [
            (abi::IBV_ODP_SUPPORT_SEND, abi::IBV_QP_EX_WITH_SEND),
            (abi::IBV_ODP_SUPPORT_WRITE, abi::IBV_QP_EX_WITH_RDMA_WRITE),
            (abi::IBV_ODP_SUPPORT_READ, abi::IBV_QP_EX_WITH_RDMA_READ),
            (abi::IBV_ODP_SUPPORT_ATOMIC, abi::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD),
            (abi::IBV_ODP_SUPPORT_ATOMIC_WRITE, abi::IBV_QP_EX_WITH_ATOMIC_WRITE),
        ];
        for (kind, offered) in [
            (QpType::Rc, caps.rc_odp_caps),
            (QpType::Uc, caps.uc_odp_caps),
            (QpType::Ud, caps.ud_odp_caps),
            (QpType::XrcInitiator, xrc),
        ] {
            for (bit, request) in bits {
                let is_posted = functions(kind, request).is_ok();
                assert_eq!(offered & bit != 0, is_posted, "{kind:?}, bit {bit:#x}");
            }
        }
    }

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
}
