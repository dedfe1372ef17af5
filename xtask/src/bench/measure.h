/* What the benchmarks' programs have in common: a thread that stays on one core, the time, and the
 * median of what was measured. Define _GNU_SOURCE before including it. */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void pin(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
}

static inline double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static inline int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The greater of the two in the middle, if they are an even number. Sorts them. */
static inline double median(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], compare);
    return values[count / 2];
}
