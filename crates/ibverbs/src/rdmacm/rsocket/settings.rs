//! What is set of a socket, and how large things are where nothing is: as the files of rdma-core's rsockets
//! say, and where they do not, as rdma-core has it.

use core::ffi::c_int;
use core::str::FromStr;
use core::time::Duration;
use std::sync::OnceLock;

use transport::limits;

use super::buffer::BYTES_MAX;
use super::greeting;

/// Where an administrator sets the defaults, as for rdma-core.
const FOLDER: &str = "/etc/rdma/rsocket";
/// The least buffer: halves of it are offered to the peer, and twice the low water of sending.
const BYTES_MIN: usize = 4096;
const QUEUE_MIN: u16 = 16;
const QUEUE_MAX: u16 = 0x7ffe;
const KEEP_IDLE_SECONDS: c_int = 7200;

/// How large things are; fixed when the connection is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// Both are even.
    pub(super) send_bytes: usize,
    pub(super) receive_bytes: usize,
    pub(super) send_queue: u16,
    pub(super) receive_queue: u16,
    /// Up to here data goes inline.
    pub(super) inline: u32,
    /// How many maps the peer may tell us of.
    pub(super) maps: u16,
}

#[derive(Clone, Copy, Debug)]
struct Defaults {
    sizes: Sizes,
    polling: Duration,
}

/// What the files say; where they do not, what rdma-core has.
fn defaults() -> &'static Defaults {
    static DEFAULTS: OnceLock<Defaults> = OnceLock::new();
    DEFAULTS.get_or_init(|| Defaults {
        sizes: Sizes {
            send_bytes: bytes(set("wmem_default").unwrap_or(1 << 17)),
            receive_bytes: bytes(set("mem_default").unwrap_or(1 << 17)),
            send_queue: queue(set("sqsize_default").unwrap_or(384)),
            receive_queue: queue(set("rqsize_default").unwrap_or(384)),
            inline: inline(set("inline_default").unwrap_or(64)),
            maps: greeting::tellable(set("iomap_size").unwrap_or(0)),
        },
        polling: Duration::from_micros(set("polling_time").unwrap_or(10)),
    })
}

/// How long a call looks again and again before it sleeps.
pub(super) fn polling_time() -> Duration {
    defaults().polling
}

fn set<T: FromStr>(name: &str) -> Option<T> {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).ok()?.trim().parse().ok()
}

pub(super) fn bytes(wanted: usize) -> usize {
    wanted.clamp(BYTES_MIN, BYTES_MAX) & !1
}

pub(super) fn queue(wanted: u32) -> u16 {
    let most = u32::from(QUEUE_MAX).min(limits::WR_MAX);
    wanted.clamp(QUEUE_MIN.into(), most) as u16
}

pub(super) fn inline(wanted: u32) -> u32 {
    wanted.min(limits::INLINE_MAX)
}

/// What is set of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) domain: c_int,
    pub(super) nonblocking: bool,
    pub(super) sizes: Sizes,
    pub(super) reuses_address: bool,
    pub(super) keeps_alive: bool,
    pub(super) keep_idle_seconds: c_int,
    pub(super) out_of_band_inline: bool,
    pub(super) no_delay: bool,
    pub(super) lingers: bool,
    pub(super) linger_seconds: c_int,
    pub(super) only_v6: bool,
}

impl Options {
    pub(super) fn new(domain: c_int) -> Self {
        Self {
            domain,
            nonblocking: false,
            sizes: defaults().sizes,
            reuses_address: false,
            keeps_alive: false,
            keep_idle_seconds: KEEP_IDLE_SECONDS,
            out_of_band_inline: false,
            no_delay: false,
            lingers: true,
            linger_seconds: 0,
            only_v6: false,
        }
    }

    /// How long nothing happens before the peer is asked whether it lives, if it is to be.
    pub(super) fn keep_idle(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.keep_idle_seconds).ok().filter(|_| self.keeps_alive)?;
        Some(Duration::from_secs(seconds))
    }

    /// Those of a socket that a listener with these has accepted.
    pub(super) fn inherited(self) -> Self {
        Self { nonblocking: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_a_connection_can_have() {
        assert_eq!([0, 4097, usize::MAX].map(bytes), [4096, 4096, BYTES_MAX]);
        assert_eq!([0, 384, u32::MAX].map(queue), [16, 384, QUEUE_MAX]);
        assert_eq!(inline(u32::MAX), limits::INLINE_MAX);
    }
}
