/* fd.c: descriptors: reading, writing, flags, rights, times, directories. */
#include "raw.h"

static void read_write(void) {
  u32 f = OPEN(3, 0, "f", CREAT | EXCL, R_RW, 0, 0);
  CHECK(f > 3);
  iov v[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}};
  u32 n = 0;
  OK(fd_write(f, v, 3, &n)); CHECK(n == 6);
  u64 pos; OK(fd_tell(f, &pos)); CHECK(pos == 6);
  OK(fd_seek(f, -4, 1, &pos)); CHECK(pos == 2);
  char a[3], b[9];
  iov r[2] = {{a, 3}, {b, 9}};
  OK(fd_read(f, r, 2, &n)); CHECK(n == 4 && eq(a, "cde", 3) && b[0] == 'f');
  OK(fd_read(f, r, 2, &n)); CHECK(n == 0);
  OK(fd_pwrite(f, v, 1, 4, &n)); CHECK(n == 2);
  OK(fd_pread(f, r, 1, 3, &n)); CHECK(n == 3 && eq(a, "dab", 3));
  OK(fd_tell(f, &pos)); CHECK(pos == 6);
  OK(fd_seek(f, 100, 2, &pos)); CHECK(pos == 106);
  WANT(fd_seek(f, -200, 1, &pos), INVAL);
  WANT(fd_seek(f, 0, 7, &pos), INVAL);
  OK(fd_tell(f, &pos)); CHECK(pos == 106);
  OK(fd_sync(f)); OK(fd_datasync(f));
  OK(fd_close(f));
  WANT(fd_close(f), BADF);
  CHECK(rd(f, a, 1) == -BADF);
}

static void read_only_write_only(void) {
  touch(3, "f");
  u32 r = OPEN(3, 0, "f", 0, R_READ, 0, 0), w = OPEN(3, 0, "f", 0, R_WRITE, 0, 0);
  fdstat st;
  OK(fd_fdstat_get(r, &st)); CHECK((st.base & R_READ) && !(st.base & R_WRITE) && st.type == T_FILE);
  OK(fd_fdstat_get(w, &st)); CHECK(!(st.base & R_READ) && (st.base & R_WRITE));
  char b[8];
  CHECK(wr(r, "x", 1) == -BADF);
  CHECK(rd(w, b, 1) == -BADF);
  CHECK(wr(w, "hello", 5) == 5);
  CHECK(rd(r, b, 8) == 5 && eq(b, "hello", 5)); /* unbuffered */
}

static void append_and_flags(void) {
  u32 f = OPEN(3, 0, "f", CREAT, R_RW, 0, APPEND);
  u64 pos;
  CHECK(wr(f, "aa", 2) == 2);
  OK(fd_seek(f, 0, 0, &pos));
  CHECK(wr(f, "bb", 2) == 2);
  OK(fd_tell(f, &pos)); CHECK(pos == 4);
  fdstat st;
  OK(fd_fdstat_get(f, &st)); CHECK(st.flags == APPEND);
  OK(fd_fdstat_set_flags(f, 0));
  OK(fd_seek(f, 0, 0, &pos));
  CHECK(wr(f, "cc", 2) == 2);
  char b[8];
  OK(fd_seek(f, 0, 0, &pos));
  CHECK(rd(f, b, 8) == 4 && eq(b, "ccbb", 4));
  u32 all = APPEND | DSYNC | NONBLOCK | RSYNC | SYNC;
  OK(fd_fdstat_set_flags(f, all));
  OK(fd_fdstat_get(f, &st)); CHECK(st.flags == all);
  CHECK(wr(f, "dd", 2) == 2);
  OK(fd_fdstat_set_flags(f, SYNC)); OK(fd_fdstat_get(f, &st)); CHECK(st.flags == SYNC);
  WANT(fd_fdstat_set_flags(f, 64), INVAL);
  OK(fd_close(f));
  f = OPEN(3, 0, "f", 0, R_RW, 0, APPEND | SYNC);
  OK(fd_fdstat_get(f, &st)); CHECK(st.flags == (APPEND | SYNC));
  iov v = {"zzz", 3}; u32 n;
  OK(fd_pwrite(f, &v, 1, 0, &n)); CHECK(n == 3);
  OK(fd_tell(f, &pos)); CHECK(pos == 0);
  u64 s = size(3, "f"); CHECK(s == 6 || s == 9);
}

