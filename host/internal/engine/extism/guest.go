package extism

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// Guest is one tool of a plugin in one world. It is a tool.Tool.
type Guest struct {
	plugin *Plugin
	world  *engine.World
	spec   *abi.ToolSpec
	writes bool
}

// Spec is the definition of the manifest.
func (g *Guest) Spec() *abi.ToolSpec { return g.spec }

// LentCanWrite reports whether a call could change something outside.
func (g *Guest) LentCanWrite() bool { return g.writes }

// Warm compiles the plugin.
func (g *Guest) Warm(ctx context.Context) error {
	_, err := g.plugin.Compile(ctx)
	return err
}

// Admit waits for a place among the running guests.
func (g *Guest) Admit(ctx context.Context) (tool.Admission, error) { return g.plugin.admit(ctx) }

// Execute runs one call in an instance of its own.
func (g *Guest) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	p := g.plugin
	at, ok := call.Admission().(*place)
	if !ok {
		var err error
		if at, err = p.admit(ctx); err != nil {
			return nil, err
		}
		defer at.Release()
	}
	if !p.enter() {
		return nil, closedError()
	}
	defer p.leave()
	// Compiling may take seconds; other guests run meanwhile.
	resume := at.pause(ctx)
	c, err := p.compile(ctx)
	if err != nil {
		return nil, err
	}
	resume()
	res, err := g.run(ctx, c, call, at)
	engine.StampCompile(res, c.hit)
	return res, err
}

func (g *Guest) run(ctx context.Context, c *compiled, call *tool.Call, at *place) (*abi.Result, error) {
	input, err := g.input(call.Input)
	if err != nil {
		return nil, err
	}
	r := g.plugin.newRun(ctx, g.spec.Name, at)
	r.call, r.spec = call, g.spec
	out, failed, e, err := r.invoke(c, g.world, g.plugin.kind.call, input)
	switch {
	case err != nil:
		return nil, err
	case e != nil:
		return abi.Failure(e), nil
	case failed != nil:
		return abi.Failure(&abi.Error{Message: clipMessage(failed.Message), Type: abi.TypeExecution}), nil
	case len(out) > abi.MaxResult:
		return abi.Failure(abi.NewError(abi.CodeResultTooBig, "the tool's answer is over %d MiB", abi.MaxResult>>20)), nil
	}
	if err := strictjson.Check(out); err != nil {
		return abi.Failure(abi.NewError(abi.CodeResultNotJSON, "the tool's answer is %v", err)), nil
	}
	if g.plugin.kind.name == kindBlade {
		return abi.Success(out), nil
	}
	return resultOf(out), nil
}

// input is what the calling export gets.
func (g *Guest) input(in json.RawMessage) (json.RawMessage, error) {
	if len(in) == 0 {
		in = json.RawMessage("{}")
	}
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	switch g.plugin.kind.name {
	case kindMCP1:
		return abi.Marshal(map[string]call{"params": {g.spec.Name, in}})
	case kindMCP2:
		return abi.Marshal(map[string]any{"context": json.RawMessage(requestContext), "request": call{g.spec.Name, in}})
	}
	return abi.Marshal(struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}{g.spec.Name, in})
}

// clipMessage bounds a message of the guest.
func clipMessage(s string) string {
	const most = 64 << 10
	if len(s) > most {
		return text([]byte(s[:most])) + "…"
	}
	return s
}
