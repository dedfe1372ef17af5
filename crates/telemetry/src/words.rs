//! Words for a terminal.

/// The columns of a usual terminal.
pub const COLUMNS: usize = 80;

/// A paragraph of at most `columns` columns behind `mark`; its other lines begin below its first word.
///
/// ```
/// let text = telemetry::words::wrapped("world  ", "soft NICs in real time", 20);
/// assert_eq!(text, "world  soft NICs in\n       real time\n");
/// ```
#[must_use]
pub fn wrapped(mark: &str, words: &str, columns: usize) -> String {
    let mut text = mark.to_owned();
    let mut width = mark.len();
    for (index, word) in words.split(' ').enumerate() {
        if index > 0 && width + 1 + word.len() > columns {
            text += "\n";
            text += &" ".repeat(mark.len());
            width = mark.len();
        } else if index > 0 {
            text.push(' ');
            width += 1;
        }
        text += word;
        width += word.len();
    }
    text + "\n"
}
