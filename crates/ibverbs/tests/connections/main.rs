//! What the rdma_cm man pages promise, of calls that go well and of those that do not, over a real
//! device on loopback.

#![allow(unsafe_code, reason = "a C ABI is called")]

mod api;
mod multicast;
mod rsockets;
mod support;

use core::ffi::c_int;
use core::mem;
use core::net::Ipv4Addr;
use core::ptr;

use ibverbs::rdmacm::abi::{event, rdma_cm_id};
use ibverbs::rdmacm::bind::{ferroce_rdma_bind_addr, ferroce_rdma_listen};
use ibverbs::rdmacm::channel::ferroce_rdma_event_str;
use ibverbs::rdmacm::connect::{
    ferroce_rdma_accept, ferroce_rdma_connect, ferroce_rdma_disconnect, ferroce_rdma_reject,
};
use ibverbs::rdmacm::create::{
    ferroce_rdma_create_id, ferroce_rdma_destroy_id, ferroce_rdma_migrate_id,
};
use ibverbs::rdmacm::options::ferroce_rdma_set_option;
use ibverbs::rdmacm::queue_pair::ferroce_rdma_destroy_qp;
use ibverbs::rdmacm::resolve::{ferroce_rdma_resolve_addr, ferroce_rdma_resolve_route};
use ibverbs::rdmacm::told::ferroce_rdma_ack_cm_event;

use support::*;

#[test]
fn a_connection_brings_private_data_to_both_sides_and_ends_at_both() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    assert_eq!(client.connect(b"ask"), 0);
    let asked = server.expect(event::CONNECT_REQUEST);
    // As long as the message has room for, which is what kernels tell.
    assert_eq!((asked.private.len(), &asked.private[..4]), (56, &b"ask\0"[..]));
    create_qp(asked.id);
    let mut answer = param(b"yes");
    // SAFETY: calls as a C program makes them.
    unsafe { assert_eq!(ferroce_rdma_accept(asked.id, &raw mut answer), 0) };
    let told = client.expect(event::ESTABLISHED);
    assert_eq!((told.private.len(), &told.private[..4]), (196, &b"yes\0"[..]));
    assert_eq!(server.expect(event::ESTABLISHED).id, asked.id);
    // SAFETY: as above. A queue pair of a connection is ready to send.
    unsafe {
        assert_eq!(((*(*client.id).qp).state, (*(*asked.id).qp).state), (3, 3));
        assert_eq!(ferroce_rdma_disconnect(client.id), 0);
        assert_eq!((*(*client.id).qp).state, 6);
    }
    assert_eq!(server.expect(event::DISCONNECTED).id, asked.id);
    client.expect(event::DISCONNECTED);
    // SAFETY: as above.
    unsafe {
        assert_eq!(ferroce_rdma_disconnect(asked.id), 0);
        ferroce_rdma_destroy_qp(asked.id);
        assert_eq!(ferroce_rdma_destroy_id(asked.id), 0);
    }
}

#[test]
fn a_port_where_nobody_listens_is_a_rejection_with_its_reason() {
    let (server, port) = Side::listening(TCP);
    drop(server);
    let client = Side::toward(port);
    assert_eq!(client.connect(b""), 0);
    assert_eq!(client.expect(event::REJECTED).status, INVALID_SERVICE);
}

#[test]
fn an_application_that_refuses_says_why() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    client.connect(b"");
    let asked = server.expect(event::CONNECT_REQUEST);
    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!(ferroce_rdma_reject(asked.id, b"no".as_ptr().cast(), 2), 0);
        assert_eq!(ferroce_rdma_destroy_id(asked.id), 0);
    }
    let told = client.expect(event::REJECTED);
    assert_eq!(
        (told.status, told.private.len(), &told.private[..3]),
        (CONSUMER, 148, &b"no\0"[..])
    );
}

