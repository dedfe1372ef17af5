//! What programs ask of connections beside making them: options, queue pairs of their own, shared
//! receive queues, enhanced connection establishment, devices.

use core::ffi::{c_int, c_void};
use core::ptr;

use abi::{
    self, Plain, ibv_ece, ibv_qp_attr, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use ibverbs::rdmacm::abi::{event, rdma_cm_id, rdma_conn_param};
use ibverbs::rdmacm::connect::{
    ferroce_rdma_accept, ferroce_rdma_connect, ferroce_rdma_disconnect, ferroce_rdma_establish,
    ferroce_rdma_get_remote_ece, ferroce_rdma_init_qp_attr, ferroce_rdma_notify,
    ferroce_rdma_reject_ece, ferroce_rdma_set_local_ece,
};
use ibverbs::rdmacm::create::{ferroce_rdma_destroy_id, ferroce_rdma_migrate_id};
use ibverbs::rdmacm::options::ferroce_rdma_set_option;
use ibverbs::rdmacm::queue_pair::{
    ferroce_rdma_create_srq, ferroce_rdma_create_srq_ex, ferroce_rdma_destroy_qp,
    ferroce_rdma_destroy_srq,
};
use ibverbs::rdmacm::resolve::{ferroce_rdma_free_devices, ferroce_rdma_get_devices};
use ibverbs::rdmacm::told::{ferroce_rdma_ack_cm_event, ferroce_rdma_write_cm_event};

use crate::support::*;

/// Options of level `RDMA_OPTION_ID`.
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
/// `IBV_EVENT_COMM_EST`, and `IBV_EVENT_QP_FATAL`.
const COMM_EST: u32 = 4;
const QP_FATAL: u32 = 1;
/// "Vendor option is not supported" (IBTA vol 1, chapter 12).
const VENDOR_OPTION: c_int = 35;
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;

fn set<T>(id: *mut rdma_cm_id, option: c_int, mut value: T) -> Result<(), c_int> {
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: calls as a C program makes them.
    match unsafe { ferroce_rdma_set_option(id, 0, option, place, size_of::<T>()) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

#[test]
fn a_program_wakes_its_own_channel() {
    let side = Side::new(TCP);
    // SAFETY: a live id, then one that is looked up; the event is read before it is acknowledged.
    unsafe {
        let none = ptr::null_mut();
        assert_eq!(ferroce_rdma_write_cm_event(side.id, event::USER, -7, u64::MAX - 1), 0);
        let told = side.fetch();
        assert_eq!(((*told).event, (*told).status, (*told).id), (event::USER, -7, side.id));
        assert_eq!((*told).param.arg, u64::MAX - 1);
        assert_eq!(ferroce_rdma_ack_cm_event(told), 0);
        let others = ferroce_rdma_write_cm_event(side.id, event::ESTABLISHED, 0, 0);
        assert_eq!((others, errno()), (-1, libc::EINVAL), "only the library tells of peers");
        assert_eq!(
            (ferroce_rdma_write_cm_event(none, event::USER, 0, 0), errno()),
            (-1, libc::EINVAL)
        );
    }
}

/// What takes a queue pair to `state`, and which attributes those are.
fn way_to(id: *mut rdma_cm_id, state: u32) -> Result<(ibv_qp_attr, c_int), c_int> {
    let (mut attr, mut mask) = (ibv_qp_attr { qp_state: state, ..ibv_qp_attr::zeroed() }, 0);
    // SAFETY: as above.
    match unsafe { ferroce_rdma_init_qp_attr(id, &raw mut attr, &raw mut mask) } {
        0 => Ok((attr, mask)),
        _ => Err(errno()),
    }
}

/// A client whose queue pair the library does not know, called `qpn`, resolved and connecting.
fn client_of(port: u16, qpn: u32) -> Side {
    let side = Side::toward(port);
    // SAFETY: as above.
    unsafe { ferroce_rdma_destroy_qp(side.id) };
    let mut param = rdma_conn_param { qp_num: qpn, ..param(b"") };
    // SAFETY: as above.
    assert_eq!(unsafe { ferroce_rdma_connect(side.id, &raw mut param) }, 0);
    side
}

fn accept_with(id: *mut rdma_cm_id, qpn: u32) {
    let mut param = rdma_conn_param { qp_num: qpn, ..param(b"") };
    // SAFETY: as above.
    assert_eq!(unsafe { ferroce_rdma_accept(id, &raw mut param) }, 0);
}

fn destroy(id: *mut rdma_cm_id) {
    // SAFETY: as above.
    assert_eq!(unsafe { ferroce_rdma_destroy_id(id) }, 0);
}

#[test]
fn queue_pairs_of_the_programs_own_are_told_and_confirmed_by_it() {
    let (server, port) = Side::listening(TCP);
    let client = client_of(port, 0x111);
    assert_eq!(set(client.id, TOS, 0x68_u8), Ok(()));
    assert_eq!(set(client.id, ACK_TIMEOUT, 17_u8), Ok(()));
    assert_eq!(way_to(client.id, RTR).err(), Some(libc::EINVAL), "the peer is not known");
    let asked = server.fetch();
    // SAFETY: an event that is acknowledged afterwards.
    let (id, qpn) = unsafe { ((*asked).id, (*asked).param.conn.qp_num) };
    // SAFETY: as above.
    unsafe { ferroce_rdma_ack_cm_event(asked) };
    assert_eq!(qpn, 0x111);
    accept_with(id, 0x222);

    let told = client.fetch();
    // SAFETY: as above.
    let (kind, qpn) = unsafe { ((*told).event, (*told).param.conn.qp_num) };
    // SAFETY: as above.
    unsafe { ferroce_rdma_ack_cm_event(told) };
    assert_eq!((kind, qpn), (event::CONNECT_RESPONSE, 0x222));
    let (init, mask) = way_to(client.id, INIT).unwrap();
    assert_eq!((mask, init.port_num, init.pkey_index), (1 | 1 << 3 | 1 << 4 | 1 << 5, 1, 0));
    let (rtr, mask) = way_to(client.id, RTR).unwrap();
    assert_eq!(mask, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20);
    assert_eq!((rtr.dest_qp_num, rtr.ah_attr.grh.traffic_class), (0x222, 0x68));
    let (rts, mask) = way_to(client.id, RTS).unwrap();
    assert_eq!(mask, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16);
    assert_eq!((rts.timeout, rts.retry_cnt, rts.rnr_retry), (17, 7, 7));
    let (theirs, _) = way_to(id, RTS).unwrap();
    assert_eq!((rtr.rq_psn, rts.sq_psn), (theirs.sq_psn, way_to(id, RTR).unwrap().0.rq_psn));
    assert_eq!(way_to(client.id, 6).err(), Some(libc::EINVAL));

    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!(ferroce_rdma_establish(client.id), 0);
        assert_eq!(server.expect(event::ESTABLISHED).id, id);
        assert_eq!((ferroce_rdma_establish(client.id), errno()), (-1, libc::ENOTCONN));
        assert_eq!(ferroce_rdma_disconnect(id), 0);
    }
    client.expect(event::DISCONNECTED);
    destroy(id);
}

#[test]
fn a_packet_before_the_confirmation_is_one() {
    let (server, port) = Side::listening(TCP);
    let client = client_of(port, 0x111);
    let id = server.expect(event::CONNECT_REQUEST).id;
    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!((ferroce_rdma_notify(server.id, COMM_EST), errno()), (-1, libc::EINVAL));
        accept_with(id, 0x222);
        client.expect(event::CONNECT_RESPONSE);
        assert_eq!((ferroce_rdma_notify(id, QP_FATAL), errno()), (-1, libc::EINVAL));
        assert_eq!(ferroce_rdma_notify(id, COMM_EST), 0);
        assert_eq!(server.expect(event::ESTABLISHED).id, id);
        // The confirmation may have been faster: that is no mistake of the program.
        assert_eq!(ferroce_rdma_notify(id, COMM_EST), 0);
    }
    destroy(id);
}

#[test]
fn a_confirmation_is_the_programs_only_without_a_queue_pair() {
    let (_server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!((ferroce_rdma_establish(client.id), errno()), (-1, libc::EINVAL));
        ferroce_rdma_destroy_qp(client.id);
        assert_eq!((ferroce_rdma_establish(client.id), errno()), (-1, libc::EINVAL), "not asked");
    }
}

fn remote_ece(id: *mut rdma_cm_id) -> (u32, u32) {
    let mut ece = ibv_ece { vendor_id: 1, options: 1, comp_mask: 0 };
    // SAFETY: as above.
    assert_eq!(unsafe { ferroce_rdma_get_remote_ece(id, &raw mut ece) }, 0);
    (ece.vendor_id, ece.options)
}

fn set_ece(id: *mut rdma_cm_id, vendor_id: u32, options: u32) -> c_int {
    let mut ece = ibv_ece { vendor_id, options, comp_mask: 0 };
    // SAFETY: as above.
    unsafe { ferroce_rdma_set_local_ece(id, &raw mut ece) }
}

#[test]
fn options_of_enhanced_connection_establishment_reach_the_peer() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    assert_eq!(set_ece(client.id, 0x1234, 0x8000_0007), 0);
    assert_eq!(client.connect(b""), 0);
    let id = server.expect(event::CONNECT_REQUEST).id;
    assert_eq!((remote_ece(id), remote_ece(client.id)), ((0x1234, 0x8000_0007), (0, 0)));
    assert_eq!(set_ece(id, 0x1234, 3), 0);
    create_qp(id);
    // SAFETY: calls as a C program makes them.
    unsafe { assert_eq!(ferroce_rdma_accept(id, ptr::null_mut()), 0) };
    client.expect(event::ESTABLISHED);
    assert_eq!(remote_ece(client.id), (0x1234, 3));
    // SAFETY: as above.
    unsafe { ferroce_rdma_destroy_qp(id) };
    destroy(id);
}

