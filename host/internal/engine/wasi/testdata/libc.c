/* libc.c: the C library on top: what ordinary programs do. The first argument names
 * the test, the folder is mounted as /w. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define T(cond) do { if (!(cond)) { printf("line %d: %s (errno %d)\n", __LINE__, #cond, errno); exit(1); } } while (0)

static void files(void) {
  FILE *f = fopen("/w/f", "w"); T(f);
  T(fprintf(f, "0123%d", 4567) == 8); T(!fclose(f));
  T(f = fopen("/w/f", "r"));
  char b[16]; T(fread(b, 1, 16, f) == 8 && !memcmp(b, "01234567", 8));
  int fd = fileno(f);
  T(lseek(fd, 0, SEEK_CUR) == 8 && lseek(fd, 2, SEEK_SET) == 2 && lseek(fd, 0, SEEK_END) == 8);
  T(!isatty(fd)); T(!fclose(f));
  T((fd = open("/w/f", O_RDWR)) >= 0);
  T(pread(fd, b, 2, 6) == 2 && !memcmp(b, "67", 2)); T(pwrite(fd, "ab", 2, 3) == 2);
  T(lseek(fd, 0, SEEK_CUR) == 0); T(read(fd, b, 8) == 8 && !memcmp(b, "012ab567", 8));
  T(!ftruncate(fd, 3)); struct stat st; T(!fstat(fd, &st) && st.st_size == 3 && S_ISREG(st.st_mode));
  T(!close(fd)); T(close(fd) == -1 && errno == EBADF);
  T((fd = open("/w/f", O_WRONLY | O_APPEND | O_TRUNC)) >= 0);
  T(write(fd, "ab", 2) == 2 && lseek(fd, 0, SEEK_SET) == 0 && write(fd, "cd", 2) == 2 && lseek(fd, 0, SEEK_CUR) == 4);
  T(!close(fd));
  T(open("/w/f", O_WRONLY | O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
  T(open("/w/none", O_RDONLY) == -1 && errno == ENOENT); T(open("/etc/passwd", O_RDONLY) == -1);
  T(open("/w/../etc/passwd", O_RDONLY) == -1 && (errno == EPERM || errno == ENOTCAPABLE));
  T((fd = open("/w/f", O_RDONLY)) >= 0 && write(fd, "x", 1) == -1 && errno == EBADF);
}

static void directories(void) {
  T(!mkdir("/w/d", 0755)); T(mkdir("/w/d", 0755) == -1 && errno == EEXIST);
  fclose(fopen("/w/d/a", "w")); fclose(fopen("/w/d/b", "w"));
  int fd = open("/w/d", O_RDONLY | O_DIRECTORY); T(fd >= 0);
  DIR *d = fdopendir(fd); T(d);
  int seen = 0; ino_t ino[2] = {0};
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    struct stat st; T(!fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == e->d_ino);
    ino[seen++] = e->d_ino;
  }
  T(seen == 2 && ino[0] != ino[1]); rewinddir(d); T(readdir(d)); T(!closedir(d));
  T(rmdir("/w/d") == -1 && errno == ENOTEMPTY);
  T(!rename("/w/d/a", "/w/a") && !link("/w/a", "/w/l") && !symlink("a", "/w/s"));
  char b[8]; T(readlink("/w/s", b, 8) == 1 && b[0] == 'a');
  struct stat x, y; T(!stat("/w/a", &x) && !stat("/w/l", &y) && x.st_ino == y.st_ino && x.st_dev == y.st_dev && x.st_nlink == 2);
  T(!stat("/w/s", &y) && S_ISREG(y.st_mode) && !lstat("/w/s", &y) && S_ISLNK(y.st_mode));
  struct timespec ts[2] = {{1, 2}, {3, 4}}; T(!utimensat(AT_FDCWD, "/w/a", ts, 0) && !stat("/w/a", &x) && x.st_mtim.tv_nsec == 4);
  T(!unlink("/w/d/b") && !rmdir("/w/d") && unlink("/w/d") == -1);
}

static void others(void) {
  struct timespec a, b;
  T(!clock_getres(CLOCK_MONOTONIC, &a) && a.tv_nsec == 1000000); T(!clock_getres(CLOCK_REALTIME, &a));
  T(!clock_gettime(CLOCK_MONOTONIC, &a) && !nanosleep(&(struct timespec){0, 5000000}, 0) && !clock_gettime(CLOCK_MONOTONIC, &b));
  T(b.tv_sec > a.tv_sec || b.tv_nsec > a.tv_nsec); T(time(0) > 1700000000);
  T(shutdown(1, SHUT_RD) == -1 && errno == ENOTSOCK); T(shutdown(99, SHUT_RD) == -1 && errno == EBADF);
  T(!isatty(0) && !isatty(1)); T(!strcmp(getenv("NAME"), "value"));
  char r1[16], r2[16]; T(!getentropy(r1, 16) && !getentropy(r2, 16) && memcmp(r1, r2, 16));
  char line[32]; T(fgets(line, 32, stdin) && !strcmp(line, "input\n") && !fgets(line, 32, stdin));
  fputs("error text", stderr);
}

int main(int argc, char **argv) {
  T(argc == 2);
  if (!strcmp(argv[1], "files")) files();
  else if (!strcmp(argv[1], "directories")) directories();
  else if (!strcmp(argv[1], "others")) others();
  else return 2;
  puts("fine");
  return 0;
}
