// Asks each function of preload/paths.c about a path, and prints what it answers: a line each.
// The functions are looked up by name, so that no header and no compiler puts another in its place.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// No call that succeeds may touch errno; this is no number of the kernel's.
enum { UNTOUCHED = 4000, STAT_VERSION = 1 };

static void *function;
static const char *path;

static void answer(const char *text)
{
    printf(" %s, errno %d\n", text, errno);
}

static void answer_status(long status)
{
    answer(status < 0 ? "fails" : "succeeds");
}

static void answer_content(int fd)
{
    int after = errno;
    char content[64] = "";
    ssize_t length = fd < 0 ? 0 : read(fd, content, sizeof content - 1);
    printf(" %s %zd bytes:", fd < 0 ? "fails" : "opens", length);
    for (ssize_t i = 0; i < length; i++)
        printf(" %02x", (unsigned char)content[i]);
    if (fd >= 0)
        close(fd);
    printf(", errno %d\n", after);
}

static void answer_mode(int status, unsigned mode)
{
    printf(" %d mode %o, errno %d\n", status, status == 0 ? mode : 0, errno);
}

static void answer_path(char *found, char *own)
{
    answer(found == NULL ? "nothing" : found);
    if (found != own)
        free(found);
}

static void asks_open(void)
{
    answer_content(((int (*)(const char *, int, ...))function)(path, O_RDONLY));
}

static void asks_openat(void)
{
    answer_content(((int (*)(int, const char *, int, ...))function)(AT_FDCWD, path, O_RDONLY));
}

static void asks_fopen(void)
{
    FILE *file = ((FILE * (*)(const char *, const char *)) function)(path, "r");
    answer_content(file == NULL ? -1 : dup(fileno(file)));
    if (file != NULL)
        fclose(file);
}

static void asks_freopen(void)
{
    FILE *file = fopen("/dev/null", "r");
    file = ((FILE * (*)(const char *, const char *, FILE *)) function)(path, "r", file);
    answer_content(file == NULL ? -1 : dup(fileno(file)));
    if (file != NULL)
        fclose(file);
}

static void asks_chdir(void)
{
    answer_status(((int (*)(const char *))function)(path));
    if (chdir("/") != 0)
        abort();
}

static void asks_opendir(void)
{
    DIR *folder = ((DIR * (*)(const char *)) function)(path);
    int after = errno;
    int entries = 0;
    while (folder != NULL && readdir(folder) != NULL)
        entries++;
    if (folder != NULL)
        closedir(folder);
    printf(" %d entries, errno %d\n", entries, after);
}

