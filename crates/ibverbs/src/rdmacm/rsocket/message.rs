//! What passes between two rsockets beside data: four bytes of immediate data behind a WRITE.
//!
//! ```text
//!   31   29 28                    0
//!   ┌──────┬──────────────────────┐   000 data were written: how many bytes
//!   │ kind │ number               │   100 credits: up to which message the peer may send
//!   └──────┴──────────────────────┘   110 an entry of the map table was written: which
//!                                     111 control: 0 disconnect, 1 keep alive, 2 shutdown
//! ```
//!
//! The order of bytes is the network's. Other kinds are reserved, and are ignored.

/// How many bits the number has.
const NUMBER_BITS: u32 = 29;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

const DATA: u32 = 0b000;
const CREDIT: u32 = 0b100;
const MAP: u32 = 0b110;
const CONTROL: u32 = 0b111;

const DISCONNECT: u32 = 0;
const KEEP_ALIVE: u32 = 1;
const SHUTDOWN: u32 = 2;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// So many bytes were written behind those before them.
    Data(u32),
    /// The peer may send up to this message, of all that it has ever sent; and it is to look at the
    /// list of places that it may write to.
    Credit(u16),
    /// This entry of the map table was written.
    Map(u16),
    /// The peer neither sends nor receives any more.
    Disconnect,
    /// The peer lives.
    KeepAlive,
    /// The peer sends no more.
    Shutdown,
    /// Nothing that this side knows.
    Unknown,
}

impl Message {
    /// The immediate data.
    pub(super) fn emit(self) -> [u8; 4] {
        let (kind, number) = match self {
            Self::Data(bytes) => (DATA, bytes),
            Self::Credit(until) => (CREDIT, until.into()),
            Self::Map(index) => (MAP, index.into()),
            Self::Disconnect => (CONTROL, DISCONNECT),
            Self::KeepAlive => (CONTROL, KEEP_ALIVE),
            Self::Shutdown => (CONTROL, SHUTDOWN),
            Self::Unknown => (CONTROL, NUMBER),
        };
        (kind << NUMBER_BITS | number & NUMBER).to_be_bytes()
    }

    /// What immediate data says. Numbers of credits and entries are the lower 16 bits.
    pub(super) fn parse(immediate: [u8; 4]) -> Self {
        let word = u32::from_be_bytes(immediate);
        let number = word & NUMBER;
        match (word >> NUMBER_BITS, number) {
            (DATA, bytes) => Self::Data(bytes),
            (CREDIT, until) => Self::Credit(until as u16),
            (MAP, index) => Self::Map(index as u16),
            (CONTROL, DISCONNECT) => Self::Disconnect,
            (CONTROL, KEEP_ALIVE) => Self::KeepAlive,
            (CONTROL, SHUTDOWN) => Self::Shutdown,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immediate_data_is_as_the_protocol_has_it() {
        let table = [
            (Message::Data(0x0102_0304), [0x01, 2, 3, 4]),
            (Message::Credit(0xfffe), [0x80, 0, 0xff, 0xfe]),
            (Message::Map(7), [0xc0, 0, 0, 7]),
            (Message::Disconnect, [0xe0, 0, 0, 0]),
            (Message::KeepAlive, [0xe0, 0, 0, 1]),
            (Message::Shutdown, [0xe0, 0, 0, 2]),
        ];
        for (message, bytes) in table {
            assert_eq!((message.emit(), Message::parse(bytes)), (bytes, message));
        }
    }

    #[test]
    fn what_is_reserved_says_nothing() {
        for kind in [0b001, 0b010, 0b011, 0b101_u8] {
            assert_eq!(Message::parse([kind << 5, 0, 0, 1]), Message::Unknown);
        }
        assert_eq!(Message::parse([0xe0, 0, 0, 3]), Message::Unknown);
        assert_eq!(Message::parse(Message::Unknown.emit()), Message::Unknown);
    }
}
