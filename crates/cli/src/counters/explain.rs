//! `ferroce counters --explain`, and the page of the book about counters: both from one table.
//!
//! What a counter counts is said where it is declared ([`explained`]). What it means when one grows is said here,
//! for those that a developer meets.

use softnic::counters::explained;
use telemetry::nearest;

use crate::failure::Failure;

/// What the growth of a counter means, and what to try.
const MEANINGS: &[(&str, &str)] = &[
    (
        "local_ack_timeout_err",
        "The peer did not answer in time: packets were lost, or it is gone, or its program's host is too busy. See \
         the peer's drop_* and rx_* counters; a larger `timeout` of the queue pair waits longer.",
    ),
    (
        "rcvd_seq_err",
        "The peer missed packets and asked for them again: they were lost or overtaken on the way to it.",
    ),
    ("out_of_seq_request", "Packets before these are missing: lost or overtaken on the way to us."),
    (
        "rcvd_rnr_err",
        "The peer had no receive posted: post more receives there, or sooner; `min_rnr_timer` there says how long \
         we wait, and `rnr_retry` here how often.",
    ),
    (
        "send_rnr_err",
        "Our program had no receive posted when a SEND came: post more of them, or sooner.",
    ),
    (
        "retry_exceeded_err",
        "A request ended in IBV_WC_RETRY_EXC_ERR: the peer's queue pair is gone, not yet in RTR, or connected to \
         another one, or UDP port 4791 is blocked between the hosts.",
    ),
    ("retry_rnr_exceeded_err", "A request ended in IBV_WC_RNR_RETRY_EXC_ERR: see rcvd_rnr_err."),
    (
        "resp_remote_access_errors",
        "A peer named a key, address or right that does not fit. The log of this process says which, at `warn`.",
    ),
    (
        "req_cqe_error",
        "Our requests failed. The log of this process says which and why, at `warn`.",
    ),
    ("resp_cqe_error", "Our receives failed: too short, or of memory that may not be written."),
    (
        "cqe_flush_error",
        "Requests that were posted to a queue pair that had failed. The first failure is the cause; these follow.",
    ),
    (
        "drop_unknown_qpn",
        "A peer sends to a queue pair that is gone: it does not know yet, or has an old number.",
    ),
    (
        "drop_qp_state",
        "Packets came before RTR or after an error: one side begins before the other is ready.",
    ),
    ("drop_qkey", "Datagrams with another Q_Key: both ends must name the same."),
    ("drop_no_receive", "Datagrams found no receive posted: post more."),
    (
        "drop_wrong_source",
        "Packets for a queue pair from an address other than its peer's: often a host with several addresses.",
    ),
    (
        "rx_buffer_overflow",
        "The kernel's buffer of our socket was full: our program computes for long, or too many peers send at \
         once. FERROCE_RCVBUF_BYTES, and net.core.rmem_max.",
    ),
    (
        "rx_icrc_encapsulated",
        "Packets were damaged on the way, or their ICRC is not computed as the standard says.",
    ),
    (
        "tx_blocked_window",
        "Sending waits for acknowledgements: the path is long, or the peer slow to answer. Normal at full rate.",
    ),
    (
        "tx_blocked_read_limit",
        "As many READs and atomics are outstanding as `max_rd_atomic` allows: raise it at both ends.",
    ),
    (
        "tx_pauses",
        "A receiver on this host had no room: it is slower than we are. Normal at full rate.",
    ),
];

/// What a counter counts and means, for a terminal.
pub(super) fn one(name: &str) -> Result<String, Failure> {
    let all = explained();
    let Some((name, text)) = all.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let failure = Failure::new(format!("there is no counter called {name}"));
        return Err(failure.hint(match nearest(name, &names) {
            Some(meant) => format!("you may have meant {meant}"),
            None => String::from("`ferroce counters --explain` lists all"),
        }));
    };
    let mut lines = format!("{name}\n");
    for text in [Some(*text), meaning(name)].into_iter().flatten() {
        lines.push_str(&folded(text, 76, "    "));
    }
    Ok(lines)
}

/// All of them, a line or two each, for a terminal.
pub(super) fn all() -> String {
    explained().iter().map(|(name, text)| format!("{name}\n{}", folded(text, 76, "    "))).collect()
}

fn meaning(name: &str) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Lines of at most `width` characters behind `indent`.
fn folded(text: &str, width: usize, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

/// The page `docs/book/counters.md`.
#[cfg(test)]
fn page() -> String {
    let mut page = String::from(
        "# Counters\n\n\
         <!-- Generated from the code: `SNAPSHOTS=overwrite cargo test -p ferroce-cli counters` renews it. -->\n\n\
         What a soft NIC counts, as `ferroce counters` shows it of running programs, and `ferroce run --stats` at\n\
         the end of one. `ferroce counters --explain NAME` says the same as this page. Where Linux has a name for\n\
         it (`/sys/class/infiniband/*/ports/1/hw_counters`), it is that.\n\n\
         ## Those that say that something is wrong\n\n| counter | when it grows |\n|---|---|\n",
    );
    for (name, text) in MEANINGS {
        page.push_str(&format!("| `{name}` | {text} |\n"));
    }
    page.push_str("\n## All of them\n\n| counter | what it counts |\n|---|---|\n");
    for (name, text) in explained() {
        page.push_str(&format!("| `{name}` | {} |\n", text.replace('|', "\\|")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_all_counters_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/counters.md");
        let page = page();
        if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
            std::fs::write(path, &page).unwrap();
        }
        let held = std::fs::read_to_string(path).unwrap_or_default();
        assert!(held == page, "stale: SNAPSHOTS=overwrite renews it");
    }

    #[test]
    fn every_meaning_is_of_a_counter() {
        let known = explained();
        for (name, _) in MEANINGS {
            assert!(known.iter().any(|(counter, _)| counter == name), "{name}");
        }
        assert!(known.iter().all(|(_, text)| text.ends_with('.')));
    }

    #[test]
    fn a_counter_is_explained_and_one_that_is_none_told_with_the_nearest() {
        let text = one("rcvd_rnr_err").unwrap();
        assert!(
            text.contains("RNR NAKs received.") && text.contains("post more receives"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let failure = one("rcvd_rnr_er").unwrap_err().to_string();
        assert!(failure.ends_with("you may have meant rcvd_rnr_err"), "{failure}");
    }
}
