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

enum { TIMEOUT = 14, RETRIES = 7 }; /* as connect_qp sets them */

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

    struct end end = connect_end(stream, memory, sizeof memory);
    if (child == 0) {
        for (;;)
            pause();
    }

    require(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child, "kill");
    struct ibv_sge sge = {(uintptr_t)memory, sizeof memory, end.mr->lkey};
    struct ibv_send_wr *bad, request = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = end.peer.target, .rkey = end.peer.rkey},
    };
    double start = seconds();
    for (request.wr_id = 1; request.wr_id <= 2; request.wr_id++)
        require(!ibv_post_send(end.qp, &request, &bad), "ibv_post_send");
    struct ibv_wc wc[2];
    for (int ended = 0; ended < 2; ended++)
        wc[ended] = wait_completion(end.cq);
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
