// The files of RDMA devices, for programs that look for them.
//
//   access("/dev/infiniband/uverbs0") ──► $FERROCE_SYSFS/dev/infiniband/uverbs0
//   fopen("/sys/class/infiniband/...") ──► $FERROCE_SYSFS/sys/class/infiniband/...
//   dlopen("/usr/lib/.../libibverbs.so.1") ──► dlopen("libibverbs.so.1"), which is loaded already
//
// UCX and others look at these paths before they open a device, and leave out one that has none. Without a kernel
// driver there are no such files, so `ferroce run` lays them out in a folder of the user's and puts this library
// before the program. A path below one of our prefixes gets that folder put before it; whatever is not such a path
// goes to the C library as it came. Because the folder is an ordinary one, every call on it does what it always
// does: its links, permissions and errors are the kernel's own.
//
// Invariants: no call of ours allocates, locks or changes errno before it hands over to the C library; a path that is
// not ours costs the comparison of two characters. NULL is the C library's to judge.
//
// Absent: calls that C libraries and programs make without the dynamic linker (static programs, Go, glob(), nftw()),
// and relative paths from a working directory outside of the folder.
//
// Prototypes are written out here, without the headers of the C library, because those rename functions, attach
// checks to them and promise that no path is NULL.

#define _GNU_SOURCE
#include <asm/fcntl.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

char *getenv(const char *name);

// The longest folder, and the longest path of ours; a longer path goes to the C library as it came.
enum { ROOT_BYTES = 256, PLACE_BYTES = 1024 };

static const char *const DEVICES = "/dev/infiniband";
static const char *const SYSTEM[] = {
    "/sys/class/infiniband",
    "/sys/class/infiniband_verbs",
    // Where the links of the first two lead.
    "/sys/devices/virtual/ferroce",
};

// A function of the C library, or of whatever was preloaded after us. All of them stand in one section.
struct function {
    const char *name;
    void *address;
};

extern struct function __start_ferroce_functions[] __attribute__((visibility("hidden")));
extern struct function __stop_ferroce_functions[] __attribute__((visibility("hidden")));

static pthread_once_t root_once = PTHREAD_ONCE_INIT;
static char root[ROOT_BYTES];
static size_t root_length;

static void read_root(void) {
    const char *named = getenv("FERROCE_SYSFS");
    size_t length = named == NULL ? 0 : strlen(named);
    if (length > 0 && length < ROOT_BYTES && named[0] == '/') {
        memcpy(root, named, length + 1);
        root_length = length;
    }
}

static void *next(struct function *function) {
    void *address = __atomic_load_n(&function->address, __ATOMIC_RELAXED);
    if (address == NULL) {
        int before = errno;
        address = dlsym(RTLD_NEXT, function->name);
        errno = before;
        __atomic_store_n(&function->address, address, __ATOMIC_RELAXED);
    }
    return address;
}

// Other libraries may have been started before, and called us already; that works as well. Done here, nothing is left
// to be looked up in a signal handler or after the program has emptied its environment.
__attribute__((constructor)) static void start(void) {
    pthread_once(&root_once, read_root);
    for (struct function *function = __start_ferroce_functions; function < __stop_ferroce_functions; function++) {
        next(function);
    }
}

static bool is_below(const char *path, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static bool is_ours(const char *path) {
    if (path == NULL || path[0] != '/') {
        return false;
    }
    if (path[1] == 'd') {
        return is_below(path, DEVICES);
    }
    if (path[1] != 's') {
        return false;
    }
    for (size_t i = 0; i < sizeof SYSTEM / sizeof *SYSTEM; i++) {
        if (is_below(path, SYSTEM[i])) {
            return true;
        }
    }
    return false;
}

// The path that is meant: the same, or the one in our folder, written to `place`.
static const char *meant(const char *path, char place[PLACE_BYTES]) {
    if (__builtin_expect(!is_ours(path), true)) {
        return path;
    }
    pthread_once(&root_once, read_root);
    size_t length = strlen(path);
    if (root_length == 0 || root_length + length >= PLACE_BYTES) {
        return path;
    }
    memcpy(place, root, root_length);
    memcpy(place + root_length, path, length + 1);
    return place;
}

// Takes our folder away from the front of a path that the C library has found.
static char *as_seen(char *path) {
    if (path != NULL && root_length > 0 && is_below(path, root) && is_ours(path + root_length)) {
        memmove(path, path + root_length, strlen(path + root_length) + 1);
    }
    return path;
}

#define FUNCTION(symbol)                                                                     \
    static struct function symbol##_function __attribute__((section("ferroce_functions"), used)) = { \
        .name = #symbol,                                                                     \
    }

