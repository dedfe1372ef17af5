//! Buffers of queues that lossless classes leave by, changed at one switch of a healthy cluster.

use std::path::Path;

use ops::doctor::{Diagnosis, Finding, Folder};
use serde_json::{Value, json};

const NONE: [String; 0] = [];

fn healthy() -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster-healthy");
    Folder::read(&at).expect("the example is in the repository")
}

/// The healthy cluster with `what` done to the file of `tor-1`.
fn with(what: impl Fn(&mut Value)) -> Diagnosis {
    let mut folder = healthy();
    for file in folder.files.iter_mut().filter(|file| file.path == "tor-1/config_db.json") {
        let mut db = serde_json::from_slice(&file.bytes).unwrap();
        what(&mut db);
        file.bytes = serde_json::to_vec_pretty(&db).unwrap();
    }
    Diagnosis::of(&folder, None, None)
}

fn said(diagnosis: &Diagnosis) -> Vec<String> {
    let of = |f: &Finding| format!("{} {}: {}", f.rule.id(), f.device, f.text);
    diagnosis.findings.iter().map(of).collect()
}

/// A profile of queues, which has one threshold or the other.
fn threshold(db: &mut Value, profile: &str, field: &str, value: &str) {
    let of = db["BUFFER_PROFILE"][profile].as_object_mut().expect(profile);
    of.remove("dynamic_th");
    of.remove("static_th");
    of.insert(field.to_owned(), json!(value));
}

/// Gives every queue of the file a profile.
fn all_queues(db: &mut Value, profile: &str) {
    for (_, of) in db["BUFFER_QUEUE"].as_object_mut().unwrap() {
        of["profile"] = json!(profile);
    }
}

fn size(db: &mut Value, pool: &str, bytes: &str) {
    db["BUFFER_POOL"][pool]["size"] = json!(bytes);
}

/// A pool that queues of classes that drop may fill drops what is lossless, unless it is more than ports take in.
#[test]
fn queues_that_drop_and_have_no_limit_fill_the_pool_of_lossless_ones() {
    // 10,177,536 is what ports take in.
    for (field, value) in
        [("dynamic_th", "7"), ("static_th", "10177536"), ("static_th", "20000000")]
    {
        let diagnosis = with(|db| {
            threshold(db, "egress_lossy_profile", field, value);
            all_queues(db, "egress_lossy_profile");
        });
        let [one] = &said(&diagnosis)[..] else { panic!("{value}: {:#?}", said(&diagnosis)) };
        let words = "FD004 tor-1: queues 3 and 4 of Ethernet0 to Ethernet116 (4 of them) have the buffer \
                     profile egress_lossy_profile, which has no limit, as queues of classes that drop: these \
                     may fill BUFFER_POOL|egress_lossy_pool of 10,177,536 bytes, and what is lossless is \
                     dropped as well.";
        assert_eq!(one, words);
    }
    // By a profile of their own in one pool.
    for (field, value, command) in
        [("dynamic_th", "7", "dynamic_th 3"), ("static_th", "10177536", "static_th 5000000")]
    {
        let crowded = |db: &mut Value| {
            threshold(db, "egress_lossy_profile", field, value);
            db["BUFFER_PROFILE"]["egress_lossy_profile"]["pool"] = json!("egress_lossless_pool");
            size(db, "egress_lossless_pool", "10000000");
        };
        let diagnosis = with(crowded);
        let [one] = &diagnosis.findings[..] else { panic!("{:#?}", said(&diagnosis)) };
        let words = "queues 3 and 4 of Ethernet0 to Ethernet116 (4 of them) are in \
                     BUFFER_POOL|egress_lossless_pool of 10,000,000 bytes, as queues of classes that drop";
        assert!(one.text.starts_with(words), "{}", one.text);
        assert_eq!(one.key, "BUFFER_PROFILE|egress_lossy_profile");
        let typed = "sonic-db-cli CONFIG_DB hset 'BUFFER_PROFILE|egress_lossy_profile' ";
        assert_eq!(one.commands, [format!("{typed}{command}")]);
        let (field, value) = command.split_once(' ').unwrap();
        let mended = with(|db| {
            crowded(db);
            db["BUFFER_PROFILE"]["egress_lossy_profile"][field] = json!(value);
        });
        assert_eq!(said(&mended), NONE);
    }
    // One pool for all with a limit for queues that drop, as in SONiC's own of a Tomahawk 3.
    let diagnosis = with(|db| {
        db["BUFFER_PROFILE"]["egress_lossy_profile"]["pool"] = json!("egress_lossless_pool");
        size(db, "egress_lossless_pool", "10177536");
    });
    assert_eq!(said(&diagnosis), NONE);
    // A pool of more than ports take in does not fill.
    for (field, value) in [("dynamic_th", "7"), ("static_th", "14371840")] {
        let diagnosis = with(|db| {
            threshold(db, "egress_lossless_profile", field, value);
            all_queues(db, "egress_lossless_profile");
        });
        assert_eq!(said(&diagnosis), NONE, "{value}");
    }
}

