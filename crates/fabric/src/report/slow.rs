//! Why a server does not take what comes to it, by the settings and faults of its own NIC.

use rdma::{Rate, Span, Time};

use super::Report;
use super::cause::MATTERS;
use super::diagnosis::Note;
use crate::fault::FaultKind;
use crate::nic::{HostMemory, NicConfig};
use crate::packet::whole_frame;
use crate::topology::End;

/// Pages of this size let 2,048 translations cover 4 GB: guo16's remedy (4.4).
const LARGE_PAGE: u64 = 2 << 20;

/// What makes a NIC slow: a reason, what to change, and what may be set.
struct Slow {
    why: String,
    change: String,
    remedies: Vec<Vec<String>>,
}

impl Slow {
    fn new(why: String, change: String, set: Option<String>) -> Self {
        Self { why, change, remedies: set.map(|set| vec![set]).into_iter().collect() }
    }
}

impl Report<'_> {
    /// `note`, which is of the pauses of `host`, with why that one is slow and what to change.
    pub(super) fn slowed(&self, host: u32, mut note: Note) -> Note {
        if let Some(since) = self.stuck_since(host) {
            note.why += &format!("; its NIC is stuck since {since}, as {} says", self.a_fault());
            let against = self.against_storms(host);
            return note.change(&format!("take the fault of kind \"nic-stuck\" out{against}"));
        }
        let nic = self.network.nic_config(host);
        match nic.and_then(|nic| self.slow_settings(host, nic)) {
            Some(Slow { why, change, remedies }) => {
                note.why += &format!("; {why}");
                note.remedies.extend(remedies);
                note.change(&change)
            }
            None => {
                let against = self.against_storms(host);
                note.change(&format!("see [nic] if packets are taken too slowly{against}"))
            }
        }
    }

    fn stuck_since(&self, host: u32) -> Option<Time> {
        let mut faults = self.network.faults_so_far().iter();
        faults.find(|fault| fault.kind == FaultKind::NicStuck { host }).map(|fault| fault.at)
    }

    /// What is not there yet against servers that pause without end.
    fn against_storms(&self, host: u32) -> &'static str {
        let switch_watches = self.network.switch_configs().all(|(_, own)| own.has_watchdog());
        let nic = self.network.nic_config(host);
        let nic_watches = nic.is_some_and(|nic| nic.watchdog.is_some());
        match (switch_watches, nic_watches) {
            (true, true) => "",
            (true, false) => "; against a storm, nic.watchdog_ms too",
            (false, true) => "; against a storm, switch.watchdog too",
            (false, false) => "; against a storm, switch.watchdog and nic.watchdog_ms",
        }
    }

    fn slow_settings(&self, host: u32, nic: &NicConfig) -> Option<Slow> {
        let memory = nic.host_memory.as_ref().and_then(|memory| self.slow_memory(host, memory));
        memory.or_else(|| self.slow_pipeline(host, nic))
    }

    /// Its server's memory: what is not in its caches, and the bus.
    fn slow_memory(&self, host: u32, memory: &HostMemory) -> Option<Slow> {
        let caches = self.network.host_caches(host)?;
        let key = self.key(host, |nic| nic.host_memory) + ".host_memory";
        let whole = self.network.now().as_ps() as f64;
        let misses = caches.mtt_misses + caches.qpc_misses;
        let waited = misses * memory.pcie.read.as_ps();
        if waited as f64 > whole * MATTERS {
            let (missed, of, what) = match caches.mtt_misses >= caches.qpc_misses {
                true => (caches.mtt_misses, caches.mtt_lookups, "translations of addresses"),
                false => (caches.qpc_misses, caches.qpc_lookups, "contexts of queue pairs"),
            };
            let part = waited as f64 * 100.0 / whole;
            let why = format!(
                "its NIC waited for its server's memory for {part:.0} % of the time ({}): {missed} of \
                 {of} {what} were not in the NIC",
                Span::from_ps(waited)
            );
            let HostMemory { page_bytes, mtt_entries, qpc_entries, .. } = *memory;
            if caches.mtt_misses < caches.qpc_misses {
                let change = format!("{key}.qpc_entries, now {qpc_entries}, or fewer queue pairs");
                return Some(Slow::new(why, change, None));
            }
            let larger = page_bytes < LARGE_PAGE;
            let change = format!(
                "{key}.page_bytes, now {page_bytes}, or mtt_entries, now {mtt_entries}: together they \
                 cover {} bytes",
                page_bytes * u64::from(mtt_entries)
            );
            let set = larger.then(|| format!("{key}.page_bytes={LARGE_PAGE}"));
            return Some(Slow::new(why, change, set));
        }
        let line = self.line_rate(host)?;
        let bus = memory.pcie.rate;
        (bus < line).then(|| {
            let why =
                format!("the bus to its server's memory has {bus}, and its link brings {line}");
            Slow::new(why, format!("{key}.pcie_gbps"), None)
        })
    }

    /// The time that it takes for each packet.
    fn slow_pipeline(&self, host: u32, nic: &NicConfig) -> Option<Slow> {
        let frame = whole_frame(nic.mtu);
        let every = self.line_rate(host)?.time_of(u64::from(frame));
        (nic.receive > every).then(|| {
            let why = format!(
                "its NIC takes {} for each packet, and one of {frame} bytes comes in {every}",
                nic.receive
            );
            let key = self.key(host, |nic| nic.receive) + ".receive_ns";
            let set = format!("{key}={}", every.as_ps() / 1_000);
            Slow::new(why, format!("{key}, now {}", nic.receive.as_ps() / 1_000), Some(set))
        })
    }

    /// The rate of its link.
    fn line_rate(&self, host: u32) -> Option<Rate> {
        let mut links = self.network.topology().links.iter();
        links.find(|link| link.ends.contains(&End::Host(host))).map(|link| link.rate)
    }

    /// The table of a scenario in which a setting of `host` may be changed: that of all NICs, if it is the same
    /// at all of them.
    fn key<T: PartialEq>(&self, host: u32, of: impl Fn(&NicConfig) -> T) -> String {
        let own = self.network.nic_config(host).map(&of);
        let mut all = self.network.nic_configs();
        match all.all(|(_, nic)| Some(of(nic)) == own) {
            true => "nic".to_owned(),
            false => format!("nics.{}", self.network.topology().name(End::Host(host))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cause::Trial;
    use super::super::cause::tests::told;

    const SLOW: &str = r#"
end_ms = 5
[topology]
shape = "single-switch"
hosts = 2
rate_gbps = 40
cable_m = 2
[nic.host_memory]
page_bytes = 4_096
[[workload]]
kind = "flow"
from = "h0"
to = "h1"
message_bytes = 1_024
depth = 256
endless = true
spread_bytes = 268_435_456
"#;

    #[test]
    fn a_slow_receiver_is_told_with_the_setting_that_makes_it_slow() {
        let (notes, before) = told(SLOW, &[]);
        let note = &notes[0];
        assert_eq!(note.about, "source of pauses", "{notes:?}");
        assert!(note.why.contains("; its NIC waited for its server's memory for "), "{note:?}");
        let change = note.change.as_ref().unwrap();
        let says = "nic.host_memory.page_bytes, now 4096, or mtt_entries, now 2048: together they \
                    cover 8388608 bytes";
        assert_eq!(change, says);
        assert_eq!(note.remedies, [["nic.host_memory.page_bytes=2097152"]]);
        let set = note.remedies[0].clone();
        let (_, effect) = told(SLOW, &[&set[0]]);
        let said = Trial { set, effect }.said(&before);
        assert!(said.contains(" helps: "), "{said}");
    }

    #[test]
    fn it_is_the_table_of_the_one_host_where_the_others_are_not_so() {
        let one = SLOW.replace("[nic.host_memory]", "[nics.h1.host_memory]");
        let (notes, _) = told(&one, &[]);
        assert_eq!(notes[0].remedies, [["nics.h1.host_memory.page_bytes=2097152"]]);
    }

    #[test]
    fn a_nic_that_takes_too_long_for_a_packet_is_told_with_what_would_do() {
        let slow = SLOW.replace("[nic.host_memory]\npage_bytes = 4_096", "[nic]\nreceive_ns = 400");
        let (notes, before) = told(&slow, &[]);
        let note = &notes[0];
        assert!(note.why.contains("takes 400.000 ns for each packet, and one of 1086"), "{note:?}");
        assert_eq!(note.change.as_deref(), Some("nic.receive_ns, now 400"));
        assert_eq!(note.remedies, [["nic.receive_ns=217"]]);
        let (_, effect) = told(&slow, &["nic.receive_ns=217"]);
        assert!(effect.is_better(&before), "{effect:?}");
    }

    #[test]
    fn a_nic_that_is_stuck_is_told_with_its_fault() {
        let fault = "[[fault]]\nkind = \"nic-stuck\"\nhost = \"h1\"\nat_us = 100\n";
        let (notes, _) = told(&format!("{SLOW}{fault}"), &[]);
        let note = &notes[0];
        assert!(
            note.why.ends_with("its NIC is stuck since 100.000 us, as a [[fault]] says"),
            "{note:?}"
        );
        assert!(note.change.as_ref().unwrap().starts_with("take the fault of kind"));
        assert_eq!(note.remedies, [[""; 0]; 0]);
    }
}
