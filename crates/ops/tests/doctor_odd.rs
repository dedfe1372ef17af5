//! Folders as people have them: other encodings, names and vendors, links in circles, and files that are not there.

use std::fs;
use std::path::{Path, PathBuf};

use ops::doctor::{Diagnosis, File, Folder, report};

fn healthy() -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster-healthy");
    Folder::read(&at).expect("the example is in the repository")
}

/// The same with every file of these names changed.
fn changed(names: &[&str], change: impl Fn(&str, &str) -> Vec<u8>) -> Folder {
    let mut folder = healthy();
    for file in &mut folder.files {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if names.is_empty() || names.contains(&name) {
            let text = String::from_utf8(file.bytes.clone()).expect("ours are UTF-8");
            file.bytes = change(&file.path, &text);
        }
    }
    folder
}

fn found(folder: &Folder) -> Vec<String> {
    let diagnosis = Diagnosis::of(folder, None, None);
    let all = diagnosis.findings.iter();
    all.map(|f| format!("{} {}: {}", f.rule.id(), f.device, f.text)).collect()
}

#[test]
fn line_ends_and_encodings_of_other_systems_change_nothing() {
    let none = Vec::<String>::new();
    assert_eq!(found(&changed(&[], |_, text| text.replace('\n', "\r\n").into_bytes())), none);
    assert_eq!(found(&changed(&[], |_, text| format!("\u{feff}{text}").into_bytes())), none);
    let utf16 = |big: bool| {
        move |_: &str, text: &str| {
            let units = core::iter::once(0xfeff).chain(text.encode_utf16());
            let of = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            units.flat_map(of).collect()
        }
    };
    assert_eq!(found(&changed(&[], utf16(false))), none);
    assert_eq!(found(&changed(&[], utf16(true))), none);
}

#[test]
fn devices_are_found_by_hostname_and_with_a_domain() {
    let domain = |_: &str, text: &str| {
        let mut text = text.to_owned();
        for name in ["tor-", "leaf-", "spine-"] {
            for number in 1..=4 {
                let (old, new) = (format!("{name}{number}"), format!("{name}{number}.dc1.example"));
                text = text.replace(&format!("{old} "), &format!("{new} "));
                text = text.replace(&format!("\"{old}\""), &format!("\"{new}\""));
            }
        }
        text.into_bytes()
    };
    let folder = changed(&["lldp.txt", "lldp.json"], domain);
    assert_eq!(found(&folder), Vec::<String>::new());
    assert_eq!(Diagnosis::of(&folder, None, None).cluster.links.len(), 32);
    let mut renamed = healthy();
    for file in &mut renamed.files {
        file.path = file.path.replace("tor-1/", "rack one/");
    }
    let diagnosis = Diagnosis::of(&renamed, None, None);
    assert_eq!(diagnosis.findings, []);
    assert_eq!(diagnosis.cluster.links.len(), 32);
}

#[test]
fn a_table_of_neighbours_that_is_cut_is_said_and_not_used() {
    for keep in ["Ethernet4", "Total entries"] {
        let cut = changed(&["lldp.txt"], |path, text| {
            let at = if path.starts_with("tor-2/") { text.find(keep) } else { None };
            text.as_bytes()[..at.unwrap_or(text.len())].to_vec()
        });
        let all = found(&cut);
        assert!(
            all.len() == 1 && all[0].starts_with("FD000 tor-2: tor-2/lldp.txt: it is cut"),
            "{all:?}"
        );
        // Its DEVICE_NEIGHBOR and the others' LLDP say it as well.
        assert_eq!(Diagnosis::of(&cut, None, None).cluster.links.len(), 32);
    }
    let fewer = changed(&["lldp.txt"], |path, text| {
        let row = |line: &&str| !(path.starts_with("tor-2/") && line.starts_with("Ethernet4 "));
        text.lines().filter(row).map(|line| format!("{line}\n")).collect::<String>().into_bytes()
    });
    assert!(
        found(&fewer).iter().any(|f| f.contains("it has 4 of \"5\" rows")),
        "{:?}",
        found(&fewer)
    );
}

