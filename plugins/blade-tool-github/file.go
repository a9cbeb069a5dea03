package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/bladehost/bladehost/pdk"
)

const (
	defaultBytes = 50_000
	maxBytes     = 1_000_000
	// skipEvery is how many skipped bytes lie between two reports of progress.
	skipEvery = 4 << 20
)

type getFileIn struct {
	Owner    string `json:"owner" jsonschema:"The user or organisation that owns the repository." minLength:"1" maxLength:"100"`
	Repo     string `json:"repo" jsonschema:"The repository's name, without its owner." minLength:"1" maxLength:"100"`
	Path     string `json:"path,omitempty" jsonschema:"The file or folder, from the repository's root; without it the root." maxLength:"4096"`
	Ref      string `json:"ref,omitempty" jsonschema:"A branch, tag or commit; without it the default branch." maxLength:"255"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"The byte to start at." minimum:"0" maximum:"104857600"`
	MaxBytes *int   `json:"maxBytes,omitempty" jsonschema:"How many bytes at most." minimum:"4" maximum:"1000000" default:"50000"`
	Encoding string `json:"encoding,omitempty" jsonschema:"How the content is written." enum:"text,base64" default:"text"`
	ETag     string `json:"etag,omitempty" jsonschema:"The etag of an earlier answer: where the file is the same, only notModified comes back." maxLength:"200"`
}

// apiContent is what the API sends for a file or a folder.
type apiContent struct {
	Type      string     `json:"type"`
	Name      string     `json:"name"`
	Path      string     `json:"path"`
	SHA       string     `json:"sha"`
	Size      int64      `json:"size"`
	Encoding  string     `json:"encoding"`
	Content   string     `json:"content"`
	Target    string     `json:"target"`
	Submodule string     `json:"submodule_git_url"`
	HTMLURL   string     `json:"html_url"`
	Entries   []apiEntry `json:"entries"`
}

type apiEntry struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// UnmarshalJSON takes a folder as an older server sends it too: as a list.
func (a *apiContent) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		a.Type = "dir"
		return json.Unmarshal(b, &a.Entries)
	}
	type plainContent apiContent
	return json.Unmarshal(b, (*plainContent)(a))
}

type entryOut struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size,omitempty"`
}

type folderOut struct {
	Repository string     `json:"repository"`
	Path       string     `json:"path"`
	Type       string     `json:"type"`
	Entries    []entryOut `json:"entries"`
	// Truncated says that GitHub lists no more of them.
	Truncated bool   `json:"truncated"`
	URL       string `json:"url,omitempty"`
	ETag      string `json:"etag,omitempty"`
}

type fileOut struct {
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Type       string `json:"type"`
	SHA        string `json:"sha"`
	Size       int64  `json:"size"`
	// Target is where a symlink leads, Submodule what repository a submodule is.
	Target     string  `json:"target,omitempty"`
	Submodule  string  `json:"submodule,omitempty"`
	Encoding   string  `json:"encoding,omitempty"`
	Content    *string `json:"content,omitempty"`
	Binary     bool    `json:"binary,omitempty"`
	LFS        bool    `json:"lfs,omitempty"`
	Offset     int64   `json:"offset,omitempty"`
	Truncated  bool    `json:"truncated"`
	NextOffset int64   `json:"nextOffset,omitempty"`
	URL        string  `json:"url,omitempty"`
	ETag       string  `json:"etag,omitempty"`
}

// githubEntries is how many entries of a folder GitHub lists at most.
const githubEntries = 1000

func getFile(ctx context.Context, in getFileIn, call *pdk.Call) (*pdk.Result, error) {
	repo, err := repoPath(in.Owner, in.Repo)
	if err != nil {
		return nil, err
	}
	path, most, err := in.check()
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	at := repo + "/contents" + path
	if in.Ref != "" {
		at += "?" + url.Values{"ref": {in.Ref}}.Encode()
	}
	name := in.Owner + "/" + in.Repo
	about := fmt.Sprintf("%s of %s", in.name(), name)
	var a apiContent
	tag, same, err := c.object(at, mediaObject, in.ETag, about, &a)
	if err != nil {
		return nil, err
	}
	if same {
		return unchanged(tag, about), nil
	}
	if a.Type == "dir" {
		out := folderOut{Repository: name, Path: strings.Trim(in.Path, "/"), Type: a.Type, Truncated: len(a.Entries) >= githubEntries, URL: a.HTMLURL, ETag: tag}
		out.Entries = kept(a.Entries, func(e apiEntry) (entryOut, bool) { return entryOut(e), true })
		return shown(out, "%d entries in %s", len(out.Entries), about), nil
	}
	out := fileOut{Repository: name, Path: a.Path, Type: a.Type, SHA: a.SHA, Size: a.Size, Target: a.Target, Submodule: a.Submodule, URL: a.HTMLURL, ETag: tag}
	if a.Type != "file" {
		return shown(out, "%s is a %s", about, brief(a.Type)), nil
	}
	b, err := c.content(repo, &a, window{in.Offset, int64(most)}, about)
	if err != nil {
		return nil, err
	}
	out.Size = a.Size
	if in.Offset > a.Size {
		return nil, pdk.Invalid("bad_offset", "%s has %d bytes, so there is nothing at %d", about, a.Size, in.Offset)
	}
	out.show(b, in.Offset, in.Encoding == "base64")
	return shown(out, "%d of %d bytes of %s", len(b), a.Size, about), nil
}

