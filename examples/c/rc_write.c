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

int main(int argc, char **argv)
{
    static char memory[64];
    const char *host = argc > 1 ? argv[1] : NULL;
    int stream = host ? connect_to_peer(host, PORT) : listen_for_peer(PORT);

    struct end end = connect_end(stream, memory, sizeof memory);
    char done = 1;

    if (host) {
        strcpy(memory, "Hello from the other side.");
        struct ibv_sge sge = {(uintptr_t)memory, sizeof memory, end.mr->lkey};
        struct ibv_send_wr *bad, request = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = end.peer.target, .rkey = end.peer.rkey},
        };
        require(!ibv_post_send(end.qp, &request, &bad), "ibv_post_send");
        struct ibv_wc wc = wait_completion(end.cq);
        printf("written: %s\n", ibv_wc_status_str(wc.status));
        /* The other side waits for a sentence that will not come, until the stream ends. */
        if (wc.status != IBV_WC_SUCCESS)
            return 1;
        tell(stream, &done, 1);
        hear(stream, &done, 1);
        return 0;
    }
    while (!*(volatile char *)&memory[0])
        require(is_there(stream), "the other side ended and wrote nothing");
    hear(stream, &done, 1);
    printf("%s\n", memory);
    tell(stream, &done, 1);
    return 0;
}
