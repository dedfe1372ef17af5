#!/usr/bin/env python3
"""Writes corpus/wire from the golden files: `python3 fuzz/make_corpus.py`.

The smallest frame of each opcode, whole and from its BTH on; a few of the headers below, and
captures. Everything else in the folder stays.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden"
CORPUS = HERE / "corpus" / "wire"


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


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, data in inputs():
        (CORPUS / name).write_bytes(data)


if __name__ == "__main__":
    main()
