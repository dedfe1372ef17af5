//! Memory regions: which keys reach which addresses, and how (IBTA vol 1, 10.6).

mod window;

use alloc::vec::Vec;

use rdma::{Access, Key, MemoryFault, Sge};

use crate::failure::KeyViolation;
use crate::limits::REGIONS_MAX;
use crate::mutation::{Mutation, mutated};
use crate::secret::Secret;
use crate::{DestroyError, PdId, RegisterError};

use window::MemoryWindow;
pub use window::WindowKind;
pub(crate) use window::{Bind, Holder};

/// What to register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// Where the memory is: the address that [`rdma::Memory`] is called with.
    pub address: u64,
    /// In bytes. An empty region can be registered; it reaches nothing.
    pub length: u64,
    /// The address by which requests name its first byte (the same as `address`, unless the
    /// application chose its own; 0 for a zero-based region).
    pub iova: u64,
    /// What may be done to it.
    pub access: Access,
}

/// How old a translation is: see [`RegionTable::epoch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Epoch(u64);

#[derive(Debug)]
struct Region {
    pd: PdId,
    spec: RegionSpec,
    /// How many windows are bound to it.
    windows: u32,
}

impl RegionSpec {
    fn check(&self) -> Result<(), RegisterError> {
        if self.access.needs_local_write() && !self.access.allows(Access::LOCAL_WRITE) {
            return Err(RegisterError::Access);
        }
        let wraps = |start: u64| self.length > 0 && start.checked_add(self.length - 1).is_none();
        if wraps(self.address) || wraps(self.iova) {
            return Err(RegisterError::Range);
        }
        Ok(())
    }
}

impl Region {
    fn resolve(
        &self,
        pd: PdId,
        iova: u64,
        length: u64,
        needed: Access,
    ) -> Result<u64, KeyViolation> {
        let offset = iova.checked_sub(self.spec.iova).ok_or(KeyViolation::Bounds)?;
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.spec.length);
        let fits = fits || mutated(Mutation::BoundsIgnored);
        let allowed = self.spec.access.allows(needed) || mutated(Mutation::RightsIgnored);
        let same_domain = self.pd == pd || mutated(Mutation::DomainIgnored);
        if !same_domain || !fits || !allowed {
            return Err(violation(same_domain, fits));
        }
        Ok(self.spec.address + offset)
    }
}

/// What does not fit, of a key that names something; rights, if the rest does.
#[cold]
fn violation(same_domain: bool, fits: bool) -> KeyViolation {
    match (same_domain, fits) {
        (false, _) => KeyViolation::Domain,
        (true, false) => KeyViolation::Bounds,
        (true, true) => KeyViolation::Rights,
    }
}

/// What a key names.
#[derive(Debug)]
enum Entry {
    Region(Region),
    Window(MemoryWindow),
}

/// The regions and windows of an endpoint, by key.
///
/// **Invariant:** a key is of use only between the call that returned it and its deregistration:
/// its tag changes each time that its index is given out.
#[derive(Debug)]
pub(crate) struct RegionTable {
    /// The tag of each index, and what it names.
    entries: Vec<(u8, Option<Entry>)>,
    free: Vec<u32>,
    /// How the tags go on.
    secret: Secret,
    epoch: Epoch,
    /// How many windows are bound to a region.
    bound_windows: u32,
    /// The last index that is given out.
    last: u32,
}

