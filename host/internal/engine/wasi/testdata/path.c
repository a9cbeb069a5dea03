/* path.c: names: opening, links, renames, removal, trailing slashes, odd paths. */
#include "raw.h"

static void open_flags(void) {
  WANT(TRY(3, 0, "f", 0, 0, 0, 0), NOENT);
  touch(3, "f");
  WANT(TRY(3, 0, "f", CREAT | EXCL, 0, 0, 0), EXIST);
  OPEN(3, 0, "f", CREAT, R_RW, 0, 0);
  WANT(TRY(3, 0, "f", DIRECTORY, 0, 0, 0), NOTDIR);
  WANT(TRY(3, 0, "f/x", CREAT, 0, 0, 0), NOTDIR);
  WANT(TRY(3, 0, "none/x", CREAT, 0, 0, 0), NOENT);
  WANT(TRY(3, 0, "d", CREAT | DIRECTORY, 0, 0, 0), INVAL);
  WANT(TRY(3, 0, "f", 16, 0, 0, 0), INVAL);
  WANT(TRY(3, 0, "f", 0, 0, 0, 32), INVAL);
  WANT(TRY(3, 2, "f", 0, 0, 0, 0), INVAL);
  WANT(TRY(99, 0, "f", 0, 0, 0, 0), BADF);
  WANT(TRY(1, 0, "f", 0, 0, 0, 0), NOTDIR);
  OK(path_create_directory(3, S("d")));
  WANT(TRY(3, 0, "d", 0, R_READ | R_WRITE, 0, 0), ISDIR);
  WANT(TRY(3, 0, "d", TRUNC, 0, 0, 0), ISDIR);
  OPEN(3, 0, "d", 0, R_READ, 0, 0);
}

static void truncation(void) {
  u32 f = OPEN(3, 0, "f", CREAT, R_WRITE, 0, 0);
  CHECK(wr(f, "to be cut", 9) == 9);
  OK(fd_close(f));
  f = OPEN(3, 0, "f", CREAT | TRUNC, R_READ | R_WRITE, 0, 0);
  CHECK(rd(f, &(char[9]){0}, 9) == 0);
  CHECK(wr(f, "12345", 5) == 5);
  OK(fd_close(f));
  OPEN(3, 0, "f", TRUNC, 0, 0, 0);
  CHECK(size(3, "f") == 0);
}

