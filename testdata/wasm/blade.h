// The functions of blade_v1 for the guests of this folder.
#ifndef BLADE_H
#define BLADE_H
#include <stdint.h>
#define BLADE(name) __attribute__((import_module("blade_v1"), import_name(#name)))
BLADE(take) uint32_t blade_take(uint32_t slot, void *ptr, uint32_t cap);
BLADE(call) uint64_t blade_call(const char *name, uint32_t name_len, const void *ptr, uint32_t len);
BLADE(yield) int32_t blade_yield(const void *ptr, uint32_t len);
BLADE(ret) void blade_ret(uint32_t status, const void *ptr, uint32_t len);
BLADE(log) void blade_log(uint32_t level, const void *ptr, uint32_t len);
BLADE(cancelled) int32_t blade_cancelled(void);
BLADE(deadline) int64_t blade_deadline(void);
#define EXPORT(name) __attribute__((export_name(#name)))
#endif
