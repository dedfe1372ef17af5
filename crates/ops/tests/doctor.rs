//! The shipped cluster, and one file for each rule that breaks it and nothing else.

use std::path::Path;

use ops::doctor::{Diagnosis, Folder, Severity, path, report};

fn folder(name: &str) -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    Folder::read(&at).expect("the example is in the repository")
}

fn found(folder: &Folder) -> Vec<(String, String)> {
    let diagnosis = Diagnosis::of(folder, None, None);
    let of =
        |finding: &ops::doctor::Finding| (finding.rule.id().to_owned(), finding.device.clone());
    diagnosis.findings.iter().map(of).collect()
}

#[test]
fn of_the_example_exactly_the_five_planted_faults_are_found() {
    let diagnosis = Diagnosis::of(&folder("cluster"), None, None);
    let all: Vec<String> = diagnosis
        .findings
        .iter()
        .map(|finding| {
            format!("{} {} {}", finding.severity.name(), finding.rule.id(), finding.device)
        })
        .collect();
    assert_eq!(
        all,
        [
            "ERROR FD004 h5",
            "ERROR FD005 h6",
            "ERROR FD003 leaf-2",
            "ERROR FD001 tor-2",
            "ERROR FD007 tor-4",
        ],
        "{:#?}",
        diagnosis.findings
    );
}

#[test]
fn of_the_healthy_example_nothing_is_found() {
    let diagnosis = Diagnosis::of(&folder("cluster-healthy"), None, None);
    assert_eq!(diagnosis.findings, []);
    assert_eq!(diagnosis.cluster.summary(), "12 switches, 8 hosts, 32 links, 1 job");
}

/// guo16, 6.2: a new type of ToR comes with alpha 1/64; what is desired is 1/16, and old files say since when.
#[test]
fn the_alpha_incident_is_named_with_both_values_and_since_when() {
    let diagnosis = Diagnosis::of(&folder("cluster"), None, None);
    let mut alphas = diagnosis.findings.iter().filter(|finding| finding.rule.id() == "FD007");
    let finding = alphas.next().expect("it is found");
    let difference = finding.difference.as_ref().expect("it is desired otherwise");
    assert_eq!((finding.device.as_str(), finding.severity), ("tor-4", Severity::Error));
    assert_eq!(difference.key, "roles.ToRRouter.alpha");
    assert_eq!((difference.desired.as_str(), difference.running.as_str()), ("1/16", "1/64"));
    assert_eq!(
        difference.since.as_deref(),
        Some("between the snapshots 2026-11-18 and 2026-11-21")
    );
    let line = finding.places[0].line.expect("it stands in a line");
    let files = folder("cluster").files;
    let file = files.iter().find(|file| file.path == finding.places[0].file).unwrap();
    let text = String::from_utf8(file.bytes.clone()).unwrap();
    assert_eq!(text.lines().nth(line - 1).unwrap().trim(), "\"dynamic_th\": \"-6\",");
    assert!(
        finding.commands[0].starts_with("sudo mmuconfig -p pg_lossless_100000_"),
        "{finding:?}"
    );
    // Without a desired.toml its peers tell.
    let mut alone = folder("cluster");
    alone.files.retain(|file| file.path != "desired.toml");
    let diagnosis = Diagnosis::of(&alone, None, None);
    let mut alphas = diagnosis.findings.iter().filter(|finding| finding.rule.id() == "FD007");
    let finding = alphas.next().expect("it is found");
    assert!(
        finding.text.contains("alpha 1/64 (dynamic_th -6)")
            && finding.text.contains("3 others of role ToRRouter"),
        "{}",
        finding.text
    );
    assert_eq!(alphas.next(), None);
}

/// A rule, the device that breaks it, and how a healthy file becomes one that does: file, text, and what is in its
/// place. Before a text, `*` replaces all of it; without a text, the file is new.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str, &'static str)]);

