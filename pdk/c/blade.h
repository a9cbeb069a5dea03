// blade.h - the kit for bladehost plugins in C (also C++).
//
// One header, C11, no library: it works freestanding and with wasi-libc, and
// needs no malloc. Its memory is an arena that is never freed, because a host
// puts an instance back after each call (blade_mark and blade_release are for loops).
//
//     #include "blade.h"
//
//     static const char manifest[] = BLADE_JSON({
//       "abi": 1, "name": "blade-tool-greet", "version": "0.1.0", "description": "Greets.",
//       "tools": [{"name": "Greet", "description": "Greets somebody.",
//                  "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
//                  "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel"}]
//     });
//
//     static void greet(blade_json input) {
//       blade_buf out = {0};
//       blade_open(&out, '{');
//       blade_key(&out, "greeting");
//       blade_str(&out, blade_concat("Hello, ", blade_string(blade_get(input, "name"))));
//       blade_close(&out, '}');
//       blade_return(&out);
//     }
//
//     BLADE_PLUGIN(manifest, greet)   // one function a tool, in the manifest's order
//
// A tool is a function that ends with one blade_return, blade_return_result or
// blade_fail, each of which hands over the result: return right after it.
// Text is UTF-8 with a length (blade_text); "z" in a name means that it takes a
// C string. The contract itself is abi/SPEC.md of bladehost.
//
// Build (see docs/guests.md):
//
//     clang --target=wasm32-wasi -mexec-model=reactor -Oz -s plugin.c -o plugin.wasm
//     bladehost build plugin.wasm -o blade-tool-greet.wasm
#ifndef BLADE_H
#define BLADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------- the host

// The host's functions as they are. C has a yield and a log already, so each is
// bound by its import name under blade_host_.
#define BLADE_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define BLADE_EXPORT(name) __attribute__((export_name(name), visibility("default")))

BLADE_IMPORT("blade_v1", "take") uint32_t blade_host_take(uint32_t slot, void *ptr, uint32_t cap);
BLADE_IMPORT("blade_v1", "call") uint64_t blade_host_call(const char *name, uint32_t name_len, const void *ptr, uint32_t len);
BLADE_IMPORT("blade_v1", "yield") int32_t blade_host_yield(const void *ptr, uint32_t len);
BLADE_IMPORT("blade_v1", "ret") void blade_host_ret(int32_t status, const void *ptr, uint32_t len);
BLADE_IMPORT("blade_v1", "log") void blade_host_log(int32_t level, const void *ptr, uint32_t len);
BLADE_IMPORT("blade_v1", "cancelled") int32_t blade_host_cancelled(void);
BLADE_IMPORT("blade_v1", "deadline") int64_t blade_host_deadline(void);
BLADE_IMPORT("wasi_snapshot_preview1", "poll_oneoff") int32_t blade_host_poll(const void *in, void *out, uint32_t n, uint32_t *events);
BLADE_IMPORT("wasi_snapshot_preview1", "random_get") int32_t blade_host_random(void *ptr, uint32_t n);

enum { BLADE_TRACE, BLADE_DEBUG, BLADE_INFO, BLADE_WARN, BLADE_ERROR };

// Why a call should stop. Other numbers are reasons of a later host.
enum {
  BLADE_CANCEL_NONE, BLADE_CANCEL_REQUEST, BLADE_CANCEL_STEERING, BLADE_CANCEL_DEADLINE,
  BLADE_CANCEL_SHUTDOWN, BLADE_CANCEL_LEASE, BLADE_CANCEL_CONSUMER
};

// blade_cancelled is 0, or why the call should stop: then release what you hold
// and return soon with any result.
static inline int32_t blade_cancelled(void) { return blade_host_cancelled(); }

// blade_deadline is how many milliseconds are left, 0 when it passed, -1 for none.
static inline int64_t blade_deadline(void) { return blade_host_deadline(); }

// ---------------------------------------------------------------- memory

// With -ffreestanding there is no libc, and the compiler may still call these.
#if !__STDC_HOSTED__
#define BLADE__LIBC __attribute__((weak, no_builtin("memcpy", "memset", "memmove")))
BLADE__LIBC void *memset(void *to, int c, size_t n) {
  for (char *p = (char *)to; n--;) *p++ = (char)c;
  return to;
}
BLADE__LIBC void *memcpy(void *to, const void *from, size_t n) {
  const char *s = (const char *)from;
  for (char *p = (char *)to; n--;) *p++ = *s++;
  return to;
}
BLADE__LIBC void *memmove(void *to, const void *from, size_t n) {
  char *p = (char *)to;
  const char *s = (const char *)from;
  if (p <= s) return memcpy(to, from, n);
  while (n--) p[n] = s[n];
  return to;
}
#endif

