/* What the kernel's UDP carries on loopback at most, in Gb/s: the floor under 64 KiB WRITEs.
 *
 * One thread on core 1 sends what a 64 KiB WRITE of 4,096 byte packets is on the wire: a GSO batch (a
 * "train") of two packets and one of fourteen. The other, on core 0, never sleeps, and receives each
 * batch whole. Each copies the payload once. There is no transport above: no headers, no ICRC, no
 * acknowledgements. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "measure.h"

enum {
    PACKET = 4116, SHORT = 2 * PACKET, LONG = 14 * PACKET, MESSAGE = SHORT + LONG,
    PAYLOAD = 64 << 10, MESSAGES = 30000, WINDOW_MAX = 7, BUFFER = 8 << 20
};

static int from, to;
static struct sockaddr_in address = { .sin_family = AF_INET };
static atomic_long taken;
static char memory[MESSAGE], arena[MESSAGE], buffer[1 << 16], target[1 << 16];

static void require(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void *receive(void *nothing)
{
    long bytes = 0;

    pin(0);
    while (bytes < (long)MESSAGES * MESSAGE) {
        ssize_t length = recv(to, buffer, sizeof buffer, MSG_DONTWAIT);

        if (length > 0) {
            memcpy(target, buffer, (size_t)length);
            bytes += length;
            atomic_store(&taken, bytes);
        }
    }
    return nothing;
}

static void send_train(char *bytes, size_t length)
{
    char control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
    struct iovec piece = { bytes, length };
    struct msghdr message = {
        .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &piece, .msg_iovlen = 1,
        .msg_control = control, .msg_controllen = sizeof control,
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    uint16_t segment = PACKET;

    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(header), &segment, sizeof segment);
    require(sendmsg(from, &message, 0) == (ssize_t)length, "sendmsg");
}

int main(void)
{
    int one = 1, bytes = BUFFER, discover = IP_PMTUDISC_DO;
    socklen_t length = sizeof address, option = sizeof bytes;
    pthread_t receiver;
    double start, seconds;
    long window, i;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from = socket(AF_INET, SOCK_DGRAM, 0);
    to = socket(AF_INET, SOCK_DGRAM, 0);
    require(from >= 0 && to >= 0, "socket");
    /* Without privilege the kernel grants less. Packets without room are lost. */
    if (setsockopt(to, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(to, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    require(getsockopt(to, SOL_SOCKET, SO_RCVBUF, &bytes, &option) == 0, "SO_RCVBUF");
    window = bytes / (2 * MESSAGE);
    window = window < 1 ? 1 : window > WINDOW_MAX ? WINDOW_MAX : window;
    require(setsockopt(to, SOL_UDP, UDP_GRO, &one, sizeof one) == 0, "UDP_GRO");
    require(setsockopt(from, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) == 0,
            "IP_MTU_DISCOVER");
    require(bind(to, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    require(getsockname(to, (struct sockaddr *)&address, &length) == 0, "getsockname");
    require(pthread_create(&receiver, NULL, receive, NULL) == 0, "pthread_create");
    pin(1);
    start = now_us();
    for (i = 0; i < MESSAGES; i++) {
        while (i * MESSAGE - atomic_load(&taken) >= window * MESSAGE)
            ;
        memcpy(arena, memory, PAYLOAD);
        send_train(arena, SHORT);
        send_train(arena + SHORT, LONG);
    }
    pthread_join(receiver, NULL);
    seconds = (now_us() - start) * 1e-6;
    printf("%.3f\n", (double)MESSAGES * PAYLOAD * 8 / seconds / 1e9);
    return 0;
}