const CASES: &[Case] = &[
    (
        "FD000",
        "spine-1",
        &[("spine-1/config_db.json", "\"mode\": \"dynamic\"", "\"mode\": \"elastic\"")],
    ),
    (
        "FD000",
        "h0",
        &[(
            "h0/mlnx_qos.eth2.txt",
            "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled ",
            "",
        )],
    ),
    (
        "FD001",
        "leaf-1",
        &[("leaf-1/config_db.json", "\"POLL_INTERVAL\": \"200\"", "\"POLL_INTERVAL\": \"300\"")],
    ),
    (
        "FD002",
        "spine-2",
        &[(
            "spine-2/config_db.json",
            "*\"detection_time\": \"200\"",
            "\"detection_time\": \"3200\"",
        )],
    ),
    (
        "FD003",
        "leaf-3",
        &[("leaf-3/config_db.json", "\"xoff\": \"101376\"", "\"xoff\": \"60000\"")],
    ),
    (
        "FD003",
        "tor-1",
        &[(
            "tor-1/config_db.json",
            "        \"Ethernet0|3-4\": {\n            \"profile\": \"pg_lossless_100000_5m_profile\"\n        },\n",
            "",
        )],
    ),
    ("FD004", "tor-3", &[("tor-3/config_db.json", "\"26\": \"3\"", "\"26\": \"1\"")]),
    (
        "FD004",
        "spine-4",
        &[("spine-4/config_db.json", "\"pfc_enable\": \"3,4\"", "\"pfc_enable\": \"4\"")],
    ),
    (
        "FD004",
        "leaf-2",
        &[(
            "leaf-2/config_db.json",
            "\"MAP_PFC_PRIORITY_TO_QUEUE\": {\n        \"AZURE\": {\n            \"0\": \"0\",\n            \"1\": \"1\",\n            \"2\": \"2\",\n            \"3\": \"3\"",
            "\"MAP_PFC_PRIORITY_TO_QUEUE\": {\n        \"AZURE\": {\n            \"0\": \"0\",\n            \"1\": \"1\",\n            \"2\": \"2\",\n            \"3\": \"4\"",
        )],
    ),
    (
        "FD004",
        "h1",
        &[
            ("h1/mlnx_qos.eth2.txt", "enabled     0   0   0   1 ", "enabled     0   0   0   0 "),
            ("h1/dcb-pfc.eth2.json", "true", "false"),
        ],
    ),
    (
        "FD004",
        "h2",
        &[
            (
                "h2/mlnx_qos.eth2.txt",
                "prio:3 dscp:31,30,29,28,27,26,25,24,",
                "prio:3 dscp:31,30,29,28,27,25,24,",
            ),
            ("h2/mlnx_qos.eth2.txt", "prio:4 dscp:", "prio:4 dscp:26,"),
            (
                "h2/mlnx_qos.eth2.txt",
                "enabled     0   0   0   1   0",
                "enabled     0   0   0   0   1",
            ),
            ("h2/dcb-pfc.eth2.json", "true,false", "false,true"),
        ],
    ),
    ("FD004", "h3", &[("h3/env.train.txt", "NCCL_IB_TC=106", "NCCL_IB_TC=26")]),
    (
        "FD004",
        "h4",
        &[("h4/env.train.txt", "NCCL_IB_TC=106\n", ""), ("h4/sysfs.txt", "Global tclass=106", "")],
    ),
    ("FD005", "h7", &[("h7/mlnx_qos.eth2.txt", "state: dscp", "state: pcp")]),
    (
        "FD006",
        "tor-1",
        &[
            (
                "tor-1/config_db.json",
                "*\"green_max_threshold\": \"1500000\"",
                "\"green_max_threshold\": \"2097152\"",
            ),
            (
                "tor-1/config_db.json",
                "*\"green_min_threshold\": \"150000\"",
                "\"green_min_threshold\": \"1048576\"",
            ),
        ],
    ),
    (
        "FD007",
        "spine-3",
        &[("spine-3/config_db.json", "*\"dynamic_th\": \"-4\"", "\"dynamic_th\": \"-2\"")],
    ),
    (
        "FD008",
        "leaf-4",
        &[("leaf-4/config_db.json", "\"ecn\": \"ecn_all\"", "\"ecn\": \"ecn_none\"")],
    ),
    (
        "FD008",
        "leaf-4",
        &[(
            "leaf-4/config_db.json",
            "\"WRED_ECN_QUEUE\": {\n            \"FLEX_COUNTER_STATUS\": \"enable\"",
            "\"WRED_ECN_QUEUE\": {\n            \"FLEX_COUNTER_STATUS\": \"disable\"",
        )],
    ),
    (
        "FD009",
        "tor-2",
        &[(
            "tor-2/config_db.json",
            "        \"Ethernet4\": {\n            \"action\": \"drop\",\n            \"detection_time\": \"200\",\n            \"restoration_time\": \"200\"\n        },\n",
            "",
        )],
    ),
    ("FD010", "spine-1", &[("spine-1/config_db.json", "\"48\": \"6\"", "\"48\": \"3\"")]),
    ("FD010", "h0", &[("h0/sysfs.txt", "cnp_dscp:48", "cnp_dscp:26")]),
    ("FD011", "leaf-1", &[("leaf-1/config_db.json", "*\"mtu\": \"9100\"", "\"mtu\": \"4096\"")]),
    ("FD011", "h1", &[("h1/sysfs.txt", "eth2/mtu:9000", "eth2/mtu:1500")]),
    ("FD011", "h2", &[("h2/env.train.txt", "GID_INDEX=3", "GID_INDEX=2")]),
    ("FD011", "h3", &[("h3/env.train.txt", "GID_INDEX=3", "GID_INDEX=5")]),
    // The same index is an address of IPv6 here.
    (
        "FD011",
        "h5",
        &[(
            "h5/sysfs.txt",
            "gids/3:0000:0000:0000:0000:0000:ffff:",
            "gids/3:fd00:0000:0000:0000:0000:0000:",
        )],
    ),
    ("FD012", "h4", &[("h4/lldpad.txt", "inactive", "active")]),
    (
        "FD013",
        "tor-1",
        &[
            (
                "tor-1/config_db.json",
                "\"Vlan1000|Ethernet4\": {",
                "\"Vlan1000|Ethernet112\": {\"tagging_mode\": \"tagged\"},\n\"Vlan1000|Ethernet116\": {\"tagging_mode\": \"tagged\"},\n\"Vlan1000|Ethernet4\": {",
            ),
            (
                "tor-2/config_db.json",
                "\"Vlan1000|Ethernet4\": {",
                "\"Vlan1000|Ethernet112\": {\"tagging_mode\": \"tagged\"},\n\"Vlan1000|Ethernet116\": {\"tagging_mode\": \"tagged\"},\n\"Vlan1000|Ethernet4\": {",
            ),
        ],
    ),
    ("FD014", "h5", &[("h5/env.train.txt", "NCCL_DEBUG=WARN", "UCX_RC_MLX5_RNR_TIMEOUT=1s")]),
    (
        "FD014",
        "h6",
        &[(
            "h6/qp.train.txt",
            "",
            "qpn=0x1a3 state=RTS min_rnr_timer=0 rnr_retry=7\nqpn=0x1a4 state=RTS min_rnr_timer=12 rnr_retry=7\n",
        )],
    ),
    (
        "FD015",
        "h7",
        &[
            (
                "desired.toml",
                "trust = \"dscp\"",
                "trust = \"dscp\"\nenv = { NCCL_IB_TIMEOUT = \"22\" }",
            ),
            ("h7/env.train.txt", "NCCL_IB_TIMEOUT=22", "NCCL_IB_TIMEOUT=18"),
        ],
    ),
    (
        "FD015",
        "tor-4",
        &[
            (
                "desired.toml",
                "alpha = \"1/16\"",
                "alpha = \"1/16\"\nfirmware_is = \"SONiC.202305.412310-3c5e6a1f2\"",
            ),
            ("tor-4/version.txt", "SONiC.202305.412310-3c5e6a1f2", "SONiC.202211.1"),
        ],
    ),
    (
        "FD016",
        "leaf-2",
        &[("leaf-2/config_db.json", "\"name\": \"spine-1\"", "\"name\": \"spine-2\"")],
    ),
    // A pool that overflows, and one that queues of classes that drop may fill.
    (
        "FD004",
        "tor-1",
        &[("tor-1/config_db.json", "\"size\": \"14371840\"", "\"size\": \"1000000\"")],
    ),
    (
        "FD004",
        "spine-2",
        &[
            ("spine-2/config_db.json", "*egress_lossless_profile\"\n", "egress_lossy_profile\"\n"),
            ("spine-2/config_db.json", "\"dynamic_th\": \"3\"", "\"dynamic_th\": \"7\""),
        ],
    ),
];

