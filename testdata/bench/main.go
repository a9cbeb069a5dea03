// Command bench prints the table of docs/performance.md: what an isolated,
// stoppable call of a plugin costs, beside what it stands on and what else one
// could use. Run it from the root of the repository, on a quiet machine:
//
//	go run ./testdata/bench            everything, some five minutes
//	go run ./testdata/bench -quick     the same with fewer pairs
//	go run ./testdata/bench -only Go   rows whose name has this in it
//
// All rows are measured in one run, in interleaved pairs: ours, the other, ours,
// the other. A ratio is the median over the pairs with its 95 % interval, and a
// goal is missed only if the interval excludes it.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

type bench struct {
	dir    string // of everything that is built
	pairs  int
	only   string
	engine *server
	extism *server
	rows   []row
	notes  []string
	// coldNode starts an MCP server on Node and makes one call, where there is Node.
	coldNode side
}

// row is one line of the table.
type row struct {
	name, ours, other, ratio, goal, verdict string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve()
		return
	}
	quick := flag.Bool("quick", false, "fewer pairs")
	only := flag.String("only", "", "rows whose name has this in it")
	flag.Parse()
	b := &bench{pairs: 15, only: *only}
	if *quick {
		b.pairs = 5
	}
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run() (err error) {
	if b.dir, err = os.MkdirTemp("", "bladehost-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt)
	go func() { // ends with the process
		<-stopped
		_ = os.RemoveAll(b.dir)
		os.Exit(1)
	}()
	if err := b.build(); err != nil {
		return err
	}
	defer b.engine.close()
	if b.extism != nil {
		defer b.extism.close()
	}
	for _, part := range []func() error{b.calls, b.stoppable, b.hostCalls, b.memory, b.peers, b.commands} {
		if err := part(); err != nil {
			return err
		}
	}
	b.print()
	return nil
}

// note is a line below the table.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *bench) wants(name string) bool { return strings.Contains(name, b.only) }

func (b *bench) print() {
	fmt.Printf("\nMachine: %s, %d processors, %s, %s, %s\n", processor(), runtime.NumCPU(), kernel(), runtime.Version(), time.Now().UTC().Format("2 January 2006"))
	fmt.Printf("Load before: %s. Each ratio: median of %d interleaved pairs, with its 95 %% interval.\n\n", load(), b.pairs)
	head := row{"what", "ours", "other", "ratio or difference", "goal", "verdict"}
	all := append([]row{head, {"---", "---", "---", "---", "---", "---"}}, b.rows...)
	for _, r := range all {
		fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", r.name, r.ours, r.other, r.ratio, r.goal, r.verdict)
	}
	fmt.Println()
	for _, n := range b.notes {
		fmt.Println("- " + n)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// build makes all programs and modules of the benchmark.
func (b *bench) build() error {
	steps := []struct {
		what, dir string
		env       []string
		args      []string
	}{
		{"the engine's own server of measurements", ".", nil, []string{"test", "-c", "-o", b.path("engine.test"), "./host/internal/engine"}},
		{"the command", ".", nil, []string{"build", "-trimpath", "-ldflags=-s -w", "-o", b.path("bladehost"), "./cmd/bladehost"}},
		{"the plugin in Go", ".", wasip1(), []string{"build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", b.path("go.wasm"), "./testdata/bench/blade"}},
	}
	for _, s := range steps {
		fmt.Fprintf(os.Stderr, "build %s\n", s.what)
		if err := goTool(s.dir, s.env, s.args...); err != nil {
			return err
		}
	}
	var err error
	if b.engine, err = start(b.path("engine.test"), []string{"BLADEHOST_TEST_CHILD=bench"}); err != nil {
		return err
	}
	if err := b.buildExtism(); err != nil {
		fmt.Fprintf(os.Stderr, "skipped: Extism: %v\n", err)
		b.note("Extism was skipped: %v", err)
	}
	return nil
}

// buildExtism copies the module of its own to a place where the shared package is
// beside it.
func (b *bench) buildExtism() error {
	fmt.Fprintln(os.Stderr, "build Extism's host and the same plugin for it")
	dir := b.path("extism")
	for _, from := range []string{"extism", "work"} {
		to := dir
		if from == "work" {
			to = filepath.Join(dir, "work")
		}
		if err := os.CopyFS(to, os.DirFS(filepath.Join("testdata", "bench", from))); err != nil {
			return err
		}
	}
	if err := goTool(dir, nil, "build", "-o", "runner", "."); err != nil {
		return err
	}
	if err := goTool(dir, wasip1(), "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", "plugin.wasm", "./plugin"); err != nil {
		return err
	}
	var err error
	b.extism, err = start(filepath.Join(dir, "runner"), nil)
	return err
}

func wasip1() []string { return []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"} }

func goTool(dir string, env []string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS="), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func firstLine(path, prefix string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, prefix); found {
			return strings.TrimSpace(strings.TrimLeft(rest, " \t:"))
		}
	}
	return "unknown"
}

func processor() string { return firstLine("/proc/cpuinfo", "model name") }

func kernel() string { return runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease", "") }

func load() string { return firstLine("/proc/loadavg", "") }
