/* The rate of 64 KiB WRITEs over a provider of libfabric's own, in Gb/s: the counterpart of ib_write_bw
 * for programs that are written to libfabric.
 *
 *   fabric_writes PROVIDER
 *
 * libfabric's own measure of this, fi_rma_bw of its fabtests, is in no package. As in fi_rma_bw, the
 * initiator on core 1 keeps 64 writes in flight, from one buffer to one buffer of the target; the
 * target on core 0 only makes progress, which a provider in software needs. */

#define _GNU_SOURCE
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

enum { BYTES = 64 << 10, WINDOW = 64, WARM_UP = 500, WRITES = 20000, LOOKS = 1000 };

/* What each side tells the other of itself. */
struct place {
    char name[128];
    uint64_t key, address;
};

static struct fi_info *info;
static struct fid_ep *endpoint;
static struct fid_cq *completions;
static struct fid_av *peers;
static struct fid_mr *region;
static char buffer[BYTES] __attribute__((aligned(4096)));

static void require(long result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-result));
        exit(1);
    }
}

/* Opens an endpoint on loopback, with the buffer registered. */
static struct place open_endpoint(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .size = 2 * WINDOW };
    struct fi_av_attr av = { .type = FI_AV_UNSPEC };
    struct place place = { 0 };
    size_t length = sizeof place.name;
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    require(hints ? 0 : -FI_ENOMEM, "fi_allocinfo");
    hints->caps = FI_RMA | FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    require(fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", NULL, FI_SOURCE, hints, &info),
            "fi_getinfo");
    fi_freeinfo(hints);
    require(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    require(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    require(fi_cq_open(domain, &cq, &completions, NULL), "fi_cq_open");
    require(fi_av_open(domain, &av, &peers, NULL), "fi_av_open");
    require(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
    require(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    require(fi_ep_bind(endpoint, &peers->fid, 0), "fi_ep_bind");
    require(fi_enable(endpoint), "fi_enable");
    require(fi_mr_reg(domain, buffer, sizeof buffer, FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0, &region,
                      NULL), "fi_mr_reg");
    require(fi_getname(&endpoint->fid, place.name, &length), "fi_getname");
    place.key = fi_mr_key(region);
    if (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        place.address = (uint64_t)(uintptr_t)buffer;
    return place;
}

/* Exchanges addresses with the other end, and returns the endpoint's handle for it. */
static fi_addr_t meet(int other, struct place own, struct place *theirs)
{
    fi_addr_t peer;

    if (write(other, &own, sizeof own) != sizeof own
        || recv(other, theirs, sizeof *theirs, MSG_WAITALL) != sizeof *theirs) {
        fprintf(stderr, "the other end is gone\n");
        exit(1);
    }
    require(fi_av_insert(peers, theirs->name, 1, &peer, 0, NULL) == 1 ? 0 : -FI_EINVAL,
            "fi_av_insert");
    return peer;
}

/* Takes completions. Returns how many there were. */
static long look(void)
{
    struct fi_cq_entry entries[WINDOW];
    ssize_t count = fi_cq_read(completions, entries, WINDOW);

    if (count == -FI_EAGAIN)
        return 0;
    require(count, "fi_cq_read");
    return count;
}

static void write_all(long writes, fi_addr_t peer, const struct place *target)
{
    static struct fi_context contexts[WINDOW];
    long posted = 0, completed = 0;

    while (completed < writes) {
        while (posted < writes && posted - completed < WINDOW) {
            ssize_t result = fi_write(endpoint, buffer, sizeof buffer, fi_mr_desc(region), peer,
                                      target->address, target->key, &contexts[posted % WINDOW]);

            if (result == -FI_EAGAIN)
                break;
            require(result, "fi_write");
            posted++;
        }
        completed += look();
    }
}

/* The target makes progress until the initiator is gone. */
static void serve(const char *provider, int other)
{
    struct place theirs;
    char byte;

    pin(0);
    meet(other, open_endpoint(provider), &theirs);
    do {
        for (int i = 0; i < LOOKS; i++)
            look();
    } while (recv(other, &byte, 1, MSG_DONTWAIT) != 0);
}

int main(int count, char **words)
{
    struct place target;
    int ends[2], status;
    fi_addr_t peer;
    double start, seconds;
    pid_t child;

    if (count != 2) {
        fprintf(stderr, "usage: fabric_writes PROVIDER\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (child = fork()) < 0) {
        perror("fabric_writes");
        return 1;
    }
    if (child == 0) {
        close(ends[1]);
        serve(words[1], ends[0]);
        return 0;
    }
    close(ends[0]);
    pin(1);
    peer = meet(ends[1], open_endpoint(words[1]), &target);
    write_all(WARM_UP, peer, &target);
    start = now_us();
    write_all(WRITES, peer, &target);
    seconds = (now_us() - start) * 1e-6;
    close(ends[1]);
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the target has failed\n");
        return 1;
    }
    printf("%.3f\n", (double)WRITES * BYTES * 8 / seconds / 1e9);
    return 0;
}