fn broken(changes: &[(&str, &str, &str)]) -> Folder {
    let mut folder = folder("cluster-healthy");
    // Its desired values would tell as well; the rules are to tell by themselves, but for FD015.
    if changes.iter().all(|(file, ..)| *file != "desired.toml") {
        folder.files.retain(|file| file.path != "desired.toml");
    }
    for (path, text, instead) in changes {
        if text.is_empty() {
            let file = ops::doctor::File::new(*path, *instead);
            folder = Folder::of(folder.files.into_iter().chain([file]));
            continue;
        }
        let file = folder.files.iter_mut().find(|file| file.path == *path).expect(path);
        let old = String::from_utf8(file.bytes.clone()).unwrap();
        let new = match text.strip_prefix('*') {
            Some(text) => old.replace(text, instead),
            None => old.replacen(text, instead, 1),
        };
        assert_ne!(old, new, "{path} has no {text:?}");
        file.bytes = new.into_bytes();
    }
    folder
}

#[test]
fn a_file_that_breaks_a_rule_breaks_that_rule_and_no_other() {
    let mut wrong = Vec::new();
    for (number, (rule, device, changes)) in CASES.iter().enumerate() {
        let diagnosis = Diagnosis::of(&broken(changes), None, None);
        let all: Vec<(&str, &str)> =
            diagnosis.findings.iter().map(|f| (f.rule.id(), f.device.as_str())).collect();
        if all != [(*rule, *device)] {
            wrong.push(format!("case {number}, {rule} at {device}: {:#?}", diagnosis.findings));
        }
        for finding in &diagnosis.findings {
            let complete =
                !finding.remedy.is_empty() && !finding.places.is_empty() && !finding.key.is_empty();
            let sentence = finding.text.ends_with('.');
            if !complete || !sentence {
                wrong.push(format!(
                    "case {number}: a key, a remedy, a place and a sentence: {finding:#?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case() {
    for rule in ops::doctor::Rule::ALL {
        assert!(CASES.iter().any(|(id, ..)| *id == rule.id()), "{}", rule.id());
    }
}

/// A switch type may differ from the others of its role, if somebody says so.
#[test]
fn a_variant_of_a_role_may_have_its_own_alpha() {
    let mut folder = folder("cluster");
    let file = folder.files.iter_mut().find(|file| file.path == "desired.toml").unwrap();
    let text = String::from_utf8(file.bytes.clone()).unwrap();
    let variant = "[[roles.ToRRouter.variants]]\nhwsku = \"ACS-MSN3700\"\nalpha = \"1/64\"\n\n[roles.LeafRouter]";
    file.bytes = text.replace("[roles.LeafRouter]", variant).into_bytes();
    assert!(found(&folder).iter().all(|(rule, _)| rule != "FD007"));
}

#[test]
fn what_is_known_is_muted_and_still_told() {
    let mut folder = folder("cluster");
    let text =
        "[[mute]]\nrule = \"FD007\"\ndevices = [\"tor-4\"]\nreason = \"on trial until December\"\n";
    folder =
        Folder::of(folder.files.into_iter().chain([ops::doctor::File::new("doctor.toml", text)]));
    let diagnosis = Diagnosis::of(&folder, None, None);
    assert_eq!((diagnosis.findings.len(), diagnosis.muted.len()), (4, 1));
    let text = report::text(&diagnosis, "cluster");
    assert!(text.contains("muted: FD007 at tor-4: on trial until December\n"), "{text}");
    let sarif: serde_json::Value = serde_json::from_str(&report::sarif(&diagnosis)).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let muted = results.iter().find(|result| result["ruleId"] == "FD007").unwrap();
    assert_eq!(muted["suppressions"][0]["justification"], "on trial until December");
}

#[test]
fn the_text_fits_a_terminal_but_for_commands_that_are_copied() {
    for folder in [folder("cluster"), broken(CASES[26].2)] {
        let diagnosis = Diagnosis::of(&folder, None, None);
        let text = report::text(&diagnosis, "examples/cluster");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("type ")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("\n         do       "), "{text}");
    }
}

#[test]
fn the_path_shows_both_directions_and_where_they_break() {
    let healthy = Diagnosis::of(&folder("cluster-healthy"), None, None);
    let (text, breaks) = path(&healthy, "h0", "h7", Some(26)).unwrap();
    assert_eq!(breaks, 0, "{text}");
    assert!(
        text.contains("data, h0 to h7: DSCP 26\n") && text.contains("CNPs, h7 to h0: DSCP 48\n")
    );
    // Five switches each way, each with a line in and a line out.
    assert_eq!(text.matches(" in: TC 3 -> PG 3, lossless").count(), 10, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (text, breaks) = path(&healthy, "h0", "h7", Some(8)).unwrap();
    assert!(breaks > 0 && text.contains("BREAKS: PG 0 never pauses"), "{text}");
    let sick = Diagnosis::of(&folder("cluster"), None, None);
    let (text, breaks) = path(&sick, "h0", "h6", None).unwrap();
    assert!(breaks > 0 && text.contains("trusts PCP"), "{text}");
    assert!(path(&sick, "h0", "h99", None).unwrap_err().to_string().contains("hint: there are h0"));
    assert!(path(&sick, "h0", "h0", None).is_err());
}
