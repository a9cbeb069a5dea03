package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// sampleTime is how long a sample call may take. Nothing is granted and every
// service fails at once, so nothing that is worth waiting for can happen.
const sampleTime = 5 * time.Second

// unknownTool is the name of a tool that the module does not have.
const unknownTool = "blade-check-no-such-tool"

// sample is one call of a tool to try.
type sample struct {
	tool, what string
	input      json.RawMessage
	severity   severity
}

// runTools calls each tool for real: V09. First as a session would, with {} and
// with the smallest input that fits; then, past the schemas, with {} and for a
// tool that is not there.
func (c *checker) runTools(ctx context.Context) error {
	module, err := host.WithManifest(c.code, c.rawManifest())
	if err != nil {
		c.add("V00", sevError, "", "see abi/SPEC.md, section 10", "%v", err)
		return nil
	}
	var normal, loose []sample
	for _, t := range c.manifest.Tools {
		normal = append(normal, sample{t.Name, "the input {}", json.RawMessage("{}"), sevError})
		if in := sampleInput(t.Parameters); in != nil && string(in) != "{}" {
			normal = append(normal, sample{t.Name, "the input " + clip(string(in)), in, sevError})
		}
		for i, e := range t.Description.Examples {
			normal = append(normal, sample{t.Name, fmt.Sprintf("example %d", i), e.Params, sevError})
		}
		loose = append(loose, sample{t.Name, "{}, unchecked", json.RawMessage("{}"), sevWarn})
	}
	if err := c.samples(ctx, module, normal); err != nil || c.hung() {
		return err
	}
	raw, err := c.looseManifest()
	if err != nil {
		return nil // a manifest so large that no tool can be added
	}
	if module, err = host.WithManifest(c.code, raw); err != nil {
		return nil // the same
	}
	return c.samples(ctx, module, append(loose, sample{unknownTool, "a tool that is not there", json.RawMessage("{}"), sevWarn}))
}

// hung reports whether a call did not end: more of them would only wait longer.
func (c *checker) hung() bool {
	for _, f := range c.report.Findings {
		if f.Rule == "V09" && f.Where == "module" {
			return true
		}
	}
	return false
}

// looseManifest is the manifest with schemas that accept anything and a tool
// more than the module has.
func (c *checker) looseManifest() (json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(c.rawManifest(), &m); err != nil {
		return nil, err
	}
	var tools []map[string]json.RawMessage
	if err := json.Unmarshal(m["tools"], &tools); err != nil {
		return nil, err
	}
	for _, t := range tools {
		t["parameters"] = json.RawMessage(`{"type":"object"}`)
		delete(t, "outputSchema")
	}
	tools = append(tools, map[string]json.RawMessage{
		"name": abi.String(unknownTool), "description": abi.String("Not there."), "parameters": json.RawMessage(`{"type":"object"}`),
	})
	raw, err := abi.Marshal(tools)
	if err != nil {
		return nil, err
	}
	m["tools"] = raw
	return abi.Marshal(m)
}

// samples makes the calls, one after the other, in a session of their own.
func (c *checker) samples(ctx context.Context, module []byte, list []sample) error {
	p, err := c.h.LoadPlugin(module, host.PluginOptions{Origin: c.report.File})
	if err != nil {
		c.add("V09", sevError, "module", fixOf(abi.CodeOf(err)), "%v", err)
		return nil
	}
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }() // the host's close frees it too
	s, err := c.h.NewSession(host.SessionOptions{
		Plugins: []host.Attachment{{Plugin: p}}, AutoApprove: true, AllowUndiscovered: true, ToolTimeout: sampleTime, Services: c.absentServices(),
	})
	if err != nil {
		c.add("V09", sevError, "module", fixOf(abi.CodeOf(err)), "a session refuses the tools: %v", err)
		return nil
	}
	for _, x := range list {
		res, err := s.Run(ctx, host.Call{Tool: x.tool, Input: x.input, Approved: true})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			c.add("V09", sevError, "module", "end every call; look at ctx.Err, or at cancelled, in loops", "%s, with %s: %v", x.tool, x.what, err)
			return nil
		}
		if !res.IsError() {
			continue
		}
		if c.judge(x, res.Error); res.Error.Code == abi.CodeCleanup {
			return nil
		}
	}
	return nil
}

// absentServices stands in for the services the tools declare: each is there,
// and fails.
func (c *checker) absentServices() map[string]tool.Service {
	out := map[string]tool.Service{}
	for _, t := range c.manifest.Tools {
		for _, name := range t.Services {
			out[name] = absentService{}
		}
	}
	return out
}

type absentService struct{}

// Invoke fails as a service that has nothing would.
func (absentService) Invoke(context.Context, tool.Request) (tool.Answer, error) {
	return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "there is no such service here")
}

// judge reports an outcome that a well-made tool does not have. Any error of the
// tool's own is a fine answer to a sample.
func (c *checker) judge(x sample, e *abi.Error) {
	fix := fixOf(e.Code)
	where := c.whereIs(x.tool)
	switch e.Code {
	case abi.CodeTimeout, abi.CodeTimeoutRan, abi.CodeCleanup:
		c.add("V09", sevError, "module", "end every call soon when it has nothing to do, and look at ctx.Err, or at cancelled, in loops",
			"%s did not end within %v, with %s", x.tool, sampleTime, x.what)
	case abi.CodeOutputSchema:
		if x.severity == sevError {
			c.add("V09", sevError, where, fix, "%s, with %s: %s", x.tool, x.what, e.Message)
		}
	case abi.CodeInstantiation, abi.CodeGuestTrap, abi.CodeGuestOOM, abi.CodeGuestStack, abi.CodeGuestExit, abi.CodeGuestNoResult,
		abi.CodeGuestTwice, abi.CodeGuestAfterRet, abi.CodeGuestPointer, abi.CodeGuestProtocol, abi.CodeGuestPhase,
		abi.CodeNoResult, abi.CodeResultNotJSON, abi.CodeResultShape, abi.CodeResultTooBig, abi.CodeYieldLimit, abi.CodeInit, abi.CodeCompile:
		if x.severity == sevWarn {
			fix = "answer with an error what the schema excludes: no host sends it, but another version of the manifest may"
		}
		c.add("V09", x.severity, where, fix, "%s, with %s: %s [%s]", x.tool, x.what, e.Message, e.Code)
	case "panic": // what the Go kit makes of a panic
		c.add("V09", sevWarn, where, "return an error instead", "%s panicked, with %s: %s", x.tool, x.what, e.Message)
	}
}

func (c *checker) whereIs(name string) string {
	for i, t := range c.manifest.Tools {
		if t.Name == name {
			return fmt.Sprintf("/tools/%d", i)
		}
	}
	return "/tools"
}
