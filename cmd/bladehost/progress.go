package main

import (
	"fmt"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/bladehost/bladehost/abi"
)

// progress shows the yields of a call on a terminal: a bar that moves, and
// messages above it. Elsewhere it shows nothing.
type progress struct {
	a    *app
	name string
	p    *mpb.Progress
	bar  *mpb.Bar
	// text is read by the goroutine that draws.
	text atomic.Pointer[string]
}

func (a *app) newProgress(name string) *progress {
	b := &progress{a: a, name: name}
	if a.errTTY && !a.json {
		b.p = mpb.New(mpb.WithOutput(a.err), mpb.WithWidth(64))
	}
	return b
}

func (b *progress) show(y abi.Yield) {
	if b.p == nil {
		return
	}
	if y.Kind == abi.YieldMessage {
		_, _ = fmt.Fprintln(b.p, printable(y.Content.Summary)) // a terminal that is gone ends the process soon
		return
	}
	if y.Kind != abi.YieldProgress {
		return
	}
	text := oneLine(y.Message)
	b.text.Store(&text)
	if b.bar == nil {
		b.bar = b.p.New(0, mpb.BarStyle(), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return b.name + " " })),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Any(func(decor.Statistics) string { return " " + *b.text.Load() })))
	}
	if y.Total != nil {
		b.bar.SetTotal(scaled(*y.Total), false)
	}
	if y.Completed != nil {
		b.bar.SetCurrent(scaled(*y.Completed))
	}
}

// scaled keeps fractions visible: totals below a few hundred would move in jumps.
func scaled(v float64) int64 { return int64(v * 100) }

func oneLine(s string) string {
	const most = 40
	r := []rune(printable(s))
	if len(r) > most {
		r = append(r[:most], '…')
	}
	for i := range r {
		if r[i] == '\n' || r[i] == '\t' {
			r[i] = ' '
		}
	}
	return string(r)
}

func (b *progress) close() {
	if b.p == nil {
		return
	}
	if b.bar != nil {
		b.bar.Abort(true)
	}
	b.p.Wait()
}
