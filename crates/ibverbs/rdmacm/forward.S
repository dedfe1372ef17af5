// librdmacm.so.1: each of its names is a jump into libibverbs.so.1, which has the engine, the devices
// and everything behind these names (crates/ibverbs/src/rdmacm). A second library with code of its own
// would be a second engine.

#if defined(__x86_64__)
#define JUMP(target) jmp target@PLT
#define ENTRY endbr64
#elif defined(__aarch64__)
#define JUMP(target) b target
#define ENTRY bti c
#else
#error "librdmacm.so.1 is for x86-64 and arm64"
#endif

#define FORWARD_TO(name, target) \
    .globl name; \
    .type name, %function; \
    .balign 16; \
    name: ENTRY; \
    JUMP(target); \
    .size name, . - name

#define FORWARD(name) FORWARD_TO(name, ferroce_##name)

    .text
    FORWARD(rdma_accept)
    FORWARD(rdma_ack_cm_event)
    FORWARD(rdma_bind_addr)
    FORWARD(rdma_connect)
    FORWARD(rdma_create_ep)
    FORWARD(rdma_create_event_channel)
    FORWARD(rdma_create_id)
    FORWARD(rdma_create_qp)
    FORWARD(rdma_create_qp_ex)
    FORWARD(rdma_create_srq)
    FORWARD(rdma_create_srq_ex)
    FORWARD(rdma_destroy_ep)
    FORWARD(rdma_destroy_event_channel)
    FORWARD(rdma_destroy_id)
    FORWARD(rdma_destroy_qp)
    FORWARD(rdma_destroy_srq)
    FORWARD(rdma_disconnect)
    FORWARD(rdma_establish)
    FORWARD(rdma_event_str)
    FORWARD(rdma_free_devices)
    FORWARD(rdma_freeaddrinfo)
    FORWARD(rdma_get_cm_event)
    FORWARD(rdma_get_devices)
    FORWARD(rdma_get_dst_port)
    FORWARD(rdma_get_remote_ece)
    FORWARD(rdma_get_request)
    FORWARD(rdma_get_src_port)
    FORWARD(rdma_getaddrinfo)
    FORWARD(rdma_init_qp_attr)
    FORWARD(rdma_join_multicast)
    FORWARD(rdma_join_multicast_ex)
    FORWARD(rdma_leave_multicast)
    FORWARD(rdma_listen)
    FORWARD(rdma_migrate_id)
    FORWARD(rdma_notify)
    FORWARD(rdma_reject)
    FORWARD(rdma_reject_ece)
    FORWARD(rdma_resolve_addr)
    FORWARD(rdma_resolve_route)
    FORWARD(rdma_set_local_ece)
    FORWARD(rdma_set_option)

    FORWARD(rpoll)
    FORWARD(rselect)
    FORWARD(repoll_create)
    FORWARD(repoll_ctl)
    FORWARD(repoll_wait)
    FORWARD(rdma_write_cm_event)
    FORWARD_TO(rdma_query_addrinfo, ferroce_rdma_addrinfo_absent)
    FORWARD_TO(rdma_resolve_addrinfo, ferroce_rdma_addrinfo_absent)

    // Rsockets: see crates/ibverbs/src/rdmacm/rsocket.
    FORWARD(raccept)
    FORWARD(rbind)
    FORWARD(rclose)
    FORWARD(rconnect)
    FORWARD(rfcntl)
    FORWARD(rgetpeername)
    FORWARD(rgetsockname)
    FORWARD(rgetsockopt)
    FORWARD(riomap)
    FORWARD(riounmap)
    FORWARD(riowrite)
    FORWARD(rlisten)
    FORWARD(rread)
    FORWARD(rreadv)
    FORWARD(rrecv)
    FORWARD(rrecvfrom)
    FORWARD(rrecvmsg)
    FORWARD(rsend)
    FORWARD(rsendmsg)
    FORWARD(rsendto)
    FORWARD(rsetsockopt)
    FORWARD(rshutdown)
    FORWARD(rsocket)
    FORWARD(rwrite)
    FORWARD(rwritev)

    .section .note.GNU-stack,"",%progbits
