/* Prints how many bytes of resident memory one connected RC queue pair costs, and how many microseconds
 * to open and to close it: as many as the argument says are created with queues of one entry, each
 * connected to the next, and VmRSS and the time are read before and after. */

#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

#define GID_INDEX 1

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static long resident_kib(void)
{
	char line[256];
	long kib = -1;
	FILE *status = fopen("/proc/self/status", "r");

	if (!status)
		fail("/proc/self/status");
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

static void connect_qp(struct ibv_qp *qp, unsigned peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
			.port_num = 1,
		},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	if (ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		fail("INIT");
	if (ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	if (ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

int main(int argc, char **argv)
{
	int count = argc == 2 ? atoi(argv[1]) : 0;
	struct ibv_qp **qps = calloc(count + 1, sizeof(*qps));
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	union ibv_gid gid;
	double start = 0, end;
	long before = 0, after;
	int i;

	if (count < 1 || !qps) {
		fprintf(stderr, "usage: %s COUNT\n", argv[0]);
		return 1;
	}
	if (!pd || !cq || ibv_query_gid(context, 1, GID_INDEX, &gid))
		fail("device");
	attributes.send_cq = attributes.recv_cq = cq;
	for (i = 0; i <= count; i++) {
		qps[i] = ibv_create_qp(pd, &attributes);
		if (!qps[i])
			fail("ibv_create_qp");
		connect_qp(qps[i], qps[i ? i - 1 : 0]->qp_num, &gid);
		/* The first also starts the thread and opens the sockets, which are not its own cost. */
		if (i == 0) {
			before = resident_kib();
			start = now_us();
		}
	}
	after = resident_kib();
	for (i = 1; i <= count; i++)
		if (ibv_destroy_qp(qps[i]))
			fail("ibv_destroy_qp");
	end = now_us();
	printf("%ld %.3f\n", (after - before) * 1024 / count, (end - start) / count);
	return 0;
}
