package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bladehost/bladehost/host/caps/fs"
)

// World is what the instances of one grant set see. Two calls share instances
// only if they have the same World.
type World struct {
	// Mounts are the granted folders, in the order of the guest's descriptors.
	Mounts []*fs.Grant
	// Env are the granted environment variables, by name.
	Env map[string]string
	// FineClock gives clocks finer than a millisecond.
	FineClock bool
	// Limits bounds what one call may do to its mounts; the zero value has defaults.
	Limits fs.Limits

	key string
}

var worldCount atomic.Int64

// NewWorld completes w, which must not change afterwards.
func NewWorld(w World) *World {
	w.key = fmt.Sprintf("world %d", worldCount.Add(1))
	return &w
}

func emptyWorld() *World { return &World{key: "empty"} }

// CanWrite reports whether a call in this world could change a file.
func (w *World) CanWrite() bool {
	return slices.ContainsFunc(w.Mounts, func(g *fs.Grant) bool { return !g.ReadOnly() })
}

// env is the environment as "NAME=value", sorted.
func (w *World) env() []string {
	var out []string
	for k, v := range w.Env {
		out = append(out, k+"="+v)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
