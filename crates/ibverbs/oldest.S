// The names of libibverbs 1.0 (before 2007) whose structures were others, in the node IBVERBS_1.0. The same names
// are in IBVERBS_1.1 as well, of Rust, and Rust cannot give a name two nodes. What these jump to refuses:
// src/oldest.rs. A linker takes those of IBVERBS_1.1.

#if defined(__x86_64__)
#define JUMP jmp
#define ENTRY endbr64
#elif defined(__aarch64__)
#define JUMP b
#define ENTRY bti c
#else
#error "libibverbs.so.1 is for x86-64 and arm64"
#endif

    .macro oldest target, names:vararg
    .irp name, \names
    .globl ferroce_oldest_\name
    .type ferroce_oldest_\name, %function
    .balign 16
ferroce_oldest_\name:
    ENTRY
    JUMP \target
    .size ferroce_oldest_\name, . - ferroce_oldest_\name
    .symver ferroce_oldest_\name, \name@IBVERBS_1.0
    .endr
    .endm

    .text
    oldest ferroce_oldest_device_list, ibv_get_device_list

    // Pointers: NULL. A GUID is as wide, and 0.
    oldest ferroce_oldest_null, ibv_alloc_pd, ibv_create_ah, ibv_create_cq, ibv_create_qp, ibv_create_srq
    oldest ferroce_oldest_null, ibv_get_device_guid, ibv_get_device_name, ibv_open_device, ibv_reg_mr

    // The error's number.
    oldest ferroce_oldest_number, ibv_attach_mcast, ibv_close_device, ibv_dealloc_pd, ibv_dereg_mr
    oldest ferroce_oldest_number, ibv_destroy_ah, ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq
    oldest ferroce_oldest_number, ibv_detach_mcast, ibv_modify_qp, ibv_modify_srq, ibv_query_device
    oldest ferroce_oldest_number, ibv_query_port, ibv_query_qp, ibv_query_srq, ibv_resize_cq

    // -1.
    oldest ferroce_oldest_minus_one, ibv_get_async_event, ibv_get_cq_event, ibv_query_gid, ibv_query_pkey

    // No result.
    oldest ferroce_oldest_nothing, ibv_ack_async_event, ibv_ack_cq_events, ibv_free_device_list

    .section .note.GNU-stack, "", %progbits