impl RegionTable {
    pub(crate) fn new(secret: Secret) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            secret,
            epoch: Epoch::default(),
            bound_windows: 0,
            last: REGIONS_MAX,
        }
    }

    pub(crate) fn register(&mut self, pd: PdId, spec: RegionSpec) -> Result<Key, RegisterError> {
        spec.check()?;
        self.insert(Entry::Region(Region { pd, spec, windows: 0 }))
    }

    /// Changes a region and keeps its key. Returns its former protection domain.
    pub(crate) fn reregister(
        &mut self,
        key: Key,
        pd: PdId,
        spec: RegionSpec,
    ) -> Result<PdId, RegisterError> {
        spec.check()?;
        let region = self.region(key).ok_or(RegisterError::NotFound)?;
        // IBTA vol 1, 11.2.8.5: not while a window is bound to it.
        if region.windows > 0 {
            return Err(RegisterError::InUse);
        }
        let region = self.region_mut(key.index()).ok_or(RegisterError::NotFound)?;
        let before = core::mem::replace(region, Region { pd, spec, windows: 0 });
        self.epoch.0 += 1;
        Ok(before.pd)
    }

    /// A region's protection domain and its specification.
    pub(crate) fn query(&self, key: Key) -> Option<(PdId, RegionSpec)> {
        self.region(key).map(|region| (region.pd, region.spec))
    }

    /// Deregisters the region. Returns its protection domain.
    pub(crate) fn deregister(&mut self, key: Key) -> Result<PdId, DestroyError> {
        let region = self.region(key).ok_or(DestroyError::NotFound)?;
        let pd = region.pd;
        // IBTA vol 1, 10.6.7.2.1: not while a window is bound to it.
        if region.windows > 0 {
            return Err(DestroyError::InUse);
        }
        self.remove(key.index());
        Ok(pd)
    }

    fn insert(&mut self, entry: Entry) -> Result<Key, RegisterError> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                // Index 0 is never used, so that the key 0 never reaches anything.
                if self.entries.is_empty() {
                    self.entries.push((0, None));
                }
                let index = u32::try_from(self.entries.len())
                    .ok()
                    .filter(|&index| index <= self.last)
                    .ok_or(RegisterError::Exhausted)?;
                self.entries.push((0, None));
                index
            }
        };
        let (tag, place) = &mut self.entries[index as usize];
        *tag = tag.wrapping_add(self.secret.step());
        *place = Some(entry);
        Ok(Key::from_parts(index, *tag))
    }

    fn remove(&mut self, index: u32) {
        if let Some((_, entry)) = self.entries.get_mut(index as usize) {
            *entry = None;
            self.free.push(index);
            self.epoch.0 += u64::from(!mutated(Mutation::EpochStands));
        }
    }

    fn tag(&self, index: u32) -> Option<u8> {
        self.entries.get(index as usize).map(|(tag, _)| *tag)
    }

    /// From now on the index goes with another tag.
    fn retag(&mut self, index: u32, new: u8) {
        if let Some((tag, _)) = self.entries.get_mut(index as usize) {
            *tag = new;
            self.epoch.0 += 1;
        }
    }

    fn entry(&self, key: Key) -> Option<&Entry> {
        let (tag, entry) = self.entries.get(key.index() as usize)?;
        entry.as_ref().filter(|_| *tag == key.tag() || mutated(Mutation::TagIgnored))
    }

    fn region(&self, key: Key) -> Option<&Region> {
        match self.entry(key)? {
            Entry::Region(region) => Some(region),
            Entry::Window(_) => None,
        }
    }

    fn region_mut(&mut self, index: u32) -> Option<&mut Region> {
        match self.entries.get_mut(index as usize)?.1.as_mut()? {
            Entry::Region(region) => Some(region),
            Entry::Window(_) => None,
        }
    }

    /// Changes whenever an earlier translation may have become invalid; until then translations
    /// stay good.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Checks that `key` is a region's, and reaches `length` bytes at `iova` with the rights
    /// `needed` in `pd`. Returns their address in memory.
    pub(crate) fn resolve(
        &self,
        key: Key,
        pd: PdId,
        iova: u64,
        length: u64,
        needed: Access,
    ) -> Result<u64, KeyViolation> {
        self.region(key).ok_or(KeyViolation::Unknown)?.resolve(pd, iova, length, needed)
    }

    /// The same for an R_Key that the peer of `holder` presents, which may be a window's.
    pub(crate) fn resolve_remote(
        &self,
        key: Key,
        holder: Holder,
        iova: u64,
        length: u64,
        needed: Access,
    ) -> Result<u64, KeyViolation> {
        match self.entry(key).ok_or(KeyViolation::Unknown)? {
            Entry::Region(region) => region.resolve(holder.pd, iova, length, needed),
            Entry::Window(window) => window.resolve(holder, iova, length, needed),
        }
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

/// Stores `length` bytes at byte `offset` of `list`, which holds addresses in memory. `put` takes
/// an address, an offset in those bytes, and how many go there. Bytes beyond the list are not
/// stored.
pub(crate) fn scatter(
    list: &[Sge],
    offset: u64,
    length: usize,
    mut put: impl FnMut(u64, usize, usize) -> Result<(), MemoryFault>,
) -> Result<(), MemoryFault> {
    let (mut skip, mut done) = (offset, 0);
    if mutated(Mutation::ScatterOffsetIgnored) {
        skip = 0;
    }
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
        let mut table = RegionTable::new(Secret::default());
        let key = table.register(PD, spec(Access::NONE)).unwrap();
        let resolve = |iova, length| table.resolve(key, PD, iova, length, Access::NONE);
        assert_eq!(resolve(0x5000, 0x100), Ok(0x1000));
        assert_eq!(resolve(0x50ff, 1), Ok(0x10ff));
        assert_eq!(resolve(0x5100, 0), Ok(0x1100));
        assert_eq!(resolve(0x4fff, 1), Err(KeyViolation::Bounds));
        assert_eq!(resolve(0x50ff, 2), Err(KeyViolation::Bounds));
        assert_eq!(resolve(0x5001, u64::MAX), Err(KeyViolation::Bounds));
        assert_eq!(
            resolve(0x1000, 1),
            Err(KeyViolation::Bounds),
            "memory's address is not the iova"
        );
    }

    #[test]
    fn a_key_is_void_in_another_domain_without_the_right_and_after_deregistration() {
        let mut table = RegionTable::new(Secret::default());
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
    fn a_region_that_is_changed_keeps_its_key() {
        let mut table = RegionTable::new(Secret::default());
        let key = table.register(PD, spec(Access::NONE)).unwrap();
        let epoch = table.epoch();
        let moved = RegionSpec { address: 0x9000, ..spec(Access::REMOTE_READ) };
        assert_eq!(table.reregister(key, PdId(2), moved), Ok(PD));
        assert_ne!(table.epoch(), epoch, "translations made before are void");
        assert_eq!(table.query(key), Some((PdId(2), moved)));
        assert_eq!(table.resolve(key, PdId(2), 0x5000, 1, Access::REMOTE_READ), Ok(0x9000));
        assert!(table.resolve(key, PD, 0x5000, 1, Access::NONE).is_err());
        let refused = table.reregister(key, PD, spec(Access::REMOTE_WRITE));
        assert_eq!(refused, Err(RegisterError::Access));
        assert_eq!(table.query(key), Some((PdId(2), moved)), "as it was");
    }

    #[test]
    fn impossible_regions_are_refused() {
        let mut table = RegionTable::new(Secret::default());
        assert_eq!(table.register(PD, spec(Access::REMOTE_WRITE)), Err(RegisterError::Access));
        let wrapping = RegionSpec { address: u64::MAX, length: 2, ..spec(Access::NONE) };
        assert_eq!(table.register(PD, wrapping), Err(RegisterError::Range));
        let last = RegionSpec { address: u64::MAX - 1, length: 2, ..spec(Access::NONE) };
        assert!(table.register(PD, last).is_ok());
    }

    #[test]
    fn a_full_table_takes_nothing_until_something_goes() {
        assert_eq!(RegionTable::new(Secret::default()).last, REGIONS_MAX);
        assert!(Key::from_parts(REGIONS_MAX, 0xff).index() == REGIONS_MAX, "it fits a key");
        let mut table = RegionTable { last: 100, ..RegionTable::new(Secret::default()) };
        let mut register = || table.register(PD, spec(Access::NONE));
        let keys: Vec<Key> = (0..100).map(|_| register().unwrap()).collect();
        assert_eq!(register(), Err(RegisterError::Exhausted));
        assert_eq!(table.alloc_window(PD, WindowKind::Type1), Err(RegisterError::Exhausted));
        table.deregister(keys[7]).unwrap();
        assert!(table.alloc_window(PD, WindowKind::Type1).is_ok());
        assert_eq!(table.register(PD, spec(Access::NONE)), Err(RegisterError::Exhausted));
    }

    #[test]
    fn the_zero_key_reaches_nothing() {
        let mut table = RegionTable::new(Secret::default());
        table.register(PD, RegionSpec { iova: 0, ..spec(Access::NONE) }).unwrap();
        assert!(table.resolve(Key(0), PD, 0, 0, Access::NONE).is_err());
    }
}
