//! The body of the fuzz target `engine`: arbitrary packets into queue pairs in every state.
//!
//! The input is a small program. Packets are raw bytes, or are made from fields near what the
//! engine expects, since few random ones would pass the first check. What must hold at the end of
//! it is asserted: no panic, no byte written outside the region, completions only for what was
//! posted, and no more of them than that.

mod manager;

use std::vec;
use std::vec::Vec;

use rdma::{Access, Key, Operation, Psn, QpState, QpType, Qpn, SendFlags, Sge, Span, WorkRequest};
use wire::bth::{Sign, Stride};
use wire::saeth::{Arrived, RANGES};
use wire::{Opcode, roce};

use super::{Pair, TestMemory, Verdict};
use crate::congestion::{Bbr, Congestion, Dcqcn};
use crate::limits::STRIDE_MAX;
use crate::{Arrival, BetweenHosts, Config, QpChange, RegionSpec, WindowKind};
pub use manager::manager;

/// The region that a peer may reach: these bytes of memory, and no other.
const REGION: core::ops::Range<u64> = 0x1000..0x3000;
/// How much of the memory is checked for stray writes.
const CHECKED: usize = 0x6000;
/// Receives land here.
const RECEIVES: core::ops::Range<u64> = 0x4000..0x5000;

/// Reads the input; zeros when there is no more.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let length = length.min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken.to_vec()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Runs one input.
///
/// # Panics
/// If the engine breaks a promise.
pub fn engine(data: &[u8]) {
    let mut input = Input(data);
    let first = input.byte();
    let kind = [QpType::Rc, QpType::Uc, QpType::Ud][usize::from(first % 3)];
    let congestion = [Congestion::None, Congestion::Dcqcn(Dcqcn::default())];
    let congestion = congestion[usize::from(first >> 7)];
    let state = input.byte() % 7;
    // A second of two hosts, which finds out whether its peer repeats selectively, and how long packets may be.
    let is_between_hosts = first & 0x40 != 0;
    let between_hosts = is_between_hosts.then_some(BetweenHosts {
        congestion: Congestion::Bbr(Bbr::DEFAULT),
        window_bytes: 1 << 16,
        refill_bytes: 0,
        signs: true,
        out_of_order_packets: 64,
        out_of_order_bytes: 1 << 16,
        stride_max: STRIDE_MAX,
    });
    let config = Config { window_bytes: 1 << 16, congestion, between_hosts, ..Config::default() };
    let mut pair = Pair::with_memory(config, CHECKED);
    let adjust = |change: &mut QpChange| {
        let is_rtr = change.state == Some(QpState::Rtr);
        change.between_hosts = is_rtr.then_some(is_between_hosts);
    };
    pair.connect(kind, [None, None], adjust);
    pair.rule(|_| Verdict::Drop);
    let (pd, all_key) = (pair.nodes[1].pd, pair.nodes[1].key);
    let rights =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let region = RegionSpec {
        address: TestMemory::BASE + REGION.start,
        length: REGION.end - REGION.start,
        iova: REGION.start,
        access: rights | Access::MW_BIND,
    };
    let endpoint = &mut pair.nodes[1].endpoint;
    let r_key = endpoint.register(pd, region).expect("the region is right");
    // What a window reaches, its region reaches as well.
    let kind_of_window = [WindowKind::Type1, WindowKind::Type2][usize::from(state & 1)];
    let window = endpoint.alloc_window(pd, kind_of_window).expect("there is room");
    let whole = RegionSpec {
        address: TestMemory::BASE,
        length: CHECKED as u64,
        iova: TestMemory::BASE,
        access: Access::LOCAL_WRITE,
    };
    // The region over everything that `Pair` makes would allow what must not happen.
    endpoint.deregister(all_key).expect("it is there");
    let l_key = endpoint.register(pd, whole).expect("the region is right");
    pair.nodes[1].memory.at(TestMemory::BASE, CHECKED).fill(0xee);
    let list = [Sge {
        address: TestMemory::BASE + RECEIVES.start,
        length: (RECEIVES.end - RECEIVES.start) as u32,
        l_key,
    }];
    let qpn = pair.nodes[1].qpn;
    let mut posted = 0_u64;
    let change = match state {
        1 => Some(QpChange::to(QpState::Error)),
        2 => Some(QpChange::to(QpState::Reset)),
        3 => Some(QpChange::to(QpState::Sqd)),
        4 | 5 => Some(QpChange::to(QpState::Reset)),
        _ => None,
    };
    if let Some(change) = change {
        // SQD, ERROR and RESET can all be reached from RTS.
        pair.nodes[1].endpoint.modify_qp(qpn, &change).expect("a legal transition");
    }
    let ups: &[QpState] = match state {
        4 => &[QpState::Init],
        5 => &[QpState::Init, QpState::Rtr],
        _ => &[],
    };
    for &up in ups {
        let change = pair.change(1, kind, up, &adjust);
        pair.nodes[1].endpoint.modify_qp(qpn, &change).expect("a legal transition");
    }
    for _ in 0..256 {
        if input.is_empty() {
            break;
        }
        step(&mut pair, &mut input, kind, Keys { r_key, l_key, window }, &list, &mut posted);
    }
    pair.drive_for(Span::from_ms(1));
    let completions = pair.nodes[1].completions();
    assert!(completions.len() as u64 <= posted, "more completions than requests");
    assert!(completions.iter().all(|completion| completion.id < posted));
    let memory = pair.nodes[1].bytes(0, CHECKED);
    for (offset, &byte) in memory.iter().enumerate() {
        let offset = offset as u64;
        let reachable = REGION.contains(&offset) || RECEIVES.contains(&offset);
        assert!(reachable || byte == 0xee, "byte {offset:#x} was written");
    }
}

