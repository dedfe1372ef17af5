//! Memory regions: which keys reach which addresses, and how (IBTA vol 1, 10.6).

use alloc::vec::Vec;

use rdma::{Access, Key, MemoryFault, Sge};

use crate::limits::REGIONS_MAX;
use crate::{DestroyError, PdId, RegisterError};

/// What to register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// Where the memory is: the address that [`rdma::Memory`] is called with.
    pub address: u64,
    /// In bytes. An empty region can be registered, and nothing in it reached.
    pub length: u64,
    /// The address by which requests name its first byte (the same as `address`, unless the
    /// application chose its own; 0 for a zero-based region).
    pub iova: u64,
    /// What may be done to it.
    pub access: Access,
}

/// A key, an address or a right does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyViolation;

/// How old a translation is: see [`RegionTable::epoch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Epoch(u64);

#[derive(Debug)]
struct Region {
    pd: PdId,
    spec: RegionSpec,
}

/// The regions of an endpoint, by key.
///
/// **Invariant:** a key is of use only between the call that returned it and its deregistration:
/// its tag changes each time that its index is given out.
#[derive(Debug, Default)]
pub(crate) struct RegionTable {
    entries: Vec<(u8, Option<Region>)>,
    free: Vec<u32>,
    epoch: Epoch,
}

impl RegionTable {
    pub(crate) fn register(&mut self, pd: PdId, spec: RegionSpec) -> Result<Key, RegisterError> {
        if spec.access.needs_local_write() && !spec.access.allows(Access::LOCAL_WRITE) {
            return Err(RegisterError::Access);
        }
        let wraps = |start: u64| spec.length > 0 && start.checked_add(spec.length - 1).is_none();
        if wraps(spec.address) || wraps(spec.iova) {
            return Err(RegisterError::Range);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                // Index 0 is never used, so that the key 0 never reaches anything.
                if self.entries.is_empty() {
                    self.entries.push((0, None));
                }
                let index = u32::try_from(self.entries.len())
                    .ok()
                    .filter(|&index| index <= REGIONS_MAX)
                    .ok_or(RegisterError::Exhausted)?;
                self.entries.push((0, None));
                index
            }
        };
        let (tag, region) = &mut self.entries[index as usize];
        *tag = tag.wrapping_add(1);
        *region = Some(Region { pd, spec });
        Ok(Key::from_parts(index, *tag))
    }

    /// Forgets the region. Returns the protection domain that it belonged to.
    pub(crate) fn deregister(&mut self, key: Key) -> Result<PdId, DestroyError> {
        let (tag, region) =
            self.entries.get_mut(key.index() as usize).ok_or(DestroyError::NotFound)?;
        if *tag != key.tag() {
            return Err(DestroyError::NotFound);
        }
        let region = region.take().ok_or(DestroyError::NotFound)?;
        self.free.push(key.index());
        self.epoch.0 += 1;
        Ok(region.pd)
    }

    /// Changes whenever a translation made earlier may have become invalid. While it stays, a
    /// translation need not be made again.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Checks that `key` reaches `length` bytes at `iova` with the rights `needed` in `pd`.
    /// Returns their address in memory.
    pub(crate) fn resolve(
        &self,
        key: Key,
        pd: PdId,
        iova: u64,
        length: u64,
        needed: Access,
    ) -> Result<u64, KeyViolation> {
        let (tag, region) = self.entries.get(key.index() as usize).ok_or(KeyViolation)?;
        let region = region.as_ref().filter(|_| *tag == key.tag()).ok_or(KeyViolation)?;
        let offset = iova.checked_sub(region.spec.iova).ok_or(KeyViolation)?;
        let fits = offset.checked_add(length).is_some_and(|end| end <= region.spec.length);
        if region.pd != pd || !fits || !region.spec.access.allows(needed) {
            return Err(KeyViolation);
        }
        Ok(region.spec.address + offset)
    }

    /// Resolves every piece of `list` into `resolved`, whose addresses are those of memory. Empty
    /// pieces need no key.
    pub(crate) fn resolve_list(
        &self,
        list: &[Sge],
        pd: PdId,
        needed: Access,
        resolved: &mut SgeList,
    ) -> Result<(), KeyViolation> {
        resolved.clear();
        for sge in list.iter().filter(|sge| sge.length > 0) {
            let address =
                self.resolve(sge.l_key, pd, sge.address, u64::from(sge.length), needed)?;
            resolved.push(Sge { address, ..*sge });
        }
        Ok(())
    }
}

