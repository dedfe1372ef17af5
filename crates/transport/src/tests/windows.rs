//! Memory windows: bound, used and invalidated by requests.

use rdma::completion::Attached;
use rdma::{Access, CompletionOpcode, CompletionStatus, Key, Operation, QpType, SendFlags};
use std::vec::Vec;

use super::{only, statuses};
use crate::testing::{Pair, TestMemory, Verdict};
use crate::{DestroyError, RegionSpec, RegisterError, WindowKind};

const LENGTH: u64 = 4096;

/// A connected pair whose node 1 has a region that windows may be bound to, and a window.
struct Scene {
    pair: Pair,
    region: Key,
    window: Key,
}

impl Scene {
    fn new(kind: WindowKind) -> Self {
        Self::over(QpType::Rc, kind)
    }

    fn over(service: QpType, kind: WindowKind) -> Self {
        let mut pair = Pair::connected(service);
        let node = &mut pair.nodes[1];
        let region = RegionSpec {
            address: TestMemory::BASE,
            length: LENGTH,
            iova: TestMemory::BASE,
            access: Access::LOCAL_WRITE | Access::MW_BIND,
        };
        let region = node.endpoint.register(node.pd, region).unwrap();
        let window = node.endpoint.alloc_window(node.pd, kind).unwrap();
        Self { pair, region, window }
    }

    /// The window's key with another tag.
    fn key(&self, tag: u8) -> Key {
        Key::from_parts(self.window.index(), tag)
    }

    /// Binds bytes 100 to 200 for WRITEs.
    fn bind(&self, tag: u8) -> Operation {
        Operation::BindWindow {
            r_key: self.key(tag),
            region: self.region,
            address: TestMemory::BASE + 100,
            length: 100,
            access: Access::REMOTE_WRITE,
        }
    }

    /// Posts at node 1 and returns how it ended there.
    fn at_home(&mut self, operation: Operation) -> CompletionStatus {
        self.pair.post(1, 9, operation, &[]);
        self.pair.drive();
        only(&mut self.pair.nodes[1]).status
    }

    /// WRITEs `length` bytes at `offset` through the key with `tag`.
    fn write(&mut self, tag: u8, offset: u64, length: u32) -> CompletionStatus {
        let remote_address = TestMemory::BASE + offset;
        let write = Operation::Write { remote_address, r_key: self.key(tag), immediate: None };
        let from = self.pair.nodes[0].sge(0, length);
        self.pair.post(0, 1, write, &[from]);
        self.pair.drive();
        only(&mut self.pair.nodes[0]).status
    }
}

#[test]
fn a_bound_window_reaches_its_part_and_no_more() {
    use CompletionStatus::{RemoteAccess, Success};
    for kind in [WindowKind::Type1, WindowKind::Type2] {
        for (offset, length, expected) in
            [(100, 100, Success), (199, 1, Success), (199, 2, RemoteAccess), (99, 1, RemoteAccess)]
        {
            let mut scene = Scene::new(kind);
            assert_eq!(scene.at_home(scene.bind(7)), Success);
            assert_eq!(scene.write(7, offset, length), expected, "{kind:?} {offset}+{length}");
        }
    }
}

#[test]
fn a_window_gives_only_the_rights_that_it_was_bound_with() {
    let mut scene = Scene::new(WindowKind::Type2);
    scene.at_home(scene.bind(7));
    let read = Operation::Read { remote_address: TestMemory::BASE + 100, r_key: scene.key(7) };
    let to = scene.pair.nodes[0].sge(0, 8);
    scene.pair.post(0, 1, read, &[to]);
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::RemoteAccess);
}

#[test]
fn a_type_1_window_is_bound_again_and_unbound_by_binding() {
    let mut scene = Scene::new(WindowKind::Type1);
    scene.at_home(scene.bind(7));
    assert_eq!(scene.at_home(scene.bind(8)), CompletionStatus::Success);
    assert_eq!(scene.write(8, 100, 1), CompletionStatus::Success);
    assert_eq!(scene.write(7, 100, 1), CompletionStatus::RemoteAccess, "the key of before");

    let mut scene = Scene::new(WindowKind::Type1);
    scene.at_home(scene.bind(7));
    let nothing = Operation::BindWindow {
        r_key: scene.key(8),
        region: Key(0),
        address: 0,
        length: 0,
        access: Access::NONE,
    };
    assert_eq!(scene.at_home(nothing), CompletionStatus::Success);
    assert_eq!(scene.write(8, 100, 1), CompletionStatus::RemoteAccess);
}

