//! One side of a connection, as a C program has it.

use core::ffi::{c_int, c_void};
use core::mem;
use core::net::Ipv4Addr;
use core::ptr;
use core::time::Duration;

use abi::{self, Plain, ibv_qp_cap, ibv_qp_init_attr};
use ibverbs::rdmacm::abi::{event, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel};
use ibverbs::rdmacm::bind::{
    ferroce_rdma_bind_addr, ferroce_rdma_get_src_port, ferroce_rdma_listen,
};
use ibverbs::rdmacm::channel::{
    ferroce_rdma_create_event_channel, ferroce_rdma_destroy_event_channel,
};
use ibverbs::rdmacm::connect::ferroce_rdma_connect;
use ibverbs::rdmacm::create::{ferroce_rdma_create_id, ferroce_rdma_destroy_id};
use ibverbs::rdmacm::fetch::ferroce_rdma_get_cm_event;
use ibverbs::rdmacm::queue_pair::{ferroce_rdma_create_qp, ferroce_rdma_destroy_qp};
use ibverbs::rdmacm::resolve::{ferroce_rdma_resolve_addr, ferroce_rdma_resolve_route};
use ibverbs::rdmacm::told::ferroce_rdma_ack_cm_event;

/// Longer than anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const TCP: u32 = 0x0106;
pub(crate) const UDP: u32 = 0x0111;
/// "Invalid service ID" (IBTA vol 1, chapter 12).
pub(crate) const INVALID_SERVICE: c_int = 8;
/// "Consumer reject".
pub(crate) const CONSUMER: c_int = 28;

pub(crate) fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

pub(crate) fn loopback(port: u16) -> libc::sockaddr_in {
    at(Ipv4Addr::LOCALHOST, port)
}

pub(crate) fn at(ip: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    // SAFETY: all zeros are a valid sockaddr_in.
    let mut address: libc::sockaddr_in = unsafe { mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
    address
}

/// An event, acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kind: u32,
    pub(crate) status: c_int,
    pub(crate) id: *mut rdma_cm_id,
    pub(crate) private: Vec<u8>,
}

/// A channel with an id.
pub(crate) struct Side {
    pub(crate) channel: *mut rdma_event_channel,
    pub(crate) id: *mut rdma_cm_id,
}

impl Side {
    pub(crate) fn new(space: u32) -> Self {
        // SAFETY: calls as a C program makes them.
        unsafe {
            let channel = ferroce_rdma_create_event_channel();
            assert!(!channel.is_null());
            let mut id = ptr::null_mut();
            let context = ptr::null_mut();
            assert_eq!(ferroce_rdma_create_id(channel, &raw mut id, context, space), 0);
            Self { channel, id }
        }
    }

    pub(crate) fn bind(&self, port: u16) -> Result<u16, c_int> {
        let mut address = loopback(port);
        // SAFETY: as above.
        unsafe {
            match ferroce_rdma_bind_addr(self.id, (&raw mut address).cast()) {
                0 => Ok(u16::from_be(ferroce_rdma_get_src_port(self.id))),
                _ => Err(errno()),
            }
        }
    }

    pub(crate) fn listening(space: u32) -> (Self, u16) {
        let side = Self::new(space);
        let port = side.bind(0).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { ferroce_rdma_listen(side.id, 4) }, 0);
        (side, port)
    }

    /// The next event, which the test acknowledges.
    pub(crate) fn fetch(&self) -> *mut rdma_cm_event {
        let mut told = ptr::null_mut();
        // SAFETY: as above.
        assert_eq!(unsafe { ferroce_rdma_get_cm_event(self.channel, &raw mut told) }, 0);
        told
    }

    /// Waits until there is an event, which stays to be fetched.
    pub(crate) fn is_told(&self) {
        // SAFETY: a live channel.
        let fd = unsafe { (*self.channel).fd };
        let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live place.
        let ready = unsafe { libc::poll(&raw mut asked, 1, PATIENCE.as_millis() as c_int) };
        assert_eq!((ready, asked.revents), (1, libc::POLLIN));
    }

    /// The next event.
    pub(crate) fn next(&self) -> Told {
        let told = self.fetch();
        // SAFETY: as above; private data has the length that the event says.
        unsafe {
            let rdma_cm_event { id, event, status, param, .. } = *told;
            let (data, length) = (param.conn.private_data, param.conn.private_data_len);
            let private = match data.is_null() {
                true => Vec::new(),
                false => core::slice::from_raw_parts(data.cast(), length.into()).to_vec(),
            };
            assert_eq!(ferroce_rdma_ack_cm_event(told), 0);
            Told { kind: event, status, id, private }
        }
    }

    pub(crate) fn expect(&self, kind: u32) -> Told {
        let told = self.next();
        assert_eq!(told.kind, kind, "{told:?}");
        told
    }

    /// Resolves the way to `port`, and makes a queue pair.
    pub(crate) fn toward(port: u16) -> Self {
        let side = Self::new(TCP);
        let mut address = loopback(port);
        // SAFETY: as above.
        unsafe {
            let to = (&raw mut address).cast();
            assert_eq!(ferroce_rdma_resolve_addr(side.id, ptr::null_mut(), to, 1000), 0);
            assert_eq!(side.expect(event::ADDR_RESOLVED).status, 0);
            assert_eq!(ferroce_rdma_resolve_route(side.id, 1000), 0);
            side.expect(event::ROUTE_RESOLVED);
        }
        create_qp(side.id);
        side
    }

    pub(crate) fn connect(&self, private: &[u8]) -> c_int {
        let mut param = param(private);
        // SAFETY: as above.
        unsafe { ferroce_rdma_connect(self.id, &raw mut param) }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            ferroce_rdma_destroy_qp(self.id);
            ferroce_rdma_destroy_id(self.id);
            ferroce_rdma_destroy_event_channel(self.channel);
        }
    }
}

pub(crate) fn create_qp(id: *mut rdma_cm_id) {
    create_qp_of(id, abi::IBV_QPT_RC);
}

pub(crate) fn create_qp_of(id: *mut rdma_cm_id, qp_type: u32) {
    let mut attr = ibv_qp_init_attr {
        cap: ibv_qp_cap {
            max_send_wr: 2,
            max_recv_wr: 2,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        qp_type,
        ..ibv_qp_init_attr::zeroed()
    };
    // SAFETY: calls as a C program makes them.
    assert_eq!(unsafe { ferroce_rdma_create_qp(id, ptr::null_mut(), &raw mut attr) }, 0);
    assert!(!attr.send_cq.is_null() && !attr.recv_cq.is_null());
}

pub(crate) fn param(private: &[u8]) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private.as_ptr().cast::<c_void>(),
        private_data_len: private.len() as u8,
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        ..rdma_conn_param::zeroed()
    }
}
