//! What of files cannot be taken as it is written, and what no file says: each is told.

use std::path::Path;

use ops::doctor::{Diagnosis, File, Folder};

fn example(name: &str) -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    Folder::read(&at).expect("the example is in the repository")
}

fn healthy() -> Folder {
    example("cluster-healthy")
}

fn found(folder: &Folder) -> Vec<String> {
    let diagnosis = Diagnosis::of(folder, None, None);
    let all = diagnosis.findings.iter();
    all.map(|f| format!("{} {}: {}", f.rule.id(), f.device, f.text)).collect()
}

fn without(mut folder: Folder, is: impl Fn(&str) -> bool) -> Folder {
    folder.files.retain(|file| !is(&file.path));
    folder
}

/// A file of JSON changed.
fn changed(folder: &mut Folder, path: &str, change: impl Fn(&mut serde_json::Value)) {
    let file = folder.files.iter_mut().find(|file| file.path == path).expect(path);
    let mut db = serde_json::from_slice(&file.bytes).expect("JSON");
    change(&mut db);
    file.bytes = format!("{db:#}").into();
}

fn without_table(mut folder: Folder, path: &str, table: &str) -> Folder {
    changed(&mut folder, path, |db| {
        db.as_object_mut().expect("an object").remove(table).expect(table);
    });
    folder
}

/// A port that is up with a lossless class, and of which no file says what is at it.
#[test]
fn lossless_ports_without_a_known_link_are_told_by_device() {
    let not_judged = |folder: &Folder| {
        let diagnosis = Diagnosis::of(folder, None, None);
        assert_eq!(diagnosis.findings, []);
        diagnosis.not_judged()
    };
    let files = "(lldp.txt, lldp.json, DEVICE_NEIGHBOR)";
    let of_switch = "chains, ends of links and circles were not judged there";
    // Ports of which nobody says anything: lossless and up, then not lossless, then not up.
    let path = "tor-1/config_db.json";
    let up = |lossless: bool, up: &str, ports: &[&str]| {
        let mut folder = healthy();
        changed(&mut folder, path, |db| {
            for port in ports {
                db["PORT"][port]["admin_status"] = up.into();
                db["CABLE_LENGTH"]["AZURE"][port] = "5m".into();
                if !lossless {
                    continue;
                }
                for table in ["PORT_QOS_MAP", "PFC_WD"] {
                    db[table][port] = db[table]["Ethernet0"].clone();
                }
                for (table, numbers) in
                    [("BUFFER_PG", "0"), ("BUFFER_PG", "3-4"), ("QUEUE", "3"), ("QUEUE", "4")]
                {
                    db[table][format!("{port}|{numbers}")] =
                        db[table][format!("Ethernet0|{numbers}")].clone();
                }
            }
        });
        folder
    };
    let none = Vec::<String>::new();
    assert_eq!(
        not_judged(&up(true, "up", &["Ethernet8"])),
        [format!("tor-1: no link of Ethernet8 is known {files}: {of_switch}")]
    );
    let many = ["Ethernet8", "Ethernet12", "Ethernet16", "Ethernet20"];
    assert_eq!(
        not_judged(&up(true, "up", &many)),
        [format!(
            "tor-1: no link of Ethernet8 to Ethernet20 (4 of them) is known {files}: {of_switch}"
        )]
    );
    assert_eq!(not_judged(&up(false, "up", &many)), none);
    assert_eq!(not_judged(&up(true, "down", &many)), none);
    // A device of which nobody knows a link, and its neighbours.
    let mut folder = without_table(healthy(), path, "DEVICE_NEIGHBOR");
    folder.files.retain(|file| {
        !["tor-1/lldp.txt", "h0/lldp.json", "h1/lldp.json"].contains(&file.path.as_str())
    });
    for leaf in ["leaf-1", "leaf-2"] {
        folder = without_table(folder, &format!("{leaf}/config_db.json"), "DEVICE_NEIGHBOR");
        let lldp = format!("{leaf}/lldp.txt");
        let file = folder.files.iter_mut().find(|file| file.path == lldp).expect("it is there");
        let text = String::from_utf8(file.bytes.clone()).expect("ours are UTF-8");
        let rows = text.lines().filter(|line| !line.contains("tor-1"));
        let text: String = rows.map(|line| format!("{line}\n")).collect();
        let (rows, count) = text.rsplit_once(' ').expect("how many there are");
        let count: usize = count.trim().parse().expect("a number");
        let text = format!("{rows} {}\n", count - 1);
        file.bytes = text.into();
    }
    assert_eq!(
        not_judged(&folder),
        [
            format!("leaf-1 and leaf-2: no link of Ethernet0 is known {files}: {of_switch}"),
            format!(
                "tor-1: no link of Ethernet0 to Ethernet116 (4 of them) is known {files}: {of_switch}"
            ),
            format!(
                "h0 and h1: no link of eth2 is known {files}: ends of links were not judged there"
            ),
        ]
    );
    // That a neighbour has no folder is told once.
    let folder = without(healthy(), |path| path.starts_with("h0/"));
    let all = Diagnosis::of(&folder, None, None).not_judged();
    assert!(all.len() == 1 && all[0].starts_with("tor-1 names h0 as a neighbour"), "{all:#?}");
}

