/* The time of the kernel's UDP for the packets of an 8 byte WRITE, to and fro, in us: the lower bound of
 * ib_write_lat.
 *
 * Two threads on cores 0 and 1 pass a GSO batch (a "train") of two packets to and fro, of the lengths of
 * a WRITE of eight bytes and of an acknowledgement, and never sleep. RoCEv2 makes this dearer than a
 * datagram between connected sockets. The ICRC covers the IP identification, which the kernel leaves at
 * zero only for sockets that are not connected, so each batch looks up its route. And the receiver asks
 * for the sender, the ECN mark and the length of the packets. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "measure.h"

enum { WRITE = 12 + 16 + 8 + 4, ACKNOWLEDGEMENT = 12 + 4 + 4, TURNS = 20000, PATIENCE_S = 10 };

static int sockets[2];
static struct sockaddr_in addresses[2];
static double times[TURNS];

static void require(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void open_socket(int end)
{
    struct sockaddr_in *address = &addresses[end];
    int one = 1, discover = IP_PMTUDISC_DO, option;
    socklen_t length = sizeof *address;

    sockets[end] = option = socket(AF_INET, SOCK_DGRAM, 0);
    require(option >= 0, "socket");
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(bind(option, (struct sockaddr *)address, length) == 0, "bind");
    require(getsockname(option, (struct sockaddr *)address, &length) == 0, "getsockname");
    require(setsockopt(option, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) == 0,
            "IP_MTU_DISCOVER");
    require(setsockopt(option, IPPROTO_IP, IP_RECVTOS, &one, sizeof one) == 0, "IP_RECVTOS");
    require(setsockopt(option, SOL_UDP, UDP_GRO, &one, sizeof one) == 0, "UDP_GRO");
}

static void send_train(int end)
{
    char control[CMSG_SPACE(sizeof(uint16_t))] = { 0 }, bytes[WRITE + ACKNOWLEDGEMENT] = { 0 };
    struct iovec piece = { bytes, sizeof bytes };
    struct msghdr message = {
        .msg_name = &addresses[1 - end], .msg_namelen = sizeof addresses[0], .msg_iov = &piece,
        .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    uint16_t segment = WRITE;

    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(header), &segment, sizeof segment);
    require(sendmsg(sockets[end], &message, MSG_DONTWAIT) == sizeof bytes, "sendmsg");
}

static void take_train(int end)
{
    static char buffers[2][1 << 16];
    double start = now_us();
    char control[96];
    struct sockaddr_in source;
    ssize_t taken;

    do {
        struct iovec piece = { buffers[end], sizeof buffers[end] };
        struct msghdr message = {
            .msg_name = &source, .msg_namelen = sizeof source, .msg_iov = &piece,
            .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
        };

        taken = recvmsg(sockets[end], &message, MSG_DONTWAIT);
        require(taken > 0 || now_us() - start < PATIENCE_S * 1e6, "a train was lost on loopback");
    } while (taken < 0);
    require(taken == WRITE + ACKNOWLEDGEMENT, "recvmsg");
}

static void *answer(void *nothing)
{
    pin(0);
    for (int turn = 0; turn < TURNS; turn++) {
        take_train(0);
        send_train(0);
    }
    return nothing;
}

int main(void)
{
    pthread_t partner;

    open_socket(0);
    open_socket(1);
    require(pthread_create(&partner, NULL, answer, NULL) == 0, "pthread_create");
    pin(1);
    for (int turn = 0; turn < TURNS; turn++) {
        double start = now_us();

        send_train(1);
        take_train(1);
        times[turn] = now_us() - start;
    }
    pthread_join(partner, NULL);
    printf("%.3f\n", median(times, TURNS));
    return 0;
}