#[test]
fn a_peer_without_options_has_zeros_and_others_may_be_refused() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    assert_eq!((set_ece(client.id, 0, 1), errno()), (-1, libc::EINVAL), "nobody's options");
    client.connect(b"");
    let id = server.expect(event::CONNECT_REQUEST).id;
    assert_eq!(remote_ece(id), (0, 0));
    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!(ferroce_rdma_reject_ece(id, ptr::null(), 0), 0);
        assert_eq!(client.expect(event::REJECTED).status, VENDOR_OPTION);
        let none = ptr::null_mut();
        assert_eq!((ferroce_rdma_get_remote_ece(id, none), errno()), (-1, libc::EINVAL));
        assert_eq!((ferroce_rdma_set_local_ece(id, none), errno()), (-1, libc::EINVAL));
    }
    destroy(id);
}

fn srq_attr(max_wr: u32) -> ibv_srq_attr {
    ibv_srq_attr { max_wr, max_sge: 1, srq_limit: 0 }
}

#[test]
fn a_queue_pair_takes_receives_from_the_shared_queue_of_its_id() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    // SAFETY: calls as a C program makes them.
    unsafe { ferroce_rdma_destroy_qp(client.id) };
    let mut attr = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr: srq_attr(4) };
    let none = ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let unbound = Side::new(TCP);
        assert_eq!(ferroce_rdma_create_srq(unbound.id, none, &raw mut attr), -1);
        assert_eq!(ferroce_rdma_create_srq(client.id, none, &raw mut attr), 0);
        assert!(attr.attr.max_wr >= 4 && (*client.id).recv_cq.is_null());
        assert_eq!(ferroce_rdma_create_srq(client.id, none, &raw mut attr), -1);
        assert_eq!(errno(), libc::EINVAL, "it has one");
    }
    create_qp(client.id);
    // SAFETY: as above.
    unsafe { assert_eq!((*(*client.id).qp).srq, (*client.id).srq) };
    client.connect(b"");
    let asked = server.fetch();
    // SAFETY: an event that is acknowledged afterwards.
    let (id, srq) = unsafe { ((*asked).id, (*asked).param.conn.srq) };
    // SAFETY: as above.
    unsafe {
        ferroce_rdma_ack_cm_event(asked);
        ferroce_rdma_destroy_qp(client.id);
        ferroce_rdma_destroy_srq(client.id);
        assert!((*client.id).srq.is_null());
    }
    assert_eq!(srq, 1, "the peer is told");
    destroy(id);
}