func (in *getFileIn) name() string {
	if strings.Trim(in.Path, "/") == "" {
		return "the root folder"
	}
	return brief(in.Path)
}

func (in *getFileIn) check() (path string, most int, err error) {
	if path, err = filePath(in.Path); err != nil {
		return "", 0, err
	}
	if err = checkRef("ref", in.Ref); err != nil {
		return "", 0, err
	}
	if err = checkETag(in.ETag); err != nil {
		return "", 0, err
	}
	most = defaultBytes
	if in.MaxBytes != nil {
		most = *in.MaxBytes
	}
	if most < utf8.UTFMax || most > maxBytes || in.Offset < 0 {
		return "", 0, pdk.Invalid("bad_limit", "maxBytes is %d and offset %d; maxBytes is from %d to %d and offset not negative", most, in.Offset, utf8.UTFMax, maxBytes)
	}
	switch in.Encoding {
	case "", "text", "base64":
		return path, most, nil
	}
	return "", 0, pdk.Invalid("bad_encoding", "encoding is %q; it can be text or base64", brief(in.Encoding))
}

// window is the part of a file that is wanted.
type window struct{ offset, most int64 }

// of is the window's part of b.
func (w window) of(b []byte) []byte {
	from := min(w.offset, int64(len(b)))
	return b[from:min(from+w.most, int64(len(b)))]
}

// content is the window's part of a file. Up to 1 MB the API sends the file along
// with what it says about it, in base64; longer ones are fetched as they are, by
// the digest that it named, and only as far as they are wanted.
func (c *client) content(repo string, a *apiContent, w window, about string) ([]byte, error) {
	if a.Encoding == "base64" && (a.Content != "" || a.Size == 0) {
		b, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "").Replace(a.Content))
		if err != nil {
			return nil, badAnswer(about, "its base64 is broken")
		}
		a.Size = int64(len(b))
		return w.of(b), nil
	}
	if a.Size == 0 || w.offset >= a.Size {
		return nil, nil
	}
	if id, err := hex.DecodeString(a.SHA); err != nil || len(id) < 20 {
		return nil, badAnswer(about, "it has no digest")
	}
	r := request{url: c.base + repo + "/git/blobs/" + a.SHA, accept: mediaRaw, about: about, stream: true}
	res, stream, err := c.send(r)
	if err != nil {
		return nil, err
	}
	if stream == nil {
		return nil, badAnswer(about, "the status is %d", res.Status)
	}
	defer stream.Close()
	if err := c.skip(stream, w.offset, a.Size, about); err != nil {
		return nil, c.failure(r, err)
	}
	b := make([]byte, min(w.most, a.Size-w.offset))
	if _, err := io.ReadFull(stream, b); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, badAnswer(about, "it ends before its %d bytes are over", a.Size)
	} else if err != nil {
		return nil, c.failure(r, err)
	}
	return b, nil
}

// skip reads n bytes and drops them.
func (c *client) skip(r io.Reader, n, total int64, about string) error {
	for done := int64(0); done < n; {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		k, err := io.CopyN(io.Discard, r, min(skipEvery, n-done))
		done += k
		if err == io.EOF {
			return badAnswer(about, "it ends before its %d bytes are over", total)
		}
		if err != nil {
			return err
		}
		if done < n {
			if err := c.call.Progress("Skipping to the offset in "+about, float64(done), float64(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lfs starts a file whose content is somewhere else.
var lfs = []byte("version https://git-lfs.github.com/spec/v1\n")

// show puts a part of a file into the result: as text where it is one. A
// character at an edge of the part stays whole: at the start it is left out, at
// the end it is left to the next part.
func (o *fileOut) show(b []byte, offset int64, inBase64 bool) {
	o.LFS = offset == 0 && bytes.HasPrefix(b, lfs)
	end := offset + int64(len(b))
	if !inBase64 {
		if offset > 0 {
			b = fromRune(b)
			offset = end - int64(len(b))
		}
		if end < o.Size {
			b = wholeRunes(b)
			end = offset + int64(len(b))
		}
		o.Binary = !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0
	}
	o.Offset, o.Truncated = offset, end < o.Size
	if o.Truncated {
		o.NextOffset = end
	}
	text := string(b)
	switch {
	case o.Binary:
		return
	case inBase64:
		text = base64.StdEncoding.EncodeToString(b)
		o.Encoding = "base64"
	default:
		o.Encoding = "text"
	}
	o.Content = &text
}

// fromRune leaves out the rest of a character at the start of b.
func fromRune(b []byte) []byte {
	for n := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[n]) {
			return b[n:]
		}
	}
	return b
}

// wholeRunes leaves out the start of a character at the end of b.
func wholeRunes(b []byte) []byte {
	for n := 1; n <= min(utf8.UTFMax, len(b)); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}
