/* Options of sockets that qemu-user does not hand to the kernel. What is preloaded here makes as if they were set, so
 * that a NIC opens: packets to multicast groups then leave by the kernel's choice of interface, and the kernel's choice
 * among the NICs of an address is by its own hash, so that they hand packets on. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int is_unsupported(int level, int name)
{
    return (level == IPPROTO_IP && name == IP_MULTICAST_IF) ||
           (level == IPPROTO_IPV6 && name == IPV6_MULTICAST_IF) ||
           (level == SOL_SOCKET && name == SO_ATTACH_REUSEPORT_CBPF);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    int (*libc)(int, int, int, const void *, socklen_t) =
        (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
    int status = libc(fd, level, name, value, length);
    return status != 0 && errno == ENOPROTOOPT && is_unsupported(level, name) ? 0 : status;
}
