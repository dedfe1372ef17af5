//! Scenarios.

/// What is put in the place of what, and what is said about it.
pub(super) const CASES: &[(&str, &str, &str)] = &[
    (
        r#"title = "small""#,
        r#"title = "small"
colour = 3"#,
        "line 3: unknown key `colour`\nhint: the keys here are title, seed, end_ms, deadlock_check_us, sample_us, paranoid, share_queue_pairs, reroute_us, topology, switch, switches, nic, nics, host, hosts, workload, fault, capture, lab",
    ),
    (
        "senders = 2",
        "senders = 2\nqueue_pairs = 8193",
        "line 15: workload.kind: h0 has more than the 16384 queue pairs that a NIC has of one priority\nhint: share_queue_pairs = true lets flows of the same two hosts and DSCP share one; or take fewer flows to or from it",
    ),
    (
        "end_ms = 1",
        "end_ms = nan",
        "line 3: end_ms: NaN ms is not a time above 0, of at most 1000000000\nhint: the unit is milliseconds",
    ),
    (
        "end_ms = 1",
        "end_ms = -5",
        "line 3: end_ms: -5 ms is not a time above 0, of at most 1000000000\nhint: the unit is milliseconds",
    ),
    (
        "end_ms = 1",
        "end_ms = 1e300",
        "line 3: end_ms: 1e300 ms is not a time above 0, of at most 1000000000\nhint: the unit is milliseconds",
    ),
    (
        "end_ms = 1",
        r#"end_ms = "1 ms""#,
        r#"line 3: end_ms: expected a number, and found the text "1 ms"
hint: write it without quotes, and without a unit: the end of the key says that"#,
    ),
    ("end_ms = 1", "end_s = 1", "line 3: unknown key `end_s`\nhint: did you mean `end_ms`?"),
    (
        "end_ms = 1\n",
        "end_ms = 1\ndeadlock_check_us = inf\n",
        "line 4: deadlock_check_us: inf us is not a time from 0 to 1000000000000\nhint: the unit is microseconds",
    ),
    (
        r#"shape = "single-switch""#,
        r#"shape = "doughnut""#,
        r#"line 6: topology.shape: there is no "doughnut"
hint: one of back-to-back, single-switch, leaf-spine, clos, fat-tree, rail-optimised, parking-lot, links"#,
    ),
    (
        "hosts = 3",
        "hosts = 4000000000",
        r#"line 7: topology.hosts: 4000000000 is not from 1 to 65536
hint: large networks are of layers: shape = "clos", for instance"#,
    ),
    (
        "hosts = 3",
        "hosts = 99999999999999999999",
        "line 7: topology.hosts: 99999999999999999999 is not from 1 to 65536\nhint: large networks are of layers: shape = \"clos\", for instance",
    ),
    (
        "hosts = 3",
        "hosts = -1",
        "line 7: topology.hosts: -1 is not from 1 to 65536\nhint: write 1 or more",
    ),
    (
        "hosts = 3",
        "hosts = 2000",
        "line 6: topology.shape: these are 2000 ports of one switch, and there is room for 1024\nhint: make one of the sizes smaller",
    ),
    (
        "hosts = 3",
        "hosts = 3\nuplink_cable_m = 5",
        r#"line 8: topology.uplink_cable_m: shape "single-switch" does not have it
hint: its keys are hosts, rate_gbps, cable_m"#,
    ),
    (
        "hosts = 3",
        r#"hosts = 3
host = ["a"]"#,
        r#"line 8: topology.host: shape "single-switch" does not have it
hint: its keys are hosts, rate_gbps, cable_m"#,
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "leaf-spine"
leaves = 65536
spines = 65536
hosts = 65536"#,
        "line 6: topology.shape: these are 4294967296 hosts, and there is room for 1048576\nhint: make one of the sizes smaller",
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "fat-tree"
k = 7"#,
        "line 7: topology.k: 7 is no even number from 2 to 128\nhint: k is the number of ports of every switch",
    ),
    ("rate_gbps = 40", "rate = 40", "line 8: unknown key `rate`\nhint: did you mean `rate_gbps`?"),
    (
        "rate_gbps = 40",
        "rate_gbps = 0",
        "line 8: topology.rate_gbps: 0 Gb/s is not a rate above 0, of at most 100000\nhint: the unit is Gb/s: 100 for 100 GbE",
    ),
    (
        "rate_gbps = 40",
        "rate_gbps = 40e9",
        "line 8: topology.rate_gbps: 40000000000 Gb/s is not a rate above 0, of at most 100000\nhint: the unit is Gb/s: 100 for 100 GbE",
    ),
    (
        "rate_gbps = 40",
        "rate_gbps = inf",
        "line 8: topology.rate_gbps: inf Gb/s is not a rate above 0, of at most 100000\nhint: the unit is Gb/s: 100 for 100 GbE",
    ),
    (
        "cable_m = 2",
        "cable_m = 4294967295",
        "line 9: topology.cable_m: 4294967295 m is more than once around the earth\nhint: the unit is metres",
    ),
    (
        "cable_m = 2",
        "cable_m = -2",
        "line 9: topology.cable_m: -2 m is not from 0 to 40000000\nhint: write 0 or more",
    ),
    (
        "cable_m = 2",
        "cable_m = 2.5",
        "line 9: topology.cable_m: expected a whole number from 0 to 40000000, and found 2.5\nhint: the unit is metres",
    ),
    (
        r#"alpha = "1/16""#,
        "alpha = 0.0625",
        "line 12: switch.alpha: expected a text in quotes, and found 0.0625\nhint: write it in quotes",
    ),
    (
        r#"alpha = "1/16""#,
        r#"alpha = "1/3""#,
        r#"line 12: switch.alpha: "1/3" is no power of two from 1/256 to 128
hint: write "1/16", "1" or "8", for instance"#,
    ),
    (
        r#"alpha = "1/16""#,
        r#"alpha = "1/16"
threshold_bytes = 5"#,
        "line 13: switch.threshold_bytes: a threshold is dynamic (alpha) or static\nhint: remove one of alpha and threshold_bytes",
    ),
    (
        r#"alpha = "1/16""#,
        "buffer = 12",
        "line 12: unknown key `buffer`\nhint: did you mean `buffer_bytes`?",
    ),
    (
        r#"alpha = "1/16""#,
        "buffer_bytes = 99999999999",
        "line 12: switch.buffer_bytes: 99999999999 bytes is not from 0 to 4294967295\nhint: the unit is bytes",
    ),
    (
        r#"alpha = "1/16""#,
        "buffer_bytes = 1_000",
        "line 12: switch.buffer_bytes: s0 has a buffer of 1000 bytes, and its ports reserve 46620 for reserves and headrooms\nhint: make the buffer larger, or headroom, reserves or cables smaller",
    ),
    (
        r#"alpha = "1/16""#,
        "headroom_bytes = 4_000_000_000",
        "line 12: switch.headroom_bytes: s0 has a buffer of 12000000 bytes, and its ports reserve 24000000000 for reserves and headrooms\nhint: make the buffer larger, or headroom, reserves or cables smaller",
    ),
    (
        r#"alpha = "1/16""#,
        "lossless_priorities = [8]",
        "line 12: switch.lossless_priorities: 8 is not from 0 to 7\nhint: a list of priorities: [3, 4], for instance",
    ),
    (
        r#"alpha = "1/16""#,
        "dscp_to_class = [[64, 3]]",
        "line 12: switch.dscp_to_class: 64 is not from 0 to 63\nhint: [[26, 3], [48, 6]]: DSCP 26 is 3, and 48 is 6",
    ),
    (
        r#"alpha = "1/16""#,
        "dscp_to_class = [[26, 8]]",
        "line 12: switch.dscp_to_class: 8 is not from 0 to 7\nhint: [[26, 3], [48, 6]]: DSCP 26 is 3, and 48 is 6",
    ),
    (
        r#"alpha = "1/16""#,
        "dscp_to_class = [[26, 3], [26, 4]]",
        "line 12: switch.dscp_to_class: DSCP 26 is there twice\nhint: leave one of its pairs out",
    ),
    (
        r#"alpha = "1/16""#,
        "lossless_priorities = [3, 3]",
        "line 12: switch.lossless_priorities: this priority is there twice\nhint: leave one out",
    ),
    (
        r#"alpha = "1/16""#,
        "dscp_to_class = [26, 3]",
        "line 12: switch.dscp_to_class: expected a list in brackets, and found 26\nhint: a list is [a, b]",
    ),
    (
        r#"alpha = "1/16""#,
        r#"model = "trident4""#,
        r#"line 12: switch.model: there is no "trident4"
hint: did you mean "trident+"?"#,
    ),
    (
        r#"alpha = "1/16""#,
        "weights = [1, 1, 1]",
        "line 12: switch.weights: expected a list of 8, and found 3\nhint: one value for each of priorities 0 to 7",
    ),
    (
        r#"alpha = "1/16""#,
        "weights = [1, 1, 1, 0, 1, 1, 1, 1]",
        "line 12: switch.weights: 0 is not a weight from 1 to 255\nhint: 1 for the least; strict_queues for those that go first",
    ),
    (
        r#"alpha = "1/16""#,
        "flowlet_gap_us = 5",
        r#"line 12: switch.flowlet_gap_us: only flowlets have a gap
hint: balance = "flowlet""#,
    ),
    (
        r#"alpha = "1/16""#,
        r#"config_db = "nowhere.json""#,
        r#"line 12: switch.config_db: cannot read "nowhere.json": it is not there
hint: the path is relative to the scenario"#,
    ),
    (
        r#"alpha = "1/16""#,
        r#"config_db = "/dev/zero""#,
        r#"line 12: switch.config_db: cannot read "/dev/zero": it is no file
hint: the path is relative to the scenario"#,
    ),
    (
        r#"alpha = "1/16""#,
        r#"config_db_ports = ["Ethernet0"]"#,
        r#"line 12: switch.config_db_ports: these are ports of a config_db
hint: name the file: config_db = "tor.json""#,
    ),
    (
        r#"alpha = "1/16""#,
        "ecn = { min_bytes = 9, max_bytes = 3, max_probability = 0.1 }",
        "line 12: switch.ecn.max_bytes: 3 is not above min_bytes, 9\nhint: marks begin at min_bytes, and are certain above max_bytes",
    ),
    (
        r#"alpha = "1/16""#,
        "ecn = { min_bytes = 9 }",
        "line 12: max_bytes is missing\nhint: add max_bytes to this table",
    ),
    (
        r#"alpha = "1/16""#,
        "ecn = { at_gbps = 100 }",
        "line 12: switch.ecn.at_gbps: min_bytes and max_bytes are not there\nhint: leave it out: without them, marks are in proportion to each port's rate",
    ),
    (
        r#"alpha = "1/16""#,
        "ecn = { min_bytes = 1, max_bytes = 3, max_probability = 10 }",
        "line 12: switch.ecn.max_probability: 10 is not a probability from 0 to 1\nhint: 0.1 for 10 %",
    ),
    (
        r#"alpha = "1/16""#,
        "watchdog = { poll_ms = 0, detection_ms = 1, restoration_ms = 1 }",
        "line 12: switch.watchdog.poll_ms: 0 ms is less than a microsecond\nhint: SONiC looks every 200 ms",
    ),
    (
        "[switch]\nalpha = \"1/16\"",
        "[switches.s0]\necn = { min_bytes = 9, max_bytes = 3, max_probability = 0.1 }",
        "line 12: switches.s0.ecn.max_bytes: 3 is not above min_bytes, 9\nhint: marks begin at min_bytes, and are certain above max_bytes",
    ),
    (
        "[switch]\nalpha = \"1/16\"",
        "[nics.h1]\ntcp = { mtu_bytes = 100 }",
        "line 12: nics.h1.tcp.mtu_bytes: 100 bytes is not from 576 to 9216\nhint: an IP packet at most: 1_500, or 9_000 where frames may be long",
    ),
    (
        "[switch]\nalpha = \"1/16\"",
        "[nic]\ntcp = { buffer_bytes = 100 }",
        "line 12: nic.tcp.buffer_bytes: 100 bytes is not from 2048 to 268435456\nhint: what a connection may have under way: 262_144, for instance",
    ),
    (
        r#"alpha = "1/16""#,
        r#"watchdog = { rule = "cisco", poll_ms = 1, detection_ms = 1, restoration_ms = 1 }"#,
        r#"line 12: switch.watchdog.rule: there is no "cisco"
hint: one of guo16, broadcom, mellanox"#,
    ),
    (
        "[switch]",
        "[switches.s9]",
        r#"line 11: switches.s9: there is no switch "s9"
hint: names are s0"#,
    ),
    (
        "[switch]",
        "[nics.h9]\n[switch]",
        r#"line 11: nics.h9: there is no host "h9"
hint: names are h0, h1, h2"#,
    ),
    (
        "[switch]",
        "[hosts.h9]\n[switch]",
        r#"line 11: hosts.h9: there is no host "h9"
hint: names are h0, h1, h2"#,
    ),
    (
        "[switch]",
        "[host]\nhogs = [8]\n[switch]",
        "line 12: host.hogs: there is no core 8\nhint: cores are 0 to 7",
    ),
    (
        "[switch]",
        "[nic]\nmtu_bytes = 1500\n[switch]",
        "line 12: nic.mtu_bytes: 1500 is no path MTU\nhint: 256, 512, 1024, 2048 or 4096 bytes of a message in a packet",
    ),
    (
        "[switch]",
        r#"[nic]
recovery = "none"
[switch]"#,
        r#"line 12: nic.recovery: there is no "none"
hint: one of go-back-0, go-back-n, selective-repeat"#,
    ),
    (
        "[switch]",
        "[nic]\nreceive_ns = -1\n[switch]",
        "line 12: nic.receive_ns: -1 ns is not a time from 0 to 1000000000000000\nhint: the unit is nanoseconds",
    ),
    (
        "[switch]",
        "[nic]\novertaken_wait_us = -1\n[switch]",
        "line 12: nic.overtaken_wait_us: -1 us is not a time from 0 to 1000000000000\nhint: the unit is microseconds",
    ),
    (
        "[switch]",
        "[nic]\nrecovery = \"go-back-n\"\novertaken_wait_us = 5\n[switch]",
        "line 13: nic.overtaken_wait_us: recovery \"go-back-n\" takes packets in their turn alone\nhint: write recovery = \"selective-repeat\", or remove it",
    ),
    (
        "[switch]",
        "[nic]\nout_of_order_packets = 5\n[switch]",
        "line 12: nic.out_of_order_packets: recovery \"go-back-n\" takes packets in their turn alone\nhint: write recovery = \"selective-repeat\", or remove it",
    ),
    (
        "[switch]",
        "[nic]\nout_of_order_packets = 0\n[switch]",
        "line 12: nic.out_of_order_packets: 0 is not from 1 to 8192\nhint: 1_024, for instance",
    ),
    (
        "[switch]",
        "[nic]\nxoff_bytes = 999_999_999\n[switch]",
        "line 12: nic.xoff_bytes: xon_bytes 131072 <= xoff_bytes 999999999 <= receive_buffer_bytes 262144 does not hold\nhint: the ToR is paused at XOFF, before the buffer is full, and resumed at XON",
    ),
    (
        r#"kind = "incast""#,
        r#"kind = "incats""#,
        r#"line 15: workload.kind: there is no "incats"
hint: did you mean "incast"?"#,
    ),
    (
        r#"receiver = "h0""#,
        r#"receiver = "h7""#,
        r#"line 16: workload.receiver: there is no host "h7"
hint: hosts are h0 to h2"#,
    ),
    (
        r#"receiver = "h0""#,
        "",
        r#"line 14: workload.receiver: kind "incast" needs it
hint: add receiver to this table"#,
    ),
    (
        r#"receiver = "h0""#,
        r#"receiver = "s0""#,
        r#"line 16: workload.receiver: there is no host "s0"
hint: hosts are h0 to h2"#,
    ),
    (
        "senders = 2",
        "senders = 3",
        "line 17: workload.senders: 3 of 2 other hosts\nhint: at least one; queue_pairs gives each several flows",
    ),
    (
        "senders = 2",
        "senders = 2\nload = 0.5",
        r#"line 18: workload.load: kind "incast" does not have it
hint: its keys are receiver, senders, message_bytes, verb, messages, endless, depth, queue_pairs, start_us, interval_us, interval_random, reply_bytes, spread_bytes, service, dscp"#,
    ),
    (
        "senders = 2",
        "senders = 2\nqueue_pairs = 4000000000",
        "line 15: workload.kind: these would be 8000000000 flows, and there is room for 16777216\nhint: take fewer hosts, less time, load or queue pairs",
    ),
    (
        "senders = 2",
        "senders = 2\ndepth = 0",
        "line 18: workload.depth: 0 is not at least 1\nhint: 1 for a message at a time",
    ),
    (
        "senders = 2",
        "senders = 2\nmessages = 0",
        "line 18: workload.messages: 0 is not at least 1\nhint: endless = true for one that does not end",
    ),
    (
        "senders = 2",
        "senders = 2\nendless = true\nmessages = 2",
        "line 19: workload.messages: an endless flow has no number of messages\nhint: remove one of messages and endless",
    ),
    (
        "senders = 2",
        "senders = 2\ndscp = 64",
        "line 18: workload.dscp: 64 is not from 0 to 63\nhint: a DSCP has six bits",
    ),
    (
        "senders = 2",
        "senders = 2\nstart_us = nan",
        "line 18: workload.start_us: NaN us is not a time from 0 to 1000000000000\nhint: the unit is microseconds",
    ),
    (
        "senders = 2",
        "senders = 2\nreply_bytes = 5",
        r#"line 18: workload.reply_bytes: only SENDs can be answered
hint: verb = "send""#,
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 4_000_000_000",
        "line 18: workload.message_bytes: 4000000000 bytes is more than 2147483648, the longest message\nhint: send several messages",
    ),
    (
        "message_bytes = 100000",
        "message = 100000",
        "line 18: unknown key `message`\nhint: did you mean `messages`?",
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "poisson"
load = nan
message_bytes = 5"#,
        "line 16: workload.load: NaN is not above 0 and at most 1\nhint: 0.5 for half of what the links of the hosts carry",
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "poisson"
load = 50
message_bytes = 5"#,
        "line 16: workload.load: 50 is not above 0 and at most 1\nhint: 0.5 for half of what the links of the hosts carry",
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "poisson"
load = 0.5
message_bytes = 0"#,
        "line 16: workload.load: messages of no bytes make no load\nhint: let them have a byte at least",
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "poisson"
load = 0.5"#,
        "line 14: workload.sizes: the sizes of messages are to be said once\nhint: give one of message_bytes, sizes, distribution and distribution_file",
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "poisson"
load = 0.5
sizes = [[5, 0.5], [4, 1.0]]"#,
        "line 17: workload.sizes: bytes and probabilities rise, the last one to 1\nhint: sizes = [[1_000, 0.5], [100_000, 1.0]]",
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "poisson"
load = 0.5
distribution = "websearch""#,
        r#"line 17: workload.distribution: there is no distribution "websearch"
hint: web-search, hadoop, memcached, or distribution_file = "sizes.csv""#,
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "trace"
trace_file = "nowhere.csv""#,
        r#"line 16: workload.trace_file: cannot read "nowhere.csv": it is not there
hint: the path is relative to the scenario"#,
    ),
    (
        r#"kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000"#,
        r#"kind = "ring"
receiver = "h0"
message_bytes = 5"#,
        r#"line 16: workload.receiver: kind "ring" does not have it
hint: its keys are message_bytes, verb, messages, endless, depth, queue_pairs, start_us, interval_us, interval_random, reply_bytes, spread_bytes, service, dscp"#,
    ),
    (
        "[[workload]]",
        "[[fault]]\nkind = \"link-flaps\"\nfrom = \"h0\"\nto = \"s0\"\ndown_us = 20\nevery_us = 10\ntimes = 2\n[[workload]]",
        "line 18: fault.down_us: 20.000 us is not below every_us, 10.000 us\nhint: a link is up before it fails again",
    ),
    (
        "[[workload]]",
        "[[fault]]\nkind = \"link-flaps\"\nfrom = \"h0\"\nto = \"s0\"\ndown_us = 5\nevery_us = 10\ntimes = 0\n[[workload]]",
        "line 20: fault.times: 0 is not from 1 to 65536\nhint: how often the link fails",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\ninterval_us = 0",
        "line 19: workload.interval_us: 0 us would begin all messages at one time\nhint: 10 for a message every 10 us; without it, messages follow each other",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "drop"
from = "h0"
to = "h1"
every = 2
[[workload]]"#,
        "line 17: fault.to: there is no link between h0 and h1\nhint: name both ends of one link",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "drop"
from = "h0"
to = "s0"
[[workload]]"#,
        "line 15: fault.kind: which packets are dropped is to be said once\nhint: give one of probability, every, ip_id_ends, and source with destination",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "damage"
from = "h0"
to = "s0"
probability = 2
[[workload]]"#,
        "line 18: fault.probability: 2 is not a probability from 0 to 1\nhint: 0.01 for one packet in a hundred",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "host-dies"
host = "h0"
every = 3
[[workload]]"#,
        "line 17: fault.every: kind \"host-dies\" does not have it\nhint: its keys are host, mac_aged, at_us",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "alpha"
switch = "h0"
alpha = "1/64"
[[workload]]"#,
        "line 16: fault.switch: there is no switch \"h0\"\nhint: name one that the topology has",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "alpha"
switch = "s0"
alpha = "1/60"
[[workload]]"#,
        "line 17: fault.alpha: \"1/60\" is no power of two from 1/256 to 128\nhint: write \"1/16\", \"1\" or \"8\", for instance",
    ),
    (
        "[switch]",
        "[switch]\ncell_bytes = 0",
        "line 12: switch.cell_bytes: 0 bytes is not from 1 to 16384\nhint: 208 in Trident 2; 1 counts bytes",
    ),
    (
        "[[workload]]",
        r#"[[fault]]
kind = "nic-stuck"
host = "h0"
at_us = 1e30
[[workload]]"#,
        "line 17: fault.at_us: 1e30 us is not a time from 0 to 1000000000000\nhint: the unit is microseconds",
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s1" },
    { from = "h2", to = "s1" },
]"#,
        "line 21: workload.kind: there is no path from h2 to h0\nhint: packets go up, and then down: add a link, or change the tier of a switch",
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s0" },
]"#,
        r#"line 8: topology.host: host "h2" has 0 links, and one port