// Declares `libc`, the next function of that name. Where the C library is too old to have it, a program that probes
// for it is told so.
#define NEXT(symbol, failure)                            \
    __typeof__(&symbol) libc = next(&symbol##_function); \
    if (libc == NULL) {                                  \
        errno = ENOSYS;                                  \
        return failure;                                  \
    }

// A function with one path among its parameters, called `path`.
#define TAKES_PATH(type, failure, symbol, parameters, arguments) \
    FUNCTION(symbol);                                            \
    type symbol parameters;                                      \
    type symbol parameters {                                     \
        char place[PLACE_BYTES];                                 \
        NEXT(symbol, failure)                                    \
        path = meant(path, place);                               \
        return libc arguments;                                   \
    }

// A function with flags, and a mode behind them if the flags can create a file.
#define OPENS(symbol, parameters, arguments)                     \
    FUNCTION(symbol);                                            \
    int symbol parameters;                                       \
    int symbol parameters {                                      \
        char place[PLACE_BYTES];                                 \
        unsigned int mode = 0;                                   \
        NEXT(symbol, -1)                                         \
        if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list rest;                                        \
            va_start(rest, flags);                               \
            mode = va_arg(rest, unsigned int);                   \
            va_end(rest);                                        \
        }                                                        \
        path = meant(path, place);                               \
        return libc arguments;                                   \
    }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
// What the four become in programs compiled with _FORTIFY_SOURCE.
TAKES_PATH(int, -1, __open_2, (const char *path, int flags), (path, flags))
TAKES_PATH(int, -1, __open64_2, (const char *path, int flags), (path, flags))
TAKES_PATH(int, -1, __openat_2, (int folder, const char *path, int flags), (folder, path, flags))
TAKES_PATH(int, -1, __openat64_2, (int folder, const char *path, int flags), (folder, path, flags))

TAKES_PATH(void *, NULL, fopen, (const char *path, const char *mode), (path, mode))
TAKES_PATH(void *, NULL, fopen64, (const char *path, const char *mode), (path, mode))
TAKES_PATH(void *, NULL, freopen, (const char *path, const char *mode, void *file), (path, mode, file))
TAKES_PATH(void *, NULL, freopen64, (const char *path, const char *mode, void *file), (path, mode, file))

// Folders. A filter or an order of scandir() is a function of the program's, which is handed on.
TAKES_PATH(int, -1, chdir, (const char *path), (path))
TAKES_PATH(void *, NULL, opendir, (const char *path), (path))
TAKES_PATH(int, -1, scandir, (const char *path, void *list, void *filter, void *order), (path, list, filter, order))
TAKES_PATH(int, -1, scandir64, (const char *path, void *list, void *filter, void *order), (path, list, filter, order))
TAKES_PATH(int, -1, scandirat, (int folder, const char *path, void *list, void *filter, void *order),
           (folder, path, list, filter, order))
TAKES_PATH(int, -1, scandirat64, (int folder, const char *path, void *list, void *filter, void *order),
           (folder, path, list, filter, order))

// What stat() is called since glibc 2.33, and what it was called before, with the version of its structure.
TAKES_PATH(int, -1, stat, (const char *path, void *result), (path, result))
TAKES_PATH(int, -1, stat64, (const char *path, void *result), (path, result))
TAKES_PATH(int, -1, lstat, (const char *path, void *result), (path, result))
TAKES_PATH(int, -1, lstat64, (const char *path, void *result), (path, result))
TAKES_PATH(int, -1, fstatat, (int folder, const char *path, void *result, int flags), (folder, path, result, flags))
TAKES_PATH(int, -1, fstatat64, (int folder, const char *path, void *result, int flags), (folder, path, result, flags))
TAKES_PATH(int, -1, __xstat, (int version, const char *path, void *result), (version, path, result))
TAKES_PATH(int, -1, __xstat64, (int version, const char *path, void *result), (version, path, result))
TAKES_PATH(int, -1, __lxstat, (int version, const char *path, void *result), (version, path, result))
TAKES_PATH(int, -1, __lxstat64, (int version, const char *path, void *result), (version, path, result))
TAKES_PATH(int, -1, __fxstatat, (int version, int folder, const char *path, void *result, int flags),
           (version, folder, path, result, flags))
TAKES_PATH(int, -1, __fxstatat64, (int version, int folder, const char *path, void *result, int flags),
           (version, folder, path, result, flags))
TAKES_PATH(int, -1, statx, (int folder, const char *path, int flags, unsigned int mask, void *result),
           (folder, path, flags, mask, result))