/// Keys of node 1.
#[derive(Clone, Copy)]
struct Keys {
    /// Reaches the region.
    r_key: Key,
    /// Reaches all that is checked, for its owner.
    l_key: Key,
    /// Names a window, whatever its tag.
    window: Key,
}

impl Keys {
    /// The window's key with one of a few tags.
    fn window(&self, input: &mut Input<'_>) -> Key {
        Key::from_parts(self.window.index(), input.byte() % 4)
    }
}

fn step(
    pair: &mut Pair,
    input: &mut Input<'_>,
    kind: QpType,
    keys: Keys,
    list: &[Sge],
    posted: &mut u64,
) {
    let l_key = keys.l_key;
    let node = &mut pair.nodes[1];
    let qpn = node.qpn;
    match input.byte() % 8 {
        0 => {
            let length = usize::from(input.byte());
            let bytes = input.bytes(length);
            inject(pair, &bytes);
        }
        1 => {
            let request = rdma::RecvRequest { id: *posted, sges: list };
            if node.endpoint.post_recv(qpn, &request).is_ok() {
                *posted += 1;
            }
        }
        2 => {
            let remote_address = u64::from(input.word() & 0xffff);
            let (length, key) = (input.word() & 0x1fff, Key(input.word()));
            let bound = keys.window(input);
            let operation = match (input.byte() % 8, kind) {
                (_, QpType::Ud) => pair.datagram(0, rdma::QKey(0x1111)),
                (0, _) => Operation::Send { immediate: None, address: None },
                (1, _) => Operation::Write { remote_address, r_key: key, immediate: None },
                (2, _) => Operation::Read { remote_address, r_key: key },
                (3, _) => Operation::AtomicWrite { remote_address, r_key: key, bytes: [0x55; 8] },
                (4, _) => Operation::SendInvalidate { r_key: key },
                (5, _) => Operation::LocalInvalidate { r_key: bound },
                (6, _) => Operation::BindWindow {
                    r_key: bound,
                    region: keys.r_key,
                    address: remote_address,
                    length: length.into(),
                    access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
                },
                _ => Operation::FetchAdd { remote_address, r_key: key, add: 1 },
            };
            let sge = Sge { address: TestMemory::BASE + RECEIVES.start, length, l_key };
            let request = WorkRequest {
                id: *posted,
                operation,
                flags: SendFlags::SIGNALED,
                sges: &[Sge { length: sge.length % 0x1000, ..sge }],
                inline: None,
            };
            let node = &mut pair.nodes[1];
            if node.endpoint.post_send(pair.now, qpn, &request).is_ok() {
                *posted += 1;
            }
        }
        3 => pair.drive_for(Span::from_us(u64::from(input.byte()) * 1000)),
        _ => {
            let bytes = packet(input, pair, keys);
            inject(pair, &bytes);
        }
    }
}

