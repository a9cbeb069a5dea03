package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

const (
	// maxLine and maxEntries bound a list of sums.
	maxLine    = 64 << 10
	maxEntries = 100_000
	// maxListed bounds each list of the result; the counts go on.
	maxListed = 1000
)

type verifyIn struct {
	Path          string `json:"path" jsonschema:"The list of sums. A relative path starts from the call's folder."`
	Algorithm     string `json:"algorithm,omitempty" jsonschema:"The hash function. By default the length of each digest says it: 32 hex digits are md5, 40 sha1, 64 sha256, 128 sha512." enum:"md5,sha1,sha256,sha512,blake2b,blake3"`
	IgnoreMissing bool   `json:"ignoreMissing,omitempty" jsonschema:"Files that do not exist are no failure."`
}

type verifyOut struct {
	OK bool `json:"ok"`
	// Checked is how many files were read to their end.
	Checked      int      `json:"checked"`
	FailedCount  int      `json:"failedCount"`
	MissingCount int      `json:"missingCount"`
	Failed       []failed `json:"failed"`
	Missing      []string `json:"missing"`
}

type failed struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// entry is one line of a list.
type entry struct {
	name      string // as the list has it
	path      string
	algorithm string
	digest    []byte
	size      int64
	skip      bool
}

func verifyTool(ctx context.Context, in verifyIn, call *pdk.Call) (*pdk.Result, error) {
	file, err := pdk.Path(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	entries, err := readSums(ctx, file, in.Algorithm)
	if err != nil {
		return nil, err
	}
	out := &verifyOut{Failed: []failed{}, Missing: []string{}}
	p := &progress{ctx: ctx, call: call, fixed: true}
	for i := range entries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out.look(ctx, &entries[i])
		p.total += entries[i].size
	}
	for i := range entries {
		if entries[i].skip {
			continue
		}
		if err := out.check(ctx, &entries[i], p); err != nil {
			return nil, err
		}
	}
	out.OK = out.Checked > 0 && out.FailedCount == 0 && (in.IgnoreMissing || out.MissingCount == 0)
	return &pdk.Result{Data: out, Display: &abi.Display{Summary: out.summary()}}, nil
}

func (o *verifyOut) summary() string {
	word := "all right"
	if !o.OK {
		word = "NOT all right"
	}
	return fmt.Sprintf("%s: %d checked, %d failed, %d missing", word, o.Checked, o.FailedCount, o.MissingCount)
}

func (o *verifyOut) fail(name, reason string) {
	o.FailedCount++
	if len(o.Failed) < maxListed {
		o.Failed = append(o.Failed, failed{name, reason})
	}
}

func (o *verifyOut) miss(name string) {
	o.MissingCount++
	if len(o.Missing) < maxListed {
		o.Missing = append(o.Missing, name)
	}
}

// problem books a file that cannot be read.
func (o *verifyOut) problem(e *entry, err error) {
	e.skip = true
	var p *pdk.Error
	if errors.As(err, &p) && p.Code == pdk.CodeNotFound {
		o.miss(e.name)
		return
	}
	o.fail(e.name, reason(err))
}

// look finds out how long a file is, without opening it.
func (o *verifyOut) look(ctx context.Context, e *entry) {
	info, err := os.Stat(e.path)
	switch {
	case err != nil:
		o.problem(e, pdk.FileError(ctx, e.path, false, err))
	case info.IsDir():
		o.problem(e, pdk.Invalid(pdk.CodeIsDirectory, "is a folder"))
	case !info.Mode().IsRegular():
		o.problem(e, pdk.Invalid("not_a_file", "is not a regular file"))
	default:
		e.size = info.Size()
	}
}

// check hashes one file. An error ends the call; what is wrong with the file
// goes into o.
func (o *verifyOut) check(ctx context.Context, e *entry, p *progress) error {
	h, err := newHash(e.algorithm)
	if err != nil {
		return err
	}
	_, err = hashFile(ctx, e.path, h, p)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		var own *pdk.Error
		if !errors.As(err, &own) {
			return err
		}
		o.problem(e, err)
		return nil
	}
	o.Checked++
	if string(h.Sum(nil)) != string(e.digest) {
		o.fail(e.name, "the "+e.algorithm+" digest differs")
	}
	return nil
}

