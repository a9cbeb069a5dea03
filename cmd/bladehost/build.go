package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

// buildEnv are the variables a plugin's build may see. The folder is hostile:
// its own settings (GOFLAGS, a workspace) do not count, and nothing of the
// user's that could hold a credential is handed on.
var buildEnv = []string{"PATH", "HOME", "TMPDIR", "GOPATH", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GOTOOLCHAIN",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "LOCALAPPDATA", "USERPROFILE", "TEMP", "TMP"}

// buildFolder compiles a Go plugin's folder and adds the manifest section.
func (a *app) buildFolder(ctx context.Context, h *host.Host, dir string) ([]byte, error) {
	b, err := a.compileFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	return addManifest(ctx, h, dir, b, nameVersion{})
}

// compileFolder compiles a Go plugin's folder to a module without a manifest.
func (a *app) compileFolder(ctx context.Context, dir string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return nil, abi.NewError(abi.CodeBuild, "%s is not the folder of a Go plugin: it has no go.mod. Name a folder with Go source, or a ready .wasm file", dir)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return nil, abi.NewError(abi.CodeNoToolchain, "the go command was not found, and %s is Go source; install Go from https://go.dev/dl or name a ready .wasm file", dir)
	}
	tmp, err := os.MkdirTemp("", "bladehost-build-")
	if err != nil {
		return nil, abi.NewError(abi.CodeIO, "%v", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	out := filepath.Join(tmp, "plugin.wasm")
	cmd := exec.CommandContext(ctx, goTool, "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = a.buildEnvironment()
	var msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &msg, &msg
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, abi.NewError(abi.CodeBuild, "%s does not build:\n%s", dir, strings.TrimSpace(msg.String())).Because(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return nil, abi.NewError(abi.CodeBuild, "%s built, but there is no module: is it package main?", dir).Because(err)
	}
	return b, nil
}

func (a *app) buildEnvironment() []string {
	env := []string{"GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0"}
	for _, k := range buildEnv {
		if v := a.getenv(k); v != "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// nameVersion is what a plugin made for another host does not know of itself.
type nameVersion struct{ name, version string }

// madeForExtism says that an import is of a module made for Extism.
func madeForExtism(name string) bool { return strings.HasPrefix(name, "extism:") }

// addManifest asks the module of ref for its manifest and puts it into the section.
func addManifest(ctx context.Context, h *host.Host, ref string, module []byte, nv nameVersion) ([]byte, error) {
	info, err := host.Inspect(module)
	if err != nil {
		return nil, about(ref, err)
	}
	describe := func() (json.RawMessage, error) { return h.Describe(ctx, module) }
	if nv != (nameVersion{}) || slices.ContainsFunc(info.Imports, madeForExtism) {
		describe = func() (json.RawMessage, error) { return h.DescribeExtism(ctx, module, nv.name, nv.version) }
	}
	raw, err := describe()
	if err != nil {
		return nil, about(ref, err)
	}
	b, err := host.WithManifest(module, raw)
	if err != nil {
		return nil, about(ref, err)
	}
	return b, nil
}

// usable reads the module of ref; one that cannot be run is an error.
func usable(ref string, module []byte) (*host.ModuleInfo, error) {
	info, err := host.Inspect(module)
	if err != nil {
		return nil, about(ref, err)
	}
	if info.Problem != nil {
		return nil, about(ref, info.Problem)
	}
	return info, nil
}

// about says in an error which file or folder it is about.
func about(ref string, err error) error {
	var e *abi.Error
	if !errors.As(err, &e) {
		return err // the user stopped it
	}
	c := *e
	c.Message = ref + ": " + e.Message
	return c.Because(err)
}

// moduleOf reads or builds the module that a reference names: a folder, a .wasm
// file or an installed plugin.
func (a *app) moduleOf(ctx context.Context, h *host.Host, ref string) ([]byte, error) {
	if abi.ValidPackageName(ref) {
		return a.installedModule(ref)
	}
	fi, err := os.Stat(ref)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, abi.NewError(abi.CodeIO, "there is no file or folder %s", ref)
	case err != nil:
		return nil, abi.NewError(abi.CodeIO, "%v", err)
	case fi.IsDir():
		return a.buildFolder(ctx, h, ref)
	case !fi.Mode().IsRegular():
		return nil, abi.NewError(abi.CodeNotWasm, "%s is neither a regular file nor a folder", ref)
	case fi.Size() > maxModule:
		return nil, abi.NewError(abi.CodeModuleLimit, "%s has %s, at most %s are allowed", ref, sizeText(fi.Size()), sizeText(maxModule))
	}
	b, err := os.ReadFile(ref)
	if err != nil {
		return nil, abi.NewError(abi.CodeIO, "%v", err)
	}
	return b, nil
}

// maxModule is the scanner's own limit; it spares reading what it would refuse.
const maxModule = 64 << 20

// writeNew writes a file so that nobody sees half of it.
func writeNew(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
