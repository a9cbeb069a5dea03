package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// sample holds what one side of a pair took, in nanoseconds a call, pair by pair.
type sample []float64

func median(s []float64) float64 {
	t := slices.Sorted(slices.Values(s))
	n := len(t)
	if n%2 == 1 {
		return t[n/2]
	}
	return (t[n/2-1] + t[n/2]) / 2
}

// interval is the median with its 95 % interval, by the ranks of a binomial
// distribution: it assumes nothing about how times are spread.
type interval struct{ low, mid, high float64 }

func intervalOf(s []float64) interval {
	t := slices.Sorted(slices.Values(s))
	n := len(t)
	k := int(math.Floor(float64(n)/2 - 0.98*math.Sqrt(float64(n))))
	k = min(max(k, 0), n-1)
	return interval{t[k], median(t), t[n-1-k]}
}

func pairwise(a, b sample, f func(a, b float64) float64) interval {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = f(a[i], b[i])
	}
	return intervalOf(out)
}

// goal is what an interval is held against.
type goal struct {
	value float64
	least bool // at least, or at most
	unit  string
}

func (g goal) String() string {
	if g.value == 0 {
		return ""
	}
	word := "≤"
	if g.least {
		word = "≥"
	}
	return word + " " + g.number(g.value)
}

func (g goal) number(v float64) string {
	switch g.unit {
	case "ns":
		return duration(v)
	case "bytes":
		return fmt.Sprintf("%.0f KiB", v/1024)
	}
	if v >= 20 {
		return fmt.Sprintf("%.0f×", v)
	}
	return fmt.Sprintf("%.2f×", v)
}

func (g goal) text(i interval) string {
	return fmt.Sprintf("%s (%s to %s)", g.number(i.mid), g.number(i.low), g.number(i.high))
}

// verdict is a miss only if the whole interval is beyond the goal.
func (g goal) verdict(i interval) string {
	if g.value == 0 {
		return ""
	}
	met, missed := i.mid <= g.value, i.low > g.value
	if g.least {
		met, missed = i.mid >= g.value, i.high < g.value
	}
	switch {
	case missed:
		return "**missed**"
	case met:
		return "met"
	}
	return "open"
}

func duration(ns float64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "−", -ns
	}
	switch d := time.Duration(ns); {
	case d < time.Microsecond:
		return fmt.Sprintf("%s%.0f ns", sign, ns)
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%s%.1f µs", sign, ns/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%s%.0f µs", sign, ns/1e3)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%s%.1f ms", sign, ns/1e6)
	}
	return fmt.Sprintf("%s%.0f ms", sign, ns/1e6)
}
