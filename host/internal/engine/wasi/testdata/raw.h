/* raw.h: WASI preview 1 without a C library, for guests that test the host functions
 * themselves. Each program has a table of tests; the first argument names the one to
 * run. Descriptor 3 is a writable folder that is empty at the start. */
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define IMPORT(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name)))
typedef struct { const void *p; u32 n; } iov;
typedef struct { u8 type; u16 flags; u64 base, inherit; } fdstat;
typedef struct { u64 dev, ino; u8 type; u64 nlink, size, atim, mtim, ctim; } filestat;

IMPORT(args_get) int args_get(void *, void *);
IMPORT(args_sizes_get) int args_sizes_get(void *, void *);
IMPORT(environ_get) int environ_get(void *, void *);
IMPORT(environ_sizes_get) int environ_sizes_get(void *, void *);
IMPORT(clock_res_get) int clock_res_get(u32, void *);
IMPORT(clock_time_get) int clock_time_get(u32, u64, void *);
IMPORT(fd_advise) int fd_advise(u32, u64, u64, u32);
IMPORT(fd_allocate) int fd_allocate(u32, u64, u64);
IMPORT(fd_close) int fd_close(u32);
IMPORT(fd_datasync) int fd_datasync(u32);
IMPORT(fd_fdstat_get) int fd_fdstat_get(u32, void *);
IMPORT(fd_fdstat_set_flags) int fd_fdstat_set_flags(u32, u32);
IMPORT(fd_fdstat_set_rights) int fd_fdstat_set_rights(u32, u64, u64);
IMPORT(fd_filestat_get) int fd_filestat_get(u32, void *);
IMPORT(fd_filestat_set_size) int fd_filestat_set_size(u32, u64);
IMPORT(fd_filestat_set_times) int fd_filestat_set_times(u32, u64, u64, u32);
IMPORT(fd_pread) int fd_pread(u32, const void *, u32, u64, void *);
IMPORT(fd_prestat_get) int fd_prestat_get(u32, void *);
IMPORT(fd_prestat_dir_name) int fd_prestat_dir_name(u32, void *, u32);
IMPORT(fd_pwrite) int fd_pwrite(u32, const void *, u32, u64, void *);
IMPORT(fd_read) int fd_read(u32, const void *, u32, void *);
IMPORT(fd_readdir) int fd_readdir(u32, void *, u32, u64, void *);
IMPORT(fd_renumber) int fd_renumber(u32, u32);
IMPORT(fd_seek) int fd_seek(u32, i64, u32, void *);
IMPORT(fd_sync) int fd_sync(u32);
IMPORT(fd_tell) int fd_tell(u32, void *);
IMPORT(fd_write) int fd_write(u32, const void *, u32, void *);
IMPORT(path_create_directory) int path_create_directory(u32, const void *, u32);
IMPORT(path_filestat_get) int path_filestat_get(u32, u32, const void *, u32, void *);
IMPORT(path_filestat_set_times) int path_filestat_set_times(u32, u32, const void *, u32, u64, u64, u32);
IMPORT(path_link) int path_link(u32, u32, const void *, u32, u32, const void *, u32);
IMPORT(path_open) int path_open(u32, u32, const void *, u32, u32, u64, u64, u32, void *);
IMPORT(path_readlink) int path_readlink(u32, const void *, u32, void *, u32, void *);
IMPORT(path_remove_directory) int path_remove_directory(u32, const void *, u32);
IMPORT(path_rename) int path_rename(u32, const void *, u32, u32, const void *, u32);
IMPORT(path_symlink) int path_symlink(const void *, u32, u32, const void *, u32);
IMPORT(path_unlink_file) int path_unlink_file(u32, const void *, u32);
IMPORT(poll_oneoff) int poll_oneoff(const void *, void *, u32, void *);
IMPORT(proc_exit) void proc_exit(u32);
IMPORT(proc_raise) int proc_raise(u32);
IMPORT(random_get) int random_get(void *, u32);
IMPORT(sched_yield) int sched_yield(void);
IMPORT(sock_accept) int sock_accept(u32, u32, void *);
IMPORT(sock_recv) int sock_recv(u32, const void *, u32, u32, void *, void *);
IMPORT(sock_send) int sock_send(u32, const void *, u32, u32, void *);
IMPORT(sock_shutdown) int sock_shutdown(u32, u32);

enum { ACCES = 2, BADF = 8, EXIST = 20, FAULT = 21, FBIG = 22, INVAL = 28, ISDIR = 31, LOOP = 32, MFILE = 33,
       NAMETOOLONG = 37, NOENT = 44, NOSYS = 52, NOTDIR = 54, NOTEMPTY = 55, NOTSOCK = 57, NOTSUP = 58,
       OVERFLOW = 61, PERM = 63, ROFS = 69, SPIPE = 70, XDEV = 75, NOTCAPABLE = 76 };