static inline void blade__copy(char *to, const char *from, uint32_t n) {
  if (n) __builtin_memcpy(to, from, n);
}

static inline uint32_t blade__len(const char *z) {
  uint32_t n = 0;
  while (z[n]) n++;
  return n;
}

// The arena grows by whole pages. Those that malloc takes in between are left out.
static uint32_t blade__at, blade__end;

// blade__grow sees to it that n more bytes are there.
static inline void blade__grow(uint32_t n) {
  if (blade__end - blade__at >= n) return;
  uint32_t pages = n / 65536 + 1;
  size_t old = __builtin_wasm_memory_grow(0, pages);
  if (old == (size_t)-1) __builtin_trap();
  uint32_t start = (uint32_t)old << 16;
  if (start != blade__end) blade__at = start;
  blade__end = start + (pages << 16);
}

// blade_alloc returns n bytes of no particular content, aligned to 8. It never
// fails: without memory the guest traps, which the host reports as GUEST_OOM.
static inline void *blade_alloc(uint32_t n) {
  if (n > 0x7fffffff) __builtin_trap();
  n = (n + 7) & ~7u;
  blade__grow(n);
  void *p = (void *)(size_t)blade__at;
  blade__at += n;
  return p;
}

// blade_mark and blade_release are for loops: what was allocated between the two
// is free again, so nothing of it may be used afterwards.
typedef struct {
  uint32_t at, end;
} blade_marker;

static inline blade_marker blade_mark(void) {
  blade_marker m = {blade__at, blade__end};
  return m;
}

static inline void blade_release(blade_marker m) {
  if (m.end == blade__end) blade__at = m.at; // else the arena has grown, and serves the next round
}

// blade_text is n bytes of UTF-8, not ended by a zero. p is null for no text at all.
typedef struct {
  const char *p;
  uint32_t n;
} blade_text;

static inline blade_text blade_textn(const char *p, uint32_t n) {
  blade_text t = {p, n};
  return t;
}

static inline blade_text blade_textz(const char *z) { return blade_textn(z, z ? blade__len(z) : 0); }

static inline bool blade_equal(blade_text a, blade_text b) {
  if (a.n != b.n) return false;
  for (uint32_t i = 0; i < a.n; i++)
    if (a.p[i] != b.p[i]) return false;
  return true;
}

static inline bool blade_equalz(blade_text a, const char *z) { return blade_equal(a, blade_textz(z)); }

// blade_concat is the two texts one behind the other.
static inline blade_text blade_concat(const char *z, blade_text t) {
  uint32_t n = blade__len(z);
  char *p = (char *)blade_alloc(n + t.n);
  blade__copy(p, z, n);
  blade__copy(p + n, t.p, t.n);
  return blade_textn(p, n + t.n);
}

// blade_cstr is the text with a zero behind it.
static inline const char *blade_cstr(blade_text t) {
  char *p = (char *)blade_alloc(t.n + 1);
  blade__copy(p, t.p, t.n);
  p[t.n] = 0;
  return p;
}

// ---------------------------------------------------------------- writing JSON

// blade_buf is bytes that grow. {0} is an empty one. Commas between members and
// elements are written by themselves.
typedef struct {
  char *p;
  uint32_t n, cap;
} blade_buf;

static inline void blade__room(blade_buf *b, uint32_t more) {
  if (more > 0x7fffffff - b->n) __builtin_trap();
  if (b->cap - b->n >= more) return;
  uint32_t cap = b->cap < 128 ? 256 : b->cap > 0x3fffffff ? 0x7ffffff8 : b->cap * 2;
  if (cap < b->n + more) cap = (b->n + more + 7) & ~7u;
  if (b->cap && (uint32_t)(size_t)b->p + b->cap == blade__at) { // the last of the arena grows where it is
    blade__grow(cap - b->cap);
    if ((uint32_t)(size_t)b->p + b->cap == blade__at) {
      blade__at += cap - b->cap;
      b->cap = cap;
      return;
    }
  }
  char *p = (char *)blade_alloc(cap);
  blade__copy(p, b->p, b->n);
  b->p = p;
  b->cap = cap;
}

// blade_put adds bytes as they are.
static inline void blade_put(blade_buf *b, const char *p, uint32_t n) {
  blade__room(b, n);
  blade__copy(b->p + b->n, p, n);
  b->n += n;
}

static inline void blade_putz(blade_buf *b, const char *z) { blade_put(b, z, blade__len(z)); }