#[test]
fn other_vendors_are_named() {
    for (name, text, words) in [
        ("a/config_db.json", "{\"ietf-interfaces:interfaces\": {}}", "OpenConfig or IETF"),
        ("b.json", "[{\"header\": {\"nvue-api-version\": \"nvue_v1\"}}]", "NVIDIA Cumulus"),
        ("c/config_db.json", "{\"configuration\": {\"@\": {\"xmlns\": \"junos\"}}}", "Juniper"),
        ("d/running-config", "! Command: show running-config\n! device: d", "Arista"),
    ] {
        let all = found(&Folder::of([File::new(name, text)]));
        assert!(all.len() == 1 && all[0].contains(words), "{name}: {all:?}");
    }
}

/// A switch without PFC is judged like any other: what must be lossless is not.
#[test]
fn a_switch_without_pfc_breaks_chains_and_is_no_error_of_its_file() {
    let folder = changed(&["config_db.json"], |path, text| {
        if !path.starts_with("tor-1/") {
            return text.as_bytes().to_vec();
        }
        let mut value: serde_json::Value = serde_json::from_str(text).expect("ours are JSON");
        let tables = value.as_object_mut().expect("an object");
        for table in [
            "BUFFER_PG",
            "BUFFER_PROFILE",
            "BUFFER_POOL",
            "BUFFER_QUEUE",
            "PORT_QOS_MAP",
            "PFC_WD",
            "QUEUE",
        ] {
            tables.remove(table);
        }
        value.to_string().into_bytes()
    });
    let diagnosis = Diagnosis::of(&folder, None, None);
    let rules: Vec<&str> = diagnosis.findings.iter().map(|f| f.rule.id()).collect();
    assert!(rules.contains(&"FD004") && !rules.contains(&"FD000"), "{:#?}", found(&folder));
    assert!(
        diagnosis.findings.iter().all(|f| f.device.starts_with("tor-1")),
        "{:#?}",
        found(&folder)
    );
}

#[test]
fn two_folders_of_one_device_are_told() {
    let mut folder = healthy();
    let copies: Vec<File> = [
        ("tor-1/config_db.json", "tor-1-old/config_db.json"),
        ("tor-2/config_db.json", "tor-2.json"),
        ("h0/sysfs.txt", "h0-cloned/sysfs.txt"),
        ("h0/mlnx_qos.eth2.txt", "h0-cloned/mlnx_qos.eth2.txt"),
    ]
    .into_iter()
    .map(|(from, to)| File::new(to, folder.file(from).expect(from).bytes.clone()))
    .collect();
    folder = Folder::of(folder.files.into_iter().chain(copies));
    assert_eq!(
        found(&folder),
        [
            "FD000 tor-2: tor-2/config_db.json was not read: tor-2.json is of the same switch.",
            "FD000 h0-cloned: eth2 has the address b8:3f:d2:0a:1c:00, as an interface of h0 has: which of the two is at \
             the cable is not known.",
            "FD000 tor-1-old: it calls itself tor-1, as tor-1 does: which of the two its neighbours mean is not known.",
        ]
    );
}

#[test]
fn more_ports_than_a_switch_has_are_not_read() {
    let many: Vec<String> =
        (0..60_000).map(|at| format!("\"Ethernet{at}\": {{ \"speed\": \"100000\" }}")).collect();
    let text = format!("{{ \"PORT\": {{ {} }} }}", many.join(","));
    let found = found(&changed(&["config_db.json"], |path, old| {
        if path.starts_with("tor-2/") { text.clone().into_bytes() } else { old.into() }
    }));
    let said = "FD000 tor-2: tor-2/config_db.json: PORT has 60000 entries, and 1024 are read.";
    assert_eq!(found, [said]);
}

/// A map and a priority that no others have are named by their own keys, and by nothing that follows from them.
#[test]
fn a_difference_is_named_by_its_whole_key_and_once() {
    let folder = changed(&["config_db.json"], |path, old| {
        let is_odd = path.starts_with("tor-2/");
        let new = old.replace("\"48\": \"6\"", "\"48\": \"5\"");
        let new = new.replace("\"pfc_enable\": \"3,4\"", "\"pfc_enable\": \"2,3,4\"");
        if is_odd { new.into() } else { old.into() }
    });
    let diagnosis = Diagnosis::of(&folder, None, None);
    let differences = diagnosis.findings.iter().filter_map(|finding| finding.difference.as_ref());
    let mut keys: Vec<&str> = differences.map(|difference| difference.key.as_str()).collect();
    keys.sort_unstable();
    let role = "roles.ToRRouter";
    assert_eq!(keys, [format!("{role}.dscp_to_class.48"), format!("{role}.lossless_priorities")]);
    let texts = found(&folder).join("\n");
    assert!(texts.contains("dscp_to_class.48 is 5, and should be 6."), "{texts}");
}