#[test]
fn two_listeners_do_not_share_a_port_unless_both_say_so() {
    let (first, port) = Side::listening(TCP);
    let second = Side::new(TCP);
    assert_eq!(second.bind(port), Err(libc::EADDRINUSE));
    // Another port space is another matter.
    assert_eq!(Side::new(UDP).bind(port), Ok(port));
    drop(first);
    assert_eq!(second.bind(port), Ok(port));

    let shared = |port: u16| {
        let side = Side::new(TCP);
        let mut yes: c_int = 1;
        // SAFETY: calls as a C program makes them. REUSEADDR is option 1 of level 0.
        let set = unsafe {
            ferroce_rdma_set_option(side.id, 0, 1, (&raw mut yes).cast(), size_of::<c_int>())
        };
        assert_eq!(set, 0);
        let port = side.bind(port).unwrap();
        (side, port)
    };
    let (one, port) = shared(0);
    let (other, _) = shared(port);
    // SAFETY: as above.
    unsafe {
        assert_eq!(ferroce_rdma_listen(one.id, 0), 0);
        assert_eq!((ferroce_rdma_listen(other.id, 0), errno()), (-1, libc::EADDRINUSE));
    }
}

#[test]
fn an_address_that_is_not_ours_cannot_be_bound_to() {
    let side = Side::new(TCP);
    let mut address = at(Ipv4Addr::new(192, 0, 2, 1), 0);
    // SAFETY: calls as a C program makes them.
    let bound = unsafe { ferroce_rdma_bind_addr(side.id, (&raw mut address).cast()) };
    assert_eq!((bound, errno()), (-1, libc::ENODEV));
}

#[test]
fn a_loopback_address_that_no_device_has_stands_for_the_first_device() {
    let side = Side::new(TCP);
    let mut address = at(Ipv4Addr::new(127, 0, 0, 99), 0);
    // SAFETY: calls as a C program makes them; a bound id shows an IPv4 address as such.
    let (bound, has_device, shown) = unsafe {
        let bound = ferroce_rdma_bind_addr(side.id, (&raw mut address).cast());
        let shown = (&raw const (*side.id).route.addr.src_addr).cast::<libc::sockaddr_in>();
        (bound, !(*side.id).verbs.is_null(), (*shown).sin_addr.s_addr)
    };
    assert_eq!((bound, has_device), (0, true));
    assert_eq!(shown.to_ne_bytes(), [127, 0, 0, 1]);
}

#[test]
fn private_data_that_does_not_fit_is_refused() {
    let (_server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    assert_eq!((client.connect(&[1; 57]), errno()), (-1, libc::EINVAL));
    assert_eq!(client.connect(&[1; 56]), 0);
}

#[test]
fn a_server_that_goes_ends_its_connections() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    client.connect(b"");
    let asked = server.expect(event::CONNECT_REQUEST);
    // SAFETY: calls as a C program makes them.
    unsafe { assert_eq!(ferroce_rdma_destroy_id(asked.id), 0) };
    assert_eq!(client.expect(event::REJECTED).status, CONSUMER);
    // A request that was never fetched is refused as well.
    let client = Side::toward(port);
    client.connect(b"");
    server.is_told();
    drop(server);
    assert_eq!(client.expect(event::REJECTED).status, CONSUMER);
}

#[test]
fn the_events_of_an_id_follow_it_to_another_channel() {
    let (server, port) = Side::listening(TCP);
    let client = Side::toward(port);
    client.connect(b"");
    let asked = server.expect(event::CONNECT_REQUEST);
    let other = Side::new(TCP);
    // SAFETY: calls as a C program makes them.
    unsafe {
        assert_eq!(ferroce_rdma_migrate_id(asked.id, other.channel), 0);
        assert_eq!((*asked.id).channel, other.channel);
        assert_eq!(ferroce_rdma_accept(asked.id, ptr::null_mut()), 0);
    }
    client.expect(event::ESTABLISHED);
    assert_eq!(other.expect(event::ESTABLISHED).id, asked.id);
    // SAFETY: as above.
    unsafe { ferroce_rdma_destroy_id(asked.id) };
}

