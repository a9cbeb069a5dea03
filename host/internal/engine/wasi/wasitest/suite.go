package wasitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
)

// caseTimeout bounds one program of the suite.
const caseTimeout = 2 * time.Minute

// RunSuite runs every preview 1 program of a wasi-testsuite checkout (tests/*/testsuite,
// with or without a wasm32-wasip1 folder) as a subtest. It logs passed, total and each
// miss; a miss fails the test. Folders are copied before a program sees them.
func RunSuite(t *testing.T, dir string) {
	t.Helper()
	list, err := findCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatalf("no preview 1 programs under %s: is it a checkout of a branch with built programs (prod/testsuite-base)?", dir)
	}
	var misses []string
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t.TempDir()); err != nil {
				misses = append(misses, c.name)
				t.Error(err)
			}
		})
	}
	t.Logf("wasi-testsuite: %d of %d passed", len(list)-len(misses), len(list))
	for _, m := range misses {
		t.Logf("miss: %s", m)
	}
}

// suiteCase is one program with its specification.
type suiteCase struct {
	name, wasm string
	spec       spec
}

// spec is the JSON file beside a program. Older ones have dirs, newer ones root, the
// newest operations.
type spec struct {
	Root       string            `json:"root"`
	Dirs       []string          `json:"dirs"`
	Args       []string          `json:"args"`
	Env        map[string]string `json:"env"`
	Stdin      string            `json:"stdin"`
	ExitCode   uint32            `json:"exit_code"`
	Stdout     *string           `json:"stdout"`
	Stderr     *string           `json:"stderr"`
	Operations []operation       `json:"operations"`
}

type operation struct {
	Type     string            `json:"type"`
	ID       string            `json:"id"`
	Payload  string            `json:"payload"`
	Root     string            `json:"root"`
	Dirs     []string          `json:"dirs"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	ExitCode uint32            `json:"exit_code"`
}

// flatten turns operations into the older form.
func (s *spec) flatten() error {
	for _, op := range s.Operations {
		switch op.Type {
		case "run":
			s.Root, s.Dirs, s.Args, s.Env = op.Root, op.Dirs, op.Args, op.Env
		case "wait":
			s.ExitCode = op.ExitCode
		case "write":
			s.Stdin += op.Payload
		case "read":
			p := op.Payload
			if op.ID == "stderr" {
				s.Stderr = &p
			} else {
				s.Stdout = &p
			}
		default:
			return fmt.Errorf("operation %q is not known here", op.Type)
		}
	}
	return nil
}

func findCases(dir string) ([]suiteCase, error) {
	var list []suiteCase
	err := filepath.WalkDir(dir, func(p string, e iofs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || strings.HasSuffix(e.Name(), "wasip3") || strings.HasSuffix(e.Name(), "wasip2")):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(p) != ".wasm" || !isCoreModule(p):
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		c := suiteCase{name: caseName(rel), wasm: p}
		b, err := os.ReadFile(strings.TrimSuffix(p, ".wasm") + ".json")
		if err == nil {
			err = json.Unmarshal(b, &c.spec)
		} else if os.IsNotExist(err) {
			err = nil
		}
		if err == nil {
			err = c.spec.flatten()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		list = append(list, c)
		return nil
	})
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list, err
}

// caseName is language/program.
func caseName(rel string) string {
	parts := strings.Split(filepath.ToSlash(strings.TrimSuffix(rel, ".wasm")), "/")
	var keep []string
	for _, p := range parts {
		if p != "tests" && p != "testsuite" && p != "wasm32-wasip1" {
			keep = append(keep, p)
		}
	}
	return strings.Join(keep, "/")
}

// isCoreModule tells modules from components by the version field.
func isCoreModule(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 8)
	_, err = f.Read(head)
	return err == nil && bytes.Equal(head, []byte("\x00asm\x01\x00\x00\x00"))
}

// run copies the folders into tmp, runs the program and compares.
func (c suiteCase) run(tmp string) error {
	bin, err := os.ReadFile(c.wasm)
	if err != nil {
		return err
	}
	cfg := wasi.Config{
		Args:  append([]string{filepath.Base(c.wasm)}, c.spec.Args...),
		Stdin: strings.NewReader(c.spec.Stdin),
	}
	for k, v := range c.spec.Env {
		cfg.Env = append(cfg.Env, k+"="+v)
	}
	sort.Strings(cfg.Env)
	mounts := map[string]string{} // guest path to folder
	for _, d := range c.spec.Dirs {
		mounts[d] = d
	}
	if c.spec.Root != "" {
		mounts["/"] = c.spec.Root
	}
	for guest, d := range mounts {
		g, err := copyAndGrant(filepath.Join(filepath.Dir(c.wasm), filepath.FromSlash(d)), filepath.Join(tmp, filepath.Base(d)))
		if err != nil {
			return err
		}
		defer g.Close()
		cfg.Mounts = append(cfg.Mounts, wasi.Mount{Guest: guest, View: g.View(fs.Limits{})})
	}
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	o := Run(ctx, bin, cfg)
	switch {
	case o.Err != nil, o.Code != c.spec.ExitCode:
		return fmt.Errorf("want exit %d\n%s", c.spec.ExitCode, o)
	case c.spec.Stdout != nil && *c.spec.Stdout != o.Stdout:
		return fmt.Errorf("want stdout %q\n%s", *c.spec.Stdout, o)
	case c.spec.Stderr != nil && *c.spec.Stderr != o.Stderr:
		return fmt.Errorf("want stderr %q\n%s", *c.spec.Stderr, o)
	}
	return nil
}

// copyAndGrant copies a folder, without what earlier runs of the suite left, and
// grants the copy.
func copyAndGrant(from, to string) (*fs.Grant, error) {
	err := filepath.WalkDir(from, func(p string, e iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case strings.HasSuffix(e.Name(), ".cleanup"):
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case e.IsDir():
			return os.MkdirAll(dst, 0o755)
		case e.Type()&iofs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, dst)
		case !e.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, 0o644)
	})
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", from, err)
	}
	return fs.Open(to, fs.Options{AllowSymlinkCreation: true})
}