/// Names that nobody has, in what is desired.
#[test]
fn variables_of_other_letters_are_compared_and_nothing_else() {
    let env = "\n[roles.server.env]\n\"aa\u{e9}\" = \"1\"\n\"N\" = \"1\"\n";
    let folder = changed(&["desired.toml"], |_, old| format!("{}{env}", old.trim_end()).into());
    assert_eq!(found(&folder), Vec::<String>::new());
}

#[test]
fn what_no_file_says_is_told_and_not_taken_for_healthy() {
    let mut folder = changed(&["config_db.json"], |_, text| {
        let mut value: serde_json::Value = serde_json::from_str(text).expect("ours are JSON");
        value.as_object_mut().expect("an object").remove("DEVICE_NEIGHBOR");
        value.to_string().into_bytes()
    });
    folder.files.retain(|file| !file.path.contains("lldp."));
    let diagnosis = Diagnosis::of(&folder, None, None);
    let text = report::text(&diagnosis, "cluster");
    assert!(text.contains("not judged: no file says what is connected to what"), "{text}");
    let none = Vec::<String>::new();
    assert_eq!(Diagnosis::of(&healthy(), None, None).not_judged(), none);
    assert_eq!(Diagnosis::of(&planted(), None, None).not_judged(), none);
}

#[test]
fn links_in_circles_are_one_finding_each_and_a_switch_too_long_to_read_is_still_one() {
    let at = scratch("links");
    fs::create_dir_all(at.join("tor-1/deep")).expect("a folder");
    std::os::unix::fs::symlink("..", at.join("tor-1/deep/up")).expect("a link");
    std::os::unix::fs::symlink("self", at.join("tor-1/self")).expect("a link");
    let file = fs::File::create(at.join("tor-1/config_db.json")).expect("a file");
    file.set_len(100 << 20).expect("a hole");
    fs::write(at.join("tor-1/version.txt"), "SONiC Software Version: SONiC.1\n").expect("a file");
    let folder = Folder::read(&at).expect("a folder");
    let diagnosis = Diagnosis::of(&folder, None, None);
    let all = found(&folder);
    assert!(
        all.len() == 3 && all.iter().all(|finding| finding.starts_with("FD000 tor-1")),
        "{all:#?}"
    );
    assert!(
        all.iter().any(|finding| finding.contains("a link to a folder that it is in")),
        "{all:#?}"
    );
    assert_eq!((diagnosis.cluster.switches.len(), diagnosis.cluster.hosts.len()), (1, 0));
    fs::remove_dir_all(&at).expect("ours");
}

