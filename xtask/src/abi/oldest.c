// What libibverbs.so.1 gives a program of before 2007, which is bound to names of IBVERBS_1.0, and one that is linked
// today, which must not be. This is compiled twice: as the program, and with -DPLUGIN as a library that is linked to
// nothing, so that its reference has no version. argv[1] is that library.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef void function(void);

#ifdef PLUGIN

function ibv_get_device_list;
function *plugin(void);

function *plugin(void) { return ibv_get_device_list; }

#else

// How a call fails. A GUID is as wide as a pointer.
enum failure { NULL_POINTER, NUMBER, MINUS_ONE, NOTHING };

#define NAMES(X) \
    X(ibv_ack_async_event, NOTHING) \
    X(ibv_ack_cq_events, NOTHING) \
    X(ibv_alloc_pd, NULL_POINTER) \
    X(ibv_attach_mcast, NUMBER) \
    X(ibv_close_device, NUMBER) \
    X(ibv_create_ah, NULL_POINTER) \
    X(ibv_create_cq, NULL_POINTER) \
    X(ibv_create_qp, NULL_POINTER) \
    X(ibv_create_srq, NULL_POINTER) \
    X(ibv_dealloc_pd, NUMBER) \
    X(ibv_dereg_mr, NUMBER) \
    X(ibv_destroy_ah, NUMBER) \
    X(ibv_destroy_cq, NUMBER) \
    X(ibv_destroy_qp, NUMBER) \
    X(ibv_destroy_srq, NUMBER) \
    X(ibv_detach_mcast, NUMBER) \
    X(ibv_free_device_list, NOTHING) \
    X(ibv_get_async_event, MINUS_ONE) \
    X(ibv_get_cq_event, MINUS_ONE) \
    X(ibv_get_device_guid, NULL_POINTER) \
    X(ibv_get_device_list, NULL_POINTER) \
    X(ibv_get_device_name, NULL_POINTER) \
    X(ibv_modify_qp, NUMBER) \
    X(ibv_modify_srq, NUMBER) \
    X(ibv_open_device, NULL_POINTER) \
    X(ibv_query_device, NUMBER) \
    X(ibv_query_gid, MINUS_ONE) \
    X(ibv_query_pkey, MINUS_ONE) \
    X(ibv_query_port, NUMBER) \
    X(ibv_query_qp, NUMBER) \
    X(ibv_query_srq, NUMBER) \
    X(ibv_reg_mr, NULL_POINTER) \
    X(ibv_resize_cq, NUMBER)

// `old_` is what the linker of a program of before 2007 took.
#define DECLARE(name, failure) \
    function name, old_##name; \
    __asm__(".symver old_" #name ", " #name "@IBVERBS_1.0");
NAMES(DECLARE)

static const struct {
    const char *name;
    enum failure failure;
    function *linked, *old;
} names[] = {
#define ROW(name, failure) { #name, failure, name, old_##name },
    NAMES(ROW)
};

static void check(int holds, const char *name, const char *what) {
    if (!holds) {
        printf("%s: %s\n", name, what);
        exit(1);
    }
}

static int fails(function *call, enum failure failure, void *argument) {
    errno = 0;
    switch (failure) {
    case NULL_POINTER:
        return !((void *(*)(void *))call)(argument) && errno == EOPNOTSUPP;
    case NUMBER:
        return ((int (*)(void *))call)(argument) == EOPNOTSUPP;
    case MINUS_ONE:
        return ((int (*)(void *))call)(argument) == -1 && errno == EOPNOTSUPP;
    case NOTHING:
        ((void (*)(void *))call)(argument);
        return errno == 0;
    }
    return 0;
}

int main(int argc, char **argv) {
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    check(argc == 2 && library, "libibverbs.so.1", "is not loaded");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = names[i].name;
        void *old = dlvsym(library, name, "IBVERBS_1.0");
        void *new = dlvsym(library, name, "IBVERBS_1.1");
        check(old && old == (void *)names[i].old, name, "is not bound to IBVERBS_1.0 where that is named");
        check(new && new != old, name, "is not in IBVERBS_1.1, or is the same as in IBVERBS_1.0");
        check(new == (void *)names[i].linked, name, "is not linked as that of IBVERBS_1.1");
        check(new == dlsym(library, name), name, "is not found as that of IBVERBS_1.1");
        check(fails(names[i].old, names[i].failure, NULL), name, "does not fail as its man page says");
    }

    int count = 7;
    int is_refused = fails(old_ibv_get_device_list, NULL_POINTER, &count);
    check(is_refused && count == 0, "ibv_get_device_list", "tells how many devices there are");

    void *opened = dlopen(argv[1], RTLD_NOW);
    check(opened != NULL, argv[1], "cannot be opened");
    function *(*plugin)(void) = (function *(*)(void))dlsym(opened, "plugin");
    check(plugin && plugin() == ibv_get_device_list, argv[1], "is not bound to IBVERBS_1.1");
    printf("%zu\n", sizeof names / sizeof *names);
    return 0;
}

#endif
