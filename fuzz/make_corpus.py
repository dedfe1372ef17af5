#!/usr/bin/env python3
"""Writes corpus/wire from the golden files, corpus/manager, corpus/fabric and corpus/doctor: `python3 fuzz/make_corpus.py`.

wire: the smallest frame of each opcode, whole and from its BTH on; a few of the headers below, and
captures. manager: conversations, step by step, and steps at random. fabric: scenarios, behind a NUL the
file that one names, and SONiC configurations of two ports. doctor: files of examples/cluster, each by itself and as a
folder of two hosts below a switch. Everything else in the folders stays.
"""

import json
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden"
CORPUS = HERE / "corpus" / "wire"
CONVERSATIONS = HERE / "corpus" / "manager"
SCENARIOS = HERE.parent / "scenarios"
SETTINGS = HERE / "corpus" / "fabric"
CLUSTER = HERE.parent / "examples" / "cluster-healthy"
FOLDERS = HERE / "corpus" / "doctor"

# Steps of `transport::testing::fuzz::manager`: what, to whom or which.
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP = range(9)
LISTEN, CONNECT, ASK = bytes([2, 4]), bytes([3, 1, 9, 18]), bytes([4, 1])
ACCEPT, ANSWER, REJECT, CONFIRM, FORGET = (bytes([what, 0]) for what in range(5, 10))


def captured():
    """The RoCE frames of the Soft-RoCE capture."""
    data = (GOLDEN / "rxe-pair.pcap").read_bytes()
    at = 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7":
            yield frame


def vectors():
    """Family, and the frame without VLAN tag."""
    for line in (GOLDEN / "icrc-scapy.txt").read_text().splitlines():
        if not line.startswith("#"):
            family, _, frame = line.split()
            frame = bytes.fromhex(frame)
            if frame[12:14] != b"\x81\x00":
                yield family, frame


def bth_at(frame):
    return 42 if frame[12:14] == b"\x08\x00" else 62


def smallest(frames):
    by_opcode = {}
    for frame in frames:
        opcode = frame[bth_at(frame)]
        if opcode not in by_opcode or len(frame) < len(by_opcode[opcode]):
            by_opcode[opcode] = frame
    return sorted(by_opcode.items())


def block(kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def pcapng(frame):
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack("<HH4sHHB3xHHqHH", 2, 4, b"eth0", 9, 1, 9, 14, 8, 1, 0, 0)
    interface = block(1, struct.pack("<HHI", 1, 0, 0) + options)
    padded = frame + bytes(-len(frame) % 4)
    flags = struct.pack("<HHIHH", 2, 4, 1, 0, 0)
    packet = struct.pack("<IIIII", 0, 1, 7, len(frame), len(frame)) + padded + flags
    return section + interface + block(6, packet)


def pcap(order, magic, frame):
    header = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 0xFFFF, 1)
    return header + struct.pack(order + "IIII", 1_700_000_000, 5, len(frame), len(frame)) + frame


def inputs():
    for opcode, frame in smallest(captured()):
        yield f"rxe-{opcode:02x}", frame
    for family in ("v4", "v6"):
        for opcode, frame in smallest(frame for name, frame in vectors() if name == family):
            if family == "v6":
                yield f"v6-{opcode:02x}", frame
            else:
                yield f"bth-{opcode:02x}", frame[bth_at(frame) : -4]
    for frame in captured():
        # Connection management: UD SEND to QP1, behind BTH and DETH, in front of the ICRC.
        if frame[42] == 0x64 and frame[47:50] == b"\0\0\1":
            mad = frame[62:-4]
            yield f"cm-{mad[17]:02x}", mad
            # Nobody was late or refused in the capture: as an RTU, these are MRA and REJ.
            for other in (0x11, 0x12):
                yield f"cm-{other:02x}", mad[:17] + bytes([other]) + mad[18:]
    frame = next(frame for name, frame in vectors() if name == "v4")
    yield "ipv4", frame[14:]
    yield "udp", frame[34:]
    yield "ipv6", next(frame for name, frame in vectors() if name == "v6")[14:]
    yield "vlan", frame[:12] + bytes.fromhex("81006064") + frame[12:]
    ethernet = bytes.fromhex("0180c2000001 020000000001 8808")
    yield "pause", bytes.fromhex("0001ffff")
    yield "pause-frame", ethernet + bytes.fromhex("0001ffff") + bytes(42)
    yield "pfc", bytes.fromhex("01010018") + bytes(6) + bytes.fromhex("ffff0000") + bytes(6)
    yield "pfc-frame", ethernet + bytes.fromhex("010100ff") + bytes(range(16)) + bytes(26)
    yield "arp", bytes.fromhex(
        "0001080006040002 020000000001 0a4d0001 020000000002 0a4d0002"
    )
    yield "pcap-little-nanoseconds", pcap("<", 0xA1B23C4D, frame)
    yield "pcap-big-microseconds", pcap(">", 0xA1B2C3D4, frame)
    yield "pcapng", pcapng(frame)