func reason(err error) string {
	var p *pdk.Error
	if errors.As(err, &p) && p.Code == pdk.CodeNotGranted {
		return "not granted: no granted folder holds it"
	}
	return err.Error()
}

// readSums reads a list: blank lines and lines that start with # are left out,
// any other that is no sum is an error.
func readSums(ctx context.Context, file, algorithm string) ([]entry, error) {
	f, _, err := openFile(ctx, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []entry
	r := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		if err != nil && err != io.EOF {
			if errors.Is(err, bufio.ErrBufferFull) {
				return nil, badLine(n, "is longer than %d bytes", maxLine)
			}
			return nil, pdk.FileError(ctx, file, false, err)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "#") {
			e, why := parseLine(text, algorithm)
			if why != "" {
				return nil, badLine(n, "%s", why)
			}
			if e.path = e.name; !path.IsAbs(e.name) {
				e.path = path.Join(path.Dir(file), e.name)
			}
			if entries = append(entries, e); len(entries) > maxEntries {
				return nil, pdk.Invalid("too_many_sums", "the list has more than %d files", maxEntries)
			}
		}
		if err == io.EOF {
			return entries, nil
		}
		if n%1000 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func badLine(n int, format string, args ...any) error {
	return pdk.Invalid("bad_sums_line", "line %d of the list %s", n, fmt.Sprintf(format, args...)).With(map[string]int{"line": n})
}

// parseLine reads "digest  name", "digest *name" or "ALGORITHM (name) = digest",
// each with a backslash before it where the name has escapes. Why says what is
// wrong.
func parseLine(text, algorithm string) (e entry, why string) {
	text, escaped := strings.CutPrefix(text, `\`)
	digest, name, named := text, "", ""
	if alg, rest, ok := strings.Cut(text, " ("); ok && tagNames[alg] != "" {
		end := strings.LastIndex(rest, ") = ")
		if end < 0 {
			return e, "has no sum after the name"
		}
		named, name, digest = tagNames[alg], rest[:end], rest[end+len(") = "):]
	} else {
		var ok bool
		if digest, name, ok = strings.Cut(text, " "); !ok || name == "" || (name[0] != ' ' && name[0] != '*') {
			return e, "is not a digest, a space, a space or *, and a name"
		}
		name = name[1:]
	}
	if escaped {
		var ok bool
		if name, ok = unescape(name); !ok {
			return e, "has a backslash in the name that is no escape"
		}
	}
	sum, err := hex.DecodeString(digest)
	if err != nil {
		return e, "has a digest that is not in hex digits"
	}
	switch {
	case name == "" || strings.Contains(name, "\x00"):
		return e, "has no name that a file could have"
	case algorithm != "":
		e.algorithm = algorithm
	case named != "":
		e.algorithm = named
	default:
		e.algorithm = byLength[len(sum)]
	}
	if e.algorithm == "" {
		return e, fmt.Sprintf("has a digest of %d hex digits, which says no hash function; give algorithm", len(digest))
	}
	if want := lengths[e.algorithm]; len(sum) != want {
		return e, fmt.Sprintf("has a digest of %d hex digits; %s has %d", len(digest), e.algorithm, 2*want)
	}
	e.name, e.digest = name, sum
	return e, ""
}

var (
	byLength = map[int]string{16: "md5", 20: "sha1", 32: "sha256", 64: "sha512"}
	lengths  = map[string]int{"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64, "blake2b": 64, "blake3": 32}
	tagNames = map[string]string{"MD5": "md5", "SHA1": "sha1", "SHA256": "sha256", "SHA512": "sha512", "BLAKE2b": "blake2b", "BLAKE3": "blake3"}
)

// unescape resolves \\, \n and \r, as coreutils writes names that have them.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		switch s[i] {
		case '\\':
			b.WriteByte('\\')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		default:
			return "", false
		}
	}
	return b.String(), true
}
