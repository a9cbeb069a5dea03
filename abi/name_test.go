package abi_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// The rules as regular expressions: what the scanners must agree with.
var nameRules = map[string]struct {
	rule  *regexp.Regexp
	valid func(string) bool
	most  int
}{
	"tool":    {regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`), abi.ValidToolName, 64},
	"package": {regexp.MustCompile(`^(@[a-z0-9][a-z0-9-]*/)?blade-tool-[a-z0-9]+(-[a-z0-9]+)*$`), abi.ValidPackageName, 214},
	"code":    {regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`), abi.ValidToolCode, 64},
	"service": {regexp.MustCompile(`^x-[a-z0-9][a-z0-9-]*$`), abi.EmbedderService, 64},
	"env":     {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), abi.ValidEnvName, 256},
	"pointer": {regexp.MustCompile(`^(/([^~/]|~[01])*)*$`), abi.ValidPointer, 1 << 20},
	// From semver.org.
	"version": {regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`), abi.ValidVersion, 64},
}

var nameCases = []string{
	"", "a", "A", "1", "_", "-", "é", "a b", "a\n", "a\x00", "Read", "read_file-2", "9a", strings.Repeat("a", 64), strings.Repeat("a", 65),
	"blade-tool-", "blade-tool-a", "blade-tool-a-b", "blade-tool-a--b", "blade-tool--a", "blade-tool-a-", "blade-tool-A", "blade-tool-é",
	"@acme/blade-tool-a", "@/blade-tool-a", "@-a/blade-tool-a", "@a-/blade-tool-a", "@a/b/blade-tool-a", "@A/blade-tool-a", "@a", "@a/", "a/blade-tool-a",
	"@a/@b/blade-tool-a", "blade-tool-" + strings.Repeat("a", 203), "blade-tool-" + strings.Repeat("a", 204),
	"x-", "x-a", "x--a", "x-a-", "X-a", "x-a.b", "x-" + strings.Repeat("a", 62), "x-" + strings.Repeat("a", 63), "_A1", "A-B",
	"/", "/a", "//", "a/", "~", "/~", "/~0~1", "/~2", "/a~", "/a b/é",
	"1.2.3", "0.0.0", "01.2.3", "1.2", "1.2.3.4", "v1.2.3", "1.2.3-", "1.2.3-a.b-c.1", "1.2.3-01", "1.2.3-0a", "1.2.3-a..b", "1.2.3+", "1.2.3+01.a",
	"1.2.3+a+b", "1.2.3-a+b", "1.2.3+a-b", "-1.2.3", "1.2.3 ", strings.Repeat("1", 60) + ".1.1", strings.Repeat("1", 61) + ".1.1",
}

func TestNames(t *testing.T) {
	for kind, c := range nameRules {
		for _, s := range nameCases {
			if got, want := c.valid(s), len(s) <= c.most && c.rule.MatchString(s); got != want {
				t.Errorf("%s name %q: %v, want %v", kind, s, got, want)
			}
		}
	}
}

// FuzzNames: the scanners and the regular expressions agree on any text.
func FuzzNames(f *testing.F) {
	for _, s := range nameCases {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for kind, c := range nameRules {
			if got, want := c.valid(s), len(s) <= c.most && c.rule.MatchString(s); got != want {
				t.Errorf("%s name %q: %v, want %v", kind, s, got, want)
			}
		}
	})
}

func TestHTTPHeaders(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"texts and lists", `{"a":"1","b":["2","3"],"c":[]}`, `{"a":["1"],"b":["2","3"],"c":[]}`},
		{"null", `null`, `null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h abi.HTTPHeaders
			if err := h.UnmarshalJSON([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			if got, _ := abi.Marshal(h); string(got) != c.out {
				t.Errorf("got %s, want %s", got, c.out)
			}
		})
	}
	for _, bad := range []string{`{"a":1}`, `{"a":[1]}`, `[]`, `{"a":{"b":"c"}}`} {
		if err := new(abi.HTTPHeaders).UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
