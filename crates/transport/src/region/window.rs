//! Memory windows: keys of their own for a part of a region (IBTA vol 1, 10.6.7).
//!
//! ```text
//!   type 1:  UNBOUND ◄──── bind, no length ──── BOUND ◄─┐ bind again
//!                    ───── bind ──────────────►       ──┘
//!   type 2:  FREE ──── bind ────► BOUND to one queue pair
//!                 ◄─ invalidate ─
//! ```
//!
//! **Invariants:** a region outlives the windows that are bound to it. A window has no L_Key. When
//! a queue pair ends, the type 2 windows that are bound to it are free again, because its number
//! may be given out once more.

use rdma::{Access, Key, Qpn};

use super::{Entry, Region, RegionTable, violation};
use crate::failure::KeyViolation;
use crate::mutation::{Mutation, mutated};
use crate::{DestroyError, PdId, RegisterError};

/// Who may use a window, and who chooses its key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowKind {
    /// Every queue pair of its protection domain; the device names the key.
    Type1,
    /// The queue pair that it was bound through, in its protection domain (type 2B); the
    /// application names the key's tag.
    Type2,
}

/// The queue pair that presents a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) pd: PdId,
    pub(crate) qpn: Qpn,
}

/// What to bind, as [`rdma::Operation::BindWindow`] says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind {
    pub(crate) r_key: Key,
    pub(crate) region: Key,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
}

#[derive(Debug)]
pub(super) struct MemoryWindow {
    pd: PdId,
    kind: WindowKind,
    bound: Option<Bound>,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    /// The region's index.
    region: u32,
    /// The queue pair, of type 2.
    qpn: Option<Qpn>,
    /// Its first byte: in memory, and as requests address it.
    address: u64,
    iova: u64,
    length: u64,
    access: Access,
}

impl MemoryWindow {
    /// As [`RegionTable::resolve_remote`].
    pub(super) fn resolve(
        &self,
        holder: Holder,
        iova: u64,
        length: u64,
        needed: Access,
    ) -> Result<u64, KeyViolation> {
        let bound = self.bound.filter(|_| self.pd == holder.pd).ok_or_else(|| {
            if self.pd == holder.pd { KeyViolation::Unbound } else { KeyViolation::Domain }
        })?;
        let offset = iova.checked_sub(bound.iova).ok_or(KeyViolation::Bounds)?;
        let fits = offset.checked_add(length).is_some_and(|end| end <= bound.length);
        let fits = fits || mutated(Mutation::WindowBoundsIgnored);
        let its_own = bound.qpn.is_none_or(|qpn| qpn == holder.qpn);
        let its_own = its_own || mutated(Mutation::WindowOwnerIgnored);
        let allowed = bound.access.allows(needed) || mutated(Mutation::WindowRightsIgnored);
        if !fits || !its_own || !allowed {
            let other = KeyViolation::OtherQueuePair;
            return Err(if its_own { violation(true, fits) } else { other });
        }
        Ok(bound.address + offset)
    }
}

impl RegionTable {
    /// Makes a window that reaches nothing yet.
    pub(crate) fn alloc_window(
        &mut self,
        pd: PdId,
        kind: WindowKind,
    ) -> Result<Key, RegisterError> {
        self.insert(Entry::Window(MemoryWindow { pd, kind, bound: None }))
    }

    /// Ends a window, bound or not. Returns the protection domain that it belonged to.
    ///
    /// The index alone counts: the application may know an older tag than the one it was bound
    /// with.
    pub(crate) fn dealloc_window(&mut self, key: Key) -> Result<PdId, DestroyError> {
        let window = self.window(key.index()).ok_or(DestroyError::NotFound)?;
        let pd = window.pd;
        self.unbind(key.index());
        self.remove(key.index());
        Ok(pd)
    }

