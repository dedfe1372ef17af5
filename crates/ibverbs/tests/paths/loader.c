// Three programs in one. With WHOSE, a library that says so. With HOST, a library that loads others, as a program
// loads its plugins: by names that are found in its own RUNPATH. Else a program that loads libraries in the ways of
// its arguments and prints whose each is: a line each.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if defined(WHOSE)

const char *whose(void);

const char *whose(void)
{
    return WHOSE;
}

#elif defined(HOST)

void *load(const char *name);

// Compiled such that the call is none of the caller's (-fno-optimize-sibling-calls).
void *load(const char *name)
{
    return dlopen(name, RTLD_NOW);
}

#else

static void *load_as(const char *way, const char *path)
{
    if (strcmp(way, "dlopen") == 0)
        return dlopen(path, RTLD_NOW);
    if (strcmp(way, "noload") == 0)
        return dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (strcmp(way, "dlmopen") == 0)
        return dlmopen(LM_ID_BASE, path, RTLD_NOW);
    if (strcmp(way, "namespace") == 0)
        return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    void *host = dlopen(way, RTLD_NOW);
    void *(*load)(const char *) = NULL;
    if (host != NULL)
        load = (void *(*)(const char *))dlsym(host, "load");
    return load == NULL ? NULL : load(path);
}

int main(int count, char **words)
{
    printf("%s\n", dlopen(NULL, RTLD_NOW) == NULL ? "no program" : "the program");
    for (int i = 1; i + 1 < count; i += 2) {
        void *library = load_as(words[i], words[i + 1]);
        if (library == NULL) {
            const char *error = dlerror();
            printf("%s\n", error == NULL ? "nothing" : error);
            continue;
        }
        const char *(*whose)(void) = (const char *(*)(void))dlsym(library, "whose");
        printf("%s\n", whose == NULL ? "nobody's" : whose());
    }
    return 0;
}

#endif
