package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// keeper is a tool that keeps something for each session.
type keeper struct {
	tool.Tool
	end func(ctx context.Context, id string) error
}

func (k keeper) EndSession(ctx context.Context, id string) error { return k.end(ctx, id) }

func newKeeper(end func(context.Context, string) error) tool.Tool {
	return keeper{tool.Must(tool.Define("Keep", "keeps", func(context.Context, struct{}) (string, error) { return "", nil }, tool.Options{})), end}
}

func TestEndSession(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name string
		end  func(context.Context) error
		code abi.Code
	}{
		{"goes well", func(context.Context) error { return nil }, ""},
		{"its error is the close's", func(context.Context) error { return abi.NewError(abi.CodeIO, "x").Because(boom) }, abi.CodeIO},
		{"panics", func(context.Context) error { panic("no") }, abi.CodeToolPanic},
		{"obeys its context too late", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, abi.CodeCleanup},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				h, err := New(Options{Tools: []tool.Tool{newKeeper(func(ctx context.Context, id string) error {
					told = append(told, id)
					return c.end(ctx)
				})}})
				if err != nil {
					t.Fatal(err)
				}
				s, err := h.NewSession(SessionOptions{ID: "s1"})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(t.Context()); abi.CodeOf(err) != c.code {
					t.Errorf("%v", err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Errorf("again: %v", err)
				}
				if len(told) != 1 || told[0] != "s1" {
					t.Errorf("told %q", told)
				}
				_ = h.Close(t.Context())
			})
		})
	}
}
