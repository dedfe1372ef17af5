//! Files of SONiC switches.

/// What is put in the place of what, and what is said about it.
pub(super) const CASES: &[(&str, &str, &str)] = &[
    (
        r#""PORT": {"#,
        r#""PORT": ["#,
        "line 11: the file: it is no JSON: expected `,` or `]`\nhint: expected an object of tables, as `show runningconfiguration all` prints it",
    ),
    (
        r#""PORT": {"#,
        r#""PORTS": {"#,
        r#"line 1: PORT: the table is missing, or empty
hint: add the ports: "PORT": { "Ethernet0": { "speed": "100000" } }"#,
    ),
    (
        r#""speed": "100000""#,
        r#""speed": "100G""#,
        r#"line 15: PORT|Ethernet0, speed: "100G" is not a number from 1 to 100000000
hint: plain digits, without a unit"#,
    ),
    (
        r#""AZURE": {
            "Ethernet0": "5m""#,
        r#""AZURE": {
            "Ethernet0": "5""#,
        r#"line 302: CABLE_LENGTH|AZURE, Ethernet0: "5" is not a length
hint: whole metres with their unit, such as "5m""#,
    ),
    (
        r#""0": "1","#,
        r#""0": "9","#,
        r#"line 343: DSCP_TO_TC_MAP|AZURE, 0: "9" is not a number from 0 to 7
hint: plain digits, without a unit"#,
    ),
    (
        r#""0": "1","#,
        r#""64": "1","#,
        r#"line 343: DSCP_TO_TC_MAP|AZURE, 64: "64" is not from 0 to 63
hint: a map is from numbers to numbers: { "3": "4" }"#,
    ),
    (
        r#""0": "1","#,
        r#""0": {"1": "2"},"#,
        r#"line 343: DSCP_TO_TC_MAP|AZURE, 0: expected a text, not an object
hint: write "value" in quotes"#,
    ),
    (
        r#""0": "1","#,
        r#""0": "1", "0": "2","#,
        "line 343: DSCP_TO_TC_MAP|AZURE, 0: the field is there twice\nhint: keep one of them: a switch would take the last",
    ),
    (
        r#""dscp_to_tc_map": "AZURE""#,
        r#""dscp_to_tc_map": "AZUR""#,
        r#"line 447: PORT_QOS_MAP|global, dscp_to_tc_map: there is no DSCP_TO_TC_MAP "AZUR"
hint: did you mean "AZURE"?"#,
    ),
    (
        r#""dscp_to_tc_map": "AZURE""#,
        r#""dscp_to_tc_map": "[TC_TO_QUEUE_MAP|AZURE]""#,
        r#"line 447: PORT_QOS_MAP|global, dscp_to_tc_map: "[TC_TO_QUEUE_MAP|AZURE]" does not refer to DSCP_TO_TC_MAP
hint: write "name", or "[DSCP_TO_TC_MAP|name]""#,
    ),
    (
        r#""dscp_to_tc_map": "AZURE""#,
        r#""dscp2tc_map": "AZURE""#,
        "line 447: PORT_QOS_MAP|global, dscp2tc_map: there is no such field\nhint: the fields here are dscp_to_tc_map, dot1p_to_tc_map, tc_to_pg_map, tc_to_queue_map, pfc_to_queue_map, pfc_to_pg_map, pfc_enable, pfcwd_sw_enable, scheduler, tc_to_dot1p_map, tc_to_dscp_map, dscp_to_fc_map, exp_to_fc_map",
    ),
    (
        r#""pfc_enable": "3,4""#,
        r#""pfc_enable": "3;4""#,
        r#"line 454: PORT_QOS_MAP|Ethernet0, pfc_enable: "3;4" is not a priority from 0 to 7
hint: write "3,4""#,
    ),
    (
        r#""pfc_enable": "3,4""#,
        r#""pfc_enable": "3,9""#,
        r#"line 454: PORT_QOS_MAP|Ethernet0, pfc_enable: "9" is not a priority from 0 to 7
hint: write "3,4""#,
    ),
    (
        r#""type": "ingress""#,
        r#""type": "sideways""#,
        r#"line 708: BUFFER_POOL|ingress_lossless_pool, type: "sideways" is not known
hint: write one of ingress, egress, both"#,
    ),
    (
        r#""size": "32689152""#,
        r#""size": "-1""#,
        r#"line 710: BUFFER_POOL|ingress_lossless_pool, size: "-1" is not a number from 0 to 4294967295
hint: plain digits, without a unit"#,
    ),
    (
        r#""size": "32689152""#,
        r#""size": "32 MB""#,
        r#"line 710: BUFFER_POOL|ingress_lossless_pool, size: "32 MB" is not a number from 0 to 4294967295
hint: plain digits, without a unit"#,
    ),
    (
        r#""size": "32689152""#,
        r#""size": "99999999999""#,
        r#"line 710: BUFFER_POOL|ingress_lossless_pool, size: "99999999999" is not a number from 0 to 4294967295
hint: plain digits, without a unit"#,
    ),
    (
        r#""size": "32689152","#,
        "",
        r#"line 706: BUFFER_POOL|ingress_lossless_pool: "size" is missing
hint: SONiC computes it while it runs: take it from `show buffer information`, or add buffer_bytes to the scenario"#,
    ),
    (
        r#""size": "32689152""#,
        r#""size": "4294967295""#,
        "line 706: BUFFER_POOL|ingress_lossless_pool: size and xoff are above 4 GiB\nhint: a simulated buffer has at most 4 GiB",
    ),
    (
        r#""pool": "ingress_lossless_pool""#,
        r#""pool": "ingress_lossy_pool""#,
        r#"line 726: BUFFER_PROFILE|ingress_lossy_profile, pool: there is no BUFFER_POOL "ingress_lossy_pool"
hint: did you mean "egress_lossy_pool"?"#,
    ),
    (
        r#""dynamic_th": "0""#,
        r#""dynamic_th": "9""#,
        r#"line 746: BUFFER_PROFILE|pg_lossless_100000_5m_profile, dynamic_th: "9" is not a number from -8 to 7
hint: plain digits, without a unit"#,
    ),
    (
        r#""dynamic_th": "0""#,
        r#""dynamic_th": "NaN""#,
        r#"line 746: BUFFER_PROFILE|pg_lossless_100000_5m_profile, dynamic_th: "NaN" is not a number from -8 to 7
hint: plain digits, without a unit"#,
    ),
    (
        r#""dynamic_th": "0""#,
        r#""dynamic_th": "0", "static_th": "5""#,
        "line 740: BUFFER_PROFILE|pg_lossless_100000_5m_profile: dynamic_th and static_th exclude each other\nhint: keep the one that the mode of the pool says",
    ),
    (
        r#""xoff": "160000",
            "dynamic_th": "0""#,
        r#""xoff": "160000""#,
        r#"line 740: BUFFER_PROFILE|pg_lossless_100000_5m_profile: it has no threshold
hint: add "dynamic_th" (alpha is 2 to its power) or "static_th""#,
    ),
    (
        r#""Ethernet0|3-4": {
            "profile": "pg"#,
        r#""Ethernet0|4-3": {
            "profile": "pg"#,
        r#"line 761: BUFFER_PG|Ethernet0|4-3: the key is not a port and a number
hint: write "Ethernet0|3" or "Ethernet0|3-4""#,
    ),
    (
        r#""Ethernet0|3-4": {
            "profile": "pg"#,
        r#""Ethernet0": {
            "profile": "pg"#,
        r#"line 761: BUFFER_PG|Ethernet0: the key is not a port and a number
hint: write "Ethernet0|3" or "Ethernet0|3-4""#,
    ),
    (
        r#""Ethernet0|3-4": {
            "profile": "pg"#,
        r#""Ethernet1|3-4": {
            "profile": "pg"#,
        r#"line 761: BUFFER_PG|Ethernet1|3-4: there is no port "Ethernet1" in PORT
hint: did you mean "Ethernet0"?"#,
    ),
    (
        r#""Ethernet0|3-4": {
            "profile": "pg"#,
        r#""Ethernet0|0-4": {
            "profile": "pg"#,
        r#"line 761: BUFFER_PG|Ethernet0|0-4: 0 is said by "Ethernet0|0" as well
hint: keep one of them"#,
    ),
    (
        r#""profile": "pg_lossless_100000_5m_profile""#,
        r#""profile": "egress_lossy_profile""#,
        r#"line 762: BUFFER_PG|Ethernet0|3-4, profile: BUFFER_PROFILE "egress_lossy_profile" is of an egress pool, egress_lossy_pool
hint: a priority group needs a profile of an ingress pool"#,
    ),
    (
        r#""profile": "pg_lossless_100000_5m_profile""#,
        r#""profile": "pg_lossless_100000_50m_profile""#,
        r#"line 762: BUFFER_PG|Ethernet0|3-4, profile: there is no BUFFER_PROFILE "pg_lossless_100000_50m_profile"
hint: did you mean "pg_lossless_100000_5m_profile"?"#,
    ),
    (
        r#""profile": "egress_lossy_profile""#,
        r#""profile": "ingress_lossy_profile""#,
        r#"line 1049: BUFFER_QUEUE|Ethernet0|0-2, profile: BUFFER_PROFILE "ingress_lossy_profile" is of an ingress pool, ingress_lossless_pool
hint: a queue needs a profile of an egress pool"#,
    ),
    (
        r#""type": "DWRR",
            "weight": "14""#,
        r#""type": "DWRR",
            "weight": "0""#,
        r#"line 2174: SCHEDULER|scheduler.0, weight: "0" is not a number from 1 to 255
hint: plain digits, without a unit"#,
    ),
    (
        r#""type": "STRICT""#,
        r#""type": "SP""#,
        r#"line 2181: SCHEDULER|scheduler.2, type: "SP" is not known
hint: write one of DWRR, WRR, STRICT"#,
    ),
    (
        r#""scheduler": "scheduler.1""#,
        r#""scheduler": "scheduler.7""#,
        r#"line 1351: QUEUE|Ethernet0|3, scheduler: there is no SCHEDULER "scheduler.7"
hint: did you mean "scheduler.0"?"#,
    ),
    (
        r#""wred_profile": "AZURE_LOSSLESS""#,
        r#""wred_profile": "AZURE_LOSSY""#,
        r#"line 1352: QUEUE|Ethernet0|3, wred_profile: there is no WRED_PROFILE "AZURE_LOSSY"
hint: WRED_PROFILE has AZURE_LOSSLESS"#,
    ),
    (
        r#""green_min_threshold": "1048576""#,
        r#""green_min_threshold": "3145728""#,
        "line 2190: WRED_PROFILE|AZURE_LOSSLESS, green_max_threshold: 2097152 is below green_min_threshold, 3145728\nhint: marks begin at the minimum, and are certain at the maximum",
    ),
    (
        r#""green_drop_probability": "5""#,
        r#""green_drop_probability": "500""#,
        r#"line 2196: WRED_PROFILE|AZURE_LOSSLESS, green_drop_probability: "500" is not a number from 0 to 100
hint: plain digits, without a unit"#,
    ),
    (
        r#""ecn": "ecn_all""#,
        r#""ecn": "yes""#,
        r#"line 2189: WRED_PROFILE|AZURE_LOSSLESS, ecn: "yes" is not known
hint: write one of ecn_none, ecn_green, ecn_yellow, ecn_red, ecn_green_yellow, ecn_green_red, ecn_yellow_red, ecn_all"#,
    ),
    (
        r#""POLL_INTERVAL": "200""#,
        r#""POLL_INTERVAL": "0""#,
        r#"line 2203: PFC_WD|GLOBAL, POLL_INTERVAL: "0" is not a number from 1 to 3600000
hint: plain digits, without a unit"#,
    ),
    (
        r#""Ethernet0": {
            "action"#,
        r#""Ethernet0,Ethernet1": {
            "action"#,
        r#"line 2205: PFC_WD|Ethernet0,Ethernet1: there is no port "Ethernet1" in PORT
hint: did you mean "Ethernet0"?"#,
    ),
    (
        r#""action": "drop""#,
        r#""action": "explode""#,
        r#"line 2206: PFC_WD|Ethernet0, action: "explode" is not known
hint: write one of drop, forward, alert"#,
    ),
    (
        r#""detection_time": "200","#,
        "",
        r#"line 2205: PFC_WD|Ethernet0: "detection_time" is missing
hint: add "detection_time": "...""#,
    ),
    (
        r#""detection_time": "200""#,
        r#""detection_time": "200ms""#,
        r#"line 2207: PFC_WD|Ethernet0, detection_time: "200ms" is not a number from 1 to 3600000
hint: plain digits, without a unit"#,
    ),
    (
        r#"{
    "DEVICE_METADATA""#,
        r#"{{
    "DEVICE_METADATA""#,
        "line 1: the file: it is no JSON: key must be a string\nhint: expected an object of tables, as `show runningconfiguration all` prints it",
    ),
    (
        r#""xoff": "2058240""#,
        r#""xoff": "99999999999""#,
        r#"line 711: BUFFER_POOL|ingress_lossless_pool, xoff: "99999999999" is not a number from 0 to 4294967295
hint: plain digits, without a unit"#,
    ),
    (
        r#""mode": "dynamic""#,
        r#""mode": "elastic""#,
        r#"line 709: BUFFER_POOL|ingress_lossless_pool, mode: "elastic" is not known
hint: write one of dynamic, static"#,
    ),
    (
        r#""xon": ""#,
        r#""xon": "x"#,
        r#"line 743: BUFFER_PROFILE|pg_lossless_100000_5m_profile, xon: "x2288" is not a number from 0 to 4294967295
hint: plain digits, without a unit"#,
    ),
    (
        r#""BUFFER_POOL": {"#,
        r#""BUFFER_POOL": 5, "OTHER": {"#,
        r#"line 706: BUFFER_POOL: expected an object in braces
hint: a table holds keys, and a key holds fields: { "key": { "field": "value" } }"#,
    ),
    (
        r#""tc_to_pg_map": "AZURE""#,
        r#""tc_to_pg_map": """#,
        r#"line 452: PORT_QOS_MAP|Ethernet0, tc_to_pg_map: there is no TC_TO_PRIORITY_GROUP_MAP ""
hint: TC_TO_PRIORITY_GROUP_MAP has AZURE"#,
    ),
];
