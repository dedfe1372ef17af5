//! What the man pages promise of calls that go wrong, over a real device on loopback.

#![allow(unsafe_code, reason = "a C ABI is called")]

use core::ffi::c_int;
use core::ptr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use abi::{
    self, Plain, ibv_ah_attr, ibv_context, ibv_cq, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr,
    ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc,
    verbs_context,
};
use ibverbs::ah::ibv_create_ah;
use ibverbs::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel, ibv_get_cq_event};
use ibverbs::cq::{ibv_create_cq, ibv_destroy_cq, ibv_resize_cq};
use ibverbs::device::{ibv_free_device_list, ibv_get_device_list};
use ibverbs::memory::mr::{ibv_dereg_mr, ibv_reg_mr};
use ibverbs::open::{ibv_close_device, ibv_open_device};
use ibverbs::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use ibverbs::port::{ibv_query_gid, ibv_query_pkey, ibv_query_port};
use ibverbs::qp::create::{ibv_create_qp, ibv_qp_to_qp_ex};
use ibverbs::qp::object::{ibv_destroy_qp, ibv_modify_qp, ibv_query_qp};

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Whoever names what is gone has no other test beside it, whose new objects may be where those were.
static ALONE: RwLock<()> = RwLock::new(());

/// An open device with a protection domain and a completion queue.
struct Fixture {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    beside_others: Option<RwLockReadGuard<'static, ()>>,
}

impl Fixture {
    fn new() -> Self {
        let guard = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        let mut fixture = Self::open();
        fixture.beside_others = Some(guard);
        fixture
    }

    fn open() -> Self {
        // SAFETY: calls as a C program makes them.
        unsafe {
            let mut count = 0;
            let list = ibv_get_device_list(&raw mut count);
            assert!(!list.is_null() && count == 1, "one device without FERROCE_DEV");
            let context = ibv_open_device(*list);
            assert!(!context.is_null());
            ibv_free_device_list(list);
            let pd = ibv_alloc_pd(context);
            let cq = ibv_create_cq(context, 4, ptr::null_mut(), ptr::null_mut(), 0);
            assert!(!pd.is_null() && !cq.is_null());
            Self { context, pd, cq, beside_others: None }
        }
    }

    fn init_attr(&self) -> ibv_qp_init_attr {
        ibv_qp_init_attr {
            send_cq: self.cq,
            recv_cq: self.cq,
            cap: ibv_qp_cap {
                max_send_wr: 2,
                max_recv_wr: 2,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 16,
            },
            qp_type: abi::IBV_QPT_RC,
            ..ibv_qp_init_attr::zeroed()
        }
    }

    fn qp(&self) -> *mut ibv_qp {
        let mut init = self.init_attr();
        // SAFETY: live objects of one device.
        let qp = unsafe { ibv_create_qp(self.pd, &raw mut init) };
        assert!(!qp.is_null());
        assert!(init.cap.max_send_wr >= 2 && init.cap.max_inline_data >= 16);
        qp
    }

