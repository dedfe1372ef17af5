//! What a collector's file says, as JSON.

use fabric::topology::{End, Topology};
use serde_json::{Value, json};

use super::raw::{Raw, Sent, Times};
use super::scope::Scope;
use super::store::{self, Incident};
use super::summary::{Sum, Summary, TcpSum};
use super::verdict::{Suspect, Verdict};

/// What is told. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Who is linked to whom.
    pub topology: &'a Topology,
    /// What probes have seen.
    pub summary: &'a Summary,
    /// When the last window ended.
    pub to_ns: u64,
    /// Windows that there are, and those that are missing between the first and the last of each host.
    pub windows: [u64; 2],
    /// What is sick now.
    pub verdict: &'a Verdict,
    /// What was.
    pub incidents: &'a [Incident],
    /// Single probes.
    pub single: &'a Single,
}

/// Single probes that a collector has kept.
#[derive(Clone, Debug, Default)]
pub struct Single {
    /// Those that its file has now, and those of them that have failed or were slow.
    pub kept: [u64; 2],
    /// What windows have told of since the file began.
    pub told: store::Told,
    /// The last that have failed or were slow, the newest first: of what is accused or, if nothing is, of all.
    pub last: Vec<Sent>,
}

/// See the module.
pub fn json(told: &Told<'_>) -> String {
    let Told { topology, summary, to_ns, windows: [kept, missing], verdict, incidents, single } =
        *told;
    let scopes = Scope::ALL.into_iter().filter_map(|scope| {
        let sum = summary.scope(scope);
        (sum.counts.sent > 0).then(|| of_scope(scope, &sum, &summary.tcp(scope)))
    });
    let pairs = summary.pairs.iter().map(|((scope, from, to), sum)| {
        json!({
            "scope": scope.name(), "from": from, "to": to, "probes": sum.counts.sent,
            "answered": sum.counts.answered, "timeout": sum.counts.timeout,
            "p50_us": sum.network.us(0.5), "p99_us": sum.network.us(0.99),
        })
    });
    let sick = verdict.sick().len();
    let suspects = (0..).zip(&verdict.suspects).map(|(number, suspect)| {
        let mut value = of_suspect(suspect, topology);
        value["sick"] = (number < sick).into();
        value
    });
    let incidents = incidents.iter().map(|incident| {
        json!({
            "what": incident.culprit, "why": incident.cause, "since_ns": incident.since_ns,
            "until_ns": incident.until_ns, "evidence": incident.evidence,
        })
    });
    let value = json!({
        "version": 1,
        "hosts": topology.hosts.len(),
        "from_ns": summary.begin_ns(),
        "to_ns": to_ns,
        "windows": { "kept": kept, "missing": missing },
        "scopes": scopes.collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "verdict": { "probes": verdict.probes, "suspects": suspects.collect::<Vec<_>>() },
        "incidents": incidents.collect::<Vec<_>>(),
        "single_probes": of_single(single, topology),
    });
    format!("{value:#}\n")
}

fn of_scope(scope: Scope, sum: &Sum, tcp: &TcpSum) -> Value {
    let Sum { counts, network, responder } = sum;
    json!({
        "scope": scope.name(),
        "probes": counts.sent,
        "answered": counts.answered,
        "timeout": counts.timeout,
        "send_error": counts.send_error,
        "invalid_rtt": counts.invalid_rtt,
        "p50_us": network.us(0.5),
        "p99_us": network.us(0.99),
        "p999_us": network.us(0.999),
        "responder_p99_us": responder.us(0.99),
        "tcp": {
            "probes": tcp.counts.sent,
            "answered": tcp.counts.answered,
            "timeout": tcp.counts.timeout,
            "send_error": tcp.counts.send_error,
            "late": tcp.late,
            "p50_us": tcp.round_trip.us(0.5),
            "p99_us": tcp.round_trip.us(0.99),
        },
    })
}

/// The first of a verdict is the likeliest. One that is not `sick` may be a symptom of those that are.
fn of_suspect(suspect: &Suspect, topology: &Topology) -> Value {
    json!({
        "what": suspect.culprit.named(topology),
        "kind": suspect.culprit.kind(),
        "why": suspect.cause.text(),
        "since_ns": suspect.since_ns,
        "until_ns": suspect.until_ns,
        "support": suspect.joined.support(),
        "evidence": suspect.evidence,
        "agrees": suspect.joined.agrees,
        "against": suspect.joined.contradicts,
        "reach": suspect.joined.reach,
        "tcp": suspect.joined.tcp,
    })
}

fn of_single(single: &Single, topology: &Topology) -> Value {
    let Single { kept: [kept, of_interest], told, last } = single;
    let [left_out, failed_left_out] = told.left_out();
    let last = last.iter().map(|&(host, probe)| {
        let Raw { target, scope, label, posted_ns, outcome, times } = probe;
        let us = |of: fn(Times) -> u64| times.map(|times| of(times) as f64 / 1e3);
        json!({
            "posted_ns": posted_ns,
            "from": topology.name(End::Host(host)),
            "to": topology.name(End::Host(target)),
            "scope": scope.name(),
            "label": label,
            "outcome": outcome.name(),
            "status": outcome.status(),
            "network_us": us(|times| times.network_ns),
            "responder_us": us(|times| times.responder_ns),
            "prober_us": us(|times| times.prober_ns),
        })
    });
    json!({
        "kept": kept, "failed_or_slow": of_interest, "left_out": left_out,
        "failed_left_out": failed_left_out, "last_failed_or_slow": last.collect::<Vec<_>>(),
    })
}
