// The names through which providers and rdma-core's own tools call libibverbs, in every version node
// that a release had for them (IBVERBS_PRIVATE_25 of release 25 to IBVERBS_PRIVATE_65 of release 65; 50 and
// 56 are distributions'). Programs link stock provider libraries directly (perftest: mlx5 and EFA), and
// those are bound when they are loaded. So each name is in each node, and refuses; none is ever called for
// our devices. Only ibv_query_gid_type is for tools, and does what it says. Rust cannot give a name several
// nodes; what the names jump to is in src/private.rs.

#if defined(__x86_64__)
#define JUMP jmp
#define ENTRY endbr64
#elif defined(__aarch64__)
#define JUMP b
#define ENTRY bti c
#else
#error "libibverbs.so.1 is for x86-64 and arm64"
#endif

    // The name, in every node.
    .macro versions name
    .irp release, 25, 33, 34, 50, 56, 57, 59, 64
    .symver \name, \name@IBVERBS_PRIVATE_\release
    .endr
    .symver \name, \name@@IBVERBS_PRIVATE_65
    .endm

    .macro function name, target
    .globl \name
    .type \name, %function
    .balign 16
\name:
    ENTRY
    JUMP \target
    .size \name, . - \name
    .endm

    .macro refused names:vararg
    .irp name, \names
    function \name, ferroce_provider_refused
    versions \name
    .endr
    .endm

    .text
    function ibv_query_gid_type, ferroce_query_gid_type
    versions ibv_query_gid_type

    // Pointers: NULL.
    .irp name, _verbs_init_and_alloc_context, ibv_wr_opcode_str, verbs_open_device
    function \name, ferroce_provider_null
    versions \name
    .endr

    // No result, or a number of none.
    .irp name, __ioctl_final_num_attrs, __verbs_log, ibv_get_fw_ver, verbs_init_cq, verbs_set_ops, verbs_uninit_context
    function \name, ferroce_provider_nothing
    versions \name
    .endr

    // A provider registers itself when it is loaded, by a name that has its release's number. It is not
    // asked for devices.
    .irp release, 25, 33, 34, 50, 56, 57, 59, 64, 65
    function verbs_register_driver_\release, ferroce_provider_nothing
    .symver verbs_register_driver_\release, verbs_register_driver_\release@@IBVERBS_PRIVATE_\release
    .endr

    // As it was before release 17.
    function ibv_register_driver, ferroce_provider_nothing

    // Commands to the kernel: there is no kernel device.
    refused execute_ioctl, ibv_cmd_advise_mr, ibv_cmd_alloc_dm, ibv_cmd_alloc_dmah
    refused ibv_cmd_alloc_mw, ibv_cmd_alloc_pd, ibv_cmd_attach_mcast, ibv_cmd_close_xrcd
    refused ibv_cmd_create_ah, ibv_cmd_create_comp_cntr, ibv_cmd_create_counters
    refused ibv_cmd_create_cq, ibv_cmd_create_cq_ex, ibv_cmd_create_cq_ex2, ibv_cmd_create_flow
    refused ibv_cmd_create_flow_action_esp, ibv_cmd_create_qp, ibv_cmd_create_qp_ex
    refused ibv_cmd_create_qp_ex2, ibv_cmd_create_rwq_ind_table, ibv_cmd_create_srq
    refused ibv_cmd_create_srq_ex, ibv_cmd_create_wq, ibv_cmd_dealloc_mw, ibv_cmd_dealloc_pd
    refused ibv_cmd_dereg_mr, ibv_cmd_destroy_ah, ibv_cmd_destroy_comp_cntr
    refused ibv_cmd_destroy_counters, ibv_cmd_destroy_cq, ibv_cmd_destroy_flow
    refused ibv_cmd_destroy_flow_action, ibv_cmd_destroy_qp, ibv_cmd_destroy_rwq_ind_table
    refused ibv_cmd_destroy_srq, ibv_cmd_destroy_wq, ibv_cmd_detach_mcast
    refused ibv_cmd_export_dmabuf_fd, ibv_cmd_free_dm, ibv_cmd_free_dmah, ibv_cmd_get_context
    refused ibv_cmd_inc_comp_cntr, ibv_cmd_inc_err_comp_cntr, ibv_cmd_modify_cq
    refused ibv_cmd_modify_flow_action_esp, ibv_cmd_modify_qp, ibv_cmd_modify_qp_ex
    refused ibv_cmd_modify_srq, ibv_cmd_modify_wq, ibv_cmd_open_qp, ibv_cmd_open_xrcd
    refused ibv_cmd_poll_cq, ibv_cmd_post_recv, ibv_cmd_post_send, ibv_cmd_post_srq_recv
    refused ibv_cmd_qp_attach_comp_cntr, ibv_cmd_query_comp_cntr_caps, ibv_cmd_query_context
    refused ibv_cmd_query_device, ibv_cmd_query_device_any, ibv_cmd_query_device_ex
    refused ibv_cmd_query_mr, ibv_cmd_query_port, ibv_cmd_query_port_speed, ibv_cmd_query_qp
    refused ibv_cmd_query_srq, ibv_cmd_read_comp_cntr, ibv_cmd_read_counters
    refused ibv_cmd_read_err_comp_cntr, ibv_cmd_reg_dm_mr, ibv_cmd_reg_dmabuf_mr, ibv_cmd_reg_mr
    refused ibv_cmd_reg_mr_ex, ibv_cmd_req_notify_cq, ibv_cmd_rereg_mr, ibv_cmd_resize_cq
    refused ibv_cmd_set_comp_cntr, ibv_cmd_set_err_comp_cntr, ibv_dmabuf_heap_alloc
    refused ibv_dmabuf_heap_cc_shared_init, ibv_dmabuf_heap_destroy, ibv_dmabuf_heap_free
    refused ibv_read_ibdev_sysfs_file

    // Whether a provider's objects may go with their device: a variable, false.
    .bss
    .globl verbs_allow_disassociate_destroy
    .type verbs_allow_disassociate_destroy, %object
verbs_allow_disassociate_destroy:
    .zero 1
    .size verbs_allow_disassociate_destroy, 1
    versions verbs_allow_disassociate_destroy

    .section .note.GNU-stack, "", %progbits
