#!/usr/bin/env python3
"""Writes corpus/wire from the golden files, and corpus/manager: `python3 fuzz/make_corpus.py`.

wire: the smallest frame of each opcode, whole and from its BTH on; a few of the headers below, and
captures. manager: conversations, step by step, and steps at random. Everything else in the folders stays.
"""

import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden"
CORPUS = HERE / "corpus" / "wire"
CONVERSATIONS = HERE / "corpus" / "manager"

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


def main():
    for folder, written in ((CORPUS, inputs()), (CONVERSATIONS, conversations())):
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in written:
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
