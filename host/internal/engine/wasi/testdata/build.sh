#!/bin/sh
# Builds the committed guests of this folder. Needs clang and wasm-ld 19 with the
# wasm32-wasi C library (Debian: clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32),
# and wat2wasm (wabt).
set -eu
cd "$(dirname "$0")"
CC=${CC:-clang-19}
for f in fd path misc; do
  $CC --target=wasm32 -mbulk-memory -Oz -nostdlib -fno-builtin -Wall -Wextra -Wno-unused-function -Wno-missing-prototypes \
    -Wl,--no-entry -Wl,-s -o $f.wasm $f.c
done
for f in libc; do
  $CC --target=wasm32-wasi --sysroot=/usr -Oz -Wall -Wextra -Wl,-s -o $f.wasm $f.c
done
for f in *.wat; do
  wat2wasm -o "${f%.wat}.wasm" "$f"
done
