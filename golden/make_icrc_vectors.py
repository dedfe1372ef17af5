#!/usr/bin/env python3
"""Writes icrc-scapy.txt: RoCEv2 frames whose ICRC was computed by Scapy.

    pip install scapy==2.8.0
    python3 golden/make_icrc_vectors.py > golden/icrc-scapy.txt

Scapy's `contrib.roce` is an ICRC that we did not write. The frames are the same at every run.
"""

import random

from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

# Length of the extended headers, and whether payload follows, by the opcode's low five bits.
CONNECTED = {
    0x00: (0, True), 0x01: (0, True), 0x02: (0, True), 0x03: (4, True),
    0x04: (0, True), 0x05: (4, True), 0x06: (16, True), 0x07: (0, True),
    0x08: (0, True), 0x09: (4, True), 0x0A: (16, True), 0x0B: (20, True),
}
RELIABLE = {
    0x0C: (16, False), 0x0D: (4, True), 0x0E: (0, True), 0x0F: (4, True),
    0x10: (4, True), 0x11: (4, False), 0x12: (12, False), 0x13: (28, False),
    0x14: (28, False), 0x16: (4, True), 0x17: (4, True),
}
UD = {0x04: (8, True), 0x05: (12, True)}
OPCODES = (
    [(low, *row) for low, row in sorted((CONNECTED | RELIABLE).items())]
    + [(0x20 | low, *row) for low, row in sorted(CONNECTED.items())]
    + [(0x60 | low, *row) for low, row in sorted(UD.items())]
)
LENGTHS = [0, 1, 2, 3, 4, 5, 63, 64, 255, 256, 1024]

chance = random.Random(4791)


def network(family):
    """Ethernet to UDP, with every field that the ICRC masks or covers varied."""
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    if chance.random() < 0.2:
        ether /= Dot1Q(vlan=chance.randrange(4096), prio=chance.randrange(8))
    port = chance.randrange(0xC000, 0x10000)
    if family == 4:
        ip = IP(
            src=f"10.77.{chance.randrange(256)}.{chance.randrange(1, 255)}",
            dst=f"10.78.{chance.randrange(256)}.{chance.randrange(1, 255)}",
            tos=chance.randrange(256),
            ttl=chance.randrange(1, 256),
            id=chance.choice([0, 1, 0x1234, chance.randrange(0x10000)]),
            flags=chance.choice(["DF", 0]),
        )
        return ether / ip / UDP(sport=port, dport=4791, chksum=0)
    ip = IPv6(
        src=f"fe80::{chance.randrange(1, 0x10000):x}",
        dst=f"2001:db8::{chance.randrange(1, 0x10000):x}",
        tc=chance.randrange(256),
        fl=chance.randrange(1 << 20),
        hlim=chance.randrange(1, 256),
    )
    return ether / ip / UDP(sport=port, dport=4791)


def frame(family, opcode, headers_len, length):
    headers = bytearray(chance.randbytes(headers_len))
    if opcode >> 5 == 3:
        headers[4] = 0  # reserved in DETH
    bth = BTH(
        opcode=opcode,
        solicited=chance.randrange(2),
        migreq=chance.randrange(2),
        padcount=-length % 4,
        pkey=0xFFFF,
        fecn=chance.randrange(2),
        becn=chance.randrange(2),
        dqpn=chance.randrange(1 << 24),
        ackreq=chance.randrange(2),
        psn=chance.randrange(1 << 24),
    )
    body = bytes(headers) + chance.randbytes(length) + bytes(-length % 4)
    return network(family) / bth / Raw(body)


def main():
    print("# Frames with Scapy's ICRC; written by make_icrc_vectors.py. Family, opcode, bytes.")
    for family in (4, 6):
        for index, (opcode, headers_len, payload) in enumerate(OPCODES):
            some = [LENGTHS[(index * 3 + step) % len(LENGTHS)] for step in range(2)]
            for length in some if payload else [0]:
                packet = frame(family, opcode, headers_len, length)
                print(f"v{family} {opcode:02x} {bytes(packet).hex()}")
        cnp = BTH(opcode=0x81, becn=1, pkey=0xFFFF, dqpn=chance.randrange(1 << 24)) / CNPPadding()
        print(f"v{family} 81 {bytes(network(family) / cnp).hex()}")


if __name__ == "__main__":
    main()