#[test]
fn a_shared_queue_of_xrc_brings_what_it_needs_and_takes_it_along() {
    let side = Side::new(TCP);
    side.bind(0).unwrap();
    let mut attr = ibv_srq_init_attr_ex {
        attr: srq_attr(4),
        comp_mask: abi::IBV_SRQ_INIT_ATTR_TYPE,
        srq_type: abi::IBV_SRQT_XRC,
        ..ibv_srq_init_attr_ex::zeroed()
    };
    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!(ferroce_rdma_create_srq_ex(side.id, &raw mut attr), 0);
        assert!(!attr.xrcd.is_null());
        assert_eq!((*side.id).recv_cq, attr.cq);
        // The queue pair of the id goes, and leaves the completion queue of the other.
        ferroce_rdma_destroy_qp(side.id);
        assert_eq!((*side.id).recv_cq, attr.cq);
        ferroce_rdma_destroy_srq(side.id);
        assert!((*side.id).srq.is_null() && (*side.id).recv_cq.is_null());
        assert!((*side.id).recv_cq_channel.is_null());
    }
}

#[test]
fn the_devices_are_those_that_ids_are_bound_to() {
    let side = Side::new(TCP);
    side.bind(0).unwrap();
    let mut count = 0;
    // SAFETY: calls as a C program makes them.
    unsafe {
        let list = ferroce_rdma_get_devices(&raw mut count);
        assert!(!list.is_null() && count == 1, "one device without FERROCE_DEV");
        assert_eq!((*list, *list.add(1)), ((*side.id).verbs, ptr::null_mut()));
        ferroce_rdma_free_devices(list);
        let list = ferroce_rdma_get_devices(ptr::null_mut());
        assert!(!list.is_null());
        ferroce_rdma_free_devices(list);
        ferroce_rdma_free_devices(ptr::null_mut());
    }
}

