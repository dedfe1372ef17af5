//! Values that matter, each changed at one switch or host of a healthy cluster: every one is found, by its rule.

use std::path::Path;

use ops::doctor::{Diagnosis, Finding, Folder, Severity};
use serde_json::{Value, json};

fn healthy() -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster-healthy");
    Folder::read(&at).expect("the example is in the repository")
}

fn judged(folder: &Folder) -> (Vec<String>, Vec<String>) {
    let diagnosis = Diagnosis::of(folder, None, None);
    let all = diagnosis.findings.iter();
    let found = all.map(|f| format!("{} {}: {}", f.rule.id(), f.device, f.text)).collect();
    (found, diagnosis.not_judged())
}

/// The healthy cluster with `change` done to the file of `tor-1`.
fn with(what: impl Fn(&mut Value)) -> (Vec<String>, Vec<String>) {
    let mut folder = healthy();
    change(&mut folder, what);
    judged(&folder)
}

/// Does `what` to the file of `tor-1`.
fn change(folder: &mut Folder, what: impl Fn(&mut Value)) {
    for file in folder.files.iter_mut().filter(|file| file.path == "tor-1/config_db.json") {
        let mut db = serde_json::from_slice(&file.bytes).unwrap();
        what(&mut db);
        file.bytes = serde_json::to_vec_pretty(&db).unwrap();
    }
}

#[test]
fn a_watchdog_that_sees_nothing_or_not_all() {
    for (table, key, field, value, words) in [
        ("FLEX_COUNTER_TABLE", "PFCWD", "FLEX_COUNTER_STATUS", "disable", "nobody reads"),
        ("PFC_WD", "GLOBAL", "BIG_RED_SWITCH", "enable", "its packets are dropped"),
    ] {
        let (found, _) = with(|db| db[table][key][field] = json!(value));
        let [one] = &found[..] else { panic!("{found:#?}") };
        assert!(one.starts_with("FD009 tor-1: ") && one.contains(words), "{one}");
    }
    for (value, missing) in [("", "3 and 4"), ("4", "3")] {
        let (found, _) = with(|db| {
            for (_, of) in db["PORT_QOS_MAP"].as_object_mut().unwrap() {
                if of["pfc_enable"] == "3,4" {
                    of["pfcwd_sw_enable"] = json!(value);
                }
            }
        });
        let [one] = &found[..] else { panic!("{found:#?}") };
        let words = format!("leaves out {missing}, which pauses");
        assert!(one.starts_with("FD009 tor-1: ") && one.contains(&words), "{one}");
    }
    let (found, _) = with(|db| {
        for (_, of) in db["PORT_QOS_MAP"].as_object_mut().unwrap() {
            of.as_object_mut().unwrap().remove("pfcwd_sw_enable");
        }
    });
    assert_eq!(found, Vec::<String>::new(), "without it all is looked after");
    // SONiC's own of a ToR of two.
    let (found, _) = with(|db| {
        for (_, of) in db["PORT_QOS_MAP"].as_object_mut().unwrap() {
            of["pfcwd_sw_enable"] = json!("3");
        }
    });
    assert_eq!(found, Vec::<String>::new(), "4 has no data");
    // Alone, with no host that says which has data: all that pauses, but for what two ToRs send to each other.
    for (pauses, guarded, missing) in [
        ("3,4", "2", Some("3 and 4")),
        ("3,4", "3", Some("4")),
        ("3,4", "3,4", None),
        ("2,3,4,6", "3,4", None),
        ("2,3,4,6", "3", Some("4")),
    ] {
        let mut folder = healthy();
        folder.files.retain(|file| file.path.starts_with("tor-1/"));
        change(&mut folder, |db| {
            for (_, of) in db["PORT_QOS_MAP"].as_object_mut().unwrap() {
                if of["pfc_enable"] == "3,4" {
                    (of["pfc_enable"], of["pfcwd_sw_enable"]) = (json!(pauses), json!(guarded));
                }
            }
        });
        let (found, _) = judged(&folder);
        let said: Vec<_> = found.iter().filter(|of| of.contains("pfcwd_sw_enable")).collect();
        let words = missing.map(|of| format!("leaves out {of}, which pause"));
        let is_said = said.len() == 1 && words.as_ref().is_some_and(|of| said[0].contains(of));
        assert!(is_said || words.is_none() && said.is_empty(), "{pauses} {guarded}: {found:#?}");
    }
}

