//! Any bytes, as everything that operators' tools read from files.

use crate::doctor::what_if::{Trial, WhatIf};
use crate::doctor::{Diagnosis, File, Folder, path, report};

/// Takes `bytes` as a folder of files (a path, a NUL, what is in it, a NUL, the next path, ...) and judges it in every
/// way that there is. Says whether all of it was understood.
///
/// # Panics
/// If a finding names a line that is not there, a report would be obeyed by a terminal, or JSON is none.
pub fn judge_anything(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|&byte| byte == 0);
    let mut files = Vec::new();
    while let (Some(path), Some(content)) = (parts.next(), parts.next()) {
        files.push(File::new(String::from_utf8_lossy(path), content));
    }
    let folder = Folder::of(files);
    let diagnosis = Diagnosis::of(&folder, None, None);
    for finding in &diagnosis.findings {
        assert!(!finding.text.is_empty(), "{finding:?}");
        for place in &finding.places {
            let Some(line) = place.line else { continue };
            // A text may be of UTF-16, and its end behind its last line feed.
            let here = folder.files.iter().filter(|file| file.path == place.file);
            let lines = here.map(|file| file.bytes.split(|&byte| byte == b'\n').count()).max();
            assert!(lines.is_none_or(|lines| (1..=lines + 1).contains(&line)), "{finding:?}");
        }
    }
    harmless(&report::text(&diagnosis, "folder"));
    for text in [report::json(&diagnosis, "folder"), report::sarif(&diagnosis)] {
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }
    let hosts: Vec<&str> = diagnosis.cluster.hosts.iter().map(|host| host.name.as_str()).collect();
    if let [first, second, ..] = hosts[..]
        && let Ok((text, _)) = path(&diagnosis, first, second, None)
    {
        harmless(&text);
    }
    // Networks are made and not run.
    let _ = Trial::new(&diagnosis, WhatIf::Storm, None, 1);
    diagnosis.findings.iter().all(|finding| finding.rule.id() != "FD000")
}

fn harmless(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Every file of a folder of `fuzz/`, if that is there.
    fn inputs(folder: &str) -> Vec<(String, Vec<u8>)> {
        let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder);
        let paths = fs::read_dir(at).into_iter().flatten().map(|entry| entry.unwrap().path());
        paths.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
    }

    #[test]
    fn the_corpus_is_judged_and_what_is_cut_is_without_a_panic() {
        let corpus = inputs("corpus/doctor");
        assert!(corpus.len() >= 16, "{} inputs", corpus.len());
        for (name, bytes) in &corpus {
            assert!(judge_anything(bytes), "{name}");
        }
        for (_, bytes) in corpus.iter().chain(&inputs("regressions/doctor")) {
            judge_anything(bytes);
            let step = (bytes.len() / 25).max(5);
            for end in (0..bytes.len()).step_by(step) {
                judge_anything(&bytes[..end]);
                // A byte that is another.
                let mut other = bytes.clone();
                other[end] = other[end].wrapping_add(1 + end as u8 % 7);
                judge_anything(&other);
            }
        }
    }

    #[test]
    fn what_would_move_a_cursor_or_fill_memory_does_neither() {
        let config = "{\"PORT\":{\"Ethernet0\\u001b[2J\":{\"speed\":\"100000\",\"mtu\":\"4294967295\",\"lanes\":\"\\u0007\"}},\
                      \"BUFFER_PG\":{\"Ethernet0|0-18446744073709551615\":{\"profile\":\"x\"}}}";
        let deep = "[".repeat(100_000);
        let many: String =
            (0..20_000).map(|at| format!("qpn={at} min_rnr_timer=0 rnr_retry=7\n")).collect();
        for (path, text) in [
            ("\u{1b}[31mtor/config_db.json", config),
            (
                "tor/lldp.txt",
                "LocalPort\n\u{1b}]0;x\u{7} h0 eth2\nTotal entries displayed: 99999999999999999999",
            ),
            ("h/dcb-pfc.eth0.json", deep.as_str()),
            ("h/lldp.json", deep.as_str()),
            ("h/qp.j.txt", many.as_str()),
            ("h/mlnx_qos.\u{1b}[0m.txt", "Priority trust state: \u{1b}[2Jpcp\n"),
            ("h/env.\n.txt", "NCCL_IB_TC=0x\u{1b}[1m\n"),
            ("h/ethtool-S.eth0.txt", "a: 99999999999999999999999\n\u{9b}b: 1\n"),
            ("desired.toml", "[roles.\"\\u001b[2J\"]\ndevices = [\"*\"]\nalpha = \"\\u001b\"\n"),
            ("doctor.toml", "[[mute]]\nrule = \"\\u001b[2J\"\nreason = \"\\u0007\"\n"),
        ] {
            let bytes = [path.as_bytes(), b"\0", text.as_bytes()].concat();
            judge_anything(&bytes);
        }
    }
}
