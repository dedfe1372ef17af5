//! XRC: domains, queues with a number, targets with several handles.

use core::ptr;
use std::os::fd::AsRawFd;

use abi::{
    self, Plain, ibv_qp, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_send_wr, ibv_srq,
    ibv_srq_init_attr_ex, ibv_xrcd, ibv_xrcd_init_attr,
};
use ibverbs::cq::ibv_destroy_cq;
use ibverbs::qp::object::{ibv_destroy_qp, ibv_modify_qp};
use ibverbs::srq::ibv_destroy_srq;

use super::{Fixture, errno, extended, refused};

const KNOWN: u32 = abi::IBV_XRCD_INIT_ATTR_FD | abi::IBV_XRCD_INIT_ATTR_OFLAGS;

fn open_xrcd(it: &Fixture, fd: i32, oflags: i32) -> *mut ibv_xrcd {
    let mut attr = ibv_xrcd_init_attr { comp_mask: KNOWN, fd, oflags };
    // SAFETY: a live context.
    unsafe { extended(it.context).open_xrcd.unwrap()(it.context, &raw mut attr) }
}

fn close_xrcd(it: &Fixture, xrcd: *mut ibv_xrcd) -> i32 {
    // SAFETY: the handle is looked up.
    unsafe { extended(it.context).close_xrcd.unwrap()(xrcd) }
}

fn queue(it: &Fixture, xrcd: *mut ibv_xrcd, comp_mask: u32) -> *mut ibv_srq {
    let mut attr = ibv_srq_init_attr_ex {
        comp_mask,
        srq_type: abi::IBV_SRQT_XRC,
        pd: it.pd,
        xrcd,
        cq: it.cq,
        ..ibv_srq_init_attr_ex::zeroed()
    };
    (attr.attr.max_wr, attr.attr.max_sge) = (4, 1);
    // SAFETY: live objects.
    unsafe { extended(it.context).create_srq_ex.unwrap()(it.context, &raw mut attr) }
}

const OF_XRC: u32 = abi::IBV_SRQ_INIT_ATTR_TYPE
    | abi::IBV_SRQ_INIT_ATTR_PD
    | abi::IBV_SRQ_INIT_ATTR_XRCD
    | abi::IBV_SRQ_INIT_ATTR_CQ;

fn target(it: &Fixture, xrcd: *mut ibv_xrcd, comp_mask: u32) -> *mut ibv_qp {
    let mut attr = ibv_qp_init_attr_ex {
        comp_mask,
        qp_type: abi::IBV_QPT_XRC_RECV,
        xrcd,
        // SAFETY: a structure that is valid when it is all zeroes.
        ..unsafe { core::mem::zeroed() }
    };
    // SAFETY: live objects.
    unsafe { extended(it.context).create_qp_ex.unwrap()(it.context, &raw mut attr) }
}

fn open_qp(it: &Fixture, xrcd: *mut ibv_xrcd, qp_num: u32, qp_type: u32) -> *mut ibv_qp {
    let comp_mask =
        abi::IBV_QP_OPEN_ATTR_NUM | abi::IBV_QP_OPEN_ATTR_XRCD | abi::IBV_QP_OPEN_ATTR_TYPE;
    let mut attr =
        ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context: ptr::null_mut(), qp_type };
    // SAFETY: live objects.
    unsafe { extended(it.context).open_qp.unwrap()(it.context, &raw mut attr) }
}

#[test]
fn a_file_stands_for_one_domain() {
    let it = Fixture::new();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let fd = file.as_raw_fd();
    refused(open_xrcd(&it, fd, 0), libc::EAGAIN);
    let first = open_xrcd(&it, fd, libc::O_CREAT);
    let second = open_xrcd(&it, fd, 0);
    assert!(!first.is_null() && !second.is_null() && first != second);
    refused(open_xrcd(&it, fd, libc::O_CREAT | libc::O_EXCL), libc::EINVAL);
    // What is made through one handle is found through the other.
    let qp = target(&it, first, abi::IBV_QP_INIT_ATTR_XRCD);
    // SAFETY: a live queue pair.
    let number = unsafe { (*qp).qp_num };
    let again = open_qp(&it, second, number, abi::IBV_QPT_XRC_RECV);
    assert!(!again.is_null());
    assert_eq!((close_xrcd(&it, first), close_xrcd(&it, second)), (libc::EBUSY, libc::EBUSY));
    let anonymous = open_xrcd(&it, -1, libc::O_CREAT);
    refused(open_qp(&it, anonymous, number, abi::IBV_QPT_XRC_RECV), libc::EINVAL);
    // SAFETY: live queue pairs, then handles that are looked up.
    unsafe {
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_qp(qp)), (0, libc::EINVAL));
        // The other handle still works.
        let mut attr = abi::ibv_qp_attr { qp_state: 1, port_num: 1, ..Plain::zeroed() };
        assert_eq!(ibv_modify_qp(again, &raw mut attr, 1 | 1 << 3 | 1 << 4 | 1 << 5), 0);
        assert_eq!(ibv_destroy_qp(again), 0);
    }
    refused(open_qp(&it, second, number, abi::IBV_QPT_XRC_RECV), libc::EINVAL);
    for xrcd in [first, second, anonymous] {
        assert_eq!((close_xrcd(&it, xrcd), close_xrcd(&it, xrcd)), (0, libc::EINVAL));
    }
    refused(open_xrcd(&it, fd, 0), libc::EAGAIN);
}

