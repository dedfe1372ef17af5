#include "peer.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Both sides begin with these; any numbers do. */
enum { FIRST_PSN = 0x123456, Q_KEY = 0x11111111 };

void require(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, errno ? "%s: %s\n" : "%s\n", what, strerror(errno));
    exit(1);
}

static struct addrinfo *resolve(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error) {
        fprintf(stderr, "%s port %s: %s\n", host ? host : "*", port, gai_strerror(error));
        exit(1);
    }
    return found;
}

int listen_for_peer(const char *port)
{
    struct addrinfo *found = resolve(NULL, port);
    int listener = socket(found->ai_family, SOCK_STREAM, 0);
    int yes = 1;
    require(listener >= 0, "socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    require(!bind(listener, found->ai_addr, found->ai_addrlen), "bind");
    require(!listen(listener, 1), "listen");
    freeaddrinfo(found);
    int stream = accept(listener, NULL, NULL);
    require(stream >= 0, "accept");
    close(listener);
    return stream;
}

int connect_to_peer(const char *host, const char *port)
{
    struct addrinfo *found = resolve(host, port);
    int stream = -1;
    /* The other side may not be listening yet. */
    for (int attempt = 0; stream < 0 && attempt < 50; attempt++) {
        for (struct addrinfo *it = found; it && stream < 0; it = it->ai_next) {
            stream = socket(it->ai_family, SOCK_STREAM, 0);
            if (stream >= 0 && connect(stream, it->ai_addr, it->ai_addrlen)) {
                close(stream);
                stream = -1;
            }
        }
        if (stream < 0)
            usleep(100000);
    }
    freeaddrinfo(found);
    require(stream >= 0, "connect");
    return stream;
}

void tell(int stream, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t sent = send(stream, at, length, MSG_NOSIGNAL);
        require(sent > 0, "the peer is gone");
        at += sent;
        length -= (size_t)sent;
    }
}

void hear(int stream, void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t heard = recv(stream, at, length, 0);
        require(heard > 0, "the peer is gone");
        at += heard;
        length -= (size_t)heard;
    }
}

int is_there(int stream)
{
    char next;
    errno = 0;
    return recv(stream, &next, 1, MSG_PEEK | MSG_DONTWAIT) > 0 || errno == EAGAIN;
}

struct address exchange(int stream, const struct address *ours)
{
    struct address theirs;
    tell(stream, ours, sizeof *ours);
    hear(stream, &theirs, sizeof theirs);
    return theirs;
}

struct ibv_context *open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    require(list != NULL, "ibv_get_device_list");
    for (struct ibv_device **it = list; *it && !context; it++) {
        if (!name || !strcmp(name, ibv_get_device_name(*it)))
            context = ibv_open_device(*it);
    }
    require(context != NULL, name ? name : "no RDMA device");
    ibv_free_device_list(list);
    return context;
}

void connect_qp(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn, int gid_index,
                enum ibv_mtu mtu)
{
    int reliable = qp->qp_type == IBV_QPT_RC;
    int datagram = qp->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qkey = Q_KEY,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE
            | (reliable ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0),
    };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    require(!ibv_modify_qp(qp, &init, mask | (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
            "to INIT");

    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu,
        .dest_qp_num = qpn,
        .rq_psn = FIRST_PSN,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1,
            .port_num = 1,
            .grh = {.dgid = *peer, .sgid_index = (uint8_t)gid_index, .hop_limit = 64},
        },
    };
    mask = IBV_QP_STATE;
    if (!datagram)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (reliable)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    require(!ibv_modify_qp(qp, &rtr, mask), "to RTR");

    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = FIRST_PSN,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .max_rd_atomic = 16,
    };
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (reliable)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    require(!ibv_modify_qp(qp, &rts, mask), "to RTS");
}

struct end connect_end(int stream, void *memory, size_t length)
{
    struct end end = {.context = open_device(NULL)};
    struct ibv_port_attr port;
    require(!ibv_query_port(end.context, 1, &port), "ibv_query_port");
    require((end.pd = ibv_alloc_pd(end.context)) != NULL, "ibv_alloc_pd");
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
                 | IBV_ACCESS_REMOTE_ATOMIC;
    require((end.mr = ibv_reg_mr(end.pd, memory, length, rights)) != NULL, "ibv_reg_mr");
    require((end.cq = ibv_create_cq(end.context, 16, NULL, NULL, 0)) != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .send_cq = end.cq,
        .recv_cq = end.cq,
        .cap = {.max_send_wr = 2, .max_send_sge = 1, .max_recv_wr = 2, .max_recv_sge = 1},
    };
    require((end.qp = ibv_create_qp(end.pd, &init)) != NULL, "ibv_create_qp");
    struct address ours = {
        .qpn = {end.qp->qp_num},
        .rkey = end.mr->rkey,
        .target = (uintptr_t)memory,
    };
    require(!ibv_query_gid(end.context, 1, GID_INDEX, &ours.gid), "ibv_query_gid");
    end.peer = exchange(stream, &ours);
    connect_qp(end.qp, &end.peer.gid, end.peer.qpn[0], GID_INDEX, port.active_mtu);
    char ready = 1;
    tell(stream, &ready, 1);
    hear(stream, &ready, 1);
    return end;
}

struct ibv_wc wait_completion(struct ibv_cq *cq)
{
    struct ibv_wc wc = {0};
    int polled;
    while ((polled = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    require(polled == 1, "ibv_poll_cq");
    return wc;
}
