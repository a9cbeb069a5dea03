package secrets

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"
)

// foreign is a value beyond ASCII.
const foreign = "p\u00e4sswort-\u20ac-\U0001f600"

const odd = `abc/def+ghi=jkl&m%n "q"<r>\s t`

// spelled are the ways in which a value comes back.
func spelled(v string) map[string]string {
	each := func(format string) string {
		var b strings.Builder
		for i := range len(v) {
			fmt.Fprintf(&b, format, v[i])
		}
		return b.String()
	}
	lines := func(s string, n int, end string) string {
		var b strings.Builder
		for len(s) > n {
			b.WriteString(s[:n] + end)
			s = s[n:]
		}
		return b.String() + s
	}
	runes := func(small, large string) string {
		var b strings.Builder
		for _, r := range v {
			if hi, lo := utf16.EncodeRune(r); large != "" && hi != utf8.RuneError {
				fmt.Fprintf(&b, large, hi, lo)
			} else {
				fmt.Fprintf(&b, small, r)
			}
		}
		return b.String()
	}
	std := base64.StdEncoding.EncodeToString([]byte(v))
	return map[string]string{
		"as it is": v, "query": url.QueryEscape(v), "path": url.PathEscape(v), "query in lower case": strings.ToLower(url.QueryEscape(v)),
		"every byte": each("%%%02x"), "every byte in capitals": each("%%%02X"), "every byte as JSON": runes(`\u%04x`, `\u%04x\u%04x`), "every byte as JSON in capitals": runes(`\u%04X`, `\u%04X\u%04X`),
		"JavaScript": each(`\x%02x`), "PHP's JSON": strings.NewReplacer(`\`, `\\`, `"`, `\"`, "/", `\/`).Replace(v), "Go's JSON": strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", `\u0026`, "<", `\u003c`, ">", `\u003e`).Replace(v),
		"HTML": html.EscapeString(v), "HTML decimal": runes("&#%d;", ""), "HTML hexadecimal": runes("&#x%X;", ""),
		"base64": std, "base64 for URLs": base64.URLEncoding.EncodeToString([]byte(v)), "base64 without padding": strings.TrimRight(std, "="),
		"base64 in lines": lines(std, 16, "\r\n"), "base64 in lines of JSON": lines(std, 16, `\n`), "base64 in lines of a query": lines(std, 16, "%0D%0A"), "base64 in lines of HTML": lines(std, 16, "&#10;"), "base64 in lines of other JSON": lines(std, 16, `\u000d\u000a`), "base64 in a query": url.QueryEscape(std),
		"base64 inside of something": base64.StdEncoding.EncodeToString([]byte("xy" + v + "z")),
		"hex":                        each("%02x"), "hex in capitals": each("%02X"), "hex in lines": lines(each("%02x"), 8, "\n"),
	}
}

func TestSpellings(t *testing.T) {
	for _, v := range []string{odd, foreign, "hunter2/secret+value", "%25%2f%5c", `\\u005c\`, "&amp;&lt;", "aaaaaaaa", "plain-token_123"} {
		s := NewScrubber(map[string]string{v: "T", "something else": "U"})
		for name, text := range spelled(v) {
			whole := "before " + text + " after"
			got := s.Text(whole)
			// Of what lies inside of longer base64, a character at each end is left.
			if name == "base64 inside of something" {
				if strings.Contains(got, base64.StdEncoding.EncodeToString([]byte("xy" + v))[4:8]) || !strings.Contains(got, "[secret:T]") {
					t.Errorf("%q, %s: %q became %q", v, name, whole, got)
				}
				continue
			}
			if got != "before [secret:T] after" {
				t.Errorf("%q, %s: %q became %q", v, name, whole, got)
			}
			// Byte by byte as well.
			b, err := io.ReadAll(s.Reader(iotest.OneByteReader(strings.NewReader(whole))))
			if err != nil || string(b) != got {
				t.Errorf("%q, %s, in pieces: %q %v", v, name, b, err)
			}
		}
		for _, harmless := range []string{"%2", `\u00`, "&#", "&amp", "\\", "%%%", "abc/de", `{"a":"b\n"}`, "50% & more"} {
			if got := s.Text(harmless); got != harmless {
				t.Errorf("%q became %q", harmless, got)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]struct {
		text string
		n    int
		more bool
	}{
		"%41": {"A", 3, false}, "%4aX": {"J", 3, false}, "%4": {"", 0, true}, "%4:": {}, "%@1": {}, "%4`": {}, "%4G": {}, "%": {"", 0, true}, "%+4": {}, "%e4": {"\xe4", 3, false},
		`\u0041`: {"A", 6, false}, `\u00e4`: {"\u00e4", 6, false}, `\u004`: {"", 0, true}, `\x7e`: {"~", 4, false}, `\xe4`: {"\u00e4", 4, false}, `\"`: {`"`, 2, false}, `\t`: {"\t", 2, false}, `\n`: {}, `\`: {"", 0, true},
		`\ud83d\ude00`: {"\U0001f600", 12, false}, `\ud83d`: {"", 0, true}, `\ud83d\`: {"", 0, true}, `\ud83d\ude0`: {"", 0, true}, `\ud83dx`: {}, `\ud83d\u0041`: {}, `\ude00\ud83d`: {}, `\ud83d\n`: {},
		"&#65;": {"A", 5, false}, "&#x41;": {"A", 6, false}, "&#X00041;": {"A", 9, false}, "&#228;": {"\u00e4", 6, false}, "&#x1f600;": {"\U0001f600", 9, false}, "&#xd83d;": {}, "&#9999999;": {}, "&#4a;": {}, "&#;": {}, "&#x;": {}, "&;": {},
		"&amp;": {"&", 5, false}, "&lowbar;": {"_", 8, false}, "&auml;": {"\u00e4", 6, false}, "&amp b c d e": {"&", 4, false}, "&amp": {"&", 4, true}, "&am": {"", 0, true}, "&nothing;x": {}, "&0123456789;": {}, "+": {" ", 1, false}, "A": {},
	} {
		s := decode([]byte(text))
		if string(s.text[:s.size]) != want.text || s.n != want.n || s.more != want.more {
			t.Errorf("%s: %q %d %v, want %+v", text, s.text[:s.size], s.n, s.more, want)
		}
	}
}

// everyPlace scrubs by looking at each byte, without the search for pairs.
func everyPlace(s *Scrubber, b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); {
		if mark, n, _ := s.at(b[i:]); n > 0 {
			out, i = append(out, mark...), i+n
			continue
		}
		out, i = append(out, b[i]), i+1
	}
	return out
}

func TestSearch(t *testing.T) {
	for _, v := range []string{odd, foreign, "hunter2/secret+value", "%25%2f%5c", `\\u005c\`, "&amp;&lt;", "aaaa", "    ", "a b c", "\r\n\r\n", "plain-token_123"} {
		s := NewScrubber(map[string]string{v: "T"})
		for name, text := range spelled(v) {
			for before := range 12 {
				whole := []byte(strings.Repeat("x", before) + text + "y" + text)
				if got, want := s.Bytes(bytes.Clone(whole)), everyPlace(s, whole); !bytes.Equal(got, want) {
					t.Errorf("%q, %s, after %d bytes: %q, want %q", v, name, before, got, want)
				}
			}
		}
	}
}

// FuzzSearch: the search finds what a look at each byte finds.
func FuzzSearch(f *testing.F) {
	for name, text := range spelled(odd) {
		f.Add(odd, "x"+text+name)
	}
	f.Add("a b\nc", "xa+b%0Ac a b\nc YSBiCm\r\nM=")
	f.Fuzz(func(t *testing.T, value, text string) {
		if len(value) < minLength {
			return
		}
		s := NewScrubber(map[string]string{value: "T"})
		if got, want := s.Text(text), string(everyPlace(s, []byte(text))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func BenchmarkScrub(b *testing.B) {
	s := NewScrubber(map[string]string{odd: "T", "ghp_0123456789abcdefghijABCDEFGHIJ012345": "U"})
	random := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	for name, text := range map[string][]byte{
		"json":   []byte(strings.Repeat(`{"url":"https:\/\/api.example.com\/a?b=%20c&d=e","text":"the quick brown fox, 0123456789abcdef"},`, 10_000)),
		"prose":  []byte(strings.Repeat("The quick brown fox jumps over the lazy dog, and then it sleeps.\n", 15_000)),
		"random": random,
		"zero":   make([]byte, 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Bytes(text)
			}
		})
	}
}