static inline void blade__value(blade_buf *b) {
  char last = b->n ? b->p[b->n - 1] : '[';
  if (last != '{' && last != '[' && last != ':' && last != ',') blade_put(b, ",", 1);
}

// blade_open begins an object ('{') or an array ('['); blade_close ends it with
// '}' or ']'.
static inline void blade_open(blade_buf *b, char c) {
  blade__value(b);
  blade_put(b, &c, 1);
}

static inline void blade_close(blade_buf *b, char c) { blade_put(b, &c, 1); }

// blade__rune is how many bytes the character at the beginning of t has, 0 if
// it is no valid UTF-8.
static inline uint32_t blade__rune(const unsigned char *s, uint32_t n) {
  unsigned char c = s[0];
  if (c < 0x80) return 1;
  if (c < 0xc2 || c > 0xf4) return 0;
  uint32_t k = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  if (n < k) return 0;
  for (uint32_t i = 1; i < k; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f)) return 0;
  return k;
}

// blade_str writes a text as a JSON string. Bytes that are no UTF-8 become U+FFFD.
static inline void blade_str(blade_buf *b, blade_text t) {
  static const char hex[] = "0123456789abcdef";
  blade__value(b);
  blade__room(b, t.n + 2);
  blade_put(b, "\"", 1);
  const unsigned char *s = (const unsigned char *)t.p;
  uint32_t from = 0, i = 0;
  while (i < t.n) {
    uint32_t k = blade__rune(s + i, t.n - i);
    if (k > 1 || (k == 1 && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\')) {
      i += k;
      continue;
    }
    blade_put(b, t.p + from, i - from);
    char esc[6] = {'\\', (char)s[i], '0', '0', 0, 0};
    if (k == 0) {
      blade_put(b, "\xef\xbf\xbd", 3);
    } else if (s[i] == '"' || s[i] == '\\') {
      blade_put(b, esc, 2);
    } else {
      esc[1] = 'u';
      esc[2] = esc[3] = '0';
      esc[4] = hex[s[i] >> 4];
      esc[5] = hex[s[i] & 15];
      blade_put(b, esc, 6);
    }
    from = ++i;
  }
  blade_put(b, t.p + from, i - from);
  blade_put(b, "\"", 1);
}

static inline void blade_strz(blade_buf *b, const char *z) { blade_str(b, blade_textz(z)); }

// blade_key writes a member's name; its value comes next.
static inline void blade_key(blade_buf *b, const char *z) {
  blade_strz(b, z);
  blade_put(b, ":", 1);
}

static inline void blade_int(blade_buf *b, int64_t v) {
  char d[20];
  uint32_t i = sizeof d;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do d[--i] = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) d[--i] = '-';
  blade__value(b);
  blade_put(b, d + i, sizeof d - i);
}

static inline void blade_bool(blade_buf *b, bool v) {
  blade__value(b);
  blade_putz(b, v ? "true" : "false");
}

static inline void blade_null(blade_buf *b) {
  blade__value(b);
  blade_put(b, "null", 4);
}

// blade_num writes a number with 15 significant digits; what JSON has no number
// for (infinity, NaN) as null.
static inline void blade_num(blade_buf *b, double v) {
  if (v != v || v - v != 0) {
    blade_null(b);
    return;
  }
  if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v) {
    blade_int(b, (int64_t)v);
    return;
  }
  double a = v < 0 ? -v : v;
  int exp = 14; // a = digits * 10^(exp-14)
  while (a >= 1e15) a /= 10, exp++;
  while (a < 1e14) a *= 10, exp--;
  uint64_t digits = (uint64_t)(a + 0.5);
  if (digits >= 1000000000000000u) digits /= 10, exp++;
  int len = 15;
  while (len > 1 && digits % 10 == 0) digits /= 10, len--;
  char d[16];
  for (int i = len; i-- > 0; digits /= 10) d[i] = (char)('0' + digits % 10);
  blade__value(b);
  if (v < 0) blade_put(b, "-", 1);
  if (exp >= 0 && exp < 21) {
    int whole = exp + 1;
    blade_put(b, d, (uint32_t)(whole < len ? whole : len));
    for (int i = len; i < whole; i++) blade_put(b, "0", 1);
    if (whole < len) blade_put(b, ".", 1), blade_put(b, d + whole, (uint32_t)(len - whole));
    return;
  }
  if (exp < 0 && exp > -7) {
    blade_put(b, "0.000000", (uint32_t)(1 - exp));
    blade_put(b, d, (uint32_t)len);
    return;
  }
  blade_put(b, d, 1);
  if (len > 1) blade_put(b, ".", 1), blade_put(b, d + 1, (uint32_t)(len - 1));
  blade_putz(b, exp < 0 ? "e-" : "e+");
  if (exp < 0) exp = -exp;
  char e[3] = {(char)('0' + exp / 100), (char)('0' + exp / 10 % 10), (char)('0' + exp % 10)};
  blade_put(b, exp > 99 ? e : exp > 9 ? e + 1 : e + 2, exp > 99 ? 3 : exp > 9 ? 2 : 1);
}