#[test]
fn a_type_2_window_is_invalidated_here_and_bound_again() {
    let mut scene = Scene::new(WindowKind::Type2);
    scene.at_home(scene.bind(7));
    let r_key = scene.key(7);
    assert_eq!(scene.at_home(Operation::LocalInvalidate { r_key }), CompletionStatus::Success);
    assert_eq!(scene.at_home(scene.bind(8)), CompletionStatus::Success);
    assert_eq!(scene.write(8, 100, 1), CompletionStatus::Success);
    assert_eq!(scene.write(7, 100, 1), CompletionStatus::RemoteAccess);
}

#[test]
fn a_send_invalidates_the_window_of_its_receiver() {
    let mut scene = Scene::new(WindowKind::Type2);
    scene.at_home(scene.bind(7));
    let (from, to) = (scene.pair.nodes[0].sge(0, 3000), scene.pair.nodes[1].sge(1 << 16, 3000));
    scene.pair.post_recv(1, 5, &[to]);
    let r_key = scene.key(7);
    scene.pair.post(0, 1, Operation::SendInvalidate { r_key }, &[from]);
    scene.pair.drive();
    let received = only(&mut scene.pair.nodes[1]);
    assert_eq!((received.opcode, received.byte_len), (CompletionOpcode::Recv, 3000));
    assert_eq!(received.attached, Attached::Invalidated(r_key));
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::Success);
    assert_eq!(scene.write(7, 100, 1), CompletionStatus::RemoteAccess);
}

#[test]
fn a_peer_invalidates_no_region_no_type_1_window_and_no_stale_key() {
    for what in ["region", "type 1", "stale"] {
        let kind = if what == "type 1" { WindowKind::Type1 } else { WindowKind::Type2 };
        let mut scene = Scene::new(kind);
        scene.at_home(scene.bind(7));
        let r_key = match what {
            "region" => scene.region,
            "type 1" => scene.key(7),
            _ => scene.key(6),
        };
        let to = scene.pair.nodes[1].sge(0, 8);
        scene.pair.post_recv(1, 5, &[to]);
        scene.pair.post(0, 1, Operation::SendInvalidate { r_key }, &[]);
        scene.pair.drive();
        let status = only(&mut scene.pair.nodes[0]).status;
        assert_eq!(status, CompletionStatus::RemoteAccess, "{what}");
        assert_eq!(statuses(&mut scene.pair.nodes[1]), [(5, CompletionStatus::Flushed)]);
    }
}

#[test]
fn a_bind_that_breaks_a_rule_fails_and_takes_the_queue_pair_with_it() {
    for rule in [
        "the region allows windows",
        "within the region",
        "no more rights than the region",
        "type 2 has a length",
        "type 2 is free",
        "type 1 is not zero-based",
        "an R_Key of a window",
        "one protection domain",
    ] {
        let kind = if rule.contains("type 1") { WindowKind::Type1 } else { WindowKind::Type2 };
        let mut scene = Scene::new(kind);
        let mut bind = scene.bind(7);
        let node = &mut scene.pair.nodes[1];
        let mut register = |access| {
            let (address, iova) = (TestMemory::BASE, TestMemory::BASE);
            let spec = RegionSpec { address, length: LENGTH, iova, access };
            node.endpoint.register(node.pd, spec).unwrap()
        };
        let Operation::BindWindow { r_key, region, address, length, access } = &mut bind else {
            unreachable!("it is a bind")
        };
        match rule {
            "the region allows windows" => *region = register(Access::LOCAL_WRITE),
            "within the region" => *address = TestMemory::BASE + LENGTH - 99,
            "no more rights than the region" => *region = register(Access::MW_BIND),
            "type 2 has a length" => *length = 0,
            "type 1 is not zero-based" => *access = Access::ZERO_BASED,
            "an R_Key of a window" => *r_key = scene.region,
            "one protection domain" => {
                let other = node.endpoint.alloc_pd().unwrap();
                *r_key = node.endpoint.alloc_window(other, WindowKind::Type2).unwrap();
            }
            _ => assert_eq!(scene.at_home(scene.bind(6)), CompletionStatus::Success),
        }
        assert_eq!(scene.at_home(bind), CompletionStatus::WindowBind, "{rule}");
        let after = scene.at_home(scene.bind(8));
        assert_eq!(after, CompletionStatus::Flushed, "{rule}");
    }
}

#[test]
fn a_zero_based_window_counts_from_zero() {
    let mut scene = Scene::new(WindowKind::Type2);
    let mut bind = scene.bind(7);
    if let Operation::BindWindow { access, .. } = &mut bind {
        *access = Access::REMOTE_WRITE | Access::ZERO_BASED;
    }
    scene.at_home(bind);
    scene.pair.nodes[0].fill(0, 4, 0xab);
    let write = Operation::Write { remote_address: 96, r_key: scene.key(7), immediate: None };
    let from = scene.pair.nodes[0].sge(0, 4);
    scene.pair.post(0, 1, write, &[from]);
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::Success);
    let sent = scene.pair.nodes[0].bytes(0, 4);
    assert_eq!(scene.pair.nodes[1].bytes(196, 4), sent);
}

