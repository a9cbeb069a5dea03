package wasitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"

	"github.com/bladehost/bladehost/host/internal/engine/wasi"
)

type stateKey struct{}

// WithState puts a state where StateOf finds it.
func WithState(ctx context.Context, s *wasi.State) context.Context {
	return context.WithValue(ctx, stateKey{}, s)
}

// StateOf returns the state that WithState put into ctx, or nil.
func StateOf(ctx context.Context) *wasi.State {
	s, _ := ctx.Value(stateKey{}).(*wasi.State)
	return s
}

// Outcome is what a command guest left behind.
type Outcome struct {
	Code           uint32 // of proc_exit; 0 when _start returned
	Err            error  // anything that ended the guest but an exit, for instance a trap
	Stdout, Stderr string // what was written, unless the configuration has writers
}

// Program is a compiled command module that can run many times.
type Program struct {
	r   wazero.Runtime
	mod wazero.CompiledModule
}

// Compile prepares a module in a runtime of its own. The caller closes it.
func Compile(ctx context.Context, bin []byte) (*Program, error) {
	rc := wazero.NewRuntimeConfig().WithCloseOnContextDone(true)
	p := &Program{r: wazero.NewRuntimeWithConfig(ctx, rc)}
	err := wasi.Instantiate(ctx, p.r, StateOf)
	if err == nil {
		p.mod, err = p.r.CompileModule(ctx, bin)
	}
	if err != nil {
		_ = p.Close(ctx)
		return nil, err
	}
	return p, nil
}

// Close releases the runtime.
func (p *Program) Close(ctx context.Context) error { return p.r.Close(context.WithoutCancel(ctx)) }

// Run runs _start of a fresh instance in the world of cfg. The end of ctx stops the guest.
func (p *Program) Run(ctx context.Context, cfg wasi.Config) Outcome {
	var stdout, stderr capped
	if cfg.Stdout == nil {
		cfg.Stdout = &stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = &stderr
	}
	s := wasi.NewState(cfg)
	defer s.Close()
	inst, err := p.r.InstantiateModule(WithState(ctx, s), p.mod, wazero.NewModuleConfig().WithName(""))
	if inst != nil {
		defer func() { _ = inst.Close(context.WithoutCancel(ctx)) }()
	}
	o := Outcome{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *wasi.ExitError
	if errors.As(err, &exit) {
		o.Code = exit.Code
	} else {
		o.Err = err
	}
	return o
}

// maxOutput bounds what an Outcome keeps of a stream, in bytes.
const maxOutput = 16 << 20

// capped keeps output up to maxOutput; more is an error for the guest.
type capped struct{ bytes.Buffer }

func (c *capped) Write(b []byte) (int, error) {
	if c.Len()+len(b) > maxOutput {
		return 0, errors.New("too much output")
	}
	return c.Buffer.Write(b)
}

// Run compiles a module and runs it once.
func Run(ctx context.Context, bin []byte, cfg wasi.Config) Outcome {
	p, err := Compile(ctx, bin)
	if err != nil {
		return Outcome{Err: err}
	}
	defer func() { _ = p.Close(ctx) }()
	return p.Run(ctx, cfg)
}

// String is the outcome for a failure message.
func (o Outcome) String() string {
	return fmt.Sprintf("exit %d, error %v\nstdout: %s\nstderr: %s", o.Code, o.Err, o.Stdout, o.Stderr)
}
