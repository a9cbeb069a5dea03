package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/host/caps/fs"
)

// World is what the instances of one grant set see.
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

// NewWorld completes w, which must not change afterwards. Worlds of the same
// grants are the same to the engine: they share instances.
func NewWorld(w World) *World {
	var sb strings.Builder
	for _, m := range w.Mounts {
		// The grant itself is the identity: its folder may be another tomorrow. A
		// pool keeps its world, so the address is nobody else's meanwhile.
		fmt.Fprintf(&sb, "mount %p %q\n", m, m.GuestPath())
	}
	for _, e := range w.env() {
		fmt.Fprintf(&sb, "env %q\n", e)
	}
	fmt.Fprintf(&sb, "fine %v limits %+v", w.FineClock, w.Limits)
	w.key = sb.String()
	return &w
}

func emptyWorld() *World { return NewWorld(World{}) }

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
