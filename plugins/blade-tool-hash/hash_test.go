package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

func TestHashText(t *testing.T) {
	for _, c := range []struct{ name, algorithm, encoding, text, want string }{
		{"the default", "", "", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"md5", "md5", "hex", "abc", "900150983cd24fb0d6963f7d28e17f72"},
		{"sha1", "sha1", "hex", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{"sha512", "sha512", "hex", "abc", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
		{"blake2b", "blake2b", "hex", "abc", "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"},
		{"blake3", "blake3", "hex", "abc", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"},
		{"base64", "md5", "base64", "abc", "kAFQmDzST7DWlj99KOF/cg=="},
		{"an empty text", "sha256", "hex", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"a text of several bytes a character", "md5", "hex", "é😀", "62b3afe3b01f6f80152b567d9b216cde"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := map[string]any{"text": c.text}
			if c.algorithm != "" {
				in["algorithm"], in["encoding"] = c.algorithm, c.encoding
			}
			var out hashOut
			pdktest.New(t, plugin()).Run("Hash", in).Data(&out)
			if out.Digest != c.want {
				t.Errorf("digest %s, want %s", out.Digest, c.want)
			}
			if out.Bytes != int64(len(c.text)) {
				t.Errorf("%d bytes, want %d", out.Bytes, len(c.text))
			}
		})
	}
}

func TestHashFile(t *testing.T) {
	h := pdktest.New(t, plugin())
	dir := h.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	write(t, dir, "big", content)
	write(t, dir, "empty", nil)

	t.Run("a large file shows its progress", func(t *testing.T) {
		out := h.Run("Hash", map[string]any{"path": "big"})
		var got hashOut
		out.Data(&got)
		if want := fmt.Sprintf("%x", sha256.Sum256(content)); got.Digest != want || got.Bytes != int64(len(content)) {
			t.Errorf("got %+v, want %s", got, want)
		}
		var last float64
		for _, y := range out.Yields {
			if y.Kind != abi.YieldProgress || *y.Completed <= last || *y.Total != float64(len(content)) {
				t.Fatalf("a yield that should not be: %+v", y)
			}
			last = *y.Completed
		}
		if n := len(out.Yields); n != 4 || last != float64(len(content)) {
			t.Errorf("%d yields up to %v", n, last)
		}
	})
	t.Run("a small file does not", func(t *testing.T) {
		out := h.Run("Hash", map[string]any{"path": filepath.Join(dir, "empty"), "algorithm": "sha1"})
		var got hashOut
		out.Data(&got)
		if got.Digest != "da39a3ee5e6b4b0d3255bfef95601890afd80709" || len(out.Yields) != 0 {
			t.Errorf("got %+v and %d yields", got, len(out.Yields))
		}
	})
	t.Run("cancelled while it reads", func(t *testing.T) {
		h.OnYield = func(abi.Yield) abi.Cancel { return abi.CancelRequest }
		defer func() { h.OnYield = nil }()
		out := h.Run("Hash", map[string]any{"path": "big"})
		out.WantCode("cancelled")
		if len(out.Yields) != 1 {
			t.Errorf("%d yields after the cancel", len(out.Yields))
		}
	})
}

func TestHashRefuses(t *testing.T) {
	h := pdktest.New(t, plugin())
	dir := h.TempDir()
	for _, c := range []struct {
		name string
		in   map[string]any
		code string
		says string
	}{
		{"neither", map[string]any{}, "text_or_path", "exactly one"},
		{"both", map[string]any{"text": "", "path": "a"}, "text_or_path", "exactly one"},
		{"no such file", map[string]any{"path": "nope"}, "not_found", "nope"},
		{"a folder", map[string]any{"path": "."}, "is_directory", "folder"},
		{"outside of what is granted", map[string]any{"path": "/nowhere/file"}, "not_granted", "--allow-read /nowhere"},
		{"outside by dots", map[string]any{"path": "../../no-such-folder-7f3a/x"}, "not_granted", "--allow-read"},
		{"an unknown function", map[string]any{"text": "a", "algorithm": "crc32"}, "unknown_algorithm", "sha256"},
		{"text that is a number", map[string]any{"text": 1}, "bad_input", "text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := h.Run("Hash", c.in)
			out.WantCode(c.code)
			if !strings.Contains(out.Err().Message, c.says) {
				t.Errorf("the message %q does not say %q", out.Err().Message, c.says)
			}
		})
	}
	t.Run("nothing is granted", func(t *testing.T) {
		pdktest.New(t, plugin()).Run("Hash", map[string]any{"path": filepath.Join(dir, "x")}).WantCode("not_granted")
	})
}

// The SHA-256 for Wasm is crypto/sha256, whatever the pieces it is fed with.
func TestSHA256(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	for n := range 300 {
		n *= 1 + n%9
		h := newSHA256()
		for rest := data[:n]; len(rest) > 0; {
			k := 1 + rnd.IntN(len(rest))
			_, _ = h.Write(rest[:k])
			rest = rest[k:]
			_ = h.Sum(nil) // changes nothing
		}
		if want := sha256.Sum256(data[:n]); !bytes.Equal(h.Sum(nil), want[:]) {
			t.Fatalf("differs for %d bytes", n)
		}
	}
}

func FuzzSHA256(f *testing.F) {
	f.Add([]byte("abc"), 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		h := newSHA256()
		if cut >= 0 && cut < len(b) {
			_, _ = h.Write(b[:cut])
			_, _ = h.Write(b[cut:])
		} else {
			_, _ = h.Write(b)
		}
		if want := sha256.Sum256(b); !bytes.Equal(h.Sum(nil), want[:]) {
			t.Fatal("differs")
		}
	})
}

func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
