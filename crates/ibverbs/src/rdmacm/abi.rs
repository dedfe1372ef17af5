//! The structures of `rdma/rdma_cma.h`, as the binaries lay them out.

#![allow(missing_docs, reason = "fields are documented by the rdma_cm man pages")]
#![allow(missing_debug_implementations, reason = "plain C data, unions and pointers")]

use core::ffi::{c_char, c_int, c_void};

use abi::{ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_srq};

/// Declares the kinds of events, each with its number, and what they are called.
macro_rules! events {
    ($($name:ident = $number:literal)*) => {
        /// `enum rdma_cm_event_type`.
        pub mod event {
            $(pub const $name: u32 = $number;)*
        }

        /// The name of an event, which ends with a NUL.
        pub(super) const fn event_name(event: u32) -> &'static str {
            match event {
                $(event::$name => concat!("RDMA_CM_EVENT_", stringify!($name), "\0"),)*
                _ => "UNKNOWN EVENT\0",
            }
        }
    };
}

events! {
    ADDR_RESOLVED = 0
    ADDR_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVAL = 11
    MULTICAST_JOIN = 12
    MULTICAST_ERROR = 13
    ADDR_CHANGE = 14
    TIMEWAIT_EXIT = 15
    ADDRINFO_RESOLVED = 16
    ADDRINFO_ERROR = 17
    USER = 18
}

/// `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`: as many as the device has.
pub const RDMA_MAX_RD_ATOMIC: u8 = 0xff;
/// The Q_Key of `RDMA_PS_UDP`.
pub const RDMA_UDP_QKEY: u32 = 0x0123_4567;
/// `enum rdma_cm_join_mc_attr_mask`.
pub const RDMA_CM_JOIN_MC_ATTR_ADDRESS: u32 = 1;
pub const RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS: u32 = 1 << 1;
/// `enum rdma_cm_mc_join_flags`.
pub const RDMA_MC_JOIN_FLAG_FULLMEMBER: u32 = 0;
pub const RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER: u32 = 1;
pub const RAI_PASSIVE: c_int = 1;
pub const RAI_NUMERICHOST: c_int = 2;
pub const RAI_FAMILY: c_int = 8;

