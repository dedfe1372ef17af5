//! Frames that several tests send.

use core::net::{Ipv4Addr, Ipv6Addr};

use rdma::{Key, Psn, QKey, Qpn};
use wire::ethernet::Address;
use wire::frame::Ip;
use wire::opcode::Headers;
use wire::{Frame, Opcode, aeth, atomic_eth, deth, reth, roce};

pub(crate) const HOST1: Address = Address([2, 0, 0, 0, 0, 1]);
pub(crate) const HOST2: Address = Address([2, 0, 0, 0, 0, 2]);

pub(crate) fn ipv4() -> Ip {
    Ip::V4 {
        source: Ipv4Addr::new(10, 77, 0, 1),
        destination: Ipv4Addr::new(10, 77, 0, 2),
        tos: 26 << 2 | 2,
        id: 0x1234,
        dont_fragment: true,
        ttl: 64,
    }
}

pub(crate) fn ipv6() -> Ip {
    Ip::V6 {
        source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
        traffic_class: 26 << 2,
        flow_label: 0x1_2345,
        hop_limit: 64,
    }
}

/// A frame of `opcode` with every header that it has, all of them told apart by `seed`.
pub(crate) fn frame(ip: Ip, opcode: Opcode, seed: u32, payload: &[u8]) -> Frame<'_> {
    let facts = opcode.facts();
    let has = |header| facts.headers.has(header);
    let (destination, psn) = (Qpn::new(0x12_0000 + seed), Psn::new(0xab_0000 + seed));
    let (address, r_key) = (0x7fff_0000_1000 + u64::from(seed), Key(0x1200 + seed));
    let cnp = opcode == Opcode::CNP;
    let payload = match (cnp, facts.payload) {
        (true, _) => &[0; 16],
        (_, true) => payload,
        (_, false) => &[],
    };
    let atomic = atomic_eth::Repr { address, r_key, swap_or_add: 7, compare: 9 };
    let source = Qpn::new(0x55_0000 + seed);
    let mut roce = roce::Repr {
        xrc_srqn: has(Headers::XRCETH).then_some(Qpn::new(0x77_0000 + seed)),
        deth: has(Headers::DETH).then_some(deth::Repr { q_key: QKey(0x1111_1111), source }),
        reth: has(Headers::RETH).then_some(reth::Repr { address, r_key, length: 4096 }),
        atomic: has(Headers::ATOMIC_ETH).then_some(atomic),
        aeth: has(Headers::AETH)
            .then_some(aeth::Repr { syndrome: aeth::Syndrome::ACK, msn: 0x100 + seed }),
        atomic_ack: has(Headers::ATOMIC_ACK_ETH).then_some(0x0102_0304_0506_0708),
        immediate: has(Headers::IMMDT).then_some([1, 2, 3, 4]),
        invalidate: has(Headers::IETH).then_some(Key(0xcafe)),
        ..roce::Repr::new(opcode, destination, if cnp { Psn::new(0) } else { psn })
    }
    .padded_for(payload.len() as u32);
    roce.bth.becn = cnp;
    Frame { source: HOST1, destination: HOST2, vlan: None, ip, source_port: 49_192, roce, payload }
}
