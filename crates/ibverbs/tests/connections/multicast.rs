//! Multicast groups, by RDMA CM and without.

use core::ffi::{c_int, c_void};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr;
use core::time::Duration;
use std::time::Instant;

use abi::{
    self, Plain, ibv_ah_attr, ibv_gid, ibv_mr, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc, ibv_wr_ud,
};
use ibverbs::ah::{ibv_create_ah, ibv_destroy_ah};
use ibverbs::memory::mr::{ibv_dereg_mr, ibv_reg_mr};
use ibverbs::qp::multicast::{ibv_attach_mcast, ibv_detach_mcast};
use ibverbs::qp::object::ibv_destroy_qp;
use ibverbs::rdmacm::abi::{event, rdma_cm_join_mc_attr_ex, rdma_ud_param};
use ibverbs::rdmacm::multicast::{
    ferroce_rdma_join_multicast, ferroce_rdma_join_multicast_ex, ferroce_rdma_leave_multicast,
};
use ibverbs::rdmacm::told::ferroce_rdma_ack_cm_event;

use crate::support::*;

const MULTICAST_QPN: u32 = 0x00ff_ffff;
const MESSAGE: &[u8] = b"to whom it may concern";
/// `IBV_SEND_SIGNALED`.
const SIGNALED: u32 = 2;
/// Bytes before a datagram.
const GRH: usize = 40;

/// A bound id with a queue pair for datagrams, and a buffer.
struct Member {
    side: Side,
    buffer: Box<[u8; 256]>,
    mr: *mut ibv_mr,
}

impl Member {
    fn new() -> Self {
        let side = Side::new(UDP);
        side.bind(0).unwrap();
        create_qp_of(side.id, abi::IBV_QPT_UD);
        let mut buffer = Box::new([0; 256]);
        // SAFETY: calls as a C program makes them.
        let mr = unsafe { ibv_reg_mr((*side.id).pd, buffer.as_mut_ptr().cast(), buffer.len(), 1) };
        assert!(!mr.is_null());
        Self { side, buffer, mr }
    }

    fn join(&self, group: Ipv4Addr) -> c_int {
        let mut address = at(group, 0);
        // SAFETY: as above. The context is only ever compared.
        unsafe { ferroce_rdma_join_multicast(self.side.id, (&raw mut address).cast(), context()) }
    }

