package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/zalando/go-keyring"
)

// Env takes secrets from environment variables, by an explicit mapping from the
// secret's name to the variable's.
type Env struct {
	Variables map[string]string
	// Lookup is os.LookupEnv where it is nil.
	Lookup func(string) (string, bool)
}

// Get implements Source.
func (e Env) Get(_ context.Context, name string) (string, bool, error) {
	v, ok := e.Variables[name]
	if !ok {
		return "", false, nil
	}
	look := e.Lookup
	if look == nil {
		look = os.LookupEnv
	}
	val, ok := look(v)
	return val, ok && val != "", nil
}

// Keyring takes secrets from the operating system's keyring, under one service
// name. Where there is no keyring it has none.
type Keyring struct{ Service string }

// Get implements Source.
func (k Keyring) Get(_ context.Context, name string) (string, bool, error) {
	v, err := keyring.Get(k.Service, name)
	if err != nil {
		return "", false, nil // no keyring and no entry are the same to a caller
	}
	return v, v != "", nil
}

// Set keeps a secret in the keyring.
func (k Keyring) Set(name, value string) error { return keyring.Set(k.Service, name, value) }

// Delete removes it; a missing one is no error.
func (k Keyring) Delete(name string) error {
	if err := keyring.Delete(k.Service, name); err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return err
	}
	return nil
}

// File takes secrets from a file of lines NAME=value that only its owner may
// read. Blank lines and lines that start with # do not count.
type File struct{ Path string }

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Get implements Source.
func (f File) Get(_ context.Context, name string) (string, bool, error) {
	all, err := f.Read()
	if err != nil {
		return "", false, err
	}
	v, ok := all[name]
	return v, ok && v != "", nil
}

// Read returns all secrets of the file; a missing file has none.
func (f File) Read() (map[string]string, error) {
	fi, err := os.Lstat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the secrets file cannot be read: %w", err)
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", f.Path)
	case runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others can read %s (mode %o); chmod 600 %s", f.Path, fi.Mode().Perm(), f.Path)
	case fi.Size() > maxFile:
		return nil, fmt.Errorf("%s has more than %d bytes", f.Path, maxFile)
	}
	b, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("the secrets file cannot be read: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		if t := strings.TrimSpace(line); t == "" || t[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("%s has a line without =", f.Path)
		}
		out[strings.TrimSpace(name)] = value
	}
	return out, nil
}

// Command takes secrets from the standard output of a command, without its last
// line end. NAME in an argument stands for the secret's name. No shell is used.
type Command struct {
	Argv []string
	// Names are the secrets it is asked for; nil means all.
	Names []string
	// Timeout bounds it; 0 means 10 s.
	Timeout time.Duration
}

// maxOutput bounds what a command may print.
const maxOutput = 64 << 10

// Get implements Source.
func (c Command) Get(ctx context.Context, name string) (string, bool, error) {
	if len(c.Argv) == 0 || (c.Names != nil && !contains(c.Names, name)) {
		return "", false, nil
	}
	limit := c.Timeout
	if limit == 0 {
		limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	argv := make([]string, len(c.Argv))
	for i, a := range c.Argv {
		argv[i] = strings.ReplaceAll(a, "NAME", name)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out := &capped{}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return "", false, fmt.Errorf("the command %s failed: %w", argv[0], err)
	}
	v := strings.TrimRight(out.buf.String(), "\r\n")
	return v, v != "", nil
}

// capped keeps the first bytes and fails after them. The buffer is a field, so
// that its ReadFrom is no way around Write.
type capped struct{ buf bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if c.buf.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("it printed more than %d bytes", maxOutput)
	}
	return c.buf.Write(p)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
