/* The usual mistakes, one by one: what the program reads, and what Ferroce says of it.
 *
 *     mistakes            what there is
 *     mistakes NAME       makes the mistake, prints how its request ended, and expects just that
 *
 * Both ends are queue pairs of this process, so that it says everything by itself. */

#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 8192, ASKS = 0, ANSWERS = 1, NONE = 0xff };

/* One end. What a mistake changes is changed before it is connected, or after. */
struct half {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char memory[BYTES];
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static struct half halves[2];

/* What is usual, and what a mistake may have in its place. */
struct setting {
    int rights, qp_access, qp_type;
    unsigned cqe;
    enum ibv_mtu mtu[2];
    uint8_t reads, timeout, retry_cnt, rnr_retry;
};

static const struct setting USUAL = {
    .rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
              | IBV_ACCESS_REMOTE_ATOMIC,
    .qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    .qp_type = IBV_QPT_RC,
    .cqe = 16,
    .mtu = {IBV_MTU_1024, IBV_MTU_1024},
    .reads = 4,
    .timeout = 8,
    .retry_cnt = 2,
    .rnr_retry = 7,
};

static struct ibv_qp_attr ready_to_receive(const struct setting *set, int which)
{
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = set->mtu[which],
        .dest_qp_num = halves[!which].qp->qp_num,
        .max_dest_rd_atomic = set->reads,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = GID_INDEX}},
    };
    return rtr;
}

static const int RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                       | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

static void to_init(const struct setting *set, int which)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = set->qp_access};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    require(!ibv_modify_qp(halves[which].qp, &init, mask), "to INIT");
}

static void make(const struct setting *set)
{
    for (int which = 0; which < 2; which++) {
        struct half *half = &halves[which];
        half->mr = ibv_reg_mr(pd, half->memory, BYTES / 2, set->rights);
        half->cq = ibv_create_cq(context, (int)set->cqe, NULL, NULL, 0);
        require(half->mr && half->cq, "a region and a completion queue");
        struct ibv_qp_init_attr init = {
            .qp_type = set->qp_type,
            .send_cq = half->cq,
            .recv_cq = half->cq,
            .cap = {.max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1},
            .sq_sig_all = 1,
        };
        require((half->qp = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
    }
}

static void connect_both(const struct setting *set)
{
    for (int which = 0; which < 2; which++) {
        to_init(set, which);
        struct ibv_qp_attr rtr = ready_to_receive(set, which);
        require(!ibv_modify_qp(halves[which].qp, &rtr, RTR), "to RTR");
        struct ibv_qp_attr rts = {
            .qp_state = IBV_QPS_RTS,
            .timeout = set->timeout,
            .retry_cnt = set->retry_cnt,
            .rnr_retry = set->rnr_retry,
            .max_rd_atomic = 4,
        };
        int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
                   | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        require(!ibv_modify_qp(halves[which].qp, &rts, mask), "to RTS");
    }
}

/* A piece of the memory of one end. */
static struct ibv_sge piece(int which, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)halves[which].memory, length, halves[which].mr->lkey};
    return sge;
}

static int receive(struct ibv_sge sge)
{
    struct ibv_recv_wr *bad, wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    return ibv_post_recv(halves[ANSWERS].qp, &wr, &bad);
}

/* Posts one request of the end that asks. */
static int post(enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t address, uint32_t rkey)
{
    struct ibv_send_wr *bad, wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
    }
    return ibv_post_send(halves[ASKS].qp, &wr, &bad);
}

static uint64_t target(void)
{
    return (uintptr_t)halves[ANSWERS].memory;
}

static int write_to(uint64_t address, uint32_t rkey)
{
    return post(IBV_WR_RDMA_WRITE, piece(ASKS, 64), address, rkey);
}

static int send_bytes(uint32_t length)
{
    return post(IBV_WR_SEND, piece(ASKS, length), 0, 0);
}

static uint32_t rkey(void)
{
    return halves[ANSWERS].mr->rkey;
}

/* ---- the mistakes: each changes a setting, and returns what its last call returned */

static int wrong_key(void) { return write_to(target(), rkey() + 0x100); }
static int beyond_region(void) { return write_to(target() + BYTES / 2 - 8, rkey()); }
static int plain_write(void) { return write_to(target(), rkey()); }
static int read_once(void) { return post(IBV_WR_RDMA_READ, piece(ASKS, 64), target(), rkey()); }

static int wrong_local_key(void)
{
    struct ibv_sge sge = piece(ASKS, 64);
    sge.lkey += 0x100;
    return post(IBV_WR_RDMA_WRITE, sge, target(), rkey());
}

static int wrong_receive_key(void)
{
    struct ibv_sge sge = piece(ANSWERS, 64);
    sge.lkey += 0x100;
    return receive(sge) || send_bytes(64);
}

static int short_receive(void) { return receive(piece(ANSWERS, 8)) || send_bytes(64); }
static int no_receive(void) { return send_bytes(64); }

static int odd_atomic(void)
{
    return post(IBV_WR_ATOMIC_FETCH_AND_ADD, piece(ASKS, 8), target() + 4, rkey());
}

static int silent_peer(void)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    require(!ibv_modify_qp(halves[ANSWERS].qp, &reset, IBV_QP_STATE), "to RESET");
    return plain_write();
}

static int after_an_error(void)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    require(!ibv_modify_qp(halves[ASKS].qp, &error, IBV_QP_STATE), "to ERR");
    return plain_write();
}

static int long_message(void)
{
    return post(IBV_WR_RDMA_WRITE, piece(ASKS, BYTES / 2), target(), rkey());
}

