"""Messages of two processes over rdma-core's own Python, with everything that arrives checked.

    ferroce run -- python3 pyverbs_messages.py PORT          # on one side
    ferroce run -- python3 pyverbs_messages.py PORT HOST     # on the other

The receiver sleeps on a completion channel between messages.
"""

import socket
import sys

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SGE, SendWR

try:
    from pyverbs.enums import (
        IBV_ACCESS_LOCAL_WRITE,
        IBV_QPT_RC,
        IBV_SEND_SIGNALED,
        IBV_WC_SUCCESS,
        IBV_WR_SEND,
    )
except ImportError:  # as in rdma-core 65
    from pyverbs import libibverbs_enums as enums

    IBV_ACCESS_LOCAL_WRITE = enums.ibv_access_flags.IBV_ACCESS_LOCAL_WRITE
    IBV_QPT_RC = enums.ibv_qp_type.IBV_QPT_RC
    IBV_SEND_SIGNALED = enums.ibv_send_flags.IBV_SEND_SIGNALED
    IBV_WC_SUCCESS = enums.ibv_wc_status.IBV_WC_SUCCESS
    IBV_WR_SEND = enums.ibv_wr_opcode.IBV_WR_SEND

SIZES = [1, 100, 4096, 4097, 65536, 1 << 20]
GID_INDEX = 1  # the IPv4 address
GID_BYTES = 16


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


def completion(channel, cq):
    """Sleeps until there is one."""
    while True:
        count, found = cq.poll()
        if count == 0:
            cq.req_notify()
            count, found = cq.poll()
        if count:
            assert found[0].status == IBV_WC_SUCCESS, found[0]
            return found[0]
        channel.get_cq_event(cq)
        cq.ack_events(1)


def main():
    port = int(sys.argv[1])
    host = sys.argv[2] if len(sys.argv) > 2 else None
    context = Context(name=get_device_list()[0].name.decode())
    pd, channel = PD(context), CompChannel(context)
    cq = CQ(context, 16, None, channel)
    mr = MR(pd, max(SIZES), IBV_ACCESS_LOCAL_WRITE)
    capacity = QPCap(max_send_wr=4, max_recv_wr=4)
    qp = QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=capacity))

    stream = meet(port, host)
    gid = bytes.fromhex(context.query_gid(1, GID_INDEX).gid.replace(":", ""))
    theirs = exchange(stream, gid + qp.qp_num.to_bytes(4, "big"))
    groups = [theirs[at : at + 2].hex() for at in range(0, GID_BYTES, 2)]
    route = GlobalRoute(dgid=GID(":".join(groups)), sgid_index=GID_INDEX)
    attributes = QPAttr(port_num=1)
    attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attributes.dest_qp_num = int.from_bytes(theirs[GID_BYTES:], "big")
    attributes.path_mtu = context.query_port(1).active_mtu
    attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 14, 7, 7
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
    qp.to_rts(attributes)

    for size in SIZES:
        pattern = bytes(at * 7 % 251 for at in range(size))
        sge = SGE(mr.buf, size, mr.lkey)
        if host is None:
            mr.write(bytes(size), size)
            qp.post_recv(RecvWR(wr_id=size, num_sge=1, sg=[sge]))
            exchange(stream, b".")
            received = completion(channel, cq)
            assert (received.wr_id, received.byte_len) == (size, size)
            assert mr.read(size, 0) == pattern, f"{size} bytes"
        else:
            exchange(stream, b".")
            mr.write(pattern, size)
            qp.post_send(
                SendWR(size, IBV_WR_SEND, num_sge=1, sg=[sge], send_flags=IBV_SEND_SIGNALED)
            )
            assert completion(channel, cq).wr_id == size
    exchange(stream, b".")
    print(f"{len(SIZES)} messages: all right")


main()
