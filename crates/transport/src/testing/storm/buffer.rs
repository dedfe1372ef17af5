//! Memory for requests: pieces of a node's ground, in regions.

use std::vec::Vec;

use rdma::{Access, Key, QpType, Sge};

use super::ground::Ground;
use super::link::WindowId;
use super::plan::LinkPlan;
use super::world::World;
use crate::RegionSpec;

/// A request is only one in so many that has regions of its own.
pub(super) const OWN_REGION_PERMILLE: u64 = 250;

/// Memory as a request names it.
pub(super) struct Buffer {
    /// Pieces in addresses of memory, none empty.
    pub(super) pieces: Vec<(u64, u32)>,
    /// As posted.
    pub(super) sges: Vec<Sge>,
    /// The region that is the request's own.
    pub(super) own: Option<Key>,
}

/// Memory of the peer as a request names it.
pub(super) struct Remote {
    pub(super) address: u64,
    pub(super) r_key: Key,
    /// Where it is.
    pub(super) real: u64,
    /// The region that is the request's own.
    pub(super) own: Option<Key>,
    /// Whether nothing but this request is about it.
    pub(super) is_ours: bool,
    /// The window that it is reached through.
    pub(super) through: Option<WindowId>,
}

impl World<'_> {
    /// How long a message is: at most `most`, and near what makes a difference.
    pub(super) fn length(&mut self, plan: &LinkPlan, most: u64) -> u64 {
        let random = &mut self.random;
        let mtu = u64::from(plan.mtu.bytes());
        let most = if plan.kind == QpType::Ud { 4096 } else { most };
        let multiple = mtu * random.between(1, 9);
        let length = match random.below(12) {
            0 => 0,
            1 => 1,
            2 => random.between(2, 64),
            3 => multiple - 1,
            4 => multiple + 1,
            5 | 6 => multiple,
            7 => random.below(most),
            _ => random.below(mtu * 4),
        };
        length.min(most)
    }

    /// Memory at `node` for `length` bytes, in one to four pieces; perhaps in a region of its own.
    pub(super) fn buffer(
        &mut self,
        node: usize,
        length: u64,
        pieces: u64,
        access: Access,
    ) -> Option<Buffer> {
        let random = &mut self.random;
        let mut cuts: Vec<u64> = (1..pieces).map(|_| random.below(length + 1)).collect();
        cuts.extend([0, length]);
        cuts.sort_unstable();
        let own = random.chance(OWN_REGION_PERMILLE) && length > 0;
        let shift = random.next() & 0xffff_ffff_0000;
        let node = &mut self.nodes[node];
        // A region of its own is contiguous: the pieces lie in it with holes between them.
        let lengths: Vec<u64> = cuts.windows(2).map(|cut| cut[1] - cut[0]).collect();
        let span: u64 = lengths.iter().map(|length| length + 16).sum();
        let mut at = node.ground.allocate(span)?;
        let (mut address, mut key) = (at, node.key);
        let mut shifted = 0;
        if own {
            // The last piece ends where the region does, less its hole.
            let spec = RegionSpec { address, length: span - 16, iova: at ^ shift, access };
            key = node.endpoint.register(node.pd, spec).ok()?;
            node.keys.push(key);
            shifted = spec.iova.wrapping_sub(address);
        }
        let mut buffer = Buffer { pieces: Vec::new(), sges: Vec::new(), own: own.then_some(key) };
        for length in lengths {
            let piece = length as u32;
            let sge = Sge { address: at.wrapping_add(shifted), length: piece, l_key: key };
            buffer.sges.push(sge);
            if length > 0 {
                buffer.pieces.push((at, piece));
            }
            at += length + 16;
            address = at;
        }
        debug_assert!(address >= Ground::BASE);
        Some(buffer)
    }
}