/// A scatter-gather list; most have one or two pieces.
pub(crate) type SgeList = smallvec::SmallVec<[Sge; 2]>;

/// Stores `length` bytes from byte `offset` of `list` on, whose addresses are those of memory:
/// `put` is called with an address, where in those bytes it stands, and how many go there. What
/// does not fit the list is not stored.
pub(crate) fn scatter(
    list: &[Sge],
    offset: u64,
    length: usize,
    mut put: impl FnMut(u64, usize, usize) -> Result<(), MemoryFault>,
) -> Result<(), MemoryFault> {
    let (mut skip, mut done) = (offset, 0);
    for sge in list {
        if done == length {
            break;
        }
        let piece = u64::from(sge.length);
        if skip >= piece {
            skip -= piece;
            continue;
        }
        let room = usize::try_from(piece - skip).unwrap_or(usize::MAX).min(length - done);
        put(sge.address + skip, done, room)?;
        done += room;
        skip = 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PD: PdId = PdId(1);

    fn spec(access: Access) -> RegionSpec {
        RegionSpec { address: 0x1000, length: 0x100, iova: 0x5000, access }
    }

    #[test]
    fn the_bounds_are_exact_and_translated() {
        let mut table = RegionTable::default();
        let key = table.register(PD, spec(Access::NONE)).unwrap();
        let resolve = |iova, length| table.resolve(key, PD, iova, length, Access::NONE);
        assert_eq!(resolve(0x5000, 0x100), Ok(0x1000));
        assert_eq!(resolve(0x50ff, 1), Ok(0x10ff));
        assert_eq!(resolve(0x5100, 0), Ok(0x1100));
        assert_eq!(resolve(0x4fff, 1), Err(KeyViolation));
        assert_eq!(resolve(0x50ff, 2), Err(KeyViolation));
        assert_eq!(resolve(0x5001, u64::MAX), Err(KeyViolation));
        assert_eq!(resolve(0x1000, 1), Err(KeyViolation), "memory's address is not the iova");
    }

    #[test]
    fn a_key_is_void_in_another_domain_without_the_right_and_after_deregistration() {
        let mut table = RegionTable::default();
        let key = table.register(PD, spec(Access::REMOTE_READ)).unwrap();
        let check = |table: &RegionTable, pd, needed| table.resolve(key, pd, 0x5000, 1, needed);
        assert!(check(&table, PD, Access::REMOTE_READ).is_ok());
        assert!(check(&table, PdId(2), Access::REMOTE_READ).is_err());
        assert!(check(&table, PD, Access::LOCAL_WRITE).is_err());
        let epoch = table.epoch();
        assert_eq!(table.deregister(key), Ok(PD));
        assert_ne!(table.epoch(), epoch);
        assert!(check(&table, PD, Access::REMOTE_READ).is_err());
        assert_eq!(table.deregister(key), Err(DestroyError::NotFound));
        let again = table.register(PD, spec(Access::REMOTE_READ)).unwrap();
        assert_eq!(again.index(), key.index());
        assert!(check(&table, PD, Access::REMOTE_READ).is_err(), "the old key stays void");
    }

    #[test]
    fn impossible_regions_are_refused() {
        let mut table = RegionTable::default();
        assert_eq!(table.register(PD, spec(Access::REMOTE_WRITE)), Err(RegisterError::Access));
        let wrapping = RegionSpec { address: u64::MAX, length: 2, ..spec(Access::NONE) };
        assert_eq!(table.register(PD, wrapping), Err(RegisterError::Range));
        let last = RegionSpec { address: u64::MAX - 1, length: 2, ..spec(Access::NONE) };
        assert!(table.register(PD, last).is_ok());
    }

    #[test]
    fn the_zero_key_reaches_nothing() {
        let mut table = RegionTable::default();
        table.register(PD, RegionSpec { iova: 0, ..spec(Access::NONE) }).unwrap();
        assert!(table.resolve(Key(0), PD, 0, 0, Access::NONE).is_err());
    }
}
