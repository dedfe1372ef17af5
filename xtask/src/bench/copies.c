/* The rate between two processes of a host with new data in each message, in Gb/s.
 *
 *   copies write BYTES   WRITEs over Ferroce
 *   copies read BYTES    the target reads the sender's memory (process_vm_readv) and nothing else: the
 *                        upper bound for a single copy
 *
 * The sender, on core 1, fills one of two buffers while the other is on its way to the target, on core
 * 0. A benchmark that sends the same bytes again and again has a single copy read them from the
 * target's own cache. */

#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../examples/c/peer.h"
#include "measure.h"

enum { BUFFERS = 2, BYTES_MAX = 1 << 20 };
static const size_t BYTES_OF_ALL = (size_t)4 << 30;

/* How many messages are ready to be read, and how many have been read. */
struct progress {
    _Alignas(64) atomic_size_t filled;
    _Alignas(64) atomic_size_t taken;
};

static _Alignas(4096) char memory[BUFFERS][BYTES_MAX];

static void write_message(struct end *end, size_t buffer, size_t bytes)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)memory[buffer], .length = (uint32_t)bytes, .lkey = end->mr->lkey
    };
    struct ibv_send_wr request = {
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &piece,
        .num_sge = 1,
        .wr.rdma = {
            .remote_addr = end->peer.target + buffer * BYTES_MAX, .rkey = end->peer.rkey
        },
    };
    struct ibv_send_wr *bad;

    require(ibv_post_send(end->qp, &request, &bad) == 0, "ibv_post_send");
}

static void send_by_writes(struct end *end, size_t messages, size_t bytes)
{
    for (size_t i = 0; i < messages + BUFFERS; i++) {
        if (i >= BUFFERS)
            require(wait_completion(end->cq).status == IBV_WC_SUCCESS, "a WRITE");
        if (i < messages) {
            memset(memory[i % BUFFERS], (int)i, bytes);
            write_message(end, i % BUFFERS, bytes);
        }
    }
}

static void let_read(struct progress *progress, size_t messages, size_t bytes)
{
    for (size_t i = 0; i < messages + BUFFERS; i++) {
        while (i >= BUFFERS && atomic_load(&progress->taken) <= i - BUFFERS)
            ;
        if (i < messages) {
            memset(memory[i % BUFFERS], (int)i, bytes);
            atomic_store(&progress->filled, i + 1);
        }
    }
}

static void read_all(struct progress *progress, pid_t sender, size_t messages, size_t bytes)
{
    for (size_t i = 0; i < messages; i++) {
        struct iovec here = { memory[i % BUFFERS], bytes };

        while (atomic_load(&progress->filled) <= i)
            ;
        /* After fork both have it at the same address. */
        require(process_vm_readv(sender, &here, 1, &here, 1, 0) == (ssize_t)bytes,
                "process_vm_readv");
        atomic_store(&progress->taken, i + 1);
    }
}

static void report(double start, size_t messages, size_t bytes)
{
    printf("%.3f\n", (double)(messages * bytes) * 8e-3 / (now_us() - start));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int writes = argc == 3 && strcmp(argv[1], "write") == 0;
    int reads = argc == 3 && strcmp(argv[1], "read") == 0;
    size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    struct progress *progress;
    int ends[2], status;
    size_t messages;
    pid_t sender;
    char over = 0;
    double start;

    require((writes || reads) && bytes > 0 && bytes <= BYTES_MAX, "usage: copies write|read BYTES");
    messages = BYTES_OF_ALL / bytes;
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    require(progress != MAP_FAILED, "mmap");
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    memset(memory, 0, sizeof memory);
    /* The target is the parent: some systems let only the parent read a process. */
    sender = fork();
    require(sender >= 0, "fork");
    pin(sender == 0 ? 1 : 0);
    if (reads && sender == 0) {
        start = now_us();
        let_read(progress, messages, bytes);
        report(start, messages, bytes);
    } else if (reads) {
        read_all(progress, sender, messages, bytes);
    } else {
        struct end end = connect_end(ends[sender == 0], memory, sizeof memory);

        if (sender == 0) {
            start = now_us();
            send_by_writes(&end, messages, bytes);
            report(start, messages, bytes);
            tell(ends[1], &over, 1);
        } else {
            hear(ends[0], &over, 1);
        }
    }
    if (sender == 0)
        return 0;
    require(waitpid(sender, &status, 0) == sender && status == 0, "the sender");
    return 0;
}
