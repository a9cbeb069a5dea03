package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look for problems of this installation",
		Long: `Look at what bladehost needs on this machine: its folders and who may write to
them, the cache of compiled plugins, the Go toolchain, and every installed plugin,
whose module is read and compared with its digest. No plugin is run. A problem
means exit code 1 and comes with what mends it.`,
		Args:              exactArgs(0),
		ValidArgsFunction: fixedWords(),
		RunE:              func(c *cobra.Command, _ []string) error { return a.doctor(c.Context()) },
	}
}

// Status of one thing that doctor looked at.
const (
	statusOK      = "ok"
	statusNote    = "note"
	statusProblem = "problem"
)

// symptom is one row of doctor's table.
type symptom struct {
	What   string `json:"what"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	// Fix is the command or the act that mends it.
	Fix string `json:"fix,omitempty"`
}

// examinations is the one list of what doctor looks at.
func (a *app) examinations() []func(context.Context) []symptom {
	return []func(context.Context) []symptom{a.examineProgram, a.examineToolchain, a.examinePlaces, a.examineConfig, a.examineEngine, a.examinePlugins}
}

func (a *app) doctor(ctx context.Context) error {
	found := []symptom{}
	problems := 0
	for _, examine := range a.examinations() {
		found = append(found, examine(ctx)...)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for _, s := range found {
		if s.Status == statusProblem {
			problems++
		}
	}
	var failed error
	if problems > 0 {
		failed = &toldError{exitFailed}
	}
	if a.json {
		writeJSON(a.out, map[string]any{"version": versionText(), "checks": found, "problems": problems})
		return failed
	}
	if err := a.text(a.symptoms(found)); err != nil {
		return err
	}
	if problems == 0 {
		a.note("no problems")
	} else {
		a.note("%s", count(problems, "problem"))
	}
	return failed
}

// symptoms is the table for a person.
func (a *app) symptoms(list []symptom) string {
	wide := 0
	for _, s := range list {
		wide = max(wide, len([]rune(printable(s.What))))
	}
	var w strings.Builder
	for _, s := range list {
		colour := map[string]string{statusOK: green, statusNote: yellow, statusProblem: red}[s.Status]
		what := oneRow(s.What)
		fmt.Fprintf(&w, "%s  %s%s  %s\n", a.paint(a.outTTY, colour, fmt.Sprintf("%-7s", s.Status)), what, strings.Repeat(" ", max(0, wide-len([]rune(what)))), oneRow(s.Detail))
		if s.Fix != "" {
			fmt.Fprintf(&w, "%9s%*s  mend it: %s\n", "", wide, "", oneRow(s.Fix))
		}
	}
	return w.String()
}

func oneRow(s string) string { return strings.ReplaceAll(printable(s), "\n", " ") }

func (a *app) examineProgram(context.Context) []symptom {
	return []symptom{{What: "bladehost", Status: statusOK, Detail: fmt.Sprintf("%s, ABI %d, %s, %s/%s", versionText(), abi.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)}}
}

// examineEngine says how plugins run here, and what is in the cache.
func (a *app) examineEngine(ctx context.Context) []symptom {
	h, err := a.newHost(hostFlags{})
	if err != nil {
		if code := abi.CodeOf(err); code == abi.CodeIO {
			return []symptom{{What: "engine", Status: statusProblem, Detail: err.Error(), Fix: "see the folders above"}}
		}
		return []symptom{{What: "engine", Status: statusProblem, Detail: err.Error(), Fix: "build bladehost anew with a newer Go"}}
	}
	defer closeHost(h)
	r := h.Doctor()
	engine := symptom{What: "engine", Status: statusOK, Detail: fmt.Sprintf("%s, wazero %s; %d guests at once, %s of memory each", r.Engine, r.RuntimeVersion, r.Running, sizeText(r.MemoryLimit))}
	if r.EngineWhy != "" {
		engine.Status, engine.Detail = statusNote, engine.Detail+"; "+r.EngineWhy
	}
	reset := symptom{What: "isolation", Status: statusOK, Detail: r.Reset + ", kernel " + or(r.Kernel, "unknown")}
	if r.ResetWhy != "" {
		reset.Status, reset.Detail = statusNote, reset.Detail+"; "+r.ResetWhy
	}
	cache := symptom{What: "compile cache", Status: statusOK, Detail: fmt.Sprintf("%d modules, %s of at most %s; it may be deleted any time", r.Cache.Entries, sizeText(r.Cache.Bytes), sizeText(r.Cache.Limit))}
	if r.Cache.Bad > 0 {
		cache.Status, cache.Detail = statusNote, fmt.Sprintf("%s; %d damaged, which are made anew when they are needed", cache.Detail, r.Cache.Bad)
	}
	return []symptom{engine, reset, cache}
}

// oldestPluginGo is the Go release that builds plugins made with the kit.
const oldestPluginGo = "1.26"

func (a *app) examineToolchain(ctx context.Context) []symptom {
	s := symptom{What: "Go toolchain", Status: statusNote, Fix: "install Go " + oldestPluginGo + " or newer from https://go.dev/dl; ready .wasm files need none"}
	tool, err := exec.LookPath("go")
	if err != nil {
		s.Detail = "the go command was not found, so plugins cannot be built from source"
		return []symptom{s}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "env", "GOVERSION")
	cmd.Env = a.buildEnvironment()
	cmd.Dir = os.TempDir() // not a folder whose go.mod could choose another toolchain
	out, err := cmd.Output()
	version := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		s.Detail = fmt.Sprintf("%s does not run: %v", tool, err)
	case olderGo(version, oldestPluginGo):
		s.Detail = fmt.Sprintf("%s is %s, which is too old for the kit", tool, version)
	default:
		s = symptom{What: s.What, Status: statusOK, Detail: version + ", " + tool}
	}
	return []symptom{s}
}

// olderGo compares the minor releases of "go1.26.8" and "1.26"; what is no
// release is not older.
func olderGo(have, want string) bool {
	var a, b int
	if _, err := fmt.Sscanf(have, "go1.%d", &a); err != nil {
		return false
	}
	_, _ = fmt.Sscanf(want, "1.%d", &b)
	return a < b
}

func (a *app) examinePlaces(context.Context) []symptom {
	p, err := a.places()
	if err != nil {
		return []symptom{{What: "folders", Status: statusProblem, Detail: err.Error(), Fix: "export BLADEHOST_HOME=/some/folder"}}
	}
	var out []symptom
	for _, d := range []struct{ what, dir string }{{"configuration", p.config}, {"plugins", p.data}, {"state", p.state}, {"cache", p.cache}, {"compiled plugins", p.compiled()}} {
		out = append(out, examineFolder(d.what, d.dir))
	}
	if a.getenv("BLADEHOST_HOME") == "" {
		for _, k := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
			if v := a.getenv(k); v != "" && !filepath.IsAbs(v) {
				out = append(out, symptom{What: k, Status: statusNote, Detail: v + " is a relative path and is ignored", Fix: "set it to an absolute path, or unset it"})
			}
		}
	}
	tmp := os.TempDir()
	if f, err := os.CreateTemp(tmp, "bladehost-doctor-"); err != nil {
		out = append(out, symptom{What: "temporary files", Status: statusProblem, Detail: err.Error(), Fix: "make " + tmp + " writable, or set TMPDIR"})
	} else {
		_ = f.Close()
		_ = os.Remove(f.Name())
		out = append(out, symptom{What: "temporary files", Status: statusOK, Detail: tmp})
	}
	return out
}

// examineFolder judges a folder that is made when it is first needed.
func examineFolder(what, dir string) symptom {
	s := symptom{What: what, Status: statusProblem, Detail: dir}
	fi, err := os.Stat(dir)
	if os.IsNotExist(err) {
		return examineParent(s, dir)
	}
	quoted := shellQuote(dir)
	switch {
	case err != nil:
		s.Detail, s.Fix = err.Error(), "see who owns it: ls -ld "+quoted
	case !fi.IsDir():
		s.Detail, s.Fix = dir+" is not a folder", "mv "+quoted+" "+shellQuote(dir+".old")
	case runtime.GOOS != "windows" && fi.Mode().Perm()&0o022 != 0:
		s.Detail, s.Fix = fmt.Sprintf("%s may be written by others (mode %o)", dir, fi.Mode().Perm()), "chmod 700 "+quoted
	case !writable(dir):
		s.Detail, s.Fix = dir+" cannot be written", "chmod u+rwx "+quoted+", or own it: chown \"$USER\" "+quoted
	default:
		s.Status, s.Detail = statusOK, fmt.Sprintf("%s (mode %o)", dir, fi.Mode().Perm())
	}
	return s
}

// examineParent judges whether a folder that is not there can be made.
func examineParent(s symptom, dir string) symptom {
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		fi, err := os.Stat(up)
		if os.IsNotExist(err) && up != filepath.Dir(up) {
			continue
		}
		if err != nil || !fi.IsDir() || !writable(up) {
			s.Detail, s.Fix = fmt.Sprintf("%s is not there and cannot be made in %s", dir, up), "export BLADEHOST_HOME=/a/folder/of/yours"
			return s
		}
		s.Status, s.Detail = statusOK, dir+" (made when it is needed)"
		return s
	}
}

// writable tries it: modes do not tell about read-only file systems.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return false
	}
	_ = f.Close()
	return os.Remove(f.Name()) == nil
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// examinePlugins reads every installed module and compares its digest.
func (a *app) examinePlugins(ctx context.Context) []symptom {
	s, err := a.store()
	if err != nil {
		return nil // examinePlaces said so
	}
	list, err := s.List()
	if err != nil {
		return []symptom{{What: "installed plugins", Status: statusProblem, Detail: err.Error(), Fix: "restore lock.json from a backup, or move it away and install the plugins again"}}
	}
	if len(list) == 0 {
		return []symptom{{What: "installed plugins", Status: statusOK, Detail: "none"}}
	}
	var out []symptom
	for _, e := range list {
		if ctx.Err() != nil {
			return out
		}
		p := symptom{What: e.Name, Status: statusProblem, Fix: "bladehost install " + shellQuote(strings.TrimPrefix(e.Source, "file:"))}
		b, err := s.Module(e)
		if err != nil {
			p.Detail = err.Error()
			out = append(out, p)
			continue
		}
		switch i, err := host.Inspect(b); {
		case err != nil:
			p.Detail, p.Fix = err.Error(), "bladehost remove "+e.Name
		case i.Problem != nil:
			p.Detail, p.Fix = i.Problem.Message, "bladehost remove "+e.Name
		default:
			p = symptom{What: e.Name, Status: statusOK, Detail: fmt.Sprintf("%s, %s, sha256 %s", e.Version, sizeText(e.Size), e.SHA256[:12])}
		}
		out = append(out, p)
	}
	return out
}
