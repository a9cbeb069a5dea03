// The tool of the benchmarks: {"name","args","n","pad"} in, {"greeting","n","pad"}
// out. It finds the members it needs and copies them, without a JSON library: a
// string that ends in a backslash is beyond it.
// "Yield" sends as many progress yields as "n" says, "Call" as many service calls.
#include "blade.h"
#include <stdlib.h>
#include <string.h>

static const char manifest[] =
    "{\"abi\":1,\"name\":\"blade-tool-bench-c\",\"version\":\"1.0.0\",\"description\":\"The tool of the benchmarks, in C.\",\"tools\":["
    "{\"name\":\"Greet\",\"description\":\"Greets.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\"},"
    "{\"name\":\"Yield\",\"description\":\"Yields progress.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\"},"
    "{\"name\":\"Call\",\"description\":\"Calls a service.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\",\"services\":[\"x-echo\"]},"
    "{\"name\":\"Spin\",\"description\":\"Adds numbers up, n millions of them.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\"},"
    "{\"name\":\"Log\",\"description\":\"Logs n times.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\"},"
    "{\"name\":\"Tree\",\"description\":\"Calls itself twice, sixty deep.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\"}]}";

EXPORT(blade_describe) void describe(void) { blade_ret(0, manifest, sizeof manifest - 1); }

// member finds the value of "key" and its length, without the quotes of a string.
static const char *member(const char *in, uint32_t len, const char *key, uint32_t *n) {
  uint32_t k = strlen(key);
  for (uint32_t i = 0; i + k + 3 < len; i++) {
    if (in[i] != '"' || memcmp(in + i + 1, key, k) || in[i + 1 + k] != '"' || in[i + 2 + k] != ':') continue;
    const char *v = in + i + 3 + k, *end = in + len, *p = v;
    if (*v == '"') {
      for (p = ++v; (p = memchr(p, '"', end - p)) && p[-1] == '\\'; p++) {}
      if (!p) p = end;
    } else {
      while (p < end && *p != ',' && *p != '}') p++;
    }
    *n = p - v;
    return v;
  }
  *n = 0;
  return "";
}

static char *put(char *o, const char *s, uint32_t n) { return (char *)memcpy(o, s, n) + n; }
#define PUT(o, s) put(o, s, sizeof s - 1)

static void greet(const char *in, uint32_t len) {
  uint32_t name, num, pad;
  const char *v = member(in, len, "name", &name), *n = member(in, len, "n", &num), *p = member(in, len, "pad", &pad);
  char *out = malloc(name + num + pad + 64), *o = out;
  if (!out) __builtin_trap();
  o = PUT(o, "{\"greeting\":\"Hello, ");
  o = put(o, v, name);
  o = PUT(o, "\",\"n\":");
  o = num ? put(o, n, num) : PUT(o, "0");
  o = PUT(o, ",\"pad\":\"");
  o = put(o, p, pad);
  o = PUT(o, "\"}");
  blade_ret(0, out, o - out);
  free(out);
}

static uint32_t number(const char *in, uint32_t len) {
  uint32_t digits, sum = 0;
  const char *n = member(in, len, "n", &digits);
  for (uint32_t i = 0; i < digits; i++) sum = sum * 10 + (n[i] - '0');
  return sum;
}

static void yields(uint32_t n) {
  static const char y[] = "{\"kind\":\"progress\",\"message\":\"on\"}";
  for (uint32_t i = 0; i < n; i++)
    if (blade_yield(y, sizeof y - 1)) break;
  blade_ret(0, "null", 4);
}

static void calls(uint32_t n) {
  static const char name[] = "x-echo.echo", head[] = "\x02\0\0\0{}payload";
  char answer[64];
  for (uint32_t i = 0; i < n; i++) {
    uint64_t a = blade_call(name, sizeof name - 1, head, sizeof head - 1);
    uint32_t slot = (a >> 32) & 0xffff;
    if (a >> 48) break;
    blade_take(slot, answer, sizeof answer);
    blade_take(slot, answer, 0);
  }
  blade_ret(0, "null", 4);
}

static void spin(uint32_t n) {
  uint64_t s = n;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < 1000000; k++) s = s * 6364136223846793005u + k;
  char out[1] = {'0' + s % 10};
  blade_ret(0, out, 1);
}

static void logs(uint32_t n) {
  for (uint32_t i = 0; i < n; i++) blade_log(0, "on", 2);
  blade_ret(0, "null", 4);
}

__attribute__((noinline)) static uint32_t tree(uint32_t depth) {
  __asm__ volatile("");
  return depth ? tree(depth - 1) + tree(depth - 1) : 1;
}

EXPORT(blade_execute) void execute(uint32_t tool, uint32_t len) {
  char *in = malloc(len + 1);
  if (!in) __builtin_trap();
  len = blade_take(0, in, len);
  switch (tool) {
  case 0: greet(in, len); break;
  case 1: yields(number(in, len)); break;
  case 2: calls(number(in, len)); break;
  case 3: spin(number(in, len)); break;
  case 4: logs(number(in, len)); break;
  case 5:
    number(in, len);
    in[0] = '0' + tree(60) % 10;
    blade_ret(0, in, 1);
    break;
  }
  free(in);
}