hint: give it one link, to a switch or a host"#,
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s0" },
    { from = "h2", to = "s0" },
    { from = "h2", to = "s1" },
]"#,
        r#"line 8: topology.host: host "h2" has 2 links, and one port
hint: give it one link, to a switch or a host"#,
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s0" },
    { from = "h2", to = "s7" },
]"#,
        r#"line 12: topology.link.to: there is no host or switch "s7"
hint: add it to switch or host, or change the link"#,
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s0" },
    { from = "h2", to = "s0" },
    { from = "s1", to = "s1" },
]"#,
        r#"line 13: topology.link.to: "s1" is at both ends
hint: a link is between two nodes"#,
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h1"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s0" },
    { from = "h2", to = "s0" },
]"#,
        r#"line 8: topology.host: "h1" is there twice
hint: hosts and switches have names of their own"#,
    ),
    (
        r#"shape = "single-switch"
hosts = 3"#,
        r#"shape = "links"
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "s0" },
    { from = "h1", to = "s0" },
    { from = "h2", to = "s0" },
]
route = [{ at = "s0", to = "h1", via = ["s1"] }]"#,
        r#"line 14: topology.route.to: there is no switch "h1"
hint: a route is from a switch to another, by switches between them"#,
    ),
    (
        r#"alpha = "1/16""#,
        r#"config_db = "../../scenarios/sonic/spectrum-tor.json"
buffer_bytes = 100_000"#,
        "line 13: switch.buffer_bytes: s0 has a buffer of 100000 bytes, and its ports reserve 294912 for reserves and headrooms\nhint: make the buffer larger, or headroom, reserves or cables smaller",
    ),
    (
        r#"alpha = "1/16""#,
        r#"config_db = "Cargo.toml""#,
        "line 12: switch.config_db: Cargo.toml, line 1: the file: it is no JSON: invalid type: sequence, expected an object\nhint: expected an object of tables, as `show runningconfiguration all` prints it",
    ),
    (
        r#"alpha = "1/16""#,
        "reserve_bytes = 3_000_000_000",
        "line 12: switch.reserve_bytes: s0 has a buffer of 12000000 bytes, and its ports reserve 18000046620 for reserves and headrooms\nhint: make the buffer larger, or headroom, reserves or cables smaller",
    ),
    (
        "[switch]",
        "[switches.s0]\nbuffer_bytes = 20_000\n[switch]",
        "line 12: switches.s0.buffer_bytes: s0 has a buffer of 20000 bytes, and its ports reserve 46620 for reserves and headrooms\nhint: make the buffer larger, or headroom, reserves or cables smaller",
    ),
    (
        "[switch]",
        "[switches.s0]\nbuffer_kb = 20_000\n[switch]",
        "line 12: unknown key `buffer_kb`\nhint: the keys here are config_db, config_db_ports, model, trust, dscp_to_class, server_ports, buffer_bytes, cell_bytes, lossless_priorities, alpha, threshold_bytes, reserve_bytes, headroom_bytes, headroom_pool_bytes, xon_offset_bytes, xon_bytes, lossy_queue_bytes, weights, strict_queues, pause_quanta, pause_response_quanta, latency_ns, cut_through, balance, flowlet_gap_us, ecmp_seed, polarised, weighted, incomplete_arp, arp_timeout_ms, mac_timeout_ms, ecn_mark, ecn, watchdog",
    ),
    (
        "end_ms = 1",
        "end_ms = 1\nend_ms = 2",
        "line 4: end_ms: the key is there twice\nhint: remove one of them",
    ),
    ("end_ms = 1", "", "line 1: end_ms is missing\nhint: add end_ms to this table"),
    (
        "[topology]",
        "[topologie]",
        "line 5: unknown key `topologie`\nhint: did you mean `topology`?",
    ),
    (
        "[switch]",
        "[switch",
        "line 11: unclosed table, expected `]`\nhint: a scenario is TOML: [table], and under it key = value",
    ),
    (
        "senders = 2",
        "senders = 2\nspread_bytes = 10",
        "line 18: workload.spread_bytes: 10 bytes is not from message_bytes to 1099511627776\nhint: it is the memory in which messages find a place",
    ),
    (
        "senders = 2",
        "senders = 0",
        "line 17: workload.senders: 0 of 2 other hosts\nhint: at least one; queue_pairs gives each several flows",
    ),
    (
        "senders = 2",
        r#"senders = "2""#,
        r#"line 17: workload.senders: expected a whole number from 0 to 4294967295, and found the text "2"
hint: write it without quotes, and without a unit: the end of the key says that"#,
    ),
    (
        "senders = 2",
        r#"senders = 2
verb = "put""#,
        r#"line 18: workload.verb: there is no "put"
hint: one of write, write-immediate, send, read, compare-swap, fetch-add"#,
    ),
    (
        "end_ms = 1",
        "end_ms = 0",
        "line 3: end_ms: 0 ms is no time to run for\nhint: the run ends at end_ms at the latest",
    ),
    (
        "[[workload]]",
        "[workload]",
        "line 14: workload: there may be several of these, and each has two brackets\nhint: write [[workload]] in the place of [workload]",
    ),
    (
        "[switch]",
        "[[switch]]",
        "line 11: switch: there is one of these at most\nhint: write [switch] in the place of [[switch]], and once",
    ),
    (
        "senders = 2",
        "senders = -2",
        "line 17: workload.senders: -2 is not at least 0\nhint: write 0 or more",
    ),
    (
        "senders = 2",
        "senders = 2\nmessages = -1",
        "line 18: workload.messages: -1 is not at least 1\nhint: endless = true for one that does not end",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = -5",
        "line 18: workload.message_bytes: -5 bytes is not from 0 to 2147483648\nhint: write 0 or more",
    ),
];
