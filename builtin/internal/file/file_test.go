package file

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/bladehost/bladehost/abi"
)

// FuzzText: what is read without loss is written back to the byte, and reading in pieces gives the same.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "\xef\xbb\xbfx", "\xff\xfea\x00", "\xfe\xff\x00a", "caf\xe9", "\xff\xfe\x00\xd8", "a\x80", "日本", "\xff\xfe", "h\xc3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x := Decode(b)
		if !x.Lossy {
			out, err := x.Encode(x.S)
			if err != nil || !bytes.Equal(out, b) {
				t.Errorf("%q in %s became %q, %v", b, x.Encoding, out, err)
			}
		}
		e, _ := SniffEncoding(b)
		for _, r := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b))} {
			d := NewReader(r, b)
			all, err := io.ReadAll(d)
			if err != nil {
				t.Fatal(err)
			}
			if d.Encoding() != e {
				continue // the end of b cuts a character, which NewReader does not judge by
			}
			if got := strings.ToValidUTF8(string(all), "\uFFFD"); got != x.S {
				t.Errorf("%q in pieces is %q, not %q", b, got, x.S)
			}
		}
	})
}

// Units and Cut count as JavaScript does, and never cut inside a character.
func TestUnits(t *testing.T) {
	for _, s := range []string{"", "abc", "é", "日本", "😀", "a😀b", "e\u0301"} {
		if got, want := Units(s), len(utf16.Encode([]rune(s))); got != want {
			t.Errorf("%q: %d, not %d", s, got, want)
		}
		for n := range 8 {
			short, cut := Cut(s, n)
			if !strings.HasPrefix(s, short) || Units(short) > n || cut != (len(short) < len(s)) {
				t.Errorf("%q at %d: %q %v", s, n, short, cut)
			}
		}
	}
}

// An index with broken lines, as a crash could leave, keeps the others.
func TestIndexIsForgiving(t *testing.T) {
	good := `{"messageId":"m","filePath":"/a","version":1,"backupFileName":"` + strings.Repeat("ab", 32) + `","size":1,"timestamp":"2026-01-01T00:00:00Z"}`
	list := parseIndex([]byte("\n{\n" + good + "\n" + strings.Replace(good, "abab", "../x", 1) + "\n" + good[:40]))
	if len(list) != 1 || list[0].Path != "/a" {
		t.Errorf("%+v", list)
	}
}

// FuzzIndex: an index names no file outside of its folder.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"messageId":"m","filePath":"/a","backupFileName":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range parseIndex(b) {
			if len(s.SHA256) != 64 || strings.ContainsAny(s.SHA256, `/\.`) {
				t.Errorf("%q", s.SHA256)
			}
		}
	})
}

// Codes have the types of the catalogue.
func TestErrorTypes(t *testing.T) {
	if e := Invalid("/x", "wrong"); e.Type != abi.TypeValidation || string(e.Details) != `{"issues":[{"pointer":"/x","message":"wrong"}]}` {
		t.Errorf("%+v %s", e, e.Details)
	}
	own := Error(abi.TypeExecution, CodeIO, "x")
	if Failed("read", "/p", own) != own {
		t.Error("an error of ours is wrapped")
	}
}
