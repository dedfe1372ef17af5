/* Does every byte arrive, and where it should? Every verb of RC, UC and UD, with sizes around each
 * limit, gathered and scattered, inline, with immediate data, polled for and waited for.
 *
 *     integrity [-d DEVICE] [-g GID_INDEX]                  two processes, one host
 *     integrity [-d ..] [-g ..] -l PORT                     the serving side
 *     integrity [-d ..] [-g ..] -c HOST -p PORT             the asking side
 *
 * Exit status 0: every byte was right. 1: some was not, or a call failed; each failure is named.
 *
 * Both sides run through the same list of cases. In each, the client acts on the server's memory or
 * sends to it, the side that has received checks every byte and the guards around them, and both
 * agree on the verdict. RC must deliver. UC and UD may lose a message, which is then sent again;
 * what they deliver must be right. */

#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LENGTH_MAX = 8 << 20,
    UNRELIABLE_MAX = 128 << 10, /* a longer message is all too likely to lose a packet */
    GUARD = 64,
    GRH = 40,
    ROOM = GUARD + GRH + LENGTH_MAX + GUARD,
    PIECES = 4,
    ATTEMPTS = 20,
    LIST = 32,
    UNTOUCHED = 0xee,
    Q_KEY = 0x11111111,
};

enum transport { RC, UC, UD, TRANSPORTS };
static const enum ibv_qp_type TYPES[TRANSPORTS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
static const char *const NAMES[TRANSPORTS] = {"RC", "UC", "UD"};

/* How a case is done, beyond its verb and length. */
enum { SCATTERED = 1, INLINE = 2, WAITING = 4, WAYS = 8 };

struct side {
    int is_server;
    int stream;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp[TRANSPORTS];
    struct ibv_ah *ah;
    struct ibv_mr *mr_source, *mr_target;
    unsigned char *source, *target; /* ROOM bytes each */
    struct address peer;
    uint32_t mtu, inline_max;
    unsigned failures, cases, repeated;
};

struct test {
    enum transport transport;
    enum ibv_wr_opcode verb;
    uint32_t length;
    int way;
    unsigned seed;
};

static int has_immediate(enum ibv_wr_opcode verb)
{
    return verb == IBV_WR_SEND_WITH_IMM || verb == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static int is_send(enum ibv_wr_opcode verb)
{
    return verb == IBV_WR_SEND || verb == IBV_WR_SEND_WITH_IMM;
}

static int takes_receive(enum ibv_wr_opcode verb)
{
    return is_send(verb) || has_immediate(verb);
}

static const char *verb_name(enum ibv_wr_opcode verb)
{
    switch (verb) {
    case IBV_WR_SEND: return "SEND";
    case IBV_WR_SEND_WITH_IMM: return "SEND with immediate";
    case IBV_WR_RDMA_WRITE: return "WRITE";
    case IBV_WR_RDMA_WRITE_WITH_IMM: return "WRITE with immediate";
    case IBV_WR_RDMA_READ: return "READ";
    default: return "atomic";
    }
}

static void fail(struct side *side, const struct test *test, const char *what)
{
    side->failures++;
    printf("FAILED (%s) %s %s, %u bytes%s%s%s: %s\n", side->is_server ? "server" : "client",
           NAMES[test->transport], verb_name(test->verb), test->length,
           test->way & SCATTERED ? ", scattered" : "", test->way & INLINE ? ", inline" : "",
           test->way & WAITING ? ", by event" : "", what);
}

/* Byte `at` of the message of case `seed`: no period that a packet size is a multiple of. */
static unsigned char pattern(unsigned seed, size_t at)
{
    uint32_t mixed = (uint32_t)(at * 2654435761u) ^ (seed * 40503u + 77u);
    return (unsigned char)(mixed >> 13 ^ mixed >> 5 ^ at);
}

static void fill(unsigned char *bytes, unsigned seed, size_t length)
{
    for (size_t at = 0; at < length; at++)
        bytes[at] = pattern(seed, at);
}

/* The first byte that is not as it should be, or -1. */
static long first_difference(const unsigned char *bytes, unsigned seed, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != pattern(seed, at))
            return (long)at;
    return -1;
}

static int is_untouched(const unsigned char *bytes, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != UNTOUCHED)
            return 0;
    return 1;
}

