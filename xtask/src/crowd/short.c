/* A program that is over soon: opens the first device and a queue pair, sends itself a message, and waits. */

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 64, GID_INDEX = 1 };

static void require(int fine, const char *what)
{
    if (fine)
        return;
    perror(what);
    exit(1);
}

static void connect_to_itself(struct ibv_qp *qp, const union ibv_gid *gid)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 0};
    require(!ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "INIT");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = qp->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 64}},
    };
    require(!ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "RTR");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    require(!ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            "RTS");
}

int main(int count, char **words)
{
    static char memory[2 * LENGTH];
    useconds_t wait_us = count > 1 ? (useconds_t)atoi(words[1]) * 1000 : 0;
    struct ibv_device **list = ibv_get_device_list(NULL);
    require(list && *list, "no device");
    struct ibv_context *context = ibv_open_device(*list);
    require(context != NULL, "ibv_open_device");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    union ibv_gid gid;
    require(mr && qp && !ibv_query_gid(context, 1, GID_INDEX, &gid), "objects");
    connect_to_itself(qp, &gid);

    struct ibv_sge pieces[] = {{(uintptr_t)memory, LENGTH, mr->lkey},
                               {(uintptr_t)memory + LENGTH, LENGTH, mr->lkey}};
    struct ibv_recv_wr receive = {.sg_list = &pieces[1], .num_sge = 1}, *bad_receive;
    struct ibv_send_wr send = {.sg_list = &pieces[0],
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    memset(memory, 7, LENGTH);
    require(!ibv_post_recv(qp, &receive, &bad_receive), "ibv_post_recv");
    require(!ibv_post_send(qp, &send, &bad_send), "ibv_post_send");
    for (int left = 2; left > 0;) {
        struct ibv_wc wc;
        int found = ibv_poll_cq(cq, 1, &wc);
        require(found >= 0 && (found == 0 || wc.status == IBV_WC_SUCCESS), "completion");
        left -= found;
    }
    require(memory[LENGTH] == 7 && memory[2 * LENGTH - 1] == 7, "content");

    usleep(wait_us);
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    ibv_free_device_list(list);
    return 0;
}
