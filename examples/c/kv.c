/* A key-value store over RDMA: GETs are READs of the server's table, which its processor knows nothing of; PUTs are
 * messages that the server answers. Connections are made by RDMA CM.
 *
 *     cc -O2 -o kv kv.c -lrdmacm -libverbs -lpthread
 *     ferroce run -- ./kv serve 7471                                        # in one terminal
 *     ferroce run -- ./kv load 127.0.0.1 7471 before=1000 after=1000        # in another
 *
 * `load` asks for keys at random, nine GETs to a PUT, a request every ten milliseconds, for so many milliseconds under each
 * name, checks every value, and prints how long requests took. A request that has to wait for the one before it has
 * waited from when it was due: who asks less often while all are slow would not see it. KV_TOS sets the type of service
 * at either end. */

#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 4096, WORDS = 6, SAMPLES = 1 << 20, DEPTH = 4, INTERVAL_NS = 10000000 };

/* A place of the table. Who reads while it is written sees that the sum is wrong, and reads again. */
struct entry {
    uint64_t key, version, value[WORDS - 1], sum;
};

/* What a server tells of its table when it accepts. */
struct offer {
    uint64_t address;
    uint32_t rkey, keys;
};

static struct entry table[KEYS];

static void require(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "it failed");
    exit(1);
}

static uint64_t sum_of(const struct entry *entry)
{
    uint64_t sum = entry->key * 31 + entry->version;
    for (int word = 0; word < WORDS - 1; word++)
        sum = sum * 0x9e3779b97f4a7c15u + entry->value[word];
    return sum;
}

