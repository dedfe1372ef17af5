#!/usr/bin/env python3
"""Writes examples/cluster and examples/cluster-healthy: `python3 examples/make_cluster.py`.

Four racks of two hosts below a Clos of four ToRs, four leaves and four spines, in files as SONiC, mlnx_qos,
dcb, ethtool, lldpd and grep write them. cluster has five faults (FAULTS); of cluster-healthy only the devices
without faults are links into it.
"""

import json
import pathlib
import shutil

HERE = pathlib.Path(__file__).parent
PORTS = [f"Ethernet{number * 4}" for number in range(32)]
LOSSLESS = ("3", "4")


def links():
    """Switch port or host interface, and the same of the other end, with metres."""
    for tor in range(4):
        for host in range(2):
            yield f"h{tor * 2 + host}", "eth2", f"tor-{tor + 1}", PORTS[host], 5
        for leaf in range(2):
            number = tor // 2 * 2 + leaf
            yield f"tor-{tor + 1}", PORTS[28 + leaf], f"leaf-{number + 1}", PORTS[tor % 2], 40
    for leaf in range(4):
        for spine in range(4):
            yield f"leaf-{leaf + 1}", PORTS[28 + spine], f"spine-{spine + 1}", PORTS[leaf], 300


def neighbours(name):
    for a, port_a, b, port_b, metres in links():
        if a == name:
            yield port_a, b, port_b, metres
        if b == name:
            yield port_b, a, port_a, metres


def alias(port):
    return f"etp{PORTS.index(port) + 1}"


def mac(host):
    return f"b8:3f:d2:0a:1c:{int(host[1:]) * 4:02x}"


