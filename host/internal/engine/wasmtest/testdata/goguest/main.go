// Command goguest is a Go guest for tests of the rewriter. It is built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared
//
// Each export takes a size and returns a number that depends on all the work.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
)

type record struct {
	Name   string         `json:"name"`
	Values []float64      `json:"values"`
	More   map[string]any `json:"more"`
}

//go:wasmexport json
func jsonRound(n int32) int64 {
	in := record{Name: "some name", More: map[string]any{"x": 1.5, "y": []string{"a", "b"}}}
	for i := range 50 {
		in.Values = append(in.Values, float64(i)*1.25)
	}
	total := 0
	for range n {
		b, err := json.Marshal(in)
		if err != nil {
			panic(err)
		}
		var out record
		if err := json.Unmarshal(b, &out); err != nil {
			panic(err)
		}
		total += len(b) + len(out.Values)
	}
	return int64(total)
}

//go:wasmexport sort
func sortNumbers(n int32) int64 {
	xs := make([]uint32, n)
	seed := uint32(1)
	for i := range xs {
		seed = seed*1664525 + 1013904223
		xs[i] = seed
	}
	slices.Sort(xs)
	return int64(xs[len(xs)/2])
}

//go:wasmexport sha256
func hash(n int32) int64 {
	data := bytes.Repeat([]byte("abcdefgh"), 1024)
	sum := sha256.Sum256(data)
	for range n {
		copy(data, sum[:])
		sum = sha256.Sum256(data)
	}
	return int64(binary.LittleEndian.Uint64(sum[:]) >> 1)
}

//go:wasmexport deep
func deep(n int32) int64 {
	if n == 0 {
		return 0
	}
	return 1 + deep(n-1)
}

//go:wasmexport forever
func forever(n int32) int64 {
	for {
		n++
	}
}

//go:wasmexport split
func split(n int32) int64 {
	total := 0
	text := strings.Repeat("the quick brown fox ", 100)
	for range n {
		total += len(strings.Fields(strings.ToUpper(text)))
	}
	return int64(total)
}

func main() {}