/// A class that only one port, or only a mistake, lets drop is no class that drops.
#[test]
fn a_class_that_drops_by_a_mistake_crowds_nobody_out() {
    for pool in ["14371840", "10000000"] {
        // One profile for 3 and 4, and 3 does not pause at one port.
        let diagnosis = with(|db| {
            size(db, "egress_lossless_pool", pool);
            db["PORT_QOS_MAP"]["Ethernet112"]["pfc_enable"] = json!("4");
        });
        let [one] = &said(&diagnosis)[..] else { panic!("{:#?}", said(&diagnosis)) };
        assert!(
            one.starts_with("FD004 tor-1: DSCP 26 is class 3, group 3 at Ethernet112"),
            "{one}"
        );
        // At no port of the switch: 3 has the data.
        let diagnosis = with(|db| {
            size(db, "egress_lossless_pool", pool);
            for (_, of) in db["PORT_QOS_MAP"].as_object_mut().unwrap() {
                if of["pfc_enable"] == "3,4" {
                    of["pfc_enable"] = json!("4");
                }
            }
        });
        let crowded: Vec<_> =
            said(&diagnosis).into_iter().filter(|of| of.contains("queue 4")).collect();
        assert_eq!(crowded, NONE);
    }
    // Nor has the profile of such a class a limit for another reason.
    let diagnosis = with(|db| {
        threshold(db, "egress_lossless_profile", "dynamic_th", "-6");
        db["PORT_QOS_MAP"]["Ethernet112"]["pfc_enable"] = json!("4");
    });
    assert!(said(&diagnosis).iter().all(|of| !of.contains("classes that drop")), "{diagnosis:#?}");
    assert!(said(&diagnosis).iter().any(|of| of.contains("a limit of 221,105 bytes")));
}

/// A queue without a limit still has its pool.
#[test]
fn a_pool_that_overflows_before_anybody_is_paused() {
    // By hand: 10,177,536 less reserves and headrooms of four ports, at 1/16 for each of three others: about 1.5 MB.
    for (bytes, is_found) in [
        ("0", true),
        ("1000", true),
        ("100000", true),
        ("1400000", true),
        // SONiC's own of a Trident 3 has as much less for queues as its headroom.
        ("1700000", false),
        ("9437184", false),
    ] {
        for (field, value) in [("dynamic_th", "7"), ("static_th", "14371840"), ("static_th", bytes)]
        {
            let small = |db: &mut Value| {
                size(db, "egress_lossless_pool", bytes);
                threshold(db, "egress_lossless_profile", field, value);
            };
            let diagnosis = with(small);
            if !is_found {
                assert_eq!(said(&diagnosis), NONE, "{bytes} {value}");
                continue;
            }
            let [one] = &diagnosis.findings[..] else { panic!("{:#?}", said(&diagnosis)) };
            assert_eq!(
                (one.rule.id(), one.key.as_str()),
                ("FD004", "BUFFER_POOL|egress_lossless_pool")
            );
            let words = "queues 3 and 4 of Ethernet0 to Ethernet116 (4 of them) are in \
                         BUFFER_POOL|egress_lossless_pool of ";
            assert!(one.text.starts_with(words), "{}", one.text);
            // As the other switches of its kind have it.
            let command =
                "sonic-db-cli CONFIG_DB hset 'BUFFER_POOL|egress_lossless_pool' size 14371840";
            assert_eq!(one.commands, [command]);
        }
    }
    // With no other of its kind: what ports take in.
    let diagnosis = with(|db| {
        size(db, "egress_lossless_pool", "1000");
        db["DEVICE_METADATA"]["localhost"]["hwsku"] = json!("ACS-MSN2010");
    });
    let [one] = &diagnosis.findings[..] else { panic!("{:#?}", said(&diagnosis)) };
    assert!(one.commands[0].ends_with(" size 10177536"), "{one:?}");
}