static void rights(void) {
  u32 f = OPEN(3, 0, "f", CREAT, R_READ | R_WRITE | R_SEEK | R_TELL, 0, 0);
  u64 pos; char b[4];
  CHECK(wr(f, "abcd", 4) == 4);
  OK(fd_seek(f, 0, 0, &pos));
  CHECK(rd(f, b, 4) == 4);
  fdstat st;
  OK(fd_fdstat_get(f, &st));
  OK(fd_fdstat_set_rights(f, st.base, st.inherit));
  OK(fd_fdstat_set_rights(f, st.base & ~(R_READ | R_WRITE), st.inherit));
  OK(fd_fdstat_get(f, &st)); CHECK(st.base == (R_SEEK | R_TELL));
  CHECK(rd(f, b, 4) < 0 && wr(f, b, 4) < 0);
  WANT(fd_fdstat_set_rights(f, R_READ | R_SEEK | R_TELL, 0), NOTCAPABLE);
  WANT(fd_fdstat_set_rights(f, R_SEEK, R_ALL), NOTCAPABLE);
  WANT(fd_filestat_get(f, &(filestat){0}), NOTCAPABLE);
  WANT(fd_filestat_set_size(f, 0), NOTCAPABLE);
  WANT(fd_filestat_set_times(f, 0, 0, 0), NOTCAPABLE);
  WANT(fd_fdstat_set_flags(f, 0), NOTCAPABLE);
  WANT(fd_allocate(f, 0, 1), NOTCAPABLE);
  WANT(fd_advise(f, 0, 0, 0), NOTCAPABLE);
  WANT(fd_sync(f), NOTCAPABLE); WANT(fd_datasync(f), NOTCAPABLE);
  OK(fd_fdstat_set_rights(f, R_TELL, 0));
  OK(fd_tell(f, &pos)); OK(fd_seek(f, 0, 1, &pos));
  WANT(fd_seek(f, 1, 1, &pos), NOTCAPABLE);
  OK(fd_fdstat_set_rights(f, 0, 0));
  WANT(fd_tell(f, &pos), NOTCAPABLE);
  WANT(fd_fdstat_set_rights(99, 0, 0), BADF);
}

