//! Switch chips by name: the buffer and cell that one has, from public figures. What is not public is not here;
//! thresholds, headroom and marks are the operator's, and have the same defaults with every chip.

use rdma::Span;

use super::cell::Cell;

/// A chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Model {
    /// What a scenario calls it.
    pub(crate) name: &'static str,
    /// All of its packet memory, as if any port could have any part of it.
    pub(crate) buffer_bytes: u32,
    /// The unit in which that is given out.
    pub(crate) cell: Cell,
    /// From a packet's last bit to its queue, of a short packet; zero where nobody says.
    pub(crate) latency: Span,
}

impl Model {
    const fn new(name: &'static str, buffer_bytes: u32, cell_bytes: u32, latency_ns: u64) -> Self {
        let cell = match Cell::new(cell_bytes) {
            Some(cell) => cell,
            None => Cell::BYTE,
        };
        Self { name, buffer_bytes, cell, latency: Span::from_ns(latency_ns) }
    }

    /// All, in the order of their makers and years. Sources:
    ///
    /// - Trident+: J. Warner's list of buffers, 46,080 cells of 208 bytes. Trident 2: 12 MB (Zhu et al., SIGCOMM
    ///   2015, section 4).
    /// - Trident 2+, Tomahawk 3 to 5, and cells of 208 and 254 bytes: `getMMUSizeBytes` and `getMMUCellSize` in
    ///   facebook/fboss, whose Trident2Asic has 16 MiB, as the 2+. Tomahawks have two memories, of which a port
    ///   has one; here it is one.
    /// - Trident 3: port-buffers.forwardingplane.net, 32 MB and cells of 256 bytes.
    /// - Spectrum: cells from SONiC's `asic_table.j2` (that of Spectrum 4 is not in the one seen: it has that of
    ///   3 here); 16,777,152 bytes are SONiC's whole pool, 42, 64 and 160 MB the maker's figures as the press
    ///   repeats them; 300 ns of Spectrum 2 from Microprocessor Report, July 2017.
    pub(crate) const ALL: [Self; 11] = [
        Self::new("trident+", 46_080 * 208, 208, 0),
        Self::new("trident2", 12_000_000, 208, 0),
        Self::new("trident2+", 16 << 20, 208, 0),
        Self::new("trident3", 32 << 20, 256, 0),
        Self::new("tomahawk3", 64 << 20, 254, 0),
        Self::new("tomahawk4", 2 * 234_606 * 254, 254, 0),
        Self::new("tomahawk5", 2 * 341_080 * 254, 254, 0),
        Self::new("spectrum", 16_777_152, 96, 0),
        Self::new("spectrum2", 42_000_000, 144, 300),
        Self::new("spectrum3", 64_000_000, 144, 0),
        Self::new("spectrum4", 160_000_000, 144, 0),
    ];
}

/// What a name is read over.
impl Default for Model {
    fn default() -> Self {
        Self::ALL[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chip_has_whole_cells_of_its_own_name() {
        for (index, model) in Model::ALL.iter().enumerate() {
            assert!(model.cell.bytes() > 1 && model.buffer_bytes > 9_000_000, "{}", model.name);
            assert!(Model::ALL[..index].iter().all(|other| other.name != model.name));
        }
    }
}