static int no_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void answer_list(int count, struct dirent **list)
{
    int after = errno;
    printf(" %d:", count);
    for (int i = 0; i < count; i++) {
        printf(" %s", list[i]->d_name);
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    printf(", errno %d\n", after);
}

static void asks_scandir(void)
{
    struct dirent **list = NULL;
    int count = ((int (*)(const char *, struct dirent ***, void *, void *))function)(
        path, &list, no_dots, alphasort);
    answer_list(count, list);
}

static void asks_scandirat(void)
{
    struct dirent **list = NULL;
    int count = ((int (*)(int, const char *, struct dirent ***, void *, void *))function)(
        AT_FDCWD, path, &list, no_dots, alphasort);
    answer_list(count, list);
}

static void asks_stat(void)
{
    struct stat found;
    int status = ((int (*)(const char *, void *))function)(path, &found);
    answer_mode(status, found.st_mode);
}

static void asks_fstatat(void)
{
    struct stat found;
    int status = ((int (*)(int, const char *, void *, int))function)(AT_FDCWD, path, &found, 0);
    answer_mode(status, found.st_mode);
}

static void asks_xstat(void)
{
    struct stat found;
    int status = ((int (*)(int, const char *, void *))function)(STAT_VERSION, path, &found);
    answer_mode(status, found.st_mode);
}

static void asks_fxstatat(void)
{
    struct stat found;
    int status = ((int (*)(int, int, const char *, void *, int))function)(STAT_VERSION, AT_FDCWD,
                                                                          path, &found, 0);
    answer_mode(status, found.st_mode);
}

static void asks_statx(void)
{
    struct statx found;
    int status = ((int (*)(int, const char *, int, unsigned, void *))function)(
        AT_FDCWD, path, 0, STATX_MODE, &found);
    answer_mode(status, found.stx_mode);
}

static void asks_access(void)
{
    answer_status(((int (*)(const char *, int))function)(path, R_OK));
}

static void asks_faccessat(void)
{
    answer_status(((int (*)(int, const char *, int, int))function)(AT_FDCWD, path, R_OK, 0));
}

static void asks_getxattr(void)
{
    answer_status(((ssize_t(*)(const char *, const char *, void *, size_t))function)(
        path, "user.none", NULL, 0));
}

static void asks_listxattr(void)
{
    answer_status(((ssize_t(*)(const char *, char *, size_t))function)(path, NULL, 0));
}

static void answer_link(ssize_t length, char target[PATH_MAX])
{
    target[length < 0 ? 0 : length] = '\0';
    answer(target);
}

static void asks_readlink(void)
{
    char target[PATH_MAX];
    answer_link(((ssize_t(*)(const char *, char *, size_t, size_t))function)(
                    path, target, sizeof target - 1, sizeof target),
                target);
}

static void asks_readlinkat(void)
{
    char target[PATH_MAX];
    answer_link(((ssize_t(*)(int, const char *, char *, size_t, size_t))function)(
                    AT_FDCWD, path, target, sizeof target - 1, sizeof target),
                target);
}

static void asks_realpath(void)
{
    char found[PATH_MAX];
    answer_path(((char *(*)(const char *, char *, size_t))function)(path, found, sizeof found),
                found);
}

static void asks_realpath_to_allocate(void)
{
    answer_path(((char *(*)(const char *, char *))function)(path, NULL), NULL);
}

// The working directory that chdir() has made of the path.
static void asks_getcwd(void)
{
    char found[PATH_MAX];
    int moved = chdir(path);
    errno = UNTOUCHED;
    answer_path(moved == 0 ? ((char *(*)(char *, size_t, size_t))function)(found, sizeof found,
                                                                          sizeof found)
                           : NULL,
                found);
    if (chdir("/") != 0)
        abort();
}

static void asks_get_current_dir_name(void)
{
    int moved = chdir(path);
    errno = UNTOUCHED;
    answer_path(moved == 0 ? ((char *(*)(void))function)() : NULL, NULL);
    if (chdir("/") != 0)
        abort();
}

// What errno is after it is nobody's business.
static void answer_handle(void *handle)
{
    printf(" %s\n", handle == NULL ? "fails" : "loads");
    if (handle != NULL)
        dlclose(handle);
}

static void asks_dlopen(void)
{
    answer_handle(((void *(*)(const char *, int))function)(path, RTLD_NOW));
}

static void asks_dlmopen(void)
{
    answer_handle(((void *(*)(Lmid_t, const char *, int))function)(LM_ID_BASE, path, RTLD_NOW));
}

static const struct {
    const char *name;
    void (*asks)(void);
} FUNCTIONS[] = {
    {"open", asks_open},
    {"open64", asks_open},
    {"openat", asks_openat},
    {"openat64", asks_openat},
    {"__open_2", asks_open},
    {"__open64_2", asks_open},
    {"__openat_2", asks_openat},
    {"__openat64_2", asks_openat},
    {"fopen", asks_fopen},
    {"fopen64", asks_fopen},
    {"freopen", asks_freopen},
    {"freopen64", asks_freopen},
    {"chdir", asks_chdir},
    {"opendir", asks_opendir},
    {"scandir", asks_scandir},
    {"scandir64", asks_scandir},
    {"scandirat", asks_scandirat},
    {"scandirat64", asks_scandirat},
    {"stat", asks_stat},
    {"stat64", asks_stat},
    {"lstat", asks_stat},
    {"lstat64", asks_stat},
    {"fstatat", asks_fstatat},
    {"fstatat64", asks_fstatat},
    {"__xstat", asks_xstat},
    {"__xstat64", asks_xstat},
    {"__lxstat", asks_xstat},
    {"__lxstat64", asks_xstat},
    {"__fxstatat", asks_fxstatat},
    {"__fxstatat64", asks_fxstatat},
    {"statx", asks_statx},
    {"access", asks_access},
    {"eaccess", asks_access},
    {"euidaccess", asks_access},
    {"faccessat", asks_faccessat},
    {"getxattr", asks_getxattr},
    {"lgetxattr", asks_getxattr},
    {"listxattr", asks_listxattr},
    {"llistxattr", asks_listxattr},
    {"readlink", asks_readlink},
    {"__readlink_chk", asks_readlink},
    {"readlinkat", asks_readlinkat},
    {"__readlinkat_chk", asks_readlinkat},
    {"realpath", asks_realpath},
    {"__realpath_chk", asks_realpath},
    {"canonicalize_file_name", asks_realpath_to_allocate},
    {"getcwd", asks_getcwd},
    {"__getcwd_chk", asks_getcwd},
    {"get_current_dir_name", asks_get_current_dir_name},
    {"dlopen", asks_dlopen},
    {"dlmopen", asks_dlmopen},
};

int main(int count, char **words)
{
    if (count != 2 || chdir("/") != 0)
        return 2;
    path = words[1];
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        function = dlsym(RTLD_DEFAULT, FUNCTIONS[i].name);
        printf("%s:", FUNCTIONS[i].name);
        if (function == NULL)
            return 2;
        errno = UNTOUCHED;
        FUNCTIONS[i].asks();
    }
    // NULL is the kernel's to refuse.
    path = NULL;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        if (strcmp(FUNCTIONS[i].name, "open") == 0 || strcmp(FUNCTIONS[i].name, "stat") == 0 ||
            strcmp(FUNCTIONS[i].name, "access") == 0) {
            function = dlsym(RTLD_DEFAULT, FUNCTIONS[i].name);
            printf("NULL:");
            FUNCTIONS[i].asks();
        }
    }
    return 0;
}