abi::structures! {
    pub struct rdma_ib_addr {
        pub sgid: ibv_gid,
        pub dgid: ibv_gid,
        pub pkey: u16,
    }

    pub struct rdma_addr {
        pub src_addr: libc::sockaddr_storage,
        pub dst_addr: libc::sockaddr_storage,
        pub addr: rdma_ib_addr,
    }

    pub struct rdma_route {
        pub addr: rdma_addr,
        pub path_rec: *mut c_void,
        pub num_paths: c_int,
    }

    pub struct rdma_event_channel {
        pub fd: c_int,
    }

    pub struct rdma_cm_id {
        pub verbs: *mut ibv_context,
        pub channel: *mut rdma_event_channel,
        pub context: *mut c_void,
        pub qp: *mut ibv_qp,
        pub route: rdma_route,
        pub ps: u32,
        pub port_num: u8,
        pub event: *mut rdma_cm_event,
        pub send_cq_channel: *mut ibv_comp_channel,
        pub send_cq: *mut ibv_cq,
        pub recv_cq_channel: *mut ibv_comp_channel,
        pub recv_cq: *mut ibv_cq,
        pub srq: *mut ibv_srq,
        pub pd: *mut ibv_pd,
        pub qp_type: u32,
    }

    pub struct rdma_conn_param {
        pub private_data: *const c_void,
        pub private_data_len: u8,
        pub responder_resources: u8,
        pub initiator_depth: u8,
        pub flow_control: u8,
        pub retry_count: u8,
        pub rnr_retry_count: u8,
        pub srq: u8,
        pub qp_num: u32,
    }

    pub struct rdma_ud_param {
        pub private_data: *const c_void,
        pub private_data_len: u8,
        pub ah_attr: ibv_ah_attr,
        pub qp_num: u32,
        pub qkey: u32,
    }

    pub union rdma_event_param {
        pub conn: rdma_conn_param,
        pub ud: rdma_ud_param,
        pub arg: u64,
    }

    pub struct rdma_cm_event {
        pub id: *mut rdma_cm_id,
        pub listen_id: *mut rdma_cm_id,
        pub event: u32,
        pub status: c_int,
        pub param: rdma_event_param,
    }

    pub struct rdma_cm_join_mc_attr_ex {
        pub comp_mask: u32,
        pub join_flags: u32,
        pub addr: *mut libc::sockaddr,
    }

    pub struct rdma_addrinfo {
        pub ai_flags: c_int,
        pub ai_family: c_int,
        pub ai_qp_type: c_int,
        pub ai_port_space: c_int,
        pub ai_src_len: libc::socklen_t,
        pub ai_dst_len: libc::socklen_t,
        pub ai_src_addr: *mut libc::sockaddr,
        pub ai_dst_addr: *mut libc::sockaddr,
        pub ai_src_canonname: *mut c_char,
        pub ai_dst_canonname: *mut c_char,
        pub ai_route_len: usize,
        pub ai_route: *mut c_void,
        pub ai_connect_len: usize,
        pub ai_connect: *mut c_void,
        pub ai_next: *mut rdma_addrinfo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::{offset_of, size_of};

    macro_rules! layouts {
        ($($name:ident [$size:literal] { $($field:ident @ $offset:literal),* })*) => {
            $(
                assert_eq!(size_of::<$name>(), $size, "sizeof {}", stringify!($name));
                $(assert_eq!(
                    offset_of!($name, $field), $offset,
                    "offset of {}.{}", stringify!($name), stringify!($field)
                );)*
            )*
        };
    }

    #[test]
    fn structures_lie_as_the_binaries_expect() {
        // `cargo xtask abi` compares this table with rdma/rdma_cma.h.
        layouts! {
            rdma_cm_id[416] {
                verbs @ 0, channel @ 8, context @ 16, qp @ 24, route @ 32, ps @ 344,
                port_num @ 348, event @ 352, send_cq_channel @ 360, send_cq @ 368,
                recv_cq_channel @ 376, recv_cq @ 384, srq @ 392, pd @ 400, qp_type @ 408
            }
            rdma_route[312] {
                addr @ 0, path_rec @ 296, num_paths @ 304
            }
            rdma_addr[296] {
                src_addr @ 0, dst_addr @ 128, addr @ 256
            }
            rdma_ib_addr[40] {
                sgid @ 0, dgid @ 16, pkey @ 32
            }
            rdma_conn_param[24] {
                private_data @ 0, private_data_len @ 8, responder_resources @ 9,
                initiator_depth @ 10, flow_control @ 11, retry_count @ 12, rnr_retry_count @ 13,
                srq @ 14, qp_num @ 16
            }
            rdma_ud_param[56] {
                private_data @ 0, private_data_len @ 8, ah_attr @ 16, qp_num @ 48, qkey @ 52
            }
            rdma_cm_event[80] {
                id @ 0, listen_id @ 8, event @ 16, status @ 20, param @ 24
            }
            rdma_addrinfo[96] {
                ai_flags @ 0, ai_family @ 4, ai_qp_type @ 8, ai_port_space @ 12, ai_src_len @ 16,
                ai_dst_len @ 20, ai_src_addr @ 24, ai_dst_addr @ 32, ai_src_canonname @ 40,
                ai_dst_canonname @ 48, ai_route_len @ 56, ai_route @ 64, ai_connect_len @ 72,
                ai_connect @ 80, ai_next @ 88
            }
            rdma_cm_join_mc_attr_ex[16] {
                comp_mask @ 0, join_flags @ 4, addr @ 8
            }
            rdma_event_channel[4] {
                fd @ 0
            }
        }
    }
}
