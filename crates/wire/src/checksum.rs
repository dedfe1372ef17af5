//! The internet checksum (RFC 1071): of the IPv4 header, and of UDP over IPv6.

/// A ones' complement sum that is still being added to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(u32);

impl Sum {
    /// Adds `bytes` as big-endian 16-bit words; a last odd byte counts as the upper half of one.
    pub(crate) fn add(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self = self.add_word(u16::from_be_bytes([word[0], word[1]]));
        }
        match words.remainder() {
            [last] => self.add_word(u16::from_be_bytes([*last, 0])),
            _ => self,
        }
    }

    /// Adds one word.
    pub(crate) fn add_word(self, word: u16) -> Self {
        // The carry is folded in at once, so that no length overflows.
        let sum = self.0 + u32::from(word);
        Self((sum & 0xffff) + (sum >> 16))
    }

    /// The checksum: zero if the sum was over bytes that hold a right one.
    pub(crate) fn finish(self) -> u16 {
        !(self.0 as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&bytes).finish(), !0xddf2);
    }

    #[test]
    fn an_odd_byte_is_padded_behind() {
        assert_eq!(Sum::default().add(&[0x12, 0x34, 0x56]).finish(), !(0x1234 + 0x5600));
    }
}
