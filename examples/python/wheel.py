"""Two processes over the package `ibverbs` of PyPI, with everything that arrives checked.

    pip install ibverbs
    ferroce run -- python3 wheel.py PORT          # on one side
    ferroce run -- python3 wheel.py PORT HOST     # on the other
"""

import ctypes
import socket
import sys
import time

import ibverbs as ib

SIZE = 1 << 20
GID_INDEX = 1  # the IPv4 address
ACCESS = (
    ib.AccessFlags.LOCAL_WRITE
    | ib.AccessFlags.REMOTE_WRITE
    | ib.AccessFlags.REMOTE_READ
    | ib.AccessFlags.REMOTE_ATOMIC
)


def meet(port, host):
    """A TCP connection to the peer."""
    if host is None:
        with socket.create_server(("", port)) as listener:
            return listener.accept()[0]
    return socket.create_connection((host, port))


def exchange(stream, data):
    """Sends `data`, and returns as many bytes of the peer's."""
    stream.sendall(data)
    received = b""
    while len(received) < len(data):
        more = stream.recv(len(data) - len(received))
        if not more:
            sys.exit("the peer is gone")
        received += more
    return received


def completion(cq):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for wc in cq.poll(1):
            wc.raise_for_status()
            return wc
    sys.exit("no completion within 20 s")


def main():
    port = int(sys.argv[1])
    host = sys.argv[2] if len(sys.argv) > 2 else None
    memory = ctypes.create_string_buffer(SIZE)
    address = ctypes.addressof(memory)

    context = ib.get_device_list()[0].open()
    pd, cq = context.alloc_pd(), context.create_cq(64)
    mr = pd.reg_mr(address, SIZE, ACCESS)
    qp = pd.create_qp(ib.QPInitAttr(send_cq=cq, recv_cq=cq, qp_type=ib.QPType.RC))

    stream = meet(port, host)
    ours = ib.local_qp_info(qp, context.query_port(1), context.query_gid(1, GID_INDEX), port=1)
    theirs = exchange(
        stream, ours.to_bytes() + address.to_bytes(8, "big") + mr.rkey.to_bytes(4, "big")
    )
    peer = ib.QPInfo.from_bytes(theirs[:-12])
    target, rkey = int.from_bytes(theirs[-12:-4], "big"), int.from_bytes(theirs[-4:], "big")
    ib.connect_rc(qp, peer, port=1, sgid_index=GID_INDEX, access=ACCESS)

    def request(opcode, length=SIZE, **more):
        qp.post_send(
            ib.SendWR(
                wr_id=1,
                sg_list=[ib.SGE(mr, length)],
                opcode=opcode,
                send_flags=ib.SendFlags.SIGNALED,
                **more,
            )
        )
        return completion(cq)

    def turn():
        exchange(stream, b".")

    pattern = bytes(at * 7 % 251 for at in range(SIZE))
    if host is None:
        qp.post_recv(ib.RecvWR(wr_id=2, sg_list=[ib.SGE(mr, SIZE)]))
        turn()
        received = completion(cq)
        assert (received.byte_len, memory.raw) == (SIZE, pattern), "SEND"
        ctypes.memset(address, 0, SIZE)
        turn()
        turn()
        assert memory.raw == pattern, "WRITE"
        memory.raw = pattern[::-1]
        turn()
        turn()
        assert int.from_bytes(memory.raw[:8], sys.byteorder) == 42, "FETCH AND ADD"
        turn()
    else:
        memory.raw = pattern
        turn()
        request(ib.WROpcode.SEND)
        turn()
        request(ib.WROpcode.RDMA_WRITE, remote_addr=target, rkey=rkey)
        turn()
        turn()
        request(ib.WROpcode.RDMA_READ, remote_addr=target, rkey=rkey)
        assert memory.raw == pattern[::-1], "READ"
        memory.raw = bytes(SIZE)
        request(ib.WROpcode.RDMA_WRITE, 8, remote_addr=target, rkey=rkey)
        for before in (0, 21):
            request(
                ib.WROpcode.ATOMIC_FETCH_AND_ADD,
                8,
                remote_addr=target,
                rkey=rkey,
                compare_add=21,
            )
            assert int.from_bytes(memory.raw[:8], sys.byteorder) == before, "FETCH AND ADD"
        turn()
        turn()
    print("ibverbs", ib.__version__, "SEND, WRITE, READ and FETCH AND ADD: all right")


main()
