//! Files in both styles, and what is said about those that cannot be.

use rdma::{Rate, Span};

use super::*;
use crate::pfc::PRIORITIES;
use crate::switch::config::{GroupConfig, Threshold, WatchdogAction, WatchdogConfig};
use crate::topology::{Cables, propagation, single_switch};
use crate::{Network, NetworkConfig};

/// Bare names, Broadcom, 24 ports of 5 m and 8 of 300 m.
const TD3: &str = include_str!("../../../../../scenarios/sonic/td3-tor.json");
/// The same switch with references in brackets, on Mellanox.
const SPECTRUM: &str = include_str!("../../../../../scenarios/sonic/spectrum-tor.json");

fn links(count: usize) -> Vec<Cables> {
    (0..count)
        .map(|link| Cables {
            rate: Rate::from_gbps(100),
            propagation: propagation(if link < 24 { 5 } else { 300 }),
        })
        .collect()
}

fn settings(text: &str, count: usize) -> (SwitchConfig, Vec<Note>) {
    let db = ConfigDb::parse(text).unwrap();
    db.switch(&links(count), None, None, &SwitchConfig::default()).unwrap()
}

fn refused(text: &str) -> String {
    let db = match ConfigDb::parse(text) {
        Ok(db) => db,
        Err(error) => return error.to_string(),
    };
    let made = db.switch(&links(4), None, None, &SwitchConfig::default());
    made.expect_err("it is wrong").to_string()
}

#[test]
fn a_file_of_a_trident_3_is_what_its_tables_say() {
    let (config, notes) = settings(TD3, 32);
    assert_eq!(config.buffer_bytes, 32_689_152 + 2_058_240);
    assert_eq!(config.headroom_pool_bytes, Some(2_058_240));
    assert_eq!(config.dscp_to_class[3], 3);
    assert_eq!([46, 48, 5, 8, 0].map(|dscp| config.dscp_to_class[dscp]), [5, 6, 2, 0, 1]);
    assert_eq!(config.class_to_group, [0, 0, 0, 3, 4, 0, 0, 7]);
    assert_eq!(config.ports.len(), 32, "the headrooms differ");
    let near = config.groups_of(0)[3];
    let expected = GroupConfig {
        lossless: true,
        reserve_bytes: 1_248,
        threshold: Threshold::Dynamic { exponent: 0 },
        headroom_bytes: Some(160_000),
        xon_offset_bytes: 2_288,
        xon_bytes: 2_288,
    };
    assert_eq!((near, config.groups_of(0)[4]), (expected, expected));
    assert_eq!(config.groups_of(31)[3].headroom_bytes, Some(177_632));
    let lossy = config.groups_of(5)[0];
    assert_eq!((lossy.lossless, lossy.threshold), (false, Threshold::Static { bytes: 32_744_448 }));
    let queues = config.queues_of(0);
    assert_eq!(queues[3].schedule, Schedule::Weighted(15));
    assert_eq!(queues[6].schedule, Schedule::Strict);
    let ecn = queues[3].ecn.unwrap();
    assert_eq!((ecn.min_bytes, ecn.max_bytes, ecn.max_probability), (1 << 20, 2 << 20, 0.05));
    assert_eq!(queues[1].limit, Some(Threshold::Dynamic { exponent: 3 }));
    let watchdog = WatchdogConfig {
        rule: WatchdogRule::Broadcom,
        action: WatchdogAction::Drop,
        poll: Span::from_ms(200),
        detection: Span::from_ms(200),
        restoration: Span::from_ms(200),
    };
    assert_eq!(config.watchdog_of(17), Some(&watchdog));
    let said: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
    assert!(notes.iter().all(|note| !note.warning), "{said:?}");
    assert!(
        said.contains(&"tables that say nothing about buffers, ignored: VLAN, DEVICE_NEIGHBOR")
    );
    assert!(said.contains(
        &"PFC_WD: the rule is Broadcom's, as DEVICE_METADATA says Arista-7050CX3-32S-C32"
    ));
}

#[test]
fn references_in_brackets_mean_the_same_and_mellanox_counts_headroom_in_the_size() {
    let (config, _) = settings(SPECTRUM, 32);
    let bare = settings(TD3, 32).0;
    assert_eq!(config.dscp_to_class, bare.dscp_to_class);
    assert_eq!(config.queues_of(9)[3].ecn, bare.queues_of(9)[3].ecn);
    assert_eq!((config.buffer_bytes, config.headroom_pool_bytes), (9_437_184, None));
    let expected = GroupConfig {
        lossless: true,
        reserve_bytes: 18_432,
        threshold: Threshold::Dynamic { exponent: 1 },
        headroom_bytes: Some(30_720),
        xon_offset_bytes: u32::MAX,
        xon_bytes: 18_432,
    };
    assert_eq!(config.groups_of(2)[4], expected);
    assert_eq!(config.watchdog_of(0).unwrap().rule, WatchdogRule::Mellanox);
    // A rack of it can be built, and shares what is left.
    let topology = single_switch(24, Cables::new(Rate::from_gbps(100), 5));
    let mut network = NetworkConfig::new(topology);
    let db = ConfigDb::parse(SPECTRUM).unwrap();
    network.switch = db.switch(&links(24), None, None, &SwitchConfig::default()).unwrap().0;
    let network = Network::new(network).unwrap();
    assert_eq!(network.shared_bytes(0), Some(9_437_184 - 24 * 2 * 49_152));
}