#[test]
fn a_watchdog_whose_times_are_refused() {
    for (field, time, said) in [
        ("detection_time", "50", Some("detection_time 50 ms")),
        ("detection_time", "99", Some("detection_time 99 ms")),
        ("detection_time", "5001", Some("detection_time 5,001 ms")),
        ("restoration_time", "60001", Some("restoration_time 60,001 ms")),
        // These are late, and no more.
        ("detection_time", "5000", None),
        ("restoration_time", "60000", None),
    ] {
        let mut folder = healthy();
        change(&mut folder, |db| db["PFC_WD"]["Ethernet112"][field] = json!(time));
        let diagnosis = Diagnosis::of(&folder, None, None);
        let [one] = &diagnosis.findings[..] else { panic!("{:#?}", diagnosis.findings) };
        let Some(said) = said else {
            assert_eq!(one.rule.id(), "FD002", "{one:?}");
            continue;
        };
        assert_eq!((one.rule.id(), one.severity), ("FD009", Severity::Error));
        let words = format!("{said} at Ethernet112: SONiC takes 100 to 5,000 ms");
        assert!(one.text.starts_with(&words), "{}", one.text);
        let command = "sudo pfcwd start --action drop Ethernet112 400 --restoration-time 400";
        assert_eq!(one.commands, [command]);
    }
    // At a poll interval of as little it is the time that is refused.
    let (found, _) = with(|db| {
        db["PFC_WD"]["GLOBAL"]["POLL_INTERVAL"] = json!("50");
        db["PFC_WD"]["Ethernet112"]["detection_time"] = json!("50");
    });
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert!(one.starts_with("FD009 tor-1: detection_time 50 ms"), "{one}");
}

