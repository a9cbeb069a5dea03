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

// Run compiles a module and runs its _start in the world of cfg, in a runtime of its
// own. The end of ctx stops the guest.
func Run(ctx context.Context, bin []byte, cfg wasi.Config) Outcome {
	rc := wazero.NewRuntimeConfig().WithCloseOnContextDone(true)
	r := wazero.NewRuntimeWithConfig(ctx, rc)
	defer func() { _ = r.Close(context.WithoutCancel(ctx)) }()
	if err := wasi.Instantiate(ctx, r, StateOf); err != nil {
		return Outcome{Err: err}
	}
	var stdout, stderr bytes.Buffer
	if cfg.Stdout == nil {
		cfg.Stdout = &stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = &stderr
	}
	s := wasi.NewState(cfg)
	defer s.Close()
	_, err := r.InstantiateWithConfig(WithState(ctx, s), bin, wazero.NewModuleConfig().WithName(""))
	o := Outcome{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *wasi.ExitError
	if errors.As(err, &exit) {
		o.Code = exit.Code
	} else {
		o.Err = err
	}
	return o
}

// String is the outcome for a failure message.
func (o Outcome) String() string {
	return fmt.Sprintf("exit %d, error %v\nstdout: %s\nstderr: %s", o.Code, o.Err, o.Stdout, o.Stderr)
}
