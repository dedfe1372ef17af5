//! What may be done about a finding: a remedy for people, and the commands of SONiC's own watchdog.

use super::detect::{Finding, Kind};
use super::port::Role;
use super::sample::PortSample;

/// What to look at first.
pub fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::Deadlock => {
            "find what makes routes go down and up again (flooding of unknown addresses, detours), and reset one of \
             the links of the circle"
        }
        Kind::PauseStorm => {
            "take the NIC out of service; let watchdogs of the NIC and of its switch end the next one"
        }
        Kind::LosslessLoss => {
            "compare pfc_enable, buffer profile and headroom of this class at both ends of the link"
        }
        Kind::SlowReceiver => {
            "look at the host: PCIe stalls, pages too small for the NIC's translations, too few receive buffers"
        }
        Kind::EcnNeverMarks => {
            "set the ECN threshold of the queue below the length at which PFC pauses"
        }
        Kind::EarlyPauses => {
            "compare its buffer profiles (dynamic_th, alpha) with those of its like: ferroce doctor does"
        }
    }
}

/// The command by which SONiC itself watches and mitigates at the port of a finding; `None` if that is no port of a
/// switch, or the watchdog is no remedy.
pub fn sonic_command(finding: &Finding, port: &PortSample) -> Option<String> {
    let at = &finding.port.port;
    let helps = matches!(finding.kind, Kind::PauseStorm | Kind::Deadlock);
    (helps && port.role == Role::Switch && !at.is_empty())
        .then(|| format!("config pfcwd start --action drop {at} 400 --restoration-time 400"))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::watch::PortName;

    #[test]
    fn only_storms_at_ports_of_switches_have_a_command() {
        let finding = |kind| Finding {
            kind,
            who: "h0".into(),
            priorities: 8,
            port: PortName::new("tor0", "Ethernet4"),
            since: Duration::ZERO,
            found: Duration::ZERO,
            evidence: String::new(),
        };
        let switch = PortSample { role: Role::Switch, ..PortSample::default() };
        let command = sonic_command(&finding(Kind::PauseStorm), &switch).unwrap();
        assert_eq!(
            command,
            "config pfcwd start --action drop Ethernet4 400 --restoration-time 400"
        );
        assert_eq!(sonic_command(&finding(Kind::SlowReceiver), &switch), None);
        assert_eq!(sonic_command(&finding(Kind::PauseStorm), &PortSample::default()), None);
    }
}