fn without(db: &mut Value, pools: &[&str]) {
    for pool in pools {
        db["BUFFER_POOL"][pool].as_object_mut().expect(pool).remove("size").expect("it had one");
    }
}

#[test]
fn pools_without_a_size_are_told_and_not_taken_for_large() {
    const LOSSLESS: &str = "egress_lossless_pool";
    const INGRESS: &str = "ingress_lossless_pool";
    let marks =
        "tor-1: BUFFER_POOL has no size: whether marks come before pauses was not judged (FD006)";
    for (pools, names) in [
        (&[LOSSLESS][..], "egress_lossless_pool has"),
        (&[INGRESS], "ingress_lossless_pool has"),
        (&[LOSSLESS, INGRESS], "egress_lossless_pool and ingress_lossless_pool have"),
        (&["egress_lossy_pool"], ""),
    ] {
        for (field, value) in [("dynamic_th", "7"), ("static_th", "14371840"), ("dynamic_th", "-6")]
        {
            let diagnosis = with(|db| {
                threshold(db, "egress_lossless_profile", field, value);
                without(db, pools);
            });
            if names.is_empty() && value == "-6" {
                continue;
            }
            assert_eq!(said(&diagnosis), NONE, "{names} {value}");
            let told = format!(
                "tor-1: BUFFER_POOL {names} no size: whether lossless queues drop was not judged (FD004)"
            );
            let mut expected = Vec::new();
            if pools.contains(&INGRESS) {
                expected.push(marks.to_owned());
            }
            if !names.is_empty() {
                expected.push(told);
            }
            assert_eq!(diagnosis.not_judged(), expected, "{names} {value}");
        }
    }
    // What is found without any size is.
    let diagnosis = with(|db| {
        all_queues(db, "egress_lossy_profile");
        without(db, &["egress_lossy_pool"]);
    });
    assert_eq!(diagnosis.findings.len(), 1);
    assert_eq!(diagnosis.not_judged(), NONE);
}

/// One switch of SONiC's own numbers: pool sizes, and thresholds of ingress and egress profiles.
fn sonic(pools: Value, lossless: (&str, Value), lossy: (&str, &str, Value), alpha: &str) -> Folder {
    let mut folder = healthy();
    folder.files.retain(|file| file.path == "tor-1/config_db.json");
    let mut db: Value = serde_json::from_slice(&folder.files[0].bytes).unwrap();
    for port in 0..32 {
        let name = format!("Ethernet{}", port * 4);
        let (qos, near) =
            (db["PORT_QOS_MAP"]["Ethernet0"].clone(), db["PFC_WD"]["Ethernet0"].clone());
        db["PORT"][&name]["admin_status"] = json!("up");
        (db["PORT_QOS_MAP"][&name], db["PFC_WD"][&name]) = (qos, near);
        db["CABLE_LENGTH"]["AZURE"][&name] = json!("5m");
        for (numbers, profile) in
            [("0", "ingress_lossy_profile"), ("3-4", "pg_lossless_100000_5m_profile")]
        {
            db["BUFFER_PG"][format!("{name}|{numbers}")] = json!({ "profile": profile });
        }
        for numbers in ["0-2", "3-4", "5-6"] {
            let which =
                if numbers == "3-4" { "egress_lossless_profile" } else { "egress_lossy_profile" };
            db["BUFFER_QUEUE"][format!("{name}|{numbers}")] = json!({ "profile": which });
        }
        let queues = db["QUEUE"].as_object_mut().unwrap();
        let marks = queues["Ethernet0|3"].clone();
        for queue in ["3", "4"] {
            queues.insert(format!("{name}|{queue}"), marks.clone());
        }
    }
    db["BUFFER_POOL"] = pools;
    db["BUFFER_PROFILE"] = json!({
        "ingress_lossy_profile": { "pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3" },
        "egress_lossless_profile": { "pool": "egress_lossless_pool", "size": "0", lossless.0: lossless.1 },
        "egress_lossy_profile": { "pool": lossy.0, "size": "1518", lossy.1: lossy.2 },
        "pg_lossless_100000_5m_profile": {
            "pool": "ingress_lossless_pool", "size": "1248", "xon": "2288", "xon_offset": "2288",
            "xoff": "160000", "dynamic_th": alpha,
        },
    });
    folder.files[0].bytes = serde_json::to_vec_pretty(&db).unwrap();
    folder
}

