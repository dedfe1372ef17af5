//! Bounds of this room.

/// The most points that one series of a figure is drawn with; of a longer one, those that show its
/// lowest and highest are kept.
pub(crate) const SERIES_POINTS_MAX: usize = 1_000;
/// The most points in a figure, whatever the number of series.
pub(crate) const FIGURE_POINTS_MAX: usize = 12_000;
/// Letters of all names below a figure, beyond which they are turned: about what its width holds.
pub(crate) const LETTERS_FLAT: usize = 110;
/// The most rows of a table that a page shows; a longer one says how many it hides.
pub(crate) const PAGE_ROWS_MAX: usize = 200;
/// The most rows of a Parquet row group.
pub(crate) const ROW_GROUP_ROWS: usize = 1 << 20;