/* Where the message begins in a buffer: after the guard, and room for the header of a datagram. */
static unsigned char *message(unsigned char *buffer)
{
    return buffer + GUARD + GRH;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Takes one completion, by polling or by waiting for its event. Returns 0 if `seconds` pass. */
static int take_completion(struct side *side, int waiting, double seconds, struct ibv_wc *wc)
{
    double end = now() + seconds;
    do {
        int count = ibv_poll_cq(side->cq, 1, wc);
        require(count >= 0, "ibv_poll_cq");
        if (count == 0 && waiting) {
            require(!ibv_req_notify_cq(side->cq, 0), "ibv_req_notify_cq");
            /* One may have come before the queue was armed. */
            count = ibv_poll_cq(side->cq, 1, wc);
        }
        if (count > 0)
            return 1;
        if (waiting) {
            struct pollfd descriptor = {.fd = side->channel->fd, .events = POLLIN};
            if (poll(&descriptor, 1, 100) == 1) {
                struct ibv_cq *cq;
                void *context;
                require(!ibv_get_cq_event(side->channel, &cq, &context), "ibv_get_cq_event");
                require(cq == side->cq && context == side, "the event of another queue");
                ibv_ack_cq_events(cq, 1);
            }
        }
    } while (now() < end);
    return 0;
}

/* Cuts a message into pieces of different lengths, one of them empty; whole if not SCATTERED. */
static int cut(const struct test *test, unsigned char *bytes, uint32_t lkey, struct ibv_sge *sges)
{
    uint32_t length = test->length;
    if (length == 0 && !(test->way & SCATTERED))
        return 0;
    if (!(test->way & SCATTERED)) {
        sges[0] = (struct ibv_sge){(uintptr_t)bytes, length, lkey};
        return 1;
    }
    uint32_t lengths[PIECES] = {length / 3, 0, length / 5, 0};
    lengths[3] = length - lengths[0] - lengths[2];
    for (int piece = 0; piece < PIECES; piece++) {
        sges[piece] = (struct ibv_sge){(uintptr_t)bytes, lengths[piece], lkey};
        bytes += lengths[piece];
    }
    return PIECES;
}

static void post_receive(struct side *side, const struct test *test)
{
    struct ibv_sge sges[PIECES + 1];
    int first = 0;
    if (test->transport == UD) {
        sges[0] = (struct ibv_sge){(uintptr_t)(message(side->target) - GRH), GRH,
                                   side->mr_target->lkey};
        first = 1;
    }
    /* A WRITE with immediate data takes a receive, but nothing is stored through it. */
    int count = is_send(test->verb)
                    ? cut(test, message(side->target), side->mr_target->lkey, sges + first)
                    : 0;
    struct ibv_recv_wr *bad, request = {
        .wr_id = test->seed, .sg_list = sges, .num_sge = first + count};
    require(!ibv_post_recv(side->qp[test->transport], &request, &bad), "ibv_post_recv");
}

static void post_request(struct side *side, const struct test *test)
{
    struct ibv_sge sges[PIECES];
    int reads = test->verb == IBV_WR_RDMA_READ;
    unsigned char *local = message(reads ? side->target : side->source);
    uint32_t lkey = reads ? side->mr_target->lkey : side->mr_source->lkey;
    struct ibv_send_wr *bad, request = {
        .wr_id = test->seed,
        .sg_list = sges,
        .num_sge = cut(test, local, test->way & INLINE ? 0 : lkey, sges),
        .opcode = test->verb,
        .send_flags = IBV_SEND_SIGNALED | (test->way & INLINE ? IBV_SEND_INLINE : 0),
    };
    if (has_immediate(test->verb))
        request.imm_data = htobe32(test->seed);
    if (!is_send(test->verb)) {
        request.wr.rdma.remote_addr = side->peer.target + GUARD + GRH;
        request.wr.rdma.rkey = side->peer.rkey;
    } else if (test->transport == UD) {
        request.wr.ud.ah = side->ah;
        request.wr.ud.remote_qpn = side->peer.qpn[UD];
        request.wr.ud.remote_qkey = Q_KEY;
    }
    require(!ibv_post_send(side->qp[test->transport], &request, &bad), "ibv_post_send");
    if (test->way & INLINE) /* the data was taken: what becomes of the buffer is our business */
        memset(local, 0, test->length);
}

/* Checks what the message looks like at the side that has it. */
static void check_target(struct side *side, const struct test *test)
{
    char what[96];
    unsigned char *bytes = message(side->target);
    long at = first_difference(bytes, test->seed, test->length);
    if (at >= 0) {
        snprintf(what, sizeof what, "byte %ld is %#x, not %#x", at, bytes[at],
                 pattern(test->seed, (size_t)at));
        fail(side, test, what);
    }
    size_t before = test->transport == UD ? GUARD : GUARD + GRH;
    if (!is_untouched(side->target, before) || !is_untouched(bytes + test->length, GUARD))
        fail(side, test, "bytes around the message were written");
}

static void check_receive(struct side *side, const struct test *test, const struct ibv_wc *wc)
{
    uint32_t expected = test->length + (test->transport == UD ? GRH : 0);
    enum ibv_wc_opcode opcode =
        is_send(test->verb) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    if (wc->status != IBV_WC_SUCCESS) {
        fail(side, test, ibv_wc_status_str(wc->status));
        return;
    }
    if (wc->byte_len != expected)
        fail(side, test, "the receive completion has another length");
    if (wc->opcode != opcode || wc->qp_num != side->qp[test->transport]->qp_num)
        fail(side, test, "the receive completion has another opcode or queue pair");
    if (!(wc->wc_flags & IBV_WC_WITH_IMM) != !has_immediate(test->verb))
        fail(side, test, "immediate data where there is none, or none where there is");
    else if (has_immediate(test->verb) && be32toh(wc->imm_data) != test->seed)
        fail(side, test, "other immediate data");
    if (test->transport == UD
        && (!(wc->wc_flags & IBV_WC_GRH) || wc->src_qp != side->peer.qpn[UD]))
        fail(side, test, "no GRH, or another sender");
}

/* What an unreliable WRITE leaves can only be watched. */
static int wait_for_bytes(struct side *side, const struct test *test)
{
    double end = now() + 0.5;
    do {
        if (first_difference(message(side->target), test->seed, test->length) < 0)
            return 1;
    } while (now() < end);
    return 0;
}

/* The server's part of one case. */
static void serve(struct side *side, const struct test *test)
{
    char arrived, word = 0;
    struct ibv_wc wc;
    memset(side->target, UNTOUCHED, GUARD + GRH + test->length + GUARD);
    if (test->verb == IBV_WR_RDMA_READ)
        fill(message(side->target), test->seed, test->length);
    if (takes_receive(test->verb))
        post_receive(side, test);
    tell(side->stream, &word, 1); /* ready */
    do {
        hear(side->stream, &word, 1); /* sent */
        if (takes_receive(test->verb)) {
            double seconds = test->transport == RC ? 20 : 0.5;
            arrived = (char)take_completion(side, test->way & WAITING, seconds, &wc);
            if (arrived)
                check_receive(side, test, &wc);
        } else {
            arrived = (char)(test->transport == RC || wait_for_bytes(side, test));
        }
        tell(side->stream, &arrived, 1);
        hear(side->stream, &word, 1); /* whether the client gives up or tries again */
    } while (word);
    if (!arrived)
        fail(side, test, "nothing arrived");
    else
        check_target(side, test);
}

/* The client's part of one case. */
static void ask(struct side *side, const struct test *test)
{
    char arrived, word = 0;
    struct ibv_wc wc;
    memset(side->target, UNTOUCHED, GUARD + GRH + test->length + GUARD);
    hear(side->stream, &word, 1); /* ready */
    for (int attempt = 1;; attempt++) {
        fill(message(side->source), test->seed, test->length);
        post_request(side, test);
        if (!take_completion(side, test->way & WAITING, 20, &wc))
            fail(side, test, "the request does not complete");
        else if (wc.status != IBV_WC_SUCCESS)
            fail(side, test, ibv_wc_status_str(wc.status));
        else if (wc.wr_id != test->seed)
            fail(side, test, "the completion of another request");
        tell(side->stream, &word, 1); /* sent */
        hear(side->stream, &arrived, 1);
        char again = !arrived && test->transport != RC && attempt < ATTEMPTS;
        side->repeated += (unsigned)again;
        tell(side->stream, &again, 1);
        if (!again)
            break;
    }
    if (test->verb == IBV_WR_RDMA_READ)
        check_target(side, test);
}

static void run(struct side *side, const struct test *test)
{
    side->cases++;
    if (side->is_server)
        serve(side, test);
    else
        ask(side, test);
}

/* Both sides must have got so far before either goes on. */
static void meet(struct side *side)
{
    char word = 0;
    tell(side->stream, &word, 1);
    hear(side->stream, &word, 1);
}

/* Fetch and add, then compare and swap that fits and that does not. */
static void run_atomics(struct side *side)
{
    struct test test = {.transport = RC, .verb = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 8};
    uint64_t *word = (uint64_t *)(void *)(side->target + 128), got;
    const struct { enum ibv_wr_opcode verb; uint64_t compare_add, swap, before, after; } steps[] = {
        {IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, UINT64_MAX - 2, 2},
        {IBV_WR_ATOMIC_CMP_AND_SWP, 2, 0x1122334455667788, 2, 0x1122334455667788},
        {IBV_WR_ATOMIC_CMP_AND_SWP, 1, 9, 0x1122334455667788, 0x1122334455667788},
    };
    *word = steps[0].before;
    meet(side);
    for (size_t at = 0; at < sizeof steps / sizeof *steps; at++) {
        side->cases++;
        if (!side->is_server) {
            struct ibv_wc wc = {0};
            struct ibv_sge sge = {(uintptr_t)side->source, 8, side->mr_source->lkey};
            struct ibv_send_wr *bad, request = {
                .sg_list = &sge,
                .num_sge = 1,
                .opcode = steps[at].verb,
                .send_flags = IBV_SEND_SIGNALED,
                .wr.atomic = {
                    .remote_addr = side->peer.target + 128,
                    .rkey = side->peer.rkey,
                    .compare_add = steps[at].compare_add,
                    .swap = steps[at].swap,
                },
            };
            require(!ibv_post_send(side->qp[RC], &request, &bad), "ibv_post_send");
            if (!take_completion(side, 0, 20, &wc) || wc.status != IBV_WC_SUCCESS)
                fail(side, &test, ibv_wc_status_str(wc.status));
            memcpy(&got, side->source, 8);
            if (got != steps[at].before)
                fail(side, &test, "another word came back");
        }
        meet(side);
        if (side->is_server && *(volatile uint64_t *)word != steps[at].after)
            fail(side, &test, "another word was left");
        meet(side);
    }
}

/* Both sides at once post a list of WRITEs with one completion at its end. */
static void run_lists(struct side *side)
{
    enum { EACH = 50021 };
    struct test test = {RC, IBV_WR_RDMA_WRITE, LIST * EACH, 0, 4711};
    struct ibv_sge sges[LIST];
    struct ibv_send_wr *bad, requests[LIST];
    struct ibv_wc wc = {0};
    side->cases++;
    memset(side->target, UNTOUCHED, ROOM);
    fill(message(side->source), test.seed, test.length);
    meet(side);
    for (int at = 0; at < LIST; at++) {
        sges[at] = (struct ibv_sge){(uintptr_t)(message(side->source) + at * EACH), EACH,
                                    side->mr_source->lkey};
        requests[at] = (struct ibv_send_wr){
            .wr_id = (uint64_t)at,
            .next = at + 1 < LIST ? &requests[at + 1] : NULL,
            .sg_list = &sges[at],
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = at + 1 < LIST ? 0 : IBV_SEND_SIGNALED,
            .wr.rdma = {
                .remote_addr = side->peer.target + GUARD + GRH + (uint64_t)at * EACH,
                .rkey = side->peer.rkey,
            },
        };
    }
    require(!ibv_post_send(side->qp[RC], requests, &bad), "ibv_post_send");
    if (!take_completion(side, 0, 20, &wc) || wc.status != IBV_WC_SUCCESS || wc.wr_id != LIST - 1)
        fail(side, &test, "the list does not complete as one");
    meet(side);
    check_target(side, &test);
}

static void run_all(struct side *side)
{
    static const enum ibv_wr_opcode verbs[] = {
        IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ,
    };
    static const int verb_counts[TRANSPORTS] = {5, 4, 2};
    uint32_t mtu = side->mtu;
    const uint32_t lengths[] = {
        0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 511, 512, 513, mtu - 1, mtu, mtu + 1, 2 * mtu - 1,
        2 * mtu, 2 * mtu + 1, 16 * mtu, 16 * mtu + 1, 65535, 65536, 65537, UNRELIABLE_MAX - 3,
        (1 << 20) + 3, LENGTH_MAX,
    };
    unsigned seed = 1;
    for (enum transport transport = RC; transport < TRANSPORTS; transport++) {
        uint32_t most = transport == RC ? LENGTH_MAX : transport == UC ? UNRELIABLE_MAX : mtu;
        for (int verb = 0; verb < verb_counts[transport]; verb++) {
            for (size_t length = 0; length < sizeof lengths / sizeof *lengths; length++) {
                for (int way = 0; way < WAYS; way++) {
                    struct test test = {transport, verbs[verb], lengths[length], way, seed};
                    int fits = !(way & INLINE)
                               || (test.length <= side->inline_max
                                   && test.verb != IBV_WR_RDMA_READ);
                    if (test.length > most || !fits)
                        continue;
                    run(side, &test);
                    seed++;
                }
            }
        }
    }
    run_atomics(side);
    run_lists(side);
}

/* Both sides must take the same cases: they agree on the smaller of each limit. */
static uint32_t agree(struct side *side, uint32_t ours)
{
    uint32_t theirs;
    tell(side->stream, &ours, sizeof ours);
    hear(side->stream, &theirs, sizeof theirs);
    return ours < theirs ? ours : theirs;
}

static void set_up(struct side *side, const char *device, int gid_index)
{
    struct ibv_port_attr port;
    struct address ours = {0};
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
                 | IBV_ACCESS_REMOTE_ATOMIC;
    side->context = open_device(device);
    require(!ibv_query_port(side->context, 1, &port), "ibv_query_port");
    require(!ibv_query_gid(side->context, 1, gid_index, &ours.gid), "ibv_query_gid");
    require((side->pd = ibv_alloc_pd(side->context)) != NULL, "ibv_alloc_pd");
    require(!posix_memalign((void **)&side->source, 4096, ROOM), "memory");
    require(!posix_memalign((void **)&side->target, 4096, ROOM), "memory");
    memset(side->source, 0, ROOM);
    memset(side->target, UNTOUCHED, ROOM);
    side->mr_source = ibv_reg_mr(side->pd, side->source, ROOM, IBV_ACCESS_LOCAL_WRITE);
    side->mr_target = ibv_reg_mr(side->pd, side->target, ROOM, rights);
    require(side->mr_source && side->mr_target, "ibv_reg_mr");
    require((side->channel = ibv_create_comp_channel(side->context)) != NULL, "channel");
    side->cq = ibv_create_cq(side->context, 256, side, side->channel, 0);
    require(side->cq != NULL, "ibv_create_cq");
    side->inline_max = 256;
    for (enum transport transport = RC; transport < TRANSPORTS; transport++) {
        struct ibv_qp_init_attr init = {
            .qp_type = TYPES[transport],
            .send_cq = side->cq,
            .recv_cq = side->cq,
            .cap = {
                .max_send_wr = 64,
                .max_recv_wr = 64,
                .max_send_sge = PIECES,
                .max_recv_sge = PIECES + 1,
                .max_inline_data = side->inline_max,
            },
        };
        side->qp[transport] = ibv_create_qp(side->pd, &init);
        require(side->qp[transport] != NULL, "ibv_create_qp");
        ours.qpn[transport] = side->qp[transport]->qp_num;
    }
    ours.rkey = side->mr_target->rkey;
    ours.target = (uintptr_t)side->target;
    side->peer = exchange(side->stream, &ours);
    enum ibv_mtu mtu = (enum ibv_mtu)agree(side, port.active_mtu);
    side->mtu = 128u << mtu;
    for (enum transport transport = RC; transport < TRANSPORTS; transport++)
        connect_qp(side->qp[transport], &side->peer.gid, side->peer.qpn[transport], gid_index, mtu);
    struct ibv_ah_attr path = {
        .is_global = 1,
        .port_num = 1,
        .grh = {.dgid = side->peer.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64},
    };
    require((side->ah = ibv_create_ah(side->pd, &path)) != NULL, "ibv_create_ah");
    meet(side);
}

static void tear_down(struct side *side)
{
    require(!ibv_destroy_ah(side->ah), "ibv_destroy_ah");
    require(ibv_destroy_cq(side->cq) == EBUSY, "a queue in use can be destroyed");
    for (enum transport transport = RC; transport < TRANSPORTS; transport++)
        require(!ibv_destroy_qp(side->qp[transport]), "ibv_destroy_qp");
    require(!ibv_destroy_cq(side->cq), "ibv_destroy_cq");
    require(!ibv_destroy_comp_channel(side->channel), "ibv_destroy_comp_channel");
    require(!ibv_dereg_mr(side->mr_source) && !ibv_dereg_mr(side->mr_target), "ibv_dereg_mr");
    require(!ibv_dealloc_pd(side->pd), "ibv_dealloc_pd");
    require(!ibv_close_device(side->context), "ibv_close_device");
    free(side->source);
    free(side->target);
}

int main(int argc, char **argv)
{
    const char *device = NULL, *host = NULL, *port = NULL;
    int gid_index = 1, option, pair[2];
    pid_t server = 0;
    struct side side = {.stream = -1};
    while ((option = getopt(argc, argv, "d:g:l:c:p:")) != -1) {
        switch (option) {
        case 'd': device = optarg; break;
        case 'g': gid_index = atoi(optarg); break;
        case 'l': port = optarg; side.is_server = 1; break;
        case 'c': host = optarg; break;
        case 'p': port = optarg; break;
        default: return 1;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (side.is_server) {
        side.stream = listen_for_peer(port);
    } else if (host) {
        side.stream = connect_to_peer(host, port ? port : "18517");
    } else {
        require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
        server = fork();
        require(server >= 0, "fork");
        side.is_server = server == 0;
        side.stream = pair[side.is_server];
        close(pair[!side.is_server]);
    }
    set_up(&side, device, gid_index);
    run_all(&side);
    meet(&side);
    tear_down(&side);
    if (!side.is_server)
        printf("%u cases, %u failures here, %u messages repeated\n", side.cases, side.failures,
               side.repeated);
    int status = 0;
    if (server > 0 && waitpid(server, &status, 0) < 0)
        status = 1;
    return side.failures || status ? 1 : 0;
}
