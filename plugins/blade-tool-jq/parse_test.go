package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// all reads every document of a text, whatever the pieces it comes in.
func all(src io.Reader) (list []any, err error) {
	p := newParser(src, nil)
	for {
		v, ok, err := p.next()
		if err != nil || !ok {
			return list, err
		}
		list = append(list, v)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		line, column int
	}{
		{"a word", "nul", 1, 4},
		{"another word", "nulL", 1, 4},
		{"two words", "truefalse", 1, 5},
		{"two numbers without a space", "1-2", 1, 2},
		{"a plus sign", "+1", 1, 1},
		{"a leading zero", "01", 1, 2},
		{"no digit after the point", "1.", 1, 3},
		{"no digit before the point", ".5", 1, 1},
		{"no digit in the exponent", "1e+", 1, 4},
		{"a minus alone", "[-]", 1, 3},
		{"a comma at the end", "[1,]", 1, 4},
		{"a comma at the end of an object", `{"a":1,}`, 1, 8},
		{"a name without quotes", "{a:1}", 1, 2},
		{"no colon", `{"a" 1}`, 1, 6},
		{"no comma", "[1\n 2]", 2, 2},
		{"a newline in a string", "\"a\nb\"", 1, 3},
		{"an escape that is none", `"\x"`, 1, 3},
		{"hex digits that are none", `"\u12g4"`, 1, 6},
		{"an open string", `["abc`, 1, 6},
		{"an open array", "[[]", 1, 4},
		{"a closing bracket", "1 ]", 1, 3},
		{"single quotes", "'a'", 1, 1},
		{"a comment", "1 // x", 1, 3},
		{"half a byte order mark", "\xef\xbb1", 1, 3},
		{"a byte order mark in the middle", "1 \ufeff", 1, 3},
		{"too deep", strings.Repeat("[", 10_002), 1, 10_002},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				_, err := all(src)
				var at *syntaxError
				if !errors.As(err, &at) {
					t.Fatalf("error %v", err)
				}
				if at.Line != c.line || at.Column != c.column {
					t.Errorf("at line %d, column %d (%v); want %d, %d", at.Line, at.Column, err, c.line, c.column)
				}
			}
		})
	}
}

func TestParseReadErrors(t *testing.T) {
	boom := errors.New("boom")
	for _, text := range []string{"", "[1", `"abc`, "12", "tru", `"\u00`, `{"a"`} {
		if _, err := all(io.MultiReader(strings.NewReader(text), iotest.ErrReader(boom))); !errors.Is(err, boom) {
			t.Errorf("%q: error %v", text, err)
		}
	}
	stop := errors.New("stop")
	p := newParser(iotest.OneByteReader(strings.NewReader("[1,2,3]")), func(int) error { return stop })
	if _, _, err := p.next(); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

// FuzzParse: the parser takes the documents that encoding/json takes, with equal
// values, whatever the pieces they come in.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00\n",true,false,null]}`, `1 2 [] {} "a""b" null`, `[1,2`, `"\ud800\u0041"`, "\"\xff\xfe\"",
		`123456789012345678 1234567890123456789 -0 0.10 1E5 1e-5 0.1`, "\ufeff1", `{"a":1,"a":{"b":2}}`, `"\ud800\ud83d\ude00\\"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := all(bytes.NewReader(b))
		slow, slowErr := all(iotest.OneByteReader(bytes.NewReader(b)))
		if (err == nil) != (slowErr == nil) || !reflect.DeepEqual(got, slow) {
			t.Fatalf("in one piece %v %v, in many %v %v", got, err, slow, slowErr)
		}
		dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
		dec.UseNumber()
		var want []any
		for {
			var v any
			if e := dec.Decode(&v); e == io.EOF {
				break
			} else if e != nil {
				if err == nil {
					t.Fatalf("encoding/json refuses: %v", e)
				}
				return
			}
			want = append(want, v)
		}
		if err != nil {
			return // two words in a row, which encoding/json splits; or too deep
		}
		if len(got) != len(want) {
			t.Fatalf("%d documents, want %d", len(got), len(want))
		}
		for i := range got {
			if !equal(got[i], want[i]) {
				t.Fatalf("%#v, want %#v", got[i], want[i])
			}
		}
	})
}

func equal(got, want any) bool {
	switch w := want.(type) {
	case json.Number:
		b, err := appendJSON(nil, got, 0)
		if n, ok := got.(json.Number); ok {
			return n == w
		}
		x, ok1 := new(big.Rat).SetString(string(b))
		y, ok2 := new(big.Rat).SetString(w.String())
		return err == nil && ok1 && ok2 && x.Cmp(y) == 0
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !equal(g[i], w[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k := range w {
			if !equal(g[k], w[k]) {
				return false
			}
		}
		return true
	}
	return got == want
}
