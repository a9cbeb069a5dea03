// Kernels in C, built with
//
//   clang-19 --target=wasm32 -O2 -mbulk-memory -nostdlib -Wl,--no-entry -o kernels_c.wasm kernels.c && wasm-strip kernels_c.wasm
//
// Each export takes a size and returns a number that depends on all the work.

#define EXPORT(name) __attribute__((export_name(name)))

typedef unsigned int u32;
typedef unsigned long long u64;

static u32 seed;
static u32 next(void) { return seed = seed * 1664525u + 1013904223u; }

static u32 table[256];
static unsigned char bytes[1 << 16];
static int numbers[1 << 14];
static double a[64][64], b[64][64], c[64][64];

EXPORT("crc32") u64 crc32(u32 n) {
  for (u32 i = 0; i < 256; i++) {
    u32 x = i;
    for (int k = 0; k < 8; k++) x = x & 1 ? 0xedb88320u ^ (x >> 1) : x >> 1;
    table[i] = x;
  }
  seed = 1;
  for (u32 i = 0; i < sizeof bytes; i++) bytes[i] = next() >> 24;
  u32 crc = ~0u;
  while (n--)
    for (u32 i = 0; i < sizeof bytes; i++) crc = table[(crc ^ bytes[i]) & 255] ^ (crc >> 8);
  return ~crc;
}

EXPORT("sieve") u64 sieve(u32 n) {
  u32 count = 0;
  while (n--) {
    __builtin_memset(bytes, 1, sizeof bytes);
    for (u32 i = 2; i < sizeof bytes; i++) {
      if (!bytes[i]) continue;
      count++;
      for (u32 k = i * 2; k < sizeof bytes; k += i) bytes[k] = 0;
    }
  }
  return count;
}

static void sort(int *x, int lo, int hi) {
  if (lo >= hi) return;
  int pivot = x[(lo + hi) / 2], i = lo, k = hi;
  while (i <= k) {
    while (x[i] < pivot) i++;
    while (x[k] > pivot) k--;
    if (i <= k) {
      int t = x[i];
      x[i++] = x[k];
      x[k--] = t;
    }
  }
  sort(x, lo, k);
  sort(x, i, hi);
}

EXPORT("qsort") u64 quicksort(u32 n) {
  u64 sum = 0;
  while (n--) {
    seed = n;
    for (u32 i = 0; i < 1 << 14; i++) numbers[i] = next();
    sort(numbers, 0, (1 << 14) - 1);
    for (u32 i = 0; i < 1 << 14; i += 97) sum = sum * 31 + (u32)numbers[i];
  }
  return sum >> 1;
}

EXPORT("matmul") u64 matmul(u32 n) {
  for (int i = 0; i < 64; i++)
    for (int k = 0; k < 64; k++) a[i][k] = i + k, b[i][k] = i - k;
  while (n--)
    for (int i = 0; i < 64; i++)
      for (int k = 0; k < 64; k++) {
        double s = 0;
        for (int l = 0; l < 64; l++) s += a[i][l] * b[l][k];
        c[i][k] = s;
      }
  return (u64)(c[63][1] + c[1][63] * 3 + 1e9);
}

typedef u64 op(u64, u64);
static u64 add(u64 x, u64 y) { return x + y; }
static u64 mul(u64 x, u64 y) { return x * y; }
static u64 rot(u64 x, u64 y) { return x << (y & 63) | x >> (-y & 63); }
static op *const ops[] = {add, mul, rot};

EXPORT("dispatch") u64 dispatch(u32 n) {
  u64 x = 1;
  seed = 3;
  while (n--) x = ops[next() % 3](x, n | 1);
  return x >> 1;
}