#[test]
fn ports_are_chosen_by_name_and_speeds_compared() {
    let db = ConfigDb::parse(TD3).unwrap();
    assert_eq!(db.ports().take(3).collect::<Vec<_>>(), ["Ethernet0", "Ethernet4", "Ethernet8"]);
    let names = ["Ethernet124", "Ethernet0"].map(str::to_owned);
    let slow = Cables { rate: Rate::from_gbps(40), propagation: propagation(100) };
    let base = SwitchConfig::default();
    let (config, notes) = db.switch(&[slow; 2], Some(&names), None, &base).unwrap();
    let headrooms = [0, 1].map(|port| config.groups_of(port)[3].headroom_bytes);
    assert_eq!(headrooms, [Some(177_632), Some(160_000)]);
    let warnings: Vec<&str> =
        notes.iter().filter(|note| note.warning).map(|note| note.text.as_str()).collect();
    assert_eq!(
        warnings,
        [
            "CABLE_LENGTH says 5 m, and the topology 100 m, which counts: Ethernet0",
            "PORT says 100 Gb/s, and the topology 40 Gb/s, which counts: \
             Ethernet124 to Ethernet0 (2 ports)",
        ]
    );
    let error = db.switch(&links(33), None, None, &base).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 10: PORT: 32 ports for the 33 links of the simulated switch\n\
         hint: take a file of a switch with as many ports, or a smaller topology"
    );
}

#[test]
fn what_a_file_asks_for_and_cannot_have_is_a_warning() {
    let text = TD3
        .replace("\"pfc_enable\": \"3,4\"", "\"pfc_enable\": \"3\"")
        .replace("\"ecn\": \"ecn_all\"", "\"ecn\": \"ecn_none\"")
        .replace("\"detection_time\": \"200\"", "\"detection_time\": \"50\"");
    let (config, notes) = settings(&text, 2);
    assert!(!config.groups_of(0)[4].lossless && config.queues_of(0)[3].ecn.is_none());
    let said: Vec<&str> =
        notes.iter().filter(|note| note.warning).map(|note| note.text.as_str()).collect();
    let expected = [
        "PFC_WD, detection_time: 50 ms is below POLL_INTERVAL, 200 ms: Ethernet0 to Ethernet4 (2 \
         ports)",
        "PFC_WD, detection_time: SONiC takes 100 to 5000 ms, not 50: Ethernet0 to Ethernet124 (32 \
         ports)",
        "PORT_QOS_MAP, pfcwd_sw_enable is not pfc_enable: here the watchdog looks after all of \
         pfc_enable: Ethernet0 to Ethernet4 (2 ports)",
        "WRED_PROFILE|AZURE_LOSSLESS drops packets and does not mark them (ecn); here it does neither",
        "group 4 has headroom (xoff) and its priority is not in pfc_enable: it never pauses: \
         Ethernet0 to Ethernet4 (2 ports)",
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_a_port_is_told_and_does_not_do_here_is_a_warning() {
    let text = TD3.replace(
        "\"pfcwd_sw_enable\": \"3,4\"",
        "\"pfcwd_sw_enable\": \"3\", \"exp_to_fc_map\": \"AZURE\"",
    );
    let (config, notes) = settings(&text, 2);
    assert!(config.watchdog_of(0).is_some());
    let said: Vec<&str> =
        notes.iter().filter(|note| note.warning).map(|note| note.text.as_str()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("PORT_QOS_MAP, exp_to_fc_map: it is not simulated: "), "{said:?}");
    assert_eq!(
        said[1],
        "PORT_QOS_MAP, pfcwd_sw_enable is not pfc_enable: here the watchdog looks after all of \
         pfc_enable: Ethernet0 to Ethernet4 (2 ports)"
    );
    let same = text.replace("\"pfcwd_sw_enable\": \"3\"", "\"pfcwd_sw_enable\": \"4,3\"");
    let (_, notes) = settings(&same, 2);
    assert_eq!(notes.iter().filter(|note| note.warning).count(), 1);
}

#[test]
fn computed_profiles_are_computed() {
    let text =
        TD3.replace("\"profile\": \"pg_lossless_100000_5m_profile\"", "\"profile\": \"NULL\"");
    let (config, _) = settings(&text, 8);
    let group = config.groups_of(0)[3];
    assert_eq!((group.lossless, group.headroom_bytes), (true, None));
    assert!(config.ports.is_empty(), "all ports are alike");
    assert_eq!(config.groups.iter().filter(|group| group.lossless).count(), 2);
    assert_eq!(config.groups.len(), PRIORITIES);
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_its_line_and_a_remedy() {
    assert_eq!(
        refused(&TD3.replace("\"xon_offset\": \"2288\"", "\"xon_ofset\": \"2288\"")),
        "line 744: BUFFER_PROFILE|pg_lossless_100000_5m_profile, xon_ofset: there is no such field\n\
         hint: did you mean \"xon_offset\"?"
    );
}

#[test]
fn a_list_of_priorities_and_halves_of_bytes_are_refused() {
    let list =
        refused(&TD3.replacen("\"pfc_enable\": \"3,4\"", "\"pfc_enable\": [\"3\", \"4\"]", 1));
    assert!(list.contains("pfc_enable: it is a list"), "{list}");
    assert!(list.ends_with("hint: write it as one text: \"3,4\""), "{list}");
    for colour in ["green", "yellow", "red"] {
        let field = format!("\"{colour}_min_threshold\": \"1048576");
        assert!(TD3.contains(&field), "{field}");
        let half = refused(&TD3.replacen(&field, &format!("{field}.5"), 1));
        assert!(half.contains("\"1048576.5\" is not a number from 0"), "{half}");
    }
}