    fn join_with(&self, group: Ipv4Addr, (comp_mask, join_flags): (u32, u32)) -> c_int {
        let mut address = at(group, 0);
        let addr = (&raw mut address).cast();
        let mut attr = rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr };
        // SAFETY: as above.
        unsafe { ferroce_rdma_join_multicast_ex(self.side.id, &raw mut attr, context()) }
    }

    fn leave(&self, group: Ipv4Addr) -> c_int {
        let mut address = at(group, 0);
        // SAFETY: as above.
        unsafe { ferroce_rdma_leave_multicast(self.side.id, (&raw mut address).cast()) }
    }

    /// The next event, which is about a group: what it is, its status, and what it brings.
    fn told(&self) -> (u32, c_int, rdma_ud_param) {
        let told = self.side.fetch();
        // SAFETY: as above; events about groups bring parameters of datagrams.
        unsafe {
            let (kind, status, param) = ((*told).event, (*told).status, (*told).param.ud);
            assert_eq!((*told).id, self.side.id);
            assert_eq!(ferroce_rdma_ack_cm_event(told), 0);
            (kind, status, param)
        }
    }

    fn joined(&self, group: Ipv4Addr) -> rdma_ud_param {
        let (kind, status, param) = self.told();
        assert_eq!((kind, status), (event::MULTICAST_JOIN, 0));
        assert_eq!((param.qp_num, param.qkey), (MULTICAST_QPN, 0x0123_4567));
        assert_eq!(param.private_data, context().cast_const());
        assert_eq!(param.ah_attr.grh.dgid.raw, group.to_ipv6_mapped().octets());
        assert_eq!((param.ah_attr.is_global, param.ah_attr.port_num), (1, 1));
        param
    }

    fn sge(&self, length: usize) -> ibv_sge {
        let addr = self.buffer.as_ptr().expose_provenance() as u64;
        // SAFETY: a live region.
        ibv_sge { addr, length: length as u32, lkey: unsafe { (*self.mr).lkey } }
    }

    fn post_recv(&self) {
        let mut sge = self.sge(self.buffer.len());
        let mut request =
            ibv_recv_wr { sg_list: &raw mut sge, num_sge: 1, ..ibv_recv_wr::zeroed() };
        let mut bad = ptr::null_mut();
        // SAFETY: a live queue pair.
        unsafe {
            let (id, post) = (*self.side.id, (*(*self.side.id).verbs).ops.post_recv.unwrap());
            assert_eq!(post(id.qp, &raw mut request, &raw mut bad), 0);
        }
    }

    fn send(&mut self, mut to: ibv_ah_attr) {
        self.buffer[..MESSAGE.len()].copy_from_slice(MESSAGE);
        let mut sge = self.sge(MESSAGE.len());
        let mut bad = ptr::null_mut();
        // SAFETY: live objects of one device.
        unsafe {
            let (id, post) = (*self.side.id, (*(*self.side.id).verbs).ops.post_send.unwrap());
            let ah = ibv_create_ah(id.pd, &raw mut to);
            assert!(!ah.is_null());
            let mut request = ibv_send_wr {
                sg_list: &raw mut sge,
                num_sge: 1,
                opcode: abi::IBV_WR_SEND,
                send_flags: SIGNALED,
                ..ibv_send_wr::zeroed()
            };
            let (remote_qpn, remote_qkey) = (MULTICAST_QPN, 0x0123_4567);
            request.wr.ud = ibv_wr_ud { ah, remote_qpn, remote_qkey };
            assert_eq!(post(id.qp, &raw mut request, &raw mut bad), 0);
            assert_eq!(self.poll(id.send_cq, PATIENCE), 1);
            assert_eq!(ibv_destroy_ah(ah), 0);
        }
    }

    /// Polls a queue until it has something, or has had nothing for so long.
    fn poll(&self, cq: *mut abi::ibv_cq, patience: Duration) -> c_int {
        let started = Instant::now();
        let mut wc = ibv_wc::zeroed();
        loop {
            // SAFETY: a live queue.
            let found = unsafe {
                let poll = (*(*self.side.id).verbs).ops.poll_cq.unwrap();
                poll(cq, 1, &raw mut wc)
            };
            if found != 0 || started.elapsed() > patience {
                assert_eq!(wc.status, 0);
                return found;
            }
            std::thread::yield_now();
        }
    }

    /// A message comes.
    fn receives(&self) {
        // SAFETY: a live id.
        assert_eq!(self.poll(unsafe { (*self.side.id).recv_cq }, PATIENCE), 1);
        assert_eq!(self.buffer[GRH..GRH + MESSAGE.len()], *MESSAGE);
    }

    /// No message comes, for as long as one usually takes many times over.
    fn hears_nothing(&self) {
        // SAFETY: a live id.
        assert_eq!(self.poll(unsafe { (*self.side.id).recv_cq }, Duration::from_millis(200)), 0);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: a live region. The queue pair has nothing under way.
        unsafe { ibv_dereg_mr(self.mr) };
    }
}

/// The program's own word for a membership.
fn context() -> *mut c_void {
    ptr::without_provenance_mut(0x5eed)
}

#[test]
fn who_has_joined_receives_until_it_leaves() {
    let group = Ipv4Addr::new(239, 255, 53, 1);
    let (mut sender, receiver, other) = (Member::new(), Member::new(), Member::new());
    assert_eq!(sender.join_with(group, (3, 1)), 0, "only to send");
    let way = sender.joined(group).ah_attr;
    assert_eq!((receiver.join(group), other.join_with(group, (3, 0))), (0, 0));
    receiver.joined(group);
    other.joined(group);
    receiver.post_recv();
    other.post_recv();
    sender.post_recv();
    sender.send(way);
    receiver.receives();
    other.receives();
    sender.hears_nothing();

    assert_eq!(receiver.leave(group), 0);
    assert_eq!((receiver.leave(group), errno()), (-1, libc::EADDRNOTAVAIL));
    receiver.post_recv();
    other.post_recv();
    sender.send(way);
    other.receives();
    receiver.hears_nothing();
    // Without another word the group is left with the id.
}

#[test]
fn what_is_left_before_the_event_is_fetched_has_none() {
    let group = Ipv4Addr::new(239, 255, 53, 2);
    let member = Member::new();
    assert_eq!((member.join(group), member.leave(group), member.join(group)), (0, 0, 0));
    member.joined(group);
    // SAFETY: calls as a C program makes them.
    unsafe {
        let mut gid = ibv_gid { raw: group.to_ipv6_mapped().octets() };
        assert_eq!(ibv_destroy_qp((*member.side.id).qp), libc::EBUSY, "it is attached");
        assert_eq!(member.leave(group), 0);
        assert_eq!(ibv_detach_mcast((*member.side.id).qp, &raw mut gid, 0), libc::EINVAL);
    }
}