TAKES_PATH(int, -1, access, (const char *path, int mode), (path, mode))
TAKES_PATH(int, -1, eaccess, (const char *path, int mode), (path, mode))
TAKES_PATH(int, -1, euidaccess, (const char *path, int mode), (path, mode))
TAKES_PATH(int, -1, faccessat, (int folder, const char *path, int mode, int flags), (folder, path, mode, flags))

// `ls -l` asks for these.
TAKES_PATH(ssize_t, -1, getxattr, (const char *path, const char *name, void *value, size_t size),
           (path, name, value, size))
TAKES_PATH(ssize_t, -1, lgetxattr, (const char *path, const char *name, void *value, size_t size),
           (path, name, value, size))
TAKES_PATH(ssize_t, -1, listxattr, (const char *path, char *list, size_t size), (path, list, size))
TAKES_PATH(ssize_t, -1, llistxattr, (const char *path, char *list, size_t size), (path, list, size))

TAKES_PATH(ssize_t, -1, readlink, (const char *path, char *result, size_t size), (path, result, size))
TAKES_PATH(ssize_t, -1, readlinkat, (int folder, const char *path, char *result, size_t size),
           (folder, path, result, size))
TAKES_PATH(ssize_t, -1, __readlink_chk, (const char *path, char *result, size_t size, size_t room),
           (path, result, size, room))
TAKES_PATH(ssize_t, -1, __readlinkat_chk, (int folder, const char *path, char *result, size_t size, size_t room),
           (folder, path, result, size, room))

// The paths that these answer are such that a program may show them, take them apart and ask for them again.
#define ANSWERS_PATH(symbol, parameters, arguments) \
    FUNCTION(symbol);                               \
    char *symbol parameters;                        \
    char *symbol parameters {                       \
        NEXT(symbol, NULL)                          \
        return as_seen(libc arguments);             \
    }

#define RESOLVES(symbol, parameters, arguments) \
    FUNCTION(symbol);                           \
    char *symbol parameters;                    \
    char *symbol parameters {                   \
        char place[PLACE_BYTES];                \
        NEXT(symbol, NULL)                      \
        path = meant(path, place);              \
        return as_seen(libc arguments);         \
    }

RESOLVES(realpath, (const char *path, char *result), (path, result))
RESOLVES(__realpath_chk, (const char *path, char *result, size_t room), (path, result, room))
RESOLVES(canonicalize_file_name, (const char *path), (path))
ANSWERS_PATH(getcwd, (char *result, size_t size), (result, size))
ANSWERS_PATH(__getcwd_chk, (char *result, size_t size, size_t room), (result, size, room))
ANSWERS_PATH(get_current_dir_name, (void), ())

// Libraries. dlopen() and dlmopen() are in dlopen.S, and ask here.

// Which library is meant, and the function of the C library that loads it.
struct load {
    const char *path;
    void *libc;
};

static const struct {
    // What linkers look for, and what it is called in a program that was linked to it.
    const char *file, *soname;
} LIBRARIES[] = {
    {"libibverbs.so", "libibverbs.so.1"},
    {"librdmacm.so", "librdmacm.so.1"},
};

// Whether a file is called so, or has the rest of its version behind it: libibverbs.so.1.14.44.0 is what the other
// names are links to, and what realpath() answers.
static bool is_called(const char *file, const char *soname) {
    size_t length = strlen(soname);
    if (strncmp(file, soname, length) != 0) {
        return false;
    }
    const char *rest = file + length;
    return *rest == '\0' || (*rest == '.' && rest[strspn(rest, ".0123456789")] == '\0');
}

// A path, in whatever folder, becomes a name. By that the C library finds ours, which `ferroce run` has preloaded; in
// a new namespace it looks for it, first in the folder of LD_LIBRARY_PATH. A name stays as it is.
static const char *library(const char *path) {
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    if (slash == NULL) {
        return path;
    }
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof *LIBRARIES; i++) {
        const char *soname = LIBRARIES[i].soname;
        if (strcmp(slash + 1, LIBRARIES[i].file) == 0 || is_called(slash + 1, soname)) {
            return soname;
        }
    }
    return path;
}

static void *loads_nothing(void) {
    return NULL;
}

static struct load load(const char *path, struct function *function) {
    void *libc = next(function);
    return (struct load){library(path), libc == NULL ? (void *)loads_nothing : libc};
}

#define LOADS(symbol)                                                                          \
    FUNCTION(symbol);                                                                          \
    struct load ferroce_##symbol(const char *path) __attribute__((visibility("hidden")));      \
    struct load ferroce_##symbol(const char *path) {                                           \
        return load(path, &symbol##_function);                                                 \
    }

LOADS(dlopen)
LOADS(dlmopen)