static void interesting(void) {
  OK(path_create_directory(3, S("d"))); OK(path_create_directory(3, S("d/n"))); touch(3, "d/n/f");
  WANT(TRY(3, 0, "/d/n/f", 0, 0, 0, 0), PERM, NOTCAPABLE);
  OPEN(3, 0, "d/.//n/../../d/n/../n///./f", 0, 0, 0, 0);
  WANT(path_open(3, 0, "d/n/f\0", 6, 0, 0, 0, 0, &(u32){0}), INVAL);
  WANT(path_open(3, 0, "", 0, 0, 0, 0, 0, &(u32){0}), NOENT);
  WANT(TRY(3, 0, "d/n/f/", 0, 0, 0, 0), NOTDIR, NOENT);
  WANT(TRY(3, 0, "d/n/f///", 0, 0, 0, 0), NOTDIR, NOENT);
  OPEN(3, 0, "d/n/", 0, 0, 0, 0); OPEN(3, 0, "d/n///", 0, 0, 0, 0); OPEN(3, 0, "d/n/.", 0, 0, 0, 0);
  WANT(TRY(3, 0, "d/n/../../../x/d/n/f", 0, 0, 0, 0), PERM, NOTCAPABLE);
  WANT(TRY(3, 0, "..", 0, 0, 0, 0), PERM, NOTCAPABLE);
  u32 d = OPEN(3, 0, "d", DIRECTORY, R_ALL & ~R_WRITE, R_ALL, 0);
  WANT(TRY(d, 0, "..", 0, 0, 0, 0), PERM, NOTCAPABLE);
  WANT(TRY(d, 0, "../d/n", 0, 0, 0, 0), PERM, NOTCAPABLE);
  OPEN(d, 0, "n/../n/f", 0, 0, 0, 0);
  static char longname[5000];
  for (u32 i = 0; i < 5000; i++) longname[i] = 'x';
  WANT(path_open(3, 0, longname, 300, CREAT, 0, 0, 0, &(u32){0}), NAMETOOLONG);
  WANT(path_open(3, 0, longname, 5000, CREAT, 0, 0, 0, &(u32){0}), NAMETOOLONG);
  touch(3, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 name\n"); /* any bytes but NUL and / */
  CHECK(size(3, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 name\n") == 0);
}

static void path_exists(void) {
  OK(path_create_directory(3, S("d"))); touch(3, "d/f");
  OK(path_symlink(S("d/f"), 3, S("lf"))); OK(path_symlink(S("d"), 3, S("ld")));
  struct { const char *p; u32 look, type; } t[] = {
    {"d", 0, T_DIR}, {"d", FOLLOW, T_DIR}, {"d/f", 0, T_FILE}, {"d/f", FOLLOW, T_FILE}, {"lf", 0, T_LINK},
    {"lf", FOLLOW, T_FILE}, {"ld", 0, T_LINK}, {"ld", FOLLOW, T_DIR}, {"ld/", 0, T_DIR}, {"ld/f", 0, T_FILE}};
  for (u32 i = 0; i < sizeof t / sizeof *t; i++) {
    filestat st = {0};
    want_(__LINE__, t[i].p, path_filestat_get(3, t[i].look, S(t[i].p), &st), (const int[]){0, -1});
    CHECK(st.type == t[i].type);
  }
  WANT(path_filestat_get(3, 0, S("d/f/"), &(filestat){0}), NOTDIR);
  WANT(path_filestat_get(3, FOLLOW, S("lf/"), &(filestat){0}), NOTDIR);
  WANT(path_filestat_get(3, 2, S("lf"), &(filestat){0}), INVAL);
  WANT(path_filestat_get(3, 0, S("none"), &(filestat){0}), NOENT);
}

static void nofollow(void) {
  OK(path_create_directory(3, S("t"))); OK(path_symlink(S("t"), 3, S("l")));
  WANT(TRY(3, 0, "l", DIRECTORY, 0, 0, 0), LOOP, NOTDIR);
  WANT(TRY(3, 0, "l", 0, 0, 0, 0), LOOP);
  OK(fd_close(OPEN(3, FOLLOW, "l", DIRECTORY, 0, 0, 0)));
  OK(path_remove_directory(3, S("t"))); touch(3, "t");
  WANT(TRY(3, 0, "l", DIRECTORY, 0, 0, 0), LOOP, NOTDIR);
  WANT(TRY(3, 0, "l", 0, 0, 0, 0), LOOP);
  WANT(TRY(3, FOLLOW, "l", DIRECTORY, 0, 0, 0), NOTDIR);
  OK(fd_close(OPEN(3, FOLLOW, "l", 0, 0, 0, 0)));
  OK(path_unlink_file(3, S("t")));
  WANT(TRY(3, 0, "l", DIRECTORY, 0, 0, 0), LOOP, NOTDIR); /* dangling now */
  WANT(TRY(3, 0, "l", 0, 0, 0, 0), LOOP);
  WANT(TRY(3, FOLLOW, "l", 0, 0, 0, 0), NOENT);
  WANT(TRY(3, FOLLOW, "l", CREAT | EXCL, 0, 0, 0), EXIST);
  OK(fd_close(OPEN(3, FOLLOW, "l", CREAT, 0, 0, 0)));
  CHECK(size(3, "t") == 0);
  OK(path_symlink(S("loop"), 3, S("loop")));
  WANT(TRY(3, 0, "loop", 0, 0, 0, 0), LOOP); WANT(TRY(3, FOLLOW, "loop", 0, 0, 0, 0), LOOP);
  WANT(TRY(3, 0, "loop/x", 0, 0, 0, 0), LOOP);
}

static void symlinks(void) {
  char b[10] = {0}; u32 n;
  OK(path_symlink(S("target"), 3, S("l")));
  OK(path_readlink(3, S("l"), b, 10, &n)); CHECK(n == 6 && eq(b, "target\0\0\0", 10));
  char c[8] = "........";
  OK(path_readlink(3, S("l"), c, 4, &n)); CHECK(n == 4 && eq(c, "targ....", 8));
  OK(path_readlink(3, S("l"), c, 0, &n)); CHECK(n == 0);
  touch(3, "f");
  WANT(path_readlink(3, S("f"), c, 4, &n), INVAL); WANT(path_readlink(3, S("none"), c, 4, &n), NOENT);
  WANT(path_symlink(S("/"), 3, S("abs")), PERM, NOTCAPABLE);
  WANT(path_symlink(S("../x"), 3, S("up")), PERM, NOTCAPABLE);
  WANT(path_symlink(S("x"), 3, S("s/")), NOENT);
  OK(path_create_directory(3, S("d")));
  WANT(path_symlink(S("x"), 3, S("d/")), EXIST); WANT(path_symlink(S("x"), 3, S("d")), EXIST);
  WANT(path_symlink(S("x"), 3, S("f/")), NOTDIR, EXIST); WANT(path_symlink(S("x"), 3, S("f")), EXIST);
  WANT(path_symlink(S("x"), 3, S("l")), EXIST);
  OK(path_symlink(S("../f"), 3, S("d/up")));
  OPEN(3, FOLLOW, "d/up", 0, 0, 0, 0);
}

static void links(void) {
  u32 f = OPEN(3, 0, "f", CREAT, R_READ | R_STAT, R_READ, 0);
  OK(path_link(3, 0, S("f"), 3, S("l")));
  u32 l = OPEN(3, 0, "l", 0, R_READ | R_STAT, R_READ, 0);
  filestat a, b; fdstat x, y;
  OK(fd_filestat_get(f, &a)); OK(fd_filestat_get(l, &b));
  CHECK(a.ino == b.ino && a.dev == b.dev && a.nlink == 2 && b.nlink == 2 && a.size == b.size && a.mtim == b.mtim);
  OK(fd_fdstat_get(f, &x)); OK(fd_fdstat_get(l, &y));
  CHECK(x.base == y.base && x.inherit == y.inherit && x.flags == y.flags && x.type == y.type);
  OK(path_create_directory(3, S("d")));
  u32 d = OPEN(3, 0, "d", DIRECTORY, R_ALL & ~R_WRITE, R_ALL, 0);
  OK(path_link(3, 0, S("f"), d, S("l"))); OK(path_link(d, 0, S("l"), 3, S("l3")));
  WANT(path_link(3, 0, S("f"), 3, S("l")), EXIST); WANT(path_link(3, 0, S("f"), 3, S("f")), EXIST);
  WANT(path_link(3, 0, S("f"), 3, S("d")), EXIST);
  WANT(path_link(3, 0, S("d"), 3, S("ld")), PERM, ACCES);
  WANT(path_link(3, 0, S("f"), 3, S("ls/")), NOENT);
  WANT(path_link(3, 0, S("none"), 3, S("ls")), NOENT);
  OK(path_symlink(S("target"), 3, S("s")));
  OK(path_link(3, 0, S("s"), 3, S("s2")));
  OK(path_filestat_get(3, 0, S("s2"), &a)); CHECK(a.type == T_LINK && a.nlink == 2);
  WANT(path_link(3, 0, S("f"), 3, S("s")), EXIST);
  WANT(path_link(3, FOLLOW, S("s"), 3, S("s3")), INVAL);
  WANT(path_link(3, 4, S("f"), 3, S("s3")), INVAL);
}

static void renames(void) {
  OK(path_create_directory(3, S("a"))); OK(path_rename(3, S("a"), 3, S("b")));
  WANT(TRY(3, 0, "a", DIRECTORY, 0, 0, 0), NOENT);
  OK(path_create_directory(3, S("a"))); OK(path_rename(3, S("a"), 3, S("b"))); /* over an empty one */
  OK(path_create_directory(3, S("a"))); touch(3, "b/f");
  WANT(path_rename(3, S("a"), 3, S("b")), NOTEMPTY, EXIST);
  WANT(path_rename(3, S("a"), 3, S("b/f")), NOTDIR);
  WANT(path_rename(3, S("b/f"), 3, S("a")), ISDIR);
  touch(3, "x"); OK(path_rename(3, S("x"), 3, S("y")));
  WANT(TRY(3, 0, "x", 0, 0, 0, 0), NOENT);
  touch(3, "x"); OK(path_rename(3, S("x"), 3, S("y")));
  OK(path_rename(3, S("y"), 3, S("y")));
  WANT(path_rename(3, S("y/"), 3, S("z")), NOTDIR); WANT(path_rename(3, S("y"), 3, S("z/")), NOTDIR);
  WANT(path_rename(3, S("none"), 3, S("z")), NOENT);
  OK(path_rename(3, S("a/"), 3, S("c"))); OK(path_rename(3, S("c"), 3, S("a/"))); OK(path_rename(3, S("a/"), 3, S("c/")));
  u32 d = OPEN(3, 0, "c", DIRECTORY, R_ALL & ~R_WRITE, R_ALL, 0);
  OK(path_rename(3, S("y"), d, S("y"))); OK(path_rename(d, S("y"), 3, S("w")));
  OK(path_rename(3, S("c"), 3, S("c2"))); touch(d, "in"); /* the descriptor follows */
  CHECK(size(3, "c2/in") == 0);
  WANT(path_rename(3, S("."), 3, S("q")), 10, INVAL);
  WANT(path_rename(3, S("w"), 3, S("../q")), PERM, NOTCAPABLE);
}

static void removal(void) {
  OK(path_create_directory(3, S("d")));
  WANT(path_create_directory(3, S("d")), EXIST);
  WANT(path_unlink_file(3, S("d")), ISDIR, PERM); WANT(path_unlink_file(3, S("d/")), ISDIR, PERM);
  OK(path_create_directory(3, S("d/n")));
  WANT(path_remove_directory(3, S("d")), NOTEMPTY);
  OK(path_remove_directory(3, S("d/n/"))); OK(path_remove_directory(3, S("d")));
  touch(3, "f");
  WANT(path_unlink_file(3, S("f/")), NOTDIR);
  WANT(path_remove_directory(3, S("f")), NOTDIR); WANT(path_remove_directory(3, S("f/")), NOTDIR);
  OK(path_unlink_file(3, S("f"))); WANT(path_unlink_file(3, S("f")), NOENT);
  WANT(path_remove_directory(3, S(".")), INVAL); WANT(path_remove_directory(3, S("none")), NOENT);
  OK(path_create_directory(3, S("s/")));
  /* dangling descriptors */
  u32 f = OPEN(3, 0, "g", CREAT, R_RW, 0, 0);
  OK(path_unlink_file(3, S("g"))); touch(3, "g");
  CHECK(wr(f, "x", 1) == 1);
  u32 d = OPEN(3, 0, "s", DIRECTORY, R_ALL & ~R_WRITE, R_ALL, 0);
  OK(path_remove_directory(3, S("s"))); OK(path_create_directory(3, S("s")));
  WANT(TRY(d, 0, "x", CREAT, 0, 0, 0), NOENT);
}

static const struct test tests[] = {
  {"open_flags", open_flags}, {"truncation", truncation}, {"interesting", interesting}, {"path_exists", path_exists},
  {"nofollow", nofollow}, {"symlinks", symlinks}, {"links", links}, {"renames", renames}, {"removal", removal},
};
MAIN(tests)
