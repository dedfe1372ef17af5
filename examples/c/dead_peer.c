/* What a program sees when its peer is killed: the local ACK timeout, retried as often as the
 * attributes say, and then IBV_WC_RETRY_EXC_ERR; what was posted behind it is flushed.
 *
 *     dead_peer
 *
 * Both sides are processes of this program. The one is killed with SIGKILL while connected. */

#include "peer.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GID_INDEX = 1, TIMEOUT = 14, RETRIES = 7 }; /* as connect_qp sets them */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void)
{
    static char memory[64];
    int streams[2];
    require(!socketpair(AF_UNIX, SOCK_STREAM, 0, streams), "socketpair");
    /* Before the device is opened: it belongs to the process that opens it. */
    pid_t child = fork();
    require(child >= 0, "fork");
    int stream = streams[child == 0];

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
        .cap = {.max_send_wr = 2, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1},
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
    if (child == 0) {
        for (;;)
            pause();
    }

    require(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child, "kill");
    struct ibv_sge sge = {(uintptr_t)memory, sizeof memory, mr->lkey};
    struct ibv_send_wr *bad, request = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = theirs.target, .rkey = theirs.rkey},
    };
    double start = seconds();
    for (request.wr_id = 1; request.wr_id <= 2; request.wr_id++)
        require(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
    struct ibv_wc wc[2] = {0};
    for (int ended = 0; ended < 2;) {
        int polled = ibv_poll_cq(cq, 2 - ended, wc + ended);
        require(polled >= 0, "ibv_poll_cq");
        ended += polled;
    }
    double took = seconds() - start;

    /* IBTA vol 1, 9.7.6.1.3: each timeout lasts 4.096 us x 2^timeout, and at most four times that. */
    double expected = (RETRIES + 1) * 4.096e-6 * (1 << TIMEOUT);
    printf("status %d after %.2f s (the attributes say %.2f to %.2f s), then status %d\n",
           wc[0].status, took, expected, 4 * expected, wc[1].status);
    int right = wc[0].wr_id == 1 && wc[0].status == IBV_WC_RETRY_EXC_ERR && wc[1].wr_id == 2
                && wc[1].status == IBV_WC_WR_FLUSH_ERR && took >= expected && took <= 4 * expected;
    printf("%s\n", right ? "as promised" : "a broken promise");
    return !right;
}
