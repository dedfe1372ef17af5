//! ARP and MAC tables of a switch, for the servers below it.
//!
//! ```text
//!                       MAC known            MAC aged
//!   ARP known           to its port          incomplete: flood, drop, or CPU
//!   ARP aged, alive     asked, then so       asked, then so
//!   ARP aged, dead      no ARP entry: dropped
//! ```
//!
//! They are refreshed differently (guo16, 4.2): the MAC table by every packet from the server, the ARP
//! table by a request when its entry has aged. ARP entries live for hours, MAC entries for minutes, so a
//! dead server may be in the first and no longer in the second.
//!
//! ARP requests and answers are exchanged by the switch's CPU and are counted; they take no time here
//! and are not on the wire.

use super::config::TableConfig;

#[derive(Clone, Copy, Debug)]
struct Entry {
    arp_until: u64,
    mac_until: u64,
}

/// The tables of one switch, by local port.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    entries: Vec<Entry>,
    arp_timeout: u64,
    mac_timeout: u64,
    pub(crate) arp_requests: u64,
}

/// What the tables know of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    Known,
    Incomplete,
    Unknown,
}

/// The end of a MAC entry that is not to be renewed.
const AGED: u64 = 0;

impl Tables {
    /// Tables in which every server has just been seen.
    pub(crate) fn new(config: &TableConfig, ports: usize) -> Self {
        let (arp_timeout, mac_timeout) = (config.arp_timeout.as_ps(), config.mac_timeout.as_ps());
        let entry = Entry { arp_until: arp_timeout, mac_until: mac_timeout };
        Self { entries: vec![entry; ports], arp_timeout, mac_timeout, arp_requests: 0 }
    }

    /// Nothing is known any more, and is asked for when it is needed.
    pub(crate) fn forget(&mut self) {
        self.entries.fill(Entry { arp_until: 0, mac_until: AGED + 1 });
    }

    /// A packet came from the server at `port`. What a server sent just before it died "long ago" is
    /// too late.
    #[inline]
    pub(crate) fn saw(&mut self, port: u16, now: u64) {
        let entry = &mut self.entries[usize::from(port)];
        if entry.mac_until != AGED {
            entry.mac_until = now + self.mac_timeout;
        }
    }

    /// Whether a packet for the server at `port` can go there. `alive`: it would answer.
    #[inline]
    pub(crate) fn look_up(&mut self, port: u16, now: u64, alive: bool) -> Lookup {
        let entry = &mut self.entries[usize::from(port)];
        if now >= entry.arp_until {
            self.arp_requests += 1;
            if !alive {
                return Lookup::Unknown;
            }
            entry.arp_until = now + self.arp_timeout;
            entry.mac_until = now + self.mac_timeout;
        }
        if now < entry.mac_until { Lookup::Known } else { Lookup::Incomplete }
    }

    /// Lets the MAC entry of `port` age at once, until the server returns.
    pub(crate) fn age_mac(&mut self, port: u16) {
        self.entries[usize::from(port)].mac_until = AGED;
    }

    /// The server at `port` is back, and makes itself known when it sends.
    pub(crate) fn returned(&mut self, port: u16) {
        let entry = &mut self.entries[usize::from(port)];
        entry.mac_until = entry.mac_until.max(AGED + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    #[test]
    fn a_dead_server_is_incomplete_between_the_two_timeouts() {
        let config = TableConfig {
            arp_timeout: Span::from_ps(1_000),
            mac_timeout: Span::from_ps(100),
            ..TableConfig::default()
        };
        let mut tables = Tables::new(&config, 2);
        assert_eq!(tables.look_up(0, 99, false), Lookup::Known);
        assert_eq!(tables.look_up(0, 100, false), Lookup::Incomplete);
        tables.saw(0, 150);
        assert_eq!(tables.look_up(0, 249, false), Lookup::Known);
        assert_eq!(tables.look_up(0, 999, false), Lookup::Incomplete);
        assert_eq!((tables.look_up(0, 1_000, false), tables.arp_requests), (Lookup::Unknown, 1));
        // One that lives answers, and is in both tables again.
        assert_eq!((tables.look_up(1, 1_000, true), tables.arp_requests), (Lookup::Known, 2));
        assert_eq!(tables.look_up(1, 1_099, true), Lookup::Known);
        assert_eq!(tables.look_up(1, 1_100, true), Lookup::Incomplete);
        tables.saw(1, 1_200);
        tables.age_mac(1);
        assert_eq!(tables.look_up(1, 1_201, true), Lookup::Incomplete);
    }
}
