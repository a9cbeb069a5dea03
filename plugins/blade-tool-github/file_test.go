package main

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

func TestGetFile(t *testing.T) {
	g := newGitHub(t)
	g.files["README.md"] = []byte("# Hello\n\nWörld.\n")
	g.files["docs/a b#?.txt"] = []byte("x")
	g.files["empty"] = nil
	g.files["logo.png"] = append([]byte("\x89PNG\x00"), bytes.Repeat([]byte{0xff, 0}, 50)...)
	g.files["nul"] = []byte("a\x00b")
	g.files["data.bin"] = []byte("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n")
	g.folder[""] = []object{{"name": "README.md", "type": "file", "size": 17, "path": "README.md", "sha": "x"}, {"name": "docs", "type": "dir", "size": 0}}
	h := lend(t, g, "")
	get := func(t *testing.T, in object) fileOut {
		t.Helper()
		var out fileOut
		h.Run("GitHubGetFile", of(in)).Data(&out)
		return out
	}
	text := func(o fileOut) string {
		if o.Content == nil {
			return "nothing"
		}
		return *o.Content
	}
	t.Run("a text", func(t *testing.T) {
		out := get(t, object{"path": "README.md", "ref": "feature/x"})
		if text(out) != "# Hello\n\nWörld.\n" || out.Truncated || out.Size != 17 || out.Encoding != "text" || out.SHA != sha(g.files["README.md"]) || out.ETag == "" {
			t.Errorf("%+v", out)
		}
		if got := g.requests(); len(got) != 1 || got[0] != "GET /repos/octo/hello/contents/README.md?ref=feature%2Fx" {
			t.Errorf("%v", got)
		}
		if a := g.accepted; a != mediaObject {
			t.Errorf("it accepts %s", a)
		}
		var same notModified
		h.Run("GitHubGetFile", of(object{"path": "README.md", "etag": out.ETag})).Data(&same)
		if !same.NotModified {
			t.Errorf("%+v", same)
		}
	})
	t.Run("in parts that keep characters whole", func(t *testing.T) {
		var whole string
		for offset := int64(0); ; {
			out := get(t, object{"path": "README.md", "offset": offset, "maxBytes": 11})
			whole += text(out)
			if !out.Truncated {
				break
			}
			if offset = out.NextOffset; len(whole) > 20 {
				t.Fatal("it does not end")
			}
		}
		if whole != string(g.files["README.md"]) {
			t.Errorf("%q", whole)
		}
		// Byte 11 is the second half of ö.
		if out := get(t, object{"path": "README.md", "offset": 11, "maxBytes": 4}); text(out) != "rld" || out.Offset != 12 || out.NextOffset != 15 {
			t.Errorf("%+v %q", out, text(out))
		}
	})
	t.Run("an odd name", func(t *testing.T) {
		g.requests()
		if out := get(t, object{"path": "/docs/a b#?.txt"}); text(out) != "x" {
			t.Errorf("%+v", out)
		}
		if got := g.requests(); got[0] != "GET /repos/octo/hello/contents/docs/a%20b%23%3F.txt" {
			t.Errorf("%v", got)
		}
	})
	t.Run("empty", func(t *testing.T) {
		if out := get(t, object{"path": "empty"}); text(out) != "" || out.Truncated || out.Binary {
			t.Errorf("%+v", out)
		}
	})
	t.Run("no text", func(t *testing.T) {
		if out := get(t, object{"path": "logo.png"}); !out.Binary || out.Content != nil || out.Size != 105 {
			t.Errorf("%+v", out)
		}
		if out := get(t, object{"path": "nul"}); !out.Binary || out.Content != nil {
			t.Errorf("%+v", out)
		}
		out := get(t, object{"path": "logo.png", "encoding": "base64", "maxBytes": 10})
		if b, err := base64.StdEncoding.DecodeString(text(out)); err != nil || !bytes.Equal(b, g.files["logo.png"][:10]) || !out.Truncated || out.NextOffset != 10 {
			t.Errorf("%+v", out)
		}
	})
	t.Run("large file storage", func(t *testing.T) {
		if out := get(t, object{"path": "data.bin"}); !out.LFS {
			t.Errorf("%+v", out)
		}
	})
	t.Run("a folder", func(t *testing.T) {
		o := h.Run("GitHubGetFile", of(nil))
		if want := `{"repository":"octo/hello","path":"","type":"dir","entries":[{"name":"README.md","type":"file","size":17},{"name":"docs","type":"dir"}],"truncated":false`; !strings.HasPrefix(string(o.Result.Data), want) {
			t.Errorf("%s %+v", o.Result.Data, o.Err())
		}
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			g.one(w, r, many(1000, func(int) object { return object{"name": "x", "type": "symlink"} }))
			return true
		}
		defer func() { g.answer = nil }()
		var out folderOut
		h.Run("GitHubGetFile", of(object{"path": "docs/"})).Data(&out)
		if len(out.Entries) != 1000 || !out.Truncated || out.Path != "docs" {
			t.Errorf("%d entries, %v", len(out.Entries), out.Truncated)
		}
	})
	t.Run("a submodule", func(t *testing.T) {
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			g.one(w, r, object{"type": "submodule", "path": "lib", "sha": "ab", "submodule_git_url": "https://github.com/octo/lib.git"})
			return true
		}
		defer func() { g.answer = nil }()
		if out := get(t, object{"path": "lib"}); out.Type != "submodule" || out.Submodule != "https://github.com/octo/lib.git" || out.Content != nil {
			t.Errorf("%+v", out)
		}
	})
	h.Run("GitHubGetFile", of(object{"path": "nope"})).WantCode("not_found")
	h.Run("GitHubGetFile", of(object{"path": "README.md", "ref": "nope"})).WantCode("not_found")
	h.Run("GitHubGetFile", of(object{"path": "README.md", "offset": 18})).WantCode("bad_offset")
}