#[test]
fn a_group_that_cannot_be_sent_to_is_an_error_event() {
    let member = Member::new();
    // SAFETY: all zeros are a valid sockaddr_in6.
    let mut address: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
    address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    address.sin6_addr.s6_addr = "ff05::53".parse::<Ipv6Addr>().unwrap().octets();
    // SAFETY: calls as a C program makes them.
    let joined = unsafe {
        ferroce_rdma_join_multicast(member.side.id, (&raw mut address).cast(), context())
    };
    assert_eq!(joined, 0);
    let (kind, status, param) = member.told();
    assert_eq!((kind, status), (event::MULTICAST_ERROR, -libc::EADDRNOTAVAIL));
    assert_eq!(param.private_data, context().cast_const());
}

#[test]
fn what_is_no_group_or_out_of_turn_is_refused() {
    let group = Ipv4Addr::new(239, 255, 53, 3);
    let member = Member::new();
    assert_eq!((member.join(Ipv4Addr::new(10, 0, 0, 1)), errno()), (-1, libc::EINVAL));
    assert_eq!((member.join_with(group, (1, 0)), errno()), (-1, libc::EINVAL));
    assert_eq!((member.join_with(group, (3, 2)), errno()), (-1, libc::EINVAL));
    assert_eq!((member.join_with(group, (7, 0)), errno()), (-1, libc::EOPNOTSUPP));
    // Neither bound nor for datagrams.
    for (space, binds) in [(UDP, false), (TCP, true)] {
        let side = Side::new(space);
        assert!(!binds || side.bind(0).is_ok());
        let mut address = at(group, 0);
        // SAFETY: calls as a C program makes them.
        let joined =
            unsafe { ferroce_rdma_join_multicast(side.id, (&raw mut address).cast(), context()) };
        assert_eq!((joined, errno()), (-1, libc::EINVAL));
    }
}

#[test]
fn a_queue_pair_is_attached_without_a_connection_manager() {
    let group = Ipv4Addr::new(239, 255, 53, 4);
    let (mut sender, receiver) = (Member::new(), Member::new());
    let gid = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => ibv_gid { raw: v4.to_ipv6_mapped().octets() },
        IpAddr::V6(v6) => ibv_gid { raw: v6.octets() },
    };
    let attach = |mut gid: ibv_gid| {
        // SAFETY: a live queue pair.
        unsafe { ibv_attach_mcast((*receiver.side.id).qp, &raw mut gid, 0) }
    };
    assert_eq!(attach(gid(Ipv4Addr::LOCALHOST.into())), libc::EINVAL);
    // As RoCE v1 writes an IPv4 group, and once more.
    let v1 = "ff0e::ffff:239.255.53.4".parse::<Ipv6Addr>().unwrap();
    assert_eq!((attach(gid(v1.into())), attach(gid(group.into()))), (0, 0));
    let mut way = ibv_ah_attr { is_global: 1, port_num: 1, ..ibv_ah_attr::zeroed() };
    way.grh.dgid = gid(v1.into());
    way.grh.sgid_index = 1;
    receiver.post_recv();
    sender.send(way);
    receiver.receives();
    let connected = Side::new(TCP);
    connected.bind(0).unwrap();
    create_qp(connected.id);
    let mut group = gid(group.into());
    // SAFETY: live queue pairs.
    unsafe {
        let (datagram, other) = ((*receiver.side.id).qp, (*connected.id).qp);
        assert_eq!(ibv_attach_mcast(other, &raw mut group, 0), libc::EINVAL, "not for datagrams");
        assert_eq!(ibv_attach_mcast(ptr::null_mut(), &raw mut group, 0), libc::EINVAL);
        assert_eq!(ibv_attach_mcast(datagram, ptr::null(), 0), libc::EINVAL);
        assert_eq!(ibv_destroy_qp(datagram), libc::EBUSY);
        assert_eq!(ibv_detach_mcast(datagram, &raw mut group, 0), 0);
        assert_eq!(ibv_detach_mcast(datagram, &raw mut group, 0), libc::EINVAL);
    }
}