/* What a directory does not pass on, nothing opened from it has. */
static void inheriting_rights(void) {
  OK(path_create_directory(3, S("d")));
  touch(3, "d/f");
  fdstat st;
  OK(fd_fdstat_get(3, &st));
  u32 d = OPEN(3, 0, "d", DIRECTORY, st.base, st.inherit & ~R_WRITE & ~R_SET_SIZE, 0);
  WANT(TRY(d, 0, "f", 0, R_READ | R_WRITE, 0, 0), NOTCAPABLE);
  u32 f = OPEN(d, 0, "f", 0, R_READ | R_SET_SIZE | R_STAT, R_ALL, 0);
  OK(fd_fdstat_get(f, &st)); CHECK(st.base == (R_READ | R_STAT));
  OK(fd_fdstat_get(d, &st));
  OK(fd_fdstat_set_rights(d, st.base & ~R_PATH_SET_SIZE, st.inherit));
  WANT(TRY(d, 0, "f", TRUNC, 0, 0, 0), NOTCAPABLE);
  OK(fd_fdstat_set_rights(d, 1 << 13, 0)); /* path_open only */
  OK(fd_close(OPEN(d, 0, "f", 0, 0, 0, 0)));
  WANT(TRY(d, 0, "g", CREAT, 0, 0, 0), NOTCAPABLE);
  WANT(path_create_directory(d, S("x")), NOTCAPABLE);
  WANT(path_unlink_file(d, S("f")), NOTCAPABLE);
  WANT(path_remove_directory(d, S("f")), NOTCAPABLE);
  WANT(path_filestat_get(d, 0, S("f"), &(filestat){0}), NOTCAPABLE);
  WANT(path_filestat_set_times(d, 0, S("f"), 0, 0, 0), NOTCAPABLE);
  WANT(path_rename(d, S("f"), 3, S("g")), NOTCAPABLE);
  WANT(path_rename(3, S("d/f"), d, S("g")), NOTCAPABLE);
  WANT(path_link(d, 0, S("f"), 3, S("g")), NOTCAPABLE);
  WANT(path_link(3, 0, S("d/f"), d, S("g")), NOTCAPABLE);
  WANT(path_symlink(S("f"), d, S("g")), NOTCAPABLE);
  WANT(path_readlink(d, S("f"), &(char){0}, 1, &(u32){0}), NOTCAPABLE);
  WANT(fd_readdir(d, &(char){0}, 1, 0, &(u32){0}), NOTCAPABLE);
  OK(fd_fdstat_set_rights(d, 0, 0));
  WANT(TRY(d, 0, "f", 0, 0, 0, 0), NOTCAPABLE);
}

static void truncate_allocate_advise(void) {
  u32 f = OPEN(3, 0, "f", CREAT, R_RW, 0, 0);
  filestat st;
  OK(fd_allocate(f, 0, 100)); OK(fd_filestat_get(f, &st)); CHECK(st.size == 100);
  OK(fd_allocate(f, 10, 10)); OK(fd_filestat_get(f, &st)); CHECK(st.size == 100);
  OK(fd_allocate(f, 90, 20)); OK(fd_filestat_get(f, &st)); CHECK(st.size == 110);
  WANT(fd_allocate(f, 0, 0), INVAL);
  WANT(fd_allocate(f, ~0ull, 1), INVAL);
  OK(fd_filestat_set_size(f, 5)); CHECK(size(3, "f") == 5);
  OK(fd_filestat_set_size(f, 50)); CHECK(size(3, "f") == 50);
  WANT(fd_filestat_set_size(f, 1ull << 62), FBIG);
  WANT(fd_filestat_set_size(f, ~0ull), INVAL);
  for (u32 a = 0; a < 6; a++) OK(fd_advise(f, 0, 10, a));
  WANT(fd_advise(f, 0, 10, 6), INVAL);
  WANT(fd_advise(f, ~0ull, 10, 0), INVAL);
  CHECK(size(3, "f") == 50);
  OK(fd_close(f));
  f = OPEN(3, 0, "f", TRUNC, R_READ | R_STAT, 0, 0);
  OK(fd_filestat_get(f, &st)); CHECK(st.size == 0 && st.type == T_FILE && st.nlink == 1 && st.ino != 0);
  f = OPEN(3, 0, "f", TRUNC, 0, 0, 0);
}

