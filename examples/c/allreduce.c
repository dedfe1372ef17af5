/* Sums over all ranks of MPI, again and again, each result checked.
 *
 *     mpicc -O2 -o allreduce allreduce.c
 *     mpirun -n 4 --mca pml ucx ... ./allreduce MILLISECONDS
 *
 * Rank 0 prints how many sums there were, and the longest time between two. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 4096 };

int main(int count, char **arguments)
{
    static double own[COUNT], sum[COUNT];
    int rank, ranks, goes_on = 1;
    long rounds = 0, wrong = 0;
    double length = count > 1 ? atof(arguments[1]) / 1e3 : 1, longest = 0;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime(), last = begin;
    while (goes_on) {
        for (int at = 0; at < COUNT; at++)
            own[at] = (double)(rank + 1) * at + (double)rounds;
        MPI_Allreduce(own, sum, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int at = 0; at < COUNT; at++)
            wrong += sum[at] != (double)(ranks * (ranks + 1) / 2) * at + (double)ranks * rounds;
        rounds++;
        double now = MPI_Wtime();
        longest = now - last > longest ? now - last : longest;
        last = now;
        /* All end with the same round. */
        goes_on = now - begin < length;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%ld sums, %ld values wrong, longest %.1f ms\n", rounds, wrong, longest * 1e3);
    MPI_Finalize();
    return wrong != 0;
}