def config(name, faults):
    """A config_db.json, its tables in the order of the alphabet as SONiC saves them."""
    kind = {"t": "ToRRouter", "l": "LeafRouter", "s": "SpineRouter"}[name[0]]
    new = name == "tor-4"
    sku, platform = ("ACS-MSN3700", "x86_64-mlnx_msn3700-r0") if new else ("ACS-MSN2700", "x86_64-mlnx_msn2700-r0")
    own = {port: (peer, there, metres) for port, peer, there, metres in neighbours(name)}
    ports = sorted(own, key=PORTS.index)
    profile = lambda metres: f"pg_lossless_100000_{metres}m_profile"
    tables = {}
    tables["BUFFER_PG"] = {}
    for port in ports:
        metres = own[port][2]
        if "headroom" in faults and port == ports[-1]:
            metres = 5
        tables["BUFFER_PG"][f"{port}|0"] = {"profile": "ingress_lossy_profile"}
        tables["BUFFER_PG"][f"{port}|3-4"] = {"profile": profile(metres)}
    pool = 21_000_000 if new else 10_177_536
    tables["BUFFER_POOL"] = {
        "egress_lossless_pool": {"mode": "dynamic", "size": str(pool + 4_194_304), "type": "egress"},
        "egress_lossy_pool": {"mode": "dynamic", "size": str(pool), "type": "egress"},
        "ingress_lossless_pool": {"mode": "dynamic", "size": str(pool), "type": "ingress"},
    }
    alpha = "-6" if "alpha" in faults else "-4"
    tables["BUFFER_PROFILE"] = {
        "egress_lossless_profile": {"dynamic_th": "7", "pool": "egress_lossless_pool", "size": "0"},
        "egress_lossy_profile": {"dynamic_th": "3", "pool": "egress_lossy_pool", "size": "9216"},
        "ingress_lossy_profile": {"dynamic_th": "3", "pool": "ingress_lossless_pool", "size": "0"},
    }
    for metres, xoff in ((5, 38912), (40, 46080), (300, 101376)):
        if metres in {length for _, _, length in own.values()} or metres == 5:
            tables["BUFFER_PROFILE"][profile(metres)] = {
                "dynamic_th": alpha,
                "pool": "ingress_lossless_pool",
                "size": str(xoff + 19456),
                "xoff": str(xoff),
                "xon": "19456",
            }
    tables["BUFFER_QUEUE"] = {}
    for port in ports:
        for queues, of in (("0-2", "egress_lossy_profile"), ("3-4", "egress_lossless_profile"), ("5-6", "egress_lossy_profile")):
            tables["BUFFER_QUEUE"][f"{port}|{queues}"] = {"profile": of}
    tables["CABLE_LENGTH"] = {"AZURE": {port: f"{own[port][2] if port in own else 0}m" for port in PORTS}}
    tables["DEVICE_METADATA"] = {
        "localhost": {
            "buffer_model": "traditional",
            "default_bgp_status": "up",
            "hostname": name,
            "hwsku": sku,
            "mac": f"1c:34:da:1e:{ord(name[0]) & 63:02x}:{int(name[-1]) * 16:02x}",
            "platform": platform,
            "type": kind,
        }
    }
    tables["DEVICE_NEIGHBOR"] = {
        port: {"name": peer, "port": there} for port, (peer, there, _) in sorted(own.items())
    }
    classes = {dscp: "1" for dscp in range(64)} | {3: "3", 4: "4", 5: "2", 8: "0", 26: "3", 46: "5", 48: "6"}
    tables["DSCP_TO_TC_MAP"] = {"AZURE": {str(dscp): classes[dscp] for dscp in range(64)}}
    tables["FLEX_COUNTER_TABLE"] = {
        group: {"FLEX_COUNTER_STATUS": "enable"}
        for group in ("PFCWD", "PG_WATERMARK", "PORT", "QUEUE", "QUEUE_WATERMARK", "WRED_ECN_QUEUE")
    }
    tables["MAP_PFC_PRIORITY_TO_QUEUE"] = {"AZURE": {str(number): str(number) for number in range(8)}}
    tables["PFC_WD"] = {
        port: {"action": "drop", "detection_time": "200", "restoration_time": "200"} for port in ports
    }
    tables["PFC_WD"]["GLOBAL"] = {"POLL_INTERVAL": "400" if "poll" in faults else "200"}
    tables["PORT"] = {
        port: {
            "admin_status": "up" if port in own else "down",
            "alias": alias(port),
            "description": f"{own[port][0]}:{own[port][1]}" if port in own else alias(port),
            "fec": "rs",
            "index": str(number + 1),
            "lanes": ",".join(str(number * 4 + lane) for lane in range(4)),
            "mtu": "9100",
            "speed": "100000",
        }
        for number, port in enumerate(PORTS)
    }
    tables["PORT_QOS_MAP"] = {
        port: {
            "dscp_to_tc_map": "AZURE",
            "pfc_enable": "3,4",
            "pfc_to_queue_map": "AZURE",
            "pfcwd_sw_enable": "3,4",
            "tc_to_pg_map": "AZURE",
            "tc_to_queue_map": "AZURE",
        }
        for port in ports
    }
    tables["PORT_QOS_MAP"]["global"] = {"dscp_to_tc_map": "AZURE"}
    tables["QUEUE"] = {}
    for port in ports:
        for queue in range(7):
            of = {"scheduler": "scheduler.2" if queue == 6 else "scheduler.1" if str(queue) in LOSSLESS else "scheduler.0"}
            if str(queue) in LOSSLESS:
                of["wred_profile"] = "AZURE_LOSSLESS"
            tables["QUEUE"][f"{port}|{queue}"] = of
    tables["SCHEDULER"] = {
        "scheduler.0": {"type": "DWRR", "weight": "14"},
        "scheduler.1": {"type": "DWRR", "weight": "15"},
        "scheduler.2": {"type": "STRICT"},
    }
    groups = {"0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "0", "7": "7"}
    tables["TC_TO_PRIORITY_GROUP_MAP"] = {"AZURE": groups}
    tables["TC_TO_QUEUE_MAP"] = {"AZURE": {str(number): str(number) for number in range(8)}}
    if name[0] == "t":
        tables["VLAN"] = {"Vlan1000": {"vlanid": "1000"}}
        tables["VLAN_INTERFACE"] = {"Vlan1000": {}, f"Vlan1000|10.0.{name[-1]}.1/24": {}}
        tables["VLAN_MEMBER"] = {
            f"Vlan1000|{port}": {"tagging_mode": "untagged"} for port in ports if own[port][0][0] == "h"
        }
    marks = {"ecn": "ecn_all"}
    for colour in ("green", "red", "yellow"):
        marks |= {
            f"{colour}_drop_probability": "5",
            f"{colour}_max_threshold": "1500000",
            f"{colour}_min_threshold": "150000",
            f"wred_{colour}_enable": "true",
        }
    tables["WRED_PROFILE"] = {"AZURE_LOSSLESS": dict(sorted(marks.items()))}
    tables["VERSIONS"] = {"DATABASE": {"VERSION": "version_202305_01"}}
    return json.dumps(dict(sorted(tables.items())), indent=4) + "\n"


def lldp_table(name):
    rows = []
    for port, peer, there, _ in sorted(neighbours(name), key=lambda row: PORTS.index(row[0])):
        if peer[0] == "h":
            rows.append((port, peer, mac(peer), "R", there))
        else:
            rows.append((port, peer, alias(there), "BR", there))
    rows.append(("eth0", "mgmt-1", "Ethernet1/25", "BR", name))
    head = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(5)]
    line = lambda row: "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
    text = ["Capability codes: (R) Router, (B) Bridge, (O) Other", line(head), "  ".join("-" * width for width in widths)]
    text += [line(row) for row in rows]
    text += ["-" * 50, f"Total entries displayed:  {len(rows)}"]
    return "\n".join(text) + "\n"


