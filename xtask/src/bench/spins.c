/* What a WRITE of eight bytes takes into the memory of a program that spins on it, in us.
 *
 *   spins median|mean
 *
 * The target, on core 0, never calls the library: it waits for its memory to change, so its NIC's
 * progress thread has to take the processor from it. The requester, on core 1, polls for the completion
 * and spins for a while between one WRITE and the next, so that thread sleeps each time. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../examples/c/peer.h"
#include "measure.h"

enum { TURNS = 10000, GAP_US = 100 };

static uint64_t memory[2];
static double times[TURNS];

/* Waits for the last of the numbers that are written. */
static void be_target(int stream)
{
    volatile uint64_t *number = &memory[0];
    char over;

    pin(0);
    connect_end(stream, memory, sizeof memory);
    while (*number != TURNS)
        ;
    hear(stream, &over, 1);
}

static double write_number(struct end *end, uint64_t number)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)&memory[1], .length = sizeof memory[1], .lkey = end->mr->lkey
    };
    struct ibv_send_wr request = {
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &piece,
        .num_sge = 1,
        .wr.rdma = { .remote_addr = end->peer.target, .rkey = end->peer.rkey },
    };
    struct ibv_send_wr *bad;
    double start = now_us();

    memory[1] = number;
    require(ibv_post_send(end->qp, &request, &bad) == 0, "ibv_post_send");
    require(wait_completion(end->cq).status == IBV_WC_SUCCESS, "a WRITE");
    return now_us() - start;
}

int main(int argc, char **argv)
{
    int is_mean = argc == 2 && strcmp(argv[1], "mean") == 0;
    double sum = 0, next;
    struct end end;
    int ends[2];
    char over = 0;
    pid_t child;

    require(is_mean || (argc == 2 && strcmp(argv[1], "median") == 0), "usage: spins median|mean");
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        close(ends[0]);
        be_target(ends[1]);
        return 0;
    }
    close(ends[1]);
    pin(1);
    end = connect_end(ends[0], memory, sizeof memory);
    for (int turn = 0; turn < TURNS; turn++) {
        times[turn] = write_number(&end, (uint64_t)turn + 1);
        sum += times[turn];
        next = now_us() + GAP_US;
        while (now_us() < next)
            ;
    }
    tell(ends[0], &over, 1);
    printf("%.3f\n", is_mean ? sum / TURNS : median(times, TURNS));
    return 0;
}
