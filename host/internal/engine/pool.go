package engine

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// pool makes, lends and ends the instances of one plugin in one world. How it
// keeps calls apart and how it stops them is its own business.
type pool interface {
	// run executes tool number index and returns its result. Nothing the guest
	// does is an error: the result tells. An error means that ctx ended first;
	// it is the cause.
	run(ctx context.Context, index int, call *tool.Call, at *place) (*abi.Result, error)
	// describe runs blade_describe.
	describe(ctx context.Context) (json.RawMessage, error)
	// warm prepares what the first call needs.
	warm(ctx context.Context) error
	// close ends the instances that nobody uses.
	close()
}

func newPool(p *Plugin, w *World) pool { return &fresh{plugin: p, world: w} }
