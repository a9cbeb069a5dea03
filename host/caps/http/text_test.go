package http

import (
	"testing"
	"unicode/utf8"
)

func TestDecodeText(t *testing.T) {
	for name, c := range map[string]struct{ body, kind, want, charset string }{
		"plain":            {"abc", "text/plain", "abc", "utf-8"},
		"empty":            {"", "", "", "utf-8"},
		"utf-8":            {"é世", "application/json", "é世", "utf-8"},
		"by header":        {"\xe9", "text/html; charset=iso-8859-1", "é", "windows-1252"},
		"by meta":          {`<meta charset="shift_jis">` + "\x90\xa2", "text/html", `<meta charset="shift_jis">世`, "shift_jis"},
		"by mark":          {"\xff\xfea\x00\x16\x4e", "text/html; charset=utf-8", "a世", "utf-16le"},
		"mark of utf-8":    {"\xef\xbb\xbfé", "text/html; charset=iso-8859-1", "é", "utf-8"},
		"header lies":      {"\xe9x", "text/html; charset=utf-8", "\ufffdx", "utf-8"},
		"unknown name":     {"é", "text/html; charset=no-such", "é", "utf-8"},
		"no declaration":   {"caf\xe9", "text/plain", "café", "windows-1252"},
		"broken type":      {"é", "a;;;=", "é", "utf-8"},
		"replacement only": {"abc", "text/html; charset=iso-2022-kr", "\ufffd", "replacement"},
	} {
		text, charset := DecodeText([]byte(c.body), c.kind)
		if text != c.want || charset != c.charset {
			t.Errorf("%s: %q %s, want %q %s", name, text, charset, c.want, c.charset)
		}
	}
}

func FuzzDecodeText(f *testing.F) {
	f.Add([]byte("a\xe9"), "text/html; charset=gbk")
	f.Add([]byte("\xff\xfe\x00"), "")
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		if text, name := DecodeText(body, kind); !utf8.ValidString(text) || name == "" {
			t.Fatalf("%q as %q: %q %q", body, kind, text, name)
		}
	})
}

// Check says what Do would, without a connection.
func TestCheck(t *testing.T) {
	c := New(Options{Policy: Policy{Blocked: []string{"bad.example.com"}}})
	defer c.Close()
	for u, ok := range map[string]bool{"https://example.com/": true, "https://bad.example.com/": false, "http://127.0.0.1/": false, "ftp://example.com/": false, "": false} {
		if err := c.Check("GET", u); (err == nil) != ok {
			t.Errorf("%s: %v", u, err)
		}
	}
}