static void times(void) {
  u32 f = OPEN(3, 0, "f", CREAT, R_RW, 0, 0);
  filestat st, now;
  OK(fd_filestat_get(f, &st));
  CHECK(st.mtim > 0 && st.atim > 0 && st.ctim > 0);
  OK(fd_filestat_set_times(f, 5, st.mtim - 100, 4));
  OK(fd_filestat_get(f, &now)); CHECK(now.mtim == st.mtim - 100 && now.atim == st.atim);
  OK(fd_filestat_set_times(f, 123456789, 5, 1));
  OK(fd_filestat_get(f, &now)); CHECK(now.mtim == st.mtim - 100 && now.atim == 123456789);
  OK(fd_filestat_set_times(f, 0, 0, 2 | 8));
  OK(fd_filestat_get(f, &now)); CHECK(now.mtim >= st.mtim && now.atim >= st.mtim);
  OK(fd_filestat_set_times(f, 7, 7, 0));
  st = now;
  WANT(fd_filestat_set_times(f, 1, 2, 1 | 2), INVAL);
  WANT(fd_filestat_set_times(f, 1, 2, 4 | 8), INVAL);
  WANT(fd_filestat_set_times(f, 1, 2, 16), INVAL);
  WANT(path_filestat_set_times(3, 0, S("f"), 1, 2, 1 | 2), INVAL);
  WANT(path_filestat_set_times(3, 0, S("f"), 1, 2, 4 | 8), INVAL);
  OK(fd_filestat_get(f, &now)); CHECK(now.mtim == st.mtim && now.atim == st.atim);
  OK(path_filestat_set_times(3, 0, S("f"), 1000, 2000, 1 | 4));
  OK(path_filestat_get(3, 0, S("f"), &now)); CHECK(now.atim == 1000 && now.mtim == 2000);
  OK(path_filestat_set_times(3, 0, S("f"), 0, 0, 8));
  OK(path_filestat_get(3, 0, S("f"), &now)); CHECK(now.mtim > 2000);
  WANT(path_filestat_set_times(3, 0, S("none"), 0, 0, 8), NOENT);
  OK(path_symlink(S("f"), 3, S("l")));
  OK(path_filestat_get(3, 0, S("l"), &st));
  OK(path_filestat_set_times(3, 0, S("l"), 0, 4242, 4));
  OK(path_filestat_get(3, 0, S("l"), &now)); CHECK(now.mtim == 4242 && now.type == T_LINK);
  OK(path_filestat_get(3, FOLLOW, S("l"), &now)); CHECK(now.mtim != 4242 && now.type == T_FILE);
  OK(path_filestat_set_times(3, FOLLOW, S("l"), 0, 4343, 4));
  OK(path_filestat_get(3, 0, S("f"), &now)); CHECK(now.mtim == 4343);
}

static void renumber(void) {
  u32 a = OPEN(3, 0, "a", CREAT, R_READ | R_WRITE | R_STAT, 0, APPEND), b = OPEN(3, 0, "b", CREAT, R_READ | R_STAT, 0, 0);
  fdstat fa, fb; filestat sa, sb;
  OK(fd_fdstat_get(a, &fa)); OK(fd_filestat_get(a, &sa));
  OK(fd_renumber(a, b));
  WANT(fd_close(a), BADF);
  OK(fd_fdstat_get(b, &fb)); OK(fd_filestat_get(b, &sb));
  CHECK(fa.type == fb.type && fa.flags == fb.flags && fa.base == fb.base && fa.inherit == fb.inherit && sa.ino == sb.ino);
  WANT(fd_renumber(b, a), BADF);
  WANT(fd_renumber(a, b), BADF);
  WANT(fd_renumber(b, 1000), BADF);
  OK(fd_renumber(b, b));
  OK(fd_fdstat_get(b, &fb));
  /* over a preopen */
  OK(path_create_directory(3, S("d")));
  u32 d = OPEN(3, 0, "d", DIRECTORY, R_ALL & ~R_WRITE, R_ALL, 0);
  OK(fd_filestat_get(d, &sa));
  OK(fd_renumber(d, 3));
  OK(fd_filestat_get(3, &sb)); CHECK(sa.ino == sb.ino && sa.dev == sb.dev);
  WANT(fd_fdstat_get(d, &fb), BADF);
  WANT(fd_prestat_get(3, &(u64){0}), BADF);
  touch(3, "in-d");
  /* stdio onto a file's number */
  u32 f = OPEN(3, 0, "f", CREAT, 0, 0, 0);
  OK(fd_renumber(2, f));
  WANT(fd_fdstat_get(2, &fb), BADF);
  CHECK(wr(f, "to stderr", 9) == 9);
  OK(fd_close(f));
}