// ---------------------------------------------------------------- reading JSON

// blade_json is one JSON value as it stands in the text; p is null for no value.
// What comes from the host is strict JSON. Anything else is read without harm,
// but with no particular outcome.
typedef blade_text blade_json;

// blade_raw writes a value as it stands; no value as null.
static inline void blade_raw(blade_buf *b, blade_json v) {
  blade__value(b);
  if (v.p && v.n)
    blade_put(b, v.p, v.n);
  else
    blade_put(b, "null", 4);
}

typedef enum { BLADE_NONE, BLADE_NULL, BLADE_BOOL, BLADE_NUMBER, BLADE_STRING, BLADE_ARRAY, BLADE_OBJECT } blade_kind;

static inline const char *blade__space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
  return p;
}

// blade__skip is where the value at p ends.
static inline const char *blade__skip(const char *p, const char *end) {
  uint32_t depth = 0;
  while (p < end) {
    char c = *p;
    if (c == '"') {
      for (p++; p < end && *p != '"'; p++)
        if (*p == '\\') p++;
      p = p < end ? p + 1 : end;
    } else if (c == '{' || c == '[') {
      depth++;
      p++;
      continue;
    } else if (c == '}' || c == ']') {
      if (depth) depth--;
      p++;
    } else if (c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      p++;
      continue;
    } else {
      while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\n' && *p != '\r' && *p != '\t') p++;
    }
    if (!depth) break;
  }
  return p;
}

static inline blade_kind blade_kind_of(blade_json v) {
  if (!v.p || !v.n) return BLADE_NONE;
  switch (v.p[0]) {
  case '"': return BLADE_STRING;
  case '{': return BLADE_OBJECT;
  case '[': return BLADE_ARRAY;
  case 't': case 'f': return BLADE_BOOL;
  case 'n': return BLADE_NULL;
  }
  return BLADE_NUMBER;
}

// blade_has is false for no value and for null.
static inline bool blade_has(blade_json v) { return blade_kind_of(v) > BLADE_NULL; }

// blade_each goes through an object or an array:
//
//     for (blade_iter it = blade_each(v); blade_next(&it);) use(it.key, it.value);
//
// key is the member's name as a JSON string (blade_string decodes it), no value
// in an array.
typedef struct {
  blade_json key, value;
  const char *p, *end;
  bool object;
} blade_iter;

static inline blade_iter blade_each(blade_json v) {
  blade_iter it = {{0, 0}, {0, 0}, 0, 0, false};
  blade_kind k = blade_kind_of(v);
  if (k < BLADE_ARRAY) return it;
  it.p = v.p + 1;
  it.end = v.p + v.n;
  it.object = k == BLADE_OBJECT;
  return it;
}

static inline bool blade_next(blade_iter *it) {
  const char *p = blade__space(it->p, it->end);
  if (p < it->end && *p == ',') p = blade__space(p + 1, it->end);
  if (p >= it->end || *p == '}' || *p == ']') return false;
  if (it->object) {
    const char *e = blade__skip(p, it->end);
    it->key = blade_textn(p, (uint32_t)(e - p));
    p = blade__space(e, it->end);
    if (p < it->end && *p == ':') p = blade__space(p + 1, it->end);
  }
  const char *e = blade__skip(p, it->end);
  if (e == p) return false;
  it->value = blade_textn(p, (uint32_t)(e - p));
  it->p = e;
  return true;
}

static inline int32_t blade__hex(const char *p, const char *end) {
  int32_t v = 0;
  if (end - p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    int32_t d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (d < 0) return -1;
    v = v << 4 | d;
  }
  return v;
}