/// `config load` keeps a list under another name, at which nothing looks.
#[test]
fn a_list_of_priorities_is_an_error_that_says_how_to_write_it() {
    for list in ["[\"3\", \"4\"]", "[3,4]"] {
        for field in ["pfc_enable", "pfcwd_sw_enable"] {
            let path = "tor-1/config_db.json";
            let (old, new) = (format!("\"{field}\": \"3,4\""), format!("\"{field}\": {list}"));
            let mut folder = healthy();
            for file in folder.files.iter_mut().filter(|file| file.path == path) {
                let text = String::from_utf8(file.bytes.clone()).expect("ours are UTF-8");
                assert!(text.contains(&old), "{old}");
                file.bytes = text.replacen(&old, &new, 1).into();
            }
            let diagnosis = Diagnosis::of(&folder, None, None);
            let [one] = diagnosis.findings.as_slice() else { panic!("{:#?}", diagnosis.findings) };
            let text = format!(
                "PORT_QOS_MAP|Ethernet0, {field}: it is a list, which SONiC keeps as \"{field}@\" and never \
                 looks at."
            );
            assert_eq!((one.rule.id(), one.text.as_str()), ("FD000", text.as_str()));
            assert_eq!(one.remedy, "write it as one text: \"3,4\"");
            let text = String::from_utf8(folder.file(path).expect(path).bytes.clone());
            let text = text.expect("ours are UTF-8");
            let line = text.lines().position(|line| line.contains(&new)).map(|at| at + 1);
            assert_eq!(one.places[0].line, line);
        }
    }
}

/// Where whole numbers are asked for, no other is taken.
#[test]
fn numbers_that_are_not_whole_are_refused() {
    let mut alone = without(healthy(), |path| path != "tor-1/config_db.json");
    let bytes = alone.files[0].bytes.clone();
    let db: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let mut tried = 0;
    for (table, entries) in db.as_object().expect("tables") {
        let beside = ["VLAN", "VLAN_INTERFACE", "VLAN_MEMBER", "VERSIONS"];
        let entries = entries.as_object().filter(|_| !beside.contains(&table.as_str()));
        for (key, fields) in entries.into_iter().flatten().take(6) {
            for (field, value) in fields.as_object().into_iter().flatten().take(12) {
                let value = value.as_str().unwrap_or_default();
                let whole = value.strip_suffix('m').unwrap_or(value);
                let is_read = !["index", "lanes"].contains(&field.as_str());
                if whole.parse::<i64>().is_err() || !is_read {
                    continue;
                }
                let mut db = db.clone();
                let value = value.replace(whole, &format!("{whole}.5"));
                db[table][key][field] = value.clone().into();
                alone.files[0].bytes = format!("{db:#}").into();
                let diagnosis = Diagnosis::of(&alone, None, None);
                let place = format!("{table}|{key}, {field}: ");
                let is_found = diagnosis
                    .findings
                    .iter()
                    .any(|of| of.rule.id() == "FD000" && of.text.starts_with(&place));
                assert!(is_found, "{place}{value}: {:#?}", diagnosis.findings);
                tried += 1;
            }
        }
    }
    assert!(tried > 40, "{tried}");
}

/// The folder of one device in the place of the folder that has it.
#[test]
fn a_folder_of_one_device_is_that_device() {
    for (name, summary) in [("tor-1", "1 switch, 0 hosts"), ("h0", "0 switches, 1 host")] {
        let at =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster-healthy").join(name);
        let folder = Folder::read(&at).expect("a folder");
        let diagnosis = Diagnosis::of(&folder, None, None);
        assert_eq!(diagnosis.findings, []);
        assert!(
            diagnosis.cluster.summary().starts_with(summary),
            "{}",
            diagnosis.cluster.summary()
        );
        let mut names = diagnosis.cluster.switches.iter().map(|switch| &switch.name);
        let host = diagnosis.cluster.hosts.first().map(|host| &host.name);
        assert_eq!(names.next().or(host).map(String::as_str), Some(name));
    }
    // With what was before, and what should be; findings are at the files' own paths.
    let mut folder = Folder::default();
    for file in example("cluster").files {
        let path = file
            .path
            .strip_prefix("tor-4/")
            .or((file.path == "desired.toml").then_some("desired.toml"));
        folder.files.extend(path.map(|path| File::new(path, file.bytes.clone())));
    }
    folder.name = "tor-4".to_owned();
    let diagnosis = Diagnosis::of(&folder, None, None);
    let [one] = diagnosis.findings.as_slice() else { panic!("{:#?}", diagnosis.findings) };
    assert_eq!((one.device.as_str(), one.places[0].file.as_str()), ("tor-4", "config_db.json"));
    let since = one.difference.as_ref().and_then(|of| of.since.as_deref());
    assert_eq!(since, Some("between the snapshots 2026-11-18 and 2026-11-21"));
    // One whose configuration is not there.
    folder.files.retain(|file| file.path == "version.txt" || file.path == "lldp.txt");
    let all = found(&folder);
    assert!(all.len() == 1 && all[0].contains("config_db.json is not there"), "{all:#?}");
    // A switch beside folders is none.
    let mut folder = healthy();
    folder
        .files
        .retain(|file| !file.path.starts_with("tor-1/") || file.path.ends_with("config_db.json"));
    for file in folder.files.iter_mut().filter(|file| file.path == "tor-1/config_db.json") {
        file.path = "tor-1.json".to_owned();
    }
    assert_eq!(found(&folder), Vec::<String>::new());
    assert!(
        Diagnosis::of(&folder, None, None).cluster.summary().starts_with("12 switches, 8 hosts")
    );
}