/// `buffers_defaults_t0.j2` of sonic-buildimage, and pools of SONiC's documents.
#[test]
fn buffers_as_sonic_has_them_drop_nothing() {
    let pool =
        |direction: &str, size: &str| json!({ "type": direction, "mode": "dynamic", "size": size });
    let pools = |ingress: &str, xoff: &str, egress: &str, lossy: &str| {
        let mut pools = json!({
            "ingress_lossless_pool": pool("ingress", ingress),
            "egress_lossless_pool": pool("egress", egress),
            "egress_lossy_pool": pool("egress", lossy),
        });
        if !xoff.is_empty() {
            pools["ingress_lossless_pool"]["xoff"] = json!(xoff);
        }
        pools
    };
    let lossy = || ("egress_lossy_pool", "dynamic_th", json!("3"));
    let one_pool = || ("egress_lossless_pool", "dynamic_th", json!("3"));
    for (name, folder) in [
        (
            "Trident 2",
            sonic(
                pools("12766208", "", "12766208", "7326924"),
                ("static_th", json!("12766208")),
                lossy(),
                "-3",
            ),
        ),
        (
            "Trident 3",
            sonic(
                pools("32689152", "2058240", "32340992", "24709632"),
                ("static_th", json!("33030144")),
                lossy(),
                "0",
            ),
        ),
        (
            "Trident 3, another",
            sonic(
                pools("32756480", "2621440", "32475136", "24709632"),
                ("static_th", json!("32475136")),
                lossy(),
                "0",
            ),
        ),
        (
            "Tomahawk",
            sonic(
                pools("10875072", "4194112", "15982720", "9243812"),
                ("static_th", json!("15982720")),
                lossy(),
                "-3",
            ),
        ),
        (
            "one pool for all queues",
            sonic(
                pools("26284032", "6291456", "32575488", "1"),
                ("static_th", json!("32575488")),
                one_pool(),
                "-3",
            ),
        ),
        (
            "one pool as large as that of ports without headroom",
            sonic(
                pools("12766208", "4625920", "12766208", "7326924"),
                ("static_th", json!("12766208")),
                one_pool(),
                "-3",
            ),
        ),
        (
            "Spectrum",
            sonic(
                pools("9437184", "", "13945824", "9437184"),
                ("dynamic_th", json!("7")),
                lossy(),
                "1",
            ),
        ),
    ] {
        let diagnosis = Diagnosis::of(&folder, None, None);
        let of_chains: Vec<_> =
            said(&diagnosis).into_iter().filter(|of| !of.starts_with("FD006")).collect();
        assert_eq!(of_chains, NONE, "{name}");
    }
    // The same as a Trident 3 with half of its pool.
    let half = pools("32689152", "2058240", "16170496", "24709632");
    let folder = sonic(half, ("static_th", json!("33030144")), lossy(), "0");
    let all = said(&Diagnosis::of(&folder, None, None));
    let words = "FD004 tor-1: queues 3 and 4 of Ethernet0 to Ethernet124 (32 of them) are in \
                 BUFFER_POOL|egress_lossless_pool of 16,170,496 bytes";
    assert!(all.iter().any(|of| of.starts_with(words)), "{all:#?}");
}

