package store

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// What a file may have at most, in bytes; maxModule is the scanner's limit.
const (
	maxLock   = 64 << 20
	maxModule = 64 << 20
)

// readRegular reads a file that may be anything: a pipe or a device would make
// the reader wait for ever, and an endless file fill the memory.
func readRegular(path string, most int64) ([]byte, error) {
	fi, err := os.Stat(path) // to open a device may already do something
	if err != nil {
		return nil, err
	}
	if err := regular(path, fi, most); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if fi, err = f.Stat(); err != nil {
		return nil, err
	}
	if err := regular(path, fi, most); err != nil { // another file took its place
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = tooLarge(path, int64(len(b)), most)
	}
	return b, err
}

func regular(path string, fi os.FileInfo, most int64) error {
	switch {
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case fi.Size() > most:
		return tooLarge(path, fi.Size(), most)
	}
	return nil
}

func tooLarge(path string, n, most int64) error {
	return fmt.Errorf("%s has %d bytes, at most %d are allowed", path, n, most)
}

// again is the command that installs the plugin anew.
func (e *Entry) again() string {
	from, ok := strings.CutPrefix(e.Source, "file:")
	if !ok || strings.ContainsFunc(from, func(r rune) bool { return r < ' ' }) {
		return "bladehost install FILE.wasm"
	}
	if strings.ContainsAny(from, " '\"\\$`&|;<>()*?[]#~!{}") {
		from = "'" + strings.ReplaceAll(from, "'", `'\''`) + "'"
	}
	return "bladehost install " + from
}

// differsFrom says what of the entry is not what the module says, or "".
func (e *Entry) differsFrom(module []byte) string {
	raw, n, err := wasm.FindCustom(module, abi.ManifestSection)
	switch {
	case err != nil:
		return err.Error()
	case n != 1:
		return fmt.Sprintf("the module has %d manifests", n)
	}
	var m abi.Manifest
	if err := strictjson.Decode(raw, &m); err != nil {
		return fmt.Sprintf("the module's manifest: %v", err)
	}
	c := Candidate{Module: module, Manifest: &m, RawManifest: raw, Imports: e.Imports, Source: e.Source}
	is, err := c.entry()
	if err != nil {
		return err.Error()
	}
	return e.differs(is)
}

// differs says what an entry has that the one made from the same module has not,
// or "". Where the plugin came from and when does not matter.
func (e *Entry) differs(is *Entry) string {
	was, errWas := abi.Marshal(e.Capabilities)
	now, errNow := abi.Marshal(is.Capabilities)
	switch {
	case e.Name != is.Name:
		return fmt.Sprintf("the module is %s", is.Name)
	case e.Version != is.Version:
		return fmt.Sprintf("version is %q, the module's is %q", e.Version, is.Version)
	case e.Size != is.Size:
		return fmt.Sprintf("size is %d, the module's is %d", e.Size, is.Size)
	case e.Manifest != is.Manifest:
		return "manifestSha256 is not the digest of the module's manifest"
	case !maps.Equal(e.Tools, is.Tools):
		return "tools are not the digests of the module's tools"
	case !sameJSON(e.Definitions, is.Definitions):
		return "definitions are not those of the module's tools"
	case !slices.Equal(e.Imports, is.Imports):
		return "imports are not those of the module"
	case errWas != nil, errNow != nil, !bytes.Equal(was, now):
		return "capabilities are not those of the module's manifest"
	}
	return ""
}