// blade_string is the text of a JSON string, without its escapes; no text for
// another value.
static inline blade_text blade_string(blade_json v) {
  if (blade_kind_of(v) != BLADE_STRING || v.n < 2) return blade_textn(0, 0);
  const char *p = v.p + 1, *end = v.p + v.n - 1, *s = p;
  while (s < end && *s != '\\') s++;
  if (s == end) return blade_textn(p, (uint32_t)(end - p));
  char *out = (char *)blade_alloc((uint32_t)(end - p)), *o = out;
  while (p < end) {
    if (*p != '\\') {
      *o++ = *p++;
      continue;
    }
    if (++p == end) break;
    char c = *p++;
    if (c != 'u') {
      *o++ = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == 'b' ? '\b' : c == 'f' ? '\f' : c;
      continue;
    }
    int32_t u = blade__hex(p, end);
    if (u < 0) break;
    p += 4;
    if (u >= 0xd800 && u < 0xe000) { // half of a pair
      int32_t low = u < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? blade__hex(p + 2, end) : -1;
      if (low >= 0xdc00 && low < 0xe000) {
        u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
      } else {
        u = 0xfffd;
      }
    }
    if (u < 0x80) {
      *o++ = (char)u;
    } else if (u < 0x800) {
      *o++ = (char)(0xc0 | u >> 6);
      *o++ = (char)(0x80 | (u & 63));
    } else {
      if (u < 0x10000) {
        *o++ = (char)(0xe0 | u >> 12);
      } else {
        *o++ = (char)(0xf0 | u >> 18);
        *o++ = (char)(0x80 | (u >> 12 & 63));
      }
      *o++ = (char)(0x80 | (u >> 6 & 63));
      *o++ = (char)(0x80 | (u & 63));
    }
  }
  return blade_textn(out, (uint32_t)(o - out));
}

// blade_get is a member of an object; no value where there is none.
static inline blade_json blade_get(blade_json v, const char *key) {
  for (blade_iter it = blade_each(v); blade_next(&it);)
    if (it.object && blade_equalz(blade_string(it.key), key)) return it.value;
  return blade_textn(0, 0);
}

static inline bool blade_to_bool(blade_json v) { return blade_kind_of(v) == BLADE_BOOL && v.p[0] == 't'; }

// blade_to_num is a number, to 1 or 2 units of its last place; otherwise 0 for
// another value.
static inline double blade_to_num(blade_json v, double otherwise) {
  if (blade_kind_of(v) != BLADE_NUMBER) return otherwise;
  const char *p = v.p, *end = v.p + v.n;
  bool minus = *p == '-', point = false;
  uint64_t m = 0;
  int scale = 0, exp = 0;
  for (p += minus; p < end && ((*p >= '0' && *p <= '9') || *p == '.'); p++) {
    if (*p == '.') {
      point = true;
      continue;
    }
    if (m < 1000000000000000000u)
      m = m * 10 + (uint64_t)(*p - '0'), scale -= point;
    else
      scale += !point;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    bool down = ++p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    for (; p < end && *p >= '0' && *p <= '9' && exp < 1000; p++) exp = exp * 10 + (*p - '0');
    scale += down ? -exp : exp;
  }
  double d = (double)m, ten = 10;
  uint32_t k = (uint32_t)(scale < 0 ? -scale : scale);
  if (m)
    for (; k; k >>= 1, ten *= ten)
      if (k & 1) d = scale < 0 ? d / ten : d * ten;
  return minus ? -d : d;
}

// blade_to_int is a whole number; otherwise for another value and for one that
// is not whole or beyond 64 bits. 5.0 and 5e0 are whole.
static inline int64_t blade_to_int(blade_json v, int64_t otherwise) {
  if (blade_kind_of(v) != BLADE_NUMBER) return otherwise;
  const char *p = v.p, *end = v.p + v.n;
  bool minus = *p == '-';
  uint64_t u = 0;
  for (p += minus; p < end && *p >= '0' && *p <= '9'; p++) {
    uint64_t d = (uint64_t)(*p - '0');
    if (u > (UINT64_MAX - d) / 10) return otherwise;
    u = u * 10 + d;
  }
  if (p < end) {
    double d = blade_to_num(v, 0.5);
    return d > -9.2e18 && d < 9.2e18 && d == (double)(int64_t)d ? (int64_t)d : otherwise;
  }
  if (u > (uint64_t)INT64_MAX + minus) return otherwise;
  return minus ? (int64_t)(0 - u) : (int64_t)u;
}

// ---------------------------------------------------------------- results

#define BLADE_MAX_RESULT (16u << 20)
#define BLADE_MAX_YIELD (64u << 10)