static struct entry entry_of(uint64_t key, uint64_t version)
{
    struct entry entry = {.key = key, .version = version};
    for (int word = 0; word < WORDS - 1; word++)
        entry.value[word] = (key << 32 ^ version) * (2 * word + 3);
    entry.sum = sum_of(&entry);
    return entry;
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct rdma_cm_event *wait_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    require(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    if (event->event != type) {
        fprintf(stderr, "expected %s, and got %s\n", rdma_event_str(type), rdma_event_str(event->event));
        exit(1);
    }
    return event;
}

static void set_tos(struct rdma_cm_id *id)
{
    if (!getenv("KV_TOS"))
        return;
    uint8_t tos = atoi(getenv("KV_TOS"));
    require(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos), "rdma_set_option");
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_comp_channel *channel = ibv_create_comp_channel(id->verbs);
    require(channel != NULL, "ibv_create_comp_channel");
    attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 4 * DEPTH, NULL, channel, 0);
    require(attr.send_cq != NULL, "ibv_create_cq");
    require(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

/* ---- the server */

struct client {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    struct entry messages[DEPTH];
};

static void post_receive(struct client *client, int at)
{
    struct ibv_sge sge = {(uintptr_t)&client->messages[at], sizeof client->messages[at], client->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = at, .sg_list = &sge, .num_sge = 1}, *bad;
    require(!ibv_post_recv(client->id->qp, &wr, &bad), "ibv_post_recv");
}

/* Answers the PUTs of one client until it is gone. */
static void *serve(void *argument)
{
    struct client *client = argument;
    struct ibv_cq *cq = client->id->qp->recv_cq;
    for (;;) {
        struct ibv_wc wc;
        struct ibv_cq *ready;
        void *context;
        require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
        while (ibv_poll_cq(cq, 1, &wc) == 1) {
            if (wc.status != IBV_WC_SUCCESS)
                return NULL;
            if (wc.opcode != IBV_WC_RECV)
                continue;
            struct entry *put = &client->messages[wc.wr_id];
            if (put->key < KEYS && put->sum == sum_of(put))
                table[put->key] = *put;
            post_receive(client, wc.wr_id);
            /* The answer says nothing but that it is done. */
            struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
            require(!ibv_post_send(client->id->qp, &wr, &bad), "ibv_post_send");
        }
        if (ibv_get_cq_event(client->id->qp->recv_cq->channel, &ready, &context))
            return NULL;
        ibv_ack_cq_events(ready, 1);
    }
}

static void run_server(const char *port)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_family = AF_INET}, *any;
    require(channel != NULL, "rdma_create_event_channel");
    require(!getaddrinfo(NULL, port, &hints, &any), "getaddrinfo");
    require(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    require(!rdma_bind_addr(listener, any->ai_addr), "rdma_bind_addr");
    require(!rdma_listen(listener, 16), "rdma_listen");
    for (uint64_t key = 0; key < KEYS; key++)
        table[key] = entry_of(key, 0);
    printf("serving %d keys\n", KEYS);
    fflush(stdout);
    for (;;) {
        struct rdma_cm_event *event;
        require(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
        enum rdma_cm_event_type type = event->event;
        struct rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_DISCONNECTED)
            rdma_disconnect(id);
        if (type != RDMA_CM_EVENT_CONNECT_REQUEST)
            continue;
        struct client *client = calloc(1, sizeof *client);
        require(client != NULL, "calloc");
        client->id = id;
        set_tos(id);
        make_qp(id);
        client->mr = ibv_reg_mr(id->pd, client->messages, sizeof client->messages, IBV_ACCESS_LOCAL_WRITE);
        struct ibv_mr *mr = ibv_reg_mr(id->pd, table, sizeof table, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        require(client->mr && mr, "ibv_reg_mr");
        for (int at = 0; at < DEPTH; at++)
            post_receive(client, at);
        struct offer offer = {htobe64((uintptr_t)table), htobe32(mr->rkey), htobe32(KEYS)};
        struct rdma_conn_param parameters = {
            .private_data = &offer, .private_data_len = sizeof offer, .responder_resources = DEPTH,
            .initiator_depth = DEPTH, .rnr_retry_count = 7,
        };
        pthread_t thread;
        require(!rdma_accept(id, &parameters), "rdma_accept");
        require(!pthread_create(&thread, NULL, serve, client), "pthread_create");
        pthread_detach(thread);
    }
}

/* ---- the client */

static struct entry got, put, told;
static struct ibv_mr *got_mr, *put_mr, *told_mr;

/* Waits for the completion of `opcode`, busily: what is measured is the network. */
static void complete(struct rdma_cm_id *id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc;
    do {
        int count;
        while ((count = ibv_poll_cq(id->qp->send_cq, 1, &wc)) == 0)
            ;
        require(count == 1, "ibv_poll_cq");
        if (wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "a request failed: %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
    } while (wc.opcode != opcode);
}

static void get(struct rdma_cm_id *id, const struct offer *offer, uint64_t key)
{
    struct ibv_sge sge = {(uintptr_t)&got, sizeof got, got_mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {offer->address + key * sizeof(struct entry), offer->rkey},
    }, *bad;
    do {
        require(!ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
        complete(id, IBV_WC_RDMA_READ);
    } while (got.sum != sum_of(&got));
    if (got.key != key) {
        fprintf(stderr, "asked for %llu and got %llu\n", (unsigned long long)key, (unsigned long long)got.key);
        exit(1);
    }
}

static void do_put(struct rdma_cm_id *id, uint64_t key, uint64_t version)
{
    struct ibv_sge answer = {(uintptr_t)&told, sizeof told, told_mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &answer, .num_sge = 1}, *bad_receive;
    struct ibv_sge sge = {(uintptr_t)&put, sizeof put, put_mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    put = entry_of(key, version);
    require(!ibv_post_recv(id->qp, &receive, &bad_receive), "ibv_post_recv");
    wr.send_flags = IBV_SEND_SIGNALED;
    require(!ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
    complete(id, IBV_WC_RECV);
}

static int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static int run_client(char **arguments, int count)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct addrinfo hints = {.ai_family = AF_INET}, *server;
    struct offer offer;
    struct rdma_conn_param parameters = {
        .responder_resources = DEPTH, .initiator_depth = DEPTH, .retry_count = 7, .rnr_retry_count = 7,
    };
    require(channel != NULL, "rdma_create_event_channel");
    require(!getaddrinfo(arguments[0], arguments[1], &hints, &server), "getaddrinfo");
    require(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    set_tos(id);
    require(!rdma_resolve_addr(id, NULL, server->ai_addr, 2000), "rdma_resolve_addr");
    rdma_ack_cm_event(wait_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
    require(!rdma_resolve_route(id, 2000), "rdma_resolve_route");
    rdma_ack_cm_event(wait_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
    make_qp(id);
    got_mr = ibv_reg_mr(id->pd, &got, sizeof got, IBV_ACCESS_LOCAL_WRITE);
    put_mr = ibv_reg_mr(id->pd, &put, sizeof put, IBV_ACCESS_LOCAL_WRITE);
    told_mr = ibv_reg_mr(id->pd, &told, sizeof told, IBV_ACCESS_LOCAL_WRITE);
    require(got_mr && put_mr && told_mr, "ibv_reg_mr");
    require(!rdma_connect(id, &parameters), "rdma_connect");
    struct rdma_cm_event *event = wait_event(channel, RDMA_CM_EVENT_ESTABLISHED);
    require(event->param.conn.private_data_len >= sizeof offer, "the server's offer");
    memcpy(&offer, event->param.conn.private_data, sizeof offer);
    rdma_ack_cm_event(event);
    offer.address = be64toh(offer.address);
    offer.rkey = be32toh(offer.rkey);
    uint32_t keys = be32toh(offer.keys);

    uint32_t *times = malloc(SAMPLES * sizeof *times);
    require(times != NULL && keys > 0, "malloc");
    uint64_t random = 88172645463325252u, version = 0;
    for (int phase = 2; phase < count; phase++) {
        char *name = strtok(arguments[phase], "="), *length = strtok(NULL, "=");
        require(name && length, "a phase is NAME=MILLISECONDS");
        uint64_t from = now_ns(), end = from + strtoull(length, NULL, 10) * 1000000u;
        uint32_t done = 0;
        for (; now_ns() < end; from += INTERVAL_NS) {
            struct timespec due = {from / 1000000000u, from % 1000000000u};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            if (random % 10 == 0)
                do_put(id, random / 10 % keys, ++version);
            else
                get(id, &offer, random / 10 % keys);
            if (done < SAMPLES)
                times[done++] = (now_ns() - from) / 1000;
        }
        require(done > 0, "a phase without requests");
        qsort(times, done, sizeof *times, by_size);
        printf("%s: %u requests, p50 %u us, p99 %u us, most %u us\n", name, done, times[done / 2],
               times[done - 1 - done / 100], times[done - 1]);
        fflush(stdout);
    }
    rdma_disconnect(id);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 3 && !strcmp(arguments[1], "serve"))
        run_server(arguments[2]);
    if (count >= 5 && !strcmp(arguments[1], "load"))
        return run_client(arguments + 2, count - 2);
    fprintf(stderr, "usage: kv serve PORT | kv load ADDRESS PORT NAME=MILLISECONDS ...\n");
    return 2;
}
