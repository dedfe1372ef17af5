//! Where something stands in the text of a scenario.

/// A table, or a key of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    pub(super) line: usize,
    /// Where in the text, in bytes.
    pub(super) byte: usize,
    pub(super) key: String,
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(core::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect())
    }

    /// The line of a place of the text, in bytes.
    pub(super) fn line(&self, place: usize) -> usize {
        self.0.partition_point(|&start| start <= place)
    }
}