def version(name):
    new = name == "tor-4"
    return (
        "\nSONiC Software Version: SONiC.202305.412310-3c5e6a1f2\nSONiC OS Version: 11\nDistribution: Debian 11.9\n"
        "Kernel: 5.10.0-23-2-amd64\nBuild commit: 3c5e6a1f2\n"
        f"Platform: x86_64-mlnx_msn{3700 if new else 2700}-r0\nHwSKU: ACS-MSN{3700 if new else 2700}\nASIC: mellanox\n"
    )


def mlnx_qos(faults):
    pcp = "trust" in faults
    text = f"DCBX mode: OS controlled\nPriority trust state: {'pcp' if pcp else 'dscp'}\n"
    if not pcp:
        text += "dscp2prio mapping:\n"
        for priority in range(8):
            dscps = "".join(f"{dscp:02}," for dscp in range(priority * 8 + 7, priority * 8 - 1, -1))
            text += f"\tprio:{priority} dscp:{dscps}\n"
    text += "default priority:\nReceive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016\nCable len: 7\n"
    text += "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
    text += "\tenabled     0   0   0   1   0   0   0   0   \n\tbuffer      0   0   0   1   0   0   0   0   \n"
    for tc in range(8):
        share = {0: "bw: 20%", 3: "bw: 80%"}.get(tc, "bw: 0%")
        tsa = "strict" if tc == 6 else f"ets, {share}"
        text += f"tc: {tc} ratelimit: unlimited, tsa: {tsa}\n\t priority:  {tc}\n"
    return text


def ethtool_s(number, faults):
    """Some of the 700 counters of mlx5."""
    busy = 0 if "trust" in faults else 3
    base = 41_000_000 + number * 1_731_557
    counters = {
        "rx_packets": base, "rx_bytes": base * 912, "tx_packets": base + 20_211, "tx_bytes": base * 911,
        "rx_out_of_buffer": 0, "rx_vport_rdma_unicast_packets": base // 2, "tx_vport_rdma_unicast_packets": base // 2,
        "rx_crc_errors_phy": 0, "rx_discards_phy": 0, "rx_symbol_err_phy": 0, "link_down_events_phy": 2,
        "rx_pcs_symbol_err_phy": 0, "tx_pause_storm_warning_events": 0, "tx_pause_storm_error_events": 0,
        "outbound_pci_stalled_rd": 0, "outbound_pci_stalled_wr": 0,
    }
    for priority in range(8):
        packets = base // 2 if priority == busy else 12_000 + number
        counters |= {f"rx_prio{priority}_bytes": packets * 1_024, f"rx_prio{priority}_packets": packets,
                     f"tx_prio{priority}_bytes": packets * 1_020, f"tx_prio{priority}_packets": packets}
        if priority == 3:
            counters |= {"rx_prio3_pause": 412 + number, "rx_prio3_pause_duration": 3_011, "tx_prio3_pause": 9,
                         "tx_prio3_pause_duration": 55, "rx_prio3_pause_transition": 201, "rx_prio3_discards": 0}
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in counters.items())


def sysfs(host):
    number = int(host[1:])
    rack = number // 2 + 1
    device, ports = "/sys/class/infiniband/mlx5_0", "/sys/class/infiniband/mlx5_0/ports/1"
    link_local = f"fe80:0000:0000:0000:ba3f:d2ff:fe0a:1c{number * 4:02x}"
    mapped = f"0000:0000:0000:0000:0000:ffff:0a00:{rack:02x}{number % 2 + 10:02x}"
    rows = [(f"{device}/fw_ver", "28.39.1002"), (f"{device}/tc/1/traffic_class", "Global tclass=106")]
    for index in range(6):
        value = (link_local, link_local, mapped, mapped)[index] if index < 4 else ":".join(["0000"] * 8)
        rows.append((f"{ports}/gids/{index}", value))
    for index in range(4):
        rows.append((f"{ports}/gid_attrs/types/{index}", "RoCE v2" if index % 2 else "IB/RoCE v1"))
    for index in range(4):
        rows.append((f"{ports}/gid_attrs/ndevs/{index}", "eth2"))
    net = "/sys/class/net/eth2"
    rows += [(f"{net}/mtu", "9000"), (f"{net}/address", mac(host)), (f"{net}/speed", "100000")]
    for role in ("roce_np", "roce_rp"):
        rows += [(f"{net}/ecn/{role}/enable/{priority}", "1") for priority in range(8)]
    rows += [(f"{net}/ecn/roce_np/cnp_dscp", "48"), (f"{net}/ecn/roce_np/cnp_802p_prio", "6")]
    return "".join(f"{path}:{value}\n" for path, value in rows)