    /// Binds a window through the queue pair `holder`; a window of type 1 without length is
    /// unbound.
    pub(crate) fn bind(&mut self, holder: Holder, bind: &Bind) -> Result<(), KeyViolation> {
        let index = bind.r_key.index();
        let window = self.window(index).ok_or(KeyViolation::Unknown)?;
        // C10-72: one protection domain for queue pair, window and region.
        if window.pd != holder.pd {
            return Err(KeyViolation::Domain);
        }
        let kind = window.kind;
        let bound = match kind {
            WindowKind::Type1 if bind.length == 0 => None,
            // o10-36.2.2: only a window of type 2 counts from zero.
            WindowKind::Type1 if bind.access.allows(Access::ZERO_BASED) => {
                return Err(KeyViolation::Binding);
            }
            WindowKind::Type1 => Some(self.part(holder, kind, bind)?),
            // o10-37.2.30 and o10-37.2.40: it is invalidated before it is bound again, and not by
            // binding.
            WindowKind::Type2 if window.bound.is_some() || bind.length == 0 => {
                return Err(KeyViolation::Binding);
            }
            WindowKind::Type2 => Some(self.part(holder, kind, bind)?),
        };
        self.unbind(index);
        if let Some(region) = bound.and_then(|bound| self.region_mut(bound.region)) {
            region.windows += 1;
            self.bound_windows += 1;
        }
        self.retag(index, bind.r_key.tag());
        if let Some(window) = self.window_mut(index) {
            window.bound = bound;
        }
        Ok(())
    }

    /// The part of a region that a window is bound to.
    fn part(&self, holder: Holder, kind: WindowKind, bind: &Bind) -> Result<Bound, KeyViolation> {
        let Region { spec, .. } = self.region(bind.region).ok_or(KeyViolation::Unknown)?;
        let Bind { address: iova, length, access, .. } = *bind;
        // C10-73: the region allows windows. C10-74: whoever lets a peer write may write. A window
        // is not bound to a region that counts from zero.
        let remote_change = access.needs_local_write() && !spec.access.allows(Access::LOCAL_WRITE);
        let zero_based = spec.access.allows(Access::ZERO_BASED);
        let allows = spec.access.allows(Access::MW_BIND) || mutated(Mutation::BindRightIgnored);
        if !allows || remote_change || zero_based {
            return Err(KeyViolation::Binding);
        }
        // C10-75: within the region, and of its protection domain.
        let address = self.resolve(bind.region, holder.pd, iova, length, Access::NONE)?;
        Ok(Bound {
            region: bind.region.index(),
            qpn: Some(holder.qpn).filter(|_| kind == WindowKind::Type2),
            address,
            iova: if access.allows(Access::ZERO_BASED) { 0 } else { iova },
            length,
            access,
        })
    }

    /// Whether the queue pair `holder` may invalidate `key`: the key of a type 2 window that is
    /// its own, or bound to nobody (o10-37.2.26; ordinary regions are never invalidated).
    pub(crate) fn may_invalidate(&self, key: Key, holder: Holder) -> bool {
        let window = self.window(key.index()).filter(|_| self.tag(key.index()) == Some(key.tag()));
        window.is_some_and(|window| {
            let its_own = window.bound.is_none_or(|bound| bound.qpn == Some(holder.qpn));
            window.kind == WindowKind::Type2 && window.pd == holder.pd && its_own
        })
    }

    /// Invalidates the key of a type 2 window, which is then free to be bound again.
    pub(crate) fn invalidate(&mut self, key: Key, holder: Holder) -> Result<(), KeyViolation> {
        if !self.may_invalidate(key, holder) {
            return Err(KeyViolation::Binding);
        }
        if !mutated(Mutation::InvalidationForgotten) {
            self.unbind(key.index());
        }
        Ok(())
    }

    /// Frees the windows that are bound to a queue pair.
    pub(crate) fn release_windows(&mut self, qpn: Qpn) {
        if self.bound_windows == 0 {
            return;
        }
        for index in 0..self.entries.len() as u32 {
            let bound = self.window(index).and_then(|window| window.bound);
            if bound.is_some_and(|bound| bound.qpn == Some(qpn)) {
                self.unbind(index);
            }
        }
    }

    /// From now on the key of a window reaches nothing.
    fn unbind(&mut self, index: u32) {
        let bound = self.window_mut(index).and_then(|window| window.bound.take());
        let Some(bound) = bound else { return };
        self.bound_windows -= 1;
        self.epoch.0 += 1;
        if let Some(region) = self.region_mut(bound.region) {
            region.windows -= 1;
        }
    }

    fn window(&self, index: u32) -> Option<&MemoryWindow> {
        match self.entries.get(index as usize)?.1.as_ref()? {
            Entry::Window(window) => Some(window),
            Entry::Region(_) => None,
        }
    }

    fn window_mut(&mut self, index: u32) -> Option<&mut MemoryWindow> {
        match self.entries.get_mut(index as usize)?.1.as_mut()? {
            Entry::Window(window) => Some(window),
            Entry::Region(_) => None,
        }
    }
}