fn scratch(name: &str) -> PathBuf {
    let at = std::env::temp_dir().join(format!("ferroce-doctor-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&at);
    fs::create_dir_all(&at).expect("a folder of ours");
    at
}

/// A healthy cluster with one file edited: the first of a text becomes another, or all of them.
fn edited(path: &str, old: &str, new: &str, all: bool) -> Folder {
    let mut folder = healthy();
    edit(&mut folder, path, old, new, all);
    folder
}

fn edit(folder: &mut Folder, path: &str, old: &str, new: &str, all: bool) {
    let file = folder.files.iter_mut().find(|file| file.path == path).expect(path);
    let text = String::from_utf8(file.bytes.clone()).expect("ours are UTF-8");
    assert!(text.contains(old), "{path} has no {old:?}");
    file.bytes = if all { text.replace(old, new) } else { text.replacen(old, new, 1) }.into();
}

/// The same with a table taken out.
fn without_table(mut folder: Folder, path: &str, table: &str) -> Folder {
    let file = folder.files.iter_mut().find(|file| file.path == path).expect(path);
    let mut value: serde_json::Value = serde_json::from_slice(&file.bytes).expect("JSON");
    value.as_object_mut().expect("an object").remove(table).expect(table);
    file.bytes = format!("{value:#}").into();
    folder
}

/// One port that makes no sense among others that do is said with its line; the others are judged.
#[test]
fn a_port_that_makes_no_sense_is_an_error_with_its_line() {
    for wrong in ["3-4", "abc", "3,4,9", "3 4"] {
        let new = format!("\"pfc_enable\": \"{wrong}\"");
        let folder = edited("tor-1/config_db.json", "\"pfc_enable\": \"3,4\"", &new, false);
        let diagnosis = Diagnosis::of(&folder, None, None);
        let [finding] = diagnosis.findings.as_slice() else { panic!("{:#?}", diagnosis.findings) };
        assert_eq!((finding.rule.id(), finding.device.as_str()), ("FD000", "tor-1"), "{wrong}");
        assert_eq!(diagnosis.worst(), Some(ops::doctor::Severity::Error));
        assert!(finding.text.contains("pfc_enable"), "{}", finding.text);
        let text = String::from_utf8(
            folder.file("tor-1/config_db.json").expect("it is there").bytes.clone(),
        );
        let text = text.expect("ours are UTF-8");
        let line = text.lines().position(|line| line.contains(&new)).map(|at| at + 1);
        assert_eq!(finding.places[0].line, line, "{wrong}");
        let (told, breaks) = ops::doctor::path(&diagnosis, "h0", "h6", None).expect("a path");
        assert!(breaks > 0 && !told.contains("is lossless at every hop"), "{told}");
        assert!(told.contains("NOT KNOWN: what Ethernet"), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    }
}

/// Tables that refer to nothing are said, and what does not depend on them is still judged.
#[test]
fn tables_that_make_no_sense_are_said_and_the_rest_of_the_switch_is_judged() {
    let at = "tor-4/config_db.json";
    let no_profile = ("\"profile\": \"pg_lossless_100000_5m_profile\"", "\"profile\": \"NOPE\"");
    let no_wred = ("\"wred_profile\": \"AZURE_LOSSLESS\"", "\"wred_profile\": \"NOPE\"");
    for (folder, words) in [
        (edited(at, no_profile.0, no_profile.1, false), "there is no BUFFER_PROFILE \"NOPE\""),
        (edited(at, no_wred.0, no_wred.1, false), "there is no WRED_PROFILE \"NOPE\""),
        (edited(at, no_wred.0, no_wred.1, true), "there is no WRED_PROFILE \"NOPE\""),
        (without_table(healthy(), at, "BUFFER_PROFILE"), "there is no BUFFER_PROFILE"),
        (without_table(healthy(), at, "WRED_PROFILE"), "there is no WRED_PROFILE"),
    ] {
        let all = found(&folder);
        assert!(
            !all.is_empty() && all.iter().all(|said| said.starts_with("FD000 tor-4: ")),
            "{words}: {all:#?}"
        );
        assert!(all.iter().all(|said| said.contains(words)), "{words}: {all:#?}");
        // A DSCP that leads to the wrong class is found beside it.
        let mut folder = folder;
        edit(&mut folder, at, "\"26\": \"3\"", "\"26\": \"1\"", false);
        let all = found(&folder);
        assert!(all.iter().any(|said| said.starts_with("FD004 tor-4")), "{words}: {all:#?}");
    }
    // guo16, 6.2 does not go away with a profile for marks.
    let mut cluster = planted();
    edit(&mut cluster, at, no_wred.0, no_wred.1, true);
    let all = found(&cluster);
    assert!(all.iter().any(|said| said.starts_with("FD007 tor-4")), "{all:#?}");
    assert!(all.iter().any(|said| said.starts_with("FD000 tor-4")), "{all:#?}");
}

/// A map of its own for one port is no mistake.
#[test]
fn ports_with_maps_of_their_own_are_understood() {
    let old = "\"DSCP_TO_TC_MAP\": {";
    let new = "\"DSCP_TO_TC_MAP\": {\"OTHER\": {\"26\": \"3\", \"48\": \"6\", \"1\": \"2\"},";
    let mut folder = edited("tor-1/config_db.json", old, new, false);
    let at = "\"dscp_to_tc_map\": \"AZURE\"";
    edit(&mut folder, "tor-1/config_db.json", at, "\"dscp_to_tc_map\": \"OTHER\"", false);
    assert_eq!(found(&folder), Vec::<String>::new());
}

/// The same without some files.
fn without(mut folder: Folder, is: impl Fn(&str) -> bool) -> Folder {
    folder.files.retain(|file| !is(&file.path));
    folder
}

/// Whatever else tells that it is one: its other files, the LLDP of others, what is desired, or an older file.
#[test]
fn a_switch_without_its_configuration_is_an_error_and_no_host() {
    let renamed = |to: &str| {
        let mut folder = healthy();
        let file = folder.files.iter_mut().find(|file| file.path == "tor-1/config_db.json");
        file.expect("it is there").path = to.to_owned();
        without(folder, |path| ["tor-1/version.txt", "tor-1/lldp.txt"].contains(&path))
    };
    let of_files = |path: &str| path == "tor-1/config_db.json" || path == "tor-1/version.txt";
    let none_but = |kept: &'static str| {
        without(healthy(), move |path| path.starts_with("tor-1/") && path != kept)
    };
    let mut empty = none_but("tor-1/version.txt");
    for file in empty.files.iter_mut().filter(|file| file.path.starts_with("tor-1/")) {
        file.bytes.clear();
    }
    for (folder, why) in [
        (without(healthy(), |path| path == "tor-1/config_db.json"), "tor-1/lldp.txt is what"),
        (without(healthy(), of_files), "tor-1/lldp.txt is what `show lldp table` prints"),
        (none_but("tor-1/version.txt"), "tor-1/version.txt is what `show version` prints"),
        (empty, "h0/lldp.json has its port Ethernet0"),
        (renamed("tor-1/config_db.json.bak"), "tor-1/config_db.json.bak is like it"),
        (renamed("tor-1/history/2026-11-20.json"), "tor-1/history/2026-11-20.json is an older one"),
    ] {
        let diagnosis = Diagnosis::of(&folder, None, None);
        let text = format!("tor-1/config_db.json is not there, and tor-1 is a switch: {why}");
        let grave = |f: &&ops::doctor::Finding| f.severity == ops::doctor::Severity::Error;
        let mut errors = diagnosis.findings.iter().filter(grave);
        assert!(errors.any(|f| f.text.starts_with(&text)), "{why}: {:#?}", found(&folder));
        assert!(diagnosis.cluster.summary().starts_with("12 switches, 8 hosts"), "{why}");
        if let Ok((told, breaks)) = ops::doctor::path(&diagnosis, "h0", "h6", None) {
            assert!(breaks > 0 && told.contains("NOT KNOWN: "), "{told}");
        }
    }
    let mut desired = healthy();
    let role = "[roles.odd]\ndevices = [\"h0\"]\nalpha = \"1/16\"\n\n[traffic]";
    edit(&mut desired, "desired.toml", "[traffic]", role, false);
    let text = "FD000 h0: h0/config_db.json is not there, and h0 is a switch: desired.toml has alpha for it (roles.odd).";
    assert!(found(&desired).contains(&text.to_owned()), "{:#?}", found(&desired));
}

#[test]
fn a_folder_in_the_place_of_a_file_is_an_error() {
    let at = scratch("folders");
    for name in ["desired.toml", "doctor.toml", "tor-1/config_db.json", "h0/lldp.json", "h1"] {
        fs::create_dir_all(at.join(name)).expect("a folder");
    }
    fs::write(at.join("h0/lldpad.txt"), "inactive\n").expect("a file");
    fs::create_dir_all(at.join("h0/sys/class/net/eth0.txt")).expect("a folder");
    fs::write(at.join("tor-1/version.txt"), "SONiC Software Version: SONiC.1\n").expect("a file");
    let folder = Folder::read(&at).expect("a folder");
    let diagnosis = Diagnosis::of(&folder, None, None);
    let all = found(&folder);
    for name in ["desired.toml", "doctor.toml", "tor-1/config_db.json", "h0/lldp.json"] {
        let said = format!("{name} was not read: it is a folder, where a file should be.");
        assert!(all.iter().any(|f| f.starts_with("FD000 ") && f.contains(&said)), "{all:#?}");
    }
    assert!(all.contains(&"FD000 h1: h1 was not read: there is nothing in it.".into()), "{all:#?}");
    assert_eq!(all.len(), 5, "{all:#?}");
    assert_eq!(diagnosis.worst(), Some(ops::doctor::Severity::Error));
    assert_eq!((diagnosis.cluster.switches.len(), diagnosis.cluster.hosts.len()), (1, 1));
    fs::remove_dir_all(&at).expect("ours");
}

/// What is to be typed is one command, whatever files and profiles are called.
#[test]
fn names_that_a_shell_would_obey_are_quoted_in_commands() {
    let mut folder = planted();
    let name = "x; rm -rf ~ #";
    let profile = "\"pg_lossless_100000_5m_profile\"";
    edit(&mut folder, "tor-4/config_db.json", profile, &format!("{name:?}"), true);
    for file in folder.files.iter_mut().filter(|file| file.path.starts_with("h6/")) {
        file.path = file.path.replace("eth2", "eth2;reboot");
        let text = String::from_utf8(file.bytes.clone()).expect("ours are UTF-8");
        file.bytes = text.replace("eth2", "eth2;reboot").into();
    }
    let diagnosis = Diagnosis::of(&folder, None, None);
    let commands: Vec<&str> =
        diagnosis.findings.iter().flat_map(|f| &f.commands).map(String::as_str).collect();
    assert!(commands.contains(&"sudo mmuconfig -p 'x; rm -rf ~ #' -a -4"), "{commands:#?}");
    let of_nic = "sudo mlnx_qos -i 'eth2;reboot' ";
    assert!(commands.iter().any(|of| of.starts_with(of_nic)), "{commands:#?}");
}

/// The table and the port of a command are told apart.
#[test]
fn a_command_names_the_table_and_the_port() {
    let pfc = "\"pfc_enable\": \"3,4\"";
    let folder = edited("tor-1/config_db.json", pfc, "\"pfc_enable\": \"2,3,4\"", false);
    let diagnosis = Diagnosis::of(&folder, None, None);
    let mut commands = diagnosis.findings.iter().flat_map(|f| &f.commands);
    let wanted = "sonic-db-cli CONFIG_DB hset 'PORT_QOS_MAP|Ethernet0' pfc_enable 3,4";
    assert!(commands.any(|of| of == wanted), "{:#?}", diagnosis.findings);
}

/// The cluster with the five faults.
fn planted() -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster");
    Folder::read(&at).expect("the example is in the repository")
}

/// Since when alpha is not the desired one, and what is said of snapshots of that switch.
fn since(folder: &Folder) -> (String, Vec<String>) {
    let now = std::time::UNIX_EPOCH + core::time::Duration::from_secs(1_795_700_000);
    let diagnosis = Diagnosis::of(folder, None, Some(now));
    let mut alphas = diagnosis.findings.iter().filter(|f| f.rule.id() == "FD007");
    let difference = alphas.next().and_then(|f| f.difference.clone()).expect("it is found");
    let said = diagnosis.findings.iter().filter(|f| f.text.contains("since when anything is so"));
    (difference.since.unwrap_or_default(), said.map(|f| f.text.clone()).collect())
}

#[test]
fn a_snapshot_that_says_nothing_is_no_evidence_and_is_told() {
    let (old, new) = ("tor-4/history/2026-11-18.json", "tor-4/history/2026-11-21.json");
    let both = "between the snapshots 2026-11-18 and 2026-11-21";
    assert_eq!(since(&planted()), (both.to_owned(), vec![]));
    for garbage in ["{", "", "{}", "{\"PORT\": 3}"] {
        let mut folder = planted();
        let file = folder.files.iter_mut().find(|file| file.path == old).expect(old);
        file.bytes = garbage.into();
        let (since, said) = since(&folder);
        assert_eq!(since, "before the snapshot 2026-11-21", "{garbage}");
        assert!(said.len() == 1 && said[0].starts_with(old), "{garbage}: {said:?}");
    }
    // One that is understood, and does not say the value.
    let folder = without_table(without_table(planted(), old, "PORT_QOS_MAP"), old, "BUFFER_PG");
    assert_eq!(since(&folder), ("before the snapshot 2026-11-21".to_owned(), vec![]));
    for (name, words) in [
        ("foo.json", "\"foo\" is no date"),
        ("2026-13-45.json", "\"2026-13-45\" is no date"),
        ("2099-01-01.json", "it is of the future"),
        ("2026-11-31/config_db.json", "\"2026-11-31\" is no date"),
    ] {
        let mut folder = planted();
        let file = folder.files.iter_mut().find(|file| file.path == new).expect(new);
        file.path = format!("tor-4/history/{name}");
        let (since, said) = since(&folder);
        assert!(since.starts_with("after the snapshot 2026-11-18"), "{name}: {since}");
        let [said] = said.as_slice() else { panic!("{name}: {said:?}") };
        assert!(said.contains(words), "{said}");
    }
}

/// Each thing that is missing is told with the device, in text and JSON.
#[test]
fn what_is_missing_of_one_device_is_told_with_its_name() {
    let firmware = |mut folder: Folder, role: &str| {
        let new = format!("{role}\nfirmware_is = \"1\"");
        edit(&mut folder, "desired.toml", role, &new, false);
        folder
    };
    let tor_4 = without_table(planted(), "tor-4/config_db.json", "DEVICE_METADATA");
    let alone = without(tor_4.clone(), |path| path == "desired.toml");
    let leaf_2 = edited(
        "leaf-2/config_db.json",
        "\"Ethernet124\": \"300m\"",
        "\"Ethernet128\": \"300m\"",
        false,
    );
    let no_trust = edited("h0/mlnx_qos.eth2.txt", "Priority trust state: dscp\n", "", false);
    let no_version = without(healthy(), |path| path == "tor-4/version.txt");
    let no_driver = without(healthy(), |path| path.starts_with("h3/ethtool-i"));
    let mut no_driver = firmware(no_driver, "trust = \"dscp\"");
    edit(&mut no_driver, "h3/sysfs.txt", "fw_ver:", "fw_version:", true);
    let mut env = healthy();
    let new = "trust = \"dscp\"\nenv = { NCCL_IB_TC = \"106\" }";
    edit(&mut env, "desired.toml", "trust = \"dscp\"", new, false);
    let env = without(env, |path| path == "h2/env.train.txt");
    let dcb = without(healthy(), |path| path.starts_with("h0/mlnx_qos"));
    for (folder, said) in [
        (
            tor_4,
            "tor-4: DEVICE_METADATA has no type: it was compared with no peer (FD007) and with no role of desired.toml",
        ),
        (alone, "tor-4: DEVICE_METADATA has no type: alpha was compared with no peer's (FD007)"),
        (
            leaf_2,
            "leaf-2: CABLE_LENGTH has no length of Ethernet124: headroom was not judged there (FD003)",
        ),
        (
            edited("tor-1/config_db.json", "\"mtu\": \"9100\"", "\"mtu\": \"abc\"", true),
            "tor-1: PORT has no mtu of Ethernet0 to Ethernet",
        ),
        (
            edited("h1/sysfs.txt", "eth2/mtu:9000", "eth2/mtu:abc", false),
            "h1: no file says the MTU of eth2 (FD011)",
        ),
        (no_trust, "h0: no file says whether DSCP or PCP is trusted of eth2 (FD005)"),
        (
            firmware(no_version, "[roles.ToRRouter]"),
            "tor-4: version.txt has no version: firmware_is was not compared",
        ),
        (no_driver, "h3: no file says firmware_is: not compared with desired.toml"),
        (env, "h2: there is no env.JOB.txt: variables were not compared"),
        (
            edited("h4/sysfs.txt", "cnp_dscp:48", "cnp_dscp:abc", false),
            "h4: no file says cnp_dscp: not compared",
        ),
        (dcb, "h0: no file says the priority of a DSCP of eth2 (FD004)"),
        (
            without(healthy(), |path| {
                path.starts_with("h5/mlnx_qos") || path.starts_with("h5/dcb")
            }),
            "h5: there is no mlnx_qos or dcb file",
        ),
    ] {
        let diagnosis = Diagnosis::of(&folder, None, None);
        let all = diagnosis.not_judged();
        assert!(all.iter().any(|what| what.starts_with(said)), "{said}: {all:#?}");
        let text = report::text(&diagnosis, "cluster").replace("\n            ", " ");
        assert!(text.contains(&format!("not judged: {said}")), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&report::json(&diagnosis, "cluster")).expect("JSON");
        let mut told = json["not_judged"].as_array().expect("a list").iter();
        assert!(
            told.any(|what| what.as_str().is_some_and(|what| what.starts_with(said))),
            "{json}"
        );
    }
    let folder = edited("h0/mlnx_qos.eth2.txt", "Priority trust state: dscp\n", "", false);
    let (told, breaks) =
        ops::doctor::path(&Diagnosis::of(&folder, None, None), "h0", "h6", None).expect("a path");
    assert!(breaks > 0 && !told.contains("is lossless at every hop"), "{told}");
}

#[test]
fn a_role_that_no_device_has_is_told_with_its_line() {
    for (old, new, role, line, names) in [
        ("[roles.ToRRouter]", "[roles.Tor]", "Tor", Some(7), "tor-1 to tor-4 (4 of them)"),
        ("devices = [\"h*\"]", "devices = [\"host*\"]", "server", None, "h0 to h7 (8 of them)"),
    ] {
        let folder = edited("desired.toml", old, new, false);
        let diagnosis = Diagnosis::of(&folder, None, None);
        let [finding] = diagnosis.findings.as_slice() else { panic!("{:#?}", diagnosis.findings) };
        let text =
            format!("desired.toml: no device is of roles.{role}, and of no role are {names}.");
        assert_eq!((finding.rule.id(), &finding.text), ("FD000", &text));
        assert_eq!(finding.severity, ops::doctor::Severity::Warning);
        assert!(line.is_none_or(|line| finding.places[0].line == Some(line)), "{finding:?}");
        assert!(finding.places[0].line.is_some() && finding.remedy.contains("ToRRouter"));
    }
    // The roles of switches of which nothing was read are not known.
    let no_tors = |path: &str| path.starts_with("tor-") && path.ends_with("config_db.json");
    let all = found(&without(healthy(), no_tors));
    assert!(all.len() == 4 && all.iter().all(|f| f.starts_with("FD000 tor-")), "{all:#?}");
    // What is desired of all is held against one device, too.
    for device in ["h0/", "tor-1/"] {
        let one = without(healthy(), |path| path.contains('/') && !path.starts_with(device));
        assert_eq!(found(&one), Vec::<String>::new());
    }
}

#[test]
fn a_traffic_class_that_is_none_is_an_error() {
    for value in ["300", "abc", "-1", "", "0x100"] {
        let new = format!("NCCL_IB_TC={value}\n");
        let folder = edited("h3/env.train.txt", "NCCL_IB_TC=106\n", &new, false);
        let said = format!(
            "FD004 h3: NCCL_IB_TC of job train is {value:?}, which is no traffic class: they are 0 to 255."
        );
        assert_eq!(found(&folder), [said]);
    }
    let folder =
        edited("h3/env.train.txt", "NCCL_DEBUG=", "UCX_IB_TRAFFIC_CLASS=auto\nNCCL_DEBUG=", false);
    assert_eq!(found(&folder), Vec::<String>::new());
}

#[test]
fn commands_that_contradict_each_other_are_told() {
    let folder = changed(&["dcb-pfc.eth2.json"], |path, text| {
        if path.starts_with("h2/") { text.replace("true", "false").into() } else { text.into() }
    });
    let said = "FD000 h2: PFC of eth2 is on for priority 3 by h2/mlnx_qos.eth2.txt, and for none by \
                h2/dcb-pfc.eth2.json: which of the two is so is not known.";
    assert_eq!(found(&folder), [said]);
    assert_eq!(Diagnosis::of(&folder, None, None).worst(), Some(ops::doctor::Severity::Warning));
}

/// One level too deep nothing is judged: an error that names the inner folder, and no healthy cluster.
#[test]
fn a_folder_of_clusters_is_an_error() {
    let mut folder = healthy();
    for file in &mut folder.files {
        file.path = format!("pod-1/{}", file.path);
    }
    let diagnosis = Diagnosis::of(&folder, None, None);
    let [finding] = diagnosis.findings.as_slice() else { panic!("{:#?}", diagnosis.findings) };
    assert_eq!(finding.text, "pod-1 is no device, and was not judged: pod-1/h0 is like one.");
    assert_eq!(finding.severity, ops::doctor::Severity::Error);
    assert!(finding.remedy.ends_with("ferroce doctor .../pod-1"), "{}", finding.remedy);
}
