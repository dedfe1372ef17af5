//! Bounds of this room.

use core::time::Duration;

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
/// The most series of a scrape, unless whoever gathers says otherwise.
pub(crate) const METRIC_SERIES_MAX: usize = 200_000;
/// The most characters of the value of a label.
pub(crate) const LABEL_VALUE_CHARS_MAX: usize = 256;
/// The most connections that scrapers may have open.
pub(crate) const CONNECTIONS_MAX: usize = 16;
/// The longest head of a request.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 10;
/// The most headers of a request.
pub(crate) const REQUEST_HEADERS_MAX: usize = 64;
/// How long a request may take to arrive.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// The most points of one request of OTLP: some 1.5 MB, where OpenTelemetry's collector takes 20 MB.
pub(crate) const OTLP_POINTS_MAX: usize = 5_000;
/// How long a push may take.
pub(crate) const OTLP_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest answer to a push that is read.
pub(crate) const OTLP_ANSWER_BYTES_MAX: u64 = 64 << 10;
