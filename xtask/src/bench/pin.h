/* What the benchmarks' programs have in common: a thread that stays on one core. */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void pin(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
}
