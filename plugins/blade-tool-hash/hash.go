package main

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"runtime"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/blake2b"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

const (
	// chunk is what is read at once; between two the tool looks whether it
	// should stop (some 8 ms at 120 MB/s).
	chunk = 1 << 20
	// progressEvery is how many bytes lie between two reports of progress.
	progressEvery = 4 << 20
)

type hashIn struct {
	Text      *string `json:"text,omitempty" jsonschema:"The text to hash. Give either this or path."`
	Path      string  `json:"path,omitempty" jsonschema:"The file to hash. A relative path starts from the call's folder."`
	Algorithm string  `json:"algorithm,omitempty" jsonschema:"The hash function." enum:"md5,sha1,sha256,sha512,blake2b,blake3" default:"sha256"`
	Encoding  string  `json:"encoding,omitempty" jsonschema:"How the digest is written." enum:"hex,base64" default:"hex"`
}

type hashOut struct {
	Algorithm string `json:"algorithm"`
	Encoding  string `json:"encoding"`
	Digest    string `json:"digest"`
	Bytes     int64  `json:"bytes"`
	Path      string `json:"path,omitempty"`
}

func hashTool(ctx context.Context, in hashIn, call *pdk.Call) (*pdk.Result, error) {
	if (in.Text == nil) == (in.Path == "") {
		return nil, pdk.Invalid("text_or_path", "give exactly one of text and path")
	}
	out := hashOut{Algorithm: orElse(in.Algorithm, "sha256"), Encoding: orElse(in.Encoding, "hex")}
	h, err := newHash(out.Algorithm)
	if err != nil {
		return nil, err
	}
	if in.Text != nil {
		_, _ = io.WriteString(h, *in.Text)
		out.Bytes = int64(len(*in.Text))
	} else {
		if out.Path, err = pdk.Path(ctx, in.Path); err != nil {
			return nil, err
		}
		p := &progress{ctx: ctx, call: call}
		if out.Bytes, err = hashFile(ctx, out.Path, h, p); err != nil {
			return nil, err
		}
	}
	sum := h.Sum(nil)
	if out.Encoding == "base64" {
		out.Digest = base64.StdEncoding.EncodeToString(sum)
	} else {
		out.Digest = hex.EncodeToString(sum)
	}
	return &pdk.Result{Data: out, Display: &abi.Display{Summary: fmt.Sprintf("%s of %s: %s", out.Algorithm, what(out), out.Digest)}}, nil
}

func what(out hashOut) string {
	if out.Path == "" {
		return fmt.Sprintf("%d bytes of text", out.Bytes)
	}
	return fmt.Sprintf("%s (%d bytes)", path.Base(out.Path), out.Bytes)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func newHash(algorithm string) (hash.Hash, error) {
	switch algorithm {
	case "md5":
		return md5.New(), nil
	case "sha1":
		return sha1.New(), nil
	case "sha256":
		if runtime.GOARCH == "wasm" {
			return newSHA256(), nil
		}
		return sha256.New(), nil
	case "sha512":
		return sha512.New(), nil
	case "blake2b":
		return blake2b.New512(nil)
	case "blake3":
		return blake3.New(), nil
	}
	return nil, pdk.Invalid("unknown_algorithm", "%q is not one of md5, sha1, sha256, sha512, blake2b and blake3", algorithm)
}

// hashFile adds a file to h and returns its length.
func hashFile(ctx context.Context, name string, h hash.Hash, p *progress) (int64, error) {
	f, size, err := openFile(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	p.file(path.Base(name), size)
	buf := make([]byte, min(size+1, chunk))
	var done int64
	for {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		n, err := f.Read(buf)
		_, _ = h.Write(buf[:n])
		done += int64(n)
		if stop := p.add(int64(n)); stop != nil {
			return done, stop
		}
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return done, pdk.FileError(ctx, name, false, err)
		}
		if len(buf) < chunk && done > size { // the file grew since it was looked at
			buf = make([]byte, chunk)
		}
	}
}

// openFile opens a regular file for reading and says how long it is.
func openFile(ctx context.Context, name string) (*os.File, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, pdk.FileError(ctx, name, false, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = pdk.Invalid(pdk.CodeIsDirectory, "%s is a folder; name a file", name).With(map[string]any{"path": name})
	}
	if err == nil && !info.Mode().IsRegular() {
		err = pdk.Invalid("not_a_file", "%s is not a regular file", name).With(map[string]any{"path": name})
	}
	if err != nil {
		f.Close()
		return nil, 0, pdk.FileError(ctx, name, false, err)
	}
	return f, info.Size(), nil
}

// progress reports how much of a known total is hashed, not more often than
// every progressEvery bytes and never for less than that.
type progress struct {
	ctx         context.Context
	call        *pdk.Call
	name        string
	done, total int64
	told        int64
	fixed       bool // total covers several files
}

func (p *progress) file(name string, size int64) {
	p.name = name
	if !p.fixed {
		p.total = size
	}
}

// add counts n bytes; an error means that the call should stop.
func (p *progress) add(n int64) error {
	p.done += n
	if p.total < progressEvery || p.done-p.told < progressEvery && p.done < p.total || p.told == p.done {
		return nil
	}
	p.told = p.done
	err := p.call.Progress("Hashing "+p.name, float64(p.done), float64(max(p.done, p.total)))
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return err
}
