//! As much of the encoding of Protocol Buffers as execution traces need: keys, varints and lengths.
//!
//! ```text
//!   key = field << 3 | kind     kind 0: varint    1: eight bytes    2: length, bytes    5: four bytes
//! ```
//!
//! Every length is held against what is there. Nothing is copied.

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// A varint, or four or eight bytes.
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }

    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }
}

/// Takes a varint from the front.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes a length and so many bytes from the front.
pub(super) fn delimited<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Takes a field from the front: its number and value. `None` of one that is cut, or of no known kind.
pub(super) fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    fn fixed<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (taken, rest) = bytes.split_first_chunk::<N>()?;
        *bytes = rest;
        Some(*taken)
    }
    let key = varint(bytes)?;
    let value = match key & 7 {
        0 => Value::Number(varint(bytes)?),
        1 => Value::Number(u64::from_le_bytes(fixed(bytes)?)),
        2 => Value::Bytes(delimited(bytes)?),
        5 => Value::Number(u32::from_le_bytes(fixed(bytes)?).into()),
        _ => return None,
    };
    Some((key >> 3, value))
}

/// The numbers of a repeated field: one, or packed.
pub(super) fn numbers(value: Value<'_>, into: &mut Vec<u64>) -> Option<()> {
    match value {
        Value::Number(number) => into.push(number),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                into.push(varint(&mut packed)?);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_what_is_cut_is_not() {
        // The examples of the encoding's description: 150, "testing", and a packed list.
        let mut bytes: &[u8] = b"\x08\x96\x01\x12\x07testing";
        for end in 1..bytes.len() {
            let mut cut = &bytes[..end];
            while !cut.is_empty() && field(&mut cut).is_some() {}
            let whole = end == 3;
            let read = field(&mut &bytes[..end]).is_some() && cut.is_empty();
            assert!(!whole || read, "{end}");
        }
        assert_eq!(field(&mut bytes), Some((1, Value::Number(150))));
        assert_eq!(field(&mut &bytes[..8]), None);
        assert_eq!(field(&mut bytes), Some((2, Value::Bytes(b"testing"))));
        assert!(bytes.is_empty());
        let mut list = Vec::new();
        numbers(Value::Bytes(&[3, 0x8e, 2, 0x9e, 0xa7, 5]), &mut list).unwrap();
        assert_eq!(list, [3, 270, 86_942]);
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_none() {
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(varint(&mut &most[..]), Some(u64::MAX));
        let more = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(varint(&mut &more[..]), None);
        assert_eq!(varint(&mut &[0x80; 11][..]), None);
        assert_eq!(delimited(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f, 1][..]), None);
    }
}
