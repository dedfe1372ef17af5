/* Messages, collectives and one-sided access of MPI, with every result checked.
 *
 *     mpicc -O2 -o mpi mpi.c
 *     mpirun -n 4 --mca pml ucx --mca osc ucx ... ./mpi
 *
 * Each rank counts what it has checked; rank 0 prints the sum. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 << 20, TIMES = 3 };

static int rank, ranks;
static long checks, failures;

static void check(int fine, const char *what, long size)
{
    checks++;
    if (fine)
        return;
    failures++;
    fprintf(stderr, "rank %d: %s of %ld is wrong\n", rank, what, size);
}

/* Bytes that tell who sent them, to where and when. */
static void fill(unsigned char *bytes, size_t size, unsigned seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + size;
    for (size_t at = 0; at < size; at++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[at] = (unsigned char)(state >> 56);
    }
}

static void check_bytes(const unsigned char *bytes, size_t size, unsigned seed, const char *what)
{
    static unsigned char expected[MOST];
    fill(expected, size, seed);
    check(memcmp(bytes, expected, size) == 0, what, (long)size);
}

/* Each pair of neighbours in turn: 0 and 1, 2 and 3. One without a neighbour waits. */
static void ping_pong(unsigned char *buffer)
{
    static const int SIZES[] = {0, 1, 8, 64, 1000, 4096, 8192, 65536, 1 << 20, MOST};
    int peer = rank ^ 1;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES && peer < ranks; i++) {
        int size = SIZES[i], got;
        MPI_Status status;
        for (unsigned time = 0; time < TIMES; time++) {
            if (rank < peer) {
                fill(buffer, size, time);
                MPI_Send(buffer, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
                MPI_Recv(buffer, MOST, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &status);
                check_bytes(buffer, size, time + 100, "the answer");
            } else {
                MPI_Recv(buffer, MOST, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &status);
                check_bytes(buffer, size, time, "the message");
                fill(buffer, size, time + 100);
                MPI_Send(buffer, size, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
            }
            MPI_Get_count(&status, MPI_BYTE, &got);
            check(got == size, "the length", size);
        }
    }
}

/* Everybody to everybody at once, with more messages outstanding than are received in order. */
static void crowd(void)
{
    enum { MESSAGES = 50, SIZE = 3000 };
    unsigned char *out = malloc((size_t)ranks * MESSAGES * SIZE);
    unsigned char *in = malloc((size_t)ranks * MESSAGES * SIZE);
    MPI_Request *requests = malloc(2 * sizeof *requests * ranks * MESSAGES);
    int count = 0;
    for (int peer = 0; peer < ranks; peer++) {
        for (int tag = 0; tag < MESSAGES; tag++) {
            /* The receives are posted from the last tag to the first. */
            size_t at = ((size_t)peer * MESSAGES + tag) * SIZE;
            size_t last = ((size_t)peer * MESSAGES + MESSAGES - 1 - tag) * SIZE;
            fill(out + at, SIZE, 1000 * rank + tag);
            MPI_Irecv(in + last, SIZE, MPI_BYTE, peer, MESSAGES - 1 - tag, MPI_COMM_WORLD,
                      &requests[count++]);
            MPI_Isend(out + at, SIZE, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[count++]);
        }
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < ranks; peer++)
        for (int tag = 0; tag < MESSAGES; tag++)
            check_bytes(in + ((size_t)peer * MESSAGES + tag) * SIZE, SIZE, 1000 * peer + tag,
                        "a message of the crowd");
    free(out);
    free(in);
    free(requests);
}

static void collectives(void)
{
    static const int COUNTS[] = {1, 100, 10000, 300000};
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        int count = COUNTS[i], right = 1;
        int64_t *mine = malloc(sizeof *mine * count), *sum = malloc(sizeof *sum * count);
        for (int at = 0; at < count; at++)
            mine[at] = (int64_t)(rank + 1) * at;
        MPI_Allreduce(mine, sum, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (int at = 0; at < count; at++)
            right &= sum[at] == (int64_t)at * ranks * (ranks + 1) / 2;
        check(right, "the sum over all", count);

        for (int at = 0; at < count; at++)
            mine[at] = rank == ranks - 1 ? 7 * at : -1;
        MPI_Bcast(mine, count, MPI_INT64_T, ranks - 1, MPI_COMM_WORLD);
        right = 1;
        for (int at = 0; at < count; at++)
            right &= mine[at] == 7 * at;
        check(right, "the broadcast", count);
        free(mine);
        free(sum);
    }
    int64_t *out = malloc(sizeof *out * ranks), *in = malloc(sizeof *in * ranks);
    for (int peer = 0; peer < ranks; peer++)
        out[peer] = 100 * rank + peer;
    MPI_Alltoall(out, 1, MPI_INT64_T, in, 1, MPI_INT64_T, MPI_COMM_WORLD);
    for (int peer = 0; peer < ranks; peer++)
        check(in[peer] == 100 * peer + rank, "the exchange", peer);
    free(out);
    free(in);
}

/* The window: bytes that are put and got, then four counters. */
static void one_sided(void)
{
    enum { BYTES = 1 << 20, SUM = 0, TICKETS = 1, SWAPPED = 2, SUMS = 4 };
    unsigned char *memory, *copy = malloc(BYTES);
    MPI_Win window;
    MPI_Win_allocate(BYTES + SUMS * sizeof(int64_t), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &window);
    int64_t *counters = (int64_t *)(memory + BYTES);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    static const int SIZES[] = {1, 8, 100, 4096, 65536, BYTES};

    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        int size = SIZES[i];
        fill(copy, size, 10 * rank + i);
        MPI_Win_fence(0, window);
        MPI_Put(copy, size, MPI_BYTE, next, 0, size, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        check_bytes(memory, size, 10 * before + i, "what was put");
        memset(copy, 0, size);
        MPI_Get(copy, size, MPI_BYTE, next, 0, size, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        check_bytes(copy, size, 10 * rank + i, "what was got");
    }

    /* Everybody adds to rank 0, which makes no call meanwhile. */
    enum { ROUNDS = 20 };
    MPI_Win_lock_all(0, window);
    memset(counters, 0, SUMS * sizeof *counters);
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    const MPI_Aint base = BYTES;
    int64_t last = -1, taken, one = 1;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t add = rank + 1;
        MPI_Accumulate(&add, 1, MPI_INT64_T, 0, base + SUM * 8, 1, MPI_INT64_T, MPI_SUM, window);
        MPI_Fetch_and_op(&one, &taken, MPI_INT64_T, 0, base + TICKETS * 8, MPI_SUM, window);
        MPI_Win_flush(0, window);
        check(taken > last && taken < (int64_t)ROUNDS * ranks, "the ticket", (long)taken);
        last = taken;
        /* A counter that only moves on by one's own hand. */
        for (;;) {
            int64_t seen, wanted, read;
            MPI_Fetch_and_op(NULL, &seen, MPI_INT64_T, 0, base + SWAPPED * 8, MPI_NO_OP, window);
            MPI_Win_flush(0, window);
            wanted = seen + 1;
            MPI_Compare_and_swap(&wanted, &seen, &read, MPI_INT64_T, 0, base + SWAPPED * 8,
                                 window);
            MPI_Win_flush(0, window);
            if (read == seen)
                break;
        }
    }
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    if (rank == 0) {
        check(counters[SUM] == (int64_t)ROUNDS * ranks * (ranks + 1) / 2, "the sum",
              (long)counters[SUM]);
        check(counters[TICKETS] == (int64_t)ROUNDS * ranks, "the tickets", (long)counters[TICKETS]);
        check(counters[SWAPPED] == (int64_t)ROUNDS * ranks, "the swaps", (long)counters[SWAPPED]);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(copy);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    unsigned char *buffer = malloc(MOST);
    ping_pong(buffer);
    free(buffer);
    crowd();
    collectives();
    one_sided();
    long mine[] = {checks, failures}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: %ld checks, %ld failures\n", ranks, all[0], all[1]);
    MPI_Finalize();
    return all[1] != 0;
}