enum { FOLLOW = 1, CREAT = 1, DIRECTORY = 2, EXCL = 4, TRUNC = 8 };
enum { APPEND = 1, DSYNC = 2, NONBLOCK = 4, RSYNC = 8, SYNC = 16 };
enum { T_UNKNOWN = 0, T_DIR = 3, T_FILE = 4, T_LINK = 7 };
#define R_DATASYNC (1ull << 0)
#define R_READ (1ull << 1)
#define R_SEEK (1ull << 2)
#define R_SET_FLAGS (1ull << 3)
#define R_SYNC (1ull << 4)
#define R_TELL (1ull << 5)
#define R_WRITE (1ull << 6)
#define R_ADVISE (1ull << 7)
#define R_ALLOCATE (1ull << 8)
#define R_READDIR (1ull << 14)
#define R_PATH_SET_SIZE (1ull << 19)
#define R_STAT (1ull << 21)
#define R_SET_SIZE (1ull << 22)
#define R_SET_TIMES (1ull << 23)
#define R_ALL ((1ull << 30) - 1)
#define R_RW (R_READ | R_WRITE | R_SEEK | R_TELL | R_STAT | R_SET_SIZE | R_SET_TIMES | R_SET_FLAGS | R_ADVISE | R_ALLOCATE | R_SYNC | R_DATASYNC)

static int failed;
static u32 len(const char *s) { u32 n = 0; while (s[n]) n++; return n; }
static int eq(const void *a, const void *b, u32 n) {
  for (u32 i = 0; i < n; i++) if (((const u8 *)a)[i] != ((const u8 *)b)[i]) return 0;
  return 1;
}
static void put(const char *s) { iov v = {s, len(s)}; u32 n; (void)fd_write(1, &v, 1, &n); }
static void num(u64 v) {
  char b[24]; u32 i = 23; b[i] = 0;
  do b[--i] = '0' + v % 10; while (v /= 10);
  put(b + i);
}
/* want checks that an errno is one of the list, which ends with -1. */
static void want_(int line, const char *what, int got, const int *list) {
  for (const int *p = list; *p >= 0; p++) if (*p == got) return;
  failed = 1;
  put("line "); num(line); put(": "); put(what); put(": errno "); num(got); put("\n");
}
#define WANT(call, ...) want_(__LINE__, #call, call, (const int[]){__VA_ARGS__, -1})
#define OK(call) WANT(call, 0)
#define CHECK(cond) do { if (!(cond)) { failed = 1; put("line "); num(__LINE__); put(": " #cond "\n"); } } while (0)
#define S(s) s, len(s)

static u32 open_(int line, u32 dir, u32 look, const char *name, u32 o, u64 base, u64 inherit, u32 fl) {
  u32 fd = ~0u;
  want_(line, name, path_open(dir, look, S(name), o, base, inherit, fl, &fd), (const int[]){0, -1});
  return fd;
}
#define OPEN(dir, look, name, o, base, inherit, fl) open_(__LINE__, dir, look, name, o, base, inherit, fl)
#define TRY(dir, look, name, o, base, inherit, fl) path_open(dir, look, S(name), o, base, inherit, fl, &(u32){0})
static void touch(u32 dir, const char *name) { OK(fd_close(OPEN(dir, 0, name, CREAT, 0, 0, 0))); }
static int wr(u32 fd, const void *p, u32 n) { iov v = {p, n}; u32 k = 0; int e = fd_write(fd, &v, 1, &k); return e ? -e : (int)k; }
static int rd(u32 fd, void *p, u32 n) { iov v = {p, n}; u32 k = 0; int e = fd_read(fd, &v, 1, &k); return e ? -e : (int)k; }
static u64 size(u32 dir, const char *name) { filestat st = {0}; OK(path_filestat_get(dir, 0, S(name), &st)); return st.size; }

struct test { const char *name; void (*f)(void); };
#define MAIN(list) \
  __attribute__((export_name("_start"))) void _start(void) { \
    static char buf[4096]; static char *av[64]; u32 n, b; \
    OK(args_sizes_get(&n, &b)); \
    if (n < 2 || n > 64 || b > sizeof buf) proc_exit(2); \
    OK(args_get(av, buf)); \
    for (u32 i = 0; i < sizeof list / sizeof *list; i++) \
      if (len(list[i].name) == len(av[1]) && eq(list[i].name, av[1], len(av[1]))) { list[i].f(); proc_exit(failed); } \
    put("no such test\n"); proc_exit(2); \
  }
