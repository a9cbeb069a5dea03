package main

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bladehost/bladehost/pdk"
)

const (
	maxName   = 100
	maxRef    = 255
	maxPath   = 4096 // escaped
	maxNumber = 1<<31 - 1
	maxETag   = 200
)

func all(s string, ok func(c byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

func word(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// repoPath is where the API has a repository.
func repoPath(owner, repo string) (string, error) {
	if !all(owner, word) || owner[0] == '-' {
		return "", pdk.Invalid("bad_owner", "%q is no owner of repositories: give the name of a user or an organisation alone, such as golang", brief(owner))
	}
	if !all(repo, func(c byte) bool { return word(c) || c == '.' }) || repo == "." || repo == ".." {
		return "", pdk.Invalid("bad_repo", "%q is no name of a repository: give it without its owner, such as go", brief(repo))
	}
	return "/repos/" + owner + "/" + repo, nil
}

func checkNumber(n int64) error {
	if n < 1 || n > maxNumber {
		return pdk.Invalid("bad_number", "%d is no number of an issue or a pull request", n)
	}
	return nil
}

// filePath escapes the path of a file or a folder of a repository; the root is
// empty.
func filePath(p string) (string, error) {
	p = strings.TrimSuffix(strings.TrimPrefix(p, "/"), "/")
	if p == "" || p == "." {
		return "", nil
	}
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || !plain(part) {
			return "", pdk.Invalid("bad_path", "%q is no path in a repository: write it from the root, without . and .., such as docs/readme.md", brief(p))
		}
		parts = append(parts, url.PathEscape(part))
	}
	out := "/" + strings.Join(parts, "/")
	if len(out) > maxPath {
		return "", pdk.Invalid("bad_path", "the path is too long")
	}
	return out, nil
}

// plain reports whether a text is UTF-8 without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkRef is nil for what may name a branch, a tag or a commit.
func checkRef(name, ref string) error {
	if ref == "" {
		return nil
	}
	if len(ref) > maxRef || !plain(ref) || strings.ContainsAny(ref, " ~^?*[\\") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") ||
		strings.Contains(ref, "//") || strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "/") || strings.HasSuffix(ref, "/") {
		return pdk.Invalid("bad_ref", "the %s %q cannot be the name of a branch, a tag or a commit", name, brief(ref))
	}
	return nil
}

// checkETag lets no more into a header than an ETag of GitHub has.
func checkETag(tag string) error {
	if tag == "" {
		return nil
	}
	inner := strings.TrimPrefix(tag, "W/")
	ok := len(tag) <= maxETag && len(inner) > 2 && inner[0] == '"' && inner[len(inner)-1] == '"'
	if ok {
		for _, c := range []byte(inner[1 : len(inner)-1]) {
			ok = ok && (word(c) || strings.IndexByte("+/=.:", c) >= 0)
		}
	}
	if !ok {
		return pdk.Invalid("bad_etag", "%q is no etag: give the one of an earlier answer as it was", brief(tag))
	}
	return nil
}

// filters collects the filters of a list.
type filters struct {
	values url.Values
	err    error
}

func (f *filters) text(name, v string) {
	if v == "" {
		return
	}
	if len(v) > maxRef || !plain(v) {
		f.fail(name, v)
	}
	f.values.Set(name, v)
}

func (f *filters) oneOf(name, v string, allowed ...string) {
	if v == "" {
		return
	}
	for _, a := range allowed {
		if v == a {
			f.values.Set(name, v)
			return
		}
	}
	f.err = pdk.Invalid("bad_filter", "%s is %q; it can be %s", name, brief(v), strings.Join(allowed, ", "))
}

func (f *filters) time(name, v string) {
	if v == "" {
		return
	}
	if _, err := time.Parse(time.RFC3339, v); err != nil {
		f.err = pdk.Invalid("bad_filter", "%s is %q; write it as 2026-01-02T03:04:05Z", name, brief(v))
	}
	f.values.Set(name, v)
}

func (f *filters) ref(name, v string) {
	if err := checkRef(name, v); err != nil {
		f.err = err
	}
	f.text(name, v)
}

func (f *filters) labels(list []string) {
	for _, l := range list {
		if l == "" || strings.Contains(l, ",") {
			f.fail("labels", l)
		}
	}
	f.text("labels", strings.Join(list, ","))
}

func (f *filters) fail(name, v string) {
	f.err = pdk.Invalid("bad_filter", "%q cannot stand for %s", brief(v), name)
}
