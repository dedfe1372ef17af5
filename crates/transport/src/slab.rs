//! A table of objects whose index is their handle.

use alloc::vec::Vec;

use crate::DestroyError;

/// Objects by index; freed indices are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores `value`; `None` when `limit` objects are there already.
    pub(crate) fn insert(&mut self, value: T, limit: u32) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = Some(value);
            return Some(index);
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index < limit)?;
        self.entries.push(Some(value));
        Some(index)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }
}

/// Domains, by how many objects belong to each.
impl Slab<u32> {
    /// One more object belongs to a domain; `None` if there is no such domain.
    pub(crate) fn join(&mut self, index: u32) -> Option<()> {
        self.get_mut(index).map(|users| *users += 1)
    }

    /// One object less does.
    pub(crate) fn leave(&mut self, index: u32) {
        if let Some(users) = self.get_mut(index) {
            *users -= 1;
        }
    }

    /// Ends a domain that nothing belongs to.
    pub(crate) fn end(&mut self, index: u32) -> Result<(), DestroyError> {
        match self.get(index) {
            None => Err(DestroyError::NotFound),
            Some(0) => self.remove(index).map(drop).ok_or(DestroyError::NotFound),
            Some(_) => Err(DestroyError::InUse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_used_again_and_the_limit_holds() {
        let mut slab = Slab::default();
        assert_eq!(
            (slab.insert('a', 2), slab.insert('b', 2), slab.insert('c', 2)),
            (Some(0), Some(1), None)
        );
        assert_eq!(slab.remove(0), Some('a'));
        assert_eq!(slab.remove(0), None);
        assert_eq!(slab.insert('d', 2), Some(0));
        assert_eq!(slab.get(0), Some(&'d'));
    }
}