static void preopens(void) {
  struct { u8 tag; u32 n; } pre;
  OK(fd_prestat_get(3, &pre)); CHECK(pre.tag == 0 && pre.n == 1);
  char name[4] = "....";
  WANT(fd_prestat_dir_name(3, name, 0), NAMETOOLONG);
  OK(fd_prestat_dir_name(3, name, 3)); CHECK(eq(name, "/...", 4));
  for (u32 fd = 0; fd < 3; fd++) WANT(fd_prestat_get(fd, &pre), BADF);
  WANT(fd_prestat_get(4, &pre), BADF);
  WANT(fd_prestat_dir_name(4, name, 4), BADF);
  fdstat st;
  OK(fd_fdstat_get(3, &st));
  CHECK(st.type == T_DIR && st.flags == 0 && !(st.base & (R_READ | R_WRITE | R_SEEK | R_TELL | R_SET_SIZE)));
  CHECK((st.inherit & R_RW) == R_RW);
  u32 again = OPEN(3, 0, ".", 0, st.base, st.inherit, 0);
  fdstat st2;
  OK(fd_fdstat_get(again, &st2)); CHECK(st2.base == st.base && st2.inherit == st.inherit);
  WANT(fd_prestat_get(again, &pre), BADF);
  OPEN(3, 0, ".", 0, 0, 0, 0);
  OPEN(3, 0, ".", DIRECTORY, 0, 0, 0);
  OPEN(3, 0, ".", DIRECTORY, R_READ, 0, 0);
  OPEN(3, 0, ".", 0, 0, 0, NONBLOCK);
  WANT(TRY(3, 0, ".", DIRECTORY, R_READ | R_WRITE, 0, 0), ISDIR);
  filestat a, b;
  OK(fd_filestat_get(3, &a)); OK(fd_filestat_get(again, &b)); CHECK(a.ino == b.ino && a.type == T_DIR);
  OK(fd_close(3));
  WANT(fd_fdstat_get(3, &st), BADF);
  WANT(TRY(3, 0, "x", CREAT, 0, 0, 0), BADF);
  touch(again, "still");
}

static void directory_as_file(void) {
  OK(path_create_directory(3, S("d")));
  u32 d = OPEN(3, 0, "d", DIRECTORY, R_ALL & ~R_WRITE, R_ALL, 0);
  fdstat st; u64 pos; char b[4]; iov v = {b, 4}; u32 n;
  OK(fd_fdstat_get(d, &st)); CHECK(st.type == T_DIR && !(st.base & (R_READ | R_SEEK)));
  for (u32 w = 0; w < 3; w++) WANT(fd_seek(d, 0, w, &pos), ISDIR, BADF, NOTCAPABLE);
  WANT(fd_tell(d, &pos), ISDIR, BADF, NOTCAPABLE);
  CHECK(rd(d, b, 4) == -ISDIR); CHECK(wr(d, b, 4) == -ISDIR);
  WANT(fd_pread(d, &v, 1, 0, &n), ISDIR); WANT(fd_pwrite(d, &v, 1, 0, &n), ISDIR);
  WANT(fd_allocate(d, 0, 1), ISDIR, BADF, NOTCAPABLE);
  WANT(fd_filestat_set_size(d, 0), ISDIR, INVAL, BADF, NOTCAPABLE);
  WANT(fd_advise(d, 0, 0, 0), BADF);
  OK(fd_filestat_set_times(d, 0, 77, 4));
  filestat fs; OK(fd_filestat_get(d, &fs)); CHECK(fs.mtim == 77);
  OK(fd_sync(d)); OK(fd_datasync(d));
  OK(fd_fdstat_set_flags(d, NONBLOCK));
  touch(3, "f");
  u32 f = OPEN(3, 0, "f", 0, R_ALL & ~R_WRITE, 0, 0);
  WANT(TRY(f, 0, "x", CREAT, 0, 0, 0), NOTDIR);
  WANT(path_create_directory(f, S("x")), NOTDIR);
  WANT(fd_readdir(f, b, 4, 0, &n), NOTDIR);
}