#[test]
fn a_bind_completes_in_its_turn_and_is_done_once_though_packets_are_lost() {
    let mut scene = Scene::new(WindowKind::Type1);
    scene.pair.rule(|packet| match packet.index {
        0 | 2 => Verdict::Drop,
        _ => Verdict::Deliver,
    });
    let from = scene.pair.nodes[1].sge(0, 20_000);
    let write = scene.pair.write(0, 0);
    let bind = scene.bind(7);
    scene.pair.post(1, 1, write, &[from]);
    scene.pair.post(1, 2, bind, &[]);
    scene.pair.post(1, 3, write, &[from]);
    scene.pair.try_post(1, 4, scene.bind(8), &[], SendFlags::NONE).unwrap();
    scene.pair.drive();
    let success = CompletionStatus::Success;
    assert_eq!(statuses(&mut scene.pair.nodes[1]), [(1, success), (2, success), (3, success)]);
    assert_eq!(scene.write(8, 100, 1), success, "the second, unsignalled, was done too");
}

#[test]
fn a_bind_between_unreliable_writes_completes_in_its_turn() {
    let mut scene = Scene::over(QpType::Uc, WindowKind::Type2);
    let from = scene.pair.nodes[1].sge(0, 10_000);
    let write = scene.pair.write(0, 0);
    scene.pair.post(1, 1, write, &[from]);
    let bind = scene.bind(7);
    scene.pair.post(1, 2, bind, &[]);
    scene.pair.post(1, 3, write, &[from]);
    scene.pair.drive();
    let ids: Vec<u64> = scene.pair.nodes[1].completions().iter().map(|done| done.id).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(scene.write(7, 100, 1), CompletionStatus::Success);
}

#[test]
fn a_region_outlives_its_windows_and_a_window_goes_with_its_keys() {
    let mut scene = Scene::new(WindowKind::Type2);
    scene.at_home(scene.bind(7));
    let endpoint = &mut scene.pair.nodes[1].endpoint;
    assert_eq!(endpoint.deregister(scene.region), Err(DestroyError::InUse));
    let (pd, spec) = endpoint.query_region(scene.region).unwrap();
    assert_eq!(endpoint.reregister(scene.region, pd, spec), Err(RegisterError::InUse));
    assert_eq!(endpoint.deregister(scene.window), Err(DestroyError::NotFound), "not a region");
    assert_eq!(endpoint.dealloc_window(scene.region), Err(DestroyError::NotFound));
    assert_eq!(endpoint.dealloc_window(scene.window), Ok(()));
    assert_eq!(endpoint.deregister(scene.region), Ok(()));
    assert_eq!(scene.write(7, 100, 1), CompletionStatus::RemoteAccess);
}

#[test]
fn a_queue_pair_that_goes_frees_its_windows() {
    let mut scene = Scene::new(WindowKind::Type2);
    scene.at_home(scene.bind(7));
    let node = &mut scene.pair.nodes[1];
    node.endpoint.destroy_qp(node.qpn).unwrap();
    assert_eq!(node.endpoint.deregister(scene.region), Ok(()));
}

#[test]
fn a_window_has_no_local_key() {
    let mut scene = Scene::new(WindowKind::Type1);
    scene.at_home(scene.bind(7));
    let mut from = scene.pair.nodes[1].sge(100, 8);
    from.l_key = scene.key(7);
    let write = scene.pair.write(0, 0);
    scene.pair.post(1, 1, write, &[from]);
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[1]).status, CompletionStatus::LocalProtection);
}

#[test]
fn a_request_before_a_bind_asks_for_its_acknowledgement_when_it_is_sent_again_too() {
    let mut scene = Scene::new(WindowKind::Type2);
    let from = scene.pair.nodes[1].sge(0, 8);
    scene.pair.post(1, 1, Pair::send(), &[from]);
    scene.pair.post(1, 2, scene.bind(7), &[]);
    // The receive comes late, so that the SEND goes out twice. The bind is done the first time.
    scene.pair.drive_for(rdma::Span::from_us(10));
    let to = scene.pair.nodes[0].sge(0, 8);
    scene.pair.post_recv(0, 3, &[to]);
    scene.pair.drive();
    let expected = [(1, CompletionStatus::Success), (2, CompletionStatus::Success)];
    assert_eq!(statuses(&mut scene.pair.nodes[1]), expected);
    let stats = scene.pair.nodes[1].endpoint.stats();
    assert_eq!((stats.rcvd_rnr_err, stats.local_ack_timeout_err), (1, 0));
}
