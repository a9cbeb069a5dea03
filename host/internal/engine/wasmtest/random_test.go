package wasmtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

// program writes random code that always ends: local 0 is the parameter and what
// the code works on, each depth of loops has a local that counts down.
type program struct {
	rng   *rand.Rand
	code  []byte
	depth int
	// open counts the open blocks that code may branch to.
	open int
}

const (
	nop, block, loop, end, br, brIf, brTable, ret = 0x01, 0x02, 0x03, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f
	get, set, tee, i32const, add, sub, xor, mul   = 0x20, 0x21, 0x22, 0x41, 0x6a, 0x6b, 0x73, 0x6c
	and, void, i32                                = 0x71, 0x40, 0x7f
	maxDepth                                      = 3
)

func (p *program) emit(b ...byte) { p.code = append(p.code, b...) }

// work changes local 0.
func (p *program) work() {
	op := []byte{add, sub, xor, mul}[p.rng.IntN(4)]
	p.emit(get, 0, i32const, byte(p.rng.IntN(60)+1), op, set, 0)
}

// condition puts something on the stack that is now true and now false.
func (p *program) condition() { p.emit(get, 0, i32const, byte(p.rng.IntN(7)+1), and) }

func (p *program) label() byte { return byte(p.rng.IntN(p.open)) }

func (p *program) statement(budget int) {
	switch k := p.rng.IntN(8); {
	case k < 2 || budget <= 0:
		p.work()
	case k == 2:
		p.condition()
		p.emit(brIf, p.label())
	case k == 3:
		p.emit(block, void)
		p.open++
		p.condition()
		p.emit(brTable, 2, p.label(), p.label(), p.label(), end)
		p.open--
	case k == 4 && p.rng.IntN(6) == 0:
		p.emit(block, void)
		p.condition()
		p.emit(brIf, 0, get, 0, ret, end)
	case k == 5:
		p.emit(block, void)
		p.open++
		for range p.rng.IntN(4) + 1 {
			p.statement(budget / 2)
		}
		p.open--
		p.emit(end)
	case p.depth < maxDepth:
		p.loop(budget / 2)
	}
}

// loop goes round a few times at most, with a result or without.
func (p *program) loop(budget int) {
	p.depth++
	counter := byte(p.depth)
	result := p.rng.IntN(3) == 0
	p.emit(i32const, byte(p.rng.IntN(5)+1), set, counter)
	if result {
		p.emit(loop, i32)
	} else {
		p.emit(loop, void)
	}
	p.open++
	// Out by a return when the turns are used up, so that any branch back is allowed.
	p.emit(block, void, get, counter, i32const, 1, sub, tee, counter, brIf, 0, get, 0, ret, end)
	p.work()
	if p.rng.IntN(4) == 0 { // too large to be repeated
		for range 60 {
			p.work()
		}
	}
	for range p.rng.IntN(4) + 1 {
		p.statement(budget)
	}
	if p.rng.IntN(2) == 0 {
		p.condition()
		p.emit(brIf, 0)
	}
	p.open--
	if result {
		p.emit(get, 0, end, set, 0)
	} else {
		p.emit(end)
	}
	p.depth--
}

func section(id byte, content ...byte) []byte {
	return append(leb([]byte{id}, len(content)), content...)
}

func leb(b []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func randomModule(seed uint64) []byte {
	p := &program{rng: rand.New(rand.NewPCG(seed, 1))}
	for range 25 { // each in a block of its own, so that a branch outwards skips only that
		p.emit(block, void)
		p.open = 1
		p.statement(16)
		p.emit(end)
	}
	body := append([]byte{1, maxDepth, i32}, p.code...)
	body = append(body, get, 0, end)
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, section(1, 1, 0x60, 1, i32, 1, i32)...)
	out = append(out, section(3, 1, 0)...)
	out = append(out, section(5, 1, 0, 1)...)
	out = append(out, section(7, append([]byte{2, 1, 'f', 0, 0, 6}, append([]byte("memory"), 2, 0)...)...)...)
	return append(out, section(10, append(leb([]byte{1}, len(body)), body...)...)...)
}

// TestRandomProgramsBehaveTheSame: loops that are repeated, doubled and left in all
// ways give what they gave before, and cost the same for every slice.
func TestRandomProgramsBehaveTheSame(t *testing.T) {
	ctx := context.Background()
	n := uint64(400)
	if raceEnabled {
		n = 60
	}
	for seed := range n {
		b := randomModule(seed)
		var used []int64
		for _, slice := range []int64{1, 1 << 20} {
			r := &meter{slice: slice, budget: -1}
			plain, changed, m := pair(t, b, wasm.Options{}, r)
			for _, x := range []uint64{0, 7, 12345} {
				want, err1 := plain.ExportedFunction("f").Call(ctx, x)
				got, err2 := changed.ExportedFunction("f").Call(ctx, x)
				if fmt.Sprint(want, err1) != fmt.Sprint(got, err2) {
					t.Fatalf("seed %d, f(%d): got %v %v, want %v %v", seed, x, got, err2, want, err1)
				}
			}
			used = append(used, r.given-int64(changed.ExportedGlobal(m.FuelGlobal).Get()))
		}
		if used[0] != used[1] {
			t.Errorf("seed %d costs %d", seed, used)
		}
	}
}