static inline void blade__error(const char *type, const char *code, blade_text message, blade_json details) {
  blade_buf b = {0};
  blade_open(&b, '{');
  blade_key(&b, "message");
  if (message.n)
    blade_str(&b, message);
  else
    blade_strz(&b, "the tool failed without a message");
  blade_key(&b, "type");
  blade_strz(&b, type);
  if (code && *code) {
    blade_key(&b, "code");
    blade_strz(&b, code);
  }
  if (details.p && details.n) {
    blade_key(&b, "details");
    blade_raw(&b, details);
  }
  blade_close(&b, '}');
  if (b.n > BLADE_MAX_RESULT) { // the details or the message
    blade__error(type, code, blade_textn(message.p, message.n < 4096 ? message.n : 4096), blade_textn(0, 0));
    return;
  }
  blade_host_ret(2, b.p, b.n);
}

static inline bool blade__valid_code(blade_text c) {
  if (!c.n || c.n > 64 || c.p[0] < 'a' || c.p[0] > 'z') return false;
  for (uint32_t i = 0; i < c.n; i++)
    if (!((c.p[i] >= 'a' && c.p[i] <= 'z') || (c.p[i] >= '0' && c.p[i] <= '9') || c.p[i] == '_')) return false;
  return true;
}

// blade_fail_with hands over an error. type is validation_error (another input
// would help), execution_error or network_error; another one becomes
// execution_error. A code is lower case; one that is not is left out. details is
// any JSON or no value. The model reads the message: say what is wrong and what
// would help.
static inline void blade_fail_with(blade_text type, blade_text code, blade_text message, blade_json details) {
  const char *t = "execution_error";
  if (blade_equalz(type, "validation_error")) t = "validation_error";
  if (blade_equalz(type, "network_error")) t = "network_error";
  blade__error(t, blade__valid_code(code) ? blade_cstr(code) : "", message, details);
}

// blade_fail hands over an execution_error.
static inline void blade_fail(const char *code, const char *message) {
  blade_fail_with(blade_textz("execution_error"), blade_textz(code), blade_textz(message), blade_textn(0, 0));
}

// blade_invalid hands over a validation_error: another input would help.
static inline void blade_invalid(const char *code, const char *message) {
  blade_fail_with(blade_textz("validation_error"), blade_textz(code), blade_textz(message), blade_textn(0, 0));
}

static inline void blade__ret(int32_t status, const char *p, uint32_t n) {
  if (n > BLADE_MAX_RESULT) {
    blade_fail("result_too_large", "the tool's result is over 16 MiB: return less, or put the bytes into an artifact");
    return;
  }
  blade_host_ret(status, p, n);
}

// blade_return hands over data: model and caller get the same JSON.
static inline void blade_return(const blade_buf *json) { blade__ret(0, json->p, json->n); }

// blade_return_json hands over a value as it stands.
static inline void blade_return_json(blade_json v) {
  if (v.p && v.n)
    blade__ret(0, v.p, v.n);
  else
    blade__ret(0, "null", 4);
}

// blade_result is an explicit result: model is what the model reads (any JSON; a
// string is text), the others may be no value. summary is text for a person.
typedef struct {
  blade_json model;
  blade_text summary;
  blade_json detail, data, metadata;
} blade_result;

static inline void blade_return_result(blade_result r) {
  blade_buf b = {0};
  blade_open(&b, '{');
  blade_key(&b, "model");
  blade_raw(&b, r.model);
  if (r.summary.n) {
    blade_key(&b, "display");
    blade_open(&b, '{');
    blade_key(&b, "summary");
    blade_str(&b, r.summary);
    if (r.detail.n) {
      blade_key(&b, "detail");
      blade_raw(&b, r.detail);
    }
    blade_close(&b, '}');
  }
  if (r.data.n) {
    blade_key(&b, "data");
    blade_raw(&b, r.data);
  }
  if (r.metadata.n) {
    blade_key(&b, "metadata");
    blade_raw(&b, r.metadata);
  }
  blade_close(&b, '}');
  blade__ret(1, b.p, b.n);
}

// blade_stopped hands over the error of a call that stops as told.
static inline void blade_stopped(void) {
  blade_buf d = {0};
  blade_open(&d, '{');
  blade_key(&d, "reason");
  blade_int(&d, blade_host_cancelled());
  blade_close(&d, '}');
  blade_fail_with(blade_textz(""), blade_textz("cancelled"), blade_textz("stopped as told"), blade_textn(d.p, d.n));
}

// blade_log writes into the host's log, never to the model. At most 64 KiB a call.
static inline void blade_log(int32_t level, blade_text t) { blade_host_log(level, t.p, t.n); }

static inline void blade_logz(int32_t level, const char *z) { blade_log(level, blade_textz(z)); }