def lldp_json(host):
    (_, peer, there, _), = neighbours(host)
    chassis = {
        "id": {"type": "mac", "value": f"1c:34:da:1e:34:{int(peer[-1]) * 16:02x}"},
        "descr": "SONiC Software Version: SONiC.202305.412310-3c5e6a1f2",
        "mgmt-ip": f"10.3.147.{int(peer[-1]) + 16}",
        "capability": [{"type": "Bridge", "enabled": True}, {"type": "Router", "enabled": True}],
    }
    port = {"id": {"type": "local", "value": alias(there)}, "descr": there, "ttl": "120"}
    about = {"via": "LLDP", "rid": "1", "age": "12 days, 04:11:09", "chassis": {peer: chassis}, "port": port}
    return json.dumps({"lldp": {"interface": {"eth2": about}}}, indent=2) + "\n"


def environment(host, faults):
    tc = "26" if "tc" in faults else "106"
    return (
        f"NCCL_DEBUG=WARN\nNCCL_IB_GID_INDEX=3\nNCCL_IB_HCA=mlx5_0\nNCCL_IB_QPS_PER_CONNECTION=4\nNCCL_IB_TC={tc}\n"
        "NCCL_IB_TIMEOUT=22\nNCCL_SOCKET_IFNAME=eth0\n"
    )


def device(name, faults):
    """Its files by name."""
    if name[0] != "h":
        files = {"config_db.json": config(name, faults), "lldp.txt": lldp_table(name), "version.txt": version(name)}
        if name == "tor-4":
            # Two days before, and the day after, somebody put the defaults of the new type in.
            files["history/2026-11-18.json"] = config(name, ())
            files["history/2026-11-21.json"] = config(name, faults)
        return files
    return {
        "mlnx_qos.eth2.txt": mlnx_qos(faults),
        "dcb-pfc.eth2.json": json.dumps(
            {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": [number == 3 for number in range(8)]},
            separators=(",", ":")) + "\n",
        "ethtool-S.eth2.txt": ethtool_s(int(name[1:]), faults),
        "ethtool-i.eth2.txt": "driver: mlx5_core\nversion: 23.10-1.1.9\nfirmware-version: 28.39.1002 (MT_0000000838)\n"
        "expansion-rom-version: \nbus-info: 0000:17:00.0\nsupports-statistics: yes\n",
        "sysfs.txt": sysfs(name),
        "lldp.json": lldp_json(name),
        "lldpad.txt": "inactive\n",
        "env.train.txt": environment(name, faults),
    }


DESIRED = """\
# What every device of the cluster should be. docs/book/doctor.md has every key.

[traffic]
data_dscp = [26]
cnp_dscp = 48

[roles.ToRRouter]
lossless_priorities = [3, 4]
dscp_to_class = { 26 = 3, 48 = 6 }
alpha = "1/16"
ecn_min_bytes = 150_000
ecn_max_bytes = 1_500_000
watchdog = "drop"
mtu_bytes = 9100

[roles.LeafRouter]
lossless_priorities = [3, 4]
alpha = "1/16"
watchdog = "drop"

[roles.SpineRouter]
lossless_priorities = [3, 4]
alpha = "1/16"
watchdog = "drop"

[roles.server]
devices = ["h*"]
trust = "dscp"
lossless_priorities = [3]
dscp_to_priority = { 26 = 3, 48 = 6 }
cnp_dscp = 48
notifies = true
mtu_bytes = 9000
"""

FAULTS = {
    "tor-4": ("alpha",),     # the incident of guo16, 6.2: a new type of ToR with 1/64 for 1/16
    "leaf-2": ("headroom",),  # a profile for 5 m on a cable of 300 m
    "tor-2": ("poll",),      # a watchdog that looks every 400 ms is to notice 200
    "h5": ("tc",),           # NCCL_IB_TC is the DSCP, and should be four times that
    "h6": ("trust",),        # a NIC that trusts PCP again after it was replaced
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main():
    switches = [f"{kind}-{number}" for kind in ("tor", "leaf", "spine") for number in range(1, 5)]
    sick, healthy = HERE / "cluster", HERE / "cluster-healthy"
    for folder in (sick, healthy):
        shutil.rmtree(folder, ignore_errors=True)
        write(folder, {"desired.toml": DESIRED})
    for name in switches + [f"h{number}" for number in range(8)]:
        write(sick / name, device(name, FAULTS.get(name, ())))
        if name in FAULTS:
            write(healthy / name, device(name, ()))
        else:
            (healthy / name).symlink_to(pathlib.Path("..") / "cluster" / name)


if __name__ == "__main__":
    main()