#[test]
fn an_id_without_a_channel_waits_by_itself() {
    let (server, port) = Side::listening(TCP);
    let accepter = std::thread::spawn({
        let channel = server.channel.expose_provenance();
        move || {
            let channel = ptr::with_exposed_provenance_mut(channel);
            let side = mem::ManuallyDrop::new(Side { channel, id: ptr::null_mut() });
            let asked = side.expect(event::CONNECT_REQUEST);
            // SAFETY: calls as a C program makes them.
            unsafe { assert_eq!(ferroce_rdma_accept(asked.id, ptr::null_mut()), 0) };
            side.expect(event::ESTABLISHED);
            // SAFETY: as above.
            unsafe { ferroce_rdma_destroy_id(asked.id) };
        }
    });
    let mut address = loopback(port);
    let mut id = ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let none = ptr::null_mut();
        assert_eq!(ferroce_rdma_create_id(none, &raw mut id, ptr::null_mut(), TCP), 0);
        let to = (&raw mut address).cast();
        assert_eq!(ferroce_rdma_resolve_addr(id, ptr::null_mut(), to, 1000), 0);
        assert_eq!(ferroce_rdma_resolve_route(id, 1000), 0);
        create_qp(id);
        assert_eq!(ferroce_rdma_connect(id, ptr::null_mut()), 0);
        assert_eq!((*(*id).event).event, event::ESTABLISHED);
        accepter.join().unwrap();
        ferroce_rdma_destroy_qp(id);
        assert_eq!(ferroce_rdma_destroy_id(id), 0);
    }
    // A rejection is an error of the call.
    drop(server);
    // SAFETY: as above.
    unsafe {
        assert_eq!(ferroce_rdma_create_id(ptr::null_mut(), &raw mut id, ptr::null_mut(), TCP), 0);
        let to = (&raw mut address).cast();
        assert_eq!(ferroce_rdma_resolve_addr(id, ptr::null_mut(), to, 1000), 0);
        assert_eq!(ferroce_rdma_resolve_route(id, 1000), 0);
        create_qp(id);
        let connected = ferroce_rdma_connect(id, ptr::null_mut());
        assert_eq!((connected, errno()), (-1, libc::ECONNREFUSED));
        ferroce_rdma_destroy_qp(id);
        assert_eq!(ferroce_rdma_destroy_id(id), 0);
    }
}

#[test]
fn calls_out_of_turn_and_handles_of_nobody_are_refused() {
    let mut id = ptr::null_mut();
    // SAFETY: calls as a C program makes them, with handles that are looked up, not followed.
    unsafe {
        let nobody: *mut rdma_cm_id = ptr::dangling_mut();
        assert_eq!((ferroce_rdma_listen(nobody, 1), errno()), (-1, libc::EINVAL));
        assert_eq!((ferroce_rdma_destroy_id(ptr::null_mut()), errno()), (-1, libc::EINVAL));
        assert_eq!(ferroce_rdma_ack_cm_event(ptr::null_mut()), -1);
        let none = ptr::null_mut();
        let unknown = ferroce_rdma_create_id(none, &raw mut id, ptr::null_mut(), 0x999);
        assert_eq!((unknown, errno()), (-1, libc::EPROTONOSUPPORT));
        let name = core::ffi::CStr::from_ptr(ferroce_rdma_event_str(event::REJECTED));
        assert_eq!(name, c"RDMA_CM_EVENT_REJECTED");
    }
    let side = Side::new(TCP);
    // SAFETY: as above.
    unsafe {
        assert_eq!((side.connect(b""), errno()), (-1, libc::EINVAL));
        assert_eq!((ferroce_rdma_accept(side.id, ptr::null_mut()), errno()), (-1, libc::EINVAL));
        assert_eq!((ferroce_rdma_disconnect(side.id), errno()), (-1, libc::EINVAL));
        assert_eq!(ferroce_rdma_resolve_route(side.id, 1), -1);
        let mut value = 0_u8;
        let value = (&raw mut value).cast();
        assert_eq!((ferroce_rdma_set_option(side.id, 0, 9, value, 1), errno()), (-1, libc::ENOSYS));
        assert_eq!((ferroce_rdma_set_option(side.id, 0, 0, value, 4), errno()), (-1, libc::EINVAL));
    }
    assert!(side.bind(0).is_ok());
    assert_eq!(side.bind(0), Err(libc::EINVAL));
}