#[test]
fn what_is_wrong_with_a_domain_is_said() {
    let it = Fixture::new();
    refused(open_xrcd(&it, 1 << 20, libc::O_CREAT), libc::EBADF);
    refused(open_xrcd(&it, -1, 1 << 30), libc::EINVAL);
    let open = extended(it.context).open_xrcd.unwrap();
    for (comp_mask, expected) in [(1, libc::EINVAL), (KNOWN | 4, libc::EOPNOTSUPP)] {
        let mut attr = ibv_xrcd_init_attr { comp_mask, fd: -1, oflags: libc::O_CREAT };
        // SAFETY: a live context.
        refused(unsafe { open(it.context, &raw mut attr) }, expected);
    }
    // SAFETY: NULL is checked for.
    refused(unsafe { open(it.context, ptr::null_mut()) }, libc::EINVAL);
    assert_eq!(close_xrcd(&it, ptr::null_mut()), libc::EINVAL);
}

#[test]
fn a_queue_of_xrc_has_a_number_and_keeps_what_it_needs() {
    let it = Fixture::new();
    let xrcd = open_xrcd(&it, -1, libc::O_CREAT);
    let number_of = extended(it.context).get_srq_num.unwrap();
    let (first, second) = (queue(&it, xrcd, OF_XRC), queue(&it, xrcd, OF_XRC));
    let mut numbers = [0, 0];
    // SAFETY: live queues, then handles that are looked up.
    unsafe {
        assert_eq!(number_of(first, &raw mut numbers[0]), 0);
        assert_eq!(number_of(second, &raw mut numbers[1]), 0);
        assert!(numbers[0] != 0 && numbers[1] != 0 && numbers[0] != numbers[1]);
        assert_eq!(number_of(first, ptr::null_mut()), libc::EINVAL);
        assert_eq!(ibv_destroy_cq(it.cq), libc::EBUSY);
        assert_eq!(close_xrcd(&it, xrcd), libc::EBUSY);
        assert_eq!((ibv_destroy_srq(first), ibv_destroy_srq(second)), (0, 0));
        assert_eq!(number_of(first, &raw mut numbers[0]), libc::EINVAL);
    }
    refused(queue(&it, ptr::null_mut(), OF_XRC), libc::EINVAL);
    refused(queue(&it, xrcd, OF_XRC & !abi::IBV_SRQ_INIT_ATTR_CQ), libc::EINVAL);
    refused(queue(&it, xrcd, OF_XRC | 1 << 4), libc::EOPNOTSUPP);
    assert_eq!(close_xrcd(&it, xrcd), 0);
}

#[test]
fn each_half_takes_what_it_is_made_for() {
    let it = Fixture::new();
    let xrcd = open_xrcd(&it, -1, libc::O_CREAT);
    refused(target(&it, xrcd, abi::IBV_QP_INIT_ATTR_PD), libc::EINVAL);
    refused(target(&it, ptr::null_mut(), abi::IBV_QP_INIT_ATTR_XRCD), libc::EINVAL);
    let qp = target(&it, xrcd, abi::IBV_QP_INIT_ATTR_XRCD);
    // SAFETY: a live queue pair.
    let number = unsafe { (*qp).qp_num };
    refused(open_qp(&it, xrcd, number, abi::IBV_QPT_RC), libc::EINVAL);
    refused(open_qp(&it, xrcd, number + 1, abi::IBV_QPT_XRC_RECV), libc::EINVAL);
    let mut wr = ibv_send_wr { opcode: abi::IBV_WR_SEND, ..ibv_send_wr::zeroed() };
    let mut bad = ptr::null_mut();
    // SAFETY: a live queue pair and a request of no data.
    unsafe {
        let post = (*it.context).ops.post_send.unwrap();
        assert_eq!(post(qp, &raw mut wr, &raw mut bad), libc::EINVAL);
        assert_eq!((bad, errno()), (&raw mut wr, libc::EINVAL));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    assert_eq!(close_xrcd(&it, xrcd), 0);
}
