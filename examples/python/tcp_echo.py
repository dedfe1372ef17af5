"""A TCP program that knows nothing of RDMA: a server that echoes, and a client that checks.

    python3 tcp_echo.py PORT ADDRESS server
    python3 tcp_echo.py PORT ADDRESS

Under `ferroce run`, with LD_PRELOAD=.../librspreload.so for the program, its bytes go over RDMA.
"""

import select
import socket
import sys

CHUNKS = [1, 100, 4_096, 70_000, 300_001]
ROUNDS = 20


def pattern(length: int, seed: int) -> bytes:
    return bytes((at * 7 + seed) & 0xFF for at in range(251)) * (length // 251) + bytes(length % 251)


def serve(port: int, address: str) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(4)
    client, peer = listener.accept()
    assert peer[0] == address, peer
    echoed = 0
    while data := client.recv(65_536):
        client.sendall(data)
        echoed += len(data)
    client.close()
    listener.close()
    print(f"{echoed} bytes echoed")


def ask(port: int, address: str) -> None:
    server = socket.create_connection((address, port))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    total = 0
    for round in range(ROUNDS):
        for length in CHUNKS:
            sent = pattern(length, round)
            back = bytearray()
            # Both directions at once, as far as neither is full.
            left = memoryview(sent)
            while len(back) < length:
                wanted = [server] if left else []
                reads, writes, _ = select.select([server], wanted, [], 10)
                assert reads or writes, "nothing for ten seconds"
                if writes:
                    try:
                        left = left[server.send(left[:16_384], socket.MSG_DONTWAIT) :]
                    except BlockingIOError:
                        pass
                if reads:
                    data = server.recv(65_536)
                    assert data, "the server has closed"
                    back += data
            assert back == sent, f"round {round}: {length} bytes came back changed"
            total += length
    server.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    server.close()
    print(f"{total} bytes: all right")


if __name__ == "__main__":
    words = sys.argv[1:]
    role = serve if "server" in words else ask
    role(int(words[0]), words[1])
