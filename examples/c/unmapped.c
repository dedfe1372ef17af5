/* What both sides see when memory goes while it is registered: an error completion, and never the
 * end of the program. Hardware pins the memory and goes on; the soft NIC has no pins, and says so.
 *
 *     unmapped
 *
 * Both sides are processes of this program, with a connection of their own for each case. */

#define _GNU_SOURCE /* memfd_create */
#include "peer.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 1 << 16 };

/* Memory that will go, one way or another. It lies between pages that nobody may touch: where it was,
 * there is then no room for the next mapping of this process, which may be one of the NIC's rings. The
 * soft NIC knows addresses and not pages, and would write there. */
struct memory {
    int file;
    char *bytes;
};

static struct memory map(void)
{
    struct memory memory = {.file = memfd_create("unmapped", 0)};
    require(memory.file >= 0 && !ftruncate(memory.file, LENGTH), "memfd_create");
    char *yard = mmap(NULL, 3 * LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(yard != MAP_FAILED, "mmap");
    memory.bytes = mmap(yard + LENGTH, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        memory.file, 0);
    require(memory.bytes != MAP_FAILED, "mmap");
    return memory;
}

static void unmap(struct memory memory) { require(!munmap(memory.bytes, LENGTH), "munmap"); }

static void protect(struct memory memory)
{
    require(!mprotect(memory.bytes, LENGTH, PROT_READ), "mprotect");
}

static void truncate_file(struct memory memory)
{
    require(!ftruncate(memory.file, 0), "ftruncate");
}

enum side { OURS, THEIRS };

/* Who loses memory, and what each side then sees. The asking side asks; the other only has
 * memory, and a receive of all of it. */
static const struct test {
    const char *name;
    void (*lose)(struct memory);
    enum side loser;
    enum ibv_wr_opcode opcode;
    enum ibv_wc_status asker_sees;
    enum ibv_wc_status other_sees;      /* of its receive */
    enum ibv_event_type other_is_told;  /* in the end, if anything */
} TESTS[] = {
    {"WRITE to memory unmapped", unmap, THEIRS, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"READ of memory unmapped", unmap, THEIRS, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"atomic on memory unmapped", unmap, THEIRS, IBV_WR_ATOMIC_FETCH_AND_ADD,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"SEND to a receive unmapped", unmap, THEIRS, IBV_WR_SEND, IBV_WC_REM_OP_ERR,
     IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL},
    {"WRITE to memory made read-only", protect, THEIRS, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"atomic on memory made read-only", protect, THEIRS, IBV_WR_ATOMIC_CMP_AND_SWP,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE to a file made shorter", truncate_file, THEIRS, IBV_WR_RDMA_WRITE,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"READ of a file made shorter", truncate_file, THEIRS, IBV_WR_RDMA_READ,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"SEND from memory unmapped", unmap, OURS, IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, 0, 0},
    {"WRITE from a file made shorter", truncate_file, OURS, IBV_WR_RDMA_WRITE,
     IBV_WC_LOC_PROT_ERR, 0, 0},
    {"READ to memory made read-only", protect, OURS, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR, 0, 0},
};

enum { COUNT = sizeof TESTS / sizeof *TESTS };

static void meet(int stream)
{
    char here = 1;
    tell(stream, &here, 1);
    hear(stream, &here, 1);
}

static int seen(const char *who, const char *name, int saw, int promised)
{
    if (saw != promised)
        printf("%s: %s: %d, not %d\n", name, who, saw, promised);
    return saw == promised;
}

/* Whether the asking side sees what is promised. */
static int ask(int stream, const struct test *test)
{
    struct memory memory = map();
    struct end end = connect_end(stream, memory.bytes, LENGTH);
    if (test->loser == OURS)
        test->lose(memory);
    meet(stream);
    int is_atomic = test->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
                    || test->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    struct ibv_sge sge = {(uintptr_t)memory.bytes, is_atomic ? 8 : LENGTH, end.mr->lkey};
    struct ibv_send_wr *bad, request = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = test->opcode,
        .send_flags = IBV_SEND_SIGNALED,
    };
    if (is_atomic) {
        request.wr.atomic.remote_addr = end.peer.target;
        request.wr.atomic.rkey = end.peer.rkey;
    } else {
        request.wr.rdma.remote_addr = end.peer.target;
        request.wr.rdma.rkey = end.peer.rkey;
    }
    require(!ibv_post_send(end.qp, &request, &bad), "ibv_post_send");
    struct ibv_wc wc = wait_completion(end.cq);
    meet(stream);
    return seen("the asking side", test->name, wc.status, test->asker_sees);
}

/* Whether the other side sees what is promised. */
static int answer(int stream, const struct test *test)
{
    struct memory memory = map();
    struct end end = connect_end(stream, memory.bytes, LENGTH);
    struct ibv_sge sge = {(uintptr_t)memory.bytes, LENGTH, end.mr->lkey};
    struct ibv_recv_wr *bad, receive = {.sg_list = &sge, .num_sge = 1};
    require(!ibv_post_recv(end.qp, &receive, &bad), "ibv_post_recv");
    if (test->loser == THEIRS)
        test->lose(memory);
    meet(stream);
    meet(stream);
    if (test->loser == OURS)
        return 1;
    struct ibv_async_event event;
    int fine = seen("the other side", test->name, wait_completion(end.cq).status, test->other_sees);
    require(!ibv_get_async_event(end.context, &event), "ibv_get_async_event");
    fine &= seen("the other side is told", test->name, event.event_type, test->other_is_told);
    fine &= event.element.qp == end.qp;
    ibv_ack_async_event(&event);
    return fine;
}

int main(void)
{
    int streams[2], right = 0, status;
    require(!socketpair(AF_UNIX, SOCK_STREAM, 0, streams), "socketpair");
    /* Before the device is opened: it belongs to the process that opens it. */
    pid_t child = fork();
    require(child >= 0, "fork");
    for (int test = 0; test < COUNT; test++)
        right += child ? ask(streams[0], &TESTS[test]) : answer(streams[1], &TESTS[test]);
    if (child == 0)
        return right != COUNT;
    require(waitpid(child, &status, 0) == child, "waitpid");
    int all = right == COUNT && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%d of %d losses of memory as promised here, and %s\n", right, COUNT,
           all ? "all at both sides" : "not all there");
    return !all;
}
