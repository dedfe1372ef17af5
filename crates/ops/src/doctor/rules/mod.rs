//! The rules. Each has an incident behind it, and a section in `docs/book/doctor-rules.md`.

mod chain;
mod circle;
mod desired;
mod ends;
mod headroom;
mod host;
mod maps;
mod marks;
mod peers;
mod queues;
mod traffic;
mod unjudged;
mod watchdog;

use super::cluster::{Cluster, Node, Port, Switch};
use super::desired::{About, Desired};
use super::finding::{Finding, Rule};
use super::limits::FINDINGS_MAX;

pub(super) use chain::{at_host, cnp_dscps};
pub(super) use traffic::Traffic;
pub(super) use unjudged::unjudged;

/// What rules look at.
#[derive(Clone, Copy, Debug)]
struct Look<'a> {
    cluster: &'a Cluster,
    desired: &'a Desired,
    traffic: &'a Traffic,
}

impl Look<'_> {
    /// Whether a file says what a switch should have under that key.
    fn is_desired(
        &self,
        switch: &Switch,
        says: impl Fn(&super::desired::Settings) -> bool,
    ) -> bool {
        self.desired.of(about_switch(switch)).is_some_and(|(_, settings)| says(&settings))
    }
}

/// Judges a cluster by all rules.
pub(super) fn check(cluster: &Cluster, desired: &Desired, findings: &mut Vec<Finding>) {
    let traffic = Traffic::of(cluster, desired);
    let look = Look { cluster, desired, traffic: &traffic };
    let all: [fn(Look<'_>, &mut Vec<Finding>); 10] = [
        watchdog::check,
        headroom::check,
        chain::check,
        queues::check,
        marks::check,
        peers::check,
        ends::check,
        host::check,
        circle::check,
        desired::check,
    ];
    for rule in all {
        let before = findings.len();
        rule(look, findings);
        let more = findings.len().saturating_sub(before + FINDINGS_MAX);
        if more > 0 {
            findings.truncate(before + FINDINGS_MAX);
            let what = format!("{more} more findings of the same kind are not listed.");
            let hint = "mend those that are, and look again";
            findings.push(Finding::new(Rule::NotUnderstood, "cluster", what).remedy(hint));
        }
    }
}

/// By which the desired settings of a switch are found.
pub(super) fn about_switch(switch: &Switch) -> About<'_> {
    About {
        name: &switch.name,
        role: &switch.role,
        hwsku: &switch.hwsku,
        platform: &switch.platform,
        firmware: switch.firmware.as_deref().unwrap_or_default(),
    }
}

/// Whether ports without a link are judged: where nothing is known of any, all are.
fn is_of_fabric(look: Look<'_>, index: usize, port: &Port) -> bool {
    look.cluster.links.is_empty() || look.cluster.peer(Node::Switch(index), &port.name).is_some()
}

/// Groups by equal keys, in the order in which keys come.
fn alike<K: PartialEq, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut gathered: Vec<(K, Vec<T>)> = Vec::new();
    for (key, of) in all {
        match gathered.iter_mut().find(|(other, _)| *other == key) {
            Some((_, others)) => others.push(of),
            None => gathered.push((key, vec![of])),
        }
    }
    gathered
}

/// Thousands apart, as in 1,048,576.
pub(super) fn bytes(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
