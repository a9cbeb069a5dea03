package secrets

import (
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

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
	std := base64.StdEncoding.EncodeToString([]byte(v))
	return map[string]string{
		"as it is": v, "query": url.QueryEscape(v), "path": url.PathEscape(v), "query in lower case": strings.ToLower(url.QueryEscape(v)),
		"every byte": each("%%%02x"), "every byte in capitals": each("%%%02X"), "every byte as JSON": each(`\u%04x`), "every byte as JSON in capitals": each(`\u%04X`),
		"JavaScript": each(`\x%02x`), "PHP's JSON": strings.NewReplacer(`\`, `\\`, `"`, `\"`, "/", `\/`).Replace(v), "Go's JSON": strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", `\u0026`, "<", `\u003c`, ">", `\u003e`).Replace(v),
		"HTML": html.EscapeString(v), "HTML decimal": each("&#%d;"), "HTML hexadecimal": each("&#x%X;"),
		"base64": std, "base64 for URLs": base64.URLEncoding.EncodeToString([]byte(v)), "base64 without padding": strings.TrimRight(std, "="),
		"base64 in lines": lines(std, 16, "\r\n"), "base64 in lines of JSON": lines(std, 16, `\n`), "base64 in a query": url.QueryEscape(std),
		"base64 inside of something": base64.StdEncoding.EncodeToString([]byte("xy" + v + "z")),
		"hex":                        each("%02x"), "hex in capitals": each("%02X"), "hex in lines": lines(each("%02x"), 8, "\n"),
	}
}

func TestSpellings(t *testing.T) {
	for _, v := range []string{odd, "hunter2/secret+value", "%25%2f%5c", `\\u005c\`, "&amp;&lt;", "aaaaaaaa", "plain-token_123"} {
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

func BenchmarkScrub(b *testing.B) {
	s := NewScrubber(map[string]string{odd: "T", "ghp_0123456789abcdefghijABCDEFGHIJ012345": "U"})
	text := []byte(strings.Repeat(`{"url":"https:\/\/api.example.com\/a?b=%20c&d=e","text":"the quick brown fox, 0123456789abcdef"},`, 10_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Bytes(text)
	}
}
