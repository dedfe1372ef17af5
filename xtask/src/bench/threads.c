/* The rate of several threads of one process, or the cost of a device that is not used.
 *
 *   threads COUNT   COUNT threads WRITE 4 KiB each into the memory of another process, every thread
 *                   over a queue pair and a completion queue of its own; prints Gb/s of all
 *   threads idle    two connected processes sleep; prints the percentage of a core that one takes */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../examples/c/peer.h"

enum { THREADS_MAX = 8, BYTES = 4096, DEPTH = 16, MESSAGES = 120000, IDLE_SECONDS = 3 };

struct worker {
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct address peer;
    int messages;
};

static char memory[BYTES];

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void post(struct worker *worker)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)memory, .length = BYTES, .lkey = worker->mr->lkey
    };
    struct ibv_send_wr request = {
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &piece,
        .num_sge = 1,
        .wr.rdma = { .remote_addr = worker->peer.target, .rkey = worker->peer.rkey },
    };
    struct ibv_send_wr *bad;

    require(ibv_post_send(worker->qp, &request, &bad) == 0, "ibv_post_send");
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct ibv_wc completions[DEPTH];
    int posted = 0, done = 0, i, found;

    while (posted < DEPTH && posted < worker->messages)
        post(worker), posted++;
    while (done < worker->messages) {
        found = ibv_poll_cq(worker->cq, DEPTH, completions);
        require(found >= 0, "ibv_poll_cq");
        for (i = 0; i < found; i++) {
            require(completions[i].status == IBV_WC_SUCCESS, "a WRITE");
            done++;
            if (posted < worker->messages)
                post(worker), posted++;
        }
    }
    return NULL;
}

/* Connects `count` queue pairs over `stream`. */
static void connect_workers(int stream, struct worker *workers, int count)
{
    struct ibv_context *context = open_device(NULL);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct address ours = { .target = (uintptr_t)memory };
    char ready = 1;
    int i;

    require(pd && mr, "domain and memory");
    ours.rkey = mr->rkey;
    require(ibv_query_gid(context, 1, GID_INDEX, &ours.gid) == 0, "ibv_query_gid");
    for (i = 0; i < count; i++) {
        struct worker *worker = &workers[i];
        struct ibv_qp_init_attr attributes = {
            .qp_type = IBV_QPT_RC,
            .cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
        };

        worker->mr = mr;
        worker->cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
        require(worker->cq != NULL, "ibv_create_cq");
        attributes.send_cq = attributes.recv_cq = worker->cq;
        worker->qp = ibv_create_qp(pd, &attributes);
        require(worker->qp != NULL, "ibv_create_qp");
        ours.qpn[0] = worker->qp->qp_num;
        worker->peer = exchange(stream, &ours);
        connect_qp(worker->qp, &worker->peer.gid, worker->peer.qpn[0], GID_INDEX, IBV_MTU_4096);
    }
    /* Begin when both are ready. */
    tell(stream, &ready, 1);
    hear(stream, &ready, 1);
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    int idle = argc == 2 && strcmp(argv[1], "idle") == 0;
    int count = idle ? 1 : argc == 2 ? atoi(argv[1]) : 0;
    int ends[2], i;
    char over = 0;
    double start;
    pid_t child;

    require(count >= 1 && count <= THREADS_MAX, "usage: threads COUNT|idle; the count");
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        close(ends[0]);
        connect_workers(ends[1], workers, count);
        hear(ends[1], &over, 1);
        return 0;
    }
    close(ends[1]);
    connect_workers(ends[0], workers, count);
    if (idle) {
        start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        sleep(IDLE_SECONDS);
        printf("%.4f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - start) * 100 / IDLE_SECONDS);
    } else {
        start = seconds(CLOCK_MONOTONIC);
        for (i = 0; i < count; i++) {
            workers[i].messages = MESSAGES / count;
            require(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "pthread_create");
        }
        for (i = 0; i < count; i++)
            require(pthread_join(threads[i], NULL) == 0, "pthread_join");
        printf("%.4f\n", (double)(MESSAGES / count * count) * BYTES * 8e-9 /
                             (seconds(CLOCK_MONOTONIC) - start));
    }
    tell(ends[0], &over, 1);
    return 0;
}
