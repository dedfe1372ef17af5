/* Two processes that prepare a connection: a byte stream between them, and what they tell each
 * other over it. RDMA needs such a side channel; here it is TCP, or a socket pair after fork. */

#ifndef FERROCE_EXAMPLES_PEER_H
#define FERROCE_EXAMPLES_PEER_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* What one side must know of the other. Both run on the same kind of machine, so it is sent as it
 * lies in memory. */
struct address {
    union ibv_gid gid;
    uint32_t qpn[3];   /* one for each transport in use */
    uint32_t rkey;
    uint64_t target;   /* where the peer may WRITE, READ and use atomics */
};

/* Ends the program with a message (and errno) if `fine` does not hold. */
void require(int fine, const char *what);

/* Waits for a connection on a TCP port, or makes one. Each returns a descriptor. */
int listen_for_peer(const char *port);
int connect_to_peer(const char *host, const char *port);

/* Sends or receives exactly `length` bytes. */
void tell(int stream, const void *bytes, size_t length);
void hear(int stream, void *bytes, size_t length);

/* Whether the peer has not closed the stream. Takes nothing from it. */
int is_there(int stream);

/* Tells our address and hears the other. */
struct address exchange(int stream, const struct address *ours);

/* Opens the device `name`, or the first one if it is NULL. */
struct ibv_context *open_device(const char *name);

/* Brings a queue pair from RESET to RTS, connected to `qpn` at `peer` (any `qpn` for UD). */
void connect_qp(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn, int gid_index,
                enum ibv_mtu mtu);

/* One end of a reliable connection, over one piece of memory. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct address peer;
};

/* Opens the first device, registers memory in which the peer has every right, and connects a queue
 * pair that takes two requests of each kind. Returns when the other side is as far. */
struct end connect_end(int stream, void *memory, size_t length);

/* Waits for a completion. */
struct ibv_wc wait_completion(struct ibv_cq *cq);

/* The index of the GID that connect_end uses: RoCE v2 over IPv4. */
enum { GID_INDEX = 1 };

#endif