// blade_panic is for what must not happen: it logs and hands over an error with
// the code panic. C cannot unwind, so return after it.
static inline void blade_panic(blade_text message) {
  blade_text m = blade_concat("panic: ", message);
  blade_log(BLADE_ERROR, m);
  blade_fail_with(blade_textz(""), blade_textz("panic"), blade_concat("the tool panicked: ", message), blade_textn(0, 0));
}

// ---------------------------------------------------------------- yields

// What a yield comes to. After BLADE_STOP the call should stop; the other two
// have no further effect.
typedef enum { BLADE_DELIVERED, BLADE_STOP, BLADE_REJECTED, BLADE_OVER_LIMIT } blade_answer;

// blade_yield sends any yield, a JSON object of at most 64 KiB.
static inline blade_answer blade_yield(const blade_buf *json) { return (blade_answer)blade_host_yield(json->p, json->n); }

static inline blade_answer blade__sent(const blade_buf *json, blade_marker m) {
  blade_answer a = blade_yield(json);
  blade_release(m);
  return a;
}

// blade_progress says how far the tool is: completed of total in a unit of its
// choice. A negative total is not known. message may be null. The host may drop
// a progress that another one overtakes.
static inline blade_answer blade_progress(const char *message, double completed, double total) {
  blade_marker m = blade_mark();
  blade_buf b = {0};
  blade_putz(&b, "{\"kind\":\"progress\"");
  if (message) {
    blade_key(&b, "message");
    blade_strz(&b, message);
  }
  if (completed >= 0) {
    blade_key(&b, "completed");
    blade_num(&b, completed);
  }
  if (total >= 0) {
    blade_key(&b, "total");
    blade_num(&b, total);
  }
  blade_close(&b, '}');
  return blade__sent(&b, m);
}

// blade_message shows a person something; detail is any JSON or no value.
static inline blade_answer blade_message(const char *summary, blade_json detail) {
  blade_marker m = blade_mark();
  blade_buf b = {0};
  blade_putz(&b, "{\"kind\":\"message\",\"content\":{\"summary\":");
  blade_strz(&b, summary);
  if (detail.n) {
    blade_key(&b, "detail");
    blade_raw(&b, detail);
  }
  blade_putz(&b, "}}");
  return blade__sent(&b, m);
}

// blade_effect asks the session for a change: an object with a type, which the
// manifest must declare.
static inline blade_answer blade_effect(blade_json effect) {
  blade_marker m = blade_mark();
  blade_buf b = {0};
  blade_putz(&b, "{\"kind\":\"effect\",\"effect\":");
  blade_raw(&b, effect);
  blade_close(&b, '}');
  return blade__sent(&b, m);
}

// blade_context_patch asks for the members of metadata to be set in the
// session's context.
static inline blade_answer blade_context_patch(blade_json metadata) {
  blade_marker m = blade_mark();
  blade_buf b = {0};
  blade_putz(&b, "{\"kind\":\"effect\",\"effect\":{\"type\":\"contextPatch\",\"patch\":{\"metadata\":");
  blade_raw(&b, metadata);
  blade_putz(&b, "}}}");
  return blade__sent(&b, m);
}

// ---------------------------------------------------------------- services

// Status of a service call.
enum {
  BLADE_CALL_OK, BLADE_CALL_CANCELLED, BLADE_CALL_UNKNOWN, BLADE_CALL_NOT_DECLARED,
  BLADE_CALL_NOT_GRANTED, BLADE_CALL_INVALID, BLADE_CALL_OVER_LIMIT, BLADE_CALL_FAILED
};

// blade_reply is an answer: a JSON object and bytes. With a status other than
// BLADE_CALL_OK the head is an error object {message, type, code?, details?}, or
// no value.
typedef struct {
  uint32_t status;
  blade_json head;
  blade_text body;
} blade_reply;

// blade_ticket is an answer that is still with the host, which keeps at most 16
// of them. Asking first and taking later is worth nothing in itself (the host
// answers each call before it returns), but it is allowed.
typedef struct {
  uint32_t status, slot, length;
} blade_ticket;

// blade_ask sends a request: head is a JSON object or no value, body bytes.
static inline blade_ticket blade_ask(const char *name, blade_json head, blade_text body) {
  blade_marker m = blade_mark();
  blade_buf b = {0};
  char size[4] = {(char)head.n, (char)(head.n >> 8), (char)(head.n >> 16), (char)(head.n >> 24)};
  blade__room(&b, 4 + head.n + body.n);
  blade_put(&b, size, 4);
  blade_put(&b, head.p, head.n);
  blade_put(&b, body.p, body.n);
  uint64_t a = blade_host_call(name, blade__len(name), b.p, b.n);
  blade_release(m);
  blade_ticket t = {(uint32_t)(a >> 48), (uint32_t)(a >> 32) & 0xffff, (uint32_t)a};
  return t;
}