#[test]
fn a_queue_of_a_lossless_class_that_drops() {
    let (found, _) = with(|db| {
        for (key, of) in db["BUFFER_QUEUE"].as_object_mut().unwrap() {
            if key.ends_with("|3-4") {
                of["profile"] = json!("egress_lossy_profile");
            }
        }
    });
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert!(one.starts_with("FD004 tor-1: queues 3 and 4 of Ethernet0 to Ethernet116 "), "{one}");
    assert!(one.contains("profile egress_lossy_profile, as queues of classes that drop"), "{one}");

    let (found, _) = with(|db| {
        db["BUFFER_PROFILE"]["egress_lossless_profile"]["dynamic_th"] = json!("-6");
    });
    let [one] = &found[..] else { panic!("{found:#?}") };
    // By hand: 14,371,840 / 65; three groups of 1/16 of 10,177,536 / (1 + 3/16) bytes, and their headroom.
    assert!(one.contains("a limit of 221,105 bytes by profile egress_lossless_profile"), "{one}");
    // A profile has one threshold or the other.
    let of_static = |bytes: &str| {
        with(|db| {
            let profile = db["BUFFER_PROFILE"]["egress_lossless_profile"].as_object_mut().unwrap();
            profile.remove("dynamic_th");
            profile.insert("static_th".to_owned(), json!(bytes));
        })
    };
    let (found, _) = of_static("200000");
    assert!(matches!(&found[..], [one] if one.contains("a limit of 200,000 bytes")), "{found:#?}");
    assert_eq!(of_static("14371840").0, Vec::<String>::new());
    // Nor is that of the whole pool a limit where queues that drop have it as well.
    let (found, _) = with(|db| {
        let profile = db["BUFFER_PROFILE"]["egress_lossless_profile"].as_object_mut().unwrap();
        profile.remove("dynamic_th");
        profile.insert("static_th".to_owned(), json!("14371840"));
        for (_, of) in db["BUFFER_QUEUE"].as_object_mut().unwrap() {
            of["profile"] = json!("egress_lossless_profile");
        }
    });
    assert_eq!(found, Vec::<String>::new());
    // Behind the largest threshold no queue drops before all are paused.
    let (found, _) = with(|db| {
        db["BUFFER_PROFILE"]["egress_lossless_profile"]["dynamic_th"] = json!("0");
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_pause_that_lets_go_at_once() {
    let (found, _) = with(|db| {
        db["BUFFER_PROFILE"]["pg_lossless_100000_40m_profile"]["xon"] = json!("999999");
    });
    let [one] = &found[..] else { panic!("{found:#?}") };
    let words =
        "FD003 tor-1: profile pg_lossless_100000_40m_profile of Ethernet112 and Ethernet116";
    assert!(one.starts_with(words), "{one}");
}

#[test]
fn a_field_that_is_not_known_costs_nothing_else() {
    for (table, key) in [
        ("BUFFER_PROFILE", "egress_lossy_profile"),
        ("BUFFER_POOL", "egress_lossy_pool"),
        ("BUFFER_PG", "Ethernet0|0"),
        ("QUEUE", "Ethernet0|0"),
        ("WRED_PROFILE", "AZURE_LOSSLESS"),
        ("PFC_WD", "Ethernet0"),
        ("PORT_QOS_MAP", "Ethernet0"),
    ] {
        let (found, _) = with(|db| {
            db[table][key]["foo"] = json!("1");
            db["BUFFER_PROFILE"]["pg_lossless_100000_40m_profile"]["xoff"] = json!("1");
        });
        let [headroom, field] = &found[..] else { panic!("{found:#?}") };
        assert!(headroom.starts_with("FD003 tor-1: "), "{headroom}");
        let words =
            format!("FD000 tor-1: {table}|{key}, foo: there is no such field. It was left out");
        assert!(field.starts_with(&words), "{field}");
    }
}

#[test]
fn a_cable_of_two_lengths() {
    let (found, _) = with(|db| {
        db["CABLE_LENGTH"]["AZURE"]["Ethernet112"] = json!("5m");
        db["BUFFER_PG"]["Ethernet112|3-4"]["profile"] = json!("pg_lossless_100000_5m_profile");
    });
    let [one] = &found[..] else { panic!("{found:#?}") };
    let words = "FD016 tor-1: the cable of Ethernet112 is 5 m by CABLE_LENGTH here, and 40 m by that \
                 of leaf-1";
    assert!(one.starts_with(words), "{one}");
    let (found, not_judged) = with(|db| db["CABLE_LENGTH"]["AZURE"]["Ethernet112"] = json!("0m"));
    assert_eq!(found, Vec::<String>::new());
    let words = "tor-1: CABLE_LENGTH has no length of Ethernet112: ";
    assert!(not_judged.iter().any(|of| of.starts_with(words)), "{not_judged:?}");
}

#[test]
fn a_port_with_a_neighbour_is_judged_though_the_file_says_nothing_of_it() {
    let (found, not_judged) = with(|db| {
        db["PORT"]["Ethernet112"] = json!({});
        db["BUFFER_PROFILE"]["pg_lossless_100000_40m_profile"]["xoff"] = json!("0");
    });
    let headroom = found.iter().find(|of| of.starts_with("FD003")).unwrap();
    assert!(headroom.contains("Ethernet112 and Ethernet116"), "{found:#?}");
    assert!(not_judged.iter().any(|of| of.contains("PORT has no mtu of Ethernet112")));
    // One that is down is not, and that is said.
    let (found, not_judged) = with(|db| {
        db["PORT"]["Ethernet112"] = json!({ "admin_status": "down" });
    });
    assert_eq!(found, Vec::<String>::new());
    let words = "tor-1: Ethernet112 is not up by PORT (admin_status), and LLDP sees a neighbour there: \
                 not judged";
    assert_eq!(not_judged, [words]);
}

#[test]
fn a_role_of_which_there_is_no_other_is_said() {
    let (found, not_judged) = with(|db| {
        db["DEVICE_METADATA"]["localhost"]["type"] = json!("BackEndToRRouter");
        db["BUFFER_PROFILE"]["pg_lossless_100000_40m_profile"]["dynamic_th"] = json!("-5");
    });
    assert_eq!(found, Vec::<String>::new());
    let words = "tor-1: no other switch has the type \"BackEndToRRouter\": alpha was compared with no \
                 peer's (FD007)";
    assert!(not_judged.iter().any(|of| of == words), "{not_judged:?}");
}

#[test]
fn a_job_that_sets_nothing_at_one_host_and_a_file_that_is_no_environment() {
    for (text, words) in [
        ("", "FD004 h0: job train sets no NCCL_IB_TC"),
        (
            "sh: 1: env: not found\n",
            "FD000 h0: h0/env.train.txt: it has no line that is NAME=VALUE",
        ),
    ] {
        let mut folder = healthy();
        // No device says a traffic class for all.
        folder.files.retain(|file| !file.path.starts_with("h0/sysfs"));
        for file in folder.files.iter_mut().filter(|file| file.path == "h0/env.train.txt") {
            file.bytes = text.into();
        }
        let (found, _) = judged(&folder);
        let [one] = &found[..] else { panic!("{found:#?}") };
        assert!(one.starts_with(words), "{one}");
    }
}

/// The healthy cluster without the folders of `devices`.
fn without(devices: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut folder = healthy();
    let of = |path: &str| path.split('/').next().is_some_and(|name| devices.contains(&name));
    folder.files.retain(|file| !of(&file.path));
    judged(&folder)
}

#[test]
fn a_device_whose_folder_is_missing_is_said() {
    assert_eq!(judged(&healthy()).1, Vec::<String>::new());
    let (found, not_judged) = without(&["tor-1"]);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(
        not_judged[0],
        "h0, h1, leaf-1 and leaf-2 name tor-1 as a neighbour, and there is no folder of it: it was not \
         judged, nor were its links"
    );
    // A host that one lossless port sees.
    let (_, not_judged) = without(&["h0"]);
    let words = "tor-1 names h0 as a neighbour, and there is no folder of it: ";
    assert!(not_judged[0].starts_with(words), "{not_judged:?}");
    // By DEVICE_NEIGHBOR alone.
    let mut folder = healthy();
    folder.files.retain(|of| !of.path.starts_with("tor-1/") && !of.path.contains("lldp"));
    let (_, not_judged) = judged(&folder);
    let words = "leaf-1 and leaf-2 name tor-1 as a neighbour, and there is no folder of it: ";
    assert!(not_judged.iter().any(|of| of.starts_with(words)), "{not_judged:?}");
}

#[test]
fn what_one_host_sees_beside_its_switch_is_none_that_is_missing() {
    let mut folder = healthy();
    for file in folder.files.iter_mut().filter(|file| file.path.ends_with("/lldp.json")) {
        let mut lldp: Value = serde_json::from_slice(&file.bytes).unwrap();
        let of_data = lldp["lldp"]["interface"]["eth2"].clone();
        // The management network of all hosts, and a bridge behind one.
        let mut other = |interface: &str, name: &str| {
            let chassis = json!({ name: of_data["chassis"].as_object().unwrap().values().next() });
            lldp["lldp"]["interface"][interface] = of_data.clone();
            lldp["lldp"]["interface"][interface]["chassis"] = chassis;
        };
        other("eth0", "mgmt-7");
        if file.path == "h0/lldp.json" {
            lldp["lldp"]["interface"] = json!([
                { "eth0": lldp["lldp"]["interface"]["eth0"] },
                { "eth2": lldp["lldp"]["interface"]["eth2"] },
                { "eth2": { "chassis": { "bridge-1": { "id": {} } }, "port": {} } },
            ]);
        }
        file.bytes = serde_json::to_vec(&lldp).unwrap();
    }
    assert_eq!(judged(&folder), (Vec::new(), Vec::new()));
}

/// A command as a shell splits it.
fn words(command: &str) -> Vec<String> {
    command.replace('\'', "").split(' ').map(str::to_owned).collect()
}

/// Types a command on `tor-1`; whether it is one that is known here.
fn typed(db: &mut Value, command: &str) -> bool {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["sonic-db-cli", "CONFIG_DB", "hset", key, ref fields @ ..] => {
            let (table, key) = key.split_once('|').unwrap();
            for pair in fields.chunks(2) {
                db[table][key][pair[0]] = json!(pair[1]);
            }
        }
        ["sudo", "config", "interface", "pfc", "priority", port, priority, "on"] => {
            let own = &mut db["PORT_QOS_MAP"][port]["pfc_enable"];
            let mut all: Vec<&str> = own.as_str().unwrap_or("").split(',').collect();
            all.retain(|own| !own.is_empty());
            all.push(priority);
            *own = json!(all.join(","));
        }
        ["sudo", "pfcwd", "start", "--action", action, ref rest @ ..] => {
            let [ports @ .., detection, "--restoration-time", restoration] = rest else {
                return false;
            };
            for port in ports {
                db["PFC_WD"][port] = json!({
                    "action": action, "detection_time": detection, "restoration_time": restoration,
                });
            }
        }
        ["sudo", "config", "ecn", "-profile", profile, which, bytes] => {
            let field =
                if which == "-gmax" { "green_max_threshold" } else { "green_min_threshold" };
            db["WRED_PROFILE"][profile][field] = json!(bytes);
        }
        _ => return false,
    }
    true
}

#[test]
fn a_group_of_a_lossy_profile_has_no_alpha_to_compare() {
    let mut folder = healthy();
    // It says an alpha.
    folder.files.retain(|file| file.path != "desired.toml");
    change(&mut folder, |db| {
        db["BUFFER_PG"]["Ethernet112|3-4"]["profile"] = json!("ingress_lossy_profile");
    });
    let (found, _) = judged(&folder);
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert!(
        one.starts_with("FD003 tor-1: each of groups 3, 4 of Ethernet112 has no headroom"),
        "{one}"
    );
}

#[test]
fn a_remedy_mends_what_it_was_given_for() {
    const PORT: &str = "Ethernet112";
    let without = |field: &'static str| {
        move |db: &mut Value| {
            db["PORT_QOS_MAP"][PORT].as_object_mut().unwrap().remove(field);
        }
    };
    let set = |table: &'static str, key: &'static str, field: &'static str, value: &'static str| {
        move |db: &mut Value| db[table][key][field] = json!(value)
    };
    type Change = Box<dyn Fn(&mut Value)>;
    // The change, and the keys that its findings are about.
    let mut all: Vec<(String, Change, Vec<&str>)> = Vec::new();
    for (table, field, values, key) in [
        ("DSCP_TO_TC_MAP", "26", "0 1 4", "DSCP_TO_TC_MAP|AZURE"),
        ("DSCP_TO_TC_MAP", "48", "3", "DSCP_TO_TC_MAP|AZURE"),
        ("TC_TO_PRIORITY_GROUP_MAP", "3", "0 4 7", "TC_TO_PRIORITY_GROUP_MAP|AZURE"),
        ("TC_TO_QUEUE_MAP", "3", "0 4 5 6", "TC_TO_QUEUE_MAP|AZURE"),
        ("TC_TO_QUEUE_MAP", "6", "3", "TC_TO_QUEUE_MAP|AZURE"),
        ("MAP_PFC_PRIORITY_TO_QUEUE", "3", "0 4", "MAP_PFC_PRIORITY_TO_QUEUE|AZURE"),
    ] {
        for value in values.split(' ') {
            let name = format!("{table} {field} {value}");
            all.push((name, Box::new(set(table, "AZURE", field, value)), vec![key]));
        }
    }
    for field in ["tc_to_pg_map", "tc_to_queue_map", "pfc_enable"] {
        let name = format!("no {field}");
        all.push((name, Box::new(without(field)), vec!["PORT_QOS_MAP|Ethernet112"]));
    }
    for value in ["", "4"] {
        let change = set("PORT_QOS_MAP", PORT, "pfc_enable", value);
        all.push((format!("pfc {value}"), Box::new(change), vec!["PORT_QOS_MAP|Ethernet112"]));
    }
    all.push((
        "no PORT_QOS_MAP".into(),
        Box::new(|db| _ = db["PORT_QOS_MAP"].as_object_mut().unwrap().remove(PORT)),
        vec!["PORT_QOS_MAP|Ethernet112"],
    ));
    for size in ["1000", "100000"] {
        let change = set("BUFFER_POOL", "ingress_lossless_pool", "size", size);
        let key = "BUFFER_POOL|ingress_lossless_pool";
        all.push((format!("pool {size}"), Box::new(change), vec![key]));
    }
    for time in ["50", "6000"] {
        let change = set("PFC_WD", PORT, "detection_time", time);
        all.push((format!("time {time}"), Box::new(change), vec!["PFC_WD|Ethernet112"]));
    }
    let (marks, ecn) = (set("WRED_PROFILE", "AZURE_LOSSLESS", "ecn", "ecn_none"), "no marks");
    all.push((ecn.into(), Box::new(marks), vec!["WRED_PROFILE|AZURE_LOSSLESS"]));
    let mut failed = Vec::new();
    for (name, what, keys) in all {
        for desired in [true, false] {
            let mut folder = healthy();
            folder.files.retain(|file| desired || file.path != "desired.toml");
            change(&mut folder, what.as_ref());
            let mut left = Diagnosis::of(&folder, None, None).findings;
            if left.is_empty() {
                failed.push(format!("{name} ({desired}): silent"));
            }
            // A finding's line is in the entry that its command changes.
            let is_there = |of: &&Finding| {
                let of_desired = of.key.starts_with("roles.");
                of.device == "tor-1" && (of_desired || keys.contains(&of.key.as_str()))
            };
            failed
                .extend(left.iter().filter(|of| !is_there(of)).map(|of| format!("{name}: {of:?}")));
            // What desired.toml says beside the first command may take a second.
            let mut commands = Vec::new();
            for _ in 0..1 + usize::from(desired) {
                for command in left.iter().flat_map(|of| &of.commands) {
                    commands.push(command.clone());
                    change(&mut folder, |db| assert!(typed(db, command), "{name}: {command}"));
                }
                left = Diagnosis::of(&folder, None, None).findings;
            }
            if !left.is_empty() {
                failed.push(format!("{name} ({desired}): after {commands:?} {left:#?}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The healthy cluster with `from` made `to` in a file; in an empty `from`, with all of it `to`.
fn edited(path: &str, from: &str, to: &str) -> Vec<String> {
    let mut folder = healthy();
    for file in folder.files.iter_mut().filter(|file| file.path == path) {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        assert!(text.contains(from), "{path}: {from}");
        file.bytes = if from.is_empty() { to.into() } else { text.replace(from, to).into() };
    }
    judged(&folder).0
}

#[test]
fn files_of_hosts_that_say_nothing_and_jobs_that_name_nothing() {
    for (path, from, to, words) in [
        (
            "h0/lldpad.txt",
            "",
            "sh: 1: systemctl: not found\n",
            "FD000 h0: h0/lldpad.txt: it is neither",
        ),
        (
            "h0/ethtool-i.eth2.txt",
            "driver: mlx5_core\n",
            "",
            "FD000 h0: h0/ethtool-i.eth2.txt: it has",
        ),
        ("h0/lldp.json", "", "\n", "FD000 h0: h0/lldp.json: it is empty."),
        (
            "h0/env.train.txt",
            "GID_INDEX=3",
            "GID_INDEX=xyz",
            "FD011 h0: NCCL_IB_GID_INDEX of job train is \"xyz\"",
        ),
        (
            "h0/env.train.txt",
            "mlx5_0",
            "mlx5_9",
            "FD011 h0: NCCL_IB_HCA of job train is \"mlx5_9\"",
        ),
        (
            "h0/sysfs.txt",
            "types/3:RoCE v2",
            "types/3:?",
            "FD011 h0: NCCL_IB_GID_INDEX of job train is 3, and that GID of mlx5_0 is \"?\"",
        ),
    ] {
        let found = edited(path, from, to);
        let [one] = &found[..] else { panic!("{path}: {found:#?}") };
        assert!(one.starts_with(words), "{one}");
    }
    for (path, from, to) in [
        ("h0/lldpad.txt", "", ""),
        ("h0/lldpad.txt", "", "unknown\n"),
        ("h0/lldpad.txt", "", "  PID TTY  CMD\n 4711 ?  lldpd\n"),
        ("h0/env.train.txt", "GID_INDEX=3", "GID_INDEX=-1"),
        ("h0/env.train.txt", "mlx5_0", "mlx5"),
        ("h0/env.train.txt", "mlx5_0", "^mlx5_9"),
    ] {
        assert_eq!(edited(path, from, to), Vec::<String>::new(), "{path} {to}");
    }
}

#[test]
fn lldp_of_one_end_that_the_other_contradicts() {
    let path = "tor-1/lldp.txt";
    let mut folder = healthy();
    for file in folder.files.iter_mut().filter(|file| file.path == path) {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        let text = text.replace("leaf-1", "leaf-0").replace("leaf-2", "leaf-1");
        file.bytes = text.replace("leaf-0", "leaf-2").into();
    }
    let (found, _) = judged(&folder);
    let [one, two] = &found[..] else { panic!("{found:#?}") };
    // By whichever of the two is read first.
    let words = "FD016 leaf-1: Ethernet0 is cabled to Ethernet112 of tor-1 by LLDP here, and that port to \
                 Ethernet0 of leaf-2 by LLDP there";
    assert!(one.starts_with(words), "{one}");
    assert!(two.starts_with("FD016 leaf-2: Ethernet0 is cabled to Ethernet116 of tor-1"), "{two}");
}

#[test]
fn ends_of_two_speeds() {
    let (found, _) = with(|db| db["PORT"]["Ethernet116"]["speed"] = json!("800000"));
    let words = "FD011 tor-1: Ethernet116 has a speed of 800 Gb/s by PORT, and leaf-2 at the other end of \
                 100 Gb/s";
    assert!(found.iter().any(|of| of.starts_with(words)), "{found:#?}");
    let found = edited("h0/sysfs.txt", "speed:100000", "speed:25000");
    let [one] = &found[..] else { panic!("{found:#?}") };
    let words = "FD011 tor-1: Ethernet0 has a speed of 100 Gb/s by PORT, and h0 at the other end of 25 Gb/s";
    assert!(one.starts_with(words), "{one}");
}
