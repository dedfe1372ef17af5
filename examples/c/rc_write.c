/* The smallest RDMA program: one side writes a sentence into the other's memory.
 *
 *     rc_write                  on one side
 *     rc_write HOST             on the other
 *
 * The side that is written to makes no call for it: it watches its memory. */

#include "peer.h"

#include <stdio.h>
#include <string.h>

static const char PORT[] = "18516";
static const int GID_INDEX = 1; /* RoCE v2 over IPv4 */

int main(int argc, char **argv)
{
    static char memory[64];
    const char *host = argc > 1 ? argv[1] : NULL;
    int stream = host ? connect_to_peer(host, PORT) : listen_for_peer(PORT);

    struct ibv_context *context = open_device(NULL);
    struct ibv_port_attr port;
    require(!ibv_query_port(context, 1, &port), "ibv_query_port");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    require(pd != NULL, "ibv_alloc_pd");
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    require(mr != NULL, "ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    require(cq != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    require(qp != NULL, "ibv_create_qp");

    struct address ours = {.qpn = {qp->qp_num}, .rkey = mr->rkey, .target = (uintptr_t)memory};
    require(!ibv_query_gid(context, 1, GID_INDEX, &ours.gid), "ibv_query_gid");
    struct address theirs = exchange(stream, &ours);
    connect_qp(qp, &theirs.gid, theirs.qpn[0], GID_INDEX, port.active_mtu);
    char ready = 1;
    tell(stream, &ready, 1);
    hear(stream, &ready, 1);

    if (host) {
        strcpy(memory, "Hello from the other side.");
        struct ibv_sge sge = {(uintptr_t)memory, sizeof memory, mr->lkey};
        struct ibv_send_wr *bad, request = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = theirs.target, .rkey = theirs.rkey},
        };
        require(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
        struct ibv_wc wc = {0};
        while (ibv_poll_cq(cq, 1, &wc) == 0)
            ;
        printf("written: %s\n", ibv_wc_status_str(wc.status));
        tell(stream, &ready, 1);
        hear(stream, &ready, 1);
        return wc.status != IBV_WC_SUCCESS;
    }
    while (!*(volatile char *)&memory[0])
        ;
    hear(stream, &ready, 1);
    printf("%s\n", memory);
    tell(stream, &ready, 1);
    return 0;
}