// blade_collect takes an answer whole and frees its slot.
static inline blade_reply blade_collect(blade_ticket t) {
  blade_reply r = {t.status, {0, 0}, {0, 0}};
  if (!t.slot) return r;
  char *p = (char *)blade_alloc(t.length);
  uint32_t n = 0;
  while (n < t.length) {
    uint32_t k = blade_host_take(t.slot, p + n, t.length - n);
    if (!k) break;
    n += k;
  }
  blade_host_take(t.slot, p, 0); // frees the slot
  if (n < 4) {
    r.head = blade_textz("{}");
    return r;
  }
  const unsigned char *u = (const unsigned char *)p;
  uint32_t head = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
  if (head > n - 4) head = n - 4;
  r.head = head ? blade_textn(p + 4, head) : blade_textz("{}");
  r.body = blade_textn(p + 4 + head, n - 4 - head);
  return r;
}

// blade_call asks a service and waits for the answer.
static inline blade_reply blade_call(const char *name, blade_json head, blade_text body) {
  return blade_collect(blade_ask(name, head, body));
}

// blade_call_code is the code of a failed call, in lower case, as a tool's error
// has it.
static inline blade_text blade_call_code(blade_reply r) {
  static const char *const codes[] = {"", "cancelled", "unknown_service", "not_declared", "not_granted", "invalid_request", "service_limit", "service_failed"};
  blade_text c = blade_string(blade_get(r.head, "code"));
  if (!c.n) return blade_textz(codes[r.status < 8 ? r.status : 7]);
  char *low = (char *)blade_alloc(c.n);
  for (uint32_t i = 0; i < c.n; i++) low[i] = c.p[i] >= 'A' && c.p[i] <= 'Z' ? (char)(c.p[i] + 32) : c.p[i];
  return blade_textn(low, c.n);
}

// blade_fail_call hands over the error of a failed call.
static inline void blade_fail_call(blade_reply r) {
  blade_text m = blade_string(blade_get(r.head, "message"));
  blade_fail_with(blade_string(blade_get(r.head, "type")), blade_call_code(r), m.n ? m : blade_textz("a service call failed"), blade_get(r.head, "details"));
}

// ---------------------------------------------------------------- WASI

// blade_sleep waits; it ends early when the call should stop. A module that does
// not use it imports nothing of WASI.
static inline void blade_sleep(uint32_t ms) {
  uint64_t sub[6] = {0}, out[4];
  uint32_t n;
  uint32_t *clock = (uint32_t *)(sub + 2);
  clock[0] = 1; // monotonic
  sub[3] = (uint64_t)ms * 1000000;
  blade_host_poll(sub, out, 1, &n);
}

// blade_random fills n bytes from the system's generator. Anything else that is
// random repeats in every call.
static inline void blade_random(void *p, uint32_t n) {
  if (blade_host_random(p, n)) __builtin_trap();
}

// ---------------------------------------------------------------- the plugin

typedef void (*blade_tool)(blade_json input);

// BLADE_JSON is JSON written as it is, as a C string. Commas, quotes and escapes
// stay as they are; line breaks between tokens become spaces.
#define BLADE_JSON(...) #__VA_ARGS__

static inline void blade__execute(const blade_tool *tools, uint32_t count, uint32_t tool, uint32_t len) {
  char *p = (char *)blade_alloc(len);
  uint32_t n = 0;
  while (n < len) {
    uint32_t k = blade_host_take(0, p + n, len - n);
    if (!k) break;
    n += k;
  }
  const char *start = blade__space(p, p + n);
  if (tool >= count) {
    blade_invalid("no_such_tool", "the plugin has no tool of this number");
    return;
  }
  tools[tool](blade_textn(start, (uint32_t)(blade__skip(start, p + n) - start)));
}

// BLADE_PLUGIN makes the entry points: the manifest, then one function a tool in
// the manifest's order. It stands once in a plugin.
#define BLADE_PLUGIN(manifest, ...)                                                       \
  static const blade_tool blade__tools[] = {__VA_ARGS__};                                 \
  BLADE_EXPORT("blade_describe") void blade_describe(void) {                              \
    blade_host_ret(0, manifest, sizeof(manifest) - 1);                                    \
  }                                                                                       \
  BLADE_EXPORT("blade_execute") void blade_execute(uint32_t tool, uint32_t len) {         \
    blade__execute(blade__tools, sizeof blade__tools / sizeof *blade__tools, tool, len);  \
  }

#ifdef __cplusplus
}
#endif

#endif
