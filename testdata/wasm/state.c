// A guest that tells what it finds and then leaves traces wherever it can: in
// statics, on the heap, in grown memory, in the environment, in libc's own state
// and in its descriptors. The environment variable DIR is a folder it may write.
#include "blade.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char manifest[] =
    "{\"abi\":1,\"name\":\"blade-tool-state-c\",\"version\":\"1.0.0\",\"description\":\"Leaves traces.\",\"tools\":["
    "{\"name\":\"State\",\"description\":\"Tells what it finds.\",\"parameters\":{\"type\":\"object\"}}]}";

EXPORT(blade_describe) void describe(void) { blade_ret(0, manifest, sizeof manifest - 1); }

static int calls;
static char big[300000];
static char *kept;
static long long born;

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((constructor)) static void init(void) { born = now(); }

EXPORT(blade_execute) void execute(uint32_t tool, uint32_t len) {
  char out[600], path[200], line[64] = "";
  const char *dir = getenv("DIR"), *left = getenv("LEFT");
  unsigned long dirty = 0;
  for (unsigned i = 0; i < sizeof big; i++) dirty += (unsigned char)big[i];
  char *heap = malloc(200000);
  for (unsigned i = 0; i < 200000; i++) dirty += (unsigned char)heap[i];
  snprintf(path, sizeof path, "%s/kept", dir ? dir : "/none");
  int fd = open(path, O_RDONLY), other = open(path, O_RDONLY);
  if (fd >= 0) {
    ssize_t n = read(fd, line, 4); // leaves the offset behind the start
    line[n > 0 ? n : 0] = 0;
  }
  int n = snprintf(out, sizeof out,
                   "{\"calls\":%d,\"dirty\":%lu,\"heap\":%lu,\"kept\":%lu,\"rand\":%d,\"errno\":%d,\"fd\":%d,\"other\":%d,\"line\":\"%s\",\"left\":\"%s\",\"token\":\"%s\",\"pages\":%lu,\"later\":%s}",
                   calls, dirty, (unsigned long)heap, (unsigned long)kept, rand(), errno, fd, other, line, left ? left : "", strtok(calls ? NULL : "a b c", " "),
                   (unsigned long)__builtin_wasm_memory_size(0), now() >= born ? "true" : "false");
  blade_ret(0, out, n);
  calls++;
  memset(big, 0x5a, sizeof big);
  memset(heap, 0x5a, 200000);
  kept = malloc(3 << 20);
  memset(kept, 0x5a, 3 << 20);
  setenv("LEFT", "behind", 1);
  srand(calls + 77);
  if (other > 3) close(3); // a lent folder
  printf("half a line");
  errno = EDOM;
}
