package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// Bounds of one compilation in a child process. A large Go program takes two
// seconds and 300 MiB.
const (
	DefaultCompileTime   = time.Minute
	DefaultCompileMemory = 2 << 30
)

// Exit codes of the child, beside 0.
const (
	childFailed = 1
	childBroken = 2 // Go's own
	childMemory = 3
	childTime   = 4
)

// childAnswer is what the child prints when it fails.
type childAnswer struct {
	Error string `json:"error"`
}

// compileInChild lets a child process fill dir with the machine code of a module.
// The compiler cannot be cancelled and its memory cannot be bounded inside a
// process: some small modules keep it busy for minutes.
func (e *Engine) compileInChild(ctx context.Context, m *wasm.Module, dir string, listenAt ...string) error {
	limit, memory := e.opt.CompileTime, e.opt.CompileMemory
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	argv := append(append([]string(nil), e.opt.CompileChild...), dir, e.kind(), strconv.FormatInt(memory, 10), limit.String())
	if len(listenAt) > 0 {
		argv = append(argv, strings.Join(listenAt, ","))
	}
	cmd := exec.CommandContext(timed, argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(m.Bytes)
	var out, text tailBuffer
	cmd.Stdout, cmd.Stderr = &out, &text
	cmd.WaitDelay = time.Second // for pipes that a grandchild holds
	err := cmd.Run()
	var exit *exec.ExitError
	errors.As(err, &exit)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case timed.Err() != nil, exit != nil && exit.ExitCode() == childTime:
		return abi.NewError(abi.CodeCompile, "compiling the module took longer than %v", limit)
	case exit == nil:
		return abi.NewError(abi.CodeCompile, "the compiler's process could not be started: %v", err)
	case exit.ExitCode() == childMemory, outOfMemory(text.String()), exit.ExitCode() == childBroken && nearLimit(peakMemory(cmd.ProcessState), memory):
		return abi.NewError(abi.CodeCompile, "compiling the module took more memory than %d MiB", memory>>20)
	}
	var a childAnswer
	if json.Unmarshal(out.Bytes(), &a) == nil && a.Error != "" {
		return abi.NewError(abi.CodeCompile, "the module could not be compiled: %s", clipText(a.Error))
	}
	e.log.Error("the compiler's process failed", "status", exit.String(), "stderr", text.String())
	return abi.NewError(abi.CodeCompile, "the compiler's process failed on the module: %v", exit)
}

// outOfMemory knows the words with which Go's runtime ends then.
func outOfMemory(stderr string) bool {
	return strings.Contains(stderr, "out of memory") || strings.Contains(stderr, "cannot allocate memory")
}

// nearLimit reports whether a process that broke had taken about all it may. Go's
// collector does not look at the answer to each of its requests for memory and may
// end with a nil pointer instead of words. What the kernel counts is ahead of what
// is used by up to 64 MiB, as Go asks for its heap in pieces of that size.
func nearLimit(peak, limit int64) bool { return peak >= limit/2 }

// tailBuffer keeps the first 64 KiB that are written to it.
type tailBuffer struct{ bytes.Buffer }

func (b *tailBuffer) Write(p []byte) (int, error) {
	const most = 64 << 10
	_, _ = b.Buffer.Write(p[:min(len(p), max(0, most-b.Len()))]) // a buffer does not fail
	return len(p), nil
}

// kind is how the engine runs guests, as a word.
func (e *Engine) kind() string {
	if e.interpreter() {
		return "interpreter"
	}
	return "compiler"
}

// CompileMain is the child process of Options.CompileChild: it compiles the module
// that it reads from in. Its arguments are those that the engine appended. It
// returns the exit code.
func CompileMain(args []string, in io.Reader, out io.Writer) int {
	if err := compileMain(args, in); err != nil {
		b, _ := json.Marshal(childAnswer{firstLine(err.Error())}) // a string always has a JSON form
		_, _ = out.Write(b)                                       // the exit code says it, too
		return childFailed
	}
	return 0
}

func compileMain(args []string, in io.Reader) error {
	if len(args) != 4 && len(args) != 5 {
		return fmt.Errorf("%d arguments; the host that starts this process gives four or five", len(args))
	}
	memory, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil || memory <= 0 {
		return fmt.Errorf("the memory limit %q is not a number", args[2])
	}
	limit, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	limitChild(memory, limit)
	b, err := io.ReadAll(io.LimitReader(in, maxChildInput))
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	e, err := New(Options{Interpreter: args[1] == "interpreter", Reset: ResetMemcpy})
	if err != nil {
		return err
	}
	p := &Plugin{e: e, mod: &Module{Info: &wasm.Info{}}}
	ctx := context.Background()
	if len(args) == 5 {
		ctx = experimental.WithFunctionListenerFactory(ctx, listeners(strings.Split(args[4], ",")))
	}
	c, err := p.buildIn(ctx, &wasm.Module{Bytes: b}, dir)
	if err != nil {
		return err
	}
	return errors.Join(c.free(), e.Close(ctx))
}

// maxChildInput is above what the rewriter makes of the largest module.
const maxChildInput = 256 << 20

// limitChild bounds this process: the kernel refuses memory where it can, a look
// at it every few milliseconds ends the process elsewhere, and nobody has to be
// alive to end it when its time is over.
func limitChild(memory int64, limit time.Duration) {
	limitMemory(memory)
	debug.SetMemoryLimit(memory)
	time.AfterFunc(limit, func() { os.Exit(childTime) })
	go func() { // lives as long as the process
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			time.Sleep(10 * time.Millisecond)
			metrics.Read(sample)
			if int64(sample[0].Value.Uint64()-sample[1].Value.Uint64()) > memory {
				os.Exit(childMemory)
			}
		}
	}()
}
