package secrets

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zalando/go-keyring"

	"github.com/bladehost/bladehost/abi"
)

const value = `s3cr"et/+ value`

type fixed map[string]string

func (f fixed) Get(_ context.Context, name string) (string, bool, error) {
	v, ok := f[name]
	return v, ok, nil
}

func vault(src ...Source) *Vault {
	return NewVault(src, []Grant{{"TOKEN", []string{"api.example.com"}}, {"SHORT", []string{"api.example.com"}}, {"NONE", []string{"api.example.com"}}},
		func(h string, p []string) bool { return slices.Contains(p, h) })
}

func TestFill(t *testing.T) {
	v := vault(fixed{"TOKEN": value, "SHORT": "abc", "OTHER": "otherwise"})
	got, err := v.Fill(t.Context(), "api.example.com", "Bearer {{secret:TOKEN}}!")
	if err != nil || got != "Bearer "+value+"!" {
		t.Fatalf("%q %v", got, err)
	}
	for _, c := range []struct {
		host, text string
		code       abi.Code
	}{
		{"evil.example.com", "{{secret:TOKEN}}", abi.CodeNotGranted},
		{"api.example.com", "{{secret:OTHER}}", abi.CodeNotGranted},
		{"api.example.com", "{{secret:NONE}}", abi.CodeSecretMissing},
		{"api.example.com", "{{secret:SHORT}}", abi.CodeSecretMissing},
	} {
		out, err := v.Fill(t.Context(), c.host, c.text)
		if abi.CodeOf(err) != c.code || out != "" || strings.Contains(fmt.Sprint(err), value) {
			t.Errorf("%s at %s: %q %v", c.text, c.host, out, err)
		}
	}
	if got, err := v.Fill(t.Context(), "x", "plain {{secret:}} {{other}}"); err != nil || got != "plain {{secret:}} {{other}}" {
		t.Errorf("%q %v", got, err)
	}
	if !v.Exists(t.Context(), "TOKEN") || v.Exists(t.Context(), "NONE") || v.Exists(t.Context(), "OTHER") {
		t.Error("what exists")
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", v, v, v), value) {
		t.Error("a vault shows its values")
	}
}

// A secret that was missing works as soon as it is there.
func TestRequire(t *testing.T) {
	src := fixed{}
	v := vault(src)
	if err := v.Require(t.Context(), "TOKEN"); abi.CodeOf(err) != abi.CodeSecretMissing {
		t.Errorf("%v", err)
	}
	src["TOKEN"] = value
	if err := v.Require(t.Context(), "TOKEN"); err != nil {
		t.Errorf("%v", err)
	}
	if err := v.Require(t.Context(), "UNASKED"); abi.CodeOf(err) != abi.CodeSecretMissing {
		t.Errorf("%v", err)
	}
}

func TestScrubber(t *testing.T) {
	s := NewScrubber(map[string]string{value: "TOKEN", "another-one": "B"})
	for name, text := range map[string]string{
		"plain": value, "query": url.QueryEscape(value), "path": url.PathEscape(value), "json": `s3cr\"et/+ value`,
		"hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "basic auth": base64.StdEncoding.EncodeToString([]byte("user:" + value)),
		"basic auth, shifted": base64.StdEncoding.EncodeToString([]byte("me:" + value + "!")), "base64 url": base64.URLEncoding.EncodeToString([]byte("ab" + value)),
		"two": value + value + "another-one",
	} {
		got := s.Text("<" + text + ">")
		if strings.Contains(got, text) || !strings.Contains(got, "[secret:TOKEN]") {
			t.Errorf("%s: %q stays %q", name, text, got)
		}
		if string(s.Bytes([]byte("<"+text+">"))) != got {
			t.Errorf("%s: bytes differ", name)
		}
		for _, r := range []io.Reader{strings.NewReader("<" + text + ">"), iotest.OneByteReader(strings.NewReader("<" + text + ">")), iotest.DataErrReader(strings.NewReader("<" + text + ">"))} {
			b, err := io.ReadAll(s.Reader(r))
			if err != nil || string(b) != got {
				t.Errorf("%s: reader %q %v, want %q", name, b, err, got)
			}
		}
	}
	plain := strings.Repeat("nothing to see here ", 5000)
	if b, err := io.ReadAll(s.Reader(strings.NewReader(plain))); err != nil || string(b) != plain {
		t.Error("a plain text was changed")
	}
	if (*Vault)(nil).Scrubber().Text("x") != "x" {
		t.Error("a nil vault")
	}
}

func FuzzScrubReader(f *testing.F) {
	f.Add("abc another-one def", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		s := NewScrubber(map[string]string{"another-one": "B", "one-two-three": "C"})
		at = max(0, min(at, len(text)))
		r := io.MultiReader(strings.NewReader(text[:at]), strings.NewReader(text[at:]))
		b, err := io.ReadAll(s.Reader(r))
		if err != nil || string(b) != s.Text(text) {
			t.Fatalf("%q at %d: %q, want %q", text, at, b, s.Text(text))
		}
	})
}

func TestSources(t *testing.T) {
	keyring.MockInit()
	k := Keyring{"bladehost-test"}
	if err := k.Set("TOKEN", value); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "secrets")
	write := func(text string, mode os.FileMode) {
		_ = os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode)); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	write("# mine\n\nTOKEN="+value+"\r\nEMPTY=\n", 0o600)
	env := Env{Variables: map[string]string{"TOKEN": "MY_TOKEN"}, Lookup: func(n string) (string, bool) { return value, n == "MY_TOKEN" }}
	for name, s := range map[string]Source{"keyring": k, "file": File{file}, "env": env, "command": Command{Argv: []string{"printf", "%s\n", value}, Names: []string{"TOKEN"}}} {
		if v, ok, err := s.Get(t.Context(), "TOKEN"); err != nil || !ok || v != value {
			t.Errorf("%s: %q %v %v", name, v, ok, err)
		}
		if v, ok, err := s.Get(t.Context(), "NOPE"); err != nil || ok {
			t.Errorf("%s: %q %v %v", name, v, ok, err)
		}
	}
	write("TOKEN=x", 0o644)
	if _, _, err := (File{file}).Get(t.Context(), "TOKEN"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	_ = os.Remove(file)
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (File{file}).Get(t.Context(), "TOKEN"); err == nil {
		t.Error("a link was followed")
	}
	for name, c := range map[string]Command{"fails": {Argv: []string{"false"}}, "missing": {Argv: []string{"no-such-command-7f3a"}}, "floods": {Argv: []string{"head", "-c", "1000000", "/dev/zero"}}} {
		if _, ok, err := c.Get(t.Context(), "TOKEN"); err == nil || ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
