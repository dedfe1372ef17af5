// accept4() of a socket that another preloaded library has made.
//
// rdma-core's librspreload makes rsockets of a program's TCP sockets. Some of its releases (44, of Debian 12) replace
// accept() and not accept4(), which Python, Rust and others call: the C library finds that the descriptor is no socket.
// Then, and only if a library before us has an accept() of its own, that one is asked, and the flags are set after it.
//
// A library that has an accept4() is asked before this one.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

typedef int accept_function(int, struct sockaddr *, socklen_t *);
typedef int accept4_function(int, struct sockaddr *, socklen_t *, int);

static accept4_function *libc_accept4;
// The accept() of a library before us; NULL if there is none.
static accept_function *replaced_accept;

// As in paths.c, nothing is left to be looked up later, unless another library's start has called us before.
__attribute__((constructor)) static void start(void) {
    accept_function *first = (accept_function *)dlsym(RTLD_DEFAULT, "accept");
    if (first != (accept_function *)dlsym(RTLD_NEXT, "accept")) {
        replaced_accept = first;
    }
    libc_accept4 = (accept4_function *)dlsym(RTLD_NEXT, "accept4");
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags) {
    if (libc_accept4 == NULL) {
        start();
    }
    int accepted = libc_accept4(descriptor, address, length, flags);
    if (accepted >= 0 || errno != ENOTSOCK || replaced_accept == NULL) {
        return accepted;
    }
    accepted = replaced_accept(descriptor, address, length);
    if (accepted < 0) {
        return -1;
    }
    // Whoever has replaced accept() has replaced fcntl() and close() as well.
    int before = flags & SOCK_NONBLOCK ? fcntl(accepted, F_GETFL) : 0;
    if ((flags & SOCK_NONBLOCK && (before < 0 || fcntl(accepted, F_SETFL, before | O_NONBLOCK) < 0)) ||
        (flags & SOCK_CLOEXEC && fcntl(accepted, F_SETFD, FD_CLOEXEC) < 0)) {
        int why = errno;
        close(accepted);
        errno = why;
        return -1;
    }
    return accepted;
}