def message(kind, *changes):
    """A message of host 1, whose number is 1, about our first conversation."""
    return bytes([11, 1, kind, 1, 1, 0, len(changes) // 2, *changes])


def wait(tenths):
    return bytes([1, tenths])


def conversations():
    asked, datagram = LISTEN + message(REQ), LISTEN + message(SIDR_REQ)
    accepted = asked + ACCEPT
    replied = CONNECT + message(REP)
    scenes = {
        "asked-nobody-listens": message(REQ),
        "asked-twice": asked + message(REQ),
        "accepted": accepted + message(RTU),
        "accepted-and-left": accepted + message(RTU) + message(DREQ),
        "accepted-rtu-lost": accepted + wait(20) + message(MRA, 8, 64) + wait(200),
        "accepted-rtu-never": accepted + wait(255) * 2,
        "rejected": asked + REJECT + message(REQ) + wait(255),
        "listener-gone": asked + LISTEN + ACCEPT,
        "forgotten-before-accept": asked + FORGET + ACCEPT,
        "connected": replied + CONFIRM,
        "connected-and-over": replied + CONFIRM + CONFIRM + message(DREP) + wait(255),
        "connected-both-leave": replied + CONFIRM + CONFIRM + message(DREQ),
        "reply-twice": replied + CONFIRM + message(REP),
        "reply-refused": replied + REJECT,
        "refused-service": CONNECT + message(REJ, 3, 8) + wait(1) + message(REP),
        "refused": CONNECT + message(REJ, 3, 28),
        "unreachable": CONNECT + wait(255),
        "excused": CONNECT + message(MRA, 0, 0, 1, 200) + wait(255),
        "datagram": datagram + ANSWER,
        "datagram-twice": datagram + ANSWER + message(SIDR_REQ) + wait(255),
        "datagram-forgotten": datagram + FORGET,
        "question": ASK + message(SIDR_REP),
        "question-unanswered": ASK + wait(255),
        "echo": CONNECT + bytes([10, 0, 1]) + LISTEN + bytes([10, 0, 1]),
        "bytes": bytes([0, 40]) + bytes(range(40)),
    }
    for name, steps in scenes.items():
        yield name, bytes([7]) + steps
    chance = random.Random(1)
    for number in range(20):
        yield f"steps-{number:02}", chance.randbytes(120)


def two_ports(path):
    """A configuration of as many ports as a small scenario has links."""
    tables = json.loads(path.read_text())
    for entries in tables.values():
        for key in list(entries):
            ports = [part for part in key.replace("|", ",").split(",") if part.startswith("Ethernet")]
            if any(port not in ("Ethernet0", "Ethernet4") for port in ports):
                del entries[key]
        lengths = entries.get("AZURE")
        if lengths and "Ethernet0" in lengths:
            entries["AZURE"] = {port: lengths[port] for port in ("Ethernet0", "Ethernet4")}
    return json.dumps(tables, indent=1)


SMALL = """end_ms = 1
[topology]
shape = "single-switch"
hosts = 2
rate_gbps = 40
"""
LINKS = """end_ms = 1
[topology]
shape = "links"
rate_gbps = 40
switch = [{ name = "s0", tier = 0 }, { name = "s1", tier = 1 }]
host = ["h0", "h1"]
link = [{ from = "h0", to = "s0" }, { from = "s0", to = "s1", rate_gbps = 100, cable_m = 300 }, { from = "h1", to = "s1" }]
route = [{ at = "s0", to = "s1", via = ["s1"] }]
"""
SHAPES = {
    "back-to-back": "",
    "leaf-spine": "leaves = 2\nspines = 2\nhosts = 2\nuplink_rate_gbps = 100\nuplink_cable_m = 50\n",
    "clos": "podsets = 2\ntors = 2\nleaves = 2\nspines = 4\nhosts = 2\nspine_cable_m = 300\n",
    "fat-tree": "k = 4\n",
    "parking-lot": "switches = 3\n",
}
SWITCHES = """[switch]
trust = "pcp"
server_ports = "trunk"
lossless_priorities = [3, 4]
threshold_bytes = 50_000
reserve_bytes = 2_000
headroom_pool_bytes = 100_000
weights = [1, 2, 3, 4, 5, 6, 7, 8]
strict_queues = [7]
balance = "flowlet"
flowlet_gap_us = 50
incomplete_arp = "drop"
ecn = { min_bytes = 5_000, max_bytes = 200_000, max_probability = 0.01, queues = [3] }
watchdog = { rule = "mellanox", action = "alert", poll_ms = 1, detection_ms = 2, restoration_ms = 2 }
[switches.s0]
alpha = "1/64"
[nic]
mtu_bytes = 4096
recovery = "selective-repeat"
congestion = "dcqcn"
host_memory = { page_bytes = 4096, mtt_entries = 2048 }
[nics.h1]
watchdog_ms = 100
"""
FAULTS = """[[fault]]
kind = "drop"
from = "h0"
to = "s0"
ip_id_ends = 255
[[fault]]
kind = "link-down"
at_us = 5
from = "s0"
to = "h1"
[[fault]]
kind = "host-dies"
host = "h1"
mac_aged = true
"""
WORKLOADS = {
    "flow": 'from = "h0"\nto = "h1"\nmessage_bytes = 5\nverb = "send"\nreply_bytes = 7\ndepth = 3\n',
    "permutation": "message_bytes = 4096\nendless = true\n",
    "incast": 'receiver = "h1"\nmessage_bytes = 70_000\nqueue_pairs = 2\ndscp = 26\n',
    "all-to-all": "message_bytes = 1\nmessages = 3\nstart_us = 1.5\n",
    "ring": 'message_bytes = 1\nverb = "read"\nspread_bytes = 1_000_000\n',
    "collective": 'operation = "all-reduce"\nalgorithm = "tree"\nbytes = 90_000\nchunk_bytes = 9_000\nchannels = 2\n'
    'repeat = 2\ncompute_us = 3\n',
    "poisson": 'load = 0.01\nuntil_us = 20\ndistribution = "memcached"\n',
}
GOAL = "num_ranks 2\nrank 0 {\na: calc 9 cpu 1\nb: send 9b to 1 tag 2 nic 1\nb requires a\n}\n" \
    "rank 1 {\na: recv 9b from 0 tag 2 // so\nb: calc 0\nb irequires a /* and */\n}\n"


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(number, kind, requires, **attributes):
    """A node of a Chakra trace, after those that it requires."""
    attributes = [field(10, field(1, name.encode()) + field(13, value)) for name, value in attributes.items()]
    return field(1, number) + field(3, kind) + field(5, bytes(requires)) + field(7, 2) + b"".join(attributes)


def trace(*nodes):
    return b"".join(varint(len(message)) + message for message in (field(1, b"0.0.4"), *nodes))


# Both ranks have the same trace.
CHAKRA = trace(
    node(1, 4, [], is_cpu_op=1),
    node(2, 7, [1], comm_type=0, comm_size=9_000),
    node(3, 7, [2], comm_type=6, comm_size=70),
    node(4, 4, [1, 3]),
)
# A folder of files of mlx5, in both layouts.
MLX5 = "folder\nmlx5/roce_rp/rpg_ai_rate 5\nmlx5/roce_rp/dce_tcp_g 1019\nmlx5/rate_to_set_on_first_cnp 0\n" \
    "mlx5/min_time_between_cnps 4\n"
SIZES = "bytes,cumulative\n100,0.5\n3000,1\n"
TRACE = "# one\nstart_us,source,destination,bytes,dscp,verb\n0.5,h0,h1,300,4,send\n7,h1,h0,0,3,read\n"


def settings():
    tables = {name: two_ports(SCENARIOS / "sonic" / f"{name}.json") for name in ("td3-tor", "spectrum-tor")}
    for name, text in tables.items():
        yield f"{name}.json", text
        yield f"{name}.toml", f'{SMALL}[switch]\nconfig_db = "{name}.json"\nalpha = "1/8"\n\0{text}'
    yield "links.toml", LINKS
    yield "switches.toml", SMALL + SWITCHES
    yield "faults.toml", SMALL + FAULTS
    for shape, keys in SHAPES.items():
        yield f"{shape}.toml", f'end_ms = 1\n[topology]\nshape = "{shape}"\nrate_gbps = 40\ncable_m = 3\n{keys}'
    for kind, keys in WORKLOADS.items():
        yield f"{kind}.toml", f'{SMALL}[[workload]]\nkind = "{kind}"\n{keys}'
    poisson = '[[workload]]\nkind = "poisson"\nload = 0.01\nuntil_us = 9\n'
    yield "sizes.toml", f'{SMALL}{poisson}sizes = [[1_000, 0.5], [9_000, 1.0]]\n'
    yield "sizes-file.toml", f'{SMALL}{poisson}distribution_file = "sizes.csv"\n\0{SIZES}'
    yield "goal.toml", f'{SMALL}[[workload]]\nkind = "goal"\nfile = "two.goal"\nrepeat = 2\n\0{GOAL}'
    dcqcn = '[nic]\ncongestion = "dcqcn"\ndcqcn = { preset = "connectx", folder = "mlx5" }\n'
    yield "mlx5.toml", f"{SMALL}{dcqcn}\0{MLX5}"
    spray = '[switch]\nbalance = "packet"\n[nic]\nrecovery = "selective-repeat"\novertaken_wait_us = 5\nout_of_order_packets = 9\n'
    yield "spray.toml", f"{SMALL}{spray}"
    yield "trace.toml", f'{SMALL}[[workload]]\nkind = "trace"\ntrace_file = "trace.csv"\n\0{TRACE}'


def folder(*paths):
    """Files of the example, as one input: a path, a NUL, what is in it, a NUL, ..."""
    parts = []
    for path in paths:
        of = CLUSTER / path
        text = two_ports(of) if of.name == "config_db.json" else of.read_text()
        parts += [path, text]
    return "\0".join(parts)


def folders():
    of_host = sorted(path.name for path in (CLUSTER / "h0").iterdir() if path.is_file())
    for name in of_host:
        yield name, folder(f"h0/{name}")
    switch = ["tor-1/config_db.json", "tor-1/lldp.txt", "tor-1/version.txt"]
    yield "config_db.json", folder(switch[0])
    yield "version.txt", folder(switch[0], switch[2])
    yield "lldp.txt", folder(switch[0], switch[1])
    yield "desired.toml", folder("desired.toml")
    hosts = [f"{host}/{name}" for host in ("h0", "h1") for name in of_host]
    yield "rack", folder("desired.toml", *switch, *hosts)
    unwatched = folder(switch[0]).replace("PFC_WD", "PFC_XX")
    yield "mutes", unwatched + '\0doctor.toml\0[[mute]]\nrule = "FD009"\ndevices = ["t*"]\nuntil = "2027-01-31"\nreason = "known"\n'
    yield "queue-pairs", "h0/qp.train.txt\0qpn=0x11 min_rnr_timer=0 rnr_retry=7\n"
    fact = "/sys/class/net/eth2/ecn/roce_np/enable/3"
    yield "tree", f"h0{fact}\0001\n\0h0/sys/class/infiniband/mlx5_0/tc/1/traffic_class\0Global tclass=106\n"
    yield "history", "tor-1/history/2026-11-18.json\0" + two_ports(CLUSTER / "tor-1" / "config_db.json") + "\0" + folder(*switch)


def main():
    texts = [(name, text.encode()) for name, text in settings()]
    chakra = f'{SMALL}[[workload]]\nkind = "chakra"\nprefix = "two"\nchunk_bytes = 999\n\0'
    texts.append(("chakra", chakra.encode() + CHAKRA))
    for folder, written in ((CORPUS, inputs()), (CONVERSATIONS, conversations()), (SETTINGS, texts), (FOLDERS, [(name, text.encode()) for name, text in folders()])):
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in written:
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