    /// Moves a queue pair to INIT, where receives can be posted.
    fn to_init(&self, qp: *mut ibv_qp) {
        let mut attr = ibv_qp_attr { qp_state: 1, port_num: 1, ..ibv_qp_attr::zeroed() };
        let mask = 1 | 1 << 3 | 1 << 4 | 1 << 5;
        // SAFETY: a live queue pair.
        assert_eq!(unsafe { ibv_modify_qp(qp, &raw mut attr, mask) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { (*qp).state }, 1, "qp->state follows");
    }

    /// The extended context, as the header's inline functions find it.
    fn extended(&self) -> &verbs_context {
        let offset = core::mem::offset_of!(verbs_context, context);
        // SAFETY: the context is the last field of an extended one.
        unsafe { &*self.context.byte_sub(offset).cast() }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // SAFETY: the fixture's own objects, still alive.
        let results = unsafe {
            [ibv_destroy_cq(self.cq), ibv_dealloc_pd(self.pd), ibv_close_device(self.context)]
        };
        if !std::thread::panicking() {
            assert_eq!(results, [0, 0, 0]);
        }
    }
}

#[test]
fn memory_that_cannot_be_written_is_registered_for_reading_alone() {
    const PAGE: usize = 4096;
    let it = Fixture::new();
    // SAFETY: calls as a C program makes them, on pages of our own.
    unsafe {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(ptr::null_mut(), 3 * PAGE, libc::PROT_READ, private, -1, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        let writable = |index: usize| {
            let page = pages.byte_add(index * PAGE);
            assert_eq!(libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
        };
        let register = |access| {
            let mr = ibv_reg_mr(it.pd, pages, 3 * PAGE, access);
            let errno = errno();
            if mr.is_null() { errno } else { ibv_dereg_mr(mr) }
        };
        // LOCAL_WRITE is 1, and REMOTE_READ 4.
        assert_eq!([0, 4, 1].map(register), [0, 0, libc::EFAULT]);
        writable(0);
        assert_eq!(register(1), libc::EFAULT, "the last page");
        writable(2);
        writable(1);
        assert_eq!(register(1), 0);
        assert_eq!(libc::munmap(pages, 3 * PAGE), 0);
    }
}

#[test]
fn what_is_in_use_is_busy_and_what_is_gone_is_invalid() {
    let it = Fixture::new();
    let qp = it.qp();
    let mut buffer = [0_u8; 64];
    // SAFETY: live objects, until they are destroyed; then their handles are only looked up.
    unsafe {
        let mr = ibv_reg_mr(it.pd, buffer.as_mut_ptr().cast(), buffer.len(), 1);
        assert!(!mr.is_null());
        assert_eq!(ibv_destroy_cq(it.cq), libc::EBUSY);
        assert_eq!(ibv_dealloc_pd(it.pd), libc::EBUSY);
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_qp(qp)), (0, libc::EINVAL));
        assert_eq!((ibv_dereg_mr(mr), ibv_dereg_mr(mr)), (0, libc::EINVAL));
    }
}

#[test]
fn a_channel_is_busy_while_a_queue_uses_it_and_does_not_block_when_told() {
    let it = Fixture::new();
    // SAFETY: live objects and writable pointers.
    unsafe {
        let channel = ibv_create_comp_channel(it.context);
        let cq = ibv_create_cq(it.context, 1, ptr::null_mut(), channel, 0);
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
        assert_eq!(libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
        let (mut from, mut context) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(ibv_get_cq_event(channel, &raw mut from, &raw mut context), -1);
        assert_eq!(errno(), libc::EAGAIN);
        assert_eq!((ibv_destroy_cq(cq), ibv_destroy_comp_channel(channel)), (0, 0));
    }
}

#[test]
fn sizes_that_are_none_are_refused() {
    let it = Fixture::new();
    // SAFETY: live objects; what is wrong is checked.
    unsafe {
        let create = |cqe, vector| {
            let cq = ibv_create_cq(it.context, cqe, ptr::null_mut(), ptr::null_mut(), vector);
            (cq.is_null(), errno())
        };
        assert_eq!(create(0, 0), (true, libc::EINVAL));
        assert_eq!(create(-1, 0), (true, libc::EINVAL));
        assert_eq!(create(1, 1), (true, libc::EINVAL));
        assert_eq!(ibv_resize_cq(it.cq, 0), libc::EINVAL);
        assert!(ibv_reg_mr(it.pd, ptr::null_mut(), 4096, 1).is_null());
        assert_eq!(errno(), libc::EFAULT);
        let mut buffer = [0_u8; 8];
        assert!(ibv_reg_mr(it.pd, buffer.as_mut_ptr().cast(), 8, 1 << 1).is_null());
        assert_eq!(errno(), libc::EINVAL, "remote write needs local write");
    }
}

#[test]
fn queue_pairs_that_are_not_offered_are_not_supported() {
    let it = Fixture::new();
    let mut init = it.init_attr();
    init.qp_type = abi::IBV_QPT_RAW_PACKET;
    let create_ex = it.extended().create_qp_ex.unwrap();
    let mut extended = ibv_qp_init_attr_ex::zeroed();
    extended.comp_mask = 1 << 20;
    // SAFETY: live objects; what is wrong is checked.
    unsafe {
        assert!(ibv_create_qp(it.pd, &raw mut init).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
        init.qp_type = abi::IBV_QPT_RC;
        init.send_cq = ptr::null_mut();
        assert!(ibv_create_qp(it.pd, &raw mut init).is_null());
        assert_eq!(errno(), libc::EINVAL);
        assert!(create_ex(it.context, &raw mut extended).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
        let qp = it.qp();
        assert!(ibv_qp_to_qp_ex(qp).is_null(), "it was not made for ibv_wr_*");
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
}

#[test]
fn the_request_that_cannot_be_posted_is_named() {
    let it = Fixture::new();
    let qp = it.qp();
    // SAFETY: a live context.
    let ops = unsafe { (*it.context).ops };
    let (post_send, post_recv) = (ops.post_send.unwrap(), ops.post_recv.unwrap());
    let mut recv = [ibv_recv_wr::zeroed(); 3];
    for at in 0..2 {
        recv[at].next = &raw mut recv[at + 1];
    }
    let first = &raw mut recv[0];
    let mut bad = ptr::null_mut();
    // SAFETY: a live queue pair, and lists that end with NULL.
    unsafe {
        assert_eq!(post_recv(qp, first, &raw mut bad), libc::EINVAL, "in RESET");
        assert_eq!(bad, first);
        it.to_init(qp);
        let mut sges = [ibv_sge { addr: 0, length: 0, lkey: 0 }; 2];
        let mut wide = ibv_recv_wr::zeroed();
        (wide.sg_list, wide.num_sge) = (sges.as_mut_ptr(), 2);
        assert_eq!(post_recv(qp, &raw mut wide, &raw mut bad), libc::EINVAL, "two pieces");
        assert_eq!(post_recv(qp, first, &raw mut bad), libc::ENOMEM, "room for two");
        assert_eq!(bad, first.add(2));

        let mut send = ibv_send_wr::zeroed();
        send.opcode = abi::IBV_WR_SEND;
        let mut bad = ptr::null_mut();
        assert_eq!(post_send(qp, &raw mut send, &raw mut bad), libc::EINVAL, "in INIT");
        assert_eq!(bad, &raw mut send);
        assert_eq!(post_send(ptr::null_mut(), &raw mut send, &raw mut bad), libc::EINVAL);
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
}

#[test]
fn a_transition_must_be_one_and_complete() {
    let it = Fixture::new();
    let qp = it.qp();
    let (mut attr, mut init) = (ibv_qp_attr::zeroed(), ibv_qp_init_attr::zeroed());
    // SAFETY: a live queue pair.
    unsafe {
        attr.qp_state = 3;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, 1), libc::EINVAL, "RESET to RTS");
        attr.qp_state = 1;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, 1), libc::EINVAL, "INIT needs more");
        attr.qp_state = 7;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, 1), libc::EINVAL, "no such state");
        assert_eq!(ibv_modify_qp(qp, ptr::null_mut(), 1), libc::EINVAL);
        it.to_init(qp);
        assert_eq!(ibv_query_qp(qp, &raw mut attr, 0, &raw mut init), 0);
        assert_eq!((attr.qp_state, attr.port_num), (1, 1));
        assert_eq!((init.send_cq, init.qp_type), (it.cq, abi::IBV_QPT_RC));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
}

#[test]
fn the_port_answers_within_its_tables_and_the_callers_structure() {
    let it = Fixture::new();
    let query_port = it.extended().query_port.unwrap();
    let mut attr = [0xff_u8; size_of::<ibv_port_attr>() + 8];
    let mut gid = abi::ibv_gid { raw: [0; 16] };
    let mut pkey = 0;
    // SAFETY: a live context, and writable structures of the sizes that are told.
    unsafe {
        assert_eq!(ibv_query_port(it.context, 1, attr.as_mut_ptr().cast()), 0);
        assert!(attr[abi::COMPAT_PORT_ATTR_BYTES..].iter().all(|byte| *byte == 0xff));
        assert_eq!(query_port(it.context, 1, attr.as_mut_ptr().cast(), 56), 0);
        assert_eq!(attr[56..], [0xff; 4]);
        assert_eq!(ibv_query_port(it.context, 2, attr.as_mut_ptr().cast()), libc::EINVAL);
        assert_eq!(ibv_query_gid(it.context, 1, 1, &raw mut gid), 0);
        assert_eq!(gid.raw[10..12], [0xff, 0xff], "the IPv4 address is entry 1");
        assert_eq!(ibv_query_gid(it.context, 1, 99, &raw mut gid), -1);
        assert_eq!(ibv_query_gid(it.context, 1, -1, &raw mut gid), -1);
        assert_eq!(ibv_query_pkey(it.context, 1, 0, &raw mut pkey), 0);
        assert_eq!((pkey, ibv_query_pkey(it.context, 1, 1, &raw mut pkey)), (0xffff, -1));
    }
}

#[test]
fn a_path_without_a_gid_leads_nowhere() {
    let it = Fixture::new();
    let mut attr = ibv_ah_attr::zeroed();
    attr.port_num = 1;
    // SAFETY: a live domain.
    unsafe {
        assert!(ibv_create_ah(it.pd, &raw mut attr).is_null());
        assert_eq!(errno(), libc::EINVAL);
        attr.is_global = 1;
        attr.grh.sgid_index = 99;
        assert!(ibv_create_ah(it.pd, &raw mut attr).is_null());
    }
}

#[test]
fn closing_a_device_takes_everything_with_it() {
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    let it = core::mem::ManuallyDrop::new(Fixture::open());
    let qp = it.qp();
    // SAFETY: afterwards the handles are only looked up.
    unsafe {
        assert_eq!(ibv_close_device(it.context), 0);
        assert_eq!(ibv_destroy_qp(qp), libc::EINVAL);
        assert_eq!(ibv_destroy_cq(it.cq), libc::EINVAL);
        assert_eq!(ibv_dealloc_pd(it.pd), libc::EINVAL);
        assert_eq!(ibv_close_device(it.context), libc::EINVAL);
    }
}

#[test]
fn an_empty_queue_has_nothing() {
    let it = Fixture::new();
    let mut wc = ibv_wc::zeroed();
    // SAFETY: a live queue, and room for what is asked.
    unsafe {
        let poll = (*it.context).ops.poll_cq.unwrap();
        assert_eq!(poll(it.cq, 1, &raw mut wc), 0);
        assert_eq!(poll(it.cq, 0, ptr::null_mut()), 0);
        assert_eq!(poll(it.cq, -1, ptr::null_mut()), 0);
    }
}