/// Sizes and keys that nobody would write.
#[test]
fn odd_buffers_are_said_once_and_stop_nothing() {
    for (what, change) in [
        (
            "no pools",
            Box::new(|db: &mut Value| db["BUFFER_POOL"] = json!({})) as Box<dyn Fn(&mut Value)>,
        ),
        (
            "a pool of another table",
            Box::new(|db| {
                db["BUFFER_PROFILE"]["egress_lossless_profile"]["pool"] =
                    json!("[BUFFER_PROFILE|egress_lossy_profile]");
            }),
        ),
        (
            "a profile for a pool",
            Box::new(|db| {
                db["BUFFER_PROFILE"]["egress_lossless_profile"]["pool"] =
                    json!("egress_lossy_profile");
            }),
        ),
        ("a huge pool", Box::new(|db| size(db, "egress_lossless_pool", "99999999999999999999999"))),
        ("a pool of 4 GiB", Box::new(|db| size(db, "egress_lossless_pool", "4294967296"))),
        ("a negative pool", Box::new(|db| size(db, "egress_lossless_pool", "-1"))),
        ("half a byte", Box::new(|db| size(db, "egress_lossless_pool", "1000.5"))),
        (
            "half a byte, as a number",
            Box::new(|db| {
                db["BUFFER_POOL"]["egress_lossless_pool"]["size"] = json!(1000.5);
            }),
        ),
        (
            "a range of ports",
            Box::new(|db| {
                db["BUFFER_QUEUE"]["Ethernet0-4|3"] = json!({ "profile": "egress_lossy_profile" });
            }),
        ),
        (
            "a queue that is said twice",
            Box::new(|db| {
                db["BUFFER_QUEUE"]["Ethernet0|0-3"] = json!({ "profile": "egress_lossy_profile" });
            }),
        ),
        (
            "a range from back to front",
            Box::new(|db| {
                db["BUFFER_QUEUE"]["Ethernet0|2-0"] = json!({ "profile": "egress_lossy_profile" });
            }),
        ),
        (
            "a profile of a profile",
            Box::new(|db| {
                db["BUFFER_QUEUE"]["Ethernet0|3-4"]["profile"] =
                    json!("[BUFFER_QUEUE|Ethernet0|0-2]");
            }),
        ),
    ] {
        let diagnosis = with(change);
        let all = said(&diagnosis);
        assert!(
            !all.is_empty() && all.iter().all(|of| of.starts_with("FD000 tor-1: ")),
            "{what}: {all:#?}"
        );
    }
    // These are only unusual.
    for change in [
        Box::new(|db: &mut Value| {
            let pool = json!({ "type": "ingress", "mode": "dynamic", "size": "4194304" });
            db["BUFFER_POOL"]["ingress_lossy_pool"] = pool;
            db["BUFFER_PROFILE"]["ingress_lossy_profile"]["pool"] = json!("ingress_lossy_pool");
        }) as Box<dyn Fn(&mut Value)>,
        Box::new(|db| size(db, "egress_lossless_pool", "4294967295")),
        Box::new(|db| _ = db.as_object_mut().unwrap().remove("BUFFER_QUEUE")),
        Box::new(|db| {
            let ports = "Ethernet0,Ethernet4,Ethernet112,Ethernet116";
            db["BUFFER_QUEUE"] = json!({
                format!("{ports}|0-2"): { "profile": "[BUFFER_PROFILE|egress_lossy_profile]" },
                format!("{ports}|3-4"): { "profile": "[BUFFER_PROFILE|egress_lossless_profile]" },
                format!("{ports}|5-15"): { "profile": "egress_lossy_profile" },
            });
        }),
        Box::new(|db| {
            db["BUFFER_POOL"]["spare_pool"] =
                json!({ "type": "egress", "mode": "static", "size": "0" });
            db["BUFFER_PROFILE"]["spare"] =
                json!({ "pool": "spare_pool", "size": "0", "static_th": "0" });
            db["BUFFER_QUEUE"]["Ethernet8|0-6"] = json!({ "profile": "spare" });
        }),
    ] {
        assert_eq!(said(&with(change)), NONE);
    }
}