static int not_global(void)
{
    to_init(&USUAL, ASKS);
    struct ibv_qp_attr rtr = ready_to_receive(&USUAL, ASKS);
    rtr.ah_attr.is_global = 0;
    return ibv_modify_qp(halves[ASKS].qp, &rtr, RTR);
}

static int attribute_missing(void)
{
    to_init(&USUAL, ASKS);
    struct ibv_qp_attr rtr = ready_to_receive(&USUAL, ASKS);
    return ibv_modify_qp(halves[ASKS].qp, &rtr, RTR & ~(IBV_QP_RQ_PSN | IBV_QP_DEST_QPN));
}

static int state_skipped(void)
{
    struct ibv_qp_attr rtr = ready_to_receive(&USUAL, ASKS);
    return ibv_modify_qp(halves[ASKS].qp, &rtr, RTR);
}

static int posted_too_early(void)
{
    to_init(&USUAL, ASKS);
    return plain_write();
}

static int remote_without_local(void)
{
    return ibv_reg_mr(pd, halves[ASKS].memory, 64, IBV_ACCESS_REMOTE_WRITE) ? 0 : errno;
}

static int domain_in_use(void) { return ibv_dealloc_pd(pd); }

/* What comes of a mistake. */
enum { COMPLETES, REFUSED };

static const struct mistake {
    const char *name;
    int ends, with; /* a completion status, or an errno */
    int (*make)(void);
    struct setting setting;
} MISTAKES[] = {
#define SET(...) {__VA_ARGS__}
    {"wrong-rkey", COMPLETES, IBV_WC_REM_ACCESS_ERR, wrong_key, SET(0)},
    {"beyond-region", COMPLETES, IBV_WC_REM_ACCESS_ERR, beyond_region, SET(0)},
    {"region-rights", COMPLETES, IBV_WC_REM_ACCESS_ERR, plain_write,
     SET(.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)},
    {"qp-rights", COMPLETES, IBV_WC_REM_INV_REQ_ERR, plain_write,
     SET(.qp_access = IBV_ACCESS_REMOTE_READ)},
    {"short-receive", COMPLETES, IBV_WC_REM_INV_REQ_ERR, short_receive, SET(0)},
    {"path-mtu", COMPLETES, IBV_WC_REM_INV_REQ_ERR, long_message,
     SET(.mtu = {IBV_MTU_1024, IBV_MTU_512})},
    {"no-reads", COMPLETES, IBV_WC_REM_INV_REQ_ERR, read_once, SET(.reads = NONE)},
    {"odd-atomic", COMPLETES, IBV_WC_REM_INV_REQ_ERR, odd_atomic, SET(0)},
    {"receive-lkey", COMPLETES, IBV_WC_REM_OP_ERR, wrong_receive_key, SET(0)},
    {"wrong-lkey", COMPLETES, IBV_WC_LOC_PROT_ERR, wrong_local_key, SET(0)},
    {"no-receive", COMPLETES, IBV_WC_RNR_RETRY_EXC_ERR, no_receive, SET(.rnr_retry = 2)},
    {"silent-peer", COMPLETES, IBV_WC_RETRY_EXC_ERR, silent_peer, SET(0)},
    {"after-error", COMPLETES, IBV_WC_WR_FLUSH_ERR, after_an_error, SET(0)},
    {"not-global", REFUSED, EINVAL, not_global, SET(0)},
    {"attribute-missing", REFUSED, EINVAL, attribute_missing, SET(0)},
    {"state-skipped", REFUSED, EINVAL, state_skipped, SET(0)},
    {"posted-too-early", REFUSED, EINVAL, posted_too_early, SET(0)},
    {"remote-without-local", REFUSED, EINVAL, remote_without_local, SET(0)},
    {"domain-in-use", REFUSED, EBUSY, domain_in_use, SET(0)},
};

/* The usual setting, but for what a mistake has. */
static struct setting settle(const struct setting *odd)
{
    struct setting set = USUAL;
    if (odd->rights)
        set.rights = odd->rights;
    if (odd->qp_access)
        set.qp_access = odd->qp_access;
    if (odd->mtu[0])
        memcpy(set.mtu, odd->mtu, sizeof set.mtu);
    if (odd->reads == NONE)
        set.reads = 0;
    if (odd->rnr_retry)
        set.rnr_retry = odd->rnr_retry;
    return set;
}

int main(int argc, char **argv)
{
    size_t count = sizeof MISTAKES / sizeof MISTAKES[0];
    const struct mistake *chosen = NULL;
    for (size_t at = 0; at < count; at++) {
        if (argc > 1 && !strcmp(argv[1], MISTAKES[at].name))
            chosen = &MISTAKES[at];
    }
    if (!chosen) {
        for (size_t at = 0; at < count; at++)
            puts(MISTAKES[at].name);
        return argc > 1;
    }
    context = open_device(NULL);
    require((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
    require(!ibv_query_gid(context, 1, GID_INDEX, &gid), "ibv_query_gid");
    struct setting set = settle(&chosen->setting);
    make(&set);
    if (chosen->ends == REFUSED) {
        int error = chosen->make();
        printf("%s: %s\n", chosen->name, strerror(error));
        return error != chosen->with;
    }
    connect_both(&set);
    require(!chosen->make(), "ibv_post_send");
    struct ibv_wc wc = wait_completion(halves[ASKS].cq);
    printf("%s: %s\n", chosen->name, ibv_wc_status_str(wc.status));
    return wc.status != (enum ibv_wc_status)chosen->with;
}
