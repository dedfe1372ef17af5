//! How fast a simulation ran, in the unit that simulators are compared by.

use core::fmt;
use core::time::Duration;

use crate::Network;

/// What a network did in some time.
///
/// A link-hop is a packet, acknowledgements included and pauses not, that crosses a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Link-hops.
    pub link_hops: u64,
    /// Events.
    pub events: u64,
    /// In how much time.
    pub took: Duration,
}

impl Speed {
    /// What `network` has done since it was made, which took so long.
    pub fn of(network: &Network, took: Duration) -> Self {
        Self { link_hops: network.link_hops(), events: network.events(), took }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link_hops, events, took } = *self;
        let seconds = took.as_secs_f64();
        write!(f, "{link_hops} link-hops in {seconds:.2} s")?;
        if link_hops == 0 || took.is_zero() {
            return Ok(());
        }
        let hops = link_hops as f64;
        let (millions, nanoseconds) = (hops / seconds / 1e6, seconds * 1e9 / hops);
        let events = events as f64 / hops;
        write!(f, ": {millions:.2} M/s, {nanoseconds:.0} ns and {events:.2} events each")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_told_by_the_second_and_by_the_hop() {
        let took = Duration::from_millis(250);
        let speed = Speed { link_hops: 2_000_000, events: 3_000_000, took };
        let text = "2000000 link-hops in 0.25 s: 8.00 M/s, 125 ns and 1.50 events each";
        assert_eq!(speed.to_string(), text);
        let nothing = Speed { link_hops: 0, events: 0, took };
        assert_eq!(nothing.to_string(), "0 link-hops in 0.25 s");
    }
}