static u8 big[70000];

/* list counts the entries seen through a buffer of n bytes. */
static u32 list(u32 fd, u32 n, u64 *last_cookie) {
  u32 total = 0, used;
  u64 cookie = 0;
  for (;;) {
    OK(fd_readdir(fd, big, n, cookie, &used));
    CHECK(used <= n);
    u32 at = 0, whole = 0;
    while (at + 24 <= used) {
      u32 name = *(u32 *)(big + at + 16);
      if (at + 24 + name > used) break;
      cookie = *(u64 *)(big + at);
      at += 24 + name;
      total++; whole++;
    }
    if (used < n) break;
    CHECK(whole > 0);
    if (!whole) break;
  }
  *last_cookie = cookie;
  return total;
}

static void readdir(void) {
  OK(path_create_directory(3, S("d")));
  u32 d = OPEN(3, 0, "d", DIRECTORY, R_READDIR | R_STAT, R_ALL, 0), used;
  filestat st; OK(fd_filestat_get(d, &st));
  OK(fd_readdir(d, big, sizeof big, 0, &used));
  CHECK(used == 2 * 24 + 3);
  CHECK(*(u64 *)(big + 8) == st.ino && *(u32 *)(big + 16) == 1 && big[20] == T_DIR && big[24] == '.');
  u64 c; CHECK(list(d, 64, &c) == 2);
  char name[] = "d/file-000";
  for (u32 i = 0; i < 300; i++) {
    name[7] = '0' + i / 100; name[8] = '0' + i / 10 % 10; name[9] = '0' + i % 10;
    touch(3, name);
  }
  CHECK(list(d, 64, &c) == 302);
  CHECK(list(d, 256, &c) == 302);
  CHECK(list(d, sizeof big, &c) == 302);
  OK(fd_readdir(d, big, sizeof big, c, &used)); CHECK(used == 0);
  OK(fd_readdir(d, big, 0, 0, &used)); CHECK(used == 0);
  OK(fd_readdir(d, big, 10, 0, &used)); CHECK(used == 10);
  /* a cookie from the middle leads to the same entry again */
  OK(fd_readdir(d, big, 1000, 0, &used));
  u64 first = *(u64 *)big;
  u8 second[40];
  u32 at = 24 + *(u32 *)(big + 16);
  for (u32 i = 0; i < 40; i++) second[i] = big[at + i];
  OK(fd_readdir(d, big, 40, first, &used)); CHECK(used == 40 && eq(big, second, 24));
  WANT(fd_readdir(d, big, 100, 1ull << 40, &used), INVAL);
  CHECK(list(3, 100, &c) == 3); /* a preopen: . .. d */
}

static void lots(void) {
  touch(3, "f");
  for (u32 i = 0; i < 2000; i++) OK(fd_close(OPEN(3, 0, "f", 0, R_READ, 0, 0)));
  u32 n = 0, fd;
  while (n < 100000 && path_open(3, 0, S("f"), 0, R_READ, 0, 0, &fd) == 0) n++;
  CHECK(n == 64);
  WANT(TRY(3, 0, "f", 0, 0, 0, 0), MFILE);
  OK(fd_close(fd));
  OPEN(3, 0, "f", 0, 0, 0, 0);
}

static const struct test tests[] = {
  {"read_write", read_write}, {"read_only_write_only", read_only_write_only}, {"append_and_flags", append_and_flags},
  {"rights", rights}, {"inheriting_rights", inheriting_rights}, {"truncate_allocate_advise", truncate_allocate_advise},
  {"times", times}, {"renumber", renumber}, {"preopens", preopens}, {"directory_as_file", directory_as_file},
  {"readdir", readdir}, {"lots", lots},
};
MAIN(tests)