// A file of more than 1 MB comes as it is, and only as far as it is wanted.
func TestGetLargeFile(t *testing.T) {
	g := newGitHub(t)
	big := bytes.Repeat([]byte("0123456789abcde\n"), 10<<20/16)
	g.files["big.txt"] = big
	h := lend(t, g, theToken)
	var out fileOut
	o := h.Run("GitHubGetFile", of(object{"path": "big.txt"}))
	o.Data(&out)
	if out.Size != int64(len(big)) || *out.Content != string(big[:defaultBytes]) || !out.Truncated || out.NextOffset != defaultBytes {
		t.Errorf("%d bytes of %d, next %d", len(*out.Content), out.Size, out.NextOffset)
	}
	if got := g.requests(); len(got) != 2 || got[1] != "GET /repos/octo/hello/git/blobs/"+sha(big) {
		t.Errorf("%v", got)
	}
	o = h.Run("GitHubGetFile", of(object{"path": "big.txt", "offset": len(big) - 5, "maxBytes": 1000}))
	out = fileOut{}
	if o.Data(&out); *out.Content != "bcde\n" || out.Truncated || out.NextOffset != 0 || len(o.Yields) != 2 {
		t.Errorf("%+v %d yields", out, len(o.Yields))
	}
	h.Run("GitHubGetFile", of(object{"path": "big.txt", "offset": len(big) + 1})).WantCode("bad_offset")
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"it is shorter than it was":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big[:100]) },
		"the answer is no such file": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
	} {
		t.Run(name, func(t *testing.T) {
			g.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "/git/blobs/") {
					answer(w, r)
					return true
				}
				return false
			}
			h.Run("GitHubGetFile", of(object{"path": "big.txt", "offset": 1000})).WantCode("bad_answer")
		})
	}
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		g.one(w, r, object{"type": "file", "size": 5 << 20, "encoding": "none", "sha": "../../x"})
		return true
	}
	h.Run("GitHubGetFile", of(object{"path": "big.txt"})).WantCode("bad_answer")
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		g.one(w, r, object{"type": "file", "size": 5, "encoding": "base64", "content": "%%%"})
		return true
	}
	h.Run("GitHubGetFile", of(object{"path": "big.txt"})).WantCode("bad_answer")
}