/// A packet of a known opcode, with fields near what the engine expects.
fn packet(input: &mut Input<'_>, pair: &Pair, keys: Keys) -> Vec<u8> {
    let codes: Vec<Opcode> = Opcode::all().collect();
    let opcode = codes[usize::from(input.byte()) % codes.len()];
    let node = &pair.nodes[1];
    let query = node.endpoint.query_qp(node.qpn).expect("it was made");
    let near = if opcode.is_request() { query.rq_psn } else { query.sq_psn };
    let psn = Psn::new(near.value().wrapping_add(u32::from(input.byte() % 16)).wrapping_sub(8));
    let mut header = roce::Repr::new(opcode, node.qpn, psn);
    let length = match input.byte() % 4 {
        0 => 0,
        1 => 1024,
        2 => input.word() % 1100,
        _ => u32::from(input.byte()),
    };
    let flags = input.byte();
    header.bth.ack_request = flags & 1 != 0;
    header.bth.solicited = flags & 2 != 0;
    let key = match (flags & 4 != 0, flags & 32 != 0) {
        (true, _) => Key(input.word()),
        (_, true) => keys.window(input),
        _ => keys.r_key,
    };
    header.invalidate = Some(key);
    let near_edge = if flags & 8 != 0 { REGION.end } else { REGION.start };
    let address = near_edge.wrapping_add(u64::from(input.byte())).wrapping_sub(64);
    let asked = if flags & 16 != 0 { input.word() } else { length };
    header.reth = Some(wire::reth::Repr { address, r_key: key, length: asked });
    header.atomic = Some(wire::atomic_eth::Repr {
        address: address & !u64::from(flags & 7),
        r_key: key,
        swap_or_add: u64::from(input.byte()),
        compare: 0xeeee_eeee_eeee_eeee,
    });
    header.deth = Some(wire::deth::Repr { q_key: rdma::QKey(0x1111), source: Qpn::new(2) });
    let syndrome = wire::aeth::Syndrome::from_bits(input.byte());
    header.aeth = Some(wire::aeth::Repr { syndrome, msn: 0 });
    header.atomic_ack = Some(7);
    header.immediate = Some([1, 2, 3, 4]);
    if query.attributes.between_hosts {
        let signs = [Sign::None, Sign::Selective, Sign::Twice, Sign::Narrowed];
        header.bth.sign = signs[usize::from(flags >> 6)];
        header.bth.stride = Stride::fitting(128 * u32::from(input.byte()));
        let mut arrived =
            || Arrived { first: u16::from(input.byte()), packets: u16::from(input.byte() % 64) };
        header.selective = Some(wire::saeth::Repr { ranges: [(); RANGES].map(|()| arrived()) });
        let [offset, whole] = [(); 2].map(|()| u16::from(input.byte()) * 64);
        header.part = Some(wire::parteth::Repr { offset, whole });
    }
    let payload = match opcode {
        Opcode::CNP => wire::cnp::RESERVED_LEN,
        _ if opcode.facts().payload => length as usize,
        _ => 0,
    };
    let header = header.padded_for(payload as u32);
    let mut bytes = vec![0; header.header_len() + payload + usize::from(header.bth.pad)];
    header.emit(&mut bytes);
    bytes
}

fn inject(pair: &mut Pair, bytes: &[u8]) {
    let arrival = Arrival {
        source: pair.nodes[0].gid,
        destination: pair.nodes[1].gid,
        // Marked for congestion, so that there is something to say of each.
        traffic_class: 3,
        hop_limit: 64,
    };
    pair.inject(1, &arrival, bytes);
}
