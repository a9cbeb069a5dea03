package main

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

const (
	abcMD5    = "900150983cd24fb0d6963f7d28e17f72"
	abcSHA1   = "a9993e364706816aba3e25717850c26c9cd0d89d"
	abcSHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	abcB3     = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
)

func TestVerifySums(t *testing.T) {
	ok := func(n int) verifyOut { return verifyOut{OK: true, Checked: n, Failed: []failed{}, Missing: []string{}} }
	for _, c := range []struct {
		name, sums string
		in         map[string]any
		want       verifyOut
	}{
		{name: "sha256sum", sums: abcSHA256 + "  a.txt\n", want: ok(1)},
		{name: "without a newline at the end", sums: abcSHA256 + "  a.txt", want: ok(1)},
		{name: "binary marker", sums: abcSHA256 + " *a.txt\n", want: ok(1)},
		{name: "capital digits", sums: strings.ToUpper(abcSHA256) + "  a.txt\n", want: ok(1)},
		{name: "Windows line ends and a byte order mark", sums: "\ufeff" + abcSHA256 + "  a.txt\r\n" + abcMD5 + " *a.txt\r\n", want: ok(2)},
		{name: "comments and blank lines", sums: "# sums\n\n  \n" + abcSHA256 + "  a.txt\n#\n", want: ok(1)},
		{name: "functions by length", sums: abcMD5 + "  a.txt\n" + abcSHA1 + "  a.txt\n" + abcSHA256 + "  a.txt\n", want: ok(3)},
		{name: "function by name", sums: abcB3 + "  a.txt\n", in: map[string]any{"algorithm": "blake3"}, want: ok(1)},
		{name: "the --tag format", sums: "SHA256 (a.txt) = " + abcSHA256 + "\nBLAKE3 (a.txt) = " + abcB3 + "\n", want: ok(2)},
		{name: "name with spaces", sums: abcSHA256 + "  with two  spaces\n", want: ok(1)},
		{name: "escaped name", sums: `\` + abcSHA256 + `  new\nline\\` + "\n", want: ok(1)},
		{name: "backslash without the mark is a backslash", sums: abcSHA256 + `  back\nslash` + "\n", want: ok(1)},
		{name: "name in a folder below", sums: abcSHA256 + "  sub/b.txt\n", want: ok(1)},
		{
			name: "another content", sums: abcSHA256 + "  other.txt\n" + abcSHA256 + "  a.txt\n",
			want: verifyOut{Checked: 2, FailedCount: 1, Failed: []failed{{"other.txt", "the sha256 digest differs"}}, Missing: []string{}},
		},
		{
			name: "missing", sums: abcSHA256 + "  gone.txt\n" + abcSHA256 + "  a.txt\n",
			want: verifyOut{Checked: 1, MissingCount: 1, Failed: []failed{}, Missing: []string{"gone.txt"}},
		},
		{
			name: "missing is ignored", sums: abcSHA256 + "  gone.txt\n" + abcSHA256 + "  a.txt\n", in: map[string]any{"ignoreMissing": true},
			want: verifyOut{OK: true, Checked: 1, MissingCount: 1, Failed: []failed{}, Missing: []string{"gone.txt"}},
		},
		{
			name: "all missing is never right", sums: abcSHA256 + "  gone.txt\n", in: map[string]any{"ignoreMissing": true},
			want: verifyOut{MissingCount: 1, Failed: []failed{}, Missing: []string{"gone.txt"}},
		},
		{
			name: "a folder and a file outside", sums: abcSHA256 + "  sub\n" + abcSHA256 + "  /nowhere/x\n",
			want: verifyOut{FailedCount: 2, Failed: []failed{{"sub", "is a folder"}, {"/nowhere/x", "not granted: no granted folder holds it"}}, Missing: []string{}},
		},
		{name: "nothing to check", sums: "# nothing\n", want: verifyOut{Failed: []failed{}, Missing: []string{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := sumsHost(t)
			write(t, dir, "SUMS", []byte(c.sums))
			in := map[string]any{"path": filepath.Join(dir, "SUMS")}
			for k, v := range c.in {
				in[k] = v
			}
			var got verifyOut
			h.Run("VerifySums", in).Data(&got)
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestVerifySumsRefuses(t *testing.T) {
	for _, c := range []struct{ name, sums, algorithm, says string }{
		{"no list at all", "hello world\n", "", "line 1"},
		{"a digest alone", "\n" + abcSHA256 + "\n", "", "line 2"},
		{"one space", abcSHA256 + " a.txt\n", "", "line 1"},
		{"no hex digits", strings.Repeat("z", 64) + "  a.txt\n", "", "hex"},
		{"an unknown length", "abcd  a.txt\n", "", "give algorithm"},
		{"another length than the function's", abcMD5 + "  a.txt\n", "sha256", "sha256 has 64"},
		{"an escape that is none", `\` + abcSHA256 + `  a\t` + "\n", "", "escape"},
		{"an endless line", abcSHA256 + "  " + strings.Repeat("a", 70_000) + "\n", "", "longer than"},
		{"a tag without a sum", "SHA256 (a.txt)\n", "", "no sum"},
		{"a null character", abcSHA256 + "  a\x00b\n", "", "no name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := sumsHost(t)
			write(t, dir, "SUMS", []byte(c.sums))
			in := map[string]any{"path": "SUMS"}
			if c.algorithm != "" {
				in["algorithm"] = c.algorithm
			}
			out := h.Run("VerifySums", in)
			out.WantCode("bad_sums_line")
			if !strings.Contains(out.Err().Message, c.says) {
				t.Errorf("the message %q does not say %q", out.Err().Message, c.says)
			}
		})
	}
	t.Run("no such list", func(t *testing.T) {
		h, _ := sumsHost(t)
		h.Run("VerifySums", map[string]any{"path": "nope"}).WantCode("not_found")
	})
}

func TestVerifySumsCancelled(t *testing.T) {
	h, dir := sumsHost(t)
	big := make([]byte, 6<<20)
	sum := sha256.Sum256(big)
	write(t, dir, "big", big)
	write(t, dir, "SUMS", []byte(strings.Repeat(hex.EncodeToString(sum[:])+"  big\n", 3)))
	out := h.Run("VerifySums", map[string]any{"path": "SUMS"})
	var got verifyOut
	out.Data(&got)
	if !got.OK || len(out.Yields) < 3 {
		t.Errorf("got %+v with %d yields", got, len(out.Yields))
	}
	if last := out.Yields[len(out.Yields)-1]; *last.Completed != *last.Total || *last.Total != float64(3*len(big)) {
		t.Errorf("the last progress is %v of %v", *last.Completed, *last.Total)
	}
	h.OnYield = func(abi.Yield) abi.Cancel { return abi.CancelSteering }
	h.Run("VerifySums", map[string]any{"path": "SUMS"}).WantCode("cancelled")
}

func sumsHost(t *testing.T) (*pdktest.Host, string) {
	t.Helper()
	h := pdktest.New(t, plugin())
	dir := h.TempDir()
	for _, name := range []string{"a.txt", "with two  spaces", "new\nline\\", `back\nslash`, "sub/b.txt"} {
		write(t, dir, name, []byte("abc"))
	}
	write(t, dir, "other.txt", []byte("xyz"))
	return h, dir
}
