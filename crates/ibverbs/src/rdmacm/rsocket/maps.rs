//! Maps: memory of a program that the peer may write to, by an offset.
//!
//! Each side has a table of those of the other. A map is an entry in it, of 24 bytes: offset, address, key, length.

use rdma::{Access, Key};
use transport::{PdId, RegionSpec};

use super::greeting::Place;
use crate::context::Context;
use crate::errno::Errno;

/// What a peer may do with memory that it is told of.
pub(super) const WRITABLE: Access = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE);

/// An entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Entry {
    offset: u64,
    place: Place,
}

/// Memory of ours that is registered.
#[derive(Debug)]
struct Map {
    entry: Entry,
    /// In the peer's table; none if the peer is not told.
    index: Option<u16>,
    is_told: bool,
}

/// The maps of both sides.
#[derive(Debug)]
pub(super) struct Maps {
    ours: Vec<Map>,
    /// What the peer has written into our table.
    theirs: Vec<Entry>,
}

impl Maps {
    /// How long an entry is.
    pub(super) const ENTRY_LEN: usize = 8 + Place::LEN;

    /// None, and a table for `offered` of the peer.
    pub(super) fn new(offered: u16) -> Self {
        Self { ours: Vec::new(), theirs: vec![Entry::default(); offered.into()] }
    }

    /// How many the peer may tell us of.
    pub(super) fn offered(&self) -> u16 {
        self.theirs.len() as u16
    }

    /// The peer has written an entry, as it is in our memory.
    pub(super) fn hear(&mut self, index: u16, bytes: [u8; Self::ENTRY_LEN]) {
        let Some(known) = self.theirs.get_mut(usize::from(index)) else { return };
        let (Some(offset), Some(place)) = (bytes.first_chunk(), bytes.last_chunk()) else { return };
        *known = Entry { offset: u64::from_ne_bytes(*offset), place: Place::of_memory(*place) };
    }

    /// The next map that the peer does not know of: its entry, as it is to be in the peer's memory.
    pub(super) fn next_untold(&mut self, big_endian: bool) -> Option<(u16, [u8; Self::ENTRY_LEN])> {
        let mut maps = self.ours.iter_mut().filter(|map| !map.is_told);
        let (map, index) = maps.find_map(|map| map.index.map(|index| (map, index)))?;
        map.is_told = true;
        let mut bytes = [0; Self::ENTRY_LEN];
        let offset = map.entry.offset;
        let offset = if big_endian { offset.to_be_bytes() } else { offset.to_le_bytes() };
        bytes[..8].copy_from_slice(&offset);
        bytes[8..].copy_from_slice(&map.entry.place.in_memory(big_endian));
        Some((index, bytes))
    }

    pub(super) fn has_untold(&self) -> bool {
        self.ours.iter().any(|map| !map.is_told && map.index.is_some())
    }

    /// Registers `length` bytes from `address` on, for the peer's writes at `offset` if its table is given,
    /// by its size, or for nobody's.
    pub(super) fn add(
        &mut self,
        (context, pd): (&Context, PdId),
        (address, length): (u64, u32),
        offset: u64,
        table: Option<u16>,
    ) -> Result<(), Errno> {
        let (index, access) = match table {
            None => (None, Access::LOCAL_WRITE),
            Some(size) => {
                let full = Errno::NO_MEMORY.because("the peer's table of maps is full");
                (Some(self.free_index(size).ok_or(full)?), WRITABLE)
            }
        };
        let spec = RegionSpec { address, length: length.into(), iova: address, access };
        let key = context.nic.register(pd, spec)?;
        let entry = Entry { offset, place: Place { address, key: key.0, length } };
        self.ours.push(Map { entry, index, is_told: false });
        Ok(())
    }

    /// Ends what [`Maps::add`] has begun.
    pub(super) fn remove(
        &mut self,
        context: &Context,
        (address, length): (u64, usize),
    ) -> Result<(), Errno> {
        let is_it = |place: &Place| place.address == address && place.length as usize == length;
        let at = self.ours.iter().position(|map| is_it(&map.entry.place));
        let at = at.ok_or(Errno::invalid("no riomap of this socket has this buf and len"))?;
        deregister(context, &self.ours.remove(at));
        Ok(())
    }

    /// Where the peer has the byte at `offset`, and how many follow it.
    pub(super) fn at(&self, offset: u64) -> Option<Place> {
        self.theirs.iter().find_map(|Entry { offset: start, place }| {
            let into = offset.checked_sub(*start)?;
            let left = u64::from(place.length).checked_sub(into).filter(|left| *left > 0)?;
            let address = place.address.wrapping_add(into);
            Some(Place { address, length: left as u32, ..*place })
        })
    }

    /// The lowest free entry of a table of `size`.
    fn free_index(&self, size: u16) -> Option<u16> {
        (0..size).find(|index| !self.ours.iter().any(|map| map.index == Some(*index)))
    }

    /// Ends all regions.
    pub(super) fn forget(self, context: &Context) {
        for map in self.ours {
            deregister(context, &map);
        }
    }
}

fn deregister(context: &Context, map: &Map) {
    let key = Key(map.entry.place.key);
    // The program may have unmapped the memory; the region is gone either way.
    let _ = context.nic.with(|endpoint, _, _| endpoint.deregister(key));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(maps: &mut Maps, index: u16, entry: Entry) {
        let mut bytes = [0; Maps::ENTRY_LEN];
        bytes[..8].copy_from_slice(&entry.offset.to_ne_bytes());
        bytes[8..].copy_from_slice(&entry.place.in_memory(cfg!(target_endian = "big")));
        maps.hear(index, bytes);
    }

    #[test]
    fn an_offset_is_found_in_the_map_that_holds_it() {
        let mut maps = Maps::new(2);
        assert_eq!(maps.at(0), None);
        let place = Place { address: 1000, key: 7, length: 10 };
        heard(&mut maps, 0, Entry { offset: 100, place });
        heard(&mut maps, 1, Entry { offset: u64::MAX - 4, place });
        heard(&mut maps, 2, Entry { offset: 0, place });
        assert_eq!(maps.at(99), None);
        assert_eq!(maps.at(100), Some(place));
        assert_eq!(maps.at(109), Some(Place { address: 1009, length: 1, ..place }));
        assert_eq!(maps.at(110), None);
        assert_eq!(maps.at(u64::MAX), Some(Place { address: 1004, length: 6, ..place }));
        assert_eq!(maps.at(0), None, "there are two entries");
    }

    #[test]
    fn an_entry_is_told_once_and_used_again_when_it_is_free() {
        let mut maps = Maps::new(0);
        let place = Place { address: 0x1000, key: 7, length: 10 };
        let entry = Entry { offset: 3, place };
        let index = maps.free_index(1);
        assert_eq!((index, maps.free_index(0)), (Some(0), None));
        maps.ours.push(Map { entry, index: None, is_told: false });
        assert!(!maps.has_untold(), "nobody is told of a local one");
        maps.ours.push(Map { entry, index, is_told: false });
        assert!(maps.has_untold());
        assert_eq!(maps.free_index(1), None);
        let (told, bytes) = maps.next_untold(true).unwrap();
        assert_eq!((told, bytes[7], bytes[14], bytes[19], bytes[23]), (0, 3, 0x10, 7, 10));
        assert_eq!(maps.next_untold(true), None);
        maps.ours.pop();
        assert_eq!(maps.free_index(1), Some(0));
    }
}
