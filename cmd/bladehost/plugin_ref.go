package main

import (
	"context"
	"os"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// pluginsFor loads the plugin that ref names, or, without one, the installed
// plugins that have the tool.
func (a *app) pluginsFor(ctx context.Context, h *host.Host, ref, name string) ([]*host.Plugin, error) {
	if ref == "" {
		return nil, nil
	}
	b, err := a.moduleOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	p, err := h.LoadPlugin(b, host.PluginOptions{Trust: tool.TrustWorkspace, Origin: ref})
	if err != nil {
		return nil, err
	}
	return []*host.Plugin{p}, nil
}

// moduleOf reads the module that ref names.
func (a *app) moduleOf(_ context.Context, ref string) ([]byte, error) {
	b, err := os.ReadFile(ref)
	if err != nil {
		return nil, abi.NewError(abi.CodeIO, "%v", err)
	}
	return b, nil
}
