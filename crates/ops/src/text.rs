//! Texts as files have them.

/// The text of a file, without what is no UTF-8 or UTF-16 and without a byte order mark.
pub fn of(bytes: &[u8]) -> String {
    if let Some(text) = utf16(bytes) {
        return text;
    }
    let text = String::from_utf8_lossy(bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
}

/// A text of two bytes a letter, as redirections of PowerShell write it, by its byte order mark.
fn utf16(bytes: &[u8]) -> Option<String> {
    let (of, rest): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        _ => return None,
    };
    let units = rest.chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
    Some(char::decode_utf16(units).map(|letter| letter.unwrap_or('\u{fffd}')).collect())
}
