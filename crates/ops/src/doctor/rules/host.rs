//! Hosts by themselves: FD012 (lldpad), FD014 (waits of a receiver that is not ready), and commands that contradict each
//! other (FD000).

use super::Look;
use super::chain::priorities;
use crate::doctor::cluster::Host;
use crate::doctor::finding::{Finding, Rule, Severity};
use crate::doctor::shell::typed;
use crate::doctor::source::env;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for host in &look.cluster.hosts {
        sources(host, findings);
        lldpad(host, findings);
        rnr_timers(host, findings);
    }
}

/// Two commands that say something else of one interface: rules look at one of them.
fn sources(host: &Host, findings: &mut Vec<Finding>) {
    for (name, own) in &host.interfaces {
        let (Some(pfc), Some(dcb)) = (&own.pfc, &own.pfc_of_dcb) else { continue };
        if pfc.value == dcb.value {
            continue;
        }
        let text = format!(
            "PFC of {name} is on for priority {} by {}, and for {} by {}: which of the two is so is not known.",
            priorities(pfc.value),
            pfc.place.file,
            priorities(dcb.value),
            dcb.place.file
        );
        let hint = "take both again, at one time; where they still differ, compare with counters of pauses (ethtool -S)";
        findings.push(
            Finding::not_understood(&host.name, pfc.place.clone(), text, hint)
                .severity(Severity::Warning)
                .at(dcb.place.clone()),
        );
    }
}

fn lldpad(host: &Host, findings: &mut Vec<Finding>) {
    let Some(place) = &host.lldpad else { return };
    let by_hand = host.judged().find(|(_, interface)| {
        let set = interface.pfc.as_ref().is_some_and(|pfc| pfc.value != 0);
        let firmware = interface.os_controlled.as_ref().is_some_and(|os| !os.value);
        set && !firmware
    });
    let Some((name, interface)) = by_hand else { return };
    let text = format!(
        "lldpad runs, and PFC of {name} is set by hand: it may be written over at any time."
    );
    findings.push(
        Finding::new(Rule::Lldpad, &host.name, text)
            .key("lldpad")
            .remedy("stop lldpad, or let it do the settings")
            .command("sudo systemctl disable --now lldpad lldpad.socket")
            .at(place.clone())
            .at(interface.pfc.as_ref().map(|pfc| pfc.place.clone())),
    );
}

/// UCX rounds a time to the next code of the standard; above the longest, 491.52 ms, comes code 0: 655.36 ms.
const LONGEST_CODE_US: f64 = 491_520.0;

fn rnr_timers(host: &Host, findings: &mut Vec<Finding>) {
    for (name, queue) in &host.queue_pairs {
        let forever = queue.value.rnr_retry.is_none_or(|retry| retry == 7);
        if queue.value.min_rnr_timer != 0 || !forever {
            continue;
        }
        let text = format!(
            "{name} has min_rnr_timer 0, which is 655.36 ms and not none, and rnr_retry 7, which is for ever."
        );
        findings.push(
            Finding::new(Rule::RnrTimer, &host.name, text)
                .key(name.clone())
                .remedy("set min_rnr_timer to 12 (0.64 ms) when the queue pair goes to RTR")
                .command("attr.min_rnr_timer = 12;   /* in ibv_modify_qp to IBV_QPS_RTR */")
                .at(queue.place.clone()),
        );
    }
    for (job, of) in &host.jobs {
        for (name, known) in &of.variables {
            let Some(stem) = name.strip_suffix("RNR_TIMEOUT") else { continue };
            let Some(time) = env::time_us(&known.value) else { continue };
            let retry = of.variables.get(&format!("{stem}RNR_RETRY_COUNT"));
            let retry = retry.and_then(|retry| env::number(&retry.value)).unwrap_or(7);
            if time <= LONGEST_CODE_US || retry < 7 {
                continue;
            }
            let text = format!(
                "{name} of job {job} is {}: above 491.52 ms the code is 0, 655.36 ms, and it is retried \
                 for ever.",
                known.value
            );
            findings.push(
                Finding::new(Rule::RnrTimer, &host.name, text)
                    .key(name.clone())
                    .remedy("a millisecond is enough for a receive to be posted")
                    .command(typed!("export", format!("{name}=1ms")))
                    .at(known.place.clone()),
            );
        }
    }
}