#[test]
fn an_id_may_be_given_a_channel_of_its_own_and_back() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    // SAFETY: calls as a C program makes them, one with a handle that is looked up.
    unsafe {
        let nobody = ptr::dangling_mut();
        assert_eq!((ferroce_rdma_migrate_id(client.id, nobody), errno()), (-1, libc::EINVAL));
        assert_eq!(ferroce_rdma_migrate_id(client.id, ptr::null_mut()), 0);
        assert!((*client.id).channel != client.channel);
        assert_eq!(ferroce_rdma_migrate_id(client.id, client.channel), 0);
        assert_eq!((*client.id).channel, client.channel);
    }
    client.connect(b"");
    let id = server.expect(event::CONNECT_REQUEST).id;
    destroy(id);
    client.expect(event::REJECTED);
}

#[test]
fn an_option_has_its_length_its_range_and_its_time() {
    let side = Side::new(TCP);
    assert_eq!(set(side.id, TOS, 0xff_u8), Ok(()));
    assert_eq!(set(side.id, TOS, 1_i32), Err(libc::EINVAL));
    assert_eq!(set(side.id, ACK_TIMEOUT, 31_u8), Ok(()));
    assert_eq!(set(side.id, ACK_TIMEOUT, 32_u8), Err(libc::EINVAL));
    assert_eq!(set(side.id, 4, 0_u8), Err(libc::ENOSYS));
    for option in [REUSEADDR, AFONLY] {
        assert_eq!(set(side.id, option, 1_u8), Err(libc::EINVAL));
        assert_eq!(set(side.id, option, 1_i32), Ok(()));
    }
    side.bind(0).unwrap();
    for option in [REUSEADDR, AFONLY] {
        assert_eq!(set(side.id, option, 0_i32), Err(libc::EINVAL), "too late");
    }
    // SAFETY: calls as a C program makes them.
    unsafe {
        let mut value = 0_u8;
        let place = (&raw mut value).cast();
        assert_eq!(
            (ferroce_rdma_set_option(side.id, 1, TOS, place, 1), errno()),
            (-1, libc::ENOSYS)
        );
        let none = ptr::null_mut();
        assert_eq!(
            (ferroce_rdma_set_option(side.id, 0, TOS, none, 1), errno()),
            (-1, libc::EINVAL)
        );
    }
}
