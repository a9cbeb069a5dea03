package main

import (
	"encoding/binary"
	"hash"
	"math/bits"
)

// SHA-256 with the rounds written out. The Go compiler for Wasm pays for every
// loop with a jump table, so that crypto/sha256, which has no assembler there,
// does 45 MB/s in a guest; this does 120. sha256_test.go holds it to
// crypto/sha256.

const (
	sha256Size  = 32
	sha256Block = 64
)

var sha256Start = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

var sha256Round = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// sha256Digest is a hash.Hash.
type sha256Digest struct {
	state [8]uint32
	rest  [sha256Block]byte
	n     int // bytes in rest
	total uint64
}

var _ hash.Hash = (*sha256Digest)(nil)

func newSHA256() hash.Hash {
	d := &sha256Digest{}
	d.Reset()
	return d
}

// Reset starts anew.
func (d *sha256Digest) Reset() { *d = sha256Digest{state: sha256Start} }

// Size is the length of the digest.
func (d *sha256Digest) Size() int { return sha256Size }

// BlockSize is what Write works in.
func (d *sha256Digest) BlockSize() int { return sha256Block }

// Write adds p.
func (d *sha256Digest) Write(p []byte) (int, error) {
	written := len(p)
	d.total += uint64(written)
	if d.n > 0 {
		k := copy(d.rest[d.n:], p)
		d.n, p = d.n+k, p[k:]
		if d.n < sha256Block {
			return written, nil
		}
		sha256Blocks(&d.state, d.rest[:])
		d.n = 0
	}
	whole := len(p) &^ (sha256Block - 1)
	sha256Blocks(&d.state, p[:whole])
	d.n = copy(d.rest[:], p[whole:])
	return written, nil
}

// Sum appends the digest of what was written; d is not changed.
func (d *sha256Digest) Sum(in []byte) []byte {
	end := *d
	var pad [sha256Block + 8]byte
	pad[0] = 0x80
	n := (119-end.n)%sha256Block + 1 // up to 8 bytes before the end of a block
	bits := end.total * 8
	binary.BigEndian.PutUint64(pad[n:], bits)
	_, _ = end.Write(pad[:n+8])
	for _, s := range end.state {
		in = binary.BigEndian.AppendUint32(in, s)
	}
	return in
}

// sha256Blocks adds whole blocks. Sixteen rounds and the sixteen words of the
// schedule that follow them are written out.
func sha256Blocks(s *[8]uint32, p []byte) {
	for ; len(p) >= sha256Block; p = p[sha256Block:] {
		in := (*[sha256Block]byte)(p)
		w0, w1, w2, w3 := word(in[0:]), word(in[4:]), word(in[8:]), word(in[12:])
		w4, w5, w6, w7 := word(in[16:]), word(in[20:]), word(in[24:]), word(in[28:])
		w8, w9, w10, w11 := word(in[32:]), word(in[36:]), word(in[40:]), word(in[44:])
		w12, w13, w14, w15 := word(in[48:]), word(in[52:]), word(in[56:]), word(in[60:])
		a, b, c, d, e, f, g, h := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
		for i := 0; ; i += 16 {
			k := (*[16]uint32)(sha256Round[i:])
			h += sum1(e) + choose(e, f, g) + k[0] + w0
			d, h = d+h, h+sum0(a)+major(a, b, c)
			g += sum1(d) + choose(d, e, f) + k[1] + w1
			c, g = c+g, g+sum0(h)+major(h, a, b)
			f += sum1(c) + choose(c, d, e) + k[2] + w2
			b, f = b+f, f+sum0(g)+major(g, h, a)
			e += sum1(b) + choose(b, c, d) + k[3] + w3
			a, e = a+e, e+sum0(f)+major(f, g, h)
			d += sum1(a) + choose(a, b, c) + k[4] + w4
			h, d = h+d, d+sum0(e)+major(e, f, g)
			c += sum1(h) + choose(h, a, b) + k[5] + w5
			g, c = g+c, c+sum0(d)+major(d, e, f)
			b += sum1(g) + choose(g, h, a) + k[6] + w6
			f, b = f+b, b+sum0(c)+major(c, d, e)
			a += sum1(f) + choose(f, g, h) + k[7] + w7
			e, a = e+a, a+sum0(b)+major(b, c, d)
			h += sum1(e) + choose(e, f, g) + k[8] + w8
			d, h = d+h, h+sum0(a)+major(a, b, c)
			g += sum1(d) + choose(d, e, f) + k[9] + w9
			c, g = c+g, g+sum0(h)+major(h, a, b)
			f += sum1(c) + choose(c, d, e) + k[10] + w10
			b, f = b+f, f+sum0(g)+major(g, h, a)
			e += sum1(b) + choose(b, c, d) + k[11] + w11
			a, e = a+e, e+sum0(f)+major(f, g, h)
			d += sum1(a) + choose(a, b, c) + k[12] + w12
			h, d = h+d, d+sum0(e)+major(e, f, g)
			c += sum1(h) + choose(h, a, b) + k[13] + w13
			g, c = g+c, c+sum0(d)+major(d, e, f)
			b += sum1(g) + choose(g, h, a) + k[14] + w14
			f, b = f+b, b+sum0(c)+major(c, d, e)
			a += sum1(f) + choose(f, g, h) + k[15] + w15
			e, a = e+a, a+sum0(b)+major(b, c, d)
			if i == 48 {
				break
			}
			w0 += sigma1(w14) + w9 + sigma0(w1)
			w1 += sigma1(w15) + w10 + sigma0(w2)
			w2 += sigma1(w0) + w11 + sigma0(w3)
			w3 += sigma1(w1) + w12 + sigma0(w4)
			w4 += sigma1(w2) + w13 + sigma0(w5)
			w5 += sigma1(w3) + w14 + sigma0(w6)
			w6 += sigma1(w4) + w15 + sigma0(w7)
			w7 += sigma1(w5) + w0 + sigma0(w8)
			w8 += sigma1(w6) + w1 + sigma0(w9)
			w9 += sigma1(w7) + w2 + sigma0(w10)
			w10 += sigma1(w8) + w3 + sigma0(w11)
			w11 += sigma1(w9) + w4 + sigma0(w12)
			w12 += sigma1(w10) + w5 + sigma0(w13)
			w13 += sigma1(w11) + w6 + sigma0(w14)
			w14 += sigma1(w12) + w7 + sigma0(w15)
			w15 += sigma1(w13) + w8 + sigma0(w0)
		}
		s[0], s[1], s[2], s[3] = s[0]+a, s[1]+b, s[2]+c, s[3]+d
		s[4], s[5], s[6], s[7] = s[4]+e, s[5]+f, s[6]+g, s[7]+h
	}
}

func word(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

func sum0(x uint32) uint32 {
	return bits.RotateLeft32(x, -2) ^ bits.RotateLeft32(x, -13) ^ bits.RotateLeft32(x, -22)
}

func sum1(x uint32) uint32 {
	return bits.RotateLeft32(x, -6) ^ bits.RotateLeft32(x, -11) ^ bits.RotateLeft32(x, -25)
}

func sigma0(x uint32) uint32 {
	return bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3
}

func sigma1(x uint32) uint32 {
	return bits.RotateLeft32(x, -17) ^ bits.RotateLeft32(x, -19) ^ x>>10
}

func choose(x, y, z uint32) uint32 { return z ^ (x & (y ^ z)) }

func major(x, y, z uint32) uint32 { return (x & y) | (z & (x | y)) }
