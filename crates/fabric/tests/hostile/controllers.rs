//! Scenarios that set a congestion control.

/// As [`super::scenarios::CASES`].
pub(super) const CASES: &[(&str, &str, &str)] = &[
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\nrpg_ai_rate = 0\n[[workload]]",
        "line 17: nic.dcqcn.rpg_ai_rate: 0 is not from 1 to 10000000\nhint: write a number of that range",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\nadditive_mbps = 1\nrpg_ai_rate = 1\n[[workload]]",
        "line 18: nic.dcqcn.rpg_ai_rate: it is additive_mbps too\nhint: remove one of them",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\nrpg_ia_rate = 1\n[[workload]]",
        "line 17: unknown key `rpg_ia_rate`\nhint: did you mean `rpg_ai_rate`?",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\npreset = \"connect\"\n[[workload]]",
        "line 17: nic.dcqcn.preset: there is no \"connect\"\nhint: did you mean \"connectx\"?",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\nfolder = \"nowhere\"\n[[workload]]",
        "line 17: nic.dcqcn.folder: nowhere: it has no file such as roce_rp/rpg_ai_rate\nhint: name the folder that holds roce_rp and roce_np: /sys/class/net/eth0/ecn",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\nfolder = \"Cargo.toml\"\n[[workload]]",
        "line 17: nic.dcqcn.folder: Cargo.toml: it is no folder\nhint: name the folder that holds roce_rp and roce_np: /sys/class/net/eth0/ecn",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dctcp\"\n[nic.dctcp]\ngain_1024ths = 1025\n[[workload]]",
        "line 17: nic.dctcp.gain_1024ths: 1025 is not from 1 to 1024\nhint: write a number of that range",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dctcp\"\n[nic.dctcp]\ngain = 64\n[[workload]]",
        "line 17: unknown key `gain`\nhint: did you mean `gain_1024ths`?",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dcqcn\"\n[nic.dctcp]\ngain_1024ths = 64\n[[workload]]",
        "line 16: nic.dctcp: nothing obeys these settings\nhint: add congestion = \"dctcp\" to the table that it is in",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"timely\"\n[nic.timely]\nt_low_us = 0\n[[workload]]",
        "line 17: nic.timely.t_low_us: 0 us is not from 1 to 1000000\nhint: the unit is microseconds",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"timely\"\n[nic.timely]\npatched = true\n[[workload]]",
        "line 17: nic.timely.patched: expected a whole number from 0 to 1, and found true\nhint: write a number of that range",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"swift\"\n[nic.swift]\nmax_mdf_1000ths = 1000\n[[workload]]",
        "line 17: nic.swift.max_mdf_1000ths: 1000 is not from 1 to 999\nhint: write a number of that range",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dctcp\"\n[nic.dctcp]\nmin_window_packets = 11\n[[workload]]",
        "line 17: nic.dctcp.min_window_packets: min_window_packets = 11 must be at most initial_window_packets = 10\nhint: lower min_window_packets or raise initial_window_packets: a flow begins with a window that it may have",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"timely\"\n[nic.timely]\nt_high_us = 40\n[[workload]]",
        "line 17: nic.timely.t_high_us: t_low_us = 50 must be at most t_high_us = 40\nhint: lower t_low_us or raise t_high_us: between the two the gradient decides",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"timely\"\n[nic.timely]\nmin_mbps = 40_001\n[[workload]]",
        "line 17: nic.timely.min_mbps: min_mbps = 40001 must be at most line_mbps = 40000\nhint: lower min_mbps or raise line_mbps: a flow begins at the line rate, which is that of its port",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"swift\"\n[nic.swift]\nfs_max_cwnd_packets = 1\nfs_min_cwnd_1000ths = 1000\n[[workload]]",
        "line 18: nic.swift.fs_min_cwnd_1000ths: fs_min_cwnd_1000ths = 1000 must be below fs_max_cwnd_packets = 1\nhint: lower fs_min_cwnd_1000ths or raise fs_max_cwnd_packets: the target falls from the one window to the other, and a packet is 1000 thousandths",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"swift\"\n[nic.swift]\nmin_cwnd_1000ths = 9001\nmax_cwnd_packets = 9\n[[workload]]",
        "line 17: nic.swift.min_cwnd_1000ths: min_cwnd_1000ths = 9001 must be at most max_cwnd_packets = 9\nhint: lower min_cwnd_1000ths or raise max_cwnd_packets: a packet is 1000 thousandths",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"swift\"\n[nic.swift]\nmin_cwnd_1000ths = 10001\n[[workload]]",
        "line 17: nic.swift.min_cwnd_1000ths: min_cwnd_1000ths = 10001 must be at most initial_window_packets = 10\nhint: lower min_cwnd_1000ths or raise initial_window_packets: a packet is 1000 thousandths",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"swift\"\n[nic.swift]\nmax_cwnd_packets = 9\n[[workload]]",
        "line 17: nic.swift.max_cwnd_packets: initial_window_packets = 10 must be at most max_cwnd_packets = 9\nhint: lower initial_window_packets or raise max_cwnd_packets: a flow begins with a window that it may have",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"dctcpp\"\n[[workload]]",
        "line 15: nic.congestion: there is no \"dctcpp\"\nhint: did you mean \"dctcp\"?",
    ),
    (
        "[[workload]]",
        "[nic]\n[nic.dcqcn]\nrpg_ai_rate = 5\n[[workload]]",
        "line 15: nic.dcqcn: nothing obeys these settings\nhint: add congestion = \"dcqcn\" to the table that it is in",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"hpcc\"\n[nic.hpcc]\neta_1000ths = 1001\n[[workload]]",
        "line 17: nic.hpcc.eta_1000ths: 1001 is not from 1 to 1000\nhint: write a number of that range",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"hpcc\"\n[nic.hpcc]\nt_us = 13\n[[workload]]",
        "line 17: unknown key `t_us`\nhint: did you mean `t_ns`?",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"swift\"\n[nic.hpcc]\nt_ns = 13_000\n[[workload]]",
        "line 16: nic.hpcc: nothing obeys these settings\nhint: add congestion = \"hpcc\" to the table that it is in",
    ),
    (
        "[[workload]]",
        "[nic]\ncongestion = \"hpcc\"\n[nic.hpcc]\nw_ai_bytes = 80\nt_ns = 1\n[[workload]]",
        "line 17: nic.hpcc.w_ai_bytes: w_ai_bytes = 80 must be at most the 5 bytes that the line sends in t_ns = 1 at 40000 Mb/s\nhint: lower w_ai_bytes or raise t_ns: a flow begins with a window that fills the line",
    ),
];
